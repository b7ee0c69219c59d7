//! Compiled code that the kernel does not hold, as after the machine's start. Mapped and looked at
//! page by page it comes back in small pieces, which every later start maps and unmaps one by one;
//! read from end to end it comes in large ones, which are mapped at once.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt as _;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Smaller files are not worth a look.
const LARGE: u64 = 1 << 20;

/// What the kernel reads ahead at once where nobody has set it (`read_ahead_kb`).
const PIECE: usize = 128 << 10;

/// Reads a large file of so many bytes once, unless the kernel holds its start already, which every
/// load reads: what it gave up of the rest, since nobody looked at it, is not wanted.
///
/// # Errors
/// It cannot be read.
pub(crate) fn make_resident(file: &File, bytes: u64) -> io::Result<()> {
    if bytes < LARGE || is_resident(file, 0) {
        return Ok(());
    }
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while let count @ 1.. = file.read_at(&mut piece, at)? {
        at += count as u64;
    }
    Ok(())
}

/// Whether the kernel holds the byte at that place. A file system that cannot say counts as one
/// that does.
fn is_resident(file: &File, at: u64) -> bool {
    let mut byte = [0];
    preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT)
        != Err(Errno::AGAIN)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rustix::fs::{Advice, fadvise};

    use super::*;

    #[test]
    fn a_large_file_that_was_dropped_is_read_back_whole() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; 8 * PIECE * 4]).unwrap();
        file.sync_all().unwrap();
        let bytes = file.metadata().unwrap().len();
        let places = [0, bytes / 3, bytes / 2, bytes - 1];
        assert!(places.iter().all(|at| is_resident(&file, *at)), "what was just written is held");
        // Where it stays all the same, as on a file system in memory, there is nothing to read
        // back.
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        make_resident(&file, bytes).unwrap();
        assert!(places.iter().all(|at| is_resident(&file, *at)));
    }
}
