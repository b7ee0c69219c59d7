//! Finds the written pages of a mapping (`PAGEMAP_SCAN`, Linux 6.7 and later).

use std::ffi::c_void;
use std::mem::size_of;
use std::sync::OnceLock;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

/// Ranges of pages that the kernel reports per call.
const RUNS: usize = 256;

/// Calls `found` with the offset and length of each range of written pages of a private mapping, in
/// order, until it returns less than the length. Returns the offset up to which all written pages
/// were found and accepted: 0 if the kernel cannot report them.
pub(super) fn each_written(
    base: *mut u8,
    len: usize,
    mut found: impl FnMut(usize, usize) -> usize,
) -> usize {
    let Some(pagemap) = pagemap() else { return 0 };
    let mut runs = [Run::default(); RUNS];
    let mut done = 0;
    while done < len {
        let mut scan = Scan::of(base.addr() + done, base.addr() + len, &mut runs);
        #[expect(unsafe_code, reason = "a system call that rustix does not have")]
        // SAFETY: the kernel writes to `scan`, and to no more of `runs` than its length.
        let Ok(count) = (unsafe { ioctl(pagemap, &mut scan) }) else { return done };
        let reached =
            usize::try_from(scan.walk_end).unwrap_or_default().saturating_sub(base.addr());
        for run in runs.iter().take(count) {
            let [start, end] = [run.start, run.end]
                .map(|at| usize::try_from(at).unwrap_or_default().saturating_sub(base.addr()));
            let taken = found(start, end - start);
            if taken < end - start {
                return start + taken;
            }
        }
        if reached <= done {
            return done;
        }
        done = reached;
    }
    len
}

/// Checks whether the kernel can report written pages, by asking for one.
pub(super) fn is_supported() -> bool {
    /// As large as the largest pages of common kernels, so that it has whole pages.
    #[repr(C, align(65536))]
    struct Pages([u8; 65536]);
    let mut pages = Box::new(Pages([1; 65536]));
    let len = size_of::<Pages>();
    each_written(std::hint::black_box(pages.0.as_mut_ptr()), len, |_, found| found) == len
}

/// The pagemap of this process; `None` if it cannot be opened.
fn pagemap() -> Option<&'static OwnedFd> {
    static PAGEMAP: OnceLock<Option<OwnedFd>> = OnceLock::new();
    PAGEMAP
        .get_or_init(|| {
            open("/proc/self/pagemap", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
        })
        .as_ref()
}

/// `struct page_region` of `linux/fs.h`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Run {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg` of `linux/fs.h`.
#[derive(Debug)]
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

// `PAGE_IS_...` of `linux/fs.h`.
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const PFNZERO: u64 = 1 << 5;

impl Scan {
    /// A written page of a private mapping is present or swapped out, and neither a page of the
    /// file nor the shared zero page.
    fn of(start: usize, end: usize, runs: &mut [Run]) -> Scan {
        Scan {
            size: size_of::<Scan>() as u64,
            flags: 0,
            start: start as u64,
            end: end as u64,
            walk_end: 0,
            vec: runs.as_mut_ptr().expose_provenance() as u64,
            vec_len: runs.len() as u64,
            max_pages: 0,
            category_inverted: FILE | PFNZERO,
            category_mask: FILE | PFNZERO,
            category_anyof_mask: PRESENT | SWAPPED,
            return_mask: 0,
        }
    }
}

#[expect(unsafe_code, reason = "a system call that rustix does not have")]
// SAFETY: the operation's number and argument are those of `linux/fs.h`; it returns the number of
// ranges that it wrote.
unsafe impl Ioctl for &mut Scan {
    type Output = usize;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<Scan>(b'f', 16)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut::<Scan>(self).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<usize> {
        usize::try_from(out).map_err(|_| rustix::io::Errno::INVAL)
    }
}
