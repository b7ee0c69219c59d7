//! Counts the lines, words and characters of texts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Input of `count`. The field comments become descriptions that agents read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountInput {
    /// The text to count.
    text: String,
}

/// Output of `count`.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountOutput {
    /// Number of lines, including a last line without a newline.
    lines: usize,
    /// Number of words, separated by white space.
    words: usize,
    /// Number of Unicode characters.
    characters: usize,
}

/// Counts the lines, words and characters of a text. Use it when asked how long a text is.
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
    fn counts_lines_words_and_characters() {
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
