//! Trees of files, and the differences between two trees.

use std::collections::BTreeMap;

use super::objects::Id;
use super::repository::Repository;

pub(super) struct Entry {
    pub(super) mode: u32,
    pub(super) name: Vec<u8>,
    pub(super) id: Id,
}

/// A file: git's mode, and the name of its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Item {
    pub(super) mode: u32,
    pub(super) id: Id,
    /// Whether the content is in the work tree rather than among the objects.
    pub(super) work: bool,
}

pub(super) type Files = BTreeMap<String, Item>;

/// A changed file. `old` is `None` for a new file, `new` for a deleted one.
#[derive(Clone, Debug)]
pub(super) struct FileChange {
    pub(super) path: String,
    pub(super) old: Option<Item>,
    pub(super) new: Option<Item>,
    /// The previous path of a renamed file.
    pub(super) from: Option<String>,
}

const FOLDER: u32 = 0o040_000;
pub(super) const SUBMODULE: u32 = 0o160_000;

impl FileChange {
    pub(super) fn letter(&self) -> char {
        match (&self.old, &self.new) {
            _ if self.from.is_some() => 'R',
            (None, _) => 'A',
            (_, None) => 'D',
            (Some(old), Some(new)) if old.mode >> 12 != new.mode >> 12 => 'T',
            _ => 'M',
        }
    }
}

pub(super) fn entries(data: &[u8]) -> Vec<Entry> {
    let (mut all, mut rest) = (Vec::new(), data);
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let head = &rest[..end];
        let Some(space) = head.iter().position(|byte| *byte == b' ') else { break };
        let mode = std::str::from_utf8(&head[..space])
            .ok()
            .and_then(|mode| u32::from_str_radix(mode, 8).ok());
        let id = rest.get(end + 1..end + 21).and_then(|id| id.try_into().ok()).map(Id);
        let (Some(mode), Some(id)) = (mode, id) else { break };
        all.push(Entry { mode, name: head[space + 1..].to_vec(), id });
        rest = &rest[end + 21..];
    }
    all
}

impl Repository {
    /// Returns all files of a tree.
    pub(super) async fn files(&mut self, tree: Option<Id>) -> Result<Files, String> {
        let changed = self.between(None, tree).await?;
        Ok(changed.into_iter().filter_map(|one| Some((one.path, one.new?))).collect())
    }

    /// Returns the differences between two trees, sorted by path. Renames are detected by equal
    /// content only.
    pub(super) async fn between(
        &mut self,
        old: Option<Id>,
        new: Option<Id>,
    ) -> Result<Vec<FileChange>, String> {
        let mut all = Vec::new();
        let mut folders = vec![(String::new(), old, new)];
        while let Some((folder, old, new)) = folders.pop() {
            let (old, new) = (self.named_entries(old).await?, self.named_entries(new).await?);
            let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let (one, other) = (old.get(name), new.get(name));
                if one == other {
                    continue;
                }
                let path = format!("{folder}{name}");
                let tree = |side: Option<&(u32, Id)>| {
                    side.filter(|(mode, _)| *mode == FOLDER).map(|(_, id)| *id)
                };
                let file = |side: Option<&(u32, Id)>| {
                    side.filter(|(mode, _)| *mode != FOLDER).map(|(mode, id)| Item {
                        mode: *mode,
                        id: *id,
                        work: false,
                    })
                };
                if tree(one).is_some() || tree(other).is_some() {
                    folders.push((format!("{path}/"), tree(one), tree(other)));
                }
                if file(one).is_some() || file(other).is_some() {
                    all.push(FileChange { path, old: file(one), new: file(other), from: None });
                }
            }
        }
        all.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }

    async fn named_entries(
        &mut self,
        tree: Option<Id>,
    ) -> Result<BTreeMap<String, (u32, Id)>, String> {
        let Some(id) = tree else { return Ok(BTreeMap::new()) };
        let object = self.object(id).await?;
        Ok(entries(&object.data)
            .into_iter()
            .map(|one| (String::from_utf8_lossy(&one.name).into_owned(), (one.mode, one.id)))
            .collect())
    }
}

/// Compares two lists of files.
pub(super) fn compare(old: &Files, new: &Files) -> Vec<FileChange> {
    let mut paths: Vec<&String> = old.keys().chain(new.keys()).collect();
    paths.sort();
    paths.dedup();
    let pairs =
        paths.into_iter().map(|path| (path, old.get(path).copied(), new.get(path).copied()));
    let differ = |old: &Option<Item>, new: &Option<Item>| {
        old.map(|one| (one.mode, one.id)) != new.map(|one| (one.mode, one.id))
    };
    pairs
        .filter(|(_, old, new)| differ(old, new))
        .map(|(path, old, new)| FileChange { path: path.clone(), old, new, from: None })
        .collect()
}

/// Joins a deleted and a new file of equal content to a rename.
pub(super) fn detect_renames(mut all: Vec<FileChange>) -> Vec<FileChange> {
    let mut gone: Vec<usize> = (0..all.len()).filter(|at| all[*at].new.is_none()).collect();
    let mut used = Vec::new();
    for at in 0..all.len() {
        let (None, Some(new)) = (all[at].old, all[at].new) else { continue };
        let name = |path: &str| path.rsplit('/').next().map(str::to_owned);
        let same = |from: &&usize| {
            all[**from].old.is_some_and(|old| old.id == new.id && old.mode >> 12 == new.mode >> 12)
        };
        // Prefers a deleted file of the same name.
        let found = gone
            .iter()
            .filter(same)
            .min_by_key(|from| name(&all[**from].path) != name(&all[at].path))
            .copied();
        if let Some(from) = found.filter(|_| new.id != Id::of_blob(b"")) {
            gone.retain(|other| *other != from);
            used.push(from);
            (all[at].old, all[at].from) = (all[from].old, Some(all[from].path.clone()));
        }
    }
    let mut at = 0;
    all.retain(|_| {
        at += 1;
        !used.contains(&(at - 1))
    });
    all
}

/// Quotes a path as git does, if it contains non-ASCII bytes or special characters.
pub(super) fn quote_path(path: &str) -> String {
    if path.bytes().all(|byte| (0x20..0x7f).contains(&byte) && !matches!(byte, b'"' | b'\\')) {
        return path.to_owned();
    }
    let mut out = String::from("\"");
    for byte in path.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b'\n' => out += "\\n",
            b'\t' => out += "\\t",
            0x20..0x7f => out.push(char::from(byte)),
            _ => out += &format!("\\{byte:03o}"),
        }
    }
    out + "\""
}
