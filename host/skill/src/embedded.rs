//! Skills that are part of a program. The macro `include_skill!` embeds their files when the program
//! is compiled, and the host writes them to memory when it starts: guests see files.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{AtFlags, Timespec, Timestamps};

use crate::private::{Purpose, TempFolder};

/// The modification time of all files, in seconds since 1970: the first of 1980, the earliest time
/// that a ZIP archive can have. The times at which the program was compiled differ.
const MODIFIED: i64 = 315_532_800;

/// A skill that is part of the program: what the macro `include_skill!` returns.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedSkill {
    name: &'static str,
    files: &'static [(&'static str, EmbeddedContent)],
    code: &'static [EmbeddedCode],
}

/// The content of an embedded file.
#[derive(Debug, Clone, Copy)]
pub enum EmbeddedContent {
    /// The bytes of a file.
    File(&'static [u8]),
    /// The target of a symlink, which is known to be inside the skill.
    Link(&'static str),
}

/// The compiled code of a component, which is part of the program.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedCode {
    component: &'static str,
    code: &'static [u8],
}

impl EmbeddedSkill {
    /// Creates a skill from its files. For the macro `include_skill!`, which has checked it.
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        files: &'static [(&'static str, EmbeddedContent)],
        code: &'static [EmbeddedCode],
    ) -> EmbeddedSkill {
        EmbeddedSkill { name, files, code }
    }

    /// Returns the name of the skill: that of its folder.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the compiled code of its components.
    #[doc(hidden)]
    pub const fn code(&self) -> &'static [EmbeddedCode] {
        self.code
    }

    fn write(&self, to: &Dir) -> io::Result<()> {
        let mut private = DirBuilder::new();
        private.mode(0o700);
        to.create_dir_with(self.name, &private)?;
        let root = to.open_dir(self.name)?;
        let mut folders = BTreeSet::new();
        for (path, content) in self.files {
            let path = Path::new(path);
            let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
            above.retain(|folder| !folder.as_os_str().is_empty());
            for folder in above.into_iter().rev().filter(|folder| folders.insert(*folder)) {
                root.create_dir_with(folder, &private)?;
            }
            match content {
                EmbeddedContent::Link(target) => rustix::fs::symlinkat(*target, &root, path)?,
                EmbeddedContent::File(bytes) => {
                    let mut options = OpenOptions::new();
                    let mut file =
                        root.open_with(path, options.write(true).create_new(true).mode(0o400))?;
                    file.write_all(bytes)?;
                    rustix::fs::futimens(&file, &times())?;
                }
            }
        }
        // Set the folders' times last, because creating files changes them.
        for folder in folders.into_iter().rev() {
            rustix::fs::utimensat(&root, folder, &times(), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        // `root` is open as a path only.
        Ok(rustix::fs::utimensat(to, self.name, &times(), AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

impl EmbeddedCode {
    /// Names the code of a component, by the component's digest.
    ///
    /// # Safety
    /// `skillhost-build` has written the code, for the component with this digest. A program that
    /// loads any other code executes it.
    #[doc(hidden)]
    #[expect(unsafe_code, reason = "who creates this value vouches for native code")]
    pub const unsafe fn new(component: &'static str, code: &'static [u8]) -> EmbeddedCode {
        EmbeddedCode { component, code }
    }

    /// Returns the digest of the component.
    pub fn component(&self) -> &'static str {
        self.component
    }

    /// Returns the code.
    pub fn code(&self) -> &'static [u8] {
        self.code
    }
}

/// Returns the path of a component's code in the folder that a build script writes to.
pub fn code_file(component: &str) -> String {
    format!("skillhost/{}.cwasm", component.strip_prefix("sha256:").unwrap_or(component))
}

/// The folder of a host's embedded skills. Removed when this value is dropped.
#[derive(Debug)]
pub struct EmbeddedSkills {
    folder: TempFolder,
}

impl EmbeddedSkills {
    /// Writes skills to a private folder in `within`, each to a folder with its name.
    ///
    /// # Errors
    /// Two have the same name, or the file system fails.
    pub fn write(skills: &[EmbeddedSkill], within: &Path) -> io::Result<EmbeddedSkills> {
        let folder = TempFolder::new_in(within, Purpose::Embedded)?;
        let dir = Dir::from_std_file(folder.as_fd().try_clone_to_owned()?.into());
        for skill in skills {
            skill.write(&dir)?;
        }
        Ok(EmbeddedSkills { folder })
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Checks whether a path leads to one of the skills. Nothing else is in the folder, which only
    /// this host writes.
    pub fn has(&self, skill: &Path) -> bool {
        skill.parent() == Some(self.folder())
    }
}

fn times() -> Timestamps {
    let time = Timespec { tv_sec: MODIFIED, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read what was written")]
mod tests {
    use super::*;
    use crate::{SizeLimits, Skill};

    const FILES: &[(&str, EmbeddedContent)] = &[
        ("SKILL.md", EmbeddedContent::File(b"---\nname: one\ndescription: Tests.\n---\n")),
        ("link", EmbeddedContent::Link("scripts/deep/a.sh")),
        ("scripts/deep/a.sh", EmbeddedContent::File(b"echo a\n")),
    ];

    fn one() -> EmbeddedSkill {
        EmbeddedSkill::new("one", FILES, &[])
    }

    #[test]
    fn embedded_skill_has_the_same_files_and_times_everywhere() {
        let within = tempfile::tempdir().unwrap();
        let digests = [(); 2].map(|()| {
            let skills = EmbeddedSkills::write(&[one()], within.path()).unwrap();
            let folder = skills.folder().join("one");
            assert!(skills.has(&folder) && !skills.has(&folder.join("scripts")));
            for path in ["", "SKILL.md", "scripts", "scripts/deep", "scripts/deep/a.sh"] {
                let modified = folder.join(path).metadata().unwrap().modified().unwrap();
                let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
                assert_eq!(since.as_secs(), MODIFIED.cast_unsigned(), "{path}");
            }
            assert_eq!(std::fs::read(folder.join("link")).unwrap(), b"echo a\n");
            Skill::load(&folder, &SizeLimits::default()).unwrap().digest().unwrap()
        });
        assert_eq!(digests[0], digests[1]);
        assert_eq!(std::fs::read_dir(within.path()).unwrap().count(), 0, "they are removed");
    }

    #[test]
    fn skills_of_one_name_and_paths_that_lead_out_are_refused() {
        let within = tempfile::tempdir().unwrap();
        assert!(EmbeddedSkills::write(&[one(), one()], within.path()).is_err());
        const OUTSIDE: &[(&str, EmbeddedContent)] = &[("../x", EmbeddedContent::File(b""))];
        for skill in [EmbeddedSkill::new("two", OUTSIDE, &[]), EmbeddedSkill::new("../y", &[], &[])]
        {
            assert!(EmbeddedSkills::write(&[skill], within.path()).is_err(), "{skill:?}");
        }
        assert_eq!(std::fs::read_dir(within.path()).unwrap().count(), 0);
    }
}
