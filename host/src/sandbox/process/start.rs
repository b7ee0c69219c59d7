//! Whether a program may start, and its start.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use super::State;
use super::bindings::skillhost::skill::process::{Error, Status};
use super::record::Entry as Recorded;
use crate::limits::Limit;
use crate::outcome::Denial;
use crate::runtime::Program;
use crate::runtime::dispatch::HEAD;
use crate::sandbox::ended::Ended;
use crate::sandbox::invocation::Invocation;
use crate::sandbox::meter::Held;
use crate::sandbox::stdio::{Input, Out};
use crate::sandbox::store::Given;
use crate::sandbox::{self, Prepared};

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
pub(in crate::sandbox) fn denials(invocation: &Invocation) -> Vec<Denial> {
    invocation.spawn_denials.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Checks a command against the capabilities and the limits, finds its program and makes it ready.
pub(super) async fn prepare(invocation: &Invocation, caller: Caller, what: Asked) -> Result<Startable, Error> {
    let mut held = Held::nothing(invocation.meter.clone());
    if !held.grow(size(&what)) {
        return Err(Error::Limit(Limit::Memory.to_string()));
    }
    let program = check(invocation, &caller, &what)?;
    let not_ready = |status| Error::NotFound(sandbox::say(&status));
    let limits = &invocation.meter.limits;
    let prepared = invocation.sandbox.prepare(&program.component, invocation.mode, limits).await.map_err(not_ready)?;
    if let Some(status) = prepared.lacks(&program.entry) {
        return Err(not_ready(status));
    }
    Ok(Startable {
        argv: what.argv,
        program,
        prepared,
        env: what.env.unwrap_or(caller.env),
        cwd: what.cwd.unwrap_or(caller.cwd),
        depth: caller.depth + 1,
        held,
    })
}

/// Starts it: a task of its own.
pub(super) fn go(invocation: &Arc<Invocation>, what: Startable, streams: Streams) -> Running {
    let Startable { argv, program, prepared, env, cwd, depth, held } = what;
    let (tell, status) = watch::channel(None);
    let recorded = invocation.processes.open(&argv, depth);
    let id = recorded.id;
    let given =
        Given { stdin: streams.stdin, stdout: streams.stdout, stderr: streams.stderr, env, cwd, depth, cost: recorded.cost.clone() };
    let ending = Ending { invocation: invocation.clone(), tell, status: Status::Killed, recorded };
    let work = Work { program, prepared, given: Some(given), _held: held, ending };
    let task = invocation.started.spawn(work.run());
    Running { id, abort: task.abort_handle(), task: Some(task), status }
}

/// What a program's task has. In this order, so that the last is dropped last: the status is told when the program's streams are closed.
struct Work {
    program: Program,
    prepared: Prepared,
    given: Option<Given>,
    _held: Held,
    ending: Ending,
}

impl Work {
    // Boxed: a program that starts itself would otherwise have a future of infinite size.
    fn run(mut self) -> futures::future::BoxFuture<'static, Ended> {
        Box::pin(async move {
            let this = &mut self;
            let Some(given) = this.given.take() else { return Ended::Exited(0) };
            let ended = this.ending.invocation.clone().execute(&this.program, &this.prepared, given).await;
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

fn check(invocation: &Invocation, caller: &Caller, what: &Asked) -> Result<Program, Error> {
    if what.argv.is_empty() {
        return Err(Error::NotFound("an empty command".into()));
    }
    if !invocation.capabilities.spawn.allows(|pattern| pattern.matches(&what.argv)) {
        return Err(Error::Denied(deny(invocation, &what.argv)));
    }
    let limits = &invocation.meter.limits;
    if caller.depth >= limits.process_depth {
        invocation.meter.hit(Limit::ProcessDepth);
        return Err(Error::Limit(format!("programs may start programs {} deep", limits.process_depth)));
    }
    if invocation.meter.processes.fetch_add(1, Relaxed) >= limits.processes {
        invocation.meter.processes.fetch_sub(1, Relaxed);
        invocation.meter.hit(Limit::Processes);
        return Err(Error::Limit(format!("{} programs may be started", limits.processes)));
    }
    let Some(programs) = &invocation.programs else { return Err(Error::NotFound("there are no programs here".into())) };
    let cwd = what.cwd.as_deref().unwrap_or(&caller.cwd);
    programs.start(&what.argv, cwd, |path| invocation.vfs.head(path, HEAD)).map_err(|error| Error::NotFound(error.message))
}

fn deny(invocation: &Invocation, argv: &[String]) -> String {
    let command = argv.join(" ");
    let program = argv[0].rsplit('/').next().unwrap_or(&argv[0]);
    let denial = Denial {
        what: format!("start `{}`", command.chars().take(200).collect::<String>()),
        rule: "no `Bash` entry that both the skill asks for and the policy allows covers it".into(),
        fix: Some(format!("`Bash({program}:*)` in the skill's allowed-tools, and `--allow 'Bash({program}:*)'`")),
    };
    let mut denials = invocation.spawn_denials.lock().unwrap_or_else(PoisonError::into_inner);
    if denials.len() < 100 && !denials.contains(&denial) {
        denials.push(denial.clone());
    }
    denial.rule
}

/// Bytes that the host keeps of a command while it runs.
fn size(what: &Asked) -> u64 {
    let words = what.argv.iter().map(String::len);
    let env = what.env.iter().flatten().map(|(name, value)| name.len() + value.len());
    words.chain(env).sum::<usize>() as u64
}
