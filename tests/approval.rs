//! Approvals: which runs start, which need approval, and which are refused; what an approval
//! covers.

mod blocked;
mod commands;
mod folders;
mod inputs;
mod operator;
mod scopes;
mod terminal;
mod texts;

use std::path::PathBuf;

use skillhost_ledger::approval::{
    ApprovalError, ApprovalRequest, Approvals, PendingId, PermissionLevel, QueueLimit, RunDecision,
    RunInput, SkillPart, Term,
};
use skillhost_policy::capabilities::{Capabilities, MountMode};
use skillhost_policy::{Overrides, Policy, grant, load};
use skillhost_skill::{Skill, SkillFolder, SourceKind};
use tempfile::TempDir;

/// The decision that allows a run without denied files.
fn allowed() -> RunDecision {
    RunDecision::Allowed(Default::default())
}

/// A skill, and a folder for approvals.
struct Place(TempDir);

impl Place {
    fn new(frontmatter: &str) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        std::fs::create_dir(place.0.path().join("report")).unwrap();
        place.write(
            "SKILL.md",
            &format!("---\nname: report\ndescription: Reports.\n{frontmatter}---\nDo it.\n"),
        );
        place
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.0.path().join("report").join(file), text).unwrap();
    }

    fn approvals(&self) -> Approvals {
        Approvals::open(&self.0.path().join("state/approvals.db"))
    }

    fn skill(&self) -> Skill {
        let folder = self.0.path().join("report");
        Skill::load_from(SkillFolder::new(&folder, SourceKind::User), &Default::default()).unwrap()
    }

    fn decide(&self, run: &Run) -> RunDecision {
        let skill = self.skill();
        let digest = skill.digest().unwrap();
        let grant = grant(&skill.policy_manifest(), &run.policy);
        let ask = ApprovalRequest {
            skill: &skill,
            digest: &digest,
            part: &run.part,
            capabilities: &grant.capabilities,
            needs_approval: grant.needs_approval,
            trusted: run.trusted,
            session_folder: run.session_folder.as_deref(),
            session: run.session,
            input: RunInput::default(),
        };
        self.approvals().decide(&run.policy, &ask).unwrap()
    }

    fn asks(&self, run: &Run) -> (PendingId, String) {
        match self.decide(run) {
            RunDecision::NeedsApproval(id, question) => (id, question.client),
            other => panic!("{other:?}"),
        }
    }

    fn refused(&self, run: &Run) -> String {
        match self.decide(run) {
            RunDecision::Refused(refusal) => refusal.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

/// A run to decide about.
#[derive(Clone)]
struct Run {
    policy: Policy,
    part: SkillPart,
    trusted: bool,
    session_folder: Option<PathBuf>,
    session: &'static str,
}

fn policy(text: &str, change: impl FnOnce(&mut Overrides)) -> Policy {
    let mut overrides = Overrides::default();
    change(&mut overrides);
    let policy = if text.is_empty() {
        Policy::builtin()
    } else {
        load("policy.yaml".as_ref(), text, None).unwrap()
    };
    policy.with_command_line(overrides).unwrap()
}

/// The built-in policy with a workspace: writing there needs approval.
fn writing() -> Run {
    Run {
        policy: policy("", |flags| flags.workspace = Some(("/srv/work".into(), MountMode::Write))),
        part: SkillPart::Skill,
        trusted: true,
        session_folder: None,
        session: "one",
    }
}

/// The built-in policy without a workspace.
fn harmless() -> Run {
    Run { policy: policy("", |_| {}), ..writing() }
}

fn under(text: &str) -> Run {
    Run { policy: policy(text, |_| {}), ..writing() }
}

#[test]
fn harmless_runs_start_and_create_no_file() {
    let place = Place::new("");
    assert_eq!(place.decide(&harmless()), allowed());
    assert!(!place.0.path().join("state").exists());
}

#[test]
fn writing_or_untrusted_skills_need_approval() {
    let place = Place::new("");
    place.asks(&writing());
    place.asks(&Run { trusted: false, ..harmless() });
    let readonly =
        policy("", |flags| flags.workspace = Some(("/srv/work".into(), MountMode::Read)));
    assert_eq!(place.decide(&Run { policy: readonly, ..writing() }), allowed());
    let staged =
        policy("", |flags| flags.workspace = Some(("/srv/work".into(), MountMode::Overlay)));
    assert_eq!(place.decide(&Run { policy: staged, ..writing() }), allowed());
    assert_eq!(
        place.decide(&Run { session_folder: Some("/srv/work".into()), ..writing() }),
        allowed(),
        "the folder of a session"
    );
    let reads = Place::new("allowed-tools: Read\n");
    assert_eq!(reads.decide(&writing()), allowed(), "it requests no permission to write");
}

#[test]
fn names_of_other_clients_need_approval() {
    let place = Place::new("allowed-tools: run_shell_command read_file\n");
    let named = |run: Run| Run { policy: run.policy.with_client_names(), ..run };
    let automatic = under("default: { allow: [Read, Bash], approval: auto-approved }");
    assert_eq!(place.decide(&automatic), allowed(), "without the names, nothing is granted");
    let (id, text) = place.asks(&named(automatic.clone()));
    assert!(text.contains("start any command"), "{text}");
    place.approvals().approve(id, Term::Always, "ada").unwrap();
    assert_eq!(place.decide(&named(automatic.clone())), allowed());
    let own = Place::new("allowed-tools: Bash Read run_shell_command\n");
    assert_eq!(own.decide(&named(automatic)), allowed(), "our own names request as much");
}

#[test]
fn earlier_approval_does_not_cover_names_of_other_clients() {
    let place = Place::new("allowed-tools: write_file\n");
    let (id, _) = place.asks(&Run { trusted: false, ..writing() });
    place.approvals().approve(id, Term::Always, "ada").unwrap();
    let digest = place.skill().digest().unwrap();
    let (part, level) = (SkillPart::Skill, PermissionLevel::AutoApproved);
    place.approvals().set_level("report", &part, Some(level), Some(&digest), "ada").unwrap();
    assert_eq!(place.decide(&writing()), allowed());
    let named = Run { policy: writing().policy.with_client_names(), ..writing() };
    let (_, text) = place.asks(&named);
    assert!(text.contains("write any file"), "{text}");
}

#[test]
fn network_is_disabled_until_it_is_enabled() {
    let place = Place::new("allowed-tools: WebFetch(domain:example.com)\n");
    let run = Run {
        policy: policy("", |flags| flags.allow.push("WebFetch(domain:example.com)".into())),
        ..harmless()
    };
    let why = place.refused(&run);
    assert!(why.contains("report is disabled\nskillhost permissions set report enabled"), "{why}");
    let enabled =
        |place: &Place| place.approvals().enabled_filter(&run.policy).unwrap()("report", true);
    assert!(!enabled(&place));
    place
        .approvals()
        .set_level("report", &SkillPart::Skill, Some(PermissionLevel::Enabled), None, "ada")
        .unwrap();
    assert!(enabled(&place));
    let (_, text) = place.asks(&run);
    assert!(text.contains("example.com"), "{text}");
    // What the policy does not grant needs no approval.
    assert_eq!(Place::new("allowed-tools: WebFetch\n").decide(&harmless()), allowed());
}

#[test]
fn an_approval_for_one_run_covers_one_run() {
    let place = Place::new("");
    let (id, _) = place.asks(&writing());
    assert_eq!(place.asks(&writing()).0, id, "noted once");
    place.approvals().approve(id, Term::Once, "ada").unwrap();
    assert!(place.approvals().pending().unwrap().is_empty());
    assert_eq!(place.decide(&writing()), allowed());
    place.asks(&writing());
}

#[test]
fn two_runs_do_not_share_one_approval() {
    let place = Place::new("");
    let (id, _) = place.asks(&writing());
    place.approvals().approve(id, Term::Once, "ada").unwrap();
    let decisions: Vec<RunDecision> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8).map(|_| scope.spawn(|| place.decide(&writing()))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(
        decisions.iter().filter(|decision| **decision == allowed()).count(),
        1,
        "{decisions:?}"
    );
}

#[test]
fn an_approval_for_a_session_covers_that_session() {
    let place = Place::new("");
    let (id, _) = place.asks(&writing());
    place.approvals().approve(id, Term::Session, "ada").unwrap();
    for _ in 0..2 {
        assert_eq!(place.decide(&writing()), allowed());
    }
    place.asks(&Run { session: "two", ..writing() });
}

#[test]
fn an_approval_covers_the_files_at_that_time() {
    let place = Place::new("");
    place.write("run.py", "print(1)\n");
    place.write("old.txt", "");
    let (id, _) = place.asks(&writing());
    place.approvals().approve(id, Term::Always, "ada").unwrap();
    assert_eq!(place.decide(&Run { session: "two", ..writing() }), allowed());
    place.write("run.py", "print(2)\n");
    place.write("new.txt", "");
    std::fs::remove_file(place.0.path().join("report/old.txt")).unwrap();
    let (_, text) = place.asks(&writing());
    for line in [
        "since ada approved it at 2",
        "\n  ~ file run.py",
        "\n  + file new.txt",
        "\n  - file old.txt",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("SKILL.md"), "{text}");
}

#[test]
fn an_approval_covers_the_requested_permissions() {
    let place = Place::new("");
    let wide = Run {
        policy: policy("", |flags| flags.workspace = Some(("/srv/work".into(), MountMode::Write))),
        ..writing()
    };
    let (id, text) = place.asks(&wide);
    assert!(
        text.contains("folder /workspace (read-write)") && !text.contains("/srv"),
        "no folder of the host: {text}"
    );
    place.approvals().approve(id, Term::Always, "ada").unwrap();
    let with = |change: fn(&mut Overrides)| Run {
        policy: policy("", |flags| {
            flags.workspace = Some(("/srv/work".into(), MountMode::Write));
            change(flags);
        }),
        ..writing()
    };
    // Fewer permissions need no new approval, and neither does another limit.
    for narrower in [
        with(|flags| flags.deny.push("Bash(git:*)".into())),
        with(|flags| flags.limits.push((skillhost_policy::limits::Limit::Fuel, 9))),
    ] {
        assert_eq!(place.decide(&narrower), allowed());
    }
    // More permissions do, and so do the same ones for another folder.
    for (wider, line) in [
        (with(|flags| flags.env.push("KEY=1".into())), "+ variable KEY"),
        (
            with(|flags| flags.workspace = Some(("/srv/other".into(), MountMode::Write))),
            "+ folder /workspace (read-write)",
        ),
    ] {
        let (_, text) = place.asks(&wider);
        assert!(text.contains(line), "{line}: {text}");
        assert!(!text.contains("~ file"), "{text}");
    }
    // An approval with a denial does not cover a run without that denial.
    let place = Place::new("");
    let (id, _) = place.asks(&with(|flags| flags.deny.push("Write(secrets/**)".into())));
    place.approvals().approve(id, Term::Always, "ada").unwrap();
    let (_, text) = place.asks(&writing());
    assert!(text.contains("- never write"), "{text}");
}

#[test]
fn an_approval_covers_one_program() {
    let place = Place::new("");
    let run = |part: SkillPart| Run { part, ..writing() };
    let (id, text) = place.asks(&run(SkillPart::Tool("total".into())));
    assert!(text.starts_with("report asks to run its tool total\n"), "{text}");
    place.approvals().approve(id, Term::Always, "ada").unwrap();
    assert_eq!(place.decide(&run(SkillPart::Tool("total".into()))), allowed());
    for other in
        [SkillPart::Skill, SkillPart::Tool("other".into()), SkillPart::Program("total".into())]
    {
        place.asks(&run(other));
    }
}

#[test]
fn deny_comes_before_ask_and_ask_before_allow() {
    let place = Place::new("");
    let set = |part: SkillPart, level| {
        place
            .approvals()
            .set_level("report", &part, level, Some(&place.skill().digest().unwrap()), "ada")
            .unwrap()
    };
    let program = || SkillPart::Program("x.py".into());
    let run = Run { part: program(), ..harmless() };
    // The nearest level applies ...
    set(SkillPart::Skill, Some(PermissionLevel::Enabled));
    place.asks(&run);
    set(program(), Some(PermissionLevel::AutoApproved));
    assert_eq!(place.decide(&run), allowed());
    place.asks(&harmless());
    // ... but a level that denies always does.
    for level in [PermissionLevel::Disabled, PermissionLevel::Blocked] {
        set(SkillPart::Skill, Some(level));
        assert!(place.refused(&run).contains(level.name()));
    }
    set(SkillPart::Skill, None);
    assert_eq!(place.decide(&run), allowed());
    set(program(), Some(PermissionLevel::Blocked));
    place.refused(&run);
    assert_eq!(place.decide(&harmless()), allowed());
}

#[test]
fn the_policy_is_the_upper_bound() {
    let place = Place::new("");
    let digest = place.skill().digest().unwrap();
    place
        .approvals()
        .set_level(
            "report",
            &SkillPart::Skill,
            Some(PermissionLevel::AutoApproved),
            Some(&digest),
            "ada",
        )
        .unwrap();
    assert_eq!(place.decide(&harmless()), allowed());
    place.asks(&under("default: { approval: enabled }\n"));
    let why = place.refused(&under(
        "default: { approval: auto-approved }\nskills: { report: { approval: blocked } }\n",
    ));
    assert!(why.contains("blocked") && why.contains("policy file"), "{why}");
    place.refused(&under(
        "default: { approval: disabled }\nskills: { report: { approval: auto-approved } }\n",
    ));
    // A run that the policy approves starts, unless the skill is untrusted.
    let place = Place::new("");
    let auto = "default: { approval: auto-approved, allow: [Read, Write], mounts: [{ host: /srv, guest: /data, mode: write }] }\n";
    assert_eq!(place.decide(&under(auto)), allowed());
    place.asks(&Run { trusted: false, ..under(auto) });
}

#[test]
fn auto_approval_covers_one_version_of_the_skill() {
    let place = Place::new("");
    let digest = place.skill().digest().unwrap();
    place
        .approvals()
        .set_level(
            "report",
            &SkillPart::Skill,
            Some(PermissionLevel::AutoApproved),
            Some(&digest),
            "ada",
        )
        .unwrap();
    assert_eq!(place.decide(&writing()), allowed());
    place.write("run.py", "print(1)\n");
    place.asks(&writing());
}

#[test]
fn rejecting_and_revoking_take_effect() {
    let place = Place::new("");
    let (id, _) = place.asks(&writing());
    place.approvals().deny(id, "ada").unwrap();
    assert!(
        place.approvals().approve(id, Term::Always, "ada").is_err(),
        "the request is no longer pending"
    );
    let (id, _) = place.asks(&writing());
    place.approvals().approve(id, Term::Always, "ada").unwrap();
    assert_eq!(place.decide(&writing()), allowed());
    assert_eq!(place.approvals().revoke("report").unwrap(), 1);
    place.asks(&writing());
    let approval = &place.approvals().approvals().unwrap()[0];
    assert_eq!(
        (approval.who.as_str(), approval.ended.is_some()),
        ("ada", true),
        "the approval records who gave it"
    );
}

/// Requests approval for a program of one of several skills.
fn note(place: &Place, session: &str, of: usize, number: usize) -> Result<(), ApprovalError> {
    let mut skill = place.skill();
    skill.name = format!("report-{of}");
    let ask = ApprovalRequest {
        skill: &skill,
        digest: &skill.digest().unwrap(),
        part: &SkillPart::Program(format!("p{number}")),
        capabilities: &Capabilities::default(),
        needs_approval: false,
        trusted: false,
        session_folder: None,
        session,
        input: RunInput::default(),
    };
    place.approvals().decide(&harmless().policy, &ask).map(drop)
}

#[test]
fn pending_requests_are_limited() {
    let place = Place::new("");
    let note = |of: usize, number: usize| note(&place, "one", of, number);
    // One skill uses up its share, and leaves the rest to others.
    for of in 0..10 {
        (0..50).for_each(|number| note(of, number).unwrap());
        let full = note(of, 50).unwrap_err();
        assert!(
            matches!(full, ApprovalError::QueueFull(which) if which == if of < 9 { QueueLimit::Skill } else { QueueLimit::All }),
            "{full}"
        );
        note(of, 49).expect("pending requests do not count twice");
    }
    let full = note(10, 0).unwrap_err();
    assert!(
        matches!(full, ApprovalError::QueueFull(QueueLimit::All))
            && full.to_string().starts_with("500 requests are pending"),
        "{full}"
    );
    assert_eq!(place.approvals().pending().unwrap().len(), 500);
    // Answering one makes room.
    let first = place.approvals().pending().unwrap()[0].id;
    place.approvals().deny(first, "ada").unwrap();
    note(10, 0).unwrap();
}

#[test]
fn pending_requests_of_a_tenant_leave_room_for_others() {
    let place = Place::new("");
    let note = |session: &str, of: usize, number: usize| note(&place, session, of, number);
    let limit = |noted: Result<(), ApprovalError>| match noted.unwrap_err() {
        ApprovalError::QueueFull(which) => which,
        error => panic!("{error}"),
    };
    (0..50).for_each(|number| note("tenant a", 0, number).unwrap());
    assert_eq!(limit(note("tenant a", 0, 50)), QueueLimit::Skill);
    // Another tenant, and an agent, have as many of the same skill.
    (0..50).for_each(|number| note("tenant b", 0, number).unwrap());
    (0..50).for_each(|number| note("an agent", 0, number).unwrap());
    assert_eq!(limit(note("another agent", 0, 50)), QueueLimit::Skill);
    (0..50).for_each(|number| note("tenant a", 1, number).unwrap());
    assert_eq!(limit(note("tenant a", 2, 0)), QueueLimit::Tenant);
    note("tenant b", 2, 0).unwrap();
    note("an agent", 2, 0).unwrap();
}

#[test]
fn pending_requests_are_limited_in_bytes() {
    let place = Place::new("");
    place.asks(&writing());
    let file = place.0.path().join("state/approvals.db");
    let db = rusqlite::Connection::open(&file).unwrap();
    // As many bytes as the staged writes of other runs may have.
    let insert = "INSERT INTO change VALUES (1, ?1, x'', '/workspace', 'x', NULL, 'file', 420, zeroblob(?2))";
    for number in 0..4 {
        db.execute(insert, (number, (64 << 20) - 10_000)).unwrap();
    }
    let other = Run { part: SkillPart::Program("other.py".into()), ..writing() };
    place.asks(&other);
    db.execute(insert, (4, 40_000)).unwrap();
    let skill = place.skill();
    let digest = skill.digest().unwrap();
    let capabilities = grant(&skill.policy_manifest(), &writing().policy).capabilities;
    let part = SkillPart::Program("third.py".into());
    let ask = ApprovalRequest {
        skill: &skill,
        digest: &digest,
        part: &part,
        capabilities: &capabilities,
        needs_approval: false,
        trusted: true,
        session_folder: None,
        session: "one",
        input: RunInput::default(),
    };
    let full = place.approvals().decide(&writing().policy, &ask).unwrap_err();
    assert!(
        matches!(full, ApprovalError::QueueFull(QueueLimit::Bytes))
            && full.to_string().starts_with("changes of 256 MiB are pending"),
        "{full}"
    );
    assert_eq!(place.approvals().pending().unwrap().len(), 2, "the failed request is not stored");
}

#[test]
fn pending_requests_expire_after_a_week() {
    let place = Place::new("");
    let (id, _) = place.asks(&writing());
    let age = |hours: i64| {
        let time = jiff::Timestamp::now()
            .checked_sub(jiff::SignedDuration::from_hours(hours))
            .unwrap()
            .to_string();
        let db = rusqlite::Connection::open(place.0.path().join("state/approvals.db")).unwrap();
        assert_eq!(db.execute("UPDATE pending SET time = ?1", [time]).unwrap(), 1);
    };
    age(7 * 24 - 1);
    assert_eq!(place.approvals().pending().unwrap().len(), 1);
    assert_eq!(place.asks(&writing()).0, id, "it is the same request");
    age(7 * 24 + 1);
    assert_eq!(place.approvals().pending().unwrap(), []);
    let late = place.approvals().approve(id, Term::Always, "ada").unwrap_err();
    assert!(matches!(late, ApprovalError::NotPending(_)), "{late}");
    assert_ne!(place.asks(&writing()).0, id, "it is a new request");
}

#[test]
fn unreadable_approvals_allow_nothing() {
    let place = Place::new("");
    let skill = place.skill();
    let ask = |approvals: Approvals| {
        let run = harmless();
        let capabilities = grant(&skill.policy_manifest(), &run.policy).capabilities;
        let ask = ApprovalRequest {
            skill: &skill,
            digest: "sha256:0",
            part: &SkillPart::Skill,
            capabilities: &capabilities,
            needs_approval: false,
            trusted: true,
            session_folder: None,
            session: "",
            input: RunInput::default(),
        };
        approvals.decide(&run.policy, &ask)
    };
    std::fs::create_dir(place.0.path().join("state")).unwrap();
    std::fs::write(
        place.0.path().join("state/approvals.db"),
        "no database, and long enough to be looked at as one: ".repeat(20),
    )
    .unwrap();
    assert!(ask(place.approvals()).is_err());
}

#[test]
fn staged_writes_go_to_an_overlay() {
    let place = Place::new("");
    let text = "default:\n  allow: [Read, Write]\n  stage: true\n  mounts: [{ host: /srv, guest: /data, mode: write }]\n";
    let grant = grant(&place.skill().policy_manifest(), &under(text).policy);
    assert_eq!(grant.capabilities.mounts[0].mode, MountMode::Overlay);
    assert!(under(text).policy.stages_writes("report"));
}
