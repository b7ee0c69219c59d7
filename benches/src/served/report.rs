//! The report of a run: a row for the runs in one process, and one for each number of clients.

use serde::{Deserialize, Serialize};

use super::{CLIENTS, IN_PROCESS, name, rate_of};
use crate::report::{self, Header, split};
use crate::samples::Samples;
use crate::stats::Spread;
use crate::table::{Table, or_missing};
use crate::units;

/// How much longer than a run in one process the call of one client may take, in nanoseconds.
const LONGER: u64 = 1_000_000;

/// The part of the runs per second in one process that many clients should reach.
const PART: f64 = 0.75;

/// One run of `cargo xtask bench serve`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    header: Header,
    rows: Vec<Row>,
}

/// The runs in one process, or the calls of some clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    name: String,
    /// The number of clients; 0 for the runs in one process.
    clients: usize,
    /// The median of the rounds.
    per_second: Option<u64>,
    wall: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

impl Report {
    pub(super) fn new(header: Header, samples: &Samples) -> Report {
        let levels = [(IN_PROCESS.to_owned(), 0)];
        let levels = levels.into_iter().chain(CLIENTS.map(|clients| (name(clients), clients)));
        let row = |(name, clients): (String, usize)| {
            let (wall, missing) = split(samples.spread(&name));
            let per_second = samples.spread(&rate_of(&name)).ok().map(|rate| rate.p50);
            Row { name, clients, per_second, wall, missing }
        };
        Report { header, rows: levels.map(row).collect() }
    }

    fn in_process(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.clients == 0)
    }
}

impl report::Report for Report {
    const VERB: &'static str = "serve";
    const DOCUMENTS: &'static [&'static str] = &["docs/design/performance.md"];

    fn header(&self) -> &Header {
        &self.header
    }

    fn section(&self, _: &str) -> String {
        markdown(self)
    }
}

/// Returns the table, and how it was measured.
pub(crate) fn markdown(report: &Report) -> String {
    let summary = report.header.summary("");
    let head = ["", "runs/s", "p50", "p99", "of the runs/s in process", "goal", "met"];
    let mut table = Table::new(head).left([5, 6]);
    report.rows.iter().for_each(|row| table.row(row.cells(report.in_process())));
    format!("{summary}\n\n{}", table.markdown())
}

impl Row {
    fn cells(&self, in_process: Option<&Row>) -> Vec<String> {
        let (Some(rate), Some(wall)) = (self.per_second, self.wall) else {
            return vec![self.name.clone(), or_missing(None, self.missing.as_deref())];
        };
        let base = in_process.and_then(|row| Some((row.per_second?, row.wall?.p50)));
        let ratio = base.map(|(base, _)| units::exact_ratio(rate, base));
        let goal = match (self.clients, base) {
            (0, _) | (_, None) => None,
            (1, Some((_, base))) => Some(("at most 1 ms longer", wall.p50 <= base + LONGER)),
            (_, Some((base, _))) => Some(("at least 0.75", rate as f64 >= PART * base as f64)),
        };
        let met = goal.map(|(_, is_met)| if is_met { "yes" } else { "no" });
        vec![
            self.name.clone(),
            units::count(rate),
            units::time(wall.p50),
            units::time(wall.p99),
            ratio.unwrap_or_default(),
            goal.map(|(goal, _)| goal).unwrap_or_default().to_owned(),
            met.unwrap_or_default().to_owned(),
        ]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a report in which one client is fast enough, and many are not.
    pub(crate) fn report() -> Report {
        let row = |name: &str, clients: usize, rate: u64, p50: u64| {
            json!({
                "name": name, "clients": clients, "per_second": rate,
                "wall": { "n": 9, "p50": p50, "p90": p50, "p99": 2 * p50 },
            })
        };
        let missing = json!({
            "name": "128 clients", "clients": 128, "per_second": null, "wall": null,
            "missing": "the server closed the connection",
        });
        crate::report::tests::report(json!({ "rows": [
            row(IN_PROCESS, 0, 2_000, 500_000),
            row("1 client", 1, 700, 1_400_000),
            row("16 clients", 16, 1_000, 16_000_000),
            missing,
        ] }))
    }

    #[test]
    fn rows_are_compared_with_the_runs_in_one_process() {
        let text = markdown(&report());
        for row in [
            "| in process, warm | 2,000 | 500 µs | 1.0 ms | 1.00 |  |  |",
            "| 1 client | 700 | 1.4 ms | 2.8 ms | 0.350 | at most 1 ms longer | yes |",
            "| 16 clients | 1,000 | 16 ms | 32 ms | 0.500 | at least 0.75 | no |",
            "| 128 clients | missing: the server closed the connection |",
        ] {
            assert!(text.contains(row), "{text}");
        }
    }
}
