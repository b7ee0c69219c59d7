//! Standard input of a deterministic run. A read returns as many bytes as were requested, or all up
//! to the end, and holds the whole run until it has them: the sizes of the writer's writes make no
//! difference.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::stdio::StreamDigest;
use crate::limits::Meter;

/// A descriptor of the host's caller.
pub(crate) struct DeterministicInput {
    fd: OwnedFd,
    ended: bool,
    meter: Arc<Meter>,
    read: StreamDigest,
}

impl DeterministicInput {
    pub(crate) fn new(fd: OwnedFd, meter: Arc<Meter>) -> DeterministicInput {
        DeterministicInput { fd, ended: false, meter, read: StreamDigest::default() }
    }

    /// Reads `max` bytes, or all up to the end. Blocks. An error aborts the run.
    pub(crate) fn take(&mut self, max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; max];
        let mut count = 0;
        while count < max && !self.ended {
            match self.read(&mut bytes[count..]) {
                Ok(0) => self.ended = true,
                Ok(more) => count += more,
                Err(error) => {
                    self.meter.abort(format!("standard input cannot be read: {error}"));
                    return Err(error);
                }
            }
        }
        bytes.truncate(count);
        self.read.add(&bytes);
        Ok(bytes)
    }

    /// Returns the digest of what was read so far.
    pub(crate) fn digest(&self) -> Option<String> {
        self.read.so_far()
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.meter.abort_reason().is_some() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            // Wake up now and then: the run may be aborted.
            let interval = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            match rustix::event::poll(
                &mut [PollFd::from_borrowed_fd(self.fd.as_fd(), PollFlags::IN)],
                Some(&interval),
            ) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match rustix::io::read(&self.fd, &mut *into) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }
}
