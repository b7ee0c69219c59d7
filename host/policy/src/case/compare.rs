//! How a run differs from what a case expects.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Content, Expected, ExpectedFile, MAX_BLESSED, Observed, ObservedFile};

/// One difference between what a case expects and what a run gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What differs: `exit code`, `stdout`, `stderr`, `result`, `error`, `denials` or the path of a
    /// file.
    pub what: String,
    /// What the case expects: a text, or a description.
    pub expected: String,
    /// What the run gave: a text, or a description.
    pub found: String,
    /// Whether both are texts, which a diff compares line by line.
    #[serde(skip)]
    pub is_text: bool,
}

impl Expected {
    /// Returns the expectations that exactly this run meets.
    pub fn of(found: &Observed) -> Expected {
        Expected {
            exit: found.exit,
            stdout: Content::of(&found.stdout),
            stderr: Content::of(&found.stderr),
            result: found.result.clone(),
            error: Content::of(found.error.as_deref().unwrap_or_default().as_bytes()),
            files: found.files.iter().map(|(path, file)| (path.clone(), file.into())).collect(),
            denials: found.denials.clone(),
        }
    }

    /// Returns these expectations, with those replaced that the run does not meet.
    #[must_use]
    pub fn updated(&self, found: &Observed) -> Expected {
        let new = Expected::of(found);
        let kept = |old: &Content, new: Content, bytes: &[u8]| {
            if old.matches(bytes) { old.clone() } else { new }
        };
        let error = found.error.as_deref().unwrap_or_default().as_bytes();
        let files = new.files.into_iter().map(|(path, file)| match self.files.get(&path) {
            Some(old) if old.matches(&found.files[&path]) => (path, old.clone()),
            _ => (path, file),
        });
        Expected {
            exit: new.exit,
            stdout: kept(&self.stdout, new.stdout, &found.stdout),
            stderr: kept(&self.stderr, new.stderr, &found.stderr),
            result: new.result,
            error: kept(&self.error, new.error, error),
            files: files.collect(),
            denials: if sorted(&self.denials) == sorted(&new.denials) {
                self.denials.clone()
            } else {
                new.denials
            },
        }
    }

    /// Returns every difference, in the order of the keys.
    pub fn differences(&self, found: &Observed) -> Vec<Difference> {
        let mut all = Vec::new();
        if self.exit != found.exit {
            all.push(said("exit code", self.exit.to_string(), found.exit.to_string()));
        }
        all.extend(self.stdout.difference("stdout", &found.stdout));
        all.extend(self.stderr.difference("stderr", &found.stderr));
        if self.result != found.result {
            let shown = |value: &Option<Value>| {
                value.as_ref().map_or_else(String::new, |value| format!("{value:#}\n"))
            };
            all.push(texts("result", shown(&self.result), shown(&found.result)));
        }
        let error = found.error.as_deref().unwrap_or_default();
        all.extend(self.error.difference("error", error.as_bytes()));
        for (path, expected) in &self.files {
            match found.files.get(path) {
                Some(file) if expected.matches(file) => {}
                Some(ObservedFile::Content(bytes)) => match expected {
                    ExpectedFile::Content(content) => all.extend(content.difference(path, bytes)),
                    expected => all.push(said(path, expected.describe(), describe_bytes(bytes))),
                },
                Some(file) => all.push(said(path, expected.describe(), file.describe())),
                None => all.push(said(path, expected.describe(), "not changed".into())),
            }
        }
        for (path, file) in found.files.iter().filter(|(path, _)| !self.files.contains_key(*path)) {
            all.push(match file {
                ObservedFile::Content(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => texts(path, String::new(), text.to_owned()),
                    Err(_) => said(path, "not changed".into(), describe_bytes(bytes)),
                },
                file => said(path, "not changed".into(), file.describe()),
            });
        }
        if sorted(&self.denials) != sorted(&found.denials) {
            let lines = |denials: &[String]| {
                denials.iter().map(|denial| format!("{denial}\n")).collect::<String>()
            };
            all.push(texts("denials", lines(&self.denials), lines(&found.denials)));
        }
        all
    }
}

impl Content {
    /// Returns the content of these bytes: the text, or the digest of bytes that are long or not
    /// UTF-8.
    fn of(bytes: &[u8]) -> Content {
        match std::str::from_utf8(bytes) {
            Ok(text) if text.len() <= MAX_BLESSED => Content::Text(text.to_owned()),
            _ => Content::Digest(digest(bytes)),
        }
    }

    /// Checks whether bytes meet the expectation.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        match self {
            Content::Text(text) if text.is_empty() => bytes.is_empty(),
            Content::Text(text) if text.ends_with('\n') => text.as_bytes() == bytes,
            Content::Text(text) => {
                text.as_bytes() == bytes.strip_suffix(b"\n").unwrap_or(bytes)
                    || text.as_bytes() == bytes
            }
            Content::Contains(parts) => {
                let text = String::from_utf8_lossy(bytes);
                parts.iter().all(|part| text.contains(part.as_str()))
            }
            Content::Digest(expected) => *expected == digest(bytes),
        }
    }

    fn difference(&self, what: &str, bytes: &[u8]) -> Option<Difference> {
        if self.matches(bytes) {
            return None;
        }
        Some(match (self, std::str::from_utf8(bytes)) {
            (Content::Text(text), Ok(found)) => {
                // The line end that is optional is not shown as a difference.
                let is_open = !text.is_empty() && !text.ends_with('\n') && found.ends_with('\n');
                let expected = if is_open { format!("{text}\n") } else { text.clone() };
                texts(what, expected, found.to_owned())
            }
            (Content::Contains(parts), Ok(found)) => {
                let missing = parts.iter().filter(|part| !found.contains(part.as_str()));
                let missing = missing.map(|part| format!("{part:?}")).collect::<Vec<_>>();
                said(what, format!("a text that contains {}", missing.join(" and ")), shown(found))
            }
            (content, _) => said(what, content.describe(), describe_bytes(bytes)),
        })
    }

    fn describe(&self) -> String {
        match self {
            Content::Text(text) => shown(text),
            Content::Contains(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| format!("{part:?}")).collect();
                format!("a text that contains {}", parts.join(" and "))
            }
            Content::Digest(digest) => format!("bytes with sha256 {digest}"),
        }
    }
}

impl ExpectedFile {
    fn matches(&self, found: &ObservedFile) -> bool {
        match (self, found) {
            (ExpectedFile::Content(content), ObservedFile::Content(bytes)) => {
                content.matches(bytes)
            }
            (
                ExpectedFile::Content(Content::Digest(expected)),
                ObservedFile::Large { digest, .. },
            ) => expected == digest,
            (ExpectedFile::Link(expected), ObservedFile::Link(target)) => expected == target,
            (ExpectedFile::Removed, ObservedFile::Removed) => true,
            _ => false,
        }
    }

    fn describe(&self) -> String {
        match self {
            ExpectedFile::Content(content) => content.describe(),
            ExpectedFile::Link(target) => format!("a symlink to {target}"),
            ExpectedFile::Removed => "removed".into(),
        }
    }
}

impl ObservedFile {
    fn describe(&self) -> String {
        match self {
            ObservedFile::Content(bytes) => describe_bytes(bytes),
            ObservedFile::Large { bytes, digest } => {
                format!("{bytes} bytes with sha256 {digest}")
            }
            ObservedFile::Link(target) => format!("a symlink to {target}"),
            ObservedFile::Removed => "removed".into(),
        }
    }
}

impl From<&ObservedFile> for ExpectedFile {
    fn from(found: &ObservedFile) -> ExpectedFile {
        match found {
            ObservedFile::Content(bytes) => ExpectedFile::Content(Content::of(bytes)),
            ObservedFile::Large { digest, .. } => {
                ExpectedFile::Content(Content::Digest(digest.clone()))
            }
            ObservedFile::Link(target) => ExpectedFile::Link(target.clone()),
            ObservedFile::Removed => ExpectedFile::Removed,
        }
    }
}

fn texts(what: &str, expected: String, found: String) -> Difference {
    Difference { what: what.to_owned(), expected, found, is_text: true }
}

fn said(what: &str, expected: String, found: String) -> Difference {
    Difference { what: what.to_owned(), expected, found, is_text: false }
}

fn sorted(texts: &[String]) -> Vec<&String> {
    let mut texts: Vec<&String> = texts.iter().collect();
    texts.sort();
    texts
}

/// The start of a text that lacks something.
fn shown(text: &str) -> String {
    const SHOWN: usize = 500;
    if text.len() <= SHOWN {
        return format!("{text:?}");
    }
    format!("{:?}... ({} bytes)", &text[..text.floor_char_boundary(SHOWN)], text.len())
}

fn describe_bytes(bytes: &[u8]) -> String {
    format!("{} bytes with sha256 {}", bytes.len(), digest(bytes))
}

/// The SHA-256 digest of bytes, as 64 hexadecimal digits.
fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
