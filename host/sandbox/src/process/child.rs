//! A program's handle of one that it started.

use tokio::sync::watch;
use tokio::task::AbortHandle;
use wasmtime::AsContextMut as _;
use wasmtime::component::{Accessor, Resource};

use super::bindings::skillhost::skill::process::{HostChild, HostChildWithStore, Status};
use super::start::RunningProgram;
use super::{Blocking, ProcessInterface, ProcessView, blocking};
use crate::limits::fuel::{self, HasFuel};
use crate::streams::pipe::{Reader, Writer};

/// A started program.
#[expect(unreachable_pub, reason = "the generated bindings export it again")]
pub struct Child {
    id: u32,
    ends: PipeEnds,
    status: watch::Receiver<Option<Status>>,
    abort: AbortHandle,
}

/// The caller's ends of the streams that it requested as pipes, until it takes them.
#[derive(Default)]
pub(super) struct PipeEnds {
    pub(super) stdin: Option<Writer>,
    pub(super) stdout: Option<Reader>,
    pub(super) stderr: Option<Reader>,
}

impl Child {
    pub(super) fn new(running: RunningProgram, ends: PipeEnds) -> Child {
        Child { id: running.id, ends, abort: running.abort_handle(), status: running.detach() }
    }
}

impl HostChild for ProcessView<'_> {
    fn drop(&mut self, this: Resource<Child>) -> wasmtime::Result<()> {
        self.table.delete(this)?;
        Ok(())
    }
}

impl<T: HasFuel> HostChildWithStore<T> for ProcessInterface {
    async fn id(mut host: Blocking<'_, T>, this: Resource<Child>) -> wasmtime::Result<u32> {
        Ok(host.get().table.get(&this)?.id)
    }

    async fn stdin(
        mut host: Blocking<'_, T>,
        this: Resource<Child>,
    ) -> wasmtime::Result<Option<Resource<Writer>>> {
        let table = host.get().table;
        let end = table.get_mut(&this)?.ends.stdin.take();
        Ok(end.map(|end| table.push(end)).transpose()?)
    }

    async fn stdout(
        mut host: Blocking<'_, T>,
        this: Resource<Child>,
    ) -> wasmtime::Result<Option<Resource<Reader>>> {
        let table = host.get().table;
        let end = table.get_mut(&this)?.ends.stdout.take();
        Ok(end.map(|end| table.push(end)).transpose()?)
    }

    async fn stderr(
        mut host: Blocking<'_, T>,
        this: Resource<Child>,
    ) -> wasmtime::Result<Option<Resource<Reader>>> {
        let table = host.get().table;
        let end = table.get_mut(&this)?.ends.stderr.take();
        Ok(end.map(|end| table.push(end)).transpose()?)
    }

    async fn wait(
        mut host: Blocking<'_, T>,
        this: Resource<Child>,
        timeout_ms: Option<u32>,
    ) -> wasmtime::Result<Option<Status>> {
        let status = host.get().table.get(&this)?.status.clone();
        blocking(&mut host, timeout_ms, wait_for_status(status)).await
    }

    async fn ended(
        accessor: &Accessor<T, Self>,
        this: Resource<Child>,
    ) -> wasmtime::Result<Status> {
        accessor.with(|mut access| fuel::settle(access.as_context_mut()))?;
        let status = accessor
            .with(|mut access| access.get().table.get(&this).map(|child| child.status.clone()))?;
        // Always yields once: the fuel that a guest uses must not depend on which program was
        // faster.
        tokio::task::yield_now().await;
        let status = wait_for_status(status).await;
        accessor.with(|mut access| fuel::settle(access.as_context_mut()))?;
        Ok(status)
    }

    async fn kill(mut host: Blocking<'_, T>, this: Resource<Child>) -> wasmtime::Result<()> {
        host.get().table.get(&this)?.abort.abort();
        Ok(())
    }
}

async fn wait_for_status(mut status: watch::Receiver<Option<Status>>) -> Status {
    // The program reports its status before it drops its end of the channel.
    let status = status.wait_for(Option::is_some).await.map(|status| status.clone());
    status.ok().flatten().unwrap_or(Status::Killed)
}
