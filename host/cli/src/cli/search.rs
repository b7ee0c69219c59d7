//! `skillhost search`: the skills that a question is about.

use clap::builder::BoolishValueParser;
use serde::Serialize;
use skillhost_catalog::{Hit, Query, SkillRuntime};

use super::exit::Exit;
use super::list::{One, line, report, word};
use super::permissions::PolicyFile;
use super::places::Places;
use super::skills::Skills;
use super::{Failure, show};

/// Finds skills by what they are for, the best first
///
/// Looks for the words in names, descriptions, keywords and instructions, ranked by BM25. A typo is
/// forgiven, and the last word need not be finished. Exit code 1: no skill was found.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost search extract tables from a pdf
  skillhost search 'csv rep' --runtime python --network no
  skillhost search --tag finance --limit 50
  skillhost search json --json | jq -r '.hits[0].name'")]
pub(crate) struct Args {
    /// What it should be for; any text
    #[arg(value_name = "QUERY")]
    words: Vec<String>,
    /// Skills with that tag or category alone
    #[arg(long)]
    tag: Option<String>,
    /// Skills whose programs run in that alone
    #[arg(long, value_parser = runtime)]
    runtime: Option<SkillRuntime>,
    /// Skills that ask for network, or those that do not
    #[arg(long, value_name = "yes|no", value_parser = BoolishValueParser::new())]
    network: Option<bool>,
    /// Skills that are enabled, or those that are not
    #[arg(long, value_name = "yes|no", value_parser = BoolishValueParser::new())]
    enabled: Option<bool>,
    /// Skills at most
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    limit: usize,
    /// Print one JSON object (`skillhost schema search`)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    skills: Skills,
    #[command(flatten)]
    policy: PolicyFile,
}

/// What `--json` prints.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Found<'a> {
    /// The skills that fit, the best first.
    hits: Vec<Ranked<'a>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct Ranked<'a> {
    #[serde(flatten)]
    one: One<'a>,
    /// How well it fits: higher is better, and comparable within one answer alone.
    score: f64,
}

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    let catalog = args.skills.open(&places, &args.policy.read(&places)?)?;
    let query = Query {
        text: args.words.join(" "),
        tag: args.tag.clone(),
        runtime: args.runtime,
        network: args.network,
        enabled: args.enabled,
        limit: args.limit,
    };
    let hits = catalog.search(&query).map_err(|error| Failure::new(Exit::Io, error.to_string()))?;
    if args.json {
        let mut ranked = Vec::new();
        for Hit { entry, score } in &hits {
            ranked.push(Ranked {
                one: One { entry, enabled: catalog.is_enabled(entry) },
                score: *score,
            });
        }
        show::json(&Found { hits: ranked })?;
    } else if !hits.is_empty() {
        let lines: Vec<String> =
            hits.iter().map(|hit| line(&hit.entry, catalog.is_enabled(&hit.entry))).collect();
        show::text(&lines.join("\n"))?;
    } else {
        report(&catalog);
        show::help(Some("no skill fits: `skillhost list` shows those that there are"));
    }
    Ok(if hits.is_empty() { Exit::Findings } else { Exit::Ok })
}

fn runtime(text: &str) -> Result<SkillRuntime, String> {
    let all = SkillRuntime::ALL.map(word);
    SkillRuntime::ALL
        .into_iter()
        .find(|one| word(*one) == text)
        .ok_or_else(|| format!("one of: {}", all.join(", ")))
}
