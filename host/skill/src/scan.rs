//! Finds skills: folders with a SKILL.md, at or below a folder. Everything inside a skill belongs to
//! that skill.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, MetadataExt as _};

use super::files::{self, FileIdentity};
use super::single_file;

/// Folders that contain no skills, and very many files.
const SKIPPED: [&str; 2] = [".git", "node_modules"];
/// The most skipped paths that are reported.
const MAX_SKIPPED: usize = 20;

/// The limits of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanBounds {
    /// The most levels below the folder.
    pub depth: usize,
    /// The most folders that are searched and are not skills.
    pub folders: usize,
    /// The most skills.
    pub skills: usize,
    /// The most files and folders.
    pub entries: usize,
    /// Whether each file `NAME.md` directly in the folder is a skill, unless the folder itself is one.
    pub single_files: bool,
    /// Which symlinks to folders are followed. No folder is searched twice, so there are no cycles.
    pub links: FollowLinks,
}

/// Which symlinks to folders a search follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowLinks {
    /// None.
    None,
    /// Symlinks that point inside the folder.
    Inside,
    /// All: the folder's owner may refer to folders outside it.
    All,
}

/// A folder with a SKILL.md, or a skill that is a single file.
#[derive(Debug, Clone)]
pub struct FoundSkill {
    /// The path below the searched folder; empty for that folder itself.
    pub path: PathBuf,
    /// The actual name of SKILL.md, such as `skill.md`; for a single file, its name.
    pub skill_file: String,
    /// Whether the skill is a single file.
    pub is_file: bool,
    /// The names of the files and folders in it.
    pub names: Vec<String>,
    /// The identity of the folder before its names were read, or of the only file.
    pub identity: FileIdentity,
    place: SkillLocation,
}

/// How to open a skill's folder.
#[derive(Debug, Clone)]
enum SkillLocation {
    Below(Arc<Dir>, PathBuf),
    /// The path of a symlink. There may be many, so each is opened only to read it.
    Link(PathBuf),
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct Scan {
    /// The skills, sorted by path.
    pub skills: Vec<FoundSkill>,
    /// The searched folders that are not skills, by path below the searched folder.
    pub searched: Vec<(PathBuf, FileIdentity)>,
    /// What was skipped and why.
    pub skipped: Vec<String>,
}

impl FoundSkill {
    /// Reads SKILL.md, at most `cap` bytes.
    ///
    /// # Errors
    /// The file cannot be read, or is larger.
    pub fn read(&self, cap: u64) -> io::Result<Vec<u8>> {
        let (root, inside) = self.open()?;
        files::read_bounded(&root, inside.join(&self.skill_file), cap)
    }

    /// Returns the names in one of its folders, at most `cap`.
    pub fn names_in(&self, folder: &str, cap: usize) -> Vec<String> {
        let entries = self.open().and_then(|(root, inside)| root.read_dir(inside.join(folder)));
        entries
            .into_iter()
            .flatten()
            .flatten()
            .take(cap)
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }

    fn open(&self) -> io::Result<(Arc<Dir>, PathBuf)> {
        match &self.place {
            SkillLocation::Below(root, inside) => Ok((root.clone(), inside.clone())),
            SkillLocation::Link(path) => Ok((Arc::new(open(path)?), PathBuf::new())),
        }
    }
}

/// Returns every skill in a folder, sorted by path: the folder itself if it is a skill, otherwise
/// the skills below it. Does not follow symlinks, and skips unreadable folders below.
///
/// # Errors
/// The folder cannot be read, or contains more than a million files and folders.
pub fn find_skills(folder: &Path) -> io::Result<Vec<PathBuf>> {
    const ALL: usize = 1_000_000;
    let found = scan(
        folder,
        &ScanBounds {
            depth: 16,
            folders: ALL,
            skills: ALL,
            entries: ALL,
            single_files: false,
            links: FollowLinks::None,
        },
    )?;
    match found.skipped.into_iter().next() {
        Some(why) => Err(io::Error::other(why)),
        None => Ok(found.skills.into_iter().map(|skill| join(folder, &skill.path)).collect()),
    }
}

/// Searches a folder within limits, and reports what they skip.
///
/// # Errors
/// The folder itself cannot be read.
pub fn scan(folder: &Path, bounds: &ScanBounds) -> io::Result<Scan> {
    let first = Place { root: None, inside: PathBuf::new(), path: PathBuf::new(), depth: 0 };
    let mut search = Search {
        folder,
        bounds,
        scan: Scan::default(),
        entries: 0,
        seen: HashSet::new(),
        links: Vec::new(),
    };
    let mut places = vec![first];
    // Search real folders first, so that a skill has its own path rather than that of a symlink.
    while let Some(place) = places.pop().or_else(|| search.links.pop()) {
        let depth = place.depth;
        match search.visit(place, &mut places) {
            Err(error) if depth == 0 => return Err(error),
            Err(_) | Ok(true) => {}
            Ok(false) => break,
        }
    }
    search.scan.skills.sort_by(|a, b| a.path.cmp(&b.path));
    search.scan.skipped.sort();
    Ok(search.scan)
}

/// Joins a folder and a path below it. Returns the folder unchanged for an empty path.
pub fn join(folder: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { folder.to_owned() } else { folder.join(path) }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the operator named this folder, or it is where a symlink of the operator's own leads"
)]
fn open(folder: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(folder, cap_std::ambient_authority())
}

/// A folder that is still to be searched.
struct Place {
    /// `None` for a symlink, which is opened when its turn comes.
    root: Option<Arc<Dir>>,
    inside: PathBuf,
    path: PathBuf,
    depth: usize,
}

struct Search<'a> {
    folder: &'a Path,
    bounds: &'a ScanBounds,
    scan: Scan,
    entries: usize,
    /// The searched folders, by device and inode.
    seen: HashSet<(u64, u64)>,
    links: Vec<Place>,
}

impl Search<'_> {
    /// Searches one folder. Returns `false` if a limit ends the search.
    fn visit(&mut self, place: Place, places: &mut Vec<Place>) -> io::Result<bool> {
        let Place { root, inside, path, depth } = place;
        let root = root.map_or_else(|| open(&join(self.folder, &path)).map(Arc::new), Ok)?;
        let here = if inside.as_os_str().is_empty() { Path::new(".") } else { inside.as_path() };
        let dir = root.open_dir(here)?;
        let meta = dir.dir_metadata()?;
        if !self.seen.insert((meta.dev(), meta.ino())) {
            return Ok(true);
        }
        let (mut names, mut skill_file, mut below) = (Vec::new(), None::<String>, Vec::new());
        for entry in dir.entries()?.flatten() {
            self.entries += 1;
            if self.entries > self.bounds.entries {
                return Ok(self.stop(format!(
                    "it contains more than {} files and folders",
                    self.bounds.entries
                )));
            }
            let name = entry.file_name();
            let Some(text) = name.to_str() else { continue };
            if text.eq_ignore_ascii_case("SKILL.md") && skill_file.as_deref() != Some("SKILL.md") {
                skill_file = Some(
                    skill_file
                        .filter(|known| known.as_str() < text)
                        .unwrap_or_else(|| text.to_owned()),
                );
            }
            names.push(text.to_owned());
            if let Ok(kind) = entry.file_type()
                && (kind.is_dir() || kind.is_symlink())
            {
                below.push((text.to_owned(), kind.is_symlink()));
            }
        }
        if let Some(skill_file) = skill_file {
            if self.scan.skills.len() == self.bounds.skills {
                return Ok(
                    self.stop(format!("it contains more than {} skills", self.bounds.skills))
                );
            }
            let place = match inside.as_os_str().is_empty() && depth > 0 {
                true => SkillLocation::Link(join(self.folder, &path)),
                false => SkillLocation::Below(root, inside),
            };
            self.scan.skills.push(FoundSkill {
                path,
                skill_file,
                is_file: false,
                names,
                identity: FileIdentity::of(&meta),
                place,
            });
            return Ok(true);
        }
        if depth == 0 && self.bounds.single_files && !self.add_single_files(&root, &dir, names) {
            return Ok(false);
        }
        if self.scan.searched.len() == self.bounds.folders {
            return Ok(self.stop(format!(
                "it contains more than {} folders that are not skills",
                self.bounds.folders
            )));
        }
        below.retain(|(name, _)| !SKIPPED.contains(&name.as_str()));
        below.sort();
        for (name, link) in below.into_iter().rev() {
            let place = Place {
                root: Some(root.clone()),
                inside: inside.join(&name),
                path: path.join(&name),
                depth: depth + 1,
            };
            if depth == self.bounds.depth {
                if !link && self.bounds.links != FollowLinks::None {
                    self.skip(
                        &place.path,
                        &format!("is more than {} levels deep", self.bounds.depth),
                    );
                }
            } else if !link {
                places.push(place);
            } else if self.bounds.links != FollowLinks::None {
                self.link(&root, place);
            }
        }
        self.scan.searched.push((path, FileIdentity::of(&meta)));
        Ok(true)
    }

    /// Adds the skills that are single files of the searched folder. Returns `false` if a limit ends
    /// the search.
    fn add_single_files(&mut self, root: &Arc<Dir>, dir: &Dir, names: Vec<String>) -> bool {
        for name in names.into_iter().filter(|name| single_file::name_of(name).is_some()) {
            // Not of its target: the owner of a symlink would choose which file agents read.
            let found = dir.symlink_metadata(&name).ok().filter(|found| found.is_file());
            let Some(found) = found else { continue };
            if self.scan.skills.len() == self.bounds.skills {
                return self.stop(format!("it contains more than {} skills", self.bounds.skills));
            }
            self.scan.skills.push(FoundSkill {
                path: PathBuf::from(&name),
                skill_file: name,
                is_file: true,
                names: Vec::new(),
                identity: FileIdentity::of(&found),
                place: SkillLocation::Below(root.clone(), PathBuf::new()),
            });
        }
        true
    }

    /// Adds the target of a symlink to the search, if it is a folder.
    fn link(&mut self, root: &Dir, place: Place) {
        match root.metadata(&place.inside) {
            Ok(to) if to.is_dir() => self.links.push(place),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                match self.bounds.links {
                    FollowLinks::All => {
                        let inside = PathBuf::new();
                        self.links.push(Place { root: None, inside, ..place });
                    }
                    _ => self.skip(&place.path, "is a symlink that points outside the folder"),
                }
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn skip(&mut self, path: &Path, why: &str) {
        if self.scan.skipped.len() < MAX_SKIPPED {
            self.scan.skipped.push(format!("`{}` {why}", path.display()));
        }
    }

    fn stop(&mut self, why: String) -> bool {
        self.scan.skipped.push(why);
        false
    }
}
