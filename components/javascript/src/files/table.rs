//! The open files of a script, by file descriptor.

use std::collections::BTreeMap;

use super::{ErrorCode, Result, open, write_all};
use crate::bindings::wasi::filesystem::types::{Descriptor, DescriptorFlags, OpenFlags};
use crate::stdio::{self, STDERR, STDIN, STDOUT};

/// The first descriptor after the standard streams.
const FIRST: i32 = 3;

/// The flags of `open` on Linux.
const O_WRONLY: i32 = 1;
const O_RDWR: i32 = 2;
const O_CREAT: i32 = 0o100;
const O_EXCL: i32 = 0o200;
const O_TRUNC: i32 = 0o1000;
const O_APPEND: i32 = 0o2000;
const O_DIRECTORY: i32 = 0o200_000;

/// An open file.
enum Open {
    /// A file of the sandbox.
    File {
        /// The file itself.
        descriptor: Descriptor,
        /// The absolute path that it was opened by.
        path: String,
        /// Where the next read or write happens.
        position: u64,
        /// What it may be used for.
        mode: OpenMode,
    },
    /// A standard stream, which the path of a device named.
    Standard(i32),
    /// `/dev/null`.
    Null,
}

/// What an open file may be used for.
#[derive(Clone, Copy)]
struct OpenMode {
    read: bool,
    write: bool,
    append: bool,
}

/// The open files.
#[derive(Default)]
pub(crate) struct Table {
    files: BTreeMap<i32, Open>,
}

impl Table {
    /// Opens a file with the flags of `open` on Linux, and returns its descriptor.
    pub(crate) fn open(&mut self, path: &str, flags: i32) -> Result<i32> {
        let opened = match path {
            "/dev/null" => Open::Null,
            "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0" => Open::Standard(STDIN),
            "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => Open::Standard(STDOUT),
            "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => Open::Standard(STDERR),
            _ => open_file(path, flags)?,
        };
        let fd = (FIRST..).find(|fd| !self.files.contains_key(fd)).ok_or(ErrorCode::Overflow)?;
        self.files.insert(fd, opened);
        Ok(fd)
    }

    /// Closes a file.
    pub(crate) fn close(&mut self, fd: i32) -> Result<()> {
        match self.files.remove(&fd) {
            Some(_) => Ok(()),
            None if (STDIN..FIRST).contains(&fd) => Ok(()),
            None => Err(ErrorCode::BadDescriptor),
        }
    }

    /// Returns a file of the sandbox.
    pub(crate) fn file(&self, fd: i32) -> Result<(&Descriptor, &str)> {
        match self.files.get(&fd) {
            Some(Open::File { descriptor, path, .. }) => Ok((descriptor, path)),
            _ => Err(ErrorCode::BadDescriptor),
        }
    }

    /// Returns the standard stream or the device that a descriptor stands for: a descriptor from 0
    /// to 2, or `None` for `/dev/null`. An error if it is a file or nothing.
    pub(crate) fn device(&self, fd: i32) -> Result<Option<i32>> {
        match self.files.get(&fd) {
            Some(Open::Standard(stream)) => Ok(Some(*stream)),
            Some(Open::Null) => Ok(None),
            Some(Open::File { .. }) => Err(ErrorCode::BadDescriptor),
            None if (STDIN..FIRST).contains(&fd) => Ok(Some(fd)),
            None => Err(ErrorCode::BadDescriptor),
        }
    }

    /// Reads at most `max` bytes at an offset, or at the file's position and moves that.
    pub(crate) fn read(&mut self, fd: i32, max: usize, offset: Option<u64>) -> Result<Vec<u8>> {
        if let Ok(device) = self.device(fd) {
            return match device {
                Some(STDIN) => Ok(stdio::read_blocking(max)),
                Some(_) => Err(ErrorCode::BadDescriptor),
                None => Ok(Vec::new()),
            };
        }
        let Some(Open::File { descriptor, position, mode, .. }) = self.files.get_mut(&fd) else {
            return Err(ErrorCode::BadDescriptor);
        };
        if !mode.read {
            return Err(ErrorCode::BadDescriptor);
        }
        let mut bytes = Vec::new();
        let start = offset.unwrap_or(*position);
        while bytes.len() < max {
            let (piece, ended) =
                descriptor.read((max - bytes.len()) as u64, start + bytes.len() as u64)?;
            let empty = piece.is_empty();
            bytes.extend_from_slice(&piece);
            if ended || empty {
                break;
            }
        }
        if offset.is_none() {
            *position += bytes.len() as u64;
        }
        Ok(bytes)
    }

    /// Writes all bytes at an offset, or at the file's position and moves that.
    pub(crate) fn write(&mut self, fd: i32, bytes: &[u8], offset: Option<u64>) -> Result<()> {
        if let Ok(device) = self.device(fd) {
            return match device {
                Some(STDIN) => Err(ErrorCode::BadDescriptor),
                Some(stream) => stdio::write(stream, bytes).map_err(|_| ErrorCode::Pipe),
                None => Ok(()),
            };
        }
        let Some(Open::File { descriptor, position, mode, .. }) = self.files.get_mut(&fd) else {
            return Err(ErrorCode::BadDescriptor);
        };
        if !mode.write {
            return Err(ErrorCode::BadDescriptor);
        }
        let start = match offset {
            _ if mode.append => descriptor.stat()?.size,
            Some(offset) => offset,
            None => *position,
        };
        write_all(descriptor, bytes, start)?;
        if offset.is_none() || mode.append {
            *position = start + bytes.len() as u64;
        }
        Ok(())
    }
}

fn open_file(path: &str, flags: i32) -> Result<Open> {
    let mode = OpenMode {
        read: flags & O_WRONLY == 0,
        write: flags & (O_WRONLY | O_RDWR) != 0,
        append: flags & O_APPEND != 0,
    };
    let mut how = OpenFlags::empty();
    how.set(OpenFlags::CREATE, flags & O_CREAT != 0);
    how.set(OpenFlags::EXCLUSIVE, flags & O_EXCL != 0);
    how.set(OpenFlags::TRUNCATE, flags & O_TRUNC != 0);
    how.set(OpenFlags::DIRECTORY, flags & O_DIRECTORY != 0);
    let mut access = DescriptorFlags::empty();
    access.set(DescriptorFlags::READ, mode.read);
    access.set(DescriptorFlags::WRITE, mode.write);
    let descriptor = open(path, how, access)?;
    Ok(Open::File { descriptor, path: super::absolute(path), position: 0, mode })
}
