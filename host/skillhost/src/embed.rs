//! skillhost inside another program: a host with a policy, a catalogue and a queue, and requests
//! that name a skill.
//!
//! [`Host::builder`] takes what a host needs, and [`Host::invoke`] runs a skill: under the policy,
//! in the queue, into the audit log, as `skillhost run` does. Nothing is global: a process may have
//! several hosts, each with a folder of its own. `docs/guide/embedding.md` has an example that is run as
//! a test.
//!
//! This and what its signatures name are what stays the same between versions that semver calls
//! compatible.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::invoke::hooks::{PlannedRun, RunHooks};
use crate::invoke::{self, Invocation, RunnerOptions, Target};
use crate::service::{Capacity, Service, ServiceError};
use skillhost_catalog::{Catalog, CatalogError, Source, SourceKind};
use skillhost_ledger::audit::Record;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::diagnostic::Diagnostic;
use skillhost_policy::outcome::Denial;
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::files::Guarded;
use skillhost_sandbox::http::{Resolver, Roots, Tls};
use skillhost_sandbox::{Allocation, Io, Options, Stdin};
use skillhost_skill::SkillFolder;
use skillhost_skill::private;
use skillhost_skill::runtime::custom::{Runtime, Runtimes};

/// A host for skills. Cheap to clone; all clones are one host.
#[derive(Clone)]
pub struct Host {
    service: Service,
    policy: Policy,
    catalog: Catalog,
    scratch: PathBuf,
}

/// What a host is made of.
pub struct HostBuilder {
    home: Option<PathBuf>,
    compiler: Option<PathBuf>,
    programs: Vec<PathBuf>,
    skills: Vec<PathBuf>,
    policy: Policy,
    capacity: Capacity,
    allocation: Allocation,
    hooks: RunHooks,
    runtimes: Vec<Arc<dyn Runtime>>,
}

/// A skill to run.
pub struct Request {
    skill: PathBuf,
    target: Target,
    args: Vec<String>,
    stdin: Stdin,
    workspace: Option<(PathBuf, MountMode)>,
}

/// Why there is no host.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Something was not said that has no default.
    #[error("no {0} is set: call `HostBuilder::{0}`")]
    Missing(&'static str),
    /// The host's own folder, or a folder of skills, cannot be used.
    #[error("cannot use the folder {}: {error}", .folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// There is no catalogue.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The built-in certificate authorities cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum InvokeError {
    /// It is neither a folder nor the name of a skill in the catalogue.
    #[error("no skill `{}`", .0.display())]
    NoSkill(PathBuf),
    /// The request's own permissions cannot be understood.
    #[error("invalid workspace: {}", .0.iter().map(|found| found.message.as_str()).collect::<Vec<_>>().join("; "))]
    Workspace(Vec<Diagnostic>),
    /// It was not run.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl Host {
    /// A host that is to be made. It needs a home and a compiler; what else it has by default
    /// grants what [`Policy::builtin`](skillhost_policy::Policy::builtin) does.
    pub fn builder() -> HostBuilder {
        HostBuilder {
            home: None,
            compiler: None,
            programs: Vec::new(),
            skills: Vec::new(),
            policy: Policy::builtin(),
            capacity: Capacity::default(),
            allocation: Allocation::OnDemand,
            hooks: RunHooks::default(),
            runtimes: Vec::new(),
        }
    }

    /// Runs a skill when its turn has come, and records it. Dropping the future ends the
    /// invocation, and records that.
    ///
    /// # Errors
    /// There is no such skill, no room, or no audit log. Whatever the skill does is an outcome.
    pub async fn invoke(&self, request: Request) -> Result<Invocation, InvokeError> {
        let (folder, source) = self.folder(&request.skill)?;
        let skill = SkillFolder { path: &folder, source };
        let overrides = Overrides { workspace: request.workspace, ..Overrides::default() };
        let policy =
            self.policy.clone().with_command_line(overrides).map_err(InvokeError::Workspace)?;
        let io = Io { stdin: request.stdin, ..Io::default() };
        let request = invoke::RunRequest {
            skill,
            policy: &policy,
            target: request.target,
            args: request.args,
            io,
        };
        Ok(self.service.invoke(request).await?)
    }

    /// The skills that are there.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What a skill may do.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The queue, for what this type does not offer.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Takes no more requests, lets those that run end, and waits until the audit log is at rest.
    pub async fn close(&self) {
        self.service.close().await;
        self.service.runner().settle();
        // What a killed process that shares the folder has left.
        if let Err(error) = private::sweep(&self.scratch) {
            tracing::debug!(%error, "cannot remove stale folders");
        }
    }

    fn folder(&self, skill: &Path) -> Result<(PathBuf, SourceKind), InvokeError> {
        let named = || {
            self.catalog
                .get(skill.to_str()?)
                .map(|entry| (entry.folder.to_path_buf(), entry.source))
        };
        // A path, not a name, where it has more than one part.
        let found =
            if skill.components().count() > 1 || skill.is_absolute() { None } else { named() };
        found
            .or_else(|| skill.is_dir().then(|| (skill.to_owned(), SourceKind::Path)))
            .ok_or_else(|| InvokeError::NoSkill(skill.to_owned()))
    }
}

impl HostBuilder {
    /// The host's own folder: compiled components, the audit log, what skills keep, scratch space.
    /// No guest ever sees it. Made where it is missing; other hosts may share it.
    #[must_use]
    pub fn home(self, folder: impl Into<PathBuf>) -> HostBuilder {
        HostBuilder { home: Some(folder.into()), ..self }
    }

    /// The program that compiles components, in a process of its own: the `skillhost` binary, or
    /// one whose `main` begins with [`compile_if_asked`].
    #[must_use]
    pub fn compiler(self, program: impl Into<PathBuf>) -> HostBuilder {
        HostBuilder { compiler: Some(program.into()), ..self }
    }

    /// A folder of built-in programs, such as Python and the shell; the first that has one counts.
    #[must_use]
    pub fn programs(mut self, folder: impl Into<PathBuf>) -> HostBuilder {
        self.programs.push(folder.into());
        self
    }

    /// A folder of skills for the catalogue; of two skills of one name, that of the folder named
    /// first counts.
    #[must_use]
    pub fn skills(mut self, folder: impl Into<PathBuf>) -> HostBuilder {
        self.skills.push(folder.into());
        self
    }

    /// What skills may do.
    #[must_use]
    pub fn policy(self, policy: Policy) -> HostBuilder {
        HostBuilder { policy, ..self }
    }

    /// How much runs at once.
    #[must_use]
    pub fn capacity(self, capacity: Capacity) -> HostBuilder {
        HostBuilder { capacity, ..self }
    }

    /// How guests get their memory: [`Allocation::Pooling`] for a host that runs many.
    #[must_use]
    pub fn allocation(self, allocation: Allocation) -> HostBuilder {
        HostBuilder { allocation, ..self }
    }

    /// Asked before each run; what it refuses is recorded as denied. It cannot widen the policy.
    #[must_use]
    pub fn approve(
        mut self,
        approve: impl Fn(&PlannedRun<'_>) -> Result<(), Denial> + Send + Sync + 'static,
    ) -> HostBuilder {
        self.hooks.approve = Some(Arc::new(approve));
        self
    }

    /// Told of each record once it is in the audit log. The invocation waits for it.
    #[must_use]
    pub fn on_record(
        mut self,
        recorded: impl Fn(&Record<'_>) + Send + Sync + 'static,
    ) -> HostBuilder {
        self.hooks.recorded = Some(Arc::new(recorded));
        self
    }

    /// A language of scripts beside Python and the shell.
    #[must_use]
    pub fn runtime(mut self, runtime: impl Runtime + 'static) -> HostBuilder {
        self.runtimes.push(Arc::new(runtime));
        self
    }

    /// The host.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build(mut self) -> Result<Host, BuildError> {
        let home = self.home.ok_or(BuildError::Missing("home"))?;
        let compiler = self.compiler.ok_or(BuildError::Missing("compiler"))?;
        let [cache, scratch] = ["cache", "scratch"].map(|name| home.join(name));
        for folder in [&home, &scratch] {
            // What skills keep, what they were given and what they did is this user's alone.
            private::open_or_create(folder)
                .map_err(|error| BuildError::Folder { folder: folder.clone(), error })?;
        }
        self.hooks.runtimes = Runtimes::new(self.runtimes);
        let options = RunnerOptions {
            sandbox: Options {
                compiler,
                cache: cache.join("components"),
                allocation: self.allocation,
                tls: Arc::new(
                    Tls::new(Roots::default())
                        .map_err(|error| BuildError::Tls(error.to_string()))?,
                ),
                resolver: Resolver::System,
            },
            programs: self.programs,
            scratch: scratch.clone(),
            state: home.join("state"),
            audit: home.join("audit.jsonl"),
            guarded: Guarded {
                own: vec![home],
                read_only: self.skills.clone(),
                ..Guarded::default()
            },
            caps: Default::default(),
        };
        let sources = self
            .skills
            .into_iter()
            .map(|folder| Source { folder, kind: SourceKind::Policy })
            .collect();
        let catalog = Catalog::open(sources, Some(&cache))?;
        let service =
            Service::new(invoke::Runner::new(options).with_hooks(self.hooks), self.capacity);
        Ok(Host { service, policy: self.policy, catalog, scratch })
    }
}

impl Request {
    /// A skill, by its name in the catalogue or by its folder: its component, or its only script.
    pub fn of(skill: impl Into<PathBuf>) -> Request {
        Request {
            skill: skill.into(),
            target: Target::Main,
            args: Vec::new(),
            stdin: Stdin::Empty,
            workspace: None,
        }
    }

    /// One of its scripts, by path or name.
    #[must_use]
    pub fn script(self, name: impl Into<String>) -> Request {
        Request { target: Target::Named(name.into()), ..self }
    }

    /// One of its component's typed tools, and its input as a JSON text.
    #[must_use]
    pub fn tool(self, name: impl Into<String>, input: impl Into<String>) -> Request {
        Request { target: Target::Tool { name: name.into(), input: input.into() }, ..self }
    }

    /// A command line for the sandbox's shell.
    #[must_use]
    pub fn command(self, text: impl Into<String>) -> Request {
        Request { target: Target::Shell(text.into()), ..self }
    }

    /// The arguments.
    #[must_use]
    pub fn args<A: Into<String>>(self, args: impl IntoIterator<Item = A>) -> Request {
        Request { args: args.into_iter().map(Into::into).collect(), ..self }
    }

    /// Standard input; empty without it.
    #[must_use]
    pub fn stdin(self, bytes: impl Into<Vec<u8>>) -> Request {
        Request { stdin: Stdin::Bytes(bytes.into()), ..self }
    }

    /// The folder that the skill sees as `/workspace`, as far as the policy grants it one.
    #[must_use]
    pub fn workspace(self, folder: impl Into<PathBuf>, mode: MountMode) -> Request {
        Request { workspace: Some((folder.into(), mode)), ..self }
    }
}

/// Makes a program of an embedder's its own compiler: `main` calls it first of all, and goes on
/// where it returns. In the process that a host has started to compile a component it does not
/// return.
pub fn compile_if_asked() {
    skillhost_sandbox::compile_if_asked();
}
