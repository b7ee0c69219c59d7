//! Which component runs, and with which argv. What is here says what runs and carries no authority.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::skill::Skill;

/// What one store runs.
#[derive(Debug, Clone)]
pub struct Program {
    /// The name it was started by: its `argv[0]`.
    pub name: String,
    /// The code.
    pub component: Component,
    /// Which of its exports.
    pub entry: Entry,
    /// The arguments after the name.
    pub args: Vec<String>,
}

/// Which export of a component is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// `wasi:cli/run`.
    Command,
    /// One typed tool of `skillhost:skill/tools`.
    Tool {
        /// The tool's name.
        name: String,
        /// Its input, a JSON text.
        input: String,
    },
    /// The list of its typed tools.
    ListTools,
}

/// A component's bytes, not yet looked at.
#[derive(Debug, Clone)]
pub struct Component {
    /// `sha256:` and 64 hex digits.
    pub digest: String,
    /// The binary.
    pub bytes: Arc<[u8]>,
}

impl Component {
    /// Takes a binary and its digest.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Component {
        let bytes = bytes.into();
        Component { digest: digest(&bytes), bytes }
    }
}

/// `sha256:` and the hex digest of some bytes.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// Bytes as lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The programs that a skill brings: each `.wasm` file by its stem, and the main component by the skill's name too.
#[derive(Debug, Clone)]
pub struct Programs {
    skill: Arc<Skill>,
    paths: BTreeMap<String, String>,
}

impl Programs {
    /// Lists a skill's programs; reads none.
    pub fn of(skill: Arc<Skill>) -> Programs {
        let mut paths = BTreeMap::new();
        for file in &skill.files {
            let name = file.path.rsplit('/').next().unwrap_or(&file.path);
            if let Some(stem) = name.strip_suffix(".wasm") {
                paths.entry(stem.to_owned()).or_insert_with(|| file.path.clone());
            }
        }
        if let Some(main) = &skill.manifest.component {
            paths.insert(skill.manifest.name.clone(), main.clone());
        }
        Programs { skill, paths }
    }

    /// The names that can be started.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.paths.keys().map(String::as_str)
    }

    /// The component that a command's first word names, by file name or path; `None` where there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is over the skill's own size limit.
    pub fn find(&self, command: &str) -> io::Result<Option<Component>> {
        let name = command.rsplit('/').next().unwrap_or(command);
        let Some(path) = self.paths.get(name.strip_suffix(".wasm").unwrap_or(name)) else { return Ok(None) };
        self.skill.read(path).map(|bytes| Some(Component::new(bytes)))
    }
}
