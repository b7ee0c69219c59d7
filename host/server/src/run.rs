//! `run_skill` and typed tools: run through the service, under the operator's policy and into the
//! audit log; report progress, and stop when the client disconnects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use rmcp::model::{CallToolResponse, CallToolResult, JsonObject};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde_json::Value;
use tracing::{Instrument as _, debug_span};

use super::approval::Call;
use super::definitions::{ACTIVATE, is_object, weight};
use super::folders::Folder;
use super::hidden::HostPaths;
use super::messages::Progress;
use super::question::Answer;
use super::result::{self, failed};
use super::session::Session;
use super::writes::{Diff, note};
use super::{Shared, messages, trace};
use skillhost::invoke::{Invocation, LoadedSkill, RunError, Target};
use skillhost::service::ServiceError;
use skillhost_catalog::CatalogEntry;
use skillhost_ledger::audit::SessionRecord;
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

/// The client that makes a call.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) session: &'a Session,
    pub(super) context: &'a RequestContext<RoleServer>,
    /// The answer to an earlier question, since revision 2026-07-28.
    pub(super) answer: Option<&'a Answer>,
}

impl Caller<'_> {
    /// Names the session and the client in audit records.
    pub(super) fn record(&self) -> SessionRecord {
        let id = (!self.session.is_alone(self.context)).then(|| self.session.id(self.context));
        let client = self.context.client_info().map(|client| client.name);
        SessionRecord::new(id, client.as_deref())
    }
}

/// A run with an outcome.
struct FinishedCall {
    invoked: Invocation,
    /// The diff of its staged writes.
    diff: Option<Diff>,
    /// What happens to the staged writes.
    aside: Option<String>,
    folder: Option<Arc<Folder>>,
    hidden: HostPaths,
}

impl Shared {
    pub(super) async fn run(&self, input: Input, caller: Caller<'_>) -> CallToolResponse {
        let Some(entry) = self.entry_in(caller.session, &input.name) else {
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
            Ok(FinishedCall { invoked, diff, aside, folder, hidden }) => {
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
            Ok(FinishedCall { invoked, aside, hidden, .. }) => {
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

    /// Prepares and runs a call. The error is the answer for the client.
    async fn carry_out(
        &self,
        entry: &CatalogEntry,
        choose: impl FnOnce(&Skill) -> (Target, Vec<String>),
        files: &BTreeMap<String, String>,
        io: Io,
        caller: Caller<'_>,
    ) -> Result<FinishedCall, Box<CallToolResponse>> {
        let failure = |text: String| Box::new(CallToolResponse::from(failed(text)));
        trace::about(entry);
        let workspace =
            self.workspace(caller.session, entry, caller.context).await.map_err(failure)?;
        let hidden = self.hidden.and(&entry.folder, "/skill");
        let hidden = workspace
            .folder
            .iter()
            .fold(hidden, |hidden, folder| hidden.and(folder.path(), "/workspace"));
        let runner = self.service.runner().in_session(caller.record());
        let loaded = self.load_in(entry, &workspace, &runner);
        let loaded = loaded.map_err(|error| failure(hidden.text(&unclear(&error.into()))))?;
        let (target, args) = choose(&loaded.skill);
        let stdin = if let Stdin::Bytes(bytes) = &io.stdin { bytes.clone() } else { Vec::new() };
        let put: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let given = (stdin.as_slice(), put.as_slice());
        let call = Call::new(entry, &loaded, (&target, &args), given, &workspace, &hidden);
        trace::loaded(&loaded);
        let denied = self.may_run(&call, caller).instrument(debug_span!("approval")).await?;
        workspace.put(put.iter().copied()).map_err(failure)?;
        let loaded = loaded.without_files(denied);
        let folder = workspace.folder.as_deref();
        folder.inspect(|folder| folder.begin());
        let invoked = self.invoke(&loaded, &target, &args, io, caller).await;
        // A run that was interrupted may not have ended yet.
        if let (Some(folder), Ok(invoked)) = (folder, &invoked) {
            folder.end(&invoked.finished.outcome);
        }
        if let Some(event) = event(&invoked) {
            self.tally(caller.session, caller.context).count(&entry.name, || weight(entry), event);
        }
        let invoked = invoked.map_err(|error| failure(hidden.text(&unclear(&error))))?;
        let diff = self.diff(&invoked, &hidden);
        let call = Call::new(entry, &loaded, (&target, &args), given, &workspace, &hidden);
        let aside = self.aside(&call, caller, &invoked, diff.as_ref());
        Ok(FinishedCall { invoked, diff, aside, folder: workspace.folder, hidden })
    }

    /// Runs the program when it is its turn. If the client cancels or disconnects, the run ends,
    /// and is recorded as interrupted.
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

/// Returns the answer of a run, with a note about its staged writes.
fn noted(mut result: CallToolResult, aside: Option<String>) -> CallToolResponse {
    result.content.extend(aside.map(|text| note(&text)));
    result.into()
}

/// Returns what usage counts for a run, which matches its record. Busy and invalid runs do not
/// count.
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
        // The run was interrupted.
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

/// Resolves the name of a program: to a file or tool of the skill, a command line for the shell, or
/// a command that the shell finds.
fn target(skill: &Skill, program: Option<String>, mut args: Vec<String>) -> (Target, Vec<String>) {
    let Some(program) = program.filter(|program| !program.is_empty()) else {
        return (Target::Main, args);
    };
    if !matches!(scripts::find(skill, &program), ScriptMatch::None) {
        return (Target::Named(program), args);
    }
    // A name with a path or an extension means a file. If it does not exist, the error lists the
    // files that do.
    if program.contains(['/', '.']) && !program.starts_with('/') && !is_python(&program) {
        return (Target::Named(program), args);
    }
    if matches!(program.as_str(), "bash" | "sh")
        && args.first().is_some_and(|flag| matches!(flag.as_str(), "-c" | "-lc"))
        && args.len() > 1
    {
        let text = args.remove(1);
        args.remove(0);
        // In `bash -c TEXT NAME ARGS`, NAME is $0, which the shell sets itself here.
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

/// Explains why there is no outcome, and lists the choices.
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
        (None, false) => format!("{choice}; available: {}", names.join(", ")),
        (None, true) => choice.to_string(),
    }
}
