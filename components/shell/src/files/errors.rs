//! Converts WASI's error codes to errors with libc's texts, which bash and its commands print.

use std::io::{Error, ErrorKind};

use crate::bindings::wasi::filesystem::types::ErrorCode;

pub(super) fn error(code: ErrorCode) -> Error {
    let (kind, reason) = match code {
        ErrorCode::Access => (ErrorKind::PermissionDenied, "Permission denied"),
        ErrorCode::NotPermitted => (ErrorKind::PermissionDenied, "Operation not permitted"),
        ErrorCode::ReadOnly => (ErrorKind::ReadOnlyFilesystem, "Read-only file system"),
        ErrorCode::NoEntry => return missing(),
        ErrorCode::Exist => return exists(),
        ErrorCode::IsDirectory => return is_folder(),
        ErrorCode::NotDirectory => return no_folder(),
        ErrorCode::NotEmpty => (ErrorKind::DirectoryNotEmpty, "Directory not empty"),
        ErrorCode::Quota => (ErrorKind::QuotaExceeded, "Disk quota exceeded"),
        ErrorCode::InsufficientSpace => (ErrorKind::StorageFull, "No space left on device"),
        ErrorCode::FileTooLarge => (ErrorKind::FileTooLarge, "File too large"),
        ErrorCode::InsufficientMemory => (ErrorKind::OutOfMemory, "Cannot allocate memory"),
        ErrorCode::NameTooLong => (ErrorKind::InvalidFilename, "File name too long"),
        ErrorCode::IllegalByteSequence => {
            (ErrorKind::InvalidFilename, "Invalid or incomplete multibyte or wide character")
        }
        ErrorCode::Invalid => (ErrorKind::InvalidInput, "Invalid argument"),
        ErrorCode::CrossDevice => (ErrorKind::CrossesDevices, "Invalid cross-device link"),
        ErrorCode::TooManyLinks => (ErrorKind::TooManyLinks, "Too many links"),
        ErrorCode::Busy | ErrorCode::TextFileBusy => return busy(),
        ErrorCode::Loop => (ErrorKind::Other, "Too many levels of symbolic links"),
        ErrorCode::Pipe => (ErrorKind::BrokenPipe, "Broken pipe"),
        ErrorCode::Unsupported => (ErrorKind::Unsupported, "Operation not supported"),
        ErrorCode::BadDescriptor => (ErrorKind::Other, "Bad file descriptor"),
        ErrorCode::Other(Some(reason)) => return Error::other(reason),
        // The other codes do not occur for files and folders.
        _ => (ErrorKind::Other, "Input/output error"),
    };
    Error::new(kind, reason)
}

pub(super) fn missing() -> Error {
    Error::new(ErrorKind::NotFound, "No such file or directory")
}

pub(super) fn refused() -> Error {
    Error::new(ErrorKind::PermissionDenied, "Permission denied")
}

/// The error of `ln -s` where guests cannot create symlinks.
pub(super) fn no_links() -> Error {
    Error::new(
        ErrorKind::PermissionDenied,
        "Operation not permitted: `symlinks: true` in the policy allows links in this folder that stay inside it",
    )
}

pub(super) fn exists() -> Error {
    Error::new(ErrorKind::AlreadyExists, "File exists")
}

pub(super) fn is_folder() -> Error {
    Error::new(ErrorKind::IsADirectory, "Is a directory")
}

pub(super) fn no_folder() -> Error {
    Error::new(ErrorKind::NotADirectory, "Not a directory")
}

pub(super) fn busy() -> Error {
    Error::new(ErrorKind::ResourceBusy, "Device or resource busy")
}
