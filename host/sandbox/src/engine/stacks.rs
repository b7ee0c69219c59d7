//! The stacks on which built-in programs run. They are reused.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::{StackCreator, StackMemory};

use super::address_space::{AddressRange, UNIT};

/// Stacks that are kept for later programs.
const KEPT: usize = 8;

/// The part of a kept stack that stays in memory, in bytes: most programs use no more.
const KEPT_TOP: usize = 256 << 10;

/// The guard below each stack, in bytes: touching it is a stack overflow.
const GUARD: usize = UNIT;

/// The stacks of one engine. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stacks(Arc<Mutex<Vec<Stack>>>);

/// The addresses of a stack and its guard.
#[derive(Debug)]
struct Stack(AddressRange);

#[expect(unsafe_code, reason = "stacks for guests are unsafe by their trait")]
// SAFETY: `Stack` maps the requested size and a guard below it, and is used by one fiber at a time.
// A used stack still has data of the host and of compiled code, which no guest can read.
unsafe impl StackCreator for Stacks {
    fn new_stack(&self, size: usize, zeroed: bool) -> wasmtime::Result<Box<dyn StackMemory>> {
        let size = size.next_multiple_of(UNIT);
        let kept = Some(self.kept().pop())
            .filter(|_| !zeroed)
            .flatten()
            .filter(|stack| stack.size() == size);
        let stack = kept.map_or_else(|| Stack::map(size), Ok)?;
        Ok(Box::new(StackInUse { stack: Some(stack), home: self.clone() }))
    }
}

impl Stacks {
    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Stack>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stack that a fiber uses.
struct StackInUse {
    /// `None` only while this is dropped.
    stack: Option<Stack>,
    home: Stacks,
}

impl StackInUse {
    fn stack(&self) -> &Stack {
        self.stack.as_ref().expect("it is taken only on drop")
    }
}

#[expect(unsafe_code, reason = "stacks for guests are unsafe by their trait")]
// SAFETY: as for `Stacks`.
unsafe impl StackMemory for StackInUse {
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

impl Drop for StackInUse {
    fn drop(&mut self) {
        let Some(mut stack) = self.stack.take() else { return };
        let mut kept = self.home.kept();
        if kept.len() < KEPT && stack.trim().is_ok() {
            kept.push(stack);
        }
    }
}

impl Stack {
    fn map(size: usize) -> io::Result<Stack> {
        let len = size.checked_add(GUARD).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut range = AddressRange::reserve(len)?;
        range.set_accessible(GUARD..len)?;
        Ok(Stack(range))
    }

    /// Bytes above the guard.
    fn size(&self) -> usize {
        self.0.len() - GUARD
    }

    /// Returns the pages to the kernel that most programs do not use.
    fn trim(&mut self) -> io::Result<()> {
        self.0.discard(GUARD..GUARD + self.size().saturating_sub(KEPT_TOP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1 << 20;

    #[test]
    fn stack_has_its_size_above_a_guard() {
        let stack = Stacks::default().new_stack(SIZE + 1, false).unwrap();
        let (range, guard) = (stack.range(), stack.guard_range());
        assert_eq!(range.len(), SIZE + UNIT);
        assert_eq!((range.end, range.start), (stack.top().addr(), guard.end.addr()));
        assert_eq!(guard.end.addr() - guard.start.addr(), GUARD);
    }

    #[test]
    fn stack_is_reused_only_for_the_same_size_and_not_zeroed() {
        let stacks = Stacks::default();
        let lend = |size, zeroed| stacks.new_stack(size, zeroed).unwrap().top();
        let first = lend(SIZE, false);
        assert_eq!(lend(SIZE, false), first);
        let kept = stacks.kept().len();
        drop((stacks.new_stack(SIZE, true).unwrap(), stacks.new_stack(SIZE, true).unwrap()));
        assert!(stacks.kept().len() > kept, "zeroed stacks are new");
    }

    #[test]
    fn two_fibers_never_share_a_stack() {
        let stacks = Stacks::default();
        drop(stacks.new_stack(SIZE, false).unwrap());
        let (one, two) =
            (stacks.new_stack(SIZE, false).unwrap(), stacks.new_stack(SIZE, false).unwrap());
        assert!(one.range().end <= two.range().start || two.range().end <= one.range().start);
    }

    #[test]
    fn trimming_a_stack_keeps_only_its_top() {
        let mut stack = Stack::map(SIZE).unwrap();
        stack.0.bytes_mut(GUARD..GUARD + SIZE).fill(7);
        stack.trim().unwrap();
        let (bottom, top) = stack.0.bytes_mut(GUARD..GUARD + SIZE).split_at(SIZE - KEPT_TOP);
        assert!(bottom.iter().all(|byte| *byte == 0) && top.iter().all(|byte| *byte == 7));
    }
}
