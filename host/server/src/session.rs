//! What one client has: the skills that it activated, the folder that they work in, and how it is
//! told of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{LoggingLevel, ProtocolVersion};
use rmcp::service::{Peer, RequestContext, RoleServer, SubscriptionSink};
use tokio::sync::OnceCell;

use super::kept;
use super::workspace::Folder;
use skillhost_ledger::usage;
use skillhost_sandbox::Tool;

/// How a client is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// A stream of its own: the session is as long as that.
    Stream,
    /// HTTP: up to revision 2025-11-25 a session has an id, from 2026-07-28 on each request stands
    /// alone.
    Http,
}

/// A session. A request that stands alone has one of its own, gone when it is answered.
pub(super) struct Session {
    id: String,
    transport: Transport,
    state: Mutex<State>,
    /// What it counts.
    pub(super) usage: usage::UsageSession,
    /// The skills that it had from its start, once that is told.
    pub(super) preloaded: OnceCell<Vec<String>>,
}

/// What of a session changes.
#[derive(Default)]
pub(super) struct State {
    /// The skills that were activated, by name, and their typed tools.
    pub(super) active: BTreeMap<String, Arc<Vec<Tool>>>,
    /// Where it is told of changes, up to revision 2025-11-25.
    pub(super) peer: Option<Peer<RoleServer>>,
    /// The resources that it wants to be told of, up to revision 2025-11-25.
    pub(super) subscribed: BTreeSet<String>,
    /// Where it is told of changes, from revision 2026-07-28 on.
    pub(super) sinks: Vec<SubscriptionSink>,
    /// What it wants to be told of runs; `None`: nothing.
    pub(super) level: Option<LoggingLevel>,
    /// Its own folder, where the operator named no workspace.
    pub(super) folder: Option<Arc<Folder>>,
    /// The client's root that is the workspace; `None` until it was asked.
    pub(super) root: Option<Option<PathBuf>>,
}

/// Resources that one session is told of.
pub(super) const SUBSCRIPTIONS: usize = 1_000;

impl Session {
    pub(super) fn new(transport: Transport, usage: usage::UsageSession) -> Session {
        Session {
            id: format!("agent {}", kept::id()),
            transport,
            state: Mutex::default(),
            usage,
            preloaded: OnceCell::new(),
        }
    }

    /// What approvals for a session hold for. Requests that stand alone have one name: no such
    /// approval is given for them.
    pub(super) fn id(&self, context: &RequestContext<RoleServer>) -> &str {
        if self.is_alone(context) { "agents without a session" } else { &self.id }
    }

    pub(super) fn transport(&self) -> Transport {
        self.transport
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request stands alone: what it activates is forgotten when it is answered.
    pub(super) fn is_alone(&self, context: &RequestContext<RoleServer>) -> bool {
        self.transport == Transport::Http
            && context.protocol_version().is_some_and(|version| !version.has_initialize())
    }

    /// The tools of an activated skill.
    pub(super) fn tools(&self, skill: &str) -> Option<Arc<Vec<Tool>>> {
        self.state().active.get(skill).cloned()
    }

    /// Tells the client that its tools are others now.
    pub(super) async fn tools_changed(&self) {
        let (peer, sinks) = self.listeners();
        if let Some(peer) = peer {
            told(peer.notify_tool_list_changed().await);
        }
        for sink in sinks {
            told(sink.notify_tool_list_changed().await);
        }
    }

    /// Tells the client that there are other skills now, as resources and prompts.
    pub(super) async fn lists_changed(&self) {
        let (peer, sinks) = self.listeners();
        if let Some(peer) = peer {
            told(peer.notify_resource_list_changed().await);
            told(peer.notify_prompt_list_changed().await);
        }
        for sink in sinks {
            told(sink.notify_resource_list_changed().await);
            told(sink.notify_prompt_list_changed().await);
        }
    }

    /// Tells the client that resources changed, of those that it wants to be told of.
    pub(super) async fn updated(&self, changed: impl Fn(&str) -> bool) {
        let (peer, sinks) = self.listeners();
        let subscribed: Vec<String> =
            self.state().subscribed.iter().filter(|uri| changed(uri)).cloned().collect();
        if let Some(peer) = peer {
            for uri in subscribed {
                told(
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
                told(sink.notify_resource_updated(uri.clone()).await);
            }
        }
    }

    fn listeners(&self) -> (Option<Peer<RoleServer>>, Vec<SubscriptionSink>) {
        let state = self.state();
        (state.peer.clone(), state.sinks.clone())
    }
}

/// Whether a client speaks revision 2026-07-28 or a later one.
pub(super) fn is_new(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version: ProtocolVersion| !version.has_initialize())
}

/// A client that is gone is no fault; one that did not accept a kind of notification is not told.
fn told(result: Result<(), impl std::fmt::Display>) {
    if let Err(error) = result {
        tracing::debug!(%error, "a client was not told of a change");
    }
}
