//! `run --record` and `replay`: a recording is enough to repeat a run.

mod differ;
mod network;
mod secrets;
mod tampered;

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::{copy, text};
use crate::receipt::{Place, parsed};

pub const SAME: &str = "the replay produced the same result";

/// Returns every file below a folder, as one text to search in.
pub fn all_bytes(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        bytes.extend_from_slice(path.file_name().unwrap().as_encoded_bytes());
        bytes.extend(if path.is_dir() { all_bytes(&path) } else { std::fs::read(&path).unwrap() });
    }
    bytes
}

pub fn holds(bytes: &[u8], what: &str) -> bool {
    bytes.windows(what.len()).any(|window| window == what.as_bytes())
}

pub fn recording(folder: &Path) -> Value {
    parsed(&std::fs::read(folder.join("recording.json")).unwrap())
}

/// Another user, who has nothing but the recording.
pub fn elsewhere(folder: &Path) -> Place {
    let other = Place::new();
    for mine in ["sk", "w"] {
        std::fs::remove_dir_all(other.path(mine)).unwrap();
    }
    copy(folder, &other.path("theirs/rec"));
    other
}

/// Asserts that a replay has the same result, and prints the same.
pub fn same(place: &Place, folder: &str, flags: &[&str], recorded: &Output) {
    let run = place.skillhost(&[&["replay", folder], flags].concat(), "");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(text(&run.stderr).contains(SAME), "{run:?}");
    assert_eq!(text(&run.stdout), text(&recorded.stdout));
    let own = |stderr: &[u8]| {
        text(stderr)
            .lines()
            .filter(|line| !line.contains(SAME) && !line.contains("were discarded"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(own(&run.stderr), own(&recorded.stderr));
    assert_eq!(place.user.scratch(), Vec::<PathBuf>::new(), "scratch space is not empty");
}

/// Records the script of a [`Place`].
fn recorded(place: &Place, flags: &[&str]) -> Output {
    let args = [
        &["run", "./sk", "run.sh", "--workspace", "w", "--env", "TOKEN=hunter2", "--record", "rec"],
        flags,
        &["--", "arg"],
    ];
    let run = place.skillhost(&args.concat(), "input\n");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    run
}

#[test]
fn a_recording_shows_unused_grants() {
    let place = Place::new();
    recorded(&place, &["--deterministic"]);
    assert!(recording(&place.path("rec"))["uses"]["paths"].is_object());
    let manifest = std::fs::read_to_string(place.path("sk/SKILL.md")).unwrap();
    let (head, rest) = manifest.split_once("\ndescription:").unwrap();
    let rest: String =
        rest.split_inclusive('\n').filter(|line| !line.starts_with("allowed-tools:")).collect();
    let asked = "\nallowed-tools: Read Write Bash WebFetch(domain:never.example)\ndescription:";
    std::fs::write(place.path("sk/SKILL.md"), format!("{head}{asked}{rest}")).unwrap();
    let findings = text(&place.skillhost(&["check", "./sk", "--used", "rec"], "").stdout);
    assert!(
        findings.contains("grant-unused") && findings.contains("WebFetch(domain:never.example)"),
        "{findings}"
    );
    assert!(!text(&place.skillhost(&["check", "./sk"], "").stdout).contains("grant-unused"));
}

#[test]
fn another_user_can_replay_a_run() {
    let place = Place::new();
    std::fs::write(place.path("w/unread.txt"), "never read by anyone").unwrap();
    let run = recorded(&place, &[]);
    assert!(
        text(&run.stdout).starts_with("input\ndata\n") || text(&run.stdout).starts_with("input\n"),
        "{run:?}"
    );
    let other = elsewhere(&place.path("rec"));
    let mut command = other.command(&["replay", "theirs/rec", "--secret-env", "TOKEN"]);
    command.env("TZ", "Asia/Kathmandu").env("USER", "somebody").env("TOKEN", "hunter2");
    let replay = other.finish(command, "other input\n");
    assert_eq!((replay.status.code(), &replay.stdout), (Some(0), &run.stdout), "{replay:?}");
    // Time and randomness are new in each recording.
    std::fs::rename(place.path("rec"), place.path("first")).unwrap();
    recorded(&place, &[]);
    let seed = |folder: &str| {
        recording(&place.path(folder))["capabilities"]["determinism"]["seed"].clone()
    };
    assert_ne!(seed("first"), seed("rec"));
    let mut command =
        other.command(&["replay", "theirs/rec", "--secret-env", "TOKEN", "--audit", "other.jsonl"]);
    let again = other.finish(
        {
            command.env("TOKEN", "hunter2");
            command
        },
        "",
    );
    assert_eq!((again.status.code(), &again.stdout), (Some(0), &run.stdout), "{again:?}");
}

#[test]
fn the_requested_seed_and_start_time_are_used() {
    let place = Place::new();
    recorded(&place, &["--seed", "18446744073709551615", "--start-time", "2030-01-01T00:00:00Z"]);
    let determinism =
        json!({ "seed": "18446744073709551615", "start_time": "2030-01-01T00:00:00Z" });
    assert_eq!(recording(&place.path("rec"))["capabilities"]["determinism"], determinism);
    assert_eq!(place.skillhost(&["replay", "rec"], "").status.code(), Some(0));
}

#[test]
fn a_recording_reveals_nothing_about_the_machine() {
    let place = Place::new();
    std::fs::write(place.path("w/unread.txt"), "never read by anyone").unwrap();
    recorded(&place, &["--deny", "Read(data/l*)"]);
    let folder = place.path("rec");
    let recorded = recording(&folder);
    let schema = parsed(&place.skillhost(&["schema", "recording"], "").stdout);
    let problems: Vec<String> = jsonschema::validator_for(&schema)
        .unwrap()
        .iter_errors(&recorded)
        .map(|e| e.to_string())
        .collect();
    assert!(problems.is_empty(), "{problems:?}");
    let all = all_bytes(&folder);
    let root = place.user.work();
    for foreign in [
        root.to_str().unwrap(),
        root.parent().unwrap().file_name().unwrap().to_str().unwrap(),
        "never read",
        "/etc/hostname",
    ] {
        assert!(!holds(&all, foreign), "{foreign}");
    }
    let workspace = recorded["folders"]
        .as_array()
        .unwrap()
        .iter()
        .find(|folder| folder["guest"] == "/workspace")
        .unwrap();
    let kept = |path: &str| {
        workspace["entries"]
            .as_array()
            .unwrap()
            .iter()
            .find(|entry| entry["path"] == path)
            .map(|entry| entry["kept"].clone())
    };
    assert_eq!(kept("data/a.txt"), Some(true.into()));
    assert_eq!(
        (kept("unread.txt"), kept("data/old.txt")),
        (Some(false.into()), Some(false.into()))
    );
    assert_eq!(kept("data/link"), None, "the rules hide it");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for blob in std::fs::read_dir(folder.join("blobs")).unwrap() {
        assert_eq!(mode(&blob.unwrap().path()) & 0o077, 0);
    }
}

/// All kinds of entries in folders, and everything that a guest can do with them, are the same when
/// only the recorded content exists.
#[test]
fn folders_are_restored() {
    const SCRIPT: &str = r#"#!/bin/bash
ls -la --time-style=+%s . d d/deep 2>&1 | sed 's/ \+/ /g'
readlink link out; stat -c '%n %s %F' link out pipe twice big unread.txt d
cat pipe; echo x > twice; cat twice; echo x > locked; cat locked
mv unread.txt moved.txt; mv moved.txt d/; wc -c d/moved.txt | cut -d' ' -f2
rmdir d/deep; rm big; echo new > big; cat big; echo more >> log; tail -1 log
touch untouched; rm -r gone; echo over > cut; cp twice copy; cat copy
python3 -c 'import os; os.truncate("short", 2); print(open("short").read(), sorted(os.listdir(".")))'
"#;
    for mode in ["", ":overlay", ":ro"] {
        let place = Place::new();
        std::fs::write(place.path("sk/scripts/run.sh"), SCRIPT).unwrap();
        let w = place.path("w");
        for folder in ["d/deep", "gone/with"] {
            std::fs::create_dir_all(w.join(folder)).unwrap();
        }
        for (name, content) in [
            ("unread.txt", "unread"),
            ("log", "a\nb\n"),
            ("cut", "long ago"),
            ("short", "abcdef"),
            ("untouched", "u"),
            ("locked", "l"),
        ] {
            std::fs::write(w.join(name), content).unwrap();
        }
        std::fs::write(w.join("big"), vec![b'x'; 3_000_000]).unwrap();
        std::fs::write(w.join("gone/with/it"), "it").unwrap();
        std::fs::write(w.join("twice"), "two names\n").unwrap();
        std::fs::hard_link(w.join("twice"), place.path("outside")).unwrap();
        // A name that is not UTF-8.
        let hidden = std::ffi::OsStr::from_bytes(b"\xff");
        std::fs::write(w.join("d/deep").join(hidden), "").unwrap();
        std::os::unix::fs::symlink("d/../log", w.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", w.join("out")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            w.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        std::fs::set_permissions(w.join("locked"), std::fs::Permissions::from_mode(0o444)).unwrap();
        let run = place.skillhost(
            &["run", "./sk", "run.sh", "--workspace", &format!("w{mode}"), "--record", "rec"],
            "",
        );
        assert!(text(&run.stdout).contains("moved.txt") || mode == ":ro", "{run:?}");
        let other = elsewhere(&place.path("rec"));
        same(&other, "theirs/rec", &[], &run);
        // If it cannot be removed, it can be read.
        assert_eq!(
            holds(&all_bytes(&place.path("rec/blobs")), "xxxxxxxx"),
            mode == ":ro",
            "unread files are not recorded"
        );
    }
}

#[test]
fn components_tools_and_commands_are_replayed() {
    let place = Place::new();
    for (index, args) in [
        &["run", "./hello"][..],
        &["run", "./code3"],
        &["run", "./trap"],
        &["run", "./echo", "echo", "--input", "{\"text\": \"x\"}"],
        &["run", "./sk", "--command", "cat; echo $RANDOM; date; exit 4", "--workspace", "w"],
        &["run", "./spin", "--fuel", "100000"],
    ]
    .into_iter()
    .enumerate()
    {
        let folder = format!("rec{index}");
        let run = place.skillhost(&[args, &["--record", &folder]].concat(), "in\n");
        assert!(place.path(&folder).join("recording.json").is_file(), "{run:?}");
        let replay = place.skillhost(&["replay", &folder], "");
        assert_eq!(
            (replay.status.code(), &replay.stdout),
            (Some(0), &run.stdout),
            "{args:?}: {replay:?}"
        );
    }
}

#[test]
fn the_operators_packages_are_restored() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("site/mine")).unwrap();
    std::fs::write(place.path("site/mine/__init__.py"), "print('from my package')").unwrap();
    std::fs::write(
        place.path("sk/scripts/p.py"),
        "import mine, requests, yaml\nprint(yaml.safe_load('[1]'))",
    )
    .unwrap();
    let run = place.skillhost(
        &["run", "./sk", "p.py", "--site-packages", "site", "--record", "rec", "--timeout", "2m"],
        "",
    );
    assert_eq!(text(&run.stdout), "from my package\n[1]\n", "{run:?}");
    same(&elsewhere(&place.path("rec")), "theirs/rec", &[], &run);
}

#[test]
fn state_is_recorded_and_replay_leaves_local_state_alone() {
    let place = Place::new();
    std::fs::write(
        place.path("p.yaml"),
        "default: { allow: [Read, Write, Bash] }\nlimits: { state: 1KiB, timeout: 5m }\n",
    )
    .unwrap();
    let count = "n=$(cat /state/n 2> /dev/null || echo 0); echo $((n + 1)) > /state/n; cat /state/n; head -c 2000 /dev/zero > /state/more; ls /state";
    let base = ["run", "./sk", "--policy", "p.yaml", "--command", count];
    let first = place.skillhost(&base, "");
    assert!(text(&first.stdout).starts_with("1\n"), "{first:?}");
    let between = place.skillhost(
        &[
            "run",
            "./sk",
            "--policy",
            "p.yaml",
            "--command",
            "rm /state/more; echo kept > /state/unread",
        ],
        "",
    );
    assert_eq!(between.status.code(), Some(0), "{between:?}");
    let run = place.skillhost(&[&base[..], &["--record", "rec"]].concat(), "");
    assert!(text(&run.stdout).starts_with("2\n"), "{run:?}");
    for _ in 0..2 {
        let replay = place.skillhost(&["replay", "rec"], "");
        assert_eq!((replay.status.code(), &replay.stdout), (Some(0), &run.stdout), "{replay:?}");
    }
    let now =
        place.skillhost(&["run", "./sk", "--policy", "p.yaml", "--command", "cat /state/n"], "");
    assert_eq!(text(&now.stdout), "2\n", "{now:?}");
    let other = elsewhere(&place.path("rec"));
    let replay = other.skillhost(&["replay", "theirs/rec"], "");
    assert_eq!((replay.status.code(), &replay.stdout), (Some(0), &run.stdout), "{replay:?}");
    assert!(
        text(&other.skillhost(&["state", "list", "--json"], "").stdout).trim_end().ends_with("[]"),
        "a replay stores nothing"
    );
}

#[test]
fn a_recording_needs_an_empty_folder() {
    let place = Place::new();
    let before = place.user.records().len();
    std::fs::create_dir(place.path("rec")).unwrap();
    std::fs::write(place.path("rec/mine"), "").unwrap();
    let run = place.skillhost(&["run", "./hello", "--record", "rec"], "");
    assert_eq!(run.status.code(), Some(64), "{run:?}");
    assert!(text(&run.stderr).contains("not empty"), "{run:?}");
    std::fs::remove_file(place.path("rec/mine")).unwrap();
    assert_eq!(place.user.records().len(), before);
    assert_eq!(
        place.skillhost(&["run", "./hello", "--record", "rec"], "").status.code(),
        Some(0),
        "an empty folder is accepted"
    );
    std::os::unix::fs::symlink("hello", place.path("link")).unwrap();
    for (args, code) in [
        (&["run", "./hello", "--record", "no/where"][..], 74),
        (&["run", "./hello", "--workspace", "link", "--record", "r"], 77),
    ] {
        let run = place.skillhost(args, "");
        assert_eq!(run.status.code(), Some(code), "{run:?}");
        assert!(!place.path("r").exists());
    }
}

fn partial(place: &Place) -> Vec<PathBuf> {
    place
        .user
        .scratch()
        .into_iter()
        .filter(|path| path.to_str().unwrap().contains("skillhost-record-"))
        .collect()
}

fn until<T>(what: impl Fn() -> Option<T>) -> T {
    for _ in 0..3_000 {
        if let Some(found) = what() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the condition was never met")
}

#[test]
fn a_killed_run_leaves_no_complete_recording() {
    let place = Place::new();
    let spawn = || {
        place
            .command(&["run", "./spin", "--record", "rec"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut child = spawn();
    until(|| (!partial(&place).is_empty()).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!place.path("rec").exists() && partial(&place).len() == 1);
    assert_eq!(
        place.skillhost(&["replay", partial(&place)[0].to_str().unwrap()], "").status.code(),
        Some(74)
    );
    // The replay may have removed it.
    partial(&place).iter().for_each(|left| std::fs::remove_dir_all(left).unwrap());
    // A run that is asked to stop writes what it has: a recording without a result, which can still
    // be read.
    let child = spawn();
    let blobs = until(|| partial(&place).first().map(|folder| folder.join("blobs")));
    until(|| std::fs::read_dir(&blobs).is_ok_and(|found| found.count() > 1).then_some(()));
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    if place.path("rec").exists() {
        assert_eq!(recording(&place.path("rec"))["receipt"], Value::Null);
        let replay = place.skillhost(&["replay", "rec", "--fuel", "1000"], "");
        assert_eq!(replay.status.code(), Some(125), "{replay:?}");
    }
}

#[test]
fn an_unwritable_recording_is_an_error() {
    let place = Place::new();
    let mut child = place
        .command(&["run", "./sk", "--command", "cat; echo done", "--record", "rec"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Stdin is read before anything runs, so what is removed now is missing when the recording is
    // written.
    let folder = until(|| partial(&place).first().cloned());
    until(|| folder.join("blobs").is_dir().then_some(()));
    std::fs::remove_dir_all(&folder).unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"input\n").unwrap();
    drop(child.stdin.take());
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(74), "{run:?}");
    assert!(!place.path("rec").exists());
    let full = Place::new();
    std::fs::write(full.path("w/data/a.txt"), vec![b'x'; 200_000]).unwrap();
    // A limit on file size stands for a full disk.
    let mut command = full.user.command("bash");
    let skillhost = env!("CARGO_BIN_EXE_skillhost");
    command.env("SKILLHOST_PROGRAMS", crate::cli::repository("target/components"));
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    let line = format!(
        "trap '' XFSZ; ulimit -f 100; {skillhost} run ./sk --workspace w:ro --command 'wc -c < data/a.txt' --record rec"
    );
    let run = command.args(["-c", &line]).output().unwrap();
    assert_eq!((run.status.code(), text(&run.stdout).as_str()), (Some(74), "200000\n"), "{run:?}");
    assert!(
        text(&run.stderr).contains("cannot write the recording")
            && !full.path("rec").exists()
            && partial(&full).is_empty(),
        "{run:?}"
    );
}

#[test]
fn a_recording_can_be_in_the_workspace_or_elsewhere() {
    let place = Place::new();
    let args = ["run", "./sk", "run.sh", "--workspace", ".", "--record", "./rec", "--", "arg"];
    let ran = |command: std::process::Command| {
        let run = place.finish(command, "");
        let seen = recording(&place.path("rec"));
        assert!(
            !seen["folders"].to_string().contains("skillhost-record")
                && !seen["folders"].to_string().contains(".partial")
        );
        same(&place, "rec", &[], &run);
        std::fs::remove_dir_all(place.path("rec")).unwrap();
    };
    ran(place.command(&args));
    if let Ok(other) = tempfile::tempdir_in("/dev/shm") {
        let mut command = place.command(&args);
        command.env("TMPDIR", other.path());
        ran(command);
        assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 0);
    }
    let run =
        place.skillhost(&["run", "./sk", "run.sh", "--workspace", "../tmp", "--record", "rec"], "");
    assert_eq!(run.status.code(), Some(74), "{run:?}");
    assert!(text(&run.stderr).contains("set TMPDIR") && !place.path("rec").exists(), "{run:?}");
}

#[test]
fn a_replay_stops_at_a_fuel_limit() {
    let place = Place::new();
    recorded(&place, &[]);
    let all = recording(&place.path("rec"))["receipt"]["result"]["cost"]["fuel"].as_u64().unwrap();
    let half = (all / 2).to_string();
    let run = place.skillhost(&["replay", "rec", "--fuel", &half], "");
    assert_eq!(run.status.code(), Some(125), "{run:?}");
    assert!(
        text(&run.stderr).contains(&format!(" of {all} units of fuel, 0 of 0 requests")),
        "{run:?}"
    );
    let report = parsed(&place.skillhost(&["replay", "rec", "--fuel", &half, "--json"], "").stdout);
    assert_eq!(
        (&report["verdict"], &report["outcome"]["status"]["limit"]),
        (&"stopped".into(), &"fuel".into())
    );
    let got = report["progress"]["fuel"][0].as_u64().unwrap();
    assert!(got >= all / 2 && got < all, "{got} of {all}");
    let run = place.skillhost(&["replay", "rec", "--fuel", &(all + 1).to_string()], "");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(text(&run.stderr).contains(&format!("{all} of {all} units")), "{run:?}");
}

#[test]
fn recordings_cannot_exceed_the_local_grant() {
    let place = Place::new();
    recorded(&place, &["--memory", "600MiB", "--timeout", "5m"]);
    // More than the default limit, unless another limit is set.
    assert_eq!(place.skillhost(&["replay", "rec"], "").status.code(), Some(0));
    std::fs::write(place.path("policy.yaml"), "limits: { memory: 512MiB }\n").unwrap();
    let run = place.skillhost(&["replay", "rec", "--policy", "policy.yaml"], "");
    assert_eq!(run.status.code(), Some(83), "{run:?}");
    assert!(text(&run.stderr).contains("--memory 600MiB"), "{run:?}");
    let run =
        place.skillhost(&["replay", "rec", "--policy", "policy.yaml", "--memory", "600MiB"], "");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    std::fs::write(place.path("policy.yaml"), "limits: { files: 5 }\n").unwrap();
    let run = place.skillhost(&["replay", "rec", "--policy", "policy.yaml"], "");
    assert_eq!(run.status.code(), Some(83), "{run:?}");
    assert!(text(&run.stderr).contains("limit `files`"), "{run:?}");
    let empty = place.path("no-programs");
    std::fs::create_dir(&empty).unwrap();
    let run = place.skillhost(&["replay", "rec", "--programs", "no-programs"], "");
    assert_eq!(run.status.code(), Some(83), "{run:?}");
    assert!(text(&run.stderr).contains("runtime.programs.shell"), "{run:?}");
}

#[test]
fn a_replay_is_recorded_and_reaches_no_host_folder() {
    let place = Place::new();
    recorded(&place, &[]);
    std::fs::write(place.path("w/data/a.txt"), "changed since").unwrap();
    let (before, inode) =
        (place.user.records().len(), std::fs::metadata(place.path("w/out.txt")).unwrap().ino());
    std::fs::remove_file(place.path("w/out.txt")).unwrap();
    assert_eq!(place.skillhost(&["replay", "rec"], "").status.code(), Some(0));
    assert!(!place.path("w/out.txt").exists() && inode != 0);
    let records = place.user.records();
    assert_eq!(
        (records.len(), &records[before]["receipt"]),
        (before + 1, &records[before - 1]["receipt"])
    );
}

#[test]
fn a_variable_that_is_part_of_a_rule_is_recorded_and_replayed() {
    let place = Place::new();
    let flags = [
        "run",
        "./sk",
        "run.sh",
        "--workspace",
        "w",
        "--env",
        "TOKEN=hunter2",
        "--env",
        "OUT_DIR=/workspace/out",
        "--allow",
        "Write(out/**)",
        "--record",
        "rec",
        "--",
        "arg",
    ];
    let run = place.skillhost(&flags, "input\n");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    same(&place, "rec", &[], &run);
}

#[test]
fn denied_commands_are_replayed_with_the_original_reason() {
    let place = Place::new();
    let skill = place.path("sk/SKILL.md");
    let manifest = std::fs::read_to_string(&skill).unwrap();
    let asked = "allowed-tools: Read Write Bash(bash:*) Bash(sed:*) Bash(python3:*)";
    let lines = manifest.lines().filter(|line| !line.starts_with("allowed-tools"));
    let mut lines: Vec<&str> = lines.collect();
    lines.insert(1, asked);
    std::fs::write(&skill, lines.join("\n") + "\n").unwrap();
    std::fs::write(place.path("sk/scripts/run.sh"), "python3 -c 'print(1)' || true\n").unwrap();
    let policy = "default:\n  allow: [Read, Write, \"Bash(bash:*)\"]\n";
    std::fs::write(place.path("narrow.yaml"), policy).unwrap();
    let run = place
        .skillhost(&["run", "./sk", "run.sh", "--policy", "narrow.yaml", "--record", "rec"], "");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(text(&run.stderr).contains("not granted: the policy has no entry"), "{run:?}");
    same(&place, "rec", &["--policy", "narrow.yaml"], &run);
}
