//! Metadata of files and folders.

use std::io::{ErrorKind, Result};
use std::path::Path;
use std::time::SystemTime;

use super::error::error;
use super::path::resolve;
use crate::bindings::filesystem::wasi::filesystem::types::{
    DescriptorStat, DescriptorType, PathFlags,
};
use crate::stream::system_time;

/// Returns the metadata of a file or folder, following symbolic links.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// let size = skillhost_guest::fs::metadata("/workspace/data.csv").await?.len();
/// # Ok(())
/// # }
/// ```
pub async fn metadata(path: impl AsRef<Path>) -> Result<Metadata> {
    let at = resolve(path)?;
    let stat = at.folder.stat_at(PathFlags::SYMLINK_FOLLOW, at.relative.clone()).await;
    stat.map(Metadata::from).map_err(|code| error("stat", &at.absolute, code))
}

/// Returns whether a file or folder exists.
///
/// # Errors
///
/// Returns an error if that is unknown, for example in a folder that is not granted.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// if !skillhost_guest::fs::exists("/workspace/out").await? {
///     skillhost_guest::fs::create_dir("/workspace/out").await?;
/// }
/// # Ok(())
/// # }
/// ```
pub async fn exists(path: impl AsRef<Path>) -> Result<bool> {
    match metadata(path).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Type, size and modification time of a file or folder, from [`metadata`].
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// let about = skillhost_guest::fs::metadata("/workspace").await?;
/// assert!(about.is_dir());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Metadata {
    kind: DescriptorType,
    len: u64,
    modified: Option<SystemTime>,
}

impl Metadata {
    /// Returns whether this is a file.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let is_file = skillhost_guest::fs::metadata("notes.txt").await?.is_file();
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_file(&self) -> bool {
        matches!(self.kind, DescriptorType::RegularFile)
    }

    /// Returns whether this is a folder.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let is_folder = skillhost_guest::fs::metadata("notes").await?.is_dir();
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_dir(&self) -> bool {
        matches!(self.kind, DescriptorType::Directory)
    }

    /// Returns the size in bytes.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let bytes = skillhost_guest::fs::metadata("notes.txt").await?.len();
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::len_without_is_empty, reason = "std's type has no `is_empty` either")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the time of the last write, if the host reports it.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let when = skillhost_guest::fs::metadata("notes.txt").await?.modified();
    /// # Ok(())
    /// # }
    /// ```
    pub fn modified(&self) -> Option<SystemTime> {
        self.modified
    }
}

impl From<DescriptorStat> for Metadata {
    fn from(stat: DescriptorStat) -> Self {
        let modified = stat
            .data_modification_timestamp
            .map(|instant| system_time(instant.seconds, instant.nanoseconds));
        Self { kind: stat.type_, len: stat.size, modified }
    }
}
