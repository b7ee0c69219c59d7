//! Packs a staged installation of skillhost in every format that it is distributed in.
//!
//! `cargo xtask dist` builds everything, installs it into the folder `stage`, and starts this
//! program. The same stage gives the same bytes: files are sorted, belong to root, and have the time
//! of the commit.
//!
//! Start at [`pack`]. [`Tree`] is what each format contains, `archive` writes tar archives, and each
//! format has a file of its name.

#![expect(clippy::disallowed_methods, reason = "a development tool, which reads and writes files")]

mod archive;
mod deb;
mod error;
mod image;
mod install;
mod manifest;
mod npm;
mod tarball;
mod tree;
mod wheel;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use error::Error;
use manifest::Manifest;
use tree::Tree;

/// Pack a staged installation
#[derive(Debug, Parser)]
struct Args {
    /// The folder with `bin` and `share`
    #[arg(long)]
    stage: PathBuf,
    /// The folder to write the artifacts to
    #[arg(long)]
    out: PathBuf,
    /// The version of the release
    #[arg(long)]
    version: String,
    /// The time of every file, in seconds since 1970
    #[arg(long)]
    time: u64,
    /// The commit of the sources
    #[arg(long)]
    commit: String,
    /// The file of the public key that verifies the manifest, in PEM
    #[arg(long)]
    key: PathBuf,
}

/// What every format states about the release.
struct Release {
    version: String,
    /// Seconds since 1970.
    time: u64,
    architecture: Architecture,
}

/// The architecture of the program, as each ecosystem spells it.
#[derive(Debug, Clone, Copy)]
struct Architecture {
    /// `uname -m`.
    machine: &'static str,
    debian: &'static str,
    npm: &'static str,
    /// Container images, as in Go.
    image: &'static str,
}

const ARCHITECTURE: Architecture = if cfg!(target_arch = "aarch64") {
    Architecture { machine: "aarch64", debian: "arm64", npm: "arm64", image: "arm64" }
} else {
    Architecture { machine: "x86_64", debian: "amd64", npm: "x64", image: "amd64" }
};

/// The name of the project, its command and its npm package.
const NAME: &str = "skillhost";

/// The name on PyPI, where another project has `skillhost`.
const PYPI_NAME: &str = "skillhost-cli";

const SUMMARY: &str = "Runs untrusted Agent Skills as WebAssembly, with the permissions they asked for and you granted";

fn main() -> ExitCode {
    match pack(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write as _;
            drop(writeln!(std::io::stderr(), "error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Writes every artifact, and the manifest that lists them.
fn pack(args: &Args) -> Result<(), Error> {
    let release =
        Release { version: args.version.clone(), time: args.time, architecture: ARCHITECTURE };
    let tree = Tree::read(&args.stage)?;
    let out = &args.out;
    let key = error::read_text(&args.key)?;
    let mut artifacts = vec![
        tarball::write(&tree, &release, out)?,
        deb::write(&tree, &release, out)?,
        wheel::write(&tree, &release, out)?,
    ];
    artifacts.extend(npm::write(&tree, &release, out)?);
    artifacts.push(image::write(&tree, &release, out)?);
    artifacts.push(install::write(&key, out)?);
    Manifest { version: &release.version, commit: &args.commit, artifacts }.write(out)
}
