//! The threads on which runs execute, separate from those that answer requests: a computing guest
//! occupies its thread until the next tick of the epoch, and no client should wait for that.
//!
//! The kernel divides the cores between threads. So that short runs do not wait for long ones, a run that has
//! computed for a while moves to a thread of lower weight. Not earlier: a thread of lower weight that holds a
//! lock makes all others wait for it.

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use rustix::time::ClockId;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// Threads for each core. With more runs than cores, the kernel divides the cores: a short run does not
/// wait until a long one pauses.
const PER_CORE: usize = 4;
/// How long a run computes before it moves to a thread of lower weight.
const SHORT: Duration = Duration::from_millis(50);
/// How much the nice value of the threads of long runs is above that of others: they have a tenth of the
/// weight.
const LONG_NICE: i32 = 10;

/// Threads for runs, which start when they are first needed.
#[derive(Default)]
pub(super) struct RunThreads {
    short: Threads,
    long: Arc<Threads>,
}

#[derive(Default)]
struct Threads(OnceLock<Option<Runtime>>);

impl RunThreads {
    /// Executes a run, and then passes its result to `then`, on a thread of full weight. A panic ends the
    /// run and no other.
    pub(super) fn spawn<T: Send + 'static, U: Send + 'static, F>(
        &self,
        run: impl Future<Output = T> + Send + 'static,
        then: impl FnOnce(T) -> F + Send + 'static,
    ) -> JoinHandle<U>
    where
        F: Future<Output = U> + Send + 'static,
    {
        let (long, mut run, mut computed) = (self.long.clone(), Box::pin(run), Duration::ZERO);
        let moving = async move {
            let short = poll_fn(|context| {
                let start = processor_time();
                let polled = run.as_mut().poll(context);
                computed += processor_time().saturating_sub(start);
                match polled {
                    Poll::Ready(ended) => Poll::Ready(Some(ended)),
                    Poll::Pending if computed > SHORT => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            });
            let ended = match short.await {
                Some(ended) => ended,
                None => match long.spawn(LONG_NICE, run).await {
                    Ok(ended) => ended,
                    Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                    // The server has stopped, and nothing awaits the result.
                    Err(_) => std::future::pending().await,
                },
            };
            then(ended).await
        };
        self.short.spawn(0, moving)
    }
}

impl Threads {
    fn spawn<T: Send + 'static>(
        &self,
        nice: i32,
        run: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        match self.0.get_or_init(|| start(nice)) {
            Some(runtime) => runtime.spawn(run),
            None => tokio::spawn(run),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take().flatten() {
            // The caller may be a task, which must not wait.
            runtime.shutdown_background();
        }
    }
}

/// Returns how long this thread has computed.
fn processor_time() -> Duration {
    // It is never negative, so the conversion does not fail.
    rustix::time::clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

fn start(nice: i32) -> Option<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(PER_CORE * cores).thread_name("run").enable_all();
    if nice > 0 {
        builder.on_thread_start(move || {
            // Of this thread alone. If it fails, the thread keeps the weight of others.
            let own = rustix::process::getpriority_process(None).unwrap_or(0);
            rustix::process::setpriority_process(None, own + nice).ok();
        });
    }
    let failed = |error: &std::io::Error| {
        tracing::warn!(%error, "cannot start the threads of runs; runs share those of requests");
    };
    builder.build().inspect_err(failed).ok()
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::time::Instant;

    use super::*;

    fn compute(time: Duration) {
        let start = processor_time();
        while processor_time() - start < time {
            std::hint::spin_loop();
        }
    }

    fn nice() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    #[tokio::test]
    async fn a_long_run_moves_to_a_thread_of_lower_weight() {
        let threads = RunThreads::default();
        let own = nice();
        let run = async {
            let start = Instant::now();
            let mut before = nice();
            while start.elapsed() < Duration::from_secs(10) && nice() == before {
                before = nice();
                compute(Duration::from_millis(1));
                tokio::task::yield_now().await;
            }
            (start.elapsed(), before, nice())
        };
        let (after, before, moved) = threads.spawn(run, ready).await.unwrap();
        assert_eq!((before, moved), (own, (own + LONG_NICE).min(19)));
        assert!(after >= SHORT);
    }

    #[tokio::test]
    async fn a_run_that_waits_keeps_its_weight_and_a_panic_ends_one_run() {
        let threads = RunThreads::default();
        let waits = async {
            tokio::time::sleep(2 * SHORT).await;
            nice()
        };
        assert_eq!(threads.spawn(waits, ready).await.unwrap(), nice());
        for computes in [Duration::ZERO, 2 * SHORT] {
            let run = async move {
                compute(computes);
                tokio::task::yield_now().await;
                panic!("on purpose")
            };
            let failed: Result<(), _> = threads.spawn(run, ready).await;
            assert!(failed.unwrap_err().is_panic());
        }
        assert_eq!(threads.spawn(async { 6 }, |six| async move { six + 1 }).await.unwrap(), 7);
    }
}
