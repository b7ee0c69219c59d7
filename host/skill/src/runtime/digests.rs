//! The digests of a skill and of its components.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use super::digest;
use crate::Skill;

/// The digests of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// The digest of all files; see [`Skill::digest`].
    pub skill: String,
    /// The digest of each `.wasm` file, by path.
    pub components: BTreeMap<String, String>,
}

impl Digests {
    /// Computes the digests of a skill. Reads all its files.
    ///
    /// # Errors
    /// A file cannot be read, or changed since the skill was loaded.
    pub fn of(skill: &Skill) -> io::Result<Digests> {
        let components =
            skill.files.iter().map(|file| &file.path).filter(|path| path.ends_with(".wasm"));
        // A component that cannot be read is reported when it runs.
        let components = components
            .filter_map(|path| Some((path.clone(), digest(&skill.read(path).ok()?))))
            .collect();
        Ok(Digests { skill: skill.digest()?, components })
    }
}
