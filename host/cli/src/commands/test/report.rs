//! The results of all cases: as text, as JSON, and as new expectations.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use similar::TextDiff;
use skillhost_policy::case::{BlessError, Difference};
use skillhost_policy::diagnostic::{printable, quoted};

use super::case_run::CaseResult;
use super::suite::Suite;
use crate::error::CliError;
use crate::output::{self, RED};

const GREEN: Style = AnsiColor::Green.on_default().bold();

/// The most lines that are printed of one difference; `--json` has both texts.
const MAX_LINES: usize = 100;

/// The most differences that are printed of one case; `--json` has all.
const MAX_SHOWN: usize = 20;

/// How long all diffs together may take; after that, they are coarser. Guests choose the texts.
const DIFF_TIME: Duration = Duration::from_secs(2);

/// Output of `--json`.
#[derive(Serialize)]
pub(super) struct Report {
    skills: Vec<SkillReport>,
    /// The number of cases that passed.
    passed: usize,
    /// The number of cases that failed.
    pub(super) failed: usize,
    /// The number of cases whose expectations were rewritten.
    blessed: usize,
}

#[derive(Serialize)]
struct SkillReport {
    /// The skill as it was named.
    skill: String,
    cases: Vec<CaseReport>,
}

#[derive(Serialize)]
struct CaseReport {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    status: CaseStatus,
    /// Wall time of the run, in milliseconds.
    wall_ms: f64,
    /// Why there was nothing to compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Why the run ended, if it did not exit.
    #[serde(skip_serializing_if = "Option::is_none")]
    ending: Option<String>,
    differences: Vec<Difference>,
    /// With `--native`: how the run outside the sandbox differs from the one inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    native: Option<Vec<Difference>>,
    #[serde(skip)]
    blessed: Option<Result<String, BlessError>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum CaseStatus {
    Passed,
    Failed,
    Blessed,
}

impl Report {
    /// The report of these results, which are in the order of the cases.
    pub(super) fn of(suites: &[Suite], results: Vec<CaseResult>) -> Report {
        let mut results = results.into_iter();
        let skills = suites
            .iter()
            .map(|suite| SkillReport {
                skill: suite.argument.clone(),
                cases: suite
                    .cases
                    .iter()
                    .zip(&mut results)
                    .map(|(case, result)| {
                        CaseReport::of(&case.name, case.case.description.clone(), result)
                    })
                    .collect(),
            })
            .collect();
        let mut report = Report { skills, passed: 0, failed: 0, blessed: 0 };
        report.count();
        report
    }

    /// Rewrites the expectations of the cases that failed and have a result.
    pub(super) fn bless(&mut self, suites: &[Suite]) -> Result<(), CliError> {
        for (suite, skill) in suites.iter().zip(&mut self.skills) {
            for (case, report) in suite.cases.iter().zip(&mut skill.cases) {
                let path = case.path.display();
                let text = match report.blessed.take() {
                    None => continue,
                    Some(Ok(text)) => text,
                    Some(Err(error)) => {
                        return Err(CliError::invalid(format!("cannot rewrite {path}: {error}")));
                    }
                };
                let written = case.write(&text);
                written.map_err(|error| CliError::io(format_args!("rewrite {path}"), error))?;
                report.status = CaseStatus::Blessed;
            }
        }
        self.count();
        Ok(())
    }

    fn count(&mut self) {
        let all = || self.skills.iter().flat_map(|skill| &skill.cases);
        let count = |status| all().filter(|case| case.status == status).count();
        (self.passed, self.failed, self.blessed) =
            (count(CaseStatus::Passed), count(CaseStatus::Failed), count(CaseStatus::Blessed));
    }

    pub(super) fn text(&self) -> String {
        let (mut out, deadline) = (String::new(), Instant::now() + DIFF_TIME);
        for skill in &self.skills {
            writeln!(out, "{}", printable(&skill.skill)).ok();
            for case in &skill.cases {
                case.add_text(&mut out, deadline);
            }
        }
        let blessed = match self.blessed {
            0 => String::new(),
            number => format!(", {number} rewritten"),
        };
        let total = (self.passed + self.failed + self.blessed) as u64;
        let total = output::count(total, "case");
        write!(out, "\n{total}: {} passed, {} failed{blessed}", self.passed, self.failed).ok();
        out
    }

    /// Says how to go on after a failure.
    pub(super) fn explain(&self) {
        let failed = |skill: &&SkillReport| {
            skill
                .cases
                .iter()
                .any(|case| case.status == CaseStatus::Failed && !case.differences.is_empty())
        };
        if let Some(skill) = self.skills.iter().find(failed) {
            let skill = quoted(&skill.skill);
            output::help(Some(&format!(
                "if what it gave is right, accept it: skillhost test {skill} --bless"
            )));
        }
    }
}

impl CaseReport {
    fn of(name: &str, description: Option<String>, result: CaseResult) -> CaseReport {
        let CaseResult { problem, differences, native, ending, blessed, wall_ms } = result;
        let is_equal = native.as_ref().is_none_or(Vec::is_empty);
        let status = match problem.is_none() && differences.is_empty() && is_equal {
            true => CaseStatus::Passed,
            false => CaseStatus::Failed,
        };
        CaseReport {
            name: name.to_owned(),
            description,
            status,
            wall_ms,
            problem,
            ending,
            differences,
            native,
            blessed,
        }
    }

    fn add_text(&self, out: &mut String, deadline: Instant) {
        let name = printable(&self.name);
        let about = self.description.as_deref().unwrap_or_default();
        let about = match about {
            "" => String::new(),
            text => format!(": {}", printable(text.lines().next().unwrap_or_default())),
        };
        match self.status {
            CaseStatus::Passed => {
                writeln!(out, "  {GREEN}ok{GREEN:#}      {name}").ok();
                return;
            }
            CaseStatus::Blessed => {
                writeln!(out, "  {GREEN}blessed{GREEN:#} {name}").ok();
                return;
            }
            CaseStatus::Failed => writeln!(out, "  {RED}failed{RED:#}  {name}{about}").ok(),
        };
        for text in self.problem.iter().chain(&self.ending) {
            writeln!(out, "    {}", output::lines(text, 4)).ok();
        }
        let expected = self.differences.iter().map(|one| (one, ("expected", "found")));
        let native = self.native.iter().flatten().map(|one| (one, ("in the sandbox", "outside")));
        let all: Vec<_> = expected.chain(native).collect();
        for (difference, sides) in all.iter().take(MAX_SHOWN) {
            add_difference(out, difference, *sides, deadline);
        }
        if let Some(more) = all.len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
            writeln!(out, "    and {more} more differences, which --json prints").ok();
        }
    }
}

fn add_difference(
    out: &mut String,
    difference: &Difference,
    sides: (&str, &str),
    deadline: Instant,
) {
    let Difference { what, expected, found, is_text } = difference;
    let what = printable(what);
    if !is_text {
        let (expected, found) = (output::lines(expected, 6), output::lines(found, 6));
        writeln!(out, "    {what}: {} {expected}, {} {found}", sides.0, sides.1).ok();
        return;
    }
    writeln!(out, "    {what}: - {}, + {}", sides.0, sides.1).ok();
    let diff =
        TextDiff::configure().deadline(deadline).diff_lines(expected.as_str(), found.as_str());
    // Only if the line end is what differs.
    let is_open = |text: &str| !text.is_empty() && !text.ends_with('\n');
    let hint = is_open(expected) != is_open(found) && !expected.is_empty();
    let diff = diff.unified_diff().context_radius(3).missing_newline_hint(hint).to_string();
    let lines = diff.lines().count();
    for line in diff.lines().take(MAX_LINES) {
        writeln!(out, "      {}", output::coloured(line)).ok();
    }
    if lines > MAX_LINES {
        writeln!(out, "      and {} more lines, which --json prints", lines - MAX_LINES).ok();
    }
}
