//! What a skill requests, what the operator allows, and the capabilities that result.
//!
//! This crate owns the plain data that the other crates exchange: manifests, policies,
//! capabilities, limits, diagnostics and outcomes. It must not know how a skill is stored or how a
//! program runs. Its only I/O is [`load`], which reads the certificate files that a policy names.
//!
//! Start reading at [`grant()`]. It intersects a [`manifest::Manifest`] with a [`Policy`] and
//! returns [`capabilities::Capabilities`], without I/O. A policy is a stack of layers: the built-in
//! layer (or the layers of a policy file, which replace it), then the command line's. A skill gets
//! the union of what its layers allow, minus everything that any of them denies. Only [`manifest`]
//! parses SKILL.md, and only [`entry`] parses entries of `allowed-tools`, `allow` and `deny`.
//! [`outcome`] describes how a run ended, and [`case`] what a test of a skill expects of one.

mod authorities;
pub mod capabilities;
pub mod case;
pub mod client_tools;
pub mod determinism;
pub mod diagnostic;
pub mod disclosure;
pub mod entry;
pub mod exact;
mod explain;
mod file;
mod glob;
mod grant;
mod host_programs;
mod layer;
pub mod level;
pub mod limits;
pub mod manifest;
mod mounts;
pub mod outcome;
pub mod pattern;
pub mod program_name;
pub mod protected;
pub mod refusal;
pub mod require;
mod schema;
pub mod source;
mod verdict;
pub mod yaml;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::diagnostic::{Diagnostic, Severity};
use crate::limits::Limit;
use crate::source::{LockedOrigin, SourceKind};
use capabilities::{Authority, Mount, MountMode};
use determinism::DeterminismRule;
use entry::EntryList;
use require::Requirement;

pub use explain::explain;
pub use file::{PolicyError, load};
pub use grant::{EntryDecision, Grant, LimitOrigin, Verdict, blocking_entry, grant, limit_origin};
pub use host_programs::grant_host_programs;
pub use layer::{EnvRule, EnvValue, Layer, LimitRule, MountRule, NameGlob, Origin, Rule};
pub use schema::schema;

pub(crate) use crate::diagnostic::printable;

/// The guest path at which `--workspace` is mounted.
pub const WORKSPACE: &str = "/workspace";

/// The guest folder of the `--site-packages` mounts: `/1`, `/2` and so on below it.
pub const SITE_PACKAGES: &str = "/usr/local/lib/site-packages";

/// Everything that an operator allows, as layers of rules and global settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The layers, lowest priority first: a later layer overrides mounts and variables by name.
    pub layers: Vec<Layer>,
    /// Certificate authorities that HTTPS trusts in addition to the built-in ones, for every skill.
    /// Layers cannot add any.
    pub authorities: Vec<Authority>,
    /// Folders that the catalogue searches in addition to the standard ones. They grant nothing.
    pub skill_folders: Vec<PathBuf>,
    /// How long the audit log keeps records. Layers cannot change it.
    pub retention: Retention,
    /// How much of a run's text the audit log stores. Layers cannot change it.
    pub audit_detail: AuditDetail,
    /// Which values recordings omit, encrypt or store as plain text.
    pub secrets: Secrets,
    /// Whether usage statistics are collected.
    pub usage: bool,
    /// The skills that count as [`always`](disclosure::Disclosure::Always) disclosed.
    pub preload: Preload,
    /// Who approves runs that clients request.
    pub clients: Clients,
    /// Whether the names that other clients give to tools request permissions.
    pub client_names: ClientNames,
    /// The highest value of each limit. Layers, flags and skills cannot exceed it.
    pub ceiling: Vec<LimitRule>,
    /// The most bytes of a skill's files in total. Sections cannot change it: it applies before the
    /// skill's name is known.
    pub skill_size: u64,
}

/// Whether the names that other clients give to tools, such as `run_shell_command` for `Bash`,
/// request permissions. See [`client_tools`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientNames {
    /// They request nothing. The default, for hosts that run skills without asking for approval.
    #[default]
    Ignored,
    /// They request the permission that they mean. A run that is granted more by them needs the
    /// operator's approval ([`Grant::needs_approval`]).
    NeedApproval,
}

/// Who approves the runs that a client requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Approver {
    /// The operator, by `skillhost approve`.
    #[default]
    Operator,
    /// The client's user, whom the client asks. The host cannot tell that user's answer from the
    /// client's own, so it trusts whatever the client sends.
    Client,
}

/// The approver for each kind of client that the host can tell apart. Staged writes always need the
/// operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Clients {
    /// The client that started the server and talks to it over a pipe.
    pub stdio: Approver,
    /// Any client that presents the server's token over HTTP.
    pub http: Approver,
}

/// The skills whose tools an agent's session has from the start. Preloading grants nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Preload {
    /// No skill.
    #[default]
    Nothing,
    /// The skills that many recent sessions used.
    Suggested,
    /// The named skills.
    Named(Vec<String>),
}

/// Which values recordings omit or store as plain text. By default, the values of the operator's
/// variables, of cookies and of authorization headers are encrypted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Secrets {
    /// Variables whose values are not stored at all.
    pub env: Vec<String>,
    /// Header fields whose values are not stored at all, in lower case.
    pub headers: Vec<String>,
    /// Variables and header fields whose values are stored as plain text, as the operator spelled
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plain: Vec<String>,
}

/// Header fields that are encrypted by default.
const ENCRYPTED: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "set-cookie"];

impl Secrets {
    /// Returns the header fields that are not stored as plain text: those in `headers`, and those
    /// that are encrypted by default.
    pub fn hidden_headers(&self) -> Vec<String> {
        let is_plain = |field: &str| self.plain.iter().any(|name| name.eq_ignore_ascii_case(field));
        let encrypted = ENCRYPTED.into_iter().filter(|field| !is_plain(field));
        let mut all: Vec<String> =
            self.headers.iter().cloned().chain(encrypted.map(str::to_owned)).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Checks whether a variable's value is omitted or encrypted.
    pub fn hides_variable(&self, name: &str) -> bool {
        self.env.iter().any(|known| known == name) || !self.plain.iter().any(|known| known == name)
    }
}

/// How long the audit log keeps records. The default is forever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Delete records that are older than this.
    pub age: Option<Duration>,
    /// Delete the oldest records until the rest takes at most this many bytes.
    pub bytes: Option<u64>,
}

/// How the audit log stores text that a client or guest chose: arguments, paths and messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuditDetail {
    /// As keyed digests.
    #[default]
    Digests,
    /// As keyed digests and as text; the values of secrets are removed from the text.
    Text,
}

impl Retention {
    /// Checks whether records are never deleted.
    pub fn is_forever(&self) -> bool {
        *self == Retention::default()
    }
}

/// The permissions of the command line. It is not `Debug`, because `env` holds secrets.
#[derive(Clone, Default)]
pub struct Overrides {
    /// `--workspace DIR[:ro|:overlay]`.
    pub workspace: Option<(PathBuf, MountMode)>,
    /// `--allow ENTRY`.
    pub allow: Vec<String>,
    /// `--deny ENTRY`.
    pub deny: Vec<String>,
    /// `--env NAME=VALUE`, or `--env NAME` to pass the host's value.
    pub env: Vec<String>,
    /// `--site-packages DIR`.
    pub packages: Vec<PathBuf>,
    /// `--timeout`, `--memory`, `--fuel`.
    pub limits: Vec<(Limit, u64)>,
    /// `--deterministic`, `--seed`, `--start-time`.
    pub determinism: DeterminismRule,
    /// `--skill-size`.
    pub skill_size: Option<u64>,
}

impl Policy {
    /// Checks whether any layer mounts a folder.
    pub fn may_grant_folders(&self) -> bool {
        self.layers.iter().any(|layer| !layer.mounts.is_empty() || !layer.packages.is_empty())
    }

    /// Returns the policy that applies without a policy file: read and write access to the
    /// workspace that the operator names, the programs of the sandbox, no network access, and no
    /// environment variables of the host.
    pub fn builtin() -> Policy {
        let rule = |text: &str| Rule {
            text: text.into(),
            permission: entry::parse(text, EntryList::Allow),
            place: "built-in policy".into(),
        };
        let allow = ["Read", "Write", "Bash"].map(rule).to_vec();
        Policy {
            layers: vec![Layer { allow, ..Layer::new(Origin::BuiltIn) }],
            authorities: Vec::new(),
            skill_folders: Vec::new(),
            retention: Retention::default(),
            audit_detail: AuditDetail::default(),
            secrets: Secrets::default(),
            usage: true,
            preload: Preload::Nothing,
            clients: Clients::default(),
            client_names: ClientNames::default(),
            ceiling: Vec::new(),
            skill_size: limits::SKILL_SIZE,
        }
    }

    /// Returns the policy for a host that asks for approval before each run that needs it.
    #[must_use]
    pub fn with_client_names(self) -> Policy {
        Policy { client_names: ClientNames::NeedApproval, ..self }
    }

    /// Returns a policy that grants every skill whatever it requests.
    pub fn allow_everything() -> Policy {
        let mut policy = Policy::builtin();
        policy.layers[0].allow.push(Rule {
            text: "WebFetch".into(),
            permission: entry::parse("WebFetch", EntryList::AllowedTools),
            place: "everything".into(),
        });
        policy
    }

    /// Adds the permissions of the command line as the last layer.
    ///
    /// # Errors
    /// Returns one diagnostic for each invalid entry, variable or mount.
    pub fn with_command_line(mut self, overrides: Overrides) -> Result<Policy, Vec<Diagnostic>> {
        let mut layer = Layer::new(Origin::CommandLine);
        let mut diagnostics = Vec::new();
        for (flag, side, texts) in [
            ("--allow", EntryList::Allow, overrides.allow),
            ("--deny", EntryList::Deny, overrides.deny),
        ] {
            for text in texts {
                match Rule::new(&text, side, flag) {
                    Ok(rule) if side == EntryList::Allow => layer.allow.push(rule),
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
                    fix: Some("--env NAME=VALUE, or --env NAME to pass the host's value".into()),
                }),
            }
        }
        if let Some((host, mode)) = overrides.workspace {
            let rule =
                MountRule { mount: Mount::new(WORKSPACE, host, mode), place: "--workspace".into() };
            // The workspace replaces a mount at the same path. It cannot replace one inside it.
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
        self.skill_size = overrides.skill_size.unwrap_or(self.skill_size);
        self.layers.push(layer);
        if diagnostics.is_empty() { Ok(self) } else { Err(diagnostics) }
    }

    /// Mounts `host` as the workspace. It is the folder `below` of the operator's workspace.
    ///
    /// Rules still refer to the same host paths: `Write(out/**)` means the folder `out` of the
    /// operator's workspace, not of the narrower one.
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

    /// Adds a client's rules as the last layer. They can only deny.
    #[must_use]
    pub fn with_denied(mut self, deny: Vec<Rule>) -> Policy {
        self.layers.push(Layer { deny, ..Layer::new(Origin::CommandLine) });
        self
    }

    /// Sets the seed and the start time for a recording, unless another layer sets them. Does not
    /// change whether runs are deterministic.
    #[must_use]
    pub fn with_recording_defaults(mut self, seed: u64, start_time: u64) -> Policy {
        let mut below = Layer::new(Origin::CommandLine);
        below.determinism =
            DeterminismRule { on: None, seed: Some(seed), start_time: Some(start_time) };
        self.layers.insert(0, below);
        self
    }

    /// Looks up the values of variables that are passed by name, because [`grant()`] does no I/O.
    /// A variable that the host does not have becomes [`EnvValue::Unset`].
    pub fn resolve_env(&mut self, lookup: impl Fn(&str) -> Option<String>) {
        for rule in
            self.layers.iter_mut().flat_map(|l| &mut l.env).filter(|r| r.value == EnvValue::Host)
        {
            rule.value = lookup(&rule.name).map_or(EnvValue::Unset, EnvValue::Literal);
        }
    }

    /// Returns the policy for skills from a source.
    ///
    /// A folder outside the catalogue chooses its own name, and so does whoever adds a skill.
    /// Sections for skills of that name can therefore restrict it, but grant it nothing, unless the
    /// section names the source that the skill was fetched from.
    pub fn for_source(&self, origin: SourceKind, locked: Option<&LockedOrigin>) -> Cow<'_, Policy> {
        let grants = |layer: &Layer| layer.grants_to(origin, locked);
        if self.layers.iter().all(grants) {
            return Cow::Borrowed(self);
        }
        let layer =
            |layer: &Layer| if grants(layer) { layer.clone() } else { layer.restrictions() };
        Cow::Owned(Policy { layers: self.layers.iter().map(layer).collect(), ..self.clone() })
    }

    /// Applies sections to fetched skills of other names, too, because the operator has chosen them.
    /// Each choice is the name of a section and that of a skill, and `file` makes the choices. As for
    /// every fetched skill, a section that names no source only restricts.
    ///
    /// Returns the choices whose section does not exist, too. Nothing can run their skills: the
    /// section may have been renamed, and it may have restricted them.
    #[must_use]
    pub fn with_sections<'a>(
        mut self,
        choices: &[(&'a str, &'a str)],
        file: &Path,
    ) -> (Policy, Vec<(&'a str, &'a str)>) {
        let layers = std::mem::take(&mut self.layers);
        let is_of = |layer: &Layer, section: &str| {
            layer.applies_to.as_ref().is_some_and(|glob| glob.pattern() == section)
        };
        let is_missing =
            |(section, _): &(&str, &str)| !layers.iter().any(|layer| is_of(layer, section));
        let missing: Vec<(&str, &str)> = choices.iter().copied().filter(is_missing).collect();
        // A choice applies layers of the policy only. If it applied those of another choice, a skill
        // would get what was chosen for a skill that has the name of its section.
        for layer in layers {
            let chosen = choices
                .iter()
                .filter(|(section, skill)| is_of(&layer, section) && !layer.covers(skill));
            let copies: Vec<Layer> = chosen
                .map(|(_, skill)| {
                    let copy = match layer.source {
                        Some(_) => layer.clone(),
                        None => layer.restrictions(),
                    };
                    Layer { applies_to: Some(NameGlob::name(skill)), ..copy }
                })
                .collect();
            self.layers.push(layer);
            self.layers.extend(copies);
        }
        self.layers.extend(missing.iter().map(|(section, skill)| Layer {
            applies_to: Some(NameGlob::name(skill)),
            require: Some(Requirement {
                signed_by: Some(Vec::new()),
                place: format!(
                    "{} (`policy: {}`, a section that does not exist)",
                    file.display(),
                    printable(section)
                ),
                ..Requirement::default()
            }),
            ..Layer::new(Origin::File(file.to_owned()))
        }));
        (self, missing)
    }

    /// Checks whether a section for this skill name grants anything.
    pub fn grants_by_name(&self, skill: &str) -> bool {
        self.layers_for(skill)
            .any(|layer| layer.applies_to.is_some() && *layer != layer.restrictions())
    }

    /// Returns what the sections for a skill name demand before the skill is loaded.
    pub fn requirements_for(&self, skill: &str) -> impl Iterator<Item = &Requirement> {
        self.layers_for(skill).filter_map(|layer| layer.require.as_ref())
    }

    /// Returns the layers that apply to a skill name, lowest priority first.
    pub fn layers_for(&self, skill: &str) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(move |layer| layer.covers(skill))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::require::{Evidence, Signer};

    fn chosen<'a>(text: &str, choices: &[(&'a str, &'a str)]) -> (Policy, Vec<(&'a str, &'a str)>) {
        let policy = load(Path::new("policy.yaml"), text, None).unwrap();
        policy.with_sections(choices, Path::new("skills.yaml"))
    }

    #[test]
    fn choices_of_sections_do_not_add_up() {
        let text = "skills:\n  b: { deny: [WebFetch] }\n  c: { deny: [Write] }\n";
        let denied = |choices: &[(&str, &str)], skill: &str| -> Vec<String> {
            let (policy, missing) = chosen(text, choices);
            assert!(missing.is_empty());
            let rules = policy.layers_for(skill).flat_map(|layer| &layer.deny);
            rules.map(|rule| rule.text.clone()).collect()
        };
        // `b` gets the section `c`, which those that get the section `b` do not.
        for choices in [[("b", "a"), ("c", "b")], [("c", "b"), ("b", "a")]] {
            assert_eq!(denied(&choices, "a"), ["WebFetch"]);
            assert_eq!(denied(&choices, "b"), ["WebFetch", "Write"]);
            assert_eq!(denied(&choices, "c"), ["Write"]);
        }
    }

    #[test]
    fn skill_whose_section_does_not_exist_is_refused() {
        // A section that another choice created does not count as a section of the policy.
        let choices = [("b", "a"), ("a", "c")];
        let (policy, missing) = chosen("skills: { b: { deny: [Write] } }\n", &choices);
        assert_eq!(missing, [("a", "c")]);
        let signer = Signer::key(&format!("sha256:{}", "a".repeat(64))).unwrap();
        let signed = Evidence { signers: vec![signer], ..Evidence::default() };
        let is_refused =
            |skill: &str| policy.requirements_for(skill).any(|one| one.check(&signed).is_err());
        assert_eq!(["a", "b", "c"].map(is_refused), [false, false, true]);
    }
}
