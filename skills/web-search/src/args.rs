//! The command line.

use lexopt::prelude::*;

use crate::engine::{Query, TimeRange};

/// The text of `--help`.
pub const HELP: &str = "\
Searches the web with the search engine that the operator configured.

Usage: web-search [OPTIONS] QUERY...

      --category NAME     search in this category, such as news; repeatable
      --language CODE     search in this language, such as de or en-GB
      --time-range RANGE  only pages of the last day, month or year
      --page N            page of the results [default: 1]
      --max-results N     maximum number of results to print [default: 10]
  -h, --help              print this help
";

/// Parses the arguments after the program's name. `None` for `--help`.
///
/// # Errors
/// Returns the problem with the arguments.
pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Option<Query>, String> {
    parse_all(args).map_err(|error| format!("{error}; see --help"))
}

fn parse_all(args: impl IntoIterator<Item = String>) -> Result<Option<Query>, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut found = Query::default();
    let mut words = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("category") => found.categories.push(parser.value()?.string()?),
            Long("language") => found.language = Some(parser.value()?.string()?),
            Long("time-range") => {
                let range = parser.value()?.string()?;
                let known = TimeRange::of(&range);
                found.time_range = Some(known.ok_or_else(|| {
                    format!("the time range `{range}` is not day, month or year")
                })?);
            }
            Long("page") => found.page = Some(parser.value()?.parse()?),
            Long("max-results") => found.max_results = Some(parser.value()?.parse()?),
            Short('h') | Long("help") => return Ok(None),
            Value(word) => words.push(word.string()?),
            other => return Err(other.unexpected()),
        }
    }
    if words.is_empty() {
        return Err("a query is missing".into());
    }
    found.query = words.join(" ");
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_form_one_query() {
        let args = |line: &str| parse(line.split_whitespace().map(str::to_owned));
        let found = args("rust --category news --time-range=day wasm --page 2").unwrap().unwrap();
        assert_eq!(found.query, "rust wasm");
        assert_eq!(found.categories, ["news"]);
        assert_eq!((found.time_range, found.page), (Some(TimeRange::Day), Some(2)));
        assert_eq!(args("").unwrap_err(), "a query is missing; see --help");
        assert_eq!(args("x -h").unwrap(), None);
        assert!(args("x --time-range week").unwrap_err().contains("`week` is not day"));
        assert!(args("x --nope").is_err());
    }
}
