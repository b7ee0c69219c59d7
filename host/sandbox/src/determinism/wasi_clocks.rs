//! `wasi:clocks` 0.2 and 0.3 of deterministic runs: both read the run's clock, which each call
//! brings up to date. Waiting takes no real time.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::{Accessor, Linker, Resource};
use wasmtime::{AsContextMut as _, StoreContextMut};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};
use wasmtime_wasi::p3::bindings::clocks::system_clock::Instant;

use wasmtime_wasi::WasiView;

use super::clock::Clock;
use crate::limits::fuel::{self, HasFuel};

/// The resolution of both clocks, in nanoseconds.
const STEP: u64 = 1;

/// A store's data that has the clock of a deterministic run.
pub(crate) trait HasClock: HasFuel + WasiView {
    /// `None` if the run is not deterministic.
    fn clock(&self) -> Option<&Arc<Clock>>;
}

/// Links `wasi:clocks` 0.2.
pub(crate) fn add_p2_to_linker<T: HasClock>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    let mut wall = linker.instance("wasi:clocks/wall-clock@0.2.12")?;
    let datetime =
        |time: Duration| Datetime { seconds: time.as_secs(), nanoseconds: time.subsec_nanos() };
    wall.func_wrap("now", move |store, (): ()| Ok((datetime(clock(store)?.wall()),)))?;
    wall.func_wrap("resolution", move |_: StoreContextMut<'_, T>, (): ()| {
        Ok((datetime(Duration::from_nanos(STEP)),))
    })?;
    let mut monotonic = linker.instance("wasi:clocks/monotonic-clock@0.2.12")?;
    monotonic.func_wrap("now", |store, (): ()| Ok((clock(store)?.now(),)))?;
    monotonic.func_wrap("resolution", |_: StoreContextMut<'_, T>, (): ()| Ok((STEP,)))?;
    monotonic.func_wrap("subscribe-instant", |store, (at,): (u64,)| alarm(store, |_| at))?;
    monotonic.func_wrap("subscribe-duration", |store, (time,): (u64,)| {
        alarm(store, |now| now.saturating_add(time))
    })
}

/// Links `wasi:clocks` 0.3.
pub(crate) fn add_p3_to_linker<T: HasClock>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.instance("wasi:clocks/types@0.3.0")?;
    let mut wall = linker.instance("wasi:clocks/system-clock@0.3.0")?;
    wall.func_wrap("now", |store, (): ()| {
        let time = clock(store)?.wall();
        Ok((Instant { seconds: time.as_secs().try_into()?, nanoseconds: time.subsec_nanos() },))
    })?;
    wall.func_wrap("get-resolution", |_: StoreContextMut<'_, T>, (): ()| Ok((STEP,)))?;
    let mut monotonic = linker.instance("wasi:clocks/monotonic-clock@0.3.0")?;
    monotonic.func_wrap("now", |store, (): ()| Ok((clock(store)?.now(),)))?;
    monotonic.func_wrap("get-resolution", |_: StoreContextMut<'_, T>, (): ()| Ok((STEP,)))?;
    monotonic.func_wrap_concurrent("wait-until", |accessor, (at,): (u64,)| {
        Box::pin(wait(accessor, move |_| at))
    })?;
    monotonic.func_wrap_concurrent("wait-for", |accessor, (time,): (u64,)| {
        Box::pin(wait(accessor, move |now| now.saturating_add(time)))
    })
}

/// Returns the run's clock, after charging the fuel that the caller has burnt so far.
fn clock<T: HasClock>(mut store: StoreContextMut<'_, T>) -> wasmtime::Result<Arc<Clock>> {
    fuel::charge(&mut store);
    let clock = store.data().clock().cloned();
    clock.ok_or_else(|| wasmtime::Error::msg("a deterministic run has a clock"))
}

fn alarm<T: HasClock>(
    mut store: StoreContextMut<'_, T>,
    at: impl FnOnce(u64) -> u64,
) -> wasmtime::Result<(Resource<DynPollable>,)> {
    let clock = clock(store.as_context_mut())?;
    let at = at(clock.now());
    let table = store.data_mut().ctx().table;
    let alarm = table.push(Alarm { clock, at, yielded: false })?;
    Ok((subscribe(table, alarm)?,))
}

/// A time that a 0.2 guest waits for.
struct Alarm {
    clock: Arc<Clock>,
    at: u64,
    yielded: bool,
}

#[async_trait::async_trait]
impl Pollable for Alarm {
    async fn ready(&mut self) {
        if self.clock.now() < self.at {
            self.clock.until(self.at).await;
        } else if !std::mem::replace(&mut self.yielded, true) {
            // A guest that polls in a loop lets other programs run.
            tokio::task::yield_now().await;
        }
    }
}

async fn wait<T: HasClock>(
    accessor: &Accessor<T>,
    at: impl FnOnce(u64) -> u64,
) -> wasmtime::Result<()> {
    let clock = accessor.with(|mut access| clock(access.as_context_mut()))?;
    let at = at(clock.now());
    // Always yield: a guest that waits for no time in a loop lets other programs run.
    tokio::task::yield_now().await;
    clock.until(at).await;
    Ok(())
}
