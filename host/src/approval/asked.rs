//! What is asked for, as lines that people read and that tell whether one request is within another.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::Ask;
use super::What;
use super::store::Approval;
use crate::diagnostic::printable;
use crate::policy::capabilities::{Capabilities, MountMode, Scope};
use crate::runtime;
use crate::skill::Skill;

/// A set of permissions. What bounds a run, such as its time, is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Asked {
    lines: BTreeSet<String>,
}

/// What comes before what only the host may know.
const HOST: &str = " = ";
/// Starts a line that takes away: fewer of those is more.
const NEVER: &str = "never ";

impl Asked {
    /// The permissions of capabilities.
    pub(super) fn of(capabilities: &Capabilities, own: Option<&Path>) -> Asked {
        let Capabilities { mounts, packages, read, write, spawn, fetch, methods, authorities, env, limits: _, determinism: _ } =
            capabilities;
        let mut lines = BTreeSet::new();
        for mount in mounts {
            let mode = match mount.mode {
                MountMode::Read => "read-only",
                MountMode::Write => "read-write",
                MountMode::Overlay => "writes kept aside",
            };
            lines.insert(match own == Some(mount.host.as_path()) {
                true => format!("folder {} (of this session alone)", mount.guest),
                false => format!("folder {} ({mode}){HOST}{}", mount.guest, mount.host.display()),
            });
        }
        lines.extend(packages.iter().map(|mount| format!("packages {}{HOST}{}", mount.guest, mount.host.display())));
        scope(&mut lines, "read", read);
        scope(&mut lines, "write", write);
        scope(&mut lines, "start", spawn);
        scope(&mut lines, "network", fetch);
        if !fetch.is_nothing() {
            lines.extend(methods.iter().map(|method| format!("method {method}")));
            lines.extend(authorities.iter().map(|authority| format!("trust {}", authority.digest)));
        }
        // The value counts too, and is a secret.
        lines.extend(env.iter().map(|(name, value)| format!("variable {name}{HOST}{}", runtime::digest(value.as_bytes()))));
        Asked { lines }
    }

    pub(super) fn from_lines(lines: &[String]) -> Asked {
        Asked { lines: lines.iter().cloned().collect() }
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines.into_iter().collect()
    }

    /// Whether all of it is part of what was approved.
    pub(super) fn is_within(&self, approved: &Asked) -> bool {
        let (never, more): (Vec<&String>, Vec<&String>) = approved.lines.iter().partition(|line| line.starts_with(NEVER));
        self.lines.iter().filter(|line| !line.starts_with(NEVER)).all(|line| more.contains(&line))
            && never.into_iter().all(|line| self.lines.contains(line) || !self.names(line))
    }

    /// Whether anything of the kind that a denial is about is asked for.
    fn names(&self, never: &str) -> bool {
        let kind = never.strip_prefix(NEVER).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        self.lines.iter().any(|line| line.split(' ').next() == Some(kind))
    }
}

/// One line for each pattern of each side: what is allowed is what matches a pattern of every side.
fn scope<P: Serialize>(lines: &mut BTreeSet<String>, kind: &str, scope: &Scope<P>) {
    if scope.is_nothing() {
        return;
    }
    let text = |pattern: &P| match serde_json::to_value(pattern) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(value) => show(&value),
        Err(_) => String::new(),
    };
    for (side, patterns) in scope.all_of.iter().enumerate() {
        let of = if side == 0 { "" } else { "only " };
        let number = if side < 2 { String::new() } else { format!("{side} ") };
        lines.extend(patterns.iter().map(|pattern| format!("{kind} {of}{number}{}", text(pattern))));
    }
    lines.extend(scope.none_of.iter().map(|pattern| format!("{NEVER}{kind} {}", text(pattern))));
}

/// A pattern of several parts: a command, or a host.
fn show(value: &serde_json::Value) -> String {
    if let (Some(words), Some(open)) = (value["words"].as_array(), value["open"].as_bool()) {
        let words: Vec<&str> = words.iter().filter_map(|word| word.as_str()).collect();
        return match (words.is_empty(), open) {
            (true, _) => "any command".to_owned(),
            (false, true) => format!("{} ...", words.join(" ")),
            (false, false) => words.join(" "),
        };
    }
    value.to_string()
}

/// The files of a skill and their digests.
pub(super) fn files(skill: &Skill) -> io::Result<BTreeMap<String, String>> {
    let digest = |path: &str, link: &Option<String>| match link {
        Some(target) => Ok(format!("link to {target}")),
        None => Ok::<_, io::Error>(runtime::digest(&skill.read(path)?)),
    };
    skill.files.iter().map(|file| Ok((file.path.clone(), digest(&file.path, &file.link)?))).collect()
}

/// The last approval of the same.
pub(super) struct Before<'a> {
    pub(super) approval: &'a Approval,
    pub(super) asked: Asked,
}

/// What a person should know before they say yes.
pub(super) fn text(ask: &Ask<'_>, asked: &Asked, files: &BTreeMap<String, String>, before: Option<&Before<'_>>) -> String {
    let name = printable(&ask.skill.name);
    let mut out = match ask.what {
        What::Skill => format!("{name} asks to run"),
        What::Program(program) => format!("{name} asks to run {}", printable(program)),
        What::Tool(tool) => format!("{name} asks to run its tool {}", printable(tool)),
    };
    let _ = write!(out, "\nits files: {}{}", ask.digest, if ask.trusted { "" } else { " (not from your own folders)" });
    let Some(before) = before else {
        let lines: Vec<String> = asked.lines.iter().map(|line| format!("\n  {}", shown(line))).collect();
        let none = "\n  nothing beside its own files and scratch space".to_owned();
        return out + "\nit may:" + &if lines.is_empty() { none } else { lines.concat() };
    };
    let _ = write!(out, "\nsince {} approved it at {}:", printable(&before.approval.who), before.approval.time);
    let start = out.len();
    for (path, digest) in files {
        match before.approval.files.get(path) {
            None => _ = write!(out, "\n  + file {}", printable(path)),
            Some(old) if old != digest => _ = write!(out, "\n  ~ file {}", printable(path)),
            Some(_) => {}
        }
    }
    let gone = before.approval.files.keys().filter(|path| !files.contains_key(*path));
    gone.for_each(|path| _ = write!(out, "\n  - file {}", printable(path)));
    before.asked.lines.difference(&asked.lines).for_each(|line| _ = write!(out, "\n  - {}", shown(line)));
    asked.lines.difference(&before.asked.lines).for_each(|line| _ = write!(out, "\n  + {}", shown(line)));
    if out.len() == start {
        out += "\n  nothing changed; that approval was for another time";
    }
    out
}

/// A line without what only the host may know.
fn shown(line: &str) -> String {
    printable(line.split(HOST).next().unwrap_or(line)).to_string()
}
