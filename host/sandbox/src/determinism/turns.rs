//! A deterministic run: its programs take turns on one thread of their own, in an order that
//! follows from what they do alone.
//!
//! What a turn is: a program runs until it waits, or has burnt [`crate::limits::fuel::INTERVAL`] more. Who is
//! ready first goes on first. Nothing that is not the run's own wakes a program: its sleeps end by
//! the run's clock, its pipes by its other programs, and what must be waited for outside (a
//! component that is compiled, standard input) holds all of them. Wall time and the machine's
//! memory can only abort it.

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
use super::randomness::Seeded;
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
    /// The runtime that does for the run what must not be done on its own thread.
    host: Handle,
    /// Every program waits, and nothing can come any more.
    stuck: Notify,
}

impl DeterministicRun {
    /// Call it within the runtime that works for the run.
    pub(crate) fn new(start: Determinism, clock: Arc<Clock>, meter: Arc<Meter>) -> Self {
        let (host, stuck) = (Handle::current(), Notify::new());
        DeterministicRun { clock, seed: start.seed, meter, host, stuck }
    }

    /// The run's clock.
    pub(crate) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// The runtime that works for the run.
    pub(crate) fn host(&self) -> &Handle {
        &self.host
    }

    /// The randomness of a program, by its number: 1 is the first.
    pub(crate) fn randomness(&self, program: u64) -> Seeded {
        Seeded::new(self.seed, program)
    }

    /// Holds the run until a future of the host's is ready. `None`: the run was aborted first.
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

/// Waits for a future, at most that long: by the run's clock if the run is deterministic.
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
            meter.abort(format!("no thread for the run: {error}"));
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
                    meter.abort("what it wrote was not taken within the limit `timeout`".into());
                    RunEnd::Aborted
                }
            };
        }
    };
    // It ends at its next epoch.
    let _ = ended.await;
    guard.0 = None;
    // What it has written so far, if somebody still reads it.
    let _ = tokio::time::timeout(Duration::from_secs(1), outlets.drain()).await;
    end
}

/// Aborts a run whose caller is gone.
struct AbortOnDrop<'a>(Option<&'a Meter>);

impl Drop for AbortOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(meter) = self.0 {
            meter.abort("nobody waits for it".into());
        }
    }
}

/// Starts the run's thread. Its end is sent once nothing of the run goes on.
///
/// # Errors
/// There is no thread to be had.
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
                deterministic.meter.abort(format!("no event loop: {error}"));
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
            "every program of the run waits for another, and nothing else can come".into(),
        ),
    };
    first.abort();
    // Nothing of a run goes on after it.
    end_others.await;
    end
}

/// Whose turn it is: set when a program's turn begins, taken when its host has looked at what it
/// has burnt.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn(Arc<AtomicBool>);

impl Turn {
    /// Whether a turn has begun that was not looked at.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Relaxed)
    }

    /// Runs a program turn by turn. At the first epoch check of each its host looks at what it has
    /// burnt: that the epoch moves then, and is looked at then alone, makes it the same place in
    /// every run.
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
