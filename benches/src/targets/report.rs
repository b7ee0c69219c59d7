//! The report of a run: a table of the goals, and the number of goals that are missed.

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
    /// The rounds of long cases.
    long_rounds: usize,
    rows: Vec<Row>,
    samples: Vec<NamedSpread>,
}

/// A figure and its reference, both in `unit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    figure: String,
    unit: Unit,
    here: Option<u64>,
    /// The name of the reference.
    name: String,
    #[serde(rename = "beside")]
    reference: Option<u64>,
    goal: Bound,
    /// Whether the goal is met. `None` for a part of another figure, and if a figure is missing.
    #[serde(rename = "holds")]
    is_met: Option<bool>,
    /// The reason why a figure is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

/// The samples of one name.
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

/// Returns the table of the goals, and how it was measured.
pub(crate) fn markdown(report: &Report) -> String {
    let summary = report.header.summary(&format!(", {} for slow cases", report.long_rounds));
    let head = ["figure", "skillhost", "compared with", "ratio", "goal", "met"];
    let mut table = Table::new(head).left([4, 5]);
    report.rows.iter().for_each(|row| table.row(row.cells()));
    format!("{summary}\n\n{}", table.markdown())
}

/// Describes in one or two sentences how many goals are missed, and which.
fn verdict(rows: &[Row]) -> String {
    let goals: Vec<&Row> = rows.iter().filter(|row| row.goal != Bound::Part).collect();
    let titles = |is_met: Option<bool>| -> Vec<String> {
        goals.iter().filter(|row| row.is_met == is_met).map(|row| row.title()).collect()
    };
    let (missed, missing) = (titles(Some(false)), titles(None));
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

/// The section of the documents that has the reasons.
const WHY: &str = "[where the time goes](#where-the-time-goes) explains why";

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

    fn new((figure, here, reference, goal): &Goal, samples: &Samples) -> Row {
        let (here, missing) = split(here.figure(samples));
        let name = reference.name.to_owned();
        let (reference, missing_reference) = split(reference.figure.figure(samples));
        let missing = missing.or(missing_reference.map(|why| format!("{name}: {why}")));
        let is_met = here.zip(reference).and_then(|(here, reference)| goal.is_met(here, reference));
        let (figure, unit) = ((*figure).to_owned(), goal.unit());
        Row { figure, unit, here, name, reference, goal: *goal, is_met, missing }
    }

    fn cells(&self) -> [String; 6] {
        let Row { figure, name, unit, missing, .. } = self;
        let show = |value: u64| match unit {
            Unit::Time => units::time(value),
            Unit::Size => units::size(value),
            Unit::Rate => format!("{}/s", units::count(value)),
        };
        let [here, reference, ratio] = match (self.here, self.reference) {
            (Some(here), Some(reference)) => {
                [show(here), format!("{} ({name})", show(reference)), ratio(here, reference)]
            }
            _ => [or_missing(None, missing.as_deref()), name.clone(), String::new()],
        };
        let met = self.is_met.map_or("", |is_met| if is_met { "yes" } else { "no" });
        [figure.clone(), here, reference, ratio, self.goal(), met.to_owned()]
    }

    /// Returns the figure and its goal.
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

/// Formats a ratio. Small ones are shown as their inverse, which is easier to read.
fn ratio(here: u64, reference: u64) -> String {
    match here * 10 < reference {
        true => format!("1/{}", units::ratio(reference, here.max(1))),
        false => units::exact_ratio(here, reference),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;
    use skillhost_toolchain::Error;

    use super::super::cells;
    use super::*;

    /// Returns a report in which all goals are met, except those of the Python hello. The driver of
    /// the warm tier is missing.
    pub(crate) fn report() -> Report {
        let mut samples = Samples::default();
        let no_driver = Error::new("no driver for the warm tier");
        for name in cells::names() {
            let sample = match &*name {
                "hello, cold" => Ok([6_600_000]),
                "hello, bare" | "hello, native" | "javascript, native" => Ok([11_000_000]),
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
            samples.record(&name, sample);
        }
        let rows = Row::all(&samples);
        let fields =
            json!({ "long_rounds": 5, "rows": rows, "samples": NamedSpread::all(&samples) });
        report::tests::report(fields)
    }

    #[test]
    fn rows_have_a_verdict_or_the_reason_why_it_is_missing() {
        let report = report();
        let row = |figure: &str, name: &str| {
            report.rows.iter().find(|row| row.figure == figure && row.name == name).unwrap()
        };
        let hello = row("Python hello, cold", "`python3 hello.py`");
        assert_eq!(
            (hello.here, hello.reference, hello.is_met),
            (Some(6_600_000), Some(11_000_000), Some(false))
        );
        let above = row("the same, above `/bin/true`", "`/bin/true`");
        assert_eq!((above.here, above.is_met), (Some(1_900_000), Some(true)));
        let warm = row("bash hello, warm", "`bash hello.sh`");
        let why = Some("no driver for the warm tier");
        assert_eq!((warm.here, warm.is_met, warm.missing.as_deref()), (None, None, why));
        assert_eq!(row("small Rust component, cold", "`/bin/true`").is_met, None);
    }

    #[test]
    fn table_has_a_row_for_each_goal() {
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
        assert_eq!(text.lines().filter(|line| line.starts_with("| ")).count(), 39);
    }

    #[test]
    fn verdict_names_missed_and_unmeasured_goals() {
        let mut report = report();
        let text = verdict(&report.rows);
        let missed = "Python hello, cold (at most 0.4 times `python3 hello.py`); Python hello, cold (at most 0.55 times `python3 -S -E hello.py`)";
        let missing = "Not measured: Python hello, warm (at most 250 µs); ";
        assert!(
            text.starts_with(&format!("2 of 27 are missed, and {WHY}: {missed}. {missing}")),
            "{text}"
        );
        report.rows.retain(|row| row.is_met == Some(true));
        assert_eq!(verdict(&report.rows), "None of the measured goals is missed.");
    }
}
