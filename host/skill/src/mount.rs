//! Copies skills into the folder in which an agent looks for skills.
//!
//! [`mount`] reads each file of a skill once. These bytes are checked, digested and written; no file
//! is opened again by its path. `tree` holds the files and replaces symlinks with what they point to.
//! `target` writes them to a hidden folder next to the skill's place, and moves it there with one
//! rename, so the agent sees a whole skill or none.
//!
//! An index in the agent's folder records what was mounted, with its digest. A folder is replaced
//! only if the index has it and its content is unchanged.

mod target;
mod tree;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::{SizeLimits, Skill, SkillError, SkillListing, files, open_folder, single_file};
use skillhost_policy::diagnostic::{
    Diagnostic, Severity, error_object, is_hidden, printable, quoted,
};
use skillhost_policy::limits::show_size;
use skillhost_policy::manifest::{self, Manifest, fix, rules};
use target::Target;
use tree::{FileCopy, Tree};

/// Bytes of all skills of one call together.
pub const MAX_TOTAL: u64 = 50 << 20;
/// Bytes of a skill that is a single file.
pub const MAX_SINGLE_FILE: u64 = 1 << 20;
/// The name under which agents look for the instructions.
const SKILL_MD: &str = "SKILL.md";
/// The most characters of a description that is shortened.
const MAX_DESCRIPTION: usize = 1024;

/// A skill to mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountRequest {
    /// The skill's folder, or a single `.md` file.
    pub skill: PathBuf,
    /// The name that it gets in the agent's folder; `None` keeps its own.
    pub name: Option<String>,
    /// Whether the agent finds it.
    pub is_enabled: bool,
    /// Whether an invalid skill is refused. Otherwise only its instructions are mounted.
    pub is_validated: bool,
    /// The SHA-256 of the list of its files that `sha256sum` writes, if they were verified. Other
    /// files are not mounted.
    pub verified: Option<String>,
}

impl MountRequest {
    /// A skill that is mounted under its own name, enabled, and only if it is valid.
    pub fn new(skill: impl Into<PathBuf>) -> MountRequest {
        MountRequest {
            skill: skill.into(),
            name: None,
            is_enabled: true,
            is_validated: true,
            verified: None,
        }
    }
}

/// A skill in an agent's folder that [`mount`] put there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MountedSkill {
    /// The name, which is that of its folder.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Where it was copied from.
    pub source: PathBuf,
    /// The digest of the files that were mounted; see [`Skill::digest`].
    pub digest: String,
    /// Whether the agent finds it.
    #[serde(rename = "enabled")]
    pub is_enabled: bool,
    /// Whether only its instructions were mounted, without scripts, components and permissions.
    pub instructions_only: bool,
    /// Whether its files were changed since it was mounted.
    #[serde(rename = "changed")]
    pub is_changed: bool,
    /// The number of its files.
    pub files: usize,
    /// Bytes of its files.
    pub bytes: u64,
}

/// Why a skill is not mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// There is no such skill.
    #[error("no skill at {}", .path.display())]
    NotFound {
        /// The path where it was looked for.
        path: PathBuf,
    },
    /// The skill violates a rule.
    #[error(transparent)]
    Invalid(Box<SkillError>),
    /// The skill cannot be copied, or its place is taken.
    #[error("cannot mount {}: {why}", .what.display())]
    CannotMount {
        /// The skill, or the agent's folder.
        what: PathBuf,
        /// The reason.
        why: String,
        /// How to fix it.
        fix: Option<String>,
        /// Whether a file could not be read or written.
        is_io: bool,
    },
}

impl MountError {
    /// Returns how to fix it.
    pub fn fix(&self) -> Option<&str> {
        match self {
            MountError::CannotMount { fix, .. } => fix.as_deref(),
            MountError::NotFound { .. } | MountError::Invalid(_) => None,
        }
    }
}

impl Serialize for MountError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let path = |path: &Path| serde_json::json!({ "path": path.display().to_string() });
        match self {
            MountError::NotFound { path: missing } => {
                error_object("no-skill", self, path(missing)).serialize(serializer)
            }
            MountError::Invalid(error) => error.serialize(serializer),
            MountError::CannotMount { what, is_io, .. } => {
                let code = if *is_io { "io" } else { "mount" };
                error_object(code, self, path(what)).serialize(serializer)
            }
        }
    }
}

/// Copies skills into an agent's folder, which is created if it is missing. Checks all of them
/// before it writes the first. Replaces a skill of the same name only if it was mounted and is
/// unchanged.
///
/// # Errors
/// A skill does not exist, is invalid or cannot be copied, two have the same name, or the place of
/// one is taken. The skills before it may be mounted; none is mounted in part.
pub fn mount(into: &Path, requests: &[MountRequest]) -> Result<Vec<MountedSkill>, MountError> {
    let mut skills = Vec::new();
    let (mut names, mut bytes) = (BTreeSet::new(), 0);
    for request in requests {
        let skill = CheckedSkill::read(request)?;
        if !names.insert(skill.name.clone()) {
            let why = format!("two skills have the name `{}`", skill.name);
            return Err(refused(&request.skill, why, "give one of them another name: --as NAME"));
        }
        bytes += skill.tree.bytes();
        if bytes > MAX_TOTAL {
            let why = format!("the skills are larger than {} in total", show_size(MAX_TOTAL));
            return Err(refused(&request.skill, why, "mount fewer skills at once"));
        }
        skills.push(skill);
    }
    let mut target = Target::open(into)?;
    skills.iter().map(|skill| target.place(skill)).collect()
}

/// Enables or disables a mounted skill: an agent does not find a disabled one, and its files stay.
///
/// # Errors
/// No skill of this name was mounted, or its folder cannot be changed.
pub fn set_enabled(into: &Path, name: &str, is_enabled: bool) -> Result<MountedSkill, MountError> {
    if !into.is_dir() {
        return Err(MountError::NotFound { path: into.join(name) });
    }
    Target::open(into)?.set_enabled(name, is_enabled)
}

/// Lists the skills that were mounted in an agent's folder and still exist, sorted by name.
///
/// # Errors
/// The folder or its index cannot be read.
pub fn list(into: &Path) -> Result<Vec<MountedSkill>, MountError> {
    if into.is_dir() { Target::open(into)?.list() } else { Ok(Vec::new()) }
}

/// A skill that was read and checked.
struct CheckedSkill {
    name: String,
    source: PathBuf,
    tree: Tree,
    is_enabled: bool,
    instructions_only: bool,
}

impl CheckedSkill {
    fn read(request: &MountRequest) -> Result<CheckedSkill, MountError> {
        let source = &request.skill;
        let found = match source.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(MountError::NotFound { path: source.clone() });
            }
            found => found.map_err(|error| failed(source, "read it", &error))?,
        };
        let file = source.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let is_single =
            found.is_file() && file.ends_with(".md") && !file.eq_ignore_ascii_case(SKILL_MD);
        let (name, tree, instructions_only) = match is_single {
            true => single(request, file)?,
            false => folder(request)?,
        };
        let source = std::path::absolute(source).unwrap_or_else(|_| source.clone());
        let is_enabled = request.is_enabled;
        Ok(CheckedSkill { name, source, tree, is_enabled, instructions_only })
    }
}

/// Reads and checks a skill that is a folder.
fn folder(request: &MountRequest) -> Result<(String, Tree, bool), MountError> {
    let root = &request.skill;
    // The policy raises the limits of skills that run here only.
    let invalid =
        |error: SkillError| MountError::Invalid(Box::new(error.with_fixed_size("mounted skills")));
    let caps = SizeLimits::default();
    let mut listing = SkillListing::of(root, &caps).map_err(invalid)?;
    let is_link = |d: &&Diagnostic| is_about(d, &[rules::LINK_OUTSIDE, rules::LINK_BROKEN]);
    if let Some(link) = listing.diagnostics.iter().find(is_link) {
        let why = format!("{}: {}", link.file, link.message.replace(", and is ignored", ""));
        return Err(refused(root, why, "replace the symlink with a copy of the file"));
    }
    let mut tree = Tree::read(&listing)?;
    require_verified(request, &tree)?;
    let name = name(request, Some(&listing.name))?;
    let Some(mut skill_md) = tree.files.remove(&listing.skill_file) else {
        let why = format!("{} is not a file", listing.skill_file);
        return Err(refused(root, why, "write the instructions to a file SKILL.md"));
    };
    if name != listing.name {
        let text = str::from_utf8(&skill_md.content).ok();
        match text.and_then(|text| fix::renamed(text, &name)) {
            Some(text) => skill_md.content = text.into_bytes(),
            None if !request.is_validated => {}
            None => {
                let why = format!("the `name` in {} cannot be replaced", listing.skill_file);
                return Err(refused(root, why, format!("write `name: {name}` there")));
            }
        }
    }
    listing.name.clone_from(&name);
    let (live, content) = (listing.live.clone(), skill_md.content.clone());
    let parsed = match content.len() as u64 > caps.skill_md {
        true => listing.parse(Err(io::ErrorKind::FileTooLarge.into()), live),
        false => listing.parse(Ok(content), live),
    };
    match parsed.map_err(invalid).and_then(valid) {
        Ok(()) => {
            tree.files.insert(SKILL_MD.to_owned(), skill_md);
            Ok((name, tree, false))
        }
        Err(error) if request.is_validated => Err(error),
        Err(_) => {
            let tree = instructions(root, &name, &skill_md.content)?;
            Ok((name, tree, true))
        }
    }
}

/// Checks that the files that were read are those that were verified.
fn require_verified(request: &MountRequest, tree: &Tree) -> Result<(), MountError> {
    match &request.verified {
        Some(verified) if *verified != tree.listing_digest() => {
            let why = "its files changed after they were verified";
            Err(refused(&request.skill, why, "try again"))
        }
        _ => Ok(()),
    }
}

/// Checks that a skill loads with everything that it requests, and violates no rule.
fn valid(skill: Skill) -> Result<(), MountError> {
    let has_error = skill.diagnostics.iter().any(|d| d.severity == Severity::Error);
    if !has_error && !skill.manifest.is_granted_nothing() {
        return Ok(());
    }
    let Skill { root, diagnostics, source: text, .. } = skill;
    Err(MountError::Invalid(Box::new(SkillError { root, diagnostics, text })))
}

/// Reads and checks a skill that is a single file. It is instructions only.
fn single(request: &MountRequest, file: &str) -> Result<(String, Tree, bool), MountError> {
    let path = &request.skill;
    let name = name(request, single_file::name_of(file))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let dir = open_folder(parent.unwrap_or(Path::new(".")))
        .map_err(|(why, fix)| refused(path, why, fix))?;
    let bytes =
        files::read_bounded(&dir, file, MAX_SINGLE_FILE).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                let why = format!("it is larger than {}", show_size(MAX_SINGLE_FILE));
                refused(path, why, "make it a folder, with text in files under references/")
            }
            _ => failed(path, "read it", &error),
        })?;
    let content = FileCopy { content: bytes.clone(), is_executable: false };
    require_verified(request, &Tree::of_file(file, content))?;
    let parsed = manifest::parse(&bytes, &name, &path.display().to_string());
    // A single file needs no frontmatter, and `--as` replaces its name.
    let names = [rules::NAME_FOLDER, rules::NAME_LENGTH, rules::NAME_MISSING, rules::NAME_PATTERN];
    let is_error = |d: &Diagnostic| {
        d.severity == Severity::Error
            && !is_about(d, &[rules::FRONTMATTER_MISSING])
            && !(request.name.is_some() && is_about(d, &names))
    };
    if request.is_validated && parsed.diagnostics.iter().any(is_error) {
        let (root, text) = (path.clone(), parsed.source);
        let error = SkillError { root, diagnostics: parsed.diagnostics, text };
        return Err(MountError::Invalid(Box::new(error)));
    }
    let tree = instructions(path, &name, &bytes)?;
    Ok((name, tree, true))
}

/// Returns the only file of a skill that is instructions only. It requests no permissions.
fn instructions(path: &Path, name: &str, skill_md: &[u8]) -> Result<Tree, MountError> {
    let parsed = manifest::parse(skill_md, name, SKILL_MD);
    let source = parsed.source;
    let body = source.get(parsed.body_offset..).unwrap_or_default();
    // The first paragraph describes instructions whose frontmatter cannot be read.
    let is_described = |manifest: &Manifest| !manifest.description.is_empty();
    let summary = || manifest::parse(body.as_bytes(), name, SKILL_MD).manifest.filter(is_described);
    let Some(known) = parsed.manifest.filter(is_described).or_else(summary) else {
        return Err(refused(path, "it has no instructions", "write them to SKILL.md"));
    };
    let shown = known.description.chars().filter(|c| !is_hidden(*c)).take(MAX_DESCRIPTION);
    let description = serde_json::Value::from(shown.collect::<String>());
    let mut text = format!("---\nname: {}\n", serde_json::Value::from(name));
    text += &format!("description: {description}\nallowed-tools: \"\"\n");
    for (is_set, line) in [
        (known.user_only, "disable-model-invocation: true\n"),
        (known.agent_only, "user-invocable: false\n"),
    ] {
        text += if is_set { line } else { "" };
    }
    text += &format!("---\n{body}");
    let file = FileCopy { content: text.into_bytes(), is_executable: false };
    Ok(Tree::of_file(SKILL_MD, file))
}

/// Returns the name that a skill gets, which is also the name of its folder.
fn name(request: &MountRequest, own: Option<&str>) -> Result<String, MountError> {
    let name = request.name.as_deref().or(own);
    if let Some(name) = name.filter(|name| manifest::is_name(name)) {
        return Ok(name.to_owned());
    }
    let stem = request.skill.file_stem().unwrap_or_default().to_string_lossy();
    let wrong = name.unwrap_or(&stem);
    let why = format!("`{}` is not the name of a skill", printable(&manifest::abbreviate(wrong)));
    let suggested = manifest::suggested_name(wrong);
    Err(refused(&request.skill, why, format!("--as {}", quoted(&suggested))))
}

fn is_about(diagnostic: &Diagnostic, rules: &[rules::SkillRule]) -> bool {
    rules.iter().any(|rule| rule.name == diagnostic.rule)
}

fn refused(what: &Path, why: impl Into<String>, fix: impl Into<String>) -> MountError {
    let fix = Some(fix.into()).filter(|fix| !fix.is_empty());
    MountError::CannotMount { what: what.to_owned(), why: why.into(), fix, is_io: false }
}

/// `action` completes "cannot ...".
fn failed(what: &Path, action: &str, error: &io::Error) -> MountError {
    let why = format!("cannot {action}: {error}");
    MountError::CannotMount { what: what.to_owned(), why, fix: None, is_io: true }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests;
