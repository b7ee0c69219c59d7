//! Unpacks Debian's packages into a folder. Nothing is installed, which needs no root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::{Apt, Lists};
use super::list;
use crate::{Error, Progress, Step, files};

/// Unpacks the file $3 of the package $1 into the folder $2.
const UNPACK_ONE: &str = r#"dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" "./$3""#;

/// Unpacks a file of a package into a subfolder of `folder`, and returns its path: a program that
/// needs nothing else of the package. Does nothing if it is there: no version is pinned, because
/// mirrors keep only the newest one.
///
/// # Errors
/// apt does not have the package, or the package does not have the file.
pub fn unpack_file(
    folder: &Path,
    package: &str,
    file: &str,
    progress: &Progress,
) -> Result<PathBuf, Error> {
    let path = folder.join(package).join(file);
    let unpack = |deb: &Path, new: &Path, step: &Step| {
        let mut unpack = Command::new("sh");
        unpack.args(["-c", UNPACK_ONE, "sh"]).args([deb, new]).arg(file);
        step.run(&mut unpack).map(drop).map_err(Error::from)
    };
    if !path.is_file() {
        let packages = |_: &Apt, _: &Step| Ok(vec![package.to_owned()]);
        fetch(folder, package, packages, unpack, progress)?;
    }
    match path.is_file() {
        true => Ok(path),
        false => Err(Error::new(format!("{} is not a file", path.display()))),
    }
}

/// Unpacks packages into the subfolder `name` of `folder`, and returns it: `alone` without their
/// dependencies, and `whole` with those that are not installed. Of a package of `alone` that only
/// names the newest version of another, the other one is unpacked. Does nothing if the subfolder
/// exists.
///
/// # Errors
/// apt does not have a package.
pub fn unpack_packages(
    folder: &Path,
    name: &str,
    alone: &[&str],
    whole: &[&str],
    progress: &Progress,
) -> Result<PathBuf, Error> {
    let packages = |apt: &Apt, step: &Step| {
        let mut packages = Vec::new();
        for package in alone {
            // The images of the kernel have a version in their names.
            let mut needed = apt.needed(package, step)?.into_iter();
            let newest = needed.find(|name| name.starts_with("linux-image-") && name != package);
            packages.push(newest.unwrap_or_else(|| (*package).to_owned()));
        }
        for package in whole {
            packages.extend(apt.missing(package, step)?);
            // What is asked for is expected in the folder, installed or not.
            packages.push((*package).to_owned());
        }
        packages.sort();
        packages.dedup();
        Ok(packages)
    };
    let unpack = |deb: &Path, new: &Path, step: &Step| {
        let mut unpack = Command::new("dpkg-deb");
        step.run(unpack.arg("--extract").args([deb, new])).map(drop).map_err(Error::from)
    };
    if !folder.join(name).is_dir() {
        fetch(folder, name, packages, unpack, progress)?;
    }
    Ok(folder.join(name))
}

/// Unpacks a package with the libraries that it needs and that are not installed into a subfolder of
/// `folder`, and returns it: a server or another program. Does nothing if the subfolder exists.
///
/// # Errors
/// apt does not have a package.
pub fn unpack_program(folder: &Path, package: &str, progress: &Progress) -> Result<PathBuf, Error> {
    let packages = |apt: &Apt, step: &Step| apt.program(package, step);
    let unpack = |deb: &Path, new: &Path, step: &Step| {
        let mut unpack = Command::new("dpkg-deb");
        step.run(unpack.arg("--extract").args([deb, new])).map(drop).map_err(Error::from)
    };
    if !folder.join(package).is_dir() {
        fetch(folder, package, packages, unpack, progress)?;
    }
    Ok(folder.join(package))
}

/// Downloads packages, and unpacks each into the new subfolder `name`: with the machine's package
/// lists, which may be old, or else with new ones.
fn fetch(
    folder: &Path,
    name: &str,
    packages: impl Fn(&Apt, &Step) -> Result<Vec<String>, Error>,
    unpack: impl Fn(&Path, &Path, &Step) -> Result<(), Error>,
    progress: &Progress,
) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(Error::context(folder.display()))?;
    let mut tried = Vec::new();
    for lists in [Lists::System, Lists::Own] {
        let fill = |new: &Path| {
            let apt = Apt::with(lists, folder, progress)?;
            let debs = tempfile::tempdir_in(folder).map_err(Error::context(folder.display()))?;
            progress.step(&format!("download and unpack {name}"), |step| {
                apt.download(&packages(&apt, step)?, debs.path(), step)?;
                list(debs.path())?.iter().try_for_each(|deb| unpack(deb, new, step))
            })
        };
        match files::create_dir_whole(&folder.join(name), fill) {
            Ok(()) => return Ok(()),
            Err(error) => tried.push(format!("with {}: {error}", lists.name())),
        }
    }
    let what = format!("cannot unpack {name} from Debian's packages");
    Err(Error { what, tried, help: None, is_io: false })
}
