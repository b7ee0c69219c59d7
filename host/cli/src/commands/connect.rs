//! `skillhost connect`: add the MCP server to a client's configuration.

mod clients;
mod edit;

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use clap::{Args as _, ValueEnum as _};
use serde::Serialize;
use serde_json::Value;
use skillhost_policy::diagnostic::printable;

use crate::args;
use crate::commands::mcp;
use crate::context::{Places, own_program};
use crate::error::{CliError, Exit};
use crate::output;
use clients::{Client, Folders, SERVER, Scope};
use edit::{Edit, EditError};

/// Connect an agent's client: add the MCP server to its configuration
///
/// Shows the change as a diff, keeps a copy of the old file, and leaves the rest of the file as it
/// is, comments included. Connecting again with the same options changes nothing; with others, these
/// replace the old ones. A file that is broken is never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost connect claude-code
  skillhost connect codex --scope project
  skillhost connect vscode -- --workspace .:overlay
  skillhost connect gemini-cli --print
  skillhost connect cursor --remove")]
pub(crate) struct Args {
    /// The client
    #[arg(value_enum)]
    client: Client,
    /// Change the user's configuration, or that of the project in the current folder
    #[arg(long, value_enum, default_value_t)]
    scope: Scope,
    /// Remove the server
    #[arg(long)]
    remove: bool,
    /// Show the change without making it
    #[arg(long)]
    print: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Options for `skillhost mcp`
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    client: &'static str,
    file: PathBuf,
    /// Whether the file was changed, or with `--print` would be.
    changed: bool,
    /// The copy of the old file.
    backup: Option<PathBuf>,
    diff: String,
}

/// What a client's configuration says about the server.
#[derive(Debug)]
pub(crate) enum Connection {
    /// There is no configuration.
    NoFile,
    /// It does not name the server.
    Absent,
    /// The client starts the server with this program.
    Connected(String),
    /// The configuration cannot be read, for this reason.
    Broken(String),
}

/// A client whose configuration is known, and its connection.
#[derive(Debug)]
pub(crate) struct ClientState {
    /// The name for people.
    pub(crate) title: &'static str,
    /// The command that connects it.
    pub(crate) command: String,
    pub(crate) file: PathBuf,
    pub(crate) connection: Connection,
}

/// Reads the configuration of every client: the user's, and that of the project in the current
/// folder.
pub(crate) fn connections(places: &Places) -> Result<Vec<ClientState>, CliError> {
    let mut states = Vec::new();
    for scope in [Scope::User, Scope::Project] {
        for client in Client::value_variants() {
            let Some(file) = file(*client, scope, places)? else { continue };
            let name = client.to_possible_value();
            let name = name.as_ref().map_or("", |name| name.get_name());
            let (title, end) = match scope {
                Scope::User => (client.title(), ""),
                Scope::Project => (client.title(), " --scope project"),
            };
            let command = format!("skillhost connect {name}{end}");
            let connection = connection(*client, &file);
            if scope == Scope::User || !matches!(connection, Connection::NoFile) {
                states.push(ClientState { title, command, file, connection });
            }
        }
    }
    Ok(states)
}

fn connection(client: Client, file: &Path) -> Connection {
    let text = match read(file) {
        Ok(None) => return Connection::NoFile,
        Ok(Some(text)) => text,
        Err(error) => return Connection::Broken(error.message),
    };
    match edit::find(&text, client.syntax(), client.table(), SERVER) {
        Err(EditError::Broken(why)) => Connection::Broken(one_line(&why)),
        Err(EditError::Unsupported) | Ok(None) => Connection::Absent,
        Ok(Some(entry)) => {
            let command = entry.get("command").or(entry.get("cmd"));
            // opencode has one list for the program and its arguments.
            let program = command.map(|command| command.get(0).unwrap_or(command));
            Connection::Connected(program.and_then(Value::as_str).unwrap_or_default().to_owned())
        }
    }
}

/// Returns the executable that a client starts by this name or path, if it exists.
pub(crate) fn executable(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).canonicalize().ok();
    }
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).find_map(|folder| folder.join(program).canonicalize().ok())
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    check_options(&args.options)?;
    let places = Places::find()?;
    let file = file(args.client, args.scope, &places)?.ok_or_else(|| {
        let message = format!("{} has no configuration for a project", args.client.title());
        CliError::usage(message).fix("--scope user")
    })?;
    let real = real_path(args, &file)?;
    let old = read(&real)?;
    let entry = args.client.entry(&own_program(), &line(args));
    let edit =
        Edit { table: args.client.table(), name: SERVER, entry: (!args.remove).then_some(&entry) };
    let text = old.as_deref().unwrap_or_default();
    let new = edit::apply(text, args.client.syntax(), &edit)
        .map_err(|error| refusal(&error, &file, &edit))?;
    let changed = new != text;
    let backup = match changed && !args.print {
        true => write(&real, old.as_deref(), &new)?,
        false => None,
    };
    let diff = if changed { diff(&file, text, &new) } else { String::new() };
    let report = Report { client: args.client.title(), file, changed, backup, diff };
    if args.json {
        output::json(&report)?
    } else {
        show(args, &report)?
    }
    Ok(Exit::Ok)
}

/// Connects every client in a new home folder, which an agent has as its own.
pub(crate) fn connect_home(home: &Path, program: &str, args: &[String]) -> Result<(), CliError> {
    let config = home.join(".config");
    let folders = Folders { home, config: &config, codex: home.join(".codex"), project: home };
    for client in Client::value_variants() {
        let Some(file) = client.file(Scope::User, &folders) else { continue };
        let entry = client.entry(program, args);
        let edit = Edit { table: client.table(), name: SERVER, entry: Some(&entry) };
        let old = read(&file)?;
        let new = edit::apply(old.as_deref().unwrap_or_default(), client.syntax(), &edit)
            .map_err(|error| refusal(&error, &file, &edit))?;
        write(&file, old.as_deref(), &new)?;
    }
    Ok(())
}

/// Checks the options for `skillhost mcp`: the client would not show why the server does not start.
fn check_options(options: &[String]) -> Result<(), CliError> {
    let name = "skillhost mcp";
    let server = mcp::Args::augment_args(clap::Command::new(name)).no_binary_name(true);
    let Err(error) = server.try_get_matches_from(options) else { return Ok(()) };
    if !error.use_stderr() {
        return Err(CliError::usage("the options after `--` are for the server, not for help"));
    }
    Err(CliError::usage(format!("`{name}` cannot start so: {}", args::summary(&error)))
        .fix("skillhost mcp --help"))
}

/// The configuration of a client; `None` if it has none for that scope.
fn file(client: Client, scope: Scope, places: &Places) -> Result<Option<PathBuf>, CliError> {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let (codex, project) = (std::env::var_os("CODEX_HOME"), std::env::current_dir());
    let project = project.map_err(|error| CliError::io("find the current folder", error))?;
    let codex = codex.filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folders = Folders {
        home: &places.home,
        config: places.config.parent().unwrap_or(&places.config),
        codex: codex.unwrap_or_else(|| places.home.join(".codex")),
        project: &project,
    };
    Ok(client.file(scope, &folders))
}

/// Follows the links to the file and its folders, which may not exist yet. The author of a project
/// must not choose a file outside of it, so with `--scope project` no link may lead there.
#[expect(clippy::disallowed_methods, reason = "the operator named the client")]
fn real_path(args: &Args, file: &Path) -> Result<PathBuf, CliError> {
    let existing = file.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(file);
    let refused = |why: &str| CliError::invalid(format!("{} {why}", existing.display()));
    let found = existing.canonicalize().map_err(|_| refused("is a link that leads nowhere"))?;
    if args.scope == Scope::Project {
        let project = std::env::current_dir().and_then(|folder| folder.canonicalize());
        let project = project.map_err(|error| CliError::io("find the current folder", error))?;
        if !found.starts_with(project) {
            return Err(refused("is behind a link that leads out of the project"));
        }
    }
    let missing = file.components().skip(existing.components().count());
    Ok(found.components().chain(missing).collect())
}

/// The arguments of the server.
fn line(args: &Args) -> Vec<String> {
    ["mcp".to_owned()].into_iter().chain(args.options.iter().cloned()).collect()
}

/// The most bytes of a configuration. Claude Code keeps its history in the same file.
const LARGEST: u64 = 64 << 20;

/// Reads a file; `None` if it does not exist.
#[expect(clippy::disallowed_methods, reason = "the operator named the client")]
fn read(file: &Path) -> Result<Option<String>, CliError> {
    let io = |error: std::io::Error| CliError::io(format_args!("read {}", file.display()), error);
    // Opening a pipe must not wait for a writer.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = match OpenOptions::new().read(true).custom_flags(flags).open(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(io)?,
    };
    let found = opened.metadata().map_err(io)?;
    if found.len() > LARGEST || !found.is_file() {
        let message = format!("{} is not a file of at most 64 MiB", file.display());
        return Err(CliError::invalid(message));
    }
    let mut text = String::new();
    opened.take(LARGEST).read_to_string(&mut text).map_err(io)?;
    Ok(Some(text))
}

fn refusal(error: &EditError, file: &Path, edit: &Edit<'_>) -> CliError {
    let file = file.display();
    match error {
        EditError::Broken(why) => {
            CliError::invalid(format!("{file} is broken, so it was not changed: {}", one_line(why)))
                .fix("correct it, then run this again")
        }
        EditError::Unsupported => {
            let fix = match edit.entry {
                Some(entry) => {
                    format!("add this entry by hand, as `{SERVER}` in `{}`:\n{entry:#}", edit.table)
                }
                None => format!("remove `{SERVER}` from `{}` by hand", edit.table),
            };
            CliError::invalid(format!(
                "{file} cannot be changed without changing the rest of it, so it was not changed"
            ))
            .fix(fix)
        }
    }
}

/// Returns the place and the reason of a parser's error, without the quoted text between them.
fn one_line(why: &str) -> String {
    let mut lines = why.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    match lines.next_back() {
        Some(last) => format!("{}: {}", printable(first), printable(last)),
        None => printable(first),
    }
}

/// Replaces the file atomically, and keeps a copy of the old one beside it. Returns the path of the
/// copy.
#[expect(clippy::disallowed_methods, reason = "the operator named the client")]
fn write(file: &Path, old: Option<&str>, new: &str) -> Result<Option<PathBuf>, CliError> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let io = |error: std::io::Error| {
        CliError::io(format_args!("write {}", file.display()), error)
            .fix("nothing was changed; `--print` shows what to add")
    };
    let beside = |text: &str, mode: u32| {
        let mut beside = tempfile::NamedTempFile::new_in(folder)?;
        beside.write_all(text.as_bytes())?;
        beside.as_file().set_permissions(std::fs::Permissions::from_mode(mode & 0o777))?;
        beside.as_file().sync_all()?;
        Ok(beside)
    };
    std::fs::create_dir_all(folder).map_err(io)?;
    let mode = std::fs::metadata(file).map_or(0o600, |found| found.permissions().mode());
    let new = beside(new, mode).map_err(io)?;
    // The file may hold tokens, so its copy is for the user alone.
    let backup = match old {
        Some(old) => Some(keep(beside(old, 0o600).map_err(io)?, file).map_err(io)?),
        None => None,
    };
    // The client may have written the file in the meantime.
    if read(file)?.as_deref() != old {
        let message = format!("{} was changed at the same moment, so it was not", file.display());
        return Err(CliError::new(Exit::Io, message).fix("run this again"));
    }
    new.persist(file).map_err(|error| io(error.error))?;
    Ok(backup)
}

/// The most copies of old files.
const COPIES: u32 = 100;

/// Puts a copy beside the file, under a name that is free.
fn keep(mut copy: tempfile::NamedTempFile, file: &Path) -> std::io::Result<PathBuf> {
    for number in 1..=COPIES {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".before-skillhost");
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let path = file.with_file_name(name);
        match copy.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {
                copy = error.file;
            }
            Err(error) => return Err(error.error),
        }
    }
    Err(std::io::Error::other(format!("there are {COPIES} copies of it already")))
}

fn diff(file: &Path, old: &str, new: &str) -> String {
    let name = file.display().to_string();
    let diff = similar::TextDiff::from_lines(old, new);
    // Neighbouring lines, and the rest of a long one, may hold tokens.
    let diff = diff.unified_diff().context_radius(0).header(&name, &name).to_string();
    let cut = |line: &str| match line.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}...\n", &line[..end]),
        None => format!("{line}\n"),
    };
    diff.lines().map(cut).collect()
}

/// The most characters of a line of the diff.
const LINE: usize = 160;

fn show(args: &Args, report: &Report) -> Result<(), CliError> {
    let Report { client, file, changed, backup, diff } = report;
    let file = printable(&file.display().to_string());
    if !changed {
        let state = if args.remove { "is not connected" } else { "is connected already" };
        return output::text(&format!("{client} {state} ({file})"));
    }
    output::diff(diff)?;
    if args.print {
        output::note("nothing was changed");
        return Ok(());
    }
    let done = if args.remove { "disconnected" } else { "connected" };
    output::text(&format!("{client} is {done}; start it again to see the change"))?;
    if let Some(backup) = backup {
        output::note(&format!("the old file is {}", printable(&backup.display().to_string())));
    }
    Ok(())
}
