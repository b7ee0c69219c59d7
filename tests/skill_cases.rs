//! `skillhost test`: what a case can say, what it cannot do, and what the command prints; and the
//! skills of `skillhost new`, which pass their own tests.

mod built_in;
mod hostile;
mod native;
mod new;

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::cli::{User, repository, script_skill, text};

/// Writes a skill `tally` with a script, and returns its folder.
fn tally(user: &User) -> PathBuf {
    let folder = user.work().join("tally");
    script_skill(
        &folder,
        &[(
            "sum.sh",
            "set -eu\nfor word in \"$@\"; do echo \"got $word\"; done\ncat\nif [[ -e old.txt ]]; then rm old.txt; echo new > new.txt; fi\n",
        )],
    );
    folder
}

/// Writes a case of a skill.
fn case(skill: &Path, name: &str, text: &str) -> PathBuf {
    let folder = skill.join("tests").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("case.yaml"), text).unwrap();
    folder
}

/// Runs `skillhost test` with the real runtimes.
fn test(user: &User, args: &[&str]) -> Output {
    let mut test = user.command(env!("CARGO_BIN_EXE_skillhost"));
    test.arg("test").args(args).arg("--programs").arg(repository("target/components"));
    test.output().unwrap()
}

/// Runs `skillhost test --json`, and returns the exit code and the report.
fn report(user: &User, args: &[&str]) -> (Option<i32>, Value) {
    let output = test(user, &[args, &["--json"]].concat());
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), report)
}

const PASSING: &str = "\
script: sum.sh
args: [one]
stdin: two
workspace: { old.txt: x }
expect:
  stdout: \"got one\\ntwo\"
  files:
    new.txt: new
    old.txt: { removed: true }
";

#[test]
fn case_that_passes_says_so_in_one_line() {
    let user = User::new();
    let skill = tally(&user);
    case(&skill, "words", PASSING);
    case(&skill, "nothing", "script: sum.sh\n");
    let output = test(&user, &["./tally"]);
    assert_eq!(
        text(&output.stdout),
        "./tally\n  ok      nothing\n  ok      words\n\n2 cases: 2 passed, 0 failed\n",
        "{output:?}"
    );
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert_eq!(user.scratch(), Vec::<PathBuf>::new(), "the workspaces are removed");
}

#[test]
fn case_that_fails_shows_what_differs_without_colours() {
    let user = User::new();
    let skill = tally(&user);
    case(
        &skill,
        "wrong",
        "description: Says two.\nscript: sum.sh\nargs: [a, b, c]\nexpect:\n  exit: 3\n  stdout: |\n    got a\n    got x\n    got c\n  files: { out.txt: x }\n",
    );
    let output = test(&user, &["./tally"]);
    assert_eq!(
        text(&output.stdout),
        "\
./tally
  failed  wrong: Says two.
    exit code: expected 3, found 0
    stdout: - expected, + found
      @@ -1,3 +1,3 @@
       got a
      -got x
      +got b
       got c
    out.txt: expected \"x\", found not changed

1 case: 0 passed, 1 failed
"
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "  help: if what it gave is right, accept it: skillhost test ./tally --bless\n"
    );
}

#[test]
fn bless_rewrites_the_expectations_and_nothing_else() {
    let user = User::new();
    let skill = tally(&user);
    let before = "# Why.\nscript: sum.sh   # the only one\nargs: [one]\nexpect: { exit: 9 }\n\n# After.\nworkspace: { old.txt: x }\n";
    let folder = case(&skill, "words", before);
    case(&skill, "kept", "script: sum.sh\nargs: [a]\nexpect:\n  stdout: { contains: got }\n");
    let output = test(&user, &["./tally", "--bless"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).ends_with("2 cases: 1 passed, 0 failed, 1 rewritten\n"));
    let after = std::fs::read_to_string(folder.join("case.yaml")).unwrap();
    assert_eq!(
        after,
        "# Why.\nscript: sum.sh   # the only one\nargs: [one]\nexpect:\n  stdout: |\n    got one\n  files:\n    new.txt: |\n      new\n    old.txt: { removed: true }\n\n# After.\nworkspace: { old.txt: x }\n"
    );
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no temporary file is left");
    assert_eq!(test(&user, &["./tally"]).status.code(), Some(0));
    // A run that has no result cannot become an expectation.
    case(&skill, "nowhere", "script: nowhere.sh\n");
    let (code, report) = report(&user, &["./tally", "--bless"]);
    assert_eq!((code, &report["failed"]), (Some(1), &1.into()), "{report:#}");
    case(&skill, "nowhere", "{script: sum.sh, args: [a]}\n");
    let output = test(&user, &["./tally", "--bless"]);
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    assert!(text(&output.stderr).contains("start each key of the case on a line of its own"));
}

#[test]
fn json_report_has_the_differences_and_counts() {
    let user = User::new();
    let skill = tally(&user);
    case(&skill, "a", "script: sum.sh\n");
    case(&skill, "b", "script: sum.sh\nargs: [x]\n");
    let (code, report) = report(&user, &["./tally"]);
    assert_eq!(code, Some(1));
    assert_eq!((&report["passed"], &report["failed"]), (&1.into(), &1.into()), "{report:#}");
    let cases = &report["skills"][0]["cases"];
    assert_eq!(
        (&cases[0]["status"], &cases[0]["differences"]),
        (&"passed".into(), &serde_json::json!([]))
    );
    let difference = serde_json::json!({ "what": "stdout", "expected": "", "found": "got x\n" });
    assert_eq!((&cases[1]["name"], &cases[1]["differences"][0]), (&"b".into(), &difference));
    assert!(cases[1]["wall_ms"].as_f64().unwrap() > 0.0, "{report:#}");
}

#[test]
fn cases_are_selected_by_parts_of_their_names() {
    let user = User::new();
    let skill = tally(&user);
    for name in ["sum-one", "sum-two", "mean"] {
        case(&skill, name, "script: sum.sh\n");
    }
    let names = |args: &[&str]| -> Vec<String> {
        let (_, report) = report(&user, &[&["./tally"], args].concat());
        let cases = report["skills"][0]["cases"].as_array().unwrap();
        cases.iter().map(|case| case["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&["--case", "sum"]), ["sum-one", "sum-two"]);
    assert_eq!(names(&["--case", "mean", "--case", "two", "--jobs", "1"]), ["mean", "sum-two"]);
    let output = test(&user, &["./tally", "--case", "median"]);
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(
        text(&output.stderr),
        "error: no case has `median` in its name\n  help: the cases: mean, sum-one, sum-two\n"
    );
}

#[test]
fn typed_tools_shell_commands_and_components_have_cases() {
    let user = User::new();
    let echo = user.work().join("echo");
    case(&echo, "tool", "tool: echo\ninput: { text: tea }\nexpect:\n  result: { text: tea }\n");
    case(
        &echo,
        "invalid",
        "tool: echo\ninput: { txet: tea }\nexpect:\n  exit: 1\n  error: { contains: \"did you mean `text`?\" }\n",
    );
    case(&user.work().join("hello"), "main", "expect:\n  stdout: { contains: hello }\n");
    case(&user.work().join("code3"), "code", "expect: { exit: 3 }\n");
    case(&user.work().join("trap"), "trap", "expect: { exit: 134, stderr: { contains: [] } }\n");
    let skill = tally(&user);
    case(
        &skill,
        "shell",
        "command: printf '%s\\n' b a | sort\nexpect:\n  stdout: |\n    a\n    b\n",
    );
    let output = test(&user, &["./echo", "./hello", "./code3", "./trap", "./tally"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).ends_with("\n6 cases: 6 passed, 0 failed\n"));
}

#[test]
fn limits_and_denials_are_those_of_a_run_under_the_same_policy() {
    let user = User::new();
    let skill = tally(&user);
    case(
        &skill,
        "network",
        "command: curl -s http://localhost:9/\nexpect:\n  exit: 7\n  stderr: { contains: [] }\n  denials: [\"http://localhost:9\"]\n",
    );
    let (_, report) = report(&user, &["./tally"]);
    let found = &report["skills"][0]["cases"][0];
    assert!(
        found["differences"].as_array().unwrap().iter().all(|one| one["what"] != "denials"),
        "{report:#}"
    );
    case(&user.work().join("spin"), "timeout", "expect: { exit: 124 }\n");
    let output = test(&user, &["./spin", "--timeout", "50ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let (code, report) = self::report(&user, &["./spin", "--fuel", "1000"]);
    assert_eq!(code, Some(1));
    let ending = report["skills"][0]["cases"][0]["ending"].as_str().unwrap();
    assert!(ending.contains("the limit `fuel`"), "{report:#}");
}

#[test]
fn every_run_is_recorded_and_uses_no_state_of_the_operator() {
    let user = User::new();
    let skill = tally(&user);
    std::fs::write(
        user.work().join("state.yaml"),
        "limits: { state: 1MiB }\ndefault: { allow: [Read, Write, Bash] }\n",
    )
    .unwrap();
    let text = "command: ls /state; echo kept > /state/file\n";
    for name in ["first", "second"] {
        case(&skill, name, text);
    }
    for _ in 0..2 {
        let output = test(&user, &["./tally", "--policy", "state.yaml"]);
        assert_eq!(output.status.code(), Some(0), "each run starts without state: {output:?}");
    }
    assert_eq!(user.records().len(), 4);
    assert_eq!(
        crate::cli::text(&user.skillhost(&["state", "list"]).stdout),
        "no skill has state\n"
    );
}

#[test]
fn staged_writes_count_as_files_that_were_written() {
    let user = User::new();
    let skill = tally(&user);
    std::fs::write(
        user.work().join("stage.yaml"),
        "default: { allow: [Read, Write, Bash], stage: true }\n",
    )
    .unwrap();
    case(
        &skill,
        "words",
        "script: sum.sh\nworkspace: { old.txt: x }\nexpect:\n  files:\n    new.txt: new\n    old.txt: { removed: true }\n",
    );
    let output = test(&user, &["./tally", "--policy", "stage.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn skill_without_cases_is_shown_its_smallest_case() {
    let user = User::new();
    tally(&user);
    let output = test(&user, &["./tally"]);
    assert_eq!(output.status.code(), Some(65));
    assert_eq!(
        text(&output.stderr),
        "\
error: ./tally has no test cases
  help: write one to tests/first/case.yaml in the skill:
          script: scripts/sum.sh
          args: []
        then record what it gives: skillhost test ./tally --bless
"
    );
    // The case that it shows is one.
    let folder = case(&user.work().join("tally"), "first", "script: scripts/sum.sh\nargs: []\n");
    assert_eq!(test(&user, &["./tally", "--bless"]).status.code(), Some(0));
    std::fs::rename(folder.join("case.yaml"), folder.join("case.yml")).unwrap();
    let output = test(&user, &["./tally"]);
    assert_eq!(output.status.code(), Some(65));
    assert!(text(&output.stderr).contains("a case is called `case.yaml`, not `case.yml`"));
    for (skill, shows) in [("hello", "tool: NAME"), ("nomd", "SKILL.md")] {
        let output = test(&user, &[&format!("./{skill}")]);
        assert_eq!(output.status.code(), Some(65), "{output:?}");
        assert!(text(&output.stderr).contains(shows), "{output:?}");
    }
}

#[test]
fn invalid_cases_are_all_reported_and_nothing_runs() {
    let user = User::new();
    let skill = tally(&user);
    case(&skill, "a", "script: sum.sh\n");
    case(&skill, "b", "script: sum.sh\nexpcet: {}\n");
    case(&skill, "c", "script: sum.sh\nargs: --all\n");
    let output = test(&user, &["./tally"]);
    assert_eq!(output.status.code(), Some(65));
    let shown = text(&output.stderr);
    for part in [
        "error[case-key]: unknown key `expcet` in the case; did you mean `expect`?\n --> ./tally/tests/b/case.yaml:2:1\n",
        "error[case-type]: `args` must be a list, e.g. `[--verbose, data.csv]`, not a single value\n --> ./tally/tests/c/case.yaml:2:7\n",
        "error: 2 cases are invalid\n",
    ] {
        assert!(shown.contains(part), "{part}{shown}");
    }
    assert_eq!(user.records().len(), 0);
    let output = test(&user, &["./tally", "--json"]);
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(error["error"]["diagnostics"].as_array().unwrap().len(), 2, "{error:#}");
}

#[test]
fn cases_left_out_of_the_skill_run_and_do_not_change_it() {
    let user = User::new();
    let skill = tally(&user);
    let digest = || {
        let shown = user.skillhost(&["show", "tally", "--json", "--skills", "."]);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        shown["skill_digest"].as_str().unwrap().to_owned()
    };
    std::fs::write(skill.join(".skillignore"), "/tests\n").unwrap();
    let before = digest();
    case(
        &skill,
        "hidden",
        "command: test ! -e /skill/tests && echo hidden\nexpect: { stdout: hidden }\n",
    );
    assert_eq!(test(&user, &["./tally"]).status.code(), Some(0));
    assert_eq!(digest(), before);
    std::fs::remove_file(skill.join(".skillignore")).unwrap();
    assert_ne!(digest(), before);
    assert_eq!(test(&user, &["./tally"]).status.code(), Some(1), "now they are in /skill");
}

#[test]
fn flags_that_would_change_a_case_are_refused() {
    let user = User::new();
    let skill = tally(&user);
    case(&skill, "a", "script: sum.sh\n");
    let output = test(&user, &["./tally", "--workspace", "."]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("test gives each case a workspace of its own"));
    assert_eq!(test(&user, &["./tally", "--bless", "--native"]).status.code(), Some(64));
    // A skill of the catalog may belong to someone else.
    let output = test(&user, &["tally", "--skills", ".", "--bless"]);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert!(text(&output.stderr).contains("--bless changes the skill's folder"));
}

#[test]
fn skill_of_the_catalog_needs_approval_as_for_any_run() {
    let user = User::new();
    let skill = tally(&user);
    case(&skill, "a", "script: sum.sh\n");
    std::fs::write(user.work().join("offline.yaml"), "default: { allow: [Read, Write, Bash] }\n")
        .unwrap();
    let args = ["tally", "--skills", ".", "--policy", "offline.yaml"];
    let output = test(&user, &args);
    assert_eq!(output.status.code(), Some(77), "{output:?}");
    assert!(text(&output.stderr).contains("skillhost approve 1 --once"), "{output:?}");
    assert!(user.skillhost(&["approve", "1", "--always"]).status.success());
    let output = test(&user, &args);
    assert_eq!(output.status.code(), Some(0), "the workspace is another one: {output:?}");
    assert!(user.skillhost(&["permissions", "set", "tally", "blocked"]).status.success());
    assert_eq!(test(&user, &["./tally"]).status.code(), Some(77), "also by its path");
}
