//! Compiled components on disk: reused, rebuilt if incomplete, and never loaded from folders that
//! others can write.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tempfile::TempDir;

use crate::cli::{User, copy_compiled_runtimes, repository, text};
use crate::handwritten_components::long_function;
use crate::programs::program;

/// A user with a separate cache.
struct Place {
    user: User,
    root: TempDir,
}

impl Place {
    /// Creates a user with one compiled component.
    fn warm() -> Place {
        let place = Place { user: User::new(), root: tempfile::tempdir().unwrap() };
        assert!(place.run().status.success());
        place
    }

    fn cache(&self) -> PathBuf {
        self.root.path().join("skillhost/components")
    }

    fn run(&self) -> Output {
        let mut command = self.user.command(env!("CARGO_BIN_EXE_skillhost"));
        command.env("XDG_CACHE_HOME", self.root.path()).args(["run", "./hello"]).output().unwrap()
    }

    fn says_hello(&self) {
        let run = self.run();
        assert_eq!(
            (text(&run.stdout).as_str(), text(&run.stderr).as_str()),
            ("hello from 0.3\n", "")
        );
    }

    fn entry(&self, extension: &str) -> PathBuf {
        let mut found = entries(&self.cache());
        found.retain(|path| path.extension().is_some_and(|e| e == extension));
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }
}

/// Returns compiled code, stamps and incomplete files, without the cached facts about skills.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| {
        path.extension().is_some_and(|extension| {
            ["cwasm", "stamp", "tmp"].contains(&extension.to_str().unwrap())
        })
    });
    found
}

/// Identifies a file; a rewritten one differs even if it reuses the inode.
fn identity(path: &Path) -> (u64, std::time::SystemTime) {
    let metadata = std::fs::metadata(path).unwrap();
    (std::os::unix::fs::MetadataExt::ino(&metadata), metadata.modified().unwrap())
}

#[test]
fn later_runs_see_the_state_of_earlier_runs() {
    let place = Place::warm();
    let before = identity(&place.entry("cwasm"));
    place.says_hello();
    assert_eq!(identity(&place.entry("cwasm")), before);
    assert_eq!(entries(&place.cache()).len(), 2, "the code and its stamp, and nothing temporary");
}

#[test]
fn changed_compiled_code_is_never_run_and_is_rebuilt() {
    let place = Place::warm();
    let code = place.entry("cwasm");
    let complete = std::fs::read(&code).unwrap();
    let middle = complete.len() / 2;
    let mut flipped = complete.clone();
    flipped[middle] ^= 0xff;
    for broken in [&flipped[..], &complete[..middle], b"", b"not code"] {
        std::fs::write(&code, broken).unwrap();
        place.says_hello();
        assert_eq!(std::fs::read(&code).unwrap(), complete, "the code is rebuilt");
    }
}

#[test]
fn compiled_code_without_a_valid_stamp_is_rebuilt() {
    let place = Place::warm();
    let stamp = place.entry("stamp");
    for broken in ["", "{", "null", "{\"digest\": \"0\"}"] {
        std::fs::write(&stamp, broken).unwrap();
        let before = identity(&place.entry("cwasm"));
        place.says_hello();
        assert_ne!(identity(&place.entry("cwasm")), before, "{broken:?}");
    }
    std::fs::remove_file(&stamp).unwrap();
    place.says_hello();
}

#[test]
fn a_cache_that_others_may_write_is_refused() {
    let place = Place::warm();
    for mode in [0o770, 0o707, 0o777] {
        std::fs::set_permissions(place.cache(), std::fs::Permissions::from_mode(mode)).unwrap();
        let run = place.run();
        assert_eq!((run.status.code(), text(&run.stdout).as_str()), (Some(74), ""), "{mode:o}");
        assert!(text(&run.stderr).contains("chmod 700"), "{run:?}");
    }
}

#[test]
fn a_cache_below_a_folder_that_others_can_write_is_refused() {
    let place = Place::warm();
    for (mode, code) in [(0o777, 74), (0o1777, 0), (0o755, 0)] {
        std::fs::set_permissions(place.root.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let run = place.run();
        assert_eq!(run.status.code(), Some(code), "{mode:o}: {run:?}");
        assert_eq!(text(&run.stderr).contains("chmod go-w"), code != 0, "{mode:o}: {run:?}");
    }
}

#[test]
fn a_moved_cache_is_still_used() {
    let mut place = Place::warm();
    let elsewhere = tempfile::tempdir().unwrap();
    let (from, to) = (place.cache(), elsewhere.path().join("skillhost/components"));
    std::fs::create_dir_all(&to).unwrap();
    std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o700)).unwrap();
    for path in entries(&from) {
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
    place.root = elsewhere;
    let copied = identity(&place.entry("cwasm"));
    place.says_hello();
    assert_eq!(identity(&place.entry("cwasm")), copied, "an intact copy is used");
}

#[test]
fn hosts_compile_one_component_concurrently() {
    let place = Place { user: User::new(), root: tempfile::tempdir().unwrap() };
    let start = || {
        let mut command = place.user.command(env!("CARGO_BIN_EXE_skillhost"));
        command
            .env("XDG_CACHE_HOME", place.root.path())
            .args(["run", "./hello"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let started: Vec<_> = (0..6).map(|_| start()).collect();
    for child in started {
        let run = child.wait_with_output().unwrap();
        assert_eq!(
            (text(&run.stdout).as_str(), text(&run.stderr).as_str()),
            ("hello from 0.3\n", "")
        );
    }
    assert_eq!(entries(&place.cache()).len(), 2, "{:?}", entries(&place.cache()));
}

#[test]
fn a_cache_that_cannot_be_created_is_reported() {
    let user = User::new();
    let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
    let run = command.env("XDG_CACHE_HOME", "/dev/null").args(["run", "./hello"]).output().unwrap();
    assert_eq!(run.status.code(), Some(74), "{run:?}");
    assert_eq!(user.records()[0]["status"]["kind"], "failed");
}

#[test]
fn cache_writes_count_towards_the_skills_quota() {
    let place = Place::warm();
    copy_compiled_runtimes(&place.cache());
    let scripted = place.user.work().join("scripted");
    std::fs::create_dir_all(scripted.join("scripts")).unwrap();
    std::fs::write(
        scripted.join("SKILL.md"),
        "---\nname: scripted\ndescription: Has a script. Use to test.\n---\n",
    )
    .unwrap();
    // Takes long enough to compile to be cached, and is new.
    let script = (0..400).fold(String::new(), |text, line| format!("{text}x{line} = {line}\n"));
    std::fs::write(scripted.join("scripts/run.py"), script).unwrap();
    let mut command = place.user.command(env!("CARGO_BIN_EXE_skillhost"));
    command
        .env("XDG_CACHE_HOME", place.root.path())
        .args(["run", "./scripted", "run.py", "--programs"])
        .arg(repository("target/components"));
    let run = command.output().unwrap();
    assert!(run.status.success(), "{run:?}");
    let read = |folder: &str| {
        std::fs::read_dir(place.cache().join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
    };
    let charged: String = read("")
        .filter(|name| name.ends_with(".share"))
        .map(|name| std::fs::read_to_string(place.cache().join(name)).unwrap())
        .collect();
    let code: Vec<String> = read("").filter(|name| name.ends_with(".own.cwasm")).collect();
    let scripts: Vec<String> = read("").filter(|name| name.ends_with(".script")).collect();
    let copies: Vec<String> = read("skills").map(|name| format!("skills/{name}")).collect();
    assert_eq!(
        (code.len(), scripts.is_empty(), copies.len()),
        (1, false, 2),
        "{code:?} {scripts:?} {copies:?}"
    );
    for name in [code, scripts, copies].concat() {
        assert!(charged.contains(&format!("\"{name}\"")), "{name}: {charged}");
    }
}

#[test]
fn a_run_that_adds_to_the_cache_tidies_it() {
    let place = Place::warm();
    let abandoned = place.cache().join("0123.tmp");
    let leave = || {
        let file = std::fs::File::create(&abandoned).unwrap();
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(7_200);
        file.set_times(std::fs::FileTimes::new().set_accessed(then).set_modified(then)).unwrap();
    };
    leave();
    place.says_hello();
    assert!(abandoned.exists(), "nothing was added");
    std::fs::remove_file(place.entry("cwasm")).unwrap();
    place.says_hello();
    assert!(!abandoned.exists());
}

/// Returns the incomplete code files of runtimes: `KEY.PROCESS.RANDOM.tmp`.
fn unfinished(cache: &Path) -> Vec<String> {
    let names = std::fs::read_dir(cache).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| {
            let parts: Vec<&str> = name.split('.').collect();
            parts.len() == 4 && parts[0].len() == 64 && parts[3] == "tmp"
        })
        .collect()
}

#[test]
fn processes_that_need_a_runtime_compile_it_once() {
    let place = Place { user: User::new(), root: tempfile::tempdir().unwrap() };
    // Takes long enough to compile that both processes need it at the same time.
    let programs = place.user.root().join("programs");
    program(&programs, "shell", &["bash", "sh"], &long_function(3_000));
    let start = || {
        let mut command = place.user.command(env!("CARGO_BIN_EXE_skillhost"));
        command
            .env("XDG_CACHE_HOME", place.root.path())
            .env("SKILLHOST_PROGRAMS", &programs)
            .args(["run", "./hello", "--command", "echo started"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut processes = [start(), start()];
    let mut written = std::collections::BTreeSet::new();
    while processes.iter_mut().any(|process| process.try_wait().unwrap().is_none()) {
        written.extend(unfinished(&place.cache()));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    for process in processes {
        let run = process.wait_with_output().unwrap();
        assert!(run.status.success(), "{run:?}");
    }
    assert_eq!(written.len(), 1, "{written:?}");
}
