//! `/` and `/dev`: a read-only folder that contains the mounts, and the devices that programs
//! expect.
//!
//! The content of `/` is a real folder, which `skeleton` creates. Paths below `/` that lead into a
//! mount are looked up in that mount. Only a symlink that a guest created leads out of a mount.

use std::fmt;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::host_dir::HostDir;
use super::mount::{Layer, OpenMount, Rules};
use super::{Handle, OpenOptions, Vfs};

/// Fills buffers with random bytes, within the invocation's budget.
#[derive(Clone)]
pub struct RandomSource(Arc<Fill>);

type Fill = dyn Fn(&mut [u8]) -> Result<(), Errno> + Send + Sync;

/// A device.
#[derive(Debug, Clone)]
pub(super) enum Device {
    /// Reads as empty; accepts all writes.
    Null,
    /// Reads as endless zeros; accepts all writes.
    Zero,
    /// Reads as endless random bytes; accepts all writes.
    Random(RandomSource),
}

impl OpenMount {
    /// Mounts `/`, with the content of `host_dir`, which a [`Skeleton`](super::Skeleton) fills.
    pub fn root(host_dir: impl Into<HostDir>, random: RandomSource) -> OpenMount {
        OpenMount {
            guest: "/".to_owned(),
            host_dir: host_dir.into(),
            rules: Rules::Root(random),
            layer: Layer::ReadOnly,
        }
    }
}

impl Vfs {
    /// Resolves a path without `..` from `/`: returns the mount that it leads into and the rest of
    /// the path, or `/` itself and the canonical path. Returns `None` if `m` is not `/`.
    pub(super) fn resolve_from_root(
        &self,
        m: usize,
        base: &str,
        path: &str,
    ) -> Option<(usize, String)> {
        if !matches!(self.mounts[m].rules, Rules::Root(_)) {
            return None;
        }
        let names = base.split('/').chain(path.split('/'));
        let names: Vec<&str> = names.filter(|name| !matches!(*name, "" | ".")).collect();
        self.nearest_mount(&names.join("/"))
    }

    /// Returns the innermost mount that holds a canonical guest path, and the rest of the path.
    /// `path` has no slash at its start.
    pub(super) fn nearest_mount(&self, path: &str) -> Option<(usize, String)> {
        let rest = |guest: &str| {
            let rest = path.strip_prefix(guest.trim_start_matches('/'))?;
            (guest == "/" || rest.is_empty() || rest.starts_with('/'))
                .then(|| rest.trim_start_matches('/').to_owned())
        };
        let mounts = self.mounts.iter().enumerate();
        mounts
            .filter_map(|(m, mount)| Some((m, mount.guest.len(), rest(&mount.guest)?)))
            .max_by_key(|found| found.1)
            .map(|(m, _, rest)| (m, rest))
    }

    /// Returns the device at a canonical path.
    pub(super) fn device(&self, m: usize, rel: &str) -> Option<Device> {
        let Rules::Root(random) = &self.mounts[m].rules else { return None };
        match rel.strip_prefix("dev/")? {
            "null" => Some(Device::Null),
            "zero" => Some(Device::Zero),
            "random" | "urandom" => Some(Device::Random(random.clone())),
            _ => None,
        }
    }

    /// Returns the file type that guests see.
    pub(super) fn guest_kind(&self, m: usize, rel: &str, kind: FileType) -> FileType {
        if self.device(m, rel).is_some() { FileType::CharacterDevice } else { kind }
    }

    /// Reads up to `bytes` bytes from the start of the file at an absolute guest path; returns
    /// `None` if the guest cannot read it.
    pub fn head(&self, path: &str, bytes: usize) -> Option<Vec<u8>> {
        let mut head = vec![0; bytes];
        let count =
            self.at(path, OpenOptions::default())?.file().ok()?.read_at(&mut head, 0).ok()?;
        head.truncate(count);
        Some(head)
    }

    /// Reads the file at an absolute guest path, and returns its path after following symlinks, and
    /// its content. Returns `None` if the guest cannot read it, or it is larger than `max` bytes.
    pub fn content(&self, path: &str, max: u64) -> Option<(String, Vec<u8>)> {
        let opened = self.at(path, OpenOptions::default())?;
        let file = opened.file().ok()?;
        let size = u64::try_from(rustix::fs::fstat(&file.fd).ok()?.st_size)
            .ok()
            .filter(|size| *size <= max)?;
        let mut content = vec![0; usize::try_from(size).ok()?];
        let count = file.read_at(&mut content, 0).ok()?;
        content.truncate(count);
        Some((self.mounts[file.mount].guest_path(&file.rel), content))
    }

    /// Returns the names in the folder at an absolute guest path, as far as the guest may list it.
    pub fn names(&self, path: &str) -> Option<Vec<String>> {
        let folder = self.at(path, OpenOptions { directory: true, ..OpenOptions::default() })?;
        Some(self.read_dir(&folder).ok()?.map(|(name, _)| name).collect())
    }

    fn at(&self, path: &str, options: OpenOptions) -> Option<Handle> {
        let m = self.mounts.iter().position(|mount| matches!(mount.rules, Rules::Root(_)))?;
        let root = self.folder(m, "").ok()?;
        self.open_at(
            &root,
            path.trim_start_matches('/'),
            OpenOptions { follow: true, read: true, ..options },
        )
        .ok()
    }
}

impl Device {
    /// Reads into `buffer`; returns the number of bytes.
    pub(super) fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Device::Null => return Ok(0),
            Device::Zero => buffer.fill(0),
            Device::Random(RandomSource(fill)) => fill(buffer)?,
        }
        Ok(buffer.len())
    }
}

impl RandomSource {
    /// Creates a source from a function that fills a buffer.
    pub fn new(
        fill: impl Fn(&mut [u8]) -> Result<(), Errno> + Send + Sync + 'static,
    ) -> RandomSource {
        RandomSource(Arc::new(fill))
    }
}

impl fmt::Debug for RandomSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RandomSource")
    }
}
