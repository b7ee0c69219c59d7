//! Builds the component of a skill whose folder is a crate.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sdk::{self, Sdk};
use crate::{Build, Error, Step, TARGET, WasmToolchain, files};

/// Where a skill's own cargo configuration looks for the SDK of this machine, so that plain cargo
/// and editors find it. Not for version control.
pub const SDK_CONFIG: &str = ".cargo/skillhost-sdk.toml";

/// Builds the skill in `dir` in release mode and copies its component to `dir/component`, a path
/// within the skill as `metadata.component` of its SKILL.md says; the package's name with `.wasm`
/// where it says nothing. Returns the path of the copy.
///
/// What is built in between, and the SDK if the crate takes it from the registry, lie below `cache`
/// and are shared by all skills: a skill's folder stays small, and a second skill builds quickly.
///
/// # Errors
/// Where the folder is no crate, makes no component or several, or does not compile.
pub fn build(
    dir: &Path,
    component: Option<&str>,
    toolchain: &WasmToolchain,
    cache: &Path,
    step: &Step,
) -> Result<PathBuf, Error> {
    if !dir.join("Cargo.toml").is_file() {
        let what = format!(
            "{} has no Cargo.toml: it is no Rust skill, there is nothing to build",
            dir.display()
        );
        return Err(Error::new(what).help("`skillhost new NAME --lang rust` makes one"));
    }
    if let Some(path) = component.filter(|c| {
        !Path::new(c).components().all(|c| matches!(c, std::path::Component::Normal(_)))
    }) {
        return Err(Error::new(format!("the component {path:?} lies outside of the skill"))
            .help("name a file within the skill's folder"));
    }
    let cache = std::path::absolute(cache).map_err(Error::context(cache.display()))?;
    let target_dir = cache.join("target");
    let mut args = Vec::new();
    if takes_sdk_from_registry(dir, toolchain, step)? {
        let sdk = sdk::unpack(&cache)?;
        point_to(dir, &sdk)?;
        args.extend(["--config".to_owned(), sdk_config(dir)?]);
    }
    // Skills of the same name share the path of what cargo builds, so nobody else builds until it
    // is copied.
    let _lock = files::lock(&cache.join("target.lock"))?;
    let built = toolchain
        .build(Build { dir, profile: "release", target_dir: &target_dir, args: &args }, step)?;
    let [one] = built.as_slice() else {
        let names: Vec<_> = built.iter().map(|c| c.name.as_str()).collect();
        let what = format!(
            "{} makes {} components for {TARGET} ({}), not one",
            dir.display(),
            names.len(),
            names.join(", ")
        );
        return Err(Error::new(what)
            .help("`[lib]` with `crate-type = [\"cdylib\"]` in Cargo.toml makes the one"));
    };
    let to = dir.join(component.map_or_else(|| format!("{}.wasm", one.name), str::to_owned));
    files::copy_if_changed(&one.wasm, &to)?;
    Ok(to)
}

/// Writes [`SDK_CONFIG`] into a skill.
///
/// # Errors
/// Where the skill's folder cannot be written.
pub fn point_to(dir: &Path, sdk: &Sdk) -> Result<(), Error> {
    files::write_if_changed(&dir.join(SDK_CONFIG), sdk.patch.as_bytes()).map(drop)
}

fn sdk_config(dir: &Path) -> Result<String, Error> {
    let path = std::path::absolute(dir.join(SDK_CONFIG)).map_err(Error::context(dir.display()))?;
    Ok(path.to_string_lossy().into_owned())
}

/// The manifest names the SDK by version alone; a path or a git repository is the author's choice,
/// and stays.
fn takes_sdk_from_registry(
    dir: &Path,
    toolchain: &WasmToolchain,
    step: &Step,
) -> Result<bool, Error> {
    let metadata = toolchain.metadata(dir, step)?;
    let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let dependencies =
        each(&metadata["packages"]).into_iter().flat_map(|p| each(&p["dependencies"]));
    Ok(dependencies.into_iter().any(|d| {
        d["name"] == sdk::CRATE && d["source"].as_str().is_some_and(|s| s.starts_with("registry+"))
    }))
}
