//! What is measured for the goals: a case, and how it is run.

use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, files};

use super::super::cases::{self, Case, What};
use super::super::place::Place;
use super::super::tiers;

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
pub(crate) struct Cell {
    pub(crate) how: How,
    pub(crate) case: Case,
}

impl Cell {
    pub(crate) fn name(&self) -> String {
        let how = match self.how {
            How::Cold => "cold",
            How::Warm => "warm",
            How::Native => "native",
            How::Bare => "bare",
            How::Packages => "packages",
        };
        format!("{}, {how}", self.case.id)
    }

    /// The name of how many a second it comes to, where that is in a figure.
    pub(crate) fn rate(&self) -> Option<&'static str> {
        match (self.case.id, self.how) {
            ("component", How::Warm) => Some("component, a second"),
            (TRUE, How::Native) => Some("true, a second"),
            _ => None,
        }
    }

    /// The command that runs it.
    ///
    /// # Errors
    /// A warm one is no process of its own.
    pub(crate) fn command(&self, place: &Place) -> Result<Command, Error> {
        let (case, native) = (&self.case, tiers::native(place, &self.case));
        match self.how {
            How::Cold => Ok(tiers::skillhost(place, case, false)),
            How::Warm => Err(Error::new("the warm tier is no process of its own")),
            How::Native if case.id == TRUE => Ok(place.command("/bin/true".as_ref())),
            How::Native => Ok(native),
            How::Bare => {
                let mut bare = place.command(&place.python);
                bare.args(["-S", "-E"]).args(native.get_args());
                Ok(bare)
            }
            How::Packages => {
                let mut command = native;
                command.env("PYTHONPATH", place.packages());
                Ok(command)
            }
        }
    }
}

/// The case of `/bin/true`.
pub(crate) const TRUE: &str = "true";

/// The folder of the small component's skill.
const COMPONENT: &str = "component";

/// Starts, which take milliseconds.
pub(crate) fn starts() -> Vec<Cell> {
    let hello = |id, what, batch| Case { batch, ..case(id, "hello", what, &[]) };
    let python = hello("hello", What::Python("scripts/hello.py"), 10);
    let imports = hello("imports", What::Python("scripts/imports.py"), 1);
    let bash = hello("bash", What::Bash("scripts/hello.sh"), 10);
    let component = Case { batch: 1_000, ..case("component", COMPONENT, What::Component, &[]) };
    let nothing = case(TRUE, COMPONENT, What::Component, &[]);
    let cells = |case: &Case, hows: &[How]| {
        hows.iter().map(|how| Cell { how: *how, case: case.clone() }).collect::<Vec<_>>()
    };
    [
        cells(&nothing, &[How::Native]),
        cells(&python, &[How::Cold, How::Native, How::Bare, How::Warm]),
        cells(&imports, &[How::Cold, How::Native]),
        cells(&bash, &[How::Cold, How::Native, How::Warm]),
        cells(&component, &[How::Cold, How::Warm]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Runs that do a small thing many times, and not at all. `policy` lets them ask the server at
/// `port`.
pub(crate) fn repeats(port: u16, policy: &Path) -> Vec<Cell> {
    let children = |id, kind, count: u64| {
        case(id, "work", What::Python("scripts/children.py"), &[kind, &count.to_string()])
    };
    let url = format!("{}/", origin(port));
    let requests = |id, library, count: u64| Case {
        policy: Some(policy.to_owned()),
        ..case(
            id,
            "work",
            What::Python("scripts/requests_to.py"),
            &[&url, &count.to_string(), library],
        )
    };
    [
        pair(children("python children", "python", CHILDREN), How::Native),
        pair(children("bash children", "bash", CHILDREN), How::Native),
        pair(children("no child", "bash", 0), How::Native),
        pair(requests("requests", "requests", REQUESTS), How::Packages),
        pair(requests("requests none", "requests", 0), How::Packages),
        pair(requests("urllib", "urllib", REQUESTS), How::Native),
        pair(requests("urllib none", "urllib", 0), How::Native),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Work that takes a while.
pub(crate) fn work() -> Vec<Cell> {
    let compute = |id| case(id, "work", What::Python("scripts/compute.py"), &[id]);
    let json = cases::all().into_iter().filter(|case| case.id == "json");
    let scripts = [
        compute("nothing"),
        compute("fib"),
        compute("nbody"),
        compute("text"),
        case("blocks", "work", What::Python("scripts/blocks.py"), &[]),
        case("files", "work", What::Python("scripts/small_files.py"), &[]),
    ];
    scripts.into_iter().chain(json).flat_map(|case| pair(case, How::Native)).collect()
}

/// Writes the skill of the small component.
pub(crate) fn fill(place: &Place) -> Result<(), Error> {
    let (skill, made) = (place.skill(COMPONENT), place.programs.join("hello.wasm"));
    let text = "---\nname: component\ndescription: Says hello. Use when measuring what a component costs.\nallowed-tools: Read\nmetadata:\n  component: hello.wasm\n---\n\n# Component\n";
    files::write_if_changed(&skill.join("SKILL.md"), text.as_bytes())?;
    let copied = files::copy_if_changed(&made, &skill.join("hello.wasm"));
    copied.map(drop).map_err(|error| Error::new(error.to_string()).help("`cargo xtask components`"))
}

/// Writes a policy that lets scripts ask the server at `port` so often as they do here, and returns
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

/// What is measured beside the cells: crowds, idle processes.
#[cfg(test)]
const OTHERS: [&str; 8] = [
    "10 alive, of each",
    "10 alive, last start",
    "1,000 alive, of each",
    "1,000 alive, first start",
    "1,000 alive, last start",
    "mcp, idle",
    "serve, idle",
    "python3, idle",
];

/// The names of all that is measured.
#[cfg(test)]
pub(crate) fn names() -> Vec<String> {
    let cells = [starts(), repeats(80, Path::new("policy.yaml")), work()];
    let rates = cells.iter().flatten().filter_map(Cell::rate).chain(OTHERS).map(str::to_owned);
    cells.iter().flatten().map(Cell::name).chain(rates).collect()
}

fn pair(case: Case, native: How) -> Vec<Cell> {
    vec![Cell { how: How::Cold, case: case.clone() }, Cell { how: native, case }]
}

fn case(id: &'static str, skill: &'static str, what: What, args: &[&str]) -> Case {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    Case { id, name: id, skill, what, args, input: None, policy: None, batch: 1 }
}
