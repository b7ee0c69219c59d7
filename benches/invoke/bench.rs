//! A skill and hosts that run it, for each group of benchmarks.

use std::path::PathBuf;

use skillhost::invoke::{RunRequest, Runner, Target};
use skillhost_bench::repository;
use skillhost_policy::Policy;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::{Allocation, Io};

use crate::host::host;

pub(crate) const SKILL_MD: &str = "---\nname: hello\ndescription: Says hello. Use when timing.\nallowed-tools: Read Write(out/**) Bash(jq:*)\nmetadata:\n  component: hello.wasm\n---\n# Hello\n";

pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) skill: PathBuf,
}

impl Bench {
    /// Uses one of the repository's components as the skill.
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
        std::fs::copy(repository("target/components").join(&file), skill.join(file))
            .unwrap_or_else(|_| panic!("no {name}.wasm: `cargo xtask components` builds it"));
        Bench { folder, skill }
    }

    /// Uses one of the benchmarks' own skills.
    pub(crate) fn of_scripts(name: &str) -> Bench {
        Bench { folder: tempfile::tempdir().unwrap(), skill: repository("benches").join(name) }
    }

    pub(crate) fn host(&self, allocation: Allocation) -> Runner {
        let programs = vec![repository("target/components")];
        host(self.folder.path(), skillhost_bench::skillhost(), programs, allocation)
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
