//! `skillhost prompt`: print the block of skills for an agent's prompt.

use skillhost::invoke::Runner;
use skillhost_catalog::CatalogEntry;
use skillhost_policy::Policy;
use skillhost_skill::{SizeLimits, Skill};

use crate::args::HostArgs;
use crate::args::numbers::whole_number;
use crate::args::permissions::PolicyFile;
use crate::args::skills::Skills;
use crate::commands::list::report;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output;

/// Print the <available_skills> block for an agent's prompt, within a budget of tokens
///
/// The block has the enabled skills that the policy does not hide. If they do not fit, their
/// descriptions are shortened to a common length; if that is not enough, skills are omitted, starting
/// with those that `skillhost list` shows last. The block and stderr say so. Four bytes count as one
/// token.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost prompt
  skillhost prompt --budget 1000 >> AGENTS.md
  skillhost prompt --json | jq .tokens")]
pub(crate) struct Args {
    /// The maximum size of the block, in tokens
    #[arg(long, value_name = "TOKENS", default_value_t = 4000, value_parser = whole_number::<usize>)]
    budget: usize,
    /// Print one JSON object (`skillhost schema prompt`)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    skills: Skills,
    #[command(flatten)]
    policy: PolicyFile,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let context = Context::with_file(&args.policy)?;
    let catalog = context.catalog(&args.skills)?;
    let runner = Runner::new(context.host_options(&HostArgs::default(), &args.skills)?);
    let policy = context.policy;
    catalog.set_hidden(move |entry| {
        policy.hides(&entry.name) || lacks_requirements(entry, &policy, &runner)
    });
    let prompt = catalog.prompt_with_locations(args.budget);
    if args.json {
        output::json(&prompt)?;
        return Ok(Exit::Ok);
    }
    report(&catalog);
    if let Some(left) = prompt.omissions() {
        output::warning(
            &format!("{left} to stay within {} tokens", args.budget),
            Some("--budget TOKENS"),
        );
    }
    output::foreign(&prompt.text)?;
    Ok(Exit::Ok)
}

/// Checks whether a skill lacks what the policy requires of it: such a skill would not load.
fn lacks_requirements(entry: &CatalogEntry, policy: &Policy, runner: &Runner) -> bool {
    policy.requirements_for(&entry.name).next().is_some()
        && Skill::load_from(entry.into(), &SizeLimits::of(policy))
            .and_then(|skill| runner.require(&skill, policy))
            .is_err()
}
