//! Programs that start programs: `skillhost:skill/process`. A started program is a component in a fresh store of the same
//! invocation, under the same capabilities and what is left of its limits.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use wasmtime::AsContextMut as _;
use wasmtime::component::{Accessor, HasSelf, Linker};

use super::ended::Ended;
use super::invocation::Invocation;
use super::meter::Held;
use super::state::State;
use super::stdio::{Input, Out, Stdin};
use super::store::Given;
use crate::limits::Limit;
use crate::outcome::Denial;
use crate::runtime::Program;
use crate::runtime::dispatch::HEAD;

mod bindings {
    #![allow(missing_docs, unreachable_pub, reason = "generated from WIT, where the documentation is")]
    wasmtime::component::bindgen!({
        inline: "package skillhost:host-process; world process-guest { import skillhost:skill/process@0.1.0; }",
        path: "../wit",
        world: "skillhost:host-process/process-guest",
        imports: { default: async | store | trappable },
        require_store_data_send: true,
    });
}

use bindings::skillhost::skill::process::{self, Command, Completed, Error};

/// Links the interface.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    process::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

/// What was asked to be started and may not be, for the outcome.
pub(super) fn denials(invocation: &Invocation) -> Vec<Denial> {
    invocation.spawn_denials.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl process::Host for State {}

impl process::HostWithStore<State> for HasSelf<State> {
    async fn run(accessor: &Accessor<State, Self>, what: Command) -> wasmtime::Result<Result<Completed, Error>> {
        let (invocation, fuel_turn, caller) = accessor.with(|mut access| {
            let state = access.get();
            (
                state.invocation.clone(),
                state.fuel_turn.clone(),
                Caller { depth: state.depth, env: state.env.clone(), cwd: state.cwd.clone() },
            )
        });
        // Before anything is waited for: any number of calls may wait.
        let mut held = Held::nothing(invocation.meter.clone());
        if !held.grow(size(&what)) {
            return Ok(Err(Error::Limit(Limit::Memory.to_string())));
        }
        let turn = match invocation.capabilities.limits.fuel {
            Some(_) => Some(fuel_turn.lock().await),
            None => None,
        };
        let fuel = match &turn {
            Some(_) => Some(accessor.with(|mut access| access.as_context_mut().get_fuel())?),
            None => None,
        };
        let task = AbortOnDrop(invocation.started.spawn(start(invocation.clone(), caller, what, fuel)));
        let (result, burnt) = task.join().await?;
        if turn.is_some() {
            accessor.with(|mut access| {
                let mut context = access.as_context_mut();
                let left = context.get_fuel()?.saturating_sub(burnt);
                context.set_fuel(left)
            })?;
        }
        Ok(result)
    }
}

struct Caller {
    depth: u64,
    env: Vec<(String, String)>,
    cwd: String,
}

/// A started program ends with the one that waits for it.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn join(mut self) -> Result<T, tokio::task::JoinError> {
        (&mut self.0).await
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

// Boxed: a program that starts itself would otherwise have a future of infinite size.
fn start(
    invocation: Arc<Invocation>,
    caller: Caller,
    what: Command,
    fuel: Option<u64>,
) -> futures::future::BoxFuture<'static, (Result<Completed, Error>, u64)> {
    Box::pin(async move {
        match check(&invocation, &caller, &what) {
            Err(error) => (Err(error), 0),
            Ok(program) => execute(&invocation, caller, what, program, fuel).await,
        }
    })
}

fn check(invocation: &Invocation, caller: &Caller, what: &Command) -> Result<Program, Error> {
    if what.argv.is_empty() {
        return Err(Error::NotFound("an empty command".into()));
    }
    if !invocation.capabilities.spawn.allows(|pattern| pattern.matches(&what.argv)) {
        return Err(Error::Denied(deny(invocation, &what.argv)));
    }
    let limits = &invocation.meter.limits;
    if caller.depth >= limits.process_depth {
        invocation.meter.hit(Limit::ProcessDepth);
        return Err(Error::Limit(format!("programs may start programs {} deep", limits.process_depth)));
    }
    if invocation.meter.processes.fetch_add(1, Relaxed) >= limits.processes {
        invocation.meter.processes.fetch_sub(1, Relaxed);
        invocation.meter.hit(Limit::Processes);
        return Err(Error::Limit(format!("{} programs may be started", limits.processes)));
    }
    let Some(programs) = &invocation.programs else { return Err(Error::NotFound("there are no programs here".into())) };
    let cwd = what.cwd.as_deref().unwrap_or(&caller.cwd);
    programs.start(&what.argv, cwd, |path| invocation.vfs.head(path, HEAD)).map_err(|error| Error::NotFound(error.message))
}

fn deny(invocation: &Invocation, argv: &[String]) -> String {
    let command = argv.join(" ");
    let program = argv[0].rsplit('/').next().unwrap_or(&argv[0]);
    let denial = Denial {
        what: format!("start `{}`", command.chars().take(200).collect::<String>()),
        rule: "no `Bash` entry that both the skill asks for and the policy allows covers it".into(),
        fix: Some(format!("`Bash({program}:*)` in the skill's allowed-tools, and `--allow 'Bash({program}:*)'`")),
    };
    let mut denials = invocation.spawn_denials.lock().unwrap_or_else(PoisonError::into_inner);
    if denials.len() < 100 && !denials.contains(&denial) {
        denials.push(denial.clone());
    }
    denial.rule
}

async fn execute(
    invocation: &Arc<Invocation>,
    caller: Caller,
    what: Command,
    program: Program,
    fuel: Option<u64>,
) -> (Result<Completed, Error>, u64) {
    let limits = &invocation.meter.limits;
    let prepared = match invocation.sandbox.prepare(&program.component, invocation.mode, limits).await {
        Ok(prepared) => prepared,
        Err(status) => return (Err(Error::NotFound(super::say(&status))), 0),
    };
    if let Some(status) = prepared.lacks(&program.entry) {
        return (Err(Error::NotFound(super::say(&status))), 0);
    }
    let stdout = Out::of_child(Limit::Stdout, invocation.meter.clone());
    let stderr = Out::of_child(Limit::Stderr, invocation.meter.clone());
    let given = Given {
        stdin: Input::new(Stdin::Bytes(what.stdin)),
        stdout: stdout.clone(),
        stderr: stderr.clone(),
        env: what.env.unwrap_or(caller.env),
        cwd: what.cwd.unwrap_or(caller.cwd),
        depth: caller.depth + 1,
        fuel,
    };
    let (ended, burnt) = invocation.execute(&program, &prepared, given).await;
    let result = match ended {
        Ended::Exited(exit_code) => Ok(Completed { exit_code, stdout: stdout.take(), stderr: stderr.take() }),
        Ended::Trapped(message) => Err(Error::Trapped(message)),
        Ended::Limit(limit) => Err(Error::Limit(limit.to_string())),
        Ended::Tool(_) => Err(Error::NotFound("a tool is no command".into())),
    };
    (result, burnt)
}

/// Bytes that the host keeps of a command while it runs.
fn size(what: &Command) -> u64 {
    let words = what.argv.iter().map(String::len);
    let env = what.env.iter().flatten().map(|(name, value)| name.len() + value.len());
    (what.stdin.len() + words.chain(env).sum::<usize>()) as u64
}
