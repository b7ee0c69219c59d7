//! The command line.

use lexopt::prelude::*;

/// The text of `--help`.
pub const HELP: &str = "\
Checks files for syntax errors and common faults.

Usage: code-lint FILE...

  -h, --help  print this help

Checks Markdown, HTML, CSS, JavaScript, TypeScript, Python and shell scripts,
by their extensions. The exit code is 1 if something was found.
";

/// Parses the arguments after the program's name. `None` for `--help`.
///
/// # Errors
/// Returns the problem with the arguments.
pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Option<Vec<String>>, String> {
    parse_all(args).map_err(|error| format!("{error}; see --help"))
}

fn parse_all(args: impl IntoIterator<Item = String>) -> Result<Option<Vec<String>>, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut paths = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Value(path) => paths.push(path.string()?),
            other => return Err(other.unexpected()),
        }
    }
    if paths.is_empty() { Err("a file is missing".into()) } else { Ok(Some(paths)) }
}
