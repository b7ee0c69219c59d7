//! Many skills at once: how many a second, how long a crowd takes, and what each that is alive
//! costs in memory.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use skillhost_toolchain::{Error, Progress, Step};

use super::cases::{self, Case};
use super::isolation::Bench;
use super::measure;
use super::report::{Growth, Memory, Throughput};
use super::tiers::Tier;
use super::warm::Driver;

/// Invocations under way at once.
const CONCURRENCY: [usize; 5] = [1, 2, 4, 8, 16];

/// Skills that start at once, or are alive at once.
const CROWDS: [usize; 4] = [1, 10, 100, 1000];

/// How long a throughput is measured, in time of the invocations.
const WINDOW: Duration = Duration::from_secs(2);

/// The most that one point may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// What was found.
pub(crate) struct Crowd {
    pub(crate) throughput: Vec<Throughput>,
    pub(crate) growth: Vec<Growth>,
    pub(crate) memory: Vec<Memory>,
}

pub(crate) fn measure(bench: &mut Bench<'_>, progress: &Progress) -> Result<Crowd, Error> {
    let hello = cases::all().into_iter().next().ok_or_else(|| Error::new("there are no cases"))?;
    let throughput =
        progress.step("throughput by concurrency", |step| throughput(bench, &hello, step))?;
    let growth = progress.step("many that start at once", |step| growth(bench, &hello, step))?;
    let memory = progress.step("many that are alive at once", |step| memory(bench, step))?;
    Ok(Crowd { throughput, growth, memory })
}

fn throughput(bench: &mut Bench<'_>, hello: &Case, step: &Step) -> Result<Vec<Throughput>, Error> {
    let mut found = Vec::new();
    for tier in bench.tiers().collect::<Vec<_>>() {
        match rates(bench, tier, hello, step) {
            Ok(points) => found.extend(points),
            Err(error) => bench.failed(tier, error)?,
        }
    }
    Ok(found)
}

fn rates(
    bench: &mut Bench<'_>,
    tier: Tier,
    hello: &Case,
    step: &Step,
) -> Result<Vec<Throughput>, Error> {
    let one = burst(bench, tier, hello, 10, 1)? / 10;
    let count = (WINDOW.as_secs_f64() / one.as_secs_f64()) as usize;
    let mut found = Vec::new();
    for concurrency in CONCURRENCY {
        step.note(&format!("{concurrency} at once in {}", tier.name()));
        let count = count.max(concurrency * 4);
        let took = burst(bench, tier, hello, count, concurrency)?;
        found.push(Throughput {
            tier: tier.id().into(),
            concurrency,
            per_second: count as f64 / took.as_secs_f64(),
        });
    }
    Ok(found)
}

fn growth(bench: &mut Bench<'_>, hello: &Case, step: &Step) -> Result<Vec<Growth>, Error> {
    let mut found = Vec::new();
    for tier in bench.tiers().collect::<Vec<_>>() {
        let mut last = Duration::ZERO;
        for skills in CROWDS {
            step.note(&format!("{skills} at once in {}", tier.name()));
            let expected = last * 10;
            let took = match tier {
                _ if expected > PATIENCE => Err(too_long(expected)),
                // A host of this size: what is more waits for a place.
                Tier::Warm => {
                    Driver::start(bench.place, &[(hello.id.into(), hello.clone())], skills)
                        .and_then(|mut driver| {
                            driver.each(hello.id, 1)?;
                            driver.burst(hello.id, skills, skills).map(Duration::from_nanos)
                        })
                }
                _ => burst(bench, tier, hello, skills, skills),
            };
            last = took.as_ref().copied().unwrap_or(last * 10);
            let missing = took.as_ref().err().map(ToString::to_string);
            found.push(Growth {
                tier: tier.id().into(),
                skills,
                wall: took.ok().map(nanoseconds),
                missing,
            });
        }
    }
    Ok(found)
}

fn memory(bench: &mut Bench<'_>, step: &Step) -> Result<Vec<Memory>, Error> {
    let waiting = cases::waiting();
    let mut found = Vec::new();
    for tier in bench.tiers().collect::<Vec<_>>() {
        let (mut each, mut took) = (0, Duration::ZERO);
        for instances in CROWDS {
            step.note(&format!("{instances} alive in {}", tier.name()));
            let start = Instant::now();
            let available = available() / 2;
            let measured = match tier {
                _ if took * 10 > PATIENCE => Err(too_long(took * 10)),
                _ if each * instances as u64 > available => Err(Error::new(format!(
                    "it would need more than half of the memory that is free, {} MiB",
                    (available * 2) >> 20
                ))),
                Tier::Warm => {
                    let cases = [(waiting.id.to_owned(), waiting.clone())];
                    Driver::start(bench.place, &cases, instances.max(2))
                        .and_then(|mut driver| driver.alive(waiting.id, instances))
                }
                _ => alive(bench, tier, &waiting, instances),
            };
            took = start.elapsed().max(took);
            let missing = measured.as_ref().err().map(ToString::to_string);
            let [private, first, last] = measured.map_or([None; 3], |found| found.map(Some));
            each = private.map_or(each, |private| private / instances as u64);
            found.push(Memory { tier: tier.id().into(), instances, private, first, last, missing });
        }
    }
    Ok(found)
}

fn too_long(expected: Duration) -> Error {
    Error::new(format!(
        "it would take about {:.0} s, and a point may take {} s",
        expected.as_secs_f64(),
        PATIENCE.as_secs()
    ))
}

/// Runs a case `count` times, `at_once` at once, and returns the time of all.
fn burst(
    bench: &mut Bench<'_>,
    tier: Tier,
    case: &Case,
    count: usize,
    at_once: usize,
) -> Result<Duration, Error> {
    if tier == Tier::Warm {
        return bench.driver()?.burst(case.id, count, at_once).map(Duration::from_nanos);
    }
    let mut commands: Vec<Command> =
        (0..count).map(|_| bench.command(tier, case)).collect::<Result<_, _>>()?;
    let start = Instant::now();
    let share = count.div_ceil(at_once);
    std::thread::scope(|scope| {
        let workers: Vec<_> = commands
            .chunks_mut(share)
            .map(|commands| {
                scope.spawn(move || {
                    commands.iter_mut().try_for_each(|command| measure::run(command).map(drop))
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().map_err(|_| Error::new("a thread of the benchmark panicked"))?
        })
    })?;
    Ok(start.elapsed())
}

/// Keeps `count` processes of a case alive at once. Returns their private memory, and the times of
/// the first and the last to start.
fn alive(bench: &Bench<'_>, tier: Tier, case: &Case, count: usize) -> Result<[u64; 3], Error> {
    let mut crowd = Alive(Vec::new());
    let (mut first, mut last) = (0, 0);
    for n in 0..count {
        let mut command = bench.command(tier, case)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let start = Instant::now();
        let mut child = command.spawn().map_err(Error::context(measure::shown(&command)))?;
        let output = child.stdout.take();
        crowd.0.push(child);
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(Error::context(measure::shown(&command)))?;
        }
        if line.trim() != "ready" {
            return Err(Error::new(format!("{} of {count} did not start", n + 1)));
        }
        last = nanoseconds(start.elapsed());
        first = if n == 0 { last } else { first };
    }
    let private =
        crowd.0.iter().flat_map(|child| measure::tree(child.id())).map(measure::private).sum();
    Ok([private, first, last])
}

/// Processes that wait for the end of their input, which they get, with the wait for their own,
/// when this is dropped.
struct Alive(Vec<Child>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|child| drop(child.stdin.take()));
        self.0.iter_mut().for_each(|child| drop(child.wait()));
    }
}

/// Memory that can be had without swapping, in bytes.
pub(crate) fn available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    measure::fields(&text).get("MemAvailable").copied().unwrap_or(0)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
