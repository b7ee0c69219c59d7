//! The event loops that runs and servers need, and the signals that interrupt them.

use futures::future::BoxFuture;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::error::CliError;

/// Resolves at SIGINT or SIGTERM.
pub(crate) type Interrupt = BoxFuture<'static, ()>;

/// Calls `body` with an event loop of one thread, for one guest: a second thread would only cost
/// its start.
///
/// Signals are caught before `body` starts, so whatever it creates is removed when it is
/// interrupted.
pub(crate) fn with<T>(
    body: impl FnOnce(&Runtime, Interrupt) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let event_loop = one_thread()?;
    let inside = event_loop.enter();
    let result = body(&event_loop, interrupt()?);
    drop(inside);
    // A thread that waits for the terminal would block an orderly shutdown.
    event_loop.shutdown_background();
    result
}

/// An event loop of one thread, for what is neither interrupted nor cleaned up.
pub(crate) fn one_thread() -> Result<Runtime, CliError> {
    started(Builder::new_current_thread().enable_all().build())
}

/// An event loop of several threads: for several clients, and for guests that compute.
pub(crate) fn many_threads() -> Result<Runtime, CliError> {
    started(Builder::new_multi_thread().enable_all().build())
}

fn started(event_loop: std::io::Result<Runtime>) -> Result<Runtime, CliError> {
    event_loop.map_err(|error| CliError::io("start the event loop", error))
}

/// Catches SIGINT and SIGTERM. Must be called within an event loop.
pub(crate) fn interrupt() -> Result<Interrupt, CliError> {
    let mut signals = Signals::catch()?;
    Ok(Box::pin(async move { signals.next().await }))
}

/// As [`interrupt`], for the first signal and for the second one.
pub(crate) fn interrupts() -> Result<(Interrupt, Interrupt), CliError> {
    let mut signals = Signals::catch()?;
    let (first, is_first) = oneshot::channel();
    let (second, is_second) = oneshot::channel();
    tokio::spawn(async move {
        for sender in [first, second] {
            signals.next().await;
            // A receiver that is gone waits no longer.
            sender.send(()).ok();
        }
    });
    let received = |receiver: oneshot::Receiver<()>| -> Interrupt {
        Box::pin(async move {
            if receiver.await.is_err() {
                std::future::pending().await
            }
        })
    };
    Ok((received(is_first), received(is_second)))
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn catch() -> Result<Signals, CliError> {
        let caught = |kind| signal(kind).map_err(|error| CliError::io("catch signals", error));
        Ok(Signals {
            interrupt: caught(SignalKind::interrupt())?,
            terminate: caught(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
