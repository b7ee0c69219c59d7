//! `skillhost check`: what is wrong with skills, what they would be allowed to do, and whether
//! their scripts run here.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use skillhost::invoke::{self, Runner};
use skillhost_compat::{self as compat, Compatibility, Summary};
use skillhost_policy::diagnostic::{Diagnostic, Severity, printable};
use skillhost_policy::{self as policy, Grant, Policy, Verdict};
use skillhost_sandbox::{self as sandbox, ToolListing};
use skillhost_skill::{Skill, SkillFolder, SourceKind, scan};

use super::exit::Exit;
use super::permissions::Permissions;
use super::places::{HostArgs, Places};
use super::skills::{Named, Skills};
use super::{Failure, compatibility, evidence, show};

/// Checks skills: what is wrong, what they would be granted, what of them runs here
///
/// Reports every violation of the Agent Skills specification with its place, its rule and a fix;
/// what allowed-tools asks for and would be granted; and, from their texts alone, what the scripts
/// need that is not here. Errors make the exit code 1; portability warnings do not. One skill is
/// shown in full, several in a few lines each, and a folder of skills in one line each and a
/// summary.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost check skills/*
  skillhost check ~/.claude/skills                    all skills below a folder
  skillhost check SKILL --workspace . --policy policy.yaml
  skillhost check SKILL --used used.json              after `run SKILL --learn --json > used.json`
  skillhost check SKILL --json | jq '.skills[].compatibility.scripts'")]
pub(crate) struct Args {
    /// The skills' folders or a folder of skills, as paths with a `/` (`./NAME`), or names of
    /// skills that `skillhost list` shows
    #[arg(required = true, value_name = "SKILL")]
    named: Vec<PathBuf>,
    /// What runs used (`run --learn --json`, an outcome with `uses`, or a recording that has them):
    /// warn of grants that none of them did (repeatable)
    #[arg(long, value_name = "FILE")]
    used: Vec<PathBuf>,
    /// Print one JSON object (`skillhost schema check`)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    permissions: Permissions,
    #[command(flatten)]
    skills: Skills,
}

/// What `--json` prints.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Checked {
    /// In the order that they were named in; those of a folder by path.
    skills: Vec<Report>,
    /// How many of them run.
    summary: Summary,
}

/// What is known of one skill.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Report {
    /// The folder, as it was named.
    path: PathBuf,
    /// The manifest's name; `None` where the skill does not load.
    name: Option<String>,
    /// What is wrong with it.
    diagnostics: Vec<Diagnostic>,
    /// What it would be granted; `None` where it does not load.
    grant: Option<Grant>,
    /// What of it runs here; `None` where it does not load.
    compatibility: Option<Compatibility>,
    #[serde(skip)]
    source: String,
}

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    let policy = args.permissions.policy(&places)?;
    let host = Runner::new(places.host_options(&HostArgs::default())?);
    let named = args
        .named
        .iter()
        .map(|named| args.skills.folder(named, &places, &policy))
        .collect::<Result<Vec<_>, Failure>>()?;
    let found: Vec<Vec<Found>> = named.iter().map(skills).collect();
    // The folder that was named is none of the skills.
    let catalog = found
        .iter()
        .zip(&named)
        .any(|(found, named)| found.iter().all(|one| one.path != named.folder()));
    let used = args.used.iter().map(|file| evidence::read(file)).collect::<Result<Vec<_>, _>>()?;
    let mut reports = reports(&found.concat(), &host, &policy);
    for report in reports.iter_mut().filter(|_| !used.is_empty()) {
        if let Ok(skill) = Skill::load(&report.path, &Default::default()) {
            report.diagnostics.extend(evidence::findings(&skill, &policy, &used));
        }
    }
    let summary = compat::summarize(reports.iter().map(|report| report.compatibility.as_ref()));
    let errors = reports.iter().flat_map(|r| &r.diagnostics).any(|d| d.severity == Severity::Error);
    match reports.as_slice() {
        _ if args.json => show::json(&Checked { skills: reports, summary })?,
        reports if catalog => {
            let lines: Vec<String> = reports.iter().map(in_a_line).collect();
            show::text(&format!(
                "{}\n\n{}\n{}",
                lines.join("\n"),
                counts(reports),
                compatibility::summary(&summary)
            ))?;
        }
        [one] => show::text(&in_full(one))?,
        several => {
            let short: Vec<String> =
                several.iter().map(|report| in_short(report).trim_end().to_owned()).collect();
            show::text(&format!(
                "{}\n\n{}\n{}",
                short.join("\n\n"),
                counts(several),
                compatibility::summary(&summary)
            ))?;
        }
    }
    Ok(if errors { Exit::Findings } else { Exit::Ok })
}

/// A skill that is checked.
#[derive(Clone)]
struct Found {
    path: PathBuf,
    source: SourceKind,
}

/// The skills of a folder; itself where there are none, for the loader to say what is wrong.
fn skills(named: &Named) -> Vec<Found> {
    let SkillFolder { path, source } = named.skill_folder();
    let found = match scan::find_skills(path) {
        Ok(found) if !found.is_empty() => found,
        _ => vec![path.to_owned()],
    };
    found.into_iter().map(|path| Found { path, source }).collect()
}

/// One for each skill, in their order. Skills have nothing to do with each other, so that each
/// processor takes the next one.
fn reports(skills: &[Found], host: &Runner, policy: &Policy) -> Vec<Report> {
    let next = AtomicUsize::new(0);
    let take = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        numbers
            .map_while(|at| Some((at, report(skills.get(at)?, host, policy))))
            .collect::<Vec<_>>()
    };
    let others = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(skills.len())
        .saturating_sub(1);
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (0..others).map(|_| scope.spawn(take)).collect();
        let mut all = take();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, report)| report).collect()
}

fn report(Found { path, source }: &Found, host: &Runner, policy: &Policy) -> Report {
    match Skill::load_from(SkillFolder { path, source: *source }, &Default::default()) {
        Ok(mut skill) => {
            let grant = host.grant(&skill, policy);
            skill.diagnostics.extend(listing(&skill, host));
            Report {
                path: path.to_owned(),
                name: Some(skill.manifest.name.clone()),
                compatibility: Some(compat::check(&skill, &grant.capabilities)),
                grant: Some(grant),
                diagnostics: skill.diagnostics,
                source: skill.source,
            }
        }
        Err(error) => {
            let (diagnostics, source) = (error.diagnostics, error.text);
            Report {
                path: path.to_owned(),
                name: None,
                grant: None,
                compatibility: None,
                diagnostics,
                source,
            }
        }
    }
}

/// Whether a component's section lists the tools that it offers when it is asked. One without a
/// section is not asked.
fn listing(skill: &Skill, host: &Runner) -> Option<Diagnostic> {
    skill.manifest.component.as_ref().filter(|_| !skill.manifest.recovered)?;
    let (path, component) = invoke::declared_component(skill).ok()?;
    let bytes = component.bytes().ok().filter(|bytes| sandbox::check_kind(bytes).is_ok())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let compared = runtime.block_on(async {
        match sandbox::listing(bytes.to_vec()).await {
            Ok(ToolListing::Unlisted) => Ok(()),
            Ok(ToolListing::Known(listed)) if listed.is_empty() => Ok(()),
            Ok(ToolListing::Known(listed)) => match host.component_tools(&component).await {
                Ok(tools) if tools == listed => Ok(()),
                Ok(_) => {
                    Err("its section `skillhost:tools` lists other tools than it offers".to_owned())
                }
                Err(status) => {
                    Err(format!("its tools cannot be listed: {}", sandbox::say(&status)))
                }
            },
            Err(message) => Err(message),
        }
    });
    let message = compared.err()?;
    let fix = Some(format!("build it again: `skillhost build {}`", skill.root.display()));
    Some(Diagnostic {
        severity: Severity::Error,
        rule: "component-tools",
        message,
        file: path.to_owned(),
        span: None,
        fix,
    })
}

fn in_full(report: &Report) -> String {
    let grant = report
        .grant
        .as_ref()
        .map(|grant| policy::explain(grant, show::width()))
        .unwrap_or_default();
    let scripts = report.compatibility.as_ref().map(compatibility::in_full).unwrap_or_default();
    format!("{}\n{grant}\n{scripts}", head(report))
}

/// For a folder of skills: what to look at, and no more.
fn in_a_line(report: &Report) -> String {
    let path = printable(&report.path.display().to_string());
    let errors = of(report, Severity::Error);
    let errors = if errors == 0 { String::new() } else { format!("; {}", number(errors, "error")) };
    match &report.compatibility {
        Some(compatibility) => {
            format!("{path}  {}{errors}", compatibility::in_short(compatibility))
        }
        None => format!("{path}  does not load{errors}"),
    }
}

/// With one line for each verdict, and the entries that got it.
fn in_short(report: &Report) -> String {
    let mut out = head(report);
    for (verdict, name) in [
        (Verdict::Granted, "granted"),
        (Verdict::Narrowed, "narrowed"),
        (Verdict::Refused, "refused"),
    ] {
        let decisions = report.grant.iter().flat_map(|grant| &grant.decisions);
        let entries: Vec<&str> =
            decisions.filter(|d| d.verdict == verdict).map(|d| d.entry.as_str()).collect();
        if !entries.is_empty() {
            out.push_str(&format!("  {name:8}  {}\n", entries.join(", ")));
        }
    }
    if let Some(compatibility) = &report.compatibility {
        out.push_str(&format!("  scripts   {}\n", compatibility::in_short(compatibility)));
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

fn counts(reports: &[Report]) -> String {
    let count = |severity| reports.iter().map(|report| of(report, severity)).sum::<usize>();
    let valid = reports.iter().filter(|report| of(report, Severity::Error) == 0).count();
    let (errors, warnings) =
        (number(count(Severity::Error), "error"), number(count(Severity::Warning), "warning"));
    format!("{} skills, {valid} valid: {errors}, {warnings}", reports.len())
}

fn of(report: &Report, severity: Severity) -> usize {
    report.diagnostics.iter().filter(|d| d.severity == severity).count()
}

fn number(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
