//! The source of a skill. It is part of the skill's identity, and decides which sections of a policy
//! can grant it something.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// Who put a skill in its folder. If the catalogue has several skills of one name, the source that
/// comes first here takes precedence.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// Unknown: a folder that was named by its path and is not in the catalogue.
    #[default]
    Path,
    /// The command line.
    Flag,
    /// The current project.
    Project,
    /// The user.
    User,
    /// A source in a `skills.yaml`, as its lock file says.
    Fetched,
    /// The operator, in the policy.
    Policy,
    /// The makers of skillhost.
    BuiltIn,
}

impl SourceKind {
    /// Checks whether skills of this source are trusted if no other user can write to them.
    /// Installers and agents write to the user's folders, others may have written the project or what
    /// was fetched, and a folder on the command line may be anything.
    pub fn is_trusted(self) -> bool {
        matches!(self, SourceKind::Policy | SourceKind::BuiltIn)
    }
}

/// The folder and the source of a skill that is not loaded yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkillFolder<'a> {
    /// The folder.
    pub path: &'a Path,
    /// Who put the skill there.
    pub source: SourceKind,
    /// What the lock file says about it, if it was fetched.
    pub locked: Option<&'a LockedOrigin>,
}

/// What a lock file says about a skill that was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LockedOrigin {
    /// The source, without a tag, branch or commit: a URL, or the absolute path of a folder or file.
    pub source: String,
    /// The digest of the skill's content. Other content does not load.
    pub digest: String,
    /// The host's file with what the skill was fetched with, which proves signatures of its commit.
    #[serde(skip)]
    pub evidence: Option<PathBuf>,
    /// The skills that it requires, directly or through others, as they are locked.
    #[serde(skip)]
    pub requires: Vec<LockedRequirement>,
}

/// A skill that another one requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedRequirement {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// What the lock file says about it. It requires nothing of its own here: the list of the skill
    /// that requires it names everything.
    pub locked: LockedOrigin,
}

impl<'a> SkillFolder<'a> {
    /// Names a folder that was not fetched.
    pub fn new(path: &'a Path, source: SourceKind) -> SkillFolder<'a> {
        SkillFolder { path, source, locked: None }
    }
}

/// Converts a path to a folder outside the catalogue, whatever its name.
impl<'a> From<&'a Path> for SkillFolder<'a> {
    fn from(path: &'a Path) -> SkillFolder<'a> {
        SkillFolder::new(path, SourceKind::Path)
    }
}

/// Converts a path to a folder outside the catalogue, whatever its name.
impl<'a> From<&'a PathBuf> for SkillFolder<'a> {
    fn from(path: &'a PathBuf) -> SkillFolder<'a> {
        path.as_path().into()
    }
}
