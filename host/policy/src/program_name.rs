//! The names of programs: which are those of one program, and which program runs a script by its
//! name alone.

/// The name that a denial has for what a command starts: without its folder, and the same for every
/// alias of one program.
pub fn canonical(command: &str) -> &str {
    let file = command.rsplit('/').next().unwrap_or(command);
    let file = file.strip_suffix(".wasm").unwrap_or(file);
    let name = interpreter(file).unwrap_or(file);
    ALIASES.iter().find(|(_, aliases)| aliases.contains(&name)).map_or(name, |(program, _)| program)
}

/// The built-in command that a program's name stands for: `python3.11` is `python3`, any POSIX
/// shell is `sh`.
pub fn interpreter(program: &str) -> Option<&'static str> {
    let version =
        program.strip_prefix("python3").map(|rest| rest.strip_prefix('.').unwrap_or(rest));
    match program {
        "python" | "pypy3" => Some("python3"),
        "bash" => Some("bash"),
        "sh" | "dash" | "ash" => Some("sh"),
        _ if version.is_some_and(|v| v.bytes().all(|b| b.is_ascii_digit())) => Some("python3"),
        _ => None,
    }
}

/// The built-in command that runs a script, by the extension of its name.
pub fn script_interpreter(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    match extension.to_ascii_lowercase().as_str() {
        "py" => Some("python3"),
        "sh" | "bash" => Some("bash"),
        _ => None,
    }
}

/// The name of a command that is looked up where programs are installed, by name or by path.
/// Another path is a file of the guest's own.
pub fn installed_name(command: &str) -> Option<&str> {
    match command.rsplit_once('/') {
        None => Some(command),
        Some(("/bin" | "/usr/bin" | "/usr/local/bin", name)) => Some(name),
        Some(_) => None,
    }
}

/// A canonical name, and its aliases as the shell knows them.
pub fn spellings(name: &str) -> impl Iterator<Item = &str> {
    let aliases = ALIASES
        .iter()
        .find(|(program, _)| *program == name)
        .map_or(&[][..], |(_, aliases)| aliases);
    std::iter::once(name).chain(aliases.iter().copied())
}

/// Whether a name is a word of the shell's language rather than a program. The shell does not tell
/// when it meets one.
pub(crate) fn is_shell_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name)
}

/// By program. `python3.N` is an alias as well: see `interpreter`.
const ALIASES: [(&str, &[&str]); 7] = [
    ("awk", &["gawk", "mawk", "nawk"]),
    ("bash", &["sh", "dash", "ash"]),
    ("bzip2", &["bunzip2", "bzcat"]),
    ("grep", &["egrep", "fgrep"]),
    ("gzip", &["gunzip", "zcat"]),
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
    fn each_alias_has_its_programs_name() {
        for (command, name) in [
            ("python", "python3"),
            ("python3.14", "python3"),
            ("/usr/bin/python3", "python3"),
            (".venv/bin/python", "python3"),
            ("pypy3", "python3"),
            ("sh", "bash"),
            ("/bin/dash", "bash"),
            ("egrep", "grep"),
            ("scripts/upload.wasm", "upload"),
            ("jq", "jq"),
            ("", ""),
        ] {
            assert_eq!(canonical(command), name, "{command}");
        }
    }

    #[test]
    fn no_name_is_an_alias_of_two_programs() {
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
                .all(|(name, _)| spellings(name).all(|spelling| canonical(spelling) == *name))
        );
    }
}
