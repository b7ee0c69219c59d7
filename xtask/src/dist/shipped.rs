//! The compiled code of the runtimes, and the list in the program of the code that it loads: see
//! `host/sandbox/src/engine/shipped.rs`, which reads the list.

use std::fs;
use std::path::Path;
use std::process::Command;

use object::{Object as _, ObjectSection as _};
use sha2::{Digest as _, Sha256};
use skillhost_toolchain::{Error, Step};

/// The section of the list, how it starts, and the number of its entries.
const SECTION: &str = ".skillhost.code";
const MAGIC: &[u8; 16] = b"skillhost code 1";
const ENTRIES: usize = 8;

/// Compiles the runtimes with the finished program, into a new folder.
pub(super) fn compile(program: &Command, to: &Path, step: &Step) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(Error::context(to.display()))?;
    let mut compile = Command::new(program.get_program());
    compile.env_clear();
    for (name, value) in program.get_envs() {
        compile.envs(value.map(|value| (name, value)));
    }
    step.run(compile.args(["runtimes", "compile", "--ship-to"]).arg(to))?;
    Ok(())
}

/// Writes the digests of the code in a folder into the list of the program.
pub(super) fn list(program: &Path, code: &Path) -> Result<(), Error> {
    let mut entries = Vec::new();
    for file in fs::read_dir(code).map_err(Error::context(code.display()))? {
        let path = file.map_err(Error::context(code.display()))?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let component = bytes_of(&name)
            .ok_or_else(|| Error::new(format!("{} names no digest", path.display())))?;
        let bytes = fs::read(&path).map_err(Error::context(path.display()))?;
        entries.push([component, Sha256::digest(&bytes).into()].concat());
    }
    // Folders list their files in any order.
    entries.sort();
    let mut bytes = fs::read(program).map_err(Error::context(program.display()))?;
    let place = place(&bytes).map_err(|why| Error::new(format!("{}: {why}", program.display())))?;
    let list = bytes.get_mut(place).unwrap_or_default();
    if entries.len() > ENTRIES || entries.is_empty() {
        return Err(Error::new(format!("{} runtimes have code", entries.len())));
    }
    let entries = entries.concat();
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
