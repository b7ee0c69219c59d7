//! Resolves the command line of a child program to a component and its arguments.
//!
//! - The first word is a command (`python3`, `/usr/bin/bash`, a component of the skill), or else the
//!   path of a script, which `dispatch` classifies.
//! - If a built-in program gets the path of a script that does not exist, the skill's file of that
//!   path is used instead: agents run `python3 scripts/x.py` in the folder of the project.

use super::built_in::ProgramError;
use super::dispatch::{FileKind, Interpreter};
use super::javascript::{CODE, takes_value, typescript_of};
use super::scripts::path_in_skill;
use super::{DeniedFile, EntryPoint, Program, Programs};
use crate::runtime;
use skillhost_policy::program_name::interpreter;

/// The most words of a command line of `node` that are looked up as files, while files are denied. The
/// arguments of a script do not count.
const WORDS_MAX: usize = 10_000;

/// The guest path of the skill.
pub const SKILL_MOUNT: &str = "/skill";

impl Programs {
    /// Returns the program that a command line starts in the folder `cwd`. `look` returns the start
    /// of the file at an absolute guest path, if it exists.
    ///
    /// # Errors
    /// There is no such program, or it is invalid or missing.
    pub fn resolve_command(
        &self,
        argv: &[String],
        cwd: &str,
        look: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Result<Program, ProgramError> {
        let Some((command, args)) = argv.split_first() else {
            return Err(not_found("the command is empty".into()));
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
            let own = self.skill_commands();
            let has = if own.is_empty() {
                String::new()
            } else {
                format!("; the skill provides: {}", own.join(", "))
            };
            return Err(not_found(format!("no program `{command}` in the sandbox{has}")));
        };
        let Interpreter { command: runs, args: before } = match self.classify(&path, &head) {
            FileKind::Script(interpreter) => interpreter,
            FileKind::UnsupportedScript { language } => {
                return Err(not_found(format!(
                    "`{command}` is a {language} script, which the sandbox does not support"
                )));
            }
            FileKind::Other => {
                return Err(not_found(format!("`{command}` is not a supported script")));
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
            None => Err(not_found(format!(
                "`{command}` is a script for `{runs}`, which is not available"
            ))),
        }
    }

    /// Returns the denied file of the skill that a program would run, if any. A symlink to the file
    /// or a copy of it is the same program. `options` are more arguments before its own, such as those
    /// in the environment. `look` returns at most the given number of bytes of the file at an absolute
    /// guest path.
    pub fn find_denied_file(
        &self,
        program: &Program,
        options: &[String],
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
                _ if is_node(&program.name) => {
                    let words = || node_files(options).chain(node_files(&program.args));
                    // Too many to look for: it counts as denied.
                    words().nth(WORDS_MAX).is_some()
                        || words().any(|word| spellings(word).iter().any(is_file))
                }
                Some(at) => is_file(&program.args[at]),
                // It is unknown which argument of a custom runtime is the script.
                None => self.is_custom(&program.name) && program.args.iter().any(is_file),
            };
            program.component.digest == file.digest || is_script()
        };
        self.denied_files().iter().find(is_run)
    }

    /// Returns the guest path of the skill's file that a text refers to.
    fn own_file(&self, text: &str) -> Option<String> {
        let skill = self.skill();
        path_in_skill(&[&skill.name, &skill.manifest.name], text)
            .map(|path| format!("{SKILL_MOUNT}/{path}"))
    }
}

fn not_found(message: String) -> ProgramError {
    ProgramError { message, fix: None }
}

/// Makes a guest path absolute.
fn absolute(cwd: &str, path: &str) -> String {
    let path = path.trim_start_matches("./");
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{}/{path}", cwd.trim_end_matches('/'))
    }
}

/// Returns the index of the argument of an interpreter that is a script file; `None` if it reads its
/// program from elsewhere.
fn script_argument(command: &str, args: &[String]) -> Option<usize> {
    let name = command.rsplit('/').next().unwrap_or(command);
    if is_node(command) {
        return node_script(args);
    }
    // Options with a value, options with an attached value, and options with an inline program.
    let (with_value, values, inline): (&[&str], &[char], &[char]) = match interpreter(name)? {
        "python3" => (&["-W", "-X", "--check-hash-based-pycs"], &['W', 'X'], &['c', 'm']),
        _ => (&["-o", "-O", "+o", "+O", "--rcfile", "--init-file"], &[], &['c', 's']),
    };
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        // In Python, the rest of the word after `-W` or `-X` is the value of the option.
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

/// Checks whether a command is `node`, under any of its names.
pub(super) fn is_node(command: &str) -> bool {
    interpreter(command.rsplit('/').next().unwrap_or(command)) == Some("node")
}

/// Returns the index of the script among the arguments of `node`.
fn node_script(args: &[String]) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let name = word.split('=').next().unwrap_or(word);
        match word.as_str() {
            "-" => return None,
            "--" => return (at + 1 < args.len()).then_some(at + 1),
            // The program is the value, or a script of package.json.
            _ if CODE.contains(&name) || name == "--run" => return None,
            _ if takes_value(word) => at += 1,
            _ if word.starts_with('-') => {}
            _ => return Some(at),
        }
        at += 1;
    }
    None
}

/// Returns the words of a command line of `node` that may be a file that runs: the script, and the
/// values of the options before it. If the program is not a file, all words count, so that nothing
/// depends on how the runtime reads an option.
fn node_files(args: &[String]) -> impl Iterator<Item = &str> {
    let end = node_script(args).map_or(args.len(), |at| at + 1);
    args[..end].iter().flat_map(|word| {
        let value = word.split_once('=').filter(|_| word.starts_with('-'));
        std::iter::once(word.as_str()).chain(value.map(|(_, value)| value))
    })
}

/// Returns the paths that `node` tries for a module or script: `node x` also runs `x.js`, `x.ts` and
/// `x/index.js`, `node x.js` also `x.ts`, and `--import` takes URLs.
fn spellings(path: &str) -> Vec<String> {
    const ENDS: [&str; 8] = ["", ".js", ".cjs", ".mjs", ".ts", ".tsx", ".mts", ".cts"];
    let path = path.strip_prefix("file://").map_or_else(|| path.to_owned(), percent_decoded);
    let inside = format!("{}/index", path.trim_end_matches('/'));
    let ends = ENDS.iter().map(|end| format!("{path}{end}"));
    let inside = ENDS[1..].iter().map(|end| format!("{inside}{end}"));
    ends.chain(inside).chain(typescript_of(&path)).collect()
}

/// Decodes `%41` in the path of a URL, without its query and fragment.
fn percent_decoded(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match decoded.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_is_found_among_interpreter_arguments() {
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
            ("node x.js a", "x.js"),
            ("nodejs --no-warnings --max-old-space-size=100 x.js -e 1", "x.js"),
            ("/usr/bin/node -r ./a.js --import ./b.mjs x.js", "x.js"),
            ("node --require=./a.js x.js", "x.js"),
            ("node --env-file .env x.js", "x.js"),
            ("node --check x.js", "x.js"),
            ("node -- x.js", "x.js"),
            ("node -e 1 x.js", "-"),
            ("node --eval=1 x.js", "-"),
            ("node -p 1 x.js", "-"),
            ("node --run build", "-"),
            ("node -", "-"),
            ("node", "-"),
            ("jq . x.json", "-"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found = script_argument(&words[0], &words[1..]).map(|at| words[at + 1].as_str());
            assert_eq!(found.unwrap_or("-"), expected, "{line}");
        }
    }

    #[test]
    fn files_that_node_may_run_are_found_in_all_spellings() {
        let found = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            node_files(&words).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found("-r a --import=b x.js -r d"), "-r a --import=b b x.js");
        assert_eq!(found("--title t --odd=o x.js y"), "--title t --odd=o o x.js");
        assert_eq!(found("-r a -e 1 x.js"), "-r a -e 1 x.js");
        assert!(spellings("./x").contains(&"./x.js".to_owned()));
        assert!(spellings("./x").contains(&"./x".to_owned()));
        assert!(spellings("./x").contains(&"./x.mts".to_owned()));
        assert!(spellings("./x/").contains(&"./x/index.ts".to_owned()));
        assert!(spellings("./x.js").contains(&"./x.ts".to_owned()));
        assert!(spellings("file:///skill/a%20b.mjs?x").contains(&"/skill/a b.mjs".to_owned()));
        assert_eq!(percent_decoded("%é%4"), "%é%4");
    }
}
