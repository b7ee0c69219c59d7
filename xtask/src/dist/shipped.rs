//! The compiled code of the runtimes, and the list in the program of the code that it loads: see
//! `host/sandbox/src/engine/shipped.rs`, which reads the list.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object as _, ObjectSection as _};
use skillhost_toolchain::{Error, Step};

use super::Places;
use crate::machine::{Architecture, Machine};
use crate::{host, workspace};

/// The section of the list, how it starts, and the number of its entries.
const SECTION: &str = ".skillhost.code";
const MAGIC: &[u8; 16] = b"skillhost code 1";
const ENTRIES: usize = 8;

/// The digests of a component and of its code.
type Entry = [[u8; 32]; 2];

/// Compiles the runtimes into a new folder, and returns the entries of the list: with the finished program or, because an emulated one
/// cannot start its compiler, with a program of this machine that compiles for every architecture.
pub(super) fn compile(
    places: &Places,
    machine: &Machine,
    program: &Path,
    to: &Path,
    step: &Step,
) -> Result<Vec<Entry>, Error> {
    fs::create_dir_all(to).map_err(Error::context(to.display()))?;
    let mut compile = match machine {
        Machine::This => Command::new(program),
        Machine::Emulated { .. } => Command::new(build_cross_compiler(&places.root, step)?),
    };
    compile.arg("runtimes").arg("--programs").arg(to.with_file_name(""));
    compile.args(["compile", "--ship-to"]).arg(to);
    if machine.architecture() != Architecture::OWN {
        compile.arg("--aarch64");
    }
    let printed = step.run(&mut places.command(compile))?;
    let printed = String::from_utf8_lossy(&printed);
    let entry = |line: &str| {
        let (component, code) = line.split_once(' ')?;
        Some([bytes_of(component)?, bytes_of(code)?])
    };
    let entries: Option<Vec<Entry>> = printed.lines().map(entry).collect();
    entries.ok_or_else(|| Error::new(format!("skillhost runtimes compile printed: {printed}")))
}

fn build_cross_compiler(root: &Path, step: &Step) -> Result<PathBuf, Error> {
    let mut cargo = workspace::cargo(root);
    cargo.args(["build", "--locked", "--bin", "skillhost"]);
    cargo.args(["--features", "skillhost-sandbox/all-architectures"]);
    cargo.arg("--message-format=json-render-diagnostics");
    host::executable(&step.run(&mut cargo)?, "skillhost")
}

/// Writes entries into the list of the program.
pub(super) fn list(program: &Path, mut entries: Vec<Entry>) -> Result<(), Error> {
    // The same release has the same bytes.
    entries.sort_unstable();
    let mut bytes = fs::read(program).map_err(Error::context(program.display()))?;
    let place = place(&bytes).map_err(|why| Error::new(format!("{}: {why}", program.display())))?;
    let list = bytes.get_mut(place).unwrap_or_default();
    if entries.len() > ENTRIES || entries.is_empty() {
        return Err(Error::new(format!("{} runtimes have code", entries.len())));
    }
    let entries = entries.concat().concat();
    list[..entries.len()].copy_from_slice(&entries);
    fs::write(program, bytes).map_err(Error::context(program.display()))
}

/// Where the entries are in the program's file.
fn place(program: &[u8]) -> Result<std::ops::Range<usize>, String> {
    let file = object::File::parse(program).map_err(|error| error.to_string())?;
    let section = file.section_by_name(SECTION).ok_or("it has no list of compiled code")?;
    let (start, size) = section.file_range().ok_or("its list of compiled code is empty")?;
    let (start, end) = (start as usize, (start + size) as usize);
    let size = MAGIC.len() + ENTRIES * 64;
    match program.get(start..end) {
        Some(list) if list.starts_with(MAGIC) && list.len() == size => Ok(start + MAGIC.len()..end),
        _ => Err("its list of compiled code has another format".into()),
    }
}

/// The bytes of a SHA-256 in hex digits.
fn bytes_of(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}
