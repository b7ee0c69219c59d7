//! What became of each program that was started, for the outcome and the audit record.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::bindings::skillhost::skill::process::Status;
use crate::engine::Mode;
use crate::limits::fuel::Cost;
use skillhost_policy::outcome::{ChildProcess, ProcessEnd};
use skillhost_skill::runtime;

/// The programs that are listed one by one; more are counted.
const LISTED: usize = 1_000;

/// The bytes that are kept of a text that is the guest's to choose.
const TEXT: usize = 200;

/// The list of an invocation.
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
    /// Counts from 2: 1 is the first program.
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
        let argv0 = short(argv.first().map_or("", String::as_str));
        let mut list = self.list();
        list.started = list.started.saturating_add(1);
        if list.processes.len() < LISTED {
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
                command: short(&argv.join(" ")),
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
            Status::Trapped(message) => ProcessEnd::Trapped { message: short(message) },
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

    /// The list so far, and how many are not in it.
    pub(crate) fn listed(&self) -> (Vec<ChildProcess>, u64) {
        let list = self.list();
        (list.processes.clone(), u64::from(list.started) - list.processes.len() as u64)
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn short(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT)].to_owned()
}
