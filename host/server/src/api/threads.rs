//! The threads on which runs execute, separate from those that answer requests: a computing guest
//! occupies its thread until the next tick of the epoch, and no client should wait for that.
//!
//! The kernel divides the cores between threads. So that it divides them between tenants, however many
//! runs each has, a run that begins while another of its tenant is in progress gets a thread of lower
//! weight.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// Threads for each core. With more runs than cores, the kernel divides the cores: a short run does not
/// wait until a long one pauses.
const PER_CORE: usize = 4;
/// How much the nice value of the threads of further runs of a tenant is above that of others: they have
/// a tenth of the weight.
const FURTHER_NICE: i32 = 10;

/// Threads for runs, which start when they are first needed.
#[derive(Default)]
pub(super) struct RunThreads {
    first: Threads,
    further: Threads,
}

#[derive(Default)]
struct Threads(OnceLock<Option<Runtime>>);

impl RunThreads {
    /// Executes a run. A panic ends it and no other. `is_first`: no other run of its tenant was in
    /// progress when it began.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        is_first: bool,
        run: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let (threads, nice) =
            if is_first { (&self.first, 0) } else { (&self.further, FURTHER_NICE) };
        match threads.0.get_or_init(|| start(nice)) {
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
    use super::*;

    #[tokio::test]
    async fn further_runs_of_a_tenant_have_a_lower_weight_and_a_panic_ends_one_run() {
        let threads = RunThreads::default();
        let nice = || async { rustix::process::getpriority_process(None).unwrap() };
        let own = nice().await;
        assert_eq!(threads.spawn(true, nice()).await.unwrap(), own);
        let further = threads.spawn(false, nice()).await.unwrap();
        assert_eq!(further, (own + FURTHER_NICE).min(19));
        let failed: Result<(), _> = threads.spawn(true, async { panic!("on purpose") }).await;
        assert!(failed.unwrap_err().is_panic());
        assert_eq!(threads.spawn(true, async { 7 }).await.unwrap(), 7);
    }
}
