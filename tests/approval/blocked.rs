//! A level that denies a program applies under every name of the program, and to everything that
//! starts it.

use std::process::Output;

use skillhost::invoke::Target;
use skillhost_ledger::approval::{PermissionLevel, RunDecision, SkillPart};
use skillhost_policy::Policy;

use super::{Place, Run, allowed, harmless};
use crate::cli::{guest, skill_of};
use crate::hostile_host::shell_host;
use crate::mcp;

/// The real programs, and a skill with a script that prints `uploaded`.
struct Blocked(mcp::Place);

impl Blocked {
    fn new() -> Blocked {
        let place = mcp::Place::new();
        place.skill("report", "allowed-tools: Read Bash", "Run `scripts/total.sh`.");
        place.write("report/scripts/upload.sh", "#!/bin/bash\necho uploaded\n");
        place.write("report/scripts/total.sh", "#!/bin/bash\necho total\n");
        std::os::unix::fs::symlink("upload.sh", place.skills().join("report/scripts/link.sh"))
            .unwrap();
        place.write("report/scripts/both.sh", "#!/bin/bash\n/skill/scripts/upload.sh\necho both\n");
        Blocked(place)
    }

    fn run(&self, args: &[&str]) -> Output {
        let folder = self.0.skills().join("report");
        self.0.server("run", &["--allow", "Bash"]).arg(folder).args(args).output().unwrap()
    }

    fn set(&self, args: &[&str]) {
        let set = self.0.user.skillhost(&[&["permissions", "set", "report"], args].concat());
        assert!(set.status.success(), "{set:?}");
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_blocked_script_does_not_run_under_any_spelling() {
    for name in [
        "upload.sh",
        "upload",
        "scripts/upload.sh",
        "./scripts/../scripts/upload.sh",
        "/skill/scripts/upload.sh",
    ] {
        let place = Blocked::new();
        place.set(&["blocked", "--program", name]);
        for spelled in [
            "upload.sh",
            "upload",
            "scripts/upload.sh",
            "./scripts/upload.sh",
            "/skill/scripts/upload.sh",
            "link.sh",
        ] {
            let refused = place.run(&[spelled]);
            assert_eq!(
                (refused.status.code(), out(&refused).as_str()),
                (Some(77), ""),
                "{name}: {spelled}: {refused:?}"
            );
        }
        let ran = place.run(&["scripts/total.sh"]);
        assert_eq!(out(&ran), "total\n", "another script is not blocked: {ran:?}");
    }
}

#[test]
fn other_programs_cannot_start_a_blocked_script() {
    let place = Blocked::new();
    place.run(&["--command", "bash /skill/scripts/upload.sh"]);
    assert_eq!(
        out(&place.run(&["--command", "bash /skill/scripts/upload.sh"])),
        "uploaded\n",
        "the spellings below are those that run it"
    );
    place.set(&["blocked", "--program", "upload.sh"]);
    for text in [
        "bash /skill/scripts/upload.sh",
        "bash scripts/upload.sh",
        "cd /skill && ./scripts/upload.sh",
        "/skill/scripts/upload.sh",
        "sh -e /skill/scripts/upload.sh",
        "env A=1 bash /skill/scripts/upload.sh",
        "bash /skill/scripts/link.sh",
        "bash /tmp/.claude/skills/report/scripts/upload.sh",
        "cp /skill/scripts/upload.sh /tmp/other && bash /tmp/other",
        "bash -c 'bash /skill/scripts/upload.sh'",
        "bash /skill/scripts/both.sh",
        "python3 -c 'import subprocess; subprocess.run([\"/skill/scripts/upload.sh\"])'",
        "source /skill/scripts/upload.sh",
        "bash < /skill/scripts/upload.sh",
        "cat /skill/scripts/upload.sh | bash",
    ] {
        let run = place.run(&["--command", text]);
        assert!(!out(&run).contains("uploaded"), "{text}: {run:?}");
    }
    let denied = place.run(&["--command", "bash /skill/scripts/upload.sh"]);
    assert!(
        String::from_utf8_lossy(&denied.stderr)
            .contains("a permission level blocks scripts/upload.sh"),
        "{denied:?}"
    );
    // Nor if a workspace contains the skill's own folder.
    let skills = place.0.skills();
    let run = place.run(&[
        "--workspace",
        skills.to_str().unwrap(),
        "--command",
        "bash /workspace/report/scripts/upload.sh",
    ]);
    assert!(!out(&run).contains("uploaded"), "{run:?}");
    let ran = place.run(&["--command", "bash /skill/scripts/total.sh"]);
    assert_eq!(out(&ran), "total\n", "{ran:?}");
}

#[test]
fn a_copy_of_a_blocked_program_does_not_start() {
    let place = Blocked::new();
    // A script, which anything may have copied before, and a component with a second file.
    let workspace = place.0.user.work().join("shared");
    std::fs::create_dir(&workspace).unwrap();
    std::fs::copy(place.0.skills().join("report/scripts/upload.sh"), workspace.join("copy.sh"))
        .unwrap();
    for name in ["tool.wasm", "same.wasm"] {
        place.0.write(&format!("report/{name}"), guest("hello"));
    }
    let start = |command: &str| {
        let text = format!(
            "python3 -c 'import subprocess; print(subprocess.run([{command}], capture_output=True).stdout)'"
        );
        place.run(&["--workspace", workspace.to_str().unwrap(), "--command", &text])
    };
    for (command, prints) in
        [(r#""bash", "/workspace/copy.sh""#, "uploaded"), (r#""same""#, "hello")]
    {
        let ran = start(command);
        assert!(out(&ran).contains(prints), "{command}: {ran:?}");
    }
    place.set(&["blocked", "--program", "upload.sh"]);
    place.set(&["blocked", "--program", "tool.wasm"]);
    for command in [r#""bash", "/workspace/copy.sh""#, r#""same""#] {
        let refused = start(command);
        assert!(
            !out(&refused).contains("uploaded") && !out(&refused).contains("hello"),
            "{command}: {refused:?}"
        );
        assert!(
            String::from_utf8_lossy(&refused.stderr).contains("a permission level blocks "),
            "{command}: {refused:?}"
        );
    }
}

#[test]
fn node_does_not_start_a_blocked_file() {
    let place = Blocked::new();
    let workspace = place.0.user.work().join("shared");
    std::fs::create_dir(&workspace).unwrap();
    let script = "console.log('uploaded')\n";
    place.0.write("report/scripts/upload.js", script);
    std::fs::write(workspace.join("copy.js"), script).unwrap();
    std::fs::write(workspace.join("typed.mts"), script).unwrap();
    std::fs::create_dir(workspace.join("folder")).unwrap();
    std::fs::write(workspace.join("folder/index.ts"), script).unwrap();
    let run =
        |text: &str| place.run(&["--workspace", workspace.to_str().unwrap(), "--command", text]);
    let lines = [
        "node scripts/upload.js",
        "node --no-warnings /skill/scripts/upload.js",
        "node /skill/scripts/upload",
        "/skill/scripts/upload.js",
        "bun run /skill/scripts/upload.js",
        "npx tsx /skill/scripts/upload.js",
        "node -r /skill/scripts/upload.js -e 0",
        "node -e 'require(\"/skill/scripts/upload.js\")'",
        "node < /skill/scripts/upload.js",
        "node /workspace/copy.js",
        "node copy",
        "node --require ./copy.js -e 0",
        "node --title x copy.js",
        "node typed.mjs",
        "node typed",
        "node ./folder/",
        "NODE_OPTIONS=--require=/workspace/copy.js node -e 0",
        "NODE_OPTIONS='-r /workspace/copy.js' node -e 0",
        "NODE_OPTIONS='--require \"/workspace/copy.js\"' node -e 0",
    ];
    for line in lines {
        let ran = run(line);
        assert_eq!(out(&ran), "uploaded\n", "it is a spelling: {line}: {ran:?}");
    }
    place.set(&["blocked", "--program", "upload.js"]);
    let urls = [
        "node --import=file:///workspace/copy.js -e 0",
        "node --import file:///workspace/%63opy.js -e 0",
    ];
    for line in lines.into_iter().chain(urls) {
        let ran = run(line);
        assert!(!out(&ran).contains("uploaded"), "{line}: {ran:?}");
    }
    let denied = run("node copy.js");
    assert!(
        String::from_utf8_lossy(&denied.stderr)
            .contains("a permission level blocks scripts/upload.js"),
        "{denied:?}"
    );
}

#[test]
fn every_spelling_of_a_target_is_the_same_part() {
    let dir = tempfile::tempdir().unwrap();
    let skill = dir.path().join("report");
    skill_of("hello", &skill);
    std::fs::create_dir(skill.join("scripts")).unwrap();
    std::fs::write(skill.join("scripts/upload.sh"), "echo\n").unwrap();
    let loaded = shell_host(dir.path()).load_for_run(&skill, &Policy::builtin()).unwrap();
    let named = |name: &str| Target::Named(name.into());
    for spelled in [
        "upload",
        "upload.sh",
        "scripts/upload.sh",
        "./scripts/../scripts/upload.sh",
        "/skill/scripts/upload.sh",
    ] {
        assert_eq!(
            loaded.part_of(&named(spelled)),
            SkillPart::Program("scripts/upload.sh".into()),
            "{spelled}"
        );
    }
    let tool = SkillPart::Tool("send".into());
    assert_eq!(loaded.part_of(&named("send")), tool);
    assert_eq!(loaded.part_of(&Target::Tool { name: "send".into(), input: "{}".into() }), tool);
    assert_eq!(loaded.part_of(&Target::Main), SkillPart::Skill);
    assert_eq!(loaded.part_of(&Target::Shell("bash scripts/upload.sh".into())), SkillPart::Command);
}

#[test]
fn kinds_of_parts_do_not_share_levels() {
    let place = Place::new("");
    place.write("tool:total.sh", "echo\n");
    place.write("--command.sh", "echo\n");
    let run = |part: SkillPart| place.decide(&Run { part, ..harmless() });
    let set = |part: SkillPart, level| {
        place.approvals().set_level("report", &part, level, None, "ada").unwrap()
    };
    for (blocked, others) in [
        (
            SkillPart::Tool("total.sh".into()),
            [
                SkillPart::Program("tool:total.sh".into()),
                SkillPart::Program("total.sh".into()),
                SkillPart::Command,
            ],
        ),
        (
            SkillPart::Command,
            [
                SkillPart::Program("--command".into()),
                SkillPart::Tool("--command".into()),
                SkillPart::Skill,
            ],
        ),
        (
            SkillPart::Program("tool:total.sh".into()),
            [SkillPart::Tool("total.sh".into()), SkillPart::Command, SkillPart::Skill],
        ),
    ] {
        set(blocked.clone(), Some(PermissionLevel::Blocked));
        assert!(matches!(run(blocked.clone()), RunDecision::Refused(_)), "{blocked:?}");
        for other in others {
            assert!(
                matches!(run(other.clone()), RunDecision::Allowed(_)),
                "{blocked:?} is not {other:?}"
            );
        }
        set(blocked, None);
    }
}

#[test]
fn an_allowing_level_applies_to_the_exact_program() {
    let place = Place::new("");
    for folder in ["scripts", "other"] {
        std::fs::create_dir(place.0.path().join("report").join(folder)).unwrap();
        place.write(&format!("{folder}/run.sh"), "echo\n");
    }
    let digest = place.skill().digest().unwrap();
    place
        .approvals()
        .set_level("report", &SkillPart::Skill, Some(PermissionLevel::Enabled), None, "ada")
        .unwrap();
    place
        .approvals()
        .set_level(
            "report",
            &SkillPart::Program("run.sh".into()),
            Some(PermissionLevel::AutoApproved),
            Some(&digest),
            "ada",
        )
        .unwrap();
    let decide =
        |path: &str| place.decide(&Run { part: SkillPart::Program(path.into()), ..harmless() });
    assert_eq!(decide("scripts/run.sh"), allowed(), "the name means the one in scripts/");
    assert!(matches!(decide("other/run.sh"), RunDecision::NeedsApproval(..)));
    // A level that denies applies to every program that may be meant.
    place
        .approvals()
        .set_level(
            "report",
            &SkillPart::Program("run.sh".into()),
            Some(PermissionLevel::Blocked),
            None,
            "ada",
        )
        .unwrap();
    for path in ["scripts/run.sh", "other/run.sh"] {
        assert!(matches!(decide(path), RunDecision::Refused(_)), "{path}");
    }
}

#[test]
fn levels_of_the_first_file_version_still_deny() {
    let place = Place::new("");
    std::fs::create_dir(place.0.path().join("state")).unwrap();
    let file = place.0.path().join("state/approvals.db");
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute_batch(FIRST_VERSION).unwrap();
    drop(db);
    let refused = |part: SkillPart| {
        matches!(place.decide(&Run { part, ..harmless() }), RunDecision::Refused(_))
    };
    for part in [
        SkillPart::Program("scripts/upload.sh".into()),
        SkillPart::Tool("send".into()),
        SkillPart::Program("tool:send".into()),
        SkillPart::Command,
        SkillPart::Program("--command".into()),
    ] {
        assert!(refused(part.clone()), "{part:?}");
    }
    // An ambiguous level that allowed now needs approval; a clear one stays as it was.
    let level = |part: SkillPart| {
        place
            .approvals()
            .levels_of("report")
            .unwrap()
            .into_iter()
            .find(|set| set.part == part)
            .map(|set| set.level)
    };
    assert_eq!(level(SkillPart::Tool("total".into())), Some(PermissionLevel::Enabled));
    assert_eq!(level(SkillPart::Program("tool:total".into())), None);
    assert_eq!(level(SkillPart::Program("sum.sh".into())), Some(PermissionLevel::AutoApproved));
    let approvals = place.approvals().approvals().unwrap();
    assert!(
        approvals.len() == 2 && approvals.iter().all(|approval| approval.ended.is_some()),
        "{approvals:?}"
    );
    assert_eq!(place.approvals().pending().unwrap(), [], "old requests are dropped");
}

const FIRST_VERSION: &str = "
    CREATE TABLE level (skill TEXT NOT NULL, what TEXT NOT NULL, level TEXT NOT NULL, digest TEXT, who TEXT NOT NULL,
        time TEXT NOT NULL, PRIMARY KEY (skill, what)) WITHOUT ROWID;
    CREATE TABLE approval (id INTEGER PRIMARY KEY AUTOINCREMENT, skill TEXT NOT NULL, what TEXT NOT NULL, digest TEXT NOT NULL,
        files TEXT NOT NULL, capabilities TEXT NOT NULL, term TEXT NOT NULL, session TEXT NOT NULL, who TEXT NOT NULL, time TEXT NOT NULL, over TEXT);
    CREATE INDEX approval_of ON approval (skill, what);
    CREATE TABLE pending (id INTEGER PRIMARY KEY AUTOINCREMENT, skill TEXT NOT NULL, what TEXT NOT NULL, digest TEXT NOT NULL,
        files TEXT NOT NULL, capabilities TEXT NOT NULL, session TEXT NOT NULL, time TEXT NOT NULL, text TEXT NOT NULL, diff TEXT);
    CREATE TABLE change (pending INTEGER NOT NULL, number INTEGER NOT NULL, folder BLOB NOT NULL, guest TEXT NOT NULL,
        path TEXT NOT NULL, before TEXT, after TEXT, mode INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (pending, number));
    INSERT INTO level VALUES ('report', 'upload.sh', 'blocked', NULL, 'ada', 't'), ('report', 'tool:send', 'disabled', NULL, 'ada', 't'),
        ('report', '--command', 'blocked', NULL, 'ada', 't'), ('report', 'tool:total', 'auto-approved', 'sha256:1', 'ada', 't'),
        ('report', 'sum.sh', 'auto-approved', 'sha256:1', 'ada', 't');
    INSERT INTO approval VALUES (1, 'report', '', 'd', '{}', '[]', 'always', 's', 'ada', 't', NULL), (2, 'report', 'tool:a', 'd', '{}', '[]', 'once', 's', 'ada', 't', NULL);
    INSERT INTO pending VALUES (1, 'report', '', 'd', '{}', '[]', 's', '2999-01-01T00:00:00Z', 'x', NULL);
    PRAGMA application_id = 2;
    PRAGMA user_version = 1;";
