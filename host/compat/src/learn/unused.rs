//! Finds grants that no run of the evidence used.

use skillhost_policy::diagnostic::{Diagnostic, Severity, printable};
use skillhost_policy::entry::{self, EntryList, Permission};
use skillhost_policy::manifest::ToolEntry;
use skillhost_policy::outcome::uses::GrantUse;
use skillhost_policy::pattern::Destination;
use skillhost_policy::{Layer, Origin, Policy, Rule};
use skillhost_skill::Skill;

/// The rule for an unused entry.
pub const UNUSED: &str = "grant-unused";
/// The rule for an entry that grants writing, but was used only for reading.
pub const UNWRITTEN: &str = "grant-unwritten";

/// Returns a diagnostic for each entry of a skill's `allowed-tools` that the evidence did not use.
pub fn find_unused(skill: &Skill, uses: &GrantUse) -> Vec<Diagnostic> {
    let Some(entries) = &skill.manifest.allowed_tools else { return Vec::new() };
    let file = skill.root.join(&skill.skill_file).display().to_string();
    let line = |at: usize, instead: Option<&str>| {
        let others = entries.iter().enumerate().filter_map(|(n, entry)| match n == at {
            // Another entry may already be the narrower one.
            true => instead
                .filter(|text| entries.iter().all(|entry| entry.text != *text))
                .map(|text| ToolEntry { text: text.to_owned(), span: None }),
            false => Some(entry.clone()),
        });
        skillhost_policy::manifest::allowed_tools_line(&others.collect::<Vec<_>>())
    };
    let judge = |(at, entry): (usize, &ToolEntry)| {
        let (rule, message, instead) = finding(&entry.text, EntryList::AllowedTools, uses)?;
        let fix = Some(line(at, instead.as_deref()));
        Some(Diagnostic {
            severity: Severity::Warning,
            rule,
            message,
            file: file.clone(),
            span: entry.span,
            fix,
        })
    };
    entries.iter().enumerate().filter_map(judge).collect()
}

/// Returns a diagnostic for each unused `allow` in the sections of a policy for this skill. The file
/// of a diagnostic is the place of the rule, such as `policy.yaml:12:7`.
pub fn find_unused_rules(policy: &Policy, skill: &str, uses: &GrantUse) -> Vec<Diagnostic> {
    let own = |layer: &&Layer| {
        matches!(layer.origin, Origin::File(_))
            && layer.applies_to.as_ref().is_some_and(|glob| glob.pattern() == skill)
    };
    let rules = policy.layers.iter().filter(own).flat_map(|layer| &layer.allow);
    let judge = |rule: &Rule| {
        let (name, message, instead) = finding(&rule.text, EntryList::Allow, uses)?;
        let fix = Some(instead.map_or_else(
            || format!("remove `{}`", printable(&rule.text)),
            |text| format!("- {text}"),
        ));
        Some(Diagnostic {
            severity: Severity::Warning,
            rule: name,
            message,
            file: rule.place.clone(),
            span: None,
            fix,
        })
    };
    rules.filter_map(judge).collect()
}

/// Returns the violated rule, the message, and what to write instead, if anything.
fn finding(
    text: &str,
    side: EntryList,
    uses: &GrantUse,
) -> Option<(&'static str, String, Option<String>)> {
    let shown = printable(text);
    match judged(text, side, uses) {
        Judged::Used => None,
        Judged::Unused => Some((UNUSED, format!("none of these runs used `{shown}`"), None)),
        Judged::Unwritten => {
            let instead =
                text.split_once('(').map_or("Read".to_owned(), |(_, rest)| format!("Read({rest}"));
            Some((UNWRITTEN, format!("`{shown}` was used only for reading"), Some(instead)))
        }
    }
}

enum Judged {
    Used,
    Unused,
    Unwritten,
}

fn judged(text: &str, side: EntryList, uses: &GrantUse) -> Judged {
    let used = |yes: bool| if yes { Judged::Used } else { Judged::Unused };
    match entry::parse(text, side) {
        Permission::Read(glob) => {
            used(is_own(glob.pattern()) || uses.paths.keys().any(|path| glob.matches(path)))
        }
        Permission::Write(glob) => {
            let mut touched = uses.paths.iter().filter(|(path, _)| glob.matches(path)).peekable();
            match touched.peek().is_some() {
                false => used(is_own(glob.pattern())),
                true if touched.any(|(_, what)| what.written || what.whole) => Judged::Used,
                true => Judged::Unwritten,
            }
        }
        Permission::Bash(command) => used(uses.commands.iter().any(|argv| command.matches(argv))),
        Permission::WebFetch(host) => used(uses.requests.iter().any(|request| {
            host.matches(&Destination {
                https: request.https,
                host: request.host.clone(),
                port: request.port,
            })
        })),
        // Another rule reports entries that cannot be granted.
        Permission::NotGrantable { .. } => Judged::Used,
    }
}

/// Checks whether a pattern is in a folder that every skill has anyway.
fn is_own(pattern: &str) -> bool {
    super::within::is_below(pattern, "/skill") || super::within::is_below(pattern, "/tmp")
}
