//! Refusals: why something is refused, and how to fix it.

/// The reason for a refusal, and the fix. Errors that need no further detail use it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refusal {
    /// Why it is refused.
    pub why: String,
    /// How to fix it: a line to write, or a command.
    pub fix: Option<String>,
}
