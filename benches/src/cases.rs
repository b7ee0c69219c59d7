//! The cases: the programs to run, which are the same in every tier.

use std::path::PathBuf;
use std::process::Command;

use crate::place::Place;

/// A program to run, with its arguments and input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    /// The skill's folder.
    pub(crate) skill: &'static str,
    pub(crate) target: Target,
    pub(crate) args: Vec<String>,
    /// The input, a file in the workspace. A case without input has no workspace.
    pub(crate) input: Option<String>,
    /// The policy of cold runs, if not the built-in one.
    pub(crate) policy: Option<PathBuf>,
    /// The number of warm invocations per round.
    pub(crate) batch: usize,
}

/// The part of the skill that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Python(&'static str),
    Bash(&'static str),
    JavaScript(&'static str),
    /// The skill's component; natively, the same crate.
    Component,
    /// `/bin/true`, the cost of an empty process. It only runs natively.
    True,
}

/// A filter that reads all of its input and does calculations.
const FILTER: &str =
    "group_by(.city) | map({city: .[0].city, orders: length, total: (map(.total) | add)})";

/// The size of the CSV file and of the JSON file, in bytes.
pub(crate) const INPUT: u64 = 5_000_000;

/// The size of the JSON file that JavaScript transforms, in bytes.
pub(crate) const TRANSFORMED: u64 = 1_000_000;

/// The sizes of the CSV files that show how time grows with the input, in bytes.
pub(crate) const SIZES: [u64; 4] = [100_000, 500_000, 2_000_000, INPUT];

/// More than the largest input takes, because a run that hits the limit yields no figure.
const TIMEOUT: &str = "10m";

/// Returns the cases of the isolation benchmark.
pub(crate) fn all() -> Vec<Case> {
    let filter = ["-c", "-f", FILTER, "orders.json"];
    let pipeline = Case::new("pipeline", "hello", Target::Bash("scripts/pipeline.sh"));
    vec![
        Case { batch: 10, ..hello() },
        Case { batch: 10, ..imports() },
        Case { batch: 10, ..javascript() },
        report(INPUT),
        Case {
            name: "Rust: 5 MB of JSON grouped",
            input: Some("orders.json".into()),
            ..Case::new("json", "data-convert", Target::Component).args(&filter)
        },
        Case {
            name: "bash: pipeline of five",
            input: Some("access.log".into()),
            batch: 3,
            ..pipeline.args(&["access.log"])
        },
    ]
}

/// Returns the cases whose starts are measured in phases. They do almost nothing themselves.
pub(crate) fn starts() -> [Case; 3] {
    let bash = Case::new("bash", "hello", Target::Bash("scripts/hello.sh"));
    [hello(), imports(), Case { name: "bash: hello", ..bash }]
}

pub(crate) fn hello() -> Case {
    let script = Target::Python("scripts/hello.py");
    Case { name: "Python: hello", ..Case::new("hello", "hello", script) }
}

/// Returns the JavaScript hello.
pub(crate) fn javascript() -> Case {
    let script = Target::JavaScript("scripts/hello.js");
    Case { name: "JavaScript: hello", ..Case::new("javascript", "hello", script) }
}

fn imports() -> Case {
    let script = Target::Python("scripts/imports.py");
    Case { name: "Python: six imports", ..Case::new("imports", "hello", script) }
}

/// Returns the CSV report on a file of `bytes`.
pub(crate) fn report(bytes: u64) -> Case {
    let file = csv_name(bytes);
    let case = Case::new("csv-report", "csv-report", Target::Python("scripts/csv_report.py"));
    Case {
        name: "Python: report on 5 MB of CSV",
        input: Some(file.clone()),
        ..case.args(&[&file, "-o", "report.html"])
    }
}

/// Returns a case that waits for the end of its input.
pub(crate) fn waiting() -> Case {
    Case::new("wait", "hello", Target::Python("scripts/wait.py"))
}

/// As [`waiting`], in JavaScript.
pub(crate) fn waiting_javascript() -> Case {
    Case::new("javascript-wait", "hello", Target::JavaScript("scripts/wait.js"))
}

/// Returns `/bin/true`: the cost of an empty process.
pub(crate) fn nothing() -> Case {
    Case::new("true", "hello", Target::True)
}

pub(crate) fn json_name(bytes: u64) -> String {
    match bytes {
        INPUT => "orders.json".into(),
        bytes => format!("orders-{bytes}.json"),
    }
}

pub(crate) fn csv_name(bytes: u64) -> String {
    format!("orders-{bytes}.csv")
}

impl Case {
    pub(crate) fn new(id: &'static str, skill: &'static str, target: Target) -> Case {
        let (args, input, policy) = (Vec::new(), None, None);
        Case { id, name: id, skill, target, args, input, policy, batch: 1 }
    }

    pub(crate) fn args(self, args: &[&str]) -> Case {
        Case { args: args.iter().map(|arg| (*arg).to_owned()).collect(), ..self }
    }

    /// Returns a word that identifies the case and its input.
    pub(crate) fn key(&self) -> String {
        let input = self.input.iter().map(|input| format!(":{input}")).collect::<String>();
        format!("{}{input}", self.id)
    }

    /// Returns the command that runs the case with the machine's own program.
    pub(crate) fn native(&self, place: &Place) -> Command {
        let mut command = match self.target {
            Target::Python(_) => place.command(&place.python),
            Target::Bash(_) => place.command("/bin/bash"),
            Target::JavaScript(_) => place.command(&place.node),
            Target::Component => place.command(&place.converter),
            Target::True => place.command("/bin/true"),
        };
        command.args(self.target.script().map(|script| place.skill(self.skill).join(script)));
        command.args(&self.args);
        command
    }

    /// Returns the command that runs the case with `skillhost run` and these flags.
    pub(crate) fn cold(&self, place: &Place, flags: &[&str]) -> Command {
        let mut command = place.command(&place.skillhost);
        command.env("SKILLHOST_PROGRAMS", &place.programs).arg("run").arg(place.skill(self.skill));
        command.args(self.target.script());
        if self.input.is_some() {
            command.arg("--workspace").arg(place.workspace()).args(["--timeout", TIMEOUT]);
        }
        if let Some(policy) = &self.policy {
            command.arg("--policy").arg(policy);
        }
        command.args(flags).arg("--").args(&self.args);
        command
    }
}

impl Target {
    /// Returns the path of the script in the skill.
    pub(crate) fn script(self) -> Option<&'static str> {
        match self {
            Target::Python(script) | Target::Bash(script) | Target::JavaScript(script) => {
                Some(script)
            }
            Target::Component | Target::True => None,
        }
    }
}
