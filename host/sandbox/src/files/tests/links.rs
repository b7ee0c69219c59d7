//! Symlinks that guests create: where they may be, where they lead, and what they cost.
#![expect(clippy::disallowed_methods, reason = "tests set up and read real folders")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::support::*;
use super::*;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::ChangeKind::{Added, Changed, Removed};

/// Creates a workspace with `a`, `d/b` and `d/e/f`.
fn with(mode: MountMode, symlinks: bool, contents: impl FnOnce(&Path)) -> Guest {
    Grant { mode, symlinks, ..Grant::default() }.guest(|w| {
        for file in ["a", "d/b", "d/e/f"] {
            fill(w, file, file);
        }
        contents(w);
    })
}

fn overlay() -> Guest {
    with(MountMode::Overlay, false, |_| {})
}

/// A workspace that is written directly, with symlinks.
fn in_place() -> Guest {
    with(MountMode::Write, true, |_| {})
}

fn kind(guest: &Guest, path: &str) -> Result<FileType, Errno> {
    guest.stat(path).map(|found| found.kind)
}

fn own_kind(guest: &Guest, path: &str) -> Result<FileType, Errno> {
    let (base, rest) = guest.at(path);
    guest.vfs.stat_at(&base, rest, false).map(|found| found.kind)
}

fn target_on_disk(guest: &Guest, rel: &str) -> Option<PathBuf> {
    std::fs::read_link(guest.host(rel)).ok()
}

#[test]
fn symlinks_lead_to_files_and_folders() {
    for top in ["/tmp", "/workspace"] {
        let guest = overlay();
        let at = |path: &str| format!("{top}/{path}");
        guest.mkdir(&at("folder")).unwrap();
        guest.write(&at("folder/file"), "content").unwrap();
        guest.symlink("folder", &at("to-folder")).unwrap();
        guest.symlink("to-folder/file", &at("to-file")).unwrap();
        guest.symlink("../to-file", &at("folder/up")).unwrap();
        for path in
            ["to-folder/file", "to-file", "folder/up", "to-folder/up", "to-folder/../to-file"]
        {
            assert_eq!(guest.read(&at(path)).unwrap(), "content", "{top} {path}");
        }
        assert_eq!(kind(&guest, &at("to-folder")), Ok(FileType::Directory));
        assert_eq!(kind(&guest, &at("to-file")), Ok(FileType::RegularFile));
        assert_eq!(own_kind(&guest, &at("to-folder")), Ok(FileType::Symlink));
        assert_eq!(own_kind(&guest, &at("to-folder/")), Ok(FileType::Directory));
        assert_eq!(guest.read_link(&at("to-file")).unwrap(), "to-folder/file");
        assert_eq!(guest.read_link(&at("folder/file")).unwrap_err(), Errno::INVAL);
        assert_eq!(guest.list(&at("to-folder")).unwrap(), ["file", "up"]);
        let listing = guest.vfs.read_dir(&guest.open(top, FOLDER).unwrap()).unwrap();
        let links = listing.filter(|(_, kind)| *kind == FileType::Symlink);
        assert_eq!(links.map(|(name, _)| name).collect::<Vec<_>>(), ["to-file", "to-folder"]);
        // The size of a symlink is that of its target.
        let (base, rest) = guest.at(top);
        assert_eq!(rest, ".");
        assert_eq!(guest.vfs.stat_at(&base, "to-folder", false).unwrap().size, 6);

        guest.append(&at("to-file"), "+").unwrap();
        assert_eq!(guest.read(&at("folder/file")).unwrap(), "content+");
        guest.write(&at("to-folder/new"), "new").unwrap();
        assert_eq!(guest.read(&at("folder/new")).unwrap(), "new");
        let unfollowed = OpenOptions { follow: false, ..READ };
        assert_eq!(guest.open(&at("to-file"), unfollowed).unwrap_err(), Errno::LOOP);
        assert_eq!(guest.rmdir(&at("to-folder")).unwrap_err(), Errno::NOTDIR);
        assert_eq!(guest.symlink("x", &at("to-file")).unwrap_err(), Errno::EXIST);
        assert_eq!(guest.symlink("x", &at("new/")).unwrap_err(), Errno::NOENT);
        assert_eq!(guest.symlink("", &at("empty")).unwrap_err(), Errno::NOENT);
        assert_eq!(guest.symlink("a\0b", &at("nul")).unwrap_err(), Errno::INVAL);
        assert_eq!(guest.symlink(&"x".repeat(4_096), &at("long")).unwrap_err(), Errno::NAMETOOLONG);
    }
}

#[test]
fn targets_are_guest_paths() {
    let guest = overlay();
    for (at, target, expected) in [
        ("/tmp/absolute", "/workspace/d/b", Ok("d/b")),
        ("/tmp/relative", "../workspace/a", Ok("a")),
        ("/tmp/skill", "/skill/SKILL.md", Ok("skill")),
        ("/tmp/root", "/../../skill/SKILL.md", Ok("skill")),
        ("/workspace/out", "../skill/SKILL.md", Ok("skill")),
        ("/workspace/d/e/far", "../../../../../tmp/absolute", Ok("d/b")),
        ("/tmp/host", "/outside", Err(Errno::NOENT)),
        ("/tmp/host-file", "/etc/shadow", Err(Errno::NOENT)),
        ("/workspace/sibling", "../outside", Err(Errno::NOENT)),
    ] {
        guest.symlink(target, at).unwrap();
        assert_eq!(guest.read(at), expected.map(str::to_owned), "{at} -> {target}");
        assert_eq!(guest.read_link(at).unwrap(), target);
    }
    // The guest cannot use a path of the host.
    let host = guest.dir().join("outside");
    guest.symlink(host.to_str().unwrap(), "/tmp/host-path").unwrap();
    assert_eq!(guest.read("/tmp/host-path").unwrap_err(), Errno::NOENT);
    assert_eq!(guest.write("/tmp/host-path", "x").unwrap_err(), Errno::NOENT);
    assert_eq!(std::fs::read_to_string(host).unwrap(), "secret");

    // `..` after a symlink is the folder above its target.
    guest.symlink("/workspace/d/e", "/tmp/e").unwrap();
    assert_eq!(guest.read("/tmp/e/../b").unwrap(), "d/b");
    assert_eq!(guest.read("/tmp/e/../../../skill/SKILL.md").unwrap(), "skill");
    // Without one, `..` does not leave a folder.
    let (tmp, _) = guest.at("/tmp");
    assert_eq!(guest.vfs.open_at(&tmp, "../workspace/a", READ).unwrap_err(), Errno::PERM);
    // The same paths from `/`.
    let root = guest.root();
    assert!(guest.vfs.open_at(&root, "tmp/e/../b", READ).is_ok());
    assert_eq!(guest.vfs.head("/tmp/e/f", 9), Some(b"d/e/f".to_vec()));
    // Writing goes to the place where the symlink leads.
    guest.write("/tmp/e/new", "new").unwrap();
    assert_eq!(guest.read("/workspace/d/e/new").unwrap(), "new");
    assert_eq!(guest.write("/tmp/skill", "x").unwrap_err(), Errno::ROFS);
    let (base, _) = guest.at("/workspace");
    assert_eq!(
        guest.vfs.metadata_hash_at(&tmp, "e/f", true),
        guest.vfs.metadata_hash_at(&base, "d/e/f", true)
    );
}

#[test]
fn loops_and_long_chains_end() {
    let guest = overlay();
    guest.symlink("loop", "/tmp/loop").unwrap();
    guest.symlink("/tmp/two", "/workspace/one").unwrap();
    guest.symlink("/workspace/one", "/tmp/two").unwrap();
    for path in ["/tmp/loop", "/tmp/loop/x", "/tmp/two", "/workspace/one/x"] {
        assert_eq!(guest.read(path).unwrap_err(), Errno::LOOP, "{path}");
        assert_eq!(guest.write(path, "x").unwrap_err(), Errno::LOOP, "{path}");
        assert_eq!(kind(&guest, path), Err(Errno::LOOP), "{path}");
    }
    guest.write("/tmp/l0", "end").unwrap();
    for n in 1..=41 {
        guest.symlink(&format!("l{}", n - 1), &format!("/tmp/l{n}")).unwrap();
    }
    assert_eq!(guest.read("/tmp/l40").unwrap(), "end");
    assert_eq!(guest.read("/tmp/l41").unwrap_err(), Errno::LOOP);
    // Few symlinks, but many names: the host's time is bounded, too.
    guest.mkdir("/tmp/d").unwrap();
    let long = "d/../".repeat(800);
    for n in 0..10 {
        guest.symlink(&format!("{long}w{n}"), &format!("/tmp/w{}", n + 1)).unwrap();
    }
    guest.write("/tmp/w0", "w").unwrap();
    assert_eq!(guest.read("/tmp/w2").unwrap(), "w");
    assert_eq!(guest.read("/tmp/w10").unwrap_err(), Errno::NAMETOOLONG);
}

#[test]
fn symlinks_that_lead_nowhere_create_their_target() {
    let guest = overlay();
    guest.symlink("missing", "/tmp/dangling").unwrap();
    guest.symlink("/none/x", "/tmp/no-folder").unwrap();
    for path in ["/tmp/dangling", "/tmp/no-folder"] {
        assert_eq!(guest.read(path).unwrap_err(), Errno::NOENT);
        assert_eq!(kind(&guest, path), Err(Errno::NOENT));
        assert_eq!(own_kind(&guest, path), Ok(FileType::Symlink));
        assert_eq!(guest.open(path, CREATE_NEW).unwrap_err(), Errno::EXIST);
        assert_eq!(guest.mkdir(path).unwrap_err(), Errno::EXIST);
    }
    guest.write("/tmp/dangling", "made").unwrap();
    assert_eq!(guest.read("/tmp/missing").unwrap(), "made");
    assert_eq!(guest.write("/tmp/no-folder", "x").unwrap_err(), Errno::NOENT);
}

#[test]
fn a_symlink_itself_is_renamed_and_removed() {
    for top in ["/tmp", "/workspace"] {
        let guest = overlay();
        let at = |path: &str| format!("{top}/{path}");
        guest.write(&at("file"), "file").unwrap();
        guest.mkdir(&at("folder")).unwrap();
        guest.symlink("file", &at("link")).unwrap();
        guest.rename(&at("link"), &at("moved")).unwrap();
        assert_eq!(own_kind(&guest, &at("link")), Err(Errno::NOENT));
        assert_eq!(guest.read(&at("moved")).unwrap(), "file");
        assert_eq!(guest.rename(&at("moved/"), &at("x")).unwrap_err(), Errno::NOTDIR);
        // A symlink in the place of the new name is replaced, not followed.
        guest.write(&at("other"), "other").unwrap();
        guest.rename(&at("other"), &at("moved")).unwrap();
        assert_eq!(own_kind(&guest, &at("moved")), Ok(FileType::RegularFile));
        assert_eq!(guest.read(&at("file")).unwrap(), "file");
        guest.symlink("folder", &at("link")).unwrap();
        guest.unlink(&at("link")).unwrap();
        assert_eq!(own_kind(&guest, &at("folder")), Ok(FileType::Directory));
        guest.symlink("folder", &at("link")).unwrap();
        let (base, _) = guest.at(top);
        guest.vfs.set_times_at(&base, "link", false, NewTime::At(1, 0), NewTime::At(2, 0)).unwrap();
        assert_eq!(guest.vfs.stat_at(&base, "link", false).unwrap().modified, (2, 0));
        assert_ne!(guest.vfs.stat_at(&base, "link", true).unwrap().modified, (2, 0));
    }
}

#[test]
fn symlinks_count_towards_the_quota() {
    let limits = Limits { disk: 100, files: 4, ..Limits::default() };
    for top in ["/tmp", "/workspace"] {
        let guest = Grant { mode: MountMode::Overlay, limits: limits.clone(), ..Grant::default() }
            .guest(|_| {});
        let at = |path: &str| format!("{top}/{path}");
        guest.symlink(&"x".repeat(60), &at("one")).unwrap();
        assert_eq!((guest.vfs.usage().disk, guest.vfs.usage().files_created), (60, 1));
        assert_eq!(guest.symlink(&"x".repeat(41), &at("two")).unwrap_err(), Errno::NOSPC);
        assert_eq!((guest.vfs.usage().disk, guest.vfs.usage().files_created), (60, 1));
        assert_eq!(guest.vfs.hit(), Some(Limit::Disk));
        guest.symlink(&"x".repeat(40), &at("two")).unwrap();
        guest.unlink(&at("one")).unwrap();
        assert_eq!(guest.vfs.usage().disk, 40);
        // Replacing a symlink frees its bytes.
        guest.write(&at("file"), "12345").unwrap();
        guest.rename(&at("file"), &at("two")).unwrap();
        assert_eq!(guest.vfs.usage().disk, 5);
        for n in 0..3 {
            guest.symlink("x", &at(&n.to_string())).unwrap();
        }
        assert_eq!(guest.symlink("x", &at("more")).unwrap_err(), Errno::NOSPC);
        assert_eq!(guest.vfs.usage().disk, 8);
        assert_eq!(guest.vfs.failure(), None, "no error of the host");
    }
}

#[test]
fn rules_apply_where_a_symlink_leads() {
    for mode in [MountMode::Overlay, MountMode::Write] {
        let guest = Grant {
            mode,
            symlinks: true,
            deny_read: &["/workspace/secret", "/workspace/secret/**"],
            deny_write: &["/workspace/fixed"],
            hidden: &["own"],
            ..Grant::default()
        }
        .guest(|w| {
            fill(w, "secret/key", "key");
            fill(w, "fixed", "fixed");
            fill(w, "own/state", "state");
            fill(w, ".git/config", "config");
        });
        for target in ["secret/key", "own/state"] {
            guest
                .symlink(&format!("/workspace/{target}"), &format!("/tmp/{}", target.len()))
                .unwrap();
            let link = format!("/tmp/{}", target.len());
            assert_eq!(guest.read(&link).unwrap_err(), Errno::NOENT, "{target}");
            assert_eq!(kind(&guest, &link), Err(Errno::NOENT), "{target}");
            assert!(guest.write(&link, "x").is_err(), "{target}");
            let inside = guest.symlink(target, "/workspace/made");
            assert_eq!(inside.is_ok(), mode == MountMode::Overlay, "{target}");
            assert!(guest.read("/workspace/made").is_err(), "{target}");
            let _ = guest.unlink("/workspace/made");
        }
        guest.symlink("/workspace", "/tmp/w").unwrap();
        assert_eq!(guest.read("/tmp/w/fixed").unwrap(), "fixed");
        assert_eq!(guest.write("/tmp/w/fixed", "x").unwrap_err(), Errno::ACCESS);
        for path in ["/tmp/w/.git/config", "/tmp/w/AGENTS.md"] {
            assert_eq!(guest.write(path, "x").unwrap_err(), Errno::ACCESS, "{path}");
        }
        guest.symlink(".git", "/workspace/git").unwrap();
        assert_eq!(guest.write("/workspace/git/config", "x").unwrap_err(), Errno::ACCESS);
        // A symlink is an entry like others: some names are protected.
        for name in [".envrc", "AGENTS.md", ".git/hooks", "fixed-not", "secret/x"] {
            let made = guest.symlink("fixed", &format!("/workspace/{name}"));
            assert_eq!(made.is_ok(), name == "fixed-not", "{name}: {made:?}");
        }
        assert_eq!(guest.list("/tmp/w").unwrap(), [".git", "fixed", "fixed-not", "git", "own"]);
    }
}

#[test]
fn folders_of_the_host_get_symlinks_only_if_the_policy_allows_it() {
    let guest = with(MountMode::Write, false, |_| {});
    assert_eq!(guest.symlink("a", "/workspace/link").unwrap_err(), Errno::PERM);
    assert_eq!(
        guest.denials(),
        ["create the symlink /workspace/link: the policy does not allow symlinks in this folder \
          [`symlinks: true` in the policy]"]
    );
    assert_eq!(guest.symlink("a", "/skill/link").unwrap_err(), Errno::ROFS);
    assert_eq!(guest.symlink("a", "/link").unwrap_err(), Errno::ROFS);
    assert_eq!(guest.list("/workspace").unwrap(), ["a", "d"]);

    let guest = in_place();
    guest.symlink("d/e/f", "/workspace/link").unwrap();
    guest.symlink("../../link", "/workspace/d/e/up").unwrap();
    guest.symlink("missing", "/workspace/dangling").unwrap();
    guest.symlink(".", "/workspace/d/self").unwrap();
    assert_eq!(target_on_disk(&guest, "link").unwrap(), Path::new("d/e/f"));
    assert_eq!(guest.read("/workspace/d/e/up").unwrap(), "d/e/f");
    assert_eq!(std::fs::read_to_string(guest.host("d/e/up")).unwrap(), "d/e/f");
    let before = guest.list("/workspace").unwrap();
    for target in [
        "/workspace/a",
        "/etc/passwd",
        "//etc/passwd",
        "..",
        "../outside",
        "d/../../outside",
        "d/../a",
        "./../outside",
        "d/self/../../outside",
    ] {
        assert_eq!(guest.symlink(target, "/workspace/bad").unwrap_err(), Errno::PERM, "{target}");
    }
    for target in ["../..", "../../outside", "e/../../../outside"] {
        assert_eq!(guest.symlink(target, "/workspace/d/bad").unwrap_err(), Errno::PERM, "{target}");
    }
    assert_eq!(guest.list("/workspace").unwrap(), before);
}

/// The kernel, which other programs use, resolves `..` after a symlink differently than by name.
#[test]
fn chains_of_symlinks_do_not_lead_out_of_a_folder_of_the_host() {
    let guest = in_place();
    guest.symlink("..", "/workspace/d/e/up").unwrap();
    assert_eq!(guest.symlink("d/e/up/../../outside", "/workspace/x").unwrap_err(), Errno::PERM);
    guest.symlink("../..", "/workspace/d/e/top").unwrap();
    assert_eq!(guest.symlink("e/top/../outside", "/workspace/d/x").unwrap_err(), Errno::PERM);
    for path in ["d/e/up/../outside", "d/e/top/../outside"] {
        let read = guest.read(&format!("/workspace/{path}"));
        assert!(matches!(read, Err(Errno::PERM | Errno::NOENT)), "{path}: {read:?}");
    }
    // A symlink of the operator's that leads out is not followed, nor is one to it created.
    symlink("../outside", guest.host("out")).unwrap();
    assert_eq!(guest.read("/workspace/out").unwrap_err(), Errno::PERM);
    assert_eq!(guest.symlink("out", "/workspace/to-out").unwrap_err(), Errno::PERM);
}

#[test]
fn moving_does_not_turn_a_symlink_out_of_a_folder_of_the_host() {
    let guest = in_place();
    guest.symlink("../../a", "/workspace/d/e/link").unwrap();
    assert_eq!(guest.rename("/workspace/d/e/link", "/workspace/link").unwrap_err(), Errno::PERM);
    guest.rename("/workspace/d/e/link", "/workspace/d/e/moved").unwrap();
    assert_eq!(target_on_disk(&guest, "d/e/moved").unwrap(), Path::new("../../a"));
    assert_eq!(guest.list("/workspace/d/e").unwrap(), ["f", "moved"]);
    // With its folder: guests then copy, symlink by symlink.
    assert_eq!(guest.rename("/workspace/d/e", "/workspace/e").unwrap_err(), Errno::XDEV);
    guest.rename("/workspace/d/e", "/workspace/d/g").unwrap();
    assert_eq!(guest.read("/workspace/d/g/moved").unwrap(), "a");
    assert_eq!(guest.rename("/workspace/a", "/workspace/d/g/moved"), Ok(()));
    assert_eq!(guest.read("/workspace/d/g/moved").unwrap(), "a");
    guest.symlink("b", "/workspace/d/link").unwrap();
    assert_eq!(guest.rename("/workspace/d/link", "/workspace/d/g").unwrap_err(), Errno::ISDIR);
    guest.rename("/workspace/d/link", "/workspace/d/b").unwrap();
    assert_eq!(guest.read("/workspace/d/b").unwrap_err(), Errno::LOOP);
}

#[test]
fn moving_a_folder_up_does_not_turn_symlinks_of_the_host_out_of_it() {
    for symlinks in [false, true] {
        let guest = with(MountMode::Write, symlinks, |w| {
            symlink("../../a", w.join("d/e/link")).unwrap();
            fill(w, "d/plain/file", "file");
        });
        assert_eq!(guest.rename("/workspace/d/e", "/workspace/e").unwrap_err(), Errno::XDEV);
        assert_eq!(target_on_disk(&guest, "d/e/link").unwrap(), Path::new("../../a"));
        guest.rename("/workspace/d/e", "/workspace/d/g").unwrap();
        assert_eq!(guest.read("/workspace/d/g/link").unwrap(), "a");
        guest.mkdir("/workspace/h").unwrap();
        guest.rename("/workspace/d/g", "/workspace/h/g").unwrap();
        // Below the folder that moves, too.
        assert_eq!(guest.rename("/workspace/h", "/workspace/i"), Ok(()));
        guest.rename("/workspace/i", "/workspace/d/i").unwrap();
        assert_eq!(guest.rename("/workspace/d/i", "/workspace/i").unwrap_err(), Errno::XDEV);
        // Without symlinks in it, a folder moves up only where none can appear in between.
        let plain = guest.rename("/workspace/d/plain", "/workspace/plain");
        assert_eq!(plain, if symlinks { Err(Errno::XDEV) } else { Ok(()) });
    }
}

/// Another run in the folder could put a folder with symlinks in the place of the file.
#[test]
fn files_do_not_move_up_where_symlinks_can_be_created() {
    for (mode, symlinks, expected) in [
        (MountMode::Write, true, Err(Errno::XDEV)),
        (MountMode::Write, false, Ok(())),
        (MountMode::Overlay, true, Ok(())),
    ] {
        let guest = with(mode, symlinks, |_| {});
        assert_eq!(guest.rename("/workspace/d/b", "/workspace/b"), expected, "{mode:?} {symlinks}");
        guest.rename("/workspace/d/e/f", "/workspace/d/e/g").unwrap();
        guest.rename("/workspace/a", "/workspace/d/e/f").unwrap();
    }
}

#[test]
fn symlinks_do_not_take_the_place_of_folders_of_protected_files() {
    let contents = |w: &Path| {
        fill(w, "d/copilot-instructions.md", "");
        fill(w, "d/applications/x.desktop", "");
    };
    let guest = with(MountMode::Write, true, contents);
    for path in [".github", ".GitHub.", "GITHUB~1", "d/.config", ".local", "library", "mise"] {
        let path = format!("/workspace/{path}");
        assert_eq!(guest.symlink("d", &path).unwrap_err(), Errno::PERM, "{path}");
    }
    let rule = "programs on the host read their configuration from a folder of its name";
    let denial = format!("create the symlink /workspace/.github: {rule}");
    assert!(guest.denials().contains(&denial), "{:?}", guest.denials());
    // By moving: the symlink, or a folder that contains it.
    guest.symlink("d", "/workspace/link").unwrap();
    assert_eq!(guest.rename("/workspace/link", "/workspace/.github").unwrap_err(), Errno::PERM);
    guest.mkdir("/workspace/x").unwrap();
    guest.symlink("../d", "/workspace/x/share").unwrap();
    assert_eq!(guest.rename("/workspace/x", "/workspace/.local").unwrap_err(), Errno::ACCESS);
    guest.rename("/workspace/x", "/workspace/local").unwrap();
    guest.mkdir("/workspace/.local").unwrap();
    assert_eq!(guest.symlink("../d", "/workspace/.local/share").unwrap_err(), Errno::PERM);

    // By applying an overlay.
    let guest = with(MountMode::Overlay, true, contents);
    guest.symlink("d", "/workspace/.github").unwrap();
    let applied = guest.vfs.apply();
    assert!(
        matches!(applied, Err(ApplyError::Symlink { refusal: LinkRefusal::Protected, .. })),
        "{applied:?}"
    );
    assert!(guest.vfs.staged(1 << 20).is_err());
    assert!(guest.vfs.diff().contains(rule), "{}", guest.vfs.diff());
}

#[test]
fn symlinks_to_hidden_entries_are_refused_whether_or_not_they_exist() {
    let guest = Grant {
        symlinks: true,
        read: &["/workspace/out/**", "/workspace/z/x/**"],
        write: &["/workspace/out/**"],
        hidden: &["out/own"],
        ..Grant::default()
    }
    .guest(|w| ["out/own/a/b", "out/f", "y/a/b", "z"].iter().for_each(|file| fill(w, file, "")));
    for target in ["../y", "../y/a", "../y/a/b", "../y/none", "../z", "../none", "own", "own/a/b"] {
        let made = guest.symlink(target, "/workspace/out/link");
        assert_eq!(made, Err(Errno::PERM), "{target}");
    }
    let rule = "create the symlink /workspace/out/link: its target is hidden from the skill";
    assert!(guest.denials().contains(&rule.to_owned()), "{:?}", guest.denials());
    for (number, target) in ["f", "none", "..", "../out/f"].iter().enumerate() {
        guest.symlink(target, &format!("/workspace/out/{number}")).unwrap();
    }
}

/// Another process replaces what the guest works with.
#[test]
fn a_symlink_that_is_exchanged_during_the_run_leads_nowhere_new() {
    for (mode, symlinks) in [(MountMode::Write, true), (MountMode::Overlay, true)] {
        let guest = with(mode, symlinks, |w| symlink("d", w.join("link")).unwrap());
        let folder = guest.open("/workspace/link", FOLDER).unwrap();
        assert!(guest.vfs.open_at(&folder, "b", READ).is_ok());
        for target in ["..", "../", "/", "/etc", "d/../.."] {
            std::fs::remove_file(guest.host("link")).unwrap();
            symlink(target, guest.host("link")).unwrap();
            for path in ["link/outside", "link", "link/etc/passwd", "link/d/b"] {
                let path = format!("/workspace/{path}");
                assert!(guest.read(&path).is_err(), "{target} {path}");
                assert!(guest.write(&path, "x").is_err(), "{target} {path}");
            }
            assert!(guest.symlink("x", "/workspace/link/made").is_err());
            assert!(
                guest.symlink("link/outside", "/workspace/through").is_err()
                    == (mode == MountMode::Write)
            );
            assert!(guest.read("/workspace/through").is_err());
            let _ = guest.unlink("/workspace/through");
        }
        assert!(guest.vfs.open_at(&folder, "b", READ).is_ok(), "the folder that was opened");
        assert_eq!(std::fs::read_to_string(guest.dir().join("outside")).unwrap(), "secret");
        assert!(!guest.dir().join("made").exists());
    }
}

#[test]
fn overlays_report_and_apply_symlinks() {
    let contents = |w: &Path| {
        symlink("a", w.join("old")).unwrap();
        symlink("a", w.join("gone")).unwrap();
        symlink("a", w.join("moved-from")).unwrap();
    };
    let guest = with(MountMode::Overlay, true, contents);
    guest.symlink("d/b", "/workspace/new").unwrap();
    guest.unlink("/workspace/old").unwrap();
    guest.symlink("d/e/f", "/workspace/old").unwrap();
    guest.unlink("/workspace/gone").unwrap();
    guest.rename("/workspace/moved-from", "/workspace/moved-to").unwrap();
    guest.unlink("/workspace/d/e/f").unwrap();
    guest.rmdir("/workspace/d/e").unwrap();
    guest.symlink("b", "/workspace/d/e").unwrap();
    let changes: Vec<_> = guest.vfs.changes().into_iter().map(|c| (c.path, c.kind)).collect();
    let expected = [
        ("d/e", Changed),
        ("d/e/f", Removed),
        ("gone", Removed),
        ("moved-from", Removed),
        ("moved-to", Added),
        ("new", Added),
        ("old", Changed),
    ];
    assert_eq!(changes, expected.map(|(path, kind)| (path.to_owned(), kind)));
    let diff = guest.vfs.diff();
    for line in [
        "--- /dev/null\n+++ b/new\n+symlink b/new -> d/b\n",
        "--- a/old\n+++ b/old\n-symlink a/old -> a\n+symlink b/old -> d/e/f\n",
        "--- a/gone\n+++ /dev/null\n-symlink a/gone -> a\n",
        "a/d/e and b/d/e have different file types\n+symlink b/d/e -> b\n",
    ] {
        assert!(diff.contains(line), "{diff}");
    }
    guest.vfs.apply().unwrap();
    for (rel, target) in [("new", "d/b"), ("old", "d/e/f"), ("moved-to", "a"), ("d/e", "b")] {
        assert_eq!(target_on_disk(&guest, rel).as_deref(), Some(Path::new(target)), "{rel}");
    }
    assert!(target_on_disk(&guest, "gone").is_none());
    assert_eq!(guest.vfs.changes(), []);
}

#[test]
fn symlinks_are_checked_again_when_an_overlay_is_applied() {
    for (symlinks, target, refusal) in [
        (false, "a", LinkRefusal::NotAllowed),
        (true, "/workspace/a", LinkRefusal::Outside),
        (true, "/tmp", LinkRefusal::Outside),
        (true, "../outside", LinkRefusal::Outside),
        (true, "d/../../outside", LinkRefusal::Outside),
        (true, "to-tmp/x", LinkRefusal::Outside),
        (true, "secret/key", LinkRefusal::Hidden),
    ] {
        let guest = Grant {
            mode: MountMode::Overlay,
            symlinks,
            deny_read: &["/workspace/secret"],
            ..Grant::default()
        }
        .guest(|w| ["a", "d/b", "secret/key"].iter().for_each(|file| fill(w, file, file)));
        guest.symlink("/tmp", "/workspace/d/to-tmp").unwrap();
        guest.unlink("/workspace/d/to-tmp").unwrap();
        if target == "to-tmp/x" {
            guest.symlink("/tmp", "/workspace/to-tmp").unwrap();
        }
        guest.write("/workspace/file", "x").unwrap();
        guest.symlink(target, "/workspace/link").unwrap();
        let Err(ApplyError::Symlink { refusal: found, .. }) = guest.vfs.apply() else {
            panic!("{target} was applied")
        };
        assert_eq!(found, refusal, "{target}");
        assert!(guest.vfs.staged(1 << 20).is_err(), "{target}");
        let note = format!("[this symlink prevents all changes from being applied: {refusal}]\n");
        assert!(guest.vfs.diff().contains(&note), "{target}: {}", guest.vfs.diff());
        assert!(!guest.host("file").exists(), "nothing was applied");
        assert!(guest.host("link").symlink_metadata().is_err(), "{target}");
        guest.unlink("/workspace/link").unwrap();
        let _ = guest.unlink("/workspace/to-tmp");
        guest.vfs.apply().unwrap();
        assert!(guest.host("file").exists());
    }
    // The operator's folder has changed in between.
    let guest = with(MountMode::Overlay, true, |_| {});
    guest.symlink("d/b", "/workspace/link").unwrap();
    std::fs::remove_dir_all(guest.host("d")).unwrap();
    symlink("../elsewhere", guest.host("d")).unwrap();
    let applied = guest.vfs.apply();
    assert!(
        matches!(applied, Err(ApplyError::Symlink { refusal: LinkRefusal::Outside, .. })),
        "{applied:?}"
    );
    symlink("x", guest.host("link")).unwrap();
    assert!(matches!(guest.vfs.apply(), Err(ApplyError::Changed(paths)) if paths == ["link"]));
}

#[test]
fn symlinks_of_the_host_do_not_become_guest_paths() {
    // Moved as it is, `/skill` would be the guest's folder.
    let guest = with(MountMode::Overlay, true, |w| {
        symlink("/skill", w.join("absolute")).unwrap();
        symlink("../outside", w.join("out")).unwrap();
    });
    for link in ["absolute", "out"] {
        let (from, to) = (format!("/workspace/{link}"), format!("/workspace/{link}-moved"));
        assert_eq!(guest.rename(&from, &to).unwrap_err(), Errno::PERM, "{link}");
        assert_eq!(guest.read_link(&from).unwrap_err(), Errno::PERM, "{link}");
    }
    guest.unlink("/workspace/out").unwrap();
    assert!(guest.vfs.diff().contains("-symlink a/out -> (outside)"), "{}", guest.vfs.diff());
}

#[test]
fn symlinks_in_a_folder_that_was_written_for_the_guest_lead_to_its_own_paths() {
    let grant = Grant {
        mode: MountMode::Overlay,
        guest_links: true,
        deny_read: &["/workspace/hidden/**", "/workspace/hidden"],
        ..Grant::default()
    };
    let guest = grant.guest(|w| {
        for file in ["a", "hidden/b"] {
            fill(w, file, file);
        }
        for (target, link) in [
            ("/workspace/a", "absolute"),
            ("../skill/SKILL.md", "up"),
            ("../outside", "out"),
            ("/etc/passwd", "host"),
            ("hidden/b", "denied"),
        ] {
            symlink(target, w.join(link)).unwrap();
        }
    });
    assert_eq!(guest.read("/workspace/absolute").unwrap(), "a");
    assert_eq!(guest.read("/workspace/up").unwrap(), "skill");
    assert_eq!(guest.read_link("/workspace/host").unwrap(), "/etc/passwd");
    // The guest has a file of this name.
    assert!(guest.read("/workspace/host").unwrap().contains("user:x:1000:1000:"));
    for link in ["out", "denied"] {
        let found = guest.read(&format!("/workspace/{link}"));
        assert!(
            matches!(found, Err(Errno::NOENT | Errno::ACCESS | Errno::PERM)),
            "{link}: {found:?}"
        );
    }
    assert!(
        guest.write("/workspace/up", "x").is_err() && guest.write("/workspace/out", "x").is_err()
    );
    assert_eq!(std::fs::read_to_string(guest.dir().join("outside")).unwrap(), "secret");
    // Changes of them are staged as they are, and shown.
    guest.rename("/workspace/absolute", "/workspace/moved").unwrap();
    guest.symlink("/tmp/x", "/workspace/new").unwrap();
    let staged = guest.vfs.staged_at("/workspace", 1 << 20).unwrap();
    let paths: Vec<&str> = staged.iter().map(|change| &*change.path).collect();
    assert_eq!(paths, ["absolute", "moved", "new"]);
    assert_eq!(staged[1].after, Some(NewEntry::Link("/workspace/a".into())));
    assert!(
        guest.vfs.diff().contains("-symlink a/absolute -> /workspace/a"),
        "{}",
        guest.vfs.diff()
    );
    assert!(guest.vfs.staged_at("/data", 1 << 20).unwrap().is_empty());
}

#[test]
fn symlinks_of_a_folder_that_is_written_in_place_are_never_paths_of_the_guest() {
    let grant = Grant { mode: MountMode::Write, guest_links: true, ..Grant::default() };
    let guest = grant.guest(|w| fill(w, "a", "a"));
    assert_eq!(guest.symlink("/etc/passwd", "/workspace/link").unwrap_err(), Errno::PERM);
}

#[test]
fn a_removed_symlink_whose_target_is_not_text_can_be_staged_and_applied() {
    use std::os::unix::ffi::OsStrExt as _;

    let target = std::ffi::OsStr::from_bytes(b"not-\xff-text");
    let guest = with(MountMode::Overlay, true, |w| symlink(target, w.join("link")).unwrap());
    guest.unlink("/workspace/link").unwrap();
    let staged = guest.vfs.staged(1 << 20).unwrap();
    let [StagedChange { path, before, after: None, .. }] = &*staged else { panic!("{staged:?}") };
    assert_eq!((&**path, before), ("link", &Some(OldEntry::File(String::new()))));
    guest.vfs.apply().unwrap();
    assert!(guest.host("link").symlink_metadata().is_err());
}

/// The guest decides how many symlinks there are, and its deadline no longer applies.
#[test]
fn checking_symlinks_for_a_diff_ends_with_its_time() {
    let guest = with(MountMode::Overlay, false, |_| {});
    guest.symlink("a", "/workspace/link").unwrap();
    let timed_out = guest.vfs.diff_within(std::time::Duration::ZERO);
    let expected = "+symlink b/link -> a\n[not checked: the diff timed out]\n";
    assert!(timed_out.ends_with(expected), "{timed_out}");
}

#[test]
fn symlinks_are_part_of_the_state_of_a_run() {
    let guest = overlay();
    guest.symlink("/tmp/x", "/workspace/link").unwrap();
    guest.symlink("a", "/workspace/d/near").unwrap();
    let cache = guest.dir().join("cache");
    let files = guest.vfs.snapshot(&cache).unwrap().files;
    assert_eq!(files["/workspace/link"], "link /tmp/x");
    assert_eq!(files["/workspace/d/near"], "link a");
    assert!(guest.vfs.touched()["/workspace/link"].created);

    // Targets outside the folder name something of the host.
    let guest = with(MountMode::Write, false, |w| {
        symlink("../outside", w.join("relative")).unwrap();
        symlink("/etc", w.join("absolute")).unwrap();
        symlink("../a", w.join("d/inside")).unwrap();
    });
    let files = guest.vfs.snapshot(&cache).unwrap().files;
    for (path, entry) in [("relative", "link"), ("absolute", "link"), ("d/inside", "link ../a")] {
        assert_eq!(files[&format!("/workspace/{path}")], entry, "{path}");
    }
}
