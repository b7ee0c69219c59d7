//! `skillhost test`: run the test cases of skills, and compare each run with what its case expects.

mod case_run;
mod native_run;
mod report;
mod suite;

use std::path::{Path, PathBuf};

use futures::future::{self, Either};
use skillhost::invoke::Runner;
use tokio::task::{JoinError, JoinSet};

use crate::args::HostArgs;
use crate::args::permissions::Permissions;
use crate::args::skills::Skills;
use crate::commands::run::raise_descriptor_limit;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::{compilation, event_loop, output};
use case_run::{CaseResult, CaseRun};
use report::Report;
use suite::Suite;

/// Test skills: run their cases, compare output, files and denials
///
/// A case is a folder in the skill's folder `tests`. Its file `case.yaml` says what to run, with
/// which arguments, input and files, and what to expect. Each case runs in the sandbox as `skillhost run`
/// would run it, under your policy and with the flags below, in a workspace of its own that is
/// removed afterwards. What a case does not mention is expected to be empty: an exit code of 0, no
/// output, no changed files, no denials.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost test SKILL
  skillhost test skills/calculator skills/csv-report
  skillhost test SKILL --case report                  only cases with this in their names
  skillhost test SKILL --bless                        accept what the runs gave
  skillhost test SKILL --policy policy.yaml --timeout 1m
  skillhost test SKILL --json | jq '.skills[].cases[] | select(.status == \"failed\").name'

A case, tests/report/case.yaml, and how to record what it expects:
  script: scripts/report.py
  args: [data.csv]
  workspace: { data.csv: \"name,count\\ntea,3\\n\" }

Exit codes:
    0  every case passed, or was rewritten by `--bless`
    1  a case failed
   65  a case is invalid, a skill has no cases, or a skill does not load
   77  a run needs approval, or is not allowed
Others are those of `skillhost --help`.")]
pub(crate) struct Args {
    /// The skills: folders, as paths with a `/` (`./NAME`), or names from `skillhost list`
    #[arg(required = true, value_name = "SKILL")]
    named: Vec<PathBuf>,
    /// Run only the cases whose name contains this text (repeatable)
    #[arg(long = "case", value_name = "TEXT")]
    selected: Vec<String>,
    /// Rewrite the expectations of the cases that fail
    #[arg(long)]
    bless: bool,
    /// Also run each script outside the sandbox, with all your permissions, and compare its output,
    /// exit code and files. Only for skills that you have approved
    #[arg(long, conflicts_with = "bless")]
    native: bool,
    /// Run at most this many cases at once [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: HostArgs,

    #[command(flatten)]
    permissions: Permissions,
    #[command(flatten)]
    skills: Skills,
}

impl Args {
    /// Runs all cases of one skill, and prints the report for people.
    pub(crate) fn of(skill: &Path, permissions: &Permissions) -> Args {
        Args {
            named: vec![skill.to_owned()],
            selected: Vec::new(),
            bless: false,
            native: false,
            jobs: None,
            json: false,
            host: HostArgs::default(),
            permissions: permissions.clone(),
            skills: Skills::default(),
        }
    }
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    if args.permissions.workspace_folder().is_some() {
        return Err(CliError::usage("test gives each case a workspace of its own")
            .fix("put its files into tests/CASE/workspace"));
    }
    let mut context = Context::with_permissions(&args.permissions)?;
    context.policy = context.policy.with_client_names();
    let host = compilation::announced(context.host_options(&args.host, &args.skills)?, args.json);
    let suites = Suite::read_all(args, &context)?;
    if args.native {
        let message = "--native runs scripts outside the sandbox, with all your permissions";
        output::warning(message, None);
    }
    raise_descriptor_limit();
    let results = run(args, &context, &host, &suites)?;
    host.settle();
    let mut report = Report::of(&suites, results);
    if args.bless {
        report.bless(&suites)?;
    }
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&report.text())?;
        report.explain();
    }
    Ok(if report.failed == 0 { Exit::Ok } else { Exit::Findings })
}

/// Runs the cases of all suites, several at once. The results are in the order of the cases.
fn run(
    args: &Args,
    context: &Context,
    host: &Runner,
    suites: &[Suite],
) -> Result<Vec<CaseResult>, CliError> {
    let event_loop = event_loop::many_threads()?;
    let _inside = event_loop.enter();
    let interrupt = event_loop::interrupt()?;
    event_loop.block_on(async {
        match future::select(Box::pin(run_all(args, context, host, suites)), interrupt).await {
            Either::Left((results, _)) => results,
            Either::Right(_) => Err(CliError::new(Exit::Interrupted, "interrupted")),
        }
    })
}

async fn run_all(
    args: &Args,
    context: &Context,
    host: &Runner,
    suites: &[Suite],
) -> Result<Vec<CaseResult>, CliError> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or_else(cores, usize::from);
    let cases = suites.iter().flat_map(|suite| suite.cases.iter().map(move |case| (suite, case)));
    let (mut running, mut results) = (JoinSet::new(), Vec::new());
    for (index, (suite, case)) in cases.enumerate() {
        if running.len() == jobs {
            results.extend(ended(running.join_next().await)?);
        }
        // Here and not in its task: a question about one run waits for no other.
        let prepared = CaseRun::prepare(suite, case, args, context, host)?;
        let host = host.clone();
        running.spawn(async move { Ok((index, prepared.run(&host).await?)) });
    }
    while !running.is_empty() {
        results.extend(ended(running.join_next().await)?);
    }
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

type Ended = Result<(usize, CaseResult), CliError>;

fn ended(
    joined: Option<Result<Ended, JoinError>>,
) -> Result<Option<(usize, CaseResult)>, CliError> {
    let failed = |error| CliError::io("run a case", error);
    joined.map(|joined| joined.map_err(failed)?).transpose()
}
