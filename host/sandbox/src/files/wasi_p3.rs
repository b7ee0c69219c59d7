//! `wasi:filesystem` 0.3 over the file layer, through wasmtime-wasi's traits. Operations run on the
//! calling thread, except `sync`.

use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;
use tokio::sync::oneshot;
use wasmtime::component::{
    Access, Accessor, FutureReader, Lift, Linker, Lower, Resource, StreamReader,
};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p3::bindings::clocks::system_clock::Instant;
use wasmtime_wasi::p3::bindings::filesystem::preopens;
use wasmtime_wasi::p3::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode,
    MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p3::filesystem::{FilesystemError, FilesystemResult};

use super::wasi::{Files, FsView, conversions};
use super::wasi_p3_streams::{Entries, FileSink, FileSource};
use super::{Handle, Metadata, NewTime, OpenFile, OpenOptions, Vfs};

type Fd = Resource<Descriptor>;
type Done = Result<(), ErrorCode>;

/// Links `types` and `preopens` of `wasi:filesystem` 0.3.
pub fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    get: fn(&mut T) -> FsView<'_>,
) -> wasmtime::Result<()> {
    types::add_to_linker::<T, Files>(linker, get)?;
    preopens::add_to_linker::<T, Files>(linker, get)
}

impl preopens::Host for FsView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Fd, String)>> {
        self.preopens()
    }
}

impl types::Host for FsView<'_> {
    fn convert_error_code(&mut self, error: FilesystemError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }
}

impl types::HostDescriptor for FsView<'_> {
    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        self.delete(&fd)
    }
}

impl<T: 'static> types::HostDescriptorWithStore<T> for Files {
    fn read_via_stream(
        mut store: Access<'_, T, Files>,
        fd: Fd,
        offset: u64,
    ) -> wasmtime::Result<(StreamReader<u8>, FutureReader<Done>)> {
        match file(&mut store, &fd, OpenFile::readable)? {
            Ok(file) => {
                let (end, ended) = oneshot::channel();
                let stream = StreamReader::new(&mut store, FileSource::new(file, offset, end))?;
                Ok((stream, FutureReader::new(&mut store, ended)?))
            }
            Err(e) => failed(&mut store, code(e)),
        }
    }

    fn write_via_stream(
        store: Access<'_, T, Files>,
        fd: Fd,
        data: StreamReader<u8>,
        offset: u64,
    ) -> wasmtime::Result<FutureReader<Done>> {
        write(store, &fd, data, Some(offset))
    }

    fn append_via_stream(
        store: Access<'_, T, Files>,
        fd: Fd,
        data: StreamReader<u8>,
    ) -> wasmtime::Result<FutureReader<Done>> {
        write(store, &fd, data, None)
    }

    fn read_directory(
        mut store: Access<'_, T, Files>,
        fd: Fd,
    ) -> wasmtime::Result<(StreamReader<DirectoryEntry>, FutureReader<Done>)> {
        let view = store.get();
        match view.vfs.read_dir(view.handle(&fd)?) {
            Ok(listing) => {
                let (end, ended) = oneshot::channel();
                let stream = StreamReader::new(&mut store, Entries::new(listing, end))?;
                Ok((stream, FutureReader::new(&mut store, ended)?))
            }
            Err(e) => failed(&mut store, code(e)),
        }
    }

    async fn advise(
        access: &Accessor<T, Files>,
        fd: Fd,
        _: u64,
        _: u64,
        _: Advice,
    ) -> FilesystemResult<()> {
        with(access, &fd, |_, handle| handle.file().map(|_| ()).map_err(|_| Errno::BADF))
    }

    async fn sync_data(access: &Accessor<T, Files>, fd: Fd) -> FilesystemResult<()> {
        let (handle, deterministic) =
            with(access, &fd, |vfs, handle| Ok((handle.clone(), vfs.times.is_some())))?;
        let Handle::File(file) = handle else { return Ok(()) };
        if deterministic {
            // On another thread, the call would end at an unpredictable moment.
            return file.sync().map_err(fail);
        }
        let done = tokio::task::spawn_blocking(move || file.sync()).await.unwrap_or(Err(Errno::IO));
        done.map_err(fail)
    }

    async fn sync(access: &Accessor<T, Files>, fd: Fd) -> FilesystemResult<()> {
        <Files as types::HostDescriptorWithStore<T>>::sync_data(access, fd).await
    }

    async fn get_flags(access: &Accessor<T, Files>, fd: Fd) -> FilesystemResult<DescriptorFlags> {
        with(access, &fd, |vfs, handle| Ok(flags(vfs, handle)))
    }

    async fn get_type(access: &Accessor<T, Files>, fd: Fd) -> FilesystemResult<DescriptorType> {
        with(access, &fd, |_, handle| Ok(kind_of(handle)))
    }

    async fn set_size(access: &Accessor<T, Files>, fd: Fd, size: u64) -> FilesystemResult<()> {
        with(access, &fd, |_, handle| handle.file()?.set_size(size))
    }

    async fn set_times(
        access: &Accessor<T, Files>,
        fd: Fd,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FilesystemResult<()> {
        with(access, &fd, |vfs, handle| {
            vfs.set_times(handle, new_time(accessed), new_time(modified))
        })
    }

    async fn create_directory_at(
        access: &Accessor<T, Files>,
        fd: Fd,
        path: String,
    ) -> FilesystemResult<()> {
        with(access, &fd, |vfs, handle| vfs.create_dir(handle, &path))
    }

    async fn stat(access: &Accessor<T, Files>, fd: Fd) -> FilesystemResult<DescriptorStat> {
        with(access, &fd, |vfs, handle| vfs.stat(handle).map(stat))
    }

    async fn stat_at(
        access: &Accessor<T, Files>,
        fd: Fd,
        how: PathFlags,
        path: String,
    ) -> FilesystemResult<DescriptorStat> {
        with(access, &fd, |vfs, handle| vfs.stat_at(handle, &path, follows(how)).map(stat))
    }

    async fn set_times_at(
        access: &Accessor<T, Files>,
        fd: Fd,
        how: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FilesystemResult<()> {
        with(access, &fd, |vfs, handle| {
            vfs.set_times_at(handle, &path, follows(how), new_time(accessed), new_time(modified))
        })
    }

    async fn link_at(
        _: &Accessor<T, Files>,
        _: Fd,
        _: PathFlags,
        _: String,
        _: Fd,
        _: String,
    ) -> FilesystemResult<()> {
        Err(fail(Errno::PERM))
    }

    async fn open_at(
        access: &Accessor<T, Files>,
        fd: Fd,
        how: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FilesystemResult<Fd> {
        let handle = with(access, &fd, |vfs, handle| {
            vfs.open_at(handle, &path, open_options(how, open, flags))
        })?;
        access.with(|mut store| store.get().push(handle)).map_err(FilesystemError::trap)
    }

    async fn readlink_at(
        access: &Accessor<T, Files>,
        fd: Fd,
        path: String,
    ) -> FilesystemResult<String> {
        with(access, &fd, |vfs, handle| vfs.read_link(handle, &path))
    }

    async fn remove_directory_at(
        access: &Accessor<T, Files>,
        fd: Fd,
        path: String,
    ) -> FilesystemResult<()> {
        with(access, &fd, |vfs, handle| vfs.remove_dir(handle, &path))
    }

    async fn rename_at(
        access: &Accessor<T, Files>,
        fd: Fd,
        path: String,
        new_fd: Fd,
        new_path: String,
    ) -> FilesystemResult<()> {
        let new_base = with(access, &new_fd, |_, handle| Ok(handle.clone()))?;
        with(access, &fd, |vfs, handle| vfs.rename(handle, &path, &new_base, &new_path))
    }

    async fn symlink_at(
        access: &Accessor<T, Files>,
        fd: Fd,
        target: String,
        path: String,
    ) -> FilesystemResult<()> {
        with(access, &fd, |vfs, handle| vfs.create_symlink(handle, &path, &target))
    }

    async fn unlink_file_at(
        access: &Accessor<T, Files>,
        fd: Fd,
        path: String,
    ) -> FilesystemResult<()> {
        with(access, &fd, |vfs, handle| vfs.remove_file(handle, &path))
    }

    async fn is_same_object(
        access: &Accessor<T, Files>,
        fd: Fd,
        other: Fd,
    ) -> wasmtime::Result<bool> {
        access.with(|mut store| {
            let view = store.get();
            Ok(view.handle(&fd)?.is_same(view.handle(&other)?))
        })
    }

    async fn metadata_hash(
        access: &Accessor<T, Files>,
        fd: Fd,
    ) -> FilesystemResult<MetadataHashValue> {
        with(access, &fd, |vfs, handle| Ok(hash(vfs.metadata_hash(handle))))
    }

    async fn metadata_hash_at(
        access: &Accessor<T, Files>,
        fd: Fd,
        how: PathFlags,
        path: String,
    ) -> FilesystemResult<MetadataHashValue> {
        with(access, &fd, |vfs, handle| vfs.metadata_hash_at(handle, &path, follows(how)).map(hash))
    }
}

conversions!();

/// Calls `act` with the files and the handle of a store, as most methods do.
fn with<T: 'static, R>(
    access: &Accessor<T, Files>,
    fd: &Fd,
    act: impl FnOnce(&Arc<Vfs>, &Handle) -> Result<R, Errno>,
) -> FilesystemResult<R> {
    access.with(|mut store| {
        let view = store.get();
        act(view.vfs, view.handle(fd)?).map_err(fail)
    })
}

/// Returns the open file behind a descriptor if it is one and `usable` accepts it.
fn file<T: 'static>(
    store: &mut Access<'_, T, Files>,
    fd: &Fd,
    usable: impl Fn(&OpenFile) -> bool,
) -> wasmtime::Result<Result<Arc<OpenFile>, Errno>> {
    let view = store.get();
    let file = view.handle(fd)?.file();
    Ok(file.and_then(|file| if usable(file) { Ok(file.clone()) } else { Err(Errno::BADF) }))
}

fn write<T: 'static>(
    mut store: Access<'_, T, Files>,
    fd: &Fd,
    mut data: StreamReader<u8>,
    offset: Option<u64>,
) -> wasmtime::Result<FutureReader<Done>> {
    let (end, ended) = oneshot::channel();
    match file(&mut store, fd, OpenFile::writable)? {
        Ok(file) => data.pipe(&mut store, FileSink::new(file, offset, end))?,
        Err(e) => {
            data.close(&mut store)?;
            let result = Err(code(e));
            return FutureReader::new(&mut store, async move { Ok::<_, wasmtime::Error>(result) });
        }
    }
    FutureReader::new(&mut store, ended)
}

/// Returns an empty stream, whose future reports the error.
fn failed<T: 'static, I>(
    store: &mut Access<'_, T, Files>,
    error: ErrorCode,
) -> wasmtime::Result<(StreamReader<I>, FutureReader<Done>)>
where
    I: Lower + Lift + Send + Sync + 'static,
{
    let stream = StreamReader::new(&mut *store, std::iter::empty())?;
    Ok((
        stream,
        FutureReader::new(&mut *store, async move { Ok::<_, wasmtime::Error>(Err(error)) })?,
    ))
}

pub(super) fn fail(errno: Errno) -> FilesystemError {
    code(errno).into()
}

/// Converts the result that a stream ends with.
pub(super) fn stream_end(result: Result<(), Errno>) -> Done {
    result.map_err(code)
}

pub(super) fn kind(file_type: FileType) -> DescriptorType {
    match file_type {
        FileType::Directory => DescriptorType::Directory,
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        _ => DescriptorType::Other(None),
    }
}

fn time((seconds, nanoseconds): (i64, u32)) -> Instant {
    Instant { seconds, nanoseconds }
}

fn new_time(new: NewTimestamp) -> NewTime {
    match new {
        NewTimestamp::NoChange => NewTime::BlobStore,
        NewTimestamp::Now => NewTime::Now,
        NewTimestamp::Timestamp(t) => NewTime::At(t.seconds, t.nanoseconds),
    }
}
