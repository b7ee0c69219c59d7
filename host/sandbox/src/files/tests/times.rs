//! The file times that guests of a deterministic run see.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use super::support::{Grant, Guest, fill};
use super::*;
use skillhost_policy::capabilities::MountMode;

/// Creates a guest whose run starts at second 100, and returns the run's clock.
fn guest(mode: MountMode) -> (Guest, Arc<AtomicI64>) {
    let clock = Arc::new(AtomicI64::new(100));
    let now = clock.clone();
    let times = Some(Times::new(move || (now.load(Relaxed), 0)));
    let guest = Grant { mode, times, ..Grant::default() }.guest(|at| {
        fill(at, "old", "old");
        fill(at, "d/x", "x");
        fill(at, "d/e/y", "y");
    });
    (guest, clock)
}

/// Returns the seconds of the last access, the last write and the last change.
fn times(guest: &Guest, path: &str) -> (i64, i64, i64) {
    let stat = guest.stat(path).unwrap();
    assert_eq!((stat.accessed.1, stat.modified.1, stat.changed.1), (0, 0, 0), "{path}");
    (stat.accessed.0, stat.modified.0, stat.changed.0)
}

#[test]
fn file_times_follow_the_clock_of_the_run() {
    for mode in [MountMode::Write, MountMode::Overlay] {
        let (guest, clock) = guest(mode);
        let at = |second| clock.store(second, Relaxed);
        at(110);
        for path in
            ["/", "/skill/SKILL.md", "/tmp", "/workspace", "/workspace/old", "/workspace/d/x"]
        {
            assert_eq!(times(&guest, path), (100, 100, 100), "{mode:?} {path}");
        }
        guest.write("/workspace/new", "1").unwrap();
        assert_eq!(times(&guest, "/workspace/new"), (110, 110, 110), "{mode:?}");
        at(120);
        guest.append("/workspace/old", "more").unwrap();
        assert_eq!(times(&guest, "/workspace/old"), (100, 120, 120), "{mode:?}");
        at(130);
        guest.rename("/workspace/new", "/workspace/d/renamed").unwrap();
        assert_eq!(times(&guest, "/workspace/d/renamed").1, 110, "{mode:?}");
        assert_eq!(
            (times(&guest, "/workspace").1, times(&guest, "/workspace/d").1),
            (130, 130),
            "{mode:?}"
        );
        at(140);
        guest.mkdir("/workspace/d/made").unwrap();
        assert_eq!(times(&guest, "/workspace/d/made"), (140, 140, 140), "{mode:?}");
        at(150);
        guest.unlink("/workspace/d/e/y").unwrap();
        assert_eq!(times(&guest, "/workspace/d/e"), (100, 150, 150), "{mode:?}");
        // A folder that is copied into the overlay after a change keeps its times.
        at(160);
        let (base, rest) = guest.at("/workspace/d/x");
        guest.vfs.set_times_at(&base, rest, true, NewTime::At(1, 0), NewTime::Now).unwrap();
        assert_eq!(times(&guest, "/workspace/d/x"), (1, 160, 160), "{mode:?}");
        guest.file("/workspace/old", support::UPDATE).unwrap().set_size(1).unwrap();
        assert_eq!(times(&guest, "/workspace/old").1, 160, "{mode:?}");
    }
}

#[test]
fn reused_inodes_do_not_inherit_times() {
    for mode in [MountMode::Write, MountMode::Overlay] {
        let (guest, clock) = guest(mode);
        for second in 101..150 {
            clock.store(second, Relaxed);
            guest.write("/tmp/again", "1").unwrap();
            assert_eq!(times(&guest, "/tmp/again"), (second, second, second), "{mode:?}");
            guest.unlink("/tmp/again").unwrap();
            assert_eq!(times(&guest, "/workspace/old"), (100, 100, 100), "{mode:?}");
        }
        // In the overlay, the copy may get the inode of a removed file.
        guest.append("/workspace/d/x", "").unwrap();
        assert_eq!(times(&guest, "/workspace/d/x"), (100, 100, 100), "{mode:?}");
    }
}
