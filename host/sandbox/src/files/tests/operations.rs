//! The operations, if they are allowed.
#![expect(clippy::disallowed_methods, reason = "tests set up and read real folders")]

use std::os::unix::fs::symlink;

use super::support::*;
use super::*;
use skillhost_policy::limits::Limits;

#[test]
fn listings_are_sorted_and_omit_non_utf8_names() {
    let guest = Grant::default().guest(|w| {
        for name in ["b", "a", "é", "A", "a10", "a2"] {
            fill(w, name, "");
        }
        let odd = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
        std::fs::write(w.join::<&std::ffi::OsStr>(odd), "").unwrap();
    });
    assert_eq!(guest.list("/workspace").unwrap(), ["A", "a", "a10", "a2", "b", "é"]);
}

#[test]
fn trailing_slashes_require_a_folder() {
    let guest = Grant::default().guest(|w| fill(w, "d/f", "x"));
    assert_eq!(guest.stat("/workspace/d/").unwrap().kind, rustix::fs::FileType::Directory);
    assert_eq!(guest.stat("/workspace/d/f/").unwrap_err(), Errno::NOTDIR);
    assert_eq!(guest.open("/workspace/d/f/", READ).unwrap_err(), Errno::NOTDIR);
    assert_eq!(guest.stat("/workspace/d/f/x").unwrap_err(), Errno::NOTDIR);
    assert_eq!(guest.open("/workspace/d", WRITE).unwrap_err(), Errno::ISDIR);
    assert_eq!(guest.open("/workspace/d/f", FOLDER).unwrap_err(), Errno::NOTDIR);
}

#[test]
fn times_can_be_set_and_read_back() {
    let guest = Grant::default().guest(|w| fill(w, "d/f", "x"));
    let (base, _) = guest.at("/workspace");
    guest.vfs.set_times_at(&base, "d/f", true, NewTime::At(5, 6), NewTime::At(7, 8)).unwrap();
    let stat = guest.stat("/workspace/d/f").unwrap();
    assert_eq!((stat.accessed, stat.modified), ((5, 6), (7, 8)));
    let file = guest.open("/workspace/d/f", READ).unwrap();
    guest.vfs.set_times(&file, NewTime::BlobStore, NewTime::At(9, 0)).unwrap();
    let stat = guest.stat("/workspace/d/f").unwrap();
    assert_eq!((stat.accessed, stat.modified), ((5, 6), (9, 0)));
    guest.vfs.set_times_at(&base, "d", true, NewTime::At(1, 0), NewTime::At(1, 0)).unwrap();
    assert_eq!(guest.stat("/workspace/d").unwrap().modified, (1, 0));
    let bad = NewTime::At(0, 1_073_741_823);
    assert_eq!(guest.vfs.set_times_at(&base, "d", true, bad, bad).unwrap_err(), Errno::INVAL);
}

#[test]
fn identity_depends_only_on_the_guest_path() {
    let hashes = || {
        let guest = Grant::default().guest(|w| {
            fill(w, "f", "x");
            symlink("f", w.join("link")).unwrap();
        });
        let (base, _) = guest.at("/workspace");
        let followed = guest.vfs.metadata_hash_at(&base, "link", true).unwrap();
        assert_eq!(followed, guest.vfs.metadata_hash(&guest.open("/workspace/f", READ).unwrap()));
        assert_ne!(followed, guest.vfs.metadata_hash_at(&base, "link", false).unwrap());
        followed
    };
    assert_eq!(hashes(), hashes());
}

#[test]
fn metadata_hash_reuses_last_lookup() {
    let guest = Grant::default().guest(|w| {
        fill(w, "d/f", "x");
        symlink("d/f", w.join("link")).unwrap();
    });
    let (base, _) = guest.at("/workspace");
    let number = |path: &str, follow| guest.vfs.metadata_hash_at(&base, path, follow);
    let (of_file, of_link) = (number("d/f", true).unwrap(), number("link", false).unwrap());
    for (path, follow, of) in
        [("d/f", true, of_file), ("link", true, of_file), ("link", false, of_link)]
    {
        guest.vfs.stat_at(&base, path, follow).unwrap();
        assert_eq!(number(path, follow), Ok(of));
        // Another lookup in between must not change the answer.
        guest.vfs.stat_at(&base, path, !follow).unwrap();
        assert_eq!(number(path, follow), Ok(of));
    }
    let listing = guest.vfs.read_dir(&guest.open("/workspace/d", FOLDER).unwrap());
    let (folder, mut listing) = (guest.open("/workspace/d", FOLDER).unwrap(), listing.unwrap());
    assert_eq!(guest.vfs.next_entry(&mut listing).unwrap().0, "f");
    assert_eq!(guest.vfs.metadata_hash_at(&folder, "f", false), Ok(of_file));
    assert_eq!(guest.vfs.metadata_hash_at(&base, "f", false), Err(Errno::NOENT));

    // wasi-libc does not follow for the hash: a file is found already, a symlink is another entry.
    guest.vfs.stat_at(&base, "d/f", true).unwrap();
    std::fs::rename(guest.host("d/f"), guest.host("d/g")).unwrap();
    assert_eq!(number("d/f", false), Ok(of_file));
    std::fs::rename(guest.host("d/g"), guest.host("d/f")).unwrap();
    guest.vfs.stat_at(&base, "link", true).unwrap();
    assert_eq!(number("link", false), Ok(of_link));
    guest.vfs.stat_at(&base, "link", false).unwrap();
    assert_eq!(number("link", true), Ok(of_file));

    // The lookup is used once: a file that the host removes in between is still found, and then
    // missing.
    guest.vfs.stat_at(&base, "d/f", false).unwrap();
    std::fs::remove_file(guest.host("d/f")).unwrap();
    assert_eq!(number("d/f", false), Ok(of_file));
    assert_eq!(number("d/f", false), Err(Errno::NOENT));

    guest.write("/workspace/d/f", "x").unwrap();
    guest.vfs.stat_at(&base, "d/f", false).unwrap();
    guest.vfs.remove_file(&base, "d/f").unwrap();
    assert_eq!(number("d/f", false), Err(Errno::NOENT));
    assert_eq!(guest.vfs.metadata_hash_at(&folder, "f", false), Err(Errno::NOENT));
}

#[test]
fn metadata_reuses_the_lookup_of_the_hash() {
    let guest = Grant::default().guest(|w| {
        fill(w, "d/f", "x");
        fill(w, "d/moved", "xy");
        symlink("d/f", w.join("link")).unwrap();
    });
    let (base, _) = guest.at("/workspace");
    let number = |path: &str| guest.vfs.metadata_hash_at(&base, path, false).unwrap();
    let stat = |path: &str, follow| guest.vfs.stat_at(&base, path, follow);
    // wasi-libc asks for the hash without following, and then for the metadata.
    for follow in [true, false] {
        let reused = || {
            number("d/f");
            std::fs::rename(guest.host("d/f"), guest.host("d/away")).unwrap();
            let found = stat("d/f", follow);
            let again = stat("d/f", follow);
            std::fs::rename(guest.host("d/away"), guest.host("d/f")).unwrap();
            assert_eq!(again, Err(Errno::NOENT), "it is used once");
            found.is_ok()
        };
        // A slow machine takes longer than what counts as immediately.
        assert!((0..100).any(|_| reused()));
        number("d/f");
        std::thread::sleep(std::time::Duration::from_millis(2));
        std::fs::rename(guest.host("d/f"), guest.host("d/away")).unwrap();
        assert_eq!(stat("d/f", follow), Err(Errno::NOENT), "others may have changed it");
        std::fs::rename(guest.host("d/away"), guest.host("d/f")).unwrap();
    }
    number("link");
    assert_eq!(stat("link", true).unwrap().size, 1);
    number("link");
    assert_eq!(stat("link", false).unwrap().kind, rustix::fs::FileType::Symlink);
    number("d/moved");
    assert_eq!(stat("d/f", false).unwrap().size, 1);

    // What the run itself changes is seen at once.
    let file = guest.file("/workspace/d/f", WRITE).unwrap();
    number("d/f");
    file.write_at(b"12345", Some(0)).unwrap();
    assert_eq!(stat("d/f", true).unwrap().size, 5);
    number("d/f");
    file.set_size(3).unwrap();
    assert_eq!(stat("d/f", true).unwrap().size, 3);
    let handle = guest.open("/workspace/d/f", WRITE).unwrap();
    number("d/f");
    guest.vfs.set_times(&handle, NewTime::BlobStore, NewTime::At(7, 0)).unwrap();
    assert_eq!(stat("d/f", true).unwrap().modified, (7, 0));
    number("d/f");
    guest.vfs.remove_file(&base, "d/f").unwrap();
    assert_eq!(stat("d/f", true), Err(Errno::NOENT));
}

#[test]
fn folders_under_uniform_rules_can_be_renamed() {
    let guest = Grant::default().guest(|w| fill(w, "d/f", "x"));
    guest.rename("/workspace/d", "/workspace/e").unwrap();
    assert_eq!(guest.read("/workspace/e/f").unwrap(), "x");
    assert_eq!(guest.rename("/workspace/e/f", "/tmp/f").unwrap_err(), Errno::XDEV);
}

#[test]
fn accounts_cover_each_path_outside_scratch() {
    let guest = Grant::default().guest(|w| {
        fill(w, "in", "12345");
        fill(w, "gone", "x");
        fill(w, "cut", "x");
        fill(w, "untouched", "x");
    });
    guest.read("/workspace/in").unwrap();
    guest.read("/skill/SKILL.md").unwrap();
    guest.write("/workspace/new", "123").unwrap();
    guest.write("/tmp/t", "12").unwrap();
    guest.write("/workspace/cut", "").unwrap();
    guest.unlink("/workspace/gone").unwrap();
    guest.open("/workspace/untouched", READ).unwrap();
    guest.rename("/workspace/new", "/workspace/moved").unwrap();
    let touched = guest.vfs.touched();
    assert_eq!(touched["/workspace/in"], FileActivity { read: 5, ..FileActivity::default() });
    assert_eq!(touched["/skill/SKILL.md"], FileActivity { read: 5, ..FileActivity::default() });
    assert_eq!(
        touched["/workspace/new"],
        FileActivity { written: 3, created: true, removed: true, ..FileActivity::default() }
    );
    assert_eq!(
        touched["/workspace/moved"],
        FileActivity { created: true, ..FileActivity::default() }
    );
    assert_eq!(
        touched["/workspace/cut"],
        FileActivity { resized: true, ..FileActivity::default() }
    );
    assert_eq!(
        touched["/workspace/gone"],
        FileActivity { removed: true, ..FileActivity::default() }
    );
    assert_eq!(touched.len(), 6);
    assert_eq!(
        guest.vfs.usage(),
        FileUsage { bytes_read: 10, bytes_written: 5, files_created: 2, disk: 3 },
        "without the bytes of removed files"
    );
}

#[test]
fn accounts_are_bounded() {
    let guest = Grant { limits: Limits { files: 20_000, ..Limits::default() }, ..Grant::default() }
        .guest(|_| {});
    for i in 0..10_050 {
        guest.write(&format!("/workspace/f{i}"), "").unwrap();
    }
    assert_eq!(guest.vfs.touched().len(), 10_000);
    assert_eq!(guest.vfs.usage().files_created, 10_050);
}

/// The last file that was not found in `/skill`, and nothing else, is remembered.
#[test]
fn missing_file_of_the_skill_is_remembered() {
    let guest = Grant::default().guest(|_| ());
    assert_eq!(guest.vfs.missing(), None);
    for path in ["/workspace/data.csv", "/tmp/data.csv", "/skill/../data.csv", "/skill/SKILL.md"] {
        let _ = guest.open(path, READ);
        assert_eq!(guest.vfs.missing(), None, "{path}");
    }
    for path in ["data.csv", "in/data.csv", &"x".repeat(255)] {
        assert_eq!(guest.open(&format!("/skill/{path}"), READ).unwrap_err(), Errno::NOENT);
        assert_eq!(guest.vfs.missing().as_deref(), Some(path));
    }
    assert!(guest.open(&format!("/skill/{}", "x/".repeat(128)), READ).is_err());
    assert_eq!(guest.vfs.missing().unwrap(), "x".repeat(255));
}
