//! Results that a caller has kept: what identifies the result of a deterministic run, and the
//! record of a run that is answered with a result of an earlier one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::json;

use super::receipt::built_in_digests;
use super::run_record::PendingRecord;
use super::{LoadedSkill, Runner, Target, not_run, target};
use skillhost_ledger::audit::{AuditError, ProgramId};
use skillhost_ledger::receipt::{HOST, ReceiptGrant, canonical, policy_digest};
use skillhost_policy::capabilities::{Capabilities, Mount, MountMode, PathRules};
use skillhost_policy::outcome::{Outcome, Status, StreamDigests};
use skillhost_policy::{Policy, WORKSPACE};
use skillhost_sandbox::files::{HostDir, OpenMount, package_digests};
use skillhost_sandbox::{ENGINE, Mode, fingerprint};
use skillhost_skill::runtime::{Programs, digest, stamp};

/// A run, as far as its result depends on it.
pub struct ResultRequest<'a> {
    /// The skill.
    pub loaded: &'a LoadedSkill,
    /// The policy under which the skill was loaded.
    pub policy: &'a Policy,
    /// The part of the skill to run.
    pub target: &'a Target,
    /// The program's arguments.
    pub args: &'a [String],
    /// The standard input.
    pub stdin: &'a [u8],
    /// The folder at `/workspace`, if the caller has made it.
    pub workspace: Option<&'a Path>,
    /// The files in that folder: the digest of each, and whether it is executable.
    pub files: BTreeMap<&'a str, (String, bool)>,
}

/// An earlier run, whose result is the answer.
pub struct EarlierRun<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its exit code.
    pub exit_code: u8,
    /// The digests of its standard output and error.
    pub output: [Option<String>; 2],
    /// The digest of the receipt with the answer.
    pub receipt: Option<String>,
}

impl Runner {
    /// Returns what identifies the result of a run: the digest of everything that a deterministic
    /// run depends on. `None` if the result may also depend on something else, or if the run may
    /// have an effect besides its result. That is so if the run is not deterministic; keeps state;
    /// has a network, variables or programs of the host; or sees folders of the host.
    ///
    /// Variables are left out because a digest of a guessable secret reveals it.
    pub fn result_key(&self, request: &ResultRequest<'_>) -> Option<String> {
        let ResultRequest { loaded, policy, target, args, stdin, workspace, files } = request;
        let LoadedSkill { skill, capabilities, id, programs, .. } = loaded;
        id.digest.as_ref()?;
        // An embedder's approval hook is asked about each run.
        let is_asked_for = self.hooks.approve.is_some();
        if is_asked_for || self.shared.is_some() || !depends_on_input_only(capabilities, *workspace)
        {
            return None;
        }
        let programs = programs.as_ref().ok()?;
        let program = target::program(skill, programs, target, args).ok()?;
        let program_id = ProgramId::of(&program);
        let reaches = program.component.built_in().is_some() || !capabilities.spawn.is_empty();
        let (built_in, packages) = match reaches {
            true => (built_in_digests(programs), self.packages(programs, capabilities)?),
            false => Default::default(),
        };
        let target = match target {
            Target::Main => json!("main"),
            Target::Named(name) => json!({ "named": name }),
            Target::Tool { name, input } => json!({ "tool": name, "input": input }),
            Target::Shell(text) => json!({ "command": text }),
        };
        let mode = Mode::of(capabilities);
        Some(canonical::digest(&json!({
            "version": 1,
            "host": [HOST, ENGINE, fingerprint(mode), build(&self.options.sandbox.cache)?],
            "programs": built_in,
            "packages": packages,
            "skill": id,
            "program": program_id,
            "denied": programs.denied_paths().collect::<Vec<_>>(),
            "grant": ReceiptGrant::of(capabilities, &policy_digest(policy)),
            "target": target,
            "args": args,
            "stdin": digest(stdin),
            "files": files,
        })))
    }

    /// Digests the packages that come with the built-in programs.
    fn packages(
        &self,
        programs: &Programs,
        capabilities: &Capabilities,
    ) -> Option<BTreeMap<String, String>> {
        let mut folders = Vec::new();
        for built_in in programs.built_ins().ok()? {
            if let Some((guest, folder)) = built_in.packages().ok()? {
                folders.push(OpenMount::packages(guest, HostDir::shared(folder)));
            }
        }
        let rules =
            PathRules { read: capabilities.read.clone(), write: capabilities.write.clone() };
        package_digests(folders, rules, &self.options.sandbox.cache).ok()
    }

    /// Records a run that is answered with the result of an earlier one.
    ///
    /// # Errors
    /// The audit log cannot be written: then there must be no answer.
    pub fn record_cached(
        &self,
        loaded: &LoadedSkill,
        target: &Target,
        args: &[String],
        earlier: EarlierRun<'_>,
    ) -> Result<(), AuditError> {
        let LoadedSkill { skill, capabilities, id, programs, retention, redactor, .. } = loaded;
        let program = programs
            .as_ref()
            .ok()
            .and_then(|programs| target::program(skill, programs, target, args).ok());
        let program = program.as_ref().map(ProgramId::of);
        let hooks = self.hooks.clone();
        let pending = PendingRecord::new(
            self.log()?,
            hooks,
            *retention,
            id.clone(),
            program,
            capabilities.clone(),
        );
        let pending = pending.in_session(loaded.session.as_ref());
        let mut pending = pending.with_text(redactor.as_ref(), target.texts(args));
        let EarlierRun { id, exit_code, output: [stdout, stderr], receipt } = earlier;
        (pending.cached, pending.receipt) = (Some(id.to_owned()), receipt);
        let outcome = Outcome {
            streams: StreamDigests { stdin: None, stdout, stderr },
            ..not_run(Status::Exited { code: exit_code })
        };
        pending.close(&outcome)
    }
}

/// Checks whether a run with these capabilities has no effect besides its result, and whether its
/// result depends on nothing but the skill, the policy, the input and the host's programs.
fn depends_on_input_only(capabilities: &Capabilities, workspace: Option<&Path>) -> bool {
    // Destructured, so that a new capability does not compile until it is decided here.
    let Capabilities {
        mounts,
        packages,
        read: _,
        write: _,
        spawn: _,
        host_programs,
        fetch,
        methods: _,
        authorities: _,
        env,
        limits,
        determinism,
    } = capabilities;
    let is_input = |mount: &Mount| {
        mount.guest == WORKSPACE
            && mount.mode == MountMode::Overlay
            && workspace == Some(mount.spelling())
    };
    determinism.is_some()
        && limits.state == 0
        && fetch.is_empty()
        && env.is_empty()
        && host_programs.is_empty()
        && packages.is_empty()
        && mounts.iter().all(is_input)
}

/// Returns the digest of the running program, whose version alone does not tell two builds apart.
fn build(cache: &Path) -> Option<&'static str> {
    static BUILD: OnceLock<Option<String>> = OnceLock::new();
    let of_process = || {
        // The program that runs, also after another file has taken its place.
        #[expect(clippy::disallowed_methods, reason = "the program itself")]
        let file = std::fs::File::open("/proc/self/exe").ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let changed = (stat.st_ctime, stat.st_ctime_nsec.cast_signed());
        let state = format!("{} {} {} {changed:?}", stat.st_dev, stat.st_ino, stat.st_size);
        let name = format!("{:x}-{:x}.build", stat.st_dev, stat.st_ino);
        stamp::cached_or_compute(cache, &name, state, changed, || stamp::file_digest(&file)).ok()
    };
    BUILD.get_or_init(of_process).as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillhost_policy::capabilities::Scope;
    use skillhost_policy::determinism::Determinism;
    use skillhost_policy::pattern::{HostName, HostPattern};

    #[test]
    fn results_are_kept_only_for_runs_that_depend_on_their_input() {
        let folder = Path::new("/folder/of/the/run");
        let plain = Capabilities {
            determinism: Some(Determinism::default()),
            mounts: vec![Mount::new(WORKSPACE, folder, MountMode::Overlay)],
            ..Capabilities::default()
        };
        let is_kept = |change: &dyn Fn(&mut Capabilities)| {
            let mut capabilities = plain.clone();
            capabilities.limits.state = 0;
            change(&mut capabilities);
            depends_on_input_only(&capabilities, Some(folder))
        };
        assert!(is_kept(&|_| {}));
        let any = HostPattern { host: HostName::Any, port: None, plain: true, private: true };
        let changes: [&dyn Fn(&mut Capabilities); 8] = [
            &|one| one.determinism = None,
            &|one| one.limits.state = 1,
            &|one| one.fetch = Scope { all_of: vec![vec![any.clone()]], ..Scope::empty() },
            &|one| drop(one.env.insert("A".into(), "b".into())),
            &|one| one.host_programs = ["gcc".to_owned()].into(),
            &|one| one.packages = vec![Mount::new("/p", "/p", MountMode::Read)],
            &|one| one.mounts.push(Mount::new("/data", "/data", MountMode::Read)),
            &|one| one.mounts[0].mode = MountMode::Write,
        ];
        for (at, change) in changes.iter().enumerate() {
            assert!(!is_kept(*change), "change {at}");
        }
        assert!(!depends_on_input_only(&plain, None), "a workspace of the operator");
    }
}
