//! Usage statistics: which skills agents found, activated and ran in which session. They stay on
//! this machine, for this user.
//!
//! `tally` counts one session in memory; `writer` stores the counts in `store`, on a background
//! thread that no call waits for. `report` combines them with the audit log, which has every run.
//!
//! Only names of skills, counts and times are stored: no query, argument, path or output. A run on
//! the command line stores nothing here.

mod report;
mod store;
mod tally;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

pub use report::{Figures, SessionStats, SkillInSession, SkillStats, Stats, TierCounts, report};
pub use store::{Suggestion, Suggestions, UsageStore, WipeCounts};
pub use tally::{UsageEvent, UsageSession};

use crate::audit::AuditError;
use crate::database::DatabaseError;
use tally::Tally;
use writer::Writer;

/// How long a session is stored, in days: a quarter shows what is in use and what is not.
pub const RETENTION_DAYS: u64 = 90;
/// The most sessions to store, newest first. With ten skills each the file has 5 MiB.
pub const MAX_SESSIONS: u64 = 10_000;

/// Why there are no statistics.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The file cannot be read or written.
    #[error("cannot use the usage statistics in {}: {why}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
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

/// Records usage for a server. Cheap to clone; writes the counts at the latest when the last clone
/// and the last session are dropped.
#[derive(Clone, Default)]
pub struct UsageRecorder(Option<Arc<Writer>>);

impl UsageRecorder {
    /// Records usage in a store. Does no work until something is recorded.
    pub fn new(store: UsageStore) -> UsageRecorder {
        UsageRecorder(Some(Arc::new(Writer::new(store))))
    }

    /// Records nothing, and opens no file.
    pub fn disabled() -> UsageRecorder {
        UsageRecorder(None)
    }

    /// Starts the session of a client. `whole` returns the size of all skills' definitions, in
    /// bytes; it is called once, before the first write.
    pub fn session(&self, whole: impl Fn() -> u64 + Send + Sync + 'static) -> UsageSession {
        UsageSession::new(self.0.clone(), Tally::new(Some(Box::new(whole))))
    }

    /// Starts the counts of requests without a session. Savings and suggestions do not include
    /// them.
    pub fn standalone(&self) -> UsageSession {
        UsageSession::new(self.0.clone(), Tally::new(None))
    }

    /// Returns the skills that most sessions used; none if usage is not recorded, or cannot be
    /// read.
    pub fn suggested_skills(&self) -> Vec<String> {
        let Some(writer) = &self.0 else { return Vec::new() };
        match writer.store().suggestions() {
            Ok(Suggestions { skills, .. }) => skills.into_iter().map(|one| one.skill).collect(),
            Err(error) => {
                tracing::warn!(%error, "cannot suggest skills");
                Vec::new()
            }
        }
    }

    /// Writes the counts. Later ones are not written.
    pub fn close(&self) {
        if let Some(writer) = &self.0 {
            writer.close();
        }
    }
}
