//! Overlays: what the guest sees, what the folder keeps, what is reported and applied.
#![expect(clippy::disallowed_methods, reason = "tests set up and read real folders")]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use super::support::*;
use super::*;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::ChangeKind::{Added, Changed, Removed};

/// Creates a workspace with `a`, `d/b`, `d/c` and `d/e/f`, each of which contains its own path.
fn overlay() -> Guest {
    with(|_| {})
}

fn with(fill: impl FnOnce(&Path)) -> Guest {
    Grant { mode: MountMode::Overlay, ..Grant::default() }.guest(|w| {
        std::fs::create_dir_all(w.join("d/e")).unwrap();
        for file in ["a", "d/b", "d/c", "d/e/f"] {
            std::fs::write(w.join(file), format!("{file}\n")).unwrap();
        }
        fill(w);
    })
}

fn changes(guest: &Guest) -> Vec<(String, skillhost_policy::outcome::ChangeKind)> {
    guest.vfs.changes().into_iter().map(|c| (c.path, c.kind)).collect()
}

fn host(guest: &Guest, rel: &str) -> Option<String> {
    std::fs::read_to_string(guest.host(rel)).ok()
}

#[test]
fn overlays_leave_the_folder_unchanged() {
    let guest = overlay();
    guest.append("/workspace/a", "+").unwrap();
    guest.write("/workspace/d/b", "new").unwrap();
    guest.unlink("/workspace/d/c").unwrap();
    guest.write("/workspace/n/../new", "x").unwrap_err();
    guest.write("/workspace/new", "x").unwrap();
    guest.mkdir("/workspace/m").unwrap();
    guest.rename("/workspace/d/e/f", "/workspace/m/f").unwrap();
    assert_eq!(guest.read("/workspace/a").unwrap(), "a\n+");
    assert_eq!(guest.read("/workspace/d/b").unwrap(), "new");
    assert_eq!(guest.read("/workspace/d/c").unwrap_err(), Errno::NOENT);
    assert_eq!(guest.read("/workspace/m/f").unwrap(), "d/e/f\n");
    assert_eq!(guest.list("/workspace").unwrap(), ["a", "d", "m", "new"]);
    assert_eq!(guest.list("/workspace/d").unwrap(), ["b", "e"]);
    assert_eq!(guest.list("/workspace/d/e").unwrap(), [""; 0]);
    for file in ["a", "d/b", "d/c", "d/e/f"] {
        assert_eq!(host(&guest, file).unwrap(), format!("{file}\n"));
    }
    assert!(!guest.host("new").exists() && !guest.host("m").exists());
    let expected = [
        ("a", Changed),
        ("d/b", Changed),
        ("d/c", Removed),
        ("d/e/f", Removed),
        ("m/", Added),
        ("m/f", Added),
        ("new", Added),
    ];
    assert_eq!(changes(&guest), expected.map(|(path, kind)| (path.to_owned(), kind)));
}

#[test]
fn a_folder_that_the_host_has_lost_is_a_failure_of_the_host() {
    let guest = overlay();
    guest.write("/workspace/new", "x").unwrap();
    assert_eq!(guest.write("/workspace/none/new", "x").unwrap_err(), Errno::NOENT);
    assert_eq!(guest.vfs.failure(), None);
    std::fs::remove_dir_all(guest.host("../upper")).unwrap();
    assert_eq!(guest.write("/workspace/more", "x").unwrap_err(), Errno::STALE);
    assert_eq!(guest.vfs.failure(), Some(Errno::STALE));
}

#[test]
fn listings_merge_both_folders() {
    let guest = overlay();
    guest.write("/workspace/d/aa", "").unwrap();
    guest.write("/workspace/d/zz", "").unwrap();
    guest.append("/workspace/d/b", "x").unwrap();
    assert_eq!(guest.list("/workspace/d").unwrap(), ["aa", "b", "c", "e", "zz"]);
}

#[test]
fn removed_files_can_be_recreated() {
    let guest = overlay();
    for _ in 0..2 {
        guest.unlink("/workspace/d/c").unwrap();
        assert_eq!(guest.stat("/workspace/d/c").unwrap_err(), Errno::NOENT);
        assert_eq!(guest.unlink("/workspace/d/c").unwrap_err(), Errno::NOENT);
        assert!(guest.open("/workspace/d/c", CREATE_NEW).is_ok());
        assert_eq!(guest.read("/workspace/d/c").unwrap(), "");
        assert_eq!(guest.open("/workspace/d/c", CREATE_NEW).unwrap_err(), Errno::EXIST);
    }
    assert_eq!(changes(&guest), [("d/c".to_owned(), Changed)]);
}

#[test]
fn recreated_folders_hide_the_old_content() {
    let guest = overlay();
    assert_eq!(guest.rmdir("/workspace/d/e").unwrap_err(), Errno::NOTEMPTY);
    guest.unlink("/workspace/d/e/f").unwrap();
    guest.rmdir("/workspace/d/e").unwrap();
    assert_eq!(guest.list("/workspace/d/e").unwrap_err(), Errno::NOENT);
    guest.mkdir("/workspace/d/e").unwrap();
    assert_eq!(guest.list("/workspace/d/e").unwrap(), [""; 0]);
    guest.write("/workspace/d/e/g", "g").unwrap();
    assert_eq!(guest.list("/workspace/d/e").unwrap(), ["g"]);
    assert_eq!(guest.read("/workspace/d/e/f").unwrap_err(), Errno::NOENT);
    assert_eq!(changes(&guest), [("d/e/f".to_owned(), Removed), ("d/e/g".to_owned(), Added)]);
}

#[test]
fn files_and_folders_can_replace_each_other() {
    let guest = overlay();
    guest.unlink("/workspace/a").unwrap();
    guest.mkdir("/workspace/a").unwrap();
    guest.write("/workspace/a/x", "x").unwrap();
    guest.unlink("/workspace/d/e/f").unwrap();
    guest.rmdir("/workspace/d/e").unwrap();
    guest.write("/workspace/d/e", "file").unwrap();
    assert_eq!(guest.stat("/workspace/d/e/f").unwrap_err(), Errno::NOTDIR);
    let expected = [("a/", Changed), ("a/x", Added), ("d/e", Changed), ("d/e/f", Removed)];
    assert_eq!(changes(&guest), expected.map(|(path, kind)| (path.to_owned(), kind)));
    guest.vfs.apply().unwrap();
    assert_eq!(host(&guest, "a/x").as_deref(), Some("x"));
    assert_eq!(host(&guest, "d/e").as_deref(), Some("file"));
    assert_eq!(changes(&guest), []);
}

#[test]
fn overlay_folders_cannot_be_renamed() {
    let guest = overlay();
    guest.mkdir("/workspace/new").unwrap();
    assert_eq!(guest.rename("/workspace/d", "/workspace/d2").unwrap_err(), Errno::XDEV);
    assert_eq!(guest.rename("/workspace/new", "/workspace/new2").unwrap_err(), Errno::XDEV);
}

#[test]
fn files_can_be_renamed_over_others() {
    let guest = overlay();
    guest.rename("/workspace/a", "/workspace/d/b").unwrap();
    assert_eq!(guest.read("/workspace/d/b").unwrap(), "a\n");
    assert_eq!(guest.read("/workspace/a").unwrap_err(), Errno::NOENT);
    assert_eq!(guest.rename("/workspace/d/b", "/workspace/d/e").unwrap_err(), Errno::ISDIR);
    guest.rename("/workspace/d/b", "/workspace/a").unwrap();
    assert_eq!(changes(&guest), [("d/b".to_owned(), Removed)]);
}

#[test]
fn rewriting_the_same_bytes_is_not_a_change() {
    let guest = overlay();
    guest.write("/workspace/a", "a\n").unwrap();
    let (base, _) = guest.at("/workspace");
    guest.vfs.set_times_at(&base, "d/b", true, NewTime::At(1, 2), NewTime::At(3, 4)).unwrap();
    assert_eq!(guest.stat("/workspace/d/b").unwrap().modified, (3, 4));
    guest.write("/workspace/t", "").unwrap();
    guest.unlink("/workspace/t").unwrap();
    assert_eq!(changes(&guest), []);
    assert_eq!(guest.vfs.diff(), "");
}

#[test]
fn temporary_names_do_not_accumulate_in_memory() {
    let guest = overlay();
    for i in 0..50 {
        let path = format!("/workspace/t{i}");
        guest.write(&path, "").unwrap();
        guest.rename(&path, "/workspace/u").unwrap();
        guest.unlink("/workspace/u").unwrap();
        guest.mkdir(&path).unwrap();
        guest.rmdir(&path).unwrap();
    }
    let tree = lock(&guest.vfs.tree);
    let overlay = tree.overlay(2);
    assert_eq!((overlay.upper.len(), overlay.whiteouts.len(), overlay.stamps.len()), (0, 0, 0));
}

#[test]
fn copy_up_keeps_file_times() {
    let guest = overlay();
    let before = guest.stat("/workspace/a").unwrap();
    let _open = guest.open("/workspace/a", UPDATE).unwrap();
    assert_eq!(guest.stat("/workspace/a").unwrap().modified, before.modified);
}

#[test]
fn symlinks_are_followed_into_the_overlay_under_its_rules() {
    let guest = with(|w| {
        symlink("d/e", w.join("dir")).unwrap();
        symlink("a", w.join("file")).unwrap();
        symlink("../outside", w.join("out")).unwrap();
    });
    guest.write("/workspace/file", "through").unwrap();
    guest.write("/workspace/dir/n", "n").unwrap();
    assert_eq!(guest.read("/workspace/a").unwrap(), "through");
    assert_eq!(guest.read("/workspace/d/e/n").unwrap(), "n");
    assert_eq!(guest.write("/workspace/out", "x").unwrap_err(), Errno::PERM);
    guest.unlink("/workspace/file").unwrap();
    assert_eq!(
        changes(&guest),
        [("a".to_owned(), Changed), ("d/e/n".to_owned(), Added), ("file".to_owned(), Removed)]
    );
    guest.vfs.apply().unwrap();
    assert_eq!(host(&guest, "d/e/n").as_deref(), Some("n"));
    assert!(!guest.host("file").exists());
}

#[test]
fn hard_linked_files_can_be_written_in_an_overlay() {
    let guest = with(|w| std::fs::hard_link(w.join("../outside"), w.join("linked")).unwrap());
    guest.write("/workspace/linked", "mine").unwrap();
    guest.vfs.apply().unwrap();
    assert_eq!(host(&guest, "linked").as_deref(), Some("mine"));
    assert_eq!(std::fs::read_to_string(guest.dir().join("outside")).unwrap(), "secret");
}

#[test]
fn folders_with_non_utf8_names_are_not_empty() {
    let guest = with(|w| {
        std::fs::create_dir(w.join("odd")).unwrap();
        let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
        std::fs::write(w.join("odd").join(name), "").unwrap();
    });
    assert_eq!(guest.list("/workspace/odd").unwrap(), [""; 0]);
    assert_eq!(guest.rmdir("/workspace/odd").unwrap_err(), Errno::NOTEMPTY);
}

#[test]
fn overlays_enforce_denials() {
    let grant = Grant {
        mode: MountMode::Overlay,
        deny_write: &["/workspace/a"],
        deny_read: &["/workspace/s"],
        ..Grant::default()
    };
    let guest = grant.guest(|w| {
        std::fs::write(w.join("a"), "a").unwrap();
        std::fs::write(w.join("s"), "s").unwrap();
    });
    assert_eq!(guest.write("/workspace/a", "x").unwrap_err(), Errno::ACCESS);
    assert_eq!(guest.unlink("/workspace/a").unwrap_err(), Errno::ACCESS);
    assert_eq!(guest.read("/workspace/s").unwrap_err(), Errno::NOENT);
    assert_eq!(guest.write("/workspace/s", "x").unwrap_err(), Errno::ACCESS);
    assert_eq!(changes(&guest), []);
}

/// Longer than any diff takes on a loaded machine.
const HANG_TIMEOUT: Duration = Duration::from_secs(120);

#[test]
fn diffs_show_text_and_only_name_other_files() {
    let guest = with(|w| {
        std::fs::write(w.join("bin"), b"\0\x01").unwrap();
        std::fs::write(w.join("text"), "one\ntwo\nthree\n").unwrap();
    });
    guest.write("/workspace/text", "one\n2\nthree\n").unwrap();
    guest.write("/workspace/bin", "\0\x02").unwrap();
    guest.write("/workspace/new", "line").unwrap();
    guest.write("/workspace/empty", "").unwrap();
    guest.unlink("/workspace/a").unwrap();
    guest.mkdir("/workspace/folder").unwrap();
    let large = guest.file("/workspace/large", WRITE).unwrap();
    large.set_size((1 << 20) + 1).unwrap();
    guest.write("/workspace/two\nlines", "x\n").unwrap();
    let expected = "\
--- a/a
+++ /dev/null
@@ -1 +0,0 @@
-a
Binary files a/bin and b/bin differ
--- /dev/null
+++ b/empty
Large files /dev/null and b/large differ (0 and 1048577 bytes)
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+line
\\ No newline at end of file
--- a/text
+++ b/text
@@ -1,3 +1,3 @@
 one
-two
+2
 three
--- /dev/null
+++ b/two\\nlines
@@ -0,0 +1 @@
+x
";
    assert_eq!(guest.vfs.diff_within(HANG_TIMEOUT), expected);
    let timed_out = guest.vfs.diff_within(Duration::ZERO);
    assert!(
        timed_out.contains("Files a/text and b/text differ (not compared: the diff timed out)\n"),
        "{timed_out}"
    );
    assert!(timed_out.contains("b/new differ") && !timed_out.contains("+2"), "{timed_out}");
}

#[test]
fn diffs_are_truncated_at_the_limit() {
    let guest = Grant { mode: MountMode::Overlay, limits: Limits::default(), ..Grant::default() }
        .guest(|_| {});
    for i in 0..8 {
        guest.write(&format!("/workspace/f{i}"), &"x\n".repeat(400_000)).unwrap();
    }
    let diff = guest.vfs.diff_within(HANG_TIMEOUT);
    assert!(diff.len() < (4 << 20) + 100);
    assert!(
        diff.ends_with("\n[truncated]\n[4 more changes omitted]\n"),
        "{}",
        &diff[diff.len() - 100..]
    );
}

#[test]
fn apply_writes_the_guests_view_and_keeps_modes() {
    let guest = with(|w| {
        std::fs::set_permissions(w.join("a"), std::fs::Permissions::from_mode(0o751)).unwrap()
    });
    guest.unlink("/workspace/a").unwrap();
    guest.write("/workspace/a", "new a").unwrap();
    guest.mkdir("/workspace/m").unwrap();
    guest.mkdir("/workspace/m/n").unwrap();
    guest.write("/workspace/m/n/x", "x").unwrap();
    guest.unlink("/workspace/d/e/f").unwrap();
    guest.rmdir("/workspace/d/e").unwrap();
    guest.vfs.apply().unwrap();
    assert_eq!(host(&guest, "a").as_deref(), Some("new a"));
    assert_eq!(std::fs::metadata(guest.host("a")).unwrap().permissions().mode() & 0o777, 0o751);
    assert_eq!(host(&guest, "m/n/x").as_deref(), Some("x"));
    assert!(!guest.host("d/e").exists());
    let mut names: Vec<_> = std::fs::read_dir(guest.host(""))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "d", "m"], "no temporary file is left");
    assert_eq!(changes(&guest), []);
    guest.append("/workspace/a", "!").unwrap();
    guest.vfs.apply().unwrap();
    assert_eq!(host(&guest, "a").as_deref(), Some("new a!"), "and again");
}

#[test]
fn apply_refuses_if_the_folder_changed() {
    type Meddle = fn(&Guest);
    let cases: [(&str, Meddle); 7] = [
        ("a", |g| std::fs::write(g.host("a"), "theirs").unwrap()),
        ("a", |g| std::fs::remove_file(g.host("a")).unwrap()),
        ("new", |g| std::fs::write(g.host("new"), "theirs").unwrap()),
        ("d/c", |g| std::fs::write(g.host("d/c"), "theirs").unwrap()),
        ("d/e/late", |g| std::fs::write(g.host("d/e/late"), "theirs").unwrap()),
        ("d/e/", |g| {
            let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
            std::fs::write(g.host("d/e").join(name), "theirs").unwrap();
        }),
        ("m/", |g| {
            std::fs::create_dir(g.host("m"))
                .and_then(|()| std::fs::write(g.host("m/x"), "theirs"))
                .unwrap()
        }),
    ];
    for (i, (path, meddle)) in cases.into_iter().enumerate() {
        let guest = overlay();
        guest.append("/workspace/a", "mine").unwrap();
        guest.write("/workspace/new", "mine").unwrap();
        guest.unlink("/workspace/d/c").unwrap();
        guest.unlink("/workspace/d/e/f").unwrap();
        guest.rmdir("/workspace/d/e").unwrap();
        guest.mkdir("/workspace/m").unwrap();
        guest.write("/workspace/m/x", "mine").unwrap();
        guest.write("/workspace/d/b", "mine").unwrap();
        meddle(&guest);
        let ApplyError::Changed(paths) = guest.vfs.apply().unwrap_err() else { panic!("case {i}") };
        // A folder that exists already does not conflict; its contents may.
        let path = if path == "m/" { "m/x" } else { path };
        assert_eq!(paths, [path], "case {i}");
        assert_eq!(host(&guest, "d/b").as_deref(), Some("d/b\n"), "case {i}");
    }
}

#[test]
fn changes_to_other_files_do_not_conflict() {
    let guest = overlay();
    guest.append("/workspace/a", "mine").unwrap();
    guest.read("/workspace/d/b").unwrap();
    std::fs::write(guest.host("d/b"), "theirs").unwrap();
    std::fs::write(guest.host("d/n"), "theirs").unwrap();
    guest.vfs.apply().unwrap();
    assert_eq!(host(&guest, "a").as_deref(), Some("a\nmine"));
    assert_eq!(host(&guest, "d/b").as_deref(), Some("theirs"));
}

#[test]
fn apply_does_not_follow_a_folder_replaced_by_a_symlink() {
    let guest = overlay();
    guest.write("/workspace/d/b", "mine").unwrap();
    std::fs::rename(guest.host("d"), guest.host("moved")).unwrap();
    std::fs::create_dir(guest.dir().join("elsewhere")).unwrap();
    symlink("../elsewhere", guest.host("d")).unwrap();
    assert!(matches!(guest.vfs.apply().unwrap_err(), ApplyError::Changed(_)));
    assert!(!guest.dir().join("elsewhere/b").exists());
}
