//! `cargo xtask bench load`: many clients of the run API at once, next to a pool of native processes
//! that does the same work.
//!
//! The phases: mixed skills for minutes, with the memory of the server; small runs at 70 % of the
//! server's capacity; and a small tenant beside one that floods the queue. The clients are in a
//! control group of their own, so that the server gets its share of the processor, and those that
//! flood the queue in another one: they would be on another machine.

mod client;
mod group;
mod pool;
mod report;
mod server;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use skillhost_toolchain::{Error, Progress, Step};

use crate::measure;
use crate::place::Place;
use crate::report::Header;
use crate::stats::Spread;
use crate::targets::fill_component;
use client::{Client, Ended, Kind};
use group::Group;
use report::{Capacity, Flood, Mixed};
pub(crate) use report::{Report, markdown};
use server::Server;

/// The clients of the mixed phase, and the tenants that they share evenly.
pub(crate) const CLIENTS: usize = 500;
pub(crate) const TENANTS: usize = 5;

/// The clients that find the capacity of the server, and how long they try.
const CAPACITY_CLIENTS: usize = 16;
const CAPACITY_TIME: Duration = Duration::from_secs(20);

/// The part of the capacity at which the time of a small run is measured, and how long.
const LOAD: f64 = 0.7;
const LOAD_TIME: Duration = Duration::from_secs(30);

/// The part of the capacity that the small tenant uses, beside a tenant that floods the queue, how
/// long a measurement takes, and how many there are.
const SMALL: f64 = 0.1;
const FLOOD_TIME: Duration = Duration::from_secs(20);
const FLOOD_ROUNDS: usize = 5;
const FLOODERS: usize = 64;

/// The threads that submit at a given rate. More than are busy at once, so that none is late.
const SENDERS: usize = 48;

/// How often the memory of the server is sampled.
const INTERVAL: Duration = Duration::from_secs(2);

/// Memory counts from here on: by then the runtimes are loaded.
const SETTLED: Duration = Duration::from_secs(60);

/// Measures everything. `minutes` is the length of the mixed phase.
pub(crate) fn run(
    place: &Place,
    minutes: u64,
    progress: &Progress,
    print: &dyn Fn(&str),
) -> Result<Report, Error> {
    let mut header = Header::new::<Report>(place, FLOOD_ROUNDS, &[], print)?;
    header.command = format!("cargo xtask bench load --minutes {minutes}");
    fill_component(place)?;
    let server = progress.step("start the server", |_| Server::start(place))?;
    let group = Group::enter();
    if let Err(error) = &group {
        print(&format!("The clients share the server's control group: {error}"));
    }
    let length = Duration::from_secs(60 * minutes);
    let mixed = progress.step("mixed skills", |step| mixed(&server, length, step))?;
    let native = progress.step("a pool of native processes", |step| {
        pool::run(place, length.min(Duration::from_secs(60)), step)
    })?;
    let capacity = progress.step("small runs", |step| capacity(&server, step))?;
    let flood = progress.step("a tenant that floods the queue", |step| {
        let group = group.as_ref().ok();
        (0..FLOOD_ROUNDS).map(|round| flood(&server, &capacity, group, (step, round))).collect()
    })?;
    let isolated = group.is_ok();
    let apart = group.is_ok_and(|group| group.separates_threads());
    Ok(Report { header, isolated, apart, mixed, native, capacity, flood })
}

/// Runs mixed skills by all clients, each of which submits its next run when the last one has ended.
fn mixed(server: &Server, length: Duration, step: &Step) -> Result<Mixed, Error> {
    let end = Instant::now() + length;
    let tally = Mutex::new(Tally::default());
    let mut memory = Vec::new();
    std::thread::scope(|scope| {
        for index in 0..CLIENTS {
            let (tally, tenant) = (&tally, &server.tenants[index % TENANTS]);
            spawn(scope, move || {
                let mut client = Client::new(server.port, &tenant.token);
                let mut next = index;
                while Instant::now() < end {
                    let kind = Kind::MIXED[next % Kind::MIXED.len()];
                    next += 1;
                    let ended = client.run(kind, true);
                    lock(tally).add(&ended);
                }
            })?;
        }
        let start = Instant::now();
        while Instant::now() < end {
            std::thread::sleep(INTERVAL);
            let sample = (start.elapsed(), measure::resident(server.pid()));
            step.note(&format!("{} s, {} MiB", sample.0.as_secs(), sample.1 >> 20));
            memory.push(sample);
        }
        Ok::<_, Error>(())
    })?;
    let tally = into_inner(tally);
    let settled = memory.iter().find(|(at, _)| *at >= SETTLED.min(length / 2));
    Ok(Mixed {
        seconds: length.as_secs(),
        per_second: tally.times.len() as u64 / length.as_secs().max(1),
        wall: tally.spread()?,
        problems: tally.problems,
        memory_settled: settled.map_or(0, |(_, bytes)| *bytes),
        memory_end: memory.last().map_or(0, |(_, bytes)| *bytes),
        memory_peak: memory.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0),
    })
}

/// Finds how many small runs a second the server ends, and measures one at a part of that rate.
fn capacity(server: &Server, step: &Step) -> Result<Capacity, Error> {
    step.note("capacity");
    let end = Instant::now() + CAPACITY_TIME;
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for index in 0..CAPACITY_CLIENTS {
            let (tally, tenant) = (&tally, &server.tenants[index % TENANTS]);
            spawn(scope, move || {
                let mut client = Client::new(server.port, &tenant.token);
                while Instant::now() < end {
                    let ended = client.run(Kind::Component, false);
                    lock(tally).add(&ended);
                }
            })?;
        }
        Ok::<_, Error>(())
    })?;
    let per_second = into_inner(tally).times.len() as u64 / CAPACITY_TIME.as_secs();
    step.note("70 % of the capacity");
    // By the same tenants: the server bounds what one of them may use.
    let wall = at_rate(server, TENANTS, per_second as f64 * LOAD, LOAD_TIME)?;
    Ok(Capacity { per_second, wall })
}

/// Measures a small tenant alone, and then beside a tenant that submits more than can run.
fn flood(
    server: &Server,
    capacity: &Capacity,
    group: Option<&Group>,
    (step, round): (&Step, usize),
) -> Result<Flood, Error> {
    let rate = capacity.per_second as f64 * SMALL;
    step.note(&format!("alone, {} of {FLOOD_ROUNDS}", round + 1));
    let alone = at_rate(server, 1, rate, FLOOD_TIME)?;
    step.note(&format!("beside a flood, {} of {FLOOD_ROUNDS}", round + 1));
    let (over, shares) = (AtomicBool::new(false), AtomicBool::new(false));
    let flood = std::thread::scope(|scope| {
        let (over, shares) = (&over, &shares);
        for _ in 0..FLOODERS {
            let token = &server.tenants[1].token;
            spawn(scope, move || {
                if group.is_some_and(|group| group.move_thread_apart().is_err()) {
                    shares.store(true, Ordering::Relaxed);
                }
                let mut client = Client::new(server.port, token);
                while !over.load(Ordering::Relaxed) {
                    client.submit(Kind::Component);
                }
            })?;
        }
        std::thread::sleep(Duration::from_secs(2));
        let beside = at_rate(server, 1, rate, FLOOD_TIME);
        over.store(true, Ordering::Relaxed);
        Ok::<_, Error>(Flood { alone, beside: beside? })
    })?;
    match shares.into_inner() {
        true => Err(Error::new("a client that floods the queue cannot enter its control group")),
        false => Ok(flood),
    }
}

/// Submits small runs of the first tenants at a rate, and returns how long they took from the time at which
/// each should have been submitted: a server that is late does not slow down what it is measured by.
fn at_rate(server: &Server, tenants: usize, rate: f64, length: Duration) -> Result<Spread, Error> {
    let tally = Mutex::new(Tally::default());
    let start = Instant::now() + Duration::from_millis(200);
    let every = Duration::from_secs_f64(SENDERS as f64 / rate.max(1.0));
    std::thread::scope(|scope| {
        for index in 0..SENDERS {
            let tally = &tally;
            let token = &server.tenants[index % tenants].token;
            spawn(scope, move || {
                let mut client = Client::new(server.port, token);
                let mut at = start + every.mul_f64(index as f64 / SENDERS as f64);
                while at < start + length {
                    std::thread::sleep(at.saturating_duration_since(Instant::now()));
                    let ended = client.run(Kind::Component, false);
                    lock(tally).add(&ended.map(|_| at.elapsed()));
                    at += every;
                }
            })?;
        }
        Ok::<_, Error>(())
    })?;
    let tally = into_inner(tally);
    match tally.problems.into_iter().next() {
        Some((problem, count)) => Err(Error::new(format!("{count} runs ended with {problem}"))),
        None => Tally { times: tally.times, problems: BTreeMap::new() }.spread(),
    }
}

/// The times of runs that succeeded in nanoseconds, and what went wrong, by its code.
#[derive(Default)]
struct Tally {
    times: Vec<u64>,
    problems: BTreeMap<String, u64>,
}

impl Tally {
    fn add(&mut self, ended: &Ended) {
        match ended {
            Ok(time) => self.times.push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            Err(problem) => *self.problems.entry(problem.clone()).or_default() += 1,
        }
    }

    fn spread(&self) -> Result<Spread, Error> {
        let problems: Vec<_> = self.problems.keys().map(String::as_str).collect();
        let none = || Error::new(format!("no run succeeded: {}", problems.join(", ")));
        Spread::of(self.times.iter().copied()).ok_or_else(none)
    }
}

fn lock(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn into_inner(tally: Mutex<Tally>) -> Tally {
    tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Starts a thread with a small stack, of which there are hundreds.
fn spawn<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    work: impl FnOnce() + Send + 'scope,
) -> Result<(), Error> {
    let builder = std::thread::Builder::new().stack_size(256 << 10);
    builder.spawn_scoped(scope, work).map(drop).map_err(Error::context("a client's thread"))
}

#[cfg(test)]
pub(crate) use report::tests;
