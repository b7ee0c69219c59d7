//! Reads a policy file into layers. Reports every error at once, and rejects a file with any error.

mod agents;
mod require;
mod top;

use std::path::Path;

use super::capabilities::{Mount, MountMode};
use super::determinism::parse_start_time;
use super::entry::EntryList;
use super::schema::{self, Field};
use super::yaml::{self, Format, Kind, Node};
use super::{
    AuditDetail, ClientNames, Clients, EnvRule, Layer, LimitRule, MountRule, NameGlob, Origin,
    Policy, Preload, Retention, Rule, Secrets, mounts, printable,
};
use crate::diagnostic::{Diagnostic, Severity, Span};
use crate::limits::{Limit, SKILL_SIZE};

/// A policy for a thousand skills takes about 100 KiB.
const MAX_BYTES: usize = 1 << 20;

/// A policy for a thousand skills stays far below these bounds.
const FORMAT: Format = Format {
    name: "policy",
    rule: "policy-yaml",
    max_depth: 16,
    max_nodes: 100_000,
    max_aliases: 100,
};

/// A policy file that was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy rejected: {}", match .diagnostics.len() { 1 => "1 error".to_owned(), n => format!("{n} errors") })]
pub struct PolicyError {
    /// Every error, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// The text of the file, which the diagnostics point into.
    pub source_text: String,
}

/// Parses the text of a policy file, and reads the certificates that it names. `path` is the file's
/// path; relative host paths start at its folder. `home` is what `~/` expands to.
///
/// # Errors
/// Every error in the file.
pub fn load(path: &Path, text: &str, home: Option<&Path>) -> Result<Policy, PolicyError> {
    let mut reader = Reader {
        path,
        file: path.display().to_string(),
        home,
        diagnostics: Vec::new(),
        mounts: Vec::new(),
    };
    let mut policy = Policy { layers: Vec::new(), ..Policy::builtin() };
    if text.len() > MAX_BYTES {
        reader.error(
            "policy-size",
            None,
            format!("the policy is larger than {MAX_BYTES} bytes"),
            None,
        );
    } else {
        match yaml::parse(text, &reader.file, &FORMAT) {
            Ok(root) => policy = reader.root(&root),
            Err(diagnostic) => reader.diagnostics.push(*diagnostic),
        }
    }
    reader.diagnostics.sort_by_key(|d| d.span.map(|s| s.offset));
    if reader.diagnostics.is_empty() {
        Ok(policy)
    } else {
        Err(PolicyError { diagnostics: reader.diagnostics, source_text: text.to_owned() })
    }
}

/// The shape that a key's value must have.
#[derive(Clone, Copy)]
enum Expected {
    Table,
    List { example: &'static str },
    Value,
    Item { item: &'static str },
}

/// An example of the list of mounts.
const MOUNTS: &str = "[{ host: DIR, guest: /data, mode: read }]";

struct Reader<'a> {
    path: &'a Path,
    file: String,
    home: Option<&'a Path>,
    diagnostics: Vec<Diagnostic>,
    /// The place of each mount, as text and as a span.
    mounts: Vec<(String, Span)>,
}

impl Reader<'_> {
    fn root(&mut self, root: &Node) -> Policy {
        let mut default = self.layer();
        let mut skills = Vec::new();
        let (mut authorities, mut skill_folders, mut retention) =
            (Vec::new(), Vec::new(), Retention::default());
        let (mut secrets, mut usage, mut preload) = (Secrets::default(), true, Preload::Nothing);
        let mut audit_detail = AuditDetail::default();
        let mut clients = Clients::default();
        let (mut ceiling, mut skill_size) = (Vec::new(), SKILL_SIZE);
        for (key, span, value) in self.table(root, "the policy", &schema::TOP) {
            match key {
                "limits" => default.limits = self.limits(value),
                "ceiling" => ceiling = self.limits(value),
                "authorities" => authorities = self.authorities(value),
                "secrets" => secrets = Secrets { plain: secrets.plain, ..self.secrets(value) },
                "record" => secrets.plain = self.plain(value),
                "skill-folders" => skill_folders = self.skill_folders(value),
                "skill-size" => skill_size = self.skill_size(value),
                "audit" => (retention, audit_detail) = self.audit(value),
                "usage" => usage = self.usage(value),
                "preload" => preload = self.preload(value),
                "clients" => clients = self.clients(value),
                "default" => {
                    default.place = Some(self.place(span));
                    self.section(value, "default", &schema::DEFAULT, &mut default);
                }
                "skills" => skills = self.skills(value),
                key => self.determinism(key, value, &mut default),
            }
        }
        let mut layers = vec![default];
        layers.extend(skills);
        self.clashes(&layers);
        Policy {
            layers,
            authorities,
            skill_folders,
            retention,
            audit_detail,
            secrets,
            usage,
            preload,
            clients,
            client_names: ClientNames::default(),
            ceiling,
            skill_size,
        }
    }

    fn skills(&mut self, node: &Node) -> Vec<Layer> {
        let mut layers = Vec::new();
        let entries = match &node.kind {
            Kind::Map(entries) => entries.as_slice(),
            _ => return self.expected(node, "`skills`", Expected::Table, layers),
        };
        for (key, value) in entries {
            let name = scalar(key).unwrap_or_default();
            let mut layer = Layer { place: Some(self.place(key.span)), ..self.layer() };
            match NameGlob::new(name) {
                Ok(glob) => layer.applies_to = Some(glob),
                Err(why) => {
                    self.error(
                        "policy-skill-name",
                        Some(key.span),
                        format!("invalid skill name `{}`: {why}", printable(name)),
                        None,
                    );
                }
            }
            self.section(value, name, &schema::SKILL, &mut layer);
            // Without its name, the section would apply to every skill.
            if layer.applies_to.is_some() {
                layers.push(layer);
            }
        }
        layers
    }

    fn section(&mut self, node: &Node, name: &str, fields: &'static [Field], layer: &mut Layer) {
        for (key, _, value) in self.table(node, &format!("`{}`", printable(name)), fields) {
            match key {
                "source" => layer.source = self.source(value),
                "require" => layer.require = Some(self.require(value)),
                "allow" => layer.allow = self.rules(value, key, EntryList::Allow),
                "deny" => layer.deny = self.rules(value, key, EntryList::Deny),
                "mounts" => layer.mounts = self.mounts(value),
                "env" => layer.env = self.env(value),
                "methods" => layer.methods = Some(self.methods(value)),
                "limits" => layer.limits = self.limits(value),
                "approval" => layer.approval = self.level(value),
                "stage" => layer.stage = self.stage(value),
                "symlinks" => layer.symlinks = self.symlinks(value),
                "disclosure" => layer.disclosure = self.disclosure(value, key),
                "tools" => layer.tools = self.tools(value),
                key => self.determinism(key, value, layer),
            }
        }
    }

    /// Returns what skills of a source are known by.
    fn source(&mut self, node: &Node) -> Option<String> {
        let Some(text) = scalar(node) else {
            return self.expected(node, "`source`", Expected::Value, None);
        };
        let is_short = |part: &str| {
            !part.is_empty() && !part.contains([':', '/']) && !part.starts_with(['.', '~'])
        };
        // `git@HOST:PATH`
        let is_over_ssh = !text.contains("://")
            && text.split_once(':').is_some_and(|(authority, path)| {
                authority.contains('@') && !authority.contains('/') && !path.contains('@')
            });
        let has_tag = text.starts_with("oci://")
            && text.rsplit('/').next().is_some_and(|name| name.contains(':'));
        match text.split_once('/') {
            _ if is_over_ssh => Some(text.to_owned()),
            // A folder may have an `@` in its name.
            _ if has_tag
                || text.contains('@') && !text.starts_with("ssh://") && !text.starts_with('/') =>
            {
                let message = "`source` names no tag, branch or commit".to_owned();
                self.error("policy-source", Some(node.span), message, None);
                None
            }
            Some((owner, repository)) if is_short(owner) && is_short(repository) => {
                let repository = repository.strip_suffix(".git").unwrap_or(repository);
                Some(format!("https://github.com/{owner}/{repository}"))
            }
            _ if text.starts_with("https://") => {
                Some(text.strip_suffix(".git").unwrap_or(text).to_owned())
            }
            _ if text.contains("://") || text.starts_with('/') => Some(text.to_owned()),
            _ => {
                let message = format!(
                    "`source` is neither a URL nor an absolute path: `{}`",
                    printable(text)
                );
                let fix = Some("source: OWNER/REPO, a URL as `skillhost list --json` shows it, or an absolute path".to_owned());
                self.error("policy-source", Some(node.span), message, fix);
                None
            }
        }
    }

    fn determinism(&mut self, key: &str, node: &Node, layer: &mut Layer) {
        let Some(text) = scalar(node) else {
            return self.expected(node, &format!("`{key}`"), Expected::Value, ());
        };
        let rule = &mut layer.determinism;
        let problem = match key {
            "deterministic" => match text {
                "true" | "false" => {
                    rule.on = Some(text == "true");
                    None
                }
                _ => Some("expected `true` or `false`".to_owned()),
            },
            "seed" => match text.parse() {
                Ok(seed) => {
                    rule.seed = Some(seed);
                    None
                }
                Err(_) => Some(format!("`{text}` is not a whole number from 0 to {}", u64::MAX)),
            },
            _ => parse_start_time(text).map(|time| rule.start_time = Some(time)).err(),
        };
        if let Some(why) = problem {
            self.error(
                "policy-deterministic",
                Some(node.span),
                format!("`{key}`: {}", printable(&why)),
                None,
            );
        }
    }

    fn rules(&mut self, node: &Node, key: &str, side: EntryList) -> Vec<Rule> {
        let mut rules = Vec::new();
        for (text, span) in self.texts(node, key, "an entry such as `Read(docs/**)`", "[Read]") {
            match Rule::new(text, side, &self.place(span)) {
                Ok(rule) => rules.push(rule),
                Err(d) => self.error(d.rule, Some(span), d.message, d.fix),
            }
        }
        rules
    }

    fn env(&mut self, node: &Node) -> Vec<EnvRule> {
        let mut rules: Vec<EnvRule> = Vec::new();
        for (text, span) in self.texts(node, "env", "NAME or NAME=value", "[NAME=value]") {
            match EnvRule::new(text, &self.place(span)) {
                Ok(rule) if rules.iter().any(|r| r.name == rule.name) => {
                    self.error(
                        "policy-env",
                        Some(span),
                        format!("{} is set twice", rule.name),
                        None,
                    );
                }
                Ok(rule) => rules.push(rule),
                Err(why) => self.error(
                    "policy-env",
                    Some(span),
                    why,
                    Some("NAME=value, or NAME to pass the host's value".into()),
                ),
            }
        }
        rules
    }

    fn methods(&mut self, node: &Node) -> Vec<String> {
        let mut methods = Vec::new();
        for (text, span) in self.texts(node, "methods", "an HTTP method such as GET", "[GET]") {
            if schema::METHOD_NAMES.contains(&text) {
                methods.push(text.to_owned());
            } else {
                let fix = suggest(text, &schema::METHOD_NAMES)
                    .or_else(|| Some(schema::METHOD_NAMES.join(", ")));
                self.error(
                    "policy-method",
                    Some(span),
                    format!("`{}` is not an HTTP method that can be granted", printable(text)),
                    fix,
                );
            }
        }
        methods
    }

    fn limits(&mut self, node: &Node) -> Vec<LimitRule> {
        let mut rules = Vec::new();
        let Kind::Map(entries) = &node.kind else {
            return self.expected(node, "`limits`", Expected::Table, rules);
        };
        let keys = Limit::ALL.map(Limit::key);
        for (key, value) in entries {
            let name = scalar(key).unwrap_or_default();
            let Some(limit) = Limit::from_key(name) else {
                self.unknown_key(key, "`limits`", &keys);
                continue;
            };
            let Some(text) = scalar(value) else {
                self.expected(value, &format!("`{name}`"), Expected::Value, ());
                continue;
            };
            match limit.parse(text) {
                Ok(value) => rules.push(LimitRule { limit, value, place: self.place(key.span) }),
                Err(why) => self.error(
                    "policy-limit",
                    Some(value.span),
                    format!("the limit `{name}`: {}", printable(&why)),
                    None,
                ),
            }
        }
        rules
    }

    fn mounts(&mut self, node: &Node) -> Vec<MountRule> {
        let mut rules: Vec<MountRule> = Vec::new();
        let Kind::List(items) = &node.kind else {
            return self.expected(node, "`mounts`", Expected::List { example: MOUNTS }, rules);
        };
        for item in items {
            if let Some(rule) = self.mount(item) {
                match rules.iter().find_map(|old| mounts::clash(&rule, old)) {
                    Some(why) => self.error("policy-mount", Some(item.span), why, None),
                    None => rules.push(rule),
                }
            }
        }
        rules
    }

    fn mount(&mut self, node: &Node) -> Option<MountRule> {
        let (mut guest, mut host, mut mode) = (None, None, Some(MountMode::Read));
        let before = self.diagnostics.len();
        for (key, _, value) in self.table(node, "a mount", &schema::MOUNT) {
            let Some(text) = scalar(value) else {
                self.expected(value, &format!("`{key}`"), Expected::Value, ());
                continue;
            };
            let problem = match key {
                "guest" => mounts::guest_path(text).map(|path| guest = Some(path)).err(),
                "host" => mounts::host_path(text, self.folder(), self.home)
                    .map(|path| host = Some(path))
                    .err(),
                _ => {
                    mode = match text {
                        "read" => Some(MountMode::Read),
                        "write" => Some(MountMode::Write),
                        "overlay" => Some(MountMode::Overlay),
                        _ => None,
                    };
                    mode.is_none().then(|| {
                        format!(
                            "unknown mode `{}`; use one of: {}",
                            printable(text),
                            schema::MODES.join(", ")
                        )
                    })
                }
            };
            if let Some(why) = problem {
                self.error("policy-mount", Some(value.span), why, None);
            }
        }
        if let (Some(guest), Some(host), Some(mode)) = (guest, host, mode) {
            let place = self.place(node.span);
            self.mounts.push((place.clone(), node.span));
            return Some(MountRule { mount: Mount::new(guest, host, mode), place });
        }
        if self.diagnostics.len() == before {
            let fix = Some(format!("mounts: {MOUNTS}"));
            self.error(
                "policy-mount",
                Some(node.span),
                "a mount needs `host` and `guest`".into(),
                fix,
            );
        }
        None
    }

    /// Reports mounts that clash in sections that can apply to the same skill.
    fn clashes(&mut self, layers: &[Layer]) {
        for (i, later) in layers.iter().enumerate() {
            for earlier in &layers[..i] {
                let apart = |l: &Layer| l.applies_to.as_ref().is_some_and(NameGlob::is_literal);
                if apart(later) && apart(earlier) {
                    continue;
                }
                for rule in &later.mounts {
                    if let Some(why) =
                        earlier.mounts.iter().find_map(|old| mounts::clash(rule, old))
                    {
                        let span = self
                            .mounts
                            .iter()
                            .find(|(place, _)| *place == rule.place)
                            .map(|(_, span)| *span);
                        self.error("policy-mount", span, why, None);
                    }
                }
            }
        }
    }

    /// Returns the entries of a map with known keys, and reports the others.
    fn table<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        fields: &'static [Field],
    ) -> Vec<(&'static str, Span, &'n Node)> {
        let mut known = Vec::new();
        let keys: Vec<&'static str> = fields.iter().map(|f| f.key).collect();
        let Kind::Map(entries) = &node.kind else {
            return self.expected(node, what, Expected::Table, known);
        };
        for (key, value) in entries {
            match keys.iter().find(|k| Some(**k) == scalar(key)) {
                Some(name) => known.push((*name, key.span, value)),
                None => self.unknown_key(key, what, &keys),
            }
        }
        known
    }

    /// Returns the texts of a list. `item` describes one of them, and `example` is a whole list.
    fn texts<'n>(
        &mut self,
        node: &'n Node,
        key: &str,
        item: &'static str,
        example: &'static str,
    ) -> Vec<(&'n str, Span)> {
        let mut texts = Vec::new();
        let Kind::List(items) = &node.kind else {
            return self.expected(node, &format!("`{key}`"), Expected::List { example }, texts);
        };
        for node in items {
            match scalar(node) {
                Some(text) => texts.push((text, node.span)),
                None => self.expected(
                    node,
                    &format!("each item of `{key}`"),
                    Expected::Item { item },
                    (),
                ),
            }
        }
        texts
    }

    fn unknown_key(&mut self, key: &Node, what: &str, known: &[&str]) {
        let name = scalar(key).unwrap_or_default();
        let suggestion = suggest(name, known);
        let message = match &suggestion {
            Some(known) => {
                format!("unknown key `{}` in {what}; did you mean `{known}`?", printable(name))
            }
            None => format!("unknown key `{}` in {what}", printable(name)),
        };
        let fix = suggestion
            .map_or_else(|| format!("one of: {}", known.join(", ")), |known| format!("{known}:"));
        self.error("policy-key", Some(key.span), message, Some(fix));
    }

    /// Reports a value of the wrong type, and returns `empty` in its place.
    fn expected<T>(&mut self, node: &Node, what: &str, shape: Expected, empty: T) -> T {
        let message = match (&node.kind, shape) {
            (Kind::Null, Expected::Table) => format!("{what} is empty; write `{{}}`"),
            (Kind::Null, Expected::List { .. }) => format!("{what} is empty; write `[]`"),
            (_, Expected::Table) => format!("{what} must be a map, not {}", node.describe()),
            (_, Expected::List { example }) => format!("{what} must be a list, e.g. `{example}`"),
            (_, Expected::Value) => {
                format!("{what} must be a single value, not {}", node.describe())
            }
            (_, Expected::Item { item }) => {
                format!("{what} must be {item}, not {}", node.describe())
            }
        };
        self.error("policy-type", Some(node.span), message, None);
        empty
    }

    fn error(
        &mut self,
        rule: &'static str,
        span: Option<Span>,
        message: String,
        fix: Option<String>,
    ) {
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            rule,
            message,
            file: self.file.clone(),
            span,
            fix,
        });
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    fn layer(&self) -> Layer {
        Layer::new(Origin::File(self.path.to_owned()))
    }

    fn place(&self, span: Span) -> String {
        format!("{}:{}:{}", self.file, span.line, span.column)
    }
}

pub(super) fn scalar(node: &Node) -> Option<&str> {
    if let Kind::Scalar(text) = &node.kind { Some(text) } else { None }
}

/// Returns the known word that a misspelt one probably means.
pub(super) fn suggest(word: &str, known: &[&str]) -> Option<String> {
    let near =
        known.iter().map(|k| (strsim::jaro_winkler(&word.to_lowercase(), &k.to_lowercase()), k));
    near.filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| (*k).to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn sources_have_the_form_of_the_lock_file() {
        let source = |text: &str| {
            let policy = format!("skills: {{ a: {{ source: \"{text}\" }} }}\n");
            let policy = crate::load(Path::new("policy.yaml"), &policy, None).ok()?;
            policy.layers.iter().find_map(|layer| layer.source.clone())
        };
        for (text, expected) in [
            ("a/b", Some("https://github.com/a/b")),
            ("a/b.git", Some("https://github.com/a/b")),
            ("https://host/b.git", Some("https://host/b")),
            ("ssh://git@host/b.git", Some("ssh://git@host/b.git")),
            ("/srv/a@b", Some("/srv/a@b")),
            ("git@host:a/b.git", Some("git@host:a/b.git")),
            ("oci://localhost:5000/a/b", Some("oci://localhost:5000/a/b")),
            ("mcp+https://host/mcp", Some("mcp+https://host/mcp")),
            ("git@host:a/b@v1", None),
            ("oci://host/a:v1", None),
            ("a/b@v1", None),
            ("https://host/b@v1", None),
            ("./a", None),
            ("a", None),
        ] {
            assert_eq!(source(text).as_deref(), expected, "{text}");
        }
    }
}
