//! The digests of a skill and of its components: computed once, and taken from the cache folder while no file has changed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{digest, stamp};
use crate::skill::Skill;
use crate::skill::files::SkillFile;

/// The digests of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// Over all its files: [`Skill::digest`].
    pub skill: String,
    /// Of each `.wasm` file, by path.
    pub components: BTreeMap<String, String>,
}

impl Digests {
    /// Computes the digests, or takes them from the folder `cache`, which only the host writes.
    ///
    /// # Errors
    /// A file that cannot be read, or changed since the skill was loaded.
    pub fn of(skill: &Skill, cache: &Path) -> io::Result<Digests> {
        let newest = skill.files.iter().map(|file| file.identity.changed).max().unwrap_or_default();
        stamp::unless_changed(cache, &name(skill)?, state(skill), newest, || Digests::compute(skill))
    }

    fn compute(skill: &Skill) -> io::Result<Digests> {
        let components = skill.files.iter().map(|file| &file.path).filter(|path| path.ends_with(".wasm"));
        // One that cannot be read is told of when it is to run.
        let components = components.filter_map(|path| Some((path.clone(), digest(&skill.read(path).ok()?)))).collect();
        Ok(Digests { skill: skill.digest()?, components })
    }
}

fn name(skill: &Skill) -> io::Result<String> {
    let stat = rustix::fs::fstat(&skill.dir)?;
    Ok(format!("{:x}-{:x}.skill", stat.st_dev, stat.st_ino))
}

fn state(skill: &Skill) -> String {
    let files: Vec<_> = skill.files.iter().map(|SkillFile { path, size, link, identity }| (path, size, link, identity)).collect();
    // Plain data always becomes JSON.
    digest(&serde_json::to_vec(&files).unwrap_or_default())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A skill that has not been changed for long, and what its cache folder is.
    struct Old {
        dir: tempfile::TempDir,
    }

    impl Old {
        fn new() -> Old {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("x")).unwrap();
            std::fs::write(dir.path().join("x/SKILL.md"), "---\nname: x\ndescription: X.\n---\n").unwrap();
            std::fs::write(dir.path().join("x/a.wasm"), "a").unwrap();
            Old { dir }
        }

        /// Loaded, with times as if it had been written an hour ago; nothing else can move `changed`.
        fn load(&self) -> Skill {
            let mut skill = Skill::load(&self.dir.path().join("x"), &Default::default()).unwrap();
            for file in &mut skill.files {
                file.identity.changed.0 -= 3600;
            }
            skill
        }

        fn digests(&self, skill: &Skill) -> Digests {
            Digests::of(skill, &self.dir.path().join("cache")).unwrap()
        }

        fn kept(&self) -> usize {
            std::fs::read_dir(self.dir.path().join("cache")).unwrap().count()
        }
    }

    #[test]
    fn they_are_computed_once() {
        let old = Old::new();
        let skill = old.load();
        let digests = old.digests(&skill);
        assert_eq!(digests, Digests { skill: skill.digest().unwrap(), components: [("a.wasm".into(), digest(b"a"))].into() });
        assert_eq!(old.kept(), 1);
        let path = std::fs::read_dir(old.dir.path().join("cache")).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap().replace(&digests.skill, "from the cache");
        std::fs::write(&path, text).unwrap();
        assert_eq!(old.digests(&skill).skill, "from the cache");
    }

    #[test]
    fn a_changed_file_a_new_one_and_a_removed_one_are_seen() {
        let old = Old::new();
        let mut before = old.digests(&old.load());
        let file = old.dir.path().join("x/b");
        for change in
            [|file: &Path| std::fs::write(file, "1"), |file: &Path| std::fs::write(file, "2"), |file: &Path| std::fs::remove_file(file)]
        {
            // A tick of the kernel's clock, so that the times differ.
            std::thread::sleep(Duration::from_millis(20));
            change(&file).unwrap();
            let skill = old.load();
            let after = old.digests(&skill);
            assert_eq!(after.skill, skill.digest().unwrap());
            assert_ne!(after, before);
            before = after;
        }
    }

    #[test]
    fn of_a_skill_that_was_just_written_nothing_is_kept() {
        let old = Old::new();
        let skill = Skill::load(&old.dir.path().join("x"), &Default::default()).unwrap();
        assert_eq!(old.digests(&skill).skill, skill.digest().unwrap());
        assert_eq!(old.kept(), 0);
    }

    #[test]
    fn a_broken_entry_is_replaced_and_a_cache_that_is_none_is_done_without() {
        let old = Old::new();
        let skill = old.load();
        let digests = old.digests(&skill);
        let path = std::fs::read_dir(old.dir.path().join("cache")).unwrap().next().unwrap().unwrap().path();
        std::fs::write(&path, "{").unwrap();
        assert_eq!(old.digests(&skill), digests);
        assert!(std::fs::read_to_string(&path).unwrap().contains(&digests.skill));
        assert_eq!(Digests::of(&skill, &old.dir.path().join("x/a.wasm")).unwrap(), digests);
    }
}
