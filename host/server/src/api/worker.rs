//! Executes runs of a fleet as this process executes its own: the same preparation, policy, approval,
//! limits and records. The caller takes runs from the queue, and stores what they left.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::executor::{FinishedJob, Job, Starting, execute};
use super::fleet::{Content, Fetched};
use super::problem::{Problem, ProblemCode};
use super::scheduler::Turn;
use super::state::StreamName;
use super::tenant::Tenant;
use super::types::{FileState, RunSubmission};
use super::workspace::{Contents, digests};
use super::{Answered, Api, ApiShared};
use skillhost_ledger::receipt::HOST;
use skillhost_ledger::runs::{RunStatus, Swept};
use skillhost_policy::outcome::Status;
use skillhost_sandbox::ENGINE;

/// A process that executes runs of a fleet. Cheap to clone.
#[derive(Clone)]
pub struct WorkerHost(pub(super) Arc<ApiShared>);

/// A place for one run of a tenant. Dropping it frees the place.
pub struct WorkerTurn(Turn);

/// A run to execute.
pub struct WorkerRun {
    /// The tenant.
    pub tenant: String,
    /// The id of the run.
    pub id: String,
    /// What was submitted, as JSON.
    pub request: String,
    /// The skill with its digest.
    pub skill: String,
    /// Cancelled to end the run.
    pub cancelled: CancellationToken,
    /// Decides at the last moment whether the run starts; the argument says whether it may run again
    /// if nothing is known of its end.
    pub starting: Box<dyn FnOnce(bool) -> BoxFuture<'static, bool> + Send>,
}

/// What came of a run.
pub enum WorkerEnd {
    /// It ended.
    Ended(Box<EndedRun>),
    /// It did not begin, since this worker lacks something that another one may have.
    NotHere(String),
    /// It did not begin, since this host or the brokers failed. That says nothing about the run.
    Faulty(String),
    /// It began, or could not be looked at, and this host failed: nothing is known of its end.
    Broken(String),
}

/// A run that has ended, with all that it left.
pub struct EndedRun {
    /// Where it is in its life.
    pub status: RunStatus,
    /// How it ended.
    pub kind: String,
    /// The exit code of the program.
    pub exit_code: Option<u8>,
    /// Its result, as JSON of the server.
    pub result: String,
    /// Its standard output and error.
    pub streams: [Fetched; 2],
    /// The digests of the files that it wrote.
    pub written: Vec<String>,
    /// Processor time, in milliseconds.
    pub cpu_ms: u64,
    /// Bytes that went in and out.
    pub bytes: u64,
    /// What identifies its result, if later runs may be answered with it.
    pub key: Option<String>,
    /// Whether what it used counts towards a quota of an hour.
    pub is_metered: bool,
}

impl Api {
    /// Returns what executes runs of a fleet in this process.
    pub fn worker(&self) -> WorkerHost {
        WorkerHost(self.0.clone())
    }
}

impl WorkerHost {
    /// This program and its version.
    pub const HOST: &str = HOST;
    /// The engine and its version.
    pub const ENGINE: &str = ENGINE;

    /// Returns the names of the tenants.
    ///
    /// # Errors
    /// The tenants file, or a policy that it names, has changed and cannot be used: it is not known
    /// which tenants there still are, and what they are granted.
    pub fn tenants(&self) -> Result<Vec<String>, String> {
        self.0.is_current()?;
        Ok(self.0.tenants().iter().map(|tenant| tenant.name.clone()).collect())
    }

    /// Waits for a place for a run of a tenant; `None` if there is no such tenant. Tenants take turns,
    /// weighted by their quotas.
    pub async fn turn(&self, tenant: &str) -> Option<WorkerTurn> {
        let tenant = self.tenant(tenant)?;
        let quota = tenant.settings().quotas.running;
        let turn = self.0.scheduler.enter(&tenant.name, quota).await;
        // No run computes yet, and no other one waits for this core: brokers hand out the next one.
        turn.core().leave();
        Some(WorkerTurn(turn))
    }

    /// Executes a run.
    pub async fn execute(&self, run: WorkerRun, WorkerTurn(turn): WorkerTurn) -> WorkerEnd {
        let Some(tenant) = self.tenant(&run.tenant) else {
            return WorkerEnd::NotHere("this worker does not serve the tenant".into());
        };
        match self.ended(&tenant, run, turn).await {
            Ok(end) => end,
            Err(problem) => not_begun(problem),
        }
    }

    /// Bounds the streams of sessions that servers forward to this worker.
    pub(crate) fn share_connections(&self, connections: usize) {
        self.0.streams.leave_room(connections);
    }

    async fn ended(&self, tenant: &Arc<Tenant>, run: WorkerRun, turn: Turn) -> Answered<WorkerEnd> {
        let WorkerRun { id, request, skill, cancelled, starting, .. } = run;
        let Ok(mut submission) = serde_json::from_str::<RunSubmission>(&request) else {
            return Ok(WorkerEnd::NotHere("the run needs another version of skillhost".into()));
        };
        submission.skill.clone_from(&skill);
        let here = self.0.needs(tenant, &submission).await?;
        // One that the server could not load has no digest.
        let is_other = |pinned: &str| skill.contains("sha256:") && pinned != skill;
        if here.is_none_or(|here| is_other(&here.pinned)) {
            return Ok(WorkerEnd::NotHere(format!("this worker does not have {skill}")));
        }
        if let Some(digest) = self.fetch_files(tenant, &submission).await? {
            // No other worker would find it either.
            let message = format!("a file of the run, {digest}, has expired");
            let fix = Some("upload it, and submit the run again with a new key".into());
            let status = Status::Failed { message, fix };
            let finished = FinishedJob::not_run(status, &tenant.settings().hidden);
            return ended_run(tenant, &id, finished);
        }
        // From here on, the run may have had an effect, whatever fails.
        let end = self.executed(tenant, &id, submission, turn, cancelled, starting).await;
        Ok(end.unwrap_or_else(|problem| WorkerEnd::Broken(problem.detail)))
    }

    /// Executes a run that was prepared.
    async fn executed(
        &self,
        tenant: &Arc<Tenant>,
        id: &str,
        submission: RunSubmission,
        turn: Turn,
        cancelled: CancellationToken,
        starting: Starting,
    ) -> Answered<WorkerEnd> {
        let job = Job {
            id: id.to_owned(),
            submission: Arc::new(submission),
            turn,
            cancelled,
            starting: Some(starting),
        };
        let executing = execute(self.0.clone(), tenant.clone(), job, None);
        let executing = self.0.threads.spawn(None, executing, std::future::ready);
        let finished = executing.await.map_err(|error| Problem::internal(&error))?;
        if finished.status == RunStatus::Queued {
            return Ok(WorkerEnd::NotHere("the worker is stopping".into()));
        }
        ended_run(tenant, id, finished)
    }

    /// Opens a file that a run wrote.
    ///
    /// # Errors
    /// It is not there, or cannot be opened.
    pub fn written(&self, tenant: &str, digest: &str) -> std::io::Result<std::fs::File> {
        let tenant = self.tenant(tenant).ok_or(std::io::ErrorKind::NotFound)?;
        Ok(tenant.state.blob(digest)?.into_std())
    }

    /// Copies the files of a run to this disk. Returns one that is missing.
    async fn fetch_files(
        &self,
        tenant: &Arc<Tenant>,
        submission: &RunSubmission,
    ) -> Answered<Option<String>> {
        let Some(fleet) = &self.0.options.fleet else { return Ok(None) };
        let contents = match &submission.tree {
            None => Contents::from(&submission.files),
            Some(tree) => match self.0.fetch_tree(fleet, tenant, tree).await {
                Ok(contents) => contents,
                Err(problem) if problem.code == ProblemCode::BlobsMissing => {
                    return Ok(Some(tree.clone()));
                }
                Err(problem) => return Err(problem),
            },
        };
        for digest in digests(&contents.files) {
            if !self.0.fetch_blob(fleet, tenant, digest).await? {
                return Ok(Some(digest.to_owned()));
            }
        }
        Ok(None)
    }

    /// Returns what was submitted, as JSON.
    ///
    /// # Errors
    /// It is missing, has another digest, or cannot be read: what comes of the run.
    pub async fn request(&self, tenant: &str, content: &Content) -> Result<Vec<u8>, WorkerEnd> {
        let (Some(tenant), Some(fleet)) = (self.tenant(tenant), &self.0.options.fleet) else {
            return Err(WorkerEnd::NotHere("this worker does not serve the tenant".into()));
        };
        if let Content::Blob(digest) = content
            && !self.0.fetch_blob(fleet, &tenant, digest).await.map_err(not_begun)?
        {
            return Err(WorkerEnd::NotHere(format!(
                "the request of the run, {digest}, is missing"
            )));
        }
        let most = self.0.options.bounds.body;
        self.0.fleet_output(fleet, &tenant, content, 0, most).await.map_err(not_begun)
    }

    /// Returns the output of a run in progress after these positions, at most `most` bytes each.
    pub fn output(&self, tenant: &str, id: &str, at: [u64; 2], most: usize) -> [Vec<u8>; 2] {
        let Some(tenant) = self.tenant(tenant) else { return Default::default() };
        let read = |stream, at| -> Option<Vec<u8>> {
            tenant.state.output(id, stream).ok()?.at(at, most).ok()
        };
        [
            read(StreamName::Stdout, at[0]).unwrap_or_default(),
            read(StreamName::Stderr, at[1]).unwrap_or_default(),
        ]
    }

    /// Removes what a run left on this disk: it is stored elsewhere.
    pub fn forget(&self, tenant: &str, id: &str) {
        if let Some(tenant) = self.tenant(tenant) {
            tenant.state.remove(&Swept { runs: vec![id.to_owned()], ..Swept::default() });
        }
    }

    /// Starts no more runs.
    pub fn close(&self) {
        self.0.closing.cancel();
    }

    pub(super) fn tenant(&self, name: &str) -> Option<Arc<Tenant>> {
        self.0.tenants().into_iter().find(|tenant| tenant.name == name)
    }
}

/// Returns what comes of a run that could not be prepared. What another worker would refuse as well must
/// not count as a fault: a run is put off without end for faults.
fn not_begun(problem: Problem) -> WorkerEnd {
    match problem.code {
        ProblemCode::Internal | ProblemCode::FleetUnavailable => WorkerEnd::Faulty(problem.detail),
        _ => WorkerEnd::NotHere(problem.detail),
    }
}

/// Returns a run that has ended, with what it left on this disk.
fn ended_run(tenant: &Tenant, id: &str, finished: FinishedJob) -> Answered<WorkerEnd> {
    let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
    let open = |stream| match tenant.state.output(id, stream) {
        // It did not start.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(Fetched::Bytes(Vec::new()))
        }
        opened => opened,
    };
    let streams = [
        open(StreamName::Stdout).map_err(|error| internal(&error))?,
        open(StreamName::Stderr).map_err(|error| internal(&error))?,
    ];
    let written = finished.result.changes.iter().filter_map(|change| match &change.after {
        Some(FileState::File { digest, .. }) => Some(digest.clone()),
        _ => None,
    });
    let written = written.collect();
    Ok(WorkerEnd::Ended(Box::new(EndedRun {
        status: finished.status,
        kind: finished.result.kind.clone(),
        exit_code: finished.result.exit_code,
        result: serde_json::to_string(&finished.result).map_err(|error| internal(&error))?,
        streams,
        written,
        cpu_ms: finished.cpu_ms,
        bytes: finished.bytes,
        key: finished.key,
        is_metered: tenant.settings().quotas.has_hourly(),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::fleet::FleetError;

    #[test]
    fn only_a_fault_of_the_host_or_the_brokers_says_nothing_about_a_run() {
        let unavailable = FleetError::Unavailable("no leader".into());
        for fault in [Problem::internal(&"the disk is full"), unavailable.into()] {
            assert!(matches!(not_begun(fault), WorkerEnd::Faulty(_)));
        }
        let untrusted = FleetError::Untrusted("another digest".into());
        let invalid = Problem::new(ProblemCode::SkillInvalid, "no frontmatter");
        for lack in [untrusted.into(), invalid] {
            assert!(matches!(not_begun(lack), WorkerEnd::NotHere(_)));
        }
    }
}
