//! How skills are used: what agents found, activated and ran in which session, counted on this
//! machine and for its user alone.
//!
//! `tally` is what one session counts, in memory; `writer` takes that to `store`, the file, on a
//! thread of its own: no call waits for it. `report` makes figures of it, together with those of
//! the audit log, which has every run.
//!
//! Kept are names of skills, counts and times: no query, no argument, no path, no output. A run on
//! the command line keeps nothing here.

mod report;
mod store;
mod tally;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

pub use report::{Figures, SessionStats, SkillInSession, SkillStats, Stats, report};
pub use store::{Suggestion, Suggestions, UsageStore, WipeCounts};
pub use tally::{UsageEvent, UsageSession};

use crate::audit::AuditError;
use crate::database::DatabaseError;
use tally::Tally;
use writer::Writer;

/// Days that a session is kept: a quarter shows what is in use now, and what is forgotten.
pub const RETENTION_DAYS: u64 = 90;
/// Sessions that are kept, the newest: with ten skills each the file then has 5 MiB.
pub const MAX_SESSIONS: u64 = 10_000;

/// Why usage cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The file cannot be read or written.
    #[error("the usage {}: {why}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The audit log, which has the runs, cannot be read.
    #[error(transparent)]
    Audit(#[from] AuditError),
}

impl From<DatabaseError> for UsageError {
    fn from(DatabaseError { path, why }: DatabaseError) -> Self {
        UsageError::File { path, why }
    }
}

/// What counts for a server. Cheap to clone; what is counted is written when the last clone and its
/// last session are gone, at the latest.
#[derive(Clone, Default)]
pub struct UsageRecorder(Option<Arc<Writer>>);

impl UsageRecorder {
    /// Counts, and keeps it there. Does no work until something is counted.
    pub fn new(store: UsageStore) -> UsageRecorder {
        UsageRecorder(Some(Arc::new(Writer::new(store))))
    }

    /// Counts nothing, and opens no file.
    pub fn disabled() -> UsageRecorder {
        UsageRecorder(None)
    }

    /// A session of one client. `whole` tells how many bytes every skill's definition has; it is
    /// asked once, when there is something to write.
    pub fn session(&self, whole: impl Fn() -> u64 + Send + Sync + 'static) -> UsageSession {
        UsageSession::new(self.0.clone(), Tally::new(Some(Box::new(whole))))
    }

    /// What requests that stand alone share: it is no session, so nothing is saved or suggested by
    /// it.
    pub fn standalone(&self) -> UsageSession {
        UsageSession::new(self.0.clone(), Tally::new(None))
    }

    /// The skills that most sessions used; none where nothing is counted, or it cannot be read.
    pub fn suggested_skills(&self) -> Vec<String> {
        let Some(writer) = &self.0 else { return Vec::new() };
        match writer.store().suggestions() {
            Ok(Suggestions { skills, .. }) => skills.into_iter().map(|one| one.skill).collect(),
            Err(error) => {
                tracing::warn!(%error, "no skill is suggested");
                Vec::new()
            }
        }
    }

    /// Writes what was counted. What is counted from now on is not written.
    pub fn close(&self) {
        if let Some(writer) = &self.0 {
            writer.close();
        }
    }
}
