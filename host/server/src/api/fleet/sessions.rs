//! Sessions of a fleet: each is on one worker, and any API server finds it by its record.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use serde::{Deserialize, Serialize};

use super::FleetError;
use crate::api::sessions::types::SessionStatus;
use skillhost_ledger::runs::RunStatus;

/// Finds the workers of sessions, and counts, records and loses sessions. Every method names the
/// tenant, and reaches nothing of another one.
#[async_trait::async_trait]
pub trait FleetSessions: Send + Sync {
    /// Returns where a session can be created now, the worker with the fewest sessions first.
    async fn places(&self, tenant: &str) -> Result<Vec<SessionPlace>, FleetError>;

    /// Counts a session that is about to be created, unless the tenant has `most`. `now`: the time, in
    /// milliseconds since 1970.
    async fn hold_session(
        &self,
        tenant: &str,
        id: &str,
        place: &SessionPlace,
        most: usize,
        now: i64,
    ) -> Result<bool, FleetError>;

    /// Stores the record of a session that was created. From then on, every server finds it.
    async fn put_session(&self, tenant: &str, session: &FleetSession) -> Result<(), FleetError>;

    /// Returns the record of a session.
    async fn session(&self, tenant: &str, id: &str) -> Result<Option<FleetSession>, FleetError>;

    /// Returns the latest sessions, the latest first, at most `most`.
    async fn sessions(&self, tenant: &str, most: usize) -> Result<Vec<FleetSession>, FleetError>;

    /// Records the end of a session that has not ended, and counts it no more.
    async fn end_session(
        &self,
        tenant: &str,
        id: &str,
        status: SessionStatus,
        now: i64,
    ) -> Result<(), FleetError>;

    /// Returns the sessions whose workers are silent.
    async fn silent_sessions(&self, tenant: &str) -> Result<Vec<String>, FleetError>;

    /// Checks whether a process of a worker has not reported for so long that another worker would get
    /// its runs. A server that has not listened for as long does not know, and says no.
    fn is_silent(&self, tenant: &str, place: &SessionPlace) -> bool;

    /// Returns how to connect to a worker that serves the tenant, and the name that it must have.
    fn connector(
        &self,
        tenant: &str,
        worker: &str,
    ) -> Result<(Arc<ClientConfig>, ServerName<'static>), FleetError>;

    /// Returns how a worker accepts connections of API servers.
    fn acceptor(&self) -> Result<Arc<ServerConfig>, FleetError>;

    /// Checks whether a certificate is that of an API server that serves the tenant.
    fn is_server(&self, tenant: &str, certificate: &[u8]) -> bool;

    /// Signs that a program of a session has begun or ended, and writes it into the tenant's record of
    /// all runs, once.
    async fn record_program(&self, tenant: &str, program: &ProgramRecord)
    -> Result<(), FleetError>;
}

/// Where sessions are: a process of a worker, and the address at which servers reach it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionPlace {
    /// The worker.
    pub worker: String,
    /// The process, which has another name after each start.
    pub process: String,
    /// Its host and port.
    pub address: String,
}

/// A session of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetSession {
    /// Its id, whose first 12 digits are the time in milliseconds.
    pub id: String,
    /// Where it is, or was.
    pub place: SessionPlace,
    /// Its skills, as they were named.
    pub skills: Vec<String>,
    /// The session that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// When it was created, in milliseconds since 1970.
    pub created: i64,
    /// Where it is in its life.
    pub status: SessionStatus,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<i64>,
}

/// A program of a session, for the record of all runs.
#[derive(Debug, Clone)]
pub struct ProgramRecord {
    /// Its id.
    pub id: String,
    /// The session.
    pub session: String,
    /// The skill with its digest.
    pub skill: String,
    /// The digest of what was submitted.
    pub request: String,
    /// `Running` if it has begun.
    pub status: RunStatus,
    /// The kind of its outcome.
    pub kind: Option<String>,
    /// Its exit code.
    pub exit_code: Option<u8>,
    /// When it was submitted, in milliseconds since 1970.
    pub started: i64,
    /// When it ended, or has begun.
    pub at: i64,
    /// Processor time, in milliseconds.
    pub cpu_ms: u64,
    /// Bytes that went in and out.
    pub bytes: u64,
}
