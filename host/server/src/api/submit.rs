//! Accepts runs, drives each to its end, and answers for it.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::executor::{FinishedJob, Job, StoredResult};
use super::problem::{Problem, ProblemCode};
use super::state::{hex_of, is_inside, now};
use super::tenant::{LiveRun, Tenant, TenantSettings};
use super::types::{RunInfo, RunList, RunResult, RunSubmission, RunTarget};
use super::{Answered, ApiShared};
use skillhost_ledger::runs::{NewRun, RunFilter, RunStatus, StoredRun, Submitted};
use skillhost_policy::outcome::Status;
use skillhost_skill::runtime::hex;

/// The most characters of an idempotency key.
const KEY: usize = 255;
/// The longest text in a submission, in bytes: `MAX_ARG_STRLEN` of Linux.
const TEXT: usize = 128 << 10;
/// How long an answer to a cancellation waits for the run to end.
const CANCELLED: Duration = Duration::from_secs(1);

/// A run that was accepted.
pub(super) struct Accepted {
    pub(super) run: RunInfo,
    /// Whether it was submitted before, under the same key.
    pub(super) is_repeated: bool,
}

impl ApiShared {
    /// Accepts a run, or answers for the one that was submitted under the same key.
    pub(super) fn submit(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        submission: RunSubmission,
        key: Option<&str>,
    ) -> Answered<Accepted> {
        let settings = tenant.settings();
        self.check(&submission)?;
        if let Some(key) = key
            && (key.is_empty()
                || key.len() > KEY
                || !key.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            let detail = format!("`Idempotency-Key` must have 1 to {KEY} visible ASCII characters");
            return Err(Problem::invalid(detail));
        }
        let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
        let request = serde_json::to_string(&submission).map_err(|error| internal(&error))?;
        let digest = hex(&Sha256::digest(request.as_bytes()));
        if self.closing.is_cancelled() {
            return Err(closing());
        }
        within_quotas(tenant, &settings)?;
        let skill = self.find_skill(tenant, &settings, &submission.skill);
        if skill.map_err(|error| internal(&error))?.is_none() {
            let detail =
                "`skill` names no skill of this server, and none that this tenant uploaded";
            return Err(Problem::new(ProblemCode::NoSkill, detail));
        }
        require_blobs(tenant, &submission)?;
        let id = format!("{:032x}", rand::random::<u128>());
        let new = NewRun {
            id: &id,
            skill: &submission.skill,
            request: &request,
            key: key.map(|key| (key, &*digest)),
            most_queued: settings.quotas.queued,
            now: now(),
        };
        // Known before it is stored, so that no request finds a queued run that nobody drives.
        let live = tenant.add_live(&id);
        let submitted = tenant.state.store.submit(&new);
        if !matches!(submitted, Ok(Submitted::New)) {
            tenant.remove_live(&id, RunStatus::Lost);
        }
        match submitted.map_err(|error| internal(&error))? {
            Submitted::New => self.drive(tenant, id.clone(), submission, live),
            Submitted::Repeated(id) => {
                return Ok(Accepted { run: self.info(tenant, &id)?, is_repeated: true });
            }
            Submitted::OtherBody => {
                let detail = "use a new key for another request; a key is remembered for 24 hours";
                return Err(Problem::new(ProblemCode::KeyConflict, detail));
            }
            Submitted::Full => {
                let detail = format!("at most {} runs may be queued", settings.quotas.queued);
                return Err(Problem::new(ProblemCode::QueueFull, detail).retry_after(1));
            }
        }
        Ok(Accepted { run: self.info(tenant, &id)?, is_repeated: false })
    }

    /// Checks what does not depend on the state.
    fn check(&self, submission: &RunSubmission) -> Answered<()> {
        let bounds = &self.options.bounds;
        let RunSubmission { skill, target, args, files, .. } = submission;
        if args.len() > bounds.args {
            return Err(Problem::invalid(format!("at most {} `args`", bounds.args)));
        }
        if files.len() > bounds.files {
            return Err(Problem::invalid(format!("at most {} `files`", bounds.files)));
        }
        let text = match target {
            RunTarget::Main => "",
            RunTarget::Script(text) | RunTarget::Command(text) => text,
            RunTarget::Tool(call) => &call.name,
        };
        if args.iter().chain([skill]).any(|arg| arg.len() > TEXT || arg.contains('\0'))
            || text.len() > TEXT
            || text.contains('\0')
        {
            let detail = format!("a text may have {TEXT} bytes, and no NUL");
            return Err(Problem::invalid(detail));
        }
        for (path, file) in files {
            if !is_inside(path) {
                let detail =
                    "a path in `files` must be relative, without `.`, `..` and control characters";
                return Err(Problem::invalid(detail));
            }
            let is_digest = file.digest.as_deref().is_none_or(|digest| hex_of(digest).is_some());
            if file.digest.is_some() == file.content.is_some() || !is_digest {
                let detail =
                    "a file needs either `digest`, as `sha256:` and 64 hex digits, or `content`";
                return Err(Problem::invalid(detail));
            }
        }
        Ok(())
    }

    /// Starts to drive a run, in the place in the queue that it gets now.
    fn drive(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        id: String,
        submission: RunSubmission,
        live: Arc<LiveRun>,
    ) {
        let turn = self.scheduler.enter(&tenant.name, tenant.settings().quotas.running);
        let (api, tenant) = (self.clone(), tenant.clone());
        tokio::spawn(async move {
            let turn = tokio::select! {
                biased;
                () = tenant.removed.cancelled() => return,
                () = live.cancel.cancelled() => None,
                turn = turn => Some(turn),
            };
            // What is still queued runs when the next server starts.
            if turn.is_some() && api.closing.is_cancelled() {
                return;
            }
            match turn {
                None => finish(&tenant, &id, RunStatus::Cancelled, None),
                Some(_turn) => api.execute(&tenant, &id, submission, &live).await,
            }
        });
    }

    async fn execute(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        id: &str,
        submission: RunSubmission,
        live: &Arc<LiveRun>,
    ) {
        match tenant.state.store.start(id, now()) {
            Ok(true) => {
                live.status.send_replace(RunStatus::Running);
            }
            Ok(false) => return tenant.remove_live(id, RunStatus::Lost),
            Err(error) => {
                tracing::error!(tenant = tenant.name, run = id, %error, "cannot start a run");
                return tenant.remove_live(id, RunStatus::Lost);
            }
        }
        let job = Job { id: id.to_owned(), submission, cancelled: live.cancel.clone() };
        // A panic ends this run and no other.
        let executing = tokio::spawn(self.executor.execute(self.clone(), tenant.clone(), job));
        let finished = executing.await.unwrap_or_else(|error| {
            tracing::error!(tenant = tenant.name, run = id, %error, "a run failed on the host");
            let message = "the host failed; its log says why".into();
            FinishedJob::not_run(Status::Failed { message, fix: None }, &tenant.settings().hidden)
        });
        if finished.status == RunStatus::Queued {
            // The server is stopping, and the run has not begun.
            if let Err(error) = tenant.state.store.requeue(id) {
                tracing::error!(tenant = tenant.name, run = id, %error, "cannot requeue a run");
            }
            return tenant.remove_live(id, RunStatus::Queued);
        }
        let FinishedJob { status, result, cpu_ms, bytes } = finished;
        if let Err(error) = tenant.state.store.charge(cpu_ms, bytes, now()) {
            tracing::error!(tenant = tenant.name, %error, "cannot count what a run used");
        }
        finish(tenant, id, status, Some(&result));
    }

    /// Drives the runs that a previous server left in the queue.
    pub(super) fn resume(self: &Arc<Self>, tenant: &Arc<Tenant>) {
        let queued = tenant.state.store.queued().unwrap_or_else(|error| {
            tracing::error!(tenant = tenant.name, %error, "cannot read the queue");
            Vec::new()
        });
        for StoredRun { id, request, .. } in queued {
            match serde_json::from_str::<RunSubmission>(&request) {
                Ok(submission) => {
                    let live = tenant.add_live(&id);
                    self.drive(tenant, id, submission, live);
                }
                Err(error) => {
                    tracing::error!(tenant = tenant.name, run = id, %error, "cannot read a queued run");
                    finish(tenant, &id, RunStatus::Lost, None);
                }
            }
        }
    }

    /// Returns where a run is in its life.
    pub(super) fn info(&self, tenant: &Tenant, id: &str) -> Answered<RunInfo> {
        Ok(info(&self.stored(tenant, id)?))
    }

    fn stored(&self, tenant: &Tenant, id: &str) -> Answered<StoredRun> {
        let found = tenant.state.store.get(id).map_err(|error| Problem::internal(&error))?;
        found.ok_or_else(Problem::not_found)
    }

    /// Waits until a run has ended, at most this long.
    pub(super) async fn wait(
        &self,
        tenant: &Tenant,
        id: &str,
        within: Duration,
    ) -> Answered<RunInfo> {
        let found = self.info(tenant, id)?;
        if found.status.has_ended() {
            return Ok(found);
        }
        if let Some(live) = tenant.live(id) {
            let mut status = live.status.subscribe();
            let ended = status.wait_for(|status| status.has_ended());
            tokio::select! {
                // Not ended in time, or the run was left for the next server.
                _ = tokio::time::timeout(within, ended) => {}
                () = self.closing.cancelled() => {}
            }
        }
        self.info(tenant, id)
    }

    /// Cancels a run. A run that has ended stays as it is.
    pub(super) async fn cancel(&self, tenant: &Tenant, id: &str) -> Answered<RunInfo> {
        self.stored(tenant, id)?;
        if let Some(live) = tenant.live(id) {
            live.cancel.cancel();
        }
        self.wait(tenant, id, CANCELLED).await
    }

    /// Returns the result of a run that has ended.
    pub(super) fn result(&self, tenant: &Tenant, id: &str) -> Answered<RunResult> {
        let stored = self.stored(tenant, id)?;
        let run = info(&stored);
        if !run.status.has_ended() {
            let detail =
                format!("it is {}; wait for its end at /v1/runs/{id}/wait", run.status.name());
            return Err(Problem::new(ProblemCode::NotEnded, detail));
        }
        match stored.result.as_deref() {
            Some(result) => {
                let result: StoredResult =
                    serde_json::from_str(result).map_err(|error| Problem::internal(&error))?;
                result.with_streams(tenant, run).map_err(|error| Problem::internal(&error))
            }
            None => Ok(RunResult {
                run,
                outcome: None,
                stdout_truncated: false,
                stderr_truncated: false,
                changes: Vec::new(),
                diff: String::new(),
                receipt: None,
            }),
        }
    }

    pub(super) fn list(&self, tenant: &Tenant, filter: &RunFilter) -> Answered<RunList> {
        let mut found =
            tenant.state.store.list(filter).map_err(|error| Problem::internal(&error))?;
        let is_full = found.len() as u64 == u64::from(filter.limit);
        let next = found.last().filter(|_| is_full).map(|run| run.seq.to_string());
        Ok(RunList { runs: found.drain(..).map(|run| info(&run)).collect(), next })
    }
}

/// Stores the end of a run.
fn finish(tenant: &Tenant, id: &str, status: RunStatus, result: Option<&StoredResult>) {
    let text = result.map(|result| serde_json::to_string(result).unwrap_or_default());
    if let Err(error) = tenant.state.store.end(id, status, text.as_deref(), now()) {
        tracing::error!(tenant = tenant.name, run = id, %error, "cannot store the end of a run");
    }
    tenant.remove_live(id, status);
}

/// Refuses a run of a tenant that has used up what it may use in an hour.
pub(super) fn within_quotas(tenant: &Tenant, settings: &TenantSettings) -> Answered<()> {
    let used = tenant.state.store.usage(now()).map_err(|error| Problem::internal(&error))?;
    let quotas = &settings.quotas;
    let wait = |code, detail: String| Err(Problem::new(code, detail).retry_after(used.expires_in));
    if let Some(seconds) = quotas.cpu_seconds_per_hour
        && used.cpu_ms >= seconds.saturating_mul(1000)
    {
        return wait(ProblemCode::CpuQuota, format!("{seconds} s of processor time in an hour"));
    }
    if let Some(bytes) = quotas.bytes_per_hour
        && used.bytes >= bytes.0
    {
        return wait(ProblemCode::BytesQuota, format!("{} bytes in an hour", bytes.0));
    }
    Ok(())
}

/// Refuses a run whose files have to be uploaded first, and keeps the others from expiring.
fn require_blobs(tenant: &Tenant, submission: &RunSubmission) -> Answered<()> {
    let mut missing = Vec::new();
    for digest in submission.files.values().filter_map(|file| file.digest.as_deref()) {
        let found = tenant.state.store.use_blob(digest, now());
        if found.map_err(|error| Problem::internal(&error))?.is_none() {
            missing.push(digest.to_owned());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    missing.sort();
    missing.dedup();
    let detail = "upload the files with these digests: PUT /v1/blobs/DIGEST";
    Err(Problem { missing, ..Problem::new(ProblemCode::BlobsMissing, detail) })
}

pub(super) fn closing() -> Problem {
    Problem::new(ProblemCode::Closing, "another server takes over").retry_after(5)
}

fn info(run: &StoredRun) -> RunInfo {
    let result =
        run.result.as_deref().and_then(|text| serde_json::from_str::<ResultHead>(text).ok());
    RunInfo {
        id: run.id.clone(),
        status: run.status,
        skill: run.skill.clone(),
        submitted: time(run.submitted),
        started: run.started.map(time),
        ended: run.ended.map(time),
        exit_code: result.as_ref().and_then(|result| result.exit_code),
        outcome: result.and_then(|result| result.kind),
    }
}

/// The part of a stored result that every answer has.
#[derive(serde::Deserialize)]
struct ResultHead {
    kind: Option<String>,
    exit_code: Option<u8>,
}

fn time(milliseconds: i64) -> String {
    jiff::Timestamp::from_millisecond(milliseconds)
        .map_or_else(|_| String::new(), |at| at.to_string())
}
