//! Compiles crates to components.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Error, Step, TARGET, WasmToolchain};

/// What to build, and where.
#[derive(Debug, Clone, Copy)]
pub struct Build<'a> {
    /// The folder of a crate, or of a workspace without a crate of its own, whose members are all
    /// built.
    pub dir: &'a Path,
    /// cargo's profile.
    pub profile: &'a str,
    /// Where cargo keeps what it builds.
    pub target_dir: &'a Path,
    /// More arguments for `cargo build`.
    pub args: &'a [String],
}

/// A component that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// The name of its cargo target: the package's name, or the example's.
    pub name: String,
    /// The folder of its package.
    pub package_dir: PathBuf,
    /// The file.
    pub wasm: PathBuf,
}

impl WasmToolchain {
    /// Builds every component of a crate or workspace, in the order in which cargo finished them.
    ///
    /// Of a library that is a component and a library for others, the component alone: cargo does
    /// not optimise across crates where it makes both at once, whatever the profile says.
    ///
    /// # Errors
    /// What cargo and the compiler say.
    pub fn build(&self, build: Build, step: &Step) -> Result<Vec<Component>, Error> {
        let packages = packages(&self.metadata(build.dir, step)?, build.dir);
        let (both, others): (Vec<_>, Vec<_>) =
            packages.iter().partition(|package| is_both(package));
        let mut built = Vec::new();
        if !others.is_empty() {
            built.extend(self.cargo_build("build", &others, &[], build, step)?);
        }
        for package in both {
            built.extend(self.cargo_build(
                "rustc",
                &[package],
                &["--lib", "--crate-type", "cdylib"],
                build,
                step,
            )?);
        }
        Ok(built)
    }

    fn cargo_build(
        &self,
        verb: &str,
        packages: &[&Value],
        args: &[&str],
        build: Build,
        step: &Step,
    ) -> Result<Vec<Component>, Error> {
        let mut cargo = self.cargo();
        cargo.current_dir(build.dir).args([verb, "--target", TARGET, "--profile", build.profile]);
        cargo
            .arg("--message-format=json-render-diagnostics")
            .arg("--target-dir")
            .arg(build.target_dir)
            .args(args)
            .args(build.args);
        for id in packages.iter().filter_map(|package| package["id"].as_str()) {
            cargo.args(["--package", id]);
        }
        if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
            cargo.args(["--color", "always"]);
        }
        let messages = step.run(&mut cargo).map_err(|e| {
            // cargo's messages for programs are on stdout, those for people on stderr.
            let people: Vec<_> = e.output.lines().filter(|l| !l.starts_with('{')).collect();
            Error::new(format!(
                "{} does not build: {}\n{}",
                build.dir.display(),
                e.why,
                people.join("\n")
            ))
        })?;
        Ok(String::from_utf8_lossy(&messages).lines().filter_map(component).collect())
    }

    /// What `cargo metadata` says of a crate or workspace, dependencies left out.
    pub(crate) fn metadata(&self, dir: &Path, step: &Step) -> Result<Value, Error> {
        let mut cargo = self.cargo();
        let metadata = step
            .run(cargo.current_dir(dir).args(["metadata", "--no-deps", "--format-version", "1"]))
            .map_err(Error::from)?;
        serde_json::from_slice(&metadata).map_err(Error::context("cargo metadata"))
    }
}

/// The packages that `cargo build` in `dir` builds: the crate that is there, or else the default
/// members of the workspace.
fn packages(metadata: &Value, dir: &Path) -> Vec<Value> {
    let all = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let here = |package: &&Value| {
        package["manifest_path"]
            .as_str()
            .map(Path::new)
            .and_then(Path::parent)
            .is_some_and(|at| is_same(at, dir))
    };
    let default = |package: &&Value| {
        metadata["workspace_default_members"]
            .as_array()
            .is_some_and(|ids| ids.contains(&package["id"]))
    };
    match all.iter().find(here) {
        Some(package) => vec![package.clone()],
        None => all.iter().filter(default).cloned().collect(),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    canonical(one) == canonical(other)
}

/// Whether its library is a component and something else besides.
fn is_both(package: &Value) -> bool {
    let types = |target: &Value| target["crate_types"].as_array().cloned().unwrap_or_default();
    let targets = package["targets"].as_array().map_or(&[][..], Vec::as_slice);
    targets.iter().map(types).any(|types| types.len() > 1 && types.iter().any(|t| t == "cdylib"))
}

/// The component that a line of cargo's JSON messages reports, if it reports one. Libraries of
/// others that are plug-ins too are none of ours.
fn component(message: &str) -> Option<Component> {
    let message: Value = serde_json::from_str(message).ok()?;
    message["package_id"].as_str().filter(|id| id.starts_with("path+"))?;
    let wasm = message["filenames"]
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .find(|f| f.ends_with(".wasm"))?;
    let target = &message["target"];
    let of_type = |name: &str| {
        target["crate_types"].as_array().is_some_and(|types| types.iter().any(|t| t == name))
    };
    if !of_type("cdylib") && !of_type("bin") {
        return None;
    }
    let package_dir = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    Some(Component {
        name: target["name"].as_str()?.replace('_', "-"),
        package_dir,
        wasm: wasm.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_of_a_cdylib_is_found_among_cargos_messages() {
        let message = r#"{"reason":"compiler-artifact","package_id":"path+file:///p#word_count@0.1.0","manifest_path":"/p/Cargo.toml","target":{"name":"word_count","crate_types":["cdylib","rlib"]},
            "filenames":["/t/libword_count.rlib","/t/word_count.wasm"]}"#;
        let expected = Component {
            name: "word-count".into(),
            package_dir: "/p".into(),
            wasm: "/t/word_count.wasm".into(),
        };
        assert_eq!(component(message), Some(expected));
        assert_eq!(component(&message.replace(".wasm", ".rmeta")), None);
        assert_eq!(component(&message.replace("cdylib", "proc-macro")), None);
        assert_eq!(
            component(&message.replace("path+file:///p", "registry+https://example.com/index")),
            None
        );
        assert_eq!(component("not JSON"), None);
    }

    #[test]
    fn cargo_builds_the_crate_of_a_folder_or_the_default_members() {
        let metadata = serde_json::json!({
            "packages": [{"id": "a", "manifest_path": "/w/a/Cargo.toml"}, {"id": "b", "manifest_path": "/w/b/Cargo.toml"}],
            "workspace_default_members": ["b"],
        });
        let ids = |dir| {
            packages(&metadata, Path::new(dir)).iter().map(|p| p["id"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(ids("/w/a"), ["a"]);
        assert_eq!(ids("/w"), ["b"]);
    }

    #[test]
    fn a_library_that_is_a_component_alone_is_not_both() {
        let package = |types: &[&str]| serde_json::json!({"targets": [{"crate_types": ["bin"]}, {"crate_types": types}]});
        assert!(is_both(&package(&["cdylib", "rlib"])));
        assert!(is_both(&package(&["lib", "cdylib"])));
        assert!(!is_both(&package(&["cdylib"])));
        assert!(!is_both(&package(&["rlib", "dylib"])));
    }
}
