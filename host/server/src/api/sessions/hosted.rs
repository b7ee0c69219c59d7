//! Sessions of a fleet on the worker that has them: answers API servers, and tells the fleet which
//! sessions there are and which programs run in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use hyper::body::Incoming;

use super::super::body::{Answer, of_bytes, of_problem};
use super::super::executor::FinishedJob;
use super::super::fleet::sessions::{FleetSession, ProgramRecord, SessionPlace};
use super::super::fleet::{Fleet, FleetError};
use super::super::problem::{Problem, ProblemCode};
use super::super::routes::session_route;
use super::super::state::{new_id, now};
use super::super::submit::closing;
use super::super::tenant::Tenant;
use super::super::types::{FileChange, FileSource, FileState, RunSubmission};
use super::super::worker::WorkerHost;
use super::super::workspace::digests;
use super::super::{Answered, ApiShared};
use super::types::{SessionInfo, SessionRequest, SessionStatus};
use super::{SKILLS, too_many};
use skillhost_ledger::runs::RunStatus;

/// Headers between servers and workers, over connections of which both ends are known: the tenant of the
/// request; the process that has the session, and that answers; the status of a session that has ended.
pub(super) const TENANT: HeaderName = HeaderName::from_static("skillhost-tenant");
pub(super) const PROCESS: HeaderName = HeaderName::from_static("skillhost-process");
pub(super) const STATUS: HeaderName = HeaderName::from_static("skillhost-session-status");

/// The most sessions of a worker.
const MOST: usize = 1_000;
/// How long the record of the end of a program is kept while the brokers do not answer, and the pause
/// between two attempts to write it.
const STORE: (Duration, Duration) = (Duration::from_secs(600), Duration::from_millis(500));

impl WorkerHost {
    /// Takes sessions from now on, at this place.
    pub fn take_sessions(&self, place: SessionPlace) {
        // A second call changes nothing: a process has one address.
        self.0.place.set(place).ok();
    }

    /// Tells the fleet which sessions the previous process on this machine has lost. Its state was locked.
    pub async fn lose_previous(&self) {
        let Some(fleet) = &self.0.options.fleet else { return };
        for tenant in self.0.tenants() {
            for id in tenant.sessions.records.lost() {
                ended_in(fleet, &tenant, id, SessionStatus::Lost).await;
            }
        }
    }

    /// Returns the number of sessions, if there is room for another one. Quotas are checked when a session
    /// is created, so that a client that exceeds one learns which.
    pub fn room(&self, tenant: &str) -> Option<usize> {
        self.tenant(tenant)?;
        let count = |tenant: &Arc<Tenant>| tenant.sessions.all().len();
        let all: usize = self.0.tenants().iter().map(count).sum();
        (all < MOST && !self.0.closing.is_cancelled()).then_some(all)
    }

    /// Resolves when no program of a session is in progress.
    pub async fn programs_end(&self) {
        while self.0.tenants().iter().any(|tenant| tenant.running() > 0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends the sessions of one tenant or of all: they are lost.
    pub async fn end_sessions(&self, tenant: Option<&str>) {
        let tenants = self.0.tenants();
        let meant = tenants.iter().filter(|known| tenant.is_none_or(|name| known.name == name));
        let ending = meant.map(|tenant| self.0.end_sessions(tenant, SessionStatus::Lost));
        futures::future::join_all(ending).await;
    }

    /// Returns how API servers connect.
    pub(crate) fn acceptor(&self) -> Result<Arc<rustls::ServerConfig>, FleetError> {
        match &self.0.options.fleet {
            Some(fleet) => fleet.acceptor(),
            None => Err(FleetError::Unavailable("this process belongs to no fleet".into())),
        }
    }

    /// Answers a request that the bearer of this certificate forwards.
    pub(crate) async fn answer(&self, certificate: &[u8], request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let mut answer = match self.forwarded(certificate, &head, body).await {
            Ok(answer) => answer,
            Err(problem) => {
                let mut answer = of_problem(&problem);
                if problem.code == ProblemCode::SessionEnded
                    && let Some(status) = self.status_of(&head)
                {
                    answer.headers_mut().insert(STATUS, HeaderValue::from_static(status));
                }
                answer
            }
        };
        let process = self.0.place.get().map(|place| HeaderValue::from_str(&place.process));
        if let Some(Ok(process)) = process {
            answer.headers_mut().insert(PROCESS, process);
        }
        answer
    }

    async fn forwarded(
        &self,
        certificate: &[u8],
        head: &Parts,
        body: Incoming,
    ) -> Answered<Answer> {
        let (Some(fleet), Some(place)) = (&self.0.options.fleet, self.0.place.get()) else {
            return Err(Problem::not_found());
        };
        let named = header(&head.headers, &TENANT).unwrap_or_default();
        if !fleet.is_server(named, certificate) {
            tracing::warn!(tenant = named, "refused a request that no server of the tenant sent");
            let detail = "this certificate is not that of an API server of the tenant";
            return Err(Problem::new(ProblemCode::Unauthorized, detail));
        }
        let tenant = self.tenant(named).ok_or_else(Problem::not_found)?;
        if header(&head.headers, &PROCESS) != Some(&*place.process) {
            // What the server looks for was in a process that has ended.
            let status = StatusCode::MISDIRECTED_REQUEST;
            return Ok(of_bytes(status, "text/plain", "this is another process\n"));
        }
        let route = session_route(head.uri.path()).ok_or_else(Problem::not_found)?;
        if !route.methods().iter().any(|(method, _)| *method == head.method) {
            let detail = "the path does not have this method";
            return Err(Problem::new(ProblemCode::MethodNotAllowed, detail));
        }
        if self.0.closing.is_cancelled() {
            return Err(closing());
        }
        tokio::select! {
            biased;
            () = tenant.removed.cancelled() => {
                Err(Problem::new(ProblemCode::Unauthorized, "the tenant was removed"))
            }
            answer = self.0.answer_here(&tenant, route, head, body) => answer,
        }
    }

    /// Returns how the session that a request names has ended.
    fn status_of(&self, head: &Parts) -> Option<&'static str> {
        let tenant = self.tenant(header(&head.headers, &TENANT)?)?;
        let route = session_route(head.uri.path())?;
        Some(tenant.sessions.records.get(route.session()?)?.status.name())
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

impl ApiShared {
    /// Creates a session by a function of its id. In a fleet, it counts before and is recorded after.
    /// Continues after the client has disconnected: what was created is found, or ends.
    pub(super) async fn new_session<F, Created>(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        create: F,
    ) -> Answered<SessionInfo>
    where
        F: FnOnce(String) -> Created + Send + 'static,
        Created: Future<Output = Answered<SessionInfo>> + Send + 'static,
    {
        let (Some(fleet), Some(place)) = (self.options.fleet.clone(), self.place.get()) else {
            return create(new_id()).await;
        };
        let (api, tenant, place) = (self.clone(), tenant.clone(), place.clone());
        let creating =
            tokio::spawn(async move { api.new_in_fleet(&fleet, &tenant, place, create).await });
        creating.await.map_err(|error| Problem::internal(&error))?
    }

    async fn new_in_fleet<Created>(
        self: &Arc<Self>,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        place: SessionPlace,
        create: impl FnOnce(String) -> Created,
    ) -> Answered<SessionInfo>
    where
        Created: Future<Output = Answered<SessionInfo>>,
    {
        let (id, most) = (new_id(), tenant.settings().quotas.sessions);
        if !fleet.hold_session(&tenant.name, &id, &place, most, now()).await? {
            return Err(too_many(most));
        }
        let info = match create(id.clone()).await {
            Ok(info) => info,
            Err(problem) => {
                ended_in(fleet, tenant, &id, SessionStatus::Ended).await;
                return Err(problem);
            }
        };
        let Some(session) = tenant.sessions.active(&id) else {
            ended_in(fleet, tenant, &id, SessionStatus::Expired).await;
            return Ok(info);
        };
        let record = FleetSession {
            id: id.clone(),
            place,
            skills: info.skills.clone(),
            parent: info.parent.clone(),
            created: session.created,
            status: SessionStatus::Active,
            ended: None,
        };
        if let Err(error) = fleet.put_session(&tenant.name, &record).await {
            self.end_session(tenant, &session, SessionStatus::Lost).await?;
            return Err(error.into());
        }
        // It may have expired before there was a record that could say so.
        if tenant.sessions.active(&id).is_none() {
            ended_in(fleet, tenant, &id, SessionStatus::Expired).await;
        }
        Ok(info)
    }

    /// Copies what a session starts from to this disk.
    pub(super) async fn fetch_for_session(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        request: &SessionRequest,
    ) -> Answered<()> {
        let Some(fleet) = &self.options.fleet else { return Ok(()) };
        for skill in request.skills.iter().take(SKILLS) {
            let name = skill.split('@').next().unwrap_or_default();
            let settings = tenant.settings();
            if self.mcp.catalog.get(name).is_none() || settings.policy.hides(name) {
                // One that does not exist is not found here either.
                self.fetch_skill(fleet, tenant, skill).await?;
            }
        }
        match &request.tree {
            Some(tree) => self.fetch_tree_and_files(tenant, tree).await,
            None => self.fetch_sources(fleet, tenant, &request.files).await,
        }
    }

    /// Copies a tree and its files to this disk.
    pub(super) async fn fetch_tree_and_files(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        digest: &str,
    ) -> Answered<()> {
        let Some(fleet) = &self.options.fleet else { return Ok(()) };
        let contents = self.fetch_tree(fleet, tenant, digest).await?;
        self.fetch_sources(fleet, tenant, &contents.files).await
    }

    /// Copies files to this disk. They are checked first.
    async fn fetch_sources(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        files: &BTreeMap<String, FileSource>,
    ) -> Answered<()> {
        self.check_files(files)?;
        self.require_fleet_blobs(fleet, tenant, files).await?;
        for digest in digests(files) {
            if !self.fetch_blob(fleet, tenant, digest).await? {
                let missing = vec![digest.to_owned()];
                let detail = "upload the file with this digest again: PUT /v1/blobs/DIGEST";
                return Err(Problem { missing, ..Problem::new(ProblemCode::BlobsMissing, detail) });
            }
        }
        Ok(())
    }

    /// Stores the new files of changes for all servers and workers, off the event loop.
    pub(super) fn share_changes(&self, tenant: &Tenant, changes: &[FileChange]) -> Answered<()> {
        let digests = changes.iter().filter_map(|change| match &change.after {
            Some(FileState::File { digest, .. }) => Some(digest.as_str()),
            _ => None,
        });
        self.share_blobs(tenant, digests.collect())
    }

    /// Stores blobs of this disk for all servers and workers, off the event loop.
    pub(super) fn share_blobs(&self, tenant: &Tenant, digests: BTreeSet<&str>) -> Answered<()> {
        let Some(fleet) = &self.options.fleet else { return Ok(()) };
        tokio::runtime::Handle::current().block_on(async {
            for digest in digests {
                if fleet.blob_size(&tenant.name, digest).await?.is_none() {
                    let file = tenant.state.blob(digest);
                    let file = file.map_err(|error| Problem::internal(&error))?;
                    self.share(fleet, tenant, digest, &mut file.into_std()).await?;
                }
            }
            Ok(())
        })
    }

    /// Records in the fleet that a program is about to begin. Without the record, it does not begin.
    pub(super) async fn record_begin(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &str,
        id: &str,
        submission: &RunSubmission,
    ) -> Answered<Option<ProgramRecord>> {
        let Some(fleet) = &self.options.fleet else { return Ok(None) };
        let needs = self.needs(tenant, submission).await?.ok_or_else(|| {
            Problem::new(ProblemCode::NoSkill, "the skill of the session is gone")
        })?;
        let request = serde_json::to_vec(submission).map_err(|error| Problem::internal(&error))?;
        let started = now();
        let begun = ProgramRecord {
            id: id.to_owned(),
            session: session.to_owned(),
            skill: needs.pinned,
            request: skillhost_skill::runtime::digest(&request),
            status: RunStatus::Running,
            kind: None,
            exit_code: None,
            started,
            at: started,
            cpu_ms: 0,
            bytes: 0,
        };
        fleet.record_program(&tenant.name, &begun).await?;
        Ok(Some(begun))
    }

    /// Records in the fleet how a program ended. While the brokers do not answer, clients need not
    /// wait: another attempt follows.
    pub(super) async fn record_end(
        &self,
        tenant: &Arc<Tenant>,
        begun: ProgramRecord,
        finished: &FinishedJob,
    ) {
        let Some(fleet) = self.options.fleet.clone() else { return };
        // A worker that is stopping has not begun it.
        let status = match finished.status {
            RunStatus::Queued => RunStatus::Cancelled,
            status => status,
        };
        let end = ProgramRecord {
            status,
            kind: Some(finished.result.kind.clone()),
            exit_code: finished.result.exit_code,
            at: now(),
            cpu_ms: finished.cpu_ms,
            bytes: finished.bytes,
            ..begun
        };
        let name = tenant.name.clone();
        let Err(error) = fleet.record_program(&name, &end).await else { return };
        tracing::warn!(tenant = name, program = end.id, %error, "cannot record the end of a program yet");
        tokio::spawn(async move {
            let until = tokio::time::Instant::now() + STORE.0;
            loop {
                tokio::time::sleep(STORE.1).await;
                match fleet.record_program(&name, &end).await {
                    Ok(()) => return,
                    Err(error) if tokio::time::Instant::now() > until => {
                        tracing::error!(tenant = name, program = end.id, %error, "the end of a program is not recorded in the fleet");
                        return;
                    }
                    Err(_) => {}
                }
            }
        });
    }
}

/// Tells the fleet that a session has ended. A server that asks for it later learns it from here.
pub(super) async fn ended_in(
    fleet: &Arc<dyn Fleet>,
    tenant: &Tenant,
    id: &str,
    status: SessionStatus,
) {
    if let Err(error) = fleet.end_session(&tenant.name, id, status, now()).await {
        tracing::warn!(tenant = tenant.name, session = id, %error, "cannot record the end of a session yet");
    }
}
