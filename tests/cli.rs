//! The command line as an operator uses it: the real binary, in temporary folders, with a separate
//! home folder.
//!
//! The guests are `tests/guests/*.wat`, each the component of a skill of the same name. Further
//! skills and files come from `tests/cases/cli/setup`, copied over them.

mod bench;
mod cache;
mod completions;
mod examples;
mod help;
mod json;
mod man;
mod mounts;
mod permission_keys;
mod signals;
mod stdin;
mod terminal;
mod transcripts;
mod verbosity;
mod watch;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use skillhost_skill::runtime::digest;
use tempfile::TempDir;

pub use crate::support::{copy, ends, guest, pinned, repository, skipped, text};

use crate::support::{GUESTS, files, stem};

/// An operator with a home folder, and a working folder that contains the skills.
pub struct User {
    root: TempDir,
}

/// The cache folder of all tests, so that each component is compiled once.
pub const CACHE: &str = env!("CARGO_TARGET_TMPDIR");

/// Returns where the compiled code of a skill's script is cached: the name depends on the runtime,
/// the path and the content.
pub fn cached_script(runtime: &str, path: &str, content: &str) -> PathBuf {
    let facts = repository("target").join(format!("components/{runtime}.json"));
    let facts: serde_json::Value = serde_json::from_slice(&std::fs::read(facts).unwrap()).unwrap();
    let parts = [facts["digest"].as_str().unwrap().as_bytes(), path.as_bytes(), content.as_bytes()];
    let hashed: Vec<u8> = parts
        .iter()
        .flat_map(|part| [&(part.len() as u64).to_le_bytes(), *part].concat())
        .collect();
    let name = format!("{}.script", &digest(&hashed)["sha256:".len()..]);
    Path::new(CACHE).join("skillhost/components").join(name)
}

/// Writes a skill whose component is a guest.
pub fn skill_of(guest_name: &str, folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap();
    let text = format!(
        "---\nname: {name}\ndescription: A guest of the tests. Use to test.\nmetadata:\n  component: {name}.wasm\n---\n"
    );
    std::fs::write(folder.join("SKILL.md"), text).unwrap();
    std::fs::write(folder.join(format!("{name}.wasm")), guest(guest_name)).unwrap();
}

/// Writes a skill of scripts.
pub fn script_skill(folder: &Path, scripts: &[(&str, &str)]) {
    std::fs::create_dir_all(folder.join("scripts")).unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap();
    let text = format!(
        "---\nname: {name}\ndescription: Runs scripts.\nallowed-tools: Read Write Bash WebFetch\n---\nRun them.\n"
    );
    std::fs::write(folder.join("SKILL.md"), text).unwrap();
    for (name, text) in scripts {
        std::fs::write(folder.join("scripts").join(name), text).unwrap();
    }
}

/// Runs a command. Returns the exit code, stdout and stderr.
pub fn run(user: &User, args: &[&str]) -> (Option<i32>, String, String) {
    let output = user.skillhost(args);
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Runs a command that must succeed, and returns its output.
pub fn succeeds(user: &User, args: &[&str]) -> String {
    let (code, stdout, stderr) = run(user, args);
    assert_eq!(code, Some(0), "{args:?}: {stdout}{stderr}");
    stdout
}

impl User {
    pub fn new() -> User {
        let user = User { root: tempfile::tempdir().unwrap() };
        for folder in ["home", "tmp", "work"] {
            std::fs::create_dir(user.root.path().join(folder)).unwrap();
        }
        for (name, _) in GUESTS.iter() {
            skill_of(name, &user.work().join(name));
        }
        copy(&repository("tests/cases/cli/setup"), &user.work());
        user
    }

    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Returns the records of the audit log at its default path.
    pub fn records(&self) -> Vec<serde_json::Value> {
        ends(
            &std::fs::read_to_string(self.home().join(".local/state/skillhost/audit.jsonl"))
                .unwrap_or_default(),
        )
    }

    /// Prepares a command with only this user's environment.
    pub fn command(&self, program: &str) -> Command {
        let bin = Path::new(env!("CARGO_BIN_EXE_skillhost")).parent().unwrap();
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .env("HOME", self.home())
            .env("XDG_CACHE_HOME", CACHE)
            .env("TMPDIR", self.root.path().join("tmp"))
            .env("LC_ALL", "C")
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    /// Runs skillhost as this user, who is the operator.
    pub fn skillhost(&self, args: &[&str]) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_skillhost"));
        if args.first().is_some_and(|verb| {
            matches!(*verb, "approve" | "permissions" | "settings" | "key" | "trust")
        }) {
            command.env("SKILLHOST_OPERATOR_TOKEN", self.operator_token());
        }
        command.args(args).output().unwrap()
    }

    /// Returns the operator token of this user's state folder.
    pub fn operator_token(&self) -> String {
        let file = self.home().join(".local/state/skillhost/operator.token");
        if !file.exists() {
            // A refused command creates the token.
            let refused = self
                .command(env!("CARGO_BIN_EXE_skillhost"))
                .args(["approve", "1"])
                .output()
                .unwrap();
            assert_eq!(refused.status.code(), Some(77), "{refused:?}");
        }
        std::fs::read_to_string(file).unwrap()
    }

    /// Replaces the parts of an output that differ between runs and machines with names.
    pub fn normal(&self, text: &str) -> String {
        let root = self.root.path().canonicalize().unwrap();
        let text = text.replace(&root.join("work").display().to_string(), "[work]");
        let text = text.replace(&root.join("home").display().to_string(), "[home]");
        let text = text.replace(&root.join("tmp").display().to_string(), "[tmp]");
        let text = text.replace(&root.join("programs").display().to_string(), "[programs]");
        let text = text.replace(CACHE, "[cache]");
        text.split_inclusive('\n').map(unpadded).map(|line| measured(&line)).collect()
    }

    /// Creates a folder of stand-ins for the built-in programs, which print their argv.
    pub fn stand_ins(&self) -> PathBuf {
        let folder = self.root.path().join("programs");
        crate::programs::stand_ins(&folder);
        folder
    }

    /// Returns the remaining scratch folders; a clean run leaves none.
    pub fn scratch(&self) -> Vec<PathBuf> {
        files(&self.root.path().join("tmp"))
    }
}

/// Copies the compiled runtimes into a cache of components, so that the test does not spend
/// seconds on their compilation. Compiles them if no test has done so.
pub fn copy_compiled_runtimes(components: &Path) {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runtimes");
    let compiled = Command::new(env!("CARGO_BIN_EXE_skillhost"))
        .env("XDG_CACHE_HOME", &cache)
        .args(["runtimes", "compile", "--programs"])
        .arg(repository("target/components"))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{compiled:?}");
    copy(&cache.join("skillhost/components"), components);
}

/// Removes the padding from a table's line with a path, because it depends on the path's length.
fn unpadded(line: &str) -> String {
    match line.strip_suffix("│\n") {
        Some(cells) if cells.contains("[work]") => format!("{} │\n", cells.trim_end()),
        _ => line.to_owned(),
    }
}

/// Replaces a measured value or a digest in a line of JSON.
fn measured(line: &str) -> String {
    for key in ["\"wall_ms\": ", "\"epochs\": "] {
        if let Some((before, rest)) = line.split_once(key) {
            let number = rest
                .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | '-'));
            return format!("{before}{key}[measured]{number}");
        }
    }
    match line.split_once("sha256:") {
        Some((before, rest)) if rest.len() >= 64 => {
            format!("{before}sha256:[digest]{}", &rest[64..])
        }
        _ => line.to_owned(),
    }
}
