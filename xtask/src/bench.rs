//! `cargo xtask bench`: what is measured, and how to measure it. Alone, it lists what there is.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Subcommand;
use skillhost_bench::Place;
use skillhost_toolchain::{Error, Progress, Step};

use crate::host::{self, executable};
use crate::{components, install, say, workspace};

/// The package of all benchmarks.
const PACKAGE: &str = "skillhost-bench";

/// The skills that are measured, by their folders in the repository.
const SKILLS: [&str; 4] =
    ["benches/hello", "benches/work", "skills/csv-report", "skills/data-convert"];

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// The same skills natively, in other sandboxes and in this one: start-up, CPU, memory,
    /// throughput
    Isolation(Isolation),
    /// The benchmarks of each phase: `cargo bench`
    Criterion {
        /// Arguments for `cargo bench`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Where a cold start's time goes: the process, the host's own work, the guest
    Phases(Phases),
    /// Each figure that the project has a goal for, beside what it is held against
    Targets(Targets),
    /// Each construct and tool of shell scripts at three sizes, beside bash
    Shell(Shell),
    /// Many mixed invocations in one host, with flat memory
    Soak {
        /// Arguments for it
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// How well search ranks: recall at 5 over the labelled questions
    Search,
    /// Ten thousand skills: cold and cached start, search, memory
    Catalog,
    /// Write the README's figures, and the pages, from the committed runs in docs/figures
    Readme,
}

#[derive(clap::Args)]
pub(crate) struct Phases {
    /// Starts of each case
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measure with this binary as the compiler, instead of building one in release mode
    #[arg(long, value_name = "FILE", requires = "driver")]
    skillhost: Option<PathBuf>,
    /// The driver that goes with it: what `cargo build -p skillhost-bench --example warm` makes
    #[arg(long, value_name = "FILE", requires = "skillhost")]
    driver: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct Shell {
    /// Measure only constructs whose names contain this
    #[arg(default_value = "")]
    select: String,
    /// Samples of each size
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measure this binary, instead of building one in release mode
    #[arg(long, value_name = "FILE")]
    skillhost: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct Targets {
    /// Samples of what is short; what takes long is measured five times
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Write the run to docs/figures and docs/design/performance.md
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
    /// Install bubblewrap, runc and crun from Debian's packages, and measure nothing
    #[arg(long)]
    install: bool,
    /// Write the run to docs/figures and the README
    #[arg(long)]
    commit: bool,
    #[command(flatten)]
    programs: Programs,
}

/// Programs that are built already.
#[derive(clap::Args)]
pub(crate) struct Programs {
    /// Measure this binary, instead of building one in release mode
    #[arg(long, value_name = "FILE")]
    skillhost: Option<PathBuf>,
    /// The driver of the warm tier that goes with it: what `cargo build -p skillhost-bench
    /// --example warm` makes
    #[arg(long, value_name = "FILE", requires = "skillhost")]
    driver: Option<PathBuf>,
}

pub(crate) fn run(bench: Option<Bench>, progress: &Progress) -> Result<(), Error> {
    match bench {
        None => {
            say(LIST);
            Ok(())
        }
        Some(Bench::Isolation(args)) if args.install => install(progress),
        Some(Bench::Isolation(Isolation { rounds, commit, programs, .. })) => {
            let (place, rounds) = (place(programs, progress)?, rounds as usize);
            skillhost_bench::isolation(&place, rounds, commit, progress, &|text| say(text))
        }
        Some(Bench::Targets(Targets { rounds, commit, programs })) => {
            let (place, rounds) = (place(programs, progress)?, rounds as usize);
            skillhost_bench::targets(&place, rounds, commit, progress, &|text| say(text))
        }
        Some(Bench::Phases(Phases { rounds, skillhost, driver })) => {
            let place = place(Programs { skillhost, driver }, progress)?;
            say(skillhost_bench::phases(&place, rounds as usize, progress)?);
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
        Some(Bench::Readme) => skillhost_bench::write_committed(),
    }
}

const LIST: &str = "\
cargo xtask bench isolation   the same skills natively, in other sandboxes and in this one
cargo xtask bench criterion   each phase of an invocation
cargo xtask bench phases      where a cold start's time goes
cargo xtask bench targets     each figure that the project has a goal for, beside what it is held against
cargo xtask bench shell       each construct and tool of shell scripts at three sizes, beside bash
cargo xtask bench soak        many mixed invocations in one host
cargo xtask bench search      how well search ranks
cargo xtask bench catalog     ten thousand skills: start, search, memory
cargo xtask bench readme      write the README's figures, and the pages, from the committed runs";

fn shell(args: Shell, progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    let skillhost = match args.skillhost {
        Some(skillhost) => absolute(&skillhost)?,
        None => {
            let build = |step: &Step| host::build(&root, step);
            progress.step("build skillhost in release mode", build)?
        }
    };
    let shell = skillhost_bench::Shell {
        skillhost,
        programs: root.join("target/components"),
        folder: root.join("target/bench/shell"),
    };
    say(skillhost_bench::constructs(&shell, &args.select, args.rounds as usize, progress)?);
    Ok(())
}

/// Builds what is measured, and writes what it reads. A binary that is given is measured as it is.
fn place(built: Programs, progress: &Progress) -> Result<Place, Error> {
    let root = workspace::root();
    let folder = root.join("target/bench");
    let python = skillhost_bench::native_python()?;
    let converter = progress.step("build data-convert for this machine", |step| {
        let mut cargo = workspace::cargo(&root.join("guests"));
        cargo.env("CARGO_TARGET_DIR", workspace::guest_target_dir(&root));
        build_example(&mut cargo, "data-convert", "native", step)
    })?;
    let (skillhost, driver) = match built.skillhost {
        Some(skillhost) => {
            (absolute(&skillhost)?, built.driver.as_deref().map(absolute).transpose()?)
        }
        None => {
            let build = |step: &Step| host::build(&root, step);
            let skillhost = progress.step("build skillhost in release mode", build)?;
            let build =
                |step: &Step| build_example(&mut workspace::cargo(&root), PACKAGE, "warm", step);
            (skillhost, Some(progress.step("build the driver of the warm tier", build)?))
        }
    };
    let place = Place {
        skillhost: install::program(&skillhost, &folder)?,
        driver: driver.map(|driver| install::program(&driver, &folder)).transpose()?,
        programs: root.join("target/components"),
        folder,
        python,
        converter,
    };
    progress.step("write the skills and their inputs", |_| {
        for skill in SKILLS.map(|skill| root.join(skill)) {
            let name = skill.file_name().unwrap_or_default().to_string_lossy();
            install::skill(&skill, &place.skill(&name))?;
        }
        place.fill()?;
        let packages = place.programs.join("python-packages");
        install::tree(&packages, &place.packages(), &["__pycache__"])
    })?;
    Ok(place)
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
    let build = |step: &Step| host::build(&workspace::root(), step);
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
