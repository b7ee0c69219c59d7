//! `skillhost show`: show a skill, or one of its files.

use serde::Serialize;
use skillhost_catalog::CatalogEntry;
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::show_size;
use skillhost_skill::files::SkillFile;
use skillhost_skill::{SizeLimits, Skill};

use crate::args::permissions::PolicyFile;
use crate::args::skills::{self, Skills};
use crate::commands::list::{One, name};
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output::{self, CYAN};
use crate::requirements;

/// Show a skill, or one of its files
///
/// Shows what the skill is for, what it requests, its files and its instructions; or prints one
/// file unchanged. Says if the skill does not load because it lacks what the policy requires.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost show csv-report
  skillhost show csv-report samples/weather.csv
  skillhost show csv-report --json | jq -r .instructions")]
pub(crate) struct Args {
    /// The skill's name, from `skillhost list`
    #[arg(value_name = "SKILL")]
    name: String,
    /// Print this file, by its path in the skill
    file: Option<String>,
    /// Print one JSON object (`skillhost schema show`)
    #[arg(long, conflicts_with = "file")]
    json: bool,
    #[command(flatten)]
    skills: Skills,
    #[command(flatten)]
    policy: PolicyFile,
}

/// Output of `--json`.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct ShowReport<'a> {
    #[serde(flatten)]
    one: One<'a>,
    /// The digest of all its files.
    skill_digest: String,
    /// The entries that it requests; `null` if it has no allowed-tools.
    allowed_tools: Option<Vec<&'a str>>,
    /// Its files, by path.
    files: &'a [SkillFile],
    /// The text of its SKILL.md without the frontmatter.
    instructions: &'a str,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let context = Context::with_file(&args.policy)?;
    let catalog = context.catalog(&args.skills)?;
    let entry = skills::find(&args.name, &catalog)?;
    let skill = Skill::load_from((&entry).into(), &SizeLimits::of(&context.policy))
        .map_err(|error| CliError::invalid(error.to_string()))?;
    if let Some(file) = &args.file {
        let bytes = skill.read(file).map_err(|error| {
            let listed: Vec<&str> =
                skill.files.iter().map(|file| file.path.as_str()).take(20).collect();
            CliError::usage(error.to_string()).fix(format!("its files: {}", listed.join(", ")))
        })?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => output::foreign(text)?,
            Err(_) => output::bytes(&bytes)?,
        }
        return Ok(Exit::Ok);
    }
    let unmet = requirements::unmet(&entry, &context);
    let refused = unmet.as_ref().map(requirements::why);
    let enabled = catalog.is_enabled(&entry);
    let requested = skill
        .manifest
        .allowed_tools
        .as_ref()
        .map(|tools| tools.iter().map(|tool| tool.text.as_str()).collect());
    let instructions = &skill.source[skill.body_offset..];
    if args.json {
        let skill_digest =
            skill.digest().map_err(|error| CliError::io("digest the skill", error))?;
        let one = One { entry: &entry, enabled, refused };
        output::json(&ShowReport {
            one,
            skill_digest,
            allowed_tools: requested,
            files: &skill.files,
            instructions,
        })?;
        return Ok(Exit::Ok);
    }
    let state = match (unmet.is_some(), enabled) {
        (true, _) => "refused by the policy",
        (false, true) => "enabled",
        (false, false) => "disabled",
    };
    output::text(&head(&entry, &skill, requested.as_deref(), state))?;
    output::foreign(&format!("\n{}\n", instructions.trim()))?;
    unmet.iter().for_each(|unmet| requirements::warn(&entry.name, unmet));
    Ok(Exit::Ok)
}

fn head(entry: &CatalogEntry, skill: &Skill, requested: Option<&[&str]>, state: &str) -> String {
    let runtimes: Vec<&str> = entry.runtimes.iter().map(name).collect();
    let requests = match requested {
        None => "nothing (it gets what the policy allows every skill)".to_owned(),
        Some([]) => "nothing".to_owned(),
        Some(tools) => printable(&tools.join(" ")).to_string(),
    };
    let mut lines =
        vec![output::title(&entry.name, &entry.folder), printable(&entry.description).to_string()];
    lines.push(format!("{CYAN}requests{CYAN:#} {requests}"));
    let trust = if entry.trusted { "trusted" } else { "untrusted" };
    let source = serde_json::to_value(entry.source)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default();
    lines.push(format!("{CYAN}runs{CYAN:#} {}; {state}, {trust} ({source})", runtimes.join(", ")));
    for SkillFile { path, size, .. } in &skill.files {
        lines.push(format!("  {} ({})", printable(path), show_size(*size)));
    }
    lines.join("\n")
}
