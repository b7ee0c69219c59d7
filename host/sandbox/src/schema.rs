//! Validates JSON against schemas that guests wrote, within bounds and in counted steps that can be
//! stopped.
//!
//! A schema is a small program by an untrusted author. The host therefore evaluates it itself,
//! rather than use a library that can neither be interrupted nor limited: every step is charged to
//! a [`Budget`], recursion has a maximum depth, references stay within the document, and regular
//! expressions run in linear time. The dialect is 2020-12, with the older spellings of earlier
//! drafts (`items` as a list, `additionalItems`, `dependencies`). As in 2020-12, `format` and
//! `content*` are annotations. Unsupported keywords are refused rather than ignored: `$dynamicRef`,
//! `$recursiveRef`, references to anchors or other documents.

mod accept;
mod evaluate;
mod pattern;
mod value;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::Value;

pub(crate) use accept::{Schema, TEXT_MAX};

/// Why an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EvaluationError {
    /// The schema is not supported.
    #[error("{0}")]
    Refused(String),
    /// The evaluation used up its steps.
    #[error("the evaluation takes more than {STEPS_MAX} steps")]
    OutOfSteps,
    /// Schema and instance together nest too deeply.
    #[error("the evaluation nests deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// The caller no longer needs the result.
    #[error("the evaluation was interrupted")]
    Cancelled,
}

impl EvaluationError {
    /// Checks whether a larger budget could lead to a result.
    pub(crate) fn exceeds_budget(&self) -> bool {
        matches!(self, EvaluationError::OutOfSteps | EvaluationError::TooDeep)
    }
}

/// The steps of one evaluation, including the compilation of patterns: about a second.
const STEPS_MAX: u64 = 50_000_000;
/// The recursion depth on a separate thread, whose 2 MiB stack has room for several times as
/// much.
const DEPTH_MAX: usize = 256;
/// The steps of an evaluation that cannot be interrupted: at most about a millisecond, and enough
/// for nearly every schema.
const QUICK_STEPS: u64 = 20_000;
/// The recursion depth that fits into the rest of any caller's stack.
const QUICK_DEPTH: usize = 48;
/// The number of steps between two checks for cancellation.
const STRIDE: u64 = 1_024;

/// The cost limits of an evaluation.
pub(crate) struct Budget<'a> {
    steps: u64,
    depth: usize,
    unchecked: u64,
    cancelled: Option<&'a AtomicBool>,
}

impl<'a> Budget<'a> {
    /// A budget so small that no interruption is needed.
    pub(crate) fn quick() -> Budget<'a> {
        Budget { steps: QUICK_STEPS, depth: QUICK_DEPTH, unchecked: 0, cancelled: None }
    }

    /// The full budget of an evaluation, until the flag is set.
    pub(crate) fn full(cancelled: &'a AtomicBool) -> Budget<'a> {
        Budget { steps: STEPS_MAX, depth: DEPTH_MAX, unchecked: 0, cancelled: Some(cancelled) }
    }

    fn charge(&mut self, steps: u64) -> Result<(), EvaluationError> {
        self.steps = self.steps.checked_sub(steps).ok_or(EvaluationError::OutOfSteps)?;
        self.unchecked = self.unchecked.saturating_add(steps);
        if self.unchecked >= STRIDE {
            self.unchecked = 0;
            if self.cancelled.is_some_and(|cancelled| cancelled.load(Relaxed)) {
                return Err(EvaluationError::Cancelled);
            }
        }
        Ok(())
    }

    fn descend(&mut self) -> Result<(), EvaluationError> {
        self.depth = self.depth.checked_sub(1).ok_or(EvaluationError::TooDeep)?;
        self.charge(1)
    }

    fn ascend(&mut self) {
        self.depth += 1;
    }
}

/// Returns at most 10 problems of an instance, each with its location.
pub(crate) fn problems(
    schema: &Value,
    instance: &Value,
    budget: &mut Budget<'_>,
) -> Result<Vec<String>, EvaluationError> {
    let schema = Schema::accept(schema, budget)?;
    evaluate::problems(&schema, instance, budget)
}

/// Quotes the start of an untrusted text.
fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    let shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    let more = if text.chars().nth(SHOWN).is_some() { "..." } else { "" };
    format!("`{shown}{more}`")
}

#[cfg(test)]
mod tests;
