//! Which files a guest can and cannot reach.
#![expect(clippy::disallowed_methods, reason = "tests set up and read real folders")]

use std::os::unix::fs::symlink;
use std::path::Path;

use super::support::*;
use super::*;
use skillhost_policy::capabilities::MountMode;

fn plain(contents: impl FnOnce(&Path)) -> Guest {
    Grant::default().guest(contents)
}

#[test]
fn guests_see_skill_scratch_and_workspace() {
    let guest = plain(|w| fill(w, "a.txt", "hello"));
    let names: Vec<_> = guest.vfs.preopens().unwrap().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["/skill", "/tmp", "/workspace", "/"]);
    assert_eq!(guest.read("/skill/SKILL.md").unwrap(), "skill");
    assert_eq!(guest.read("/workspace/a.txt").unwrap(), "hello");
    guest.write("/tmp/t", "x").unwrap();
    assert_eq!(guest.read("/tmp/t").unwrap(), "x");
    guest.write("/workspace/sub.txt", "new").unwrap();
    assert_eq!(std::fs::read_to_string(guest.host("sub.txt")).unwrap(), "new");
}

#[test]
fn mounts_without_access_are_hidden() {
    let guest = Grant { read: &[], write: &[], ..Grant::default() }.guest(|_| {});
    assert!(guest.vfs.preopens().unwrap().iter().all(|(_, name)| name != "/workspace"));
}

#[test]
fn paths_cannot_climb_above_a_mount() {
    let guest = plain(|w| fill(w, "d/f", "x"));
    for path in ["../outside", "d/../../outside", "d/../../workspace/d/f", "..", "../..", "d/../.."]
    {
        let (base, _) = guest.at("/workspace");
        assert_eq!(guest.vfs.open_at(&base, path, READ).unwrap_err(), Errno::PERM, "{path}");
        assert_eq!(guest.vfs.stat_at(&base, path, true).unwrap_err(), Errno::PERM, "{path}");
        assert_eq!(guest.vfs.create_dir(&base, path).unwrap_err(), Errno::PERM, "{path}");
    }
    assert_eq!(guest.read("/workspace/d/../d/./f").unwrap(), "x");
}

#[test]
fn parent_paths_stop_at_the_mount() {
    let guest = plain(|w| fill(w, "d/f", "x"));
    let folder = guest.open("/workspace/d", FOLDER).unwrap();
    assert!(guest.vfs.open_at(&folder, "../d/f", READ).is_ok());
    assert_eq!(guest.vfs.open_at(&folder, "../../outside", READ).unwrap_err(), Errno::PERM);
}

#[test]
fn absolute_paths_are_refused() {
    let guest = plain(|_| {});
    let (base, _) = guest.at("/workspace");
    for path in ["/etc/passwd", "/", "//etc/passwd", "/workspace"] {
        assert_eq!(guest.vfs.open_at(&base, path, READ).unwrap_err(), Errno::PERM, "{path}");
        assert_eq!(guest.vfs.rename(&base, path, &base, "x").unwrap_err(), Errno::PERM, "{path}");
    }
}

#[test]
fn nul_bytes_and_long_or_deep_paths_are_refused() {
    let guest = plain(|_| {});
    let (base, _) = guest.at("/workspace");
    let error = |path: &str| guest.vfs.open_at(&base, path, WRITE).unwrap_err();
    assert_eq!(error("a\0b"), Errno::INVAL);
    assert_eq!(error(&"a".repeat(5_000)), Errno::NAMETOOLONG);
    assert_eq!(error(&"a/".repeat(1_000)), Errno::NAMETOOLONG);
    assert_eq!(error(""), Errno::NOENT);
}

#[test]
fn symlinks_resolve_inside_the_mount_only() {
    let guest = plain(|w| {
        fill(w, "d/f", "inside");
        symlink("d/f", w.join("in")).unwrap();
        symlink("d", w.join("dir")).unwrap();
        symlink("../d/f", w.join("d/up")).unwrap();
        symlink("../outside", w.join("out")).unwrap();
        symlink("../../outside", w.join("d/out")).unwrap();
        symlink(w.parent().unwrap().join("outside"), w.join("abs")).unwrap();
        symlink("/", w.join("root")).unwrap();
        symlink("loop", w.join("loop")).unwrap();
        symlink("missing", w.join("dangling")).unwrap();
    });
    assert_eq!(guest.read("/workspace/in").unwrap(), "inside");
    assert_eq!(guest.read("/workspace/dir/f").unwrap(), "inside");
    assert_eq!(guest.read("/workspace/dir/up").unwrap(), "inside");
    assert_eq!(guest.read("/workspace/dir/../in").unwrap(), "inside");
    assert_eq!(guest.list("/workspace/dir/").unwrap(), ["f", "out", "up"]);
    for path in ["out", "d/out", "dir/out", "abs", "root/etc/passwd", "root"] {
        let path = format!("/workspace/{path}");
        assert_eq!(guest.read(&path).unwrap_err(), Errno::PERM, "{path}");
        assert_eq!(guest.write(&path, "x").unwrap_err(), Errno::PERM, "{path}");
        assert_eq!(guest.stat(&path).unwrap_err(), Errno::PERM, "{path}");
    }
    assert_eq!(guest.read("/workspace/loop").unwrap_err(), Errno::LOOP);
    assert_eq!(guest.read("/workspace/dangling").unwrap_err(), Errno::NOENT);
    guest.write("/workspace/dangling", "made").unwrap();
    assert_eq!(std::fs::read_to_string(guest.host("missing")).unwrap(), "made");
    assert_eq!(std::fs::read_to_string(guest.dir().join("outside")).unwrap(), "secret");
}

#[test]
fn symlink_targets_outside_the_mount_are_not_revealed() {
    let guest = plain(|w| {
        symlink("d/f", w.join("in")).unwrap();
        symlink("/etc", w.join("abs")).unwrap();
        symlink("x/../../home/me", w.join("out")).unwrap();
        fill(w, "d/f", "");
        symlink("../d/f", w.join("d/up")).unwrap();
        fill(w, "file", "");
    });
    let (base, _) = guest.at("/workspace");
    assert_eq!(guest.vfs.read_link(&base, "in").unwrap(), "d/f");
    assert_eq!(guest.vfs.read_link(&base, "d/up").unwrap(), "../d/f");
    assert_eq!(guest.vfs.read_link(&base, "abs").unwrap_err(), Errno::PERM);
    assert_eq!(guest.vfs.read_link(&base, "out").unwrap_err(), Errno::PERM);
    assert_eq!(guest.vfs.read_link(&base, "file").unwrap_err(), Errno::INVAL);
}

#[test]
fn symlinks_can_be_removed_but_not_moved() {
    let guest = plain(|w| {
        fill(w, "target", "x");
        symlink("target", w.join("link")).unwrap();
    });
    assert_eq!(guest.rename("/workspace/link", "/workspace/elsewhere").unwrap_err(), Errno::PERM);
    guest.unlink("/workspace/link").unwrap();
    assert_eq!(guest.list("/workspace").unwrap(), ["target"]);
}

#[test]
fn hard_linked_files_are_readable_but_not_writable() {
    let guest = plain(|w| std::fs::hard_link(w.join("../outside"), w.join("linked")).unwrap());
    assert_eq!(guest.read("/workspace/linked").unwrap(), "secret");
    for options in [WRITE, UPDATE, OpenOptions { truncate: true, ..READ }] {
        assert_eq!(guest.open("/workspace/linked", options).unwrap_err(), Errno::PERM);
    }
    let (base, _) = guest.at("/workspace");
    assert_eq!(
        guest.vfs.set_times_at(&base, "linked", true, NewTime::Now, NewTime::Now).unwrap_err(),
        Errno::PERM
    );
    assert_eq!(
        guest.denials(),
        ["write /workspace/linked: the file has more than one name (hard links)"]
    );
    assert_eq!(std::fs::read_to_string(guest.dir().join("outside")).unwrap(), "secret");
    guest.unlink("/workspace/linked").unwrap();
    assert_eq!(std::fs::read_to_string(guest.dir().join("outside")).unwrap(), "secret");
}

#[test]
fn devices_fifos_and_sockets_cannot_be_opened() {
    let guest = plain(|w| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, w.join("fifo"), rustix::fs::FileType::Fifo, mode, 0)
            .unwrap();
        std::os::unix::net::UnixListener::bind(w.join("socket")).unwrap();
        // Creating a device takes a privilege that tests may lack.
        let null = rustix::fs::makedev(1, 3);
        if rustix::fs::mknodat(
            rustix::fs::CWD,
            w.join("null"),
            rustix::fs::FileType::CharacterDevice,
            mode,
            null,
        )
        .is_err()
        {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                w.join("null"),
                rustix::fs::FileType::Fifo,
                mode,
                0,
            )
            .unwrap();
        }
    });
    for name in ["fifo", "socket", "null"] {
        let path = format!("/workspace/{name}");
        assert_eq!(guest.open(&path, READ).unwrap_err(), Errno::ACCESS, "{name}");
        assert_eq!(guest.open(&path, UPDATE).unwrap_err(), Errno::ACCESS, "{name}");
        assert_eq!(guest.rename(&path, "/workspace/x").unwrap_err(), Errno::PERM, "{name}");
    }
}

#[test]
fn globs_show_only_matching_files() {
    let guest = Grant { read: &["/workspace/*.csv"], write: &[], ..Grant::default() }.guest(|w| {
        for file in ["a.csv", "b.csv", "c.txt", "d/e.csv"] {
            fill(w, file, file);
        }
        symlink("c.txt", w.join("link.csv")).unwrap();
        symlink("a.csv", w.join("link.txt")).unwrap();
    });
    assert_eq!(guest.list("/workspace").unwrap(), ["a.csv", "b.csv", "link.csv"]);
    assert_eq!(guest.read("/workspace/a.csv").unwrap(), "a.csv");
    for hidden in ["c.txt", "d/e.csv", "d", "link.csv", "link.txt", "d/../c.txt"] {
        let path = format!("/workspace/{hidden}");
        assert_eq!(guest.read(&path).unwrap_err(), Errno::NOENT, "{hidden}");
        assert_eq!(guest.stat(&path).unwrap_err(), Errno::NOENT, "{hidden}");
    }
    assert_eq!(guest.write("/workspace/a.csv", "x").unwrap_err(), Errno::ACCESS);
    assert_eq!(guest.write("/workspace/new.csv", "x").unwrap_err(), Errno::ACCESS);
    assert_eq!(std::fs::read_to_string(guest.host("a.csv")).unwrap(), "a.csv");
    let rule = "not granted: the policy has no entry for this path";
    let denials = guest.denials();
    assert!(
        denials.contains(&format!("read /workspace/c.txt: {rule} [--allow 'Read(c.txt)']")),
        "{denials:?}"
    );
    assert!(
        denials.contains(&format!("write /workspace/new.csv: {rule} [--allow 'Write(new.csv)']")),
        "{denials:?}"
    );
}

#[test]
fn temporary_files_of_the_shell_are_suggested_by_folder() {
    let guest =
        Grant { read: &["/workspace/**"], write: &["/workspace/out/**"], ..Grant::default() }
            .guest(|w| fill(w, "d/f", "x"));
    let rule = "not granted: the policy has no entry for this path";
    for (path, entry) in [
        (".bashkit-sed-0a1b.tmp", "Write"),
        ("d/.bashkit-sed-0a1b.tmp", "Write(d/**)"),
        ("d/.bashrc-copy", "Write(d/.bashrc-copy)"),
    ] {
        let path = format!("/workspace/{path}");
        assert_eq!(guest.write(&path, "x").unwrap_err(), Errno::ACCESS);
        let denials = guest.denials();
        let denial = format!("write {path}: {rule} [--allow '{entry}']");
        assert!(denials.contains(&denial), "{denials:?}");
    }
}

#[test]
fn lookups_of_missing_paths_are_not_denials() {
    let guest = Grant { read: &["/workspace/*.csv"], write: &[], ..Grant::default() }.guest(|_| {});
    assert_eq!(guest.read("/workspace/pyvenv.cfg").unwrap_err(), Errno::NOENT);
    assert_eq!(guest.denials(), [""; 0]);
}

#[test]
fn traversable_folders_list_only_allowed_entries() {
    let guest =
        Grant { read: &["/workspace/a/b/**"], write: &["/workspace/a/out/**"], ..Grant::default() }
            .guest(|w| {
                for file in ["a/b/f", "a/c/f", "a/f", "z/f"] {
                    fill(w, file, file);
                }
            });
    assert_eq!(guest.list("/workspace").unwrap(), ["a"]);
    assert_eq!(guest.list("/workspace/a").unwrap(), ["b"]);
    assert_eq!(guest.read("/workspace/a/b/f").unwrap(), "a/b/f");
    assert_eq!(guest.read("/workspace/a/f").unwrap_err(), Errno::NOENT);
    assert_eq!(guest.list("/workspace/z").unwrap_err(), Errno::NOENT);
    assert_eq!(guest.mkdir("/workspace/a/new").unwrap_err(), Errno::ACCESS);
    assert_eq!(guest.rmdir("/workspace/a").unwrap_err(), Errno::ACCESS);
    guest.mkdir("/workspace/a/out").unwrap();
    guest.write("/workspace/a/out/f", "x").unwrap();
    assert_eq!(guest.list("/workspace/a").unwrap(), ["b", "out"]);
}

#[test]
fn denied_paths_and_their_contents_are_hidden() {
    let guest =
        Grant { deny_read: &["/workspace/secret", "/workspace/**/*.key"], ..Grant::default() }
            .guest(|w| {
                fill(w, "secret/f", "x");
                fill(w, "d/a.key", "x");
                fill(w, "d/a.txt", "x");
            });
    assert_eq!(guest.list("/workspace").unwrap(), ["d"]);
    assert_eq!(guest.list("/workspace/d").unwrap(), ["a.txt"]);
    for path in [
        "/workspace/secret/f",
        "/workspace/secret",
        "/workspace/d/a.key",
        "/workspace/secret/../d/a.key",
    ] {
        assert_eq!(guest.read(path).unwrap_err(), Errno::NOENT, "{path}");
        assert_eq!(guest.unlink(path).unwrap_err(), Errno::NOENT, "{path}");
        assert_eq!(guest.rename(path, "/workspace/x").unwrap_err(), Errno::NOENT, "{path}");
    }
    for path in ["/workspace/secret/new", "/workspace/new.key"] {
        assert_eq!(guest.write(path, "x").unwrap_err(), Errno::ACCESS, "{path}");
    }
    assert_eq!(
        guest.rename("/workspace/d/a.txt", "/workspace/d/a.key").unwrap_err(),
        Errno::ACCESS
    );
    assert_eq!(
        guest.rename("/workspace/d", "/workspace/e").unwrap_err(),
        Errno::XDEV,
        "its entries would come under other rules"
    );
    assert!(
        guest
            .denials()
            .contains(&"read /workspace/d/a.key: `/workspace/**/*.key` is denied".to_owned()),
        "{:?}",
        guest.denials()
    );
    assert!(
        guest
            .denials()
            .contains(&"read /workspace/secret/f: `/workspace/secret` is denied".to_owned()),
        "{:?}",
        guest.denials()
    );
}

#[test]
fn rules_of_narrowed_mounts_use_the_original_paths() {
    let narrower = |deny_read, deny_write| Grant {
        read: &["/workspace/**"],
        write: &["/workspace/a/b/out/**", "/workspace/other/**"],
        deny_read,
        deny_write,
        rules_at: "a/b",
        ..Grant::default()
    };
    let contents = |w: &Path| {
        fill(w, "secrets/key", "x");
        fill(w, "out/f", "x");
    };
    let guest =
        narrower(&["/workspace/a/b/secrets/**", "/workspace/out"], &["/workspace/a/b/out/fixed"])
            .guest(contents);
    assert_eq!(guest.list("/workspace").unwrap(), ["out"]);
    assert_eq!(guest.read("/workspace/secrets/key").unwrap_err(), Errno::NOENT);
    guest.write("/workspace/out/f", "y").unwrap();
    for refused in ["out/fixed", "other/f", "f"] {
        assert_eq!(
            guest.write(&format!("/workspace/{refused}"), "y").unwrap_err(),
            Errno::ACCESS,
            "{refused}"
        );
    }
    let denials = guest.denials();
    let rule = "not granted: the policy has no entry for this path";
    assert!(
        denials
            .contains(&format!("write /workspace/other/f: {rule} [--allow 'Write(a/b/other/f)']")),
        "{denials:?}"
    );
    assert!(
        denials.contains(
            &"read /workspace/secrets/key: `/workspace/a/b/secrets/**` is denied".to_owned()
        ),
        "{denials:?}"
    );
    // A rule for a folder above the mount applies to everything in it.
    for above in [&["/workspace/?"], &["/workspace/a"], &["/workspace/a/[b]"]] {
        let guest = narrower(above, &[]).guest(contents);
        assert!(
            guest.vfs.preopens().unwrap().iter().all(|(_, name)| name != "/workspace"),
            "{above:?}"
        );
    }
}

#[test]
fn write_denied_files_remain_readable() {
    let guest =
        Grant { deny_write: &["/workspace/ro"], ..Grant::default() }.guest(|w| fill(w, "ro", "x"));
    assert_eq!(guest.read("/workspace/ro").unwrap(), "x");
    for options in [WRITE, UPDATE, OpenOptions { truncate: true, ..READ }] {
        assert_eq!(guest.open("/workspace/ro", options).unwrap_err(), Errno::ACCESS);
    }
    assert_eq!(guest.unlink("/workspace/ro").unwrap_err(), Errno::ACCESS);
    guest.write("/workspace/other", "y").unwrap();
    assert_eq!(guest.rename("/workspace/other", "/workspace/ro").unwrap_err(), Errno::ACCESS);
    assert_eq!(guest.rename("/workspace/ro", "/workspace/moved").unwrap_err(), Errno::ACCESS);
    assert_eq!(guest.denials(), ["write /workspace/ro: `/workspace/ro` is denied"]);
}

#[test]
fn read_only_mounts_refuse_changes() {
    let guest = Grant { mode: MountMode::Read, ..Grant::default() }.guest(|w| fill(w, "d/f", "x"));
    for root in ["/workspace/d", "/skill"] {
        let file = if root == "/skill" { "/skill/SKILL.md" } else { "/workspace/d/f" };
        let (base, rest) = guest.at(file);
        assert_eq!(guest.write(file, "y").unwrap_err(), Errno::ROFS);
        assert_eq!(guest.append(file, "y").unwrap_err(), Errno::ROFS);
        assert_eq!(guest.write(&format!("{root}/new"), "y").unwrap_err(), Errno::ROFS);
        assert_eq!(guest.mkdir(&format!("{root}/newdir")).unwrap_err(), Errno::ROFS);
        assert_eq!(guest.unlink(file).unwrap_err(), Errno::ROFS);
        assert_eq!(guest.rename(file, &format!("{root}/new")).unwrap_err(), Errno::ROFS);
        assert_eq!(
            guest.vfs.set_times_at(&base, rest, true, NewTime::Now, NewTime::Now).unwrap_err(),
            Errno::ROFS
        );
        let read = guest.open(file, READ).unwrap();
        assert_eq!(
            guest.vfs.set_times(&read, NewTime::Now, NewTime::Now).unwrap_err(),
            Errno::ROFS
        );
        assert_eq!(read.file().unwrap().write_at(b"y", None).unwrap_err(), Errno::BADF);
        assert_eq!(read.file().unwrap().set_size(0).unwrap_err(), Errno::BADF);
    }
    assert_eq!(guest.rmdir("/workspace/d").unwrap_err(), Errno::ROFS);
    let denials = guest.denials();
    assert!(
        denials.contains(
            &"write /workspace/d/new: the mount /workspace is read-only [--workspace DIR]"
                .to_owned()
        ),
        "{denials:?}"
    );
    assert!(
        denials.contains(&"write /skill/SKILL.md: /skill is read-only".to_owned()),
        "{denials:?}"
    );
}

#[test]
fn overlays_without_an_upper_folder_are_read_only() {
    let dir = tempfile::tempdir().unwrap();
    let host = dir.path().canonicalize().unwrap();
    let mount = skillhost_policy::capabilities::Mount::new("/workspace", host, MountMode::Overlay);
    let open = OpenMount::open(&mount, &GuardedPaths::default()).unwrap();
    assert!(matches!(open.layer, Layer::ReadOnly));
}

#[test]
fn folders_swapped_after_the_grant_are_refused() {
    use skillhost_policy::capabilities::{HostFolder, Mount};
    let dir = tempfile::tempdir().unwrap();
    let host = dir.path().canonicalize().unwrap();
    let found = rustix::fs::stat(&host).unwrap();
    let open = |inode| {
        let resolved =
            Some(HostFolder { spelling: host.clone(), device: found.st_dev, inode, born: None });
        OpenMount::open(
            &Mount { resolved, ..Mount::new("/workspace", &host, MountMode::Write) },
            &GuardedPaths::default(),
        )
    };
    open(found.st_ino).unwrap();
    let refused = open(found.st_ino + 1).unwrap_err();
    assert!(refused.rule.contains("is no longer the folder that was granted"), "{refused:?}");
}

#[test]
fn reading_requires_a_readable_handle() {
    let guest = plain(|w| fill(w, "f", "x"));
    let file = guest.file("/workspace/f", WRITE).unwrap();
    assert_eq!(file.read_at(&mut [0; 4], 0).unwrap_err(), Errno::BADF);
}

#[test]
fn denials_are_distinct_and_at_most_a_hundred() {
    let guest = Grant { mode: MountMode::Read, ..Grant::default() }.guest(|_| {});
    for i in 0..300 {
        for _ in 0..2 {
            assert_eq!(guest.write(&format!("/workspace/f{i}"), "x").unwrap_err(), Errno::ROFS);
        }
    }
    assert_eq!(guest.denials().len(), 100);
}

#[test]
fn denials_omit_flags_for_paths_with_special_characters() {
    let guest = Grant { read: &["/workspace/*.csv"], write: &[], ..Grant::default() }.guest(|_| {});
    for name in ["a*b", "it's", "x)y", "new\nline"] {
        assert_eq!(guest.write(&format!("/workspace/{name}"), "x").unwrap_err(), Errno::ACCESS);
    }
    assert!(guest.vfs.denials().iter().all(|d| d.fix.is_none()), "{:?}", guest.denials());
}
