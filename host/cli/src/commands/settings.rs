//! `skillhost settings`: show and set the settings that skills declare.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;
use skillhost_ledger::approval::SettingValue;
use skillhost_policy::diagnostic::printable;
use skillhost_policy::manifest::settings::{Setting, SettingKind};
use skillhost_skill::{SizeLimits, Skill};

use crate::args::permissions::PolicyFile;
use crate::args::skills::Skills;
use crate::commands::permissions::workspace;
use crate::context::{Context, Places};
use crate::error::{CliError, Exit};
use crate::{operator, output};

/// Show and set the settings that skills declare
///
/// A skill declares settings in its metadata, with types and defaults. Its programs get the values
/// as variables: SKILL_SETTING_BASE_URL for base-url. A secret is not stored: set where the host
/// finds it, env:NAME or file:PATH.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost settings
  skillhost settings show api-client
  skillhost settings set api-client retries 5
  skillhost settings set api-client token env:API_TOKEN --workspace .
  skillhost settings unset api-client retries")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the settings that a skill declares, with their values
    Show {
        /// The skill's name, or its folder as a path with a `/`
        skill: String,
        /// Print one JSON array
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        skills: Skills,
        #[command(flatten)]
        policy: PolicyFile,
    },
    /// Set a setting of a skill
    Set {
        #[command(flatten)]
        one: One,
        /// The value; of a secret, env:NAME or file:PATH
        value: String,
        #[command(flatten)]
        skills: Skills,
        #[command(flatten)]
        policy: PolicyFile,
    },
    /// Remove the value of a setting, so that its default applies
    Unset {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        skills: Skills,
        #[command(flatten)]
        policy: PolicyFile,
    },
}

#[derive(Debug, clap::Args)]
struct One {
    /// The skill's name, or its folder as a path with a `/`
    skill: String,
    /// The name of the setting
    name: String,
    /// Only for runs with this workspace
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

/// Output of `show --json`.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    declared: &'a Setting,
    variable: String,
    values: Vec<&'a SettingValue>,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    match &args.action {
        None => list(args.json)?,
        Some(Action::Show { skill, json, skills, policy }) => {
            show(skill, *json, skills, policy)?;
        }
        Some(Action::Set { one, value, skills, policy }) => {
            let skill = loaded(&one.skill, skills, policy)?;
            let is_secret = check(&skill.manifest.settings, one, value)?;
            store(one, &skill.settings_key(), Some((value, is_secret)))?;
        }
        Some(Action::Unset { one, skills, policy }) => {
            store(one, &loaded(&one.skill, skills, policy)?.settings_key(), None)?;
        }
    }
    Ok(Exit::Ok)
}

fn list(json: bool) -> Result<(), CliError> {
    let values = Places::find()?.approvals().settings()?;
    if json {
        return output::json(&values);
    }
    let lines: Vec<String> = values.iter().map(line).collect();
    output::text(&if lines.is_empty() { "No settings are set.".into() } else { lines.join("\n") })
}

fn line(set: &SettingValue) -> String {
    let SettingValue { skill, name, value, who, time, workspace, .. } = set;
    let place = workspace.as_ref().map_or_else(String::new, |own| format!(" in {}", own.path));
    let time = output::seconds(time);
    output::lines(&format!("{skill} {name} = {value}{place} (by {who}, {time})"), 0)
}

fn show(skill: &str, json: bool, skills: &Skills, policy: &PolicyFile) -> Result<(), CliError> {
    let skill = loaded(skill, skills, policy)?;
    let (declared, key) = (&skill.manifest.settings, skill.settings_key());
    let all = Places::find()?.approvals().settings()?;
    let values = |setting: &Setting| {
        let own = all.iter().filter(|set| set.skill == key && set.name == setting.name);
        own.collect::<Vec<_>>()
    };
    if json {
        let shown: Vec<Shown<'_>> = declared
            .iter()
            .map(|one| Shown { declared: one, variable: one.variable(), values: values(one) })
            .collect();
        return output::json(&shown);
    }
    let row = |one: &Setting| {
        let set: Vec<String> = values(one)
            .iter()
            .map(|set| match &set.workspace {
                Some(own) => format!("{} in {}", set.value, own.path),
                None => set.value.clone(),
            })
            .collect();
        let default = one.default.clone().unwrap_or_default();
        [one.name.clone(), one.kind.takes(), default, set.join("; ")].map(|cell| printable(&cell))
    };
    let rows = declared.iter().map(row);
    output::text(&output::table(["setting", "takes", "default", "set to"], rows, 4..4))
}

fn loaded(skill: &str, skills: &Skills, policy: &PolicyFile) -> Result<Skill, CliError> {
    let context = Context::with_file(policy)?;
    let skill = skills.resolve(Path::new(skill), &context)?;
    let skill = Skill::load_from(skill.skill_folder(), &SizeLimits::of(&context.policy))
        .map_err(|error| CliError::invalid(error.to_string()))?;
    if skill.manifest.settings.is_empty() {
        return Err(CliError::usage(format!("{} declares no settings", skill.name)));
    }
    Ok(skill)
}

/// Checks a value. Returns whether the setting is a secret.
fn check(declared: &[Setting], one: &One, value: &str) -> Result<bool, CliError> {
    let Some(setting) = declared.iter().find(|setting| setting.name == one.name) else {
        let names: Vec<&str> = declared.iter().map(|setting| &*setting.name).collect();
        let message = format!("{} has no setting `{}`", one.skill, printable(&one.name));
        return Err(CliError::usage(message).fix(format!("its settings: {}", names.join(", "))));
    };
    let is_reference = value.starts_with("env:") || value.starts_with("file:/");
    if setting.kind == SettingKind::Secret && !is_reference {
        let message = format!("`{}` is a secret, which is not stored", setting.name);
        return Err(CliError::usage(message)
            .fix("set where the host finds it: env:NAME, or file: and an absolute path"));
    }
    setting.check(value).map_err(|takes| {
        CliError::usage(format!("`{}` takes {takes}, not `{}`", setting.name, printable(value)))
    })?;
    let file = value.strip_prefix("file:").filter(|_| setting.kind == SettingKind::Secret);
    if let Some(file) = file.filter(|file| !Path::new(file).is_file()) {
        let message = format!("{} does not exist, so runs do not get the secret", printable(file));
        output::warning(&message, None);
    }
    Ok(setting.kind == SettingKind::Secret)
}

fn store(one: &One, key: &str, value: Option<(&str, bool)>) -> Result<(), CliError> {
    let places = Places::find()?;
    operator::require(&places)?;
    let workspace = workspace(one.workspace.as_deref())?;
    let approvals = places.approvals();
    approvals.set_setting(key, &one.name, value, workspace.as_ref(), &operator::name())?;
    if output::is_quiet() {
        return Ok(());
    }
    let value = value.map_or_else(|| "is not set".to_owned(), |(value, _)| format!("= {value}"));
    let place = workspace.map_or_else(String::new, |own| format!(" in {}", own.path));
    output::text(&output::lines(&format!("{key} {} {value}{place}", one.name), 0))
}
