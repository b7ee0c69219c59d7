//! Mounts that guests get in addition to the skill and the granted folders.

use super::Runner;
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::ExtraMounts;
use skillhost_sandbox::files::{HostDir, OpenMount};
use skillhost_skill::Skill;
use skillhost_skill::runtime::{Program, Programs};

impl Runner {
    /// Mounts the skill at the path in the home folder where agents install it and, if a built-in
    /// program may run, the packages and commands that come with built-in programs.
    pub(super) fn extra_mounts(
        &self,
        skill: &Skill,
        program: &Program,
        programs: &Programs,
        capabilities: &Capabilities,
    ) -> Result<ExtraMounts, Status> {
        let failed = |message: String, fix| Status::Failed { message, fix };
        let mut extra = ExtraMounts::default();
        let mut names = vec![&skill.name, &skill.manifest.name];
        names.dedup();
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            let mount = OpenMount::skill_at(
                format!("/tmp/.claude/skills/{name}"),
                HostDir::shared(skill.content.clone()),
            );
            extra.mounts.push(mount.without_paths(programs.denied_paths()));
        }
        if program.component.built_in().is_some() || !capabilities.spawn.is_empty() {
            for built_in in
                programs.built_ins().map_err(|error| failed(error.message, error.fix))?
            {
                extra.built_in.push(built_in.clone());
                if let Some((guest, folder)) =
                    built_in.packages().map_err(|error| failed(error.message, error.fix))?
                {
                    extra.mounts.push(OpenMount::packages(guest, HostDir::shared(folder)));
                }
            }
        }
        Ok(extra)
    }
}
