//! `skillhost show`: one skill, or one of its files.

use serde::Serialize;
use skillhost_catalog::CatalogEntry;
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::show_size;
use skillhost_skill::Skill;
use skillhost_skill::files::SkillFile;

use super::exit::Exit;
use super::list::{One, word};
use super::permissions::PolicyFile;
use super::places::Places;
use super::show::CYAN;
use super::skills::Skills;
use super::{Failure, show};

/// Shows a skill, or one of its files
///
/// Of a skill: what it is for, what it asks for, its files and its instructions. It is named as
/// `skillhost list` shows it. A file is printed as it is, by its path in the skill.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost show csv-report
  skillhost show csv-report references/format.md
  skillhost show csv-report --json | jq -r .instructions")]
pub(crate) struct Args {
    /// The skill's name
    #[arg(value_name = "SKILL")]
    name: String,
    /// One of its files
    file: Option<String>,
    /// Print one JSON object (`skillhost schema show`)
    #[arg(long, conflicts_with = "file")]
    json: bool,
    #[command(flatten)]
    skills: Skills,
    #[command(flatten)]
    policy: PolicyFile,
}

/// What `--json` prints.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Shown<'a> {
    #[serde(flatten)]
    one: One<'a>,
    /// The digest of all its files.
    skill_digest: String,
    /// What it asks for, an entry each; `null` where it says nothing.
    allowed_tools: Option<Vec<&'a str>>,
    /// Its files, by path.
    files: &'a [SkillFile],
    /// The text of its SKILL.md without the frontmatter.
    instructions: &'a str,
}

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    let catalog = args.skills.open(&places, &args.policy.read(&places)?)?;
    let entry = args.skills.find(&args.name, &catalog)?;
    let skill = Skill::load(&entry.folder, &Default::default())
        .map_err(|error| Failure::new(Exit::Invalid, error.to_string()))?;
    if let Some(file) = &args.file {
        let bytes = skill.read(file).map_err(|error| {
            let listed: Vec<&str> =
                skill.files.iter().map(|file| file.path.as_str()).take(20).collect();
            Failure::new(Exit::Usage, error.to_string())
                .fix(format!("its files: {}", listed.join(", ")))
        })?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => show::foreign(text)?,
            Err(_) => show::bytes(&bytes)?,
        }
        return Ok(Exit::Ok);
    }
    let enabled = catalog.is_enabled(&entry);
    let asked = skill
        .manifest
        .allowed_tools
        .as_ref()
        .map(|tools| tools.iter().map(|tool| tool.text.as_str()).collect());
    let instructions = &skill.source[skill.body_offset..];
    if args.json {
        let skill_digest =
            skill.digest().map_err(|error| Failure::new(Exit::Io, error.to_string()))?;
        let one = One { entry: &entry, enabled };
        show::json(&Shown {
            one,
            skill_digest,
            allowed_tools: asked,
            files: &skill.files,
            instructions,
        })?;
        return Ok(Exit::Ok);
    }
    show::text(&head(&entry, &skill, asked.as_deref(), enabled))?;
    show::foreign(&format!("\n{}\n", instructions.trim()))?;
    Ok(Exit::Ok)
}

fn head(entry: &CatalogEntry, skill: &Skill, asked: Option<&[&str]>, enabled: bool) -> String {
    let runtimes: Vec<&str> = entry.runtimes.iter().map(word).collect();
    let asks = match asked {
        None => "nothing by itself: it gets what the policy allows every skill".to_owned(),
        Some([]) => "nothing".to_owned(),
        Some(tools) => printable(&tools.join(" ")).to_string(),
    };
    let mut lines =
        vec![show::title(&entry.name, &entry.folder), printable(&entry.description).to_string()];
    lines.push(format!("{CYAN}asks for{CYAN:#} {asks}"));
    let trust = if entry.trusted { "trusted" } else { "untrusted" };
    let state = if enabled { "enabled" } else { "disabled" };
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
