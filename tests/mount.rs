//! `mount` copies skills into the folder of an agent: whole or not at all, and never over something
//! else.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::cli::{User, script_skill, text};

/// A user with the skill `./reporter`.
fn user() -> User {
    let user = User::new();
    script_skill(&user.work().join("reporter"), &[("report.sh", "echo report\n")]);
    user
}

fn agent(user: &User) -> PathBuf {
    user.work().join("agent/skills")
}

/// Runs `mount` for the folder of the agent. Returns the exit code, stdout and stderr.
fn mount(user: &User, args: &[&str]) -> (Option<i32>, String, String) {
    let output = user.skillhost(&[&["mount", "--into", "agent/skills"], args].concat());
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn mounted(user: &User) -> Value {
    serde_json::from_str(&mount(user, &["--json"]).1).unwrap()
}

#[test]
fn agents_find_mounted_skills_until_they_are_disabled() {
    let user = user();
    let (code, stdout, stderr) = mount(&user, &["./reporter", "--as", "monthly-report"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("mounted agent/skills/monthly-report (2 files, "), "{stdout}");
    let found = |user: &User| {
        let list = user.skillhost(&["list", "--skills", "agent/skills", "--json"]);
        let list: Value = serde_json::from_slice(&list.stdout).unwrap();
        list["skills"].as_array().unwrap().iter().any(|skill| skill["name"] == "monthly-report")
    };
    let check = user.skillhost(&["check", "./agent/skills/monthly-report"]);
    assert_eq!(check.status.code(), Some(0), "{}", text(&check.stdout));
    assert!(found(&user));
    let (code, stdout, _) = mount(&user, &["--disable", "monthly-report"]);
    assert_eq!((code, stdout.trim()), (Some(0), "disabled agent/skills/monthly-report"));
    assert!(!found(&user));
    assert!(mount(&user, &[]).1.contains("disabled"));
    let (code, stdout, _) = mount(&user, &["--enable", "monthly-report"]);
    assert_eq!((code, stdout.trim()), (Some(0), "enabled agent/skills/monthly-report"));
    assert!(found(&user));
    let skill = &mounted(&user)[0];
    assert_eq!(
        skill["source"],
        user.work().canonicalize().unwrap().join("reporter").to_str().unwrap()
    );
    assert_eq!((&skill["enabled"], &skill["changed"]), (&true.into(), &false.into()));
}

#[test]
fn skills_are_named_by_path_or_by_their_name_in_the_catalogue() {
    let user = user();
    script_skill(&user.work().join(".agents/skills/installed"), &[("x.sh", "true\n")]);
    fs::write(user.work().join("notes.md"), "Takes notes.\n").unwrap();
    let (code, stdout, stderr) = mount(&user, &["installed", "./reporter", "notes.md"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("agent/skills/notes (1 file, 81 B, instructions only)"), "{stdout}");
    let names: Vec<Value> =
        mounted(&user).as_array().unwrap().iter().map(|skill| skill["name"].clone()).collect();
    assert_eq!(names, ["installed", "notes", "reporter"]);
}

#[test]
fn failures_name_their_kind_and_the_fix() {
    let user = user();
    fs::create_dir_all(user.work().join("agent/skills/reporter")).unwrap();
    fs::create_dir_all(user.work().join("invalid")).unwrap();
    fs::write(user.work().join("invalid/SKILL.md"), "---\nname: other\n---\nText.\n").unwrap();
    for (args, exit, code, fix) in [
        (&["./nowhere"][..], 64, "no-skill", ""),
        (&["nowhere"], 64, "no-skill", "skillhost search QUERY"),
        (&["./invalid"], 65, "skill", ""),
        (&["./reporter"], 65, "mount", "another name (--as NAME), or move agent/skills/reporter"),
        (&["./reporter", "--as", "../up"], 65, "mount", "--as up"),
        (&["./reporter", "./reporter", "--as", "a"], 64, "usage", "one by one"),
        (&["./hello", "./hello"], 65, "mount", "another name"),
        (&["--enable", "nowhere"], 64, "no-skill", ""),
        (&["./hello", "--enable", "x"], 64, "usage", ""),
        (&["--as", "x"], 64, "usage", ""),
    ] {
        let (found, stdout, stderr) = mount(&user, &[args, &["--json"]].concat());
        assert_eq!(found, Some(exit), "{args:?}: {stderr}");
        let error: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(error["error"]["code"], code, "{args:?}: {stdout}");
        assert!(error["error"]["fix"].as_str().unwrap_or_default().contains(fix), "{stdout}");
    }
    assert_eq!(mounted(&user), serde_json::json!([]));
    let (code, stdout, stderr) = mount(&user, &["./invalid", "--no-validate"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("instructions only"), "{stdout}");
    fs::write(user.work().join("file"), "").unwrap();
    let into_a_file = user.skillhost(&["mount", "--into", "file", "./hello"]);
    assert_eq!(into_a_file.status.code(), Some(74), "{}", text(&into_a_file.stderr));
}

/// Kills the host at many moments. Whatever has the name of the skill is one version, whole.
#[test]
fn killed_host_leaves_the_old_skill_or_the_new_one() {
    let user = user();
    let data = user.work().join("reporter/data");
    fs::create_dir(&data).unwrap();
    let write = |version: &str| {
        for n in 0..200 {
            fs::write(data.join(format!("{n}.txt")), version.repeat(1_000)).unwrap();
        }
    };
    let mut versions = ["a", "b"].into_iter().cycle();
    let mut kills = 0;
    for round in 0..40 {
        let version = versions.next().unwrap();
        write(version);
        let mut host = user.command(env!("CARGO_BIN_EXE_skillhost"));
        host.args(["mount", "--into", "agent/skills", "./reporter"]);
        let mut host = host.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(round * 2));
        host.kill().unwrap();
        kills += u32::from(!host.wait().unwrap().success());
        let folder = agent(&user).join("reporter");
        if !folder.exists() {
            continue;
        }
        assert!(folder.join("SKILL.md").exists() && folder.join("scripts/report.sh").exists());
        let found: Vec<String> = (0..200)
            .map(|n| fs::read_to_string(folder.join(format!("data/{n}.txt"))).unwrap())
            .collect();
        assert!(found.iter().all(|content| *content == found[0] && content.len() == 1_000));
    }
    assert!(kills > 0, "no host was killed early enough");
    // The next host removes what they left.
    let (code, _, stderr) = mount(&user, &["./reporter"]);
    assert_eq!(code, Some(0), "{stderr}");
    let entries = fs::read_dir(agent(&user)).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| !name.ends_with(".tmp"));
    names.sort();
    assert_eq!(names, [".skillhost-mounts.json", "reporter"]);
}

#[test]
fn hosts_that_mount_at_the_same_time_take_turns() {
    let user = user();
    let start = |name: &str| {
        script_skill(&user.work().join(name), &[("x.sh", "true\n")]);
        let mut host = user.command(env!("CARGO_BIN_EXE_skillhost"));
        host.args(["mount", "--into", "agent/skills", &format!("./{name}")]);
        host.stdout(Stdio::null()).spawn().unwrap()
    };
    let names: Vec<String> = (0..8).map(|n| format!("skill-{n}")).collect();
    let hosts: Vec<_> = names.iter().map(|name| start(name)).collect();
    for mut host in hosts {
        assert!(host.wait().unwrap().success());
    }
    let listed: Vec<Value> =
        mounted(&user).as_array().unwrap().iter().map(|skill| skill["name"].clone()).collect();
    assert_eq!(listed, names, "each is in the index");
}
