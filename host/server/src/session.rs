//! The state of one client: its activated skills, its folder, and how to notify it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rmcp::model::{LoggingLevel, ProtocolVersion};
use rmcp::service::{Peer, RequestContext, RoleServer, SubscriptionSink};
use tokio::sync::OnceCell;

use super::api::sessions::AgentSessions;
use super::folders::Folder;
use super::from_start::FromStart;
use super::run_results;
use skillhost_ledger::usage;
use skillhost_sandbox::Tool;

/// How a client is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// Over its own stream, which is one session.
    Stream,
    /// Over HTTP. Up to revision 2025-11-25 a session has an id; since 2026-07-28 each request
    /// stands alone.
    Http,
}

/// A session. A request without one has its own session until it is answered.
pub(super) struct Session {
    id: String,
    transport: Transport,
    state: Mutex<State>,
    /// Its usage counts.
    pub(super) usage: usage::UsageSession,
    /// The skills that it has from the start, once they were determined.
    pub(super) from_start: OnceLock<Vec<FromStart>>,
    /// The names of those that were activated, once that has happened.
    pub(super) started: OnceCell<Vec<String>>,
    /// The places in which its agent works, if the operator permits them.
    pub(super) places: OnceLock<Option<AgentSessions>>,
}

/// The mutable part of a session.
#[derive(Default)]
pub(super) struct State {
    /// The activated skills, by name.
    pub(super) active: BTreeMap<String, ActiveSkill>,
    /// Receives notifications, up to revision 2025-11-25.
    pub(super) peer: Option<Peer<RoleServer>>,
    /// The resources that the client has subscribed to, up to revision 2025-11-25.
    pub(super) subscribed: BTreeSet<String>,
    /// Receive notifications, since revision 2026-07-28.
    pub(super) sinks: Vec<SubscriptionSink>,
    /// The log level that the client has set; `None` sends no messages.
    pub(super) level: Option<LoggingLevel>,
    /// Its own folder, if the operator named no workspace.
    pub(super) folder: Option<Arc<Folder>>,
    /// The client's root that becomes the workspace; `None` until the client was asked.
    pub(super) root: Option<Option<PathBuf>>,
}

/// A skill that a session has activated.
pub(super) struct ActiveSkill {
    /// The typed tools that the session has.
    pub(super) tools: Arc<Vec<Tool>>,
    pub(super) by: ActivatedBy,
}

/// Who activated a skill.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ActivatedBy {
    /// The policy, at the start. The session has only the tools that are always disclosed.
    Policy,
    /// The agent.
    Agent,
    /// The client's user, by getting the prompt of a skill that agents cannot activate.
    User,
}

/// The most resources that a session can subscribe to.
pub(super) const SUBSCRIPTIONS: usize = 1_000;

impl Session {
    pub(super) fn new(transport: Transport, usage: usage::UsageSession) -> Session {
        Session {
            id: format!("agent {}", run_results::id()),
            transport,
            state: Mutex::default(),
            usage,
            from_start: OnceLock::new(),
            started: OnceCell::new(),
            places: OnceLock::new(),
        }
    }

    /// Returns the id to which approvals for a session are bound. Requests without a session share
    /// one, and no such approval is given for it.
    pub(super) fn id(&self, context: &RequestContext<RoleServer>) -> &str {
        if self.is_alone(context) { "agents without a session" } else { &self.id }
    }

    pub(super) fn transport(&self) -> Transport {
        self.transport
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks whether a request has no session. What it activates is forgotten once it is answered.
    pub(super) fn is_alone(&self, context: &RequestContext<RoleServer>) -> bool {
        self.transport == Transport::Http
            && context.protocol_version().is_some_and(|version| !version.has_initialize())
    }

    /// Remembers whom to notify, up to revision 2025-11-25. Handlers run concurrently, so the one of
    /// a request may start before the one of `notifications/initialized`.
    pub(super) fn remember_peer(&self, context: &RequestContext<RoleServer>) {
        if !self.is_alone(context) && !is_new(context) {
            self.state().peer.get_or_insert_with(|| context.peer.clone());
        }
    }

    /// Returns the typed tools of an activated skill.
    pub(super) fn tools(&self, skill: &str) -> Option<Arc<Vec<Tool>>> {
        self.state().active.get(skill).map(|active| active.tools.clone())
    }

    /// Notifies the client that its tools have changed.
    pub(super) async fn tools_changed(&self) {
        let (peer, sinks) = self.listeners();
        if let Some(peer) = peer {
            log_failure(peer.notify_tool_list_changed().await);
        }
        for sink in sinks {
            log_failure(sink.notify_tool_list_changed().await);
        }
    }

    /// Notifies the client that the lists of resources and prompts have changed.
    pub(super) async fn lists_changed(&self) {
        let (peer, sinks) = self.listeners();
        if let Some(peer) = peer {
            log_failure(peer.notify_resource_list_changed().await);
            log_failure(peer.notify_prompt_list_changed().await);
        }
        for sink in sinks {
            log_failure(sink.notify_resource_list_changed().await);
            log_failure(sink.notify_prompt_list_changed().await);
        }
    }

    /// Notifies the client of changed resources that it has subscribed to.
    pub(super) async fn updated(&self, changed: impl Fn(&str) -> bool) {
        let (peer, sinks) = self.listeners();
        let subscribed: Vec<String> = self.state().subscribed.iter().cloned().collect();
        if let Some(peer) = peer {
            for uri in subscribed.into_iter().filter(|uri| changed(uri)) {
                log_failure(
                    peer.notify_resource_updated(
                        rmcp::model::ResourceUpdatedNotificationParam::new(uri),
                    )
                    .await,
                );
            }
        }
        for sink in sinks {
            for uri in
                sink.accepted().resource_subscriptions.iter().flatten().filter(|uri| changed(uri))
            {
                log_failure(sink.notify_resource_updated(uri.clone()).await);
            }
        }
    }

    fn listeners(&self) -> (Option<Peer<RoleServer>>, Vec<SubscriptionSink>) {
        let state = self.state();
        (state.peer.clone(), state.sinks.clone())
    }
}

/// Checks whether a client speaks revision 2026-07-28 or later.
pub(super) fn is_new(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version: ProtocolVersion| !version.has_initialize())
}

/// Ignores errors: a client may have disconnected, or may not accept a kind of notification.
fn log_failure(result: Result<(), impl std::fmt::Display>) {
    if let Err(error) = result {
        tracing::debug!(%error, "cannot notify a client of a change");
    }
}
