//! The operator's approval of a run, and of the changes that it made.

use std::collections::BTreeSet;
use std::path::Path;

use skillhost::invoke::{Invocation, LoadedSkill, Runner, Target};
use skillhost_ledger::approval::{
    ApprovalError, ApprovalRequest, Approvals, Forecast, PendingId, PermissionLevel, RunDecision,
    RunInput, SkillPart, StdinInput, Term,
};
use skillhost_policy::outcome::{Denial, DenialKind};
use skillhost_policy::{Policy, Verdict};

use super::plan::Plan;
use crate::args::skills::SkillRef;
use crate::context::{Context, Places};
use crate::error::{CliError, Exit};
use crate::{operator, output, terminal};

/// A run that is about to start, and what decides whether it is allowed.
pub(crate) struct RequestedRun<'a> {
    pub(crate) host: &'a Runner,
    pub(crate) places: &'a Places,
    pub(crate) policy: &'a Policy,
    pub(crate) skill: &'a SkillRef,
    pub(crate) loaded: &'a LoadedSkill,
    pub(crate) target: &'a Target,
    pub(crate) args: &'a [String],
    pub(crate) stdin: StdinInput<'a>,
    /// A temporary folder of the host, in which writes are harmless.
    pub(crate) temporary: Option<&'a Path>,
    /// Whether it needs approval whatever its level.
    pub(crate) needs_approval: bool,
    pub(crate) json: bool,
}

impl<'a> RequestedRun<'a> {
    /// The run of a plan.
    pub(super) fn of(plan: &'a Plan, loaded: &'a LoadedSkill) -> RequestedRun<'a> {
        RequestedRun {
            host: &plan.host,
            places: &plan.context.places,
            policy: &plan.context.policy,
            skill: &plan.skill,
            loaded,
            target: &plan.target,
            args: &plan.args,
            stdin: if has_empty_stdin() { StdinInput::default() } else { StdinInput::Unread },
            temporary: None,
            needs_approval: loaded.grant.needs_approval,
            json: plan.json,
        }
    }
}

/// Checks whether a run is allowed, and asks the operator if that is not decided. Returns the
/// skill's files that the run must not start.
///
/// A folder that the operator named runs, unless the policy or a permission level says otherwise, or
/// the skill is granted something by another client's name for a tool.
/// Someone else may have put a skill of the catalog there, so it needs approval as from any client.
pub(crate) fn before_run(run: &RequestedRun<'_>) -> Result<BTreeSet<String>, CliError> {
    let &RequestedRun { host, policy, loaded, target, args, needs_approval, .. } = run;
    let name = run.skill.name();
    let approvals = run.places.approvals();
    if let SkillRef::Path(folder) = run.skill
        && !needs_approval
    {
        let is_bound =
            policy.approval(&name).is_some_and(|level| level != PermissionLevel::AutoApproved);
        if !is_bound && !has_level(&approvals, &name, folder)? {
            return Ok(BTreeSet::new());
        }
    }
    // A skill without a digest does not run; the invocation says why and is recorded.
    let Some(digest) = loaded.id().digest.as_deref() else { return Ok(BTreeSet::new()) };
    // Such a run starts nothing: the invocation says why, and is recorded.
    if !loaded.has_target(target) {
        return Ok(BTreeSet::new());
    }
    let (part, session) = (loaded.part_of(target), session());
    let skill = &*loaded.skill;
    let ask = ApprovalRequest {
        needs_approval,
        trusted: approvals.is_trusted(skill, digest, &session)?,
        session_folder: run.temporary,
        input: RunInput { stdin: run.stdin, ..target.input(args) },
        ..request(loaded, digest, &part, &session)
    };
    let refused = |rule: &str, error: CliError| {
        let rule = rule.to_owned();
        let denial = Denial { what: format!("run {name}"), rule, fix: None, kind: DenialKind::Run };
        match host.record_refusal(loaded, target, args, denial) {
            Ok(()) => error,
            Err(error) => CliError::new(Exit::Io, error.to_string()),
        }
    };
    let (id, question) = match approvals.decide(policy, &ask)? {
        RunDecision::Allowed(denied) => return Ok(denied),
        RunDecision::Refused(refusal) => {
            let section = policy.approval_block(&name).filter(|_| refusal.by_policy && !run.json);
            let message = section
                .map_or_else(|| refusal.operator_why(), |section| format!("{name} is {section}"));
            let error = CliError::new(Exit::Denied, message).fix(refusal.operator_fix());
            return Err(refused(&refusal.why, error));
        }
        RunDecision::NeedsApproval(id, question) => (id, question),
    };
    output::explanation(&question.operator);
    if loaded.grant.needs_approval {
        let decisions = loaded.grant.decisions.iter().filter(|d| d.verdict == Verdict::Approval);
        let names: Vec<&str> = decisions.map(|decision| decision.entry.as_str()).collect();
        output::note(&format!(
            "it asks because allowed-tools uses other clients' names for tools: {}",
            names.join(", ")
        ));
    }
    if !terminal::is_interactive() {
        return Err(refused("it needs approval", unapproved(&name, id)));
    }
    let Some(term) = ask_for_term()? else {
        approvals.deny(id, &operator::name())?;
        let error = CliError::new(Exit::Denied, format!("{name} was not allowed to run"));
        return Err(refused("the operator did not allow it", error));
    };
    // Approval for one run is for this very process: nothing is left that another could use.
    let decision = match term {
        Term::Once => approvals.approve_current(policy, &ask, id, &operator::name())?,
        term => {
            approvals.approve(id, term, &operator::name())?;
            approvals.decide(policy, &ask)?
        }
    };
    match decision {
        RunDecision::Allowed(denied) => Ok(denied),
        _ => {
            let message = format!("{name} is no longer allowed to run");
            Err(refused("it is no longer allowed", CliError::new(Exit::Denied, message)))
        }
    }
}

/// Foresees whether a run of a skill of the catalog will start, for a process that starts it later
/// without a terminal.
pub(crate) fn forecast(
    context: &Context,
    loaded: &LoadedSkill,
    target: &Target,
    args: &[String],
) -> Result<Forecast, CliError> {
    let digest = loaded.id().digest.as_deref().ok_or_else(undigested)?;
    let (approvals, part) = (context.places.approvals(), loaded.part_of(target));
    // Approvals for a session are not for the process that will run.
    let session = "";
    let ask = ApprovalRequest {
        trusted: approvals.is_trusted(&loaded.skill, digest, session)?,
        input: target.input(args),
        ..request(loaded, digest, &part, session)
    };
    Ok(approvals.forecast(&context.policy, &ask)?)
}

/// Returns the request for a run of an untrusted skill without input.
fn request<'a>(
    loaded: &'a LoadedSkill,
    digest: &'a str,
    part: &'a SkillPart,
    session: &'a str,
) -> ApprovalRequest<'a> {
    ApprovalRequest {
        skill: &loaded.skill,
        digest,
        part,
        capabilities: &loaded.grant.capabilities,
        needs_approval: loaded.grant.needs_approval,
        trusted: false,
        session_folder: None,
        session,
        input: RunInput::default(),
    }
}

fn undigested() -> CliError {
    CliError::new(Exit::Io, "the skill's files cannot be digested")
}

/// Shows the changes that a run made in the folders, and applies them if the operator at the
/// terminal says so. Without a terminal they stay pending.
pub(super) fn before_apply(
    plan: &Plan,
    loaded: &LoadedSkill,
    invoked: &Invocation,
) -> Result<(), CliError> {
    let overlays = &invoked.finished.overlays;
    output::diff(&overlays.diff())?;
    let digest = loaded.id().digest.as_deref().ok_or_else(undigested)?;
    let (part, session) = (loaded.part_of(&plan.target), session());
    let approvals = plan.context.places.approvals();
    let ask = ApprovalRequest {
        skill: &invoked.skill,
        capabilities: &invoked.grant.capabilities,
        trusted: true,
        ..request(loaded, digest, &part, &session)
    };
    let pending = match approvals.stage(&ask, overlays) {
        // Changes that are too large to keep are applied now or never.
        Err(ApprovalError::TooLarge | ApprovalError::QueueFull(_))
            if terminal::is_interactive() =>
        {
            None
        }
        staged => Some(staged?),
    };
    if let Some(id) = pending.filter(|_| !terminal::is_interactive()) {
        let message = "the policy stages writes, so these changes are not written yet";
        output::warning(message, Some(&format!("skillhost approve {id}")));
        return Ok(());
    }
    // Listed next to the question: the diff may be long, or have gone to a file.
    output::changes(&invoked.finished.outcome.changes);
    let failed = |error: &dyn std::fmt::Display| {
        CliError::new(Exit::Io, error.to_string()).fix("run it again")
    };
    let answer = terminal::ask("write these changes? [y/N] ")?.to_ascii_lowercase();
    let is_approved = matches!(answer.as_str(), "y" | "yes");
    match (is_approved, pending) {
        (true, Some(id)) => approvals
            .approve(id, Term::Once, &operator::name())
            .map(drop)
            .map_err(|error| failed(&error)),
        (true, None) => overlays.apply().map_err(|error| CliError::apply(&error)),
        (false, pending) => {
            if let Some(id) = pending {
                approvals.deny(id, &operator::name())?;
            }
            output::note("nothing was written");
            Ok(())
        }
    }
}

/// Whether a permission level is set for a folder that was named by its path, or for skills of its
/// name.
fn has_level(approvals: &Approvals, name: &str, folder: &Path) -> Result<bool, CliError> {
    if approvals.has_no_levels() {
        return Ok(false);
    }
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).display().to_string();
    for key in [name, &real] {
        if !approvals.levels_of(key)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The kernel's session, setsid(2), of this process: its number, and when its leader started, since
/// numbers are reused. If the leader is not visible (it has exited, or runs outside this PID
/// namespace), the start of the namespace stands in for it.
fn session() -> String {
    #[expect(clippy::disallowed_methods, reason = "the kernel describes processes in files")]
    let read = |path: &str| std::fs::read_to_string(path).ok();
    // proc_pid_stat(5): the name, in parentheses, may contain anything, so fields are counted after
    // it.
    let stat = |process: &str, field: usize| {
        let stat = read(&format!("/proc/{process}/stat"))?;
        Some(stat.rsplit_once(')')?.1.split_whitespace().nth(field)?.to_owned())
    };
    let of = || {
        let leader = stat("self", 3)?;
        let boot = read("/proc/sys/kernel/random/boot_id")?;
        let since = match stat(&leader, 19) {
            Some(started) => format!("leader {started}"),
            // While any process of a session lives, no other session gets its number.
            None => format!(
                "namespace {} {}",
                rustix::fs::stat("/proc/self/ns/pid").ok()?.st_ino,
                stat("1", 19)?
            ),
        };
        Some(format!("session {leader} {since} {}", boot.trim()))
    };
    of().unwrap_or_else(|| format!("process {}", std::process::id()))
}

/// Whether stdin is `/dev/null`. Anything else is a stream, which is not read before the run is
/// allowed.
fn has_empty_stdin() -> bool {
    let null = rustix::fs::stat("/dev/null").map(|null| null.st_rdev);
    rustix::fs::fstat(std::io::stdin())
        .is_ok_and(|stdin| stdin.st_rdev != 0 && Ok(stdin.st_rdev) == null)
}

fn unapproved(name: &str, id: PendingId) -> CliError {
    let message = format!("{name} needs approval; `skillhost pending` shows what it requests");
    CliError::new(Exit::Denied, message)
        .fix(format!("skillhost approve {id} --once, --session or --always, then run it again"))
}

/// Asks the operator for how long to allow a run; `None` if they do not allow it.
fn ask_for_term() -> Result<Option<Term>, CliError> {
    let answer = terminal::ask("allow it? [o]nce (or y), for this [s]ession, [a]lways, [N]o: ")?;
    Ok(match answer.to_ascii_lowercase().as_str() {
        "y" | "yes" | "o" | "once" => Some(Term::Once),
        "s" | "session" => Some(Term::Session),
        "a" | "always" => Some(Term::Always),
        _ => None,
    })
}
