//! What a skill asks for, what the operator allows, and the capabilities that follow from both.
//!
//! This crate owns the plain data that all other crates exchange: the manifest, the policy,
//! capabilities, limits, diagnostics and outcomes. It must not know how a skill is stored or how a
//! program runs. It reads policy files ([`load`]) and certificates that they name; it touches
//! nothing else.
//!
//! Start reading at [`grant()`]: it intersects a [`manifest::Manifest`] with a [`Policy`] and
//! returns [`capabilities::Capabilities`], without I/O. A policy is a stack of layers: the built-in
//! one, or those of a policy file in its place, and the command line's on top. What the layers that
//! apply to a skill allow adds up; what any of them denies is denied. [`manifest`] is the only code
//! that parses SKILL.md, [`tool`] the only code that parses an entry of `allowed-tools`, and
//! [`outcome`] says how a run ended.

pub mod approval;
mod authorities;
pub mod capabilities;
pub mod determinism;
pub mod diagnostic;
pub mod entry;
mod exercise;
mod explain;
mod file;
mod glob;
mod grant;
mod layer;
pub mod limits;
pub mod manifest;
mod mounts;
pub mod outcome;
pub mod program_name;
pub mod protected;
mod schema;
pub mod source;
pub mod tool;
mod verdict;
mod yaml;

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::diagnostic::{Diagnostic, Severity};
use crate::limits::Limit;
use crate::source::SourceKind;
use capabilities::{Authority, Mount, MountMode};
use determinism::DeterminismRule;
use entry::Side;

pub use exercise::exercise;
pub use explain::explain;
pub use file::{PolicyError, load};
pub use grant::{Decision, Grant, Verdict, grant};
pub use layer::{EnvRule, EnvValue, Layer, LimitRule, MountRule, NameGlob, Origin, Rule};
pub use schema::schema;

pub(crate) use crate::diagnostic::printable;

/// Where `--workspace` is mounted.
pub const WORKSPACE: &str = "/workspace";

/// Where `--site-packages` are mounted, each under its number.
pub const SITE_PACKAGES: &str = "/usr/local/lib/site-packages";

/// What an operator allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// In rising rank: a later layer's mount or variable of the same name holds.
    pub layers: Vec<Layer>,
    /// Whom HTTPS trusts beside the built-in authorities, for every skill. No layer can add to
    /// them.
    pub authorities: Vec<Authority>,
    /// Folders of skills that the catalogue knows beside the standard places. They grant nothing.
    pub folders: Vec<PathBuf>,
    /// How long records of invocations are kept. No layer can change it.
    pub retention: Retention,
    /// What the audit log holds of a run's texts. No layer can change it.
    pub audit_detail: AuditDetail,
    /// What recordings do not hold.
    pub secrets: Secrets,
    /// Whether it is counted how agents use skills.
    pub usage: bool,
    /// What is active when an agent's session starts.
    pub preload: Preload,
    /// Who approves what agents' clients ask for.
    pub clients: Clients,
}

/// Who approves a client's runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Approver {
    /// The operator, by `skillhost approve`.
    #[default]
    Operator,
    /// The client's own user, whom the client asks. Whatever the client sends counts as that user's
    /// answer.
    Client,
}

/// Who approves the runs of each client that the host can tell from others. Staged writes are the
/// operator's in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Clients {
    /// The client that started the server, and talks to it on a pipe.
    pub stdio: Approver,
    /// Whoever shows the server's token over HTTP.
    pub http: Approver,
}

/// The skills whose tools an agent's session has from its start. That grants them nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Preload {
    /// None.
    #[default]
    Nothing,
    /// Those that many of the last sessions used.
    Suggested,
    /// These.
    Named(Vec<String>),
}

/// Which values stand in a recording, and how. Those of the operator's variables, cookies and
/// authorization are encrypted where nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Secrets {
    /// Variables that are not stored at all.
    pub env: Vec<String>,
    /// Header fields that are not stored at all, lower case.
    pub headers: Vec<String>,
    /// Variables and header fields that are stored in clear, as they are written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plain: Vec<String>,
}

/// Header fields that are encrypted where nothing is said.
const ENCRYPTED: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "set-cookie"];

impl Secrets {
    /// The header fields that do not stand in clear: those that are named, and those that are
    /// encrypted where nothing is said.
    pub fn headers(&self) -> Vec<String> {
        let is_plain = |field: &str| self.plain.iter().any(|name| name.eq_ignore_ascii_case(field));
        let encrypted = ENCRYPTED.into_iter().filter(|field| !is_plain(field));
        let mut all: Vec<String> =
            self.headers.iter().cloned().chain(encrypted.map(str::to_owned)).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Whether a variable's value does not stand in clear.
    pub fn hides_variable(&self, name: &str) -> bool {
        self.env.iter().any(|known| known == name) || !self.plain.iter().any(|known| known == name)
    }
}

/// How long the audit log keeps records. Nothing said: for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Those older than this go.
    pub age: Option<Duration>,
    /// The oldest go until the rest takes at most so many bytes.
    pub bytes: Option<u64>,
}

/// What the audit log holds of texts that a client or a guest chose: arguments, paths, messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuditDetail {
    /// Keyed digests.
    #[default]
    Digests,
    /// The texts as well, without the values of secrets.
    Text,
}

impl Retention {
    /// Whether nothing ever goes.
    pub fn is_forever(&self) -> bool {
        *self == Retention::default()
    }
}

/// What the command line adds. Not `Debug`: `env` holds secrets.
#[derive(Clone, Default)]
pub struct Overrides {
    /// `--workspace DIR[:ro|:overlay]`.
    pub workspace: Option<(PathBuf, MountMode)>,
    /// `--allow ENTRY`.
    pub allow: Vec<String>,
    /// `--deny ENTRY`.
    pub deny: Vec<String>,
    /// `--env NAME=VALUE`, or `--env NAME` for the host's own value.
    pub env: Vec<String>,
    /// `--site-packages DIR`.
    pub packages: Vec<PathBuf>,
    /// `--timeout`, `--memory`, `--fuel`.
    pub limits: Vec<(Limit, u64)>,
    /// `--deterministic`, `--seed`, `--start-time`.
    pub determinism: DeterminismRule,
}

impl Policy {
    /// Whether it may grant some skill a folder.
    pub fn may_grant_folders(&self) -> bool {
        self.layers.iter().any(|layer| !layer.mounts.is_empty() || !layer.packages.is_empty())
    }

    /// What holds without a policy file: the workspace that the operator names, read and written;
    /// programs of the sandbox; no network, no variables of the host.
    pub fn builtin() -> Policy {
        let rule = |text: &str| Rule {
            text: text.into(),
            tool: entry::parse(text, Side::Allow),
            place: "built-in policy".into(),
        };
        let allow = ["Read", "Write", "Bash"].map(rule).to_vec();
        Policy {
            layers: vec![Layer { allow, ..Layer::new(Origin::BuiltIn) }],
            authorities: Vec::new(),
            folders: Vec::new(),
            retention: Retention::default(),
            audit_detail: AuditDetail::default(),
            secrets: Secrets::default(),
            usage: true,
            preload: Preload::Nothing,
            clients: Clients::default(),
        }
    }

    /// Allows whatever can be asked for: what a skill is granted under it is what the skill itself
    /// asks for.
    pub fn everything() -> Policy {
        let mut policy = Policy::builtin();
        policy.layers[0].allow.push(Rule {
            text: "WebFetch".into(),
            tool: entry::parse("WebFetch", Side::Asked),
            place: "everything".into(),
        });
        policy
    }

    /// Adds what the command line says, as the last layer.
    ///
    /// # Errors
    /// Every entry or variable that cannot be understood. A policy is used whole or not at all.
    pub fn with_command_line(mut self, overrides: Overrides) -> Result<Policy, Vec<Diagnostic>> {
        let mut layer = Layer::new(Origin::CommandLine);
        let mut diagnostics = Vec::new();
        for (flag, side, texts) in
            [("--allow", Side::Allow, overrides.allow), ("--deny", Side::Deny, overrides.deny)]
        {
            for text in texts {
                match Rule::new(&text, side, flag) {
                    Ok(rule) if side == Side::Allow => layer.allow.push(rule),
                    Ok(rule) => layer.deny.push(rule),
                    Err(diagnostic) => diagnostics.push(*diagnostic),
                }
            }
        }
        for text in overrides.env {
            match EnvRule::new(&text, "--env") {
                Ok(rule) => layer.env.push(rule),
                Err(why) => diagnostics.push(Diagnostic {
                    severity: Severity::Error,
                    rule: "policy-env",
                    message: why,
                    file: "--env".into(),
                    span: None,
                    fix: Some(
                        "--env NAME=VALUE, or --env NAME to pass the host's own value".into(),
                    ),
                }),
            }
        }
        if let Some((host, mode)) = overrides.workspace {
            let rule =
                MountRule { mount: Mount::new(WORKSPACE, host, mode), place: "--workspace".into() };
            // The policy's own mount at that place gives way; one inside it cannot.
            let others = self
                .layers
                .iter()
                .flat_map(|l| &l.mounts)
                .filter(|old| old.mount.guest != WORKSPACE);
            diagnostics.extend(others.filter_map(|old| mounts::clash(&rule, old)).map(|why| {
                Diagnostic {
                    severity: Severity::Error,
                    rule: "policy-mount",
                    message: why,
                    file: "--workspace".into(),
                    span: None,
                    fix: Some(
                        "mount the folder elsewhere in the policy file, such as at /data".into(),
                    ),
                }
            }));
            layer.mounts.push(rule);
        }
        layer.packages = overrides.packages;
        layer.determinism = overrides.determinism;
        for (limit, value) in overrides.limits {
            layer.limits.push(LimitRule {
                limit,
                value,
                place: limit.flag().unwrap_or("the command line").into(),
            });
        }
        self.layers.push(layer);
        if diagnostics.is_empty() { Ok(self) } else { Err(diagnostics) }
    }

    /// Mounts `host`, a folder at `below` in the operator's workspace, in that workspace's place.
    /// The rules keep meaning the same host paths: `Write(out/**)` is the folder `out` of the
    /// operator's workspace, wherever the narrower one begins.
    #[must_use]
    pub fn with_narrower_workspace(
        mut self,
        host: PathBuf,
        mode: MountMode,
        below: String,
    ) -> Policy {
        let mount = Mount { rules_at: below, ..Mount::new(WORKSPACE, host, mode) };
        let mounts = vec![MountRule { mount, place: "a root of the client".into() }];
        self.layers.push(Layer { mounts, ..Layer::new(Origin::CommandLine) });
        self
    }

    /// For a recording: the seed and the start time that hold where nobody says others. Whether
    /// runs are deterministic stays as it was said.
    #[must_use]
    pub fn recorded(mut self, seed: u64, start_time: u64) -> Policy {
        let mut below = Layer::new(Origin::CommandLine);
        below.determinism =
            DeterminismRule { on: None, seed: Some(seed), start_time: Some(start_time) };
        self.layers.insert(0, below);
        self
    }

    /// Looks up the variables that are passed by name, so that [`grant()`] need not. One that the
    /// host does not have is left out.
    pub fn resolve_env(&mut self, lookup: impl Fn(&str) -> Option<String>) {
        for rule in
            self.layers.iter_mut().flat_map(|l| &mut l.env).filter(|r| r.value == EnvValue::Host)
        {
            rule.value = lookup(&rule.name).map_or(EnvValue::Unset, EnvValue::Literal);
        }
    }

    /// The policy as it holds for skills of a source. A folder that is in no catalogue chooses its
    /// own name: sections for named skills take from it what they take from others, and grant it
    /// nothing.
    pub fn for_skills_of(&self, origin: SourceKind) -> Cow<'_, Policy> {
        if origin != SourceKind::Path || self.layers.iter().all(|layer| layer.applies_to.is_none())
        {
            return Cow::Borrowed(self);
        }
        let layer = |layer: &Layer| {
            if layer.applies_to.is_some() { layer.restrictions() } else { layer.clone() }
        };
        Cow::Owned(Policy { layers: self.layers.iter().map(layer).collect(), ..self.clone() })
    }

    /// Checks whether a section for skills of that name grants anything.
    pub fn grants_by_name(&self, skill: &str) -> bool {
        self.layers_for(skill)
            .any(|layer| layer.applies_to.is_some() && *layer != layer.restrictions())
    }

    /// The layers that are for a skill of that name, in rising rank.
    pub fn layers_for(&self, skill: &str) -> impl Iterator<Item = &Layer> {
        self.layers
            .iter()
            .filter(move |l| l.applies_to.as_ref().is_none_or(|glob| glob.matches(skill)))
    }
}
