//! Scripts give the same output, exit code and files in the sandbox as natively with the machine's
//! python3 and bash.
//!
//! A case is a folder: `case.yaml` ([`Case`]), `stdin`, `workspace/` (the initial files) and
//! `skill/`. The cases of `skillhost test` that come with the example skills are run here too, also
//! natively. Those that need the test's server are in `tests/cases/skills`, and pin the output in
//! `expected`.

pub mod api;
mod case;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cli::repository;
use api::Api;
use case::{Case, Machine, RunResult};

/// The skills that consist of scripts.
const SKILLS: [&str; 5] = ["api-probe", "changelog", "csv-report", "log-triage", "pdf-text"];

#[test]
fn scripts_match_their_native_results() {
    check(&cases(&repository("tests/cases/scripts")), |_, _| Ok(()));
}

#[test]
fn example_skills_match_their_native_results() {
    let mut all: Vec<Case> = SKILLS.iter().flat_map(|name| Case::of_skill(name)).collect();
    all.extend(cases(&repository("tests/cases/skills")));
    check(&all, Case::check);
}

/// Features of the scripts, in proportions like those of public skills.
#[test]
fn the_scripts_resemble_those_of_public_skills() {
    let scripts: Vec<(String, String)> = cases(&repository("tests/cases/scripts"))
        .iter()
        .map(|case| {
            (case.script.clone(), std::fs::read_to_string(case.skill.join(&case.script)).unwrap())
        })
        .collect();
    let python: Vec<&str> = scripts
        .iter()
        .filter(|(name, _)| name.ends_with(".py"))
        .map(|(_, text)| text.as_str())
        .collect();
    assert!(
        scripts.len() >= 40 && python.len() >= 28 && scripts.len() - python.len() >= 12,
        "{} of {}",
        python.len(),
        scripts.len()
    );
    // The percentage of the Python scripts, rounded down.
    for (what, least) in [
        ("argparse", 61),
        ("open(", 40),
        ("environ", 10),
        ("stdin", 7),
        ("subprocess", 10),
        ("urllib", 5),
        ("__file__", 10),
    ] {
        let count = python.iter().filter(|text| text.contains(what)).count();
        assert!(
            count * 100 >= python.len() * least,
            "{count} of {} scripts hold `{what}`",
            python.len()
        );
    }
    assert!(python.iter().filter(|text| !text.is_ascii()).count() * 100 >= python.len() * 40);
}

/// Returns the cases below a folder, by name.
fn cases(folder: &Path) -> Vec<Case> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|path| path.join("case.yaml").is_file());
    folders.sort();
    folders.iter().map(|folder| Case::read(folder)).collect()
}

/// Runs each case natively and in the sandbox, several at a time; `CASE=TEXT` selects those whose
/// name contains it. `also` returns what is wrong with the native run. Cases listed in
/// `differences.txt` must differ; remove their lines once they agree.
fn check(cases: &[Case], also: impl Fn(&Case, &RunResult) -> Result<(), String> + Sync) {
    let machine = Machine::find();
    let selected = std::env::var("CASE").unwrap_or_default();
    let known = differences();
    let cases: Vec<&Case> = cases.iter().filter(|case| case.name().contains(&selected)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut wrong = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            wrong.extend(match (difference(case, &machine, &also), known.contains(&case.name().to_string())) {
                (Some(text), false) => Some(format!("==> {}\n{text}", case.name())),
                (None, true) => {
                    Some(format!("==> {}\nit agrees: its line in tests/cases/scripts/differences.txt is out of date\n", case.name()))
                }
                (Some(_), true) | (None, false) => None,
            });
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Returns the known differences: one line `NAME: REASON` each.
fn differences() -> BTreeSet<String> {
    let text =
        std::fs::read_to_string(repository("tests").join("cases/scripts/differences.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            line.split_once(": ").unwrap_or_else(|| panic!("no reason: {line}")).0.to_owned()
        })
        .collect()
}

/// Returns what is wrong with a case, if anything.
fn difference(
    case: &Case,
    machine: &Machine,
    also: &impl Fn(&Case, &RunResult) -> Result<(), String>,
) -> Option<String> {
    // Separate folders, so that neither run sees the other's files.
    let native = case.run_natively(machine, &Api::start());
    let sandboxed = case.run_sandboxed(&Api::start());
    let mut text = String::new();
    if native.code != case.exit {
        writeln!(text, "natively the exit code is {}, not {}", native.code, case.exit).unwrap();
    }
    if native.stdout.is_empty() && native.stderr.is_empty() && native.files == case.initial_files()
    {
        writeln!(text, "natively it does nothing that could differ").unwrap();
    }
    also(case, &native).unwrap_or_else(|error| text += &error);
    if native.code != sandboxed.code {
        writeln!(text, "exit code: {} natively, {} in the sandbox", native.code, sandboxed.code)
            .unwrap();
    }
    text += &diff("stdout", &native.stdout, &sandboxed.stdout);
    let none = Vec::new();
    for path in native
        .files
        .keys()
        .chain(sandboxed.files.keys().filter(|path| !native.files.contains_key(*path)))
    {
        let sides = [native.files.get(path), sandboxed.files.get(path)];
        match sides {
            [Some(_), None] => writeln!(text, "{path}: not there in the sandbox").unwrap(),
            [None, Some(_)] => writeln!(text, "{path}: there only in the sandbox").unwrap(),
            [a, b] => text += &diff(path, a.unwrap_or(&none), b.unwrap_or(&none)),
        }
    }
    if text.is_empty() {
        return None;
    }
    write!(text, "stderr natively:\n{}stderr in the sandbox:\n{}", native.stderr, sandboxed.stderr)
        .unwrap();
    Some(text)
}

fn diff(what: &str, native: &[u8], sandboxed: &[u8]) -> String {
    if native == sandboxed {
        return String::new();
    }
    let (a, b) = (String::from_utf8_lossy(native), String::from_utf8_lossy(sandboxed));
    if a == b {
        return format!("{what}: bytes that are not UTF-8 differ\n");
    }
    let heads = (format!("{what}, natively"), format!("{what}, in the sandbox"));
    similar::TextDiff::from_lines(a.as_ref(), b.as_ref())
        .unified_diff()
        .header(&heads.0, &heads.1)
        .to_string()
}
