//! Offers skills through the protocol's skills extension (SEP-2640): each with its frontmatter as
//! written, and a digest of every file.

use rmcp::ErrorData;
use rmcp::model::{
    DIRECTORY_MIME_TYPE, GetSkillResult, ListResourcesResult, ListSkillsResult,
    PaginatedRequestParams, Resource, Skill as Manifest, SkillFrontmatter, SkillResource,
    SkillResources,
};
use serde_json::{Map, Value};

use super::resources::mime;
use super::{Shared, pages};
use skillhost_catalog::CatalogEntry;
use skillhost_skill::Skill;

/// The extension's limit on files. Its limit on bytes, 16 MiB, is above what a skill may have.
const FILES: usize = 512;
/// Skills per page, and bytes of files to digest for one page.
const PAGE: usize = 50;
const PAGE_BYTES: u64 = 32 << 20;

const SKILL_MD: &str = "SKILL.md";

/// Returns the URI of a skill's file.
pub(super) fn uri(skill: &str, path: &str) -> String {
    format!("skill://{skill}/{}", encoded(path))
}

/// Parses a `skill://` URI into the skill and the path, which is empty for the skill's own folder.
pub(super) fn parts(uri: &str) -> Option<(&str, String)> {
    let (skill, path) =
        uri.strip_prefix("skill://").map(|rest| rest.split_once('/').unwrap_or((rest, "")))?;
    Some((skill, decoded(path)?))
}

impl Shared {
    pub(super) fn list_skills(
        &self,
        request: Option<&PaginatedRequestParams>,
    ) -> Result<ListSkillsResult, ErrorData> {
        let entries = self.entries();
        let rest = pages::after(&entries, request)?;
        let (mut skills, mut bytes, mut taken) = (Vec::new(), 0, 0);
        for entry in rest {
            if skills.len() >= PAGE || bytes >= PAGE_BYTES {
                break;
            }
            taken += 1;
            if let Ok((skill, size)) = self.manifest(entry) {
                skills.push(skill);
                bytes += size;
            }
        }
        let mut result = ListSkillsResult::with_all_items(skills);
        result.next_cursor = pages::next(rest, taken);
        Ok(result)
    }

    pub(super) fn get_skill(&self, uri: &str) -> Result<GetSkillResult, ErrorData> {
        let none = || ErrorData::invalid_params(format!("no skill at {uri}"), None);
        let (name, path) = parts(uri).ok_or_else(none)?;
        let entry = self.entry(name).filter(|_| path == SKILL_MD).ok_or_else(none)?;
        let (skill, _) = self
            .manifest(&entry)
            .map_err(|why| ErrorData::invalid_params(format!("no skill at {uri}: {why}"), None))?;
        Ok(GetSkillResult::new(skill))
    }

    /// Lists the direct children of a folder of a skill.
    pub(super) fn directory(&self, uri: &str) -> Result<ListResourcesResult, ErrorData> {
        let none = || ErrorData::invalid_params(format!("{uri} is not a directory resource"), None);
        let (name, path) = parts(uri)
            .filter(|(_, path)| !path.ends_with('/') && !uri.ends_with('/'))
            .ok_or_else(none)?;
        let skill = self.entry(name).and_then(|entry| self.load(&entry).ok()).ok_or_else(none)?;
        let below = if path.is_empty() { String::new() } else { format!("{path}/") };
        let mut children: Vec<Resource> = Vec::new();
        for file in &skill.files {
            let Some(rest) = file.path.strip_prefix(&below) else { continue };
            let child = match rest.split_once('/') {
                Some((folder, _)) => {
                    Resource::new(self::uri(name, &format!("{below}{folder}")), folder)
                        .with_mime_type(DIRECTORY_MIME_TYPE)
                }
                None => file_resource(&skill, name, &file.path, file.size),
            };
            // Files are sorted by path, so those of one folder are adjacent.
            if children.last().is_none_or(|last| last.uri != child.uri) {
                children.push(child);
            }
        }
        // A folder without files does not exist here: a skill consists of its files.
        if children.is_empty() {
            Err(none())
        } else {
            Ok(ListResourcesResult::with_all_items(children))
        }
    }

    /// Returns a skill's manifest and the size of its files, or why it cannot be served.
    fn manifest(&self, entry: &CatalogEntry) -> Result<(Manifest, u64), String> {
        let skill = self.load(entry).map_err(|_| "it cannot be loaded".to_owned())?;
        let frontmatter = frontmatter(&skill).ok_or("its frontmatter is broken")?;
        if frontmatter.name != *entry.name {
            return Err(format!(
                "its frontmatter names it `{}`, and its folder `{}`",
                frontmatter.name, entry.name
            ));
        }
        let bytes = skill.files.iter().map(|file| file.size).sum();
        if skill.files.len() > FILES {
            return Err("it has more than 512 files".into());
        }
        let digested = |path: &str, size: u64| {
            let content = skill.read(path).ok().filter(|content| content.len() as u64 == size)?;
            Some(SkillResource::from_bytes(uri(&entry.name, served_path(&skill, path)), &content))
        };
        let files: Option<Vec<SkillResource>> = skill
            .files
            .iter()
            .filter(|file| {
                !is_other_skill_md(&skill, &file.path) && !is_linked_folder(&skill, &file.path)
            })
            .map(|file| digested(&file.path, file.size))
            .collect();
        // Files that change while they are read have no valid digest.
        let resources = files
            .filter(|_| skill.is_current())
            .map_or(SkillResources::Dynamic, SkillResources::Files);
        Ok((Manifest::new(uri(&entry.name, SKILL_MD), frontmatter, resources), bytes))
    }
}

/// Returns a file of a skill as a resource.
pub(super) fn file_resource(skill: &Skill, name: &str, path: &str, size: u64) -> Resource {
    let served = served_path(skill, path);
    let base = served.rsplit('/').next().unwrap_or(served);
    if served == SKILL_MD {
        let description = skill.manifest.description.clone();
        return Resource::new(uri(name, served), name)
            .with_description(description)
            .with_mime_type("text/markdown")
            .with_size(size);
    }
    Resource::new(uri(name, served), base).with_mime_type(mime(base)).with_size(size)
}

/// Returns the path under which a file is served: `skill.md` is served as SKILL.md.
fn served_path<'a>(skill: &Skill, path: &'a str) -> &'a str {
    if path == skill.skill_file { SKILL_MD } else { path }
}

/// Returns the path in the skill of a served path.
pub(super) fn own_path<'a>(skill: &'a Skill, path: &'a str) -> &'a str {
    if path == SKILL_MD { &skill.skill_file } else { path }
}

fn is_other_skill_md(skill: &Skill, path: &str) -> bool {
    path == SKILL_MD && skill.skill_file != SKILL_MD
}

/// A symlink to a folder is listed among the files, but has no content.
fn is_linked_folder(skill: &Skill, path: &str) -> bool {
    skill.files.iter().any(|file| file.path == path && file.link.is_some())
        && skill.content.dir().metadata(path).is_ok_and(|found| found.is_dir())
}

/// Returns the frontmatter with every field as written.
fn frontmatter(skill: &Skill) -> Option<SkillFrontmatter> {
    if skill.manifest.recovered {
        return None;
    }
    let text = skill.source[..skill.body_offset].trim_start_matches('\u{feff}').trim();
    let yaml = text.strip_prefix("---")?.trim_end().strip_suffix("---")?;
    let map: Map<String, Value> = serde_saphyr::from_str(yaml).ok()?;
    serde_json::from_value(Value::Object(map)).ok()
}

/// Percent-encodes a path for a URI (RFC 3986).
fn encoded(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte);
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Decodes a percent-encoded path.
pub(super) fn decoded(path: &str) -> Option<String> {
    let mut parts = path.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (hex, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(hex, 16).ok()?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skill_uris_are_parsed_and_encoded() {
        assert_eq!(parts("skill://a/SKILL.md"), Some(("a", "SKILL.md".into())));
        assert_eq!(parts("skill://a"), Some(("a", String::new())));
        assert_eq!(parts("skill://a/b%20c/d"), Some(("a", "b c/d".into())));
        for other in ["file:///a", "skill:/a", "skill://a/%", "skill://a/%ff"] {
            assert_eq!(parts(other), None, "{other}");
        }
        for path in ["a b/c%.md", "ä?#", "x"] {
            assert_eq!(parts(&uri("s", path)), Some(("s", path.into())), "{path}");
        }
    }
}
