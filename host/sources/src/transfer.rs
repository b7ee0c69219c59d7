//! What was transferred, before it is unpacked: a file in a private folder, with its digest.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};
use skillhost_policy::limits::show_size;
use skillhost_skill::private::{Purpose, TempFolder};

use crate::digest::Digest;
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::limits::TransferLimits;

/// A file that was transferred. It is removed with this value.
#[derive(Debug)]
pub struct Transfer {
    /// The opened file. It is what was digested, and what is unpacked.
    pub file: File,
    /// Its size in bytes.
    pub size: u64,
    /// Its digest.
    pub digest: Digest,
    _folder: TempFolder,
}

impl Transfer {
    /// Copies `from`, up to its end, to a private file in `within`.
    ///
    /// # Errors
    /// `from` has more bytes than a transfer may have or fails, or the file system fails.
    pub fn receive(
        within: &Path,
        limits: &TransferLimits,
        from: &mut dyn Read,
    ) -> Result<Transfer, SourceError> {
        let fail = |error: io::Error| {
            SourceError::io(format!("store the transfer in {}", within.display()), error)
        };
        let folder = TempFolder::new_in(within, Purpose::Fetch).map_err(fail)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder.as_fd(), "transfer", flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.map_err(|error| fail(error.into()))?);
        let (mut size, mut hash, mut buffer) = (0_u64, Sha256::new(), vec![0; 64 << 10]);
        loop {
            let read = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(SourceError::Input(error)),
            };
            size += read as u64;
            if size > limits.bytes {
                let why = format!("the transfer is larger than {}", show_size(limits.bytes));
                return Err(Refusal::new(RefusalRule::TransferSize, why).into());
            }
            hash.update(&buffer[..read]);
            file.write_all(&buffer[..read]).map_err(fail)?;
        }
        Ok(Transfer { file, size, digest: Digest::from(hash), _folder: folder })
    }

    /// Returns the file from its start.
    ///
    /// # Errors
    /// The file system fails.
    pub fn reader(&mut self) -> Result<&mut File, SourceError> {
        self.file.rewind().map_err(|error| SourceError::io("read the transfer", error))?;
        Ok(&mut self.file)
    }
}
