//! Permission bits that guests set.

use super::support::*;
use super::*;
use skillhost_policy::capabilities::MountMode;

fn guest(mode: MountMode) -> Guest {
    Grant { mode, deny_read: &["/workspace/secret"], ..Grant::default() }.guest(|w| {
        fill(w, "tool", "x");
        fill(w, "secret", "x");
    })
}

#[test]
fn modes_are_kept_for_the_run_and_change_no_file_of_the_host() {
    for mode in [MountMode::Write, MountMode::Overlay, MountMode::Read] {
        let guest = guest(mode);
        assert_eq!(guest.vfs.mode("/workspace/tool", true), None);
        guest.write("/tmp/script", "x").unwrap();
        for path in ["/workspace/tool", "/tmp/script", "/skill/SKILL.md"] {
            guest.vfs.set_mode(path, 0o100_751, true).unwrap();
            assert_eq!(guest.vfs.mode(path, true), Some(0o751), "{path}");
        }
        let on_disk = rustix::fs::stat(guest.host("tool")).unwrap().st_mode & 0o777;
        assert_ne!(on_disk, 0o751);
        assert_eq!(guest.vfs.mode("/tmp", true), None);
        for path in ["/workspace/secret", "/workspace/none", "/outside", "/tmp/none/x"] {
            assert_eq!(guest.vfs.set_mode(path, 0o755, true), Err(Errno::NOENT), "{path}");
        }
    }
}

#[test]
fn modes_follow_a_file_and_end_with_it() {
    for (mode, top) in [
        (MountMode::Write, "/tmp"),
        (MountMode::Write, "/workspace"),
        (MountMode::Overlay, "/workspace"),
    ] {
        let guest = guest(mode);
        let at = |path: &str| format!("{top}/{path}");
        guest.write(&at("a"), "x").unwrap();
        guest.vfs.set_mode(&at("a"), 0o755, true).unwrap();
        guest.append(&at("a"), "y").unwrap();
        guest.rename(&at("a"), &at("b")).unwrap();
        assert_eq!(
            (guest.vfs.mode(&at("a"), true), guest.vfs.mode(&at("b"), true)),
            (None, Some(0o755))
        );
        // A new file of the name, with the inode of the old one or not.
        for _ in 0..10 {
            guest.unlink(&at("b")).unwrap();
            guest.write(&at("b"), "x").unwrap();
            assert_eq!(guest.vfs.mode(&at("b"), true), None);
            guest.vfs.set_mode(&at("b"), 0o700, true).unwrap();
        }
    }
    // The copy of a file that an overlay makes before its first change.
    let guest = guest(MountMode::Overlay);
    guest.vfs.set_mode("/workspace/tool", 0o755, true).unwrap();
    guest.append("/workspace/tool", "y").unwrap();
    assert_eq!(guest.vfs.mode("/workspace/tool", true), Some(0o755));
}

#[test]
fn modes_of_a_symlink_are_those_of_its_target() {
    let guest = guest(MountMode::Overlay);
    guest.symlink("/workspace/tool", "/tmp/link").unwrap();
    guest.vfs.set_mode("/tmp/link", 0o755, true).unwrap();
    assert_eq!(guest.vfs.mode("/workspace/tool", true), Some(0o755));
    assert_eq!(guest.vfs.mode("/tmp/link", true), Some(0o755));
    assert_eq!(guest.vfs.mode("/tmp/link", false), None);
}

#[test]
fn modes_are_bounded() {
    let limits = skillhost_policy::limits::Limits { files: 20_000, ..Default::default() };
    let guest = Grant { limits, ..Grant::default() }.guest(|_| {});
    for n in 0..10_001 {
        let path = format!("/tmp/{n}");
        guest.write(&path, "").unwrap();
        let set = guest.vfs.set_mode(&path, 0o755, true);
        assert_eq!(set, if n < 10_000 { Ok(()) } else { Err(Errno::NOSPC) }, "{n}");
    }
    guest.vfs.set_mode("/tmp/0", 0o700, true).unwrap();
    // A file that ends makes room: removed,
    guest.unlink("/tmp/1").unwrap();
    guest.vfs.set_mode("/tmp/10000", 0o755, true).unwrap();
    // or replaced.
    guest.write("/tmp/new", "").unwrap();
    assert_eq!(guest.vfs.set_mode("/tmp/new", 0o755, true), Err(Errno::NOSPC));
    guest.write("/tmp/other", "").unwrap();
    guest.rename("/tmp/other", "/tmp/2").unwrap();
    guest.vfs.set_mode("/tmp/new", 0o755, true).unwrap();
}

#[test]
fn modes_of_temporary_files_do_not_add_up() {
    for (mode, top) in [
        (MountMode::Write, "/tmp"),
        (MountMode::Write, "/workspace"),
        (MountMode::Overlay, "/workspace"),
    ] {
        let guest = guest(mode);
        let at = |path: &str| format!("{top}/{path}");
        for n in 0..3_334 {
            guest.write(&at("new"), "").unwrap();
            guest.write(&at("temporary"), "").unwrap();
            guest.mkdir(&at("folder")).unwrap();
            for path in ["new", "temporary", "folder"] {
                let set = guest.vfs.set_mode(&at(path), 0o755, true);
                assert_eq!(set, Ok(()), "{mode:?} {top} {n}");
            }
            guest.rename(&at("new"), &at("file")).unwrap();
            guest.unlink(&at("temporary")).unwrap();
            guest.rmdir(&at("folder")).unwrap();
        }
        assert_eq!(guest.vfs.mode(&at("file"), true), Some(0o755));
    }
}
