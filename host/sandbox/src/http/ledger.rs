//! What an invocation asked of the network: each request, each refusal, the totals.

use std::sync::{Mutex, MutexGuard, PoisonError};

use http::Method;

use super::error::SendError;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Denial, HttpRequest};

/// Distinct refusals that are kept, and refused requests that are listed: a guest that keeps asking
/// must not fill the host's memory.
const MAX_REFUSED: usize = 100;

/// The books of one invocation.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Book>);

/// What the ledger holds.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) requests: Vec<HttpRequest>,
    pub(super) denials: Vec<Denial>,
    pub(super) hit: Option<Limit>,
    admitted: u64,
    /// Of the requests, which were refused.
    refused: Vec<usize>,
}

impl Ledger {
    /// Takes one of `max` requests; false where none is left.
    pub(super) fn admit(&self, max: u64) -> bool {
        let mut book = self.book();
        let left = book.admitted < max;
        book.admitted += u64::from(left);
        left
    }

    /// Opens the record of a request that is under way.
    pub(super) fn open(&self, method: &Method, url: String) -> usize {
        let mut book = self.book();
        book.requests.push(HttpRequest::new(brief(method.as_str()), url, "cancelled", "cancelled"));
        book.requests.len() - 1
    }

    /// Records a request that was refused before anything was sent.
    pub(super) fn refuse(&self, method: &Method, url: String, why: &SendError) {
        self.note(why);
        let mut book = self.book();
        if book.refused.len() < MAX_REFUSED {
            let index = book.requests.len();
            book.refused.push(index);
            book.requests.push(HttpRequest::new(
                brief(method.as_str()),
                url,
                &brief(&why.to_string()),
                why.code(),
            ));
        }
    }

    /// The requests that were let through.
    pub(super) fn admitted(&self) -> Vec<HttpRequest> {
        let book = self.book();
        let admitted = book
            .requests
            .iter()
            .enumerate()
            .filter(|(index, _)| book.refused.binary_search(index).is_err());
        admitted.map(|(_, request)| request.clone()).collect()
    }

    /// Changes an open record.
    pub(super) fn update(&self, index: usize, change: impl FnOnce(&mut HttpRequest)) {
        if let Some(record) = self.book().requests.get_mut(index) {
            change(record);
        }
    }

    /// Keeps a denial (once each) or the first limit that was hit.
    pub(super) fn note(&self, why: &SendError) {
        let mut book = self.book();
        if let SendError::Denied(denial)
        | SendError::Prohibited(denial)
        | SendError::Unrecorded(denial) = why
            && book.denials.len() < MAX_REFUSED
            && !book.denials.contains(denial)
        {
            book.denials.push(denial.clone());
        }
        book.hit = book.hit.or(why.limit());
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A text that a guest or a server had a hand in, cut to a length that is fit for the record.
pub(super) fn brief(text: &str) -> String {
    const MAX: usize = 1024;
    text.chars().take(MAX).collect()
}
