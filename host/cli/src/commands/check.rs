//! `skillhost check`: find problems in skills, what they would be granted, and which of
//! their scripts the sandbox supports.

mod fix;
mod formats;
mod used;

use std::collections::BTreeSet;
use std::path::{self, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use skillhost::invoke::{self, Runner, ScriptError, evidence};
use skillhost_compat::{
    self as compat, Availability, Compatibility, Place, Summary, SuspiciousFile,
};
use skillhost_policy::diagnostic::{Diagnostic, Severity, Span, printable, quoted};
use skillhost_policy::entry::{self, EntryList, Permission};
use skillhost_policy::manifest::rules;
use skillhost_policy::{self as policy, Grant, Policy, Verdict};
use skillhost_sandbox::{self as sandbox, ToolListing, world};
use skillhost_skill::runtime::Component;
use skillhost_skill::{LockedOrigin, SizeLimits, Skill, SkillFolder, SourceKind, scan};

use crate::args::HostArgs;
use crate::args::permissions::Permissions;
use crate::args::skills::{SkillRef, Skills};
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output::{self, compatibility};
use crate::{compilation, event_loop};

/// Check skills: find problems, show what would be granted and which scripts run
///
/// Reports every violation of the Agent Skills specification with its location, its rule and a fix;
/// what allowed-tools requests and the policy would grant; and which needs of the scripts the
/// sandbox does not meet, without running them. Exits with 1 if there are errors; portability
/// warnings do not count. Shows one skill in full, several in a few lines each, and a folder of
/// skills in one line each with a summary. Skips files beside the skills, which a pattern such as
/// `skills/*` matches too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost check skills/*
  skillhost check ~/.claude/skills                    all skills in a folder
  skillhost check SKILL --workspace . --policy policy.yaml
  skillhost check SKILL --used used.json              after `run SKILL --learn --json > used.json`
  skillhost check SKILL --fix                         repair what is certain, and show the diff
  skillhost check ./skills --format github            annotations in GitHub Actions
  skillhost check ./skills --format sarif > skills.sarif
  skillhost check --changed skill/scripts/report.py README.md
  skillhost check SKILL --json | jq '.skills[].compatibility.scripts'")]
pub(crate) struct Args {
    /// Skills, or folders of skills: paths with a `/` (`./NAME`), or names from `skillhost list`
    #[arg(required = true, value_name = "SKILL")]
    named: Vec<PathBuf>,
    /// Take the arguments as files that have changed: check the skills that contain them, and skip
    /// files that are in no skill
    #[arg(long)]
    changed: bool,
    /// Warn about grants that no run used, from `run --learn --json`, an outcome with `uses`, or a
    /// recording that has them (repeatable)
    #[arg(long, value_name = "FILE")]
    used: Vec<PathBuf>,
    /// Repair SKILL.md where that is certain, and print the diff: a name that differs from the
    /// folder's, a misspelt field (not a permission), a last line without its end
    #[arg(long, conflicts_with = "json")]
    fix: bool,
    /// Print one JSON object (`skillhost schema check`)
    #[arg(long)]
    json: bool,
    /// Print the findings for people, as JSON like --json, as SARIF 2.1.0, or as annotations of
    /// GitHub Actions
    #[arg(long, value_enum, default_value_t, conflicts_with = "json")]
    format: Format,
    #[command(flatten)]
    permissions: Permissions,
    #[command(flatten)]
    skills: Skills,
}

/// The form of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Human,
    Json,
    Sarif,
    Github,
}

/// Output of `--json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct CheckReport {
    /// In the order of the arguments; those of a folder by path.
    skills: Vec<Report>,
    /// How many of them are supported.
    summary: Summary,
}

/// The report about one skill.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Report {
    /// The folder, as it was named.
    path: PathBuf,
    /// The manifest's name; `None` if the skill does not load.
    name: Option<String>,
    /// The manifest's description; `None` if the skill does not load.
    description: Option<String>,
    /// What is wrong with it.
    diagnostics: Vec<Diagnostic>,
    /// The files and folders that its `.skillignore` leaves out, without what the folders contain.
    left_out: Vec<String>,
    /// What it would be granted; `None` if it does not load.
    grant: Option<Grant>,
    /// Which of its scripts are supported; `None` if it does not load.
    compatibility: Option<Compatibility>,
    /// The digest of the listing of its files, if it was needed.
    #[serde(skip)]
    digest: Option<String>,
    /// The text of SKILL.md.
    #[serde(skip)]
    source: String,
    /// The scripts that findings point into: the file as the findings name it, and its text.
    #[serde(skip)]
    scripts: Vec<(String, String)>,
}

impl Args {
    /// Checks one skill, and prints the report for people.
    pub(crate) fn of(skill: &Path, permissions: &Permissions) -> Args {
        Args {
            named: vec![skill.to_owned()],
            changed: false,
            used: Vec::new(),
            fix: false,
            json: false,
            format: Format::Human,
            permissions: permissions.clone(),
            skills: Skills::default(),
        }
    }

    fn is_for_programs(&self) -> bool {
        self.json || self.format != Format::Human
    }
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let mut context = Context::with_permissions(&args.permissions)?;
    // As `run` does, which asks for an approval of what they request.
    context.policy = context.policy.with_client_names();
    let host = compilation::announced(
        context.places.host_options(&HostArgs::default())?,
        args.is_for_programs(),
    );
    let named = match args.changed {
        true => skills_of(&args.named),
        false => {
            let resolve = |named: &PathBuf| args.skills.resolve(named, &context);
            let named = args.named.iter().map(resolve).collect::<Result<Vec<_>, CliError>>()?;
            without_files_beside_skills(named)
        }
    };
    let found: Vec<Vec<Found>> = named.iter().map(skills).collect();
    // Whether a folder was named that is not a skill itself.
    let has_folder = found
        .iter()
        .zip(&named)
        .any(|(found, named)| found.iter().all(|one| one.path != named.folder()));
    if args.fix {
        found
            .iter()
            .flatten()
            .try_for_each(|found| fix::fix(&found.path, &SizeLimits::of(&context.policy)))?;
    }
    let used = args.used.iter().map(|file| used::read(file)).collect::<Result<Vec<_>, _>>()?;
    let found = found.concat();
    // Reading every file again is for the one skill that a report of a scan can be about.
    let needs_digest = args.format == Format::Sarif && found.len() == 1;
    let mut reports = reports(&found, &host, &context.policy, needs_digest);
    for report in reports.iter_mut().filter(|_| !used.is_empty()) {
        if let Ok(skill) = Skill::load(&report.path, &SizeLimits::of(&context.policy)) {
            report.diagnostics.extend(used::findings(&skill, &context.policy, &used));
        }
    }
    let summary = compat::summarize(reports.iter().map(|report| report.compatibility.as_ref()));
    let has_errors =
        reports.iter().flat_map(|r| &r.diagnostics).any(|d| d.severity == Severity::Error);
    let exit = if has_errors { Exit::Findings } else { Exit::Ok };
    let all = |reports: &[Report], form: fn(&Report) -> String, between: &str| {
        let each: Vec<String> = reports.iter().map(form).collect();
        let totals = format!("{}\n{}", counts(reports), compatibility::summary(&summary));
        format!("{}\n\n{totals}", each.join(between))
    };
    let findings = || reports.iter().flat_map(|report| &report.diagnostics);
    match reports.as_slice() {
        _ if args.format == Format::Sarif => {
            let digest = reports.first().and_then(|one| one.digest.as_deref());
            // A report that is missing must not fail the report that is written.
            let found = findings().filter(|found| found.rule != rules::POLICY_REQUIRE.name);
            output::json(&formats::sarif(found, digest))?
        }
        _ if args.format == Format::Github => output::foreign(&formats::github(findings()))?,
        _ if args.json || args.format == Format::Json => {
            output::json(&CheckReport { skills: reports, summary })?
        }
        [] => output::text("no skill contains these files")?,
        several if has_folder => output::text(&all(several, in_a_line, "\n"))?,
        [one] => output::text(&in_full(one))?,
        several => output::text(&all(several, in_short, "\n\n"))?,
    }
    Ok(exit)
}

/// The skills that contain files, each once, in the order of the files. A folder inside a skill belongs
/// to that skill, even if it has a SKILL.md too.
fn skills_of(files: &[PathBuf]) -> Vec<SkillRef> {
    let is_skill =
        |folder: &&Path| ["SKILL.md", "skill.md"].iter().any(|name| folder.join(name).is_file());
    // Nothing that `..` leads out of contains the file.
    let contains = |folder: &&Path, file: &Path| {
        let inner = file.strip_prefix(folder).unwrap_or(file);
        !inner.components().any(|part| part == path::Component::ParentDir)
    };
    let mut skills: Vec<PathBuf> = Vec::new();
    let mut others = 0_u64;
    for file in files {
        let folders = file.ancestors().filter(|folder| contains(folder, file));
        match folders.filter(is_skill).last() {
            Some(folder) if folder.as_os_str().is_empty() => skills.push(PathBuf::from(".")),
            Some(folder) => skills.push(folder.to_owned()),
            None => others += 1,
        }
    }
    if others > 0 {
        output::note(&format!("skipped {} in no skill", output::count(others, "file")));
    }
    let mut seen = BTreeSet::new();
    skills.retain(|folder| seen.insert(folder.clone()));
    skills.into_iter().map(SkillRef::Path).collect()
}

/// A skill that is checked.
#[derive(Clone)]
struct Found {
    path: PathBuf,
    source: SourceKind,
    locked: Option<LockedOrigin>,
}

/// Leaves out the files that a pattern such as `skills/*` matched besides skills, and says so. A
/// file stays, and is an error, if no skill's folder was named with it or if it is part of a skill:
/// then the operator named it instead of the folder.
fn without_files_beside_skills(named: Vec<SkillRef>) -> Vec<SkillRef> {
    let is_skill = |folder: &Path| folder.join("SKILL.md").is_file();
    if !named.iter().any(|one| is_skill(one.folder())) {
        return named;
    }
    let is_beside = |one: &SkillRef| match one {
        SkillRef::Path(path) => path.is_file() && !path.ancestors().skip(1).any(is_skill),
        SkillRef::Entry(_) => false,
    };
    let (files, skills): (Vec<_>, Vec<_>) = named.into_iter().partition(is_beside);
    if !files.is_empty() {
        let count = output::count(files.len() as u64, "file");
        let paths: Vec<String> = files.iter().map(|f| f.folder().display().to_string()).collect();
        output::note(&format!(
            "skipped {count} beside the skills: {}",
            printable(&paths.join(", "))
        ));
    }
    skills
}

/// The skills of a folder; the folder itself if there are none, so that the loader reports why.
fn skills(named: &SkillRef) -> Vec<Found> {
    let SkillFolder { path, source, locked } = named.skill_folder();
    let found = match scan::find_skills(path) {
        Ok(found) if !found.is_empty() => found,
        _ => vec![path.to_owned()],
    };
    found.into_iter().map(|path| Found { path, source, locked: locked.cloned() }).collect()
}

/// Checks the skills on all processors, and returns the reports in the order of the skills.
fn reports(skills: &[Found], host: &Runner, policy: &Policy, needs_digest: bool) -> Vec<Report> {
    let next = AtomicUsize::new(0);
    let take = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        numbers
            .map_while(|at| Some((at, report(skills.get(at)?, host, policy, needs_digest))))
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

fn report(
    Found { path, source, locked }: &Found,
    host: &Runner,
    policy: &Policy,
    needs_digest: bool,
) -> Report {
    let folder = SkillFolder { path, source: *source, locked: locked.as_ref() };
    match Skill::load_from(folder, &SizeLimits::of(policy)) {
        Ok(mut skill) => {
            let mut grant = host.grant(&skill, policy);
            host.add_settings(&mut grant, &skill, policy);
            note_unavailable(&mut grant, &skill);
            skill.diagnostics.extend(component(&skill, host));
            if let Err(unmet) = host.require(&skill, policy) {
                skill.diagnostics.extend(unmet.diagnostics);
            }
            let digest = needs_digest.then(|| evidence::listing(&skill)).and_then(|listed| {
                listed.inspect_err(|why| output::warning(&printable(why), None)).ok()
            });
            let digest = digest.map(|files| files.digest().to_string());
            let syntax = syntax(&skill, host);
            let unparsed = syntax.iter().filter_map(|(error, found)| unparsed(error, found));
            let unparsed: Vec<_> = unparsed.collect();
            let (mut scripts, syntax): (Vec<_>, Vec<_>) = syntax
                .into_iter()
                .map(|(error, found)| ((found.file.clone(), error.text), found))
                .unzip();
            skill.diagnostics.extend(syntax);
            for SuspiciousFile { file, text, findings } in compat::find_tricks(&skill) {
                skill.diagnostics.extend(findings);
                scripts.push((file, text));
            }
            Report {
                path: path.to_owned(),
                name: Some(skill.manifest.name.clone()),
                description: Some(skill.manifest.description.clone()),
                compatibility: Some(compat::check_parsed(&skill, &grant.capabilities, &unparsed)),
                grant: Some(grant),
                digest,
                diagnostics: skill.diagnostics,
                left_out: skill.left_out,
                source: skill.source,
                scripts,
            }
        }
        Err(error) => {
            let (diagnostics, source) = (error.diagnostics, error.text);
            Report {
                digest: None,
                path: path.to_owned(),
                name: None,
                description: None,
                grant: None,
                compatibility: None,
                diagnostics,
                left_out: Vec::new(),
                source,
                scripts: Vec::new(),
            }
        }
    }
}

/// Adds to the decisions on programs which of them the sandbox does not have.
fn note_unavailable(grant: &mut Grant, skill: &Skill) {
    let is_component = |name: &str| {
        let file = format!("{name}.wasm");
        skill.files.iter().any(|one| one.path.rsplit('/').next() == Some(&file))
    };
    for decision in grant.decisions.iter_mut().filter(|d| d.verdict != Verdict::Refused) {
        let Permission::Bash(command) = entry::parse(&decision.entry, EntryList::AllowedTools)
        else {
            continue;
        };
        let Some(name) = command.words.first().filter(|name| !is_component(name)) else { continue };
        if let Availability::Unavailable(..) | Availability::Installer = compat::availability(name)
        {
            decision.meaning.push_str(&format!("; `{name}` is not available in the sandbox"));
        }
    }
}

/// Checks that the declared component is one, and that its section lists the tools that the
/// component itself lists. A component without the section is not started.
fn component(skill: &Skill, host: &Runner) -> Option<Diagnostic> {
    skill.manifest.component.as_ref().filter(|_| !skill.manifest.recovered)?;
    // `component-missing` reports a file that does not exist.
    let (path, component) = invoke::declared_component(skill).ok()?;
    let (rule, message) = match component.bytes() {
        Err(error) => ("component-invalid", format!("cannot read the component: {error}")),
        Ok(bytes) => match world::read(&bytes) {
            Err(message) => ("component-invalid", message),
            Ok(_) => ("component-tools", tools_differ(bytes.to_vec(), &component, host)?),
        },
    };
    Some(Diagnostic {
        severity: Severity::Error,
        rule,
        message,
        file: skill.root.join(path).display().to_string(),
        span: None,
        fix: Some(format!(
            "rebuild it: `skillhost build {}`",
            quoted(&skill.root.to_string_lossy())
        )),
    })
}

/// Returns how the tools of a component differ from its section; `None` if they do not.
fn tools_differ(bytes: Vec<u8>, component: &Component, host: &Runner) -> Option<String> {
    event_loop::one_thread().ok()?.block_on(async {
        match sandbox::listing(bytes).await {
            Ok(ToolListing::Unlisted) => None,
            Ok(ToolListing::Known(listed)) if listed.is_empty() => None,
            Ok(ToolListing::Known(listed)) => match host.component_tools(component).await {
                Ok(tools) if tools == listed => None,
                Ok(_) => Some(
                    "its section `skillhost:tools` does not match the tools that it lists".into(),
                ),
                Err(status) => Some(format!("it cannot list its tools: {}", sandbox::say(&status))),
            },
            Err(message) => Some(message),
        }
    })
}

/// Reports the scripts that their runtimes cannot parse. Files below `assets/` may be templates, and
/// only draw a warning.
fn syntax(skill: &Skill, host: &Runner) -> Vec<(ScriptError, Diagnostic)> {
    let Ok(event_loop) = event_loop::one_thread() else { return Vec::new() };
    let diagnostic = |error: ScriptError| {
        let is_template = error.path.starts_with("assets/");
        let finding = Diagnostic {
            severity: if is_template { Severity::Warning } else { Severity::Error },
            rule: "script-syntax",
            message: printable(&error.message),
            file: skill.root.join(&error.path).display().to_string(),
            span: span(&error),
            fix: None,
        };
        (error, finding)
    };
    event_loop.block_on(host.syntax_errors(skill)).into_iter().map(diagnostic).collect()
}

/// Returns the place of an error: from its column to the end of the line. bash reports an open quote
/// or block at the line after the last one; such an error is at the last line with text.
fn span(error: &ScriptError) -> Option<Span> {
    let text = error.text.as_str();
    let last = text.trim_end().len();
    let before = text.split_inclusive('\n').take(error.line.checked_sub(1)?);
    let start = before.map(str::len).sum::<usize>().min(last);
    let start =
        if start == last { text[..start].rfind('\n').map_or(0, |at| at + 1) } else { start };
    let line = text[start..].lines().next().unwrap_or_default();
    let indent = line.len() - line.trim_start().len();
    let column = error.column.checked_sub(1).and_then(|n| line.char_indices().nth(n));
    let from = column.map_or(indent, |(at, _)| at);
    Some(Span::at(text, start + from, line.trim_end().len().saturating_sub(from).max(1)))
}

/// Returns the place at which a script does not parse. A template may not be one before it is
/// filled in.
fn unparsed(error: &ScriptError, finding: &Diagnostic) -> Option<Place> {
    let (line, column) = finding.span.map_or((1, 1), |span| (span.line, span.column));
    let place = Place { file: error.path.clone(), line, column };
    (finding.severity == Severity::Error).then_some(place)
}

fn in_full(report: &Report) -> String {
    let grant = report
        .grant
        .as_ref()
        .map(|grant| policy::explain(grant, output::width()))
        .unwrap_or_default();
    let scripts = report.compatibility.as_ref().map(compatibility::in_full).unwrap_or_default();
    format!("{}\n{grant}\n{scripts}", head(report))
}

/// One line about one skill of many.
fn in_a_line(report: &Report) -> String {
    let path = printable(&report.path.display().to_string());
    let errors = of(report, Severity::Error);
    let errors =
        if errors == 0 { String::new() } else { format!("; {}", output::count(errors, "error")) };
    match &report.compatibility {
        Some(compatibility) => {
            format!("{path}  {}{errors}", compatibility::in_short(compatibility))
        }
        None => format!("{path}  failed to load{errors}"),
    }
}

/// The findings about a skill, and the entries with each verdict.
fn in_short(report: &Report) -> String {
    let mut out = head(report);
    for (verdict, name) in [
        (Verdict::Granted, "granted"),
        (Verdict::Narrowed, "narrowed"),
        (Verdict::Approval, "approval"),
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
    out.trim_end().to_owned()
}

/// The skill's name and the findings about it.
fn head(report: &Report) -> String {
    let title = output::title(report.name.as_deref().unwrap_or("failed to load"), &report.path);
    let left_out = match report.left_out.as_slice() {
        [] => String::new(),
        paths => {
            format!("not part of the skill (.skillignore): {}\n", printable(&paths.join(", ")))
        }
    };
    let source = |finding: &Diagnostic| {
        let script = report.scripts.iter().find(|(file, _)| *file == finding.file);
        script.map_or(report.source.as_str(), |(_, text)| text)
    };
    let snippet = |finding| output::snippets(std::slice::from_ref(finding), source(finding));
    let findings: Vec<String> = report.diagnostics.iter().map(snippet).collect();
    match findings.join("\n\n") {
        none if none.is_empty() => format!("{title}\n{left_out}"),
        findings => format!("{title}\n{left_out}{findings}\n\n"),
    }
}

fn counts(reports: &[Report]) -> String {
    let count = |severity| reports.iter().map(|report| of(report, severity)).sum::<u64>();
    let valid = reports.iter().filter(|report| of(report, Severity::Error) == 0).count();
    format!(
        "{}, {valid} valid: {}, {}",
        output::count(reports.len() as u64, "skill"),
        output::count(count(Severity::Error), "error"),
        output::count(count(Severity::Warning), "warning")
    )
}

fn of(report: &Report, severity: Severity) -> u64 {
    report.diagnostics.iter().filter(|d| d.severity == severity).count() as u64
}
