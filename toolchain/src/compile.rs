//! Compiles crates to components.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Error, Step, TARGET, WasmToolchain};

/// What to build, and where.
#[derive(Debug, Clone, Copy)]
pub struct Build<'a> {
    /// The folder of a crate, or of a workspace without a crate of its own, whose members are all built.
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
    /// # Errors
    /// What cargo and the compiler say.
    pub fn build(&self, build: Build, step: &Step) -> Result<Vec<Component>, Error> {
        let mut cargo = self.cargo();
        cargo.current_dir(build.dir).args([
            "build",
            "--target",
            TARGET,
            "--profile",
            build.profile,
            "--message-format=json-render-diagnostics",
        ]);
        cargo.arg("--target-dir").arg(build.target_dir).args(build.args);
        if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
            cargo.args(["--color", "always"]);
        }
        let messages = step.run(&mut cargo).map_err(|e| {
            // cargo's messages for programs are on stdout, those for people on stderr.
            let people: Vec<_> = e.output.lines().filter(|l| !l.starts_with('{')).collect();
            Error::new(format!("{} does not build: {}\n{}", build.dir.display(), e.why, people.join("\n")))
        })?;
        Ok(String::from_utf8_lossy(&messages).lines().filter_map(component).collect())
    }
}

/// The component that a line of cargo's JSON messages reports, if it reports one. Libraries of others that are plug-ins too are none of ours.
fn component(message: &str) -> Option<Component> {
    let message: Value = serde_json::from_str(message).ok()?;
    message["package_id"].as_str().filter(|id| id.starts_with("path+"))?;
    let wasm = message["filenames"].as_array()?.iter().filter_map(Value::as_str).find(|f| f.ends_with(".wasm"))?;
    let target = &message["target"];
    let of_type = |name: &str| target["crate_types"].as_array().is_some_and(|types| types.iter().any(|t| t == name));
    if !of_type("cdylib") && !of_type("bin") {
        return None;
    }
    let package_dir = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    Some(Component { name: target["name"].as_str()?.replace('_', "-"), package_dir, wasm: wasm.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_of_a_cdylib_is_found_among_cargos_messages() {
        let message = r#"{"reason":"compiler-artifact","package_id":"path+file:///p#word_count@0.1.0","manifest_path":"/p/Cargo.toml","target":{"name":"word_count","crate_types":["cdylib","rlib"]},
            "filenames":["/t/libword_count.rlib","/t/word_count.wasm"]}"#;
        let expected = Component { name: "word-count".into(), package_dir: "/p".into(), wasm: "/t/word_count.wasm".into() };
        assert_eq!(component(message), Some(expected));
        assert_eq!(component(&message.replace(".wasm", ".rmeta")), None);
        assert_eq!(component(&message.replace("cdylib", "proc-macro")), None);
        assert_eq!(component(&message.replace("path+file:///p", "registry+https://example.com/index")), None);
        assert_eq!(component("not JSON"), None);
    }
}
