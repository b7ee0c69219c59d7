//! `skillhost run`: run a skill's command, script or typed tool under a policy.

pub(crate) mod approval;
mod explain;
mod learn;
mod plan;
mod prepared;
pub(crate) mod receipt;
mod watch;

pub(crate) use approval::forecast;
pub(crate) use prepared::PreparedRun;

use std::io::IsTerminal as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;
use skillhost::invoke::{
    Invocation, LoadedRequest, LoadedSkill, RunError, Target, UnresolvedTarget,
};
use skillhost_compat::learn::Proposal;
use skillhost_policy::WORKSPACE;
use skillhost_policy::diagnostic::quoted;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_sandbox::{Io, OutputError, Sink, Stdin};
use skillhost_skill::runtime::scripts::SkillScript;

use crate::args::HostArgs;
use crate::args::permissions::Permissions;
use crate::args::skills::Skills;
use crate::commands::key;
use crate::error::{CliError, Exit};
use crate::event_loop::{self, Interrupt};
use crate::recording::{After, Outside};
use crate::{compilation, output};
use approval::RequestedRun;
use plan::{Plan, Recording};

/// Run a skill in the sandbox
///
/// Runs the skill's component, one of its typed tools, or one of its Python or shell scripts. The
/// guest sees /skill (read-only), /workspace (the folder given by --workspace) and /tmp (scratch,
/// removed after the run). It gets what the skill's allowed-tools requests and the policy grants,
/// and nothing else; `--explain` shows that without running anything.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost run skills/data-convert -- -f '.items[]' < in.yaml
  skillhost run skills/calculator calculate --input '{\"expression\": \"0.1 + 0.2\"}'
  skillhost run SKILL scripts/report.py --workspace . -- --verbose data.csv
  skillhost run SKILL --workspace . --command 'python3 scripts/report.py data.csv | head -3'
  skillhost run SKILL --workspace . --explain
  skillhost run SKILL --workspace . --deterministic --seed 7 scripts/report.py
  skillhost run SKILL --workspace .:overlay --diff -- ARGS
  skillhost run SKILL --workspace . --watch scripts/report.py
  skillhost run SKILL --workspace . --learn scripts/report.py
  skillhost run SKILL --deterministic --receipt receipt.json --sign -- ARGS
  skillhost run SKILL --record recording --allow 'WebFetch(domain:api.example.com)' -- ARGS
  skillhost run SKILL --allow 'WebFetch(domain:api.example.com)' --timeout 10s -- ARGS")]
pub(crate) struct Args {
    /// The skill: its folder, as a path with a `/` (`./NAME`), or a name from `skillhost list`
    skill: PathBuf,
    /// Run this script (path or name) or typed tool [default: the component, or the only script]
    #[arg(value_name = "SCRIPT|TOOL")]
    name: Option<String>,
    /// Run a shell command as an agent would: `python3 scripts/a.py | head -3`
    #[arg(long, value_name = "TEXT", conflicts_with = "name")]
    command: Option<String>,
    /// Call the tool with this JSON input; `-` reads it from stdin, `@FILE` from a file
    #[arg(long, value_name = "JSON", requires = "name", conflicts_with = "args")]
    input: Option<String>,
    /// Arguments for the script or command
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,

    /// Show what is requested, granted and refused, without running anything
    #[arg(long)]
    explain: bool,
    /// Print the outcome as one JSON object, output included (`skillhost schema outcome`)
    #[arg(long)]
    json: bool,
    /// Show the changes that the run made in an overlay
    #[arg(long)]
    diff: bool,
    /// Apply the changes in an overlay if the run exits with 0
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    host: HostArgs,
    /// Write a receipt to FILE: digests of code, inputs and result (`skillhost schema receipt`).
    /// The output is printed when the run ends
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// Sign the receipt (`skillhost key new`)
    #[arg(long, requires = "receipt")]
    sign: bool,
    /// Run deterministically, and record everything that reaches the run from outside, network
    /// responses included, in this new folder (`skillhost replay`)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["recorded", "explain"])]
    record: Option<PathBuf>,
    /// Run deterministically, and answer network requests from a recording
    #[arg(long, value_name = "DIR", conflicts_with = "explain")]
    recorded: Option<PathBuf>,
    /// Take a secret of the recording from the environment variable of that name (repeatable)
    #[arg(long, value_name = "NAME", requires = "recorded")]
    secret_env: Vec<String>,
    /// Print the smallest allowed-tools and policy that the run needed, as a diff; changes nothing
    #[arg(long, conflicts_with_all = ["diff", "apply", "receipt", "explain"])]
    learn: bool,
    /// Run again when a file of the skill or of the workspace changes
    #[arg(long, conflicts_with_all = ["json", "explain", "receipt", "record", "learn"])]
    watch: bool,
    /// Run only a skill that skills.lock locks, with exactly the locked content
    #[arg(long)]
    frozen: bool,
    #[command(flatten)]
    permissions: Permissions,
    #[command(flatten)]
    skills: Skills,
}

impl Args {
    /// A shell command, with what a shell's own options say.
    pub(crate) fn of_command(
        skill: PathBuf,
        command: &str,
        host: HostArgs,
        permissions: Permissions,
        skills: Skills,
    ) -> Args {
        Args {
            skill,
            name: None,
            command: Some(command.to_owned()),
            input: None,
            args: Vec::new(),
            explain: false,
            json: false,
            diff: false,
            apply: false,
            host,
            receipt: None,
            sign: false,
            record: None,
            recorded: None,
            secret_env: Vec::new(),
            learn: false,
            watch: false,
            frozen: false,
            permissions,
            skills,
        }
    }

    fn target(&self) -> Target {
        match (&self.name, &self.command, &self.input) {
            (Some(name), _, None) => Target::Named(name.clone()),
            (Some(name), _, Some(input)) => {
                Target::Tool { name: name.clone(), input: input.clone() }
            }
            (None, Some(text), _) => Target::Shell(text.clone()),
            (None, None, _) => Target::Main,
        }
    }
}

pub(crate) fn main(mut args: Args) -> Result<Exit, CliError> {
    args.skills.frozen = args.frozen;
    if args.watch {
        return watch::watch(&args);
    }
    let is_explained = args.explain;
    let plan = Plan::resolve(args)?;
    if is_explained { explain::explain(plan) } else { execute(&plan) }
}

/// Loads the skill, and asks the operator whether it may run if that is not decided.
fn allowed(plan: &Plan) -> Result<LoadedSkill, CliError> {
    let started = Instant::now();
    // Loaded once: what is approved is what runs, even if the folder changes meanwhile.
    let loaded = plan
        .host
        .load_for_run(plan.skill.skill_folder(), &plan.context.policy)
        .map_err(|error| plan.failed(error))?;
    describe(&loaded, started);
    let denied = approval::before_run(&RequestedRun::of(plan, &loaded))?;
    let loaded = loaded.without_files(denied);
    warn_of_missing_secrets(&loaded);
    Ok(loaded)
}

fn execute(plan: &Plan) -> Result<Exit, CliError> {
    let (host, places) = (&plan.host, &plan.context.places);
    let loaded = allowed(plan)?;
    if plan.receipt.as_ref().is_some_and(|receipt| receipt.sign) {
        // Without a key, nothing runs.
        key::signing(places)?;
    }
    let outside = match &plan.recording {
        Recording::None => None,
        Recording::Write(folder) => Some(Outside::recording(folder, places)?),
        Recording::Read { folder, secrets } => Some(Outside::recorded(folder, secrets, places)?),
    };
    let stdin = plan.is_buffered().then(receipt::stdin).transpose()?;
    explain_silent_shell(plan);
    raise_descriptor_limit();
    let (invoked, after) = event_loop::with(|event_loop, interrupt| {
        let call = LoadedRequest {
            loaded: &loaded,
            policy: &plan.context.policy,
            target: &plan.target,
            args: plan.args.clone(),
            io: io(plan, stdin, interrupt)?,
        };
        event_loop
            .block_on(async {
                Ok(match outside {
                    Some(outside) => {
                        let (invoked, after) = outside.invoke(host, call).await?;
                        (invoked, Some(after))
                    }
                    None if plan.is_buffered() => (host.invoke_with_receipt(call).await?, None),
                    None => {
                        let LoadedRequest { target, args, io, .. } = call;
                        (host.invoke_loaded(&loaded, target, &args, io).await?, None)
                    }
                })
            })
            .map_err(|error| plan.failed(error))
    })?;
    host.settle();
    // The process is about to end and frees the engine and all that was loaded with it at once.
    std::mem::forget(host.clone());
    let learned = plan
        .learn
        .as_ref()
        .map(|permissions| learn::learned(permissions, &plan.context, &plan.skill, &invoked))
        .transpose()?;
    let exit = finish(plan, &loaded, invoked, learned.as_ref(), after.as_ref())?;
    after.map_or(Ok(exit), |after| after.report(exit))
}

/// Warns of the secrets that the skill declares and does not get, in one message.
fn warn_of_missing_secrets(loaded: &LoadedSkill) {
    let (wrong, commands): (Vec<_>, Vec<_>) = loaded.missing_secrets().into_iter().unzip();
    if !wrong.is_empty() {
        output::warning(&wrong.join("; "), Some(&commands.join("\n")));
    }
}

/// Says what to do if a shell reads its script from a terminal, where it shows no prompt.
fn explain_silent_shell(plan: &Plan) {
    let Target::Shell(command) = &plan.target else { return };
    let reads_script = matches!(command.trim(), "bash" | "sh") && plan.args.is_empty();
    if reads_script && !plan.is_buffered() && std::io::stdin().is_terminal() {
        output::note(&format!(
            "{} reads a script from the terminal, without a prompt: type it, then press Ctrl-D",
            command.trim()
        ));
    }
}

/// With `--verbose`, says what was loaded and granted.
fn describe(loaded: &LoadedSkill, started: Instant) {
    output::info(|| {
        let digest = loaded.id().digest.as_deref().unwrap_or("no digest");
        let took = started.elapsed().as_secs_f64() * 1e3;
        format!("loaded {} ({digest}) in {took:.1} ms", loaded.skill.name)
    });
    output::info(|| {
        let limits = &loaded.grant.capabilities.limits;
        let shown = |limit: Limit| {
            let value = limits.get(limit).map_or("off".into(), |value| limit.show(value));
            format!("{limit} {value}")
        };
        format!("limits: {}", Limit::ALL.into_iter().map(shown).collect::<Vec<_>>().join(", "))
    });
}

/// With `--verbose`, says where the code came from, and how long the run took.
fn describe_end(outcome: &Outcome) {
    let has_started = !matches!(
        outcome.status,
        Status::Denied(_) | Status::Invalid { .. } | Status::Failed { .. }
    );
    if has_started && !compilation::happened() {
        output::info(|| "compiled code: from the cache".into());
    }
    output::info(|| format!("the run took {:.1} ms", outcome.usage.wall_ms));
}

/// Raises the soft limit on open files, usually 1,024. Guests may have more files open, and each
/// costs the host a descriptor, within its own limit `handles`.
pub(crate) fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "cannot raise the limit on open files");
    }
}

fn io(plan: &Plan, stdin: Option<Stdin>, interrupt: Interrupt) -> Result<Io, CliError> {
    let stdin = match stdin {
        Some(stdin) => stdin,
        None => Stdin::Descriptor(owned(std::io::stdin().as_fd())?),
    };
    let (stdout, stderr) = if plan.json || plan.is_buffered() {
        (Sink::Capture, Sink::Capture)
    } else {
        (
            Sink::Descriptor(owned(std::io::stdout().as_fd())?),
            Sink::Descriptor(owned(std::io::stderr().as_fd())?),
        )
    };
    Ok(Io { stdin, stdout, stderr, interrupt: Some(interrupt), uses: plan.learn.is_some() })
}

fn owned(stream: BorrowedFd<'_>) -> Result<OwnedFd, CliError> {
    stream
        .try_clone_to_owned()
        .map_err(|error| CliError::io("use the standard streams; one is closed", error))
}

/// Output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    outcome: &'a Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// Requests that the recording has no response for.
    #[serde(skip_serializing_if = "Option::is_none")]
    unrecorded: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    learned: Option<&'a Proposal>,
}

/// Prints the results of a run, writes its receipt and applies its changes.
fn finish(
    plan: &Plan,
    loaded: &LoadedSkill,
    invoked: Invocation,
    learned: Option<&Proposal>,
    after: Option<&After>,
) -> Result<Exit, CliError> {
    let outcome = &invoked.finished.outcome;
    let exit = Exit::of(&outcome.status);
    let overlays = &invoked.finished.overlays;
    describe_end(outcome);
    output::withheld_grant(&invoked.skill);
    if plan.json {
        output::json(&Report {
            outcome,
            diff: plan.diff.then(|| overlays.diff()),
            unrecorded: after.map(After::unrecorded),
            learned,
        })?;
    } else {
        if plan.is_buffered() {
            output::captured(outcome)?;
        } else {
            output::reset();
        }
        if let Some(result) = &outcome.result {
            output::json(result)?;
        }
        output::ending(outcome, Some((&invoked.skill, &plan.context.policy)));
        suggest_workspace(plan, &invoked);
        if plan.diff {
            output::diff(&overlays.diff())?;
        } else if plan.apply {
            // Applied below.
        } else if plan.stages_writes && exit == Exit::Ok && !outcome.changes.is_empty() {
            approval::before_apply(plan, loaded, &invoked)?;
        } else if !output::is_quiet() {
            output::changes(&outcome.changes);
            if !outcome.changes.is_empty() {
                output::note(
                    "these changes were discarded: `--diff` shows them, `--apply` keeps them",
                );
            }
        }
        if let Some(learned) = learned {
            learn::print(learned)?;
        }
    }
    if let Some(file) = &plan.receipt {
        receipt::write(invoked.receipt.as_ref(), file, &plan.context.places)?;
    }
    if let Some(OutputError { stream, error }) = &invoked.finished.output_error {
        return Err(CliError::io(format_args!("write to {stream}"), error));
    }
    if plan.apply {
        if exit != Exit::Ok {
            let message = "nothing was applied, because the run did not exit with 0";
            return Err(CliError::new(exit, message));
        }
        overlays.apply().map_err(|error| CliError::apply(&error))?;
    }
    Ok(exit)
}

/// Suggests `--workspace .` if a run without a workspace failed, and a file that it did not find, or
/// that an argument names, is in the current folder.
///
/// The guest chose the path. It learns nothing from the check, which follows the run and whose
/// answer only this message has.
fn suggest_workspace(plan: &Plan, invoked: &Invocation) {
    let Invocation { finished, grant, .. } = invoked;
    let has_workspace = grant.capabilities.mounts.iter().any(|mount| mount.guest == WORKSPACE);
    let has_failed = matches!(finished.outcome.status, Status::Exited { code } if code != 0);
    if has_workspace || !has_failed {
        return;
    }
    let is_here = |name: &&str| {
        let path = Path::new(name);
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
            && path.is_file()
    };
    let args = plan.args.iter().map(String::as_str);
    if let Some(missing) = finished.missing.as_deref().into_iter().chain(args).find(is_here) {
        let missing = quoted(missing);
        let message = format!("{missing} is in the current folder, which the run does not see");
        output::warning(&message, Some("mount the folder: --workspace ."));
    }
}

impl Plan {
    fn failed(&self, error: RunError) -> CliError {
        match error {
            RunError::Target(ref choice) => {
                let fix = self.choices(choice);
                CliError { fix, ..CliError::from(error) }
            }
            error => error.into(),
        }
    }

    /// What there is to choose from, as command lines.
    fn choices(&self, choice: &UnresolvedTarget) -> Option<String> {
        let skill = quoted(&self.skill_argument);
        let line = |script: &SkillScript| match &script.run {
            Ok(_) => format!("skillhost run {skill} {}", quoted(&script.path)),
            Err(language) => format!("{}: {language}, which is not supported", script.path),
        };
        let list = choice.scripts.iter().map(line).collect::<Vec<_>>().join("\n");
        match &choice.suggestion {
            Some(path) => Some(format!("did you mean `{path}`?\n{list}")),
            None => Some(list).filter(|list| !list.is_empty()),
        }
    }
}
