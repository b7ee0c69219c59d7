//! Runs a service under mixed load for a long time:
//! `cargo bench -p skillhost-bench --bench soak [-- COUNT [SECONDS]]`, by default 5,000
//! invocations in at most 60 seconds; the full run is `-- 100000 3600`.
//!
//! Some guests succeed, some trap, some exceed their time or memory, some start programs, and some
//! callers cancel. Prints the latencies of each kind, and the memory, descriptors and threads of
//! the process over time. Fails if files, descriptors, threads, tasks or slots leak, if records are
//! missing, or if memory grows.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark panics if it cannot run"
)]
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "shared/host.rs"]
mod host;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use skillhost::invoke::{RunRequest, Target};
use skillhost::service::{Capacity, Service, ServiceError, ServiceLoad};
use skillhost_bench::{repository, sizes};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Status;
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::{Allocation, Io};

use host::{AUDIT, SCRATCH, host};

const COUNT: usize = 5_000;
const SECONDS: u64 = 60;
/// The number of concurrent callers: twice the number of running guests, so that some always wait.
const CALLERS: usize = 32;
const CAPACITY: Capacity = Capacity {
    running: 16,
    running_per_skill: 8,
    waiting: 24,
    waiting_per_skill: 8,
    memory: 1 << 30,
};
const SKILLS: [&str; 3] = ["one", "two", "three"];
const PARTS: usize = 10;
/// Memory growth that counts as noise, because allocators retain memory.
const NOISE: u64 = 64 << 20;

/// A kind of request: its share of a hundred, its command line, and the expected status.
struct Kind {
    name: &'static str,
    share: usize,
    args: &'static [&'static str],
    timeout_ms: u64,
    /// The caller cancels the request after this time.
    patience: Option<Duration>,
    is_expected: fn(&Status) -> bool,
}

const fn kind(
    name: &'static str,
    share: usize,
    args: &'static [&'static str],
    is_expected: fn(&Status) -> bool,
) -> Kind {
    Kind { name, share, args, timeout_ms: 60_000, patience: None, is_expected }
}

const KINDS: [Kind; 9] = [
    kind("works", 60, &["burn", "1000"], |status| *status == Status::Exited { code: 0 }),
    kind("uses 40 MiB", 8, &["alloc", "40"], |status| *status == Status::Exited { code: 0 }),
    kind("exits with 3", 8, &["exit", "3"], |status| *status == Status::Exited { code: 3 }),
    kind("traps", 8, &["trap"], |status| matches!(status, Status::Trapped { .. })),
    kind("uses too much memory", 4, &["alloc", "70"], |status| hit(status, Limit::Memory)),
    kind("starts a program", 4, &["turns", "1"], |status| *status == Status::Exited { code: 0 }),
    Kind { timeout_ms: 50, ..kind("spins", 4, &["spin"], |status| hit(status, Limit::Timeout)) },
    Kind { timeout_ms: 50, ..kind("sleeps", 2, &["sleep"], |status| hit(status, Limit::Timeout)) },
    Kind {
        patience: Some(Duration::from_millis(30)),
        ..kind("is cancelled", 2, &["files", "/tmp"], |_| false)
    },
];

fn hit(status: &Status, limit: Limit) -> bool {
    matches!(status, Status::LimitHit(hit) if hit.limit == limit)
}

/// The results of all requests of one kind.
#[derive(Default)]
struct Tally {
    times: Vec<Duration>,
    busy: usize,
    cancelled: usize,
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let count = numbers.first().map_or(COUNT, |count| usize::try_from(*count).unwrap());
    let end = Instant::now() + Duration::from_secs(numbers.get(1).copied().unwrap_or(SECONDS));
    let dir = tempfile::tempdir().unwrap();
    let skills = SKILLS.map(|name| skill(dir.path(), name));
    // Running guests, and the programs that they start.
    let allocation = Allocation::Pooling(24);
    let host = host(dir.path(), skillhost_bench::skillhost(), Vec::new(), allocation);
    let service = Service::new(host, CAPACITY);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let tallies: Arc<Mutex<BTreeMap<&str, Tally>>> = Arc::default();

    // The component is compiled before anything is timed.
    let first = runtime.block_on(load(&service, &skills, &tallies, 1, end));
    tallies.lock().unwrap().clear();
    // Runs a tenth at a time, to show whether the resources of the process grow.
    let started = Instant::now();
    let mut invoked = 0;
    let mut resources = Vec::new();
    for _ in 0..PARTS {
        invoked += runtime.block_on(load(&service, &skills, &tallies, count / PARTS, end));
        settle(&runtime);
        service.runner().settle();
        resources.push(Resources::now());
    }
    let took = started.elapsed();
    assert_eq!(service.load(), ServiceLoad { running: 0, waiting: 0, memory: 0 });

    let tallies = tallies.lock().unwrap();
    println!(
        "{:22} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9}",
        "", "ran", "busy", "p50 ms", "p90 ms", "p99 ms", "max ms"
    );
    for Kind { name, .. } in &KINDS {
        let Some(Tally { times, busy, cancelled }) = tallies.get(name) else { continue };
        let mut times = times.clone();
        times.sort();
        let at = |share: usize| {
            times
                .get((times.len() * share / 100).min(times.len().saturating_sub(1)))
                .map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        let ran = times.len() + cancelled;
        println!(
            "{name:22} {ran:>7} {busy:>7} {:>9.1} {:>9.1} {:>9.1} {:>9.1}",
            at(50),
            at(90),
            at(99),
            at(100)
        );
    }
    let requests: usize =
        tallies.values().map(|tally| tally.times.len() + tally.busy + tally.cancelled).sum();
    println!(
        "{requests} requests, {invoked} invocations in {:.1} s: {:.0} per second",
        took.as_secs_f64(),
        invoked as f64 / took.as_secs_f64()
    );
    for (name, of) in [
        ("MiB resident", (|now| now.memory >> 20) as fn(&Resources) -> u64),
        ("open descriptors", |now| now.descriptors as u64),
        ("threads", |now| now.threads as u64),
    ] {
        let tenths: Vec<String> = resources.iter().map(|now| of(now).to_string()).collect();
        println!("{name:22} {} after each tenth", tenths.join(" "));
    }
    // The first half allocates what the process keeps: compiled components, and memory for later
    // guests.
    let (middle, last) = (&resources[PARTS / 2 - 1], &resources[PARTS - 1]);
    assert_eq!(last.descriptors, middle.descriptors, "descriptors leaked");
    assert!(last.threads <= middle.threads, "threads leaked");
    assert!(last.memory < middle.memory + NOISE, "memory grew");
    assert_eq!(
        std::fs::read_dir(dir.path().join(SCRATCH)).unwrap().count(),
        0,
        "scratch files leaked"
    );
    assert_eq!(records(dir.path()), first + invoked, "each invocation has one record");
}

/// Sends `count` requests from concurrent callers, each of which sends its next request when the
/// previous one is answered. Returns the number of invocations.
async fn load(
    service: &Service,
    skills: &[PathBuf; 3],
    tallies: &Arc<Mutex<BTreeMap<&'static str, Tally>>>,
    count: usize,
    end: Instant,
) -> usize {
    let (next, invoked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let callers = (0..CALLERS).map(|_| {
        let (service, skills, tallies, next, invoked) =
            (service.clone(), skills.clone(), tallies.clone(), next.clone(), invoked.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count || Instant::now() > end {
                    return;
                }
                one(&service, &skills, &tallies, &invoked, number).await;
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    invoked.load(Ordering::Relaxed)
}

async fn one(
    service: &Service,
    skills: &[PathBuf; 3],
    tallies: &Mutex<BTreeMap<&'static str, Tally>>,
    invoked: &AtomicUsize,
    number: usize,
) {
    // Spreads the kinds over time, in the same way in each run. Most requests are for the first
    // skill.
    let mut place = number * 37 % 100;
    let kind = KINDS
        .iter()
        .find(|kind| place.checked_sub(kind.share).map(|left| place = left).is_none())
        .unwrap();
    let skill = &skills[[0, 0, 0, 1, 2][number % 5]];
    let limits = vec![
        (Limit::Timeout, kind.timeout_ms),
        (Limit::Memory, 64 << 20),
        (Limit::Files, 1_000_000),
    ];
    let policy =
        Policy::builtin().with_command_line(Overrides { limits, ..Overrides::default() }).unwrap();
    let args = kind.args.iter().map(|arg| (*arg).to_owned()).collect();
    let request = RunRequest {
        skill: skill.into(),
        policy: &policy,
        target: Target::Main,
        args,
        io: Io::default(),
    };
    let started = Instant::now();
    let result = match kind.patience {
        // A request counts as invoked once it runs, which only the host knows. So this one bypasses
        // the queue before it is cancelled.
        Some(patience) => {
            let mut running = std::pin::pin!(service.runner().invoke(request));
            tokio::time::timeout(patience, &mut running)
                .await
                .map(|result| result.map_err(ServiceError::from))
                .ok()
        }
        None => Some(service.invoke(request).await),
    };
    let took = started.elapsed();
    if let Some(Err(ServiceError::Busy { .. } | ServiceError::SkillBusy { .. })) = &result {
        // The error asks the caller to try again later.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut tallies = tallies.lock().unwrap();
    let tally = tallies.entry(kind.name).or_default();
    match result {
        None => {
            tally.cancelled += 1;
            invoked.fetch_add(1, Ordering::Relaxed);
        }
        Some(Err(ServiceError::Busy { .. } | ServiceError::SkillBusy { .. })) => tally.busy += 1,
        Some(Ok(done)) => {
            let outcome = done.finished.outcome;
            assert!((kind.is_expected)(&outcome.status), "{}: {outcome:?}", kind.name);
            tally.times.push(took);
            invoked.fetch_add(1, Ordering::Relaxed);
        }
        Some(Err(error)) => panic!("{}: {error}", kind.name),
    }
}

/// The resources of this process.
struct Resources {
    /// Resident memory, in bytes.
    memory: u64,
    descriptors: usize,
    threads: usize,
}

impl Resources {
    fn now() -> Resources {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
        Resources {
            memory: sizes(&status)["VmRSS"],
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
        }
    }
}

/// Waits for the tasks of cancelled guests, which end at their next epoch.
fn settle(runtime: &tokio::runtime::Runtime) {
    let started = Instant::now();
    while runtime.metrics().num_alive_tasks() > 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "tasks leaked");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn records(root: &Path) -> usize {
    let verified =
        skillhost_ledger::audit::LogStore::open(&root.join(AUDIT)).unwrap().verify(None).unwrap();
    assert_eq!(verified.faults, [], "the audit log is intact");
    usize::try_from(verified.records).unwrap()
}

fn skill(root: &Path, name: &str) -> PathBuf {
    let folder = root.join("skills").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = format!(
        "---\nname: {name}\ndescription: One of three. Use when soaking.\nmetadata:\n  component: hostile.wasm\n---\n"
    );
    std::fs::write(folder.join("SKILL.md"), manifest).unwrap();
    std::fs::copy(repository("target/components/hostile.wasm"), folder.join("hostile.wasm"))
        .unwrap_or_else(|_| panic!("no hostile.wasm: `cargo xtask components` builds it"));
    folder
}
