//! Parses the `#!` line of a script.

/// The number of bytes at the start of a script that are searched for a `#!` line. Linux reads 256.
pub const HEAD_BYTES: usize = 512;

/// Returns the program that a `#!` line names, without its folder, and the arguments before the
/// script; `None` without such a line.
///
/// More lenient than the kernel, for scripts that people edit: skips a byte order mark and white
/// space before `#!` and a carriage return at the end, and splits arguments at white space, with or
/// without `env -S`.
pub(super) fn shebang(head: &[u8]) -> Option<(String, Vec<String>)> {
    let text = String::from_utf8_lossy(head);
    let line =
        text.trim_start_matches('\u{feff}').trim_start().strip_prefix("#!")?.lines().next()?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let program = base(&words.next()?).to_owned();
    let words: Vec<String> = words.collect();
    if program != "env" {
        return Some((program, words));
    }
    let mut words = after_env(&words).into_iter();
    let program = base(&words.next()?).to_owned();
    Some((program, words.collect()))
}

/// Returns the command that `env` starts: the words after its options and variables.
fn after_env(words: &[String]) -> Vec<String> {
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let glued = word.strip_prefix("--split-string=").or_else(|| word.strip_prefix("-S"));
        match word {
            "-u" | "--unset" | "-C" | "--chdir" => drop(words.next()),
            _ if glued.is_some_and(|rest| !rest.is_empty()) => {
                return glued.into_iter().chain(words).map(str::to_owned).collect();
            }
            _ if word.starts_with('-') || word.contains('=') => {}
            _ => return std::iter::once(word).chain(words).map(str::to_owned).collect(),
        }
    }
    Vec::new()
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_common_forms_of_the_first_line_parse() {
        for (head, expected) in [
            ("#!/usr/bin/env python3\nprint()", "python3"),
            ("#!/usr/bin/python3 -u\n", "python3 -u"),
            ("#!/usr/bin/env python3.11", "python3.11"),
            ("#!/usr/bin/env -S uv run --script\n", "uv run --script"),
            ("#!/usr/bin/env -Suv run --script\n", "uv run --script"),
            ("#!/usr/bin/env --split-string=uv run\n", "uv run"),
            ("#!/usr/bin/env -i A=1 -u HOME bash -e\n", "bash -e"),
            ("#!/usr/bin/env bash\r\nset -e\r\n", "bash"),
            ("#!/bin/bash -e\r\n", "bash -e"),
            ("#! /bin/sh\n", "sh"),
            ("\u{feff}#!/bin/bash\n", "bash"),
            (" #!/bin/bash\n", "bash"),
            ("\n#!/bin/bash\n", "bash"),
            ("#!bash\n", "bash"),
            ("#!/usr/bin/osascript -l JavaScript\n", "osascript -l JavaScript"),
            ("# !/bin/bash\n", "-"),
            ("#!\n/bin/bash\n", "-"),
            ("#!/usr/bin/env\n", "-"),
            ("#!/usr/bin/env -S\n", "-"),
            ("import os\n#!/bin/bash\n", "-"),
            ("", "-"),
        ] {
            let found = shebang(head.as_bytes())
                .map(|(program, args)| [vec![program], args].concat().join(" "));
            assert_eq!(found.as_deref().unwrap_or("-"), expected, "{head:?}");
        }
        assert_eq!(shebang(b"#!/bin/b\xffsh\n"), Some(("b\u{fffd}sh".into(), vec![])));
    }
}
