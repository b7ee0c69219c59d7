//! Files of the sandbox by absolute path, over the folders that the host opened.

mod error;
mod table;

use std::cell::{OnceCell, RefCell};

use crate::bindings::wasi::clocks::wall_clock::Datetime;
use crate::bindings::wasi::filesystem::preopens::get_directories;
use crate::bindings::wasi::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, MetadataHashValue, NewTimestamp,
    OpenFlags, PathFlags,
};

pub(crate) use crate::bindings::wasi::filesystem::types::ErrorCode;
pub(crate) use error::describe;
pub(crate) use table::Table;

/// The result of an operation on a file.
pub(crate) type Result<T> = std::result::Result<T, ErrorCode>;

/// The most links that the resolution of a path follows, as on Linux.
const MOST_LINKS: usize = 40;

/// Bytes per read.
const PIECE: u64 = 1 << 20;

thread_local! {
    static FOLDERS: OnceCell<Vec<(String, Descriptor)>> = const { OnceCell::new() };
    static CURRENT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Returns the current folder.
pub(crate) fn current_dir() -> String {
    CURRENT.with_borrow(Clone::clone)
}

/// Sets the current folder, without a check.
pub(crate) fn set_current_dir(path: String) {
    CURRENT.set(path);
}

/// Returns the absolute path without `.` and `..`. A slash at the end stays.
pub(crate) fn absolute(path: &str) -> String {
    if path.starts_with('/') {
        return normalize(path);
    }
    CURRENT.with_borrow(|current| normalize(&format!("{current}/{path}")))
}

/// Removes `.`, `..` and doubled slashes from an absolute path. A slash at the end stays.
pub(crate) fn normalize(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut normal = String::with_capacity(path.len() + 1);
    for part in &parts {
        normal.push('/');
        normal.push_str(part);
    }
    if parts.is_empty() || path.ends_with('/') || path.ends_with("/.") {
        normal.push('/');
    }
    normal
}

/// Returns the folder and the name of an absolute path.
pub(crate) fn split(path: &str) -> (&str, &str) {
    let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(parts) => parts,
        None => (".", path),
    }
}

/// Calls `action` with the opened folder that contains the path, and with the path in it.
fn at<T>(path: &str, action: impl FnOnce(&Descriptor, &str) -> Result<T>) -> Result<T> {
    if path.is_empty() {
        return Err(ErrorCode::NoEntry);
    }
    if path.contains('\0') {
        return Err(ErrorCode::Invalid);
    }
    let path = absolute(path);
    FOLDERS.with(|folders| {
        let folders = folders.get_or_init(|| {
            get_directories().into_iter().map(|(folder, name)| (name, folder)).collect()
        });
        let found = folders
            .iter()
            .filter_map(|(name, folder)| Some((name.len(), folder, inside(&path, name)?)))
            .max_by_key(|(length, ..)| *length);
        let (_, folder, relative) = found.ok_or(ErrorCode::NoEntry)?;
        action(folder, if relative.is_empty() { "." } else { relative })
    })
}

/// Returns the part of `path` inside `folder`; `None` if it is outside.
fn inside<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    let folder = folder.trim_end_matches('/');
    let rest = path.strip_prefix(folder)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// Returns what is known of the file, and of a link's target if `follow`.
pub(crate) fn stat(path: &str, follow: bool) -> Result<DescriptorStat> {
    at(path, |folder, path| folder.stat_at(flags(follow), path))
}

/// Returns a number for a file, which is the same under each path that leads to it: programs compare
/// these before they overwrite or remove a file.
pub(crate) fn identity(path: &str, follow: bool) -> Result<u64> {
    at(path, |folder, path| folder.metadata_hash_at(flags(follow), path)).map(number)
}

/// Returns the number of an open file.
pub(crate) fn identity_of(file: &Descriptor) -> Result<u64> {
    file.metadata_hash().map(number)
}

/// Returns the 53 bits that a number of JavaScript has.
fn number(hash: MetadataHashValue) -> u64 {
    hash.lower >> 11
}

/// Returns whether there is a file or folder, and of which kind.
pub(crate) fn kind(path: &str) -> Option<DescriptorType> {
    stat(path, true).ok().map(|stat| stat.type_)
}

/// Opens a file.
pub(crate) fn open(path: &str, open: OpenFlags, mode: DescriptorFlags) -> Result<Descriptor> {
    at(path, |folder, path| folder.open_at(PathFlags::SYMLINK_FOLLOW, path, open, mode))
}

/// Reads a whole file.
pub(crate) fn read(path: &str) -> Result<Vec<u8>> {
    read_all(&open(path, OpenFlags::empty(), DescriptorFlags::READ)?)
}

/// Reads an open file from its start.
pub(crate) fn read_all(file: &Descriptor) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let (piece, ended) = file.read(PIECE, bytes.len() as u64)?;
        let empty = piece.is_empty();
        if bytes.is_empty() {
            bytes = piece;
        } else {
            bytes.extend_from_slice(&piece);
        }
        if ended || empty {
            return Ok(bytes);
        }
    }
}

/// Writes all of `bytes` at an offset.
pub(crate) fn write_all(file: &Descriptor, bytes: &[u8], mut offset: u64) -> Result<()> {
    for piece in bytes.chunks(PIECE as usize) {
        let mut rest = piece;
        while !rest.is_empty() {
            let count = file.write(rest, offset)? as usize;
            if count == 0 {
                return Err(ErrorCode::Io);
            }
            offset += count as u64;
            rest = &rest[count.min(rest.len())..];
        }
    }
    Ok(())
}

/// Returns the names in a folder, with their kinds.
pub(crate) fn entries(path: &str) -> Result<Vec<(String, DescriptorType)>> {
    let folder = open(path, OpenFlags::DIRECTORY, DescriptorFlags::READ)?;
    let stream = folder.read_directory()?;
    let mut entries = Vec::new();
    while let Some(entry) = stream.read_directory_entry()? {
        if entry.name != "." && entry.name != ".." {
            entries.push((entry.name, entry.type_));
        }
    }
    Ok(entries)
}

/// Creates a folder.
pub(crate) fn create_dir(path: &str) -> Result<()> {
    at(path.trim_end_matches('/'), |folder, path| folder.create_directory_at(path))
}

/// Creates a folder and those above it.
pub(crate) fn create_dirs(path: &str) -> Result<()> {
    let path = absolute(path);
    match create_dir(&path) {
        Err(ErrorCode::NoEntry) if split(&path).0 != path => {
            create_dirs(split(&path).0)?;
            create_dir(&path)
        }
        Err(error) => match kind(&path) {
            Some(DescriptorType::Directory) => Ok(()),
            Some(_) if error == ErrorCode::Exist => Err(ErrorCode::Exist),
            _ => Err(error),
        },
        Ok(()) => Ok(()),
    }
}

/// Removes a file or a link.
pub(crate) fn unlink(path: &str) -> Result<()> {
    at(path, |folder, path| folder.unlink_file_at(path))
}

/// Removes an empty folder.
pub(crate) fn remove_dir(path: &str) -> Result<()> {
    at(path.trim_end_matches('/'), |folder, path| folder.remove_directory_at(path))
}

/// Removes a file, or a folder with what is in it. Links are removed, not followed.
pub(crate) fn remove_tree(path: &str) -> Result<()> {
    if stat(path, false)?.type_ != DescriptorType::Directory {
        return unlink(path);
    }
    for (name, _) in entries(path)? {
        remove_tree(&format!("{}/{name}", path.trim_end_matches('/')))?;
    }
    remove_dir(path)
}

/// Renames a file or a folder.
pub(crate) fn rename(from: &str, to: &str) -> Result<()> {
    two(from, to, |one, from, other, to| one.rename_at(from, other, to))
}

/// Creates another name of a file.
pub(crate) fn link(from: &str, to: &str) -> Result<()> {
    two(from, to, |one, from, other, to| one.link_at(PathFlags::empty(), from, other, to))
}

/// Creates a symbolic link.
pub(crate) fn symlink(target: &str, path: &str) -> Result<()> {
    at(path, |folder, path| folder.symlink_at(target, path))
}

/// Returns the target of a symbolic link.
pub(crate) fn read_link(path: &str) -> Result<String> {
    at(path, |folder, path| folder.readlink_at(path))
}

/// Sets the times of a file, in seconds since 1970.
pub(crate) fn set_times(path: &str, accessed: f64, modified: f64, follow: bool) -> Result<()> {
    let (accessed, modified) = (timestamp(accessed)?, timestamp(modified)?);
    at(path, |folder, path| folder.set_times_at(flags(follow), path, accessed, modified))
}

/// Converts seconds since 1970.
pub(crate) fn timestamp(seconds: f64) -> Result<NewTimestamp> {
    if !(0.0..1e15).contains(&seconds) {
        return Err(ErrorCode::Invalid);
    }
    let nanoseconds = ((seconds - seconds.floor()) * 1e9).round().min(999_999_999.0) as u32;
    Ok(NewTimestamp::Timestamp(Datetime { seconds: seconds as u64, nanoseconds }))
}

/// Returns the path without links.
pub(crate) fn real_path(path: &str) -> Result<String> {
    let path = absolute(path);
    let mut left: Vec<String> = parts(&path);
    let mut real = String::new();
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == ".." {
            real.truncate(real.rfind('/').unwrap_or(0));
            continue;
        }
        let parent = real.len();
        real.push('/');
        real.push_str(&part);
        if stat(&real, false)?.type_ != DescriptorType::SymbolicLink {
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(ErrorCode::Loop);
        }
        let target = read_link(&real)?;
        real.truncate(if target.starts_with('/') { 0 } else { parent });
        left.extend(parts(&target));
    }
    if real.is_empty() {
        real.push('/');
    }
    Ok(real)
}

/// Returns the parts of a path, the last one first.
fn parts(path: &str) -> Vec<String> {
    path.rsplit('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect()
}

fn two<T>(
    from: &str,
    to: &str,
    action: impl FnOnce(&Descriptor, &str, &Descriptor, &str) -> Result<T>,
) -> Result<T> {
    at(from, |one, from| at(to, |other, to| action(one, from, other, to)))
}

fn flags(follow: bool) -> PathFlags {
    if follow { PathFlags::SYMLINK_FOLLOW } else { PathFlags::empty() }
}
