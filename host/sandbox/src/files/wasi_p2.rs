//! `wasi:filesystem` 0.2 over the file layer, through the traits of wasmtime-wasi's synchronous
//! bindings, which also fit an asynchronous linker. Operations run on the calling thread: they take
//! microseconds, less than a switch to another thread.

use rustix::fs::FileType;
use rustix::io::Errno;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types::ErrorCode};
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry,
    DirectoryEntryStream, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue,
    NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult, IoError};

use super::wasi::{Files, FsView, conversions};
use super::wasi_p2_streams::{FileInput, FileOutput};
use super::{Handle, Listing, Metadata, NewTime, OpenOptions, Vfs};

type Fd = Resource<Descriptor>;

/// The most bytes that one `read` returns; a guest that wants more calls again.
const READ_MAX: u64 = 256 << 10;

/// Links `types` and `preopens` of `wasi:filesystem` 0.2.
pub fn add_to_linker<T: 'static>(
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
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<types::ErrorCode> {
        Ok(error.downcast()?.into())
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<IoError>,
    ) -> wasmtime::Result<Option<types::ErrorCode>> {
        let error = self.table.get(&error)?.downcast_ref::<std::io::Error>();
        Ok(error.and_then(Errno::from_io_error).map(|errno| code(errno).into()))
    }
}

impl HostDescriptor for FsView<'_> {
    fn advise(&mut self, fd: Fd, _: u64, _: u64, _: Advice) -> FsResult<()> {
        self.handle(&fd)?.file().map_err(|_| fail(Errno::BADF))?;
        Ok(())
    }

    fn sync_data(&mut self, fd: Fd) -> FsResult<()> {
        let Handle::File(file) = self.handle(&fd)? else { return Ok(()) };
        // These bindings cannot await; with several worker threads, another one takes over this
        // one's tasks meanwhile.
        let threads = tokio::runtime::Handle::try_current().map(|h| h.runtime_flavor());
        let done = match threads {
            Ok(tokio::runtime::RuntimeFlavor::MultiThread) => {
                tokio::task::block_in_place(|| file.sync())
            }
            _ => file.sync(),
        };
        done.map_err(fail)
    }

    fn sync(&mut self, fd: Fd) -> FsResult<()> {
        self.sync_data(fd)
    }

    fn get_flags(&mut self, fd: Fd) -> FsResult<DescriptorFlags> {
        Ok(flags(self.vfs, self.handle(&fd)?))
    }

    fn get_type(&mut self, fd: Fd) -> FsResult<DescriptorType> {
        Ok(kind_of(self.handle(&fd)?))
    }

    fn set_size(&mut self, fd: Fd, size: u64) -> FsResult<()> {
        self.handle(&fd)?.file().and_then(|file| file.set_size(size)).map_err(fail)
    }

    fn set_times(
        &mut self,
        fd: Fd,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        self.vfs
            .set_times(self.handle(&fd)?, new_time(accessed)?, new_time(modified)?)
            .map_err(fail)
    }

    fn read(&mut self, fd: Fd, length: u64, offset: u64) -> FsResult<(Vec<u8>, bool)> {
        let mut buffer = vec![0; usize::try_from(length.min(READ_MAX)).unwrap_or(0)];
        let count = self
            .handle(&fd)?
            .file()
            .and_then(|file| file.read_at(&mut buffer, offset))
            .map_err(fail)?;
        buffer.truncate(count);
        Ok((buffer, count == 0 && length > 0))
    }

    fn write(&mut self, fd: Fd, bytes: Vec<u8>, offset: u64) -> FsResult<u64> {
        let written = self
            .handle(&fd)?
            .file()
            .and_then(|file| file.write_at(&bytes, Some(offset)))
            .map_err(fail)?;
        Ok(written as u64)
    }

    fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<DirectoryEntryStream>> {
        let listing = self.vfs.read_dir(self.handle(&fd)?).map_err(fail)?;
        Ok(Resource::new_own(self.table.push(listing)?.rep()))
    }

    fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        self.vfs.create_dir(self.handle(&fd)?, &path).map_err(fail)
    }

    fn stat(&mut self, fd: Fd) -> FsResult<DescriptorStat> {
        self.vfs.stat(self.handle(&fd)?).map(stat).map_err(fail)
    }

    fn stat_at(&mut self, fd: Fd, how: PathFlags, path: String) -> FsResult<DescriptorStat> {
        self.vfs.stat_at(self.handle(&fd)?, &path, follows(how)).map(stat).map_err(fail)
    }

    fn set_times_at(
        &mut self,
        fd: Fd,
        how: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let (accessed, modified) = (new_time(accessed)?, new_time(modified)?);
        self.vfs
            .set_times_at(self.handle(&fd)?, &path, follows(how), accessed, modified)
            .map_err(fail)
    }

    fn link_at(&mut self, _: Fd, _: PathFlags, _: String, _: Fd, _: String) -> FsResult<()> {
        Err(fail(Errno::PERM))
    }

    fn open_at(
        &mut self,
        fd: Fd,
        how: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        let handle = self
            .vfs
            .open_at(self.handle(&fd)?, &path, open_options(how, open, flags))
            .map_err(fail)?;
        Ok(self.push(handle)?)
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        self.delete(&fd)
    }

    fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        self.vfs.read_link(self.handle(&fd)?, &path).map_err(fail)
    }

    fn remove_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        self.vfs.remove_dir(self.handle(&fd)?, &path).map_err(fail)
    }

    fn rename_at(&mut self, fd: Fd, path: String, new_fd: Fd, new_path: String) -> FsResult<()> {
        self.vfs.rename(self.handle(&fd)?, &path, self.handle(&new_fd)?, &new_path).map_err(fail)
    }

    fn symlink_at(&mut self, fd: Fd, target: String, path: String) -> FsResult<()> {
        self.vfs.create_symlink(self.handle(&fd)?, &path, &target).map_err(fail)
    }

    fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        self.vfs.remove_file(self.handle(&fd)?, &path).map_err(fail)
    }

    fn read_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynInputStream>> {
        let file = self.handle(&fd)?.file().map_err(fail)?.clone();
        if !file.readable() {
            return Err(fail(Errno::BADF));
        }
        let stream: DynInputStream = Box::new(FileInput::new(file, offset));
        Ok(self.table.push(stream)?)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynOutputStream>> {
        output(self, &fd, Some(offset))
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        output(self, &fd, None)
    }

    fn is_same_object(&mut self, fd: Fd, other: Fd) -> wasmtime::Result<bool> {
        Ok(self.handle(&fd)?.is_same(self.handle(&other)?))
    }

    fn metadata_hash(&mut self, fd: Fd) -> FsResult<MetadataHashValue> {
        Ok(hash(self.vfs.metadata_hash(self.handle(&fd)?)))
    }

    fn metadata_hash_at(
        &mut self,
        fd: Fd,
        how: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        self.vfs.metadata_hash_at(self.handle(&fd)?, &path, follows(how)).map(hash).map_err(fail)
    }
}

impl HostDirectoryEntryStream for FsView<'_> {
    fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing = self.table.get_mut(&Resource::<Listing>::new_borrow(stream.rep()))?;
        Ok(self
            .vfs
            .next_entry(listing)
            .map(|(name, file_type)| DirectoryEntry { type_: kind(file_type), name }))
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.table.delete(Resource::<Listing>::new_own(stream.rep()))?;
        Ok(())
    }
}

conversions!();

fn fail(errno: Errno) -> FsError {
    code(errno).into()
}

/// Refuses to open a stream if nothing can be written: only here does the guest's libc see
/// `ENOSPC`.
fn output(
    view: &mut FsView<'_>,
    fd: &Fd,
    offset: Option<u64>,
) -> FsResult<Resource<DynOutputStream>> {
    let file = view.handle(fd)?.file().map_err(fail)?.clone();
    if !file.writable() {
        return Err(fail(Errno::BADF));
    }
    if file.room(offset) == 0 {
        return Err(fail(file.no_room()));
    }
    let stream: DynOutputStream = Box::new(FileOutput::new(file, offset));
    Ok(view.table.push(stream)?)
}

fn kind(file_type: FileType) -> DescriptorType {
    match file_type {
        FileType::Directory => DescriptorType::Directory,
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        _ => DescriptorType::Unknown,
    }
}

/// WASI 0.2 cannot express times before 1970.
fn time((seconds, nanoseconds): (i64, u32)) -> Datetime {
    Datetime { seconds: u64::try_from(seconds).unwrap_or(0), nanoseconds }
}

fn new_time(new: NewTimestamp) -> FsResult<NewTime> {
    Ok(match new {
        NewTimestamp::NoChange => NewTime::BlobStore,
        NewTimestamp::Now => NewTime::Now,
        NewTimestamp::Timestamp(t) => {
            NewTime::At(i64::try_from(t.seconds).map_err(|_| fail(Errno::OVERFLOW))?, t.nanoseconds)
        }
    })
}
