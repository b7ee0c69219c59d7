//! `skillhost submit`: submit a run to a server.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, MetadataExt as _};
use http::Method;
use skillhost_policy::determinism::parse_start_time;
use skillhost_policy::diagnostic::quoted;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Output;
use skillhost_sandbox::files::open_root;
use skillhost_server::api::problem::ProblemCode;
use skillhost_server::api::types::{
    DeterministicRun, FileState, RunInfo, RunSubmission, RunTarget, SkillFileSource, SkillInfo,
    SkillUpload, ToolCall, Tree,
};
use skillhost_skill::{SizeLimits, Skill, runtime};

use crate::args::numbers::whole_number;
use crate::args::permissions::parse_limit;
use crate::client::{Client, ClientArgs, ClientError};
use crate::error::{CliError, Exit};
use crate::{output, remote};

/// Submit a run to a server, `skillhost serve`
///
/// Prints the id of the run. With --wait it behaves as `skillhost run`: it prints the output of the
/// run and exits with its code. The run happens on the server, under the policy that the server's
/// operator chose; nothing on the command line can allow it more.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost submit calculator --wait -- '5 km in miles'
  skillhost submit calculator calculate --input '{\"expression\": \"2^64\"}' --wait
  skillhost submit ./my-skill scripts/report.py --workspace . --wait --apply -- data.csv
  skillhost submit report --command 'python3 scripts/a.py | head -3' --timeout 30s
  skillhost submit report --key nightly-2026-11-26 --deterministic --receipt

The server is named by --server or $SKILLHOST_SERVER, and the token is read from --token-file or
$SKILLHOST_TOKEN.")]
pub(crate) struct Args {
    /// The skill: a name or digest that the server knows, or a folder here, as a path with a `/`
    /// (`./NAME`), which is uploaded
    skill: String,
    /// Run this script (path or name) or typed tool [default: the component, or the only script]
    #[arg(value_name = "SCRIPT|TOOL")]
    name: Option<String>,
    /// Run a shell command
    #[arg(long, value_name = "TEXT", conflicts_with = "name")]
    command: Option<String>,
    /// Call the tool with this JSON input
    #[arg(long, value_name = "JSON", requires = "name", conflicts_with = "args")]
    input: Option<String>,
    /// Arguments for the script or command
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
    /// Upload the files of this folder; the run sees them at /workspace
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Send this file as standard input; `-` is the standard input of this command
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// Lower the limit on the wall time of the run, such as 30s
    #[arg(long, value_name = "TIME", value_parser = parse_limit(Limit::Timeout))]
    timeout: Option<u64>,
    /// Lower the limit on the memory of the run, such as 256MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_limit(Limit::Memory))]
    memory: Option<u64>,
    /// Lower the limit on fuel
    #[arg(long, value_name = "UNITS", value_parser = parse_limit(Limit::Fuel))]
    fuel: Option<u64>,
    /// Run deterministically
    #[arg(long)]
    deterministic: bool,
    /// Seed the randomness of a deterministic run
    #[arg(long, value_name = "NUMBER", requires = "deterministic", value_parser = whole_number::<u64>)]
    seed: Option<u64>,
    /// Start the clocks of a deterministic run at this time
    #[arg(long, value_name = "TIME", requires = "deterministic", value_parser = parse_start_time)]
    start_time: Option<u64>,
    /// Make a receipt, which `skillhost result --json` has. The output is printed when the run ends
    #[arg(long)]
    receipt: bool,
    /// Submit this run once, however often the command is repeated with this key within 24 hours
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Wait for the end of the run, print its output, and exit with its code
    #[arg(long)]
    wait: bool,
    /// Show what the run wrote to its workspace
    #[arg(long, requires = "wait")]
    diff: bool,
    /// Apply what the run wrote to the folder of --workspace, if its files are unchanged
    #[arg(long, requires_all = ["wait", "workspace"])]
    apply: bool,
    /// Print one JSON object: the run or, with --wait, its result
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// The most entries of a workspace, and the most bytes of a file. The server accepts no more files.
const FILES: usize = 5_000;
const FILE: u64 = 64 << 20;
/// The most bytes of standard input: what fits in a body of the server, as base64.
const STDIN: u64 = 5 << 20;

/// A local folder as a tree. Its files are read again when the server asks for them.
pub(crate) struct LocalTree {
    /// The digest of the tree.
    pub(crate) digest: String,
    /// The tree, as JSON.
    text: Vec<u8>,
    root: Dir,
    /// A path of each file, by digest.
    paths: BTreeMap<String, String>,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let client = args.client.client()?;
    let skill = if args.skill.contains('/') {
        upload_skill(&client, Path::new(&args.skill))?
    } else {
        args.skill.clone()
    };
    let local = args.workspace.as_deref().map(workspace).transpose()?;
    let tree = local.as_ref().map(|local| local.digest.clone());
    let submission = RunSubmission { skill, tree, ..args.submission()? };
    let run = submit(&client, &submission, args.key.as_deref(), local.as_ref())?;
    let id = remote::run_id(&run.id)
        .map_err(|_| CliError::new(Exit::Io, "the server did not return the id of a run"))?;
    if !args.wait {
        if args.json {
            output::json(&run)?
        } else {
            output::text(&id)?
        }
        return Ok(Exit::Ok);
    }
    if args.json {
        wait(&client, &id)?;
    } else {
        remote::follow(&client, &id)?;
    }
    let result = remote::result(&client, &id)?;
    if args.json {
        remote::print_json(&result)?;
    } else if let Some(value) = result.outcome.as_ref().map(|outcome| &outcome["result"]) {
        // The result of a typed tool is not part of its output.
        if !value.is_null() {
            output::json(value)?;
        }
    }
    let exit = remote::ending(&result);
    if args.diff && !args.json {
        output::diff(&result.diff)?;
    }
    if args.apply {
        if let Some(folder) = &args.workspace {
            remote::apply(&client, &result, folder)?;
        }
    } else if !result.changes.is_empty() && !args.diff && !args.json {
        output::note(&format!(
            "the run wrote {}: `skillhost result {id} --diff` shows them, and `--apply DIR` applies them",
            output::count(result.changes.len() as u64, "file")
        ));
    }
    Ok(exit)
}

impl Args {
    fn submission(&self) -> Result<RunSubmission, CliError> {
        let target = match (&self.name, &self.command, &self.input) {
            (Some(name), _, None) => RunTarget::Script(name.clone()),
            (Some(name), _, Some(input)) => {
                let input = serde_json::from_str(input).map_err(|error| {
                    CliError::usage(format!("--input is not valid JSON: {error}"))
                })?;
                RunTarget::Tool(ToolCall { name: name.clone(), input })
            }
            (None, Some(text), _) => RunTarget::Command(text.clone()),
            (None, None, _) => RunTarget::Main,
        };
        let limits = [
            (Limit::Timeout, self.timeout),
            (Limit::Memory, self.memory),
            (Limit::Fuel, self.fuel),
        ];
        let deterministic = self
            .deterministic
            .then_some(DeterministicRun { seed: self.seed, start_time: self.start_time });
        Ok(RunSubmission {
            skill: String::new(),
            target,
            args: self.args.clone(),
            stdin: self.stdin.as_deref().map(read_stdin).transpose()?,
            files: BTreeMap::new(),
            tree: None,
            limits: limits.into_iter().filter_map(|(limit, value)| Some((limit, value?))).collect(),
            deterministic,
            receipt: self.receipt,
        })
    }
}

/// Submits a run, and uploads what the server does not have.
fn submit(
    client: &Client,
    submission: &RunSubmission,
    key: Option<&str>,
    local: Option<&LocalTree>,
) -> Result<RunInfo, CliError> {
    // All attempts are one submission.
    let own = format!("{:032x}", rand::random::<u128>());
    let headers = [("idempotency-key", key.unwrap_or(&own))];
    with_uploads(client, local, || {
        client.json(Method::POST, "/v1/runs", &headers, Some(submission))
    })
}

/// Makes a request. If the server does not have the tree, uploads it; then it may lack files of the tree.
pub(crate) fn with_uploads<T>(
    client: &Client,
    local: Option<&LocalTree>,
    attempt: impl Fn() -> Result<T, ClientError>,
) -> Result<T, CliError> {
    for _ in 0..2 {
        match attempt() {
            Err(ClientError::Problem(problem)) if problem.code == ProblemCode::BlobsMissing => {
                upload(client, &problem.missing, local)?;
            }
            done => return Ok(done?),
        }
    }
    Ok(attempt()?)
}

fn upload(client: &Client, missing: &[String], local: Option<&LocalTree>) -> Result<(), CliError> {
    for digest in missing {
        if let Some(tree) = local.filter(|local| local.digest == *digest) {
            put(client, digest, tree.text.clone())?;
            continue;
        }
        // The server cannot ask for any other file.
        let found = local.and_then(|local| Some((local.paths.get(digest)?, &local.root)));
        let Some((path, root)) = found else {
            return Err(CliError::new(
                Exit::Io,
                "the server asks for a file that was not submitted",
            ));
        };
        let bytes = read_file(root, path)?;
        if runtime::digest(&bytes) != *digest {
            let message = format!("{} changed while it was uploaded", quoted(path));
            return Err(CliError::new(Exit::Io, message).fix("submit the run again"));
        }
        put(client, digest, bytes)?;
    }
    Ok(())
}

fn put(client: &Client, digest: &str, bytes: Vec<u8>) -> Result<(), CliError> {
    let path = format!("/v1/blobs/{digest}");
    let kind = Some("application/octet-stream");
    client.bytes(Method::PUT, &path, &[], kind, bytes.into(), 1 << 20)?;
    Ok(())
}

/// Waits for the end of a run.
fn wait(client: &Client, id: &str) -> Result<(), CliError> {
    loop {
        let path = format!("/v1/runs/{id}/wait");
        let run: RunInfo = client.json(Method::GET, &path, &[], None::<&()>)?;
        if run.status.has_ended() {
            return Ok(());
        }
    }
}

/// Uploads a skill, and returns the name by which the run has to name it.
pub(crate) fn upload_skill(client: &Client, folder: &Path) -> Result<String, CliError> {
    let cannot = |error: std::io::Error| {
        CliError::io(format_args!("read the skill {}", quoted(&folder.to_string_lossy())), error)
    };
    let loaded = Skill::load(&folder.canonicalize().map_err(cannot)?, &SizeLimits::default());
    // The policy of this machine does not raise what a server accepts.
    let skill = loaded.map_err(|error| error.with_fixed_size("uploaded skills"))?;
    let (mut files, mut contents) = (BTreeMap::new(), BTreeMap::new());
    for file in &skill.files {
        let bytes = skill.read(&file.path).map_err(cannot)?;
        let digest = runtime::digest(&bytes);
        files.insert(
            file.path.clone(),
            SkillFileSource { digest: digest.clone(), executable: false },
        );
        contents.insert(digest, bytes);
    }
    let upload = SkillUpload { name: skill.name.clone(), files };
    let attempt = || client.json::<SkillInfo>(Method::POST, "/v1/skills", &[], Some(&upload));
    let stored = match attempt() {
        Err(ClientError::Problem(problem)) if problem.code == ProblemCode::BlobsMissing => {
            for digest in &problem.missing {
                let bytes = contents.remove(digest).ok_or_else(|| {
                    CliError::new(Exit::Io, "the server asks for a file that is not the skill's")
                })?;
                put(client, digest, bytes)?;
            }
            attempt()?
        }
        done => done?,
    };
    output::info(|| format!("uploaded {} ({})", skill.name, stored.digest));
    Ok(stored.digest)
}

/// Reads a workspace as a tree. Special files are left out, and names and targets that are not UTF-8.
pub(crate) fn workspace(folder: &Path) -> Result<LocalTree, CliError> {
    let cannot = |error: std::io::Error| {
        CliError::io(
            format_args!("read the workspace {}", quoted(&folder.to_string_lossy())),
            error,
        )
    };
    let root = open_root(&folder.canonicalize().map_err(cannot)?);
    let root = Dir::from_std_file(root.map_err(|error| cannot(error.into()))?.into());
    let (mut tree, mut paths, mut left_out) = (Tree::default(), BTreeMap::new(), 0_u64);
    let mut folders = vec![String::new()];
    while let Some(below) = folders.pop() {
        let at = if below.is_empty() { "." } else { below.as_str() };
        let mut is_empty = true;
        for entry in root.read_dir(at).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            if tree.entries.len() + folders.len() >= FILES {
                let most = format!("a workspace may have {FILES} files, folders and symlinks");
                return Err(CliError::usage(most).fix("name a smaller folder: --workspace DIR"));
            }
            let kind = entry.file_type().map_err(cannot)?;
            let name = entry.file_name();
            let path = name.to_str().map(|name| {
                if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") }
            });
            let target = |path: &str| {
                root.read_link_contents(path).ok()?.into_os_string().into_string().ok()
            };
            let state = match &path {
                Some(path) if kind.is_dir() => {
                    folders.push(path.clone());
                    is_empty = false;
                    continue;
                }
                Some(path) if kind.is_file() => {
                    let executable = entry.metadata().map_err(cannot)?.mode() & 0o100 != 0;
                    let digest = runtime::digest(&read_file(&root, path)?);
                    paths.insert(digest.clone(), path.clone());
                    let mode = if executable { 0o755 } else { 0o644 };
                    Some(FileState::File { digest, mode: Some(mode) })
                }
                Some(path) if kind.is_symlink() => {
                    target(path).map(|target| FileState::Link { target })
                }
                _ => None,
            };
            let (Some(path), Some(state)) = (path, state) else {
                left_out += 1;
                continue;
            };
            tree.entries.insert(path, state);
            is_empty = false;
        }
        // Other folders exist because something is below them.
        if is_empty && !below.is_empty() {
            tree.entries.insert(below, FileState::Folder);
        }
    }
    if left_out > 0 {
        output::warning(
            &format!(
                "{} of the workspace not uploaded: special files, and names and targets that are not UTF-8",
                output::count(left_out, "entry")
            ),
            None,
        );
    }
    let text = serde_json::to_vec(&tree).map_err(|error| cannot(error.into()))?;
    Ok(LocalTree { digest: runtime::digest(&text), text, root, paths })
}

fn read_file(root: &Dir, path: &str) -> Result<Vec<u8>, CliError> {
    let cannot = |error: std::io::Error| CliError::io(format_args!("read {}", quoted(path)), error);
    let mut bytes = Vec::new();
    let file = root.open(path).map_err(cannot)?;
    file.into_std().take(FILE + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > FILE {
        return Err(CliError::usage(format!("{} is larger than 64 MiB", quoted(path))));
    }
    Ok(bytes)
}

pub(crate) fn read_stdin(file: &Path) -> Result<Output, CliError> {
    let place = quoted(&file.to_string_lossy());
    let cannot = |error: std::io::Error| CliError::io(format_args!("read {place}"), error);
    let mut bytes = Vec::new();
    if file.as_os_str() == "-" {
        std::io::stdin().take(STDIN + 1).read_to_end(&mut bytes).map_err(cannot)?;
    } else {
        #[expect(clippy::disallowed_methods, reason = "a file that the operator named")]
        let opened = std::fs::File::open(file).map_err(cannot)?;
        opened.take(STDIN + 1).read_to_end(&mut bytes).map_err(cannot)?;
    }
    if bytes.len() as u64 > STDIN {
        return Err(CliError::usage("the standard input may have 5 MiB")
            .fix("put it into a file of --workspace"));
    }
    Ok(Output(bytes))
}
