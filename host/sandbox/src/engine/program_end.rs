//! How a program ended, and how a run.

use wasmtime::Trap;
use wasmtime::component::ResourceTableError;
use wasmtime_wasi::I32Exit;

use crate::limits::{LimitExceeded, Meter};
use skillhost_policy::limits::Limit;

/// How one program ended.
#[derive(Debug)]
pub(crate) enum ProgramEnd {
    Exited(u8),
    Tool(Result<serde_json::Value, String>),
    Trapped(String),
    Limit(Limit),
}

/// How a run ended.
pub(crate) enum RunEnd {
    /// Its first program ended.
    Program(ProgramEnd),
    /// A limit ended it.
    Limit(Limit),
    /// It was interrupted from outside.
    Interrupted,
    /// A deterministic run ended for a reason that depends on the machine.
    Aborted,
}

impl ProgramEnd {
    /// Returns the end that an error of the engine means, and notes its limit.
    pub(crate) fn of_error(error: &wasmtime::Error, meter: &Meter) -> ProgramEnd {
        if let Some(exit) = error.downcast_ref::<I32Exit>() {
            // The low byte, as a parent process sees it.
            return ProgramEnd::Exited((exit.0 & 0xff) as u8);
        }
        if let Some(LimitExceeded(limit)) = error.downcast_ref::<LimitExceeded>() {
            return ProgramEnd::Limit(*limit);
        }
        let limit = match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => Some(Limit::Fuel),
            Some(Trap::StackOverflow) => Some(Limit::Stack),
            _ if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) => {
                Some(Limit::Handles)
            }
            _ => untyped_limit(&error.root_cause().to_string()),
        };
        if let Some(limit) = limit {
            match limit {
                // No other program has any left either.
                Limit::Fuel => drop(meter.stop(limit)),
                // How much stack a function needs depends on the machine.
                Limit::Stack if meter.is_deterministic() => meter.abort(
                    "the guest's stack is full, and the size of frames depends on the machine"
                        .into(),
                ),
                _ => meter.hit(limit),
            }
            return ProgramEnd::Limit(limit);
        }
        ProgramEnd::Trapped(trap_message(error))
    }
}

/// The most that is kept of a trap's message, in bytes: it contains names that the guest chose.
const TRAP_MESSAGE: usize = 4 << 10;

/// Returns an error's message: the cause first, then where it happened.
fn trap_message(error: &wasmtime::Error) -> String {
    let mut messages: Vec<String> = error.chain().map(ToString::to_string).collect();
    messages.reverse();
    let mut message = messages.join("\n");
    message.truncate(message.floor_char_boundary(TRAP_MESSAGE));
    message
}

/// Returns the limit of an error for which the engine has no type, by its text. A test provokes
/// each of these errors, and fails if the text changes.
fn untyped_limit(message: &str) -> Option<Limit> {
    [
        ("fuel allocated for hostcalls has been exhausted", Limit::HostCall),
        ("resource limit exceeded: instance count", Limit::Instances),
        ("memory minimum size of", Limit::Memory),
        ("table minimum size of", Limit::TableElements),
        ("store handle limit exceeded", Limit::Handles),
    ]
    .into_iter()
    .find_map(|(words, limit)| message.contains(words).then_some(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trap_message_is_short_and_starts_with_the_cause() {
        let error = wasmtime::Error::msg("cause").context("where it happened");
        assert_eq!(trap_message(&error), "cause\nwhere it happened");
        let long = wasmtime::Error::msg("cause").context("é".repeat(100_000));
        assert!(trap_message(&long).len() <= TRAP_MESSAGE);
    }
}
