//! Skills that run without approval: those that only the operator can have installed, and those
//! that someone approved.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::cli::{User, script_skill, skill_of};

/// Creates a skill without requests, in a folder of that name in the home folder.
fn user(folder: &str) -> User {
    // A skill that its group can write is not trusted.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let user = User::new();
    skill_of("hello", &user.home().join(folder).join("greeter"));
    user
}

fn run(user: &User, args: &[&str]) -> Option<i32> {
    user.skillhost(&[&["run", "greeter"], args].concat()).status.code()
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_user_skill_runs_once_its_digest_is_approved() {
    for folder in [".agents/skills", ".claude/skills"] {
        let user = user(folder);
        assert_eq!(run(&user, &[]), Some(77), "{folder}: another program may have put it there");
        assert!(user.skillhost(&["approve", "1", "--always"]).status.success());
        assert_eq!(run(&user, &[]), Some(0), "{folder}");
        // Trusted now, it also runs with other folders, as long as it cannot change them.
        assert_eq!(run(&user, &["--workspace", "data:ro"]), Some(0), "{folder}");
        std::fs::write(user.home().join(folder).join("greeter/more.txt"), "changed").unwrap();
        assert_eq!(run(&user, &[]), Some(77), "{folder}: that digest is another");
        assert!(user.skillhost(&["permissions", "revoke", "greeter"]).status.success());
        std::fs::remove_file(user.home().join(folder).join("greeter/more.txt")).unwrap();
        assert_eq!(run(&user, &[]), Some(77), "{folder}: revoked");
    }
}

#[test]
fn an_approval_for_one_run_does_not_trust_the_skill() {
    let user = user(".agents/skills");
    assert_eq!(run(&user, &[]), Some(77));
    assert!(user.skillhost(&["approve", "1", "--once"]).status.success());
    assert_eq!((run(&user, &[]), run(&user, &[])), (Some(0), Some(77)));
}

#[test]
fn approving_one_script_does_not_trust_others() {
    let user = user(".agents/skills");
    script_skill(
        &user.home().join(".agents/skills/scripts"),
        &[("a.sh", "echo a"), ("b.sh", "echo b")],
    );
    let run = |args: &[&str]| user.skillhost(&[&["run", "scripts"], args].concat()).status.code();
    assert_eq!(run(&["scripts/a.sh"]), Some(77));
    assert!(user.skillhost(&["approve", "1", "--always"]).status.success());
    assert_eq!(run(&["scripts/a.sh"]), Some(0));
    assert_eq!(run(&["scripts/b.sh"]), Some(77));
    assert_eq!(run(&["--command", "echo c"]), Some(77));
}

#[test]
fn approving_writes_does_not_trust_the_skill() {
    let user = user("elsewhere");
    skill_of("writer", &user.home().join(".agents/skills/reporter"));
    std::fs::create_dir(user.work().join("out")).unwrap();
    std::fs::write(
        user.work().join("policy.yaml"),
        "default: { allow: [Read, Write], stage: true }\n",
    )
    .unwrap();
    let run = || {
        user.skillhost(&["run", "reporter", "--workspace", "out", "--policy", "policy.yaml"])
            .status
            .code()
    };
    assert_eq!(run(), Some(77));
    assert!(user.skillhost(&["approve", "1", "--once"]).status.success());
    run();
    let approved = user.skillhost(&["approve", "2", "--always"]);
    assert!(approved.status.success() && user.work().join("out/two.txt").exists(), "{approved:?}");
    // A trusted skill would run, since it may touch nothing.
    assert_eq!(user.skillhost(&["run", "reporter"]).status.code(), Some(77));
}

#[test]
fn a_guest_cannot_create_a_source_of_skills() {
    let user = user("elsewhere");
    let script = "mkdir -p team/evil && echo x > team/evil/SKILL.md; mkdir other && mv other team; echo x > beside";
    script_skill(&user.work().join("planter"), &[("plant.sh", script)]);
    std::fs::create_dir(user.work().join("project")).unwrap();
    let policy = "skill-folders: [project/team]\ndefault: { allow: [Read, Write, Bash] }\n";
    std::fs::write(user.work().join("policy.yaml"), policy).unwrap();
    user.skillhost(&[
        "run",
        "./planter",
        "scripts/plant.sh",
        "--policy",
        "policy.yaml",
        "--workspace",
        "project",
    ]);
    let exists = |name: &str| user.work().join("project").join(name).exists();
    assert_eq!((exists("team"), exists("beside")), (false, true));
}

#[test]
fn a_policy_folder_is_trusted_unless_others_can_write() {
    let user = user("shared");
    let policy = user.work().join("policy.yaml");
    std::fs::write(&policy, "skill-folders: [~/shared]\ndefault: { allow: [Read] }\n").unwrap();
    let flags = ["--policy", "policy.yaml"];
    assert_eq!(run(&user, &flags), Some(0));
    let shared = user.home().join("shared");
    for path in ["", "greeter", "greeter/SKILL.md", "greeter/greeter.wasm"] {
        let path = shared.join(path);
        let before = path.metadata().unwrap().permissions().mode();
        chmod(&path, before | 0o002);
        assert_eq!(run(&user, &flags), Some(77), "{}", path.display());
        chmod(&path, before);
        assert_eq!(run(&user, &flags), Some(0), "{}", path.display());
    }
}

#[test]
fn the_operator_can_trust_a_user_folder() {
    let user = user(".agents/skills");
    std::fs::write(
        user.work().join("policy.yaml"),
        "skill-folders: [~/.agents/skills]\ndefault: { allow: [Read] }\n",
    )
    .unwrap();
    assert_eq!(run(&user, &["--policy", "policy.yaml"]), Some(0));
}

#[test]
fn trust_approves_the_digests_that_are_in_a_folder_now() {
    let user = user(".agents/skills");
    let skills = user.home().join(".agents/skills");
    let trust = |folder: &Path| user.skillhost(&["trust", folder.to_str().unwrap()]);
    // Only the operator may do this.
    let mut client = user.command(env!("CARGO_BIN_EXE_skillhost"));
    let refused = client.arg("trust").arg(&skills).output().unwrap();
    assert_eq!((refused.status.code(), run(&user, &[])), (Some(77), Some(77)));
    let trusted = trust(&skills);
    let shown = crate::cli::text(&trusted.stdout);
    assert!(trusted.status.success() && shown.starts_with("greeter: approved: sha256:"), "{shown}");
    assert_eq!(run(&user, &[]), Some(0));
    assert_eq!(run(&user, &["--workspace", "data:ro"]), Some(0));
    assert!(crate::cli::text(&trust(&skills).stdout).starts_with("greeter: approved already"));
    // With `--json`, the same as objects.
    let listed = user.skillhost(&["trust", skills.to_str().unwrap(), "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let of = |name: &str| {
        listed.as_array().unwrap().iter().find(|report| report["skill"] == name).unwrap().clone()
    };
    let greeter = of("greeter");
    assert_eq!((&greeter["result"], &greeter["fix"]), (&"approved-already".into(), &().into()));
    assert!(shown.contains(greeter["digest"].as_str().unwrap()), "{greeter}");
    // A new skill and a changed one need approval.
    skill_of("hello", &skills.join("newcomer"));
    assert_eq!(user.skillhost(&["run", "newcomer"]).status.code(), Some(77));
    std::fs::write(skills.join("greeter/more.txt"), "changed").unwrap();
    assert_eq!(run(&user, &[]), Some(77));
    // Network access is a decision of its own.
    script_skill(&skills.join("fetcher"), &[("a.sh", "echo a")]);
    let policy = user.work().join("net.yaml");
    std::fs::write(&policy, "default: { allow: [Read, WebFetch] }\n").unwrap();
    let folder = skills.to_str().unwrap();
    let shown = user.skillhost(&["trust", folder, "--policy", policy.to_str().unwrap()]);
    assert!(crate::cli::text(&shown.stdout).contains("fetcher: not approved: "), "{shown:?}");
    // Also if the policy grants none today.
    let shown = crate::cli::text(&trust(&skills).stdout);
    assert!(shown.contains("fetcher: not approved: it requests network access"), "{shown}");
    let listed = user.skillhost(&["trust", folder, "--policy", policy.to_str().unwrap(), "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let fetcher = listed.as_array().unwrap().iter().find(|report| report["skill"] == "fetcher");
    let fetcher = fetcher.unwrap();
    assert_eq!(fetcher["result"], "not-approved");
    assert!(fetcher["reason"].is_string() && fetcher["fix"].is_string(), "{fetcher}");
    // A folder of the project may have been filled by others.
    skill_of("hello", &user.work().join(".agents/skills/theirs"));
    assert_eq!(trust(&user.work().join(".agents/skills")).status.code(), Some(64));
    assert_eq!(trust(&user.work().join("nowhere")).status.code(), Some(64));
}
