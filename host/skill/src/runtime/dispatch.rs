//! Selects the program that runs a file: by its first line, then by its extension. Ignores the
//! executable bit, which archives and file systems lose.

use super::javascript::{self, RUNTIMES};
use super::shebang::shebang;
use skillhost_policy::program_name;

pub use super::shebang::HEAD_BYTES;

/// Whether and how a file of a skill runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileKind {
    /// A script that the sandbox can run.
    Script(Interpreter),
    /// A script in an unsupported language.
    UnsupportedScript {
        /// The language, or the program in its first line.
        language: String,
    },
    /// Not a script.
    Other,
}

/// The interpreter of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The command of the built-in program: `python3`, `bash`, `sh` or `node`.
    pub command: String,
    /// The arguments before the script.
    pub args: Vec<String>,
}

/// Classifies a file by its path and the start of its content.
pub fn classify(path: &str, head: &[u8]) -> FileKind {
    if let Some((program, args)) = shebang(head) {
        return by_program(&program, args);
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((_, extension)) = name.rsplit_once('.') else { return FileKind::Other };
    if let Some(command) = program_name::script_interpreter(name) {
        return script(command, Vec::new());
    }
    let extension = extension.to_ascii_lowercase();
    let language =
        LANGUAGES.iter().find(|(_, extensions, _)| extensions.contains(&extension.as_str()));
    language.map_or(FileKind::Other, |(language, ..)| unsupported(language))
}

fn by_program(program: &str, args: Vec<String>) -> FileKind {
    // `uv run --script` and the like create an environment first. The sandbox already has one.
    if matches!(program, "uv" | "uvx" | "pipx") {
        return script("python3", Vec::new());
    }
    match node_options(program, &args) {
        Some(args) => return script("node", args),
        None if RUNTIMES.contains(&program) => {
            let command = args.first().map_or("", String::as_str);
            return unsupported(format!("{program} {command}").trim_end());
        }
        None => {}
    }
    match program_name::interpreter(program) {
        Some(command) => script(command, args),
        None => unsupported(
            LANGUAGES
                .iter()
                .find(|(_, _, programs)| programs.contains(&program))
                .map_or(program, |(language, ..)| language),
        ),
    }
}

/// Returns the options of `node` for a first line that names another JavaScript tool (`deno run -A`,
/// `npx tsx`), and `None` for other programs, or if the tool would not run the file with `node`.
fn node_options(program: &str, args: &[String]) -> Option<Vec<String>> {
    /// Stands for the path of the script, which follows the first line.
    const SCRIPT: &str = "./script.ts";
    let line = [args, &[SCRIPT.to_owned()]].concat();
    let mut options = javascript::node_arguments(program, &line)?.ok()?;
    let is_run = options.pop().is_some_and(|last| last == SCRIPT)
        && options.iter().all(|option| *option != javascript::NPX && *option != javascript::NPM);
    is_run.then_some(options)
}

fn script(command: &str, args: Vec<String>) -> FileKind {
    FileKind::Script(Interpreter { command: command.to_owned(), args })
}

fn unsupported(language: &str) -> FileKind {
    FileKind::UnsupportedScript { language: language.to_owned() }
}

/// The unsupported languages, with their file extensions and interpreters.
const LANGUAGES: [(&str, &[&str], &[&str]); 12] = [
    // Runs of these packages have globals of their own.
    ("JavaScript with a package", &[], &["npx", "pnpx", "bunx", "zx"]),
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

    /// Formats a kind, such as `bash -e`, `unsupported: Ruby` or `-`.
    fn kind(path: &str, head: &str) -> String {
        match classify(path, head.as_bytes()) {
            FileKind::Script(Interpreter { command, args }) => {
                [vec![command], args].concat().join(" ")
            }
            FileKind::UnsupportedScript { language } => format!("unsupported: {language}"),
            FileKind::Other => "-".into(),
        }
    }

    #[test]
    fn first_line_takes_precedence_over_the_extension() {
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
            ("x.py", "#!/usr/bin/python2.7\n", "unsupported: Python 2"),
            ("x.sh", "#!/usr/bin/env zsh\n", "unsupported: zsh"),
            ("x.js", "", "node"),
            ("x.CJS", "", "node"),
            ("x.mjs", "import 'fs'", "node"),
            ("x.ts", "", "node"),
            ("x.tsx", "", "node"),
            ("x", "#!/usr/bin/env node\n", "node"),
            ("x", "#!/usr/bin/nodejs\n", "node"),
            (
                "x.js",
                "#!/usr/bin/env -S node --no-warnings -r ./a.js\n",
                "node --no-warnings -r ./a.js",
            ),
            ("x.ts", "#!/usr/bin/env -S npx tsx\n", "node"),
            ("x.ts", "#!/usr/bin/env -S npx -y ts-node --esm\n", "node"),
            ("x.ts", "#!/usr/bin/env bun\n", "node"),
            ("x", "#!/usr/bin/env -S bun run\n", "node"),
            (
                "x.ts",
                "#!/usr/bin/env -S deno run --allow-net --env-file=.env\n",
                "node --env-file=.env",
            ),
            ("x.ts", "#!/usr/bin/env -S deno run -A --\n", "node"),
            ("x", "#!/usr/bin/env tsx\n", "node"),
            ("x.ts", "#!/usr/bin/env -S deno test -A\n", "unsupported: deno test"),
            ("x.ts", "#!/usr/bin/env -S tsx watch\n", "unsupported: tsx watch"),
            ("x.mjs", "#!/usr/bin/env zx\n", "unsupported: JavaScript with a package"),
            ("x.mjs", "#!/usr/bin/env -S npx zx\n", "unsupported: JavaScript with a package"),
            ("x.rb", "", "unsupported: Ruby"),
            ("x.sh", "#!/usr/bin/osascript\n", "unsupported: AppleScript"),
            ("x", "#!/opt/own/thing\n", "unsupported: thing"),
            ("README.md", "# a", "-"),
            ("data.json", "{}", "-"),
            ("LICENSE", "MIT", "-"),
            ("dir.py/LICENSE", "MIT", "-"),
        ] {
            assert_eq!(kind(path, head), expected, "{path} {head:?}");
        }
    }
}
