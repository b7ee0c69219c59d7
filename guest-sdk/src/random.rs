//! Random numbers. They are cryptographically secure, except in deterministic runs.
//!
//! Crates such as `rand` and `uuid` use these numbers through the crate `getrandom`:
//!
//! - `getrandom` 0.3 and 0.4 need feature `getrandom` of this crate, and `rustflags = ['--cfg',
//!   'getrandom_backend="custom"']` in `.cargo/config.toml`;
//! - `getrandom` 0.2 needs feature `getrandom-02`.

use crate::bindings::random::wasi::random::random;

/// The most bytes to request at once. Hosts limit the size of a request.
const AT_ONCE: usize = 64 * 1024;

/// Returns `count` random bytes.
///
/// ```no_run
/// let key: Vec<u8> = skillhost_guest::random::bytes(32);
/// ```
pub fn bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    fill(&mut bytes);
    bytes
}

/// Returns a random number.
///
/// ```no_run
/// let dice = skillhost_guest::random::u64() % 6 + 1;
/// ```
pub fn u64() -> u64 {
    random::get_random_u64()
}

/// Fills `bytes` with random bytes.
///
/// ```no_run
/// let mut salt = [0; 16];
/// skillhost_guest::random::fill(&mut salt);
/// ```
pub fn fill(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        // A host may return fewer bytes than requested.
        let some = random::get_random_bytes((bytes.len() - filled).min(AT_ONCE) as u64);
        bytes[filled..filled + some.len()].copy_from_slice(&some);
        filled += some.len();
    }
}

/// The backend of `getrandom` 0.3 and 0.4 under `--cfg getrandom_backend="custom"`.
#[cfg(all(feature = "getrandom", target_family = "wasm"))]
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
    fill(bytes);
    Ok(())
}

#[cfg(all(feature = "getrandom-02", target_family = "wasm"))]
mod getrandom_02 {
    fn custom(bytes: &mut [u8]) -> Result<(), getrandom_02::Error> {
        super::fill(bytes);
        Ok(())
    }

    getrandom_02::register_custom_getrandom!(custom);
}
