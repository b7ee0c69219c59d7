//! What the design says of the source itself.

use std::path::{Path, PathBuf};

use crate::cli::repository;

/// Every Rust file below a folder of the repository, with its text; the path relative to that folder.
fn sources(folder: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, found),
                false => found.extend(Some(path).filter(|p| p.extension().is_some_and(|e| e == "rs"))),
            }
        }
    }
    let root = repository(folder);
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    assert!(!paths.is_empty());
    let name = |path: &Path| path.strip_prefix(&root).unwrap().display().to_string();
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn every_file_says_what_it_is() {
    for folder in ["host/src", "tests", "xtask/src", "toolchain/src", "guest-sdk/src"] {
        for (path, text) in sources(folder) {
            assert!(text.starts_with("//! "), "{folder}/{path} starts without //!");
        }
    }
}

#[test]
fn files_are_short_enough_to_read() {
    for (path, text) in sources("host/src") {
        // Tests that go with a file are read apart from it.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = if path.contains("/tests/") { 0 } else { code.lines().count() };
        assert!(lines <= 400, "host/src/{path} has {lines} lines");
    }
}

#[test]
fn nothing_is_left_to_do() {
    for folder in ["host/src", "xtask/src", "toolchain/src", "guest-sdk/src"] {
        for (path, text) in sources(folder) {
            for mark in ["todo!(", "unimplemented!(", "TODO", "FIXME", "XXX"] {
                assert!(!text.contains(mark), "{folder}/{path} holds {mark}");
            }
        }
    }
}

#[test]
fn every_test_file_is_a_module() {
    for (path, _) in sources("tests") {
        let path = Path::new(&path);
        if path == Path::new("main.rs") {
            continue;
        }
        let parent = path.parent().unwrap();
        let above = if parent == Path::new("") { "main.rs".into() } else { parent.with_extension("rs") };
        let text = std::fs::read_to_string(repository("tests").join(&above)).unwrap_or_default();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(text.contains(&format!("mod {name};")), "tests/{} is no module of tests/{}", path.display(), above.display());
    }
}

/// From the bottom up: a module uses those before it. Those of one row may use each other.
const LAYERS: [&[&str]; 15] = [
    &[
        "limits",
        "outcome",
        "diagnostic",
        "ownership",
        "terminal",
        "heap",
        "schema",
        "private",
        "policy::capabilities",
        "policy::protected",
        "policy::tool",
    ],
    &["skill", "policy"],
    &["runtime"],
    &["compat", "learn"],
    &["recording"],
    &["sandbox"],
    &["world", "state", "audit", "database"],
    &["receipt"],
    &["invoke"],
    &["service"],
    &["approval"],
    &["catalog"],
    &["usage"],
    &["embed", "mcp"],
    &["cli", "main", "lib"],
];

/// The layer of a module path such as `policy::tool::CommandPattern`.
fn layer(module: &str) -> usize {
    let of = |name: &&str| module == *name || module.starts_with(&format!("{name}::"));
    LAYERS.iter().position(|row| row.iter().any(of)).unwrap_or_else(|| panic!("`{module}` is in no layer: name it in LAYERS"))
}

#[test]
fn a_module_uses_only_those_above_it() {
    for (path, text) in sources("host/src") {
        let module = path.trim_end_matches(".rs").replace('/', "::");
        let own = layer(&module);
        for part in text.split("crate::").skip(1) {
            // `use crate::{a, b}` would hide from this test; the style is one `use` for each.
            assert!(!part.starts_with('{'), "{path}: use crate::{{...}}");
            let used: String = part.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':')).collect();
            assert!(layer(&used) <= own, "{path} uses crate::{used}, which is below it");
        }
    }
}

#[test]
fn only_the_sandbox_knows_the_engine_and_only_the_command_line_prints() {
    for (path, text) in sources("host/src") {
        let sandbox = path.starts_with("sandbox");
        assert!(sandbox || !text.contains("wasmtime::"), "{path} names wasmtime");
        let edge = path.starts_with("cli") || path == "main.rs";
        assert!(edge || !text.contains("println!("), "{path} prints");
        assert!(edge || !text.contains("env::var"), "{path} reads the environment");
    }
}

#[test]
fn a_program_carries_no_authority() {
    let (_, runtime) = sources("host/src").into_iter().find(|(path, _)| path == "runtime.rs").unwrap();
    assert!(!runtime.contains("capabilities") && !runtime.contains("policy"), "runtime.rs says what runs, never what it may touch");
}

#[test]
fn the_sandbox_names_every_capability() {
    let (_, run) = sources("host/src").into_iter().find(|(path, _)| path == "sandbox/run.rs").unwrap();
    let taken_apart =
        run.split("let Capabilities {").nth(1).and_then(|rest| rest.split('}').next()).expect("taken apart where a run starts");
    assert!(!taken_apart.contains(".."), "a field that is added later must not compile until it is enforced");
}
