//! Identifies the engine: the same fingerprint means the same results on every machine.

use super::config::{Mode, OFF};
use skillhost_skill::runtime;

/// The engine and its pinned version.
pub const ENGINE: &str = "wasmtime 48.0.8";

/// Returns a digest of the engine's version, its mode, and the WebAssembly features it supports.
/// The processor and the operating system are left out: they do not change results, as far as the
/// mode promises.
pub fn fingerprint(mode: Mode) -> String {
    runtime::digest(format!("{ENGINE} {mode:?} without {OFF:?}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_matches_the_lock_file() {
        let lock = include_str!("../../../../Cargo.lock");
        let version = ENGINE
            .split_once(' ')
            .map(|(name, version)| format!("name = \"{name}\"\nversion = \"{version}\""));
        assert!(lock.contains(&version.unwrap()));
    }

    #[test]
    fn each_mode_has_its_own_fingerprint() {
        let all = [Mode::Fast, Mode::Metered, Mode::Deterministic].map(fingerprint);
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
    }
}
