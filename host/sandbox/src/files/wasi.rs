//! The parts that both versions of WASI share: the view that host functions receive, and
//! conversions whose source is the same for both.
//!
//! The resource keeps the type `wasmtime_wasi::filesystem::Descriptor`, which the bindings name,
//! but its slot in the table holds a [`Handle`]. All access to the table therefore goes through the
//! methods of [`FsView`].

use std::sync::Arc;

use wasmtime::component::{HasData, Resource, ResourceTable, ResourceTableError};
use wasmtime_wasi::filesystem::Descriptor;

use super::{Handle, Vfs};

/// A store's files, as host functions see them.
#[derive(Debug)]
pub struct FsView<'a> {
    /// The invocation's files.
    pub vfs: &'a Arc<Vfs>,
    /// The store's resources.
    pub table: &'a mut ResourceTable,
}

/// Selects [`FsView`] as the data of the bindings.
#[derive(Debug, Clone, Copy)]
pub struct Files;

impl HasData for Files {
    type Data<'a> = FsView<'a>;
}

impl FsView<'_> {
    pub(super) fn handle(&self, fd: &Resource<Descriptor>) -> Result<&Handle, ResourceTableError> {
        self.table.get(&Resource::<Handle>::new_borrow(fd.rep()))
    }

    pub(super) fn push(
        &mut self,
        handle: Handle,
    ) -> Result<Resource<Descriptor>, ResourceTableError> {
        Ok(Resource::new_own(self.table.push(handle)?.rep()))
    }

    pub(super) fn delete(&mut self, fd: &Resource<Descriptor>) -> wasmtime::Result<()> {
        self.table.delete(Resource::<Handle>::new_own(fd.rep()))?;
        Ok(())
    }

    pub(super) fn preopens(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let preopens = self.vfs.preopens()?;
        preopens.into_iter().map(|(handle, path)| Ok((self.push(handle)?, path))).collect()
    }
}

/// Converts between the bindings' types, which differ by version only in their paths, and those of
/// the file layer.
macro_rules! conversions {
    () => {
        /// WASI has no code for too many open handles: they become `insufficient-memory` (`ENOMEM`
        /// in a libc).
        fn code(errno: Errno) -> ErrorCode {
            match errno {
                Errno::ROFS => ErrorCode::ReadOnly,
                Errno::XDEV => ErrorCode::CrossDevice,
                Errno::DQUOT => ErrorCode::Quota,
                Errno::TXTBSY => ErrorCode::TextFileBusy,
                Errno::MFILE | Errno::NFILE => ErrorCode::InsufficientMemory,
                errno => std::io::Error::from(errno).into(),
            }
        }

        fn open_options(path: PathFlags, open: OpenFlags, flags: DescriptorFlags) -> OpenOptions {
            OpenOptions {
                follow: follows(path),
                create: open.contains(OpenFlags::CREATE),
                directory: open.contains(OpenFlags::DIRECTORY),
                exclusive: open.contains(OpenFlags::EXCLUSIVE),
                truncate: open.contains(OpenFlags::TRUNCATE),
                read: flags.contains(DescriptorFlags::READ),
                write: flags.contains(DescriptorFlags::WRITE),
            }
        }

        fn follows(path: PathFlags) -> bool {
            path.contains(PathFlags::SYMLINK_FOLLOW)
        }

        fn flags(vfs: &Vfs, handle: &Handle) -> DescriptorFlags {
            let when =
                |on: bool, flag: DescriptorFlags| if on { flag } else { DescriptorFlags::empty() };
            match handle {
                Handle::Folder(_) => {
                    DescriptorFlags::READ
                        | when(vfs.is_mutable(handle), DescriptorFlags::MUTATE_DIRECTORY)
                }
                Handle::File(file) => {
                    when(file.readable(), DescriptorFlags::READ)
                        | when(file.writable(), DescriptorFlags::WRITE)
                }
            }
        }

        fn kind_of(handle: &Handle) -> DescriptorType {
            match handle {
                Handle::Folder(_) => DescriptorType::Directory,
                Handle::File(file) => kind(file.kind()),
            }
        }

        fn stat(metadata: Metadata) -> DescriptorStat {
            DescriptorStat {
                type_: kind(metadata.kind),
                link_count: 1,
                size: metadata.size,
                data_access_timestamp: Some(time(metadata.accessed)),
                data_modification_timestamp: Some(time(metadata.modified)),
                status_change_timestamp: Some(time(metadata.changed)),
            }
        }

        fn hash((lower, upper): (u64, u64)) -> MetadataHashValue {
            MetadataHashValue { lower, upper }
        }
    };
}
pub(super) use conversions;
