//! Opens the folders that guests will see, once, after the checks that protect the operator from
//! mistakes.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, Mode, ResolveFlags};
use rustix::io::Errno;

use super::beneath::FOLDER;
use super::guard::kernel_file_system;
use super::host_dir::HostDir;
use super::root::RandomSource;
use skillhost_policy::SITE_PACKAGES;
use skillhost_policy::capabilities::{Mount, MountMode};
use skillhost_policy::diagnostic;
use skillhost_policy::outcome::{Denial, DenialKind};

/// An open host folder, and the rules for it.
#[derive(Debug)]
pub struct OpenMount {
    /// Absolute guest path without a trailing slash.
    pub(super) guest: String,
    pub(super) host_dir: HostDir,
    pub(super) rules: Rules,
    pub(super) layer: Layer,
}

/// The rules for a mount.
#[derive(Debug)]
pub(super) enum Rules {
    /// `/skill`: read-only, without these paths, which a permission level blocks.
    Skill(BTreeSet<String>),
    /// `/tmp`: writable, and removed after the run.
    Scratch,
    /// `/`: read-only, and not accounted for.
    Root(RandomSource),
    /// Packages of a program: read-only except for denied paths, and not accounted for.
    Packages,
    /// `/state`: writable within its own quota, and kept for the next run.
    State(Size),
    /// The capabilities decide on each path.
    Granted(Mount),
}

/// The size of a folder's contents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) files: u64,
}

/// Where writes to a mount go.
#[derive(Debug)]
pub(super) enum Layer {
    ReadOnly,
    InPlace,
    /// To this folder; the mount's own folder is not changed.
    Overlay(HostDir),
}

/// Folders that need care: some are mounted only if the operator spells out their path, some are
/// out of the guests' reach under every name.
#[derive(Debug, Clone, Default)]
pub struct GuardedPaths {
    /// The operator's home folder; mounting it, or a folder above it, takes the exact path.
    pub home: Option<PathBuf>,
    /// skillhost's own state and cache folders; mounting one of them, or a folder above or below,
    /// takes the exact path.
    pub own: Vec<PathBuf>,
    /// Folders and files that guests can neither read nor write, under any name or mount.
    pub hidden: Vec<PathBuf>,
    /// Folders that skills run from: guests may read them but never write to them.
    pub read_only: Vec<PathBuf>,
}

impl OpenMount {
    /// Opens a granted folder by the path that the operator wrote; a relative path starts at the
    /// current folder.
    ///
    /// An overlay is read-only until [`OpenMount::with_upper`] says where its writes go.
    ///
    /// # Errors
    /// The folder is missing, not a folder, not the one that was granted, or refused: its path
    /// contains a symlink, or it is `/`, the home folder or one of skillhost's own folders. The
    /// operator lifts these last refusals by writing the folder's real absolute path, which the fix
    /// shows.
    pub fn open(mount: &Mount, guarded: &GuardedPaths) -> Result<OpenMount, Denial> {
        let deny = |rule: String, fix: Option<String>| Denial {
            what: format!("mount a folder at {}", mount.guest),
            rule,
            fix,
            kind: DenialKind::Mount,
        };
        let named = mount.spelling();
        let real = named.canonicalize().map_err(|e| {
            let create = (e.kind() == std::io::ErrorKind::NotFound)
                .then(|| format!("mkdir -p {}", quoted(named)));
            deny(format!("cannot open the folder {}: {e}", quoted(named)), create)
        })?;
        // Compares bytes, not `Path`s, which ignore a `.` component: `--workspace .` does not spell
        // out a folder.
        let spelled = named.as_os_str().as_bytes() == real.as_os_str().as_bytes();
        let by_name = || Some(spelling(mount, &real));
        if !spelled && let Some(rule) = guarded.rule_against(&real) {
            return Err(deny(rule, by_name()));
        }
        let root = open_without_symlinks(named).map_err(|e| match e {
            Errno::LOOP => {
                deny(format!("the path {} contains a symlink", quoted(named)), by_name())
            }
            Errno::NOTDIR => deny(format!("{} is not a folder", quoted(named)), None),
            e => deny(format!("cannot open the folder {}: {e}", quoted(named)), None),
        })?;
        if let Ok(Some(kind)) = kernel_file_system(&root) {
            return Err(deny(
                format!(
                    "{} is on `{kind}`, which exposes the kernel and its processes and cannot be mounted",
                    quoted(named)
                ),
                None,
            ));
        }
        if let Some(granted) = &mount.resolved {
            let found = fs::fstat(&root).map_err(|e| {
                deny(format!("cannot examine the folder {}: {e}", quoted(named)), None)
            })?;
            if (found.st_dev, found.st_ino) != (granted.device, granted.inode) {
                let rule =
                    format!("{} is no longer the folder that was granted", quoted(&mount.host));
                return Err(deny(rule, Some("run it again".into())));
            }
        }
        let layer = match mount.mode {
            MountMode::Read | MountMode::Overlay => Layer::ReadOnly,
            MountMode::Write => Layer::InPlace,
        };
        Ok(OpenMount {
            guest: mount.guest.clone(),
            host_dir: root.into(),
            rules: Rules::Granted(mount.clone()),
            layer,
        })
    }

    /// Directs the writes of an overlay mount to `upper`, an empty folder that belongs to the
    /// invocation. Does nothing to other mounts.
    #[must_use]
    pub fn with_upper(mut self, upper: impl Into<HostDir>) -> OpenMount {
        if matches!(&self.rules, Rules::Granted(mount) if mount.mode == MountMode::Overlay) {
            self.layer = Layer::Overlay(upper.into());
        }
        self
    }

    /// Mounts the skill's folder at `/skill`: read-only, whatever the capabilities say.
    pub fn skill(folder: impl Into<HostDir>) -> OpenMount {
        OpenMount {
            guest: "/skill".to_owned(),
            host_dir: folder.into(),
            rules: Rules::Skill(BTreeSet::new()),
            layer: Layer::ReadOnly,
        }
    }

    /// Hides files of the skill's folder.
    #[must_use]
    pub fn without_paths(mut self, paths: impl IntoIterator<Item = String>) -> OpenMount {
        if let Rules::Skill(hidden) = &mut self.rules {
            hidden.extend(paths);
        }
        self
    }

    /// Returns the guest path.
    pub fn guest(&self) -> &str {
        &self.guest
    }

    /// Mounts a folder of packages at `guest`: read-only, whatever else may be read. Read denials
    /// apply.
    pub fn packages(guest: String, folder: impl Into<HostDir>) -> OpenMount {
        OpenMount { guest, host_dir: folder.into(), rules: Rules::Packages, layer: Layer::ReadOnly }
    }

    /// Turns the mount into one of packages.
    #[must_use]
    pub fn into_packages(self) -> OpenMount {
        OpenMount::packages(self.guest, self.host_dir)
    }

    /// Mounts the skill's folder at another guest path.
    pub fn skill_at(guest: String, folder: impl Into<HostDir>) -> OpenMount {
        OpenMount { guest, ..OpenMount::skill(folder) }
    }

    /// Mounts the skill's state at `/state`: writable within the limit `state`, of which `bytes`
    /// and `files` are already in use.
    pub fn state(folder: impl Into<HostDir>, bytes: u64, files: u64) -> OpenMount {
        let rules = Rules::State(Size { bytes, files });
        OpenMount {
            guest: "/state".to_owned(),
            host_dir: folder.into(),
            rules,
            layer: Layer::InPlace,
        }
    }

    /// Mounts the scratch folder at `/tmp`: writable within the quota.
    pub fn scratch(folder: impl Into<HostDir>) -> OpenMount {
        OpenMount {
            guest: "/tmp".to_owned(),
            host_dir: folder.into(),
            rules: Rules::Scratch,
            layer: Layer::InPlace,
        }
    }
}

impl GuardedPaths {
    /// Returns why a real path needs to be spelled out.
    fn rule_against(&self, real: &Path) -> Option<String> {
        let real_of = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if real == Path::new("/") {
            return Some("the folder is `/`, which is the whole machine".to_owned());
        }
        if self.home.as_deref().is_some_and(|home| real_of(home).starts_with(real)) {
            return Some("the folder is or contains the home folder".to_owned());
        }
        let own = self
            .own
            .iter()
            .map(|own| real_of(own))
            .any(|own| own.starts_with(real) || real.starts_with(&own));
        own.then(|| "the folder contains or is inside skillhost's own state".to_owned())
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

/// The fallback for kernels without `openat2`.
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
                // `NOFOLLOW` with `DIRECTORY` reports a symlink as NOTDIR.
                Err(Errno::NOTDIR) if fs::readlinkat(&folder, name, Vec::new()).is_ok() => {
                    return Err(Errno::LOOP);
                }
                next => next?,
            };
    }
    Ok(folder)
}

/// Returns the flag or line that spells out a folder.
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

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    diagnostic::quoted(&path.to_string_lossy())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use super::*;

    fn open(host: &Path, guarded: &GuardedPaths) -> Result<OpenMount, Denial> {
        OpenMount::open(&Mount::new("/workspace", host, MountMode::Write), guarded)
    }

    /// Creates a temporary folder with `real/sub/` and a symlink `link` to `real`; returns its real
    /// path.
    fn folders() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(at.join("real/sub")).unwrap();
        std::os::unix::fs::symlink("real", at.join("link")).unwrap();
        (dir, at)
    }

    #[test]
    fn plain_folders_can_be_mounted() {
        let (_dir, at) = folders();
        assert!(open(&at.join("real"), &GuardedPaths::default()).is_ok());
        assert!(open(&at.join("real/../real/."), &GuardedPaths::default()).is_ok());
    }

    #[test]
    fn symlinks_are_refused_and_the_fix_has_the_real_path() {
        let (_dir, at) = folders();
        for path in ["link", "link/sub"] {
            let denial = open(&at.join(path), &GuardedPaths::default()).unwrap_err();
            assert!(denial.rule.contains("contains a symlink"), "{denial:?}");
            let real = at.join(path).canonicalize().unwrap();
            assert_eq!(denial.fix, Some(format!("--workspace {}", real.display())));
            assert!(open(&real, &GuardedPaths::default()).is_ok());
            assert_eq!(open_by_component(&at.join(path)).unwrap_err(), Errno::LOOP);
            assert!(open_by_component(&real).is_ok());
        }
    }

    #[test]
    fn root_must_be_spelled_out() {
        let denial = open(Path::new("/usr/.."), &GuardedPaths::default()).unwrap_err();
        assert!(denial.rule.contains("the whole machine"), "{denial:?}");
        assert_eq!(denial.fix.as_deref(), Some("--workspace /"));
        assert!(open(Path::new("/"), &GuardedPaths::default()).is_ok());
    }

    #[test]
    fn home_and_folders_above_it_must_be_spelled_out() {
        let (_dir, at) = folders();
        let guarded = GuardedPaths { home: Some(at.join("real")), ..GuardedPaths::default() };
        for path in ["real/.", "real/sub/..", "real/../."] {
            let denial = open(&at.join(path), &guarded).unwrap_err();
            assert!(denial.rule.contains("home folder"), "{path}: {denial:?}");
        }
        assert!(open(&at.join("real"), &guarded).is_ok());
        assert!(
            open(&at.join("real/sub/."), &guarded).is_ok(),
            "projects usually lie in the home folder"
        );
    }

    #[test]
    fn own_state_must_be_spelled_out() {
        let (_dir, at) = folders();
        let guarded = GuardedPaths { own: vec![at.join("real")], ..GuardedPaths::default() };
        for path in ["real/.", "real/sub/.", "real/../."] {
            let denial = open(&at.join(path), &guarded).unwrap_err();
            assert!(denial.rule.contains("own state"), "{path}: {denial:?}");
        }
        assert!(open(&at.join("real/sub"), &guarded).is_ok());
    }

    #[test]
    fn kernel_file_systems_are_never_mounted() {
        for path in ["/proc", "/proc/self", "/proc/sys", "/sys", "/sys/kernel"] {
            if !Path::new(path).is_dir()
                || fs::statfs(path).unwrap().f_type == fs::statfs("/").unwrap().f_type
            {
                continue;
            }
            let real = Path::new(path).canonicalize().unwrap();
            let denial = open(&real, &GuardedPaths::default()).unwrap_err();
            assert!(denial.rule.contains("exposes the kernel"), "{path}: {denial:?}");
        }
    }

    #[test]
    fn missing_folders_and_files_are_refused_with_the_reason() {
        let (_dir, at) = folders();
        let denial = open(&at.join("none"), &GuardedPaths::default()).unwrap_err();
        assert!(denial.rule.contains("cannot open"), "{denial:?}");
        assert!(denial.fix.unwrap().starts_with("mkdir -p "));
        std::fs::write(at.join("file"), "").unwrap();
        let denial = open(&at.join("file"), &GuardedPaths::default()).unwrap_err();
        assert!(denial.rule.contains("is not a folder"), "{denial:?}");
    }
}
