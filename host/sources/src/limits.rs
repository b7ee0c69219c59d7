//! The most that one transfer may hold.

use skillhost_skill::SizeLimits;

/// The limits of what is fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferLimits {
    /// Bytes that are transferred, and bytes that are unpacked from them.
    pub bytes: u64,
    /// Files, folders and symlinks in one transfer.
    pub entries: u64,
    /// How many times larger than the archive its content may be. Up to [`SMALL`] bytes, an archive
    /// may expand further.
    pub expansion: u64,
    /// The limits of one skill: those of the loader.
    pub skill: SizeLimits,
}

/// An archive may always expand to this many bytes. The end of an archive and short texts compress
/// very well, and this little harms nobody.
pub const SMALL: u64 = 64 << 10;

/// The most folders on a path. The deepest path of a public skill has 9.
pub const DEPTH: usize = 64;

/// The longest path in bytes. `PATH_MAX` of Linux is 4096, and the store's own path comes first.
pub const PATH: usize = 1024;

/// The longest name in bytes: `NAME_MAX` of Linux.
pub const NAME: usize = 255;

impl Default for TransferLimits {
    /// 256 MiB, 100,000 entries, an expansion of 200, and the loader's limits for a skill. The
    /// largest public repository of skills takes 60 MB and 9,000 files.
    fn default() -> Self {
        TransferLimits {
            bytes: 256 << 20,
            entries: 100_000,
            expansion: 200,
            skill: SizeLimits::default(),
        }
    }
}

impl TransferLimits {
    /// Returns the most bytes that may be unpacked from an archive of this size.
    pub fn unpacked(&self, archive: u64) -> u64 {
        archive.saturating_mul(self.expansion).max(SMALL).min(self.bytes)
    }
}
