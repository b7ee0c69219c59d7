//! `skillhost programs`: what scripts run in.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use skillhost::invoke::Runner;
use skillhost_policy::limits::show_size;
use skillhost_skill::runtime::built_in::{BUILD_COMMAND, BuiltIn, EXPECTED_PROGRAMS, ProgramError};

use super::exit::Exit;
use super::places::{HostArgs, Places};
use super::{Failure, show};

/// Lists the programs that scripts run in
///
/// They are components like any other, in a folder beside this executable or the one that
/// --programs names. One that is missing is named with what builds it; the others work without it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost programs
  skillhost programs --json | jq -r '.programs[].version'")]
pub(crate) struct Args {
    /// The folder of built-in programs [default: $SKILLHOST_PROGRAMS, else those beside this
    /// executable]
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    programs: Vec<Listed>,
    missing: Vec<Missing>,
}

#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    version: String,
    commands: Vec<String>,
    /// Bytes.
    size: u64,
    digest: String,
    /// The stack that it is given, in bytes; 0 where it does not say.
    stack: u64,
    file: PathBuf,
    /// `None` where no packages come with it.
    packages: Option<Vec<String>>,
    /// Why it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct Missing {
    name: &'static str,
    commands: &'static [&'static str],
    build: &'static str,
}

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let host = Runner::new(
        Places::find()?
            .host_options(&HostArgs { programs: args.programs.clone(), ..HostArgs::default() })?,
    );
    let found = host.built_ins().list().map_err(failure)?;
    let programs = found.into_iter().map(listed).collect::<Result<Vec<_>, _>>().map_err(failure)?;
    let here = |name: &str| programs.iter().any(|program| program.name == name);
    let missing = EXPECTED_PROGRAMS
        .iter()
        .filter(|(name, _)| !here(name))
        .map(|(name, commands)| Missing { name, commands, build: BUILD_COMMAND })
        .collect();
    let report = Report { programs, missing };
    if args.json {
        show::json(&report)?;
    } else {
        show::text(&text(&report))?;
    }
    Ok(if report.programs.iter().any(|program| program.problem.is_some()) {
        Exit::Findings
    } else {
        Exit::Ok
    })
}

fn listed(program: BuiltIn) -> Result<Listed, ProgramError> {
    let program = Arc::new(program);
    let problem = program.component().err().map(|error| error.message);
    let (file, packages, stack) = (program.wasm(), program.package_names()?, program.stack);
    let facts = program.description.clone();
    let (name, version, commands) = (facts.name, facts.version, facts.programs);
    Ok(Listed {
        name,
        version,
        commands,
        size: facts.size,
        digest: facts.digest,
        stack,
        file,
        packages,
        problem,
    })
}

fn failure(error: ProgramError) -> Failure {
    let failure = Failure::new(Exit::Invalid, error.message);
    match error.fix {
        Some(fix) => failure.fix(fix),
        None => failure,
    }
}

fn text(report: &Report) -> String {
    let mut out = String::new();
    for program in &report.programs {
        let Listed { name, version, commands, size, digest, file, .. } = program;
        out += &format!("{name} {version}\n");
        out += &format!("  {}, {}\n  {digest}\n", file.display(), show_size(*size));
        out += &list("commands", commands);
        if let Some(packages) = &program.packages {
            out += &list("packages", packages);
        }
        if let Some(problem) = &program.problem {
            out += &format!("  does not run: {problem}\n");
        }
    }
    for Missing { name, commands, build } in &report.missing {
        out += &format!("{name} ({}) is missing: `{build}` builds it\n", commands.join(", "));
    }
    out
}

/// Names with their number, in lines that fit the page.
fn list(what: &str, names: &[String]) -> String {
    let mut out = format!("  {} {what}:", names.len());
    let mut column = out.len();
    for (index, name) in names.iter().enumerate() {
        let comma = if index + 1 < names.len() { "," } else { "" };
        if column + 1 + name.len() + comma.len() > usize::from(show::width()) {
            out += "\n   ";
            column = 3;
        }
        out += &format!(" {name}{comma}");
        column += 1 + name.len() + comma.len();
    }
    out + "\n"
}
