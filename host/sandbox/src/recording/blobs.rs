//! Stores the files of a run when they are first read: their content before the run could change
//! it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use skillhost_skill::runtime::hex;

/// Device and inode.
pub type Key = (u64, u64);

/// What happens to file contents in a recorded or replayed run.
#[derive(Debug)]
pub enum Contents {
    /// Stores what is read in a recording.
    Record(BlobStore),
    /// Refuses files that the recorded run did not read. They are empty space of the original size;
    /// this maps them to the original digests.
    Replay(Mutex<HashMap<Key, String>>),
}

/// Stores the files of a run, by digest.
#[derive(Debug)]
pub struct BlobStore {
    blobs: PathBuf,
    state: Mutex<StoreState>,
}

#[derive(Debug, Default)]
struct StoreState {
    seen: HashSet<Key>,
    /// The digests of the stored files.
    stored: HashSet<String>,
    failed: Option<io::Error>,
}

impl Contents {
    /// Notes that a file is about to be read or partly changed.
    ///
    /// # Errors
    /// Its content was not recorded.
    pub fn touch(&self, file: BorrowedFd<'_>, key: Key) -> io::Result<()> {
        match self {
            Contents::Record(blobs) => {
                blobs.store_once(file, key);
                Ok(())
            }
            Contents::Replay(digests) => match lock(digests).contains_key(&key) {
                true => Err(io::Error::other("the recorded run did not read this file")),
                false => Ok(()),
            },
        }
    }

    /// Notes that a file was truncated or removed, so that a placeholder no longer applies.
    pub fn forget(&self, key: Key) {
        if let Contents::Replay(digests) = self {
            lock(digests).remove(&key);
        }
    }

    /// Returns the digest of the recorded file that a placeholder replaces.
    pub fn recorded_digest(&self, key: Key) -> Option<String> {
        if let Contents::Replay(digests) = self { lock(digests).get(&key).cloned() } else { None }
    }

    /// Returns the store of a run that is recorded.
    pub fn blobs(&self) -> Option<&BlobStore> {
        if let Contents::Record(blobs) = self { Some(blobs) } else { None }
    }
}

impl BlobStore {
    /// Stores files in an existing folder.
    pub fn new(blobs: &Path) -> BlobStore {
        BlobStore { blobs: blobs.to_owned(), state: Mutex::default() }
    }

    /// Stores a file, and returns its digest.
    ///
    /// # Errors
    /// The file cannot be read, or the copy cannot be written.
    pub fn store_file(&self, file: BorrowedFd<'_>) -> io::Result<String> {
        let file = File::from(file.as_fd().try_clone_to_owned()?);
        let mut hash = Sha256::new();
        let mut copy = tempfile::NamedTempFile::new_in(&self.blobs)?;
        let (mut buffer, mut at) = (vec![0; 1 << 16], 0);
        loop {
            let count = match file.read_at(&mut buffer, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count?,
            };
            if count == 0 {
                break;
            }
            hash.update(&buffer[..count]);
            copy.write_all(&buffer[..count])?;
            at += count as u64;
        }
        let name = hex(&hash.finalize());
        copy.persist(self.blobs.join(&name)).map_err(|error| error.error)?;
        let digest = format!("sha256:{name}");
        self.state().stored.insert(digest.clone());
        Ok(digest)
    }

    /// Stores bytes, and returns their digest.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn store_bytes(&self, bytes: &[u8]) -> io::Result<String> {
        let digest = skillhost_skill::runtime::digest(bytes);
        if self.state().stored.insert(digest.clone()) {
            let mut copy = tempfile::NamedTempFile::new_in(&self.blobs)?;
            copy.write_all(bytes)?;
            copy.persist(self.blobs.join(digest.trim_start_matches("sha256:")))
                .map_err(|error| error.error)?;
        }
        Ok(digest)
    }

    /// Checks whether content with this digest is stored.
    pub fn contains(&self, digest: &str) -> bool {
        self.state().stored.contains(digest)
    }

    /// Reads stored content.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, digest: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        #[expect(
            clippy::disallowed_methods,
            reason = "a file of the recording that is being made"
        )]
        File::open(self.blobs.join(digest.trim_start_matches("sha256:")))?
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns the digests of all stored content.
    pub fn digests(&self) -> Vec<String> {
        self.state().stored.iter().cloned().collect()
    }

    /// Removes stored content.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, digest: &str) -> io::Result<()> {
        self.state().stored.remove(digest);
        std::fs::remove_file(self.blobs.join(digest.trim_start_matches("sha256:")))
    }

    /// Returns the error of the first file that could not be stored, if there was one.
    ///
    /// # Errors
    /// That error.
    pub fn check(&self) -> io::Result<()> {
        self.state().failed.take().map_or(Ok(()), Err)
    }

    /// Stores a file when it is first read.
    fn store_once(&self, file: BorrowedFd<'_>, key: Key) {
        if self.state().seen.insert(key)
            && let Err(error) = self.store_file(file)
        {
            // The guest continues: a failed recording must not cost it its result.
            self.state().failed.get_or_insert(error);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, StoreState> {
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
