//! Selects a toolchain: the active one if it has the target; else rustup adds the target; else one
//! is built from Debian's packages.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::CommandError;
use crate::{Error, LINKER, Progress, Step, TARGET, packages};

/// A Rust toolchain that compiles to [`TARGET`](crate::TARGET) and links components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WasmToolchain {
    /// The compiler, or `None` for the active one.
    pub rustc: Option<PathBuf>,
    /// The origin of the toolchain.
    pub origin: Origin,
}

/// The origin of a toolchain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The active toolchain has the target.
    Active,
    /// The active toolchain, to which rustup added the target.
    Rustup,
    /// Built from Debian's packages of this version.
    Packages(String),
}

/// The places to search for a toolchain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// All places, the cheapest first.
    Any,
    /// Only Debian's packages.
    Packages,
}

/// The active compiler: `$RUSTC`, or `rustc`.
#[derive(Debug, Clone)]
pub(crate) struct Active {
    /// The output of `rustc -vV`.
    pub(crate) version: String,
    /// The target triple of this machine.
    pub(crate) host: String,
    /// Its sysroot.
    pub(crate) sysroot: PathBuf,
}

/// Finds a toolchain, or builds one below `cache`.
///
/// # Errors
/// Returns an error if Rust is not installed, or if neither rustup nor apt can provide the target.
/// It lists all attempts.
pub fn find(cache: &Path, source: Source, progress: &Progress) -> Result<WasmToolchain, Error> {
    let active = progress.step("look for a wasm toolchain", Active::find)?;
    let mut tried = Vec::new();
    if source == Source::Any {
        if active.has_target() {
            return Ok(WasmToolchain { rustc: None, origin: Origin::Active });
        }
        tried.push(format!(
            "the active toolchain, {}: {TARGET} is not installed",
            active.sysroot.display()
        ));
        match progress.step("rustup target add", |step| {
            step.run(Command::new("rustup").args(["target", "add", TARGET]))
        }) {
            Ok(_) if active.has_target() => {
                return Ok(WasmToolchain { rustc: None, origin: Origin::Rustup });
            }
            Ok(_) => tried.push(
                "`rustup target add`: added the target to a toolchain that is not the active one"
                    .into(),
            ),
            Err(e) => tried.push(e.to_string()),
        }
    }
    // The compiler is started from other folders.
    let cache = std::path::absolute(cache).map_err(Error::context(cache.display()))?;
    let built = packages::build(&cache, &active, progress);
    built
        .map(|(rustc, version)| WasmToolchain {
            rustc: Some(rustc),
            origin: Origin::Packages(version),
        })
        .map_err(|e| {
            tried.push(format!("Debian's packages: {e}"));
            Error {
                what: format!("no Rust toolchain for {TARGET} found"),
                tried,
                help: Some(format!("`rustup target add {TARGET}`")),
                is_io: false,
            }
        })
}

impl WasmToolchain {
    /// Returns cargo, set up with this compiler and the linker that produces components.
    pub fn cargo(&self) -> Command {
        let mut cargo = Command::new("cargo");
        // rustc adds its own lib/rustlib/HOST/bin, which contains the linker, to the linker's PATH.
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
        let run = |arg: &[&str]| {
            let out = step.run(Command::new(&rustc).args(arg)).map_err(|e: CommandError| {
                Error::new(format!("Rust is not installed: {e}"))
                    .help("install Rust's stable toolchain with rustup, https://rustup.rs")
            })?;
            Ok::<_, Error>(String::from_utf8_lossy(&out).trim().to_owned())
        };
        let version = run(&["-vV"])?;
        let sysroot = PathBuf::from(run(&["--print", "sysroot"])?);
        let host = version.lines().find_map(|l| l.strip_prefix("host: ")).ok_or_else(|| {
            Error::new(format!("the output of `rustc -vV` has no host:\n{version}"))
        })?;
        Ok(Self { host: host.to_owned(), sysroot, version })
    }

    /// Returns whether the target's std and the component linker are installed.
    fn has_target(&self) -> bool {
        self.sysroot.join("lib/rustlib").join(TARGET).join("lib").is_dir()
            && self.tools().join(LINKER).is_file()
    }

    /// Returns the folder of the linkers.
    pub(crate) fn tools(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib").join(&self.host).join("bin")
    }
}
