//! What `mcp` and `serve` have in common: the server, its log and its traces.

pub(crate) mod log;
pub(crate) mod traces;

use std::path::PathBuf;
use std::sync::Arc;

use skillhost::invoke::Runner;
use skillhost::service::{Capacity, Service};
use skillhost_catalog::{Catalog, Watch};
use skillhost_ledger::usage::UsageRecorder;
use skillhost_server::api::fleet::Fleet;
use skillhost_server::api::{Api, ApiError, ApiOptions, Bounds, ReadPolicy};
use skillhost_server::{Mcp, Options};
use skillhost_skill::private::{Purpose, TempFolder};
use skillhost_sources::store::StoreUse;

use crate::args::skills::{Skills, Tags};
use crate::args::{HostArgs, permissions};
use crate::commands::run::raise_descriptor_limit;
use crate::context::{Context, Places};
use crate::error::{CliError, Exit};
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

/// The sessions of agents, and the folder of their files, which is removed with this value.
pub(crate) struct AgentPlaces {
    api: Api,
    _state: TempFolder,
}

impl AgentPlaces {
    /// Ends the sessions. Their programs are interrupted.
    pub(crate) async fn close(&self) {
        self.api.close().await;
    }
}

/// A server, its queue and its skills.
pub(crate) struct Server {
    pub(crate) mcp: Mcp,
    pub(crate) service: Service,
    catalog: Catalog,
    /// Keeps the fetched skills that are served, even if they are removed from the lock file.
    _store: Option<StoreUse>,
    pub(crate) places: Places,
    /// Whether sessions can have tokens for the `sandboxd` protocol.
    pub(crate) sandboxd: bool,
    hidden: Vec<(PathBuf, String)>,
}

impl ServerArgs {
    /// Creates the server.
    pub(crate) fn server(&self, context: Context) -> Result<Server, CliError> {
        self.server_of(context, Capacity::default())
    }

    /// Creates the server, with this capacity.
    pub(crate) fn server_of(
        &self,
        context: Context,
        capacity: Capacity,
    ) -> Result<Server, CliError> {
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
        let hidden: Vec<(PathBuf, String)> = hidden
            .map(|(path, name)| (path.clone(), name.to_owned()))
            .into_iter()
            .chain(host.programs.iter().map(|folder| (folder.clone(), "the programs".to_owned())))
            .collect();
        let mut skills = self.skills.clone();
        skills.frozen = self.frozen;
        let store = sources::keep_store(places)?;
        let catalog = context.tagged_catalog(&skills, &self.tags)?;
        let service = Service::new(Runner::new(host), capacity);
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
            hidden: hidden.clone(),
            usage,
        });
        let (places, sandboxd) = (context.places, false);
        Ok(Server { mcp, service, catalog, _store: store, places, sandboxd, hidden })
    }
}

impl Server {
    /// Starts to offer tools for sessions to agents. These sessions are in a place of their own: neither
    /// clients of the run API nor another server has anything to do with them. Must be called within an
    /// event loop.
    pub(crate) fn agent_places(&self) -> Result<AgentPlaces, CliError> {
        let state = TempFolder::new_in(&self.places.scratch, Purpose::Session)
            .map_err(|error| CliError::io("create the folder of the sessions", error))?;
        let options =
            ApiOptions { agents: true, ..self.options(state.path().to_owned(), None, None) };
        let api = Api::new(&self.mcp, options)
            .map_err(|error| CliError::new(Exit::Io, error.to_string()))?;
        api.start();
        self.mcp.offer_sessions(&api);
        Ok(AgentPlaces { api, _state: state })
    }

    /// Opens the run API. `tenants`: the file of tenants; without it, the bearer of the server's token
    /// is the only one. `None` if another server uses the state of that tenant: MCP needs none.
    pub(crate) fn api(
        &self,
        tenants: Option<PathBuf>,
        token: Option<String>,
    ) -> Result<Option<Api>, CliError> {
        let is_needed = tenants.is_some() || self.sandboxd;
        self.open(self.places.tenants(), tenants, token, None, is_needed)
    }

    /// Opens the run API for runs of a fleet. `state`: the folder of its cache.
    pub(crate) fn fleet_api(
        &self,
        state: PathBuf,
        tenants: Option<PathBuf>,
        token: Option<String>,
        fleet: Arc<dyn Fleet>,
    ) -> Result<Api, CliError> {
        let api = self.open(state, tenants, token, Some(fleet), true)?;
        api.ok_or_else(|| CliError::new(Exit::Io, "the run API is off".to_owned()))
    }

    fn open(
        &self,
        state: PathBuf,
        tenants: Option<PathBuf>,
        token: Option<String>,
        fleet: Option<Arc<dyn Fleet>>,
        is_needed: bool,
    ) -> Result<Option<Api>, CliError> {
        let options = ApiOptions { fleet, ..self.options(state, tenants, token) };
        match Api::new(&self.mcp, options) {
            Ok(api) => Ok(Some(api)),
            Err(ApiError::Tenants(message)) => {
                Err(CliError::invalid(message).fix("skillhost schema tenants").code("tenants"))
            }
            Err(error) if is_needed => Err(CliError::new(Exit::Io, error.to_string())),
            Err(error) => {
                tracing::warn!(%error, "the run API is off");
                Ok(None)
            }
        }
    }

    fn options(
        &self,
        state: PathBuf,
        tenants: Option<PathBuf>,
        token: Option<String>,
    ) -> ApiOptions {
        let home = self.places.home.clone();
        let read: ReadPolicy = Arc::new(move |path| {
            permissions::tenant_policy(path, &home).map_err(|error| error.message)
        });
        ApiOptions {
            state,
            scratch: self.places.scratch.clone(),
            tenants: tenants.map(|file| (file, read)),
            token,
            hidden: self.hidden.clone(),
            bounds: Bounds::default(),
            fleet: None,
            sandboxd: self.sandboxd,
            agents: false,
        }
    }

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
