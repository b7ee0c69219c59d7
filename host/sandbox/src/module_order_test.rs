//! Checks that each module uses only modules below it, by the order of the table in `lib.rs`.

#![expect(clippy::disallowed_methods, reason = "reads this crate's own sources")]

use std::path::{Path, PathBuf};

/// The modules in the order of the table, from the top down.
fn modules() -> Vec<&'static str> {
    let rows = include_str!("lib.rs").lines().filter_map(|line| line.strip_prefix("//! | "));
    let modules: Vec<_> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    assert!(modules.len() > 10, "the table of modules was not found: {modules:?}");
    modules
}

/// The source files of a folder, without its tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs")
            && !["lib.rs", "tests.rs", "module_order_test.rs"].contains(&name)
        {
            found.push(path);
        }
    }
}

/// The first names of all paths that start at `crate::`.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    text.split("crate::")
        .skip(1)
        .flat_map(move |rest| match rest.strip_prefix('{') {
            // `use crate::{a, b::c}`
            Some(list) => list.split('}').next().unwrap_or(list).split(',').collect(),
            None => vec![rest],
        })
        .filter_map(move |path| path.trim_start().split(|c| !is_name(c)).next())
        .filter(|name| !name.is_empty())
}

#[test]
fn modules_use_only_modules_below_them() {
    let modules = modules();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&source, &mut files);
    let mut arrows = 0;
    for file in files {
        let path = file.strip_prefix(&source).unwrap().to_str().unwrap();
        let module = path.split(['/', '.']).next().unwrap();
        let position = modules.iter().position(|known| *known == module);
        let position = position.unwrap_or_else(|| panic!("{path} is in no module of the table"));
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        let depth = path.matches('/').count() + 1;
        for line in code.lines().filter(|line| line.starts_with("use super::")) {
            assert!(line.matches("super::").count() < depth, "{path} leaves its module: {line}");
        }
        for name in named(code).filter(|name| *name != module) {
            let other = modules.iter().position(|known| *known == name);
            assert!(other > Some(position), "{path} uses `{name}`, which is not below `{module}`");
            arrows += 1;
        }
    }
    assert!(arrows > 50, "only {arrows} uses were found");
}

#[test]
fn all_names_of_a_use_line_are_found() {
    let text =
        "use crate::limits::Meter;\nuse crate::{files, http::Sender};\nlet x = crate::run(1);";
    assert_eq!(named(text).collect::<Vec<_>>(), ["limits", "files", "http", "run"]);
}
