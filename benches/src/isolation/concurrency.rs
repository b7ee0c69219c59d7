//! Measures concurrent skills: their throughput, the time of many that start at once, and the
//! memory of live ones.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use skillhost_toolchain::{Error, Step};

use super::figures::{Growth, Memory, Throughput};
use super::tiers::Tier;
use super::{Cell, FAILED, Isolation};
use crate::bench::Bench;
use crate::cases;
use crate::driver::{Driver, Executor, LiveGuests};
use crate::measure::{self, nanoseconds};
use crate::report::split;

/// The numbers of concurrent invocations.
const CONCURRENCY: [usize; 5] = [1, 2, 4, 8, 16];

/// The numbers of skills that start at once, or of live guests.
const COUNTS: [usize; 4] = [1, 10, 100, 1000];

/// How long each throughput is measured, as the sum of the invocations' times.
const WINDOW: Duration = Duration::from_secs(2);

/// The maximal time of one point, and that of a slow tier.
const MAX_TIME: Duration = Duration::from_secs(120);
const MAX_SLOW_TIME: Duration = Duration::from_secs(20);

/// The largest number of concurrent invocations that a slow tier is measured at.
const SLOW_CONCURRENCY: usize = 4;

pub(crate) fn measure_throughput(
    isolation: &mut Isolation<'_>,
    step: &Step,
) -> Result<Vec<Throughput>, Error> {
    let mut points = Vec::new();
    for cell in isolation.cells(&[cases::hello()]) {
        match measure_rates(&mut isolation.bench, &cell, step) {
            Ok(found) => points.extend(found),
            Err(error) => isolation.fail(cell.tier, FAILED, error.to_string())?,
        }
    }
    Ok(points)
}

fn measure_rates(
    bench: &mut Bench<'_>,
    cell: &Cell<'_>,
    step: &Step,
) -> Result<Vec<Throughput>, Error> {
    let runs = if cell.tier.is_slow() { 2 } else { 10 };
    let one = run_burst(bench, cell, runs, 1)? / runs as u32;
    let count = (WINDOW.as_secs_f64() / one.as_secs_f64()) as usize;
    let rate = |concurrency: usize| {
        step.note(&format!("{concurrency} concurrent runs in {}", cell.tier.name()));
        let count = count.max(concurrency * 4);
        let time = run_burst(bench, cell, count, concurrency)?;
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok(Throughput::of(cell.tier.id(), concurrency, count, time))
    };
    let largest = if cell.tier.is_slow() { SLOW_CONCURRENCY } else { usize::MAX };
    CONCURRENCY.into_iter().filter(|concurrency| *concurrency <= largest).map(rate).collect()
}

pub(crate) fn measure_growth(isolation: &mut Isolation<'_>, step: &Step) -> Vec<Growth> {
    let mut points = Vec::new();
    for cell in isolation.cells(&[cases::hello()]) {
        let (bench, mut last) = (&mut isolation.bench, Duration::ZERO);
        for skills in COUNTS {
            step.note(&format!("{skills} concurrent starts in {}", cell.tier.name()));
            let time = check_time(last * 10, cell.tier).and_then(|()| match cell.tier {
                // A host with room for all skills: in a smaller one, some would wait.
                Tier::Warm => {
                    let mut driver = Driver::start(bench.place, [&cell.case], skills)?;
                    driver.warm_up(&cell.case)?;
                    driver.burst(&cell.case, skills, skills).map(Duration::from_nanos)
                }
                _ => run_burst(bench, &cell, skills, skills),
            });
            last = *time.as_ref().unwrap_or(&(last * 10));
            let wall = time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            let (wall, missing) = split(wall);
            points.push(Growth { tier: cell.tier.id().into(), skills, wall, missing });
        }
    }
    points
}

pub(crate) fn measure_memory(isolation: &mut Isolation<'_>, step: &Step) -> Vec<Memory> {
    let mut points = Vec::new();
    for cell in isolation.cells(&[cases::waiting()]) {
        let (bench, mut each, mut time) = (&mut isolation.bench, 0, Duration::ZERO);
        for instances in COUNTS {
            step.note(&format!("{instances} live guests in {}", cell.tier.name()));
            let start = Instant::now();
            let room = check_time(time * 10, cell.tier)
                .and_then(|()| measure::check_room(each * instances as u64));
            let found = room.and_then(|()| match cell.tier {
                Tier::Warm => Driver::start(bench.place, [&cell.case], instances.max(2))?
                    .alive(&cell.case, instances),
                _ => keep_alive(bench, &cell, instances),
            });
            time = start.elapsed().max(time);
            let (found, missing) = split(found);
            each = found.map_or(each, |found| found.private / instances as u64);
            let of = |figure: fn(LiveGuests) -> u64| found.map(figure);
            points.push(Memory {
                tier: cell.tier.id().into(),
                instances,
                private: of(|found| found.private),
                first: of(|found| found.first),
                last: of(|found| found.last),
                missing,
            });
        }
    }
    points
}

/// Estimates how long a tier is measured, from the time of one Python hello.
pub(crate) fn expected(tier: Tier, one: Duration) -> Duration {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let throughput = CONCURRENCY
        .into_iter()
        .filter(|concurrency| !tier.is_slow() || *concurrency <= SLOW_CONCURRENCY);
    let throughput = throughput.map(|concurrency| WINDOW.max(one * concurrency as u32 * 4 / cores));
    // Starts are concurrent, and guests start one after another.
    let points = [one / cores, one].into_iter().flat_map(|one| {
        COUNTS
            .into_iter()
            .map(move |count| one * count as u32)
            .take_while(move |time| check_time(*time, tier).is_ok())
    });
    throughput.chain(points).sum()
}

/// Refuses a point that would take too long.
fn check_time(expected: Duration, tier: Tier) -> Result<(), Error> {
    let longest = if tier.is_slow() { MAX_SLOW_TIME } else { MAX_TIME };
    if expected > longest {
        return Err(Error::new(format!(
            "it would take about {:.0} s, more than the limit of {} s",
            expected.as_secs_f64(),
            longest.as_secs()
        )));
    }
    Ok(())
}

/// Runs a case `count` times with this concurrency, and returns the total time.
fn run_burst(
    bench: &mut Bench<'_>,
    cell: &Cell<'_>,
    count: usize,
    concurrency: usize,
) -> Result<Duration, Error> {
    let mut commands = Vec::new();
    for _ in 0..count {
        match bench.executor(cell)? {
            Executor::Process(command) => commands.push(command),
            Executor::Driver(driver) => {
                return driver.burst(&cell.case, count, concurrency).map(Duration::from_nanos);
            }
        }
    }
    let start = Instant::now();
    std::thread::scope(|scope| {
        let run = |commands: &mut [Command]| {
            commands.iter_mut().try_for_each(|command| measure::run(command).map(drop))
        };
        let shares = commands.chunks_mut(count.div_ceil(concurrency));
        let workers: Vec<_> = shares.map(|share| scope.spawn(move || run(share))).collect();
        let panicked = |_| Error::new("a thread of the benchmark panicked");
        workers.into_iter().try_for_each(|worker| worker.join().map_err(panicked)?)
    })?;
    Ok(start.elapsed())
}

/// Runs `count` processes of a case concurrently until each waits for input.
fn keep_alive(bench: &mut Bench<'_>, cell: &Cell<'_>, count: usize) -> Result<LiveGuests, Error> {
    let mut waiting = WaitingProcesses(Vec::new());
    let (mut first, mut last) = (0, 0);
    for number in 1..=count {
        let Executor::Process(mut command) = bench.executor(cell)? else { continue };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let start = Instant::now();
        let mut child = command.spawn().map_err(Error::context(measure::program(&command)))?;
        let output = child.stdout.take();
        waiting.0.push(child);
        let mut line = String::new();
        if let Some(output) = output {
            let read = BufReader::new(output).read_line(&mut line);
            read.map_err(Error::context(measure::program(&command)))?;
        }
        if line.trim() != "ready" {
            return Err(Error::new(format!("process {number} of {count} did not start")));
        }
        last = nanoseconds(start);
        first = if number == 1 { last } else { first };
    }
    let private = waiting.0.iter().map(|child| measure::private(child.id())).sum();
    Ok(LiveGuests { private, first, last })
}

/// Processes that wait for the end of their input. Dropping this value closes their input and waits
/// for them to exit.
struct WaitingProcesses(Vec<Child>);

impl Drop for WaitingProcesses {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // On a terminal, as in the microVM, this character ends the input.
            drop(child.stdin.take().map(|mut input| input.write_all(b"\x04")));
        }
        self.0.iter_mut().for_each(|child| drop(child.wait()));
    }
}
