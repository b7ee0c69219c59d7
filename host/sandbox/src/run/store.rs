//! Runs one program in its own store, within its limits.

use std::sync::Arc;

use serde_json::Value;
use tracing::{Instrument as _, debug_span};
use wasmtime::component::ResourceTable;
use wasmtime::{AsContextMut as _, Store};
use wasmtime_wasi::{I32Exit, WasiCtxBuilder};
use wasmtime_wasi_http::WasiHttpCtx;

use super::deadline;
use super::invocation::Invocation;
use super::sandbox::Prepared;
use super::state::State;
use crate::determinism::Turn;
use crate::determinism::randomness::RandomSource;
use crate::engine::{ProgramEnd, stack};
use crate::http::hooks::Hooks;
use crate::limits::fuel::{self, Fuel};
use crate::limits::{StoreMeter, WithinShare};
use crate::process::{Children, Parent, ProgramIo};
use crate::python::{Lines, lines};
use crate::shell;
use crate::tools::{HostWork, call as tools};
use skillhost_skill::runtime::{EntryPoint, Program};

/// A program's store. What the guest has written and kept is passed on when the store is dropped,
/// also if the program is stopped while it waits for the host.
struct Running(Store<State>);

impl Drop for Running {
    fn drop(&mut self) {
        lines::pass_on_last(&mut self.0);
    }
}

impl Invocation {
    /// Runs one program in its own store. When this returns, the program's ends of all streams
    /// are closed.
    pub(super) async fn execute(
        self: &Arc<Self>,
        program: &Program,
        prepared: &Prepared,
        io: ProgramIo,
    ) -> ProgramEnd {
        self.meter.note_stack(stack(&program.component, &self.meter.limits));
        let (mut stdout, mut stderr) = (io.stdout.clone(), io.stderr.clone());
        let entry = program.entry.clone();
        let ended = match self.store(program, prepared, io) {
            Ok(store) => {
                let mut running = Running(store);
                let store = &mut running.0;
                let result = match store.data().turn.clone() {
                    None if self.meter.cpu_share.is_some() => {
                        let program = call(store, prepared, self, entry);
                        WithinShare::new(program, self.meter.clone()).await
                    }
                    None => call(store, prepared, self, entry).await,
                    Some(turn) => {
                        turn.each(
                            prepared.pre.engine(),
                            &self.meter,
                            call(store, prepared, self, entry),
                        )
                        .await
                    }
                };
                fuel::charge(&mut store.as_context_mut());
                if matches!(result, Ok(ProgramEnd::Exited(_)))
                    || result.as_ref().is_err_and(|error| error.is::<I32Exit>())
                {
                    self.processes.adopt(std::mem::take(&mut store.data_mut().parent.children));
                }
                debug_span!("drop").in_scope(|| drop(running));
                result
            }
            Err(error) => Err(error),
        };
        stdout.finish().await;
        stderr.finish().await;
        ended.unwrap_or_else(|error| ProgramEnd::of_error(&error, &self.meter))
    }

    fn host_work(&self) -> HostWork {
        HostWork { meter: self.meter.clone(), deterministic: self.deterministic.clone() }
    }

    fn store(
        self: &Arc<Self>,
        program: &Program,
        prepared: &Prepared,
        io: ProgramIo,
    ) -> wasmtime::Result<Store<State>> {
        let limits = &self.meter.limits;
        let handles = usize::try_from(limits.handles)?;
        let host_call = usize::try_from(limits.host_call)?;

        let mut wasi = WasiCtxBuilder::new();
        wasi.stdin(io.stdin.clone()).stdout(io.stdout.clone()).stderr(io.stderr.clone());
        wasi.arg(&program.name).args(&program.args).initial_cwd(&io.cwd);
        let denied = shell::denied_commands(program, self.processes.rules());
        // A caller cannot set or remove the shell's denials.
        for (name, value) in
            io.env.iter().filter(|(name, _)| denied.is_none() || name != shell::DENIED_COMMANDS)
        {
            wasi.env(name, value);
        }
        if let Some(names) = denied.filter(|names| !names.is_empty()) {
            wasi.env(shell::DENIED_COMMANDS, names);
        }
        // Denied by default; set here in case that default changes.
        wasi.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);

        let mut table = ResourceTable::new();
        table.set_max_capacity(handles);
        let state = State {
            invocation: self.clone(),
            fuel: Fuel::new(self.meter.clone(), io.cost),
            turn: self.deterministic.as_ref().map(|_| Turn::default()),
            randomness: self
                .deterministic
                .as_ref()
                .map_or(RandomSource::Host, |run| RandomSource::Seeded(run.randomness(io.number))),
            lines: Lines::new(io.stdout.clone()),
            parent: Parent {
                depth: io.depth,
                env: io.env,
                cwd: io.cwd,
                stdin: io.stdin,
                stdout: io.stdout,
                stderr: io.stderr,
                children: Children::default(),
            },
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
        deadline::check_at_epochs(&mut store);
        Ok(store)
    }
}

async fn call(
    store: &mut Store<State>,
    prepared: &Prepared,
    invocation: &Invocation,
    entry: EntryPoint,
) -> wasmtime::Result<ProgramEnd> {
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
            Ok(ProgramEnd::Exited(if result.is_ok() { 0 } else { 1 }))
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
            Ok(ProgramEnd::Exited(if result.is_ok() { 0 } else { 1 }))
        }
        EntryPoint::Tool { name, input, scripts } => {
            let host = invocation.host_work();
            let result = tools::call(store, &prepared.pre, &host, &name, input, &scripts).await;
            result.map(ProgramEnd::Tool)
        }
        EntryPoint::ListTools if !prepared.exports.tools => {
            Ok(ProgramEnd::Tool(Ok(Value::Array(Vec::new()))))
        }
        EntryPoint::ListTools => {
            let host = invocation.host_work();
            tools::list(store, &prepared.pre, &host).await.map(ProgramEnd::Tool)
        }
    }
}
