//! `cargo xtask test`: every check and test, in the order in which they fail fastest. The first
//! failure ends it.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use skillhost_toolchain::{Error, Progress, TARGET, WasmToolchain};

use crate::{clients, components, dependencies, python, say, shell, toolchain, workspace};

pub(crate) fn run(db: Option<&Path>, progress: &Progress) -> Result<(), Error> {
    let start = Instant::now();
    let result = steps(&workspace::root(), db, progress);
    let took = progress.took();
    say("");
    for step in &took {
        say(format!(
            "{:>9.1} s  {}{}",
            step.time.as_secs_f64(),
            step.name,
            if step.ok { "" } else { "  FAILED" }
        ));
    }
    let word = if result.is_ok() { "ok" } else { "FAILED" };
    say(format!(
        "xtask test: {word}. {} steps in {:.1} s",
        took.len(),
        start.elapsed().as_secs_f64()
    ));
    result
}

fn steps(root: &Path, db: Option<&Path>, progress: &Progress) -> Result<(), Error> {
    for component in ["rustfmt", "clippy"] {
        need(component, progress)?;
    }
    python::check()?;
    // Its manifest stands on the source that this makes.
    progress.step("prepare the source of the shell", |step| shell::prepare(root, step))?;
    progress.step("format", |step| {
        workspace::all(root).iter().try_for_each(|dir| {
            step.run(workspace::cargo(dir).args(["fmt", "--check"])).map(drop).map_err(|e| {
                Error::new(e.to_string()).help(format!("`cargo fmt` in {}", dir.display()))
            })
        })
    })?;
    dependencies::check(root, db, progress)?;
    let guests = workspace::guests(root);
    let toolchain = toolchain::get(root, progress)?;
    progress.step("clippy of host", |step| {
        step.run(&mut clippy(workspace::cargo(root), &["--all-targets"]))
    })?;
    for dir in &guests {
        let name = workspace::name(root, dir);
        // The shell has no tests that are not the host's, and its interpreter takes minutes to
        // check twice.
        if !dir.ends_with("shell") {
            progress.step(&format!("clippy of {name}"), |step| {
                step.run(&mut clippy(guest(root, dir), &["--all-targets"]))
            })?;
        }
        if toolchain.rustc.is_none() {
            // A compiler of another version than clippy's makes a std that clippy cannot read;
            // there, the native pass has to do.
            progress.step(&format!("clippy of {name} for {TARGET}"), |step| {
                step.run(&mut clippy(wasm(root, dir, &toolchain), &["--target", TARGET]))
            })?;
        }
    }
    components::build(root, &toolchain, progress)?;
    python::run(progress)?;
    clients::run(progress)?;
    progress.loud_step("unit, integration and doc tests", |step| {
        step.run_loud(workspace::cargo(root).args(["test", "--workspace", "--locked"]))
    })?;
    progress.loud_step("cases of the Python runtime", |step| {
        step.run_loud(workspace::cargo(root).args(["build", "-p", "skillhost-cli", "--locked"]))?;
        step.run_loud(&mut python::cases())
    })?;
    for dir in guests.iter().filter(|dir| !dir.ends_with("shell")) {
        let name = format!("native tests of {}", workspace::name(root, dir));
        progress.loud_step(&name, |step| {
            step.run_loud(guest(root, dir).args(["test", "--workspace", "--locked"]))
        })?;
    }
    Ok(())
}

/// Adds a component of the toolchain where it is missing.
fn need(component: &str, progress: &Progress) -> Result<(), Error> {
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

fn clippy(mut cargo: Command, args: &[&str]) -> Command {
    cargo.args(["clippy", "--workspace", "--locked"]).args(args).args(["--", "-D", "warnings"]);
    cargo
}

fn guest(root: &Path, dir: &Path) -> Command {
    let mut cargo = workspace::cargo(dir);
    cargo.env("CARGO_TARGET_DIR", workspace::guest_target_dir(root));
    cargo
}

fn wasm(root: &Path, dir: &Path, toolchain: &WasmToolchain) -> Command {
    let mut cargo = toolchain.cargo();
    cargo.current_dir(dir).env("CARGO_TARGET_DIR", workspace::guest_target_dir(root));
    cargo
}
