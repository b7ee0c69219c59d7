//! Output that others read while it is written. The start of it is in memory, so that a program that
//! prints little creates no file; once there is more, all of it is in a file.
//!
//! Creating and removing a file costs much more than the few bytes that most programs print: ext4
//! looks at each inode that was freed in the last half minute before it takes another.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Creates the file of a spool, when it is needed.
type Create = Box<dyn Fn() -> io::Result<File> + Send + Sync>;

/// Output of a run: at most a given number of bytes in memory, or else a file.
///
/// ```
/// use skillhost_sandbox::Spool;
///
/// let spool = Spool::new(4, || tempfile::tempfile());
/// spool.write(b"few")?;
/// assert_eq!(spool.memory().as_deref(), Some(&b"few"[..]));
/// spool.write(b" more")?;
/// assert_eq!(spool.memory(), None, "all of it is in the file");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Spool {
    most: usize,
    create: Create,
    written: Mutex<Written>,
}

enum Written {
    Memory(Vec<u8>),
    File(File),
}

impl Spool {
    /// Makes a spool that keeps at most `most` bytes in memory.
    pub fn new(
        most: usize,
        create: impl Fn() -> io::Result<File> + Send + Sync + 'static,
    ) -> Spool {
        Spool { most, create: Box::new(create), written: Mutex::new(Written::Memory(Vec::new())) }
    }

    /// Adds bytes to the end.
    ///
    /// # Errors
    /// The file cannot be created, or does not take all bytes. What was in memory before stays there
    /// if the file cannot be created.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut written = self.written();
        match &mut *written {
            Written::Memory(memory) if memory.len().saturating_add(bytes.len()) <= self.most => {
                memory.extend_from_slice(bytes);
                Ok(())
            }
            Written::Memory(memory) => {
                let mut file = (self.create)()?;
                file.write_all(memory)?;
                file.write_all(bytes)?;
                *written = Written::File(file);
                Ok(())
            }
            Written::File(file) => file.write_all(bytes),
        }
    }

    /// Moves all bytes to the file. A spool without bytes gets none.
    ///
    /// # Errors
    /// The file cannot be created, or does not take all bytes.
    pub fn spill(&self) -> io::Result<()> {
        let mut written = self.written();
        if let Written::Memory(memory) = &*written
            && !memory.is_empty()
        {
            let mut file = (self.create)()?;
            file.write_all(memory)?;
            *written = Written::File(file);
        }
        Ok(())
    }

    /// Returns a copy of all bytes; `None` if they are in the file.
    pub fn memory(&self) -> Option<Vec<u8>> {
        match &*self.written() {
            Written::Memory(memory) => Some(memory.clone()),
            Written::File(_) => None,
        }
    }

    /// Returns the bytes from a position, at most this many. The file, which must be readable, may have
    /// lost its name.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_at(&self, at: u64, most: usize) -> io::Result<Vec<u8>> {
        match &*self.written() {
            Written::Memory(memory) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX).min(memory.len());
                Ok(memory[from..memory.len().min(from.saturating_add(most))].to_vec())
            }
            Written::File(file) => {
                let mut bytes = vec![0; most];
                let count = file.read_at(&mut bytes, at)?;
                bytes.truncate(count);
                Ok(bytes)
            }
        }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spool").field("most", &self.most).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_file_is_created_once_there_are_more_bytes_and_has_all() {
        let (made, file) = (Arc::new(AtomicUsize::new(0)), tempfile::tempfile().unwrap());
        let (count, copy) = (made.clone(), file.try_clone().unwrap());
        let spool = Spool::new(4, move || {
            count.fetch_add(1, Ordering::Relaxed);
            copy.try_clone()
        });
        spool.write(b"abcd").unwrap();
        assert_eq!(spool.read_at(1, 2).unwrap(), b"bc");
        assert_eq!(spool.read_at(9, 2).unwrap(), b"");
        assert_eq!((made.load(Ordering::Relaxed), spool.memory()), (0, Some(b"abcd".to_vec())));
        spool.write(b"e").unwrap();
        spool.write(b"f").unwrap();
        spool.spill().unwrap();
        assert_eq!((made.load(Ordering::Relaxed), spool.memory()), (1, None));
        assert_eq!(spool.read_at(0, 8).unwrap(), b"abcdef");
        let mut bytes = [0; 8];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 6);
    }

    #[test]
    fn a_spill_of_nothing_creates_no_file_and_an_error_keeps_what_there_was() {
        let spool = Spool::new(4, || Err(io::ErrorKind::StorageFull.into()));
        spool.spill().unwrap();
        spool.write(b"ab").unwrap();
        assert_eq!(spool.write(b"cde").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(spool.spill().is_err());
        assert_eq!(spool.memory(), Some(b"ab".to_vec()));
    }
}
