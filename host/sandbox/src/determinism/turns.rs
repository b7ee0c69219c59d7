//! The order of a deterministic run: its programs take turns on a thread of their own, in an order
//! that depends only on what they do.
//!
//! In its turn a program runs until it waits, or has burnt
//! [`INTERVAL`](crate::limits::fuel::INTERVAL) more fuel. The program that was ready first runs
//! next. Nothing outside of the run wakes a program: sleeps end by the run's clock, and pipes are
//! served by the run's other programs. A wait for something outside (compiling a component,
//! standard input) holds all programs. Wall time and the machine's memory can only abort the run.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, oneshot};
use tracing::{Instrument as _, Span};
use wasmtime::Engine;

use super::clock::Clock;
use super::randomness::SeededStream;
use crate::engine::{ProgramEnd, RunEnd};
use crate::limits::{LimitExceeded, Meter};
use crate::streams::Outlets;
use skillhost_policy::determinism::Determinism;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::LimitHit;

/// What a deterministic run has in place of the machine's clock, randomness and order.
pub(crate) struct DeterministicRun {
    clock: Arc<Clock>,
    seed: u64,
    meter: Arc<Meter>,
    /// The runtime for the host's work that must not be done on the run's thread.
    host: Handle,
    /// Notified when every program waits and nothing can wake one.
    stuck: Notify,
}

impl DeterministicRun {
    /// Call it within the runtime for the host's work.
    pub(crate) fn new(start: Determinism, clock: Arc<Clock>, meter: Arc<Meter>) -> Self {
        let (host, stuck) = (Handle::current(), Notify::new());
        DeterministicRun { clock, seed: start.seed, meter, host, stuck }
    }

    /// The run's clock.
    pub(crate) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// The runtime for the host's work.
    pub(crate) fn host(&self) -> &Handle {
        &self.host
    }

    /// The randomness of a program, by its number: the first has 1.
    pub(crate) fn randomness(&self, program: u64) -> SeededStream {
        SeededStream::new(self.seed, program)
    }

    /// Holds the run until a future of the host is ready. Returns `None` if the run is aborted
    /// first.
    pub(crate) fn hold<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (send, receive) = std::sync::mpsc::channel();
        let meter = self.meter.clone();
        self.host.spawn(async move {
            tokio::select! {
                biased;
                () = meter.aborted() => {}
                // The run may be gone.
                value = future => drop(send.send(value)),
            }
        });
        receive.recv().ok()
    }
}

/// Waits for a future for at most `time`, by the run's clock if the run is deterministic.
pub(crate) async fn within<T>(
    deterministic: Option<&DeterministicRun>,
    time: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let Some(run) = deterministic else { return tokio::time::timeout(time, future).await.ok() };
    let (mut future, mut timer) = (pin!(future), pin!(run.clock.sleep(time)));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// Runs the first program of a run to its end, unless something aborts the run, and passes on what
/// it writes. `end_others` ends the programs that it has started.
pub(crate) async fn run(
    deterministic: &Arc<DeterministicRun>,
    first: impl Future<Output = ProgramEnd> + Send + 'static,
    end_others: impl Future<Output = ()> + Send + 'static,
    mut outlets: Outlets,
    mut interrupted: Pin<&mut impl Future<Output = ()>>,
    deadline: tokio::time::Sleep,
) -> RunEnd {
    let meter = &deterministic.meter;
    // Also if this function is dropped.
    let mut guard = AbortOnDrop(Some(meter));
    let mut deadline = pin!(deadline);
    let mut ended = match start(deterministic, first, end_others) {
        Ok(ended) => ended,
        Err(error) => {
            meter.abort(format!("cannot start a thread for the run: {error}"));
            guard.0 = None;
            return RunEnd::Aborted;
        }
    };
    let end = tokio::select! {
        biased;
        () = &mut interrupted => {
            meter.abort("it was interrupted".into());
            RunEnd::Interrupted
        }
        () = &mut deadline => {
            let hit = LimitHit { limit: Limit::Timeout, value: meter.value(Limit::Timeout) };
            meter.abort(hit.explain());
            RunEnd::Aborted
        }
        never = outlets.pump() => match never {},
        end = &mut ended => {
            guard.0 = None;
            let end = end.unwrap_or_else(|_| {
                meter.abort("the host failed".into());
                RunEnd::Aborted
            });
            return tokio::select! {
                biased;
                () = &mut interrupted => RunEnd::Interrupted,
                () = outlets.drain() => end,
                () = &mut deadline => {
                    meter.abort("its output was not read within the limit `timeout`".into());
                    RunEnd::Aborted
                }
            };
        }
    };
    // The first program ends at its next epoch.
    let _ = ended.await;
    guard.0 = None;
    // Writes the rest of its output, if anyone still reads it.
    let _ = tokio::time::timeout(Duration::from_secs(1), outlets.drain()).await;
    end
}

/// Aborts a run whose caller is gone.
struct AbortOnDrop<'a>(Option<&'a Meter>);

impl Drop for AbortOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(meter) = self.0 {
            meter.abort("its caller is gone".into());
        }
    }
}

/// Starts the run's thread. The end is sent once nothing of the run is left.
///
/// # Errors
/// The thread cannot be started.
fn start(
    deterministic: &Arc<DeterministicRun>,
    first: impl Future<Output = ProgramEnd> + Send + 'static,
    end_others: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<oneshot::Receiver<RunEnd>> {
    let (send, receive) = oneshot::channel();
    let (deterministic, span) = (deterministic.clone(), Span::current());
    std::thread::Builder::new().name("deterministic".into()).spawn(move || {
        let waiting = deterministic.clone();
        let idle = move || {
            if !waiting.clock.jump() {
                waiting.stuck.notify_one();
            }
        };
        let runtime = Builder::new_current_thread().on_thread_park(idle).build();
        let turns = take_turns(&deterministic, first, end_others).instrument(span);
        let end = match runtime {
            Ok(runtime) => runtime.block_on(turns),
            Err(error) => {
                drop(turns);
                deterministic.meter.abort(format!("cannot create an event loop: {error}"));
                RunEnd::Aborted
            }
        };
        // The run's caller may be gone.
        let _ = send.send(end);
    })?;
    Ok(receive)
}

async fn take_turns(
    deterministic: &DeterministicRun,
    first: impl Future<Output = ProgramEnd> + Send + 'static,
    end_others: impl Future<Output = ()> + Send + 'static,
) -> RunEnd {
    let DeterministicRun { meter, stuck, .. } = deterministic;
    let mut first = tokio::spawn(first.in_current_span());
    let trapped = |message| RunEnd::Program(ProgramEnd::Trapped(message));
    let end = tokio::select! {
        biased;
        () = meter.aborted() => RunEnd::Aborted,
        limit = meter.stopped() => RunEnd::Limit(limit),
        ended = &mut first => match ended {
            Ok(ended) => RunEnd::Program(ended),
            Err(error) => trapped(format!("the host failed: {error}")),
        },
        () = stuck.notified() => trapped(
            "deadlock: every program of the run waits for another one".into(),
        ),
    };
    first.abort();
    // Nothing of a run continues after it.
    end_others.await;
    end
}

/// Whether a program's turn has begun: set when it begins, taken when its fuel is charged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn(Arc<AtomicBool>);

impl Turn {
    /// Takes the mark of a turn that has begun.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Relaxed)
    }

    /// Runs a program turn by turn. Its fuel is charged at the first epoch check of each turn. The
    /// epoch advances only when a turn begins, so this is at the same place in every run.
    pub(crate) async fn each<T>(
        self,
        engine: &Engine,
        meter: &Meter,
        program: impl Future<Output = wasmtime::Result<T>>,
    ) -> wasmtime::Result<T> {
        let mut program = pin!(program);
        poll_fn(|cx| {
            if let Some(limit) = meter.stop_reason() {
                return Poll::Ready(Err(LimitExceeded(limit).into()));
            }
            self.0.store(true, Relaxed);
            engine.increment_epoch();
            program.as_mut().poll(cx)
        })
        .await
    }
}
