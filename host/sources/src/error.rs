//! Why something cannot be fetched, stored or used. Callers tell errors apart by their types, never
//! by their texts.

use std::fmt;
use std::io;

use skillhost_policy::diagnostic::{Diagnostic, printable};
use skillhost_skill::SkillError;

/// Why a source, the lock file or the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// What was fetched is unsafe or broken. Nothing of it is kept.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The text of a source is invalid.
    #[error("invalid source `{}`: {why}", printable(.text))]
    Syntax {
        /// The text.
        text: String,
        /// The problem.
        why: String,
        /// How to write it.
        fix: String,
    },
    /// A sources file or lock file is invalid.
    #[error("{} is invalid: {}", .file, match .diagnostics.as_slice() { [one] => one.message.clone(), all => format!("{} errors", all.len()) })]
    File {
        /// The file.
        file: String,
        /// Every problem, with its position.
        diagnostics: Vec<Diagnostic>,
        /// The text of the file.
        text: String,
    },
    /// A skill that was fetched is invalid.
    #[error(transparent)]
    Skill(Box<SkillError>),
    /// The source leads to something else than the lock file says.
    #[error("{}", .0)]
    Moved(String),
    /// The request cannot be met: unknown or taken names, several skills, a missing entry.
    #[error("{why}")]
    Request {
        /// The problem.
        why: String,
        /// What to do instead.
        fix: Option<String>,
    },
    /// The server or the network failed.
    #[error("cannot fetch {}: {why}", printable(.url))]
    Network {
        /// What was fetched.
        url: String,
        /// The problem.
        why: String,
        /// The line that allows it, if a rule refused it.
        fix: Option<String>,
    },
    /// What an entry or a transfer is read from failed.
    #[error("cannot read the input: {0}")]
    Input(io::Error),
    /// A file or folder of the host cannot be used.
    #[error("cannot {action}: {error}")]
    Io {
        /// What the host wanted to do, after `cannot`.
        action: String,
        /// The cause.
        error: io::Error,
    },
}

impl SourceError {
    /// Returns how to fix it, if that is known.
    pub fn fix(&self) -> Option<&str> {
        match self {
            SourceError::Syntax { fix, .. } => Some(fix),
            SourceError::Request { fix, .. } | SourceError::Network { fix, .. } => fix.as_deref(),
            SourceError::Moved(_) => Some(
                "if the change is intended, `skillhost remove` and `skillhost add` the skill again",
            ),
            SourceError::Refused(refusal) if refusal.is_fixed => None,
            SourceError::Refused(refusal) => match refusal.rule {
                RefusalRule::TransferSize => Some(
                    "if you trust the source, raise `transfer-size` in `limits` of your skills.yaml",
                ),
                RefusalRule::EntryCount => Some(
                    "if you trust the source, raise `entry-count` in `limits` of your skills.yaml",
                ),
                RefusalRule::Expansion => Some(
                    "if you trust the source, raise `expansion` in `limits` of your skills.yaml",
                ),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn io(action: impl Into<String>, error: impl Into<io::Error>) -> SourceError {
        SourceError::Io { action: action.into(), error: error.into() }
    }

    /// Creates the error of a request that cannot be met, with its fix.
    pub fn request(why: impl Into<String>, fix: impl Into<String>) -> SourceError {
        SourceError::Request { why: why.into(), fix: Some(fix.into()) }
    }
}

/// The rule that an archive, a repository or one of its entries violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalRule {
    /// A path contains `..`.
    PathTraversal,
    /// A path starts at the root of a file system or a drive.
    AbsolutePath,
    /// A name is not valid UTF-8, has a control character or a backslash, or is too long.
    InvalidName,
    /// A symlink points outside the skill or the archive.
    LinkOutside,
    /// A symlink points nowhere, or to itself.
    BrokenLink,
    /// A hard link.
    HardLink,
    /// A device, a pipe or a socket.
    SpecialFile,
    /// Two paths that some file systems treat as one.
    NameCollision,
    /// The transfer, or what is unpacked from it, has too many bytes.
    TransferSize,
    /// The transfer has too many entries.
    EntryCount,
    /// The archive expands too far.
    Expansion,
    /// A skill is larger than the loader accepts.
    SkillSize,
    /// The data ends too early.
    Truncated,
    /// The data contradicts itself: a wrong checksum, overlapping entries, content after the end.
    Corrupt,
    /// A format or feature that is not supported, such as encryption.
    Unsupported,
}

/// What was fetched is unsafe or broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// The violated rule.
    pub rule: RefusalRule,
    /// The path of the entry, as it is written there.
    pub entry: Option<String>,
    /// The problem.
    pub why: String,
    /// Whether it exceeds a limit that no setting raises.
    pub is_fixed: bool,
}

impl Refusal {
    pub(crate) fn new(rule: RefusalRule, why: impl Into<String>) -> Refusal {
        Refusal { rule, entry: None, why: why.into(), is_fixed: false }
    }

    /// Creates the refusal of what exceeds a constant, which `limits` of the user does not change.
    pub(crate) fn fixed(rule: RefusalRule, why: impl Into<String>) -> Refusal {
        Refusal { is_fixed: true, ..Refusal::new(rule, why) }
    }

    pub(crate) fn at(rule: RefusalRule, entry: &[u8], why: impl Into<String>) -> Refusal {
        let entry = String::from_utf8_lossy(&entry[..entry.len().min(300)]).into_owned();
        Refusal { entry: Some(entry), ..Refusal::new(rule, why) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.entry {
            Some(entry) => write!(f, "`{}`: {}", printable(entry), self.why),
            None => f.write_str(&self.why),
        }
    }
}
