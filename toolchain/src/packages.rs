//! Builds a toolchain from Debian's packages if rustup cannot add the target. The package
//! `rustc-web` (the compiler and its std) and its source are unpacked into a separate folder,
//! without being installed. std for [`TARGET`] is then built once from that source, with the active
//! toolchain's linkers.
//!
//! No version is pinned, because mirrors keep only the newest one. A newer package results in a new
//! toolchain.

mod apt;
mod unpack;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::find::Active;
use crate::{Error, LINKER, Progress, Step, TARGET, files};

pub use unpack::{unpack_file, unpack_packages, unpack_program};

/// The version of the folder's layout. Change it when the same packages have to be unpacked or
/// built differently.
const LAYOUT: &str = "2";

/// A wrapper around the compiler that finds sysroot and libraries relative to its own folder.
const WRAPPER: &str = r#"#!/bin/sh
root=${0%/bin/*}
LD_LIBRARY_PATH=$(echo "$root"/usr/lib/*-linux-*)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$root/usr/bin/${0##*/}" --sysroot "$root" "$@"
"#;

/// Unpacks the package $1 into the folder $2.
const UNPACK: &str = r#"dpkg-deb --extract "$1" "$2""#;

/// Unpacks the library folder of the compiler's source, which is a twentieth of it.
const UNPACK_LIBRARY: &str =
    r#"dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --wildcards "./usr/src/rustc-*/library""#;

/// A crate whose build compiles std.
const STD_MANIFEST: &str = r#"[package]
name = "sysroot-build"
version = "0.0.0"
edition = "2024"
[workspace]
[profile.release]
codegen-units = 1
panic = "abort"
"#;

/// Returns the compiler and the version of the packages. Reuses an existing toolchain, even if apt
/// cannot reach its servers.
pub(crate) fn build(
    cache: &Path,
    active: &Active,
    progress: &Progress,
) -> Result<(PathBuf, String), Error> {
    if !active.tools().join(LINKER).is_file() {
        let what = format!("the active toolchain has no {LINKER} in {}", active.tools().display());
        return Err(Error::new(what).help("use a toolchain from rustup: `rustup default stable`"));
    }
    // Held while a toolchain is built: a second process waits and then finds the result.
    let _lock = files::lock(&cache.join("lock"))?;
    let home =
        Home { cache, key: digest(&[LAYOUT, &active.version, &active.sysroot.to_string_lossy()]) };
    // Left by processes that were killed.
    home.remove(|name| name.starts_with(files::UNFINISHED));
    let mut tried = Vec::new();
    for lists in [apt::Lists::System, apt::Lists::Own] {
        match apt::fetch(lists, &home, progress) {
            Ok((version, None)) => return Ok((home.dest(&version).join("bin/rustc"), version)),
            Ok((version, Some(debs))) => {
                files::create_dir_whole(&home.dest(&version), |new| {
                    progress.step("unpack Debian's Rust", |step| {
                        unpack(debs.path(), new, active, step)
                    })?;
                    progress.step(&format!("build std for {TARGET}"), |step| build_std(new, step))
                })?;
                home.remove(|name| home.version(name).is_some_and(|v| v != version));
                return Ok((home.dest(&version).join("bin/rustc"), version));
            }
            Err(e) => tried.push(format!("with {}: {e}", lists.name())),
        }
    }
    match home.existing() {
        Some((rustc, version)) => Ok((rustc, version)),
        None => Err(Error {
            what: "apt has no rustc-web for this machine".into(),
            tried,
            help: None,
            is_io: false,
        }),
    }
}

/// The folder of toolchains for one active toolchain, with one subfolder per version of the
/// packages.
struct Home<'a> {
    cache: &'a Path,
    key: String,
}

impl Home<'_> {
    fn dest(&self, version: &str) -> PathBuf {
        self.cache.join(format!("{}_{version}", self.key))
    }

    /// Returns the version of a subfolder.
    fn version<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(&self.key)?.strip_prefix('_')
    }

    fn names(&self) -> impl Iterator<Item = String> {
        fs::read_dir(self.cache)
            .into_iter()
            .flatten()
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
    }

    fn existing(&self) -> Option<(PathBuf, String)> {
        let version = self.names().find_map(|n| self.version(&n).map(str::to_owned))?;
        Some((self.dest(&version).join("bin/rustc"), version))
    }

    /// Removes old subfolders. Failures cost only disk space.
    fn remove(&self, old: impl Fn(&str) -> bool) {
        self.names().filter(|n| old(n)).for_each(|n| drop(fs::remove_dir_all(self.cache.join(n))));
    }
}

/// Unpacks the packages into `root` and arranges them as a sysroot.
fn unpack(debs: &Path, root: &Path, active: &Active, step: &Step) -> Result<(), Error> {
    for deb in list(debs)? {
        step.note(&format!("{}", deb.display()));
        let source =
            deb.file_name().is_some_and(|n| n.to_string_lossy().starts_with("rust-web-src_"));
        step.run(
            Command::new("sh")
                .args(["-c", if source { UNPACK_LIBRARY } else { UNPACK }, "sh"])
                .args([&deb, root]),
        )?;
    }
    let host = &active.host;
    let source = list(&root.join("usr/src"))?.into_iter().find(|p| p.join("library").is_dir());
    let source =
        source.ok_or_else(|| Error::new("the package rust-web-src contains no library/"))?;
    let lay_out = || {
        for dir in ["bin", "lib/rustlib/src", &format!("lib/rustlib/{host}")] {
            fs::create_dir_all(root.join(dir))?;
        }
        // A relative link, because the folder is renamed when it is complete.
        symlink(
            Path::new("../../../usr/src").join(source.file_name().unwrap_or_default()),
            root.join("lib/rustlib/src/rust"),
        )?;
        symlink(
            format!("../../../usr/lib/rustlib/{host}/lib"),
            root.join(format!("lib/rustlib/{host}/lib")),
        )?;
        symlink(active.tools(), root.join(format!("lib/rustlib/{host}/bin")))?;
        for program in ["rustc", "rustdoc"] {
            let path = root.join("bin").join(program);
            fs::write(&path, WRAPPER)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok::<_, std::io::Error>(())
    };
    lay_out().map_err(Error::context(root.display()))?;
    // This fails if the packages lack a library.
    step.run(Command::new(root.join("bin/rustc")).arg("-vV")).map(drop).map_err(Error::from)
}

/// Builds std from the packages' source and adds it to the sysroot.
fn build_std(root: &Path, step: &Step) -> Result<(), Error> {
    let work = tempfile::tempdir_in(root).map_err(Error::context(root.display()))?;
    for (name, text) in [("Cargo.toml", STD_MANIFEST), ("src/lib.rs", "#![no_std]\n")] {
        files::write_if_changed(&work.path().join(name), text.as_bytes())?;
    }
    let target_dir = work.path().join("target");
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(work.path())
        .env("RUSTC", root.join("bin/rustc"))
        .env("CARGO_TARGET_DIR", &target_dir);
    // Stable cargo accepts -Zbuild-std only with this variable.
    cargo.env("RUSTC_BOOTSTRAP", "1").env(
        "RUSTFLAGS",
        format!(
            "-Cembed-bitcode=yes --remap-path-prefix={}=/rust",
            root.join("lib/rustlib/src/rust").display()
        ),
    );
    cargo.args(["build", "--release", "--target", TARGET, "-Zbuild-std=std,panic_abort"]);
    step.run(&mut cargo).map_err(Error::from)?;
    let lib = root.join("lib/rustlib").join(TARGET).join("lib");
    fs::create_dir_all(&lib).map_err(Error::context(lib.display()))?;
    for built in list(&target_dir.join(TARGET).join("release/deps"))? {
        let name = built.file_name().unwrap_or_default();
        let text = name.to_string_lossy();
        if text.ends_with(".rlib") && !text.starts_with("libsysroot_build") {
            fs::copy(&built, lib.join(name)).map_err(Error::context(built.display()))?;
        }
    }
    Ok(())
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(dir)
        .and_then(|entries| entries.map(|e| Ok(e?.path())).collect::<Result<Vec<_>, _>>());
    entries.map_err(Error::context(dir.display()))
}

fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect()
}
