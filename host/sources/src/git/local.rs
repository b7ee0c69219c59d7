//! Reads the objects of a repository on this machine, without a program and without its
//! configuration.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{self, BufReader, Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use flate2::bufread::ZlibDecoder;
use rustix::fs::OFlags;
use skillhost_policy::limits::show_size;

use super::object::{Object, ObjectId, ObjectKind, Objects};
use super::pack::{self, Base, Header};
use super::{Reference, corrupt};
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::limits::TransferLimits;

/// Bytes of a file with references.
const MAX_REFERENCES: u64 = 16 << 20;
/// Bytes of all indexes: nine million objects.
const MAX_INDEXES: u64 = 256 << 20;
/// The most packs.
const MAX_PACKS: usize = 1000;
/// The longest chain of differences. Git itself writes at most 50, and accepts 4095.
const MAX_CHAIN: usize = 4095;
/// How many times the limit of a transfer may be decompressed: differences are decoded again for
/// each object that needs them.
const WORK: u64 = 8;
/// What each step costs at least, in bytes: a chain of differences may have thousands of tiny ones.
const STEP: u64 = 1 << 10;

/// A repository.
pub(super) struct Repository {
    /// Its `.git`, or the folder itself if it is bare.
    folder: Dir,
    path: String,
    packs: Vec<PackFile>,
    /// Bytes that may still be decompressed.
    left: Cell<u64>,
    max: u64,
}

/// A pack and its index.
struct PackFile {
    file: std::fs::File,
    index: Vec<u8>,
}

impl Repository {
    /// Opens a repository.
    pub(super) fn open(path: &Path, limits: &TransferLimits) -> Result<Repository, SourceError> {
        let shown = path.display().to_string();
        let fail =
            |error: io::Error| SourceError::io(format!("open the repository {shown}"), error);
        #[expect(clippy::disallowed_methods, reason = "a folder that the operator names")]
        let top = Dir::open_ambient_dir(path, cap_std::ambient_authority()).map_err(fail)?;
        let folder = if top.is_dir(".git") { top.open_dir(".git").map_err(fail)? } else { top };
        if !folder.is_dir("objects") || !folder.is_file("HEAD") {
            return Err(SourceError::request(
                format!("{shown} is not a Git repository"),
                "name its top folder; write a folder without Git as ./FOLDER",
            ));
        }
        if folder.exists("objects/info/alternates") {
            let why = "repositories that borrow objects from others are not supported";
            return Err(Refusal::new(RefusalRule::Unsupported, why).into());
        }
        let (mut packs, mut left) = (Vec::new(), MAX_INDEXES);
        let names = folder.read_dir("objects/pack").into_iter().flatten().flatten();
        for name in names.map(|entry| entry.file_name().to_string_lossy().into_owned()) {
            let Some(stem) = name.strip_suffix(".idx") else { continue };
            if packs.len() == MAX_PACKS {
                let why = format!("the repository has more than {MAX_PACKS} packs");
                return Err(Refusal::fixed(RefusalRule::EntryCount, why).into());
            }
            let index = read(&folder, &format!("objects/pack/{name}"), left)?;
            left -= index.len() as u64;
            let file = open(&folder, &format!("objects/pack/{stem}.pack")).map_err(fail)?;
            packs.push(PackFile { file, index: check_index(index)? });
        }
        let left = Cell::new(limits.bytes.saturating_mul(WORK));
        Ok(Repository { folder, path: shown, packs, left, max: limits.bytes })
    }

    /// Returns the branches, the tags and `HEAD`.
    pub(super) fn references(&self) -> Result<Vec<Reference>, SourceError> {
        let mut references = Vec::new();
        for kind in ["refs/heads", "refs/tags"] {
            self.loose(kind, &mut references, 0)?;
        }
        if self.folder.exists("packed-refs") {
            let text = self.text("packed-refs")?;
            let mut known: HashSet<String> =
                references.iter().map(|found| found.name.clone()).collect();
            for line in text.lines().filter(|line| !line.starts_with(['#', '^'])) {
                let (id, name) =
                    line.split_once(' ').ok_or_else(|| corrupt("`packed-refs` is damaged"))?;
                // A loose reference replaces a packed one.
                if known.insert(name.to_owned()) {
                    references.push(Reference { name: name.to_owned(), id: id_of(id)?, tag: None });
                }
            }
        }
        let head = self.text("HEAD")?;
        let id = match head.trim_end().strip_prefix("ref: ") {
            Some(name) => references.iter().find(|found| found.name == name).map(|found| found.id),
            None => Some(id_of(head.trim_end())?),
        };
        references.extend(id.map(|id| Reference { name: "HEAD".to_owned(), id, tag: None }));
        Ok(references)
    }

    /// Adds the references below a folder, each of which is a file.
    fn loose(
        &self,
        folder: &str,
        found: &mut Vec<Reference>,
        depth: usize,
    ) -> Result<(), SourceError> {
        let Ok(entries) = self.folder.read_dir(folder) else { return Ok(()) };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let name = format!("{folder}/{name}");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < 16 => self.loose(&name, found, depth + 1)?,
                Ok(kind) if kind.is_file() && !name.ends_with(".lock") => {
                    let id = id_of(self.text(&name)?.trim_end())?;
                    found.push(Reference { name, id, tag: None });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Stores an object, unless it is there.
    pub(super) fn write_object(&self, id: ObjectId, compressed: &[u8]) -> Result<(), SourceError> {
        let hex = id.to_string();
        let (folder, name) = hex.split_at(2);
        let folder = format!("objects/{folder}");
        match self.folder.create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(SourceError::io(format!("write to {}", self.path), error))
            }
            _ => self.write_new(&format!("{folder}/{name}"), compressed),
        }
    }

    /// Stores a tag, which is new.
    pub(super) fn write_tag(&self, tag: &str, id: ObjectId) -> Result<(), SourceError> {
        let path = format!("refs/tags/{tag}");
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder
                .create_dir_all(folder)
                .map_err(|error| SourceError::io(format!("write to {}", self.path), error))?;
        }
        self.write_new(&path, format!("{id}\n").as_bytes())?;
        match self.text(&path)?.trim_end() == id.to_string() {
            true => Ok(()),
            false => {
                let why = format!("the tag `{tag}` was created by something else");
                Err(SourceError::request(why, "publish under another tag"))
            }
        }
    }

    /// Writes a file that appears complete, unless it is there.
    fn write_new(&self, path: &str, content: &[u8]) -> Result<(), SourceError> {
        let fail = |error: io::Error| SourceError::io(format!("write to {}", self.path), error);
        let temporary = format!("{path}.lock");
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let mut file = self.folder.open_with(&temporary, &options).map_err(fail)?;
        let written = file.write_all(content).and_then(|()| {
            match self.folder.hard_link(&temporary, &self.folder, path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                linked => linked,
            }
        });
        self.folder.remove_file(&temporary).map_err(fail)?;
        written.map_err(fail)
    }

    fn text(&self, path: &str) -> Result<String, SourceError> {
        let bytes = read(&self.folder, path, MAX_REFERENCES)?;
        String::from_utf8(bytes).map_err(|_| corrupt(format!("`{path}` is not UTF-8")))
    }

    fn charge(&self, size: u64) -> Result<(), Refusal> {
        let left = self.left.get().checked_sub(size.max(STEP)).filter(|_| size <= self.max);
        self.left.set(left.ok_or_else(|| {
            let why = format!("the objects are larger than {}", show_size(self.max));
            Refusal::new(RefusalRule::TransferSize, why)
        })?);
        Ok(())
    }

    /// Reads an object that is a file of its own.
    fn read_loose(&self, id: ObjectId) -> Result<Option<Object>, SourceError> {
        let hex = id.to_string();
        let path = format!("objects/{}/{}", &hex[..2], &hex[2..]);
        let file = match open(&self.folder, &path) {
            Ok(file) => BufReader::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SourceError::io(format!("read the object {id}"), error)),
        };
        let broken = || corrupt(format!("the object {id} is damaged"));
        let mut decoder = ZlibDecoder::new(file);
        let mut header = Vec::new();
        loop {
            let mut byte = [0];
            decoder.read_exact(&mut byte).map_err(|_| broken())?;
            match byte[0] {
                0 => break,
                _ if header.len() == 32 => return Err(broken()),
                byte => header.push(byte),
            }
        }
        let header = String::from_utf8(header).map_err(|_| broken())?;
        let (kind, size) = header.split_once(' ').ok_or_else(broken)?;
        let kind = ObjectKind::from_name(kind.as_bytes()).ok_or_else(broken)?;
        let size: u64 = size.parse().map_err(|_| broken())?;
        self.charge(size)?;
        let mut content = Vec::new();
        decoder.take(size + 1).read_to_end(&mut content).map_err(|_| broken())?;
        match content.len() as u64 == size {
            true => Ok(Some(Object { kind, content })),
            false => Err(broken()),
        }
    }

    /// Reads the object at an offset of a pack, and applies the differences that lead to it.
    fn read_packed(&self, pack: &PackFile, offset: u64) -> Result<Object, SourceError> {
        let (mut at, mut deltas) = (offset, Vec::new());
        let mut object = loop {
            let mut from = BufReader::new(At { file: &pack.file, at });
            let (header, size) = pack::read_header(&mut from, at)?;
            self.charge(size)?;
            let content = pack::inflate(&mut from, size)?;
            match header {
                Header::Whole(kind) => break Object { kind, content },
                Header::Delta(_) if deltas.len() == MAX_CHAIN => {
                    return Err(corrupt("the differences of an object form too long a chain"));
                }
                Header::Delta(base) => {
                    deltas.push(content);
                    at = match base {
                        Base::Offset(at) => at,
                        Base::Id(id) => pack
                            .find(id)
                            .ok_or_else(|| corrupt(format!("the pack lacks the object {id}")))?,
                    };
                }
            }
        };
        while let Some(delta) = deltas.pop() {
            self.charge(pack::delta_sizes(&delta)?.1)?;
            object.content = pack::apply(&object.content, &delta)?;
        }
        Ok(object)
    }
}

impl Objects for Repository {
    fn read(&self, id: ObjectId) -> Result<Object, SourceError> {
        let packed = self.packs.iter().find_map(|pack| Some((pack, pack.find(id)?)));
        let object = match packed {
            Some((pack, offset)) => self.read_packed(pack, offset)?,
            None => self.read_loose(id)?.ok_or_else(|| {
                SourceError::request(
                    format!("the repository {} has no object {id}", self.path),
                    "name a tag, a branch or a commit that it has",
                )
            })?,
        };
        match object.id()? == id {
            true => Ok(object),
            false => Err(corrupt(format!("the object {id} is damaged"))),
        }
    }
}

/// Bytes before the table of ids: magic, version and 256 counts.
const TABLE: usize = 8 + 256 * 4;

/// Checks that an index has the tables that it announces.
fn check_index(index: Vec<u8>) -> Result<Vec<u8>, SourceError> {
    let is_valid = index.len() >= TABLE && index.starts_with(b"\xfftOc\0\0\0\x02") && {
        let counts: Vec<u32> = (0..256).map(|byte| u32_at(&index, 8 + 4 * byte)).collect();
        counts.is_sorted() && index.len() >= TABLE + counts[255] as usize * 28 + 40
    };
    match is_valid {
        true => Ok(index),
        false => Err(corrupt("the index of a pack is damaged, or not of version 2")),
    }
}

impl PackFile {
    /// Returns the offset of an object.
    fn find(&self, id: ObjectId) -> Option<u64> {
        let count = |byte: usize| u32_at(&self.index, 8 + 4 * byte) as usize;
        let first = usize::from(id.0[0]);
        let (mut low, mut high) = (if first == 0 { 0 } else { count(first - 1) }, count(first));
        let total = count(255);
        while low < high {
            let middle = low.midpoint(high);
            let at = TABLE + 20 * middle;
            match self.index[at..at + 20].cmp(&id.0) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let offset = u32_at(&self.index, TABLE + 24 * total + 4 * middle);
                    if offset & 1 << 31 == 0 {
                        return Some(offset.into());
                    }
                    let at = TABLE + 28 * total + 8 * (offset & !(1 << 31)) as usize;
                    let bytes = self.index.get(at..at + 8)?;
                    return Some(u64::from_be_bytes(bytes.try_into().ok()?));
                }
            }
        }
        None
    }
}

/// A file from an offset on.
struct At<'a> {
    file: &'a std::fs::File,
    at: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn id_of(text: &str) -> Result<ObjectId, SourceError> {
    text.parse().map_err(|_| corrupt("a reference is not an object id; SHA-256 is not supported"))
}

/// Opens a regular file, without waiting at a pipe.
fn open(folder: &Dir, path: &str) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = folder.open_with(path, &options)?.into_std();
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

fn read(folder: &Dir, path: &str, max: u64) -> Result<Vec<u8>, SourceError> {
    let fail =
        |error: io::Error| SourceError::io(format!("read `{path}` of the repository"), error);
    let file = open(folder, path).map_err(fail)?;
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes).map_err(fail)?;
    match bytes.len() as u64 <= max {
        true => Ok(bytes),
        false => Err(corrupt(format!("`{path}` is larger than {}", show_size(max)))),
    }
}
