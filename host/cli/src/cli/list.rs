//! `skillhost list`: the skills that are there.

use std::io::IsTerminal as _;

use serde::Serialize;
use skillhost_catalog::{Catalog, CatalogEntry, ScanProblem, ShadowedSkill, SkillRuntime};
use skillhost_policy::diagnostic::printable;

use super::exit::Exit;
use super::permissions::PolicyFile;
use super::places::Places;
use super::show::CYAN;
use super::skills::Skills;
use super::{Failure, show};

/// Lists the skills that are there
///
/// They are looked for in --skills, in .agents/skills and .claude/skills of the project and of your
/// home folder, in the policy's skill-folders, and beside this executable. Of two skills of one
/// name the first counts; the others, and skills that cannot be read, are told on stderr.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost list
  skillhost list --skills ./skills
  skillhost list --json | jq -r '.skills[] | select(.network) | .name'")]
pub(crate) struct Args {
    /// Print one JSON object (`skillhost schema list`)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    skills: Skills,
    #[command(flatten)]
    policy: PolicyFile,
}

/// What `--json` prints.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Listed<'a> {
    /// Those that count, in the order in which they are found.
    skills: Vec<One<'a>>,
    /// Those that do not, since another of their name comes before them.
    shadowed: &'a [ShadowedSkill],
    /// Those that cannot be read.
    broken: &'a [ScanProblem],
}

/// A skill, and what holds for it now.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct One<'a> {
    #[serde(flatten)]
    pub(super) entry: &'a CatalogEntry,
    /// Whether it may run, by the levels that are in force.
    pub(super) enabled: bool,
}

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    let catalog = args.skills.open(&places, &args.policy.read(&places)?)?;
    let (entries, shadowed, broken) = (catalog.entries(), catalog.shadowed(), catalog.problems());
    if args.json {
        let skills =
            entries.iter().map(|entry| One { entry, enabled: catalog.is_enabled(entry) }).collect();
        show::json(&Listed { skills, shadowed: &shadowed, broken: &broken })?;
        return Ok(Exit::Ok);
    }
    report(&catalog);
    if entries.is_empty() {
        show::help(Some(
            "no skill was found: name a folder with --skills DIR, or put skills into ~/.agents/skills",
        ));
        return Ok(Exit::Ok);
    }
    let lines: Vec<String> =
        entries.iter().map(|entry| line(entry, catalog.is_enabled(entry))).collect();
    show::text(&lines.join("\n"))?;
    Ok(Exit::Ok)
}

/// Tells what does not count, and why.
pub(super) fn report(catalog: &Catalog) {
    for ShadowedSkill { name, folder, by } in catalog.shadowed().iter() {
        let (folder, by) = (folder.display(), by.display());
        show::warning(
            &format!("{folder} does not count: {by} comes before it and is named {name} too"),
            None,
        );
    }
    for ScanProblem { folder, why } in catalog.problems().iter() {
        show::warning(&format!("{}: {why}", folder.display()), None);
    }
}

/// A skill in a line, as wide as the terminal where there is one.
pub(super) fn line(entry: &CatalogEntry, enabled: bool) -> String {
    let mut facts: Vec<&str> =
        entry.runtimes.iter().filter(|one| *one != SkillRuntime::Instructions).map(word).collect();
    facts.extend(entry.network.then_some("network"));
    facts.extend((!entry.trusted).then_some("untrusted"));
    facts.extend((!enabled).then_some("disabled"));
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    let name = printable(&entry.name);
    if !std::io::stdout().is_terminal() {
        return format!("{CYAN}{name}{CYAN:#}{facts}: {}", printable(&entry.description));
    }
    let room =
        usize::from(show::width()).saturating_sub(name.chars().count() + facts.len() + 2).max(20);
    format!("{CYAN}{name}{CYAN:#}{facts}: {}", cut(&printable(&entry.description), room))
}

/// How a runtime is written.
pub(super) fn word(runtime: SkillRuntime) -> &'static str {
    match runtime {
        SkillRuntime::Component => "component",
        SkillRuntime::Python => "python",
        SkillRuntime::Shell => "shell",
        SkillRuntime::Instructions => "instructions",
    }
}

fn cut(text: &str, room: usize) -> String {
    match text.char_indices().nth(room) {
        None => text.to_owned(),
        Some(_) => {
            format!("{}…", text.chars().take(room.saturating_sub(1)).collect::<String>().trim_end())
        }
    }
}
