//! What a run found, as a table of the goals, and how many of them are missed.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::LONG;
use super::goals::{Bound, GOALS, Goal, Unit};
use crate::report::{self, Header, split};
use crate::samples::Samples;
use crate::stats::Spread;
use crate::table::{Table, or_missing};
use crate::units;

/// One run of `cargo xtask bench targets`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    header: Header,
    /// Rounds of what takes long.
    long_rounds: usize,
    rows: Vec<Row>,
    samples: Vec<NamedSpread>,
}

/// A figure beside what it is compared with, both in `unit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    figure: String,
    unit: Unit,
    here: Option<u64>,
    /// What is beside it.
    name: String,
    beside: Option<u64>,
    goal: Bound,
    /// None of a part of another figure, and if one of the two is missing.
    holds: Option<bool>,
    /// Why one is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

/// Samples of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct NamedSpread {
    name: String,
    spread: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

impl Report {
    pub(crate) fn new(header: Header, samples: &Samples) -> Report {
        let (rows, samples) = (Row::all(samples), NamedSpread::all(samples));
        Report { header, long_rounds: LONG, rows, samples }
    }
}

impl report::Report for Report {
    const VERB: &'static str = "targets";
    const DOCUMENTS: &'static [&'static str] = &["docs/design/performance.md"];

    fn header(&self) -> &Header {
        &self.header
    }

    fn section(&self, _: &str) -> String {
        let verdict = verdict(&self.rows);
        let table = markdown(self);
        format!("These are the project's goals. {verdict}\n\n{table}")
    }
}

/// The table of the goals, and how it was measured.
pub(crate) fn markdown(report: &Report) -> String {
    let summary = report.header.summary(&format!(", {} for slow cases", report.long_rounds));
    let head = ["figure", "skillhost", "compared with", "ratio", "goal", "met"];
    let mut table = Table::new(head).left([4, 5]);
    report.rows.iter().for_each(|row| table.row(row.cells()));
    format!("{summary}\n\n{}", table.markdown())
}

/// How many of the goals are missed, and which ones, in a sentence or two.
fn verdict(rows: &[Row]) -> String {
    let goals: Vec<&Row> = rows.iter().filter(|row| row.goal != Bound::Part).collect();
    let of = |holds: Option<bool>| -> Vec<String> {
        goals.iter().filter(|row| row.holds == holds).map(|row| row.title()).collect()
    };
    let (missed, missing) = (of(Some(false)), of(None));
    let mut text = match missed.len() {
        0 => "None of the measured goals is missed.".to_owned(),
        count => {
            format!("{count} of {} are missed, and {WHY}: {}.", goals.len(), missed.join("; "))
        }
    };
    if !missing.is_empty() {
        _ = write!(text, " Not measured: {}.", missing.join("; "));
    }
    text
}

/// Where a reader finds the reasons.
const WHY: &str = "[where the time goes](#where-the-time-goes) says why";

impl NamedSpread {
    fn all(samples: &Samples) -> Vec<NamedSpread> {
        let named = |name: &String| {
            let (spread, missing) = split(samples.spread(name));
            NamedSpread { name: name.clone(), spread, missing }
        };
        samples.names().map(named).collect()
    }
}

impl Row {
    fn all(samples: &Samples) -> Vec<Row> {
        GOALS.iter().map(|goal| Row::new(goal, samples)).collect()
    }

    fn new((figure, here, beside, goal): &Goal, samples: &Samples) -> Row {
        let (here, missing) = split(here.figure(samples));
        let name = beside.name.to_owned();
        let (beside, missing_beside) = split(beside.figure.figure(samples));
        let missing = missing.or(missing_beside.map(|why| format!("{name}: {why}")));
        let holds = here.zip(beside).and_then(|(here, beside)| goal.holds(here, beside));
        let (figure, unit) = ((*figure).to_owned(), goal.unit());
        Row { figure, unit, here, name, beside, goal: *goal, holds, missing }
    }

    fn cells(&self) -> [String; 6] {
        let Row { figure, name, unit, missing, .. } = self;
        let show = |value: u64| match unit {
            Unit::Time => units::time(value),
            Unit::Size => units::size(value),
            Unit::Rate => format!("{}/s", units::count(value)),
        };
        let [here, beside, ratio] = match (self.here, self.beside) {
            (Some(here), Some(beside)) => {
                [show(here), format!("{} ({name})", show(beside)), ratio(here, beside)]
            }
            _ => [or_missing(None, missing.as_deref()), name.clone(), String::new()],
        };
        let holds = self.holds.map_or("", |holds| if holds { "yes" } else { "no" });
        [figure.clone(), here, beside, ratio, self.goal(), holds.to_owned()]
    }

    /// The figure and its goal.
    fn title(&self) -> String {
        match self.goal {
            Bound::Times(_) => format!("{} ({} {})", self.figure, self.goal(), self.name),
            _ => format!("{} ({})", self.figure, self.goal()),
        }
    }

    fn goal(&self) -> String {
        match self.goal {
            Bound::Times(most) => format!("at most {most} times"),
            Bound::Faster(least) => format!("at least {least} times faster"),
            Bound::Time(most) => format!("at most {}", units::time(most)),
            Bound::Size(bound) => format!("less than {}", units::size(bound)),
            Bound::Rate(least) => format!("at least {}/s", units::count(least)),
            Bound::Part => String::new(),
        }
    }
}

/// A small ratio is shown as its inverse, as people say it.
fn ratio(here: u64, beside: u64) -> String {
    match here * 10 < beside {
        true => format!("1/{}", units::ratio(beside, here.max(1))),
        false => units::exact_ratio(here, beside),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;
    use skillhost_toolchain::Error;

    use super::super::cells;
    use super::*;

    /// A report in which each goal is met, but those of the Python hello; without the driver of the
    /// warm tier.
    pub(crate) fn report() -> Report {
        let mut samples = Samples::default();
        let no_driver = Error::new("no driver for the warm tier");
        for name in cells::names() {
            let sample = match &*name {
                "hello, cold" => Ok([6_600_000]),
                "hello, bare" | "hello, native" => Ok([11_000_000]),
                "component, cold" => Ok([2_900_000]),
                "true, native" => Ok([1_000_000]),
                "component, a second" => Ok([40_000]),
                _ if name.ends_with(", warm") => Err(&no_driver),
                _ if ["no child", "none", "nothing"].iter().any(|part| name.contains(part)) => {
                    Ok([1_000_000])
                }
                _ if name.contains("imports") && !name.contains("cold") => Ok([30_000_000]),
                _ => Ok([1_500_000]),
            };
            samples.note(&name, sample);
        }
        let rows = Row::all(&samples);
        let fields =
            json!({ "long_rounds": 5, "rows": rows, "samples": NamedSpread::all(&samples) });
        report::tests::report(fields)
    }

    #[test]
    fn a_row_says_whether_its_goal_holds_or_why_it_is_missing() {
        let report = report();
        let row = |figure: &str, name: &str| {
            report.rows.iter().find(|row| row.figure == figure && row.name == name).unwrap()
        };
        let hello = row("Python hello, cold", "`python3 hello.py`");
        assert_eq!(
            (hello.here, hello.beside, hello.holds),
            (Some(6_600_000), Some(11_000_000), Some(false))
        );
        let above = row("the same, above `/bin/true`", "`/bin/true`");
        assert_eq!((above.here, above.holds), (Some(1_900_000), Some(true)));
        let warm = row("bash hello, warm", "`bash hello.sh`");
        let why = Some("no driver for the warm tier");
        assert_eq!((warm.here, warm.holds, warm.missing.as_deref()), (None, None, why));
        assert_eq!(row("small Rust component, cold", "`/bin/true`").holds, None);
    }

    #[test]
    fn the_table_has_a_row_for_each_goal_or_why_not() {
        let text = markdown(&report());
        for row in [
            "| Python hello, cold | 6.6 ms | 11 ms (`python3 hello.py`) | 0.600 | at most 0.4 times | no |",
            "| Python with six imports, cold | 1.5 ms | 30 ms (`python3 imports.py`) | 1/20 | at most 0.18 times | yes |",
            "| small Rust component, cold | 2.9 ms | 1.0 ms (`/bin/true`) | 2.90 |  |  |",
            "| the same, above `/bin/true` | 1.9 ms | 1.0 ms (`/bin/true`) | 1.90 | at most 2.0 ms | yes |",
            "| bash hello, warm | missing: no driver for the warm tier | `bash hello.sh` |  | at most 400 µs |  |",
            "| small Rust component, warm, on one core | 40,000/s |",
            "| `skillhost mcp`, idle | 1.4 MiB | 1.4 MiB (`python3`, idle) | 1.00 | less than 30 MiB | yes |",
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with("| ")).count(), 29);
    }

    #[test]
    fn the_verdict_names_what_is_missed_and_not_measured() {
        let mut report = report();
        let text = verdict(&report.rows);
        let missed = "Python hello, cold (at most 0.4 times `python3 hello.py`); Python hello, cold (at most 0.55 times `python3 -S -E hello.py`)";
        let missing = "Not measured: Python hello, warm (at most 250 µs); ";
        assert!(
            text.starts_with(&format!("2 of 23 are missed, and {WHY}: {missed}. {missing}")),
            "{text}"
        );
        report.rows.retain(|row| row.holds == Some(true));
        assert_eq!(verdict(&report.rows), "None of the measured goals is missed.");
    }
}
