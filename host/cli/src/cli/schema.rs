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
    /// What `list --json` prints
    List,
    /// What `search --json` prints
    Search,
    /// What `show --json` prints
    Show,
    /// What `prompt --json` prints
    Prompt,
    /// What `pending --json` prints
    Pending,
    /// What `permissions --json` prints
    Permissions,
    /// What `stats --json` prints
    Stats,
}

pub(crate) fn main(args: Args) -> Result<Exit, Failure> {
    match args.of {
        Of::Policy => show::json(&skillhost_policy::schema())?,
        Of::Outcome => show::json(&schemars::schema_for!(skillhost_policy::outcome::Outcome))?,
        Of::Audit => show::json(&schemars::schema_for!(skillhost_ledger::audit::Line))?,
        Of::Receipt => show::json(&schemars::schema_for!(skillhost_ledger::receipt::Receipt))?,
        Of::Learned => show::json(&schemars::schema_for!(skillhost_compat::learn::Proposal))?,
        Of::Recording => {
            show::json(&schemars::schema_for!(skillhost_sandbox::recording::Recording))?
        }
        Of::List => show::json(&schemars::schema_for!(super::list::Listed<'_>))?,
        Of::Search => show::json(&schemars::schema_for!(super::search::Found<'_>))?,
        Of::Show => show::json(&schemars::schema_for!(super::skill::Shown<'_>))?,
        Of::Prompt => show::json(&schemars::schema_for!(skillhost_catalog::Prompt))?,
        Of::Pending => {
            show::json(&schemars::schema_for!(Vec<skillhost_ledger::approval::PendingRequest>))?
        }
        Of::Permissions => show::json(&schemars::schema_for!(super::levels::State))?,
        Of::Stats => show::json(&schemars::schema_for!(skillhost_ledger::usage::Stats))?,
        Of::Check => show::json(&schemars::schema_for!(super::check::Checked))?,
    }
    Ok(Exit::Ok)
}
