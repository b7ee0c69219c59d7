//! Grants host programs: functions of the embedding application that a skill starts as commands.

use std::collections::BTreeSet;

use super::grant::{EntryDecision, Grant, Verdict};
use super::pattern::CommandPattern;
use super::program_name::installed_name;

/// Grants the registered host programs that the skill asks for and that an `allow` of the operator
/// names, and adds a decision on each one that the skill asks for.
///
/// No deterministic run gets any: their results cannot be reproduced.
pub fn grant_host_programs(grant: &mut Grant, registered: &BTreeSet<String>) {
    for name in registered {
        let Some(decision) = decide(grant, name) else { continue };
        if decision.verdict == Verdict::Granted {
            grant.capabilities.host_programs.insert(name.clone());
        }
        grant.decisions.push(decision);
    }
}

/// Decides on one host program. Returns `None` if the skill does not ask for it.
fn decide(grant: &Grant, name: &str) -> Option<EntryDecision> {
    let spawn = &grant.capabilities.spawn;
    let any = CommandPattern { words: vec![name.to_owned()], open: true };
    let means = |pattern: &CommandPattern| match pattern.words.first() {
        None => true,
        Some(program) => installed_name(program) == Some(name),
    };
    let asks = match &spawn.all_of[..] {
        [skill, _] => skill.iter().chain(&spawn.unmet).any(means),
        _ => false,
    };
    if !asks {
        return None;
    }
    let refused = |rule: String, fix| EntryDecision {
        entry: format!("host program {name}"),
        place: None,
        verdict: Verdict::Refused,
        meaning: "nothing: it runs outside the sandbox".into(),
        rule,
        fix,
    };
    if grant.capabilities.determinism.is_some() {
        return Some(refused(
            "a deterministic run starts no host programs".into(),
            Some("run it without `deterministic`".into()),
        ));
    }
    if let Some(denial) = spawn.none_of.iter().find(|denial| denial.denies_all(&any)) {
        return Some(refused(format!("denied by `{denial}`"), None));
    }
    Some(match spawn.missing_host_entry(means) {
        Some(_) => refused(
            "a host program needs an `allow` that names it; `Bash` alone means the sandbox".into(),
            Some(format!("--allow '{any}', or `{any}` in `allow` of a policy file")),
        ),
        None => EntryDecision {
            entry: format!("host program {name}"),
            place: None,
            verdict: Verdict::Granted,
            meaning: format!(
                "start `{name}`, which is part of the embedding application and runs outside the sandbox"
            ),
            rule: "an `allow` of the policy names it".into(),
            fix: None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::determinism::DeterminismRule;
    use crate::manifest::{Manifest, ToolEntry};
    use crate::{Overrides, Policy, grant};

    /// Grants `lookup` to a skill with these `allowed-tools`, under the built-in policy with these
    /// entries. Returns what is granted, and the verdict if there is one.
    fn granted(
        asked: Option<&[&str]>,
        allow: &[&str],
        deny: &[&str],
        deterministic: bool,
    ) -> (bool, Option<Verdict>) {
        let entries = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let tool = |text: &&str| ToolEntry { text: (*text).into(), span: None };
        let manifest = Manifest {
            name: "skill".into(),
            allowed_tools: asked.map(|asked| asked.iter().map(tool).collect()),
            ..Manifest::default()
        };
        let determinism =
            DeterminismRule { on: deterministic.then_some(true), ..DeterminismRule::default() };
        let overrides = Overrides {
            allow: entries(allow),
            deny: entries(deny),
            determinism,
            ..Overrides::default()
        };
        let policy = Policy::builtin().with_command_line(overrides).unwrap();
        let mut grant = grant(&manifest, &policy);
        grant_host_programs(&mut grant, &BTreeSet::from(["lookup".to_owned()]));
        let decision = grant.decisions.iter().find(|one| one.entry == "host program lookup");
        (!grant.capabilities.host_programs.is_empty(), decision.map(|one| one.verdict))
    }

    #[test]
    fn host_programs_need_a_request_and_an_entry_that_names_them() {
        let named: &[&str] = &["Bash(lookup:*)"];
        let bash: &[&str] = &["Bash"];
        let yes = (true, Some(Verdict::Granted));
        let no = (false, Some(Verdict::Refused));
        let unasked = (false, None);
        for (asked, allow, deny, expected) in [
            (Some(named), named, &[][..], yes),
            (Some(bash), named, &[][..], yes),
            (Some(&["Bash(lookup get:*)"][..]), &["Bash(/usr/bin/lookup get *)"][..], &[], yes),
            (Some(named), &[], &[], no),
            (Some(bash), &["Bash(*)"], &[], no),
            (Some(named), &["Bash(./lookup:*)"], &[], no),
            (Some(named), named, named, no),
            (Some(named), named, bash, no),
            (Some(&["Bash(jq:*)"]), named, &[], unasked),
            (Some(&["Read"]), named, &[], unasked),
            (None, named, &[], unasked),
        ] {
            assert_eq!(
                granted(asked, allow, deny, false),
                expected,
                "{asked:?} {allow:?} {deny:?}"
            );
        }
    }

    #[test]
    fn deterministic_runs_get_no_host_programs() {
        let named: &[&str] = &["Bash(lookup:*)"];
        assert_eq!(granted(Some(named), named, &[], true), (false, Some(Verdict::Refused)));
    }
}
