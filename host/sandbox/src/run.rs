//! Runs a program under capabilities: opens what it is granted, prepares it, runs it within its
//! limits, and returns its outcome.
//!
//! Owns the order of a run ([`run()`]): what it is asked to do (`spec`), what its programs share
//! (`invocation`), the folders they see (`mounts`, `scratch`) and their standard streams
//! (`streams`), one program's store (`store`, its data `state`, and `linker`, which links its
//! imports), when it must end (`deadline`), and its outcome (`finished`). `sandbox` is what all
//! runs share. May use every other module; no other module knows this one.

mod deadline;
mod finished;
mod invocation;
mod linker;
mod mounts;
mod sandbox;
mod scratch;
mod spec;
mod state;
mod store;
mod streams;
#[cfg(test)]
mod wasi_testsuite;

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use tracing::debug_span;

use crate::determinism::{Clock, DeterministicRun, randomness, turns};
use crate::engine::{Mode, RunEnd};
use crate::files::{GuardedPaths, RandomSource, Times};
use crate::http::{NetworkGate, ResponseCache, RunNetwork, Sender};
use crate::limits::Meter;
use crate::process::{
    HostAccess, HostPrograms, Processes, ProgramIo, StartRules, wrapper_commands,
};
use crate::recording::network::RecordedNetwork;
use crate::scripts::Scripts;
use crate::streams::Outlets;
use finished::FilesBefore;
use invocation::Invocation;
use mounts::{FileSources, Folders, OpenFolders};
use sandbox::Prepared;
use skillhost_policy::capabilities::{Capabilities, FileRules, Mount, NetworkRules, PathRules};
use skillhost_policy::determinism::Determinism;
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::Status;
use skillhost_skill::runtime::Program;
use streams::RunStreams;

pub use finished::{Evidence, FinishedRun, OutputError};
pub use mounts::{ExtraMounts, Overlays};
pub use sandbox::{Options, Sandbox};
pub use scratch::{MEMORY_FOLDER, memory_folder};
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
        host_programs: HostPrograms::default(),
        capabilities,
        skill: None,
        extra: ExtraMounts::default(),
        guarded: &GuardedPaths::default(),
        scratch,
        evidence: false,
        recording: RecordingIo::default(),
        http_cache: None,
        io,
    };
    run(sandbox, spec).await
}

/// Runs a program under capabilities until it ends, or a limit ends it.
pub async fn run(sandbox: &Sandbox, spec: RunSpec<'_>) -> FinishedRun {
    let started = Instant::now();
    run_within(sandbox, spec, started, mounts::open)
        .await
        .unwrap_or_else(|status| FinishedRun::refused(status, started))
}

/// As [`run()`]; the status is an error if the program did not start. `open` opens the folders.
#[deny(unused_variables, reason = "a capability without an enforcer must not compile")]
async fn run_within(
    sandbox: &Sandbox,
    spec: RunSpec<'_>,
    started: Instant,
    open: OpenFolders,
) -> Result<FinishedRun, Status> {
    let RunSpec { program, programs, capabilities, io, evidence, recording, http_cache, .. } = spec;
    let mode = Mode::of(&capabilities);
    // Each enforcer is handed its own slice by value. A new field is an unused variable until it
    // is.
    let Capabilities {
        mounts,
        packages,
        read,
        write,
        spawn,
        host_programs,
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
    let limits = meter.limits.clone();

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
        commands: wrapper_commands(&spawn),
        scratch: spec.scratch,
        cache: sandbox.cache(),
    };
    let mounts = debug_span!("mounts")
        .in_scope(|| open(files, &limits, folders, sources))
        .map_err(Status::Denied)?;
    let before = evidence
        .then(|| FilesBefore::of(&mounts.files, sandbox.cache(), recording.contents.as_deref()))
        .transpose()?;

    let mut interrupted = std::pin::pin!(interruption(io.interrupt));
    let prepared =
        prepare(sandbox, program, mode, &meter.limits, determinism, interrupted.as_mut()).await?;

    let deterministic = determinism
        .zip(clock)
        .map(|(start, clock)| Arc::new(DeterministicRun::new(start, clock, meter.clone())));
    let (mut streams, outlets) =
        RunStreams::open(io.stdin, io.stdout, io.stderr, &meter, deterministic.is_some());
    let reach = reach(deterministic.as_deref(), recording.network, &meter);
    let (tls, resolver) = (sandbox.tls().clone(), sandbox.resolver().clone());
    let cache = (limits.http_cache > 0).then(|| {
        // Its own, unless the caller keeps one for the skill: no other run finds anything in it.
        http_cache.unwrap_or_else(|| ResponseCache::new(limits.http_cache, b"run"))
    });
    let sender = Sender::of_run(network, limits.clone(), reach, tls, resolver, evidence, cache);
    let host_programs = HostAccess::new(spec.host_programs, host_programs, &env);
    let rules = StartRules { commands: spawn, host_programs };
    let invocation = Arc::new_cyclic(|invocation| {
        let files = mounts.files.clone();
        Invocation {
            sandbox: sandbox.clone(),
            mode,
            sender,
            processes: Arc::new(Processes::new(
                rules,
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
    let first = streams.of_first_program(variables, cwd);
    // Also if this function is dropped.
    let end_orphans = EndOnDrop(&invocation.processes);
    let end = end_of(&invocation, program, prepared, first, outlets, interrupted).await;
    drop(end_orphans);
    end_others(&invocation, &mut streams).await;
    let output_error = streams.failure();
    let file_error = invocation.files.failure().map(std::io::Error::from);
    let mut outcome = finished::outcome(&invocation, streams, &env, started);
    outcome.status = finished::status(end, &mut outcome, &meter);
    let evidence = before.and_then(|before| {
        let evidence = before.evidence(&mounts.files, sandbox.cache());
        evidence.map_err(|status| outcome.status = status).ok()
    });
    let (missing, overlays) = (mounts.files.missing(), Overlays::of(mounts));
    Ok(FinishedRun { overlays, outcome, evidence, output_error, file_error, missing })
}

/// Waits until the run is to be interrupted.
async fn interruption(interrupt: Option<BoxFuture<'static, ()>>) {
    match interrupt {
        Some(interrupt) => interrupt.await,
        None => std::future::pending().await,
    }
}

/// Compiles a program, unless that was done before, and links it.
async fn prepare(
    sandbox: &Sandbox,
    program: &Program,
    mode: Mode,
    limits: &Limits,
    determinism: Option<Determinism>,
    interrupted: Pin<&mut impl Future<Output = ()>>,
) -> Result<Prepared, Status> {
    let prepared = tokio::select! {
        biased;
        () = interrupted => Err(Status::Interrupted),
        prepared = sandbox.prepare(&program.component, mode, limits) => prepared,
    };
    let prepared = prepared.map_err(|status| match status {
        // How long compiling takes depends on the machine.
        Status::LimitHit(hit) if determinism.is_some() => Status::Aborted { reason: hit.explain() },
        status => status,
    })?;
    match prepared.lacks(&program.entry) {
        Some(status) => Err(status),
        None => Ok(prepared),
    }
}

/// Runs the first program, and waits for its end, the run's deadline or limits, or an interrupt.
async fn end_of(
    invocation: &Arc<Invocation>,
    program: &Program,
    prepared: Prepared,
    first: ProgramIo,
    outlets: Option<Outlets>,
    mut interrupted: Pin<&mut impl Future<Output = ()>>,
) -> RunEnd {
    let meter = &invocation.meter;
    let deadline = deadline::timer(meter);
    if let (Some(deterministic), Some(outlets)) = (&invocation.deterministic, outlets) {
        let (running, program) = (invocation.clone(), program.clone());
        let first = async move { running.execute(&program, &prepared, first).await };
        let processes = invocation.processes.clone();
        let end_others = async move { processes.end().await };
        return turns::run(deterministic, first, end_others, outlets, interrupted, deadline).await;
    }
    tokio::select! {
        biased;
        () = &mut interrupted => RunEnd::Interrupted,
        limit = meter.stopped() => RunEnd::Limit(limit),
        ended = invocation.execute(program, &prepared, first) => RunEnd::Program(ended),
        // Polled last: a program that ends without waiting sets no timer. A spinning program
        // yields at each epoch, and then this is polled.
        () = deadline => RunEnd::Limit(meter.stop(Limit::Timeout).0),
    }
}

/// Waits for the programs that are still running. They were asked to end, and end at their next
/// epoch: nothing of a run continues after it. Then writes what is left of its output.
async fn end_others(invocation: &Invocation, streams: &mut RunStreams) {
    invocation.processes.end().await;
    streams.finish().await;
}

/// How the requests of a run reach the network.
fn reach(
    deterministic: Option<&DeterministicRun>,
    recorded: Option<Arc<RecordedNetwork>>,
    meter: &Arc<Meter>,
) -> RunNetwork {
    match (deterministic, recorded) {
        (None, _) => RunNetwork::Live,
        (Some(_), None) => RunNetwork::Off,
        (Some(deterministic), Some(network)) => RunNetwork::Recorded(NetworkGate {
            network,
            host: deterministic.host().clone(),
            clock: deterministic.clock().clone(),
            meter: meter.clone(),
        }),
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
