//! The Debian package: an `ar` archive of the format's version, the control files and the files.

use std::path::Path;

use crate::archive::{Archive, zstd};
use crate::error::Error;
use crate::manifest::{Artifact, Kind};
use crate::tree::Tree;
use crate::{Architecture, NAME, Release, SUMMARY};

pub(crate) fn write(
    tree: &Tree,
    release: &Release,
    architecture: &Architecture,
    out: &Path,
) -> Result<Artifact, Error> {
    let mut control = Archive::new(Vec::new(), release.time);
    control.add_bytes("./control", 0o644, control_file(tree, release, architecture).as_bytes())?;
    let mut data = Archive::new(Vec::new(), release.time);
    data.add_tree(tree, "./usr/")?;
    let mut package = b"!<arch>\n".to_vec();
    member(&mut package, "debian-binary", release.time, b"2.0\n");
    member(&mut package, "control.tar.zst", release.time, &zstd(&control.finish()?)?);
    member(&mut package, "data.tar.zst", release.time, &zstd(&data.finish()?)?);
    let name = format!("{NAME}_{}_{}.deb", release.version, architecture.debian);
    Artifact::write(Kind::Debian, architecture.machine, &name, &package, out)
}

fn control_file(tree: &Tree, release: &Release, architecture: &Architecture) -> String {
    format!(
        "Package: {NAME}\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: The skillhost developers <skillhost@localhost>\n\
         Installed-Size: {}\n\
         Section: utils\n\
         Priority: optional\n\
         Description: {SUMMARY}\n \
         A skill gets only the permissions that the operator grants, every resource it\n \
         uses has a limit, and none of its code runs natively.\n",
        release.version,
        architecture.debian,
        tree.size().div_ceil(1024),
    )
}

/// Appends a member of the archive: a header of 60 characters and the content, padded to an even
/// length (ar(5), common format).
fn member(archive: &mut Vec<u8>, name: &str, time: u64, bytes: &[u8]) {
    let size = bytes.len();
    let header = format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 100_644);
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(bytes);
    if size % 2 == 1 {
        archive.push(b'\n');
    }
}
