//! Unpacks a ZIP file: exactly one archive from the first byte to the last, whose entries follow one
//! another and are named alike in both places.
//!
//! A ZIP file lists its entries at its end and repeats each before its content. Where the two
//! differ, overlap or leave gaps, readers disagree about the content, so such files are refused.
//! ZIP64 is not needed below 4 GiB, encryption and rare compressions are not supported.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

use flate2::CrcReader;
use flate2::read::DeflateDecoder;

use super::{Ceiling, Meter};
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::staging::Unpacker;

/// Bytes of the record at the end, without its comment.
const END: usize = 22;
/// Bytes of an entry of the directory, without its name and what follows.
const ENTRY: usize = 46;
/// Bytes of the header before a content, without its name and what follows.
const LOCAL: usize = 30;
/// The bit of the flags that says that an entry is encrypted; or its directory is.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
/// The bit that says that sizes and checksum follow the content.
const DESCRIPTOR: u16 = 1 << 3;
/// The longest target of a symlink.
const MAX_TARGET: u64 = 4096;

/// An entry of the directory.
struct Entry {
    name: Vec<u8>,
    flags: u16,
    method: u16,
    crc: u32,
    compressed: u64,
    size: u64,
    /// Where its header is.
    at: u64,
    /// The Unix mode, or 0 if the archive was made elsewhere.
    mode: u32,
}

/// Unpacks a file of `size` bytes, whose content may have as many bytes as the ceiling says.
pub(super) fn unpack(
    file: &File,
    size: u64,
    ceiling: &Ceiling,
    to: &mut Unpacker,
) -> Result<(), SourceError> {
    let (mut entries, directory) = directory(file, size, to.limits().entries)?;
    entries.sort_by_key(|entry| entry.at);
    let mut allowed = ceiling.bytes;
    let mut next = 0;
    for (number, entry) in entries.iter().enumerate() {
        if entry.at != next {
            let why = "the entries overlap, or there is something between them";
            return Err(Refusal::at(RefusalRule::Corrupt, &entry.name, why).into());
        }
        let end = entries.get(number + 1).map_or(directory, |following| following.at);
        let content = content(file, entry, end)?;
        next = end;
        allowed = allowed.checked_sub(entry.size).ok_or_else(|| ceiling.refusal())?;
        extract(file, entry, content, to)?;
    }
    match next == directory {
        true => Ok(()),
        false => Err(corrupt("there is something before the directory").into()),
    }
}

/// Reads the directory. Returns its entries, and where it starts.
fn directory(file: &File, size: u64, max: u64) -> Result<(Vec<Entry>, u64), SourceError> {
    let tail_size = size.min((END + usize::from(u16::MAX)) as u64);
    let tail = read(file, size - tail_size, tail_size as usize)?;
    // Exactly one record whose comment ends with the file.
    let is_end = |at: &usize| {
        tail[*at..].starts_with(b"PK\x05\x06")
            && tail.len() - at >= END
            && at + END + usize::from(u16_at(&tail, at + 20)) == tail.len()
    };
    let mut ends = (0..tail.len()).filter(is_end);
    let (Some(at), None) = (ends.next(), ends.next()) else {
        let why = "the archive is truncated, or something follows its end";
        return Err(Refusal::new(RefusalRule::Truncated, why).into());
    };
    let end = &tail[at..];
    let (disks, here, count) = (u32_at(end, 4), u16_at(end, 8), u16_at(end, 10));
    let (length, start) = (u64::from(u32_at(end, 12)), u64::from(u32_at(end, 16)));
    if disks != 0 || here != count {
        return Err(unsupported("archives of several parts are not supported").into());
    }
    if count == u16::MAX || start == u64::from(u32::MAX) {
        return Err(unsupported("ZIP64 archives are not supported").into());
    }
    if u64::from(count) > max {
        let why = format!("more than {max} files and folders");
        return Err(Refusal::new(RefusalRule::EntryCount, why).into());
    }
    if start + length != size - tail_size + at as u64 {
        return Err(corrupt("the directory is not before the end of the archive").into());
    }
    let bytes = read(file, start, length as usize)?;
    let (mut rest, mut entries) = (bytes.as_slice(), Vec::with_capacity(usize::from(count)));
    while !rest.is_empty() {
        let (entry, more) = parse(rest)?;
        entries.push(entry);
        rest = more;
    }
    match entries.len() == usize::from(count) {
        true => Ok((entries, start)),
        false => Err(corrupt("the directory has another number of entries than it says").into()),
    }
}

/// Parses the first entry of a directory. Returns it, and what follows.
fn parse(bytes: &[u8]) -> Result<(Entry, &[u8]), Refusal> {
    let broken = || corrupt("the directory is damaged");
    if bytes.len() < ENTRY || !bytes.starts_with(b"PK\x01\x02") {
        return Err(broken());
    }
    let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(u16_at(bytes, at)));
    let end = ENTRY + name + extra + comment;
    let (Some(name), Some(rest)) = (bytes.get(ENTRY..ENTRY + name), bytes.get(end..)) else {
        return Err(broken());
    };
    // The upper byte says which system wrote the attributes: 3 is Unix, 19 macOS.
    let is_unix = matches!(bytes[5], 3 | 19);
    Ok((
        Entry {
            name: name.to_owned(),
            flags: u16_at(bytes, 8),
            method: u16_at(bytes, 10),
            crc: u32_at(bytes, 16),
            compressed: u64::from(u32_at(bytes, 20)),
            size: u64::from(u32_at(bytes, 24)),
            at: u64::from(u32_at(bytes, 42)),
            mode: if is_unix { u32_at(bytes, 38) >> 16 } else { 0 },
        },
        rest,
    ))
}

/// Compares the header of an entry, and returns where its content starts. `end`: where the next
/// entry starts.
fn content(file: &File, entry: &Entry, end: u64) -> Result<u64, SourceError> {
    let differs = || Refusal::at(RefusalRule::Corrupt, &entry.name, "the two headers differ");
    if entry.flags & ENCRYPTED != 0 {
        let why = "encrypted archives are not supported";
        return Err(Refusal::at(RefusalRule::Unsupported, &entry.name, why).into());
    }
    let header = read(file, entry.at, LOCAL + entry.name.len())?;
    let [name, extra] = [26, 28].map(|at| usize::from(u16_at(&header, at)));
    let has_descriptor = entry.flags & DESCRIPTOR != 0;
    let is_same = |value: u64, at: usize| {
        u64::from(u32_at(&header, at)) == value || has_descriptor && u32_at(&header, at) == 0
    };
    if !header.starts_with(b"PK\x03\x04")
        || name != entry.name.len()
        || header[LOCAL..] != entry.name
        || u16_at(&header, 6) != entry.flags
        || u16_at(&header, 8) != entry.method
        || !is_same(u64::from(entry.crc), 14)
        || !is_same(entry.compressed, 18)
        || !is_same(entry.size, 22)
    {
        return Err(differs().into());
    }
    let start = entry.at + (LOCAL + name + extra) as u64;
    let after = end.checked_sub(start + entry.compressed);
    // A descriptor has 12 bytes, or 16 with its optional signature.
    match (after, has_descriptor) {
        (Some(0), false) | (Some(12 | 16), true) => Ok(start),
        // Directories of some tools announce a descriptor and have none.
        (Some(0), true) if entry.size == 0 => Ok(start),
        _ => {
            let why = "the entries overlap, or there is something between them";
            Err(Refusal::at(RefusalRule::Corrupt, &entry.name, why).into())
        }
    }
}

fn extract(file: &File, entry: &Entry, start: u64, to: &mut Unpacker) -> Result<(), SourceError> {
    let name = &entry.name;
    let is_folder = name.ends_with(b"/");
    match entry.mode & 0o170_000 {
        0o040_000 if !is_folder => {
            let why = "the entry is a folder, and its name does not end with `/`";
            return Err(Refusal::at(RefusalRule::Corrupt, name, why).into());
        }
        0 | 0o100_000 | 0o040_000 => {}
        0o120_000 if !is_folder => {
            let mut target = Vec::new();
            let link = |reader: &mut dyn Read| {
                reader.take(MAX_TARGET + 1).read_to_end(&mut target).map(|read| read as u64)
            };
            decode(file, entry, start, link)?;
            return to.link(name, &target);
        }
        _ => {
            let why = "devices, pipes and sockets are not supported";
            return Err(Refusal::at(RefusalRule::SpecialFile, name, why).into());
        }
    }
    if is_folder {
        return match entry.size {
            0 => to.folder(name),
            _ => Err(Refusal::at(RefusalRule::Corrupt, name, "a folder has content").into()),
        };
    }
    let mut failed = None;
    let copied = decode(file, entry, start, |reader| match to.file(name, reader) {
        Ok(size) => Ok(size),
        Err(SourceError::Input(error)) => Err(error),
        Err(error) => {
            failed = Some(error);
            Err(io::Error::other("refused"))
        }
    });
    match failed {
        Some(error) => Err(error),
        None => copied,
    }
}

/// Hands the content of an entry to `take`, which reads it to its end and returns its size. Checks
/// size and checksum.
fn decode(
    file: &File,
    entry: &Entry,
    start: u64,
    take: impl FnOnce(&mut dyn Read) -> io::Result<u64>,
) -> Result<(), SourceError> {
    let raw = Range { file, at: start, left: entry.compressed };
    let decoder = match entry.method {
        0 => Decoder::Stored(raw),
        8 => Decoder::Deflated(DeflateDecoder::new(raw)),
        _ => {
            let why = "the compression is not supported; use deflate";
            return Err(Refusal::at(RefusalRule::Unsupported, &entry.name, why).into());
        }
    };
    let larger = corrupt("the content is larger than the directory says");
    let meter = Meter::new(decoder, entry.size, larger);
    let tripped = meter.tripped.clone();
    let mut reader = CrcReader::new(meter);
    let size = take(&mut reader).map_err(|error| {
        let refusal = tripped.explain(&error);
        SourceError::from(Refusal { entry: Some(lossy(&entry.name)), ..refusal })
    })?;
    if size != entry.size || reader.crc().sum() != entry.crc {
        let why = "the content does not have the size or the checksum that the directory says";
        return Err(Refusal::at(RefusalRule::Corrupt, &entry.name, why).into());
    }
    match reader.into_inner().into_inner() {
        // Another reader may go on there.
        Decoder::Deflated(decoder) if decoder.total_in() != entry.compressed => {
            let why = "something follows the end of the compressed content";
            Err(Refusal::at(RefusalRule::Corrupt, &entry.name, why).into())
        }
        _ => Ok(()),
    }
}

/// Decodes the content of an entry.
enum Decoder<'a> {
    Stored(Range<'a>),
    Deflated(DeflateDecoder<Range<'a>>),
}

impl Read for Decoder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Decoder::Stored(range) => range.read(buffer),
            Decoder::Deflated(decoder) => decoder.read(buffer),
        }
    }
}

/// A part of a file.
struct Range<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Range<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut buffer[..want], self.at)?;
        self.at += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}

fn read(file: &File, at: u64, length: usize) -> Result<Vec<u8>, SourceError> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Refusal::new(RefusalRule::Truncated, "the archive is truncated").into()
        }
        _ => SourceError::io("read the archive", error),
    })?;
    Ok(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(300)]).into_owned()
}

fn corrupt(why: &str) -> Refusal {
    Refusal::new(RefusalRule::Corrupt, why)
}

fn unsupported(why: &str) -> Refusal {
    Refusal::new(RefusalRule::Unsupported, why)
}
