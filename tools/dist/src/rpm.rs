//! The package for Fedora, openSUSE and other systems with RPM.

use std::collections::BTreeSet;
use std::path::Path;

use rpm::{BuildConfig, CompressionWithLevel, FileOptions, PackageBuilder};

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
    let machine = architecture.machine;
    let name = format!("{NAME}-{}-1.{machine}.rpm", release.version);
    let bytes = package(tree, release, machine).map_err(Error::at(&name))?;
    Artifact::write(Kind::Rpm, machine, &name, &bytes, out)
}

fn package(tree: &Tree, release: &Release, machine: &str) -> Result<Vec<u8>, rpm::Error> {
    // The format has 32 bits for a time.
    let time = u32::try_from(release.time).unwrap_or(u32::MAX);
    let config = BuildConfig::v4().source_date(time).compression(CompressionWithLevel::Zstd(19));
    let mut builder = PackageBuilder::new(NAME, &release.version, "Apache-2.0", machine, SUMMARY);
    builder.using_config(config).release("1").build_host("localhost");
    builder.description(
        "A skill gets only the permissions that the operator grants, every resource it uses has a limit, and none of its code runs natively.",
    );
    for folder in own_folders(tree) {
        builder.with_dir_entry(FileOptions::dir(format!("/usr/{folder}")))?;
    }
    for file in &tree.files {
        let mode = if file.is_executable { 0o755 } else { 0o644 };
        let options = FileOptions::new(format!("/usr/{}", file.path)).permissions(mode);
        builder.with_file(&file.source, options)?;
    }
    let mut bytes = Vec::new();
    builder.build()?.write(&mut bytes)?;
    Ok(bytes)
}

/// Returns the folders that the package owns, and removes with its files: other packages have files
/// in the rest.
fn own_folders(tree: &Tree) -> BTreeSet<&str> {
    let parents =
        |path| std::iter::successors(Some(path), |path: &&str| Some(path.rsplit_once('/')?.0));
    let folders = tree.files.iter().flat_map(|file| parents(file.path.as_str()).skip(1));
    folders.filter(|folder| folder.split('/').any(|part| part == NAME)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ARCHITECTURES;
    use crate::tree::tests::example;

    #[test]
    fn the_same_files_give_the_same_package_of_root() {
        let release = Release { version: "1.2.3".into(), time: 1_000_000_000 };
        let packed = [example(), example()].map(|(_dir, tree)| {
            let out = tempfile::tempdir().unwrap();
            let artifact = write(&tree, &release, &ARCHITECTURES[0], out.path()).unwrap();
            std::fs::read(out.path().join(&artifact.file)).unwrap()
        });
        assert!(packed[0] == packed[1]);
        let package = rpm::Package::parse(&mut packed[0].as_slice()).unwrap();
        let files = package.metadata.get_file_entries().unwrap();
        let listed: Vec<_> = files
            .iter()
            .map(|file| {
                assert_eq!((file.user(), file.group()), ("root", "root"));
                (file.path().display().to_string(), file.mode().permissions())
            })
            .collect();
        assert!(listed.contains(&("/usr/bin/skillhost".into(), 0o755)), "{listed:?}");
        assert!(listed.contains(&("/usr/share/skillhost/python.json".into(), 0o644)));
        assert!(listed.contains(&("/usr/share/skillhost/skills/x".into(), 0o755)), "{listed:?}");
        assert!(!listed.iter().any(|(path, _)| path == "/usr/share" || path == "/usr/bin"));
    }
}
