//! The content of `/`: a folder for each mount, so that listings show it, an empty file for each
//! device, one in `/usr/bin` for each command, for programs that check whether a command exists,
//! and the files of `/etc`, which describe the same machine to scripts in every language.
//!
//! Guests can only read it, and its content depends only on names. It is therefore created once and
//! kept in the host's cache.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;

use super::beneath;
use skillhost_skill::runtime::{digest, stamp};

/// The devices below `/dev`. Standard streams are not among them: they belong to one program, while
/// these belong to the invocation.
const DEVICES: [&str; 4] = ["null", "zero", "random", "urandom"];

/// The files below `/etc`. Python's modules have the same values: `guest/_skillhost/system.py`.
const MACHINE: [(&str, &str); 7] = [
    ("etc/group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n"),
    ("etc/hostname", "sandbox\n"),
    (
        "etc/hosts",
        "127.0.0.1\tlocalhost\n127.0.1.1\tsandbox\n::1\tlocalhost ip6-localhost ip6-loopback\n",
    ),
    ("etc/os-release", "PRETTY_NAME=\"skillhost sandbox\"\nNAME=\"skillhost\"\nID=skillhost\n"),
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/bash\n\
         user:x:1000:1000:user:/tmp:/bin/bash\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("etc/shells", "/bin/sh\n/bin/bash\n/usr/bin/sh\n/usr/bin/bash\n"),
    ("etc/timezone", "Etc/UTC\n"),
];

/// The folders and files of `/`, by path, parents first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skeleton {
    folders: Vec<String>,
    /// With their content.
    files: BTreeMap<String, &'static str>,
}

impl Skeleton {
    /// Describes `/` for mounts at these guest paths, with `commands` in `/usr/bin`.
    pub fn of<'a>(
        mounts: impl Iterator<Item = &'a str>,
        commands: impl Iterator<Item = &'a str>,
    ) -> Skeleton {
        let guests: Vec<&str> = mounts.map(|guest| guest.trim_start_matches('/')).collect();
        // A mount below another one is looked up there.
        let top = guests
            .iter()
            .filter(|guest| beneath::ancestors(guest).all(|above| !guests.contains(&above)))
            .copied();
        let mut folders: Vec<String> = top
            .chain(["dev", "etc", "usr/bin"])
            .flat_map(|path| beneath::ancestors(path).chain([path]))
            .map(str::to_owned)
            .collect();
        folders.sort();
        folders.dedup();
        let empty = DEVICES
            .iter()
            .map(|name| format!("dev/{name}"))
            .chain(commands.map(|name| format!("usr/bin/{name}")))
            .map(|path| (path, ""));
        let machine = MACHINE.iter().map(|(path, content)| ((*path).to_owned(), *content));
        // A mount takes precedence.
        let files =
            empty.chain(machine).filter(|(path, _)| folders.binary_search(path).is_err()).collect();
        Skeleton { folders, files }
    }

    /// Opens the folder in the host's `cache`, and creates it first if it is missing.
    ///
    /// # Errors
    /// The cache is unusable, or the host's error.
    pub fn open(&self, cache: &Path) -> Result<OwnedFd, Errno> {
        let cache = stamp::open_cache_folder(cache).map_err(|error| errno(&error))?;
        let name = format!("root-{}", &digest(self.text().as_bytes())["sha256:".len()..]);
        match open(cache.as_fd(), &name) {
            Err(Errno::NOENT) => {}
            done => return done,
        }
        let temporary = format!("{name}.{}.{:x}.tmp", std::process::id(), rand::random::<u64>());
        fs::mkdirat(&cache, &temporary, Mode::from_raw_mode(0o700))?;
        let created = self
            .fill(open(cache.as_fd(), &temporary)?.as_fd())
            .and_then(|()| fs::renameat(&cache, &temporary, &cache, &name));
        if created.is_err() {
            // Another process created it first, or the disk is full; the `open` below tells which.
            let _ = cache.remove_dir_all(&temporary);
        }
        open(cache.as_fd(), &name)
            .map_err(|error| created.err().filter(|_| error == Errno::NOENT).unwrap_or(error))
    }

    /// Creates all entries in an empty folder.
    pub(super) fn fill(&self, folder: BorrowedFd<'_>) -> Result<(), Errno> {
        for path in &self.folders {
            fs::mkdirat(folder, path, Mode::from_raw_mode(0o700))?;
        }
        for (path, content) in &self.files {
            let file = fs::openat(
                folder,
                path,
                OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC,
                Mode::from_raw_mode(0o600),
            )?;
            let mut rest = content.as_bytes();
            while !rest.is_empty() {
                let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, rest))?;
                rest = &rest[written..];
            }
        }
        Ok(())
    }

    /// Returns a text that identifies the content.
    fn text(&self) -> String {
        let files = self.files.iter().map(|(path, content)| format!("{path}\0{content}"));
        format!("{}\0\0{}", self.folders.join("\0"), files.collect::<Vec<_>>().join("\0"))
    }
}

fn open(cache: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    fs::openat(cache, name, beneath::FOLDER | OFlags::NOFOLLOW, Mode::empty())
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use super::*;

    fn skeleton(commands: &[&str]) -> Skeleton {
        Skeleton::of(
            ["/tmp", "/tmp/.claude/skills/x", "/skill"].into_iter(),
            commands.iter().copied(),
        )
    }

    #[test]
    fn skeleton_holds_outer_mounts_devices_and_commands() {
        let Skeleton { folders, files } = skeleton(&["sh", "sh"]);
        assert_eq!(folders, ["dev", "etc", "skill", "tmp", "usr", "usr/bin"]);
        let empty: Vec<_> = files.iter().filter(|(_, content)| content.is_empty()).collect();
        let empty: Vec<_> = empty.into_iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(empty, ["dev/null", "dev/random", "dev/urandom", "dev/zero", "usr/bin/sh"]);
        assert_eq!(files.len(), empty.len() + MACHINE.len());
    }

    #[test]
    fn mounts_take_precedence_over_files_of_the_machine() {
        let mounts = ["/etc/hosts", "/etc/app"];
        let Skeleton { folders, files } = Skeleton::of(mounts.into_iter(), [].into_iter());
        assert!(folders.contains(&"etc/hosts".into()) && folders.contains(&"etc/app".into()));
        assert!(!files.contains_key("etc/hosts") && files.contains_key("etc/passwd"));
    }

    #[test]
    fn each_skeleton_is_created_once_in_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache");
        let inode = |skeleton: &Skeleton| fs::fstat(skeleton.open(&cache).unwrap()).unwrap().st_ino;
        let (one, other) = (skeleton(&["sh"]), skeleton(&["sh", "jq"]));
        assert_eq!(inode(&one), inode(&one));
        assert_ne!(inode(&one), inode(&other));
        assert_eq!(
            fs::statat(other.open(&cache).unwrap(), "usr/bin/jq", fs::AtFlags::empty())
                .unwrap()
                .st_size,
            0
        );
        let passwd = one.open(&cache).unwrap();
        let passwd =
            std::io::read_to_string(beneath::read_file(passwd.as_fd(), "etc/passwd").unwrap())
                .unwrap();
        assert!(passwd.starts_with("root:x:0:0:"), "{passwd}");
        let names: Vec<_> =
            std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(
            names.len() == 2 && names.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")),
            "{names:?}"
        );
    }

    #[test]
    fn an_unusable_cache_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(skeleton(&[]).open(&dir.path().join("file")).unwrap_err(), Errno::NOTDIR);
    }
}
