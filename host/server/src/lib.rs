//! Skills for agents, over the Model Context Protocol: agents find them, load them step by step,
//! and run them under the operator's policy.
//!
//! This crate owns the protocol. It must not widen permissions: no call of a client grants or
//! approves anything, and the operator passes in the policy.
//!
//! Start reading at `handler`, which has the protocol's methods; `session` is the state of one
//! client. `definitions` are the tools, implemented by `discover`, `activate`, `read` and `run`.
//! `approval` decides whether a call may run, and asks a `question` of the client's user if the policy
//! allows that; `workspace` picks the folder, from `folders` if it is a session's own, `result` turns
//! an outcome into an answer, `writes` keeps staged writes for the operator, and `run_results` keeps
//! output that is too long for an answer. `from_start` finds the skills that a session has from the
//! start. `resources`, `skills`, `prompts` and `complete` offer the same skills through the
//! protocol's other primitives. `changes` notifies clients when skills change, and `messages` when a
//! run makes progress. `session_tools` are the tools for sessions. [`api`] is the run API, beside the protocol. [`http`] serves many clients at once, `metrics` counts, `trace` writes spans,
//! and `hidden` removes this machine's paths from answers.

mod activate;
pub mod api;
mod approval;
mod changes;
mod complete;
mod definitions;
mod discover;
mod folders;
mod from_start;
mod handler;
mod hidden;
pub mod http;
#[expect(deprecated, reason = "levels of log messages, which clients before 2026-07-28 set")]
mod messages;
mod metrics;
mod pages;
mod prompts;
mod question;
mod read;
mod requirements;
mod resources;
mod result;
mod run;
mod run_results;
#[expect(deprecated, reason = "levels of log messages, which clients before 2026-07-28 set")]
mod session;
mod session_tools;
mod skills;
mod trace;
mod workspace;
mod writes;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rmcp::ServiceExt as _;
use rmcp::service::{RequestContext, RoleServer, ServerInitializeError};
use tokio::io::{AsyncRead, AsyncWrite};

use api::sessions::AgentSessions;
use api::{Api, WeakApi};
use folders::Folders;
use hidden::HostPaths;
use metrics::Metrics;
use question::Questions;
use requirements::Verified;
use run_results::Runs;
use session::{ActivatedBy, Session, Transport};
use skillhost::service::Service;
use skillhost_catalog::{Catalog, CatalogEntry, Changes};
use skillhost_ledger::approval::{Approvals, PendingId};
use skillhost_ledger::usage::{self, UsageRecorder};
use skillhost_policy::Policy;
use skillhost_sandbox::Tool;
use skillhost_skill::{SizeLimits, Skill, SkillError};

/// The parts of a server.
pub struct Options {
    /// The skills.
    pub catalog: Catalog,
    /// Runs the skills.
    pub service: Service,
    /// The operator's policy.
    pub policy: Policy,
    /// The levels and approvals.
    pub approvals: Approvals,
    /// Where session folders are created, for sessions without a workspace.
    pub scratch: PathBuf,
    /// Folders of this host that no answer may name, and their replacements.
    pub hidden: Vec<(PathBuf, String)>,
    /// Records which skills clients find, activate and run.
    pub usage: UsageRecorder,
}

/// An MCP server. Cheap to clone; all clones are one server.
#[derive(Clone)]
pub struct Mcp(Arc<Shared>);

struct Shared {
    catalog: Catalog,
    service: Service,
    policy: Arc<Policy>,
    approvals: Approvals,
    /// Runs that await an answer.
    questions: Questions<PendingId>,
    folders: Arc<Folders>,
    hidden: HostPaths,
    runs: Runs,
    metrics: Metrics,
    usage: UsageRecorder,
    /// The counts of requests without a session.
    alone: usage::UsageSession,
    sessions: Mutex<Vec<Weak<Session>>>,
    /// The typed tools of components, by digest.
    tools: Mutex<HashMap<String, Arc<Vec<Tool>>>>,
    /// Where agents have sessions, if the operator permits them. Owned elsewhere, since it runs skills
    /// as this server does.
    places: OnceLock<WeakApi>,
}

/// The most unanswered questions to remember; each is a number.
const QUESTIONS: usize = 500;
/// The most components whose tools are remembered.
const TOOLS: usize = 1_000;

impl Mcp {
    /// Creates a server. From then on, the catalogue hides from agents what the policy hides.
    pub fn new(options: Options) -> Mcp {
        let Options { catalog, service, policy, approvals, scratch, hidden, usage } = options;
        let (hidden, policy) =
            (HostPaths::new(hidden, &policy), Arc::new(policy.with_client_names()));
        let (rules, runner, verified) =
            (policy.clone(), service.runner().clone(), Verified::default());
        catalog.set_hidden(move |entry| {
            rules.hides(&entry.name) || verified.lacks(entry, &rules, &runner)
        });
        let (runs, metrics) = (Runs::default(), Metrics::default());
        Mcp(Arc::new(Shared {
            catalog,
            service,
            policy,
            approvals,
            questions: Questions::new(QUESTIONS),
            folders: Arc::new(Folders::new(scratch)),
            hidden,
            runs,
            metrics,
            alone: usage.standalone(),
            usage,
            sessions: Mutex::default(),
            tools: Mutex::default(),
            places: OnceLock::new(),
        }))
    }

    /// Serves one client until it disconnects.
    ///
    /// # Errors
    /// The client does not speak the protocol.
    pub async fn serve(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(), Box<ServerInitializeError>> {
        let running = match self.client(Transport::Stream).serve((input, output)).await {
            Ok(running) => running,
            // It disconnected before it sent anything.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(Box::new(error)),
        };
        if let Err(error) = running.waiting().await {
            tracing::error!(%error, "the session failed");
        }
        Ok(())
    }

    /// Releases what is kept for clients: session folders and the results of runs. Writes the usage
    /// counts.
    pub fn close(&self) {
        self.0.usage.close();
        self.0.runs.clear();
        self.0.sessions().iter().for_each(|session| drop(session.state().folder.take()));
        self.0.folders.close();
    }

    /// Gives agents tools for sessions, as long as the API exists. The first one counts.
    pub fn offer_sessions(&self, api: &Api) {
        self.0.places.get_or_init(|| api.downgrade());
    }

    fn agent_places(&self) -> Option<Api> {
        self.0.places.get()?.upgrade()
    }

    /// Notifies every client of changes in the catalogue and in the folders of its skills.
    pub async fn changed(&self, changes: &Changes) {
        changes::tell(&self.0, changes).await;
    }

    /// Returns the metrics, in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        self.0.metrics.text(self.0.service.load(), self.0.sessions().len())
    }

    fn client(&self, transport: Transport) -> handler::Client {
        let shared = self.0.clone();
        let usage = self.0.usage.session(move || definitions::whole(&shared.entries()));
        let session = Arc::new(Session::new(transport, usage));
        let mut sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(&session));
        handler::Client { shared: self.0.clone(), session }
    }
}

impl Shared {
    fn sessions(&self) -> Vec<Arc<Session>> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the skill of a name. A disabled or hidden skill counts as missing.
    fn entry(&self, name: &str) -> Option<CatalogEntry> {
        self.catalog.get(name).filter(|entry| self.catalog.is_for_agents(entry))
    }

    /// Returns the skill of a name that agents may find, or whose prompt the session's user has got.
    fn entry_in(&self, session: &Session, name: &str) -> Option<CatalogEntry> {
        let by_user = || {
            let entry = self.catalog.get(name).filter(|entry| self.catalog.is_for_users(entry))?;
            let state = session.state();
            state.active.get(name).filter(|active| active.by == ActivatedBy::User)?;
            Some(entry)
        };
        self.entry(name).or_else(by_user)
    }

    /// Checks whether there is a skill of a name that does not exist for the session. A skill that was
    /// removed is not concealed, unless the policy hides its name.
    fn conceals(&self, session: &Session, name: &str) -> bool {
        self.policy.hides(name)
            || (self.catalog.get(name).is_some() && self.entry_in(session, name).is_none())
    }

    /// Returns all skills that agents may find, by name.
    fn entries(&self) -> Vec<CatalogEntry> {
        self.sorted(|entry| self.catalog.is_for_agents(entry))
    }

    /// Returns all skills of a kind, by name.
    fn sorted(&self, kind: impl Fn(&CatalogEntry) -> bool) -> Vec<CatalogEntry> {
        let mut entries: Vec<CatalogEntry> =
            self.catalog.entries().iter().filter(|entry| kind(entry)).cloned().collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    /// Returns the places in which an agent works, if the operator permits them.
    fn sessions_of<'a>(&self, session: &'a Session) -> Option<&'a AgentSessions> {
        let api = self.places.get()?.upgrade()?;
        session.places.get_or_init(|| AgentSessions::new(&api)).as_ref()
    }

    /// Returns the usage counts of a client.
    fn tally<'a>(
        &'a self,
        session: &'a Session,
        context: &RequestContext<RoleServer>,
    ) -> &'a usage::UsageSession {
        if session.is_alone(context) { &self.alone } else { &session.usage }
    }

    /// Loads a skill to serve its text. One that lacks what the policy requires does not load.
    fn load(&self, entry: &CatalogEntry) -> Result<Skill, SkillError> {
        let skill = Skill::load_from(entry.into(), &SizeLimits::of(&self.policy))?;
        self.service.runner().require(&skill, &self.policy)?;
        Ok(skill)
    }
}
