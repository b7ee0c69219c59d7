//! Sessions of agents over MCP: those of the run API, without HTTP between. An agent reaches the
//! sessions that it has created, and no others; they end with it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::problem::Problem;
use super::super::state::new_id;
use super::super::tenant::Tenant;
use super::super::tenants::AGENTS;
use super::super::types::RunResult;
use super::super::uploads::blocking;
use super::super::{Answered, Api, ApiShared};
use super::Session;
use super::files::View;
use super::programs::EndOnDrop;
use super::types::{
    FileList, ProgramRequest, SessionChanges, SessionInfo, SessionRequest, SessionStatus,
    SnapshotInfo,
};

/// The sessions of one agent.
pub(crate) struct AgentSessions {
    api: Arc<ApiShared>,
    tenant: Arc<Tenant>,
    own: Mutex<BTreeSet<String>>,
}

impl AgentSessions {
    /// Starts without any. `None` if the API is not for agents.
    pub(crate) fn new(api: &Api) -> Option<AgentSessions> {
        let tenant = api.0.tenants().into_iter().find(|tenant| tenant.name == AGENTS)?;
        Some(AgentSessions { api: api.0.clone(), tenant, own: Mutex::default() })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.own().is_empty()
    }

    pub(crate) async fn create(&self, request: SessionRequest) -> Answered<SessionInfo> {
        let (api, tenant) = (self.api.clone(), self.tenant.clone());
        let info = blocking(move || api.create_session(&tenant, request, new_id())).await?;
        self.own().insert(info.id.clone());
        Ok(info)
    }

    /// Runs a program to its end. Dropping the future ends the program.
    pub(crate) async fn run(&self, id: &str, request: ProgramRequest) -> Answered<RunResult> {
        let session = self.get(id)?;
        let program = self.api.begin_program(&self.tenant, &session, request).await?;
        let _ends = EndOnDrop(program.clone());
        program.end().await;
        self.api.program_result(&self.tenant, program).await
    }

    /// Returns the first bytes of a file, and how many it has.
    pub(crate) async fn read(
        &self,
        id: &str,
        path: String,
        most: usize,
    ) -> Answered<(Vec<u8>, u64)> {
        self.with_files(id, path, move |view, path| view.start(path, most)).await
    }

    pub(crate) async fn write(&self, id: &str, path: String, text: String) -> Answered<()> {
        let tenant = self.tenant.clone();
        self.with_files(id, path, move |view, path| {
            let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
            let mut upload = tenant.state.upload().map_err(|error| internal(&error))?;
            upload.write(text.as_bytes()).map_err(|error| internal(&error))?;
            tenant.charge_blocking(0, upload.bytes);
            let file = upload.reopen().map_err(|error| internal(&error))?;
            view.replace(path, &file, upload.bytes, None)
        })
        .await
    }

    pub(crate) async fn list(&self, id: &str, path: String, all: bool) -> Answered<FileList> {
        let session = self.get(id)?;
        self.api.list_files(&session, path, all).await
    }

    /// Returns what the session changed; with `accept`, the next changes are relative to it.
    pub(crate) async fn diff(&self, id: &str, accept: bool) -> Answered<SessionChanges> {
        let session = self.get(id)?;
        match accept {
            true => self.api.apply_session(&self.tenant, &session).await,
            false => self.api.session_diff(&self.tenant, &session).await,
        }
    }

    /// Drops what the session changed.
    pub(crate) async fn drop_changes(&self, id: &str) -> Answered<()> {
        let session = self.get(id)?;
        self.api.drop_changes(&session).await.map(drop)
    }

    /// Creates another session with the same files.
    pub(crate) async fn fork(&self, id: &str) -> Answered<SessionInfo> {
        let session = self.get(id)?;
        let info = self.api.fork_session(&self.tenant, &session).await?;
        self.own().insert(info.id.clone());
        Ok(info)
    }

    /// Stores the files of `/workspace`, and returns their name.
    pub(crate) async fn snapshot(&self, id: &str) -> Answered<SnapshotInfo> {
        let session = self.get(id)?;
        self.api.snapshot_session(&self.tenant, &session).await
    }

    /// Gives `/workspace` the files of a snapshot.
    pub(crate) async fn restore(&self, id: &str, tree: String) -> Answered<()> {
        let session = self.get(id)?;
        self.api.restore_session(&self.tenant, &session, tree).await.map(drop)
    }

    pub(crate) async fn end(&self, id: &str) -> Answered<SessionInfo> {
        let session = self.get(id)?;
        let info = self.api.end_session(&self.tenant, &session, SessionStatus::Ended).await?;
        self.own().remove(id);
        Ok(info)
    }

    /// Returns one of its sessions.
    fn get(&self, id: &str) -> Answered<Arc<Session>> {
        match self.own().contains(id) {
            true => self.tenant.sessions.get(id),
            false => Err(Problem::not_found()),
        }
    }

    async fn with_files<T: Send + 'static>(
        &self,
        id: &str,
        path: String,
        act: impl FnOnce(&View, &str) -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        let session = self.get(id)?;
        let guard = session.enter().await?;
        blocking(move || {
            let _guard = guard;
            let (view, path) = View::find(&session, &path)?;
            act(&view, &path)
        })
        .await
    }

    fn own(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AgentSessions {
    fn drop(&mut self) {
        let ids = std::mem::take(&mut *self.own());
        let Ok(event_loop) = tokio::runtime::Handle::try_current() else { return };
        for id in ids {
            let (api, tenant) = (self.api.clone(), self.tenant.clone());
            let Some(session) = tenant.sessions.active(&id) else { continue };
            event_loop.spawn(async move {
                api.end_session(&tenant, &session, SessionStatus::Ended).await.ok();
            });
        }
    }
}
