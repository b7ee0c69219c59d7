//! Whether a program may start, and its start.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tracing::{Instrument as _, debug_span};

use super::bindings::skillhost::skill::process::{Error, Status};
use super::record::Entry as Recorded;
use super::shims::{self, Timeout};
use super::{State, names};
use crate::engine;
use crate::engine::Ended;
use crate::limits::Held;
use crate::run::Invocation;
use crate::run::Prepared;
use crate::run::ProgramIo;
use crate::streams::{Input, Out};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Denial, DenialKind};
use skillhost_skill::runtime::Program;
use skillhost_skill::runtime::dispatch::HEAD_BYTES;

/// What a caller asks for.
pub(super) struct Asked {
    pub(super) argv: Vec<String>,
    pub(super) env: Option<Vec<(String, String)>>,
    pub(super) cwd: Option<String>,
}

/// What a program inherits beside the streams.
pub(super) struct Caller {
    depth: u64,
    env: Vec<(String, String)>,
    cwd: String,
}

/// A program's own ends of its streams.
pub(super) struct Streams {
    pub(super) stdin: Input,
    pub(super) stdout: Out,
    pub(super) stderr: Out,
}

/// A program that may start, and what it needs besides its streams.
pub(super) struct Startable {
    argv: Vec<String>,
    program: Program,
    prepared: Prepared,
    env: Vec<(String, String)>,
    cwd: String,
    timeout: Option<Timeout>,
    depth: u64,
    /// What the host keeps of all that while the program runs.
    held: Held,
}

/// A program that was started. Dropped, it ends.
pub(super) struct Running {
    pub(super) id: u32,
    task: Option<JoinHandle<Ended>>,
    abort: AbortHandle,
    status: watch::Receiver<Option<Status>>,
}

impl Caller {
    pub(super) fn of(state: &State) -> Caller {
        Caller { depth: state.depth, env: state.env.clone(), cwd: state.cwd.clone() }
    }
}

/// What was asked to be started and may not be, for the outcome.
pub(crate) fn denials(invocation: &Invocation) -> Vec<Denial> {
    invocation.spawn_denials.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Finds the program that a command means, checks it against the capabilities and the limits, and
/// makes it ready.
pub(super) async fn prepare(
    invocation: &Invocation,
    caller: Caller,
    what: Asked,
) -> Result<Startable, Error> {
    let asked = what.argv.clone();
    // Before anything is looked up: the shell asks about commands that are none of the host's
    // programs.
    refuse_denied(invocation, &asked, [&asked[..]])?;
    let line = shims::Line {
        argv: what.argv,
        before: Vec::new(),
        env: what.env.unwrap_or(caller.env),
        cwd: what.cwd.or(Some(caller.cwd)),
        timeout: None,
    };
    let no_program = |message, fix| {
        Error::NotFound(refuse(invocation, &asked, message, fix, DenialKind::NoProgram))
    };
    let Some(programs) = &invocation.programs else {
        return Err(no_program("there are no programs here".into(), None));
    };
    let is_program = |name: &str| programs.find(name).is_ok_and(|found| found.is_some());
    let line = shims::unwrap(line, is_program).map_err(|message| no_program(message, None))?;
    let mut held = Held::nothing(invocation.meter.clone());
    if !held.grow(size(&line)) {
        return Err(Error::Limit(Limit::Memory.to_string()));
    }
    let cwd = line.cwd.unwrap_or_default();
    let found =
        programs.resolve_command(&line.argv, &cwd, |path| invocation.vfs.head(path, HEAD_BYTES));
    let program = found.map_err(|error| {
        match line.argv.first().and_then(|command| names::never(command)) {
            Some(reason) => no_program(format!("`{}` is never here: {reason}", line.argv[0]), None),
            None => no_program(error.message, error.fix),
        }
    })?;
    if let Some(file) =
        programs.find_denied_file(&program, &cwd, |path, bytes| invocation.vfs.head(path, bytes))
    {
        return Err(Error::Denied(refuse(
            invocation,
            &asked,
            format!("a level denies {}", file.path),
            Some("skillhost permissions".into()),
            DenialKind::Program,
        )));
    }
    // `./jq` is not what an entry for `jq` means: it is what reads it that has to be allowed.
    let runs = if programs.impersonates_built_in(&line.argv[0]) {
        [std::slice::from_ref(&program.name), &program.args[..]].concat()
    } else {
        line.argv
    };
    if !invocation.capabilities.spawn.none_of.is_empty() {
        let commands = programs.command_lines_of(&program);
        let before = line.before.iter().map(std::slice::from_ref);
        refuse_denied(
            invocation,
            &asked,
            commands.iter().map(Vec::as_slice).chain(before).chain([&runs[..]]),
        )?;
    }
    allow(invocation, &asked, &runs)?;
    count(invocation, caller.depth)?;
    let not_ready = |status| Error::NotFound(engine::say(&status));
    let prepared = invocation.prepare(&program.component).await.map_err(not_ready)?;
    if let Some(status) = prepared.lacks(&program.entry) {
        return Err(not_ready(status));
    }
    Ok(Startable {
        argv: asked,
        program,
        prepared,
        env: line.env,
        cwd,
        timeout: line.timeout,
        depth: caller.depth + 1,
        held,
    })
}

/// Refuses what was asked where a denial stops one of the commands that it comes to.
fn refuse_denied<'a>(
    invocation: &Invocation,
    asked: &[String],
    commands: impl IntoIterator<Item = &'a [String]>,
) -> Result<(), Error> {
    let spawn = &invocation.capabilities.spawn;
    match commands.into_iter().find_map(|argv| spawn.find_denial(argv)) {
        Some(pattern) => Err(Error::Denied(note(invocation, pattern.denial(asked)))),
        None => Ok(()),
    }
}

/// Whether both sides allow what will run.
fn allow(invocation: &Invocation, asked: &[String], runs: &[String]) -> Result<(), Error> {
    if invocation.capabilities.spawn.allows_command_before_denials(runs) {
        invocation.note_command(runs);
        return Ok(());
    }
    let program = runs[0].rsplit('/').next().unwrap_or(&runs[0]);
    let fix = format!(
        "`Bash({program}:*)` in the skill's allowed-tools, and `--allow 'Bash({program}:*)'`"
    );
    let rule = "no `Bash` entry that both the skill asks for and the policy allows covers it";
    Err(Error::Denied(refuse(invocation, asked, rule.into(), Some(fix), DenialKind::Program)))
}

fn count(invocation: &Invocation, depth: u64) -> Result<(), Error> {
    let limits = &invocation.meter.limits;
    if depth >= limits.process_depth {
        invocation.meter.hit(Limit::ProcessDepth);
        return Err(Error::Limit(format!(
            "programs may start programs {} deep",
            limits.process_depth
        )));
    }
    if invocation.meter.processes.fetch_add(1, Relaxed) >= limits.processes {
        invocation.meter.processes.fetch_sub(1, Relaxed);
        invocation.meter.hit(Limit::Processes);
        return Err(Error::Limit(format!("{} programs may be started", limits.processes)));
    }
    Ok(())
}

/// Notes a command that does not start, for the outcome; returns the reason, for the guest.
fn refuse(
    invocation: &Invocation,
    argv: &[String],
    rule: String,
    fix: Option<String>,
    kind: DenialKind,
) -> String {
    let command: String = argv.join(" ").chars().take(200).collect();
    note(invocation, Denial { what: format!("start `{command}`"), rule, fix, kind })
}

/// Notes a denial, for the outcome; returns the reason, for the guest.
fn note(invocation: &Invocation, denial: Denial) -> String {
    let mut denials = invocation.spawn_denials.lock().unwrap_or_else(PoisonError::into_inner);
    if denials.len() < 100 && !denials.contains(&denial) {
        denials.push(denial.clone());
    }
    denial.rule
}

/// Starts it: a task of its own.
pub(super) fn go(invocation: &Arc<Invocation>, what: Startable, streams: Streams) -> Running {
    let Startable { argv, program, prepared, env, cwd, timeout, depth, held } = what;
    let (tell, status) = watch::channel(None);
    let recorded = invocation.processes.open(&argv, program.recorded_name(), depth);
    let id = recorded.id;
    let given = ProgramIo {
        stdin: streams.stdin,
        stdout: streams.stdout,
        stderr: streams.stderr,
        env,
        cwd,
        depth,
        cost: recorded.cost.clone(),
        number: id.into(),
    };
    let ending = Ending { invocation: invocation.clone(), tell, status: Status::Killed, recorded };
    let work = Work { program, prepared, timeout, given: Some(given), _held: held, ending };
    let task = invocation.started.spawn(work.run().instrument(debug_span!("process")));
    Running { id, abort: task.abort_handle(), task: Some(task), status }
}

/// What a program's task has. In this order, so that the last is dropped last: the status is told
/// when the program's streams are closed.
struct Work {
    program: Program,
    prepared: Prepared,
    timeout: Option<Timeout>,
    given: Option<ProgramIo>,
    _held: Held,
    ending: Ending,
}

impl Work {
    // Boxed: a program that starts itself would otherwise have a future of infinite size.
    fn run(mut self) -> futures::future::BoxFuture<'static, Ended> {
        Box::pin(async move {
            let this = &mut self;
            let Some(given) = this.given.take() else { return Ended::Exited(0) };
            let invocation = this.ending.invocation.clone();
            let running = invocation.execute(&this.program, &this.prepared, given);
            let ended = match this.timeout {
                None => running.await,
                Some(timeout) => invocation
                    .within(timeout.after, running)
                    .await
                    .unwrap_or(Ended::Exited(timeout.code)),
            };
            this.ending.status = status_of(&ended);
            ended
        })
    }
}

/// Tells how a program ended when its task is over, whatever ended that.
struct Ending {
    invocation: Arc<Invocation>,
    tell: watch::Sender<Option<Status>>,
    status: Status,
    recorded: Recorded,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.invocation.processes.close(&self.recorded, &self.status);
        self.tell.send_replace(Some(self.status.clone()));
    }
}

impl Running {
    pub(super) fn abort_handle(&self) -> AbortHandle {
        self.abort.clone()
    }

    /// How it ended; `None` where it was ended from outside.
    pub(super) async fn ended(mut self) -> Option<Ended> {
        self.task.as_mut()?.await.ok()
    }

    /// Leaves it running; how it will have ended.
    pub(super) fn leave(mut self) -> watch::Receiver<Option<Status>> {
        self.task = None;
        self.status.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.task.is_some() {
            self.abort.abort();
        }
    }
}

fn status_of(ended: &Ended) -> Status {
    match ended {
        Ended::Exited(code) => Status::Exited(*code),
        Ended::Trapped(message) => Status::Trapped(message.clone()),
        Ended::Limit(limit) => Status::Limit(limit.to_string()),
        // Nothing starts a tool as a program.
        Ended::Tool(_) => Status::Exited(0),
    }
}

/// Bytes that the host keeps of a command while it runs: it has the words twice.
fn size(line: &shims::Line) -> u64 {
    let words = line.argv.iter().map(|word| 2 * word.len());
    let env = line.env.iter().map(|(name, value)| name.len() + value.len());
    words.chain(env).sum::<usize>() as u64
}
