//! Which component runs, and with which argv. What is here says what runs and carries no authority.
//!
//! In reading order: `dispatch` and `shebang` say which program runs a file, `scripts` which file a
//! name means; `built_in` has the programs that come with the host, `custom` those that an embedder
//! brings, `programs` all of them and the skill's own, `spawn` which of them a command line starts.
//! `digests` says what exactly that is, `copies` keeps it as it was digested, and `room` bounds
//! what is kept; `stamp` tells whether a file is still the one that was looked at.

use std::io;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

mod ancestors;
pub mod built_in;
pub mod cache_quota;
pub mod copies;
pub mod custom;
pub mod digests;
pub mod dispatch;
mod programs;
pub mod scripts;
mod shebang;
pub mod spawn;
pub mod stamp;

pub use programs::DeniedFile;
pub use programs::Programs;

use crate::Skill;
use built_in::BuiltIn;

/// What one store runs.
#[derive(Debug, Clone)]
pub struct Program {
    /// The name it was started by: its `argv[0]`.
    pub name: String,
    /// The code.
    pub component: Component,
    /// Which of its exports.
    pub entry: EntryPoint,
    /// The arguments after the name.
    pub args: Vec<String>,
    /// The skill's script that it runs, where it runs one.
    pub script: Option<ScriptId>,
}

/// A script of a skill: which, and what it was.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct ScriptId {
    /// Its path in the skill.
    pub path: String,
    /// The digest of its bytes, `sha256:` and 64 hex digits.
    pub digest: String,
}

/// Which export of a component is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryPoint {
    /// `wasi:cli/run`.
    Command,
    /// One typed tool of `skillhost:skill/tools`.
    Tool {
        /// The tool's name.
        name: String,
        /// Its input, a JSON text.
        input: String,
        /// The skill's scripts, where the name could have been meant for one: told where there is
        /// no such tool.
        scripts: Vec<String>,
    },
    /// The list of its typed tools.
    ListTools,
}

/// A component: what it is, and where its bytes are.
#[derive(Debug, Clone)]
pub struct Component {
    /// `sha256:` and 64 hex digits.
    pub digest: String,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Bytes(Arc<[u8]>),
    /// Read only to be compiled.
    BuiltIn(Arc<BuiltIn>),
    /// A file of a skill, read only to be compiled.
    Own(Arc<Skill>, String),
}

impl Program {
    /// Its name in the host's terms, whatever it was started by: the skill's script, a built-in
    /// program, or the file of a component.
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
    /// Takes a binary, and computes its digest.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Component {
        let bytes = bytes.into();
        Component { digest: digest(&bytes), source: Source::Bytes(bytes) }
    }

    /// A file of a skill, whose digest is known.
    pub(crate) fn own(skill: &Arc<Skill>, path: &str, digest: &str) -> Component {
        Component { digest: digest.to_owned(), source: Source::Own(skill.clone(), path.to_owned()) }
    }

    /// The binary.
    ///
    /// # Errors
    /// It cannot be read, or is not any more what its digest says.
    pub fn bytes(&self) -> io::Result<Arc<[u8]>> {
        match &self.source {
            Source::Bytes(bytes) => Ok(bytes.clone()),
            Source::BuiltIn(built_in) => built_in.bytes(),
            Source::Own(skill, path) => {
                let bytes = skill.read(path)?;
                if digest(&bytes) == self.digest {
                    Ok(bytes.into())
                } else {
                    Err(io::Error::other("it was changed meanwhile"))
                }
            }
        }
    }

    /// The skill that it is a file of, if it is one's.
    pub fn skill(&self) -> Option<&Skill> {
        match &self.source {
            Source::Own(skill, _) => Some(skill),
            Source::Bytes(_) | Source::BuiltIn(_) => None,
        }
    }

    /// The built-in program that it is, if it is one.
    pub fn built_in(&self) -> Option<&BuiltIn> {
        match &self.source {
            Source::Bytes(_) | Source::Own(..) => None,
            Source::BuiltIn(built_in) => Some(built_in),
        }
    }
}

/// `sha256:` and the hex digest of some bytes.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// Bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}
