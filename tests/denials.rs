//! A denial of a program applies to all its names: for the first program of a run, for programs
//! that others start, and for the commands that the shell runs itself.

use std::path::Path;

use skillhost::invoke::{RunRequest, Target};
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::{Io, Stdin};

use crate::cli::{User, guest, script_skill, skill_of, text};
use crate::hostile_host::{Fixture, shell_host};
use crate::receipt::Place;

/// The exit code of a denied run.
const DENIED: i32 = 77;

/// Runs with denials; returns the exit code and stderr.
fn run(user: &User, denials: &[&str], args: &[&str]) -> (i32, String) {
    let programs = user.stand_ins();
    let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
    command.args(["run", "--programs"]).arg(programs);
    for denial in denials {
        command.args(["--deny", denial]);
    }
    let output = command.args(args).output().unwrap();
    (output.status.code().unwrap(), text(&output.stderr))
}

#[test]
fn a_denial_stops_an_interpreter_as_the_first_program() {
    let user = User::new();
    let skill = user.work().join("scripted");
    std::fs::create_dir_all(skill.join("scripts")).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: scripted\ndescription: Has scripts. Use to test.\n---\n",
    )
    .unwrap();
    for (name, content) in [
        ("x.py", ""),
        ("versioned", "#!/usr/bin/python3.12\n"),
        ("x.sh", ""),
        ("posix", "#!/bin/dash\n"),
        ("x.mjs", ""),
        ("x.ts", "#!/usr/bin/env -S npx tsx\n"),
    ] {
        std::fs::write(skill.join("scripts").join(name), content).unwrap();
    }
    let python = [&["./scripted", "x.py"][..], &["./scripted", "scripts/versioned"]];
    let shell = [
        &["./scripted", "x.sh"][..],
        &["./scripted", "scripts/posix"],
        &["./scripted", "--command", "true"],
    ];
    let javascript = [&["./scripted", "x.mjs"][..], &["./scripted", "x.ts"]];
    for (denial, denied, runs) in [
        ("Bash(node:*)", &javascript[..], &python[..]),
        ("Bash(tsx:*)", &javascript, &shell),
        ("Bash(npx:*)", &[], &javascript),
        ("Bash(python3:*)", &python[..], &shell[..]),
        ("Bash(python)", &python, &shell),
        ("Bash(/usr/bin/python3.14 *)", &python, &shell),
        ("Bash(bash:*)", &shell, &python),
        ("Bash(sh:*)", &shell, &python),
        ("Bash(jq:*)", &[], &[python[0], shell[0], shell[2]]),
    ] {
        for args in denied {
            let (code, stderr) = run(&user, &[denial], args);
            assert!(
                code == DENIED && stderr.contains("blocked by `--deny Bash("),
                "{denial} {args:?}: {code} {stderr}"
            );
        }
        for args in runs {
            let (code, stderr) = run(&user, &[denial], args);
            assert_eq!(code, 0, "{denial} {args:?}: {stderr}");
        }
    }
    for args in [python[0], shell[0], shell[2]] {
        assert_eq!(run(&user, &["Bash"], args).0, DENIED, "{args:?}");
    }
}

#[test]
fn denying_its_name_stops_the_skills_component() {
    let user = User::new();
    let skill = user.work().join("named");
    skill_of("hello", &skill);
    // The component's file name differs from the skill's name.
    std::fs::rename(skill.join("named.wasm"), skill.join("upload.wasm")).unwrap();
    let manifest = std::fs::read_to_string(skill.join("SKILL.md"))
        .unwrap()
        .replace("named.wasm", "upload.wasm");
    std::fs::write(skill.join("SKILL.md"), manifest).unwrap();
    for denial in ["Bash(named:*)", "Bash(upload:*)", "Bash(upload.wasm:*)"] {
        assert_eq!(run(&user, &[denial], &["./named"]).0, DENIED, "{denial}");
    }
    // `Bash` entries do not apply to the program that the operator runs.
    for denial in ["Bash", "Bash(other:*)"] {
        let (code, stderr) = run(&user, &[denial], &["./named"]);
        assert_eq!(code, 0, "{denial}: {stderr}");
    }
}

#[test]
fn a_denial_stops_a_started_program_under_each_name() {
    let fixture = Fixture::new();
    for copy in ["tool.wasm", "same.wasm"] {
        std::fs::write(fixture.path("skills/hostile").join(copy), guest("hello")).unwrap();
    }
    let launch = |line: &str, denial: &str| {
        let args: Vec<&str> = std::iter::once("launch").chain(line.split(' ')).collect();
        fixture.run(&args).deny(denial).go()
    };
    for line in [
        "tool",
        "tool.wasm",
        "/skill/tool",
        "env tool",
        "/usr/bin/env nice -n 5 tool",
        "timeout 9 nohup tool.wasm",
        "same",
    ] {
        let outcome = launch(line, "Bash(tool:*)");
        assert_eq!(
            (&outcome.status, outcome.usage.processes),
            (&Status::Exited { code: 126 }, 0),
            "{line}: {outcome:?}"
        );
        assert_eq!(outcome.denials[0].rule, "the policy denies `Bash(tool:*)`", "{line}");
        let outcome = launch(line, "Bash(jq:*)");
        assert_eq!(
            (&outcome.status, outcome.usage.processes),
            (&Status::Exited { code: 0 }, 1),
            "{line}: {outcome:?}"
        );
    }
    // A command that only wraps another is denied at any position.
    for line in ["nice tool", "env nice tool", "env -i nohup nice -n 5 tool"] {
        assert_eq!(launch(line, "Bash(nice:*)").usage.processes, 0, "{line}");
    }
    for line in [
        "python x.py",
        "python3.12 x.py",
        "/usr/bin/pypy3 x.py",
        "pip install x",
        "uv run x.py",
        "env python3 x.py",
    ] {
        let outcome = launch(line, "Bash(python3:*)");
        assert_eq!(outcome.usage.processes, 0, "{line}: {outcome:?}");
    }
}

#[test]
fn denial_of_a_missing_program_names_the_entry() {
    let fixture = Fixture::new();
    for (denial, code, rule) in [
        ("Bash(absent:*)", 126, "the policy denies `Bash(absent:*)`"),
        ("Bash(jq:*)", 127, "no program `absent` in the sandbox"),
    ] {
        let outcome = fixture.run(&["launch", "absent"]).deny(denial).go();
        assert_eq!(outcome.status, Status::Exited { code }, "{denial}: {outcome:?}");
        assert!(outcome.denials[0].rule.contains(rule), "{denial}: {outcome:?}");
    }
}

/// Runs a script in the shell.
fn shell(place: &Path, denials: &[&str], script: &str) -> Outcome {
    let (skill, workspace) = (place.join("skill"), place.join("workspace"));
    for folder in [&skill, &workspace] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: skill\ndescription: Runs commands. Use to test.\n---\n",
    )
    .unwrap();
    let overrides = Overrides {
        workspace: Some((workspace, MountMode::Write)),
        deny: denials.iter().map(|denial| (*denial).to_owned()).collect(),
        ..Overrides::default()
    };
    let policy = Policy::builtin()
        .with_command_line(overrides)
        .unwrap_or_else(|findings| panic!("{findings:?}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let io = Io { stdin: Stdin::Empty, ..Io::default() };
    let request = RunRequest {
        skill: (&skill).into(),
        policy: &policy,
        target: Target::Shell(script.into()),
        args: Vec::new(),
        io,
    };
    runtime
        .block_on(shell_host(place).invoke(request))
        .unwrap_or_else(|error| panic!("{error}"))
        .finished
        .outcome
}

#[test]
fn a_denial_stops_a_command_of_the_shell_however_called() {
    let dir = tempfile::tempdir().unwrap();
    let (place, victim) = (dir.path(), dir.path().join("workspace/victim"));
    for script in [
        "rm victim",
        r"\rm victim",
        "'r'm victim",
        "x=rm; $x victim",
        "command rm victim",
        "exec rm victim",
        "env rm victim",
        "nice -n 5 rm victim",
        "timeout 5 rm victim",
        "/bin/rm victim",
        "/usr/bin/env rm victim",
        "eval 'rm victim'",
        "alias y=rm; shopt -s expand_aliases\ny victim",
        "f() { rm \"$@\"; }; f victim",
        "(rm victim)",
        "true | rm victim",
        "rm victim &\nwait",
        "echo \"$(rm victim)\"",
        "bash -c 'rm victim'",
        "sh <<< 'rm victim'",
        "echo victim | xargs rm",
        "find . -name victim -exec rm {} +",
        "awk 'BEGIN { system(\"rm victim\") }'",
        "trap 'rm victim' EXIT",
        "unset SKILLHOST_DENIED_COMMANDS; rm victim",
        "SKILLHOST_DENIED_COMMANDS= bash -c 'rm victim'",
        "printf '#!/bin/sh\\nrm victim\\n' > s; chmod +x s; ./s",
    ] {
        std::fs::create_dir_all(place.join("workspace")).unwrap();
        std::fs::write(&victim, "here").unwrap();
        let outcome = shell(place, &["Bash(rm:*)"], script);
        assert!(victim.exists(), "{script}: {outcome:?}");
        assert_eq!(
            outcome.denials.first().map(|denial| denial.rule.as_str()),
            Some("the policy denies `Bash(rm:*)`"),
            "{script}: {outcome:?}"
        );
    }
    let outcome = shell(
        place,
        &["Bash(rm:*)"],
        "rm victim; echo \"$? ${SKILLHOST_DENIED_COMMANDS-unset}\"; ls",
    );
    assert_eq!(outcome.stdout.text(), "126 unset\ns\nvictim\n");
    assert_eq!(
        outcome.stderr.text(),
        "bash: line 1: rm: Permission denied: the policy denies `Bash(rm:*)`\n"
    );
    // An unrelated denial stops none of these.
    let outcome = shell(place, &["Bash(curl:*)"], "rm victim && echo gone");
    assert_eq!(
        (outcome.stdout.text().as_ref(), outcome.denials.len()),
        ("gone\n", 0),
        "{outcome:?}"
    );
}

#[test]
fn aliases_of_a_shell_command_are_denied_with_it() {
    let dir = tempfile::tempdir().unwrap();
    for (denial, script) in [
        ("Bash(grep:*)", "echo a | egrep a"),
        ("Bash(egrep:*)", "echo a | grep a"),
        ("Bash(awk:*)", "echo a | gawk '{ print }'"),
        ("Bash(curl:*)", "/usr/bin/curl --version"),
        ("Bash(python3:*)", "python --version"),
    ] {
        let outcome = shell(dir.path(), &[denial], script);
        assert_eq!(
            (outcome.stdout.text().as_ref(), outcome.denials.len()),
            ("", 1),
            "{denial} {script}: {outcome:?}"
        );
    }
}

#[test]
fn a_denied_shell_is_not_reached_by_its_own_commands() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = shell(dir.path(), &["Bash(bash:*)"], "echo hi");
    assert!(matches!(outcome.status, Status::Denied(_)), "{outcome:?}");
}

/// Python can start a single command of the shell, and some of these run or expand their arguments
/// like a shell.
#[test]
fn a_denied_shell_is_not_reached_from_python() {
    let user = User::new();
    let script = r#"
import subprocess
for argv in [["trap", "echo REACHED", "EXIT"], ["compgen", "-W", "$(echo REACHED)"], ["declare", "a[$(echo REACHED >&2)]=1"],
             ["printf", "-v", "a[$(echo REACHED >&2)]", "x"], ["eval", "echo REACHED"], ["printf", "plain %s"]]:
    done = subprocess.run(["xargs", *argv], input="x", capture_output=True, text=True)
    print(argv[0], done.returncode, done.stdout + done.stderr)
"#;
    script_skill(&user.work().join("starter"), &[("start.py", script)]);
    let ran = user.skillhost(&["run", "./starter", "scripts/start.py", "--deny", "Bash(bash)"]);
    let printed = text(&ran.stdout);
    assert!(!printed.contains("REACHED") && printed.matches(" 126 ").count() == 5, "{printed}");
    assert!(printed.contains("plain x"), "{printed}");
}

#[test]
fn a_denied_write_says_what_would_allow_it() {
    let place = Place::new();
    let message =
        text(&place.skillhost(&["run", "./sk", "--command", "echo > /skill/f"], "").stderr);
    let fix = "/skill is read-only\n  help: write to /workspace (`--workspace DIR`) or /tmp\n";
    assert!(message.contains(fix), "{message}");

    // The temporary file of `sed -i` has another name in each run.
    std::fs::write(place.path("policy.yaml"), "default: { allow: [Read, Bash] }\n").unwrap();
    let sed = ["run", "./sk", "--workspace", "w", "--policy", "policy.yaml", "--command"];
    let sed = [&sed[..], &["sed -i s/data/changed/ data/a.txt"]].concat();
    let message = text(&place.skillhost(&sed, "").stderr);
    assert!(message.contains("help: --allow 'Write(data/**)'\n"), "{message}");
    let run = place.skillhost(&[&sed[..], &["--allow", "Write(data/**)"]].concat(), "");
    assert!(run.status.success(), "{run:?}");
    assert_eq!(std::fs::read_to_string(place.path("w/data/a.txt")).unwrap(), "changed\n");
}
