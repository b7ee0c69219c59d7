//! Runs a program under capabilities: opens what it is granted, prepares it, runs it within its
//! limits, and returns its outcome.
//!
//! Owns the order of a run ([`run()`]): what it is asked to do (`spec`), what its programs share
//! (`invocation`), the folders they see (`mounts`, `scratch`), one program's store (`store`, its
//! data `state`, and `linker`, which links its imports), and what it came to (`finished`).
//! `sandbox` is what all runs share. May use every other module; no other module knows this one.

mod finished;
mod invocation;
mod linker;
mod mounts;
mod sandbox;
mod scratch;
mod spec;
mod state;
mod store;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tracing::debug_span;

use crate::determinism::{Clock, DeterministicRun, randomness, turns};
use crate::engine::{Mode, RunEnd};
use crate::files::{GuardedPaths, RandomSource, SnapshotError, Times};
use crate::http::{NetworkGate, RunNetwork, Sender};
use crate::limits::Meter;
use crate::limits::fuel::Cost;
use crate::process::{Processes, ProgramIo};
use crate::python::Scripts;
use crate::streams::{Input, Out, Outlets};
use invocation::Invocation;
use mounts::{FileSources, Folders};
use skillhost_policy::capabilities::{Capabilities, FileRules, Mount, NetworkRules, PathRules};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Output, ResourceUsage, Status, StreamDigests};
use skillhost_skill::runtime::Program;

pub use finished::{Evidence, FinishedRun};
pub use mounts::{ExtraMounts, Overlays};
pub use sandbox::{Options, Sandbox};
pub use spec::{Io, RecordingIo, RunSpec};

/// Runs a program without the files of a skill.
pub async fn run_alone(
    sandbox: &Sandbox,
    program: &Program,
    scratch: &Path,
    capabilities: Arc<Capabilities>,
    io: Io,
) -> FinishedRun {
    let spec = RunSpec {
        program,
        programs: None,
        capabilities,
        skill: None,
        extra: ExtraMounts::default(),
        guarded: &GuardedPaths::default(),
        scratch,
        evidence: false,
        recording: RecordingIo::default(),
        io,
    };
    run(sandbox, spec).await
}

/// Runs a program under capabilities until it ends, or a limit ends it.
#[deny(unused_variables, reason = "a capability without an enforcer must not compile")]
pub async fn run(sandbox: &Sandbox, spec: RunSpec<'_>) -> FinishedRun {
    let started = Instant::now();
    let RunSpec { program, programs, capabilities, io, evidence, recording, .. } = spec;
    let mode = Mode::of(&capabilities);
    // Each enforcer is handed its own slice by value. A new field is an unused variable until it
    // is.
    let Capabilities {
        mounts,
        packages,
        read,
        write,
        spawn,
        fetch,
        methods,
        authorities,
        env,
        limits,
        determinism,
    } = Arc::unwrap_or_clone(capabilities);
    let cwd = working_folder(&mounts);
    let variables = environment(&env, &packages, cwd);
    let files = FileRules { mounts, packages, paths: PathRules { read, write } };
    let network = NetworkRules { fetch, methods, authorities };
    let meter = Meter::new(limits, determinism.is_some());

    let clock = determinism.map(|start| Clock::new(start.start_time));
    let sources = FileSources {
        randomness: RandomSource::new(randomness::device(&meter, determinism)),
        times: clock.as_ref().map(file_times),
        contents: recording.contents.clone(),
    };
    let folders = Folders {
        skill: spec.skill,
        extra: spec.extra,
        guarded: spec.guarded,
        scratch: spec.scratch,
        cache: sandbox.cache(),
    };
    let mounts =
        debug_span!("mounts").in_scope(|| mounts::open(files, &meter.limits, folders, sources));
    let mounts = match mounts {
        Ok(mounts) => mounts,
        Err(denial) => return FinishedRun::refused(Status::Denied(denial), started),
    };
    let snapshot = || evidence.then(|| mounts.files.snapshot(sandbox.cache())).transpose();
    let before = match snapshot() {
        Ok(before) => before,
        Err(error) => return FinishedRun::refused(no_receipt(&error), started),
    };
    let recorded =
        match (&before, recording.contents.as_ref().and_then(|contents| contents.blobs())) {
            (Some(before), Some(keep)) => mounts.files.survey(before, keep),
            _ => Ok(Vec::new()),
        };
    let recorded = match recorded {
        Ok(recorded) => recorded,
        Err(error) => return FinishedRun::refused(no_receipt(&error), started),
    };

    let mut interrupted = std::pin::pin!(async {
        match io.interrupt {
            Some(interrupt) => interrupt.await,
            None => std::future::pending().await,
        }
    });
    let prepared = tokio::select! {
        biased;
        () = &mut interrupted => Err(Status::Interrupted),
        prepared = sandbox.prepare(&program.component, mode, &meter.limits) => prepared,
    };
    let prepared = match prepared {
        Ok(prepared) => prepared,
        // How long compiling takes depends on the machine.
        Err(Status::LimitHit(hit)) if determinism.is_some() => {
            return FinishedRun::refused(Status::Aborted { reason: hit.explain() }, started);
        }
        Err(status) => return FinishedRun::refused(status, started),
    };
    if let Some(status) = prepared.lacks(&program.entry) {
        return FinishedRun::refused(status, started);
    }

    let deterministic = determinism
        .zip(clock)
        .map(|(start, clock)| Arc::new(DeterministicRun::new(start, clock, meter.clone())));
    let mut outlets = deterministic.as_ref().map(|_| Outlets::new());
    let mut out = |sink, limit| match &mut outlets {
        None => Out::new(sink, limit, meter.clone()),
        Some(outlets) => Out::deterministic(sink, limit, meter.clone(), outlets),
    };
    let (stdout, stderr) = (out(io.stdout, Limit::Stdout), out(io.stderr, Limit::Stderr));
    let stdin = match &deterministic {
        Some(_) => Input::deterministic(io.stdin, &meter),
        None => Input::new(io.stdin),
    };
    let reach = match (&deterministic, recording.network) {
        (None, _) => RunNetwork::Live,
        (Some(_), None) => RunNetwork::Off,
        (Some(deterministic), Some(network)) => RunNetwork::Recorded(NetworkGate {
            network,
            host: deterministic.host().clone(),
            clock: deterministic.clock().clone(),
            meter: meter.clone(),
        }),
    };
    let limits = meter.limits.clone();
    let (tls, resolver) = (sandbox.tls().clone(), sandbox.resolver().clone());
    let sender = Sender::of_run(network, limits.clone(), reach, tls, resolver, evidence);
    let invocation = Arc::new_cyclic(|invocation| {
        let files = mounts.files.clone();
        Invocation {
            sandbox: sandbox.clone(),
            mode,
            sender,
            processes: Arc::new(Processes::new(
                spawn,
                programs.clone(),
                files.clone(),
                meter.clone(),
                mode,
                deterministic.clone(),
                invocation.clone() as _,
            )),
            scripts: Scripts::new(sandbox.scripts(), mode, limits, programs, files.clone()),
            meter: meter.clone(),
            files,
            deterministic: deterministic.clone(),
            scratch: mounts.scratch.clone(),
        }
    });
    if io.uses {
        invocation.record_uses();
    }
    let first = ProgramIo {
        stdin: stdin.clone(),
        stdout: stdout.clone(),
        stderr: stderr.clone(),
        env: variables,
        cwd: cwd.to_owned(),
        depth: 0,
        cost: Cost::new(),
        number: 1,
    };
    // Also if this function is dropped.
    let end_orphans = EndOnDrop(&invocation.processes);

    // The deadline is outside of the store's event loop: inside, a spinning guest would keep it
    // from being polled.
    let deadline = tokio::time::sleep(meter.limits.timeout());
    let end = if let (Some(deterministic), Some(outlets)) = (&deterministic, outlets) {
        let (running, program) = (invocation.clone(), program.clone());
        let first = async move { running.execute(&program, &prepared, first).await };
        let processes = invocation.processes.clone();
        let end_others = async move { processes.end().await };
        turns::run(deterministic, first, end_others, outlets, interrupted, deadline).await
    } else {
        tokio::select! {
            biased;
            () = &mut interrupted => RunEnd::Interrupted,
            limit = meter.stopped() => RunEnd::Limit(limit),
            ended = invocation.execute(program, &prepared, first) => RunEnd::Program(ended),
            // Polled last: a program that ends without waiting sets no timer. A spinning program
            // yields at each epoch, and then this is polled.
            () = deadline => RunEnd::Limit(meter.stop(Limit::Timeout).0),
        }
    };
    drop(end_orphans);
    // Programs that are still running were asked to end, and end at their next epoch: nothing of a
    // run continues after it.
    invocation.processes.end().await;

    let (processes, processes_omitted) = invocation.processes.snapshot();
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
        files: invocation.files.touched(),
        requests: invocation.sender.requests(),
        processes,
        processes_omitted,
        changes: invocation.files.changes(),
        denials: invocation.denials(),
        limits_hit: Vec::new(),
        uses: invocation.uses(&env),
    };
    invocation.note_hits();
    outcome.limits_hit = meter.hits();
    if let (Some(error), Some(_)) = (invocation.files.failure(), determinism) {
        meter.abort(format!("a file operation failed on the host: {error}"));
    }
    outcome.status = finished::status(end, &mut outcome, &meter);
    let after = snapshot().unwrap_or_else(|error| {
        outcome.status = no_receipt(&error);
        None
    });
    let evidence =
        before.zip(after).map(|(before, after)| Evidence { before, after, folders: recorded });
    FinishedRun { outcome, overlays: Overlays::of(mounts), evidence }
}

fn no_receipt(error: &SnapshotError) -> Status {
    Status::Failed {
        message: error.to_string(),
        fix: Some("mount a smaller folder, or run without `--receipt` and `--record`".into()),
    }
}

/// Ends the programs that are still running when a run is over.
struct EndOnDrop<'a>(&'a Processes);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end_orphans();
    }
}

/// The file times of a deterministic run: those of its clock.
fn file_times(clock: &Arc<Clock>) -> Times {
    let clock = clock.clone();
    Times::new(move || {
        let now = clock.wall();
        (i64::try_from(now.as_secs()).unwrap_or(i64::MAX), now.subsec_nanos())
    })
}

fn working_folder(mounts: &[Mount]) -> &'static str {
    if mounts.iter().any(|mount| mount.guest == "/workspace") { "/workspace" } else { "/skill" }
}

/// Returns the environment of every guest. The operator's variables override the host's.
fn environment(
    operators: &BTreeMap<String, String>,
    packages: &[Mount],
    cwd: &str,
) -> Vec<(String, String)> {
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
    let packages: Vec<&str> = packages.iter().map(|mount| mount.guest.as_str()).collect();
    let packages = Some(("SKILLHOST_SITE_PACKAGES".to_owned(), packages.join(":")))
        .filter(|_| !packages.is_empty());
    let own = own.into_iter().filter(|(name, _)| !operators.contains_key(*name));
    own.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .chain(operators.clone())
        .chain(packages)
        .collect()
}
