//! `tests/cases/cli/*.txt`: commands and their output. `BLESS=1` rewrites the output.
//!
//! A case is lines of prose, then commands. A command is a line `$ ...`, run by bash in the case's
//! own folder; it is followed by its stdout, its stderr with `! ` before each line, and `? CODE` if
//! the exit code is not 0.

use std::fmt::Write as _;

use super::{User, files, pinned, repository, stem, text};

#[test]
fn transcripts_match_the_output() {
    let cases: Vec<_> = files(&repository("tests/cases/cli"))
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == "txt"))
        .collect();
    assert!(cases.len() >= 8, "cases are missing");
    let selected = std::env::var("CASE").ok();
    let cases =
        cases.iter().filter(|path| selected.as_ref().is_none_or(|name| stem(path) == *name));
    let problems: Vec<String> = cases
        .filter_map(|path| {
            let found = replay(&std::fs::read_to_string(path).unwrap());
            pinned(path, &found).err()
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns the case with the current output.
fn replay(case: &str) -> String {
    let user = User::new();
    let programs = user.stand_ins();
    let mut out = String::new();
    let prose = case.lines().take_while(|line| !line.starts_with("$ "));
    prose.for_each(|line| writeln!(out, "{line}").unwrap());
    for line in case.lines().filter(|line| line.starts_with("$ ")) {
        let run = user
            .command("bash")
            .env("SKILLHOST_PROGRAMS", &programs)
            .args(["-c", &line[2..]])
            .output()
            .unwrap();
        writeln!(out, "{line}").unwrap();
        let (stdout, stderr) = (user.normal(&text(&run.stdout)), user.normal(&text(&run.stderr)));
        stdout.lines().for_each(|line| writeln!(out, "{line}").unwrap());
        stderr
            .lines()
            .for_each(|line| writeln!(out, "{}", format!("! {line}").trim_end()).unwrap());
        match run.status.code() {
            Some(0) => {}
            Some(code) => writeln!(out, "? {code}").unwrap(),
            None => writeln!(out, "? killed").unwrap(),
        }
        writeln!(out).unwrap();
    }
    assert_eq!(user.scratch(), Vec::<std::path::PathBuf>::new(), "scratch folders are gone");
    format!("{}\n", out.trim_end())
}
