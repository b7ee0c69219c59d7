//! `manifest.json`, which lists the artifacts with their digests.
//!
//! `install.sh` reads it without a JSON parser, so each artifact is on a line of its own, and its
//! fields are in this order. The script only reads a manifest whose signature it has verified.

use std::path::Path;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::NAME;
use crate::error::{self, Error};

/// The machine of artifacts that fit all.
pub(crate) const ANY: &str = "any";

/// The name of the manifest.
pub(crate) const FILE: &str = "manifest.json";

pub(crate) struct Manifest<'a> {
    pub(crate) version: &'a str,
    /// The commit of the sources.
    pub(crate) commit: &'a str,
    pub(crate) artifacts: Vec<Artifact>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Artifact {
    pub(crate) kind: Kind,
    pub(crate) machine: &'static str,
    pub(crate) file: String,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) sha256: String,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Tarball,
    Debian,
    Rpm,
    Wheel,
    Npm,
    NpmPlatform,
    Image,
    Installer,
}

impl Artifact {
    /// Writes an artifact to the folder `out`.
    pub(crate) fn write(
        kind: Kind,
        machine: &'static str,
        file: &str,
        bytes: &[u8],
        out: &Path,
    ) -> Result<Artifact, Error> {
        error::write(&out.join(file), bytes)?;
        let sha256 = hex(bytes);
        Ok(Artifact { kind, machine, file: file.to_owned(), size: bytes.len() as u64, sha256 })
    }
}

impl Manifest<'_> {
    pub(crate) fn write(&self, out: &Path) -> Result<(), Error> {
        error::write(&out.join(FILE), self.text()?.as_bytes())
    }

    fn text(&self) -> Result<String, Error> {
        let lines = self.artifacts.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>();
        let lines = lines.map_err(Error::at(FILE))?.join(",\n");
        let (version, commit) = (self.version, self.commit);
        Ok(format!(
            "{{\n\"name\":\"{NAME}\",\n\"version\":\"{version}\",\n\"commit\":\"{commit}\",\n\"artifacts\":[\n{lines}\n]\n}}\n"
        ))
    }
}

/// Returns the SHA-256 of some bytes in hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_artifact_is_one_line_of_valid_json() {
        let out = tempfile::tempdir().unwrap();
        let artifacts = ["a.deb", "b.deb"]
            .map(|name| Artifact::write(Kind::Debian, ANY, name, b"x", out.path()).unwrap());
        let manifest = Manifest { version: "1.2.3", commit: "abc", artifacts: artifacts.into() };
        let text = manifest.text().unwrap();
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed["artifacts"][1]["file"], "b.deb");
        assert_eq!(parsed["artifacts"][0]["sha256"], hex(b"x"));
        assert!(text.lines().any(|line| line.contains(r#""file":"a.deb","size":1,"#)), "{text}");
    }
}
