//! Looks up Python modules and packages: in the standard library, the package set, and the list of
//! known packages.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use cap_std::fs::Dir;
use serde::Deserialize;

use super::known_packages::{self, Known};
use super::stdlib::{self, Standard};
use skillhost_policy::capabilities::Mount;

/// The package set of the Python runtime, as its build writes it.
const SET: &str = include_str!("../packages.json");

/// The most entries of a package folder that are read.
const MAX_FOLDER_ENTRIES: usize = 10_000;

/// A package of the package set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Package {
    /// The name under which it is installed.
    pub(super) name: String,
    pub(super) version: String,
    /// The modules that it provides.
    pub(super) imports: Vec<String>,
}

struct Set {
    packages: Vec<Package>,
    by_import: HashMap<String, usize>,
    by_name: HashMap<String, usize>,
}

static PACKAGES: LazyLock<Set> = LazyLock::new(|| {
    // The text is part of the program, and a test parses it, so it is never empty.
    let packages: Vec<Package> = serde_json::from_str(SET).unwrap_or_default();
    let numbered = || packages.iter().enumerate();
    let by_import = numbered()
        .flat_map(|(at, package)| package.imports.iter().map(move |import| (import.clone(), at)))
        .collect();
    let by_name = numbered().map(|(at, package)| (normalized(&package.name), at)).collect();
    Set { by_import, by_name, packages }
});

/// The result of looking up a module or package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    Standard(Standard),
    InSet(&'static Package),
    Known(Known),
    Unknown,
}

/// Looks up a dotted module name.
pub(super) fn module(name: &str) -> Lookup {
    if let Some(standard) = stdlib::find(name) {
        return Lookup::Standard(standard);
    }
    let mut prefix = name;
    loop {
        if let Some(at) = PACKAGES.by_import.get(prefix) {
            return Lookup::InSet(&PACKAGES.packages[*at]);
        }
        match prefix.rsplit_once('.') {
            Some((parent, _)) => prefix = parent,
            None => return known_packages::find(name).map_or(Lookup::Unknown, Lookup::Known),
        }
    }
}

/// Looks up a distribution, by the name under which it is installed.
pub(super) fn distribution(name: &str) -> Lookup {
    let name = normalized(name);
    match PACKAGES.by_name.get(&name) {
        Some(at) => Lookup::InSet(&PACKAGES.packages[*at]),
        None => known_packages::distribution(&name).map_or(Lookup::Unknown, Lookup::Known),
    }
}

/// Normalizes the name of a distribution as package indexes do.
pub(super) fn normalized(name: &str) -> String {
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

/// Returns the modules in package folders. Skips unreadable folders, which the run reports.
pub(super) fn provided(folders: &[Mount]) -> HashSet<String> {
    let mut names = HashSet::new();
    for folder in folders {
        #[expect(clippy::disallowed_methods, reason = "the operator named this folder")]
        let Ok(dir) = Dir::open_ambient_dir(&folder.host, cap_std::ambient_authority()) else {
            continue;
        };
        for entry in dir.entries().into_iter().flatten().flatten().take(MAX_FOLDER_ENTRIES) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = name.strip_suffix(".py").unwrap_or(&name);
            // Names with a dot are metadata or native modules.
            if !name.contains('.') {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

/// Checks whether a module sends HTTP requests.
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
    fn package_set_parses_and_its_modules_are_unique() {
        assert!(PACKAGES.packages.len() > 30);
        let imports: usize = PACKAGES.packages.iter().map(|p| p.imports.len()).sum();
        assert_eq!(imports, PACKAGES.by_import.len());
        assert_eq!(PACKAGES.by_name.len(), PACKAGES.packages.len());
        assert!(PACKAGES.packages.iter().all(|p| !p.version.is_empty() && !p.imports.is_empty()));
    }

    #[test]
    fn modules_and_distributions_are_looked_up() {
        let set = |found| match found {
            Lookup::InSet(package) => package.name.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!(set(module("yaml")), "PyYAML");
        assert_eq!(set(module("bs4.element")), "beautifulsoup4");
        assert_eq!(set(distribution("python_DateUtil")), "python-dateutil");
        assert!(matches!(module("PIL.Image"), Lookup::Known(Known { distribution: "Pillow", .. })));
        assert_eq!(module("os.path"), Lookup::Standard(Standard::Available));
        assert_eq!(module("an_unknown_module"), Lookup::Unknown);
        assert_eq!(normalized("Ruamel._.YAML"), "ruamel-yaml");
    }
}
