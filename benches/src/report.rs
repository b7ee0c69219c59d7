//! Reports of benchmarks, as JSON, and the files that are generated from committed runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skillhost_toolchain::{Error, files};

use crate::measure;
use crate::place::{Place, which};
use crate::repository;

/// The version of the layout of a report's JSON.
const SCHEMA: u32 = 1;

/// A benchmark's report. Times are in nanoseconds, sizes in bytes. docs/design/performance.md
/// describes it for readers.
pub(crate) trait Report: Serialize + DeserializeOwned {
    /// The benchmark's name in `cargo xtask bench`, and in the report's files and sections.
    const VERB: &'static str;

    /// The documents that have a section of the report.
    const DOCUMENTS: &'static [&'static str];

    fn header(&self) -> &Header;

    /// Returns the section of a document.
    fn section(&self, document: &str) -> String;

    /// Returns the names and texts of the files in docs/figures that are generated from the report.
    fn figures(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// The header of a report: the command, the machine and the versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) schema: u32,
    /// The command that repeats the benchmark.
    pub(crate) command: String,
    pub(crate) machine: Machine,
    /// The versions of the measured programs and of the tools.
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) rounds: usize,
}

/// The machine on which the figures were measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory: u64,
    pub(crate) kernel: String,
    /// UTC, as YYYY-MM-DD.
    pub(crate) date: String,
    /// The load average of the minute before. More than a fraction of `cores` distorts the figures.
    pub(crate) load_before: f64,
}

impl Header {
    /// Describes this machine, the programs, and those of `tools` that are installed, before a
    /// benchmark starts. Prints a warning if other work would distort the figures.
    pub(crate) fn new<R: Report>(
        place: &Place,
        rounds: usize,
        tools: &[&str],
        print: &dyn Fn(&str),
    ) -> Result<Header, Error> {
        let machine = Machine::describe()?;
        let Machine { load_before, cores, .. } = machine;
        if load_before > 0.2 * cores as f64 {
            print(&format!(
                "The machine is busy (load {load_before:.1} on {cores} cores): the figures will be too high."
            ));
        }
        let command = format!("cargo xtask bench {} --rounds {rounds}", R::VERB);
        let versions = versions(place, tools);
        Ok(Header { schema: SCHEMA, command, machine, versions, rounds })
    }

    /// Describes in one paragraph where and how the figures were measured. `more` follows the
    /// number of rounds.
    pub(crate) fn summary(&self, more: &str) -> String {
        let Header { command, machine, versions, rounds, .. } = self;
        let Machine { cpu, cores, memory, kernel, date, load_before } = machine;
        let native = versions.iter().filter(|(name, _)| name.starts_with("native"));
        let native: Vec<&str> = native.map(|(_, version)| version.as_str()).collect();
        format!(
            "Measured {date} on {cores} cores of {cpu}, {:.0} GiB, {kernel}, load {load_before:.1} before; {rounds} interleaved rounds{more}, {}. Repeat it: `{command}`.",
            *memory as f64 / 1_073_741_824.0,
            native.join(", "),
        )
    }
}

impl Machine {
    fn describe() -> Result<Machine, Error> {
        let read = |path: &str| std::fs::read_to_string(path).map_err(Error::context(path));
        let cpu = read("/proc/cpuinfo")?;
        let model = |line: &'_ str| {
            line.strip_prefix("model name")?
                .split_once(": ")
                .map(|(_, name)| name.trim().to_owned())
        };
        let load = read("/proc/loadavg")?;
        let kernel = read("/proc/sys/kernel/osrelease")?;
        Ok(Machine {
            cpu: cpu.lines().find_map(model).unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_err(Error::context("cores"))?.get(),
            memory: measure::sizes(&read("/proc/meminfo")?).get("MemTotal").copied().unwrap_or(0),
            // Only the version number: suffixes of distributions and clouds could identify the
            // machine.
            kernel: format!("Linux {}", kernel.split('-').next().unwrap_or_default().trim()),
            date: jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC).date().to_string(),
            load_before: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
        })
    }
}

/// Returns the first line that a program prints as its version.
pub(crate) fn version(program: &Path) -> Option<String> {
    let output = measure::output(Command::new(program).arg("--version")).ok()?;
    output.lines().next().map(str::to_owned)
}

/// Returns the first line of each program's version.
fn versions(place: &Place, tools: &[&str]) -> BTreeMap<String, String> {
    let bash = version("/bin/bash".as_ref()).map(|version| {
        let number = version.replace("GNU bash, version ", "bash ");
        number.split('(').next().unwrap_or_default().to_owned()
    });
    let component = |name: &str| {
        let manifest = std::fs::read(place.programs.join(format!("{name}.json"))).ok()?;
        let manifest: Value = serde_json::from_slice(&manifest).ok()?;
        manifest["version"].as_str().map(str::to_owned)
    };
    let programs = [
        ("skillhost", version(&place.skillhost)),
        ("native Python", version(&place.python)),
        ("native bash", bash),
        ("native node", version(&place.node).map(|version| version.replace('v', "node "))),
        ("javascript component", component("javascript")),
        ("python component", component("python")),
        ("shell component", component("shell")),
    ];
    let tools = tools.iter().map(|name| (*name, which(name).and_then(|tool| version(&tool))));
    let found = programs.into_iter().chain(tools);
    found.filter_map(|(name, version)| Some((name.to_owned(), version?))).collect()
}

/// Splits a result into the two fields of reports: the figure, and the reason why it is missing.
pub(crate) fn split<T, E: ToString>(found: Result<T, E>) -> (Option<T>, Option<String>) {
    match found {
        Ok(figure) => (Some(figure), None),
        Err(error) => (None, Some(error.to_string())),
    }
}

/// Writes a run to docs/figures, and all files that are generated from it.
pub(crate) fn commit<R: Report>(report: &R) -> Result<(), Error> {
    save(report, &repository("docs/figures"))?;
    write::<R>()
}

/// Regenerates all files that are generated from the committed run.
pub(crate) fn write<R: Report>() -> Result<(), Error> {
    for (path, text) in generated_files(committed::<R>()?.as_ref())? {
        files::write_if_changed(&path, text.as_bytes())?;
    }
    Ok(())
}

/// Writes the JSON of a report into a folder.
pub(crate) fn save<R: Report>(report: &R, folder: &Path) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(report).map_err(Error::context(R::VERB))? + "\n";
    files::write_if_changed(&path::<R>(folder), text.as_bytes()).map(drop)
}

fn path<R: Report>(folder: &Path) -> PathBuf {
    folder.join(format!("{}.json", R::VERB))
}

/// Loads the committed run, if there is one.
pub(crate) fn committed<R: Report>() -> Result<Option<R>, Error> {
    let path = path::<R>(&repository("docs/figures"));
    path.is_file().then(|| read(&path)).transpose()
}

fn read<R: Report>(path: &Path) -> Result<R, Error> {
    let bytes = std::fs::read(path).map_err(Error::context(path.display()))?;
    let report: R = serde_json::from_slice(&bytes).map_err(Error::context(path.display()))?;
    match report.header().schema {
        SCHEMA => Ok(report),
        other => Err(Error::new(format!("{}: schema {other} instead of {SCHEMA}", path.display()))),
    }
}

/// Returns the files that are generated from a run: the documents with its sections, and its
/// figures.
pub(crate) fn generated_files<R: Report>(
    report: Option<&R>,
) -> Result<Vec<(PathBuf, String)>, Error> {
    let none =
        || format!("No run is committed: `cargo xtask bench {} --commit` creates one.", R::VERB);
    let document = |name: &&str| {
        let text = std::fs::read_to_string(repository(name)).map_err(Error::context(name))?;
        let section = report.map_or_else(none, |report| report.section(name));
        let text = with_section(&text, R::VERB, &section).map_err(Error::context(name))?;
        Ok((repository(name), text))
    };
    let figures = report.map_or(Vec::new(), R::figures).into_iter();
    let figures = figures.map(|(name, text)| Ok((repository("docs/figures").join(name), text)));
    R::DOCUMENTS.iter().map(document).chain(figures).collect()
}

/// Replaces the section of a benchmark in the text of a document.
fn with_section(text: &str, verb: &str, section: &str) -> Result<String, Error> {
    let begin = format!(
        "<!-- {verb}: written from docs/figures/{verb}.json by `cargo xtask bench readme` -->"
    );
    let end = format!("<!-- /{verb} -->");
    let missing = |line: &str| Error::new(format!("the line `{line}` is missing"));
    let (before, rest) = text.split_once(&begin).ok_or_else(|| missing(&begin))?;
    let (_, after) = rest.split_once(&end).ok_or_else(|| missing(&end))?;
    Ok(format!("{before}{begin}\n{}\n{end}{after}", section.trim_end()))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fmt::Debug;

    use serde_json::json;

    use super::*;
    use crate::{fleet, isolation, load, served, sessions, targets};

    /// Returns a report with these fields.
    pub(crate) fn report<R: Report>(mut fields: Value) -> R {
        let header = json!({
            "schema": SCHEMA,
            "command": format!("cargo xtask bench {}", R::VERB),
            "machine": {
                "cpu": "a CPU", "cores": 2, "memory": 8u64 << 30, "kernel": "Linux 6.1",
                "date": "2026-01-02", "load_before": 0.1,
            },
            "versions": { "native Python": "Python 3.11.2" },
            "rounds": 30,
        });
        fields.as_object_mut().unwrap().extend(header.as_object().unwrap().clone());
        serde_json::from_value(fields).unwrap()
    }

    fn assert_current<R: Report>() {
        for (path, text) in generated_files(committed::<R>().unwrap().as_ref()).unwrap() {
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            let path = path.display();
            assert!(found == text, "{path} is not what `cargo xtask bench readme` writes");
        }
    }

    #[test]
    fn files_generated_from_committed_runs_are_current() {
        assert_current::<isolation::Report>();
        assert_current::<targets::Report>();
        assert_current::<served::Report>();
        assert_current::<load::Report>();
        assert_current::<fleet::Report>();
        assert_current::<sessions::Report>();
    }

    fn assert_round_trip<R: Report + PartialEq + Debug>(report: &R) {
        let folder = tempfile::tempdir().unwrap();
        let path = path::<R>(folder.path());
        save(report, folder.path()).unwrap();
        assert_eq!(read::<R>(&path).unwrap(), *report);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"schema\": 1", "\"schema\": 2")).unwrap();
        let error = read::<R>(&path).err().unwrap().to_string();
        assert!(error.contains("schema 2"), "{error}");
    }

    #[test]
    fn reports_survive_saving_and_loading() {
        assert_round_trip(&isolation::tests::report());
        assert_round_trip(&targets::tests::report());
        assert_round_trip(&served::tests::report());
        assert_round_trip(&load::tests::report());
        assert_round_trip(&fleet::tests::report());
        assert_round_trip(&sessions::tests::report());
    }

    #[test]
    fn documents_and_figures_are_generated_from_a_run() {
        let files = generated_files(Some(&isolation::tests::report())).unwrap();
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let names: Vec<String> = files.iter().map(|(path, _)| name(path)).collect();
        let charts = ["phases", "start-up", "throughput", "memory", "input", "growth"];
        let charts = charts.map(|chart| format!("{chart}.svg"));
        let documents = ["README.md", "performance.md", "isolation.html"].map(str::to_owned);
        assert_eq!(names, [&documents[..], &charts].concat());
        for (_, document) in &files[..2] {
            assert!(document.contains("| skillhost, cold | 3.0 ms (0.30) |"), "{document}");
        }
        assert!(files[1].1.contains("(../figures/start-up.svg)"), "{}", files[1].1);
        let files = generated_files(Some(&targets::tests::report())).unwrap();
        let text = &files[0].1;
        assert!(text.contains("the project's goals. 2 of 27 are missed, "), "{text}");
        assert!(
            text.contains("| Python hello, cold | 6.6 ms | 11 ms (`python3 hello.py`) |"),
            "{text}"
        );
    }

    #[test]
    fn section_without_a_run_names_the_command() {
        let [(_, text)] = &generated_files::<targets::Report>(None).unwrap()[..] else { panic!() };
        assert!(text.contains("No run is committed: `cargo xtask bench targets --commit`"));
    }

    #[test]
    fn only_the_section_is_replaced() {
        let begin = "<!-- x: written from docs/figures/x.json by `cargo xtask bench readme` -->";
        let text = |section| format!("# A\n\n{begin}\n{section}\n<!-- /x -->\n\n# B\n");
        let new = with_section(&text("outdated"), "x", "new\n\n").unwrap();
        assert_eq!(new, text("new"));
        assert_eq!(with_section(&new, "x", "new").unwrap(), new);
        assert!(with_section("# A\n", "x", "new").is_err());
    }
}
