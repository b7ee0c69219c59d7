//! `--quiet` and `--verbose`, which every command takes.

use super::help::listed;
use super::{User, skill_of, text};

/// Values that must not be printed.
const SECRETS: [&str; 3] = ["hunter2-of-the-flag", "hunter2-of-the-host", "hunter2-of-the-token"];

fn run(user: &User, args: &[&str]) -> (Option<i32>, String, String) {
    let run = user
        .command(env!("CARGO_BIN_EXE_skillhost"))
        .env("PASSED", SECRETS[1])
        .env("SKILLHOST_OPERATOR_TOKEN", SECRETS[2])
        .args(args)
        .output()
        .unwrap();
    (run.status.code(), text(&run.stdout), text(&run.stderr))
}

#[test]
fn quiet_prints_only_errors_and_results() {
    let user = User::new();
    let folder = user.work().join(".agents/skills/greeter");
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    skill_of("hello", &folder);
    let warned = ["run", "./hello", "--env", "NOT_SET"];
    let (_, result, said) = run(&user, &warned);
    assert!(said.contains("warning: ") && said.contains("help: "), "{said}");
    assert_eq!(run(&user, &[&warned[..], &["--quiet"]].concat()), (Some(0), result, String::new()));
    let overlay = ["run", "./writer", "--workspace", "data:overlay"];
    let (code, result, said) = run(&user, &overlay);
    assert!(said.contains("these changes were discarded"), "{said}");
    assert_eq!(run(&user, &[&["--quiet"], &overlay[..]].concat()), (code, result, String::new()));
    let (code, _, said) = run(&user, &["run", "greter", "-q"]);
    assert_eq!((code, said.as_str()), (Some(64), "error: no skill `greter`\n"));
    // A question needs its text.
    let (code, _, said) = run(&user, &["run", "greeter", "--quiet"]);
    assert!(code == Some(77) && said.lines().count() > 1 && !said.contains("help: "), "{said}");
}

#[test]
fn verbose_says_what_the_host_does() {
    let user = User::new();
    std::fs::write(user.work().join("policy.yaml"), "default: { allow: [Read] }\n").unwrap();
    let args = ["run", "./hello", "--policy", "policy.yaml", "--timeout", "7s"];
    let (code, result, said) = run(&user, &args);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let (code, again, said) = run(&user, &[&args[..], &["--verbose"]].concat());
    assert_eq!((code, again), (Some(0), result));
    for part in [
        "info: policy: policy.yaml (from --policy)\n",
        "info: skill: ./hello, a folder\n",
        "info: loaded hello (sha256:",
        "info: limits: timeout 7s, ",
        "info: audit log: ",
        "info: compiled code: from the cache\n",
        "info: the run took ",
        "info: ended after ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let mut fresh = user.command(env!("CARGO_BIN_EXE_skillhost"));
    fresh.env("XDG_CACHE_HOME", user.root().join("cache")).args(["run", "./code3", "-v"]);
    let said = text(&fresh.output().unwrap().stderr);
    assert!(said.contains("info: compiled sha256:") && !said.contains("from the cache"), "{said}");
    let (_, listed, said) = run(&user, &["list", "--json", "--verbose"]);
    assert!(serde_json::from_str::<serde_json::Value>(&listed).is_ok(), "{listed}");
    assert!(said.contains("info: policy: the built-in one\n") && said.contains("info: skills: "));
    assert_eq!(run(&user, &["list", "--verbose", "--quiet"]).0, Some(64));
}

#[test]
fn verbose_prints_no_secrets() {
    let user = User::new();
    let policy = format!("default: {{ env: [KEY={}] }}\n", SECRETS[0]);
    std::fs::write(user.work().join("policy.yaml"), policy).unwrap();
    let flag = format!("TOKEN={}", SECRETS[0]);
    let given = ["--policy", "policy.yaml", "--env", &flag, "--env", "PASSED", "--verbose"];
    let (code, _, said) = run(&user, &[&["run", "./hello"], &given[..]].concat());
    assert!(code == Some(0) && said.contains("info: limits: "), "{said}");
    let others = [&["pending", "-v"][..], &["trust", ".", "-v"], &["config", "show", "-v"]];
    for said in others.map(|args| run(&user, args).2).iter().chain([&said]) {
        for secret in SECRETS {
            assert!(!said.contains(secret), "{secret}: {said}");
        }
    }
}

#[test]
fn every_command_takes_quiet_and_verbose() {
    let user = User::new();
    for name in listed(&run(&user, &["--help"]).1) {
        let help = run(&user, &[&name, "--help"]).1;
        assert!(help.contains("--quiet") && help.contains("--verbose"), "{name}: {help}");
    }
}
