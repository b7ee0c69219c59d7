//! Reads `metadata.requires`: what a skill needs besides its own files, one per line:
//!
//! ```text
//! chart-styles ^1.2
//! command jq
//! python pandas>=2
//! npm lodash@^4
//! ```
//!
//! A line without a kind names another skill, with the versions of it that fit.

use std::fmt;

use semver::{Version, VersionReq};
use serde::Serialize;

use super::findings::abbreviate;

/// The most lines.
const MAX: usize = 32;
/// The most bytes of a line.
const MAX_LINE: usize = 200;

/// The words that start a line of another kind.
const KINDS: [&str; 4] = ["command", "python", "npm", "skill"];

/// Something that a skill needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Required {
    /// Another skill, which is mounted at `/skills/NAME`.
    Skill {
        /// Its name.
        name: String,
        /// The versions that fit.
        version: VersionReq,
    },
    /// A command.
    Command(String),
    /// A Python package, as pip writes a requirement.
    Python(String),
    /// An npm package, as npm writes it.
    Npm(String),
}

impl fmt::Display for Required {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Required::Skill { name, version } if KINDS.contains(&name.as_str()) => {
                write!(f, "skill {name} {version}")
            }
            Required::Skill { name, version } if *version == VersionReq::STAR => f.write_str(name),
            Required::Skill { name, version } => write!(f, "{name} {version}"),
            Required::Command(name) => write!(f, "command {name}"),
            Required::Python(package) => write!(f, "python {package}"),
            Required::Npm(package) => write!(f, "npm {package}"),
        }
    }
}

/// An invalid declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRequired {
    /// The number of the line, from 0.
    pub line: Option<usize>,
    /// The problem.
    pub why: String,
}

/// Parses the declaration.
///
/// # Errors
/// The first invalid line.
pub fn parse(text: &str) -> Result<Vec<Required>, InvalidRequired> {
    let mut found: Vec<Required> = Vec::new();
    let lines = text.lines().enumerate().map(|(number, line)| (number, line.trim()));
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let invalid = |why: String| InvalidRequired { line: Some(number), why };
        if found.len() == MAX {
            return Err(invalid(format!("more than {MAX} lines")));
        }
        found.push(required(line).map_err(invalid)?);
    }
    let names: Vec<&String> = found
        .iter()
        .filter_map(|one| match one {
            Required::Skill { name, .. } => Some(name),
            _ => None,
        })
        .collect();
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        Some((_, name)) => {
            Err(InvalidRequired { line: None, why: format!("the skill `{name}` is named twice") })
        }
        None => Ok(found),
    }
}

/// Parses one line.
///
/// # Errors
/// Why it is invalid.
pub fn required(line: &str) -> Result<Required, String> {
    if line.len() > MAX_LINE || line.chars().any(char::is_control) {
        return Err(format!("`{}` is too long or not plain text", abbreviate(line)));
    }
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match (first, rest) {
        ("command", name) if is_command(name) => Ok(Required::Command(name.to_owned())),
        ("python", package) if is_package(package) => Ok(Required::Python(package.to_owned())),
        ("npm", package) if is_package(package) => Ok(Required::Npm(package.to_owned())),
        ("skill", rest) if !rest.is_empty() => {
            let (name, version) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            skill(name, version.trim())
        }
        (kind, _) if KINDS.contains(&kind) => {
            Err(format!("`{}`: `{kind}` and a name are expected", abbreviate(line)))
        }
        (name, version) => skill(name, version),
    }
}

fn skill(name: &str, version: &str) -> Result<Required, String> {
    if !super::is_name(name) {
        return Err(format!("`{}` is not the name of a skill", abbreviate(name)));
    }
    let version = match version {
        "" => VersionReq::STAR,
        text => VersionReq::parse(text).map_err(|error| {
            format!("`{}` is not a version requirement: {error}", abbreviate(text))
        })?,
    };
    Ok(Required::Skill { name: name.to_owned(), version })
}

fn is_command(name: &str) -> bool {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_.+".contains(one);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
}

fn is_package(text: &str) -> bool {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_.+@/<>=!~^*,[] ".contains(one);
    text.starts_with(|one: char| one.is_ascii_alphanumeric() || one == '@')
        && text.chars().all(is_plain)
}

/// Parses a version as skills write it: `1`, `1.2` and `v1.2.3` are versions, too.
pub fn version(text: &str) -> Option<Version> {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let is_short = text.split('.').all(|part| part.bytes().all(|digit| digit.is_ascii_digit()));
    match text.split('.').count() {
        1 if is_short => Version::parse(&format!("{text}.0.0")).ok(),
        2 if is_short => Version::parse(&format!("{text}.0")).ok(),
        _ => Version::parse(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_names_what_is_needed() {
        let text = "# others\nchart-styles ^1.2\nfonts\n\ncommand jq\npython pandas>=2,<4\nnpm @scope/x@^4\nskill command >=1, <2\n";
        let found = parse(text).unwrap();
        let written: Vec<String> = found.iter().map(ToString::to_string).collect();
        let expected = [
            "chart-styles ^1.2",
            "fonts",
            "command jq",
            "python pandas>=2,<4",
            "npm @scope/x@^4",
            "skill command >=1, <2",
        ];
        assert_eq!(written, expected);
        for line in &written {
            assert!(found.contains(&required(line).unwrap()), "{line}");
        }
    }

    #[test]
    fn invalid_lines_are_numbered() {
        for line in
            ["Chart_Styles", "charts ^x", "command", "command -x", "charts ^1 ^2 x", "python ;rm"]
        {
            let text = format!("fonts\n{line}");
            assert_eq!(parse(&text).unwrap_err().line, Some(1), "{line}");
        }
        assert!(parse("a\na ^1").unwrap_err().why.contains("twice"));
        assert!(parse(&"command x\n".repeat(MAX + 1)).is_err());
    }

    #[test]
    fn versions_may_be_short() {
        for (text, expected) in
            [("1", "1.0.0"), ("1.2", "1.2.0"), ("v2.0.1", "2.0.1"), ("1.0.0-rc.1", "1.0.0-rc.1")]
        {
            assert_eq!(version(text).unwrap().to_string(), expected);
        }
        for text in ["", "latest", "1.x", "1..2"] {
            assert_eq!(version(text), None, "{text}");
        }
    }
}
