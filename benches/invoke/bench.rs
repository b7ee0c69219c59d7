//! What the groups stand on: a skill of their own, and a host beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use skillhost::invoke::{RunRequest, Runner, RunnerOptions, Target};
use skillhost_policy::Policy;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::files::GuardedPaths;
use skillhost_sandbox::http::{Resolver, Roots, Tls};
use skillhost_sandbox::{Allocation, Io, Options};

pub(crate) const SKILL_MD: &str = "---\nname: hello\ndescription: Says hello. Use when timing.\nallowed-tools: Read Write(out/**) Bash(jq:*)\nmetadata:\n  component: hello.wasm\n---\n# Hello\n";

pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) skill: PathBuf,
}

impl Bench {
    /// With a skill that is one of the repository's components.
    pub(crate) fn new(name: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let skill = folder.path().join(name);
        let file = format!("{name}.wasm");
        std::fs::create_dir(&skill).unwrap();
        std::fs::write(
            skill.join("SKILL.md"),
            SKILL_MD.replace("hello", name).replace("jq:*", &format!("{name}:*")),
        )
        .unwrap();
        std::fs::copy(components().join(&file), skill.join(file))
            .unwrap_or_else(|_| panic!("no {name}.wasm: `cargo xtask components` builds it"));
        Bench { folder, skill }
    }

    /// With a skill that lies in a folder beside this file.
    pub(crate) fn of_scripts(name: &str) -> Bench {
        Bench {
            folder: tempfile::tempdir().unwrap(),
            skill: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches").join(name),
        }
    }

    pub(crate) fn host(&self, allocation: Allocation) -> Runner {
        Runner::new(RunnerOptions {
            sandbox: Options {
                compiler: env!("CARGO_BIN_EXE_skillhost").into(),
                cache: self.folder.path().join("cache"),
                allocation,
                tls: Arc::new(Tls::new(Roots::default()).unwrap()),
                resolver: Resolver::System,
            },
            programs: vec![components()],
            scratch: self.folder.path().into(),
            guarded: GuardedPaths::default(),
            state: self.folder.path().join("kept"),
            audit: self.folder.path().join("audit.jsonl"),
            caps: Default::default(),
        })
    }

    pub(crate) async fn invoke(
        &self,
        host: &Runner,
        policy: &Policy,
        target: Target,
        args: &[&str],
    ) {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let request =
            RunRequest { skill: (&self.skill).into(), policy, target, args, io: Io::default() };
        let outcome = host.invoke(request).await.unwrap().finished.outcome;
        assert_eq!(outcome.status, Status::Exited { code: 0 }, "{}", outcome.stderr.text());
    }
}

fn components() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/components")
}
