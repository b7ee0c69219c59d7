//! What of the engine decides what a guest comes to: the same on every machine where that is the
//! same.

use super::config::{Mode, OFF};
use skillhost_skill::runtime;

/// The engine and its version, which is pinned.
pub const ENGINE: &str = "wasmtime 48.0.8";

/// A digest over the engine's version, its mode, and what of WebAssembly it knows. Not over the
/// processor and the operating system: code for another one gives the same results, as far as the
/// mode promises.
pub fn fingerprint(mode: Mode) -> String {
    runtime::digest(format!("{ENGINE} {mode:?} without {OFF:?}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_built_in() {
        let lock = include_str!("../../../../Cargo.lock");
        let version = ENGINE
            .split_once(' ')
            .map(|(name, version)| format!("name = \"{name}\"\nversion = \"{version}\""));
        assert!(lock.contains(&version.unwrap()));
    }

    #[test]
    fn each_mode_has_its_own() {
        let all = [Mode::Fast, Mode::Metered, Mode::Deterministic].map(fingerprint);
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
    }
}
