//! Adding, synchronising, updating and verifying skills of folders, archives and repositories.
#![expect(clippy::disallowed_methods, reason = "tests set up real folders")]

use std::io::Write as _;
use std::process::Command;

use super::*;
use crate::error::{Refusal, RefusalRule};
use crate::network::Offline;
use crate::wanted;

struct Setup {
    folder: tempfile::TempDir,
}

fn skill_md(name: &str, tools: &str) -> String {
    format!("---\nname: {name}\ndescription: Tests.\n{tools}---\nText.\n")
}

impl Setup {
    fn new() -> Setup {
        let setup = Setup { folder: tempfile::tempdir().unwrap() };
        setup.write("one/SKILL.md", &skill_md("one", "allowed-tools: Read\n"));
        setup.write("one/scripts/a.py", "print(1)\n");
        setup
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn project(&self) -> Project {
        Project::open(&self.path(wanted::FILE), &self.path("state"), &self.path("home")).unwrap()
    }

    fn add(
        &self,
        source: &str,
        path: Option<&str>,
        name: Option<&str>,
    ) -> Result<Vec<Change>, SourceError> {
        let request = AddRequest {
            source: source.parse().unwrap(),
            name: name.map(str::to_owned),
            path: path.map(str::to_owned),
            all: false,
            submodules: false,
        };
        let project = self.project();
        Ok(project.add(project.fetch(&request, &Offline)?)?.0)
    }

    fn git(&self, args: &[&str]) {
        let status = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"])
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .current_dir(self.path("repo"))
            .status();
        assert!(status.unwrap().success(), "{args:?}");
    }

    /// Creates a repository with two skills, and returns its URL.
    fn repository(&self) -> String {
        self.write("repo/skills/a/SKILL.md", &skill_md("a", ""));
        self.write("repo/skills/b/SKILL.md", &skill_md("b", ""));
        self.git(&["init", "-q", "-b", "main"]);
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "first"]);
        format!("file://{}", self.path("repo").display())
    }
}

#[test]
fn added_skill_is_locked_stored_and_installed() {
    let setup = Setup::new();
    let changes = setup.add("./one", None, None).unwrap();
    assert_eq!((changes[0].name.as_str(), changes[0].kind), ("one", ChangeKind::Added));
    let project = setup.project();
    let lock = project.locked().unwrap();
    let locked = &lock.skills["one"];
    assert_eq!((locked.source.as_str(), locked.revision.as_str()), ("./one", "folder"));
    assert_eq!(locked.permissions, ["Read"]);
    assert_eq!(locked.files.0.keys().collect::<Vec<_>>(), ["SKILL.md", "scripts/a.py"]);
    let loaded = Skill::load(&setup.path("one"), &SizeLimits::default()).unwrap();
    assert_eq!(locked.content, loaded.digest().unwrap());
    let installed = project.installed().unwrap();
    assert!(installed.view.join("one/scripts/a.py").exists() && installed.missing.is_empty());
    assert_eq!(project.verify().unwrap(), []);
    // The folder is no longer needed.
    std::fs::remove_dir_all(setup.path("one")).unwrap();
    assert_eq!(project.sync(true, &Offline).unwrap()[0].kind, ChangeKind::Unchanged);
}

#[test]
fn skill_that_is_added_again_keeps_its_section() {
    let setup = Setup::new();
    setup.write(wanted::FILE, "skills:\n  one:\n    source: ./old\n    policy: readers\n");
    let project = setup.project().of_user().unwrap();
    let request = AddRequest {
        source: "./one".parse().unwrap(),
        name: None,
        path: None,
        all: false,
        submodules: false,
    };
    project.add(project.fetch(&request, &Offline).unwrap()).unwrap();
    let skill = &project.wanted().unwrap().skills["one"];
    assert_eq!(skill.source.to_string(), "./one");
    assert_eq!(skill.section.as_deref(), Some("readers"));
}

#[test]
fn repository_with_several_skills_offers_them() {
    let setup = Setup::new();
    let url = setup.repository();
    let error = setup.add(&url, None, None).unwrap_err();
    assert_eq!(error.fix(), Some("choose one: --path skills/a, --path skills/b; or --all"));
    assert_eq!(setup.add(&url, Some("a"), Some("first")).unwrap()[0].name, "first");
    assert_eq!(setup.add(&url, Some("skills/b"), None).unwrap()[0].name, "b");
    assert!(
        setup.add(&url, Some("c"), None).is_err() && setup.add(&url, Some("../x"), None).is_err()
    );
    let request = AddRequest {
        source: url.parse().unwrap(),
        name: None,
        path: None,
        all: true,
        submodules: false,
    };
    let project = setup.project();
    project.add(project.fetch(&request, &Offline).unwrap()).unwrap();
    let names: Vec<String> = project.locked().unwrap().skills.into_keys().collect();
    assert_eq!(names, ["a", "b", "first"]);
    assert_eq!(project.verify().unwrap(), []);
}

#[test]
fn refused_source_changes_nothing() {
    let setup = Setup::new();
    setup.add("./one", None, None).unwrap();
    let state = || {
        let read = |path: &str| std::fs::read(setup.path(path)).unwrap();
        let entries = |path: &str| std::fs::read_dir(setup.path(path)).unwrap().count();
        let counts =
            ["store", "tmp", "journal"].map(|name| entries(&format!("state/sources/{name}")));
        (read("skills.yaml"), read("skills.lock"), counts)
    };
    let before = state();
    setup.write("bad/SKILL.md", &skill_md("bad", ""));
    std::os::unix::fs::symlink("/etc/passwd", setup.path("bad/link")).unwrap();
    let error = setup.add("./bad", None, None).unwrap_err();
    let SourceError::Refused(Refusal { rule, .. }) = error else { panic!("{error}") };
    assert_eq!(rule, RefusalRule::LinkOutside);
    setup.write("hidden/SKILL.md", &skill_md("hidden", ""));
    setup.write("hidden/.git/config", "x");
    setup.write("empty/README.md", "text");
    for source in ["./empty", "./missing", "./one/SKILL.md", "https://host/x.zip"] {
        setup.add(source, None, None).expect_err(source);
    }
    setup.add("./one", None, Some("no name")).unwrap_err();
    assert_eq!(state(), before);
    setup.add("./hidden", None, None).unwrap();
    let lock = setup.project().locked().unwrap();
    assert_eq!(lock.skills["hidden"].files.0.keys().collect::<Vec<_>>(), ["SKILL.md"]);
}

#[test]
fn update_reports_what_changed_and_what_needs_attention() {
    let setup = Setup::new();
    setup.add("./one", None, None).unwrap();
    let project = setup.project();
    assert_eq!(project.update(&[], false, &Offline).unwrap()[0].kind, ChangeKind::Unchanged);
    setup.write("one/SKILL.md", &skill_md("one", "allowed-tools: Read Bash(git:*)\n"));
    setup.write("one/new.txt", "new");
    std::fs::remove_file(setup.path("one/scripts/a.py")).unwrap();
    let before = project.locked().unwrap();
    let dry = project.update(&["one".into()], true, &Offline).unwrap();
    assert_eq!(project.locked().unwrap(), before, "a dry run changes nothing");
    let changes = project.update(&[], false, &Offline).unwrap();
    assert_eq!(changes, dry);
    let change = &changes[0];
    assert_eq!(change.kind, ChangeKind::Updated);
    assert_eq!(change.more_permissions, ["Bash(git:*)"]);
    assert_eq!(change.reasons(), ["it requests more: Bash(git:*)"]);
    let files: Vec<(&str, bool, bool)> = change
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.before.is_some(), file.after.is_some()))
        .collect();
    assert_eq!(
        files,
        [("SKILL.md", true, true), ("new.txt", false, true), ("scripts/a.py", true, false)]
    );
    assert!(project.update(&["unknown".into()], false, &Offline).is_err());
    assert_eq!(project.verify().unwrap(), []);
}

#[test]
fn moved_tag_is_not_updated_and_not_restored() {
    let setup = Setup::new();
    let url = setup.repository();
    setup.git(&["tag", "v1"]);
    setup.add(&format!("{url}@v1"), Some("a"), None).unwrap();
    setup.write("repo/skills/a/SKILL.md", &skill_md("a", "allowed-tools: Bash\n"));
    setup.git(&["commit", "-q", "-a", "-m", "second"]);
    let project = setup.project();
    assert_eq!(project.update(&[], false, &Offline).unwrap()[0].kind, ChangeKind::Unchanged);
    setup.git(&["tag", "-f", "v1"]);
    let moved = |error: SourceError| assert!(matches!(error, SourceError::Moved(_)), "{error}");
    moved(project.update(&[], false, &Offline).unwrap_err());
    std::fs::remove_dir_all(setup.path("state")).unwrap();
    moved(setup.project().sync(false, &Offline).unwrap_err());
}

#[test]
fn branch_is_followed_by_update_and_restored_as_locked() {
    let setup = Setup::new();
    let url = setup.repository();
    setup.add(&format!("{url}@main"), Some("a"), None).unwrap();
    let first = setup.project().locked().unwrap();
    setup.write("repo/skills/a/SKILL.md", &skill_md("a", "allowed-tools: Bash\n"));
    setup.git(&["commit", "-q", "-a", "-m", "second"]);
    std::fs::remove_dir_all(setup.path("state")).unwrap();
    let project = setup.project();
    assert_eq!(project.installed().unwrap().missing, ["a"]);
    assert_eq!(project.sync(true, &Offline).unwrap()[0].kind, ChangeKind::Fetched);
    assert_eq!(project.locked().unwrap(), first);
    let change = project.update(&[], false, &Offline).unwrap().remove(0);
    assert_eq!((change.kind, change.files.len()), (ChangeKind::Updated, 1));
}

#[test]
fn changed_archive_is_not_what_was_locked() {
    let setup = Setup::new();
    let pack = |text: &str| {
        let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(
            Vec::new(),
            flate2::Compression::default(),
        ));
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, "packed/SKILL.md", text.as_bytes()).unwrap();
        let bytes = builder.into_inner().unwrap().finish().unwrap();
        std::fs::File::create(setup.path("packed.tar.gz")).unwrap().write_all(&bytes).unwrap();
    };
    pack(&skill_md("packed", ""));
    setup.add("./packed.tar.gz", None, None).unwrap();
    pack(&skill_md("packed", "allowed-tools: Bash\n"));
    std::fs::remove_dir_all(setup.path("state")).unwrap();
    let error = setup.project().sync(false, &Offline).unwrap_err();
    assert!(matches!(error, SourceError::Moved(_)), "{error}");
    let changes = setup.project().update(&[], false, &Offline).unwrap();
    assert_eq!(changes[0].kind, ChangeKind::Updated);
}

#[test]
fn frozen_sync_changes_no_lock() {
    let setup = Setup::new();
    setup.add("./one", None, None).unwrap();
    setup.write("two/SKILL.md", &skill_md("two", ""));
    let text = std::fs::read_to_string(setup.path("skills.yaml")).unwrap();
    let lock = std::fs::read(setup.path("skills.lock")).unwrap();
    let cases = [
        format!("{text}  two: ./two\n"),
        "skills:\n  one: ./two\n".to_owned(),
        "skills:\n  one:\n    source: ./one\n    submodules: true\n".to_owned(),
        "skills:\n  two: ./two\n".to_owned(),
        "skills: {}\n".to_owned(),
    ];
    for text in cases {
        setup.write("skills.yaml", &text);
        let project = setup.project();
        assert!(project.sync(true, &Offline).is_err(), "{text}");
        assert!(!project.verify().unwrap().is_empty(), "{text}");
        assert_eq!(std::fs::read(setup.path("skills.lock")).unwrap(), lock);
    }
    setup.write("skills.yaml", "skills:\n  two: ./two\n");
    let kinds: Vec<_> = setup
        .project()
        .sync(false, &Offline)
        .unwrap()
        .into_iter()
        .map(|c| (c.name, c.kind))
        .collect();
    assert_eq!(
        kinds,
        [("two".to_owned(), ChangeKind::Added), ("one".to_owned(), ChangeKind::Removed)]
    );
    assert_eq!(setup.project().verify().unwrap(), []);
}

#[test]
fn files_that_were_fetched_as_locked_are_kept() {
    let setup = Setup::new();
    setup.add("./one", None, None).unwrap();
    std::fs::remove_dir_all(setup.path("state")).unwrap();
    assert_eq!(setup.project().sync(true, &Offline).unwrap()[0].kind, ChangeKind::Fetched);
    let collected = Project::collect(&setup.path("state")).unwrap().unwrap();
    assert_eq!(collected, Collected::default());
    assert!(setup.project().installed().unwrap().missing.is_empty());
}

#[test]
fn required_skills_of_the_source_are_added_through_others() {
    let setup = Setup::new();
    for (name, more) in [("a", "metadata:\n  requires: b\n"), ("b", "metadata:\n  requires: c\n")] {
        setup.write(&format!("all/{name}/SKILL.md"), &skill_md(name, more));
    }
    for name in ["c", "d"] {
        setup.write(&format!("all/{name}/SKILL.md"), &skill_md(name, ""));
    }
    let changes = setup.add("./all", Some("a"), None).unwrap();
    let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn override_disables_a_skill_by_each_of_its_tags() {
    let setup = Setup::new();
    setup.write("one/SKILL.md", &skill_md("one", "metadata:\n  category: Reports; Drafts\n"));
    setup.add("./one", None, None).unwrap();
    let text = std::fs::read_to_string(setup.path("skills.yaml")).unwrap();
    for (tag, count) in [("reports", 0), ("Drafts", 0), ("other", 1)] {
        let more = format!("overrides: [{{ tag: {tag}, enabled: false }}]\n");
        setup.write("skills.yaml", &format!("{text}{more}"));
        assert_eq!(setup.project().installed().unwrap().skills.len(), count, "{tag}");
    }
}

#[test]
fn disabled_skill_stays_locked_and_is_not_installed() {
    let setup = Setup::new();
    setup.add("./one", None, None).unwrap();
    setup.write("skills.yaml", "skills:\n  one:\n    source: ./one\n    enabled: false\n");
    let project = setup.project();
    assert!(project.installed().unwrap().skills.is_empty());
    assert_eq!(project.sync(true, &Offline).unwrap().len(), 1);
}

#[test]
fn removed_skill_is_in_neither_file() {
    let setup = Setup::new();
    setup.add("./one", None, None).unwrap();
    let project = setup.project();
    assert_eq!(project.remove("one").unwrap().0.kind, ChangeKind::Removed);
    assert!(project.remove("one").is_err());
    assert!(
        project.locked().unwrap().skills.is_empty() && project.wanted().unwrap().skills.is_empty()
    );
}

/// Each field of a lock, changed as someone would who also computes its checksums.
#[test]
fn every_field_of_the_lock_is_verified() {
    let setup = Setup::new();
    setup.add("./one", None, None).unwrap();
    let original = setup.project().locked().unwrap();
    type Change = fn(&mut LockedSkill);
    let changes: [(&str, Change); 13] = [
        ("source", |skill| skill.source = "./other".into()),
        ("path", |skill| skill.path = "other".into()),
        ("submodules", |skill| skill.submodules = true),
        ("revision", |skill| skill.revision = format!("git:{}", "0".repeat(40))),
        ("digest and files", |skill| {
            skill.files.0.insert("more".into(), Digest::of(b""));
            skill.digest = skill.files.digest();
        }),
        ("a file's digest", |skill| {
            skill.files.0.insert("SKILL.md".into(), Digest::of(b""));
            skill.digest = skill.files.digest();
        }),
        ("content", |skill| skill.content = skill.content.replace('0', "1").replace('a', "b")),
        ("version", |skill| skill.version = Some("9.0.0".into())),
        ("requires", |skill| skill.requires = vec!["other".into()]),
        ("component", |skill| skill.component = Some("x.wasm".into())),
        ("permissions", |skill| skill.permissions = vec!["Bash".into()]),
        ("signatures", |skill| skill.signatures.push("sha256:1".into())),
        ("fewer permissions", |skill| skill.permissions.clear()),
    ];
    for (what, change) in changes {
        let mut lock = original.clone();
        change(lock.skills.get_mut("one").unwrap());
        assert_ne!(lock, original, "{what}");
        setup.write("skills.lock", &lock.to_string());
        assert_ne!(setup.project().verify().unwrap(), [], "{what}");
    }
    setup.write("skills.lock", &original.to_string());
    assert_eq!(setup.project().verify().unwrap(), []);
}

#[test]
fn interrupted_change_is_finished_before_anything_is_read() {
    let setup = Setup::new();
    setup.add("./one", None, None).unwrap();
    let (old_text, old_lock) = ["skills.yaml", "skills.lock"]
        .map(|file| std::fs::read_to_string(setup.path(file)).unwrap())
        .into();
    setup.write("two/SKILL.md", &skill_md("two", ""));
    setup.add("./two", None, None).unwrap();
    let (new_text, new_lock): (String, String) = ["skills.yaml", "skills.lock"]
        .map(|file| std::fs::read_to_string(setup.path(file)).unwrap())
        .into();
    let (text_path, lock_path) = (setup.path("skills.yaml"), setup.path("skills.lock"));
    let journal = serde_json::json!([
        { "path": lock_path, "before": Digest::of(old_lock.as_bytes()).to_string(), "text": new_lock },
        { "path": text_path, "before": Digest::of(old_text.as_bytes()).to_string(), "text": new_text },
    ]);
    // Killed after writing neither, the first, and both of the files.
    for (text, lock) in [(&old_text, &old_lock), (&old_text, &new_lock), (&new_text, &new_lock)] {
        setup.write("skills.yaml", text);
        setup.write("skills.lock", lock);
        let store = Store::open(&setup.path("state")).unwrap();
        std::fs::write(store.journal(&text_path), journal.to_string()).unwrap();
        let project = setup.project();
        assert_eq!(std::fs::read_to_string(&text_path).unwrap(), new_text);
        assert_eq!(std::fs::read_to_string(&lock_path).unwrap(), new_lock);
        assert_eq!(project.verify().unwrap(), []);
    }
    // An edit in the meantime is not overwritten.
    setup.write("skills.yaml", "skills: {}\n");
    let store = Store::open(&setup.path("state")).unwrap();
    std::fs::write(store.journal(&text_path), journal.to_string()).unwrap();
    Project::open(&text_path, &setup.path("state"), &setup.path("home")).unwrap_err();
    assert_eq!(std::fs::read_to_string(&text_path).unwrap(), "skills: {}\n");
}

#[test]
fn lock_file_cannot_give_a_skill_another_source() {
    let setup = Setup::new();
    setup.write("two/SKILL.md", &skill_md("two", "allowed-tools: Bash\n"));
    setup.add("./one", None, None).unwrap();
    setup.add("./two", None, None).unwrap();
    let original = setup.project().locked().unwrap();
    let two = &original.skills["two"];
    let with = |one: LockedSkill| {
        let mut lock = original.clone();
        lock.skills.insert("one".into(), one);
        setup.write("skills.lock", &lock.to_string());
        setup.project()
    };
    // The lock names the source of `two`.
    let project = with(two.clone());
    assert_eq!(project.installed().unwrap().missing, ["one"]);
    assert_ne!(project.verify().unwrap(), []);
    // The lock names the source of `one`, and the files of `two`, which are in the store.
    let project = with(LockedSkill { source: "./one".into(), ..two.clone() });
    assert_eq!(project.installed().unwrap().missing, ["one"]);
    assert_ne!(project.verify().unwrap(), []);
    for frozen in [true, false] {
        let error = project.sync(frozen, &Offline).unwrap_err();
        assert!(matches!(error, SourceError::Moved(_)), "{error}");
    }
    assert_eq!(with(original.skills["one"].clone()).verify().unwrap(), []);
}

#[test]
fn confirmed_file_is_used_only_while_it_is_the_same() {
    let setup = Setup::new();
    setup.add("./one", None, None).unwrap();
    let project = setup.project();
    let (digest, wanted) = project.to_confirm().unwrap();
    assert_eq!(wanted, project.wanted().unwrap());
    let project = project.confirmed(digest);
    assert_eq!(project.installed().unwrap().skills.len(), 1);
    setup.write("skills.yaml", "skills:\n  two: ./two\n");
    assert!(project.installed().is_err() && project.require_locked().is_err());
    assert!(project.sync(false, &Offline).is_err() && project.remove("two").is_err());
}

#[test]
fn folder_whose_path_is_not_utf_8_is_refused_before_anything_is_written() {
    use std::os::unix::ffi::OsStrExt as _;
    let setup = Setup::new();
    let folder = setup.path("").join(std::ffi::OsStr::from_bytes(b"x\xff"));
    std::fs::create_dir(&folder).unwrap();
    let open = || Project::open(&folder.join(wanted::FILE), &setup.path("state"), Path::new("/"));
    let source = setup.path("one").display().to_string().parse().unwrap();
    let request = AddRequest { source, name: None, path: None, all: false, submodules: false };
    let project = open().unwrap();
    project.add(project.fetch(&request, &Offline).unwrap()).unwrap_err();
    assert_eq!(open().unwrap().locked().unwrap(), Lock::default());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}
