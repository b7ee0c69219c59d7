//! `skillhost schema`: print the JSON schema of a file or an output.

use clap::ValueEnum;

use crate::error::{CliError, Exit};
use crate::output;

/// Print the JSON schema of a file or an output
///
/// With `# yaml-language-server: $schema=policy.schema.json` in its first line, editors check
/// policy.yaml while you write it. The path is relative to the file, or absolute. The same works for
/// case.yaml.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost schema policy > policy.schema.json
  skillhost schema frontmatter > frontmatter.schema.json
  skillhost schema outcome | jq .properties.status")]
pub(crate) struct Args {
    /// Which schema
    #[arg(value_enum)]
    kind: Kind,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// policy.yaml
    Policy,
    /// The frontmatter of SKILL.md
    Frontmatter,
    /// case.yaml, a test case of a skill
    Case,
    /// skills.yaml
    Sources,
    /// The file of `serve --tenants`
    Tenants,
    /// The run API, as OpenAPI 3.1
    RunApi,
    /// Output of `run --json`
    Outcome,
    /// A line of the audit log
    Audit,
    /// Output of `check --json`
    Check,
    /// Output of `run --receipt`
    Receipt,
    /// Output of `run --learn --json`: the key `learned`
    Learned,
    /// `recording.json`, which `run --record` writes
    Recording,
    /// Output of `list --json`
    List,
    /// Output of `search --json`
    Search,
    /// Output of `show --json`
    Show,
    /// Output of `prompt --json`
    Prompt,
    /// Output of `pending --json`
    Pending,
    /// Output of `permissions --json`
    Permissions,
    /// Output of `stats --json`
    Stats,
}

pub(crate) fn main(args: Args) -> Result<Exit, CliError> {
    match args.kind {
        Kind::Policy => output::json(&skillhost_policy::schema())?,
        Kind::Frontmatter => output::json(&skillhost_policy::manifest::schema())?,
        Kind::Case => output::json(&skillhost_policy::case::schema())?,
        Kind::Sources => output::json(&skillhost_sources::wanted::schema())?,
        Kind::Tenants => output::json(&skillhost_server::api::tenants::schema())?,
        Kind::RunApi => output::json(&skillhost_server::api::openapi::document())?,
        Kind::Outcome => output::json(&schemars::schema_for!(skillhost_policy::outcome::Outcome))?,
        Kind::Audit => output::json(&schemars::schema_for!(skillhost_ledger::audit::Line))?,
        Kind::Receipt => output::json(&schemars::schema_for!(skillhost_ledger::receipt::Receipt))?,
        Kind::Learned => output::json(&schemars::schema_for!(skillhost_compat::learn::Proposal))?,
        Kind::Recording => {
            output::json(&schemars::schema_for!(skillhost_sandbox::recording::Recording))?
        }
        Kind::List => output::json(&schemars::schema_for!(crate::commands::list::ListReport<'_>))?,
        Kind::Search => {
            output::json(&schemars::schema_for!(crate::commands::search::SearchReport<'_>))?
        }
        Kind::Show => output::json(&schemars::schema_for!(crate::commands::show::ShowReport<'_>))?,
        Kind::Prompt => output::json(&schemars::schema_for!(skillhost_catalog::Prompt))?,
        Kind::Pending => {
            output::json(&schemars::schema_for!(Vec<skillhost_ledger::approval::PendingRequest>))?
        }
        Kind::Permissions => {
            output::json(&schemars::schema_for!(crate::commands::permissions::PermissionsReport))?
        }
        Kind::Stats => output::json(&schemars::schema_for!(skillhost_ledger::usage::Stats))?,
        Kind::Check => output::json(&schemars::schema_for!(crate::commands::check::CheckReport))?,
    }
    Ok(Exit::Ok)
}
