//! Unpacks a tar stream: ustar, with the extensions of pax and GNU for long names.

use std::io::Read;

use tar::{Archive, EntryType};

use super::{Ceiling, Meter};
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::names;
use crate::staging::Unpacker;

/// Bytes of a block, in which everything in a tar stream is measured.
const BLOCK: u64 = 512;

/// Unpacks a stream, which may have as many bytes as the ceiling says, headers included. Entries of
/// other paths than those that `is_wanted` accepts are left out.
pub(super) fn unpack(
    stream: impl Read,
    ceiling: &Ceiling,
    to: &mut Unpacker,
    is_wanted: &mut dyn FnMut(&str) -> bool,
) -> Result<(), SourceError> {
    let meter = Meter::new(stream, ceiling.bytes, ceiling.refusal());
    let tripped = meter.tripped.clone();
    let mut archive = Archive::new(meter);
    let explain = |error: std::io::Error| SourceError::from(tripped.explain(&error));
    let mut end = 0;
    for entry in archive.entries().map_err(explain)? {
        let mut entry = entry.map_err(explain)?;
        let size = entry.size();
        end = entry.raw_file_position() + size.div_ceil(BLOCK) * BLOCK;
        let path = entry.path_bytes().into_owned();
        let kind = entry.header().entry_type();
        if kind != EntryType::XGlobalHeader && !is_wanted(&names::parse(&path)?) {
            to.count()?;
            continue;
        }
        match kind {
            EntryType::Regular | EntryType::Continuous => {
                let written = to.file(&path, &mut entry).map_err(|error| match error {
                    SourceError::Input(error) => explain(error),
                    error => error,
                })?;
                if written != size {
                    return Err(truncated().into());
                }
            }
            EntryType::Directory => to.folder(&path)?,
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                to.link(&path, &target)?;
            }
            // `git archive` writes the commit in such a header. It names no file.
            EntryType::XGlobalHeader => to.count()?,
            EntryType::Link => {
                let why = "hard links are not supported";
                return Err(Refusal::at(RefusalRule::HardLink, &path, why).into());
            }
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                let why = "devices and pipes are not supported";
                return Err(Refusal::at(RefusalRule::SpecialFile, &path, why).into());
            }
            _ => {
                let why = "this kind of entry is not supported";
                return Err(Refusal::at(RefusalRule::Unsupported, &path, why).into());
            }
        }
    }
    let mut meter = archive.into_inner();
    // The end is two blocks of zeros. The library stops at the first, and takes the end of the stream
    // for it, too.
    let mut rest = [0; 4096];
    loop {
        match meter.read(&mut rest) {
            Ok(0) if meter.position >= end + 2 * BLOCK => return Ok(()),
            Ok(0) => return Err(truncated().into()),
            Ok(read) if rest[..read].iter().all(|byte| *byte == 0) => {}
            Ok(_) => {
                let why = "the archive has content after its end";
                return Err(Refusal::new(RefusalRule::Corrupt, why).into());
            }
            Err(error) => return Err(explain(error)),
        }
    }
}

fn truncated() -> Refusal {
    Refusal::new(RefusalRule::Truncated, "the archive is truncated")
}
