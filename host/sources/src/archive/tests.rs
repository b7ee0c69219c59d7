//! Hostile archives are refused, by their rules, and leave nothing behind.
#![expect(clippy::disallowed_methods, reason = "tests set up real folders")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use ::tar::{Builder, EntryType, Header};
use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression, Crc};
use proptest::prelude::*;

use super::*;
use crate::staging::StagedEntry;

/// The content of the files, and the targets of symlinks, by path. Folders end with `/`.
type Tree = BTreeMap<String, Vec<u8>>;

/// Unpacks an archive. Whatever happens, nothing remains, and nothing appears beside the folder.
fn unpacked(archive: &[u8]) -> Result<Tree, SourceError> {
    unpacked_within(archive, &TransferLimits::default())
}

fn unpacked_within(archive: &[u8], limits: &TransferLimits) -> Result<Tree, SourceError> {
    let outer = tempfile::tempdir().unwrap();
    let within = outer.path().join("within");
    std::fs::create_dir(&within).unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(archive).unwrap();
    let result = unpack(&file, archive.len() as u64, &within, limits).map(|staged| {
        let read = |(path, entry): (&String, &StagedEntry)| match entry {
            StagedEntry::Folder => (format!("{path}/"), Vec::new()),
            StagedEntry::File { .. } => (path.clone(), staged.read(path).unwrap()),
            StagedEntry::Link { target } => (path.clone(), format!("-> {target}").into_bytes()),
        };
        staged.entries.iter().map(read).collect()
    });
    let names = |folder: &Path| -> Vec<_> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!((names(&within).len(), names(outer.path()).len()), (0, 1));
    result
}

fn rule(result: Result<Tree, SourceError>) -> RefusalRule {
    match result {
        Err(SourceError::Refused(refusal)) => refusal.rule,
        other => panic!("{other:?}"),
    }
}

/// An entry of a hostile archive.
#[derive(Clone)]
struct Raw {
    name: Vec<u8>,
    kind: EntryType,
    content: Vec<u8>,
    link: Vec<u8>,
}

fn raw(kind: EntryType, name: &[u8], content: &[u8], link: &[u8]) -> Raw {
    Raw { name: name.to_owned(), kind, content: content.to_owned(), link: link.to_owned() }
}

fn file(name: &str, content: &[u8]) -> Raw {
    raw(EntryType::Regular, name.as_bytes(), content, b"")
}

fn folder(name: &str) -> Raw {
    raw(EntryType::Directory, name.as_bytes(), b"", b"")
}

fn link(name: &str, target: &str) -> Raw {
    raw(EntryType::Symlink, name.as_bytes(), b"", target.as_bytes())
}

/// Writes a tar stream without the checks of the library.
fn tar_stream(entries: &[Raw]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for entry in entries {
        let mut header = Header::new_gnu();
        let size = if entry.kind == EntryType::Regular { entry.content.len() } else { 0 };
        header.set_size(size as u64);
        header.set_mode(0o644);
        header.set_entry_type(entry.kind);
        let old = header.as_old_mut();
        assert!(entry.name.len() <= 100 && entry.link.len() <= 100);
        old.name[..entry.name.len()].copy_from_slice(&entry.name);
        old.linkname[..entry.link.len()].copy_from_slice(&entry.link);
        header.set_cksum();
        builder.append(&header, &entry.content[..size]).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A ZIP file that is written by hand, so that a test can falsify any field.
#[derive(Default)]
struct ZipFile {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

impl ZipFile {
    fn of(entries: &[Raw]) -> Vec<u8> {
        let mut zip = ZipFile::default();
        for Raw { name, kind, content, link } in entries {
            let mode: u32 = match kind {
                EntryType::Regular => 0o100_644,
                EntryType::Directory => 0o040_755,
                EntryType::Symlink => 0o120_777,
                EntryType::Fifo => 0o010_644,
                EntryType::Char => 0o020_644,
                EntryType::Block => 0o060_644,
                kind => panic!("{kind:?} does not exist in ZIP files"),
            };
            let is_folder = *kind == EntryType::Directory && !name.ends_with(b"/");
            let name = [name.as_slice(), if is_folder { b"/" } else { b"" }].concat();
            let content = if link.is_empty() { content } else { link };
            zip.add(&name, mode, content);
        }
        zip.finish()
    }

    fn add(&mut self, name: &[u8], mode: u32, content: &[u8]) {
        self.add_compressed(name, mode, content, &deflate(content));
    }

    fn add_compressed(&mut self, name: &[u8], mode: u32, content: &[u8], data: &[u8]) {
        let mut crc = Crc::new();
        crc.update(content);
        let at = self.bytes.len() as u32;
        let fields = [
            &0_u16.to_le_bytes()[..],
            &8_u16.to_le_bytes(),
            &[0; 4],
            &crc.sum().to_le_bytes(),
            &(data.len() as u32).to_le_bytes(),
            &(content.len() as u32).to_le_bytes(),
            &(name.len() as u16).to_le_bytes(),
            &0_u16.to_le_bytes(),
        ]
        .concat();
        self.bytes.extend([b"PK\x03\x04\x14\0", fields.as_slice(), name, data].concat());
        self.central(&fields, name, mode, at);
    }

    fn central(&mut self, fields: &[u8], name: &[u8], mode: u32, at: u32) {
        let more = [&[0; 6][..], &(mode << 16).to_le_bytes(), &at.to_le_bytes()].concat();
        self.directory.extend([b"PK\x01\x02\x14\x03\x14\0", fields, &more[..], name].concat());
        self.count += 1;
    }

    fn finish(self) -> Vec<u8> {
        let count = self.count.to_le_bytes();
        let end = [
            &b"PK\x05\x06\0\0\0\0"[..],
            &count,
            &count,
            &(self.directory.len() as u32).to_le_bytes(),
            &(self.bytes.len() as u32).to_le_bytes(),
            &[0, 0],
        ]
        .concat();
        [self.bytes, self.directory, end].concat()
    }
}

/// The same entries in each of the three formats.
fn formats(entries: &[Raw]) -> [(&'static str, Vec<u8>); 3] {
    let stream = tar_stream(entries);
    [("tar.gz", gz(&stream)), ("tar.zst", zst(&stream)), ("zip", ZipFile::of(entries))]
}

/// Asserts that the entries are refused in every format.
fn refused(entries: &[Raw], expected: RefusalRule) {
    for (format, archive) in formats(entries) {
        assert_eq!(rule(unpacked(&archive)), expected, "{format}");
    }
}

#[test]
fn every_format_holds_the_same_tree() {
    let entries = [
        folder("skill"),
        file("skill/SKILL.md", b"text"),
        file("skill/deep/er/a.py", b"print()"),
        file("skill/empty", b""),
        link("skill/link", "deep/er/a.py"),
        folder("skill/nothing"),
        file("skill/.git/config", b"never part of a skill"),
    ];
    let expected: Tree = [
        ("skill/", ""),
        ("skill/SKILL.md", "text"),
        ("skill/deep/", ""),
        ("skill/deep/er/", ""),
        ("skill/deep/er/a.py", "print()"),
        ("skill/empty", ""),
        ("skill/link", "-> deep/er/a.py"),
        ("skill/nothing/", ""),
    ]
    .map(|(path, content)| (path.to_owned(), content.as_bytes().to_owned()))
    .into();
    for (format, archive) in formats(&entries) {
        assert_eq!(unpacked(&archive).unwrap(), expected, "{format}");
    }
}

#[test]
fn archives_of_other_programs_are_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("skill/scripts")).unwrap();
    std::fs::write(folder.path().join("skill/SKILL.md"), "text").unwrap();
    let long = format!("skill/scripts/{}.py", "a".repeat(120));
    std::fs::write(folder.path().join(&long), "print()").unwrap();
    let python = "import zipfile, tarfile, shutil, sys
for kind in ('gztar', 'zip'):
    shutil.make_archive('made', kind, '.', 'skill')
for name, format in (('pax', tarfile.PAX_FORMAT), ('gnu', tarfile.GNU_FORMAT)):
    with tarfile.open(name + '.tar.gz', 'w:gz', format=format) as out: out.add('skill')
with zipfile.ZipFile('stream.zip', 'w', zipfile.ZIP_DEFLATED) as out:
    with out.open('skill/SKILL.md', 'w') as member: member.write(b'text')";
    let run = |program: &str, args: &[&str]| {
        let status =
            std::process::Command::new(program).args(args).current_dir(folder.path()).status();
        assert!(status.unwrap().success(), "{program}");
    };
    run("python3", &["-c", python]);
    run("tar", &["-czf", "tar.tar.gz", "skill"]);
    for name in ["made.tar.gz", "made.zip", "pax.tar.gz", "gnu.tar.gz", "tar.tar.gz"] {
        let tree = unpacked(&std::fs::read(folder.path().join(name)).unwrap()).unwrap();
        assert_eq!(tree.get("skill/SKILL.md").unwrap(), b"text", "{name}");
        assert_eq!(tree.get(&long).unwrap(), b"print()", "{name}");
    }
    let tree = unpacked(&std::fs::read(folder.path().join("stream.zip")).unwrap()).unwrap();
    assert_eq!(tree.get("skill/SKILL.md").unwrap(), b"text");
    let mut writer = ::zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    writer.start_file("SKILL.md", ::zip::write::SimpleFileOptions::default()).unwrap();
    writer.write_all(b"text").unwrap();
    let tree = unpacked(&writer.finish().unwrap().into_inner()).unwrap();
    assert_eq!(tree.get("SKILL.md").unwrap(), b"text");
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    for path in ["../x", "a/../../x", "..", "a\\..\\..\\x"] {
        refused(&[file(path, b"x")], RefusalRule::PathTraversal);
    }
    for path in ["/etc/cron.d/x", "\\\\host\\x", "C:\\x"] {
        refused(&[file(path, b"x")], RefusalRule::AbsolutePath);
        refused(&[link(path, "x")], RefusalRule::AbsolutePath);
    }
    refused(&[folder("../x")], RefusalRule::PathTraversal);
    refused(&[raw(EntryType::Regular, b"\xff", b"", b"")], RefusalRule::InvalidName);
}

#[test]
fn links_that_lead_outside_are_refused() {
    for target in ["/etc/passwd", "../x", "a/../../x", "..", "./../x"] {
        refused(&[link("link", target)], RefusalRule::LinkOutside);
    }
    refused(&[link("a/b/link", "../../../x")], RefusalRule::LinkOutside);
    for (format, archive) in formats(&[link("a/b/link", "../../x")]) {
        unpacked(&archive).expect(format);
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    refused(&[folder("a"), link("b", "a"), file("b/x", b"x")], RefusalRule::NameCollision);
    refused(&[link("b", "a"), file("b", b"x")], RefusalRule::NameCollision);
    refused(&[file("b", b"x"), file("b/x", b"x")], RefusalRule::NameCollision);
}

#[test]
fn hard_links_and_special_files_are_refused() {
    for target in ["SKILL.md", "/etc/shadow", "../x"] {
        let entries =
            [file("SKILL.md", b"x"), raw(EntryType::Link, b"hard", b"", target.as_bytes())];
        assert_eq!(rule(unpacked(&gz(&tar_stream(&entries)))), RefusalRule::HardLink);
    }
    for kind in [EntryType::Char, EntryType::Block, EntryType::Fifo] {
        refused(&[raw(kind, b"special", b"", b"")], RefusalRule::SpecialFile);
    }
    let volume = raw(EntryType::new(b'V'), b"volume", b"", b"");
    assert_eq!(rule(unpacked(&gz(&tar_stream(&[volume])))), RefusalRule::Unsupported);
}

#[test]
fn names_that_collide_are_refused() {
    for (first, second) in [("SKILL.md", "skill.MD"), ("e\u{301}", "\u{e9}"), ("a/x", "A/y")] {
        refused(&[file(first, b"1"), file(second, b"2")], RefusalRule::NameCollision);
    }
    refused(&[file("SKILL.md", b"1"), file("SKILL.md", b"2")], RefusalRule::NameCollision);
    refused(&[folder("a"), folder("A")], RefusalRule::NameCollision);
}

#[test]
fn bombs_are_refused_before_they_expand() {
    let zeros = vec![0; 8 << 20];
    refused(&[file("bomb", &zeros)], RefusalRule::Expansion);
    // Zeros that belong to no file: after the end of the archive, and in a header.
    let padded = [tar_stream(&[file("a", b"a")]), zeros.clone()].concat();
    assert_eq!(rule(unpacked(&gz(&padded))), RefusalRule::Expansion);
    assert_eq!(rule(unpacked(&zst(&padded))), RefusalRule::Expansion);
    let long = raw(EntryType::GNULongName, b"././@LongLink", b"", b"");
    let mut stream = tar_stream(&[long]);
    stream[124..136].copy_from_slice(b"00040000000\0");
    let mut header = Header::new_gnu();
    header.as_mut_bytes().copy_from_slice(&stream[..512]);
    header.set_cksum();
    let stream = [&header.as_bytes()[..], &zeros].concat();
    assert_eq!(rule(unpacked(&gz(&stream))), RefusalRule::Expansion);
}

#[test]
fn content_is_limited_pair_by_pair() {
    let noise: Vec<u8> =
        (0..40_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let entries = [file("a", &noise), file("b", b"b")];
    let needed = noise.len() as u64 + 1;
    for (format, archive) in formats(&entries) {
        let stream = if format == "zip" { needed } else { tar_stream(&entries).len() as u64 };
        let with = |bytes| TransferLimits { bytes, ..TransferLimits::default() };
        let least = stream.max(archive.len() as u64);
        unpacked_within(&archive, &with(least)).expect(format);
        assert_eq!(
            rule(unpacked_within(&archive, &with(least - 1))),
            RefusalRule::TransferSize,
            "{format}"
        );
        let with = |entries| TransferLimits { entries, ..TransferLimits::default() };
        unpacked_within(&archive, &with(2)).expect(format);
        assert_eq!(rule(unpacked_within(&archive, &with(1))), RefusalRule::EntryCount, "{format}");
    }
    // A deep path creates folders that no entry names.
    let deep = gz(&tar_stream(&[file(&format!("{}f", "d/".repeat(30)), b"")]));
    let with = |entries| TransferLimits { entries, ..TransferLimits::default() };
    unpacked_within(&deep, &with(31)).unwrap();
    assert_eq!(rule(unpacked_within(&deep, &with(30))), RefusalRule::EntryCount);
}

#[test]
fn expansion_is_limited_at_the_factor() {
    let zeros = vec![0; 1 << 20];
    for (format, archive) in formats(&[file("zeros", &zeros)]) {
        let stream =
            if format == "zip" { zeros.len() } else { tar_stream(&[file("zeros", &zeros)]).len() };
        let factor = (stream as u64).div_ceil(archive.len() as u64);
        let with = |expansion| TransferLimits { expansion, ..TransferLimits::default() };
        unpacked_within(&archive, &with(factor)).expect(format);
        assert_eq!(
            rule(unpacked_within(&archive, &with(factor - 1))),
            RefusalRule::Expansion,
            "{format}"
        );
    }
}

#[test]
fn archives_inside_archives_are_files() {
    let inner = gz(&tar_stream(&[file("../x", b"x")]));
    let zip = ZipFile::of(&[file("inner.tar.gz", &inner)]);
    let outer = gz(&tar_stream(&[file("inner.zip", &zip), file("inner.tar.gz", &inner)]));
    let tree = unpacked(&outer).unwrap();
    assert_eq!(tree.keys().collect::<Vec<_>>(), ["inner.tar.gz", "inner.zip"]);
}

#[test]
fn truncated_archives_are_refused_at_every_length() {
    let entries = [file("SKILL.md", b"text"), file("zeros", &[0; 3000])];
    for (format, archive) in formats(&entries) {
        for length in 0..archive.len() {
            let refusal = rule(unpacked(&archive[..length]));
            let expected = [RefusalRule::Truncated, RefusalRule::Corrupt, RefusalRule::Unsupported];
            assert!(expected.contains(&refusal), "{format} {length}: {refusal:?}");
        }
    }
    // A complete compressed stream with an incomplete archive inside.
    let stream = tar_stream(&entries);
    let end = stream.iter().rposition(|byte| *byte != 0).unwrap();
    for length in [512, 1024, 1536, end + 1, 1536 + 512 * 6, 1536 + 512 * 7] {
        let result = unpacked(&gz(&stream[..length]));
        let found = rule(result);
        let is_cut = length % 512 != 0 && found == RefusalRule::Corrupt;
        assert!(found == RefusalRule::Truncated || is_cut, "{length}: {found:?}");
    }
}

#[test]
fn archives_with_something_after_their_end_are_refused() {
    let stream = tar_stream(&[file("a", b"a")]);
    let twice = [stream.clone(), tar_stream(&[file("b", b"b")])].concat();
    assert_eq!(rule(unpacked(&gz(&twice))), RefusalRule::Corrupt);
    for (format, archive) in formats(&[file("a", b"a")]) {
        let followed = [archive.as_slice(), b"more"].concat();
        assert!(unpacked(&followed).is_err(), "{format}");
        let preceded = [b"more", archive.as_slice()].concat();
        assert!(unpacked(&preceded).is_err(), "{format}");
    }
    // Two members of one gzip file are one stream.
    let (first, second) = stream.split_at(700);
    assert!(unpacked(&[gz(first), gz(second)].concat()).is_ok());
}

#[test]
fn zip_files_that_readers_may_understand_differently_are_refused() {
    let good = ZipFile::of(&[file("SKILL.md", b"text"), file("other", b"more text")]);
    unpacked(&good).unwrap();
    let find = |what: &[u8], from: usize| {
        from + good[from..].windows(what.len()).position(|part| part == what).unwrap()
    };
    let central = find(b"PK\x01\x02", 0);
    let falsified = |at: usize, bytes: &[u8]| {
        let mut zip = good.clone();
        zip[at..at + bytes.len()].copy_from_slice(bytes);
        rule(unpacked(&zip))
    };
    use RefusalRule::*;
    assert_eq!(falsified(30, b"skill.md"), Corrupt, "another name in the local header");
    assert_eq!(falsified(8, b"\0\0"), Corrupt, "another method in the local header");
    assert_eq!(falsified(central + 16, b"\x01"), Corrupt, "another checksum");
    assert_eq!(falsified(central + 24, b"\x03"), Corrupt, "another size");
    assert_eq!(falsified(central + 42, b"\x01"), Corrupt, "another place");
    assert_eq!(falsified(central + 10, b"\x0c"), Corrupt, "another method in the directory");
    let end = find(b"PK\x05\x06", 0);
    assert_eq!(falsified(end + 10, b"\x01"), Unsupported, "several disks");
    assert_eq!(falsified(end + 8, b"\x01\0\x01"), Corrupt, "an entry more than it says");
    // The content of one entry is used by another: how small files become very large.
    let mut overlap = ZipFile::default();
    overlap.add(b"a", 0o100_644, b"text");
    let fields = overlap.directory[8..32].to_owned();
    overlap.central(&fields, b"a", 0o100_644, 0);
    assert_eq!(rule(unpacked(&overlap.finish())), Corrupt);
    let mut followed = ZipFile::default();
    let data = [deflate(b"text"), b"more".to_vec()].concat();
    followed.add_compressed(b"SKILL.md", 0o100_644, b"text", &data);
    assert_eq!(
        rule(unpacked(&followed.finish())),
        Corrupt,
        "something after the compressed content"
    );
    let mut encrypted = good.clone();
    encrypted[6] = 1;
    encrypted[central + 8] = 1;
    assert_eq!(rule(unpacked(&encrypted)), Unsupported);
}

#[test]
fn damaged_content_is_refused() {
    let text: Vec<u8> = (0..2000_u16).flat_map(u16::to_le_bytes).collect();
    for (format, archive) in formats(&[file("a", &text)]) {
        let mut flipped = archive.clone();
        let middle = archive.len() / 2;
        flipped[middle] ^= 0x55;
        let refusal = unpacked(&flipped);
        assert!(refusal.is_err() || format == "tar.zst", "{format}");
    }
}

#[test]
fn other_formats_are_refused() {
    for bytes in [
        &b""[..],
        b"P",
        b"BZh9",
        b"\xfd7zXZ\0",
        b"7z\xbc\xaf",
        b"Rar!\x1a\x07\0",
        &tar_stream(&[file("a", b"a")]),
    ] {
        assert_eq!(rule(unpacked(bytes)), RefusalRule::Unsupported);
    }
}

fn trees() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
    let name = "[a-z0-9]{1,6}(/[a-z0-9]{1,6}){0,3}";
    let trees =
        proptest::collection::btree_map(name, proptest::collection::vec(any::<u8>(), 0..300), 1..8);
    // A path must not be the folder of another.
    trees.prop_filter("a file is a folder", |tree| {
        tree.keys().all(|path| !tree.keys().any(|other| other.starts_with(&format!("{path}/"))))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn trees_survive_every_format(tree in trees()) {
        let entries: Vec<Raw> = tree.iter().map(|(path, content)| file(path, content)).collect();
        for (format, archive) in formats(&entries) {
            let mut found = unpacked(&archive).expect(format);
            found.retain(|path, _| !path.ends_with('/'));
            prop_assert_eq!(&found, &tree);
        }
    }

    #[test]
    fn mutated_archives_are_refused_or_stay_inside(
        tree in trees(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        compress_after in any::<bool>(),
    ) {
        let entries: Vec<Raw> = tree.iter().map(|(path, content)| file(path, content)).collect();
        let mutate = |mut bytes: Vec<u8>| {
            changes.iter().for_each(|(at, byte)| { let at = at.index(bytes.len()); bytes[at] = *byte; });
            bytes
        };
        let archives = match compress_after {
            true => vec![gz(&mutate(tar_stream(&entries)))],
            false => formats(&entries).into_iter().map(|(_, archive)| mutate(archive)).collect(),
        };
        // `unpacked` asserts that nothing is left and nothing was written elsewhere.
        for archive in archives {
            let _ = unpacked(&archive);
        }
    }
}
