//! bashkit's file system over the sandbox's files, which all programs of the sandbox share.

mod errors;
mod modes;
mod mounts;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bashkit::{DirEntry, FileSystem, FileSystemExt, FileType, Metadata, Result};
use send_wrapper::SendWrapper;
use wit_bindgen::StreamResult;

use crate::bindings::wasi::clocks::system_clock::Instant;
use crate::bindings::wasi::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, NewTimestamp,
    OpenFlags, PathFlags,
};
use crate::bindings::wit_stream;
use crate::hooks;
use errors::{error, missing, refused};
use mounts::{MountPath, Mounts};

/// bashkit's clock, whose type differs on this target.
type SystemTime = bashkit::time::SystemTime;

/// Bytes per read and write.
const CHUNK: usize = 64 * 1024;

/// Bytes per read of an endless device. Programs that need more pass a count (`head -c`, `dd`).
const DEVICE_CHUNK: usize = 64 * 1024;

/// The file system, shared by the shell and all its subshells.
pub(crate) struct Files {
    mounts: SendWrapper<Mounts>,
}

impl Files {
    pub(crate) fn new() -> Files {
        Files { mounts: SendWrapper::new(Mounts::granted()) }
    }

    fn at(&self, path: &Path) -> io::Result<MountPath<'_>> {
        self.mounts.find(path)
    }

    async fn open(
        &self,
        path: &Path,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> io::Result<Descriptor> {
        let at = self.at(path)?;
        at.folder.open_at(PathFlags::SYMLINK_FOLLOW, at.relative, open, flags).await.map_err(error)
    }

    async fn write(
        &self,
        path: &Path,
        bytes: &[u8],
        open: OpenFlags,
        append: bool,
    ) -> io::Result<()> {
        if is_sink(path) {
            return Ok(());
        }
        let file = self
            .open(path, OpenFlags::CREATE | open, DescriptorFlags::WRITE)
            .await
            .map_err(|e| self.explain_write_error(path, e))?;
        if bytes.is_empty() {
            return Ok(());
        }
        let (mut writer, reader) = wit_stream::new::<u8>();
        let done =
            if append { file.append_via_stream(reader) } else { file.write_via_stream(reader, 0) };
        for chunk in bytes.chunks(CHUNK) {
            if !writer.write_all(chunk.to_vec()).await.is_empty() {
                break;
            }
        }
        drop(writer);
        done.await.map_err(error)
    }

    /// Replaces "no such file" by "permission denied" if a file cannot be created in a folder that
    /// only the shell shows.
    fn explain_write_error(&self, path: &Path, error: io::Error) -> io::Error {
        let shown = path.parent().is_some_and(|parent| parent == Path::new("/"));
        if error.kind() == io::ErrorKind::NotFound && shown && self.mounts.find(path).is_err() {
            refused()
        } else {
            error
        }
    }

    async fn stat_at(&self, path: &Path, follow: PathFlags) -> io::Result<Metadata> {
        if let Some(kind) = device(path) {
            return Ok(Metadata { file_type: kind, size: 0, mode: 0o666, ..Metadata::default() });
        }
        match self.at(path) {
            Ok(at) => {
                let stat = at.folder.stat_at(follow, at.relative).await.map_err(error)?;
                let follow = follow.contains(PathFlags::SYMLINK_FOLLOW);
                Ok(modes::apply(path, metadata(&stat), at.writable, follow))
            }
            Err(_) if self.mounts.is_above(path) => Ok(folder()),
            Err(error) => Err(error),
        }
    }

    async fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        if self.mounts.is_above(path) && self.at(path).is_err() {
            return Ok(self
                .mounts
                .below(path)
                .map(|name| DirEntry { name, metadata: folder() })
                .collect());
        }
        let folder = self.open(path, OpenFlags::DIRECTORY, DescriptorFlags::READ).await?;
        let (entries, done) = folder.read_directory();
        let names = entries.collect().await;
        done.await.map_err(error)?;
        let mut listed = Vec::with_capacity(names.len());
        for entry in names {
            // A file that was removed in the meantime is left out.
            if let Ok(metadata) = self.stat_at(&path.join(&entry.name), PathFlags::empty()).await {
                listed.push(DirEntry { name: entry.name, metadata });
            }
        }
        Ok(listed)
    }

    async fn make_folder(&self, path: &Path) -> io::Result<()> {
        let at = match self.at(path) {
            Ok(at) => at,
            Err(_) if self.mounts.is_above(path) => return Err(errors::exists()),
            Err(error) => return Err(self.explain_write_error(path, error)),
        };
        if at.is_mount() {
            return Err(errors::exists());
        }
        at.folder.create_directory_at(at.relative).await.map_err(error)
    }

    async fn make_folders(&self, path: &Path) -> io::Result<()> {
        let mut made = PathBuf::new();
        for part in path.components() {
            made.push(part);
            match self.make_folder(&made).await {
                Ok(()) => {}
                Err(error) => match self.stat_at(&made, PathFlags::SYMLINK_FOLLOW).await {
                    Ok(found) if found.file_type.is_dir() => {}
                    Ok(_) if made == path => return Err(errors::exists()),
                    Ok(_) => return Err(errors::no_folder()),
                    Err(_) => return Err(error),
                },
            }
        }
        Ok(())
    }

    async fn remove_one(&self, path: &Path) -> io::Result<()> {
        let at = self.at(path)?;
        if at.is_mount() {
            return Err(errors::busy());
        }
        let stat =
            at.folder.stat_at(PathFlags::empty(), at.relative.clone()).await.map_err(error)?;
        let removed = match stat.type_ {
            DescriptorType::Directory => at.folder.remove_directory_at(at.relative).await,
            _ => at.folder.unlink_file_at(at.relative).await,
        };
        removed.map_err(error)
    }

    async fn remove_tree(&self, path: &Path) -> io::Result<()> {
        if self.stat_at(path, PathFlags::empty()).await?.file_type.is_dir() {
            for entry in self.list(path).await? {
                Box::pin(self.remove_tree(&path.join(entry.name))).await?;
            }
        }
        self.remove_one(path).await
    }

    async fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("/dev/null") => return Ok(Vec::new()),
            Some("/dev/zero") => return Ok(vec![0; DEVICE_CHUNK]),
            Some("/dev/urandom" | "/dev/random") => {
                let mut bytes = vec![0; DEVICE_CHUNK];
                hooks::random(&mut bytes);
                return Ok(bytes);
            }
            _ => {}
        }
        if self.mounts.is_above(path) && self.at(path).is_err() {
            return Err(errors::is_folder());
        }
        let file = self.open(path, OpenFlags::empty(), DescriptorFlags::READ).await?;
        let (mut reader, done) = file.read_via_stream(0);
        let mut all = Vec::with_capacity(CHUNK);
        loop {
            // Capacity is added late: at the end of a small file it would be copied and never used.
            if all.capacity() - all.len() < CHUNK / 4 {
                all.reserve(CHUNK.max(all.len()));
            }
            let (status, bytes) = reader.read(all).await;
            all = bytes;
            if status == StreamResult::Dropped {
                break;
            }
        }
        done.await.map_err(error)?;
        Ok(all)
    }
}

#[async_trait]
impl FileSystemExt for Files {
    fn backend_kind(&self) -> &'static str {
        "sandbox"
    }
}

#[async_trait]
impl FileSystem for Files {
    async fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        Ok(SendWrapper::new(self.read(path)).await?)
    }

    async fn write_file(&self, path: &Path, content: &[u8]) -> Result<()> {
        Ok(SendWrapper::new(self.write(path, content, OpenFlags::TRUNCATE, false)).await?)
    }

    async fn append_file(&self, path: &Path, content: &[u8]) -> Result<()> {
        Ok(SendWrapper::new(self.write(path, content, OpenFlags::empty(), true)).await?)
    }

    async fn mkdir(&self, path: &Path, recursive: bool) -> Result<()> {
        Ok(SendWrapper::new(async {
            if recursive { self.make_folders(path).await } else { self.make_folder(path).await }
        })
        .await?)
    }

    async fn remove(&self, path: &Path, recursive: bool) -> Result<()> {
        Ok(SendWrapper::new(async {
            if recursive { self.remove_tree(path).await } else { self.remove_one(path).await }
        })
        .await?)
    }

    async fn stat(&self, path: &Path) -> Result<Metadata> {
        Ok(SendWrapper::new(self.stat_at(path, PathFlags::SYMLINK_FOLLOW)).await?)
    }

    async fn lstat(&self, path: &Path) -> Result<Metadata> {
        Ok(SendWrapper::new(self.stat_at(path, PathFlags::empty())).await?)
    }

    async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>> {
        Ok(SendWrapper::new(self.list(path)).await?)
    }

    async fn exists(&self, path: &Path) -> Result<bool> {
        Ok(SendWrapper::new(self.stat_at(path, PathFlags::SYMLINK_FOLLOW)).await.is_ok())
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        SendWrapper::new(async {
            let (old, new) =
                (self.at(from)?, self.at(to).map_err(|e| self.explain_write_error(to, e))?);
            old.folder.rename_at(old.relative, new.folder, new.relative).await.map_err(error)?;
            io::Result::Ok(())
        })
        .await?;
        Ok(())
    }

    async fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        SendWrapper::new(async {
            let bytes = self.read(from).await?;
            self.write(to, &bytes, OpenFlags::TRUNCATE, false).await?;
            modes::copy(from, to);
            io::Result::Ok(())
        })
        .await?;
        Ok(())
    }

    async fn symlink(&self, target: &Path, link: &Path) -> Result<()> {
        SendWrapper::new(async {
            let at = self.at(link)?;
            let target = target.to_str().ok_or_else(missing)?.to_owned();
            at.folder.symlink_at(target, at.relative).await.map_err(|code| match code {
                ErrorCode::NotPermitted | ErrorCode::Unsupported => errors::no_links(),
                code => error(code),
            })
        })
        .await?;
        Ok(())
    }

    async fn read_link(&self, path: &Path) -> Result<PathBuf> {
        let target = SendWrapper::new(async {
            let at = self.at(path)?;
            at.folder.readlink_at(at.relative).await.map_err(error)
        })
        .await?;
        Ok(target.into())
    }

    async fn chmod(&self, path: &Path, mode: u32) -> Result<()> {
        SendWrapper::new(self.stat_at(path, PathFlags::SYMLINK_FOLLOW)).await?;
        Ok(modes::set(path, mode)?)
    }

    async fn set_modified_time(&self, path: &Path, time: SystemTime) -> Result<()> {
        SendWrapper::new(async {
            let at = self.at(path)?;
            let since = time.duration_since(bashkit::time::UNIX_EPOCH).unwrap_or_default();
            let stamp = || {
                NewTimestamp::Timestamp(Instant {
                    seconds: since.as_secs() as i64,
                    nanoseconds: since.subsec_nanos(),
                })
            };
            at.folder
                .set_times_at(PathFlags::SYMLINK_FOLLOW, at.relative, stamp(), stamp())
                .await
                .map_err(error)
        })
        .await?;
        Ok(())
    }
}

fn metadata(stat: &DescriptorStat) -> Metadata {
    let (file_type, mode) = match stat.type_ {
        DescriptorType::Directory => (FileType::Directory, 0o755),
        DescriptorType::SymbolicLink => (FileType::Symlink, 0o777),
        _ => (FileType::File, 0o644),
    };
    let modified =
        stat.data_modification_timestamp.as_ref().map_or(bashkit::time::UNIX_EPOCH, time);
    Metadata { file_type, size: stat.size, mode, modified, created: modified }
}

fn time(instant: &Instant) -> SystemTime {
    bashkit::time::UNIX_EPOCH
        + Duration::new(instant.seconds.try_into().unwrap_or(0), instant.nanoseconds)
}

/// The metadata of a folder above the mounts, which only the shell shows.
fn folder() -> Metadata {
    Metadata { file_type: FileType::Directory, size: 4096, mode: 0o755, ..Metadata::default() }
}

/// Returns the type of a device that the shell emulates.
fn device(path: &Path) -> Option<FileType> {
    matches!(path.to_str()?, "/dev/null" | "/dev/zero" | "/dev/urandom" | "/dev/random")
        .then_some(FileType::File)
}

fn is_sink(path: &Path) -> bool {
    device(path).is_some()
}
