//! `run --learn`: the proposal, and how it came about. The diff goes to stdout, where `patch -p0`
//! takes it; the rest to stderr.

use std::path::Path;

use skillhost::invoke::Invocation;
use skillhost_compat::learn::{Proposal, RunEvidence, propose};
use skillhost_policy::Policy;

use super::permissions::Permissions;
use super::places::Places;
use super::{Failure, show};

/// What a run showed that it needed.
pub(super) fn learned(
    permissions: &Permissions,
    policy: &Policy,
    invoked: &Invocation,
    places: &Places,
) -> Result<Proposal, Failure> {
    let file = permissions.policy_text(places)?;
    let path =
        file.as_ref().map_or(Path::new("policy.yaml"), |(path, _)| path.as_path()).to_owned();
    let reload = |text: &str| permissions.with_text(&path, text, places);
    Ok(propose(&RunEvidence {
        skill: &invoked.skill,
        policy,
        outcome: &invoked.finished.outcome,
        file: file.map(|(path, text)| (path.display().to_string(), text)),
        reload: &reload,
    }))
}

/// Prints it.
pub(super) fn show(learned: &Proposal) -> Result<(), Failure> {
    for one in learned.allowed_tools.iter().flatten() {
        let used = if one.used_for.is_empty() {
            String::new()
        } else {
            format!(" for {}", one.used_for.join(", "))
        };
        let why = one
            .generalised
            .as_ref()
            .map(|why| format!("\n  generalised: {why}"))
            .unwrap_or_default();
        show::note(&format!("needs {}{used}{why}", one.entry));
    }
    for denial in &learned.would_also_need {
        show::warning(
            &format!("would also need, and was denied: {}: {}", denial.what, denial.rule),
            denial.fix.as_deref(),
        );
    }
    learned.notes.iter().for_each(|note| show::note(&format!("note: {note}")));
    let edits: Vec<&str> = learned
        .skill_edit
        .iter()
        .chain(&learned.policy_edit)
        .map(|edit| edit.diff.as_str())
        .collect();
    if edits.is_empty() {
        show::note("nothing to change");
        return Ok(());
    }
    show::foreign(&edits.concat())
}
