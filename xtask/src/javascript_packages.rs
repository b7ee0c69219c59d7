//! Fetches the packages of the JavaScript runtime from npm, and removes what programs do not load.
//!
//! `components/javascript/packages/package-lock.json` pins each of them, with those that they depend
//! on, by version and SHA-512. Install scripts of packages do not run. The packages are placed in
//! `target/components/javascript-packages`, which has the layout of a `node_modules` folder.
//!
//! The repository has two copies of the list: `set.json` for the host, and
//! `docs/reference/javascript-packages.md` for people.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use skillhost_toolchain::{Error, Progress, Step, files};

use crate::{install, print_line, workspace};

/// The npm of the sandbox: the host starts its scripts for `npm`, `npx` and the like.
const NPM: &str = "components/javascript/npm";

/// Folders directly in a package that programs do not load.
const FOLDERS: [&str; 18] = [
    "__tests__",
    "bench",
    "benchmark",
    "benchmarks",
    "coverage",
    "doc",
    "docs",
    "example",
    "examples",
    "fixtures",
    "fuzz",
    "man",
    "media",
    "perf",
    "spec",
    "test",
    "tests",
    "website",
];
/// Ends of names of files that programs do not load: types, sources of compiled files, descriptions.
const ENDS: [&str; 14] = [
    ".ts",
    ".mts",
    ".cts",
    ".tsx",
    ".map",
    ".flow",
    ".md",
    ".markdown",
    ".html",
    ".css",
    ".yml",
    ".tsbuildinfo",
    ".lock",
    ".coffee",
];
/// Builds for browsers, and copies in other module formats, that no entry of the package names. Each
/// is relative to the folder of all packages.
const UNUSED: [&str; 31] = [
    "axios/dist/axios.js",
    "axios/dist/browser",
    "csv-parse/dist/iife",
    "csv-parse/dist/umd",
    "csv-stringify/dist/iife",
    "csv-stringify/dist/umd",
    "date-fns/cdn.js",
    "date-fns/fp/cdn.js",
    "date-fns/locale/cdn.js",
    "handlebars/dist/amd",
    "handlebars/dist/handlebars.amd.js",
    "handlebars/dist/handlebars.js",
    "handlebars/dist/handlebars.runtime.amd.js",
    "handlebars/dist/handlebars.runtime.js",
    "htmlparser2/src",
    "js-yaml/dist/js-yaml.js",
    "jszip/dist",
    "luxon/build/amd",
    "luxon/build/cjs-browser",
    "luxon/build/global",
    "markdown-it/dist/markdown-it.js",
    "moment/min",
    "moment/src",
    "rxjs/dist/bundles",
    "rxjs/dist/esm",
    "rxjs/dist/esm5",
    "rxjs/src",
    "source-map/dist/source-map.debug.js",
    "turndown/dist",
    "validator/validator.js",
    "xml2js/lib/xml2js.bc.js",
];
/// An optional dependency that nothing but a command-line program uses.
const EXCLUDED: [&str; 1] = ["uglify-js"];

const HEAD: &str = "# JavaScript packages

Scripts can `require` and `import` these packages without installing anything. Guests see them,
read-only, in `/usr/lib/node_modules`; a `node_modules` folder of the skill or the workspace is
searched first. Versions and hashes are pinned in
`components/javascript/packages/package-lock.json`. All of them are pure JavaScript.

Where the newest version of a package can no longer be loaded by `require`, the set has the last one
that both `require` and `import` load: chalk 4, inquirer 8, nanoid 3, node-fetch 2, ora 5, p-limit 3,
string-width 4, strip-ansi 6, uuid 11, yargs 17. cheerio is 1.0.0-rc.12, because later versions load
an HTTP client at each start.

The packages that these depend on are there, too, and can be loaded by name.

| package | version | licence |
|---|---|---|
";

/// Fetches the packages, unless they are up to date.
pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    let set = root.join("components/javascript/packages");
    let locks = ["package.json", "package-lock.json"].map(|name| set.join(name));
    let mut stamp = include_str!("javascript_packages.rs").to_owned();
    for lock in &locks {
        stamp += &fs::read_to_string(lock).map_err(Error::context(lock.display()))?;
    }
    let fetched = root.join("target/javascript-packages");
    let done = fetched.join("stamp");
    let to = root.join("target/components/javascript-packages");
    if fs::read_to_string(&done).is_ok_and(|old| old == stamp) && to.is_dir() {
        place_npm(&root, &to)?;
        return check_lists(&root, &read_list(&to)?);
    }
    let list = progress.step("fetch the packages of the JavaScript runtime", |step| {
        for old in [&fetched, &to] {
            workspace::remove(old)?;
            fs::create_dir_all(old).map_err(Error::context(old.display()))?;
        }
        install(&locks, &fetched, step)?;
        let from = fetched.join("node_modules");
        copy_used(&from, &to).map_err(Error::context(from.display()))?;
        for unused in UNUSED {
            workspace::remove(&to.join(unused))?;
        }
        let list = list(&locks[1], &to)?;
        let text = serde_json::to_string_pretty(&list).map_err(Error::context("the list"))?;
        files::write_if_changed(&to.with_extension("json"), format!("{text}\n").as_bytes())?;
        fs::remove_dir_all(&from).map_err(Error::context(from.display()))?;
        fs::write(&done, &stamp).map_err(Error::context(done.display()))?;
        Ok::<_, Error>(list)
    })?;
    place_npm(&root, &to)?;
    let size = size(&to).map_err(Error::context(to.display()))?;
    print_line(format!(
        "target/components/javascript-packages: {} packages, {:.1} MiB",
        list.len(),
        size as f64 / f64::from(1 << 20)
    ));
    check_lists(&root, &list)
}

/// Copies the sandbox's own npm to its place among the packages.
fn place_npm(root: &Path, packages: &Path) -> Result<(), Error> {
    let to = packages.join("npm");
    // A file that was removed or renamed must not stay.
    workspace::remove(&to)?;
    install::copy_tree(&root.join(NPM), &to, &[])
}

/// Lets npm fetch the packages and compare their SHA-512 with the lock file.
fn install(locks: &[PathBuf], to: &Path, step: &Step) -> Result<(), Error> {
    for lock in locks {
        files::copy_if_changed(lock, &to.join(lock.file_name().unwrap_or_default()))?;
    }
    let mut npm = Command::new("npm");
    npm.current_dir(to).args([
        "ci",
        "--ignore-scripts",
        "--no-bin-links",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]);
    step.run(&mut npm).map(drop).map_err(|error| {
        Error::new(error.to_string()).help("`apt install nodejs npm`, or https://nodejs.org")
    })
}

/// Copies a folder of packages. Folders whose names start with `@` hold packages, too.
fn copy_used(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let (name, path) = entry.map(|e| (e.file_name(), e.path()))?;
        let text = name.to_string_lossy();
        if text.starts_with('.') || EXCLUDED.contains(&&*text) {
            continue;
        }
        if text.starts_with('@') {
            copy_used(&path, &to.join(&name))?;
        } else {
            copy_package(&path, &to.join(&name), &entries(&path)?, true)?;
        }
    }
    Ok(())
}

/// Returns what a package's manifest says about its entries.
fn entries(package: &Path) -> std::io::Result<String> {
    let manifest: Value = serde_json::from_slice(&fs::read(package.join("package.json"))?)?;
    Ok(["main", "module", "exports"].map(|key| manifest[key].to_string()).concat())
}

/// Copies a package with these entries, or a folder in it.
fn copy_package(from: &Path, to: &Path, entries: &str, is_top: bool) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        let text = name.to_string_lossy().to_lowercase();
        let kind = entry.file_type()?;
        if kind.is_dir() && is_top && text == "node_modules" {
            copy_used(&path, &to.join(&name))?;
        } else if kind.is_dir() && !(is_top && FOLDERS.contains(&&*text)) && !text.starts_with('.')
        {
            copy_package(&path, &to.join(&name), entries, false)?;
        } else if kind.is_file() && is_used(&text, entries) {
            fs::copy(&path, to.join(&name))?;
        }
    }
    Ok(())
}

/// Checks whether programs load a file of this lower-case name, or the licence demands it.
fn is_used(name: &str, entries: &str) -> bool {
    let is_licence = ["license", "licence", "copying", "notice", "unlicense"]
        .iter()
        .any(|l| name.starts_with(l));
    let is_description = name.starts_with('.')
        || ["makefile", "gruntfile.js", "bower.json", "component.json", "tsconfig.json"]
            .contains(&name)
        || ["changelog", "history", "authors", "readme"]
            .iter()
            .any(|start| name.starts_with(start))
        || (name.ends_with(".min.js") && !entries.contains(name))
        || ENDS.iter().any(|end| name.ends_with(end));
    is_licence || !is_description
}

/// Returns name, version and licence of the packages, as the lock file says. `path` is the folder of
/// a package; if it is not the package's name, another version is at that place.
fn list(lock: &Path, packages: &Path) -> Result<Vec<Value>, Error> {
    let text = fs::read_to_string(lock).map_err(Error::context(lock.display()))?;
    let lock: Value = serde_json::from_str(&text).map_err(Error::context("package-lock.json"))?;
    let direct = &lock["packages"][""]["dependencies"];
    let mut found = BTreeMap::new();
    for (path, package) in lock["packages"].as_object().into_iter().flatten() {
        let Some(path) = path.strip_prefix("node_modules/") else { continue };
        if !packages.join(path).is_dir() {
            continue;
        }
        let name = path.rsplit("node_modules/").next().unwrap_or(path);
        found.insert(
            path.to_lowercase(),
            json!({
                "name": name,
                "path": path,
                "version": package["version"],
                "licence": package["license"],
                "direct": path == name && direct[name].is_string(),
            }),
        );
    }
    Ok(found.into_values().collect())
}

fn read_list(packages: &Path) -> Result<Vec<Value>, Error> {
    let path = packages.with_extension("json");
    let text = fs::read_to_string(&path).map_err(Error::context(path.display()))?;
    serde_json::from_str(&text).map_err(Error::context(path.display()))
}

/// Compares the lists in the repository with the packages. With `BLESS=1`, writes them.
fn check_lists(root: &Path, list: &[Value]) -> Result<(), Error> {
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let lines: Vec<String> = list
        .iter()
        .filter(|package| package["path"] == package["name"])
        .map(|p| format!("  {}", json!({ "name": p["name"], "version": p["version"] })))
        .collect();
    let rows: String = list
        .iter()
        .filter(|package| package["direct"] == true)
        .map(|p| {
            let (name, version, licence) =
                (text(p, "name"), text(p, "version"), text(p, "licence"));
            format!("| {name} | {version} | {licence} |\n")
        })
        .collect();
    let wanted = [
        (
            root.join("components/javascript/packages/set.json"),
            format!("[\n{}\n]\n", lines.join(",\n")),
        ),
        (root.join("docs/reference/javascript-packages.md"), format!("{HEAD}{rows}")),
    ];
    for (path, text) in wanted {
        if std::env::var("BLESS").is_ok_and(|value| value == "1") {
            files::write_if_changed(&path, text.as_bytes())?;
        } else if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            return Err(Error::new(format!("{} differs from the packages", path.display()))
                .help("`BLESS=1 cargo xtask javascript-packages`"));
        }
    }
    Ok(())
}

fn size(folder: &Path) -> std::io::Result<u64> {
    fs::read_dir(folder)?
        .map(|entry| {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                size(&entry.path())
            } else {
                Ok(entry.metadata()?.len())
            }
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_keep_code_and_licences_only() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for file in [
            "a/index.js",
            "a/index.d.ts",
            "a/index.js.map",
            "a/README.md",
            "a/LICENSE.md",
            "a/entry.min.js",
            "a/other.min.js",
            "a/test/a.js",
            "a/dist/doc/b.js",
            "a/node_modules/b/index.cjs",
            "a/node_modules/b/test/b.js",
            "@scope/c/lib/index.mjs",
            ".bin/a",
            "uglify-js/index.js",
        ] {
            files::write_if_changed(&from.join(file), b"").unwrap();
        }
        for package in ["a", "a/node_modules/b", "@scope/c"] {
            let manifest = br#"{"main": "./entry.min.js", "unpkg": "./other.min.js"}"#;
            files::write_if_changed(&from.join(package).join("package.json"), manifest).unwrap();
        }
        copy_used(&from, &to).unwrap();
        let mut kept = Vec::new();
        let mut open = vec![to.clone()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    open.push(entry.path());
                } else {
                    kept.push(entry.path().strip_prefix(&to).unwrap().display().to_string());
                }
            }
        }
        kept.sort();
        assert_eq!(
            kept,
            [
                "@scope/c/lib/index.mjs",
                "@scope/c/package.json",
                "a/LICENSE.md",
                "a/dist/doc/b.js",
                "a/entry.min.js",
                "a/index.js",
                "a/node_modules/b/index.cjs",
                "a/node_modules/b/package.json",
                "a/package.json",
            ]
        );
    }
}
