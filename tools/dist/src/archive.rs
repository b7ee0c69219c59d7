//! Writes tar archives whose bytes depend only on their content.

use std::collections::BTreeSet;
use std::io::Write;

use tar::{Builder, EntryType, Header};

use crate::error::Error;
use crate::tree::{File, Tree};

/// A tar archive of files that belong to root and have the same time.
pub(crate) struct Archive<W: Write> {
    builder: Builder<W>,
    /// Seconds since 1970.
    time: u64,
    folders: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(to: W, time: u64) -> Archive<W> {
        Archive { builder: Builder::new(to), time, folders: BTreeSet::new() }
    }

    /// Adds the files of a tree below a folder, which ends with `/` unless it is empty.
    pub(crate) fn add_tree(&mut self, tree: &Tree, below: &str) -> Result<(), Error> {
        tree.files.iter().try_for_each(|file| self.add_file(file, &format!("{below}{}", file.path)))
    }

    /// Adds a file under a path, after the folders that lead there.
    pub(crate) fn add_file(&mut self, file: &File, path: &str) -> Result<(), Error> {
        let source = std::fs::File::open(&file.source).map_err(Error::at(file.source.display()))?;
        self.add_parents(path)?;
        let mut header = self.header(EntryType::Regular, file.mode(), file.size);
        self.builder
            .append_data(&mut header, path, source)
            .map_err(Error::at(file.source.display()))
    }

    /// Adds a file with this content.
    pub(crate) fn add_bytes(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<(), Error> {
        self.add_parents(path)?;
        let mut header = self.header(EntryType::Regular, mode, bytes.len() as u64);
        self.builder.append_data(&mut header, path, bytes).map_err(Error::at(path))
    }

    /// Adds a folder that belongs to a user and a group of this number.
    pub(crate) fn add_folder(&mut self, path: &str, mode: u32, owner: u64) -> Result<(), Error> {
        self.add_parents(path)?;
        let mut header = self.header(EntryType::Directory, mode, 0);
        header.set_uid(owner);
        header.set_gid(owner);
        self.folders.insert(path.to_owned());
        let name = format!("{path}/");
        self.builder.append_data(&mut header, name, std::io::empty()).map_err(Error::at(path))
    }

    pub(crate) fn finish(self) -> Result<W, Error> {
        self.builder.into_inner().map_err(Error::at("tar"))
    }

    fn add_parents(&mut self, path: &str) -> Result<(), Error> {
        for (at, _) in path.match_indices('/') {
            let folder = &path[..at];
            if folder.is_empty() || folder == "." || self.folders.contains(folder) {
                continue;
            }
            self.folders.insert(folder.to_owned());
            let mut header = self.header(EntryType::Directory, 0o755, 0);
            self.builder
                .append_data(&mut header, format!("{folder}/"), std::io::empty())
                .map_err(Error::at(folder))?;
        }
        Ok(())
    }

    fn header(&self, kind: EntryType, mode: u32, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        header.set_mtime(self.time);
        header.set_uid(0);
        header.set_gid(0);
        header
    }
}

/// Compresses as `gzip` does, without a name and a time.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut encoder = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(Error::at("gzip"))
}

/// Compresses with Zstandard at its highest level, which saves 1 MB and takes 1.5 times as long as
/// level 19. The window is large, because the compiled code of a runtime repeats the content of its
/// component; every decompressor accepts a window of 128 MiB.
pub(crate) fn zstd(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let compress = || {
        let mut encoder = zstd::Encoder::new(Vec::new(), 22)?;
        encoder.long_distance_matching(true)?;
        encoder.window_log(27)?;
        encoder.include_checksum(true)?;
        encoder.set_pledged_src_size(Some(bytes.len() as u64))?;
        encoder.write_all(bytes)?;
        encoder.finish()
    };
    compress().map_err(Error::at("zstd"))
}
