//! The linear memory of built-in programs: an image of its first content, which instances map and
//! copy as they write, and which the next instance gets back as it was.
//!
//! What a program has written is copied back page by page, and the pages stay: mapping them anew
//! costs a fault each. wasmtime's own pool does that for the first 32 runs of written pages and
//! gives up the rest (`MAX_REGIONS` in its `pagemap.rs`); an interpreter writes some sixty.

mod cleaner;
mod image;
mod mapping;
mod pagemap;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

pub(crate) use image::{Image, split, write_image};
use mapping::Mapping;

/// Memories that are kept for the next programs.
const KEPT: usize = 8;

/// A memory that grew by more than this, in bytes, is given back: it would hold what one program
/// needed.
const KEPT_GROWTH: usize = 8 << 20;

/// The memories of one component in one engine. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Memories(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The component's, from when it is loaded.
    image: OnceLock<Image>,
    kept: Mutex<Kept>,
}

/// Memories that programs have left.
#[derive(Default)]
struct Kept {
    /// As they left them.
    left: Vec<Mapping>,
    /// As the next find them.
    clean: Vec<Mapping>,
    /// How often one was asked for. Where a second program follows the first more will, and what is
    /// left is cleaned before they come.
    asked: u64,
}

impl Memories {
    /// Says with what content the component's memory begins. The first image stays.
    pub(crate) fn begin_with(&self, image: Image) {
        // Whoever loads the component a second time at once has loaded the same.
        drop(self.0.image.set(image));
    }
}

#[expect(unsafe_code, reason = "memory for guests is unsafe by its trait")]
// SAFETY: `Mapping` reserves what is asked for and the guard behind it, makes accessible no more
// than the memory's size, and is lent to one instance at a time. It begins with the image instead
// of zeros only where the component's data segments, of which the image was made, were taken out.
unsafe impl MemoryCreator for Memories {
    fn new_memory(
        &self,
        _ty: MemoryType,
        minimum: usize,
        _maximum: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let image = self.0.image.get().filter(|image| image.memory == minimum);
        let kept = image.and_then(|image| self.0.take(image));
        let mapping = kept
            .map_or_else(|| Mapping::new(image, minimum, reserved.unwrap_or(minimum), guard), Ok);
        let mapping = mapping.map_err(|error| format!("no memory for a program: {error}"))?;
        let home = image.map(|_| self.0.clone());
        Ok(Box::new(Lent { mapping: Some(mapping), home }))
    }
}

impl Shared {
    /// A memory that begins with the image, if one is left. One that cannot be cleaned is given up.
    fn take(&self, image: &Image) -> Option<Mapping> {
        let mut kept = self.kept();
        kept.asked += 1;
        if let Some(clean) = kept.clean.pop() {
            return Some(clean);
        }
        let mut left = kept.left.pop()?;
        drop(kept);
        left.reset(image).ok().map(|()| left)
    }

    /// Keeps what a program has left, if there is room.
    fn keep(self: &Arc<Self>, mapping: Mapping) {
        let grown = self.image.get().map_or(0, |image| mapping.size() - image.memory);
        let mut kept = self.kept();
        if grown > KEPT_GROWTH || kept.left.len() + kept.clean.len() >= KEPT {
            return;
        }
        kept.left.push(mapping);
        if kept.asked > 1 {
            drop(kept);
            cleaner::tell(self);
        }
    }

    /// Cleans what is left.
    fn clean(&self) {
        let Some(image) = self.image.get() else { return };
        while let Some(mut left) = { self.kept().left.pop() } {
            if left.reset(image).is_ok() {
                self.kept().clean.push(left);
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A memory while an instance has it.
struct Lent {
    /// Always there; taken when this is dropped.
    mapping: Option<Mapping>,
    /// Where it goes then; unmapped where there is none.
    home: Option<Arc<Shared>>,
}

impl Lent {
    fn mapping(&self) -> &Mapping {
        self.mapping.as_ref().expect("it is taken at the end alone")
    }
}

#[expect(unsafe_code, reason = "memory for guests is unsafe by its trait")]
// SAFETY: as for `Memories`.
unsafe impl LinearMemory for Lent {
    fn byte_size(&self) -> usize {
        self.mapping().size()
    }

    fn byte_capacity(&self) -> usize {
        self.mapping().capacity()
    }

    fn grow_to(&mut self, size: usize) -> wasmtime::Result<()> {
        let mapping = self.mapping.as_mut().expect("it is taken at the end alone");
        Ok(mapping.grow_to(size)?)
    }

    fn as_ptr(&self) -> *mut u8 {
        self.mapping().base()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(home), Some(mapping)) = (&self.home, self.mapping.take()) {
            home.keep(mapping);
        }
    }
}
