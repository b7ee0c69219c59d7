//! Packs a skill as an archive. The same files result in the same bytes on every machine: entries are
//! sorted, and have no owners, times or modes of this machine.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use skillhost_skill::Skill;
use tar::{Builder, EntryType, Header};

use crate::digest::{Digest, Listing};

/// The format of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackFormat {
    /// `.tar.gz`
    Gzip,
    /// `.tar.zst`
    Zstd,
}

/// The level of zstd that releases of Linux distributions use for packages.
const ZSTD_LEVEL: i32 = 19;

impl PackFormat {
    /// Returns the format that the end of a file name stands for.
    pub fn of_name(name: &str) -> Option<PackFormat> {
        let ends = [
            (".tar.gz", PackFormat::Gzip),
            (".tgz", PackFormat::Gzip),
            (".tar.zst", PackFormat::Zstd),
            (".tzst", PackFormat::Zstd),
        ];
        ends.into_iter().find(|(end, _)| name.ends_with(end)).map(|(_, format)| format)
    }
}

/// A file of a skill: its path and its content.
pub type File = (String, Vec<u8>);

/// Reads each file of a skill once. Symlinks become copies of their targets, and what `.skillignore`
/// leaves out is not read.
///
/// # Errors
/// A file cannot be read, or is a symlink to a folder.
pub fn read(skill: &Skill) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    for file in &skill.files {
        // A symlink to a folder has no content of its own: what is in it are files elsewhere.
        if file.link.is_some() && skill.content.dir().is_dir(&file.path) {
            let why = format!("`{}` is a symlink to a folder; replace it with a copy", file.path);
            return Err(io::Error::other(why));
        }
        files.push((file.path.clone(), skill.read(&file.path)?));
    }
    Ok(files)
}

/// Returns the digest of each file.
pub fn listing(files: &[File]) -> Listing {
    Listing(files.iter().map(|(path, content)| (path.clone(), Digest::of(content))).collect())
}

/// Writes the files of a skill as an archive with one folder, which has the skill's name.
///
/// # Errors
/// `to` fails.
pub fn pack<W: Write>(name: &str, files: &[File], format: PackFormat, to: W) -> io::Result<W> {
    match format {
        PackFormat::Gzip => {
            // The byte that names the operating system says "unknown".
            let encoder = GzBuilder::new().mtime(0).operating_system(255);
            write(name, files, encoder.write(to, Compression::best()))?.finish()
        }
        PackFormat::Zstd => {
            let mut encoder = zstd::Encoder::new(to, ZSTD_LEVEL)?;
            encoder.include_checksum(true)?;
            write(name, files, encoder)?.finish()
        }
    }
}

fn write<W: Write>(name: &str, files: &[File], to: W) -> io::Result<W> {
    let mut builder = Builder::new(to);
    builder.append_data(&mut header(EntryType::Directory, 0), format!("{name}/"), &[][..])?;
    let mut known: Vec<&str> = Vec::new();
    for (path, content) in files {
        for folder in crate::names::ancestors(path) {
            if !known.contains(&folder) {
                known.push(folder);
                let path = format!("{name}/{folder}/");
                builder.append_data(&mut header(EntryType::Directory, 0), path, &[][..])?;
            }
        }
        let mut header = header(EntryType::Regular, content.len() as u64);
        builder.append_data(&mut header, format!("{name}/{path}"), &content[..])?;
    }
    builder.into_inner()
}

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o644 });
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real folders")]

    use std::io::Write as _;

    use skillhost_skill::SizeLimits;

    use super::*;
    use crate::limits::TransferLimits;
    use crate::{archive, skills};

    fn skill(folder: &std::path::Path) -> Skill {
        std::fs::create_dir_all(folder.join("deep/er")).unwrap();
        std::fs::write(folder.join("SKILL.md"), "---\nname: one\ndescription: Tests.\n---\n")
            .unwrap();
        std::fs::write(folder.join("deep/er/a.py"), "print()\n").unwrap();
        std::fs::write(folder.join("deep/b.py"), "").unwrap();
        std::os::unix::fs::symlink("deep/er/a.py", folder.join("link")).unwrap();
        Skill::load(folder, &SizeLimits::default()).unwrap()
    }

    #[test]
    fn packed_skill_has_the_same_bytes_everywhere_and_is_unpacked_again() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for format in [PackFormat::Gzip, PackFormat::Zstd] {
            let packed = |root: &std::path::Path| {
                let folder = root.join(format!("{format:?}/one"));
                let files = read(&skill(&folder)).unwrap();
                pack("one", &files, format, Vec::new()).unwrap()
            };
            let archive = packed(first.path());
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert_eq!(packed(second.path()), archive, "{format:?}");
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&archive).unwrap();
            let limits = TransferLimits::default();
            let staged =
                archive::unpack(&file, archive.len() as u64, first.path(), &limits).unwrap();
            assert_eq!(skills::find(&staged, ""), ["one"]);
            let files = skills::read(&staged, "one", &limits).unwrap().files;
            let paths: Vec<&str> = files.keys().map(String::as_str).collect();
            assert_eq!(paths, ["SKILL.md", "deep/b.py", "deep/er/a.py", "link"]);
        }
    }
}
