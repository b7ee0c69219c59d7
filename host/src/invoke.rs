//! The spine: a request becomes a skill, capabilities, a program, an outcome and a record. Every front end meets here.

mod own;
mod target;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::audit::{AuditError, Log, ProgramId, Record, SkillId};
use crate::outcome::{Outcome, Status, Usage};
use crate::policy::capabilities::Capabilities;
use crate::policy::{Grant, Origin, Policy, grant};
use crate::runtime::built_in::BuiltIns;
use crate::runtime::digests::Digests;
use crate::runtime::{self, Entry, Program, Programs};
use crate::sandbox::files::{Guarded, OpenMount};
use crate::sandbox::{self, Beside, Finished, Io, Sandbox, Tool};
use crate::skill::{Caps, Skill, SkillError};

pub use target::{Choice, NoProgram, Target, component};

/// Where a host keeps things, and what it stands on.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The engine's.
    pub sandbox: sandbox::Options,
    /// The folders of built-in programs, first come first served.
    pub programs: Vec<PathBuf>,
    /// Where scratch folders are made.
    pub scratch: PathBuf,
    /// Folders that are mounted only when the operator spells them out: the home folder and the host's own state.
    pub guarded: Guarded,
    /// The audit log.
    pub audit: PathBuf,
    /// How large a skill may be.
    pub caps: Caps,
}

/// A place where skills run. Cheap to clone; knows of no other host.
#[derive(Clone)]
pub struct Host {
    options: Arc<HostOptions>,
    sandbox: Sandbox,
}

/// One thing to do.
pub struct Request<'a> {
    /// The skill's folder.
    pub skill: &'a Path,
    /// What the operator allows.
    pub policy: &'a Policy,
    /// What of the skill is to run.
    pub target: Target,
    /// The arguments.
    pub args: Vec<String>,
    /// The streams.
    pub io: Io,
}

/// A request whose skill is loaded and granted. Nothing has run, and dropped it is not recorded.
pub struct Loaded<'a> {
    request: Request<'a>,
    time: String,
    log: Log,
    skill: Arc<Skill>,
    grant: Grant,
}

impl Loaded<'_> {
    /// What it will be granted.
    pub fn capabilities(&self) -> &Capabilities {
        &self.grant.capabilities
    }
}

/// An invocation that has been recorded.
pub struct Invoked {
    /// The skill that was loaded.
    pub skill: Arc<Skill>,
    /// What was asked, granted and refused.
    pub grant: Grant,
    /// What happened, and the writes kept aside.
    pub finished: Finished,
}

/// Why there is no outcome. What could be recorded has been.
#[derive(Debug, thiserror::Error)]
pub enum InvokeError {
    /// The skill does not load.
    #[error(transparent)]
    Skill(Box<SkillError>),
    /// It is not clear what is to run.
    #[error(transparent)]
    Choice(Choice),
    /// The record could not be written, so the run has failed.
    #[error(transparent)]
    Audit(#[from] AuditError),
}

impl Host {
    /// Takes options; does no work.
    pub fn new(options: HostOptions) -> Host {
        Host { sandbox: Sandbox::new(options.sandbox.clone()), options: Arc::new(options) }
    }

    /// What a skill is granted on this host: what it asks for and the policy allows, less the host's own files. Runs nothing.
    pub fn grant(&self, skill: &Skill, policy: &Policy) -> Grant {
        let mut grant = grant(&skill.asks(), policy);
        own::deny(&mut grant.capabilities, self.own_files(policy));
        grant
    }

    /// What would run, for a request. Runs nothing.
    ///
    /// # Errors
    /// Why nothing would.
    pub fn program(&self, skill: Arc<Skill>, target: &Target, args: &[String]) -> Result<Program, NoProgram> {
        let digests = self.digests(&skill).map_err(NoProgram::Status)?;
        target::program(&skill, &self.programs(skill.clone(), digests), target, args)
    }

    /// The built-in programs of this host, and the folders that they are looked for in.
    pub fn built_ins(&self) -> BuiltIns {
        BuiltIns { folders: self.options.programs.clone(), cache: self.options.sandbox.cache.clone() }
    }

    /// Runs a skill under a policy, and records it.
    ///
    /// # Errors
    /// The skill does not load, or the audit log cannot be written. Everything else is an outcome.
    pub async fn invoke(&self, request: Request<'_>) -> Result<Invoked, InvokeError> {
        self.run_loaded(self.load(request)?).await
    }

    /// The first half of [`Host::invoke`]: finds out what would be run with what capabilities, for whoever lets some wait and others go.
    ///
    /// # Errors
    /// The skill does not load, or the audit log cannot be written.
    pub fn load<'a>(&self, request: Request<'a>) -> Result<Loaded<'a>, InvokeError> {
        let time = jiff::Timestamp::now().to_string();
        // Before anything runs: what cannot be recorded does not happen.
        let mut log = Log::open(&self.options.audit)?;
        let skill = match Skill::load(request.skill, &self.options.caps) {
            Ok(skill) => Arc::new(skill),
            Err(error) => {
                let name = request.skill.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                let outcome = not_run(invalid(error.to_string(), None));
                let id = SkillId { name, digest: None };
                log.append(&Record::of(time, id, None, Capabilities::default(), &outcome))?;
                return Err(InvokeError::Skill(Box::new(error)));
            }
        };
        let grant = self.grant(&skill, request.policy);
        Ok(Loaded { request, time, log, skill, grant })
    }

    /// The second half: runs what was loaded, and records it.
    ///
    /// # Errors
    /// It is not clear what is to run, or the audit log cannot be written.
    pub async fn run_loaded(&self, loaded: Loaded<'_>) -> Result<Invoked, InvokeError> {
        let Loaded { request, time, log, skill, grant } = loaded;
        // Before it runs: a guest may be granted the very folder that the skill lies in.
        // What cannot be told from another skill in the record does not run.
        let digests = self.digests(&skill);
        let id = SkillId { name: skill.manifest.name.clone(), digest: digests.as_ref().ok().map(|digests| digests.skill.clone()) };
        let program = digests.map_err(NoProgram::Status).and_then(|digests| {
            let programs = self.programs(skill.clone(), digests);
            Ok((target::program(&skill, &programs, &request.target, &request.args)?, programs))
        });
        let ran = program.as_ref().ok().map(|(program, _)| ProgramId::of(program));
        let pending = Pending { log, open: Some((time, id, ran, grant.capabilities.clone())) };
        let finished = match program {
            Ok((program, programs)) => {
                let io = if let Entry::Tool { .. } = program.entry { request.io.of_tool() } else { request.io };
                let mut finished = self.run(&skill, &program, programs, &grant.capabilities, io).await;
                if let (Status::Invalid { message, .. }, None, Some(path)) =
                    (&mut finished.outcome.status, program.component.built_in(), &skill.manifest.component)
                {
                    *message = format!("{path}: {message}");
                }
                finished
            }
            Err(NoProgram::Status(status)) => Finished::not_run(not_run(status)),
            Err(NoProgram::Choice(choice)) => {
                pending.close(&not_run(invalid(choice.message.clone(), None)))?;
                return Err(InvokeError::Choice(choice));
            }
        };
        pending.close(&finished.outcome)?;
        Ok(Invoked { skill, grant, finished })
    }

    /// The programs that an invocation of a skill can start.
    fn programs(&self, skill: Arc<Skill>, digests: Digests) -> Programs {
        Programs::of(skill, digests, self.built_ins())
    }

    fn digests(&self, skill: &Skill) -> Result<Digests, Status> {
        Digests::of(skill, &self.options.sandbox.cache)
            .map_err(|error| Status::Failed { message: format!("the skill's files cannot be digested: {error}"), fix: None })
    }

    /// Asks a component for its typed tools, in a sandbox that grants nothing. Nothing of it is recorded: nothing was invoked.
    ///
    /// # Errors
    /// How it ended instead of answering.
    pub async fn tools(&self, component: &runtime::Component) -> Result<Vec<Tool>, Status> {
        let entry = Entry::ListTools;
        let program = Program { name: "tools".into(), component: component.clone(), entry, args: Vec::new(), script: None };
        let finished = sandbox::run_alone(&self.sandbox, &program, &self.options.scratch).await;
        match finished.outcome {
            Outcome { result: Some(tools), .. } => serde_json::from_value(tools).map_err(|error| invalid(error.to_string(), None)),
            Outcome { error: Some(message), .. } => Err(invalid(message, None)),
            Outcome { status, .. } => Err(status),
        }
    }

    /// What guests find beside the skill and the granted folders: the skill where agents have it in the home folder, and, where a built-in
    /// program may run, the packages that come with it, and their commands.
    fn beside(&self, skill: &Skill, program: &Program, programs: &Programs, capabilities: &Capabilities) -> Result<Beside, Status> {
        let failed = |message: String, fix| Status::Failed { message, fix };
        let mut beside = Beside::default();
        let mut names = vec![&skill.name, &skill.manifest.name];
        names.dedup();
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            let folder =
                skill.dir.try_clone().map_err(|error| failed(format!("the skill's folder cannot be opened again: {error}"), None))?;
            beside.mounts.push(OpenMount::skill_at(format!("/tmp/.claude/skills/{name}"), folder.into_std_file().into()));
        }
        if program.component.built_in().is_some() || !capabilities.spawn.is_nothing() {
            for built_in in programs.built_in().map_err(|error| failed(error.message, error.fix))? {
                beside.commands.extend(built_in.facts.programs.iter().cloned());
                if let Some((guest, folder)) = built_in.packages().map_err(|error| failed(error.message, error.fix))? {
                    beside.mounts.push(OpenMount::packages(guest, std::os::fd::OwnedFd::from(folder.into_std_file())));
                }
            }
        }
        Ok(beside)
    }

    /// What must stay this host's own, whatever folder is granted.
    fn own_files<'a>(&'a self, policy: &'a Policy) -> impl Iterator<Item = &'a Path> {
        let options = &self.options;
        // Whoever writes a built-in program decides what the next skill's `python3` does.
        let places = options.guarded.own.iter().chain([&options.sandbox.cache, &options.audit]).chain(&options.programs);
        let policies = policy.layers.iter().filter_map(|layer| match &layer.origin {
            Origin::File(path) => Some(path),
            Origin::BuiltIn | Origin::CommandLine => None,
        });
        // Whoever writes an authority's file lets himself be trusted by the next run.
        let authorities = policy.authorities.iter().map(|authority| &authority.file);
        places.chain(policies).chain(authorities).map(PathBuf::as_path)
    }

    async fn run(&self, skill: &Skill, program: &Program, programs: Programs, capabilities: &Capabilities, io: Io) -> Finished {
        let folder = match skill.dir.try_clone() {
            Ok(folder) => folder.into_std_file().into(),
            Err(error) => {
                let message = format!("the skill's folder cannot be opened again: {error}");
                return Finished::not_run(not_run(Status::Failed { message, fix: None }));
            }
        };
        let beside = match self.beside(skill, program, &programs, capabilities) {
            Ok(beside) => beside,
            Err(status) => return Finished::not_run(not_run(status)),
        };
        let what = sandbox::Invoke {
            program,
            beside,
            programs: Some(programs),
            capabilities,
            skill: Some(folder),
            guarded: &self.options.guarded,
            scratch: &self.options.scratch,
        };
        sandbox::run(&self.sandbox, what, io).await
    }
}

/// A record that is still to be written. Where its invocation is dropped or panics, it is written as one that was interrupted.
struct Pending {
    log: Log,
    open: Option<(String, SkillId, Option<ProgramId>, Capabilities)>,
}

impl Pending {
    fn close(mut self, outcome: &Outcome) -> Result<(), AuditError> {
        self.write(outcome)
    }

    fn write(&mut self, outcome: &Outcome) -> Result<(), AuditError> {
        let Some((time, skill, program, capabilities)) = self.open.take() else { return Ok(()) };
        self.log.append(&Record::of(time, skill, program, capabilities, outcome))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Err(error) = self.write(&not_run(Status::Interrupted)) {
            tracing::error!(%error, "an invocation that was dropped is not recorded");
        }
    }
}

impl ProgramId {
    fn of(program: &Program) -> ProgramId {
        let (tool, arguments) = match &program.entry {
            Entry::Tool { name, input, .. } => (Some(name.clone()), runtime::digest(input.as_bytes())),
            Entry::Command | Entry::ListTools => {
                let joined: Vec<u8> = program.args.iter().flat_map(|arg| arg.bytes().chain([0])).collect();
                (None, runtime::digest(&joined))
            }
        };
        let version = program.component.built_in().map(|built_in| built_in.facts.version.clone());
        let component = program.component.digest.clone();
        ProgramId { name: program.name.clone(), version, script: program.script.clone(), tool, component, arguments }
    }
}

fn invalid(message: String, fix: Option<String>) -> Status {
    Status::Invalid { message, fix }
}

fn not_run(status: Status) -> Outcome {
    Outcome { status, usage: Usage::default(), ..Outcome::default() }
}
