//! `skillhost permissions`: the levels and approvals that are in force, and how to change them.

use std::path::Path;

use clap::Subcommand;
use serde::Serialize;
use skillhost_ledger::approval::{Approval, LevelSetting, SkillPart};
use skillhost_skill::Skill;

use super::exit::Exit;
use super::permissions::PolicyFile;
use super::places::Places;
use super::skills::Skills;
use super::{Failure, ask, operator, show};

/// Shows and sets what may run: blocked, disabled, enabled (asks), auto-approved
///
/// A level is for a skill, a program or a tool of it. The policy's `approval` is the upper bound,
/// and a level that denies holds wherever it is set. Approvals are what you said to single
/// requests.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost permissions
  skillhost permissions set web-fetch enabled
  skillhost permissions set csv-report auto-approved --program scripts/csv_report.py
  skillhost permissions set web-fetch default
  skillhost permissions revoke csv-report")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Print one JSON object (`skillhost schema permissions`)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Sets a level
    ///
    /// `auto-approved` holds for the skill as it is now: when its files change, it asks. `default`
    /// takes the level away again.
    Set(Set),
    /// Takes back every approval of a skill
    Revoke {
        /// The skill's name in the catalogue, or the path of a folder, with a `/`
        skill: String,
    },
}

#[derive(Debug, clap::Args)]
struct Set {
    /// The skill's name in the catalogue, or the path of a folder, with a `/`
    skill: String,
    /// The level
    #[arg(value_name = "blocked|disabled|enabled|auto-approved|default", value_parser = level)]
    level: Chosen,
    /// A script or component of the skill alone. A level that denies holds for every file that the
    /// name may mean
    #[arg(long, value_name = "NAME", conflicts_with = "tool")]
    program: Option<String>,
    /// A typed tool of the skill alone
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Texts for the shell alone (`run --command`)
    #[arg(long, conflicts_with_all = ["program", "tool"])]
    command: bool,
    #[command(flatten)]
    skills: Skills,
    #[command(flatten)]
    policy: PolicyFile,
}

#[derive(Debug, Clone, Copy)]
struct Chosen(Option<PermissionLevel>);

/// What `--json` prints.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct State {
    /// Levels that were set.
    levels: Vec<LevelSetting>,
    /// What was said to single requests.
    approvals: Vec<Approval>,
}

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let approvals = ask::approvals()?;
    match &args.verb {
        None => {
            let state = State {
                levels: approvals.levels().map_err(ask::failure)?,
                approvals: approvals.approvals().map_err(ask::failure)?,
            };
            if args.json { show::json(&state)? } else { show::text(&text(&state))? }
        }
        Some(Verb::Revoke { skill }) => {
            let revoked = approvals.revoke(&key(skill)).map_err(ask::failure)?;
            show::text(&format!("{revoked} revoked"))?;
        }
        Some(Verb::Set(set)) => {
            operator::require(&Places::find()?)?;
            let part = match (&set.program, &set.tool) {
                (Some(program), _) => SkillPart::Program(program.clone()),
                (_, Some(tool)) => SkillPart::Tool(tool.clone()),
                _ if set.command => SkillPart::Command,
                _ => SkillPart::Skill,
            };
            let Chosen(level) = set.level;
            let digest = if level == Some(PermissionLevel::AutoApproved) {
                Some(digest(set)?)
            } else {
                None
            };
            approvals
                .set_level(&key(&set.skill), &part, level, digest.as_deref(), &ask::person())
                .map_err(ask::failure)?;
        }
    }
    Ok(Exit::Ok)
}

/// The digest of the skill as it is now.
fn digest(set: &Set) -> Result<String, Failure> {
    let places = Places::find()?;
    let catalog = set.skills.open(&places, &set.policy.read(&places)?)?;
    let entry = set.skills.find(&set.skill, &catalog)?;
    let skill = Skill::load(&entry.folder, &Default::default())
        .map_err(|error| Failure::new(Exit::Invalid, error.to_string()))?;
    skill.digest().map_err(|error| Failure::new(Exit::Io, error.to_string()))
}

/// The name that levels and approvals are kept under: that of a skill of the catalogue, or the real
/// path of a folder.
fn key(skill: &str) -> String {
    let folder = skill.contains('/').then(|| Path::new(skill).canonicalize().ok()).flatten();
    folder.map_or_else(|| skill.to_owned(), |folder| folder.display().to_string())
}

fn level(text: &str) -> Result<Chosen, String> {
    match PermissionLevel::from_name(text) {
        Some(level) => Ok(Chosen(Some(level))),
        None if text == "default" => Ok(Chosen(None)),
        None => Err(format!(
            "one of: {}, default",
            PermissionLevel::ALL.map(PermissionLevel::name).join(", ")
        )),
    }
}

fn text(state: &State) -> String {
    let level = |set: &LevelSetting| {
        format!(
            "{}: {} (by {}, {})",
            ask::of(&set.skill, &set.part),
            set.level.name(),
            set.who,
            set.time
        )
    };
    let approval = |one: &Approval| {
        let term = serde_json::to_value(one.term)
            .ok()
            .and_then(|term| term.as_str().map(str::to_owned))
            .unwrap_or_default();
        let over =
            one.ended.as_ref().map_or_else(String::new, |over| format!(", over since {over}"));
        let head = format!(
            "{}: approved {term} (by {}, {}{over})",
            ask::of(&one.skill, &one.part),
            one.who,
            one.time
        );
        format!("{head}\n  for {}", one.digest)
    };
    let lines: Vec<String> =
        state.levels.iter().map(level).chain(state.approvals.iter().map(approval)).collect();
    if lines.is_empty() {
        "No permission levels set; no approvals.".into()
    } else {
        show::lines(&lines.join("\n"), 0)
    }
}
