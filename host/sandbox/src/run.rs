//! Runs a program under capabilities: opens what it is granted, prepares it, runs it within its
//! bounds, and returns its outcome.
//!
//! Owns the order of a run ([`run()`]), what its programs share (`invocation`), the folders they see
//! (`mounts`, `scratch`), and one program's store (`store`, its data `state`, and `linker`, which
//! links its imports). `sandbox` is what all runs share. The other rooms must not know this one.

pub(crate) mod invocation;
pub(crate) mod linker;
pub(crate) mod mounts;
mod sandbox;
mod scratch;
mod state;
mod store;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use tracing::debug_span;

use crate::determinism::randomness;
use crate::determinism::turns::{self, Fixed};
use crate::determinism::{Clock, file_times};
use crate::engine::Ended;
use crate::engine::Mode;
use crate::files::{Guarded, OpenMount, Snapshot, SnapshotError};
use crate::limits::Meter;
use crate::limits::fuel::Cost;
use crate::recording::Folder;
use crate::recording::keep::Contents;
use crate::recording::tape::Tape;
use crate::streams::Outlets;
use crate::streams::{Input, Out, Sink, Stdin};
pub(crate) use invocation::Invocation;
pub use mounts::{ExtraMounts, Overlays};
pub(crate) use sandbox::Prepared;
pub use sandbox::{Options, Sandbox};
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{LimitHit, Outcome, Output, ResourceUsage, Status, StreamDigests};
use skillhost_skill::runtime::{Program, Programs};
pub(crate) use state::State;
pub(crate) use store::ProgramIo;

/// The streams of an invocation, what stops it from outside, and what it is to tell.
#[derive(Default)]
pub struct Io {
    /// Standard input of the first program.
    pub stdin: Stdin,
    /// Its standard output.
    pub stdout: Sink,
    /// Its standard error.
    pub stderr: Sink,
    /// Resolves when the invocation is to be interrupted.
    pub interrupt: Option<BoxFuture<'static, ()>>,
    /// Whether the outcome tells what was used of the grants.
    pub uses: bool,
}

/// What an invocation is asked to do.
pub struct Invoke<'a> {
    /// What runs.
    pub program: &'a Program,
    /// What else it may start; `None` where there is no skill.
    pub programs: Option<Arc<Programs>>,
    /// What it may touch.
    pub capabilities: &'a Arc<Capabilities>,
    /// `/skill`.
    pub skill: Option<OpenMount>,
    /// What else is there to read.
    pub extra: ExtraMounts,
    /// Folders that are mounted only when the operator spells them out.
    pub guarded: &'a Guarded,
    /// Where scratch folders are made.
    pub scratch: &'a Path,
    /// Whether the files are digested before and after, for a receipt.
    pub evidence: bool,
    /// What records the run, or gives it what was recorded. Of a deterministic run alone.
    pub outside: Outside,
}

/// What stands between a run and what is outside.
#[derive(Debug, Clone, Default)]
pub struct Outside {
    /// The network, recording or recorded.
    pub tape: Option<Arc<Tape>>,
    /// Where files that are read are kept, or which of them were.
    pub contents: Option<Arc<Contents>>,
}

/// What a receipt says of files, and costs what reading all of them costs.
#[derive(Debug)]
pub struct Evidence {
    /// As the guest found them.
    pub before: Snapshot,
    /// As it left them.
    pub after: Snapshot,
    /// The folders by name, where the run is recorded.
    pub folders: Vec<Folder>,
}

/// An invocation's outcome, and the writes that it kept aside.
pub struct Finished {
    /// What happened.
    pub outcome: Outcome,
    /// The overlays, for a diff or to be applied. Gone with this value.
    pub overlays: Overlays,
    /// What a receipt needs, where it was asked for and the program ran.
    pub evidence: Option<Evidence>,
}

/// Runs a program without the files of a skill.
pub async fn run_alone(
    sandbox: &Sandbox,
    program: &Program,
    scratch: &Path,
    capabilities: Arc<Capabilities>,
) -> Finished {
    let what = Invoke {
        program,
        programs: None,
        capabilities: &capabilities,
        skill: None,
        extra: ExtraMounts::default(),
        guarded: &Guarded::default(),
        scratch,
        evidence: false,
        outside: Outside::default(),
    };
    run(sandbox, what, Io::default()).await
}

/// Runs a program under capabilities until it ends, or a bound ends it.
pub async fn run(sandbox: &Sandbox, what: Invoke<'_>, io: Io) -> Finished {
    let started = Instant::now();
    let capabilities = what.capabilities.clone();
    // Files hold the first four, `process` holds `spawn`, the sender `fetch`, `methods` and
    // `authorities`: a new field does not compile until it has a place of its own.
    let Capabilities {
        mounts: _,
        packages: _,
        read: _,
        write: _,
        spawn: _,
        fetch: _,
        methods: _,
        authorities: _,
        env: _,
        limits,
        determinism,
    } = &**what.capabilities;
    let meter = Meter::new(limits.clone(), determinism.is_some());
    let clock = determinism.map(|start| Clock::new(start.start_time));
    let chance = randomness::device(&meter, *determinism);
    let times = clock.as_ref().map(file_times);
    let Outside { tape, contents } = what.outside;
    let (cache, kept) = (sandbox.cache(), contents.clone());
    let mounts = debug_span!("mounts").in_scope(|| {
        mounts::open(
            &capabilities,
            what.skill,
            what.extra,
            what.guarded,
            what.scratch,
            cache,
            chance,
            times,
            kept,
        )
    });
    let mounts = match mounts {
        Ok(mounts) => mounts,
        Err(denial) => return Finished::refused(Status::Denied(denial), started),
    };
    let snapshot = || what.evidence.then(|| mounts.vfs.snapshot(cache)).transpose();
    let before = match snapshot() {
        Ok(before) => before,
        Err(error) => return Finished::refused(unreceipted(&error), started),
    };
    let folders = match (&before, contents.as_ref().and_then(|contents| contents.keep())) {
        (Some(before), Some(keep)) => mounts.vfs.survey(before, keep),
        _ => Ok(Vec::new()),
    };
    let folders = match folders {
        Ok(folders) => folders,
        Err(error) => return Finished::refused(unreceipted(&error), started),
    };
    let mut interrupted = std::pin::pin!(async {
        match io.interrupt {
            Some(interrupt) => interrupt.await,
            None => std::future::pending().await,
        }
    });
    let mode = Mode::of(&capabilities);
    let prepared = tokio::select! {
        biased;
        () = &mut interrupted => Err(Status::Interrupted),
        prepared = sandbox.prepare(&what.program.component, mode, &capabilities.limits) => prepared,
    };
    let prepared = match prepared {
        Ok(prepared) => prepared,
        // How long compiling takes is the machine's.
        Err(Status::LimitHit(hit)) if determinism.is_some() => {
            return Finished::refused(Status::Aborted { reason: hit.explain() }, started);
        }
        Err(status) => return Finished::refused(status, started),
    };
    if let Some(status) = prepared.lacks(&what.program.entry) {
        return Finished::refused(status, started);
    }

    let fixed = determinism.zip(clock).map(|(start, clock)| Fixed::new(start, clock));
    let mut outlets = determinism.map(|_| Outlets::new());
    let mut out = |sink, limit| match &mut outlets {
        None => Out::new(sink, limit, meter.clone()),
        Some(outlets) => Out::relayed(sink, limit, meter.clone(), outlets),
    };
    let (stdout, stderr) = (out(io.stdout, Limit::Stdout), out(io.stderr, Limit::Stderr));
    let stdin =
        if determinism.is_some() { Input::steady(io.stdin, &meter) } else { Input::new(io.stdin) };
    let invocation = Invocation::new(
        sandbox,
        &capabilities,
        what.programs,
        &mounts,
        meter.clone(),
        mode,
        fixed,
        tape,
        what.evidence,
    );
    if io.uses {
        invocation.note_uses();
    }
    let cwd = if capabilities.mounts.iter().any(|m| m.guest == "/workspace") {
        "/workspace"
    } else {
        "/skill"
    };
    let given = ProgramIo {
        stdin: stdin.clone(),
        stdout: stdout.clone(),
        stderr: stderr.clone(),
        env: environment(&capabilities, cwd),
        cwd: cwd.to_owned(),
        depth: 0,
        cost: Cost::new(),
        number: 1,
    };
    // Also where this function is dropped.
    let over = EndOnDrop(&invocation);

    // The deadline stands outside the store's event loop: inside, a spinning guest would keep it
    // from being looked at.
    let deadline = tokio::time::sleep(capabilities.limits.timeout());
    let end = if let Some(outlets) = outlets {
        turns::run(&invocation, what.program, &prepared, given, outlets, interrupted, deadline)
            .await
    } else {
        tokio::select! {
            biased;
            () = &mut interrupted => End::Interrupted,
            limit = meter.stopped() => End::Stopped(limit),
            ended = invocation.execute(what.program, &prepared, given) => End::Itself(ended),
            // Last: a program that ends without ever waiting sets no timer. One that spins is put
            // off at each epoch, and then this is looked at.
            () = deadline => End::Stopped(meter.stop(Limit::Timeout).0),
        }
    };
    drop(over);
    // What the program started and left has been told to end, and does at its next epoch: nothing
    // of a run goes on after it.
    invocation.started.close();
    invocation.started.wait().await;
    let (processes, processes_omitted) = invocation.processes.listed();
    let streams =
        StreamDigests { stdin: stdin.digest(), stdout: stdout.digest(), stderr: stderr.digest() };
    let mut outcome = Outcome {
        status: Status::Interrupted,
        streams,
        stdout: Output(stdout.take()),
        stderr: Output(stderr.take()),
        result: None,
        error: None,
        usage: ResourceUsage {
            stdout_bytes: stdout.seen(),
            stderr_bytes: stderr.seen(),
            ..invocation.usage(started)
        },
        files: invocation.vfs.touched(),
        requests: invocation.sender.requests(),
        processes,
        processes_omitted,
        changes: mounts.vfs.changes(),
        denials: invocation.denials(),
        limits_hit: Vec::new(),
        uses: invocation.uses(),
    };
    invocation.note_hits();
    outcome.limits_hit = meter.hits();
    if let (Some(error), Some(_)) = (invocation.vfs.failure(), determinism) {
        meter.abort(format!("the host's own files failed: {error}"));
    }
    outcome.status = status(end, &mut outcome, &meter);
    let after = snapshot().unwrap_or_else(|error| {
        outcome.status = unreceipted(&error);
        None
    });
    let evidence = before.zip(after).map(|(before, after)| Evidence { before, after, folders });
    Finished { outcome, overlays: Overlays::of(mounts), evidence }
}

fn unreceipted(error: &SnapshotError) -> Status {
    Status::Failed {
        message: error.to_string(),
        fix: Some("mount a smaller folder, or run without `--receipt` and `--record`".into()),
    }
}

/// Ends what is left running of a run that is over.
struct EndOnDrop<'a>(&'a Invocation);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.orphans.end();
    }
}

/// How the first program's run was over.
pub(crate) enum End {
    /// It ended by itself.
    Itself(Ended),
    /// A limit stopped it.
    Stopped(Limit),
    /// It was stopped from outside.
    Interrupted,
    /// A deterministic run was ended by what is not the same on every machine.
    Aborted,
}

/// A guest that failed after it was told of a limit failed of that limit.
fn status(end: End, outcome: &mut Outcome, meter: &Meter) -> Status {
    if let (Some(reason), false) = (meter.abort_reason(), matches!(end, End::Interrupted)) {
        return Status::Aborted { reason: reason.to_owned() };
    }
    let first = outcome.limits_hit.first().cloned();
    let hit = |limit| Status::LimitHit(LimitHit { limit, value: meter.value(limit) });
    // One that was to be ended may have been quick enough to end by itself.
    if let (End::Itself(_), Some(limit)) = (&end, meter.stop_reason()) {
        return hit(limit);
    }
    match end {
        // An abort has said why.
        End::Interrupted | End::Aborted => Status::Interrupted,
        End::Stopped(limit) => hit(limit),
        End::Itself(Ended::Limit(limit)) => hit(limit),
        End::Itself(Ended::Exited(0)) => Status::Exited { code: 0 },
        End::Itself(Ended::Exited(code)) => first.map_or(Status::Exited { code }, Status::LimitHit),
        End::Itself(Ended::Trapped(message)) => {
            first.map_or(Status::Trapped { message }, Status::LimitHit)
        }
        End::Itself(Ended::Tool(Ok(value))) => {
            outcome.result = Some(value);
            Status::Exited { code: 0 }
        }
        End::Itself(Ended::Tool(Err(message))) => {
            outcome.error = Some(message);
            first.map_or(Status::Exited { code: 1 }, Status::LimitHit)
        }
    }
}

impl Io {
    /// The streams of a typed tool: its input is not on stdin, and stdout is its result's alone, so
    /// what it prints goes to stderr.
    #[must_use]
    pub fn of_tool(self) -> Io {
        let stdout = match (&self.stdout, &self.stderr) {
            (Sink::Descriptor(_), Sink::Descriptor(stderr)) => {
                stderr.try_clone().map_or(Sink::Capture, Sink::Descriptor)
            }
            _ => Sink::Capture,
        };
        Io { stdin: Stdin::Empty, stdout, ..self }
    }
}

impl Finished {
    /// The outcome of something that never ran.
    pub fn not_run(outcome: Outcome) -> Finished {
        Finished { outcome, overlays: Overlays::default(), evidence: None }
    }

    fn refused(status: Status, started: Instant) -> Finished {
        let usage = ResourceUsage {
            wall_ms: started.elapsed().as_secs_f64() * 1e3,
            ..ResourceUsage::default()
        };
        let limits_hit =
            if let Status::LimitHit(hit) = &status { vec![hit.clone()] } else { Vec::new() };
        Finished::not_run(Outcome { status, usage, limits_hit, ..Outcome::default() })
    }
}

/// What every guest finds in its environment, under the operator's own variables.
fn environment(capabilities: &Capabilities, cwd: &str) -> Vec<(String, String)> {
    let own = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", "/tmp"),
        ("TMPDIR", "/tmp"),
        ("PWD", cwd),
        ("LANG", "C.UTF-8"),
        ("SKILL_DIR", "/skill"),
        ("CLAUDE_SKILL_DIR", "/skill"),
        ("CLAUDE_PLUGIN_ROOT", "/skill"),
    ];
    let packages: Vec<&str> =
        capabilities.packages.iter().map(|mount| mount.guest.as_str()).collect();
    let packages = Some(("SKILLHOST_SITE_PACKAGES".to_owned(), packages.join(":")))
        .filter(|_| !packages.is_empty());
    let own = own.into_iter().filter(|(name, _)| !capabilities.env.contains_key(*name));
    own.map(|(n, v)| (n.to_owned(), v.to_owned()))
        .chain(capabilities.env.clone())
        .chain(packages)
        .collect()
}
