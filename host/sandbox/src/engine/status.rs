//! Statuses of programs that do not start.

use skillhost_policy::outcome::{Denial, Status};

pub(crate) fn invalid(message: String) -> Status {
    Status::Invalid { message, fix: None }
}

pub(crate) fn failed(what: &str, error: impl std::fmt::Display) -> Status {
    Status::Failed { message: format!("{what}: {error:#}"), fix: None }
}

/// Explains in one sentence why a program did not start.
pub fn say(status: &Status) -> String {
    match status {
        Status::Invalid { message, .. } | Status::Failed { message, .. } => message.clone(),
        Status::LimitHit(hit) => hit.explain(),
        Status::Denied(Denial { rule, .. }) => rule.clone(),
        Status::Aborted { reason } => reason.clone(),
        Status::Exited { .. } | Status::Trapped { .. } | Status::Interrupted => {
            "it did not start".into()
        }
    }
}
