//! A recording on disk: `recording.json`, and the content that it refers to under `blobs/`, named
//! by digest.
//!
//! A recording is written elsewhere and moved into place once it is complete, so its final folder
//! never holds a partial one.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use serde_json::Value;

use super::blobs::{BlobStore, Contents};
use super::seal::Seal;
use super::vault::Key;
use super::{Recording, VERSION};
use skillhost_policy::limits::show_size;
use skillhost_skill::private::{Purpose, TempFolder};
use skillhost_skill::runtime;

/// The largest `recording.json` that is read, in bytes.
const TEXT_MAX: u64 = 64 << 20;

/// The most bytes of all stored files: as much as receipts cover, and the same again for packages.
pub(super) const BLOBS_MAX: u64 = 2 << 30;

const NAME: &str = "recording.json";
const BLOBS: &str = "blobs";

/// A recording that is being written.
#[derive(Debug)]
pub struct Draft {
    place: PathBuf,
    folder: TempFolder,
}

/// A recording that was read.
#[derive(Debug)]
pub struct StoredRecording {
    /// The content of `recording.json`.
    pub recording: Recording,
    blobs: PathBuf,
}

/// Why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The host failed.
    #[error("cannot {action} the recording {}: {source}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// What failed: `read`, `write` or `recreate`.
        action: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Its folder is not empty.
    #[error("the folder {} exists and is not empty", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// It is not a recording, or it was modified.
    #[error("{} is not a valid recording: {why}", path.display())]
    Invalid {
        /// The folder.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl Draft {
    /// Starts a recording that will be moved to `place`, which must not exist or be an empty
    /// folder. It is written in a scratch folder first.
    ///
    /// # Errors
    /// `place` is not empty, or nothing can be written next to it.
    pub fn new(place: &Path, scratch: &Path) -> Result<Draft, RecordingError> {
        let failed =
            |source| RecordingError::Io { path: place.to_owned(), action: "write", source };
        #[expect(clippy::disallowed_methods, reason = "a folder that the operator names")]
        let there = std::fs::read_dir(place).map(|mut entries| entries.next().is_some());
        match there {
            Ok(true) => return Err(RecordingError::NotEmpty { path: place.to_owned() }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        rustix::fs::accessat(
            CWD,
            parent_of(place),
            Access::WRITE_OK | Access::EXEC_OK,
            AtFlags::EACCESS,
        )
        .map_err(|error| failed(error.into()))?;
        // Not in its final place, which may be inside a folder that is granted to the run.
        let folder = scratch
            .canonicalize()
            .and_then(|scratch| TempFolder::new_in(&scratch, Purpose::Recording))
            .map_err(failed)?;
        folder.create(BLOBS).map_err(failed)?;
        Ok(Draft { place: place.to_owned(), folder })
    }

    /// Returns the folder in which it is written.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the store for the files that the run reads.
    pub fn contents(&self) -> Contents {
        Contents::Record(BlobStore::new(&self.folder.path().join(BLOBS)))
    }

    /// Removes the secrets, writes the recording, and moves it into place.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(
        self,
        recording: Recording,
        blobs: &BlobStore,
        seal: &Seal,
    ) -> Result<(), RecordingError> {
        let place = self.place.clone();
        self.write(recording, blobs, seal).map_err(|source| RecordingError::Io {
            path: place,
            action: "write",
            source,
        })
    }

    /// Returns the error for a recording that cannot be written.
    pub fn failed(self, source: io::Error) -> RecordingError {
        RecordingError::Io { path: self.place, action: "write", source }
    }

    fn write(self, mut recording: Recording, blobs: &BlobStore, seal: &Seal) -> io::Result<()> {
        blobs.check()?;
        let needed: std::collections::BTreeSet<String> =
            recording.needed().map(str::to_owned).collect();
        for digest in blobs.digests().into_iter().filter(|digest| !needed.contains(digest)) {
            blobs.remove(&digest)?;
        }
        let mut texts: Vec<Vec<u8>> = Vec::new();
        for digest in needed.iter().filter(|_| !seal.is_empty()) {
            let bytes = blobs.read(digest)?;
            let sealed = seal.seal_bytes(&bytes);
            if sealed != bytes {
                blobs.remove(digest)?;
                recording.blobs.insert(digest.clone(), blobs.store_bytes(&sealed)?);
                texts.push(sealed);
            }
        }
        let secrets = std::mem::take(&mut recording.sealed.secrets);
        let mut value = seal.seal(serde_json::to_value(&recording)?);
        texts.push(serde_json::to_vec(&value)?);
        let among: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let used: BTreeMap<String, String> =
            secrets.into_iter().chain(seal.used_in(&among)).collect();
        value["sealed"]["secrets"] = serde_json::to_value(&used)?;
        if let Some(values) = seal.encrypted_values(&used, &digest(&value))? {
            value["sealed"]["values"] = values.into();
        }
        value["digest"] = Value::String(digest(&value));
        write_new(&self.folder.path().join(NAME), &text(&value)?)?;
        // Replaces an empty folder, or nothing.
        match std::fs::rename(self.folder.path(), &self.place) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                self.move_across_devices()
            }
            moved => {
                moved?;
                self.folder.keep();
                Ok(())
            }
        }
    }

    /// Moves the recording to another file system: copies it next to its place, then renames it.
    fn move_across_devices(self) -> io::Result<()> {
        let near = TempFolder::new_in(parent_of(&self.place), Purpose::Recording)?;
        near.create(BLOBS)?;
        #[expect(clippy::disallowed_methods, reason = "a folder of our own")]
        for blob in std::fs::read_dir(self.folder.path().join(BLOBS))? {
            let blob = blob?;
            std::fs::copy(blob.path(), near.path().join(BLOBS).join(blob.file_name()))?;
        }
        std::fs::copy(self.folder.path().join(NAME), near.path().join(NAME))?;
        std::fs::rename(near.path(), &self.place)?;
        near.keep();
        Ok(())
    }
}

impl StoredRecording {
    /// Reads a recording, and checks it against its own digest. Stored content is checked when it
    /// is read.
    ///
    /// # Errors
    /// It is not a recording, or it was modified.
    pub fn read(path: &Path) -> Result<StoredRecording, RecordingError> {
        let failed = |source| RecordingError::Io { path: path.to_owned(), action: "read", source };
        let text = read(&path.join(NAME), TEXT_MAX).map_err(failed)?;
        let recording =
            parse(&text).map_err(|why| RecordingError::Invalid { path: path.to_owned(), why })?;
        Ok(StoredRecording { recording, blobs: path.join(BLOBS) })
    }

    /// Returns the secret values that it stores, by name; none if `key` is not the one that they
    /// were encrypted under, or the recording was modified.
    pub fn stored(&self, key: &Key) -> BTreeMap<String, Vec<u8>> {
        let mut recording = self.recording.clone();
        let values = recording.sealed.values.take().zip(serde_json::to_value(&recording).ok());
        values.and_then(|(values, value)| key.unlock(&values, &digest(&value))).unwrap_or_default()
    }

    /// Replaces placeholders by their secrets.
    ///
    /// # Errors
    /// The result is not a valid recording.
    pub fn unseal(self, seal: &Seal) -> Result<StoredRecording, RecordingError> {
        let again = serde_json::to_value(&self.recording)
            .map(|value| seal.unseal(value))
            .and_then(serde_json::from_value);
        let recording = again.map_err(|error| RecordingError::Invalid {
            path: self.blobs.clone(),
            why: error.to_string(),
        })?;
        Ok(StoredRecording { recording, ..self })
    }

    /// Reads the content with a digest, at most `max` bytes, and restores its secrets.
    ///
    /// # Errors
    /// It is missing, or was modified.
    pub fn bytes(&self, digest: &str, max: u64, seal: &Seal) -> Result<Vec<u8>, RecordingError> {
        let path = self.blobs.parent().unwrap_or(&self.blobs).to_owned();
        let stored = self.recording.blobs.get(digest).map_or(digest, String::as_str);
        let invalid = |why: String| RecordingError::Invalid { path: path.clone(), why };
        let name = stored
            .strip_prefix("sha256:")
            .filter(|hex| is_hex(hex))
            .ok_or_else(|| invalid(format!("`{stored}` is not a digest")))?;
        // A placeholder may be longer than its secret.
        let max = if stored == digest { max } else { max.saturating_mul(8).min(BLOBS_MAX) };
        let bytes = read(&self.blobs.join(name), max)
            .map_err(|error| invalid(format!("the file blobs/{name}: {error}")))?;
        if runtime::digest(&bytes) != stored {
            return Err(invalid(format!("the file blobs/{name} was modified")));
        }
        if stored == digest {
            return Ok(bytes);
        }
        let bytes = seal.unseal_bytes(&bytes);
        if runtime::digest(&bytes) == digest {
            Ok(bytes)
        } else {
            Err(invalid(format!("blobs/{name} does not match the content it replaces")))
        }
    }
}

/// Parses `recording.json`.
///
/// # Errors
/// Why it is not valid.
pub fn parse(text: &[u8]) -> Result<Recording, String> {
    let mut value: Value = serde_json::from_slice(text)
        .map_err(|error| format!("{NAME} is not valid JSON: {error}"))?;
    let again = self::text(&value).map_err(|error| error.to_string())?;
    match value.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            return Err(format!(
                "version {version} is not supported; this host supports version {VERSION}"
            ));
        }
        None => return Err(format!("{NAME} has no `version`")),
    }
    // Two parsers may read a duplicate key differently.
    if again != text {
        return Err(format!("{NAME} is not formatted as skillhost writes it"));
    }
    let expected = value.as_object_mut().and_then(|fields| fields.remove("digest"));
    if expected != Some(Value::String(digest(&value))) {
        return Err(format!("{NAME} was modified: its `digest` does not match"));
    }
    let recording: Recording =
        serde_json::from_value(value).map_err(|error| format!("{NAME}: {error}"))?;
    super::scene::check(&recording)?;
    Ok(recording)
}

/// Formats a recording, given as a value with its digest.
///
/// # Errors
/// None for plain data.
pub fn text(value: &Value) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

/// Returns the digest of a recording's canonical text, without the digest itself.
pub fn digest(value: &Value) -> String {
    runtime::digest(&serde_json_canonicalizer::to_vec(value).unwrap_or_default())
}

fn parent_of(place: &Path) -> &Path {
    place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_hex(text: &str) -> bool {
    text.len() == 64
        && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

/// Reads a regular file of at most `max` bytes. Refuses a symlink, which might lead anywhere, and a
/// FIFO, which would block.
fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32;
    #[expect(clippy::disallowed_methods, reason = "a file of a folder that the operator names")]
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {}", show_size(max)),
        ));
    }
    Ok(bytes)
}

/// Creates a file that only this user can read.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a file of a scratch folder of our own")]
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}
