//! Reads compiled code that is not in the page cache, as after a reboot. Faulted in through a
//! mapping, it is cached in small pages, which every later start maps and unmaps one by one. Read
//! sequentially, it is cached in large pages, which are mapped at once.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt as _;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Smaller files are not worth checking.
const LARGE: u64 = 1 << 20;

/// The kernel's default for reading ahead, in bytes (`read_ahead_kb`).
const PIECE: usize = 128 << 10;

/// Reads a large file once, unless its start is cached: every load reads the start, so if that is
/// cached, the rest was dropped because it was not used.
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

/// Checks whether a byte of a file is cached. If the file system cannot say, it counts as cached.
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
    fn large_file_that_is_not_cached_is_read() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; 8 * PIECE * 4]).unwrap();
        file.sync_all().unwrap();
        let bytes = file.metadata().unwrap().len();
        let places = [0, bytes / 3, bytes / 2, bytes - 1];
        assert!(places.iter().all(|at| is_resident(&file, *at)), "new data is cached");
        // It stays cached on a file system in memory: then there is nothing to read.
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        make_resident(&file, bytes).unwrap();
        assert!(places.iter().all(|at| is_resident(&file, *at)));
    }
}
