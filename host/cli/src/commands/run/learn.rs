//! `run --learn`: the smallest grant for the run, and why. The diff goes to stdout, where
//! `patch -p0` takes it; everything else goes to stderr.

use std::path::Path;

use skillhost::invoke::Invocation;
use skillhost_compat::learn::{Proposal, RunEvidence, propose};

use crate::args::permissions::Permissions;
use crate::args::skills::{self, SkillRef};
use crate::context::Context;
use crate::error::CliError;
use crate::output;

/// Works out what a run needed.
pub(super) fn learned(
    permissions: &Permissions,
    context: &Context,
    skill: &SkillRef,
    invoked: &Invocation,
) -> Result<Proposal, CliError> {
    let file = permissions.policy_text(&context.places)?;
    let path =
        file.as_ref().map_or(Path::new("policy.yaml"), |(path, _)| path.as_path()).to_owned();
    let reload = |text: &str| permissions.with_text(&path, text, &context.places);
    let mut proposal = propose(&RunEvidence {
        skill: &invoked.skill,
        policy: &context.policy,
        outcome: &invoked.finished.outcome,
        file: file.map(|(path, text)| (path.display().to_string(), text)),
        reload: &reload,
    });
    // The proposal would not work for the command that it was learned from.
    if let SkillRef::Path(folder) = skill
        && proposal.policy_edit.is_some()
        && let Some(command) = skills::by_name(folder)
    {
        proposal.notes.push(format!(
            "a section below `skills:` grants nothing to a folder given by its path: run it by its name, `{command}`"
        ));
    }
    Ok(proposal)
}

/// Prints the proposal.
pub(super) fn print(learned: &Proposal) -> Result<(), CliError> {
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
        output::note(&format!("needs {}{used}{why}", one.entry));
    }
    for denial in &learned.would_also_need {
        output::warning(
            &format!("would also need (denied): {}: {}", denial.what, denial.rule),
            denial.fix.as_deref(),
        );
    }
    learned.notes.iter().for_each(|note| output::note(&format!("note: {note}")));
    let edits: Vec<&str> = learned
        .skill_edit
        .iter()
        .chain(&learned.policy_edit)
        .map(|edit| edit.diff.as_str())
        .collect();
    if edits.is_empty() {
        output::note("nothing to change");
        return Ok(());
    }
    output::foreign(&edits.concat())
}
