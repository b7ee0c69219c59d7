//! Converts WASI's error codes to std's errors.

use std::io::{Error, ErrorKind};

use crate::bindings::filesystem::wasi::filesystem::types::ErrorCode;

/// Builds an error. `attempt` is a verb, as in `open /tmp/a: no such file or folder`.
pub(super) fn error(attempt: &str, path: &str, code: ErrorCode) -> Error {
    let (kind, reason) = reason(code);
    Error::new(kind, format!("{attempt} {path}: {reason}"))
}

fn reason(code: ErrorCode) -> (ErrorKind, String) {
    let (kind, reason) = match code {
        ErrorCode::Access | ErrorCode::NotPermitted => {
            (ErrorKind::PermissionDenied, "not permitted")
        }
        ErrorCode::ReadOnly => (ErrorKind::ReadOnlyFilesystem, "read-only"),
        ErrorCode::NoEntry => (ErrorKind::NotFound, "no such file or folder"),
        ErrorCode::Exist => (ErrorKind::AlreadyExists, "already exists"),
        ErrorCode::IsDirectory => (ErrorKind::IsADirectory, "is a folder"),
        ErrorCode::NotDirectory => (ErrorKind::NotADirectory, "is not a folder"),
        ErrorCode::NotEmpty => (ErrorKind::DirectoryNotEmpty, "the folder is not empty"),
        ErrorCode::Quota => (ErrorKind::QuotaExceeded, "the disk quota is exceeded"),
        ErrorCode::InsufficientSpace => (ErrorKind::StorageFull, "no space left"),
        ErrorCode::FileTooLarge => (ErrorKind::FileTooLarge, "the file would be too large"),
        ErrorCode::InsufficientMemory => (ErrorKind::OutOfMemory, "out of memory"),
        ErrorCode::NameTooLong => (ErrorKind::InvalidFilename, "the name is too long"),
        ErrorCode::IllegalByteSequence => (ErrorKind::InvalidFilename, "the name is not allowed"),
        ErrorCode::Invalid => (ErrorKind::InvalidInput, "invalid argument"),
        ErrorCode::CrossDevice => (ErrorKind::CrossesDevices, "the paths are in different mounts"),
        ErrorCode::TooManyLinks => (ErrorKind::TooManyLinks, "too many links"),
        ErrorCode::Busy => (ErrorKind::ResourceBusy, "busy"),
        ErrorCode::TextFileBusy => {
            (ErrorKind::ExecutableFileBusy, "busy: the file is being executed")
        }
        ErrorCode::Deadlock => (ErrorKind::Deadlock, "would deadlock"),
        ErrorCode::Interrupted => (ErrorKind::Interrupted, "interrupted"),
        ErrorCode::InvalidSeek => (ErrorKind::NotSeekable, "not seekable"),
        ErrorCode::Pipe => (ErrorKind::BrokenPipe, "the other end is closed"),
        ErrorCode::Unsupported => (ErrorKind::Unsupported, "not supported"),
        ErrorCode::BadDescriptor => (ErrorKind::Other, "the file is not open for this operation"),
        ErrorCode::Loop => (ErrorKind::Other, "too many symbolic links"),
        ErrorCode::Io => (ErrorKind::Other, "input/output error"),
        ErrorCode::Other(Some(reason)) => return (ErrorKind::Other, reason),
        // The other codes do not occur for plain files and folders.
        other => return (ErrorKind::Other, format!("{other:?}")),
    };
    (kind, reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_operation_path_and_reason() {
        let error = error("open", "/tmp/a", ErrorCode::NoEntry);
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::NotFound, "open /tmp/a: no such file or folder")
        );
    }
}
