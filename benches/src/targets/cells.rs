//! The measurements for the goals: a case, and how it is run.

use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, files};

use super::goals::rate;
use crate::bench;
use crate::cases::{self, Case, Target};
use crate::measure::Sample;
use crate::place::Place;
use crate::samples::Samples;

/// The number of children that a run starts in sequence.
pub(crate) const CHILDREN: u64 = 50;

/// The number of HTTP requests that a run makes in sequence.
pub(crate) const REQUESTS: u64 = 200;

/// How a case is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `skillhost run`, in a new process.
    Cold,
    /// In a host that is already running.
    Warm,
    /// With the machine's own program.
    Native,
    /// With `python3 -S -E`: without the `site` module and Python's environment variables.
    Bare,
    /// With the machine's own Python and the packages of the sandbox.
    Packages,
}

/// A case, run in one way.
#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) mode: Mode,
    pub(crate) case: Case,
}

impl bench::Cell for Cell {
    fn name(&self) -> String {
        let mode = match self.mode {
            Mode::Cold => "cold",
            Mode::Warm => "warm",
            Mode::Native => "native",
            Mode::Bare => "bare",
            Mode::Packages => "packages",
        };
        format!("{}, {mode}", self.case.id)
    }

    fn case(&self) -> &Case {
        &self.case
    }

    fn is_native(&self) -> bool {
        matches!(self.mode, Mode::Native | Mode::Packages)
    }

    fn command(&self, place: &Place) -> Result<Option<Command>, Error> {
        let mut native = self.case.native(place);
        Ok(match self.mode {
            Mode::Cold => Some(self.case.cold(place, &[])),
            Mode::Warm => None,
            Mode::Native => Some(native),
            Mode::Bare => {
                let mut bare = place.command(&place.python);
                bare.args(["-S", "-E"]).args(native.get_args());
                Some(bare)
            }
            Mode::Packages => {
                native.env("PYTHONPATH", place.packages());
                Some(native)
            }
        })
    }

    fn record(&self, turn: Result<&[Sample], &Error>, samples: &mut Samples) {
        samples.record(&self.name(), turn.map(|turn| turn.iter().map(|sample| sample.wall)));
        if let Some(name) = self.rate() {
            samples.record(name, turn.map(|turn| [rate(turn)]));
        }
    }
}

impl Cell {
    /// Returns the name of its rate per second, if a goal uses the rate.
    fn rate(&self) -> Option<&'static str> {
        match (self.case.id, self.mode) {
            ("component", Mode::Warm) => Some("component, a second"),
            ("true", Mode::Native) => Some("true, a second"),
            _ => None,
        }
    }
}

/// The folder of the small component's skill.
const COMPONENT: &str = "component";

/// Returns the case of the small component.
pub(crate) fn component() -> Case {
    Case::new("component", COMPONENT, Target::Component)
}

/// Returns the starts, which take milliseconds.
pub(crate) fn starts() -> Vec<Cell> {
    let [hello, imports, bash] = cases::starts();
    let component = component();
    [
        cells(&cases::nothing(), &[Mode::Native]),
        cells(&Case { batch: 10, ..hello }, &[Mode::Cold, Mode::Native, Mode::Bare, Mode::Warm]),
        cells(&imports, &[Mode::Cold, Mode::Native]),
        cells(&Case { batch: 10, ..bash }, &[Mode::Cold, Mode::Native, Mode::Warm]),
        cells(&Case { batch: 10, ..cases::javascript() }, &[Mode::Cold, Mode::Native, Mode::Warm]),
        cells(
            &Case::new("modules", "hello", Target::JavaScript("scripts/modules.mjs")),
            &[Mode::Cold, Mode::Native],
        ),
        cells(&Case { batch: 1_000, ..component }, &[Mode::Cold, Mode::Warm]),
    ]
    .concat()
}

/// Returns runs that repeat a small operation many times, and runs that skip it. `policy` allows
/// requests to the server at `port`.
pub(crate) fn repeats(port: u16, policy: &Path) -> Vec<Cell> {
    let children = |id, kind: &str, count: u64| {
        let case = script(id, "scripts/children.py").args(&[kind, &count.to_string()]);
        cells(&case, &[Mode::Cold, Mode::Native])
    };
    let url = format!("{}/", origin(port));
    let requests = |id, library: &str, count: u64, native| {
        let case = script(id, "scripts/requests_to.py").args(&[&url, &count.to_string(), library]);
        cells(&Case { policy: Some(policy.to_owned()), ..case }, &[Mode::Cold, native])
    };
    [
        children("python children", "python", CHILDREN),
        children("bash children", "bash", CHILDREN),
        children("no child", "bash", 0),
        requests("requests", "requests", REQUESTS, Mode::Packages),
        requests("requests none", "requests", 0, Mode::Packages),
        requests("urllib", "urllib", REQUESTS, Mode::Native),
        requests("urllib none", "urllib", 0, Mode::Native),
    ]
    .concat()
}

/// Returns the long cases.
pub(crate) fn work() -> Vec<Cell> {
    let compute =
        ["nothing", "fib", "nbody", "text"].map(|id| script(id, "scripts/compute.py").args(&[id]));
    let files = [script("blocks", "scripts/blocks.py"), script("files", "scripts/small_files.py")];
    let json = cases::all().into_iter().filter(|case| case.id == "json");
    let javascript = JAVASCRIPT.map(|(id, kind)| {
        Case::new(id, "work", Target::JavaScript("scripts/compute.js")).args(&[kind])
    });
    let cases = compute.into_iter().chain(files).chain(json).chain(javascript).chain([transform()]);
    cases.flat_map(|case| cells(&case, &[Mode::Cold, Mode::Native])).collect()
}

/// The kinds of computing in JavaScript, and the names of their cases.
const JAVASCRIPT: [(&str, &str); 5] = [
    ("javascript nothing", "nothing"),
    ("javascript fib", "fib"),
    ("javascript nbody", "nbody"),
    ("javascript expressions", "expressions"),
    ("javascript strings", "strings"),
];

/// Returns the case that transforms a JSON file.
fn transform() -> Case {
    let file = cases::json_name(cases::TRANSFORMED);
    let case = Case::new("transform", "work", Target::JavaScript("scripts/transform.js"));
    Case { input: Some(file.clone()), ..case.args(&[&file]) }
}

/// Writes the skill of the small component.
pub(crate) fn fill(place: &Place) -> Result<(), Error> {
    let (skill, component) = (place.skill(COMPONENT), place.programs.join("hello.wasm"));
    let text = "---\nname: component\ndescription: Says hello. Use when measuring what a component costs.\nallowed-tools: Read\nmetadata:\n  component: hello.wasm\n---\n\n# Component\n";
    files::write_if_changed(&skill.join("SKILL.md"), text.as_bytes())?;
    let copied = files::copy_if_changed(&component, &skill.join("hello.wasm"));
    copied.map(drop).map_err(|error| error.help("run `cargo xtask components`"))
}

/// Writes a policy that allows all requests of the scripts to the server at `port`, and returns the
/// path.
pub(crate) fn policy(place: &Place, port: u16) -> Result<PathBuf, Error> {
    let file = place.folder.join("requests.yaml");
    let entry = format!("WebFetch({})", origin(port));
    let text = format!(
        "limits: {{ http-requests: {REQUESTS} }}\ndefault: {{ allow: [Read, Write, Bash, \"{entry}\"] }}\n"
    );
    files::write_if_changed(&file, text.as_bytes())?;
    Ok(file)
}

fn origin(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// Returns the names of all measurements.
#[cfg(test)]
pub(crate) fn names() -> Vec<String> {
    let cells = [starts(), repeats(80, Path::new("policy.yaml")), work()].concat();
    let rates = cells.iter().filter_map(Cell::rate).map(str::to_owned);
    cells.iter().map(bench::Cell::name).chain(rates).chain(super::alive::names()).collect()
}

fn script(id: &'static str, path: &'static str) -> Case {
    Case::new(id, "work", Target::Python(path))
}

fn cells(case: &Case, modes: &[Mode]) -> Vec<Cell> {
    modes.iter().map(|mode| Cell { mode: *mode, case: case.clone() }).collect()
}
