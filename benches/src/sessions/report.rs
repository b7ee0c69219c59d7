//! The report of a run.

use serde::{Deserialize, Serialize};

use super::{FORKS, MANY};
use crate::report::{self, Header};
use crate::stats::Spread;
use crate::table::Table;
use crate::units;

/// What is measured with each first command.
const FIRST: [&str; 2] =
    ["create a session, and run `true` in the shell", "create a session, and run a line of Python"];

/// One run of `cargo xtask bench sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(super) header: Header,
    pub(super) first: Vec<Spread>,
    pub(super) forks: Forks,
    pub(super) idle: Idle,
}

/// Forks of a session that began with many files, and of the same session after all were changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Forks {
    pub(super) unchanged: Spread,
    pub(super) changed: Spread,
}

/// What many idle sessions use: private memory of the server, and open files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Idle {
    pub(super) memory: u64,
    pub(super) open_files: usize,
}

impl report::Report for Report {
    const VERB: &'static str = "sessions";
    const DOCUMENTS: &'static [&'static str] = &["docs/guide/sessions.md"];

    fn header(&self) -> &Header {
        &self.header
    }

    fn section(&self, _: &str) -> String {
        markdown(self)
    }
}

/// Returns the table, and how it was measured.
pub(crate) fn markdown(report: &Report) -> String {
    let Report { header, first, forks, idle } = report;
    let mut table = Table::new(["", "p50", "p99"]);
    let mut row = |name: String, spread: &Spread| {
        table.row([name, units::time(spread.p50), units::time(spread.p99)]);
    };
    for (name, spread) in FIRST.into_iter().zip(first) {
        row(name.to_owned(), spread);
    }
    row(
        format!("fork a session that began with {} files", units::count(MANY as u64)),
        &forks.unchanged,
    );
    row(format!("fork a session that changed {} files", units::count(MANY as u64)), &forks.changed);
    format!(
        "{}\n\n{}\n{} idle sessions use {} of the server's memory, {} each, and the server has {} open files.",
        header.summary(&format!(", {FORKS} forks")),
        table.markdown(),
        units::count(MANY as u64),
        units::size(idle.memory),
        units::size(idle.memory / MANY as u64),
        idle.open_files,
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn report() -> Report {
        let spread = |p50: u64| json!({ "n": 30, "p50": p50, "p90": p50, "p99": 2 * p50 });
        crate::report::tests::report(json!({
            "first": [spread(3_000_000), spread(9_000_000)],
            "forks": { "unchanged": spread(1_000_000), "changed": spread(5_000_000) },
            "idle": { "memory": 8u64 << 20, "open_files": 40 },
        }))
    }

    #[test]
    fn table_has_each_case() {
        let text = markdown(&report());
        for row in [
            "| create a session, and run `true` in the shell | 3.0 ms | 6.0 ms |",
            "| fork a session that changed 1,000 files | 5.0 ms | 10 ms |",
            "1,000 idle sessions use 8.0 MiB of the server's memory, 8.2 KiB each, and the server has 40 open files.",
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
    }
}
