//! Ends programs with the program that started them.
//!
//! When a program is killed, traps or hits a limit, the programs that it started end too,
//! recursively. When it exits by itself, they keep running, like background jobs of a shell. They
//! then belong to the run, which ends them when its first program has ended. Nothing of a run
//! continues after it.

use std::sync::{Mutex, PoisonError};

use tokio::task::AbortHandle;

/// The programs that one program has started. Dropping this ends those still running.
#[derive(Debug, Default)]
pub(crate) struct Children(Vec<AbortHandle>);

impl Children {
    pub(crate) fn add(&mut self, child: AbortHandle) {
        self.0.retain(|child| !child.is_finished());
        self.0.push(child);
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// The programs whose starters have exited by themselves; `None` once the run is over.
#[derive(Debug)]
pub(crate) struct Orphans(Mutex<Option<Vec<Children>>>);

impl Default for Orphans {
    fn default() -> Orphans {
        Orphans(Mutex::new(Some(Vec::new())))
    }
}

impl Orphans {
    /// Takes over these programs. After the run they end immediately.
    pub(crate) fn adopt(&self, mut children: Children) {
        children.0.retain(|child| !child.is_finished());
        let mut orphans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *orphans {
            Some(orphans) if !children.0.is_empty() => {
                orphans.push(children);
            }
            _ => {
                drop(orphans);
                drop(children);
            }
        }
    }

    /// Ends all of them, and those that are adopted later.
    pub(crate) fn end(&self) {
        let orphans = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(orphans);
    }
}
