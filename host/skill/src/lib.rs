//! A skill on the disk: its folder, opened and listed; its digest; the programs it may start.
//!
//! This crate owns the way from a folder to a loaded [`Skill`], and private folders and files of
//! the host. It must not know the policy's rules or the engine: a [`runtime::Program`] says what
//! runs and carries no authority.
//!
//! Start reading at [`Skill::load`]. [`files`] lists and reads a folder without following links out
//! of it, [`scan`] finds skills below a folder, [`runtime`] resolves a script or a command line to
//! a component, and `runtime::copies` keeps a private copy of what was digested, so that the copy
//! is what runs. [`private`] creates folders that no other user can enter, and [`ownership`]
//! refuses files that another user may have written.

pub mod files;
pub mod ownership;
pub mod private;
mod protected;
pub mod runtime;
pub mod scan;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use serde::{Serialize, Serializer};

use files::{Content, SkillFile};
use skillhost_policy::diagnostic::{Diagnostic, Span, error_object};
use skillhost_policy::limits::show_size;
use skillhost_policy::manifest::rules::{self, Effect, Rule};
use skillhost_policy::manifest::{self, Manifest};

pub use protected::is_protected;
pub use skillhost_policy::source::{SkillFolder, SourceKind};

/// A skill that was loaded: its folder, opened, and its manifest.
#[derive(Debug)]
pub struct Skill {
    /// The folder's name: what the operator calls the skill. The manifest's name is what the skill
    /// calls itself.
    pub name: String,
    /// Who put it there. Only a skill of the catalogue is granted what a policy's section for its
    /// name grants.
    pub origin: SourceKind,
    /// The folder on the host, for messages alone.
    pub root: PathBuf,
    /// Where its files are read from: the folder itself, or a copy that holds exactly what was
    /// digested.
    pub content: Arc<Content>,
    /// What the frontmatter declares.
    pub manifest: Manifest,
    /// The text of SKILL.md, which the diagnostics point into; bytes that are not UTF-8 are
    /// replaced.
    pub source: String,
    /// The name of SKILL.md as it was found, such as `skill.md`.
    pub skill_file: String,
    /// Where the instructions start in `source`, in bytes: they are `source[body_offset..]`.
    pub body_offset: usize,
    /// The files, by path. Nothing else in the folder belongs to the skill.
    pub files: Vec<SkillFile>,
    /// What is wrong and did not stop the skill from loading.
    pub diagnostics: Vec<Diagnostic>,
    /// The folder itself, opened.
    live: Arc<Content>,
    /// The folders that were listed.
    folders: Vec<SkillFile>,
    caps: Caps,
}

/// The files of a skill, listed and not read.
#[derive(Debug)]
pub struct Listed {
    root: PathBuf,
    name: String,
    origin: SourceKind,
    live: Arc<Content>,
    skill_file: String,
    pub(crate) files: Vec<SkillFile>,
    pub(crate) folders: Vec<SkillFile>,
    diagnostics: Vec<Diagnostic>,
    caps: Caps,
}

/// How much of a folder is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// Bytes of SKILL.md.
    pub skill_md: u64,
    /// Bytes of all files together.
    pub total: u64,
    /// Files, folders and symlinks.
    pub files: usize,
}

impl Default for Caps {
    /// SKILL.md 1 MiB (the longest in use has 160 KB), the skill 10 MiB (7.5 MB) and 2,000 files.
    fn default() -> Self {
        Caps { skill_md: 1 << 20, total: 10 << 20, files: 2_000 }
    }
}

/// A skill that does not load.
#[derive(Debug, thiserror::Error)]
pub struct SkillError {
    /// The folder, as it was named.
    pub root: PathBuf,
    /// All that is wrong; at least one is an error whose rule refuses to load.
    pub diagnostics: Vec<Diagnostic>,
    /// The text of SKILL.md, which the diagnostics point into; empty where it was not read.
    pub text: String,
}

impl Serialize for SkillError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let details = serde_json::json!({ "folder": self.root.display().to_string(), "diagnostics": self.diagnostics });
        error_object("skill", self, details).serialize(serializer)
    }
}

impl fmt::Display for SkillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the skill {} does not load", self.root.display())?;
        let refuses = |d: &&Diagnostic| {
            rules::RULES.iter().any(|r| r.name == d.rule && r.effect == Effect::Refused)
        };
        match self.diagnostics.iter().find(refuses) {
            Some(d) => write!(f, ": {} ({})", d.message, d.rule),
            None => Ok(()),
        }
    }
}

impl Skill {
    /// The manifest under the name that the operator knows the skill by: its folder's. A policy's
    /// sections go by that name, so that a skill cannot take another's grants by calling itself
    /// like it.
    pub fn asks(&self) -> Manifest {
        Manifest { name: self.name.clone(), ..self.manifest.clone() }
    }

    /// A name for its folder, by which the cache knows it.
    pub fn place(&self) -> io::Result<String> {
        let stat = rustix::fs::fstat(&self.live)?;
        Ok(format!("{:x}-{:x}", stat.st_dev, stat.st_ino))
    }

    /// The name that levels and approvals of the skill are kept under: that of the catalogue, or
    /// else the real path of its folder, so that what was said of one does not hold for a folder of
    /// the same name.
    pub fn key(&self) -> String {
        match self.origin {
            SourceKind::Path => {
                self.root.canonicalize().unwrap_or_else(|_| self.root.clone()).display().to_string()
            }
            _ => self.name.clone(),
        }
    }

    /// Loads the skill of a source: as [`Skill::load`].
    ///
    /// # Errors
    /// As [`Skill::load`].
    pub fn load_from(folder: SkillFolder<'_>, caps: &Caps) -> Result<Skill, SkillError> {
        Listed::of(folder, caps)?.read()
    }

    /// Loads the skill in a folder: lists its files and reads SKILL.md, no other file. The result
    /// carries everything that is wrong.
    ///
    /// # Errors
    /// What breaks a rule whose effect is `Refused`. The error carries everything else that is
    /// wrong too.
    pub fn load(path: &Path, caps: &Caps) -> Result<Skill, SkillError> {
        Listed::of(path, caps)?.read()
    }
}

impl Listed {
    /// Lists the files of the skill in a folder.
    ///
    /// # Errors
    /// The folder cannot be opened, holds no SKILL.md, or breaks a rule of listing whose effect is
    /// `Refused`.
    pub fn of<'a>(skill: impl Into<SkillFolder<'a>>, caps: &Caps) -> Result<Listed, SkillError> {
        let SkillFolder { path, source: origin } = skill.into();
        let mut problems = Problems { root: path, diagnostics: Vec::new() };
        let dir = open_folder(path)
            .map_err(|(message, fix)| problems.refuse(&rules::SKILL_FOLDER, None, message, &fix))?;
        let name = folder_name(path);

        let listing = files::list(&dir, path, caps);
        problems.diagnostics.extend(listing.diagnostics);
        let (files, folders) = (listing.files, listing.folders);
        if listing.effect == Effect::Refused {
            return Err(problems.into_error(String::new()));
        }
        let Some(skill_file) = problems.find_skill_md(&files) else {
            let fix =
                format!("write a file SKILL.md that starts with\n{}", manifest::template(&name));
            return Err(problems.refuse(
                &rules::SKILL_MD_MISSING,
                None,
                "the folder holds no SKILL.md".into(),
                &fix,
            ));
        };
        let live = Arc::new(Content::from(dir));
        Ok(Listed {
            root: path.to_owned(),
            name,
            origin,
            live,
            skill_file,
            files,
            folders,
            diagnostics: problems.diagnostics,
            caps: caps.clone(),
        })
    }

    /// Reads the skill's manifest from the folder itself.
    ///
    /// # Errors
    /// As [`Skill::load`].
    pub fn read(self) -> Result<Skill, SkillError> {
        let live = self.live.clone();
        self.read_from(live)
    }

    /// Reads the skill's manifest from a copy of its files, which the skill is read from ever
    /// after.
    ///
    /// # Errors
    /// As [`Skill::load`].
    pub fn read_from(self, content: Arc<Content>) -> Result<Skill, SkillError> {
        let Listed { root, name, origin, live, skill_file, files, folders, diagnostics, caps } =
            self;
        let mut problems = Problems { root: &root, diagnostics };
        let bytes =
            files::read_bounded(content.dir(), &skill_file, caps.skill_md).map_err(|error| {
                match error.kind() {
                    io::ErrorKind::FileTooLarge => {
                        let message =
                            format!("{skill_file} has more than {}", show_size(caps.skill_md));
                        problems.refuse(
                            &rules::SKILL_MD_SIZE,
                            Some(&skill_file),
                            message,
                            "move text into files under references/",
                        )
                    }
                    _ => problems.refuse(
                        &rules::UNREADABLE,
                        Some(&skill_file),
                        format!("the file cannot be read: {error}"),
                        "",
                    ),
                }
            })?;

        let shown = root.join(&skill_file).display().to_string();
        let parsed = manifest::parse(&bytes, &name, &shown);
        problems.diagnostics.extend(parsed.diagnostics);
        let source = parsed.source;
        let Some(manifest) = parsed.manifest else { return Err(problems.into_error(source)) };
        problems.check_component(&manifest, parsed.component_at, &shown, &files);
        let (diagnostics, body_offset) = (problems.diagnostics, parsed.body_offset);
        Ok(Skill {
            name,
            origin,
            root,
            content,
            manifest,
            source,
            skill_file,
            body_offset,
            files,
            diagnostics,
            live,
            folders,
            caps,
        })
    }

    /// The folder itself, opened.
    pub(crate) fn live(&self) -> &Dir {
        self.live.dir()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the operator named this folder; everything below goes through the handle"
)]
fn open_folder(path: &Path) -> Result<Dir, (String, String)> {
    Dir::open_ambient_dir(path, cap_std::ambient_authority()).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ("there is no such folder".into(), String::new()),
        io::ErrorKind::NotADirectory => {
            let parent = path.parent().map_or(Path::new("."), |p| {
                if p.as_os_str().is_empty() { Path::new(".") } else { p }
            });
            (
                "this is a file; a skill is the folder that holds SKILL.md".into(),
                format!("name the folder: {}", parent.display()),
            )
        }
        _ => (format!("the folder cannot be opened: {error}"), String::new()),
    })
}

/// The folder's name as it was named; for `.` and the like, its name on the disk.
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
    /// The name of the file that is SKILL.md.
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
                    format!("the file is named `{other}`, not `SKILL.md`"),
                    format!("mv {other} SKILL.md"),
                ),
                false => (
                    format!("`{other}` stands beside `{chosen}`, and is not read"),
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
            let message = format!("the skill holds no file `{component}`");
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

    fn report(&mut self, rule: &Rule, file: Option<&str>, message: String, fix: &str) {
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
        rule: &Rule,
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
