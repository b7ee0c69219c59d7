//! `skillhost fleet`: create the identities of a fleet, and look after its runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use skillhost_fleet::broker::{Broker, Brokers};
use skillhost_fleet::identity::Identity;
use skillhost_fleet::init::Plan;
use skillhost_fleet::{FleetError, audit, dead};
use skillhost_ledger::audit::ChainHead;
use skillhost_policy::diagnostic::quoted;

use super::tenants::is_name;
use crate::error::{CliError, Exit};
use crate::{event_loop, output};

/// Create the identities of a fleet, and look after its runs
///
/// A fleet is API servers (`skillhost serve --nats`) and workers (`skillhost worker`) around brokers of
/// NATS JetStream.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost fleet init fleet --worker one --worker two
  skillhost fleet init fleet --tenant team-a --tenant team-b --worker one --worker two=team-a
  nats-server -c fleet/broker/nats-server-1.conf
  skillhost fleet dead list --nats tls://127.0.0.1:4222 --nats-identity fleet/api
  skillhost fleet dead requeue RUN --nats tls://127.0.0.1:4222 --nats-identity fleet/api
  skillhost fleet audit --nats tls://127.0.0.1:4222 --nats-identity fleet/api > audit.jsonl
  skillhost fleet delete team-a --nats tls://127.0.0.1:4222 --nats-identity fleet/api")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create the keys of API servers and workers, and the configuration of the brokers
    ///
    /// FOLDER/broker is for the brokers, FOLDER/api for API servers, and FOLDER/NAME for the worker of
    /// that name. Every file is readable by its owner only. Called again, it keeps all keys, adds what is
    /// new, and writes the permissions anew: restart the brokers, or let them reload.
    Init {
        /// The folder of the fleet
        folder: PathBuf,
        /// A tenant (repeatable) [default: default]
        #[arg(long, value_name = "NAME")]
        tenant: Vec<String>,
        /// A worker, and the tenants that it serves if not all, as NAME or NAME=TENANT,TENANT (repeatable)
        #[arg(long, value_name = "NAME", required = true)]
        worker: Vec<String>,
        /// A name or address under which the brokers are reached (repeatable) [default: this machine]
        #[arg(long, value_name = "HOST")]
        host: Vec<String>,
        /// The port of the first broker
        #[arg(long, value_name = "PORT", default_value_t = 4222, value_parser = clap::value_parser!(u16).range(1..=60_000))]
        port: u16,
        /// The number of brokers on this machine
        #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=9))]
        brokers: u16,
    },
    /// List the runs that no worker could end, or queue them again
    Dead {
        #[command(subcommand)]
        action: Dead,
    },
    /// Verify the signed ends of all runs of a tenant, and print each as a line of JSON
    ///
    /// The last line, on standard error, ends with the head of the records. Store it elsewhere, for a later
    /// `--head`.
    Audit {
        /// The tenant
        #[arg(long, value_name = "NAME", default_value = "default")]
        tenant: String,
        /// Require that the records continue those of this head, which an earlier `fleet audit` printed.
        /// Only this detects that the newest records were removed, or all were replaced
        #[arg(long, value_name = "NUMBER:DIGEST", value_parser = super::audit::head)]
        head: Option<ChainHead>,
        #[command(flatten)]
        nats: NatsArgs,
    },
    /// Delete everything of a tenant: its queues, runs, files and skills
    Delete {
        /// The tenant
        tenant: String,
        #[command(flatten)]
        nats: NatsArgs,
    },
}

#[derive(Debug, Subcommand)]
enum Dead {
    /// List the runs of a tenant that no worker could end
    List {
        /// The tenant
        #[arg(long, value_name = "NAME", default_value = "default")]
        tenant: String,
        /// Print one JSON object for each run
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        nats: NatsArgs,
    },
    /// Queue a run again, with all its attempts
    Requeue {
        /// The id of the run
        run: String,
        /// The tenant
        #[arg(long, value_name = "NAME", default_value = "default")]
        tenant: String,
        #[command(flatten)]
        nats: NatsArgs,
    },
}

/// How to reach the brokers.
#[derive(Debug, clap::Args)]
struct NatsArgs {
    /// Connect to these brokers, tls://HOST:PORT, with commas between several
    #[arg(long, value_name = "URL")]
    nats: String,
    /// The identity of an API server: a folder that `skillhost fleet init` has created
    #[arg(long, value_name = "FOLDER")]
    nats_identity: PathBuf,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    match &args.action {
        Action::Init { folder, tenant, worker, host, port, brokers } => {
            init(folder, tenant, worker, host, *port, *brokers)?;
        }
        Action::Dead { action: Dead::List { tenant, json, nats } } => list(tenant, *json, nats)?,
        Action::Dead { action: Dead::Requeue { run, tenant, nats } } => {
            is_name(tenant)?;
            let queued =
                nats.with(tenant, async |broker| dead::requeue(broker, tenant, run).await)?;
            if !queued {
                let message = format!("{} is not a run that was given up", quoted(run));
                return Err(CliError::usage(message).fix("skillhost fleet dead list"));
            }
            output::text(&format!("queued {run} again"))?;
        }
        Action::Audit { tenant, head, nats } => {
            is_name(tenant)?;
            let verified = event_loop::one_thread()?.block_on(async {
                let brokers = connect(&nats.nats, &nats.nats_identity).await?;
                let broker = brokers.of(tenant).await.map_err(no_broker)?;
                audit::verify(&broker, tenant, head.as_ref(), output::text).await
            })?;
            let ChainHead { sequence, digest } = &verified;
            let records = output::count(*sequence, "record");
            output::note(&format!("OK: {records}; head {sequence}:{digest}"));
        }
        Action::Delete { tenant, nats } => {
            is_name(tenant)?;
            if !nats.with(tenant, async |broker| dead::delete_tenant(broker, tenant).await)? {
                return Err(CliError::usage(format!("the fleet has no tenant `{tenant}`")));
            }
            output::text(&format!("deleted everything of {tenant}"))?;
        }
    }
    Ok(Exit::Ok)
}

fn init(
    folder: &Path,
    tenants: &[String],
    workers: &[String],
    hosts: &[String],
    port: u16,
    brokers: u16,
) -> Result<(), CliError> {
    let tenants: BTreeSet<String> = match tenants.is_empty() {
        true => BTreeSet::from(["default".to_owned()]),
        false => tenants.iter().cloned().collect(),
    };
    tenants.iter().try_for_each(|tenant| is_name(tenant))?;
    let mut served = BTreeMap::new();
    for worker in workers {
        let (name, only) = worker.split_once('=').unwrap_or((worker, ""));
        let only: BTreeSet<String> =
            only.split(',').filter(|tenant| !tenant.is_empty()).map(str::to_owned).collect();
        if let Some(other) = only.iter().find(|tenant| !tenants.contains(*tenant)) {
            let message = format!("the worker {name} serves {other}, which is not a tenant");
            return Err(CliError::usage(message).fix(format!("add --tenant {other}")));
        }
        is_name(name)?;
        if [Plan::API, Plan::BROKER].contains(&name) {
            return Err(CliError::usage(format!("a worker cannot be named {name}")));
        }
        served.insert(name.to_owned(), only);
    }
    let local = ["localhost", "127.0.0.1"].map(str::to_owned).to_vec();
    let plan = Plan {
        // Brokers are started in other folders.
        folder: std::path::absolute(folder)
            .map_err(|error| CliError::io("find the folder", error))?,
        tenants,
        workers: served,
        hosts: if hosts.is_empty() { local } else { hosts.to_vec() },
        port,
        brokers,
    };
    let written = plan.write().map_err(|error| CliError::new(Exit::Io, error.to_string()))?;
    for file in written {
        output::text(&format!("nats-server -c {}", quoted(&file.to_string_lossy())))?;
    }
    output::note("start each broker with this command; FOLDER/api is the identity of API servers");
    Ok(())
}

fn list(tenant: &str, json: bool, nats: &NatsArgs) -> Result<(), CliError> {
    is_name(tenant)?;
    for letter in nats.with(tenant, async |broker| dead::list(broker, tenant).await)? {
        if json {
            output::json(&letter)?;
        } else {
            let attempts = output::count(u64::from(letter.attempts), "attempt");
            let (run, skill) = (&letter.run, quoted(&letter.skill));
            output::text(&format!("{run} {skill}: {attempts}, last by {}", letter.worker))?;
        }
    }
    Ok(())
}

impl NatsArgs {
    /// Does something over the connection for a tenant.
    fn with<T>(
        &self,
        tenant: &str,
        work: impl AsyncFnOnce(&Broker) -> Result<T, FleetError>,
    ) -> Result<T, CliError> {
        event_loop::one_thread()?.block_on(async {
            let brokers = connect(&self.nats, &self.nats_identity).await?;
            let broker = brokers.of(tenant).await.map_err(no_broker)?;
            work(&broker).await.map_err(no_broker)
        })
    }
}

/// Connects to the brokers.
pub(super) async fn connect(urls: &str, identity: &Path) -> Result<Brokers, CliError> {
    let identity = Identity::read(identity).map_err(|error| {
        CliError::usage(format!("the identity cannot be used: {error}"))
            .fix("skillhost fleet init FOLDER --worker NAME")
    })?;
    Brokers::connect(urls, identity).await.map_err(no_broker)
}

pub(super) fn no_broker(error: FleetError) -> CliError {
    error.into()
}

impl From<FleetError> for CliError {
    fn from(error: FleetError) -> CliError {
        match error {
            FleetError::Untrusted(_) => CliError::invalid(error.to_string()),
            error => CliError::new(Exit::Io, error.to_string()),
        }
    }
}
