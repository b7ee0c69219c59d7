//! Measures a catalogue of ten thousand skills: cold and cached starts, searches, and memory. Each
//! start is a new process.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark prints, panics if it cannot run, and creates its own folders"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use skillhost_bench::Random;
use skillhost_catalog::{Catalog, Query, Source, SourceKind};

const SKILLS: usize = 10_000;
const SOURCES: usize = 5;
const STARTS: usize = 10;
const ROUNDS: usize = 20;

const QUESTIONS: [&str; 12] = [
    "extract tables from a pdf",
    "kubernetes pod does not start",
    "report",
    "data",
    "convert csv files to json and check every row",
    "analysis of logs",
    "skill number 4711",
    "tabels",
    "kubernets cluter",
    "databa",
    "write a report about customer data with charts and tables for the team",
    "nothing of this kind xyzzy",
];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--start") {
        return start(Path::new(&args[at + 1]), args.get(at + 2).is_some());
    }
    let root = tempfile::tempdir().unwrap();
    let started = Instant::now();
    write(root.path());
    println!("{SKILLS} skills in {SOURCES} folders, written in {:.1?}", started.elapsed());
    println!(
        "profile          {}",
        if cfg!(debug_assertions) { "debug (this crate is not optimised)" } else { "release" }
    );
    println!("cold             {}", child(root.path(), &[]));
    let mut warm: Vec<String> = (0..STARTS).map(|_| child(root.path(), &[])).collect();
    warm.sort_by_key(|line| {
        line.split_whitespace()
            .next()
            .and_then(|ms| ms.parse::<f64>().ok())
            .map(|ms| (ms * 100.0) as u64)
    });
    println!("cached, median   {}", warm[STARTS / 2]);
    print!("{}", child(root.path(), &["search"]));
    let size = std::fs::metadata(root.path().join("cache/catalog.db")).unwrap().len();
    println!("cache file       {:.1} MiB", size as f64 / (1 << 20) as f64);
}

fn child(root: &Path, more: &[&str]) -> String {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).arg("--start").arg(root).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    if more.is_empty() { text.trim_end().to_owned() } else { text }
}

/// Opens the catalogue, and prints the time and the memory that it takes.
fn start(root: &Path, search: bool) {
    let [before, _] = memory();
    let started = Instant::now();
    let catalog = Catalog::open(sources(root), Some(&root.join("cache"))).unwrap();
    let took = started.elapsed();
    assert_eq!((catalog.entries().len(), catalog.problems().len()), (SKILLS, 0));
    if !search {
        let [now, peak] = memory().map(|memory| memory - before);
        println!(
            "{:.1} ms; the catalogue takes {now:.1} MiB, with a peak of {peak:.1} MiB",
            ms(took)
        );
        return;
    }
    for text in QUESTIONS {
        let query = Query { text: text.into(), ..Query::default() };
        let mut times: Vec<Duration> = Vec::new();
        let mut hits = 0;
        for _ in 0..ROUNDS {
            let started = Instant::now();
            hits = catalog.search(&query).unwrap().len();
            times.push(started.elapsed());
        }
        let first = times[0];
        times.sort();
        println!(
            "search           {:.2} ms (first {:.2} ms, worst {:.2} ms), {hits} hits: {text}",
            ms(times[ROUNDS / 2]),
            ms(first),
            ms(times[ROUNDS - 1])
        );
    }
    let started = Instant::now();
    assert!(catalog.refresh().unwrap().is_empty());
    println!("refresh          {:.1} ms, nothing changed", ms(started.elapsed()));
    let [now, peak] = memory().map(|memory| memory - before);
    println!("memory           {now:.1} MiB after the searches, with a peak of {peak:.1} MiB");
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn sources(root: &Path) -> Vec<Source> {
    (0..SOURCES).map(|at| Source::new(folder(root, at), SourceKind::User)).collect()
}

fn folder(root: &Path, at: usize) -> PathBuf {
    root.join(format!("skills-{at}"))
}

/// Writes skills of a typical size: a description of two or three sentences, and about 2 KB of
/// instructions. Every third has a script.
fn write(root: &Path) {
    const WORDS: &str = "extract table pdf report data convert csv json row check kubernetes pod start cluster log analysis chart customer team \
        write read file folder image video audio translate text letter invoice tax budget plan test code review commit branch merge database query \
        index schema backup restore server deploy container network request response header token password user account email calendar meeting note \
        task search filter sort group count sum mean error warning retry timeout queue stream event message topic page browser click form button style \
        layout color font icon map route travel hotel weather recipe meal training sleep medicine law contract clause license price market forecast";
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut random = Random::new(1);
    let mut next = |end| random.below(end);
    // A few words occur in most texts, and most words in few.
    let mut text = |length: usize| {
        let word = |one: usize, two: usize| {
            if two.is_multiple_of(5) {
                format!("{}{}", words[one], two / 5)
            } else {
                words[one].to_owned()
            }
        };
        let picked: Vec<String> = (0..length)
            .map(|_| word(next(words.len()).min(next(words.len())), next(4_000)))
            .collect();
        picked.join(" ")
    };
    for number in 0..SKILLS {
        let name = format!("{}-{number}", text(2).replace(' ', "-"));
        let folder = folder(root, number % SOURCES).join(&name);
        std::fs::create_dir_all(&folder).unwrap();
        let (first, second, body) = (text(12), text(14), text(300));
        let skill = format!(
            "---\nname: {name}\ndescription: >-\n  Skill number {number}: {first}. Use when the user wants {second}.\nmetadata:\n  tags: {}\n---\n\n# {name}\n\n{body}\n",
            text(2).replace(' ', ", ")
        );
        std::fs::write(folder.join("SKILL.md"), skill).unwrap();
        if number % 3 == 0 {
            std::fs::create_dir(folder.join("scripts")).unwrap();
            std::fs::write(folder.join("scripts/run.py"), "print('hello')\n").unwrap();
        }
    }
}

/// Returns the resident memory of this process, now and at its peak, in MiB.
fn memory() -> [f64; 2] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let sizes = skillhost_bench::sizes(&status);
    ["VmRSS", "VmHWM"].map(|key| sizes[key] as f64 / (1 << 20) as f64)
}
