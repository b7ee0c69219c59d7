//! `skillhost check`: what is wrong with skills, and what they would be allowed to do.

use std::path::{Path, PathBuf};

use serde::Serialize;
use skillhost::diagnostic::{Diagnostic, Severity};
use skillhost::invoke::Host;
use skillhost::policy::{self, Grant, Policy, Verdict};
use skillhost::skill::Skill;

use super::exit::Exit;
use super::permissions::Permissions;
use super::places::Places;
use super::{Failure, show};

/// Checks skills, and shows what they ask for and would be granted
///
/// Reports every violation of the Agent Skills specification with its place, its rule and a fix. Errors make the exit code 1;
/// portability warnings do not. One skill's grant is shown in full, those of several in two lines each.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost check skills/*
  skillhost check SKILL --workspace . --policy policy.yaml
  skillhost check SKILL --json | jq '.[].diagnostics'")]
pub(crate) struct Args {
    /// The skills' folders
    #[arg(required = true, value_name = "SKILL")]
    skills: Vec<PathBuf>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    permissions: Permissions,
}

/// What is known of one skill.
#[derive(Debug, Serialize)]
struct Report {
    path: PathBuf,
    /// The manifest's name; `None` where the skill does not load.
    name: Option<String>,
    diagnostics: Vec<Diagnostic>,
    grant: Option<Grant>,
    #[serde(skip)]
    source: String,
}

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    let policy = args.permissions.policy(&places)?;
    let host = Host::new(places.host_options(None, None)?);
    let reports: Vec<Report> = args.skills.iter().map(|path| report(path, &host, &policy)).collect();
    match reports.as_slice() {
        _ if args.json => show::json(&reports)?,
        [one] => show::text(&in_full(one))?,
        several => {
            let short: Vec<String> = several.iter().map(|report| in_short(report).trim_end().to_owned()).collect();
            show::text(&format!("{}\n\n{}", short.join("\n\n"), summary(several)))?;
        }
    }
    let errors = reports.iter().flat_map(|r| &r.diagnostics).any(|d| d.severity == Severity::Error);
    Ok(if errors { Exit::Findings } else { Exit::Ok })
}

fn report(path: &Path, host: &Host, policy: &Policy) -> Report {
    match Skill::load(path, &Default::default()) {
        Ok(skill) => Report {
            path: path.to_owned(),
            name: Some(skill.manifest.name.clone()),
            grant: Some(host.grant(&skill, policy)),
            diagnostics: skill.diagnostics,
            source: skill.source,
        },
        Err(error) => Report { path: path.to_owned(), name: None, grant: None, diagnostics: error.diagnostics, source: error.text },
    }
}

fn in_full(report: &Report) -> String {
    let grant = report.grant.as_ref().map(|grant| policy::explain(grant, show::width())).unwrap_or_default();
    format!("{}\n{grant}", head(report))
}

/// With one line for each verdict, and the entries that got it.
fn in_short(report: &Report) -> String {
    let mut out = head(report);
    for (verdict, name) in [(Verdict::Granted, "granted"), (Verdict::Narrowed, "narrowed"), (Verdict::Refused, "refused")] {
        let decisions = report.grant.iter().flat_map(|grant| &grant.decisions);
        let entries: Vec<&str> = decisions.filter(|d| d.verdict == verdict).map(|d| d.entry.as_str()).collect();
        if !entries.is_empty() {
            out.push_str(&format!("  {name:8}  {}\n", entries.join(", ")));
        }
    }
    out
}

/// The skill's name and the findings about it.
fn head(report: &Report) -> String {
    let title = show::title(report.name.as_deref().unwrap_or("does not load"), &report.path);
    match show::snippets(&report.diagnostics, &report.source) {
        none if none.is_empty() => format!("{title}\n"),
        findings => format!("{title}\n{findings}\n\n"),
    }
}

fn summary(reports: &[Report]) -> String {
    let of = |report: &Report, severity| report.diagnostics.iter().filter(|d| d.severity == severity).count();
    let count = |severity| reports.iter().map(|report| of(report, severity)).sum::<usize>();
    let valid = reports.iter().filter(|report| of(report, Severity::Error) == 0).count();
    let number = |count, word| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let (errors, warnings) = (number(count(Severity::Error), "error"), number(count(Severity::Warning), "warning"));
    format!("{} skills, {valid} valid: {errors}, {warnings}", reports.len())
}
