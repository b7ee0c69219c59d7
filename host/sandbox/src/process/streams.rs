//! Reads and writes pipes, and waits for several of them.

use std::future::poll_fn;
use std::task::Poll;

use wasmtime::component::Resource;

use super::bindings::skillhost::skill::process::{
    Error, HostReader, HostReaderWithStore, HostWriter, HostWriterWithStore,
};
use super::{Blocking, ProcessInterface, ProcessView, blocking};
use crate::limits::fuel::HasFuel;
use crate::streams::pipe::{CAPACITY, Reader, Writer};
use skillhost_policy::limits::Limit;

impl HostReader for ProcessView<'_> {
    fn drop(&mut self, this: Resource<Reader>) -> wasmtime::Result<()> {
        self.table.delete(this)?;
        Ok(())
    }
}

impl<T: HasFuel> HostReaderWithStore<T> for ProcessInterface {
    async fn read(
        mut host: Blocking<'_, T>,
        this: Resource<Reader>,
        max: u32,
        timeout_ms: Option<u32>,
    ) -> wasmtime::Result<Result<Vec<u8>, Error>> {
        let mut reader = host.get().table.get(&this)?.clone();
        let max = CAPACITY.min(usize::try_from(max)?);
        let bytes =
            blocking(&mut host, timeout_ms, poll_fn(|cx| reader.poll_read(cx, max))).await?;
        Ok(bytes.ok_or(Error::Timeout))
    }
}

impl HostWriter for ProcessView<'_> {
    fn drop(&mut self, this: Resource<Writer>) -> wasmtime::Result<()> {
        self.table.delete(this)?;
        Ok(())
    }
}

impl<T: HasFuel> HostWriterWithStore<T> for ProcessInterface {
    async fn write(
        host: Blocking<'_, T>,
        this: Resource<Writer>,
        data: Vec<u8>,
    ) -> wasmtime::Result<Result<u32, Error>> {
        write(host, &this, &data).await
    }

    async fn write_latin1(
        host: Blocking<'_, T>,
        this: Resource<Writer>,
        data: String,
    ) -> wasmtime::Result<Result<u32, Error>> {
        // Takes no more than fits into the pipe; the guest calls again with the rest.
        let fits = &data.as_bytes()[..data.len().min(CAPACITY)];
        if fits.is_ascii() {
            // Mostly ASCII text, in which every character is one byte.
            return write(host, &this, fits).await;
        }
        let bytes: Result<Vec<u8>, _> = data.chars().take(CAPACITY).map(u8::try_from).collect();
        let Ok(bytes) = bytes else { wasmtime::bail!("write-latin1: a character above U+00FF") };
        write(host, &this, &bytes).await
    }
}

async fn write<T: HasFuel>(
    mut host: Blocking<'_, T>,
    this: &Resource<Writer>,
    bytes: &[u8],
) -> wasmtime::Result<Result<u32, Error>> {
    let mut writer = host.get().table.get(this)?.clone();
    let written = blocking(&mut host, None, poll_fn(|cx| writer.poll_write(cx, bytes))).await?;
    match written {
        Some(Ok(count)) => Ok(Ok(u32::try_from(count)?)),
        Some(Err(_)) | None => Ok(Err(Error::Closed)),
    }
}

/// Pipe ends that are waited for together.
pub(super) struct PollSet {
    readers: Vec<Reader>,
    writers: Vec<Writer>,
}

impl PollSet {
    /// More ends than a program can hold cannot be valid.
    pub(super) fn of(
        view: &ProcessView<'_>,
        readers: &[Resource<Reader>],
        writers: &[Resource<Writer>],
    ) -> wasmtime::Result<PollSet> {
        let meter = &view.processes.meter;
        if (readers.len() + writers.len()) as u64 > meter.limits.handles {
            return Err(meter.stop(Limit::Handles).into());
        }
        Ok(PollSet {
            readers: readers
                .iter()
                .map(|reader| view.table.get(reader).cloned())
                .collect::<Result<_, _>>()?,
            writers: writers
                .iter()
                .map(|writer| view.table.get(writer).cloned())
                .collect::<Result<_, _>>()?,
        })
    }

    /// Waits until an end is ready; returns the indices of all that are.
    pub(super) async fn ready(&mut self) -> (Vec<u32>, Vec<u32>) {
        poll_fn(|cx| {
            let readers = indices(&mut self.readers, |reader| reader.poll_ready(cx));
            let writers = indices(&mut self.writers, |writer| writer.poll_ready(cx));
            if readers.is_empty() && writers.is_empty() {
                Poll::Pending
            } else {
                Poll::Ready((readers, writers))
            }
        })
        .await
    }
}

fn indices<T>(ends: &mut [T], mut ready: impl FnMut(&mut T) -> Poll<()>) -> Vec<u32> {
    (0..).zip(ends).filter_map(|(index, end)| ready(end).is_ready().then_some(index)).collect()
}
