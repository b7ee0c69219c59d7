//! What a run found: plain data, as JSON. docs/design/performance.md describes it for readers.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use skillhost_toolchain::Error;

use super::super::report::Machine;
use super::super::stats::Spread;
use super::Unit;
use super::goals::{Bound, GOALS, Goal};
use super::samples::Samples;

/// The version of this layout.
pub(crate) const SCHEMA: u32 = 1;

/// One run of `cargo xtask bench targets`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) schema: u32,
    /// What repeats it.
    pub(crate) command: String,
    pub(crate) machine: Machine,
    /// Of each program that was measured or stood on.
    pub(crate) versions: BTreeMap<String, String>,
    /// Of what is short; and of what takes long.
    pub(crate) rounds: usize,
    pub(crate) long_rounds: usize,
    pub(crate) rows: Vec<Row>,
    pub(crate) samples: Vec<Measured>,
}

/// A figure beside what it is held against, both in `unit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) figure: String,
    pub(crate) unit: Unit,
    pub(crate) here: Option<u64>,
    /// What is beside it.
    pub(crate) name: String,
    pub(crate) beside: Option<u64>,
    pub(crate) goal: Bound,
    /// None of a part of another figure, and where one of the two is missing.
    pub(crate) holds: Option<bool>,
    /// Why one is missing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) missing: Option<String>,
}

/// Samples of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) spread: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) missing: Option<String>,
}

/// The table of the goals.
pub(crate) fn rows(samples: &Samples) -> Vec<Row> {
    GOALS.iter().map(|goal| row(goal, samples)).collect()
}

fn row(goal: &Goal, samples: &Samples) -> Row {
    let (here, beside) = (samples.figure(goal.here), samples.figure(goal.beside));
    let holds = here
        .as_ref()
        .ok()
        .zip(beside.as_ref().ok())
        .and_then(|(here, beside)| goal.bound.holds(*here, *beside));
    let missing = here
        .as_ref()
        .err()
        .cloned()
        .or_else(|| beside.as_ref().err().map(|why| format!("{}: {why}", goal.name)));
    Row {
        figure: goal.figure.into(),
        unit: goal.unit,
        here: here.ok(),
        name: goal.name.into(),
        beside: beside.ok(),
        goal: goal.bound,
        holds,
        missing,
    }
}

impl Report {
    pub(crate) fn load(path: &Path) -> Result<Report, Error> {
        let bytes = std::fs::read(path).map_err(Error::context(path.display()))?;
        let report: Report =
            serde_json::from_slice(&bytes).map_err(Error::context(path.display()))?;
        if report.schema != SCHEMA {
            return Err(Error::new(format!(
                "{}: schema {}, and this reads {SCHEMA}",
                path.display(),
                report.schema
            )));
        }
        Ok(report)
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data has a form in JSON") + "\n"
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report in which each goal is met, but those of the Python hello; without the driver of the
    /// warm tier.
    pub(crate) fn report() -> Report {
        let mut samples = Samples::default();
        for name in super::super::cells::names() {
            match &*name {
                "hello, cold" => samples.add(&name, 6_600_000),
                "hello, bare" | "hello, native" => samples.add(&name, 11_000_000),
                "component, cold" => samples.add(&name, 2_900_000),
                "true, native" => samples.add(&name, 1_000_000),
                _ if name.ends_with(", warm") => {
                    samples.fail(&name, &Error::new("no driver for the warm tier"))
                }
                "component, a second" => samples.add(&name, 40_000),
                _ if ["no child", "none", "nothing"].iter().any(|what| name.contains(what)) => {
                    samples.add(&name, 1_000_000)
                }
                _ if name.contains("cold") => samples.add(&name, 1_500_000),
                _ if name.contains("imports") => samples.add(&name, 30_000_000),
                _ => samples.add(&name, 1_500_000),
            }
        }
        Report {
            schema: SCHEMA,
            command: "cargo xtask bench targets".into(),
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
            long_rounds: 5,
            rows: rows(&samples),
            samples: samples.spreads(),
        }
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
        assert_eq!(row("the same, above `/bin/true`", "`/bin/true`").here, Some(1_900_000));
        assert_eq!(row("the same, above `/bin/true`", "`/bin/true`").holds, Some(true));
        let warm = row("bash hello, warm", "`bash hello.sh`");
        assert_eq!(
            (warm.here, warm.holds, warm.missing.as_deref()),
            (None, None, Some("no driver for the warm tier"))
        );
        assert_eq!(row("small Rust component, cold", "`/bin/true`").holds, None);
    }

    #[test]
    fn a_report_is_the_same_after_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), report().text()).unwrap();
        assert_eq!(Report::load(file.path()).unwrap(), report());
        std::fs::write(file.path(), report().text().replace("\"schema\": 1", "\"schema\": 2"))
            .unwrap();
        assert!(Report::load(file.path()).unwrap_err().to_string().contains("schema 2"));
    }
}
