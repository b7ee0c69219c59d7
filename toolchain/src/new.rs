//! Creates a new skill that can be built, checked and run unchanged.

use std::path::{Path, PathBuf};

use crate::sdk::Sdk;
use crate::{Error, files, skill};

/// The files of a skill: path and template, with fields in double braces. Files that tools would act
/// on in this repository have names without a leading dot here.
type Templates = &'static [(&'static str, &'static str)];

const PYTHON: Templates = &[
    ("SKILL.md", include_str!("../templates/python/SKILL.md")),
    ("scripts/count.py", include_str!("../templates/python/scripts/count.py")),
    (".skillignore", include_str!("../templates/python/skillignore")),
    ("tests/file/case.yaml", include_str!("../templates/python/tests/file/case.yaml")),
    (
        "tests/missing-file/case.yaml",
        include_str!("../templates/python/tests/missing-file/case.yaml"),
    ),
];

const JAVASCRIPT: Templates = &[
    ("SKILL.md", include_str!("../templates/javascript/SKILL.md")),
    ("scripts/count.mjs", include_str!("../templates/javascript/scripts/count.mjs")),
    (".skillignore", include_str!("../templates/javascript/skillignore")),
    ("tests/file/case.yaml", include_str!("../templates/javascript/tests/file/case.yaml")),
    (
        "tests/missing-file/case.yaml",
        include_str!("../templates/javascript/tests/missing-file/case.yaml"),
    ),
];

const TYPESCRIPT: Templates = &[
    ("SKILL.md", include_str!("../templates/typescript/SKILL.md")),
    ("scripts/count.ts", include_str!("../templates/typescript/scripts/count.ts")),
    (".skillignore", include_str!("../templates/typescript/skillignore")),
    ("tests/file/case.yaml", include_str!("../templates/typescript/tests/file/case.yaml")),
    (
        "tests/missing-file/case.yaml",
        include_str!("../templates/typescript/tests/missing-file/case.yaml"),
    ),
];

const BASH: Templates = &[
    ("SKILL.md", include_str!("../templates/bash/SKILL.md")),
    ("scripts/count.sh", include_str!("../templates/bash/scripts/count.sh")),
    (".skillignore", include_str!("../templates/bash/skillignore")),
    ("tests/file/case.yaml", include_str!("../templates/bash/tests/file/case.yaml")),
    (
        "tests/missing-file/case.yaml",
        include_str!("../templates/bash/tests/missing-file/case.yaml"),
    ),
];

const RUST: Templates = &[
    ("Cargo.toml", include_str!("../templates/rust/Cargo.toml")),
    ("SKILL.md", include_str!("../templates/rust/SKILL.md")),
    ("src/lib.rs", include_str!("../templates/rust/src/lib.rs")),
    (".cargo/config.toml", include_str!("../templates/rust/cargo-config.toml")),
    (".gitignore", include_str!("../templates/rust/gitignore")),
    (".skillignore", include_str!("../templates/rust/skillignore")),
    ("tests/text/case.yaml", include_str!("../templates/rust/tests/text/case.yaml")),
    (
        "tests/unknown-field/case.yaml",
        include_str!("../templates/rust/tests/unknown-field/case.yaml"),
    ),
];

/// Plain words that YAML does not read as text.
const YAML_WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// Creates the Python skill `name` in a folder of that name in `parent`, and returns the folder.
///
/// # Errors
/// Returns an error if the name is not a valid skill name, or if the folder exists or cannot be
/// written.
pub fn python(name: &str, parent: &Path) -> Result<PathBuf, Error> {
    create(name, parent, PYTHON, &[], |_| Ok(()))
}

/// Creates the JavaScript skill `name`, as [`python`] does.
///
/// # Errors
/// As [`python`].
pub fn javascript(name: &str, parent: &Path) -> Result<PathBuf, Error> {
    create(name, parent, JAVASCRIPT, &[], |_| Ok(()))
}

/// Creates the TypeScript skill `name`, as [`python`] does.
///
/// # Errors
/// As [`python`].
pub fn typescript(name: &str, parent: &Path) -> Result<PathBuf, Error> {
    create(name, parent, TYPESCRIPT, &[], |_| Ok(()))
}

/// Creates the bash skill `name`, as [`python`] does.
///
/// # Errors
/// As [`python`].
pub fn bash(name: &str, parent: &Path) -> Result<PathBuf, Error> {
    create(name, parent, BASH, &[], |_| Ok(()))
}

/// Creates the Rust skill `name`, as [`python`] does.
///
/// # Errors
/// As [`python`].
pub fn rust(name: &str, parent: &Path, sdk: &Sdk) -> Result<PathBuf, Error> {
    // cargo does not accept names that begin with a digit.
    let package = if starts_with_digit(name) { format!("skill-{name}") } else { name.to_owned() };
    let fields = [("{{package}}", package.as_str()), ("{{sdk}}", &sdk.version)];
    create(name, parent, RUST, &fields, |new| skill::point_to(new, sdk))
}

fn create(
    name: &str,
    parent: &Path,
    templates: Templates,
    fields: &[(&str, &str)],
    finish: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    if !is_skill_name(name) {
        let what = format!(
            "{name:?} is not a valid skill name: use 1 to 64 characters of a-z, 0-9 and single hyphens between them"
        );
        return Err(Error::new(what).help("use a name such as `word-count`"));
    }
    let dir = parent.join(name);
    if dir.exists() {
        return Err(Error::new(format!("{} already exists", dir.display()))
            .help("use another name or folder"));
    }
    let yaml_name = if starts_with_digit(name) || YAML_WORDS.contains(&name) {
        format!("\"{name}\"")
    } else {
        name.to_owned()
    };
    let common = [("{{name}}", name), ("{{yaml_name}}", yaml_name.as_str())];
    files::create_dir_whole(&dir, |new| {
        for (path, template) in templates {
            let fields = common.iter().chain(fields);
            let text = fields
                .fold((*template).to_owned(), |text, (field, value)| text.replace(field, value));
            files::write_if_changed(&new.join(path), text.as_bytes())?;
        }
        finish(new)
    })?;
    Ok(dir)
}

fn starts_with_digit(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_digit())
}

/// Checks the rule of the Agent Skills specification.
fn is_skill_name(name: &str) -> bool {
    let part =
        |p: &str| !p.is_empty() && p.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() <= 64 && name.split('-').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sdk() -> Sdk {
        Sdk { path: "/sdk".into(), version: "0.1.0".into(), config: "[patch]\n".into() }
    }

    #[test]
    fn all_template_fields_are_filled_in() {
        let dir = tempfile::tempdir().unwrap();
        let skill = rust("word-count", dir.path(), &sdk()).unwrap();
        assert_eq!(skill, dir.path().join("word-count"));
        let scripts = [
            (python("py", dir.path()).unwrap(), PYTHON),
            (javascript("js", dir.path()).unwrap(), JAVASCRIPT),
            (typescript("ts", dir.path()).unwrap(), TYPESCRIPT),
            (bash("sh", dir.path()).unwrap(), BASH),
        ];
        for (folder, templates) in scripts.into_iter().chain([(skill.clone(), RUST)]) {
            for (path, _) in templates {
                let text = std::fs::read_to_string(folder.join(path)).unwrap();
                assert!(!text.contains("{{"), "{path}: {text}");
            }
        }
        let manifest = std::fs::read_to_string(skill.join("SKILL.md")).unwrap();
        assert!(manifest.starts_with("---\nname: word-count\n"), "{manifest}");
        assert!(manifest.contains("  component: word-count.wasm\n"), "{manifest}");
    }

    #[test]
    fn names_that_yaml_or_cargo_misread_are_escaped() {
        let dir = tempfile::tempdir().unwrap();
        let skill = rust("1e3", dir.path(), &sdk()).unwrap();
        assert!(
            std::fs::read_to_string(skill.join("SKILL.md")).unwrap().contains("\nname: \"1e3\"\n")
        );
        assert!(
            std::fs::read_to_string(skill.join("Cargo.toml"))
                .unwrap()
                .contains("\nname = \"skill-1e3\"\n")
        );
    }

    #[test]
    fn invalid_skill_names_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["", "A", "a--b", "-a", "a-", "a/b", "..", "a_b", "ä", &"a".repeat(65)] {
            assert!(rust(name, dir.path(), &sdk()).is_err(), "{name}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn existing_folder_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("mine")).unwrap();
        assert!(rust("mine", dir.path(), &sdk()).unwrap_err().what.ends_with("already exists"));
        assert_eq!(std::fs::read_dir(dir.path().join("mine")).unwrap().count(), 0);
    }
}
