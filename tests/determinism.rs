//! Deterministic runs give the same output, the same files and the same fuel under any conditions.
//!
//! The programs are in `tests/cases/determinism`: scripts, and command lines of the component
//! `hostile`. Each runs as an operator runs it, in a process of its own, whose hash maps have seeds
//! of their own. Each run of a program has other conditions: see [`conditions`]. The variable
//! `REPEAT` sets the number of runs per program, 2 by default; `cargo xtask determinism` does 20.

mod conditions;
mod generated;
mod processors;
mod programs;
mod rules;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use conditions::{Conditions, Environment};
use programs::Program;

/// The results of a run that must always be the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunResult {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Every file of the workspace.
    tree: BTreeMap<String, Vec<u8>>,
    /// The audit record without times and host paths: status, fuel of each program, memory, files
    /// touched, denials, limits.
    record: serde_json::Value,
    /// The receipt, byte for byte, if the conditions ask for one.
    receipt: Option<String>,
}

impl RunResult {
    /// Returns the first difference as a short diff.
    fn difference(&self, other: &RunResult) -> Option<String> {
        if self == other {
            return None;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pairs = [
            ("exit code", format!("{:?}", self.code), format!("{:?}", other.code)),
            ("stdout", text(&self.stdout), text(&other.stdout)),
            ("stderr", text(&self.stderr), text(&other.stderr)),
            ("record", format!("{:#}", self.record), format!("{:#}", other.record)),
            ("receipt", lines_of(self.receipt.as_deref()), lines_of(other.receipt.as_deref())),
            ("files", format!("{:#?}", self.shown_tree()), format!("{:#?}", other.shown_tree())),
        ];
        let (part, one, two) = pairs.into_iter().find(|(_, one, two)| one != two)?;
        let diff = similar::TextDiff::from_lines(&one, &two);
        Some(
            format!("{part}:\n{}", diff.unified_diff().context_radius(1))
                .chars()
                .take(3_000)
                .collect(),
        )
    }

    fn shown_tree(&self) -> BTreeMap<&str, String> {
        self.tree
            .iter()
            .map(|(path, bytes)| (path.as_str(), String::from_utf8_lossy(bytes).into_owned()))
            .collect()
    }
}

/// Breaks a receipt, which is one line, after each field.
fn lines_of(receipt: Option<&str>) -> String {
    receipt.unwrap_or_default().replace(',', ",\n")
}

fn repeat() -> usize {
    std::env::var("REPEAT").ok().map_or(2, |text| text.parse().expect("REPEAT is a number"))
}

#[test]
fn programs_have_the_same_result_under_all_conditions() {
    let case = std::env::var("CASE").unwrap_or_default();
    let programs: Vec<Program> = programs::all();
    assert_eq!(programs.len(), 117);
    let programs: Vec<Program> =
        programs.into_iter().filter(|program| program.name.contains(&case)).collect();
    let mut first: Vec<RunResult> = Vec::new();
    let mut errors = String::new();
    for turn in 0..repeat() {
        let conditions = Conditions::of(turn);
        let results = run_all(&programs, &Environment::new(&conditions), &conditions);
        if first.is_empty() {
            for (program, result) in programs.iter().zip(&results) {
                errors += &program.check(result);
            }
            first = results;
            continue;
        }
        for ((program, one), two) in programs.iter().zip(&first).zip(&results) {
            if let Some(difference) = one.difference(two) {
                write!(
                    errors,
                    "==> {} differs under {conditions:?}: {difference}\n\n",
                    program.name
                )
                .unwrap();
            }
        }
    }
    assert!(errors.is_empty(), "{errors}");
}

/// Shows that the comparison notices sources of randomness and time.
#[test]
fn live_runs_of_the_same_programs_differ() {
    let differing = [
        "chance.js",
        "chance.sh",
        "clocks.js",
        "clocks.py",
        "component randomness",
        "component files",
        "datetimes.py",
        "mktemp.sh",
        "random_module.py",
        "sqlite.py",
        "stats.py",
        "tempfiles.py",
        "typed.ts",
        "urandom.py",
        "uuids.py",
    ];
    let programs: Vec<Program> = programs::all()
        .into_iter()
        .filter(|program| differing.contains(&program.name.as_str()))
        .collect();
    let conditions = Conditions::live();
    let run = || run_all(&programs, &Environment::new(&conditions), &conditions);
    let (one, two) = (run(), run());
    for ((program, one), two) in programs.iter().zip(&one).zip(&two) {
        assert_ne!(one.stdout, two.stdout, "{}", program.name);
    }
    assert_eq!(programs.len(), differing.len());
}

/// Runs all programs, with the parallelism and the load of the conditions.
fn run_all(
    programs: &[Program],
    environment: &Environment,
    conditions: &Conditions,
) -> Vec<RunResult> {
    let (next, all_ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results: Vec<Mutex<Option<RunResult>>> =
        programs.iter().map(|_| Mutex::default()).collect();
    std::thread::scope(|scope| {
        for _ in 0..conditions.load {
            scope.spawn(|| {
                while !all_ended.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let workers: Vec<_> = (0..conditions.at_once)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Relaxed);
                        let Some(program) = programs.get(index) else { return };
                        let result = environment.run(program, index as u64);
                        *results[index].lock().unwrap() = Some(result);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        all_ended.store(true, Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    results.into_iter().map(|result| result.into_inner().unwrap().unwrap()).collect()
}
