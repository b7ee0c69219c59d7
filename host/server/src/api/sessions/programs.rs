//! Runs programs in a session. To its tenant a program is a run: it takes its turn, reserves memory,
//! needs the same approvals, and is in the audit log, with the id of the session.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::Sender;

use super::super::executor::{FinishedJob, Job, SessionJob, StoredResult, execute};
use super::super::fleet::local_start;
use super::super::fleet::sessions::ProgramRecord;
use super::super::logs::too_many;
use super::super::problem::{Problem, ProblemCode};
use super::super::state::{StreamName, now};
use super::super::submit::closing;
use super::super::tenant::{LiveRun, Pending, Tenant};
use super::super::types::{RunInfo, RunResult, RunSubmission, RunTarget};
use super::super::uploads::blocking;
use super::super::{Answered, ApiShared, body};
use super::types::{ProgramRequest, Signal};
use super::{SCRATCH, Session, time};
use skillhost_ledger::runs::{RunStatus, Swept};
use skillhost_policy::outcome::Status;

/// The most programs of a session that have not ended. The quota `running` of the tenant bounds how
/// many of them run at once.
const UNENDED: usize = 64;
/// The programs that have ended whose output is kept, and the most bytes of it.
const KEPT: (usize, u64) = (32, 256 << 20);
/// How long an answer to a signal waits for the end.
const SIGNALLED: Duration = Duration::from_secs(1);
/// The most variables, and the most bytes of one.
const VARIABLES: (usize, usize) = (256, 32 << 10);

/// A program of a session.
pub(in super::super) struct Program {
    pub(super) id: String,
    /// Its number in the session, from 1.
    pub(super) number: u64,
    skill: String,
    submitted: i64,
    live: Arc<LiveRun>,
    state: Mutex<ProgramState>,
    /// Where a client's input goes; `None` once it has ended.
    stdin: tokio::sync::Mutex<Option<Sender>>,
    has_stdin: bool,
}

/// Ends a program when it is dropped. One that has ended does not notice.
pub(super) struct EndOnDrop(pub(super) Arc<Program>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A program that is about to start.
struct NewProgram {
    id: String,
    submission: RunSubmission,
    pending: Pending,
    has_stdin: bool,
    /// The record in a fleet that it begins.
    begun: Option<ProgramRecord>,
}

#[derive(Default)]
struct ProgramState {
    started: Option<i64>,
    ended: Option<(i64, RunStatus)>,
    result: Option<StoredResult>,
    output: u64,
}

impl Program {
    /// Describes the program as a run is described.
    pub(in super::super) fn info(&self) -> RunInfo {
        let state = self.state();
        let result = state.result.as_ref();
        RunInfo {
            id: self.id.clone(),
            status: state.ended.map_or_else(|| *self.live.status.borrow(), |(_, status)| status),
            skill: self.skill.clone(),
            submitted: time(self.submitted),
            started: state.started.map(time),
            ended: state.ended.map(|(at, _)| time(at)),
            outcome: result.map(|result| result.kind.clone()),
            exit_code: result.and_then(|result| result.exit_code),
        }
    }

    fn result(&self, tenant: &Tenant) -> Answered<RunResult> {
        let (info, result) = (self.info(), self.state().result.clone());
        match result {
            Some(result) => {
                let start = |stream| local_start(tenant, &self.id, stream);
                result.with_streams(info, start).map_err(|error| Problem::internal(&error))
            }
            None => Ok(RunResult::without_outcome(info)),
        }
    }

    pub(super) fn stop(&self) {
        self.live.cancel.cancel();
    }

    /// Its output, to be removed.
    pub(super) fn swept(&self) -> Swept {
        Swept { runs: vec![self.id.clone()], ..Swept::default() }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }

    /// Returns how it ended, once it has.
    pub(super) fn ending(&self) -> Option<Status> {
        let state = self.state();
        let (status, result) = (state.ended?.1, state.result.as_ref());
        if status == RunStatus::Cancelled {
            return Some(Status::Interrupted);
        }
        let ending = result.map(|result| result.outcome["status"].clone());
        Some(ending.and_then(|ending| serde_json::from_value(ending).ok()).unwrap_or_default())
    }

    /// Waits for its end.
    pub(super) async fn end(&self) {
        let mut status = self.live.status.subscribe();
        // Fails only if the sender is gone, and then the program has ended too.
        status.wait_for(|status| status.has_ended()).await.ok();
    }

    async fn wait(&self, within: Duration) {
        let mut status = self.live.status.subscribe();
        let ended = status.wait_for(|status| status.has_ended());
        tokio::time::timeout(within, ended).await.ok();
    }

    fn state(&self) -> MutexGuard<'_, ProgramState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Returns the programs, the latest last.
    pub(super) fn programs(&self) -> Vec<Arc<Program>> {
        self.state().programs.values().cloned().collect()
    }

    /// Returns the number of programs that have not ended.
    pub(super) fn running(&self) -> usize {
        self.state().programs.values().filter(|program| !program.has_ended()).count()
    }

    pub(super) fn program(&self, id: &str) -> Answered<Arc<Program>> {
        let state = self.state();
        let found = state.programs.values().find(|program| program.id == id);
        found.cloned().ok_or_else(Problem::not_found)
    }

    /// Adds a program, unless too many have not ended.
    fn add(&self, program: &Arc<Program>) -> Answered<()> {
        let mut state = self.state();
        let unended = state.programs.values().filter(|program| !program.has_ended()).count();
        if unended >= UNENDED {
            let detail =
                format!("at most {UNENDED} programs of a session may be running or queued");
            return Err(Problem::new(ProblemCode::QueueFull, detail).retry_after(1));
        }
        state.programs.insert(program.number, program.clone());
        Ok(())
    }

    /// Returns the program with this number, if it has not ended.
    pub(super) fn live_program(&self, number: u64) -> Option<Arc<Program>> {
        let found = self.state().programs.get(&number).cloned();
        found.filter(|program| !program.has_ended())
    }

    /// Forgets the programs that ended first, and returns them.
    fn excess(&self) -> Vec<Arc<Program>> {
        let mut state = self.state();
        let (mut kept, mut bytes, mut excess) = (0, 0, Vec::new());
        for (number, program) in state.programs.iter().rev() {
            if !program.has_ended() {
                continue;
            }
            kept += 1;
            bytes += program.state().output;
            // The last one always stays.
            if kept > 1 && (kept > KEPT.0 || bytes > KEPT.1) {
                excess.push(*number);
            }
        }
        excess.iter().filter_map(|number| state.programs.remove(number)).collect()
    }
}

impl ApiShared {
    /// Starts a program, and waits for its end as long as the request says.
    pub(super) async fn start_program(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
        request: ProgramRequest,
    ) -> Answered<RunResult> {
        let most = self.options.bounds.wait.as_secs();
        let wait = request.wait;
        if wait > most {
            return Err(Problem::invalid(format!("`wait` is a number of seconds up to {most}")));
        }
        let _open = if wait > 0 { Some(tenant.open_stream().ok_or_else(too_many)?) } else { None };
        let program = self.begin_program(tenant, session, request).await?;
        if wait > 0 {
            program.wait(Duration::from_secs(wait)).await;
        }
        let tenant = tenant.clone();
        blocking(move || program.result(&tenant)).await
    }

    /// Starts a program, if it may start.
    pub(super) async fn begin_program(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
        request: ProgramRequest,
    ) -> Answered<Arc<Program>> {
        let has_stdin = request.stream_stdin;
        let submission = submission(session, request)?;
        self.check(&submission)?;
        if self.closing.is_cancelled() {
            return Err(closing());
        }
        let owner = tenant.clone();
        let size = serde_json::to_vec(&submission).map_or(0, |text| text.len() as u64);
        let pending = tenant.hold_pending(size).ok_or_else(|| {
            let detail = "the programs of this tenant that have not ended have too much input: wait for one, or stream it";
            Problem::new(ProblemCode::QueueFull, detail).retry_after(1)
        })?;
        blocking(move || {
            owner.require_quotas_blocking()?;
            owner.charge_blocking(0, size);
            Ok(())
        })
        .await?;
        let (api, tenant, session) = (self.clone(), tenant.clone(), session.clone());
        let is_recorded = self.options.fleet.is_some();
        let beginning = async move {
            api.begin_recorded(&tenant, &session, (submission, pending), has_stdin).await
        };
        if !is_recorded {
            return beginning.await;
        }
        // Continues after the client has disconnected, so that what has begun also ends.
        tokio::spawn(beginning).await.map_err(|error| Problem::internal(&error))?
    }

    /// Starts a program. In a fleet, it is recorded there that it begins, and then that it has ended.
    async fn begin_recorded(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
        (submission, pending): (RunSubmission, Pending),
        has_stdin: bool,
    ) -> Answered<Arc<Program>> {
        let id = format!("{:032x}", rand::random::<u128>());
        let begun = self.record_begin(tenant, &session.id, &id, &submission).await?;
        let new = NewProgram { id, submission, pending, has_stdin, begun: begun.clone() };
        let launched = self.launch(tenant, session, new).await;
        if let (Err(_), Some(begun)) = (&launched, begun) {
            self.record_end(tenant, begun, &interrupted(tenant)).await;
        }
        launched
    }

    /// Starts to drive a program to its end.
    async fn launch(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
        new: NewProgram,
    ) -> Answered<Arc<Program>> {
        let NewProgram { id, submission, pending, has_stdin, begun } = new;
        let guard = session.enter().await?;
        let (reader, writer) = if has_stdin {
            let (reader, writer) = pipe().map_err(|error| Problem::internal(&error))?;
            (Some(reader), Some(writer))
        } else {
            (None, None)
        };
        let number = {
            let mut state = session.state();
            state.next += 1;
            state.next
        };
        let program = Arc::new(Program {
            number,
            skill: submission.skill.clone(),
            submitted: now(),
            live: LiveRun::queued(false),
            state: Mutex::default(),
            stdin: tokio::sync::Mutex::new(writer),
            has_stdin,
            id,
        });
        session.add(&program)?;
        tenant.keep_live(&program.id, &program.live);
        // The end of the session has stopped those that it knew.
        if session.ended.is_cancelled() {
            program.stop();
        }
        let job = SessionJob {
            session: session.id.clone(),
            files: session.files(),
            scratch: session.folder.join(SCRATCH),
            restrictions: session.restrictions.clone(),
            stdin: reader,
        };
        let turn = self.scheduler.enter(&tenant.name, tenant.settings().quotas.running);
        let (api, tenant, session, driven) =
            (self.clone(), tenant.clone(), session.clone(), program.clone());
        tokio::spawn(async move {
            // The files stay as long as the program may use them.
            let (_guard, _pending) = (guard, pending);
            let cancel = driven.live.cancel.clone();
            let turn = tokio::select! {
                biased;
                () = cancel.cancelled() => None,
                turn = turn => Some(turn),
            };
            let finished = match turn {
                None => interrupted(&tenant),
                Some(turn) => {
                    driven.state().started = Some(now());
                    driven.live.status.send_replace(RunStatus::Running);
                    let (id, cancelled) = (driven.id.clone(), cancel);
                    let core = turn.core();
                    let job_of = Job {
                        id,
                        submission: Arc::new(submission),
                        turn,
                        cancelled,
                        starting: None,
                    };
                    let running = execute(api.clone(), tenant.clone(), job_of, Some(Arc::new(job)));
                    api.threads.spawn(Some(core), running, std::future::ready).await.unwrap_or_else(|error| {
                        tracing::error!(tenant = tenant.name, program = driven.id, %error, "a program failed on the host");
                        let message = "the host failed; its log says why".into();
                        let status = Status::Failed { message, fix: None };
                        FinishedJob::not_run(status, &tenant.settings().hidden)
                    })
                }
            };
            if let Some(begun) = begun {
                api.record_end(&tenant, begun, &finished).await;
            }
            let work = {
                let driven = driven.clone();
                move || finish(&tenant, &session, &driven, finished)
            };
            if let Err(error) = tokio::task::spawn_blocking(work).await {
                tracing::error!(%error, "cannot finish a program");
            }
            // Who writes to it knows by now that the program has ended.
            driven.stdin.lock().await.take();
        });
        Ok(program)
    }

    /// Passes a body on to the standard input of a program, which may take its time to read it.
    pub(super) async fn write_stdin<B>(
        &self,
        tenant: &Arc<Tenant>,
        program: &Program,
        mut from: B,
        is_end: bool,
    ) -> Answered<RunInfo>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let _open = tenant.open_stream().ok_or_else(too_many)?;
        if !program.has_stdin {
            return Err(Problem::invalid("the program was started without `stream_stdin`"));
        }
        let bounds = &self.options.bounds;
        let mut sent = 0;
        let writing = async {
            let mut stdin = program.stdin.lock().await;
            let ended =
                || Problem::new(ProblemCode::ProgramEnded, "its input was ended, or it has ended");
            let pipe = stdin.as_mut().ok_or_else(ended)?;
            loop {
                let frame = tokio::time::timeout(bounds.body_within, from.frame()).await;
                let frame = frame.map_err(|_| body::timeout(bounds.body_within))?;
                let Some(frame) = frame else { break };
                let frame = frame.map_err(|_| Problem::invalid("the body ended early"))?;
                let Ok(data) = frame.into_data() else { continue };
                sent += data.len() as u64;
                if sent > bounds.blob {
                    return Err(body::too_large(bounds.blob));
                }
                pipe.write_all(&data).await.map_err(|_| ended())?;
            }
            if is_end {
                *stdin = None;
            }
            Ok(())
        };
        let mut status = program.live.status.subscribe();
        tokio::select! {
            written = tokio::time::timeout(bounds.stream, writing) => {
                written.map_err(|_| body::timeout(bounds.stream))??;
            }
            _ = status.wait_for(|status| status.has_ended()) => {
                return Err(Problem::new(ProblemCode::ProgramEnded, "it has ended"));
            }
        }
        tenant.charge(0, sent).await;
        Ok(program.info())
    }

    /// Ends a program by a signal. A guest cannot handle any, so they all do the same.
    pub(super) async fn signal(&self, program: &Program, signal: Signal) -> RunInfo {
        tracing::debug!(program = program.id, ?signal, "a program is ended");
        program.stop();
        program.wait(SIGNALLED).await;
        program.info()
    }

    /// Waits for the end of a program.
    pub(super) async fn wait_for_program(
        &self,
        tenant: &Arc<Tenant>,
        program: &Program,
        within: Duration,
    ) -> Answered<RunInfo> {
        let _open = tenant.open_stream().ok_or_else(too_many)?;
        tokio::select! {
            () = program.wait(within) => {}
            () = self.closing.cancelled() => {}
        }
        Ok(program.info())
    }

    pub(super) async fn program_result(
        &self,
        tenant: &Arc<Tenant>,
        program: Arc<Program>,
    ) -> Answered<RunResult> {
        let info = program.info();
        if !info.status.has_ended() {
            let detail = format!("it is {}; wait for its end at .../wait", info.status.name());
            return Err(Problem::new(ProblemCode::NotEnded, detail));
        }
        let tenant = tenant.clone();
        blocking(move || program.result(&tenant)).await
    }
}

/// Stores the end of a program, and tells those who wait for it.
fn finish(tenant: &Tenant, session: &Session, program: &Program, finished: FinishedJob) {
    let FinishedJob { status, result, cpu_ms, bytes, .. } = finished;
    // A server that is stopping has not begun it.
    let status = if status == RunStatus::Queued { RunStatus::Cancelled } else { status };
    tenant.charge_blocking(cpu_ms, bytes);
    tenant.state.keep_output_in_files(&program.id);
    {
        let mut state = program.state();
        state.ended = Some((now(), status));
        state.result = Some(result);
        state.output = tenant.state.output_bytes(&program.id);
    }
    session.touch();
    tenant.remove_live(&program.id, status);
    session.excess().iter().for_each(|program| tenant.state.remove(&program.swept()));
}

fn interrupted(tenant: &Tenant) -> FinishedJob {
    let hidden = &tenant.settings().hidden;
    FinishedJob {
        status: RunStatus::Cancelled,
        ..FinishedJob::not_run(Status::Interrupted, hidden)
    }
}

/// A pipe whose writing end waits for the reader in the event loop.
fn pipe() -> std::io::Result<(OwnedFd, Sender)> {
    let (reader, writer) = std::io::pipe()?;
    Ok((reader.into(), Sender::from_owned_fd(writer.into())?))
}

/// Turns a request into what a run would be.
fn submission(session: &Session, request: ProgramRequest) -> Answered<RunSubmission> {
    let ProgramRequest { skill, target, mut args, stdin, stream_stdin, env, cwd, limits, .. } =
        request;
    let skill = match skill {
        None => session.skills.first().cloned().unwrap_or_default(),
        Some(skill) if session.skills.contains(&skill) => skill,
        Some(_) => return Err(Problem::invalid("`skill` names none of the session's skills")),
    };
    if stdin.is_some() && stream_stdin {
        return Err(Problem::invalid("send either `stdin` or `stream_stdin`"));
    }
    let target = match target {
        Some(_) if !env.is_empty() || cwd.is_some() => {
            return Err(Problem::invalid("`env` and `cwd` are for a program without `target`"));
        }
        Some(target) => target,
        None if args.is_empty() => {
            return Err(Problem::invalid(
                "name a program in `args`, or a part of a skill in `target`",
            ));
        }
        None => RunTarget::Command(command(&mut args, env, cwd)?),
    };
    Ok(RunSubmission {
        skill,
        target,
        args,
        stdin,
        files: BTreeMap::new(),
        tree: None,
        limits,
        deterministic: None,
        receipt: false,
    })
}

/// The shell command that starts a program of the sandbox. What a client sends is in the arguments, so
/// that nothing of it is a command of the shell.
fn command(
    args: &mut Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
) -> Answered<String> {
    let (mut text, mut before) = (String::new(), Vec::new());
    if let Some(cwd) = cwd {
        text += "cd -- \"$1\" && shift && ";
        before.push(cwd);
    }
    if env.len() > VARIABLES.0 {
        return Err(Problem::invalid(format!("at most {} variables in `env`", VARIABLES.0)));
    }
    for (name, value) in env {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_valid = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(is_name)
            && name.len() + value.len() <= VARIABLES.1;
        if !is_valid {
            return Err(Problem::invalid(
                "`env` has names of letters, digits and `_`, and short values",
            ));
        }
        text += "export \"$1\" && shift && ";
        before.push(format!("{name}={value}"));
    }
    before.append(args);
    *args = before;
    Ok(text + "\"$@\"")
}

/// The streams of a program by name.
pub(super) fn stream_named(name: &str) -> Option<StreamName> {
    [StreamName::Stdout, StreamName::Stderr].into_iter().find(|stream| stream.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_sends_is_no_command_of_the_shell() {
        let hostile = "$(touch x); `y`";
        let mut args = vec![hostile.to_owned()];
        let env = BTreeMap::from([("NAME".to_owned(), hostile.to_owned())]);
        let text = command(&mut args, env, Some(hostile.to_owned())).unwrap();
        assert_eq!(text, "cd -- \"$1\" && shift && export \"$1\" && shift && \"$@\"");
        assert_eq!(args, [hostile.to_owned(), format!("NAME={hostile}"), hostile.to_owned()]);
        for name in ["", "1A", "A B", "A=B", "A\n"] {
            let env = BTreeMap::from([(name.to_owned(), String::new())]);
            assert!(command(&mut Vec::new(), env, None).is_err(), "{name:?}");
        }
    }
}
