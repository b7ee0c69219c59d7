//! Records in `target/xtask/passed.json` which checks passed, with the digests of their inputs. A
//! check is skipped until its inputs change. Files are read when the command starts, so a file that
//! changes during a run counts as changed in the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use skillhost_toolchain::{Error, files};

use crate::sources::{self, Sources};
use crate::workspace;

/// The files that every check depends on, besides the compiler's version.
const COMMON: [&str; 6] =
    ["Cargo.toml", "Cargo.lock", "clippy.toml", "rustfmt.toml", ".cargo/", "wit/"];

/// Folders of the Python runtime's sources, and of the program that transforms its image.
const PYTHON_RUNTIME: [&str; 2] = ["components/python/", "tools/image/"];

/// Folders of the JavaScript runtime's sources, of the other runtimes that its cases start, and of
/// the programs that transform their images.
const JAVASCRIPT_RUNTIME: [&str; 5] = [
    "components/javascript/",
    "components/python/",
    "components/shell/",
    "tools/image/",
    "tools/snapshot/",
];

/// The folders of guests.
const GUESTS: [&str; 4] = ["guests/", "guest-sdk/", "components/", "skills/"];

/// A check that can be skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Check {
    /// Lints of a workspace of guests, named by its folder.
    GuestLints(String),
    /// Native tests of a workspace of guests, named by its folder.
    GuestTests(String),
    /// All tests of a package of the root workspace.
    Package(String),
    /// Cases of the Python runtime, which the command `skillhost` runs.
    PythonCases,
    /// Cases of the JavaScript runtime, which the command `skillhost` runs.
    JavaScriptCases,
}

/// The checks that passed, and the inputs of this run.
pub(crate) struct PassedChecks {
    store: PathBuf,
    all: bool,
    digests: BTreeMap<String, String>,
    skipped: Vec<String>,
    inputs: Inputs,
}

impl PassedChecks {
    /// Reads the passed checks and the current inputs. With `all`, no check is skipped.
    pub(crate) fn load(root: &Path, all: bool) -> Result<PassedChecks, Error> {
        let store = root.join("target/xtask/passed.json");
        let digests = std::fs::read(&store)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        Ok(PassedChecks { store, all, digests, skipped: Vec::new(), inputs: Inputs::read(root)? })
    }

    /// Returns the names of the root workspace's packages.
    pub(crate) fn packages(&self) -> Vec<String> {
        self.inputs.packages.iter().map(|package| package.name.clone()).collect()
    }

    /// Returns whether cargo can run documentation tests of one of these packages: whether one has a
    /// library. Otherwise cargo reports an error.
    pub(crate) fn have_library(&self, names: &[String]) -> bool {
        self.inputs
            .packages
            .iter()
            .any(|package| package.has_library && names.contains(&package.name))
    }

    /// Returns whether a check must run: it never passed, or its inputs have changed since.
    pub(crate) fn must_run(&mut self, check: &Check) -> bool {
        let unchanged = self.digests.get(&check.to_string()) == Some(&self.inputs.digest(check));
        if unchanged && !self.all {
            self.skipped.push(check.to_string());
            return false;
        }
        true
    }

    /// Records that a check passed.
    pub(crate) fn record_pass(&mut self, check: &Check) -> Result<(), Error> {
        self.digests.insert(check.to_string(), self.inputs.digest(check));
        let text = serde_json::to_vec_pretty(&self.digests)
            .map_err(Error::context(self.store.display()))?;
        files::write_if_changed(&self.store, &text).map(drop)
    }

    /// Returns the skipped checks.
    pub(crate) fn skipped(&self) -> &[String] {
        &self.skipped
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::GuestLints(dir) => write!(f, "lints of {dir}"),
            Check::GuestTests(dir) => write!(f, "native tests of {dir}"),
            Check::Package(name) => write!(f, "tests of {name}"),
            Check::PythonCases => f.write_str("cases of the Python runtime"),
            Check::JavaScriptCases => f.write_str("cases of the JavaScript runtime"),
        }
    }
}

/// The repository's files, and the packages of the root workspace.
struct Inputs {
    sources: Sources,
    packages: Vec<Package>,
}

/// A package of the root workspace.
#[derive(Debug)]
struct Package {
    name: String,
    /// Its folder, relative to the repository, with a slash at the end.
    dir: String,
    /// Names of the packages that it or its tests depend on.
    dependencies: BTreeSet<String>,
    /// Whether it has tests outside its folder. Such tests may read any file of the repository,
    /// except the sources of packages that it does not depend on.
    reads_repository: bool,
    /// Whether it has a library.
    has_library: bool,
}

impl Inputs {
    fn read(root: &Path) -> Result<Inputs, Error> {
        Ok(Inputs { sources: Sources::read(root)?, packages: packages(root)? })
    }

    fn digest(&self, check: &Check) -> String {
        self.sources.digest(|path| {
            COMMON.iter().any(|common| path.starts_with(common)) || self.reads(check, path)
        })
    }

    /// Checks whether a file is among the inputs of a check.
    fn reads(&self, check: &Check, path: &str) -> bool {
        match check {
            Check::GuestLints(_) | Check::GuestTests(_) => {
                GUESTS.iter().any(|folder| path.starts_with(folder))
            }
            Check::Package(name) => self.package_reads(name, path),
            // The command that runs them has tests of its own.
            Check::PythonCases => {
                PYTHON_RUNTIME.iter().any(|folder| path.starts_with(folder))
                    || self.package_reads("skillhost", path)
            }
            Check::JavaScriptCases => {
                JAVASCRIPT_RUNTIME.iter().any(|folder| path.starts_with(folder))
                    || self.package_reads("skillhost", path)
            }
        }
    }

    fn package_reads(&self, name: &str, path: &str) -> bool {
        let closure = self.closure(name);
        match self.packages.iter().find(|package| path.starts_with(&package.dir)) {
            Some(owner) => closure.contains(owner.name.as_str()),
            None => self.packages.iter().any(|p| p.name == name && p.reads_repository),
        }
    }

    /// Returns a package and its direct and indirect dependencies.
    fn closure(&self, name: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut pending = vec![name.to_owned()];
        while let Some(name) = pending.pop() {
            let Some(package) = self.packages.iter().find(|package| package.name == name) else {
                continue;
            };
            if found.insert(package.name.as_str()) {
                pending.extend(package.dependencies.iter().cloned());
            }
        }
        found
    }
}

/// The fields of `cargo metadata` that this module reads.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

fn packages(root: &Path) -> Result<Vec<Package>, Error> {
    let mut cargo = workspace::cargo(root);
    let text = sources::output(cargo.args([
        "metadata",
        "--no-deps",
        "--locked",
        "--format-version",
        "1",
    ]))?;
    let metadata: Metadata =
        serde_json::from_str(&text).map_err(Error::context("cargo metadata"))?;
    let package = |described: MetadataPackage| {
        let dir = described.manifest_path.parent().unwrap_or(root).to_owned();
        let is_outside = |target: &Target| {
            target.kind.iter().any(|kind| kind == "test") && !target.src_path.starts_with(&dir)
        };
        Package {
            reads_repository: described.targets.iter().any(is_outside),
            has_library: described
                .targets
                .iter()
                .any(|target| target.kind.iter().any(|kind| kind == "lib" || kind == "proc-macro")),
            name: described.name,
            dir: format!("{}/", workspace::name(root, &dir)),
            dependencies: described
                .dependencies
                .into_iter()
                .filter_map(|dependency| dependency.path.map(|_| dependency.name))
                .collect(),
        }
    };
    Ok(metadata.packages.into_iter().map(package).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[&str], reads_repository: bool) -> Package {
        Package {
            name: name.into(),
            dir: format!("host/{name}/"),
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
            reads_repository,
            has_library: true,
        }
    }

    fn inputs() -> Inputs {
        let files = ["Cargo.lock", "README.md", "guest-sdk/a.rs", "host/policy/a.rs"];
        let files = files.into_iter().chain(["host/cli/a.rs", "host/server/a.rs", "skills/x/a.rs"]);
        Inputs {
            sources: Sources::of("1", files.map(|path| (path, "old"))),
            packages: vec![
                package("policy", &[], false),
                package("server", &["policy"], false),
                package("cli", &["server", "unknown"], true),
                package("tests", &["policy"], true),
            ],
        }
    }

    /// Returns the names of the checks whose digest depends on a file.
    fn affected(path: &str) -> Vec<String> {
        let (before, mut after) = (inputs(), inputs());
        after.sources.change(path);
        let packages = ["policy", "server", "cli", "tests"].map(|n| Check::Package(n.into()));
        let guests = [Check::GuestLints("guests".into()), Check::GuestTests("guests".into())];
        let all = packages.into_iter().chain(guests);
        let changed = all.filter(|check| before.digest(check) != after.digest(check));
        changed.map(|check| check.to_string()).collect()
    }

    #[test]
    fn a_change_affects_the_crate_and_its_dependents() {
        assert_eq!(
            affected("host/policy/a.rs"),
            ["tests of policy", "tests of server", "tests of cli", "tests of tests"]
        );
        assert_eq!(affected("host/server/a.rs"), ["tests of server", "tests of cli"]);
        assert_eq!(affected("host/cli/a.rs"), ["tests of cli"]);
    }

    #[test]
    fn other_files_affect_tests_that_read_the_repository() {
        assert_eq!(affected("README.md"), ["tests of cli", "tests of tests"]);
        let skills =
            ["tests of cli", "tests of tests", "lints of guests", "native tests of guests"];
        assert_eq!(affected("skills/x/a.rs"), skills);
        assert_eq!(affected("Cargo.lock").len(), 6);
    }

    #[test]
    fn a_new_file_is_a_change() {
        assert_eq!(affected("host/cli/new.rs"), ["tests of cli"]);
    }

    #[test]
    fn programs_have_no_library() {
        let packages = packages(&workspace::root()).unwrap();
        let has_library =
            |name: &str| packages.iter().find(|package| package.name == name).unwrap().has_library;
        assert!(!has_library("skillhost-cli") && !has_library("xtask"));
        assert!(has_library("skillhost-policy"));
    }

    #[test]
    fn a_passed_check_is_skipped_until_its_inputs_change() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("passed.json");
        let load = |all, inputs| PassedChecks {
            digests: std::fs::read(&store)
                .map(|text| serde_json::from_slice(&text).unwrap())
                .unwrap_or_default(),
            store: store.clone(),
            all,
            skipped: Vec::new(),
            inputs,
        };
        let check = Check::Package("policy".into());
        let mut first = load(false, inputs());
        assert!(first.must_run(&check));
        first.record_pass(&check).unwrap();
        let mut second = load(false, inputs());
        assert!(!second.must_run(&check));
        assert_eq!(second.skipped(), ["tests of policy"]);
        assert!(load(true, inputs()).must_run(&check));
        let mut changed = inputs();
        changed.sources.change("host/policy/a.rs");
        assert!(load(false, changed).must_run(&check));
    }
}
