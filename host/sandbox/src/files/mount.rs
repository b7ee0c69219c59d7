//! Opening the folders that guests will see: once, as handles, after the checks that protect the
//! operator from a slip.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, Mode, ResolveFlags};
use rustix::io::Errno;

use super::beneath::FOLDER;
use super::guard::kernel_file_system;
use super::host_dir::HostDir;
use super::root::Chance;
use skillhost_policy::SITE_PACKAGES;
use skillhost_policy::capabilities::{Mount, MountMode};
use skillhost_policy::outcome::{Denial, DenialKind};

/// A host folder, opened, and what guests may do in it.
#[derive(Debug)]
pub struct OpenMount {
    /// Absolute guest path without a trailing slash.
    pub(super) guest: String,
    pub(super) ground: HostDir,
    pub(super) rules: Rules,
    pub(super) layer: Layer,
}

/// Which rules hold in a mount.
#[derive(Debug)]
pub(super) enum Rules {
    /// `/skill`: everything may be read, but for these paths, which a level denies.
    Skill(BTreeSet<String>),
    /// `/tmp`: everything may be written, and it is gone afterwards.
    Scratch,
    /// `/`: read, and of nobody's account.
    Root(Chance),
    /// Packages of a program: read, but for what is denied, and of nobody's account.
    Packages,
    /// `/state`: everything may be written within a quota of its own, and it is there in the next
    /// run.
    State(Size),
    /// The capabilities decide on each path.
    Granted(Mount),
}

/// How much a folder holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) files: u64,
}

/// Where writes go.
#[derive(Debug)]
pub(super) enum Layer {
    ReadOnly,
    InPlace,
    /// Into this folder; the mount's own stays as it was.
    Overlay(HostDir),
}

/// Folders that are mounted only when the operator spells them out.
#[derive(Debug, Clone, Default)]
pub struct Guarded {
    /// The user's home folder: it, and what contains it.
    pub home: Option<PathBuf>,
    /// skillhost's own state and cache folders: they, what contains them, and what lies in them.
    pub own: Vec<PathBuf>,
    /// Folders and files that guests neither read nor write, under whatever name or mount they
    /// appear.
    pub hidden: Vec<PathBuf>,
    /// Folders that skills run from: guests may read them, and never write them.
    pub read_only: Vec<PathBuf>,
}

impl OpenMount {
    /// Opens a granted folder. The text that the operator wrote counts; a relative one is meant
    /// from the current folder.
    ///
    /// An overlay is read-only until [`OpenMount::over`] says where its writes go.
    ///
    /// # Errors
    /// A folder that is missing, is no folder, is another one than was granted, or is refused: a
    /// path with a symlink in it, `/`, the home folder, skillhost's own folders. Spelling the
    /// folder by its real absolute path is asking for it by name, and lifts the last four; the fix
    /// shows that spelling.
    pub fn open(mount: &Mount, guarded: &Guarded) -> Result<OpenMount, Denial> {
        let refuse = |rule: String, fix: Option<String>| Denial {
            what: format!("mount a folder at {}", mount.guest),
            rule,
            fix,
            kind: DenialKind::Mount,
        };
        let named = mount.spelling();
        let real = named.canonicalize().map_err(|e| {
            let make = (e.kind() == std::io::ErrorKind::NotFound)
                .then(|| format!("mkdir -p {}", quoted(named)));
            refuse(format!("the folder {} cannot be opened: {e}", quoted(named)), make)
        })?;
        // Bytes, not `Path`s: those are equal where only a `.` differs, and `--workspace .` names
        // nothing.
        let spelled = named.as_os_str().as_bytes() == real.as_os_str().as_bytes();
        let by_name = || Some(spelling(mount, &real));
        if !spelled && let Some(rule) = guarded.rule_against(&real) {
            return Err(refuse(rule, by_name()));
        }
        let root = open_without_symlinks(named).map_err(|e| match e {
            Errno::LOOP => {
                refuse(format!("a symlink is part of the path {}", quoted(named)), by_name())
            }
            Errno::NOTDIR => refuse(format!("{} is not a folder", quoted(named)), None),
            e => refuse(format!("the folder {} cannot be opened: {e}", quoted(named)), None),
        })?;
        if let Ok(Some(kind)) = kernel_file_system(&root) {
            return Err(refuse(
                format!(
                    "{} is in `{kind}`, a view of the kernel and its processes, which is never mounted",
                    quoted(named)
                ),
                None,
            ));
        }
        if let Some(granted) = &mount.resolved {
            let found = fs::fstat(&root).map_err(|e| {
                refuse(format!("the folder {} cannot be looked at: {e}", quoted(named)), None)
            })?;
            if (found.st_dev, found.st_ino) != (granted.device, granted.inode) {
                let rule =
                    format!("{} is not the folder any more that was granted", quoted(&mount.host));
                return Err(refuse(rule, Some("run it again".into())));
            }
        }
        let layer = match mount.mode {
            MountMode::Read | MountMode::Overlay => Layer::ReadOnly,
            MountMode::Write => Layer::InPlace,
        };
        Ok(OpenMount {
            guest: mount.guest.clone(),
            ground: root.into(),
            rules: Rules::Granted(mount.clone()),
            layer,
        })
    }

    /// Sends the writes of an overlay mount to `upper`, an empty folder of the invocation's own.
    /// Other mounts stay as they are.
    #[must_use]
    pub fn over(mut self, upper: impl Into<HostDir>) -> OpenMount {
        if matches!(&self.rules, Rules::Granted(mount) if mount.mode == MountMode::Overlay) {
            self.layer = Layer::Overlay(upper.into());
        }
        self
    }

    /// The skill's own folder, at `/skill`: read-only, whatever the capabilities say.
    pub fn skill(folder: impl Into<HostDir>) -> OpenMount {
        OpenMount {
            guest: "/skill".to_owned(),
            ground: folder.into(),
            rules: Rules::Skill(BTreeSet::new()),
            layer: Layer::ReadOnly,
        }
    }

    /// The same mount of the skill without these files.
    #[must_use]
    pub fn hiding(mut self, paths: impl IntoIterator<Item = String>) -> OpenMount {
        if let Rules::Skill(hidden) = &mut self.rules {
            hidden.extend(paths);
        }
        self
    }

    /// Its path, as guests know it.
    pub fn guest(&self) -> &str {
        &self.guest
    }

    /// A folder of packages, at `guest`: read-only, whatever may be read elsewhere; what may not be
    /// read is denied here too.
    pub fn packages(guest: String, folder: impl Into<HostDir>) -> OpenMount {
        OpenMount { guest, ground: folder.into(), rules: Rules::Packages, layer: Layer::ReadOnly }
    }

    /// The same folder as one of packages.
    #[must_use]
    pub fn as_packages(self) -> OpenMount {
        OpenMount::packages(self.guest, self.ground)
    }

    /// The skill's own folder under another name.
    pub fn skill_at(guest: String, folder: impl Into<HostDir>) -> OpenMount {
        OpenMount { guest, ..OpenMount::skill(folder) }
    }

    /// What the skill keeps, at `/state`: writable, within the limit `state`, of which so much is
    /// taken already.
    pub fn state(folder: impl Into<HostDir>, bytes: u64, files: u64) -> OpenMount {
        let rules = Rules::State(Size { bytes, files });
        OpenMount {
            guest: "/state".to_owned(),
            ground: folder.into(),
            rules,
            layer: Layer::InPlace,
        }
    }

    /// The scratch folder, at `/tmp`: writable, within the quota.
    pub fn scratch(folder: impl Into<HostDir>) -> OpenMount {
        OpenMount {
            guest: "/tmp".to_owned(),
            ground: folder.into(),
            rules: Rules::Scratch,
            layer: Layer::InPlace,
        }
    }
}

impl Guarded {
    /// Why a real path is not mounted by accident.
    fn rule_against(&self, real: &Path) -> Option<String> {
        let real_of = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if real == Path::new("/") {
            return Some("the folder is `/`, the whole machine".to_owned());
        }
        if self.home.as_deref().is_some_and(|home| real_of(home).starts_with(real)) {
            return Some("the folder is the home folder, or contains it".to_owned());
        }
        let own = self
            .own
            .iter()
            .map(|own| real_of(own))
            .any(|own| own.starts_with(real) || real.starts_with(&own));
        own.then(|| "the folder contains, or lies in, skillhost's own state".to_owned())
    }
}

pub(super) fn open_without_symlinks(path: &Path) -> Result<OwnedFd, Errno> {
    match fs::openat2(
        fs::CWD,
        path,
        FOLDER,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    ) {
        Err(Errno::NOSYS | Errno::PERM) => open_by_component(path),
        done => done,
    }
}

/// The same where the kernel has no `openat2`.
fn open_by_component(path: &Path) -> Result<OwnedFd, Errno> {
    let start = if path.is_absolute() { "/" } else { "." };
    let mut folder = fs::open(start, FOLDER, Mode::empty())?;
    for component in path.components() {
        let name = match component {
            std::path::Component::Normal(name) => name,
            std::path::Component::ParentDir => std::ffi::OsStr::new(".."),
            _ => continue,
        };
        folder =
            match fs::openat(&folder, name, FOLDER | rustix::fs::OFlags::NOFOLLOW, Mode::empty()) {
                // `NOFOLLOW` with `DIRECTORY` says NOTDIR of a symlink.
                Err(Errno::NOTDIR) if fs::readlinkat(&folder, name, Vec::new()).is_ok() => {
                    return Err(Errno::LOOP);
                }
                next => next?,
            };
    }
    Ok(folder)
}

/// The line that names a folder explicitly.
fn spelling(mount: &Mount, real: &Path) -> String {
    if mount.guest == "/workspace" {
        let mode = match mount.mode {
            MountMode::Read => ":ro",
            MountMode::Write => "",
            MountMode::Overlay => ":overlay",
        };
        format!("--workspace {}{mode}", quoted(real))
    } else if mount.guest.starts_with(SITE_PACKAGES) {
        format!("--site-packages {}", quoted(real))
    } else {
        format!("`host: {}` for the mount {} in the policy", quoted(real), mount.guest)
    }
}

/// A path as one can type it, control characters made visible.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let simple = |c: char| c.is_alphanumeric() || "/._-+@%,=".contains(c);
    if !text.is_empty() && text.chars().all(simple) {
        text.into_owned()
    } else {
        format!("{text:?}")
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use super::*;

    fn open(host: &Path, guarded: &Guarded) -> Result<OpenMount, Denial> {
        OpenMount::open(&Mount::new("/workspace", host, MountMode::Write), guarded)
    }

    /// A temporary folder by its real path, with `real/` in it, and `link` to that.
    fn folders() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(at.join("real/sub")).unwrap();
        std::os::unix::fs::symlink("real", at.join("link")).unwrap();
        (dir, at)
    }

    #[test]
    fn a_plain_folder_is_mounted() {
        let (_dir, at) = folders();
        assert!(open(&at.join("real"), &Guarded::default()).is_ok());
        assert!(open(&at.join("real/../real/."), &Guarded::default()).is_ok());
    }

    #[test]
    fn a_path_with_a_symlink_is_refused_and_the_fix_spells_the_real_one() {
        let (_dir, at) = folders();
        for path in ["link", "link/sub"] {
            let denial = open(&at.join(path), &Guarded::default()).unwrap_err();
            assert!(denial.rule.contains("a symlink is part of"), "{denial:?}");
            let real = at.join(path).canonicalize().unwrap();
            assert_eq!(denial.fix, Some(format!("--workspace {}", real.display())));
            assert!(open(&real, &Guarded::default()).is_ok());
            assert_eq!(open_by_component(&at.join(path)).unwrap_err(), Errno::LOOP);
            assert!(open_by_component(&real).is_ok());
        }
    }

    #[test]
    fn the_root_is_mounted_only_when_spelled_out() {
        let denial = open(Path::new("/usr/.."), &Guarded::default()).unwrap_err();
        assert!(denial.rule.contains("the whole machine"), "{denial:?}");
        assert_eq!(denial.fix.as_deref(), Some("--workspace /"));
        assert!(open(Path::new("/"), &Guarded::default()).is_ok());
    }

    #[test]
    fn the_home_folder_and_what_contains_it_are_mounted_only_when_spelled_out() {
        let (_dir, at) = folders();
        let guarded = Guarded { home: Some(at.join("real")), ..Guarded::default() };
        for path in ["real/.", "real/sub/..", "real/../."] {
            let denial = open(&at.join(path), &guarded).unwrap_err();
            assert!(denial.rule.contains("home folder"), "{path}: {denial:?}");
        }
        assert!(open(&at.join("real"), &guarded).is_ok());
        assert!(
            open(&at.join("real/sub/."), &guarded).is_ok(),
            "a project in the home folder is what people mount"
        );
    }

    #[test]
    fn own_state_is_mounted_only_when_spelled_out() {
        let (_dir, at) = folders();
        let guarded = Guarded { own: vec![at.join("real")], ..Guarded::default() };
        for path in ["real/.", "real/sub/.", "real/../."] {
            let denial = open(&at.join(path), &guarded).unwrap_err();
            assert!(denial.rule.contains("own state"), "{path}: {denial:?}");
        }
        assert!(open(&at.join("real/sub"), &guarded).is_ok());
    }

    #[test]
    fn file_systems_of_the_kernel_are_never_mounted() {
        for path in ["/proc", "/proc/self", "/proc/sys", "/sys", "/sys/kernel"] {
            if !Path::new(path).is_dir()
                || fs::statfs(path).unwrap().f_type == fs::statfs("/").unwrap().f_type
            {
                continue;
            }
            let real = Path::new(path).canonicalize().unwrap();
            let denial = open(&real, &Guarded::default()).unwrap_err();
            assert!(denial.rule.contains("a view of the kernel"), "{path}: {denial:?}");
        }
    }

    #[test]
    fn a_missing_folder_and_a_file_are_refused_with_what_is_wrong() {
        let (_dir, at) = folders();
        let denial = open(&at.join("none"), &Guarded::default()).unwrap_err();
        assert!(denial.rule.contains("cannot be opened"), "{denial:?}");
        assert!(denial.fix.unwrap().starts_with("mkdir -p "));
        std::fs::write(at.join("file"), "").unwrap();
        let denial = open(&at.join("file"), &Guarded::default()).unwrap_err();
        assert!(denial.rule.contains("is not a folder"), "{denial:?}");
    }
}
