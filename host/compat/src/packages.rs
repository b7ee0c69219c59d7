//! What a Python module is: of the standard library, of the package set, of a package that is
//! known, or none of them.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use cap_std::fs::Dir;
use serde::Deserialize;

use super::known::{self, Known};
use super::stdlib::{self, Standard};
use skillhost_policy::capabilities::Mount;

/// What the Python runtime brings along, as it is built.
const SET: &str = include_str!("../../../components/python/packages/set.json");

/// Entries of a folder of packages that are looked at.
const MAX_BROUGHT: usize = 10_000;

/// One package of the set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Package {
    /// What it is installed by.
    pub(super) name: String,
    pub(super) version: String,
    /// The modules that it brings.
    pub(super) imports: Vec<String>,
}

struct Set {
    packages: Vec<Package>,
    by_import: HashMap<String, usize>,
    by_name: HashMap<String, usize>,
}

static PACKAGES: LazyLock<Set> = LazyLock::new(|| {
    // It is part of the program, and a test reads it: empty cannot happen.
    let packages: Vec<Package> = serde_json::from_str(SET).unwrap_or_default();
    let numbered = || packages.iter().enumerate();
    let by_import = numbered()
        .flat_map(|(at, package)| package.imports.iter().map(move |import| (import.clone(), at)))
        .collect();
    let by_name = numbered().map(|(at, package)| (normal(&package.name), at)).collect();
    Set { by_import, by_name, packages }
});

/// What a module or a package is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Standard(Standard),
    InSet(&'static Package),
    Known(Known),
    Unknown,
}

/// What a dotted module name is.
pub(super) fn module(name: &str) -> Found {
    if let Some(standard) = stdlib::find(name) {
        return Found::Standard(standard);
    }
    let mut prefix = name;
    loop {
        if let Some(at) = PACKAGES.by_import.get(prefix) {
            return Found::InSet(&PACKAGES.packages[*at]);
        }
        match prefix.rsplit_once('.') {
            Some((parent, _)) => prefix = parent,
            None => return known::find(name).map_or(Found::Unknown, Found::Known),
        }
    }
}

/// What a distribution is, by the name that it is installed by.
pub(super) fn distribution(name: &str) -> Found {
    let name = normal(name);
    match PACKAGES.by_name.get(&name) {
        Some(at) => Found::InSet(&PACKAGES.packages[*at]),
        None => known::distribution(&name).map_or(Found::Unknown, Found::Known),
    }
}

/// A distribution's name as the package index compares it.
pub(super) fn normal(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            _ => out.extend(c.to_lowercase()),
        }
    }
    out
}

/// The modules that folders of packages bring. A folder that cannot be read brings none: the run
/// says so.
pub(super) fn brought(folders: &[Mount]) -> HashSet<String> {
    let mut names = HashSet::new();
    for folder in folders {
        #[expect(clippy::disallowed_methods, reason = "the operator named this folder")]
        let Ok(dir) = Dir::open_ambient_dir(&folder.host, cap_std::ambient_authority()) else {
            continue;
        };
        for entry in dir.entries().into_iter().flatten().flatten().take(MAX_BROUGHT) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = name.strip_suffix(".py").unwrap_or(&name);
            // What has a dot is metadata, or native.
            if !name.contains('.') {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

/// Modules that ask servers over HTTP.
pub(super) fn is_http_client(module: &str) -> bool {
    const CLIENTS: [&str; 10] = [
        "requests",
        "httpx",
        "urllib.request",
        "urllib3",
        "http.client",
        "aiohttp",
        "feedparser",
        "websockets",
        "httplib2",
        "curl_cffi",
    ];
    CLIENTS.iter().any(|client| {
        module == *client || module.strip_prefix(client).is_some_and(|rest| rest.starts_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_read_and_each_module_is_of_one_package() {
        assert!(PACKAGES.packages.len() > 30);
        let imports: usize = PACKAGES.packages.iter().map(|p| p.imports.len()).sum();
        assert_eq!(imports, PACKAGES.by_import.len());
        assert_eq!(PACKAGES.by_name.len(), PACKAGES.packages.len());
        assert!(PACKAGES.packages.iter().all(|p| !p.version.is_empty() && !p.imports.is_empty()));
    }

    #[test]
    fn modules_and_distributions_are_told_apart() {
        let set = |found| match found {
            Found::InSet(package) => package.name.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!(set(module("yaml")), "PyYAML");
        assert_eq!(set(module("bs4.element")), "beautifulsoup4");
        assert_eq!(set(distribution("python_DateUtil")), "python-dateutil");
        assert!(matches!(module("PIL.Image"), Found::Known(Known { distribution: "Pillow", .. })));
        assert_eq!(module("os.path"), Found::Standard(Standard::Here));
        assert_eq!(module("a_module_of_nobody"), Found::Unknown);
        assert_eq!(normal("Ruamel._.YAML"), "ruamel-yaml");
    }
}
