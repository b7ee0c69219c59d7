//! `skillhost list`: list the skills that can be named.

use std::io::IsTerminal as _;
use std::path::Path;

use serde::Serialize;
use skillhost_catalog::{Catalog, CatalogEntry, ScanProblem, ShadowedSkill, SkillRuntime, Source};
use skillhost_policy::diagnostic::printable;

use crate::args::permissions::PolicyFile;
use crate::args::skills::Skills;
use crate::context::{Context, source_name};
use crate::error::{CliError, Exit};
use crate::output::{self, CYAN};
use crate::requirements;

/// List the installed skills
///
/// Looks in --skills, in .agents/skills and .claude/skills of the project and of your home folder,
/// in the policy's skill-folders, and next to this executable. The first of several skills with
/// one name shadows the others. Shadowed skills and those that cannot be read are reported on
/// stderr; --all lists them in the order of the search. "untrusted" marks skills of folders that
/// others than you may have filled: a run of one needs approval. `skillhost trust DIR` approves those
/// that are in one of your folders now. "refused" marks skills that lack what `require` of the policy
/// demands, such as a signature: they do not load. On a terminal, a list that does not fit is shown in $PAGER
/// (`less` if it is not set).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost list
  skillhost list --skills ./skills
  skillhost list --all                                where skills come from, and which are shadowed
  skillhost list --json | jq -r '.skills[] | select(.network) | .name'")]
pub(crate) struct Args {
    /// List the folders that are searched, in order, and all their skills, with those that are
    /// shadowed. `--json` always has them
    #[arg(long)]
    all: bool,
    /// Print one JSON object (`skillhost schema list`)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    skills: Skills,
    #[command(flatten)]
    policy: PolicyFile,
}

/// Output of `--json`.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct ListReport<'a> {
    /// The folders that are searched, in this order. `position` counts them from 1.
    sources: &'a [Source],
    /// Skills that can be run, in the order in which they are found.
    skills: Vec<One<'a>>,
    /// Skills that are shadowed by another with the same name.
    shadowed: &'a [ShadowedSkill],
    /// Skills that cannot be read.
    broken: &'a [ScanProblem],
}

/// A skill and its current state.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct One<'a> {
    #[serde(flatten)]
    pub(crate) entry: &'a CatalogEntry,
    /// Whether its permission level lets it run.
    pub(crate) enabled: bool,
    /// Why it does not load: it lacks what `require` of the policy demands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

impl<'a> One<'a> {
    /// The state of a skill.
    pub(crate) fn of(entry: &'a CatalogEntry, catalog: &Catalog, context: &Context) -> One<'a> {
        let refused = requirements::unmet(entry, context).map(|unmet| requirements::why(&unmet));
        One { entry, enabled: catalog.is_enabled(entry), refused }
    }
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let context = Context::with_file(&args.policy)?;
    let catalog = context.catalog(&args.skills)?;
    args.skills.warn_of_unknown_sections(None, &context);
    args.skills.warn_of_missing_folders(&context, true);
    let (entries, shadowed, broken) = (catalog.entries(), catalog.shadowed(), catalog.problems());
    if args.json {
        let skills = entries.iter().map(|entry| One::of(entry, &catalog, &context)).collect();
        let sources = catalog.sources();
        output::json(&ListReport { sources, skills, shadowed: &shadowed, broken: &broken })?;
        return Ok(Exit::Ok);
    }
    if args.all {
        report_problems(&catalog);
        output::pager::list(&load_order(&catalog, &context))?;
        return Ok(Exit::Ok);
    }
    report(&catalog);
    if entries.is_empty() {
        let fix = "add one to ~/.agents/skills, or name a folder with --skills DIR";
        output::warning("no skills found", Some(fix));
        return Ok(Exit::Ok);
    }
    let line = |entry| {
        let unmet = requirements::unmet(entry, &context);
        unmet.iter().for_each(|unmet| requirements::warn(&entry.name, unmet));
        line(entry, catalog.is_enabled(entry), unmet.is_some())
    };
    let lines: Vec<String> = entries.iter().map(line).collect();
    output::pager::list(&lines.join("\n"))?;
    Ok(Exit::Ok)
}

/// Reports the skills that cannot be run, and why.
pub(crate) fn report(catalog: &Catalog) {
    for ShadowedSkill { name, folder, by, .. } in catalog.shadowed().iter() {
        let (folder, by) = (folder.display(), by.display());
        output::warning(&format!("{folder} is shadowed by {by} (same name `{name}`)"), None);
    }
    report_problems(catalog);
}

fn report_problems(catalog: &Catalog) {
    for ScanProblem { folder, why } in catalog.problems().iter() {
        output::warning(&format!("{}: {why}", folder.display()), None);
    }
}

/// The searched folders and all their skills, in the order of the search.
fn load_order(catalog: &Catalog, context: &Context) -> String {
    let (entries, shadowed) = (catalog.entries(), catalog.shadowed());
    let shown = |path: &Path| printable(&path.display().to_string());
    let visible = entries.iter().map(|entry| {
        let status = match requirements::unmet(entry, context) {
            Some(unmet) => format!("refused: {}", requirements::why(&unmet)),
            None if catalog.is_enabled(entry) => String::new(),
            None => "disabled".to_owned(),
        };
        (entry.position, &*entry.folder, &entry.name, status)
    });
    let hidden = shadowed.iter().map(|one| {
        (one.position, &*one.folder, &one.name, format!("shadowed by {}", shown(&one.by)))
    });
    let mut skills: Vec<_> = visible.chain(hidden).collect();
    skills.sort();
    let sources = (1..).zip(catalog.sources()).map(|(position, Source { folder, kind, .. })| {
        let count = skills.iter().filter(|(at, ..)| *at == position).count();
        [position.to_string(), source_name(*kind).to_owned(), shown(folder), count.to_string()]
    });
    let sources = output::table(["order", "source", "folder", "skills"], sources, 3..4);
    let rows = skills.iter().map(|(position, folder, name, status)| {
        [position.to_string(), printable(name), shown(folder), status.clone()]
    });
    let skills = output::table(["order", "skill", "path", "status"], rows, 0..0);
    format!("{sources}\n\n{skills}")
}

/// A skill on one line, which is cut at the width of the terminal.
pub(crate) fn line(entry: &CatalogEntry, enabled: bool, refused: bool) -> String {
    let mut facts: Vec<&str> =
        entry.runtimes.iter().filter(|one| *one != SkillRuntime::Instructions).map(name).collect();
    facts.extend(entry.network.then_some("network"));
    facts.extend((!entry.trusted).then_some("untrusted"));
    facts.extend((!enabled).then_some("disabled"));
    facts.extend(refused.then_some("refused"));
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    let name = printable(&entry.name);
    let mut description = printable(&entry.description);
    if std::io::stdout().is_terminal() {
        let taken = name.chars().count() + facts.len() + 2;
        description = cut(&description, usize::from(output::width()).saturating_sub(taken).max(20));
    }
    format!("{CYAN}{name}{CYAN:#}{facts}: {description}")
}

/// The name of a runtime.
pub(crate) fn name(runtime: SkillRuntime) -> &'static str {
    match runtime {
        SkillRuntime::Component => "component",
        SkillRuntime::Python => "python",
        SkillRuntime::JavaScript => "javascript",
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
