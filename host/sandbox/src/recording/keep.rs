//! Taking in the files of a run as they are read for the first time: what they held before the run
//! could change them.

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

/// What of files an invocation keeps, or has in place of their content.
#[derive(Debug)]
pub enum Contents {
    /// What is read goes into a recording.
    Kept(Keep),
    /// Files of a recording that were not read, and so are empty space of their size: their
    /// digests.
    StandIns(Mutex<HashMap<Key, String>>),
}

/// Where the files of a run are kept, by their digest.
#[derive(Debug)]
pub struct Keep {
    blobs: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: HashSet<Key>,
    /// The digests of what is there.
    kept: HashSet<String>,
    failed: Option<io::Error>,
}

impl Contents {
    /// A file is about to be read, or changed in a part.
    ///
    /// # Errors
    /// Its content is not here.
    pub fn touch(&self, file: BorrowedFd<'_>, key: Key) -> io::Result<()> {
        match self {
            Contents::Kept(keep) => {
                keep.once(file, key);
                Ok(())
            }
            Contents::StandIns(stand_ins) => match lock(stand_ins).contains_key(&key) {
                true => Err(io::Error::other("the recorded run did not read it")),
                false => Ok(()),
            },
        }
    }

    /// A file is cut, or a name of it is gone: what comes after is not what was there.
    pub fn forget(&self, key: Key) {
        if let Contents::StandIns(stand_ins) = self {
            lock(stand_ins).remove(&key);
        }
    }

    /// The digest of what a file stands in for.
    pub fn stands_for(&self, key: Key) -> Option<String> {
        if let Contents::StandIns(stand_ins) = self {
            lock(stand_ins).get(&key).cloned()
        } else {
            None
        }
    }

    /// Where files are kept.
    pub fn keep(&self) -> Option<&Keep> {
        if let Contents::Kept(keep) = self { Some(keep) } else { None }
    }
}

impl Keep {
    /// Keeps files in a folder that is there.
    pub fn new(blobs: &Path) -> Keep {
        Keep { blobs: blobs.to_owned(), state: Mutex::default() }
    }

    /// Keeps a file now, and gives its digest.
    ///
    /// # Errors
    /// It cannot be read, or its copy not be written.
    pub fn file(&self, file: BorrowedFd<'_>) -> io::Result<String> {
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
        self.state().kept.insert(digest.clone());
        Ok(digest)
    }

    /// Keeps bytes.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn bytes(&self, bytes: &[u8]) -> io::Result<String> {
        let digest = skillhost_skill::runtime::digest(bytes);
        if self.state().kept.insert(digest.clone()) {
            let mut copy = tempfile::NamedTempFile::new_in(&self.blobs)?;
            copy.write_all(bytes)?;
            copy.persist(self.blobs.join(digest.trim_start_matches("sha256:")))
                .map_err(|error| error.error)?;
        }
        Ok(digest)
    }

    /// Whether bytes of that digest are kept.
    pub fn has(&self, digest: &str) -> bool {
        self.state().kept.contains(digest)
    }

    /// What is kept, read again.
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

    /// What was kept.
    pub fn all(&self) -> Vec<String> {
        self.state().kept.iter().cloned().collect()
    }

    /// Removes what is kept under a digest.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, digest: &str) -> io::Result<()> {
        self.state().kept.remove(digest);
        std::fs::remove_file(self.blobs.join(digest.trim_start_matches("sha256:")))
    }

    /// The first file that could not be kept, if there was one.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> io::Result<()> {
        self.state().failed.take().map_or(Ok(()), Err)
    }

    /// Keeps a file the first time that it is read.
    fn once(&self, file: BorrowedFd<'_>, key: Key) {
        if self.state().taken.insert(key)
            && let Err(error) = self.file(file)
        {
            // The guest goes on: its result is not lost for the want of a recording.
            self.state().failed.get_or_insert(error);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
