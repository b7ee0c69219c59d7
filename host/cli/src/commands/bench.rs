//! `skillhost bench`: measure what a skill costs, in new processes, in one host, and with --native
//! outside the sandbox.

mod spread;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use skillhost::invoke::{LoadedSkill, RunError, Runner, Target};
use skillhost_policy::Policy;
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::show_size;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_sandbox::{Allocation, Io};

use crate::args::HostArgs;
use crate::args::permissions::Permissions;
use crate::args::skills::{Skills, require_path};
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::{event_loop, native, output};
use spread::Spread;

/// Measure what a skill costs: cold and warm times, throughput, memory, fuel
///
/// Runs the skill repeatedly, as `skillhost run` would with the same arguments. Every run gets the
/// skill's full grant and is recorded in the audit log. A cold run is a new process; warm runs
/// share one host that keeps the program ready. The skill gets no input and must exit with 0, and
/// its output is discarded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost bench skills/calculator -- '5 km in miles'
  skillhost bench SKILL scripts/report.py --workspace . --rounds 50 -- data.csv
  skillhost bench SKILL scripts/report.py --native       compare with the script outside the sandbox
  skillhost bench SKILL TOOL --input '{\"text\": \"to be\"}' --json | jq .warm.p50_ms")]
pub(crate) struct Args {
    /// The skill's folder, as a path with a `/`
    skill: PathBuf,
    /// Run this script or typed tool [default: the component, or the only script]
    #[arg(value_name = "SCRIPT|TOOL")]
    name: Option<String>,
    /// Call the tool with this JSON input
    #[arg(long, value_name = "JSON", requires = "name", conflicts_with = "args")]
    input: Option<String>,
    /// Arguments for the script or command
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,

    /// The number of samples per measurement
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// Also run the script outside the sandbox, with all your permissions. Only for skills that
    /// you trust
    #[arg(long)]
    native: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: HostArgs,

    #[command(flatten)]
    permissions: Permissions,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    skill: String,
    /// The command line that the guest sees.
    argv: Vec<String>,
    rounds: u32,
    cold: Spread,
    warm: Spread,
    throughput: Vec<Throughput>,
    /// Highest linear memory of a run, in bytes.
    memory_peak: u64,
    /// The fuel of one run, on the engine that counts it; `None` if that run failed.
    fuel: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    native: Option<Spread>,
    /// The program of the machine that ran the script.
    #[serde(skip_serializing_if = "Option::is_none")]
    native_program: Option<native::Interpreter>,
}

/// Invocations a second in one host.
#[derive(Debug, Serialize)]
struct Throughput {
    /// Runs at once.
    concurrency: usize,
    per_second: f64,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    // The new processes run `skillhost run`, for which a bare name is a skill of the catalog.
    require_path(&args.skill)?;
    let context = Context::with_permissions(&args.permissions)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options = context.host_options(&args.host, &Skills::default())?;
    options.sandbox.allocation = Allocation::Pooling(u32::try_from(cores).unwrap_or(1).max(2));
    let host = Runner::new(options);
    let loaded = host.load(&args.skill, &context.policy)?;
    let (skill, target) = (loaded.skill.clone(), target(args));
    let program = host.program(&loaded, &target, &args.args).ok();
    let warm = Warm {
        host,
        policy: context.policy,
        skill: args.skill.clone(),
        loaded: Mutex::new(loaded.into()),
        target,
        args: args.args.clone(),
    };
    let native = match args.native {
        true => {
            let folder = args.permissions.workspace_folder();
            Some(native::Script::of(program.as_ref(), &args.skill, folder)?)
        }
        false => None,
    };

    let rounds = args.rounds as usize;
    let bar = bar(args, rounds);
    bar.set_message("compiling, first run");
    bar.enable_steady_tick(Duration::from_millis(100));
    let event_loop = event_loop::one_thread()?;
    let tried = event_loop.block_on(warm.invoke())?;
    let cold = Cold::new()?;
    cold.run()?;
    if let Some(script) = &native {
        let text = format!(
            "--native runs {} outside the sandbox, with all your permissions",
            printable(&script.shown())
        );
        bar.suspend(|| output::warning(&text, None));
        script.run()?;
    }
    // From here on nothing else may run, not even the spinner.
    bar.disable_steady_tick();
    bar.set_message("interleaved runs");
    // Interleaved, so that disturbances of the machine affect all figures alike.
    let (mut colds, mut warms, mut natives) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        colds.push(timed(|| cold.run())?);
        warms.push(timed(|| event_loop.block_on(warm.invoke()).map(drop))?);
        if let Some(script) = &native {
            natives.push(timed(|| script.run())?);
        }
        bar.inc(1);
    }
    bar.set_message("throughput");
    let throughput = warm.throughput(rounds, cores)?;
    bar.set_message("fuel");
    bar.enable_steady_tick(Duration::from_millis(100));
    let fuel = cold.fuel();
    bar.finish_and_clear();

    let report = Report {
        skill: skill.manifest.name.clone(),
        argv: program
            .map(|program| std::iter::once(program.name).chain(program.args).collect())
            .unwrap_or_default(),
        rounds: args.rounds,
        cold: Spread::of(colds),
        warm: Spread::of(warms),
        throughput,
        memory_peak: tried.usage.memory_peak,
        fuel,
        native: native.as_ref().map(|_| Spread::of(natives)),
        native_program: native.map(|script| script.interpreter),
    };
    if args.json {
        output::json(&report)?
    } else {
        output::text(&text(&report))?
    }
    Ok(Exit::Ok)
}

fn target(args: &Args) -> Target {
    match (&args.name, &args.input) {
        (Some(name), Some(input)) => Target::Tool { name: name.clone(), input: input.clone() },
        (Some(name), None) => Target::Named(name.clone()),
        (None, _) => Target::Main,
    }
}

/// One host, and the run that it repeats.
struct Warm {
    host: Runner,
    policy: Policy,
    skill: PathBuf,
    loaded: Mutex<Arc<LoadedSkill>>,
    target: Target,
    args: Vec<String>,
}

impl Warm {
    async fn invoke(&self) -> Result<Outcome, CliError> {
        let loaded = self.loaded()?;
        let invoked =
            self.host.invoke_loaded(&loaded, &self.target, &self.args, Io::default()).await;
        let invoked = invoked.map_err(|error| {
            let exit = if matches!(error, RunError::Audit(_)) { Exit::Io } else { Exit::Usage };
            CliError::new(exit, error.to_string())
        })?;
        let outcome = invoked.finished.outcome;
        if outcome.status == (Status::Exited { code: 0 }) {
            return Ok(outcome);
        }
        output::ending(&outcome, Some((&loaded.skill, &self.policy)));
        let message = match outcome.status {
            Status::Exited { code } => {
                format!("the run exited with {code}; bench needs a successful run")
            }
            _ => "the run failed; bench needs a successful run".to_owned(),
        };
        let error = CliError::new(Exit::of(&outcome.status), message);
        Err(match outcome.stderr.text().trim_end() {
            "" => error,
            stderr => error.fix(format!("its stderr:\n{stderr}")),
        })
    }

    /// The loaded skill, as a service keeps it: loaded again when its files change. A native run
    /// may leave files in it.
    fn loaded(&self) -> Result<Arc<LoadedSkill>, CliError> {
        let mut kept = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.is_current() {
            *kept = Arc::new(self.host.load(&self.skill, &self.policy)?);
        }
        Ok(kept.clone())
    }

    /// Runs per second, one at a time and as many at once as there are cores.
    fn throughput(self, rounds: usize, cores: usize) -> Result<Vec<Throughput>, CliError> {
        let event_loop = event_loop::many_threads()?;
        let warm = Arc::new(self);
        let mut found = Vec::new();
        for concurrency in [1, cores].into_iter().take(if cores > 1 { 2 } else { 1 }) {
            let each = rounds.div_ceil(concurrency);
            let start = Instant::now();
            let workers = (0..concurrency).map(|_| {
                let warm = warm.clone();
                event_loop.spawn(async move {
                    for _ in 0..each {
                        warm.invoke().await?;
                    }
                    Ok::<_, CliError>(())
                })
            });
            for worker in workers.collect::<Vec<_>>() {
                event_loop
                    .block_on(worker)
                    .map_err(|error| CliError::io("wait for a run", error))??;
            }
            found.push(Throughput {
                concurrency,
                per_second: (each * concurrency) as f64 / start.elapsed().as_secs_f64(),
            });
        }
        Ok(found)
    }
}

/// `skillhost run` in a new process, with the arguments of this command.
struct Cold {
    executable: PathBuf,
    options: Vec<std::ffi::OsString>,
    args: Vec<std::ffi::OsString>,
}

impl Cold {
    fn new() -> Result<Cold, CliError> {
        let executable =
            std::env::current_exe().map_err(|error| CliError::io("find this executable", error))?;
        let mut words = std::env::args_os().skip(2);
        let mut options = Vec::new();
        while let Some(word) = words.next().filter(|word| word != "--") {
            match word.to_str() {
                Some("--native" | "--json") => {}
                Some("--rounds") => drop(words.next()),
                Some(word) if word.starts_with("--rounds=") => {}
                _ => options.push(word),
            }
        }
        Ok(Cold { executable, options, args: words.collect() })
    }

    fn run(&self) -> Result<(), CliError> {
        let status = self.command(&[]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let status = status.map_err(|error| {
            CliError::io(format_args!("run {}", self.executable.display()), error)
        })?;
        if status.success() {
            Ok(())
        } else {
            let message = format!("`skillhost run` failed in a new process: {status}");
            Err(CliError::new(Exit::Io, message))
        }
    }

    /// The fuel of one run. The first time, this compiles the program for the engine that counts.
    fn fuel(&self) -> Option<u64> {
        // A limit that nothing reaches: only a run with a limit counts fuel.
        let output = self
            .command(&["--json", "--fuel", "1000000000000000000"])
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        output.status.success().then(|| outcome["usage"]["fuel"].as_u64()).flatten()
    }

    fn command(&self, more: &[&str]) -> Command {
        #[expect(clippy::disallowed_methods, reason = "this executable, whose start is measured")]
        let mut command = Command::new(&self.executable);
        command
            .arg("run")
            .args(&self.options)
            .args(more)
            .arg("--")
            .args(&self.args)
            .stdin(Stdio::null());
        command
    }
}

fn timed(run: impl FnOnce() -> Result<(), CliError>) -> Result<Duration, CliError> {
    let start = Instant::now();
    run().map(|()| start.elapsed())
}

/// A progress bar on stderr, if that is a terminal.
fn bar(args: &Args, rounds: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len} {msg}");
    match style {
        Ok(style) if !args.json && !output::is_quiet() => {
            ProgressBar::new(rounds as u64).with_style(style)
        }
        _ => ProgressBar::hidden(),
    }
}

fn text(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(["wall time", "p50", "p90", "p99"]);
    let rows = [
        ("cold (new process)", Some(&report.cold)),
        ("warm (one host)", Some(&report.warm)),
        ("native", report.native.as_ref()),
    ];
    for (name, spread) in rows {
        if let Some(spread) = spread {
            table.add_row([
                name.to_owned(),
                spread::shown(spread.p50_ms),
                spread::shown(spread.p90_ms),
                spread::shown(spread.p99_ms),
            ]);
        }
    }
    table
        .column_iter_mut()
        .skip(1)
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let mut text = format!(
        "{}: {} rounds, interleaved\n{table}\n",
        printable(&report.argv.join(" ")),
        report.rounds
    );
    if let Some(program) = &report.native_program {
        text += &format!("native        {}\n", printable(&program.to_string()));
    }
    if let Some(native) = &report.native {
        let times = |spread: &Spread| spread.p50_ms / native.p50_ms;
        text += &format!(
            "vs native     cold {:.2}x, warm {:.2}x\n",
            times(&report.cold),
            times(&report.warm)
        );
    }
    for Throughput { concurrency, per_second } in &report.throughput {
        text += &format!("throughput    {per_second:.0} per second, {concurrency} at once\n");
    }
    text += &format!("memory        {} of linear memory at peak\n", show_size(report.memory_peak));
    match report.fuel {
        Some(fuel) => text + &format!("fuel          {fuel} (about one unit per instruction)\n"),
        None => text + "fuel          unknown: the run that counts it failed\n",
    }
}
