//! Builds the component of a skill whose folder is a crate.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sdk::{self, Sdk};
use crate::{Build, Error, Step, TARGET, WasmToolchain, files};

/// A skill's cargo configuration with the paths of the SDK and of the target folder on this machine,
/// for plain cargo and editors. It does not belong in version control.
pub const SDK_CONFIG: &str = ".cargo/skillhost-sdk.toml";

/// Builds the skill in `dir` in release mode and copies its component to `dir/component`, where
/// `component` is a path in the skill as in `metadata.component` of its SKILL.md. The default is
/// the package's name with `.wasm`. Returns the path of the copy.
///
/// Build output, and the SDK if the crate takes it from the registry, are stored below `cache` and
/// shared by all skills: a skill's folder stays small, and the next skill builds quickly.
///
/// # Errors
/// Returns an error if the folder is not a crate, does not compile, or does not produce exactly one
/// component.
pub fn build(
    dir: &Path,
    component: Option<&str>,
    toolchain: &WasmToolchain,
    cache: &Path,
    step: &Step,
) -> Result<PathBuf, Error> {
    if !dir.join("Cargo.toml").is_file() {
        let what =
            format!("{} has no Cargo.toml: not a Rust skill, nothing to build", dir.display());
        return Err(Error::new(what).help("create one with `skillhost new NAME --lang rust`"));
    }
    if let Some(path) = component.filter(|c| {
        !Path::new(c).components().all(|c| matches!(c, std::path::Component::Normal(_)))
    }) {
        return Err(Error::new(format!("the component {path:?} is outside the skill"))
            .help("use a path inside the skill's folder"));
    }
    let cache = std::path::absolute(cache).map_err(Error::context(cache.display()))?;
    let target_dir = sdk::target_dir(&cache);
    let mut args = Vec::new();
    if uses_sdk_from_registry(dir, toolchain, step)? {
        let sdk = sdk::unpack(&cache)?;
        point_to(dir, &sdk)?;
        args.extend(["--config".to_owned(), sdk_config(dir)?]);
    }
    // Skills of the same name share the path of the built file, so other builds wait until it is
    // copied.
    let _lock = files::lock(&cache.join("target.lock"))?;
    let built = toolchain
        .build(Build { dir, profile: "release", target_dir: &target_dir, args: &args }, step)?;
    let [one] = built.as_slice() else {
        let names: Vec<_> = built.iter().map(|c| c.name.as_str()).collect();
        let what = format!(
            "{} produces {} components for {TARGET} ({}) instead of one",
            dir.display(),
            names.len(),
            names.join(", ")
        );
        return Err(Error::new(what)
            .help("declare one `[lib]` with `crate-type = [\"cdylib\"]` in Cargo.toml"));
    };
    let to = dir.join(component.map_or_else(|| format!("{}.wasm", one.name), str::to_owned));
    files::copy_if_changed(&one.wasm, &to)?;
    Ok(to)
}

/// Writes [`SDK_CONFIG`] into a skill.
///
/// # Errors
/// Returns an error if the skill's folder cannot be written.
pub fn point_to(dir: &Path, sdk: &Sdk) -> Result<(), Error> {
    files::write_if_changed(&dir.join(SDK_CONFIG), sdk.config.as_bytes()).map(drop)
}

fn sdk_config(dir: &Path) -> Result<String, Error> {
    let path = std::path::absolute(dir.join(SDK_CONFIG)).map_err(Error::context(dir.display()))?;
    Ok(path.to_string_lossy().into_owned())
}

/// Returns whether the manifest names the SDK by version alone. If it names a path or a git
/// repository, the author chose that, and it is used.
fn uses_sdk_from_registry(
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
