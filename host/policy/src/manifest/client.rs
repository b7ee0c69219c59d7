//! What clients define for SKILL.md in addition to the specification. Three fields matter to a host
//! too, because they say who may start the skill, and how. The others are only named.

use super::Manifest;
use super::fields::value_or_key;
use super::findings::{Findings, abbreviate, quoted};
use super::frontmatter::lines_from;
use super::rules;
use super::yaml::Node;

/// The field that keeps agents from starting a skill.
pub(super) const DISABLE_MODEL_INVOCATION: &str = "disable-model-invocation";
/// The field that says whether users may start a skill.
pub(super) const USER_INVOCABLE: &str = "user-invocable";
/// The field that describes the argument of a prompt.
pub(super) const ARGUMENT_HINT: &str = "argument-hint";

/// The most characters of an argument's description.
pub(super) const MAX_HINT: usize = 200;

/// Fields that have a meaning for one client only.
pub(super) const OTHERS: [(&str, &str); 15] = [
    ("agent", "Claude Code"),
    ("arguments", "Claude Code"),
    ("color", "Claude Code"),
    ("context", "Claude Code"),
    ("effort", "Claude Code"),
    ("hooks", "Claude Code"),
    ("model", "Claude Code"),
    ("paths", "Claude Code"),
    ("shell", "Claude Code"),
    ("when_to_use", "Claude Code"),
    ("alwaysApply", "Cursor"),
    ("globs", "Cursor"),
    ("command-arg-mode", "OpenClaw"),
    ("command-dispatch", "OpenClaw"),
    ("command-tool", "OpenClaw"),
];

/// Reads a field that a client defines. Returns whether it is one.
pub(super) fn read(
    (key, value): (&Node, &Node),
    source: &str,
    manifest: &mut Manifest,
    findings: &mut Findings<'_>,
) -> bool {
    match key.text() {
        Some(DISABLE_MODEL_INVOCATION) => {
            manifest.user_only = flag(DISABLE_MODEL_INVOCATION, key, value, true, findings);
        }
        Some(USER_INVOCABLE) => {
            manifest.agent_only = !flag(USER_INVOCABLE, key, value, false, findings);
        }
        Some(ARGUMENT_HINT) => manifest.argument_hint = hint(key, value, source, findings),
        Some(name) => {
            let Some((_, client)) = OTHERS.iter().find(|(field, _)| *field == name) else {
                return false;
            };
            let message = format!("`{name}` is a field of {client}, and is ignored here");
            findings.add(&rules::CLIENT_FIELD, key.at.clone(), message, None);
        }
        None => return false,
    }
    true
}

/// Reads a flag. Anything but a boolean counts as the stricter value.
fn flag(
    field: &str,
    key: &Node,
    value: &Node,
    stricter: bool,
    findings: &mut Findings<'_>,
) -> bool {
    value.boolean().unwrap_or_else(|| {
        let kind = value.kind();
        let message =
            format!("`{field}` must be a boolean, not {kind}, and counts as `{stricter}`");
        let fix = Some(format!("{field}: {stricter}"));
        findings.add(&rules::CLIENT_FIELD_TYPE, value_or_key(key, value), message, fix);
        stricter
    })
}

/// Reads the description of the argument. A list such as `[file]` is read as written.
fn hint(key: &Node, value: &Node, source: &str, findings: &mut Findings<'_>) -> Option<String> {
    let written = match value.text() {
        Some(text) => Some(text),
        None if value.is_null() => None,
        None => source.get(value.at.clone()),
    };
    let hint = written.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let long = hint.chars().nth(MAX_HINT).is_some();
    if !value.is_string() || long {
        let message = match long {
            true => format!("`{ARGUMENT_HINT}` has more than {MAX_HINT} characters"),
            false => format!("`{ARGUMENT_HINT}` must be a string, not {}", value.kind()),
        };
        let fix = (!long && !hint.is_empty())
            .then(|| format!("{ARGUMENT_HINT}: {}", quoted(&abbreviate(&hint))));
        findings.add(&rules::CLIENT_FIELD_TYPE, value_or_key(key, value), message, fix);
    }
    Some(hint.chars().take(MAX_HINT).collect()).filter(|hint: &String| !hint.is_empty())
}

/// Applies a line of broken frontmatter to who may start the skill. Whatever is unclear counts as the
/// stricter value.
pub(super) fn recover(key: &str, value: &str, manifest: &mut Manifest) {
    match key {
        DISABLE_MODEL_INVOCATION => manifest.user_only |= value != "false",
        USER_INVOCABLE => manifest.agent_only |= value != "true",
        _ => {}
    }
}

/// Names the commands in the instructions that Claude Code runs when it loads a skill. Nothing here
/// runs them.
pub(super) fn check_commands(source: &str, body: usize, findings: &mut Findings<'_>) {
    let mut commands = lines_from(source, body).flat_map(|line| {
        let start = line.start;
        in_line(&source[line]).map(move |(at, end)| start + at..start + end)
    });
    let Some(first) = commands.next() else { return };
    let count = 1 + commands.count();
    let more = if count == 1 { String::new() } else { format!(" ({count} of these)") };
    let message = format!(
        "{} is a command that Claude Code runs when it loads the skill; here it never runs{more}",
        abbreviate(&source[first.clone()])
    );
    let fix = "tell the agent what to run, such as a script of the skill".to_owned();
    findings.add(&rules::CLIENT_COMMAND, first, message, Some(fix));
}

/// Finds the commands in a line: `` !`command` `` after a space or at the start, and the start of a
/// block, which is `` ```! ``.
fn in_line(line: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    let indent = line.len() - line.trim_start().len();
    let block = line[indent..].starts_with("```!").then_some((indent, line.trim_end().len()));
    let mut from = 0;
    let inline = std::iter::from_fn(move || {
        loop {
            let at = from + line[from..].find("!`")?;
            from = at + 2;
            let command = line[from..].find('`')?;
            if command > 0 && line[..at].chars().next_back().is_none_or(char::is_whitespace) {
                from += command + 1;
                return Some((at, from));
            }
        }
    });
    block.into_iter().chain(inline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_commands_after_a_space_count() {
        let found = |line: &str| {
            in_line(line).map(|(at, end)| line[at..end].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found("!`git status`"), ["!`git status`"]);
        assert_eq!(found("- a: !`x` and !`y z`, ok"), ["!`x`", "!`y z`"]);
        assert_eq!(found("  ```! "), ["```!"]);
        for line in ["`20!`, `17 mod 5`", "`#!` with `sh`", "a!`b`", "!``", "!`open", "", "é !"] {
            assert_eq!(found(line), Vec::<String>::new(), "{line}");
        }
    }
}
