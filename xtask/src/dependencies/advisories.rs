//! Advisories of the RustSec database: `crates/NAME/RUSTSEC-*.md` below a folder, each with its
//! facts as TOML in a first block of code.

use std::fmt;
use std::path::{Path, PathBuf};

use semver::{Version, VersionReq};
use serde::Deserialize;
use skillhost_toolchain::Error;

/// A copy of the database.
pub(super) struct Database {
    crates: PathBuf,
}

/// An advisory on a version that is in use.
pub(super) struct Advisory {
    pub(super) id: String,
    title: String,
}

#[derive(Deserialize)]
struct Facts {
    advisory: About,
    versions: Versions,
}

#[derive(Deserialize)]
struct About {
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
    /// The folder is no such database, or an empty one: what holds no advisory finds none.
    pub(super) fn open(folder: &Path) -> Result<Database, Error> {
        let crates = folder.join("crates");
        let holds_any =
            std::fs::read_dir(&crates).map_err(Error::context(crates.display()))?.next().is_some();
        if !holds_any {
            return Err(Error::new(format!("{} holds no advisory", crates.display())));
        }
        Ok(Database { crates })
    }

    /// The advisories on a version of a crate. That nobody maintains a crate is no fault of a
    /// version.
    ///
    /// # Errors
    /// One that cannot be read.
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
                judge(&text, name, &version)
                    .map_err(|why| Error::new(format!("{}: {why}", path.display())))?,
            );
        }
        Ok(found)
    }
}

/// What an advisory says of a version: itself, where the version has the fault.
fn judge(text: &str, name: &str, version: &Version) -> Result<Option<Advisory>, String> {
    let facts = text.trim_start().strip_prefix("```toml").and_then(|rest| rest.split_once("\n```"));
    let (facts, rest) = facts.ok_or("it has no block of TOML")?;
    let Facts { advisory, versions } = toml::from_str(facts).map_err(|error| error.to_string())?;
    let notes_only = matches!(advisory.informational.as_deref(), Some("unmaintained" | "notice"));
    let mut safe = versions.patched.iter().chain(&versions.unaffected);
    if advisory.package != name
        || advisory.withdrawn.is_some()
        || notes_only
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
    fn a_version_has_the_fault_unless_it_is_patched_or_unaffected() {
        let ranges = "patched = [\"^1.4.2\", \">= 2.0.1\"]\nunaffected = [\"< 1.1.0\"]";
        for (version, has) in [
            ("1.0.9", false),
            ("1.1.0", true),
            ("1.4.1", true),
            ("1.4.2", false),
            ("2.0.0", true),
            ("2.0.1", false),
        ] {
            let found =
                judge(&advisory("", ranges), "bad", &Version::parse(version).unwrap()).unwrap();
            assert_eq!(
                found.map(|one| one.to_string()),
                has.then(|| "RUSTSEC-2099-0001: It is bad".to_owned()),
                "{version}"
            );
        }
    }

    #[test]
    fn withdrawn_and_informational_advisories_are_not_reported() {
        let found = |more: &str| {
            judge(&advisory(more, "patched = []"), "bad", &Version::new(1, 0, 0)).unwrap().is_some()
        };
        assert!(found("") && found("informational = \"unsound\""));
        assert!(!found("withdrawn = \"2099-02-01\"") && !found("informational = \"unmaintained\""));
        assert!(judge("# no facts", "bad", &Version::new(1, 0, 0)).is_err());
        assert!(
            judge(&advisory("", "patched = [\"soon\"]"), "bad", &Version::new(1, 0, 0)).is_err()
        );
    }

    #[test]
    fn a_folder_without_advisories_is_not_a_database() {
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
