//! One program in a store of its own: what it is given, the bounds set on the store.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tracing::{Instrument as _, debug_span};
use wasmtime::{AsContextMut as _, Store, StoreContextMut, UpdateDeadline};
use wasmtime_wasi::{I32Exit, WasiCtxBuilder};
use wasmtime_wasi_http::WasiHttpCtx;

use super::invocation::Invocation;
use super::sandbox::Prepared;
use super::state::State;
use crate::determinism::randomness::Source;
use crate::determinism::turns::Turn;
use crate::engine::Ended;
use crate::engine::stack;
use crate::http::hooks::Hooks;
use crate::limits::fuel::{self, Cost};
use crate::limits::{LimitExceeded, StoreMeter};
use crate::process::Children;
use crate::shell;
use crate::streams::{Input, Out};
use crate::tools::call as tools;
use skillhost_skill::runtime::{EntryPoint, Program};

/// What a program is given beside its capabilities.
pub(crate) struct ProgramIo {
    pub(crate) stdin: Input,
    pub(crate) stdout: Out,
    pub(crate) stderr: Out,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: String,
    pub(crate) depth: u64,
    /// Where its cost is counted.
    pub(crate) cost: Arc<Cost>,
    /// Counts from 1, in the order of the starts.
    pub(crate) number: u64,
}

impl Invocation {
    /// Runs one program in a store of its own. When it returns, the program's ends of all streams
    /// are closed.
    pub(crate) async fn execute(
        self: &Arc<Self>,
        program: &Program,
        prepared: &Prepared,
        given: ProgramIo,
    ) -> Ended {
        self.meter.note_stack(stack(&program.component, &self.meter.limits));
        let (mut stdout, mut stderr) = (given.stdout.clone(), given.stderr.clone());
        let entry = program.entry.clone();
        let ended = match self.store(program, prepared, given) {
            Ok(mut store) => {
                let result = match store.data().turn.clone() {
                    None => call(&mut store, prepared, entry).await,
                    Some(turn) => {
                        turn.each(
                            prepared.pre.engine(),
                            &self.meter,
                            call(&mut store, prepared, entry),
                        )
                        .await
                    }
                };
                fuel::look(&mut store.as_context_mut());
                if matches!(result, Ok(Ended::Exited(_)))
                    || result.as_ref().is_err_and(|error| error.is::<I32Exit>())
                {
                    self.orphans.adopt(std::mem::take(&mut store.data_mut().children));
                }
                debug_span!("drop").in_scope(|| drop(store));
                result
            }
            Err(error) => Err(error),
        };
        stdout.finish().await;
        stderr.finish().await;
        ended.unwrap_or_else(|error| Ended::by(&error, &self.meter))
    }

    fn store(
        self: &Arc<Self>,
        program: &Program,
        prepared: &Prepared,
        given: ProgramIo,
    ) -> wasmtime::Result<Store<State>> {
        let limits = &self.meter.limits;
        let handles = usize::try_from(limits.handles)?;
        let host_call = usize::try_from(limits.host_call)?;

        let mut wasi = WasiCtxBuilder::new();
        wasi.stdin(given.stdin.clone()).stdout(given.stdout.clone()).stderr(given.stderr.clone());
        wasi.arg(&program.name).args(&program.args).initial_cwd(&given.cwd);
        let denied = shell::of(program, &self.capabilities.spawn);
        // A caller sets none of the shell's denials, and takes none away.
        for (name, value) in
            given.env.iter().filter(|(name, _)| denied.is_none() || name != shell::VARIABLE)
        {
            wasi.env(name, value);
        }
        if let Some(names) = denied.filter(|names| !names.is_empty()) {
            wasi.env(shell::VARIABLE, names);
        }
        // Denied already by default; said here so that a change of that default changes nothing.
        wasi.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);

        let mut table = wasmtime::component::ResourceTable::new();
        table.set_max_capacity(handles);
        let state = State {
            invocation: self.clone(),
            fuel: 0,
            cost: given.cost,
            turn: self.fixed.as_ref().map(|_| Turn::default()),
            chance: self
                .fixed
                .as_ref()
                .map_or(Source::Host, |fixed| Source::Seeded(fixed.chance(given.number))),
            depth: given.depth,
            env: given.env,
            cwd: given.cwd,
            stdin: given.stdin,
            stdout: given.stdout,
            stderr: given.stderr,
            children: Children::default(),
            meter: StoreMeter::new(self.meter.clone()),
            table,
            wasi: wasi.build(),
            http: WasiHttpCtx::new(),
            hooks: Hooks(self.sender.clone()),
        };
        let mut store = Store::new(prepared.pre.engine(), state);
        store.limiter(|state| &mut state.meter);
        store.set_hostcall_fuel(host_call);
        store.set_max_component_handles(handles);
        if let Some(table) = store.concurrent_resource_table() {
            table.set_max_capacity(handles);
        }
        fuel::fill(&mut store)?;
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|mut context| {
            if let Some(turn) = &context.data().turn {
                let begun = turn.take();
                return look_at_turn(context, begun);
            }
            fuel::look(&mut context);
            let State { invocation, cost, .. } = context.data();
            let meter = &invocation.meter;
            meter.epochs.fetch_add(1, Relaxed);
            cost.epochs.fetch_add(1, Relaxed);
            match meter.stop_reason() {
                Some(limit) => Err(LimitExceeded(limit).into()),
                // Others get their turn: the deadline outside, and other guests of this thread.
                None => Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now()))),
            }
        });
        Ok(store)
    }
}

/// The epoch of a deterministic run: its program is looked at once a turn, when that has `begun`;
/// or the run ends without a result.
fn look_at_turn(
    mut context: StoreContextMut<'_, State>,
    begun: bool,
) -> wasmtime::Result<UpdateDeadline> {
    if context.data().invocation.meter.abort_reason().is_some() {
        wasmtime::bail!("the run was aborted");
    }
    if begun {
        fuel::look(&mut context);
        if let Some(limit) = context.data().invocation.meter.stop_reason() {
            return Err(LimitExceeded(limit).into());
        }
    }
    Ok(UpdateDeadline::Continue(1))
}

async fn call(
    store: &mut Store<State>,
    prepared: &Prepared,
    entry: EntryPoint,
) -> wasmtime::Result<Ended> {
    match entry {
        EntryPoint::Command if prepared.exports.run_p3 => {
            let command = wasmtime_wasi::p3::bindings::CommandPre::new(prepared.pre.clone())?;
            let command = command
                .instantiate_async(&mut *store)
                .instrument(debug_span!("instantiate"))
                .await?;
            let run = store
                .run_concurrent(async |accessor| command.wasi_cli_run().call_run(accessor).await);
            let result = run.instrument(debug_span!("guest")).await??;
            Ok(Ended::Exited(if result.is_ok() { 0 } else { 1 }))
        }
        EntryPoint::Command => {
            let command = wasmtime_wasi::p2::bindings::CommandPre::new(prepared.pre.clone())?;
            let command = command
                .instantiate_async(&mut *store)
                .instrument(debug_span!("instantiate"))
                .await?;
            let result = command
                .wasi_cli_run()
                .call_run(&mut *store)
                .instrument(debug_span!("guest"))
                .await?;
            Ok(Ended::Exited(if result.is_ok() { 0 } else { 1 }))
        }
        EntryPoint::Tool { name, input, scripts } => {
            tools::call(store, prepared, &name, input, &scripts).await.map(Ended::Tool)
        }
        EntryPoint::ListTools => tools::list(store, prepared).await.map(Ended::Tool),
    }
}
