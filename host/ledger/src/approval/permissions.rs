//! The permissions of a run as data, which approvals compare, and as text, which people read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::intersection::{self, Pattern};
use super::store::Approval;
use super::{ApprovalRequest, SkillPart, Term};
use skillhost_policy::capabilities::{Capabilities, Mount, MountMode, Scope};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::pattern::{CommandPattern, HostPattern, PathGlob};
use skillhost_skill::Skill;
use skillhost_skill::runtime;

/// A set of permissions. Limits, such as that on time, are not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermissionSet {
    folders: BTreeSet<Folder>,
    packages: BTreeSet<Folder>,
    read: Access<PathGlob>,
    write: Access<PathGlob>,
    start: Access<CommandPattern>,
    /// Programs that run outside the sandbox.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    host_programs: BTreeSet<String>,
    network: Access<HostPattern>,
    methods: BTreeSet<String>,
    /// Digests of certificate authorities.
    authorities: BTreeSet<String>,
    /// Digests of the values of variables, by name. The values are secret.
    variables: BTreeMap<String, String>,
}

/// A folder that guests see.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Folder {
    guest: String,
    kind: FolderKind,
    /// The host folder; `None` for a session's own folder, wherever it is.
    host: Option<HostFolder>,
    /// Whether guests may create symlinks in the host folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    symlinks: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FolderKind {
    Read,
    Write,
    Overlay,
    Session,
    Packages,
}

/// Identifies a folder of the host. An approval covers no other folder of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct HostFolder {
    path: String,
    /// Device and inode, if the folder exists.
    identity: Option<(u64, u64)>,
    /// The path below the folder that the rules refer to, if a client has narrowed it. The same
    /// rules then mean other files.
    rules_at: String,
}

/// What the patterns of one kind allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Access<P> {
    /// Intersections: all patterns of one of these lists must match.
    allowed: Vec<Vec<P>>,
    denied: Vec<P>,
}

impl<P> Default for Access<P> {
    fn default() -> Self {
        Access { allowed: Vec::new(), denied: Vec::new() }
    }
}

impl<P: Pattern> Access<P> {
    fn of(scope: &Scope<P>) -> Access<P> {
        if scope.is_empty() {
            return Access::default();
        }
        let mut sides = scope.all_of.iter();
        let mut common: Vec<Vec<P>> =
            sides.next().into_iter().flatten().map(|pattern| vec![pattern.clone()]).collect();
        for side in sides {
            common = common
                .iter()
                .flat_map(|patterns| {
                    side.iter().filter_map(|pattern| intersection::with(patterns, pattern))
                })
                .collect();
        }
        let allowed = intersection::minimal(&common).cloned().collect();
        Access { allowed, denied: scope.none_of.clone() }
    }

    /// Checks whether the approved access includes all of this one. A denial that was approved may
    /// be missing only if nothing of its kind is requested.
    fn is_within(&self, approved: &Access<P>) -> bool {
        self.allowed.iter().all(|patterns| approved.allowed.contains(patterns))
            && (self.allowed.is_empty()
                || approved.denied.iter().all(|pattern| self.denied.contains(pattern)))
    }

    fn lines(&self, kind: Kind) -> impl Iterator<Item = Line> {
        let text =
            |patterns: &Vec<P>| patterns.iter().map(P::words).collect::<Vec<_>>().join(", within ");
        let allowed = self.allowed.iter().map(move |patterns| Line::new(kind, text(patterns)));
        let denied = self.denied.iter().map(move |pattern| {
            Line::new(Kind::Never, format!("{} {}", kind.word(), pattern.words()))
        });
        allowed.chain(denied)
    }
}

impl PermissionSet {
    /// Returns the permissions of capabilities. `session_folder` is the session's own folder.
    pub(super) fn of(capabilities: &Capabilities, session_folder: Option<&Path>) -> PermissionSet {
        // Destructured, so that a new capability does not compile until it is handled here.
        let Capabilities {
            mounts,
            packages,
            read,
            write,
            spawn,
            host_programs,
            fetch,
            methods,
            authorities,
            env,
            limits: _,
            determinism: _,
        } = capabilities;
        let folder = |mount: &Mount| match session_folder == Some(mount.spelling()) {
            true => Folder {
                guest: mount.guest.clone(),
                kind: FolderKind::Session,
                host: None,
                symlinks: mount.symlinks,
            },
            false => {
                let kind = match mount.mode {
                    MountMode::Read => FolderKind::Read,
                    MountMode::Write => FolderKind::Write,
                    MountMode::Overlay => FolderKind::Overlay,
                };
                Folder::new(mount, kind)
            }
        };
        // Methods and authorities give access to nothing without a host.
        let has_network = !fetch.is_empty();
        PermissionSet {
            folders: mounts.iter().map(folder).collect(),
            packages: packages
                .iter()
                .map(|mount| Folder::new(mount, FolderKind::Packages))
                .collect(),
            read: Access::of(read),
            write: Access::of(write),
            start: Access::of(spawn),
            host_programs: host_programs.clone(),
            network: Access::of(fetch),
            methods: methods.iter().filter(|_| has_network).map(ToString::to_string).collect(),
            authorities: authorities
                .iter()
                .filter(|_| has_network)
                .map(|authority| authority.digest.clone())
                .collect(),
            variables: env
                .iter()
                .map(|(name, value)| (name.clone(), runtime::digest(value.as_bytes())))
                .collect(),
        }
    }

    /// Checks whether all of these permissions are among the approved ones.
    pub(super) fn is_within(&self, approved: &PermissionSet) -> bool {
        let PermissionSet {
            folders,
            packages,
            read,
            write,
            start,
            host_programs,
            network,
            methods,
            authorities,
            variables,
        } = self;
        folders.is_subset(&approved.folders)
            && packages.is_subset(&approved.packages)
            && read.is_within(&approved.read)
            && write.is_within(&approved.write)
            && start.is_within(&approved.start)
            && host_programs.is_subset(&approved.host_programs)
            && network.is_within(&approved.network)
            && methods.is_subset(&approved.methods)
            && authorities.is_subset(&approved.authorities)
            && variables.iter().all(|(name, value)| approved.variables.get(name) == Some(value))
    }

    /// Returns the permissions as text, with everything that only the host may know.
    pub(super) fn full_lines(&self) -> Vec<String> {
        self.lines().iter().map(Line::full).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns one line for each permission, in the order in which people read them best.
    fn lines(&self) -> Vec<Line> {
        let PermissionSet {
            folders,
            packages,
            read,
            write,
            start,
            host_programs,
            network,
            methods,
            authorities,
            variables,
        } = self;
        let folder = |folder: &Folder| Line {
            kind: if folder.kind == FolderKind::Packages { Kind::Packages } else { Kind::Folder },
            text: folder.text(),
            host: folder.host.as_ref().map(HostFolder::text),
        };
        let mut lines: Vec<Line> = folders.iter().chain(packages).map(folder).collect();
        lines.extend(read.lines(Kind::Read));
        lines.extend(write.lines(Kind::Write));
        lines.extend(start.lines(Kind::Start));
        lines.extend(
            host_programs
                .iter()
                .map(|name| Line::new(Kind::Start, format!("{name} (outside the sandbox)"))),
        );
        lines.extend(network.lines(Kind::Network));
        lines.extend(methods.iter().map(|method| Line::new(Kind::Method, method.clone())));
        lines.extend(
            authorities.iter().map(|digest| {
                Line::new(Kind::Trust, format!("the certificate authority {digest}"))
            }),
        );
        lines.extend(variables.iter().map(|(name, digest)| Line {
            kind: Kind::Variable,
            text: name.clone(),
            host: Some(digest.clone()),
        }));
        lines.sort();
        lines.dedup();
        lines
    }
}

impl Folder {
    fn new(mount: &Mount, kind: FolderKind) -> Folder {
        let host = HostFolder {
            path: mount.host.display().to_string(),
            identity: mount.resolved.as_ref().map(|folder| (folder.device, folder.inode)),
            rules_at: mount.rules_at.clone(),
        };
        let (guest, symlinks) = (mount.guest.clone(), mount.symlinks);
        Folder { guest, kind, host: Some(host), symlinks }
    }

    fn text(&self) -> String {
        let kind = match self.kind {
            FolderKind::Read => "read-only",
            FolderKind::Write => "read-write",
            FolderKind::Overlay => "overlay",
            FolderKind::Session => "this session only",
            FolderKind::Packages => return self.guest.clone(),
        };
        let symlinks = if self.symlinks { ", with symlinks" } else { "" };
        format!("{} ({kind}{symlinks})", self.guest)
    }
}

impl HostFolder {
    fn text(&self) -> String {
        let mut text = self.path.clone();
        if let Some((device, inode)) = self.identity {
            _ = write!(text, " (device {device}, inode {inode})");
        }
        if !self.rules_at.is_empty() {
            _ = write!(text, ", at {} of the folder in the rules", self.rules_at);
        }
        text
    }
}

/// A permission as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    kind: Kind,
    text: String,
    /// What only the host may know: a host folder, or the digest of a variable's value.
    host: Option<String>,
}

/// The kind of a permission, in the order of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Folder,
    Packages,
    Read,
    Write,
    Start,
    Network,
    Method,
    Trust,
    Variable,
    Never,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Folder => "folder",
            Kind::Packages => "packages",
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Start => "start",
            Kind::Network => "network",
            Kind::Method => "method",
            Kind::Trust => "trust",
            Kind::Variable => "variable",
            Kind::Never => "never",
        }
    }

    /// Checks whether permissions of this kind share one line.
    fn is_joined(self) -> bool {
        match self {
            Kind::Read | Kind::Write | Kind::Start | Kind::Network | Kind::Method => true,
            Kind::Folder | Kind::Packages | Kind::Trust | Kind::Variable | Kind::Never => false,
        }
    }
}

impl Line {
    fn new(kind: Kind, text: String) -> Line {
        Line { kind, text, host: None }
    }

    fn full(&self) -> String {
        let Line { kind, text, host } = self;
        match host {
            Some(host) => format!("{} {text} = {host}", kind.word()),
            None => format!("{} {text}", kind.word()),
        }
    }

    /// Returns what a reader may know. The value of a variable is never shown.
    fn shown(&self, reader: Reader) -> String {
        let hides_host = self.kind == Kind::Variable || reader == Reader::Client;
        printable(&match hides_host {
            true => format!("{} {}", self.kind.word(), self.text),
            false => self.full(),
        })
    }
}

/// Returns the files of a skill and their digests.
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

/// The last approval of the same part of a skill.
pub(super) struct PreviousApproval<'a> {
    pub(super) approval: &'a Approval,
    pub(super) permissions: &'a PermissionSet,
}

/// The reader of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// The operator, who knows this machine.
    Operator,
    /// The user of a client, who must not see host paths.
    Client,
}

/// Writes what the operator should know before approving a run.
pub(super) fn question(
    request: &ApprovalRequest<'_>,
    permissions: &PermissionSet,
    files: &BTreeMap<String, String>,
    previous: Option<&PreviousApproval<'_>>,
    reader: Reader,
) -> String {
    let name = printable(&request.skill.name);
    let mut out = match request.part {
        SkillPart::Skill => format!("{name} asks to run"),
        SkillPart::Program(program) => format!("{name} asks to run {}", printable(program)),
        SkillPart::Tool(tool) => format!("{name} asks to run its tool {}", printable(tool)),
        SkillPart::Command => format!("{name} asks to run a shell command"),
    };
    let trust = if request.trusted { "" } else { " (not trusted)" };
    _ = write!(out, "\nits files: {}{trust}", request.digest);
    request.input.lines().iter().for_each(|line| _ = write!(out, "\n{line}"));
    let lines = permissions.lines();
    let Some(PreviousApproval { approval, permissions: before }) = previous else {
        out += "\nit may:";
        if lines.is_empty() {
            out += "\n  nothing besides its own files and scratch space";
        }
        joined(&lines, reader).iter().for_each(|line| _ = write!(out, "\n  {line}"));
        return out;
    };
    _ = write!(out, "\nsince {} approved it at {}:", printable(&approval.who), approval.time);
    let start = out.len();
    for (path, digest) in files {
        match approval.files.get(path) {
            None => _ = write!(out, "\n  + file {}", printable(path)),
            Some(old) if old != digest => _ = write!(out, "\n  ~ file {}", printable(path)),
            Some(_) => {}
        }
    }
    let removed = approval.files.keys().filter(|path| !files.contains_key(*path));
    removed.for_each(|path| _ = write!(out, "\n  - file {}", printable(path)));
    let before = before.lines();
    for line in before.iter().filter(|line| !lines.contains(line)) {
        _ = write!(out, "\n  - {}", line.shown(reader));
    }
    for line in lines.iter().filter(|line| !before.contains(line)) {
        _ = write!(out, "\n  + {}", line.shown(reader));
    }
    if out.len() == start {
        out += match approval.term {
            Term::Once => "\n  nothing has changed; that approval was for one run",
            Term::Session => "\n  nothing has changed; that approval was for another session",
            Term::Always => "\n  nothing has changed; that approval was revoked",
        };
    }
    out
}

/// Puts permissions of one kind on one line.
fn joined(lines: &[Line], reader: Reader) -> Vec<String> {
    lines
        .chunk_by(|a, b| a.kind == b.kind && a.kind.is_joined())
        .map(|lines| match lines {
            [first, _, ..] => {
                let texts: Vec<String> = lines.iter().map(|line| printable(&line.text)).collect();
                let has_comma = texts.iter().any(|text| text.contains(", "));
                let separator = if has_comma { "; " } else { ", " };
                format!("{} {}", first.kind.word(), texts.join(separator))
            }
            lines => lines.iter().map(|line| line.shown(reader)).collect(),
        })
        .collect()
}
