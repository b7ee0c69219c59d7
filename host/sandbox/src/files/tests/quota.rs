//! Each limit obeyed, violated and refunded.

use super::support::*;
use super::*;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::limits::Limits;

fn limited(disk: u64, files: u64, handles: u64) -> Guest {
    Grant { limits: Limits { disk, files, handles, ..Limits::default() }, ..Grant::default() }
        .guest(|_| {})
}

fn disk(bytes: u64) -> Guest {
    limited(bytes, 100, 100)
}

#[test]
fn writes_stop_at_the_quota() {
    let guest = disk(10);
    let file = guest.file("/workspace/f", WRITE).unwrap();
    assert_eq!(file.write_at(b"12345678", None), Ok(8));
    assert_eq!(guest.vfs.hit(), None);
    assert_eq!(file.write_at(b"9abcde", None), Ok(2), "what fits is written");
    assert_eq!(file.write_at(b"x", None), Err(Errno::NOSPC));
    assert_eq!(guest.vfs.hit(), Some(Limit::Disk));
    assert_eq!(guest.read("/workspace/f").unwrap(), "123456789a");
    assert_eq!(file.write_at(b"overwrite!", Some(0)), Ok(10), "overwriting takes no space");
}

#[test]
fn workspace_and_scratch_share_the_quota() {
    let guest = disk(10);
    guest.write("/tmp/t", "12345").unwrap();
    guest.write("/workspace/f", "12345").unwrap();
    assert_eq!(guest.write("/tmp/u", "x").unwrap_err(), Errno::NOSPC);
    assert_eq!(guest.write("/workspace/g", "x").unwrap_err(), Errno::NOSPC);
}

#[test]
fn gaps_count_towards_the_quota() {
    let guest = disk(100);
    let file = guest.file("/workspace/f", WRITE).unwrap();
    assert_eq!(file.write_at(b"x", Some(99)), Ok(1));
    assert_eq!(guest.vfs.usage().disk, 100);
    let file = guest.file("/workspace/g", WRITE).unwrap();
    assert_eq!(file.write_at(b"x", Some(1 << 40)), Err(Errno::NOSPC));
    assert_eq!(file.write_at(b"x", Some(u64::MAX)), Err(Errno::FBIG));
    assert_eq!(file.set_size(1), Err(Errno::NOSPC));
    assert_eq!(guest.stat("/workspace/g").unwrap().size, 0);
}

#[test]
fn writes_after_a_gap_write_what_fits() {
    let guest = disk(10);
    let file = guest.file("/workspace/f", WRITE).unwrap();
    assert_eq!(file.room(Some(8)), 2);
    assert_eq!(file.write_at(b"1234", Some(8)), Ok(2));
    assert_eq!(guest.vfs.usage().disk, 10);
}

#[test]
fn truncating_a_file_refunds_its_bytes() {
    let guest = disk(10);
    let file = guest.file("/workspace/f", WRITE).unwrap();
    file.set_size(10).unwrap();
    assert_eq!(file.set_size(11), Err(Errno::NOSPC));
    file.set_size(4).unwrap();
    assert_eq!(guest.vfs.usage().disk, 4);
    guest.write("/workspace/f", "").unwrap();
    assert_eq!(guest.vfs.usage().disk, 0, "the open flag refunds too");
    assert_eq!(file.write_at(b"1234567890", None), Ok(10), "the other handle sees the new size");
}

#[test]
fn removing_a_file_refunds_bytes_and_count() {
    let guest = limited(10, 1, 100);
    guest.write("/workspace/f", "1234567890").unwrap();
    assert_eq!(guest.open("/workspace/g", WRITE).unwrap_err(), Errno::NOSPC);
    assert_eq!(guest.vfs.hit(), Some(Limit::Files));
    guest.unlink("/workspace/f").unwrap();
    guest.write("/workspace/g", "1234567890").unwrap();
    assert_eq!(guest.vfs.usage().files_created, 2);
}

#[test]
fn removed_files_count_until_the_last_handle_closes() {
    for options in [UPDATE, READ] {
        let guest = limited(10, 1, 100);
        guest.write("/workspace/f", "1234567890").unwrap();
        let handle = guest.open("/workspace/f", options).unwrap();
        let second = handle.clone();
        guest.unlink("/workspace/f").unwrap();
        assert_eq!(guest.vfs.usage().disk, 10);
        assert_eq!(guest.open("/workspace/g", WRITE).unwrap_err(), Errno::NOSPC);
        drop(handle);
        assert_eq!(guest.vfs.usage().disk, 10);
        drop(second);
        assert_eq!(guest.vfs.usage().disk, 0);
        guest.write("/workspace/g", "1234567890").unwrap();
    }
}

#[test]
fn renaming_over_a_file_refunds_its_bytes() {
    let guest = limited(10, 2, 100);
    guest.write("/workspace/f", "12345").unwrap();
    guest.write("/workspace/g", "12345").unwrap();
    guest.rename("/workspace/f", "/workspace/g").unwrap();
    assert_eq!(guest.vfs.usage().disk, 5);
    guest.write("/workspace/h", "12345").unwrap();
    guest.rename("/workspace/h", "/workspace/h").unwrap();
    assert_eq!(guest.vfs.usage().disk, 10);
}

#[test]
fn removing_existing_files_earns_no_credit() {
    let guest =
        Grant { limits: Limits { disk: 10, files: 1, ..Limits::default() }, ..Grant::default() }
            .guest(|w| {
                std::fs::File::from(
                    rustix::fs::open(
                        w.join("old"),
                        rustix::fs::OFlags::CREATE | rustix::fs::OFlags::RDWR,
                        0o600.into(),
                    )
                    .unwrap(),
                )
                .set_len(1_000)
                .unwrap()
            });
    guest.unlink("/workspace/old").unwrap();
    let file = guest.file("/workspace/f", WRITE).unwrap();
    assert_eq!(file.write_at(&[0; 100], None), Ok(10));
    assert_eq!(guest.mkdir("/workspace/d").unwrap_err(), Errno::NOSPC);
}

#[test]
fn folders_count_as_files() {
    let guest = limited(10, 2, 100);
    guest.mkdir("/workspace/a").unwrap();
    guest.mkdir("/tmp/b").unwrap();
    assert_eq!(guest.vfs.hit(), None);
    assert_eq!(guest.mkdir("/workspace/c").unwrap_err(), Errno::NOSPC);
    assert_eq!(guest.vfs.hit(), Some(Limit::Files));
    guest.rmdir("/workspace/a").unwrap();
    guest.mkdir("/workspace/c").unwrap();
    assert_eq!(guest.mkdir("/workspace/c").unwrap_err(), Errno::EXIST);
    guest.rmdir("/workspace/c").unwrap();
    assert_eq!(
        guest.open("/workspace/none/f", WRITE).unwrap_err(),
        Errno::NOENT,
        "failures are not charged"
    );
    guest.write("/workspace/f", "").unwrap();
}

#[test]
fn handles_count_until_they_are_closed() {
    // Each call of the test harness opens four preopens briefly.
    let guest = limited(10, 100, 9);
    guest.write("/workspace/f", "x").unwrap();
    let mut held: Vec<_> = (0..5).map(|_| guest.open("/workspace/f", READ).unwrap()).collect();
    assert_eq!(guest.vfs.hit(), None);
    let (base, rest) = (guest.vfs.preopens().unwrap().remove(2).0, "f");
    held.extend((0..2).map(|_| guest.vfs.open_at(&base, rest, READ).unwrap()));
    let listing = guest.vfs.read_dir(&base).unwrap();
    assert_eq!(guest.vfs.open_at(&base, rest, READ).unwrap_err(), Errno::MFILE);
    assert_eq!(guest.vfs.hit(), Some(Limit::Handles));
    drop(listing);
    assert!(guest.vfs.open_at(&base, rest, READ).is_ok());
    held.clear();
    assert_eq!(guest.list("/workspace").unwrap(), ["f"]);
}

#[test]
fn overlay_copies_count_towards_the_quota() {
    let limits = Limits { disk: 10, ..Limits::default() };
    let guest = Grant { mode: MountMode::Overlay, limits, ..Grant::default() }.guest(|w| {
        for (name, size) in [("small", 8), ("large", 11)] {
            let file = rustix::fs::open(
                w.join(name),
                rustix::fs::OFlags::CREATE | rustix::fs::OFlags::RDWR,
                0o600.into(),
            )
            .unwrap();
            rustix::fs::ftruncate(file, size).unwrap();
        }
    });
    assert_eq!(guest.open("/workspace/large", UPDATE).unwrap_err(), Errno::NOSPC);
    assert_eq!(guest.vfs.usage().disk, 0);
    guest.open("/workspace/large", WRITE).unwrap();
    assert_eq!(guest.vfs.usage().disk, 0, "a file that is truncated when opened is not copied");
    guest.append("/workspace/small", "12").unwrap();
    assert_eq!(guest.vfs.usage().disk, 10);
    guest.unlink("/workspace/small").unwrap();
    assert_eq!(
        guest.vfs.usage(),
        FileUsage { bytes_read: 0, bytes_written: 2, files_created: 0, disk: 0 }
    );
}

#[test]
fn concurrent_writers_stay_within_the_quota() {
    let guest = disk(10_000);
    let total: usize = std::thread::scope(|scope| {
        let write = |i: usize| {
            let guest = &guest;
            scope.spawn(move || {
                // Two files with four writers each, all appending: no byte is lost or counted
                // twice.
                let file = guest
                    .file(
                        &format!("/workspace/f{}", i % 2),
                        OpenOptions { truncate: false, ..WRITE },
                    )
                    .unwrap();
                let mut written = 0;
                while let Ok(count) = file.write_at(&[b'x'; 77], None) {
                    written += count;
                }
                written
            })
        };
        let writers: Vec<_> = (0..8).map(write).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    let sizes: u64 = (0..2).map(|i| guest.stat(&format!("/workspace/f{i}")).unwrap().size).sum();
    assert_eq!((total as u64, sizes, guest.vfs.usage().disk), (10_000, 10_000, 10_000));
}
