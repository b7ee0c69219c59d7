//! The public face of the library: a host with a policy, a catalogue and a queue, and requests that
//! name a skill. The head of the crate is its guide.

mod host_programs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::invoke::evidence::{self, InvalidKey, Verifier};
use crate::invoke::hooks::{PlannedRun, RunHooks};
use crate::invoke::{self, Invocation, RunnerOptions, Target};
use crate::service::{Capacity, Service, ServiceError, ServiceLoad};
use skillhost_catalog::{Catalog, CatalogError, Source, SourceKind};
use skillhost_ledger::audit::Record;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::diagnostic::Diagnostic;
use skillhost_policy::outcome::{Denial, Outcome};
use skillhost_policy::{ClientNames, Grant, Overrides, Policy, explain};
use skillhost_sandbox::files::{ApplyError, GuardedPaths};
use skillhost_sandbox::http::{Resolver, Roots, Tls};
use skillhost_sandbox::{
    Allocation, FinishedRun, HostCall, HostFunction, HostOutput, Io, Options, Overlays, Stdin,
    memory_folder,
};
use skillhost_skill::SkillFolder;
use skillhost_skill::embedded::{EmbeddedSkill, EmbeddedSkills};
use skillhost_skill::private;
use skillhost_skill::runtime::built_in::BuiltIns;
use skillhost_skill::runtime::custom::{Runtime, Runtimes};

pub use host_programs::HostProgramError;

/// Runs skills. Cheap to clone; all clones are one host.
#[derive(Clone)]
pub struct Host {
    service: Service,
    policy: Policy,
    catalog: Catalog,
    scratch: PathBuf,
}

/// The settings of a host that is about to be created.
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
    host_programs: Vec<(String, HostFunction)>,
    embedded: Vec<EmbeddedSkill>,
    trusted: Vec<String>,
}

/// A skill to run, and its input.
pub struct Request {
    skill: PathBuf,
    target: Target,
    args: Vec<String>,
    stdin: Stdin,
    workspace: Option<(PathBuf, MountMode)>,
}

/// A finished run.
pub struct Run {
    /// How the run ended, with its output, its usage and its denials.
    pub outcome: Outcome,
    grant: Arc<Grant>,
    overlays: Overlays,
}

/// Why a host cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A required setting is missing.
    #[error("no {0} is set: call `HostBuilder::{0}`")]
    Missing(&'static str),
    /// The host's own folder, or a folder of skills, cannot be used.
    #[error("cannot use the folder {}: {error}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The skills cannot be read.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A host program has a name that it cannot have.
    #[error(transparent)]
    HostProgram(#[from] HostProgramError),
    /// The built-in certificate authorities cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// An embedded skill cannot be written to a folder, for example because two have the same name.
    #[error("cannot write the embedded skills to {}: {error}", .folder.display())]
    Embedded {
        /// The folder for them.
        folder: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// What [`HostBuilder::trust`] got is not a key, a certificate or a trusted root.
    #[error("cannot trust the text {} of `HostBuilder::trust`: {why}", .at + 1)]
    Trust {
        /// The number of the call, from 0.
        at: usize,
        /// The problem.
        why: String,
    },
}

/// Why a request has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum InvokeError {
    /// It names neither a folder nor a skill in the catalogue.
    #[error("no skill `{}`", .0.display())]
    NoSkill(PathBuf),
    /// The request's workspace is invalid.
    #[error("invalid workspace: {}", .0.iter().map(|found| found.message.as_str()).collect::<Vec<_>>().join("; "))]
    Workspace(Vec<Diagnostic>),
    /// The run was refused, or failed without an outcome.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl Host {
    /// Starts the settings of a host, with the policy
    /// [`Policy::builtin`](skillhost_policy::Policy::builtin). A home and a compiler must be set.
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
            host_programs: Vec::new(),
            embedded: Vec::new(),
            trusted: Vec::new(),
        }
    }

    /// Runs a skill as soon as it is its turn, and records the run. Dropping the future ends the
    /// run, which is recorded as interrupted.
    ///
    /// # Errors
    /// The skill does not exist, the queue is full, or the audit log cannot be written. Anything
    /// that the skill does results in an outcome.
    pub async fn invoke(&self, request: Request) -> Result<Run, InvokeError> {
        let (folder, source) = self.folder(&request.skill)?;
        let skill = SkillFolder::new(&folder, source);
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
        let Invocation { grant, finished, .. } = self.service.invoke(request).await?;
        let FinishedRun { outcome, overlays, .. } = finished;
        Ok(Run { outcome, grant, overlays })
    }

    /// Returns the catalogue of the host's skills.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the host's policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns what the queue is doing at the moment.
    pub fn load(&self) -> ServiceLoad {
        self.service.load()
    }

    /// Returns the queue.
    #[doc(hidden)]
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Accepts no more requests, waits for the current runs to end, and for background work on the
    /// audit log.
    pub async fn close(&self) {
        self.service.close().await;
        self.service.runner().settle();
        // Left by a killed process that shares the folder.
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
        // With several components it is a path, not a name.
        let found =
            if skill.components().count() > 1 || skill.is_absolute() { None } else { named() };
        found
            .or_else(|| skill.is_dir().then(|| (skill.to_owned(), SourceKind::Path)))
            .ok_or_else(|| InvokeError::NoSkill(skill.to_owned()))
    }
}

impl Run {
    /// Returns what the skill asked for and was granted, with the rule that decided, as tables that
    /// are at most `width` columns wide.
    pub fn permissions(&self, width: u16) -> String {
        explain(&self.grant, width)
    }

    /// Returns the changes in folders with [`MountMode::Overlay`], as a unified diff.
    pub fn diff(&self) -> String {
        self.overlays.diff()
    }

    /// Applies these changes to the folders. Otherwise they are discarded.
    ///
    /// # Errors
    /// A folder cannot be written, or has changed since the run.
    pub fn apply(&self) -> Result<(), ApplyError> {
        self.overlays.apply()
    }
}

impl HostBuilder {
    /// Sets the host's own folder: compiled components, the audit log, the state of skills, scratch
    /// space. Guests never see it. It is created if it is missing, and several hosts may share it.
    #[must_use]
    pub fn home(self, folder: impl Into<PathBuf>) -> HostBuilder {
        HostBuilder { home: Some(folder.into()), ..self }
    }

    /// Sets the program that compiles components, in child processes: the `skillhost` binary, or a
    /// program whose `main` starts with [`compile_if_asked`].
    #[must_use]
    pub fn compiler(self, program: impl Into<PathBuf>) -> HostBuilder {
        HostBuilder { compiler: Some(program.into()), ..self }
    }

    /// Adds a folder of built-in programs, such as Python and the shell. The first folder that has
    /// a program wins.
    #[must_use]
    pub fn programs(mut self, folder: impl Into<PathBuf>) -> HostBuilder {
        self.programs.push(folder.into());
        self
    }

    /// Adds a folder of skills to the catalogue. If two skills have one name, the one in the
    /// earlier folder wins.
    #[must_use]
    pub fn skills(mut self, folder: impl Into<PathBuf>) -> HostBuilder {
        self.skills.push(folder.into());
        self
    }

    /// Adds a skill that is part of your program, from [`include_skill!`](crate::include_skill). It
    /// runs by its name, comes before those of folders, and finds the embedded skills that it
    /// requires.
    ///
    /// Guests see files, so [`HostBuilder::build`] writes it to memory: to a private folder in
    /// `/dev/shm`, or in the host's own folder if `/dev/shm` is not a file system in memory, or is
    /// full or read-only. The folder is removed with the host.
    #[must_use]
    pub fn embedded_skill(mut self, skill: EmbeddedSkill) -> HostBuilder {
        self.embedded.push(skill);
        self
    }

    /// Trusts signatures of skills, for `signed-by` of the policy: those by a public key or by
    /// certificates of an authority, in PEM, or by an SSH key. The trusted root of an instance of
    /// sigstore, as JSON, replaces the built-in one. This is what `skillhost key trust` takes.
    ///
    /// Keyless signatures that the public instance of sigstore vouches for count without this, for
    /// the identities that the policy names. Nothing else counts: a host does not read the keys of
    /// the command line.
    #[must_use]
    pub fn trust(mut self, text: impl Into<String>) -> HostBuilder {
        self.trusted.push(text.into());
        self
    }

    /// Sets what skills may do.
    #[must_use]
    pub fn policy(self, policy: Policy) -> HostBuilder {
        HostBuilder { policy, ..self }
    }

    /// Sets how much runs at once.
    #[must_use]
    pub fn capacity(self, capacity: Capacity) -> HostBuilder {
        HostBuilder { capacity, ..self }
    }

    /// Sets how guests get their memory: [`Allocation::Pooling`] suits a host that runs many skills
    /// at once.
    #[must_use]
    pub fn allocation(self, allocation: Allocation) -> HostBuilder {
        HostBuilder { allocation, ..self }
    }

    /// Sets a hook that is called before each run. A refusal is recorded as denied. The hook cannot
    /// widen the policy.
    #[must_use]
    pub fn approve(
        mut self,
        approve: impl Fn(&PlannedRun<'_>) -> Result<(), Denial> + Send + Sync + 'static,
    ) -> HostBuilder {
        self.hooks.approve = Some(Arc::new(approve));
        self
    }

    /// Sets a hook that is called with each record, once it is in the audit log. The run waits for
    /// it to return.
    #[must_use]
    pub fn on_record(
        mut self,
        recorded: impl Fn(&Record<'_>) + Send + Sync + 'static,
    ) -> HostBuilder {
        self.hooks.recorded = Some(Arc::new(recorded));
        self
    }

    /// Adds a language of scripts. The commands and extensions of Python and the shell cannot be
    /// replaced.
    #[must_use]
    pub fn runtime(mut self, runtime: impl Runtime + 'static) -> HostBuilder {
        self.runtimes.push(Arc::new(runtime));
        self
    }

    /// Adds a host program: a function that skills may start as a command, from Python, the shell or
    /// a component. It runs natively, outside the sandbox, with the authority of your program.
    ///
    /// A skill may start it only if its `allowed-tools` asks for it and an `allow` entry of the
    /// policy names it, such as `Bash(NAME:*)`. Denials win. `Bash` alone does not name it, a skill
    /// without `allowed-tools` gets none, and deterministic runs refuse all.
    ///
    /// The function may block: each start has a thread of its own. It counts as a started program
    /// of the run, whose limits bound its input and output. When the run ends, for example at its
    /// deadline, its future is dropped at the next `.await`; the run does not wait for that. If it
    /// panics, only this program ends, with exit code [`PANIC_EXIT_CODE`](crate::PANIC_EXIT_CODE).
    ///
    /// [`HostBuilder::build`] refuses names that are invalid or taken: see [`HostProgramError`].
    #[must_use]
    pub fn host_program<F, R>(mut self, name: impl Into<String>, function: F) -> HostBuilder
    where
        F: Fn(HostCall) -> R + Send + Sync + 'static,
        R: Future<Output = HostOutput> + Send + 'static,
    {
        self.host_programs.push((name.into(), HostFunction::new(function)));
        self
    }

    /// Creates the host.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build(mut self) -> Result<Host, BuildError> {
        let home = self.home.ok_or(BuildError::Missing("home"))?;
        let compiler = self.compiler.ok_or(BuildError::Missing("compiler"))?;
        let [cache, scratch] = ["cache", "scratch"].map(|name| home.join(name));
        for folder in [&home, &scratch] {
            // The folders hold skills' state, their input and their output, so they belong to this
            // user only.
            private::open_or_create(folder)
                .map_err(|error| BuildError::Folder { folder: folder.clone(), error })?;
        }
        self.hooks.runtimes = Runtimes::new(self.runtimes);
        let built_ins = BuiltIns {
            folders: self.programs.clone(),
            custom: self.hooks.runtimes.clone(),
            ..BuiltIns::default()
        };
        self.hooks.host_programs = host_programs::register(self.host_programs, &built_ins)?;
        let asks = self.hooks.approve.is_some();
        let trusted = self.trusted;
        let trust = move || evidence::trust(trusted.iter().map(String::as_str));
        trust().map_err(|InvalidKey { at, why }| BuildError::Trust { at, why })?;
        let verifier = Verifier::new(move || trust().map_err(|InvalidKey { why, .. }| why));
        let mut sources: Vec<Source> =
            self.skills.iter().map(|folder| policy_source(folder.clone())).collect();
        if !self.embedded.is_empty() {
            let embedded = write_embedded(&self.embedded, memory_folder(), &scratch)?;
            sources.insert(0, policy_source(embedded.folder().to_owned()));
            self.hooks.embedded = Some(Arc::new(embedded));
        }
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
            settings: None,
            audit: home.join("audit.jsonl"),
            guarded: GuardedPaths {
                own: vec![home],
                read_only: sources.iter().map(|source| source.folder.clone()).collect(),
                ..GuardedPaths::default()
            },
            verifier: Some(Arc::new(verifier)),
        };
        let catalog = Catalog::open(sources, Some(&cache))?;
        let runner = invoke::Runner::new(options).with_hooks(self.hooks);
        runner.embed(self.embedded.iter().flat_map(|skill| skill.code()).copied());
        let service = Service::new(runner, self.capacity);
        let policy = match asks {
            true => self.policy,
            // Without the hook, nothing can approve these names.
            false => Policy { client_names: ClientNames::Ignored, ..self.policy },
        };
        Ok(Host { service, policy, catalog, scratch })
    }
}

impl Request {
    /// Requests a skill, by its name in the catalogue or by its folder. Runs its component or else
    /// its only script, unless another method picks a target.
    pub fn of(skill: impl Into<PathBuf>) -> Request {
        Request {
            skill: skill.into(),
            target: Target::Main,
            args: Vec::new(),
            stdin: Stdin::Empty,
            workspace: None,
        }
    }

    /// Picks a script, by path or name.
    #[must_use]
    pub fn script(self, name: impl Into<String>) -> Request {
        Request { target: Target::Named(name.into()), ..self }
    }

    /// Picks a typed tool of the component, with its input as JSON.
    #[must_use]
    pub fn tool(self, name: impl Into<String>, input: impl Into<String>) -> Request {
        Request { target: Target::Tool { name: name.into(), input: input.into() }, ..self }
    }

    /// Picks a command line for the sandbox's shell.
    #[must_use]
    pub fn command(self, text: impl Into<String>) -> Request {
        Request { target: Target::Shell(text.into()), ..self }
    }

    /// Sets the arguments.
    #[must_use]
    pub fn args<A: Into<String>>(self, args: impl IntoIterator<Item = A>) -> Request {
        Request { args: args.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the standard input, which is empty by default.
    #[must_use]
    pub fn stdin(self, bytes: impl Into<Vec<u8>>) -> Request {
        Request { stdin: Stdin::Bytes(bytes.into()), ..self }
    }

    /// Sets the folder that the skill sees as `/workspace`, as far as the policy grants it.
    #[must_use]
    pub fn workspace(self, folder: impl Into<PathBuf>, mode: MountMode) -> Request {
        Request { workspace: Some((folder.into(), mode)), ..self }
    }
}

/// Writes the embedded skills to memory, or to `scratch` if that fails: it may be full or read-only.
fn write_embedded(
    skills: &[EmbeddedSkill],
    memory: Option<&Path>,
    scratch: &Path,
) -> Result<EmbeddedSkills, BuildError> {
    if let Some(memory) = memory {
        match EmbeddedSkills::write(skills, memory) {
            Ok(written) => return Ok(written),
            Err(error) => {
                let folder = memory.display();
                tracing::debug!(%error, "cannot write the embedded skills to {folder}");
            }
        }
    }
    EmbeddedSkills::write(skills, scratch)
        .map_err(|error| BuildError::Embedded { folder: scratch.to_owned(), error })
}

fn policy_source(folder: PathBuf) -> Source {
    Source::new(folder, SourceKind::Policy)
}

/// Makes your program its own compiler: call this at the start of `main`. It returns immediately,
/// except in a child process that a host has started to compile a component: there it never
/// returns.
pub fn compile_if_asked() {
    skillhost_sandbox::compile_if_asked();
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need a folder")]
mod tests {
    use super::*;

    #[test]
    fn embedded_skills_are_written_to_the_own_folder_if_memory_cannot_be_used() {
        let scratch = tempfile::tempdir().unwrap();
        let skill = EmbeddedSkill::new("one", &[], &[]);
        let missing = scratch.path().join("missing");
        let written = write_embedded(&[skill], Some(&missing), scratch.path()).unwrap();
        assert_eq!(written.folder().parent(), Some(scratch.path()));
        assert!(written.folder().join("one").is_dir());
    }
}
