//! Whether a program may start, and its start.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tracing::{Instrument as _, debug_span};

use super::bindings::skillhost::skill::process::{Error, Status};
use super::record::Entry as Recorded;
use super::shims::{self, Timeout};
use super::{Parent, Processes, ProgramIo, Ready, names};
use crate::determinism::within;
use crate::engine::{ProgramEnd, say};
use crate::limits::HostMemory;
use crate::streams::{Input, Out};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Denial, DenialKind};
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
    /// The name in the run's record.
    recorded_name: String,
    program: Ready,
    env: Vec<(String, String)>,
    cwd: String,
    timeout: Option<Timeout>,
    depth: u64,
    /// What the host keeps of all that while the program runs.
    held: HostMemory,
}

/// A program that was started. Dropped, it ends.
pub(super) struct Running {
    pub(super) id: u32,
    task: Option<JoinHandle<ProgramEnd>>,
    abort: AbortHandle,
    status: watch::Receiver<Option<Status>>,
}

impl Caller {
    pub(super) fn of(parent: &Parent) -> Caller {
        Caller { depth: parent.depth, env: parent.env.clone(), cwd: parent.cwd.clone() }
    }
}

/// Finds the program that a command means, checks it against the capabilities and the limits, and
/// makes it ready.
pub(super) async fn prepare(
    processes: &Processes,
    caller: Caller,
    what: Asked,
) -> Result<Startable, Error> {
    let asked = what.argv.clone();
    // Before anything is looked up: the shell asks about commands that are none of the host's
    // programs.
    refuse_denied(processes, &asked, [&asked[..]])?;
    let line = shims::Line {
        argv: what.argv,
        before: Vec::new(),
        env: what.env.unwrap_or(caller.env),
        cwd: what.cwd.or(Some(caller.cwd)),
        timeout: None,
    };
    let no_program = |message, fix| {
        Error::NotFound(refuse(processes, &asked, message, fix, DenialKind::NoProgram))
    };
    let Some(programs) = &processes.programs else {
        return Err(no_program("there are no programs here".into(), None));
    };
    let is_program = |name: &str| programs.find(name).is_ok_and(|found| found.is_some());
    let line = shims::unwrap(line, is_program).map_err(|message| no_program(message, None))?;
    let mut held = HostMemory::new(processes.meter.clone());
    if !held.grow(size(&line)) {
        return Err(Error::Limit(Limit::Memory.to_string()));
    }
    let cwd = line.cwd.unwrap_or_default();
    let found =
        programs.resolve_command(&line.argv, &cwd, |path| processes.files.head(path, HEAD_BYTES));
    let program = found.map_err(|error| {
        match line.argv.first().and_then(|command| names::never(command)) {
            Some(reason) => no_program(format!("`{}` is never here: {reason}", line.argv[0]), None),
            None => no_program(error.message, error.fix),
        }
    })?;
    if let Some(file) =
        programs.find_denied_file(&program, &cwd, |path, bytes| processes.files.head(path, bytes))
    {
        return Err(Error::Denied(refuse(
            processes,
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
    if !processes.rules.none_of.is_empty() {
        let commands = programs.command_lines_of(&program);
        let before = line.before.iter().map(std::slice::from_ref);
        refuse_denied(
            processes,
            &asked,
            commands.iter().map(Vec::as_slice).chain(before).chain([&runs[..]]),
        )?;
    }
    allow(processes, &asked, &runs)?;
    count(processes, caller.depth)?;
    let Some(launcher) = processes.launcher.upgrade() else {
        return Err(Error::NotFound("the run is over".into()));
    };
    let recorded_name = program.recorded_name().to_owned();
    let program =
        launcher.prepare(program).await.map_err(|status| Error::NotFound(say(&status)))?;
    Ok(Startable {
        argv: asked,
        recorded_name,
        program,
        env: line.env,
        cwd,
        timeout: line.timeout,
        depth: caller.depth + 1,
        held,
    })
}

/// Refuses what was asked where a denial stops one of the commands that it comes to.
fn refuse_denied<'a>(
    processes: &Processes,
    asked: &[String],
    commands: impl IntoIterator<Item = &'a [String]>,
) -> Result<(), Error> {
    let rules = &processes.rules;
    match commands.into_iter().find_map(|argv| rules.find_denial(argv)) {
        Some(pattern) => Err(Error::Denied(processes.deny(pattern.denial(asked)))),
        None => Ok(()),
    }
}

/// Whether both sides allow what will run.
fn allow(processes: &Processes, asked: &[String], runs: &[String]) -> Result<(), Error> {
    if processes.rules.allows_command_before_denials(runs) {
        processes.note_command(runs);
        return Ok(());
    }
    let program = runs[0].rsplit('/').next().unwrap_or(&runs[0]);
    let fix = format!(
        "`Bash({program}:*)` in the skill's allowed-tools, and `--allow 'Bash({program}:*)'`"
    );
    let rule = "no `Bash` entry that both the skill asks for and the policy allows covers it";
    Err(Error::Denied(refuse(processes, asked, rule.into(), Some(fix), DenialKind::Program)))
}

fn count(processes: &Processes, depth: u64) -> Result<(), Error> {
    let (meter, limits) = (&processes.meter, &processes.meter.limits);
    if depth >= limits.process_depth {
        meter.hit(Limit::ProcessDepth);
        return Err(Error::Limit(format!(
            "programs may start programs {} deep",
            limits.process_depth
        )));
    }
    if meter.processes.fetch_add(1, Relaxed) >= limits.processes {
        meter.processes.fetch_sub(1, Relaxed);
        meter.hit(Limit::Processes);
        return Err(Error::Limit(format!("{} programs may be started", limits.processes)));
    }
    Ok(())
}

/// Notes a command that does not start, for the outcome; returns the reason, for the guest.
fn refuse(
    processes: &Processes,
    argv: &[String],
    rule: String,
    fix: Option<String>,
    kind: DenialKind,
) -> String {
    let command: String = argv.join(" ").chars().take(200).collect();
    processes.deny(Denial { what: format!("start `{command}`"), rule, fix, kind })
}

/// Starts it: a task of its own.
pub(super) fn go(processes: &Arc<Processes>, what: Startable, streams: Streams) -> Running {
    let Startable { argv, recorded_name, program, env, cwd, timeout, depth, held } = what;
    let (tell, status) = watch::channel(None);
    let recorded = processes.records.open(&argv, &recorded_name, depth);
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
    let ending = Ending { processes: processes.clone(), tell, status: Status::Killed, recorded };
    let work = Work { program: Some((program, given)), timeout, _held: held, ending };
    let task = processes.started.spawn(work.run().instrument(debug_span!("process")));
    Running { id, abort: task.abort_handle(), task: Some(task), status }
}

/// What a program's task has. In this order, so that the last is dropped last: the status is told
/// when the program's streams are closed.
struct Work {
    program: Option<(Ready, ProgramIo)>,
    timeout: Option<Timeout>,
    _held: HostMemory,
    ending: Ending,
}

impl Work {
    async fn run(mut self) -> ProgramEnd {
        let this = &mut self;
        let Some((program, given)) = this.program.take() else { return ProgramEnd::Exited(0) };
        let running = program(given);
        let ended = match this.timeout {
            None => running.await,
            Some(timeout) => {
                let deterministic = this.ending.processes.deterministic.clone();
                let ended = within(deterministic.as_deref(), timeout.after, running).await;
                ended.unwrap_or(ProgramEnd::Exited(timeout.code))
            }
        };
        this.ending.status = status_of(&ended);
        ended
    }
}

/// Tells how a program ended when its task is over, whatever ended that.
struct Ending {
    processes: Arc<Processes>,
    tell: watch::Sender<Option<Status>>,
    status: Status,
    recorded: Recorded,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.processes.records.close(&self.recorded, &self.status);
        self.tell.send_replace(Some(self.status.clone()));
    }
}

impl Running {
    pub(super) fn abort_handle(&self) -> AbortHandle {
        self.abort.clone()
    }

    /// How it ended; `None` where it was ended from outside.
    pub(super) async fn ended(mut self) -> Option<ProgramEnd> {
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

fn status_of(ended: &ProgramEnd) -> Status {
    match ended {
        ProgramEnd::Exited(code) => Status::Exited(*code),
        ProgramEnd::Trapped(message) => Status::Trapped(message.clone()),
        ProgramEnd::Limit(limit) => Status::Limit(limit.to_string()),
        // Nothing starts a tool as a program.
        ProgramEnd::Tool(_) => Status::Exited(0),
    }
}

/// Bytes that the host keeps of a command while it runs: it has the words twice.
fn size(line: &shims::Line) -> u64 {
    let words = line.argv.iter().map(|word| 2 * word.len());
    let env = line.env.iter().map(|(name, value)| name.len() + value.len());
    words.chain(env).sum::<usize>() as u64
}
