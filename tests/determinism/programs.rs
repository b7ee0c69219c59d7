//! The programs of `tests/cases/determinism`.

use std::path::{Path, PathBuf};

use super::RunResult;
use crate::cli::repository;

/// A program, and its expected end.
#[derive(Debug, Clone)]
pub struct Program {
    pub name: String,
    pub target: Target,
    /// The exit code: 0, unless a script has a comment `exit: N`.
    exit: i32,
    /// The limit `fuel`, if a script has a comment `fuel: N`.
    pub fuel: Option<u64>,
}

#[derive(Debug, Clone)]
pub enum Target {
    /// The name of a script of the skill `determinism`.
    Script(String),
    /// The arguments of the component `hostile`.
    Component(Vec<String>),
}

/// The folder of the cases.
pub fn folder() -> PathBuf {
    repository("tests/cases/determinism")
}

/// Returns all programs: scripts by name, then components.
pub fn all() -> Vec<Program> {
    let mut programs: Vec<Program> =
        files(&folder().join("scripts")).iter().map(|path| script(path)).collect();
    let components = std::fs::read_to_string(folder().join("components.txt")).unwrap();
    for line in components.lines().filter(|line| !line.starts_with('#')) {
        let (named, args) = line.split_once(": ").unwrap_or_else(|| panic!("no arguments: {line}"));
        let target = Target::Component(args.split(' ').map(str::to_owned).collect());
        let mut words = named.split(' ');
        let name = format!("component {}", words.next().unwrap());
        let exit = words.next().map_or(0, |exit| exit.parse().unwrap());
        programs.push(Program {
            name,
            target,
            exit,
            fuel: words.next().map(|fuel| fuel.parse().unwrap()),
        });
    }
    programs
}

fn script(path: &Path) -> Program {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let value_of = |key: &str| {
        let comments = text
            .lines()
            .filter_map(|line| line.strip_prefix("# ").or_else(|| line.strip_prefix("// ")));
        comments.filter_map(|line| line.strip_prefix(&format!("{key}: "))).next().map(str::to_owned)
    };
    let exit = value_of("exit").map_or(0, |code| code.parse().unwrap());
    Program {
        target: Target::Script(name.clone()),
        name,
        exit,
        fuel: value_of("fuel").map(|fuel| fuel.parse().unwrap()),
    }
}

impl Program {
    /// A generated script.
    pub fn generated(name: String) -> Program {
        Program { target: Target::Script(name.clone()), name, exit: 0, fuel: None }
    }

    /// Describes an unexpected end, or returns an empty text. A program that fails early would
    /// make any comparison pass.
    pub fn check(&self, result: &RunResult) -> String {
        let stderr = String::from_utf8_lossy(&result.stderr);
        if result.code != Some(self.exit) {
            return format!(
                "==> {} ended with {:?}, not {}: {stderr}\n\n",
                self.name, result.code, self.exit
            );
        }
        let fuel = result.record["usage"]["fuel"].as_u64();
        if result.stdout.is_empty() && result.stderr.is_empty() || fuel.is_none_or(|fuel| fuel == 0)
        {
            return format!("==> {} has no output or used no fuel: {fuel:?}\n\n", self.name);
        }
        if self.fuel.is_some() && self.fuel != fuel {
            return format!(
                "==> {} should use all of its fuel, {:?}, but used {fuel:?}\n\n",
                self.name, self.fuel
            );
        }
        String::new()
    }
}

/// Returns the paths of a folder's entries, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
