//! Which file a specifier means: the algorithms of `require` and `import`.

use super::package_json::{PackageJson, Target, TargetError};

/// The files that the resolution sees.
pub(crate) trait Files {
    /// Whether the path is a file.
    fn is_file(&self, path: &str) -> bool;
    /// Whether the path is a folder.
    fn is_dir(&self, path: &str) -> bool;
    /// Returns the package.json of a folder, if there is one.
    fn package_json(&self, dir: &str) -> Option<std::rc::Rc<PackageJson>>;
    /// Returns the path without links.
    fn real_path(&self, path: &str) -> String;
}

/// Whether `require` or `import` asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `require`: with endings, `index` files and `main`.
    Require,
    /// `import`: with complete names, as URLs have them.
    Import,
}

/// What a specifier means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// A module of Node, without `node:`.
    Builtin(String),
    /// A file.
    File(String),
}

/// The reason why a specifier means nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResolveError {
    /// No such file. For `import`, the path that was tried.
    NoFile(String),
    /// No such package.
    NoPackage(String),
    /// `import` of a folder.
    IsFolder(String),
    /// The package does not export the subpath: its folder, and the subpath.
    NotExported(String, String),
    /// The package does not define the import: the name, and the package's folder.
    NotImported(String, String),
    /// A target in a package.json is not a path in the package: the folder, and the target.
    InvalidTarget(String, String),
    /// The specifier cannot be one.
    Invalid(String),
    /// `node:` with an unknown name.
    UnknownBuiltin(String),
}

type Result<T> = std::result::Result<T, ResolveError>;

/// The folder of the packages that come with the runtime, which is searched last.
const INSTALLED: &str = "/usr/lib/node_modules";

/// The endings that `require` adds.
const ENDINGS: [&str; 3] = [".js", ".json", ".node"];

/// The endings of TypeScript that are tried after those of JavaScript.
const TYPESCRIPT: [&str; 4] = [".ts", ".tsx", ".mts", ".cts"];

/// Finds what `specifier` means in the file `parent`.
pub(crate) fn resolve(
    files: &impl Files,
    is_builtin: impl Fn(&str) -> bool,
    specifier: &str,
    parent: &str,
    kind: Kind,
) -> Result<Resolved> {
    if let Some(name) = specifier.strip_prefix("node:") {
        return if is_builtin(name) {
            Ok(Resolved::Builtin(name.to_owned()))
        } else {
            Err(ResolveError::UnknownBuiltin(specifier.to_owned()))
        };
    }
    // These have a scheme only.
    if is_builtin(specifier) && !matches!(specifier, "test" | "sqlite" | "sea" | "test/reporters") {
        return Ok(Resolved::Builtin(specifier.to_owned()));
    }
    let resolver = Resolver { files, is_builtin: &is_builtin, conditions: conditions(kind), kind };
    resolver.resolve(specifier, dir_of(parent)).map(|found| match found {
        Found::Builtin(name) => Resolved::Builtin(name),
        Found::File(path) => Resolved::File(files.real_path(&path)),
    })
}

/// The conditions of `exports` that hold.
pub(crate) fn conditions(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Require => &["node", "require", "module-sync", "node-addons"],
        Kind::Import => &["node", "import", "module-sync", "node-addons"],
    }
}

/// Returns the folders in which packages are looked for, the nearest first.
pub(crate) fn node_modules(dir: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut dir = dir.trim_end_matches('/');
    loop {
        if !dir.ends_with("/node_modules") {
            found.push(format!("{dir}/node_modules"));
        }
        match dir.rfind('/') {
            Some(at) => dir = &dir[..at],
            None => return found,
        }
    }
}

/// Returns the package.json that a file belongs to, and its folder.
pub(crate) fn scope(files: &impl Files, path: &str) -> Option<(String, std::rc::Rc<PackageJson>)> {
    let mut dir = dir_of(path);
    loop {
        if dir.ends_with("/node_modules") {
            return None;
        }
        if let Some(package) = files.package_json(dir) {
            return Some((dir.to_owned(), package));
        }
        if dir == "/" {
            return None;
        }
        dir = dir_of(dir);
    }
}

/// Returns the folder of a path.
pub(crate) fn dir_of(path: &str) -> &str {
    match path.trim_end_matches('/').rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

struct Resolver<'a, F> {
    files: &'a F,
    is_builtin: &'a dyn Fn(&str) -> bool,
    conditions: &'static [&'static str],
    kind: Kind,
}

enum Found {
    Builtin(String),
    File(String),
}

impl<F: Files> Resolver<'_, F> {
    fn resolve(&self, specifier: &str, dir: &str) -> Result<Found> {
        if specifier.is_empty() {
            return Err(ResolveError::Invalid(specifier.to_owned()));
        }
        if specifier == "#" || specifier.starts_with("#/") {
            return Err(ResolveError::Invalid(specifier.to_owned()));
        }
        if specifier.starts_with('#') {
            return self.imported(specifier, dir);
        }
        let relative = matches!(specifier, "." | "..")
            || specifier.starts_with("./")
            || specifier.starts_with("../");
        if relative || specifier.starts_with('/') {
            let mut path =
                if relative { format!("{dir}/{specifier}") } else { specifier.to_owned() };
            if matches!(specifier, "." | "..") || specifier.ends_with("/..") {
                path.push('/');
            }
            let path = crate::files::normalize(&path);
            return self.path(&path).map(Found::File);
        }
        self.package(specifier, dir).map(Found::File)
    }

    fn path(&self, path: &str) -> Result<String> {
        let found = match self.kind {
            Kind::Require => self.as_file(path).or_else(|| self.as_folder(path)),
            Kind::Import if self.files.is_file(path) => Some(path.to_owned()),
            Kind::Import if self.files.is_dir(path) => {
                return Err(ResolveError::IsFolder(path.to_owned()));
            }
            Kind::Import => typescript_of(path).filter(|path| self.files.is_file(path)),
        };
        found.ok_or_else(|| ResolveError::NoFile(path.to_owned()))
    }

    fn as_file(&self, path: &str) -> Option<String> {
        if path.ends_with('/') {
            return None;
        }
        if self.files.is_file(path) {
            return Some(path.to_owned());
        }
        let endings = ENDINGS.iter().chain(&TYPESCRIPT);
        let mut candidates = endings.map(|ending| format!("{path}{ending}"));
        candidates
            .find(|path| self.files.is_file(path))
            .or_else(|| typescript_of(path).filter(|path| self.files.is_file(path)))
    }

    fn as_folder(&self, path: &str) -> Option<String> {
        let dir = path.trim_end_matches('/');
        if !self.files.is_dir(if dir.is_empty() { "/" } else { dir }) {
            return None;
        }
        let main = self.files.package_json(dir).and_then(|package| package.main.clone());
        if let Some(main) = main {
            let main = crate::files::normalize(&format!("{dir}/{main}"));
            let found = self.as_file(main.trim_end_matches('/')).or_else(|| self.as_index(&main));
            if found.is_some() {
                return found;
            }
        }
        self.as_index(dir)
    }

    fn as_index(&self, dir: &str) -> Option<String> {
        let dir = dir.trim_end_matches('/');
        let endings = ENDINGS.iter().chain(&TYPESCRIPT);
        let mut candidates = endings.map(|ending| format!("{dir}/index{ending}"));
        candidates.find(|path| self.files.is_file(path))
    }

    fn package(&self, specifier: &str, dir: &str) -> Result<String> {
        let (name, subpath) =
            split_package(specifier).ok_or_else(|| ResolveError::Invalid(specifier.to_owned()))?;
        if let Some((home, package)) = scope(self.files, &format!("{dir}/-"))
            && package.exports.is_some()
            && package.name.as_deref() == Some(name)
        {
            return self.exported(&home, &package, &subpath);
        }
        let installed = std::iter::once(INSTALLED.to_owned());
        for modules in node_modules(dir).into_iter().chain(installed) {
            let home = format!("{modules}/{name}");
            if !self.files.is_dir(&home) {
                // A file beside packages, which only `require` finds.
                if self.kind == Kind::Require
                    && subpath == "."
                    && let Some(found) = self.as_file(&home)
                {
                    return Ok(found);
                }
                continue;
            }
            let package = self.files.package_json(&home).unwrap_or_default();
            if package.exports.is_some() {
                return self.exported(&home, &package, &subpath);
            }
            let found = match (self.kind, subpath.as_str()) {
                (Kind::Require, ".") => self.as_folder(&home),
                (Kind::Require, _) => {
                    let path = format!("{home}{}", &subpath[1..]);
                    self.as_file(&path).or_else(|| self.as_folder(&path))
                }
                // The main file of a package without `exports`, as `require` finds it.
                (Kind::Import, ".") => self.as_folder(&home),
                (Kind::Import, _) => return self.path(&format!("{home}{}", &subpath[1..])),
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Err(ResolveError::NoPackage(name.to_owned()))
    }

    fn exported(&self, home: &str, package: &PackageJson, subpath: &str) -> Result<String> {
        let target = package.export(subpath, self.conditions).map_err(|error| match error {
            TargetError::NotExported => {
                ResolveError::NotExported(home.to_owned(), subpath.to_owned())
            }
            TargetError::InvalidTarget(target) => {
                ResolveError::InvalidTarget(home.to_owned(), target)
            }
            TargetError::InvalidSubpath => ResolveError::Invalid(subpath.to_owned()),
        })?;
        match target {
            Target::File(path) => self.complete(format!("{home}{}", &path[1..])),
            Target::Package(name) => Err(ResolveError::InvalidTarget(home.to_owned(), name)),
        }
    }

    fn imported(&self, name: &str, dir: &str) -> Result<Found> {
        let no = |home: &str| ResolveError::NotImported(name.to_owned(), home.to_owned());
        let (home, package) = scope(self.files, &format!("{dir}/-")).ok_or_else(|| no(dir))?;
        match package.import(name, self.conditions) {
            Ok(Target::File(path)) => {
                self.complete(format!("{home}{}", &path[1..])).map(Found::File)
            }
            Ok(Target::Package(specifier)) => match specifier.strip_prefix("node:") {
                Some(name) if (self.is_builtin)(name) => Ok(Found::Builtin(name.to_owned())),
                Some(_) => Err(ResolveError::UnknownBuiltin(specifier)),
                None if (self.is_builtin)(&specifier) => Ok(Found::Builtin(specifier)),
                None => self.package(&specifier, &home).map(Found::File),
            },
            Err(TargetError::NotExported) => Err(no(&home)),
            Err(TargetError::InvalidSubpath) => Err(ResolveError::Invalid(name.to_owned())),
            Err(TargetError::InvalidTarget(target)) => {
                Err(ResolveError::InvalidTarget(home, target))
            }
        }
    }

    /// Targets in a package.json are complete names.
    fn complete(&self, path: String) -> Result<String> {
        if self.files.is_file(&path) { Ok(path) } else { Err(ResolveError::NoFile(path)) }
    }
}

/// Returns the name of a package, and the subpath with `.` in front.
fn split_package(specifier: &str) -> Option<(&str, String)> {
    let mut slashes = specifier.match_indices('/').map(|(at, _)| at);
    let end = if specifier.starts_with('@') {
        slashes.next()?;
        slashes.next()
    } else {
        slashes.next()
    };
    let (name, rest) = specifier.split_at(end.unwrap_or(specifier.len()));
    let valid = !name.is_empty() && !name.starts_with('.') && !name.contains(['\\', '%']);
    valid.then(|| (name, format!(".{rest}")))
}

/// TypeScript names the compiled file: `./a.js` is then a.ts.
fn typescript_of(path: &str) -> Option<String> {
    [(".js", ".ts"), (".mjs", ".mts"), (".cjs", ".cts"), (".jsx", ".tsx")]
        .iter()
        .find_map(|(from, to)| path.strip_suffix(from).map(|stem| format!("{stem}{to}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    struct Tree(BTreeMap<&'static str, &'static str>);

    impl Files for Tree {
        fn is_file(&self, path: &str) -> bool {
            self.0.contains_key(path)
        }

        fn is_dir(&self, path: &str) -> bool {
            let dir = format!("{}/", path.trim_end_matches('/'));
            self.0.keys().any(|file| file.starts_with(&dir))
        }

        fn package_json(&self, dir: &str) -> Option<Rc<PackageJson>> {
            let path = format!("{}/package.json", dir.trim_end_matches('/'));
            PackageJson::parse(self.0.get(path.as_str())?.as_bytes()).map(Rc::new)
        }

        fn real_path(&self, path: &str) -> String {
            path.to_owned()
        }
    }

    fn tree() -> Tree {
        Tree(BTreeMap::from([
            ("/skill/a.js", ""),
            ("/skill/b/index.js", ""),
            ("/skill/b.json", ""),
            ("/skill/c/package.json", r#"{"main": "lib"}"#),
            ("/skill/c/lib.js", ""),
            ("/skill/t.ts", ""),
            (
                "/skill/package.json",
                r##"{"name": "own", "exports": "./a.js", "imports": {"#x": "./a.js", "#f": "node:fs", "#g": "fs", "#no": "node:no"}}"##,
            ),
            (
                "/skill/node_modules/dep/package.json",
                r#"{"exports": {".": {"import": "./i.mjs", "require": "./r.cjs"}, "./f/*": "./f/*.js"}}"#,
            ),
            ("/skill/node_modules/dep/i.mjs", ""),
            ("/skill/node_modules/dep/r.cjs", ""),
            ("/skill/node_modules/dep/f/x.js", ""),
            ("/skill/node_modules/dep/hidden.js", ""),
            ("/skill/node_modules/@s/old/package.json", r#"{"main": "./main.js"}"#),
            ("/skill/node_modules/@s/old/main.js", ""),
            ("/skill/node_modules/@s/old/sub/index.js", ""),
            ("/node_modules/top/index.js", ""),
            ("/usr/lib/node_modules/top/other.js", ""),
            ("/usr/lib/node_modules/shipped/index.js", ""),
        ]))
    }

    fn find(specifier: &str, kind: Kind) -> Result<Resolved> {
        let is_builtin = |name: &str| matches!(name, "fs" | "fs/promises" | "test");
        resolve(&tree(), is_builtin, specifier, "/skill/main.js", kind)
    }

    fn file(path: &str) -> Result<Resolved> {
        Ok(Resolved::File(path.to_owned()))
    }

    #[test]
    fn require_adds_endings_and_index_files() {
        for (specifier, path) in [
            ("./a", "/skill/a.js"),
            ("./a.js", "/skill/a.js"),
            ("/skill/a", "/skill/a.js"),
            ("./b", "/skill/b.json"),
            ("./b/", "/skill/b/index.js"),
            ("./c", "/skill/c/lib.js"),
            ("./t", "/skill/t.ts"),
            ("./t.js", "/skill/t.ts"),
        ] {
            assert_eq!(find(specifier, Kind::Require), file(path), "{specifier}");
        }
    }

    #[test]
    fn import_needs_complete_names() {
        assert_eq!(find("./a.js", Kind::Import), file("/skill/a.js"));
        assert_eq!(find("./a", Kind::Import), Err(ResolveError::NoFile("/skill/a".to_owned())));
        assert_eq!(find("./b/index.js", Kind::Import), file("/skill/b/index.js"));
        assert_eq!(find("./c", Kind::Import), Err(ResolveError::IsFolder("/skill/c".to_owned())));
    }

    #[test]
    fn packages_are_found_in_the_folders_above() {
        for (specifier, kind, path) in [
            ("dep", Kind::Require, "/skill/node_modules/dep/r.cjs"),
            ("dep", Kind::Import, "/skill/node_modules/dep/i.mjs"),
            ("dep/f/x", Kind::Import, "/skill/node_modules/dep/f/x.js"),
            ("@s/old", Kind::Import, "/skill/node_modules/@s/old/main.js"),
            ("@s/old/sub", Kind::Require, "/skill/node_modules/@s/old/sub/index.js"),
            ("top", Kind::Require, "/node_modules/top/index.js"),
            ("shipped", Kind::Import, "/usr/lib/node_modules/shipped/index.js"),
            ("own", Kind::Require, "/skill/a.js"),
            ("#x", Kind::Import, "/skill/a.js"),
        ] {
            assert_eq!(find(specifier, kind), file(path), "{specifier}");
        }
    }

    #[test]
    fn what_a_package_does_not_export_is_an_error() {
        assert_eq!(
            find("dep/hidden.js", Kind::Require),
            Err(ResolveError::NotExported(
                "/skill/node_modules/dep".to_owned(),
                "./hidden.js".to_owned()
            ))
        );
        assert_eq!(
            find("#y", Kind::Import),
            Err(ResolveError::NotImported("#y".to_owned(), "/skill".to_owned()))
        );
        assert_eq!(find("none", Kind::Import), Err(ResolveError::NoPackage("none".to_owned())));
    }

    #[test]
    fn modules_of_node_precede_files() {
        let builtin = |name: &str| Ok(Resolved::Builtin(name.to_owned()));
        assert_eq!(find("fs", Kind::Require), builtin("fs"));
        assert_eq!(find("node:fs/promises", Kind::Import), builtin("fs/promises"));
        assert_eq!(find("#f", Kind::Import), builtin("fs"));
        assert_eq!(find("#g", Kind::Require), builtin("fs"));
        assert!(matches!(find("#no", Kind::Import), Err(ResolveError::UnknownBuiltin(_))));
        assert_eq!(find("node:test", Kind::Import), builtin("test"));
        assert_eq!(find("test", Kind::Import), Err(ResolveError::NoPackage("test".to_owned())));
        assert!(matches!(find("node:no", Kind::Import), Err(ResolveError::UnknownBuiltin(_))));
    }
}
