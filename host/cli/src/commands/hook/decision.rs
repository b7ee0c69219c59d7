//! Decides on one shell command: whether it runs a script of a known skill, mentions a skill in
//! another way, or has nothing to do with skills.

use std::path::{Component, Path, PathBuf};

use skillhost_compat::{SimpleCommand, parse_simple_command, quote_word};
use skillhost_policy::program_name::interpreter;
use skillhost_skill::runtime::javascript;

use super::known_skills::{KnownSkills, Place};
use super::{Args, rewrite};
use crate::context::Context;
use crate::error::CliError;

/// What the client does with a command.
#[derive(Debug)]
pub(super) enum Decision {
    /// It decides as without the hook.
    Pass,
    /// It does not run the command. Has the reason, for the agent.
    Deny(String),
    /// It runs another command instead.
    Run {
        line: String,
        /// Whether the policy and the approvals let the run start without a question.
        starts: bool,
        note: String,
    },
}

/// The language of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    /// That of bash and other POSIX shells.
    Posix,
    Other,
}

/// Commands that only print what they read, so they may name files of a skill.
const READERS: [&str; 8] = ["cat", "grep", "head", "ls", "pwd", "stat", "tail", "wc"];

/// Characters by which a word may be a command line or a pattern.
const SYNTAX: [char; 14] = [' ', '\t', '\n', '$', '`', '*', '?', '[', '{', '(', ';', '|', '&', '<'];

/// Decides on a command that the client would run in the folder `cwd`.
pub(super) fn decide(
    args: &Args,
    context: &Context,
    cwd: &Path,
    command: &str,
    language: Language,
) -> Result<Decision, CliError> {
    let home = context.places.home.to_str();
    let home = home.ok_or_else(|| CliError::invalid("the path of the home folder is not UTF-8"))?;
    let parsed = match language {
        Language::Posix => parse_simple_command(command, home),
        Language::Other => None,
    };
    let (parsed, base) = enter(cwd, parsed);
    // The project's skills are those of the current folder, here as in the run.
    std::env::set_current_dir(&base)
        .map_err(|error| CliError::io(format_args!("enter {}", base.display()), error))?;
    let known = KnownSkills::find(context, &args.skills, &[cwd, &base])?;
    let Some(simple) = parsed else {
        let mention = known.mention(&base, command, true);
        return Ok(mention.map_or(Decision::Pass, |place| unclear(&place)));
    };
    let is_of_skill = |word: &str| known.locate(&base, word).is_some();
    if let Some(start) = ScriptStart::of(&simple.words, is_of_skill)
        && let Some(place) = known.locate(&base, start.script)
    {
        return rewrite::rewrite(args, &known, &base, &simple, &start, &place);
    }
    if READERS.contains(&simple.words[0].as_str()) {
        return Ok(Decision::Pass);
    }
    let has_syntax = simple.words.iter().any(|word| word.contains(SYNTAX));
    let mention = known.locate(&base, ".").or_else(|| known.mention(&base, command, has_syntax));
    Ok(mention.map_or(Decision::Pass, |place| unknown_command(&place, &simple.words[0])))
}

/// Returns the folder in which the words of a command run. A command whose folder is not certain is
/// returned as none.
fn enter(cwd: &Path, parsed: Option<SimpleCommand>) -> (Option<SimpleCommand>, PathBuf) {
    let here = || cwd.to_owned();
    let Some(simple) = parsed else { return (None, here()) };
    match simple.folder.as_deref().map(|folder| entered(cwd, folder)) {
        None => (Some(simple), here()),
        Some(Some(folder)) => (Some(simple), folder),
        Some(None) => (None, here()),
    }
}

/// Returns the folder to which `cd` changes; `None` if it is missing, or if `..` after a link makes
/// shells disagree on it.
fn entered(cwd: &Path, folder: &str) -> Option<PathBuf> {
    let joined = cwd.join(folder);
    let mut logical = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::ParentDir => drop(logical.pop()),
            part => logical.push(part),
        }
    }
    let found = joined.canonicalize().ok().filter(|found| found.is_dir())?;
    (logical.canonicalize().ok()? == found).then_some(found)
}

/// A command line that starts a script.
pub(super) struct ScriptStart<'a> {
    /// The interpreter that the command names; `None` if the script is started by its path.
    pub(super) interpreter: Option<&'static str>,
    pub(super) script: &'a str,
    pub(super) args: &'a [String],
}

impl<'a> ScriptStart<'a> {
    /// Recognizes `./x.sh`, `python3 x.py`, `bash x.sh`, `uv run x.py`, `node x.js` and the commands
    /// of other JavaScript tools that mean the latter; `None` for anything else, also for options that
    /// change how the script runs.
    fn of(words: &'a [String], is_of_skill: impl Fn(&str) -> bool) -> Option<ScriptStart<'a>> {
        let (first, rest) = words.split_first()?;
        let name = first.rsplit('/').next().unwrap_or(first);
        if first.contains('/') && (interpreter(name).is_none() || is_of_skill(first)) {
            return Some(ScriptStart { interpreter: None, script: first, args: rest });
        }
        match name {
            "uv" => ScriptStart::of_uv(rest),
            name if javascript::is_tool(name) => ScriptStart::of_javascript_tool(name, rest),
            name => ScriptStart::after(interpreter(name)?, rest),
        }
    }

    fn of_uv(words: &'a [String]) -> Option<ScriptStart<'a>> {
        let rest = words.strip_prefix(&["run".to_owned()])?;
        // These only say where the packages come from; the sandbox has its own.
        let skipped = ["-q", "--quiet", "--no-project", "--no-sync", "-s", "--script"];
        let options = rest.iter().take_while(|word| skipped.contains(&word.as_str())).count();
        let rest = &rest[options..];
        match rest.split_first()? {
            (python, rest) if interpreter(python) == Some("python3") => {
                ScriptStart::after("python3", rest)
            }
            (script, _) if script.ends_with(".py") => ScriptStart::after("python3", rest),
            _ => None,
        }
    }

    /// `npx tsx x.ts` and the like. The arguments of the script are the last words of the command.
    fn of_javascript_tool(tool: &str, words: &'a [String]) -> Option<ScriptStart<'a>> {
        let node = javascript::node_arguments(tool, words)?.ok()?;
        let is_package =
            node.iter().any(|word| *word == javascript::NPM || *word == javascript::NPX);
        let script = words.len().checked_sub(node.len()).filter(|_| !is_package)?;
        (words[script..] == node).then(|| ScriptStart::after("node", &words[script..]))?
    }

    fn after(interpreter: &'static str, words: &'a [String]) -> Option<ScriptStart<'a>> {
        // None changes what a script computes.
        let skipped = match interpreter {
            "python3" => &["-u", "-B"][..],
            "node" => &["--no-warnings", "--experimental-strip-types"],
            _ => &[],
        };
        let options = words.iter().take_while(|word| skipped.contains(&word.as_str())).count();
        let (script, args) = words[options..].split_first()?;
        let is_script = !script.starts_with('-');
        is_script.then_some(ScriptStart { interpreter: Some(interpreter), script, args })
    }
}

/// Denies a command that cannot be parsed exactly.
fn unclear(place: &Place<'_>) -> Decision {
    let why = "and is more than one command with literal words, so what it runs is not certain";
    Decision::Deny(format!("{} {why}. {}", mentions(place), instead(place)))
}

/// Denies a command that is certain, but does not start a script in a known way.
fn unknown_command(place: &Place<'_>, program: &str) -> Decision {
    let why = format!("and {} is not known to run them in the sandbox", quote_word(program));
    Decision::Deny(format!("{} {why}. {}", mentions(place), instead(place)))
}

fn mentions(place: &Place<'_>) -> String {
    format!("skillhost: this command mentions files of the skill {}", quote_word(&place.skill.name))
}

/// What an agent should do instead.
pub(super) fn instead(place: &Place<'_>) -> String {
    let skill = quote_word(&place.skill.name);
    let script = match place.rest.to_str() {
        Some(rest) if place.is_script() => quote_word(rest),
        _ => "SCRIPT".to_owned(),
    };
    format!(
        "Run one of its scripts by itself: `skillhost run {skill} {script} --workspace . -- ARGS`. For pipes and several commands: `skillhost run {skill} --workspace . --command 'python3 {script} ARGS | head'`. To read its files, use the Read tool, or cat, ls or grep by itself."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats what a command line starts: the interpreter or `-`, the script and its arguments.
    fn start(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let is_of_skill = |word: &str| word.starts_with("skill/");
        match ScriptStart::of(&words, is_of_skill) {
            Some(start) => {
                let interpreter = start.interpreter.unwrap_or("-");
                [&[interpreter.to_owned(), start.script.to_owned()], start.args].concat().join(" ")
            }
            None => "none".to_owned(),
        }
    }

    #[test]
    fn known_ways_to_start_a_script_are_recognized() {
        for (line, expected) in [
            ("python3 a.py x -y", "python3 a.py x -y"),
            ("/usr/bin/python3.12 -u a.py", "python3 a.py"),
            ("python -B -u a.py", "python3 a.py"),
            ("bash a.sh x", "bash a.sh x"),
            ("sh a.sh", "sh a.sh"),
            ("./a.sh x", "- ./a.sh x"),
            ("skill/bin/python3 x", "- skill/bin/python3 x"),
            ("uv run a.py x", "python3 a.py x"),
            ("uv run --quiet --script a.py", "python3 a.py"),
            ("uv run python -u a.py x", "python3 a.py x"),
            ("node a.js x", "node a.js x"),
            ("nodejs --no-warnings a.mjs -e", "node a.mjs -e"),
            ("npx -y tsx a.ts x", "node a.ts x"),
            ("bun run a.ts", "node a.ts"),
            ("deno run --allow-read a.ts x", "node a.ts x"),
            ("ts-node a.ts", "node a.ts"),
        ] {
            assert_eq!(start(line), expected, "{line}");
        }
    }

    #[test]
    fn options_that_change_the_run_are_not() {
        for line in [
            "python3",
            "python3 -c x",
            "python3 -m a",
            "python3 -i a.py",
            "python3 -",
            "bash -x a.sh",
            "bash -c a",
            "uv a.py",
            "uv run",
            "uv run --with x a.py",
            "uv run a",
            "uvx a.py",
            "node",
            "node -e 1",
            "node -r ./b.js a.js",
            "node --check a.js",
            "npm run a",
            "npx a b",
            "npx",
            "bun run build",
            "deno eval 1",
            "tsx --import ./b.mjs a.ts",
            "time python3 a.py",
            "env python3 a.py",
            "a",
        ] {
            assert_eq!(start(line), "none", "{line}");
        }
    }
}
