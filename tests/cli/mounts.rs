//! Granted folders that contain other mounts, or that are aliases of folders outside every grant.

use std::process::Command;

use crate::cli::{User, repository, script_skill, text};

/// Runs a command line in a separate mount namespace after `mounts`. Returns `None`, and reports
/// it, if the machine does not permit this.
#[expect(clippy::print_stderr, reason = "skipped tests must be visible")]
fn with_mounts(user: &User, mounts: &str, line: &str, workspace: &str) -> Option<(String, String)> {
    let works = |flag: &&str| {
        Command::new("unshare")
            .args([*flag, "true"])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let Some(flag) = ["-m", "-rm"].into_iter().find(works) else {
        eprintln!(
            "NOT TESTED: mounts in granted folders, because this machine permits no mount namespace"
        );
        return None;
    };
    let skillhost = env!("CARGO_BIN_EXE_skillhost");
    let script = format!(
        "{mounts} && exec '{skillhost}' run ./skill --workspace {workspace} --command '{line}'"
    );
    let mut unshare = user.command("unshare");
    let output = unshare.args([flag, "sh", "-c", &script]).output().unwrap();
    Some((text(&output.stdout), text(&output.stderr)))
}

#[test]
fn bind_mounts_do_not_reach_guarded_files() {
    let user = User::new();
    let work = user.work();
    for folder in ["skill", "ws/alias", "ws/state"] {
        std::fs::create_dir_all(work.join(folder)).unwrap();
    }
    std::fs::write(
        work.join("skill/SKILL.md"),
        "---\nname: skill\ndescription: Runs. Use to test.\nallowed-tools: Bash Read Write\n---\n",
    )
    .unwrap();
    let state = user.home().join(".local/state/skillhost");
    std::fs::create_dir_all(&state).unwrap();
    let mounts =
        format!("mount --bind skill ws/alias && mount --bind '{}' ws/state", state.display());
    let line = "echo x > /workspace/alias/x; echo x > /workspace/state/x; ls /workspace/state; echo y > /workspace/ok; cat /workspace/ok";
    let Some((out, err)) = with_mounts(&user, &mounts, line, "ws") else { return };
    assert_eq!(out, "y\n", "{err}");
    assert!(
        err.contains("does not cross mounts") && err.contains("belongs to skillhost itself"),
        "{err}"
    );
    // The granted folder itself is the alias.
    let alias = work.join("ws/alias").canonicalize().unwrap();
    let line = "echo x > /workspace/x; head -n 1 /workspace/SKILL.md";
    let (out, err) =
        with_mounts(&user, "mount --bind skill ws/alias", line, alias.to_str().unwrap()).unwrap();
    assert_eq!(out, "---\n", "{err}");
    assert!(err.contains("guests cannot write to it"), "{err}");
    assert!(!work.join("skill/x").exists() && !state.join("x").exists());
}

/// A run without a workspace that does not find a file of the current folder: only the operator
/// learns how to mount the folder.
#[test]
fn missing_workspace_is_suggested_to_the_operator_only() {
    let user = User::new();
    script_skill(
        &user.work().join("reader"),
        &[("read.sh", "cat \"$1\" 2> /dev/null\n"), ("read.py", "open(__import__('sys').argv[1])")],
    );
    std::fs::write(user.work().join("my data.csv"), "1\n").unwrap();
    let programs = repository("target/components");
    let run = |args: &[&str]| {
        let programs = ["run", "./reader", "--programs", programs.to_str().unwrap()];
        user.skillhost(&[&programs[..], args].concat())
    };
    let hint = "'my data.csv' is in the current folder, which the run does not see";
    for script in ["read.sh", "read.py"] {
        let missing = run(&[script, "--", "my data.csv"]);
        let stderr = text(&missing.stderr);
        assert!(stderr.contains(hint) && stderr.contains("--workspace ."), "{script}: {stderr}");
        assert_eq!(missing.status.code(), Some(1), "{missing:?}");
        assert!(!text(&run(&[script, "--", "none.csv"]).stderr).contains("--workspace"));
        assert!(!text(&run(&[script, "--", "../work/my data.csv"]).stderr).contains("--workspace"));
        assert!(run(&[script, "--workspace", ".", "--", "my data.csv"]).status.success());
        let json = run(&[script, "--json", "--", "my data.csv"]);
        assert!(!text(&json.stdout).contains("current folder"), "{json:?}");
        assert!(json.stderr.is_empty(), "{json:?}");
    }
    let records = format!("{:?}", user.records());
    assert!(!records.contains("data.csv") && !records.contains("current folder"), "{records}");
}
