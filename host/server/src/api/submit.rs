//! Accepts runs, drives each to its end, and answers for it.
//!
//! What waits for its turn is in the store: in memory, a queued run is an id.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::executor::{FinishedJob, Job, StoredResult, execute};
use super::fleet::local_start;
use super::problem::{Problem, ProblemCode};
use super::scheduler::Turn;
use super::state::{count_folders, hex_of, is_inside, now};
use super::tenant::{LiveRun, Tenant};
use super::types::{RunInfo, RunList, RunResult, RunSubmission, RunTarget};
use super::uploads::blocking;
use super::{Answered, ApiShared};
use skillhost_ledger::runs::{EndOfRun, NewRun, RunFilter, RunStatus, StoredRun, Submitted};
use skillhost_policy::outcome::Status;
use skillhost_skill::runtime::hex;

/// The most characters of an idempotency key.
const KEY: usize = 255;
/// The longest text in a submission, in bytes: `MAX_ARG_STRLEN` of Linux.
const TEXT: usize = 128 << 10;
/// The most bytes of the input of a tool, as JSON.
const INPUT: usize = 1 << 20;
/// The most time before another look at a run that this server does not drive.
const NOT_LIVE: Duration = Duration::from_secs(1);
/// How long an answer to a cancellation waits for the run to end.
pub(super) const CANCELLED: Duration = Duration::from_secs(1);

/// A run that was accepted.
pub(super) struct Accepted {
    pub(super) run: RunInfo,
    /// Whether it was submitted before, under the same key.
    pub(super) is_repeated: bool,
}

impl ApiShared {
    /// Accepts a run that was checked, or answers for the one that was submitted under the same key.
    /// Waits for the disk.
    pub(super) fn submit(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        mut submission: RunSubmission,
        key: Option<&str>,
    ) -> Answered<Accepted> {
        let settings = tenant.settings();
        check_key(key)?;
        let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
        let (request, digest) = canonical(&mut submission)?;
        let key = key.map(|key| (key, &*digest));
        // Before all that may have changed since the first attempt.
        if let Some(key) = key {
            let before = tenant.state.store.submitted_before(key, now());
            if let Some(before) = before.map_err(|error| internal(&error))? {
                return self.submitted(tenant, before);
            }
        }
        if self.closing.is_cancelled() {
            return Err(closing());
        }
        tenant.require_quotas_blocking()?;
        let skill = self.find_skill(tenant, &settings, &submission.skill);
        if skill.map_err(|error| internal(&error))?.is_none() {
            let detail =
                "`skill` names no skill of this server, and none that this tenant uploaded";
            return Err(Problem::new(ProblemCode::NoSkill, detail));
        }
        let blobs = require_blobs(tenant, &submission, self.options.bounds.workspace)?;
        let id = format!("{:032x}", rand::random::<u128>());
        let new = NewRun {
            id: &id,
            skill: &submission.skill,
            request: &request,
            blobs: &blobs,
            key,
            most_queued: settings.quotas.queued,
            now: now(),
        };
        // Registered before it is stored, so that no request finds a queued run without a task.
        let live = tenant.add_live(&id);
        let submitted = tenant.state.store.submit(&new);
        if !matches!(submitted, Ok(Submitted::New)) {
            tenant.remove_live(&id, RunStatus::Lost);
        }
        match submitted.map_err(|error| internal(&error))? {
            Submitted::New => {
                self.drive(tenant, id.clone(), live);
                Ok(Accepted { run: self.info(tenant, &id)?, is_repeated: false })
            }
            other => self.submitted(tenant, other),
        }
    }

    /// Refuses a run of a tenant whose queue is full, before it costs anything: a tenant that floods the
    /// queue must not delay others. The store decides about the last places.
    pub(super) fn require_room(&self, tenant: &Tenant) -> Answered<()> {
        let most = tenant.settings().quotas.queued;
        match tenant.queued() >= most {
            true => Err(queue_full(most)),
            false => Ok(()),
        }
    }

    /// Answers a submission that added no run.
    pub(super) fn submitted(&self, tenant: &Tenant, submitted: Submitted) -> Answered<Accepted> {
        match submitted {
            Submitted::New => Err(Problem::internal(&"a run was added twice")),
            Submitted::Repeated(id) => {
                Ok(Accepted { run: self.info(tenant, &id)?, is_repeated: true })
            }
            Submitted::OtherBody => {
                let detail = "use a new key for another request; a key is remembered for 24 hours";
                Err(Problem::new(ProblemCode::KeyConflict, detail))
            }
            Submitted::Full => Err(queue_full(tenant.settings().quotas.queued)),
        }
    }

    /// Checks what does not depend on the state.
    pub(super) fn check(&self, submission: &RunSubmission) -> Answered<()> {
        let bounds = &self.options.bounds;
        let RunSubmission { skill, target, args, files, .. } = submission;
        if args.len() > bounds.args {
            return Err(Problem::invalid(format!("at most {} `args`", bounds.args)));
        }
        if files.len() > bounds.files {
            return Err(Problem::invalid(format!("at most {} `files`", bounds.files)));
        }
        check_folders(files.keys(), bounds.files)?;
        let text = match target {
            RunTarget::Main => "",
            RunTarget::Script(text) | RunTarget::Command(text) => text,
            RunTarget::Tool(call) => &call.name,
        };
        if let RunTarget::Tool(call) = target
            && serde_json::to_writer(Room(INPUT), &call.input).is_err()
        {
            return Err(Problem::invalid(format!("the `input` of a tool may have {INPUT} bytes")));
        }
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
    fn drive(self: &Arc<Self>, tenant: &Arc<Tenant>, id: String, live: Arc<LiveRun>) {
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
                None => finish(tenant, id, FinishedRun::without_result(RunStatus::Cancelled)).await,
                Some(turn) => api.execute(tenant, id, turn, &live).await,
            }
        });
    }

    async fn execute(
        self: &Arc<Self>,
        tenant: Arc<Tenant>,
        id: String,
        turn: Turn,
        live: &Arc<LiveRun>,
    ) {
        // Known at once, so that a server that stops waits for the run.
        live.status.send_replace(RunStatus::Running);
        let begun = {
            let (tenant, id) = (tenant.clone(), id.clone());
            tokio::task::spawn_blocking(move || begin(&tenant, &id)).await
        };
        let submission = match begun.map_err(|error| Problem::internal(&error)) {
            Ok(Ok(Some(submission))) => Arc::new(submission),
            Ok(Ok(None)) | Err(_) => return tenant.remove_live(&id, RunStatus::Lost),
            Ok(Err(error)) => {
                tracing::error!(tenant = tenant.name, run = id, %error, "cannot start a run");
                return finish(tenant, id, FinishedRun::without_result(RunStatus::Lost)).await;
            }
        };
        let cancelled = live.cancel.clone();
        let job = Job { id: id.clone(), submission, turn, cancelled, starting: None };
        let is_first = job.turn.is_first();
        let executing =
            self.threads.spawn(is_first, execute(self.clone(), tenant.clone(), job, None));
        let finished = executing.await.unwrap_or_else(|error| {
            tracing::error!(tenant = tenant.name, run = id, %error, "a run failed on the host");
            let message = "the host failed; its log says why".into();
            FinishedJob::not_run(Status::Failed { message, fix: None }, &tenant.settings().hidden)
        });
        if finished.status == RunStatus::Queued {
            // The server is stopping, and the run has not begun.
            let requeue = move || {
                if let Err(error) = tenant.state.store.requeue(&id) {
                    tracing::error!(tenant = tenant.name, run = id, %error, "cannot requeue a run");
                }
                tenant.state.close_output(&id);
                tenant.remove_live(&id, RunStatus::Queued);
            };
            // It fails only by a panic, which is reported.
            tokio::task::spawn_blocking(requeue).await.ok();
            return;
        }
        let FinishedJob { status, result, cpu_ms, bytes, key } = finished;
        finish(tenant, id, FinishedRun { status, result: Some(result), cpu_ms, bytes, key }).await;
    }

    /// Drives the runs that a previous server left in the queue.
    pub(super) fn resume(self: &Arc<Self>, tenant: &Arc<Tenant>) {
        let queued = tenant.state.store.queued().unwrap_or_else(|error| {
            tracing::error!(tenant = tenant.name, %error, "cannot read the queue");
            Vec::new()
        });
        for id in queued {
            let live = tenant.add_live(&id);
            self.drive(tenant, id, live);
        }
    }

    /// Returns where a run is in its life.
    pub(super) fn info(&self, tenant: &Tenant, id: &str) -> Answered<RunInfo> {
        Ok(info(&self.stored(tenant, id)?))
    }

    /// Returns where a run is in its life, and reads the store off the event loop.
    pub(super) async fn look(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        id: &str,
    ) -> Answered<RunInfo> {
        if let Some(fleet) = &self.options.fleet {
            return self.fleet_run(fleet, tenant, id).await;
        }
        let (api, tenant, id) = (self.clone(), tenant.clone(), id.to_owned());
        blocking(move || api.info(&tenant, &id)).await
    }

    fn stored(&self, tenant: &Tenant, id: &str) -> Answered<StoredRun> {
        let found = tenant.state.store.get(id).map_err(|error| Problem::internal(&error))?;
        found.ok_or_else(Problem::not_found)
    }

    /// Waits until a run has ended, at most this long.
    pub(super) async fn wait(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        id: &str,
        within: Duration,
    ) -> Answered<RunInfo> {
        if let Some(fleet) = &self.options.fleet {
            return self.wait_in(fleet, tenant, id, within).await;
        }
        let live = tenant.live(id);
        let found = self.look(tenant, id).await?;
        if found.status.has_ended() {
            return Ok(found);
        }
        let ended = async {
            match &live {
                // Not ended in time, or the run was left for the next server.
                Some(live) => {
                    let mut status = live.status.subscribe();
                    let ended = status.wait_for(|status| status.has_ended());
                    tokio::time::timeout(within, ended).await.ok();
                }
                // A client asks again at once.
                None => tokio::time::sleep(within.min(NOT_LIVE)).await,
            }
        };
        tokio::select! {
            () = ended => {}
            () = self.closing.cancelled() => {}
        }
        self.look(tenant, id).await
    }

    /// Cancels a run. A run that has ended stays as it is.
    pub(super) async fn cancel(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        id: &str,
    ) -> Answered<RunInfo> {
        if let Some(fleet) = &self.options.fleet {
            return self.cancel_in(fleet, tenant, id).await;
        }
        self.look(tenant, id).await?;
        if let Some(live) = tenant.live(id) {
            live.cancel.cancel();
        }
        self.wait(tenant, id, CANCELLED).await
    }

    /// Returns the result of a run that has ended.
    pub(super) fn result(&self, tenant: &Tenant, id: &str) -> Answered<RunResult> {
        let run = self.info(tenant, id)?;
        if !run.status.has_ended() {
            return Err(not_ended(&run));
        }
        let stored = tenant.state.store.result(id).map_err(|error| Problem::internal(&error))?;
        match stored {
            Some(result) => {
                let result: StoredResult =
                    serde_json::from_str(&result).map_err(|error| Problem::internal(&error))?;
                let start = |stream| local_start(tenant, id, stream);
                result.with_streams(run, start).map_err(|error| Problem::internal(&error))
            }
            None => Ok(RunResult::without_outcome(run)),
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

/// Checks that files need few folders, each of which costs the disk as much as a small file.
pub(super) fn check_folders<'a>(
    paths: impl Iterator<Item = &'a String>,
    files: usize,
) -> Answered<()> {
    let most = 2 * files;
    match count_folders(paths) > most {
        true => Err(Problem::invalid(format!("the files may be in at most {most} folders"))),
        false => Ok(()),
    }
}

/// Checks an idempotency key.
pub(super) fn check_key(key: Option<&str>) -> Answered<()> {
    match key {
        Some(key)
            if key.is_empty()
                || key.len() > KEY
                || !key.bytes().all(|byte| byte.is_ascii_graphic()) =>
        {
            let detail = format!("`Idempotency-Key` must have 1 to {KEY} visible ASCII characters");
            Err(Problem::invalid(detail))
        }
        _ => Ok(()),
    }
}

/// Returns a submission as JSON, and its digest in hex digits.
pub(super) fn canonical(submission: &mut RunSubmission) -> Answered<(String, String)> {
    // The order of the keys of an object means nothing, and clients do not keep it.
    if let RunTarget::Tool(call) = &mut submission.target {
        call.input.sort_all_objects();
    }
    let request = serde_json::to_string(submission).map_err(|error| Problem::internal(&error))?;
    let digest = hex(&Sha256::digest(request.as_bytes()));
    Ok((request, digest))
}

fn queue_full(most: u64) -> Problem {
    let detail = format!("at most {most} runs may be queued");
    Problem::new(ProblemCode::QueueFull, detail).retry_after(1)
}

pub(super) fn not_ended(run: &RunInfo) -> Problem {
    let (status, id) = (run.status.name(), &run.id);
    let detail = format!("it is {status}; wait for its end at /v1/runs/{id}/wait");
    Problem::new(ProblemCode::NotEnded, detail)
}

/// Marks a run as running, and returns what was submitted; `None` if it is not queued.
fn begin(tenant: &Tenant, id: &str) -> io::Result<Option<RunSubmission>> {
    if !tenant.state.store.start(id, now()).map_err(io::Error::other)? {
        return Ok(None);
    }
    let request = tenant.state.store.request(id).map_err(io::Error::other)?;
    Ok(Some(serde_json::from_str(&request.unwrap_or_default())?))
}

/// Stores the end of a run.
/// A run that has ended, as it is stored.
struct FinishedRun {
    status: RunStatus,
    result: Option<StoredResult>,
    cpu_ms: u64,
    bytes: u64,
    /// What identifies its result, if later runs may be answered with it.
    key: Option<String>,
}

impl FinishedRun {
    fn without_result(status: RunStatus) -> FinishedRun {
        FinishedRun { status, result: None, cpu_ms: 0, bytes: 0, key: None }
    }
}

async fn finish(tenant: Arc<Tenant>, id: String, run: FinishedRun) {
    let FinishedRun { status, result, cpu_ms, bytes, key } = run;
    let store = move || {
        if let Some(key) = key
            && let Err(error) = tenant.state.store.remember_result(&key, &id)
        {
            tracing::error!(tenant = tenant.name, run = id, %error, "cannot remember a result");
        }
        let text = result.map(|result| serde_json::to_string(&result).unwrap_or_default());
        let output = tenant.state.output_bytes(&id);
        let small = tenant.state.small_output(&id);
        let streams = small.each_ref().map(Option::as_deref);
        let end = EndOfRun { status, result: text.as_deref(), output, streams, cpu_ms, bytes };
        let stored = tenant.state.store.end(&id, &end, now());
        if let Err(error) = stored {
            tracing::error!(tenant = tenant.name, run = id, %error, "cannot store the end of a run");
        }
        tenant.state.close_output(&id);
        tenant.remove_live(&id, status);
    };
    if let Err(error) = tokio::task::spawn_blocking(store).await {
        tracing::error!(%error, "cannot store the end of a run");
    }
}

/// Counts what is written, and fails when there is no more room.
struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Refuses a run whose files have to be uploaded first, or have more than `most` bytes in total,
/// and keeps the others from expiring. Returns the digests of its blobs.
pub(super) fn require_blobs<'a>(
    tenant: &Tenant,
    submission: &'a RunSubmission,
    most: u64,
) -> Answered<Vec<&'a str>> {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut missing = Vec::new();
    let digests: BTreeSet<&str> =
        submission.files.values().filter_map(|file| file.digest.as_deref()).collect();
    for digest in digests {
        let found = tenant.state.store.use_blob(digest, now());
        match found.map_err(|error| Problem::internal(&error))? {
            Some(size) => {
                sizes.insert(digest, size);
            }
            None => missing.push(digest.to_owned()),
        }
    }
    blobs_fit(submission, &sizes, missing, most)?;
    Ok(sizes.into_keys().collect())
}

/// Refuses a run whose files are missing, or have more than `most` bytes in total.
pub(super) fn blobs_fit(
    submission: &RunSubmission,
    sizes: &BTreeMap<&str, u64>,
    missing: Vec<String>,
    most: u64,
) -> Answered<()> {
    if !missing.is_empty() {
        let detail = "upload the files with these digests: PUT /v1/blobs/DIGEST";
        return Err(Problem { missing, ..Problem::new(ProblemCode::BlobsMissing, detail) });
    }
    // A blob is written as often as it is named.
    let sizes_of = submission.files.values().map(|file| match (&file.content, &file.digest) {
        (Some(content), _) => content.0.len() as u64,
        (None, Some(digest)) => sizes.get(digest.as_str()).copied().unwrap_or(0),
        (None, None) => 0,
    });
    if sizes_of.fold(0, u64::saturating_add) > most {
        let detail = format!("the `files` of a run may have {most} bytes in total");
        return Err(Problem::invalid(detail));
    }
    Ok(())
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

pub(super) fn time(milliseconds: i64) -> String {
    jiff::Timestamp::from_millisecond(milliseconds)
        .map_or_else(|_| String::new(), |at| at.to_string())
}
