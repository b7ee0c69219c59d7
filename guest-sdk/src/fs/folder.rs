//! Creating, listing and removing folders.

use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

use super::error::error;
use super::path::resolve;
use super::remove_file;
use crate::bindings::filesystem::wasi::filesystem::types::{
    DescriptorFlags, DescriptorType, OpenFlags, PathFlags,
};

/// Lists a folder, sorted by name.
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
        // Hosts should omit these, but some send them.
        .filter(|entry| entry.name != "." && entry.name != "..")
        .map(|entry| DirEntry { path: path.join(&entry.name), name: entry.name, kind: entry.type_ })
        .collect();
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Creates a folder.
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

/// Creates a folder and its missing parents. An existing folder is not an error.
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
        // For an existing folder hosts report different errors, also that it is read-only.
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

/// Removes a folder and everything in it. Symbolic links are removed, not followed.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// skillhost_guest::fs::remove_dir_all("/tmp/unpacked").await?;
/// # Ok(())
/// # }
/// ```
pub async fn remove_dir_all(path: impl AsRef<Path>) -> Result<()> {
    // Parents come before their children: removed in reverse order, each folder is empty.
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

/// One entry of a folder, from [`read_dir`].
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
    /// Returns the name.
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

    /// Returns the path: the argument of [`read_dir`] joined with the name.
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

    /// Returns whether the entry is a file. Symbolic links are not.
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

    /// Returns whether the entry is a folder. Symbolic links are not.
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
