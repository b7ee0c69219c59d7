//! The commands for approvals, and `run` when it needs approval.

use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::cli::{User, guest, skill_of};

const SKILLHOST: &str = env!("CARGO_BIN_EXE_skillhost");

fn user() -> User {
    let user = User::new();
    skill_of("writer", &user.work().join(".agents/skills/reporter"));
    std::fs::create_dir(user.work().join("out")).unwrap();
    user
}

const RUN: [&str; 4] = ["run", "reporter", "--workspace", "out"];

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(user: &User, args: &[&str]) -> Value {
    serde_json::from_slice(&user.skillhost(args).stdout).unwrap()
}

/// Runs a command at a terminal with that answer. Returns what the person sees, and the exit code.
fn at_terminal(user: &User, command: &str, answer: &str) -> (Option<i32>, String) {
    let mut child: Command = user.command("script");
    child.args(["-qec", command, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
}

#[test]
fn a_run_that_needs_approval_says_how_to_approve_it() {
    let user = user();
    let refused = user.skillhost(&RUN);
    assert_eq!(refused.status.code(), Some(77), "{}", err(&refused));
    assert!(err(&refused).contains("folder /workspace (read-write)"), "{}", err(&refused));
    assert!(
        err(&refused).contains("skillhost approve 1 --once, --session or --always"),
        "{}",
        err(&refused)
    );
    assert!(std::fs::read_dir(user.work().join("out")).unwrap().next().is_none(), "nothing ran");
    let pending = json(&user, &["pending", "--json"]);
    assert_eq!((&pending[0]["id"], &pending[0]["skill"]), (&1.into(), &"reporter".into()));
    assert!(out(&user.skillhost(&["pending"])).contains("reporter asks to run"));

    assert!(user.skillhost(&["approve", "1", "--once"]).status.success());
    assert!(out(&user.skillhost(&["pending"])).contains("nothing is pending"));
    let ran = user.skillhost(&RUN);
    assert!(ran.status.success(), "{}", err(&ran));
    assert_eq!(user.skillhost(&RUN).status.code(), Some(77), "once");
    assert!(user.skillhost(&["approve", "2", "--always"]).status.success());
    for _ in 0..2 {
        assert!(user.skillhost(&RUN).status.success());
    }
    let state = json(&user, &["permissions", "--json"]);
    assert_eq!(
        (&state["approvals"][0]["term"], &state["approvals"][1]["term"]),
        (&"always".into(), &"once".into())
    );
    assert!(
        state["approvals"][1]["over"].is_string()
            && state["approvals"][0]["who"].as_str().unwrap().contains("uid")
    );
    assert_eq!(
        out(&user.skillhost(&["permissions", "revoke", "reporter"])),
        "revoked 1 approval\n"
    );
    assert_eq!(user.skillhost(&RUN).status.code(), Some(77));
    assert_eq!(user.skillhost(&["approve", "99"]).status.code(), Some(64));
}

/// Runs a command in a session whose leader has exited, as under a supervisor or in a container.
#[test]
fn a_session_approval_survives_its_leader() {
    let user = user();
    let run = format!("skillhost {} 2>&-; echo $?", RUN.join(" "));
    // `$$` is the leader, which exits at once; the rest of the session continues.
    let session = format!(
        "while kill -0 $$ 2>&-; do sleep 0.01; done; {run}; skillhost approve 1 --once >&-; {run}; {run}"
    );
    let mut shell = user.command("sh");
    shell
        .env("SKILLHOST_OPERATOR_TOKEN", user.operator_token())
        .args(["-c", &format!("setsid sh -c '({session}) &'; wait")]);
    let printed = out(&shell.output().unwrap());
    let codes = printed.lines().filter(|line| line.parse::<u8>().is_ok()).collect::<Vec<_>>();
    assert_eq!(codes, ["77", "0", "77"], "{printed}");
}

#[test]
fn a_named_folder_runs_unless_a_level_denies_it() {
    let user = user();
    let run = ["run", ".agents/skills/reporter", "--workspace", "out"];
    assert!(user.skillhost(&run).status.success());
    assert!(
        !user.home().join(".local/state/skillhost/approvals.db").exists(),
        "an unused approval costs nothing"
    );
    assert!(user.skillhost(&["permissions", "set", "reporter", "blocked"]).status.success());
    let refused = user.skillhost(&run);
    assert_eq!(refused.status.code(), Some(77));
    assert!(err(&refused).contains("reporter is blocked"), "{}", err(&refused));
    assert!(user.skillhost(&["permissions", "set", "reporter", "default"]).status.success());
    assert!(user.skillhost(&run).status.success());
    std::fs::write(
        user.work().join("policy.yaml"),
        "default: { approval: enabled, allow: [Read, Write] }\n",
    )
    .unwrap();
    let asks = user.skillhost(&[&run[..], &["--policy", "policy.yaml"]].concat());
    assert_eq!(asks.status.code(), Some(77));
    assert!(err(&asks).contains("needs approval"), "{}", err(&asks));
    // The refused runs are recorded as well.
    let log = out(&user.skillhost(&["audit", "list", "--json"]));
    let denied: Vec<&str> =
        log.lines().filter(|line| line.contains("\"kind\":\"denied\"")).collect();
    assert_eq!((log.lines().count(), denied.len()), (4, 2), "{log}");
    assert!(
        denied.iter().any(|line| line.contains("reporter is blocked"))
            && denied.iter().any(|line| line.contains("it needs approval"))
    );
}

#[test]
fn levels_for_names_that_look_mistyped_are_refused() {
    let user = user();
    scripted(&user);
    let set = |args: &[&str]| user.skillhost(&[&["permissions", "set"], args].concat());
    for (args, why, fix) in [
        (&["csv-kti", "blocked"][..], "no skill is called `csv-kti`", "did you mean `csv-kit`?"),
        (
            &["csv-kit", "blocked", "--program", "scripts/totl.sh"],
            "csv-kit has no program `scripts/totl.sh`",
            "did you mean `--program scripts/total.sh`?",
        ),
        (
            &["csv-kit", "disabled", "--program", "upload.py"],
            "csv-kit has no program `upload.py`",
            "its programs: scripts/other.sh, scripts/total.sh",
        ),
        (
            &[".agents/skills/csv-kit", "blocked", "--tool", "count"],
            ".agents/skills/csv-kit has no tool `count`",
            "its programs:",
        ),
    ] {
        let refused = set(args);
        assert_eq!(refused.status.code(), Some(64), "{args:?}");
        assert!(err(&refused).contains(why) && err(&refused).contains(fix), "{}", err(&refused));
    }
    assert!(out(&user.skillhost(&["permissions"])).starts_with("No permission levels set"));

    // A level for a skill that may be run by its path, and the removal of one, are no errors.
    let other = set(&["unrelated", "blocked"]);
    assert_eq!(out(&other), "unrelated is blocked\n");
    assert!(err(&other).contains("no skill is called `unrelated`"), "{}", err(&other));
    assert_eq!(out(&set(&["csv-kti", "default"])), "csv-kti has no level of its own\n");
    let level = ["csv-kit", "blocked", "--program", "total"];
    assert_eq!(out(&set(&level)), "csv-kit (total) is blocked\n");
    assert_eq!(out(&set(&[&level[..], &["--quiet"]].concat())), "");
}

#[test]
fn sections_for_names_that_look_mistyped_are_reported_once() {
    let user = user();
    scripted(&user);
    let policy = "skills:\n  csv-kti: { approval: blocked }\n  csv-k*: {}\n  unrelated: {}\n";
    std::fs::write(user.work().join("policy.yaml"), policy).unwrap();
    for command in [&["run", "csv-kit", "total.sh"][..], &["list"], &["config", "show"]] {
        let shown = user.skillhost(&[command, &["--policy", "policy.yaml"]].concat());
        let warning =
            "warning: policy.yaml:2:3: no skill is called `csv-kti`; did you mean `csv-kit`?";
        assert_eq!(err(&shown).matches(warning).count(), 1, "{command:?}: {}", err(&shown));
        assert_eq!(err(&shown).matches("no skill is called").count(), 1, "{}", err(&shown));
    }
}

#[test]
fn missing_folders_of_the_policy_are_reported() {
    let user = user();
    let policy =
        "skill-folders: [./nowhere]\ndefault:\n  mounts:\n    - { host: ./gone, guest: /gone }\n";
    std::fs::write(user.work().join("policy.yaml"), policy).unwrap();
    for command in [&["list"][..], &["config", "show"]] {
        let shown = user.skillhost(&[command, &["--policy", "policy.yaml"]].concat());
        let message = err(&shown);
        assert!(message.contains("warning: policy.yaml: `skill-folders` names "), "{message}");
        assert!(message.contains("warning: policy.yaml:4:"), "{message}");
        assert_eq!(message.matches(", which does not exist").count(), 2, "{message}");
    }
    let run = ["run", "reporter", "--workspace", "out", "--policy", "policy.yaml"];
    let message = err(&user.skillhost(&run));
    assert_eq!(message.matches(", which does not exist").count(), 1, "{message}");
}

#[test]
fn a_section_that_a_path_does_not_get_is_named_with_a_command_that_gets_it() {
    let user = user();
    let policy = "skills:\n  hello: { allow: [Read] }\n  reporter: { allow: [Read] }\n";
    std::fs::write(user.work().join("policy.yaml"), policy).unwrap();
    let run = |args: &[&str]| user.skillhost(&[args, &["--policy", "policy.yaml"]].concat());
    let message = err(&run(&["run", "./hello"]));
    let why = "the policy's section for hello grants nothing to a folder given by its path";
    assert!(message.contains(why), "{message}");
    let fix = "`skillhost run hello --skills .`, or put the entries below `default:`";
    assert!(message.contains(fix), "{message}");
    let by_name = run(&["run", "hello", "--skills", "."]);
    assert!(!err(&by_name).contains(why), "{by_name:?}");
    assert!(err(&by_name).contains("read any file in its folders"), "the section: {by_name:?}");
    let message = err(&run(&["run", ".agents/skills/reporter"]));
    assert!(message.contains("to run the installed skill: skillhost run reporter\n"), "{message}");
}

/// Adds a skill with two scripts, which a run with a workspace must not write to unasked.
fn scripted(user: &User) {
    let skill = user.work().join(".agents/skills/csv-kit");
    std::fs::create_dir_all(skill.join("scripts")).unwrap();
    let text = "---\nname: csv-kit\ndescription: Counts. Use to test.\nallowed-tools: Read Write Bash\n---\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    for name in ["total.sh", "other.sh"] {
        std::fs::write(skill.join("scripts").join(name), "#!/bin/bash\necho ran\n").unwrap();
    }
}

#[test]
fn a_refusal_names_the_level_and_the_command_that_lifts_it() {
    let user = user();
    scripted(&user);
    let out = user.work().join("out").canonicalize().unwrap().display().to_string();
    let run =
        |rest: &[&str]| user.skillhost(&[&["run", "csv-kit", "--workspace", "out"], rest].concat());
    for (flags, target, why) in [
        (
            &["--program", "scripts/total.sh"][..],
            &["total.sh"][..],
            "scripts/total.sh is blocked\n",
        ),
        (&["--workspace", "out"], &["total.sh"], &*format!("csv-kit is blocked in {out}\n")),
        (&["--command"], &["--command", "true"], "shell commands of csv-kit are blocked\n"),
        (
            &["--command", "--workspace", "out"],
            &["--command", "true"],
            &*format!("shell commands of csv-kit are blocked in {out}\n"),
        ),
        (&[], &["total.sh"], "csv-kit is blocked\n"),
    ] {
        // A level for another part comes first, and must not be named.
        for set in [&["--program", "other.sh"], flags] {
            let set = [&["permissions", "set", "csv-kit", "blocked"], set].concat();
            assert!(user.skillhost(&set).status.success(), "{set:?}");
        }
        let refused = run(target);
        assert_eq!(refused.status.code(), Some(77), "{refused:?}");
        let message = err(&refused);
        assert!(message.contains(&format!("error: {why}")), "{message}");
        let (_, command) = message.split_once("help: skillhost ").unwrap();
        let command: Vec<&str> = command.lines().next().unwrap().split(' ').collect();
        assert!(user.skillhost(&command).status.success(), "{command:?}");
        let message = err(&run(target));
        assert!(message.contains("csv-kit needs approval"), "{command:?}: {message}");
    }
}

#[test]
fn a_run_that_cannot_start_needs_no_approval() {
    let user = user();
    scripted(&user);
    let run = ["run", "csv-kit", "--workspace", "out"];
    for (args, why) in [
        (&["zz"][..], "the skill `csv-kit` has no script `zz`"),
        (&[], "the skill `csv-kit` has 2 scripts: name the one to run"),
    ] {
        let failed = user.skillhost(&[&run[..], args].concat());
        assert_eq!(failed.status.code(), Some(64), "{failed:?}");
        assert!(err(&failed).contains(why), "{}", err(&failed));
        let line = "skillhost run csv-kit scripts/total.sh\n";
        assert!(err(&failed).contains(line), "the skill is named as typed: {}", err(&failed));
    }
    assert!(out(&user.skillhost(&["pending"])).contains("nothing is pending"));
    let asks = user.skillhost(&[&run[..], &["total.sh"]].concat());
    assert!(err(&asks).contains("csv-kit needs approval"), "{}", err(&asks));
}

#[test]
fn a_session_approval_ends_with_the_terminal() {
    let user = user();
    let run = format!("{SKILLHOST} run reporter --workspace out");
    // Two runs in one terminal, and one in another.
    let (code, shown) = at_terminal(&user, &format!("{run} && {run}"), "s\n");
    assert!(code == Some(0) && shown.matches("[o]nce").count() == 1, "{shown}");
    let (_, shown) = at_terminal(&user, &run, "n\n");
    assert!(shown.contains("[o]nce"), "{shown}");
}

#[test]
fn a_skill_that_changes_during_the_question_is_not_run() {
    let user = user();
    let mut child: Command = user.command("script");
    let run = format!("{SKILLHOST} run reporter --workspace out");
    child.args(["-qec", &run, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut shown = child.stdout.take().unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"[N]o: ") {
        let mut byte = [0];
        assert_eq!(shown.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&seen));
        seen.extend(byte);
    }
    // The component is replaced after the person was asked about it.
    std::fs::write(user.work().join(".agents/skills/reporter/reporter.wasm"), guest("hello"))
        .unwrap();
    child.stdin.take().unwrap().write_all(b"o\n").unwrap();
    shown.read_to_end(&mut seen).unwrap();
    child.wait().unwrap();
    assert!(
        !String::from_utf8_lossy(&seen).contains("hello from"),
        "{}",
        String::from_utf8_lossy(&seen)
    );
    assert!(
        user.work().join("out/two.txt").exists(),
        "the approved component ran: {}",
        String::from_utf8_lossy(&seen)
    );
    let (approvals, records) = (json(&user, &["permissions", "--json"]), user.records());
    assert!(
        records
            .iter()
            .all(|record| record["skill"]["digest"] == approvals["approvals"][0]["digest"]),
        "{records:?} {approvals}"
    );
}

#[test]
fn levels_are_set_and_shown_and_bound_to_the_skill() {
    let user = user();
    assert!(user.skillhost(&["permissions", "set", "reporter", "auto-approved"]).status.success());
    assert!(user.skillhost(&RUN).status.success());
    assert!(out(&user.skillhost(&["permissions"])).starts_with("reporter: auto-approved (by "));
    std::fs::write(user.work().join(".agents/skills/reporter/more.txt"), "more").unwrap();
    assert_eq!(user.skillhost(&RUN).status.code(), Some(77), "the skill has changed");
    for wrong in [
        vec!["permissions", "set", "reporter", "maybe"],
        vec!["permissions", "set", "nobody", "auto-approved"],
    ] {
        assert_eq!(user.skillhost(&wrong).status.code(), Some(64), "{wrong:?}");
    }
    // Disabled ones are marked.
    assert!(user.skillhost(&["permissions", "set", "reporter", "disabled"]).status.success());
    assert_eq!(
        json(&user, &["search", "--enabled", "no", "--json"])["hits"][0]["name"],
        "reporter"
    );
    assert!(!out(&user.skillhost(&["prompt"])).contains("reporter"));
}

#[test]
fn approval_is_requested_at_the_terminal() {
    let user = user();
    let run = format!("{SKILLHOST} run reporter --workspace out");
    let (code, shown) = at_terminal(&user, &run, "n\n");
    assert!(shown.contains("reporter asks to run") && shown.contains("[o]nce"), "{shown}");
    assert_eq!(code, Some(77), "{shown}");
    assert_eq!(json(&user, &["pending", "--json"]), serde_json::json!([]), "no is an answer");
    let (code, shown) = at_terminal(&user, &run, "a\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(user.work().join("out/two.txt").exists());
    let (code, shown) = at_terminal(&user, &run, "");
    assert!(code == Some(0) && !shown.contains("[o]nce"), "{shown}");
}

#[test]
fn staged_writes_are_shown_and_applied_on_approval() {
    let user = user();
    let policy = "default: { approval: auto-approved, stage: true, allow: [Read, Write] }\n";
    std::fs::write(user.work().join("policy.yaml"), policy).unwrap();
    let run = ["run", "./writer", "--workspace", "out", "--policy", "policy.yaml"];
    let file = user.work().join("out/two.txt");
    let staged = user.skillhost(&run);
    assert!(
        out(&staged).contains("+++ b/two.txt") && err(&staged).contains("not written yet"),
        "{}",
        err(&staged)
    );
    assert!(!file.exists());
    // The writes await approval.
    let pending = json(&user, &["pending", "--json"]);
    assert!(pending[0]["diff"].as_str().unwrap().contains("+++ b/two.txt"), "{pending}");
    assert!(
        out(&user.skillhost(&["pending"])).contains("writer ran and wants to change 2 paths"),
        "{pending}"
    );
    assert!(user.skillhost(&["approve", "1"]).status.success());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "new text\n");
    assert_eq!(json(&user, &["pending", "--json"]), serde_json::json!([]));
    // A file that has changed since is not overwritten, and nothing else is written.
    std::fs::remove_file(user.work().join("out/one.txt")).unwrap();
    std::fs::remove_file(&file).unwrap();
    user.skillhost(&run);
    std::fs::write(&file, "someone's own").unwrap();
    let late = user.skillhost(&["approve", "2"]);
    assert!(
        !late.status.success() && err(&late).contains("has changed since the run"),
        "{}",
        err(&late)
    );
    assert!(!user.work().join("out/one.txt").exists());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "someone's own");
    assert!(user.skillhost(&["approve", "2", "--no"]).status.success());
    std::fs::remove_file(&file).unwrap();
    let command = format!("{SKILLHOST} {}", run.join(" "));
    let (_, shown) = at_terminal(&user, &command, "n\n");
    assert!(shown.contains("write these changes?") && !file.exists(), "{shown}");
    assert_eq!(
        json(&user, &["pending", "--json"]),
        serde_json::json!([]),
        "refused writes are not pending"
    );
    let (_, shown) = at_terminal(&user, &command, "y\n");
    assert!(file.exists(), "{shown}");
    let report = json(&user, &["permissions", "--json"]);
    let answers = report["approvals"].as_array().unwrap();
    let rejected = answers.iter().filter(|answer| answer["rejected"] == true).count();
    assert_eq!((answers.len(), rejected), (4, 2), "each answer is kept: {report}");
    assert!(answers.iter().all(|answer| answer["who"] != ""), "{report}");
    std::fs::remove_file(&file).unwrap();
    assert!(user.skillhost(&[&run[..], &["--apply"]].concat()).status.success());
    assert!(file.exists());
    // If the approval cannot be recorded, nothing is written.
    std::fs::remove_file(&file).unwrap();
    let db = rusqlite::Connection::open(user.home().join(".local/state/skillhost/approvals.db"))
        .unwrap();
    db.execute_batch("DROP TABLE pending").unwrap();
    let (code, shown) = at_terminal(&user, &command, "y\n");
    assert!(code == Some(74) && shown.contains("no such table") && !file.exists(), "{shown}");
}
