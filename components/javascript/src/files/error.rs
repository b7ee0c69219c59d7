//! The names and texts of system errors, as libuv has them.

use super::ErrorCode;

/// A system error: its name, its number and its text.
pub(crate) struct SystemError {
    pub(crate) code: &'static str,
    pub(crate) errno: i32,
    pub(crate) text: &'static str,
}

/// Returns the name and the text of an error of the file system.
pub(crate) fn describe(error: ErrorCode) -> SystemError {
    let (code, errno, text) = match error {
        ErrorCode::Access => ("EACCES", -13, "permission denied"),
        ErrorCode::WouldBlock => ("EAGAIN", -11, "resource temporarily unavailable"),
        ErrorCode::Already => ("EALREADY", -114, "connection already in progress"),
        ErrorCode::BadDescriptor => ("EBADF", -9, "bad file descriptor"),
        ErrorCode::Busy => ("EBUSY", -16, "resource busy or locked"),
        ErrorCode::Deadlock => ("EDEADLK", -35, "resource deadlock would occur"),
        ErrorCode::Quota => ("EDQUOT", -122, "disk quota exceeded"),
        ErrorCode::Exist => ("EEXIST", -17, "file already exists"),
        ErrorCode::FileTooLarge => ("EFBIG", -27, "file too large"),
        ErrorCode::IllegalByteSequence => ("EILSEQ", -84, "illegal byte sequence"),
        ErrorCode::InProgress => ("EINPROGRESS", -115, "operation in progress"),
        ErrorCode::Interrupted => ("EINTR", -4, "interrupted system call"),
        ErrorCode::Invalid => ("EINVAL", -22, "invalid argument"),
        ErrorCode::Io => ("EIO", -5, "i/o error"),
        ErrorCode::IsDirectory => ("EISDIR", -21, "illegal operation on a directory"),
        ErrorCode::Loop => ("ELOOP", -40, "too many symbolic links encountered"),
        ErrorCode::TooManyLinks => ("EMLINK", -31, "too many links"),
        ErrorCode::MessageSize => ("EMSGSIZE", -90, "message too long"),
        ErrorCode::NameTooLong => ("ENAMETOOLONG", -36, "name too long"),
        ErrorCode::NoDevice => ("ENODEV", -19, "no such device"),
        ErrorCode::NoEntry => ("ENOENT", -2, "no such file or directory"),
        ErrorCode::NoLock => ("ENOLCK", -37, "no locks available"),
        ErrorCode::InsufficientMemory => ("ENOMEM", -12, "not enough memory"),
        ErrorCode::InsufficientSpace => ("ENOSPC", -28, "no space left on device"),
        ErrorCode::NotDirectory => ("ENOTDIR", -20, "not a directory"),
        ErrorCode::NotEmpty => ("ENOTEMPTY", -39, "directory not empty"),
        ErrorCode::NotRecoverable => ("ENOTRECOVERABLE", -131, "state not recoverable"),
        ErrorCode::Unsupported => ("ENOTSUP", -95, "operation not supported on socket"),
        ErrorCode::NoTty => ("ENOTTY", -25, "inappropriate ioctl for device"),
        ErrorCode::NoSuchDevice => ("ENXIO", -6, "no such device or address"),
        ErrorCode::Overflow => ("EOVERFLOW", -75, "value too large for defined data type"),
        ErrorCode::NotPermitted => ("EPERM", -1, "operation not permitted"),
        ErrorCode::Pipe => ("EPIPE", -32, "broken pipe"),
        ErrorCode::ReadOnly => ("EROFS", -30, "read-only file system"),
        ErrorCode::InvalidSeek => ("ESPIPE", -29, "invalid seek"),
        ErrorCode::TextFileBusy => ("ETXTBSY", -26, "text file is busy"),
        ErrorCode::CrossDevice => ("EXDEV", -18, "cross-device link not permitted"),
    };
    SystemError { code, errno, text }
}
