//! `skillhost search`: find skills by purpose.

use clap::builder::BoolishValueParser;
use serde::Serialize;
use skillhost_catalog::{Hit, Query, SkillRuntime};
use skillhost_policy::diagnostic::printable;
use skillhost_sources::fetch::Offer;

use crate::args::numbers::whole_number;
use crate::args::permissions::PolicyFile;
use crate::args::skills::Skills;
use crate::commands::list::{One, line, name, report};
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::sources::{self, SourcesFileArg};
use crate::{output, requirements};

/// Find skills by purpose, best match first
///
/// Searches names, descriptions, keywords and instructions, and ranks the matches by BM25. Tolerates
/// typos and an unfinished last word. With --remote, lists the skills that a source offers, before
/// any of them is added: those whose path or description has every word. Exits with 1 if nothing
/// matches.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost search extract tables from a pdf
  skillhost search 'csv rep' --runtime python --network no
  skillhost search --tag finance --limit 50
  skillhost search json --json | jq -r '.hits[0].name'
  skillhost search pdf --remote anthropics/skills")]
pub(crate) struct Args {
    /// What the skill should do, in any words
    #[arg(value_name = "QUERY")]
    words: Vec<String>,
    /// Only skills with this tag or category
    #[arg(long)]
    tag: Option<String>,
    /// Only skills that use this runtime: component, python, javascript, shell or instructions
    #[arg(long, value_parser = runtime)]
    runtime: Option<SkillRuntime>,
    /// Only skills that request network access, or only those that do not
    #[arg(long, value_name = "yes|no", value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    network: Option<bool>,
    /// Only skills that are enabled, or only those that are not
    #[arg(long, value_name = "yes|no", value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    enabled: Option<bool>,
    /// List at most this many skills
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = whole_number::<usize>)]
    limit: usize,
    /// Browse the skills of a source, as `skillhost add` takes it, without adding one
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["tag", "runtime", "network", "enabled"])]
    remote: Option<String>,
    /// Print one JSON object (`skillhost schema search`); with --remote, one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    skills: Skills,
    #[command(flatten)]
    policy: PolicyFile,
}

/// Output of `--json`.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct SearchReport<'a> {
    /// The skills that match, the best first.
    hits: Vec<Ranked<'a>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct Ranked<'a> {
    #[serde(flatten)]
    one: One<'a>,
    /// How well it matches: higher is better. Scores of different searches are not comparable.
    score: f64,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    if let Some(source) = &args.remote {
        return remote(args, source);
    }
    let context = Context::with_file(&args.policy)?;
    let catalog = context.catalog(&args.skills)?;
    let query = Query {
        text: args.words.join(" "),
        tag: args.tag.clone(),
        runtime: args.runtime,
        network: args.network,
        enabled: args.enabled,
        limit: args.limit,
        ..Query::default()
    };
    let hits = catalog.search(&query)?;
    if args.json {
        let ranked = hits.iter().map(|Hit { entry, score }| Ranked {
            one: One::of(entry, &catalog, &context),
            score: *score,
        });
        output::json(&SearchReport { hits: ranked.collect() })?;
    } else if !hits.is_empty() {
        let line = |Hit { entry, .. }: &Hit| {
            let is_refused = requirements::unmet(entry, &context).is_some();
            line(entry, catalog.is_enabled(entry), is_refused)
        };
        let lines: Vec<String> = hits.iter().map(line).collect();
        output::pager::list(&lines.join("\n"))?;
    } else {
        report(&catalog);
        output::warning("no skill matches", Some("`skillhost list` shows all skills"));
    }
    Ok(if hits.is_empty() { Exit::Findings } else { Exit::Ok })
}

/// Lists the skills that a source offers.
fn remote(args: &Args, source: &str) -> Result<Exit, CliError> {
    let context = Context::with_file(&args.policy)?;
    let project = SourcesFileArg::default().open(&context.places)?;
    let source = sources::typed(source, &project)?;
    let network = sources::network(&context)?;
    network.allow(&project.place_of(&source).place);
    let words: Vec<String> = args.words.iter().map(|word| word.to_lowercase()).collect();
    let mut offers = project.offers(&source, &network)?;
    offers.retain(|offer| {
        let text = format!("{}\n{}", offer.path, offer.description).to_lowercase();
        words.iter().all(|word| text.contains(word))
    });
    let exit = if offers.is_empty() { Exit::Findings } else { Exit::Ok };
    if args.json {
        output::json(&offers)?;
        return Ok(exit);
    }
    if offers.is_empty() {
        output::warning("no skill of the source matches", None);
    }
    let lines = offers.iter().map(|Offer { path, description }| {
        let path = if path.is_empty() { "." } else { path };
        printable(&format!("{path}: {description}"))
    });
    output::pager::list(&lines.collect::<Vec<_>>().join("\n"))?;
    Ok(exit)
}

fn runtime(text: &str) -> Result<SkillRuntime, String> {
    let all = SkillRuntime::ALL.map(name);
    SkillRuntime::ALL
        .into_iter()
        .find(|one| name(*one) == text)
        .ok_or_else(|| format!("expected one of: {}", all.join(", ")))
}
