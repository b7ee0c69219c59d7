//! What a run has used of its limits, over all its programs, and which limits it hit.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Notify;
use wasmtime::ResourceLimiter;

use super::cpu_share::CpuShare;
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::LimitHit;

/// The counters of one run. Shared by all its stores.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) limits: Limits,
    hits: Mutex<Vec<Limit>>,
    stopped: OnceLock<Limit>,
    aborted: OnceLock<String>,
    /// Whether a failure that depends on the machine aborts the run, instead of being reported to
    /// the guest.
    deterministic: bool,
    wake: Notify,
    memory: AtomicU64,
    memory_peak: AtomicU64,
    random: AtomicU64,
    pub(crate) processes: AtomicU64,
    alive: AtomicU64,
    pub(crate) cpu_share: Option<CpuShare>,
    pub(crate) epochs: AtomicU64,
    /// Fuel that all programs have burnt, as far as it was charged.
    burnt: AtomicU64,
    /// The largest stack of a program, in bytes.
    stack: AtomicU64,
}

/// A started program that counts as running.
#[derive(Debug)]
pub(crate) struct AliveProgram(Arc<Meter>);

impl Drop for AliveProgram {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Relaxed);
    }
}

impl Meter {
    /// Makes the meter of a run.
    pub(crate) fn new(limits: Limits, deterministic: bool) -> Arc<Meter> {
        Arc::new(Meter {
            // How long a deterministic run takes must not matter to it.
            cpu_share: limits.cpu_share.filter(|_| !deterministic).map(CpuShare::new),
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
            alive: AtomicU64::new(0),
            epochs: AtomicU64::new(0),
            burnt: AtomicU64::new(0),
            stack: AtomicU64::new(0),
        })
    }

    /// Notes a limit that the guest hit and may recover from.
    pub(crate) fn hit(&self, limit: Limit) {
        let mut hits = self.hits.lock().unwrap_or_else(PoisonError::into_inner);
        if !hits.contains(&limit) {
            hits.push(limit);
        }
    }

    /// Notes a limit that ends the whole run now.
    pub(crate) fn stop(&self, limit: Limit) -> LimitExceeded {
        self.hit(limit);
        let first = *self.stopped.get_or_init(|| limit);
        self.wake.notify_waiters();
        LimitExceeded(first)
    }

    /// Returns the limit that ended the run.
    pub(crate) fn stop_reason(&self) -> Option<Limit> {
        self.stopped.get().copied()
    }

    /// Resolves to the limit when one ends the run.
    pub(crate) async fn stopped(&self) -> Limit {
        loop {
            let woken = self.wake.notified();
            if let Some(limit) = self.stop_reason() {
                return limit;
            }
            woken.await;
        }
    }

    /// Ends a deterministic run without a result, for a reason that depends on the machine.
    pub(crate) fn abort(&self, reason: String) {
        self.aborted.get_or_init(|| reason);
        self.wake.notify_waiters();
    }

    /// Returns why the run ends without a result.
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

    /// Checks whether a failure that depends on the machine aborts the run.
    pub(crate) fn is_deterministic(&self) -> bool {
        self.deterministic
    }

    /// Counts a program as running until the result is dropped. `None` if too many run.
    pub(crate) fn charge_alive(self: &Arc<Meter>) -> Option<AliveProgram> {
        if self.alive.fetch_add(1, Relaxed) < self.limits.processes_alive {
            return Some(AliveProgram(self.clone()));
        }
        self.alive.fetch_sub(1, Relaxed);
        self.hit(Limit::ProcessesAlive);
        None
    }

    /// Returns the limits that were hit, in order.
    pub(crate) fn hits(&self) -> Vec<LimitHit> {
        let hits = self.hits.lock().unwrap_or_else(PoisonError::into_inner);
        hits.iter().map(|&limit| LimitHit { limit, value: self.value(limit) }).collect()
    }

    /// Returns the value of a limit that applied to the run.
    pub(crate) fn value(&self, limit: Limit) -> u64 {
        match (limit, self.stack.load(Relaxed)) {
            (Limit::Stack, given @ 1..) => given,
            _ => self.limits.get(limit).unwrap_or(0),
        }
    }

    /// Notes the size of a program's stack, in bytes: programs declare what they need.
    pub(crate) fn note_stack(&self, bytes: u64) {
        self.stack.fetch_max(bytes, Relaxed);
    }

    /// Charges random bytes.
    pub(crate) fn charge_random(&self, bytes: u64) -> Result<(), LimitExceeded> {
        let used = self.random.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if used > self.limits.random { Err(self.stop(Limit::Random)) } else { Ok(()) }
    }

    /// Charges fuel; returns what is left for all programs together. More than the limit ends the
    /// run.
    pub(crate) fn burn(&self, fuel: u64) -> u64 {
        let burnt = self.burnt.fetch_add(fuel, Relaxed).saturating_add(fuel);
        let limit = self.limits.fuel.unwrap_or(0);
        if burnt > limit {
            self.stop(Limit::Fuel);
        }
        limit.saturating_sub(burnt)
    }

    /// Returns the fuel burnt, including any over the limit.
    pub(crate) fn all_burnt(&self) -> u64 {
        self.burnt.load(Relaxed)
    }

    /// Returns the fuel burnt, at most the limit. Programs that ran side by side may have burnt a
    /// little more before they were stopped.
    pub(crate) fn burnt(&self) -> u64 {
        self.burnt.load(Relaxed).min(self.limits.fuel.unwrap_or(0))
    }

    /// Returns the most memory that was in use at once, in bytes.
    pub(crate) fn memory_peak(&self) -> u64 {
        self.memory_peak.load(Relaxed)
    }

    /// Returns the memory that all programs use, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.load(Relaxed)
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

/// Memory that the host uses for a guest outside its store, such as the input and output of started
/// programs. It counts as memory of the run: otherwise programs started side by side could fill the
/// host's memory. It is released when dropped.
#[derive(Debug)]
pub(crate) struct HostMemory {
    meter: Arc<Meter>,
    bytes: u64,
}

impl HostMemory {
    pub(crate) fn new(meter: Arc<Meter>) -> HostMemory {
        HostMemory { meter, bytes: 0 }
    }

    /// Charges more bytes. Returns `false`, and charges nothing, if that exceeds the limit.
    pub(crate) fn grow(&mut self, bytes: u64) -> bool {
        let fits = self.meter.grow_memory(bytes);
        if fits {
            self.bytes += bytes;
        }
        fits
    }

    /// Releases all of it.
    pub(crate) fn release(&mut self) {
        self.meter.memory.fetch_sub(std::mem::take(&mut self.bytes), Relaxed);
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        self.release();
    }
}

/// The error with which a host call ends a guest that exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("limit {0} exceeded")]
pub(crate) struct LimitExceeded(pub(crate) Limit);

/// What one store uses; released with the store.
#[derive(Debug)]
pub(crate) struct StoreMeter {
    meter: Arc<Meter>,
    memory: HostMemory,
    table_elements: u64,
    /// Whether the last growth exceeded the memory's or table's own maximum.
    over_maximum: bool,
}

impl StoreMeter {
    pub(crate) fn new(meter: Arc<Meter>) -> StoreMeter {
        StoreMeter {
            memory: HostMemory::new(meter.clone()),
            meter,
            table_elements: 0,
            over_maximum: false,
        }
    }

    /// Returns the meter of the run.
    pub(crate) fn of_run(&self) -> &Meter {
        &self.meter
    }

    /// Returns the memory of the store, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.bytes
    }
}

/// The maximum size of a 32-bit memory, in bytes.
const MEMORY_MAX: usize = 4 << 30;

impl StoreMeter {
    /// Reports a failed growth to the guest. A deterministic run is aborted instead if the machine
    /// lacks memory.
    fn grow_failed(&self, error: wasmtime::Error) -> wasmtime::Result<()> {
        if self.over_maximum || !self.meter.is_deterministic() {
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
        self.over_maximum = desired > maximum.unwrap_or(MEMORY_MAX);
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
        self.over_maximum = desired > maximum.unwrap_or(usize::MAX);
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
    fn only_a_lack_of_machine_memory_aborts_deterministic_runs() {
        let lacking = |deterministic, maximum| {
            let meter = Meter::new(Limits::default(), deterministic);
            let mut store = StoreMeter::new(meter.clone());
            assert!(store.memory_growing(0, 2 << 16, maximum).unwrap());
            let result = store.memory_grow_failed(wasmtime::Error::msg("no memory"));
            (result.is_ok(), meter.abort_reason().is_some())
        };
        assert_eq!(lacking(true, None), (false, true));
        assert_eq!(lacking(true, Some(4 << 16)), (false, true));
        assert_eq!(lacking(true, Some(1 << 16)), (true, false));
        assert_eq!(lacking(false, None), (true, false));
    }
}
