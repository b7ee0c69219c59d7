//! What a program holds of one that it started.

use tokio::sync::watch;
use tokio::task::AbortHandle;
use wasmtime::AsContextMut as _;
use wasmtime::component::{Accessor, Resource};

use super::bindings::skillhost::skill::process::{HostChild, HostChildWithStore, Status};
use super::start::Running;
use super::{Blocking, ProcessInterface, ProcessView, blocking};
use crate::limits::fuel::{self, HasFuel};
use crate::streams::pipe::{Reader, Writer};

/// A program that was started.
#[expect(unreachable_pub, reason = "the generated bindings export it again")]
pub struct Child {
    id: u32,
    ends: Ends,
    status: watch::Receiver<Option<Status>>,
    abort: AbortHandle,
}

/// The caller's ends of the streams that were asked for as pipes, until they are taken.
#[derive(Default)]
pub(super) struct Ends {
    pub(super) stdin: Option<Writer>,
    pub(super) stdout: Option<Reader>,
    pub(super) stderr: Option<Reader>,
}

impl Child {
    pub(super) fn new(running: Running, ends: Ends) -> Child {
        Child { id: running.id, ends, abort: running.abort_handle(), status: running.leave() }
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
        blocking(&mut host, timeout_ms, ended(status)).await
    }

    async fn ended(
        accessor: &Accessor<T, Self>,
        this: Resource<Child>,
    ) -> wasmtime::Result<Status> {
        accessor.with(|mut access| fuel::settle(access.as_context_mut()))?;
        let status = accessor
            .with(|mut access| access.get().table.get(&this).map(|child| child.status.clone()))?;
        // Never at once: what a guest burns must not depend on which of the two was faster.
        tokio::task::yield_now().await;
        let status = ended(status).await;
        accessor.with(|mut access| fuel::settle(access.as_context_mut()))?;
        Ok(status)
    }

    async fn kill(mut host: Blocking<'_, T>, this: Resource<Child>) -> wasmtime::Result<()> {
        host.get().table.get(&this)?.abort.abort();
        Ok(())
    }
}

async fn ended(mut status: watch::Receiver<Option<Status>>) -> Status {
    // The program says how it ended before it lets go of its end.
    let status = status.wait_for(Option::is_some).await.map(|status| status.clone());
    status.ok().flatten().unwrap_or(Status::Killed)
}
