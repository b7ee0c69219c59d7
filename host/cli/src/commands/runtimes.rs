//! `skillhost runtimes`: list the runtimes of scripts, and compile them ahead of their first use.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use clap::Subcommand;
use serde::Serialize;
use skillhost::invoke::Runner;
use skillhost_policy::limits::show_size;
use skillhost_sandbox::{self as sandbox, Architecture, Mode, shipped};
use skillhost_skill::runtime::built_in::{BUILD_COMMAND, BuiltIn, EXPECTED_PROGRAMS, ProgramError};
use skillhost_skill::runtime::hex;

use crate::args::{HostArgs, RuntimesArg};
use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::{compilation, event_loop, output};

/// List the runtimes that run scripts, or compile them ahead of their first use
///
/// Runtimes are components like any other, in a folder next to this executable or the one that
/// --programs names. For each that is missing, the list says how to build it; the others work
/// without it. Exits with 1 if all are missing or one cannot run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost runtimes
  skillhost runtimes --json | jq -r '.programs[].version'
  skillhost runtimes compile")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// The folder of runtimes [default: $SKILLHOST_PROGRAMS, else the one next to this executable]
    #[arg(long, value_name = "DIR", global = true)]
    programs: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Compile every runtime that the cache lacks, and print the time that each took
    ///
    /// Otherwise the first run with a runtime compiles it, which takes seconds. `skillhost cache warm`
    /// does the same.
    Compile {
        /// Compile every runtime for the processors that its code ships for, and write the code to
        /// this folder
        #[arg(long, value_name = "DIR", hide = true)]
        ship_to: Option<PathBuf>,
        /// The architecture of these processors, if it is not this machine's
        #[arg(long, requires = "ship_to", hide = true)]
        aarch64: bool,
    },
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    programs: Vec<Installed>,
    missing: Vec<Missing>,
}

#[derive(Debug, Serialize)]
struct Installed {
    name: String,
    version: String,
    commands: Vec<String>,
    /// Bytes.
    size: u64,
    digest: String,
    /// The size of its stack in bytes; 0 if it states none.
    stack: u64,
    file: PathBuf,
    /// The packages that come with it; `None` if it has no packages.
    packages: Option<Vec<String>>,
    /// Why it cannot run.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct Missing {
    name: &'static str,
    commands: &'static [&'static str],
    build: &'static str,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let runtimes = RuntimesArg { programs: args.programs.clone() };
    match &args.action {
        Some(Action::Compile { ship_to: Some(folder), aarch64 }) => {
            let architecture = if *aarch64 { Architecture::Aarch64 } else { Architecture::OWN };
            compile_to_ship(runtimes, architecture, folder)
        }
        Some(Action::Compile { ship_to: None, .. }) => compile(runtimes),
        None => {
            let found = host(runtimes)?.built_ins().list()?;
            list(found, args.json)
        }
    }
}

/// Compiles every runtime that the cache lacks.
pub(crate) fn compile(runtimes: RuntimesArg) -> Result<Exit, CliError> {
    let host = host(runtimes)?;
    compile_each(host.built_ins().list()?, &host)
}

fn host(runtimes: RuntimesArg) -> Result<Runner, CliError> {
    let options = Places::find()?.host_options(&HostArgs { runtimes, ..HostArgs::default() })?;
    Ok(Runner::new(options))
}

fn list(found: Vec<BuiltIn>, json: bool) -> Result<Exit, CliError> {
    let programs = found.into_iter().map(installed).collect::<Result<Vec<_>, _>>()?;
    let is_installed = |name: &str| programs.iter().any(|program| program.name == name);
    let missing = EXPECTED_PROGRAMS
        .iter()
        .filter(|(name, _)| !is_installed(name))
        .map(|(name, commands)| Missing { name, commands, build: BUILD_COMMAND })
        .collect();
    let has_problem =
        programs.is_empty() || programs.iter().any(|program| program.problem.is_some());
    let report = Report { programs, missing };
    if json {
        output::json(&report)?;
    } else {
        output::text(&text(&report))?;
    }
    Ok(if has_problem { Exit::Findings } else { Exit::Ok })
}

fn compile_each(found: Vec<BuiltIn>, host: &Runner) -> Result<Exit, CliError> {
    if found.is_empty() {
        return Err(
            CliError::invalid("no runtimes found").fix(format!("build them: {BUILD_COMMAND}"))
        );
    }
    let is_new = Arc::new(AtomicBool::new(false));
    let watched = is_new.clone();
    host.watch_compilations(move |compilation| {
        watched.store(true, Relaxed);
        compilation::announce(compilation);
    });
    let event_loop = event_loop::one_thread()?;
    for runtime in found {
        let name = format!("{} {}", runtime.description.name, runtime.description.version);
        let component = Arc::new(runtime).component()?;
        is_new.store(false, Relaxed);
        let start = Instant::now();
        event_loop.block_on(host.compile(&component, Mode::Fast)).map_err(|status| {
            let message = format!("cannot compile {name}: {}", sandbox::say(&status));
            CliError::new(Exit::of(&status), message)
        })?;
        output::text(&if is_new.load(Relaxed) {
            format!("{name}: compiled in {:.1} s", start.elapsed().as_secs_f64())
        } else {
            format!("{name}: already compiled")
        })?;
    }
    host.settle();
    Ok(Exit::Ok)
}

/// Writes the code of each runtime, and prints the digests of its component and of its code, for
/// `cargo xtask dist`.
fn compile_to_ship(
    runtimes: RuntimesArg,
    architecture: Architecture,
    folder: &Path,
) -> Result<Exit, CliError> {
    let host = host(runtimes)?;
    let found = host.built_ins().list()?;
    let event_loop = event_loop::one_thread()?;
    for runtime in found {
        let name = runtime.description.name.clone();
        let component = Arc::new(runtime).component()?;
        let path = folder.join(shipped::file_name(&component.digest));
        let failed = |error| CliError::io(format!("write {}", path.display()), error);
        #[expect(clippy::disallowed_methods, reason = "a new file in the folder that was named")]
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(failed)?;
        let written = file.try_clone().map_err(failed)?;
        event_loop.block_on(host.compile_to_ship(&component, architecture, file)).map_err(
            |status| {
                CliError::new(
                    Exit::of(&status),
                    format!("cannot compile {name}: {}", sandbox::say(&status)),
                )
            },
        )?;
        let code = hex(&shipped::code_digest(&written).map_err(failed)?);
        output::text(&format!("{} {code}", component.digest.trim_start_matches("sha256:")))?;
    }
    Ok(Exit::Ok)
}

fn installed(runtime: BuiltIn) -> Result<Installed, ProgramError> {
    let runtime = Arc::new(runtime);
    let problem = runtime.verify().err().map(|error| error.message);
    let (file, packages, stack) = (runtime.wasm(), runtime.package_names()?, runtime.stack);
    let facts = runtime.description.clone();
    Ok(Installed {
        name: facts.name,
        version: facts.version,
        commands: facts.programs,
        size: facts.size,
        digest: facts.digest,
        stack,
        file,
        packages,
        problem,
    })
}

fn text(report: &Report) -> String {
    let mut out = String::new();
    for program in &report.programs {
        let Installed { name, version, commands, size, digest, file, .. } = program;
        out += &format!("{name} {version}\n");
        out += &format!("  {}, {}\n  {digest}\n", file.display(), show_size(*size));
        out += &list_of("command", commands);
        if let Some(packages) = &program.packages {
            out += &list_of("package", packages);
        }
        if let Some(problem) = &program.problem {
            out += &format!("  cannot run: {problem}\n");
        }
    }
    for Missing { name, commands, build } in &report.missing {
        out += &format!("{name} ({}) is missing; build it with `{build}`\n", commands.join(", "));
    }
    out
}

/// Names with their number, in lines that fit the page.
fn list_of(noun: &str, names: &[String]) -> String {
    let mut out = format!("  {}:", output::count(names.len() as u64, noun));
    let mut column = out.len();
    for (index, name) in names.iter().enumerate() {
        let comma = if index + 1 < names.len() { "," } else { "" };
        if column + 1 + name.len() + comma.len() > usize::from(output::width()) {
            out += "\n   ";
            column = 3;
        }
        out += &format!(" {name}{comma}");
        column += 1 + name.len() + comma.len();
    }
    out + "\n"
}
