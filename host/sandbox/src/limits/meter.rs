//! What an invocation has used of its limits, over all the programs it runs, and which limits it
//! ran into.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Notify;
use wasmtime::ResourceLimiter;

use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::LimitHit;

/// The counters of one invocation. Shared by all its stores.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) limits: Limits,
    hits: Mutex<Vec<Limit>>,
    stopped: OnceLock<Limit>,
    aborted: OnceLock<String>,
    /// Whether what depends on the machine aborts the run, rather than be told to the guest.
    deterministic: bool,
    wake: Notify,
    memory: AtomicU64,
    memory_peak: AtomicU64,
    random: AtomicU64,
    pub(crate) processes: AtomicU64,
    pub(crate) epochs: AtomicU64,
    /// Fuel that all programs have burnt, as far as their hosts have looked.
    burnt: AtomicU64,
    /// The largest stack that a program was given.
    stack: AtomicU64,
}

impl Meter {
    /// Of a run that is deterministic or not.
    pub(crate) fn new(limits: Limits, deterministic: bool) -> Arc<Meter> {
        Arc::new(Meter {
            limits,
            deterministic,
            aborted: OnceLock::new(),
            hits: Mutex::default(),
            stopped: OnceLock::new(),
            wake: Notify::new(),
            memory: AtomicU64::new(0),
            memory_peak: AtomicU64::new(0),
            random: AtomicU64::new(0),
            processes: AtomicU64::new(0),
            epochs: AtomicU64::new(0),
            burnt: AtomicU64::new(0),
            stack: AtomicU64::new(0),
        })
    }

    /// Notes a limit that the guest was told of and may cope with.
    pub(crate) fn hit(&self, limit: Limit) {
        let mut hits = self.hits.lock().unwrap_or_else(PoisonError::into_inner);
        if !hits.contains(&limit) {
            hits.push(limit);
        }
    }

    /// Notes a limit that ends the whole invocation, now.
    pub(crate) fn stop(&self, limit: Limit) -> LimitExceeded {
        self.hit(limit);
        let first = *self.stopped.get_or_init(|| limit);
        self.wake.notify_waiters();
        LimitExceeded(first)
    }

    /// The limit that ended the invocation.
    pub(crate) fn stop_reason(&self) -> Option<Limit> {
        self.stopped.get().copied()
    }

    /// Resolves when a limit ends the invocation, with that limit.
    pub(crate) async fn stopped(&self) -> Limit {
        loop {
            let woken = self.wake.notified();
            if let Some(limit) = self.stop_reason() {
                return limit;
            }
            woken.await;
        }
    }

    /// Ends a deterministic run without a result: by what is not the same on every machine.
    pub(crate) fn abort(&self, reason: String) {
        self.aborted.get_or_init(|| reason);
        self.wake.notify_waiters();
    }

    /// Why the run is to end without a result.
    pub(crate) fn abort_reason(&self) -> Option<&str> {
        self.aborted.get().map(String::as_str)
    }

    /// Resolves when the run is aborted.
    pub(crate) async fn aborted(&self) {
        loop {
            let woken = self.wake.notified();
            if self.abort_reason().is_some() {
                return;
            }
            woken.await;
        }
    }

    /// Whether what depends on the machine aborts the run.
    pub(crate) fn is_deterministic(&self) -> bool {
        self.deterministic
    }

    /// The limits that were run into, in order.
    pub(crate) fn hits(&self) -> Vec<LimitHit> {
        let hits = self.hits.lock().unwrap_or_else(PoisonError::into_inner);
        hits.iter().map(|&limit| LimitHit { limit, value: self.value(limit) }).collect()
    }

    /// A limit's value, as it was in force.
    pub(crate) fn value(&self, limit: Limit) -> u64 {
        match (limit, self.stack.load(Relaxed)) {
            (Limit::Stack, given @ 1..) => given,
            _ => self.limits.get(limit).unwrap_or(0),
        }
    }

    /// Notes the stack that a program is given, in bytes: programs say what they need themselves.
    pub(crate) fn note_stack(&self, bytes: u64) {
        self.stack.fetch_max(bytes, Relaxed);
    }

    /// Charges random bytes.
    pub(crate) fn charge_random(&self, bytes: u64) -> Result<(), LimitExceeded> {
        let used = self.random.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if used > self.limits.random { Err(self.stop(Limit::Random)) } else { Ok(()) }
    }

    /// Charges fuel; returns what is left for all programs together. What goes over the limit ends
    /// the invocation.
    pub(crate) fn burn(&self, fuel: u64) -> u64 {
        let burnt = self.burnt.fetch_add(fuel, Relaxed).saturating_add(fuel);
        let limit = self.limits.fuel.unwrap_or(0);
        if burnt > limit {
            self.stop(Limit::Fuel);
        }
        limit.saturating_sub(burnt)
    }

    /// Fuel burnt, over the limit too.
    pub(crate) fn all_burnt(&self) -> u64 {
        self.burnt.load(Relaxed)
    }

    /// Fuel burnt. Programs that ran side by side may have burnt a little over the limit before
    /// they were stopped; what is over is not told.
    pub(crate) fn burnt(&self) -> u64 {
        self.burnt.load(Relaxed).min(self.limits.fuel.unwrap_or(0))
    }

    /// Highest memory alive at once.
    pub(crate) fn memory_peak(&self) -> u64 {
        self.memory_peak.load(Relaxed)
    }

    fn grow_memory(&self, bytes: u64) -> bool {
        let before = self.memory.fetch_add(bytes, Relaxed);
        if before.saturating_add(bytes) > self.limits.memory {
            self.memory.fetch_sub(bytes, Relaxed);
            self.hit(Limit::Memory);
            return false;
        }
        self.memory_peak.fetch_max(before + bytes, Relaxed);
        true
    }
}

/// Bytes that the host keeps for a guest outside its store: what a started program is given to read
/// and what it has written. They count as memory, since programs that are started side by side
/// would otherwise fill the host's; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    meter: Arc<Meter>,
    bytes: u64,
}

impl Held {
    pub(crate) fn nothing(meter: Arc<Meter>) -> Held {
        Held { meter, bytes: 0 }
    }

    /// Counts more; `false`, and nothing counted, where that is over the limit.
    pub(crate) fn grow(&mut self, bytes: u64) -> bool {
        let fits = self.meter.grow_memory(bytes);
        if fits {
            self.bytes += bytes;
        }
        fits
    }

    /// Gives all of it back.
    pub(crate) fn release(&mut self) {
        self.meter.memory.fetch_sub(std::mem::take(&mut self.bytes), Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

/// The error that a host call ends a guest with when a limit is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("limit {0} exceeded")]
pub(crate) struct LimitExceeded(pub(crate) Limit);

/// One store's hold on the meter; gives its memory back when the store is gone.
#[derive(Debug)]
pub(crate) struct StoreMeter {
    meter: Arc<Meter>,
    memory: Held,
    table_elements: u64,
    /// Whether the last growth was one that a memory or a table forbids itself.
    forbidden: bool,
}

impl StoreMeter {
    pub(crate) fn new(meter: Arc<Meter>) -> StoreMeter {
        StoreMeter {
            memory: Held::nothing(meter.clone()),
            meter,
            table_elements: 0,
            forbidden: false,
        }
    }
}

/// The most that a 32-bit memory holds, in bytes.
const MEMORY_MAX: usize = 4 << 30;

impl StoreMeter {
    /// What the guest is told of: unless it is the machine's memory that is short, and the run has
    /// to be the same on all.
    fn grow_failed(&self, error: wasmtime::Error) -> wasmtime::Result<()> {
        if self.forbidden || !self.meter.is_deterministic() {
            return Ok(());
        }
        self.meter.abort(format!("the machine has no memory left for the guest: {error}"));
        Err(error)
    }
}

impl ResourceLimiter for StoreMeter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.forbidden = desired > maximum.unwrap_or(MEMORY_MAX);
        Ok(self.memory.grow(desired.saturating_sub(current) as u64))
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        self.grow_failed(error)
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        self.grow_failed(error)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.forbidden = desired > maximum.unwrap_or(usize::MAX);
        let more = desired.saturating_sub(current) as u64;
        let fits = self.table_elements.saturating_add(more) <= self.meter.limits.table_elements;
        if fits {
            self.table_elements += more;
        } else {
            self.meter.hit(Limit::TableElements);
        }
        Ok(fits)
    }

    fn instances(&self) -> usize {
        usize::try_from(self.meter.limits.instances).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_the_machine_lacks_aborts_a_deterministic_run_and_what_a_memory_forbids_does_not()
    {
        let lacking = |deterministic, maximum| {
            let meter = Meter::new(Limits::default(), deterministic);
            let mut store = StoreMeter::new(meter.clone());
            assert!(store.memory_growing(0, 2 << 16, maximum).unwrap());
            let told = store.memory_grow_failed(wasmtime::Error::msg("no memory"));
            (told.is_ok(), meter.abort_reason().is_some())
        };
        assert_eq!(lacking(true, None), (false, true));
        assert_eq!(lacking(true, Some(4 << 16)), (false, true));
        assert_eq!(lacking(true, Some(1 << 16)), (true, false));
        assert_eq!(lacking(false, None), (true, false));
    }
}
