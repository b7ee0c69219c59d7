//! What the phases of one request share: its deadline, its record, and the first thing that went
//! wrong.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Waits;
use super::error::SendError;
use super::ledger::{Ledger, brief};
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::{HttpRequest, LimitHit};

/// One request and its response.
#[derive(Debug)]
pub(super) struct Exchange {
    ledger: Arc<Ledger>,
    record: usize,
    pub(super) limits: Limits,
    pub(super) waits: Waits,
    /// When the total time is over.
    pub(super) deadline: Instant,
    /// Whether bodies are told by digest.
    pub(super) digests: bool,
    state: Mutex<State>,
    uploaded: watch::Sender<bool>,
}

#[derive(Debug)]
enum State {
    Open,
    Complete,
    Failed(SendError),
}

/// Kept in a response's extensions: tells how the request's own body fared, which may go on after
/// the response has begun.
#[derive(Debug, Clone)]
pub struct Sent(pub(super) Arc<Exchange>);

impl Sent {
    /// Waits until the request's body has been handed over, or is no longer wanted.
    ///
    /// # Errors
    /// What ended the exchange, if something has.
    pub async fn done(self) -> Result<(), SendError> {
        self.0.uploaded().await;
        self.0.failure().map_or(Ok(()), Err)
    }
}

impl Exchange {
    pub(super) fn new(
        ledger: Arc<Ledger>,
        record: usize,
        limits: Limits,
        waits: Waits,
        deadline: Instant,
        digests: bool,
    ) -> Arc<Exchange> {
        let (state, uploaded) = (Mutex::new(State::Open), watch::Sender::new(false));
        Arc::new(Exchange { ledger, record, limits, waits, deadline, digests, state, uploaded })
    }

    /// Runs one phase within its limit, the guest's own time for it, and what is left of the whole.
    pub(super) async fn within<T>(
        &self,
        limit: Limit,
        phase: impl Future<Output = Result<T, SendError>>,
    ) -> Result<T, SendError> {
        let own = match limit {
            Limit::HttpConnect => self.waits.connect,
            Limit::HttpFirstByte => self.waits.first_byte,
            _ => None,
        };
        let mut end = (self.deadline, self.over(Limit::HttpTotal));
        let limited = after(Duration::from_millis(self.limits.get(limit).unwrap_or(0)));
        if limited < end.0 {
            end = (limited, self.over(limit));
        }
        if let Some(own) = own.map(after)
            && own < end.0
        {
            end = (own, SendError::OwnTimeout(limit));
        }
        tokio::time::timeout_at(end.0, phase).await.unwrap_or(Err(end.1))
    }

    /// The error of a limit that was hit.
    pub(super) fn over(&self, limit: Limit) -> SendError {
        SendError::Limit(LimitHit { limit, value: self.limits.get(limit).unwrap_or(0) })
    }

    /// Ends the exchange. The first failure is the one that counts, and is returned.
    pub(super) fn fail(&self, error: SendError) -> SendError {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Failed(first) => return first.clone(),
            // The guest has all of it: that the server leaves the connection open is no failure of
            // the request.
            State::Complete => return error,
            State::Open => {}
        }
        self.ledger.note(&error);
        self.record(|r| {
            (r.error, r.failure) = (Some(brief(&error.to_string())), Some(error.code()))
        });
        *state = State::Failed(error.clone());
        error
    }

    pub(super) fn failure(&self) -> Option<SendError> {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Failed(error) => Some(error.clone()),
            State::Open | State::Complete => None,
        }
    }

    /// The response has ended; so has the exchange, where nothing is left to send.
    pub(super) fn complete(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Open) && *self.uploaded.borrow() {
            *state = State::Complete;
        }
    }

    pub(super) fn record(&self, change: impl FnOnce(&mut HttpRequest)) {
        self.ledger.update(self.record, change);
    }

    pub(super) fn set_uploaded(&self) {
        self.uploaded.send_replace(true);
    }

    /// Waits until the request's body has been handed over, or is no longer wanted.
    pub(super) async fn uploaded(&self) {
        // The sender is a field of `self`, so that it cannot be gone.
        let _ = self.uploaded.subscribe().wait_for(|done| *done).await;
    }
}

/// That long from now; a time that no clock can hold is a year.
pub(super) fn after(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait).unwrap_or_else(|| now + Duration::from_secs(365 * 86_400))
}
