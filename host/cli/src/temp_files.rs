//! Removes what killed hosts left in the folder of temporary files.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags, Timespec, Timestamps, UTIME_NOW, futimens, open};
use skillhost_skill::private;

use crate::context::Places;

/// How often runs look for stale folders.
const INTERVAL: Duration = Duration::from_secs(3600);

/// A file in the cache folder; its time says when a run last looked.
pub(crate) const STAMP: &str = ".swept";

/// Sweeps at most once an hour, after a run has printed its output, because the folder may be
/// large.
pub(crate) fn sweep_after_run() {
    let Ok(places) = Places::unchecked() else { return };
    // Without a cache folder for the stamp, every run would sweep.
    if is_due(&places.cache.join(STAMP)).unwrap_or(false) {
        sweep(&places.scratch);
    }
}

/// Sweeps in the background, when a server starts.
pub(crate) fn sweep_in_background(scratch: PathBuf) {
    let started = std::thread::Builder::new().name("sweep".into()).spawn(move || sweep(&scratch));
    if let Err(error) = started {
        tracing::debug!(%error, "cannot sweep stale folders");
    }
}

fn sweep(scratch: &Path) {
    match private::sweep(scratch) {
        Ok(swept) => tracing::debug!(swept, "removed stale folders"),
        Err(error) => tracing::debug!(%error, "cannot sweep stale folders"),
    }
}

/// Whether the last sweep was long ago. If so, sets the time of the stamp.
fn is_due(stamp: &Path) -> io::Result<bool> {
    let age = stamp
        .symlink_metadata()
        .and_then(|found| found.modified())
        .map(|then| SystemTime::now().duration_since(then));
    // A time in the future counts as long ago.
    if age.is_ok_and(|age| age.is_ok_and(|age| age < INTERVAL)) {
        return Ok(false);
    }
    let file = open(
        stamp,
        OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    )?;
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    futimens(file, &Timestamps { last_access: now, last_modification: now })?;
    Ok(true)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use super::*;

    #[test]
    fn runs_sweep_once_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let stamp = folder.path().join(STAMP);
        assert!(is_due(&stamp).unwrap());
        assert!(!is_due(&stamp).unwrap());
        let file = std::fs::File::open(&stamp).unwrap();
        file.set_modified(SystemTime::now() - INTERVAL).unwrap();
        assert!(is_due(&stamp).unwrap());
        assert!(!is_due(&stamp).unwrap());
        assert!(is_due(&folder.path().join("nowhere/stamp")).is_err());
    }
}
