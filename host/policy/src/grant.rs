//! Grants capabilities: the intersection of what a skill requests and what the operator allows, minus
//! what is denied.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::capabilities::{Capabilities, Mount, MountMode, Scope};
use super::client_tools;
use super::determinism::{self, Determinism, DeterminismRule};
use super::entry::{self, EntryList, Permission};
use super::layer::blocked_by;
use super::pattern::{CommandPattern, HostPattern, PathGlob};
use super::schema::METHOD_NAMES;
use super::verdict::{Judge, Pattern};
use super::{
    ClientNames, EnvValue, Layer, LimitRule, Origin, Policy, Rule, SITE_PACKAGES, printable,
};
use crate::diagnostic::Span;
use crate::limits::{Limit, Limits};
use crate::manifest::{Manifest, ToolEntry};
use crate::outcome::DenialKind;

/// The capabilities of a skill, and the decisions that led to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Grant {
    /// The capabilities, which the sandbox enforces.
    pub capabilities: Capabilities,
    /// One decision for each entry of `allowed-tools`, in order; then decisions on limits and
    /// variables that were lowered or omitted.
    pub decisions: Vec<EntryDecision>,
    /// Whether a run needs approval whatever its level, because part of the capabilities is
    /// requested only by other clients' names for tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_approval: bool,
}

/// The decision on one request, such as an entry of `allowed-tools`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct EntryDecision {
    /// The request as written, with control characters escaped.
    pub entry: String,
    /// Its place in SKILL.md.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Span>,
    /// Whether it is granted.
    pub verdict: Verdict,
    /// What the request means, or why it is refused.
    pub meaning: String,
    /// The rule that decided, and its file.
    pub rule: String,
    /// What would grant the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// The result of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Everything that was requested is granted.
    Granted,
    /// Part of it is granted.
    Narrowed,
    /// Only a run that the operator approves is granted it, because the entry uses another client's
    /// name for a tool.
    Approval,
    /// Nothing of it is granted.
    Refused,
}

impl Verdict {
    /// Returns the verdict in words.
    pub fn description(self) -> &'static str {
        match self {
            Verdict::Granted => "granted",
            Verdict::Narrowed => "narrowed",
            Verdict::Approval => "only with an approval",
            Verdict::Refused => "refused",
        }
    }
}

/// Computes what a skill may do. Pure: the same manifest and policy give the same grant.
pub fn grant(manifest: &Manifest, policy: &Policy) -> Grant {
    let with_names = grant_with(manifest, policy, policy.client_names);
    let is_client_name = |entry: &ToolEntry| entry::parse_client_name(&entry.text).is_some();
    if policy.client_names == ClientNames::Ignored
        || !manifest.allowed_tools.iter().flatten().any(is_client_name)
    {
        return with_names;
    }
    let without = grant_with(manifest, policy, ClientNames::Ignored);
    let needs_approval = with_names.capabilities != without.capabilities;
    let mut decisions = with_names.decisions;
    if needs_approval {
        // The decisions on `allowed-tools` come first, in its order.
        let asked = manifest.allowed_tools.iter().flatten().zip(&mut decisions);
        asked
            .filter(|(entry, decision)| {
                is_client_name(entry) && decision.verdict != Verdict::Refused
            })
            .for_each(|(_, decision)| decision.verdict = Verdict::Approval);
    }
    Grant { needs_approval, decisions, ..with_names }
}

/// An entry of `allowed-tools`, and what it requests.
struct Request<'m> {
    entry: &'m ToolEntry,
    permission: Permission,
    /// The client whose name for the tool the entry uses, and our name for it.
    foreign: Option<(&'static str, &'static str)>,
}

impl<'m> Request<'m> {
    fn new(entry: &'m ToolEntry, names: ClientNames) -> Request<'m> {
        let foreign = client_tools::find(entry.text.trim())
            .filter(|_| names == ClientNames::NeedApproval)
            .and_then(|tool| Some((tool.client?, tool.meaning.own_name()?)));
        let text = foreign.map_or(entry.text.as_str(), |(_, own)| own);
        Request { entry, permission: entry::parse(text, EntryList::AllowedTools), foreign }
    }

    /// Decides on the request, under our name for the tool.
    fn decide(&self, judge: &Judge<'_>, implies_files: bool) -> EntryDecision {
        let Some((client, own)) = self.foreign else {
            return judge.entry(self.entry, &self.permission, implies_files);
        };
        let entry = ToolEntry { text: own.to_owned(), span: self.entry.span };
        let decision = judge.entry(&entry, &self.permission, implies_files);
        let because =
            format!("`{}` is {} name for `{own}`", printable(&self.entry.text), genitive(client));
        EntryDecision {
            entry: printable(&self.entry.text),
            meaning: match decision.verdict {
                Verdict::Refused => format!("{} ({because})", decision.meaning),
                _ => format!("{}, if the run is approved ({because})", decision.meaning),
            },
            ..decision
        }
    }
}

/// Returns the genitive of a client's name.
fn genitive(client: &str) -> String {
    if client.ends_with('s') { format!("{client}'") } else { format!("{client}'s") }
}

/// Checks whether `Bash` requests files too: only if no entry is about files. Other clients' names
/// count only for their own names of `Bash`, so that they take nothing away from ours.
fn implies_files(asked: &[Request<'_>]) -> bool {
    let is_bash = |request: &&Request<'_>| matches!(request.permission, Permission::Bash(_));
    let is_path = |request: &Request<'_>| {
        matches!(request.permission, Permission::Read(_) | Permission::Write(_))
    };
    let has_own_bash = asked.iter().filter(is_bash).any(|request| request.foreign.is_none());
    asked.iter().any(|request| is_bash(&request))
        && !asked.iter().any(|request| entry::names_paths(&request.entry.text))
        && (has_own_bash || !asked.iter().any(is_path))
}

fn grant_with(manifest: &Manifest, policy: &Policy, names: ClientNames) -> Grant {
    let layers: Vec<&Layer> = policy.layers_for(&manifest.name).collect();
    let allowed =
        Patterns::of(layers.iter().flat_map(|l| &l.allow).map(|rule| (&rule.permission, rule)));
    let own_denied: Vec<Rule> = manifest.disallowed_tools.iter().flat_map(own_denials).collect();
    let denied = Patterns::denied(layers.iter().flat_map(|l| &l.deny).chain(&own_denied));
    let asked: Vec<Request<'_>> =
        manifest.allowed_tools.iter().flatten().map(|entry| Request::new(entry, names)).collect();
    let implies_files = implies_files(&asked);
    let mut decisions = Vec::new();
    let determinism = DeterminismRule::resolve(layers.iter().map(|l| &l.determinism));
    let (limits, _) = resolve_limits(manifest, policy, &layers, determinism, &mut decisions);
    if manifest.is_granted_nothing() {
        let limits = Limits { state: 0, ..limits };
        return Grant {
            capabilities: Capabilities { limits, determinism, ..Capabilities::default() },
            decisions: refuse_everything(manifest),
            needs_approval: false,
        };
    }

    let side = manifest.allowed_tools.is_some().then(|| {
        let side = Patterns::of(
            asked.iter().map(|request| (&request.permission, request.entry.text.as_str())),
        );
        if implies_files { side.with_implied_files() } else { side }
    });
    let side = side.as_ref();
    let read = scope(side.map(|s| &s.read), &allowed.read, &denied.read);
    let write = scope(side.map(|s| &s.write), &allowed.write, &denied.write);
    let spawn = scope(side.map(|s| &s.spawn), &allowed.spawn, &denied.spawn);
    let fetch = scope(side.map(|s| &s.fetch), &allowed.fetch, &denied.fetch);
    let (mut mounts, read_only) = resolve_mounts(&layers, &read, &write);
    if layers.iter().any(|layer| layer.stage) {
        mounts
            .iter_mut()
            .filter(|mount| mount.mode == MountMode::Write)
            .for_each(|mount| mount.mode = MountMode::Overlay);
    }
    let symlinks = allows_symlinks(&layers);
    mounts
        .iter_mut()
        .filter(|mount| mount.mode != MountMode::Read)
        .for_each(|mount| mount.symlinks = symlinks);
    let judge = Judge {
        skill: &manifest.name,
        layers: &layers,
        allowed: &allowed,
        denied: &denied,
        mounts: &mounts,
        read_only: &read_only,
    };
    let mut entries = match &manifest.allowed_tools {
        None => vec![judge.default_grant()],
        Some(_) => asked.iter().map(|request| request.decide(&judge, implies_files)).collect(),
    };
    entries.extend(manifest.disallowed_tools.iter().map(own_denial_decision));
    entries.append(&mut decisions);
    let env = resolve_env(&layers, &mut entries);
    let methods = resolve_methods(&layers);
    let packages = resolve_packages(&layers);
    let authorities = policy.authorities.clone();
    Grant {
        capabilities: Capabilities {
            mounts,
            packages,
            read,
            write,
            spawn,
            host_programs: BTreeSet::new(),
            fetch,
            methods,
            authorities,
            env,
            limits,
            determinism,
        },
        decisions: entries,
        needs_approval: false,
    }
}

/// The patterns of one side, each with its source.
pub(super) struct Patterns<W> {
    pub(super) read: Vec<(PathGlob, W)>,
    pub(super) write: Vec<(PathGlob, W)>,
    pub(super) spawn: Vec<(CommandPattern, W)>,
    pub(super) fetch: Vec<(HostPattern, W)>,
}

impl<'t, W: Copy> Patterns<W> {
    /// Collects what a side requests or allows.
    fn of(tools: impl Iterator<Item = (&'t Permission, W)>) -> Patterns<W> {
        let mut side =
            Patterns { read: Vec::new(), write: Vec::new(), spawn: Vec::new(), fetch: Vec::new() };
        for (tool, who) in tools {
            match tool {
                Permission::Read(glob) => side.read.push((glob.clone(), who)),
                Permission::Write(glob) => {
                    side.read.push((glob.clone(), who));
                    side.write.push((glob.clone(), who));
                }
                Permission::Bash(command) => side.spawn.push((command.clone(), who)),
                Permission::WebFetch(host) => side.fetch.push((host.clone(), who)),
                Permission::NotGrantable { .. } => {}
            }
        }
        side
    }

    /// Adds all files if programs are requested. A skill that requests programs without naming paths
    /// also requests files. An operator who allows programs does not thereby allow files.
    fn with_implied_files(mut self) -> Self {
        if let Some((_, who)) = self.spawn.first() {
            self.read.push((PathGlob::everything(), *who));
            self.write.push((PathGlob::everything(), *who));
        }
        self
    }
}

impl<'r> Patterns<&'r Rule> {
    /// Collects what a side denies. Denying reads also denies writes; `Bash` denies no files.
    fn denied(rules: impl Iterator<Item = &'r Rule>) -> Patterns<&'r Rule> {
        let mut side =
            Patterns { read: Vec::new(), write: Vec::new(), spawn: Vec::new(), fetch: Vec::new() };
        for rule in rules {
            match &rule.permission {
                Permission::Read(glob) => {
                    side.read.push((glob.clone(), rule));
                    side.write.push((glob.clone(), rule));
                }
                Permission::Write(glob) => side.write.push((glob.clone(), rule)),
                Permission::Bash(command) => side.spawn.push((command.clone(), rule)),
                Permission::WebFetch(host) => side.fetch.push((host.clone(), rule)),
                Permission::NotGrantable { .. } => {}
            }
        }
        side
    }
}

/// Intersects both sides. Sorts the patterns, because the order of entries must not matter. Omits
/// requests that overlap with nothing that is allowed, so that [`Scope::is_empty`] recognizes a
/// scope that allows nothing.
fn scope<P: Clone + Ord + Pattern>(
    asked: Option<&Vec<(P, &str)>>,
    allowed: &[(P, &Rule)],
    denied: &[(P, &Rule)],
) -> Scope<P> {
    let allowed = sorted(allowed.iter().map(|(p, _)| p.clone()));
    let (met, unmet): (Vec<P>, Vec<P>) = asked
        .into_iter()
        .flatten()
        .map(|(p, _)| p.clone())
        .partition(|p| allowed.iter().any(|a| a.overlaps(p)));
    let side = asked.map(|_| sorted(met.into_iter()));
    Scope {
        all_of: side.into_iter().chain([allowed]).collect(),
        none_of: sorted(denied.iter().map(|(p, _)| p.clone())),
        unmet: sorted(unmet.into_iter()),
    }
}

fn sorted<P: Ord>(patterns: impl Iterator<Item = P>) -> Vec<P> {
    let mut patterns: Vec<P> = patterns.collect();
    patterns.sort();
    patterns.dedup();
    patterns
}

/// Selects the mounts that the scopes reach, and makes mounts read-only in which nothing may be
/// written. The second list has the guest path and the place of each mount that the operator made
/// read-only.
fn resolve_mounts(
    layers: &[&Layer],
    read: &Scope<PathGlob>,
    write: &Scope<PathGlob>,
) -> (Vec<Mount>, Vec<(String, String)>) {
    let reaches = |scope: &Scope<PathGlob>, mount: &PathGlob| {
        !scope.all_of.is_empty()
            && scope.all_of.iter().all(|side| side.iter().any(|g| g.overlaps(mount)))
            && !scope.none_of.iter().any(|g| g.covers(mount))
    };
    let by_guest: BTreeMap<&str, (&Mount, &str)> = layers
        .iter()
        .flat_map(|l| &l.mounts)
        .map(|rule| (rule.mount.guest.as_str(), (&rule.mount, rule.place.as_str())))
        .collect();
    let mut mounts = Vec::new();
    let mut read_only = Vec::new();
    for (guest, (mount, place)) in by_guest {
        // A loaded policy has only guest paths that are valid globs. Skip any other.
        let Ok(glob) = PathGlob::new(&mount.rule_path(guest)) else { continue };
        if mount.mode == MountMode::Read {
            read_only.push((guest.to_owned(), place.to_owned()));
        }
        if reaches(write, &glob) {
            mounts.push(mount.clone());
        } else if reaches(read, &glob) {
            mounts.push(Mount { mode: MountMode::Read, ..mount.clone() });
        }
    }
    (mounts, read_only)
}

/// Checks whether symlinks may be created in folders of the host: some layer allows it, and none
/// forbids it.
fn allows_symlinks(layers: &[&Layer]) -> bool {
    let mut said = layers.iter().filter_map(|layer| layer.symlinks).peekable();
    said.peek().is_some() && said.all(|allowed| allowed)
}

fn resolve_packages(layers: &[&Layer]) -> Vec<Mount> {
    let folders = layers.iter().flat_map(|l| &l.packages).enumerate();
    folders
        .map(|(n, host)| Mount::new(format!("{SITE_PACKAGES}/{}", n + 1), host, MountMode::Read))
        .collect()
}

/// Returns the HTTP methods that every layer with a list of methods allows.
fn resolve_methods(layers: &[&Layer]) -> Vec<String> {
    let stays = |method: &&str| {
        layers
            .iter()
            .filter_map(|l| l.methods.as_ref())
            .all(|list| list.iter().any(|m| m == method))
    };
    METHOD_NAMES.iter().filter(|m| stays(m)).map(|m| (*m).to_owned()).collect()
}

fn resolve_env(layers: &[&Layer], decisions: &mut Vec<EntryDecision>) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    for rule in layers.iter().flat_map(|l| &l.env) {
        if let EnvValue::Literal(value) = &rule.value {
            env.insert(rule.name.clone(), value.clone());
            continue;
        }
        decisions.push(EntryDecision {
            entry: format!("env {}", rule.name),
            place: None,
            verdict: Verdict::Refused,
            meaning: "omitted: the host has no such variable".into(),
            rule: rule.place.clone(),
            fix: Some(format!("set {0} before the run, or write {0}=VALUE", rule.name)),
        });
    }
    env
}

/// What set the value of a limit, with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitOrigin<'a> {
    /// Nothing: it is the default.
    Default,
    /// `limits` in a policy.
    Policy(&'a str),
    /// The command line.
    CommandLine,
    /// The skill, in `metadata`.
    Skill,
    /// `ceiling` in a policy.
    Ceiling(&'a str),
}

/// Says what set a limit of a skill to a value; `None` if something else than the policy and the
/// skill did.
pub fn limit_origin<'a>(
    manifest: &Manifest,
    policy: &'a Policy,
    limit: Limit,
    value: u64,
) -> Option<LimitOrigin<'a>> {
    let layers: Vec<&Layer> = policy.layers_for(&manifest.name).collect();
    let determinism = DeterminismRule::resolve(layers.iter().map(|l| &l.determinism));
    let (limits, origins) = resolve_limits(manifest, policy, &layers, determinism, &mut Vec::new());
    let origin = origins.get(&limit).copied().unwrap_or(LimitOrigin::Default);
    (limits.get(limit) == Some(value)).then_some(origin)
}

/// Resolves the limits, and says what set each that is not a default. Each of these overrides the
/// one before it: the defaults, the policy's limits, the smallest limit of the sections for this
/// skill, the command line. The skill can only lower the result, and the ceiling bounds it.
fn resolve_limits<'a>(
    manifest: &Manifest,
    policy: &'a Policy,
    layers: &[&'a Layer],
    determinism: Option<Determinism>,
    decisions: &mut Vec<EntryDecision>,
) -> (Limits, BTreeMap<Limit, LimitOrigin<'a>>) {
    let mut limits =
        Limits { fuel: determinism.map(|_| determinism::DEFAULT_FUEL), ..Limits::default() };
    let mut rules: BTreeMap<Limit, (&str, &Layer)> = BTreeMap::new();
    let mut set = |limits: &mut Limits, rule: &'a LimitRule, layer: &'a Layer| {
        limits.set(rule.limit, rule.value);
        rules.insert(rule.limit, (rule.place.as_str(), layer));
    };
    let of = |layer: &&'a Layer| {
        let layer: &'a Layer = layer;
        layer.limits.iter().map(move |rule| (rule, layer))
    };
    let general = |l: &&&Layer| l.applies_to.is_none() && l.origin != Origin::CommandLine;
    for (rule, layer) in layers.iter().filter(general).flat_map(of) {
        set(&mut limits, rule, layer);
    }
    let mut smallest: BTreeMap<Limit, (&LimitRule, &Layer)> = BTreeMap::new();
    for (rule, layer) in layers.iter().filter(|l| l.applies_to.is_some()).flat_map(of) {
        let least = smallest.entry(rule.limit).or_insert((rule, layer));
        if rule.value < least.0.value {
            *least = (rule, layer);
        }
    }
    let flags = layers.iter().filter(|l| l.origin == Origin::CommandLine).flat_map(of);
    for (rule, layer) in smallest.into_values().chain(flags) {
        set(&mut limits, rule, layer);
    }
    let mut origins: BTreeMap<Limit, LimitOrigin<'a>> = rules
        .iter()
        .filter_map(|(&limit, &(place, layer))| match layer.origin {
            Origin::BuiltIn => None,
            Origin::File(_) => Some((limit, LimitOrigin::Policy(place))),
            Origin::CommandLine => Some((limit, LimitOrigin::CommandLine)),
        })
        .collect();
    for (&limit, &wanted) in manifest.limits.iter().filter(|(l, _)| l.in_manifest()) {
        match limits.get(limit) {
            Some(bound) if wanted > bound => decisions.push(EntryDecision {
                entry: format!("metadata.{limit}: {}", limit.show(wanted)),
                place: None,
                verdict: Verdict::Narrowed,
                meaning: format!("limited to {}", limit.show(bound)),
                rule: rules.get(&limit).map_or_else(
                    || format!("the default of `{limit}`"),
                    |(place, _)| format!("`limits` at {place}"),
                ),
                fix: Some(raise(limit, wanted)),
            }),
            Some(bound) if wanted == bound => {}
            _ => {
                limits.set(limit, wanted);
                origins.insert(limit, LimitOrigin::Skill);
            }
        }
    }
    apply_ceiling(&mut limits, &mut origins, &policy.ceiling, decisions);
    (limits, origins)
}

/// Lowers limits to the operator's ceiling. A limit that is off, or that each program sets for
/// itself, gets the ceiling's value. `state` and the HTTP cache stay off, because their limits are also
/// their grants.
fn apply_ceiling<'a>(
    limits: &mut Limits,
    origins: &mut BTreeMap<Limit, LimitOrigin<'a>>,
    ceiling: &'a [LimitRule],
    decisions: &mut Vec<EntryDecision>,
) {
    for &LimitRule { limit, value, ref place } in ceiling {
        let set = match limit {
            Limit::Stack => limits.stack,
            limit => limits.get(limit),
        };
        match set {
            Some(set) if set <= value => continue,
            None if limit.is_grant() => continue,
            Some(set) => decisions.push(EntryDecision {
                entry: format!("{limit}: {}", limit.show(set)),
                place: None,
                verdict: Verdict::Narrowed,
                meaning: format!("limited to {}", limit.show(value)),
                rule: format!("`ceiling` at {place}"),
                fix: Some(format!("in the policy file: ceiling: {{ {limit}: ... }}")),
            }),
            None => {}
        }
        limits.set(limit, value);
        origins.insert(limit, LimitOrigin::Ceiling(place));
    }
}

/// Describes how to raise a limit, in a form that can be pasted.
fn raise(limit: Limit, value: u64) -> String {
    let shown = limit.show(value).replace(' ', "");
    let text = if limit.parse(&shown) == Ok(value) { shown } else { value.to_string() };
    let flag = limit.flag().map(|flag| format!("{flag} {text}, or ")).unwrap_or_default();
    format!("{flag}in a policy file: limits: {{ {limit}: {text} }}")
}

/// Converts an entry of the skill's `disallowed-tools` to rules, which deny as the policy's do.
fn own_denials(entry: &ToolEntry) -> Vec<Rule> {
    let tools = match entry.text.trim().to_ascii_lowercase().as_str() {
        "*" | "all" => vec!["Read", "Write", "Bash", "WebFetch"],
        _ => vec![entry.text.as_str()],
    };
    let rule = |tool| Rule {
        text: entry.text.clone(),
        permission: entry::parse_denial(tool),
        place: OWN_DENIAL.into(),
    };
    tools.into_iter().map(rule).collect()
}

/// Names the entry that denied an attempt, and its place: `blocked by `Bash` in policy.yaml:7:10`.
/// `None` if no entry did, but a missing grant or the host itself. For the operator: the place may
/// contain a path of the host.
pub fn blocking_entry(manifest: &Manifest, policy: &Policy, kind: &DenialKind) -> Option<String> {
    let own: Vec<Rule> = manifest.disallowed_tools.iter().flat_map(own_denials).collect();
    let is_pattern = |rule: &&Rule| match (&rule.permission, kind) {
        (Permission::Read(glob) | Permission::Write(glob), DenialKind::DeniedPath(denied)) => {
            *glob == **denied
        }
        (Permission::Bash(command), DenialKind::DeniedProgram(denied)) => *command == **denied,
        (Permission::WebFetch(host), DenialKind::DeniedHost(_, denied)) => *host == **denied,
        _ => false,
    };
    let mut rules = policy.layers_for(&manifest.name).flat_map(|l| &l.deny).chain(&own);
    rules.find(is_pattern).map(Rule::blocks)
}

fn own_denial_decision(entry: &ToolEntry) -> EntryDecision {
    EntryDecision {
        entry: printable(&entry.text),
        place: entry.span,
        verdict: Verdict::Refused,
        meaning: "nothing: the skill itself disallows it".into(),
        rule: blocked_by(&entry.text, OWN_DENIAL),
        fix: None,
    }
}

/// The place of a denial that the skill itself declares.
const OWN_DENIAL: &str = "the skill's disallowed-tools";

fn refuse_everything(manifest: &Manifest) -> Vec<EntryDecision> {
    let (meaning, rule, fix) = match manifest.recovered {
        true => (
            "nothing: the broken frontmatter does not show what the skill requests",
            "a skill with broken frontmatter is granted nothing",
            "fix the frontmatter of SKILL.md",
        ),
        false => (
            "nothing: the key may have been meant to restrict the skill",
            "a skill with a misspelt or broken permission key is granted nothing",
            "correct the key in SKILL.md; `skillhost check` names it",
        ),
    };
    let decision = |entry: String, place| EntryDecision {
        entry,
        place,
        verdict: Verdict::Refused,
        meaning: meaning.into(),
        rule: rule.into(),
        fix: Some(fix.into()),
    };
    let entries =
        manifest.allowed_tools.iter().flatten().map(|e| decision(printable(&e.text), e.span));
    let mut decisions: Vec<EntryDecision> = entries.collect();
    if decisions.is_empty() {
        decisions.push(decision("(the frontmatter)".into(), None));
    }
    decisions
}
