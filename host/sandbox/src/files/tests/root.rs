//! `/`: its content, that nothing can be created in it, and that the rules of a mount hold for
//! paths through it. Also the devices.

use rustix::fs::FileType;

use super::support::*;
use super::*;
use skillhost_policy::limits::Limits;

fn listed(guest: &Guest, path: &str) -> Vec<(String, FileType)> {
    let folder = guest.open(path, FOLDER).unwrap();
    guest.vfs.read_dir(&folder).unwrap().collect()
}

fn names(guest: &Guest, path: &str) -> Vec<String> {
    listed(guest, path).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn root_lists_mounts_and_devices() {
    let guest = Grant::default().guest(|w| fill(w, "a", "x"));
    assert_eq!(names(&guest, "/"), ["dev", "etc", "skill", "tmp", "usr", "workspace"]);
    assert_eq!(
        listed(&guest, "/dev").into_iter().map(|(_, kind)| kind).collect::<Vec<_>>(),
        [FileType::CharacterDevice; 4]
    );
    assert_eq!(names(&guest, "/dev"), ["null", "random", "urandom", "zero"]);
    assert_eq!(names(&guest, "/usr/bin"), ["python3"]);
    assert_eq!(names(&guest, "/./dev/../workspace/"), ["a"]);
}

#[test]
fn mounts_without_access_are_hidden_in_the_root() {
    let guest = Grant { read: &[], write: &[], ..Grant::default() }.guest(|w| fill(w, "a", "x"));
    assert_eq!(names(&guest, "/"), ["dev", "etc", "skill", "tmp", "usr"]);
    let root = guest.root();
    for path in ["workspace", "workspace/", "workspace/a", "tmp/../workspace/a"] {
        assert_eq!(guest.vfs.open_at(&root, path, READ).unwrap_err(), Errno::NOENT, "{path}");
        assert_eq!(guest.vfs.stat_at(&root, path, true).unwrap_err(), Errno::NOENT, "{path}");
    }
}

#[test]
fn mount_rules_hold_for_paths_through_the_root() {
    let deny_read: &[&str] = &["/workspace/secret/**", "/workspace/secret"];
    let guest = Grant { deny_read, write: &["/workspace/out/**"], ..Grant::default() }.guest(|w| {
        fill(w, "a", "x");
        fill(w, "out/b", "x");
        fill(w, "secret/c", "x");
        std::os::unix::fs::symlink("../outside", w.join("link")).unwrap();
        std::os::unix::fs::symlink("secret", w.join("inner")).unwrap();
        std::os::unix::fs::symlink("/skill", w.join("absolute")).unwrap();
    });
    let (root, (workspace, _)) = (guest.root(), guest.at("/workspace"));
    for path in [
        "a",
        "out/b",
        "out/new",
        "secret/c",
        "secret/new",
        "secret",
        "link",
        "inner/c",
        "absolute/SKILL.md",
        "none/x",
        "a/",
        ".",
    ] {
        let through = format!("workspace/{path}");
        for options in [READ, WRITE, UPDATE, CREATE_NEW, FOLDER] {
            let error = |base: &Handle, path: &str| guest.vfs.open_at(base, path, options).err();
            let (direct, rooted) = (error(&workspace, path), error(&root, &through));
            // The second call finds the file that the first one created.
            let exists = path == "out/new" && options.exclusive;
            let expected = if exists { Some(Errno::EXIST) } else { direct };
            assert_eq!(rooted, expected, "{path} {options:?}");
        }
        let kind =
            |base: &Handle, path: &str| guest.vfs.stat_at(base, path, true).map(|found| found.kind);
        assert_eq!(kind(&root, &through), kind(&workspace, path), "{path}");
        assert_eq!(
            guest.vfs.read_link(&root, &through),
            guest.vfs.read_link(&workspace, path),
            "{path}"
        );
        let hash = |base: &Handle, path: &str| guest.vfs.metadata_hash_at(base, path, true);
        assert_eq!(hash(&root, &through), hash(&workspace, path), "{path}");
        assert_eq!(
            guest.vfs.remove_dir(&root, &through),
            guest.vfs.remove_dir(&workspace, path),
            "{path}"
        );
    }
    assert!(guest.vfs.open_at(&root, "workspace/../skill/SKILL.md", READ).is_ok());
    assert_eq!(guest.vfs.open_at(&root, "workspace/../outside", READ).unwrap_err(), Errno::NOENT);
    for path in ["..", "../../outside", "../tmp", "dev/../../tmp", "workspace/../.."] {
        assert_eq!(guest.vfs.open_at(&root, path, READ).unwrap_err(), Errno::PERM, "{path}");
    }
    assert_eq!(guest.vfs.rename(&root, "workspace/out/b", &root, "tmp/b"), Err(Errno::XDEV));
    guest.vfs.rename(&root, "workspace/out/b", &root, "workspace/out/d").unwrap();
}

#[test]
fn root_refuses_changes() {
    let guest = Grant::default().guest(|_| {});
    let before = names(&guest, "/");
    let root = guest.root();
    for path in ["x", "etc/x", "dev/x", "usr/bin/x", "usr/x"] {
        assert_eq!(guest.write(&format!("/{path}"), "x"), Err(Errno::ROFS), "{path}");
        assert_eq!(guest.vfs.create_dir(&root, path), Err(Errno::ROFS), "{path}");
        assert_eq!(guest.vfs.rename(&root, "dev/null", &root, path), Err(Errno::ROFS), "{path}");
    }
    assert_eq!(guest.write("/etc/passwd", "x"), Err(Errno::ROFS));
    assert_eq!(guest.vfs.remove_file(&root, "etc/passwd"), Err(Errno::ROFS));
    assert_eq!(guest.write("/none/x", "x"), Err(Errno::NOENT));
    assert_eq!(guest.vfs.create_dir(&root, "workspace"), Err(Errno::EXIST));
    assert_eq!(guest.vfs.remove_file(&root, "dev/null"), Err(Errno::ROFS));
    assert_eq!(guest.vfs.remove_file(&root, "usr/bin/python3"), Err(Errno::ROFS));
    assert_eq!(guest.write("/usr/bin/python3", "x"), Err(Errno::ROFS));
    assert_eq!(guest.vfs.remove_dir(&root, "workspace"), Err(Errno::BUSY));
    assert_eq!(guest.vfs.remove_dir(&root, "usr"), Err(Errno::ROFS));
    assert_eq!(
        guest.vfs.set_times_at(&root, "dev/null", true, NewTime::Now, NewTime::Now),
        Err(Errno::ROFS)
    );
    assert_eq!(names(&guest, "/"), before);
    let denied = guest.vfs.denials();
    let denial = denied.iter().find(|denial| denial.what == "write /x").unwrap();
    assert!(denial.fix.as_ref().unwrap().contains("--workspace"), "{denied:?}");
    // `/` is not accounted for.
    assert!(guest.vfs.touched().is_empty(), "{:?}", guest.vfs.touched());
}

#[test]
fn devices_accept_all_writes_at_no_cost() {
    let guest =
        Grant { limits: Limits { disk: 0, files: 0, ..Limits::default() }, ..Grant::default() }
            .guest(|_| {});
    for path in ["/dev/null", "/dev/zero", "/dev/urandom"] {
        for options in [UPDATE, WRITE, OpenOptions { truncate: false, ..WRITE }] {
            let file = guest.file(path, options).unwrap();
            assert_eq!(file.write_at(&[1; 5_000], Some(1 << 40)), Ok(5_000), "{path}");
            assert_eq!(file.write_at(&[1; 5_000], None), Ok(5_000), "{path}");
            assert_eq!(
                (file.room(None), file.set_size(3), file.sync()),
                (u64::MAX, Ok(()), Ok(())),
                "{path}"
            );
        }
        let file = guest.file(path, READ).unwrap();
        assert_eq!(
            (file.write_at(b"x", None), file.set_size(0)),
            (Err(Errno::BADF), Err(Errno::BADF)),
            "{path}"
        );
        let handle = guest.open(path, READ).unwrap();
        for found in [
            guest.vfs.stat(&handle).unwrap(),
            guest.vfs.stat_at(&guest.root(), &path[1..], true).unwrap(),
        ] {
            assert_eq!((found.kind, found.size), (FileType::CharacterDevice, 0), "{path}");
        }
        assert_eq!(guest.open(path, CREATE_NEW).unwrap_err(), Errno::EXIST, "{path}");
        assert_eq!(guest.open(path, FOLDER).unwrap_err(), Errno::NOTDIR, "{path}");
        assert_eq!(guest.open(&format!("{path}/"), READ).unwrap_err(), Errno::NOTDIR, "{path}");
    }
    assert_eq!(guest.vfs.hit(), None);
    let usage = guest.vfs.usage();
    assert_eq!((usage.bytes_written, usage.disk, usage.files_created), (0, 0, 0));
}

#[test]
fn devices_return_their_content() {
    let guest = Grant::default().guest(|_| {});
    let read = |path: &str, count: usize| {
        let mut buffer = vec![1; count];
        let count = guest.file(path, READ).unwrap().read_at(&mut buffer, 1 << 40)?;
        buffer.truncate(count);
        Ok(buffer)
    };
    assert_eq!(read("/dev/null", 9), Ok(vec![]));
    assert_eq!(read("/dev/zero", 9), Ok(vec![0; 9]));
    // The random source of these tests returns sevens, at most 1,000 at once.
    assert_eq!(read("/dev/urandom", 9), Ok(vec![7; 9]));
    assert_eq!(read("/dev/random", 1_001), Err(Errno::IO));
    assert_eq!(guest.file("/dev/null", WRITE).unwrap().read_at(&mut [0; 1], 0), Err(Errno::BADF));
}

#[test]
fn device_handles_count() {
    let guest = Grant { limits: Limits { handles: 2, ..Limits::default() }, ..Grant::default() }
        .guest(|_| {});
    let root = guest.vfs.folder(3, "").unwrap();
    let _one = guest.vfs.open_at(&root, "dev/null", READ).unwrap();
    assert_eq!(guest.vfs.open_at(&root, "dev/null", READ).unwrap_err(), Errno::MFILE);
}

#[test]
fn host_reads_of_guest_paths_obey_the_rules() {
    let guest = Grant { deny_read: &["/workspace/secret"], ..Grant::default() }.guest(|w| {
        fill(w, "a", "0123456789");
        fill(w, "secret", "x");
    });
    assert_eq!(guest.vfs.head("/workspace/a", 4), Some(b"0123".to_vec()));
    assert_eq!(guest.vfs.head("/skill/../workspace/./a", 40), Some(b"0123456789".to_vec()));
    for path in ["/workspace/secret", "/workspace", "/workspace/none", "/outside", "relative", ""] {
        assert_eq!(guest.vfs.head(path, 4), None, "{path}");
    }
}
