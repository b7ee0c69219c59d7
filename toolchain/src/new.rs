//! Creates a new skill that can be built, checked and run unchanged.

use std::path::{Path, PathBuf};

use crate::sdk::Sdk;
use crate::{Error, files, skill};

/// The files of a Rust skill: path and template, with fields in double braces. Files that tools
/// would act on in this repository have names without a leading dot here.
const RUST: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("../templates/rust/Cargo.toml")),
    ("SKILL.md", include_str!("../templates/rust/SKILL.md")),
    ("src/lib.rs", include_str!("../templates/rust/src/lib.rs")),
    (".cargo/config.toml", include_str!("../templates/rust/cargo-config.toml")),
    (".gitignore", include_str!("../templates/rust/gitignore")),
    (".skillignore", include_str!("../templates/rust/skillignore")),
];

/// Plain words that YAML does not read as text.
const YAML_WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// Creates the Rust skill `name` in a folder of that name in `parent`, and returns the folder.
///
/// # Errors
/// Returns an error if the name is not a valid skill name, or if the folder exists or cannot be
/// written.
pub fn rust(name: &str, parent: &Path, sdk: &Sdk) -> Result<PathBuf, Error> {
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
    let digit = name.starts_with(|c: char| c.is_ascii_digit());
    // cargo does not accept names that begin with a digit.
    let package = if digit { format!("skill-{name}") } else { name.to_owned() };
    let yaml_name =
        if digit || YAML_WORDS.contains(&name) { format!("\"{name}\"") } else { name.to_owned() };
    let fields = [
        ("{{name}}", name),
        ("{{package}}", &package),
        ("{{yaml_name}}", &yaml_name),
        ("{{sdk}}", &sdk.version),
    ];
    files::create_dir_whole(&dir, |new| {
        for (path, template) in RUST {
            let text = fields
                .iter()
                .fold(template.to_owned(), |text, (field, value)| text.replace(field, value));
            files::write_if_changed(&new.join(path), text.as_bytes())?;
        }
        skill::point_to(new, sdk)
    })?;
    Ok(dir)
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
        for (path, _) in RUST {
            let text = std::fs::read_to_string(skill.join(path)).unwrap();
            assert!(!text.contains("{{"), "{path}: {text}");
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
