//! The hook of Claude Code: which commands run in the sandbox, which pass and which are denied, and
//! that nothing runs natively because the hook failed.
//!
//! `tests/cases/hook/claude-code.json` is the example of a `PreToolUse` event in Claude Code's hooks
//! reference.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::{User, repository, script_skill, text};

/// The settings that the documentation shows.
const SETTINGS: &str = r#"{ "hooks": { "PreToolUse": [ { "matcher": "Bash|Monitor|PowerShell", "hooks": [
    { "type": "command", "command": "skillhost", "args": ["hook", "claude-code"],
      "timeout": 10, "onFailure": "block" } ] } ] } }"#;

/// Counts the lines of a file in the current folder.
const COUNT: &str = "import sys
print('lines:', len(open(sys.argv[1]).readlines()), *sys.argv[2:])
print('done', file=sys.stderr)
sys.exit(3)
";

/// A user of Claude Code with a project that has the skill `x`.
pub struct Project {
    pub user: User,
}

impl Project {
    pub fn new() -> Project {
        let project = Project { user: User::new() };
        // The project is a repository, so its folders share its skills.
        fs::create_dir(project.user.work().join(".git")).unwrap();
        project.settings(SETTINGS);
        let scripts = [
            ("y.py", COUNT),
            ("z.sh", "#!/bin/bash\necho \"z $*\"\n"),
            ("w.js", "1"),
            ("n.txt", ""),
        ];
        script_skill(&project.skill(), &scripts);
        fs::write(project.user.work().join("data.csv"), "a\nb\nc\n").unwrap();
        project
    }

    pub fn skill(&self) -> PathBuf {
        self.user.work().join(".claude/skills/x")
    }

    fn settings(&self, text: &str) {
        let folder = self.user.home().join(".claude");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("settings.json"), text).unwrap();
    }

    /// The documented event, for this command in the project.
    fn event(&self, command: &str) -> Value {
        let example = fs::read_to_string(repository("tests/cases/hook/claude-code.json")).unwrap();
        let mut event: Value = serde_json::from_str(&example).unwrap();
        event["cwd"] = self.user.work().canonicalize().unwrap().to_str().unwrap().into();
        event["tool_input"]["command"] = command.into();
        event
    }

    fn command(&self) -> std::process::Command {
        let mut command = self.user.command(env!("CARGO_BIN_EXE_skillhost"));
        command.env("CLAUDE_PID", std::process::id().to_string());
        command
    }

    /// Runs the hook as Claude Code does.
    fn start(&self, args: &[&str], event: &str) -> Output {
        let mut command = self.command();
        command.args(["hook"]).args(args);
        answer(command, event)
    }

    /// The hook's answer; `None` if it has no decision.
    pub fn answer(&self, command: &str) -> Option<Value> {
        let output = self.start(&["claude-code"], &self.event(command).to_string());
        assert!(output.status.success() && output.stderr.is_empty(), "{command}: {output:?}");
        let answer = text(&output.stdout);
        (!answer.is_empty()).then(|| serde_json::from_str(&answer).unwrap())
    }

    /// The decision and the command that runs instead, or the reason.
    fn decision(&self, command: &str) -> (String, String) {
        let Some(answer) = self.answer(command) else { return ("pass".into(), String::new()) };
        let specific = &answer["hookSpecificOutput"];
        assert_eq!(specific["hookEventName"], "PreToolUse");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let detail = match specific.get("updatedInput") {
            Some(input) => text(&input["command"]),
            None => text(&specific["permissionDecisionReason"]),
        };
        (text(&specific["permissionDecision"]), detail)
    }

    /// The command that runs instead, which the client asks about.
    fn rewritten(&self, command: &str) -> String {
        let (decision, line) = self.decision(command);
        assert_eq!(decision, "ask", "{command}: {line}");
        line
    }

    fn denied(&self, command: &str) -> String {
        let (decision, reason) = self.decision(command);
        assert_eq!(decision, "deny", "{command}: {reason}");
        reason
    }

    fn passes(&self, command: &str) {
        assert_eq!(self.decision(command), ("pass".into(), String::new()), "{command}");
    }

    /// Approves every later run of what is pending.
    fn approve_all(&self) {
        let pending = self.user.skillhost(&["pending", "--json"]);
        let pending: Value = serde_json::from_slice(&pending.stdout).unwrap();
        for request in pending.as_array().unwrap() {
            let id = request["id"].to_string();
            let approved = self.user.skillhost(&["approve", &id, "--always"]);
            assert!(approved.status.success(), "{approved:?}");
        }
    }

    /// Runs a command in bash, in the project.
    fn bash(&self, command: &str) -> Output {
        self.user.command("bash").args(["-c", command]).output().unwrap()
    }
}

fn answer(mut command: std::process::Command, event: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A hook that refuses its configuration does not read the event.
    child.stdin.take().unwrap().write_all(event.as_bytes()).ok();
    child.wait_with_output().unwrap()
}

/// Whether Claude Code blocks the command: the hook exits with 2 and says why on stderr.
fn blocks(output: &Output, why: &str) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{why}: {output:?}");
    assert!(output.stdout.is_empty() && stderr.contains(why), "{why}: {stderr}");
}

const SCRIPT: &str = ".claude/skills/x/scripts/y.py";

#[test]
fn recorded_event_becomes_a_sandboxed_run_with_the_output_of_the_native_one() {
    let project = Project::new();
    let command = format!("python3 {SCRIPT} data.csv 'two words' \"it's\" ''");
    let native = project.bash(&command);
    assert_eq!(native.status.code(), Some(3), "{native:?}");
    let line = project.rewritten(&command);
    assert_eq!(
        line,
        "skillhost run x scripts/y.py --workspace . -- data.csv 'two words' 'it'\\''s' ''"
    );
    // The client's user said yes, but the operator has not approved the skill.
    let refused = project.bash(&line);
    assert_eq!(refused.status.code(), Some(77), "{refused:?}");
    assert!(text(&refused.stderr).contains("skillhost approve"), "{refused:?}");
    project.approve_all();
    let sandboxed = project.bash(&line);
    assert_eq!(text(&sandboxed.stdout), text(&native.stdout), "{sandboxed:?}");
    assert_eq!(text(&sandboxed.stdout), "lines: 3 two words it's \n");
    assert_eq!(sandboxed.status.code(), native.status.code());
    assert!(text(&sandboxed.stderr).ends_with(&text(&native.stderr)), "{sandboxed:?}");
    let record = project.user.records().pop().unwrap();
    assert_eq!(record["status"]["kind"], "exited", "{record}");
}

#[test]
fn client_asks_unless_policy_and_approvals_let_the_run_start() {
    let project = Project::new();
    let command = format!("python3 {SCRIPT} data.csv");
    assert_eq!(project.decision(&command).0, "ask");
    let line = project.rewritten(&command);
    assert_eq!(project.bash(&line).status.code(), Some(77));
    assert_eq!(project.decision(&command).0, "ask", "asking is not approving");
    project.approve_all();
    assert_eq!(project.decision(&command), ("allow".into(), line.clone()));
    // Another program of the skill was not approved, nor is a changed version of this one.
    assert_eq!(project.decision("bash .claude/skills/x/scripts/z.sh").0, "ask");
    fs::write(project.skill().join("scripts/y.py"), "print(1)\n").unwrap();
    assert_eq!(project.decision(&command).0, "ask");
}

#[test]
fn approval_for_one_run_does_not_spare_the_question() {
    let project = Project::new();
    let command = format!("python3 {SCRIPT} data.csv");
    project.bash(&project.rewritten(&command));
    let approved = project.user.skillhost(&["approve", "1", "--once"]);
    assert!(approved.status.success(), "{approved:?}");
    assert_eq!(project.decision(&command).0, "ask");
}

#[test]
fn skill_that_the_operator_blocks_is_denied() {
    let project = Project::new();
    let set = project.user.skillhost(&["permissions", "set", "x", "blocked"]);
    assert!(set.status.success(), "{set:?}");
    let reason = project.denied(&format!("python3 {SCRIPT}"));
    assert!(reason.contains("x is blocked") && reason.contains("permissions set x"), "{reason}");
}

#[test]
fn other_fields_of_the_input_are_kept() {
    let project = Project::new();
    let answer = project.answer(&format!("python3 {SCRIPT}")).unwrap();
    let input = &answer["hookSpecificOutput"]["updatedInput"];
    let line = "skillhost run x scripts/y.py --workspace . --";
    assert_eq!(
        *input,
        json!({ "command": line, "description": "Run test suite", "timeout": 120000, "run_in_background": false })
    );
}

#[test]
fn every_way_to_start_a_script_is_recognized() {
    let project = Project::new();
    let folder = project.skill().canonicalize().unwrap();
    symlink(project.skill(), project.user.work().join("link")).unwrap();
    symlink("link/scripts/y.py", project.user.work().join("y")).unwrap();
    fs::create_dir_all(project.user.work().join("sub dir")).unwrap();
    let run = |script: &str, args: &str| {
        format!("skillhost run x scripts/{script} --workspace . --{args}")
    };
    for (command, expected) in [
        (format!("python3 {SCRIPT} a b"), run("y.py", " a b")),
        (format!("python -u ./{SCRIPT}"), run("y.py", "")),
        (format!("/usr/bin/python3.12 {SCRIPT}"), run("y.py", "")),
        (format!("python3 {}/scripts/y.py -v", folder.display()), run("y.py", " -v")),
        ("python3 link/scripts/y.py".to_owned(), run("y.py", "")),
        ("python3 y".to_owned(), run("y.py", "")),
        (
            "python3 hello/../.claude/./skills//x/scripts/../scripts/y.py".to_owned(),
            run("y.py", ""),
        ),
        (format!("'python3' \"{SCRIPT}\" '$x'"), run("y.py", " '$x'")),
        (format!("uv run {SCRIPT} a"), run("y.py", " a")),
        (format!("uv run --no-project python {SCRIPT}"), run("y.py", "")),
        ("bash .claude/skills/x/scripts/z.sh a".to_owned(), run("z.sh", " a")),
        ("sh .claude/skills/x/scripts/z.sh".to_owned(), run("z.sh", "")),
        (".claude/skills/x/scripts/z.sh --help".to_owned(), run("z.sh", " --help")),
        ("node .claude/skills/x/scripts/w.js a".to_owned(), run("w.js", " a")),
        (".claude/skills/x/scripts/w.js".to_owned(), run("w.js", "")),
        ("npx -y tsx .claude/skills/x/scripts/w.js -v".to_owned(), run("w.js", " -v")),
        ("bun run .claude/skills/x/scripts/w.js".to_owned(), run("w.js", "")),
        ("deno run -A .claude/skills/x/scripts/w.js".to_owned(), run("w.js", "")),
        (
            format!("cd 'sub dir' && python3 ../{SCRIPT} ../data.csv"),
            format!("cd 'sub dir' && {}", run("y.py", " ../data.csv")),
        ),
        (
            "cd .claude/skills/x && python3 scripts/y.py in.csv".to_owned(),
            "cd .claude/skills/x && skillhost run x scripts/y.py -- in.csv".to_owned(),
        ),
    ] {
        assert_eq!(project.rewritten(&command), expected, "{command}");
    }
}

#[test]
fn skills_of_the_user_are_known_by_their_home_path() {
    let project = Project::new();
    script_skill(&project.user.home().join(".claude/skills/mine"), &[("a.py", "print(1)")]);
    let line = "skillhost run mine scripts/a.py --workspace . --";
    assert_eq!(project.rewritten("python3 ~/.claude/skills/mine/scripts/a.py"), line);
    let reason = project.denied("python3 $HOME/.claude/skills/mine/scripts/a.py");
    assert!(reason.contains("skill mine"), "{reason}");
}

#[test]
fn name_that_means_another_folder_is_not_used_alone() {
    let project = Project::new();
    // This one has the name `x`, because its folder comes first.
    script_skill(&project.user.work().join(".agents/skills/x"), &[("y.py", "print('other')")]);
    let parent = project.skill().canonicalize().unwrap().parent().unwrap().display().to_string();
    assert_eq!(
        project.rewritten(&format!("python3 {SCRIPT}")),
        format!("skillhost run x scripts/y.py --skills {parent} --workspace . --")
    );
}

#[test]
fn commands_that_are_not_exact_are_denied_with_a_line_to_use() {
    let project = Project::new();
    symlink(project.skill(), project.user.work().join("link")).unwrap();
    for command in [
        "python3 .claude/skills/x/scripts/y.py data.csv | head -3",
        "python3 .claude/skills/x/scripts/y.py > out.txt",
        "python3 .claude/skills/x/scripts/y.py; ls",
        "cd .claude/skills/x; python3 scripts/y.py",
        "cd .claude/skills && cd x && python3 scripts/y.py",
        "cd .claude && python3 skills/x/scripts/y.py | cat",
        "X=1 python3 .claude/skills/x/scripts/y.py",
        "python3 $PWD/.claude/skills/x/scripts/y.py",
        "python3 \"${CLAUDE_PROJECT_DIR}\"/.claude/skills/x/scripts/y.py",
        "python3 ${CLAUDE_SKILL_DIR}/scripts/y.py",
        "python3 .claude/skills/*/scripts/y.py",
        "python3 .claude/skills/'x'/scripts/y.py | cat",
        "python3 .claude/skills/\\\nx/scripts/y.py",
        "for s in .claude/skills/*; do python3 $s/scripts/y.py; done",
        "bash -c 'python3 .claude/skills/x/scripts/y.py'",
        "bash -c 'cd .claude/skills; python3 x/scripts/y.py'",
        "python3 -c 'exec(open(\".claude/skills/x/scripts/y.py\").read())'",
        "python3 -m pdb .claude/skills/x/scripts/y.py",
        "python3 -i .claude/skills/x/scripts/y.py",
        "bash -x .claude/skills/x/scripts/z.sh",
        "env python3 .claude/skills/x/scripts/y.py",
        "time python3 .claude/skills/x/scripts/y.py",
        "xargs python3 .claude/skills/x/scripts/y.py",
        "source .claude/skills/x/scripts/z.sh",
        ". .claude/skills/x/scripts/z.sh",
        "node -r ./own.js .claude/skills/x/scripts/w.js",
        "node --check .claude/skills/x/scripts/w.js",
        "npx prettier .claude/skills/x/scripts/w.js",
        "python3 .claude/skills/x/scripts/w.js",
        "node .claude/skills/x/scripts/y.py",
        "bash .claude/skills/x/scripts/y.py",
        "python3 .claude/skills/x/scripts/z.sh",
        "python3 .claude/skills/x/scripts/n.txt",
        "python3 .claude/skills/x/scripts/missing.py",
        "python3 .claude/skills/x",
        "cp .claude/skills/x/scripts/y.py /tmp/y.py",
        "cp -r link/scripts /tmp/copy",
        "cat .claude/skills/x/scripts/y.py | python3",
        "python3 < .claude/skills/x/scripts/y.py",
        "python3 own.py --config=.claude/skills/x/config.json",
        "rm -r .claude/skills/x",
        "cd .claude/skills/x && make",
        "skillhost run ./.claude/skills/x scripts/y.py",
        "echo \"$(python3 .claude/skills/x/scripts/y.py)\"",
        "cat <<E\n.claude/skills/x\nE",
    ] {
        let reason = project.denied(command);
        assert!(reason.contains("skillhost run x "), "{command}: {reason}");
    }
}

#[test]
fn many_words_do_not_hide_the_folder_of_a_skill() {
    let project = Project::new();
    let skills = project.skill().parent().unwrap().to_owned();
    let base = skills.parent().unwrap().parent().unwrap();
    std::os::unix::fs::symlink(&skills, base.join("zz")).unwrap();
    // In any order, they come before the name of the link.
    let words: String = (0..1_000).map(|n| format!(" a{n}")).collect();
    project.passes(&format!("echo{words}"));
    project.denied("cd zz; python3 x/scripts/y.py");
    project.denied(&format!("echo{words}; cd zz; python3 x/scripts/y.py"));
}

#[test]
fn powershell_is_not_parsed() {
    let project = Project::new();
    let mut event = project.event(&format!("python3 {SCRIPT}"));
    event["tool_name"] = "PowerShell".into();
    let answer = project.start(&["claude-code"], &event.to_string());
    assert!(text(&answer.stdout).contains("\"deny\""), "{answer:?}");
    event["tool_input"]["command"] = "Get-ChildItem".into();
    let answer = project.start(&["claude-code"], &event.to_string());
    assert!(answer.status.success() && answer.stdout.is_empty(), "{answer:?}");
}

#[test]
fn commands_without_a_skill_pass_untouched() {
    let project = Project::new();
    let work = project.user.work();
    fs::create_dir_all(work.join("x/scripts")).unwrap();
    fs::write(work.join("x/scripts/y.py"), "print('not a skill')").unwrap();
    for command in [
        "npm test",
        "ls -la | grep x && echo $HOME > out; rm -f *.tmp",
        "git commit -m 'fix: x scripts'",
        "python3 x/scripts/y.py",
        "python3 -c 'print(1)'",
        "cd x && python3 scripts/y.py",
        "cat <<'E' > notes.md\n# x\n</div> and x\nE",
        "cat .claude/skills/x/SKILL.md",
        "ls -l .claude/skills/x/scripts",
        "grep -n import .claude/skills/x/scripts/y.py",
        "skillhost run x scripts/y.py --workspace . -- data.csv",
        "skillhost run x --workspace . --command 'python3 scripts/y.py data.csv | head'",
        "mkdir -p .claude/skills/new",
        "",
    ] {
        project.passes(command);
    }
    // Other tools too.
    let mut event = project.event("");
    event["tool_name"] = "Read".into();
    event["tool_input"] = json!({ "file_path": project.skill().join("SKILL.md") });
    let output = project.start(&["claude-code"], &event.to_string());
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
}

#[test]
fn documented_event_passes_without_a_runtime() {
    let project = Project::new();
    let event = project.event("npm test").to_string();
    let empty = project.user.root().join("no-runtimes");
    fs::create_dir(&empty).unwrap();
    let run = || {
        let mut command = project.command();
        command.args(["hook", "claude-code"]).env("SKILLHOST_PROGRAMS", &empty);
        let started = Instant::now();
        let output = answer(command, &event);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        started.elapsed()
    };
    // The fastest of several: other tests run at the same time, and this build is not optimized.
    let fastest = (0..10).map(|_| run()).min().unwrap();
    assert!(fastest < Duration::from_millis(100), "{fastest:?}");
    assert!(project.user.records().is_empty());
    assert_eq!(text(&project.user.skillhost(&["pending"]).stdout), "nothing is pending\n");
}

#[test]
fn hook_that_cannot_read_the_call_blocks_it() {
    let project = Project::new();
    let event = |change: &dyn Fn(&mut Value)| {
        let mut event = project.event("npm test");
        change(&mut event);
        event.to_string()
    };
    for (event, why) in [
        (String::new(), "stdin has no tool call"),
        ("{".to_owned(), "stdin has no tool call"),
        ("[]".to_owned(), "stdin has no tool call"),
        (
            event(&|event| drop(event.as_object_mut().unwrap().remove("cwd"))),
            "stdin has no tool call",
        ),
        (event(&|event| event["hook_event_name"] = "PostToolUse".into()), "not PreToolUse"),
        (event(&|event| event["tool_input"] = json!({})), "the tool call has no `command`"),
        (event(&|event| event["tool_input"]["command"] = json!(["ls"])), "has no `command`"),
        (event(&|event| event["cwd"] = "/no/such/folder".into()), "cannot enter"),
    ] {
        blocks(&project.start(&["claude-code"], &event), why);
    }
    blocks(&project.start(&["claude-code", "--no-such-option"], ""), "unexpected argument");
    blocks(&project.start(&[], ""), "required arguments");
}

#[test]
fn broken_policy_blocks_every_command() {
    let project = Project::new();
    let folder = project.user.home().join(".config/skillhost");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("policy.yaml"), "nonsense: [").unwrap();
    blocks(&project.start(&["claude-code"], &project.event("npm test").to_string()), "policy.yaml");
}

#[test]
fn answer_that_cannot_be_written_blocks_the_command() {
    let project = Project::new();
    let file = project.user.root().join("event.json");
    fs::write(&file, project.event(&format!("python3 {SCRIPT}")).to_string()).unwrap();
    let line = format!("skillhost hook claude-code < {} > /dev/full", file.display());
    let mut bash = project.user.command("bash");
    bash.args(["-c", &line]).env("CLAUDE_PID", std::process::id().to_string());
    let output = bash.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn hook_that_hangs_blocks_the_command_before_the_clients_timeout() {
    let project = Project::new();
    // Nothing writes to this pipe, so reading it never ends.
    let settings = project.user.work().join(".claude/settings.json");
    let made = project.user.command("mkfifo").arg(&settings).status().unwrap();
    assert!(made.success());
    let started = Instant::now();
    let output = project.start(&["claude-code"], &project.event("npm test").to_string());
    blocks(&output, "the hook took too long");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[test]
fn settings_that_do_not_block_on_failure_are_refused() {
    let project = Project::new();
    let event = project.event("npm test").to_string();
    for settings in [
        SETTINGS
            .replace(", \"onFailure\": \"block\"", "")
            .replace("\"onFailure\": \"block\"", "\"once\": false"),
        SETTINGS.replace("\"block\"", "\"continue\""),
        SETTINGS.replace("\"timeout\": 10", "\"async\": true"),
        SETTINGS
            .replace(
                "\"command\": \"skillhost\", \"args\": [\"hook\", \"claude-code\"]",
                "\"command\": \"exec skillhost hook claude-code\"",
            )
            .replace("\"block\"", "\"continue\""),
    ] {
        project.settings(&settings);
        blocks(&project.start(&["claude-code"], &event), "\"onFailure\": \"block\"");
    }
    project.settings("{}");
    blocks(&project.start(&["claude-code"], &event), "no settings of Claude Code");
    project.settings("{");
    blocks(&project.start(&["claude-code"], &event), "settings.json is broken");
    // A file that only the option names.
    project.settings("{}");
    let named = project.user.root().join("own.json");
    fs::write(&named, SETTINGS).unwrap();
    let output = project.start(&["claude-code", "--settings", named.to_str().unwrap()], &event);
    assert!(output.status.success(), "{output:?}");
    // A second entry that does not block counts, wherever it is.
    fs::write(
        project.user.work().join(".claude/settings.local.json"),
        SETTINGS.replace("\"block\"", "\"continue\""),
    )
    .unwrap();
    let output = project.start(&["claude-code", "--settings", named.to_str().unwrap()], &event);
    blocks(&output, "settings.local.json starts this hook");
}

#[test]
fn clients_that_run_a_command_after_a_failed_hook_are_refused() {
    let project = Project::new();
    let event = project.event("npm test").to_string();
    blocks(&project.start(&["codex"], &event), "Codex runs a command although its hook failed");
    let mut command = project.command();
    command.args(["hook", "claude-code"]).env_remove("CLAUDE_PID");
    blocks(&answer(command, &event), "$CLAUDE_PID is not set");
    for (version, is_known) in [("2.1.294", false), ("2.1.295", true), ("3.0.0", true)] {
        // As the native installer does it, and as npm does.
        let native = project.user.root().join("versions").join(version);
        let package = project.user.root().join(format!("package-{version}"));
        fs::create_dir_all(native.parent().unwrap()).unwrap();
        fs::create_dir_all(package.join("bin")).unwrap();
        let manifest = json!({ "name": "@anthropic-ai/claude-code", "version": version });
        fs::write(package.join("package.json"), manifest.to_string()).unwrap();
        for program in [native, package.join("bin/claude")] {
            fs::copy("/bin/sleep", &program).unwrap();
            let mut client = std::process::Command::new(&program).arg("60").spawn().unwrap();
            // Until the program is started, its link leads to this test.
            let link = PathBuf::from(format!("/proc/{}/exe", client.id()));
            while link.read_link().unwrap() != program.canonicalize().unwrap() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let mut command = project.command();
            command.args(["hook", "claude-code"]).env("CLAUDE_PID", client.id().to_string());
            let output = answer(command, &event);
            client.kill().unwrap();
            client.wait().unwrap();
            match is_known {
                true => assert!(output.status.success(), "{version}: {output:?}"),
                false => blocks(&output, "needs Claude Code 2.1.295 or later"),
            }
        }
    }
}

#[test]
fn plugin_of_a_client_names_its_own_settings() {
    let project = Project::new();
    project.settings("{}");
    let mut command = project.command();
    let root = repository("plugins/skillhost");
    command.args(["hook", "claude-code"]).env("CLAUDE_PLUGIN_ROOT", &root);
    let output = answer(command, &project.event("npm test").to_string());
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(Path::new(&root).is_dir());
}
