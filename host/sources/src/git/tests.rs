//! Repositories that `git` made, over `file://` and over HTTP by its own server, and hostile packs.
#![expect(clippy::disallowed_methods, reason = "tests set up real repositories")]

use std::cell::RefCell;
use std::io::{Cursor, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use proptest::prelude::*;

use super::object::{Object, ObjectKind, Objects as _};
use super::pack::Pack;
use super::*;
use crate::network::{Offline, Request, Response};
use crate::staging::StagedEntry;

struct Repository {
    folder: tempfile::TempDir,
}

impl Repository {
    fn new() -> Repository {
        let repository = Repository { folder: tempfile::tempdir().unwrap() };
        repository.git(&["init", "-q", "-b", "main", "."]);
        repository
    }

    fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    fn url(&self) -> String {
        format!("file://{}", self.folder.path().display())
    }

    fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"])
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Commits everything. Returns the commit.
    fn commit(&self) -> String {
        self.git(&["add", "-A", "-f"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "message"]);
        self.git(&["rev-parse", "HEAD"])
    }
}

/// Serves repositories with git's own program for HTTP servers, without a socket.
struct Backend {
    root: PathBuf,
    requests: RefCell<Vec<String>>,
}

impl Network for Backend {
    fn send(&self, request: &Request) -> Result<Response, SourceError> {
        let path = request.url.strip_prefix("https://host").expect("a request to another host");
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        self.requests.borrow_mut().push(format!("{path}?{query}"));
        let field = |name: &str| {
            request.headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
        };
        let mut child = Command::new("git")
            .args([
                "-c",
                "safe.directory=*",
                "-c",
                "uploadpack.allowAnySHA1InWant=true",
                "http-backend",
            ])
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("GIT_PROTOCOL", field("git-protocol").unwrap_or_default())
            .env("REQUEST_METHOD", if request.body.is_some() { "POST" } else { "GET" })
            .env("PATH_INFO", path)
            .env("QUERY_STRING", query)
            .env("CONTENT_TYPE", field("content-type").unwrap_or_default())
            .env("CONTENT_LENGTH", request.body.as_ref().map_or(0, Vec::len).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(request.body.as_deref().unwrap_or_default()).unwrap();
        let mut output = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        child.wait().unwrap();
        let end = output.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(output[..end].to_vec()).unwrap();
        let field = |name: &str| {
            let start = format!("{name}: ");
            head.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
        };
        let status = field("Status").map_or(200, |status| status[..3].parse().unwrap());
        let body = Box::new(Cursor::new(output[end + 4..].to_vec()));
        let kind = field("Content-Type").map(|kind| ("content-type".to_owned(), kind));
        Ok(Response { status, headers: kind.into_iter().collect(), body })
    }
}

fn pinned(id: ObjectId) -> Pinned {
    Pinned { id, is_tag: false }
}

/// Fetches from a repository over both transports, which must agree.
fn fetched(repository: &Repository, reference: Option<&str>) -> Result<Commit, SourceError> {
    fetched_pinned(repository, reference, Pin::None)
}

fn fetched_pinned(
    repository: &Repository,
    reference: Option<&str>,
    pinned: Pin,
) -> Result<Commit, SourceError> {
    let within = tempfile::tempdir().unwrap();
    let limits = TransferLimits::default();
    let network = Backend { root: repository.path(), requests: RefCell::default() };
    let local = fetch(&repository.url(), reference, pinned, &Offline, within.path(), &limits);
    let remote = fetch("https://host/.git", reference, pinned, &network, within.path(), &limits);
    match (&local, &remote) {
        (Ok(local), Ok(remote)) => {
            assert_eq!(local.id, remote.id);
            assert_eq!(local.staged.entries, remote.staged.entries);
        }
        (Err(_), Err(_)) => {}
        _ => panic!("{local:?}\n{remote:?}"),
    }
    // The contents outlive the folder, which the value removes.
    std::mem::forget(within);
    remote
}

fn rule<T: std::fmt::Debug>(result: Result<T, SourceError>) -> RefusalRule {
    match result {
        Err(SourceError::Refused(refusal)) => refusal.rule,
        other => panic!("{other:?}"),
    }
}

#[test]
fn branches_tags_and_commits_are_fetched() {
    let repository = Repository::new();
    repository.write("skills/a/SKILL.md", b"first");
    let first = repository.commit();
    repository.git(&["tag", "light"]);
    repository.git(&["tag", "-a", "v1", "-m", "annotated"]);
    repository.git(&["branch", "feature/x"]);
    repository.write("skills/a/SKILL.md", b"second");
    let second = repository.commit();
    let cases = [
        (None, &second),
        (Some("main"), &second),
        (Some("light"), &first),
        (Some("v1"), &first),
        (Some("feature/x"), &first),
        (Some(first.as_str()), &first),
        (Some(second.as_str()), &second),
    ];
    for packed in [false, true] {
        for (reference, expected) in &cases {
            let commit = fetched(&repository, *reference).unwrap();
            assert_eq!(commit.id.to_string(), **expected, "{reference:?}");
            let text = if **expected == first { "first" } else { "second" };
            assert_eq!(commit.staged.read("skills/a/SKILL.md").unwrap(), text.as_bytes());
        }
        if !packed {
            repository.git(&["gc", "-q"]);
        }
    }
    for unknown in ["v2", "0123abc", "refs/heads/main"] {
        assert!(fetched(&repository, Some(unknown)).is_err(), "{unknown}");
    }
}

#[test]
fn tag_is_preferred_to_a_branch_of_the_same_name() {
    let repository = Repository::new();
    let first = repository.commit();
    repository.git(&["tag", "same"]);
    repository.commit();
    repository.git(&["branch", "same"]);
    assert_eq!(fetched(&repository, Some("same")).unwrap().id.to_string(), first);
}

#[test]
fn moved_tag_is_refused_and_moved_branch_is_not() {
    let repository = Repository::new();
    repository.write("a", b"first");
    let first: ObjectId = repository.commit().parse().unwrap();
    repository.git(&["tag", "-a", "v1", "-m", "annotated"]);
    assert_eq!(
        fetched_pinned(&repository, Some("v1"), Pin::Exactly(pinned(first))).unwrap().id,
        first
    );
    repository.write("a", b"second");
    repository.commit();
    let main = |pin| fetched_pinned(&repository, Some("main"), pin).unwrap().id;
    assert_eq!(main(Pin::Exactly(pinned(first))), first);
    assert_ne!(main(Pin::Tags(pinned(first))), first);
    repository.git(&["tag", "-f", "-a", "v1", "-m", "moved"]);
    for pin in [Pin::Exactly(pinned(first)), Pin::Tags(pinned(first))] {
        let error = fetched_pinned(&repository, Some("v1"), pin).unwrap_err();
        assert!(matches!(error, SourceError::Moved(_)), "{error}");
    }
}

#[test]
fn commit_that_the_branch_does_not_contain_is_refused() {
    let repository = Repository::new();
    repository.write("a", b"base");
    let base: ObjectId = repository.commit().parse().unwrap();
    repository.git(&["checkout", "-q", "-b", "fork"]);
    repository.write("a", b"from a fork");
    let fork: ObjectId = repository.commit().parse().unwrap();
    repository.git(&["checkout", "-q", "main"]);
    repository.write("b", b"merged");
    repository.commit();
    let main = |id| fetched_pinned(&repository, Some("main"), Pin::Exactly(pinned(id)));
    assert_eq!(main(base).unwrap().id, base);
    assert!(matches!(main(fork), Err(SourceError::Moved(_))));
    repository.git(&["merge", "-q", "--no-edit", "fork"]);
    assert_eq!(main(fork).unwrap().id, fork, "it is in the history of the branch now");
}

#[test]
fn deleted_tag_is_not_replaced_by_a_branch_of_its_name() {
    let repository = Repository::new();
    repository.write("a", b"first");
    let first: ObjectId = repository.commit().parse().unwrap();
    repository.git(&["tag", "v1"]);
    let found = fetched(&repository, Some("v1")).unwrap();
    assert!(found.is_tag && !fetched(&repository, Some("main")).unwrap().is_tag);
    repository.git(&["tag", "-d", "v1"]);
    repository.write("a", b"second");
    repository.commit();
    repository.git(&["branch", "v1"]);
    let locked = Pinned { id: first, is_tag: true };
    for pin in [Pin::Exactly(locked), Pin::Tags(locked)] {
        let error = fetched_pinned(&repository, Some("v1"), pin).unwrap_err();
        assert!(error.to_string().contains("was deleted"), "{error}");
    }
}

#[test]
fn differences_and_large_histories_are_decoded() {
    let repository = Repository::new();
    let mut text: Vec<u8> = (0..20_000_u32).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    for version in 0..12_u8 {
        text[usize::from(version) * 500] = b'x';
        for copy in 0..4 {
            repository.write(&format!("copy-{copy}"), &[text.as_slice(), &[copy]].concat());
        }
        repository.commit();
    }
    repository.git(&["gc", "-q", "--aggressive"]);
    let commit = fetched(&repository, None).unwrap();
    assert_eq!(commit.staged.read("copy-3").unwrap(), [text.as_slice(), &[3]].concat());
}

#[test]
fn links_submodules_and_repository_folders() {
    let repository = Repository::new();
    repository.write("s/SKILL.md", b"text");
    std::os::unix::fs::symlink("SKILL.md", repository.path().join("s/link")).unwrap();
    let commit = repository.commit();
    repository.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},s/module")]);
    repository.git(&["commit", "-q", "-m", "a submodule"]);
    let entries = fetched(&repository, None).unwrap().staged.entries;
    assert_eq!(entries.keys().collect::<Vec<_>>(), ["s", "s/SKILL.md", "s/link"]);
    assert_eq!(entries["s/link"], StagedEntry::Link { target: "SKILL.md".into() });
    std::os::unix::fs::symlink("/etc/passwd", repository.path().join("out")).unwrap();
    repository.commit();
    assert_eq!(rule(fetched(&repository, None)), RefusalRule::LinkOutside);
}

#[test]
fn submodules_are_added_if_they_are_asked_for() {
    let inner = Repository::new();
    inner.write("tool.py", b"print()");
    inner.commit();
    let outer = Repository::new();
    outer.write("s/SKILL.md", b"text");
    outer.commit();
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"];
    outer.git(&[&add[..], &[inner.path().to_str().unwrap(), "s/module"]].concat());
    // git itself writes a path, which is not a URL.
    let named = outer.path().join(".gitmodules");
    let text = std::fs::read_to_string(&named).unwrap();
    let url = |url: &str| {
        text.replace(&format!("url = {}", inner.path().display()), &format!("url = {url}"))
    };
    std::fs::write(&named, url(&inner.url())).unwrap();
    outer.commit();
    let within = tempfile::tempdir().unwrap();
    let limits = TransferLimits::default();
    let fetched =
        || fetch(&outer.url(), None, Pin::None, &Offline, within.path(), &limits).unwrap();
    assert!(!fetched().staged.entries.contains_key("s/module"));
    let all = fetched().with_submodules(&outer.url(), &Offline, &limits).unwrap();
    assert_eq!(all.staged.read("s/module/tool.py").unwrap(), b"print()");
    let small = TransferLimits { bytes: 40, ..limits.clone() };
    assert_eq!(
        rule(fetched().with_submodules(&outer.url(), &Offline, &small)),
        RefusalRule::TransferSize
    );
    // A server's repository cannot name one of this machine.
    assert!(fetched().with_submodules("https://host/r", &Offline, &limits).is_err());
    std::fs::write(&named, "").unwrap();
    outer.commit();
    assert_eq!(
        rule(fetched().with_submodules(&outer.url(), &Offline, &limits)),
        RefusalRule::Corrupt
    );
}

#[test]
fn configuration_hooks_and_attributes_have_no_effect() {
    let repository = Repository::new();
    let marker = repository.path().join("executed");
    let script = format!("#!/bin/sh\ntouch {}\ncat\n", marker.display());
    repository.write("SKILL.md", b"line\n");
    repository.write(".gitattributes", b"* filter=evil text eol=crlf export-ignore\n");
    repository.git(&["add", "-A"]);
    repository.git(&["commit", "-q", "-m", "message"]);
    for hook in ["post-checkout", "post-merge", "reference-transaction"] {
        repository.write(&format!(".git/hooks/{hook}"), script.as_bytes());
    }
    repository.write(".git/evil", script.as_bytes());
    for (key, value) in [
        ("filter.evil.smudge", "sh .git/evil"),
        ("core.fsmonitor", "sh .git/evil"),
        ("core.sshCommand", "sh .git/evil"),
        ("core.alternateRefsCommand", "sh .git/evil"),
    ] {
        repository.git(&["config", key, value]);
    }
    let _ = std::fs::remove_file(&marker);
    let within = tempfile::tempdir().unwrap();
    let limits = TransferLimits::default();
    let commit =
        fetch(&repository.url(), None, Pin::None, &Offline, within.path(), &limits).unwrap();
    assert_eq!(commit.staged.read("SKILL.md").unwrap(), b"line\n");
    assert!(!marker.exists());
}

#[test]
fn hostile_names_in_trees_are_refused() {
    let file = Object { kind: ObjectKind::Blob, content: b"x".to_vec() };
    let id = file.id().unwrap();
    type Entry = (&'static str, &'static [u8]);
    let content = |entries: &[Entry]| -> Vec<u8> {
        let entry = |(mode, name): &Entry| [mode.as_bytes(), b" ", name, b"\0", &id.0].concat();
        entries.iter().flat_map(entry).collect()
    };
    use RefusalRule::*;
    let cases: [(&[Entry], RefusalRule); 12] = [
        (&[("100644", b"..")], PathTraversal),
        (&[("100644", b"../x")], InvalidName),
        (&[("100644", b"/etc/x")], InvalidName),
        (&[("100644", b".")], InvalidName),
        (&[("100644", b"a\\..\\x")], PathTraversal),
        (&[("100644", b"a"), ("100644", b"A")], NameCollision),
        (&[("100644", b"a"), ("100644", b"a")], NameCollision),
        (&[("40000", b"a"), ("40000", b"a")], NameCollision),
        (&[("20644", b"device")], SpecialFile),
        (&[("160000", b"")], InvalidName),
        (&[("160000", b".")], InvalidName),
        (&[("160000", b"a/b")], InvalidName),
    ];
    for (entries, expected) in cases {
        let tree = Object { kind: ObjectKind::Tree, content: content(entries) };
        let commit = format!("tree {}\n\n", tree.id().unwrap());
        let commit = Object { kind: ObjectKind::Commit, content: commit.into_bytes() };
        let pack = pack(&[Part::Whole(&commit), Part::Whole(&tree), Part::Whole(&file)]);
        let limits = TransferLimits::default();
        let objects = Pack::decode(&pack, &limits).unwrap();
        let within = tempfile::tempdir().unwrap();
        let staged = tree::stage(&objects, commit.id().unwrap(), within.path(), &limits);
        assert_eq!(rule(staged), expected, "{entries:?}");
        assert_eq!(std::fs::read_dir(within.path()).unwrap().count(), 0);
    }
}

#[test]
fn tree_that_repeats_itself_is_limited() {
    // Each level names the next one ten times: 10^10 files from a dozen objects.
    let mut objects = vec![Object { kind: ObjectKind::Blob, content: b"x".to_vec() }];
    for level in 0..10 {
        let id = objects.last().unwrap().id().unwrap();
        let mode = if level == 0 { "100644" } else { "40000" };
        let content = (b'a'..=b'j')
            .flat_map(|name| [mode.as_bytes(), b" ", &[name], b"\0", &id.0].concat())
            .collect();
        objects.push(Object { kind: ObjectKind::Tree, content });
    }
    let commit = format!("tree {}\n\n", objects.last().unwrap().id().unwrap());
    objects.push(Object { kind: ObjectKind::Commit, content: commit.into_bytes() });
    let limits = TransferLimits { entries: 2000, ..TransferLimits::default() };
    let parts: Vec<Part<'_>> = objects.iter().map(Part::Whole).collect();
    let pack = Pack::decode(&pack(&parts), &limits).unwrap();
    let within = tempfile::tempdir().unwrap();
    let id = objects.last().unwrap().id().unwrap();
    assert_eq!(rule(tree::stage(&pack, id, within.path(), &limits)), RefusalRule::EntryCount);
}

/// An object of a pack that is written by hand.
enum Part<'a> {
    Whole(&'a Object),
    /// A difference to an object with this id.
    Delta(ObjectId, Vec<u8>),
    /// The number of the kind, the size that the header says, and the compressed bytes.
    Raw(u8, u64, Vec<u8>),
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn pack(parts: &[Part<'_>]) -> Vec<u8> {
    let mut pack = [&b"PACK\0\0\0\x02"[..], &(parts.len() as u32).to_be_bytes()].concat();
    for part in parts {
        let (kind, size, data) = match part {
            Part::Whole(object) => {
                let kind = match object.kind {
                    ObjectKind::Commit => 1,
                    ObjectKind::Tree => 2,
                    ObjectKind::Blob => 3,
                    ObjectKind::Tag => 4,
                };
                (kind, object.content.len() as u64, zlib(&object.content))
            }
            Part::Delta(base, delta) => {
                (7, delta.len() as u64, [&base.0[..], &zlib(delta)].concat())
            }
            Part::Raw(kind, size, data) => (*kind, *size, data.clone()),
        };
        let mut size = size;
        let mut byte = kind << 4 | (size & 15) as u8;
        size >>= 4;
        while size > 0 {
            pack.push(byte | 0x80);
            byte = (size & 0x7f) as u8;
            size >>= 7;
        }
        pack.push(byte);
        pack.extend(data);
    }
    let checksum = sha1dc::digest(&pack).unwrap();
    [pack.as_slice(), checksum.as_ref()].concat()
}

fn decode(parts: &[Part<'_>]) -> Result<Pack, SourceError> {
    Pack::decode(&pack(parts), &TransferLimits::default())
}

#[test]
fn pack_that_is_too_large_names_the_limit() {
    let zeros = Object { kind: ObjectKind::Blob, content: vec![0; 200_000] };
    let pack = pack(&[Part::Whole(&zeros)]);
    let default = TransferLimits::default();
    for (limits, expected, setting) in [
        (TransferLimits { expansion: 2, ..default.clone() }, RefusalRule::Expansion, "`expansion`"),
        (
            TransferLimits { bytes: 60_000, ..default.clone() },
            RefusalRule::TransferSize,
            "`transfer-size`",
        ),
    ] {
        let error = Pack::decode(&pack, &limits).unwrap_err();
        assert!(error.fix().unwrap().contains(setting), "{error}");
        assert_eq!(rule(Err::<Pack, _>(error)), expected);
    }
    Pack::decode(&pack, &TransferLimits { expansion: 2000, ..default }).unwrap();
}

#[test]
fn differences_may_come_before_what_they_need() {
    let base = Object { kind: ObjectKind::Blob, content: b"hello".to_vec() };
    let (id, delta) = (base.id().unwrap(), vec![5, 7, 0x90, 5, 2, b'!', b'!']);
    let expected = Object { kind: ObjectKind::Blob, content: b"hello!!".to_vec() };
    for parts in [
        [Part::Whole(&base), Part::Delta(id, delta.clone())],
        [Part::Delta(id, delta.clone()), Part::Whole(&base)],
    ] {
        let pack = decode(&parts).unwrap();
        assert_eq!(pack.read(expected.id().unwrap()).unwrap(), expected);
    }
}

#[test]
fn broken_packs_are_refused() {
    let base = Object { kind: ObjectKind::Blob, content: b"hello".to_vec() };
    let id = base.id().unwrap();
    let delta = |bytes: &[u8]| [Part::Whole(&base), Part::Delta(id, bytes.to_vec())];
    use RefusalRule::*;
    let cases: [(&str, Vec<Part<'_>>, RefusalRule); 12] = [
        ("a missing base", vec![Part::Delta(id, vec![5, 0])], Corrupt),
        ("another size of the base", delta(&[4, 0]).into(), Corrupt),
        ("a copy past the end", delta(&[5, 6, 0x90, 6]).into(), Corrupt),
        ("the reserved command", delta(&[5, 1, 0]).into(), Corrupt),
        ("more than the size", delta(&[5, 1, 0x90, 5]).into(), Corrupt),
        ("less than the size", delta(&[5, 6, 0x90, 5]).into(), Corrupt),
        ("a size without an end", delta(&[0xff; 12]).into(), Corrupt),
        ("a wrong size", vec![Part::Raw(3, 6, zlib(b"hello"))], Corrupt),
        ("an unknown kind", vec![Part::Raw(5, 5, zlib(b"hello"))], Corrupt),
        ("data that is not compressed", vec![Part::Raw(3, 5, b"hello".to_vec())], Corrupt),
        ("a size of a petabyte", vec![Part::Raw(3, 1 << 50, zlib(b"hello"))], Expansion),
        ("zeros that expand", vec![Part::Raw(3, 64 << 20, zlib(&vec![0; 64 << 20]))], Expansion),
    ];
    for (what, parts, expected) in cases {
        assert_eq!(rule(decode(&parts)), expected, "{what}");
    }
    // A difference that grows by repeating its base.
    let large = Object { kind: ObjectKind::Blob, content: vec![b'x'; 0xffff] };
    let copies = [0xb0, 0xff, 0xff].repeat(1000);
    let size = 0xffff * 1000_u64;
    let varint = |mut value: u64| {
        let mut bytes = Vec::new();
        while value > 0x7f {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    };
    let delta = [varint(0xffff), varint(size), copies].concat();
    let parts = [Part::Whole(&large), Part::Delta(large.id().unwrap(), delta)];
    assert_eq!(rule(decode(&parts)), Expansion);
    let good = pack(&[Part::Whole(&base)]);
    for length in 0..good.len() {
        assert_eq!(rule(Pack::decode(&good[..length], &TransferLimits::default())), Corrupt);
    }
    let followed = [good.as_slice(), b"more"].concat();
    assert_eq!(rule(Pack::decode(&followed, &TransferLimits::default())), Corrupt);
    let limits = TransferLimits { entries: 0, ..TransferLimits::default() };
    let two = pack(&[Part::Whole(&base), Part::Whole(&large)]);
    assert_eq!(rule(Pack::decode(&two, &limits)), EntryCount);
}

/// A server whose responses a test chooses.
struct Scripted(RefCell<Vec<Response>>);

impl Network for Scripted {
    fn send(&self, _: &Request) -> Result<Response, SourceError> {
        Ok(self.0.borrow_mut().remove(0))
    }
}

fn response(kind: &str, body: &[u8]) -> Response {
    let kind = format!("application/x-git-upload-pack-{kind}");
    Response {
        status: 200,
        headers: vec![("content-type".to_owned(), kind)],
        body: Box::new(Cursor::new(body.to_vec())),
    }
}

fn line(text: &str) -> Vec<u8> {
    format!("{:04x}{text}\n", text.len() + 5).into_bytes()
}

fn scripted(bodies: &[(&str, Vec<u8>)]) -> Result<Commit, SourceError> {
    let responses = bodies.iter().map(|(kind, body)| response(kind, body)).collect();
    let within = tempfile::tempdir().unwrap();
    let network = Scripted(RefCell::new(responses));
    fetch("https://host/r", None, Pin::None, &network, within.path(), &TransferLimits::default())
}

#[test]
fn hostile_servers_are_refused() {
    let hello = ("advertisement", [line("version 2"), b"0000".to_vec()].concat());
    let id = "0123456789".repeat(4);
    let references = ("result", [line(&format!("{id} HEAD")), b"0000".to_vec()].concat());
    let data = |band: u8, data: &[u8]| {
        [format!("{:04x}", data.len() + 5).as_bytes(), &[band], data].concat()
    };
    let packfile = |rest: &[u8]| ("result", [&line("packfile"), rest].concat());
    let cases = [
        (
            "version 0",
            vec![("advertisement", [line("# service=git-upload-pack"), line("x HEAD")].concat())],
        ),
        ("another type", vec![("result", line("version 2"))]),
        (
            "SHA-256",
            vec![("advertisement", [line("version 2"), line("object-format=sha256")].concat())],
        ),
        ("no end of the references", vec![hello.clone(), ("result", line(&format!("{id} HEAD")))]),
        ("an invalid id", vec![hello.clone(), ("result", line("xyz HEAD"))]),
        (
            "many references",
            vec![hello.clone(), ("result", line(&format!("{id} refs/x")).repeat(1001))],
        ),
        ("an invalid length", vec![hello.clone(), ("result", b"zzzz".to_vec())]),
        ("a length of 3", vec![hello.clone(), ("result", b"0003".to_vec())]),
        ("an error", vec![hello.clone(), references.clone(), ("result", line("ERR not our ref"))]),
        (
            "an error in the pack",
            vec![hello.clone(), references.clone(), packfile(&data(3, b"no"))],
        ),
        ("an unknown band", vec![hello.clone(), references.clone(), packfile(&data(9, b"no"))]),
        (
            "no end of the pack",
            vec![hello.clone(), references.clone(), packfile(&data(1, b"PACK"))],
        ),
        ("no pack", vec![hello.clone(), references.clone(), packfile(b"0000")]),
        (
            "another commit",
            vec![
                hello.clone(),
                references.clone(),
                packfile(&[&data(1, &pack(&[])), &b"0000"[..]].concat()),
            ],
        ),
    ];
    for (what, bodies) in cases {
        scripted(&bodies).expect_err(what);
    }
}

#[test]
fn messages_of_a_server_count_as_transferred() {
    let id = "0123456789".repeat(4);
    let text = "x".repeat(1000);
    let message = [format!("{:04x}", text.len() + 5).as_bytes(), b"\x02", text.as_bytes()].concat();
    let packfile = [line("packfile"), message.repeat(3)].concat();
    for body in [line(&text).repeat(3), packfile, b"0001".repeat(600)] {
        let responses = vec![
            response("advertisement", &[line("version 2"), b"0000".to_vec()].concat()),
            response("result", &[line(&format!("{id} HEAD")), b"0000".to_vec()].concat()),
            response("result", &body),
        ];
        let network = Scripted(RefCell::new(responses));
        let within = tempfile::tempdir().unwrap();
        let limits = TransferLimits { bytes: 2000, ..TransferLimits::default() };
        let result = fetch("https://host/r", None, Pin::None, &network, within.path(), &limits);
        assert_eq!(rule(result), RefusalRule::TransferSize);
    }
}

#[test]
fn large_commits_and_tags_are_not_kept() {
    let repository = Repository::new();
    repository.write("a", b"text");
    repository.commit();
    let text: Vec<u8> = (0..200_000_u32).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    repository.write(".git/message", &text);
    repository.git(&["tag", "-a", "large", "-F", ".git/message"]);
    repository.git(&["tag", "-a", "small", "-m", "message"]);
    let objects = |name: &str| fetched(&repository, Some(name)).unwrap().objects;
    assert!(objects("small").unwrap().tag.is_some());
    assert!(objects("large").unwrap().tag.is_none());
    repository.git(&["commit", "-q", "--allow-empty", "-F", ".git/message"]);
    assert!(objects("main").is_none());
}

#[test]
fn repository_that_borrows_objects_is_refused() {
    let repository = Repository::new();
    repository.commit();
    repository.write(".git/objects/info/alternates", b"/elsewhere\n");
    let within = tempfile::tempdir().unwrap();
    let limits = TransferLimits::default();
    let result = fetch(&repository.url(), None, Pin::None, &Offline, within.path(), &limits);
    assert_eq!(rule(result), RefusalRule::Unsupported);
}

#[test]
fn pipes_in_a_repository_do_not_stop_the_host() {
    for path in ["packed-refs", "objects/pack/pack-1.idx"] {
        let repository = Repository::new();
        repository.commit();
        let pipe = repository.path().join(".git").join(path);
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        let within = tempfile::tempdir().unwrap();
        let limits = TransferLimits::default();
        let result = fetch(&repository.url(), None, Pin::None, &Offline, within.path(), &limits);
        assert!(matches!(result, Err(SourceError::Io { .. })), "{path}: {result:?}");
    }
}

#[test]
fn commit_of_the_source_is_not_replaced_by_that_of_the_lock_file() {
    let repository = Repository::new();
    repository.write("a", b"first");
    let first = repository.commit();
    repository.write("a", b"second");
    let second: ObjectId = repository.commit().parse().unwrap();
    for pin in [Pin::Exactly(pinned(second)), Pin::Tags(pinned(second))] {
        let result = fetched_pinned(&repository, Some(&first), pin);
        assert!(matches!(result, Err(SourceError::Moved(_))), "{result:?}");
    }
    let pin = Pin::Exactly(pinned(first.parse().unwrap()));
    assert_eq!(fetched_pinned(&repository, Some(&first), pin).unwrap().id.to_string(), first);
}

#[test]
fn damaged_object_on_disk_is_refused() {
    let repository = Repository::new();
    repository.write("a", b"text");
    repository.commit();
    let blob = repository.git(&["rev-parse", "HEAD:a"]);
    let path = repository.path().join(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]));
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, zlib(b"blob 4\0TEXT")).unwrap();
    let within = tempfile::tempdir().unwrap();
    let limits = TransferLimits::default();
    let result = fetch(&repository.url(), None, Pin::None, &Offline, within.path(), &limits);
    assert_eq!(rule(result), RefusalRule::Corrupt);
}

proptest! {
    #[test]
    fn any_changed_byte_of_a_pack_is_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let base = Object { kind: ObjectKind::Blob, content: b"hello hello hello".to_vec() };
        let mut bytes = pack(&[Part::Whole(&base), Part::Delta(base.id().unwrap(), vec![17, 1, 0x90, 1])]);
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        prop_assert!(Pack::decode(&bytes, &TransferLimits::default()).is_err());
    }

    #[test]
    fn mutated_packs_are_decoded_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let base = Object { kind: ObjectKind::Blob, content: b"hello hello hello".to_vec() };
        let mut bytes = pack(&[Part::Whole(&base), Part::Delta(base.id().unwrap(), vec![17, 1, 0x90, 1])]);
        let end = bytes.len() - 20;
        for (at, byte) in changes {
            bytes[at.index(end)] = byte;
        }
        // With the right checksum, so that the decoder is reached.
        let checksum = sha1dc::digest(&bytes[..end]).unwrap();
        bytes[end..].copy_from_slice(checksum.as_ref());
        let _ = Pack::decode(&bytes, &TransferLimits::default());
    }
}
