//! The digested content is what runs: a skill that changes after loading is served as it was.

use std::path::{Path, PathBuf};

use skillhost::invoke::{LoadedSkill, Runner, Target};
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::outcome::Outcome;
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::Io;
use skillhost_skill::SkillFolder;

use crate::hostile_host::shell_host;

/// A skill with one script, in a project.
struct Place {
    dir: tempfile::TempDir,
    host: Runner,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { host: shell_host(dir.path()), dir };
        std::fs::create_dir_all(place.skill().join("scripts")).unwrap();
        std::fs::write(
            place.skill().join("SKILL.md"),
            "---\nname: mutable\ndescription: Changes. Use to test.\n---\n",
        )
        .unwrap();
        place.script("echo old");
        place
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn skill(&self) -> PathBuf {
        self.project().join(".agents/skills/mutable")
    }

    fn script(&self, text: &str) {
        std::fs::write(self.skill().join("scripts/run.sh"), format!("{text}\n")).unwrap();
    }

    fn load(&self, workspace: Option<&Path>) -> LoadedSkill {
        let workspace = workspace.map(|folder| (folder.to_owned(), MountMode::Write));
        let policy = Policy::builtin()
            .with_command_line(Overrides { workspace, ..Overrides::default() })
            .unwrap();
        self.host.load_for_run(&self.skill(), &policy).unwrap()
    }

    fn run(&self, loaded: &LoadedSkill, target: &Target) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let invoked =
            runtime.block_on(self.host.invoke_loaded(loaded, target, &[], Io::default())).unwrap();
        runtime.shutdown_background();
        invoked.finished.outcome
    }

    fn prints(&self, loaded: &LoadedSkill, target: &Target) -> String {
        let outcome = self.run(loaded, target);
        assert!(outcome.error.is_none(), "{outcome:?}");
        outcome.stdout.text().into_owned()
    }
}

#[test]
fn a_skill_that_changes_after_it_was_loaded_runs_as_it_was() {
    let place = Place::new();
    let loaded = place.load(None);
    place.script("echo new");
    std::fs::write(place.skill().join("scripts/more.sh"), "echo more").unwrap();
    assert_eq!(place.prints(&loaded, &Target::Named("scripts/run.sh".into())), "old\n");
    let look = "bash /skill/scripts/run.sh; cat ~/.claude/skills/mutable/scripts/run.sh; ls {baseDir}/scripts";
    assert_eq!(place.prints(&loaded, &Target::Shell(look.into())), "old\necho old\nrun.sh\n");
    let now = place.load(None);
    assert_ne!(now.id().digest, loaded.id().digest);
    assert_eq!(place.prints(&now, &Target::Named("scripts/run.sh".into())), "new\n");
}

#[test]
fn a_skill_that_rewrites_itself_keeps_running_unchanged() {
    let place = Place::new();
    let loaded = place.load(Some(&place.project()));
    let attack = "echo 'echo new' > /workspace/.agents/skills/mutable/scripts/run.sh; bash /skill/scripts/run.sh";
    assert_eq!(place.prints(&loaded, &Target::Shell(attack.into())), "old\n");
}

#[test]
fn loaded_skill_whose_copy_was_removed_is_not_current() {
    let place = Place::new();
    // Other tests share the cache, so this skill has contents of its own.
    place.script(&format!("echo {}", place.dir.path().display()));
    let (loaded, root) = (place.load(None), place.skill());
    let folder = SkillFolder::new(&root, loaded.skill.origin);
    assert!(loaded.is_at(folder));
    let digest = loaded.id().digest.clone().unwrap();
    let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skillhost/components/skills");
    std::fs::remove_dir_all(copies.join(digest.trim_start_matches("sha256:"))).unwrap();
    assert!(!loaded.is_at(folder));
}

#[test]
fn files_that_no_skill_may_contain_are_not_served() {
    let place = Place::new();
    std::fs::write(place.project().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../../../secret", place.skill().join("out")).unwrap();
    std::os::unix::fs::symlink("run.sh", place.skill().join("scripts/in")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.skill().join("pipe"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let loaded = place.load(None);
    assert_eq!(
        place
            .prints(
                &loaded,
                &Target::Shell("ls /skill /skill/scripts; cat /skill/scripts/in".into())
            )
            .replace('\n', " "),
        "/skill: SKILL.md scripts  /skill/scripts: in run.sh echo old "
    );
}

#[test]
fn left_out_files_are_not_served() {
    let place = Place::new();
    std::fs::write(place.skill().join("scripts/notes.log"), "notes").unwrap();
    std::fs::write(place.skill().join(".skillignore"), "*.log\n").unwrap();
    let loaded = place.load(None);
    assert_eq!(
        place
            .prints(&loaded, &Target::Shell("ls -A /skill /skill/scripts".into()))
            .replace('\n', " "),
        "/skill: .skillignore SKILL.md scripts  /skill/scripts: run.sh "
    );
}
