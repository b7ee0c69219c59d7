//! `audit tail`: the newest records, and those that follow.

use std::path::Path;
use std::time::{Duration, SystemTime};

use skillhost_ledger::audit::{LogStore, RecordFilter};

use super::cells;
use crate::error::{CliError, Exit};
use crate::output;

/// The records that are printed first.
const FIRST: u64 = 10;

/// How often the journal is looked at.
const INTERVAL: Duration = Duration::from_millis(250);

pub(super) fn tail(path: &Path, follow: bool, json: bool) -> Result<Exit, CliError> {
    if follow && !LogStore::exists(path) {
        output::note("no run is recorded yet; waiting for the first one");
        while !LogStore::exists(path) {
            std::thread::sleep(INTERVAL);
        }
    }
    let mut printed = print_after(path, None, json)?;
    let mut seen = state(path);
    while let (true, Some(last)) = (follow, printed) {
        std::thread::sleep(INTERVAL);
        let now = state(path);
        // A run that has ended without a record is found by its lock, which this does not look at.
        if now != seen {
            printed = print_after(path, Some(last), json)?;
            seen = state(path);
        }
    }
    Ok(Exit::Ok)
}

/// Prints the records after one, or the last few. Returns the number of the last record, or `None`
/// if the reader of stdout has closed it.
fn print_after(path: &Path, after: Option<u64>, json: bool) -> Result<Option<u64>, CliError> {
    let store = LogStore::open(path)?;
    let head = store.head()?.sequence;
    let limit = after.is_none().then_some(FIRST);
    let filter = RecordFilter { after, limit, ..RecordFilter::default() };
    let mut lines = Vec::new();
    store.query(&filter, |line| {
        lines.push(match json {
            true => output::visible_json(&String::from_utf8_lossy(line)),
            false => row(&cells(&store, line)?),
        });
        Ok::<_, CliError>(())
    })?;
    // Newest first, so that the limit keeps the newest.
    for line in lines.iter().rev() {
        if !output::line(line)? {
            return Ok(None);
        }
    }
    Ok(Some(head))
}

/// A record on a line of its own: the width of later ones is not known.
fn row(cells: &[String]) -> String {
    cells
        .iter()
        .filter(|cell| !cell.is_empty())
        .map(|cell| output::lines(cell, 0))
        .collect::<Vec<_>>()
        .join("  ")
}

/// The size and the time of the journal, which change with each record.
fn state(path: &Path) -> Option<(u64, SystemTime)> {
    let found = path.metadata().ok()?;
    Some((found.len(), found.modified().ok()?))
}
