//! What is asked for, as lines that people read and that tell whether one request is within
//! another.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use super::common::{self, Common};
use super::store::Approval;
use super::{ApprovalRequest, SkillPart};
use skillhost_policy::capabilities::{Capabilities, HostFolder, Mount, MountMode, Scope};
use skillhost_policy::diagnostic::printable;
use skillhost_skill::Skill;
use skillhost_skill::runtime;

/// A set of permissions. What bounds a run, such as its time, is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PermissionSet {
    lines: BTreeSet<String>,
}

/// What comes before what only the host may know.
const HOST: &str = " = ";
/// Starts a line that takes away: fewer of those is more.
const NEVER: &str = "never ";

impl PermissionSet {
    /// The permissions of capabilities.
    pub(super) fn of(capabilities: &Capabilities, own: Option<&Path>) -> PermissionSet {
        let Capabilities {
            mounts,
            packages,
            read,
            write,
            spawn,
            fetch,
            methods,
            authorities,
            env,
            limits: _,
            determinism: _,
        } = capabilities;
        let mut lines = BTreeSet::new();
        for mount in mounts {
            let mode = match mount.mode {
                MountMode::Read => "read-only",
                MountMode::Write => "read-write",
                MountMode::Overlay => "writes kept aside",
            };
            lines.insert(match own == Some(mount.spelling()) {
                true => format!("folder {} (of this session alone)", mount.guest),
                false => format!("folder {} ({mode}){HOST}{}", mount.guest, place(mount)),
            });
        }
        lines.extend(
            packages.iter().map(|mount| format!("packages {}{HOST}{}", mount.guest, place(mount))),
        );
        scope(&mut lines, "read", read);
        scope(&mut lines, "write", write);
        scope(&mut lines, "start", spawn);
        scope(&mut lines, "network", fetch);
        if !fetch.is_empty() {
            lines.extend(methods.iter().map(|method| format!("method {method}")));
            lines.extend(
                authorities.iter().map(|authority| {
                    format!("trust the certificate authority {}", authority.digest)
                }),
            );
        }
        // The value counts too, and is a secret.
        lines.extend(env.iter().map(|(name, value)| {
            format!("variable {name}{HOST}{}", runtime::digest(value.as_bytes()))
        }));
        PermissionSet { lines }
    }

    pub(super) fn from_lines(lines: &[String]) -> PermissionSet {
        PermissionSet { lines: lines.iter().cloned().collect() }
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines.into_iter().collect()
    }

    /// Whether all of it is part of what was approved.
    pub(super) fn is_within(&self, approved: &PermissionSet) -> bool {
        let (never, more): (Vec<&String>, Vec<&String>) =
            approved.lines.iter().partition(|line| line.starts_with(NEVER));
        self.lines.iter().filter(|line| !line.starts_with(NEVER)).all(|line| more.contains(&line))
            && never.into_iter().all(|line| self.lines.contains(line) || !self.names(line))
    }

    /// Whether anything of the kind that a denial is about is asked for.
    fn names(&self, never: &str) -> bool {
        let kind =
            never.strip_prefix(NEVER).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        self.lines.iter().any(|line| line.split(' ').next() == Some(kind))
    }
}

/// Which folder of the host's a mount is: an approval holds for no other, whatever its path is
/// called.
fn place(mount: &Mount) -> String {
    let host = mount.host.display();
    let folder = match &mount.resolved {
        Some(HostFolder { device, inode, .. }) => {
            format!("{host} (device {device}, inode {inode})")
        }
        None => host.to_string(),
    };
    // Where a client narrowed the folder, the rules below mean other paths.
    if mount.rules_at.is_empty() {
        folder
    } else {
        format!("{folder}, {} of what the rules name", mount.rules_at)
    }
}

/// One line for each thing that is in the set: what the sides have in common.
fn scope<P: Common>(lines: &mut BTreeSet<String>, kind: &str, scope: &Scope<P>) {
    if scope.is_empty() {
        return;
    }
    let one = |pattern: &P| vec![pattern.clone()];
    let mut sides = scope.all_of.iter();
    let mut common: Vec<Vec<P>> = sides.next().into_iter().flatten().map(one).collect();
    for side in sides {
        common = common
            .iter()
            .flat_map(|so_far| side.iter().filter_map(|pattern| common::with(so_far, pattern)))
            .collect();
    }
    lines.extend(common::least(&common).map(|all| {
        format!("{kind} {}", all.iter().map(P::words).collect::<Vec<_>>().join(", within "))
    }));
    lines.extend(scope.none_of.iter().map(|pattern| format!("{NEVER}{kind} {}", pattern.words())));
}

/// The files of a skill and their digests.
pub(super) fn files(skill: &Skill) -> io::Result<BTreeMap<String, String>> {
    let digest = |path: &str, link: &Option<String>| match link {
        Some(target) => Ok(format!("link to {target}")),
        None => Ok::<_, io::Error>(runtime::digest(&skill.read(path)?)),
    };
    skill
        .files
        .iter()
        .map(|file| Ok((file.path.clone(), digest(&file.path, &file.link)?)))
        .collect()
}

/// The last approval of the same.
pub(super) struct PreviousApproval<'a> {
    pub(super) approval: &'a Approval,
    pub(super) asked: PermissionSet,
}

/// Who reads a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// The operator, who knows this machine.
    Operator,
    /// The user of a client, to whom no path of the host is told.
    Client,
}

/// What a person should know before they say yes.
pub(super) fn text(
    ask: &ApprovalRequest<'_>,
    asked: &PermissionSet,
    files: &BTreeMap<String, String>,
    before: Option<&PreviousApproval<'_>>,
    reader: Reader,
) -> String {
    let name = printable(&ask.skill.name);
    let shown = |line: &str| shown(line, reader);
    let mut out = match ask.part {
        SkillPart::Skill => format!("{name} asks to run"),
        SkillPart::Program(program) => format!("{name} asks to run {}", printable(program)),
        SkillPart::Tool(tool) => format!("{name} asks to run its tool {}", printable(tool)),
        SkillPart::Command => format!("{name} asks to run a shell command"),
    };
    let _ = write!(
        out,
        "\nits files: {}{}",
        ask.digest,
        if ask.trusted { "" } else { " (not trusted)" }
    );
    ask.input.lines().iter().for_each(|line| _ = write!(out, "\n{line}"));
    let Some(before) = before else {
        let lines: Vec<String> =
            listed(&asked.lines, shown).iter().map(|line| format!("\n  {line}")).collect();
        let none = "\n  nothing beside its own files and scratch space".to_owned();
        return out + "\nit may:" + &if lines.is_empty() { none } else { lines.concat() };
    };
    let _ = write!(
        out,
        "\nsince {} approved it at {}:",
        printable(&before.approval.who),
        before.approval.time
    );
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
    before
        .asked
        .lines
        .difference(&asked.lines)
        .for_each(|line| _ = write!(out, "\n  - {}", shown(line)));
    asked
        .lines
        .difference(&before.asked.lines)
        .for_each(|line| _ = write!(out, "\n  + {}", shown(line)));
    if out.len() == start {
        out += "\n  nothing changed; that approval was for another time";
    }
    out
}

/// The lines in the order that they are read best in, those of one kind as one.
fn listed(lines: &BTreeSet<String>, shown: impl Fn(&str) -> String) -> Vec<String> {
    const ALONE: [&str; 5] = ["folder", "packages", "variable", "trust", "never"];
    const KINDS: [&str; 10] = [
        "folder", "packages", "read", "write", "start", "network", "method", "trust", "variable",
        "never",
    ];
    let of = |kind: &str| {
        lines
            .iter()
            .filter(|line| line.split(' ').next() == Some(kind))
            .map(|line| shown(line))
            .collect::<Vec<_>>()
    };
    let together = |kind: &str, lines: Vec<String>| {
        let things: Vec<&str> = lines.iter().map(|line| &line[kind.len() + 1..]).collect();
        let between = if things.iter().any(|thing| thing.contains(", ")) { "; " } else { ", " };
        format!("{kind} {}", things.join(between))
    };
    let listed =
        KINDS.into_iter().map(|kind| (kind, of(kind))).filter(|(_, lines)| !lines.is_empty());
    listed
        .flat_map(
            |(kind, lines)| if ALONE.contains(&kind) { lines } else { vec![together(kind, lines)] },
        )
        .collect()
}

/// A line without what its reader must not know. The value of a variable is told nobody.
fn shown(line: &str, reader: Reader) -> String {
    let hides = match reader {
        Reader::Operator => &["variable "][..],
        Reader::Client => &["folder ", "packages ", "variable "],
    };
    let hides = hides.iter().any(|kind| line.starts_with(kind));
    printable(if hides { line.split(HOST).next().unwrap_or(line) } else { line })
}
