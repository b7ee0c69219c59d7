//! `skillhost permissions`: show and set permission levels, and revoke approvals.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use jiff::Timestamp;
use serde::Serialize;
use skillhost::invoke::Runner;
use skillhost_ledger::approval::{
    Approval, LevelScope, LevelSetting, PermissionLevel, SkillPart, Term, Workspace, names_program,
};
use skillhost_skill::runtime::scripts;
use skillhost_skill::{SizeLimits, Skill};

use crate::args::HostArgs;
use crate::args::permissions::PolicyFile;
use crate::args::skills::{self, Skills};
use crate::commands::approve::time_limit;
use crate::context::{Context, Places};
use crate::error::{CliError, Exit};
use crate::{operator, output};

/// Show and set permission levels: blocked, disabled, enabled (asks), auto-approved
///
/// A level applies to a skill, or to one of its programs or tools. The policy's `approval` is the
/// upper bound; a level that denies always holds. Approvals are your answers to single requests.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost permissions
  skillhost permissions set web-fetch enabled
  skillhost permissions set csv-report auto-approved --program scripts/csv_report.py
  skillhost permissions set web-fetch enabled --workspace . --for 2h
  skillhost permissions set web-fetch default
  skillhost permissions revoke csv-report")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print one JSON object (`skillhost schema permissions`)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Set the permission level of a skill, or of a part of it
    ///
    /// `auto-approved` holds for the skill as it is now; when its files change, its runs need
    /// approval again. `default` removes the level.
    Set(Set),
    /// Revoke all approvals of a skill
    Revoke {
        /// The skill's name, or its folder as a path with a `/`
        skill: String,
    },
}

#[derive(Debug, clap::Args)]
struct Set {
    /// The skill's name, or its folder as a path with a `/`
    skill: String,
    /// The level
    #[arg(value_name = "blocked|disabled|enabled|auto-approved|default", value_parser = level)]
    level: NewLevel,
    /// Only for this script or component. A level that denies applies to every file that the name
    /// may refer to
    #[arg(long, value_name = "NAME", conflicts_with = "tool")]
    program: Option<String>,
    /// Only for this typed tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only for shell commands (`run --command`)
    #[arg(long, conflicts_with_all = ["program", "tool"])]
    command: bool,
    /// Only for runs with this workspace
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Only for this long: 30m, 2h, 7d
    #[arg(long = "for", value_name = "TIME", value_parser = time_limit)]
    limit: Option<Timestamp>,
    #[command(flatten)]
    skills: Skills,
    #[command(flatten)]
    policy: PolicyFile,
}

/// A level to set, or `None` for the default. Hides the option from clap, which would make the
/// argument optional.
#[derive(Debug, Clone, Copy)]
struct NewLevel(Option<PermissionLevel>);

/// Output of `--json`.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct PermissionsReport {
    /// The levels that are set.
    levels: Vec<LevelSetting>,
    /// The answers to single requests.
    approvals: Vec<Approval>,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    match &args.action {
        None => show(args.json)?,
        Some(Action::Revoke { skill }) => {
            let revoked = Places::find()?.approvals().revoke(&key(skill))?;
            output::text(&match revoked {
                0 => "nothing to revoke".to_owned(),
                revoked => format!("revoked {}", output::count(revoked as u64, "approval")),
            })?;
        }
        Some(Action::Set(args)) => set(args)?,
    }
    Ok(Exit::Ok)
}

fn show(json: bool) -> Result<(), CliError> {
    let approvals = Places::find()?.approvals();
    let report =
        PermissionsReport { levels: approvals.levels()?, approvals: approvals.approvals()? };
    if json { output::json(&report) } else { output::pager::list(&text(&report)) }
}

fn set(args: &Set) -> Result<(), CliError> {
    let places = Places::find()?;
    operator::require(&places)?;
    let part = match (&args.program, &args.tool) {
        (Some(program), _) => SkillPart::Program(program.clone()),
        (_, Some(tool)) => SkillPart::Tool(tool.clone()),
        _ if args.command => SkillPart::Command,
        _ => SkillPart::Skill,
    };
    let NewLevel(level) = args.level;
    if level.is_some() {
        check(args, &part)?;
    }
    let digest =
        if level == Some(PermissionLevel::AutoApproved) { Some(digest(args)?) } else { None };
    let (skill, digest) = (key(&args.skill), digest.as_deref());
    let scope = LevelScope { workspace: workspace(args.workspace.as_deref())?, until: args.limit };
    let approvals = places.approvals();
    approvals.set_level_in(&skill, &part, level, digest, &operator::name(), &scope)?;
    if output::is_quiet() {
        return Ok(());
    }
    let place = scope.workspace.map_or_else(String::new, |own| format!(" in {}", own.path));
    let end = end(scope.until.map(|until| until.to_string()).as_deref());
    let is = match level {
        Some(level) => format!("is {}", level.name()),
        None => "has no level of its own".to_owned(),
    };
    output::text(&output::lines(&format!("{} {is}{place}{end}", label(&skill, &part)), 0))
}

/// Refuses a name that looks like a typing error: a level for it would have no effect. What cannot
/// be found out is no error: a level also applies to folders that are given by their path.
fn check(args: &Set, part: &SkillPart) -> Result<(), CliError> {
    let Ok(context) = Context::with_file(&args.policy) else { return Ok(()) };
    let sizes = SizeLimits::of(&context.policy);
    let loaded = if args.skill.contains('/') {
        Skill::load(Path::new(&args.skill), &sizes)
    } else {
        let Ok(catalog) = context.catalog(&args.skills) else { return Ok(()) };
        let Some(entry) = catalog.get(&args.skill) else {
            let message = format!("no skill is called `{}`", args.skill);
            return match skills::similar_name(&args.skill, &catalog) {
                Some(similar) => Err(CliError::usage(message).code("no-skill").fix(similar)),
                None => {
                    let message = format!("{message}: the level is for folders of that name");
                    output::warning(&message, None);
                    Ok(())
                }
            };
        };
        Skill::load_from((&entry).into(), &sizes)
    };
    let Ok(skill) = loaded else { return Ok(()) };
    let (kind, name) = match part {
        SkillPart::Program(name) if !names_program(&skill, name) => ("program", name),
        SkillPart::Tool(name) if skill.manifest.component.is_none() => ("tool", name),
        _ => return Ok(()),
    };
    let programs: Vec<String> =
        scripts::programs(&skill).into_iter().map(|script| script.path).collect();
    let distance = |path: &&String| {
        let file = path.rsplit('/').next().unwrap_or(path);
        strsim::osa_distance(name, path).min(strsim::osa_distance(name, file))
    };
    let similar = programs.iter().min_by_key(distance);
    let similar = similar.filter(|path| distance(path) * 3 <= name.chars().count());
    let error = CliError::usage(format!("{} has no {kind} `{name}`", args.skill));
    Err(match similar {
        Some(path) => error.fix(format!("did you mean `--program {path}`?")),
        None if programs.is_empty() => error,
        None => error.fix(format!("its programs: {}", programs.join(", "))),
    })
}

/// The digest of the skill as it is now.
fn digest(args: &Set) -> Result<String, CliError> {
    let context = Context::with_file(&args.policy)?;
    let entry = skills::find(&args.skill, &context.catalog(&args.skills)?)?;
    let host = Runner::new(context.host_options(&HostArgs::default(), &args.skills)?);
    // With the skills that it requires, as a run digests it.
    let loaded = host
        .load_for_run(&entry, &context.policy)
        .map_err(|error| CliError::invalid(error.to_string()))?;
    let digest = loaded.id().digest.clone();
    digest
        .ok_or_else(|| CliError::invalid(format!("the files of {} cannot be digested", args.skill)))
}

/// The key of levels and approvals: the name of a skill in the catalog, or the real path of a
/// folder.
fn key(skill: &str) -> String {
    let folder = skill.contains('/').then(|| Path::new(skill).canonicalize().ok()).flatten();
    folder.map_or_else(|| skill.to_owned(), |folder| folder.display().to_string())
}

fn level(text: &str) -> Result<NewLevel, String> {
    match PermissionLevel::from_name(text) {
        Some(level) => Ok(NewLevel(Some(level))),
        None if text == "default" => Ok(NewLevel(None)),
        None => Err(format!(
            "expected one of: {}, default",
            PermissionLevel::ALL.map(PermissionLevel::name).join(", ")
        )),
    }
}

fn text(report: &PermissionsReport) -> String {
    let level = |set: &LevelSetting| {
        let LevelSetting { skill, part, level, who, time, workspace, until, .. } = set;
        let time = output::seconds(time);
        let place = workspace.as_ref().map_or_else(String::new, |own| format!(" in {}", own.path));
        let level = level.name();
        let end = end(until.as_deref());
        output::lines(&format!("{}: {level}{place}{end} (by {who}, {time})", label(skill, part)), 0)
    };
    let approval = |approval: &Approval| {
        let Approval { skill, part, term, who, time, ended, digest, until, rejected, .. } =
            approval;
        let time = output::seconds(time);
        let term = match term {
            _ if *rejected => "",
            Term::Once => "for one run",
            Term::Session => "for a session",
            Term::Always if until.is_some() => "",
            Term::Always => "until revoked",
        };
        let term = format!("{term}{}", end(until.as_deref()));
        let term = term.trim_start();
        let answer = if *rejected { "rejected".to_owned() } else { format!("approved {term}") };
        let ended = ended
            .as_ref()
            .filter(|_| !rejected)
            .map_or_else(String::new, |time| format!(", ended {}", output::seconds(time)));
        let head = format!("{}: {answer} (by {who}, {time}{ended})", label(skill, part));
        output::lines(&format!("{head}\n  for {digest}"), 0)
    };
    let lines: Vec<String> =
        report.levels.iter().map(level).chain(report.approvals.iter().map(approval)).collect();
    if lines.is_empty() {
        "No permission levels set; no approvals.".into()
    } else {
        lines.join("\n")
    }
}

fn end(until: Option<&str>) -> String {
    until.map_or_else(String::new, |until| format!(" until {}", output::seconds(until)))
}

/// The workspace that `--workspace` names.
pub(crate) fn workspace(folder: Option<&Path>) -> Result<Option<Workspace>, CliError> {
    let of = |folder: &Path| {
        Workspace::of(folder)
            .map_err(|error| CliError::usage(format!("--workspace {}: {error}", folder.display())))
    };
    folder.map(of).transpose()
}

/// A skill and the part of it that a level or an approval is for.
pub(crate) fn label(skill: &str, part: &SkillPart) -> String {
    let label = match part {
        SkillPart::Skill => skill.to_owned(),
        SkillPart::Program(name) => format!("{skill} ({name})"),
        SkillPart::Tool(name) => format!("{skill} (tool {name})"),
        SkillPart::Command => format!("{skill} (shell commands)"),
    };
    output::lines(&label, 0)
}
