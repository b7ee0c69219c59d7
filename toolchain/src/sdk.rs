//! The embedded guest SDK, so that skills can be built wherever the host is installed.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::{Error, files};

/// The name of the SDK's crate.
pub const CRATE: &str = "skillhost-guest";

/// Paths and contents of the files in `guest-sdk/` and `wit/`.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/sdk_files.rs"));

/// An unpacked SDK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sdk {
    /// The folder of the crate.
    pub path: PathBuf,
    /// The version of the crate.
    pub version: String,
    /// A cargo configuration that replaces the dependency `skillhost-guest = "VERSION"` by this
    /// folder, and keeps cargo's target folder out of the skill.
    pub config: String,
}

/// Unpacks the SDK below `cache`, into a folder named by the digest of its contents.
///
/// # Errors
/// Returns an error if the cache cannot be written.
pub fn unpack(cache: &Path) -> Result<Sdk, Error> {
    // The path must be absolute: cargo resolves relative paths from the file that contains them.
    let cache = std::path::absolute(cache).map_err(Error::context(cache.display()))?;
    let root = cache.join("sdk").join(digest());
    files::create_dir_whole(&root, |new| {
        FILES
            .iter()
            .try_for_each(|(name, bytes)| files::write_if_changed(&new.join(name), bytes).map(drop))
    })?;
    let path = root.join("guest-sdk");
    Ok(Sdk { config: config(&path, &target_dir(&cache)), version: version()?, path })
}

/// Returns the target folder that all skills share.
pub(crate) fn target_dir(cache: &Path) -> PathBuf {
    cache.join("target")
}

fn config(sdk: &Path, target: &Path) -> String {
    let toml = |path: &Path| path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "[build]\ntarget-dir = \"{}\"\n\n[patch.crates-io.{CRATE}]\npath = \"{}\"\n",
        toml(target),
        toml(sdk)
    )
}

/// Returns the crate's version: the first `version = "..."` of its manifest.
fn version() -> Result<String, Error> {
    let manifest = FILES
        .iter()
        .find(|(name, _)| *name == "guest-sdk/Cargo.toml")
        .map(|(_, bytes)| String::from_utf8_lossy(bytes));
    let version = manifest
        .as_deref()
        .unwrap_or_default()
        .lines()
        .find_map(|l| Some(l.strip_prefix("version = \"")?.strip_suffix('"')?.to_owned()));
    version.ok_or_else(|| Error::new("the embedded SDK has no version"))
}

fn digest() -> String {
    let mut hash = Sha256::new();
    for (name, bytes) in FILES {
        for part in [name.as_bytes(), bytes] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    hash.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_sdk_equals_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let sdk = unpack(dir.path()).unwrap();
        assert_eq!(unpack(dir.path()).unwrap(), sdk);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for file in ["guest-sdk/Cargo.toml", "wit/skill.wit"] {
            assert_eq!(
                std::fs::read(sdk.path.join("..").join(file)).unwrap(),
                std::fs::read(root.join(file)).unwrap(),
                "{file}"
            );
        }
        assert!(sdk.path.is_absolute());
        assert_eq!(sdk.version.split('.').count(), 3, "{}", sdk.version);
    }
}
