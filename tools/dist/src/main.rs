//! Packs staged installations of skillhost in every format that it is distributed in.
//!
//! `cargo xtask dist` builds everything, installs it into a stage for each architecture, and starts
//! this program. The same stage gives the same bytes: files are sorted, belong to root, and have the time
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
mod rpm;
mod tarball;
mod tree;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use clap::Parser;

use error::Error;
use manifest::{Artifact, Manifest};
use tree::Tree;

/// Pack staged installations
#[derive(Debug, Parser)]
struct Args {
    /// The folder with `bin` and `share` for an architecture, by `uname -m`
    #[arg(long, value_name = "MACHINE=DIR", value_parser = stage, required = true)]
    stage: Vec<(Architecture, PathBuf)>,
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

const ARCHITECTURES: [Architecture; 2] = [
    Architecture { machine: "x86_64", debian: "amd64", npm: "x64", image: "amd64" },
    Architecture { machine: "aarch64", debian: "arm64", npm: "arm64", image: "arm64" },
];

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

fn stage(argument: &str) -> Result<(Architecture, PathBuf), String> {
    let (machine, folder) = argument.split_once('=').ok_or("expected MACHINE=DIR")?;
    let architecture = ARCHITECTURES.into_iter().find(|known| known.machine == machine);
    let architecture = architecture.ok_or_else(|| format!("unknown architecture {machine}"))?;
    Ok((architecture, folder.into()))
}

/// Writes an artifact.
type Write = fn(&Tree, &Release, &Architecture, &Path) -> Result<Artifact, Error>;

/// The formats that contain the program. The slowest come first.
const FORMATS: [Write; 6] =
    [tarball::write, deb::write, rpm::write, npm::write, image::write, wheel::write];

/// Calls a function with each item, on as many threads as there are processors, and returns the
/// results in the order of the items.
fn in_parallel<T: Copy + Send + Sync, R: Send, const N: usize>(
    items: [T; N],
    call: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(N);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Relaxed);
            match items.get(at) {
                Some(item) => done.push((at, call(*item))),
                None => return done,
            }
        }
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Writes every artifact, and the manifest that lists them.
fn pack(args: &Args) -> Result<(), Error> {
    let release = Release { version: args.version.clone(), time: args.time };
    let out = &args.out;
    let key = error::read_text(&args.key)?;
    let mut artifacts = Vec::new();
    for (architecture, stage) in &args.stage {
        let tree = Tree::read(stage)?;
        for written in in_parallel(FORMATS, |write| write(&tree, &release, architecture, out)) {
            artifacts.push(written?);
        }
    }
    let architectures: Vec<_> = args.stage.iter().map(|(architecture, _)| *architecture).collect();
    artifacts.push(npm::write_starter(&release, &architectures, out)?);
    artifacts.push(install::write(&key, out)?);
    Manifest { version: &release.version, commit: &args.commit, artifacts }.write(out)
}
