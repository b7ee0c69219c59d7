//! `skillhost diff`: in what two runs differ first, by their receipts or recordings.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use skillhost_ledger::receipt::compare::{Difference, RunPart, differences_by_part};
use skillhost_sandbox::recording::folder::Kept;

use super::exit::Exit;
use super::record::failure;
use super::verify::{TOLD, read, told};
use super::{Failure, show};

/// Tells in what two runs differ first, by their receipts or recordings
///
/// What decides comes before what follows from it: the skill, what the run stood on, its input, its
/// capabilities, the seed and the start time, what it asked of the host, what it put out, and what
/// that cost. Times that differ are no difference.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost diff before.json after.json
  skillhost diff recording-of-monday recording-of-tuesday
  skillhost diff one two --json | jq .first

Exit codes beside those of all verbs:
    0  no difference
    1  there is one")]
pub(crate) struct Args {
    /// A receipt's file, or a recording's folder
    a: PathBuf,
    /// Another
    b: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    same: bool,
    /// What differed first: the part of the run, and the field.
    first: Option<Found>,
    differences: Vec<Found>,
}

#[derive(Debug, Clone, Serialize)]
struct Found {
    part: RunPart,
    field: String,
    a: Option<Value>,
    b: Option<Value>,
}

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let (a, b) = (run(&args.a)?, run(&args.b)?);
    let both = a.get("exchanges").is_some() && b.get("exchanges").is_some();
    let strip = |mut value: Value| {
        // Of a receipt, what left the host is not known.
        if !both && let Some(fields) = value.as_object_mut() {
            fields.remove("exchanges");
        }
        value
    };
    let differences = differences_by_part(&strip(a), &strip(b));
    let exit = if differences.is_empty() { Exit::Ok } else { Exit::Findings };
    if args.json {
        let found = |(part, difference): &(RunPart, Difference)| Found {
            part: *part,
            field: difference.field.clone(),
            a: difference.receipt.clone(),
            b: difference.here.clone(),
        };
        let differences: Vec<Found> = differences.iter().map(found).collect();
        show::json(&Report {
            same: differences.is_empty(),
            first: differences.first().cloned(),
            differences,
        })?;
        return Ok(exit);
    }
    let Some((first, _)) = differences.first() else {
        show::text("no difference")?;
        return Ok(exit);
    };
    let mut text = format!("first difference: {}\n", first.name());
    let mut part = None;
    for (of, difference) in differences.iter().take(TOLD) {
        if part != Some(*of) {
            text += &format!("{}:\n", of.name());
            part = Some(*of);
        }
        text += &format!("  {}\n", show::lines(&told(difference).replace(", here ", ", then "), 2));
    }
    if differences.len() > TOLD {
        text += &format!("and {} more\n", differences.len() - TOLD);
    }
    show::text(&text)?;
    Ok(exit)
}

/// What is known of a run: its receipt, and of a recording what it asked of the network.
fn run(path: &Path) -> Result<Value, Failure> {
    if !path.is_dir() {
        return Ok(read(path)?.receipt);
    }
    let mut recording = Kept::read(path).map_err(failure)?.recording;
    let salt = std::mem::take(&mut recording.sealed.salt);
    for exchange in &mut recording.exchanges {
        exchange.took = 0;
        // Each recording has its own salt.
        let secret = |field: &mut skillhost_sandbox::recording::Header| {
            field.secret = field.secret.take().map(|_| "secret".into())
        };
        exchange.request.headers.iter_mut().for_each(secret);
    }
    let exchanges = json!(recording.exchanges);
    let mut run = match recording.receipt.take() {
        Some(receipt) => receipt,
        None => json!({
            "input": { "arguments": recording.arguments, "stdin": recording.stdin, "files": { "table": recording.folders } },
            "runtime": recording.runtime, "grant": { "policy": recording.policy, "capabilities": recording.capabilities },
            "result": { "status": recording.status },
        }),
    };
    run["exchanges"] = exchanges;
    // The text of JSON: a placeholder needs no escape.
    let text = run.to_string().replace(&format!("{{{{secret:{salt}:"), "{{secret:");
    serde_json::from_str(&text).map_err(|error| Failure::new(Exit::Invalid, error.to_string()))
}
