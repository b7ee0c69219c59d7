//! Picks a toolchain: the active one if it has the target, else rustup adds the target, else one is
//! made from Debian's packages.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::CommandError;
use crate::{Error, LINKER, Progress, Step, TARGET, packages};

/// A toolchain that compiles to [`TARGET`](crate::TARGET) and links components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WasmToolchain {
    /// The compiler, where it is not the active one.
    pub rustc: Option<PathBuf>,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a toolchain comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The active toolchain had the target.
    Active,
    /// rustup added the target to the active toolchain.
    Rustup,
    /// Made from Debian's packages of this version.
    Packages(String),
}

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Everywhere, the cheapest first.
    Any,
    /// Debian's packages alone.
    Packages,
}

/// The active compiler: `$RUSTC`, else `rustc`.
#[derive(Debug, Clone)]
pub(crate) struct Active {
    /// What `rustc -vV` says.
    pub(crate) version: String,
    /// The target triple of this machine.
    pub(crate) host: String,
    /// Its sysroot.
    pub(crate) sysroot: PathBuf,
}

/// Finds a toolchain, or makes one under `cache`.
///
/// # Errors
/// Where there is no Rust at all, or neither rustup nor apt can help: with everything that was
/// tried.
pub fn find(cache: &Path, source: Source, progress: &Progress) -> Result<WasmToolchain, Error> {
    let active = progress.step("look for a wasm toolchain", Active::find)?;
    let mut tried = Vec::new();
    if source == Source::Any {
        if active.has_target() {
            return Ok(WasmToolchain { rustc: None, origin: Origin::Active });
        }
        tried.push(format!(
            "the active toolchain, {}: it has no {TARGET}",
            active.sysroot.display()
        ));
        match progress.step("rustup target add", |step| {
            step.run(Command::new("rustup").args(["target", "add", TARGET]))
        }) {
            Ok(_) if active.has_target() => {
                return Ok(WasmToolchain { rustc: None, origin: Origin::Rustup });
            }
            Ok(_) => tried.push(
                "`rustup target add`: it succeeded, for another toolchain than the active one"
                    .into(),
            ),
            Err(e) => tried.push(e.to_string()),
        }
    }
    // The compiler is started from other folders than this one.
    let cache = std::path::absolute(cache).map_err(Error::context(cache.display()))?;
    let made = packages::make(&cache, &active, progress);
    made.map(|(rustc, version)| WasmToolchain {
        rustc: Some(rustc),
        origin: Origin::Packages(version),
    })
    .map_err(|e| {
        tried.push(format!("Debian's packages: {e}"));
        Error {
            what: format!("there is no Rust toolchain for {TARGET}"),
            tried,
            help: Some(format!("`rustup target add {TARGET}`")),
        }
    })
}

impl WasmToolchain {
    /// cargo with this compiler, and with the linker that makes components.
    pub fn cargo(&self) -> Command {
        let mut cargo = Command::new("cargo");
        // rustc puts its own lib/rustlib/HOST/bin, where the linker lies, on the linker's PATH.
        cargo.env(
            format!("CARGO_TARGET_{}_LINKER", TARGET.to_uppercase().replace('-', "_")),
            LINKER,
        );
        if let Some(rustc) = &self.rustc {
            cargo.env("RUSTC", rustc);
        }
        cargo
    }
}

impl Active {
    fn find(step: &Step) -> Result<Self, Error> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
        let ask = |arg: &[&str]| {
            let out = step.run(Command::new(&rustc).args(arg)).map_err(|e: CommandError| {
                Error::new(format!("there is no Rust here: {e}"))
                    .help("install Rust's stable toolchain with rustup, https://rustup.rs")
            })?;
            Ok::<_, Error>(String::from_utf8_lossy(&out).trim().to_owned())
        };
        let version = ask(&["-vV"])?;
        let sysroot = PathBuf::from(ask(&["--print", "sysroot"])?);
        let host = version
            .lines()
            .find_map(|l| l.strip_prefix("host: "))
            .ok_or_else(|| Error::new(format!("`rustc -vV` names no host:\n{version}")))?;
        Ok(Self { host: host.to_owned(), sysroot, version })
    }

    /// The target's std and the component linker are both there.
    fn has_target(&self) -> bool {
        self.sysroot.join("lib/rustlib").join(TARGET).join("lib").is_dir()
            && self.tools().join(LINKER).is_file()
    }

    /// The folder of linkers.
    pub(crate) fn tools(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib").join(&self.host).join("bin")
    }
}
