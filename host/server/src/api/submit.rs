//! Accepts runs, drives each to its end, and answers for it.
//!
//! What waits for its turn is in the store: in memory, a queued run is an id. While the store cannot be
//! written, such as on a full disk, runs stay queued, and the ends of those in progress stay in memory.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use super::executor::{FinishedJob, Job, StoredResult, execute, in_place};
use super::fleet::local_start;
use super::problem::{Problem, ProblemCode};
use super::scheduler::Turn;
use super::state::{new_id, now};
use super::tenant::{LiveRun, Tenant, Unstored};
use super::types::{RunInfo, RunList, RunResult, RunSubmission, RunTarget};
use super::uploads::of_tenant;
use super::workspace::digests;
use super::{Answered, ApiShared};
use skillhost_ledger::runs::{
    EndOfRun, NewRun, RunFilter, RunStatus, RunStoreError, StoredRun, Submitted,
};
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
/// The pause before another attempt to write a store.
const AGAIN: Duration = Duration::from_millis(500);
/// How long the end of a run is kept while the store cannot be written, as workers of a fleet keep it.
const STORE: Duration = Duration::from_secs(600);
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
        let contents = self.contents(tenant, &submission.files, submission.tree.as_deref())?;
        let mut blobs = digests(&contents.files);
        blobs.extend(submission.tree.as_deref());
        let blobs: Vec<&str> = blobs.into_iter().collect();
        let id = new_id();
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
        match tenant.waiting() >= most {
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
        let RunSubmission { skill, target, args, files, tree, .. } = submission;
        if args.len() > bounds.args {
            return Err(Problem::invalid(format!("at most {} `args`", bounds.args)));
        }
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
        self.check_contents(files, tree.as_deref())
    }

    /// Starts to drive a run, in the place in the queue that it gets now.
    fn drive(self: &Arc<Self>, tenant: &Arc<Tenant>, id: String, live: Arc<LiveRun>) {
        let turn = self.scheduler.enter(&tenant.name, tenant.settings().quotas.running);
        let (api, tenant) = (self.clone(), tenant.clone());
        let waiting = tenant.count_waiting();
        self.threads.drive(async move {
            let turn = tokio::select! {
                biased;
                () = tenant.removed.cancelled() => return,
                () = live.cancel.cancelled() => None,
                turn = turn => Some(turn),
            };
            drop(waiting);
            // What is still queued runs when the next server starts.
            if turn.is_some() && api.closing.is_cancelled() {
                return;
            }
            let ending = || {
                let (api, tenant, id) = (api.clone(), tenant.clone(), id.clone());
                move |end: Option<FinishedRun>| async move {
                    if let Some(end) = end {
                        api.finish(&tenant, &id, &end).await;
                    }
                }
            };
            let end = match turn {
                None => FinishedRun::without_result(RunStatus::Cancelled),
                Some(turn) => {
                    // Known at once, so that a server that stops waits for the run.
                    live.status.send_replace(RunStatus::Running);
                    let core = turn.core();
                    let executing = {
                        let (api, tenant, id) = (api.clone(), tenant.clone(), id.clone());
                        async move { api.execute(&tenant, &id, turn, &live).await }
                    };
                    let Err(error) = api.threads.spawn(Some(core), executing, ending()).await
                    else {
                        return;
                    };
                    tracing::error!(tenant = tenant.name, run = id, %error, "a run failed on the host");
                    let message = "the host failed; its log says why".into();
                    let status = Status::Failed { message, fix: None };
                    FinishedRun::of(FinishedJob::not_run(status, &tenant.settings().hidden))
                }
            };
            // It fails only by a panic, which is reported.
            api.threads.spawn(None, std::future::ready(Some(end)), ending()).await.ok();
        });
    }

    /// Executes a run whose turn has come. Returns its end, which is to be stored. Waits for the disk.
    async fn execute(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        id: &str,
        turn: Turn,
        live: &Arc<LiveRun>,
    ) -> Option<FinishedRun> {
        let (submission, turn) = match self.begin(tenant, id, turn, live).await {
            Began::Running(submission, turn) => (submission, turn),
            Began::Ended(status) => return Some(FinishedRun::without_result(status)),
            Began::Left(status) => {
                tenant.remove_live(id, status);
                return None;
            }
        };
        let cancelled = live.cancel.clone();
        let job = Job { id: id.to_owned(), submission, turn, cancelled, starting: None };
        let finished = execute(self.clone(), tenant.clone(), job, None).await;
        if finished.status == RunStatus::Queued {
            // The server is stopping, and the run has not begun.
            if let Err(error) = tenant.state.store.requeue(id) {
                tracing::error!(tenant = tenant.name, run = id, %error, "cannot requeue a run");
            }
            tenant.state.close_output(id);
            tenant.remove_live(id, RunStatus::Queued);
            return None;
        }
        Some(FinishedRun::of(finished))
    }

    /// Marks a run as running, whose turn has come. As long as its store cannot be written, the run stays
    /// queued, and lends its slot to runs of other tenants.
    async fn begin(&self, tenant: &Arc<Tenant>, id: &str, mut turn: Turn, live: &LiveRun) -> Began {
        let mut is_reported = false;
        loop {
            // Otherwise, ends of runs that cannot be stored would fill the memory.
            if !tenant.has_unstored() {
                match in_place(tenant, || mark_running(tenant, id)) {
                    Ok(Some(request)) => return begun(tenant, id, &request, turn),
                    Ok(None) => return Began::Left(RunStatus::Lost),
                    Err(error) if !is_reported => {
                        tracing::error!(tenant = tenant.name, run = id, %error, "cannot start a run yet");
                        is_reported = true;
                    }
                    Err(_) => {}
                }
            }
            turn.pause();
            let quota = tenant.settings().quotas.running;
            let resumed = async {
                tokio::time::sleep(AGAIN).await;
                turn.resume(quota).await
            };
            turn = tokio::select! {
                biased;
                // The run waits for the next server, or for the tenant to return.
                () = tenant.removed.cancelled() => return Began::Left(RunStatus::Queued),
                () = self.closing.cancelled() => return Began::Left(RunStatus::Queued),
                () = live.cancel.cancelled() => return Began::Ended(RunStatus::Cancelled),
                turn = resumed => turn,
            };
        }
    }

    /// Stores the end of a run, and tells those who wait for it. As long as the store cannot be written,
    /// tries again. Waits for the disk.
    async fn finish(&self, tenant: &Arc<Tenant>, id: &str, run: &FinishedRun) {
        let until = Instant::now() + STORE;
        let result = run.result.as_ref();
        // Fails only for keys that are no texts, which a result does not have.
        let result = result.map(|result| serde_json::to_string(result).unwrap_or_default());
        let mut unstored: Option<Unstored> = None;
        while let Err(error) = in_place(tenant, || store_end(tenant, id, run, result.as_deref())) {
            // An end without a result takes no memory. Without it, the run would stay queued, and nothing
            // would drive it.
            let is_over = run.result.is_some() && Instant::now() >= until;
            // A tenant that is removed does not keep its folder, which the operator may delete.
            if is_over || self.closing.is_cancelled() || tenant.removed.is_cancelled() {
                tracing::error!(tenant = tenant.name, run = id, %error, "the end of a run is lost");
                break;
            }
            if unstored.is_none() {
                tracing::error!(tenant = tenant.name, run = id, %error, "cannot store the end of a run yet");
                unstored = Some(tenant.count_unstored());
            }
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                () = self.closing.cancelled() => {}
                () = tenant.removed.cancelled() => {}
            }
        }
        tenant.state.close_output(id);
        tenant.remove_live(id, run.status);
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
        let (api, of, id) = (self.clone(), tenant.clone(), id.to_owned());
        of_tenant(tenant, move || api.info(&of, &id)).await
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
        let live = tenant.live(id).filter(|live| live.is_submitted);
        // A live run has not ended.
        if live.is_none() {
            let found = self.look(tenant, id).await?;
            if found.status.has_ended() {
                return Ok(found);
            }
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

/// What came of a run whose turn has come.
enum Began {
    /// It is running.
    Running(Arc<RunSubmission>, Turn),
    /// It ends like this, without having begun.
    Ended(RunStatus),
    /// It stays in the store as it is. Those who wait for it get this status.
    Left(RunStatus),
}

/// Marks a run as running, and returns what was submitted, as JSON; `None` if it is not queued.
fn mark_running(tenant: &Tenant, id: &str) -> Result<Option<String>, RunStoreError> {
    // First, so that a run that cannot be read stays queued.
    let request = tenant.state.store.request(id)?;
    let is_marked = tenant.state.store.start(id, now())?;
    Ok(request.filter(|_| is_marked))
}

fn begun(tenant: &Tenant, id: &str, request: &str, turn: Turn) -> Began {
    match serde_json::from_str(request) {
        Ok(submission) => Began::Running(Arc::new(submission), turn),
        Err(error) => {
            tracing::error!(tenant = tenant.name, run = id, %error, "cannot read a submission");
            Began::Ended(RunStatus::Lost)
        }
    }
}

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
    fn of(job: FinishedJob) -> FinishedRun {
        let FinishedJob { status, result, cpu_ms, bytes, key } = job;
        FinishedRun { status, result: Some(result), cpu_ms, bytes, key }
    }

    fn without_result(status: RunStatus) -> FinishedRun {
        FinishedRun { status, result: None, cpu_ms: 0, bytes: 0, key: None }
    }
}

/// Stores the end of a run with its result, which is JSON.
fn store_end(
    tenant: &Tenant,
    id: &str,
    run: &FinishedRun,
    result: Option<&str>,
) -> Result<(), RunStoreError> {
    let FinishedRun { status, cpu_ms, bytes, key, .. } = run;
    let store = &tenant.state.store;
    // Before the end, after which a client may submit the same run again.
    let remembered = key.as_ref().map_or(Ok(()), |key| store.remember_result(key, id));
    let output = tenant.state.output_bytes(id);
    let small = tenant.state.small_output(id);
    let end = EndOfRun {
        status: *status,
        kind: run.result.as_ref().map(|result| &*result.kind),
        exit_code: run.result.as_ref().and_then(|result| result.exit_code),
        result,
        output,
        streams: small.each_ref().map(Option::as_deref),
        cpu_ms: *cpu_ms,
        bytes: *bytes,
    };
    store.end(id, &end, now())?;
    if let Err(error) = remembered {
        tracing::error!(tenant = tenant.name, run = id, %error, "cannot remember a result");
    }
    Ok(())
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

pub(super) fn closing() -> Problem {
    Problem::new(ProblemCode::Closing, "another server takes over").retry_after(5)
}

fn info(run: &StoredRun) -> RunInfo {
    RunInfo {
        id: run.id.clone(),
        status: run.status,
        skill: run.skill.clone(),
        submitted: time(run.submitted),
        started: run.started.map(time),
        ended: run.ended.map(time),
        exit_code: run.exit_code,
        outcome: run.kind.clone(),
    }
}

pub(super) fn time(milliseconds: i64) -> String {
    jiff::Timestamp::from_millisecond(milliseconds)
        .map_or_else(|_| String::new(), |at| at.to_string())
}
