//! Selects the component that runs, and its arguments. Nothing here carries authority.
//!
//! In reading order: `dispatch` and `shebang` select the program that runs a file, and `scripts`
//! finds the file that a name means. `built_in` has the programs that come with the host, `custom`
//! those of an embedder, and `programs` all of these and the skill's own. `spawn` resolves a command
//! line to one of them, and `javascript` the commands of other JavaScript tools to `node`. `digests` computes digests, `copies` keeps copies of the digested files,
//! `cache_quota` limits their size, and `cache_content` lists and removes them. `stamp` recognizes files that have not changed.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

mod ancestors;
pub mod built_in;
pub mod cache_content;
pub mod cache_quota;
pub mod copies;
pub mod custom;
pub mod digests;
pub mod dispatch;
pub mod javascript;
mod modules;
mod programs;
pub mod scripts;
mod shebang;
pub mod spawn;
pub mod stamp;

pub use programs::DeniedFile;
pub use programs::Programs;

use crate::Skill;
use built_in::BuiltIn;

/// A program: what one store runs.
#[derive(Debug, Clone)]
pub struct Program {
    /// The name by which it was started: its `argv[0]`.
    pub name: String,
    /// The component.
    pub component: Component,
    /// The export to call.
    pub entry: EntryPoint,
    /// The arguments after the name.
    pub args: Vec<String>,
    /// The skill's script that it runs, if any.
    pub script: Option<ScriptId>,
}

/// The path and digest of a skill's script.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct ScriptId {
    /// The path in the skill.
    pub path: String,
    /// The digest of the file: `sha256:` and 64 hex digits.
    pub digest: String,
}

/// The export of a component that is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryPoint {
    /// `wasi:cli/run`.
    Command,
    /// One typed tool of `skillhost:skill/tools`.
    Tool {
        /// The name of the tool.
        name: String,
        /// The input, as JSON.
        input: String,
        /// The skill's scripts if the name could mean one. The error for an unknown tool lists them.
        scripts: Vec<String>,
    },
    /// The list of typed tools.
    ListTools,
}

/// A component: its digest, and the source of its bytes.
#[derive(Debug, Clone)]
pub struct Component {
    /// `sha256:` and 64 hex digits.
    pub digest: String,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Bytes(Arc<[u8]>),
    /// A built-in program. It is read only to compile it.
    BuiltIn(Arc<BuiltIn>),
    /// A file of a skill. It is read only to compile it.
    Own(Arc<Skill>, String),
}

impl Program {
    /// Returns the program's name in records, which does not depend on the name that started it: the
    /// skill's script, the built-in program, or the file of the component.
    pub fn recorded_name(&self) -> &str {
        match (&self.script, &self.component.source) {
            (Some(script), _) => &script.path,
            (None, Source::BuiltIn(built_in)) => &built_in.description.name,
            (None, Source::Own(_, path)) => path,
            (None, Source::Bytes(_)) => "component",
        }
    }
}

impl Component {
    /// Creates a component from its bytes.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Component {
        let bytes = bytes.into();
        Component { digest: digest(&bytes), source: Source::Bytes(bytes) }
    }

    /// Creates a component from a file of a skill with a known digest.
    pub(crate) fn own(skill: &Arc<Skill>, path: &str, digest: &str) -> Component {
        Component { digest: digest.to_owned(), source: Source::Own(skill.clone(), path.to_owned()) }
    }

    /// Returns the name under which the compiled code is cached: the digest and, if the skill has one, its owner.
    pub fn cache_name(&self) -> Cow<'_, str> {
        match self.skill().and_then(|skill| skill.owner.as_deref()) {
            Some(owner) => format!("{} {owner}", self.digest).into(),
            None => self.digest.as_str().into(),
        }
    }

    /// Returns the bytes.
    ///
    /// # Errors
    /// The file cannot be read, or does not match the digest.
    pub fn bytes(&self) -> io::Result<Arc<[u8]>> {
        match &self.source {
            Source::Bytes(bytes) => Ok(bytes.clone()),
            Source::BuiltIn(built_in) => built_in.bytes(),
            Source::Own(skill, path) => {
                let bytes = skill.read(path)?;
                if digest(&bytes) == self.digest {
                    Ok(bytes.into())
                } else {
                    Err(io::Error::other("the file was modified during the run"))
                }
            }
        }
    }

    /// Returns the skill that contains the component, if any.
    pub fn skill(&self) -> Option<&Skill> {
        match &self.source {
            Source::Own(skill, _) => Some(skill),
            Source::Bytes(_) | Source::BuiltIn(_) => None,
        }
    }

    /// Returns the built-in program of the component, if any.
    pub fn built_in(&self) -> Option<&BuiltIn> {
        match &self.source {
            Source::Bytes(_) | Source::Own(..) => None,
            Source::BuiltIn(built_in) => Some(built_in),
        }
    }
}

/// Returns the digest of some bytes: `sha256:` and 64 hex digits.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// Formats bytes as lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}
