//! Lets programs start programs: `skillhost:skill/process`. A started program is a component in a
//! fresh store of the same invocation, under the same capabilities and the rest of its limits.
//!
//! `start` decides whether a program may start, and starts it: `wrappers` resolves commands such as
//! `env`, and `unavailable` explains why a command does not exist. `child` is the caller's handle
//! of a program, `streams` the pipes between programs, and `children` ends programs with the one
//! that started them. `record` lists how each program ended. `host_program` runs the programs that
//! are no components: functions of the embedding application.

mod child;
mod children;
mod host_program;
mod processes;
mod record;
mod start;
mod streams;
mod unavailable;
mod wrappers;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use wasmtime::AsContextMut as _;
use wasmtime::component::{Access, Accessor, HasData, Linker, Resource, ResourceTable};

use crate::determinism::within;
use crate::engine::ProgramEnd;
use crate::limits::HostMemory;
use crate::limits::fuel::{self, HasFuel};
use crate::streams::pipe::{Reader, Writer, pipe};
use crate::streams::{self as stdio, Out, Stdin};
use child::{Child, PipeEnds};
use skillhost_policy::limits::Limit;
use start::{Caller, CommandRequest, Streams};

pub(crate) use children::Children;
pub(crate) use host_program::HostAccess;
pub use host_program::{HostCall, HostFunction, HostOutput, HostPrograms, PANIC_EXIT_CODE};
pub(crate) use processes::{Launcher, Parent, Processes, ProgramIo, Ready, StartRules};
pub(crate) use wrappers::wrapper_commands;

mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        reason = "generated from WIT, where the documentation is"
    )]
    wasmtime::component::bindgen!({
        inline: "package skillhost:host-process; world process-guest { import skillhost:skill/process@0.1.0; }",
        path: "wit",
        world: "skillhost:host-process/process-guest",
        imports: {
            "skillhost:skill/process.[drop]reader": trappable,
            "skillhost:skill/process.[drop]writer": trappable,
            "skillhost:skill/process.[drop]child": trappable,
            default: async | store | trappable,
        },
        with: {
            "skillhost:skill/process.reader": crate::streams::pipe::Reader,
            "skillhost:skill/process.writer": crate::streams::pipe::Writer,
            "skillhost:skill/process.child": super::child::Child,
        },
        require_store_data_send: true,
    });
}

use bindings::skillhost::skill::process::{self, Command, Completed, Error, Input, Output};

/// Selects [`ProcessView`] as the data of the bindings.
pub(crate) struct ProcessInterface;

impl HasData for ProcessInterface {
    type Data<'a> = ProcessView<'a>;
}

/// What the interface needs of a store's data.
pub(crate) struct ProcessView<'a> {
    /// The programs of the run.
    pub(crate) processes: &'a Arc<Processes>,
    /// The store's program.
    pub(crate) parent: &'a mut Parent,
    pub(crate) table: &'a mut ResourceTable,
}

/// Links the interface.
pub(crate) fn add_to_linker<T: HasFuel>(
    linker: &mut Linker<T>,
    get: fn(&mut T) -> ProcessView<'_>,
) -> wasmtime::Result<()> {
    process::add_to_linker::<T, ProcessInterface>(linker, get)
}

/// Access to a store, in a function that blocks its guest.
type Blocking<'a, T> = Access<'a, T, ProcessInterface>;

impl process::Host for ProcessView<'_> {}

impl<T: HasFuel> process::HostWithStore<T> for ProcessInterface {
    async fn run(
        accessor: &Accessor<T, Self>,
        command: Command,
    ) -> wasmtime::Result<Result<Completed, Error>> {
        accessor.with(|mut access| fuel::settle(access.as_context_mut()))?;
        let (processes, caller) = accessor.with(|mut access| {
            let view = access.get();
            (view.processes.clone(), Caller::of(view.parent))
        });
        let Command { argv, env, cwd, stdin } = command;
        let result = async {
            // Charged before the first await: any number of calls may wait.
            let mut reserved = HostMemory::new(processes.meter.clone());
            if !reserved.grow(stdin.len() as u64) {
                return Err(memory_limit());
            }
            let started =
                start::prepare(&processes, caller, CommandRequest { argv, env, cwd }).await?;
            let stdout = Out::of_child(Limit::Stdout, processes.meter.clone());
            let stderr = Out::of_child(Limit::Stderr, processes.meter.clone());
            let stdin = stdio::Input::new(Stdin::Bytes(stdin));
            let streams = Streams { stdin, stdout: stdout.clone(), stderr: stderr.clone() };
            let running = start::launch(&processes, started, streams);
            match running.wait().await {
                Some(ProgramEnd::Exited(exit_code)) => {
                    Ok(Completed { exit_code, stdout: stdout.take(), stderr: stderr.take() })
                }
                Some(ProgramEnd::Trapped(message)) => Err(Error::Trapped(message)),
                Some(ProgramEnd::Limit(limit)) => Err(Error::Limit(limit.to_string())),
                Some(ProgramEnd::Tool(_)) | None => {
                    Err(Error::Trapped("the program was stopped".into()))
                }
            }
        }
        .await;
        accessor.with(|mut access| fuel::settle(access.as_context_mut()))?;
        Ok(result)
    }

    async fn spawn(
        mut host: Blocking<'_, T>,
        argv: Vec<String>,
        env: Option<Vec<(String, String)>>,
        cwd: Option<String>,
        stdin: Input,
        stdout: Output,
        stderr: Output,
    ) -> wasmtime::Result<Result<Resource<Child>, Error>> {
        fuel::settle(host.as_context_mut())?;
        let processes = host.get().processes.clone();
        let caller = Caller::of(host.get().parent);
        let started =
            match start::prepare(&processes, caller, CommandRequest { argv, env, cwd }).await {
                Ok(started) => started,
                Err(error) => return Ok(Err(error)),
            };
        let view = host.get();
        let Some((streams, ends)) = connect(&view, stdin, stdout, stderr)? else {
            return Ok(Err(memory_limit()));
        };
        let running = start::launch(&processes, started, streams);
        view.parent.children.add(running.abort_handle());
        Ok(Ok(view.table.push(Child::new(running, ends))?))
    }

    async fn pipe(
        mut host: Blocking<'_, T>,
    ) -> wasmtime::Result<Result<(Resource<Reader>, Resource<Writer>), Error>> {
        let view = host.get();
        let Some((reader, writer)) = pipe(&view.processes.meter) else {
            return Ok(Err(memory_limit()));
        };
        Ok(Ok((view.table.push(reader)?, view.table.push(writer)?)))
    }

    async fn poll(
        mut host: Blocking<'_, T>,
        readers: Vec<Resource<Reader>>,
        writers: Vec<Resource<Writer>>,
        timeout_ms: Option<u32>,
    ) -> wasmtime::Result<(Vec<u32>, Vec<u32>)> {
        let mut ends = streams::PollSet::of(&host.get(), &readers, &writers)?;
        Ok(blocking(&mut host, timeout_ms, ends.ready()).await?.unwrap_or_default())
    }

    async fn ready(
        accessor: &Accessor<T, Self>,
        readers: Vec<Resource<Reader>>,
        writers: Vec<Resource<Writer>>,
    ) -> wasmtime::Result<(Vec<u32>, Vec<u32>)> {
        accessor.with(|mut access| fuel::settle(access.as_context_mut()))?;
        let mut ends =
            accessor.with(|mut access| streams::PollSet::of(&access.get(), &readers, &writers))?;
        // Always yields once: the fuel that a guest uses must not depend on which side was faster.
        tokio::task::yield_now().await;
        let ready = ends.ready().await;
        accessor.with(|mut access| fuel::settle(access.as_context_mut()))?;
        Ok(ready)
    }
}

/// Returns the program's and the caller's ends of its streams, or `None` if memory has no room for
/// a pipe.
fn connect(
    view: &ProcessView<'_>,
    stdin: Input,
    stdout: Output,
    stderr: Output,
) -> wasmtime::Result<Option<(Streams, PipeEnds)>> {
    let meter = &view.processes.meter;
    let mut ends = PipeEnds::default();
    let stdin = match stdin {
        Input::Inherit => view.parent.stdin.clone(),
        Input::None => stdio::Input::new(Stdin::Empty),
        Input::From(reader) => stdio::Input::Pipe(view.table.get(&reader)?.clone()),
        Input::Pipe => {
            let Some((reader, writer)) = pipe(meter) else { return Ok(None) };
            ends.stdin = Some(writer);
            stdio::Input::Pipe(reader)
        }
    };
    let output = |output: Output,
                  inherited: &Out,
                  joined: &Out,
                  end: &mut Option<Reader>|
     -> wasmtime::Result<Option<Out>> {
        Ok(Some(match output {
            Output::Inherit => inherited.clone(),
            Output::None => Out::discard(meter.clone()),
            Output::To(writer) => Out::pipe(view.table.get(&writer)?.clone(), meter.clone()),
            Output::ToStdout => joined.clone(),
            Output::Pipe => {
                let Some((reader, writer)) = pipe(meter) else { return Ok(None) };
                *end = Some(reader);
                Out::pipe(writer, meter.clone())
            }
        }))
    };
    let Some(stdout) = output(stdout, &view.parent.stdout, &view.parent.stdout, &mut ends.stdout)?
    else {
        return Ok(None);
    };
    let Some(stderr) = output(stderr, &view.parent.stderr, &stdout, &mut ends.stderr)? else {
        return Ok(None);
    };
    Ok(Some((Streams { stdin, stdout, stderr }, ends)))
}

/// Waits for a future, at most `timeout_ms`. Charges the guest before and after, and lets other
/// programs run meanwhile.
async fn blocking<T: HasFuel, R>(
    host: &mut Blocking<'_, T>,
    timeout_ms: Option<u32>,
    future: impl Future<Output = R>,
) -> wasmtime::Result<Option<R>> {
    fuel::settle(host.as_context_mut())?;
    let deterministic = host.get().processes.deterministic.clone();
    let value = match timeout_ms {
        None => Some(future.await),
        Some(ms) => {
            let mut future = std::pin::pin!(future);
            match futures::poll!(&mut future) {
                Poll::Ready(value) => Some(value),
                Poll::Pending => {
                    // A guest that polls in a loop must let the programs that it waits for run.
                    tokio::task::yield_now().await;
                    within(deterministic.as_deref(), Duration::from_millis(ms.into()), future).await
                }
            }
        }
    };
    fuel::settle(host.as_context_mut())?;
    Ok(value)
}

fn memory_limit() -> Error {
    Error::Limit(Limit::Memory.to_string())
}
