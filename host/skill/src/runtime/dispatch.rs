//! Which program runs a file. Decided by its first line, then by its extension, never by the
//! executable bit, which is lost on the way through archives and file systems.

use super::shebang::shebang;
use skillhost_policy::program_name;

pub use super::shebang::HEAD;

/// What a file of a skill is to someone who wants to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A script that runs here.
    Script(Interpreter),
    /// A script in a language that does not run here.
    NotHere {
        /// The language, or the program that it asks for.
        language: String,
    },
    /// No script.
    Other,
}

/// What a script is started by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The built-in program's command: `python3`, `bash` or `sh`.
    pub command: String,
    /// Its arguments before the script.
    pub args: Vec<String>,
}

/// What a file is, by its path and the start of its content.
pub fn kind(path: &str, head: &[u8]) -> Kind {
    if let Some((program, args)) = shebang(head) {
        return by_program(&program, args);
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((_, extension)) = name.rsplit_once('.') else { return Kind::Other };
    if let Some(command) = program_name::script_interpreter(name) {
        return interpreter(command, Vec::new());
    }
    let extension = extension.to_ascii_lowercase();
    let language =
        LANGUAGES.iter().find(|(_, extensions, _)| extensions.contains(&extension.as_str()));
    language.map_or(Kind::Other, |(language, ..)| not_here(language))
}

/// The built-in command that a program's name stands for: `python3.11` is `python3`, any POSIX
/// shell is `sh`.
pub fn command(program: &str) -> Option<&'static str> {
    program_name::interpreter(program)
}

fn by_program(program: &str, args: Vec<String>) -> Kind {
    // `uv run --script` and its like make an environment first, which here is there already.
    if matches!(program, "uv" | "uvx" | "pipx") {
        return interpreter("python3", Vec::new());
    }
    match command(program) {
        Some(command) => interpreter(command, args),
        None => not_here(
            LANGUAGES
                .iter()
                .find(|(_, _, programs)| programs.contains(&program))
                .map_or(program, |(language, ..)| language),
        ),
    }
}

fn interpreter(command: &str, args: Vec<String>) -> Kind {
    Kind::Script(Interpreter { command: command.to_owned(), args })
}

fn not_here(language: &str) -> Kind {
    Kind::NotHere { language: language.to_owned() }
}

/// Languages of scripts that do not run here: extensions, and the programs that run them.
const LANGUAGES: [(&str, &[&str], &[&str]); 13] = [
    ("JavaScript", &["js", "mjs", "cjs", "jsx"], &["node", "nodejs", "bun", "deno", "npx", "zx"]),
    ("TypeScript", &["ts", "mts", "cts", "tsx"], &["tsx", "ts-node"]),
    ("Ruby", &["rb"], &["ruby"]),
    ("Perl", &["pl", "pm"], &["perl"]),
    ("PHP", &["php"], &["php"]),
    ("Lua", &["lua"], &["lua", "luajit"]),
    ("R", &["r"], &["Rscript"]),
    ("Go", &["go"], &["go"]),
    ("Swift", &["swift"], &["swift"]),
    ("PowerShell", &["ps1", "psm1"], &["pwsh", "powershell"]),
    ("batch", &["bat", "cmd"], &[]),
    ("AppleScript", &["applescript", "scpt"], &["osascript"]),
    ("Python 2", &[], &["python2", "python2.7"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// As `bash -e`, `not here: Ruby` or `-`.
    fn told(path: &str, head: &str) -> String {
        match kind(path, head.as_bytes()) {
            Kind::Script(Interpreter { command, args }) => [vec![command], args].concat().join(" "),
            Kind::NotHere { language } => format!("not here: {language}"),
            Kind::Other => "-".into(),
        }
    }

    #[test]
    fn the_first_line_decides_then_the_extension() {
        for (path, head, expected) in [
            ("scripts/x.py", "print()", "python3"),
            ("x.PY", "", "python3"),
            ("x.sh", "echo", "bash"),
            ("x.bash", "", "bash"),
            ("x.sh", "#!/usr/bin/env python3\n", "python3"),
            ("x.py", "#!/bin/bash -e\n", "bash -e"),
            ("x", "#!/bin/sh\n", "sh"),
            ("x", "#!/bin/dash\n", "sh"),
            ("x", "#!/usr/bin/env -S uv run --script\r\n", "python3"),
            ("x.py", "#!/usr/bin/env -S uv run --python 3.12 --script\n", "python3"),
            ("x", "#!/usr/bin/python3.9 -u\n", "python3 -u"),
            ("x", "#!/usr/bin/python -E\n", "python3 -E"),
            ("x.py", "#!/usr/bin/python2.7\n", "not here: Python 2"),
            ("x.sh", "#!/usr/bin/env zsh\n", "not here: zsh"),
            ("x.js", "", "not here: JavaScript"),
            ("x", "#!/usr/bin/env node\n", "not here: JavaScript"),
            ("x.ts", "#!/usr/bin/env -S npx tsx\n", "not here: JavaScript"),
            ("x.ts", "", "not here: TypeScript"),
            ("x.rb", "", "not here: Ruby"),
            ("x.sh", "#!/usr/bin/osascript\n", "not here: AppleScript"),
            ("x", "#!/opt/own/thing\n", "not here: thing"),
            ("README.md", "# a", "-"),
            ("data.json", "{}", "-"),
            ("LICENSE", "MIT", "-"),
            ("dir.py/LICENSE", "MIT", "-"),
        ] {
            assert_eq!(told(path, head), expected, "{path} {head:?}");
        }
    }

    #[test]
    fn names_that_stand_for_a_built_in_command() {
        for (program, expected) in [
            ("python", "python3"),
            ("python3", "python3"),
            ("python3.14", "python3"),
            ("python3x", "-"),
            ("python2", "-"),
            ("bash", "bash"),
            ("zsh", "-"),
            ("", "-"),
        ] {
            assert_eq!(command(program).unwrap_or("-"), expected, "{program}");
        }
    }
}
