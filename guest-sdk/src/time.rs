//! Clocks, sleeping and timeouts. They replace `Instant::now`, `SystemTime::now` and
//! `thread::sleep` of std, which panic on this target.

use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::{Add, Sub};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use crate::bindings::clocks::wasi::clocks::{monotonic_clock, system_clock};
use crate::stream::system_time;

/// Returns the current time of the wall clock, as std's type.
///
/// ```no_run
/// use std::time::UNIX_EPOCH;
///
/// let seconds = skillhost_guest::time::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
/// ```
pub fn now() -> SystemTime {
    let instant = system_clock::now();
    system_time(instant.seconds, instant.nanoseconds)
}

/// A point in time of the monotonic clock, for measuring durations.
///
/// ```no_run
/// use skillhost_guest::time::Instant;
///
/// let start = Instant::now();
/// skillhost_guest::println!("took {:?}", start.elapsed());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    /// Nanoseconds since an arbitrary point.
    mark: u64,
}

impl Instant {
    /// Returns the current point in time.
    ///
    /// ```no_run
    /// let start = skillhost_guest::time::Instant::now();
    /// ```
    pub fn now() -> Self {
        Self { mark: monotonic_clock::now() }
    }

    /// Returns the time that has passed since.
    ///
    /// ```no_run
    /// let milliseconds = skillhost_guest::time::Instant::now().elapsed().as_millis();
    /// ```
    pub fn elapsed(&self) -> Duration {
        Self::now() - *self
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Returns the time between the two, or zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.mark.saturating_sub(earlier.mark))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant { mark: self.mark.saturating_add(nanoseconds(duration)) }
    }
}

/// Waits for `duration`.
///
/// ```no_run
/// # async fn example() {
/// skillhost_guest::time::sleep(std::time::Duration::from_millis(200)).await;
/// # }
/// ```
pub async fn sleep(duration: Duration) {
    monotonic_clock::wait_for(nanoseconds(duration)).await;
}

/// Awaits `future` for at most `duration`, then drops it.
///
/// # Errors
///
/// Returns [`Elapsed`] if the duration passes first.
///
/// ```no_run
/// use skillhost_guest::{http, time::timeout};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let response = timeout(std::time::Duration::from_secs(2), http::get("https://example.com")).await??;
/// # Ok(())
/// # }
/// ```
pub async fn timeout<T>(duration: Duration, future: impl Future<Output = T>) -> Result<T, Elapsed> {
    let (mut future, mut alarm) = (pin!(future), pin!(sleep(duration)));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Ok(value)),
        Poll::Pending => alarm.as_mut().poll(context).map(|()| Err(Elapsed(duration))),
    })
    .await
}

/// The error of [`timeout`]: the duration passed.
///
/// ```no_run
/// use skillhost_guest::time::{sleep, timeout};
/// use std::time::Duration;
///
/// # async fn example() {
/// let error = timeout(Duration::from_secs(1), sleep(Duration::from_secs(9))).await.unwrap_err();
/// assert_eq!(error.to_string(), "not done within 1s");
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not done within {:?}", self.0)
    }
}

impl std::error::Error for Elapsed {}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}
