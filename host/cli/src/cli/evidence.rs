//! `check --used`: what runs used, from files and recordings.

use std::path::Path;

use serde::Deserialize;
use skillhost_compat::learn;
use skillhost_policy::Policy;
use skillhost_policy::diagnostic::Diagnostic;
use skillhost_policy::outcome::uses::GrantUse;
use skillhost_skill::Skill;

use super::Failure;
use super::exit::Exit;

/// The most that is read of a file, in bytes. Ten thousand paths have some megabytes.
const BYTES_MAX: u64 = 64 << 20;

/// What one run used, and of which skill, where the file says so.
pub(super) struct Used {
    skill: Option<String>,
    uses: GrantUse,
}

/// Reads an outcome with `uses`; or a file that holds one as its `outcome`; or a recording, which
/// is a folder.
pub(super) fn read(file: &Path) -> Result<Used, Failure> {
    let recording = file.join("recording.json");
    let file = if file.is_dir() { recording.as_path() } else { file };
    let invalid = |message: String| {
        let help = "run the skill with `--learn --json`, and name the file with its output";
        Failure::new(Exit::Usage, format!("{}: {message}", file.display())).fix(help)
    };
    let mut text = String::new();
    #[expect(clippy::disallowed_methods, reason = "the command line names the file")]
    let opened = std::fs::File::open(file);
    let read = opened.and_then(|opened| {
        std::io::Read::read_to_string(&mut std::io::Read::take(opened, BYTES_MAX), &mut text)
    });
    read.map_err(|error| {
        Failure::new(Exit::Io, format!("{} cannot be read: {error}", file.display()))
    })?;
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| invalid(format!("it is not valid JSON: {error}")))?;
    let found =
        [&value["uses"], &value["outcome"]["uses"]].into_iter().find(|uses| uses.is_object());
    let uses = found.ok_or_else(|| invalid("it does not tell what the run used".into()))?;
    let uses = GrantUse::deserialize(uses)
        .map_err(|error| invalid(format!("its `uses` cannot be read: {error}")))?;
    let skill = [&value["learned"]["skill"], &value["skill"]]
        .into_iter()
        .find_map(|name| name.as_str())
        .map(str::to_owned);
    Ok(Used { skill, uses })
}

/// The grants of a skill that none of the runs used. Runs of other skills say nothing of it.
pub(super) fn findings(skill: &Skill, policy: &Policy, used: &[Used]) -> Vec<Diagnostic> {
    let mut all = GrantUse::default();
    let mut any = false;
    for one in used.iter().filter(|one| one.skill.as_ref().is_none_or(|name| *name == skill.name)) {
        all.merge(one.uses.clone());
        any = true;
    }
    // Evidence with gaps proves nothing.
    if !any || all.omitted > 0 {
        return Vec::new();
    }
    let mut findings = learn::find_unused(skill, &all);
    findings.extend(learn::find_unused_rules(policy, &skill.name, &all));
    findings
}
