//! A minimal Debian, unpacked from packages, in which bubblewrap runs commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use skillhost_toolchain::{Error, Progress, unpack_packages};

use super::{Dist, Installed, output};
use crate::machine::Architecture;
use crate::workspace;

/// What install.sh and dpkg need, with the libraries that these need.
const PACKAGES: [&str; 34] = [
    "base-files",
    "base-passwd",
    "coreutils",
    "dash",
    "debianutils",
    "diffutils",
    "dpkg",
    "findutils",
    "grep",
    "gzip",
    "libacl1",
    "libattr1",
    "libbz2-1.0",
    "libc-bin",
    "libc6",
    "libcap2",
    "libcrypt1",
    "libgcc-s1",
    "libgmp10",
    "liblz4-1",
    "liblzma5",
    "libmd0",
    "libpcre2-8-0",
    "libselinux1",
    "libssl3",
    "libstdc++6",
    "libsystemd0",
    "libxxhash0",
    "libzstd1",
    "openssl",
    "sed",
    "tar",
    "zlib1g",
    "zstd",
];

/// Moves what packages put into folders of the root to /usr, where Debian has them, and makes the
/// folders and files that Debian's installer makes.
const FINISH: &str = r#"
set -eu
cd "$1"
for folder in bin sbin lib lib64; do
  mkdir -p "usr/$folder"
  if [ -d "$folder" ] && [ ! -L "$folder" ]; then cp -a "$folder/." "usr/$folder/"; rm -rf "$folder"; fi
  [ -L "$folder" ] || ln -s "usr/$folder" "$folder"
done
mkdir -p proc dev tmp dist home/user var/lib/dpkg/info var/lib/dpkg/updates var/lib/dpkg/triggers
mkdir -p var/lib/dpkg/alternatives var/log etc
touch var/lib/dpkg/status var/lib/dpkg/available
[ -e bin/sh ] || ln -s dash bin/sh
"#;

pub(super) fn archive(dist: &Dist<'_>, progress: &Progress) -> Result<Installed, Error> {
    let root = root(dist, "archive", progress)?;
    let work = dist.work("archive", None)?;
    let (home, out) = (work.clone(), dist.out.to_owned());
    let start = Instant::now();
    let mut install = sandbox(&root, &home, &out, Access::User);
    output(install.args(["sh", "/dist/install.sh"]))?;
    let time = start.elapsed();
    let command = move |args: &[&str]| {
        let mut run = sandbox(&root, &home, &out, Access::User);
        run.arg("/home/user/home/.local/bin/skillhost").args(args);
        run
    };
    Ok(Installed { command: Box::new(command), time })
}

pub(super) fn debian(dist: &Dist<'_>, progress: &Progress) -> Result<Installed, Error> {
    let root = root(dist, "debian", progress)?;
    let work = dist.work("debian", None)?;
    let out = dist.out.to_owned();
    let package = dist.artifact("debian", Architecture::OWN)?;
    let package = Path::new("/dist").join(package.file_name().unwrap_or_default());
    let start = Instant::now();
    output(sandbox(&root, &work, &out, Access::Root).args(["dpkg", "-i"]).arg(package))?;
    let time = start.elapsed();
    let command = move |args: &[&str]| {
        let mut run = sandbox(&root, &work, &out, Access::User);
        run.arg("skillhost").args(args);
        run
    };
    Ok(Installed { command: Box::new(command), time })
}

/// Installs with Debian's `rpm`, from outside of the root, which does not have its libraries.
pub(super) fn rpm(dist: &Dist<'_>, progress: &Progress) -> Result<Installed, Error> {
    let root = root(dist, "rpm", progress)?;
    let work = dist.work("rpm", None)?;
    let tools = workspace::root().join("target/tools");
    let tool = unpack_packages(&tools, "rpm", &[], &["rpm"], progress)?;
    let mut libraries = std::ffi::OsString::new();
    for folder in fs::read_dir(tool.join("usr/lib")).map_err(Error::context(tool.display()))? {
        let folder = folder.map_err(Error::context(tool.display()))?.path();
        if folder.to_string_lossy().ends_with("-linux-gnu") {
            libraries = folder.into();
        }
    }
    let start = Instant::now();
    let mut install = Command::new(tool.join("usr/bin/rpm"));
    install.env("LD_LIBRARY_PATH", libraries).env("RPM_CONFIGDIR", tool.join("usr/lib/rpm"));
    // The root has no database of RPM packages that could provide anything.
    install.arg("--root").arg(&root).args(["--install", "--nodeps"]);
    output(install.arg(dist.artifact("rpm", Architecture::OWN)?))?;
    let time = start.elapsed();
    let out = dist.out.to_owned();
    let command = move |args: &[&str]| {
        let mut run = sandbox(&root, &work, &out, Access::User);
        run.arg("skillhost").args(args);
        run
    };
    Ok(Installed { command: Box::new(command), time })
}

/// Who a command in the root runs as.
enum Access {
    /// A user who can write only to the home folder.
    User,
    /// The root of a user namespace, who can write to all files.
    Root,
}

/// A command that runs what its further arguments say, in the root.
fn sandbox(root: &Path, home: &Path, out: &Path, access: Access) -> Command {
    let mut bwrap = Command::new("bwrap");
    bwrap.args(["--unshare-user", "--unshare-pid", "--die-with-parent", "--clearenv"]);
    let (id, bind) = match access {
        Access::User => ("1000", "--ro-bind"),
        Access::Root => ("0", "--bind"),
    };
    bwrap.args(["--uid", id, "--gid", id, bind]).arg(root).arg("/");
    bwrap.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind"]);
    bwrap.arg(out).arg("/dist").arg("--bind").arg(home).arg("/home/user");
    bwrap.args(["--chdir", "/home/user/files", "--setenv", "HOME", "/home/user/home"]);
    bwrap.args(["--setenv", "PATH", "/usr/sbin:/usr/bin:/sbin:/bin"]);
    bwrap
}

/// Makes a new root.
fn root(dist: &Dist<'_>, name: &str, progress: &Progress) -> Result<PathBuf, Error> {
    let tools = workspace::root().join("target/tools");
    let unpacked = unpack_packages(&tools, "dist-root", &PACKAGES, &[], progress)?;
    let root = dist.folder.join(name).join("root");
    fs::create_dir_all(&root).map_err(Error::context(root.display()))?;
    output(Command::new("cp").arg("-a").arg(unpacked.join(".")).arg(&root))?;
    output(Command::new("sh").args(["-c", FINISH, "sh"]).arg(&root))?;
    Ok(root)
}
