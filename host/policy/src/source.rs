//! Where a skill comes from: part of its identity, and what its rights to a policy's sections rest
//! on.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// Who put a skill where it is. In the order of precedence: of skills of one name in the catalogue,
/// the first counts.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// Nobody that is known: a folder that was named by its path, and is in no catalogue.
    #[default]
    Path,
    /// The command line.
    Flag,
    /// The project that is worked in.
    Project,
    /// The user.
    User,
    /// The operator, in the policy.
    Policy,
    /// Those who made this program.
    BuiltIn,
}

impl SourceKind {
    /// Whether skills of this source are trusted by their place, where nobody else can write there.
    /// Installers and agents write to the user's folders, a project is what someone else may have
    /// written, and a folder of the command line may be anything.
    pub fn is_trusted(self) -> bool {
        matches!(self, SourceKind::Policy | SourceKind::BuiltIn)
    }
}

/// A skill's folder and its source: what is known of a skill before it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkillFolder<'a> {
    /// The folder.
    pub path: &'a Path,
    /// Who put the skill there.
    pub source: SourceKind,
}

/// A folder that was named by its path: it is no skill of the catalogue, whatever its name.
impl<'a> From<&'a Path> for SkillFolder<'a> {
    fn from(path: &'a Path) -> SkillFolder<'a> {
        SkillFolder { path, source: SourceKind::Path }
    }
}

/// As for a path.
impl<'a> From<&'a PathBuf> for SkillFolder<'a> {
    fn from(path: &'a PathBuf) -> SkillFolder<'a> {
        path.as_path().into()
    }
}
