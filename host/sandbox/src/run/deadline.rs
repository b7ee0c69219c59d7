//! Ends programs at the run's deadline and at its other limits: each program checks them at each
//! epoch. Output that a guest keeps is passed on at the same time.

use std::sync::atomic::Ordering::Relaxed;

use tokio::task::yield_now;
use wasmtime::{Store, StoreContextMut, UpdateDeadline};

use super::state::State;
use crate::limits::{LimitExceeded, Meter, fuel};
use crate::python::lines;

/// Returns the timer of a run's timeout. It is awaited outside of the stores' event loops: inside,
/// a spinning guest would keep it from being polled.
pub(super) fn timer(meter: &Meter) -> tokio::time::Sleep {
    tokio::time::sleep(meter.limits.timeout())
}

/// Checks the limits at each epoch of a program: it charges fuel, ends the program if the run has
/// reached a limit, and else lets others run.
pub(super) fn check_at_epochs(store: &mut Store<State>) {
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut context| {
        if let Some(turn) = &context.data().turn {
            let begun = turn.take();
            return check_turn(context, begun);
        }
        fuel::charge(&mut context);
        lines::pass_on(&mut context);
        let State { invocation, fuel, .. } = context.data();
        let meter = &invocation.meter;
        meter.epochs.fetch_add(1, Relaxed);
        fuel.cost.epochs.fetch_add(1, Relaxed);
        match meter.stop_reason() {
            Some(limit) => Err(LimitExceeded(limit).into()),
            // Let others run: the deadline outside, and other guests on this thread.
            None => Ok(UpdateDeadline::YieldCustom(1, Box::pin(yield_now()))),
        }
    });
}

/// Handles an epoch of a deterministic run. It charges fuel once per turn, when the turn has
/// `begun`. An aborted run ends without a result.
fn check_turn(
    mut context: StoreContextMut<'_, State>,
    begun: bool,
) -> wasmtime::Result<UpdateDeadline> {
    if context.data().invocation.meter.abort_reason().is_some() {
        wasmtime::bail!("the run was aborted");
    }
    if begun {
        fuel::charge(&mut context);
        lines::pass_on(&mut context);
        if let Some(limit) = context.data().invocation.meter.stop_reason() {
            return Err(LimitExceeded(limit).into());
        }
    }
    Ok(UpdateDeadline::Continue(1))
}
