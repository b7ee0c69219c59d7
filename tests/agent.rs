//! `skillhost agent`: what an agent's home folder contains, what it does not, and that nothing of it
//! stays.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::{User, repository, script_skill, text};
use crate::readme::blocks::Document;
use crate::support::files;

/// Reports the lines of a change that add a call of `print`.
const REVIEW: &str = "import sys
for number, line in enumerate(open(sys.argv[1]), 1):
    if line.startswith('+') and 'print(' in line:
        print(f'{sys.argv[1]}:{number}: remove the output')
";

fn new() -> User {
    let user = User::new();
    let skills = user.work().join("skills");
    for (name, tags) in [("code-review", "review, ci"), ("drafts", "writing")] {
        let folder = skills.join(name);
        script_skill(&folder, &[("review.py", REVIEW)]);
        let file = folder.join("SKILL.md");
        let with_tags = fs::read_to_string(&file)
            .unwrap()
            .replace("Read Write Bash WebFetch", "Read")
            .replacen("---\nRun", &format!("metadata:\n  tags: {tags}\n---\nRun"), 1);
        fs::write(file, with_tags).unwrap();
    }
    fs::write(user.work().join("change.diff"), "+a = 1\n+print(a)\n-print(b)\n").unwrap();
    // The stand-in is the client's program.
    let bin = user.root().join("bin");
    fs::create_dir(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\nexec python3 {} \"$@\"\n",
        repository("tests/clients/agent.py").display()
    );
    fs::write(bin.join("claude"), script).unwrap();
    fs::set_permissions(bin.join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
    user
}

fn agent(user: &User, args: &[&str]) -> Command {
    let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
    let bin = Path::new(env!("CARGO_BIN_EXE_skillhost")).parent().unwrap();
    let path = format!("{}:{}:/usr/bin:/bin", user.root().join("bin").display(), bin.display());
    command.env("PATH", path).arg("agent").args(args);
    command
}

fn run(user: &User, args: &[&str]) -> Output {
    agent(user, args).output().unwrap()
}

/// The home folders that exist.
fn homes(user: &User) -> Vec<PathBuf> {
    let folders = files(&user.root().join("tmp"));
    folders.iter().filter(|folder| folder.is_dir()).flat_map(|folder| files(folder)).collect()
}

/// Starts an agent, and waits until its home folder is complete.
fn started(user: &User, script: &str) -> (Child, PathBuf) {
    let marker = user.root().join("marker");
    fs::remove_file(&marker).ok();
    let script = format!("echo \"$HOME\" > {}; {script}", marker.display());
    let child = agent(user, &["--", "sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let since = Instant::now();
    let home = loop {
        let home = fs::read_to_string(&marker).unwrap_or_default();
        if home.ends_with('\n') {
            break PathBuf::from(home.trim());
        }
        assert!(since.elapsed() < Duration::from_secs(30), "the command never started");
        std::thread::sleep(Duration::from_millis(5));
    };
    (child, home)
}

/// The documented command line.
fn documented() -> Vec<String> {
    let page = Document::read("docs/guide/agents.md");
    let line =
        page.lines.iter().find(|line| line.starts_with("$ skillhost agent --skills")).unwrap();
    let script = format!(
        "for word in {}; do printf '%s\\n' \"$word\"; done",
        line.strip_prefix("$ ").unwrap()
    );
    let words = Command::new("sh").args(["-c", &script]).output().unwrap();
    text(&words.stdout).lines().skip(2).map(str::to_owned).collect()
}

#[test]
fn documented_agent_reviews_a_change_with_a_skill() {
    let user = new();
    let args = documented();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let first = agent(&user, &args).env("ANTHROPIC_API_KEY", "key").output().unwrap();
    let shown = text(&first.stdout);
    assert!(shown.starts_with("skills: ['code-review']\nrun_skill: error"), "{first:?}");
    assert!(shown.contains("skillhost approve 1") && shown.ends_with("hook: ask\n"), "{shown}");
    assert_eq!(first.status.code(), Some(1), "the exit code is the command's");
    // The approval is the operator's, and outlives the home folder.
    let approved = user.skillhost(&["approve", "1", "--always"]);
    assert!(approved.status.success(), "{approved:?}");
    let second = agent(&user, &args).env("ANTHROPIC_API_KEY", "key").output().unwrap();
    let finding = "change.diff:2: remove the output\n";
    let shown = text(&second.stdout);
    assert!(shown.starts_with("skills: ['code-review']\nrun_skill: ok"), "{second:?}");
    assert!(shown.contains(finding), "{shown}");
    assert_eq!(second.status.code(), Some(0), "{second:?}");
    assert_eq!(homes(&user), [] as [PathBuf; 0]);
    // Both runs are in the operator's audit log.
    let ended = user.records();
    assert!(ended.iter().any(|record| record["status"]["kind"] == "exited"), "{ended:?}");
}

#[test]
fn command_gets_only_what_is_named() {
    let user = new();
    let login = user.home().join(".claude/.credentials.json");
    fs::create_dir_all(login.parent().unwrap()).unwrap();
    fs::write(&login, "{\"token\": 1}").unwrap();
    fs::write(user.home().join("secret"), "x").unwrap();
    let script = "env | cut -d= -f1 | sort | tr '\\n' ' '; cat ~/.claude/.credentials.json; stat -c ' %a' ~/.claude/.credentials.json; ls -A ~ ~/.claude ~/.claude/skills; stat -c %a ~";
    let mut command = agent(
        &user,
        &["--env", "NAMED", "--pass-file", login.to_str().unwrap(), "--", "sh", "-c", script],
    );
    let ended = command.env("NAMED", "1").env("OTHER", "1").env("TERM", "dumb").output().unwrap();
    let shown = text(&ended.stdout);
    let variables = "HOME NAMED PATH PWD SKILLHOST_FOLDERS TERM TMPDIR ";
    assert!(shown.starts_with(&format!("{variables}{{\"token\": 1}} 600\n")), "{ended:?}");
    for name in [".claude.json", ".codex", "settings.json", "tmp"] {
        assert!(shown.contains(name), "{name}: {shown}");
    }
    assert!(!shown.contains("secret") && shown.ends_with("700\n"), "{shown}");
    assert_eq!(homes(&user), [] as [PathBuf; 0]);
}

#[test]
fn skills_of_the_user_are_in_the_home_folder() {
    let user = new();
    script_skill(&user.home().join(".agents/skills/mine"), &[("a.py", "print(1)")]);
    let script = "ls ~/.claude/skills; cat ~/.claude/skills/mine/scripts/a.py";
    let ended = run(&user, &["--", "sh", "-c", script]);
    assert_eq!(text(&ended.stdout), "mine\nprint(1)", "{ended:?}");
    // Those of --skills take their place, and are as little trusted as with `run`.
    let script = "ls ~/.claude/skills; skillhost list --json";
    let ended = run(&user, &["--skills", "skills", "--tag", "CI", "--", "sh", "-c", script]);
    let shown = text(&ended.stdout);
    let (names, list) = shown.split_once('\n').unwrap();
    assert_eq!(names, "code-review");
    let list: Value = serde_json::from_str(list).unwrap();
    let entry = list["skills"].as_array().unwrap().iter().find(|one| one["name"] == "code-review");
    assert_eq!(entry.unwrap()["source"], "flag", "{list}");
}

#[test]
fn exit_codes_and_errors_leave_no_home_folder() {
    let user = new();
    for (args, code) in [
        (&["--", "sh", "-c", "exit 7"][..], 7),
        (&["--", "sh", "-c", "kill -KILL $$"], 128 + 9),
        (&["--", "no-such-program"], 64),
        (&["--pass-file", "/etc/passwd", "--", "true"], 64),
        (&["--pass-file", "no-such-file", "--", "true"], 64),
        (&["--workspace", "no-such-folder", "--", "true"], 64),
        (&["--skills", "no-such-folder", "--", "true"], 64),
        (&["--env", "A=1", "--", "true"], 64),
        (&["true"], 64),
    ] {
        let ended = run(&user, args);
        assert_eq!(ended.status.code(), Some(code), "{args:?}: {ended:?}");
        assert_eq!(homes(&user), [] as [PathBuf; 0], "{args:?}");
    }
}

#[test]
fn signals_are_passed_on_and_the_home_folder_is_removed() {
    use rustix::process::Signal;
    let user = new();
    for (signal, name, code) in [
        (Signal::TERM, "TERM", 41),
        (Signal::INT, "INT", 42),
        (Signal::HUP, "HUP", 43),
        (Signal::USR1, "USR1", 44),
    ] {
        let script = format!("trap 'exit {code}' {name}; while :; do sleep 0.05; done");
        let (child, home) = started(&user, &script);
        assert!(home.join(".claude/settings.json").is_file());
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{name}");
        assert!(!home.exists(), "{name}");
    }
    // A command that a signal ends.
    let (child, home) = started(&user, "exec sleep 60");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(128 + 15));
    assert!(!home.exists());
}

#[test]
fn next_start_removes_what_a_killed_one_left_and_not_what_is_in_use() {
    let user = new();
    let (mut killed, left) = started(&user, "exec sleep 5");
    let (live, in_use) = started(&user, "exec sleep 60");
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(left.join(".claude/settings.json").is_file());
    let next = run(&user, &["--", "true"]);
    assert!(next.status.success(), "{next:?}");
    assert!(!left.exists() && in_use.exists());
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&live),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    live.wait_with_output().unwrap();
    assert_eq!(homes(&user), [] as [PathBuf; 0]);
}

#[test]
fn homes_are_private_and_refused_in_a_folder_of_others() {
    let user = new();
    let ended = run(&user, &["--", "true"]);
    assert!(ended.status.success(), "{ended:?}");
    let folder = files(&user.root().join("tmp")).pop().unwrap();
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let ended = run(&user, &["--", "true"]);
    assert_eq!(ended.status.code(), Some(74), "{ended:?}");
    assert!(
        text(&ended.stderr).contains("others own") || text(&ended.stderr).contains("other users")
    );
}
