//! The stacks on which built-in programs run, which the next ones get.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::{Advice, MprotectFlags, madvise};
use wasmtime::{StackCreator, StackMemory};

use super::address_space::{Mapped, UNIT};

/// Stacks that are kept.
const KEPT: usize = 8;

/// What stays of a stack that is kept, in bytes: what most programs touch.
const KEPT_TOP: usize = 256 << 10;

/// Below each stack, in bytes: whoever gets there has overflown.
const GUARD: usize = UNIT;

/// The stacks of one engine. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stacks(Arc<Mutex<Vec<Stack>>>);

/// A stack's addresses, above a guard.
#[derive(Debug)]
struct Stack(Mapped);

#[expect(unsafe_code, reason = "stacks for guests are unsafe by their trait")]
// SAFETY: `Stack` maps what is asked for, a guard below it, and is lent to one fiber at a time. A
// stack that was used holds what the host and compiled code left there, which no guest can read.
unsafe impl StackCreator for Stacks {
    fn new_stack(&self, size: usize, zeroed: bool) -> wasmtime::Result<Box<dyn StackMemory>> {
        let size = size.next_multiple_of(UNIT);
        let kept = Some(self.kept().pop())
            .filter(|_| !zeroed)
            .flatten()
            .filter(|stack| stack.size() == size);
        let stack = kept.map_or_else(|| Stack::map(size), Ok)?;
        Ok(Box::new(Lent { stack: Some(stack), home: self.clone() }))
    }
}

impl Stacks {
    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Stack>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stack while a fiber has it.
struct Lent {
    /// Always there; taken when this is dropped.
    stack: Option<Stack>,
    home: Stacks,
}

impl Lent {
    fn stack(&self) -> &Stack {
        self.stack.as_ref().expect("it is taken at the end alone")
    }
}

#[expect(unsafe_code, reason = "stacks for guests are unsafe by their trait")]
// SAFETY: as for `Stacks`.
unsafe impl StackMemory for Lent {
    fn top(&self) -> *mut u8 {
        let stack = self.stack();
        stack.0.start().wrapping_add(GUARD + stack.size())
    }

    fn range(&self) -> Range<usize> {
        let top = self.top().addr();
        top - self.stack().size()..top
    }

    fn guard_range(&self) -> Range<*mut u8> {
        let start = self.stack().0.start();
        start..start.wrapping_add(GUARD)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(stack) = self.stack.take() else { return };
        let mut kept = self.home.kept();
        if kept.len() < KEPT && stack.trim().is_ok() {
            kept.push(stack);
        }
    }
}

impl Stack {
    fn map(size: usize) -> io::Result<Stack> {
        let mut mapped =
            Mapped::reserve(size.checked_add(GUARD).ok_or(io::ErrorKind::OutOfMemory)?)?;
        mapped.protect(GUARD, size, MprotectFlags::READ | MprotectFlags::WRITE)?;
        Ok(Stack(mapped))
    }

    /// Bytes above the guard.
    fn size(&self) -> usize {
        self.0.len() - GUARD
    }

    /// Gives up what most programs do not touch.
    fn trim(&self) -> io::Result<()> {
        let unused = self.size().saturating_sub(KEPT_TOP);
        #[expect(unsafe_code, reason = "memory that a fiber had")]
        // SAFETY: within the mapping, and no fiber is on it.
        unsafe {
            madvise(self.0.start().wrapping_add(GUARD).cast(), unused, Advice::LinuxDontNeed)?
        };
        Ok(())
    }
}
