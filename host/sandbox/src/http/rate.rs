//! Delays requests, so that a run and each host that it reaches keep within their rates.
//!
//! A request waits for its turn. If its turn comes after its deadline, it is refused at once, and
//! takes no one else's turn. The arithmetic is the generic cell rate algorithm, on nanoseconds of
//! any clock: a live run uses the machine's, a recorded run its virtual one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::error::SendError;
use super::exchange::Exchange;
use skillhost_policy::limits::{Limit, Limits};

/// How many hosts are remembered before those are forgotten that could be asked at once again.
const MANY_HOSTS: usize = 1_024;

const NANOS_PER_MINUTE: u64 = 60_000_000_000;

/// The rates of one run.
#[derive(Debug)]
pub(super) struct Rates {
    begin: Instant,
    is_on: bool,
    buckets: Mutex<Buckets>,
    /// The requests that wait for their turn stand in line: one for each host if hosts have a rate.
    lines: Mutex<HashMap<String, Arc<Line>>>,
}

/// The requests that wait for their turn.
#[derive(Debug, Default)]
struct Line {
    /// Held by the first one.
    first: tokio::sync::Mutex<()>,
    /// Whether the first one had its turn and no slot.
    lacks_slot: AtomicBool,
}

impl Rates {
    pub(super) fn new(limits: &Limits) -> Rates {
        let buckets = Buckets::new(limits);
        Rates {
            begin: Instant::now(),
            is_on: buckets.run.is_some() || buckets.per_host.is_some(),
            buckets: Mutex::new(buckets),
            lines: Mutex::default(),
        }
    }

    /// Waits for the turn of a request and for a slot. Neither is taken unless both are.
    pub(super) async fn turn(
        &self,
        host: &str,
        exchange: &Exchange,
        slots: &Arc<Semaphore>,
    ) -> Result<OwnedSemaphorePermit, SendError> {
        if !self.is_on {
            return slot(exchange, slots).await;
        }
        let line = self.line(host);
        // Without it, the deadline has passed.
        let first = timeout_at(exchange.deadline, line.first.lock()).await.ok();
        let Some(_first) = first.filter(|_| Instant::now() < exchange.deadline) else {
            let limit = match line.lacks_slot.load(Ordering::Relaxed) {
                true => Limit::HttpConcurrent,
                false => self.buckets().line_limit(),
            };
            return Err(exchange.limit_error(limit));
        };
        loop {
            let (at, limit) = self.buckets().next(host, self.now());
            let at = self.instant(at);
            if at > exchange.deadline {
                return Err(exchange.limit_error(limit));
            }
            line.lacks_slot.store(false, Ordering::Relaxed);
            sleep_until(at).await;
            line.lacks_slot.store(slots.available_permits() == 0, Ordering::Relaxed);
            let slot = slot(exchange, slots).await?;
            // Another host's request may have taken the run's turn while this one waited.
            let (now, mut buckets) = (self.now(), self.buckets());
            if buckets.next(host, now).0 <= now {
                buckets.take(host, now);
                return Ok(slot);
            }
        }
    }

    /// Takes the turn of a request on a virtual clock, and returns when it is: at `now` or later.
    /// Gives the limit if it is after the request's deadline.
    pub(super) fn virtual_turn(
        &self,
        host: &str,
        now: u64,
        deadline: Duration,
    ) -> Result<u64, Limit> {
        let mut buckets = self.buckets();
        let (at, limit) = buckets.next(host, now);
        if u128::from(at - now) > deadline.as_nanos() {
            return Err(limit);
        }
        buckets.take(host, at);
        Ok(at)
    }

    fn line(&self, host: &str) -> Arc<Line> {
        let name = if self.buckets().per_host.is_some() { host } else { "" };
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= MANY_HOSTS {
            lines.retain(|_, line| Arc::strong_count(line) > 1);
        }
        lines.entry(name.to_owned()).or_default().clone()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn instant(&self, nanos: u64) -> Instant {
        // A time that the clock cannot represent is after every deadline.
        let far = || Instant::now() + Duration::from_secs(365 * 86_400);
        self.begin.checked_add(Duration::from_nanos(nanos)).unwrap_or_else(far)
    }

    fn buckets(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn slot(
    exchange: &Exchange,
    slots: &Arc<Semaphore>,
) -> Result<OwnedSemaphorePermit, SendError> {
    match timeout_at(exchange.deadline, slots.clone().acquire_owned()).await {
        Ok(slot) => slot.map_err(|error| SendError::Protocol(error.to_string())),
        Err(_) => Err(exchange.limit_error(Limit::HttpConcurrent)),
    }
}

/// The rate of the run, and of each host.
#[derive(Debug)]
struct Buckets {
    run: Option<Bucket>,
    per_host: Option<Bucket>,
    hosts: HashMap<String, Bucket>,
}

impl Buckets {
    fn new(limits: &Limits) -> Buckets {
        let bucket = |rate: u64| Bucket::new(rate, limits.http_burst);
        Buckets {
            run: limits.http_rate.map(bucket),
            per_host: limits.http_host_rate.map(bucket),
            hosts: HashMap::new(),
        }
    }

    /// Returns when the next request to a host may be sent, and the limit that decides it.
    fn next(&self, host: &str, now: u64) -> (u64, Limit) {
        let of_run = self.run.as_ref().map_or(now, |run| run.next(now));
        let of_host = self.hosts.get(host).map_or(now, |host| host.next(now));
        if of_host > of_run { (of_host, Limit::HttpHostRate) } else { (of_run, Limit::HttpRate) }
    }

    /// Counts a request that is sent now.
    fn take(&mut self, host: &str, now: u64) {
        if let Some(run) = &mut self.run {
            run.take(now);
        }
        let Some(unused) = self.per_host else { return };
        if self.hosts.len() >= MANY_HOSTS {
            self.hosts.retain(|_, host| host.empty_at > now);
        }
        self.hosts.entry(host.to_owned()).or_insert(unused).take(now);
    }

    fn line_limit(&self) -> Limit {
        if self.per_host.is_some() { Limit::HttpHostRate } else { Limit::HttpRate }
    }
}

/// A bucket that drains at a rate and overflows above a burst.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// Nanoseconds between two requests.
    interval: u64,
    /// How much earlier than at its interval a request may be sent.
    tolerance: u64,
    /// When everything has drained.
    empty_at: u64,
}

impl Bucket {
    fn new(per_minute: u64, burst: u64) -> Bucket {
        // Rounded up: never faster than the rate.
        let interval = NANOS_PER_MINUTE.div_ceil(per_minute.max(1));
        let tolerance = interval.saturating_mul(burst.saturating_sub(1));
        Bucket { interval, tolerance, empty_at: 0 }
    }

    fn next(&self, now: u64) -> u64 {
        now.max(self.empty_at.saturating_sub(self.tolerance))
    }

    fn take(&mut self, now: u64) {
        self.empty_at = self.empty_at.max(now).saturating_add(self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn rates(run: Option<u64>, host: Option<u64>, burst: u64) -> Rates {
        Rates::new(&Limits {
            http_rate: run,
            http_host_rate: host,
            http_burst: burst,
            ..Limits::default()
        })
    }

    /// Returns when requests to these hosts are sent that are all made at the start.
    fn turns(rates: &Rates, hosts: &[&str]) -> Vec<u64> {
        let long = Duration::from_secs(3_600);
        hosts.iter().map(|host| rates.virtual_turn(host, 0, long).unwrap()).collect()
    }

    #[test]
    fn bursts_are_sent_at_once_and_then_one_at_each_interval() {
        let rates = rates(Some(60), None, 3);
        assert_eq!(turns(&rates, &["a", "b", "a", "b", "a"]), [0, 0, 0, SECOND, 2 * SECOND]);
        // What is not used is saved up to the burst, and no further.
        let later = 1_000 * SECOND;
        let at = || rates.virtual_turn("a", later, Duration::from_secs(60)).unwrap() - later;
        assert_eq!([at(), at(), at(), at()], [0, 0, 0, SECOND]);
    }

    #[test]
    fn hosts_have_rates_of_their_own_within_that_of_the_run() {
        let each = rates(None, Some(60), 1);
        assert_eq!(turns(&each, &["a", "b", "a", "b"]), [0, 0, SECOND, SECOND]);
        let both = rates(Some(120), Some(60), 1);
        assert_eq!(turns(&both, &["a", "b", "c", "d"]), [0, 1, 2, 3].map(|n| n * SECOND / 2));
    }

    #[test]
    fn requests_whose_turn_is_too_late_are_refused_and_take_none() {
        let rates = rates(Some(60), None, 1);
        let short = Duration::from_millis(999);
        assert_eq!(rates.virtual_turn("a", 0, short), Ok(0));
        assert_eq!(rates.virtual_turn("a", 0, short), Err(Limit::HttpRate));
        assert_eq!(rates.virtual_turn("a", 0, short), Err(Limit::HttpRate));
        assert_eq!(rates.virtual_turn("a", 1_000_000, short), Ok(SECOND));
    }

    #[test]
    fn hosts_that_drained_are_forgotten() {
        let rates = rates(None, Some(60), 1);
        for host in 0..5_000_u64 {
            rates.virtual_turn(&host.to_string(), host * SECOND, Duration::ZERO).unwrap();
            assert!(rates.buckets().hosts.len() <= MANY_HOSTS);
        }
    }
}
