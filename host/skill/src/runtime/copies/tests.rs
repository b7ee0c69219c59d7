//! Copies: created, reused, lost, damaged and in use.

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::PathBuf;

use super::*;
use crate::Skill;

/// A skill, and the cache and scratch folders of its host.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        for folder in ["x/scripts", "x/empty/er", "scratch"] {
            std::fs::create_dir_all(place.path(folder)).unwrap();
        }
        for (file, text) in [
            ("SKILL.md", "---\nname: x\ndescription: X.\n---\n"),
            ("a.wasm", "a"),
            ("scripts/a.py", "old"),
            ("scripts/b", ""),
        ] {
            std::fs::write(place.path("x").join(file), text).unwrap();
        }
        symlink("a.py", place.path("x/scripts/link")).unwrap();
        symlink("../a.wasm", place.path("x/scripts/b.wasm")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The listing, with times as if it had been written an hour ago; nothing else can move `changed`.
    fn list(&self) -> SkillListing {
        let mut listed = SkillListing::of(&self.path("x"), &Default::default()).unwrap();
        for file in &mut listed.files {
            file.identity.changed.0 -= 3600;
        }
        listed
    }

    fn open(&self) -> (Content, Digests) {
        let SkillCopy { content, digests, .. } =
            open_where(&self.list(), None, &self.path("cache"), &self.path("scratch"), true)
                .unwrap();
        (content, digests)
    }

    fn digest(&self) -> String {
        Skill::load(&self.path("x"), &Default::default()).unwrap().digest().unwrap()
    }

    fn copies(&self) -> Vec<PathBuf> {
        let mut found: Vec<_> = std::fs::read_dir(self.path("cache/skills"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        found.sort();
        found
    }

    /// Changes the cached facts about the skill.
    fn forge(&self, from: &str, to: &str) {
        let mut files =
            std::fs::read_dir(self.path("cache")).unwrap().map(|entry| entry.unwrap().path());
        let path = files.find(|path| path.extension().is_some_and(|e| e == "skill")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        std::fs::write(&path, text.replace(from, to)).unwrap();
    }
}

#[test]
fn copy_has_the_digested_content_despite_later_changes() {
    let place = Place::new();
    let (copy, digests) = place.open();
    assert_eq!(digests.skill, place.digest());
    assert_eq!(
        digests.components,
        ["a.wasm", "scripts/b.wasm"].map(|path| (path.to_owned(), digest(b"a"))).into()
    );
    std::fs::write(place.path("x/scripts/a.py"), "new").unwrap();
    std::fs::remove_file(place.path("x/scripts/b")).unwrap();
    assert_eq!(copy.dir().read_to_string("scripts/link").unwrap(), "old");
    assert_eq!(copy.dir().read("scripts/b").unwrap(), b"");
    assert!(copy.dir().metadata("empty/er").unwrap().is_dir());
    let (after, changed) = place.open();
    assert_eq!(
        (
            changed.skill == digests.skill,
            after.dir().read_to_string("scripts/a.py").unwrap().as_str()
        ),
        (false, "new")
    );
    assert_eq!(copy.dir().read_to_string("scripts/a.py").unwrap(), "old");
}

#[test]
fn copy_is_private_keeps_times_and_is_created_once() {
    let place = Place::new();
    let (first, digests) = place.open();
    let copies = place.copies();
    let metadata = |path: &str| std::fs::metadata(copies[0].join(path)).unwrap();
    assert_eq!(metadata("").mode() & 0o777, 0o700);
    assert_eq!(metadata("scripts/a.py").mode() & 0o777, 0o400);
    assert_eq!(
        metadata("scripts/a.py").modified().unwrap(),
        std::fs::metadata(place.path("x/scripts/a.py")).unwrap().modified().unwrap()
    );
    let (second, again) = place.open();
    let inode = |content: &Content| rustix::fs::fstat(content).unwrap().st_ino;
    assert_eq!((inode(&first), digests, copies), (inode(&second), again, place.copies()));
}

#[test]
fn known_digests_are_reused_without_reading_files() {
    let place = Place::new();
    place.open();
    place.forge(&digest(b"a"), "from the cache");
    assert_eq!(place.open().1.components["a.wasm"], "from the cache");
    // Not if file attributes are unreliable, or the machine was rebooted.
    let read = open_where(&place.list(), None, &place.path("cache"), &place.path("scratch"), false)
        .unwrap()
        .digests;
    assert_eq!(read.components["a.wasm"], digest(b"a"));
    place.forge(&boot().unwrap(), "another start");
    assert_eq!(place.open().1.components["a.wasm"], digest(b"a"));
}

#[test]
fn lost_or_damaged_copies_are_recreated() {
    let place = Place::new();
    let digests = place.open().1;
    std::fs::remove_dir_all(&place.copies()[0]).unwrap();
    assert_eq!(place.open().1, digests);
    // A crash may leave a file empty, which is detected after the next boot.
    let file = place.copies()[0].join("scripts/a.py");
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "").unwrap();
    place.forge(&boot().unwrap(), "another start");
    assert_eq!(place.open().0.dir().read_to_string("scripts/a.py").unwrap(), "old");
    assert_eq!(place.copies().len(), 1);
}

#[test]
fn copies_in_use_are_not_removed() {
    let place = Place::new();
    let (copy, _) = place.open();
    let name = format!("{FOLDER}/{}", place.copies()[0].file_name().unwrap().to_str().unwrap());
    let cache = stamp::open_cache_folder(&place.path("cache")).unwrap();
    assert_eq!(remove(&cache, &name).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(copy);
    remove(&cache, &name).unwrap();
    assert!(place.copies().is_empty());
}

#[test]
fn copy_is_temporary_without_a_cache() {
    let place = Place::new();
    std::fs::write(place.path("cache"), "no folder").unwrap();
    let (copy, digests) = place.open();
    assert_eq!(digests.skill, place.digest());
    std::fs::write(place.path("x/scripts/a.py"), "new").unwrap();
    assert_eq!(copy.dir().read_to_string("scripts/a.py").unwrap(), "old");
    assert_eq!(std::fs::read_dir(place.path("scratch")).unwrap().count(), 1);
    drop(copy);
    assert_eq!(std::fs::read_dir(place.path("scratch")).unwrap().count(), 0);
}

#[test]
fn digests_of_recent_files_are_not_stored() {
    let place = Place::new();
    let listed = SkillListing::of(&place.path("x"), &Default::default()).unwrap();
    open_where(&listed, None, &place.path("cache"), &place.path("scratch"), true).unwrap();
    let names = std::fs::read_dir(place.path("cache")).unwrap().map(|entry| entry.unwrap().path());
    assert!(
        names.into_iter().all(|path| path.extension().is_none_or(|extension| extension != "skill"))
    );
}
