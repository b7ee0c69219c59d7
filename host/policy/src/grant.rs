//! What a skill asks for, and what the operator allows, become capabilities: their intersection,
//! less what is denied.

use std::collections::BTreeMap;

use serde::Serialize;

use super::capabilities::{Capabilities, Mount, MountMode, Scope};
use super::determinism::{self, Determinism, DeterminismRule};
use super::entry::{self, Side, Tool};
use super::schema::METHOD_NAMES;
use super::tool::{CommandPattern, HostPattern, PathGlob};
use super::verdict::{Judge, Pattern};
use super::{EnvValue, Layer, LimitRule, Origin, Policy, Rule, SITE_PACKAGES, printable};
use crate::diagnostic::Span;
use crate::limits::{Limit, Limits};
use crate::manifest::{Manifest, ToolEntry};

/// What a skill may do, and how that came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Grant {
    /// What the sandbox enforces.
    pub capabilities: Capabilities,
    /// One for each entry of `allowed-tools`, in order; then what became of the limits and
    /// variables, where that needs saying.
    pub decisions: Vec<Decision>,
}

/// What became of one thing that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Decision {
    /// As written, control characters escaped.
    pub entry: String,
    /// Where in SKILL.md.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Span>,
    /// Whether it was granted.
    pub verdict: Verdict,
    /// What it means, or why it is refused.
    pub meaning: String,
    /// Which rule of which file said so.
    pub rule: String,
    /// What would grant it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// How a decision went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All that was asked.
    Granted,
    /// Less than was asked, or only what both sides name.
    Narrowed,
    /// Nothing of it.
    Refused,
}

/// Works out what a skill may do. Pure: the same manifest and policy give the same grant.
pub fn grant(manifest: &Manifest, policy: &Policy) -> Grant {
    let layers: Vec<&Layer> = policy.layers_for(&manifest.name).collect();
    let allowed = Patterns::of(layers.iter().flat_map(|l| &l.allow).map(|rule| (&rule.tool, rule)));
    let given_up: Vec<Rule> = manifest.disallowed_tools.iter().flat_map(own_denials).collect();
    let denied = Patterns::denied(layers.iter().flat_map(|l| &l.deny).chain(&given_up));
    let asked: Vec<(Tool, &str)> = manifest
        .allowed_tools
        .iter()
        .flatten()
        .map(|e| (entry::parse(&e.text, Side::Asked), e.text.as_str()))
        .collect();
    let names_paths = asked.iter().any(|(_, text)| entry::names_paths(text));
    let mut decisions = Vec::new();
    let determinism = DeterminismRule::resolve(layers.iter().map(|l| &l.determinism));
    let limits = resolve_limits(manifest, &layers, determinism, &mut decisions);
    if manifest.is_granted_nothing() {
        let limits = Limits { state: 0, ..limits };
        return Grant {
            capabilities: Capabilities { limits, determinism, ..Capabilities::default() },
            decisions: refuse_everything(manifest),
        };
    }

    let side = manifest.allowed_tools.is_some().then(|| {
        let side = Patterns::of(asked.iter().map(|(tool, text)| (tool, *text)));
        if names_paths { side } else { side.with_implied_files() }
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
        Some(tools) => {
            let alone = asked.iter().any(|(t, _)| matches!(t, Tool::Bash(_))) && !names_paths;
            tools
                .iter()
                .zip(&asked)
                .map(|(entry, (tool, _))| judge.entry(entry, tool, alone))
                .collect()
        }
    };
    entries.extend(manifest.disallowed_tools.iter().map(given_up_decision));
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
            fetch,
            methods,
            authorities,
            env,
            limits,
            determinism,
        },
        decisions: entries,
    }
}

/// One side's patterns, each with whoever said so.
pub(super) struct Patterns<W> {
    pub(super) read: Vec<(PathGlob, W)>,
    pub(super) write: Vec<(PathGlob, W)>,
    pub(super) spawn: Vec<(CommandPattern, W)>,
    pub(super) fetch: Vec<(HostPattern, W)>,
}

impl<'t, W: Copy> Patterns<W> {
    /// What a side asks for or allows.
    fn of(tools: impl Iterator<Item = (&'t Tool, W)>) -> Patterns<W> {
        let mut side =
            Patterns { read: Vec::new(), write: Vec::new(), spawn: Vec::new(), fetch: Vec::new() };
        for (tool, who) in tools {
            match tool {
                Tool::Read(glob) => side.read.push((glob.clone(), who)),
                Tool::Write(glob) => {
                    side.read.push((glob.clone(), who));
                    side.write.push((glob.clone(), who));
                }
                Tool::Bash(command) => side.spawn.push((command.clone(), who)),
                Tool::WebFetch(host) => side.fetch.push((host.clone(), who)),
                Tool::NotGrantable { .. } => {}
            }
        }
        side
    }

    /// A skill that asks for programs, and names no paths, asks for files too. An operator who
    /// allows programs does not thereby allow files.
    fn with_implied_files(mut self) -> Self {
        if let Some((_, who)) = self.spawn.first() {
            self.read.push((PathGlob::everything(), *who));
            self.write.push((PathGlob::everything(), *who));
        }
        self
    }
}

impl<'r> Patterns<&'r Rule> {
    /// What a side denies: what may not be read may not be written either, and `Bash` says nothing
    /// about files.
    fn denied(rules: impl Iterator<Item = &'r Rule>) -> Patterns<&'r Rule> {
        let mut side =
            Patterns { read: Vec::new(), write: Vec::new(), spawn: Vec::new(), fetch: Vec::new() };
        for rule in rules {
            match &rule.tool {
                Tool::Read(glob) => {
                    side.read.push((glob.clone(), rule));
                    side.write.push((glob.clone(), rule));
                }
                Tool::Write(glob) => side.write.push((glob.clone(), rule)),
                Tool::Bash(command) => side.spawn.push((command.clone(), rule)),
                Tool::WebFetch(host) => side.fetch.push((host.clone(), rule)),
                Tool::NotGrantable { .. } => {}
            }
        }
        side
    }
}

/// The intersection of both sides, in an order of its own, so that the order of entries does not
/// matter. What is asked and meets nothing that is allowed is left out, so that a scope which
/// allows nothing is seen to.
fn scope<P: Clone + Ord + Pattern>(
    asked: Option<&Vec<(P, &str)>>,
    allowed: &[(P, &Rule)],
    denied: &[(P, &Rule)],
) -> Scope<P> {
    let allowed = sorted(allowed.iter().map(|(p, _)| p.clone()));
    let asked = asked.map(|side| {
        let met = side.iter().map(|(p, _)| p).filter(|p| allowed.iter().any(|a| a.overlaps(p)));
        sorted(met.cloned())
    });
    Scope {
        all_of: asked.into_iter().chain([allowed]).collect(),
        none_of: sorted(denied.iter().map(|(p, _)| p.clone())),
    }
}

fn sorted<P: Ord>(patterns: impl Iterator<Item = P>) -> Vec<P> {
    let mut patterns: Vec<P> = patterns.collect();
    patterns.sort();
    patterns.dedup();
    patterns
}

/// The mounts that the scopes reach, none writable where nothing may be written; and which of them
/// the operator made read-only.
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
        // A guest path that is no glob cannot come from a policy that was loaded; it is not shown.
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

fn resolve_packages(layers: &[&Layer]) -> Vec<Mount> {
    let folders = layers.iter().flat_map(|l| &l.packages).enumerate();
    folders
        .map(|(n, host)| Mount::new(format!("{SITE_PACKAGES}/{}", n + 1), host, MountMode::Read))
        .collect()
}

/// All the methods that may be granted, less what the layers leave out.
fn resolve_methods(layers: &[&Layer]) -> Vec<String> {
    let stays = |method: &&str| {
        layers
            .iter()
            .filter_map(|l| l.methods.as_ref())
            .all(|list| list.iter().any(|m| m == method))
    };
    METHOD_NAMES.iter().filter(|m| stays(m)).map(|m| (*m).to_owned()).collect()
}

fn resolve_env(layers: &[&Layer], decisions: &mut Vec<Decision>) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    for rule in layers.iter().flat_map(|l| &l.env) {
        if let EnvValue::Literal(value) = &rule.value {
            env.insert(rule.name.clone(), value.clone());
            continue;
        }
        decisions.push(Decision {
            entry: format!("env {}", rule.name),
            place: None,
            verdict: Verdict::Refused,
            meaning: "left out: the host has no variable of that name".into(),
            rule: rule.place.clone(),
            fix: Some(format!("set {0} before the run, or give it a value: {0}=...", rule.name)),
        });
    }
    env
}

/// Defaults, then the policy's, then the smallest of the sections for this skill, then the command
/// line; the skill may only lower them.
fn resolve_limits(
    manifest: &Manifest,
    layers: &[&Layer],
    determinism: Option<Determinism>,
    decisions: &mut Vec<Decision>,
) -> Limits {
    let mut limits = Limits { fuel: determinism.map(|_| determinism::FUEL), ..Limits::default() };
    let mut places: BTreeMap<Limit, &str> = BTreeMap::new();
    let mut set = |limits: &mut Limits, rule: &'_ LimitRule, place| {
        limits.set(rule.limit, rule.value);
        places.insert(rule.limit, place);
    };
    let general = |l: &&&Layer| l.applies_to.is_none() && l.origin != Origin::CommandLine;
    for rule in layers.iter().filter(general).flat_map(|l| &l.limits) {
        set(&mut limits, rule, rule.place.as_str());
    }
    let mut smallest: BTreeMap<Limit, &LimitRule> = BTreeMap::new();
    for rule in layers.iter().filter(|l| l.applies_to.is_some()).flat_map(|l| &l.limits) {
        let least = smallest.entry(rule.limit).or_insert(rule);
        if rule.value < least.value {
            *least = rule;
        }
    }
    let flags = layers.iter().filter(|l| l.origin == Origin::CommandLine).flat_map(|l| &l.limits);
    for rule in smallest.into_values().chain(flags) {
        set(&mut limits, rule, rule.place.as_str());
    }
    for (&limit, &wanted) in manifest.limits.iter().filter(|(l, _)| l.in_manifest()) {
        match limits.get(limit) {
            Some(bound) if wanted > bound => decisions.push(Decision {
                entry: format!("metadata.{limit}: {}", limit.show(wanted)),
                place: None,
                verdict: Verdict::Narrowed,
                meaning: format!("it gets {}", limit.show(bound)),
                rule: places.get(&limit).map_or_else(
                    || format!("the default of `{limit}`"),
                    |p| format!("`limits` at {p}"),
                ),
                fix: Some(raise(limit, wanted)),
            }),
            _ => limits.set(limit, wanted),
        }
    }
    limits
}

/// What raises a limit, in a form that can be pasted.
fn raise(limit: Limit, value: u64) -> String {
    let shown = limit.show(value).replace(' ', "");
    let text = if limit.parse(&shown) == Ok(value) { shown } else { value.to_string() };
    let flag = limit.flag().map(|flag| format!("{flag} {text}, or ")).unwrap_or_default();
    format!("{flag}in a policy file: limits: {{ {limit}: {text} }}")
}

/// An entry of the skill's `disallowed-tools` as rules: they deny like those of the policy.
fn own_denials(entry: &ToolEntry) -> Vec<Rule> {
    let tools = match entry.text.trim().to_ascii_lowercase().as_str() {
        "*" | "all" => vec!["Read", "Write", "Bash", "WebFetch"],
        _ => vec![entry.text.as_str()],
    };
    let rule = |tool| Rule {
        text: entry.text.clone(),
        tool: entry::parse_denial(tool),
        place: OWN_DENIAL.into(),
    };
    tools.into_iter().map(rule).collect()
}

fn given_up_decision(entry: &ToolEntry) -> Decision {
    Decision {
        entry: printable(&entry.text),
        place: entry.span,
        verdict: Verdict::Refused,
        meaning: "nothing: the skill gives it up".into(),
        rule: format!("deny `{}` ({OWN_DENIAL})", printable(&entry.text)),
        fix: None,
    }
}

/// Where a denial stands that a skill makes itself.
const OWN_DENIAL: &str = "the skill's disallowed-tools";

fn refuse_everything(manifest: &Manifest) -> Vec<Decision> {
    let (meaning, rule, fix) = match manifest.recovered {
        true => (
            "nothing: what a broken frontmatter asks for cannot be known",
            "a skill whose frontmatter had to be recovered is granted nothing",
            "mend the frontmatter of SKILL.md",
        ),
        false => (
            "nothing: the skill may ask for less than could be read",
            "a skill with a misspelt or broken permission key is granted nothing",
            "correct the key in SKILL.md: `skillhost check` shows which",
        ),
    };
    let decision = |entry: String, place| Decision {
        entry,
        place,
        verdict: Verdict::Refused,
        meaning: meaning.into(),
        rule: rule.into(),
        fix: Some(fix.into()),
    };
    let entries =
        manifest.allowed_tools.iter().flatten().map(|e| decision(printable(&e.text), e.span));
    let mut decisions: Vec<Decision> = entries.collect();
    if decisions.is_empty() {
        decisions.push(decision("(the frontmatter)".into(), None));
    }
    decisions
}
