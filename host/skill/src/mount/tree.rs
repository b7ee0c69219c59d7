//! The files of a skill as they are mounted: each is read once, and symlinks are replaced by what they
//! point to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};

use cap_std::fs::Dir;
use rustix::fs::Mode;
use sha2::{Digest as _, Sha256};

use super::{MountError, failed, refused};
use crate::files::{self, ContentHash, FileIdentity, SkillFile};
use crate::runtime::hex;
use crate::{SizeLimits, SkillListing};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::show_size;

/// The most symlinks on a path. The kernel follows as many.
const MAX_LINKS: usize = 40;

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileCopy {
    pub(super) content: Vec<u8>,
    /// Whether its owner can execute it.
    pub(super) is_executable: bool,
}

/// The files and folders of a skill, by path.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: BTreeMap<String, FileCopy>,
    pub(super) folders: BTreeSet<String>,
}

impl Tree {
    /// Reads the files of a listing, and replaces symlinks.
    pub(super) fn read(listing: &SkillListing) -> Result<Tree, MountError> {
        let mut source = Source::default();
        for file in &listing.files {
            if let Some(target) = &file.link {
                source.links.insert(&file.path, target);
                continue;
            }
            let copy = read(listing.live(), file)
                .map_err(|error| failed(&listing.root, &format!("read `{}`", file.path), &error))?;
            source.files.insert(&file.path, copy);
        }
        source.folders = listing.folders.iter().map(|folder| folder.path.as_str()).collect();
        let mut tree = Tree::default();
        tree.add(&source, "", "", &mut Vec::new(), &listing.caps).map_err(|why| {
            refused(
                &listing.root,
                why,
                "replace the symlink with a copy of the files that it needs",
            )
        })?;
        Ok(tree)
    }

    /// A skill of one file.
    pub(super) fn of_file(name: &str, file: FileCopy) -> Tree {
        Tree { files: BTreeMap::from([(name.to_owned(), file)]), folders: BTreeSet::new() }
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.content.len() as u64).sum()
    }

    /// The digest of the files, as that of a skill.
    pub(super) fn digest(&self) -> String {
        digest(self.files.iter().map(|(path, file)| (path.as_str(), file.content.as_slice())))
    }

    /// The SHA-256 of the list of files that `sha256sum` writes, in hex digits.
    pub(super) fn listing_digest(&self) -> String {
        let line = |(path, file): (&String, &FileCopy)| {
            format!("{}  {path}\n", hex(&Sha256::digest(&file.content)))
        };
        let lines: String = self.files.iter().map(line).collect();
        hex(&Sha256::digest(lines))
    }

    /// Adds the content of a folder of `source` below the path `to`. `above` has the folders that
    /// are being added, from the outermost.
    fn add(
        &mut self,
        source: &Source<'_>,
        from: &str,
        to: &str,
        above: &mut Vec<String>,
        caps: &SizeLimits,
    ) -> Result<(), String> {
        above.push(from.to_owned());
        for folder in &source.folders {
            if let Some(inner) = below(from, folder) {
                self.add_folder(join(to, inner), caps)?;
            }
        }
        for (path, file) in &source.files {
            if let Some(inner) = below(from, path) {
                self.add_file(join(to, inner), file, caps)?;
            }
        }
        for path in source.links.keys() {
            let Some(inner) = below(from, path) else { continue };
            let real = source.resolve(path);
            let real = real.ok_or_else(|| wrong(path, "leads to no file of the skill"))?;
            if let Some(file) = source.files.get(&*real) {
                self.add_file(join(to, inner), file, caps)?;
                continue;
            }
            let contains_itself = above.contains(&real) || below(&real, path).is_some();
            if contains_itself || !source.folders.contains(&*real) {
                return Err(wrong(path, "leads to a folder that contains the symlink"));
            }
            let to = join(to, inner);
            self.add_folder(to.clone(), caps)?;
            self.add(source, &real, &to, above, caps)?;
        }
        above.pop();
        Ok(())
    }

    fn add_file(&mut self, path: String, file: &FileCopy, caps: &SizeLimits) -> Result<(), String> {
        if self.bytes() + file.content.len() as u64 > caps.total {
            return Err(format!(
                "with the files that its symlinks point to, the skill is larger than {}",
                show_size(caps.total)
            ));
        }
        self.files.insert(path, file.clone());
        self.check_count(caps)
    }

    fn add_folder(&mut self, path: String, caps: &SizeLimits) -> Result<(), String> {
        self.folders.insert(path);
        self.check_count(caps)
    }

    fn check_count(&self, caps: &SizeLimits) -> Result<(), String> {
        if self.files.len() + self.folders.len() > caps.files {
            return Err(format!(
                "with the files that its symlinks point to, the skill has more than {} files and folders",
                caps.files
            ));
        }
        Ok(())
    }
}

/// Computes the digest of files, which are in the order of their paths.
pub(super) fn digest<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hash = ContentHash::new();
    for (path, content) in files {
        let (size, identity) = (content.len() as u64, FileIdentity::default());
        hash.add(&SkillFile { path: path.to_owned(), size, link: None, identity }, content);
    }
    hash.finish()
}

/// The files of a skill as they are listed.
#[derive(Default)]
struct Source<'a> {
    files: BTreeMap<&'a str, FileCopy>,
    /// The symlinks with their targets.
    links: BTreeMap<&'a str, &'a str>,
    /// The folders. The skill's own is the empty path.
    folders: BTreeSet<&'a str>,
}

impl Source<'_> {
    /// Follows a symlink by the targets in the listing, without the file system. Returns `None` if it
    /// leads out of the skill.
    fn resolve(&self, link: &str) -> Option<String> {
        let mut left: Vec<&str> = link.split('/').rev().collect();
        let mut at: Vec<&str> = Vec::new();
        let mut links = 0;
        while let Some(part) = left.pop() {
            match part {
                "" | "." => continue,
                ".." => {
                    at.pop()?;
                    continue;
                }
                _ => at.push(part),
            }
            if let Some(target) = self.links.get(&*at.join("/")) {
                links += 1;
                if links > MAX_LINKS || target.starts_with('/') {
                    return None;
                }
                at.pop();
                left.extend(target.split('/').rev());
            }
        }
        Some(at.join("/"))
    }
}

/// Reads a file of the listing, and its permissions.
fn read(dir: &Dir, file: &SkillFile) -> io::Result<FileCopy> {
    let opened = files::open(dir, &file.path)?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode);
    let mut content = Vec::new();
    opened.take(file.size + 1).read_to_end(&mut content)?;
    if content.len() as u64 != file.size {
        return Err(io::Error::other("it was modified at the same moment"));
    }
    Ok(FileCopy { content, is_executable: mode.contains(Mode::XUSR) })
}

fn wrong(link: &str, why: &str) -> String {
    format!("the symlink `{}` {why}", printable(link))
}

/// Returns the part of a path below a folder.
fn below<'p>(folder: &str, path: &'p str) -> Option<&'p str> {
    let inner = match folder {
        "" => path,
        folder => path.strip_prefix(folder)?.strip_prefix('/')?,
    };
    Some(inner).filter(|inner| !inner.is_empty())
}

fn join(folder: &str, inner: &str) -> String {
    if folder.is_empty() { inner.to_owned() } else { format!("{folder}/{inner}") }
}
