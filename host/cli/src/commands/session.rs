//! `skillhost session`: sessions on a server, in which programs run on the same files.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Subcommand;
use http::Method;
use serde::Serialize;
use skillhost_policy::diagnostic::{printable, quoted};
use skillhost_policy::limits::Limit;
use skillhost_server::api::problem::ProblemCode;
use skillhost_server::api::sessions::types::{
    EntryKind, FileList, ProgramRequest, RestoreRequest, SandboxToken, SessionChanges, SessionInfo,
    SessionList, SessionPolicy, SessionRequest, SessionStatus, Signal, SignalRequest, SnapshotInfo,
    WrittenFile,
};
use skillhost_server::api::types::{RunInfo, RunList, RunResult, RunTarget};

use crate::args::permissions::parse_limit;
use crate::client::{Client, ClientArgs, ClientError};
use crate::commands::submit;
use crate::error::{CliError, Exit};
use crate::events::{self, Event};
use crate::{output, remote};

/// Work in a session on a server: programs that run on the same files
///
/// A session has a /workspace and a /tmp that last until it is ended, expires, or the server stops.
/// Programs run in it one after the other or at once, under the policy that the server's operator
/// chose, with the permissions of one of the session's skills. Files are read and written under the
/// rules of the first skill.
///
/// `exec` prints the output of the program and exits with its code, as `run` does. The other verbs exit
/// with 0, with 64 if the session has ended or is busy, and with 77 if a rule denies a file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost session create log-triage --workspace . > id
  skillhost session exec $(cat id) -- python3 check.py --all
  skillhost session exec $(cat id) --stdin - -- bash < commands.sh
  skillhost session put $(cat id) data.csv input/data.csv
  skillhost session watch $(cat id)
  skillhost session diff $(cat id)
  skillhost session apply $(cat id) --to .
  skillhost session fork $(cat id)
  skillhost session end $(cat id)

The server is named by --server or $SKILLHOST_SERVER, and the token is read from --token-file or
$SKILLHOST_TOKEN.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a session, and print its id
    Create(Create),
    /// List the sessions, the latest first
    List(Common),
    /// Run a program, print its output, and exit with its code; Ctrl-C ends it
    Exec(Exec),
    /// Write a file
    Put {
        /// The session
        #[arg(value_parser = session_id)]
        session: String,
        /// The file here
        file: PathBuf,
        /// The path in /workspace, or an absolute path in /workspace or /tmp [default: the name of the
        /// file]
        path: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Print a file
    Get {
        /// The session
        #[arg(value_parser = session_id)]
        session: String,
        /// The path in /workspace, or an absolute path in /workspace or /tmp
        path: String,
        /// Write it to this file, which must not exist
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List a folder
    Ls {
        /// The session
        #[arg(value_parser = session_id)]
        session: String,
        /// The path in /workspace, or an absolute path in /workspace or /tmp [default: /workspace]
        #[arg(default_value = "/workspace", hide_default_value = true)]
        path: String,
        /// List everything below it
        #[arg(short, long)]
        recursive: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Remove a file or an empty folder
    Rm {
        /// The session
        #[arg(value_parser = session_id)]
        session: String,
        /// The path in /workspace, or an absolute path in /workspace or /tmp
        path: String,
        /// Remove a folder with everything below it
        #[arg(short, long)]
        recursive: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Print changes in /workspace until the session ends; with --json, print one object per change
    Watch(Of),
    /// List the programs of a session, the latest first
    Ps(Of),
    /// End a program
    ///
    /// Programs of the sandbox have no handlers: each signal ends them.
    Signal {
        /// The session
        #[arg(value_parser = session_id)]
        session: String,
        /// The program, as `ps` lists it
        #[arg(value_parser = program_id)]
        program: String,
        /// The signal: INT, TERM or KILL
        #[arg(default_value = "TERM", value_parser = signal)]
        signal: Signal,
        #[command(flatten)]
        common: Common,
    },
    /// Show what the session changed in /workspace
    Diff(Of),
    /// Apply the changes to a folder here, from which the session then goes on
    ///
    /// Nothing is applied unless the files that were changed are, here, as they were in the session at
    /// the beginning or at the last `apply`. Symlinks, and files that make other programs run code, are
    /// never applied.
    Apply {
        /// The session
        #[arg(value_parser = session_id)]
        session: String,
        /// The folder
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Drop the changes of /workspace
    Drop(Of),
    /// Create a session with the same /workspace, and print its id
    Fork(Of),
    /// Store the files of /workspace, and print the digest of the tree
    Snapshot(Of),
    /// Give /workspace the files of a tree
    Restore {
        /// The session
        #[arg(value_parser = session_id)]
        session: String,
        /// The digest that `snapshot` printed
        tree: String,
        #[command(flatten)]
        common: Common,
    },
    /// Give a session a token for the sandboxd protocol, and print it
    ///
    /// Clients of kubernetes-sigs/agent-sandbox send it to the port of `skillhost serve --sandboxd`. It
    /// gives access to this session and nothing else, and replaces the one that the session had.
    Token(Of),
    /// End a session and its programs; its files are removed
    End(Of),
}

/// The options of most verbs.
#[derive(Debug, clap::Args)]
struct Common {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// One session.
#[derive(Debug, clap::Args)]
struct Of {
    /// The session
    #[arg(value_parser = session_id)]
    session: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Create {
    /// The skills whose permissions programs can have: names or digests that the server knows, or
    /// folders here, as paths with a `/`, which are uploaded
    #[arg(required = true)]
    skills: Vec<String>,
    /// Upload the files of this folder to /workspace
    #[arg(long, value_name = "DIR", conflicts_with = "tree")]
    workspace: Option<PathBuf>,
    /// Begin with the files of a tree, by the digest that `snapshot` printed
    #[arg(long, value_name = "DIGEST")]
    tree: Option<String>,
    /// End the session after this time, such as 30m [default and most: the quota of the tenant]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    ttl: Option<Duration>,
    /// End the session after this time without a request or a program
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    idle: Option<Duration>,
    /// Lower the limit on the bytes of changed files and of /tmp, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_limit(Limit::Disk))]
    disk: Option<u64>,
    /// Deny the session a permission of its skills, such as `Write` or
    /// `WebFetch(domain:example.com)` (repeatable)
    #[arg(long, value_name = "ENTRY")]
    deny: Vec<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Exec {
    /// The session
    #[arg(value_parser = session_id)]
    session: String,
    /// The skill whose permissions the program has [default: the first of the session]
    #[arg(long, value_name = "SKILL")]
    skill: Option<String>,
    /// Run this script of the skill (path or name), with the arguments after `--`
    #[arg(long, value_name = "SCRIPT")]
    script: Option<String>,
    /// Run a shell command
    #[arg(long, value_name = "TEXT", conflicts_with = "script")]
    command: Option<String>,
    /// Send this file as standard input; `-` streams the standard input of this command
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// Set a variable of the program (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, conflicts_with_all = ["script", "command"])]
    env: Vec<(String, String)>,
    /// Start in this folder [default: /workspace]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["script", "command"])]
    cwd: Option<String>,
    /// Lower the limit on the wall time, such as 30s
    #[arg(long, value_name = "TIME", value_parser = parse_limit(Limit::Timeout))]
    timeout: Option<u64>,
    /// Print one JSON object with the result, instead of the output
    #[arg(long)]
    json: bool,
    /// The program and its arguments, such as `python3 check.py`; the arguments of --script or
    /// --command
    #[arg(last = true, value_name = "ARGS", required_unless_present_any = ["script", "command"])]
    args: Vec<String>,
    #[command(flatten)]
    client: ClientArgs,
}

/// The most bytes of a file that is read or written.
const FILE: u64 = 64 << 20;
/// The most bytes of one piece of standard input.
const PIECE: usize = 32 << 10;

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    match &args.action {
        Action::Create(create) => create.run()?,
        Action::List(common) => list(common)?,
        Action::Exec(exec) => return exec.run(),
        Action::Put { session, file, path, common } => put(session, file, path.as_deref(), common)?,
        Action::Get { session, path, to, client } => get(session, path, to.as_deref(), client)?,
        Action::Ls { session, path, recursive, common } => ls(session, path, *recursive, common)?,
        Action::Rm { session, path, recursive, common } => rm(session, path, *recursive, common)?,
        Action::Watch(of) => watch(of)?,
        Action::Ps(of) => {
            let found: RunList = of.ask(Method::GET, "programs")?;
            if of.common.json {
                output::json(&found)?
            } else {
                found.runs.iter().try_for_each(remote::show)?
            }
        }
        Action::Signal { session, program, signal, common } => {
            let path = format!("/v1/sessions/{session}/programs/{program}/signal");
            let (client, request) = (common.client.client()?, SignalRequest { signal: *signal });
            let info: RunInfo = client.json(Method::POST, &path, &[], Some(&request))?;
            common.print(&info, || info.status.name().to_owned())?;
        }
        Action::Diff(of) => {
            let changes: SessionChanges = of.ask(Method::GET, "diff")?;
            if of.common.json { output::json(&changes)? } else { output::diff(&changes.diff)? }
        }
        Action::Apply { session, to, client } => apply(session, to, client)?,
        Action::Drop(of) => {
            let info: SessionInfo = of.ask(Method::POST, "drop")?;
            of.common.print(&info, || "dropped the changes".to_owned())?;
        }
        Action::Fork(of) => {
            let info: SessionInfo = of.ask(Method::POST, "fork")?;
            of.common.print(&info, || printable(&info.id))?;
        }
        Action::Snapshot(of) => {
            let snapshot: SnapshotInfo = of.ask(Method::POST, "snapshot")?;
            of.common.print(&snapshot, || printable(&snapshot.tree))?;
        }
        Action::Restore { session, tree, common } => {
            let (client, request) =
                (common.client.client()?, RestoreRequest { tree: tree.clone() });
            let path = format!("/v1/sessions/{session}/restore");
            let info: SessionInfo = client.json(Method::POST, &path, &[], Some(&request))?;
            common.print(&info, || "restored".to_owned())?;
        }
        Action::Token(of) => {
            let token: SandboxToken = of.ask(Method::POST, "token")?;
            of.common.print(&token, || printable(&token.token))?;
        }
        Action::End(of) => {
            let path = format!("/v1/sessions/{}", of.session);
            let client = of.common.client.client()?;
            let info: SessionInfo = client.json(Method::DELETE, &path, &[], None::<&()>)?;
            of.common.print(&info, || "ended".to_owned())?;
        }
    }
    Ok(Exit::Ok)
}

impl Common {
    fn print(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), CliError> {
        if self.json { output::json(value) } else { output::text(&text()) }
    }
}

impl Of {
    fn ask<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        part: &str,
    ) -> Result<T, CliError> {
        let path = format!("/v1/sessions/{}/{part}", self.session);
        Ok(self.common.client.client()?.json(method, &path, &[], None::<&()>)?)
    }
}

impl Create {
    fn run(&self) -> Result<(), CliError> {
        let client = self.common.client.client()?;
        let mut skills = Vec::new();
        for skill in &self.skills {
            skills.push(match skill.contains('/') {
                true => submit::upload_skill(&client, Path::new(skill))?,
                false => skill.clone(),
            });
        }
        let local = self.workspace.as_deref().map(submit::workspace).transpose()?;
        let tree = local.as_ref().map(|local| local.digest.clone());
        let policy = SessionPolicy { deny: self.deny.clone(), ..SessionPolicy::default() };
        let request = SessionRequest {
            skills,
            files: BTreeMap::new(),
            tree: tree.or_else(|| self.tree.clone()),
            ttl: self.ttl.map(|ttl| ttl.as_secs()),
            idle: self.idle.map(|idle| idle.as_secs()),
            disk: self.disk,
            policy: Some(policy).filter(|policy| !policy.deny.is_empty()),
        };
        let info: SessionInfo = submit::with_uploads(&client, local.as_ref(), || {
            client.json(Method::POST, "/v1/sessions", &[], Some(&request))
        })?;
        let id = session_id(&info.id).map_err(|_| {
            CliError::new(Exit::Io, "the server did not return the id of a session")
        })?;
        self.common.print(&info, || id)
    }
}

impl Exec {
    fn run(&self) -> Result<Exit, CliError> {
        let client = self.client.client()?;
        let streams = self.stdin.as_deref().is_some_and(|file| file.as_os_str() == "-");
        let stdin = self.stdin.as_deref().filter(|_| !streams);
        let target = match (&self.script, &self.command) {
            (Some(name), _) => Some(RunTarget::Script(name.clone())),
            (None, Some(text)) => Some(RunTarget::Command(text.clone())),
            (None, None) => None,
        };
        let request = ProgramRequest {
            skill: self.skill.clone(),
            target,
            args: self.args.clone(),
            stdin: stdin.map(submit::read_stdin).transpose()?,
            stream_stdin: streams,
            env: self.env.iter().cloned().collect(),
            cwd: self.cwd.clone(),
            limits: self
                .timeout
                .map(|time| (Limit::Timeout, time))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
            wait: 0,
        };
        let path = format!("/v1/sessions/{}/programs", self.session);
        let started: RunResult = client.json(Method::POST, &path, &[], Some(&request))?;
        let id = remote::run_id(&started.run.id).map_err(|_| {
            CliError::new(Exit::Io, "the server did not return the id of a program")
        })?;
        let program = format!("{path}/{id}");
        if streams {
            let (client, program) = (self.client.client()?, program.clone());
            let forward = move || {
                if let Err(error) = forward_stdin(&client, &program) {
                    output::info(|| format!("stdin: {}", error.message));
                }
            };
            let thread = std::thread::Builder::new().name("stdin".into());
            thread.spawn(forward).map_err(|error| CliError::io("read stdin", error))?;
        }
        let on_interrupt = || {
            let request = SignalRequest { signal: Signal::Int };
            let path = format!("{program}/signal");
            client.json::<RunInfo>(Method::POST, &path, &[], Some(&request)).map(drop)
        };
        remote::follow_program(&client, &program, !self.json, &on_interrupt)?;
        let path = format!("{program}/result");
        let result: RunResult = client.json(Method::GET, &path, &[], None::<&()>)?;
        if self.json {
            remote::print_json(&result)?;
        } else if let Some(value) = result.outcome.as_ref().map(|outcome| &outcome["result"])
            && !value.is_null()
        {
            output::json(value)?;
        }
        Ok(remote::ending(&result))
    }
}

/// Sends the standard input of this command, piece by piece, until it ends or the program has ended.
fn forward_stdin(client: &Client, program: &str) -> Result<(), CliError> {
    let (mut stdin, mut piece) = (std::io::stdin(), vec![0; PIECE]);
    loop {
        let count = stdin.read(&mut piece).map_err(|error| CliError::io("read stdin", error))?;
        let path = format!("{program}/stdin?end={}", count == 0);
        let bytes = Bytes::copy_from_slice(&piece[..count]);
        client.bytes(Method::POST, &path, &[], Some(BYTES), bytes, 1 << 20)?;
        if count == 0 {
            return Ok(());
        }
    }
}

const BYTES: &str = "application/octet-stream";

fn list(common: &Common) -> Result<(), CliError> {
    let client = common.client.client()?;
    let found: SessionList = client.json(Method::GET, "/v1/sessions", &[], None::<&()>)?;
    if common.json {
        return output::json(&found);
    }
    found.sessions.iter().try_for_each(|session| {
        let status = match session.status {
            SessionStatus::Active => "active",
            SessionStatus::Ended => "ended",
            SessionStatus::Expired => "expired",
            SessionStatus::Lost => "lost",
        };
        let skills = printable(&session.skills.join(", "));
        let created = printable(&session.created);
        output::text(&format!("{}  {status}  {skills}  created {created}", printable(&session.id)))
    })
}

fn put(session: &str, file: &Path, path: Option<&str>, common: &Common) -> Result<(), CliError> {
    let client = common.client.client()?;
    let place = quoted(&file.to_string_lossy());
    let cannot = |error: std::io::Error| CliError::io(format_args!("read {place}"), error);
    #[expect(clippy::disallowed_methods, reason = "a file that the operator named")]
    let opened = std::fs::File::open(file).map_err(cannot)?;
    let mut bytes = Vec::new();
    opened.take(FILE + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > FILE {
        return Err(CliError::usage(format!("{place} is larger than 64 MiB")));
    }
    let name = || file.file_name().map(|name| name.to_string_lossy().into_owned());
    let path = path.map(str::to_owned).or_else(name).unwrap_or_default();
    let request = format!("/v1/sessions/{session}/file?path={}", encoded(&path));
    let answer = client.bytes(Method::PUT, &request, &[], Some(BYTES), bytes.into(), 1 << 20)?;
    let written: WrittenFile = serde_json::from_slice(&answer)
        .map_err(|error| CliError::io("read the answer of the server", error))?;
    common.print(&written, || {
        format!("wrote {} to {}", output::count(written.bytes, "byte"), printable(&path))
    })
}

fn get(session: &str, path: &str, to: Option<&Path>, client: &ClientArgs) -> Result<(), CliError> {
    let client = client.client()?;
    let request = format!("/v1/sessions/{session}/file?path={}", encoded(path));
    let most = usize::try_from(4 * FILE).unwrap_or(usize::MAX);
    let bytes = client.bytes(Method::GET, &request, &[], None, Bytes::new(), most)?;
    let Some(to) = to else {
        let mut shown = output::GuestOutput::default();
        shown.stdout(&bytes)?;
        output::reset();
        return Ok(());
    };
    let cannot = |error: std::io::Error| {
        CliError::io(format_args!("write {}", quoted(&to.to_string_lossy())), error)
    };
    let mut file = std::fs::File::create_new(to).map_err(cannot)?;
    file.write_all(&bytes).map_err(cannot)
}

fn ls(session: &str, path: &str, recursive: bool, common: &Common) -> Result<(), CliError> {
    let client = common.client.client()?;
    let request =
        format!("/v1/sessions/{session}/files?path={}&recursive={recursive}", encoded(path));
    let found: FileList = client.json(Method::GET, &request, &[], None::<&()>)?;
    if common.json {
        return output::json(&found);
    }
    found.entries.iter().try_for_each(|entry| {
        let mark = match entry.kind {
            EntryKind::Folder => "/",
            EntryKind::Link => "@",
            EntryKind::File => "",
        };
        let modified = printable(&entry.modified);
        output::text(&format!("{:>10}  {modified}  {}{mark}", entry.bytes, printable(&entry.path)))
    })
}

fn rm(session: &str, path: &str, recursive: bool, common: &Common) -> Result<(), CliError> {
    let client = common.client.client()?;
    let request =
        format!("/v1/sessions/{session}/file?path={}&recursive={recursive}", encoded(path));
    let info: SessionInfo = client.json(Method::DELETE, &request, &[], None::<&()>)?;
    common.print(&info, || format!("removed {}", printable(path)))
}

/// The data of a `change` event, which the server defines as `WatchEvent`.
#[derive(serde::Deserialize)]
struct Change {
    path: String,
    change: String,
}

/// Prints changes until the session ends or the reader closes stdout.
fn watch(of: &Of) -> Result<(), CliError> {
    let path = format!("/v1/sessions/{}/watch", of.session);
    let wrong = |error: serde_json::Error| CliError::io("read a change", error);
    let mut on_event = |Event { name, data }: Event| {
        let line = match name.as_str() {
            "change" if of.common.json => output::visible_json(&data),
            "change" => {
                let Change { path, change } = serde_json::from_str(&data).map_err(wrong)?;
                format!("{}  {}", printable(&change), printable(&path))
            }
            "missed" if of.common.json => r#"{"missed":true}"#.to_owned(),
            "missed" => {
                output::warning("the server has discarded some changes", None);
                return Ok(None);
            }
            _ => return Ok(None),
        };
        Ok((!output::line(&line)?).then_some(()))
    };
    match events::follow(&of.common.client.client()?, &path, &mut on_event, None) {
        Err(ClientError::Problem(problem)) if problem.code == ProblemCode::SessionEnded => Ok(()),
        ended => Ok(ended?),
    }
}

/// Applies the changes here, and then lets the session go on from them.
fn apply(session: &str, to: &Path, client: &ClientArgs) -> Result<(), CliError> {
    let client = client.client()?;
    let path = |part: &str| format!("/v1/sessions/{session}/{part}");
    let seen: SessionChanges = client.json(Method::GET, &path("diff"), &[], None::<&()>)?;
    remote::apply_changes_of(&client, &seen.changes, to)?;
    let done: SessionChanges = client.json(Method::POST, &path("apply"), &[], None::<&()>)?;
    if done.changes == seen.changes {
        let count = output::count(seen.changes.len() as u64, "change");
        return output::text(&format!("applied {count}"));
    }
    let later = done.changes.iter().filter(|change| !seen.changes.contains(change));
    let paths: Vec<String> = later.map(|change| printable(&change.path)).collect();
    let message = format!(
        "the session changed meanwhile, and these paths are not applied: {}",
        paths.join(", ")
    );
    Err(CliError::new(Exit::Io, message)
        .fix(format!("get them: skillhost session get {session} PATH")))
}

/// Checks that an id is one of a session, so that it cannot name another path.
fn session_id(text: &str) -> Result<String, String> {
    remote::run_id(text)
        .map_err(|_| "expected the 32 hex digits that `skillhost session create` printed".into())
}

fn program_id(text: &str) -> Result<String, String> {
    remote::run_id(text)
        .map_err(|_| "expected the 32 hex digits that `skillhost session ps` lists".into())
}

fn signal(text: &str) -> Result<Signal, String> {
    match text.strip_prefix("SIG").unwrap_or(text) {
        "INT" => Ok(Signal::Int),
        "TERM" => Ok(Signal::Term),
        "KILL" => Ok(Signal::Kill),
        _ => Err("expected INT, TERM or KILL".into()),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Percent-encodes a path for a query.
fn encoded(path: &str) -> String {
    let mut text = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(char::from(byte));
            }
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_one_parameter_of_a_query() {
        assert_eq!(encoded("a/b.txt"), "a/b.txt");
        assert_eq!(encoded("a b&path=/x#é"), "a%20b%26path%3D/x%23%C3%A9");
    }
}
