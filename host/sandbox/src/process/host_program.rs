//! Host programs: functions of the embedding application that a guest starts as commands. They run
//! natively, outside the sandbox, with the authority of the application.
//!
//! A function gets its arguments, the variables that the operator granted, and its input. It never
//! touches the streams of the run itself: the task of the program passes data on, and ends with the
//! run even if the function never returns.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::{ProgramIo, Ready};
use crate::engine::ProgramEnd;
use crate::limits::{AliveProgram, HostMemory, Meter};
use crate::streams::Input;
use crate::streams::pipe::CAPACITY;
use skillhost_policy::limits::Limit;

/// The exit code of a host program whose function panics: that of a Rust program that panics.
pub const PANIC_EXIT_CODE: u8 = 101;

/// The exit code if the machine has no thread left for a host program.
const NOT_STARTED: u8 = 126;

/// The function of a host program.
#[derive(Clone)]
pub struct HostFunction(Arc<dyn Fn(HostCall) -> BoxFuture<'static, HostOutput> + Send + Sync>);

/// The host programs of an embedder, by name. Cheap to clone; empty by default.
#[derive(Clone, Default)]
pub struct HostPrograms(Arc<BTreeMap<String, HostFunction>>);

/// One start of a host program.
pub struct HostCall {
    /// The command line: the registered name, then the arguments, which the skill chooses.
    pub argv: Vec<String>,
    /// The variables that the operator granted to the run. A skill cannot change them: what it
    /// sets in its own environment is not passed.
    pub env: BTreeMap<String, String>,
    stdin: Option<mpsc::Sender<oneshot::Sender<Vec<u8>>>>,
}

/// The result of a host program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostOutput {
    /// What it writes to stdout.
    pub stdout: Vec<u8>,
    /// What it writes to stderr.
    pub stderr: Vec<u8>,
    /// Its exit code; 0 means success.
    pub exit_code: u8,
}

/// The host programs of one run.
pub(crate) struct HostAccess {
    functions: HostPrograms,
    granted: BTreeSet<String>,
    env: BTreeMap<String, String>,
    starts: Mutex<BTreeMap<String, u64>>,
}

impl HostFunction {
    /// Creates the function of a host program.
    pub fn new<F, R>(function: F) -> HostFunction
    where
        F: Fn(HostCall) -> R + Send + Sync + 'static,
        R: Future<Output = HostOutput> + Send + 'static,
    {
        HostFunction(Arc::new(move |call| Box::pin(function(call))))
    }
}

impl HostPrograms {
    /// Creates the list. Of two with one name, the last one counts.
    pub fn new(programs: impl IntoIterator<Item = (String, HostFunction)>) -> HostPrograms {
        HostPrograms(Arc::new(programs.into_iter().collect()))
    }

    /// Returns the names.
    pub fn names(&self) -> BTreeSet<String> {
        self.0.keys().cloned().collect()
    }
}

impl HostCall {
    /// Reads standard input to its end. Empty if it has been read before.
    ///
    /// Nothing is read unless this is called, so a program in a loop does not take the input of the
    /// loop. Input beyond the run's limits `memory` and `host-call` ends the program: then this
    /// does not return.
    pub async fn stdin(&mut self) -> Vec<u8> {
        let Some(requests) = self.stdin.take() else { return Vec::new() };
        let (answer, bytes) = oneshot::channel();
        if requests.send(answer).await.is_err() {
            return Vec::new();
        }
        bytes.await.unwrap_or_default()
    }
}

impl HostOutput {
    /// Returns a success with this text on stdout.
    pub fn success(stdout: impl Into<Vec<u8>>) -> HostOutput {
        HostOutput { stdout: stdout.into(), ..HostOutput::default() }
    }

    /// Returns a failure with this text on stderr.
    pub fn failure(exit_code: u8, stderr: impl Into<Vec<u8>>) -> HostOutput {
        HostOutput { stdout: Vec::new(), stderr: stderr.into(), exit_code }
    }
}

impl HostAccess {
    pub(crate) fn new(
        functions: HostPrograms,
        granted: BTreeSet<String>,
        env: &BTreeMap<String, String>,
    ) -> HostAccess {
        let env = if granted.is_empty() { BTreeMap::new() } else { env.clone() };
        let starts = Mutex::new(granted.iter().map(|name| (name.clone(), 0)).collect());
        HostAccess { functions, granted, env, starts }
    }

    /// Checks whether the run may start a program.
    pub(super) fn grants(&self, name: &str) -> bool {
        self.granted.contains(name)
    }

    /// Returns a program that is ready to run, and counts it; `None` if it does not exist.
    pub(super) fn prepare(
        &self,
        name: &str,
        mut argv: Vec<String>,
        meter: Arc<Meter>,
        alive: Arc<AliveProgram>,
    ) -> Option<Ready> {
        let function = self.functions.0.get(name).filter(|_| self.grants(name))?.clone();
        if let Some(command) = argv.first_mut() {
            // `/usr/bin/NAME` means the same.
            name.clone_into(command);
        }
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        *starts.entry(name.to_owned()).or_default() += 1;
        let env = self.env.clone();
        Some(Box::new(move |io| {
            let call = HostCall { argv, env, stdin: None };
            Box::pin(run(function, call, io, meter, alive))
        }))
    }

    /// Returns the granted programs, and how often each was started.
    pub(super) fn starts(&self) -> BTreeMap<String, u64> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs a function, and passes its input and output on. Dropping this drops the function's future.
async fn run(
    function: HostFunction,
    mut call: HostCall,
    io: ProgramIo,
    meter: Arc<Meter>,
    alive: Arc<AliveProgram>,
) -> ProgramEnd {
    let ProgramIo { mut stdin, mut stdout, mut stderr, .. } = io;
    let name = call.argv[0].clone();
    let (requests, requested) = mpsc::channel(1);
    call.stdin = Some(requests);
    let ended = async {
        match start(function, call, alive) {
            // A function that panics drops its end of the channel.
            Ok(output) => output.await.unwrap_or_else(|_| {
                tracing::error!(program = name, "a host program panicked");
                HostOutput::failure(PANIC_EXIT_CODE, format!("{name}: the host program panicked\n"))
            }),
            Err(error) => {
                HostOutput::failure(NOT_STARTED, format!("{name}: cannot start: {error}\n"))
            }
        }
    };
    let output = tokio::select! {
        biased;
        output = ended => output,
        limit = answer(requested, &mut stdin, &meter) => return ProgramEnd::Limit(limit),
    };
    for (limit, bytes) in [(Limit::Stdout, &output.stdout), (Limit::Stderr, &output.stderr)] {
        if bytes.len() as u64 > meter.limits.get(limit).unwrap_or(0) {
            meter.stop(limit);
            return ProgramEnd::Limit(limit);
        }
    }
    let mut held = HostMemory::new(meter);
    if !held.grow((output.stdout.len() + output.stderr.len()) as u64) {
        return ProgramEnd::Limit(Limit::Memory);
    }
    // A reader that has closed its pipe is not an error of the program.
    let _ = tokio::join!(stdout.write_all(&output.stdout), stderr.write_all(&output.stderr));
    stdout.finish().await;
    stderr.finish().await;
    ProgramEnd::Exited(output.exit_code)
}

/// Starts a function on a thread of its own, because it may block. The thread drops the function's
/// future when the result is dropped, or as soon as the function stops blocking. Until then it counts
/// as a running program: otherwise a skill could fill the process with threads that block.
///
/// A thread of the runtime would not do: the runtime waits for those when it shuts down.
fn start(
    function: HostFunction,
    call: HostCall,
    alive: Arc<AliveProgram>,
) -> std::io::Result<oneshot::Receiver<HostOutput>> {
    let (report, output) = oneshot::channel();
    let runtime = Handle::current();
    std::thread::Builder::new().name("host-program".into()).spawn(move || {
        let mut report = report;
        // Dropped before the report, also in a panic: the next program must not find this one alive.
        let alive = alive;
        let output = runtime.block_on(async {
            tokio::select! {
                biased;
                () = report.closed() => None,
                output = async { (function.0)(call).await } => Some(output),
            }
        });
        drop(alive);
        if let Some(output) = output {
            // If the run has ended, the receiver is gone.
            let _ = report.send(output);
        }
    })?;
    Ok(output)
}

/// Answers requests for the input. Returns only if the input exceeds a limit.
async fn answer(
    mut requests: mpsc::Receiver<oneshot::Sender<Vec<u8>>>,
    stdin: &mut Input,
    meter: &Arc<Meter>,
) -> Limit {
    let mut held = HostMemory::new(meter.clone());
    while let Some(request) = requests.recv().await {
        let mut bytes = Vec::new();
        loop {
            // An error of the caller's descriptor ends the input.
            let more = poll_fn(|cx| stdin.poll_take(cx, CAPACITY)).await.unwrap_or_default();
            if more.is_empty() {
                break;
            }
            if !held.grow(more.len() as u64) {
                return Limit::Memory;
            }
            bytes.extend_from_slice(&more);
            if bytes.len() as u64 > meter.limits.host_call {
                meter.hit(Limit::HostCall);
                return Limit::HostCall;
            }
        }
        // The function may have stopped waiting.
        let _ = request.send(bytes);
    }
    pending().await
}
