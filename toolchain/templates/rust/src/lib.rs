//! Counts in texts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `count` is given. The comments of the fields become their descriptions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountInput {
    /// The text to count in.
    text: String,
}

/// What `count` gives back.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountOutput {
    /// Lines, the last one without a newline included.
    lines: usize,
    /// Words: what blanks separate.
    words: usize,
    /// Unicode characters.
    characters: usize,
}

/// Counts the lines, words and characters of a text.
#[skillhost_guest::tool]
pub async fn count(input: CountInput) -> Result<CountOutput, String> {
    Ok(count_in(&input.text))
}

skillhost_guest::tools!(count);

fn count_in(text: &str) -> CountOutput {
    CountOutput {
        lines: text.lines().count(),
        words: text.split_whitespace().count(),
        characters: text.chars().count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_counted() {
        assert_eq!(
            count_in("to be\nor not"),
            CountOutput {
                lines: 2,
                words: 4,
                characters: 12
            }
        );
    }
}
