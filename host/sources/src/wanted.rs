//! `skills.yaml`: the skills that a person wants, and where they come from.

use std::collections::BTreeMap;
use std::mem::discriminant;

use serde_json::json;
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::Limit;
use skillhost_policy::yaml::{Format, Kind, Node};

use crate::document::{self, Reader, quote};
use crate::error::SourceError;
use crate::limits::TransferLimits;
use crate::names;
use crate::source::Source;

/// The name of the file.
pub const FILE: &str = "skills.yaml";

/// The most bytes of the file. One for a thousand skills takes about 100 KiB.
pub const MAX_BYTES: usize = 1 << 20;

/// The keys of the file.
const TOP: [&str; 4] = ["skills", "overrides", "replace", "limits"];

const FORMAT: Format = Format {
    name: "sources file",
    rule: "sources-yaml",
    max_depth: 8,
    max_nodes: 50_000,
    max_aliases: 0,
};

/// The content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourcesFile {
    /// The skills, by name.
    pub skills: BTreeMap<String, WantedSkill>,
    /// When skills are disabled.
    pub overrides: Vec<Override>,
    /// Places that others are fetched from, by the place that they replace. Only in the user's file.
    pub replace: BTreeMap<String, Source>,
    /// The limits of transfers. Only in the user's file.
    pub limits: TransferLimits,
}

/// When skills are disabled. All conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Override {
    /// Only these skills; empty for all.
    pub skills: Vec<String>,
    /// Only skills with this tag, in lower case.
    pub tag: Option<String>,
    /// Only if this variable is set, or has this value.
    pub env: Option<(String, Option<String>)>,
}

impl Override {
    /// Checks whether a skill is disabled. `tags` returns the tags of the skill.
    pub fn disables(
        &self,
        name: &str,
        tags: impl FnOnce() -> Vec<String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> bool {
        let is_named = self.skills.is_empty() || self.skills.iter().any(|one| one == name);
        let is_set = self.env.as_ref().is_none_or(|(variable, value)| {
            env(variable).is_some_and(|found| value.as_ref().is_none_or(|value| *value == found))
        });
        is_named && is_set && self.tag.as_ref().is_none_or(|tag| tags().contains(tag))
    }
}

/// A skill that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedSkill {
    /// Where it comes from.
    pub source: Source,
    /// The path of its folder in the source. Without one, the source has one skill.
    pub path: Option<String>,
    /// Whether it is used. A disabled skill stays locked.
    pub enabled: bool,
    /// Whether the submodules of its repository are fetched, too.
    pub submodules: bool,
    /// The section of the policy that applies to it, too. Only in the user's file.
    pub section: Option<String>,
}

impl SourcesFile {
    /// Parses the text of a file. `file`: the path, as messages name it.
    ///
    /// # Errors
    /// Every problem, with its position.
    pub fn parse(file: &str, text: &str) -> Result<SourcesFile, SourceError> {
        let mut reader = Reader::new(file, text);
        let mut skills = BTreeMap::new();
        let (mut overrides, mut replace) = (Vec::new(), BTreeMap::new());
        let mut limits = TransferLimits::default();
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(SourcesFile::default());
        }
        let root = reader.parse(MAX_BYTES, &FORMAT)?;
        for (key, value) in reader.fields(&root, "the sources file", &TOP) {
            match key {
                "overrides" => overrides = self::overrides(&mut reader, value),
                "replace" => replace = replacements(&mut reader, value),
                "limits" => limits = self::limits(&mut reader, value),
                _ => {}
            }
            if key != "skills" {
                continue;
            }
            for (key, value) in reader.map(value, "`skills`").unwrap_or_default() {
                let name = document::scalar(key).unwrap_or_default();
                if let Some((message, fix)) = document::name_problem(name) {
                    reader.error("sources-name", Some(key.span), message, Some(fix));
                }
                if let Some(skill) = skill(&mut reader, name, value) {
                    skills.insert(name.to_owned(), skill);
                }
            }
        }
        reader.finish(SourcesFile { skills, overrides, replace, limits })
    }

    /// Returns a text with skills added or replaced. Other lines stay as they are.
    ///
    /// # Errors
    /// The text is not a sources file, or is written in a way that cannot be edited line by line.
    pub fn with(text: &str, skills: &BTreeMap<String, WantedSkill>) -> Result<String, SourceError> {
        let mut without = text.to_owned();
        let mut expected = SourcesFile::parse(FILE, text)?;
        for name in skills.keys().filter(|name| expected.skills.contains_key(*name)) {
            without = SourcesFile::without(&without, name)?;
        }
        let mut lines: Vec<&str> = without.lines().collect();
        let entries: Vec<String> = skills.iter().map(|(name, skill)| skill.lines(name)).collect();
        let entries = entries.join("\n");
        match lines.iter().position(|line| *line == "skills:") {
            Some(at) => lines.insert(end_of_map(&lines, at), &entries),
            None if SourcesFile::parse(FILE, &without)?.skills.is_empty() => {
                lines.retain(|line| line.trim() != "skills: {}");
                lines.extend(["skills:", &entries]);
            }
            None => return Err(not_editable()),
        }
        let edited = lines.join("\n") + "\n";
        expected.skills.extend(skills.iter().map(|(name, skill)| (name.clone(), skill.clone())));
        checked(edited, &expected)
    }

    /// Returns a text without a skill. Other lines stay as they are.
    ///
    /// # Errors
    /// As [`SourcesFile::with`].
    pub fn without(text: &str, name: &str) -> Result<String, SourceError> {
        let mut expected = SourcesFile::parse(FILE, text)?;
        if expected.skills.remove(name).is_none() {
            return Ok(text.to_owned());
        }
        let mut lines: Vec<&str> = text.lines().collect();
        let starts = [format!("  {name}:"), format!("  \"{name}\":"), format!("  '{name}':")];
        let Some(at) =
            lines.iter().position(|line| starts.iter().any(|start| line.starts_with(start)))
        else {
            return Err(not_editable());
        };
        let inner = |line: &&&str| line.starts_with("   ");
        let end = at + 1 + lines[at + 1..].iter().take_while(inner).count();
        lines.drain(at..end);
        if expected.skills.is_empty() {
            lines.retain(|line| *line != "skills:");
        }
        let edited = if lines.is_empty() { String::new() } else { lines.join("\n") + "\n" };
        checked(edited, &expected)
    }
}

impl WantedSkill {
    fn lines(&self, name: &str) -> String {
        let mut text =
            format!("  {}:\n    source: {}", quote(name), quote(&self.source.to_string()));
        if let Some(path) = &self.path {
            text += &format!("\n    path: {}", quote(path));
        }
        if !self.enabled {
            text += "\n    enabled: false";
        }
        if self.submodules {
            text += "\n    submodules: true";
        }
        if let Some(section) = &self.section {
            text += &format!("\n    policy: {}", quote(section));
        }
        text
    }
}

fn skill(
    reader: &mut Reader<'_>,
    name: &str,
    node: &skillhost_policy::yaml::Node,
) -> Option<WantedSkill> {
    let what = format!("`{}`", printable(name));
    // `NAME: SOURCE` is short for a map with the source only.
    let fields = match document::scalar(node) {
        Some(_) => vec![("source", node)],
        None => reader.fields(node, &what, &["source", "path", "enabled", "submodules", "policy"]),
    };
    let (mut source, mut path, mut section) = (None, None, None);
    let (mut enabled, mut submodules) = (true, false);
    for (key, value) in fields {
        let text = reader.scalar(value, &format!("`{key}`"))?;
        let problem = match key {
            "source" => match text.parse::<Source>() {
                Ok(parsed) => {
                    source = Some(parsed);
                    None
                }
                Err(error) => Some((error.to_string(), error.fix().map(str::to_owned))),
            },
            "path" => match names::parse(text.as_bytes()) {
                Ok(parsed) => {
                    path = Some(parsed).filter(|path| !path.is_empty());
                    None
                }
                Err(refusal) => Some((refusal.to_string(), None)),
            },
            "policy" => {
                section = Some(text.to_owned());
                None
            }
            _ => match text {
                "true" | "false" => {
                    let flag = if key == "enabled" { &mut enabled } else { &mut submodules };
                    *flag = text == "true";
                    None
                }
                _ => Some((format!("`{key}` must be `true` or `false`"), None)),
            },
        };
        if let Some((message, fix)) = problem {
            reader.error("sources-value", Some(value.span), message, fix);
        }
    }
    if source.is_none() && reader.diagnostics.is_empty() {
        let fix = Some("source: OWNER/REPO".to_owned());
        reader.error("sources-value", Some(node.span), format!("{what} has no `source`"), fix);
    }
    Some(WantedSkill { source: source?, path, enabled, submodules, section })
}

fn overrides(reader: &mut Reader<'_>, node: &Node) -> Vec<Override> {
    let Kind::List(items) = &node.kind else {
        let fix = Some("overrides: [{ tag: experimental, enabled: false }]".to_owned());
        reader.error("sources-value", Some(node.span), "`overrides` must be a list".into(), fix);
        return Vec::new();
    };
    items.iter().filter_map(|item| override_of(reader, item)).collect()
}

fn override_of(reader: &mut Reader<'_>, node: &Node) -> Option<Override> {
    let mut found = Override::default();
    let mut is_disabled = false;
    let before = reader.diagnostics.len();
    for (key, value) in reader.fields(node, "an override", &["skills", "tag", "env", "enabled"]) {
        if key == "skills" {
            let names = reader.list(value, "`skills`");
            found.skills = names.into_iter().map(str::to_owned).collect();
            continue;
        }
        let text = reader.scalar(value, &format!("`{key}`"))?;
        match key {
            "tag" => found.tag = Some(text.to_lowercase()),
            "env" => {
                let (name, value) = match text.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (text, None),
                };
                found.env = Some((name.to_owned(), value));
            }
            // An override narrows only: it could otherwise enable what the list disables.
            _ if text == "false" => is_disabled = true,
            _ => {
                let message = "an override can only disable skills: `enabled: false`".to_owned();
                reader.error("sources-value", Some(value.span), message, None);
            }
        }
    }
    if !is_disabled && reader.diagnostics.len() == before {
        let fix = Some("enabled: false".to_owned());
        reader.error("sources-value", Some(node.span), "the override does nothing".into(), fix);
    }
    Some(found)
}

fn replacements(reader: &mut Reader<'_>, node: &Node) -> BTreeMap<String, Source> {
    let mut found = BTreeMap::new();
    for (key, value) in reader.map(node, "`replace`").unwrap_or_default() {
        let texts = [document::scalar(key), document::scalar(value)];
        let sources = texts.map(|text| text.unwrap_or_default().parse::<Source>());
        match sources {
            [Ok(from), Ok(to)] if from.reference.is_some() || to.reference.is_some() => {
                let message = "`replace` names places, without a tag, branch or commit".to_owned();
                reader.error("sources-value", Some(key.span), message, None);
            }
            // Another kind, such as a folder, would ignore the tag or commit of a skill.
            [Ok(from), Ok(to)] if discriminant(&from.place) != discriminant(&to.place) => {
                let message = "a replacement must be of the same kind of source".to_owned();
                let fix = Some("write a local Git mirror as file:///PATH".to_owned());
                reader.error("sources-value", Some(value.span), message, fix);
            }
            [Ok(from), Ok(to)] => {
                found.insert(from.to_string(), to);
            }
            [Err(error), _] | [_, Err(error)] => {
                let fix = error.fix().map(str::to_owned);
                reader.error("sources-value", Some(key.span), error.to_string(), fix);
            }
        }
    }
    found
}

/// Reads the limits of transfers, which have the names of the rules that refuse what exceeds them.
fn limits(reader: &mut Reader<'_>, node: &Node) -> TransferLimits {
    let mut found = TransferLimits::default();
    let keys = ["transfer-size", "entry-count", "expansion"];
    for (key, value) in reader.fields(node, "`limits`", &keys) {
        let Some(text) = reader.scalar(value, &format!("`{key}`")) else { continue };
        let kind = if key == "transfer-size" { Limit::HttpResponseBody } else { Limit::Files };
        let limit = match key {
            "transfer-size" => &mut found.bytes,
            "entry-count" => &mut found.entries,
            _ => &mut found.expansion,
        };
        match kind.parse(text) {
            Ok(parsed) if parsed > 0 => *limit = parsed,
            Ok(_) => {
                let message = format!("`{key}` must be greater than 0");
                reader.error("sources-value", Some(value.span), message, None);
            }
            Err(why) => reader.error("sources-value", Some(value.span), why, None),
        }
    }
    found
}

/// Returns the line after the last entry of the map whose key is in the line `at`.
fn end_of_map(lines: &[&str], at: usize) -> usize {
    let inner = lines[at + 1..].iter().rposition(|line| line.starts_with(' '));
    inner.map_or(at + 1, |last| at + 2 + last)
}

/// An edited text must mean what was intended, whatever the style in which it was written.
fn checked(edited: String, expected: &SourcesFile) -> Result<String, SourceError> {
    match SourcesFile::parse(FILE, &edited) {
        Ok(found) if found == *expected => Ok(edited),
        _ => Err(not_editable()),
    }
}

fn not_editable() -> SourceError {
    SourceError::request(
        format!("{FILE} is written in a way that cannot be edited line by line"),
        "write each skill as `  NAME:` below `skills:`, or edit the file and run `skillhost sync`",
    )
}

/// Returns the JSON schema of the file.
pub fn schema() -> serde_json::Value {
    let source = json!({
        "type": "string",
        "description": "A Git repository (OWNER/REPO, an https, ssh or file URL, or USER@HOST:PATH, with @TAG, @BRANCH or @COMMIT), the https URL of an archive, an OCI repository (oci://HOST/REPOSITORY, with :TAG or @sha256:DIGEST), an archive in an S3 store (s3://BUCKET/KEY), a server that lists its skills (https://HOST/.well-known/agent-skills), an MCP server with skills (mcp+https://HOST/PATH), or a folder or archive of this machine (./PATH).",
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "skills.yaml",
        "description": "The skills that are wanted, and where they come from.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "overrides": {
                "type": "array",
                "description": "When skills are disabled. All conditions of an entry must hold.",
                "items": {
                    "type": "object",
                    "required": ["enabled"],
                    "additionalProperties": false,
                    "properties": {
                        "skills": {
                            "type": "array",
                            "items": { "type": "string" },
                            "description": "Only these skills.",
                        },
                        "tag": { "type": "string", "description": "Only skills with this tag." },
                        "env": {
                            "type": "string",
                            "description": "Only if this environment variable is set: NAME, or NAME=VALUE.",
                        },
                        "enabled": { "const": false },
                    },
                },
            },
            "limits": {
                "type": "object",
                "description": "The limits of one transfer. Only in your own file.",
                "additionalProperties": false,
                "properties": {
                    "transfer-size": {
                        "type": ["string", "integer"],
                        "description": "The most bytes of one transfer, and of what is unpacked from it; default: 256MiB.",
                    },
                    "entry-count": {
                        "type": "integer",
                        "description": "The most files, folders and symlinks; default: 100000.",
                    },
                    "expansion": {
                        "type": "integer",
                        "description": "How many times larger than an archive its content may be; default: 200.",
                    },
                },
            },
            "replace": {
                "type": "object",
                "description": "Places that others are fetched from, by the place that they replace. Only in your own file.",
                "additionalProperties": { "type": "string" },
            },
            "skills": {
                "type": "object",
                "description": "The skills, by name.",
                "propertyNames": { "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" },
                "additionalProperties": {
                    "oneOf": [
                        source,
                        {
                            "type": "object",
                            "required": ["source"],
                            "additionalProperties": false,
                            "properties": {
                                "source": source,
                                "path": {
                                    "type": "string",
                                    "description": "The path of the skill's folder in the source. Needed if the source has several skills.",
                                },
                                "enabled": {
                                    "type": "boolean",
                                    "description": "Whether the skill is used. A disabled skill stays locked.",
                                },
                                "policy": {
                                    "type": "string",
                                    "description": "The section of the policy that applies to the skill, besides one of its own name. Only in your own file.",
                                },
                                "submodules": {
                                    "type": "boolean",
                                    "description": "Whether the submodules of the repository are fetched, too.",
                                },
                            },
                        },
                    ],
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(source: &str, path: Option<&str>) -> WantedSkill {
        WantedSkill {
            source: source.parse().unwrap(),
            path: path.map(str::to_owned),
            enabled: true,
            submodules: false,
            section: None,
        }
    }

    fn with(text: &str, name: &str, skill: &WantedSkill) -> Result<String, SourceError> {
        SourcesFile::with(text, &[(name.to_owned(), skill.clone())].into())
    }

    #[test]
    fn both_forms_are_read() {
        let text = "skills:\n  a: owner/repo@v1\n  b:\n    source: ./b.zip\n    path: x/b\n    enabled: false\n    submodules: true\n";
        let file = SourcesFile::parse(FILE, text).unwrap();
        let b = WantedSkill { enabled: false, submodules: true, ..wanted("./b.zip", Some("x/b")) };
        assert_eq!(
            file.skills,
            [("a".into(), wanted("owner/repo@v1", None)), ("b".into(), b)].into()
        );
        assert_eq!(SourcesFile::parse(FILE, "# nothing yet\n").unwrap(), SourcesFile::default());
    }

    #[test]
    fn every_problem_has_its_position() {
        let text = "skills:\n  a: http://host/r\n  -x: a/b\n  b:\n    sources: a/b\n  c:\n    source: a/b\n    path: ../x\n    enabled: 1\nskill: {}\n";
        let Err(SourceError::File { diagnostics, .. }) = SourcesFile::parse(FILE, text) else {
            panic!()
        };
        let found: Vec<_> = diagnostics
            .iter()
            .map(|d| (d.span.unwrap().line, d.span.unwrap().column, d.rule))
            .collect();
        let expected = [
            (2, 6, "sources-value"),
            (3, 3, "sources-name"),
            (5, 5, "key"),
            (8, 11, "sources-value"),
            (9, 14, "sources-value"),
            (10, 1, "key"),
        ];
        assert_eq!(found, expected, "{diagnostics:#?}");
    }

    #[test]
    fn edits_keep_the_other_lines() {
        let text = "# mine\nskills:\n  # the first\n  b: owner/repo\n\n# end\n";
        let edited = with(text, "a", &wanted("./a", Some("x"))).unwrap();
        assert_eq!(
            edited,
            "# mine\nskills:\n  # the first\n  b: owner/repo\n  a:\n    source: \"./a\"\n    path: x\n\n# end\n"
        );
        assert_eq!(SourcesFile::without(&edited, "a").unwrap(), text);
        assert_eq!(SourcesFile::without(text, "unknown").unwrap(), text);
        let empty = SourcesFile::without(text, "b").unwrap();
        let again = with(&empty, "b", &wanted("owner/repo", None)).unwrap();
        assert_eq!(
            SourcesFile::parse(FILE, &again).unwrap(),
            SourcesFile::parse(FILE, text).unwrap()
        );
        let new = with("", "a", &wanted("owner/repo", None)).unwrap();
        assert_eq!(new, "skills:\n  a:\n    source: \"https://github.com/owner/repo\"\n");
        let replaced = with(&new, "a", &wanted("owner/other", None)).unwrap();
        assert_eq!(replaced, new.replace("repo\"", "other\""));
    }

    #[test]
    fn overrides_disable_only() {
        let text = "overrides:\n  - tag: Experimental\n    enabled: false\n  - env: CI=true\n    skills: [a]\n    enabled: false\n";
        let file = SourcesFile::parse(FILE, text).unwrap();
        let disabled = |name: &str, tags: &[&str], env: Option<&str>| {
            let tags = || tags.iter().map(|tag| (*tag).to_owned()).collect();
            let env = |variable: &str| env.filter(|_| variable == "CI").map(str::to_owned);
            file.overrides.iter().any(|one| one.disables(name, tags, env))
        };
        assert!(disabled("a", &["experimental"], None));
        assert!(!disabled("a", &["other"], None));
        assert!(disabled("a", &[], Some("true")));
        assert!(!disabled("a", &[], Some("1")) && !disabled("b", &[], Some("true")));
        for text in [
            "overrides: [{ tag: x, enabled: true }]\n",
            "overrides: [{ tag: x }]\n",
            "overrides: { tag: x }\n",
            "replace: { a/b@v1: c/d }\n",
            "replace: { a/b: http://host/x }\n",
            "replace: { a/b: ./mirror }\n",
            "replace: { a/b: 'https://host/x.zip' }\n",
            "replace: { ./a: 'file:///a' }\n",
        ] {
            assert!(SourcesFile::parse(FILE, text).is_err(), "{text}");
        }
        let text = "replace: { a/b: 'file:///mirror', ./a: ./b }\n";
        let file = SourcesFile::parse(FILE, text).unwrap();
        assert_eq!(file.replace["https://github.com/a/b"].to_string(), "file:///mirror");
        assert_eq!(file.replace["./a"].to_string(), "./b");
    }

    #[test]
    fn unusual_styles_are_refused_rather_than_broken() {
        for text in [
            "skills: {a: owner/repo}\n",
            "{skills: {a: owner/repo}}\n",
            "skills:\n    a: owner/repo\n",
        ] {
            SourcesFile::parse(FILE, text).unwrap();
            assert!(with(text, "b", &wanted("./b", None)).is_err(), "{text}");
        }
    }
}
