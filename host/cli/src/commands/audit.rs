//! `skillhost audit`: list, verify, export and prune the audit log.

mod show;
mod tail;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use comfy_table::{ContentArrangement, Table, presets};
use jiff::Timestamp;
use serde::Deserialize;
use skillhost_ledger::audit::log_entry::{EntryProgram, EntrySession};
use skillhost_ledger::audit::{ChainHead, Log, LogEntry, LogStore, RecordFilter, Verification};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::Limit;
use skillhost_policy::{Retention, WORKSPACE};

use crate::args::permissions::PolicyFile;
use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::output;

/// List, verify, export and prune the audit log
///
/// Every run appends a record, which contains the digest of the record before it. Queries use a
/// database next to the log, which is built from it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost audit list --status denied --since 7d
  skillhost audit tail -f
  skillhost audit show 17
  skillhost audit verify --head 1042:sha256:5891b5b522d5df08...
  skillhost audit export --skill web-fetch > web-fetch.jsonl
  skillhost audit prune --older-than 90d
  skillhost audit prune                               as the policy says: audit: { keep: 90d }")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    /// Use this log instead of the one in the state folder
    #[arg(long, value_name = "FILE", global = true)]
    audit: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List records, newest first
    List {
        #[command(flatten)]
        which: Which,
        /// List at most this many records; 0 lists all
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u64,
        /// Print the records, one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Print the last ten records, oldest first
    Tail {
        /// Print further records as runs add them, until interrupted
        #[arg(short, long)]
        follow: bool,
        /// Print the records, one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Print one record
    Show {
        /// The number of the record, from `audit list`
        number: u64,
        /// Print the whole record as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Verify that no record was changed, removed, moved or inserted
    Verify {
        /// Require this record, as `audit head` printed it. Only this detects that the newest
        /// records were removed
        #[arg(long, value_name = "NUMBER:DIGEST", value_parser = head)]
        head: Option<ChainHead>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the number and digest of the newest record, to be stored elsewhere
    Head,
    /// Print records as they are in the log, oldest first
    Export {
        #[command(flatten)]
        which: Which,
        /// The format
        #[arg(long, value_enum, default_value_t = Form::Jsonl)]
        form: Form,
    },
    /// Remove the oldest records, as set by the flags or else by the policy. The rest stays
    /// verifiable
    Prune {
        /// Remove records older than this, such as 90d
        #[arg(long, value_name = "TIME", value_parser = age)]
        older_than: Option<Duration>,
        /// Remove the oldest records until the rest takes at most this, such as 1GiB
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
    /// Only runs of this skill
    #[arg(long, value_name = "NAME")]
    skill: Option<String>,
    /// Only runs that ended this way
    #[arg(long, value_name = "KIND", value_parser = ["exited", "denied", "invalid", "failed", "limit-hit", "trapped", "interrupted", "started", "pruned"])]
    status: Option<String>,
    /// Only runs since this time: 2026-01-31T12:00:00Z, 2026-01-31, or how long ago, such as 2h or
    /// 7d
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only runs before this time, written the same way
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
    /// Only runs that sent HTTP requests to this host
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only runs of this program or script, such as python3 or scripts/report.py
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
    /// Only runs of this user, by name or number
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Only runs that this session requested, by its id or the client's name
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    /// JSON lines
    Jsonl,
    /// Comma-separated values: the columns of `audit list`
    Csv,
}

pub(crate) fn main(args: Args) -> Result<Exit, CliError> {
    let path = match args.audit {
        Some(path) => path,
        None => {
            let path = Places::find()?.audit();
            if LogStore::is_unused(&path)
                && let Some(answer) = before_first_run(&args.action)
            {
                return answer;
            }
            path
        }
    };
    match args.action {
        Action::List { which, limit, json } => list(
            &LogStore::open(&path)?,
            &which.filter(Some(limit).filter(|limit| *limit > 0)),
            json,
        ),
        Action::Tail { follow, json } => tail::tail(&path, follow, json),
        Action::Show { number, json } => match LogStore::open(&path)?.record(number)? {
            Some(line) => {
                let record = parsed::<serde_json::Value>(&line)?;
                if json {
                    output::json(&record)?
                } else {
                    output::text(&show::text(&record))?
                }
                Ok(Exit::Ok)
            }
            None => Err(CliError::usage(format!("the audit log has no record {number}"))
                .fix("skillhost audit list")),
        },
        Action::Verify { head, json } => verify(&LogStore::open(&path)?, head.as_ref(), json),
        Action::Head => {
            let ChainHead { sequence, digest } = LogStore::open(&path)?.head()?;
            output::text(&format!("{sequence}:{digest}")).map(|()| Exit::Ok)
        }
        Action::Export { which, form } => export(&LogStore::open(&path)?, which.filter(None), form),
        Action::Prune { older_than, keep_size, file, json } => {
            let typed = Retention { age: older_than, bytes: keep_size };
            let retention =
                if typed.is_forever() { file.read(&Places::find()?)?.retention } else { typed };
            if retention.is_forever() {
                return Err(CliError::usage("neither a flag nor the policy says what to remove")
                    .fix("--older-than 90d, or `audit: { keep: 90d }` in the policy file"));
            }
            let log = Log::open(&path)?;
            let removal = LogStore::open(&path)?.retain(&log, retention)?;
            match &removal {
                _ if json => output::json(&removal)?,
                Some(removal) => {
                    let last = removal.pruned.sequence;
                    output::text(&format!("removed the records up to number {last}"))?
                }
                None => output::text("nothing to remove")?,
            }
            Ok(Exit::Ok)
        }
    }
}

/// Answers on a machine that has recorded no run yet; `None` if the log is needed all the same.
fn before_first_run(action: &Action) -> Option<Result<Exit, CliError>> {
    const NOTHING: &str = "no run is recorded yet";
    let printed = match action {
        // The caller expects a record, so a missing log is an error.
        Action::Verify { head: Some(_), .. } => return None,
        Action::Tail { follow: true, .. } | Action::Prune { .. } => return None,
        Action::List { json: true, .. } | Action::Tail { json: true, .. } => Ok(()),
        Action::Export { form: Form::Jsonl, .. } => Ok(()),
        Action::Export { form: Form::Csv, .. } => output::text(&COLUMNS.join(",")),
        Action::Show { json: true, .. } => output::json(&serde_json::Value::Null),
        Action::Verify { json: true, .. } => output::json(&Verification {
            records: 0,
            head: ChainHead::start(),
            pruned: None,
            unfinished: 0,
            torn: 0,
            faults: Vec::new(),
            faults_omitted: 0,
        }),
        // Scripts store the output of `audit head`.
        Action::Head => {
            output::note(NOTHING);
            Ok(())
        }
        Action::List { .. } | Action::Tail { .. } | Action::Show { .. } | Action::Verify { .. } => {
            output::text(NOTHING)
        }
    };
    Some(printed.map(|()| Exit::Ok))
}

impl Which {
    fn filter(self, limit: Option<u64>) -> RecordFilter {
        let Which { skill, status, since, until, host, program, user, session } = self;
        let host = host.map(|host| host.to_ascii_lowercase());
        RecordFilter {
            skill,
            status,
            program,
            host,
            user,
            session,
            since,
            until,
            limit,
            ..RecordFilter::default()
        }
    }
}

const COLUMNS: [&str; 10] = [
    "number",
    "time",
    "skill",
    "program",
    "status",
    "denials",
    "wall ms",
    "workspace",
    "user",
    "session",
];

/// A record as a row of the list.
fn cells(store: &LogStore, line: &[u8]) -> Result<[String; 10], CliError> {
    let entry: LogEntry = parsed(line)?;
    let is_running = entry.status.kind == "started" && store.is_running(&entry)?;
    let LogEntry {
        sequence,
        time,
        skill,
        program,
        status,
        usage,
        denials,
        pruned,
        capabilities,
        user,
        session,
        ..
    } = entry;
    let workspace = capabilities.mounts.into_iter().find(|mount| mount.guest == WORKSPACE);
    let program = program
        .map(|EntryProgram { name, script, tool }| {
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
        output::seconds(&time),
        skill.name,
        program,
        status,
        denials.len().to_string(),
        format!("{:.1}", usage.wall_ms),
        workspace.map(|mount| mount.host).unwrap_or_default(),
        user.map(|user| user.name.unwrap_or_else(|| user.uid.to_string())).unwrap_or_default(),
        session
            .map(|EntrySession { id, client }| {
                [client, id].into_iter().flatten().collect::<Vec<_>>().join(", ")
            })
            .unwrap_or_default(),
    ])
}

fn list(store: &LogStore, filter: &RecordFilter, json: bool) -> Result<Exit, CliError> {
    if json {
        let mut out = Batch::default();
        store.query(filter, |line| out.line(line))?;
        out.flush()?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(COLUMNS);
    store.query(filter, |line| {
        table.add_row(cells(store, line)?.map(|cell| printable(&cell)));
        Ok::<_, CliError>(())
    })?;
    let lines: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
    output::pager::list(&lines.join("\n"))?;
    Ok(Exit::Ok)
}

fn export(store: &LogStore, filter: RecordFilter, form: Form) -> Result<Exit, CliError> {
    // A table has a row for each run; the log also has a line for the start of each.
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
    out.flush()?;
    Ok(Exit::Ok)
}

/// Quotes a field of comma-separated values as RFC 4180 says. A skill's name may be anything.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

fn verify(store: &LogStore, known: Option<&ChainHead>, json: bool) -> Result<Exit, CliError> {
    let verified = store.verify(known)?;
    if json {
        output::json(&verified)?;
    } else {
        output::text(&verification(&verified))?;
    }
    Ok(if verified.faults.is_empty() { Exit::Ok } else { Exit::Findings })
}

fn verification(verified: &Verification) -> String {
    let mut text = String::new();
    for fault in &verified.faults {
        text += &format!("{}\n", printable(&fault.message));
    }
    if verified.faults_omitted > 0 {
        text += &format!("and {} more\n", verified.faults_omitted);
    }
    if let Some(pruned) = &verified.pruned {
        text += &format!("`audit prune` removed the records up to number {}\n", pruned.sequence);
    }
    if verified.unfinished > 0 {
        let runs = output::count(verified.unfinished, "run");
        text += &format!("{runs} started, no end recorded (`audit list --status started`)\n");
    }
    if verified.torn > 0 {
        let bytes = output::count(verified.torn, "byte");
        text += &format!("{bytes} that are not a complete record, moved to audit.jsonl.torn\n");
    }
    let records = output::count(verified.records, "record");
    let ChainHead { sequence, digest } = &verified.head;
    text + &if verified.faults.is_empty() {
        format!("OK: {records}, chain intact; head {sequence}:{digest}")
    } else {
        format!("FAILED: the log was altered ({records}); head {sequence}:{digest}")
    }
}

/// Collects lines for stdout, and prints many at a time.
#[derive(Default)]
struct Batch(Vec<u8>);

impl Batch {
    fn line(&mut self, line: &[u8]) -> Result<(), CliError> {
        self.0.extend_from_slice(line);
        self.0.push(b'\n');
        if self.0.len() > 64 << 10 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), CliError> {
        let bytes = std::mem::take(&mut self.0);
        match std::str::from_utf8(&bytes) {
            // Names that a guest chose must not reach a terminal unescaped.
            Ok(text) if std::io::stdout().is_terminal() => output::foreign(text.trim_end()),
            _ => output::bytes(&bytes),
        }
    }
}

fn parsed<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, CliError> {
    serde_json::from_slice(line).map_err(|error| {
        let message = format!("a record of the audit log is not valid JSON: {error}");
        CliError::new(Exit::Findings, message).fix("find it with `skillhost audit verify`")
    })
}

/// Parses `17:sha256:...`, as `audit head` and `fleet audit` print it.
pub(super) fn head(text: &str) -> Result<ChainHead, String> {
    let parts =
        text.split_once(':').and_then(|(sequence, digest)| Some((sequence.parse().ok()?, digest)));
    match parts {
        Some((sequence, digest))
            if digest.len() == "sha256:".len() + 64 && digest.starts_with("sha256:") =>
        {
            Ok(ChainHead { sequence, digest: digest.to_owned() })
        }
        _ => Err("expected NUMBER:sha256:DIGEST, as skillhost printed it".into()),
    }
}

fn age(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; expected a time such as 90d, 12h or 30m"))
}

/// Parses a time, a date, or how long ago.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
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
        "expected 2026-01-31T12:00:00Z, 2026-01-31, or how long ago, such as 2h or 7d".into()
    })
}
