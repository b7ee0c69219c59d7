//! `cargo xtask bench`: what is measured, and how to measure it. Alone, it lists what there is.

mod cases;
mod charts;
mod container;
mod crowd;
mod inputs;
mod isolation;
mod machine;
mod measure;
mod page;
mod phases;
mod place;
mod readme;
mod report;
mod root;
mod seccomp;
mod stats;
mod table;
mod targets;
mod tiers;
mod units;
mod warm;

use std::path::PathBuf;
use std::process::Command;

use clap::Subcommand;
use skillhost_toolchain::{Error, Progress};

use crate::{components, say, workspace};

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
    /// The driver that goes with it: what `cargo build -p skillhost-warm` makes
    #[arg(long, value_name = "FILE", requires = "skillhost")]
    driver: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct Targets {
    /// Samples of what is short; what takes long is measured five times
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Write the run to docs/figures and docs/design/performance.md
    #[arg(long)]
    commit: bool,
    /// Measure this binary, instead of building one in release mode
    #[arg(long, value_name = "FILE")]
    skillhost: Option<PathBuf>,
    /// The driver of the warm tier that goes with it: what `cargo build -p skillhost-warm` makes
    #[arg(long, value_name = "FILE", requires = "skillhost")]
    driver: Option<PathBuf>,
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
    /// Measure this binary, instead of building one in release mode
    #[arg(long, value_name = "FILE")]
    skillhost: Option<PathBuf>,
    /// The driver of the warm tier that goes with it: what `cargo build -p skillhost-warm` makes
    #[arg(long, value_name = "FILE", requires = "skillhost")]
    driver: Option<PathBuf>,
}

pub(crate) fn run(bench: Option<Bench>, progress: &Progress) -> Result<(), Error> {
    match bench {
        None => list(),
        Some(Bench::Isolation(args)) if args.install => install(progress),
        Some(Bench::Isolation(args)) => isolation(&args, progress),
        Some(Bench::Criterion { args }) => criterion(&args, progress),
        Some(Bench::Phases(args)) => phases(&args, progress),
        Some(Bench::Targets(args)) => targets(&args, progress),
        Some(Bench::Soak { args }) => soak(&args, progress),
        Some(Bench::Search) => catalogue("search", progress),
        Some(Bench::Catalog) => catalogue("catalog", progress),
        Some(Bench::Readme) => readme::write().and_then(|()| targets::write()),
    }
}

fn list() -> Result<(), Error> {
    say(
        "cargo xtask bench isolation   the same skills natively, in other sandboxes and in this one",
    );
    say("cargo xtask bench criterion   each phase of an invocation");
    say("cargo xtask bench phases      where a cold start's time goes");
    say(
        "cargo xtask bench targets     each figure that the project has a goal for, beside what it is held against",
    );
    say("cargo xtask bench soak        many mixed invocations in one host");
    say("cargo xtask bench search      how well search ranks");
    say("cargo xtask bench catalog     ten thousand skills: start, search, memory");
    say(
        "cargo xtask bench readme      write the README's figures, and the pages, from the committed runs",
    );
    Ok(())
}

fn isolation(args: &Isolation, progress: &Progress) -> Result<(), Error> {
    let place = place::Place::make(args.skillhost.as_deref(), args.driver.as_deref(), progress)?;
    let command = format!("cargo xtask bench isolation --rounds {}", args.rounds);
    let report = isolation::run(&place, args.rounds as usize, command, progress)?;
    say(table::full(&report));
    let page = readme::keep(&report, &place.folder)?;
    if args.commit {
        readme::commit(&report)?;
    }
    say(format!(
        "The page is {}, and the JSON beside it.",
        workspace::name(&workspace::root(), &page)
    ));
    Ok(())
}

fn targets(args: &Targets, progress: &Progress) -> Result<(), Error> {
    let place = place::Place::make(args.skillhost.as_deref(), args.driver.as_deref(), progress)?;
    let command = format!("cargo xtask bench targets --rounds {}", args.rounds);
    let report = targets::run(&place, args.rounds as usize, command, progress)?;
    say(targets::table(&report));
    if args.commit {
        targets::commit(&report)?;
    }
    Ok(())
}

fn phases(args: &Phases, progress: &Progress) -> Result<(), Error> {
    let place = place::Place::make(args.skillhost.as_deref(), args.driver.as_deref(), progress)?;
    say(table::phases(&phases::measure(&place, args.rounds as usize, progress)?).trim_start());
    Ok(())
}

fn install(progress: &Progress) -> Result<(), Error> {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").args([
        "install",
        "-y",
        "--no-install-recommends",
        "bubblewrap",
        "runc",
        "crun",
    ]);
    let installed = progress.step("install bubblewrap, runc and crun", |step| step.run(&mut apt));
    installed
        .map(drop)
        .map_err(|error| Error::new(error.to_string()).help("`apt-get update` first, as root"))
}

fn criterion(args: &[String], progress: &Progress) -> Result<(), Error> {
    components::run(progress)?;
    let mut cargo = workspace::cargo(&workspace::root());
    progress.loud_step("benchmarks", |step| {
        step.run_loud(cargo.args(["bench", "-p", "skillhost-cli"]).args(args))
    })?;
    Ok(())
}

/// A benchmark that needs no guests.
fn catalogue(name: &str, progress: &Progress) -> Result<(), Error> {
    let mut cargo = workspace::cargo(&workspace::root());
    cargo.args(["bench", "-p", "skillhost-cli", "--bench", name]);
    progress.loud_step(name, |step| step.run_loud(&mut cargo))?;
    Ok(())
}

fn soak(args: &[String], progress: &Progress) -> Result<(), Error> {
    components::run(progress)?;
    let mut cargo = workspace::cargo(&workspace::root());
    cargo.args(["bench", "-p", "skillhost-cli", "--bench", "soak", "--"]).args(args);
    progress.loud_step("soak", |step| step.run_loud(&mut cargo))?;
    Ok(())
}
