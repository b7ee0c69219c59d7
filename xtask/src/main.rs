//! Development tasks:
//! `cargo xtask demo | test | install | dist | release | fuzz | determinism | components | python | javascript-packages | clients | chaos | conformance | bench | toolchain`.
//!
//! They require rustup's stable toolchain, a C compiler and git, and find or build everything else.
//! Each task has a file of its name, except `release`, which is in `install.rs`.

#![expect(
    clippy::disallowed_methods,
    reason = "development tasks run cargo and access the files of this repository"
)]

mod bench;
mod chaos;
mod check_cache;
mod clients;
mod components;
mod conformance;
mod demo;
mod dependencies;
mod determinism;
mod dist;
mod fuzz;
mod host;
mod install;
mod javascript;
mod javascript_packages;
mod machine;
mod node_cases;
mod patched;
mod python;
mod requirements;
mod servers;
mod shell;
mod sources;
mod steps;
mod test;
mod tiers;
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
    about = "Development tasks of skillhost",
    version
)]
struct Args {
    /// Show the output of each command as it arrives
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
    /// Build and install the program, its runtimes and the built-in skills
    Install {
        /// Install into `bin` and `share` of this folder [default: ~/.local]
        #[arg(long, value_name = "DIR")]
        prefix: Option<PathBuf>,
    },
    /// Build everything that is distributed into target/dist: archive, packages, image
    Dist(dist::Options),
    /// Check every dependency, including for advisories, then build and install the release files
    Release {
        /// A copy of the RustSec advisory database
        #[arg(long, value_name = "DIR")]
        db: PathBuf,
        /// Install into `bin` and `share` of this folder
        #[arg(long, value_name = "DIR")]
        prefix: PathBuf,
    },
    /// Run the fuzz targets, each for a limited time
    Fuzz {
        /// Run each target for this long
        #[arg(long, default_value_t = 60)]
        seconds: u32,
        /// Repeat the run without coverage that had this seed
        #[arg(long)]
        seed: Option<u64>,
        /// Run only this target [default: all]
        target: Option<String>,
    },
    /// Run a hundred programs deterministically, many times, each time under different
    /// conditions
    Determinism {
        /// Run each program this many times
        #[arg(long, default_value_t = 20)]
        times: u32,
        /// Instead, run each program once on this machine and once on each of two emulated
        /// processors, and compare the receipts
        #[arg(long, conflicts_with = "times")]
        cpu: bool,
        /// With --cpu, run only the programs whose component compiles in seconds
        #[arg(long, requires = "cpu")]
        quick: bool,
    },
    /// Build the components: the runtimes, the skills and the SDK's examples
    Components,
    /// Build the Python runtime: CPython as one component
    Python,
    /// Fetch the packages of the JavaScript runtime from npm
    JavascriptPackages,
    /// Fetch the MCP clients and the tools from PyPI and npm that the tests use
    Clients,
    /// Fetch the servers and clients of Debian, PyPI and npm with which fetching skills is tested
    Servers,
    /// Run many runs on a fleet while its processes are killed, stopped and cut off, and check that each
    /// ends once
    Chaos(chaos::Options),
    /// Run third-party conformance tests: of CPython, Node.js, npm, Oils, MCP, Agent Skills, WASI or agents
    Conformance {
        #[command(subcommand)]
        suite: Conformance,
    },
    /// Run a benchmark; without a name, list the benchmarks
    Bench {
        #[command(subcommand)]
        bench: Option<bench::Bench>,
    },
    /// Find or build the toolchain for components, and build a small component with it
    Toolchain {
        /// Build it from Debian's packages, as on a machine where rustup cannot add the target
        #[arg(long)]
        from_packages: bool,
    },
}

#[derive(Subcommand)]
enum Conformance {
    /// Connect the command lines of agents, from npm, and let them list their MCP servers
    Agents,
    /// Generate a client of the run API from its description, and submit runs with it
    RunApi,
    /// Run CPython's tests, from Debian's packages, in the sandbox
    Python {
        /// Arguments of components/python/conformance/run.py: `--json`, `--testsuite DIR`, names of
        /// modules
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run the server scenarios of the MCP conformance suite, from npm
    Mcp,
    /// Run Node.js 22's own tests in the sandbox; with BLESS=1, write the lists of tests and results
    Node(conformance::JavascriptOptions),
    /// Run the cases of the JavaScript runtime in Node.js 22, from npm, and compare its output with
    /// the recorded one; with BLESS=1, record it
    NodeCases {
        /// Only these groups and cases: `fs`, `fs/streams`
        names: Vec<String>,
    },
    /// Import and exercise the 100 most downloaded packages of npm that are pure JavaScript, and
    /// compare what they do with Node.js 22
    Npm {
        /// Only these packages
        names: Vec<String>,
    },
    /// Compare the shell with bash on the spec tests of Oils; with BLESS=1, write the list of differences
    Shell {
        /// A checkout of github.com/oils-for-unix/oils
        #[arg(long, value_name = "DIR")]
        suite: Option<PathBuf>,
        #[command(flatten)]
        options: conformance::ShellOptions,
    },
    /// Compare public shell scripts with bash: `--help` and no arguments
    ShellScripts {
        /// A folder with checkouts of repositories that contain skills
        #[arg(long, value_name = "DIR")]
        suite: Option<PathBuf>,
        #[command(flatten)]
        options: conformance::ShellOptions,
    },
    /// Compare public Python scripts with the newest Python of this machine: `--help` and no arguments
    PythonScripts {
        /// A folder with checkouts of repositories that contain skills
        #[arg(long, value_name = "DIR")]
        suite: Option<PathBuf>,
        #[command(flatten)]
        options: conformance::ShellOptions,
    },
    /// Compare public scripts in JavaScript and TypeScript with Node.js 22: `--help` and no arguments
    SkillScripts {
        /// A folder with checkouts of repositories that contain skills
        #[arg(long, value_name = "DIR")]
        suite: PathBuf,
        /// Further arguments of components/javascript/conformance/skill_scripts.py: `--list`, digests
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Compare builtins and commands of the shell with the machine's bash, awk, sed, grep, tr, jq and
    /// sqlite3 on generated programs
    Tools(conformance::ShellOptions),
    /// Count the public skills in which `check` finds a trick of malicious skills: at most 2 % may
    /// have a finding above a note
    Tricks {
        /// A folder with public skills, such as checkouts of repositories
        #[arg(long, value_name = "DIR")]
        suite: PathBuf,
    },
    /// Compare `check` with skills-ref, the reference library of Agent Skills, from PyPI
    SkillsRef,
    /// Run test262, the tests of ECMAScript, in the sandbox; with BLESS=1, write the list of results
    Test262(conformance::JavascriptOptions),
    /// Perform the tests of the reference implementation of the sandboxd protocol against a server,
    /// and drive it with the Python SDK
    Sandboxd {
        /// A checkout of github.com/kubernetes-sigs/agent-sandbox
        #[arg(long, value_name = "DIR")]
        suite: Option<PathBuf>,
    },
    /// Run the WASI 0.3 components of wasi-testsuite in the sandbox
    Wasi {
        /// A checkout of github.com/WebAssembly/wasi-testsuite, branch prod/testsuite-base
        #[arg(long, value_name = "DIR")]
        suite: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    #[cfg(target_arch = "x86_64")]
    if host::link::is_linker() {
        return host::link::main();
    }
    let args = Args::parse();
    let progress = Progress::new(args.verbose);
    let result = match args.verb {
        Verb::Demo => demo::run(&progress),
        Verb::Test(options) => test::run(&options, &progress),
        Verb::Install { prefix } => install::run(prefix, &progress),
        Verb::Dist(options) => dist::run(&options, &progress),
        Verb::Release { db, prefix } => install::release(&db, prefix, &progress),
        Verb::Fuzz { seconds, seed, target } => fuzz::run(seconds, target, seed, &progress),
        Verb::Determinism { cpu: true, quick, .. } => determinism::on_processors(quick, &progress),
        Verb::Determinism { times, .. } => determinism::run(times),
        Verb::Components => components::run(&progress),
        Verb::Python => python::run(&progress),
        Verb::JavascriptPackages => javascript_packages::run(&progress),
        Verb::Clients => clients::run(&progress),
        Verb::Servers => servers::run(&progress),
        Verb::Chaos(options) => chaos::run(&options, &progress),
        Verb::Conformance { suite: Conformance::Agents } => conformance::agents(&progress),
        Verb::Conformance { suite: Conformance::RunApi } => conformance::run_api(&progress),
        Verb::Conformance { suite: Conformance::Python { args } } => {
            conformance::python(&args, &progress)
        }
        Verb::Conformance { suite: Conformance::Mcp } => conformance::mcp(&progress),
        Verb::Conformance { suite: Conformance::Node(options) } => {
            conformance::node_tests(&options, &progress)
        }
        Verb::Conformance { suite: Conformance::NodeCases { names } } => {
            node_cases::native(&names, &progress)
        }
        Verb::Conformance { suite: Conformance::Npm { names } } => {
            conformance::npm(&names, &progress)
        }
        Verb::Conformance { suite: Conformance::Shell { suite, options } } => {
            conformance::shell_spec(suite.as_deref(), &options, &progress)
        }
        Verb::Conformance { suite: Conformance::ShellScripts { suite, options } } => {
            conformance::public_scripts("shell", suite.as_deref(), &options, &progress)
        }
        Verb::Conformance { suite: Conformance::PythonScripts { suite, options } } => {
            conformance::public_scripts("python", suite.as_deref(), &options, &progress)
        }
        Verb::Conformance { suite: Conformance::Tools(options) } => {
            conformance::shell_tools(&options, &progress)
        }
        Verb::Conformance { suite: Conformance::SkillScripts { suite, args } } => {
            conformance::skill_scripts(&suite, &args, &progress)
        }
        Verb::Conformance { suite: Conformance::Tricks { suite } } => {
            conformance::tricks(&suite, &progress)
        }
        Verb::Conformance { suite: Conformance::SkillsRef } => conformance::skills_ref(&progress),
        Verb::Conformance { suite: Conformance::Test262(options) } => {
            conformance::test262(&options, &progress)
        }
        Verb::Conformance { suite: Conformance::Sandboxd { suite } } => {
            conformance::sandboxd(suite.as_deref(), &progress)
        }
        Verb::Conformance { suite: Conformance::Wasi { suite } } => {
            conformance::wasi(suite.as_deref(), &progress)
        }
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

/// Prints a line to stdout. Ignores errors: a task continues even if stdout is closed.
fn print_line(line: impl std::fmt::Display) {
    drop(writeln!(anstream::stdout(), "{line}"));
}
