//! One thing that a script needs, and what became of it.

use serde::Serialize;

use skillhost_policy::diagnostic::Span;

/// One thing that a script needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Need {
    /// What kind of thing.
    pub kind: NeedKind,
    /// Its name: a distribution, module, command, host, language or path.
    pub name: String,
    /// Whether it is there.
    pub status: NeedStatus,
    /// What is lost for want of it.
    pub effect: NeedEffect,
    /// The version of the package set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where the text first asks for it.
    pub place: Place,
    /// What is the matter, in one line without a full stop; `None` where nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What would mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Need {
    /// Whether it is worth a warning: something is not there, whatever follows from that.
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

/// Where the lines of a text start, so that many places of it are told by one look at the whole.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Lines<'a> {
        Lines {
            text,
            starts: std::iter::once(0)
                .chain(text.match_indices('\n').map(|(at, _)| at + 1))
                .collect(),
        }
    }

    /// The place of a byte of the text, which is a file's.
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

/// What kind of thing is needed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NeedKind {
    /// The language that the script is written in.
    Language,
    /// A module of Python's standard library.
    Module,
    /// A Python package, by the name that it is installed by.
    Package,
    /// A command.
    Command,
    /// A host on the network, or `network` where the text names none.
    Host,
    /// A file of the skill.
    File,
}

/// Whether something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NeedStatus {
    /// A package of the set, or a command of the shell's own.
    BuiltIn,
    /// A command that the capabilities let through, or a host that they do.
    Granted,
    /// A command or host that they do not.
    NotGranted,
    /// A package in pure Python that the set does not hold.
    Pure,
    /// A package with native code, which the sandbox cannot load.
    Native,
    /// A package that is a service's SDK.
    Sdk,
    /// A package or command that nothing is known of.
    Unknown,
    /// A module, command or language that the sandbox never has.
    #[serde(rename = "never-here")]
    Unavailable,
    /// A module that Python itself has given up.
    Removed,
    /// A file that the skill does not hold, or one that does not run here itself.
    Missing,
    /// Not looked into, for its size.
    NotRead,
}

/// What is lost for want of a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NeedEffect {
    /// Nothing: it is there, or the script goes on without it.
    None,
    /// What comes to it.
    Part,
    /// The script.
    Whole,
}
