//! The machine that a release is for: this one, or one of another architecture, whose programs are
//! built by a cross compiler and run in an emulator. Debian's packages have both; they are unpacked,
//! not installed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, Progress, unpack_file, unpack_packages};

/// The target of 64-bit Arm.
const AARCH64: &str = "aarch64-unknown-linux-gnu";

/// The compiler and the program that makes libraries, the packages that they need to link a static
/// program, and those that they need themselves.
const COMPILER: &str = "aarch64-linux-gnu-gcc";
const ARCHIVER: &str = "aarch64-linux-gnu-ar";
const LIBRARIES: [&str; 2] = ["libc6-dev-arm64-cross", "linux-libc-dev-arm64-cross"];
const COMPILERS: [&str; 1] = ["gcc-aarch64-linux-gnu"];

/// The package with the emulator, and its file, which needs nothing else of the package.
const EMULATOR: (&str, &str) = ("qemu-user-static", "usr/bin/qemu-aarch64-static");

/// An architecture that releases are built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Architecture {
    X86_64,
    Aarch64,
}

impl Architecture {
    pub(crate) const OWN: Architecture =
        if cfg!(target_arch = "aarch64") { Architecture::Aarch64 } else { Architecture::X86_64 };

    /// `uname -m`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
        }
    }

    /// The target of cargo.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64-unknown-linux-gnu",
            Architecture::Aarch64 => AARCH64,
        }
    }
}

/// The machine that programs are built for.
pub(crate) enum Machine {
    /// This one.
    This,
    /// An emulated one, of the architecture aarch64.
    Emulated { compiler: PathBuf, emulator: PathBuf },
}

impl Machine {
    /// Unpacks what building for aarch64 on another machine needs. Its std comes from rustup.
    pub(crate) fn aarch64(root: &Path, progress: &Progress) -> Result<Machine, Error> {
        progress.step(&format!("rustup target add {AARCH64}"), |step| {
            step.run(Command::new("rustup").args(["target", "add", AARCH64]))
        })?;
        let tools = root.join("target/tools");
        let unpacked = unpack_packages(&tools, "gcc-aarch64", &LIBRARIES, &COMPILERS, progress)?;
        write_wrapper(&unpacked, ARCHIVER, "")?;
        // The linker script of the C library names files by absolute paths, which mean the sysroot.
        write_wrapper(&unpacked, COMPILER, &format!("--sysroot='{}'", unpacked.display()))?;
        let compiler = unpacked.join(COMPILER);
        let (package, file) = EMULATOR;
        let emulator = unpack_file(&tools, package, file, progress)?;
        Ok(Machine::Emulated { compiler, emulator })
    }

    pub(crate) fn architecture(&self) -> Architecture {
        match self {
            Machine::This => Architecture::OWN,
            Machine::Emulated { .. } => Architecture::Aarch64,
        }
    }

    /// Returns a command that runs a program that was built for this machine.
    pub(crate) fn command(&self, program: &Path) -> Command {
        match self {
            Machine::This => Command::new(program),
            Machine::Emulated { emulator, .. } => {
                let mut command = Command::new(emulator);
                command.arg(program);
                command
            }
        }
    }

    /// Adds arguments and variables that make cargo build for this machine.
    pub(crate) fn select(&self, cargo: &mut Command) {
        let Machine::Emulated { compiler, .. } = self else { return };
        cargo.args(["--target", AARCH64]);
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", compiler);
        cargo.env("CC_aarch64_unknown_linux_gnu", compiler);
        cargo.env("AR_aarch64_unknown_linux_gnu", compiler.with_file_name(ARCHIVER));
    }
}

/// Writes a script that starts a tool with its libraries and with this argument. For this target,
/// rustc requests static programs at a fixed address, but compiles all code so that the kernel can
/// choose the address.
fn write_wrapper(unpacked: &Path, tool: &str, argument: &str) -> Result<(), Error> {
    let folder = unpacked.display();
    let libraries = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let script = format!(
        r#"#!/bin/sh
for argument; do
  shift
  case $argument in
    -no-pie) continue ;;
    -static) argument=-static-pie ;;
  esac
  set -- "$@" "$argument"
done
LD_LIBRARY_PATH='{folder}/{libraries}' exec '{folder}/usr/bin/{tool}' {argument} "$@"
"#
    );
    let path = unpacked.join(tool);
    fs::write(&path, script)
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
        .map_err(Error::context(path.display()))
}
