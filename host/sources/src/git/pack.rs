//! Decodes packs: many objects in one file, some of them as differences to others.
//!
//! Sizes that a pack declares are checked before anything is allocated, all objects together have a
//! bound, and each is decoded once.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, Read as _};

use flate2::bufread::ZlibDecoder;
use skillhost_policy::limits::show_size;

use super::corrupt;
use super::object::{Object, ObjectId, ObjectKind, Objects};
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::limits::TransferLimits;

/// Bytes of the header: `PACK`, the version and the number of objects.
const HEADER: usize = 12;
/// Bytes of the checksum at the end.
const TRAILER: usize = 20;

/// The objects of a pack.
#[derive(Debug)]
pub(super) struct Pack {
    objects: HashMap<ObjectId, Object>,
}

impl Objects for Pack {
    fn read(&self, id: ObjectId) -> Result<Object, SourceError> {
        let object = self.objects.get(&id).cloned();
        object.ok_or_else(|| corrupt(format!("the transfer lacks the object {id}")))
    }
}

/// What an object in a pack is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Base {
    /// The object that starts at this offset.
    Offset(u64),
    /// The object with this id.
    Id(ObjectId),
}

/// The header of an object in a pack.
#[derive(Debug)]
pub(super) enum Header {
    /// The object itself.
    Whole(ObjectKind),
    /// The difference to another object.
    Delta(Base),
}

impl Pack {
    /// Decodes a pack that is complete in itself.
    pub(super) fn decode(bytes: &[u8], limits: &TransferLimits) -> Result<Pack, SourceError> {
        let objects = bytes.len().checked_sub(TRAILER).filter(|end| *end >= HEADER);
        let end = objects.ok_or_else(|| corrupt("the pack is truncated"))?;
        let (bytes, trailer) = bytes.split_at(end);
        if !bytes.starts_with(b"PACK\0\0\0\x02") {
            return Err(corrupt("not a pack of version 2"));
        }
        let checksum = sha1dc::digest(bytes)
            .map_err(|_| corrupt("the pack was made for a collision attack on SHA-1"))?;
        if checksum.as_ref() != trailer {
            return Err(corrupt("the checksum of the pack is wrong"));
        }
        let count = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        // A commit, and at most a folder for each file.
        if u64::from(count) > limits.entries.saturating_mul(2).saturating_add(1) {
            let why = format!("the transfer has {count} objects");
            return Err(Refusal::new(RefusalRule::EntryCount, why).into());
        }
        Decoder::new(bytes, limits).run(count)
    }
}

/// Decodes the objects in their order. A difference waits for the object that it is relative to.
struct Decoder<'a> {
    bytes: &'a [u8],
    limits: &'a TransferLimits,
    /// Bytes that all objects may still have.
    left: u64,
    objects: HashMap<ObjectId, Object>,
    /// The ids of the decoded objects, by offset.
    offsets: HashMap<u64, ObjectId>,
    /// The differences that wait: their offsets and contents, by what they are relative to.
    waiting: HashMap<Base, Vec<(u64, Vec<u8>)>>,
}

impl<'a> Decoder<'a> {
    fn new(bytes: &'a [u8], limits: &'a TransferLimits) -> Decoder<'a> {
        Decoder {
            bytes,
            limits,
            left: limits.unpacked(bytes.len() as u64),
            objects: HashMap::new(),
            offsets: HashMap::new(),
            waiting: HashMap::new(),
        }
    }

    fn run(mut self, count: u32) -> Result<Pack, SourceError> {
        let mut at = HEADER;
        for _ in 0..count {
            let offset = at as u64;
            let mut rest = &self.bytes[at..];
            let (header, size) = read_header(&mut rest, offset)?;
            self.charge(size)?;
            let content = inflate(&mut rest, size)?;
            at = self.bytes.len() - rest.len();
            match header {
                Header::Whole(kind) => self.insert(offset, Object { kind, content })?,
                Header::Delta(base) => self.difference(offset, base, content)?,
            }
        }
        if at != self.bytes.len() {
            return Err(corrupt("the pack has something after its last object"));
        }
        match self.waiting.is_empty() {
            true => Ok(Pack { objects: self.objects }),
            false => Err(corrupt("the pack has a difference to an object that it lacks")),
        }
    }

    fn difference(&mut self, offset: u64, base: Base, delta: Vec<u8>) -> Result<(), SourceError> {
        let known = match base {
            Base::Offset(at) => self.offsets.get(&at).copied(),
            Base::Id(id) => self.objects.contains_key(&id).then_some(id),
        };
        match known {
            None => {
                self.waiting.entry(base).or_default().push((offset, delta));
                Ok(())
            }
            Some(id) => {
                let object = self.applied(id, &delta)?;
                self.insert(offset, object)
            }
        }
    }

    fn applied(&mut self, base: ObjectId, delta: &[u8]) -> Result<Object, SourceError> {
        let size = delta_sizes(delta)?.1;
        self.charge(size)?;
        let base = self.objects.get(&base).ok_or_else(|| corrupt("an object is missing"))?;
        Ok(Object { kind: base.kind, content: apply(&base.content, delta)? })
    }

    /// Adds an object, and those that wait for it.
    fn insert(&mut self, offset: u64, object: Object) -> Result<(), SourceError> {
        let mut added = VecDeque::from([(offset, object)]);
        while let Some((offset, object)) = added.pop_front() {
            let id = object.id()?;
            self.offsets.insert(offset, id);
            self.objects.insert(id, object);
            for base in [Base::Offset(offset), Base::Id(id)] {
                for (offset, delta) in self.waiting.remove(&base).unwrap_or_default() {
                    added.push_back((offset, self.applied(id, &delta)?));
                }
            }
        }
        Ok(())
    }

    fn charge(&mut self, size: u64) -> Result<(), Refusal> {
        self.left = self.left.checked_sub(size).ok_or_else(|| self.too_large())?;
        Ok(())
    }

    /// Names the limit that was exceeded: the lower of two.
    fn too_large(&self) -> Refusal {
        let TransferLimits { bytes, expansion, .. } = self.limits;
        match self.limits.unpacked(self.bytes.len() as u64) >= *bytes {
            true => {
                let why = format!("the objects are larger than {}", show_size(*bytes));
                Refusal::new(RefusalRule::TransferSize, why)
            }
            false => {
                let why =
                    format!("the objects are more than {expansion} times larger than the transfer");
                Refusal::new(RefusalRule::Expansion, why)
            }
        }
    }
}

/// Reads the header of an object that starts at `offset`. Returns it, and the size of what follows.
pub(super) fn read_header(
    from: &mut impl BufRead,
    offset: u64,
) -> Result<(Header, u64), SourceError> {
    let first = byte(from)?;
    let (mut size, mut shift, mut next) = (u64::from(first & 15), 4, first);
    while next & 0x80 != 0 {
        next = byte(from)?;
        if shift > 50 {
            return Err(corrupt("an object is too large"));
        }
        size |= u64::from(next & 0x7f) << shift;
        shift += 7;
    }
    let header = match first >> 4 & 7 {
        1 => Header::Whole(ObjectKind::Commit),
        2 => Header::Whole(ObjectKind::Tree),
        3 => Header::Whole(ObjectKind::Blob),
        4 => Header::Whole(ObjectKind::Tag),
        6 => {
            let mut next = byte(from)?;
            let mut distance = u64::from(next & 0x7f);
            while next & 0x80 != 0 {
                next = byte(from)?;
                if distance > 1 << 50 {
                    return Err(corrupt("an object is relative to one outside the pack"));
                }
                distance = (distance + 1) << 7 | u64::from(next & 0x7f);
            }
            let base = offset.checked_sub(distance).filter(|_| distance > 0);
            Header::Delta(Base::Offset(
                base.ok_or_else(|| corrupt("an object is relative to one outside the pack"))?,
            ))
        }
        7 => {
            let mut id = [0; 20];
            from.read_exact(&mut id).map_err(|_| corrupt("the pack is truncated"))?;
            Header::Delta(Base::Id(ObjectId(id)))
        }
        _ => return Err(corrupt("an object has an unknown kind")),
    };
    Ok((header, size))
}

fn byte(from: &mut impl BufRead) -> Result<u8, SourceError> {
    let mut byte = [0];
    from.read_exact(&mut byte).map_err(|_| corrupt("the pack is truncated"))?;
    Ok(byte[0])
}

/// Decompresses exactly `size` bytes, which the caller has charged.
pub(super) fn inflate(from: &mut impl BufRead, size: u64) -> Result<Vec<u8>, SourceError> {
    let mut decoder = ZlibDecoder::new(from);
    let mut content = Vec::new();
    let read = decoder.by_ref().take(size.saturating_add(1)).read_to_end(&mut content);
    match read {
        Ok(read) if read as u64 == size => Ok(content),
        Ok(_) => Err(corrupt("an object does not have the size that it says")),
        Err(error) => Err(corrupt(format!("an object is damaged: {error}"))),
    }
}

/// Returns the sizes of the two objects of a difference.
pub(super) fn delta_sizes(delta: &[u8]) -> Result<(u64, u64, &[u8]), SourceError> {
    let (base, rest) = delta_size(delta)?;
    let (size, rest) = delta_size(rest)?;
    Ok((base, size, rest))
}

fn delta_size(delta: &[u8]) -> Result<(u64, &[u8]), SourceError> {
    let (mut size, mut shift) = (0, 0);
    for (at, byte) in delta.iter().enumerate() {
        if shift > 50 {
            break;
        }
        size |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return Ok((size, &delta[at + 1..]));
        }
    }
    Err(corrupt("a difference has no valid size"))
}

/// Applies a difference, whose size the caller has charged.
pub(super) fn apply(base: &[u8], delta: &[u8]) -> Result<Vec<u8>, SourceError> {
    let (base_size, size, mut rest) = delta_sizes(delta)?;
    let broken = || corrupt("a difference is damaged");
    if base_size != base.len() as u64 {
        return Err(broken());
    }
    let size = usize::try_from(size).map_err(|_| broken())?;
    let mut content = Vec::new();
    while let Some((&command, after)) = rest.split_first() {
        rest = after;
        let part = if command & 0x80 != 0 {
            let mut number = |bits: std::ops::Range<u32>| {
                let mut value = 0_usize;
                for (index, bit) in bits.enumerate() {
                    if command & 1 << bit != 0 {
                        let (&byte, after) = rest.split_first().ok_or_else(broken)?;
                        rest = after;
                        value |= usize::from(byte) << (8 * index);
                    }
                }
                Ok::<usize, SourceError>(value)
            };
            let (start, length) = (number(0..4)?, number(4..7)?);
            let length = if length == 0 { 0x10000 } else { length };
            base.get(start..start + length).ok_or_else(broken)?
        } else {
            let length = usize::from(command);
            // 0 is reserved.
            let part = rest.get(..length).filter(|part| !part.is_empty()).ok_or_else(broken)?;
            rest = &rest[length..];
            part
        };
        if content.len() + part.len() > size {
            return Err(broken());
        }
        content.extend(part);
    }
    if content.len() == size { Ok(content) } else { Err(broken()) }
}
