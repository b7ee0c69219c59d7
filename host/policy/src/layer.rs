//! The layers of a policy and their rules.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::capabilities::Mount;
use super::determinism::DeterminismRule;
use super::disclosure::Disclosure;
use super::entry::{self, EntryList, Permission};
use super::level::PermissionLevel;
use super::printable;
use super::require::Requirement;
use crate::diagnostic::{Diagnostic, Severity};
use crate::limits::Limit;
use crate::source::{LockedOrigin, SourceKind};

/// A part of a policy that applies to some skills or to all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Where the layer comes from.
    pub origin: Origin,
    /// The skills to which it applies; `None` means every skill.
    pub applies_to: Option<NameGlob>,
    /// The only source whose skills it grants something; `None` means skills that were not fetched.
    pub source: Option<String>,
    /// What the section demands of the skills before they are loaded.
    pub require: Option<Requirement>,
    /// Where the section is written that the layer was read from, such as `policy.yaml:7:3`.
    pub place: Option<String>,
    /// The rules that allow something.
    pub allow: Vec<Rule>,
    /// The rules that deny something. They override every `allow`.
    pub deny: Vec<Rule>,
    /// Folders to mount.
    pub mounts: Vec<MountRule>,
    /// Package folders to mount.
    pub packages: Vec<PathBuf>,
    /// Variables to set.
    pub env: Vec<EnvRule>,
    /// The HTTP methods that may be used; `None` does not restrict them. Only methods in the lists
    /// of all layers may be used.
    pub methods: Option<Vec<String>>,
    /// Limits to set.
    pub limits: Vec<LimitRule>,
    /// The settings of deterministic runs.
    pub determinism: DeterminismRule,
    /// The permission level.
    pub approval: Option<PermissionLevel>,
    /// Whether writes are staged for approval.
    pub stage: bool,
    /// Whether guests may create symlinks in folders of the host; `None` says nothing about it. One
    /// layer that forbids it is enough.
    pub symlinks: Option<bool>,
    /// How much agents see of the skills.
    pub disclosure: Option<Disclosure>,
    /// How much agents see of single typed tools, by name.
    pub tools: BTreeMap<String, Disclosure>,
}

/// The origin of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// [`Policy::builtin`](super::Policy::builtin).
    BuiltIn,
    /// A policy file, by the path that the operator named.
    File(PathBuf),
    /// The command line's flags.
    CommandLine,
}

/// One entry of `allow` or `deny`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The entry as written.
    pub text: String,
    /// Its meaning.
    pub permission: Permission,
    /// Where the rule is written: `policy.yaml:12:7`, `built-in policy`, `--allow`.
    pub place: String,
}

/// A folder to mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountRule {
    /// The mount.
    pub mount: Mount,
    /// Where the rule is written.
    pub place: String,
}

/// A variable to set.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvRule {
    /// Its name.
    pub name: String,
    /// Its value, or where the value comes from.
    pub value: EnvValue,
    /// Where the rule is written.
    pub place: String,
}

/// The value of a variable. Every value counts as a secret: `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// This value.
    Literal(String),
    /// The host's value, not yet looked up by [`Policy::resolve_env`](super::Policy::resolve_env).
    Host,
    /// The host's value, but the host does not have the variable.
    Unset,
}

/// A limit to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRule {
    /// The limit.
    pub limit: Limit,
    /// Its value, in the unit of the limit.
    pub value: u64,
    /// Where the rule is written.
    pub place: String,
}

/// A glob over skill names.
#[derive(Debug, Clone)]
pub struct NameGlob {
    pattern: String,
    /// `None` for a plain name. A policy may have a thousand of them, and compiling globs is slow.
    matcher: Option<globset::GlobMatcher>,
}

impl Layer {
    /// Checks whether the layer may grant something to skills from a source, instead of only
    /// restricting them.
    pub(crate) fn grants_to(&self, origin: SourceKind, locked: Option<&LockedOrigin>) -> bool {
        self.applies_to.is_none()
            || match origin {
                SourceKind::Path => false,
                SourceKind::Fetched => {
                    self.source.is_some()
                        && self.source.as_ref() == locked.map(|locked| &locked.source)
                }
                _ => self.source.is_none(),
            }
    }

    /// Creates an empty layer.
    pub fn new(origin: Origin) -> Layer {
        Layer {
            origin,
            applies_to: None,
            source: None,
            require: None,
            place: None,
            allow: Vec::new(),
            deny: Vec::new(),
            mounts: Vec::new(),
            packages: Vec::new(),
            env: Vec::new(),
            methods: None,
            limits: Vec::new(),
            determinism: DeterminismRule::default(),
            approval: None,
            stage: false,
            symlinks: None,
            disclosure: None,
            tools: BTreeMap::new(),
        }
    }

    /// Checks whether the layer grants nothing, to no skill.
    pub fn only_restricts(&self) -> bool {
        *self == self.restrictions()
    }

    /// Checks whether the layer applies to a skill name.
    pub(super) fn covers(&self, skill: &str) -> bool {
        self.applies_to.as_ref().is_none_or(|glob| glob.matches(skill))
    }

    /// Returns the part of the layer that restricts skills.
    pub(super) fn restrictions(&self) -> Layer {
        let determinism = if self.determinism.on == Some(true) {
            self.determinism
        } else {
            DeterminismRule::default()
        };
        Layer {
            applies_to: self.applies_to.clone(),
            source: self.source.clone(),
            require: self.require.clone(),
            place: self.place.clone(),
            deny: self.deny.clone(),
            methods: self.methods.clone(),
            determinism,
            approval: self.approval,
            stage: self.stage,
            symlinks: self.symlinks.filter(|allowed| !allowed),
            disclosure: self.disclosure,
            tools: self.tools.clone(),
            ..Layer::new(self.origin.clone())
        }
    }
}

impl Rule {
    /// Parses an entry of the operator.
    ///
    /// # Errors
    /// A diagnostic if the entry cannot be enforced. Its file is `place`.
    pub fn new(text: &str, side: EntryList, place: &str) -> Result<Rule, Box<Diagnostic>> {
        match entry::parse(text, side) {
            Permission::NotGrantable { why, fix } => Err(Box::new(Diagnostic {
                severity: Severity::Error,
                rule: "policy-entry",
                message: format!("`{}` cannot be enforced: {why}", printable(text)),
                file: place.to_owned(),
                span: None,
                fix,
            })),
            permission => {
                Ok(Rule { text: text.trim().to_owned(), permission, place: place.to_owned() })
            }
        }
    }

    /// Says that this denial blocks something, and where it is written.
    pub(super) fn blocks(&self) -> String {
        blocked_by(&self.text, &self.place)
    }
}

/// Says that an entry or a section blocks something. `place` is a place in a file, or a flag.
pub(super) fn blocked_by(text: &str, place: &str) -> String {
    let text = printable(text);
    if place.starts_with("--") {
        format!("blocked by `{place} {text}`")
    } else {
        format!("blocked by `{text}` in {place}")
    }
}

impl EnvRule {
    /// Parses `NAME=VALUE`, or `NAME` to pass the host's value.
    ///
    /// # Errors
    /// Why the text is neither. The message does not contain the value.
    pub fn new(text: &str, place: &str) -> Result<EnvRule, String> {
        let (name, value) =
            text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let valid = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        if name.is_empty() || !valid {
            return Err(format!("invalid variable name `{}`", printable(name)));
        }
        if value.is_some_and(|v| v.contains('\0')) {
            return Err(format!("the value of {name} contains a NUL character"));
        }
        let value = value.map_or(EnvValue::Host, |v| EnvValue::Literal(v.to_owned()));
        Ok(EnvRule { name: name.to_owned(), value, place: place.to_owned() })
    }
}

impl fmt::Debug for EnvValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EnvValue::Literal(_) => "Literal(..)",
            EnvValue::Host => "Host",
            EnvValue::Unset => "Unset",
        })
    }
}

impl fmt::Debug for EnvRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnvRule({} = {:?} by {})", self.name, self.value, self.place)
    }
}

impl NameGlob {
    /// Compiles a glob over skill names, such as `word-count` or `acme-*`.
    ///
    /// # Errors
    /// A message if no skill name can match, or if the glob does not compile.
    pub fn new(pattern: &str) -> Result<NameGlob, String> {
        let fits =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-*?[]{},!".contains(c);
        if pattern.is_empty() || !pattern.chars().all(fits) {
            return Err("use a-z, 0-9 and hyphens, and `*` and `?` as wildcards".into());
        }
        let matcher = match pattern.contains(['*', '?', '[', ']', '{', '}']) {
            true => Some(
                globset::Glob::new(pattern).map_err(|e| e.kind().to_string())?.compile_matcher(),
            ),
            false => None,
        };
        Ok(NameGlob { pattern: pattern.to_owned(), matcher })
    }

    /// Means one skill by its name.
    pub(super) fn name(name: &str) -> NameGlob {
        NameGlob { pattern: name.to_owned(), matcher: None }
    }

    /// Returns the text of the glob.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        self.matcher.as_ref().map_or(self.pattern == name, |matcher| matcher.is_match(name))
    }

    /// Checks whether it is a plain name, without wildcards.
    pub fn is_literal(&self) -> bool {
        self.matcher.is_none()
    }
}

impl PartialEq for NameGlob {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}
impl Eq for NameGlob {}
