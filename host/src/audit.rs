//! One record per invocation, whatever the outcome: a JSON line appended to a file.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::outcome::{Denial, LimitHit, Outcome, Process, RequestMade, Status, Usage};
use crate::policy::capabilities::Capabilities;
use crate::runtime::ScriptId;

/// The version of the record's form.
pub const VERSION: u32 = 1;

/// What is kept of one invocation. No environment values, no arguments, no output: digests and sizes.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Record<'a> {
    /// The form of this record: 1.
    pub version: u32,
    /// When the invocation was asked for, RFC 3339 in UTC.
    pub time: String,
    /// The skill.
    pub skill: &'a SkillId,
    /// What ran; `None` where nothing got so far.
    pub program: Option<ProgramId>,
    /// What it was allowed, limits included.
    pub capabilities: &'a Capabilities,
    /// How it ended.
    pub status: &'a Status,
    /// What it cost.
    pub usage: &'a Usage,
    /// Files touched, by guest path: how many.
    pub files_touched: u64,
    /// Outbound HTTP requests.
    pub requests: &'a [RequestMade],
    /// Each program that was started, in order, at most 1,000.
    pub processes: &'a [Process],
    /// Programs that were started beyond those.
    pub processes_omitted: u64,
    /// What was refused.
    pub denials: &'a [Denial],
    /// Limits that were run into.
    pub limits_hit: &'a [LimitHit],
}

/// Which skill.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub struct SkillId {
    /// Its name, or its folder's where it has none.
    pub name: String,
    /// Over all its files; `None` where it could not be read.
    pub digest: Option<String>,
}

/// Which program of it, with which arguments.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ProgramId {
    /// The name it was started by.
    pub name: String,
    /// The version of a built-in program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The skill's script that it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<ScriptId>,
    /// The typed tool that was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The component's digest.
    pub component: String,
    /// Over the arguments, each closed by a NUL (for a tool: over its input).
    pub arguments: String,
}

/// An audit log that is open: whoever holds one can write its record.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
}

/// The record could not be written, so the invocation has failed.
#[derive(Debug, thiserror::Error)]
#[error("the audit log {} cannot be written: {source}", path.display())]
pub struct AuditError {
    path: PathBuf,
    source: io::Error,
}

impl Log {
    /// Opens a log for appending, before anything runs. Its folder is made where it is missing, for this user alone.
    ///
    /// # Errors
    /// The folder or the file cannot be made or opened.
    pub fn open(path: &Path) -> Result<Log, AuditError> {
        Log::open_file(path).map(|file| Log { path: path.to_owned(), file }).map_err(|source| AuditError { path: path.to_owned(), source })
    }

    fn open_file(path: &Path) -> io::Result<File> {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        #[expect(clippy::disallowed_methods, reason = "the audit log is the host's own file, named by the operator")]
        let file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(file)
    }

    /// Whether the file is still the one of that name: not one that was moved away or removed meanwhile.
    pub fn is_in_place(&self) -> bool {
        let same = |a: &rustix::fs::Stat, b: &rustix::fs::Stat| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
        let (open, named) = (rustix::fs::fstat(&self.file), rustix::fs::stat(&self.path));
        matches!((open, named), (Ok(open), Ok(named)) if same(&open, &named))
    }

    /// Appends a record: one line in one write, so that hosts that share a log do not mix theirs.
    ///
    /// # Errors
    /// It could not be written whole.
    pub fn append(&self, record: &Record<'_>) -> Result<(), AuditError> {
        let mut line = match serde_json::to_vec(record) {
            Ok(line) => line,
            Err(error) => return Err(AuditError { path: self.path.clone(), source: error.into() }),
        };
        line.push(b'\n');
        (&self.file).write_all(&line).map_err(|source| AuditError { path: self.path.clone(), source })
    }
}

impl<'a> Record<'a> {
    /// What is kept of an outcome.
    pub fn of(
        time: String,
        skill: &'a SkillId,
        program: Option<ProgramId>,
        capabilities: &'a Capabilities,
        outcome: &'a Outcome,
    ) -> Record<'a> {
        Record {
            version: VERSION,
            time,
            skill,
            program,
            capabilities,
            status: &outcome.status,
            usage: &outcome.usage,
            files_touched: outcome.files.len() as u64,
            requests: &outcome.requests,
            processes: &outcome.processes,
            processes_omitted: outcome.processes_omitted,
            denials: &outcome.denials,
            limits_hit: &outcome.limits_hit,
        }
    }
}
