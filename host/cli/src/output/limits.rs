//! Explains which limit a run hit, what set it, and where to raise it.

use skillhost_policy::outcome::LimitHit;
use skillhost_policy::{LimitOrigin, Policy, limit_origin};
use skillhost_skill::Skill;

/// Explains a limit that a run of a skill hit under a policy. For the operator: places may contain
/// paths of the host.
pub(super) fn explain(hit: &LimitHit, skill: &Skill, policy: &Policy) -> String {
    let LimitHit { limit, value } = *hit;
    let policy = policy.for_source(skill.origin, skill.locked.as_ref());
    let flag = limit.flag();
    let by_flag = flag.map(|flag| format!(" or by `{flag} VALUE`")).unwrap_or_default();
    let (by, raise) = match limit_origin(&skill.policy_manifest(), &policy, limit, value) {
        // The flag alone would change nothing: a skill can only lower a limit.
        Some(LimitOrigin::Skill) => {
            (format!("`metadata.{limit}` in {}", place(skill, limit.key())), "there".to_owned())
        }
        Some(LimitOrigin::Policy(place)) => {
            (format!("`limits` at {place}"), format!("there{by_flag}"))
        }
        Some(LimitOrigin::Ceiling(place)) => (format!("`ceiling` at {place}"), "there".to_owned()),
        Some(LimitOrigin::CommandLine) if let Some(flag) = flag => {
            (format!("`{flag}`"), format!("by `{flag} VALUE`"))
        }
        Some(LimitOrigin::Default | LimitOrigin::CommandLine) | None => return hit.explain(),
    };
    let shown = limit.show(value);
    format!("the limit `{limit}` of {shown}, set by {by}, was hit; raise it {raise}")
}

/// The place of a key of `metadata` in SKILL.md: with its line, if it is found.
fn place(skill: &Skill, key: &str) -> String {
    let file = &skill.skill_file;
    // The first line opens the frontmatter.
    let mut lines = skill.source.lines().enumerate().skip(1);
    let line = lines
        .by_ref()
        .take_while(|(_, line)| line.trim_end() != "---")
        .skip_while(|(_, line)| !line.starts_with("metadata"))
        .find(|(_, line)| has_key(line, key));
    line.map_or_else(|| file.clone(), |(number, _)| format!("{file}:{}", number + 1))
}

fn has_key(line: &str, key: &str) -> bool {
    line.match_indices(key).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + key.len()..].trim_start_matches(['"', '\'']).trim_start();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '-') && after.starts_with(':')
    })
}
