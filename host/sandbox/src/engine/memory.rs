//! The linear memory of built-in programs. Instances map an image of its initial content and copy
//! on write; afterwards the memory is restored for the next instance.
//!
//! Pages that a program has written are restored by copying, and stay mapped: mapping them again
//! costs a fault each. wasmtime's own pool does this for the first 32 ranges of written pages and
//! drops the rest (`MAX_REGIONS` in its `pagemap.rs`); an interpreter writes about sixty.

mod cleaner;
mod image;
mod mapping;
mod pagemap;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

pub(crate) use image::{Image, split, write_image};
use mapping::Mapping;

/// Memories that are kept for later programs.
const KEPT: usize = 8;

/// A memory that grew by more than this, in bytes, is unmapped: only the program that used it
/// needed that much.
const KEPT_GROWTH: usize = 8 << 20;

/// The memories of one component in one engine. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Memories(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Set when the component is loaded.
    image: OnceLock<Image>,
    unused: Mutex<Unused>,
}

/// Memories that no program uses.
#[derive(Default)]
struct Unused {
    /// As programs left them.
    used: Vec<Mapping>,
    /// Restored for the next program.
    clean: Vec<Mapping>,
    /// How often a memory was asked for. From the second time on more programs are expected, and
    /// memories are restored before they start.
    requests: u64,
}

/// Checks whether the kernel finds the pages that a program has written.
pub(crate) fn has_pagemap_scan() -> bool {
    pagemap::is_supported()
}

impl Memories {
    /// Sets the initial content of the component's memory. The first call counts.
    pub(crate) fn set_image(&self, image: Image) {
        // A concurrent load of the same component has the same image.
        drop(self.0.image.set(image));
    }
}

#[expect(unsafe_code, reason = "memory for guests is unsafe by its trait")]
// SAFETY: `Mapping` reserves the requested size and a guard behind it, makes no more accessible
// than the memory's size, and is used by one instance at a time. It starts with the image instead
// of zeros only if the component's data segments, from which the image was made, were removed.
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
        let mapping =
            mapping.map_err(|error| format!("cannot reserve memory for a program: {error}"))?;
        let home = image.map(|_| self.0.clone());
        Ok(Box::new(MemoryInUse { mapping: Some(mapping), home }))
    }
}

impl Shared {
    /// Returns an unused memory in its initial state, if there is one. A memory that cannot be
    /// restored is unmapped.
    fn take(&self, image: &Image) -> Option<Mapping> {
        let mut unused = self.unused();
        unused.requests += 1;
        if let Some(clean) = unused.clean.pop() {
            return Some(clean);
        }
        let mut used = unused.used.pop()?;
        drop(unused);
        used.reset(image).ok().map(|()| used)
    }

    /// Keeps the memory of a program that has ended, if there is room.
    fn keep(self: &Arc<Self>, mapping: Mapping) {
        let grown = self.image.get().map_or(0, |image| mapping.size() - image.memory);
        let mut unused = self.unused();
        if grown > KEPT_GROWTH || unused.used.len() + unused.clean.len() >= KEPT {
            return;
        }
        unused.used.push(mapping);
        if unused.requests > 1 {
            drop(unused);
            cleaner::tell(self);
        }
    }

    /// Restores all unused memories.
    fn clean(&self) {
        let Some(image) = self.image.get() else { return };
        while let Some(mut used) = { self.unused().used.pop() } {
            if used.reset(image).is_ok() {
                self.unused().clean.push(used);
            }
        }
    }

    fn unused(&self) -> MutexGuard<'_, Unused> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A memory that an instance uses.
struct MemoryInUse {
    /// `None` only while this is dropped.
    mapping: Option<Mapping>,
    /// Takes it back then; if there is none, it is unmapped.
    home: Option<Arc<Shared>>,
}

impl MemoryInUse {
    fn mapping(&self) -> &Mapping {
        self.mapping.as_ref().expect("it is taken only on drop")
    }
}

#[expect(unsafe_code, reason = "memory for guests is unsafe by its trait")]
// SAFETY: as for `Memories`.
unsafe impl LinearMemory for MemoryInUse {
    fn byte_size(&self) -> usize {
        self.mapping().size()
    }

    fn byte_capacity(&self) -> usize {
        self.mapping().capacity()
    }

    fn grow_to(&mut self, size: usize) -> wasmtime::Result<()> {
        let mapping = self.mapping.as_mut().expect("it is taken only on drop");
        Ok(mapping.grow_to(size)?)
    }

    fn as_ptr(&self) -> *mut u8 {
        self.mapping().base()
    }
}

impl Drop for MemoryInUse {
    fn drop(&mut self) {
        if let (Some(home), Some(mapping)) = (&self.home, self.mapping.take()) {
            home.keep(mapping);
        }
    }
}
