//! `skillhost replay`: repeat a recorded run, using only its recording.

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
use skillhost_sandbox::recording::folder::StoredRecording;
use skillhost_sandbox::recording::network::{Miss, RecordedNetwork};
use skillhost_sandbox::recording::scene::Scene;
use skillhost_sandbox::recording::{RecordedRuntime, Recording};
use skillhost_sandbox::{ENGINE, Io, Mode, RecordingIo, Stdin, fingerprint};

use crate::args::HostArgs;
use crate::args::permissions::{Permissions, parse_limit};
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output::differences::Sides;
use crate::recording::{exchanges, report_miss, secrets};
use crate::{compilation, event_loop, output};

/// Replay a recorded run, using only its recording
///
/// The skill, the files, stdin, the variables and the network responses come from the recording.
/// The guest can reach nothing of this machine, and no request leaves it. Prints what the run
/// prints, then whether the result is identical. Recordings do not contain secrets; you are asked
/// for them on the terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost run SKILL --record recording -- ARGS
  skillhost replay recording
  TOKEN=x skillhost replay recording --secret-env TOKEN
  skillhost replay recording --fuel 1000000
  skillhost replay recording --json | jq .differences

Exit codes (with --fuel: those of `run`):
    0  the result is identical
   81  the skill differs
   82  the result differs
   83  the run cannot be repeated here: the host or a runtime differs, a limit is lower here than
       it was, or a secret is wrong")]
pub(crate) struct Args {
    /// The folder of the recording
    recording: PathBuf,
    /// Stop after this many units of fuel, and report how far the run got
    #[arg(long, value_name = "UNITS", value_parser = parse_limit(Limit::Fuel))]
    fuel: Option<u64>,
    /// Take a secret from the environment variable of that name instead of asking for it
    /// (repeatable)
    #[arg(long, value_name = "NAME")]
    secret_env: Vec<String>,
    /// The policy file, whose limits bound the replay [default: $SKILLHOST_POLICY, else policy.yaml
    /// in the configuration folder]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Allow the replay this much wall time
    #[arg(long, value_name = "TIME", value_parser = parse_limit(Limit::Timeout))]
    timeout: Option<u64>,
    /// Allow the replay this much memory
    #[arg(long, value_name = "SIZE", value_parser = parse_limit(Limit::Memory))]
    memory: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: HostArgs,
}

/// What a replay shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    /// The result is identical.
    Same,
    OtherSkill,
    OtherResult,
    NotRepeatable,
    /// The recorded run had no result.
    NoResult,
    /// With --fuel: the run exited with 0.
    Ended,
    /// With --fuel: the run ended in another way.
    Stopped,
    Interrupted,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Report {
    verdict: Verdict,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    differences: Vec<Difference>,
    /// Requests that the recording has no response for.
    unrecorded: Vec<Miss>,
    /// How far the run got.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
    /// How the run ended; `None` if nothing ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
    #[serde(skip)]
    exit: Exit,
}

/// Pairs: how much was done, and how much the recorded run did.
#[derive(Serialize)]
struct Progress {
    fuel: (u64, Option<u64>),
    requests: (usize, usize),
    processes: (u64, Option<u64>),
    stdout_bytes: (u64, Option<u64>),
}

const SIDES: Sides = Sides("recorded", "here");

pub(crate) fn main(args: Args) -> Result<Exit, CliError> {
    let context = Context::with_permissions(&Permissions::limits(
        args.policy.clone(),
        args.timeout,
        args.memory,
    ))?;
    let keys = context.places.skill_state();
    let (kept, seal) =
        secrets::open(StoredRecording::read(&args.recording)?, &args.secret_env, &keys)?;
    let host = compilation::announced(context.places.host_options(&args.host)?, args.json);
    if let Some(report) = compare_runtime(&kept.recording, &host)? {
        return report.print(args.json);
    }
    let report = event_loop::with(|event_loop, interrupt| {
        let (scene, contents) = Scene::create(&kept, &seal, &context.places.scratch)?;
        if let Some(report) = refuse(&kept.recording, &scene, &host, &context.policy)? {
            return Ok(report);
        }
        let sealed = &kept.recording.sealed;
        let network = Arc::new(RecordedNetwork::new_replay(exchanges(&kept, &seal)?, sealed));
        let stdin = &kept.recording.stdin;
        let stdin = Stdin::Bytes(kept.bytes(&stdin.digest, stdin.bytes, &seal)?);
        let replay = ReplayRequest {
            kept: &kept,
            scene: &scene,
            outside: RecordingIo {
                network: Some(network.clone()),
                contents: Some(Arc::new(contents)),
            },
            fuel: args.fuel,
            io: Io { stdin, interrupt: Some(interrupt), ..Io::default() },
        };
        let invoked = event_loop
            .block_on(host.replay(replay))
            .map_err(|error| CliError::invalid(error.to_string()))?;
        host.settle();
        let here = invoked.receipt.as_ref().map(canonical::value);
        Ok(judge(&args, &kept.recording, here, invoked.finished.outcome, &network))
    })?;
    report.print(args.json)
}

/// Compares what a run did with what was recorded.
fn judge(
    args: &Args,
    recording: &Recording,
    here: Option<Value>,
    outcome: Outcome,
    network: &RecordedNetwork,
) -> Report {
    let then = recording.receipt.as_ref();
    let progress = Progress::of(&outcome, then, network);
    let status = outcome.status.clone();
    let base = Report {
        unrecorded: network.misses(),
        outcome: Some(outcome),
        ..Report::new(Verdict::Same, "the replay produced the same result")
    };
    if args.fuel.is_some() {
        let is_success = status == (Status::Exited { code: 0 });
        let verdict = if is_success { Verdict::Ended } else { Verdict::Stopped };
        let report = Report::new(verdict, progress.describe());
        return Report {
            exit: Exit::of(&status),
            progress: Some(progress),
            unrecorded: base.unrecorded,
            outcome: base.outcome,
            ..report
        };
    }
    let (verdict, message, differences) = if status == Status::Interrupted {
        (Verdict::Interrupted, "interrupted", Vec::new())
    } else if !base.unrecorded.is_empty() {
        (Verdict::OtherResult, "it sent requests that the recorded run did not send", Vec::new())
    } else if let Some(then) = then {
        compare(recording, then, here)
    } else {
        (Verdict::NoResult, "the recorded run has no result to compare with", Vec::new())
    };
    let exit = if verdict == Verdict::NoResult { Exit::of(&status) } else { verdict.exit() };
    Report { verdict, message: message.into(), differences, progress: Some(progress), exit, ..base }
}

fn compare(
    recording: &Recording,
    then: &Value,
    here: Option<Value>,
) -> (Verdict, &'static str, Vec<Difference>) {
    let Some(mut here) = here else {
        return (Verdict::NotRepeatable, "the replay has no result", Vec::new());
    };
    mask_receipt(&mut here, &recording.sealed.secrets.keys().cloned().collect());
    let differences = differences(then, &here);
    let (verdict, message) = match differences.first().map(Difference::kind) {
        None => (Verdict::Same, "the replay produced the same result"),
        Some(DifferenceKind::Skill) => {
            (Verdict::OtherSkill, "the skill differs from the recorded one")
        }
        Some(DifferenceKind::Conditions) => {
            (Verdict::NotRepeatable, "the inputs differ from the recorded ones")
        }
        Some(DifferenceKind::Result) => {
            (Verdict::OtherResult, "the result differs from the recorded one")
        }
    };
    (verdict, message, differences)
}

impl Progress {
    fn of(outcome: &Outcome, receipt: Option<&Value>, network: &RecordedNetwork) -> Progress {
        let cost = |field: &str| receipt.and_then(|r| r["result"]["cost"][field].as_u64());
        let stdout = receipt.and_then(|r| r["result"]["stdout"]["bytes"].as_u64());
        let (recorded, sent) = network.progress();
        let usage = &outcome.usage;
        Progress {
            fuel: (usage.fuel.unwrap_or(0), cost("fuel")),
            requests: (sent, recorded),
            processes: (usage.processes, cost("processes")),
            stdout_bytes: (usage.stdout_bytes, stdout),
        }
    }

    fn describe(&self) -> String {
        let of = |(done, all): (u64, Option<u64>)| {
            all.map_or(done.to_string(), |all| format!("{done} of {all}"))
        };
        let (sent, recorded) = self.requests;
        format!(
            "{} units of fuel, {} requests, {} programs started, {} bytes of stdout",
            of(self.fuel),
            of((sent as u64, Some(recorded as u64))),
            of(self.processes),
            of(self.stdout_bytes),
        )
    }
}

/// Refuses a recording that was made with another host, engine or runtime.
fn compare_runtime(recording: &Recording, host: &Runner) -> Result<Option<Report>, CliError> {
    let programs = host.built_ins().list()?.into_iter();
    // Runtimes that the run could not start make no difference.
    let programs = programs
        .map(|one| (one.description.name, one.description.digest))
        .filter(|(name, _)| recording.runtime.programs.contains_key(name))
        .collect();
    let fingerprint = fingerprint(Mode::Deterministic);
    let here = RecordedRuntime { host: HOST.into(), engine: ENGINE.into(), fingerprint, programs };
    let differences =
        differences(&json!({ "runtime": recording.runtime }), &json!({ "runtime": here }));
    let fix = "use the version of skillhost and the runtimes of the recording: `--programs DIR`";
    let message = "the host or a runtime differs from the recorded one";
    let report = Report {
        differences,
        fix: Some(fix.into()),
        ..Report::new(Verdict::NotRepeatable, message)
    };
    Ok(Some(report).filter(|report| !report.differences.is_empty()))
}

/// How many times the default a recorded limit may be if the operator has not set it here: enough
/// for what people set, and too little to harm the machine.
const GENEROUS: u64 = 8;

/// Refuses to run a skill that differs from the recorded one, and limits above those of this host.
fn refuse(
    recording: &Recording,
    scene: &Scene,
    host: &Runner,
    policy: &Policy,
) -> Result<Option<Report>, CliError> {
    let loaded = host.load(&scene.skill, policy)?;
    if let Some(receipt) = &recording.receipt {
        let here = json!({ "skill": canonical::value(loaded.id()) });
        let differences = differences(&json!({ "skill": receipt["skill"] }), &here);
        if !differences.is_empty() {
            let report =
                Report::new(Verdict::OtherSkill, "the skill differs from the recorded one");
            return Ok(Some(Report { differences, ..report }));
        }
    }
    let wanted = recorded_capabilities(recording, scene).map_err(CliError::invalid)?.limits;
    let here = &loaded.grant.capabilities.limits;
    let is_set = |limit| {
        policy.layers.iter().flat_map(|layer| &layer.limits).any(|rule| rule.limit == limit)
    };
    let bound = |limit| {
        // The state of a replay is removed after it, so it counts as disk space.
        let limit = if limit == Limit::State { Limit::Disk } else { limit };
        let value = here.get(limit)?;
        Some(if is_set(limit) { value } else { value.saturating_mul(GENEROUS) })
    };
    // Time bounds what is off here, and a recorded run has no HTTP cache.
    let skipped = |limit: &Limit| {
        limit.is_unbounded_when_off() && (*limit == Limit::Fuel || here.get(*limit).is_none())
            || matches!(limit, Limit::HttpCache | Limit::HttpCacheKeep)
    };
    let over = Limit::ALL
        .into_iter()
        .filter(|limit| !skipped(limit))
        .find(|limit| wanted.get(*limit) > bound(*limit));
    Ok(over.map(|limit| {
        let (value, bound) = (wanted.get(limit).unwrap_or(0), bound(limit).unwrap_or(0));
        let message = format!(
            "the limit `{limit}` of the recorded run is {}, and a replay here may have at most {}",
            limit.show(value),
            limit.show(bound)
        );
        let shown = limit.show(value).replace(' ', "");
        let flag = limit.flag().map(|flag| format!("{flag} {shown}, or ")).unwrap_or_default();
        let fix = format!("{flag}`limits: {{ {limit}: {shown} }}` in the policy");
        Report { fix: Some(fix), ..Report::new(Verdict::NotRepeatable, message) }
    }))
}

impl Verdict {
    fn exit(self) -> Exit {
        match self {
            Verdict::Same | Verdict::NoResult | Verdict::Ended | Verdict::Stopped => Exit::Ok,
            Verdict::OtherSkill => Exit::OtherSkill,
            Verdict::OtherResult => Exit::OtherResult,
            Verdict::NotRepeatable => Exit::NotRepeatable,
            Verdict::Interrupted => Exit::Interrupted,
        }
    }
}

impl Report {
    fn new(verdict: Verdict, message: impl Into<String>) -> Report {
        Report {
            verdict,
            message: message.into(),
            fix: None,
            differences: Vec::new(),
            unrecorded: Vec::new(),
            progress: None,
            outcome: None,
            exit: verdict.exit(),
        }
    }

    fn print(self, as_json: bool) -> Result<Exit, CliError> {
        if as_json {
            output::json(&self)?;
            return Ok(self.exit);
        }
        if let Some(outcome) = &self.outcome {
            output::captured(outcome)?;
            if let Some(result) = &outcome.result {
                output::json(result)?;
            }
            output::ending(outcome, None);
            if !output::is_quiet() {
                output::changes(&outcome.changes);
            }
        }
        let label = match self.verdict {
            Verdict::Same => Some("identical"),
            Verdict::NoResult => Some("no result"),
            Verdict::Ended => Some("ended"),
            Verdict::Stopped => Some("stopped"),
            _ => None,
        };
        match label {
            Some(label) => output::explanation(&format!("{label}: {}", self.message)),
            None => output::error(&self.message, self.fix.as_deref()),
        }
        self.unrecorded.iter().for_each(report_miss);
        if !self.differences.is_empty() {
            output::explanation(&SIDES.list(self.differences.iter()));
        }
        Ok(self.exit)
    }
}
