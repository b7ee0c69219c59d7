//! The run API, `/v1`: services submit runs, follow them, and get their results.
//!
//! Start reading at `routes`, which checks a request and calls the function of its path. `submit`
//! accepts a run and drives it to its end, in the turn that the `scheduler` gives its tenant, by the
//! `executor` on the `threads` of runs, unless the result of an earlier run answers it (`cached`).
//! `uploads` takes files and skills, `logs` streams output, and `sessions` are places that
//! last for a task. `types` is what clients send and get, and `problem` what is wrong. `tenants` is the
//! file that says who may use the API, `tenant` one of them at work, `quotas` what it may use, and
//! `state` its data on disk. [`openapi`] describes all of it.
//!
//! A request reaches the state of the tenant of its token and nothing else: there is no query or path
//! that two tenants share. They share the compiled code of the operator's skills, not that of uploads.

mod body;
mod cached;
mod executor;
pub mod fleet;
mod identities;
mod jwt;
mod key_sets;
mod logs;
pub mod openapi;
pub mod problem;
mod quotas;
mod routes;
mod scheduler;
pub mod sessions;
mod state;
mod submit;
mod tenant;
pub mod tenants;
mod threads;
pub mod types;
mod uploads;
pub mod worker;
mod workspace;

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use tokio_util::sync::CancellationToken;

use super::{Mcp, Shared};
use crate::hidden::HostPaths;
use fleet::sessions::SessionPlace;
use fleet::{Fleet, FleetError, FleetTenant};
use identities::{Identities, KeysAt};
use key_sets::KeySet;
use problem::Problem;
use scheduler::Scheduler;
use sessions::types::SessionStatus;
use sessions::{Sessions, Workers};
use skillhost_ledger::runs::Swept;
use skillhost_policy::Policy;
use skillhost_skill::private::{self, Purpose, TempFolder};
use state::{TenantState, now};
use tenant::{Streams, Tenant, TenantSettings};
use tenants::{AGENTS, Bearer, DEFAULT, Quotas, Retention, TenantEntry, TenantsFile, Tokens};
use threads::RunThreads;

/// How often the tenants file is looked at.
const RELOAD: Duration = Duration::from_secs(1);
/// How often what was written is copied from the logs of the tenants' databases.
const COPY_LOGS: Duration = Duration::from_millis(250);
/// How often a server of a fleet looks for sessions whose workers are silent.
const LOSE: Duration = Duration::from_secs(2);
/// The interval between removals of expired data. Between two removals, a busy server must not accumulate
/// more than it can remove while it serves requests.
const SWEEP: Duration = Duration::from_secs(60);

/// How long a file that was used stays in the cache of a server or worker of a fleet, even if the cache is
/// larger than the tenant's quota: a run reads its files within seconds, and a worker tries for ten minutes to
/// upload those that it wrote.
const IN_USE: Duration = Duration::from_secs(1_200);

/// Reads a policy file. The error says what is wrong with it.
pub type ReadPolicy = Arc<dyn Fn(&Path) -> Result<Policy, String> + Send + Sync>;

/// The settings of the run API.
pub struct ApiOptions {
    /// The folder of the tenants' state.
    pub state: PathBuf,
    /// Where the folders of runs are created.
    pub scratch: PathBuf,
    /// The tenants file, and what reads the policies that it names. Without it there is one tenant,
    /// `default`, whose token is that of the server.
    pub tenants: Option<(PathBuf, ReadPolicy)>,
    /// The token of the server.
    pub token: Option<String>,
    /// Folders of this host that no answer may name, and their replacements.
    pub hidden: Vec<(PathBuf, String)>,
    /// The bounds of requests.
    pub bounds: Bounds,
    /// The queue from which workers take the runs; without it, they run in this process.
    pub fleet: Option<Arc<dyn Fleet>>,
    /// Whether sessions can have tokens for the `sandboxd` protocol, which the server then serves.
    pub sandboxd: bool,
    /// Whether the API has no clients but the agents of the server, which have sessions.
    pub agents: bool,
}

/// The bounds of requests.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of a JSON body.
    pub body: usize,
    /// Bytes of a blob, and of an archive of a skill.
    pub blob: u64,
    /// Bytes of the files of a run in total. A blob counts as often as it is named.
    pub workspace: u64,
    /// Files of a run or a skill.
    pub files: usize,
    /// Arguments of a run.
    pub args: usize,
    /// How long a body may take to arrive, and a blob between two of its parts.
    pub body_within: Duration,
    /// How long a blob may take to arrive.
    pub upload: Duration,
    /// How long a stream of logs stays open. Clients continue it.
    pub stream: Duration,
    /// How long a request may wait for the end of a run.
    pub wait: Duration,
}

impl Default for Bounds {
    /// 8 MiB for JSON, 64 MiB for a blob, 1 GiB for the files of a run; 5,000 files and 1,000
    /// arguments; 30 s for a body, 10 minutes for a blob and for a stream, a minute for a wait.
    fn default() -> Bounds {
        Bounds {
            body: 8 << 20,
            blob: 64 << 20,
            workspace: 1 << 30,
            files: 5_000,
            args: 1_000,
            body_within: Duration::from_secs(30),
            upload: Duration::from_secs(600),
            stream: Duration::from_secs(600),
            wait: Duration::from_secs(60),
        }
    }
}

/// The run API. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Api(Arc<ApiShared>);

/// The run API, as long as someone else has it.
pub(crate) struct WeakApi(Weak<ApiShared>);

impl WeakApi {
    pub(crate) fn upgrade(&self) -> Option<Api> {
        self.0.upgrade().map(Api)
    }
}

struct ApiShared {
    mcp: Arc<Shared>,
    options: ApiOptions,
    tenants: RwLock<Table>,
    /// The tenants file and the policies that it names, as they were last read.
    read: Mutex<Vec<(PathBuf, Option<Stamp>)>>,
    /// Why they could not be used when they were last read, which is logged once.
    failure: Mutex<Option<String>>,
    /// Why the state of new tenants could not be opened the last time.
    left_out: Mutex<Vec<String>>,
    scheduler: Scheduler,
    threads: RunThreads,
    /// The streams of all tenants.
    streams: Arc<Streams>,
    /// The metrics of the fleet, as they were last looked at.
    fleet_metrics: Mutex<String>,
    /// The folder that the policies of sessions name as their workspace: their files take its place.
    no_workspace: Mutex<Option<Arc<TempFolder>>>,
    /// Where sessions of a fleet are that this process has, if it takes any.
    place: OnceLock<SessionPlace>,
    /// The connections to the workers that have sessions.
    workers: Arc<Workers>,
    /// Cancelled when the server stops.
    closing: CancellationToken,
    started: Instant,
}

/// The tenants, and their tokens.
#[derive(Default)]
struct Table {
    tenants: BTreeMap<String, Arc<Tenant>>,
    tokens: Tokens,
}

/// What came of reading the tenants.
#[derive(Default)]
struct Loaded {
    /// The tenants that are new.
    added: Vec<Arc<Tenant>>,
    /// Why others that are new have no state. They are not among the tenants.
    left_out: Vec<ApiError>,
}

/// Identifies the content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    size: u64,
    inode: u64,
}

/// Why the run API cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The tenants file, or a policy that it names, is invalid.
    #[error("{0}")]
    Tenants(String),
    /// The state of a tenant cannot be used.
    #[error("cannot use the state of the tenant `{tenant}`: {error}")]
    State {
        /// The tenant.
        tenant: String,
        /// The cause.
        error: io::Error,
    },
}

impl Api {
    /// Opens the tenants' state. Nothing runs before [`Api::start`].
    ///
    /// # Errors
    /// The tenants file is invalid, or the state of a tenant cannot be used.
    pub fn new(mcp: &Mcp, options: ApiOptions) -> Result<Api, ApiError> {
        let slots = mcp.0.service.capacity().running;
        let api = Api(Arc::new(ApiShared {
            mcp: mcp.0.clone(),
            options,
            tenants: RwLock::default(),
            read: Mutex::default(),
            failure: Mutex::default(),
            left_out: Mutex::default(),
            scheduler: Scheduler::new(slots, threads::cores()),
            threads: RunThreads::default(),
            streams: Arc::default(),
            fleet_metrics: Mutex::default(),
            no_workspace: Mutex::default(),
            place: OnceLock::new(),
            workers: Arc::default(),
            closing: CancellationToken::new(),
            started: Instant::now(),
        }));
        let loaded = api.0.load()?;
        api.0.compare_quotas();
        match loaded.left_out.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(api),
        }
    }

    /// Keeps the streams of all tenants together from taking all of this many connections.
    pub(crate) fn share_connections(&self, connections: usize) {
        self.0.streams.leave_room(connections);
    }

    /// Continues the runs in the queue of a previous server, and starts to watch the tenants file.
    /// Must be called within an event loop.
    pub fn start(&self) {
        let shared = self.0.clone();
        if shared.options.fleet.is_none() {
            shared.tenants().into_iter().for_each(|tenant| shared.resume(&tenant));
        }
        let keys = shared.clone();
        // A slow server with keys must not delay a change of the tenants file.
        tokio::spawn(async move {
            loop {
                futures::future::join_all(keys.key_sets().iter().map(|set| set.refresh())).await;
                tokio::select! {
                    () = keys.closing.cancelled() => return,
                    () = tokio::time::sleep(RELOAD) => {}
                }
            }
        });
        // Apart, since it waits for the disk: a change of the tenants file must not.
        let copying = shared.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = copying.closing.cancelled() => return,
                    () = tokio::time::sleep(COPY_LOGS) => {}
                }
                let copying = copying.clone();
                // It fails only by a panic, which is reported.
                tokio::task::spawn_blocking(move || copying.copy_logs()).await.ok();
            }
        });
        // A task of its own, because it pauses often so that requests can use the databases.
        let sweeping = shared.clone();
        tokio::spawn(async move {
            loop {
                let sweeper = sweeping.clone();
                // It fails only by a panic, which is reported.
                tokio::task::spawn_blocking(move || sweeper.sweep()).await.ok();
                tokio::select! {
                    () = sweeping.closing.cancelled() => return,
                    () = tokio::time::sleep(SWEEP) => {}
                }
            }
        });
        // Apart, since the end of a session may have to wait for requests of its tenant.
        let sessions = shared.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = sessions.closing.cancelled() => return,
                    () = tokio::time::sleep(RELOAD) => sessions.expire_sessions().await,
                }
            }
        });
        let fleet = shared.clone();
        // Apart, since a worker that is gone is waited for.
        tokio::spawn(async move {
            while fleet.options.fleet.is_some() {
                tokio::select! {
                    () = fleet.closing.cancelled() => return,
                    () = tokio::time::sleep(LOSE) => fleet.lose_sessions().await,
                }
            }
        });
        tokio::spawn(async move {
            let closing = shared.closing.clone();
            let mut opened = shared.fleet_tenants();
            loop {
                tokio::select! {
                    () = closing.cancelled() => return,
                    () = tokio::time::sleep(RELOAD) => {}
                }
                let reloading = shared.clone();
                tokio::task::spawn_blocking(move || reloading.reload()).await.ok();
                let tenants = shared.fleet_tenants();
                if tenants != opened {
                    match shared.open_fleet().await {
                        Ok(()) => opened = tenants,
                        // Tried again with the next look.
                        Err(error) => {
                            tracing::error!(%error, "cannot change the queues of the tenants");
                        }
                    }
                }
                shared.look_at_fleet().await;
            }
        });
    }

    pub(crate) fn downgrade(&self) -> WeakApi {
        WeakApi(Arc::downgrade(&self.0))
    }

    /// Creates what the tenants need in the fleet.
    ///
    /// # Errors
    /// The fleet is not available, or refuses.
    pub async fn open_fleet(&self) -> Result<(), FleetError> {
        self.0.open_fleet().await
    }

    /// Returns the metrics of the fleet, in the text format of Prometheus.
    pub(crate) fn fleet_metrics(&self) -> String {
        self.0.fleet_metrics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts no more runs, and resolves when none is in progress. What is in the queue stays there
    /// for the next server.
    pub async fn close(&self) {
        self.0.closing.cancel();
        for tenant in self.0.tenants() {
            self.0.end_sessions(&tenant, SessionStatus::Lost).await;
        }
        while self.0.tenants().iter().any(|tenant| tenant.running() > 0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl ApiShared {
    /// Returns the tenant of a token, and what its bearer may do.
    fn tenant_of(&self, token: Option<&str>) -> Option<(Arc<Tenant>, Bearer)> {
        let table = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        let bearer = table.tokens.bearer(token, SystemTime::now())?;
        Some((table.tenants.get(&bearer.tenant)?.clone(), bearer))
    }

    /// Returns the key set at a place: the one that is used now, if there is one.
    fn key_set(&self, at: KeysAt) -> Arc<KeySet> {
        let known = self.key_sets().into_iter().find(|set| *set.at() == at);
        known.unwrap_or_else(|| Arc::new(KeySet::new(at)))
    }

    fn key_sets(&self) -> Vec<Arc<KeySet>> {
        let table = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        table.tokens.identities().key_sets().cloned().collect()
    }

    fn tenants(&self) -> Vec<Arc<Tenant>> {
        let table = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        table.tenants.values().cloned().collect()
    }

    async fn open_fleet(&self) -> Result<(), FleetError> {
        match &self.options.fleet {
            Some(fleet) => fleet.open(&self.fleet_tenants()).await,
            None => Ok(()),
        }
    }

    async fn look_at_fleet(&self) {
        let Some(fleet) = &self.options.fleet else { return };
        let names: Vec<String> = self.tenants().iter().map(|tenant| tenant.name.clone()).collect();
        let text = fleet.metrics(&names).await;
        *self.fleet_metrics.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    /// Returns what a fleet needs to know of the tenants.
    fn fleet_tenants(&self) -> Vec<FleetTenant> {
        let of = |tenant: &Arc<Tenant>| {
            let settings = tenant.settings();
            FleetTenant {
                name: tenant.name.clone(),
                running: settings.quotas.running as u64,
                queued: settings.quotas.queued,
                storage: settings.quotas.storage.0,
                results: settings.retention.results.0,
                uploads: settings.retention.uploads.0,
                session_ttl: settings.quotas.session_ttl.0,
            }
        };
        self.tenants().iter().map(of).collect()
    }

    /// Copies what the stores of the tenants have written into their databases.
    fn copy_logs(&self) {
        for tenant in self.tenants() {
            if let Err(error) = tenant.state.store.copy_log() {
                tracing::error!(tenant = tenant.name, %error, "cannot copy the log of the store");
            }
        }
    }

    /// Says why the tenants and their policies are not those of the files.
    fn is_current(&self) -> Result<(), String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone().map_or(Ok(()), Err)
    }

    /// Reads the tenants file again if it or a policy that it names has changed, or to open the state of
    /// tenants that could not be opened. A broken file changes nothing.
    fn reload(self: &Arc<Self>) {
        if self.options.tenants.is_none() {
            return;
        }
        let is_known = {
            let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            !read.is_empty() && read.iter().all(|(path, stamp)| Stamp::of(path) == *stamp)
        };
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        if is_known && left_out.is_empty() {
            return;
        }
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match self.load() {
            Ok(loaded) => {
                *failure = None;
                if !is_known {
                    tracing::info!("read the tenants file again");
                    self.compare_quotas();
                }
                loaded.added.iter().for_each(|tenant| self.resume(tenant));
                let errors: Vec<String> = loaded.left_out.iter().map(ToString::to_string).collect();
                for error in errors.iter().filter(|error| !left_out.contains(error)) {
                    tracing::error!(error, "left out a new tenant, whose state is tried again");
                }
                *left_out = errors;
            }
            Err(error) => {
                let message = error.to_string();
                if failure.as_ref() != Some(&message) {
                    tracing::error!(
                        error = message,
                        "the tenants file is not valid: the tenants stay as they are"
                    );
                }
                *failure = Some(message);
            }
        }
    }

    /// Warns if tenants may use more at once than this server: a run may then wait for another tenant.
    fn compare_quotas(&self) {
        if self.options.fleet.is_some() || self.options.tenants.is_none() {
            return;
        }
        let (mut running, mut memory) = (0_u64, 0_u64);
        for tenant in self.tenants() {
            let quotas = &tenant.settings().quotas;
            running = running.saturating_add(quotas.running as u64);
            memory = memory.saturating_add(quotas.memory.0);
        }
        let capacity = self.mcp.service.capacity();
        if running > capacity.running as u64 {
            let (quotas, server) = (running, capacity.running);
            tracing::warn!(
                quotas,
                server,
                "the quotas `running` exceed what the server runs at once"
            );
        }
        if memory > capacity.memory {
            let (quotas, server) = (memory, capacity.memory);
            tracing::warn!(
                quotas,
                server,
                "the quotas `memory` exceed what runs may have together"
            );
        }
    }

    /// Reads the tenants, and opens the state of those that are new. A broken file changes nothing.
    fn load(self: &Arc<Self>) -> Result<Loaded, ApiError> {
        let (entries, tokens) = self.read_tenants()?;
        // Everything that may be wrong in the files is found before anything changes.
        let mut settings = BTreeMap::new();
        for (name, entry) in &entries {
            settings.insert(name.clone(), self.settings(entry)?);
        }
        let known: BTreeMap<String, Arc<Tenant>> =
            self.tenants().into_iter().map(|tenant| (tenant.name.clone(), tenant)).collect();
        let (mut table, mut new) = (Table { tokens, ..Table::default() }, Vec::new());
        for (name, settings) in settings {
            let folder = self.folder(&name, &entries[&name]);
            match known.get(&name).filter(|tenant| tenant.state.folder == folder) {
                Some(tenant) => {
                    tenant.change(settings);
                    table.tenants.insert(name, tenant.clone());
                }
                None => new.push((name, folder, settings)),
            }
        }
        let removed: Vec<Arc<Tenant>> =
            known.into_values().filter(|old| !table.tenants.contains_key(&old.name)).collect();
        // Before new tenants are opened, which may take long or fail: what was removed from the file is
        // refused from now on.
        *self.tenants.write().unwrap_or_else(PoisonError::into_inner) = table;
        for tenant in removed {
            tenant.removed.cancel();
            tenant.cancel_all();
            self.end_removed(tenant);
        }
        let mut loaded = Loaded::default();
        for (name, folder, settings) in new {
            match self.open(&name, &folder, settings) {
                Ok(tenant) => {
                    let tenant = Arc::new(tenant);
                    let mut table = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
                    table.tenants.insert(name, tenant.clone());
                    drop(table);
                    loaded.added.push(tenant);
                }
                Err(error) => loaded.left_out.push(error),
            }
        }
        Ok(loaded)
    }

    /// Reads who the tenants are, and their tokens.
    fn read_tenants(&self) -> Result<(BTreeMap<String, TenantEntry>, Tokens), ApiError> {
        let Some((path, _)) = &self.options.tenants else {
            let entry = TenantEntry {
                quotas: Quotas {
                    running: 64,
                    queued: 1_024,
                    memory: tenants::Size(u64::MAX),
                    ..Quotas::default()
                },
                retention: Retention::default(),
                ..TenantEntry::default()
            };
            let tokens = Tokens::of_server(self.options.token.as_deref());
            let name = if self.options.agents { AGENTS } else { DEFAULT };
            return Ok((BTreeMap::from([(name.to_owned(), entry)]), tokens));
        };
        // What is wrong is not read again until it changes once more.
        self.watch([path.clone()]);
        let text = read(path).map_err(|error| {
            ApiError::Tenants(format!("cannot read {}: {error}", path.display()))
        })?;
        let file = TenantsFile::parse(path, &text).map_err(ApiError::Tenants)?;
        self.watch(file.tenants.values().filter_map(|tenant| tenant.policy.clone()));
        let keys = |at| self.key_set(at);
        let identities = Identities::of(&file, path, keys).map_err(ApiError::Tenants)?;
        let tokens = Tokens::of(&file, identities);
        Ok((file.tenants, tokens))
    }

    /// Notes files as they are before they are read: those of tenants after the file with them.
    fn watch(&self, files: impl IntoIterator<Item = PathBuf>) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let tenants = self.options.tenants.as_ref().map(|(path, _)| path);
        for path in files {
            if Some(&path) == tenants {
                read.clear();
            }
            if !read.iter().any(|(known, _)| *known == path) {
                read.push((path.clone(), Stamp::of(&path)));
            }
        }
    }

    fn settings(&self, entry: &TenantEntry) -> Result<TenantSettings, ApiError> {
        let policy = match (&entry.policy, &self.options.tenants) {
            (Some(path), Some((_, read))) => {
                read(path).map_err(ApiError::Tenants)?.with_client_names()
            }
            _ => Policy::clone(&self.mcp.policy),
        };
        Ok(TenantSettings {
            hidden: HostPaths::new(self.options.hidden.iter().cloned(), &policy),
            policy,
            quotas: entry.quotas.clone(),
            local_storage: match self.options.fleet {
                Some(_) => u64::MAX,
                None => entry.quotas.storage.0,
            },
            retention: entry.retention.clone(),
            trust_uploads: entry.trust_uploads,
            cache_results: entry.cache_results,
        })
    }

    /// Returns the folder that stands for the workspace of every session. It stays empty.
    fn no_workspace(&self) -> io::Result<Arc<TempFolder>> {
        let mut made = self.no_workspace.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever tidies the folder for temporary files may have removed it.
        if let Some(folder) = made.as_ref().filter(|folder| folder.is_pristine()) {
            return Ok(folder.clone());
        }
        let folder = Arc::new(TempFolder::new_in(&self.options.scratch, Purpose::Session)?);
        Ok(made.insert(folder).clone())
    }

    /// Ends the sessions of a tenant that was removed. The tenants file may be read before there is an
    /// event loop: then there are no sessions.
    fn end_removed(self: &Arc<Self>, tenant: Arc<Tenant>) {
        if let Ok(event_loop) = tokio::runtime::Handle::try_current() {
            let api = self.clone();
            event_loop.spawn(async move {
                api.end_sessions(&tenant, SessionStatus::Ended).await;
            });
        }
    }

    fn folder(&self, name: &str, entry: &TenantEntry) -> PathBuf {
        // In a fleet it is a cache, and each process has its own.
        let own = entry.state.clone().filter(|_| self.options.fleet.is_none());
        own.unwrap_or_else(|| self.options.state.join(name))
    }

    fn open(
        &self,
        name: &str,
        folder: &Path,
        settings: TenantSettings,
    ) -> Result<Tenant, ApiError> {
        let failed = |error: io::Error| ApiError::State { tenant: name.to_owned(), error };
        let state = TenantState::open(folder).map_err(failed)?;
        private::sweep(folder).map_err(failed)?;
        let lost =
            state.store.lose_running(now()).map_err(|error| failed(io::Error::other(error)))?;
        if lost > 0 {
            tracing::warn!(tenant = name, lost, "runs of a previous server are lost");
        }
        let sessions = Sessions::open(folder).map_err(failed)?;
        let runner = self.mcp.service.runner();
        // Without a tenants file, the records stay where the operator has always found them.
        let has_own = self.options.tenants.is_some() || self.options.fleet.is_some();
        let runner = match has_own {
            true => runner.for_tenant(folder.join("state"), folder.join("audit.jsonl")),
            false => runner.clone(),
        };
        let service = self.mcp.service.with_runner(runner);
        let fleet = self.options.fleet.clone();
        let (name, streams) = (name.to_owned(), self.streams.clone());
        Ok(Tenant::new(name, state, sessions, service, fleet, streams, settings))
    }

    /// Removes what has expired.
    fn sweep(&self) {
        // Does not keep removed tenants open: another server may use their folders.
        let tenants: Vec<_> = self.tenants().iter().map(Arc::downgrade).collect();
        for tenant in tenants.iter().filter_map(Weak::upgrade) {
            let stop = || self.closing.is_cancelled() || tenant.removed.is_cancelled();
            let settings = tenant.settings();
            let before = |period: tenants::Period| {
                now().saturating_sub(i64::try_from(period.0.as_millis()).unwrap_or(i64::MAX))
            };
            let retention = &settings.retention;
            let (results, mut uploads) = (before(retention.results), before(retention.uploads));
            if self.options.fleet.is_some() {
                // A cache, which loses what has not been used for the longest time.
                match tenant.state.store.last_used_within(settings.quotas.storage.0) {
                    Ok(Some(since)) => {
                        uploads = since.min(before(tenants::Period(IN_USE))).max(uploads);
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::error!(tenant = tenant.name, %error, "cannot measure a cache");
                    }
                }
            }
            tenant.sessions.forget(results);
            let before = (results, uploads, now());
            let mut removed = |swept: &Swept| tenant.state.remove(swept);
            if let Err(error) = tenant.state.store.sweep(before, &stop, &mut removed) {
                tracing::error!(tenant = tenant.name, %error, "cannot remove expired data");
            }
        }
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        use std::os::unix::fs::MetadataExt as _;
        let found = std::fs::metadata(path).ok()?;
        Some(Stamp { modified: found.modified().ok(), size: found.size(), inode: found.ino() })
    }
}

/// Reads a file that the operator named, up to the bound.
fn read(path: &Path) -> io::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "the file is named by the operator")]
    let file = std::fs::File::open(path)?;
    let mut text = String::new();
    file.take(tenants::MAX_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > tenants::MAX_BYTES {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(text),
    }
}

/// Deletes the folder of a tenant that no server uses. Returns whether there was one.
///
/// # Errors
/// A server uses it, or the file system fails.
pub fn delete_tenant(folder: &Path) -> io::Result<bool> {
    if folder.symlink_metadata().is_err() {
        return Ok(false);
    }
    let state = TenantState::open(folder)?;
    let name =
        folder.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
    let parent = private::open_or_create(folder.parent().unwrap_or(Path::new("/")))?;
    private::remove(&parent, name)?;
    drop(state);
    Ok(true)
}

/// What a function of the API returns.
type Answered<T> = Result<T, Problem>;
