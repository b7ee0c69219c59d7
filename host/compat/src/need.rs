//! The needs of a script, and whether each is met.

use serde::Serialize;

use skillhost_policy::diagnostic::Span;

/// One need of a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Need {
    /// The kind.
    pub kind: NeedKind,
    /// The name: a distribution, module, command, host, language or path.
    pub name: String,
    /// Whether the need is met, or why not.
    pub status: NeedStatus,
    /// What fails if the need is not met.
    pub effect: NeedEffect,
    /// The version in the package set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The place at which the text first needs it.
    pub place: Place,
    /// The problem, in one line without a full stop; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Need {
    /// Checks whether the need has a problem, even one without effect.
    pub fn is_unmet(&self) -> bool {
        self.message.is_some()
    }
}

/// A place in a file of the skill.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
pub struct Place {
    /// The path in the skill.
    pub file: String,
    /// 1-based line.
    pub line: usize,
    /// 1-based column, counted in characters.
    pub column: usize,
}

/// The starts of the lines of a text, for converting many offsets.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Lines<'a> {
        Lines {
            text,
            starts: std::iter::once(0)
                .chain(text.match_indices('\n').map(|(at, _)| at + 1))
                .collect(),
        }
    }

    /// Converts an offset in the text of a file to a place.
    pub(super) fn place(&self, file: &str, offset: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line - 1];
        Place {
            file: file.to_owned(),
            line,
            column: Span::at(&self.text[start..], offset - start, 0).column,
        }
    }
}

/// The kind of a need.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NeedKind {
    /// The language that the script is written in.
    Language,
    /// A module of Python's standard library or of Node, or a global object.
    Module,
    /// A package of Python or JavaScript, by the name under which it is installed.
    Package,
    /// A command.
    Command,
    /// A host on the network, or `network` if the text names none.
    Host,
    /// A file of the skill.
    File,
}

/// Whether a need is met, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NeedStatus {
    /// Met: a package of the package set, or a command of the shell.
    BuiltIn,
    /// Met: a command or host that the capabilities allow.
    Granted,
    /// A command or host that the capabilities do not allow.
    NotGranted,
    /// A pure Python package that is not in the package set.
    Pure,
    /// A package with native code, which the sandbox cannot load.
    Native,
    /// A package that is the SDK of a service.
    Sdk,
    /// An unknown package or command.
    Unknown,
    /// A module, command or language that the sandbox does not provide.
    #[serde(rename = "never-here")]
    Unavailable,
    /// A module that was removed from Python.
    Removed,
    /// A file that does not exist in the skill, or is not fully supported itself.
    Missing,
    /// A file that was not analyzed, because it is too large.
    NotRead,
    /// A script that its runtime cannot parse.
    Invalid,
}

impl NeedStatus {
    /// Returns the status in words.
    pub fn description(self) -> &'static str {
        match self {
            NeedStatus::BuiltIn => "available",
            NeedStatus::Granted => "granted",
            NeedStatus::NotGranted => "not granted",
            NeedStatus::Pure => "not in the package set",
            NeedStatus::Native => "native code",
            NeedStatus::Sdk => "SDK of a service",
            NeedStatus::Unknown => "unknown",
            NeedStatus::Unavailable => "not available",
            NeedStatus::Removed => "removed from Python",
            NeedStatus::Missing => "missing",
            NeedStatus::NotRead => "not analyzed",
            NeedStatus::Invalid => "does not parse",
        }
    }
}

/// What fails if a need is not met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NeedEffect {
    /// Nothing: the need is met, or the script continues without it.
    None,
    /// The part of the script that needs it.
    Part,
    /// The whole script.
    Whole,
}
