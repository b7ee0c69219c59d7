//! Reads what other installers remember about the skills that they installed: `skills-lock.json` of
//! `npx skills`, and the pins that `gh skill` writes into the frontmatter of SKILL.md.

use std::collections::BTreeMap;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::manifest;

use crate::error::SourceError;
use crate::names;
use crate::source::Source;

/// The most bytes of a lock file.
pub const MAX_BYTES: u64 = 4 << 20;
/// The most skills of a lock file.
const MAX_SKILLS: usize = 2000;

/// A skill that another installer installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedSkill {
    /// Its name.
    pub name: String,
    /// Where it came from.
    pub source: Source,
    /// The folder in the source; empty at the top.
    pub path: String,
    /// The digest of its files, as `npx skills` computes it.
    pub hash: Option<String>,
}

#[derive(Deserialize)]
struct NpxLock {
    version: u32,
    skills: BTreeMap<String, NpxSkill>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NpxSkill {
    source: String,
    source_type: String,
    #[serde(default)]
    source_url: Option<String>,
    #[serde(default, rename = "ref")]
    reference: Option<String>,
    #[serde(default)]
    skill_path: Option<String>,
    #[serde(default)]
    computed_hash: Option<String>,
}

/// Parses `skills-lock.json` (version 1) or `.skill-lock.json` (version 3) of `npx skills`.
///
/// # Errors
/// The file is neither, or a skill comes from a place that cannot be a source.
pub fn npx(text: &str) -> Result<Vec<ImportedSkill>, SourceError> {
    let invalid =
        |why: String| SourceError::request(why, "npx skills add OWNER/REPO writes the file");
    let lock: NpxLock = serde_json::from_str(text)
        .map_err(|error| invalid(format!("not a lock file of `npx skills`: {error}")))?;
    if !matches!(lock.version, 1 | 3) {
        let why = format!("the lock file has version {}; versions 1 and 3 are known", lock.version);
        return Err(invalid(why));
    }
    if lock.skills.len() > MAX_SKILLS {
        return Err(invalid(format!("the lock file names more than {MAX_SKILLS} skills")));
    }
    lock.skills.into_iter().map(|(name, skill)| skill.imported(name)).collect()
}

impl NpxSkill {
    fn imported(self, name: String) -> Result<ImportedSkill, SourceError> {
        let place = match self.source_type.as_str() {
            "github" => self.source,
            "git" | "gitlab" => self.source_url.unwrap_or(self.source),
            other => {
                let why = format!(
                    "`{}` comes from a place of the kind `{}`, which cannot be imported",
                    printable(&name),
                    printable(other)
                );
                return Err(SourceError::request(why, "skillhost add SOURCE --as NAME"));
            }
        };
        let source = pinned(&place, self.reference.as_deref())?;
        let path = folder(self.skill_path.as_deref().unwrap_or_default())?;
        Ok(ImportedSkill { name, source, path, hash: self.computed_hash })
    }
}

/// Reads the pin in the frontmatter of a SKILL.md that `gh skill install` wrote. `None` if there is
/// none.
///
/// # Errors
/// The pin names a place that cannot be a source.
pub fn gh(skill_md: &[u8], name: &str) -> Result<Option<ImportedSkill>, SourceError> {
    let Some(manifest) = manifest::parse(skill_md, name, "SKILL.md").manifest else {
        return Ok(None);
    };
    let get = |key: &str| manifest.metadata.get(key).map(|text| text.trim());
    let Some(repository) = get("github-repo") else { return Ok(None) };
    // What was pinned comes before what it led to.
    let pin = get("github-pinned").filter(|pin| !matches!(*pin, "" | "true" | "false"));
    let source = pinned(repository, pin.or_else(|| get("github-ref")))?;
    let path = folder(get("github-path").unwrap_or_default())?;
    Ok(Some(ImportedSkill { name: name.to_owned(), source, path, hash: None }))
}

/// Returns a source at a tag, branch or commit.
fn pinned(place: &str, reference: Option<&str>) -> Result<Source, SourceError> {
    let reference = reference.map(|text| {
        let short = text.strip_prefix("refs/heads/").or_else(|| text.strip_prefix("refs/tags/"));
        short.unwrap_or(text)
    });
    match reference.filter(|text| !text.is_empty()) {
        Some(reference) => format!("{place}@{reference}").parse(),
        None => place.parse(),
    }
}

/// Returns the folder of a skill: the path may name its SKILL.md.
fn folder(path: &str) -> Result<String, SourceError> {
    let path = names::parse(path.as_bytes())?;
    let is_file = path.rsplit('/').next().is_some_and(|name| name.eq_ignore_ascii_case("SKILL.md"));
    Ok(if is_file { names::parent(&path).to_owned() } else { path })
}

/// Computes the digest of a skill's files as `npx skills` does: of each path and its content.
pub fn npx_hash<'a>(files: impl Iterator<Item = (&'a str, Vec<u8>)>) -> String {
    let mut files: Vec<(&str, Vec<u8>)> = files.collect();
    files.sort_by(|(a, _), (b, _)| collated(a).cmp(&collated(b)).then_with(|| b.cmp(a)));
    let mut hash = Sha256::new();
    for (path, content) in files {
        hash.update(path.as_bytes());
        hash.update(&content);
    }
    crate::digest::Digest::from(hash).to_string()
}

/// The order of `localeCompare` for names of ASCII: punctuation, digits, letters without case.
fn collated(path: &str) -> Vec<(u8, char)> {
    const PUNCTUATION: &str = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";
    let weight = |one: char| match PUNCTUATION.chars().position(|other| other == one) {
        Some(at) => (0, char::from_u32(at as u32).unwrap_or(one)),
        None if one.is_ascii_digit() => (1, one),
        None => (2, one.to_ascii_lowercase()),
    };
    path.chars().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"{
  "version": 1,
  "skills": {
    "pdf": {
      "source": "acme/skills",
      "sourceType": "github",
      "skillPath": "skills/pdf/SKILL.md",
      "computedHash": "8844f55000000000000000000000000000000000000000000000000000000000"
    },
    "pinned": {
      "source": "acme/skills", "sourceType": "github", "ref": "v1.2", "skillPath": "SKILL.md"
    },
    "other": {
      "source": "acme/x", "sourceType": "git", "sourceUrl": "https://git.example.com/acme/x.git"
    }
  }
}"#;

    #[test]
    fn lock_file_of_npx_skills_is_read() {
        let found = npx(LOCK).unwrap();
        let shown: Vec<String> =
            found.iter().map(|one| format!("{} {} {}", one.name, one.source, one.path)).collect();
        assert_eq!(
            shown,
            [
                "other https://git.example.com/acme/x ",
                "pdf https://github.com/acme/skills skills/pdf",
                "pinned https://github.com/acme/skills@v1.2 ",
            ]
        );
        assert!(found[1].hash.as_ref().unwrap().starts_with("8844f55"));
        let global = LOCK.replace("\"version\": 1", "\"version\": 3");
        assert_eq!(npx(&global).unwrap().len(), 3);
    }

    #[test]
    fn lock_files_that_cannot_be_imported_are_refused() {
        for (text, why) in [
            ("[]", "not a lock file"),
            (r#"{"version":2,"skills":{}}"#, "version 2"),
            (r#"{"version":1,"skills":{"a":{"source":"x","sourceType":"local"}}}"#, "kind `local`"),
            (
                r#"{"version":1,"skills":{"a":{"source":"--x","sourceType":"github"}}}"#,
                "invalid source",
            ),
            (
                r#"{"version":1,"skills":{"a":{"source":"a/b","sourceType":"github","skillPath":"../x"}}}"#,
                "..",
            ),
        ] {
            let error = npx(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    /// As `gh skill install --pin` writes it.
    const PINNED: &str = "---\ndescription: Does a thing.\nmetadata:\n    github-path: plugins/test/skills/filter\n    github-pinned: v1.0.0\n    github-ref: refs/tags/v1.0.0\n    github-repo: https://github.com/acme/skills\n    github-tree-sha: 852508c90bde5e11124f12fd97ec579a1bd5a65d\nname: filter\n---\nText.\n";

    #[test]
    fn pins_of_gh_skill_are_read() {
        let found = |text: &str| gh(text.as_bytes(), "filter").unwrap();
        let pinned = found(PINNED).unwrap();
        assert_eq!(pinned.source.to_string(), "https://github.com/acme/skills@v1.0.0");
        assert_eq!(pinned.path, "plugins/test/skills/filter");
        let branch = PINNED
            .replace("    github-pinned: v1.0.0\n", "")
            .replace("refs/tags/v1.0.0", "refs/heads/main");
        assert_eq!(
            found(&branch).unwrap().source.to_string(),
            "https://github.com/acme/skills@main"
        );
        assert_eq!(found("---\nname: filter\ndescription: Does a thing.\n---\n"), None);
        let outside = PINNED.replace("plugins/test", "../test");
        assert!(gh(outside.as_bytes(), "filter").is_err());
    }

    #[test]
    fn files_are_digested_as_npx_skills_does() {
        let files =
            [("SKILL.md", b"x".to_vec()), ("a/b.md", b"y".to_vec()), ("LICENSE", b"z".to_vec())];
        let hash = npx_hash(files.iter().map(|(path, content)| (*path, content.clone())));
        // `a/b.md`, `LICENSE`, `SKILL.md`, each with its content.
        assert_eq!(hash, crate::digest::Digest::of(b"a/b.mdyLICENSEzSKILL.mdx").to_string());
    }
}
