//! Cleans up after runs.

use std::sync::PoisonError;

use super::Runner;

impl Runner {
    /// Checks whether the cache folder has grown since the last clean-up.
    pub(crate) fn has_grown(&self) -> bool {
        self.sandbox.has_grown()
    }

    /// Cleans up the cache folder if it has grown. Stats every file in the folder.
    pub(crate) fn tidy(&self) {
        self.sandbox.tidy();
    }

    /// Cleans up the cache folder if it has grown, and waits for background work on the audit log.
    /// Call this before the process ends.
    pub fn settle(&self) {
        self.tidy();
        if let Some(log) = &*self.log.lock().unwrap_or_else(PoisonError::into_inner) {
            log.settle();
        }
    }
}
