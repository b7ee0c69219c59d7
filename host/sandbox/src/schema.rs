//! JSON Schemas that a guest wrote: accepted within bounds, evaluated in steps that are counted and
//! can be stopped.
//!
//! A schema is a small program, and its author is not trusted. The host therefore evaluates it
//! itself rather than hand it to a library that can neither be interrupted nor be told how much
//! work to do: every step is charged to a [`Budget`], recursion has a depth, references stay within
//! the document, and regular expressions run in linear time. The dialect is 2020-12, and what
//! earlier drafts spell differently (`items` as a list, `additionalItems`, `dependencies`).
//! `format` and `content*` are annotations, as 2020-12 has it. Not supported, and refused rather
//! than ignored: `$dynamicRef`, `$recursiveRef`, references to anchors or other documents.

mod accept;
mod evaluate;
mod pattern;
mod value;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::Value;

pub(crate) use accept::{Schema, TEXT_MAX};

/// Why a schema or an instance was not judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    /// The schema is not one that is accepted.
    #[error("{0}")]
    Refused(String),
    /// The budget is spent.
    #[error("evaluating it takes more than {STEPS_MAX} steps")]
    OutOfSteps,
    /// Schema and instance together nest deeper than the budget allows.
    #[error("evaluating it nests deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// Whoever asked is gone.
    #[error("evaluating it was interrupted")]
    Cancelled,
}

impl Stop {
    /// Whether a larger budget could lead further.
    pub(crate) fn is_for_want_of_budget(&self) -> bool {
        matches!(self, Stop::OutOfSteps | Stop::TooDeep)
    }
}

/// Steps of one evaluation, compiling its patterns included: about a second.
const STEPS_MAX: u64 = 50_000_000;
/// How deep an evaluation recurses on a thread of its own, whose stack of 2 MiB holds several times
/// that.
const DEPTH_MAX: usize = 256;
/// Steps that may be taken where nothing interrupts them: about a millisecond at most, and more
/// than nearly every schema needs.
const QUICK_STEPS: u64 = 20_000;
/// The depth that fits into whatever stack the caller has left.
const QUICK_DEPTH: usize = 48;
/// Steps between two looks at whether whoever asked is gone.
const STRIDE: u64 = 1_024;

/// What an evaluation may cost.
pub(crate) struct Budget<'a> {
    steps: u64,
    depth: usize,
    unchecked: u64,
    cancelled: Option<&'a AtomicBool>,
}

impl<'a> Budget<'a> {
    /// So little that nobody needs to interrupt it.
    pub(crate) fn quick() -> Budget<'a> {
        Budget { steps: QUICK_STEPS, depth: QUICK_DEPTH, unchecked: 0, cancelled: None }
    }

    /// As much as any evaluation gets, until the flag is set.
    pub(crate) fn whole(cancelled: &'a AtomicBool) -> Budget<'a> {
        Budget { steps: STEPS_MAX, depth: DEPTH_MAX, unchecked: 0, cancelled: Some(cancelled) }
    }

    fn charge(&mut self, steps: u64) -> Result<(), Stop> {
        self.steps = self.steps.checked_sub(steps).ok_or(Stop::OutOfSteps)?;
        self.unchecked = self.unchecked.saturating_add(steps);
        if self.unchecked >= STRIDE {
            self.unchecked = 0;
            if self.cancelled.is_some_and(|cancelled| cancelled.load(Relaxed)) {
                return Err(Stop::Cancelled);
            }
        }
        Ok(())
    }

    fn descend(&mut self) -> Result<(), Stop> {
        self.depth = self.depth.checked_sub(1).ok_or(Stop::TooDeep)?;
        self.charge(1)
    }

    fn ascend(&mut self) {
        self.depth += 1;
    }
}

/// What is wrong with an instance: nothing, or at most 10 problems, each with its place.
pub(crate) fn problems(
    schema: &Value,
    instance: &Value,
    budget: &mut Budget<'_>,
) -> Result<Vec<String>, Stop> {
    let schema = Schema::accept(schema, budget)?;
    evaluate::problems(&schema, instance, budget)
}

/// The start of a text that somebody else chose, in quotes.
fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    let shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    let more = if text.chars().nth(SHOWN).is_some() { "..." } else { "" };
    format!("`{shown}{more}`")
}

#[cfg(test)]
mod tests;
