//! What `run` was asked to do, resolved: nothing after this looks at what was typed.

use std::io::Read as _;
use std::path::PathBuf;

use skillhost::invoke::{Runner, Target};
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::diagnostic::{Diagnostic, Severity, Span, quoted};
use skillhost_policy::limits::show_size;

use super::Args;
use super::receipt::ReceiptFile;
use crate::args::permissions::Permissions;
use crate::args::skills::SkillRef;
use crate::context::Context;
use crate::error::CliError;
use crate::{compilation, recording};

/// One run and what is done with its results.
pub(super) struct Plan {
    pub(super) context: Context,
    pub(super) host: Runner,
    pub(super) skill: SkillRef,
    /// The skill as it was typed: a name or a path.
    pub(super) skill_argument: String,
    pub(super) target: Target,
    pub(super) args: Vec<String>,
    pub(super) recording: Recording,
    /// Whether the policy stages the skill's writes.
    pub(super) stages_writes: bool,
    pub(super) json: bool,
    pub(super) diff: bool,
    pub(super) apply: bool,
    pub(super) receipt: Option<ReceiptFile>,
    /// The permissions that were typed, if the run is to learn which it needs.
    pub(super) learn: Option<Permissions>,
}

/// Whether a recording is written or read.
pub(super) enum Recording {
    None,
    Write(PathBuf),
    Read {
        folder: PathBuf,
        /// Secrets to take from variables of their names.
        secrets: Vec<String>,
    },
}

impl Plan {
    /// Resolves the arguments. Reads the policy, finds the skill and, unless the run is only
    /// explained, reads the input of a tool.
    pub(super) fn resolve(args: Args) -> Result<Plan, CliError> {
        let target = args.target();
        let Args { skill, skills, host, permissions, json, diff, apply, .. } = args;
        let is_deterministic = args.record.is_some() || args.recorded.is_some();
        let mut context = if is_deterministic {
            Context::with_permissions(&permissions.clone().deterministic())?
        } else {
            Context::with_permissions(&permissions)?
        };
        if args.record.is_some() {
            context.policy = recording::seeded(context.policy);
        }
        context.policy = context.policy.with_client_names();
        let skill_argument = skill.to_string_lossy().into_owned();
        let skill = skills.resolve(&skill, &context)?;
        skill.warn_of_sections(&skills, &context);
        skills.warn_of_unknown_sections(Some(&skill.name()), &context);
        skills.warn_of_missing_folders(&context, false);
        let host = compilation::announced(context.host_options(&host, &skills)?, json);
        let stages_writes = context.policy.stages_writes(&skill.name());
        let target = if args.explain { target } else { with_input(target)? };
        let plan = Plan {
            host,
            skill,
            skill_argument,
            target,
            args: args.args,
            recording: match (args.record, args.recorded) {
                (Some(folder), _) => Recording::Write(folder),
                (_, Some(folder)) => Recording::Read { folder, secrets: args.secret_env },
                (None, None) => Recording::None,
            },
            stages_writes,
            json,
            diff,
            apply,
            receipt: args.receipt.map(|path| ReceiptFile::open(path, args.sign)).transpose()?,
            learn: args.learn.then_some(permissions),
            context,
        };
        if !args.explain {
            plan.require_overlay()?;
        }
        Ok(plan)
    }

    /// Whether stdin is read before the run, and the output is printed after it.
    pub(super) fn is_buffered(&self) -> bool {
        self.receipt.is_some() || !matches!(self.recording, Recording::None)
    }

    /// Refuses `--diff` and `--apply` if no writes are kept aside.
    fn require_overlay(&self) -> Result<(), CliError> {
        let mut mounts = self.context.policy.layers.iter().flat_map(|layer| &layer.mounts);
        let has_overlay =
            self.stages_writes || mounts.any(|rule| rule.mount.mode == MountMode::Overlay);
        let flag = if self.diff { "--diff" } else { "--apply" };
        if has_overlay || !(self.diff || self.apply) {
            return Ok(());
        }
        Err(CliError::usage(format!("{flag} needs a workspace that is an overlay"))
            .fix("--workspace DIR:overlay"))
    }
}

/// The most that is read of a tool input on stdin, in bytes.
const INPUT_MAX: u64 = 64 << 20;

/// Reads a tool input that is `-` from stdin, and one that is `@FILE` from the file. Checks that an input is JSON. The sandbox checks
/// it against the tool's schema.
fn with_input(target: Target) -> Result<Target, CliError> {
    let Target::Tool { name, input } = target else { return Ok(target) };
    let (place, input) = match input.strip_prefix('@') {
        _ if input == "-" => ("<stdin>".to_owned(), read_input("stdin", std::io::stdin())?),
        // No JSON starts with `@`.
        Some(file) => (file.to_owned(), read_input(file, open_input(file)?)?),
        None => ("--input".to_owned(), input),
    };
    let parsed: Result<serde::de::IgnoredAny, _> = serde_json::from_str(&input);
    match parsed {
        Ok(_) => Ok(Target::Tool { name, input }),
        Err(error) => {
            let finding = Diagnostic {
                severity: Severity::Error,
                rule: "json",
                message: format!("the tool input is not valid JSON: {}", reason(&error)),
                file: place,
                span: Some(span(&input, &error)),
                fix: None,
            };
            Err(CliError::usage("the tool was not called")
                .findings(vec![finding], input)
                .fix("an input is one JSON object, such as --input '{\"name\": \"value\"}'"))
        }
    }
}

fn open_input(file: &str) -> Result<std::fs::File, CliError> {
    #[expect(clippy::disallowed_methods, reason = "a file that the operator named")]
    std::fs::File::open(file)
        .map_err(|error| CliError::io(format_args!("open the tool input {}", quoted(file)), error))
}

/// Reads a tool input from a place, which messages name.
fn read_input(place: &str, input: impl std::io::Read) -> Result<String, CliError> {
    let place = quoted(place);
    let mut bytes = Vec::new();
    let read = input.take(INPUT_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| CliError::io(format_args!("read the tool input from {place}"), error))?;
    if bytes.len() as u64 > INPUT_MAX {
        let most = show_size(INPUT_MAX);
        return Err(CliError::usage(format!("the tool input from {place} is over {most}")));
    }
    String::from_utf8(bytes).map_err(|error| {
        CliError::usage(format!("the tool input from {place} is not text: {error}"))
    })
}

/// The parser's message without the place, which the snippet shows.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}

/// The place of an error. The parser counts columns in bytes.
fn span(text: &str, error: &serde_json::Error) -> Span {
    let line: usize =
        text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    Span::at(text, line + error.column().saturating_sub(1), 1)
}
