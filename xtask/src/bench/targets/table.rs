//! A report as one Markdown table, and in how many of its goals the project falls short.

use std::fmt::Write as _;

use super::super::{table, units};
use super::Unit;
use super::goals::Bound;
use super::report::{Report, Row};

pub(crate) fn table(report: &Report) -> String {
    let how =
        format!("{} interleaved rounds, {} for slow cases", report.rounds, report.long_rounds);
    let mut text =
        format!("{}\n\n", table::ran_on(&report.machine, &report.versions, &how, &report.command));
    text.push_str(
        "| figure | skillhost | compared with | ratio | goal | met |\n|---|--:|--:|--:|---|---|\n",
    );
    report.rows.iter().for_each(|row| text.push_str(&line(row)));
    text
}

/// What came of the goals, in a sentence or two.
pub(crate) fn verdict(report: &Report) -> String {
    let goals = report.rows.iter().filter(|row| row.goal != Bound::Part);
    let of = |holds: Option<bool>| {
        goals.clone().filter(|row| row.holds == holds).map(named).collect::<Vec<_>>()
    };
    let (missed, missing) = (of(Some(false)), of(None));
    let mut text = match missed.len() {
        0 => "None of the measured goals is missed.".to_owned(),
        count => {
            format!("{count} of {} are missed, and {WHY}: {}.", goals.count(), missed.join("; "))
        }
    };
    if !missing.is_empty() {
        _ = write!(text, " Not measured: {}.", missing.join("; "));
    }
    text
}

/// Where a reader finds the reasons.
const WHY: &str = "[where the time goes](#where-the-time-goes) says why";

fn named(row: &Row) -> String {
    match row.goal {
        Bound::Times(_) => format!("{} ({} {})", row.figure, goal(row.goal), row.name),
        _ => format!("{} ({})", row.figure, goal(row.goal)),
    }
}

fn line(row: &Row) -> String {
    let Row { figure, name, unit, .. } = row;
    let (Some(here), Some(beside)) = (row.here, row.beside) else {
        let why = row.missing.as_deref().unwrap_or("not measured").replace(['|', '\n'], " ");
        return format!("| {figure} | missing: {why} | {name} | | {} | |\n", goal(row.goal));
    };
    let holds = row.holds.map_or("", |holds| if holds { "yes" } else { "no" });
    format!(
        "| {figure} | {} | {} ({name}) | {} | {} | {holds} |\n",
        shown(here, *unit),
        shown(beside, *unit),
        ratio(here, beside),
        goal(row.goal)
    )
}

fn shown(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Time => units::time(value as f64),
        Unit::Size => units::size(value as f64),
        Unit::Rate => format!("{}/s", units::count(value as f64)),
    }
}

/// A small one as its inverse, as people say it.
fn ratio(here: u64, beside: u64) -> String {
    match here * 10 < beside {
        true => format!("1/{}", units::ratio(beside, here.max(1))),
        false => units::exact_ratio(here, beside),
    }
}

fn goal(bound: Bound) -> String {
    match bound {
        Bound::Times(most) => format!("at most {most} times"),
        Bound::Faster(least) => format!("at least {least} times faster"),
        Bound::Time(most) => format!("at most {}", units::time(most as f64)),
        Bound::Size(bound) => format!("less than {}", units::size(bound as f64)),
        Bound::Rate(least) => format!("at least {}/s", units::count(least as f64)),
        Bound::Part => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::*;

    #[test]
    fn the_table_has_a_row_for_each_goal_or_why_not() {
        let text = table(&report());
        for row in [
            "| Python hello, cold | 6.6 ms | 11 ms (`python3 hello.py`) | 0.600 | at most 0.4 times | no |",
            "| Python with six imports, cold | 1.5 ms | 30 ms (`python3 imports.py`) | 1/20 | at most 0.18 times | yes |",
            "| small Rust component, cold | 2.9 ms | 1.0 ms (`/bin/true`) | 2.90 |  |  |",
            "| the same, above `/bin/true` | 1.9 ms | 1.0 ms (`/bin/true`) | 1.90 | at most 2.0 ms | yes |",
            "| bash hello, warm | missing: no driver for the warm tier | `bash hello.sh` | | at most 400 µs | |",
            "| small Rust component, warm, on one core | 40,000/s |",
            "| `skillhost mcp`, idle | 1.4 MiB | 1.4 MiB (`python3`, idle) | 1.00 | less than 30 MiB | yes |",
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with("| ")).count(), 29);
    }

    #[test]
    fn the_verdict_names_what_is_missed_and_what_was_not_measured() {
        let mut report = report();
        let text = verdict(&report);
        let missed = "Python hello, cold (at most 0.4 times `python3 hello.py`); Python hello, cold (at most 0.55 times `python3 -S -E hello.py`)";
        let missing = "Not measured: Python hello, warm (at most 250 µs); ";
        assert!(
            text.starts_with(&format!("2 of 23 are missed, and {WHY}: {missed}. {missing}")),
            "{text}"
        );
        report.rows.retain(|row| row.holds == Some(true));
        assert_eq!(verdict(&report), "None of the measured goals is missed.");
    }
}
