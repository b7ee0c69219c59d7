//! `run --receipt`: the file's folder is opened and stdin is read before the run, and the receipt is
//! written after it.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use skillhost_ledger::receipt::{Receipt, envelope};
use skillhost_policy::limits::show_size;
use skillhost_sandbox::Stdin;

use crate::commands::key;
use crate::context::Places;
use crate::error::CliError;
use crate::output;

/// The most that is read of stdin for a receipt, in bytes.
const STDIN_MAX: u64 = 64 << 20;

/// Reads all of stdin, whose digest the receipt has. A terminal counts as empty.
pub(crate) fn stdin() -> Result<Stdin, CliError> {
    if std::io::stdin().is_terminal() {
        return Ok(Stdin::Empty);
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(STDIN_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| CliError::io("read stdin for the receipt", error))?;
    if bytes.len() as u64 > STDIN_MAX {
        let most = show_size(STDIN_MAX);
        return Err(CliError::usage(format!("a receipt allows at most {most} of stdin")));
    }
    Ok(Stdin::Bytes(bytes))
}

/// Where the receipt goes.
pub(super) struct ReceiptFile {
    pub(super) sign: bool,
    path: PathBuf,
    /// The folder of the file, opened before the run.
    folder: OwnedFd,
    /// The file's name in the folder.
    name: OsString,
}

impl ReceiptFile {
    /// Opens the folder of a receipt. Refuses a name that cannot be written, or that is taken by
    /// something other than a regular file: the receipt would replace a device or a link.
    pub(super) fn open(path: PathBuf, sign: bool) -> Result<ReceiptFile, CliError> {
        if path.as_os_str() == "-" {
            return Err(CliError::usage("a receipt is written to a file, not to stdout")
                .fix("name a file: --receipt receipt.json"));
        }
        let cannot = |error: io::Error| cannot_write(&path, error);
        let name = path.file_name().ok_or_else(|| cannot(io::ErrorKind::IsADirectory.into()))?;
        let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder =
            rustix::fs::openat(CWD, parent.unwrap_or(Path::new(".")), flags, Mode::empty())
                .map_err(|error| cannot(error.into()))?;
        let needed = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(&folder, ".", needed, AtFlags::EACCESS)
            .map_err(|error| cannot(error.into()))?;
        let file = ReceiptFile { sign, name: name.to_owned(), folder, path: path.clone() };
        file.check().map_err(cannot)?;
        Ok(file)
    }

    /// Checks that the name is free, or that of a regular file. Follows no link.
    fn check(&self) -> io::Result<()> {
        match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile => Ok(()),
            Ok(_) => Err(io::Error::other("it exists and is not a regular file")),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the file, either completely or not at all.
    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let temporary = format!(".receipt-{:016x}.tmp", rand::random::<u64>());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // As readable as the user's other new files.
        let mode = Mode::from_raw_mode(0o666);
        let new = rustix::fs::openat(&self.folder, &temporary, flags, mode)?;
        let replaced = std::fs::File::from(new)
            .write_all(text)
            // The run, or another process, may have put something else there.
            .and_then(|()| self.check())
            .and_then(|()| {
                let folder = &self.folder;
                Ok(rustix::fs::renameat(folder, &temporary, folder, &self.name)?)
            });
        if replaced.is_err() {
            // What is left does no harm.
            rustix::fs::unlinkat(&self.folder, &temporary, AtFlags::empty()).ok();
        }
        replaced
    }
}

/// Writes the receipt of a run.
pub(super) fn write(
    receipt: Option<&Receipt>,
    file: &ReceiptFile,
    places: &Places,
) -> Result<(), CliError> {
    let Some(receipt) = receipt else {
        output::warning("no receipt was written, because the run has no result", None);
        return Ok(());
    };
    let text = if file.sign {
        envelope::encode_signed(receipt, &key::signing(places)?)
    } else {
        envelope::encode(receipt)
    };
    file.replace(&[text.trim_ascii_end(), b"\n"].concat())
        .map_err(|error| cannot_write(&file.path, error))
}

fn cannot_write(path: &Path, error: io::Error) -> CliError {
    CliError::io(format_args!("write the receipt {}", path.display()), error)
}
