//! Random numbers, cryptographically secure unless the host runs deterministically.
//!
//! Crates that bring their own (`rand`, `uuid`) get it from here with feature `getrandom`, for
//! `getrandom` 0.3 and 0.4, which also want `rustflags = ['--cfg', 'getrandom_backend="custom"']`
//! in `.cargo/config.toml`; and `getrandom-02`, for 0.2.

use crate::bindings::random::wasi::random::random;

/// The most that is asked of the host at once: hosts bound it.
const AT_ONCE: usize = 64 * 1024;

/// `count` random bytes.
///
/// ```no_run
/// let key: Vec<u8> = skillhost_guest::random::bytes(32);
/// ```
pub fn bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    fill(&mut bytes);
    bytes
}

/// A random number.
///
/// ```no_run
/// let dice = skillhost_guest::random::u64() % 6 + 1;
/// ```
pub fn u64() -> u64 {
    random::get_random_u64()
}

/// Fills `bytes`.
///
/// ```no_run
/// let mut salt = [0; 16];
/// skillhost_guest::random::fill(&mut salt);
/// ```
pub fn fill(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        // A host may return fewer bytes than were asked for.
        let some = random::get_random_bytes((bytes.len() - filled).min(AT_ONCE) as u64);
        bytes[filled..filled + some.len()].copy_from_slice(&some);
        filled += some.len();
    }
}

/// Where `getrandom` 0.3 and 0.4 look when the build is given `--cfg getrandom_backend="custom"`.
#[cfg(all(feature = "getrandom", target_family = "wasm"))]
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    bytes: *mut u8,
    count: usize,
) -> Result<(), getrandom::Error> {
    // SAFETY: getrandom passes `count` writable bytes, perhaps uninitialized: hence zeroed before
    // they are a slice.
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
