//! The network use of an invocation: requests, denials and totals.

use std::sync::{Mutex, MutexGuard, PoisonError};

use http::Method;

use super::error::SendError;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Denial, HttpRequest};

/// The most distinct denials, and the most refused requests, that are kept: a guest that keeps
/// trying must not fill the host's memory.
const MAX_REFUSED: usize = 100;

/// The requests and denials of one invocation.
#[derive(Debug, Default)]
pub(super) struct RequestLog(Mutex<Entries>);

/// The content of the log.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) requests: Vec<HttpRequest>,
    pub(super) denials: Vec<Denial>,
    pub(super) hit: Option<Limit>,
    admitted: u64,
    /// The indices of the refused requests.
    refused: Vec<usize>,
}

impl RequestLog {
    /// Counts a request; returns false if `max` are used up.
    pub(super) fn admit(&self, max: u64) -> bool {
        let mut entries = self.entries();
        let left = entries.admitted < max;
        entries.admitted += u64::from(left);
        left
    }

    /// Adds the record of a request that is being sent.
    pub(super) fn open(&self, method: &Method, url: String) -> usize {
        let mut entries = self.entries();
        entries.requests.push(HttpRequest::new(
            truncated(method.as_str()),
            url,
            "cancelled",
            "cancelled",
        ));
        entries.requests.len() - 1
    }

    /// Records a request that was refused before anything was sent.
    pub(super) fn refuse(&self, method: &Method, url: String, why: &SendError) {
        self.note(why);
        let mut entries = self.entries();
        if entries.refused.len() < MAX_REFUSED {
            let index = entries.requests.len();
            entries.refused.push(index);
            entries.requests.push(HttpRequest::new(
                truncated(method.as_str()),
                url,
                &truncated(&why.to_string()),
                why.code(),
            ));
        }
    }

    /// Returns the requests that were allowed.
    pub(super) fn admitted(&self) -> Vec<HttpRequest> {
        let entries = self.entries();
        let admitted = entries
            .requests
            .iter()
            .enumerate()
            .filter(|(index, _)| entries.refused.binary_search(index).is_err());
        admitted.map(|(_, request)| request.clone()).collect()
    }

    /// Updates the record of a request.
    pub(super) fn update(&self, index: usize, change: impl FnOnce(&mut HttpRequest)) {
        if let Some(record) = self.entries().requests.get_mut(index) {
            change(record);
        }
    }

    /// Records a distinct denial, or the first limit that was hit.
    pub(super) fn note(&self, why: &SendError) {
        let mut entries = self.entries();
        if let SendError::Denied(denial)
        | SendError::Prohibited(denial)
        | SendError::Unrecorded(denial) = why
            && entries.denials.len() < MAX_REFUSED
            && !entries.denials.contains(denial)
        {
            entries.denials.push(denial.clone());
        }
        entries.hit = entries.hit.or(why.limit());
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cuts a text that a guest or a server influences to a length fit for the log.
pub(super) fn truncated(text: &str) -> String {
    const MAX: usize = 1024;
    text.chars().take(MAX).collect()
}
