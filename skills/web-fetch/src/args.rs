//! The command line.

use lexopt::prelude::*;

/// What `--help` prints.
pub const HELP: &str = "\
Fetches a web page and prints it as readable text.

Usage: web-fetch [OPTIONS] URL

      --max-chars N  print at most so many characters of text [default: 20000]
      --links        print the links too
  -h, --help         print this
";

/// A command line, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Args {
    /// The page.
    pub url: String,
    /// How much of the text.
    pub max_chars: Option<usize>,
    /// Whether to print the links.
    pub links: bool,
}

/// Takes apart what follows the program's name. None if help was asked for.
///
/// # Errors
/// What is wrong with it.
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
    fn a_url_is_wanted() {
        let args = |line: &str| parse(line.split_whitespace().map(str::to_owned));
        let expected = Args { url: "https://x.example/".into(), max_chars: Some(10), links: true };
        assert_eq!(args("https://x.example/ --links --max-chars=10").unwrap(), Some(expected));
        assert_eq!(args("").unwrap_err(), "a URL is missing; see --help");
        assert!(args("a b").unwrap_err().starts_with("unexpected argument"));
    }
}
