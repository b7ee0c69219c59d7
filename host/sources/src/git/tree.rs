//! Stages the files of a commit.

use std::collections::{HashSet, VecDeque};
use std::path::Path;

use super::corrupt;
use super::object::{Object, ObjectId, ObjectKind, Objects};
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::limits::TransferLimits;
use crate::staging::{Staged, Unpacker};

/// The mode of a submodule, whose id is that of a commit in another repository.
const SUBMODULE: u32 = 0o160_000;

/// The most tags that may point to one another.
const MAX_TAGS: usize = 5;

/// A staged commit.
#[derive(Debug)]
pub(super) struct StagedCommit {
    pub(super) id: ObjectId,
    /// The object itself.
    pub(super) text: Vec<u8>,
    pub(super) staged: Staged,
    /// The paths and commits of its submodules.
    pub(super) submodules: Vec<(String, ObjectId)>,
}

/// Stages the files of a commit, or of what a tag points to.
pub(super) fn stage(
    objects: &dyn Objects,
    id: ObjectId,
    within: &Path,
    limits: &TransferLimits,
) -> Result<StagedCommit, SourceError> {
    let mut to = Unpacker::new(within, limits, limits.bytes)?;
    let (id, submodules) = unpack(objects, id, &mut to)?;
    let text = commit(objects, id)?.1.content;
    Ok(StagedCommit { id, text, staged: to.finish(), submodules })
}

/// Adds the files of a commit, or of what a tag points to. Returns the commit's id, and the paths and
/// commits of its submodules.
pub(super) fn unpack(
    objects: &dyn Objects,
    id: ObjectId,
    to: &mut Unpacker,
) -> Result<(ObjectId, Vec<(String, ObjectId)>), SourceError> {
    let (id, commit) = commit(objects, id)?;
    let mut submodules = Vec::new();
    let mut trees = VecDeque::from([(String::new(), field(&commit.content, "tree")?)]);
    while let Some((folder, tree)) = trees.pop_front() {
        let tree = objects.read(tree)?;
        if tree.kind != ObjectKind::Tree {
            return Err(corrupt("a folder is not a tree"));
        }
        let mut names = HashSet::new();
        for entry in entries(&tree.content)? {
            // Two folders of one name would become one, and other readers see only one of them.
            if !names.insert(entry.name) {
                let why = "the name occurs twice in a folder of the repository";
                return Err(Refusal::at(RefusalRule::NameCollision, entry.name, why).into());
            }
            let path = match folder.as_str() {
                "" => entry.name.to_owned(),
                folder => [folder.as_bytes(), b"/", entry.name].concat(),
            };
            // Otherwise `.` would be the folder itself, and a name with `/` another folder.
            if matches!(entry.name, b"" | b".") || entry.name.contains(&b'/') {
                let why = "the name is not valid in a repository";
                return Err(Refusal::at(RefusalRule::InvalidName, &path, why).into());
            }
            if entry.mode == SUBMODULE {
                to.count()?;
                submodules.push((String::from_utf8_lossy(&path).into_owned(), entry.id));
                continue;
            }
            add(objects, path, &entry, to, &mut trees)?;
        }
    }
    Ok((id, submodules))
}

/// Returns the text of an annotated tag, if it has this name and points to this commit: another
/// name could make an old version look like a new one.
pub(super) fn tag(
    objects: &dyn Objects,
    tag: ObjectId,
    name: &str,
    commit: ObjectId,
) -> Option<Vec<u8>> {
    let object = objects.read(tag).ok().filter(|object| object.kind == ObjectKind::Tag)?;
    let is_for_it = field(&object.content, "object").is_ok_and(|id| id == commit);
    let header = object.content.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    let names: Vec<&[u8]> = header.filter_map(|line| line.strip_prefix(b"tag ")).collect();
    (is_for_it && names == [name.as_bytes()]).then_some(object.content)
}

/// Reads a commit, or that which a tag points to.
pub(super) fn commit(
    objects: &dyn Objects,
    mut id: ObjectId,
) -> Result<(ObjectId, Object), SourceError> {
    let mut object = objects.read(id)?;
    for _ in 0..MAX_TAGS {
        if object.kind != ObjectKind::Tag {
            break;
        }
        id = field(&object.content, "object")?;
        object = objects.read(id)?;
    }
    match object.kind {
        ObjectKind::Commit => Ok((id, object)),
        _ => Err(SourceError::request(
            format!("{id} is not a commit"),
            "name a tag, a branch or a commit",
        )),
    }
}

/// Checks whether a commit is another one, or in its history.
pub(super) fn contains(
    objects: &dyn Objects,
    tip: ObjectId,
    sought: ObjectId,
) -> Result<bool, SourceError> {
    let (mut known, mut left) = (HashSet::from([tip]), vec![tip]);
    while let Some(id) = left.pop() {
        if id == sought {
            return Ok(true);
        }
        let (_, commit) = commit(objects, id)?;
        let header =
            commit.content.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
        for line in header.filter(|line| line.starts_with(b"parent ")) {
            let parent = field(line, "parent")?;
            if known.insert(parent) {
                left.push(parent);
            }
        }
    }
    Ok(false)
}

/// An entry of a tree.
struct Entry<'a> {
    mode: u32,
    name: &'a [u8],
    id: ObjectId,
}

/// Adds an entry that is not a submodule.
fn add(
    objects: &dyn Objects,
    path: Vec<u8>,
    entry: &Entry<'_>,
    to: &mut Unpacker,
    trees: &mut VecDeque<(String, ObjectId)>,
) -> Result<(), SourceError> {
    match entry.mode {
        0o040_000 => {
            to.folder(&path)?;
            let path = String::from_utf8(path).map_err(|_| corrupt("a name is not UTF-8"))?;
            if !crate::names::is_repository(&path) {
                trees.push_back((path, entry.id));
            }
        }
        0o120_000 => to.link(&path, &blob(objects, entry.id)?)?,
        0o100_644 | 0o100_755 | 0o100_664 => {
            to.file(&path, &mut blob(objects, entry.id)?.as_slice())?;
        }
        _ => {
            let why = "the entry has an unknown mode";
            return Err(Refusal::at(RefusalRule::SpecialFile, &path, why).into());
        }
    }
    Ok(())
}

fn blob(objects: &dyn Objects, id: ObjectId) -> Result<Vec<u8>, SourceError> {
    let object = objects.read(id)?;
    match object.kind {
        ObjectKind::Blob => Ok(object.content),
        _ => Err(corrupt("a file is not a blob")),
    }
}

/// Returns the id in the first line of a commit or a tag.
fn field(content: &[u8], name: &str) -> Result<ObjectId, SourceError> {
    let line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let id = str::from_utf8(line).ok().and_then(|line| line.strip_prefix(name)?.strip_prefix(' '));
    id.and_then(|id| id.parse().ok()).ok_or_else(|| corrupt(format!("an object has no {name}")))
}

fn entries(mut content: &[u8]) -> Result<Vec<Entry<'_>>, SourceError> {
    let broken = || corrupt("a tree is damaged");
    let mut entries = Vec::new();
    while !content.is_empty() {
        let space = content.iter().position(|byte| *byte == b' ').ok_or_else(broken)?;
        let end = content
            .iter()
            .position(|byte| *byte == 0)
            .filter(|end| *end > space)
            .ok_or_else(broken)?;
        let mode = str::from_utf8(&content[..space]).map_err(|_| broken())?;
        let mode = u32::from_str_radix(mode, 8).map_err(|_| broken())?;
        let id = content.get(end + 1..end + 21).ok_or_else(broken)?;
        let mut bytes = [0; 20];
        bytes.copy_from_slice(id);
        entries.push(Entry { mode, name: &content[space + 1..end], id: ObjectId(bytes) });
        content = &content[end + 21..];
    }
    Ok(entries)
}
