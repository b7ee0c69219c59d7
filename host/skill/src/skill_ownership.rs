//! Checks that no other user can change a skill: its files, the folders that contain it, and the
//! symlinks on its path.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::Skill;

/// The most symlinks on a path. The kernel follows as many.
const MAX_LINKS: usize = 40;
/// The write permissions of the group and of others.
const WRITE_OF_OTHERS: u32 = 0o022;
/// The sticky bit: in such a folder, others cannot remove or rename files that they do not own.
const STICKY: u32 = 0o1000;

impl Skill {
    /// Checks that only this user or root can change files in the skill's folder, or replace the
    /// folder.
    pub fn is_protected(&self) -> bool {
        let root = std::path::absolute(&self.root).unwrap_or_else(|_| self.root.clone());
        let mut below = self.files.iter().chain(&self.folders).map(|file| root.join(&file.path));
        is_protected(&root)
            && below.all(|path| {
                path.symlink_metadata()
                    .is_ok_and(|found| is_ours(&found) && (found.is_symlink() || is_closed(&found)))
            })
    }
}

/// Checks that only this user or root can change or replace a folder: by the owner and mode of the
/// folder, and of every folder and symlink on its path.
pub fn is_protected(folder: &Path) -> bool {
    let mut left: Vec<OsString> = parts(folder);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let Some(found) = next.symlink_metadata().ok().filter(is_ours) else { return false };
        if found.is_symlink() {
            links += 1;
            let Ok(target) = next.read_link() else { return false };
            if links > MAX_LINKS {
                return false;
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            left.extend(parts(&target));
        } else {
            // Others can add to a sticky folder, but cannot move what lies in it.
            let is_on_the_way = !left.is_empty() && found.mode() & STICKY != 0;
            if !is_closed(&found) && !is_on_the_way {
                return false;
            }
            at = next;
        }
    }
    at.is_dir()
}

/// Returns the names of a path, last first.
fn parts(path: &Path) -> Vec<OsString> {
    let names = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.rev().map(|part| AsRef::<OsStr>::as_ref(&part).to_owned()).collect()
}

fn is_ours(found: &Metadata) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&found.uid())
}

fn is_closed(found: &Metadata) -> bool {
    found.mode() & WRITE_OF_OTHERS == 0
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;
    use crate::SizeLimits;

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Creates a skill whose files and folders no other user can write to.
    fn skill(root: &Path) -> PathBuf {
        let skill = root.join("skills/one");
        std::fs::create_dir_all(skill.join("scripts")).unwrap();
        std::fs::write(skill.join("SKILL.md"), "---\nname: one\ndescription: Tests.\n---\n")
            .unwrap();
        std::fs::write(skill.join("scripts/a.sh"), "true\n").unwrap();
        for path in ["", "skills", "skills/one", "skills/one/scripts"] {
            chmod(&root.join(path), 0o755);
        }
        for path in ["SKILL.md", "scripts/a.sh"] {
            chmod(&skill.join(path), 0o644);
        }
        skill
    }

    #[test]
    fn skill_that_others_can_write_is_not_protected() {
        let root = tempfile::tempdir().unwrap();
        let folder = skill(root.path());
        let is_protected = || Skill::load(&folder, &SizeLimits::default()).unwrap().is_protected();
        assert!(is_protected(), "others cannot replace a folder in a sticky /tmp");
        for path in [
            "skills",
            "skills/one",
            "skills/one/scripts",
            "skills/one/SKILL.md",
            "skills/one/scripts/a.sh",
        ] {
            let path = root.path().join(path);
            let before = path.metadata().unwrap().mode();
            for bits in [0o020, 0o002] {
                chmod(&path, before | bits);
                assert!(!is_protected(), "{} with {:o}", path.display(), before | bits);
            }
            chmod(&path, before);
        }
        assert!(is_protected());
        // Others can add to a sticky folder. It may lead to a skill, but not be one.
        chmod(&folder, 0o1777);
        assert!(!is_protected());
        chmod(&folder, 0o755);
        chmod(&root.path().join("skills"), 0o1777);
        assert!(is_protected());
    }

    #[test]
    fn symlink_of_another_user_is_not_trusted() {
        let root = tempfile::tempdir().unwrap();
        let folder = skill(root.path());
        let link = root.path().join("link");
        symlink("skills", &link).unwrap();
        assert!(super::is_protected(&link.join("one")) && super::is_protected(&folder));
        // Only root can give things away.
        if rustix::process::geteuid().is_root() {
            rustix::fs::chownat(
                rustix::fs::CWD,
                &link,
                Some(rustix::fs::Uid::from_raw(65_534)),
                None,
                rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
            )
            .unwrap();
            assert!(!super::is_protected(&link.join("one")) && super::is_protected(&folder));
            chown(folder.join("scripts/a.sh"), Some(65_534), None).unwrap();
            assert!(!Skill::load(&folder, &SizeLimits::default()).unwrap().is_protected());
        }
        assert!(!super::is_protected(&root.path().join("nowhere")));
    }
}
