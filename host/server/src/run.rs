//! `run_skill` and typed tools: through the service, under the operator's policy, into the audit
//! log; with progress, and stopped when the client goes away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use rmcp::model::{CallToolResponse, CallToolResult, JsonObject};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde_json::Value;
use tracing::{Instrument as _, debug_span};

use super::definitions::{ACTIVATE, is_object, weight};
use super::gate::Call;
use super::hidden::Hidden;
use super::messages::Progress;
use super::question::Answer;
use super::result::{self, failed};
use super::session::Session;
use super::workspace::Folder;
use super::writes::{Diff, note};
use super::{Shared, messages, trace};
use skillhost::invoke::{Invocation, LoadedSkill, RunError, Target};
use skillhost::service::ServiceError;
use skillhost_catalog::CatalogEntry;
use skillhost_ledger::usage::UsageEvent;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::{Io, Stdin, Tool};
use skillhost_skill::Skill;
use skillhost_skill::runtime::scripts::{self, ScriptMatch};

#[derive(Deserialize)]
pub(super) struct Input {
    name: String,
    program: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    stdin: Option<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// Who asks, and how it is told.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) session: &'a Session,
    pub(super) context: &'a RequestContext<RoleServer>,
    /// What the client answers where it was asked before, from revision 2026-07-28 on.
    pub(super) answer: Option<&'a Answer>,
}

/// A run that came to an outcome.
struct Done {
    invoked: Invocation,
    /// What an overlay kept of it.
    diff: Option<Diff>,
    /// What becomes of that.
    aside: Option<String>,
    folder: Option<Arc<Folder>>,
    hidden: Hidden,
}

impl Shared {
    pub(super) async fn run(&self, input: Input, caller: Caller<'_>) -> CallToolResponse {
        let Some(entry) = self.entry(&input.name) else {
            return failed(self.no_skill(&input.name)).into();
        };
        if !caller.session.is_alone(caller.context) && caller.session.tools(&entry.name).is_none() {
            return failed(format!(
                "the skill `{}` is not activated: call {ACTIVATE} first",
                entry.name
            ))
            .into();
        }
        let Input { program, args, stdin, files, .. } = input;
        let io = Io {
            stdin: stdin.map_or(Stdin::Empty, |text| Stdin::Bytes(text.into_bytes())),
            ..Io::default()
        };
        match self.carry_out(&entry, |skill| target(skill, program, args), &files, io, caller).await
        {
            Ok(Done { invoked, diff, aside, folder, hidden }) => {
                let answer = result::of_run(&invoked, diff.as_ref(), folder, &hidden);
                if let Some((id, kept)) = answer.kept {
                    self.runs.keep(id, kept);
                }
                noted(answer.result, aside)
            }
            Err(answer) => *answer,
        }
    }

    /// Calls a typed tool.
    pub(super) async fn call(
        &self,
        entry: &CatalogEntry,
        tool: &Tool,
        input: JsonObject,
        caller: Caller<'_>,
    ) -> CallToolResponse {
        let target =
            Target::Tool { name: tool.name.clone(), input: Value::Object(input).to_string() };
        match self
            .carry_out(entry, |_| (target, Vec::new()), &BTreeMap::new(), Io::default(), caller)
            .await
        {
            Ok(Done { invoked, aside, hidden, .. }) => {
                let answer = result::of_tool(
                    &invoked,
                    tool.output_schema.as_ref().is_some_and(is_object),
                    &hidden,
                );
                if let Some((id, kept)) = answer.kept {
                    self.runs.keep(id, kept);
                }
                noted(answer.result, aside)
            }
            Err(answer) => *answer,
        }
    }

    /// From what is asked for to what it came to: or what the client is told instead.
    async fn carry_out(
        &self,
        entry: &CatalogEntry,
        choose: impl FnOnce(&Skill) -> (Target, Vec<String>),
        files: &BTreeMap<String, String>,
        io: Io,
        caller: Caller<'_>,
    ) -> Result<Done, Box<CallToolResponse>> {
        let told = |text: String| Box::new(CallToolResponse::from(failed(text)));
        trace::about(entry);
        let workspace =
            self.workspace(caller.session, &entry.name, caller.context).await.map_err(told)?;
        let hidden = self.hidden.and(&entry.folder, "/skill");
        let hidden = workspace
            .folder
            .iter()
            .fold(hidden, |hidden, folder| hidden.and(folder.path(), "/workspace"));
        let loaded = self.service.runner().load_for_run(entry, &workspace.policy);
        let loaded = loaded.map_err(|error| told(hidden.text(&unclear(&error.into()))))?;
        let (target, args) = choose(&loaded.skill);
        let stdin = if let Stdin::Bytes(bytes) = &io.stdin { bytes.clone() } else { Vec::new() };
        let put: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let given = (stdin.as_slice(), put.as_slice());
        let call = Call::new(entry, &loaded, (&target, &args), given, &workspace, &hidden);
        trace::loaded(&loaded);
        let denied = self.may_run(&call, caller).instrument(debug_span!("approval")).await?;
        workspace.put(put.iter().copied()).map_err(told)?;
        let loaded = loaded.without_files(denied);
        let invoked = self.invoke(&loaded, &target, &args, io, caller).await;
        if let Some(event) = event(&invoked) {
            self.tally(caller.session, caller.context).note(&entry.name, || weight(entry), event);
        }
        let invoked = invoked.map_err(|error| told(hidden.text(&unclear(&error))))?;
        let diff = self.diff(&invoked, &hidden);
        let call = Call::new(entry, &loaded, (&target, &args), given, &workspace, &hidden);
        let aside = self.aside(&call, caller, &invoked, diff.as_ref());
        Ok(Done { invoked, diff, aside, folder: workspace.folder, hidden })
    }

    /// Runs it when its turn has come. A client that cancels, or is gone, ends it: it is recorded
    /// as interrupted.
    async fn invoke(
        &self,
        loaded: &LoadedSkill,
        target: &Target,
        args: &[String],
        io: Io,
        caller: Caller<'_>,
    ) -> Result<Invocation, ServiceError> {
        let started = Instant::now();
        let skill = loaded.skill.name.as_str();
        let running = self.service.invoke_loaded(loaded, target, args, io);
        let progress = Progress::new(caller.context, loaded.grant.capabilities.limits.timeout_ms);
        let result = tokio::select! {
            biased;
            result = running => Some(result),
            () = caller.context.ct.cancelled() => None,
            () = progress.tell() => None,
        };
        let took = started.elapsed();
        let Some(result) = result else {
            self.metrics.ended(skill, "interrupted", took, None);
            trace::ran("interrupted", None);
            tracing::info!(skill, "a run was cancelled by its client");
            return Err(ServiceError::Closed);
        };
        match &result {
            Ok(invoked) => {
                let outcome = &invoked.finished.outcome;
                let status = result::kind(&outcome.status);
                self.metrics.ended(skill, status, took, Some(outcome));
                trace::ran(status, Some(outcome));
                tracing::info!(
                    skill,
                    status,
                    wall_ms = outcome.usage.wall_ms,
                    denials = outcome.denials.len(),
                    "ran"
                );
                messages::ran(caller, skill, outcome).await;
            }
            Err(error) => {
                let status = if is_busy(error) { "busy" } else { "not-run" };
                self.metrics.ended(skill, status, took, None);
                trace::ran(status, None);
                tracing::warn!(skill, error = %self.hidden.text(&error.to_string()), "did not run");
            }
        }
        result
    }
}

/// The answer of a run, with what becomes of the changes that it kept aside.
fn noted(mut result: CallToolResult, aside: Option<String>) -> CallToolResponse {
    result.content.extend(aside.map(|text| note(&text)));
    result.into()
}

/// What counts of a run, as a record of it would: one that found no room, or is not valid, is none.
fn event(result: &Result<Invocation, ServiceError>) -> Option<UsageEvent> {
    match result {
        Ok(invoked) => {
            let outcome = &invoked.finished.outcome;
            let denials = outcome.denials.len() as u64;
            match outcome.status {
                Status::Denied(_) => Some(UsageEvent::Refused),
                Status::Invalid { .. } => None,
                Status::Exited { code } => Some(UsageEvent::Ran { succeeded: code == 0, denials }),
                _ => Some(UsageEvent::Ran { succeeded: false, denials }),
            }
        }
        // It was interrupted.
        Err(ServiceError::Closed) => Some(UsageEvent::Ran { succeeded: false, denials: 0 }),
        Err(_) => None,
    }
}

fn is_busy(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::Busy { .. }
            | ServiceError::SkillBusy { .. }
            | ServiceError::Memory { .. }
            | ServiceError::Closed
    )
}

/// What a program's name means: a file of the skill or one of its tools, a text for the shell, or a
/// command that the shell finds.
fn target(skill: &Skill, program: Option<String>, mut args: Vec<String>) -> (Target, Vec<String>) {
    let Some(program) = program.filter(|program| !program.is_empty()) else {
        return (Target::Main, args);
    };
    if !matches!(scripts::find(skill, &program), ScriptMatch::None) {
        return (Target::Named(program), args);
    }
    // Something with a path, or an extension, is meant as a file: that it is not there is told with
    // those that are.
    if program.contains(['/', '.']) && !program.starts_with('/') && !is_python(&program) {
        return (Target::Named(program), args);
    }
    if matches!(program.as_str(), "bash" | "sh")
        && args.first().is_some_and(|flag| matches!(flag.as_str(), "-c" | "-lc"))
        && args.len() > 1
    {
        let text = args.remove(1);
        args.remove(0);
        // `bash -c TEXT NAME ARGS`: the name is $0, which is the shell's here.
        let rest = args.into_iter().skip(1).collect();
        return (Target::Shell(text), rest);
    }
    args.insert(0, program);
    (Target::Shell("\"$@\"".into()), args)
}

fn is_python(program: &str) -> bool {
    program
        .strip_prefix("python3.")
        .is_some_and(|minor| minor.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Why there is no outcome, with what there is to choose from.
fn unclear(error: &ServiceError) -> String {
    let ServiceError::Invoke(RunError::Target(choice)) = error else { return error.to_string() };
    let names: Vec<&str> = choice
        .scripts
        .iter()
        .filter(|script| script.run.is_ok())
        .take(20)
        .map(|script| script.path.as_str())
        .collect();
    match (&choice.suggestion, names.is_empty()) {
        (Some(path), _) => format!("{choice}; did you mean `{path}`?"),
        (None, false) => format!("{choice}; there are: {}", names.join(", ")),
        (None, true) => choice.to_string(),
    }
}
