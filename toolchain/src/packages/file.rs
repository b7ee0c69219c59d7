//! Unpacks one file of a package: a program that needs nothing else of the package.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{apt, list};
use crate::{Error, Progress, files};

/// Unpacks the file $3 of the package $1 into the folder $2.
const UNPACK_ONE: &str = r#"dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" "./$3""#;

/// Unpacks a file of a package of Debian into a subfolder of `folder`, and returns its path. Does
/// nothing if it is there: no version is pinned, because mirrors keep only the newest one. Nothing
/// is installed, which needs no root.
///
/// # Errors
/// apt does not have the package, or the package does not have the file.
pub fn unpack_file(
    folder: &Path,
    package: &str,
    file: &str,
    progress: &Progress,
) -> Result<PathBuf, Error> {
    let unpacked = folder.join(package);
    let path = unpacked.join(file);
    let mut tried = Vec::new();
    for lists in [apt::Lists::System, apt::Lists::Own] {
        if path.is_file() {
            return Ok(path);
        }
        let unpack = |new: &Path| {
            let apt = apt::Apt::with(lists, folder, progress)?;
            let debs = tempfile::tempdir_in(folder).map_err(Error::context(folder.display()))?;
            progress.step(&format!("download and unpack {package}"), |step| {
                apt.download(&[package.to_owned()], debs.path(), step)?;
                for deb in list(debs.path())? {
                    let mut unpack = Command::new("sh");
                    unpack.args(["-c", UNPACK_ONE, "sh"]).args([&deb, new]).arg(file);
                    step.run(&mut unpack).map_err(Error::from)?;
                }
                Ok::<(), Error>(())
            })
        };
        match files::create_dir_whole(&unpacked, unpack) {
            Ok(()) if path.is_file() => return Ok(path),
            Ok(()) => return Err(Error::new(format!("{} is not a file", path.display()))),
            Err(error) => tried.push(format!("with {}: {error}", lists.name())),
        }
    }
    let what = format!("apt has no {package} for this machine");
    Err(Error { what, tried, help: None, is_io: false })
}
