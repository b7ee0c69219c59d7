//! Notifies a client about a run: of its progress, if the client asked for that, and of its end, by
//! a log message.

use std::time::Duration;

use rmcp::model::{
    LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::json;

use super::result::kind;
use super::run::Caller;
use super::session::is_new;
use skillhost_policy::outcome::{Outcome, Status};

/// The interval between two notifications.
const EVERY: Duration = Duration::from_secs(1);

/// Sends progress until it is dropped.
pub(super) struct Progress<'a> {
    context: &'a RequestContext<RoleServer>,
    token: Option<ProgressToken>,
    /// The time limit of the run, in seconds.
    total: Option<f64>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(context: &'a RequestContext<RoleServer>, timeout_ms: u64) -> Progress<'a> {
        let total = Some(timeout_ms).filter(|ms| *ms > 0).map(|ms| ms as f64 / 1000.0);
        Progress { context, token: context.meta.get_progress_token(), total }
    }

    /// Sends the elapsed and the total seconds. Never returns.
    pub(super) async fn tell(&self) {
        let Some(token) = &self.token else { return std::future::pending().await };
        let mut seconds = 0.0;
        loop {
            let mut param = ProgressNotificationParam::new(token.clone(), seconds)
                .with_message(format!("{seconds} s"));
            param.total = self.total.filter(|total| *total >= seconds);
            if let Err(error) = self.context.peer.notify_progress(param).await {
                tracing::debug!(%error, "cannot notify a client of progress");
            }
            tokio::time::sleep(EVERY).await;
            seconds += EVERY.as_secs_f64();
        }
    }
}

/// Sends a log message about the end of a run.
pub(super) async fn ran(caller: Caller<'_>, skill: &str, outcome: &Outcome) {
    let level = match &outcome.status {
        Status::Exited { code: 0 } if outcome.denials.is_empty() => LoggingLevel::Info,
        Status::Exited { .. } => LoggingLevel::Warning,
        _ => LoggingLevel::Error,
    };
    if wanted(caller).is_none_or(|least| rank(level) < rank(least)) {
        return;
    }
    let data = json!({ "skill": skill, "status": kind(&outcome.status), "wall_ms": outcome.usage.wall_ms, "denials": outcome.denials.len() });
    let message = LoggingMessageNotificationParam::new(level, data).with_logger("skillhost");
    if let Err(error) = caller.context.peer.notify_logging_message(message).await {
        tracing::debug!(%error, "cannot notify a client of the end of a run");
    }
}

/// Returns the client's log level: since 2026-07-28 each request has one, before that the session.
fn wanted(caller: Caller<'_>) -> Option<LoggingLevel> {
    if is_new(caller.context) {
        caller.context.meta.log_level()
    } else {
        caller.session.state().level
    }
}

fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
