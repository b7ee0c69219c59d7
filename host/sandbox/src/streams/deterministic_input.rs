//! Standard input of a deterministic run: how its writer cuts what it writes makes no difference. A
//! read takes as many bytes as were asked for, or all up to the end, and holds the whole run until
//! it has them.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::stdio::StreamDigest;
use crate::limits::Meter;

/// A descriptor of the caller's.
pub(crate) struct Steady {
    fd: OwnedFd,
    ended: bool,
    meter: Arc<Meter>,
    read: StreamDigest,
}

impl Steady {
    pub(crate) fn new(fd: OwnedFd, meter: Arc<Meter>) -> Steady {
        Steady { fd, ended: false, meter, read: StreamDigest::default() }
    }

    /// Takes `max` bytes, or all up to the end. Blocks; what comes of an error is no result of the
    /// run.
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

    /// The digest of what was taken so far.
    pub(crate) fn digest(&self) -> Option<String> {
        self.read.so_far()
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.meter.abort_reason().is_some() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            // The run may be aborted meanwhile.
            let patience = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            match rustix::event::poll(
                &mut [PollFd::from_borrowed_fd(self.fd.as_fd(), PollFlags::IN)],
                Some(&patience),
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
