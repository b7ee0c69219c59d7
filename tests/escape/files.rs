//! Attempts to escape through file names, and to exhaust storage.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Status;

use super::{denied, report};
use crate::hostile_host::{Fixture, SECRET};

#[test]
pub fn parent_components_do_not_escape() {
    let fixture = Fixture::new();
    for mode in [MountMode::Write, MountMode::Overlay, MountMode::Read] {
        denied(&fixture, fixture.run(&["traversal", SECRET]).workspace(mode));
    }
}

#[test]
pub fn absolute_paths_are_refused() {
    let fixture = Fixture::new();
    let (secret, workspace) = (fixture.path("outside/secret.txt"), fixture.path("workspace"));
    denied(
        &fixture,
        fixture.run(&["absolute", secret.to_str().unwrap(), workspace.to_str().unwrap()]),
    );
}

#[test]
pub fn host_processes_and_devices_are_not_visible() {
    let fixture = Fixture::new();
    denied(&fixture, fixture.run(&["proc"]));
}

#[test]
pub fn excluded_files_are_unreachable_under_any_name() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("workspace/hidden.txt"), SECRET).unwrap();
    for link in ["link.csv", "in/link.csv"] {
        symlink("hidden.txt", fixture.path("workspace").join(link)).unwrap();
    }
    std::fs::write(
        fixture.path("skills/hostile/SKILL.md"),
        "---\nname: hostile\ndescription: Reads tables.\nallowed-tools: Read(*.csv) Write(*.csv)\nmetadata:\n  component: hostile.wasm\n---\n",
    )
    .unwrap();
    denied(&fixture, fixture.run(&["glob", SECRET]));
}

#[test]
pub fn read_only_folders_cannot_be_changed() {
    let fixture = Fixture::new();
    std::fs::copy(fixture.path("skills/hostile/SKILL.md"), fixture.path("workspace/SKILL.md"))
        .unwrap();
    denied(
        &fixture,
        fixture.run(&["read-only", "/skill", "/workspace"]).workspace(MountMode::Read),
    );
}

#[test]
pub fn host_files_are_unreachable_in_every_folder() {
    let fixture = Fixture::new();
    let own = ["own/cache", "own/state/skillhost"];
    let root = fixture.dir.path().canonicalize().unwrap();
    for path in own.into_iter().chain(["own/programs"]) {
        std::fs::create_dir_all(root.join(path)).unwrap();
        std::fs::write(root.join(path).join("code.cwasm"), "native code").unwrap();
    }
    let host = fixture.owning(own);
    // The folder that contains all of them, by its canonical path; a symlink also leads to
    // `own/state/skillhost`.
    symlink("skillhost", root.join("own/state/by-link")).unwrap();
    let args = [
        "state",
        "audit.jsonl",
        "audit.jsonl.key",
        "own/cache",
        "own/cache/code.cwasm",
        "own/state/skillhost",
        "own/state/by-link/code.cwasm",
        "own/programs/code.cwasm",
    ];
    let before = fixture.snapshot();
    let outcome = fixture.run(&args).folder(&root).by(host.clone()).go();
    assert_eq!(
        (&report(&outcome)["detail"]["escapes"], outcome.status),
        (&Value::Array(vec![]), Status::Exited { code: 0 }),
        "{}",
        outcome.stdout.text()
    );
    assert_eq!(fixture.snapshot(), before);
    assert_eq!(fixture.audit().len(), 1);
    // A folder inside one of them is not visible at all.
    let outcome = fixture.run(&["state", "."]).folder(&root.join("own/cache")).by(host).go();
    assert!(outcome.stdout.text().contains("no folder to try"), "{outcome:?}");
    assert!(!root.join("own/cache/made-by-a-guest").exists());
}

#[test]
pub fn symbolic_links_lead_out_of_no_folder() {
    let fixture = Fixture::new();
    let secret = fixture.path("outside/secret.txt").display().to_string();
    let workspace = ["symlink", SECRET, &secret, "/workspace"];
    denied(&fixture, fixture.run(&workspace).workspace(MountMode::Write));
    denied(&fixture, fixture.run(&workspace[..3]).workspace(MountMode::Overlay));
    // Even where links are allowed.
    for (mode, args) in [(MountMode::Write, &workspace[..]), (MountMode::Overlay, &workspace[..3])]
    {
        denied(&fixture, fixture.run(args).workspace(mode).symlinks());
    }
}

#[test]
pub fn hard_links_to_outside_are_not_written_or_created() {
    let fixture = Fixture::new();
    denied(&fixture, fixture.run(&["hardlink"]));
}

#[test]
pub fn a_link_that_replaces_a_folder_is_not_followed() {
    let fixture = Fixture::new();
    let (flip, folder, link) = (
        fixture.path("workspace/flip"),
        fixture.path("workspace/a-folder"),
        fixture.path("workspace/a-link"),
    );
    symlink(fixture.path("outside"), &link).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let flipping = {
        let (done, flip) = (done.clone(), flip.clone());
        std::thread::spawn(move || {
            let mut flips = 0_u64;
            while !done.load(Ordering::SeqCst) {
                std::fs::rename(&flip, &folder).unwrap();
                std::fs::rename(&link, &flip).unwrap();
                std::fs::rename(&flip, &link).unwrap();
                std::fs::rename(&folder, &flip).unwrap();
                flips += 1;
            }
            flips
        })
    };
    let outside = std::fs::read_dir(fixture.path("outside")).unwrap().count();
    let outcome = fixture.run(&["race", SECRET, "3000"]).go();
    done.store(true, Ordering::SeqCst);
    let flips = flipping.join().unwrap();
    assert!(flips > 100, "only {flips} flips: too few for a race");
    assert_eq!(
        (report(&outcome)["denied"].clone(), outcome.status),
        (Value::Bool(true), Status::Exited { code: 0 }),
        "{}",
        outcome.stdout.text()
    );
    assert_eq!(
        std::fs::read_dir(fixture.path("outside")).unwrap().count(),
        outside,
        "a file was created outside"
    );
    assert!(flip.is_dir());
    fixture.assert_alive();
}

#[test]
pub fn disk_usage_is_limited() {
    for version in ["0.3", "0.2"] {
        for (at, mode) in [
            ("/tmp", MountMode::Write),
            ("/workspace", MountMode::Write),
            ("/workspace", MountMode::Overlay),
        ] {
            let fixture = Fixture::new();
            let run =
                fixture.run(&["disk", at, version]).workspace(mode).limit(Limit::Disk, 3 << 20);
            let outcome = run.go();
            assert_eq!(outcome.status, Status::Exited { code: 0 }, "{outcome:?}");
            assert_eq!(report(&outcome)["denied"], true, "{}", outcome.stdout.text());
            assert_eq!(
                outcome.limits_hit.iter().map(|hit| hit.limit).collect::<Vec<_>>(),
                [Limit::Disk]
            );
            let size =
                std::fs::metadata(fixture.path("workspace/full")).map_or(0, |meta| meta.len());
            assert!(size <= 3 << 20, "{size}");
            assert_eq!(
                std::fs::read_dir(fixture.path("scratch")).unwrap().count(),
                1,
                "scratch space is not empty"
            );
            fixture.assert_alive();
        }
    }
}

#[test]
pub fn state_does_not_outgrow_its_quota() {
    for version in ["0.3", "0.2"] {
        let fixture = Fixture::new();
        // The second run starts with the state that the first one filled.
        for _ in 0..2 {
            let outcome =
                fixture.run(&["disk", "/state", version]).limit(Limit::State, 3 << 20).go();
            assert_eq!(outcome.status, Status::Exited { code: 0 }, "{outcome:?}");
            assert_eq!(report(&outcome)["denied"], true, "{}", outcome.stdout.text());
            assert_eq!(
                outcome.limits_hit.iter().map(|hit| hit.limit).collect::<Vec<_>>(),
                [Limit::State]
            );
        }
        let stored = skillhost_ledger::state::StateStore::new(fixture.path("kept")).list().unwrap();
        assert!(stored.len() == 1 && stored[0].bytes <= 3 << 20, "{stored:?}");
        fixture.assert_alive();
    }
}

#[test]
pub fn a_million_files_cannot_be_created() {
    for version in ["0.3", "0.2"] {
        for at in ["/tmp", "/workspace"] {
            let fixture = Fixture::new();
            let before = std::fs::read_dir(fixture.path("workspace")).unwrap().count();
            let outcome = fixture.run(&["files", at, version]).limit(Limit::Files, 100).go();
            assert_eq!(outcome.status, Status::Exited { code: 0 }, "{outcome:?}");
            assert_eq!(report(&outcome)["denied"], true, "{}", outcome.stdout.text());
            assert_eq!(
                outcome.limits_hit.iter().map(|hit| hit.limit).collect::<Vec<_>>(),
                [Limit::Files]
            );
            let created = std::fs::read_dir(fixture.path("workspace")).unwrap().count() - before;
            assert_eq!(created, if at == "/tmp" { 0 } else { 100 });
            assert_eq!(
                std::fs::read_dir(fixture.path("scratch")).unwrap().count(),
                1,
                "scratch space is not empty"
            );
            fixture.assert_alive();
        }
    }
}
