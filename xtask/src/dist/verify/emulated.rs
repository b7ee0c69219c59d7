//! The archive for 64-bit Arm, on an emulated processor. The emulator has no filters of system
//! calls, so the program refuses to compile there: only the runtimes, whose code it has, run.

use std::fs;
use std::process::Command;
use std::time::Instant;

use skillhost_toolchain::{Error, Progress};

use super::{Dist, Installed, output};
use crate::machine::{Architecture, Machine};
use crate::workspace;

pub(super) fn archive(dist: &Dist<'_>, progress: &Progress) -> Result<Installed, Error> {
    let machine = Machine::aarch64(&workspace::root(), progress)?;
    let work = dist.work("aarch64", None)?;
    let installed = dist.folder.join("aarch64/installed");
    fs::create_dir_all(&installed).map_err(Error::context(installed.display()))?;
    let start = Instant::now();
    let archive = dist.artifact("tarball", Architecture::Aarch64)?;
    output(Command::new("tar").arg("--zstd").arg("-xf").arg(archive).arg("-C").arg(&installed))?;
    let time = start.elapsed();
    let program = installed.join("bin/skillhost");
    let command = move |args: &[&str]| {
        let mut run = machine.command(&program);
        run.args(args).env_clear().env("HOME", work.join("home")).current_dir(work.join("files"));
        run
    };
    output(&mut command(&["--version"]))?;
    Ok(Installed { command: Box::new(command), time })
}
