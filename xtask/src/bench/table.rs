//! A report as Markdown: what goes to stdout, and the shorter one of the README.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::isolation::BASELINE;
use super::report::{Machine, Phase, Report, Run, TierInfo};
use super::stats::Spread;
use super::tiers::Tier;
use super::units;

/// Everything that is in the table of a run: a block for each case, one row a tier.
pub(crate) fn full(report: &Report) -> String {
    let mut text = format!("{}\n", measured_on(report));
    let native = Tier::Native.id();
    for case in &report.cases {
        let head = "| tier | wall p50 | p90 | p99 | CPU p50 | memory | to native |\n|---|--:|--:|--:|--:|--:|--:|";
        _ = write!(text, "\n## {}\n\n{head}\n", case.name);
        let base = report.run(native, &case.id).map(|run| run.wall.p50);
        let rows = report.tiers.iter().map(|tier| {
            (tier.name.as_str(), tier.missing.as_deref(), report.run(&tier.id, &case.id))
        });
        for (name, missing, run) in
            std::iter::once(("`/bin/true`", None, report.run(native, BASELINE))).chain(rows)
        {
            text.push_str(&row(name, missing, run, base));
        }
    }
    text.push_str("\n## Bytes on disk\n\n| tier | size |\n|---|--:|\n");
    for tier in report.measured() {
        _ = writeln!(
            text,
            "| {} | {} |",
            tier.name,
            tier.disk.map_or_else(String::new, |disk| units::size(disk as f64))
        );
    }
    text + &crowds(report) + &phases(&report.phases)
}

fn row(name: &str, missing: Option<&str>, run: Option<&Run>, base: Option<u64>) -> String {
    let Some(run) = run else {
        return format!(
            "| {name} | missing: {} | | | | | |\n",
            missing.unwrap_or("not measured").replace(['|', '\n'], " ")
        );
    };
    let time = |nanoseconds: u64| units::time(nanoseconds as f64);
    let ratio = base.map_or_else(String::new, |base| units::ratio(run.wall.p50, base));
    let (wall, memory) = (run.wall, units::size(run.memory as f64));
    format!(
        "| {name} | {} | {} | {} | {} | {memory} | {ratio} |\n",
        time(wall.p50),
        time(wall.p90),
        time(wall.p99),
        time(run.cpu.p50)
    )
}

fn crowds(report: &Report) -> String {
    let mut text =
        "\n## CSV report by size\n\n| tier | input | wall p50 | p99 |\n|---|--:|--:|--:|\n"
            .to_owned();
    for point in &report.sizes {
        let time = |of: fn(Spread) -> u64| point.wall.map(|wall| units::time(of(wall) as f64));
        let (p50, p99) = (
            or_missing(time(|wall| wall.p50), point.missing.as_deref()),
            time(|wall| wall.p99).unwrap_or_default(),
        );
        _ = writeln!(
            text,
            "| {} | {} | {p50} | {p99} |",
            name(report, &point.tier),
            units::input(point.input as f64)
        );
    }
    text.push_str(
        "\n## Throughput of the Python hello\n\n| tier | at once | a second |\n|---|--:|--:|\n",
    );
    for point in &report.throughput {
        _ = writeln!(
            text,
            "| {} | {} | {} |",
            name(report, &point.tier),
            point.concurrency,
            units::count(point.per_second)
        );
    }
    text.push_str("\n## Python hellos that start at once\n\n| tier | skills | until the last has ended |\n|---|--:|--:|\n");
    for point in &report.growth {
        let wall =
            or_missing(point.wall.map(|wall| units::time(wall as f64)), point.missing.as_deref());
        _ = writeln!(text, "| {} | {} | {wall} |", name(report, &point.tier), point.skills);
    }
    text.push_str("\n## Python guests that are alive at once\n\n| tier | guests | private memory | first start | last start |\n|---|--:|--:|--:|--:|\n");
    for point in &report.memory {
        let private = or_missing(
            point.private.map(|private| units::size(private as f64)),
            point.missing.as_deref(),
        );
        let time =
            |time: Option<u64>| time.map_or_else(String::new, |time| units::time(time as f64));
        _ = writeln!(
            text,
            "| {} | {} | {private} | {} | {} |",
            name(report, &point.tier),
            point.instances,
            time(point.first),
            time(point.last)
        );
    }
    text
}

/// One row a phase, one column a case.
pub(crate) fn phases(phases: &[Phase]) -> String {
    let mut cases: Vec<&str> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for phase in phases {
        for (list, name) in [(&mut cases, &phase.case), (&mut names, &phase.phase)] {
            if !list.contains(&name.as_str()) {
                list.push(name);
            }
        }
    }
    if cases.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n## Phases of a cold start\n\n| median | {} |\n|---|{}\n",
        cases.join(" | "),
        "--:|".repeat(cases.len())
    );
    for name in names {
        let time = |case: &&str| {
            phases
                .iter()
                .find(|phase| phase.case == **case && phase.phase == name)
                .map(|phase| phase.wall.p50)
        };
        let cells: Vec<String> = cases
            .iter()
            .map(|case| time(case).map_or_else(String::new, |time| units::time(time as f64)))
            .collect();
        _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

fn or_missing(figure: Option<String>, missing: Option<&str>) -> String {
    figure.unwrap_or_else(|| {
        format!("missing: {}", missing.unwrap_or("not measured").replace(['|', '\n'], " "))
    })
}

fn name<'a>(report: &'a Report, id: &'a str) -> &'a str {
    report.tiers.iter().find(|tier| tier.id == id).map_or(id, |tier| tier.name.as_str())
}

/// The README's: the median of each case in each tier with the ratio to the native one, and what is
/// missing.
pub(crate) fn short(report: &Report) -> String {
    let cases: Vec<&str> = report.cases.iter().map(|case| case.name.as_str()).collect();
    let mut text = format!("{}\n\n", measured_on(report));
    _ = writeln!(text, "| wall time, median (times native) | {} | on disk |", cases.join(" | "));
    _ = writeln!(text, "|---|{}--:|", "--:|".repeat(cases.len()));
    for tier in report.measured() {
        let disk = tier.disk.map_or_else(String::new, |disk| units::size(disk as f64));
        let cells: Vec<String> =
            report.cases.iter().map(|case| cell(report, tier, &case.id)).collect();
        _ = writeln!(text, "| {} | {} | {disk} |", tier.name, cells.join(" | "));
    }
    if let Some(nothing) = report.run(Tier::Native.id(), BASELINE) {
        _ = writeln!(
            text,
            "\nFor comparison, `/bin/true` takes {}.",
            units::time(nothing.wall.p50 as f64)
        );
    }
    for tier in &report.tiers {
        if let Some(why) = &tier.missing {
            _ = writeln!(
                text,
                "\nMissing: {}: {}.",
                tier.name,
                why.trim_end_matches('.').replace('\n', " ")
            );
        }
    }
    text
}

fn cell(report: &Report, tier: &TierInfo, case: &str) -> String {
    let Some(run) = report.run(&tier.id, case) else { return "missing".into() };
    let time = units::time(run.wall.p50 as f64);
    match report.run(Tier::Native.id(), case) {
        Some(native) if tier.id != Tier::Native.id() => {
            format!("{time} ({})", units::ratio(run.wall.p50, native.wall.p50))
        }
        _ => time,
    }
}

/// Where and how, in one paragraph.
pub(crate) fn measured_on(report: &Report) -> String {
    ran_on(
        &report.machine,
        &report.versions,
        &format!("{} interleaved rounds", report.rounds),
        &report.command,
    )
}

/// The same of any run; `how` it was measured.
pub(crate) fn ran_on(
    machine: &Machine,
    versions: &BTreeMap<String, String>,
    how: &str,
    command: &str,
) -> String {
    let Machine { cpu, cores, memory, kernel, date, load_before } = machine;
    let native: Vec<&str> = versions
        .iter()
        .filter(|(name, _)| name.starts_with("native"))
        .map(|(_, said)| said.as_str())
        .collect();
    format!(
        "Measured {date} on {cores} cores of {cpu}, {:.0} GiB, {kernel}, load {load_before:.1} before; {how}, {}. Repeat it: `{command}`.",
        *memory as f64 / 1_073_741_824.0,
        native.join(", "),
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::report::{CaseInfo, Growth, Memory, Phase, SCHEMA, Size, Throughput};
    use super::*;

    /// A report of two tiers that are there and one that is not.
    pub(crate) fn report() -> Report {
        let spread = |p50: u64| Spread { n: 30, p50, p90: p50 * 2, p99: p50 * 3 };
        let run = |tier: &str, case: &str, wall: u64| Run {
            tier: tier.into(),
            case: case.into(),
            wall: spread(wall),
            cpu: spread(wall / 2),
            memory: 9 << 20,
        };
        let tier = |tier: Tier, missing: Option<&str>, disk: Option<u64>| TierInfo {
            id: tier.id().into(),
            name: tier.name().into(),
            missing: missing.map(str::to_owned),
            disk,
        };
        Report {
            schema: SCHEMA,
            command: "cargo xtask bench isolation".into(),
            machine: Machine {
                cpu: "a CPU".into(),
                cores: 2,
                memory: 8 << 30,
                kernel: "Linux 6.1".into(),
                date: "2026-01-02".into(),
                load_before: 0.1,
            },
            versions: [("native Python".to_owned(), "Python 3.11.2".to_owned())].into(),
            rounds: 30,
            warm_up: 3,
            tiers: vec![
                tier(Tier::Native, None, Some(50 << 20)),
                tier(Tier::Bubblewrap, Some("no `bwrap` on this machine"), None),
                tier(Tier::Cold, None, Some(120 << 20)),
            ],
            cases: vec![CaseInfo { id: "hello".into(), name: "Python: hello".into(), input: 0 }],
            runs: vec![
                run("native", BASELINE, 800_000),
                run("native", "hello", 10_000_000),
                run("skillhost-cold", "hello", 3_000_000),
            ],
            throughput: [1, 2]
                .map(|c| Throughput {
                    tier: "native".into(),
                    concurrency: c,
                    per_second: 100.0 * c as f64,
                })
                .into(),
            growth: vec![
                Growth { tier: "native".into(), skills: 1, wall: Some(10_000_000), missing: None },
                Growth {
                    tier: "native".into(),
                    skills: 1000,
                    wall: None,
                    missing: Some("it would take about 99 s".into()),
                },
            ],
            memory: vec![Memory {
                tier: "native".into(),
                instances: 10,
                private: Some(50 << 20),
                first: Some(9_000_000),
                last: Some(9_500_000),
                missing: None,
            }],
            phases: [("process", 1_000_000), ("guest", 3_000_000)]
                .map(|(phase, wall)| Phase {
                    case: "Python: hello".into(),
                    phase: phase.into(),
                    wall: spread(wall),
                })
                .into(),
            sizes: [1_000_000, 5_000_000]
                .map(|input| Size {
                    tier: "native".into(),
                    input,
                    wall: Some(spread(input * 300)),
                    missing: None,
                })
                .into(),
        }
    }

    #[test]
    fn the_table_lists_every_tier_and_why_one_is_missing() {
        let text = full(&report());
        assert!(
            text.contains("| native process | 10 ms | 20 ms | 30 ms | 5.0 ms | 9.0 MiB | 1.0 |"),
            "{text}"
        );
        assert!(
            text.contains(
                "| skillhost, cold | 3.0 ms | 6.0 ms | 9.0 ms | 1.5 ms | 9.0 MiB | 0.30 |"
            ),
            "{text}"
        );
        assert!(text.contains("| `/bin/true` | 800 µs |"), "{text}");
        assert!(
            text.contains("| bubblewrap | missing: no `bwrap` on this machine | | | | | |"),
            "{text}"
        );
        assert!(
            text.contains("| native process | 1000 | missing: it would take about 99 s |"),
            "{text}"
        );
        assert!(
            text.ends_with(
                "| median | Python: hello |\n|---|--:|\n| process | 1.0 ms |\n| guest | 3.0 ms |\n"
            ),
            "{text}"
        );
        let widths: Vec<usize> = text
            .lines()
            .filter(|line| line.starts_with("| bubble") || line.starts_with("| native"))
            .map(|l| l.matches('|').count())
            .collect();
        assert_eq!(widths, [8, 8, 3, 5, 5, 4, 4, 4, 4, 6], "{text}");
    }

    #[test]
    fn the_short_table_has_ratios_machine_command_and_gaps() {
        let text = short(&report());
        assert!(text.contains("| skillhost, cold | 3.0 ms (0.30) | 120 MiB |"), "{text}");
        assert!(text.contains("2 cores of a CPU, 8 GiB, Linux 6.1, load 0.1 before; 30 interleaved rounds, Python 3.11.2."), "{text}");
        assert!(text.contains("`cargo xtask bench isolation`"), "{text}");
        assert!(text.contains("Missing: bubblewrap: no `bwrap` on this machine."), "{text}");
    }
}
