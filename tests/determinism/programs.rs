//! The programs of `tests/cases/determinism`.

use std::path::{Path, PathBuf};

use super::Came;
use crate::cli::repository;

/// A program, and how it ends.
#[derive(Debug, Clone)]
pub struct Program {
    pub name: String,
    pub runs: Runs,
    /// The exit code, 0 where nothing is said: `# exit: N` in a script.
    exit: i32,
    /// Its limit, where it has one of its own: `# fuel: N`.
    pub fuel: Option<u64>,
}

#[derive(Debug, Clone)]
pub enum Runs {
    /// A script of the skill `determinism`, by its name.
    Script(String),
    /// The component `hostile` with these arguments.
    Component(Vec<String>),
}

/// The folder of the cases.
pub fn folder() -> PathBuf {
    repository("tests/cases/determinism")
}

/// All of them, by name.
pub fn all() -> Vec<Program> {
    let mut programs: Vec<Program> =
        files(&folder().join("scripts")).iter().map(|path| script(path)).collect();
    let components = std::fs::read_to_string(folder().join("components.txt")).unwrap();
    for line in components.lines().filter(|line| !line.starts_with('#')) {
        let (named, args) = line.split_once(": ").unwrap_or_else(|| panic!("no arguments: {line}"));
        let runs = Runs::Component(args.split(' ').map(str::to_owned).collect());
        let mut words = named.split(' ');
        let name = format!("component {}", words.next().unwrap());
        let exit = words.next().map_or(0, |exit| exit.parse().unwrap());
        programs.push(Program {
            name,
            runs,
            exit,
            fuel: words.next().map(|fuel| fuel.parse().unwrap()),
        });
    }
    programs
}

fn script(path: &Path) -> Program {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let said = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(&format!("# {key}: ")).map(str::to_owned))
    };
    let exit = said("exit").map_or(0, |code| code.parse().unwrap());
    Program {
        runs: Runs::Script(name.clone()),
        name,
        exit,
        fuel: said("fuel").map(|fuel| fuel.parse().unwrap()),
    }
}

impl Program {
    /// A script that was made up.
    pub fn made(name: String) -> Program {
        Program { runs: Runs::Script(name.clone()), name, exit: 0, fuel: None }
    }

    /// What is wrong with what it came to by itself: one that failed early would tell nothing.
    pub fn check(&self, came: &Came) -> String {
        let stderr = String::from_utf8_lossy(&came.stderr);
        if came.code != Some(self.exit) {
            return format!(
                "==> {} ended with {:?}, not {}: {stderr}\n\n",
                self.name, came.code, self.exit
            );
        }
        let fuel = came.record["usage"]["fuel"].as_u64();
        if came.stdout.is_empty() && came.stderr.is_empty() || fuel.is_none_or(|fuel| fuel == 0) {
            return format!("==> {} says nothing, or burns nothing: {fuel:?}\n\n", self.name);
        }
        if self.fuel.is_some() && self.fuel != fuel {
            return format!(
                "==> {} was to burn all of its fuel, {:?}, and has burnt {fuel:?}\n\n",
                self.name, self.fuel
            );
        }
        String::new()
    }
}

/// The files of a folder, by name.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
