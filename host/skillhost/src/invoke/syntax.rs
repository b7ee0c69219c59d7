//! Checks the syntax of a skill's scripts with the runtimes that would run them. The scripts do not
//! run: a runtime that is granted nothing reads their text.
//!
//! Results are kept in the cache folder under a digest of the runtime and the text.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Runner;
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_sandbox::{self as sandbox, Io, Stdin};
use skillhost_skill::Skill;
use skillhost_skill::runtime::{Component, EntryPoint, Program, cache_quota, hex, scripts, stamp};

/// The most bytes of a script. A typical script of a public skill has 250 lines.
const SCRIPT_MAX: u64 = 256 << 10;
/// The most scripts of a skill that are checked.
const SCRIPTS_MAX: usize = 256;
/// Limits for checking one script, in bytes and milliseconds: enough for Python itself, and two
/// hundred times the script.
const MEMORY: u64 = 128 << 20;
const TIME: u64 = 2_000;
/// The most bytes of a runtime's message.
const MESSAGE_MAX: usize = 200;

/// Compiles standard input without running it, and prints the line, the column and the message of an
/// error.
const PYTHON: &str = "import sys, warnings
warnings.simplefilter('ignore')
try:
    compile(sys.stdin.buffer.read(), 'script', 'exec', dont_inherit=True)
except SyntaxError as error:
    print(error.lineno or 0, max(error.offset or 0, 0), error.msg, sep='\\n')
except (ValueError, RecursionError) as error:
    print(0, 0, error, sep='\\n')";

/// A script that its runtime cannot parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// The path in the skill.
    pub path: String,
    /// The 1-based line; 0 if the runtime names none.
    pub line: usize,
    /// The 1-based column in characters; 0 if the runtime names none, as bash does.
    pub column: usize,
    /// The runtime's message: a line of at most 200 bytes, in the words of Python, Node or bash.
    pub message: String,
    /// The text of the script, with invalid UTF-8 replaced.
    pub text: String,
}

/// What a runtime says about one script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Finding {
    line: usize,
    column: usize,
    message: String,
}

impl Runner {
    /// Returns the scripts of a skill that do not parse, by path. Leaves out a script that is too large,
    /// and one whose check does not end within its limits.
    pub async fn syntax_errors(&self, skill: &Skill) -> Vec<ScriptError> {
        let mut errors = Vec::new();
        let mut runtimes = Runtimes { runner: self, found: Vec::new() };
        for script in scripts::list(skill).into_iter().take(SCRIPTS_MAX) {
            let Some(interpreter) = script.run.ok() else { continue };
            let Some(runtime) = runtimes.find(&interpreter.command) else { continue };
            let is_typed = matches!(runtime.language, Language::JavaScript);
            let kind = Some(module_kind(&script.path)).filter(|_| is_typed);
            // JavaScript of web pages is for other tools.
            if !scripts::is_program(skill, &script.path) {
                continue;
            }
            let Ok(bytes) = skill.read(&script.path) else { continue };
            if bytes.len() as u64 > SCRIPT_MAX {
                continue;
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some(Finding { line, column, message }) =
                self.finding(skill, runtime, kind, bytes).await
            {
                errors.push(ScriptError { path: script.path, line, column, message, text });
            }
        }
        errors
    }

    async fn finding(
        &self,
        skill: &Skill,
        runtime: Runtime,
        kind: Option<&'static str>,
        text: Vec<u8>,
    ) -> Option<Finding> {
        let cache = stamp::open_cache_folder(&self.options.sandbox.cache).ok();
        let name = format!("{}.syntax", key(&runtime, kind, &text));
        if let Some(known) = cache.as_ref().and_then(|cache| stamp::read_json(cache, &name, 4096)) {
            return known;
        }
        let finding = self.parse(runtime, kind, text).await?;
        if let (Some(cache), Ok(folder)) = (cache, skill.folder_id())
            && let Ok(json) = serde_json::to_vec(&finding)
            && stamp::write_atomically(&cache, &name, &json).is_ok()
        {
            cache_quota::charge(&cache, &folder, &name, json.len() as u64);
            self.sandbox.note_growth();
        }
        finding
    }

    /// Runs a parser. Returns `None` if it does not end by itself, as at a limit.
    async fn parse(
        &self,
        runtime: Runtime,
        kind: Option<&'static str>,
        text: Vec<u8>,
    ) -> Option<Option<Finding>> {
        let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
        let (args, stdin) = match runtime.language {
            Language::Python => {
                (vec!["-I".to_owned(), "-c".to_owned(), PYTHON.to_owned()], Stdin::Bytes(text))
            }
            Language::JavaScript => {
                let kind = kind.into_iter().filter(|kind| !kind.is_empty());
                let options = ["--check".to_owned()].into_iter();
                let options = options.chain(kind.map(|kind| format!("--input-type={kind}")));
                (options.chain(["-".to_owned()]).collect(), Stdin::Bytes(text))
            }
            Language::Shell => {
                // A text with NUL or invalid UTF-8 cannot be an argument.
                let text = String::from_utf8(text).ok().filter(|text| !text.contains('\0'))?;
                (vec!["-n".to_owned(), "-c".to_owned(), text], Stdin::Empty)
            }
        };
        let program = Program {
            name: runtime.command,
            component: runtime.component,
            entry: EntryPoint::Command,
            args,
            script: None,
        };
        let limits = Limits { timeout_ms: TIME, memory: MEMORY, ..Limits::default() };
        let capabilities = Capabilities { limits, ..Capabilities::default() };
        let finished = sandbox::run_alone(
            &self.sandbox,
            &program,
            &self.options.scratch,
            Arc::new(capabilities),
            Io { stdin, ..Io::default() },
        )
        .await;
        let Outcome { status: Status::Exited { code }, stdout, stderr, .. } = finished.outcome
        else {
            return None;
        };
        Some(match runtime.language {
            Language::Python => python_finding(&stdout.text()),
            // The runtime reads a text as the body of a function, which has another line.
            Language::JavaScript => javascript_finding(&stderr.text())
                .filter(|_| code != 0)
                .map(|finding| Finding { line: finding.line.min(lines), ..finding }),
            Language::Shell if code == 0 => None,
            Language::Shell => Some(shell_finding(&stderr.text())),
        })
    }
}

/// The runtimes that have been looked up.
struct Runtimes<'a> {
    runner: &'a Runner,
    found: Vec<(String, Option<Runtime>)>,
}

#[derive(Clone)]
struct Runtime {
    command: String,
    language: Language,
    component: Component,
}

#[derive(Clone, Copy)]
enum Language {
    Python,
    JavaScript,
    Shell,
}

impl Runtimes<'_> {
    fn find(&mut self, command: &str) -> Option<Runtime> {
        if let Some((_, runtime)) = self.found.iter().find(|(name, _)| name == command) {
            return runtime.clone();
        }
        let language = match command {
            "python3" => Some(Language::Python),
            "node" => Some(Language::JavaScript),
            "bash" | "sh" => Some(Language::Shell),
            _ => None,
        };
        let component = || {
            let all = self.runner.built_ins().list().ok()?;
            let one = all
                .into_iter()
                .find(|one| one.description.programs.iter().any(|program| program == command))?;
            Arc::new(one).component().ok()
        };
        let runtime = language.and_then(|language| {
            Some(Runtime { command: command.to_owned(), language, component: component()? })
        });
        self.found.push((command.to_owned(), runtime.clone()));
        runtime
    }
}

/// Reads what [`PYTHON`] prints: nothing, or the line, the column and the message.
fn python_finding(stdout: &str) -> Option<Finding> {
    let (line, rest) = stdout.split_once('\n')?;
    let (column, message) = rest.split_once('\n')?;
    let (line, column) = (line.parse().ok()?, column.parse().ok()?);
    Some(Finding { line, column, message: short(message) })
}

/// Returns the value of `node --input-type` for a file; empty if its content decides.
fn module_kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).as_deref() {
        Some("mjs") => "module",
        Some("cjs") => "commonjs",
        Some("ts" | "mts") => "module-typescript",
        Some("cts") => "commonjs-typescript",
        // Values of our own runtime only.
        Some("jsx") => "jsx",
        Some("tsx") => "tsx",
        _ => "",
    }
}

/// Reads what `node --check -` prints: `[stdin]:LINE`, the line, a caret below the place, an empty line
/// and `SyntaxError: MESSAGE`, perhaps with a code in brackets. Returns `None` for any other failure.
fn javascript_finding(stderr: &str) -> Option<Finding> {
    let mut errors = stderr.lines().filter_map(|line| line.strip_prefix("SyntaxError"));
    let (_, message) = errors.find_map(|rest| rest.split_once(": "))?;
    let place = stderr.lines().next().and_then(|line| line.rsplit_once(':'));
    let line = place.and_then(|(_, line)| line.parse().ok()).unwrap_or(0);
    let carets = stderr.lines().nth(2).filter(|_| line > 0).unwrap_or_default();
    let is_caret_line = carets.contains('^') && carets.trim().bytes().all(|byte| byte == b'^');
    let column = if is_caret_line { carets.find('^').map_or(0, |at| at + 1) } else { 0 };
    Some(Finding { line, column, message: short(message) })
}

/// Reads the first line of `bash -n -c`: `bash: -c: line 3: MESSAGE`.
fn shell_finding(stderr: &str) -> Finding {
    let first = stderr.lines().next().unwrap_or_default();
    let numbered = first
        .split_once("line ")
        .and_then(|(_, rest)| rest.split_once(": "))
        .and_then(|(line, message)| Some((line.parse().ok()?, message)));
    let (line, message) = numbered.unwrap_or((0, first));
    Finding { line, column: 0, message: short(message) }
}

/// Returns the first line of a message, cut to [`MESSAGE_MAX`].
fn short(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line[..line.floor_char_boundary(MESSAGE_MAX)].to_owned()
}

fn key(runtime: &Runtime, kind: Option<&str>, text: &[u8]) -> String {
    let mut hash = Sha256::new();
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let kind = kind.unwrap_or_default().as_bytes();
    for part in [version, runtime.component.digest.as_bytes(), kind, text] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_runtimes_are_read() {
        let finding =
            |line, column, message: &str| Finding { line, column, message: message.to_owned() };
        for nothing in ["", "3", "3\n7", "odd\n7\ninvalid syntax\n"] {
            assert_eq!(python_finding(nothing), None, "{nothing}");
        }
        assert_eq!(python_finding("3\n7\ninvalid syntax\n"), Some(finding(3, 7, "invalid syntax")));
        assert_eq!(
            shell_finding("bash: -c: line 3: syntax error: unexpected end of file\n"),
            finding(3, 0, "syntax error: unexpected end of file")
        );
        assert_eq!(shell_finding("bash: odd"), finding(0, 0, "bash: odd"));
        assert_eq!(
            javascript_finding(
                "[stdin]:3\nconst x = ;\n          ^\n\nSyntaxError: Unexpected token ';'\n    at x (y:1:2)\n"
            ),
            Some(finding(3, 11, "Unexpected token ';'"))
        );
        assert_eq!(javascript_finding("SyntaxError [X]: a: b\n"), Some(finding(0, 0, "a: b")));
        assert_eq!(javascript_finding("node: bad option\n"), None);
        assert_eq!(short(&"é".repeat(200)).len(), 200);
    }
}
