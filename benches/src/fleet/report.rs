//! The report of a run, and the arithmetic of larger fleets.

use serde::{Deserialize, Serialize};

use super::CLIENTS;
use crate::report::{self, Header};
use crate::stats::Spread;
use crate::table::Table;
use crate::units;

/// How many nanoseconds more a run of 20 ms may take in a fleet.
const MORE: u64 = 5_000_000;

/// The share of one server's throughput that a fleet on the same cores must reach.
const SHARE: f64 = 0.8;

/// How much more two workers of one slot must do than one.
const SECOND: f64 = 1.6;

/// How far the arithmetic may be from the measurement.
const TOLERANCE: f64 = 0.25;

/// Runs in a second of the largest fleet on the page: a million in a minute.
const LARGE: f64 = 1_000_000.0 / 60.0;

/// The share of a processor or a stream that is planned for: the rest is for peaks and failures.
const PLANNED: f64 = 0.7;

/// One run of `cargo xtask bench fleet`. Rates are in runs per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(super) header: Header,
    /// A run that sleeps for 20 ms.
    pub(super) nap: Pair,
    /// A run that computes for about 20 ms.
    pub(super) work: Pair,
    pub(super) hello: Pair,
    /// Of runs that compute.
    pub(super) throughput: Throughput,
    /// Of runs that sleep: the processors do nothing but queue, start and end runs.
    pub(super) naps: Throughput,
    pub(super) one_worker: f64,
    pub(super) two_workers: f64,
    /// What one run uses in a fleet with one worker of one slot.
    pub(super) use_of_run: Use,
}

/// The times of a run on one server and in a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Pair {
    pub(super) local: Spread,
    pub(super) fleet: Spread,
}

/// Runs of several clients on one server and in a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Throughput {
    pub(super) local: f64,
    pub(super) fleet: f64,
}

/// What the processes of a fleet use: processor time in nanoseconds, and what the broker received and
/// sent, and stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Use {
    pub(super) broker: f64,
    pub(super) server: f64,
    pub(super) worker: f64,
    pub(super) messages: f64,
    pub(super) bytes: f64,
    pub(super) stored: f64,
}

impl Use {
    /// Returns what each of these runs used.
    pub(super) fn of_run(before: &Use, after: &Use, runs: usize) -> Use {
        let each = |field: fn(&Use) -> f64| (field(after) - field(before)) / runs as f64;
        Use {
            broker: each(|used| used.broker),
            server: each(|used| used.server),
            worker: each(|used| used.worker),
            messages: each(|used| used.messages),
            bytes: each(|used| used.bytes),
            stored: each(|used| used.stored),
        }
    }

    /// The processor time of all processes.
    fn processor(&self) -> f64 {
        self.broker + self.server + self.worker
    }
}

impl Report {
    /// The rate of workers of one slot, by the figures of one: each adds its slot, until the
    /// processors are busy.
    fn predicted(&self, workers: f64) -> f64 {
        let slots = workers * self.one_worker;
        let processors = self.header.machine.cores as f64 * 1e9 / self.use_of_run.processor();
        slots.min(processors)
    }

    /// The runs in a second that one stream can take: one thread of the broker works on it.
    fn stream(&self) -> f64 {
        1e9 / self.use_of_run.broker
    }
}

impl report::Report for Report {
    const VERB: &'static str = "fleet";
    const DOCUMENTS: &'static [&'static str] = &["docs/guide/capacity.md"];

    fn header(&self) -> &Header {
        &self.header
    }

    fn section(&self, _: &str) -> String {
        markdown(self)
    }
}

/// Returns the tables, and how the figures were measured.
pub(crate) fn markdown(report: &Report) -> String {
    let tables = [compared(report), used(report), large(report)];
    let [compared, used, large] = tables.map(|table| table.markdown());
    format!(
        "{}\n\n{compared}\n### What one run uses\n\n{used}\n### A million runs in a minute\n\n{large}",
        report.header.summary("")
    )
}

/// A fleet next to one server, with goals.
fn compared(report: &Report) -> Table {
    let Report { nap, work, hello, throughput, naps, one_worker, two_workers, .. } = report;
    let mut table = Table::new(["", "one server", "fleet", "difference", "goal", "met"]);
    let is_met = |met: bool| if met { "yes" } else { "no" }.to_owned();
    let more = |pair: &Pair| pair.fleet.p50.saturating_sub(pair.local.p50);
    for (name, pair) in
        [("a run that sleeps for 20 ms, p50", nap), ("a run that computes for 20 ms, p50", work)]
    {
        table.row([
            name.into(),
            units::time(pair.local.p50),
            units::time(pair.fleet.p50),
            format!("{} more", units::time(more(pair))),
            format!("at most {} more", units::time(MORE)),
            is_met(more(pair) <= MORE),
        ]);
    }
    table.row([
        "a hello, p50".into(),
        units::time(hello.local.p50),
        units::time(hello.fleet.p50),
        format!("{} more", units::time(more(hello))),
        String::new(),
        String::new(),
    ]);
    for (name, rates) in [("compute", throughput), ("sleep", naps)] {
        let share = rates.fleet / rates.local;
        table.row([
            format!("runs that {name} for 20 ms, by {CLIENTS} clients"),
            format!("{}/s", units::count(rates.local)),
            format!("{}/s", units::count(rates.fleet)),
            format!("{share:.2}"),
            format!("at least {SHARE}"),
            is_met(share >= SHARE),
        ]);
    }
    let second = two_workers / one_worker;
    table.row([
        "two workers of one slot, next to one".into(),
        String::new(),
        format!("{}/s, {}/s", units::count(*two_workers), units::count(*one_worker)),
        format!("{second:.2} times"),
        format!("at least {SECOND} times"),
        is_met(second >= SECOND),
    ]);
    let predicted = report.predicted(2.0);
    let error = predicted / two_workers - 1.0;
    table.row([
        "two workers, by the arithmetic below".into(),
        String::new(),
        format!("{}/s", units::count(predicted)),
        format!("{:+.0} %", error * 100.0),
        format!("within {:.0} %", TOLERANCE * 100.0),
        is_met(error.abs() <= TOLERANCE),
    ]);
    table
}

/// What one run uses.
fn used(report: &Report) -> Table {
    let Use { broker, server, worker, messages, bytes, stored } = &report.use_of_run;
    let mut table = Table::new(["", "for one run that sleeps for 20 ms"]);
    for (name, figure) in [
        ("processor time of the worker", units::time(*worker)),
        ("processor time of the API server", units::time(*server)),
        ("processor time of the broker", units::time(*broker)),
        ("messages that the broker receives and sends", units::count(*messages)),
        ("bytes that the broker receives and sends", units::size(*bytes)),
        ("bytes that the broker stores", units::size(*stored)),
    ] {
        table.row([name.to_owned(), figure]);
    }
    table
}

/// What a million of these runs in a minute need.
fn large(report: &Report) -> Table {
    let used = &report.use_of_run;
    let cores = |each: f64| units::count((LARGE * each / 1e9 / PLANNED).ceil());
    let mut table = Table::new(["", "arithmetic", "needed"]);
    let planned = format!("/ {PLANNED}");
    for (name, arithmetic, needed) in [
        (
            "cores of workers, for runs that sleep",
            format!("{} runs/s × {} {planned}", units::count(LARGE), units::time(used.worker)),
            cores(used.worker),
        ),
        (
            "cores of API servers",
            format!("{} runs/s × {} {planned}", units::count(LARGE), units::time(used.server)),
            cores(used.server),
        ),
        (
            "cores of brokers, three copies",
            format!("3 × {} runs/s × {} {planned}", units::count(LARGE), units::time(used.broker)),
            units::count((3.0 * LARGE * used.broker / 1e9 / PLANNED).ceil()),
        ),
        (
            "slots of workers, for runs of 20 ms",
            format!("{} runs/s / {} runs/s", units::count(LARGE), units::count(report.one_worker)),
            units::count((LARGE / report.one_worker / PLANNED).ceil()),
        ),
        (
            "tenants, each with streams of its own",
            format!(
                "{} runs/s / ({} runs/s of a stream × {PLANNED})",
                units::count(LARGE),
                units::count(report.stream())
            ),
            units::count((LARGE / report.stream() / PLANNED).ceil()),
        ),
        (
            "messages of all brokers",
            format!("{} runs/s × {}", units::count(LARGE), units::count(used.messages)),
            format!("{}/s", units::count(LARGE * used.messages)),
        ),
        (
            "network of all brokers, without copies",
            format!("{} runs/s × {}", units::count(LARGE), units::size(used.bytes)),
            format!("{}/s", units::size(LARGE * used.bytes)),
        ),
        (
            "disk for an hour of results, three copies",
            format!("3 × 60,000,000 × {}", units::size(used.stored)),
            units::size(3.0 * 60e6 * used.stored),
        ),
    ] {
        table.row([name.to_owned(), arithmetic, needed]);
    }
    table
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a report of a fleet whose second worker adds too little.
    pub(crate) fn report() -> Report {
        let spread = |p50: u64| json!({ "n": 9, "p50": p50, "p90": p50, "p99": p50 });
        let pair = |local, fleet| json!({ "local": spread(local), "fleet": spread(fleet) });
        crate::report::tests::report(json!({
            "nap": pair(25_000_000, 29_000_000),
            "work": pair(23_000_000, 29_000_000),
            "hello": pair(4_000_000, 8_000_000),
            "throughput": { "local": 80.0, "fleet": 70.0 },
            "naps": { "local": 400.0, "fleet": 300.0 },
            "one_worker": 30.0,
            "two_workers": 45.0,
            "use_of_run": {
                "broker": 1e6, "server": 1.5e6, "worker": 4e6,
                "messages": 30.0, "bytes": 20480.0, "stored": 4096.0,
            },
        }))
    }

    #[test]
    fn figures_are_compared_with_their_goals() {
        let text = markdown(&report());
        for row in [
            "| a run that sleeps for 20 ms, p50 | 25 ms | 29 ms | 4.0 ms more | at most 5.0 ms more | yes |",
            "| a run that computes for 20 ms, p50 | 23 ms | 29 ms | 6.0 ms more | at most 5.0 ms more | no |",
            "| runs that compute for 20 ms, by 16 clients | 80/s | 70/s | 0.88 | at least 0.8 | yes |",
            "| runs that sleep for 20 ms, by 16 clients | 400/s | 300/s | 0.75 | at least 0.8 | no |",
            "| 45/s, 30/s | 1.50 times | at least 1.6 times | no |",
            "| 60/s | +33 % | within 25 % | no |",
            "| cores of workers, for runs that sleep | 16,700 runs/s × 4.0 ms / 0.7 | 96 |",
            "| tenants, each with streams of its own | 16,700 runs/s / (1,000 runs/s of a stream × 0.7) | 24 |",
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
    }

    #[test]
    fn processors_bound_the_rate_of_many_workers() {
        let report = report();
        let cores = report.header.machine.cores as f64;
        assert_eq!(report.predicted(1.0), 30.0);
        assert_eq!(report.predicted(1_000.0), cores * 1e9 / 6.5e6);
    }
}
