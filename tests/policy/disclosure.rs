//! How the sections of a policy decide what agents see of a skill.

use skillhost_policy::disclosure::Disclosure::{self, Always, Deferred, Hidden};

use super::policy;
use skillhost_policy::source::SourceKind;

#[test]
fn the_strictest_section_that_applies_decides() {
    for (default, section, named, expected) in [
        (None, None, None, Deferred),
        (None, Some(Always), None, Always),
        (Some(Always), None, None, Always),
        (Some(Always), Some(Deferred), None, Deferred),
        (Some(Deferred), Some(Always), None, Deferred),
        (Some(Hidden), Some(Always), None, Hidden),
        (Some(Always), Some(Hidden), None, Hidden),
        (None, Some(Always), Some(Deferred), Deferred),
        (None, Some(Deferred), Some(Always), Deferred),
        (None, Some(Hidden), Some(Always), Hidden),
        (None, None, Some(Hidden), Hidden),
    ] {
        let section_of = |name: &str, set: Option<Disclosure>| {
            set.map_or(String::new(), |set| format!("  {name}: {{ disclosure: {} }}\n", set.name()))
        };
        let default = section_of("default", default).trim_start().to_owned();
        let sections = [section_of("acme-*", section), section_of("acme-notes", named)].concat();
        let sections = if sections.is_empty() { sections } else { format!("skills:\n{sections}") };
        let text = format!("usage: true\n{default}{sections}");
        let policy = policy(&text);
        assert_eq!(policy.disclosure("acme-notes", false), expected, "{text}");
        assert_eq!(policy.hides("acme-notes"), expected == Hidden, "{text}");
        assert_eq!(policy.discloses_from_start("acme-notes", false), expected == Always, "{text}");
    }
}

#[test]
fn preload_counts_as_always() {
    let policy = policy(
        "preload: [notes]\nskills: { tasks: { disclosure: deferred }, secret: { disclosure: hidden } }\n",
    );
    for (skill, expected) in [("notes", Always), ("tasks", Deferred), ("secret", Hidden)] {
        assert_eq!(policy.disclosure(skill, true), expected, "{skill}");
    }
    assert_eq!(policy.disclosure("notes", false), Deferred, "the caller knows the list");
}

#[test]
fn a_tool_is_disclosed_as_the_strictest_of_its_skill_and_its_own_value() {
    for (skill, tool, expected) in [
        ("", "", Deferred),
        ("", "always", Always),
        ("", "hidden", Hidden),
        ("always", "", Always),
        ("always", "deferred", Deferred),
        ("deferred", "always", Deferred),
        ("hidden", "always", Hidden),
    ] {
        let key = |key: &str, value: &str| match value {
            "" => String::new(),
            value => format!("{key}{value}"),
        };
        let tools = key("t: ", tool);
        let disclosure = key("disclosure: ", skill);
        let text = format!("skills:\n  demo:\n    tools: {{ {tools} }}\n    {disclosure}\n");
        let policy = policy(&text);
        assert_eq!(policy.tool_disclosure("demo", "t", false), expected, "{text}");
        let other = policy.disclosure("demo", false);
        assert_eq!(policy.tool_disclosure("demo", "u", false), other, "another tool: {text}");
        let any = expected == Always || other == Always;
        assert_eq!(policy.discloses_from_start("demo", false), any, "{text}");
    }
}

#[test]
fn disclosure_grants_nothing() {
    let text = "skills: { demo: { disclosure: always, tools: { t: hidden } } }\n";
    assert!(!policy(text).grants_by_name("demo"));
    let by_path = policy(text);
    let by_path = by_path.for_source(SourceKind::Path, None);
    assert_eq!(by_path.tool_disclosure("demo", "t", false), Hidden, "it restricts by path too");
}
