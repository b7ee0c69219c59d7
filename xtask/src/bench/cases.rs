//! The cases: what is run, the same in every tier.

use std::path::PathBuf;

/// One thing to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    /// The skill's folder.
    pub(crate) skill: &'static str,
    pub(crate) what: What,
    pub(crate) args: Vec<String>,
    /// Its input, a file of the workspace. A case without input gets no workspace.
    pub(crate) input: Option<String>,
    /// The policy of its cold runs, where that is not the built-in one.
    pub(crate) policy: Option<PathBuf>,
    /// Invocations of the warm tier a round: as many as a round has time for.
    pub(crate) batch: usize,
}

/// What of the skill it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Python(&'static str),
    Bash(&'static str),
    /// The skill's component; natively, the same crate.
    Component,
}

/// A filter that reads all of its input and calculates.
const FILTER: &str =
    "group_by(.city) | map({city: .[0].city, orders: length, total: (map(.total) | add)})";

/// Bytes of the CSV file and of the JSON file.
pub(crate) const INPUT: u64 = 5_000_000;

/// Bytes of the CSV files by which growth with the input is shown.
pub(crate) const SIZES: [u64; 4] = [100_000, 500_000, 2_000_000, INPUT];

/// The five of the table.
pub(crate) fn all() -> Vec<Case> {
    vec![
        script("hello", "Python: hello", What::Python("scripts/hello.py"), 10),
        script("imports", "Python: six imports", What::Python("scripts/imports.py"), 10),
        report(INPUT),
        Case {
            id: "json",
            name: "Rust: 5 MB of JSON grouped",
            skill: "data-convert",
            what: What::Component,
            args: ["-c", "-f", FILTER, "orders.json"].map(str::to_owned).into(),
            input: Some("orders.json".into()),
            policy: None,
            batch: 1,
        },
        Case {
            args: vec!["access.log".into()],
            input: Some("access.log".into()),
            batch: 3,
            ..script("pipeline", "bash: pipeline of five", What::Bash("scripts/pipeline.sh"), 3)
        },
    ]
}

/// Those whose start is looked at phase by phase: what they do themselves is next to nothing.
pub(crate) fn starts() -> [Case; 3] {
    [
        script("hello", "Python: hello", What::Python("scripts/hello.py"), 1),
        script("imports", "Python: six imports", What::Python("scripts/imports.py"), 1),
        script("bash", "bash: hello", What::Bash("scripts/hello.sh"), 1),
    ]
}

/// A CSV report on a file of `bytes`.
pub(crate) fn report(bytes: u64) -> Case {
    let file = csv_name(bytes);
    Case {
        id: "csv-report",
        name: "Python: report on 5 MB of CSV",
        skill: "csv-report",
        what: What::Python("scripts/csv_report.py"),
        args: vec![file.clone(), "-o".into(), "report.html".into()],
        input: Some(file),
        policy: None,
        batch: 1,
    }
}

/// One that waits for the end of its input.
pub(crate) fn waiting() -> Case {
    script("wait", "Python: waits", What::Python("scripts/wait.py"), 1)
}

pub(crate) fn csv_name(bytes: u64) -> String {
    format!("orders-{bytes}.csv")
}

fn script(id: &'static str, name: &'static str, what: What, batch: usize) -> Case {
    Case { id, name, skill: "hello", what, args: Vec::new(), input: None, policy: None, batch }
}
