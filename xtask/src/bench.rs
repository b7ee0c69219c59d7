//! `cargo xtask bench`: runs a benchmark, or lists the benchmarks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Subcommand;
use skillhost_bench::Place;
use skillhost_toolchain::{Error, Progress, Step, unpack_program};

use crate::host::{self, executable};
use crate::machine::Machine;
use crate::{components, install, node_cases, print_line, tiers, workspace};

/// The package of all benchmarks.
const PACKAGE: &str = "skillhost-bench";

/// The skills to measure, as folders of the repository.
const SKILLS: [&str; 4] =
    ["benches/hello", "benches/work", "skills/csv-report", "skills/data-convert"];

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Compare the same skills natively, in other sandboxes and in skillhost: start-up, CPU,
    /// memory, throughput
    Isolation(Isolation),
    /// Measure each phase of an invocation, with `cargo bench`
    Criterion {
        /// Arguments for `cargo bench`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measure the phases of a cold start: process, host, guest
    Phases(Phases),
    /// Measure each figure that has a goal, next to the figure that it is compared with
    Targets(Targets),
    /// Measure small calls of `skillhost serve` by 1, 16 and 128 clients, next to runs in one
    /// process
    Serve(Serve),
    /// Measure 500 clients of the run API with mixed skills, a tenant beside one that floods the
    /// queue, and a pool of native processes
    Load(Load),
    /// Measure each construct and tool of shell scripts at up to three sizes, next to bash
    Shell(Shell),
    /// Run many mixed invocations in one host, and look for leaks
    Soak {
        /// Arguments for the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measure how well search ranks: recall at 5 over the labelled questions
    Search,
    /// Measure a catalogue of ten thousand skills: cold and cached start, search, memory
    Catalog,
    /// Measure fetched skills: adding a hundred from one repository, and `ci` of a thousand
    Sources {
        /// Measure this binary, instead of building one in release mode
        #[arg(long, value_name = "FILE")]
        skillhost: Option<PathBuf>,
    },
    /// Measure a fleet on this machine, next to one server, and what a run uses in each process
    Fleet(Fleet),
    /// Measure sessions of `skillhost serve`: create and first command, fork, memory when idle
    Sessions(Sessions),
    /// Write the figures in the README and the documentation from the committed runs in
    /// docs/figures
    Readme,
}

#[derive(clap::Args)]
pub(crate) struct Phases {
    /// Number of starts of each case
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Use this binary as the compiler, instead of building one in release mode
    #[arg(long, value_name = "FILE", requires = "driver")]
    skillhost: Option<PathBuf>,
    /// The matching driver, as built by `cargo build -p skillhost-bench --example warm`
    #[arg(long, value_name = "FILE", requires = "skillhost")]
    driver: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct Shell {
    /// Measure only constructs whose names contain this
    #[arg(default_value = "")]
    select: String,
    /// Samples of each size, fewer for constructs that take seconds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measure this binary, instead of building one in release mode
    #[arg(long, value_name = "FILE")]
    skillhost: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct Targets {
    /// Samples of each short case; long cases are sampled five times
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Write the run to docs/figures and docs/design/performance.md
    #[arg(long)]
    commit: bool,
    #[command(flatten)]
    programs: Programs,
}

#[derive(clap::Args)]
pub(crate) struct Serve {
    /// Rounds of at most 1,000 calls by each number of clients
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Write the run to docs/figures and docs/design/performance.md
    #[arg(long)]
    commit: bool,
    #[command(flatten)]
    programs: Programs,
}

#[derive(clap::Args)]
pub(crate) struct Load {
    /// How long the clients run mixed skills
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Write the run to docs/figures and docs/design/performance.md
    #[arg(long)]
    commit: bool,
    #[command(flatten)]
    programs: Programs,
}

#[derive(clap::Args)]
pub(crate) struct Fleet {
    /// Rounds of each measurement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Write the run to docs/figures and docs/guide/capacity.md
    #[arg(long)]
    commit: bool,
    #[command(flatten)]
    programs: Programs,
}

#[derive(clap::Args)]
pub(crate) struct Sessions {
    /// Samples of each first command
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Write the run to docs/figures and docs/guide/sessions.md
    #[arg(long)]
    commit: bool,
    #[command(flatten)]
    programs: Programs,
}

#[derive(clap::Args)]
pub(crate) struct Isolation {
    /// Samples of each case in each tier
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only install bubblewrap, runc and crun from Debian's packages
    #[arg(long)]
    install: bool,
    /// Write the run to docs/figures and the README
    #[arg(long)]
    commit: bool,
    #[command(flatten)]
    programs: Programs,
}

/// Existing binaries to measure.
#[derive(clap::Args)]
pub(crate) struct Programs {
    /// Measure this binary, instead of building one in release mode
    #[arg(long, value_name = "FILE")]
    skillhost: Option<PathBuf>,
    /// The matching driver of the warm tier, as built by `cargo build -p skillhost-bench --example
    /// warm`
    #[arg(long, value_name = "FILE", requires = "skillhost")]
    driver: Option<PathBuf>,
}

pub(crate) fn run(bench: Option<Bench>, progress: &Progress) -> Result<(), Error> {
    match bench {
        None => {
            print_line(LIST);
            Ok(())
        }
        Some(Bench::Isolation(args)) if args.install => install(progress),
        Some(Bench::Isolation(Isolation { rounds, commit, programs, .. })) => {
            let (mut place, rounds) = (place(programs, progress)?, rounds as usize);
            place.tools = tiers::fetch(progress);
            skillhost_bench::isolation(&place, rounds, commit, progress, &|text| print_line(text))
        }
        Some(Bench::Targets(Targets { rounds, commit, programs })) => {
            let (place, rounds) = (place(programs, progress)?, rounds as usize);
            skillhost_bench::targets(&place, rounds, commit, progress, &|text| print_line(text))
        }
        Some(Bench::Serve(Serve { rounds, commit, programs })) => {
            let (place, rounds) = (small_place(programs, progress)?, rounds as usize);
            skillhost_bench::served(&place, rounds, commit, progress, &|text| print_line(text))
        }
        Some(Bench::Load(Load { minutes, commit, programs })) => {
            let place = place(programs, progress)?;
            skillhost_bench::load(&place, minutes, commit, progress, &|text| print_line(text))
        }
        Some(Bench::Phases(Phases { rounds, skillhost, driver })) => {
            let place = place(Programs { skillhost, driver }, progress)?;
            print_line(skillhost_bench::phases(&place, rounds as usize, progress)?);
            Ok(())
        }
        Some(Bench::Shell(args)) => shell(args, progress),
        Some(Bench::Criterion { args }) => {
            build_for_benches(progress)?;
            cargo_bench("benchmarks", &[], &args, progress)
        }
        Some(Bench::Soak { args }) => {
            build_for_benches(progress)?;
            cargo_bench("soak", &["--bench", "soak", "--"], &args, progress)
        }
        // These two need no guests.
        Some(Bench::Search) => cargo_bench("search", &["--bench", "search"], &[], progress),
        Some(Bench::Catalog) => cargo_bench("catalog", &["--bench", "catalog"], &[], progress),
        Some(Bench::Sources { skillhost }) => {
            let skillhost = named_or_built(skillhost, progress)?;
            print_line(skillhost_bench::fetched(&skillhost)?);
            Ok(())
        }
        Some(Bench::Fleet(Fleet { rounds, commit, programs })) => {
            let (place, rounds) = (small_place(programs, progress)?, rounds as usize);
            let tools = workspace::root().join("target/tools");
            let broker = unpack_program(&tools, "nats-server", progress)?;
            let broker = broker.join("usr/sbin/nats-server");
            let print = |text: &str| print_line(text);
            skillhost_bench::fleet(&place, &broker, rounds, commit, progress, &print)
        }
        Some(Bench::Sessions(Sessions { rounds, commit, programs })) => {
            let (place, rounds) = (small_place(programs, progress)?, rounds as usize);
            skillhost_bench::sessions(&place, rounds, commit, progress, &|text| print_line(text))
        }
        Some(Bench::Readme) => skillhost_bench::write_committed(),
    }
}

const LIST: &str = "\
cargo xtask bench isolation   the same skills natively, in other sandboxes and in skillhost
cargo xtask bench criterion   each phase of an invocation
cargo xtask bench phases      the phases of a cold start
cargo xtask bench targets     each figure that has a goal, next to the figure that it is compared with
cargo xtask bench serve       small calls of `skillhost serve` by 1, 16 and 128 clients
cargo xtask bench load        500 clients of the run API, tenants beside each other, a native pool
cargo xtask bench shell       each construct and tool of shell scripts at up to three sizes, next to bash
cargo xtask bench soak        many mixed invocations in one host
cargo xtask bench search      how well search ranks
cargo xtask bench catalog     ten thousand skills: start, search, memory
cargo xtask bench sources     fetched skills: adding a hundred, verifying a thousand
cargo xtask bench fleet       a fleet on this machine, next to one server
cargo xtask bench sessions    sessions of a server: first command, fork, memory when idle
cargo xtask bench readme      write the figures in the README and the documentation from the committed runs";

/// Returns the binary that was named, or builds one.
fn named_or_built(skillhost: Option<PathBuf>, progress: &Progress) -> Result<PathBuf, Error> {
    match skillhost {
        Some(skillhost) => absolute(&skillhost),
        None => {
            let build = |step: &Step| host::build(&workspace::root(), &Machine::This, step);
            progress.step("build skillhost in release mode", build)
        }
    }
}

fn shell(args: Shell, progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    let skillhost = named_or_built(args.skillhost, progress)?;
    let shell = skillhost_bench::Shell {
        skillhost,
        programs: root.join("target/components"),
        folder: root.join("target/bench/shell"),
    };
    print_line(skillhost_bench::constructs(&shell, &args.select, args.rounds as usize, progress)?);
    Ok(())
}

/// Builds the programs to measure, except those in `built`, and writes the skills and their inputs.
fn place(built: Programs, progress: &Progress) -> Result<Place, Error> {
    let root = workspace::root();
    let folder = root.join("target/bench");
    let python = skillhost_bench::native_python()?;
    let converter = progress.step("build data-convert for this machine", |step| {
        let mut cargo = workspace::cargo(&root.join("guests"));
        cargo.env("CARGO_TARGET_DIR", workspace::guest_target_dir(&root));
        build_example(&mut cargo, "data-convert", "native", step)
    })?;
    let (skillhost, driver) = measured(built, &root, progress)?;
    let place = Place {
        skillhost: install::copy_program(&skillhost, &folder)?,
        driver: driver.map(|driver| install::copy_program(&driver, &folder)).transpose()?,
        programs: root.join("target/components"),
        tools: BTreeMap::new(),
        node: install::copy_program(&node_cases::node(progress)?, &folder)?,
        folder,
        python,
        converter,
    };
    progress.step("write the skills and their inputs", |_| {
        for skill in SKILLS.map(|skill| root.join(skill)) {
            let name = skill.file_name().unwrap_or_default().to_string_lossy();
            install::copy_skill(&skill, &place.skill(&name))?;
        }
        place.fill()?;
        let packages = place.programs.join("python-packages");
        install::copy_tree(&packages, &place.packages(), &["__pycache__"])
    })?;
    Ok(place)
}

/// As [`place`], for a benchmark that only runs the small component: builds nothing for this machine
/// besides the programs to measure.
fn small_place(built: Programs, progress: &Progress) -> Result<Place, Error> {
    let root = workspace::root();
    let folder = root.join("target/bench");
    let (skillhost, driver) = measured(built, &root, progress)?;
    for folder in ["workspace", "home"].map(|name| folder.join(name)) {
        std::fs::create_dir_all(&folder).map_err(Error::context(folder.display()))?;
    }
    Ok(Place {
        skillhost: install::copy_program(&skillhost, &folder)?,
        driver: driver.map(|driver| install::copy_program(&driver, &folder)).transpose()?,
        programs: root.join("target/components"),
        converter: folder.join("data-convert"),
        node: folder.join("bin/node"),
        tools: BTreeMap::new(),
        python: skillhost_bench::native_python()?,
        folder,
    })
}

/// Returns the programs to measure, and builds those that are not in `built`.
fn measured(
    built: Programs,
    root: &Path,
    progress: &Progress,
) -> Result<(PathBuf, Option<PathBuf>), Error> {
    Ok(match built.skillhost {
        Some(skillhost) => {
            (absolute(&skillhost)?, built.driver.as_deref().map(absolute).transpose()?)
        }
        None => {
            let build = |step: &Step| host::build(root, &Machine::This, step);
            let skillhost = progress.step("build skillhost in release mode", build)?;
            let build =
                |step: &Step| build_example(&mut workspace::cargo(root), PACKAGE, "warm", step);
            (skillhost, Some(progress.step("build the driver of the warm tier", build)?))
        }
    })
}

fn build_example(
    cargo: &mut Command,
    package: &str,
    example: &str,
    step: &Step,
) -> Result<PathBuf, Error> {
    cargo.args(["build", "--release", "--locked", "-p", package, "--example", example]);
    cargo.arg("--message-format=json-render-diagnostics");
    executable(&step.run(cargo)?, example)
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    path.canonicalize().map_err(Error::context(path.display()))
}

fn install(progress: &Progress) -> Result<(), Error> {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt.args(["install", "-y", "--no-install-recommends", "bubblewrap", "runc", "crun"]);
    let installed = progress.step("install bubblewrap, runc and crun", |step| step.run(&mut apt));
    installed
        .map(drop)
        .map_err(|error| Error::new(error.to_string()).help("`apt-get update` first, as root"))
}

/// Builds the guests, and the program that the benchmarks start to compile them.
fn build_for_benches(progress: &Progress) -> Result<(), Error> {
    components::run(progress)?;
    let build = |step: &Step| host::build(&workspace::root(), &Machine::This, step);
    progress.step("build skillhost in release mode", build).map(drop)
}

fn cargo_bench(
    name: &str,
    select: &[&str],
    args: &[String],
    progress: &Progress,
) -> Result<(), Error> {
    let mut cargo = workspace::cargo(&workspace::root());
    cargo.args(["bench", "-p", PACKAGE]).args(select).args(args);
    progress.loud_step(name, |step| step.run_loud(&mut cargo))?;
    Ok(())
}
