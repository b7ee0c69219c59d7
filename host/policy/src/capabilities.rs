//! What an invocation may touch: plain data, the same value that `check` prints, the sandbox
//! enforces and the audit log keeps.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use super::determinism::Determinism;
use super::protected;
use super::tool::{CommandPattern, HostPattern, PathGlob};
use crate::limits::Limits;

/// Everything a guest may do. The default value allows nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, Default)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// The folders that guests see beside `/skill` (read-only) and `/tmp` (scratch), sorted by
    /// guest path.
    pub mounts: Vec<Mount>,
    /// Folders of packages for the built-in programs, read-only whatever else may be read.
    pub packages: Vec<Mount>,
    /// Which guest paths may be read, within the mounts.
    pub read: Scope<PathGlob>,
    /// Which guest paths may be written (and read), within the writable mounts.
    pub write: Scope<PathGlob>,
    /// Which commands may be started.
    pub spawn: Scope<CommandPattern>,
    /// Which hosts may be asked over HTTP(S).
    pub fetch: Scope<HostPattern>,
    /// HTTP methods that may be used, upper case.
    pub methods: Vec<String>,
    /// Certificate authorities that HTTPS trusts beside the built-in ones.
    pub authorities: Vec<Authority>,
    /// The environment that guests see, names sorted. Values are secrets: only the names are ever
    /// printed or logged.
    #[serde(serialize_with = "names_only", deserialize_with = "without_values")]
    #[schemars(with = "Vec<String>")]
    pub env: BTreeMap<String, String>,
    /// The bounds.
    pub limits: Limits,
    /// What a deterministic run starts from; `None`: it is not deterministic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub determinism: Option<Determinism>,
}

/// A host folder that guests see.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Mount {
    /// Absolute guest path without a trailing slash, such as `/workspace`.
    pub guest: String,
    /// The host folder: its real path where it was there when it was granted, else as the operator
    /// named it. Receipts leave it out.
    #[serde(default)]
    pub host: PathBuf,
    /// What the operator wrote for it, and which folder that was; `None` before it is granted, and
    /// where there was no folder.
    #[serde(skip)]
    pub resolved: Option<HostFolder>,
    /// What may be done in it, where the scopes allow.
    pub mode: MountMode,
    /// Where the host folder lies below the folder that the rules call by the guest path: `a/b`, or
    /// empty where it is that folder itself.
    ///
    /// A client's root moves the guest path to a folder further down, and the rules must go on
    /// meaning the same host paths.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rules_at: String,
}

impl Mount {
    /// A mount of the folder that the rules mean by its guest path.
    pub fn new(guest: impl Into<String>, host: impl Into<PathBuf>, mode: MountMode) -> Mount {
        Mount {
            guest: guest.into(),
            host: host.into(),
            resolved: None,
            mode,
            rules_at: String::new(),
        }
    }

    /// The path that rules use for a guest path inside this mount.
    pub fn rule_path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        match path.strip_prefix(self.guest.as_str()) {
            Some(rest) if !self.rules_at.is_empty() => {
                format!("{}/{}{rest}", self.guest, self.rules_at).into()
            }
            _ => path.into(),
        }
    }

    /// The folders above this mount that rules may name, the outermost first.
    fn rule_parents(&self) -> impl Iterator<Item = String> {
        let below = self
            .rules_at
            .match_indices('/')
            .map(|(at, _)| format!("{}/{}", self.guest, &self.rules_at[..at]));
        (!self.rules_at.is_empty()).then(|| self.guest.clone()).into_iter().chain(below)
    }
}

/// A folder that a text of the operator's led to when it was granted. Another folder in its place
/// is not what was granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostFolder {
    /// The text: `.` is another folder in the next project.
    pub named: PathBuf,
    /// The device that it is on.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

impl Mount {
    /// The folder as the operator wrote it.
    pub fn named(&self) -> &Path {
        self.resolved.as_ref().map_or(&self.host, |resolved| &resolved.named)
    }
}

/// A certificate authority of the operator's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Authority {
    /// The PEM file that holds its certificate. Receipts leave it out.
    #[serde(default)]
    pub file: PathBuf,
    /// Its certificate's digest, `sha256:` and 64 hex digits.
    pub digest: String,
    /// Its certificate.
    #[serde(skip, default = "no_certificate")]
    pub certificate: CertificateDer<'static>,
}

/// What may be done in a mount.
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
    /// Nothing is written.
    Read,
    /// Written in place.
    Write,
    /// Writes are kept aside: the folder stays as it was.
    Overlay,
}

/// A set given by patterns: a member matches at least one pattern of *every* list in `all_of`, and
/// none of `none_of`.
///
/// One list a side (the skill's, the operator's): their intersection is exact, whatever the
/// patterns are. No list at all means nothing, so that a forgotten field allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Scope<P> {
    /// Each side's patterns, the operator's last; a side that is empty allows nothing.
    pub all_of: Vec<Vec<P>>,
    /// Denied, whatever the sides say.
    pub none_of: Vec<P>,
}

impl<P> Default for Scope<P> {
    fn default() -> Self {
        Scope::nothing()
    }
}

impl<P> Scope<P> {
    /// Allows nothing.
    pub fn nothing() -> Self {
        Scope { all_of: Vec::new(), none_of: Vec::new() }
    }

    /// The patterns of the operator.
    pub fn operator_side(&self) -> &[P] {
        self.all_of.last().map_or(&[], Vec::as_slice)
    }

    /// Whether no member can match.
    pub fn is_nothing(&self) -> bool {
        self.all_of.is_empty() || self.all_of.iter().any(Vec::is_empty)
    }

    /// Whether a thing is in the set, given what it means to match one pattern.
    pub fn allows(&self, matches: impl Fn(&P) -> bool) -> bool {
        !self.all_of.is_empty()
            && self.all_of.iter().all(|side| side.iter().any(&matches))
            && !self.none_of.iter().any(&matches)
    }
}

impl Scope<CommandPattern> {
    /// Whether an argv may be started: each side allows it, and no denial stops it.
    pub fn allows_command(&self, argv: &[String]) -> bool {
        self.is_allowed_command(argv) && self.denial_of(argv).is_none()
    }

    /// Whether each side allows an argv, whatever is denied.
    pub fn is_allowed_command(&self, argv: &[String]) -> bool {
        !self.all_of.is_empty()
            && self.all_of.iter().all(|side| side.iter().any(|pattern| pattern.matches(argv)))
    }

    /// The denial that stops an argv.
    pub fn denial_of(&self, argv: &[String]) -> Option<&CommandPattern> {
        self.none_of.iter().find(|pattern| pattern.denies(argv))
    }
}

fn names_only<S: serde::Serializer>(
    env: &BTreeMap<String, String>,
    s: S,
) -> Result<S::Ok, S::Error> {
    s.collect_seq(env.keys())
}

fn without_values<'de, D: serde::Deserializer<'de>>(
    d: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(Vec::<String>::deserialize(d)?.into_iter().map(|name| (name, String::new())).collect())
}

/// Of an authority that is known by digest alone: it is trusted by nobody.
fn no_certificate() -> CertificateDer<'static> {
    CertificateDer::from(Vec::new())
}

impl std::fmt::Debug for Capabilities {
    /// As JSON, so that no value of the environment reaches a log by way of `{:?}` either.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| std::fmt::Error)?)
    }
}

impl Capabilities {
    /// What may be done with an absolute guest path inside the mount that holds it. `/skill` and
    /// `/tmp` are the file layer's own.
    ///
    /// Nothing is allowed in a mount whose rules forbid a folder above it.
    pub fn path_access(&self, mount: &Mount, path: &str) -> PathAccess {
        if mount.rule_parents().any(|parent| self.rule_access(mount, &parent) == PathAccess::None) {
            return PathAccess::None;
        }
        self.rule_access(mount, &mount.rule_path(path))
    }

    fn rule_access(&self, mount: &Mount, path: &str) -> PathAccess {
        let denied_read = self.read.none_of.iter().any(|g| g.matches(path));
        if denied_read {
            return PathAccess::None;
        }
        let write = self.write.allows(|g| g.matches(path));
        if write && mount.mode != MountMode::Read && self.protects(mount, path).is_some() {
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

    /// What a path of the rules configures, where that keeps it from being written: no entry of the
    /// operator's names it literally.
    pub fn protects(&self, mount: &Mount, path: &str) -> Option<protected::Kind> {
        let below =
            |path: &str| path.strip_prefix(mount.guest.as_str()).and_then(protected::protects);
        let names = |literal: &str| {
            below(literal).is_some()
                && path
                    .strip_prefix(literal)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let named = || self.write.operator_side().iter().filter_map(PathGlob::literal).any(names);
        below(path).filter(|_| !named())
    }

    /// Whether a folder may hold something allowed, as far as the patterns tell.
    fn leads_somewhere(&self, path: &str) -> bool {
        let leads = |scope: &Scope<PathGlob>| {
            !scope.is_nothing()
                && scope.all_of.iter().all(|side| side.iter().any(|g| g.may_hold(path)))
        };
        leads(&self.read) || leads(&self.write)
    }
}

/// What may be done with one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathAccess {
    /// It is not there.
    None,
    /// A folder that may be passed through and listed (its forbidden entries left out), and no
    /// more.
    Traverse,
    /// Read.
    Read,
    /// Read and written.
    Write,
}
