//! `skillhost run`: a skill's command or one of its typed tools, under a policy.

use std::io::Read as _;
use std::os::fd::AsFd;
use std::path::PathBuf;

use futures::future::BoxFuture;
use skillhost::invoke::{
    Invocation, LoadedRequest, LoadedSkill, RunError, Runner, Target, UnresolvedTarget,
};
use skillhost_compat::learn::Proposal;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::diagnostic::{Diagnostic, Severity, Span};
use skillhost_policy::limits::show_size;
use skillhost_policy::outcome::Outcome;
use skillhost_policy::{self as policy, Grant};
use skillhost_sandbox::{Io, Sink, Stdin};
use skillhost_skill::runtime::scripts::SkillScript;
use skillhost_skill::{SkillError, SkillFolder};

use super::exit::Exit;
use super::permissions::Permissions;
use super::places::{HostArgs, Places};
use super::plan::Plan;
use super::record::{After, Outside};
use super::skills::Skills;
use super::{Failure, ask, key, learn, receipt, show};

/// Runs a skill in the sandbox
///
/// What runs is the skill's component, one of its typed tools, or one of its Python or shell
/// scripts. The guest sees /skill (read-only), /workspace (the folder named by --workspace) and
/// /tmp (scratch, gone afterwards). It is given what the skill's allowed-tools asks for and the
/// policy grants, and no more; `--explain` shows that without running anything.
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
  skillhost run SKILL --workspace . --learn scripts/report.py
  skillhost run SKILL --deterministic --receipt receipt.json --sign -- ARGS
  skillhost run SKILL --record recording --allow 'WebFetch(domain:api.example.com)' -- ARGS
  skillhost run SKILL --allow 'WebFetch(domain:api.example.com)' --timeout 10s -- ARGS")]
pub(crate) struct Args {
    /// The skill's folder, as a path with a `/` (`./NAME`), or the name of a skill that
    /// `skillhost list` shows
    skill: PathBuf,
    /// One of the skill's scripts, by its path or name, or one of its typed tools; without it the
    /// skill's component or only script runs
    #[arg(value_name = "SCRIPT|TOOL")]
    name: Option<String>,
    /// Run a shell command as an agent would: `python3 scripts/a.py | head -3`
    #[arg(long, value_name = "TEXT", conflicts_with = "name")]
    command: Option<String>,
    /// The tool's input, as JSON; `-` reads it from stdin
    #[arg(long, value_name = "JSON", requires = "name", conflicts_with = "args")]
    input: Option<String>,
    /// The arguments of the script or command
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,

    /// Show what was asked, granted and refused, and run nothing
    #[arg(long)]
    explain: bool,
    /// Print the outcome as one JSON object, output included (`skillhost schema outcome`)
    #[arg(long)]
    json: bool,
    /// With an overlay: show what the run would change
    #[arg(long)]
    diff: bool,
    /// With an overlay: apply what the run changed, if it ended with 0
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    host: HostArgs,
    /// Put a receipt there: what ran, with what, and what it came to, by digest
    /// (`skillhost schema receipt`). Output comes at the end
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// Sign the receipt (`skillhost key new`)
    #[arg(long, requires = "receipt")]
    sign: bool,
    /// Run deterministically, and put all that comes from outside into this new folder, answers of
    /// the network included (`skillhost replay`)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["recorded", "explain"])]
    record: Option<PathBuf>,
    /// Run deterministically, with the answers of a recording for a network
    #[arg(long, value_name = "DIR", conflicts_with = "explain")]
    recorded: Option<PathBuf>,
    /// Take a secret of that recording from the variable of its name (repeatable)
    #[arg(long, value_name = "NAME", requires = "recorded")]
    secret_env: Vec<String>,
    /// Propose the smallest allowed-tools and policy that the run needed, as a diff; nothing is
    /// changed
    #[arg(long, conflicts_with_all = ["diff", "apply", "receipt", "explain"])]
    learn: bool,
    #[command(flatten)]
    permissions: Permissions,
    #[command(flatten)]
    skills: Skills,
}

pub(crate) fn main(mut args: Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    let policy = args.policy(&places)?;
    let named = args.skills.folder(&args.skill, &places, &policy)?;
    named.tell_of_sections(&policy);
    args.skill = named.folder().to_owned();
    let mut options = places.host_options(&args.host)?;
    // They are kept from writes in the folders that are granted: where none can be, nobody has to
    // look for them.
    if policy.may_grant_folders() {
        options.guarded.read_only = args.skills.folders(&places, &policy);
    }
    let host = Runner::new(options);
    if args.explain {
        return explain(&args, named.skill_folder(), &host, &policy);
    }
    let staged =
        args.skill.file_name().is_some_and(|name| policy.stages_writes(&name.to_string_lossy()));
    let overlay = staged
        || policy
            .layers
            .iter()
            .flat_map(|layer| &layer.mounts)
            .any(|rule| rule.mount.mode == MountMode::Overlay);
    if (args.diff || args.apply) && !overlay {
        let flag = if args.diff { "--diff" } else { "--apply" };
        return Err(Failure::new(
            Exit::Usage,
            format!("{flag} needs a workspace whose writes are kept aside"),
        )
        .fix("--workspace DIR:overlay"));
    }
    let target = target(&args)?;
    // Loaded once: what is asked about is what runs, whatever becomes of the folder meanwhile.
    let loaded =
        host.load_for_run(named.skill_folder(), &policy).map_err(|error| failure(&args, error))?;
    let denied = ask::before(&host, &named, &loaded, &target, &args.args, &policy, &places)?;
    let loaded = loaded.without_files(denied);
    if args.sign {
        // What cannot be signed does not run.
        key::signing(&places)?;
    }
    let outside =
        Outside::of(args.record.as_deref(), args.recorded.as_deref(), &args.secret_env, &places)?;
    let stdin = args.is_whole().then(receipt::stdin).transpose()?;
    raise_descriptor_limit();
    // One guest, one thread: a second would only cost its start.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Exit::Io, format!("no event loop: {error}")))?;
    // The handlers are there before anything is: what is made from here on is cleaned up.
    let inside = runtime.enter();
    let interrupt = interrupt()
        .map_err(|error| Failure::new(Exit::Io, format!("no signal handlers: {error}")))?;
    let call = LoadedRequest {
        loaded: &loaded,
        policy: &policy,
        target: &target,
        args: args.args.clone(),
        io: io(&args, stdin, interrupt)?,
    };
    let invoked = runtime.block_on(async {
        match (outside, args.is_whole()) {
            (None, false) => {
                Ok((host.invoke_loaded(&loaded, &target, &call.args, call.io).await?, None))
            }
            (None, true) => Ok((host.invoke_with_receipt(call).await?, None)),
            (Some(outside), _) => {
                outside.invoke(&host, call).await.map(|(invoked, after)| (invoked, Some(after)))
            }
        }
    });
    let (invoked, after) = invoked.map_err(|error| failure(&args, error))?;
    drop(inside);
    // A thread that waits for the terminal would keep the runtime from ending.
    runtime.shutdown_background();
    host.settle();
    // The process is about to end, and takes the engine and all that was loaded with it in one go.
    std::mem::forget(host);
    let learned = if args.learn {
        Some(learn::learned(&args.permissions, &policy, &invoked, &places)?)
    } else {
        None
    };
    let exit = finish(
        &args,
        (&loaded, &target),
        invoked,
        learned.as_ref(),
        &places,
        after.as_ref(),
        staged,
    )?;
    after.map_or(Ok(exit), |after| after.tell(exit))
}

impl Args {
    fn policy(&self, places: &Places) -> Result<policy::Policy, Failure> {
        match (&self.record, &self.recorded) {
            (None, None) => self.permissions.policy(places),
            (None, Some(_)) => self.permissions.clone().recorded().policy(places),
            (Some(_), _) => {
                self.permissions.clone().recorded().policy(places).map(super::record::by_chance)
            }
        }
    }

    /// Whether stdin is read before the run and its output printed after it.
    fn is_whole(&self) -> bool {
        self.receipt.is_some() || self.record.is_some() || self.recorded.is_some()
    }
}

fn target(args: &Args) -> Result<Target, Failure> {
    Ok(match (&args.name, &args.command, &args.input) {
        (Some(name), _, None) => Target::Named(name.clone()),
        (Some(name), _, Some(given)) => Target::Tool { name: name.clone(), input: input(given)? },
        (None, Some(text), _) => Target::Shell(text.clone()),
        (None, None, _) => Target::Main,
    })
}

/// Guests may hold more files than the usual soft limit of 1,024: each costs the host a descriptor,
/// within its own limit `handles`.
pub(super) fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "the limit on open files stays as it is");
    }
}

/// What `--explain --json` prints.
#[derive(serde::Serialize)]
struct Explained {
    #[serde(flatten)]
    grant: Grant,
    program: Plan,
    /// What no recording holds, where the policy names something.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<policy::Secrets>,
}

fn explain(
    args: &Args,
    folder: SkillFolder<'_>,
    host: &Runner,
    policy: &policy::Policy,
) -> Result<Exit, Failure> {
    let loaded = host.load(folder, policy).map_err(invalid_skill)?;
    show::withheld_grant(&loaded.skill);
    let grant = Grant::clone(&loaded.grant);
    // What the tool would be given is not read, from stdin perhaps.
    let target = match (&args.name, &args.input) {
        (Some(name), Some(_)) => Target::Tool { name: name.clone(), input: "{}".into() },
        _ => target(args)?,
    };
    let plan = Plan::of(host.program(&loaded, &target, &args.args), &grant.capabilities.limits);
    let secrets =
        Some(policy.secrets.clone()).filter(|secrets| *secrets != policy::Secrets::default());
    if args.json {
        show::json(&Explained { grant, program: plan, secrets })?
    } else {
        let secrets = secrets
            .map(|secrets| [secrets.env, secrets.headers].concat().join(", "))
            .filter(|names| !names.is_empty());
        let secrets = secrets
            .map(|names| format!("\nno recording holds the values of: {}", show::lines(&names, 0)))
            .unwrap_or_default();
        show::text(&format!(
            "{}\n{}{secrets}",
            policy::explain(&grant, show::width()),
            plan.text(show::width())
        ))?
    }
    Ok(Exit::Ok)
}

/// The most that is read of a tool's input on stdin, in bytes.
const INPUT_MAX: u64 = 64 << 20;

/// A tool's input, which is at least JSON. What its schema says of it, the sandbox checks.
fn input(given: &str) -> Result<String, Failure> {
    let text = match given {
        "-" => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().take(INPUT_MAX + 1).read_to_end(&mut bytes);
            read.map_err(|error| {
                Failure::new(
                    Exit::Io,
                    format!("the tool's input cannot be read from stdin: {error}"),
                )
            })?;
            if bytes.len() as u64 > INPUT_MAX {
                return Err(Failure::new(
                    Exit::Usage,
                    format!("the tool's input on stdin is over {}", show_size(INPUT_MAX)),
                ));
            }
            String::from_utf8(bytes).map_err(|error| {
                Failure::new(Exit::Usage, format!("the tool's input on stdin is no text: {error}"))
            })?
        }
        text => text.to_owned(),
    };
    let parsed: Result<serde::de::IgnoredAny, _> = serde_json::from_str(&text);
    parsed.map_err(|error| {
        let place = if given == "-" { "<stdin>" } else { "--input" };
        let found = [Diagnostic {
            severity: Severity::Error,
            rule: "json",
            message: format!("the tool input is not valid JSON: {}", reason(&error)),
            file: place.into(),
            span: Some(span(&text, &error)),
            fix: None,
        }];
        show::findings(&found, &text);
        Failure::new(Exit::Usage, "the tool was not called")
            .fix("an input is one JSON object, such as --input '{\"name\": \"value\"}'")
    })?;
    Ok(text)
}

/// The parser's message without the place, which is shown otherwise.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}

/// The parser counts columns in bytes.
fn span(text: &str, error: &serde_json::Error) -> Span {
    let line: usize =
        text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    Span::at(text, line + error.column().saturating_sub(1), 1)
}

fn io(args: &Args, stdin: Option<Stdin>, interrupt: BoxFuture<'static, ()>) -> Result<Io, Failure> {
    let own = |fd: std::os::fd::BorrowedFd<'_>| {
        fd.try_clone_to_owned().map_err(|error| {
            Failure::new(Exit::Io, format!("a standard stream is closed: {error}"))
        })
    };
    let stdin = match stdin {
        Some(stdin) => stdin,
        None => Stdin::Descriptor(own(std::io::stdin().as_fd())?),
    };
    let (stdout, stderr) = match args.json || args.is_whole() {
        true => (Sink::Capture, Sink::Capture),
        false => (
            Sink::Descriptor(own(std::io::stdout().as_fd())?),
            Sink::Descriptor(own(std::io::stderr().as_fd())?),
        ),
    };
    Ok(Io { stdin, stdout, stderr, interrupt: Some(interrupt), uses: args.learn })
}

/// Resolves at Ctrl-C, or the polite kill of a supervisor.
pub(super) fn interrupt() -> std::io::Result<BoxFuture<'static, ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(Box::pin(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }))
}

fn finish(
    args: &Args,
    (loaded, target): (&LoadedSkill, &Target),
    invoked: Invocation,
    learned: Option<&Proposal>,
    places: &Places,
    after: Option<&After>,
    staged: bool,
) -> Result<Exit, Failure> {
    let Outcome { status, result, changes, .. } = &invoked.finished.outcome;
    let exit = Exit::of(status);
    let overlays = &invoked.finished.overlays;
    if invoked.skill.manifest.recovered && exit != Exit::Invalid {
        show::warning(
            &format!(
                "the frontmatter of {} is broken, so the skill was granted nothing",
                invoked.skill.skill_file
            ),
            Some(&format!("`skillhost check {}` shows what is wrong", args.skill.display())),
        );
    }
    show::withheld_grant(&invoked.skill);
    if args.json {
        let mut value = serde_json::to_value(&invoked.finished.outcome).map_err(|error| {
            Failure::new(Exit::Io, format!("the outcome is not valid JSON: {error}"))
        })?;
        if args.diff {
            value["diff"] = overlays.diff().into();
        }
        if let Some(after) = after {
            value["unrecorded"] = after.unrecorded();
        }
        if let Some(learned) = learned {
            value["learned"] = serde_json::to_value(learned).map_err(|error| {
                Failure::new(Exit::Io, format!("the proposal is not valid JSON: {error}"))
            })?;
        }
        show::json(&value)?;
    } else {
        if args.is_whole() {
            show::captured(&invoked.finished.outcome)?;
        } else {
            show::reset();
        }
        if let Some(result) = result {
            show::json(result)?;
        }
        show::ending(&invoked.finished.outcome);
        if args.diff {
            show::foreign(&overlays.diff())?;
        } else if staged && !args.apply && exit == Exit::Ok && !changes.is_empty() {
            ask::to_apply(loaded, &invoked, target, places)?;
        } else if !args.apply {
            show::changes(changes);
        }
        if let Some(learned) = learned {
            learn::show(learned)?;
        }
    }
    if let Some(file) = &args.receipt {
        receipt::keep(invoked.receipt.as_ref(), file, args.sign, places)?;
    }
    if args.apply {
        if exit != Exit::Ok {
            return Err(Failure::new(exit, "the run did not end with 0, so nothing was applied"));
        }
        overlays
            .apply()
            .map_err(|error| Failure::new(Exit::Io, error.to_string()).fix("run it again"))?;
    }
    Ok(exit)
}

/// A skill that does not load, as findings and a message.
pub(super) fn invalid_skill(error: SkillError) -> Failure {
    show::findings(&error.diagnostics, &error.text);
    Failure::new(Exit::Invalid, format!("the skill {} does not load", error.root.display()))
        .details(&error)
}

fn failure(args: &Args, error: RunError) -> Failure {
    let details = serde_json::to_value(&error).ok().map(Box::new);
    let failure = match error {
        RunError::Skill(error) => invalid_skill(*error),
        RunError::Target(choice) => unclear(args, &choice),
        RunError::Stdin | RunError::Recording(_) => Failure::new(Exit::Io, error.to_string()),
        RunError::Audit(error) => {
            Failure::new(Exit::Io, format!("{error}; a run that cannot be recorded fails"))
                .fix("name another file: `--audit FILE`")
        }
    };
    Failure { details, ..failure }
}

/// What there is to choose from, as command lines.
fn unclear(args: &Args, choice: &UnresolvedTarget) -> Failure {
    let skill = args.skill.display();
    let line = |script: &SkillScript| match &script.run {
        Ok(_) => format!("skillhost run {skill} {}", script.path),
        Err(language) => format!("{}: {language}, which does not run here", script.path),
    };
    let list = choice.scripts.iter().map(line).collect::<Vec<_>>().join("\n");
    let failure = Failure::new(Exit::Usage, choice.message.clone());
    match &choice.suggestion {
        Some(path) => failure.fix(format!("did you mean `{path}`?\n{list}")),
        None if list.is_empty() => failure,
        None => failure.fix(list),
    }
}
