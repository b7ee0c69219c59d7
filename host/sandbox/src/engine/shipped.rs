//! Compiled code that ships with this program, so that the first run after an installation does not
//! compile the runtimes.
//!
//! The program has a list of the code that it loads: digests of components, each with the [digest of
//! its code](code_digest). `cargo xtask dist` compiles the runtimes with the finished program, and
//! then writes the list into the program's file ([`SECTION`]). In every other build the list is
//! empty. Code that is not in the list, that was changed, or that another user can write is not
//! loaded: the runtime is compiled instead.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::panic::resume_unwind;
use std::thread::{Builder, available_parallelism};

use rustix::fs::Stat;
use sha2::{Digest as _, Sha256};
use skillhost_skill::runtime::stamp::{self, Stamp};
use skillhost_skill::runtime::{Component, hex};

use super::cache::Cache;
use super::config::Mode;

/// The section of the program's file that holds the list.
pub const SECTION: &str = ".skillhost.code";

/// The folder of shipped code, next to the runtimes.
pub const FOLDER: &str = "compiled";

/// How the section starts.
pub const MAGIC: [u8; 16] = *b"skillhost code 1";

/// The most runtimes that a program can ship code for.
pub const ENTRIES: usize = 8;

/// An entry: the SHA-256 of a component, and the digest of its code. Unused entries are zero.
pub const ENTRY: usize = 64;

/// The size of the section in bytes.
pub const SIZE: usize = MAGIC.len() + ENTRIES * ENTRY;

const fn empty() -> [u8; SIZE] {
    let mut list = [0; SIZE];
    let mut at = 0;
    while at < MAGIC.len() {
        list[at] = MAGIC[at];
        at += 1;
    }
    list
}

#[expect(unsafe_code, reason = "names a section, which no other code uses")]
// SAFETY: no other item is in this section, and the linker gives the name no meaning.
#[unsafe(link_section = ".skillhost.code")]
#[used]
static LIST: [u8; SIZE] = empty();

/// The list as it is in the program's file. The compiler knows another content, so it must not see
/// that this reads `LIST`.
fn list() -> [u8; SIZE] {
    #[expect(unsafe_code, reason = "a volatile read")]
    // SAFETY: `LIST` is initialized, aligned and never written while the program runs.
    unsafe {
        std::ptr::read_volatile(&raw const LIST)
    }
}

/// Returns the digest of the code that ships for a component, in hex digits.
fn code_of(component: &str) -> Option<String> {
    code_in(&list(), component)
}

fn code_in(list: &[u8; SIZE], component: &str) -> Option<String> {
    let component = component.strip_prefix("sha256:")?;
    list[MAGIC.len()..].chunks_exact(ENTRY).find_map(|entry| {
        let (of, code) = entry.split_at(ENTRY / 2);
        (hex(of) == component && code.iter().any(|byte| *byte != 0)).then(|| hex(code))
    })
}

/// Returns the name of the file with a component's code.
pub fn file_name(component: &str) -> String {
    format!("{}.cwasm", component.strip_prefix("sha256:").unwrap_or(component))
}

/// The size of the parts of a file of code whose digests are computed at the same time, in bytes.
const PART: u64 = 4 << 20;

/// The most threads that compute digests. More would wait for memory.
const THREADS: usize = 8;

/// Computes the digest of a file of code: the SHA-256 of the SHA-256 of each of its parts of
/// 4 MiB. The first run after an installation waits for it, so all processors compute it: 60 MiB
/// take about 20 ms on two processors that have instructions for SHA-256.
///
/// # Errors
/// The file cannot be read, or became shorter meanwhile.
pub fn code_digest(file: &File) -> io::Result<[u8; 32]> {
    let size = file.metadata()?.len();
    let parts = usize::try_from(size.div_ceil(PART)).unwrap_or(usize::MAX);
    let threads = available_parallelism().map_or(1, usize::from).min(parts).clamp(1, THREADS);
    let compute = |first: usize| {
        let mut digests = Vec::new();
        let mut buffer = Vec::new();
        for part in (first..parts).step_by(threads) {
            let from = part as u64 * PART;
            buffer.resize(usize::try_from(PART.min(size - from)).unwrap_or(0), 0);
            file.read_exact_at(&mut buffer, from)?;
            digests.push((part, Sha256::digest(&buffer)));
        }
        Ok::<_, io::Error>(digests)
    };
    let mut digests = std::thread::scope(|scope| {
        let compute = &compute;
        let start = |at| Builder::new().spawn_scoped(scope, move || compute(at));
        let others: Vec<_> = (1..threads).map(|at| (at, start(at))).collect();
        let mut digests = compute(0)?;
        for (at, other) in others {
            digests.extend(match other {
                Ok(other) => other.join().unwrap_or_else(|panic| resume_unwind(panic))?,
                // The container allows no more threads.
                Err(_) => compute(at)?,
            });
        }
        Ok::<_, io::Error>(digests)
    })?;
    digests.sort();
    Ok(digests
        .iter()
        .fold(Sha256::new(), |all, (_, digest)| all.chain_update(digest))
        .finalize()
        .into())
}

/// Opens the code that ships for a runtime, if this program may load it.
pub(super) fn open(cache: &Cache, mode: Mode, component: &Component) -> Option<File> {
    let (file, digest) = find(mode, component)?;
    match is_listed(cache, &file, &digest) {
        Ok(()) => Some(file),
        Err(reason) => {
            let name = component.built_in().map(|built_in| &built_in.description.name);
            tracing::warn!(runtime = ?name, %reason, "the compiled code that ships with skillhost is not used");
            None
        }
    }
}

/// Checks whether code ships for a runtime that this program may load. Writes no stamp.
pub(super) fn is_ready(mode: Mode, component: &Component) -> bool {
    find(mode, component).is_some_and(|(file, digest)| {
        rustix::fs::fstat(&file).is_ok_and(|stat| is_ours(&stat))
            && code_digest(&file).is_ok_and(|found| hex(&found) == digest)
    })
}

/// Opens the file of a runtime's code, and returns it with the digest that it must have.
fn find(mode: Mode, component: &Component) -> Option<(File, String)> {
    let built_in = component.built_in().filter(|_| mode == Mode::Fast)?;
    let digest = code_of(&component.digest)?;
    let file = built_in.open_beside(FOLDER, &file_name(&component.digest)).ok()?;
    Some((file, digest))
}

/// Checks that a file has the content with this digest, and that no other user can change it.
fn is_listed(cache: &Cache, file: &File, digest: &str) -> Result<(), String> {
    let stat = rustix::fs::fstat(file).map_err(|error| error.to_string())?;
    if !is_ours(&stat) {
        return Err("another user can write it".into());
    }
    let name = format!("{digest}.shipped");
    let known = cache.stamp(&name).is_some_and(|known| {
        known == Stamp::of(&stat, digest.to_owned()) && stamp::has_reliable_ctime(file)
    });
    if known {
        return Ok(());
    }
    let found = hex(&code_digest(file).map_err(|error| error.to_string())?);
    if found != digest {
        return Err(format!("its digest is {found}, and not {digest}"));
    }
    // From before the file was read: a change meanwhile shows in the next start.
    if let Err(error) = cache.set_stamp(&name, &Stamp::of(&stat, found)) {
        tracing::debug!(%error, "cannot write a stamp; the next run computes the digest again");
    }
    Ok(())
}

/// Checks that only root and the current user can write a file.
fn is_ours(stat: &Stat) -> bool {
    let owner = rustix::process::geteuid().as_raw();
    (stat.st_uid == 0 || stat.st_uid == owner) && stat.st_mode & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_a_build_is_empty() {
        let list = list();
        assert!(list.starts_with(&MAGIC));
        assert!(list[MAGIC.len()..].iter().all(|byte| *byte == 0));
        assert_eq!(code_of(&format!("sha256:{}", "00".repeat(32))), None, "unused entries");
    }

    #[test]
    fn the_digest_covers_every_part_in_order() {
        let digest = |bytes: &[u8]| {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(bytes, 0).unwrap();
            code_digest(&file).unwrap()
        };
        let part = PART as usize;
        let bytes: Vec<u8> = (0..2 * part + 5).map(|at| (at / 4096 + at / part) as u8).collect();
        let parts: Vec<u8> = bytes.chunks(part).flat_map(Sha256::digest).collect();
        assert_eq!(digest(&bytes)[..], Sha256::digest(parts)[..]);
        for at in [0, part - 1, part, 2 * part, 2 * part + 4] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_ne!(digest(&changed), digest(&bytes), "at {at}");
        }
        let swapped = [&bytes[part..2 * part], &bytes[..part], &bytes[2 * part..]].concat();
        assert_ne!(digest(&swapped), digest(&bytes));
        assert_ne!(digest(&bytes[..2 * part]), digest(&bytes));
        assert_eq!(digest(b"")[..], Sha256::digest(b"")[..]);
    }

    #[test]
    fn an_entry_names_the_code_of_a_component() {
        let mut list = empty();
        let entry = &mut list[MAGIC.len() + ENTRY..][..ENTRY];
        entry[..32].fill(0xab);
        entry[32..].fill(0xcd);
        let component = format!("sha256:{}", "ab".repeat(32));
        assert_eq!(code_in(&list, &component), Some("cd".repeat(32)));
        assert_eq!(code_in(&list, &format!("sha256:{}", "cd".repeat(32))), None);
        assert_eq!(code_in(&list, "ab"), None);
        assert_eq!(file_name(&component), format!("{}.cwasm", "ab".repeat(32)));
    }
}
