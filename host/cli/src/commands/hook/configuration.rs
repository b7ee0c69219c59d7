//! Checks that Claude Code blocks a command if the hook fails: the settings that start it say so,
//! and the client is recent enough to know that setting.
//!
//! Otherwise the client would run the command natively after a timeout or a crash, and nobody would
//! notice.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use skillhost_policy::diagnostic::printable;

use crate::error::CliError;

/// The first version of Claude Code that knows `onFailure`.
const FIRST_VERSION: [u64; 3] = [2, 1, 295];

/// The most bytes of a file of settings.
const LARGEST: u64 = 16 << 20;

/// The settings of an organization.
const MANAGED: &str = "/etc/claude-code/managed-settings.json";

/// Checks the client and every file of settings that may start this hook.
pub(super) fn check(named: Option<&Path>, home: &Path, cwd: &Path) -> Result<(), CliError> {
    check_version()?;
    let mut is_started = false;
    for file in files(named, home, cwd) {
        let Some(settings) = read(&file)? else { continue };
        for handler in handlers(&settings).filter(|handler| is_this_hook(handler)) {
            if !blocks(handler) {
                let message = format!(
                    "{} starts this hook so that a command runs if the hook fails",
                    printable(&file.display().to_string())
                );
                return Err(CliError::invalid(message)
                    .fix("add \"onFailure\": \"block\" to the hook, without \"async\""));
            }
            is_started = true;
        }
    }
    if is_started {
        return Ok(());
    }
    let message = "no settings of Claude Code were found that start this hook, so it is unknown whether a command runs if the hook fails";
    Err(CliError::invalid(message).fix("name the file: --settings FILE"))
}

fn variable(name: &str) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let value = std::env::var_os(name);
    value.filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The folder of the user's settings and skills.
pub(super) fn user_folder(home: &Path) -> PathBuf {
    variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude"))
}

/// The project's folder, as the client names it.
pub(super) fn project_folder() -> Option<PathBuf> {
    variable("CLAUDE_PROJECT_DIR")
}

fn files(named: Option<&Path>, home: &Path, cwd: &Path) -> Vec<PathBuf> {
    // Claude Code sets this for the hooks of a plugin only.
    if let Some(plugin) = variable("CLAUDE_PLUGIN_ROOT") {
        return vec![plugin.join("hooks/hooks.json")];
    }
    let project = project_folder().unwrap_or_else(|| cwd.to_owned());
    let mut files = vec![
        user_folder(home).join("settings.json"),
        project.join(".claude/settings.json"),
        project.join(".claude/settings.local.json"),
        PathBuf::from(MANAGED),
    ];
    files.extend(named.map(Path::to_owned));
    files
}

/// Reads a file of settings; `None` if it does not exist.
fn read(file: &Path) -> Result<Option<Value>, CliError> {
    let io = |error: std::io::Error| CliError::io(format_args!("read {}", file.display()), error);
    #[expect(clippy::disallowed_methods, reason = "the client's own settings")]
    let opened = match std::fs::File::open(file) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened.map_err(io)?,
    };
    let mut text = String::new();
    opened.take(LARGEST).read_to_string(&mut text).map_err(io)?;
    serde_json::from_str(&text).map(Some).map_err(|error| {
        CliError::invalid(format!("{} is broken: {error}", printable(&file.display().to_string())))
    })
}

/// Returns the handlers that run before a tool.
fn handlers(settings: &Value) -> impl Iterator<Item = &Value> {
    let groups = settings["hooks"]["PreToolUse"].as_array().into_iter().flatten();
    groups.flat_map(|group| group["hooks"].as_array().into_iter().flatten())
}

/// Whether a handler starts `skillhost hook claude-code`, directly or through a shell.
fn is_this_hook(handler: &Value) -> bool {
    let mut line = handler["command"].as_str().unwrap_or_default().to_owned();
    for arg in handler["args"].as_array().into_iter().flatten() {
        line.push(' ');
        line.push_str(arg.as_str().unwrap_or_default());
    }
    line.contains("hook claude-code")
}

fn blocks(handler: &Value) -> bool {
    let is_set = |key: &str| handler[key].as_bool() == Some(true);
    handler["onFailure"] == "block" && !is_set("async") && !is_set("asyncRewake")
}

/// Refuses a version of the client that does not know `onFailure`. A version that cannot be found out
/// is accepted.
fn check_version() -> Result<(), CliError> {
    let [major, minor, patch] = FIRST_VERSION;
    let needs = format!("needs Claude Code {major}.{minor}.{patch} or later");
    let refused = |found: String| {
        Err(CliError::invalid(format!(
            "the hook {needs}, which blocks a command if its hook fails; {found}"
        ))
        .fix("update Claude Code: claude update"))
    };
    // Every version that knows `onFailure` sets this variable for hooks.
    let process = variable("CLAUDE_PID").and_then(|id| id.to_str()?.parse::<u32>().ok());
    let Some(process) = process else {
        return refused("$CLAUDE_PID is not set, so it is older".to_owned());
    };
    match version_of(process) {
        Some(found) if found < FIRST_VERSION => {
            let [major, minor, patch] = found;
            refused(format!("this is {major}.{minor}.{patch}"))
        }
        _ => Ok(()),
    }
}

/// Finds the version of a running Claude Code by where its executable or its script lies: in a file
/// named after the version, or in a package with a `package.json`.
fn version_of(process: u32) -> Option<[u64; 3]> {
    let executable = PathBuf::from(format!("/proc/{process}/exe")).read_link().ok()?;
    if let Some(version) = executable.file_name().and_then(|name| parse(name.to_str()?)) {
        return Some(version);
    }
    let script = script_of(process);
    [Some(executable), script]
        .into_iter()
        .flatten()
        .find_map(|file| file.ancestors().skip(1).take(2).find_map(package_version))
}

/// Returns the script that an interpreter runs.
fn script_of(process: u32) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "the kernel describes processes in files")]
    let line = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let script = line.split(|byte| *byte == 0).nth(1)?;
    PathBuf::from(std::str::from_utf8(script).ok()?).canonicalize().ok()
}

fn package_version(folder: &Path) -> Option<[u64; 3]> {
    let package = read(&folder.join("package.json")).ok()??;
    let is_client = package["name"].as_str()?.contains("claude-code");
    parse(package["version"].as_str().filter(|_| is_client)?)
}

fn parse(version: &str) -> Option<[u64; 3]> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_handlers_that_block_are_accepted() {
        for (handler, expected) in [
            (r#"{"onFailure": "block"}"#, true),
            (r#"{"onFailure": "block", "async": false}"#, true),
            (r#"{"onFailure": "continue"}"#, false),
            (r#"{"onFailure": true}"#, false),
            (r#"{"onFailure": "block", "async": true}"#, false),
            (r#"{"onFailure": "block", "asyncRewake": true}"#, false),
            ("{}", false),
        ] {
            assert_eq!(blocks(&serde_json::from_str(handler).unwrap()), expected, "{handler}");
        }
    }

    #[test]
    fn versions_are_three_numbers() {
        assert_eq!(parse("2.1.295"), Some([2, 1, 295]));
        assert!([2, 1, 294] < FIRST_VERSION && [2, 2, 0] > FIRST_VERSION);
        for text in ["", "2.1", "2.1.x", "2.1.2.3", "node"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
