//! Test cases of skills: what `case.yaml` says, how a run differs from it, and how `--bless` writes
//! it. Plain data without I/O; `docs/reference/test-cases.md` describes the format.
//!
//! The author of a skill writes its cases, so a case is untrusted input. It says what to run and
//! what to expect. It grants nothing: it has no key for permissions, limits, variables or mounts.

mod compare;
mod parse;
mod schema;
mod write;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::diagnostic::Diagnostic;

pub use compare::Difference;
pub use parse::parse;
pub use schema::schema;
pub use write::{BlessError, bless};

/// The most bytes of a `case.yaml`.
pub const MAX_BYTES: usize = 1 << 20;

/// The most bytes of a text that `--bless` writes into a case. Of longer ones it writes the digest.
pub const MAX_BLESSED: usize = 64 << 10;

/// One test case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Case {
    /// What the case is about.
    pub description: Option<String>,
    /// The part of the skill to run.
    pub target: CaseTarget,
    /// The program's arguments.
    pub args: Vec<String>,
    /// The standard input.
    pub stdin: Option<String>,
    /// Files of the workspace at the start, by path. More of them may be in a folder.
    pub workspace: BTreeMap<String, String>,
    /// What the run must give.
    pub expect: Expected,
}

/// The part of a skill that a case runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum CaseTarget {
    /// The component's command, or the only script.
    #[default]
    Main,
    /// The script of this path or name.
    Script(String),
    /// A typed tool.
    Tool {
        /// The tool's name.
        name: String,
        /// The tool's input.
        input: Value,
    },
    /// A command line for the shell.
    Command(String),
}

/// What a run must give. Everything that a case does not mention must be empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expected {
    /// The exit code of `skillhost run`.
    pub exit: u8,
    /// The standard output.
    pub stdout: Content,
    /// The standard error.
    pub stderr: Content,
    /// The result of a typed tool.
    pub result: Option<Value>,
    /// The error of a typed tool.
    pub error: Content,
    /// The files of the workspace that the run created, changed or removed, by path.
    pub files: BTreeMap<String, ExpectedFile>,
    /// What the sandbox refused, in any order.
    pub denials: Vec<String>,
}

/// What a text or file must contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Exactly this text. If it does not end with a line end, one more is accepted.
    Text(String),
    /// All of these texts.
    Contains(Vec<String>),
    /// Bytes with this SHA-256 digest, as 64 hexadecimal digits.
    Digest(String),
}

impl Default for Content {
    /// Nothing.
    fn default() -> Content {
        Content::Text(String::new())
    }
}

/// What must have become of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedFile {
    /// It was created or changed, and has this content.
    Content(Content),
    /// It is a symlink with this target.
    Link(String),
    /// It was removed.
    Removed,
}

/// What a run gave, to be compared with [`Expected`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// The exit code of `skillhost run`.
    pub exit: u8,
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The standard error.
    pub stderr: Vec<u8>,
    /// The result of a typed tool.
    pub result: Option<Value>,
    /// The error of a typed tool.
    pub error: Option<String>,
    /// The files of the workspace that the run created, changed or removed, by path.
    pub files: BTreeMap<String, ObservedFile>,
    /// What the sandbox refused.
    pub denials: Vec<String>,
}

/// What has become of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservedFile {
    /// It has this content.
    Content(Vec<u8>),
    /// It is too large to keep, and has this digest, as 64 hexadecimal digits.
    Large {
        /// Its size in bytes.
        bytes: u64,
        /// The digest.
        digest: String,
    },
    /// It is a symlink with this target.
    Link(String),
    /// It is gone.
    Removed,
}

/// A case that was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid case: {}", match .diagnostics.len() { 1 => "1 error".to_owned(), n => format!("{n} errors") })]
pub struct CaseError {
    /// Every error, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// The text of the file, which the diagnostics point into.
    pub source_text: String,
}

/// Checks the name of a case, which is that of its folder: 1 to 64 characters from a-z, A-Z, 0-9,
/// `-`, `_` and `.`, and no `.` at the start.
pub fn is_case_name(name: &str) -> bool {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(is_valid) && !name.starts_with('.')
}

/// Checks a path in the workspace: relative, without `.` and `..`, at most 32 names of at most 255
/// bytes, and 1,024 bytes in all.
///
/// # Errors
/// What is wrong with it.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    if path.starts_with('/') {
        return Err("it is absolute; paths start at the workspace");
    }
    let mut names = 0;
    for name in path.split('/') {
        names += 1;
        match name {
            "" => return Err("it contains an empty name"),
            "." => return Err("it contains `.`"),
            ".." => return Err("`..` leads out of the workspace"),
            _ if name.len() > 255 => return Err("a name in it is longer than 255 bytes"),
            _ => {}
        }
    }
    if path.contains('\0') {
        return Err("it contains a NUL");
    }
    if names > 32 || path.len() > 1_024 {
        return Err("it has more than 32 names or 1,024 bytes");
    }
    Ok(())
}
