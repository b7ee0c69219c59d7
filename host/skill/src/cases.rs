//! The test cases in a skill's folder `tests`: reads them, fills workspaces with their files, and
//! rewrites them.
//!
//! The cases come from the author of the skill, so everything here is bounded, and nothing follows a
//! symlink out of a case's folder. The cases are read from the skill's folder itself: an author may
//! leave `tests` out of the skill with `.skillignore`.

mod workspace;

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions};
use rustix::fs::{AtFlags, FileType};

use crate::files::{open_to_list, read_bounded};
use skillhost_policy::case::{
    self, BlessError, Case, CaseError, CaseTarget, Expected, MAX_BYTES, check_path, is_case_name,
};
use skillhost_policy::diagnostic::{Diagnostic, Severity};
use skillhost_policy::limits::show_size;

pub use workspace::CaseWorkspace;

/// The folder of a skill that contains its cases.
pub const FOLDER: &str = "tests";

/// The file that describes a case.
pub const FILE: &str = "case.yaml";

/// The file of a case that is the standard input.
const STDIN: &str = "stdin";

/// The folder of a case whose files are in the workspace.
const WORKSPACE: &str = "workspace";

/// The most cases of a skill.
pub const MAX_CASES: usize = 500;
/// The most entries of the folder `tests`.
const MAX_ENTRIES: usize = 2_000;
/// The most bytes of all files `case.yaml` together.
const MAX_TOTAL: usize = 8 << 20;
/// The most bytes of a case's standard input, and of the files in its workspace together.
pub const MAX_INPUT: u64 = 10 << 20;
/// The most files and folders in the workspace of a case.
pub const MAX_FILES: usize = 1_000;

/// A test case of a skill.
#[derive(Debug)]
pub struct SkillCase {
    /// The name: that of the folder.
    pub name: String,
    /// What the case says.
    pub case: Case,
    /// The path of `case.yaml`, for messages.
    pub path: PathBuf,
    /// The text of `case.yaml`.
    text: String,
    folder: Dir,
}

/// Why the cases of a skill cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CasesError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// Cases are invalid.
    #[error("{}", match .0.len() { 1 => "1 case is invalid".to_owned(), n => format!("{n} cases are invalid") })]
    Invalid(Vec<CaseError>),
    /// There are too many cases, or they are too large.
    #[error("{}: {limit}", .path.display())]
    Limit {
        /// The folder of the cases.
        path: PathBuf,
        /// The limit that is exceeded.
        limit: String,
    },
}

/// Reads the cases of the skill in a folder, sorted by name. A skill without cases has an empty
/// list. Folders without a file `case.yaml` are not cases.
///
/// # Errors
/// A case cannot be read or is invalid, or there are too many.
pub fn read(skill: &Path) -> Result<Vec<SkillCase>, CasesError> {
    let path = skill.join(FOLDER);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| CasesError::Io { path, error }
    };
    let Some(folder) = open(skill).map_err(failed(&path))? else { return Ok(Vec::new()) };
    let limit = |limit: String| CasesError::Limit { path: path.clone(), limit };
    let (mut cases, mut invalid, mut bytes) = (Vec::new(), Vec::new(), 0);
    let names = entries(&folder, MAX_ENTRIES).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => limit(format!("it has more than {MAX_ENTRIES} entries")),
        _ => failed(&path)(error),
    })?;
    for (name, kind) in names {
        if kind != FileType::Directory {
            continue;
        }
        let (below, file) = (path.join(&name), path.join(&name).join(FILE));
        let folder = open_below(&folder, &name).map_err(failed(&below))?;
        let text = match read_bounded(&folder, FILE, MAX_BYTES as u64) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                invalid.extend(misnamed(&folder, &below));
                continue;
            }
            Err(error) => return Err(failed(&file)(error)),
        };
        bytes += text.len();
        if cases.len() + invalid.len() == MAX_CASES {
            return Err(limit(format!("it has more than {MAX_CASES} cases")));
        }
        if bytes > MAX_TOTAL {
            let most = show_size(MAX_TOTAL as u64);
            return Err(limit(format!("its files {FILE} are larger than {most} in total")));
        }
        let (case, text) = match String::from_utf8(text) {
            Ok(text) => (parsed(&name, &text, &file, &folder), text),
            Err(error) => (
                Err(finding("case-yaml", format!("not valid UTF-8: {error}"), &file, None)),
                String::new(),
            ),
        };
        match case {
            Ok(case) => cases.push(SkillCase { name, case, path: file, text, folder }),
            Err(error) => invalid.push(error),
        }
    }
    if invalid.is_empty() { Ok(cases) } else { Err(CasesError::Invalid(invalid)) }
}

impl SkillCase {
    /// Returns the standard input: the text in the case, or the file `stdin`.
    ///
    /// # Errors
    /// The file is too large or cannot be read.
    pub fn stdin(&self) -> io::Result<Vec<u8>> {
        if let Some(text) = &self.case.stdin {
            return Ok(text.clone().into_bytes());
        }
        match read_bounded(&self.folder, STDIN, MAX_INPUT) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    /// Fills an empty folder with the files of the case.
    ///
    /// # Errors
    /// The files are too many or too large, one of them is a symlink or a device, or a file cannot
    /// be read or written.
    pub fn workspace(&self, folder: OwnedFd) -> io::Result<CaseWorkspace> {
        CaseWorkspace::new(self, Dir::from(folder))
    }

    /// Writes the files of the workspace to an empty folder: those of the folder `workspace` and
    /// those in the case.
    fn fill(&self, workspace: &Dir) -> io::Result<()> {
        let mut left = MAX_INPUT;
        match open_below(&self.folder, WORKSPACE) {
            Ok(from) => copy(&from, workspace, &mut left)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        for (path, text) in &self.case.workspace {
            if let Some((folder, _)) = path.rsplit_once('/') {
                workspace.create_dir_all(folder)?;
            }
            write_new(workspace, path, text.as_bytes())?;
        }
        Ok(())
    }

    /// Returns the text of `case.yaml` with these expectations.
    ///
    /// # Errors
    /// The layout of the case does not allow it, or it would be too large.
    pub fn blessed(&self, expect: &Expected) -> Result<String, BlessError> {
        case::bless(&self.text, expect)
    }

    /// Replaces `case.yaml` atomically: a reader sees the old or the new text.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, text: &str) -> io::Result<()> {
        let new = format!(".{FILE}.{:016x}", rand::random::<u64>());
        let written = write_new(&self.folder, &new, text.as_bytes())
            .and_then(|()| self.folder.rename(&new, &self.folder, FILE));
        if written.is_err() {
            // The error that prevented the rename is the one to report.
            self.folder.remove_file(&new).ok();
        }
        written
    }
}

/// Parses a case, and checks its name and the files beside it.
fn parsed(name: &str, text: &str, file: &Path, folder: &Dir) -> Result<Case, CaseError> {
    let case = case::parse(text, &file.display().to_string())?;
    let wrong =
        |rule, message: &str, fix: &str| Err(finding(rule, message.to_owned(), file, Some(fix)));
    if !is_case_name(name) {
        let fix = "use 1 to 64 characters of a-z, A-Z, 0-9, `-`, `_` and `.`";
        return wrong("case-name", "the name of the folder is not valid for a case", fix);
    }
    if exists(folder, STDIN) {
        if case.stdin.is_some() {
            let message = "the case has the key `stdin` and a file `stdin`";
            return wrong("case-stdin", message, "remove one of them");
        }
        if matches!(case.target, CaseTarget::Tool { .. }) {
            let message = "the case has a file `stdin`, which typed tools do not read";
            return wrong(
                "case-stdin",
                message,
                "remove it; the key `input` is the input of a tool",
            );
        }
    }
    Ok(case)
}

/// Reports a file whose name is almost that of a case: without it, the case would be skipped.
fn misnamed(folder: &Dir, below: &Path) -> Option<CaseError> {
    let names = ["case.yml", "Case.yaml", "case.json", "cases.yaml", "test.yaml"];
    let name = names.into_iter().find(|name| exists(folder, name))?;
    let message = format!("a case is called `{FILE}`, not `{name}`");
    let fix = format!("rename it: {FILE}");
    Some(finding("case-name", message, &below.join(name), Some(&fix)))
}

/// An error about a whole file.
fn finding(rule: &'static str, message: String, file: &Path, fix: Option<&str>) -> CaseError {
    let (file, fix) = (file.display().to_string(), fix.map(str::to_owned));
    let severity = Severity::Error;
    let found = Diagnostic { severity, rule, message, file, span: None, fix };
    CaseError { diagnostics: vec![found], source_text: String::new() }
}

fn exists(folder: &Dir, name: &str) -> bool {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Opens the folder of the cases, if the skill has one.
fn open(skill: &Path) -> io::Result<Option<Dir>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the operator named this folder; everything below goes through the handle"
    )]
    let root = Dir::open_ambient_dir(skill, cap_std::ambient_authority());
    match root.and_then(|root| open_below(&root, FOLDER)) {
        Ok(folder) => Ok(Some(folder)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Opens a folder in another one. Refuses a symlink.
fn open_below(folder: &Dir, name: &str) -> io::Result<Dir> {
    open_to_list(folder, name).map(|fd: OwnedFd| Dir::from(fd))
}

/// Returns the entries of a folder with their kinds, sorted by name.
fn entries(folder: &Dir, most: usize) -> io::Result<Vec<(String, FileType)>> {
    let mut found = Vec::new();
    let mut entries = rustix::fs::Dir::new(open_to_list(folder, "")?)?;
    while let Some(entry) = entries.read() {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        if found.len() == most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let Ok(name) = entry.file_name().to_str() else {
            return Err(io::Error::other("the name of a file is not valid UTF-8"));
        };
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        found.push((name.to_owned(), FileType::from_raw_mode(stat.st_mode)));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Copies the files of a folder, at most `left` bytes of them.
fn copy(from: &Dir, to: &Dir, left: &mut u64) -> io::Result<()> {
    let mut folders = vec![String::new()];
    let mut count = 0;
    while let Some(below) = folders.pop() {
        let folder = open_below(from, &below)?;
        let names = entries(&folder, MAX_FILES).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => too_many(),
            _ => error,
        })?;
        for (name, kind) in names {
            let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            let refused = |why: &str| io::Error::other(format!("{WORKSPACE}/{path}: {why}"));
            count += 1;
            if count > MAX_FILES {
                return Err(too_many());
            }
            check_path(&path).map_err(refused)?;
            match kind {
                FileType::Directory => {
                    to.create_dir(&path)?;
                    folders.push(path);
                }
                FileType::RegularFile => {
                    let bytes = read_bounded(&folder, &name, *left).map_err(|error| match error
                        .kind()
                    {
                        io::ErrorKind::FileTooLarge => io::Error::other(format!(
                            "the files of {WORKSPACE} are larger than {}",
                            show_size(MAX_INPUT)
                        )),
                        _ => error,
                    })?;
                    *left -= bytes.len() as u64;
                    write_new(to, &path, &bytes)?;
                }
                _ => return Err(refused("a case has files and folders only")),
            }
        }
    }
    Ok(())
}

fn too_many() -> io::Error {
    io::Error::other(format!("{WORKSPACE} has more than {MAX_FILES} files and folders"))
}

/// Writes a file that does not exist yet.
fn write_new(folder: &Dir, path: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = folder.open_with(path, OpenOptions::new().write(true).create_new(true))?;
    file.write_all(bytes)
}
