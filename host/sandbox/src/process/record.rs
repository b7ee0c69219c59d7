//! Records how each started program ended, for the outcome and the audit record.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::bindings::skillhost::skill::process::Status;
use crate::engine::Mode;
use crate::limits::fuel::Cost;
use skillhost_policy::outcome::{ChildProcess, ProcessEnd};
use skillhost_skill::runtime;

/// The most programs that are listed individually; further ones are counted.
const LIST_MAX: usize = 1_000;

/// The bytes that are kept of a text that the guest chooses.
const TEXT_MAX: usize = 200;

/// The programs of an invocation.
#[derive(Debug)]
pub(crate) struct Records {
    mode: Mode,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    started: u32,
    processes: Vec<ChildProcess>,
}

/// One program's place in the list.
#[derive(Debug)]
pub(super) struct Entry {
    /// The process ID; starts at 2, because 1 is the first program.
    pub(super) id: u32,
    pub(super) cost: Arc<Cost>,
    started: Instant,
}

impl Records {
    pub(crate) fn new(mode: Mode) -> Records {
        Records { mode, list: Mutex::default() }
    }

    pub(super) fn open(&self, argv: &[String], program: &str, depth: u64) -> Entry {
        let joined: Vec<u8> = argv.iter().flat_map(|arg| arg.bytes().chain([0])).collect();
        let argv0 = truncated(argv.first().map_or("", String::as_str));
        let mut list = self.list();
        list.started = list.started.saturating_add(1);
        if list.processes.len() < LIST_MAX {
            let argv_digest = runtime::digest(&joined);
            list.processes.push(ChildProcess {
                argv0,
                argv_digest,
                exit: ProcessEnd::Killed,
                wall_ms: 0.0,
                fuel: None,
                epochs: None,
                depth,
                program: program.to_owned(),
                command: truncated(&argv.join(" ")),
            });
        }
        Entry { id: list.started.saturating_add(1), cost: Cost::new(), started: Instant::now() }
    }

    pub(super) fn close(&self, entry: &Entry, status: &Status) {
        let mut list = self.list();
        let Some(process) = list.processes.get_mut(entry.id as usize - 2) else { return };
        process.exit = match status {
            Status::Exited(code) => ProcessEnd::Exited { code: *code },
            Status::Killed => ProcessEnd::Killed,
            Status::Trapped(message) => ProcessEnd::Trapped { message: truncated(message) },
            Status::Limit(limit) => ProcessEnd::Limit { limit: limit.clone() },
        };
        process.wall_ms = entry.started.elapsed().as_secs_f64() * 1e3;
        match self.mode {
            Mode::Metered | Mode::Deterministic => {
                process.fuel = Some(entry.cost.fuel.load(Relaxed))
            }
            Mode::Fast => process.epochs = Some(entry.cost.epochs.load(Relaxed)),
        }
    }

    /// Returns the list so far, and how many programs it omits.
    pub(crate) fn snapshot(&self) -> (Vec<ChildProcess>, u64) {
        let list = self.list();
        (list.processes.clone(), u64::from(list.started) - list.processes.len() as u64)
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn truncated(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_MAX)].to_owned()
}
