//! Runs independent steps in parallel, and lists the slowest ones.

use std::cmp::Reverse;

use skillhost_toolchain::{Error, Progress};

use crate::print_line;

/// The number of steps to list.
const SLOWEST: usize = 12;

/// Runs two sequences of steps in parallel. A failure in one does not stop the other. If both fail,
/// returns the error of `one`.
pub(crate) fn in_parallel(
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
    let mut steps = progress.finished();
    steps.sort_by_key(|step| (step.ok, Reverse(step.time)));
    print_line("\nslowest steps:");
    for step in steps.iter().take(SLOWEST) {
        let failed = if step.ok { "" } else { "  FAILED" };
        print_line(format!("{:>9.1} s  {}{failed}", step.time.as_secs_f64(), step.name));
    }
}
