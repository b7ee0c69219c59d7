//! Which program a script is for: its shebang says so, else its extension. The exec bit never counts.

/// Bytes of a file that a shebang may take: as many as Linux reads.
pub const SHEBANG: usize = 256;

/// What runs a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interpreter {
    /// `python3`.
    Python,
    /// `bash`, or `sh`, which is the same program.
    Shell,
    /// A program that is not here, by the name that a shebang or the extension gives it, such as `node`.
    Other(String),
}

/// Extensions, and what runs such a file where it has no shebang.
const EXTENSIONS: &[(&str, &str)] = &[
    ("py", "python3"),
    ("pyw", "python3"),
    ("sh", "bash"),
    ("bash", "bash"),
    ("zsh", "zsh"),
    ("fish", "fish"),
    ("ps1", "pwsh"),
    ("bat", "cmd"),
    ("cmd", "cmd"),
    ("js", "node"),
    ("mjs", "node"),
    ("cjs", "node"),
    ("ts", "tsx"),
    ("mts", "tsx"),
    ("rb", "ruby"),
    ("pl", "perl"),
    ("php", "php"),
    ("lua", "lua"),
    ("r", "Rscript"),
    ("jl", "julia"),
    ("applescript", "osascript"),
    ("scpt", "osascript"),
];

/// What runs a file, told by its first bytes and its path. `None` for a file that is no script.
pub fn interpreter(path: &str, head: &[u8]) -> Option<Interpreter> {
    let name = shebang(head).or_else(|| {
        let extension = extension(path)?.to_ascii_lowercase();
        EXTENSIONS.iter().find(|(known, _)| *known == extension).map(|(_, program)| (*program).to_owned())
    })?;
    Some(called(&name))
}

/// Whether a file's first bytes tell more of it than its name: it has no extension, or one of a script.
pub fn may_be_script(path: &str) -> bool {
    extension(path).is_none_or(|found| EXTENSIONS.iter().any(|(known, _)| found.eq_ignore_ascii_case(known)))
}

/// The program of a shebang by its name alone: past `env`, its options and variables, and past `uv run`, to what it names.
/// A `\r` at the line's end is not part of it.
pub fn shebang(head: &[u8]) -> Option<String> {
    let line = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).strip_prefix(b"#!")?;
    let line = line.iter().take(SHEBANG).copied().take_while(|byte| *byte != b'\n').collect::<Vec<u8>>();
    let line = String::from_utf8_lossy(&line);
    let mut words = line.split_whitespace();
    let mut program = file_name(words.next()?).to_owned();
    if program == "env" {
        let mut named = words.by_ref().skip_while(|word| word.starts_with('-') || word.contains('='));
        program = file_name(named.next()?).to_owned();
    }
    match program.as_str() {
        // `uv run --script` runs Python, and `uv run X` whatever X is.
        "uv" | "uvx" => Some(words.find(|w| !w.starts_with('-') && *w != "run").map_or("python3", file_name).to_owned()),
        _ => Some(program),
    }
}

fn called(program: &str) -> Interpreter {
    let version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.');
    match program {
        "bash" | "sh" | "dash" | "ash" => Interpreter::Shell,
        _ if program.strip_prefix("python").is_some_and(version) => Interpreter::Python,
        _ => Interpreter::Other(program.to_owned()),
    }
}

fn extension(path: &str) -> Option<&str> {
    let (stem, extension) = file_name(path).rsplit_once('.')?;
    (!stem.is_empty()).then_some(extension)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(path: &str, head: &str) -> String {
        match interpreter(path, head.as_bytes()) {
            Some(Interpreter::Python) => "python3".into(),
            Some(Interpreter::Shell) => "bash".into(),
            Some(Interpreter::Other(name)) => name,
            None => "nothing".into(),
        }
    }

    #[test]
    fn a_shebang_goes_before_the_extension() {
        for (path, head, program) in [
            ("a.sh", "#!/usr/bin/env python3\n", "python3"),
            ("a.py", "#!/bin/bash\n", "bash"),
            ("a", "#!/bin/sh -e\n", "bash"),
            ("a", "#!/usr/bin/python\r\nimport os\r\n", "python3"),
            ("a", "#! /usr/bin/env  python3.12\n", "python3"),
            ("a", "#!/usr/bin/env -S uv run --script\n# x\n", "python3"),
            ("a", "#!/usr/bin/env -S uv run --quiet bash\n", "bash"),
            ("a", "#!/usr/bin/env -S PYTHONUTF8=1 python3 -u\n", "python3"),
            ("a.py", "\u{feff}#!/usr/bin/env node\n", "node"),
            ("a", "#!/usr/bin/osascript\n", "osascript"),
            ("a", "#!/usr/bin/env pythonista\n", "pythonista"),
        ] {
            assert_eq!(runs(path, head), program, "{path} {head:?}");
        }
    }

    #[test]
    fn without_one_the_extension_tells() {
        for (path, program) in [
            ("scripts/a.py", "python3"),
            ("a.bash", "bash"),
            ("a.PY", "python3"),
            ("a.ts", "tsx"),
            ("a.md", "nothing"),
            (".py", "nothing"),
            ("a.d/x", "nothing"),
            ("a", "nothing"),
        ] {
            assert_eq!(runs(path, "text\n"), program, "{path}");
        }
        for head in ["#!", "#!\n", "#! \n", "#!/usr/bin/env\n", "#!/usr/bin/env -i\n"] {
            assert_eq!(runs("a", head), "nothing", "{head:?}");
        }
    }
}
