//! `cache list|clear|warm`: what the cache holds, removed while other processes use it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::{User, copy_compiled_runtimes, repository, script_skill, text};

/// A user with a separate cache.
struct Place(User);

impl Place {
    fn new() -> Place {
        Place(User::new())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.0.command(env!("CARGO_BIN_EXE_skillhost"));
        command.env("XDG_CACHE_HOME", self.0.root().join("cache")).args(args);
        command
    }

    fn skillhost(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.skillhost(&[args, &["--json"]].concat());
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn cache(&self) -> PathBuf {
        self.0.root().join("cache/skillhost")
    }

    fn run_hello(&self) {
        let run = self.skillhost(&["run", "./hello"]);
        assert_eq!(text(&run.stdout), "hello from 0.3\n", "{run:?}");
    }
}

/// The files of a kind in a report.
fn files(report: &Value, kind: &str) -> u64 {
    let kinds = report["kinds"].as_array().unwrap();
    kinds.iter().find(|row| row["kind"] == kind).unwrap()["files"].as_u64().unwrap()
}

#[test]
fn cache_is_listed_by_kind_and_cleared_by_kind() {
    let place = Place::new();
    assert!(text(&place.skillhost(&["cache", "list"]).stdout).contains("is empty"));
    assert!(!place.cache().exists(), "nothing is created");
    place.run_hello();
    assert!(place.skillhost(&["list"]).status.success());
    let listed = place.json(&["cache", "list"]);
    assert_eq!((files(&listed, "components"), files(&listed, "runtimes")), (2, 0));
    assert!(files(&listed, "copies") > 2 && files(&listed, "catalogue") > 0, "{listed:#}");
    let rows = listed["kinds"].as_array().unwrap();
    assert_eq!(listed["bytes"], rows.iter().map(|row| row["bytes"].as_u64().unwrap()).sum::<u64>());
    let used = rows.iter().find(|row| row["kind"] == "components").unwrap()["last_used"].clone();
    assert!(used.as_str().unwrap().starts_with("20"), "{used}");
    let cleared = place.json(&["cache", "clear", "--kind", "components"]);
    assert_eq!(files(&cleared, "components"), 2);
    let listed = place.json(&["cache", "list"]);
    assert!(files(&listed, "components") == 0 && files(&listed, "copies") > 2, "{listed:#}");
    let cleared = place.json(&["cache", "clear"]);
    assert_eq!(cleared["kept"], serde_json::json!([]));
    assert_eq!(place.json(&["cache", "list"])["bytes"], 0);
    place.run_hello();
}

#[test]
fn copy_that_a_run_uses_is_kept_and_named() {
    let place = Place::new();
    let mut run = place.command(&["run", "./sleep"]);
    let mut run = run.stdout(Stdio::null()).spawn().unwrap();
    // The run holds its copy before it compiles the guest.
    let components = place.cache().join("components");
    let is_code = |entry: std::io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "cwasm"))
    };
    while !fs::read_dir(&components).is_ok_and(|mut entries| entries.any(is_code)) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let copies = components.join("skills");
    let cleared = place.skillhost(&["cache", "clear"]);
    assert!(cleared.status.success(), "{cleared:?}");
    assert!(text(&cleared.stderr).contains("was not removed: it is in use"), "{cleared:?}");
    assert_eq!(fs::read_dir(&copies).unwrap().count(), 1);
    run.kill().unwrap();
    run.wait().unwrap();
    let cleared = place.json(&["cache", "clear", "--kind", "copies"]);
    assert!(
        files(&cleared, "copies") > 0 && cleared["kept"] == serde_json::json!([]),
        "{cleared:#}"
    );
}

#[test]
fn runs_succeed_while_the_cache_is_cleared() {
    let place = Place::new();
    place.run_hello();
    std::thread::scope(|scope| {
        let clearing = scope.spawn(|| {
            for _ in 0..30 {
                let cleared = place.skillhost(&["cache", "clear"]);
                assert!(cleared.status.success(), "{cleared:?}");
            }
        });
        while !clearing.is_finished() {
            place.run_hello();
            assert!(place.skillhost(&["list"]).status.success());
        }
    });
    place.run_hello();
}

#[test]
fn links_in_the_cache_are_reported_and_not_followed() {
    let place = Place::new();
    place.run_hello();
    let outside = place.0.root().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious.own.cwasm"), "text").unwrap();
    let components = place.cache().join("components");
    symlink(&outside, components.join("x.own.cwasm")).unwrap();
    symlink(&outside, components.join("skills/x")).unwrap();
    symlink(&outside, place.cache().join("sdk")).unwrap();
    let cleared = place.skillhost(&["cache", "clear"]);
    assert!(
        text(&cleared.stderr).contains("sdk is a symlink, which is not followed"),
        "{cleared:?}"
    );
    // The whole folder of components may be somewhere else.
    fs::remove_dir_all(&components).unwrap();
    symlink(&outside, &components).unwrap();
    let cleared = place.json(&["cache", "clear"]);
    assert_eq!(cleared["links"], serde_json::json!(["components", "sdk"]));
    assert_eq!(fs::read_to_string(outside.join("precious.own.cwasm")).unwrap(), "text");
}

#[test]
fn cache_that_others_can_write_is_left_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    place.run_hello();
    fs::set_permissions(place.cache(), fs::Permissions::from_mode(0o777)).unwrap();
    for args in [["cache", "list"], ["cache", "clear"]] {
        let output = place.skillhost(&args);
        assert_eq!(output.status.code(), Some(74), "{output:?}");
        assert!(text(&output.stderr).contains("chmod 700"), "{output:?}");
    }
    assert!(place.cache().join("components").exists());
}

#[test]
fn target_folder_of_a_running_build_is_kept() {
    let place = Place::new();
    let cache = place.cache();
    skillhost_skill::private::create_missing(&cache.join("target/debug")).unwrap();
    fs::write(cache.join("target/debug/file"), "x").unwrap();
    let lock = fs::File::create(cache.join("target.lock")).unwrap();
    lock.lock().unwrap();
    let cleared = place.json(&["cache", "clear"]);
    assert_eq!(cleared["kept"][0]["why"], "a build uses it");
    assert!(cache.join("target/debug/file").exists());
    drop(lock);
    let cleared = place.json(&["cache", "clear", "--kind", "builds"]);
    assert_eq!(files(&cleared, "builds"), 1);
    assert!(!cache.join("target").exists());
}

#[test]
fn warming_is_the_same_as_compiling_runtimes() {
    let place = Place::new();
    copy_compiled_runtimes(&place.cache().join("components"));
    let programs = repository("target/components");
    let of = |args: &[&str]| {
        let output = place.skillhost(&[args, &["--programs", programs.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    };
    let warmed = of(&["cache", "warm"]);
    assert_eq!(warmed, of(&["runtimes", "compile"]));
    assert!(warmed.lines().count() >= 2, "{warmed}");
    assert!(warmed.lines().all(|line| line.ends_with(": already compiled")), "{warmed}");
    script_skill(&place.0.work().join("scripted"), &[("x.sh", "echo warm\n")]);
    let listed = place.json(&["cache", "list"]);
    assert!(files(&listed, "runtimes") >= 4, "{listed:#}");
    assert!(Path::new(listed["folder"].as_str().unwrap()).is_absolute());
}
