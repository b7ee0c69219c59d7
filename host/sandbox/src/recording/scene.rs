//! Recreates the folders of a recording in a scratch folder: files that were read with their
//! content, others as empty space of the original size.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{CWD, FileType, Mode};

use super::blobs::Contents;
use super::folder::{BLOBS_MAX, RecordingError, StoredRecording, write_new};
use super::seal::Seal;
use super::{EntryKind, Folder, RecordedEntry, Recording};
use skillhost_skill::private::{self, Purpose, TempFolder};

/// The most entries of all folders.
const ENTRIES_MAX: usize = 40_000;

/// The most exchanges of a recording.
const EXCHANGES_MAX: usize = 100_000;

/// The guest path of the skill.
pub const SKILL: &str = "/skill";

/// The recreated folders of a recording. Dropping this removes them.
#[derive(Debug)]
pub struct Scene {
    root: TempFolder,
    /// The skill's folder.
    pub skill: PathBuf,
    /// The other folders, by guest path.
    pub folders: BTreeMap<String, PathBuf>,
    /// Folders that are not writable.
    read_only: Vec<PathBuf>,
}

/// Checks that the names and sizes in a recording can be recreated, and do not lead outside its
/// folders.
///
/// # Errors
/// What is wrong.
pub fn check(recording: &Recording) -> Result<(), String> {
    if !is_valid_name(&recording.skill) {
        return Err("the name of the skill's folder is not valid".into());
    }
    if recording.exchanges.len() > EXCHANGES_MAX
        || recording.folders.iter().map(|folder| folder.entries.len()).sum::<usize>() > ENTRIES_MAX
    {
        return Err("it contains more than a run can have".into());
    }
    let mut guests = BTreeSet::new();
    for Folder { guest, entries } in &recording.folders {
        if !guest.starts_with('/') || guest.contains('\0') || !guests.insert(guest) {
            return Err(format!("`{guest}` is not a guest path, or appears twice"));
        }
        let (mut folders, mut names) = (BTreeSet::from([""]), BTreeSet::new());
        for RecordedEntry { path, kind } in entries {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            if !is_valid_name(name) || !folders.contains(parent) || !names.insert(path.as_str()) {
                return Err(format!("`{path}` in {guest} is not a valid path, or appears twice"));
            }
            match kind {
                EntryKind::Folder { .. } => {
                    folders.insert(path);
                }
                EntryKind::Link { target: Some(target), .. }
                    if target.is_empty() || target.starts_with('/') || target.contains('\0') =>
                {
                    return Err(format!(
                        "the symlink `{path}` in {guest} does not have a relative target"
                    ));
                }
                EntryKind::File { bytes, .. } if i64::try_from(*bytes).is_err() => {
                    return Err(format!("the file `{path}` in {guest} has an impossible size"));
                }
                _ => {}
            }
        }
    }
    if !guests.contains(&SKILL.to_owned()) {
        return Err("it has no folder for the skill".into());
    }
    Ok(())
}

/// Checks the name of one entry.
fn is_valid_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.contains(['/', '\0'])
        && name != "."
        && name != ".."
}

impl Scene {
    /// Recreates the folders of a recording in a scratch folder, and returns the placeholders for
    /// files that were not read.
    ///
    /// # Errors
    /// The recording does not contain content that it refers to, or nothing can be written.
    pub fn create(
        source: &StoredRecording,
        seal: &Seal,
        scratch: &Path,
    ) -> Result<(Scene, Contents), RecordingError> {
        check(&source.recording)
            .map_err(|why| RecordingError::Invalid { path: scratch.to_owned(), why })?;
        let failed =
            |source| RecordingError::Io { path: scratch.to_owned(), action: "recreate", source };
        let root = scratch
            .canonicalize()
            .and_then(|scratch| TempFolder::new_in(&scratch, Purpose::Replay));
        let root = root.map_err(failed)?;
        let skill = root.path().join("skill").join(&source.recording.skill);
        let mut scene = Scene { root, skill, folders: BTreeMap::new(), read_only: Vec::new() };
        let mut builder = SceneBuilder {
            source,
            seal,
            digests: HashMap::new(),
            names: HashMap::new(),
            left: BLOBS_MAX,
        };
        for (index, folder) in source.recording.folders.iter().enumerate() {
            let place = if folder.guest == SKILL {
                scene.skill.clone()
            } else {
                scene.root.path().join(format!("folder{index}"))
            };
            private::create_missing(&place).map_err(failed)?;
            builder.folder(&mut scene, &place, folder)?;
            if folder.guest != SKILL {
                scene.folders.insert(folder.guest.clone(), place);
            }
        }
        Ok((scene, Contents::Replay(Mutex::new(builder.digests))))
    }
}

struct SceneBuilder<'a> {
    source: &'a StoredRecording,
    seal: &'a Seal,
    digests: HashMap<(u64, u64), String>,
    /// The first name of each file with several names.
    names: HashMap<u64, PathBuf>,
    /// Bytes that may still be written.
    left: u64,
}

impl SceneBuilder<'_> {
    fn folder(
        &mut self,
        scene: &mut Scene,
        place: &Path,
        folder: &Folder,
    ) -> Result<(), RecordingError> {
        // Symlinks last: nothing is created through one.
        let is_link = |entry: &&RecordedEntry| matches!(entry.kind, EntryKind::Link { .. });
        for entry in folder
            .entries
            .iter()
            .filter(|entry| !is_link(entry))
            .chain(folder.entries.iter().filter(is_link))
        {
            let path = place.join(&entry.path);
            let failed =
                |source| RecordingError::Io { path: path.clone(), action: "recreate", source };
            match &entry.kind {
                EntryKind::File { bytes, digest, kept, writable, names } => {
                    let first = names.and_then(|names| self.names.get(&names).cloned());
                    match first {
                        Some(first) => std::fs::hard_link(first, &path).map_err(failed)?,
                        None => {
                            self.file(&path, *bytes, digest, *kept)?;
                            std::fs::set_permissions(
                                &path,
                                std::fs::Permissions::from_mode(if *writable {
                                    0o600
                                } else {
                                    0o400
                                }),
                            )
                            .map_err(failed)?;
                        }
                    }
                    if let Some(names) = names {
                        if !self.names.contains_key(names) {
                            // The other name may have been outside the folder.
                            let outside = scene.root.path().join(format!("name{names}"));
                            std::fs::hard_link(&path, outside).map_err(failed)?;
                        }
                        self.names.entry(*names).or_insert(path);
                    }
                }
                EntryKind::Folder { writable, hides } => {
                    private::create_new(&path).map_err(failed)?;
                    if *hides {
                        // Guests do not see names that are not valid UTF-8.
                        write_new(&path.join(std::ffi::OsStr::from_bytes(b"\xff")), b"")
                            .map_err(failed)?;
                    }
                    if !writable {
                        scene.read_only.push(path);
                    }
                }
                EntryKind::Link { target, bytes } => {
                    let nowhere = || {
                        format!(
                            "/{:->1$}",
                            "",
                            usize::try_from(*bytes).unwrap_or(0).clamp(2, 4096) - 1
                        )
                    };
                    std::os::unix::fs::symlink(target.clone().unwrap_or_else(nowhere), &path)
                        .map_err(failed)?;
                }
                EntryKind::Other => {
                    let created = rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0);
                    created.map_err(|error| failed(error.into()))?;
                }
            }
        }
        for path in scene.read_only.iter().filter(|path| path.starts_with(place)) {
            let changed = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o500));
            changed.map_err(|source| RecordingError::Io {
                path: path.clone(),
                action: "recreate",
                source,
            })?;
        }
        Ok(())
    }

    fn file(
        &mut self,
        path: &Path,
        bytes: u64,
        digest: &str,
        kept: bool,
    ) -> Result<(), RecordingError> {
        let failed =
            |source| RecordingError::Io { path: path.to_owned(), action: "recreate", source };
        let content = if kept {
            self.source.bytes(digest, bytes.min(self.left), self.seal)?
        } else {
            Vec::new()
        };
        self.left = self.left.saturating_sub(content.len() as u64);
        write_new(path, &content).map_err(failed)?;
        if !kept {
            let key = create_sparse(path, bytes).map_err(failed)?;
            self.digests.insert(key, digest.to_owned());
        }
        Ok(())
    }
}

/// Creates a sparse file of this size, and returns its device and inode.
fn create_sparse(path: &Path, bytes: u64) -> io::Result<(u64, u64)> {
    #[expect(clippy::disallowed_methods, reason = "a file of a scratch folder of our own")]
    let file = std::fs::OpenOptions::new().write(true).open(path)?;
    file.set_len(bytes)?;
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}
