//! Resolves names with the machine's resolver, which blocks a thread for an unbounded time: on a
//! few threads, of which each run gets a share.
//!
//! A run that gives up continues at once. Its thread does not, and keeps its slot in the pool and
//! in the run's share until the resolver returns.

use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::Semaphore;

/// Threads that resolve names for all runs of this process.
const THREADS: usize = 16;

/// Threads that resolve names for one run.
const SHARE: usize = 4;

/// How long a lookup waits for a thread.
const WAIT_MAX: Duration = Duration::from_secs(5);

static POOL: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(THREADS)));

/// The lookups of one run.
#[derive(Debug)]
pub(super) struct Lookups {
    pool: Arc<Semaphore>,
    share: Arc<Semaphore>,
    wait_max: Duration,
}

impl Lookups {
    /// Creates the lookups of a new run.
    pub(super) fn new() -> Lookups {
        Lookups { pool: POOL.clone(), share: Arc::new(Semaphore::new(SHARE)), wait_max: WAIT_MAX }
    }

    /// Returns the addresses of a name.
    ///
    /// # Errors
    /// The resolver's message, or that no thread is free, for the operator.
    pub(super) async fn system(&self, host: String) -> Result<Vec<IpAddr>, String> {
        self.run_on_thread(move || {
            Ok((host, 0).to_socket_addrs()?.map(|found| found.ip()).collect())
        })
        .await
    }

    async fn run_on_thread<T: Send + 'static>(
        &self,
        lookup: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let Ok(share) =
            tokio::time::timeout(self.wait_max, self.share.clone().acquire_owned()).await
        else {
            return Err(format!(
                "{SHARE} earlier lookups of this run are still waiting for the machine's resolver"
            ));
        };
        let Ok(thread) =
            tokio::time::timeout(self.wait_max, self.pool.clone().acquire_owned()).await
        else {
            return Err(format!(
                "{THREADS} lookups of all runs are still waiting for the machine's resolver"
            ));
        };
        let found = tokio::task::spawn_blocking(move || {
            let found = lookup();
            drop((share, thread));
            found
        });
        found.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// Creates the lookups of a run with the test's own pool and a short wait.
    fn run(pool: &Arc<Semaphore>) -> Lookups {
        Lookups {
            pool: pool.clone(),
            share: Arc::new(Semaphore::new(SHARE)),
            wait_max: Duration::from_millis(20),
        }
    }

    /// A resolver that hangs until it is released, and counts its threads.
    #[derive(Clone)]
    struct Hanging {
        threads: Arc<AtomicUsize>,
        end: Arc<std::sync::Mutex<mpsc::Receiver<()>>>,
    }

    impl Hanging {
        fn new() -> (Hanging, mpsc::Sender<()>) {
            let (go, end) = mpsc::channel();
            (Hanging { threads: Arc::default(), end: Arc::new(std::sync::Mutex::new(end)) }, go)
        }

        /// Gives up on a lookup after a while, as a run does at its limit for connecting.
        async fn given_up(&self, lookups: &Lookups) {
            let hanging = self.clone();
            let lookup = lookups.run_on_thread(move || {
                hanging.threads.fetch_add(1, Ordering::SeqCst);
                let _ = hanging.end.lock().unwrap().recv();
                Ok(())
            });
            tokio::time::timeout(Duration::from_millis(1), lookup).await.unwrap_err();
        }
    }

    #[tokio::test]
    async fn cancelled_lookups_hold_only_their_share() {
        let pool = Arc::new(Semaphore::new(THREADS));
        let (hanging, go) = Hanging::new();
        let lookups = run(&pool);
        for _ in 0..20 {
            hanging.given_up(&lookups).await;
        }
        assert_eq!(pool.available_permits(), THREADS - SHARE);
        let other = run(&pool);
        assert_eq!(other.run_on_thread(|| Ok(7)).await, Ok(7), "another run resolves names");
        let refused = lookups.run_on_thread(|| Ok(7)).await.unwrap_err();
        assert!(refused.contains("4 earlier lookups of this run"), "{refused}");
        drop(go);
        drop(lookups.share.acquire_many(u32::try_from(SHARE).unwrap()).await.unwrap());
        assert_eq!(lookups.run_on_thread(|| Ok(7)).await, Ok(7), "the threads are free again");
        assert!(hanging.threads.load(Ordering::SeqCst) <= SHARE);
    }

    #[tokio::test]
    async fn many_runs_stay_within_the_lookup_pool() {
        let pool = Arc::new(Semaphore::new(THREADS));
        let (hanging, go) = Hanging::new();
        for _ in 0..10 {
            let lookups = run(&pool);
            for _ in 0..SHARE {
                hanging.given_up(&lookups).await;
            }
        }
        assert_eq!(pool.available_permits(), 0);
        let refused = run(&pool).run_on_thread(|| Ok(7)).await.unwrap_err();
        assert!(refused.contains("16 lookups of all runs are still waiting"), "{refused}");
        drop(go);
        drop(pool.acquire_many(u32::try_from(THREADS).unwrap()).await.unwrap());
        assert_eq!(run(&pool).run_on_thread(|| Ok(7)).await, Ok(7));
        assert!(hanging.threads.load(Ordering::SeqCst) <= THREADS);
    }

    #[tokio::test]
    async fn localhost_resolves() {
        assert!(
            Lookups::new()
                .system("localhost".into())
                .await
                .unwrap()
                .iter()
                .all(IpAddr::is_loopback)
        );
    }
}
