//! Compiled code that the kernel does not hold, as after the machine's start. Mapped and looked at page by page it comes back in small
//! pieces, which every later start maps and unmaps one by one; read from end to end it comes in large ones, which are mapped at once.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt as _;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Smaller files are not worth a look.
const LARGE: u64 = 1 << 20;

/// Places of a file that are looked at: what a start maps is strewn over it, and leaves most of it untouched.
const LOOKS: u64 = 4;

/// What the kernel reads ahead at once where nobody has set it (`read_ahead_kb`).
const PIECE: usize = 128 << 10;

/// Reads a large file once, unless the kernel holds it already.
///
/// # Errors
/// It cannot be read.
pub(super) fn make_resident(file: &File) -> io::Result<()> {
    let bytes = rustix::fs::fstat(file)?.st_size.cast_unsigned();
    if bytes < LARGE || is_resident(file, bytes) {
        return Ok(());
    }
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while let count @ 1.. = file.read_at(&mut piece, at)? {
        at += count as u64;
    }
    Ok(())
}

/// Whether the kernel holds a file, as far as a few places tell. A file system that cannot say counts as one that does.
fn is_resident(file: &File, bytes: u64) -> bool {
    (0..LOOKS).all(|look| {
        let mut byte = [0];
        let at = (2 * look + 1) * (bytes / (2 * LOOKS));
        preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) != Err(Errno::AGAIN)
    })
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
        assert!(is_resident(&file, bytes), "what was just written is held");
        // Where it stays all the same, as on a file system in memory, there is nothing to read back.
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        make_resident(&file).unwrap();
        assert!(is_resident(&file, bytes));
    }
}
