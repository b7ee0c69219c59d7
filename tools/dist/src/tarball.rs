//! The archive that `install.sh` installs.

use std::path::Path;

use crate::archive::{Archive, zstd};
use crate::error::Error;
use crate::manifest::{Artifact, Kind};
use crate::tree::Tree;
use crate::{Architecture, NAME, Release};

pub(crate) fn write(
    tree: &Tree,
    release: &Release,
    architecture: &Architecture,
    out: &Path,
) -> Result<Artifact, Error> {
    let mut archive = Archive::new(Vec::new(), release.time);
    archive.add_tree(tree, "")?;
    let bytes = zstd(&archive.finish()?)?;
    let machine = architecture.machine;
    let name = format!("{NAME}-{}-linux-{machine}.tar.zst", release.version);
    Artifact::write(Kind::Tarball, machine, &name, &bytes, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ARCHITECTURES;
    use crate::tree::tests::example;

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let release = Release { version: "1.2.3".into(), time: 1_000_000_000 };
        let packed = [example(), example()].map(|(_dir, tree)| {
            let out = tempfile::tempdir().unwrap();
            let artifact = write(&tree, &release, &ARCHITECTURES[0], out.path()).unwrap();
            (artifact.sha256, std::fs::read(out.path().join(&artifact.file)).unwrap())
        });
        assert!(packed[0] == packed[1]);
        let tar = zstd::decode_all(packed[0].1.as_slice()).unwrap();
        let mut archive = tar::Archive::new(tar.as_slice());
        let entries: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let owner = (header.uid().unwrap(), header.gid().unwrap());
                assert_eq!((owner, header.mtime().unwrap()), ((0, 0), 1_000_000_000));
                (entry.path().unwrap().display().to_string(), header.mode().unwrap())
            })
            .collect();
        assert_eq!(entries[0], ("bin/".into(), 0o755));
        assert_eq!(entries[1], ("bin/skillhost".into(), 0o755));
        assert!(entries.contains(&("share/skillhost/skills/x/SKILL.md".into(), 0o644)));
    }
}
