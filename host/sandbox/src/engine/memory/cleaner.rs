//! A thread that restores memories while other programs run. It starts when the process runs a
//! program a second time.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock, Weak};

use super::Shared;

/// Asks the thread to restore memories. Without a thread, a memory is restored when it is taken.
pub(super) fn tell(memories: &Arc<Shared>) {
    static CLEANER: OnceLock<Option<Sender<Weak<Shared>>>> = OnceLock::new();
    if let Some(cleaner) = CLEANER.get_or_init(start) {
        // It ends with the process.
        drop(cleaner.send(Arc::downgrade(memories)));
    }
}

fn start() -> Option<Sender<Weak<Shared>>> {
    let (to, orders) = channel::<Weak<Shared>>();
    let clean = move || {
        orders
            .iter()
            .filter_map(|memories| memories.upgrade())
            .for_each(|memories| memories.clean())
    };
    let started =
        std::thread::Builder::new().name("memory".into()).stack_size(64 << 10).spawn(clean);
    started.is_ok().then_some(to)
}
