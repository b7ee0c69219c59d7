//! `cargo xtask bench serve`: small calls of `skillhost serve` by 1, 16 and 128 clients at once,
//! next to the same runs in one process.

mod client;
mod report;
mod server;

use std::time::{Duration, Instant};

use skillhost_toolchain::{Error, Progress, Step};

use crate::cases::Case;
use crate::driver::{Driver, Executor};
use crate::listening::Listening;
use crate::place::Place;
use crate::report::Header;
use crate::samples::Samples;
use crate::targets::{component, fill_component};
use client::Client;
pub(crate) use report::{Report, markdown};

/// The numbers of clients at once.
const CLIENTS: [usize; 3] = [1, 16, 128];

/// The most calls of a round, whatever the number of clients, and the runs in one process.
const CALLS: usize = 1_000;

/// How long the calls of a round may take. Clients that began a call end it.
const WINDOW: Duration = Duration::from_secs(5);

/// The rounds before the first that is recorded. They compile the component and fill caches.
const WARM_UP: usize = 1;

/// The name of the samples of the runs in one process.
const IN_PROCESS: &str = "in process, warm";

/// Measures everything. `rounds` is the number of rounds, at least one.
pub(crate) fn run(
    place: &Place,
    rounds: usize,
    progress: &Progress,
    print: &dyn Fn(&str),
) -> Result<Report, Error> {
    let header = Header::new::<Report>(place, rounds, &[], print)?;
    fill_component(place)?;
    let case = component();
    let mut driver = Driver::start(place, [&case], 2)?;
    let server = progress.step("start the server", |_| server::start(place))?;
    let mut samples = Samples::default();
    progress.step("calls", |step| {
        for round in 0..WARM_UP + rounds {
            let number = format!("{} of {}", round + 1, WARM_UP + rounds);
            let mut ignored = Samples::default();
            let samples = if round < WARM_UP { &mut ignored } else { &mut samples };
            measure(&mut driver, &case, &server, samples, (step, &number))?;
        }
        Ok::<_, Error>(())
    })?;
    Ok(Report::new(header, &samples))
}

/// Runs one round: the runs in one process, and then the calls of each number of clients.
fn measure(
    driver: &mut Driver,
    case: &Case,
    server: &Listening,
    samples: &mut Samples,
    (step, number): (&Step, &str),
) -> Result<(), Error> {
    step.note(&format!("{IN_PROCESS}, {number}"));
    let start = Instant::now();
    let runs = Executor::Driver(driver).samples(case, CALLS)?;
    record(samples, IN_PROCESS, runs.iter().map(|run| run.wall).collect(), start.elapsed());
    for clients in CLIENTS {
        step.note(&format!("{}, {number}", name(clients)));
        let start = Instant::now();
        let times = call(server.port, clients)?;
        record(samples, &name(clients), times, start.elapsed());
    }
    Ok(())
}

/// Makes calls with this many clients, which share the work evenly. Returns the time of each call.
fn call(port: u16, clients: usize) -> Result<Vec<u64>, Error> {
    let mut connected: Vec<Client> =
        (0..clients).map(|_| Client::connect(port)).collect::<Result<_, _>>()?;
    let (share, end) = (CALLS.div_ceil(clients), Instant::now() + WINDOW);
    std::thread::scope(|scope| {
        let calls = |client: &mut Client| {
            let mut times = Vec::with_capacity(share);
            // Each client makes at least one call, so that each level has samples.
            while times.is_empty() || times.len() < share && Instant::now() < end {
                times.push(client.call()?);
            }
            Ok::<_, Error>(times)
        };
        let workers: Vec<_> =
            connected.iter_mut().map(|client| scope.spawn(move || calls(client))).collect();
        let panicked = |_| Error::new("a thread of the benchmark panicked");
        let times = workers.into_iter().map(|worker| worker.join().map_err(panicked)?);
        Ok(times.collect::<Result<Vec<_>, Error>>()?.concat())
    })
}

fn record(samples: &mut Samples, name: &str, times: Vec<u64>, took: Duration) {
    let rate = times.len() as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE);
    samples.record(&rate_of(name), Ok([rate as u64]));
    samples.record(name, Ok(times));
}

fn name(clients: usize) -> String {
    match clients {
        1 => "1 client".into(),
        _ => format!("{clients} clients"),
    }
}

/// Returns the name of the samples with the calls per second.
fn rate_of(name: &str) -> String {
    format!("{name}, a second")
}

#[cfg(test)]
pub(crate) use report::tests;
