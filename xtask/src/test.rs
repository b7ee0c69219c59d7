//! `cargo xtask test`: runs every check and test. Builds the host and the guests in parallel, then
//! runs the tests. Without `--all`, skips and lists the checks whose inputs have not changed since
//! they passed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use skillhost_toolchain::{Error, Progress, TARGET, WasmToolchain};

use crate::check_cache::{Check, PassedChecks};
use crate::steps::{in_parallel, list_slowest};
use crate::{
    clients, components, dependencies, host, javascript_packages, node_cases, print_line, python,
    requirements, servers, shell, toolchain, workspace,
};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Also check the dependencies for advisories, with this copy of the RustSec advisory database
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Also run the checks whose inputs have not changed since they passed [default if CI is set]
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(options: &Options, progress: &Progress) -> Result<(), Error> {
    let start = Instant::now();
    let root = workspace::root();
    let mut passed = PassedChecks::load(&root, options.all || std::env::var_os("CI").is_some())?;
    let result = steps(&root, options, &mut passed, progress);
    summarize(progress, &passed, start, result.is_ok());
    result
}

fn steps(
    root: &Path,
    options: &Options,
    passed: &mut PassedChecks,
    progress: &Progress,
) -> Result<(), Error> {
    requirements::check()?;
    for component in ["rustfmt", "clippy"] {
        ensure_component(component, progress)?;
    }
    // The manifests of these crates refer to the sources that these steps write.
    progress.step("prepare the source of the shell", |step| shell::prepare(root, step))?;
    crate::javascript::prepare(root, progress)?;
    progress.step("format", |step| {
        workspace::all(root).iter().try_for_each(|dir| {
            step.run(workspace::cargo(dir).args(["fmt", "--check"])).map(drop).map_err(|e| {
                Error::new(e.to_string()).help(format!("`cargo fmt` in {}", dir.display()))
            })
        })
    })?;
    dependencies::check(root, options.db.as_deref(), progress)?;
    let toolchain = toolchain::get(root, progress)?;
    let guests = workspace::guests(root);
    let runner = Runner::find();
    let lint_guests: Vec<&PathBuf> = guests
        .iter()
        .filter(|dir| passed.must_run(&Check::GuestLints(workspace::name(root, dir))))
        .collect();
    in_parallel(
        || {
            progress.step("build the host and its tests, with lints", |step| {
                step.run(&mut runner.build(root)).map(drop).map_err(Error::from)
            })
        },
        || {
            components::build(root, &toolchain, components::Guests::All, progress)?;
            python::run(progress)?;
            javascript_packages::run(progress)?;
            clients::run(progress)?;
            servers::run(progress)?;
            lint_guests.iter().try_for_each(|dir| lint(root, dir, &toolchain, progress))
        },
    )?;
    for dir in lint_guests {
        passed.record_pass(&Check::GuestLints(workspace::name(root, dir)))?;
    }
    test_host(root, runner, passed, progress)?;
    test_guests(root, &guests, passed, progress)
}

/// The program that runs the tests: nextest if it is installed, else cargo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runner {
    Nextest,
    Cargo,
}

impl Runner {
    fn find() -> Runner {
        let version = Command::new("cargo").args(["nextest", "--version"]).output();
        if version.is_ok_and(|o| o.status.success()) { Runner::Nextest } else { Runner::Cargo }
    }

    /// Builds all tests except documentation tests, which nextest cannot run.
    fn build(self, root: &Path) -> Command {
        let mut cargo = self.command(root);
        cargo.arg("--no-run");
        cargo
    }

    /// Runs these tests, and continues after a failure, so that one run shows all failures.
    fn run(self, root: &Path) -> Command {
        let mut cargo = self.command(root);
        cargo.arg("--no-fail-fast");
        if self == Runner::Nextest {
            cargo.args(["--status-level=fail", "--final-status-level=slow"]);
            // One more than processors, because many tests wait for a timeout or for another process.
            let threads = std::thread::available_parallelism().map_or(2, |count| count.get() + 1);
            cargo.arg(format!("--test-threads={threads}"));
        }
        cargo
    }

    fn command(self, root: &Path) -> Command {
        let mut cargo = workspace::cargo(root);
        host::linted(&mut cargo);
        match self {
            Runner::Nextest => cargo.args(["nextest", "run", "--workspace", "--locked"]),
            Runner::Cargo => {
                cargo.args(["test", "--workspace", "--locked"]);
                cargo.args(["--lib", "--bins", "--tests", "--examples"])
            }
        };
        cargo
    }

    /// Excludes the tests of packages.
    fn exclude(self, cargo: &mut Command, packages: &[String]) {
        if packages.is_empty() {
            return;
        }
        match self {
            Runner::Nextest => {
                let named: Vec<_> = packages.iter().map(|p| format!("package(={p})")).collect();
                cargo.arg("-E").arg(format!("not ({})", named.join(" or ")));
            }
            Runner::Cargo => {
                cargo.args(packages.iter().flat_map(|package| ["--exclude", package]));
            }
        }
    }
}

fn test_host(
    root: &Path,
    runner: Runner,
    passed: &mut PassedChecks,
    progress: &Progress,
) -> Result<(), Error> {
    let (run, skipped): (Vec<_>, Vec<_>) =
        passed.packages().into_iter().partition(|p| passed.must_run(&Check::Package(p.clone())));
    if !run.is_empty() {
        progress.loud_step("unit and integration tests", |step| {
            let mut tests = runner.run(root);
            runner.exclude(&mut tests, &skipped);
            step.run_loud(&mut tests)
        })?;
        if passed.have_library(&run) {
            progress.loud_step("documentation tests", |step| {
                let mut tests = workspace::cargo(root);
                host::linted(&mut tests).args(["test", "--workspace", "--locked", "--doc"]);
                Runner::Cargo.exclude(&mut tests, &skipped);
                step.run_loud(&mut tests)
            })?;
        }
        run.into_iter().try_for_each(|package| passed.record_pass(&Check::Package(package)))?;
    }
    if passed.must_run(&Check::PythonCases) {
        progress
            .loud_step("cases of the Python runtime", |step| step.run_loud(&mut python::cases()))?;
        passed.record_pass(&Check::PythonCases)?;
    }
    if passed.must_run(&Check::JavaScriptCases) {
        progress.loud_step("cases of the JavaScript runtime", |step| {
            step.run_loud(&mut node_cases::sandboxed())
        })?;
        passed.record_pass(&Check::JavaScriptCases)?;
    }
    Ok(())
}

/// Runs the native tests of the guests. The shell has none: its tests run in the host.
fn test_guests(
    root: &Path,
    guests: &[PathBuf],
    passed: &mut PassedChecks,
    progress: &Progress,
) -> Result<(), Error> {
    for dir in guests.iter().filter(|dir| !dir.ends_with("shell")) {
        let name = workspace::name(root, dir);
        let check = Check::GuestTests(name.clone());
        if passed.must_run(&check) {
            progress.loud_step(&format!("native tests of {name}"), |step| {
                let mut tests = guest_cargo(root, dir);
                step.run_loud(host::linted(&mut tests).args(["test", "--workspace", "--locked"]))
            })?;
            passed.record_pass(&check)?;
        }
    }
    Ok(())
}

/// Lints the code of a guest workspace that is compiled to WebAssembly. Code for other targets is
/// linted when the native tests are built.
fn lint(
    root: &Path,
    dir: &Path,
    toolchain: &WasmToolchain,
    progress: &Progress,
) -> Result<(), Error> {
    if toolchain.rustc.is_some() {
        // Clippy cannot read the std of another compiler version: only native code is linted.
        return Ok(());
    }
    let mut cargo = toolchain.cargo();
    cargo.current_dir(dir).env("CARGO_TARGET_DIR", workspace::guest_target_dir(root));
    cargo.arg("clippy");
    if dir.ends_with(crate::javascript::WORKSPACE) {
        // cargo passes on to clippy only what follows its name.
        cargo.args(crate::javascript::cargo_args(root));
    }
    cargo.args(["--workspace", "--locked", "--target", TARGET, "--", "-D", "warnings"]);
    let name = workspace::name(root, dir);
    progress.step(&format!("lints of {name}"), |step| step.run(&mut cargo).map(drop))?;
    Ok(())
}

/// Adds a component of the toolchain if it is missing.
fn ensure_component(component: &str, progress: &Progress) -> Result<(), Error> {
    let program = if component == "rustfmt" { "fmt" } else { component };
    if Command::new("cargo").args([program, "--version"]).output().is_ok_and(|o| o.status.success())
    {
        return Ok(());
    }
    progress
        .step(&format!("rustup component add {component}"), |step| {
            step.run(Command::new("rustup").args(["component", "add", component]))
        })
        .map(drop)
        .map_err(|e| {
            Error::new(format!("{component} is not installed: {e}"))
                .help(format!("`rustup component add {component}`"))
        })
}

fn guest_cargo(root: &Path, dir: &Path) -> Command {
    let mut cargo = workspace::cargo(dir);
    cargo.env("CARGO_TARGET_DIR", workspace::guest_target_dir(root));
    cargo
}

/// Prints the skipped checks, the slowest steps and the result.
fn summarize(progress: &Progress, passed: &PassedChecks, start: Instant, ok: bool) {
    if !passed.skipped().is_empty() {
        print_line("\nskipped, because their inputs have not changed (--all runs them):");
        for check in passed.skipped() {
            print_line(format!("  {check}"));
        }
    }
    list_slowest(progress);
    let count = progress.finished().len();
    let result = if ok { "ok" } else { "FAILED" };
    print_line(format!(
        "xtask test: {result}. {count} steps in {:.1} s",
        start.elapsed().as_secs_f64()
    ));
}
