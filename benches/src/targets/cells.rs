//! What is measured for the goals: a case, and how it is run.

use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, files};

use super::goals::rate;
use crate::bench;
use crate::cases::{self, Case, Target};
use crate::measure::Sample;
use crate::place::Place;
use crate::samples::Samples;

/// Children that a run starts one after the other.
pub(crate) const CHILDREN: u64 = 50;

/// HTTP requests that a run makes one after the other.
pub(crate) const REQUESTS: u64 = 200;

/// How a case is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// `skillhost run`, in a new process.
    Cold,
    /// In a host that lives on.
    Warm,
    /// By the machine's own program.
    Native,
    /// `python3 -S -E`: without the `site` module, and without the variables of its environment.
    Bare,
    /// By the machine's own Python with the packages that the sandbox has.
    Packages,
}

/// A case, run in one way.
#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) how: How,
    pub(crate) case: Case,
}

impl bench::Cell for Cell {
    fn name(&self) -> String {
        let how = match self.how {
            How::Cold => "cold",
            How::Warm => "warm",
            How::Native => "native",
            How::Bare => "bare",
            How::Packages => "packages",
        };
        format!("{}, {how}", self.case.id)
    }

    fn case(&self) -> &Case {
        &self.case
    }

    fn is_native(&self) -> bool {
        matches!(self.how, How::Native | How::Packages)
    }

    fn command(&self, place: &Place) -> Result<Option<Command>, Error> {
        let mut native = self.case.native(place);
        Ok(match self.how {
            How::Cold => Some(self.case.cold(place, &[])),
            How::Warm => None,
            How::Native => Some(native),
            How::Bare => {
                let mut bare = place.command(&place.python);
                bare.args(["-S", "-E"]).args(native.get_args());
                Some(bare)
            }
            How::Packages => {
                native.env("PYTHONPATH", place.packages());
                Some(native)
            }
        })
    }

    fn note(&self, turn: Result<&[Sample], &Error>, samples: &mut Samples) {
        samples.note(&self.name(), turn.map(|turn| turn.iter().map(|sample| sample.wall)));
        if let Some(name) = self.rate() {
            samples.note(name, turn.map(|turn| [rate(turn)]));
        }
    }
}

impl Cell {
    /// The name of its rate per second, if that is in a figure.
    fn rate(&self) -> Option<&'static str> {
        match (self.case.id, self.how) {
            ("component", How::Warm) => Some("component, a second"),
            ("true", How::Native) => Some("true, a second"),
            _ => None,
        }
    }
}

/// The folder of the small component's skill.
const COMPONENT: &str = "component";

/// Starts, which take milliseconds.
pub(crate) fn starts() -> Vec<Cell> {
    let [hello, imports, bash] = cases::starts();
    let component = Case::new("component", COMPONENT, Target::Component);
    [
        cells(&cases::nothing(), &[How::Native]),
        cells(&Case { batch: 10, ..hello }, &[How::Cold, How::Native, How::Bare, How::Warm]),
        cells(&imports, &[How::Cold, How::Native]),
        cells(&Case { batch: 10, ..bash }, &[How::Cold, How::Native, How::Warm]),
        cells(&Case { batch: 1_000, ..component }, &[How::Cold, How::Warm]),
    ]
    .concat()
}

/// Runs that do a small thing many times, and not at all. `policy` lets them ask the server at
/// `port`.
pub(crate) fn repeats(port: u16, policy: &Path) -> Vec<Cell> {
    let children = |id, kind: &str, count: u64| {
        let case = script(id, "scripts/children.py").args(&[kind, &count.to_string()]);
        cells(&case, &[How::Cold, How::Native])
    };
    let url = format!("{}/", origin(port));
    let requests = |id, library: &str, count: u64, native| {
        let case = script(id, "scripts/requests_to.py").args(&[&url, &count.to_string(), library]);
        cells(&Case { policy: Some(policy.to_owned()), ..case }, &[How::Cold, native])
    };
    [
        children("python children", "python", CHILDREN),
        children("bash children", "bash", CHILDREN),
        children("no child", "bash", 0),
        requests("requests", "requests", REQUESTS, How::Packages),
        requests("requests none", "requests", 0, How::Packages),
        requests("urllib", "urllib", REQUESTS, How::Native),
        requests("urllib none", "urllib", 0, How::Native),
    ]
    .concat()
}

/// Work that takes a while.
pub(crate) fn work() -> Vec<Cell> {
    let compute =
        ["nothing", "fib", "nbody", "text"].map(|id| script(id, "scripts/compute.py").args(&[id]));
    let files = [script("blocks", "scripts/blocks.py"), script("files", "scripts/small_files.py")];
    let json = cases::all().into_iter().filter(|case| case.id == "json");
    let cases = compute.into_iter().chain(files).chain(json);
    cases.flat_map(|case| cells(&case, &[How::Cold, How::Native])).collect()
}

/// Writes the skill of the small component.
pub(crate) fn fill(place: &Place) -> Result<(), Error> {
    let (skill, component) = (place.skill(COMPONENT), place.programs.join("hello.wasm"));
    let text = "---\nname: component\ndescription: Says hello. Use when measuring what a component costs.\nallowed-tools: Read\nmetadata:\n  component: hello.wasm\n---\n\n# Component\n";
    files::write_if_changed(&skill.join("SKILL.md"), text.as_bytes())?;
    let copied = files::copy_if_changed(&component, &skill.join("hello.wasm"));
    copied.map(drop).map_err(|error| error.help("`cargo xtask components`"))
}

/// Writes a policy that lets scripts ask the server at `port` as often as they do here, and returns
/// its file.
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

/// The names of all that is measured.
#[cfg(test)]
pub(crate) fn names() -> Vec<String> {
    let cells = [starts(), repeats(80, Path::new("policy.yaml")), work()].concat();
    let rates = cells.iter().filter_map(Cell::rate).map(str::to_owned);
    cells.iter().map(bench::Cell::name).chain(rates).chain(super::living::names()).collect()
}

fn script(id: &'static str, path: &'static str) -> Case {
    Case::new(id, "work", Target::Python(path))
}

fn cells(case: &Case, hows: &[How]) -> Vec<Cell> {
    hows.iter().map(|how| Cell { how: *how, case: case.clone() }).collect()
}
