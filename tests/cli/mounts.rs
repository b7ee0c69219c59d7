//! Granted folders with other mounts in them, or that are other names of folders that no grant
//! reaches.

use std::process::Command;

use crate::cli::{User, text};

/// Runs the line in a mount namespace of its own, after `mounts`; `None`, which is said, where this
/// machine allows no such thing.
#[expect(clippy::print_stderr, reason = "a test that does nothing must not pass in silence")]
fn with_mounts(user: &User, mounts: &str, line: &str, workspace: &str) -> Option<(String, String)> {
    let works = |flag: &&str| {
        Command::new("unshare")
            .args([*flag, "true"])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let Some(flag) = ["-m", "-rm"].into_iter().find(works) else {
        eprintln!(
            "NOT TESTED: what is mounted in a granted folder, because this machine gives no mount namespace"
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
    // The alias as the granted folder itself.
    let alias = work.join("ws/alias").canonicalize().unwrap();
    let line = "echo x > /workspace/x; head -n 1 /workspace/SKILL.md";
    let (out, err) =
        with_mounts(&user, "mount --bind skill ws/alias", line, alias.to_str().unwrap()).unwrap();
    assert_eq!(out, "---\n", "{err}");
    assert!(err.contains("guests cannot write to it"), "{err}");
    assert!(!work.join("skill/x").exists() && !state.join("x").exists());
}
