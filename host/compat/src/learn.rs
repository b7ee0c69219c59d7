//! Learns least privilege from evidence: the smallest `allowed-tools` and policy for what a run used,
//! and the grants that no run used.
//!
//! In reading order: `needs` converts what was used to patterns, and notes where it generalizes.
//! `narrow` limits them to what was granted before. `edit` writes them into SKILL.md and the policy.
//! `within` checks the result. `unused` finds unused grants.
//!
//! All functions are pure, and write no files. An edit is not proposed if it would grant more than
//! before, or less than was used, when read back.

mod edit;
mod limits;
mod narrow;
mod needs;
mod unused;
mod within;

use std::collections::BTreeSet;

use serde::Serialize;

use narrow::Granted;
use needs::Needs;
use skillhost_policy::capabilities::{Capabilities, MountMode};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::manifest::{self, ToolEntry};
use skillhost_policy::outcome::uses::GrantUse;
use skillhost_policy::outcome::{Denial, Outcome, Status};
use skillhost_policy::{Layer, NameGlob, Origin, Policy, grant};
use skillhost_skill::Skill;

pub use unused::{UNUSED, UNWRITTEN, find_unused, find_unused_rules};
pub use within::{is_within, missing_grants};

/// A run, and the policy under which it ran.
pub struct RunEvidence<'a> {
    /// The skill.
    pub skill: &'a Skill,
    /// The policy of the run, with the layer of the command line.
    pub policy: &'a Policy,
    /// The outcome of the run.
    pub outcome: &'a Outcome,
    /// The name and text of the policy file, if there is one.
    pub file: Option<(String, String)>,
    /// Loads the text of a policy file like this one, with the same command line except `--allow`.
    pub reload: &'a dyn Fn(&str) -> Option<Policy>,
}

/// A proposal for the smallest grant that a run needs.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Proposal {
    /// The skill's name.
    pub skill: String,
    /// The entries of `allowed-tools`; `None` if nothing can be proposed.
    pub allowed_tools: Option<Vec<ProposedEntry>>,
    /// The edit of SKILL.md; `None` if no change is needed, or nothing can be proposed.
    pub skill_edit: Option<Edit>,
    /// The edit of the policy file; `None` if no change is needed, or nothing can be proposed.
    pub policy_edit: Option<Edit>,
    /// The denials of the run. The proposal allows none of them.
    pub would_also_need: Vec<Denial>,
    /// What to consider before using the proposal.
    pub notes: Vec<String>,
}

/// A proposed entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ProposedEntry {
    /// The entry.
    pub entry: String,
    /// What it was used for, at most 5 examples.
    pub used_for: Vec<String>,
    /// Why it allows more than what was used; `None` if it is exact.
    pub generalised: Option<String>,
}

/// A change to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Edit {
    /// The file.
    pub file: String,
    /// The change as a unified diff.
    pub diff: String,
    /// The whole new text.
    #[serde(skip)]
    pub text: String,
}

/// Proposes the smallest grant for what a run used. Proposes nothing for a run without `Io::uses`.
pub fn propose(evidence: &RunEvidence<'_>) -> Proposal {
    let RunEvidence { skill, outcome, .. } = evidence;
    let mut learned = Proposal {
        skill: skill.name.clone(),
        allowed_tools: None,
        skill_edit: None,
        policy_edit: None,
        would_also_need: outcome.denials.clone(),
        notes: Vec::new(),
    };
    let Some(uses) = &outcome.uses else {
        learned.notes.push("the run did not record what it used".into());
        return learned;
    };
    if skill.manifest.is_granted_nothing() {
        learned
            .notes
            .push("the skill was granted nothing, because its frontmatter is broken or misspells a permission key: fix it first".into());
        return learned;
    }
    if uses.omitted > 0 {
        learned.notes.push(format!(
            "nothing is proposed: the run used {} more paths or commands than are recorded",
            uses.omitted
        ));
        return learned;
    }
    if outcome.status != (Status::Exited { code: 0 }) {
        learned.notes.push("the run did not exit with 0, so it may need more than it used".into());
    }
    let old = grant(&skill.policy_manifest(), evidence.policy).capabilities;
    let needs = Needs::of(uses);
    let proposed = for_skill(evidence, &needs);
    if let Some(edit) = skill_edit(skill, &proposed) {
        learned.skill_edit = (edit.text != skill.source).then_some(edit);
        policy(evidence, &needs, &proposed, &old, uses, &mut learned);
    } else {
        learned.notes.push(format!("cannot edit SKILL.md; the line would be\n{}", line(&proposed)));
    }
    learned.notes.extend(remarks(evidence, uses, &old));
    learned.allowed_tools = Some(proposed);
    learned
}

/// Proposes the entries of `allowed-tools`.
fn for_skill(evidence: &RunEvidence<'_>, needs: &Needs) -> Vec<ProposedEntry> {
    let name = &evidence.skill.name;
    let old = match &evidence.skill.manifest.allowed_tools {
        Some(entries) => Granted::asked(entries),
        None => Granted::allowed(evidence.policy.layers_for(name).flat_map(|layer| &layer.allow)),
    };
    narrow::asking(needs, &old)
}

/// Edits SKILL.md to have these entries. Returns `None` if the result does not read back as expected.
fn skill_edit(skill: &Skill, proposed: &[ProposedEntry]) -> Option<Edit> {
    let text = edit::allowed_tools(&skill.source, &line(proposed))?;
    let read = manifest::parse(text.as_bytes(), &skill.name, &skill.skill_file).manifest?;
    let entries: Vec<&str> =
        read.allowed_tools.iter().flatten().map(|entry| entry.text.as_str()).collect();
    let same = entries.iter().eq(proposed.iter().map(|one| &one.entry).collect::<Vec<_>>());
    let rest = |manifest: &manifest::Manifest| manifest::Manifest {
        allowed_tools: None,
        ..manifest.clone()
    };
    let file = skill.root.join(&skill.skill_file).display().to_string();
    (same && rest(&read) == rest(&skill.manifest)).then(|| Edit::of(file, &skill.source, text))
}

fn line(proposed: &[ProposedEntry]) -> String {
    let entries: Vec<ToolEntry> =
        proposed.iter().map(|one| ToolEntry { text: one.entry.clone(), span: None }).collect();
    skillhost_policy::manifest::allowed_tools_line(&entries)
}

/// Proposes the policy, and checks both proposals together.
fn policy(
    evidence: &RunEvidence<'_>,
    needs: &Needs,
    proposed: &[ProposedEntry],
    old: &Capabilities,
    uses: &GrantUse,
    learned: &mut Proposal,
) {
    let RunEvidence { skill, policy, outcome, file, reload } = evidence;
    let is_own = |layer: &&Layer| match (&layer.origin, &layer.applies_to) {
        (Origin::File(_), Some(glob)) => glob.pattern() == skill.name,
        (Origin::File(_), None) => false,
        (Origin::BuiltIn | Origin::CommandLine, _) => true,
    };
    let (own, shared): (Vec<&Layer>, Vec<&Layer>) =
        policy.layers_for(&skill.name).partition(is_own);
    // Rules that also apply to other skills stay, and cover a part of the needs.
    let common = Granted::allowed(shared.iter().flat_map(|layer| &layer.allow));
    let rest = narrow::beyond(needs, &common);
    let allow: Vec<String> =
        narrow::entries(&rest, &Granted::allowed(own.iter().flat_map(|layer| &layer.allow)))
            .into_iter()
            .map(|one| one.entry)
            .collect();
    let deny = own
        .iter()
        .filter(|layer| layer.origin == Origin::CommandLine)
        .flat_map(|layer| &layer.deny);
    let section = edit::Section {
        allow,
        deny: if file.is_none() {
            deny.map(|rule| rule.text.clone()).collect()
        } else {
            Vec::new()
        },
        methods: uses
            .requests
            .iter()
            .map(|request| request.method.clone())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
        limits: limits::proposed(outcome, &old.limits),
    };
    let (name, before) = match file {
        Some((name, text)) => (name.clone(), text.clone()),
        None => ("policy.yaml".to_owned(), String::new()),
    };
    let named = NameGlob::new(&skill.name).is_ok();
    let text = if named { edit::policy(&before, &skill.name, &section) } else { None };
    let manifest = manifest::Manifest {
        allowed_tools: Some(
            proposed.iter().map(|one| ToolEntry { text: one.entry.clone(), span: None }).collect(),
        ),
        ..skill.policy_manifest()
    };
    let holds = |policy: &Policy| {
        let new = grant(&manifest, policy).capabilities;
        is_within(&new, old) && missing_grants(&new, uses).is_empty()
    };
    if !holds(policy) {
        // Propose only what was verified.
        learned.skill_edit = None;
        learned.notes.push("the proposal for SKILL.md failed verification and is not shown".into());
    }
    match text {
        Some(text) if reload(&text).is_some_and(|policy| holds(&policy)) => {
            learned.policy_edit = (text != before).then(|| Edit::of(name, &before, text));
        }
        _ => {
            let lines = edit::section(&skill.name, &section, 0);
            learned.notes.push(format!(
                "cannot edit the policy; the section below `skills:` would be\n{}",
                lines.trim_end()
            ));
        }
    }
}

/// Returns remarks about the proposal.
fn remarks(evidence: &RunEvidence<'_>, uses: &GrantUse, old: &Capabilities) -> Vec<String> {
    let mut notes = Vec::new();
    notes.push(limits::REMARK.to_owned());
    let flags = evidence
        .policy
        .layers
        .iter()
        .any(|layer| layer.origin == Origin::CommandLine && !layer.allow.is_empty());
    if flags {
        notes.push("the policy includes what was used of `--allow`: run without that flag".into());
    }
    if evidence.file.is_none() {
        notes.push("a policy file replaces the built-in policy: other skills then get only what the file allows".into());
    }
    for mount in &old.mounts {
        let below = uses.paths.iter().filter(|(path, _)| within::is_below(path, &mount.guest));
        let (mut used, mut written) = (false, false);
        for (_, what) in below {
            used = true;
            written |= what.written || what.whole;
        }
        let guest = &mount.guest;
        if !used {
            notes.push(format!(
                "nothing in {guest} was used; without that mount, the run starts in /skill"
            ));
        } else if !written && mount.mode == MountMode::Write {
            notes.push(format!("nothing in {guest} was written; a read-only mount is enough"));
        }
    }
    if !uses.variables.is_empty() {
        let names: Vec<&str> = uses.variables.iter().map(String::as_str).collect();
        notes.push(format!(
            "skillhost cannot tell whether the run read these variables: {}",
            names.join(", ")
        ));
    }
    notes
}

impl Edit {
    fn of(file: String, before: &str, text: String) -> Edit {
        let from = if before.is_empty() { "/dev/null" } else { file.as_str() };
        let diff = similar::TextDiff::from_lines(before, &text);
        let diff = diff
            .unified_diff()
            .context_radius(3)
            .header(&printable(from), &printable(&file))
            .to_string();
        Edit { file, diff, text }
    }
}
