//! Fuel, which the programs of an invocation have in common.
//!
//! A program's store holds as much as was left for all of them when it last settled, and the engine
//! ends it there. It settles when it starts another program, waits for one or for a stream, and
//! ends; so programs that run in turn are charged exactly, and the sum is the same in every run. In
//! between, each epoch looks at what each has burnt, and ends the run where the sum is over the
//! limit: programs that run side by side go over it by no more than they burn in an epoch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wasmtime::{AsContextMut, Store, StoreContextMut};

use crate::run::State;

/// Fuel after which a store's count is brought up to date, within a loop that calls nothing too.
/// About a millisecond's.
pub(crate) const INTERVAL: u64 = 1 << 20;

/// What one program has cost, for its record.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    pub(crate) fuel: AtomicU64,
    pub(crate) epochs: AtomicU64,
}

/// Fuels a store that is new with what is left.
pub(crate) fn fill(store: &mut Store<State>) -> wasmtime::Result<()> {
    if store.data().invocation.capabilities.limits.fuel.is_some() {
        store.fuel_async_yield_interval(Some(INTERVAL))?;
        settle(store.as_context_mut())?;
    }
    Ok(())
}

/// Charges what a program has burnt since the last look, and lets it have what is left. Only where
/// the guest is not running: inside a host call, before it starts and after it has ended.
pub(crate) fn settle(mut context: StoreContextMut<'_, State>) -> wasmtime::Result<()> {
    if let Some(left) = look(&mut context) {
        context.set_fuel(left)?;
        context.data_mut().fuel = left;
    }
    Ok(())
}

/// Charges what a program has burnt since the last look; returns what is left for all. `None` where
/// no fuel is counted.
pub(crate) fn look(context: &mut StoreContextMut<'_, State>) -> Option<u64> {
    context.data().invocation.capabilities.limits.fuel?;
    let now = context.get_fuel().ok()?;
    let state = context.data_mut();
    let burnt = std::mem::replace(&mut state.fuel, now).saturating_sub(now);
    state.cost.fuel.fetch_add(burnt, Relaxed);
    let left = state.invocation.meter.burn(burnt);
    if let Some(fixed) = &state.invocation.fixed {
        fixed.clock.burnt(state.invocation.meter.all_burnt());
    }
    Some(left)
}

impl Cost {
    pub(crate) fn new() -> Arc<Cost> {
        Arc::default()
    }
}
