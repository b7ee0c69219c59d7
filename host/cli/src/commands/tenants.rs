//! `skillhost tenants`: the tokens and the data of the tenants of the run API.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;
use skillhost_policy::diagnostic::quoted;
use skillhost_server::api::delete_tenant;
use skillhost_server::api::tenants::{MAX_BYTES, TenantsFile, new_token};

use crate::args::permissions;
use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::output;

/// Create tokens for tenants of the run API, check their file, and delete their data
///
/// The file of `skillhost serve --tenants` says who may use the run API (`skillhost schema tenants`).
/// It has digests of tokens, never tokens.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost tenants token team-a
  skillhost tenants token team-a --json > token.json
  skillhost tenants check tenants.yaml
  skillhost tenants delete team-a")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a token, and print it once, with the lines for the tenants file
    Token {
        /// The tenant
        tenant: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check a tenants file, and the policies that it names
    Check {
        /// The file
        file: PathBuf,
    },
    /// Delete everything of a tenant: runs, results, files, skills, their state and the audit log
    ///
    /// Remove the tenant from the tenants file first, or stop the server: it keeps the data of its
    /// tenants locked.
    Delete {
        /// The tenant
        tenant: String,
        /// The tenants file, if it gives the tenant a folder of its own
        #[arg(long, value_name = "FILE")]
        tenants: Option<PathBuf>,
    },
}

/// Output of `token --json`.
#[derive(Serialize)]
struct NewToken<'a> {
    tenant: &'a str,
    token: &'a str,
    sha256: &'a str,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    match &args.action {
        Action::Token { tenant, json } => token(tenant, *json)?,
        Action::Check { file } => check(file)?,
        Action::Delete { tenant, tenants } => delete(tenant, tenants.as_deref())?,
    }
    Ok(Exit::Ok)
}

fn token(tenant: &str, json: bool) -> Result<(), CliError> {
    is_name(tenant)?;
    let (token, sha256) = new_token();
    if json {
        return output::json(&NewToken { tenant, token: &token, sha256: &sha256 });
    }
    output::text(&format!(
        "token: {token}\n\nadd this to the tenants file:\ntenants:\n  {tenant}:\n    tokens:\n      - sha256: {sha256}\n        scopes: [run, read, upload]"
    ))?;
    output::note("the token is not stored anywhere: give it to the tenant now");
    Ok(())
}

fn check(file: &Path) -> Result<(), CliError> {
    let (places, found) = (Places::find()?, read(file)?);
    for policy in found.tenants.values().filter_map(|tenant| tenant.policy.as_ref()) {
        permissions::tenant_policy(policy, &places.home)?;
    }
    output::text(&format!(
        "{}: {}",
        quoted(&file.to_string_lossy()),
        output::count(found.tenants.len() as u64, "tenant")
    ))
}

fn delete(tenant: &str, file: Option<&Path>) -> Result<(), CliError> {
    is_name(tenant)?;
    let own = match file {
        Some(file) => read(file)?.tenants.remove(tenant).and_then(|entry| entry.state),
        None => None,
    };
    let folder = match own {
        Some(folder) => folder,
        None => Places::find()?.tenants().join(tenant),
    };
    let deleted = delete_tenant(&folder).map_err(|error| {
        CliError::io(format_args!("delete the data of {tenant}"), error)
            .fix("remove the tenant from the tenants file, or stop the server")
    })?;
    if !deleted {
        return Err(CliError::usage(format!("no data of a tenant `{tenant}`")));
    }
    output::text(&format!("deleted the data of {tenant}"))
}

/// Refuses what cannot be the name of a folder of a tenant.
pub(super) fn is_name(tenant: &str) -> Result<(), CliError> {
    let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !tenant.is_empty() && tenant.len() < 64 && tenant.bytes().all(valid) {
        return Ok(());
    }
    Err(CliError::usage(format!("{} is not the name of a tenant", quoted(tenant)))
        .fix("use at most 63 lower-case letters, digits and hyphens"))
}

fn read(file: &Path) -> Result<TenantsFile, CliError> {
    let failed = |error| {
        CliError::usage(format!("cannot read {}: {error}", quoted(&file.to_string_lossy())))
    };
    #[expect(clippy::disallowed_methods, reason = "the file is named by the operator")]
    let opened: std::io::Result<_> = std::fs::File::open(file);
    let mut text = String::new();
    opened.and_then(|opened| opened.take(MAX_BYTES).read_to_string(&mut text)).map_err(failed)?;
    TenantsFile::parse(file, &text).map_err(|message| {
        CliError::invalid(message).fix("skillhost schema tenants").code("tenants")
    })
}
