//! A folder with a guest in it, for tests of the file layer.
#![expect(clippy::disallowed_methods, reason = "tests set up and read real folders")]

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Mode;

use super::*;
use skillhost_policy::capabilities::{Mount, MountMode, Scope};
use skillhost_policy::limits::Limits;
use skillhost_policy::pattern::PathGlob;

/// A guest that sees `/skill`, `/tmp`, `/workspace` and `/`.
pub(super) struct Guest {
    pub(super) vfs: Arc<Vfs>,
    dir: tempfile::TempDir,
}

/// The grant of a guest.
pub(super) struct Grant<'a> {
    pub(super) mode: MountMode,
    pub(super) read: &'a [&'a str],
    pub(super) write: &'a [&'a str],
    pub(super) deny_read: &'a [&'a str],
    pub(super) deny_write: &'a [&'a str],
    /// Where the workspace lies below the folder that the rules refer to.
    pub(super) rules_at: &'a str,
    /// Whether symlinks may be created in the workspace.
    pub(super) symlinks: bool,
    pub(super) guest_links: bool,
    /// Paths in the workspace that belong to the host.
    pub(super) hidden: &'a [&'a str],
    /// Paths in the workspace that skills run from.
    pub(super) read_only: &'a [&'a str],
    pub(super) limits: Limits,
    pub(super) times: Option<Times>,
}

impl Default for Grant<'_> {
    /// Grants the whole workspace, with writes in place.
    fn default() -> Self {
        let all = &["/workspace/**"];
        Grant {
            mode: MountMode::Write,
            read: all,
            write: all,
            deny_read: &[],
            deny_write: &[],
            rules_at: "",
            symlinks: false,
            guest_links: false,
            hidden: &[],
            read_only: &[],
            limits: Limits::default(),
            times: None,
        }
    }
}

impl Grant<'_> {
    /// Fills the workspace with `contents`, and creates a guest for it.
    pub(super) fn guest(self, contents: impl FnOnce(&Path)) -> Guest {
        let dir = folder_in_memory();
        for folder in ["workspace", "skill", "tmp", "upper"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        std::fs::write(dir.path().join("outside"), "secret").unwrap();
        std::fs::write(dir.path().join("skill/SKILL.md"), "skill").unwrap();
        contents(&dir.path().join("workspace"));
        let real = dir.path().canonicalize().unwrap();
        let mount = Mount {
            rules_at: self.rules_at.to_owned(),
            symlinks: self.symlinks,
            guest_links: self.guest_links,
            ..Mount::new("/workspace", real.join("workspace"), self.mode)
        };
        let globs =
            |list: &[&str]| list.iter().map(|g| PathGlob::new(g).unwrap()).collect::<Vec<_>>();
        let rules = PathRules {
            read: Scope {
                all_of: vec![globs(self.read)],
                none_of: globs(self.deny_read),
                ..Scope::empty()
            },
            write: Scope {
                all_of: vec![globs(self.write)],
                none_of: globs(self.deny_write),
                ..Scope::empty()
            },
        };
        let workspace = OpenMount::open(&mount, &GuardedPaths::default())
            .unwrap()
            .with_upper(folder(&real.join("upper")));
        let mut mounts = vec![
            OpenMount::skill(folder(&real.join("skill"))),
            OpenMount::scratch(folder(&real.join("tmp"))),
            workspace,
        ];
        let place = |path: &&str| real.join("workspace").join(path);
        let guarded = GuardedPaths {
            hidden: self.hidden.iter().map(&place).collect(),
            read_only: self.read_only.iter().map(place).collect(),
            ..GuardedPaths::default()
        };
        let random = RandomSource::new(|buffer| {
            buffer.fill(7);
            if buffer.len() > 1_000 { Err(Errno::IO) } else { Ok(()) }
        });
        let skeleton = Skeleton::of(mounts.iter().map(OpenMount::guest), ["python3"].into_iter());
        mounts.push(OpenMount::root(skeleton.open(&real.join("root")).unwrap(), random));
        Guest { vfs: Vfs::new(mounts, rules, &self.limits, &guarded, self.times, None), dir }
    }
}

/// Creates a temporary folder, in memory if possible: tests create thousands of files.
pub(super) fn folder_in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Writes a file into a folder.
pub(super) fn fill(at: &Path, rel: &str, text: &str) {
    let path = at.join(rel);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn folder(path: &Path) -> OwnedFd {
    rustix::fs::open(path, beneath::FOLDER, Mode::empty()).unwrap()
}

pub(super) const READ: OpenOptions = OpenOptions {
    follow: true,
    create: false,
    directory: false,
    exclusive: false,
    truncate: false,
    read: true,
    write: false,
};
pub(super) const WRITE: OpenOptions =
    OpenOptions { create: true, truncate: true, write: true, read: false, ..READ };
pub(super) const UPDATE: OpenOptions = OpenOptions { write: true, ..READ };
pub(super) const CREATE_NEW: OpenOptions =
    OpenOptions { create: true, exclusive: true, write: true, ..READ };
pub(super) const FOLDER: OpenOptions = OpenOptions { directory: true, ..READ };

/// Operations by absolute guest path, as a libc performs them.
impl Guest {
    pub(super) fn host(&self, rel: &str) -> PathBuf {
        self.dir.path().join("workspace").join(rel)
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Splits a guest path into its preopen and the rest.
    pub(super) fn at<'p>(&self, path: &'p str) -> (Handle, &'p str) {
        for (handle, guest) in self.vfs.preopens().unwrap() {
            let prefix = guest.trim_end_matches('/');
            if let Some(rest) = path
                .strip_prefix(prefix)
                .and_then(|r| if r.is_empty() { Some(".") } else { r.strip_prefix('/') })
            {
                return (handle, if rest.is_empty() { "." } else { rest });
            }
        }
        panic!("no preopen for {path}")
    }

    /// `/`.
    pub(super) fn root(&self) -> Handle {
        self.vfs.preopens().unwrap().into_iter().find(|(_, guest)| guest == "/").unwrap().0
    }

    pub(super) fn open(&self, path: &str, options: OpenOptions) -> Result<Handle, Errno> {
        let (base, rest) = self.at(path);
        self.vfs.open_at(&base, rest, options)
    }

    pub(super) fn file(&self, path: &str, options: OpenOptions) -> Result<Arc<OpenFile>, Errno> {
        self.open(path, options)?.file().cloned()
    }

    pub(super) fn read(&self, path: &str) -> Result<String, Errno> {
        let file = self.file(path, READ)?;
        let mut bytes = Vec::new();
        loop {
            let mut buffer = [0; 7];
            match file.read_at(&mut buffer, bytes.len() as u64)? {
                0 => return Ok(String::from_utf8(bytes).unwrap()),
                n => bytes.extend_from_slice(&buffer[..n]),
            }
        }
    }

    pub(super) fn write(&self, path: &str, text: &str) -> Result<(), Errno> {
        self.write_with(path, WRITE, text)
    }

    pub(super) fn append(&self, path: &str, text: &str) -> Result<(), Errno> {
        self.write_with(path, OpenOptions { truncate: false, ..WRITE }, text)
    }

    fn write_with(&self, path: &str, options: OpenOptions, text: &str) -> Result<(), Errno> {
        let file = self.file(path, options)?;
        let mut bytes = text.as_bytes();
        while !bytes.is_empty() {
            let n = file.write_at(bytes, None)?;
            bytes = &bytes[n..];
        }
        Ok(())
    }

    pub(super) fn list(&self, path: &str) -> Result<Vec<String>, Errno> {
        let handle = self.open(path, FOLDER)?;
        Ok(self.vfs.read_dir(&handle)?.map(|(name, _)| name).collect())
    }

    pub(super) fn stat(&self, path: &str) -> Result<Metadata, Errno> {
        let (base, rest) = self.at(path);
        self.vfs.stat_at(&base, rest, true)
    }

    pub(super) fn mkdir(&self, path: &str) -> Result<(), Errno> {
        let (base, rest) = self.at(path);
        self.vfs.create_dir(&base, rest)
    }

    pub(super) fn unlink(&self, path: &str) -> Result<(), Errno> {
        let (base, rest) = self.at(path);
        self.vfs.remove_file(&base, rest)
    }

    pub(super) fn symlink(&self, target: &str, path: &str) -> Result<(), Errno> {
        let (base, rest) = self.at(path);
        self.vfs.create_symlink(&base, rest, target)
    }

    pub(super) fn read_link(&self, path: &str) -> Result<String, Errno> {
        let (base, rest) = self.at(path);
        self.vfs.read_link(&base, rest)
    }

    pub(super) fn rmdir(&self, path: &str) -> Result<(), Errno> {
        let (base, rest) = self.at(path);
        self.vfs.remove_dir(&base, rest)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        let ((a, from), (b, to)) = (self.at(from), self.at(to));
        self.vfs.rename(&a, from, &b, to)
    }

    /// Returns the denials, one line each.
    pub(super) fn denials(&self) -> Vec<String> {
        let line = |d: Denial| {
            format!(
                "{}: {}{}",
                d.what,
                d.rule,
                d.fix.map(|f| format!(" [{f}]")).unwrap_or_default()
            )
        };
        self.vfs.denials().into_iter().map(line).collect()
    }
}
