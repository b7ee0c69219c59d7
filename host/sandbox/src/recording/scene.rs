//! The folders of a recording, made again in a scratch folder: what was read with its content, the
//! rest as empty space of its size.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{CWD, FileType, Mode};

use super::folder::{BLOBS_MAX, FolderError, Kept, write_new};
use super::keep::Contents;
use super::seal::Seal;
use super::{Entry, EntryKind, Folder, Recording};
use skillhost_skill::private::{self, Purpose, TempFolder};

/// Entries of all folders.
const ENTRIES_MAX: usize = 40_000;

/// Exchanges of a recording.
const EXCHANGES_MAX: usize = 100_000;

/// Guest path of the skill.
pub const SKILL: &str = "/skill";

/// The folders of a recording. They are gone with this value.
#[derive(Debug)]
pub struct Scene {
    root: TempFolder,
    /// The skill's folder.
    pub skill: PathBuf,
    /// The other folders, by guest path.
    pub folders: BTreeMap<String, PathBuf>,
    /// Folders that cannot be written.
    closed: Vec<PathBuf>,
}

/// Whether what a recording says of names and numbers can be made again, and leads nowhere else.
///
/// # Errors
/// What is wrong with it.
pub fn check(recording: &Recording) -> Result<(), String> {
    if !is_name(&recording.skill) {
        return Err("the name of the skill's folder is no name".into());
    }
    if recording.exchanges.len() > EXCHANGES_MAX
        || recording.folders.iter().map(|folder| folder.entries.len()).sum::<usize>() > ENTRIES_MAX
    {
        return Err("there is more in it than a run can have".into());
    }
    let mut guests = BTreeSet::new();
    for Folder { guest, entries } in &recording.folders {
        if !guest.starts_with('/') || guest.contains('\0') || !guests.insert(guest) {
            return Err(format!("`{guest}` is no guest path, or twice a folder"));
        }
        let (mut folders, mut names) = (BTreeSet::from([""]), BTreeSet::new());
        for Entry { path, kind } in entries {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            if !is_name(name) || !folders.contains(parent) || !names.insert(path.as_str()) {
                return Err(format!("`{path}` in {guest} is no name in a folder, or twice there"));
            }
            match kind {
                EntryKind::Folder { .. } => {
                    folders.insert(path);
                }
                EntryKind::Link { target: Some(target), .. }
                    if target.is_empty() || target.starts_with('/') || target.contains('\0') =>
                {
                    return Err(format!(
                        "the symlink `{path}` in {guest} does not lead to a place in it"
                    ));
                }
                EntryKind::File { bytes, .. } if i64::try_from(*bytes).is_err() => {
                    return Err(format!("the file `{path}` in {guest} is larger than files are"));
                }
                _ => {}
            }
        }
    }
    if !guests.contains(&SKILL.to_owned()) {
        return Err("it has no skill".into());
    }
    Ok(())
}

/// One name of one entry.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.contains(['/', '\0'])
        && name != "."
        && name != ".."
}

impl Scene {
    /// Makes the folders of a recording in a folder for scratch space. Gives what stands in for the
    /// files that were not read, too.
    ///
    /// # Errors
    /// The recording does not hold what it names, or nothing can be written.
    pub fn make(
        kept: &Kept,
        seal: &Seal,
        scratch: &Path,
    ) -> Result<(Scene, Contents), FolderError> {
        check(&kept.recording)
            .map_err(|why| FolderError::Invalid { path: scratch.to_owned(), why })?;
        let failed =
            |source| FolderError::Io { path: scratch.to_owned(), what: "made again", source };
        let root = scratch
            .canonicalize()
            .and_then(|scratch| TempFolder::new_in(&scratch, Purpose::Replay));
        let root = root.map_err(failed)?;
        let skill = root.path().join("skill").join(&kept.recording.skill);
        let mut scene = Scene { root, skill, folders: BTreeMap::new(), closed: Vec::new() };
        let mut making = Making {
            kept,
            seal,
            stand_ins: HashMap::new(),
            names: HashMap::new(),
            left: BLOBS_MAX,
        };
        for (index, folder) in kept.recording.folders.iter().enumerate() {
            let place = if folder.guest == SKILL {
                scene.skill.clone()
            } else {
                scene.root.path().join(format!("folder{index}"))
            };
            private::create_missing(&place).map_err(failed)?;
            making.folder(&mut scene, &place, folder)?;
            if folder.guest != SKILL {
                scene.folders.insert(folder.guest.clone(), place);
            }
        }
        Ok((scene, Contents::StandIns(Mutex::new(making.stand_ins))))
    }
}

struct Making<'a> {
    kept: &'a Kept,
    seal: &'a Seal,
    stand_ins: HashMap<(u64, u64), String>,
    /// The first name of each file that has several.
    names: HashMap<u64, PathBuf>,
    /// Bytes that may still be written.
    left: u64,
}

impl Making<'_> {
    fn folder(
        &mut self,
        scene: &mut Scene,
        place: &Path,
        folder: &Folder,
    ) -> Result<(), FolderError> {
        // Symlinks last: nothing is made through one.
        let is_link = |entry: &&Entry| matches!(entry.kind, EntryKind::Link { .. });
        for entry in folder
            .entries
            .iter()
            .filter(|entry| !is_link(entry))
            .chain(folder.entries.iter().filter(is_link))
        {
            let path = place.join(&entry.path);
            let failed =
                |source| FolderError::Io { path: path.clone(), what: "made again", source };
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
                        // Guests are not shown a name that is no text.
                        write_new(&path.join(std::ffi::OsStr::from_bytes(b"\xff")), b"")
                            .map_err(failed)?;
                    }
                    if !writable {
                        scene.closed.push(path);
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
                    let made = rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0);
                    made.map_err(|error| failed(error.into()))?;
                }
            }
        }
        for path in scene.closed.iter().filter(|path| path.starts_with(place)) {
            let closed = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o500));
            closed.map_err(|source| FolderError::Io {
                path: path.clone(),
                what: "made again",
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
    ) -> Result<(), FolderError> {
        let failed = |source| FolderError::Io { path: path.to_owned(), what: "made again", source };
        let content = if kept {
            self.kept.bytes(digest, bytes.min(self.left), self.seal)?
        } else {
            Vec::new()
        };
        self.left = self.left.saturating_sub(content.len() as u64);
        write_new(path, &content).map_err(failed)?;
        if !kept {
            let key = sized(path, bytes).map_err(failed)?;
            self.stand_ins.insert(key, digest.to_owned());
        }
        Ok(())
    }
}

/// Makes a file that long, of empty space. Gives its device and inode.
fn sized(path: &Path, bytes: u64) -> io::Result<(u64, u64)> {
    #[expect(clippy::disallowed_methods, reason = "a file of a scratch folder of our own")]
    let file = std::fs::OpenOptions::new().write(true).open(path)?;
    file.set_len(bytes)?;
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}
