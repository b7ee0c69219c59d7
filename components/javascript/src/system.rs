//! Clocks, randomness, the exit and panic messages: what the crates below ask of a system.

use std::cell::Cell;

use crate::bindings::wasi::cli::exit::exit_with_code;
use crate::bindings::wasi::clocks::{monotonic_clock, wall_clock};
use crate::bindings::wasi::random::random::get_random_bytes;
use crate::stdio;

/// Hosts limit the bytes of one request.
const RANDOM_AT_ONCE: usize = 64 * 1024;

thread_local! {
    /// Whether `run` has been called. Before it, the host's functions must not be called.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Notes that the host's functions may be called from now on.
pub(crate) fn set_running() {
    RUNNING.set(true);
}

/// Ends the program.
pub(crate) fn exit(code: u8) -> ! {
    exit_with_code(code);
    unreachable!("the host has ended the program")
}

/// The wall clock, in nanoseconds since 1970.
pub(crate) fn wall_nanos() -> u64 {
    if !RUNNING.get() {
        return 0;
    }
    let now = wall_clock::now();
    now.seconds * 1_000_000_000 + u64::from(now.nanoseconds)
}

/// The monotonic clock, in nanoseconds.
pub(crate) fn monotonic_nanos() -> u64 {
    if RUNNING.get() { monotonic_clock::now() } else { 0 }
}

/// Fills `bytes` with random bytes.
pub(crate) fn random(bytes: &mut [u8]) {
    if !RUNNING.get() {
        bytes.fill(0);
        return;
    }
    for part in bytes.chunks_mut(RANDOM_AT_ONCE) {
        part.copy_from_slice(&get_random_bytes(part.len() as u64));
    }
}

/// Writes panic messages to stderr. std's own stderr discards them on this target.
pub(crate) fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        stdio::report(&format!("node: {panic}\n"));
    }));
}

/// The clock of QuickJS, in microseconds since 1970.
#[unsafe(no_mangle)]
extern "C" fn __rquickjs_host_now_us() -> f64 {
    (wall_nanos() / 1000) as f64
}

#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    bytes: *mut u8,
    count: usize,
) -> Result<(), getrandom::Error> {
    // SAFETY: getrandom passes `count` writable bytes. They may be uninitialised, so they are
    // zeroed before they become a slice.
    let bytes = unsafe {
        bytes.write_bytes(0, count);
        std::slice::from_raw_parts_mut(bytes, count)
    };
    random(bytes);
    Ok(())
}

/// The generators of the older crates of the cryptography.
fn random_02(bytes: &mut [u8]) -> Result<(), getrandom_02::Error> {
    random(bytes);
    Ok(())
}

getrandom_02::register_custom_getrandom!(random_02);

/// Whether the program is running. During the build, no function of the host may be called.
pub(crate) fn is_running() -> bool {
    RUNNING.get()
}
