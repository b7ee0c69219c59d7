//! The flags that say what a skill may do, shared by the verbs that need a policy.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use skillhost_policy::capabilities::MountMode;
use skillhost_policy::determinism::{DeterminismRule, parse_start_time};
use skillhost_policy::limits::Limit;
use skillhost_policy::refusal::Refusal;
use skillhost_policy::{self as policy, Overrides, Policy};
use skillhost_skill::ownership;

use super::exit::Exit;
use super::places::Places;
use super::{Failure, show};

/// The policy file alone, for verbs that run nothing.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Permissions")]
pub(crate) struct PolicyFile {
    /// The policy file [default: $SKILLHOST_POLICY, else policy.yaml in the configuration folder,
    /// else the built-in one]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// What the operator allows.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Permissions")]
pub(crate) struct Permissions {
    #[command(flatten)]
    file: PolicyFile,
    /// The folder that guests see as /workspace; `:ro` read-only, `:overlay` keeps writes aside
    #[arg(long, value_name = "DIR[:ro|:overlay]", value_parser = workspace)]
    workspace: Option<(PathBuf, MountMode)>,
    /// Allow one more entry, written as in allowed-tools (repeatable)
    #[arg(long, value_name = "ENTRY")]
    allow: Vec<String>,
    /// Deny an entry, whoever allows it (repeatable)
    #[arg(long, value_name = "ENTRY")]
    deny: Vec<String>,
    /// Set a variable for the guest, or pass the host's own by its name (repeatable)
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Add a folder of Python packages, read-only (repeatable)
    #[arg(long, value_name = "DIR")]
    site_packages: Vec<PathBuf>,
    /// Wall time of the whole run, such as 30s
    #[arg(long, value_name = "TIME", value_parser = parse_limit(Limit::Timeout))]
    timeout: Option<u64>,
    /// Linear memory of all programs of the run, such as 256MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_limit(Limit::Memory))]
    memory: Option<u64>,
    /// Fuel, about one unit an instruction; runs the guest on the engine that counts it
    #[arg(long, value_name = "UNITS", value_parser = parse_limit(Limit::Fuel))]
    fuel: Option<u64>,
    /// Give the same bytes and the same fuel on every machine: seeded chance, virtual clocks, no
    /// network
    #[arg(long)]
    deterministic: bool,
    /// Where a deterministic run's random numbers come from [default: the policy's, else 0]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// When a deterministic run starts, for its guests [default: the policy's, else
    /// 2026-01-01T00:00:00Z]
    #[arg(long, value_name = "TIME", value_parser = parse_start_time)]
    start_time: Option<u64>,
}

/// The environment variable that names a policy file.
const POLICY_VARIABLE: &str = "SKILLHOST_POLICY";

impl PolicyFile {
    /// The file's policy, or the built-in one.
    pub(crate) fn read(&self, places: &Places) -> Result<Policy, Failure> {
        match self.find(places) {
            Some((path, named_by)) => read(&path, named_by, &places.home),
            None => Ok(Policy::builtin()),
        }
    }

    /// The file that was named, and by what; or the one in the configuration folder, where there is
    /// one.
    fn find(&self, places: &Places) -> Option<(PathBuf, &'static str)> {
        #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
        let variable = || {
            std::env::var_os(POLICY_VARIABLE)
                .filter(|value| !value.is_empty())
                .map(|path| (path.into(), "$SKILLHOST_POLICY"))
        };
        let standard = || {
            Some(places.config.join("policy.yaml"))
                .filter(|path| path.symlink_metadata().is_ok())
                .map(|path| (path, "the configuration folder"))
        };
        self.policy.clone().map(|path| (path, "--policy")).or_else(variable).or_else(standard)
    }
}

impl Permissions {
    /// The folder that `--workspace` names.
    pub(crate) fn workspace_folder(&self) -> Option<&Path> {
        self.workspace.as_ref().map(|(folder, _)| folder.as_path())
    }

    /// The same for a run that a receipt tells of: with its seed and start time, which allow
    /// nothing, and in a folder of its own.
    pub(crate) fn repeating(
        self,
        workspace: Option<(PathBuf, MountMode)>,
        receipt: &serde_json::Value,
    ) -> Permissions {
        let start = &receipt["grant"]["capabilities"]["determinism"];
        let number =
            |value: &serde_json::Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let start_time = start["start_time"].as_str().and_then(|text| parse_start_time(text).ok());
        Permissions {
            workspace,
            deterministic: start.is_object(),
            seed: number(&start["seed"]),
            start_time,
            ..self
        }
    }

    /// For a run that is recorded.
    pub(crate) fn recorded(self) -> Permissions {
        Permissions { deterministic: true, ..self }
    }

    /// What bounds a run that needs nothing else.
    pub(crate) fn bounds(
        policy: Option<PathBuf>,
        timeout: Option<u64>,
        memory: Option<u64>,
    ) -> Permissions {
        Permissions { file: PolicyFile { policy }, timeout, memory, ..Permissions::default() }
    }

    /// The policy in force: the file's or the built-in one, with the command line's flags on top.
    pub(crate) fn policy(&self, places: &Places) -> Result<Policy, Failure> {
        let base = self.file.read(places)?;
        let mut policy = base.with_command_line(self.overrides()).map_err(|findings| {
            show::findings(&findings, "");
            Failure::new(Exit::Usage, "the command line's permissions cannot be understood")
        })?;
        let starts = [("--seed", self.seed.is_some()), ("--start-time", self.start_time.is_some())];
        let is_deterministic = policy.layers.iter().any(|layer| layer.determinism.on == Some(true));
        if let Some((flag, _)) = starts.into_iter().find(|(_, given)| *given && !is_deterministic) {
            return Err(Failure::new(Exit::Usage, format!("{flag} is for deterministic runs"))
                .fix(format!("--deterministic {flag} ...")));
        }
        #[expect(clippy::disallowed_methods, reason = "variables that the operator passes by name")]
        let lookup = |name: &str| std::env::var(name).ok();
        for name in self.env.iter().filter(|entry| !entry.contains('=') && lookup(entry).is_none())
        {
            show::warning(
                &format!(
                    "--env {name}: no variable of that name is set here, so the guest gets none"
                ),
                Some(&format!("--env {name}=VALUE")),
            );
        }
        policy.resolve_env(lookup);
        Ok(policy)
    }

    /// The policy's file, where there is one: its name and its text.
    pub(crate) fn policy_text(
        &self,
        places: &Places,
    ) -> Result<Option<(PathBuf, String)>, Failure> {
        let Some((path, named_by)) = self.file.find(places) else { return Ok(None) };
        let text = text_of(&path, named_by)?;
        Ok(Some((path, text)))
    }

    /// The policy that another text would be in that file's place, under the same command line but
    /// for `--allow`.
    pub(crate) fn with_text(&self, path: &Path, text: &str, places: &Places) -> Option<Policy> {
        let overrides = Overrides { allow: Vec::new(), ..self.overrides() };
        policy::load(path, text, Some(&places.home)).ok()?.with_command_line(overrides).ok()
    }

    /// What the flags say.
    fn overrides(&self) -> Overrides {
        let limits = [
            (Limit::Timeout, self.timeout),
            (Limit::Memory, self.memory),
            (Limit::Fuel, self.fuel),
        ];
        Overrides {
            workspace: self.workspace.clone(),
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            env: self.env.clone(),
            packages: self.site_packages.clone(),
            limits: limits.into_iter().filter_map(|(limit, value)| Some((limit, value?))).collect(),
            determinism: DeterminismRule {
                on: self.deterministic.then_some(true),
                seed: self.seed,
                start_time: self.start_time,
            },
        }
    }
}

fn read(path: &Path, named_by: &str, home: &Path) -> Result<Policy, Failure> {
    let text = text_of(path, named_by)?;
    policy::load(path, &text, Some(home)).map_err(|error| {
        show::findings(&error.diagnostics, &error.source_text);
        Failure::new(Exit::Invalid, format!("{}: {error}", path.display()))
    })
}

fn text_of(path: &Path, named_by: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(
            Exit::Invalid,
            format!("the policy {} (from {named_by}) cannot be read: {error}", path.display()),
        )
    };
    #[expect(clippy::disallowed_methods, reason = "the policy file is named by the operator")]
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let found = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
    ownership::check(path, &found).map_err(untrusted)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Converts a refusal of a file that others may have written.
pub(super) fn untrusted(refusal: Refusal) -> Failure {
    let failure = Failure::new(Exit::Denied, refusal.why);
    match refusal.fix {
        Some(fix) => failure.fix(fix),
        None => failure,
    }
}

/// `DIR`, `DIR:ro` or `DIR:overlay`. A folder whose name ends in `:ro` is named `DIR/`.
fn workspace(text: &str) -> Result<(PathBuf, MountMode), String> {
    let (folder, mode) = match text.rsplit_once(':') {
        Some((folder, "ro")) => (folder, MountMode::Read),
        Some((folder, "overlay")) => (folder, MountMode::Overlay),
        Some((_, "rw" | "read" | "write")) => {
            return Err("after the colon comes `ro` or `overlay`; read-write is the default".into());
        }
        _ => (text, MountMode::Write),
    };
    if folder.is_empty() {
        Err("the folder's name is missing".into())
    } else {
        Ok((folder.into(), mode))
    }
}

/// A limit of the command line, as `Limit` reads it.
pub(super) fn parse_limit(
    limit: Limit,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| limit.parse(text)
}
