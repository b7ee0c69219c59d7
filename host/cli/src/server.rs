//! What `mcp` and `serve` have in common: the server, its log and its traces.

pub(crate) mod log;
pub(crate) mod traces;

use skillhost::invoke::Runner;
use skillhost::service::{Capacity, Service};
use skillhost_catalog::{Catalog, Watch};
use skillhost_ledger::usage::UsageRecorder;
use skillhost_server::{Mcp, Options};
use skillhost_sources::store::StoreUse;

use crate::args::HostArgs;
use crate::args::skills::{Skills, Tags};
use crate::commands::run::raise_descriptor_limit;
use crate::context::Context;
use crate::error::CliError;
use crate::{sources, temp_files};
use log::Log;

/// What is served, and how it is logged.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    skills: Skills,
    /// Serve only skills that skills.lock locks, with exactly the locked content
    #[arg(long)]
    frozen: bool,
    #[command(flatten)]
    tags: Tags,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    pub(crate) log: Log,
}

/// A server, its queue and its skills.
pub(crate) struct Server {
    pub(crate) mcp: Mcp,
    pub(crate) service: Service,
    catalog: Catalog,
    /// Keeps the fetched skills that are served, even if they are removed from the lock file.
    _store: Option<StoreUse>,
}

impl ServerArgs {
    /// Creates the server.
    pub(crate) fn server(&self, context: Context) -> Result<Server, CliError> {
        raise_descriptor_limit();
        let places = &context.places;
        temp_files::sweep_in_background(places.scratch.clone());
        let mut host = places.host_options(&self.host)?;
        // Sessions have a workspace whatever the policy says.
        host.guarded.read_only = context.skill_folders(&self.skills);
        let hidden = [
            (&host.sandbox.cache, "the cache"),
            (&host.audit, "the audit log"),
            (&host.scratch, "/tmp"),
            (&places.config, "the configuration"),
            (&places.state, "the state"),
            (&places.cache, "the cache"),
            (&places.home, "~"),
        ];
        let hidden = hidden
            .map(|(path, name)| (path.clone(), name.to_owned()))
            .into_iter()
            .chain(host.programs.iter().map(|folder| (folder.clone(), "the programs".to_owned())))
            .collect();
        let mut skills = self.skills.clone();
        skills.frozen = self.frozen;
        let store = sources::keep_store(places)?;
        let catalog = context.tagged_catalog(&skills, &self.tags)?;
        let service = Service::new(Runner::new(host), Capacity::default());
        let usage = if context.policy.usage {
            UsageRecorder::new(places.usage())
        } else {
            UsageRecorder::disabled()
        };
        let mcp = Mcp::new(Options {
            catalog: catalog.clone(),
            service: service.clone(),
            approvals: places.approvals(),
            scratch: places.scratch.clone(),
            policy: context.policy,
            hidden,
            usage,
        });
        Ok(Server { mcp, service, catalog, _store: store })
    }
}

impl Server {
    /// Notifies clients of changed skills, as long as the result is held. Must be called within an
    /// event loop.
    pub(crate) fn watch(&self) -> Option<Watch> {
        let (mcp, event_loop) = (self.mcp.clone(), tokio::runtime::Handle::current());
        let watch = self.catalog.watch(move |changes| {
            let mcp = mcp.clone();
            event_loop.spawn(async move { mcp.changed(&changes).await });
        });
        watch.inspect_err(|error| tracing::warn!(%error, "cannot watch for changed skills")).ok()
    }
}
