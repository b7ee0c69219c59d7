//! The clock of a deterministic run. It advances with the fuel that programs burn. When all of them
//! wait, it jumps to the end of the next sleep.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Units of fuel per nanosecond: about what current machines burn, so that guests measure plausible
/// times.
const FUEL: u64 = 10;

/// The clock of a run, shared by all its programs.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Time since 1970.
    start: Duration,
    timeline: Mutex<Timeline>,
}

#[derive(Debug, Default)]
struct Timeline {
    /// Fuel that all programs have burnt, as far as it was charged.
    fuel: u64,
    /// Nanoseconds that were skipped.
    slept: u64,
    next: u64,
    /// Sleepers, by wake-up time and then by the order of their calls.
    sleepers: BTreeMap<(u64, u64), Waker>,
}

impl Timeline {
    fn now(&self) -> u64 {
        (self.fuel / FUEL).saturating_add(self.slept)
    }

    /// Removes and returns the sleepers that are due, in order.
    fn due(&mut self) -> Vec<Waker> {
        let later = self.sleepers.split_off(&(self.now().saturating_add(1), 0));
        std::mem::replace(&mut self.sleepers, later).into_values().collect()
    }
}

impl Clock {
    /// Makes a clock that starts at a time in seconds since 1970.
    pub(crate) fn new(start: u64) -> Arc<Clock> {
        Arc::new(Clock { start: Duration::from_secs(start), timeline: Mutex::default() })
    }

    /// Returns the nanoseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        self.timeline().now()
    }

    /// Time since 1970.
    pub(crate) fn wall(&self) -> Duration {
        self.start.saturating_add(Duration::from_nanos(self.now()))
    }

    /// Advances to the fuel that all programs together have burnt so far.
    pub(crate) fn burnt(&self, fuel: u64) {
        let mut timeline = self.timeline();
        timeline.fuel = timeline.fuel.max(fuel);
        let due = timeline.due();
        drop(timeline);
        due.into_iter().for_each(Waker::wake);
    }

    /// Advances by nanoseconds that passed outside of the run.
    pub(crate) fn pass(&self, nanos: u64) {
        let mut timeline = self.timeline();
        timeline.slept = timeline.slept.saturating_add(nanos);
        let due = timeline.due();
        drop(timeline);
        due.into_iter().for_each(Waker::wake);
    }

    /// Jumps to the end of the next sleep; returns `false` if no program sleeps.
    pub(crate) fn jump(&self) -> bool {
        let mut timeline = self.timeline();
        let Some((&(at, _), _)) = timeline.sleepers.first_key_value() else { return false };
        timeline.slept += at.saturating_sub(timeline.now());
        let due = timeline.due();
        drop(timeline);
        due.into_iter().for_each(Waker::wake);
        true
    }

    /// Waits until a time, in nanoseconds since the start.
    pub(crate) fn until(self: &Arc<Self>, at: u64) -> Sleep {
        Sleep { clock: self.clone(), at, order: None }
    }

    /// Waits for a duration.
    pub(crate) fn sleep(self: &Arc<Self>, time: Duration) -> Sleep {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.until(self.now().saturating_add(nanos))
    }

    fn timeline(&self) -> MutexGuard<'_, Timeline> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait for a time.
#[derive(Debug)]
pub(crate) struct Sleep {
    clock: Arc<Clock>,
    at: u64,
    order: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let mut timeline = this.clock.timeline();
        if timeline.now() >= this.at {
            return Poll::Ready(());
        }
        let order = *this.order.get_or_insert_with(|| {
            timeline.next += 1;
            timeline.next
        });
        timeline.sleepers.insert((this.at, order), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(order) = self.order {
            self.clock.timeline().sleepers.remove(&(self.at, order));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn clock_advances_with_fuel_and_never_goes_back() {
        let clock = Clock::new(10);
        assert_eq!((clock.now(), clock.wall()), (0, Duration::from_secs(10)));
        clock.burnt(1_500 * FUEL);
        clock.burnt(1_000 * FUEL);
        assert_eq!((clock.now(), clock.wall()), (1_500, Duration::new(10, 1_500)));
    }

    #[test]
    fn sleep_ends_by_fuel_or_by_a_jump_to_the_next_one() {
        let clock = Clock::new(0);
        let (mut hour, mut blink) = (clock.sleep(Duration::from_secs(3_600)), clock.until(5));
        assert!((&mut hour).now_or_never().is_none() && (&mut blink).now_or_never().is_none());
        clock.burnt(5 * FUEL);
        assert!(blink.now_or_never().is_some());
        assert!(clock.jump());
        assert_eq!(clock.now(), 3_600_000_000_000);
        assert!(hour.now_or_never().is_some());
        assert!(!clock.jump(), "no program sleeps");
        // Fuel advances it from there.
        clock.burnt(6 * FUEL);
        assert_eq!(clock.now(), 3_600_000_000_001);
    }

    #[test]
    fn clock_does_not_jump_to_a_dropped_sleep() {
        let clock = Clock::new(0);
        let mut sleep = clock.until(7);
        assert!((&mut sleep).now_or_never().is_none());
        drop(sleep);
        assert!(!clock.jump());
        assert!(clock.until(0).now_or_never().is_some());
        let mut never = clock.sleep(Duration::MAX);
        assert!((&mut never).now_or_never().is_none());
    }
}
