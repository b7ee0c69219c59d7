//! The files that the runs of a session share.
#![expect(clippy::disallowed_methods, reason = "tests set up and read real folders")]

use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::{SessionFolders, SharedFiles};
use crate::files::support::{fill, folder_in_memory};
use crate::files::{Handle, OpenOptions, Vfs};
use skillhost_policy::capabilities::{PathRules, Scope};
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::ChangeKind;
use skillhost_policy::pattern::PathGlob;

const WRITE: OpenOptions = OpenOptions {
    follow: true,
    create: true,
    directory: false,
    exclusive: false,
    truncate: true,
    read: false,
    write: true,
};

/// A session whose workspace has the file `in` at the beginning.
struct Session {
    dir: tempfile::TempDir,
    files: Arc<SharedFiles>,
}

impl Session {
    fn new(limits: &Limits) -> Session {
        let dir = folder_in_memory();
        fill(dir.path(), "base/in", "old");
        let files = Arc::new(SharedFiles::new(folders(dir.path(), "one"), limits));
        Session { dir, files }
    }

    /// The file layer of a run that may write everything.
    fn run(&self) -> Arc<Vfs> {
        self.files.open(rules())
    }
}

/// New empty folders of a session.
fn folders(at: &Path, name: &str) -> SessionFolders {
    let at = at.canonicalize().unwrap();
    let made = |part: &str| {
        let path = at.join(format!("{name}-{part}"));
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    SessionFolders { base: at.join("base"), upper: made("upper"), tmp: made("tmp") }
}

fn rules() -> PathRules {
    let everything = || Scope {
        all_of: vec![vec![PathGlob::everything()]],
        none_of: Vec::new(),
        ..Scope::empty()
    };
    PathRules { read: everything(), write: everything() }
}

fn top(vfs: &Vfs, guest: &str) -> Handle {
    vfs.preopens().unwrap().into_iter().find(|(_, path)| path == guest).unwrap().0
}

fn write(vfs: &Vfs, path: &str, text: &str) -> Result<(), Errno> {
    let opened = vfs.open_at(&top(vfs, "/workspace"), path, WRITE)?;
    let count = opened.file()?.write_at(text.as_bytes(), Some(0))?;
    if count == text.len() { Ok(()) } else { Err(Errno::NOSPC) }
}

fn read(vfs: &Vfs, path: &str) -> Result<String, Errno> {
    let options = OpenOptions { follow: true, read: true, ..OpenOptions::default() };
    let opened = vfs.open_at(&top(vfs, "/workspace"), path, options)?;
    let mut bytes = [0; 100];
    let count = opened.file()?.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

#[test]
fn runs_of_a_session_see_each_others_writes_and_the_base_stays() {
    let session = Session::new(&Limits::default());
    let (one, two) = (session.run(), session.run());
    write(&one, "in", "new").unwrap();
    write(&one, "added", "text").unwrap();
    assert_eq!((read(&two, "in"), read(&two, "added")), (Ok("new".into()), Ok("text".into())));
    two.remove_file(&top(&two, "/workspace"), "in").unwrap();
    assert_eq!(read(&one, "in"), Err(Errno::NOENT));
    assert_eq!(std::fs::read_to_string(session.dir.path().join("base/in")).unwrap(), "old");
    let changed: Vec<String> = one.changes().into_iter().map(|change| change.path).collect();
    assert_eq!(changed, ["added", "in"]);
}

#[test]
fn one_file_is_charged_once_whoever_writes_it_and_all_runs_together_are_bounded() {
    let limits = Limits { disk: 10, files: 2, ..Limits::default() };
    let session = Session::new(&limits);
    let (one, two) = (session.run(), session.run());
    let (a, b) = (
        one.open_at(&top(&one, "/workspace"), "a", WRITE).unwrap(),
        two.open_at(
            &top(&two, "/workspace"),
            "a",
            OpenOptions { create: false, truncate: false, ..WRITE },
        )
        .unwrap(),
    );
    a.file().unwrap().write_at(b"12345", None).unwrap();
    b.file().unwrap().write_at(b"678", None).unwrap();
    assert_eq!(session.files.disk(), 8, "both append to one file");
    assert_eq!(read(&one, "a").unwrap(), "12345678");
    assert_eq!(write(&two, "b", "too much"), Err(Errno::NOSPC));
    assert_eq!((one.hit(), two.hit()), (None, Some(Limit::Disk)));
    assert_eq!(write(&one, "c", ""), Err(Errno::NOSPC), "the third file");
    assert_eq!((one.usage().bytes_written, two.usage().bytes_written), (5, 5));
    drop((a, b));
    one.remove_file(&top(&one, "/workspace"), "a").unwrap();
    assert_eq!(session.files.disk(), 2, "the rest of `b`");
    // A later run starts with what is in use, and without the hits of others.
    assert_eq!(session.run().hit(), None);
}

#[test]
fn a_fork_has_what_was_changed_and_neither_sees_the_other() {
    let session = Session::new(&Limits::default());
    let one = session.run();
    one.create_dir(&top(&one, "/workspace"), "sub").unwrap();
    write(&one, "sub/a", "1").unwrap();
    one.create_symlink(&top(&one, "/workspace"), "link", "sub/a").unwrap();
    one.remove_file(&top(&one, "/workspace"), "in").unwrap();
    let forked = Arc::new(session.files.fork(folders(session.dir.path(), "two")).unwrap());
    assert_eq!(forked.disk(), session.files.disk());
    let two = forked.open(rules());
    assert_eq!((read(&two, "sub/a"), read(&two, "link")), (Ok("1".into()), Ok("1".into())));
    assert_eq!(read(&two, "in"), Err(Errno::NOENT));
    assert_eq!(two.changes(), one.changes());
    write(&one, "sub/a", "one").unwrap();
    write(&two, "sub/a", "two").unwrap();
    assert_eq!((read(&one, "sub/a"), read(&two, "sub/a")), (Ok("one".into()), Ok("two".into())));
}

#[test]
fn a_frozen_view_and_a_session_without_changes_are_apart() {
    let session = Session::new(&Limits::default());
    let one = session.run();
    write(&one, "a", "1").unwrap();
    let frozen = Arc::new(session.files.frozen()).open(rules());
    write(&one, "b", "2").unwrap();
    let paths = |vfs: &Vfs| vfs.changes().into_iter().map(|change| change.path).collect::<Vec<_>>();
    assert_eq!(
        (paths(&frozen), paths(&one)),
        (vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()])
    );
    let next = folders(session.dir.path(), "next");
    let clean = Arc::new(session.files.without_changes(next.upper, next.base));
    let vfs = clean.open(rules());
    assert_eq!((paths(&vfs), read(&vfs, "a")), (Vec::new(), Err(Errno::NOENT)));
    assert_eq!(read(&vfs, "in").unwrap(), "old");
}

#[test]
fn changes_are_announced_with_their_paths() {
    let session = Session::new(&Limits::default());
    let one = session.run();
    write(&one, "a", "1").unwrap();
    one.rename(&top(&one, "/workspace"), "a", &top(&one, "/workspace"), "b").unwrap();
    let log = session.files.log();
    let seen: Vec<_> =
        log.since(0).changes.into_iter().map(|change| (change.path, change.kind)).collect();
    assert_eq!(seen, [("a".to_owned(), ChangeKind::Removed), ("b".to_owned(), ChangeKind::Added)]);
    // `/tmp` is not the workspace.
    let (tmp, last) = (top(&one, "/tmp"), log.since(0).last);
    one.open_at(&tmp, "x", WRITE).unwrap();
    assert!(log.since(last).changes.is_empty());
}

#[test]
fn tmp_is_shared_and_counts_and_links_lead_there() {
    let session = Session::new(&Limits::default());
    let (one, two) = (session.run(), session.run());
    let opened = one.open_at(&top(&one, "/tmp"), "x", WRITE).unwrap();
    opened.file().unwrap().write_at(b"1234", None).unwrap();
    two.create_symlink(&top(&two, "/workspace"), "link", "/tmp/x").unwrap();
    assert_eq!(read(&two, "link").unwrap(), "1234");
    let next = folders(session.dir.path(), "next");
    let clean = session.files.without_changes(next.upper, next.base);
    assert_eq!(clean.disk(), 4, "what is in /tmp stays");
    let few = Session::new(&Limits { files: 2, ..Limits::default() });
    let run = few.run();
    run.open_at(&top(&run, "/tmp"), "x", WRITE).unwrap();
    let next = folders(few.dir.path(), "next");
    let clean = Arc::new(few.files.without_changes(next.upper, next.base));
    let run = clean.open(rules());
    run.open_at(&top(&run, "/tmp"), "y", WRITE).unwrap();
    assert!(run.open_at(&top(&run, "/tmp"), "z", WRITE).is_err(), "its entries count as well");
}

/// Gives a file a content as a client does.
fn replace(session: &Session, vfs: &Vfs, guest: &str, path: &str, text: &str) -> Result<(), Errno> {
    fill(session.dir.path(), "sent", text);
    let sent = std::fs::File::open(session.dir.path().join("sent")).unwrap();
    vfs.replace_file(&top(vfs, guest), path, &sent, text.len() as u64, None)
}

#[test]
fn a_file_is_replaced_in_one_step_and_charged_once() {
    let session = Session::new(&Limits { files: 3, ..Limits::default() });
    let (one, two) = (session.run(), session.run());
    // A file of the base, a changed one, and a new one, each while a program has it open.
    let read_only = OpenOptions { read: true, ..OpenOptions::default() };
    for (path, old) in [("in", "old"), ("in", "second"), ("new", "new")] {
        if path == "new" {
            replace(&session, &one, "/workspace", path, old).unwrap();
        }
        let open = two.open_at(&top(&two, "/workspace"), path, read_only).unwrap();
        replace(&session, &one, "/workspace", path, "second").unwrap();
        assert_eq!(read(&two, path).unwrap(), "second");
        let mut bytes = [0; 20];
        let count = open.file().unwrap().read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes[..count], old.as_bytes(), "{path}: the old file is whole");
    }
    assert_eq!(session.files.disk(), 12);
    let upper = std::fs::read_dir(&session.files.folders().upper).unwrap().count();
    assert_eq!(upper, 2, "nothing else is left there");
    // `/tmp`, and a link there.
    replace(&session, &one, "/tmp", "x", "in tmp").unwrap();
    one.create_symlink(&top(&one, "/workspace"), "link", "/tmp/x").unwrap();
    replace(&session, &one, "/workspace", "link", "through").unwrap();
    assert_eq!(read(&two, "link").unwrap(), "through");
    assert_eq!(two.read_link(&top(&two, "/workspace"), "link").unwrap(), "/tmp/x");
    assert_eq!(replace(&session, &one, "/workspace", "more", ""), Err(Errno::NOSPC), "a fourth");
    one.remove_file(&top(&one, "/tmp"), "x").unwrap();
    let changed: Vec<_> = one.changes().into_iter().map(|c| (c.path, c.kind)).collect();
    let expected =
        [("in", ChangeKind::Changed), ("link", ChangeKind::Added), ("new", ChangeKind::Added)];
    assert_eq!(changed, expected.map(|(path, kind)| (path.to_owned(), kind)));
    assert_eq!(std::fs::read_to_string(session.dir.path().join("base/in")).unwrap(), "old");
}

#[test]
fn a_file_that_cannot_be_replaced_stays_and_the_new_one_is_gone() {
    let session = Session::new(&Limits { disk: 10, ..Limits::default() });
    let one = session.run();
    one.create_dir(&top(&one, "/workspace"), "folder").unwrap();
    let nothing = PathRules { write: Scope::empty(), ..rules() };
    let reads = session.files.open(nothing);
    let cases = [
        (&one, "in", "longer than 10 bytes", Errno::NOSPC),
        (&one, "folder", "x", Errno::ISDIR),
        (&one, "in/x", "x", Errno::NOTDIR),
        (&one, "none/x", "x", Errno::NOENT),
        (&one, "../../x", "x", Errno::PERM),
        (&reads, "in", "x", Errno::ACCESS),
        (&reads, "new", "x", Errno::ACCESS),
    ];
    for (vfs, path, text, error) in cases {
        let found = replace(&session, vfs, "/workspace", path, text);
        assert_eq!(found, Err(error), "{path}");
    }
    // A content that ends early.
    fill(session.dir.path(), "sent", "short");
    let sent = std::fs::File::open(session.dir.path().join("sent")).unwrap();
    let short = one.replace_file(&top(&one, "/workspace"), "in", &sent, 9, None);
    assert_eq!((short, read(&one, "in").unwrap()), (Err(Errno::BUSY), "old".into()));
    assert_eq!(session.files.disk(), 0);
    let upper = std::fs::read_dir(&session.files.folders().upper).unwrap();
    let names: Vec<_> = upper.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["folder"]);
}

#[test]
fn a_replaced_file_keeps_its_permission_bits_unless_others_are_named() {
    let session = Session::new(&Limits::default());
    let (one, at) = (session.run(), |vfs: &Vfs| vfs.mode_at(&top(vfs, "/workspace"), "in"));
    assert_eq!(at(&one), None);
    fill(session.dir.path(), "sent", "x");
    let sent = std::fs::File::open(session.dir.path().join("sent")).unwrap();
    one.replace_file(&top(&one, "/workspace"), "in", &sent, 1, Some(0o755)).unwrap();
    replace(&session, &one, "/workspace", "in", "y").unwrap();
    assert_eq!((at(&one), at(&session.run())), (Some(0o755), Some(0o755)));
    one.remove_file(&top(&one, "/workspace"), "in").unwrap();
    replace(&session, &one, "/workspace", "in", "z").unwrap();
    assert_eq!(at(&one), None, "another file");
}
