//! The command line.

use lexopt::prelude::*;

/// The text of `--help`.
pub const HELP: &str = "\
Fetches a web page and prints it as readable text.

Usage: web-fetch [OPTIONS] URL

      --max-chars N  maximum number of characters to print [default: 20000]
      --links        also print the links
  -h, --help         print this help
";

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Args {
    /// The address of the page.
    pub url: String,
    /// The maximum number of characters.
    pub max_chars: Option<usize>,
    /// Whether to print the links.
    pub links: bool,
}

/// Parses the arguments after the program's name. `None` for `--help`.
///
/// # Errors
/// Returns the problem with the arguments.
pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Option<Args>, String> {
    parse_all(args).map_err(|error| format!("{error}; see --help"))
}

fn parse_all(args: impl IntoIterator<Item = String>) -> Result<Option<Args>, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut found = Args { url: String::new(), max_chars: None, links: false };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("max-chars") => found.max_chars = Some(parser.value()?.parse()?),
            Long("links") => found.links = true,
            Short('h') | Long("help") => return Ok(None),
            Value(url) if found.url.is_empty() => found.url = url.string()?,
            other => return Err(other.unexpected()),
        }
    }
    if found.url.is_empty() { Err("a URL is missing".into()) } else { Ok(Some(found)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_required() {
        let args = |line: &str| parse(line.split_whitespace().map(str::to_owned));
        let expected = Args { url: "https://x.example/".into(), max_chars: Some(10), links: true };
        assert_eq!(args("https://x.example/ --links --max-chars=10").unwrap(), Some(expected));
        assert_eq!(args("").unwrap_err(), "a URL is missing; see --help");
        assert!(args("a b").unwrap_err().starts_with("unexpected argument"));
    }
}
