//! Reads `case.yaml`. Reports every error at once, and rejects a case with any error.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Case, CaseError, CaseTarget, Content, Expected, ExpectedFile, MAX_BYTES, check_path};
use crate::diagnostic::{Diagnostic, Severity, Span};
use crate::file::{scalar, suggest};
use crate::printable;
use crate::yaml::{self, Format, Kind, Node};

/// The longest case of the built-in skills has some 50 nodes.
pub(super) const FORMAT: Format =
    Format { name: "case", rule: "case-yaml", max_depth: 32, max_nodes: 20_000, max_aliases: 20 };

const KEYS: [&str; 9] = [
    "description",
    "script",
    "tool",
    "input",
    "command",
    "args",
    "stdin",
    "workspace",
    super::write::EXPECT,
];

const EXPECT_KEYS: [&str; 7] = ["exit", "stdout", "stderr", "result", "error", "files", "denials"];

/// The most texts in `contains` of one case.
const MAX_PARTS: usize = 100;

const CONTENT: &str = "a text, `{ contains: TEXT }` or `{ sha256: DIGEST }`";

/// Parses the text of a case. `file` is its path, for messages.
///
/// # Errors
/// Every error in the file.
pub fn parse(text: &str, file: &str) -> Result<Case, CaseError> {
    let mut reader = Reader { file, diagnostics: Vec::new(), parts: 0 };
    let mut case = Case::default();
    if text.len() > MAX_BYTES {
        let fix = "put large inputs into the files `stdin` and `workspace/`".to_owned();
        reader.error("case-size", None, "the case is larger than 1 MiB".into(), Some(fix));
    } else {
        match yaml::parse(text, file, &FORMAT) {
            Ok(root) => case = reader.case(&root),
            Err(diagnostic) => reader.diagnostics.push(*diagnostic),
        }
    }
    let mut diagnostics = reader.diagnostics;
    diagnostics.sort_by_key(|found| found.span.map(|span| span.offset));
    if diagnostics.is_empty() {
        Ok(case)
    } else {
        Err(CaseError { diagnostics, source_text: text.to_owned() })
    }
}

struct Reader<'a> {
    file: &'a str,
    diagnostics: Vec<Diagnostic>,
    /// The number of texts in `contains`.
    parts: usize,
}

impl Reader<'_> {
    fn case(&mut self, root: &Node) -> Case {
        let mut case = Case::default();
        let mut targets: Vec<(&'static str, Span)> = Vec::new();
        let mut input = None;
        let mut streams: Vec<(&'static str, Span)> = Vec::new();
        // An empty file runs the skill's only program.
        if matches!(root.kind, Kind::Null) {
            return case;
        }
        for (key, span, value) in self.table(root, "the case", &KEYS) {
            match key {
                "description" => case.description = self.text(value, key),
                "script" => case.target = CaseTarget::Script(self.word(value, key)),
                "command" => case.target = CaseTarget::Command(self.word(value, key)),
                "tool" => {
                    let name = self.word(value, key);
                    case.target = CaseTarget::Tool { name, input: Value::Object(Map::new()) };
                }
                "input" => input = Some((span, self.input(value))),
                "args" => case.args = self.args(value),
                "stdin" => case.stdin = self.text(value, key),
                "workspace" => case.workspace = self.workspace(value),
                _ => case.expect = self.expected(value),
            }
            match key {
                "script" | "tool" | "command" => targets.push((key, span)),
                "args" | "stdin" => streams.push((key, span)),
                _ => {}
            }
        }
        if let [(first, _), (second, span), ..] = targets[..] {
            let message =
                format!("a case runs one thing, and this one has `{first}` and `{second}`");
            self.error("case-target", Some(span), message, Some("write two cases".into()));
        }
        match (&mut case.target, input) {
            (CaseTarget::Tool { input, .. }, Some((_, given))) => *input = given,
            (_, Some((span, _))) => {
                let message = "`input` is for typed tools".to_owned();
                self.error("case-target", Some(span), message, Some("tool: NAME".into()));
            }
            (_, None) => {}
        }
        if matches!(case.target, CaseTarget::Tool { .. }) {
            for (key, span) in streams {
                let message = format!("`{key}` is not for typed tools");
                self.error("case-target", Some(span), message, Some("input: {}".into()));
            }
        }
        case
    }

    fn expected(&mut self, node: &Node) -> Expected {
        let mut expected = Expected::default();
        if matches!(node.kind, Kind::Null) {
            return expected;
        }
        for (key, span, value) in self.table(node, "`expect`", &EXPECT_KEYS) {
            match key {
                "exit" => match scalar(value).and_then(|text| text.parse().ok()) {
                    Some(code) => expected.exit = code,
                    None => {
                        let message = "`exit` must be an exit code, 0 to 255".to_owned();
                        self.error("case-type", Some(value.span), message, None);
                    }
                },
                "stdout" => expected.stdout = self.content(value, key),
                "stderr" => expected.stderr = self.content(value, key),
                "error" => expected.error = self.content(value, key),
                "result" => expected.result = Some(self.json(value)),
                "files" => expected.files = self.files(value, span),
                _ => expected.denials = self.texts(value, key, "[http://localhost:8000]"),
            }
        }
        expected
    }

    fn content(&mut self, node: &Node, what: &str) -> Content {
        let Kind::Map(entries) = &node.kind else {
            return match scalar(node) {
                Some(text) => Content::Text(text.to_owned()),
                None => self.wrong(node, what, CONTENT, Content::default()),
            };
        };
        match entries.as_slice() {
            [(key, value)] => match scalar(key) {
                Some("contains") => {
                    let parts = match scalar(value) {
                        Some(text) => vec![text.to_owned()],
                        None => self.texts(value, "contains", "[first, second]"),
                    };
                    self.count_parts(parts.len(), value.span);
                    Content::Contains(parts)
                }
                Some("sha256") => match scalar(value).filter(|text| is_digest(text)) {
                    Some(digest) => Content::Digest(digest.to_ascii_lowercase()),
                    None => {
                        self.wrong(value, "sha256", "64 hexadecimal digits", Content::default())
                    }
                },
                _ => {
                    self.unknown_key(
                        key,
                        &format!("`{}`", printable(what)),
                        &["contains", "sha256"],
                    );
                    Content::default()
                }
            },
            _ => self.wrong(node, what, CONTENT, Content::default()),
        }
    }

    /// Bounds the number of searches in what a run gave, which may be long.
    fn count_parts(&mut self, parts: usize, span: Span) {
        let before = self.parts;
        self.parts += parts;
        if before <= MAX_PARTS && self.parts > MAX_PARTS {
            let message = format!("the case has more than {MAX_PARTS} texts in `contains`");
            self.error("case-size", Some(span), message, None);
        }
    }

    fn files(&mut self, node: &Node, span: Span) -> BTreeMap<String, ExpectedFile> {
        let mut files = BTreeMap::new();
        for (path, _, value) in self.paths(node, "files", span) {
            let file = self.file(value, &path);
            files.insert(path, file);
        }
        files
    }

    fn file(&mut self, node: &Node, path: &str) -> ExpectedFile {
        if let Kind::Map(entries) = &node.kind
            && let [(key, value)] = entries.as_slice()
        {
            match (scalar(key), scalar(value)) {
                (Some("removed"), Some("true")) => return ExpectedFile::Removed,
                (Some("link"), Some(target)) => return ExpectedFile::Link(target.to_owned()),
                (Some("removed" | "link"), _) => {
                    let shapes = "`{ removed: true }` or `{ link: TARGET }`";
                    return self.wrong(node, path, shapes, ExpectedFile::Removed);
                }
                _ => {}
            }
        }
        ExpectedFile::Content(self.content(node, path))
    }

    fn workspace(&mut self, node: &Node) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for (path, span, value) in self.paths(node, "workspace", node.span) {
            let Some(text) = scalar(value) else {
                self.wrong(value, &path, "the text of the file", ());
                continue;
            };
            let leads_through = |one: &str, other: &str| {
                other.strip_prefix(one).is_some_and(|rest| rest.starts_with('/'))
            };
            let clash = files
                .keys()
                .find(|other: &&String| leads_through(other, &path) || leads_through(&path, other));
            if let Some(other) = clash {
                let (path, other) = (printable(&path), printable(other));
                let message = format!("`{path}` and `{other}` cannot both be files");
                self.error("case-path", Some(span), message, None);
            }
            files.insert(path, text.to_owned());
        }
        files
    }

    /// Returns the entries of a map from paths of the workspace.
    fn paths<'n>(
        &mut self,
        node: &'n Node,
        key: &str,
        span: Span,
    ) -> Vec<(String, Span, &'n Node)> {
        let mut paths = Vec::new();
        let Kind::Map(entries) = &node.kind else {
            let shape = "a map from paths to texts, e.g. `{ data.csv: \"a,b\\n\" }`";
            let message = format!("`{key}` must be {shape}, not {}", node.describe());
            self.error(
                "case-type",
                Some(if node.span.length == 0 { span } else { node.span }),
                message,
                None,
            );
            return paths;
        };
        for (path, value) in entries {
            let name = scalar(path).unwrap_or_default();
            match check_path(name) {
                Ok(()) => paths.push((name.to_owned(), path.span, value)),
                Err(why) => {
                    let message = format!("invalid path `{}`: {why}", printable(name));
                    self.error("case-path", Some(path.span), message, None);
                }
            }
        }
        paths
    }

    fn args(&mut self, node: &Node) -> Vec<String> {
        self.texts(node, "args", "[--verbose, data.csv]")
    }

    fn texts(&mut self, node: &Node, key: &str, example: &str) -> Vec<String> {
        let Kind::List(items) = &node.kind else {
            return self.wrong(node, key, &format!("a list, e.g. `{example}`"), Vec::new());
        };
        let mut texts = Vec::new();
        for item in items {
            match scalar(item) {
                Some(text) => texts.push(text.to_owned()),
                None => self.wrong(item, &format!("each item of `{key}`"), "a text", ()),
            }
        }
        texts
    }

    /// Returns a text, which may be empty.
    fn text(&mut self, node: &Node, key: &str) -> Option<String> {
        match scalar(node) {
            Some(text) => Some(text.to_owned()),
            None => self.wrong(node, key, "a text", None),
        }
    }

    /// Returns a text that is not empty.
    fn word(&mut self, node: &Node, key: &str) -> String {
        match scalar(node).filter(|text| !text.is_empty()) {
            Some(text) => text.to_owned(),
            None => self.wrong(node, key, "a text that is not empty", String::new()),
        }
    }

    fn input(&mut self, node: &Node) -> Value {
        match self.json(node) {
            Value::Object(input) => Value::Object(input),
            _ => self.wrong(node, "input", "a map, e.g. `{ text: to be }`", Value::Null),
        }
    }

    fn json(&mut self, node: &Node) -> Value {
        match &node.kind {
            Kind::Null => Value::Null,
            Kind::Scalar(text) if node.is_string => Value::String(text.clone()),
            Kind::Scalar(text) => match (serde_json::from_str(text), text.parse::<f64>()) {
                // serde_json's own float may be off by one unit in the last place.
                (Ok(value @ Value::Number(_)), Ok(float)) if value.is_f64() => float.into(),
                (Ok(value), _) => value,
                (Err(_), _) => {
                    let message = format!("`{}` is not a JSON number", printable(text));
                    let fix = Some("write numbers as JSON does, and texts in quotes".to_owned());
                    self.error("case-json", Some(node.span), message, fix);
                    Value::Null
                }
            },
            Kind::List(items) => Value::Array(items.iter().map(|item| self.json(item)).collect()),
            Kind::Map(entries) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    match scalar(key) {
                        Some(name) => drop(map.insert(name.to_owned(), self.json(value))),
                        None => self.wrong(key, "a key", "a text", ()),
                    }
                }
                Value::Object(map)
            }
        }
    }

    /// Returns the entries of a map with known keys, and reports the others.
    fn table<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        keys: &[&'static str],
    ) -> Vec<(&'static str, Span, &'n Node)> {
        let mut known = Vec::new();
        let Kind::Map(entries) = &node.kind else {
            let message = format!("{what} must be a map, not {}", node.describe());
            let fix = Some(format!("one of: {}", keys.join(", ")));
            self.error("case-type", Some(node.span), message, fix);
            return known;
        };
        for (key, value) in entries {
            match keys.iter().find(|known| Some(**known) == scalar(key)) {
                Some(name) => known.push((*name, key.span, value)),
                None => self.unknown_key(key, what, keys),
            }
        }
        known
    }

    fn unknown_key(&mut self, key: &Node, what: &str, keys: &[&str]) {
        let name = scalar(key).unwrap_or_default();
        let suggestion = suggest(name, keys);
        let message = match &suggestion {
            Some(known) => {
                format!("unknown key `{}` in {what}; did you mean `{known}`?", printable(name))
            }
            None if what == "the case" && EXPECT_KEYS.contains(&name) => {
                format!("`{name}` is a key of `expect`")
            }
            None => format!("unknown key `{}` in {what}", printable(name)),
        };
        let fix = match suggestion {
            Some(known) => format!("{known}:"),
            None if what == "the case" && EXPECT_KEYS.contains(&name) => {
                format!("expect:\n  {name}: ...")
            }
            None => format!("one of: {}", keys.join(", ")),
        };
        self.error("case-key", Some(key.span), message, Some(fix));
    }

    /// Reports a value of the wrong type, and returns `empty` in its place.
    fn wrong<T>(&mut self, node: &Node, what: &str, shape: &str, empty: T) -> T {
        let what = match what.contains('`') {
            true => what.to_owned(),
            false => format!("`{}`", printable(what)),
        };
        let message = match node.kind {
            Kind::Null => format!("{what} is empty; it must be {shape}"),
            _ => format!("{what} must be {shape}, not {}", node.describe()),
        };
        self.error("case-type", Some(node.span), message, None);
        empty
    }

    fn error(
        &mut self,
        rule: &'static str,
        span: Option<Span>,
        message: String,
        fix: Option<String>,
    ) {
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            rule,
            message,
            file: self.file.to_owned(),
            span,
            fix,
        });
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit())
}
