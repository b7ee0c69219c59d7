//! A virtual environment of Python, and a folder of npm packages.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use skillhost_toolchain::{Error, Progress};

use super::{Dist, Installed, Run, USER, is_root, output};
use crate::machine::Architecture;

pub(super) fn wheel(dist: &Dist<'_>, _: &Progress) -> Result<Installed, Error> {
    let (wheel, work) =
        (dist.artifact("wheel", Architecture::OWN)?, dist.work("wheel", Some(USER))?);
    let environment = dist.folder.join("wheel/environment");
    let start = Instant::now();
    output(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let mut install = Command::new(environment.join("bin/pip"));
    output(install.args(["install", "--quiet", "--no-index"]).arg(wheel))?;
    let program = environment.join("bin/skillhost");
    Ok(Installed { time: start.elapsed(), command: command(program, work) })
}

pub(super) fn npm(dist: &Dist<'_>, _: &Progress) -> Result<Installed, Error> {
    let work = dist.work("npm", Some(USER))?;
    let folder = dist.folder.join("npm/prefix");
    let start = Instant::now();
    let mut install = Command::new("npm");
    install.args(["install", "--global", "--offline", "--no-audit", "--no-fund", "--prefix"]);
    // The package of the platform comes first, so that the other one finds it.
    install.arg(&folder).args([
        dist.artifact("npm-platform", Architecture::OWN)?,
        dist.artifact("npm", Architecture::OWN)?,
    ]);
    output(&mut install)?;
    let program = folder.join("bin/skillhost");
    Ok(Installed { time: start.elapsed(), command: command(program, work) })
}

/// Runs a program as a user without privileges.
fn command(program: PathBuf, work: PathBuf) -> Run {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Box::new(move |args| {
        let mut run = Command::new(Path::new(&program));
        run.args(args).env_clear().env("PATH", &path).env("HOME", work.join("home"));
        run.current_dir(work.join("files"));
        if is_root() {
            run.uid(USER).gid(USER);
        }
        run
    })
}
