//! `skillhost verify`: verify a receipt's signature, and that the run can be repeated with the same
//! result.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skillhost::invoke::{LoadedRequest, LoadedSkill, RunError, Target};
use skillhost_ledger::receipt::compare::{Difference, DifferenceKind, differences};
use skillhost_ledger::receipt::envelope::{Document, SignatureError};
use skillhost_ledger::receipt::{self, canonical};
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::determinism::parse_start_time;
use skillhost_policy::outcome::Status;
use skillhost_policy::{Policy, WORKSPACE};
use skillhost_sandbox::{Io, Stdin};
use skillhost_skill::private::{self, Purpose, TempFolder};

use crate::args::HostArgs;
use crate::args::permissions::Permissions;
use crate::args::skills::Skills;
use crate::commands::key;
use crate::commands::run::receipt::stdin;
use crate::context::{Context, Places};
use crate::error::{CliError, Exit};
use crate::output::differences::Sides;
use crate::{compilation, event_loop, output};

/// Verify a receipt: check its signature and digests, repeat the run and compare
///
/// Runs the skill in the sandbox, on a copy of the inputs, under your own policy. Pass the
/// permissions and limits of the run again; seed, start time and target come from the receipt.
/// Provide on stdin what the run read from it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost verify receipt.json --skill skills/calculator
  skillhost verify receipt.json --skill SKILL --inputs ./before --key their-key.pem < in.txt
  skillhost verify receipt.json --skill SKILL --env TOKEN=x --fuel 1000000 --json | jq .differences

Exit codes:
    0  the signature is valid and the result is identical
   80  the signature is missing, wrong, or made by a key that is not trusted
   81  the skill differs
   82  the result differs
   83  the run cannot be repeated here: the policy, the inputs or the engine differ")]
pub(crate) struct Args {
    /// The file of the receipt
    receipt: PathBuf,
    /// The skill: its folder, as a path with a `/`, or a name from `skillhost list`
    #[arg(long, value_name = "SKILL")]
    skill: PathBuf,
    /// The workspace as it was before the run; the folder is not changed
    #[arg(long, value_name = "DIR")]
    inputs: Option<PathBuf>,
    /// Trust this public key, as well as those of `skillhost key trust` (repeatable)
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// Accept a receipt without a signature
    #[arg(long)]
    unsigned: bool,
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

/// Output of `--json`.
#[derive(Serialize)]
struct Report {
    verdict: &'static str,
    /// The key of the signature; `None` if the receipt is not signed.
    signed_by: Option<String>,
    /// Whether the run was repeated.
    repeated: bool,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    differences: Vec<Difference>,
}

/// Why a receipt is not confirmed.
struct Refusal {
    exit: Exit,
    message: String,
    fix: Option<String>,
    repeated: bool,
    differences: Vec<Difference>,
}

/// The most that is read of a receipt, in bytes: one with 10,000 files takes some 2 MiB.
const RECEIPT_MAX: u64 = 64 << 20;

const SIDES: Sides = Sides("receipt", "here");

const IDENTICAL: &str = "identical: the repeated run has the same result";

pub(crate) fn main(args: Args) -> Result<Exit, CliError> {
    if args.permissions.workspace_folder().is_some() {
        return Err(CliError::usage("verify runs on a copy of the workspace")
            .fix("pass the folder as it was before the run: --inputs DIR"));
    }
    let places = Places::find()?;
    let document = read(&args.receipt)?;
    let (signed_by, refusal) = match signer(&args, &document, &places)? {
        Ok(signed_by) => (signed_by, repeat(&args, &document.receipt)?),
        Err(error) => (None, Some(Refusal::of_signature(&error))),
    };
    let exit = refusal.as_ref().map_or(Exit::Ok, |refusal| refusal.exit);
    if args.json {
        output::json(&Report::of(signed_by, refusal))?;
        return Ok(exit);
    }
    match refusal {
        None => {
            let by = signed_by.map_or("not signed".to_owned(), |key| format!("signed by {key}"));
            output::text(&format!("{IDENTICAL}; {by}"))?;
        }
        Some(Refusal { message, fix, differences, .. }) => {
            output::error(&message, fix.as_deref());
            if !differences.is_empty() {
                output::explanation(&SIDES.list(differences.iter()));
            }
        }
    }
    Ok(exit)
}

impl Report {
    fn of(signed_by: Option<String>, refusal: Option<Refusal>) -> Report {
        let Some(Refusal { exit, message, fix, repeated, differences }) = refusal else {
            return Report {
                verdict: "same",
                signed_by,
                repeated: true,
                message: IDENTICAL.to_owned(),
                fix: None,
                differences: Vec::new(),
            };
        };
        Report { verdict: exit.code(), signed_by, repeated, message, fix, differences }
    }
}

impl Refusal {
    fn new(exit: Exit, message: impl Into<String>) -> Refusal {
        Refusal {
            exit,
            message: message.into(),
            fix: None,
            repeated: false,
            differences: Vec::new(),
        }
    }

    fn not_repeatable(message: &str, fix: &str) -> Refusal {
        Refusal { fix: Some(fix.to_owned()), ..Refusal::new(Exit::NotRepeatable, message) }
    }

    fn of_signature(error: &SignatureError) -> Refusal {
        let fix = match error {
            SignatureError::Unsigned => "compare it without a signature: --unsigned",
            SignatureError::Mismatch(_) => "get the original receipt from its issuer",
            SignatureError::Untrusted(_) => {
                "trust the signer's public key: `skillhost key trust FILE`, or --key FILE"
            }
        };
        let fix = Some(fix.to_owned());
        Refusal { fix, ..Refusal::new(Exit::BadSignature, error.to_string()) }
    }
}

/// Reads a receipt.
pub(crate) fn read(file: &Path) -> Result<Document, CliError> {
    let failed = |error: std::io::Error| {
        CliError::io(format_args!("read the receipt {}", file.display()), error)
    };
    let mut bytes = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "a file that the operator names")]
    let opened = std::fs::File::open(file).map_err(failed)?;
    opened.take(RECEIPT_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Document::read(&bytes).map_err(|why| {
        CliError::invalid(format!("{} is not a receipt: {why}", file.display()))
            .fix("write one with `skillhost run --receipt FILE`")
    })
}

type Signer = Result<Option<String>, SignatureError>;

fn signer(args: &Args, document: &Document, places: &Places) -> Result<Signer, CliError> {
    let mut trusted = key::trusted_and_own(places)?;
    for file in &args.key {
        trusted.push(key::public(file)?);
    }
    Ok(match document.signer(&trusted) {
        // --unsigned accepts a missing signature, never a wrong one.
        Err(SignatureError::Unsigned) if args.unsigned => Ok(None),
        signer => signer.map(Some),
    })
}

/// The fields of a receipt that a repetition needs. All are optional: a receipt that lacks one
/// differs from what the repetition produces.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordingStatus {
    runtime: RecordedRuntime,
    program: RecordedProgram,
    grant: RecordedGrant,
    input: RecordedInput,
    result: RecordedResult,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedResult {
    host_programs: BTreeMap<String, Number>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedRuntime {
    mode: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedProgram {
    tool: Option<String>,
    script: Option<RecordedScript>,
}

#[derive(Deserialize)]
struct RecordedScript {
    path: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedGrant {
    capabilities: RecordedCapabilities,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedCapabilities {
    mounts: Vec<RecordedMount>,
    host_programs: BTreeSet<String>,
    limits: RecordedLimits,
    determinism: Option<RecordedStart>,
}

#[derive(Deserialize)]
struct RecordedMount {
    guest: String,
    mode: MountMode,
    #[serde(default)]
    guest_links: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedLimits {
    state: Option<Number>,
}

/// A number. Receipts write those above 2^53 - 1 as strings.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Small(u64),
    Large(String),
}

impl Number {
    fn value(&self) -> Option<u64> {
        match self {
            Number::Small(value) => Some(*value),
            Number::Large(text) => text.parse().ok(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedStart {
    seed: Option<Number>,
    start_time: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedInput {
    arguments: Vec<String>,
    tool_input: Option<String>,
    command: Option<String>,
    stdin: RecordedStdin,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedStdin {
    bytes: u64,
}

impl RecordingStatus {
    fn target(&self) -> Target {
        let RecordedProgram { tool, script } = &self.program;
        match (&self.input.command, tool, script) {
            (Some(command), ..) => Target::Shell(command.clone()),
            (None, Some(name), _) => Target::Tool {
                name: name.clone(),
                input: self.input.tool_input.clone().unwrap_or_default(),
            },
            (None, None, Some(script)) => Target::Named(script.path.clone()),
            (None, None, None) => Target::Main,
        }
    }

    /// The mode of the workspace, if there was one.
    fn workspace(&self) -> Option<MountMode> {
        let mounts = &self.grant.capabilities.mounts;
        mounts.iter().find(|mount| mount.guest == WORKSPACE).map(|mount| mount.mode)
    }

    /// Whether symlinks in the workspace led to paths of the guest.
    fn has_guest_links(&self) -> bool {
        let mounts = &self.grant.capabilities.mounts;
        mounts.iter().any(|mount| mount.guest == WORKSPACE && mount.guest_links)
    }

    /// The seed and the start time of a deterministic run.
    fn determinism(&self) -> Option<(Option<u64>, Option<u64>)> {
        self.grant.capabilities.determinism.as_ref().map(|start| {
            let time = start.start_time.as_ref();
            (
                start.seed.as_ref().and_then(Number::value),
                time.and_then(|text| parse_start_time(text).ok()),
            )
        })
    }
}

/// Repeats the run, and says why it is not confirmed.
fn repeat(args: &Args, receipt: &Value) -> Result<Option<Refusal>, CliError> {
    let context = Context::with_permissions(&args.permissions)?;
    let recorded = RecordingStatus::deserialize(receipt).map_err(|error| {
        CliError::invalid(format!("{} is not a receipt: {error}", args.receipt.display()))
    })?;
    let mut options = context.places.host_options(&args.host)?;
    options.guarded.read_only = context.skill_folders(&args.skills);
    let host = compilation::announced(options, args.json);
    let named = args.skills.resolve(&args.skill, &context)?;
    let skill = named.skill_folder();
    let loaded = host.load(skill, &Policy::builtin())?;
    if let Some(refusal) = compare_skill(receipt, &loaded) {
        return Ok(Some(refusal));
    }
    if let Some(refusal) = refuse_host_programs(&recorded) {
        return Ok(Some(refusal));
    }
    if recorded.grant.capabilities.limits.state.is_some() {
        // A repetition would change the skill's state here.
        return Ok(Some(Refusal::not_repeatable(
            "this run used the state of its skill, which a receipt does not contain",
            "run it with its input in a workspace, under a policy without `state`",
        )));
    }
    let (workspace, copy) = match workspace(args, &recorded, &context.places)? {
        Ok(found) => found,
        Err(refusal) => return Ok(Some(refusal)),
    };
    let permissions = args.permissions.clone().repeat(workspace, recorded.determinism());
    let policy = permissions.policy(&context.places)?;
    // Loaded again under that policy: what is compared with the receipt is what runs.
    let loaded = host.load_for_run(skill, &policy).map_err(|error| match error {
        RunError::Skill(error) => CliError::from(*error),
        error => CliError::new(Exit::Io, error.to_string()),
    })?;
    let loaded = match recorded.has_guest_links() {
        true => loaded.with_guest_links(WORKSPACE),
        false => loaded,
    };
    if let Some(refusal) =
        compare_skill(receipt, &loaded).or_else(|| compare_grant(receipt, &loaded, &policy))
    {
        return Ok(Some(refusal));
    }
    let stdin = if recorded.input.stdin.bytes == 0 { Stdin::Empty } else { stdin()? };
    let invoked = event_loop::with(|event_loop, interrupt| {
        let call = LoadedRequest {
            loaded: &loaded,
            policy: &policy,
            target: &recorded.target(),
            args: recorded.input.arguments.clone(),
            io: Io { stdin, interrupt: Some(interrupt), ..Io::default() },
        };
        let invoked = event_loop.block_on(host.invoke_with_receipt(call));
        invoked.map_err(|error| CliError::new(Exit::Io, error.to_string()))
    })?;
    host.settle();
    drop(copy);
    let Some(here) = invoked.receipt.as_ref().map(canonical::value) else {
        if invoked.finished.outcome.status == Status::Interrupted {
            return Err(CliError::new(Exit::Interrupted, "interrupted"));
        }
        output::ending(&invoked.finished.outcome, Some((&invoked.skill, &policy)));
        return Ok(Some(Refusal::not_repeatable(
            "the repeated run has no result",
            "the output above shows why it ended",
        )));
    };
    Ok(compare_result(receipt, &here, recorded.runtime.mode == "deterministic"))
}

/// Refuses to repeat a run that could start programs of the application that embedded the host.
fn refuse_host_programs(recorded: &RecordingStatus) -> Option<Refusal> {
    let granted = &recorded.grant.capabilities.host_programs;
    let starts = &recorded.result.host_programs;
    let times = |name: &String| match starts.get(name).and_then(Number::value) {
        None | Some(0) => format!("`{name}` (not started)"),
        Some(1) => format!("`{name}` (started once)"),
        Some(count) => format!("`{name}` (started {count} times)"),
    };
    let names: BTreeSet<&String> = granted.iter().chain(starts.keys()).collect();
    if names.is_empty() {
        return None;
    }
    let names = names.into_iter().map(times).collect::<Vec<_>>().join(", ");
    Some(Refusal::not_repeatable(
        &format!(
            "this run depended on host programs, functions of the application that embedded \
             skillhost, which cannot be repeated here: {names}"
        ),
        "run the skill without host programs, under a policy that does not name them",
    ))
}

/// Refuses to run a skill that differs from the receipt's.
fn compare_skill(receipt: &Value, loaded: &LoadedSkill) -> Option<Refusal> {
    let differences = differences(
        &json!({ "skill": receipt["skill"] }),
        &json!({ "skill": canonical::value(loaded.id()) }),
    );
    let fix = "pass the original folder of the skill, with all of its files: --skill DIR";
    let refusal =
        Refusal::new(Exit::OtherSkill, "the skill differs from the one recorded in the receipt");
    Some(Refusal { fix: Some(fix.to_owned()), differences, ..refusal })
        .filter(|refusal| !refusal.differences.is_empty())
}

/// Refuses to run under a grant that differs from the receipt's.
fn compare_grant(receipt: &Value, loaded: &LoadedSkill, policy: &Policy) -> Option<Refusal> {
    let here = canonical::value(&receipt::ReceiptGrant::of(
        &loaded.grant.capabilities,
        &receipt::policy_digest(policy),
    ));
    let differences = differences(&json!({ "grant": receipt["grant"] }), &json!({ "grant": here }));
    let refusal = Refusal::not_repeatable(
        "the grant differs from the one recorded in the receipt",
        "pass the policy and the flags of the run again: --policy, --allow, --deny, --timeout, \
         --memory, --fuel, --env",
    );
    Some(Refusal { differences, ..refusal }).filter(|refusal| !refusal.differences.is_empty())
}

fn compare_result(receipt: &Value, here: &Value, is_deterministic: bool) -> Option<Refusal> {
    let differences = differences(receipt, here);
    let (exit, message) = match differences.first()?.kind() {
        DifferenceKind::Skill => {
            (Exit::OtherSkill, "the skill differs from the one recorded in the receipt")
        }
        DifferenceKind::Conditions => {
            (Exit::NotRepeatable, "the inputs differ from those in the receipt")
        }
        DifferenceKind::Result => {
            (Exit::OtherResult, "the result differs from the one recorded in the receipt")
        }
    };
    let fix = "the run was not deterministic, so its result may differ each time; record it with \
               `run --deterministic`";
    let fix = (!is_deterministic && exit == Exit::OtherResult).then(|| fix.to_owned());
    Some(Refusal { exit, message: message.into(), fix, repeated: true, differences })
}

type Workspace = (Option<(PathBuf, MountMode)>, Option<TempFolder>);

/// The workspace for the repetition: a copy if the run may write to it.
fn workspace(
    args: &Args,
    recorded: &RecordingStatus,
    places: &Places,
) -> Result<Result<Workspace, Refusal>, CliError> {
    let Some(mode) = recorded.workspace() else { return Ok(Ok((None, None))) };
    let Some(inputs) = &args.inputs else {
        return Ok(Err(Refusal::not_repeatable(
            "this run used a workspace",
            "pass the folder as it was before the run: --inputs DIR",
        )));
    };
    if mode != MountMode::Write {
        return Ok(Ok((Some((inputs.clone(), mode)), None)));
    }
    let failed = |error: std::io::Error| {
        CliError::io(format_args!("copy the inputs {}", inputs.display()), error)
    };
    let folder = places.scratch.canonicalize().map_err(failed)?;
    let copy = TempFolder::new_in(&folder, Purpose::Verification).map_err(failed)?;
    copy_folder(inputs, copy.path()).map_err(failed)?;
    Ok(Ok((Some((copy.path().to_owned(), mode)), Some(copy))))
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a folder that the operator names, copied into one of our own"
    )]
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            private::create_new(&target)?;
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(entry.path())?, target)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
