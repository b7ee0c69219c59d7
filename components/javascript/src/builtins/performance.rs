//! `node:perf_hooks`.

use std::cell::Cell;

use rquickjs::prelude::Func;
use rquickjs::{Ctx, Object};

use crate::system;

thread_local! {
    /// The wall clock in milliseconds, and the monotonic clock in nanoseconds, at the start.
    static ORIGIN: Cell<Option<(f64, u64)>> = const { Cell::new(None) };
}

pub(super) fn create<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    exports.set("time_origin", Func::from(|| origin().0))?;
    exports.set("monotonic_now", Func::from(elapsed))?;
    Ok(exports)
}

/// Notes the time at which the run began.
pub(crate) fn start() {
    ORIGIN.set(Some((system::wall_nanos() as f64 / 1e6, system::monotonic_nanos())));
}

/// Returns the milliseconds since the run began.
pub(crate) fn elapsed() -> f64 {
    system::monotonic_nanos().saturating_sub(origin().1) as f64 / 1e6
}

fn origin() -> (f64, u64) {
    // While the build starts the engine, there are no clocks.
    ORIGIN.get().unwrap_or_default()
}
