//! What a host does when its runs are over.

use std::sync::PoisonError;

use super::Runner;

impl Runner {
    /// Whether the cache folder has grown since it was tidied.
    pub(crate) fn has_grown(&self) -> bool {
        self.sandbox.has_grown()
    }

    /// Tidies the cache folder where it has grown, which takes as long as a look at each file in
    /// it.
    pub(crate) fn tidy(&self) {
        self.sandbox.tidy();
    }

    /// Tidies the cache folder where it has grown, and waits for what this host still does with its
    /// audit log, if it does anything: for a process that is about to end.
    pub fn settle(&self) {
        self.tidy();
        if let Some(log) = &*self.log.lock().unwrap_or_else(PoisonError::into_inner) {
            log.settle();
        }
    }
}
