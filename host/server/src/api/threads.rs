//! The threads on which runs execute, separate from those that answer requests: a computing guest
//! occupies its thread until the next tick of the epoch, and no client should wait for that.
//!
//! The kernel divides the cores between threads. So that short runs do not wait for long ones, a run that has
//! computed for a while moves to a thread of lower weight. Runs of a tenant that floods the queue start on one
//! while there are tenants that do not.

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rustix::time::ClockId;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use super::scheduler::Core;

/// Threads for each core, of either weight. With more runs than cores, the kernel divides the cores: a short
/// run does not wait until a long one pauses.
const PER_CORE: usize = 4;
/// How long a run computes before it moves to a thread of lower weight.
const SHORT: Duration = Duration::from_millis(50);
/// How much the nice value of threads of lower weight is above that of others: they have a tenth of the
/// weight.
const LOW_NICE: i32 = 10;

/// Threads for runs, which start when they are first needed.
#[derive(Default)]
pub(super) struct RunThreads {
    full: Threads,
    low: Arc<Threads>,
}

#[derive(Default)]
struct Threads(OnceLock<Option<Runtime>>);

/// Polls a run, and leaves its core to others when the run waits or has computed for a while.
struct Watch {
    core: Option<Core>,
    computed: Duration,
    woken: Option<Arc<Woken>>,
}

/// Knows whether a run was woken while it was polled: it has yielded, as the engine does at a tick of the epoch.
/// Yields of tokio wake later, and count as waiting.
struct Woken {
    waker: Waker,
    is_woken: AtomicBool,
}

/// Returns the number of cores.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl RunThreads {
    /// Executes a run, and then passes its result to `then`, on a thread of full weight unless the run
    /// gives way to others. A panic ends the run and no other.
    pub(super) fn spawn<T: Send + 'static, U: Send + 'static, F>(
        &self,
        core: Option<Core>,
        run: impl Future<Output = T> + Send + 'static,
        then: impl FnOnce(T) -> F + Send + 'static,
    ) -> JoinHandle<U>
    where
        F: Future<Output = U> + Send + 'static,
    {
        let (low, mut run) = (self.low.clone(), Box::pin(run));
        let gives_way = core.as_ref().is_some_and(Core::gives_way);
        let mut watch = Watch { core, computed: Duration::ZERO, woken: None };
        if gives_way {
            return self.low.spawn(LOW_NICE, async move {
                let ended = poll_fn(|context| watch.poll(run.as_mut(), context)).await;
                then(ended).await
            });
        }
        let moving = async move {
            let short = poll_fn(|context| match watch.poll(run.as_mut(), context) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending if watch.computed > SHORT => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            let ended = match short.await {
                Some(ended) => ended,
                None => match low.spawn(LOW_NICE, run).await {
                    Ok(ended) => ended,
                    Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                    // The server has stopped, and nothing awaits the result.
                    Err(_) => std::future::pending().await,
                },
            };
            then(ended).await
        };
        self.full.spawn(0, moving)
    }

    /// Drives a run, on a thread of full weight: one that starts at once stays on it, without the wake-up of
    /// another thread.
    pub(super) fn drive(&self, run: impl Future<Output = ()> + Send + 'static) {
        self.full.spawn(0, run);
    }

    /// Does work of a request that waits for the disk, on a thread of lower weight. Tasks that it starts are
    /// those of the caller's threads.
    pub(super) fn spawn_low<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let requests = Handle::current();
        let work = move || {
            let _entered = requests.enter();
            work()
        };
        match self.low.runtime(LOW_NICE) {
            Some(runtime) => runtime.spawn_blocking(work),
            None => tokio::task::spawn_blocking(work),
        }
    }
}

impl Watch {
    fn poll<F: Future>(&mut self, run: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
        let woken = match self.woken.take() {
            Some(woken) if woken.waker.will_wake(context.waker()) => woken,
            _ => {
                Arc::new(Woken { waker: context.waker().clone(), is_woken: AtomicBool::new(false) })
            }
        };
        woken.is_woken.store(false, Ordering::Relaxed);
        let start = processor_time();
        let polled = run.poll(&mut Context::from_waker(&woken.clone().into()));
        self.computed += processor_time().saturating_sub(start);
        let waits = !woken.is_woken.load(Ordering::Relaxed);
        if polled.is_pending()
            && (waits || self.computed > SHORT)
            && let Some(core) = &self.core
        {
            core.leave();
        }
        self.woken = Some(woken);
        polled
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Relaxed);
        self.waker.wake_by_ref();
    }
}

impl Threads {
    fn spawn<T: Send + 'static>(
        &self,
        nice: i32,
        run: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        match self.runtime(nice) {
            Some(runtime) => runtime.spawn(run),
            None => tokio::spawn(run),
        }
    }

    fn runtime(&self, nice: i32) -> Option<&Runtime> {
        self.0.get_or_init(|| start(nice)).as_ref()
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
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(PER_CORE * cores()).thread_name("run").enable_all();
    if nice > 0 {
        builder.on_thread_start(move || {
            // A new thread has the nice value of the one that started it, which may be one of these already;
            // that of the process is its first thread's. If it fails, the thread keeps the weight of others.
            let process = rustix::process::getpriority_process(Some(rustix::process::getpid()));
            rustix::process::setpriority_process(None, process.unwrap_or(0) + nice).ok();
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

    use futures::FutureExt as _;

    use super::super::scheduler::Scheduler;
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
        let (after, before, moved) = threads.spawn(None, run, ready).await.unwrap();
        assert_eq!((before, moved), (own, (own + LOW_NICE).min(19)));
        assert!(after >= SHORT);
    }

    #[tokio::test]
    async fn runs_that_give_way_start_at_a_lower_weight_that_does_not_add_up() {
        let (threads, scheduler) = (RunThreads::default(), Scheduler::new(8, 8));
        let _modest = scheduler.enter("a", 1).await;
        let first = scheduler.enter("b", 1).await;
        let mut flood: Vec<_> = (0..20).map(|_| scheduler.enter("b", 1)).collect();
        let second = flood.remove(0);
        drop(first);
        let second = second.await;
        let low = (nice() + LOW_NICE).min(19);
        let run = async {
            // A thread that waits in place has another one started, by itself.
            tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(20)));
            let started = tokio::task::spawn_blocking(nice).await.unwrap();
            (nice(), started)
        };
        assert_eq!(threads.spawn(Some(second.core()), run, ready).await.unwrap(), (low, low));
        let work = || (nice(), Handle::current().id());
        assert_eq!(threads.spawn_low(work).await.unwrap(), (low, Handle::current().id()));
    }

    #[tokio::test]
    async fn a_run_leaves_its_core_when_it_waits_and_not_when_it_yields() {
        let (threads, scheduler) = (RunThreads::default(), Scheduler::new(8, 1));
        let turn = scheduler.enter("a", 8).await;
        let mut next = Box::pin(scheduler.enter("a", 8));
        let (go, gone) = std::sync::mpsc::channel();
        let (yielded, has_yielded) = tokio::sync::oneshot::channel::<()>();
        let run = async move {
            let mut yields = 0;
            // As the engine yields.
            let yielding = poll_fn(|context| {
                yields += 1;
                context.waker().wake_by_ref();
                if yields < 4 { Poll::Pending } else { Poll::Ready(()) }
            });
            yielding.await;
            yielded.send(()).unwrap();
            // Holds its thread until the test has looked.
            tokio::task::block_in_place(|| gone.recv()).unwrap();
            std::future::pending::<()>().await;
        };
        let run = threads.spawn(Some(turn.core()), run, ready);
        has_yielded.await.unwrap();
        assert!(next.as_mut().now_or_never().is_none(), "the run computes");
        go.send(()).unwrap();
        let _next = tokio::time::timeout(Duration::from_secs(10), next).await.unwrap();
        run.abort();
    }

    #[tokio::test]
    async fn a_run_that_waits_keeps_its_weight_and_a_panic_ends_one_run() {
        let threads = RunThreads::default();
        let waits = async {
            tokio::time::sleep(2 * SHORT).await;
            nice()
        };
        assert_eq!(threads.spawn(None, waits, ready).await.unwrap(), nice());
        for computes in [Duration::ZERO, 2 * SHORT] {
            let run = async move {
                compute(computes);
                tokio::task::yield_now().await;
                panic!("on purpose")
            };
            let failed: Result<(), _> = threads.spawn(None, run, ready).await;
            assert!(failed.unwrap_err().is_panic());
        }
        assert_eq!(
            threads.spawn(None, async { 6 }, |six| async move { six + 1 }).await.unwrap(),
            7
        );
    }
}
