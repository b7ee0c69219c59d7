//! Sessions: a `/workspace` and a `/tmp` that last for a task, in which a client runs programs, reads
//! and writes files, and which it forks, snapshots, restores, applies and ends.
//!
//! `routes` has the paths, `programs` runs programs, `files` reads and writes files, `changes` has
//! diffs, snapshots and forks, `trees` the files of a folder as a value, and `watch` announces changes.
//! `restrictions` checks the policy of a session, and `records` remembers sessions that have ended. In a fleet, `forward` is the server, which passes
//! requests on, and `hosted` the worker, which answers them. `sandboxd` is another way in: the protocol of
//! kubernetes-sigs/agent-sandbox; so is `agents`, for MCP.
//!
//! All of a session's files are in the folder of its tenant. Everything that uses them holds its gate;
//! what needs them to stand still takes the gate alone. A session does not survive the server.

mod agents;
mod changes;
mod files;
mod forward;
mod hosted;
mod programs;
mod records;
mod restrictions;
pub(super) mod routes;
mod sandboxd;
mod trees;
pub mod types;
mod watch;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio_util::sync::CancellationToken;

use super::problem::{Problem, ProblemCode};
use super::state::now;
use super::submit::closing;
use super::tenant::Tenant;
use super::uploads::blocking;
use super::{Answered, ApiShared};
pub(crate) use agents::AgentSessions;
pub(super) use forward::Workers;
use hosted::ended_in;
pub(super) use programs::Program;
use records::{Records, SessionRecord};
pub(super) use restrictions::Restrictions;
use skillhost_policy::capabilities::PathRules;
use skillhost_policy::limits::Limits;
use skillhost_sandbox::files::{SessionFolders, SharedFiles};
use skillhost_skill::private;
use types::{SessionInfo, SessionList, SessionRequest, SessionStatus};

/// The most skills of a session.
const SKILLS: usize = 32;
/// How long an operation that needs the files to stand still waits for requests in progress.
const STILL: Duration = Duration::from_secs(1);
/// How long the end of a session waits for its programs.
const ENDING: Duration = Duration::from_secs(5);

/// The sessions of a tenant.
pub(super) struct Sessions {
    /// The folder of all sessions, private and the tenant's.
    folder: PathBuf,
    live: Mutex<HashMap<String, Arc<Session>>>,
    records: Records,
    /// Bytes that sessions may use, which the quota bounds.
    reserved: Arc<AtomicU64>,
    /// Sessions whose first files are being written.
    creating: AtomicUsize,
    /// Locked by what reads or writes all files of a session.
    heavy: Arc<tokio::sync::Mutex<()>>,
}

/// A session that has not ended.
pub(super) struct Session {
    pub(super) id: String,
    skills: Vec<String>,
    parent: Option<String>,
    /// What its first skill may read and write.
    rules: PathRules,
    limits: Limits,
    restrictions: Arc<Restrictions>,
    folder: PathBuf,
    created: i64,
    expires: i64,
    idle: i64,
    used: AtomicI64,
    state: Mutex<SessionState>,
    gate: Arc<RwLock<()>>,
    /// The digest of its token for the `sandboxd` protocol, if it has one.
    token: Mutex<Option<[u8; 32]>>,
    /// Cancelled when it ends.
    ended: CancellationToken,
    _reserved: Reserved,
}

struct SessionState {
    files: Arc<SharedFiles>,
    base: Arc<Base>,
    programs: BTreeMap<u64, Arc<Program>>,
    /// The number of the next program, and of the next upper folder.
    next: u64,
}

/// What workspaces contained at the beginning. Removed with the last session that has it.
struct Base {
    path: PathBuf,
    reserved: Reserved,
}

/// Bytes that count towards the quota until this value is dropped.
struct Reserved {
    all: Arc<AtomicU64>,
    bytes: u64,
}

impl Sessions {
    /// Opens the sessions of a tenant, whose state folder no other server uses. Those of a previous
    /// server are lost, and their files are removed.
    pub(super) fn open(state: &Path) -> io::Result<Sessions> {
        let folder = state.join("sessions");
        let opened = private::open_or_create(&folder)?;
        for part in [LIVE, BASES] {
            match private::remove(&opened, part) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            private::create_new(&folder.join(part))?;
        }
        Ok(Sessions {
            records: Records::open(&folder.join("records"))?,
            folder,
            live: Mutex::default(),
            reserved: Arc::default(),
            creating: AtomicUsize::new(0),
            heavy: Arc::default(),
        })
    }

    /// Returns a session, and notes that it is in use.
    pub(super) fn get(&self, id: &str) -> Answered<Arc<Session>> {
        if let Some(session) = self.live().get(id) {
            session.touch();
            return Ok(session.clone());
        }
        match self.records.get(id) {
            Some(record) => Err(ended(record.status)),
            None => Err(Problem::not_found()),
        }
    }

    /// Returns a session that has not ended.
    fn active(&self, id: &str) -> Option<Arc<Session>> {
        self.live().get(id).cloned()
    }

    /// Describes a session, also one that has ended.
    fn describe(&self, id: &str) -> Answered<SessionInfo> {
        if let Some(session) = self.live().get(id) {
            return Ok(session.info());
        }
        self.records.get(id).map(|record| record.info(id)).ok_or_else(Problem::not_found)
    }

    fn list(&self) -> SessionList {
        let mut all: Vec<(i64, SessionInfo)> =
            self.live().values().map(|session| (session.created, session.info())).collect();
        all.extend(self.records.all());
        all.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.id.cmp(&other.id)));
        all.dedup_by(|(_, one), (_, other)| one.id == other.id);
        SessionList { sessions: all.into_iter().map(|(_, info)| info).collect() }
    }

    /// Returns the sessions whose time is up.
    fn expired(&self) -> Vec<Arc<Session>> {
        let now = now();
        self.live().values().filter(|session| session.is_expired(now)).cloned().collect()
    }

    /// Forgets the sessions that ended before this time.
    pub(super) fn forget(&self, before: i64) {
        self.records.forget(before);
    }

    fn all(&self) -> Vec<Arc<Session>> {
        self.live().values().cloned().collect()
    }

    fn live(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a session that is about to exist, unless there are too many.
    fn begin(&self, most: usize) -> Answered<Creating<'_>> {
        let live = self.live().len();
        let more = |creating: usize| (live + creating < most).then_some(creating + 1);
        let counted = self.creating.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.map(|_| Creating(self)).map_err(|_| too_many(most))
    }

    fn reserve(&self, bytes: u64, quota: u64) -> Answered<Reserved> {
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= quota);
        self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|_| {
            let detail = format!(
                "the sessions of this tenant may use {quota} bytes: end one, or create it with a smaller `disk`"
            );
            Problem::new(ProblemCode::SessionDisk, detail)
        })?;
        Ok(Reserved { all: self.reserved.clone(), bytes })
    }
}

/// The folders of sessions, and those of what their workspaces contained at the beginning.
const LIVE: &str = "live";
const BASES: &str = "bases";

impl Session {
    fn touch(&self) {
        self.used.store(now(), Ordering::Relaxed);
    }

    fn is_expired(&self, now: i64) -> bool {
        let is_idle = self.used.load(Ordering::Relaxed).saturating_add(self.idle) <= now;
        self.expires <= now || is_idle && self.running() == 0
    }

    fn info(&self) -> SessionInfo {
        SessionInfo {
            id: self.id.clone(),
            status: SessionStatus::Active,
            skills: self.skills.clone(),
            created: time(self.created),
            expires: Some(time(self.expires)),
            ended: None,
            parent: self.parent.clone(),
            disk: self.files().disk(),
            disk_limit: self.limits.disk,
            running: self.running(),
            policy: self.restrictions.policy.clone(),
        }
    }

    /// The files, as they are now: restoring a snapshot replaces them.
    fn files(&self) -> Arc<SharedFiles> {
        self.state().files.clone()
    }

    /// Waits until the files may be used, and keeps them from being replaced or removed.
    async fn enter(&self) -> Answered<OwnedRwLockReadGuard<()>> {
        let guard = self.gate.clone().read_owned().await;
        match self.ended.is_cancelled() {
            true => Err(ended(SessionStatus::Ended)),
            false => Ok(guard),
        }
    }

    /// Waits until nothing uses the files. Programs are not waited for.
    async fn alone(&self) -> Answered<OwnedRwLockWriteGuard<()>> {
        let busy = || {
            let detail = "end the programs of the session first, or wait for their end";
            Problem::new(ProblemCode::SessionBusy, detail)
        };
        if self.running() > 0 {
            return Err(busy());
        }
        let guard = tokio::time::timeout(STILL, self.gate.clone().write_owned()).await;
        let guard = guard.map_err(|_| busy())?;
        match self.ended.is_cancelled() {
            true => Err(ended(SessionStatus::Ended)),
            false => Ok(guard),
        }
    }

    /// Creates an empty folder of the session.
    fn new_folder(&self, name: &str) -> io::Result<PathBuf> {
        let number = {
            let mut state = self.state();
            state.next += 1;
            state.next
        };
        let path = self.folder.join(format!("{name}-{number}"));
        private::create_new(&path)?;
        Ok(path)
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ApiShared {
    /// Creates a session. Waits for the disk.
    fn create_session(
        &self,
        tenant: &Arc<Tenant>,
        request: SessionRequest,
        id: String,
    ) -> Answered<SessionInfo> {
        let settings = tenant.settings();
        let quotas = &settings.quotas;
        if self.closing.is_cancelled() {
            return Err(closing());
        }
        tenant.require_quotas_blocking()?;
        if !(1..=SKILLS).contains(&request.skills.len()) {
            return Err(Problem::invalid(format!("`skills` names 1 to {SKILLS} skills")));
        }
        let sessions = &tenant.sessions;
        let _creating = sessions.begin(quotas.sessions)?;
        let restrictions = Arc::new(Restrictions::new(request.policy.clone())?);
        let (rules, mut limits) = self.grant_skills(tenant, &request.skills, &restrictions)?;
        limits.disk = request.disk.map_or(limits.disk, |disk| disk.min(limits.disk));
        let reserved = sessions.reserve(limits.disk, quotas.session_disk.0)?;
        let base = Arc::new(self.new_base(tenant, &request)?);
        let bounded = |asked: Option<u64>, most: Duration| {
            milliseconds(asked.map_or(most, |seconds| Duration::from_secs(seconds).min(most)))
        };
        let new = NewSession {
            id,
            skills: request.skills,
            parent: None,
            rules,
            limits,
            restrictions,
            ttl: bounded(request.ttl, quotas.session_ttl.0),
            idle: bounded(request.idle, quotas.session_idle.0),
            base,
            reserved,
        };
        let session = new.open(tenant, None)?;
        Ok(session.info())
    }

    /// Returns what the first of these skills may read and write, and its limits, if all are granted.
    fn grant_skills(
        &self,
        tenant: &Tenant,
        skills: &[String],
        restrictions: &Restrictions,
    ) -> Answered<(PathRules, Limits)> {
        let mut granted =
            skills.iter().map(|skill| self.grant_in_session(tenant, skill, restrictions));
        let first = granted.next().ok_or_else(Problem::not_found)??;
        granted.try_for_each(|other| other.map(drop))?;
        Ok((PathRules { read: first.read, write: first.write }, first.limits))
    }

    /// Ends a session: its programs first, then its files. Continues after the client has disconnected.
    pub(super) async fn end_session(
        &self,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
        status: SessionStatus,
    ) -> Answered<SessionInfo> {
        let ending = tokio::spawn(end(tenant.clone(), session.clone(), status));
        ending.await.map_err(|error| Problem::internal(&error))?
    }

    /// Ends the sessions whose time is up.
    pub(super) async fn expire_sessions(&self) {
        let ending = self.tenants().into_iter().map(|tenant| async move {
            let expired = tenant.sessions.expired();
            let ending = expired
                .iter()
                .map(|session| self.end_session(&tenant, session, SessionStatus::Expired));
            futures::future::join_all(ending).await;
        });
        futures::future::join_all(ending).await;
    }

    /// Ends all sessions of a tenant.
    pub(super) async fn end_sessions(&self, tenant: &Arc<Tenant>, status: SessionStatus) {
        let all = tenant.sessions.all();
        let ending = all.iter().map(|session| self.end_session(tenant, session, status));
        futures::future::join_all(ending).await;
    }
}

async fn end(
    tenant: Arc<Tenant>,
    session: Arc<Session>,
    status: SessionStatus,
) -> Answered<SessionInfo> {
    let info = end_here(tenant.clone(), session.clone(), status).await?;
    if let Some(fleet) = &tenant.fleet {
        ended_in(fleet, &tenant, &session.id, status).await;
    }
    Ok(info)
}

async fn end_here(
    tenant: Arc<Tenant>,
    session: Arc<Session>,
    status: SessionStatus,
) -> Answered<SessionInfo> {
    session.ended.cancel();
    session.programs().iter().for_each(|program| program.stop());
    // What does not end in time loses its files while it still runs.
    let _alone = tokio::time::timeout(ENDING, session.gate.clone().write_owned()).await;
    blocking(move || {
        let sessions = &tenant.sessions;
        let record = SessionRecord {
            status,
            skills: session.skills.clone(),
            parent: session.parent.clone(),
            created: session.created,
            ended: Some(now()),
        };
        let info = record.info(&session.id);
        sessions.records.put(&session.id, record);
        sessions.live().remove(&session.id);
        session.programs().iter().for_each(|program| tenant.state.remove(&program.swept()));
        let removed = private::open_or_create(&sessions.folder.join(LIVE))
            .and_then(|live| private::remove(&live, &session.id));
        if let Err(error) = removed {
            tracing::warn!(session = session.id, %error, "cannot remove the files of a session");
        }
        Ok(info)
    })
    .await
}

/// A session that is about to exist.
struct NewSession {
    id: String,
    skills: Vec<String>,
    parent: Option<String>,
    rules: PathRules,
    limits: Limits,
    restrictions: Arc<Restrictions>,
    ttl: i64,
    idle: i64,
    base: Arc<Base>,
    reserved: Reserved,
}

impl NewSession {
    /// Creates its folders, with a copy of what was changed in another session.
    fn open(self, tenant: &Tenant, from: Option<&SharedFiles>) -> Answered<Arc<Session>> {
        let sessions = &tenant.sessions;
        let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
        let id = self.id.clone();
        let folder = sessions.folder.join(LIVE).join(&id);
        let open = || -> io::Result<SharedFiles> {
            private::create_new(&folder)?;
            let made = |name: &str| -> io::Result<PathBuf> {
                let path = folder.join(name);
                private::create_new(&path)?;
                Ok(path)
            };
            made(SCRATCH)?;
            let folders = SessionFolders {
                base: self.base.path.clone(),
                upper: made("upper-0")?,
                tmp: made("tmp")?,
            };
            match from {
                Some(from) => from.fork(folders),
                None => Ok(SharedFiles::new(folders, &self.limits)),
            }
        };
        let remove = || {
            private::open_or_create(&sessions.folder.join(LIVE))
                .and_then(|live| private::remove(&live, &id))
        };
        let files = open().map_err(|error| {
            remove().ok();
            internal(&error)
        })?;
        let NewSession {
            skills,
            parent,
            rules,
            limits,
            restrictions,
            ttl,
            idle,
            base,
            reserved,
            ..
        } = self;
        let created = now();
        let record = SessionRecord {
            status: SessionStatus::Active,
            skills: skills.clone(),
            parent: parent.clone(),
            created,
            ended: None,
        };
        let session = Arc::new(Session {
            id: id.clone(),
            skills,
            parent,
            rules,
            limits,
            restrictions,
            folder,
            created,
            expires: created.saturating_add(ttl),
            idle,
            used: AtomicI64::new(created),
            state: Mutex::new(SessionState {
                files: Arc::new(files),
                base,
                programs: BTreeMap::new(),
                next: 0,
            }),
            gate: Arc::default(),
            token: Mutex::default(),
            ended: CancellationToken::new(),
            _reserved: reserved,
        });
        let most = tenant.settings().quotas.sessions;
        {
            let mut live = sessions.live();
            if live.len() >= most {
                drop(live);
                remove().ok();
                return Err(too_many(most));
            }
            live.insert(id.clone(), session.clone());
        }
        // So that a later server knows that it is lost.
        sessions.records.put(&id, record);
        Ok(session)
    }
}

/// Where the runs of a session have their scratch folders.
const SCRATCH: &str = "scratch";

impl Drop for Base {
    fn drop(&mut self) {
        let (path, reserved) = (std::mem::take(&mut self.path), self.reserved.take());
        let remove = move || {
            let (Some(parent), Some(name)) =
                (path.parent(), path.file_name().and_then(|name| name.to_str()))
            else {
                return;
            };
            let removed =
                private::open_or_create(parent).and_then(|dir| private::remove(&dir, name));
            if let Err(error) = removed {
                tracing::debug!(%error, "cannot remove the first files of a session");
            }
            // They count until they are gone.
            drop(reserved);
        };
        // The last use may be in the event loop, which must not wait for the disk.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// Counts a session that is about to exist, until this value is dropped.
struct Creating<'a>(&'a Sessions);

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        self.0.creating.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Reserved {
    /// Counts no more than this from now on.
    fn lower(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        self.all.fetch_sub(less, Ordering::Relaxed);
        self.bytes -= less;
    }

    /// Moves what is counted into another value.
    fn take(&mut self) -> Reserved {
        Reserved { all: self.all.clone(), bytes: std::mem::take(&mut self.bytes) }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn too_many(most: usize) -> Problem {
    let detail = format!("at most {most} sessions at once; end one");
    Problem::new(ProblemCode::SessionQuota, detail).retry_after(10)
}

/// The answer to a request for a session that has ended.
fn ended(status: SessionStatus) -> Problem {
    let why = match status {
        SessionStatus::Lost => "it is lost: the server that had it ended",
        SessionStatus::Expired => "it expired",
        SessionStatus::Active | SessionStatus::Ended => "it has ended",
    };
    Problem::new(ProblemCode::SessionEnded, format!("{why}; create another one"))
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn time(milliseconds: i64) -> String {
    jiff::Timestamp::from_millisecond(milliseconds)
        .map_or_else(|_| String::new(), |at| at.to_string())
}
