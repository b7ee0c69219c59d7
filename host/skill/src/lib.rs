//! Skills on disk: opening and listing a skill's folder, its digest, and the programs that it can
//! start.
//!
//! This crate owns the steps from a folder to a loaded [`Skill`], and the host's private folders
//! and files. It must not know the policy's rules or the engine: a [`runtime::Program`] says what
//! runs and carries no authority.
//!
//! Start reading at [`Skill::load`]. [`files`] lists and reads a folder without following links out
//! of it. [`scan`] finds skills below a folder, and [`single_file`] says which files are skills
//! themselves. [`runtime`] resolves a script or a command line to a component. [`runtime::copies`]
//! keeps a private copy of the digested files, and the copy is what runs. [`cases`] reads the test
//! cases of a skill, [`mount`] copies skills into the folder of an agent, and [`embedded`] has those that
//! are part of a program. [`private`] creates
//! folders that no other user can enter, and [`ownership`] refuses files that another user may have
//! written.

pub mod cases;
pub mod embedded;
pub mod extent;
pub mod files;
pub mod mount;
pub mod ownership;
pub mod private;
pub mod runtime;
pub mod scan;
pub mod single_file;
mod skill_ownership;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use serde::{Serialize, Serializer};

use files::{Content, FileIdentity, SkillFile};
use skillhost_policy::Policy;
use skillhost_policy::diagnostic::{Diagnostic, Severity, Span, error_object, quoted};
use skillhost_policy::limits::{SKILL_SIZE, SKILL_SIZE_MAX, show_size};
use skillhost_policy::manifest::rules::{self, LoadEffect, SkillRule};
use skillhost_policy::manifest::{self, Manifest};

pub use skill_ownership::is_protected;
pub use skillhost_policy::source::{LockedOrigin, SkillFolder, SourceKind};

/// A loaded skill: its opened folder and its manifest.
#[derive(Debug)]
pub struct Skill {
    /// The name of the folder, by which the operator knows the skill. The skill itself chooses the
    /// name in the manifest.
    pub name: String,
    /// The source of the skill. Sections of a policy grant something only to skills of the
    /// catalogue.
    pub origin: SourceKind,
    /// What the lock file says about the skill, if it was fetched.
    pub locked: Option<LockedOrigin>,
    /// The folder on the host, or the only file of the skill. Only for messages.
    pub root: PathBuf,
    /// Where the files are read from: the folder itself, or a copy with exactly the digested
    /// content.
    pub content: Arc<Content>,
    /// The parsed frontmatter.
    pub manifest: Manifest,
    /// The text of SKILL.md, which the diagnostics point into. Invalid UTF-8 is replaced.
    pub source: String,
    /// The actual name of SKILL.md, such as `skill.md`.
    pub skill_file: String,
    /// The byte offset of the instructions: they are `source[body_offset..]`.
    pub body_offset: usize,
    /// The files, sorted by path. Nothing else in the folder belongs to the skill.
    pub files: Vec<SkillFile>,
    /// The files and folders that `.skillignore` leaves out, sorted; not what the folders contain.
    pub left_out: Vec<String>,
    /// The problems that did not prevent loading.
    pub diagnostics: Vec<Diagnostic>,
    /// The owner, if compiled code and copies are not shared with others who have the same content. Otherwise, the
    /// time of a run would tell whether the same content of another owner has run on this host.
    pub owner: Option<Arc<str>>,
    /// The folder itself, opened.
    live: Arc<Content>,
    /// The folders of the skill.
    folders: Vec<SkillFile>,
    caps: SizeLimits,
}

/// The list of a skill's files, before any is read.
#[derive(Debug)]
pub struct SkillListing {
    root: PathBuf,
    name: String,
    origin: SourceKind,
    locked: Option<LockedOrigin>,
    live: Arc<Content>,
    skill_file: String,
    pub(crate) files: Vec<SkillFile>,
    pub(crate) folders: Vec<SkillFile>,
    left_out: Vec<String>,
    diagnostics: Vec<Diagnostic>,
    caps: SizeLimits,
}

/// The most that is read of a skill's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeLimits {
    /// Bytes of SKILL.md.
    pub skill_md: u64,
    /// Bytes of all files together.
    pub total: u64,
    /// Files, folders and symlinks.
    pub files: usize,
}

impl Default for SizeLimits {
    /// 1 MiB for SKILL.md (the longest in use has 160 KB), and 10 MiB (7.5 MB) and 2,000 files for
    /// the skill.
    fn default() -> Self {
        SizeLimits { skill_md: 1 << 20, total: SKILL_SIZE, files: FILES }
    }
}

/// The most files and folders for each 10 MiB that a skill may have.
const FILES: usize = 2_000;

impl SizeLimits {
    /// Returns the limits under a policy, which may raise the size of all files; the number of files
    /// rises with it.
    pub fn of(policy: &Policy) -> SizeLimits {
        let own = SizeLimits::default();
        let times = usize::try_from(policy.skill_size.div_ceil(SKILL_SIZE)).unwrap_or(1).max(1);
        SizeLimits { total: policy.skill_size, files: FILES * times, ..own }
    }

    /// Returns the highest limits that a policy can set: for skills that were loaded before, such as
    /// those in recordings.
    pub fn highest() -> SizeLimits {
        SizeLimits::of(&Policy { skill_size: SKILL_SIZE_MAX, ..Policy::builtin() })
    }
}

/// A skill that failed to load.
#[derive(Debug, thiserror::Error)]
pub struct SkillError {
    /// The folder, as the operator named it.
    pub root: PathBuf,
    /// Every problem. At least one violates a rule that prevents loading.
    pub diagnostics: Vec<Diagnostic>,
    /// The text of SKILL.md, which the diagnostics point into; empty if it was not read.
    pub text: String,
}

impl SkillError {
    /// Replaces the advice for a skill that is too large, for callers whose limits no policy raises.
    /// `which` names the skills that have these limits, such as `uploaded skills`.
    #[must_use]
    pub fn with_fixed_size(mut self, which: &str) -> SkillError {
        let too_large = [rules::SKILL_FILES.name, rules::SKILL_SIZE.name];
        for problem in self.diagnostics.iter_mut().filter(|p| too_large.contains(&p.rule)) {
            problem.fix = Some(format!(
                "keep build output, caches and data out of the skill's folder, or name them in `.skillignore`; {which} have at most 10 MiB and 2,000 files"
            ));
        }
        self
    }
}

impl Serialize for SkillError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let details = serde_json::json!({ "folder": self.root.display().to_string(), "diagnostics": self.diagnostics });
        error_object("skill", self, details).serialize(serializer)
    }
}

impl fmt::Display for SkillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot load skill {}", self.root.display())?;
        let refuses = |d: &&Diagnostic| {
            rules::RULES.iter().any(|r| r.name == d.rule && r.effect == LoadEffect::Refused)
        };
        match self.diagnostics.iter().find(refuses) {
            Some(d) => write!(f, ": {} ({})", d.message, d.rule),
            None => Ok(()),
        }
    }
}

impl Skill {
    /// Returns the manifest for a policy: its name is that of the folder. Sections of a policy apply
    /// by that name, so a skill cannot get another skill's grants by using its name.
    pub fn policy_manifest(&self) -> Manifest {
        Manifest { name: self.name.clone(), ..self.manifest.clone() }
    }

    /// Returns the cache's name for the skill's folder: its device and inode.
    pub fn folder_id(&self) -> io::Result<String> {
        let stat = rustix::fs::fstat(&self.live)?;
        Ok(format!("{:x}-{:x}", stat.st_dev, stat.st_ino))
    }

    /// Returns the key of the operator's values of the skill's settings. A skill of a project, or of
    /// a folder that a flag names, has its folder's, and a fetched one its source's: it must not get
    /// the values of another skill of its name.
    pub fn settings_key(&self) -> String {
        match self.origin {
            SourceKind::Project | SourceKind::Flag | SourceKind::Path => {
                self.root.canonicalize().unwrap_or_else(|_| self.root.clone()).display().to_string()
            }
            SourceKind::Fetched => match &self.locked {
                Some(locked) => format!("{} from {}", self.name, locked.source),
                None => self.name.clone(),
            },
            SourceKind::User | SourceKind::Policy | SourceKind::BuiltIn => self.name.clone(),
        }
    }

    /// Returns the key of the skill's permission levels and approvals. It is the name of a skill in
    /// the catalogue, and otherwise the canonical path of the folder, because another folder may
    /// have the same name.
    pub fn approval_key(&self) -> String {
        match self.origin {
            SourceKind::Path => {
                self.root.canonicalize().unwrap_or_else(|_| self.root.clone()).display().to_string()
            }
            _ => self.name.clone(),
        }
    }

    /// Loads a skill from a folder with a known source; see [`Skill::load`].
    ///
    /// # Errors
    /// As [`Skill::load`].
    pub fn load_from(folder: SkillFolder<'_>, caps: &SizeLimits) -> Result<Skill, SkillError> {
        SkillListing::of(folder, caps)?.read()
    }

    /// Loads the skill in a folder: lists its files and reads SKILL.md, but no other file. The
    /// result has a diagnostic for every problem.
    ///
    /// # Errors
    /// The skill violates a rule whose effect is `Refused`. The error has a diagnostic for every
    /// problem.
    pub fn load(path: &Path, caps: &SizeLimits) -> Result<Skill, SkillError> {
        SkillListing::of(path, caps)?.read()
    }

    /// Checks that the digest of the content is the one that the lock file names, if it names one.
    ///
    /// # Errors
    /// It is another.
    pub fn check_lock(&self, digest: &str) -> Result<(), SkillError> {
        check_lock(&self.root, self.locked.as_ref(), digest)
    }
}

impl SkillListing {
    /// Lists the files of the skill in a folder.
    ///
    /// # Errors
    /// The folder cannot be opened, contains no SKILL.md, or violates a rule whose effect is
    /// `Refused`.
    pub fn of<'a>(
        skill: impl Into<SkillFolder<'a>>,
        caps: &SizeLimits,
    ) -> Result<SkillListing, SkillError> {
        let SkillFolder { path, source: origin, locked } = skill.into();
        if origin != SourceKind::Path && single_file::is_at(path) {
            return SkillListing::of_file(path, origin, caps);
        }
        let mut problems = Problems { root: path, diagnostics: Vec::new() };
        let dir = open_folder(path)
            .map_err(|(message, fix)| problems.refuse(&rules::SKILL_FOLDER, None, message, &fix))?;
        let name = folder_name(path);

        let listing = files::list(&dir, path, caps);
        problems.diagnostics.extend(listing.diagnostics);
        let (files, folders, left_out) = (listing.files, listing.folders, listing.left_out);
        if listing.effect == LoadEffect::Refused {
            return Err(problems.into_error(String::new()));
        }
        let Some(skill_file) = problems.find_skill_md(&files) else {
            let fix =
                format!("add a file SKILL.md that starts with\n{}", manifest::template(&name));
            return Err(problems.refuse(
                &rules::SKILL_MD_MISSING,
                None,
                "the folder contains no SKILL.md".into(),
                &fix,
            ));
        };
        let live = Arc::new(Content::from(dir));
        Ok(SkillListing {
            root: path.to_owned(),
            name,
            origin,
            locked: locked.cloned(),
            live,
            skill_file,
            files,
            folders,
            left_out,
            diagnostics: problems.diagnostics,
            caps: caps.clone(),
        })
    }

    /// Lists the only file of a skill. The other files of its folder do not belong to it.
    fn of_file(
        path: &Path,
        origin: SourceKind,
        caps: &SizeLimits,
    ) -> Result<SkillListing, SkillError> {
        let mut problems = Problems { root: path, diagnostics: Vec::new() };
        let (folder, file) = (path.parent().unwrap_or(path), folder_name(path));
        let dir = open_folder(folder)
            .map_err(|(message, fix)| problems.refuse(&rules::SKILL_FOLDER, None, message, &fix))?;
        let found = dir.symlink_metadata(&file).ok().filter(|found| found.is_file());
        let Some((found, name)) = found.zip(single_file::name_of(&file)) else {
            let message = "this is not a regular file".into();
            return Err(problems.refuse(&rules::UNREADABLE, None, message, ""));
        };
        let identity = FileIdentity::of(&found);
        Ok(SkillListing {
            root: path.to_owned(),
            name: name.to_owned(),
            origin,
            locked: None,
            live: Arc::new(Content::from(dir)),
            skill_file: file.clone(),
            files: vec![SkillFile { path: file, size: found.len(), link: None, identity }],
            folders: Vec::new(),
            left_out: Vec::new(),
            diagnostics: problems.diagnostics,
            caps: caps.clone(),
        })
    }

    /// Reads the manifest from the folder itself.
    ///
    /// # Errors
    /// As [`Skill::load`].
    pub fn read(self) -> Result<Skill, SkillError> {
        let live = self.live.clone();
        self.read_from(live)
    }

    /// Reads the manifest from a copy of the files. The loaded skill reads all files from this copy.
    ///
    /// # Errors
    /// As [`Skill::load`].
    pub fn read_from(self, content: Arc<Content>) -> Result<Skill, SkillError> {
        let bytes = files::read_bounded(content.dir(), &self.skill_file, self.caps.skill_md);
        self.parse(bytes, content)
    }

    /// Parses SKILL.md, or reports why it could not be read. The loaded skill reads all files from
    /// `content`.
    pub(crate) fn parse(
        self,
        skill_md: io::Result<Vec<u8>>,
        content: Arc<Content>,
    ) -> Result<Skill, SkillError> {
        let SkillListing {
            root,
            name,
            origin,
            locked,
            live,
            skill_file,
            files,
            folders,
            left_out,
            diagnostics,
            caps,
        } = self;
        let mut problems = Problems { root: &root, diagnostics };
        let bytes = skill_md.map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                let message = format!("{skill_file} is larger than {}", show_size(caps.skill_md));
                let fix = "move text to files under references/";
                problems.refuse(&rules::SKILL_MD_SIZE, Some(&skill_file), message, fix)
            }
            _ => {
                let message = format!("cannot read the file: {error}");
                problems.refuse(&rules::UNREADABLE, Some(&skill_file), message, "")
            }
        })?;

        let is_file = single_file::name_of(&skill_file).is_some();
        let shown = if is_file { root.clone() } else { root.join(&skill_file) };
        let shown = shown.display().to_string();
        let parsed = manifest::parse(&bytes, &name, &shown);
        problems.diagnostics.extend(parsed.diagnostics);
        let source = parsed.source;
        let Some(mut manifest) = parsed.manifest else { return Err(problems.into_error(source)) };
        if is_file {
            manifest = manifest.instructions_only();
        }
        problems.check_component(&manifest, parsed.component_span, &shown, &files);
        let (diagnostics, body_offset) = (problems.diagnostics, parsed.body_offset);
        Ok(Skill {
            name,
            origin,
            locked,
            root,
            content,
            manifest,
            source,
            skill_file,
            body_offset,
            owner: None,
            files,
            left_out,
            diagnostics,
            live,
            folders,
            caps,
        })
    }

    /// Checks that the digest of the content is the one that the lock file names, if it names one.
    ///
    /// # Errors
    /// It is another.
    pub fn check_lock(&self, digest: &str) -> Result<(), SkillError> {
        check_lock(&self.root, self.locked.as_ref(), digest)
    }

    /// Returns the folder on the host, or the only file of the skill.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder itself, opened.
    pub(crate) fn live(&self) -> &Dir {
        self.live.dir()
    }
}

/// Checks that the digest of a skill's content is the one that the lock file names, if it names one.
fn check_lock(root: &Path, locked: Option<&LockedOrigin>, digest: &str) -> Result<(), SkillError> {
    let Some(locked) = locked.filter(|locked| locked.digest != digest) else { return Ok(()) };
    let message = format!(
        "the files are not those that were fetched: their digest is {digest}, and the lock file names {}",
        locked.digest
    );
    Err(SkillError {
        root: root.to_owned(),
        diagnostics: vec![Diagnostic {
            severity: Severity::Error,
            rule: "locked-digest",
            message,
            file: root.display().to_string(),
            span: None,
            fix: Some("fetch them again: skillhost sync".to_owned()),
        }],
        text: String::new(),
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the operator named this folder; everything below goes through the handle"
)]
fn open_folder(path: &Path) -> Result<Dir, (String, String)> {
    Dir::open_ambient_dir(path, cap_std::ambient_authority()).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ("no such folder".into(), String::new()),
        io::ErrorKind::NotADirectory => {
            let is_skill = |folder: &&Path| folder.join("SKILL.md").is_file();
            let skill = path.ancestors().skip(1).find(is_skill);
            let folder = match skill.or(path.parent()) {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            let script = skill
                .and_then(|folder| path.strip_prefix(folder).ok())
                .filter(|file| *file != Path::new("SKILL.md"))
                .map(|file| format!(", and then the script: {}", quoted(&file.to_string_lossy())));
            (
                "this is a file; a skill is the folder that contains SKILL.md".into(),
                format!(
                    "name the folder: {}{}",
                    quoted(&folder.to_string_lossy()),
                    script.unwrap_or_default()
                ),
            )
        }
        _ => (format!("cannot open the folder: {error}"), String::new()),
    })
}

/// Returns the last name of the path, or for `.` and the like, the folder's name on disk.
fn folder_name(path: &Path) -> String {
    let canonical = || path.canonicalize().ok().and_then(|p| p.file_name().map(ToOwned::to_owned));
    path.file_name()
        .map(ToOwned::to_owned)
        .or_else(canonical)
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

struct Problems<'a> {
    root: &'a Path,
    diagnostics: Vec<Diagnostic>,
}

impl Problems<'_> {
    /// Finds SKILL.md, in any spelling of its name.
    fn find_skill_md(&mut self, files: &[SkillFile]) -> Option<String> {
        let candidates: Vec<&str> = files
            .iter()
            .map(|f| f.path.as_str())
            .filter(|p| p.eq_ignore_ascii_case("SKILL.md"))
            .collect();
        let chosen = *candidates.iter().find(|p| **p == "SKILL.md").or(candidates.first())?;
        for other in candidates.iter().filter(|p| **p != "SKILL.md") {
            let (message, fix) = match *other == chosen {
                true => (
                    format!("the file is named `{other}` instead of `SKILL.md`"),
                    format!("mv {other} SKILL.md"),
                ),
                false => (
                    format!("`{other}` is ignored, because `{chosen}` exists too"),
                    format!("rm {other}"),
                ),
            };
            self.report(&rules::SKILL_MD_CASE, Some(other), message, &fix);
        }
        Some(chosen.to_owned())
    }

    fn check_component(
        &mut self,
        manifest: &Manifest,
        span: Option<Span>,
        shown: &str,
        files: &[SkillFile],
    ) {
        let Some(component) = &manifest.component else { return };
        if files.binary_search_by(|f| f.path.cmp(component)).is_err() {
            let rule = &rules::COMPONENT_MISSING;
            let message = format!("the file `{component}` does not exist in the skill");
            let fix = Some("build it: skillhost build SKILL".to_owned());
            self.diagnostics.push(Diagnostic {
                severity: rule.severity,
                rule: rule.name,
                message,
                file: shown.to_owned(),
                span,
                fix,
            });
        }
    }

    fn report(&mut self, rule: &SkillRule, file: Option<&str>, message: String, fix: &str) {
        let file = file.map_or(self.root.to_owned(), |f| self.root.join(f)).display().to_string();
        let fix = Some(fix.to_owned()).filter(|f| !f.is_empty());
        self.diagnostics.push(Diagnostic {
            severity: rule.severity,
            rule: rule.name,
            message,
            file,
            span: None,
            fix,
        });
    }

    fn refuse(
        &mut self,
        rule: &SkillRule,
        file: Option<&str>,
        message: String,
        fix: &str,
    ) -> SkillError {
        self.report(rule, file, message, fix);
        let diagnostics = std::mem::take(&mut self.diagnostics);
        SkillError { root: self.root.to_owned(), diagnostics, text: String::new() }
    }

    fn into_error(self, text: String) -> SkillError {
        SkillError { root: self.root.to_owned(), diagnostics: self.diagnostics, text }
    }
}
