//! The npm packages: one with the program and its files for each platform, and one that starts it.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::archive::{Archive, gzip};
use crate::error::Error;
use crate::manifest::{ANY, Artifact, Kind};
use crate::tree::Tree;
use crate::{Architecture, NAME, Release, SUMMARY};

/// Starts the program of the platform's package, and ends as it ends.
const START: &str = include_str!("start.js");

/// Writes the package with the program for a platform.
pub(crate) fn write(
    tree: &Tree,
    release: &Release,
    architecture: &Architecture,
    out: &Path,
) -> Result<Artifact, Error> {
    let name = platform(architecture);
    let about = about(&name, release, json!({ "os": ["linux"], "cpu": [architecture.npm] }));
    let mut archive = Archive::new(Vec::new(), release.time);
    archive.add_bytes("package/package.json", 0o644, about.as_bytes())?;
    archive.add_tree(tree, "package/")?;
    let packed = gzip(&archive.finish()?)?;
    let file = format!("{name}-{}.tgz", release.version);
    Artifact::write(Kind::NpmPlatform, architecture.machine, &file, &packed, out)
}

/// Writes the package that starts the program of the platform's package.
pub(crate) fn write_starter(
    release: &Release,
    architectures: &[Architecture],
    out: &Path,
) -> Result<Artifact, Error> {
    let platforms: Map<String, Value> = architectures
        .iter()
        .map(|architecture| (platform(architecture), release.version.as_str().into()))
        .collect();
    let more = json!({
        "bin": { NAME: "start.js" },
        "engines": { "node": ">=18" },
        "optionalDependencies": platforms,
    });
    let mut archive = Archive::new(Vec::new(), release.time);
    archive.add_bytes("package/package.json", 0o644, about(NAME, release, more).as_bytes())?;
    archive.add_bytes("package/start.js", 0o755, START.as_bytes())?;
    let packed = gzip(&archive.finish()?)?;
    let file = format!("{NAME}-{}.tgz", release.version);
    Artifact::write(Kind::Npm, ANY, &file, &packed, out)
}

/// The name of a platform's package.
fn platform(architecture: &Architecture) -> String {
    format!("{NAME}-linux-{}", architecture.npm)
}

/// Returns the text of `package.json`: what all packages state, and `more`.
fn about(name: &str, release: &Release, more: Value) -> String {
    let mut about = json!({
        "name": name,
        "version": release.version,
        "description": SUMMARY,
        "license": "Apache-2.0",
    });
    if let (Some(about), Value::Object(more)) = (about.as_object_mut(), more) {
        about.extend(more);
    }
    format!("{about:#}\n")
}
