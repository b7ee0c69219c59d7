//! The command line as a user meets it: the real binary, in folders of its own, with a home of its
//! own.
//!
//! The guests are `tests/guests/*.wat`; each is a skill of the same name whose component it is.
//! What else the commands meet is in `tests/cases/cli/setup`, copied over them.

mod bench;
mod completions;
mod help;
mod json;
mod man;
mod mounts;
mod permission_keys;
mod signals;
mod terminal;
mod transcripts;
mod verbosity;
mod watch;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

pub use crate::support::{copy, ends, guest, pinned, repository, skipped, text};

use crate::support::{GUESTS, files, stem};

/// A user's place: a home, and a folder to work in that holds the skills.
pub struct User {
    root: TempDir,
}

/// The cache folder of all tests, so that each component is compiled once.
pub const CACHE: &str = env!("CARGO_TARGET_TMPDIR");

/// Makes a skill of a guest.
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

    /// The records of the audit log in its standard place.
    pub fn records(&self) -> Vec<serde_json::Value> {
        ends(
            &std::fs::read_to_string(self.home().join(".local/state/skillhost/audit.jsonl"))
                .unwrap_or_default(),
        )
    }

    /// A command in this user's environment, and nothing else's.
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

    /// A command of this user's, who is the operator.
    pub fn skillhost(&self, args: &[&str]) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_skillhost"));
        if args
            .first()
            .is_some_and(|verb| matches!(*verb, "approve" | "permissions" | "key" | "trust"))
        {
            command.env("SKILLHOST_OPERATOR_TOKEN", self.operator_token());
        }
        command.args(args).output().unwrap()
    }

    /// The token of this user's state folder.
    pub fn operator_token(&self) -> String {
        let file = self.home().join(".local/state/skillhost/operator.token");
        if !file.exists() {
            // What is refused makes it.
            let refused = self
                .command(env!("CARGO_BIN_EXE_skillhost"))
                .args(["approve", "1"])
                .output()
                .unwrap();
            assert_eq!(refused.status.code(), Some(77), "{refused:?}");
        }
        std::fs::read_to_string(file).unwrap()
    }

    /// What a text says, with what differs from run to run and place to place named instead.
    pub fn normal(&self, text: &str) -> String {
        let root = self.root.path().canonicalize().unwrap();
        let text = text.replace(&root.join("work").display().to_string(), "[work]");
        let text = text.replace(&root.join("home").display().to_string(), "[home]");
        let text = text.replace(&root.join("tmp").display().to_string(), "[tmp]");
        let text = text.replace(&root.join("programs").display().to_string(), "[programs]");
        let text = text.replace(CACHE, "[cache]");
        text.split_inclusive('\n').map(unpadded).map(|line| measured(&line)).collect()
    }

    /// A folder of stand-ins for the built-in programs, which print their argv.
    pub fn stand_ins(&self) -> PathBuf {
        let folder = self.root.path().join("programs");
        crate::programs::stand_ins(&folder);
        folder
    }

    /// What is left of scratch folders: nothing, if all went well.
    pub fn scratch(&self) -> Vec<PathBuf> {
        files(&self.root.path().join("tmp"))
    }
}

/// A table's line with a place in it, without the padding that the place's length decides.
fn unpadded(line: &str) -> String {
    match line.strip_suffix("│\n") {
        Some(cells) if cells.contains("[work]") => format!("{} │\n", cells.trim_end()),
        _ => line.to_owned(),
    }
}

/// A line of JSON that tells a measured value, without it.
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
