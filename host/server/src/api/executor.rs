//! Runs a submission: finds the skill, writes the workspace, asks for approval, runs, and collects the
//! result. The only module that knows where runs execute.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::problem::{Problem, ProblemCode};
use super::scheduler::Turn;
use super::sessions::Restrictions;
use super::state::{StreamName, now};
use super::tenant::{ReservedMemory, Tenant, TenantSettings};
use super::types::{
    DeterministicRun, FileChange, FileState, RunInfo, RunResult, RunSubmission, RunTarget,
};
use super::workspace::Contents;
use super::{Answered, ApiShared, cached};
use crate::hidden::HostPaths;
use crate::result::{cut, kind};
use skillhost::invoke::{Invocation, LoadedRequest, LoadedSkill, RunError, Runner, Target};
use skillhost::service::{Service, ServiceError};
use skillhost_ledger::approval::{
    ApprovalRequest, RunDecision, RunInput, StdinInput, TENANT_SESSION,
};
use skillhost_ledger::audit::SessionRecord;
use skillhost_ledger::runs::RunStatus;
use skillhost_policy::capabilities::{Capabilities, MountMode};
use skillhost_policy::determinism::DeterminismRule;
use skillhost_policy::outcome::{Denial, DenialKind, Outcome, Output, ResourceUsage, Status};
use skillhost_policy::{Overrides, Policy, WORKSPACE};
use skillhost_sandbox::files::{ApplyError, NewEntry, OldEntry, SharedFiles, StagedChange};
use skillhost_sandbox::{EPOCH, Io, Overlays, Sink, Stdin};
use skillhost_skill::private::{Purpose, TempFolder};
use skillhost_skill::{LockedOrigin, SkillFolder, SourceKind};

/// The most bytes of a diff in a result.
pub(super) const DIFF: usize = 1 << 20;
/// The most bytes of written files that a result keeps.
pub(super) const WRITTEN: u64 = 256 << 20;
/// Why a skill whose workspace is the operator's has no sessions.
const OWN_WORKSPACE: &str = "/workspace is a folder of the operator, so the skill has no sessions";
/// The kind of the outcome of a program that ended by itself.
pub(super) const EXITED: &str = "exited";
/// How long a cancelled run may take to end by itself.
const CANCELLED: Duration = Duration::from_millis(500);
/// The pause before another attempt while the host's own queue is full.
const BUSY: Duration = Duration::from_millis(100);

/// Decides at the last moment whether a run starts. The argument: whether it may run again if nothing
/// is known of its end. A worker writes down that such a run has begun.
pub(super) type Starting = Box<dyn FnOnce(bool) -> BoxFuture<'static, bool> + Send>;

/// A run that is to be executed.
pub(super) struct Job {
    pub(super) id: String,
    pub(super) submission: Arc<RunSubmission>,
    pub(super) turn: Turn,
    pub(super) cancelled: CancellationToken,
    pub(super) starting: Option<Starting>,
}

/// What a program of a session has besides its submission.
pub(super) struct SessionJob {
    /// The session, for the record of the run.
    pub(super) session: String,
    /// The files of the session.
    pub(super) files: Arc<SharedFiles>,
    /// Where the scratch folders of its programs are created.
    pub(super) scratch: PathBuf,
    /// What the session's client denies it.
    pub(super) restrictions: Arc<Restrictions>,
    /// Where its input comes from, if a client streams it.
    pub(super) stdin: Option<OwnedFd>,
}

/// A run that has ended.
pub(super) struct FinishedJob {
    pub(super) status: RunStatus,
    /// Its result, without its streams, which are files.
    pub(super) result: StoredResult,
    pub(super) cpu_ms: u64,
    pub(super) bytes: u64,
    /// What identifies its result, if later runs may be answered with it.
    pub(super) key: Option<String>,
}

/// What is stored of a result.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct StoredResult {
    pub(super) kind: String,
    pub(super) exit_code: Option<u8>,
    pub(super) outcome: Value,
    pub(super) changes: Vec<FileChange>,
    pub(super) diff: String,
    pub(super) receipt: Option<Value>,
    /// The run whose result this is, if it was not executed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cached: Option<String>,
}

/// The skill that a submission names.
pub(super) struct NamedSkill {
    pub(super) folder: PathBuf,
    pub(super) source: SourceKind,
    pub(super) locked: Option<LockedOrigin>,
    /// The digest that the skill must have.
    digest: Option<String>,
    pub(super) is_upload: bool,
}

/// A run that is ready to start.
pub(super) struct PreparedRun {
    /// The folder at `/workspace`, unless the policy mounts one.
    pub(super) workspace: Option<Arc<TempFolder>>,
    /// What identifies the content of each path in it at the start, and whether it is an executable file;
    /// empty for that of a session.
    pub(super) keys: BTreeMap<String, (String, bool)>,
    pub(super) service: Service,
    pub(super) settings: Arc<TenantSettings>,
    pub(super) policy: Policy,
    pub(super) loaded: LoadedSkill,
    pub(super) target: Target,
    hidden: HostPaths,
}

/// Who starts which run.
#[derive(Clone, Copy)]
struct Start<'a> {
    tenant: &'a Tenant,
    id: &'a str,
    cancelled: &'a CancellationToken,
    session: Option<&'a SessionJob>,
}

/// A part of the host panicked, which has been reported.
#[derive(Debug, thiserror::Error)]
#[error("the host panicked")]
struct Panicked;

/// What came of a prepared run.
enum RunEnd {
    Ended(Box<Invocation>),
    /// It was cancelled, and has no outcome.
    Cancelled,
    /// The server is stopping.
    NotBegun,
}

impl FinishedJob {
    /// A run that never started.
    pub(super) fn not_run(status: Status, hidden: &HostPaths) -> FinishedJob {
        FinishedJob::of(&Outcome { status, ..Outcome::default() }, false, hidden)
    }

    fn of(outcome: &Outcome, is_cancelled: bool, hidden: &HostPaths) -> FinishedJob {
        let status = match outcome.status {
            Status::Exited { code: 0 } => RunStatus::Succeeded,
            Status::Interrupted if is_cancelled => RunStatus::Cancelled,
            _ => RunStatus::Failed,
        };
        let exit_code =
            if let Status::Exited { code } = outcome.status { Some(code) } else { None };
        let usage = &outcome.usage;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time of a run is small and not negative"
        )]
        let wall = usage.wall_ms as u64;
        let epoch = u64::try_from(EPOCH.as_millis()).unwrap_or(1);
        FinishedJob {
            status,
            result: StoredResult {
                kind: kind(&outcome.status).to_owned(),
                exit_code,
                outcome: shown(outcome, hidden),
                ..StoredResult::default()
            },
            cpu_ms: usage.epochs.map_or(wall, |epochs| epochs * epoch),
            bytes: bytes(usage),
            key: None,
        }
    }
}

/// Returns the bytes that went in and out of a run.
fn bytes(usage: &ResourceUsage) -> u64 {
    usage.stdout_bytes
        + usage.stderr_bytes
        + usage.http_sent
        + usage.http_received
        + usage.bytes_written
}

/// Returns an outcome as clients see it: without this machine's paths and the streams, which are
/// files. A tool's result is the guest's own text.
fn shown(outcome: &Outcome, hidden: &HostPaths) -> Value {
    let without = Outcome {
        stdout: Output::default(),
        stderr: Output::default(),
        result: None,
        ..outcome.clone()
    };
    let mut value = serde_json::to_value(without).unwrap_or_default();
    hidden.value(&mut value);
    if let (Some(result), Some(fields)) = (&outcome.result, value.as_object_mut()) {
        fields.insert("result".into(), result.clone());
    }
    value
}

/// Runs a job in this process, in a session if there is one.
pub(super) async fn execute(
    api: Arc<ApiShared>,
    tenant: Arc<Tenant>,
    job: Job,
    session: Option<Arc<SessionJob>>,
) -> FinishedJob {
    let Job { id, submission, turn, cancelled, starting } = job;
    let hidden = tenant.settings().hidden.clone();
    let failed = |error: &dyn std::fmt::Display| {
        tracing::error!(tenant = tenant.name, run = id, %error, "a run failed on the host");
        let message = "the host failed; its log says why".to_owned();
        FinishedJob::not_run(Status::Failed { message, fix: None }, &hidden)
    };
    let prepared = {
        let (api, of, id) = (api.clone(), tenant.clone(), id.clone());
        let (submission, cancelled) = (submission.clone(), cancelled.clone());
        let session = session.clone();
        let is_short = submission.files.is_empty() && submission.tree.is_none();
        let work = move || {
            let start =
                Start { tenant: &of, id: &id, cancelled: &cancelled, session: session.as_deref() };
            let prepared = prepare(&api, start, &submission)?;
            let key = match session {
                // The files of a session are no input of the program.
                Some(_) => None,
                None => cached::key(&prepared, &submission),
            };
            Ok((prepared, key))
        };
        in_place_if(is_short, &tenant, work).await
    };
    let interrupted = |hidden: &HostPaths| {
        let interrupted = Outcome { status: Status::Interrupted, ..Outcome::default() };
        FinishedJob::of(&interrupted, true, hidden)
    };
    let (prepared, key) = match prepared {
        Ok(_) if cancelled.is_cancelled() => return interrupted(&hidden),
        Ok(Ok(prepared)) => prepared,
        Ok(Err(status)) => return FinishedJob::not_run(status, &hidden),
        Err(error) => return failed(&error),
    };
    if let Some(key) = &key
        && let Some(answered) =
            api.answer_with_known(&tenant, &id, &prepared, &submission, key).await
    {
        return answered;
    }
    let hidden = prepared.hidden.clone();
    let start =
        Start { tenant: &tenant, id: &id, cancelled: &cancelled, session: session.as_deref() };
    // The turn lasts until the result has been collected.
    let (memory, _turn) = match reserve(start, &prepared, turn).await {
        Ok(Some(reserved)) => reserved,
        Ok(None) => return interrupted(&hidden),
        Err(status) => return FinishedJob::not_run(status, &hidden),
    };
    if let Some(starting) = starting {
        if prepared.loaded.grant.capabilities.limits.state > 0 {
            return FinishedJob::not_run(stateful(&prepared), &hidden);
        }
        if !starting(may_repeat(&prepared)).await {
            return interrupted(&hidden);
        }
    }
    let ran = match run(start, &prepared, &submission).await {
        Ok(RunEnd::Ended(invocation)) => *invocation,
        Ok(RunEnd::NotBegun) => {
            let job = FinishedJob::of(&Outcome::default(), false, &hidden);
            return FinishedJob { status: RunStatus::Queued, ..job };
        }
        Ok(RunEnd::Cancelled) => return interrupted(&hidden),
        Err(status) => return FinishedJob::not_run(status, &hidden),
    };
    api.mcp.metrics.ended(
        &prepared.loaded.skill.name,
        kind(&ran.finished.outcome.status),
        Duration::from_secs_f64(ran.finished.outcome.usage.wall_ms.max(0.0) / 1e3),
        Some(&ran.finished.outcome),
    );
    let is_cancelled = cancelled.is_cancelled();
    let key = key.filter(|_| {
        !is_cancelled && ran.finished.output_error.is_none() && ran.finished.file_error.is_none()
    });
    let collected = {
        let (of, id, hidden) = (tenant.clone(), id.clone(), hidden.clone());
        let has_changes = !ran.finished.outcome.changes.is_empty();
        let work = move || {
            // Kept until its changes have been read.
            let _workspace = prepared.workspace;
            collect(&of, &id, ran, is_cancelled, &hidden)
        };
        in_place_if(!has_changes, &tenant, work).await
    };
    // The written files were in memory as well.
    drop(memory);
    match collected {
        Ok(Ok(finished)) => {
            // Only what the program itself ended with is the same the next time.
            let key = key.filter(|_| finished.result.kind == EXITED);
            FinishedJob { key, ..finished }
        }
        Ok(Err(error)) => failed(&error),
        Err(error) => failed(&error),
    }
}

/// Does short work that uses the database of a tenant. If another thread holds its lock, the other runs of
/// this thread move to another one first.
pub(super) fn in_place<T>(tenant: &Tenant, work: impl FnOnce() -> T) -> T {
    match tenant.state.store.is_busy() {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

/// Does work that waits for the disk: on this thread if it is short, since a handover to another one costs a
/// wake-up, and otherwise where it occupies no thread of runs.
async fn in_place_if<T: Send + 'static>(
    is_short: bool,
    tenant: &Tenant,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Panicked> {
    match is_short {
        true => {
            let work = AssertUnwindSafe(|| in_place(tenant, work));
            std::panic::catch_unwind(work).map_err(|_| Panicked)
        }
        false => tokio::task::spawn_blocking(work).await.map_err(|_| Panicked),
    }
}

/// Does all that comes before the run. The error is how the run ends.
fn prepare(
    api: &ApiShared,
    start: Start<'_>,
    submission: &RunSubmission,
) -> Result<PreparedRun, Status> {
    let Start { tenant, id, cancelled, session } = start;
    let settings = tenant.settings();
    let invalid = |message: String| Status::Invalid { message, fix: None };
    let host = |error: io::Error| {
        if error.kind() == io::ErrorKind::Interrupted {
            return Status::Interrupted;
        }
        tracing::error!(tenant = tenant.name, run = id, %error, "cannot prepare a run");
        Status::Failed { message: "the host cannot prepare the run".into(), fix: None }
    };
    let skill = api.find_skill(tenant, &settings, &submission.skill).map_err(|error| {
        tracing::error!(tenant = tenant.name, run = id, %error, "cannot look for a skill");
        Status::Failed { message: "the host cannot look for the skill".into(), fix: None }
    })?;
    let Some(skill) = skill else {
        return Err(invalid(format!("no skill `{}`", submission.skill)));
    };
    let contents = match &submission.tree {
        Some(tree) => {
            let tree =
                api.tree(tenant, tree).map_err(|problem| host(io::Error::other(problem.detail)))?;
            Contents::from(&tree)
        }
        None => Contents::from(&submission.files),
    };
    let own = skill.has_own_workspace(&settings.policy);
    let workspace = if session.is_some() {
        if own {
            return Err(invalid(OWN_WORKSPACE.into()));
        }
        Some(api.no_workspace().map_err(host)?)
    } else if own {
        if !contents.is_empty() {
            let message =
                "/workspace is a folder of the operator, so neither `files` nor `tree` can be used";
            return Err(invalid(message.into()));
        }
        None
    } else if contents.is_empty() {
        // What the run writes stays in its overlay.
        Some(api.no_workspace().map_err(host)?)
    } else {
        let folder = TempFolder::new_in(&api.options.scratch, Purpose::Session).map_err(host)?;
        let most = api.options.bounds.workspace;
        contents.write(tenant, &folder, most, cancelled).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidFilename => invalid("a path or a target is too long".into()),
            _ => host(error),
        })?;
        Some(Arc::new(folder))
    };
    let overrides = Overrides {
        workspace: workspace.as_ref().map(|folder| (folder.path().to_owned(), MountMode::Overlay)),
        determinism: submission.deterministic.map_or_else(DeterminismRule::default, rule),
        ..Overrides::default()
    };
    let policy = settings.policy.clone().with_command_line(overrides).map_err(|findings| {
        let first = findings.first().map(|finding| settings.hidden.text(&finding.message));
        invalid(first.unwrap_or_default())
    })?;
    let restrictions = session.map(|session| &*session.restrictions);
    let policy = match restrictions {
        Some(Restrictions { deny, .. }) => policy.with_denied(deny.clone()),
        None => policy,
    };
    let mut hidden = settings.hidden.and(&skill.folder, "/skill");
    if let Some(folder) = &workspace {
        hidden = hidden.and(folder.path(), WORKSPACE);
    }
    let record_id = session.map_or(id, |session| &session.session);
    let record = SessionRecord::new(Some(record_id), Some(&format!("tenant {}", tenant.name)));
    let runner = tenant.service.runner().in_session(record);
    let (runner, service) = match session {
        Some(SessionJob { files, scratch, .. }) => {
            let runner = runner.with_files(files.clone(), scratch.clone());
            (runner.clone(), tenant.service.with_runner(runner))
        }
        None => (runner, tenant.service.clone()),
    };
    let loaded = load(&skill.runner(&runner, tenant), &skill, &policy)
        .map_err(|error| invalid(hidden.text(&error)))?;
    let limits = submission.limits.iter().map(|(limit, value)| (*limit, *value));
    let limits = restrictions.into_iter().flat_map(Restrictions::limits).chain(limits);
    let mut loaded = loaded.with_lower_limits(limits);
    if workspace.is_some() {
        loaded = loaded.with_guest_links(WORKSPACE);
    }
    let target = target(&submission.target);
    let keys = contents.keys();
    let prepared =
        PreparedRun { workspace, keys, service, settings, policy, loaded, target, hidden };
    approved(api, &runner, prepared, &skill, start, submission)
}

fn load(runner: &Runner, skill: &NamedSkill, policy: &Policy) -> Result<LoadedSkill, String> {
    let NamedSkill { folder, source, locked, digest, .. } = skill;
    let named = SkillFolder { path: folder, source: *source, locked: locked.as_ref() };
    let loaded = runner.load_for_run(named, policy).map_err(|error| match error {
        RunError::Skill(error) => error.to_string(),
        error => error.to_string(),
    })?;
    match digest {
        Some(expected) if loaded.id().digest.as_ref() != Some(expected) => {
            Err(format!("the skill does not have the digest {expected}"))
        }
        _ => Ok(loaded),
    }
}

/// Decides whether the run may start. A client cannot approve anything. All runs of a tenant are one
/// session: a client that is denied submits again, and an approval must hold for that run.
fn approved(
    api: &ApiShared,
    runner: &Runner,
    prepared: PreparedRun,
    skill: &NamedSkill,
    start: Start<'_>,
    submission: &RunSubmission,
) -> Result<PreparedRun, Status> {
    let session = format!("{TENANT_SESSION}{}", start.tenant.name);
    let PreparedRun { workspace, settings, policy, loaded, target, .. } = &prepared;
    let Some(digest) = loaded.id().digest.clone() else { return Ok(prepared) };
    // A target that matches nothing starts nothing: the invocation says why.
    if !loaded.has_target(target) {
        return Ok(prepared);
    }
    let failed = |error: &dyn std::fmt::Display| Status::Failed {
        message: prepared.hidden.text(&error.to_string()),
        fix: None,
    };
    let approvals = &api.mcp.approvals;
    let trusted = if skill.is_upload {
        settings.trust_uploads
    } else {
        approvals.is_trusted(&loaded.skill, &digest, &session).map_err(|error| failed(&error))?
    };
    let part = loaded.part_of(target);
    let stdin = match start.session.and_then(|session| session.stdin.as_ref()) {
        Some(_) => StdinInput::Unread,
        None => StdinInput::Whole(submission.stdin.as_ref().map_or(&[][..], |stdin| &stdin.0)),
    };
    let names: Vec<(&str, Cow<'_, str>)> = prepared
        .keys
        .iter()
        .map(|(path, (key, executable))| match executable {
            true => (path.as_str(), Cow::Owned(format!("{key} executable"))),
            false => (path.as_str(), Cow::Borrowed(key.as_str())),
        })
        .collect();
    let files: Vec<(&str, &str)> = names.iter().map(|(path, key)| (*path, &**key)).collect();
    let ask = ApprovalRequest {
        skill: &loaded.skill,
        digest: &digest,
        part: &part,
        capabilities: &loaded.grant.capabilities,
        needs_approval: loaded.grant.needs_approval,
        trusted,
        session_folder: workspace.as_ref().map(|folder| folder.path()),
        session: &session,
        input: RunInput { stdin, files: &files, ..target.input(&submission.args) },
    };
    let (rule, fix) = match approvals.decide(policy, &ask).map_err(|error| failed(&error))? {
        RunDecision::Allowed(denied) => {
            let loaded = prepared.loaded.without_files(denied);
            return Ok(PreparedRun { loaded, ..prepared });
        }
        RunDecision::Refused(refusal) => (refusal.why, refusal.fix),
        RunDecision::NeedsApproval(number, _) => (
            "it needs approval".to_owned(),
            format!(
                "the operator runs `skillhost approve {number}`; then submit it again, with a new key"
            ),
        ),
    };
    let denial = Denial {
        what: format!("run {}", loaded.skill.name),
        rule,
        fix: Some(fix),
        kind: DenialKind::Run,
    };
    let recorded = Denial { fix: None, ..denial.clone() };
    runner
        .record_refusal(loaded, target, &submission.args, recorded)
        .map_err(|error| failed(&error))?;
    Err(Status::Denied(denial))
}

/// Checks whether a run has no effect outside of its result, or declares that a second one does no
/// harm.
fn may_repeat(prepared: &PreparedRun) -> bool {
    const READING: [&str; 3] = ["GET", "HEAD", "OPTIONS"];
    let capabilities = &prepared.loaded.grant.capabilities;
    let writes = !capabilities.fetch.is_empty()
        && capabilities.methods.iter().any(|method| !READING.contains(&&**method));
    let is_idempotent = prepared
        .loaded
        .skill
        .manifest
        .metadata
        .get("idempotent")
        .is_some_and(|text| text == "true");
    !writes || is_idempotent
}

/// A worker has no state that the next run of the skill would find on another one.
fn stateful(prepared: &PreparedRun) -> Status {
    Status::Denied(Denial {
        what: format!("run {}", prepared.loaded.skill.name),
        rule: "the skill keeps state between runs, and a fleet has none".into(),
        fix: Some("set the limit `state` to 0, or run it on a server without --nats".into()),
        kind: DenialKind::Run,
    })
}

/// Runs what was prepared.
async fn run(
    start: Start<'_>,
    prepared: &PreparedRun,
    submission: &RunSubmission,
) -> Result<RunEnd, Status> {
    let Start { tenant, id, cancelled, .. } = start;
    let PreparedRun { service, policy, loaded, target, hidden, .. } = prepared;
    loop {
        let io = io(start, submission).map_err(|error| {
            tracing::error!(tenant = tenant.name, run = id, %error, "cannot store the output of a run");
            Status::Failed { message: "the host cannot store the output".into(), fix: None }
        })?;
        let running = async {
            if submission.receipt {
                let args = submission.args.clone();
                let call = LoadedRequest { loaded, policy, target, args, io };
                service.invoke_with_receipt(call).await
            } else {
                service.invoke_loaded(loaded, target, &submission.args, io).await
            }
        };
        let ended = tokio::select! {
            biased;
            ended = running => ended,
            // The guest is interrupted at once. What does not notice is dropped, which is recorded.
            () = async { cancelled.cancelled().await; tokio::time::sleep(CANCELLED).await } => {
                return Ok(RunEnd::Cancelled);
            }
        };
        match ended {
            Ok(invocation) => return Ok(RunEnd::Ended(Box::new(invocation))),
            Err(ServiceError::Busy { .. } | ServiceError::SkillBusy { .. }) => {
                tokio::time::sleep(BUSY).await;
            }
            Err(
                error @ (ServiceError::Memory { .. } | ServiceError::Invoke(RunError::Target(_))),
            ) => {
                return Err(Status::Invalid {
                    message: hidden.text(&error.to_string()),
                    fix: None,
                });
            }
            Err(ServiceError::Closed) => return Ok(RunEnd::NotBegun),
            Err(error) => {
                return Err(Status::Failed { message: hidden.text(&error.to_string()), fix: None });
            }
        }
    }
}

/// Waits for the memory of a run, and meanwhile lends its slot to others. `None`: it was cancelled.
async fn reserve<'a>(
    Start { tenant, cancelled, .. }: Start<'a>,
    prepared: &PreparedRun,
    mut turn: Turn,
) -> Result<Option<(ReservedMemory<'a>, Turn)>, Status> {
    let quotas = &prepared.settings.quotas;
    let needs = prepared.loaded.grant.capabilities.limits.host_memory();
    let quota = quotas.memory.0;
    let never = || Status::Invalid {
        message: format!(
            "the run may use {needs} bytes of memory, and the quota of the tenant is {quota}"
        ),
        fix: Some("lower the limit `memory` of the run".into()),
    };
    let waited = async {
        if let Some(memory) = tenant.memory.reserve(needs, quota).now_or_never() {
            return Ok((memory.ok_or_else(never)?, turn));
        }
        turn.pause();
        let memory = tenant.memory.reserve(needs, quota).await.ok_or_else(never)?;
        Ok::<_, Status>((memory, turn.resume(quotas.running).await))
    };
    tokio::select! {
        biased;
        () = cancelled.cancelled() => Ok(None),
        waited = waited => waited.map(Some),
    }
}

/// The streams of a run. Clients follow its output; with a receipt, which digests it, it is stored at
/// the end.
fn io(start: Start<'_>, submission: &RunSubmission) -> io::Result<Io> {
    let Start { tenant, id, cancelled, session } = start;
    let [stdout, stderr] = tenant.state.create_output(id).map(|spool| match submission.receipt {
        true => Sink::Capture,
        false => Sink::Spool(spool),
    });
    let stdin = submission.stdin.as_ref().filter(|stdin| !stdin.0.is_empty());
    let stdin = match session.and_then(|session| session.stdin.as_ref()) {
        Some(stream) => Stdin::Descriptor(stream.try_clone()?),
        None => stdin.map_or(Stdin::Empty, |stdin| Stdin::Bytes(stdin.0.clone())),
    };
    Ok(Io {
        stdin,
        stdout,
        stderr,
        interrupt: Some(Box::pin(cancelled.clone().cancelled_owned())),
        uses: false,
    })
}

/// Stores what a run left: its output, and the files that it wrote.
fn collect(
    tenant: &Tenant,
    id: &str,
    ran: Invocation,
    is_cancelled: bool,
    hidden: &HostPaths,
) -> io::Result<FinishedJob> {
    let Invocation { mut finished, receipt, .. } = ran;
    // The guest cannot tell a full disk of the host from a limit, or from a reader that is gone.
    let output = finished.output_error.take().map(|failed| (failed.stream, failed.error));
    let files = finished.file_error.take().map(|error| ("files", error));
    if let Some((what, error)) = output.or(files) {
        let message = format!("the host cannot store {what}: {error}");
        finished.outcome.status = Status::Failed { message, fix: None };
    }
    let outcome = &finished.outcome;
    // What was captured is not stored yet.
    if !(outcome.stdout.0.is_empty() && outcome.stderr.0.is_empty()) {
        let [stdout, stderr] = tenant.state.create_output(id);
        stdout.write(&outcome.stdout.0)?;
        stderr.write(&outcome.stderr.0)?;
    }
    let mut job = FinishedJob::of(outcome, is_cancelled, hidden);
    if !outcome.changes.is_empty() {
        let (diff, _) = cut(hidden.text(&finished.overlays.diff()).as_bytes(), DIFF);
        job.result.diff = diff;
        let lost = match changes(tenant, id, &finished.overlays) {
            Ok(Some(changes)) => {
                job.result.changes = changes;
                None
            }
            Ok(None) => Some((
                "the quota of stored bytes is used up, so the files that the run wrote are not stored".into(),
                Some("wait until results and files expire, or ask the operator to raise the quota `storage`".into()),
            )),
            // The run has used the host all the same.
            Err(error) if is_of_run(&error) => {
                let why = hidden.text(&error.to_string());
                Some((format!("the files that the run wrote are not stored: {why}"), None))
            }
            Err(error) => return Err(error),
        };
        if let Some((message, fix)) = lost {
            let status = Status::Failed { message, fix };
            let FinishedJob { status, result, .. } =
                FinishedJob::of(&Outcome { status, ..outcome.clone() }, false, hidden);
            job = FinishedJob { status, result, ..job };
        }
    }
    job.result.receipt = receipt.map(serde_json::to_value).transpose().map_err(io::Error::other)?;
    Ok(job)
}

/// Returns the changes of `/workspace`, and stores the new files as blobs, which stay as long as the
/// run. `None` if they would exceed the quota of stored bytes.
fn changes(tenant: &Tenant, id: &str, overlays: &Overlays) -> io::Result<Option<Vec<FileChange>>> {
    let staged = overlays.staged_at(WORKSPACE, WRITTEN)?;
    let Some(changes) = stored(tenant, &staged)? else { return Ok(None) };
    let written = |change: &FileChange| match &change.after {
        Some(FileState::File { digest, .. }) => Some(digest.clone()),
        _ => None,
    };
    let digests: Vec<String> = changes.iter().filter_map(written).collect();
    let digests: Vec<&str> = digests.iter().map(String::as_str).collect();
    tenant.state.store.keep_blobs(id, &digests).map_err(io::Error::other)?;
    Ok(Some(changes))
}

/// Checks whether staging failed because of what the run wrote: too much, or a symlink that may not be written.
fn is_of_run(error: &io::Error) -> bool {
    let is_link = error.get_ref().is_some_and(|inner| inner.is::<ApplyError>());
    is_link || error.kind() == io::ErrorKind::FileTooLarge
}

/// Stores the new files of staged changes as blobs, and returns the changes of `/workspace`. `None` if
/// they would exceed the quota of stored bytes.
pub(super) fn stored(
    tenant: &Tenant,
    staged: &[StagedChange],
) -> io::Result<Option<Vec<FileChange>>> {
    let storage = tenant.settings().local_storage;
    let mut changes = Vec::with_capacity(staged.len());
    for StagedChange { guest, path, before, after } in staged {
        if guest.trim_end_matches('/') != WORKSPACE {
            continue;
        }
        let before = before.as_ref().map(|entry| match entry {
            OldEntry::Folder => FileState::Folder,
            OldEntry::File(digest) => FileState::File { digest: digest.clone(), mode: None },
            OldEntry::Link(target) => FileState::Link { target: target.clone() },
        });
        let after = match after {
            None => None,
            Some(NewEntry::Folder) => Some(FileState::Folder),
            Some(NewEntry::Link(target)) => Some(FileState::Link { target: target.clone() }),
            Some(NewEntry::File { bytes, mode }) => {
                let Some(digest) = tenant.state.put_blob(bytes, storage, now())? else {
                    return Ok(None);
                };
                Some(FileState::File { digest, mode: Some(*mode) })
            }
        };
        changes.push(FileChange { path: path.clone(), before, after });
    }
    Ok(Some(changes))
}

fn target(target: &RunTarget) -> Target {
    match target {
        RunTarget::Main => Target::Main,
        RunTarget::Script(name) => Target::Named(name.clone()),
        RunTarget::Tool(call) => {
            Target::Tool { name: call.name.clone(), input: call.input.to_string() }
        }
        RunTarget::Command(text) => Target::Shell(text.clone()),
    }
}

fn rule(run: DeterministicRun) -> DeterminismRule {
    DeterminismRule { on: Some(true), seed: run.seed, start_time: run.start_time }
}

fn is_in_workspace(guest: &str) -> bool {
    guest.strip_prefix(WORKSPACE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl NamedSkill {
    /// Returns the runner that loads the skill. One that the tenant has uploaded is the tenant's own.
    pub(super) fn runner<'r>(&self, runner: &'r Runner, tenant: &Tenant) -> Cow<'r, Runner> {
        match self.is_upload {
            true => Cow::Owned(runner.for_owner(&tenant.name)),
            false => Cow::Borrowed(runner),
        }
    }

    /// Checks whether the policy mounts a folder at `/workspace`, or in it.
    fn has_own_workspace(&self, policy: &Policy) -> bool {
        let folder_name = self.folder.file_name().unwrap_or_default().to_string_lossy();
        policy
            .for_source(self.source, self.locked.as_ref())
            .layers_for(&folder_name)
            .flat_map(|layer| &layer.mounts)
            .any(|rule| is_in_workspace(&rule.mount.guest))
    }
}

impl ApiShared {
    /// Returns what a skill is granted in a session.
    pub(super) fn grant_in_session(
        &self,
        tenant: &Tenant,
        named: &str,
        restrictions: &Restrictions,
    ) -> Answered<Capabilities> {
        let settings = tenant.settings();
        let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
        let found = self.find_skill(tenant, &settings, named).map_err(|error| internal(&error))?;
        let skill = found.ok_or_else(|| {
            let detail =
                "`skills` names no skill of this server, and none that this tenant uploaded";
            Problem::new(ProblemCode::NoSkill, detail)
        })?;
        let wrong = |detail: String| Problem::new(ProblemCode::SkillInvalid, detail);
        if skill.has_own_workspace(&settings.policy) {
            return Err(wrong(OWN_WORKSPACE.into()));
        }
        let folder = self.no_workspace().map_err(|error| internal(&error))?;
        let overrides = Overrides {
            workspace: Some((folder.path().to_owned(), MountMode::Overlay)),
            ..Overrides::default()
        };
        let hidden = settings.hidden.and(&skill.folder, "/skill").and(folder.path(), WORKSPACE);
        let policy = settings.policy.clone().with_command_line(overrides).map_err(|findings| {
            wrong(findings.first().map(|found| hidden.text(&found.message)).unwrap_or_default())
        })?;
        let policy = policy.with_denied(restrictions.deny.clone());
        let runner = skill.runner(tenant.service.runner(), tenant);
        let loaded = load(&runner, &skill, &policy)
            .map_err(|error| wrong(hidden.text(&error)))?
            .with_lower_limits(restrictions.limits());
        Ok(loaded.grant.capabilities.clone())
    }

    /// Finds the skill that a submission names: one of the catalogue, or one that this tenant has
    /// uploaded. An upload cannot take the name of the operator's skill.
    pub(super) fn find_skill(
        &self,
        tenant: &Tenant,
        settings: &TenantSettings,
        named: &str,
    ) -> Result<Option<NamedSkill>, skillhost_ledger::runs::RunStoreError> {
        let (name, digest) = match named.split_once('@') {
            Some((name, digest)) => (name, Some(digest.to_owned())),
            None => (named, None),
        };
        if let Some(entry) = self.mcp.catalog.get(name).filter(|_| !settings.policy.hides(name)) {
            return Ok(Some(NamedSkill {
                folder: entry.folder.to_path_buf(),
                source: entry.source,
                locked: entry.locked.as_deref().cloned(),
                digest,
                is_upload: false,
            }));
        }
        let found = tenant.state.store.use_skill(digest.as_deref().unwrap_or(name), now())?;
        let found = found.filter(|(_, known)| digest.is_none() || known == name);
        Ok(found.and_then(|(digest, name)| {
            Some(NamedSkill {
                folder: tenant.state.skill_folder(&digest, &name)?,
                source: SourceKind::Path,
                locked: None,
                digest: Some(digest),
                is_upload: true,
            })
        }))
    }
}

impl StoredResult {
    /// Returns the result as clients get it, with the start of the streams, which `start` returns with
    /// whether there is more.
    pub(super) fn with_streams(
        self,
        run: RunInfo,
        mut start: impl FnMut(StreamName) -> io::Result<(Vec<u8>, bool)>,
    ) -> io::Result<RunResult> {
        let mut outcome = self.outcome;
        let mut truncated = [false, false];
        for (at, stream) in [StreamName::Stdout, StreamName::Stderr].into_iter().enumerate() {
            let start = start(stream)?;
            truncated[at] = start.1;
            let text = match start {
                (bytes, true) => Output(valid_start(bytes)),
                (bytes, false) => Output(bytes),
            };
            if let Some(fields) = outcome.as_object_mut() {
                fields.insert(
                    stream.name().to_owned(),
                    serde_json::to_value(text).unwrap_or_default(),
                );
            }
        }
        Ok(RunResult {
            run,
            outcome: Some(outcome),
            stdout_truncated: truncated[0],
            stderr_truncated: truncated[1],
            changes: self.changes,
            diff: self.diff,
            receipt: self.receipt,
            cached: self.cached,
        })
    }
}

/// Removes a character that was cut in half, so that text stays text.
pub(super) fn valid_start(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    bytes
}
