//! Where things are on this machine: the XDG folders, the home folder, the folder for scratch
//! space. Read from the environment once.

use std::path::{Path, PathBuf};

use etcetera::base_strategy::{BaseStrategy as _, Xdg};
use skillhost::invoke::RunnerOptions;
use skillhost_ledger::approval::Approvals;
use skillhost_ledger::usage;
use skillhost_sandbox::files::Guarded;
use skillhost_sandbox::http::{Resolver, Roots, Tls};
use skillhost_sandbox::{Allocation, Options};
use skillhost_skill::ownership;

use super::Failure;
use super::exit::Exit;

/// Where a host is told to find things.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct HostArgs {
    /// Where the audit records go, instead of the state folder
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    /// The folder of built-in programs [default: $SKILLHOST_PROGRAMS, else those beside this
    /// executable]
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
}

/// This user's folders.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) home: PathBuf,
    pub(crate) config: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) cache: PathBuf,
    pub(crate) scratch: PathBuf,
}

impl Places {
    /// Finds them.
    pub(crate) fn find() -> Result<Places, Failure> {
        let places = Places::named()?;
        if let Ok(found) = rustix::fs::stat(&places.state) {
            ownership::check(&places.state, &found).map_err(super::permissions::untrusted)?;
        }
        Ok(places)
    }

    /// Where they are, whoever they belong to: for what reads nothing that is kept in the state
    /// folder.
    pub(crate) fn named() -> Result<Places, Failure> {
        let xdg = Xdg::new().map_err(|error| {
            Failure::new(Exit::Io, format!("no home folder: {error}")).fix("set $HOME")
        })?;
        Ok(Places {
            config: xdg.config_dir().join("skillhost"),
            state: xdg.state_dir().unwrap_or_else(|| xdg.data_dir()).join("skillhost"),
            data: xdg.data_dir().join("skillhost"),
            cache: xdg.cache_dir().join("skillhost"),
            home: xdg.home_dir().to_owned(),
            scratch: std::env::temp_dir(),
        })
    }

    /// The audit log.
    pub(crate) fn audit(&self) -> PathBuf {
        self.state.join("audit.jsonl")
    }

    /// Where the skills lie that come with this executable.
    pub(crate) fn built_in_skills(&self) -> Option<PathBuf> {
        let executable = std::env::current_exe().and_then(|path| path.canonicalize()).ok()?;
        // An executable that is not installed lies in a build tree, which a guest may be granted as
        // its workspace.
        let bin = executable.parent().filter(|folder| folder.ends_with("bin"))?;
        Some(bin.parent()?.join("share/skillhost/skills"))
    }

    /// Levels and approvals.
    pub(crate) fn approvals(&self) -> Approvals {
        Approvals::open(&self.state.join("approvals.db"))
    }

    /// How agents use skills.
    pub(crate) fn usage(&self) -> usage::UsageStore {
        usage::UsageStore::at(&self.state.join("usage.db"))
    }

    /// What skills keep from run to run.
    pub(crate) fn kept(&self) -> PathBuf {
        self.data.join("state")
    }

    /// A host for one command line.
    pub(crate) fn host_options(&self, args: &HostArgs) -> Result<RunnerOptions, Failure> {
        let compiler = std::env::current_exe()
            .map_err(|error| Failure::new(Exit::Io, format!("this program's own path: {error}")))?;
        let tls = Tls::new(Roots::default())
            .map_err(|error| Failure::new(Exit::Io, format!("TLS: {error}")))?;
        Ok(RunnerOptions {
            programs: program_folders(args.programs.as_deref(), &compiler)?,
            sandbox: Options {
                compiler,
                cache: self.cache.join("components"),
                allocation: Allocation::OnDemand,
                tls: tls.into(),
                resolver: Resolver::System,
            },
            scratch: self.scratch.clone(),
            guarded: Guarded {
                home: Some(self.home.clone()),
                own: vec![
                    self.config.clone(),
                    self.state.clone(),
                    self.data.clone(),
                    self.cache.clone(),
                ],
                ..Guarded::default()
            },
            state: self.kept(),
            audit: args.audit.clone().unwrap_or_else(|| self.audit()),
            caps: Default::default(),
        })
    }
}

/// The environment variable that names the folder of built-in programs.
const PROGRAMS_VARIABLE: &str = "SKILLHOST_PROGRAMS";

/// The folder that was named, which has to be there; or those beside this executable, by its real
/// place.
fn program_folders(named: Option<&Path>, executable: &Path) -> Result<Vec<PathBuf>, Failure> {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let variable = || {
        std::env::var_os(PROGRAMS_VARIABLE)
            .filter(|value| !value.is_empty())
            .map(|path| (path.into(), "$SKILLHOST_PROGRAMS"))
    };
    if let Some((folder, by)) = named.map(|path| (path.to_owned(), "--programs")).or_else(variable)
    {
        let absolute = folder.canonicalize().map_err(|error| {
            Failure::new(
                Exit::Usage,
                format!(
                    "the folder of programs {} (from {by}) cannot be opened: {error}",
                    folder.display()
                ),
            )
        })?;
        return Ok(vec![absolute]);
    }
    let executable = executable.canonicalize().unwrap_or_else(|_| executable.to_owned());
    let above = executable.parent().and_then(Path::parent);
    Ok(above
        .into_iter()
        .flat_map(|above| ["components", "share/skillhost"].map(|folder| above.join(folder)))
        .collect())
}
