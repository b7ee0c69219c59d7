//! The state that the phases of one request share: its deadline, its record, and its first failure.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Timeouts;
use super::error::SendError;
use super::request_log::{RequestLog, truncated};
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::{HttpRequest, LimitHit};

/// One request and its response.
#[derive(Debug)]
pub(super) struct Exchange {
    log: Arc<RequestLog>,
    record: usize,
    pub(super) limits: Limits,
    pub(super) timeouts: Timeouts,
    /// When the total time ends.
    pub(super) deadline: Instant,
    /// Whether bodies are digested.
    pub(super) digests: bool,
    progress: Mutex<Progress>,
    uploaded: watch::Sender<bool>,
}

#[derive(Debug)]
enum Progress {
    Open,
    Complete,
    Failed(SendError),
}

/// Stored in a response's extensions: reports how the upload ended, which may happen after the
/// response has begun.
#[derive(Debug, Clone)]
pub struct UploadStatus(pub(super) Arc<Exchange>);

impl UploadStatus {
    /// Waits until the request body has been sent, or is no longer needed.
    ///
    /// # Errors
    /// The failure of the exchange, if it has failed.
    pub async fn finished(self) -> Result<(), SendError> {
        self.0.uploaded().await;
        self.0.failure().map_or(Ok(()), Err)
    }
}

impl Exchange {
    pub(super) fn new(
        log: Arc<RequestLog>,
        record: usize,
        limits: Limits,
        timeouts: Timeouts,
        deadline: Instant,
        digests: bool,
    ) -> Arc<Exchange> {
        let (progress, uploaded) = (Mutex::new(Progress::Open), watch::Sender::new(false));
        Arc::new(Exchange { log, record, limits, timeouts, deadline, digests, progress, uploaded })
    }

    /// Runs one phase within its limit, the guest's own timeout for it, and the rest of the total
    /// time.
    pub(super) async fn within<T>(
        &self,
        limit: Limit,
        phase: impl Future<Output = Result<T, SendError>>,
    ) -> Result<T, SendError> {
        let own = match limit {
            Limit::HttpConnect => self.timeouts.connect,
            Limit::HttpFirstByte => self.timeouts.first_byte,
            _ => None,
        };
        let mut end = (self.deadline, self.limit_error(Limit::HttpTotal));
        let limited = after(Duration::from_millis(self.limits.get(limit).unwrap_or(0)));
        if limited < end.0 {
            end = (limited, self.limit_error(limit));
        }
        if let Some(own) = own.map(after)
            && own < end.0
        {
            end = (own, SendError::GuestTimeout(limit));
        }
        tokio::time::timeout_at(end.0, phase).await.unwrap_or(Err(end.1))
    }

    /// Returns the error for a limit that was hit.
    pub(super) fn limit_error(&self, limit: Limit) -> SendError {
        SendError::Limit(LimitHit { limit, value: self.limits.get(limit).unwrap_or(0) })
    }

    /// Ends the exchange. Keeps and returns the first failure.
    pub(super) fn fail(&self, error: SendError) -> SendError {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match &*progress {
            Progress::Failed(first) => return first.clone(),
            // The guest has the whole response: it does not matter that the server keeps the
            // connection open.
            Progress::Complete => return error,
            Progress::Open => {}
        }
        self.log.note(&error);
        self.record(|r| {
            (r.error, r.failure) = (Some(truncated(&error.to_string())), Some(error.code()))
        });
        *progress = Progress::Failed(error.clone());
        error
    }

    pub(super) fn failure(&self) -> Option<SendError> {
        match &*self.progress.lock().unwrap_or_else(PoisonError::into_inner) {
            Progress::Failed(error) => Some(error.clone()),
            Progress::Open | Progress::Complete => None,
        }
    }

    /// Notes the end of the response, which ends the exchange if the upload has ended too.
    pub(super) fn complete(&self) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*progress, Progress::Open) && *self.uploaded.borrow() {
            *progress = Progress::Complete;
        }
    }

    pub(super) fn record(&self, change: impl FnOnce(&mut HttpRequest)) {
        self.log.update(self.record, change);
    }

    pub(super) fn set_uploaded(&self) {
        self.uploaded.send_replace(true);
    }

    /// Waits until the request body has been sent, or is no longer needed.
    pub(super) async fn uploaded(&self) {
        // The sender is a field of `self`, so it cannot be dropped.
        let _ = self.uploaded.subscribe().wait_for(|done| *done).await;
    }
}

/// Returns the instant after this time; a time that the clock cannot represent becomes a year.
pub(super) fn after(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait).unwrap_or_else(|| now + Duration::from_secs(365 * 86_400))
}
