//! Capabilities: everything that a run may touch, as plain data. `check` prints, the sandbox
//! enforces and the audit log stores the same value.

mod captured;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use super::determinism::Determinism;
use super::pattern::{CommandPattern, HostPattern, PathGlob};
use super::protected;
use crate::limits::Limits;

pub use captured::{CapturedAuthority, CapturedCapabilities, CapturedMount, RestoreError};

/// Everything a guest may do. The default value allows nothing.
#[derive(Clone, PartialEq, Eq, Serialize, schemars::JsonSchema, Default)]
pub struct Capabilities {
    /// The folders that guests see in addition to `/skill` (read-only) and `/tmp` (scratch), sorted
    /// by guest path.
    pub mounts: Vec<Mount>,
    /// Package folders for the built-in programs. They are readable whatever `read` says.
    pub packages: Vec<Mount>,
    /// Which guest paths may be read, within the mounts.
    pub read: Scope<PathGlob>,
    /// Which guest paths may be written and read, within the writable mounts.
    pub write: Scope<PathGlob>,
    /// Which commands may be started.
    pub spawn: Scope<CommandPattern>,
    /// The programs of the embedding application that may be started, within `spawn`. They run
    /// outside the sandbox.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub host_programs: BTreeSet<String>,
    /// Which hosts may receive HTTP(S) requests.
    pub fetch: Scope<HostPattern>,
    /// The HTTP methods that may be used, in upper case.
    pub methods: Vec<String>,
    /// Certificate authorities that HTTPS trusts in addition to the built-in ones.
    pub authorities: Vec<Authority>,
    /// The environment that guests see, sorted by name. Values are secrets: only the names are
    /// printed or logged.
    #[serde(serialize_with = "names_only")]
    #[schemars(with = "Vec<String>")]
    pub env: BTreeMap<String, String>,
    /// The limits.
    pub limits: Limits,
    /// The seed and start time of a deterministic run; `None` if the run is not deterministic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub determinism: Option<Determinism>,
}

/// Which guest paths may be read and written: a slice of [`Capabilities`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathRules {
    /// Which may be read, within the mounts.
    pub read: Scope<PathGlob>,
    /// Which may be written (and read), within the writable mounts.
    pub write: Scope<PathGlob>,
}

/// The files that a guest may reach: a slice of [`Capabilities`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileRules {
    /// The granted folders.
    pub mounts: Vec<Mount>,
    /// The folders of packages.
    pub packages: Vec<Mount>,
    /// Which paths, within the granted folders.
    pub paths: PathRules,
}

/// The requests that a guest may send: a slice of [`Capabilities`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkRules {
    /// To which hosts.
    pub fetch: Scope<HostPattern>,
    /// By which methods, upper case.
    pub methods: Vec<String>,
    /// Certificate authorities that HTTPS trusts besides the built-in ones.
    pub authorities: Vec<Authority>,
}

/// A host folder that guests see.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
pub struct Mount {
    /// Absolute guest path without a trailing slash, such as `/workspace`.
    pub guest: String,
    /// The host folder: its canonical path if it existed when it was granted, otherwise the path
    /// that the operator wrote.
    pub host: PathBuf,
    /// The folder that the operator's path led to. `None` until the mount is granted, and if the
    /// folder did not exist.
    #[serde(skip)]
    pub resolved: Option<HostFolder>,
    /// What the mount permits, within the scopes.
    pub mode: MountMode,
    /// The path from the folder that rules mean by the guest path to the host folder, such as
    /// `a/b`. Empty if they are the same folder.
    ///
    /// A client's root moves the guest path to a subfolder. Rules must still refer to the same host
    /// paths.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rules_at: String,
    /// Whether guests may create symlinks in the host folder. They lead to places inside it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub symlinks: bool,
    /// Whether the targets of symlinks in the host folder are paths of the guest: skillhost has written the
    /// folder for it, and no program of the host follows them.
    #[serde(skip)]
    pub guest_links: bool,
}

impl Mount {
    /// Creates a mount of the folder that rules mean by its guest path.
    pub fn new(guest: impl Into<String>, host: impl Into<PathBuf>, mode: MountMode) -> Mount {
        Mount {
            guest: guest.into(),
            host: host.into(),
            resolved: None,
            mode,
            rules_at: String::new(),
            symlinks: false,
            guest_links: false,
        }
    }

    /// Returns the path that rules use for a guest path inside this mount.
    pub fn rule_path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        match path.strip_prefix(self.guest.as_str()) {
            Some(rest) if !self.rules_at.is_empty() => {
                format!("{}/{}{rest}", self.guest, self.rules_at).into()
            }
            _ => path.into(),
        }
    }

    /// Returns the folders above this mount that rules can name, outermost first.
    fn rule_parents(&self) -> impl Iterator<Item = String> {
        let below = self
            .rules_at
            .match_indices('/')
            .map(|(at, _)| format!("{}/{}", self.guest, &self.rules_at[..at]));
        (!self.rules_at.is_empty()).then(|| self.guest.clone()).into_iter().chain(below)
    }
}

/// The host folder that the operator's path led to when it was granted. If another folder takes its
/// place later, that one is not granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostFolder {
    /// The path as the operator wrote it. `.` means another folder in the next project.
    pub spelling: PathBuf,
    /// The device of the folder.
    pub device: u64,
    /// The inode of the folder.
    pub inode: u64,
    /// When the folder was created, in nanoseconds since 1970, if the file system knows it: a new
    /// folder can get the inode of one that was removed.
    pub born: Option<i128>,
}

impl Mount {
    /// Returns the host path as the operator wrote it.
    pub fn spelling(&self) -> &Path {
        self.resolved.as_ref().map_or(&self.host, |resolved| &resolved.spelling)
    }
}

/// A certificate authority that the operator added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Authority {
    /// The PEM file that contains the certificate.
    pub file: PathBuf,
    /// The certificate's digest: `sha256:` and 64 hex digits.
    pub digest: String,
    /// The certificate.
    #[serde(skip)]
    pub certificate: CertificateDer<'static>,
}

/// What a mount permits.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum MountMode {
    /// Reading only.
    Read,
    /// Reading and writing in place.
    Write,
    /// Reading and writing; writes go to an overlay and leave the folder unchanged.
    Overlay,
}

/// A set that is defined by patterns. A member matches at least one pattern of *every* list in
/// `all_of`, and no pattern of `none_of`.
///
/// There is one list for each side, the skill and the operator. This makes their intersection exact
/// for all patterns. A scope without lists is empty, so a forgotten field allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Scope<P> {
    /// The patterns of each side, the operator's last. A side without patterns allows nothing.
    pub all_of: Vec<Vec<P>>,
    /// The denied patterns. They override both sides.
    pub none_of: Vec<P>,
    /// The skill's requests that overlap with nothing that the operator allows. They allow nothing;
    /// a denial uses them to name the side that lacks an entry.
    #[serde(default = "Vec::<P>::new", skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<P>,
}

/// Which sides lack an entry that something needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingEntry {
    /// The skill's `allowed-tools`.
    Skill,
    /// The operator's policy.
    Operator,
    /// Both.
    Both,
}

impl MissingEntry {
    /// Says what is missing, as the start of a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            MissingEntry::Skill => "allowed-tools has no entry",
            MissingEntry::Operator => "the policy has no entry",
            MissingEntry::Both => "neither allowed-tools nor the policy has an entry",
        }
    }

    /// Says how to add the entry, such as `Write(out/**)`, to each side that lacks it.
    pub fn fix(self, entry: &str) -> String {
        match self {
            MissingEntry::Skill => format!("add `{entry}` to allowed-tools in SKILL.md"),
            MissingEntry::Operator => format!("--allow '{entry}'"),
            MissingEntry::Both => {
                format!("--allow '{entry}', and `{entry}` in allowed-tools of SKILL.md")
            }
        }
    }
}

impl<P> Default for Scope<P> {
    fn default() -> Self {
        Scope::empty()
    }
}

impl<P> Scope<P> {
    /// Returns the scope that allows nothing.
    pub fn empty() -> Self {
        Scope { all_of: Vec::new(), none_of: Vec::new(), unmet: Vec::new() }
    }

    /// Returns the operator's patterns.
    pub fn operator_patterns(&self) -> &[P] {
        self.all_of.last().map_or(&[], Vec::as_slice)
    }

    /// Returns which sides have no matching pattern; `None` if both have one.
    pub fn missing_entry(&self, matches: impl Fn(&P) -> bool) -> Option<MissingEntry> {
        let lacks = |side: &[P]| !side.iter().any(&matches);
        let (skill, operator) = match &self.all_of[..] {
            [skill, operator] => (lacks(skill) && lacks(&self.unmet), lacks(operator)),
            [operator] => (false, lacks(operator)),
            _ => (false, true),
        };
        match (skill, operator) {
            (true, true) => Some(MissingEntry::Both),
            (true, false) => Some(MissingEntry::Skill),
            (false, true) => Some(MissingEntry::Operator),
            (false, false) => None,
        }
    }

    /// Checks whether the scope allows nothing.
    pub fn is_empty(&self) -> bool {
        self.all_of.is_empty() || self.all_of.iter().any(Vec::is_empty)
    }

    /// Checks whether a value is in the set. `matches` compares the value with one pattern.
    pub fn allows(&self, matches: impl Fn(&P) -> bool) -> bool {
        !self.all_of.is_empty()
            && self.all_of.iter().all(|side| side.iter().any(&matches))
            && !self.none_of.iter().any(&matches)
    }
}

impl Scope<CommandPattern> {
    /// Checks whether a command line may run: both sides allow it, and no denial matches.
    pub fn allows_command(&self, argv: &[String]) -> bool {
        self.allows_command_before_denials(argv) && self.find_denial(argv).is_none()
    }

    /// Checks whether both sides allow a command line, before denials are considered.
    pub fn allows_command_before_denials(&self, argv: &[String]) -> bool {
        !self.all_of.is_empty()
            && self.all_of.iter().all(|side| side.iter().any(|pattern| pattern.matches(argv)))
    }

    /// Returns which sides have no entry for a host program; `None` if both have one. `matches`
    /// compares a pattern with the program or its command line.
    ///
    /// A host program runs outside the sandbox. So the operator's entry must name it: `Bash` alone
    /// means the programs of the sandbox. And the skill must ask: without `allowed-tools` it gets
    /// none.
    pub fn missing_host_entry(
        &self,
        matches: impl Fn(&CommandPattern) -> bool,
    ) -> Option<MissingEntry> {
        let names = |pattern: &CommandPattern| !pattern.words.is_empty() && matches(pattern);
        let (asked, named) = match &self.all_of[..] {
            [skill, operator] => (skill.iter().any(&matches), operator.iter().any(names)),
            [operator] => (false, operator.iter().any(names)),
            _ => (false, false),
        };
        match (asked || self.unmet.iter().any(&matches), named) {
            (false, false) => Some(MissingEntry::Both),
            (false, true) => Some(MissingEntry::Skill),
            (true, false) => Some(MissingEntry::Operator),
            (true, true) => (!asked).then_some(MissingEntry::Operator),
        }
    }

    /// Returns the first denial that matches a command line.
    pub fn find_denial(&self, argv: &[String]) -> Option<&CommandPattern> {
        self.none_of.iter().find(|pattern| pattern.denies(argv))
    }
}

fn names_only<S: serde::Serializer>(
    env: &BTreeMap<String, String>,
    s: S,
) -> Result<S::Ok, S::Error> {
    s.collect_seq(env.keys())
}

impl std::fmt::Debug for Capabilities {
    /// Prints JSON, which keeps the values of environment variables out of `{:?}` too.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| std::fmt::Error)?)
    }
}

impl Capabilities {
    /// Returns what the guest may do with an absolute guest path inside a mount. The file layer
    /// handles `/skill` and `/tmp` itself.
    ///
    /// If the rules deny a folder above the mount, they deny everything in the mount.
    pub fn path_access(&self, mount: &Mount, path: &str) -> PathAccess {
        Paths { read: &self.read, write: &self.write }.access(mount, path)
    }

    /// Returns a copy of the network rules.
    pub fn network_rules(&self) -> NetworkRules {
        NetworkRules {
            fetch: self.fetch.clone(),
            methods: self.methods.clone(),
            authorities: self.authorities.clone(),
        }
    }
}

impl PathRules {
    /// Returns what the guest may do with an absolute guest path, as [`Capabilities::path_access`].
    pub fn access(&self, mount: &Mount, path: &str) -> PathAccess {
        self.paths().access(mount, path)
    }

    /// Returns what a path configures if it is write-protected, that is, if no entry of the
    /// operator names it without wildcards. `path` is a path as rules use it.
    pub fn protection(&self, mount: &Mount, path: &str) -> Option<protected::ProtectedKind> {
        self.paths().protection(mount, path)
    }

    fn paths(&self) -> Paths<'_> {
        Paths { read: &self.read, write: &self.write }
    }
}

/// The path rules of [`Capabilities`] or [`PathRules`].
#[derive(Clone, Copy)]
struct Paths<'a> {
    read: &'a Scope<PathGlob>,
    write: &'a Scope<PathGlob>,
}

impl Paths<'_> {
    fn access(self, mount: &Mount, path: &str) -> PathAccess {
        if mount.rule_parents().any(|parent| self.rule_access(mount, &parent) == PathAccess::None) {
            return PathAccess::None;
        }
        self.rule_access(mount, &mount.rule_path(path))
    }

    fn rule_access(self, mount: &Mount, path: &str) -> PathAccess {
        let denied_read = self.read.none_of.iter().any(|g| g.matches(path));
        if denied_read {
            return PathAccess::None;
        }
        let write = self.write.allows(|g| g.matches(path));
        if write && mount.mode != MountMode::Read && self.protection(mount, path).is_some() {
            // Writing implies reading, which stays allowed.
            PathAccess::Read
        } else if write && mount.mode != MountMode::Read {
            PathAccess::Write
        } else if write || self.read.allows(|g| g.matches(path)) {
            PathAccess::Read
        } else if self.leads_somewhere(path) {
            PathAccess::Traverse
        } else {
            PathAccess::None
        }
    }

    fn protection(self, mount: &Mount, path: &str) -> Option<protected::ProtectedKind> {
        let below =
            |path: &str| path.strip_prefix(mount.guest.as_str()).and_then(protected::kind_of);
        let names = |literal: &str| {
            below(literal).is_some()
                && path
                    .strip_prefix(literal)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let named =
            || self.write.operator_patterns().iter().filter_map(PathGlob::literal).any(names);
        below(path).filter(|_| !named())
    }

    /// Checks whether a folder may contain something that is allowed. It may err towards yes.
    fn leads_somewhere(self, path: &str) -> bool {
        let leads = |scope: &Scope<PathGlob>| {
            !scope.is_empty()
                && scope.all_of.iter().all(|side| side.iter().any(|g| g.may_contain(path)))
        };
        leads(self.read) || leads(self.write)
    }
}

/// What a guest may do with one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathAccess {
    /// Nothing: the path does not exist for the guest.
    None,
    /// Pass through and list the folder. Forbidden entries are omitted from the list.
    Traverse,
    /// Read it.
    Read,
    /// Read and write it.
    Write,
}
