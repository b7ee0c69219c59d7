//! File operations for the attacks, for WASI 0.3 and for 0.2.
//!
//! Errors are shown by the name of their code, so that differences between the two versions or
//! between two paths are visible.

use crate::bindings::new::wasi::filesystem as new;
use crate::bindings::new::wit_stream;
use crate::bindings::old::wasi::filesystem as old;

/// The version of WASI that an operation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wasi {
    /// WASI 0.3.
    New,
    /// WASI 0.2.
    Old,
}

/// Both versions, for loops.
pub(crate) const BOTH: [Wasi; 2] = [Wasi::New, Wasi::Old];

/// A folder granted by the host.
pub(crate) enum Folder {
    New(new::types::Descriptor),
    Old(old::types::Descriptor),
}

/// An open file.
pub(crate) enum Handle {
    New(new::types::Descriptor),
    Old(old::types::Descriptor),
}

/// Returns the folders granted by the host, with their names.
pub(crate) fn preopens(wasi: Wasi) -> Vec<(Folder, String)> {
    match wasi {
        Wasi::New => {
            new::preopens::get_directories().into_iter().map(|(d, n)| (Folder::New(d), n)).collect()
        }
        Wasi::Old => {
            old::preopens::get_directories().into_iter().map(|(d, n)| (Folder::Old(d), n)).collect()
        }
    }
}

/// Returns a granted folder by its name.
pub(crate) fn folder(wasi: Wasi, name: &str) -> Option<Folder> {
    preopens(wasi).into_iter().find_map(|(folder, known)| (known == name).then_some(folder))
}

type Outcome<T> = Result<T, String>;

fn failed(code: impl std::fmt::Debug) -> String {
    crate::report::short(code)
}

impl Folder {
    /// Opens a file for reading.
    pub(crate) async fn open(&self, path: &str) -> Outcome<Handle> {
        match self {
            Folder::New(d) => {
                use new::types::{DescriptorFlags, OpenFlags, PathFlags};
                let opened = d
                    .open_at(
                        PathFlags::SYMLINK_FOLLOW,
                        path.to_owned(),
                        OpenFlags::empty(),
                        DescriptorFlags::READ,
                    )
                    .await;
                opened.map(Handle::New).map_err(failed)
            }
            Folder::Old(d) => {
                use old::types::{DescriptorFlags, OpenFlags, PathFlags};
                let opened = d.open_at(
                    PathFlags::SYMLINK_FOLLOW,
                    path,
                    OpenFlags::empty(),
                    DescriptorFlags::READ,
                );
                opened.map(Handle::Old).map_err(failed)
            }
        }
    }

    /// Reads the first bytes of a file.
    pub(crate) async fn read(&self, path: &str) -> Outcome<Vec<u8>> {
        match self.open(path).await? {
            Handle::New(file) => {
                let (mut reader, _done) = file.read_via_stream(0);
                let (_, bytes) = reader.read(Vec::with_capacity(64 << 10)).await;
                Ok(bytes)
            }
            Handle::Old(file) => file.read(64 << 10, 0).map(|(bytes, _)| bytes).map_err(failed),
        }
    }

    /// Opens a file for writing, and creates it if `create` is set.
    pub(crate) async fn open_for_writing(
        &self,
        path: &str,
        create: bool,
        truncate: bool,
    ) -> Outcome<Handle> {
        match self {
            Folder::New(d) => {
                use new::types::{DescriptorFlags, OpenFlags, PathFlags};
                let mut open = OpenFlags::empty();
                open.set(OpenFlags::CREATE, create);
                open.set(OpenFlags::TRUNCATE, truncate);
                let opened = d
                    .open_at(
                        PathFlags::SYMLINK_FOLLOW,
                        path.to_owned(),
                        open,
                        DescriptorFlags::READ | DescriptorFlags::WRITE,
                    )
                    .await;
                opened.map(Handle::New).map_err(failed)
            }
            Folder::Old(d) => {
                use old::types::{DescriptorFlags, OpenFlags, PathFlags};
                let mut open = OpenFlags::empty();
                open.set(OpenFlags::CREATE, create);
                open.set(OpenFlags::TRUNCATE, truncate);
                let opened = d.open_at(
                    PathFlags::SYMLINK_FOLLOW,
                    path,
                    open,
                    DescriptorFlags::READ | DescriptorFlags::WRITE,
                );
                opened.map(Handle::Old).map_err(failed)
            }
        }
    }

    /// Checks whether a path exists, following links.
    pub(crate) async fn stat(&self, path: &str) -> Outcome<()> {
        match self {
            Folder::New(d) => d
                .stat_at(new::types::PathFlags::SYMLINK_FOLLOW, path.to_owned())
                .await
                .map(drop)
                .map_err(failed),
            Folder::Old(d) => {
                d.stat_at(old::types::PathFlags::SYMLINK_FOLLOW, path).map(drop).map_err(failed)
            }
        }
    }

    /// Gets the metadata hash of a path.
    pub(crate) async fn hash(&self, path: &str) -> Outcome<()> {
        match self {
            Folder::New(d) => d
                .metadata_hash_at(new::types::PathFlags::SYMLINK_FOLLOW, path.to_owned())
                .await
                .map(drop)
                .map_err(failed),
            Folder::Old(d) => d
                .metadata_hash_at(old::types::PathFlags::SYMLINK_FOLLOW, path)
                .map(drop)
                .map_err(failed),
        }
    }

    /// Sets the times of a path.
    pub(crate) async fn touch(&self, path: &str) -> Outcome<()> {
        match self {
            Folder::New(d) => {
                use new::types::{NewTimestamp, PathFlags};
                let touched = d
                    .set_times_at(
                        PathFlags::SYMLINK_FOLLOW,
                        path.to_owned(),
                        NewTimestamp::Now,
                        NewTimestamp::Now,
                    )
                    .await;
                touched.map_err(failed)
            }
            Folder::Old(d) => {
                use old::types::{NewTimestamp, PathFlags};
                d.set_times_at(
                    PathFlags::SYMLINK_FOLLOW,
                    path,
                    NewTimestamp::Now,
                    NewTimestamp::Now,
                )
                .map_err(failed)
            }
        }
    }

    /// Reads the target of a link.
    pub(crate) async fn readlink(&self, path: &str) -> Outcome<String> {
        match self {
            Folder::New(d) => d.readlink_at(path.to_owned()).await.map_err(failed),
            Folder::Old(d) => d.readlink_at(path).map_err(failed),
        }
    }

    /// Creates a folder.
    pub(crate) async fn mkdir(&self, path: &str) -> Outcome<()> {
        match self {
            Folder::New(d) => d.create_directory_at(path.to_owned()).await.map_err(failed),
            Folder::Old(d) => d.create_directory_at(path).map_err(failed),
        }
    }

    /// Removes a file.
    pub(crate) async fn unlink(&self, path: &str) -> Outcome<()> {
        match self {
            Folder::New(d) => d.unlink_file_at(path.to_owned()).await.map_err(failed),
            Folder::Old(d) => d.unlink_file_at(path).map_err(failed),
        }
    }

    /// Removes a folder.
    pub(crate) async fn rmdir(&self, path: &str) -> Outcome<()> {
        match self {
            Folder::New(d) => d.remove_directory_at(path.to_owned()).await.map_err(failed),
            Folder::Old(d) => d.remove_directory_at(path).map_err(failed),
        }
    }

    /// Renames a file within this folder.
    pub(crate) async fn rename(&self, from: &str, to: &str) -> Outcome<()> {
        match self {
            Folder::New(d) => d.rename_at(from.to_owned(), d, to.to_owned()).await.map_err(failed),
            Folder::Old(d) => d.rename_at(from, d, to).map_err(failed),
        }
    }

    /// Creates a symbolic link.
    pub(crate) async fn symlink(&self, target: &str, path: &str) -> Outcome<()> {
        match self {
            Folder::New(d) => {
                d.symlink_at(target.to_owned(), path.to_owned()).await.map_err(failed)
            }
            Folder::Old(d) => d.symlink_at(target, path).map_err(failed),
        }
    }

    /// Creates a hard link. With `follow`, links to the target of a symbolic link.
    pub(crate) async fn hard_link(&self, from: &str, to: &str, follow: bool) -> Outcome<()> {
        match self {
            Folder::New(d) => {
                let flags = if follow {
                    new::types::PathFlags::SYMLINK_FOLLOW
                } else {
                    new::types::PathFlags::empty()
                };
                d.link_at(flags, from.to_owned(), d, to.to_owned()).await.map_err(failed)
            }
            Folder::Old(d) => {
                let flags = if follow {
                    old::types::PathFlags::SYMLINK_FOLLOW
                } else {
                    old::types::PathFlags::empty()
                };
                d.link_at(flags, from, d, to).map_err(failed)
            }
        }
    }

    /// Lists the names in a folder.
    pub(crate) async fn list(&self, path: &str) -> Outcome<Vec<String>> {
        match self {
            Folder::New(d) => {
                use new::types::{DescriptorFlags, OpenFlags, PathFlags};
                let opened = d
                    .open_at(
                        PathFlags::SYMLINK_FOLLOW,
                        path.to_owned(),
                        OpenFlags::DIRECTORY,
                        DescriptorFlags::READ,
                    )
                    .await;
                let (entries, done) = opened.map_err(failed)?.read_directory();
                let names = entries.collect().await.into_iter().map(|entry| entry.name).collect();
                done.await.map(|()| names).map_err(failed)
            }
            Folder::Old(d) => {
                use old::types::{DescriptorFlags, OpenFlags, PathFlags};
                let opened = d
                    .open_at(
                        PathFlags::SYMLINK_FOLLOW,
                        path,
                        OpenFlags::DIRECTORY,
                        DescriptorFlags::READ,
                    )
                    .map_err(failed)?;
                let entries = opened.read_directory().map_err(failed)?;
                let mut names = Vec::new();
                while let Some(entry) = entries.read_directory_entry().map_err(failed)? {
                    names.push(entry.name);
                }
                Ok(names)
            }
        }
    }
}

impl Handle {
    /// Writes at an offset.
    pub(crate) async fn write(&self, bytes: Vec<u8>, offset: u64) -> Outcome<()> {
        match self {
            Handle::New(file) => {
                let (mut writer, reader) = wit_stream::new();
                let done = file.write_via_stream(reader, offset);
                let left = writer.write_all(bytes).await;
                drop(writer);
                done.await.map_err(failed)?;
                if left.is_empty() { Ok(()) } else { Err("cut short".into()) }
            }
            Handle::Old(file) => {
                let mut written = 0;
                while written < bytes.len() {
                    written += file
                        .write(&bytes[written..], offset + written as u64)
                        .map_err(failed)? as usize;
                }
                Ok(())
            }
        }
    }

    /// Sets the size of a file.
    pub(crate) async fn set_size(&self, size: u64) -> Outcome<()> {
        match self {
            Handle::New(file) => file.set_size(size).await.map_err(failed),
            Handle::Old(file) => file.set_size(size).map_err(failed),
        }
    }
}
