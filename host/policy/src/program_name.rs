//! Program names: aliases of one program, and the interpreter of a script by its file name.

/// Returns the name that denials use for a command: without its folder, and the same for every alias
/// of a program.
pub fn canonical_name(command: &str) -> &str {
    let file = command.rsplit('/').next().unwrap_or(command);
    let file = file.strip_suffix(".wasm").unwrap_or(file);
    let name = interpreter(file).unwrap_or(file);
    ALIASES.iter().find(|(_, aliases)| aliases.contains(&name)).map_or(name, |(program, _)| program)
}

/// Returns the built-in command for a program name: `python3` for `python3.11`, `sh` for any POSIX
/// shell, `node` for any program that runs JavaScript or TypeScript files.
pub fn interpreter(program: &str) -> Option<&'static str> {
    let version =
        program.strip_prefix("python3").map(|rest| rest.strip_prefix('.').unwrap_or(rest));
    match program {
        "python" | "pypy3" => Some("python3"),
        "bash" => Some("bash"),
        "sh" | "dash" | "ash" => Some("sh"),
        "node" | "nodejs" | "bun" | "deno" | "tsx" | "ts-node" => Some("node"),
        _ if version.is_some_and(|v| v.bytes().all(|b| b.is_ascii_digit())) => Some("python3"),
        _ => None,
    }
}

/// Returns the built-in command that runs a script, by the extension of its name.
pub fn script_interpreter(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    match extension.to_ascii_lowercase().as_str() {
        "py" => Some("python3"),
        "sh" | "bash" => Some("bash"),
        "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" => Some("node"),
        _ => None,
    }
}

/// Returns the name of a command that is installed, whether it is written as a name or a path. Any
/// other path is a file of the guest.
pub fn installed_name(command: &str) -> Option<&str> {
    match command.rsplit_once('/') {
        None => Some(command),
        Some(("/bin" | "/usr/bin" | "/usr/local/bin", name)) => Some(name),
        Some(_) => None,
    }
}

/// Returns a canonical name and its aliases, for the shell.
pub fn all_names(name: &str) -> impl Iterator<Item = &str> {
    let aliases = ALIASES
        .iter()
        .find(|(program, _)| *program == name)
        .map_or(&[][..], |(_, aliases)| aliases);
    std::iter::once(name).chain(aliases.iter().copied())
}

/// Checks whether a name is a shell keyword. The host cannot deny one, because the shell does not
/// report keywords.
pub fn is_shell_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name)
}

/// The aliases of each program. `python3.N` is an alias too; see [`interpreter`].
const ALIASES: [(&str, &[&str]); 8] = [
    ("awk", &["gawk", "mawk", "nawk"]),
    ("bash", &["sh", "dash", "ash"]),
    ("bzip2", &["bunzip2", "bzcat"]),
    ("grep", &["egrep", "fgrep"]),
    ("gzip", &["gunzip", "zcat"]),
    ("node", &["nodejs", "bun", "deno", "tsx", "ts-node"]),
    ("python3", &["python", "pypy3"]),
    ("source", &["."]),
];

const KEYWORDS: [&str; 18] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "time", "until", "while", "!",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_map_to_their_program() {
        for (command, name) in [
            ("python", "python3"),
            ("python3.14", "python3"),
            ("/usr/bin/python3", "python3"),
            (".venv/bin/python", "python3"),
            ("pypy3", "python3"),
            ("sh", "bash"),
            ("/bin/dash", "bash"),
            ("egrep", "grep"),
            ("nodejs", "node"),
            ("/usr/local/bin/bun", "node"),
            ("deno", "node"),
            ("node_modules/.bin/tsx", "node"),
            ("ts-node", "node"),
            // It denies itself: what it starts has its own name.
            ("npx", "npx"),
            ("scripts/upload.wasm", "upload"),
            ("jq", "jq"),
            ("", ""),
        ] {
            assert_eq!(canonical_name(command), name, "{command}");
        }
    }

    #[test]
    fn interpreter_names_map_to_built_in_commands() {
        for (program, expected) in [
            ("python", Some("python3")),
            ("python3", Some("python3")),
            ("python3.14", Some("python3")),
            ("python3x", None),
            ("python2", None),
            ("bash", Some("bash")),
            ("zsh", None),
            ("node", Some("node")),
            ("deno", Some("node")),
            ("npm", None),
            ("", None),
        ] {
            assert_eq!(interpreter(program), expected, "{program}");
        }
    }

    #[test]
    fn extensions_map_to_built_in_commands() {
        for (name, expected) in [
            ("a.py", Some("python3")),
            ("a.sh", Some("bash")),
            ("a.js", Some("node")),
            ("a.test.MJS", Some("node")),
            ("a.ts", Some("node")),
            ("a.d.cts", Some("node")),
            ("a.json", None),
            ("js", None),
        ] {
            assert_eq!(script_interpreter(name), expected, "{name}");
        }
    }

    #[test]
    fn each_name_belongs_to_one_program() {
        let mut all: Vec<&str> = ALIASES
            .iter()
            .flat_map(|(name, aliases)| std::iter::once(*name).chain(aliases.iter().copied()))
            .collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(
            ALIASES
                .iter()
                .all(|(name, _)| all_names(name).all(|spelling| canonical_name(spelling) == *name))
        );
    }
}
