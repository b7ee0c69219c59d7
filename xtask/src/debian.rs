//! Unpacks Debian's packages into `target/tools`, without installing them and without root.

use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, Progress, Step, files};

use crate::workspace;

/// The options of `apt-cache depends` that leave only what a package needs.
const NEEDED: [&str; 8] = [
    "depends",
    "--recurse",
    "--no-recommends",
    "--no-suggests",
    "--no-conflicts",
    "--no-breaks",
    "--no-replaces",
    "--no-enhances",
];

/// Returns the folder with the files of packages, and fetches them unless it exists: `alone` without
/// their dependencies, and `whole` with those that are not installed. Of a package of `alone` without
/// files, which only names the newest version of another, the other one is unpacked.
pub(crate) fn unpack(
    name: &str,
    alone: &[&str],
    whole: &[&str],
    progress: &Progress,
) -> Result<PathBuf, Error> {
    let folder = workspace::root().join("target/tools").join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    progress.step(&format!("unpack {name} from Debian's packages"), |step| {
        let lists = folder.with_file_name("apt");
        let of_machine = Apt { options: Vec::new() };
        let fetched = of_machine.fetch(&folder, alone, whole, step);
        fetched.or_else(|_| Apt::update(&lists, step)?.fetch(&folder, alone, whole, step))
    })?;
    Ok(folder)
}

/// apt with its package lists: the machine's, which may be empty or old, or new ones.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// Fetches new lists into a folder.
    fn update(lists: &Path, step: &Step) -> Result<Apt, Error> {
        let (state, cache) = (lists.join("lists"), lists.join("cache"));
        for folder in [state.join("partial"), cache.join("archives/partial")] {
            std::fs::create_dir_all(&folder).map_err(Error::context(folder.display()))?;
        }
        let options = [("Dir::State::Lists", state), ("Dir::Cache", cache)];
        let option = |(name, folder): (&str, PathBuf)| {
            ["-o".to_owned(), format!("{name}={}", folder.display())]
        };
        let apt = Apt { options: options.into_iter().flat_map(option).collect() };
        step.run(&mut apt.command("apt-get", &["update", "-q"])).map_err(Error::from)?;
        Ok(apt)
    }

    fn fetch(
        &self,
        folder: &Path,
        alone: &[&str],
        whole: &[&str],
        step: &Step,
    ) -> Result<(), Error> {
        let mut packages = Vec::new();
        for package in alone {
            let needed = self.depends(package, step)?;
            // The images of the kernel have a version in their names.
            let newest =
                needed.iter().find(|name| name.starts_with("linux-image-") && name != package);
            packages.push(newest.map_or_else(|| (*package).to_owned(), String::clone));
        }
        let listed = ["-W", "-f", "${Package} ${db:Status-Abbrev}\n"];
        let installed = step.run(Command::new("dpkg-query").args(listed)).map_err(Error::from)?;
        let installed = String::from_utf8_lossy(&installed).into_owned();
        for package in whole {
            let is_missing = |name: &String| !installed.contains(&format!("\n{name} ii "));
            packages.extend(self.depends(package, step)?.into_iter().filter(is_missing));
        }
        packages.sort();
        packages.dedup();
        files::create_dir_whole(folder, |new| {
            let archives = create_archives(new)?;
            let mut download = self.command("apt-get", &["download", "-q"]);
            step.run(download.args(&packages).current_dir(&archives)).map_err(Error::from)?;
            for archive in std::fs::read_dir(&archives).map_err(Error::context(new.display()))? {
                let archive = archive.map_err(Error::context(new.display()))?.path();
                let mut unpack = Command::new("dpkg-deb");
                step.run(unpack.arg("--extract").args([&archive, new])).map_err(Error::from)?;
            }
            std::fs::remove_dir_all(&archives).map_err(Error::context(archives.display()))
        })
    }

    /// Returns the packages that a package needs, and itself.
    fn depends(&self, package: &str, step: &Step) -> Result<Vec<String>, Error> {
        let mut command = self.command("apt-cache", &NEEDED);
        let output = step.run(command.arg(package)).map_err(Error::from)?;
        Ok(needed(&String::from_utf8_lossy(&output)))
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C").args(&self.options).args(args);
        command
    }
}

/// Returns the folder of the archives, which is removed after they are unpacked.
fn create_archives(folder: &Path) -> Result<PathBuf, Error> {
    let archives = folder.join("archives");
    std::fs::create_dir_all(&archives).map_err(Error::context(archives.display()))?;
    Ok(archives)
}

/// Returns the packages in the output of `apt-cache depends --recurse`, without virtual ones.
fn needed(depends: &str) -> Vec<String> {
    let packages = depends.lines().filter(|line| !line.starts_with([' ', '<', '|']));
    packages.filter(|name| !name.contains(':')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_and_foreign_packages_are_no_dependencies() {
        let depends = "qemu\n  Depends: libc6\n |Depends: <seabios-any>\nlibc6\n<seabios-any>\n    seabios\nlibc6:i386\nseabios\n";
        assert_eq!(needed(depends), ["qemu", "libc6", "seabios"]);
    }
}
