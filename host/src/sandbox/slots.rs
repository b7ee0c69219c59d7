//! Memory that programs leave to the next, once there is a next: a process that starts a few of them starts many. Their pages are there already
//! and only get their first content back, where mapping them anew costs a fault each.
//!
//! Slots bound what a component may have more tightly than limits do, and so they are for built-in programs, whose needs are known. Where all are
//! taken a program is mapped as the first one was.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::engine::{Allocation, Mode, POOL_MEMORIES, POOL_TABLES};
use crate::runtime::Component;

/// Programs that have slots at once. Each reserves two memories of 4 GiB of addresses, and keeps at most 8 MiB of pages.
const SLOTS: u32 = 4;

/// How the engine of slots allocates.
pub(super) const ALLOCATION: Allocation = Allocation::Pooling(SLOTS);

/// Starts of a component that is loaded for mapping already before it is loaded for slots as well: that takes half a millisecond of an
/// interpreter, and each start in a slot saves as much.
const MAPPED: u32 = 3;

/// A slot, until it is dropped.
pub(super) type Slot = Arc<OwnedSemaphorePermit>;

/// The slots of a sandbox.
pub(super) struct Slots {
    /// Whether a program was started.
    begun: AtomicBool,
    free: Arc<Semaphore>,
    /// What is known of components, by their digests.
    known: Mutex<HashMap<String, Known>>,
}

/// What is known of a component.
#[derive(Clone, Copy)]
enum Known {
    /// How often it was mapped.
    Mapped(u32),
    /// It has no room in a slot.
    Refused,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots { begun: AtomicBool::new(false), free: Arc::new(Semaphore::new(SLOTS as usize)), known: Mutex::default() }
    }
}

impl Slots {
    /// A slot for a program that is about to start; none for the first of a process, for what runs the same on every machine, and where all are
    /// taken.
    pub(super) fn take(&self, component: &Component, mode: Mode) -> Option<Slot> {
        self.of(&component.digest, component.built_in().is_some() && mode != Mode::Deterministic)
    }

    fn of(&self, digest: &str, may_have_one: bool) -> Option<Slot> {
        let is_first = !self.begun.swap(true, Relaxed);
        if !may_have_one {
            return None;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let starts = match known.get(digest) {
            None if !is_first => MAPPED,
            None => 0,
            Some(Known::Mapped(starts)) => *starts,
            Some(Known::Refused) => return None,
        };
        if starts >= MAPPED {
            return self.free.clone().try_acquire_owned().ok().map(Arc::new);
        }
        known.insert(digest.to_owned(), Known::Mapped(starts + 1));
        None
    }

    /// Gives a component no slot any more.
    pub(super) fn refuse(&self, component: &Component, reason: &str) {
        tracing::debug!(reason, component = component.digest, "no slots for a program, which is mapped instead");
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(component.digest.clone(), Known::Refused);
    }
}

/// Whether a component's memories and tables have room in a slot.
pub(super) fn fits(component: &wasmtime::component::Component) -> bool {
    component.resources_required().is_some_and(|needs| needs.num_memories <= POOL_MEMORIES && needs.num_tables <= POOL_TABLES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_program_and_the_next_two_of_its_component_are_mapped_and_others_have_slots_at_once() {
        let slots = Slots::default();
        let has = |digest, may| slots.of(digest, may).is_some();
        assert_eq!([(); 4].map(|()| has("python", true)), [false, false, false, true]);
        assert!(has("shell", true));
        assert!(!has("calculator", false));
    }

    #[test]
    fn a_process_that_begins_with_what_has_no_slot_has_them_for_the_next() {
        let slots = Slots::default();
        assert!(slots.of("calculator", false).is_none());
        assert!(slots.of("python", true).is_some());
    }

    #[test]
    fn where_all_are_taken_there_is_none_until_one_is_given_back() {
        let slots = Slots::default();
        slots.of("calculator", false);
        let mut held: Vec<_> = (0..SLOTS).map(|_| slots.of("shell", true).unwrap()).collect();
        assert!(slots.of("shell", true).is_none());
        held.pop();
        assert!(slots.of("shell", true).is_some());
    }

    #[test]
    fn what_has_no_room_in_one_is_not_asked_again() {
        let slots = Slots::default();
        slots.of("calculator", false);
        let component = Component::new(*b"none");
        slots.refuse(&component, "it is no component");
        assert!(slots.of(&component.digest, true).is_none());
    }
}
