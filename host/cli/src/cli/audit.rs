//! `skillhost audit`: what is in the audit log, and whether it is what was written.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use comfy_table::{ContentArrangement, Table, presets};
use jiff::Timestamp;
use serde::Deserialize;
use skillhost_ledger::audit::{
    AuditError, ChainHead, Log, LogEntry, LogStore, RecordFilter, log_entry,
};
use skillhost_policy::Retention;
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::Limit;

use super::exit::Exit;
use super::permissions::PolicyFile;
use super::places::Places;
use super::{Failure, show};

/// Shows the audit log, verifies its chain, exports and prunes it
///
/// Every run appends one record, which carries the digest of the record before. What is looked at
/// goes through a database beside the log.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost audit list --status denied --since 7d
  skillhost audit show 17
  skillhost audit verify --head 1042:sha256:5891b5b522d5df08...
  skillhost audit export --skill web-fetch > web-fetch.jsonl
  skillhost audit prune --older-than 90d
  skillhost audit prune                              what the policy says: audit: { keep: 90d, keep-size: 1GiB }")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// The log, instead of the one in the state folder
    #[arg(long, value_name = "FILE", global = true)]
    audit: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists records, the newest first
    List {
        #[command(flatten)]
        which: Which,
        /// At most as many; 0 for all
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u64,
        /// Print the records, one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Prints one record
    Show {
        /// Its number, as `list` shows it
        number: u64,
    },
    /// Tells whether the log is what was written: nothing changed, removed, moved or put in
    Verify {
        /// A record that must be there, as `audit head` printed it: only so can the loss of the
        /// last records be told
        #[arg(long, value_name = "NUMBER:DIGEST", value_parser = head)]
        head: Option<ChainHead>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Prints the number and digest of the last record, to be kept elsewhere
    Head,
    /// Prints records as they are in the log, the oldest first
    Export {
        #[command(flatten)]
        which: Which,
        /// In which form
        #[arg(long, value_enum, default_value_t = Form::Jsonl)]
        form: Form,
    },
    /// Removes the oldest records: what the flags say, else what the policy does. What is left can
    /// still be verified
    Prune {
        /// Those older than this, such as 90d
        #[arg(long, value_name = "TIME", value_parser = age)]
        older_than: Option<Duration>,
        /// The oldest, until the rest takes at most this, such as 1GiB
        #[arg(long, value_name = "SIZE", value_parser = |text: &str| Limit::Disk.parse(text))]
        keep_size: Option<u64>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        file: PolicyFile,
    },
}

/// Which records.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Filters")]
struct Which {
    /// Of this skill
    #[arg(long, value_name = "NAME")]
    skill: Option<String>,
    /// That ended so
    #[arg(long, value_name = "KIND", value_parser = ["exited", "denied", "invalid", "failed", "limit-hit", "trapped", "interrupted", "started", "pruned"])]
    status: Option<String>,
    /// Since then: a time such as 2026-01-31T12:00:00Z, a date, or how long ago, such as 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Before then, written likewise
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
    /// In which this host was asked over HTTP
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// In which this program or script ran, such as python3 or scripts/report.py
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    /// JSON lines
    Jsonl,
    /// Comma-separated values, of the columns that `list` shows
    Csv,
}

pub(crate) fn main(args: Args) -> Result<Exit, Failure> {
    let path = match args.audit {
        Some(path) => path,
        None => Places::find()?.audit(),
    };
    let open = || LogStore::open(&path).map_err(unreadable);
    match args.verb {
        Verb::List { which, limit, json } => {
            list(&open()?, &which.filter(Some(limit).filter(|limit| *limit > 0)), json)
        }
        Verb::Show { number } => match open()?.record(number).map_err(unreadable)? {
            Some(line) => show::json(&parsed::<serde_json::Value>(&line)?).map(|()| Exit::Ok),
            None => Err(Failure::new(Exit::Usage, format!("the audit log has no record {number}"))
                .fix("`skillhost audit list` shows those that it has")),
        },
        Verb::Verify { head, json } => verify(&open()?, head.as_ref(), json),
        Verb::Head => {
            let ChainHead { sequence, digest } = open()?.head().map_err(unreadable)?;
            show::text(&format!("{sequence}:{digest}")).map(|()| Exit::Ok)
        }
        Verb::Export { which, form } => export(&open()?, which.filter(None), form),
        Verb::Prune { older_than, keep_size, file, json } => {
            let given = Retention { age: older_than, bytes: keep_size };
            let retention =
                if given.is_forever() { file.read(&Places::find()?)?.retention } else { given };
            if retention.is_forever() {
                let message = "neither a flag nor the policy says what to remove";
                return Err(Failure::new(Exit::Usage, message)
                    .fix("--older-than 90d, or in the policy file: audit: { keep: 90d }"));
            }
            let log = Log::open(&path).map_err(unreadable)?;
            let removal = open()?.retain(&log, retention).map_err(unreadable)?;
            match &removal {
                _ if json => show::json(&removal)?,
                Some(removal) => {
                    show::text(&format!("removed the records up to {}", removal.pruned.sequence))?
                }
                None => show::text("nothing to remove")?,
            }
            Ok(Exit::Ok)
        }
    }
}

impl Which {
    fn filter(self, limit: Option<u64>) -> RecordFilter {
        let Which { skill, status, since, until, host, program } = self;
        let host = host.map(|host| host.to_ascii_lowercase());
        RecordFilter {
            skill,
            status,
            program,
            host,
            since,
            until,
            limit,
            ..RecordFilter::default()
        }
    }
}

const COLUMNS: [&str; 7] = ["number", "time", "skill", "program", "status", "denials", "wall ms"];

/// What a list shows of a record.
fn cells(store: &LogStore, line: &[u8]) -> Result<[String; 7], Failure> {
    let told: LogEntry = parsed(line)?;
    let is_running =
        told.status.kind == "started" && store.is_running(&told).map_err(unreadable)?;
    let LogEntry { sequence, time, skill, program, status, usage, denials, pruned, .. } = told;
    // To the second: the record has the rest.
    let time = time.split_once('.').map_or(time.clone(), |(second, _)| format!("{second}Z"));
    let program = program
        .map(|log_entry::EntryProgram { name, script, tool }| {
            script.map(|script| script.path).or(tool).unwrap_or(name)
        })
        .unwrap_or_default();
    let status = match (&status.code, &status.limit, &pruned) {
        (_, _, Some(head)) => format!("pruned up to {}", head.sequence),
        _ if is_running => "running".into(),
        _ if status.kind == "started" => "started, no end recorded".into(),
        (Some(code), ..) => format!("{} {code}", status.kind),
        (_, Some(limit), _) => format!("{} {limit}", status.kind),
        _ => status.kind,
    };
    Ok([
        sequence.to_string(),
        time,
        skill.name,
        program,
        status,
        denials.len().to_string(),
        format!("{:.1}", usage.wall_ms),
    ])
}

fn list(store: &LogStore, filter: &RecordFilter, json: bool) -> Result<Exit, Failure> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(COLUMNS);
    let mut out = Batch::default();
    store.query(filter, |line| {
        if json {
            return out.line(line);
        }
        table.add_row(cells(store, line)?.map(|cell| printable(&cell)));
        Ok(())
    })?;
    if json {
        out.end()?
    } else {
        show::text(
            &table.to_string().lines().map(|line| format!("{}\n", line.trim())).collect::<String>(),
        )?
    }
    Ok(Exit::Ok)
}

fn export(store: &LogStore, filter: RecordFilter, form: Form) -> Result<Exit, Failure> {
    // A table has a row for each run; the lines of the log have the start of each as well.
    let filter =
        RecordFilter { oldest_first: true, all_starts: matches!(form, Form::Jsonl), ..filter };
    let mut out = Batch::default();
    if let Form::Csv = form {
        out.line(COLUMNS.join(",").as_bytes())?;
    }
    store.query(&filter, |line| match form {
        Form::Jsonl => out.line(line),
        Form::Csv => out.line(cells(store, line)?.map(|cell| quoted(&cell)).join(",").as_bytes()),
    })?;
    out.end()?;
    Ok(Exit::Ok)
}

/// A field of comma-separated values, as RFC 4180 writes it. A skill's name may be anything.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

fn verify(store: &LogStore, known: Option<&ChainHead>, json: bool) -> Result<Exit, Failure> {
    let verified = store.verify(known).map_err(unreadable)?;
    if json {
        show::json(&verified)?;
    } else {
        let mut text = String::new();
        for fault in &verified.faults {
            text += &format!("{}\n", printable(&fault.message));
        }
        if verified.faults_omitted > 0 {
            text += &format!("and {} more\n", verified.faults_omitted);
        }
        if let Some(pruned) = &verified.pruned {
            text +=
                &format!("the records up to {} were removed by `audit prune`\n", pruned.sequence);
        }
        if verified.unfinished > 0 {
            text += &format!(
                "runs that were started and have no end recorded: {} (`audit list --status started`)\n",
                verified.unfinished
            );
        }
        if verified.torn > 0 {
            text += &format!(
                "{} bytes of records that were never finished are set aside\n",
                verified.torn
            );
        }
        let state = if verified.faults.is_empty() {
            "all as they were written"
        } else {
            "not as they were written"
        };
        text += &format!(
            "{} records, {state}; the last is {}:{}",
            verified.records, verified.head.sequence, verified.head.digest
        );
        show::text(&text)?;
    }
    Ok(if verified.faults.is_empty() { Exit::Ok } else { Exit::Findings })
}

/// Lines for stdout, many at a time.
#[derive(Default)]
struct Batch(Vec<u8>);

impl Batch {
    fn line(&mut self, line: &[u8]) -> Result<(), Failure> {
        self.0.extend_from_slice(line);
        self.0.push(b'\n');
        if self.0.len() > 64 << 10 { self.end() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<(), Failure> {
        let bytes = std::mem::take(&mut self.0);
        match std::str::from_utf8(&bytes) {
            // What a guest named reaches no terminal as it is.
            Ok(text) if std::io::stdout().is_terminal() => show::foreign(text.trim_end()),
            _ => show::bytes(&bytes),
        }
    }
}

fn parsed<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(line).map_err(|error| {
        Failure::new(
            Exit::Findings,
            format!("a record of the audit log is not valid JSON: {error}"),
        )
        .fix("`skillhost audit verify` tells which")
    })
}

fn unreadable(error: AuditError) -> Failure {
    Failure::new(Exit::Io, error.to_string()).fix("name the log: `--audit FILE`").details(&error)
}

impl From<AuditError> for Failure {
    fn from(error: AuditError) -> Failure {
        unreadable(error)
    }
}

/// `17:sha256:...`, as `audit head` prints it.
fn head(text: &str) -> Result<ChainHead, String> {
    let parts =
        text.split_once(':').and_then(|(sequence, digest)| Some((sequence.parse().ok()?, digest)));
    match parts {
        Some((sequence, digest))
            if digest.len() == "sha256:".len() + 64 && digest.starts_with("sha256:") =>
        {
            Ok(ChainHead { sequence, digest: digest.to_owned() })
        }
        _ => Err("write it as `skillhost audit head` does: NUMBER:sha256:DIGEST".into()),
    }
}

fn age(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it as 90d, 12h or 30m"))
}

pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(date) = text.parse::<jiff::civil::Date>() {
        return date
            .to_zoned(jiff::tz::TimeZone::UTC)
            .map(|zoned| zoned.timestamp())
            .map_err(|error| error.to_string());
    }
    let ago = humantime::parse_duration(text);
    ago.map(|ago| Timestamp::now() - ago).map_err(|_| {
        "write it as 2026-01-31T12:00:00Z, 2026-01-31, or as how long ago: 2h, 7d".into()
    })
}
