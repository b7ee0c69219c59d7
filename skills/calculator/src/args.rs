//! The command line.

use lexopt::prelude::*;

/// The text of `--help`.
pub const HELP: &str = "\
Calculates an expression: arithmetic, units, dates.

Usage: calculator [-p PLACES] EXPRESSION...

  -p, --precision PLACES  decimal places of the result
  -h, --help              print this help

Examples: calculator '0.1 + 0.2'    calculator '5 km in miles'    calculator 2024-02-29 + 1 year
";

/// Parses the arguments after the program's name into expression and precision. `None` for
/// `--help`.
///
/// # Errors
/// Returns the problem with the arguments.
pub fn parse(
    args: impl IntoIterator<Item = String>,
) -> Result<Option<(String, Option<u32>)>, String> {
    parse_all(args).map_err(|error| format!("{error}; see --help"))
}

fn parse_all(
    args: impl IntoIterator<Item = String>,
) -> Result<Option<(String, Option<u32>)>, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut precision = None;
    let mut words: Vec<String> = Vec::new();
    loop {
        // After the first word everything belongs to the expression: in `5 -3`, `-3` is not an
        // option.
        if !words.is_empty() {
            for word in parser.raw_args()? {
                words.push(word.string()?);
            }
        }
        match parser.next()? {
            None => break,
            Some(Short('p') | Long("precision")) => precision = Some(parser.value()?.parse()?),
            Some(Short('h') | Long("help")) => return Ok(None),
            Some(Value(word)) => words.push(word.string()?),
            Some(other) => return Err(other.unexpected()),
        }
    }
    Ok(Some((words.join(" "), precision)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Result<Option<(String, Option<u32>)>, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn words_are_one_expression() {
        assert_eq!(args("-p 2 5 km in miles").unwrap(), Some(("5 km in miles".into(), Some(2))));
        assert_eq!(args("5 -3 -p").unwrap(), Some(("5 -3 -p".into(), None)));
        assert_eq!(args("-- -3 + 5").unwrap(), Some(("-3 + 5".into(), None)));
        assert_eq!(args("-h").unwrap(), None);
        assert!(args("-x").unwrap_err().contains("see --help"));
    }
}
