//! Reads small text files, whose size another user may have chosen.

use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Reads a text file of at most `max` bytes, without waiting at a pipe. `None` if it does not exist.
///
/// # Errors
/// The file is larger, is not UTF-8, or cannot be read.
pub(crate) fn read_text(path: &Path, max: u64) -> io::Result<Option<String>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
        file => std::fs::File::from(file?),
    };
    let mut text = String::new();
    file.take(max + 1).read_to_string(&mut text)?;
    match text.len() as u64 <= max {
        true => Ok(Some(text)),
        false => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests write files")]

    use super::*;

    #[test]
    fn only_small_texts_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(read_text(&path, 4).unwrap(), None);
        assert_eq!(read_text(&path.join("below"), 4).unwrap(), None);
        std::fs::write(&path, "text").unwrap();
        assert_eq!(read_text(&path.join("below"), 4).unwrap(), None, "it is not a folder");
        assert_eq!(read_text(&path, 4).unwrap().as_deref(), Some("text"));
        let error = read_text(&path, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(&path, [0xff]).unwrap();
        assert!(read_text(&path, 4).is_err(), "it is not UTF-8");
    }
}
