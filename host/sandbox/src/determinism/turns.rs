//! A deterministic run: its programs take turns on one thread of their own, in an order that
//! follows from what they do alone.
//!
//! What a turn is: a program runs until it waits, or has burnt [`fuel::INTERVAL`] more. Who is
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
use crate::engine::Ended;
use crate::engine::{Mode, say};
use crate::http::Held;
use crate::limits::{LimitExceeded, Meter};
use crate::recording::tape::Tape;
use crate::run::End;
use crate::run::Invocation;
use crate::run::ProgramIo;
use crate::run::{Prepared, Sandbox};
use crate::streams::Outlets;
use skillhost_policy::determinism::Determinism;
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::{LimitHit, Status};
use skillhost_skill::runtime::{Component, Program};

/// What a deterministic run has in place of the machine's clock, chance and order.
pub(crate) struct Fixed {
    pub(crate) clock: Arc<Clock>,
    seed: u64,
    host: Handle,
    /// Every program waits, and nothing can come any more.
    stuck: Notify,
}

impl Fixed {
    /// Within the runtime that does for the run what it must not do itself.
    pub(crate) fn new(start: Determinism, clock: Arc<Clock>) -> Fixed {
        Fixed { clock, seed: start.seed, host: Handle::current(), stuck: Notify::new() }
    }

    /// The chance of one of the run's programs, by its number: 1 is the first.
    pub(crate) fn chance(&self, program: u64) -> Seeded {
        Seeded::new(self.seed, program)
    }

    /// What holds the run while the network answers, or answers as it was recorded; none where it
    /// is off.
    pub(crate) fn held(&self, tape: Option<Arc<Tape>>, meter: &Arc<Meter>) -> Option<Held> {
        Some(Held {
            tape: tape?,
            host: self.host.clone(),
            clock: self.clock.clone(),
            meter: meter.clone(),
        })
    }

    /// Makes a component ready, and holds the run meanwhile: how long that takes depends on the
    /// machine.
    pub(crate) fn prepare(
        &self,
        sandbox: &Sandbox,
        component: &Component,
        limits: &Limits,
        meter: &Arc<Meter>,
    ) -> Result<Prepared, Status> {
        let (sandbox, component, limits) = (sandbox.clone(), component.clone(), limits.clone());
        let prepared = self.hold(meter, async move {
            sandbox.prepare(&component, Mode::Deterministic, &limits).await
        });
        let prepared = prepared.unwrap_or(Err(Status::Interrupted));
        if let Err(status @ (Status::LimitHit(_) | Status::Failed { .. })) = &prepared {
            meter.abort(say(status));
        }
        prepared
    }

    /// Holds the run until a future of the host's is ready. `None`: the run was aborted first.
    pub(crate) fn hold<T: Send + 'static>(
        &self,
        meter: &Arc<Meter>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (send, receive) = std::sync::mpsc::channel();
        let aborted = meter.clone();
        self.host.spawn(async move {
            tokio::select! {
                biased;
                () = aborted.aborted() => {}
                // The run may be gone.
                value = future => drop(send.send(value)),
            }
        });
        receive.recv().ok()
    }
}

/// A program's run, beside what may abort it and where its output goes.
pub(crate) async fn run(
    invocation: &Arc<Invocation>,
    program: &Program,
    prepared: &Prepared,
    given: ProgramIo,
    mut outlets: Outlets,
    mut interrupted: Pin<&mut impl Future<Output = ()>>,
    deadline: tokio::time::Sleep,
) -> End {
    let meter = &invocation.meter;
    // Also where this function is dropped.
    let mut gone = Gone(Some(meter));
    let mut deadline = pin!(deadline);
    let mut ended = match start(invocation, program, prepared, given) {
        Ok(ended) => ended,
        Err(error) => {
            meter.abort(format!("no thread for the run: {error}"));
            gone.0 = None;
            return End::Aborted;
        }
    };
    let over = tokio::select! {
        biased;
        () = &mut interrupted => {
            meter.abort("it was interrupted".into());
            End::Interrupted
        }
        () = &mut deadline => {
            meter.abort(LimitHit { limit: Limit::Timeout, value: meter.value(Limit::Timeout) }.explain());
            End::Aborted
        }
        never = outlets.pump() => match never {},
        end = &mut ended => {
            gone.0 = None;
            let end = end.unwrap_or_else(|_| {
                meter.abort("the host failed".into());
                End::Aborted
            });
            return tokio::select! {
                biased;
                () = &mut interrupted => End::Interrupted,
                () = outlets.drain() => end,
                () = &mut deadline => {
                    meter.abort("what it wrote was not taken within the limit `timeout`".into());
                    End::Aborted
                }
            };
        }
    };
    // It ends at its next epoch.
    let _ = ended.await;
    gone.0 = None;
    // What it has written so far, where somebody still reads it.
    let _ = tokio::time::timeout(Duration::from_secs(1), outlets.drain()).await;
    over
}

/// Ends a run that nobody waits for any more.
struct Gone<'a>(Option<&'a Meter>);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        if let Some(meter) = self.0 {
            meter.abort("nobody waits for it".into());
        }
    }
}

/// Runs a program and those that it starts, on a thread of their own. How the run ended is told
/// once nothing of it goes on.
///
/// # Errors
/// There is no thread to be had.
fn start(
    invocation: &Arc<Invocation>,
    program: &Program,
    prepared: &Prepared,
    given: ProgramIo,
) -> std::io::Result<oneshot::Receiver<End>> {
    let (tell, told) = oneshot::channel();
    let (invocation, program, prepared) = (invocation.clone(), program.clone(), prepared.clone());
    let span = Span::current();
    std::thread::Builder::new().name("deterministic".into()).spawn(move || {
        let waiting = invocation.clone();
        let idle = move || {
            let Some(fixed) = &waiting.fixed else { return };
            if !fixed.clock.jump() {
                fixed.stuck.notify_one();
            }
        };
        let runtime = Builder::new_current_thread().on_thread_park(idle).build();
        let end = match runtime {
            Ok(runtime) => {
                runtime.block_on(turns(&invocation, program, prepared, given).instrument(span))
            }
            Err(error) => {
                invocation.meter.abort(format!("no event loop: {error}"));
                End::Aborted
            }
        };
        drop(invocation);
        // The run's caller may be gone.
        let _ = tell.send(end);
    })?;
    Ok(told)
}

async fn turns(
    invocation: &Arc<Invocation>,
    program: Program,
    prepared: Prepared,
    given: ProgramIo,
) -> End {
    let running = invocation.clone();
    let mut first = tokio::spawn(
        async move { running.execute(&program, &prepared, given).await }.in_current_span(),
    );
    let stuck = async {
        match &invocation.fixed {
            Some(fixed) => fixed.stuck.notified().await,
            None => std::future::pending().await,
        }
    };
    let end = tokio::select! {
        biased;
        () = invocation.meter.aborted() => End::Aborted,
        limit = invocation.meter.stopped() => End::Stopped(limit),
        ended = &mut first => End::Itself(ended.unwrap_or_else(|error| Ended::Trapped(format!("the host failed: {error}")))),
        () = stuck => End::Itself(Ended::Trapped("every program of the run waits for another, and nothing else can come".into())),
    };
    first.abort();
    invocation.orphans.end();
    // Nothing of a run goes on after it.
    invocation.started.close();
    invocation.started.wait().await;
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

impl Invocation {
    /// Waits for a future, at most that long.
    pub(crate) async fn within<T>(
        &self,
        time: Duration,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        let Some(fixed) = &self.fixed else { return tokio::time::timeout(time, future).await.ok() };
        let (mut future, mut over) = (pin!(future), pin!(fixed.clock.sleep(time)));
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => over.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    /// Makes a component ready.
    pub(crate) async fn prepare(&self, component: &Component) -> Result<Prepared, Status> {
        let limits = &self.meter.limits;
        match &self.fixed {
            Some(fixed) => fixed.prepare(&self.sandbox, component, limits, &self.meter),
            None => self.sandbox.prepare(component, self.mode, limits).await,
        }
    }
}
