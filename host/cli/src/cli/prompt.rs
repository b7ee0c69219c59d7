//! `skillhost prompt`: the block that agents are given.

use super::exit::Exit;
use super::list::report;
use super::permissions::PolicyFile;
use super::places::Places;
use super::skills::Skills;
use super::{Failure, show};

/// Prints the <available_skills> block for an agent's prompt, within a budget of tokens
///
/// Where the enabled skills do not fit, their descriptions are shortened to the same length; where
/// that is not enough, skills are left out, the last of the catalogue first. The block and stderr
/// say so. A token is counted as four bytes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost prompt
  skillhost prompt --budget 1000 >> AGENTS.md
  skillhost prompt --json | jq .tokens")]
pub(crate) struct Args {
    /// Tokens that the block may have
    #[arg(long, value_name = "TOKENS", default_value_t = 4000)]
    budget: usize,
    /// Print one JSON object (`skillhost schema prompt`)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    skills: Skills,
    #[command(flatten)]
    policy: PolicyFile,
}

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    let catalog = args.skills.open(&places, &args.policy.read(&places)?)?;
    let prompt = catalog.prompt_with_locations(args.budget);
    if args.json {
        show::json(&prompt)?;
        return Ok(Exit::Ok);
    }
    report(&catalog);
    if let Some(left) = prompt.omissions() {
        show::warning(
            &format!("{left} to keep to {} tokens", args.budget),
            Some("--budget TOKENS"),
        );
    }
    show::foreign(&prompt.text)?;
    Ok(Exit::Ok)
}
