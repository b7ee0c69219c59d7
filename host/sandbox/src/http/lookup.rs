//! Resolving names with the machine's resolver, which blocks a thread for as long as it pleases: on
//! few threads, of which a run gets its share.
//!
//! A run that gives up is free at once. The thread is not, so it keeps its place in the pool and in
//! the run's share until the resolver returns.

use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::Semaphore;

/// Threads that resolve names, in all runs of this process together.
const THREADS: usize = 16;

/// Threads that resolve names for one run.
const SHARE: usize = 4;

/// How long a lookup waits for a thread.
const PATIENCE: Duration = Duration::from_secs(5);

static POOL: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(THREADS)));

/// The lookups of one run.
#[derive(Debug)]
pub(super) struct Lookups {
    pool: Arc<Semaphore>,
    share: Arc<Semaphore>,
    patience: Duration,
}

impl Lookups {
    /// Those of a new run.
    pub(super) fn new() -> Lookups {
        Lookups { pool: POOL.clone(), share: Arc::new(Semaphore::new(SHARE)), patience: PATIENCE }
    }

    /// The addresses of a name.
    ///
    /// # Errors
    /// What the resolver says, or that there is no thread for it; as text for the operator.
    pub(super) async fn system(&self, host: String) -> Result<Vec<IpAddr>, String> {
        self.on_a_thread(move || Ok((host, 0).to_socket_addrs()?.map(|found| found.ip()).collect()))
            .await
    }

    async fn on_a_thread<T: Send + 'static>(
        &self,
        lookup: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let Ok(share) =
            tokio::time::timeout(self.patience, self.share.clone().acquire_owned()).await
        else {
            return Err(format!(
                "the machine's resolver has not answered {SHARE} earlier lookups of this run"
            ));
        };
        let Ok(thread) =
            tokio::time::timeout(self.patience, self.pool.clone().acquire_owned()).await
        else {
            return Err(format!(
                "the machine's resolver has not answered {THREADS} lookups of all runs"
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

    /// A run whose pool is the test's own, and which does not wait long.
    fn run(pool: &Arc<Semaphore>) -> Lookups {
        Lookups {
            pool: pool.clone(),
            share: Arc::new(Semaphore::new(SHARE)),
            patience: Duration::from_millis(20),
        }
    }

    /// A resolver that hangs until it is let go, and counts its threads.
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
            let lookup = lookups.on_a_thread(move || {
                hanging.threads.fetch_add(1, Ordering::SeqCst);
                let _ = hanging.end.lock().unwrap().recv();
                Ok(())
            });
            tokio::time::timeout(Duration::from_millis(1), lookup).await.unwrap_err();
        }
    }

    #[tokio::test]
    async fn a_run_that_gives_up_holds_no_more_than_its_share() {
        let pool = Arc::new(Semaphore::new(THREADS));
        let (hanging, go) = Hanging::new();
        let lookups = run(&pool);
        for _ in 0..20 {
            hanging.given_up(&lookups).await;
        }
        assert_eq!(pool.available_permits(), THREADS - SHARE);
        let other = run(&pool);
        assert_eq!(other.on_a_thread(|| Ok(7)).await, Ok(7), "another run resolves names");
        let refused = lookups.on_a_thread(|| Ok(7)).await.unwrap_err();
        assert!(refused.contains("4 earlier lookups of this run"), "{refused}");
        drop(go);
        drop(lookups.share.acquire_many(u32::try_from(SHARE).unwrap()).await.unwrap());
        assert_eq!(lookups.on_a_thread(|| Ok(7)).await, Ok(7), "the threads are free again");
        assert!(hanging.threads.load(Ordering::SeqCst) <= SHARE);
    }

    #[tokio::test]
    async fn many_runs_hold_no_more_than_the_pool() {
        let pool = Arc::new(Semaphore::new(THREADS));
        let (hanging, go) = Hanging::new();
        for _ in 0..10 {
            let lookups = run(&pool);
            for _ in 0..SHARE {
                hanging.given_up(&lookups).await;
            }
        }
        assert_eq!(pool.available_permits(), 0);
        let refused = run(&pool).on_a_thread(|| Ok(7)).await.unwrap_err();
        assert!(refused.contains("16 lookups of all runs"), "{refused}");
        drop(go);
        drop(pool.acquire_many(u32::try_from(THREADS).unwrap()).await.unwrap());
        assert_eq!(run(&pool).on_a_thread(|| Ok(7)).await, Ok(7));
        assert!(hanging.threads.load(Ordering::SeqCst) <= THREADS);
    }

    #[tokio::test]
    async fn a_name_of_this_machine_is_resolved() {
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
