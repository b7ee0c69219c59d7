//! Reads objects: loose ones, and those in packs.
//!
//! Not with gix: gix-object, gix-pack and gix-index compile for this target, but add 240 KiB and 77
//! crates to the component and replace only some 400 lines, because they do not read files here.

use std::collections::HashMap;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use bashkit::FileSystem;
use flate2::read::ZlibDecoder;
use sha1::{Digest as _, Sha1};

/// The name of an object: a SHA-1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id(pub(super) [u8; 20]);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Id {
    pub(super) fn parse(hex: &str) -> Option<Id> {
        let bytes = (hex.len() == 40 && hex.is_ascii())
            .then(|| (0..20).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).ok()));
        Some(Id(bytes?.collect::<Option<Vec<u8>>>()?.try_into().ok()?))
    }

    pub(super) fn of_blob(content: &[u8]) -> Id {
        let mut hash = Sha1::new();
        hash.update(format!("blob {}\0", content.len()));
        hash.update(content);
        Id(hash.finalize().into())
    }

    fn from_slice(bytes: &[u8]) -> Option<Id> {
        Some(Id(bytes.get(..20)?.try_into().ok()?))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Commit,
    Tree,
    Blob,
    Tag,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Commit => "commit",
            Kind::Tree => "tree",
            Kind::Blob => "blob",
            Kind::Tag => "tag",
        }
    }
}

#[derive(Debug)]
pub(super) struct Object {
    pub(super) kind: Kind,
    pub(super) data: Vec<u8>,
}

/// The objects of a repository.
pub(super) struct Objects {
    fs: Arc<dyn FileSystem>,
    folder: PathBuf,
    packs: Vec<Pack>,
    known: HashMap<Id, Arc<Object>>,
}

struct Pack {
    path: PathBuf,
    index: Vec<u8>,
    /// The contents of the pack, read on demand.
    data: Option<Arc<Vec<u8>>>,
}

/// The largest unpacked object, in bytes. The size stated in a pack is not trusted.
const OBJECT_MAX: u64 = 1 << 30;

type ObjectFuture<'a> = Pin<Box<dyn Future<Output = Result<Arc<Object>, String>> + Send + 'a>>;

impl Objects {
    pub(super) async fn open(fs: Arc<dyn FileSystem>, folder: PathBuf) -> Result<Objects, String> {
        if fs.exists(&folder.join("info/alternates")).await.unwrap_or(false) {
            return Err("fatal: this repository uses objects of another one (info/alternates), which this git does not support".into());
        }
        let mut packs = Vec::new();
        for entry in fs.read_dir(&folder.join("pack")).await.unwrap_or_default() {
            let path = folder.join("pack").join(&entry.name);
            if path.extension().is_some_and(|extension| extension == "idx") {
                let index = fs
                    .read_file(&path)
                    .await
                    .map_err(|error| format!("fatal: {}: {error}", path.display()))?;
                if !index.starts_with(b"\xfftOc\0\0\0\x02") || index.len() < 8 + 1024 + 40 {
                    return Err(format!(
                        "fatal: {}: only version 2 of pack indices is read here",
                        path.display()
                    ));
                }
                packs.push(Pack { path: path.with_extension("pack"), index, data: None });
            }
        }
        Ok(Objects { fs, folder, packs, known: HashMap::new() })
    }

    /// Returns the number of packed objects.
    pub(super) fn packed(&self) -> usize {
        self.packs.iter().map(Pack::count).sum()
    }

    pub(super) async fn get(&mut self, id: Id) -> Result<Arc<Object>, String> {
        if let Some(object) = self.known.get(&id) {
            return Ok(object.clone());
        }
        let object =
            match self.packs.iter().enumerate().find_map(|(at, pack)| Some((at, pack.find(id)?))) {
                Some((pack, offset)) => self.unpack(pack, offset).await?,
                None => self.loose(id).await?,
            };
        self.known.insert(id, object.clone());
        Ok(object)
    }

    /// Returns the names that begin with these hexadecimal digits.
    pub(super) async fn beginning(&self, prefix: &str) -> Vec<Id> {
        let mut found: Vec<Id> =
            self.packs.iter().flat_map(|pack| pack.beginning(prefix)).collect();
        let folder = self.folder.join(&prefix[..2]);
        for entry in self.fs.read_dir(&folder).await.unwrap_or_default() {
            let name = format!("{}{}", &prefix[..2], entry.name);
            found.extend(Id::parse(&name).filter(|_| name.starts_with(prefix)));
        }
        found.sort();
        found.dedup();
        found
    }

    async fn loose(&self, id: Id) -> Result<Arc<Object>, String> {
        let name = id.to_string();
        let path = self.folder.join(&name[..2]).join(&name[2..]);
        let bytes =
            self.fs.read_file(&path).await.map_err(|_| format!("fatal: bad object {name}"))?;
        let broken = || format!("fatal: loose object {name} is corrupt");
        let all = inflate(&bytes, OBJECT_MAX).ok_or_else(broken)?;
        let end = all.iter().position(|byte| *byte == 0).ok_or_else(broken)?;
        let kind = match all[..end].split(|byte| *byte == b' ').next() {
            Some(b"commit") => Kind::Commit,
            Some(b"tree") => Kind::Tree,
            Some(b"blob") => Kind::Blob,
            Some(b"tag") => Kind::Tag,
            _ => return Err(broken()),
        };
        Ok(Arc::new(Object { kind, data: all[end + 1..].to_vec() }))
    }

    /// Reads the object at an offset of a pack. Follows the chain of deltas down to its base, then
    /// applies them.
    fn unpack(&mut self, pack: usize, offset: usize) -> ObjectFuture<'_> {
        Box::pin(async move {
            let bytes = self.pack(pack).await?;
            let path = self.packs[pack].path.clone();
            let broken = || format!("fatal: packfile {} is corrupt", path.display());
            let (mut at, mut deltas) = (offset, Vec::new());
            let base = loop {
                let (code, size, start) = header(&bytes, at).ok_or_else(broken)?;
                let content = |from: usize| inflate(bytes.get(from..)?, size.min(OBJECT_MAX));
                match code {
                    1..=4 => {
                        let kind = [Kind::Commit, Kind::Tree, Kind::Blob, Kind::Tag]
                            [usize::from(code) - 1];
                        break Arc::new(Object { kind, data: content(start).ok_or_else(broken)? });
                    }
                    6 => {
                        let (back, start) = distance(&bytes, start).ok_or_else(broken)?;
                        deltas.push(content(start).ok_or_else(broken)?);
                        at = at.checked_sub(back).filter(|_| back > 0).ok_or_else(broken)?;
                    }
                    7 => {
                        let base =
                            bytes.get(start..).and_then(Id::from_slice).ok_or_else(broken)?;
                        deltas.push(content(start + 20).ok_or_else(broken)?);
                        match self.packs[pack].find(base) {
                            // Each step visits another object of the pack; a longer chain is a
                            // cycle.
                            Some(next) if deltas.len() <= self.packs[pack].count() => at = next,
                            _ => return Err(broken()),
                        }
                    }
                    _ => return Err(broken()),
                }
            };
            let mut object = base;
            for delta in deltas.iter().rev() {
                let data = apply(&object.data, delta).ok_or_else(broken)?;
                object = Arc::new(Object { kind: object.kind, data });
            }
            Ok(object)
        })
    }

    async fn pack(&mut self, pack: usize) -> Result<Arc<Vec<u8>>, String> {
        if let Some(data) = &self.packs[pack].data {
            return Ok(data.clone());
        }
        let path: &Path = &self.packs[pack].path;
        let data = self
            .fs
            .read_file(path)
            .await
            .map_err(|error| format!("fatal: {}: {error}", path.display()))?;
        Ok(self.packs[pack].data.insert(Arc::new(data)).clone())
    }
}

impl Pack {
    fn word(&self, at: usize) -> usize {
        self.index
            .get(at..at + 4)
            .map_or(0, |word| word.iter().fold(0, |all, byte| all << 8 | usize::from(*byte)))
    }

    fn count(&self) -> usize {
        // At most as many as the file has room for.
        self.word(8 + 255 * 4).min(self.index.len() / 28)
    }

    fn id(&self, nth: usize) -> Option<Id> {
        self.index.get(8 + 1024 + nth * 20..).and_then(Id::from_slice)
    }

    /// Returns the position of the first object whose name is not less than this one.
    fn from(&self, id: Id) -> usize {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.id(middle).is_some_and(|other| other < id) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low
    }

    /// Returns the offset of an object.
    fn find(&self, id: Id) -> Option<usize> {
        let (nth, count) = (self.from(id), self.count());
        if nth >= count || self.id(nth)? != id {
            return None;
        }
        let offset = self.word(8 + 1024 + count * 24 + nth * 4);
        // Larger offsets are in another table. This target cannot load packs of more than 2 GiB.
        (offset < 1 << 31).then_some(offset)
    }

    fn beginning(&self, prefix: &str) -> Vec<Id> {
        let Some(first) = Id::parse(&format!("{prefix:0<40}")) else { return Vec::new() };
        let all = (self.from(first)..self.count()).map_while(|nth| self.id(nth));
        all.take_while(|id| id.to_string().starts_with(prefix)).collect()
    }
}

/// Parses the header: type, size, and the offset of the content.
fn header(bytes: &[u8], at: usize) -> Option<(u8, u64, usize)> {
    let mut byte = *bytes.get(at)?;
    let code = byte >> 4 & 7;
    let (mut size, mut shift, mut at) = (u64::from(byte & 15), 4, at + 1);
    while byte & 0x80 != 0 {
        byte = *bytes.get(at)?;
        size |= u64::from(byte & 0x7f).checked_shl(shift)?;
        (shift, at) = (shift + 7, at + 1);
    }
    Some((code, size, at))
}

/// Parses the distance to a delta's base, and returns the offset of the content.
fn distance(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let (mut back, mut at) = (usize::from(byte & 0x7f), at + 1);
    while byte & 0x80 != 0 {
        byte = *bytes.get(at)?;
        back = back.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        at += 1;
    }
    Some((back, at))
}

/// Inflates at most `most` bytes.
fn inflate(bytes: &[u8], most: u64) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    ZlibDecoder::new(bytes).take(most).read_to_end(&mut all).ok()?;
    Some(all)
}

fn apply(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta;
    let next = |rest: &mut &[u8]| -> Option<u8> {
        let (first, after) = rest.split_first()?;
        *rest = after;
        Some(*first)
    };
    // The header has both sizes; the second one limits the result.
    let mut size = 0u64;
    for _ in 0..2 {
        size = 0;
        let mut shift = 0;
        loop {
            let byte = next(&mut rest)?;
            size |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    let mut out = Vec::new();
    while let Some(code) = next(&mut rest) {
        if code & 0x80 == 0 {
            let count = usize::from(code);
            out.extend(rest.get(..count).filter(|_| count > 0)?);
            rest = &rest[count..];
            continue;
        }
        let mut number = |bits: std::ops::Range<u8>, from: u8| -> Option<usize> {
            bits.filter(|bit| code & 1 << bit != 0).try_fold(0, |all, bit| {
                Some(all | usize::from(next(&mut rest)?) << (8 * (bit - from)))
            })
        };
        let (start, count) = (number(0..4, 0)?, number(4..7, 4)?);
        let count = if count == 0 { 0x10000 } else { count };
        out.extend(base.get(start..start.checked_add(count)?)?);
        if out.len() as u64 > size.min(OBJECT_MAX) {
            return None;
        }
    }
    (out.len() as u64 == size).then_some(out)
}
