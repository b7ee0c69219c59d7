//! The licences of everything that is distributed, and the bill of materials.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skillhost_toolchain::{Error, Step};

use super::read_json;
use crate::machine::Architecture;
use crate::workspace;

/// Something that is in the artifacts.
struct Component {
    name: String,
    version: String,
    licence: String,
    /// `pkg:cargo/name@version`: <https://github.com/package-url/purl-spec>.
    purl: String,
    /// The folder with its licence files.
    folder: Option<PathBuf>,
}

/// Writes `LICENSES.txt` and `sbom.cdx.json` to a folder.
pub(super) fn write(
    root: &Path,
    architecture: Architecture,
    to: &Path,
    step: &Step,
) -> Result<(), Error> {
    let mut components = BTreeMap::new();
    let host = metadata(root, architecture.target(), step)?;
    add_crates(&host, &["skillhost-cli"], &mut components);
    for folder in workspace::guests(root) {
        let guests = metadata(&folder, skillhost_toolchain::TARGET, step)?;
        add_crates(&guests, &[], &mut components);
        let upstream = folder.join("upstream");
        if upstream.is_dir() {
            add_patched(&metadata(&upstream, skillhost_toolchain::TARGET, step)?, &mut components);
        }
    }
    // The C libraries of the Python runtime.
    let libraries = root.join("components/python/native/upstream");
    add_patched(&metadata(&libraries, skillhost_toolchain::TARGET, step)?, &mut components);
    add_python(root, &mut components)?;
    add_javascript(root, &mut components)?;
    let components: Vec<Component> = components.into_values().collect();
    super::write(&to.join("LICENSE"), &read(&root.join("LICENSE"))?)?;
    super::write(&to.join("LICENSES.txt"), licences(&components).as_bytes())?;
    let bill = bill(&components);
    super::write(&to.join("sbom.cdx.json"), format!("{bill:#}\n").as_bytes())
}

fn metadata(folder: &Path, target: &str, step: &Step) -> Result<Value, Error> {
    let mut cargo = workspace::cargo(folder);
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target]);
    serde_json::from_slice(&step.run(&mut cargo)?).map_err(Error::context("cargo metadata"))
}

/// Adds the crates that are linked into the packages `of`, or into any member of the workspace if
/// there are none: not those of tests and of build scripts.
fn add_crates(metadata: &Value, of: &[&str], components: &mut BTreeMap<String, Component>) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .filter_map(|package| Some((package["id"].as_str()?.to_owned(), package)))
        .collect();
    let nodes: BTreeMap<String, Value> = list(&metadata["resolve"]["nodes"])
        .into_iter()
        .filter_map(|node| Some((node["id"].as_str()?.to_owned(), node)))
        .collect();
    let mut open: Vec<String> = list(&metadata["workspace_members"])
        .iter()
        .filter_map(|id| id.as_str().map(str::to_owned))
        .filter(|id| {
            let name = packages.get(id).and_then(|package| package["name"].as_str());
            of.is_empty() || name.is_some_and(|name| of.contains(&name))
        })
        .collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        for dependency in nodes.get(&id).map(|node| list(&node["deps"])).unwrap_or_default() {
            let kinds = list(&dependency["dep_kinds"]);
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                open.extend(dependency["pkg"].as_str().map(str::to_owned));
            }
        }
    }
    for package in seen.iter().filter_map(|id| packages.get(id)) {
        // Our own crates are under the licence of the project.
        if package["source"].is_null() {
            continue;
        }
        add_crate(package, components);
    }
}

/// Adds the crates whose source a component contains with patches. They are the dependencies of the
/// workspace that pins them; their own dependencies are those of the component.
fn add_patched(metadata: &Value, components: &mut BTreeMap<String, Component>) {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let (own, others): (Vec<&Value>, Vec<&Value>) =
        packages.partition(|package| package["source"].is_null());
    let pinned: BTreeSet<&str> = own
        .into_iter()
        .filter_map(|package| package["dependencies"].as_array())
        .flatten()
        .filter_map(|dependency| dependency["name"].as_str())
        .collect();
    for package in others {
        if package["name"].as_str().is_some_and(|name| pinned.contains(name)) {
            add_crate(package, components);
        }
    }
}

fn add_crate(package: &Value, components: &mut BTreeMap<String, Component>) {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let (name, version) = (text("name"), text("version"));
    let purl = format!("pkg:cargo/{name}@{version}");
    let folder = Path::new(&text("manifest_path")).parent().map(Path::to_owned);
    let licence = text("license");
    components.insert(purl.clone(), Component { name, version, licence, purl, folder });
}

/// Adds CPython and the packages that come with it.
fn add_python(root: &Path, components: &mut BTreeMap<String, Component>) -> Result<(), Error> {
    let built = root.join("target/components");
    let python = read_json(&built.join("python.json"))?;
    let version = python["version"].as_str().unwrap_or_default().to_owned();
    let purl = format!("pkg:github/python/cpython@v{version}");
    let packages = built.join("python-packages");
    let typing_extensions = fs::read_dir(&packages)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.to_string_lossy().contains("/typing_extensions-"));
    components.insert(
        purl.clone(),
        Component {
            name: "cpython".into(),
            version,
            licence: "PSF-2.0".into(),
            purl,
            // typing_extensions is under the licence of CPython.
            folder: typing_extensions,
        },
    );
    for package in read_json(&built.join("python-packages.json"))?.as_array().into_iter().flatten()
    {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let (name, version) = (text("name"), text("version"));
        let info = format!("{}-{version}.dist-info", name.replace('-', "_"));
        // Packages of ours have the names of others, whose code they do not have.
        let kind = if version.ends_with("+skillhost") { "generic" } else { "pypi" };
        let purl = format!("pkg:{kind}/{}@{version}", name.to_lowercase());
        let licence = text("licence");
        let folder = Some(packages.join(info));
        components.insert(purl.clone(), Component { name, version, licence, purl, folder });
    }
    Ok(())
}

/// Adds the packages that come with the JavaScript runtime.
fn add_javascript(root: &Path, components: &mut BTreeMap<String, Component>) -> Result<(), Error> {
    let packages = root.join("target/components/javascript-packages");
    let list = read_json(&packages.with_extension("json"))?;
    for package in list.as_array().into_iter().flatten() {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let (name, version, licence) = (text("name"), text("version"), text("licence"));
        let purl = format!("pkg:npm/{}@{version}", name.replace('@', "%40"));
        let folder = Some(packages.join(text("path")));
        components.insert(purl.clone(), Component { name, version, licence, purl, folder });
    }
    Ok(())
}

/// The licences: each text once, after the names of what is under it.
fn licences(components: &[Component]) -> String {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut list = String::new();
    for component in components {
        let Component { name, version, licence, .. } = component;
        list += &format!("{name} {version}: {licence}\n");
        let mut files = Vec::new();
        if let Some(folder) = &component.folder {
            licence_files(folder, 2, &mut files);
        }
        files.sort();
        for file in files {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            texts.entry(text.trim().to_owned()).or_default().push(format!("{name} {version}"));
        }
    }
    let mut out = format!(
        "skillhost contains these programs and libraries. Their licences follow.\n\n{list}"
    );
    let mut texts: Vec<_> = texts.into_iter().map(|(text, users)| (users, text)).collect();
    texts.sort();
    for (mut users, text) in texts {
        users.dedup();
        let line = "-".repeat(80);
        out += &format!("\n{line}\n{}\n{line}\n\n{text}\n", users.join(", "));
    }
    out
}

/// Lists the licence files of a folder, and of its subfolders to a depth.
fn licence_files(folder: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let is_licence = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|start| name.starts_with(start));
        if path.is_dir() && is_licence && depth > 0 {
            // All files in a folder of this name are licences.
            let all = fs::read_dir(&path).into_iter().flatten();
            found.extend(all.filter_map(|entry| Some(entry.ok()?.path())).filter(|p| p.is_file()));
        } else if path.is_file() && is_licence {
            found.push(path);
        }
    }
}

/// The bill of materials: CycloneDX 1.6.
fn bill(components: &[Component]) -> Value {
    let listed: Vec<Value> = components
        .iter()
        .map(|component| {
            json!({
                "type": "library",
                "bom-ref": component.purl,
                "name": component.name,
                "version": component.version,
                "licenses": [licence(&component.licence)],
                "purl": component.purl,
            })
        })
        .collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "skillhost",
                "name": "skillhost",
                "version": env!("CARGO_PKG_VERSION"),
                "licenses": [{ "expression": "Apache-2.0" }],
            },
        },
        "components": listed,
    })
}

/// An SPDX expression, or the name of another licence.
fn licence(text: &str) -> Value {
    let text = text.replace('/', " OR ");
    let is_expression = text
        .split([' ', '(', ')'])
        .filter(|word| !word.is_empty())
        .enumerate()
        .all(|(at, word)| at % 2 == 0 || ["AND", "OR", "WITH"].contains(&word));
    match is_expression {
        true => json!({ "expression": text }),
        false => json!({ "license": { "name": text } }),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(Error::context(path.display()))
}
