//! Compiles crates to components.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Error, Step, TARGET, WasmToolchain};

/// A crate or workspace to build, with the settings of the build.
#[derive(Debug, Clone, Copy)]
pub struct Build<'a> {
    /// The folder of a crate or of a virtual workspace, of which all default members are built.
    pub dir: &'a Path,
    /// The cargo profile.
    pub profile: &'a str,
    /// The target folder of cargo.
    pub target_dir: &'a Path,
    /// Additional arguments of `cargo build`.
    pub args: &'a [String],
}

/// A component produced by a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// The name of the cargo target: that of the package or of the example.
    pub name: String,
    /// The folder of its package.
    pub package_dir: PathBuf,
    /// The path of the component.
    pub wasm: PathBuf,
}

impl WasmToolchain {
    /// Builds all components of a crate or workspace. Returns them in the order in which cargo
    /// finished them.
    ///
    /// For a library that is both a `cdylib` and a library for other crates, only the `cdylib` is
    /// built: when cargo builds both at once, it does not optimise across crates, despite the
    /// profile.
    ///
    /// # Errors
    /// Returns the messages of cargo and the compiler.
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
            // Messages on stdout are for programs, those on stderr for people.
            let for_people: Vec<_> = e.output.lines().filter(|l| !l.starts_with('{')).collect();
            Error::new(format!(
                "cannot build {}: {}\n{}",
                build.dir.display(),
                e.why,
                for_people.join("\n")
            ))
        })?;
        Ok(String::from_utf8_lossy(&messages).lines().filter_map(component).collect())
    }

    /// Returns the output of `cargo metadata` for a crate or workspace, without dependencies.
    pub(crate) fn metadata(&self, dir: &Path, step: &Step) -> Result<Value, Error> {
        let mut cargo = self.cargo();
        let metadata = step
            .run(cargo.current_dir(dir).args(["metadata", "--no-deps", "--format-version", "1"]))
            .map_err(Error::from)?;
        serde_json::from_slice(&metadata).map_err(Error::context("cargo metadata"))
    }
}

/// Returns the packages that `cargo build` builds in `dir`: the crate in that folder, else the
/// default members of the workspace.
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

/// Returns whether the library of a package is both a `cdylib` and a library for other crates.
fn is_both(package: &Value) -> bool {
    let types = |target: &Value| target["crate_types"].as_array().cloned().unwrap_or_default();
    let targets = package["targets"].as_array().map_or(&[][..], Vec::as_slice);
    targets.iter().map(types).any(|types| types.len() > 1 && types.iter().any(|t| t == "cdylib"))
}

/// Returns the component that a JSON message of cargo reports, if any. Skips cdylibs that are
/// dependencies.
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
    fn component_is_found_in_cargo_messages() {
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
    fn folder_selects_its_crate_or_the_default_members() {
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
    fn cdylib_alone_is_not_both() {
        let package = |types: &[&str]| serde_json::json!({"targets": [{"crate_types": ["bin"]}, {"crate_types": types}]});
        assert!(is_both(&package(&["cdylib", "rlib"])));
        assert!(is_both(&package(&["lib", "cdylib"])));
        assert!(!is_both(&package(&["cdylib"])));
        assert!(!is_both(&package(&["rlib", "dylib"])));
    }
}
