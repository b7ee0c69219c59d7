//! Rules of the design that apply to the source code itself.

use std::path::{Path, PathBuf};

use crate::support::repository;

/// Returns every Rust file below a folder of the repository with its text; paths are relative to
/// that folder.
fn sources(folder: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, found),
                false => {
                    found.extend(Some(path).filter(|p| p.extension().is_some_and(|e| e == "rs")))
                }
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
fn every_file_starts_with_a_module_comment() {
    for folder in ["host", "tests", "benches", "xtask/src", "toolchain/src", "guest-sdk/src"] {
        for (path, text) in sources(folder) {
            assert!(text.starts_with("//! "), "{folder}/{path} starts without //!");
        }
    }
}

#[test]
fn sources_contain_no_todo_markers() {
    for folder in ["host", "benches", "xtask/src", "toolchain/src", "guest-sdk/src"] {
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
        // The two test programs, and the compiler program of one of them.
        if ["main.rs", "library.rs", "compiler.rs"].map(Path::new).contains(&path) {
            continue;
        }
        let parent = path.parent().unwrap();
        let above = match parent == Path::new("") {
            true => vec!["main.rs".into(), "library.rs".into()],
            false => vec![parent.with_extension("rs")],
        };
        let read = |file| std::fs::read_to_string(repository("tests").join(file));
        let text: String = above.iter().filter_map(|file| read(file).ok()).collect();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            text.contains(&format!("mod {name};")),
            "tests/{} is not a module of {above:?}",
            path.display()
        );
    }
}

#[test]
fn only_the_sandbox_depends_on_the_engine() {
    let mut with_engine = Vec::new();
    for entry in std::fs::read_dir(repository("host")).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(manifest) = std::fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let dependencies =
            manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
        if dependencies.lines().any(|line| line.starts_with("wasmtime")) {
            with_engine.push(folder.file_name().unwrap().to_owned());
        }
    }
    assert_eq!(with_engine, ["sandbox"]);
}

#[test]
fn programs_that_embed_skills_compile_without_the_engine() {
    struct Package {
        name: String,
        dependencies: Vec<String>,
    }
    // Each package of a lock file is a table `[[package]]` with these keys, as JSON writes them.
    let lock = std::fs::read_to_string(repository("Cargo.lock")).unwrap();
    let packages: Vec<Package> = lock
        .split("[[package]]")
        .skip(1)
        .map(|table| {
            let field = |key: &str| {
                let value = table.split(&format!("\n{key} = ")).nth(1)?;
                let end = if value.starts_with('[') { "]\n" } else { "\n" };
                let text = &value[..value.find(end)? + end.len() - 1];
                Some(text.replace(",\n]", "\n]"))
            };
            let name = serde_json::from_str(&field("name").unwrap()).unwrap();
            let dependencies =
                field("dependencies").map(|list| serde_json::from_str(&list).unwrap());
            Package { name, dependencies: dependencies.unwrap_or_default() }
        })
        .collect();
    let mut found = vec!["skillhost-macros"];
    let mut at = 0;
    while let Some(name) = found.get(at).copied() {
        at += 1;
        for package in packages.iter().filter(|package| package.name == name) {
            for dependency in &package.dependencies {
                let name = dependency.split(' ').next().unwrap();
                if !found.contains(&name) {
                    found.push(name);
                }
            }
        }
    }
    assert!(found.contains(&"skillhost-skill") && found.len() > 20, "{found:?}");
    let engine: Vec<_> = found.iter().filter(|name| name.starts_with("wasmtime")).collect();
    assert!(engine.is_empty(), "{engine:?}");
}

#[test]
fn ci_runs_the_same_command_as_developers() {
    #[derive(serde::Deserialize)]
    struct Workflow {
        jobs: std::collections::BTreeMap<String, Job>,
    }
    #[derive(serde::Deserialize)]
    struct Job {
        steps: Vec<std::collections::BTreeMap<String, serde_json::Value>>,
    }
    let text = std::fs::read_to_string(repository(".github/workflows/ci.yml")).unwrap();
    let workflow: Workflow = serde_saphyr::from_str(&text).unwrap();
    let jobs: Vec<Job> = workflow.jobs.into_values().collect();
    assert_eq!(jobs.len(), 1);
    let runs: Vec<_> = jobs[0].steps.iter().filter_map(|step| step.get("run")).collect();
    assert_eq!(runs, [".ci/run"], "CI runs only .ci/run");
}

#[test]
fn a_program_carries_no_authority() {
    let (_, runtime) =
        sources("host").into_iter().find(|(path, _)| path == "skill/src/runtime.rs").unwrap();
    assert!(
        !runtime.contains("capabilities") && !runtime.contains("policy"),
        "runtime.rs resolves what runs; it must not decide permissions"
    );
}
