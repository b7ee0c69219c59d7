//! The initial content of a component's memory, which follows its compiled code in one file.
//!
//! wasmtime makes such an image itself, but only its own memories can use it. So the compiler
//! process takes the data segments out of the component before compiling it ([`split()`]), and
//! writes their content behind the code ([`write_image`]).

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;

use crate::engine::address_space::FileBytes;
use crate::startup::heap::LARGE_PAGE;

mod split;

pub(crate) use split::{Split, split};

/// An image is aligned to this in its file: a large page, so that it can be mapped in large pages.
const BOUNDARY: u64 = LARGE_PAGE as u64;

/// The trailer of a file with an image: this, and three 64-bit numbers: the image's offset, its
/// length, and the size of the memory.
const MAGIC: [u8; 8] = *b"\0skimage";
const TRAILER: usize = 32;

/// An image in a file.
#[derive(Debug)]
pub(crate) struct Image {
    file: File,
    at: u64,
    len: usize,
    /// Size of the memory that starts with it, in bytes; no less than `len`.
    pub(super) memory: usize,
    bytes: OnceLock<FileBytes>,
}

/// Writes the image of a component behind its code, which has `code` bytes.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write_image(mut to: impl Write, code: usize, split: &Split) -> io::Result<()> {
    let at = (code as u64).next_multiple_of(BOUNDARY);
    io::copy(&mut io::repeat(0).take(at - code as u64), &mut to)?;
    to.write_all(&split.image)?;
    to.write_all(&MAGIC)?;
    [at, split.image.len() as u64, split.memory]
        .iter()
        .try_for_each(|number| to.write_all(&number.to_le_bytes()))
}

impl Image {
    /// Finds the image in a file of compiled code; `None` if there is none.
    pub(crate) fn of(file: File) -> Option<Image> {
        let size = file.metadata().ok()?.len();
        let mut trailer = [0; TRAILER];
        file.read_exact_at(&mut trailer, size.checked_sub(TRAILER as u64)?).ok()?;
        let (magic, numbers) = trailer.split_at(MAGIC.len());
        let mut numbers = numbers
            .chunks_exact(8)
            .map(|number| u64::from_le_bytes(number.try_into().expect("8 of them")));
        let (at, len, memory) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let fits = at % BOUNDARY == 0 && len <= memory && at.checked_add(len)? <= size;
        if magic != MAGIC || !fits {
            return None;
        }
        let [len, memory] = [len, memory].map(|number| usize::try_from(number).ok());
        Some(Image { file, at, len: len?, memory: memory?, bytes: OnceLock::new() })
    }

    /// The file, and the offset of the image in it.
    pub(super) fn file(&self) -> (&File, u64) {
        (&self.file, self.at)
    }

    /// Its length in bytes, a multiple of [`UNIT`](crate::engine::address_space::UNIT).
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Its content.
    ///
    /// # Errors
    /// It cannot be mapped.
    pub(super) fn bytes(&self) -> io::Result<&[u8]> {
        if self.bytes.get().is_none() {
            // A concurrent call has mapped the same bytes.
            drop(self.bytes.set(FileBytes::map(&self.file, self.at, self.len)?));
        }
        Ok(self.bytes.get().expect("it was just set").bytes())
    }
}
