//! Folders: made, read and removed.

use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

use super::error::error;
use super::path::resolve;
use super::remove_file;
use crate::bindings::filesystem::wasi::filesystem::types::{
    DescriptorFlags, DescriptorType, OpenFlags, PathFlags,
};

/// What a folder holds, by name.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// for entry in skillhost_guest::fs::read_dir("/workspace").await? {
///     skillhost_guest::println!("{}", entry.file_name());
/// }
/// # Ok(())
/// # }
/// ```
pub async fn read_dir(path: impl AsRef<Path>) -> Result<Vec<DirEntry>> {
    let path = path.as_ref();
    let at = resolve(path)?;
    let failed = |code| error("list", &at.absolute, code);
    let flags = (PathFlags::SYMLINK_FOLLOW, OpenFlags::DIRECTORY, DescriptorFlags::READ);
    let folder =
        at.folder.open_at(flags.0, at.relative.clone(), flags.1, flags.2).await.map_err(failed)?;
    let (entries, done) = folder.read_directory();
    let entries = entries.collect().await;
    done.await.map_err(failed)?;
    let mut entries: Vec<DirEntry> = entries
        .into_iter()
        // WASI leaves these out; hosts have been seen to send them.
        .filter(|entry| entry.name != "." && entry.name != "..")
        .map(|entry| DirEntry { path: path.join(&entry.name), name: entry.name, kind: entry.type_ })
        .collect();
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Makes a folder.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// skillhost_guest::fs::create_dir("/workspace/out").await?;
/// # Ok(())
/// # }
/// ```
pub async fn create_dir(path: impl AsRef<Path>) -> Result<()> {
    let at = resolve(path)?;
    at.folder
        .create_directory_at(at.relative.clone())
        .await
        .map_err(|code| error("create", &at.absolute, code))
}

/// Makes a folder and those that it is in; no error where they exist.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// skillhost_guest::fs::create_dir_all("/workspace/out/2030/01").await?;
/// # Ok(())
/// # }
/// ```
pub async fn create_dir_all(path: impl AsRef<Path>) -> Result<()> {
    let at = resolve(path)?;
    let mut ends: Vec<usize> = at.relative.match_indices('/').map(|(end, _)| end).collect();
    ends.push(at.relative.len());
    for end in ends {
        let created = at.folder.create_directory_at(at.relative[..end].to_owned()).await;
        let Err(code) = created else { continue };
        // Whatever the host says of a folder that is there already, and perhaps may not be written:
        // it is there.
        let stat =
            at.folder.stat_at(PathFlags::SYMLINK_FOLLOW, at.relative[..end].to_owned()).await;
        if !stat.is_ok_and(|stat| matches!(stat.type_, DescriptorType::Directory)) {
            let created = &at.absolute[..at.absolute.len() - (at.relative.len() - end)];
            return Err(error("create", created, code));
        }
    }
    Ok(())
}

/// Removes an empty folder.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// skillhost_guest::fs::remove_dir("/workspace/out").await?;
/// # Ok(())
/// # }
/// ```
pub async fn remove_dir(path: impl AsRef<Path>) -> Result<()> {
    let at = resolve(path)?;
    at.folder
        .remove_directory_at(at.relative.clone())
        .await
        .map_err(|code| error("remove", &at.absolute, code))
}

/// Removes a folder with all that it holds. Symbolic links in it are removed, not followed.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// skillhost_guest::fs::remove_dir_all("/tmp/unpacked").await?;
/// # Ok(())
/// # }
/// ```
pub async fn remove_dir_all(path: impl AsRef<Path>) -> Result<()> {
    // Folders found, parents first; removed from the end, so that each is empty by then.
    let mut folders = vec![path.as_ref().to_owned()];
    let mut listed = 0;
    while listed < folders.len() {
        for entry in read_dir(&folders[listed]).await? {
            if entry.is_dir() {
                folders.push(entry.path());
            } else {
                remove_file(entry.path()).await?;
            }
        }
        listed += 1;
    }
    for folder in folders.iter().rev() {
        match remove_dir(folder).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// One name in a folder, from [`read_dir`].
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// let entries = skillhost_guest::fs::read_dir(".").await?;
/// let files = entries.iter().filter(|entry| entry.is_file()).count();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DirEntry {
    path: PathBuf,
    name: String,
    kind: DescriptorType,
}

impl DirEntry {
    /// The name alone.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// for entry in skillhost_guest::fs::read_dir(".").await? {
    ///     skillhost_guest::println!("{}", entry.file_name());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn file_name(&self) -> &str {
        &self.name
    }

    /// The name after the path that was given to [`read_dir`].
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// for entry in skillhost_guest::fs::read_dir("/workspace").await? {
    ///     let bytes = skillhost_guest::fs::read(entry.path()).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether it is a file; a symbolic link is not.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let mut entries = skillhost_guest::fs::read_dir(".").await?;
    /// entries.retain(|entry| entry.is_file());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_file(&self) -> bool {
        matches!(self.kind, DescriptorType::RegularFile)
    }

    /// Whether it is a folder; a symbolic link is not.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let mut entries = skillhost_guest::fs::read_dir(".").await?;
    /// entries.retain(|entry| entry.is_dir());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_dir(&self) -> bool {
        matches!(self.kind, DescriptorType::Directory)
    }
}
