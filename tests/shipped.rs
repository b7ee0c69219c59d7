//! Compiled code that ships with the program: used without compiling, and only if the program lists
//! it, it is unchanged, and no other user can write it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Output;

use object::{Object as _, ObjectSection as _};
use sha2::{Digest as _, Sha256};
use skillhost_sandbox::shipped;
use tempfile::TempDir;

use crate::cli::{User, guest, text};
use crate::programs::program;

/// A copy of the program that lists the code of one runtime, and a skill with a script for it.
struct Place {
    user: User,
    root: TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { user: User::new(), root: tempfile::tempdir().unwrap() };
        program(&place.path("share"), "shell", &["bash", "sh"], guest("argv"));
        let skill = place.path("skill");
        std::fs::create_dir_all(skill.join("scripts")).unwrap();
        std::fs::write(skill.join("SKILL.md"), "---\nname: skill\ndescription: Runs.\n---\n")
            .unwrap();
        std::fs::write(skill.join("scripts/a.sh"), "echo a\n").unwrap();
        std::fs::create_dir(place.path("share/compiled")).unwrap();
        let mut compile = place.user.command(env!("CARGO_BIN_EXE_skillhost"));
        compile.args(["runtimes", "--programs"]).arg(place.path("share"));
        let compiled = compile
            .args(["compile", "--ship-to"])
            .arg(place.path("share/compiled"))
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", text(&compiled.stderr));
        place.list();
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn code(&self) -> PathBuf {
        let mut found = std::fs::read_dir(self.path("share/compiled")).unwrap();
        found.next().unwrap().unwrap().path()
    }

    /// Writes the list into a copy of the program, as `cargo xtask dist` does.
    fn list(&self) {
        let mut bytes = std::fs::read(env!("CARGO_BIN_EXE_skillhost")).unwrap();
        let file = object::File::parse(bytes.as_slice()).unwrap();
        let list = file.section_by_name(shipped::SECTION).unwrap().file_range().unwrap();
        let at = usize::try_from(list.0).unwrap();
        assert_eq!(list.1, shipped::SIZE as u64);
        assert!(bytes[at..].starts_with(&shipped::MAGIC));
        let code = shipped::code_digest(&std::fs::File::open(self.code()).unwrap()).unwrap();
        let entry: [[u8; 32]; 2] = [Sha256::digest(guest("argv")).into(), code];
        bytes[at + shipped::MAGIC.len()..][..shipped::ENTRY].copy_from_slice(&entry.concat());
        std::fs::write(self.path("skillhost"), bytes).unwrap();
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.path("skillhost"), executable).unwrap();
    }

    fn run(&self) -> Output {
        let mut run = self.user.command(self.path("skillhost").to_str().unwrap());
        run.env("XDG_CACHE_HOME", self.path("cache")).arg("run").arg(self.path("skill"));
        run.arg("--programs").arg(self.path("share")).output().unwrap()
    }

    /// Runs the script, and returns whether the runtime was compiled.
    fn compiles(&self) -> bool {
        let run = self.run();
        assert!(run.status.success(), "{}", text(&run.stderr));
        assert!(text(&run.stdout).contains("a.sh"), "{}", text(&run.stdout));
        let cache = std::fs::read_dir(self.path("cache/skillhost/components")).unwrap();
        cache.into_iter().any(|entry| {
            entry.unwrap().path().extension().is_some_and(|extension| extension == "cwasm")
        })
    }
}

#[test]
fn listed_code_runs_without_compiling() {
    let place = Place::new();
    assert!(!place.compiles());
    assert!(!place.compiles(), "a stamp vouches for it now");
}

#[test]
fn changed_code_is_not_loaded() {
    let place = Place::new();
    let mut code = std::fs::read(place.code()).unwrap();
    let last = code.len() - 1;
    code[last] ^= 1;
    std::fs::write(place.code(), code).unwrap();
    assert!(place.compiles());
}

#[test]
fn code_that_changes_after_a_run_is_not_loaded() {
    let place = Place::new();
    assert!(!place.compiles());
    let code = std::fs::read(place.code()).unwrap();
    std::fs::write(place.code(), &code[..code.len() - 1]).unwrap();
    assert!(place.compiles());
}

#[test]
fn code_that_others_can_write_is_not_loaded() {
    let place = Place::new();
    std::fs::set_permissions(place.code(), std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(place.compiles());
}

#[test]
fn code_that_the_program_does_not_list_is_not_loaded() {
    let place = Place::new();
    std::fs::copy(env!("CARGO_BIN_EXE_skillhost"), place.path("skillhost")).unwrap();
    assert!(place.compiles());
}

/// As on a processor that lacks instructions which the code uses.
#[test]
fn listed_code_that_the_engine_refuses_is_compiled() {
    let place = Place::new();
    std::fs::write(place.code(), "no code of this engine").unwrap();
    place.list();
    let run = place.run();
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(place.compiles());
}

#[test]
fn other_modes_and_missing_code_compile() {
    let place = Place::new();
    let mut run = place.user.command(place.path("skillhost").to_str().unwrap());
    run.env("XDG_CACHE_HOME", place.path("cache")).arg("run").arg(place.path("skill"));
    run.args(["--deterministic", "--programs"]).arg(place.path("share"));
    let run = run.output().unwrap();
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(place.compiles());
    let place = Place::new();
    std::fs::remove_file(place.code()).unwrap();
    assert!(place.compiles());
}
