//! `skillhost verify`: whether a receipt is genuine, and whether the same run comes to the same
//! result here.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use skillhost::invoke::{LoadedRequest, LoadedSkill, RunError, Runner, Target};
use skillhost_ledger::receipt::compare::{Difference, DifferenceKind, differences};
use skillhost_ledger::receipt::envelope::{Document, SignatureError};
use skillhost_ledger::receipt::{self, canonical};
use skillhost_policy::Policy;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::diagnostic::printable;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::{Io, Stdin};
use skillhost_skill::private::{self, Purpose, TempFolder};

use super::exit::Exit;
use super::permissions::Permissions;
use super::places::{HostArgs, Places};
use super::run::{interrupt, invalid_skill};
use super::skills::Skills;
use super::{Failure, key, receipt as kept, show};

/// Checks a receipt's signature and digests, runs the same again and compares
///
/// The skill is run in the sandbox, on a copy of the inputs, under your own policy: the flags that
/// the run had and that allow or bound something are given again. Seed, start time and what was to
/// run are taken from the receipt. What it read from stdin comes on stdin.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost verify receipt.json --skill skills/calculator
  skillhost verify receipt.json --skill SKILL --inputs ./before --key their-key.pem < in.txt
  skillhost verify receipt.json --skill SKILL --env TOKEN=x --fuel 1000000 --json | jq '.differences[0]'

Exit codes beside those of all verbs:
   80  the signature is missing, wrong, or of a key that is not trusted
   81  the skill is another
   82  the result is another
   83  the run cannot be repeated here: another policy, other inputs, another engine")]
pub(crate) struct Args {
    /// The receipt
    receipt: PathBuf,
    /// The skill's folder, as a path with a `/`, or the name of a skill that `skillhost list` shows
    #[arg(long, value_name = "SKILL")]
    skill: PathBuf,
    /// The folder that was /workspace, as it was before the run; it is not changed
    #[arg(long, value_name = "DIR", conflicts_with = "workspace")]
    inputs: Option<PathBuf>,
    /// Trust this public key as well as those of `skillhost key trust` (repeatable)
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// Do without a signature
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

/// What `--json` prints.
#[derive(Serialize)]
struct Verdict {
    verdict: &'static str,
    /// The key that signed it; `None` where nobody did.
    signed_by: Option<String>,
    /// Whether it was run again.
    repeated: bool,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    differences: Vec<Difference>,
}

/// Why a receipt is not confirmed.
struct Refused {
    exit: Exit,
    message: String,
    fix: Option<String>,
    repeated: bool,
    differences: Vec<Difference>,
}

/// The most that is read of a receipt, in bytes: one of 10,000 files has some 2 MiB.
const RECEIPT_MAX: u64 = 64 << 20;

pub(crate) fn main(args: Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    let document = read(&args.receipt)?;
    let (signed_by, refused) = match signer(&args, &document, &places)? {
        Ok(signed_by) => {
            let refused = repeat(&args, &document.receipt, &places)?;
            (signed_by, refused)
        }
        Err(error) => {
            let fix = match &error {
                SignatureError::Unsigned => "--unsigned compares it all the same".to_owned(),
                SignatureError::Mismatch(_) => {
                    "ask whoever made it for the receipt as it was".to_owned()
                }
                SignatureError::Untrusted(_) => {
                    "skillhost key trust FILE, or --key FILE, with the signer's public key"
                        .to_owned()
                }
            };
            (
                None,
                Some(Refused {
                    fix: Some(fix),
                    ..Refused::new(Exit::BadSignature, error.to_string())
                }),
            )
        }
    };
    let exit = refused.as_ref().map_or(Exit::Ok, |refused| refused.exit);
    if args.json {
        show::json(&Verdict::of(signed_by, refused))?;
        return Ok(exit);
    }
    match refused {
        None => {
            let by =
                signed_by.map_or("it is not signed".to_owned(), |key| format!("signed by {key}"));
            show::text(&format!("the same result, run again; {by}"))?;
        }
        Some(Refused { message, fix, differences, .. }) => {
            show::error(&message, fix.as_deref());
            differences.iter().take(TOLD).for_each(|difference| show::note(&told(difference)));
            if differences.len() > TOLD {
                show::note(&format!("and {} more", differences.len() - TOLD));
            }
        }
    }
    Ok(exit)
}

/// Differences that people are shown.
pub(super) const TOLD: usize = 10;

impl Verdict {
    fn of(signed_by: Option<String>, refused: Option<Refused>) -> Verdict {
        let Some(Refused { exit, message, fix, repeated, differences }) = refused else {
            let message = "the same result".to_owned();
            return Verdict {
                verdict: "same",
                signed_by,
                repeated: true,
                message,
                fix: None,
                differences: Vec::new(),
            };
        };
        let verdict = match exit {
            Exit::BadSignature => "bad-signature",
            Exit::OtherSkill => "other-skill",
            Exit::OtherResult => "other-result",
            _ => "not-repeatable",
        };
        Verdict { verdict, signed_by, repeated, message, fix, differences }
    }
}

impl Refused {
    fn new(exit: Exit, message: impl Into<String>) -> Refused {
        Refused {
            exit,
            message: message.into(),
            fix: None,
            repeated: false,
            differences: Vec::new(),
        }
    }

    fn cannot(message: impl Into<String>, fix: &str) -> Refused {
        Refused { fix: Some(fix.to_owned()), ..Refused::new(Exit::NotRepeatable, message) }
    }
}

pub(super) fn read(file: &Path) -> Result<Document, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Io, format!("the receipt {} cannot be read: {error}", file.display()))
    };
    let mut bytes = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "a file that the user names")]
    let opened = std::fs::File::open(file).map_err(failed)?;
    opened.take(RECEIPT_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Document::read(&bytes).map_err(|why| {
        Failure::new(Exit::Invalid, format!("{} is no receipt: {why}", file.display()))
            .fix("`skillhost run --receipt FILE` writes one")
    })
}

type Signer = Result<Option<String>, SignatureError>;

fn signer(args: &Args, document: &Document, places: &Places) -> Result<Signer, Failure> {
    let mut trusted = key::trusted_and_own(places)?;
    for file in &args.key {
        trusted.push(key::public(file)?);
    }
    Ok(match document.signer(&trusted) {
        // A signature that is wrong is not the same as none.
        Err(SignatureError::Unsigned) if args.unsigned => Ok(None),
        signer => signer.map(Some),
    })
}

/// Runs it again, and tells what is not the same.
fn repeat(args: &Args, receipt: &Value, places: &Places) -> Result<Option<Refused>, Failure> {
    let policy = args.permissions.policy(places)?;
    let mut options = places.host_options(&args.host)?;
    options.guarded.read_only = args.skills.folders(places, &policy);
    let host = Runner::new(options);
    let named = args.skills.folder(&args.skill, places, &policy)?;
    let skill = named.skill_folder();
    let loaded = host.load(skill, &Policy::builtin()).map_err(invalid_skill)?;
    if let Some(refused) = other_skill(receipt, &loaded) {
        return Ok(Some(refused));
    }
    if receipt["grant"]["capabilities"]["limits"]["state"].is_number() {
        // It would change what the skill keeps here.
        let message = "the run had what its skill keeps in /state, which a receipt tells of and does not hold";
        return Ok(Some(Refused::cannot(
            message,
            "give the run its input in a workspace, under a policy without `state`",
        )));
    }
    let (workspace, copy) = match workspace(args, receipt, places)? {
        Ok(found) => found,
        Err(refused) => return Ok(Some(refused)),
    };
    let policy = args.permissions.clone().repeating(workspace, receipt).policy(places)?;
    // Loaded again under that policy: it is this one that is compared with the receipt, and that
    // runs.
    let loaded = host.load_for_run(skill, &policy).map_err(|error| match error {
        RunError::Skill(error) => invalid_skill(*error),
        error => Failure::new(Exit::Io, error.to_string()),
    })?;
    if let Some(refused) =
        other_skill(receipt, &loaded).or_else(|| other_grant(receipt, &loaded, &policy))
    {
        return Ok(Some(refused));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Exit::Io, format!("no event loop: {error}")))?;
    let stdin = if receipt["input"]["stdin"]["bytes"] == 0 { Stdin::Empty } else { kept::stdin()? };
    // The copy of the inputs is removed, whoever stops it.
    let inside = runtime.enter();
    let interrupt = interrupt()
        .map_err(|error| Failure::new(Exit::Io, format!("no signal handlers: {error}")))?;
    let strings = |list: &Value| {
        list.as_array()
            .into_iter()
            .flatten()
            .filter_map(|text| Some(text.as_str()?.to_owned()))
            .collect()
    };
    let call = LoadedRequest {
        loaded: &loaded,
        policy: &policy,
        target: &target(receipt),
        args: strings(&receipt["input"]["arguments"]),
        io: Io { stdin, interrupt: Some(interrupt), ..Io::default() },
    };
    let invoked = runtime
        .block_on(host.invoke_with_receipt(call))
        .map_err(|error| Failure::new(Exit::Io, error.to_string()))?;
    drop(inside);
    runtime.shutdown_background();
    host.settle();
    drop(copy);
    let Some(here) = invoked.receipt.as_ref().map(canonical::value) else {
        if invoked.finished.outcome.status == Status::Interrupted {
            return Err(Failure::new(Exit::Interrupted, "interrupted"));
        }
        show::ending(&invoked.finished.outcome);
        return Ok(Some(Refused::cannot("it came to no result here", "see what kept it from one")));
    };
    let differences = differences(receipt, &here);
    let Some(first) = differences.first() else { return Ok(None) };
    let (exit, message) = match first.kind() {
        DifferenceKind::Skill => {
            (Exit::OtherSkill, "the skill differs from the one recorded in the receipt")
        }
        DifferenceKind::Conditions => {
            (Exit::NotRepeatable, "the inputs recorded in the receipt are not available here")
        }
        DifferenceKind::Result => {
            (Exit::OtherResult, "the result differs from the one recorded in the receipt")
        }
    };
    let free = receipt["runtime"]["mode"] != "deterministic" && exit == Exit::OtherResult;
    let fix = free.then(|| "the run was not deterministic, so it may come to another result each time: `run --deterministic`".to_owned());
    Ok(Some(Refused { exit, message: message.into(), fix, repeated: true, differences }))
}

/// Nothing runs that is not what the receipt is of.
fn other_skill(receipt: &Value, loaded: &LoadedSkill) -> Option<Refused> {
    let differences = differences(
        &wrapped("skill", receipt["skill"].clone()),
        &wrapped("skill", canonical::value(loaded.id())),
    );
    let fix = Some("--skill names the folder of the skill as it was, every file of it".to_owned());
    let refused = Refused::new(Exit::OtherSkill, "the skill is not the one that the receipt is of");
    Some(Refused { fix, differences, ..refused }).filter(|refused| !refused.differences.is_empty())
}

/// Nor under another grant.
fn other_grant(receipt: &Value, loaded: &LoadedSkill, policy: &Policy) -> Option<Refused> {
    let here = canonical::value(&receipt::ReceiptGrant::of(
        &loaded.grant.capabilities,
        &receipt::policy_digest(policy),
    ));
    let differences =
        differences(&wrapped("grant", receipt["grant"].clone()), &wrapped("grant", here));
    let fix = "give the policy and the flags of the run again: --policy, --allow, --deny, --timeout, --memory, --fuel, --env";
    let refused = Refused::cannot("the skill is not granted here what it was", fix);
    Some(Refused { differences, ..refused }).filter(|refused| !refused.differences.is_empty())
}

fn wrapped(field: &str, value: Value) -> Value {
    Value::Object([(field.to_owned(), value)].into_iter().collect())
}

/// What of the skill ran.
fn target(receipt: &Value) -> Target {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (program, input) = (&receipt["program"], &receipt["input"]);
    match (text(&input["command"]), text(&program["tool"]), text(&program["script"]["path"])) {
        (Some(command), ..) => Target::Shell(command),
        (None, Some(name), _) => {
            Target::Tool { name, input: text(&input["tool_input"]).unwrap_or_default() }
        }
        (None, None, Some(script)) => Target::Named(script),
        (None, None, None) => Target::Main,
    }
}

type Workspace = (Option<(PathBuf, MountMode)>, Option<TempFolder>);

/// The folder to run in: a copy where the run may write to it.
fn workspace(
    args: &Args,
    receipt: &Value,
    places: &Places,
) -> Result<Result<Workspace, Refused>, Failure> {
    let mounts = receipt["grant"]["capabilities"]["mounts"].as_array().into_iter().flatten();
    let mode = mounts
        .into_iter()
        .find(|mount| mount["guest"] == skillhost_policy::WORKSPACE)
        .map(|mount| &mount["mode"]);
    let Some(mode) = mode.and_then(|mode| serde_json::from_value::<MountMode>(mode.clone()).ok())
    else {
        return Ok(Ok((None, None)));
    };
    let Some(inputs) = &args.inputs else {
        return Ok(Err(Refused::cannot(
            "the run had a workspace",
            "--inputs DIR, the folder as it was before the run",
        )));
    };
    if mode != MountMode::Write {
        return Ok(Ok((Some((inputs.clone(), mode)), None)));
    }
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Io, format!("the inputs {} cannot be copied: {error}", inputs.display()))
    };
    let folder = places.scratch.canonicalize().map_err(failed)?;
    let copy = TempFolder::new_in(&folder, Purpose::Verification).map_err(failed)?;
    copy_folder(inputs, copy.path()).map_err(failed)?;
    Ok(Ok((Some((copy.path().to_owned(), mode)), Some(copy))))
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a folder that the user names, copied into one of our own"
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

/// A difference in a line or two.
pub(super) fn told(difference: &Difference) -> String {
    let Difference { field, receipt, here, bytes } = difference;
    if let Some(bytes) = bytes {
        return format!(
            "{field}: from byte {} on: {}\n{:9}here: {}",
            bytes.offset, bytes.receipt, "", bytes.here
        );
    }
    let value = |value: &Option<Value>| {
        value.as_ref().map_or("nothing".to_owned(), |value| printable(&short(&value.to_string())))
    };
    format!("{}: {}, here {}", printable(field), value(receipt), value(here))
}

fn short(text: &str) -> String {
    if text.len() <= 100 {
        text.to_owned()
    } else {
        format!("{}...", &text[..text.floor_char_boundary(100)])
    }
}
