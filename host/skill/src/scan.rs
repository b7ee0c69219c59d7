//! Finds skills: a folder, and those below it, that hold a SKILL.md. What lies inside a skill
//! belongs to that skill.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, MetadataExt as _};

use super::files::{self, Identity};

/// Folders that hold no skills and very many files.
const SKIPPED: [&str; 2] = [".git", "node_modules"];
/// What is told of what was left out.
const MAX_LEFT_OUT: usize = 20;

/// How far a search goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Levels below the folder.
    pub depth: usize,
    /// Folders that are looked into and are no skills themselves.
    pub folders: usize,
    /// Skills.
    pub skills: usize,
    /// Files and folders that are looked at.
    pub entries: usize,
    /// Which symlinks to folders are followed. No folder is entered twice, so there are no cycles.
    pub links: Links,
}

/// Which symlinks to folders a search follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// None.
    None,
    /// Those that stay inside the folder.
    Inside,
    /// All: whoever can write the folder may name what lies outside it.
    All,
}

/// A folder that holds a SKILL.md.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its path below the folder that was searched; empty for that folder itself.
    pub path: PathBuf,
    /// The name of the file, such as `skill.md`.
    pub skill_file: String,
    /// The names of the files and folders in it.
    pub names: Vec<String>,
    /// What tells the folder from what it may become, as it was before the names were read.
    pub identity: Identity,
    place: FoundAt,
}

/// How to get at a skill's files.
#[derive(Debug, Clone)]
enum FoundAt {
    Below(Arc<Dir>, PathBuf),
    /// Where a symlink leads. There may be many of them: one is opened when it is read.
    Link(PathBuf),
}

/// What a search found.
#[derive(Debug, Default)]
pub struct Scan {
    /// By path.
    pub skills: Vec<Found>,
    /// The folders that were looked into and are no skills, by path below the folder that was
    /// searched.
    pub searched: Vec<(PathBuf, Identity)>,
    /// What was left out and why.
    pub left_out: Vec<String>,
}

impl Found {
    /// The text of its SKILL.md, at most that many bytes.
    ///
    /// # Errors
    /// It cannot be read, or is larger.
    pub fn read(&self, cap: u64) -> io::Result<Vec<u8>> {
        let (root, inside) = self.open()?;
        files::read_bounded(&root, inside.join(&self.skill_file), cap)
    }

    /// The names in one of its folders, at most that many.
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
            FoundAt::Below(root, inside) => Ok((root.clone(), inside.clone())),
            FoundAt::Link(path) => Ok((Arc::new(open(path)?), PathBuf::new())),
        }
    }
}

/// Every skill of a folder, by path: itself, if it is one, else those below it. Symlinks are not
/// followed.
///
/// # Errors
/// The folder cannot be read, or it holds more than a million files and folders. A folder below
/// that cannot be read is passed over.
pub fn find(folder: &Path) -> io::Result<Vec<PathBuf>> {
    const ALL: usize = 1_000_000;
    let found = scan(
        folder,
        &Bounds { depth: 16, folders: ALL, skills: ALL, entries: ALL, links: Links::None },
    )?;
    match found.left_out.into_iter().next() {
        Some(why) => Err(io::Error::other(why)),
        None => Ok(found.skills.into_iter().map(|skill| at(folder, &skill.path)).collect()),
    }
}

/// Searches a folder, within bounds. What a bound leaves out is told.
///
/// # Errors
/// The folder itself cannot be read.
pub fn scan(folder: &Path, bounds: &Bounds) -> io::Result<Scan> {
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
    // A folder goes by its own name before it goes by a symlink's.
    while let Some(place) = places.pop().or_else(|| search.links.pop()) {
        let depth = place.depth;
        match search.visit(place, &mut places) {
            Err(error) if depth == 0 => return Err(error),
            Err(_) | Ok(true) => {}
            Ok(false) => break,
        }
    }
    search.scan.skills.sort_by(|a, b| a.path.cmp(&b.path));
    search.scan.left_out.sort();
    Ok(search.scan)
}

/// A path below a folder; the folder itself, as it was named, where it is empty.
pub fn at(folder: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { folder.to_owned() } else { folder.join(path) }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the operator named this folder, or it is where a symlink of the operator's own leads"
)]
fn open(folder: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(folder, cap_std::ambient_authority())
}

/// A folder that is still to be looked into.
struct Place {
    /// `None`: it is where a symlink leads, and is opened when its turn comes.
    root: Option<Arc<Dir>>,
    inside: PathBuf,
    path: PathBuf,
    depth: usize,
}

struct Search<'a> {
    folder: &'a Path,
    bounds: &'a Bounds,
    scan: Scan,
    entries: usize,
    /// The folders that were entered, by device and inode.
    seen: HashSet<(u64, u64)>,
    links: Vec<Place>,
}

impl Search<'_> {
    /// Looks into one folder. `false`: a bound ends the search.
    fn visit(&mut self, place: Place, places: &mut Vec<Place>) -> io::Result<bool> {
        let Place { root, inside, path, depth } = place;
        let root = root.map_or_else(|| open(&at(self.folder, &path)).map(Arc::new), Ok)?;
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
                    "it holds more than {} files and folders",
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
                return Ok(self.stop(format!("it holds more than {} skills", self.bounds.skills)));
            }
            let place = match inside.as_os_str().is_empty() && depth > 0 {
                true => FoundAt::Link(at(self.folder, &path)),
                false => FoundAt::Below(root, inside),
            };
            self.scan.skills.push(Found {
                path,
                skill_file,
                names,
                identity: Identity::of(&meta),
                place,
            });
            return Ok(true);
        }
        if self.scan.searched.len() == self.bounds.folders {
            return Ok(self.stop(format!(
                "it holds more than {} folders that are no skills",
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
                if !link && self.bounds.links != Links::None {
                    self.leave_out(
                        &place.path,
                        &format!("lies more than {} levels below", self.bounds.depth),
                    );
                }
            } else if !link {
                places.push(place);
            } else if self.bounds.links != Links::None {
                self.link(&root, place);
            }
        }
        self.scan.searched.push((path, Identity::of(&meta)));
        Ok(true)
    }

    /// Notes where a symlink leads, if that is a folder.
    fn link(&mut self, root: &Dir, place: Place) {
        match root.metadata(&place.inside) {
            Ok(to) if to.is_dir() => self.links.push(place),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                match self.bounds.links {
                    Links::All => {
                        let inside = PathBuf::new();
                        self.links.push(Place { root: None, inside, ..place });
                    }
                    _ => self.leave_out(&place.path, "is a symlink that leads out of the folder"),
                }
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn leave_out(&mut self, path: &Path, why: &str) {
        if self.scan.left_out.len() < MAX_LEFT_OUT {
            self.scan.left_out.push(format!("`{}` {why}", path.display()));
        }
    }

    fn stop(&mut self, why: String) -> bool {
        self.scan.left_out.push(why);
        false
    }
}
