//! Set-up and chores:
//! `cargo xtask demo | test | install | release | fuzz | determinism | components | python | clients | conformance | bench | toolchain`.
//!
//! Needs rustup's stable toolchain, a C compiler and git; everything else is found or made. Each
//! verb is a file.

#![expect(
    clippy::disallowed_methods,
    reason = "a chore starts cargo, and works on the files of this repository"
)]

mod bench;
mod check_cache;
mod clients;
mod components;
mod conformance;
mod demo;
mod dependencies;
mod determinism;
mod fuzz;
mod host;
mod install;
mod needs;
mod python;
mod shell;
mod sources;
mod steps;
mod test;
mod toolchain;
mod workspace;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use skillhost_toolchain::Progress;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Set-up and chores of skillhost",
    version
)]
struct Args {
    /// Show the output of each command as it comes
    #[arg(long, short, global = true)]
    verbose: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Build everything and run a skill on real data: permissions, result and cost
    Demo,
    /// Run every check and test, as CI does
    Test(test::Options),
    /// Build everything and put it where `skillhost` is found: the program, its runtimes, the
    /// built-in skills
    Install {
        /// The folder that gets `bin` and `share` [default: ~/.local]
        #[arg(long, value_name = "DIR")]
        prefix: Option<PathBuf>,
    },
    /// Build what is published: as `install`, once every dependency is checked, for advisories too
    Release {
        /// A copy of the RustSec advisory database
        #[arg(long, value_name = "DIR")]
        db: PathBuf,
        /// The folder that gets `bin` and `share`
        #[arg(long, value_name = "DIR")]
        prefix: PathBuf,
    },
    /// Run the fuzz targets, each for a time
    Fuzz {
        /// How long each runs
        #[arg(long, default_value_t = 60)]
        seconds: u32,
        /// Repeats a run without coverage
        #[arg(long)]
        seed: Option<u64>,
        /// One of them [default: all]
        target: Option<String>,
    },
    /// Run a hundred programs deterministically, many times, each time under other conditions
    Determinism {
        /// How often each
        #[arg(long, default_value_t = 20)]
        times: u32,
    },
    /// Build the components: the runtimes, the skills and the SDK's examples
    Components,
    /// Build the Python runtime: CPython as one component
    Python,
    /// Fetch the clients of the Model Context Protocol that the tests use
    Clients,
    /// Run others' own tests: of a runtime in the sandbox, of a protocol
    Conformance {
        #[command(subcommand)]
        of: Conformance,
    },
    /// Measure; alone, it lists what there is
    Bench {
        #[command(subcommand)]
        bench: Option<bench::Bench>,
    },
    /// Find or make a toolchain for the components, and prove it on a small one
    Toolchain {
        /// Make it from Debian's packages, as on a machine where rustup can add no target
        #[arg(long)]
        from_packages: bool,
    },
}

#[derive(Subcommand)]
enum Conformance {
    /// CPython's tests, which come from Debian's packages
    Python {
        /// `--json`, `--testsuite DIR`, names of modules: see components/python/conformance/run.py
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// The server scenarios of the Model Context Protocol's conformance suite, which comes from npm
    Mcp,
}

fn main() -> ExitCode {
    #[cfg(target_arch = "x86_64")]
    if host::link::is_asked() {
        return host::link::main();
    }
    let args = Args::parse();
    let progress = Progress::new(args.verbose);
    let result = match args.verb {
        Verb::Demo => demo::run(&progress),
        Verb::Test(options) => test::run(&options, &progress),
        Verb::Install { prefix } => install::run(prefix, &progress),
        Verb::Release { db, prefix } => install::release(&db, prefix, &progress),
        Verb::Fuzz { seconds, seed, target } => fuzz::run(seconds, target, seed, &progress),
        Verb::Determinism { times } => determinism::run(times),
        Verb::Components => components::run(&progress),
        Verb::Python => python::run(&progress),
        Verb::Clients => clients::run(&progress),
        Verb::Conformance { of: Conformance::Python { args } } => {
            conformance::python(&args, &progress)
        }
        Verb::Conformance { of: Conformance::Mcp } => conformance::mcp(&progress),
        Verb::Bench { bench } => bench::run(bench, &progress),
        Verb::Toolchain { from_packages } => toolchain::run(from_packages, &progress),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(anstream::stderr(), "error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// One line on stdout. That nobody reads it is no reason to stop.
fn say(line: impl std::fmt::Display) {
    drop(writeln!(anstream::stdout(), "{line}"));
}
