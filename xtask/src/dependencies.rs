//! Checks every lock file of the repository against `deny.toml`. Licences, bans and sources are
//! always checked, advisories only with a copy of the RustSec database.
//!
//! `deny.toml` has the format of `cargo deny`, but that program is not needed. Every key that this
//! module reads is enforced, and an unknown key is an error.

mod advisories;
mod licence;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use skillhost_toolchain::{Error, Progress, Step};

use crate::{print_line, workspace};
use advisories::Database;

/// The only registry that dependencies may come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// `deny.toml`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Rules {
    graph: Graph,
    licenses: Licences,
    bans: Bans,
    advisories: Ignored,
    /// Always enforced, so each key accepts only one value.
    #[serde(rename = "sources")]
    _sources: Sources,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Licences {
    allow: Vec<String>,
    #[serde(rename = "unused-allowed-license")]
    _unused: Allowed,
    exceptions: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
    /// Crates whose tests may use it.
    #[serde(default)]
    wrappers: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ignored {
    ignore: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Sources {
    #[serde(rename = "unknown-registry")]
    _registry: Denied,
    #[serde(rename = "unknown-git")]
    _git: Denied,
}

/// The only value that this check implements.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Denied {
    Deny,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Allowed {
    Allow,
}

/// `Cargo.lock`.
#[derive(Debug, Deserialize)]
struct Lock {
    #[serde(default)]
    package: Vec<Locked>,
}

#[derive(Debug, Deserialize)]
struct Locked {
    name: String,
    version: String,
    source: Option<String>,
}

/// Checks every lock file, and the advisories if `db` is given.
///
/// # Errors
/// Lists everything that the rules do not allow.
pub(crate) fn check(root: &Path, db: Option<&Path>, progress: &Progress) -> Result<(), Error> {
    let rules: Rules = read(&root.join("deny.toml"))?;
    let mut locks = Vec::new();
    find_locks(root, &mut locks)?;
    locks.sort();
    progress.step("licences, bans and sources of the dependencies", |step| {
        let mut problems = Vec::new();
        for lock in &locks {
            let name = lock.strip_prefix(root).unwrap_or(lock).display().to_string();
            let found = sources(&read::<Lock>(lock)?)
                .into_iter()
                .chain(graph_problems(&rules, &metadata(lock, &rules, step)?));
            problems.extend(found.map(|problem| format!("{name}: {problem}")));
        }
        fail(&problems, "deny.toml lists what is allowed, with the reasons")
    })?;
    let Some(db) = db else {
        print_line(
            "advisories: NOT CHECKED; to check them, pass a copy of the RustSec advisory database as `--db DIR`",
        );
        return Ok(());
    };
    progress.step("advisories on the dependencies", |_| {
        let database = Database::open(db)?;
        let mut problems = Vec::new();
        for lock in &locks {
            let name = lock.strip_prefix(root).unwrap_or(lock).display().to_string();
            for package in
                read::<Lock>(lock)?.package.iter().filter(|package| package.source.is_some())
            {
                let found = database
                    .find(&package.name, &package.version)?
                    .into_iter()
                    .filter(|a| !rules.advisories.ignore.contains(&a.id));
                problems.extend(found.map(|advisory| {
                    format!("{name}: {} {}: {advisory}", package.name, package.version)
                }));
            }
        }
        fail(
            &problems,
            "update the crate, or add the advisory to `ignore` in deny.toml, with a reason",
        )
    })
}

fn fail(problems: &[String], help: &str) -> Result<(), Error> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::new(problems.join("\n")).help(help.to_owned()))
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = std::fs::read_to_string(path).map_err(Error::context(path.display()))?;
    toml::from_str(&text).map_err(Error::context(path.display()))
}

/// Finds the lock files below a folder, except in build output and hidden folders.
fn find_locks(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    for entry in std::fs::read_dir(folder).map_err(Error::context(folder.display()))? {
        let entry = entry.map_err(Error::context(folder.display()))?;
        let name = entry.file_name();
        let is_folder = entry.file_type().map_err(Error::context(folder.display()))?.is_dir();
        if is_folder && name != "target" && !name.to_string_lossy().starts_with('.') {
            find_locks(&entry.path(), found)?;
        } else if name == "Cargo.lock" && entry.path().with_file_name("Cargo.toml").is_file() {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// Returns a problem for each package that comes from neither the registry nor this repository.
fn sources(lock: &Lock) -> Vec<String> {
    let foreign = lock.package.iter().filter_map(|package| {
        Some((package, package.source.as_deref().filter(|source| *source != REGISTRY)?))
    });
    foreign
        .map(|(package, source)| {
            format!("{} {} comes from {source}", package.name, package.version)
        })
        .collect()
}

/// Returns the output of `cargo metadata` for a workspace and the targets that are shipped.
fn metadata(lock: &Path, rules: &Rules, step: &Step) -> Result<Value, Error> {
    let mut cargo = workspace::cargo(lock.parent().unwrap_or(lock));
    cargo.args(["metadata", "--format-version", "1", "--locked"]);
    for target in &rules.graph.targets {
        cargo.args(["--filter-platform", target]);
    }
    serde_json::from_slice(&step.run(&mut cargo)?).map_err(Error::context("cargo metadata"))
}

/// Checks the licences of the packages in the dependency graph, and the bans.
fn graph_problems(rules: &Rules, metadata: &Value) -> Vec<String> {
    let none = Vec::new();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap_or(&none);
    let used: BTreeSet<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    let packages = metadata["packages"].as_array().unwrap_or(&none);
    let packages: BTreeMap<&str, &Value> = packages
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .filter(|(id, _)| used.contains(id))
        .collect();
    let name = |id: &str| {
        packages.get(id).and_then(|package| package["name"].as_str()).unwrap_or_default().to_owned()
    };
    let mut problems = Vec::new();
    if packages.is_empty() {
        problems.push("`cargo metadata` lists no packages".into());
    }
    for (id, package) in &packages {
        problems.extend(licence_problem(rules, &name(id), package["license"].as_str()));
    }
    for node in nodes {
        let dependent = name(node["id"].as_str().unwrap_or_default());
        for dependency in node["deps"].as_array().unwrap_or(&none) {
            let used = name(dependency["pkg"].as_str().unwrap_or_default());
            let kinds = dependency["dep_kinds"].as_array().unwrap_or(&none);
            let in_tests = !kinds.is_empty() && kinds.iter().all(|kind| kind["kind"] == "dev");
            let bans =
                rules.bans.deny.iter().filter(|ban| {
                    ban.name == used && !(in_tests && ban.wrappers.contains(&dependent))
                });
            problems.extend(
                bans.map(|ban| format!("{dependent} uses {used}, which is banned: {}", ban.reason)),
            );
        }
    }
    problems
}

fn licence_problem(rules: &Rules, name: &str, licence: Option<&str>) -> Option<String> {
    let Some(licence) = licence else { return Some(format!("{name} declares no licence")) };
    let exceptions = rules
        .licenses
        .exceptions
        .iter()
        .filter(|exception| exception.name == name)
        .flat_map(|exception| &exception.allow);
    let allowed: BTreeSet<&str> =
        rules.licenses.allow.iter().chain(exceptions).map(String::as_str).collect();
    match licence::is_satisfied(licence, &allowed) {
        Some(true) => None,
        Some(false) => Some(format!("the licence of {name} is not allowed: {licence}")),
        None => Some(format!("the licence of {name} cannot be parsed: {licence}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        toml::from_str(
            "
            graph = { targets = [\"wasm32-unknown-unknown\"] }
            licenses = { allow = [\"MIT\"], unused-allowed-license = \"allow\", exceptions = [{ crate = \"special\", allow = [\"ISC\"] }] }
            bans = { deny = [{ crate = \"bad\", reason = \"it is\", wrappers = [\"host\"] }] }
            advisories = { ignore = [] }
            sources = { unknown-registry = \"deny\", unknown-git = \"deny\" }
            ",
        )
        .unwrap()
    }

    /// Returns `cargo metadata` for packages, as (name, licence), and dependencies, as (dependent,
    /// package, kind).
    fn graph(packages: &[(&str, Option<&str>)], uses: &[(&str, &str, Option<&str>)]) -> Value {
        let deps = |user: &str| -> Vec<Value> {
            let own = uses.iter().filter(|(one, ..)| *one == user);
            own.map(|(_, used, kind)| serde_json::json!({ "pkg": used, "dep_kinds": [{ "kind": kind }] })).collect()
        };
        let nodes: Vec<Value> = packages
            .iter()
            .map(|(name, _)| serde_json::json!({ "id": name, "deps": deps(name) }))
            .collect();
        let packages: Vec<Value> =
            packages.iter().map(|(name, licence)| serde_json::json!({ "id": name, "name": name, "license": licence })).collect();
        serde_json::json!({ "packages": packages, "resolve": { "nodes": nodes } })
    }

    #[test]
    fn missing_invalid_and_disallowed_licences_are_problems() {
        let problems =
            |name, licence| graph_problems(&rules(), &graph(&[(name, licence)], &[])).len();
        assert_eq!(
            [
                problems("a", Some("MIT")),
                problems("a", Some("ISC")),
                problems("a", None),
                problems("a", Some("MIT AND"))
            ],
            [0, 1, 1, 1]
        );
        assert_eq!(problems("special", Some("ISC")), 0);
        assert_eq!(
            graph_problems(&rules(), &graph(&[], &[])).len(),
            1,
            "an empty graph is a problem"
        );
    }

    #[test]
    fn banned_crate_is_allowed_only_in_tests_of_its_wrappers() {
        let packages = [("host", Some("MIT")), ("other", Some("MIT")), ("bad", Some("MIT"))];
        for (user, kind, problems) in [
            ("host", Some("dev"), 0),
            ("host", None, 1),
            ("host", Some("build"), 1),
            ("other", Some("dev"), 1),
            ("other", None, 1),
        ] {
            assert_eq!(
                graph_problems(&rules(), &graph(&packages, &[(user, "bad", kind)])).len(),
                problems,
                "{user} {kind:?}"
            );
        }
    }

    #[test]
    fn sources_other_than_the_registry_are_problems() {
        let lock = |source: &str| -> Lock {
            toml::from_str(&format!("[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n{source}"))
                .unwrap()
        };
        assert_eq!(sources(&lock("")).len(), 0);
        assert_eq!(sources(&lock(&format!("source = \"{REGISTRY}\""))).len(), 0);
        assert_eq!(sources(&lock("source = \"git+https://example.com/a#0\"")).len(), 1);
        assert_eq!(sources(&lock("source = \"registry+https://example.com/index\"")).len(), 1);
    }

    #[test]
    fn rules_are_parsed_and_lock_files_are_found() {
        let root = workspace::root();
        let rules: Rules = read(&root.join("deny.toml")).unwrap();
        assert!(!rules.licenses.allow.is_empty() && !rules.bans.deny.is_empty());
        let mut locks = Vec::new();
        find_locks(&root, &mut locks).unwrap();
        for folder in ["", "guests", "components/shell", "components/shell/upstream"] {
            assert!(locks.contains(&root.join(folder).join("Cargo.lock")), "{folder}");
        }
        assert!(toml::from_str::<Rules>("unknown = 1").is_err());
    }
}
