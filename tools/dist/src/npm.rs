//! The npm packages: one with the program and its files for this platform, and one that starts it.

use std::path::Path;

use serde_json::{Value, json};

use crate::archive::{Archive, gzip};
use crate::error::Error;
use crate::manifest::{Artifact, Kind};
use crate::tree::Tree;
use crate::{NAME, Release, SUMMARY};

/// Starts the program of the platform's package, and ends as it ends.
const START: &str = include_str!("start.js");

pub(crate) fn write(tree: &Tree, release: &Release, out: &Path) -> Result<Vec<Artifact>, Error> {
    let cpu = release.architecture.npm;
    let platform = format!("{NAME}-linux-{cpu}");
    let version = &release.version;
    let about = |name: &str| {
        json!({
            "name": name,
            "version": version,
            "description": SUMMARY,
            "license": "Apache-2.0",
        })
    };
    let with = |mut about: Value, more: Value| {
        if let (Some(about), Value::Object(more)) = (about.as_object_mut(), more) {
            about.extend(more);
        }
        format!("{about:#}\n")
    };
    let of_platform = with(about(&platform), json!({ "os": ["linux"], "cpu": [cpu] }));
    let starter = with(
        about(NAME),
        json!({
            "bin": { NAME: "start.js" },
            "engines": { "node": ">=18" },
            "optionalDependencies": { &platform: version },
        }),
    );

    let mut archive = Archive::new(Vec::new(), release.time);
    archive.add_bytes("package/package.json", 0o644, of_platform.as_bytes())?;
    archive.add_tree(tree, "package/")?;
    let packed = gzip(&archive.finish()?)?;
    let platform =
        Artifact::write(Kind::NpmPlatform, &format!("{platform}-{version}.tgz"), &packed, out)?;

    let mut archive = Archive::new(Vec::new(), release.time);
    archive.add_bytes("package/package.json", 0o644, starter.as_bytes())?;
    archive.add_bytes("package/start.js", 0o755, START.as_bytes())?;
    let packed = gzip(&archive.finish()?)?;
    let starter = Artifact::write(Kind::Npm, &format!("{NAME}-{version}.tgz"), &packed, out)?;
    Ok(vec![starter, platform])
}
