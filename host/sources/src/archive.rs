//! Unpacks archives: `.zip`, `.tar.gz` and `.tar.zst`. The first bytes decide the format, not the
//! name.
//!
//! An archive inside an archive is a file like any other and is never unpacked, so an archive that
//! contains itself ends here. Readers that tolerate a damaged or ambiguous archive may see another
//! content than this one, so everything that is not exactly one complete archive is refused.

mod tar;
mod zip;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;

use crate::error::{Refusal, RefusalRule, SourceError};
use crate::limits::TransferLimits;
use crate::staging::{Staged, Unpacker};

/// The largest window of a zstd frame, as a power of two: 128 MiB, which `zstd --ultra -22` uses.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Unpacks an archive of `size` bytes into a private folder in `within`.
///
/// # Errors
/// The archive is unsafe, broken or not supported, or the file system fails. Nothing is kept.
pub fn unpack(
    archive: &File,
    size: u64,
    within: &Path,
    limits: &TransferLimits,
) -> Result<Staged, SourceError> {
    let allowed = limits.unpacked(size);
    let mut to = Unpacker::new(within, limits, allowed)?;
    unpack_into(archive, size, &mut to)?;
    Ok(to.finish())
}

/// Unpacks an archive of `size` bytes in addition to what `to` has.
///
/// # Errors
/// As [`unpack`].
pub(crate) fn unpack_into(
    mut archive: &File,
    size: u64,
    to: &mut Unpacker,
) -> Result<(), SourceError> {
    let fail = |error: io::Error| SourceError::io("read the archive", error);
    let limits = to.limits().clone();
    if size > limits.bytes {
        let size = skillhost_policy::limits::show_size(limits.bytes);
        let why = format!("the archive is larger than {size}");
        return Err(Refusal::new(RefusalRule::TransferSize, why).into());
    }
    let mut magic = [0; 4];
    let mut read = 0;
    while read < magic.len() {
        match archive.read_at(&mut magic[read..], read as u64).map_err(fail)? {
            0 => break,
            more => read += more,
        }
    }
    match magic {
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd] => unpack_tar(archive, size, to, &mut |_| true),
        [b'P', b'K', 3 | 5, _] => {
            archive.rewind().map_err(fail)?;
            zip::unpack(archive, size, &Ceiling { bytes: limits.unpacked(size), limits }, to)
        }
        _ => {
            let why = "not a .zip, .tar.gz or .tar.zst archive";
            Err(Refusal::new(RefusalRule::Unsupported, why).into())
        }
    }
}

/// Unpacks a tar stream of `size` bytes, compressed or not, in addition to what `to` has. Entries of
/// other paths than those that `is_wanted` accepts are left out.
///
/// # Errors
/// As [`unpack`].
pub(crate) fn unpack_tar(
    mut archive: &File,
    size: u64,
    to: &mut Unpacker,
    is_wanted: &mut dyn FnMut(&str) -> bool,
) -> Result<(), SourceError> {
    let fail = |error: io::Error| SourceError::io("read the archive", error);
    archive.rewind().map_err(fail)?;
    let mut magic = [0; 4];
    let read = archive.read_at(&mut magic, 0).map_err(fail)?;
    let limits = to.limits().clone();
    let ceiling = Ceiling { bytes: limits.unpacked(size), limits };
    let input = BufReader::with_capacity(64 << 10, archive);
    match magic[..read] {
        [0x1f, 0x8b, ..] => {
            tar::unpack(flate2::bufread::MultiGzDecoder::new(input), &ceiling, to, is_wanted)
        }
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let mut decoder = zstd::Decoder::with_buffer(input).map_err(fail)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(fail)?;
            tar::unpack(decoder, &ceiling, to, is_wanted)
        }
        _ => tar::unpack(input, &ceiling, to, is_wanted),
    }
}

/// The most that an archive may expand to.
struct Ceiling {
    bytes: u64,
    limits: TransferLimits,
}

impl Ceiling {
    fn refusal(&self) -> Refusal {
        if self.bytes >= self.limits.bytes {
            let size = skillhost_policy::limits::show_size(self.limits.bytes);
            let why = format!("the content of the archive is larger than {size}");
            return Refusal::new(RefusalRule::TransferSize, why);
        }
        let why =
            format!("the archive expands to more than {} times its size", self.limits.expansion);
        Refusal::new(RefusalRule::Expansion, why)
    }
}

/// Counts what a decoder returns, and stops it at the most that it may return.
struct Meter<R> {
    inner: R,
    position: u64,
    allowed: u64,
    tripped: Tripped,
}

/// Whether a [`Meter`] stopped. Other libraries report its error as theirs.
#[derive(Clone)]
struct Tripped {
    is_tripped: Rc<Cell<bool>>,
    refusal: Refusal,
}

impl Tripped {
    /// Explains an error of a decoder.
    fn explain(&self, error: &io::Error) -> Refusal {
        match error.kind() {
            _ if self.is_tripped.get() => self.refusal.clone(),
            io::ErrorKind::UnexpectedEof => {
                Refusal::new(RefusalRule::Truncated, "the archive is truncated")
            }
            _ => Refusal::new(RefusalRule::Corrupt, format!("the archive is damaged: {error}")),
        }
    }
}

impl<R: Read> Meter<R> {
    /// Returns at most `allowed` bytes of `inner`, and then fails with the refusal.
    fn new(inner: R, allowed: u64, refusal: Refusal) -> Meter<R> {
        let tripped = Tripped { is_tripped: Rc::default(), refusal };
        Meter { inner, position: 0, allowed, tripped }
    }

    fn into_inner(self) -> R {
        self.inner
    }
}

impl<R: Read> Read for Meter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.position += read as u64;
        if self.position > self.allowed {
            self.tripped.is_tripped.set(true);
            return Err(io::Error::other("more bytes than allowed"));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
