//! `skillhost mcp`: skills for one agent, on stdin and stdout.

use std::time::Duration;

use skillhost::invoke::Runner;
use skillhost::service::{Capacity, Service};
use skillhost_catalog::{Catalog, Watch};
use skillhost_ledger::usage::UsageRecorder;
use skillhost_policy::Policy;
use skillhost_server::{Mcp, Options};

use super::exit::Exit;
use super::log::{self, Log};
use super::permissions::Permissions;
use super::places::{HostArgs, Places};
use super::run::{interrupt, raise_descriptor_limit};
use super::skills::Skills;
use super::traces::Traces;
use super::{Failure, idle, stale};

/// Serves skills to an agent over the Model Context Protocol
///
/// The agent's client starts this and talks to it on stdin and stdout. It finds skills by
/// `discover_skills`, loads one by `activate_skill`, and runs its programs by `run_skill` and its
/// typed tools, under the policy and into the audit log as `run` does. Without --workspace a
/// session works in a folder of its own, gone with it. Where OTEL_EXPORTER_OTLP_ENDPOINT names a
/// collector of OpenTelemetry, calls are sent there as spans.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost mcp
  skillhost mcp --skills ./skills --workspace .:overlay
  skillhost mcp --policy policy.yaml --log info 2> mcp.log

As an entry of `mcpServers`:
  { \"skillhost\": { \"command\": \"skillhost\", \"args\": [\"mcp\"] } }")]
pub(crate) struct Args {
    #[command(flatten)]
    served: Served,
    #[command(flatten)]
    permissions: Permissions,
}

/// What is served: the same on a pipe and over HTTP.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Served {
    #[command(flatten)]
    skills: Skills,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    pub(super) log: Log,
}

/// How long what runs may take to end when the client is gone.
const ENDING: Duration = Duration::from_secs(5);

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    let policy = args.permissions.policy(&places)?;
    let traces = args.served.log.start(log::secrets(&policy))?;
    tracing::info!(
        "the client runs as this user, and can change the policy and the approvals: docs/guide/approvals.md#who-the-operator-is"
    );
    let server = args.served.server(&places, policy)?;
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let interrupt = interrupt().map_err(|error| Failure::new(Exit::Io, format!("no signal handlers: {error}")))?;
        let _watch = server.watch();
        let (input, output) = rmcp::transport::io::stdio_pipes();
        idle::let_go();
        let served = tokio::select! {
            served = server.mcp.serve(input, output) => match served {
                Ok(()) => Ok(Exit::Ok),
                Err(error) => Err(Failure::new(Exit::Usage, format!("the client does not speak the protocol: {error}"))),
            },
            () = interrupt => Ok(Exit::Interrupted),
        };
        // What still runs belongs to a client that is gone: it ends, and is recorded.
        if tokio::time::timeout(ENDING, server.service.close()).await.is_err() {
            tracing::warn!("what still runs is interrupted");
        }
        served
    });
    // A thread may wait in a read of stdin.
    runtime.shutdown_timeout(ENDING);
    server.mcp.close();
    server.service.runner().settle();
    traces.into_iter().for_each(Traces::end);
    served
}

/// A server, and what it stands on.
pub(super) struct Server {
    pub(super) mcp: Mcp,
    pub(super) service: Service,
    catalog: Catalog,
}

impl Served {
    /// A server of these skills, under a policy.
    pub(super) fn server(&self, places: &Places, policy: Policy) -> Result<Server, Failure> {
        raise_descriptor_limit();
        stale::sweep_in_background(places.scratch.clone());
        let mut host = places.host_options(&self.host)?;
        host.guarded.read_only = self.skills.folders(places, &policy);
        let hidden = [
            (&host.sandbox.cache, "the cache"),
            (&host.audit, "the audit log"),
            (&host.scratch, "/tmp"),
            (&places.config, "the configuration"),
            (&places.state, "the state"),
            (&places.cache, "the cache"),
            (&places.home, "~"),
        ];
        let hidden = hidden.map(|(path, word)| (path.clone(), word.to_owned())).into_iter();
        let hidden = hidden
            .chain(host.programs.iter().map(|folder| (folder.clone(), "the programs".to_owned())))
            .collect();
        let catalog = self.skills.open(places, &policy)?;
        let service = Service::new(Runner::new(host), Capacity::default());
        let (scratch, catalogue) = (places.scratch.clone(), catalog.clone());
        let approvals = places.approvals();
        let usage = if policy.usage {
            UsageRecorder::new(places.usage())
        } else {
            UsageRecorder::disabled()
        };
        let mcp = Mcp::new(Options {
            catalog: catalogue,
            service: service.clone(),
            policy,
            approvals,
            scratch,
            hidden,
            usage,
        });
        Ok(Server { mcp, service, catalog })
    }
}

impl Server {
    /// Tells clients of changed skills, as long as the result is held. Within a runtime.
    pub(super) fn watch(&self) -> Option<Watch> {
        let (mcp, runtime) = (self.mcp.clone(), tokio::runtime::Handle::current());
        let watch = self.catalog.watch(move |changes| {
            let mcp = mcp.clone();
            runtime.spawn(async move { mcp.changed(&changes).await });
        });
        watch.inspect_err(|error| tracing::warn!(%error, "changed skills are not noticed")).ok()
    }
}

/// Threads for several clients, and for guests that compute.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(Exit::Io, format!("no event loop: {error}")))
}
