//! Files and folders.
//!
//! A component sees the folders that the host grants: `/skill`, `/workspace`, `/tmp` and further
//! mounts. A path is absolute (`/workspace/data.csv`) or relative to [`crate::env::current_dir`].
//! `.` and `..` are resolved as text, before any symbolic link is followed. Errors are those of
//! std; their message includes the path: `open /workspace/data.csv: no such file or folder`.
//!
//! ```no_run
//! use skillhost_guest::fs;
//!
//! # async fn example() -> std::io::Result<()> {
//! let text = fs::read_to_string("/workspace/notes.txt").await?;
//! fs::write("/tmp/shouted.txt", text.to_uppercase()).await?;
//! # Ok(())
//! # }
//! ```

mod error;
mod file;
mod folder;
mod metadata;
mod path;

pub use file::{File, OpenOptions};
pub use folder::{DirEntry, create_dir, create_dir_all, read_dir, remove_dir, remove_dir_all};
pub use metadata::{Metadata, exists, metadata};

use std::io::{Error, ErrorKind, Result};
use std::path::Path;

use error::error;
use path::resolve;

/// Reads a whole file.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// let image = skillhost_guest::fs::read("/workspace/logo.png").await?;
/// # Ok(())
/// # }
/// ```
pub async fn read(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    File::open(path).await?.read_to_end().await
}

/// Reads a whole file as text.
///
/// # Errors
///
/// Returns [`ErrorKind::InvalidData`] if the file is not UTF-8.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// let text = skillhost_guest::fs::read_to_string("notes.txt").await?;
/// # Ok(())
/// # }
/// ```
pub async fn read_to_string(path: impl AsRef<Path>) -> Result<String> {
    let bytes = read(&path).await?;
    String::from_utf8(bytes).map_err(|error| {
        Error::new(ErrorKind::InvalidData, format!("read {}: {error}", path.as_ref().display()))
    })
}

/// Writes a file, replacing its contents if it exists.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// skillhost_guest::fs::write("out/report.md", "# Report\n").await?;
/// # Ok(())
/// # }
/// ```
pub async fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<()> {
    write_to(File::create(path).await?, bytes.as_ref()).await
}

/// Appends bytes to a file, which is created if it does not exist.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// skillhost_guest::fs::append("/workspace/log.txt", "one more\n").await?;
/// # Ok(())
/// # }
/// ```
pub async fn append(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<()> {
    write_to(OpenOptions::new().append(true).create(true).open(path).await?, bytes.as_ref()).await
}

/// Copies the contents of a file in small chunks, and returns the number of bytes.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// let bytes = skillhost_guest::fs::copy("/skill/template.html", "/workspace/index.html").await?;
/// # Ok(())
/// # }
/// ```
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<u64> {
    let mut source = File::open(from).await?;
    let mut target = File::create(to).await?;
    let mut copied = 0;
    while let Some(bytes) = source.chunk().await? {
        target.write_all(&bytes).await?;
        copied += bytes.len() as u64;
    }
    target.close().await?;
    Ok(copied)
}

/// Renames a file or folder, replacing a file that has the new name.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// skillhost_guest::fs::rename("/workspace/draft.md", "/workspace/final.md").await?;
/// # Ok(())
/// # }
/// ```
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    let (from, to) = (resolve(from)?, resolve(to)?);
    let renamed =
        from.folder.rename_at(from.relative.clone(), &to.folder, to.relative.clone()).await;
    renamed.map_err(|code| error(&format!("rename {} to", from.absolute), &to.absolute, code))
}

/// Removes a file or a symbolic link.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// skillhost_guest::fs::remove_file("/tmp/scratch.bin").await?;
/// # Ok(())
/// # }
/// ```
pub async fn remove_file(path: impl AsRef<Path>) -> Result<()> {
    let at = resolve(path)?;
    at.folder
        .unlink_file_at(at.relative.clone())
        .await
        .map_err(|code| error("remove", &at.absolute, code))
}

async fn write_to(mut file: File, bytes: &[u8]) -> Result<()> {
    file.write_all(bytes).await?;
    file.close().await
}
