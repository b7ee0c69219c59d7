//! Steps that do not need one another run side by side; the slowest are listed at the end.

use std::cmp::Reverse;

use skillhost_toolchain::{Error, Progress};

use crate::say;

/// Rows of the table of steps.
const SLOWEST: usize = 12;

/// Runs two lanes of steps at once, and returns the first failure. A lane that fails does not stop
/// the other one.
pub(crate) fn side_by_side(
    one: impl FnOnce() -> Result<(), Error> + Send,
    other: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(other)
    })
}

/// Prints the failed steps and the slowest ones with their times.
pub(crate) fn list_slowest(progress: &Progress) {
    let mut took = progress.took();
    took.sort_by_key(|step| (step.ok, Reverse(step.time)));
    say("\nslowest steps:");
    for step in took.iter().take(SLOWEST) {
        let failed = if step.ok { "" } else { "  FAILED" };
        say(format!("{:>9.1} s  {}{failed}", step.time.as_secs_f64(), step.name));
    }
}
