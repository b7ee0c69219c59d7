//! Reads and writes files through the streams of WASI 0.2.
//!
//! Hazards, all in what a libc makes of a stream's errors: it reports any failed write as `EIO`,
//! and a closed stream as `EPIPE`. Therefore `check_write` permits only as much as the quota allows
//! (the guest sees an exact short write), a full stream stays "failed" and is never "closed", and a
//! new stream is refused if nothing fits (`ENOSPC`). Also, `blocking-flush` calls `check_write`
//! after a write that may have used up the quota to the last byte; that call must not fail.

use std::sync::Arc;

use bytes::Bytes;
use rustix::io::Errno;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::OpenFile;

/// Bytes that one call reads or writes at most.
const CHUNK: usize = 256 << 10;

/// A file that is read from an offset.
pub(super) struct FileInput {
    file: Arc<OpenFile>,
    offset: u64,
}

/// A file that is written from an offset, or (`None`) at its end.
pub(super) struct FileOutput {
    file: Arc<OpenFile>,
    offset: Option<u64>,
    /// Whether something was written since the last `check_write`.
    wrote: bool,
}

impl FileInput {
    pub(super) fn new(file: Arc<OpenFile>, offset: u64) -> FileInput {
        FileInput { file, offset }
    }
}

impl FileOutput {
    pub(super) fn new(file: Arc<OpenFile>, offset: Option<u64>) -> FileOutput {
        FileOutput { file, offset, wrote: false }
    }
}

#[async_trait::async_trait]
impl Pollable for FileInput {
    async fn ready(&mut self) {}
}

#[async_trait::async_trait]
impl InputStream for FileInput {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        let mut buffer = vec![0; size.min(CHUNK)];
        match self.file.read_at(&mut buffer, self.offset) {
            Ok(0) => Err(StreamError::Closed),
            Ok(count) => {
                self.offset = self.offset.saturating_add(count as u64);
                buffer.truncate(count);
                Ok(buffer.into())
            }
            Err(e) => Err(failed(e)),
        }
    }
}

#[async_trait::async_trait]
impl Pollable for FileOutput {
    async fn ready(&mut self) {}
}

#[async_trait::async_trait]
impl OutputStream for FileOutput {
    fn check_write(&mut self) -> StreamResult<usize> {
        let wrote = std::mem::take(&mut self.wrote);
        match self.file.room(self.offset) {
            0 if wrote => Ok(1),
            0 => Err(failed(self.file.no_room())),
            room => Ok(usize::try_from(room).unwrap_or(CHUNK).min(CHUNK)),
        }
    }

    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.wrote = true;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let count = self.file.write_at(rest, self.offset).map_err(failed)?;
            rest = &rest[count..];
            if let Some(offset) = &mut self.offset {
                *offset = offset.saturating_add(count as u64);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        // All or nothing: the caller does not learn a count.
        if self.file.room(self.offset) < bytes.len() as u64 {
            return Err(failed(self.file.no_room()));
        }
        self.write(bytes)
    }
}

fn failed(errno: Errno) -> StreamError {
    StreamError::LastOperationFailed(std::io::Error::from(errno).into())
}

#[cfg(test)]
mod tests {
    use super::super::support::*;
    use super::*;
    use skillhost_policy::limits::{Limit, Limits};

    fn full(stream: &mut FileOutput) -> bool {
        // Never `Closed`, which a libc would report as a broken pipe.
        matches!(stream.check_write(), Err(StreamError::LastOperationFailed(e)) if e.downcast_ref::<std::io::Error>().unwrap().raw_os_error() == Some(Errno::NOSPC.raw_os_error()))
    }

    #[test]
    fn streams_permit_what_fits_the_quota_then_fail_unclosed() {
        let guest = Grant { limits: Limits { disk: 10, ..Limits::default() }, ..Grant::default() }
            .guest(|_| {});
        let file = guest.file("/workspace/f", WRITE).unwrap();
        let mut stream = FileOutput::new(file, Some(0));
        assert_eq!(stream.check_write().unwrap(), 10);
        stream.write(Bytes::from_static(b"1234567")).unwrap();
        assert_eq!(stream.check_write().unwrap(), 3);
        stream.write(Bytes::from_static(b"890")).unwrap();
        assert_eq!(guest.vfs.hit(), None);
        assert_eq!(stream.check_write().unwrap(), 1, "a flush checks after the last byte");
        stream.flush().unwrap();
        assert_eq!(guest.vfs.hit(), None, "everything written fitted");
        assert!(full(&mut stream) && full(&mut stream));
        assert_eq!(guest.vfs.hit(), Some(Limit::Disk));
        assert_eq!(guest.read("/workspace/f").unwrap(), "1234567890");
    }

    #[tokio::test]
    async fn blocking_writes_that_do_not_fit_write_nothing() {
        let guest = Grant { limits: Limits { disk: 4, ..Limits::default() }, ..Grant::default() }
            .guest(|_| {});
        let mut stream = FileOutput::new(guest.file("/workspace/f", WRITE).unwrap(), None);
        stream.blocking_write_and_flush(Bytes::from_static(b"123")).await.unwrap();
        assert!(stream.blocking_write_and_flush(Bytes::from_static(b"45")).await.is_err());
        assert_eq!(guest.read("/workspace/f").unwrap(), "123");
    }

    #[tokio::test]
    async fn devices_accept_writes_beyond_the_quota() {
        let guest = Grant { limits: Limits { disk: 0, ..Limits::default() }, ..Grant::default() }
            .guest(|_| {});
        let mut stream = FileOutput::new(guest.file("/dev/null", WRITE).unwrap(), None);
        assert_eq!(stream.check_write().unwrap(), CHUNK);
        stream.blocking_write_and_flush(vec![1; CHUNK].into()).await.unwrap();
        let mut stream = FileInput::new(guest.file("/dev/zero", READ).unwrap(), u64::MAX - 2);
        assert_eq!(stream.read(9).unwrap(), [0; 9][..]);
        assert_eq!(guest.vfs.hit(), None);
    }

    #[test]
    fn streams_close_at_the_end_of_the_file() {
        let guest = Grant::default().guest(|_| {});
        guest.write("/workspace/f", "12345").unwrap();
        let mut stream = FileInput::new(guest.file("/workspace/f", READ).unwrap(), 1);
        assert_eq!(stream.read(3).unwrap(), "234");
        assert_eq!(stream.read(0).unwrap(), "");
        assert_eq!(stream.read(9).unwrap(), "5");
        assert!(matches!(stream.read(9), Err(StreamError::Closed)));
    }
}
