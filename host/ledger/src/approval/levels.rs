//! Finds the levels that apply to a part of a skill.
//!
//! A level for a program keeps the name that the operator typed, and the author of a skill may
//! rename files. So a level that denies applies to every program that the name may refer to, and a
//! level that allows applies only to the program that it does refer to.

use std::collections::BTreeSet;

use super::store::LevelSetting;
use super::{PermissionLevel, SkillPart};
use skillhost_skill::Skill;
use skillhost_skill::runtime::scripts::{self, ScriptMatch};

/// The levels that are set for one skill.
pub(super) struct Levels<'a> {
    skill: &'a Skill,
    set: Vec<LevelSetting>,
}

impl<'a> Levels<'a> {
    pub(super) fn new(skill: &'a Skill, set: Vec<LevelSetting>) -> Levels<'a> {
        Levels { skill, set }
    }

    /// Returns the strictest level that denies a part, or the skill as a whole.
    pub(super) fn denial(&self, part: &SkillPart) -> Option<&LevelSetting> {
        self.set
            .iter()
            .filter(|set| denies(set.level) && self.may_mean(&set.part, part))
            .min_by_key(|set| set.level)
    }

    /// Returns the level for exactly this part, or else that of the skill. A level for the run's
    /// workspace comes before one for every workspace.
    pub(super) fn nearest(&self, part: &SkillPart) -> Option<&LevelSetting> {
        let own = self
            .set
            .iter()
            .filter(|set| set.part != SkillPart::Skill && self.means(&set.part, part))
            .min_by_key(|set| (set.workspace.is_none(), set.level));
        own.or_else(|| {
            self.set
                .iter()
                .filter(|set| set.part == SkillPart::Skill)
                .min_by_key(|set| (set.workspace.is_none(), set.level))
        })
    }

    /// Returns the skill's files that no program of a run may start.
    pub(super) fn denied_files(&self) -> BTreeSet<String> {
        let denied: Vec<&str> = self
            .set
            .iter()
            .filter(|set| denies(set.level))
            .filter_map(|set| program(&set.part))
            .collect();
        let files = self
            .skill
            .files
            .iter()
            .filter(|file| denied.iter().any(|name| self.may_name(name, &file.path)));
        files.map(|file| file.path.clone()).collect()
    }

    fn may_mean(&self, set: &SkillPart, part: &SkillPart) -> bool {
        match (set, part) {
            (SkillPart::Skill, _) => true,
            (SkillPart::Program(name), SkillPart::Program(path)) => self.may_name(name, path),
            // A tool can be run by its name alone, as a script can.
            (SkillPart::Program(name), SkillPart::Tool(tool)) if name == tool => true,
            // The tools belong to the component, and so does the skill's main program.
            (SkillPart::Program(name), SkillPart::Skill | SkillPart::Tool(_)) => {
                let manifest = &self.skill.manifest;
                manifest
                    .component
                    .as_ref()
                    .is_some_and(|path| *name == manifest.name || self.may_name(name, path))
            }
            (set, part) => set == part,
        }
    }

    fn means(&self, set: &SkillPart, part: &SkillPart) -> bool {
        match (set, part) {
            (SkillPart::Program(name), SkillPart::Program(path)) => {
                name == path
                    || matches!(scripts::find(self.skill, name), ScriptMatch::File(found) if found == *path)
            }
            (set, part) => set == part,
        }
    }

    /// Checks whether a name may refer to the file at a path: as a path, as a path below
    /// `scripts/`, as a file name, or without the extension.
    fn may_name(&self, name: &str, path: &str) -> bool {
        let inside = scripts::path_in_skill(&[&self.skill.name, &self.skill.manifest.name], name);
        let name = inside.as_deref().unwrap_or(name);
        let file = path.rsplit('/').next().unwrap_or(path);
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        name == path || path.strip_prefix("scripts/") == Some(name) || name == file || name == stem
    }
}

/// Checks whether a level for a program of this name has an effect on a skill. `true` if that cannot
/// be known: the tools of a component are listed only by running it.
pub fn names_program(skill: &Skill, name: &str) -> bool {
    let levels = Levels::new(skill, Vec::new());
    let may_be_tool = skill.manifest.component.is_some() && !name.contains(['/', '.']);
    may_be_tool || skill.files.iter().any(|file| levels.may_name(name, &file.path))
}

fn denies(level: PermissionLevel) -> bool {
    level <= PermissionLevel::Disabled
}

fn program(part: &SkillPart) -> Option<&str> {
    match part {
        SkillPart::Program(name) => Some(name),
        SkillPart::Skill | SkillPart::Tool(_) | SkillPart::Command => None,
    }
}
