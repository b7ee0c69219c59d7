//! Parses options as GNU's getopt does, and reports errors in its words.
//!
//! bash, git, zip and unzip have rules of their own and parse their arguments themselves.

use lexopt::{Error, Parser};

/// Returns a parser for the arguments of a command.
pub(crate) fn parser(args: &[String]) -> Parser {
    let mut parser = Parser::from_args(args);
    // `-ofile=1` names the file `file=1`.
    parser.set_short_equals(false);
    parser
}

/// Completes the error for an unknown option: adds a value attached to a long option.
pub(super) fn with_value(error: Error, parser: &mut Parser) -> Error {
    match (error, parser.optional_value()) {
        (Error::UnexpectedOption(option), Some(value)) if option.starts_with("--") => {
            Error::UnexpectedOption(format!("{option}={}", value.to_string_lossy()))
        }
        (error, _) => error,
    }
}

/// Returns the message of getopt.
pub(super) fn message(error: &Error) -> String {
    let letter =
        |option: &str| option.strip_prefix('-').filter(|l| !l.starts_with('-')).map(str::to_owned);
    match error {
        Error::MissingValue { option: Some(option) } => match letter(option) {
            Some(letter) => format!("option requires an argument -- '{letter}'"),
            None => format!("option '{option}' requires an argument"),
        },
        Error::UnexpectedOption(option) => match letter(option) {
            Some(letter) => format!("invalid option -- '{letter}'"),
            None => format!("unrecognized option '{option}'"),
        },
        Error::UnexpectedValue { option, .. } => {
            format!("option '{option}' doesn't allow an argument")
        }
        other => other.to_string(),
    }
}
