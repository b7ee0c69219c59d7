//! The limit `cpu-share`: how much of a processor the programs of a run may use.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Sleep;

use super::Meter;

/// The time that a run may use at once before it waits: a few epochs, so that short runs never wait.
const BURST: Duration = Duration::from_millis(50);

/// The processor time that the programs of a run have used, and their share.
#[derive(Debug)]
pub(crate) struct CpuShare {
    percent: u64,
    begin: Instant,
    /// Time spent in programs and in what the host does for them, in nanoseconds.
    busy: AtomicU64,
}

impl CpuShare {
    /// Starts counting. `percent` is greater than 0.
    pub(super) fn new(percent: u64) -> CpuShare {
        CpuShare { percent, begin: Instant::now(), busy: AtomicU64::new(0) }
    }

    /// Returns how long the programs must wait until their use is within the share again.
    fn debt(&self) -> Option<Duration> {
        let busy = Duration::from_nanos(self.busy.load(Relaxed)).saturating_sub(BURST);
        let due = busy.mul_f64(100.0 / self.percent as f64);
        due.checked_sub(self.begin.elapsed()).filter(|wait| !wait.is_zero())
    }
}

/// Runs a program within the run's share: it is not polled while the run has used more. A program
/// yields at each epoch, so one poll takes about an epoch at most.
pub(crate) struct WithinShare<F> {
    program: Pin<Box<F>>,
    meter: Arc<Meter>,
    wait: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> WithinShare<F> {
    pub(crate) fn new(program: F, meter: Arc<Meter>) -> WithinShare<F> {
        WithinShare { program: Box::pin(program), meter, wait: None }
    }
}

impl<F: Future> Future for WithinShare<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let Some(share) = &this.meter.cpu_share else { return this.program.as_mut().poll(context) };
        while let Some(debt) = share.debt() {
            let wait = this.wait.insert(Box::pin(tokio::time::sleep(debt)));
            if wait.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        this.wait = None;
        let start = thread_time();
        let polled = this.program.as_mut().poll(context);
        share.busy.fetch_add(thread_time().saturating_sub(start), Relaxed);
        polled
    }
}

/// Returns the processor time of this thread, in nanoseconds. A poll stays on its thread.
fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}
