//! A recording on disk: `recording.json`, and under `blobs/` the bytes that it names, by their
//! digest.
//!
//! It is written elsewhere and moved to its place when it is whole: what is in that place is a
//! recording, or nothing.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use serde_json::Value;

use super::keep::{Contents, Keep};
use super::seal::Seal;
use super::vault::Key;
use super::{Recording, VERSION};
use skillhost_policy::limits::show_size;
use skillhost_skill::private::{Purpose, TempFolder};
use skillhost_skill::runtime;

/// Bytes of `recording.json` that are read.
const TEXT_MAX: u64 = 64 << 20;

/// Bytes of all files that a recording keeps: what receipts take in, and again as much for
/// packages.
pub(super) const BLOBS_MAX: u64 = 2 << 30;

const NAME: &str = "recording.json";
const BLOBS: &str = "blobs";

/// A recording that is being made.
#[derive(Debug)]
pub struct Draft {
    place: PathBuf,
    folder: TempFolder,
}

/// A recording that was read.
#[derive(Debug)]
pub struct Kept {
    /// What it says.
    pub recording: Recording,
    blobs: PathBuf,
}

/// A folder that is no recording, or not the one that was written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be read or written.
    #[error("the recording {} cannot be {what}: {source}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// `read` or `written`.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// There is something in its place.
    #[error("the folder {} is there, and not empty", path.display())]
    Taken {
        /// The folder.
        path: PathBuf,
    },
    /// It is no recording.
    #[error("{} is no recording: {why}", path.display())]
    Invalid {
        /// The folder.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl Draft {
    /// Starts one that is to be at a place, which is nowhere or an empty folder; it is made in a
    /// folder for scratch space.
    ///
    /// # Errors
    /// There is something, or nothing can be made beside it.
    pub fn new(place: &Path, scratch: &Path) -> Result<Draft, FolderError> {
        let failed = |source| FolderError::Io { path: place.to_owned(), what: "written", source };
        #[expect(clippy::disallowed_methods, reason = "a folder that the operator names")]
        let there = std::fs::read_dir(place).map(|mut entries| entries.next().is_some());
        match there {
            Ok(true) => return Err(FolderError::Taken { path: place.to_owned() }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        rustix::fs::accessat(
            CWD,
            beside(place),
            Access::WRITE_OK | Access::EXEC_OK,
            AtFlags::EACCESS,
        )
        .map_err(|error| failed(error.into()))?;
        // Not in its place, which may lie in a folder that the run is granted.
        let folder = scratch
            .canonicalize()
            .and_then(|scratch| TempFolder::new_in(&scratch, Purpose::Recording))
            .map_err(failed)?;
        folder.create(BLOBS).map_err(failed)?;
        Ok(Draft { place: place.to_owned(), folder })
    }

    /// Where it is until it is whole.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What takes in the files of the run.
    pub fn contents(&self) -> Contents {
        Contents::Kept(Keep::new(&self.folder.path().join(BLOBS)))
    }

    /// Takes out the secrets, writes what is left, and puts the folder in its place.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self, recording: Recording, keep: &Keep, seal: &Seal) -> Result<(), FolderError> {
        let place = self.place.clone();
        self.write(recording, keep, seal).map_err(|source| FolderError::Io {
            path: place,
            what: "written",
            source,
        })
    }

    /// That it cannot be written.
    pub fn failed(self, source: io::Error) -> FolderError {
        FolderError::Io { path: self.place, what: "written", source }
    }

    fn write(self, mut recording: Recording, keep: &Keep, seal: &Seal) -> io::Result<()> {
        keep.check()?;
        let needed: std::collections::BTreeSet<String> =
            recording.needed().map(str::to_owned).collect();
        for digest in keep.all().into_iter().filter(|digest| !needed.contains(digest)) {
            keep.remove(&digest)?;
        }
        let mut texts: Vec<Vec<u8>> = Vec::new();
        for digest in needed.iter().filter(|_| !seal.is_empty()) {
            let bytes = keep.read(digest)?;
            let sealed = seal.sealed(&bytes);
            if sealed != bytes {
                keep.remove(digest)?;
                recording.blobs.insert(digest.clone(), keep.bytes(&sealed)?);
                texts.push(sealed);
            }
        }
        let secrets = std::mem::take(&mut recording.sealed.secrets);
        let mut value = seal.seal(serde_json::to_value(&recording)?);
        texts.push(serde_json::to_vec(&value)?);
        let among: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let used: BTreeMap<String, String> = secrets.into_iter().chain(seal.used(&among)).collect();
        value["sealed"]["secrets"] = serde_json::to_value(&used)?;
        if let Some(values) = seal.locked(&used, &digest(&value))? {
            value["sealed"]["values"] = values.into();
        }
        value["digest"] = Value::String(digest(&value));
        write_new(&self.folder.path().join(NAME), &text(&value)?)?;
        // Over an empty folder, or nothing.
        match std::fs::rename(self.folder.path(), &self.place) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => self.carry_over(),
            moved => {
                moved?;
                self.folder.keep();
                Ok(())
            }
        }
    }

    /// Puts it in its place on another file system: beside that first.
    fn carry_over(self) -> io::Result<()> {
        let near = TempFolder::new_in(beside(&self.place), Purpose::Recording)?;
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

impl Kept {
    /// Reads a recording, and checks it against its own digest. The bytes that it keeps are checked
    /// when they are read.
    ///
    /// # Errors
    /// It is none, or not as it was written.
    pub fn read(path: &Path) -> Result<Kept, FolderError> {
        let failed = |source| FolderError::Io { path: path.to_owned(), what: "read", source };
        let text = read(&path.join(NAME), TEXT_MAX).map_err(failed)?;
        let recording =
            parse(&text).map_err(|why| FolderError::Invalid { path: path.to_owned(), why })?;
        Ok(Kept { recording, blobs: path.join(BLOBS) })
    }

    /// The values that it stores under a key, by name: none where that is another key than the one
    /// that it was made with, or the recording has been changed since.
    pub fn stored(&self, key: &Key) -> BTreeMap<String, Vec<u8>> {
        let mut recording = self.recording.clone();
        let values = recording.sealed.values.take().zip(serde_json::to_value(&recording).ok());
        values.and_then(|(values, value)| key.unlock(&values, &digest(&value))).unwrap_or_default()
    }

    /// Puts secrets in the place of their placeholders. What is then taken from the recording is as
    /// it was.
    ///
    /// # Errors
    /// Why it is no recording any more.
    pub fn unsealed(self, seal: &Seal) -> Result<Kept, FolderError> {
        let again = serde_json::to_value(&self.recording)
            .map(|value| seal.unseal(value))
            .and_then(serde_json::from_value);
        let recording = again.map_err(|error| FolderError::Invalid {
            path: self.blobs.clone(),
            why: error.to_string(),
        })?;
        Ok(Kept { recording, ..self })
    }

    /// The bytes of a digest, with the secrets that stood in them; at most that many.
    ///
    /// # Errors
    /// They are not there, or not those.
    pub fn bytes(&self, wanted: &str, most: u64, seal: &Seal) -> Result<Vec<u8>, FolderError> {
        let path = self.blobs.parent().unwrap_or(&self.blobs).to_owned();
        let stored = self.recording.blobs.get(wanted).map_or(wanted, String::as_str);
        let invalid = |why: String| FolderError::Invalid { path: path.clone(), why };
        let name = stored
            .strip_prefix("sha256:")
            .filter(|hex| is_hex(hex))
            .ok_or_else(|| invalid(format!("`{stored}` is no digest")))?;
        // A placeholder may be longer than what it stands for.
        let most = if stored == wanted { most } else { most.saturating_mul(8).min(BLOBS_MAX) };
        let bytes = read(&self.blobs.join(name), most)
            .map_err(|error| invalid(format!("the file blobs/{name}: {error}")))?;
        if runtime::digest(&bytes) != stored {
            return Err(invalid(format!("the file blobs/{name} is not what was recorded")));
        }
        if stored == wanted {
            return Ok(bytes);
        }
        let bytes = seal.unsealed(&bytes);
        if runtime::digest(&bytes) == wanted {
            Ok(bytes)
        } else {
            Err(invalid(format!("blobs/{name} does not hold what it stands for")))
        }
    }
}

/// Reads the text of `recording.json`.
///
/// # Errors
/// Why it is none.
pub fn parse(text: &[u8]) -> Result<Recording, String> {
    let mut value: Value = serde_json::from_slice(text)
        .map_err(|error| format!("{NAME} is not valid JSON: {error}"))?;
    let again = self::text(&value).map_err(|error| error.to_string())?;
    match value.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            return Err(format!("its form is {version}, and the one known here is {VERSION}"));
        }
        None => return Err(format!("{NAME} has no `version`")),
    }
    // A name that stands twice is read differently by two readers.
    if again != text {
        return Err(format!("{NAME} is not in the form that it is written in"));
    }
    let told = value.as_object_mut().and_then(|fields| fields.remove("digest"));
    if told != Some(Value::String(digest(&value))) {
        return Err(format!("{NAME} is not as it was written: its `digest` is another"));
    }
    let recording: Recording =
        serde_json::from_value(value).map_err(|error| format!("{NAME}: {error}"))?;
    super::scene::check(&recording)?;
    Ok(recording)
}

/// A recording's text, of a value with its digest.
///
/// # Errors
/// None that plain data has.
pub fn text(value: &Value) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

/// The digest of a recording's canonical text, without itself.
pub fn digest(value: &Value) -> String {
    runtime::digest(&serde_json_canonicalizer::to_vec(value).unwrap_or_default())
}

fn beside(place: &Path) -> &Path {
    place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_hex(text: &str) -> bool {
    text.len() == 64
        && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

/// Reads a regular file of at most that many bytes: not a symlink, which might lead anywhere, nor a
/// FIFO, which would wait.
fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32;
    #[expect(clippy::disallowed_methods, reason = "a file of a folder that the operator names")]
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {}", show_size(most)),
        ));
    }
    Ok(bytes)
}

/// A file that only this user reads.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a file of a scratch folder of our own")]
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}
