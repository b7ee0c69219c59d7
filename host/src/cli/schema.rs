//! `skillhost schema`: the JSON schemas of what it reads and writes.

use clap::ValueEnum;

use super::exit::Exit;
use super::{Failure, show};

/// Prints the JSON schema of what is read or written
///
/// An editor checks policy.yaml against its schema while you write, where the file starts with
/// `# yaml-language-server: $schema=policy.schema.json`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost schema policy > policy.schema.json
  skillhost schema outcome | jq .properties.status")]
pub(crate) struct Args {
    /// Of what
    #[arg(value_enum)]
    of: Of,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Of {
    /// policy.yaml
    Policy,
    /// What `run --json` prints
    Outcome,
    /// A line of the audit log
    Audit,
    /// What `check --json` prints
    Check,
    /// What `run --receipt` writes
    Receipt,
    /// What `run --learn --json` prints as `learned`
    Learned,
    /// `recording.json`, which `run --record` writes
    Recording,
    /// What `stats --json` prints
    Stats,
}

pub(crate) fn main(args: Args) -> Result<Exit, Failure> {
    match args.of {
        Of::Policy => show::json(&skillhost::policy::schema())?,
        Of::Outcome => show::json(&schemars::schema_for!(skillhost::outcome::Outcome))?,
        Of::Audit => show::json(&schemars::schema_for!(skillhost::audit::Line))?,
        Of::Receipt => show::json(&schemars::schema_for!(skillhost::receipt::Receipt))?,
        Of::Learned => show::json(&schemars::schema_for!(skillhost::learn::Learned))?,
        Of::Recording => show::json(&schemars::schema_for!(skillhost::recording::Recording))?,
        Of::Stats => show::json(&schemars::schema_for!(skillhost::usage::Stats))?,
        Of::Check => show::json(&schemars::schema_for!(super::check::Checked))?,
    }
    Ok(Exit::Ok)
}
