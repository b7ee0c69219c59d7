//! Formats a report as tables: all of them for stdout and the page, and a short one for the
//! documents.

use super::figures::{CaseInfo, Report};
use crate::phases;
use crate::table::{Table, or_missing};
use crate::units;

/// The id of the run of `/bin/true`.
pub(crate) const NOTHING: &str = "true";

/// Returns all figures, as titled tables.
pub(crate) fn all(report: &Report) -> Vec<(String, Table)> {
    let mut tables: Vec<(String, Table)> =
        report.cases.iter().map(|case| (case.name.clone(), tiers(report, case))).collect();
    let mut disk = Table::new(["tier", "size"]);
    for tier in report.measured() {
        disk.row([tier.name.clone(), or_empty(tier.disk, units::mebibytes)]);
    }
    let others = [
        ("First run, which compiles the runtime", first(report)),
        ("Disk space", Some(disk)),
        ("Commands of the Python hello, and versions", commands(report)),
        ("CSV report by size of the input", Some(sizes(report))),
        ("Throughput of the Python hello", Some(throughput(report))),
        ("Concurrent starts of the Python hello", Some(growth(report))),
        ("Live Python guests", Some(memory(report))),
        (phases::TITLE, phases::table(&report.phases)),
    ];
    tables.extend(others.into_iter().filter_map(|(title, table)| Some((title.to_owned(), table?))));
    tables
}

/// Returns all figures, and how they were measured.
pub(crate) fn markdown(report: &Report) -> String {
    let tables = all(report).into_iter();
    let tables = tables.map(|(title, table)| format!("\n## {title}\n\n{}", table.markdown()));
    [report.header.summary("") + "\n"].into_iter().chain(tables).collect()
}

/// Returns the table of a case, with one row per tier.
fn tiers(report: &Report, case: &CaseInfo) -> Table {
    let mut table =
        Table::new(["tier", "wall p50", "p90", "p99", "CPU p50", "memory", "times native"]);
    let base = report.native(&case.id).map(|run| run.wall.p50);
    let nothing = ("`/bin/true`", None, report.native(NOTHING));
    let tiers = report.tiers.iter().map(|tier| {
        (
            tier.name.as_str(),
            tier.missing.as_deref().or(tier.only.as_deref()),
            report.run(&tier.id, &case.id),
        )
    });
    for (name, missing, run) in [nothing].into_iter().chain(tiers) {
        let Some(run) = run else {
            table.row([name.to_owned(), or_missing(None, missing)]);
            continue;
        };
        let [p50, p90, p99, cpu] =
            [run.wall.p50, run.wall.p90, run.wall.p99, run.cpu.p50].map(units::milliseconds);
        let ratio = or_empty(base, |base| units::ratio(run.wall.p50, base));
        table.row([name.to_owned(), p50, p90, p99, cpu, units::mebibytes(run.memory), ratio]);
    }
    table
}

/// Returns the exact command and the version of each measured tier, if the report has them.
fn commands(report: &Report) -> Option<Table> {
    let mut table = Table::new(["tier", "version", "rounds", "command"]).left([1, 3]);
    for tier in report.measured() {
        let (version, command) = (tier.version.clone()?, tier.command.as_ref()?);
        let rounds = tier.rounds.unwrap_or(report.header.rounds).to_string();
        table.row([tier.name.clone(), version, rounds, format!("`{command}`")]);
    }
    Some(table)
}

fn first(report: &Report) -> Option<Table> {
    let mut table = Table::new(["case", "wall"]);
    for run in &report.first {
        table.row([run.case.clone(), units::milliseconds(run.wall)]);
    }
    (!report.first.is_empty()).then_some(table)
}

fn sizes(report: &Report) -> Table {
    let mut table = Table::new(["tier", "input", "wall p50", "p99"]);
    for point in &report.sizes {
        let p50 = point.wall.map(|wall| units::milliseconds(wall.p50));
        let p50 = or_missing(p50, point.missing.as_deref());
        let p99 = or_empty(point.wall, |wall| units::milliseconds(wall.p99));
        table.row([name(report, &point.tier), units::input(point.input), p50, p99]);
    }
    table
}

fn throughput(report: &Report) -> Table {
    let mut table = Table::new(["tier", "concurrent", "per second"]);
    for point in &report.throughput {
        let concurrency = point.concurrency.to_string();
        table.row([name(report, &point.tier), concurrency, units::count(point.per_second)]);
    }
    table
}

fn growth(report: &Report) -> Table {
    let mut table = Table::new(["tier", "skills", "time until the last has ended"]);
    for point in &report.growth {
        let wall = or_missing(point.wall.map(units::milliseconds), point.missing.as_deref());
        table.row([name(report, &point.tier), point.skills.to_string(), wall]);
    }
    table
}

fn memory(report: &Report) -> Table {
    let mut table = Table::new(["tier", "guests", "private memory", "first start", "last start"]);
    for point in &report.memory {
        let private = or_missing(point.private.map(units::mebibytes), point.missing.as_deref());
        let [first, last] =
            [point.first, point.last].map(|time| or_empty(time, units::milliseconds));
        table.row([name(report, &point.tier), point.instances.to_string(), private, first, last]);
    }
    table
}

fn name(report: &Report, id: &str) -> String {
    let tier = report.tiers.iter().find(|tier| tier.id == id);
    tier.map_or(id, |tier| &tier.name).to_owned()
}

fn or_empty<T>(figure: Option<T>, show: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(String::new, show)
}

/// Returns the table of the documents: the median of each case in each tier, with the ratio to the
/// native tier, and the missing tiers.
pub(crate) fn short(report: &Report) -> String {
    let cases = report.cases.iter().map(|case| case.name.as_str());
    let head = ["wall time, median (times native)"].into_iter().chain(cases).chain(["on disk"]);
    let mut table = Table::new(head);
    for tier in report.measured() {
        let cell = |case: &CaseInfo| {
            let Some(run) = report.run(&tier.id, &case.id) else { return "missing".into() };
            let time = units::milliseconds(run.wall.p50);
            match report.native(&case.id) {
                Some(native) if native.tier != tier.id => {
                    format!("{time} ({})", units::ratio(run.wall.p50, native.wall.p50))
                }
                _ => time,
            }
        };
        let disk = or_empty(tier.disk, units::mebibytes);
        let cells = [tier.name.clone()].into_iter().chain(report.cases.iter().map(cell));
        table.row(cells.chain([disk]));
    }
    let nothing = report.native(NOTHING).map(|run| {
        format!("\nFor comparison, `/bin/true` takes {}.\n", units::milliseconds(run.wall.p50))
    });
    let cold = match report.first.iter().max_by_key(|run| run.wall) {
        Some(slowest) => format!(
            "\nThe code of a cold run is already compiled, as after `cargo xtask install`. Without that, the \
             first run ever takes {} ({}).\n",
            units::milliseconds(slowest.wall),
            slowest.case
        ),
        None => String::new(),
    };
    let text = format!("{}\n\n{}", report.header.summary(""), table.markdown());
    let gaps = report.gaps().map(|gap| format!("\n{gap}\n"));
    [text, cold].into_iter().chain(nothing).chain(gaps).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn tables_list_every_tier_or_the_reason_why_it_is_missing() {
        let text = markdown(&report());
        for row in [
            "| native process | 10 ms | 20 ms | 30 ms | 5.0 ms | 9.0 MiB | 1.0 |",
            "| skillhost, cold | 3.0 ms | 6.0 ms | 9.0 ms | 1.5 ms | 9.0 MiB | 0.30 |",
            "| `/bin/true` | 0.80 ms |",
            "| bubblewrap | missing: no `bwrap` on this machine |  |  |  |  |  |",
            "| native process | 1000 | missing: it would take about 99 s |",
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
        let phases =
            "| median | Python: hello |\n|---|--:|\n| process | 1.0 ms |\n| guest | 3.0 ms |\n";
        assert!(text.ends_with(phases), "{text}");
        assert_eq!(text.matches("\n## ").count(), 8);
    }

    #[test]
    fn short_table_has_ratios_machine_command_and_missing_tiers() {
        let text = short(&report());
        for part in [
            "| skillhost, cold | 3.0 ms (0.30) | 120 MiB |",
            "2 cores of a CPU, 8 GiB, Linux 6.1, load 0.1 before; 30 interleaved rounds, Python 3.11.2.",
            "`cargo xtask bench isolation`",
            "Missing: bubblewrap: no `bwrap` on this machine.",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
