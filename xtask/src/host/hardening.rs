//! Checks in the ELF headers of a program that it is hardened: a static position-independent
//! executable with packed relative relocations, full RELRO and a stack that is not executable, in
//! which no segment is both writable and executable.

use std::fs;
use std::ops::Range;
use std::path::Path;

use object::elf::{
    DF_1_NOW, DF_1_PIE, DF_BIND_NOW, DT_FLAGS, DT_FLAGS_1, DT_RELR, DT_TEXTREL, ET_DYN,
    FileHeader64, PF_W, PF_X, PT_GNU_RELRO, PT_GNU_STACK, PT_INTERP,
};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _};
use skillhost_toolchain::Error;

/// Sections that hold addresses. With full RELRO, all of them are read-only once a program runs.
const ADDRESSES: [&str; 6] =
    [".got", ".got.plt", ".data.rel.ro", ".init_array", ".fini_array", ".dynamic"];

/// Refuses a program that lacks a part of the hardening, and names each missing part.
pub(crate) fn check(program: &Path) -> Result<(), Error> {
    let bytes = fs::read(program).map_err(Error::context(program.display()))?;
    let missing = missing(&bytes).map_err(Error::context(program.display()))?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::new(format!("{} is not hardened: {}", program.display(), missing.join(", ")))
        .help("link with LLD 15 or later and a static glibc 2.36 or later"))
}

/// The parts of the hardening that an executable lacks.
fn missing(bytes: &[u8]) -> object::Result<Vec<&'static str>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, bytes)?;
    let segment = |kind| segments.iter().find(|segment| segment.p_type(endian) == kind);
    let dynamic: Vec<(i64, u64)> = segments
        .iter()
        .find_map(|segment| segment.dynamic(endian, bytes).transpose())
        .transpose()?
        .unwrap_or_default()
        .iter()
        .map(|entry| (entry.tag(endian), entry.val(endian)))
        .collect();
    let entry = |tag: i64| dynamic.iter().find(|entry| entry.0 == tag).map(|entry| entry.1);
    let has_flag = |tag: i64, flag: u32| entry(tag).unwrap_or(0) & u64::from(flag) != 0;
    let read_only = segment(PT_GNU_RELRO).map(|relro| {
        let start = relro.p_vaddr(endian);
        start..start + relro.p_memsz(endian)
    });
    let addresses = object::File::parse(bytes)?
        .sections()
        .filter(|section| section.name().is_ok_and(|name| ADDRESSES.contains(&name)))
        .map(|section| section.address()..section.address() + section.size())
        .collect::<Vec<_>>();

    let is_pie = header.e_type(endian) == ET_DYN && has_flag(DT_FLAGS_1, DF_1_PIE);
    let binds_now = has_flag(DT_FLAGS_1, DF_1_NOW) || has_flag(DT_FLAGS, DF_BIND_NOW);
    let stack = segment(PT_GNU_STACK);
    let writable_code = |flags: u32| flags & PF_W != 0 && flags & PF_X != 0;
    let parts = [
        (is_pie, "it is not position-independent"),
        (segment(PT_INTERP).is_none(), "it is not static"),
        (entry(DT_RELR).is_some(), "its relative relocations are not packed"),
        (entry(DT_TEXTREL).is_none(), "its code is relocated"),
        (binds_now, "its symbols are bound late"),
        (
            read_only.is_some_and(|range| {
                let covers = |part: &Range<u64>| range.start <= part.start && part.end <= range.end;
                !addresses.is_empty() && addresses.iter().all(covers)
            }),
            "its tables of addresses stay writable",
        ),
        (stack.is_some_and(|stack| stack.p_flags(endian) & PF_X == 0), "its stack is executable"),
        (
            !segments.iter().any(|segment| writable_code(segment.p_flags(endian))),
            "it has a segment that is writable and executable",
        ),
    ];
    Ok(parts.into_iter().filter(|(holds, _)| !holds).map(|(_, part)| part).collect())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::host::{HARDENED, STATIC_PIE, has_static_libc};

    /// Links a small program, checks that it runs, and returns its bytes.
    fn link(arguments: &[&[&str]]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("a.rs"), folder.path().join("a"));
        let text = "static NAMES: [&str; 3] = [\"a\", \"b\", \"c\"];
            fn main() { for name in &NAMES { println!(\"{name}\"); } }";
        fs::write(&source, text).unwrap();
        let mut rustc = Command::new("rustc");
        rustc.args(arguments.iter().copied().flatten()).arg("-o").arg(&program).arg(&source);
        let output = rustc.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let run = Command::new(&program).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&run.stdout), "a\nb\nc\n");
        fs::read(&program).unwrap()
    }

    #[test]
    fn program_linked_as_the_host_is_hardened() {
        if has_static_libc() {
            assert_eq!(missing(&link(&[&STATIC_PIE, &HARDENED])).unwrap(), [""; 0]);
        }
    }

    #[test]
    fn each_missing_part_is_named() {
        if !has_static_libc() {
            return;
        }
        let host = [&STATIC_PIE[..], &HARDENED];
        let with = |argument| [&host[..], &[argument]].concat();
        let late = ["-C", "link-arg=-Wl,-z,lazy", "-C", "relro-level=partial"];
        for (arguments, part) in [
            (
                with(&["-C", "relocation-model=static", "-C", "link-arg=-no-pie"]),
                "it is not position-independent",
            ),
            (vec![&HARDENED[..]], "it is not static"),
            (
                with(&["-C", "link-arg=-Wl,-z,nopack-relative-relocs"]),
                "its relative relocations are not packed",
            ),
            (with(&["-C", "relro-level=off"]), "its tables of addresses stay writable"),
            (with(&late), "its symbols are bound late"),
            (with(&["-C", "link-arg=-Wl,-z,execstack"]), "its stack is executable"),
        ] {
            let missing = missing(&link(&arguments)).unwrap();
            assert!(missing.contains(&part), "{arguments:?}: {missing:?}");
        }
    }
}
