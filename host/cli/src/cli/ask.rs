//! Asks the person at the terminal, where a skill needs their word.

use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::path::Path;

use skillhost::invoke::{Invocation, LoadedSkill, Runner, Target};
use skillhost_ledger::approval::{
    ApprovalError, ApprovalRequest, Approvals, PendingId, PermissionLevel, Refusal, RunDecision,
    RunInput, SkillPart, StdinInput, Term,
};
use skillhost_policy::Policy;
use skillhost_policy::outcome::{Denial, DenialKind};

use super::exit::Exit;
use super::operator::is_terminal;
use super::places::Places;
use super::skills::Named;
use super::{Failure, show};

/// Whether a skill that is loaded may run. A folder that the operator named runs as it was named,
/// unless the policy or a level that was set says otherwise; a skill of the catalogue was put there
/// by someone, and is asked for as anyone's. Returns the skill's files that are not started with
/// it.
pub(super) fn before(
    host: &Runner,
    named: &Named,
    loaded: &LoadedSkill,
    target: &Target,
    args: &[String],
    policy: &Policy,
    places: &Places,
) -> Result<BTreeSet<String>, Failure> {
    let name = named.folder().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let approvals = places.approvals();
    if let Named::Path(folder) = named {
        let is_bound =
            policy.approval(&name).is_some_and(|level| level != PermissionLevel::AutoApproved);
        if !is_bound && !has_level(&approvals, &name, folder)? {
            return Ok(BTreeSet::new());
        }
    }
    // A skill without a digest does not run; the invocation says why, and is recorded.
    let Some(digest) = loaded.id().digest.as_deref() else { return Ok(BTreeSet::new()) };
    let (part, session) = (loaded.part_of(target), session());
    let (skill, capabilities) = (&*loaded.skill, &loaded.grant.capabilities);
    let stdin = if has_empty_stdin() { StdinInput::default() } else { StdinInput::Unread };
    let input = RunInput { stdin, ..target.input(args) };
    let trusted = approvals.is_trusted(skill, digest, &session).map_err(failure)?;
    let ask = ApprovalRequest {
        skill,
        digest,
        part: &part,
        capabilities,
        trusted,
        session_folder: None,
        session: &session,
        input,
    };
    let refused = |rule: &str, failure: Failure| {
        let rule = rule.to_owned();
        let denial = Denial { what: format!("run {name}"), rule, fix: None, kind: DenialKind::Run };
        match host.record_refusal(loaded, target, args, denial) {
            Ok(()) => failure,
            Err(error) => Failure::new(Exit::Io, error.to_string()),
        }
    };
    match approvals.decide(policy, &ask).map_err(failure)? {
        RunDecision::Allowed(denied) => Ok(denied),
        RunDecision::Refused(Refusal { why, fix }) => {
            Err(refused(&why, Failure::new(Exit::Denied, why.clone()).fix(fix)))
        }
        RunDecision::NeedsApproval(id, question) => match answer(&question.operator)? {
            Some(term) => {
                // One run is this very process: nothing is left that another could use.
                let decision = match term {
                    Term::Once => approvals.approve_current(policy, &ask, id, &person()),
                    term => approvals
                        .approve(id, term, &person())
                        .and_then(|_| approvals.decide(policy, &ask)),
                };
                match decision.map_err(failure)? {
                    RunDecision::Allowed(denied) => Ok(denied),
                    _ => Err(refused(
                        "it is not allowed any more",
                        Failure::new(
                            Exit::Denied,
                            format!("{name} is not allowed to run any more"),
                        ),
                    )),
                }
            }
            None if is_terminal() => {
                approvals.deny(id, &person()).map_err(failure)?;
                Err(refused(
                    "the user did not allow it",
                    Failure::new(Exit::Denied, format!("{name} was not allowed to run")),
                ))
            }
            None => Err(refused("it needs approval", unanswered(&name, id))),
        },
    }
}

/// Whether a level is set for a folder that was named by its path, or for skills of its name.
fn has_level(approvals: &Approvals, name: &str, folder: &Path) -> Result<bool, Failure> {
    if approvals.has_no_levels() {
        return Ok(false);
    }
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).display().to_string();
    let levels = [name, &real].map(|key| approvals.levels_of(key).map_err(failure));
    levels.into_iter().try_fold(false, |any, levels| Ok(any || !levels?.is_empty()))
}

/// Shows what a run would change in the folders, and changes it if the person at the terminal says
/// so. Where nobody is there, or nobody answers, it waits.
pub(super) fn to_apply(
    loaded: &LoadedSkill,
    invoked: &Invocation,
    target: &Target,
    places: &Places,
) -> Result<(), Failure> {
    let overlays = &invoked.finished.overlays;
    show::foreign(&overlays.diff())?;
    let digest = loaded
        .id()
        .digest
        .as_deref()
        .ok_or_else(|| Failure::new(Exit::Io, "the skill's files cannot be digested"))?;
    let (part, session, approvals) = (loaded.part_of(target), session(), places.approvals());
    let (skill, capabilities) = (&*invoked.skill, &invoked.grant.capabilities);
    let ask = ApprovalRequest {
        skill,
        digest,
        part: &part,
        capabilities,
        trusted: true,
        session_folder: None,
        session: &session,
        input: RunInput::default(),
    };
    let waits = match approvals.stage(&ask, overlays) {
        // What is too much to wait is written now or never.
        Err(ApprovalError::TooLarge | ApprovalError::QueueFull(_)) if is_terminal() => None,
        waits => Some(waits.map_err(failure)?),
    };
    if let Some(id) = waits.filter(|_| !is_terminal()) {
        show::warning(
            "the policy keeps writes aside, so nothing of this was written",
            Some(&format!("skillhost approve {id}")),
        );
        return Ok(());
    }
    // Repeated where the question is: the diff may be long, or have gone to a file.
    show::changes(&invoked.finished.outcome.changes);
    let again = |error: &dyn std::fmt::Display| {
        Failure::new(Exit::Io, error.to_string()).fix("run it again")
    };
    match (line("write these changes? [y/N] ")?.eq_ignore_ascii_case("y"), waits) {
        (true, Some(id)) => {
            approvals.approve(id, Term::Once, &person()).map(drop).map_err(|error| again(&error))
        }
        (true, None) => overlays.apply().map_err(|error| again(&error)),
        (false, waits) => {
            if let Some(id) = waits {
                approvals.deny(id, &person()).map_err(failure)?;
            }
            show::note("nothing was written");
            Ok(())
        }
    }
}

/// Who answers, as records name them.
pub(super) fn person() -> String {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let name = std::env::var("USER").ok().filter(|name| !name.is_empty());
    let uid = rustix::process::getuid().as_raw();
    name.map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

/// What goes wrong with the approvals: then nothing runs.
pub(super) fn failure(error: ApprovalError) -> Failure {
    let exit = match error {
        ApprovalError::NotPending(_) => Exit::Usage,
        _ => Exit::Io,
    };
    Failure::new(exit, error.to_string())
}

/// The session of the kernel, setsid(2), that this process belongs to: its number and when its
/// leader started, since numbers are reused. Where the leader is not visible (it has exited, or
/// runs outside this PID namespace), the start of the namespace stands in for it.
fn session() -> String {
    #[expect(clippy::disallowed_methods, reason = "the kernel describes processes in files")]
    let read = |path: &str| std::fs::read_to_string(path).ok();
    // proc_pid_stat(5): the name, in parentheses, may hold anything; the fields are counted behind
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

/// Whether stdin is `/dev/null`. Any other is a stream, which is not read before the run may start.
fn has_empty_stdin() -> bool {
    let null = rustix::fs::stat("/dev/null").map(|null| null.st_rdev);
    rustix::fs::fstat(std::io::stdin())
        .is_ok_and(|stdin| stdin.st_rdev != 0 && Ok(stdin.st_rdev) == null)
}

fn unanswered(name: &str, id: PendingId) -> Failure {
    Failure::new(
        Exit::Denied,
        format!("{name} needs approval: `skillhost pending` shows what it asks for"),
    )
    .fix(format!("skillhost approve {id} --once, --session or --always, and run it again"))
}

/// The term that the person at the terminal says; `None`: no, or nobody is there.
fn answer(text: &str) -> Result<Option<Term>, Failure> {
    show::note(text);
    if !is_terminal() {
        return Ok(None);
    }
    Ok(
        match line("allow it? [o]nce, for this [s]ession, [a]lways, [N]o: ")?
            .to_ascii_lowercase()
            .as_str()
        {
            "o" | "once" => Some(Term::Once),
            "s" | "session" => Some(Term::Session),
            "a" | "always" => Some(Term::Always),
            _ => None,
        },
    )
}

fn line(question: &str) -> Result<String, Failure> {
    show::question(question);
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::new(Exit::Io, format!("the answer cannot be read: {error}")))?;
    Ok(line.trim().to_owned())
}

/// A level that was set, or an approval, in words.
pub(super) fn of(skill: &str, part: &SkillPart) -> String {
    match part {
        SkillPart::Skill => skill.to_owned(),
        SkillPart::Program(name) => format!("{skill}, {name}"),
        SkillPart::Tool(name) => format!("{skill}, tool {name}"),
        SkillPart::Command => format!("{skill}, shell commands"),
    }
}

/// The approvals of this user.
pub(super) fn approvals() -> Result<Approvals, Failure> {
    Ok(Places::find()?.approvals())
}
