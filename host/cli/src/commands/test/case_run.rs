//! One run of one case, in folders of its own.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, openat};
use skillhost::invoke::{LoadedSkill, RunError, Runner, Target};
use skillhost_ledger::approval::StdinInput;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::case::{BlessError, CaseTarget, Difference, Observed, ObservedFile};
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_policy::{Overrides, WORKSPACE};
use skillhost_sandbox::files::NewEntry;
use skillhost_sandbox::{Io, Overlays, Stdin};
use skillhost_skill::cases::SkillCase;
use skillhost_skill::private::{Purpose, TempFolder};

use super::suite::Suite;
use super::{Args, native_run};
use crate::commands::run::approval::{self, RequestedRun};
use crate::context::Context;
use crate::error::{CliError, Exit};

/// The most bytes of staged files that are compared.
const MAX_STAGED: u64 = 64 << 20;

/// The most bytes that are kept of the differences of one case. There may be many cases.
const MAX_DIFFERENCES: usize = 1 << 20;

/// A case that is ready to run: its skill is loaded, and its run is allowed.
pub(super) struct CaseRun {
    case: Arc<SkillCase>,
    loaded: LoadedSkill,
    target: Target,
    stdin: Vec<u8>,
    /// Removed when the run has been compared.
    folder: TempFolder,
    is_native: bool,
    is_blessed: bool,
}

/// How the run of a case compares.
pub(super) struct CaseResult {
    /// Why there is nothing to compare.
    pub(super) problem: Option<String>,
    /// How the run differs from the expectations.
    pub(super) differences: Vec<Difference>,
    /// How the run outside the sandbox differs from the one inside. `None` without `--native`.
    pub(super) native: Option<Vec<Difference>>,
    /// Why the run ended, if it did not exit.
    pub(super) ending: Option<String>,
    /// With `--bless`, the text of a case that the run meets, if it does not meet the present one.
    pub(super) blessed: Option<Result<String, BlessError>>,
    pub(super) wall_ms: f64,
}

impl CaseRun {
    /// Loads the skill for a case, and asks for approval if the run needs it.
    pub(super) fn prepare(
        suite: &Suite,
        case: &Arc<SkillCase>,
        args: &Args,
        context: &Context,
        host: &Runner,
    ) -> Result<CaseRun, CliError> {
        let failed =
            |error: io::Error| CliError::io(format_args!("prepare the case {}", case.name), error);
        let scratch = context.places.scratch.canonicalize().map_err(failed)?;
        let folder = TempFolder::new_in(&scratch, Purpose::Test).map_err(failed)?;
        folder.create("workspace").map_err(failed)?;
        let workspace = folder.path().join("workspace");
        let overrides = Overrides {
            workspace: Some((workspace.clone(), MountMode::Write)),
            ..Overrides::default()
        };
        let policy = context.policy.clone().with_command_line(overrides).map_err(|findings| {
            CliError::usage("the policy does not allow a workspace").findings(findings, "")
        })?;
        let stdin = case.stdin().map_err(|error| {
            CliError::invalid(format!("cannot read the stdin of the case {}: {error}", case.name))
        })?;
        let loaded = host.load_for_run(suite.skill.skill_folder(), &policy)?;
        let target = target(&case.case.target);
        let denied = approval::before_run(&RequestedRun {
            host,
            places: &context.places,
            policy: &policy,
            skill: &suite.skill,
            loaded: &loaded,
            target: &target,
            args: &case.case.args,
            stdin: StdinInput::Whole(&stdin),
            temporary: Some(&workspace),
            needs_approval: loaded.grant.needs_approval || args.native,
            json: args.json,
        })?;
        let (loaded, case) = (loaded.without_files(denied), case.clone());
        Ok(CaseRun {
            case,
            loaded,
            target,
            stdin,
            folder,
            is_native: args.native,
            is_blessed: args.bless,
        })
    }

    /// Runs the case, and compares the result with what it expects.
    ///
    /// # Errors
    /// The run could not be recorded, or was interrupted.
    pub(super) async fn run(self, host: &Runner) -> Result<CaseResult, CliError> {
        let workspace = self.folder_at("workspace").and_then(|fd| self.case.workspace(fd));
        let workspace = match workspace {
            Ok(workspace) => workspace,
            Err(error) => return Ok(problem(format!("cannot fill the workspace: {error}"))),
        };
        let io = Io {
            stdin: if self.stdin.is_empty() {
                Stdin::Empty
            } else {
                Stdin::Bytes(self.stdin.clone())
            },
            ..Io::default()
        };
        // A test must not see the state of the operator's own runs.
        let own = host.with_state(self.folder.path().join("state"));
        let args = &self.case.case.args;
        let invoked = match own.invoke_loaded(&self.loaded, &self.target, args, io).await {
            Ok(invoked) => invoked,
            Err(RunError::Target(choice)) => {
                let meant = choice.suggestion.map(|path| format!("; did you mean `{path}`?"));
                return Ok(problem(format!("{}{}", choice.message, meant.unwrap_or_default())));
            }
            Err(error) => return Err(error.into()),
        };
        let outcome = invoked.finished.outcome;
        match &outcome.status {
            Status::Interrupted => return Err(CliError::new(Exit::Interrupted, "interrupted")),
            Status::Invalid { message, fix } | Status::Failed { message, fix } => {
                let fix = fix.as_ref().map_or_else(String::new, |fix| format!("\n{fix}"));
                return Ok(problem(format!("{message}{fix}")));
            }
            _ => {}
        }
        let mut files = match workspace.changes() {
            Ok(files) => files,
            Err(error) => return Ok(problem(format!("cannot compare the workspace: {error}"))),
        };
        if let Err(error) = add_staged(&mut files, &invoked.finished.overlays) {
            return Ok(problem(format!("cannot compare the staged files: {error}")));
        }
        let (wall_ms, ending) = (outcome.usage.wall_ms, ending(&outcome));
        let observed = observed(outcome, files);
        let expect = &self.case.case.expect;
        let differences = expect.differences(&observed);
        let blessed = (self.is_blessed && !differences.is_empty())
            .then(|| self.case.blessed(&expect.updated(&observed)));
        let native = match self.is_native {
            true => self.run_natively(host, &observed)?,
            false => None,
        };
        let (differences, native) = (bounded(differences), native.map(bounded));
        Ok(CaseResult { problem: None, differences, native, ending, blessed, wall_ms })
    }

    fn run_natively(
        &self,
        host: &Runner,
        observed: &Observed,
    ) -> Result<Option<Vec<Difference>>, CliError> {
        let program = host.program(&self.loaded, &self.target, &self.case.case.args).ok();
        let Some(program) = program.filter(|program| program.script.is_some()) else {
            return Ok(None);
        };
        let (case, skill) = (&self.case, &self.loaded.skill);
        // A program of the machine may run for long.
        tokio::task::block_in_place(|| {
            native_run::differences(&program, skill, case, &self.stdin, &self.folder, observed)
        })
        .map(Some)
    }

    fn folder_at(&self, name: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.folder, name, flags, Mode::empty())?)
    }
}

fn target(target: &CaseTarget) -> Target {
    match target {
        CaseTarget::Main => Target::Main,
        CaseTarget::Script(name) => Target::Named(name.clone()),
        CaseTarget::Tool { name, input } => {
            Target::Tool { name: name.clone(), input: input.to_string() }
        }
        CaseTarget::Command(text) => Target::Shell(text.clone()),
    }
}

/// Adds the changes of the workspace that the policy stages.
fn add_staged(files: &mut BTreeMap<String, ObservedFile>, overlays: &Overlays) -> io::Result<()> {
    let staged = overlays.staged(MAX_STAGED)?;
    for change in staged.into_iter().filter(|change| change.guest == WORKSPACE) {
        let file = match change.after {
            None => ObservedFile::Removed,
            Some(NewEntry::File { bytes, .. }) => ObservedFile::Content(bytes),
            Some(NewEntry::Link(target)) => ObservedFile::Link(target),
            Some(NewEntry::Folder) => continue,
        };
        files.insert(change.path, file);
    }
    Ok(())
}

fn observed(outcome: Outcome, files: BTreeMap<String, ObservedFile>) -> Observed {
    let exit = Exit::of(&outcome.status).number();
    let mut denials: Vec<String> = outcome.denials.into_iter().map(|denial| denial.what).collect();
    if let Status::Denied(denial) = outcome.status {
        denials.push(denial.what);
    }
    Observed {
        exit,
        stdout: outcome.stdout.0,
        stderr: outcome.stderr.0,
        result: outcome.result,
        error: outcome.error,
        files,
        denials,
    }
}

/// Cuts differences that are too long, and counts those that are left out.
fn bounded(all: Vec<Difference>) -> Vec<Difference> {
    let (mut kept, mut left, count) = (Vec::new(), MAX_DIFFERENCES, all.len());
    for mut difference in all {
        if left == 0 {
            let what = format!("{} more", count - kept.len());
            let (expected, found) = ("no differences".into(), "differences".into());
            kept.push(Difference { what, expected, found, is_text: false });
            break;
        }
        for text in [&mut difference.expected, &mut difference.found] {
            if text.len() > left {
                text.truncate(text.floor_char_boundary(left));
                text.push_str("... (cut)");
            }
            left = left.saturating_sub(text.len());
        }
        kept.push(difference);
    }
    kept
}

/// Why a run ended that did not exit.
fn ending(outcome: &Outcome) -> Option<String> {
    Some(match &outcome.status {
        Status::Denied(denial) => format!("denied: {}: {}", denial.what, denial.rule),
        Status::LimitHit(hit) => hit.explain(),
        Status::Trapped { message } => format!("the guest trapped: {message}"),
        Status::Aborted { reason } => format!("deterministic run aborted (no result): {reason}"),
        Status::Exited { .. }
        | Status::Invalid { .. }
        | Status::Failed { .. }
        | Status::Interrupted => return None,
    })
}

fn problem(text: String) -> CaseResult {
    CaseResult {
        problem: Some(text),
        differences: Vec::new(),
        native: None,
        ending: None,
        blessed: None,
        wall_ms: 0.0,
    }
}
