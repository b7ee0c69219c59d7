//! The guest SDK that is embedded here, so that skills build wherever the host is installed.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::{Error, files};

/// The SDK's crate.
pub const CRATE: &str = "skillhost-guest";

/// Paths, and bytes: `guest-sdk/` and `wit/` as they were when this was compiled.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/sdk_files.rs"));

/// An unpacked SDK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sdk {
    /// The folder of the crate.
    pub path: PathBuf,
    /// The version of the crate.
    pub version: String,
    /// A cargo configuration that makes this folder be the crate, wherever a manifest says
    /// `skillhost-guest = "VERSION"`.
    pub patch: String,
}

/// Unpacks the SDK below `cache`, once for each of its contents.
///
/// # Errors
/// Where the cache cannot be written.
pub fn unpack(cache: &Path) -> Result<Sdk, Error> {
    // cargo resolves a relative path from the folder of whoever reads it.
    let cache = std::path::absolute(cache).map_err(Error::context(cache.display()))?;
    let root = cache.join("sdk").join(digest());
    files::create_dir_whole(&root, |new| {
        FILES
            .iter()
            .try_for_each(|(name, bytes)| files::write_if_changed(&new.join(name), bytes).map(drop))
    })?;
    let path = root.join("guest-sdk");
    let toml = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    Ok(Sdk {
        patch: format!("[patch.crates-io.{CRATE}]\npath = \"{toml}\"\n"),
        version: version()?,
        path,
    })
}

/// The first `version = "..."` of the crate's manifest.
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
    version.ok_or_else(|| Error::new("the embedded SDK says no version"))
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
    fn the_embedded_sdk_is_the_one_of_this_repository() {
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
