//! A layer of a policy, and the rules that it is made of.

use std::fmt;
use std::path::PathBuf;

use super::approval::Level;
use super::capabilities::Mount;
use super::determinism::DeterminismRule;
use super::entry::{self, Side, Tool};
use super::printable;
use crate::diagnostic::{Diagnostic, Severity};
use crate::limits::Limit;

/// A part of a policy that applies to all skills or to some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Who says so.
    pub origin: Origin,
    /// The skills it is for; `None` is every skill.
    pub applies_to: Option<NameGlob>,
    /// What is allowed.
    pub allow: Vec<Rule>,
    /// What is denied, whoever allows it.
    pub deny: Vec<Rule>,
    /// Folders to show.
    pub mounts: Vec<MountRule>,
    /// Folders of packages to add.
    pub packages: Vec<PathBuf>,
    /// Variables to set.
    pub env: Vec<EnvRule>,
    /// The HTTP methods that may be used; `None` says nothing about them. Several lists narrow each
    /// other.
    pub methods: Option<Vec<String>>,
    /// Bounds to set.
    pub limits: Vec<LimitRule>,
    /// Whether runs are deterministic.
    pub determinism: DeterminismRule,
    /// What has to happen before something runs.
    pub approval: Option<Level>,
    /// Whether writes are kept aside until someone has seen them.
    pub stage: bool,
}

/// Who says what a layer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// [`Policy::builtin`](super::Policy::builtin).
    BuiltIn,
    /// A policy file, by the name it was given.
    File(PathBuf),
    /// The command line's flags.
    CommandLine,
}

/// One entry of `allow` or `deny`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// As written.
    pub text: String,
    /// What it means.
    pub tool: Tool,
    /// Who says so: `policy.yaml:12:7`, `built-in policy`, `--allow`.
    pub place: String,
}

/// A folder to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountRule {
    /// The folder.
    pub mount: Mount,
    /// Who says so.
    pub place: String,
}

/// A variable to set.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvRule {
    /// Its name.
    pub name: String,
    /// Its value, or where that comes from.
    pub value: EnvValue,
    /// Who says so.
    pub place: String,
}

/// A variable's value. It is a secret, whatever it is: `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// This value.
    Literal(String),
    /// The host's own, not yet looked up; see [`Policy::resolve_env`](super::Policy::resolve_env).
    Host,
    /// The host's own, which is not set.
    Unset,
}

/// A bound to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRule {
    /// Which.
    pub limit: Limit,
    /// In the limit's own unit.
    pub value: u64,
    /// Who says so.
    pub place: String,
}

/// A glob over skills' names.
#[derive(Debug, Clone)]
pub struct NameGlob {
    pattern: String,
    /// `None` for a plain name: a policy may have a thousand, and compiling globs is slow.
    matcher: Option<globset::GlobMatcher>,
}

impl Layer {
    /// A layer that says nothing.
    pub fn new(origin: Origin) -> Layer {
        Layer {
            origin,
            applies_to: None,
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
        }
    }
}

impl Layer {
    /// The part of the layer that takes away.
    pub(super) fn restrictions(&self) -> Layer {
        let determinism = if self.determinism.on == Some(true) {
            self.determinism
        } else {
            DeterminismRule::default()
        };
        Layer {
            applies_to: self.applies_to.clone(),
            deny: self.deny.clone(),
            methods: self.methods.clone(),
            determinism,
            approval: self.approval,
            stage: self.stage,
            ..Layer::new(self.origin.clone())
        }
    }
}

impl Rule {
    /// An entry of an operator's, understood.
    ///
    /// # Errors
    /// Why it is not; the diagnostic's file is `place`.
    pub fn new(text: &str, side: Side, place: &str) -> Result<Rule, Box<Diagnostic>> {
        match entry::parse(text, side) {
            Tool::NotGrantable { why, fix } => Err(Box::new(Diagnostic {
                severity: Severity::Error,
                rule: "policy-entry",
                message: format!("`{}` cannot be enforced: {why}", printable(text)),
                file: place.to_owned(),
                span: None,
                fix,
            })),
            tool => Ok(Rule { text: text.trim().to_owned(), tool, place: place.to_owned() }),
        }
    }
}

impl EnvRule {
    /// `NAME=VALUE`, or `NAME` for the host's own value.
    ///
    /// # Errors
    /// Why it is neither; the value is not repeated.
    pub fn new(text: &str, place: &str) -> Result<EnvRule, String> {
        let (name, value) =
            text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let valid = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        if name.is_empty() || !valid {
            return Err(format!("`{}` is not a variable's name", printable(name)));
        }
        if value.is_some_and(|v| v.contains('\0')) {
            return Err(format!("the value of {name} holds a NUL character"));
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
    /// Compiles a glob over names: `word-count`, `acme-*`.
    ///
    /// # Errors
    /// What no skill's name could match, or the glob's own complaint.
    pub fn new(pattern: &str) -> Result<NameGlob, String> {
        let fits =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-*?[]{},!".contains(c);
        if pattern.is_empty() || !pattern.chars().all(fits) {
            return Err(
                "skills are named with a-z, 0-9 and hyphens; `*` and `?` stand for others".into()
            );
        }
        let matcher = match pattern.contains(['*', '?', '[', ']', '{', '}']) {
            true => Some(
                globset::Glob::new(pattern).map_err(|e| e.kind().to_string())?.compile_matcher(),
            ),
            false => None,
        };
        Ok(NameGlob { pattern: pattern.to_owned(), matcher })
    }

    /// The glob's text.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        self.matcher.as_ref().map_or(self.pattern == name, |matcher| matcher.is_match(name))
    }

    pub(crate) fn is_literal(&self) -> bool {
        self.matcher.is_none()
    }
}

impl PartialEq for NameGlob {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}
impl Eq for NameGlob {}
