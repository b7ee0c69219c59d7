//! What a command works with: the user's folders, the policy in force, and what is made from them.
//! The environment is read here, once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcetera::base_strategy::{BaseStrategy as _, Xdg};
use skillhost::invoke::RunnerOptions;
use skillhost_catalog::{Catalog, Source, SourceKind};
use skillhost_ledger::approval::Approvals;
use skillhost_ledger::usage;
use skillhost_policy::Policy;
use skillhost_sandbox::files::GuardedPaths;
use skillhost_sandbox::http::{Resolver, Roots, Tls};
use skillhost_sandbox::{Allocation, Options};
use skillhost_skill::ownership;

use crate::args::permissions::{Permissions, PolicyFile};
use crate::args::skills::{Skills, Tags};
use crate::args::{HostArgs, RuntimesArg};
use crate::error::CliError;
use crate::{output, requirements};

/// What a command works with that needs a policy.
pub(crate) struct Context {
    pub(crate) places: Places,
    pub(crate) policy: Policy,
}

impl Context {
    /// The policy file's, without permissions from the command line.
    pub(crate) fn with_file(file: &PolicyFile) -> Result<Context, CliError> {
        let places = Places::find()?;
        let policy = file.read(&places)?;
        Ok(Context { places, policy })
    }

    /// The policy file's, with the permissions of the command line on top.
    pub(crate) fn with_permissions(permissions: &Permissions) -> Result<Context, CliError> {
        let places = Places::find()?;
        let policy = permissions.policy(&places)?;
        Ok(Context { places, policy })
    }

    /// The skills that can be named.
    pub(crate) fn catalog(&self, skills: &Skills) -> Result<Catalog, CliError> {
        self.tagged_catalog(skills, &Tags::default())
    }

    /// The skills that can be named and have one of the tags; without tags, all.
    pub(crate) fn tagged_catalog(&self, skills: &Skills, tags: &Tags) -> Result<Catalog, CliError> {
        let sources = skills.all_sources(self)?;
        for Source { folder, kind, .. } in &sources {
            let missing = if folder.is_dir() { "" } else { ", missing" };
            output::info(|| {
                format!("skills: {} ({}{missing})", folder.display(), source_name(*kind))
            });
        }
        let catalog = Catalog::open_tagged(sources, Some(&self.places.cache), tags.names())?;
        let enabled = self.places.approvals().enabled_filter(&self.policy)?;
        catalog.set_enabled(move |entry| enabled(&entry.name, entry.network));
        Ok(catalog)
    }
    /// Options for a host that keeps guests from writing the folders that skills run from.
    pub(crate) fn host_options(
        &self,
        args: &HostArgs,
        skills: &Skills,
    ) -> Result<RunnerOptions, CliError> {
        let mut options = self.places.host_options(args)?;
        // Looking for the folders takes time, and a policy that grants no folder needs none.
        if self.policy.may_grant_folders() {
            options.guarded.read_only = self.skill_folders(skills);
        }
        Ok(options)
    }

    /// The folders that skills run from, which guests must not write.
    pub(crate) fn skill_folders(&self, skills: &Skills) -> Vec<PathBuf> {
        skills.sources(self).into_iter().map(|source| source.folder).collect()
    }
}

/// Who named a folder of skills.
pub(crate) fn source_name(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Path => "by path",
        SourceKind::Flag => "--skills",
        SourceKind::Project => "the project's",
        SourceKind::User => "yours",
        SourceKind::Fetched => "fetched",
        SourceKind::Policy => "the policy's",
        SourceKind::BuiltIn => "built in",
    }
}

/// The folders of the user who runs this.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) home: PathBuf,
    pub(crate) config: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) cache: PathBuf,
    pub(crate) scratch: PathBuf,
}

impl Places {
    /// Finds the folders. Refuses a state folder that another user can write to.
    pub(crate) fn find() -> Result<Places, CliError> {
        let places = Places::unchecked()?;
        if let Ok(found) = rustix::fs::stat(&places.state) {
            ownership::check(&places.state, &found)?;
        }
        Ok(places)
    }

    /// Finds the folders, regardless of their owner, for a caller that reads nothing from the state
    /// folder.
    pub(crate) fn unchecked() -> Result<Places, CliError> {
        let xdg = Xdg::new()
            .map_err(|error| CliError::io("find the home folder", error).fix("set $HOME"))?;
        #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
        let named = std::env::var(FOLDERS_VARIABLE).ok().filter(|named| !named.is_empty());
        if let Some(named) = named {
            let [config, state, data, cache] = operator_folders(&named)?;
            let (home, scratch) = (xdg.home_dir().to_owned(), std::env::temp_dir());
            return Ok(Places { home, config, state, data, cache, scratch });
        }
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

    /// The skills that are installed together with this executable.
    pub(crate) fn built_in_skills(&self) -> Option<PathBuf> {
        let executable = std::env::current_exe().and_then(|path| path.canonicalize()).ok()?;
        // An executable that is not installed is in a build tree, which a guest may be granted as
        // its workspace.
        let bin = executable.parent().filter(|folder| folder.ends_with("bin"))?;
        Some(bin.parent()?.join("share/skillhost/skills"))
    }

    /// Permission levels and approvals.
    pub(crate) fn approvals(&self) -> Approvals {
        Approvals::open(&self.approvals_file())
    }

    fn approvals_file(&self) -> PathBuf {
        self.state.join("approvals.db")
    }

    /// Statistics of how agents use skills.
    pub(crate) fn usage(&self) -> usage::UsageStore {
        usage::UsageStore::at(&self.state.join("usage.db"))
    }

    /// The state of the tenants of the run API.
    pub(crate) fn tenants(&self) -> PathBuf {
        self.state.join("tenants")
    }

    /// The state that skills keep between runs.
    pub(crate) fn skill_state(&self) -> PathBuf {
        self.data.join("state")
    }

    /// Options for a host.
    pub(crate) fn host_options(&self, args: &HostArgs) -> Result<RunnerOptions, CliError> {
        let compiler =
            std::env::current_exe().map_err(|error| CliError::io("find this executable", error))?;
        let tls = Tls::new(Roots::default())
            .map_err(|error| CliError::io("load the certificate authorities", error))?;
        let programs = runtime_folders(args.runtimes.programs.as_deref(), &compiler)?;
        programs.iter().for_each(|folder| {
            output::info(|| format!("runtimes: {}", folder.display()));
        });
        let audit = args.audit.clone().unwrap_or_else(|| self.audit());
        output::info(|| format!("audit log: {}", audit.display()));
        Ok(RunnerOptions {
            programs,
            sandbox: Options {
                compiler,
                cache: self.cache.join("components"),
                allocation: Allocation::OnDemand,
                tls: tls.into(),
                resolver: Resolver::System,
            },
            scratch: self.scratch.clone(),
            guarded: GuardedPaths {
                home: Some(self.home.clone()),
                own: vec![
                    self.config.clone(),
                    self.state.clone(),
                    self.data.clone(),
                    self.cache.clone(),
                ],
                ..GuardedPaths::default()
            },
            state: self.skill_state(),
            settings: Some(self.approvals_file()),
            audit,
            verifier: Some(Arc::new(requirements::verifier(self))),
        })
    }
}

/// The environment variable that names the operator's folders where $HOME is an agent's: those of the
/// configuration, state, data and cache, with colons between them.
pub(crate) const FOLDERS_VARIABLE: &str = "SKILLHOST_FOLDERS";

/// The environment variable that names a folder of skills, as `--skills` does.
pub(crate) const SKILLS_VARIABLE: &str = "SKILLHOST_SKILLS";

fn operator_folders(named: &str) -> Result<[PathBuf; 4], CliError> {
    let folders: Vec<PathBuf> = named.split(':').map(PathBuf::from).collect();
    match <[PathBuf; 4]>::try_from(folders) {
        Ok(folders) if folders.iter().all(|folder| folder.is_absolute()) => Ok(folders),
        _ => Err(CliError::usage(format!("${FOLDERS_VARIABLE} is not four absolute paths"))
            .fix("`skillhost agent` sets it; do not change it")),
    }
}

/// How another program starts this one: by its name if that is what the search path finds.
pub(crate) fn own_program() -> String {
    const NAME: &str = "skillhost";
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::current_exe().and_then(|own| own.canonicalize()).ok();
    let found =
        std::env::split_paths(&path).find_map(|folder| folder.join(NAME).canonicalize().ok());
    match own {
        Some(own) if found.as_ref() != Some(&own) => own.display().to_string(),
        _ => NAME.to_owned(),
    }
}

/// The environment variable that names the folder of runtimes.
pub(crate) const RUNTIMES_VARIABLE: &str = "SKILLHOST_PROGRAMS";

/// What names the folder of runtimes, if anything does.
pub(crate) fn runtimes_origin(args: &RuntimesArg) -> Option<&'static str> {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let is_set = || std::env::var_os(RUNTIMES_VARIABLE).is_some_and(|value| !value.is_empty());
    match &args.programs {
        Some(_) => Some("--programs"),
        None => is_set().then_some("$SKILLHOST_PROGRAMS"),
    }
}

/// The folder that was named, which must exist; else those next to this executable.
fn runtime_folders(named: Option<&Path>, executable: &Path) -> Result<Vec<PathBuf>, CliError> {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let variable = || {
        std::env::var_os(RUNTIMES_VARIABLE)
            .filter(|value| !value.is_empty())
            .map(|path| (path.into(), "$SKILLHOST_PROGRAMS"))
    };
    if let Some((folder, by)) = named.map(|path| (path.to_owned(), "--programs")).or_else(variable)
    {
        let absolute = folder.canonicalize().map_err(|error| {
            CliError::usage(format!(
                "cannot open the folder of runtimes {} (from {by}): {error}",
                folder.display()
            ))
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
