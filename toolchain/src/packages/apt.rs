//! Downloads packages with apt. This needs no root, because nothing is installed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::Home;
use crate::{Error, Progress, Step, files};

/// The package lists that apt reads.
#[derive(Clone, Copy)]
pub(super) enum Lists {
    /// The machine's lists, which may be empty or old.
    System,
    /// New lists in a separate folder, which needs no root.
    Own,
}

impl Lists {
    pub(super) fn name(self) -> &'static str {
        match self {
            Lists::System => "the machine's package lists",
            Lists::Own => "fresh package lists",
        }
    }

    /// Returns the options of apt-get and apt-cache.
    fn options(self, cache: &Path) -> Result<Vec<String>, Error> {
        if let Lists::System = self {
            return Ok(Vec::new());
        }
        let (lists, archives) = (cache.join("apt/lists"), cache.join("apt/cache"));
        for dir in [lists.join("partial"), archives.join("archives/partial")] {
            fs::create_dir_all(&dir).map_err(Error::context(dir.display()))?;
        }
        Ok(vec![
            "-o".into(),
            format!("Dir::State::Lists={}", lists.display()),
            "-o".into(),
            format!("Dir::Cache={}", archives.display()),
        ])
    }
}

/// The options of `apt-cache depends` that leave only what a package needs.
const DEPENDS: [&str; 8] = [
    "depends",
    "--recurse",
    "--no-recommends",
    "--no-suggests",
    "--no-conflicts",
    "--no-breaks",
    "--no-replaces",
    "--no-enhances",
];

/// apt with some package lists.
pub(super) struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// Returns apt with these lists. Its own lists are in `cache`, and are fetched first.
    pub(super) fn with(lists: Lists, cache: &Path, progress: &Progress) -> Result<Apt, Error> {
        let apt = Apt { options: lists.options(cache)? };
        if let Lists::Own = lists {
            progress
                .step("apt-get update", |step| step.run(&mut apt.get(&["update", "-q"])))
                .map_err(Error::from)?;
        }
        Ok(apt)
    }

    fn get(&self, args: &[&str]) -> Command {
        self.command("apt-get", args)
    }

    fn cache(&self, args: &[&str]) -> Command {
        self.command("apt-cache", args)
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C").args(&self.options).args(args);
        command
    }

    /// Returns the packages that a package needs, and itself.
    pub(super) fn needed(&self, package: &str, step: &Step) -> Result<Vec<String>, Error> {
        let depends = step.run(self.cache(&DEPENDS).arg(package)).map_err(Error::from)?;
        Ok(needed(&String::from_utf8_lossy(&depends)).map(str::to_owned).collect())
    }

    /// Returns those of the packages that a package needs, and itself, that are not installed.
    pub(super) fn missing(&self, package: &str, step: &Step) -> Result<Vec<String>, Error> {
        let mut missing = self.needed(package, step)?;
        let installed = installed(step)?;
        missing.retain(|package| !installed.contains(package));
        Ok(missing)
    }

    /// Returns a package, and the libraries that it needs and that are not installed.
    pub(super) fn program(&self, package: &str, step: &Step) -> Result<Vec<String>, Error> {
        let installed = installed(step)?;
        let (mut found, mut level) = (vec![package.to_owned()], vec![package.to_owned()]);
        while !level.is_empty() {
            let mut depends = self.cache(&["depends", "--important"]);
            let depends = step.run(depends.args(&level)).map_err(Error::from)?;
            let depends = String::from_utf8_lossy(&depends).into_owned();
            level = libraries(&depends).map(str::to_owned).collect();
            level.sort();
            level.dedup();
            level.retain(|name| !installed.contains(name) && !found.contains(name));
            found.extend(level.iter().cloned());
        }
        Ok(found)
    }

    /// Downloads packages to a folder.
    pub(super) fn download(
        &self,
        packages: &[String],
        to: &Path,
        step: &Step,
    ) -> Result<(), Error> {
        let uris = step
            .run(self.get(&["download", "-q", "--print-uris"]).args(packages))
            .map_err(Error::from)?;
        step.expect_bytes(total_size(&String::from_utf8_lossy(&uris)));
        let mut download = self.get(&["download", "-q"]);
        watch(to, step, || step.run(download.args(packages).current_dir(to)).map(drop))
            .map_err(Error::from)
    }
}

/// Returns the newest version, and downloads its packages unless a toolchain of that version
/// exists.
pub(super) fn fetch(
    lists: Lists,
    home: &Home,
    progress: &Progress,
) -> Result<(String, Option<TempDir>), Error> {
    let apt = Apt::with(lists, home.cache, progress)?;
    let version = progress.step("ask apt for rustc-web", |step| {
        let out = step.run(&mut apt.cache(&["policy", "rustc-web"])).map_err(Error::from)?;
        candidate(&String::from_utf8_lossy(&out))
            .ok_or_else(|| Error::new("apt does not know the package rustc-web"))
    })?;
    if home.dest(&version).is_dir() {
        return Ok((version, None));
    }
    let debs = tempfile::Builder::new()
        .prefix(files::UNFINISHED)
        .tempdir_in(home.cache)
        .map_err(Error::context(home.cache.display()))?;
    progress.step(&format!("download Debian's Rust {version}"), |step| {
        let std = format!(
            "libstd-rust-web-{}",
            version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".")
        );
        let mut packages: Vec<_> = ["rustc-web", "rust-web-src", "libstd-rust-web-dev", &std]
            .iter()
            .map(|p| format!("{p}={version}"))
            .collect();
        // Usually libLLVM and its dependencies.
        packages.extend(apt.missing(&std, step)?.into_iter().filter(|package| *package != std));
        apt.download(&packages, debs.path(), step)
    })?;
    Ok((version, Some(debs)))
}

/// Returns the version that `apt-cache policy` names as candidate.
fn candidate(policy: &str) -> Option<String> {
    let version = policy.lines().find_map(|l| l.trim().strip_prefix("Candidate: "))?;
    (version != "(none)").then(|| version.to_owned())
}

/// Returns the packages in the output of `apt-cache depends --recurse`, without virtual ones and
/// those of other architectures.
fn needed(depends: &str) -> impl Iterator<Item = &str> {
    let packages = depends.lines().filter(|line| !line.starts_with([' ', '<', '|']));
    packages.filter(|name| !name.contains(':'))
}

/// Returns the libraries in the output of `apt-cache depends`.
fn libraries(depends: &str) -> impl Iterator<Item = &str> {
    let names = depends.lines().filter_map(|line| line.trim_start().split_once("epends: "));
    names.map(|(_, name)| name.trim()).filter(|name| name.starts_with("lib"))
}

/// Returns the installed packages.
fn installed(step: &Step) -> Result<Vec<String>, Error> {
    let list = ["-W", "-f", "${Package} ${db:Status-Abbrev}\n"];
    let output = step.run(Command::new("dpkg-query").args(list)).map_err(Error::from)?;
    Ok(installed_in(&String::from_utf8_lossy(&output)).map(str::to_owned).collect())
}

/// Returns the installed packages in the output of `dpkg-query`, whose lines are PACKAGE STATUS.
fn installed_in(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.strip_suffix("ii ")).map(str::trim)
}

/// Adds up the sizes in the output of `apt-get --print-uris`, whose lines are 'URI' FILE SIZE HASH.
fn total_size(uris: &str) -> u64 {
    uris.lines().filter_map(|l| l.rsplit(' ').nth(1)?.parse::<u64>().ok()).sum()
}

/// Runs `work` while the step shows how many bytes `dir` has.
fn watch<T>(dir: &Path, step: &Step, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let entries = fs::read_dir(dir).into_iter().flatten().flatten();
                step.at_bytes(entries.filter_map(|e| Some(e.metadata().ok()?.len())).sum());
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let result = work();
        over.store(true, Ordering::Relaxed);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidate_version_is_parsed() {
        assert_eq!(
            candidate("rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n")
                .as_deref(),
            Some("1.96.0+dfsg1-1~deb12u2")
        );
        assert_eq!(candidate("rustc-web:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(candidate(""), None);
    }

    #[test]
    fn virtual_and_foreign_packages_are_no_dependencies() {
        let depends = "qemu\n  Depends: libc6\n |Depends: <seabios-any>\nlibc6\n<seabios-any>\n    seabios\nlibc6:i386\nseabios\n";
        assert_eq!(needed(depends).collect::<Vec<_>>(), ["qemu", "libc6", "seabios"]);
    }

    #[test]
    fn libraries_are_found_among_dependencies() {
        let depends = "skopeo\n  Depends: golang-x\n |Depends: libc6\n  PreDepends: liba\n  Depends: <libvirtual>\n    libb\n";
        assert_eq!(libraries(depends).collect::<Vec<_>>(), ["libc6", "liba"]);
    }

    #[test]
    fn removed_packages_with_settings_are_not_installed() {
        assert_eq!(installed_in("libc6 ii \nlibz3-4 rc \n").collect::<Vec<_>>(), ["libc6"]);
    }

    #[test]
    fn download_sizes_are_added_up() {
        assert_eq!(
            total_size(
                "'http://a/b.deb' b.deb 40 SHA256:00\n'http://a/c.deb' c.deb 2 SHA256:00\nnoise\n"
            ),
            42
        );
    }
}
