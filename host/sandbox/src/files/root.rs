//! `/` and `/dev`: the folder that the mounts are in, read-only, and the devices that programs
//! expect.
//!
//! A real folder stands behind `/`, which `skeleton` makes. What a path below `/` leads into a
//! mount is looked up there; nothing is followed out of a mount into `/`.

use std::fmt;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::host_dir::HostDir;
use super::mount::{Layer, OpenMount, Rules};
use super::{Handle, Vfs, Want};

/// Fills a buffer with random bytes, within the invocation's budget.
#[derive(Clone)]
pub struct Chance(Arc<Fill>);

type Fill = dyn Fn(&mut [u8]) -> Result<(), Errno> + Send + Sync;

/// A device.
#[derive(Debug, Clone)]
pub(super) enum Device {
    /// At its end at once, and takes everything.
    Null,
    /// Zeros without end; takes everything.
    Zero,
    /// Random bytes without end; takes everything.
    Random(Chance),
}

impl OpenMount {
    /// `/`, behind which stands `ground`, filled by a [`Skeleton`](super::Skeleton).
    pub fn root(ground: impl Into<HostDir>, chance: Chance) -> OpenMount {
        OpenMount {
            guest: "/".to_owned(),
            ground: ground.into(),
            rules: Rules::Root(chance),
            layer: Layer::ReadOnly,
        }
    }
}

impl Vfs {
    /// Where a path from `/` goes on: the mount that it leads into, and the rest of it; for what is
    /// in no mount, `/` and its canonical path. `None` where `m` is not `/`.
    ///
    /// # Errors
    /// `PERM` for a path that climbs above `/`, as above any other folder that guests start from.
    pub(super) fn past_root(
        &self,
        m: usize,
        base: &str,
        path: &str,
    ) -> Result<Option<(usize, String)>, Errno> {
        if !matches!(self.mounts[m].rules, Rules::Root(_)) {
            return Ok(None);
        }
        let mut names: Vec<&str> = Vec::new();
        for name in base.split('/').chain(path.split('/')) {
            match name {
                "" | "." => {}
                ".." => drop(names.pop().ok_or(Errno::PERM)?),
                name => names.push(name),
            }
        }
        let path = names.join("/");
        let rest = |guest: &str| {
            let rest = path.strip_prefix(guest.trim_start_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/'))
                .then(|| rest.trim_start_matches('/').to_owned())
        };
        let inner = self.mounts.iter().enumerate().filter(|(other, _)| *other != m);
        let nearest = inner
            .filter_map(|(other, mount)| Some((other, mount.guest.len(), rest(&mount.guest)?)))
            .max_by_key(|found| found.1);
        Ok(Some(nearest.map_or((m, path.clone()), |(other, _, rest)| (other, rest))))
    }

    /// The device at a canonical path.
    pub(super) fn device(&self, m: usize, rel: &str) -> Option<Device> {
        let Rules::Root(chance) = &self.mounts[m].rules else { return None };
        match rel.strip_prefix("dev/")? {
            "null" => Some(Device::Null),
            "zero" => Some(Device::Zero),
            "random" | "urandom" => Some(Device::Random(chance.clone())),
            _ => None,
        }
    }

    /// What guests are told that a thing is.
    pub(super) fn shown_kind(&self, m: usize, rel: &str, kind: FileType) -> FileType {
        if self.device(m, rel).is_some() { FileType::CharacterDevice } else { kind }
    }

    /// The start of the file at an absolute guest path, at most that many bytes; `None` where there
    /// is none that the guest may read.
    pub fn head(&self, path: &str, bytes: usize) -> Option<Vec<u8>> {
        let mut head = vec![0; bytes];
        let count = self.at(path, Want::default())?.file().ok()?.read_at(&mut head, 0).ok()?;
        head.truncate(count);
        Some(head)
    }

    /// The file at an absolute guest path, and where that leads over links; `None` where there is
    /// none that the guest may read, or it has more bytes than `most`.
    pub fn content(&self, path: &str, most: u64) -> Option<(String, Vec<u8>)> {
        let opened = self.at(path, Want::default())?;
        let file = opened.file().ok()?;
        let size = u64::try_from(rustix::fs::fstat(&file.fd).ok()?.st_size)
            .ok()
            .filter(|size| *size <= most)?;
        let mut content = vec![0; usize::try_from(size).ok()?];
        let count = file.read_at(&mut content, 0).ok()?;
        content.truncate(count);
        Some((self.mounts[file.mount].guest_path(&file.rel), content))
    }

    /// The names in the folder at an absolute guest path, as far as the guest may list it.
    pub fn names(&self, path: &str) -> Option<Vec<String>> {
        let folder = self.at(path, Want { directory: true, ..Want::default() })?;
        Some(self.read_dir(&folder).ok()?.map(|(name, _)| name).collect())
    }

    fn at(&self, path: &str, want: Want) -> Option<Handle> {
        let m = self.mounts.iter().position(|mount| matches!(mount.rules, Rules::Root(_)))?;
        let root = self.folder(m, "").ok()?;
        self.open_at(&root, path.trim_start_matches('/'), Want { follow: true, read: true, ..want })
            .ok()
    }
}

impl Device {
    /// Reads: as many bytes as were read.
    pub(super) fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Device::Null => return Ok(0),
            Device::Zero => buffer.fill(0),
            Device::Random(Chance(fill)) => fill(buffer)?,
        }
        Ok(buffer.len())
    }
}

impl Chance {
    /// From what fills a buffer.
    pub fn new(fill: impl Fn(&mut [u8]) -> Result<(), Errno> + Send + Sync + 'static) -> Chance {
        Chance(Arc::new(fill))
    }
}

impl fmt::Debug for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chance")
    }
}
