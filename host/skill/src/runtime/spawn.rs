//! What a command line means when a program starts another: which component, with which arguments.
//!
//! - The first word is a command (`python3`, `/usr/bin/bash`, a component of the skill), else the
//!   path of a script, which runs by the rules of `dispatch`.
//! - Where a built-in program is to run a script file that is not where its path says, the skill's
//!   own of that path is meant: agents run `python3 scripts/x.py` in the project's folder.

use super::built_in::ProgramError;
use super::dispatch::{FileKind, Interpreter};
use super::scripts::path_in_skill;
use super::{DeniedFile, EntryPoint, Program, Programs};
use crate::runtime;
use skillhost_policy::program_name::interpreter;

/// Where guests see the skill.
pub const SKILL_MOUNT: &str = "/skill";

impl Programs {
    /// The program that an argv starts in the folder `cwd`. `look` gives the start of the file at
    /// an absolute guest path, where there is one.
    ///
    /// # Errors
    /// There is no such program; or it is one that is broken or missing.
    pub fn resolve_command(
        &self,
        argv: &[String],
        cwd: &str,
        look: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Result<Program, ProgramError> {
        let Some((command, args)) = argv.split_first() else {
            return Err(not_found("an empty command".into()));
        };
        if let Some(component) = self.find(command)? {
            let mut args = args.to_vec();
            if component.built_in().is_some()
                && let Some(at) = script_argument(command, &args)
                && look(&absolute(cwd, &args[at])).is_none()
                && let Some(own) = self.own_file(&args[at])
                && look(&own).is_some()
            {
                args[at] = own;
            }
            return Ok(Program {
                name: command.clone(),
                component,
                entry: EntryPoint::Command,
                args,
                script: None,
            });
        }
        let here = Some(absolute(cwd, command)).filter(|_| command.contains('/'));
        let script =
            here.into_iter().chain(self.own_file(command).filter(|_| command.contains('/')));
        let Some((path, head)) =
            script.filter_map(|path| look(&path).map(|head| (path, head))).next()
        else {
            let own = self.brought();
            let has = if own.is_empty() {
                String::new()
            } else {
                format!("; the skill has: {}", own.join(", "))
            };
            return Err(not_found(format!("no program `{command}` here{has}")));
        };
        let Interpreter { command: runs, args: before } = match self.classify(&path, &head) {
            FileKind::Script(interpreter) => interpreter,
            FileKind::UnsupportedScript { language } => {
                return Err(not_found(format!(
                    "`{command}` is a script for {language}, which does not run here"
                )));
            }
            FileKind::Other => {
                return Err(not_found(format!("`{command}` is no script that runs here")));
            }
        };
        match self.find(&runs)? {
            Some(component) => {
                let args = [&before[..], &[path], args].concat();
                Ok(Program {
                    name: runs,
                    component,
                    entry: EntryPoint::Command,
                    args,
                    script: None,
                })
            }
            None => {
                Err(not_found(format!("`{command}` is a script for `{runs}`, which is not here")))
            }
        }
    }

    /// The file of the skill that a program runs although a level denies it. `look` gives the start
    /// of the file at an absolute guest path, at most that many bytes: a link to the file, or a
    /// copy of it, is the same program.
    pub fn find_denied_file(
        &self,
        program: &Program,
        cwd: &str,
        look: impl Fn(&str, usize) -> Option<Vec<u8>>,
    ) -> Option<&DeniedFile> {
        let is_run = |file: &&DeniedFile| {
            let is_file = |argument: &String| {
                let path = absolute(cwd, argument);
                let is_there = || {
                    look(&path, file.size + 1)
                        .is_some_and(|bytes| runtime::digest(&bytes) == file.digest)
                };
                self.own_file(&path).is_some_and(|own| {
                    own.strip_prefix(SKILL_MOUNT) == Some(&format!("/{}", file.path))
                }) || is_there()
            };
            let is_script = || match script_argument(&program.name, &program.args) {
                Some(at) => is_file(&program.args[at]),
                // Nobody here knows which of its arguments is the script.
                None => self.is_custom(&program.name) && program.args.iter().any(is_file),
            };
            program.component.digest == file.digest || is_script()
        };
        self.denied_files().iter().find(is_run)
    }

    /// The skill's own file that a text names, as guests see it.
    fn own_file(&self, text: &str) -> Option<String> {
        let skill = self.skill();
        path_in_skill(&[&skill.name, &skill.manifest.name], text)
            .map(|path| format!("{SKILL_MOUNT}/{path}"))
    }
}

fn not_found(message: String) -> ProgramError {
    ProgramError { message, fix: None }
}

/// An absolute guest path.
fn absolute(cwd: &str, path: &str) -> String {
    let path = path.trim_start_matches("./");
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{}/{path}", cwd.trim_end_matches('/'))
    }
}

/// Which argument of an interpreter is the script's file; `None` where it reads its program from
/// elsewhere.
fn script_argument(command: &str, args: &[String]) -> Option<usize> {
    let name = command.rsplit('/').next().unwrap_or(command);
    // Options that take the next word; the letters that say that the program is in the arguments.
    let (with_value, values, inline): (&[&str], &[char], &[char]) = match interpreter(name)? {
        "python3" => (&["-W", "-X", "--check-hash-based-pycs"], &['W', 'X'], &['c', 'm']),
        _ => (&["-o", "-O", "+o", "+O", "--rcfile", "--init-file"], &[], &['c', 's']),
    };
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        // What follows Python's `-W` or `-X` in the same word is its value.
        let letters = letters.map(|letters| letters.split(values).next().unwrap_or(letters));
        match word.as_str() {
            "-" => return None,
            "--" => return (at + 1 < args.len()).then_some(at + 1),
            _ if with_value.contains(&word.as_str()) => at += 1,
            _ if letters.is_some_and(|letters| letters.contains(inline)) => return None,
            _ if word.starts_with(['-', '+']) => {}
            _ => return Some(at),
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_among_an_interpreters_arguments() {
        for (line, expected) in [
            ("python3 x.py a", "x.py"),
            ("python3 -u -X utf8 x.py -c", "x.py"),
            ("/usr/bin/python3.11 -W ignore x.py", "x.py"),
            ("python3 -Wonce -Ximporttime=c x.py", "x.py"),
            ("python3 -uc print() x.py", "-"),
            ("python3 -c print() x.py", "-"),
            ("python3 -m json.tool x.json", "-"),
            ("python3 -", "-"),
            ("python3", "-"),
            ("python3 -- x.py", "x.py"),
            ("bash x.sh -c", "x.sh"),
            ("bash -e -o pipefail x.sh", "x.sh"),
            ("bash -ec x.sh", "-"),
            ("sh --norc x.sh", "x.sh"),
            ("sh -s x.sh", "-"),
            ("jq . x.json", "-"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found = script_argument(&words[0], &words[1..]).map(|at| words[at + 1].as_str());
            assert_eq!(found.unwrap_or("-"), expected, "{line}");
        }
    }
}
