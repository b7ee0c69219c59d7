//! Runs one request: it becomes a skill, capabilities, a program, an outcome and a record. Every
//! front end calls this module.

mod cached;
mod clean_up;
mod denied;
pub mod evidence;
mod extra_mounts;
pub mod hooks;
mod listing;
mod own_files;
mod receipt;
mod recording;
mod refuse;
mod required;
mod requirements;
mod run_record;
mod settings;
mod shipped_state;
mod state;
mod syntax;
mod target;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tracing::debug_span;

use hooks::{PlannedRun, RunHooks};
use required::RequiredSkill;
use run_record::PendingRecord;
use skillhost_ledger::audit::{AuditError, Log, ProgramId, Redactor, SessionRecord, SkillId};
use skillhost_ledger::receipt::{Receipt, canonical};
use skillhost_policy::capabilities::{Capabilities, MountMode};
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::{Outcome, ResourceUsage, Status};
use skillhost_policy::{Grant, Policy, Retention, grant, grant_host_programs};
use skillhost_sandbox::files::{GuardedPaths, HostDir, OpenMount, SharedFiles};
use skillhost_sandbox::{self as sandbox, Architecture, FinishedRun, Io, Mode, Sandbox};
use skillhost_skill::embedded::EmbeddedCode;
use skillhost_skill::runtime::built_in::BuiltIns;
use skillhost_skill::runtime::copies::SkillCopy;
use skillhost_skill::runtime::digests::Digests;
use skillhost_skill::runtime::{Component, EntryPoint, Program, Programs, copies};
use skillhost_skill::{SizeLimits, Skill, SkillError, SkillFolder, SkillListing};

pub use cached::{EarlierRun, ResultRequest};
pub use listing::ComponentTools;
pub(crate) use listing::LISTING_MEMORY;
pub use receipt::LoadedRequest;
pub use recording::{RecordingStatus, ReplayRequest, mask_receipt, recorded_capabilities};
pub use requirements::{SkillVerifier, require_all};
pub use syntax::ScriptError;
pub use target::{ResolvedTarget, Target, TargetError, UnresolvedTarget, declared_component};

/// The folders and engine options of a [`Runner`].
#[derive(Debug, Clone)]
pub struct RunnerOptions {
    /// Options of the sandbox's engine.
    pub sandbox: sandbox::Options,
    /// Folders that hold built-in programs; the first folder that has a program wins.
    pub programs: Vec<PathBuf>,
    /// Where scratch folders are created.
    pub scratch: PathBuf,
    /// Folders that can be mounted only if the operator names them explicitly: the home folder and
    /// the host's own state.
    pub guarded: GuardedPaths,
    /// Where skills' persistent state is kept; only the host writes here.
    pub state: PathBuf,
    /// The file with the operator's values of skills' settings; `None` passes the defaults.
    pub settings: Option<PathBuf>,
    /// The journal of the audit log.
    pub audit: PathBuf,
    /// Verifies what a policy requires of skills. Without it, a skill of which something is required
    /// does not load.
    pub verifier: Option<Arc<dyn SkillVerifier>>,
}

/// Runs skills, and records each run. Cheap to clone; shares nothing with other runners.
#[derive(Clone)]
pub struct Runner {
    options: Arc<RunnerOptions>,
    sandbox: Sandbox,
    log: Arc<Mutex<Option<Arc<Log>>>>,
    hooks: Arc<RunHooks>,
    session: Option<Arc<SessionRecord>>,
    /// The files that runs share.
    shared: Option<Arc<SharedFiles>>,
    /// Whose skills it loads, if their code is not cached for others.
    owner: Option<Arc<str>>,
}

/// A skill that has been loaded, digested and granted: everything that all of its runs under one
/// policy share.
#[derive(Debug)]
pub struct LoadedSkill {
    /// The skill.
    pub skill: Arc<Skill>,
    /// What the skill asked for, and what was granted and refused.
    pub grant: Arc<Grant>,
    capabilities: Arc<Capabilities>,
    required: Arc<[RequiredSkill]>,
    id: SkillId,
    programs: Result<Arc<Programs>, Status>,
    retention: Retention,
    /// Present if the policy keeps texts in the audit log.
    redactor: Option<Arc<Redactor>>,
    /// The session that it was loaded for, which records name.
    session: Option<Arc<SessionRecord>>,
}

/// One run of a skill that has not been loaded yet.
pub struct RunRequest<'a> {
    /// The skill's folder, and where it comes from.
    pub skill: SkillFolder<'a>,
    /// The operator's policy.
    pub policy: &'a Policy,
    /// The part of the skill to run.
    pub target: Target,
    /// The program's arguments.
    pub args: Vec<String>,
    /// Standard input, output and error.
    pub io: Io,
}

/// A finished run, which has been recorded.
pub struct Invocation {
    /// The skill.
    pub skill: Arc<Skill>,
    /// What the skill asked for, and what was granted and refused.
    pub grant: Arc<Grant>,
    /// The outcome, and the staged writes.
    pub finished: FinishedRun,
    /// The receipt, if one was requested and the run produced a result.
    pub receipt: Option<Receipt>,
}

/// Why a run has no outcome. A record of it has been written if that was possible.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The skill cannot be loaded.
    #[error(transparent)]
    Skill(Box<SkillError>),
    /// The target matches nothing, or several things.
    #[error(transparent)]
    Target(UnresolvedTarget),
    /// The record could not be written, so the run has failed.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The recording cannot be interpreted.
    #[error("{0}")]
    Recording(String),
    /// A receipt was requested, and stdin is not in memory, so it cannot be digested.
    #[error("a run with a receipt needs its stdin in memory")]
    Stdin,
}

impl Runner {
    /// Stores the options; does no other work.
    pub fn new(options: RunnerOptions) -> Runner {
        Runner {
            sandbox: Sandbox::new(options.sandbox.clone()),
            options: Arc::new(options),
            log: Arc::default(),
            hooks: Arc::default(),
            session: None,
            shared: None,
            owner: None,
        }
    }

    /// Returns a runner that also calls the embedder's hooks.
    #[must_use]
    pub fn with_hooks(self, hooks: RunHooks) -> Runner {
        Runner { hooks: Arc::new(hooks), ..self }
    }

    /// Returns a runner whose records name a session. It shares everything with this one.
    #[must_use]
    pub fn in_session(&self, session: SessionRecord) -> Runner {
        Runner { session: Some(Arc::new(session)), ..self.clone() }
    }

    /// Returns a runner that keeps the state of skills in another folder. It shares everything else
    /// with this one.
    #[must_use]
    pub fn with_state(&self, folder: PathBuf) -> Runner {
        let options = RunnerOptions { state: folder, ..(*self.options).clone() };
        Runner { options: Arc::new(options), ..self.clone() }
    }

    /// Returns a runner whose runs share these files, and have their scratch folders in `scratch`. The
    /// policy of such a run has an overlay at `/workspace`, which they replace. It shares everything
    /// else with this one.
    #[must_use]
    pub fn with_files(&self, shared: Arc<SharedFiles>, scratch: PathBuf) -> Runner {
        let options = RunnerOptions { scratch, ..(*self.options).clone() };
        Runner { options: Arc::new(options), shared: Some(shared), ..self.clone() }
    }

    /// Returns a runner that keeps the state of skills in another folder, and has an audit log of its
    /// own. It shares the engine and the cache with this one.
    #[must_use]
    pub fn for_tenant(&self, state: PathBuf, audit: PathBuf) -> Runner {
        let options = RunnerOptions { state, audit, ..(*self.options).clone() };
        Runner { options: Arc::new(options), log: Arc::default(), ..self.clone() }
    }

    /// Returns a runner that loads skills of this owner. Code that was compiled, and files that were copied, for others
    /// are not used for them, even if the content is the same.
    #[must_use]
    pub fn for_owner(&self, owner: &str) -> Runner {
        Runner { owner: Some(owner.into()), ..self.clone() }
    }

    /// Computes what a skill is granted on this host: what it requests and the policy allows,
    /// without the host's own files. Runs nothing.
    pub fn grant(&self, skill: &Skill, policy: &Policy) -> Grant {
        let mut grant = grant(
            &skill.policy_manifest(),
            &policy.for_source(skill.origin, skill.locked.as_ref()),
        );
        grant_host_programs(&mut grant, &self.hooks.host_programs.names());
        own_files::resolve(&mut grant.capabilities);
        own_files::deny(&mut grant.capabilities, self.own_files(policy), &self.options.audit);
        own_files::deny_missing(
            &mut grant.capabilities,
            &self.options.guarded.read_only,
            &self.options.scratch,
        );
        // Other runs may keep their `/tmp` there.
        own_files::deny_missing(&mut grant.capabilities, &[], Path::new(sandbox::MEMORY_FOLDER));
        grant
    }

    /// Adds to a grant the variables of the skill's settings, with the operator's values. A run does
    /// this when it loads the skill.
    pub fn add_settings(&self, grant: &mut Grant, skill: &Skill, policy: &Policy) {
        if !skill.manifest.is_granted_nothing() {
            settings::add(grant, skill, policy, self.options.settings.as_deref());
        }
    }

    /// Resolves a target to the program that would run. Runs nothing.
    ///
    /// # Errors
    /// No program matches the target, or the program cannot be read.
    pub fn program(
        &self,
        loaded: &LoadedSkill,
        target: &Target,
        args: &[String],
    ) -> Result<Program, TargetError> {
        let programs =
            loaded.programs.as_ref().map_err(|status| TargetError::Status(status.clone()))?;
        target::program(&loaded.skill, programs, target, args)
    }

    /// Returns the built-in programs, and the folders to search for them.
    pub fn built_ins(&self) -> BuiltIns {
        BuiltIns {
            folders: self.options.programs.clone(),
            custom: self.hooks.runtimes.clone(),
            host_programs: Arc::new(self.hooks.host_programs.names()),
        }
    }

    /// Loads the code of these components from the program itself. Only the first call counts.
    pub fn embed(&self, code: impl IntoIterator<Item = EmbeddedCode>) {
        self.sandbox.embed(code);
    }

    /// Calls `watch` when a compilation starts and when it has ended. Only the first watch counts.
    pub fn watch_compilations(
        &self,
        watch: impl Fn(&sandbox::Compilation<'_>) + Send + Sync + 'static,
    ) {
        self.sandbox.watch_compilations(watch);
    }

    /// Compiles a component, unless the cache already has its code.
    ///
    /// # Errors
    /// Why it does not compile.
    pub async fn compile(&self, component: &Component, mode: Mode) -> Result<(), Status> {
        self.sandbox.compile(component, mode, &Limits::default()).await
    }

    /// Compiles a runtime for all processors of an architecture that its code ships for, and writes
    /// the code to a file.
    ///
    /// # Errors
    /// Why it does not compile: for another architecture than this machine's, the crate needs its
    /// feature `all-architectures`.
    pub async fn compile_to_ship(
        &self,
        component: &Component,
        architecture: Architecture,
        to: std::fs::File,
    ) -> Result<(), Status> {
        self.sandbox.compile_to_ship(component, architecture, to).await
    }

    /// Checks whether the cache has the code of a component. Compiles and changes nothing.
    pub fn code_state(&self, component: &Component, mode: Mode) -> sandbox::CodeState {
        self.sandbox.code_state(component, mode, &Limits::default())
    }

    /// Runs a skill under a policy, and records the run.
    ///
    /// # Errors
    /// The skill cannot be loaded, or the audit log cannot be written. Everything else is an
    /// outcome.
    pub async fn invoke(&self, request: RunRequest<'_>) -> Result<Invocation, RunError> {
        let loaded = self.load_for_run(request.skill, request.policy)?;
        self.invoke_loaded(&loaded, &request.target, &request.args, request.io).await
    }

    /// Loads a skill for a run. Unlike [`Runner::load`], a failure is recorded.
    ///
    /// # Errors
    /// The skill cannot be loaded, or the audit log cannot be written.
    pub fn load_for_run<'a>(
        &self,
        skill: impl Into<SkillFolder<'a>>,
        policy: &Policy,
    ) -> Result<LoadedSkill, RunError> {
        let skill = skill.into();
        // Opened first: a run that cannot be recorded must not happen.
        let log = self.log()?;
        match self.load(skill, policy) {
            Ok(loaded) => Ok(loaded),
            Err(error) => {
                let name = skill
                    .path
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default();
                let outcome = not_run(invalid(error.to_string(), None));
                let (id, capabilities) = (
                    SkillId { name, source: skill.source, ..SkillId::default() },
                    Arc::new(Capabilities::default()),
                );
                let redactor = Redactor::of(policy, &capabilities).map(Arc::new);
                let pending = PendingRecord::new(
                    log,
                    self.hooks.clone(),
                    policy.retention,
                    id,
                    None,
                    capabilities,
                );
                let pending = pending.in_session(self.session.as_ref());
                pending.with_text(redactor.as_ref(), Vec::new()).close(&outcome)?;
                Err(RunError::Skill(Box::new(error)))
            }
        }
    }

    /// Loads a skill, and grants it what a policy allows. If you keep the result, call
    /// [`LoadedSkill::is_current`] before each run.
    ///
    /// # Errors
    /// The skill cannot be loaded.
    pub fn load<'a>(
        &self,
        skill: impl Into<SkillFolder<'a>>,
        policy: &Policy,
    ) -> Result<LoadedSkill, SkillError> {
        let listed =
            debug_span!("skill").in_scope(|| SkillListing::of(skill, &SizeLimits::of(policy)))?;
        // Copied before anything is read: a guest may be granted the very folder that the skill
        // lies in.
        let copied = debug_span!("copy").in_scope(|| self.copy(&listed));
        let (mut skill, digests) = match copied {
            Ok(SkillCopy { content, digests, is_new }) => {
                if is_new {
                    self.sandbox.note_growth();
                }
                listed.check_lock(&digests.skill)?;
                (listed.read_from(Arc::new(content))?, Ok(digests))
            }
            // A skill without a digest could not be identified in the record, so it does not run.
            Err(error) => (listed.read()?, Err(undigested(&error))),
        };
        skill.owner.clone_from(&self.owner);
        let skill = Arc::new(skill);
        debug_span!("require").in_scope(|| self.require(&skill, policy))?;
        let required = self.required(&skill, policy)?;
        let mut grant = debug_span!("grant").in_scope(|| self.grant(&skill, policy));
        let digest = digests.as_ref().ok().map(|digests| digests.skill.clone());
        self.add_settings(&mut grant, &skill, policy);
        if !skill.manifest.is_granted_nothing()
            && let Some(digest) = &digest
        {
            shipped_state::grant(&mut grant, policy, &self.built_ins(), digest);
        }
        let programs = digests.map(|digests| Arc::new(self.programs(&skill, digests)));
        let digest = digest.map(|digest| required::digest_with(digest, &required));
        let id = SkillId::of(&skill, digest);
        let redactor = Redactor::of(policy, &grant.capabilities).map(Arc::new);
        Ok(LoadedSkill {
            capabilities: Arc::new(grant.capabilities.clone()),
            grant: Arc::new(grant),
            skill,
            required: required.into(),
            id,
            programs,
            retention: policy.retention,
            redactor,
            session: self.session.clone(),
        })
    }

    /// Opens the copy of a skill that runs.
    fn copy(&self, listed: &SkillListing) -> io::Result<SkillCopy> {
        let options = &self.options;
        match &self.hooks.embedded {
            Some(embedded) if embedded.has(listed.root()) => copies::in_place(listed),
            _ => {
                let owner = self.owner.as_deref();
                copies::open(listed, owner, &options.sandbox.cache, &options.scratch)
            }
        }
    }

    /// Returns a loaded skill for another run, in the session of this runner. Its built-in programs
    /// are looked up again. Call [`LoadedSkill::is_at`] first.
    #[must_use]
    pub fn reuse(&self, loaded: &LoadedSkill) -> LoadedSkill {
        let LoadedSkill {
            skill,
            grant,
            capabilities,
            required,
            id,
            programs,
            retention,
            redactor,
            ..
        } = loaded;
        let programs = programs
            .as_ref()
            .map(|known| Arc::new(self.programs(skill, known.digests().clone())))
            .map_err(Clone::clone);
        LoadedSkill {
            skill: skill.clone(),
            grant: grant.clone(),
            capabilities: capabilities.clone(),
            required: required.clone(),
            id: id.clone(),
            programs,
            retention: *retention,
            redactor: redactor.clone(),
            session: self.session.clone(),
        }
    }

    /// Runs a loaded skill, and records the run.
    ///
    /// # Errors
    /// The target cannot be resolved, or the audit log cannot be written. Everything else is an
    /// outcome.
    pub async fn invoke_loaded(
        &self,
        loaded: &LoadedSkill,
        target: &Target,
        args: &[String],
        io: Io,
    ) -> Result<Invocation, RunError> {
        self.invoke_asked(loaded, target, args, io, None).await
    }

    async fn invoke_asked(
        &self,
        loaded: &LoadedSkill,
        target: &Target,
        args: &[String],
        io: Io,
        ask: Option<receipt::ReceiptContext>,
    ) -> Result<Invocation, RunError> {
        let LoadedSkill { skill, grant, capabilities, id, programs, retention, redactor, .. } =
            loaded;
        let log = self.log()?;
        let program = programs
            .as_ref()
            .map_err(|status| TargetError::Status(status.clone()))
            .and_then(|programs| {
                let program = target::program(skill, programs, target, args)?;
                match denied::denial(&program, programs, &capabilities.spawn) {
                    Some(denial) => Err(TargetError::Status(Status::Denied(denial))),
                    None => Ok((program, programs)),
                }
            });
        let ran = program.as_ref().ok().map(|(program, _)| ProgramId::of(program));
        let asking = ran.as_ref().map(|program| PlannedRun { skill: id, program, capabilities });
        let program = match asking.map_or(Ok(()), |asking| self.hooks.approve(&asking)) {
            Ok(()) => program,
            Err(denial) => Err(TargetError::Status(Status::Denied(denial))),
        };
        let hooks = self.hooks.clone();
        let pending =
            PendingRecord::new(log, hooks, *retention, id.clone(), ran, capabilities.clone());
        let pending = pending.in_session(loaded.session.as_ref());
        let mut pending = pending.with_text(redactor.as_ref(), target.texts(args));
        let (mut finished, receipt) = match program {
            Ok((program, programs)) => {
                if let Err(error) = pending.start() {
                    // If the log accepts this record, it says why nothing ran.
                    pending
                        .close(&not_run(Status::Failed { message: error.to_string(), fix: None }))
                        .ok();
                    return Err(error.into());
                }
                let io =
                    if let EntryPoint::Tool { .. } = program.entry { io.of_tool() } else { io };
                let mut finished = self.run(loaded, &program, programs, io, ask.as_ref()).await;
                if let (Status::Invalid { message, .. }, None, Some(path)) = (
                    &mut finished.outcome.status,
                    program.component.built_in(),
                    &skill.manifest.component,
                ) {
                    *message = format!("{path}: {message}");
                }
                let receipt = ask.and_then(|ask| {
                    ask.receipt(loaded, &program, programs, target, args, &finished)
                });
                (finished, receipt)
            }
            Err(TargetError::Status(status)) => (FinishedRun::not_run(not_run(status)), None),
            Err(TargetError::Unresolved(choice)) => {
                pending.close(&not_run(invalid(choice.message.clone(), None)))?;
                return Err(RunError::Target(choice));
            }
        };
        pending.time(&mut finished.outcome);
        pending.receipt = receipt.as_ref().map(canonical::digest);
        pending.close(&finished.outcome)?;
        Ok(Invocation { skill: skill.clone(), grant: grant.clone(), finished, receipt })
    }

    /// Returns the programs that runs of a skill can start.
    fn programs(&self, skill: &Arc<Skill>, digests: Digests) -> Programs {
        Programs::new(skill.clone(), digests, self.built_ins())
    }

    /// Returns the audit log, reopened if another file has taken its place.
    fn log(&self) -> Result<Arc<Log>, AuditError> {
        let _span = debug_span!("log").entered();
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        match &*log {
            Some(log) if log.is_in_place() => Ok(log.clone()),
            _ => Ok(log.insert(Arc::new(Log::open(&self.options.audit)?)).clone()),
        }
    }

    async fn run(
        &self,
        loaded: &LoadedSkill,
        program: &Program,
        programs: &Arc<Programs>,
        mut io: Io,
        ask: Option<&receipt::ReceiptContext>,
    ) -> FinishedRun {
        let LoadedSkill { skill, capabilities, required, .. } = loaded;
        let mut extra = match self.extra_mounts(skill, program, programs, capabilities) {
            Ok(extra) => extra,
            Err(status) => return FinishedRun::not_run(not_run(status)),
        };
        let state = match self.state(skill, &capabilities.limits, &mut io, ask).await {
            Ok(state) => state,
            Err(status) => return FinishedRun::not_run(not_run(status)),
        };
        extra.shared = self.shared.clone();
        let http_cache = state.take_cache(capabilities, self.shared.is_some());
        extra.mounts.extend(state.mount());
        extra.mounts.extend(required.iter().map(RequiredSkill::mount));
        let spec = sandbox::RunSpec {
            program,
            extra,
            programs: Some(programs.clone()),
            host_programs: self.hooks.host_programs.clone(),
            capabilities: capabilities.clone(),
            skill: Some(
                OpenMount::skill(HostDir::shared(skill.content.clone()))
                    .without_paths(programs.denied_paths()),
            ),
            guarded: &self.guarded(skill, programs),
            scratch: &self.options.scratch,
            evidence: ask.is_some(),
            recording: ask.map(|ask| ask.outside.clone()).unwrap_or_default(),
            http_cache: http_cache.used(),
            io,
        };
        let finished = sandbox::run(&self.sandbox, spec).await;
        state.put_cache(http_cache, &capabilities.limits);
        state.release();
        finished
    }
}

impl LoadedSkill {
    /// Returns the declared secrets that are not passed, because they are not set or not found: what
    /// is wrong with each, and the command that sets it.
    pub fn missing_secrets(&self) -> Vec<(String, String)> {
        settings::missing_secrets(&self.grant, &self.skill)
    }

    /// Returns the skill with lower limits. A limit that is not lower than what was granted has no
    /// effect, and neither has one that would give the run something: a `/tmp` in memory, a state.
    #[must_use]
    pub fn with_lower_limits(self, lower: impl IntoIterator<Item = (Limit, u64)>) -> LoadedSkill {
        let mut limits = self.capabilities.limits.clone();
        for (limit, value) in lower {
            let is_lower = match limits.get(limit) {
                Some(granted) => value < granted,
                None => limit.is_unbounded_when_off(),
            };
            if is_lower {
                limits.set(limit, value);
            }
        }
        self.with_capabilities(|capabilities| capabilities.limits.clone_from(&limits))
    }

    /// Marks the folder at `guest` as written for this run: targets of its symlinks are paths of the guest. Has no
    /// effect on a folder that is written in place.
    #[must_use]
    pub fn with_guest_links(self, guest: &str) -> LoadedSkill {
        self.with_capabilities(|capabilities| {
            for mount in &mut capabilities.mounts {
                // What is written in place is read by programs of the host.
                mount.guest_links |= mount.guest == guest && mount.mode != MountMode::Write;
            }
        })
    }

    fn with_capabilities(mut self, change: impl Fn(&mut Capabilities)) -> LoadedSkill {
        change(&mut Arc::make_mut(&mut self.grant).capabilities);
        change(Arc::make_mut(&mut self.capabilities));
        self
    }

    /// Returns the skill's identity, as records name it.
    pub fn id(&self) -> &SkillId {
        &self.id
    }

    /// Checks whether the skill's files are still those that were loaded. Stats each file.
    pub fn is_current(&self) -> bool {
        self.skill.is_current() && self.required.iter().all(RequiredSkill::is_current)
    }

    /// Checks whether the loaded skill can be used for other runs under the same policy as long as
    /// [`LoadedSkill::is_at`] holds. `began` is when loading it began.
    pub fn is_reusable(&self, began: SystemTime) -> bool {
        self.programs.is_ok()
            && self.skill.shows_changes(began)
            && self.required.iter().all(|one| one.shows_changes(began))
    }

    /// Checks whether loading this folder would give the same skill: its path leads to the folder
    /// that was opened, and no file or folder in it was changed, added or removed.
    pub fn is_at(&self, folder: SkillFolder<'_>) -> bool {
        let skill = &self.skill;
        (&*skill.root, skill.origin) == (folder.path, folder.source)
            && skill.is_in_place()
            && self.required.iter().all(RequiredSkill::is_in_place)
            && self.is_current()
    }
}

fn undigested(error: &io::Error) -> Status {
    Status::Failed { message: format!("cannot digest the skill's files: {error}"), fix: None }
}

fn invalid(message: String, fix: Option<String>) -> Status {
    Status::Invalid { message, fix }
}

fn not_run(status: Status) -> Outcome {
    Outcome { status, usage: ResourceUsage::default(), ..Outcome::default() }
}
