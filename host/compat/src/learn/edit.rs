//! Edits SKILL.md and policy files line by line, and leaves everything else unchanged. Callers verify
//! an edit by reading it back.

use super::limits;
use skillhost_policy::limits::Limit;

/// The learned section of a policy for one skill.
pub(super) struct Section {
    pub(super) allow: Vec<String>,
    /// Written only to a new file.
    pub(super) deny: Vec<String>,
    /// Omitted if empty.
    pub(super) methods: Vec<String>,
    pub(super) limits: Vec<(Limit, u64)>,
}

/// Sets the line of `allowed-tools` in a SKILL.md. Returns `None` without frontmatter.
pub(super) fn allowed_tools(source: &str, line: &str) -> Option<String> {
    let lines: Vec<&str> = source.split_inclusive('\n').collect();
    let fence = |line: &&str| line.trim_end() == "---";
    let open = lines.iter().position(fence)?;
    let close = open + 1 + lines[open + 1..].iter().position(fence)?;
    let key = (open + 1..close).find(|at| lines[*at].starts_with("allowed-tools:"));
    let (from, to) = match key {
        None => (close, close),
        Some(from) => {
            let own = |line: &&str| {
                line.starts_with([' ', '\t']) || line.starts_with("- ") || line.trim().is_empty()
            };
            (from, from + 1 + lines[from + 1..close].iter().take_while(|line| own(line)).count())
        }
    };
    let end = if lines[open].ends_with("\r\n") { "\r\n" } else { "\n" };
    Some(format!("{}{line}{end}{}", lines[..from].concat(), lines[to..].concat()))
}

/// Sets the section for a skill in a policy file. Returns `None` if the file has a form that cannot be
/// edited.
pub(super) fn policy(text: &str, name: &str, what: &Section) -> Option<String> {
    if text.trim().is_empty() {
        return Some(format!(
            "# What {name} needed. This file replaces the built-in policy.\nskills:\n{}",
            section(name, what, 2)
        ));
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(skills) = lines.iter().position(|line| is_key(line, "skills", 0)) else {
        let gap = if text.ends_with('\n') { "" } else { "\n" };
        let taken = lines.iter().any(|line| line.starts_with("skills"));
        return (!taken).then(|| format!("{text}{gap}\nskills:\n{}", section(name, what, 2)));
    };
    let end = block_end(&lines, skills, 0);
    let width =
        lines[skills + 1..end].iter().find(|line| is_content(line)).map_or(2, |line| indent(line));
    let Some(own) = (skills + 1..end).find(|at| is_key(lines[*at], name, width)) else {
        let taken = lines[skills + 1..end].iter().any(|line| {
            indent(line) == width
                && line.trim_start().trim_start_matches('"').starts_with(&format!("{name}:"))
        });
        return (!taken).then(|| {
            format!(
                "{}{}{}",
                lines[..=skills].concat(),
                section(name, what, width),
                lines[skills + 1..].concat()
            )
        });
    };
    let own_end = block_end(&lines, own, width);
    let inner = lines[own + 1..own_end]
        .iter()
        .find(|line| is_content(line))
        .map_or(width + 2, |line| indent(line));
    let mut kept = String::new();
    let mut at = own + 1;
    while at < own_end {
        let known =
            ["allow", "methods", "limits"].into_iter().any(|key| starts_key(lines[at], key, inner));
        if known {
            at = block_end(&lines[..own_end], at, inner);
        } else {
            kept.push_str(lines[at]);
            at += 1;
        }
    }
    // Keep the line with the section's name as it is written.
    let learnt = section(name, what, width)
        .split_once('\n')
        .map(|(_, rest)| rest.to_owned())
        .unwrap_or_default();
    let shift =
        |line: &str| format!("{}{}", " ".repeat(inner), &line[(width + 2).min(line.len())..]);
    let learnt: String = learnt.split_inclusive('\n').map(shift).collect();
    Some(format!("{}{learnt}{kept}{}", lines[..=own].concat(), lines[own_end..].concat()))
}

/// Formats a section at an indentation.
pub(super) fn section(name: &str, what: &Section, width: usize) -> String {
    let pad = " ".repeat(width);
    let mut out = format!("{pad}{name}:\n");
    for (key, entries) in [("allow", &what.allow), ("deny", &what.deny)] {
        match entries.as_slice() {
            [] if key == "deny" => {}
            [] => out.push_str(&format!("{pad}  {key}: []\n")),
            entries => {
                out.push_str(&format!("{pad}  {key}:\n"));
                entries
                    .iter()
                    .for_each(|entry| out.push_str(&format!("{pad}    - {}\n", scalar(entry))));
            }
        }
    }
    if !what.methods.is_empty() {
        out.push_str(&format!("{pad}  methods: [{}]\n", what.methods.join(", ")));
    }
    out.push_str(&format!("{pad}  limits:\n"));
    for (limit, value) in &what.limits {
        out.push_str(&format!("{pad}    {limit}: {}\n", limits::shown(*limit, *value)));
    }
    out
}

/// Formats an entry as YAML: plain if that is safe, otherwise quoted.
fn scalar(entry: &str) -> String {
    let plain = entry.starts_with(|c: char| c.is_ascii_alphabetic())
        && !entry.contains(": ")
        && !entry.contains(" #")
        && !entry.ends_with(':');
    if plain { entry.to_owned() } else { serde_json::Value::from(entry).to_string() }
}

/// Checks whether a line is a key whose value is the block below it.
fn is_key(line: &str, key: &str, width: usize) -> bool {
    let rest = line
        .trim_end()
        .get(width..)
        .filter(|_| indent(line) == width)
        .and_then(|rest| rest.strip_prefix(key));
    rest.and_then(|rest| rest.strip_prefix(':'))
        .is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'))
}

fn starts_key(line: &str, key: &str, width: usize) -> bool {
    indent(line) == width
        && line
            .get(width..)
            .and_then(|rest| rest.strip_prefix(key))
            .is_some_and(|rest| rest.starts_with(':'))
}

/// Returns the end of a key's block: the next line with at most the same indentation, except items of
/// the key's list.
fn block_end(lines: &[&str], key: usize, width: usize) -> usize {
    let inside = |line: &str| {
        !is_content(line)
            || indent(line) > width
            || (indent(line) == width && line.trim_start().starts_with("- "))
    };
    let end = lines[key + 1..]
        .iter()
        .position(|line| !inside(line))
        .map_or(lines.len(), |at| key + 1 + at);
    // Blank lines and comments before the next key belong to that key.
    let trailing = lines[key + 1..end].iter().rev().take_while(|line| !is_content(line)).count();
    end - trailing
}

fn is_content(line: &str) -> bool {
    let text = line.trim();
    !text.is_empty() && !text.starts_with('#')
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}
