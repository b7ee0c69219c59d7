//! Tells whether the host that recorded the start of a run is still alive. A host locks one byte of
//! a file next to the log while it is alive; the kernel releases the lock when the process dies,
//! however it dies. Unlike a process id, the lock cannot be reused by another process, and it works
//! across PID namespaces that share the log.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::journal::beside;

/// How many bytes to try before reporting an error: two hosts rarely choose the same one.
const TRIES: usize = 100;

/// File offsets are signed, and other readers of JSON round larger numbers.
const BYTES: u64 = 1 << 53;

/// A byte that this host has locked.
#[derive(Debug)]
pub(super) struct Lease {
    /// The lock belongs to this open file.
    _file: File,
    pub(super) byte: u64,
}

impl Lease {
    /// Locks a byte for the host that writes to the log `path`.
    pub(super) fn take(path: &Path) -> io::Result<Lease> {
        #[expect(clippy::disallowed_methods, reason = "a file of the audit log's own")]
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(beside(path, "running"))?;
        for _ in 0..TRIES {
            let byte = rand::random_range(0..BYTES);
            match fcntl(&file, FcntlArg::F_OFD_SETLK(&write_lock(byte))) {
                Ok(_) => return Ok(Lease { _file: file, byte }),
                Err(Errno::EAGAIN | Errno::EACCES | Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other("cannot lock a byte of the file of running hosts"))
    }

    /// Checks whether a host holds the lock on this byte.
    pub(super) fn is_held(path: &Path, byte: u64) -> io::Result<bool> {
        #[expect(clippy::disallowed_methods, reason = "a file of the audit log's own")]
        let file = match std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(beside(path, "running"))
        {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        let mut lock = write_lock(byte);
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock))?;
        Ok(i32::from(lock.l_type) != libc::F_UNLCK)
    }
}

fn write_lock(byte: u64) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte.min(BYTES).cast_signed(),
        l_len: 1,
        l_pid: 0,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_until_its_host_drops_it() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("audit.jsonl");
        assert!(!Lease::is_held(&log, 1).unwrap(), "no host has ever written");
        let (one, two) = (Lease::take(&log).unwrap(), Lease::take(&log).unwrap());
        assert_ne!(one.byte, two.byte);
        assert!(Lease::is_held(&log, one.byte).unwrap() && Lease::is_held(&log, two.byte).unwrap());
        let byte = one.byte;
        drop(one);
        assert!(!Lease::is_held(&log, byte).unwrap() && Lease::is_held(&log, two.byte).unwrap());
    }
}
