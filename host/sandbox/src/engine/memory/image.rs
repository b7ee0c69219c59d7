//! The first content of a component's memory, which lies behind its compiled code in one file.
//!
//! wasmtime makes such an image of its own, which only its own memories can begin with. So the
//! compiler's process takes the data segments out of the component before it compiles it
//! ([`split()`]), and writes what they say behind the code ([`write_image`]).

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;

use crate::engine::address_space::Mapped;
use crate::engine::heap::LARGE_PAGE;

mod split;

pub(crate) use split::{Split, split};

/// Where an image begins in its file: on a boundary of a large page, so that it can be mapped in
/// large pieces.
const BOUNDARY: u64 = LARGE_PAGE as u64;

/// What a file with an image ends with, before three numbers of 64 bits: where it begins, its
/// length, that of the memory.
const MAGIC: [u8; 8] = *b"\0skimage";
const TRAILER: usize = 32;

/// An image in a file.
#[derive(Debug)]
pub(crate) struct Image {
    file: File,
    at: u64,
    len: usize,
    /// Bytes of the memory that begins with it, which is no smaller.
    pub(super) memory: usize,
    bytes: OnceLock<Mapped>,
}

/// Writes the image of a component behind so many bytes of code.
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
    /// Finds the image in a file of compiled code; `None` where there is none.
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

    /// What to map, and from where.
    pub(super) fn file(&self) -> (&File, u64) {
        (&self.file, self.at)
    }

    /// Its length in bytes, a multiple of [`UNIT`](crate::engine::address_space::UNIT).
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// What is in it.
    ///
    /// # Errors
    /// It cannot be mapped.
    pub(super) fn bytes(&self) -> io::Result<&[u8]> {
        if self.bytes.get().is_none() {
            // Whoever else mapped it meanwhile has mapped the same.
            drop(self.bytes.set(Mapped::read(&self.file, self.at, self.len)?));
        }
        let mapped = self.bytes.get().expect("it was just set");
        #[expect(unsafe_code, reason = "maps a file that the host alone writes")]
        // SAFETY: so many bytes are mapped for as long as this value is there; a file in the cache
        // is replaced and not changed.
        Ok(unsafe { std::slice::from_raw_parts(mapped.start(), mapped.len()) })
    }
}
