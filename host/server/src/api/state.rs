//! The state of one tenant on disk: a database, blobs, the output of runs, and skills, in a folder
//! that no other tenant's requests can name. Whatever stores runs elsewhere replaces this type.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::fs::{Dir, File, OpenOptions};
use rustix::fs::FlockOperation;
use sha2::{Digest as _, Sha256};

use super::fleet::{Fetched, INLINE};
use skillhost_ledger::runs::{RunStore, Swept};
use skillhost_policy::diagnostic::printable;
use skillhost_sandbox::Spool;
use skillhost_skill::private;
use skillhost_skill::runtime::hex;

/// The folders of a tenant.
const BLOBS: &str = "blobs";
const OUTPUTS: &str = "outputs";
const SKILLS: &str = "skills";

/// The state of a tenant.
pub(super) struct TenantState {
    pub(super) folder: PathBuf,
    pub(super) store: RunStore,
    blobs: Dir,
    /// The output of runs that the store does not have: what is too large for it.
    outputs: Arc<Dir>,
    /// The output of runs in progress: standard output and error.
    live: Mutex<BTreeMap<String, [Arc<Spool>; 2]>>,
    skills: Dir,
    /// Held while a blob or a skill and its row appear or disappear together.
    changes: Mutex<()>,
    /// Locked while a server uses the folder, so that no command deletes it meanwhile.
    _lock: std::os::fd::OwnedFd,
}

/// A stream of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamName {
    Stdout,
    Stderr,
}

impl StreamName {
    pub(super) const ALL: [StreamName; 2] = [StreamName::Stdout, StreamName::Stderr];

    pub(super) fn name(self) -> &'static str {
        match self {
            StreamName::Stdout => "stdout",
            StreamName::Stderr => "stderr",
        }
    }
}

/// What came of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finished {
    Stored,
    /// Its content has another digest than declared.
    OtherDigest,
    /// The tenant would store more than its quota.
    Full,
}

/// A blob that is being uploaded. It is removed unless it is finished.
pub(super) struct Upload<'a> {
    state: &'a TenantState,
    name: String,
    file: File,
    hash: Sha256,
    pub(super) bytes: u64,
    is_finished: bool,
}

impl TenantState {
    /// Opens the state of a tenant, and creates it if it is missing.
    ///
    /// # Errors
    /// Another server uses it, or the file system fails.
    pub(super) fn open(folder: &Path) -> io::Result<TenantState> {
        let lock = private::open_or_create(folder)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            let message = format!("another server uses {}: {error}", folder.display());
            io::Error::new(io::ErrorKind::ResourceBusy, message)
        })?;
        let open = |name: &str| -> io::Result<Dir> {
            Ok(Dir::from_std_file(private::open_or_create(&folder.join(name))?.into()))
        };
        let state = TenantState {
            blobs: open(BLOBS)?,
            outputs: Arc::new(open(OUTPUTS)?),
            live: Mutex::default(),
            skills: open(SKILLS)?,
            changes: Mutex::default(),
            store: RunStore::open(&folder.join("runs.db")).map_err(io::Error::other)?,
            folder: folder.to_owned(),
            _lock: lock,
        };
        state.remove_unfinished()?;
        state.remove_orphans()?;
        state.remove_unknown()?;
        Ok(state)
    }

    /// Starts the upload of a blob.
    pub(super) fn upload(&self) -> io::Result<Upload<'_>> {
        let name = format!("{PARTIAL}{:032x}", rand::random::<u128>());
        let file = self.blobs.open_with(&name, OpenOptions::new().write(true).create_new(true))?;
        Ok(Upload { state: self, name, file, hash: Sha256::new(), bytes: 0, is_finished: false })
    }

    /// Stores a blob, and returns its digest; `None` if more than `storage` bytes would be stored.
    pub(super) fn put_blob(
        &self,
        bytes: &[u8],
        storage: u64,
        now: i64,
    ) -> io::Result<Option<String>> {
        let mut upload = self.upload()?;
        upload.write(bytes)?;
        let digest = upload.digest();
        let finished = upload.finish(&digest, storage, now)?;
        Ok((finished == Finished::Stored).then_some(digest))
    }

    /// Opens a blob.
    pub(super) fn blob(&self, digest: &str) -> io::Result<File> {
        self.blobs.open(hex_of(digest).ok_or(io::ErrorKind::NotFound)?)
    }

    /// Makes the streams of a run that begins: standard output and error. What a run prints is in
    /// memory until it is too much for the store.
    pub(super) fn create_output(&self, run: &str) -> [Arc<Spool>; 2] {
        let spools = StreamName::ALL.map(|stream| {
            let (outputs, name) = (self.outputs.clone(), format!("{run}.{}", stream.name()));
            Arc::new(Spool::new(INLINE, move || {
                let options = &mut OpenOptions::new();
                options.read(true).write(true).create(true).truncate(true);
                Ok(outputs.open_with(&name, options)?.into_std())
            }))
        });
        self.live().insert(run.to_owned(), spools.clone());
        spools
    }

    /// Returns the streams of a run in progress, which can be read as long as they are held.
    pub(super) fn live_output(&self, run: &str) -> Option<[Arc<Spool>; 2]> {
        self.live().get(run).cloned()
    }

    /// Returns what a run has written to a stream so far.
    ///
    /// # Errors
    /// `NotFound`: it has not begun.
    pub(super) fn output(&self, run: &str, stream: StreamName) -> io::Result<Fetched> {
        let small = match self.live_output(run) {
            Some(spools) => spools[stream as usize].memory(),
            None => {
                let mut streams = self.store.streams(run).map_err(io::Error::other)?;
                streams[stream as usize].take()
            }
        };
        match small {
            Some(bytes) => Ok(Fetched::Bytes(bytes)),
            // Not the descriptor of the writer, whose position readers would move.
            None => {
                let file = self.outputs.open(format!("{run}.{}", stream.name()))?;
                Ok(Fetched::File(file.into_std()))
            }
        }
    }

    /// Returns the bytes that a run has written to its streams.
    pub(super) fn output_bytes(&self, run: &str) -> u64 {
        StreamName::ALL
            .into_iter()
            .filter_map(|stream| self.output(run, stream).ok()?.size().ok())
            .sum()
    }

    /// Returns the streams of a run that the store is to keep: those that are not in files.
    pub(super) fn small_output(&self, run: &str) -> [Option<Vec<u8>>; 2] {
        let spools = self.live_output(run);
        spools.map_or([None, None], |spools| spools.map(|spool| spool.memory()))
    }

    /// Forgets the streams of a run, whose output is now in the store or in files.
    pub(super) fn close_output(&self, run: &str) {
        self.live().remove(run);
    }

    /// Moves the output of a program that the store does not know to files.
    pub(super) fn keep_output_in_files(&self, run: &str) {
        let Some(spools) = self.live_output(run) else { return };
        match spools.iter().try_for_each(|spool| spool.spill()) {
            Ok(()) => self.close_output(run),
            // It stays in memory, from where it is read.
            Err(error) => tracing::warn!(run, %error, "cannot store the output of a program"),
        }
    }

    /// Returns the folder of an uploaded skill.
    pub(super) fn skill_folder(&self, digest: &str, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(SKILLS).join(hex_of(digest)?).join(name))
    }

    /// Stores a skill, whose private folder is moved to where uploaded skills are. Returns `false`, and
    /// stores nothing, if more than `storage` bytes would be stored with it.
    pub(super) fn put_skill(
        &self,
        from: &Path,
        (digest, name): (&str, &str),
        (bytes, storage): (u64, u64),
    ) -> io::Result<bool> {
        let is_stored = {
            let _changes = self.lock_changes();
            self.keep_skill(from, digest, name)?;
            self.store.put_skill(digest, name, bytes, storage, now()).map_err(io::Error::other)?
        };
        if !is_stored {
            self.remove(&Swept { skills: vec![digest.to_owned()], ..Swept::default() });
        }
        Ok(is_stored)
    }

    /// Moves the folder of a skill. Keeps the one that is there, since it has the same content.
    fn keep_skill(&self, from: &Path, digest: &str, name: &str) -> io::Result<()> {
        let hex = hex_of(digest).ok_or(io::ErrorKind::InvalidInput)?;
        if self.skills.symlink_metadata(Path::new(hex).join(name)).is_ok() {
            return Ok(());
        }
        // The same content under another name.
        match private::remove(&self.skills, hex) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::rename(from, self.folder.join(SKILLS).join(hex))
    }

    /// Removes the files of what was removed from the database.
    pub(super) fn remove(&self, swept: &Swept) {
        let gone = |result: io::Result<()>| match result {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "cannot remove an expired file of the run API");
            }
            _ => {}
        };
        for run in &swept.runs {
            self.close_output(run);
            for stream in StreamName::ALL {
                gone(self.outputs.remove_file(format!("{run}.{}", stream.name())));
            }
        }
        for digest in &swept.blobs {
            let Some(hex) = hex_of(digest) else { continue };
            let _changes = self.lock_changes();
            // It may have been uploaded again meanwhile.
            if let Ok(false) = self.store.has_blob(digest) {
                gone(self.blobs.remove_file(hex));
            }
        }
        for digest in &swept.skills {
            let Some(hex) = hex_of(digest) else { continue };
            let _changes = self.lock_changes();
            // A run may have fetched it again meanwhile.
            if let Ok(false) = self.store.has_skill(digest) {
                gone(private::remove(&self.skills, hex));
            }
        }
    }

    fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<String, [Arc<Spool>; 2]>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the output of programs of sessions, which a server that was killed has left: it belongs
    /// to no run.
    fn remove_orphans(&self) -> io::Result<()> {
        for entry in self.outputs.entries()? {
            let name = entry?.file_name();
            let run = name.to_str().and_then(|name| name.split('.').next()).unwrap_or_default();
            if self.store.get(run).map_err(io::Error::other)?.is_none() {
                self.outputs.remove_file(&name)?;
            }
        }
        Ok(())
    }

    /// Removes blobs and skills that the database does not know, which a server that was killed has left: they
    /// would count towards no quota, and never expire.
    fn remove_unknown(&self) -> io::Result<()> {
        let digest = |name: &std::ffi::OsStr| name.to_str().map(|hex| format!("sha256:{hex}"));
        for entry in self.blobs.entries()? {
            let name = entry?.file_name();
            if let Some(digest) = digest(&name)
                && !self.store.has_blob(&digest).map_err(io::Error::other)?
            {
                self.blobs.remove_file(&name)?;
            }
        }
        for entry in self.skills.entries()? {
            let name = entry?.file_name();
            if let (Some(digest), Some(hex)) = (digest(&name), name.to_str())
                && !self.store.has_skill(&digest).map_err(io::Error::other)?
            {
                private::remove(&self.skills, hex)?;
            }
        }
        Ok(())
    }

    /// Removes what a server that was killed had not finished uploading.
    fn remove_unfinished(&self) -> io::Result<()> {
        for entry in self.blobs.entries()? {
            let name = entry?.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(PARTIAL)) {
                self.blobs.remove_file(name)?;
            }
        }
        Ok(())
    }
}

/// The start of the names of unfinished uploads. No digest has it.
const PARTIAL: &str = "partial-";

impl Upload<'_> {
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn digest(&self) -> String {
        format!("sha256:{}", hex(&self.hash.clone().finalize()))
    }

    /// Opens what was written.
    pub(super) fn reopen(&self) -> io::Result<std::fs::File> {
        Ok(self.state.blobs.open(&self.name)?.into_std())
    }

    /// Stores the blob, if it has this digest and no more than `storage` bytes are then stored.
    pub(super) fn finish(mut self, digest: &str, storage: u64, now: i64) -> io::Result<Finished> {
        let Some(hex) = hex_of(digest).filter(|_| self.digest() == digest) else {
            return Ok(Finished::OtherDigest);
        };
        let TenantState { blobs, store, .. } = self.state;
        let _changes = self.state.lock_changes();
        blobs.rename(&self.name, blobs, hex)?;
        self.is_finished = true;
        if store.put_blob(digest, self.bytes, storage, now).map_err(io::Error::other)? {
            return Ok(Finished::Stored);
        }
        // It was not there before, so nothing else needs the file.
        blobs.remove_file(hex)?;
        Ok(Finished::Full)
    }
}

impl io::Write for Upload<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Upload::write(self, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        if !self.is_finished
            && let Err(error) = self.state.blobs.remove_file(&self.name)
        {
            tracing::warn!(%error, "cannot remove an unfinished upload");
        }
    }
}

/// Returns the id of a new run or session. Ids sort as they were created: a list needs no index, and an index of
/// a database changes at its end and, when runs expire, at its beginning, rather than in a page for each run.
pub(super) fn new_id() -> String {
    format!("{:012x}{:020x}", now(), rand::random::<u128>() >> 48)
}

/// Returns the hex digits of a digest; `None` if it is not `sha256:` and 64 lower-case hex digits.
pub(super) fn hex_of(digest: &str) -> Option<&str> {
    let hex = digest.strip_prefix("sha256:")?;
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (hex.len() == 64 && hex.bytes().all(is_hex)).then_some(hex)
}

/// Checks whether a path is one below a folder: no `..`, no `.`, nothing absolute, not too deep.
pub(super) fn is_inside(path: &str) -> bool {
    const MOST: usize = 1024;
    const DEPTH: usize = 64;
    /// `NAME_MAX` of Linux.
    const NAME: usize = 255;
    path.len() <= MOST
        && path.split('/').count() <= DEPTH
        && printable(path) == path
        && path.split('/').all(|part| !matches!(part, "" | "." | "..") && part.len() <= NAME)
        && !path.contains('\0')
}

/// Counts the folders that files at these paths need, until there are more than `most`.
pub(super) fn count_folders<'a>(paths: impl Iterator<Item = &'a String>, most: usize) -> usize {
    let mut found = BTreeSet::new();
    for path in paths {
        found.extend(path.match_indices('/').map(|(end, _)| &path[..end]));
        if found.len() > most {
            break;
        }
    }
    found.len()
}

/// Returns the start of what was fetched, and whether there is more.
pub(super) fn start_of(from: &Fetched, most: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = from.at(0, most + 1)?;
    let is_cut = bytes.len() > most;
    bytes.truncate(most);
    Ok((bytes, is_cut))
}

/// The time, in milliseconds since 1970.
pub(super) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own folders")]
mod tests {
    use super::*;

    #[test]
    fn a_blob_with_another_digest_is_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let state = TenantState::open(&folder.path().join("a")).unwrap();
        let other = format!("sha256:{}", "0".repeat(64));
        let mut upload = state.upload().unwrap();
        upload.write(b"text").unwrap();
        assert_eq!(upload.finish(&other, 10, 0).unwrap(), Finished::OtherDigest);
        assert!(state.blob(&other).is_err() && state.blobs.entries().unwrap().count() == 0);
        assert_eq!(state.put_blob(b"text", 3, 0).unwrap(), None);
        assert_eq!(state.blobs.entries().unwrap().count(), 0, "a refused blob leaves no file");
        let digest = state.put_blob(b"text", 4, 0).unwrap().unwrap();
        assert_eq!(
            start_of(&Fetched::File(state.blob(&digest).unwrap().into_std()), 2).unwrap(),
            (b"te".to_vec(), true)
        );
    }

    #[test]
    fn what_a_killed_server_has_left_without_a_row_is_removed_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let state = TenantState::open(&path).unwrap();
        let kept = state.put_blob(b"kept", 100, 0).unwrap().unwrap();
        drop(state);
        std::fs::write(path.join(BLOBS).join("0".repeat(64)), "left").unwrap();
        std::fs::create_dir_all(path.join(SKILLS).join("1".repeat(64)).join("skill")).unwrap();
        let state = TenantState::open(&path).unwrap();
        assert!(state.blob(&kept).is_ok());
        assert_eq!(state.blobs.entries().unwrap().count(), 1);
        assert_eq!(state.skills.entries().unwrap().count(), 0);
    }

    #[test]
    fn names_that_are_no_digests_open_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let state = TenantState::open(&folder.path().join("a")).unwrap();
        for name in ["sha256:../runs.db", "sha256:", "../runs.db", &"a".repeat(64)] {
            assert!(state.blob(name).is_err(), "{name}");
        }
        for path in ["", "/a", "a//b", "a/../b", "./a", "a/", "..", "a\0b", "a\nb"] {
            assert!(!is_inside(path), "{path}");
        }
        assert!(is_inside("a/b c.txt"));
        assert!(is_inside(&"a".repeat(255)) && !is_inside(&"a".repeat(256)));
        assert!(is_inside(&["a"; 64].join("/")) && !is_inside(&["a"; 65].join("/")));
    }

    #[test]
    fn each_folder_is_counted_once() {
        let paths = ["a/b/c", "a/b/d", "a/e", "f"].map(str::to_owned);
        assert_eq!(count_folders(paths.iter(), 10), 2);
    }

    #[test]
    fn one_server_uses_the_state_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let one = TenantState::open(&path).unwrap();
        assert!(TenantState::open(&path).is_err());
        drop(one);
        assert!(TenantState::open(&path).is_ok());
    }
}
