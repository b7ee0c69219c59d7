//! `check --used`: what runs used, from files and recordings.

use std::path::Path;

use serde::Deserialize;
use skillhost_compat::learn;
use skillhost_policy::Policy;
use skillhost_policy::diagnostic::Diagnostic;
use skillhost_policy::outcome::uses::GrantUse;
use skillhost_skill::Skill;

use crate::error::CliError;

/// The most that is read of a file, in bytes. Ten thousand paths take some megabytes.
const BYTES_MAX: u64 = 64 << 20;

/// What one run used, and of which skill if the file says so.
pub(super) struct Used {
    skill: Option<String>,
    uses: GrantUse,
}

/// Reads an outcome that has `uses`, a file whose `outcome` is one, or the folder of a recording.
pub(super) fn read(file: &Path) -> Result<Used, CliError> {
    let recording = file.join("recording.json");
    let file = if file.is_dir() { recording.as_path() } else { file };
    let invalid = |message: String| {
        CliError::usage(format!("{}: {message}", file.display()))
            .fix("write the file with `skillhost run SKILL --learn --json`")
    };
    let mut text = String::new();
    #[expect(clippy::disallowed_methods, reason = "the command line names the file")]
    let opened = std::fs::File::open(file);
    let read = opened.and_then(|opened| {
        std::io::Read::read_to_string(&mut std::io::Read::take(opened, BYTES_MAX), &mut text)
    });
    read.map_err(|error| CliError::io(format_args!("read {}", file.display()), error))?;
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| invalid(format!("not valid JSON: {error}")))?;
    let found =
        [&value["uses"], &value["outcome"]["uses"]].into_iter().find(|uses| uses.is_object());
    let uses = found.ok_or_else(|| invalid("it does not say what the run used".into()))?;
    let uses =
        GrantUse::deserialize(uses).map_err(|error| invalid(format!("invalid `uses`: {error}")))?;
    let skill = [&value["learned"]["skill"], &value["skill"]]
        .into_iter()
        .find_map(|name| name.as_str())
        .map(str::to_owned);
    Ok(Used { skill, uses })
}

/// The grants of a skill that none of its runs used.
pub(super) fn findings(skill: &Skill, policy: &Policy, used: &[Used]) -> Vec<Diagnostic> {
    let mut all = GrantUse::default();
    let mut any = false;
    for one in used.iter().filter(|one| one.skill.as_ref().is_none_or(|name| *name == skill.name)) {
        all.merge(one.uses.clone());
        any = true;
    }
    // If the evidence has gaps, a grant may well have been used.
    if !any || all.omitted > 0 {
        return Vec::new();
    }
    let mut findings = learn::find_unused(skill, &all);
    findings.extend(learn::find_unused_rules(policy, &skill.name, &all));
    findings
}
