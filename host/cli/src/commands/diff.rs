//! `skillhost diff`: show the first difference between two runs.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use skillhost_ledger::receipt::compare::{Difference, RunPart, differences_by_part};
use skillhost_sandbox::recording::Header;
use skillhost_sandbox::recording::folder::StoredRecording;

use crate::commands::verify;
use crate::error::{CliError, Exit};
use crate::output;
use crate::output::differences::{MAX, Sides};

/// Show the first difference between two runs, from their receipts or recordings
///
/// Compares causes before their effects: the skill, the runtime, the input, the capabilities, seed
/// and start time, what the run requested from the host, its output, and its cost. Ignores wall
/// times.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost diff before.json after.json
  skillhost diff recording-of-monday recording-of-tuesday
  skillhost diff one two --json | jq .first

Exit codes:
    0  no difference
    1  the runs differ")]
pub(crate) struct Args {
    /// The file of a receipt, or the folder of a recording
    a: PathBuf,
    /// The other one
    b: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Report {
    same: bool,
    /// The first difference: the part of the run, and the field.
    first: Option<Entry>,
    differences: Vec<Entry>,
}

#[derive(Debug, Clone, Serialize)]
struct Entry {
    part: RunPart,
    field: String,
    a: Option<Value>,
    b: Option<Value>,
}

const SIDES: Sides = Sides("A", "B");

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let (mut a, mut b) = (read(&args.a)?, read(&args.b)?);
    // A receipt does not say which requests left the host.
    if a.get(EXCHANGES).is_none() || b.get(EXCHANGES).is_none() {
        for run in [&mut a, &mut b] {
            run.as_object_mut().and_then(|fields| fields.remove(EXCHANGES));
        }
    }
    let differences = differences_by_part(&a, &b);
    let exit = if differences.is_empty() { Exit::Ok } else { Exit::Findings };
    if args.json {
        let entry = |(part, difference): &(RunPart, Difference)| Entry {
            part: *part,
            field: difference.field.clone(),
            a: difference.receipt.clone(),
            b: difference.here.clone(),
        };
        let differences: Vec<Entry> = differences.iter().map(entry).collect();
        output::json(&Report {
            same: differences.is_empty(),
            first: differences.first().cloned(),
            differences,
        })?;
    } else {
        output::text(&text(&differences))?;
    }
    Ok(exit)
}

fn text(differences: &[(RunPart, Difference)]) -> String {
    let Some((first, _)) = differences.first() else { return "no difference".into() };
    let mut text = format!("first difference: {}\n", label(*first));
    let mut last = None;
    for (part, difference) in differences.iter().take(MAX) {
        if last.replace(part) != Some(part) {
            text += &format!("{}:\n", label(*part));
        }
        text += &format!("  {}\n", output::lines(&SIDES.describe(difference), 2));
    }
    if differences.len() > MAX {
        text += &format!("and {} more\n", differences.len() - MAX);
    }
    text
}

fn label(part: RunPart) -> &'static str {
    match part {
        RunPart::Skill => "skill",
        RunPart::Runtime => "runtime",
        RunPart::Input => "input",
        RunPart::Capability => "capabilities",
        RunPart::Start => "seed or start time",
        RunPart::HostCall => "host calls",
        RunPart::Output => "output",
        RunPart::Cost => "cost",
    }
}

/// The field with the requests of a recorded run.
const EXCHANGES: &str = "exchanges";

/// Reads a receipt; or a recording, as its receipt and the requests of the run.
fn read(path: &Path) -> Result<Value, CliError> {
    if !path.is_dir() {
        return Ok(verify::read(path)?.receipt);
    }
    let mut recording = StoredRecording::read(path)?.recording;
    let salt = std::mem::take(&mut recording.sealed.salt);
    for exchange in &mut recording.exchanges {
        exchange.took = 0;
        // Each recording has its own salt.
        let unsalted = |header: &mut Header| {
            header.secret = header.secret.take().map(|_| "secret".into());
        };
        exchange.request.headers.iter_mut().for_each(unsalted);
    }
    let exchanges = json!(recording.exchanges);
    let mut run = match recording.receipt.take() {
        Some(receipt) => receipt,
        None => json!({
            "input": {
                "arguments": recording.arguments,
                "stdin": recording.stdin,
                "files": { "table": recording.folders },
            },
            "runtime": recording.runtime,
            "grant": { "policy": recording.policy, "capabilities": recording.capabilities },
            "result": { "status": recording.status },
        }),
    };
    run[EXCHANGES] = exchanges;
    // Replaces in the JSON text, because a placeholder needs no escapes there.
    let text = run.to_string().replace(&format!("{{{{secret:{salt}:"), "{{secret:");
    serde_json::from_str(&text).map_err(|error| CliError::invalid(error.to_string()))
}
