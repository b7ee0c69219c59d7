//! The command line.

use lexopt::prelude::*;

use crate::format::Format;

/// The text of `--help`.
pub const HELP: &str = "\
Converts between JSON, YAML, TOML and CSV, through a jq filter.

Usage: data-convert [OPTIONS] [FILE]...

  FILE                 input files; `-` or no file means standard input
  -f, --filter FILTER  jq filter, applied to each document [default: .]
      --from FORMAT    input format [default: from the file name, then the content]
      --to FORMAT      output format [default: from the name of -o, else json]
  -r, --raw-output     write strings without quotes (json, jsonl)
  -c, --compact        write JSON on one line
  -o, --output FILE    write to a file instead of standard output
  -h, --help           print this help

Formats: json, jsonl, yaml, toml, csv, tsv
";

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Args {
    /// The jq filter.
    pub filter: String,
    /// The format of the inputs, if set.
    pub from: Option<Format>,
    /// The format of the output: as set, or that of the output's file name.
    pub to: Format,
    /// Whether to write strings without quotes.
    pub raw: bool,
    /// Whether to write JSON on one line.
    pub compact: bool,
    /// The file to write.
    pub output: Option<String>,
    /// The files to read; `-` is standard input.
    pub inputs: Vec<String>,
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
    let mut found = Args {
        filter: ".".into(),
        from: None,
        to: Format::Json,
        raw: false,
        compact: false,
        output: None,
        inputs: vec![],
    };
    let mut to = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Short('f') | Long("filter") => found.filter = parser.value()?.string()?,
            Long("from") => found.from = Some(Format::from_name(&parser.value()?.string()?)?),
            Long("to") => to = Some(Format::from_name(&parser.value()?.string()?)?),
            Short('r') | Long("raw-output") => found.raw = true,
            Short('c') | Long("compact" | "compact-output") => found.compact = true,
            Short('o') | Long("output") => found.output = Some(parser.value()?.string()?),
            Short('h') | Long("help") => return Ok(None),
            Value(file) => found.inputs.push(file.string()?),
            other => return Err(other.unexpected()),
        }
    }
    if found.inputs.is_empty() {
        found.inputs.push("-".into());
    }
    found.to =
        to.or_else(|| found.output.as_deref().and_then(Format::from_path)).unwrap_or(Format::Json);
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Result<Option<Args>, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_like_jqs() {
        let found = args("-rc -f .a --from toml in.txt -o out.yaml more").unwrap().unwrap();
        assert_eq!((found.raw, found.compact, found.filter.as_str()), (true, true, ".a"));
        assert_eq!((found.from, found.to), (Some(Format::Toml), Format::Yaml));
        assert_eq!(found.inputs, ["in.txt", "more"]);
        assert_eq!(found.output.as_deref(), Some("out.yaml"));
    }

    #[test]
    fn default_is_standard_input_to_json() {
        let found = args("").unwrap().unwrap();
        assert_eq!(
            (found.inputs, found.to, found.filter),
            (vec!["-".to_owned()], Format::Json, ".".to_owned())
        );
        assert_eq!(args("-o x.csv --to=json").unwrap().unwrap().to, Format::Json);
    }

    #[test]
    fn invalid_arguments_are_reported() {
        assert_eq!(args("--form json").unwrap_err(), "invalid option '--form'; see --help");
        assert!(args("--to xml").unwrap_err().starts_with("unknown format \"xml\""));
        assert!(args("-f").unwrap_err().starts_with("missing argument for option '-f'"));
        assert_eq!(args("--help").unwrap(), None);
    }
}
