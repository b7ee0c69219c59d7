//! The index, and its differences from the work tree.

use std::path::Path;

use bashkit::time::UNIX_EPOCH;
use bashkit::{FileSystem, Metadata};

use super::ignore::Ignore;
use super::objects::Id;
use super::repository::Repository;
use super::trees::{FileChange, Files, Item, SUBMODULE};

#[derive(Clone)]
pub(super) struct IndexEntry {
    pub(super) path: String,
    pub(super) item: Item,
    /// 0, or the side of a conflict.
    pub(super) stage: u16,
    seconds: u32,
    nanos: u32,
    size: u32,
    /// `git add -N`: the content is not staged yet.
    intended: bool,
}

impl Repository {
    /// Reads the index, sorted by path. Empty if there is no index file.
    pub(super) async fn index(&self) -> Result<Vec<IndexEntry>, String> {
        let Ok(bytes) = self.fs.read_file(&self.folder.join("index")).await else {
            return Ok(Vec::new());
        };
        parse(&bytes)?.ok_or_else(|| "fatal: index file corrupt".into())
    }

    /// Returns the differences between the index and the work tree.
    pub(super) async fn unstaged(&self, index: &[IndexEntry]) -> Result<Vec<FileChange>, String> {
        let work = self.work()?;
        let written =
            self.fs.stat(&self.folder.join("index")).await.map_or(0, |stat| moment(&stat).0);
        let mut all = Vec::new();
        for staged in
            index.iter().filter(|staged| staged.stage == 0 && staged.item.mode != SUBMODULE)
        {
            let path = work.join(&staged.path);
            let old = (!staged.intended).then_some(staged.item);
            let new = match self.fs.lstat(&path).await {
                Ok(stat) if !stat.file_type.is_dir() => {
                    let (seconds, nanos) = moment(&stat);
                    // A file written in the same second as the index may have changed afterwards.
                    let known = (seconds, nanos) == (staged.seconds, staged.nanos)
                        && stat.size as u32 == staged.size;
                    if known && seconds < written && !staged.intended {
                        continue;
                    }
                    let Some(content) = content(&*self.fs, &path, &stat).await else { continue };
                    Some(Item { id: Id::of_blob(&content), work: true, ..staged.item })
                }
                _ => None,
            };
            if old.map(|item| item.id) != new.map(|item| item.id) {
                all.push(FileChange { path: staged.path.clone(), old, new, from: None });
            }
        }
        Ok(all)
    }

    /// Returns the files that are neither staged nor ignored. A folder without staged files is one
    /// entry (`folder/`), unless `all` is set.
    pub(super) async fn untracked(
        &self,
        index: &[IndexEntry],
        all: bool,
        standard: bool,
    ) -> Result<Vec<String>, String> {
        let work = self.work()?.to_owned();
        let mut ignore = Ignore::default();
        if standard {
            ignore.read(&*self.fs, &self.common.join("info/exclude"), "").await;
        }
        let staged = |path: &str| index.binary_search_by(|one| one.path.as_str().cmp(path)).is_ok();
        let within = |folder: &str| {
            let at = index.partition_point(|one| one.path.as_str() < folder);
            index.get(at).is_some_and(|one| one.path.starts_with(folder))
        };
        let mut found = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            if standard {
                ignore.read(&*self.fs, &work.join(&folder).join(".gitignore"), &folder).await;
            }
            for entry in self.fs.read_dir(&work.join(&folder)).await.unwrap_or_default() {
                let path = format!("{folder}{}", entry.name);
                let is_folder = entry.metadata.file_type.is_dir();
                if entry.name == ".git"
                    || (!is_folder && staged(&path))
                    || ignore.covers(&path, is_folder)
                {
                    continue;
                }
                if !is_folder {
                    found.push(path);
                } else if all || within(&format!("{path}/")) {
                    folders.push(format!("{path}/"));
                } else if self.holds_files(&format!("{path}/"), ignore.clone()).await? {
                    found.push(format!("{path}/"));
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Returns whether a folder contains a file that is not ignored, at any depth.
    async fn holds_files(&self, folder: &str, mut ignore: Ignore) -> Result<bool, String> {
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            ignore.read(&*self.fs, &self.work()?.join(&folder).join(".gitignore"), &folder).await;
            for entry in self.fs.read_dir(&self.work()?.join(&folder)).await.unwrap_or_default() {
                let path = format!("{folder}{}", entry.name);
                match entry.metadata.file_type.is_dir() {
                    is_folder if ignore.covers(&path, is_folder) => {}
                    true => folders.push(format!("{path}/")),
                    false => return Ok(true),
                }
            }
        }
        Ok(false)
    }
}

/// Returns the staged files, without those in conflict.
pub(super) fn files(index: &[IndexEntry]) -> Files {
    index
        .iter()
        .filter(|one| one.stage == 0 && !one.intended)
        .map(|one| (one.path.clone(), one.item))
        .collect()
}

/// Reads the content of a file, or the target of a link.
pub(super) async fn content(fs: &dyn FileSystem, path: &Path, stat: &Metadata) -> Option<Vec<u8>> {
    if stat.file_type.is_symlink() {
        return Some(fs.read_link(path).await.ok()?.to_string_lossy().into_owned().into_bytes());
    }
    fs.read_file(path).await.ok()
}

fn moment(stat: &Metadata) -> (u32, u32) {
    stat.modified
        .duration_since(UNIX_EPOCH)
        .map_or((0, 0), |since| (since.as_secs() as u32, since.subsec_nanos()))
}

/// Parses the index. `None` if it is damaged.
fn parse(bytes: &[u8]) -> Result<Option<Vec<IndexEntry>>, String> {
    let word = |at: usize| {
        bytes
            .get(at..at + 4)
            .map(|word| word.iter().fold(0u32, |all, byte| all << 8 | u32::from(*byte)))
    };
    let half =
        |at: usize| bytes.get(at..at + 2).map(|half| u16::from(half[0]) << 8 | u16::from(half[1]));
    let (Some(version), Some(count)) = (word(4).filter(|_| bytes.starts_with(b"DIRC")), word(8))
    else {
        return Ok(None);
    };
    if !(2..=3).contains(&version) {
        return Err(format!("fatal: version {version} of the index is not read here, 2 and 3 are"));
    }
    let (mut all, mut at) = (Vec::new(), 12);
    for _ in 0..count {
        let (Some(seconds), Some(nanos), Some(mode), Some(size)) =
            (word(at + 8), word(at + 12), word(at + 24), word(at + 36))
        else {
            return Ok(None);
        };
        let (Some(id), Some(flags)) = (bytes.get(at + 40..at + 60), half(at + 60)) else {
            return Ok(None);
        };
        let extended = if flags & 0x4000 != 0 { half(at + 62) } else { Some(0) };
        let start = at + if flags & 0x4000 != 0 { 64 } else { 62 };
        let rest = bytes.get(start..).unwrap_or_default();
        let (Some(length), Some(extended), Ok(id)) =
            (rest.iter().position(|byte| *byte == 0), extended, id.try_into())
        else {
            return Ok(None);
        };
        let path = String::from_utf8_lossy(&rest[..length]).into_owned();
        let item = Item { mode, id: Id(id), work: false };
        all.push(IndexEntry {
            path,
            item,
            stage: flags >> 12 & 3,
            seconds,
            nanos,
            size,
            intended: extended & 0x2000 != 0,
        });
        // Names are padded with one to eight NUL bytes.
        at += (start - at + length + 8) & !7;
    }
    Ok(Some(all))
}
