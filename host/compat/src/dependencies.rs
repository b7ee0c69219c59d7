//! The dependencies that a skill declares: PEP 723 metadata, `requirements.txt`, `pyproject.toml` and
//! `package.json`.
//!
//! The texts are untrusted, so their size is limited before they are parsed. `toml` parses TOML, and
//! `pep440_rs` parses and compares versions. Names are parsed here and not by `pep508_rs`: it also
//! converts environment markers to decision diagrams, which can take exponential time and stay in
//! memory until the process ends, and it expands the host's environment variables in URLs.

use std::ops::Range;
use std::str::FromStr as _;

use pep440_rs::{Version, VersionSpecifiers};
use serde::Deserialize;
use toml::Spanned;

use super::node_modules;

/// A declared dependency.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    /// The name of the distribution.
    pub(super) name: String,
    /// The accepted versions, such as `>=2,<3`; empty for any.
    pub(super) versions: String,
    /// The offset of the name in the text.
    pub(super) offset: usize,
}

/// The most dependencies that are read from one file.
const MAX_DEPENDENCIES: usize = 200;
/// The most bytes of TOML that are parsed. Real files have a few KiB.
const MAX_TOML: usize = 256 << 10;
/// The most bytes of JSON that are parsed.
const MAX_JSON: usize = 256 << 10;
/// The most bytes of one requirement that are parsed.
const MAX_REQUIREMENT: usize = 1_000;

/// Reads the inline metadata of a script (PEP 723): `# /// script`, lines of TOML after `# `, and
/// `# ///`.
pub(super) fn inline(text: &str) -> Vec<Dependency> {
    let mut block: Option<Block> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        match &mut block {
            None if line.trim_end() == "# /// script" => block = Some(Block::default()),
            None => {}
            Some(block) if line.trim_end() == "# ///" => return block.dependencies(),
            Some(block) => {
                let content = line.strip_prefix("# ").or_else(|| line.strip_prefix('#'));
                let Some(content) = content else { return Vec::new() };
                block.lines.push((block.toml.len(), at - content.len()));
                block.toml.push_str(content);
                if block.toml.len() > MAX_TOML {
                    return Vec::new();
                }
            }
        }
    }
    Vec::new()
}

/// The TOML of inline metadata, without the `#` before each line.
#[derive(Default)]
struct Block {
    toml: String,
    /// The offset of each line in the TOML and in the script.
    lines: Vec<(usize, usize)>,
}

/// The part of inline metadata that is read.
#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    dependencies: Vec<Spanned<String>>,
}

impl Block {
    fn dependencies(&self) -> Vec<Dependency> {
        let Ok(metadata) = toml::from_str::<Metadata>(&self.toml) else { return Vec::new() };
        let in_script = |offset: usize| {
            let line = self.lines.partition_point(|(start, _)| *start <= offset);
            let (start, script) = self.lines[line.saturating_sub(1)];
            script + (offset - start)
        };
        from_list(&self.toml, metadata.dependencies, in_script)
    }
}

/// Reads a `pyproject.toml`: `dependencies` of `[project]`.
pub(super) fn project(text: &str) -> Vec<Dependency> {
    #[derive(Deserialize)]
    struct File {
        project: Option<Metadata>,
    }
    if text.len() > MAX_TOML {
        return Vec::new();
    }
    let Ok(File { project: Some(project) }) = toml::from_str(text) else { return Vec::new() };
    from_list(text, project.dependencies, |offset| offset)
}

/// Reads a list of requirements. `place` converts an offset of the TOML to one of the file.
fn from_list(
    toml: &str,
    list: Vec<Spanned<String>>,
    place: impl Fn(usize) -> usize,
) -> Vec<Dependency> {
    let dependency = |entry: &Spanned<String>| {
        let Range { start, end } = entry.span();
        let (name, versions) = requirement(entry.get_ref())?;
        // An escape in the string can hide the name. Then point to the whole string.
        let in_string = toml.get(start..end)?.find(name).unwrap_or(0);
        Some(Dependency { name: name.to_owned(), versions, offset: place(start + in_string) })
    };
    list.iter().filter_map(dependency).take(MAX_DEPENDENCIES).collect()
}

/// Reads a `requirements.txt`, one requirement a line. Skips options, files and URLs.
pub(super) fn requirements(text: &str) -> Vec<Dependency> {
    let mut at = 0;
    let dependency = |line: &str| {
        let start = at;
        at += line.len();
        let (name, versions) = requirement(line)?;
        let indent = line.len() - line.trim_start().len();
        Some(Dependency { name: name.to_owned(), versions, offset: start + indent })
    };
    text.split_inclusive('\n').filter_map(dependency).take(MAX_DEPENDENCIES).collect()
}

/// Reads a `package.json`: its `dependencies`, without those of development.
pub(super) fn package_json(text: &str) -> Vec<Dependency> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        dependencies: std::collections::BTreeMap<String, String>,
    }
    if text.len() > MAX_JSON {
        return Vec::new();
    }
    let Ok(File { dependencies }) = serde_json::from_str(text) else { return Vec::new() };
    let from = text.find("\"dependencies\"").unwrap_or(0);
    let dependency = |(name, _): (String, String)| {
        let at = text[from..].find(&format!("\"{name}\"")).map_or(from, |at| from + at + 1);
        npm_package(&name).map(|dependency| Dependency { offset: at, ..dependency })
    };
    dependencies.into_iter().take(MAX_DEPENDENCIES).filter_map(dependency).collect()
}

/// Reads a package as `npm install` takes it: `name`, `name@1` or `@scope/name@latest`. Returns
/// `None` for options, URLs and files.
pub(super) fn npm_package(text: &str) -> Option<Dependency> {
    let at = text.get(1..)?.find('@').map_or(text.len(), |at| at + 1);
    let (name, versions) = (&text[..at], text[at..].trim_start_matches('@'));
    node_modules::is_package_name(name).then(|| Dependency {
        name: name.to_owned(),
        versions: versions.to_owned(),
        offset: 0,
    })
}

/// Splits a requirement in the syntax of PEP 508 into its name and its version specifiers. Returns
/// `None` for URLs and file names.
fn requirement(text: &str) -> Option<(&str, String)> {
    let text = Some(text.trim()).filter(|text| text.len() <= MAX_REQUIREMENT)?;
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let rest = rest.trim_start();
    let extras = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let rest = extras.map_or(rest, |(_, after)| after);
    // A URL, or the name of a file.
    if rest.starts_with(['@', ':', '/', '\\', '+']) {
        return None;
    }
    let versions = rest.split([';', '#']).next().unwrap_or(rest).trim().trim_matches(['(', ')']);
    Some((name, versions.split_whitespace().collect()))
}

/// Checks whether a version is accepted. Specifiers that do not parse accept every version.
pub(super) fn accepts(versions: &str, version: &str) -> bool {
    match (VersionSpecifiers::from_str(versions), Version::from_str(version)) {
        (Ok(versions), Ok(version)) => versions.contains(&version),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats names and versions, and checks the offset of each name.
    fn shown(read: impl Fn(&str) -> Vec<Dependency>, text: &str) -> Vec<String> {
        let shown = read(text).into_iter().map(|Dependency { name, versions, offset }| {
            assert!(text[offset..].starts_with(&name), "{name} at {offset}");
            name + &versions
        });
        shown.collect()
    }

    #[test]
    fn inline_metadata_of_pep_723_is_read() {
        let text = "#!/x\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"requests>=2, <3\", 'rich', # \"no\"\n#   \"a[b]; x\",\n# ]\n# ///\n";
        assert_eq!(shown(inline, text), ["requests>=2,<3", "rich", "a"]);
        assert_eq!(shown(inline, "# /// script\n# dependencies = [\"x\"]\n# ///"), ["x"]);
        assert!(inline("# /// script\n# dependencies = [\"x\"]\nimport y\n# ///\n").is_empty());
        assert!(inline("# /// script\n# dependencies = [\"x").is_empty());
    }

    #[test]
    fn pyproject_and_requirements_are_read() {
        let text = "[tool.x]\ndependencies = [\"no\"]\n[project]\nname = \"n\"\ndependencies = [\"a>=1\",\n  \"b\"]\n[project.scripts]\n";
        assert_eq!(shown(project, text), ["a>=1", "b"]);
        let text = "# c\n-r other.txt\n  numpy==1.2 # why\nPyYAML ~= 6.0 ; python_version > '3'\ngit+https://x\nfoo @ https://x\n./local\n";
        assert_eq!(shown(requirements, text), ["numpy==1.2", "PyYAML~=6.0"]);
    }

    #[test]
    fn package_json_and_arguments_of_npm_are_read() {
        let text = "{\"devDependencies\": {\"no\": \"1\"},\n\"dependencies\": {\"axios\": \"^1\", \"@a/b\": \"*\", \"../c\": \"1\"}}";
        assert_eq!(shown(package_json, text), ["@a/b", "axios"]);
        for none in ["{\"dependencies\": [\"x\"]}", "{", "[]"] {
            assert!(package_json(none).is_empty(), "{none}");
        }
        let padding =
            |bytes: usize| format!("{{\"dependencies\": {{\"a\": \"{}\"}}}}", "1".repeat(bytes));
        let empty = padding(0).len();
        assert_eq!(package_json(&padding(MAX_JSON - empty)).len(), 1);
        assert!(package_json(&padding(MAX_JSON - empty + 1)).is_empty());
        let name =
            |text| npm_package(text).map(|dependency| dependency.name + " " + &dependency.versions);
        assert_eq!(name("axios"), Some("axios ".into()));
        assert_eq!(name("axios@1.2"), Some("axios 1.2".into()));
        assert_eq!(name("@a/b@latest"), Some("@a/b latest".into()));
        for none in ["-g", "./x", "git+https://x", "", "é"] {
            assert_eq!(name(none), None, "{none}");
        }
    }

    #[test]
    fn version_specifiers_accept_matching_versions() {
        for (version, versions, accepted) in [
            ("2.32.3", ">=2,<3", true),
            ("2.32.3", "==2.32.3", true),
            ("2.32", "==2.32.0", true),
            ("2.32.3", "==2.*", true),
            ("2.32.3", "~=2.31", true),
            ("3.0", "~=2.31", false),
            ("2.32.3", "!=2.32.3", false),
            ("2.32.3", "<2", false),
            ("2.32.3", ">2.32.3", false),
            ("2.32.3", "", true),
            ("2.32.3", "odd", true),
            ("2.32.3", "~=2", true),
        ] {
            assert_eq!(accepts(versions, version), accepted, "{version} {versions}");
        }
    }

    #[test]
    fn texts_beyond_the_limits_are_not_parsed() {
        let list = |padding: usize| {
            let comment = "#".repeat(padding);
            format!("[project]\ndependencies = [\"a\"]\n{comment}")
        };
        let empty = list(0).len();
        assert_eq!(project(&list(MAX_TOML - empty)).len(), 1);
        assert!(project(&list(MAX_TOML - empty + 1)).is_empty());
        let inline_list = |padding: usize| {
            let comment = "#".repeat(padding);
            format!("# /// script\n# dependencies = [\"a\"]\n# {comment}\n# ///\n")
        };
        let empty = "dependencies = [\"a\"]\n\n".len();
        assert_eq!(inline(&inline_list(MAX_TOML - empty)).len(), 1);
        assert!(inline(&inline_list(MAX_TOML - empty + 1)).is_empty());
        let exact = format!("a=={}", "1".repeat(MAX_REQUIREMENT - 3));
        assert_eq!(requirements(&exact).len(), 1);
        assert!(requirements(&format!("{exact}1")).is_empty());
        let lines = "a\n".repeat(MAX_DEPENDENCIES + 1);
        assert_eq!(requirements(&lines).len(), MAX_DEPENDENCIES);
        let nested = format!("[project]\nx = {}", "[".repeat(100_000));
        assert!(project(&nested).is_empty());
    }
}
