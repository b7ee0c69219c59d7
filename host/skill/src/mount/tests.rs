//! What is copied and under which name, what is refused, and what is never replaced.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::*;

/// A folder with a skill `word-count`, and the folder of an agent, which does not exist yet.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        place.skill("word-count");
        place
    }

    fn skill(&self, name: &str) -> PathBuf {
        self.write(&format!("{name}/SKILL.md"), &skill_md(name));
        self.write(&format!("{name}/scripts/count.sh"), "wc\n");
        self.path(name)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn agent(&self) -> PathBuf {
        self.path("agent/skills")
    }

    fn mounted(&self, path: &str) -> String {
        fs::read_to_string(self.agent().join(path)).unwrap()
    }

    fn mount(&self, name: &str) -> Result<Vec<MountedSkill>, MountError> {
        mount(&self.agent(), &[self.request(name)])
    }

    fn request(&self, name: &str) -> MountRequest {
        MountRequest::new(self.path(name))
    }

    /// The names in the agent's folder.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.agent()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn skill_md(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Counts words.\nallowed-tools: Read\n---\nCount.\n")
}

#[track_caller]
fn refusal(result: Result<Vec<MountedSkill>, MountError>) -> String {
    match result {
        Err(MountError::CannotMount { why, fix, is_io: false, .. }) => {
            format!("{why}; {}", fix.unwrap_or_default())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_that_were_not_verified_are_not_mounted() {
    let place = Place::new();
    let folder = place.path("word-count");
    let listing = SkillListing::of(folder.as_path(), &SizeLimits::default()).unwrap();
    let verified = Some(Tree::read(&listing).unwrap().listing_digest());
    let request = MountRequest { verified, ..place.request("word-count") };
    mount(&place.agent(), std::slice::from_ref(&request)).unwrap();
    place.write("word-count/more", "");
    let why = refusal(mount(&place.agent(), &[request]));
    assert!(why.contains("its files changed after they were verified"), "{why}");
}

#[test]
fn mounted_skill_has_the_digest_of_its_source() {
    let place = Place::new();
    let script = place.path("word-count/scripts/count.sh");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(place.path("word-count/empty")).unwrap();
    let mounted = place.mount("word-count").unwrap().remove(0);
    let load = |path: &Path| Skill::load(path, &SizeLimits::default()).unwrap();
    let (source, copy) = (load(&place.path("word-count")), load(&mounted.folder));
    assert_eq!(mounted.digest, source.digest().unwrap());
    assert_eq!(mounted.digest, copy.digest().unwrap());
    assert_eq!((mounted.files, mounted.is_enabled, mounted.is_changed), (2, true, false));
    assert!(mounted.folder.join("empty").is_dir());
    let mode =
        |path: &str| fs::metadata(mounted.folder.join(path)).unwrap().permissions().mode() & 0o777;
    // As private as the agent's folder, which is new.
    assert_eq!((mode("scripts/count.sh"), mode("SKILL.md"), mode(".")), (0o700, 0o600, 0o700));
    assert_eq!(place.names(), [".skillhost-mounts.json", "word-count"]);
}

#[test]
fn mounted_skill_is_as_readable_as_the_folder_and_only_writable_by_its_owner() {
    let place = Place::new();
    fs::create_dir_all(place.agent()).unwrap();
    fs::set_permissions(place.agent(), fs::Permissions::from_mode(0o775)).unwrap();
    let mounted = place.mount("word-count").unwrap().remove(0);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&mounted.folder), 0o755);
    assert_eq!(mode(&mounted.folder.join("SKILL.md")), 0o644);
    assert_eq!(mode(&mounted.folder.join("scripts")), 0o755);
}

#[test]
fn renamed_skill_has_its_new_name_in_the_frontmatter() {
    let place = Place::new();
    let request = MountRequest { name: Some("tally".into()), ..place.request("word-count") };
    mount(&place.agent(), &[request]).unwrap();
    assert_eq!(place.mounted("tally/SKILL.md"), skill_md("tally"));
    for name in ["../tally", "Tally", "", ".", "a/b", "a b"] {
        let request = MountRequest { name: Some(name.into()), ..place.request("word-count") };
        let why = refusal(mount(&place.agent(), &[request]));
        assert!(why.contains("is not the name of a skill; --as "), "{name}: {why}");
    }
    assert_eq!(place.names(), [".skillhost-mounts.json", "tally"]);
}

#[test]
fn skill_that_changes_meanwhile_is_written_as_it_was_checked() {
    let place = Place::new();
    let (valid, invalid) = (skill_md("word-count"), skill_md("other-name"));
    let (new, skill_md) = (place.path("new"), place.path("word-count/SKILL.md"));
    let (stop, start) = (AtomicBool::new(false), Instant::now());
    let (mut mounted, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for text in [&invalid, &valid].into_iter().cycle() {
                if stop.load(Relaxed) || start.elapsed() > Duration::from_secs(30) {
                    return;
                }
                fs::write(&new, text).unwrap();
                fs::rename(&new, &skill_md).unwrap();
            }
        });
        while (mounted < 10 || refused < 10) && start.elapsed() < Duration::from_secs(25) {
            match place.mount("word-count") {
                Ok(skills) => {
                    assert_eq!(place.mounted("word-count/SKILL.md"), valid);
                    let copy = Skill::load(&skills[0].folder, &SizeLimits::default()).unwrap();
                    assert_eq!(copy.digest().unwrap(), skills[0].digest);
                    mounted += 1;
                }
                Err(MountError::Invalid(_)) => refused += 1,
                // It was replaced between listing and reading.
                Err(MountError::CannotMount { is_io: true, .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        stop.store(true, Relaxed);
    });
    assert!(mounted >= 10 && refused >= 10, "{mounted} mounted, {refused} refused");
}

#[test]
fn links_inside_the_skill_become_files() {
    let place = Place::new();
    symlink("scripts", place.path("word-count/bin")).unwrap();
    symlink("../SKILL.md", place.path("word-count/scripts/README.md")).unwrap();
    place.mount("word-count").unwrap();
    let folder = place.agent().join("word-count");
    assert!(!folder.join("bin").is_symlink());
    assert_eq!(place.mounted("word-count/bin/count.sh"), "wc\n");
    assert_eq!(place.mounted("word-count/bin/README.md"), skill_md("word-count"));
    assert!(!folder.join("scripts/README.md").is_symlink());
    // A second mount recognises its own files.
    place.mount("word-count").unwrap();
}

#[test]
fn other_links_are_refused() {
    for (link, target) in [
        ("outside", "/etc/passwd"),
        ("outside", "../secret"),
        ("scripts/up", "../../secret"),
        ("broken", "nowhere"),
        ("scripts/all", ".."),
        ("self", "."),
    ] {
        let place = Place::new();
        place.write("secret", "secret");
        symlink(target, place.path("word-count").join(link)).unwrap();
        let why = refusal(place.mount("word-count"));
        assert!(why.contains("symlink") && why.contains("with a copy"), "{link}: {why}");
        assert!(!place.agent().join("word-count").exists(), "{link}");
    }
}

#[test]
fn links_that_multiply_files_are_bounded() {
    let place = Place::new();
    // Each level has the one below it twice: 2^20 files.
    for level in 0..20 {
        let folder = place.path("word-count").join(format!("l{level}"));
        fs::create_dir(&folder).unwrap();
        for link in ["a", "b"] {
            symlink(format!("../l{}", level + 1), folder.join(link)).unwrap();
        }
    }
    place.write("word-count/l20/file", "x");
    let why = refusal(place.mount("word-count"));
    assert!(why.contains("more than 2000 files"), "{why}");
}

#[test]
fn skills_that_lead_to_each_other_by_links_are_refused() {
    let place = Place::new();
    for (folder, other) in [("a", "b"), ("b", "a")] {
        fs::create_dir(place.path("word-count").join(folder)).unwrap();
        symlink(format!("../{other}"), place.path("word-count").join(folder).join("x")).unwrap();
    }
    let why = refusal(place.mount("word-count"));
    assert!(why.contains("contains the symlink"), "{why}");
}

#[test]
fn single_file_is_mounted_as_instructions_that_request_nothing() {
    let place = Place::new();
    place.write(
        "notes.md",
        "---\nname: notes\ndescription: \"Takes: notes\"\nallowed-tools: Bash Write\nuser-invocable: false\n---\nWrite it down.\n",
    );
    place.write("plain.md", "# Plain\n\nDescribes itself.\n");
    let requests = ["notes.md", "plain.md"].map(|name| place.request(name));
    let mounted = mount(&place.agent(), &requests).unwrap();
    assert!(mounted.iter().all(|skill| skill.instructions_only));
    assert_eq!(
        place.mounted("notes/SKILL.md"),
        "---\nname: \"notes\"\ndescription: \"Takes: notes\"\nallowed-tools: \"\"\nuser-invocable: false\n---\nWrite it down.\n"
    );
    let loaded = Skill::load(&place.agent().join("plain"), &SizeLimits::default()).unwrap();
    assert_eq!(
        (loaded.manifest.description.as_str(), loaded.diagnostics.len()),
        ("Describes itself.", 0)
    );
}

#[test]
fn single_file_has_a_limit_and_needs_a_name() {
    let place = Place::new();
    for (bytes, is_mounted) in [(MAX_SINGLE_FILE, true), (MAX_SINGLE_FILE + 1, false)] {
        place
            .write("long.md", &format!("Text.{}", "x".repeat(usize::try_from(bytes).unwrap() - 5)));
        let result = place.mount("long.md");
        assert_eq!(result.is_ok(), is_mounted, "{bytes}");
        if !is_mounted {
            assert!(refusal(result).contains("larger than 1 MiB"));
        }
    }
    place.write("README.md", "Text.\n");
    let why = refusal(place.mount("README.md"));
    assert!(why.contains("`README` is not the name of a skill; --as readme"), "{why}");
    let request = MountRequest { name: Some("readme-1".into()), ..place.request("README.md") };
    mount(&place.agent(), &[request]).unwrap();
    assert!(place.mounted("readme-1/SKILL.md").ends_with("---\nText.\n"));
}

#[test]
fn invalid_skill_is_refused_or_mounted_as_instructions_only() {
    let place = Place::new();
    let skill_md =
        "---\nname: word-count\ndescription: a: b\nallowed-tools: Bash\n---\nCount all words.\n";
    place.write("word-count/SKILL.md", skill_md);
    let Err(MountError::Invalid(error)) = place.mount("word-count") else { panic!() };
    assert!(error.diagnostics.iter().any(|d| d.rule == "yaml-syntax"), "{error:?}");
    assert!(!place.agent().exists(), "nothing was created");
    let lenient = MountRequest { is_validated: false, ..place.request("word-count") };
    let mounted = mount(&place.agent(), &[lenient]).unwrap().remove(0);
    assert!(mounted.instructions_only && !mounted.folder.join("scripts").exists());
    let loaded = Skill::load(&mounted.folder, &SizeLimits::default()).unwrap();
    assert_eq!(loaded.diagnostics, []);
    assert_eq!(loaded.manifest.allowed_tools, Some(Vec::new()));
    // A valid skill is mounted whole.
    place.skill("other");
    let lenient = MountRequest { is_validated: false, ..place.request("other") };
    assert!(!mount(&place.agent(), &[lenient]).unwrap()[0].instructions_only);
}

#[test]
fn missing_skill_is_not_found() {
    let place = Place::new();
    for name in ["nowhere", "nowhere.md"] {
        let Err(MountError::NotFound { path }) = place.mount(name) else { panic!() };
        assert_eq!(path, place.path(name));
    }
}

#[test]
fn duplicate_name_mounts_nothing() {
    let place = Place::new();
    place.skill("more/word-count");
    place.write("more/word-count/SKILL.md", &skill_md("word-count"));
    let requests = ["word-count", "more/word-count"].map(|name| place.request(name));
    let why = refusal(mount(&place.agent(), &requests));
    assert!(why.contains("two skills have the name `word-count`"), "{why}");
    assert!(!place.agent().exists());
}

#[test]
fn skills_of_a_call_have_a_total_limit() {
    let place = Place::new();
    let each = 10_000_000;
    for (count, is_mounted) in [(5, true), (6, false)] {
        let requests: Vec<MountRequest> = (0..count)
            .map(|n| {
                let name = format!("large-{n}");
                place.skill(&name);
                place.write(&format!("{name}/data"), &"x".repeat(each));
                place.request(&name)
            })
            .collect();
        let result = mount(&place.agent(), &requests);
        assert_eq!(result.is_ok(), is_mounted, "{count}");
        if !is_mounted {
            assert!(refusal(result).contains("larger than 50 MiB in total"));
        }
    }
    place.write("word-count/data", &"x".repeat(11 << 20));
    assert!(matches!(place.mount("word-count"), Err(MountError::Invalid(_))), "of one skill");
}

#[test]
fn mounted_skill_is_replaced_and_anything_else_is_not() {
    let place = Place::new();
    place.mount("word-count").unwrap();
    place.write("word-count/scripts/count.sh", "wc -w\n");
    place.write("word-count/new", "new\n");
    place.mount("word-count").unwrap();
    assert_eq!(place.mounted("word-count/scripts/count.sh"), "wc -w\n");
    assert_eq!(place.mounted("word-count/new"), "new\n");
    assert_eq!(place.names(), [".skillhost-mounts.json", "word-count"]);
    // The agent's user changed it.
    let changes: [fn(&Path); 4] = [
        |folder| fs::write(folder.join("mine"), "mine").unwrap(),
        |folder| fs::write(folder.join("new"), "other").unwrap(),
        |folder| fs::remove_file(folder.join("new")).unwrap(),
        |folder| symlink("/etc", folder.join("link")).unwrap(),
    ];
    for change in changes {
        let folder = place.agent().join("word-count");
        change(&folder);
        let before = format!("{:?}", list(&place.agent()).unwrap());
        let why = refusal(place.mount("word-count"));
        assert!(why.contains("was changed after mounting"), "{why}");
        assert_eq!(format!("{:?}", list(&place.agent()).unwrap()), before);
        assert!(list(&place.agent()).unwrap()[0].is_changed);
        fs::remove_dir_all(&folder).unwrap();
        place.mount("word-count").unwrap();
    }
}

#[test]
fn what_was_not_mounted_is_never_replaced() {
    type Put = fn(&Path);
    let puts: [(&str, Put); 5] = [
        ("a skill", |path| {
            fs::create_dir(path).unwrap();
            fs::write(path.join("SKILL.md"), "mine").unwrap();
        }),
        ("an empty folder", |path| fs::create_dir(path).unwrap()),
        ("a file", |path| fs::write(path, "mine").unwrap()),
        ("a symlink", |path| symlink("/etc", path).unwrap()),
        ("a broken symlink", |path| symlink("nowhere", path).unwrap()),
    ];
    for (what, put) in puts {
        let place = Place::new();
        fs::create_dir_all(place.agent()).unwrap();
        put(&place.agent().join("word-count"));
        let before = place.agent().join("word-count").symlink_metadata().unwrap();
        let why = refusal(place.mount("word-count"));
        assert!(why.contains("was not mounted by skillhost"), "{what}: {why}");
        let after = place.agent().join("word-count").symlink_metadata().unwrap();
        use std::os::unix::fs::MetadataExt as _;
        assert_eq!(
            (before.ino(), before.ctime_nsec()),
            (after.ino(), after.ctime_nsec()),
            "{what}"
        );
        assert_eq!(list(&place.agent()).unwrap(), []);
    }
}

#[test]
fn disabled_skill_keeps_its_files_and_has_no_skill_md() {
    let place = Place::new();
    let request = MountRequest { is_enabled: false, ..place.request("word-count") };
    mount(&place.agent(), &[request]).unwrap();
    let folder = place.agent().join("word-count");
    assert!(!folder.join("SKILL.md").exists() && folder.join("scripts/count.sh").exists());
    assert!(!list(&place.agent()).unwrap()[0].is_enabled);
    for is_enabled in [true, true, false, false, true] {
        let skill = set_enabled(&place.agent(), "word-count", is_enabled).unwrap();
        assert_eq!((skill.is_enabled, skill.is_changed), (is_enabled, false));
        assert_eq!(list(&place.agent()).unwrap(), [skill]);
        assert_eq!(folder.join("SKILL.md").exists(), is_enabled);
    }
    // A disabled skill is replaced too.
    set_enabled(&place.agent(), "word-count", false).unwrap();
    assert!(place.mount("word-count").unwrap()[0].is_enabled);
    for name in ["nowhere", "..", "../word-count", ""] {
        let error = set_enabled(&place.agent(), name, false).unwrap_err();
        assert!(matches!(error, MountError::NotFound { .. }), "{name}: {error}");
    }
}

#[test]
fn unfinished_folders_of_killed_hosts_are_removed() {
    let place = Place::new();
    place.mount("word-count").unwrap();
    let left = place.agent().join(".skillhost-mount-0123456789abcdef");
    place.write("agent/skills/.skillhost-mount-0123456789abcdef/SKILL.md.disabled", "half");
    place.write("agent/skills/.skillhost-mount-mine/SKILL.md", "mine");
    symlink("/etc", place.agent().join(".skillhost-mount-0123456789abcde0")).unwrap();
    place.mount("word-count").unwrap();
    assert!(!left.exists());
    assert_eq!(place.names().len(), 4, "{:?}", place.names());
}

#[test]
fn host_that_was_killed_before_or_after_the_exchange_left_a_mounted_skill() {
    let place = Place::new();
    place.mount("word-count").unwrap();
    let index = place.agent().join(".skillhost-mounts.json");
    let old = fs::read_to_string(&index).unwrap();
    place.write("word-count/new", "new\n");
    // Before the exchange: the index has both digests.
    let digest = |text: &str| text.split("sha256:").nth(1).unwrap()[..64].to_owned();
    let copy = Place::new();
    copy.write("word-count/new", "new\n");
    let new = copy.mount("word-count").unwrap()[0].digest.clone();
    let both = old.replace(
        &format!("\"sha256:{}\"", digest(&old)),
        &format!("\"{new}\", \"replaces\": \"sha256:{}\"", digest(&old)),
    );
    fs::write(&index, &both).unwrap();
    assert!(!list(&place.agent()).unwrap()[0].is_changed);
    place.mount("word-count").unwrap();
    // After it, and before the index is updated.
    fs::write(&index, &both).unwrap();
    assert!(!list(&place.agent()).unwrap()[0].is_changed);
    place.mount("word-count").unwrap();
}

#[test]
fn broken_index_is_an_error_that_changes_nothing() {
    let place = Place::new();
    place.mount("word-count").unwrap();
    for text in ["", "{", "{\"version\": 1}", "{\"version\": 2, \"skills\": {}}"] {
        fs::write(place.agent().join(".skillhost-mounts.json"), text).unwrap();
        assert!(refusal(place.mount("word-count")).contains("index"), "{text}");
        assert_eq!(place.mounted(".skillhost-mounts.json"), text);
    }
}

#[test]
fn errors_are_told_apart_by_their_code() {
    let place = Place::new();
    place.write("bad/SKILL.md", "---\nname: other\ndescription: a\n---\n");
    place.write("agent/skills/word-count", "taken");
    for (name, code) in [("nowhere", "no-skill"), ("bad", "skill"), ("word-count", "mount")] {
        let error = serde_json::to_value(place.mount(name).unwrap_err()).unwrap();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].is_string(), "{error}");
    }
}
