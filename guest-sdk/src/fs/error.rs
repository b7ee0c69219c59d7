//! WASI's error codes as std's kinds, in words.

use std::io::{Error, ErrorKind};

use crate::bindings::filesystem::wasi::filesystem::types::ErrorCode;

/// `attempt` is a verb: the message is `open /tmp/a: no such file or folder`.
pub(super) fn error(attempt: &str, path: &str, code: ErrorCode) -> Error {
    let (kind, reason) = reason(code);
    Error::new(kind, format!("{attempt} {path}: {reason}"))
}

fn reason(code: ErrorCode) -> (ErrorKind, String) {
    let (kind, reason) = match code {
        ErrorCode::Access | ErrorCode::NotPermitted => {
            (ErrorKind::PermissionDenied, "not permitted")
        }
        ErrorCode::ReadOnly => (ErrorKind::ReadOnlyFilesystem, "read-only here"),
        ErrorCode::NoEntry => (ErrorKind::NotFound, "no such file or folder"),
        ErrorCode::Exist => (ErrorKind::AlreadyExists, "exists already"),
        ErrorCode::IsDirectory => (ErrorKind::IsADirectory, "is a folder"),
        ErrorCode::NotDirectory => (ErrorKind::NotADirectory, "is not a folder"),
        ErrorCode::NotEmpty => (ErrorKind::DirectoryNotEmpty, "the folder is not empty"),
        ErrorCode::Quota => (ErrorKind::QuotaExceeded, "the quota of the sandbox is used up"),
        ErrorCode::InsufficientSpace => (ErrorKind::StorageFull, "no space left"),
        ErrorCode::FileTooLarge => (ErrorKind::FileTooLarge, "the file would be too large"),
        ErrorCode::InsufficientMemory => (ErrorKind::OutOfMemory, "out of memory"),
        ErrorCode::NameTooLong => (ErrorKind::InvalidFilename, "the name is too long"),
        ErrorCode::IllegalByteSequence => (ErrorKind::InvalidFilename, "the name is not allowed"),
        ErrorCode::Invalid => (ErrorKind::InvalidInput, "invalid argument"),
        ErrorCode::CrossDevice => (ErrorKind::CrossesDevices, "the two are in different mounts"),
        ErrorCode::TooManyLinks => (ErrorKind::TooManyLinks, "too many links"),
        ErrorCode::Busy => (ErrorKind::ResourceBusy, "busy"),
        ErrorCode::TextFileBusy => (ErrorKind::ExecutableFileBusy, "busy: it is being run"),
        ErrorCode::Deadlock => (ErrorKind::Deadlock, "would deadlock"),
        ErrorCode::Interrupted => (ErrorKind::Interrupted, "interrupted"),
        ErrorCode::InvalidSeek => (ErrorKind::NotSeekable, "not seekable"),
        ErrorCode::Pipe => (ErrorKind::BrokenPipe, "the other end is closed"),
        ErrorCode::Unsupported => (ErrorKind::Unsupported, "not supported here"),
        ErrorCode::BadDescriptor => (ErrorKind::Other, "not opened for this"),
        ErrorCode::Loop => (ErrorKind::Other, "too many symbolic links"),
        ErrorCode::Io => (ErrorKind::Other, "input/output error"),
        ErrorCode::Other(Some(reason)) => return (ErrorKind::Other, reason),
        // None of these comes from plain files and folders.
        other => return (ErrorKind::Other, format!("{other:?}")),
    };
    (kind, reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_attempt_path_and_reason() {
        let error = error("open", "/tmp/a", ErrorCode::NoEntry);
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::NotFound, "open /tmp/a: no such file or folder")
        );
    }
}
