//! Deterministic runs give the same bytes, the same files and the same fuel, whatever is different
//! around them.
//!
//! The programs are `tests/cases/determinism`: scripts, and command lines of the component
//! `hostile`. Each runs as a user runs it, as a process of its own (which has seeds of its own for
//! the host's hash maps), `REPEAT` times (4 where nothing is said; `cargo xtask determinism` runs
//! each 20 times), and each time otherwise: see [`conditions`].

mod conditions;
mod generated;
mod programs;
mod rules;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use conditions::{Around, Place};
use programs::Program;

/// What a run came to: all that must be the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Came {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Every file of the workspace.
    tree: BTreeMap<String, Vec<u8>>,
    /// The audit record without times and host paths: status, fuel of each program, memory, files
    /// touched, denials, limits.
    record: serde_json::Value,
}

impl Came {
    /// The first thing that is different, in short.
    fn differs(&self, other: &Came) -> Option<String> {
        if self == other {
            return None;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pairs = [
            ("exit code", format!("{:?}", self.code), format!("{:?}", other.code)),
            ("stdout", text(&self.stdout), text(&other.stdout)),
            ("stderr", text(&self.stderr), text(&other.stderr)),
            ("record", format!("{:#}", self.record), format!("{:#}", other.record)),
            ("files", format!("{:#?}", self.shown_tree()), format!("{:#?}", other.shown_tree())),
        ];
        let (what, one, two) = pairs.into_iter().find(|(_, one, two)| one != two)?;
        let diff = similar::TextDiff::from_lines(&one, &two);
        Some(
            format!("{what}:\n{}", diff.unified_diff().context_radius(1))
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

fn repeat() -> usize {
    std::env::var("REPEAT").ok().map_or(4, |text| text.parse().expect("REPEAT is a number"))
}

#[test]
fn a_hundred_programs_give_one_result_in_any_environment() {
    let wanted = std::env::var("CASE").unwrap_or_default();
    let programs: Vec<Program> = programs::all();
    assert_eq!(programs.len(), 100);
    let programs: Vec<Program> =
        programs.into_iter().filter(|program| program.name.contains(&wanted)).collect();
    let mut first: Vec<Came> = Vec::new();
    let mut wrong = String::new();
    for turn in 0..repeat() {
        let around = Around::of(turn);
        let came = run_all(&programs, &Place::new(&around), &around);
        if first.is_empty() {
            for (program, came) in programs.iter().zip(&came) {
                wrong += &program.check(came);
            }
            first = came;
            continue;
        }
        for ((program, one), two) in programs.iter().zip(&first).zip(&came) {
            if let Some(difference) = one.differs(two) {
                write!(wrong, "==> {} differs {around:?}: {difference}\n\n", program.name).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// What would be seen of a source of chance, or of time, that was forgotten.
#[test]
fn live_runs_of_the_same_programs_differ() {
    let differing = [
        "chance.sh",
        "clocks.py",
        "component randomness",
        "component files",
        "datetimes.py",
        "mktemp.sh",
        "random_module.py",
        "sqlite.py",
        "stats.py",
        "tempfiles.py",
        "urandom.py",
        "uuids.py",
    ];
    let programs: Vec<Program> = programs::all()
        .into_iter()
        .filter(|program| differing.contains(&program.name.as_str()))
        .collect();
    let around = Around::live();
    let (one, two) = (
        run_all(&programs, &Place::new(&around), &around),
        run_all(&programs, &Place::new(&around), &around),
    );
    for ((program, one), two) in programs.iter().zip(&one).zip(&two) {
        assert_ne!(one.stdout, two.stdout, "{}", program.name);
    }
    assert_eq!(programs.len(), differing.len());
}

/// Runs all programs, one at a time or several, with other work on the processors or without.
fn run_all(programs: &[Program], place: &Place, around: &Around) -> Vec<Came> {
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let came: Vec<Mutex<Option<Came>>> = programs.iter().map(|_| Mutex::default()).collect();
    std::thread::scope(|scope| {
        for _ in 0..around.load {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let workers: Vec<_> = (0..around.at_once)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Relaxed);
                        let Some(program) = programs.get(index) else { return };
                        *came[index].lock().unwrap() = Some(place.run(program, index as u64));
                    }
                })
            })
            .collect();
        let ended: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        over.store(true, Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    came.into_iter().map(|came| came.into_inner().unwrap().unwrap()).collect()
}
