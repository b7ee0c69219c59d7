//! The digests of a skill and of its components.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use super::digest;
use crate::Skill;

/// The digests of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// Over all its files: [`Skill::digest`].
    pub skill: String,
    /// Of each `.wasm` file, by path.
    pub components: BTreeMap<String, String>,
}

impl Digests {
    /// Computes the digests of a skill, by reading all of it.
    ///
    /// # Errors
    /// A file that cannot be read, or changed since the skill was loaded.
    pub fn of(skill: &Skill) -> io::Result<Digests> {
        let components =
            skill.files.iter().map(|file| &file.path).filter(|path| path.ends_with(".wasm"));
        // One that cannot be read is told of when it is to run.
        let components = components
            .filter_map(|path| Some((path.clone(), digest(&skill.read(path).ok()?))))
            .collect();
        Ok(Digests { skill: skill.digest()?, components })
    }
}
