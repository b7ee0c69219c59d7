//! `install.sh`, with the key that verifies the manifest.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::error::Error;
use crate::manifest::{Artifact, Kind};

const SCRIPT: &str = include_str!("install.sh");

/// The line of the script that the key replaces.
const PLACE: &str = "@PUBLIC_KEY@\n";

pub(crate) fn write(key: &str, out: &Path) -> Result<Artifact, Error> {
    if !key.starts_with("-----BEGIN PUBLIC KEY-----\n") || SCRIPT.matches(PLACE).count() != 1 {
        return Err(Error::new("the key is not a public key in PEM"));
    }
    let name = "install.sh";
    let artifact =
        Artifact::write(Kind::Installer, name, SCRIPT.replace(PLACE, key).as_bytes(), out)?;
    std::fs::set_permissions(out.join(name), std::fs::Permissions::from_mode(0o755))
        .map_err(Error::at(name))?;
    Ok(artifact)
}
