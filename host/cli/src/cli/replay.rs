//! `skillhost replay`: a recorded run again, with nothing but its recording.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use skillhost::invoke::{ReplayRequest, Runner, mask_receipt, recorded_capabilities};
use skillhost_ledger::receipt::compare::{Difference, DifferenceKind, differences};
use skillhost_ledger::receipt::{HOST, canonical};
use skillhost_policy::Policy;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_sandbox::recording::folder::Kept;
use skillhost_sandbox::recording::scene::Scene;
use skillhost_sandbox::recording::tape::{Miss, Tape};
use skillhost_sandbox::recording::{Recording, Runtime};
use skillhost_sandbox::{ENGINE, Io, Mode, Outside, Stdin, fingerprint};

use super::exit::Exit;
use super::permissions::{Permissions, parse_limit};
use super::places::{HostArgs, Places};
use super::record::{exchanges, failure, missed};
use super::run::{interrupt, invalid_skill};
use super::verify::{TOLD, told};
use super::{Failure, secrets, show};

/// Runs a recorded run again, with nothing but its recording
///
/// The skill, the files, stdin, the variables and the answers of the network are the recording's;
/// nothing of this machine is within the guest's reach, and no request leaves it. What the run
/// prints is printed, and then whether it came to the same result. Secrets are not in the
/// recording: they are asked for on the terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost run SKILL --record recording -- ARGS
  skillhost replay recording
  TOKEN=x skillhost replay recording --secret-env TOKEN
  skillhost replay recording --fuel 1000000
  skillhost replay recording --json | jq .differences

Exit codes beside those of all verbs; with --fuel, those of `run`:
    0  the same result
   81  the skill is another
   82  the result is another
   83  the run cannot be repeated here: another version or other programs, a limit that is higher than here, a wrong secret")]
pub(crate) struct Args {
    /// The recording's folder
    recording: PathBuf,
    /// Stop after that many units of fuel, and tell how far the run got
    #[arg(long, value_name = "UNITS", value_parser = parse_limit(Limit::Fuel))]
    fuel: Option<u64>,
    /// Take a secret from the variable of its name, rather than ask for it (repeatable)
    #[arg(long, value_name = "NAME")]
    secret_env: Vec<String>,
    /// The policy file, whose limits no replay may exceed [default: $SKILLHOST_POLICY, else
    /// policy.yaml in the configuration folder]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Let a replay take that long
    #[arg(long, value_name = "TIME", value_parser = parse_limit(Limit::Timeout))]
    timeout: Option<u64>,
    /// Let a replay have that much memory
    #[arg(long, value_name = "SIZE", value_parser = parse_limit(Limit::Memory))]
    memory: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: HostArgs,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Verdict {
    verdict: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    differences: Vec<Difference>,
    /// Requests that the recording has no answer to.
    unrecorded: Vec<Miss>,
    /// How far the run got.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
    /// What it came to; `None` where it did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
    #[serde(skip)]
    exit: Exit,
}

/// Pairs of what was done and what the recorded run did.
#[derive(Serialize)]
struct Progress {
    fuel: (u64, Option<u64>),
    requests: (usize, usize),
    processes: (u64, Option<u64>),
    stdout_bytes: (u64, Option<u64>),
}

pub(crate) fn main(args: Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    let (kept, seal) = secrets::open(
        Kept::read(&args.recording).map_err(failure)?,
        &args.secret_env,
        &places.kept(),
    )?;
    let host = Runner::new(places.host_options(&args.host)?);
    let policy =
        Permissions::bounds(args.policy.clone(), args.timeout, args.memory).policy(&places)?;
    if let Some(verdict) = elsewhere(&kept.recording, &host)? {
        return verdict.tell(args.json);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Exit::Io, format!("no event loop: {error}")))?;
    // What is made from here on is removed, whoever stops it.
    let inside = runtime.enter();
    let interrupt = interrupt()
        .map_err(|error| Failure::new(Exit::Io, format!("no signal handlers: {error}")))?;
    let (scene, contents) = Scene::make(&kept, &seal, &places.scratch).map_err(failure)?;
    if let Some(verdict) = refused(&kept.recording, &scene, &host, &policy)? {
        return verdict.tell(args.json);
    }
    let tape = Arc::new(Tape::replaying(
        exchanges(&kept, &seal).map_err(failure)?,
        &kept.recording.sealed,
    ));
    let stdin = Stdin::Bytes(
        kept.bytes(&kept.recording.stdin.digest, kept.recording.stdin.bytes, &seal)
            .map_err(failure)?,
    );
    let replay = ReplayRequest {
        kept: &kept,
        scene: &scene,
        outside: Outside { tape: Some(tape.clone()), contents: Some(Arc::new(contents)) },
        fuel: args.fuel,
        io: Io { stdin, interrupt: Some(interrupt), ..Io::default() },
    };
    let invoked = runtime
        .block_on(host.replay(replay))
        .map_err(|error| Failure::new(Exit::Invalid, error.to_string()))?;
    drop(inside);
    runtime.shutdown_background();
    host.settle();
    drop(scene);
    let here = invoked.receipt.as_ref().map(canonical::value);
    judged(&args, &kept.recording, here, invoked.finished.outcome, &tape).tell(args.json)
}

/// What the run came to, against what was recorded.
fn judged(
    args: &Args,
    recording: &Recording,
    here: Option<Value>,
    outcome: Outcome,
    tape: &Tape,
) -> Verdict {
    let then = recording.receipt.as_ref();
    let cost = |field: &str| then.and_then(|receipt| receipt["result"]["cost"][field].as_u64());
    let (recorded, made) = tape.progress();
    let usage = &outcome.usage;
    let progress = Progress {
        fuel: (usage.fuel.unwrap_or(0), cost("fuel")),
        requests: (made, recorded),
        processes: (usage.processes, cost("processes")),
        stdout_bytes: (
            usage.stdout_bytes,
            then.and_then(|receipt| receipt["result"]["stdout"]["bytes"].as_u64()),
        ),
    };
    let base = Verdict {
        unrecorded: tape.misses(),
        progress: Some(progress),
        ..Verdict::new(Exit::Ok, "the same result")
    };
    let ran = |verdict: Verdict| Verdict { outcome: Some(outcome.clone()), ..verdict };
    if args.fuel.is_some() {
        let exit = Exit::of(&outcome.status);
        let verdict =
            if outcome.status == (Status::Exited { code: 0 }) { "ended" } else { "stopped" };
        return ran(Verdict { verdict, message: how_far(&base), exit, ..base });
    }
    if outcome.status == Status::Interrupted {
        return ran(Verdict {
            exit: Exit::Interrupted,
            verdict: "interrupted",
            message: "interrupted".into(),
            ..base
        });
    }
    if !base.unrecorded.is_empty() {
        let message = "it asked the network for what the recorded run did not".into();
        return ran(Verdict { exit: Exit::OtherResult, verdict: "other-result", message, ..base });
    }
    let Some(then) = then else {
        let message = "the recorded run came to no result, so there is nothing to compare".into();
        return ran(Verdict {
            exit: Exit::of(&outcome.status),
            verdict: "no-result",
            message,
            ..base
        });
    };
    let Some(mut here) = here else {
        let message = "it came to no result here".into();
        return ran(Verdict {
            exit: Exit::NotRepeatable,
            verdict: "not-repeatable",
            message,
            ..base
        });
    };
    mask_receipt(&mut here, &recording.sealed.secrets.keys().cloned().collect());
    let differences = differences(then, &here);
    let Some(first) = differences.first() else { return ran(base) };
    let (exit, message) = match first.kind() {
        DifferenceKind::Skill => (Exit::OtherSkill, "what ran is not what was recorded"),
        DifferenceKind::Conditions => {
            (Exit::NotRepeatable, "the inputs recorded are not available here")
        }
        DifferenceKind::Result => (Exit::OtherResult, "it came to another result here"),
    };
    ran(Verdict {
        differences,
        unrecorded: base.unrecorded,
        progress: base.progress,
        ..Verdict::new(exit, message)
    })
}

/// How far a run got, as a sentence.
fn how_far(verdict: &Verdict) -> String {
    let Some(progress) = &verdict.progress else { return String::new() };
    let of = |done: u64, all: Option<u64>| {
        all.map_or(done.to_string(), |all| format!("{done} of {all}"))
    };
    format!(
        "{} units of fuel, {} requests, {} programs started, {} bytes of stdout",
        of(progress.fuel.0, progress.fuel.1),
        of(progress.requests.0 as u64, Some(progress.requests.1 as u64)),
        of(progress.processes.0, progress.processes.1),
        of(progress.stdout_bytes.0, progress.stdout_bytes.1),
    )
}

/// Whether the recorded run stood on something else than what is here.
fn elsewhere(recording: &Recording, host: &Runner) -> Result<Option<Verdict>, Failure> {
    let programs =
        host.built_ins().list().map_err(|error| Failure::new(Exit::Invalid, error.message))?;
    let programs = programs.into_iter().map(|one| (one.description.name, one.description.digest));
    // More of them than the run could start make no difference.
    let programs =
        programs.filter(|(name, _)| recording.runtime.programs.contains_key(name)).collect();
    let fingerprint = fingerprint(Mode::Deterministic);
    let here = Runtime { host: HOST.into(), engine: ENGINE.into(), fingerprint, programs };
    let differences =
        differences(&json!({ "runtime": recording.runtime }), &json!({ "runtime": here }));
    let fix = "use the version of skillhost, and the programs, that it was recorded with: `--programs DIR`";
    let verdict =
        Verdict::new(Exit::NotRepeatable, "the recorded run stood on what is not here").fix(fix);
    Ok(Some(Verdict { differences, ..verdict }).filter(|verdict| !verdict.differences.is_empty()))
}

/// How many times the default a limit may be where nobody has set it here: enough for what people
/// set, and no bomb.
const GENEROUS: u64 = 8;

/// Nothing runs that is not the skill that was recorded, nor above the limits of this host.
fn refused(
    recording: &Recording,
    scene: &Scene,
    host: &Runner,
    policy: &Policy,
) -> Result<Option<Verdict>, Failure> {
    let loaded = host.load(&scene.skill, policy).map_err(invalid_skill)?;
    if let Some(receipt) = &recording.receipt {
        let here = json!({ "skill": canonical::value(loaded.id()) });
        let differences = differences(&json!({ "skill": receipt["skill"] }), &here);
        if !differences.is_empty() {
            return Ok(Some(Verdict {
                differences,
                ..Verdict::new(Exit::OtherSkill, "the skill is not the one that was recorded")
            }));
        }
    }
    let invalid = |why: String| Failure::new(Exit::Invalid, why);
    let wanted = recorded_capabilities(recording, scene).map_err(invalid)?.limits;
    let here = &loaded.grant.capabilities.limits;
    let is_set = |limit| {
        policy.layers.iter().flat_map(|layer| &layer.limits).any(|rule| rule.limit == limit)
    };
    let bound = |limit| {
        // What a replay keeps is gone with it, as all that it writes.
        let limit = if limit == Limit::State { Limit::Disk } else { limit };
        let value = here.get(limit)?;
        Some(if is_set(limit) { value } else { value.saturating_mul(GENEROUS) })
    };
    // Time bounds fuel too.
    let over = Limit::ALL
        .into_iter()
        .filter(|limit| *limit != Limit::Fuel)
        .find(|limit| wanted.get(*limit) > bound(*limit));
    Ok(over.map(|limit| {
        let (value, bound) = (wanted.get(limit).unwrap_or(0), bound(limit).unwrap_or(0));
        let message = format!(
            "the recorded run had a limit `{limit}` of {}, and here a replay has at most {}",
            limit.show(value),
            limit.show(bound)
        );
        let shown = limit.show(value).replace(' ', "");
        let flag = limit.flag().map(|flag| format!("{flag} {shown}, or ")).unwrap_or_default();
        Verdict::new(Exit::NotRepeatable, &message)
            .fix(&format!("{flag}`limits: {{ {limit}: {shown} }}` in the policy"))
    }))
}

impl Verdict {
    fn new(exit: Exit, message: &str) -> Verdict {
        let verdict = match exit {
            Exit::Ok => "same",
            Exit::OtherSkill => "other-skill",
            Exit::OtherResult => "other-result",
            _ => "not-repeatable",
        };
        let message = message.to_owned();
        Verdict {
            verdict,
            message,
            fix: None,
            differences: Vec::new(),
            unrecorded: Vec::new(),
            progress: None,
            outcome: None,
            exit,
        }
    }

    fn fix(self, fix: &str) -> Verdict {
        Verdict { fix: Some(fix.to_owned()), ..self }
    }

    fn tell(self, as_json: bool) -> Result<Exit, Failure> {
        if as_json {
            show::json(&self)?;
            return Ok(self.exit);
        }
        if let Some(outcome) = &self.outcome {
            show::captured(outcome)?;
            if let Some(result) = &outcome.result {
                show::json(result)?;
            }
            show::ending(outcome);
            show::changes(&outcome.changes);
        }
        match self.verdict {
            "same" | "ended" | "stopped" | "no-result" => {
                show::note(&format!("{}: {}", self.verdict, self.message))
            }
            _ => show::error(&self.message, self.fix.as_deref()),
        }
        self.unrecorded.iter().for_each(missed);
        self.differences.iter().take(TOLD).for_each(|difference| show::note(&told(difference)));
        if self.differences.len() > TOLD {
            show::note(&format!("and {} more", self.differences.len() - TOLD));
        }
        Ok(self.exit)
    }
}
