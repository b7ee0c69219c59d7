//! The flags that say what a skill may do, shared by the commands that need a policy.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use skillhost_policy::capabilities::MountMode;
use skillhost_policy::determinism::{DeterminismRule, parse_start_time};
use skillhost_policy::diagnostic::quoted;
use skillhost_policy::limits::{Limit, parse_skill_size};
use skillhost_policy::{self as policy, Overrides, Policy};
use skillhost_skill::ownership;

use crate::args::numbers::whole_number;
use crate::context::Places;
use crate::error::CliError;
use crate::{output, sources};

/// The policy file alone, for commands that run nothing.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Permissions")]
pub(crate) struct PolicyFile {
    /// The policy file [default: $SKILLHOST_POLICY, else policy.yaml in the configuration folder,
    /// else the built-in policy]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// What the operator allows.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Permissions")]
pub(crate) struct Permissions {
    #[command(flatten)]
    file: PolicyFile,
    /// Mount a folder at /workspace; `:ro` makes it read-only, `:overlay` redirects writes
    #[arg(long, value_name = "DIR[:ro|:overlay]", value_parser = workspace)]
    workspace: Option<(PathBuf, MountMode)>,
    /// Allow one more entry, written as in allowed-tools (repeatable)
    #[arg(long, value_name = "ENTRY")]
    allow: Vec<String>,
    /// Deny an entry, even if something else allows it (repeatable)
    #[arg(long, value_name = "ENTRY")]
    deny: Vec<String>,
    /// Set a variable for the guest, or pass on the host's variable of that name (repeatable)
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Add a folder of Python packages, read-only (repeatable)
    #[arg(long, value_name = "DIR")]
    site_packages: Vec<PathBuf>,
    /// Use this SARIF report for what the policy requires (`require: scan`) (repeatable)
    #[arg(long, value_name = "FILE")]
    scan: Vec<PathBuf>,
    /// Limit the wall time of the run, such as 30s
    #[arg(long, value_name = "TIME", value_parser = parse_limit(Limit::Timeout))]
    timeout: Option<u64>,
    /// Limit the linear memory of all programs of the run together, such as 256MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_limit(Limit::Memory))]
    memory: Option<u64>,
    /// Limit the fuel, about one unit per instruction; selects the engine that counts it
    #[arg(long, value_name = "UNITS", value_parser = parse_limit(Limit::Fuel))]
    fuel: Option<u64>,
    /// Load skills whose files have up to this size in total [default: the policy's, else 10MiB]; for
    /// each 10 MiB, a skill may have 2,000 files and folders
    #[arg(long, value_name = "SIZE", value_parser = parse_skill_size)]
    skill_size: Option<u64>,
    /// Produce the same output and use the same fuel on every machine: seeded randomness, virtual
    /// clocks, no network
    #[arg(long)]
    deterministic: bool,
    /// Seed the randomness of a deterministic run [default: the policy's, else 0]
    #[arg(long, value_name = "NUMBER", value_parser = whole_number::<u64>)]
    seed: Option<u64>,
    /// Start the clocks of a deterministic run at this time [default: the policy's, else
    /// 2026-01-01T00:00:00Z]
    #[arg(long, value_name = "TIME", value_parser = parse_start_time)]
    start_time: Option<u64>,
}

/// The environment variable that names a policy file.
const POLICY_VARIABLE: &str = "SKILLHOST_POLICY";

impl PolicyFile {
    /// Reads the file's policy, or returns the built-in one, with the sections that the operator has
    /// chosen for fetched skills.
    pub(crate) fn read(&self, places: &Places) -> Result<Policy, CliError> {
        let policy = match self.found(places) {
            Some((path, named_by)) => {
                output::info(|| format!("policy: {} (from {named_by})", path.display()));
                read(&path, named_by, &places.home)?
            }
            None => {
                output::info(|| "policy: the built-in one".into());
                Policy::builtin()
            }
        };
        sources::choose_sections(policy, places)
    }

    /// The same file, whatever the current folder is.
    pub(crate) fn absolute(&self) -> PolicyFile {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or(path.clone());
        PolicyFile { policy: self.policy.as_ref().map(absolute) }
    }

    /// The file that `--policy` names.
    pub(crate) fn named(&self) -> Option<&Path> {
        self.policy.as_deref()
    }

    /// The file that was named, and what named it; else the one in the configuration folder, if it
    /// exists.
    pub(crate) fn found(&self, places: &Places) -> Option<(PathBuf, &'static str)> {
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

    /// The same permissions for a repetition: in another workspace, with the seed and the start
    /// time of the run that is repeated.
    pub(crate) fn repeat(
        self,
        workspace: Option<(PathBuf, MountMode)>,
        determinism: Option<(Option<u64>, Option<u64>)>,
    ) -> Permissions {
        let (seed, start_time) = determinism.unwrap_or_default();
        Permissions { workspace, deterministic: determinism.is_some(), seed, start_time, ..self }
    }

    /// The same permissions for a deterministic run.
    pub(crate) fn deterministic(self) -> Permissions {
        Permissions { deterministic: true, ..self }
    }

    /// A policy file and two limits, for a replay: it needs no other permissions.
    pub(crate) fn limits(
        policy: Option<PathBuf>,
        timeout: Option<u64>,
        memory: Option<u64>,
    ) -> Permissions {
        Permissions { file: PolicyFile { policy }, timeout, memory, ..Permissions::default() }
    }

    /// A policy file and a workspace, for the run that a hook suggests.
    pub(crate) fn of_hook(
        file: &PolicyFile,
        workspace: Option<(PathBuf, MountMode)>,
    ) -> Permissions {
        Permissions { file: file.clone(), workspace, ..Permissions::default() }
    }

    /// The policy in force: the file's or the built-in one, with the flags on top.
    pub(crate) fn policy(&self, places: &Places) -> Result<Policy, CliError> {
        if let Some((folder, _)) = &self.workspace {
            is_folder(folder)?;
        }
        let base = self.file.read(places)?;
        let mut policy = base.with_command_line(self.overrides()).map_err(|findings| {
            CliError::usage("the permissions on the command line are invalid")
                .findings(findings, "")
        })?;
        let starts = [("--seed", self.seed.is_some()), ("--start-time", self.start_time.is_some())];
        let is_deterministic = policy.layers.iter().any(|layer| layer.determinism.on == Some(true));
        if let Some((flag, _)) = starts.into_iter().find(|(_, given)| *given && !is_deterministic) {
            return Err(CliError::usage(format!("{flag} is for deterministic runs"))
                .fix(format!("--deterministic {flag} ...")));
        }
        #[expect(clippy::disallowed_methods, reason = "variables that the operator passes by name")]
        let lookup = |name: &str| std::env::var(name).ok();
        for name in self.env.iter().filter(|entry| !entry.contains('=') && lookup(entry).is_none())
        {
            output::warning(
                &format!(
                    "--env {name}: the variable is not set here, so the guest does not get it"
                ),
                Some(&format!("--env {name}=VALUE")),
            );
        }
        policy.resolve_env(lookup);
        let required = policy.layers.iter_mut().filter_map(|layer| layer.require.as_mut());
        for scan in required.filter_map(|require| require.scan.as_mut()) {
            scan.reports.extend(self.scan.iter().cloned());
        }
        Ok(policy)
    }

    /// The name and the text of the policy file, if there is one.
    pub(crate) fn policy_text(
        &self,
        places: &Places,
    ) -> Result<Option<(PathBuf, String)>, CliError> {
        let Some((path, named_by)) = self.file.found(places) else { return Ok(None) };
        let text = text_of(&path, named_by)?;
        Ok(Some((path, text)))
    }

    /// The policy if the file had this text, under the same command line but without `--allow`.
    pub(crate) fn with_text(&self, path: &Path, text: &str, places: &Places) -> Option<Policy> {
        let overrides = Overrides { allow: Vec::new(), ..self.overrides() };
        let policy = policy::load(path, text, Some(&places.home)).ok()?;
        let (policy, _) = sources::with_chosen_sections(policy, places).ok()?;
        policy.with_command_line(overrides).ok()
    }

    /// The flags as a layer of the policy.
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
            skill_size: self.skill_size,
        }
    }
}

/// Reads the policy file of a tenant of the run API.
pub(crate) fn tenant_policy(path: &Path, home: &Path) -> Result<Policy, CliError> {
    let mut policy = read(path, "the tenants file", home)?;
    #[expect(clippy::disallowed_methods, reason = "variables that the operator passes by name")]
    policy.resolve_env(|name| std::env::var(name).ok());
    Ok(policy)
}

fn read(path: &Path, named_by: &str, home: &Path) -> Result<Policy, CliError> {
    let text = text_of(path, named_by)?;
    policy::load(path, &text, Some(home)).map_err(|error| {
        CliError::invalid(format!("{}: {error}", path.display()))
            .code("policy")
            .findings(error.diagnostics, error.source_text)
    })
}

fn text_of(path: &Path, named_by: &str) -> Result<String, CliError> {
    let failed = |error: std::io::Error| {
        CliError::invalid(format!(
            "cannot read the policy {} (from {named_by}): {error}",
            path.display()
        ))
        .code("policy")
    };
    #[expect(clippy::disallowed_methods, reason = "the policy file is named by the operator")]
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let found = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
    ownership::check(path, &found)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Checks that a folder exists which the operator named as the workspace. Whether it can be mounted
/// is decided when it is opened.
fn is_folder(folder: &Path) -> Result<(), CliError> {
    match folder.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let error = CliError::usage(format!("--workspace: no folder {}", shown(folder)));
            Err(match similar(folder) {
                Some(name) => error.fix(format!("did you mean {}?", shown(&name))),
                None if folder.is_symlink() => error.fix("it is a symlink to nothing"),
                None => error.fix(format!("create it: mkdir -p {}", shown(folder))),
            })
        }
        Ok(found) if !found.is_dir() => {
            Err(CliError::usage(format!("--workspace: {} is not a folder", shown(folder))))
        }
        _ => Ok(()),
    }
}

fn shown(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// Finds the folder beside a missing one whose name is most like its name.
fn similar(missing: &Path) -> Option<PathBuf> {
    let name = missing.file_name()?.to_str()?;
    let parent = missing.parent().filter(|parent| *parent != Path::new(""));
    #[expect(clippy::disallowed_methods, reason = "a folder that the operator named")]
    let entries = std::fs::read_dir(parent.unwrap_or(Path::new("."))).ok()?;
    let likeness = |entry: &str| strsim::jaro_winkler(name, entry);
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let nearest = names
        .filter(|entry| likeness(entry) > 0.8)
        // Only of those, since a folder may be on a file system that does not answer.
        .filter(|entry| missing.with_file_name(entry).is_dir())
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    Some(missing.with_file_name(nearest))
}

/// Parses `DIR`, `DIR:ro` or `DIR:overlay`. A folder whose name ends in `:ro` is written `DIR/`.
pub(crate) fn workspace(text: &str) -> Result<(PathBuf, MountMode), String> {
    let (folder, mode) = match text.rsplit_once(':') {
        Some((folder, "ro")) => (folder, MountMode::Read),
        Some((folder, "overlay")) => (folder, MountMode::Overlay),
        Some((_, "rw" | "read" | "write")) => {
            return Err("write `ro` or `overlay` after the colon; read-write is the default".into());
        }
        _ => (text, MountMode::Write),
    };
    if folder.is_empty() { Err("the folder is missing".into()) } else { Ok((folder.into(), mode)) }
}

/// Parses the value of a limit.
pub(crate) fn parse_limit(
    limit: Limit,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| limit.parse(text)
}
