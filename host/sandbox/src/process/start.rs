//! Decides whether a program may start, and starts it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tracing::{Instrument as _, debug_span};

use super::bindings::skillhost::skill::process::{Error, Status};
use super::record::Entry;
use super::wrappers::{self, Timeout};
use super::{Parent, Processes, ProgramIo, Ready, unavailable};
use crate::determinism::within;
use crate::engine::{ProgramEnd, say};
use crate::limits::{AliveProgram, HostMemory};
use crate::streams::{Input, Out};
use skillhost_policy::capabilities::MissingEntry;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Denial, DenialKind};
use skillhost_policy::pattern::CommandPattern;
use skillhost_skill::runtime::dispatch::HEAD_BYTES;
use skillhost_skill::runtime::{Program, Programs, javascript};

/// A caller's request to start a program.
pub(super) struct CommandRequest {
    pub(super) argv: Vec<String>,
    pub(super) env: Option<Vec<(String, String)>>,
    pub(super) cwd: Option<String>,
}

/// What a program inherits in addition to the streams.
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

/// What a command line starts.
enum Found {
    /// A component, in its own store.
    Guest(Program),
    /// The host program of this name.
    Host(String),
}

/// A program that is ready to start, without its streams.
pub(super) struct ReadyProgram {
    argv: Vec<String>,
    /// The name in the run's record.
    recorded_name: String,
    program: Ready,
    env: Vec<(String, String)>,
    cwd: String,
    timeout: Option<Timeout>,
    depth: u64,
    /// The memory that the host uses for this while the program runs.
    reserved: HostMemory,
    alive: Arc<AliveProgram>,
}

/// A started program. Dropping it ends the program.
pub(super) struct RunningProgram {
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

/// Finds the program that a command refers to, checks it against the capabilities and the limits,
/// and compiles it.
pub(super) async fn prepare(
    processes: &Processes,
    caller: Caller,
    request: CommandRequest,
) -> Result<ReadyProgram, Error> {
    let requested = request.argv.clone();
    // Before the lookup: the shell asks about built-in commands that are not programs of the host.
    check_denials(processes, &requested, [&requested[..]])?;
    let line = wrappers::CommandLine {
        argv: request.argv,
        wrappers: Vec::new(),
        spelled: None,
        env: request.env.unwrap_or(caller.env),
        cwd: request.cwd.or(Some(caller.cwd)),
        timeout: None,
    };
    let no_program = |message, fix| {
        Error::NotFound(refuse(processes, &requested, message, fix, DenialKind::NoProgram))
    };
    let Some(programs) = &processes.programs else {
        return Err(no_program("no programs are available".into(), None));
    };
    let is_program = |name: &str| programs.find(name).is_ok_and(|found| found.is_some());
    let line =
        wrappers::unwrap_command(line, is_program).map_err(|message| no_program(message, None))?;
    let mut reserved = HostMemory::new(processes.meter.clone());
    if !reserved.grow(size(&line)) {
        return Err(Error::Limit(Limit::Memory.to_string()));
    }
    let cwd = line.cwd.unwrap_or_default();
    let found = match line.argv.first().map_or(Ok(None), |command| programs.host_program(command)) {
        Ok(Some(name)) => Found::Host(name.to_owned()),
        Ok(None) => {
            Found::Guest(resolve(processes, programs, &requested, &line.argv, &line.env, &cwd)?)
        }
        Err(error) => return Err(no_program(error.message, error.fix)),
    };
    let options = match &found {
        Found::Guest(program) => javascript::code_of_environment(&program.name, &line.env),
        Found::Host(_) => Vec::new(),
    };
    let mut commands = match &found {
        Found::Guest(program) if !processes.rules.none_of.is_empty() => {
            programs.command_lines_of(program)
        }
        Found::Guest(_) | Found::Host(_) => Vec::new(),
    };
    // An entry for `node x.js` or `npx tsx x.ts` does not cover code that the environment names.
    let spelled = line.spelled.filter(|_| options.is_empty());
    let is_other_program = |command: &str| {
        programs.impersonates_built_in(command) || wrappers::impersonates_wrapper(command)
    };
    let effective = match &found {
        // An entry for `jq` does not cover `./jq`: what must be allowed is the program that reads
        // it.
        Found::Guest(program) if !options.is_empty() || is_other_program(&line.argv[0]) => {
            [std::slice::from_ref(&program.name), &options, &program.args[..]].concat()
        }
        Found::Guest(_) | Found::Host(_) => line.argv,
    };
    commands.extend(line.wrappers.into_iter().map(|wrapper| vec![wrapper]));
    check_denials(
        processes,
        &requested,
        commands.iter().map(Vec::as_slice).chain([&effective[..]]),
    )?;
    check_grant(processes, &requested, &effective, spelled.as_deref(), &found)?;
    let alive = Arc::new(charge_process(processes, caller.depth)?);
    let Some(launcher) = processes.launcher.upgrade() else {
        return Err(Error::NotFound("the run is over".into()));
    };
    let (recorded_name, program) = match found {
        Found::Guest(program) => (
            program.recorded_name().to_owned(),
            launcher.prepare(program).await.map_err(|status| Error::NotFound(say(&status)))?,
        ),
        Found::Host(name) => {
            let meter = processes.meter.clone();
            let ready = processes.host_programs.prepare(&name, effective, meter, alive.clone());
            let missing = || Error::NotFound(format!("no host program `{name}`"));
            (name.clone(), ready.ok_or_else(missing)?)
        }
    };
    Ok(ReadyProgram {
        argv: requested,
        recorded_name,
        program,
        env: line.env,
        cwd,
        timeout: line.timeout,
        depth: caller.depth + 1,
        reserved,
        alive,
    })
}

/// Finds the component that a command line starts.
fn resolve(
    processes: &Processes,
    programs: &Programs,
    requested: &[String],
    argv: &[String],
    env: &[(String, String)],
    cwd: &str,
) -> Result<Program, Error> {
    let found = programs.resolve_command(argv, cwd, |path| processes.files.head(path, HEAD_BYTES));
    let program = found.map_err(|error| {
        let reason = argv.first().and_then(|command| unavailable::reason(command));
        let (message, fix) = match reason {
            Some(reason) => (format!("`{}` is not available: {reason}", argv[0]), None),
            None => (error.message, error.fix),
        };
        Error::NotFound(refuse(processes, requested, message, fix, DenialKind::NoProgram))
    })?;
    let look = |path: &str, bytes| processes.files.head(path, bytes);
    let options = javascript::code_of_environment(&program.name, env);
    match programs.find_denied_file(&program, &options, cwd, look) {
        Some(file) => Err(Error::Denied(refuse(
            processes,
            requested,
            format!("a permission level blocks {}", file.path),
            Some("skillhost permissions".into()),
            DenialKind::Program,
        ))),
        None => Ok(program),
    }
}

/// Refuses a request if a denial matches one of the commands that it resolves to.
fn check_denials<'a>(
    processes: &Processes,
    requested: &[String],
    commands: impl IntoIterator<Item = &'a [String]>,
) -> Result<(), Error> {
    let rules = &processes.rules;
    match commands.into_iter().find_map(|argv| rules.find_denial(argv)) {
        Some(pattern) => Err(Error::Denied(processes.deny(pattern.denial(requested)))),
        None => Ok(()),
    }
}

/// Checks whether both sides allow the resolved command. `spelled` is the same command as it was
/// written, if it is one of a JavaScript tool: an entry for either allows it.
fn check_grant(
    processes: &Processes,
    requested: &[String],
    effective: &[String],
    spelled: Option<&[String]>,
    found: &Found,
) -> Result<(), Error> {
    let deny = |rule, fix| {
        Err(Error::Denied(refuse(processes, requested, rule, fix, DenialKind::Program)))
    };
    let program = effective[0].rsplit('/').next().unwrap_or(&effective[0]);
    let entry = format!("Bash({program}:*)");
    let matches = |pattern: &CommandPattern| pattern.matches(effective);
    match found {
        Found::Guest(_) => {
            let either = |pattern: &CommandPattern| {
                matches(pattern) || spelled.is_some_and(|spelled| pattern.matches(spelled))
            };
            if processes.rules.allows_command_before_denials(effective) {
                processes.note_command(effective);
                return Ok(());
            }
            let missing = processes.rules.missing_entry(either);
            if let Some(spelled) = spelled.filter(|_| missing.is_none()) {
                processes.note_command(spelled);
                return Ok(());
            }
            let missing = missing.unwrap_or(MissingEntry::Operator);
            let rule = format!("not granted: {} for this command", missing.describe());
            deny(rule, Some(missing.fix(&entry)))
        }
        Found::Host(_) if processes.deterministic.is_some() => deny(
            "a deterministic run starts no host programs: nothing could repeat it".into(),
            Some("run it without `deterministic`".into()),
        ),
        Found::Host(name) => {
            let missing = processes.rules.missing_host_entry(matches);
            if missing.is_none() && processes.host_programs.grants(name) {
                processes.note_command(effective);
                return Ok(());
            }
            let missing = missing.unwrap_or(MissingEntry::Operator);
            let rule = format!("not granted: {} that names this host program", missing.describe());
            deny(rule, Some(missing.fix(&entry)))
        }
    }
}

fn charge_process(processes: &Processes, depth: u64) -> Result<AliveProgram, Error> {
    let (meter, limits) = (&processes.meter, &processes.meter.limits);
    if depth >= limits.process_depth {
        meter.hit(Limit::ProcessDepth);
        return Err(Error::Limit(format!(
            "programs can be nested at most {} deep",
            limits.process_depth
        )));
    }
    if meter.processes.fetch_add(1, Relaxed) >= limits.processes {
        meter.processes.fetch_sub(1, Relaxed);
        meter.hit(Limit::Processes);
        return Err(Error::Limit(format!("at most {} programs can be started", limits.processes)));
    }
    meter.charge_alive().ok_or_else(|| {
        Error::Limit(format!("at most {} programs can run at once", limits.processes_alive))
    })
}

/// Records the denial of a command, for the outcome; returns the reason, for the guest.
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

/// Starts a program as a task.
pub(super) fn launch(
    processes: &Arc<Processes>,
    ready: ReadyProgram,
    streams: Streams,
) -> RunningProgram {
    let ReadyProgram { argv, recorded_name, program, env, cwd, timeout, depth, reserved, alive } =
        ready;
    let (sender, status) = watch::channel(None);
    let entry = processes.records.open(&argv, &recorded_name, depth);
    let id = entry.id;
    let io = ProgramIo {
        stdin: streams.stdin,
        stdout: streams.stdout,
        stderr: streams.stderr,
        env,
        cwd,
        depth,
        cost: entry.cost.clone(),
        number: id.into(),
    };
    let reporter =
        ExitReporter { processes: processes.clone(), sender, status: Status::Killed, entry };
    let work = ProgramTask {
        program: Some((program, io)),
        timeout,
        _reserved: reserved,
        _alive: alive,
        reporter,
    };
    let task = processes.started.spawn(work.run().instrument(debug_span!("process")));
    RunningProgram { id, abort: task.abort_handle(), task: Some(task), status }
}

/// The data of a program's task. The order matters: the last field is dropped last, so that the
/// status is reported after the program's streams are closed.
struct ProgramTask {
    program: Option<(Ready, ProgramIo)>,
    timeout: Option<Timeout>,
    _reserved: HostMemory,
    _alive: Arc<AliveProgram>,
    reporter: ExitReporter,
}

impl ProgramTask {
    async fn run(mut self) -> ProgramEnd {
        let this = &mut self;
        let Some((program, io)) = this.program.take() else { return ProgramEnd::Exited(0) };
        let running = program(io);
        let ended = match this.timeout {
            None => running.await,
            Some(timeout) => {
                let deterministic = this.reporter.processes.deterministic.clone();
                let ended = within(deterministic.as_deref(), timeout.after, running).await;
                ended.unwrap_or(ProgramEnd::Exited(timeout.code))
            }
        };
        this.reporter.status = status_of(&ended);
        ended
    }
}

/// Reports how a program ended when its task ends, for whatever reason.
struct ExitReporter {
    processes: Arc<Processes>,
    sender: watch::Sender<Option<Status>>,
    status: Status,
    entry: Entry,
}

impl Drop for ExitReporter {
    fn drop(&mut self) {
        self.processes.records.close(&self.entry, &self.status);
        self.sender.send_replace(Some(self.status.clone()));
    }
}

impl RunningProgram {
    pub(super) fn abort_handle(&self) -> AbortHandle {
        self.abort.clone()
    }

    /// Waits for the end; returns `None` if the program was ended from outside.
    pub(super) async fn wait(mut self) -> Option<ProgramEnd> {
        self.task.as_mut()?.await.ok()
    }

    /// Leaves the program running, and returns the channel that will hold its status.
    pub(super) fn detach(mut self) -> watch::Receiver<Option<Status>> {
        self.task = None;
        self.status.clone()
    }
}

impl Drop for RunningProgram {
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
        // A tool is never started as a program.
        ProgramEnd::Tool(_) => Status::Exited(0),
    }
}

/// Returns the bytes that the host uses for a command while it runs; it stores each word twice.
fn size(line: &wrappers::CommandLine) -> u64 {
    let spelled = line.spelled.iter().flatten().map(String::len);
    let words = line.argv.iter().map(|word| 2 * word.len()).chain(spelled);
    let env = line.env.iter().map(|(name, value)| name.len() + value.len());
    words.chain(env).sum::<usize>() as u64
}
