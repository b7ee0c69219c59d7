//! Rewrites the expectations of a case, for `--bless`. Everything outside `expect` stays as it is,
//! comments included.

use std::fmt::Write as _;

use serde_json::Value;

use super::parse::FORMAT;
use super::{Case, CaseError, Content, Expected, ExpectedFile, MAX_BYTES, parse};
use crate::diagnostic::is_hidden;
use crate::file::scalar;
use crate::yaml::{self, Kind};

/// The key of the expectations.
pub(super) const EXPECT: &str = "expect";

/// The width from which a result is written on several lines.
const WIDTH: usize = 100;

/// Why the expectations of a case cannot be rewritten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlessError {
    /// The text is not a valid case.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// `expect` cannot be replaced without touching something else.
    #[error("start each key of the case on a line of its own, without indentation")]
    Layout,
    /// The case would be too large.
    #[error(
        "the expectations are larger than 1 MiB in total; write `{{ contains: TEXT }}` for some"
    )]
    Size,
}

/// Returns the text of a case with these expectations.
///
/// # Errors
/// The text is not a case, or its keys are not on lines of their own.
pub fn bless(text: &str, expect: &Expected) -> Result<String, BlessError> {
    let case = parse(text, "case.yaml")?;
    let block = block(expect);
    let new = match place(text) {
        Some(at) => format!("{}{block}{}", &text[..at.start], &text[at.end..]),
        None if text.is_empty() || text.ends_with('\n') => format!("{text}{block}"),
        None => format!("{text}\n{block}"),
    };
    if new.len() > MAX_BYTES {
        return Err(BlessError::Size);
    }
    // The new text must mean exactly this. It does not if the old one has an unusual layout.
    match parse(&new, "case.yaml") {
        Ok(written) if written == (Case { expect: expect.clone(), ..case }) => Ok(new),
        _ => Err(BlessError::Layout),
    }
}

/// Returns the lines of `expect`, if the case has it, without the comments and blank lines after
/// them.
fn place(text: &str) -> Option<std::ops::Range<usize>> {
    let root = yaml::parse(text, "", &FORMAT).ok()?;
    let Kind::Map(entries) = root.kind else { return None };
    let keys = entries.iter().map(|(key, _)| (scalar(key), key.span.offset));
    let (_, start) = keys.clone().find(|(name, _)| *name == Some(EXPECT))?;
    let next = keys.map(|(_, offset)| offset).filter(|offset| *offset > start).min();
    let end = next.unwrap_or(text.len());
    let is_between = |line: &&str| line.trim().is_empty() || line.starts_with('#');
    let between = text.get(start..end)?.split_inclusive('\n').rev().take_while(is_between);
    Some(start..end - between.map(str::len).sum::<usize>())
}

/// Returns the block `expect`, or nothing if the run must give nothing.
fn block(expect: &Expected) -> String {
    let Expected { exit, stdout, stderr, result, error, files, denials } = expect;
    let mut out = String::new();
    if *exit != 0 {
        writeln!(out, "  exit: {exit}").ok();
    }
    for (key, content) in [("stdout", stdout), ("stderr", stderr)] {
        add_content(&mut out, 2, key, content);
    }
    if let Some(value) = result {
        writeln!(out, "  result: {}", flow(value, 2)).ok();
    }
    add_content(&mut out, 2, "error", error);
    if !files.is_empty() {
        out += "  files:\n";
    }
    for (path, file) in files {
        let path = key(path);
        match file {
            ExpectedFile::Content(Content::Text(text)) => add_text(&mut out, 4, &path, text),
            ExpectedFile::Content(content) => add_content(&mut out, 4, &path, content),
            ExpectedFile::Link(target) => {
                writeln!(out, "    {path}: {{ link: {} }}", quoted(target)).ok();
            }
            ExpectedFile::Removed => {
                writeln!(out, "    {path}: {{ removed: true }}").ok();
            }
        }
    }
    if !denials.is_empty() {
        out += "  denials:\n";
    }
    for denial in denials {
        writeln!(out, "    - {}", quoted(denial)).ok();
    }
    if out.is_empty() { out } else { format!("{EXPECT}:\n{out}") }
}

/// Adds a key with a content, unless the content is empty.
fn add_content(out: &mut String, indent: usize, key: &str, content: &Content) {
    let margin = " ".repeat(indent);
    match content {
        Content::Text(text) if text.is_empty() => {}
        Content::Text(text) => add_text(out, indent, key, text),
        Content::Digest(digest) => {
            writeln!(out, "{margin}{key}: {{ sha256: {} }}", quoted(digest)).ok();
        }
        Content::Contains(parts) => {
            let parts: Vec<String> = parts.iter().map(|part| quoted(part)).collect();
            let parts = match parts.as_slice() {
                [part] => part.clone(),
                parts => format!("[{}]", parts.join(", ")),
            };
            writeln!(out, "{margin}{key}: {{ contains: {parts} }}").ok();
        }
    }
}

/// Adds a key with a text: as lines if they show the text as it is, else in quotes.
fn add_text(out: &mut String, indent: usize, key: &str, text: &str) {
    let margin = " ".repeat(indent);
    let is_plain = |line: &str| !line.chars().any(|c| is_hidden(c) && c != '\t');
    let has_lines = text.contains('\n')
        && !text.starts_with(['\t', '\n'])
        && !text.ends_with("\n\n")
        && text.split('\n').all(is_plain)
        // Such lines would be hard to see.
        && !text.split('\n').any(|line| line.ends_with([' ', '\t']));
    if !has_lines {
        writeln!(out, "{margin}{key}: {}", quoted(text)).ok();
        return;
    }
    // Otherwise the first line would say how far all lines are indented.
    let indented = if text.starts_with(' ') { "2" } else { "" };
    let strip = if text.ends_with('\n') { "" } else { "-" };
    writeln!(out, "{margin}{key}: |{indented}{strip}").ok();
    for line in text.lines() {
        let line = if line.is_empty() { String::new() } else { format!("{margin}  {line}") };
        writeln!(out, "{line}").ok();
    }
}

/// Writes a key: in quotes unless it is clear without them.
fn key(text: &str) -> String {
    let is_clear = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.contains(['.', '/'])
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c));
    if is_clear { text.to_owned() } else { quoted(text) }
}

/// Writes a value in YAML's flow style, which is that of JSON: on one line if it is short.
fn flow(value: &Value, indent: usize) -> String {
    let (open, items, close) = match value {
        Value::String(text) => return quoted(text),
        Value::Array(items) => {
            ('[', items.iter().map(|item| (None, item)).collect::<Vec<_>>(), ']')
        }
        Value::Object(map) => ('{', map.iter().map(|(key, item)| (Some(key), item)).collect(), '}'),
        value => return value.to_string(),
    };
    let entries: Vec<String> = items
        .into_iter()
        .map(|(key, item)| {
            let item = flow(item, indent + 2);
            key.map_or_else(|| item.clone(), |key| format!("{}: {item}", quoted(key)))
        })
        .collect();
    let line = format!("{open}{}{close}", entries.join(", "));
    if line.len() + indent <= WIDTH && !line.contains('\n') {
        return line;
    }
    let margin = " ".repeat(indent + 2);
    format!(
        "{open}\n{margin}{}\n{}{close}",
        entries.join(&format!(",\n{margin}")),
        " ".repeat(indent)
    )
}

/// Writes a text in double quotes, with escapes for what a reader would not see.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '\t' => out += "\\t",
            c if is_hidden(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                match u32::from(c) {
                    code @ 0..=0xff => write!(out, "\\x{code:02x}"),
                    code @ 0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    code => write!(out, "\\U{code:08x}"),
                }
                .ok();
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Observed, ObservedFile};
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn blessed(text: &str, found: &Observed) -> String {
        let case = parse(text, "case.yaml").unwrap();
        bless(text, &case.expect.updated(found)).unwrap()
    }

    #[test]
    fn only_the_expectations_are_rewritten() {
        let found = Observed {
            exit: 2,
            stdout: b"one\ntwo\n".to_vec(),
            stderr: b"no end".to_vec(),
            files: [
                ("out/a.txt".to_owned(), ObservedFile::Content(b"a\n".to_vec())),
                ("old".to_owned(), ObservedFile::Removed),
            ]
            .into(),
            denials: vec!["http://localhost:8000".into()],
            ..Observed::default()
        };
        let text = "# why\nscript: a.py # here\n\nexpect: # gone\n  stdout: x\n  # gone too\n\n# kept\nargs: [b]\n";
        let expected = "# why
script: a.py # here

expect:
  exit: 2
  stdout: |
    one
    two
  stderr: \"no end\"
  files:
    \"old\": { removed: true }
    out/a.txt: |
      a
  denials:
    - \"http://localhost:8000\"

# kept
args: [b]
";
        assert_eq!(blessed(text, &found), expected);
        assert_eq!(blessed(expected, &found), expected, "blessing is stable");
        assert_eq!(
            blessed(expected, &Observed::default()),
            "# why\nscript: a.py # here\n\n\n# kept\nargs: [b]\n"
        );
    }

    #[test]
    fn expectations_that_are_met_stay_as_they_are() {
        let text = "script: a\nexpect:\n  stdout: { contains: [\"b\", \"c\"] }\n  stderr: \"x\"\n";
        let found =
            Observed { stdout: b"abc".to_vec(), stderr: b"x\n".to_vec(), ..Observed::default() };
        assert_eq!(blessed(text, &found), text);
    }

    #[test]
    fn result_of_a_tool_is_written_as_json() {
        let found = Observed {
            result: Some(json!({ "n": 1, "t": ["a\u{1b}", null, 1.5e300] })),
            ..Observed::default()
        };
        let text = blessed("tool: t\ninput: { a: 1 }\n", &found);
        assert_eq!(
            text,
            "tool: t\ninput: { a: 1 }\nexpect:\n  result: {\"n\": 1, \"t\": [\"a\\x1b\", null, 1.5e+300]}\n"
        );
    }

    #[test]
    fn case_in_another_layout_is_refused() {
        let expect = Expected { exit: 1, ..Expected::default() };
        for text in [
            "{script: a, expect: {exit: 0}}",
            "  script: a\n  expect:\n    exit: 0\n",
            "{script: a}",
        ] {
            assert_eq!(bless(text, &expect), Err(BlessError::Layout), "{text}");
        }
        assert!(matches!(bless("nonsense: 1", &expect), Err(BlessError::Case(_))));
    }

    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            "(\\PC|[ \t\n\r#:|>'\"\\\\-]|\u{0}|\u{85}|\u{2028}|\u{feff}){0,40}"
                .prop_map(String::into_bytes),
            "([a-z# ]{0,8}\n){0,5}".prop_map(String::into_bytes),
            proptest::collection::vec(any::<u8>(), 0..20),
        ]
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map("[a-z\"\\\\ ]{0,30}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn any_file() -> impl Strategy<Value = ObservedFile> {
        prop_oneof![
            any_bytes().prop_map(ObservedFile::Content),
            "\\PC{0,10}".prop_map(ObservedFile::Link),
            Just(ObservedFile::Removed),
        ]
    }

    proptest! {
        /// A blessed case parses, and the run that it was blessed with meets it.
        #[test]
        fn any_run_meets_the_case_that_it_blessed(
            exit in any::<u8>(),
            streams in (any_bytes(), any_bytes(), proptest::option::of("\\PC{1,20}")),
            result in proptest::option::of(any_json()),
            files in proptest::collection::btree_map("[a-z .#:-]{1,6}(/[a-zé]{1,4})?", any_file(), 0..4),
            denials in proptest::collection::vec("\\PC{0,20}", 0..3),
        ) {
            let (stdout, stderr, error) = streams;
            let files = files.into_iter().filter(|(path, _)| super::super::check_path(path).is_ok()).collect();
            let found = Observed { exit, stdout, stderr, result, error, files, denials };
            let text = bless("script: a\n", &Expected::of(&found)).unwrap();
            let case = parse(&text, "case.yaml").unwrap();
            prop_assert_eq!(case.expect.differences(&found), []);
            prop_assert_eq!(bless(&text, &case.expect).unwrap(), text);
        }
    }
}
