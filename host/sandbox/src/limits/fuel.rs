//! Fuel, which the programs of a run have in common.
//!
//! A program's store holds as much as was left for all of them when it last settled, and the engine
//! ends it there. It settles when it starts another program, waits for one or for a stream, and
//! ends. So programs that run in turn are charged exactly, and the sum is the same in every run. In
//! between, each epoch charges what each program has burnt, and ends the run if the sum is over the
//! limit: programs that run side by side exceed it by no more than they burn in an epoch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wasmtime::{AsContextMut, Store, StoreContextMut};

use super::meter::Meter;

/// Fuel after which a store's count is brought up to date, also within a loop that calls nothing.
/// About a millisecond's.
pub(crate) const INTERVAL: u64 = 1 << 20;

/// What one program has cost, for its record.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    pub(crate) fuel: AtomicU64,
    pub(crate) epochs: AtomicU64,
}

/// The fuel of one store.
#[derive(Debug)]
pub(crate) struct Fuel {
    meter: Arc<Meter>,
    pub(crate) cost: Arc<Cost>,
    /// The store's count when it was last charged.
    counted: u64,
}

/// A store's data that has the fuel of its store.
pub(crate) trait HasFuel: Send + 'static {
    fn fuel(&mut self) -> &mut Fuel;

    /// Called with all fuel that the run has burnt so far: a deterministic run's clock moves by it.
    fn note_burnt(&self, fuel: u64);
}

impl Cost {
    pub(crate) fn new() -> Arc<Cost> {
        Arc::default()
    }
}

impl Fuel {
    pub(crate) fn new(meter: Arc<Meter>, cost: Arc<Cost>) -> Fuel {
        Fuel { meter, cost, counted: 0 }
    }
}

/// Gives a new store the remaining fuel.
pub(crate) fn fill<T: HasFuel>(store: &mut Store<T>) -> wasmtime::Result<()> {
    if store.data_mut().fuel().meter.limits.fuel.is_some() {
        store.fuel_async_yield_interval(Some(INTERVAL))?;
        settle(store.as_context_mut())?;
    }
    Ok(())
}

/// Charges the fuel used since the last charge, and gives the program what is left. Call it
/// only when the guest is not running: inside a host call, before it starts and after it has ended.
pub(crate) fn settle<T: HasFuel>(mut context: StoreContextMut<'_, T>) -> wasmtime::Result<()> {
    if let Some(left) = charge(&mut context) {
        context.set_fuel(left)?;
        context.data_mut().fuel().counted = left;
    }
    Ok(())
}

/// Charges the fuel that a program used since the last charge; returns what is left for all
/// programs, or `None` if no fuel is counted.
pub(crate) fn charge<T: HasFuel>(context: &mut StoreContextMut<'_, T>) -> Option<u64> {
    context.data_mut().fuel().meter.limits.fuel?;
    let now = context.get_fuel().ok()?;
    let data = context.data_mut();
    let fuel = data.fuel();
    let burnt = std::mem::replace(&mut fuel.counted, now).saturating_sub(now);
    fuel.cost.fuel.fetch_add(burnt, Relaxed);
    let left = fuel.meter.burn(burnt);
    let all = fuel.meter.all_burnt();
    data.note_burnt(all);
    Some(left)
}
