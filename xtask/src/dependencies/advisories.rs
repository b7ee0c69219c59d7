//! Reads the RustSec advisory database: files `crates/NAME/RUSTSEC-*.md`, each of which begins with
//! a code block of TOML.

use std::fmt;
use std::path::{Path, PathBuf};

use semver::{Version, VersionReq};
use serde::Deserialize;
use skillhost_toolchain::Error;

/// A copy of the database.
pub(super) struct Database {
    crates: PathBuf,
}

/// An advisory that affects a version in use.
pub(super) struct Advisory {
    pub(super) id: String,
    title: String,
}

#[derive(Deserialize)]
struct Header {
    advisory: Metadata,
    versions: Versions,
}

#[derive(Deserialize)]
struct Metadata {
    id: String,
    package: String,
    informational: Option<String>,
    withdrawn: Option<String>,
}

#[derive(Deserialize)]
struct Versions {
    #[serde(default)]
    patched: Vec<VersionReq>,
    #[serde(default)]
    unaffected: Vec<VersionReq>,
}

impl Database {
    /// # Errors
    /// Returns an error if the folder is not a database or has no advisories: without this check,
    /// an empty folder would pass every dependency.
    pub(super) fn open(folder: &Path) -> Result<Database, Error> {
        let crates = folder.join("crates");
        let has_any =
            std::fs::read_dir(&crates).map_err(Error::context(crates.display()))?.next().is_some();
        if !has_any {
            return Err(Error::new(format!("{} contains no advisories", crates.display())));
        }
        Ok(Database { crates })
    }

    /// Returns the advisories that affect a version of a crate. Leaves out those that only report
    /// an unmaintained crate or are notices.
    ///
    /// # Errors
    /// Returns an error if an advisory cannot be read.
    pub(super) fn find(&self, name: &str, version: &str) -> Result<Vec<Advisory>, Error> {
        let folder = self.crates.join(name);
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let version =
            Version::parse(version).map_err(Error::context(format!("{name} {version}")))?;
        let entries = std::fs::read_dir(&folder)
            .and_then(|entries| entries.map(|e| Ok(e?.path())).collect::<Result<Vec<_>, _>>());
        let mut paths = entries.map_err(Error::context(folder.display()))?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
        paths.sort();
        let mut found = Vec::new();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(Error::context(path.display()))?;
            found.extend(
                affecting(&text, name, &version)
                    .map_err(|error| Error::new(format!("{}: {error}", path.display())))?,
            );
        }
        Ok(found)
    }
}

/// Parses an advisory, and returns it if it affects the version.
fn affecting(text: &str, name: &str, version: &Version) -> Result<Option<Advisory>, String> {
    let parts = text.trim_start().strip_prefix("```toml").and_then(|rest| rest.split_once("\n```"));
    let (header, rest) = parts.ok_or("no TOML block")?;
    let Header { advisory, versions } =
        toml::from_str(header).map_err(|error| error.to_string())?;
    let is_notice = matches!(advisory.informational.as_deref(), Some("unmaintained" | "notice"));
    let mut safe = versions.patched.iter().chain(&versions.unaffected);
    if advisory.package != name
        || advisory.withdrawn.is_some()
        || is_notice
        || safe.any(|range| range.matches(version))
    {
        return Ok(None);
    }
    let title =
        rest.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default().trim().to_owned();
    Ok(Some(Advisory { id: advisory.id, title }))
}

impl fmt::Display for Advisory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, self.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advisory(more: &str, versions: &str) -> String {
        format!(
            "```toml\n[advisory]\nid = \"RUSTSEC-2099-0001\"\npackage = \"bad\"\ndate = \"2099-01-01\"\n{more}\n[versions]\n{versions}\n```\n\n\
             # It is bad\n\nAll of it.\n"
        )
    }

    #[test]
    fn versions_are_affected_unless_patched_or_unaffected() {
        let ranges = "patched = [\"^1.4.2\", \">= 2.0.1\"]\nunaffected = [\"< 1.1.0\"]";
        for (version, affected) in [
            ("1.0.9", false),
            ("1.1.0", true),
            ("1.4.1", true),
            ("1.4.2", false),
            ("2.0.0", true),
            ("2.0.1", false),
        ] {
            let found =
                affecting(&advisory("", ranges), "bad", &Version::parse(version).unwrap()).unwrap();
            assert_eq!(
                found.map(|one| one.to_string()),
                affected.then(|| "RUSTSEC-2099-0001: It is bad".to_owned()),
                "{version}"
            );
        }
    }

    #[test]
    fn withdrawn_and_informational_advisories_are_not_reported() {
        let found = |more: &str| {
            affecting(&advisory(more, "patched = []"), "bad", &Version::new(1, 0, 0))
                .unwrap()
                .is_some()
        };
        assert!(found("") && found("informational = \"unsound\""));
        assert!(!found("withdrawn = \"2099-02-01\"") && !found("informational = \"unmaintained\""));
        assert!(affecting("# no TOML", "bad", &Version::new(1, 0, 0)).is_err());
        assert!(
            affecting(&advisory("", "patched = [\"soon\"]"), "bad", &Version::new(1, 0, 0))
                .is_err()
        );
    }

    #[test]
    fn folder_without_advisories_is_not_a_database() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Database::open(dir.path()).is_err());
        std::fs::create_dir(dir.path().join("crates")).unwrap();
        assert!(Database::open(dir.path()).is_err());
        std::fs::create_dir(dir.path().join("crates/bad")).unwrap();
        std::fs::write(
            dir.path().join("crates/bad/RUSTSEC-2099-0001.md"),
            advisory("", "patched = [\">= 2.0.0\"]"),
        )
        .unwrap();
        let database = Database::open(dir.path()).unwrap();
        let count = |name, version| database.find(name, version).unwrap().len();
        assert_eq!(
            [count("bad", "1.9.0"), count("bad", "2.0.0"), count("good", "1.0.0")],
            [1, 0, 0]
        );
    }
}
