//! The skills that a command may mean: those in the client's folders, and those of the catalog.
//!
//! A folder is recognized by its device and inode, so symlinks, `..` and other names of it mean the
//! same skill.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use skillhost_catalog::{CatalogEntry, ScanProblem, ShadowedSkill};
use skillhost_skill::runtime::dispatch::{FileKind, classify};
use skillhost_skill::{LockedOrigin, SourceKind};

use super::configuration;
use crate::args::skills::{STANDARD, Skills};
use crate::context::Context;
use crate::error::CliError;

/// A folder of a skill.
#[derive(Debug)]
pub(super) struct KnownSkill {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    /// Its source, if its name means this folder in the catalog.
    pub(super) source: Option<SourceKind>,
    /// What the lock file says about it, if it was fetched.
    pub(super) locked: Option<Arc<LockedOrigin>>,
}

/// A path that leads to a skill.
pub(super) struct Place<'a> {
    pub(super) skill: &'a KnownSkill,
    /// The rest of the path in the skill's folder.
    pub(super) rest: PathBuf,
}

impl Place<'_> {
    /// Whether the file's name is that of a script. Reads nothing.
    pub(super) fn is_script(&self) -> bool {
        let kind = classify(&self.rest.to_string_lossy(), b"");
        matches!(kind, FileKind::Script(_) | FileKind::UnsupportedScript { .. })
    }
}

type FolderId = (u64, u64);

#[derive(Default)]
pub(super) struct KnownSkills {
    skills: Vec<KnownSkill>,
    /// Index into `skills`, by device and inode.
    ids: HashMap<FolderId, usize>,
}

/// The most folders that a command names in which its other words are looked up.
const MAX_FOLDERS: usize = 200;

impl KnownSkills {
    /// Finds the skills for commands in these folders.
    pub(super) fn find(
        context: &Context,
        skills: &Skills,
        folders: &[&Path],
    ) -> Result<KnownSkills, CliError> {
        let mut known = KnownSkills::default();
        let catalog = context.catalog(skills)?;
        for CatalogEntry { name, folder, source, locked, .. } in catalog.entries().iter() {
            known.add(name, folder, Some(*source), locked.clone());
        }
        for ShadowedSkill { name, folder, .. } in catalog.shadowed().iter() {
            known.add(name, folder, None, None);
        }
        for ScanProblem { folder, .. } in catalog.problems().iter() {
            known.add(&file_name(folder), folder, None, None);
        }
        // The client also looks above the current folder, and in the folder in which it was started.
        let project = configuration::project_folder();
        let above = folders.iter().copied().chain(project.as_deref()).flat_map(Path::ancestors);
        let mut sources: BTreeSet<PathBuf> =
            above.flat_map(|folder| STANDARD.map(|name| folder.join(name))).collect();
        sources.insert(configuration::user_folder(&context.places.home).join("skills"));
        sources.iter().for_each(|source| known.add_all(source));
        Ok(known)
    }

    /// Adds every folder in a folder of skills.
    fn add_all(&mut self, source: &Path) {
        #[expect(clippy::disallowed_methods, reason = "the client's own folders of skills")]
        let entries = std::fs::read_dir(source);
        for entry in entries.into_iter().flatten().flatten() {
            self.add(&entry.file_name().to_string_lossy(), &entry.path(), None, None);
        }
    }

    /// Adds a folder, unless it is known by another name already. A skill that is a single file runs
    /// nothing.
    fn add(
        &mut self,
        name: &str,
        folder: &Path,
        source: Option<SourceKind>,
        locked: Option<Arc<LockedOrigin>>,
    ) {
        if let Some(id) = folder_id(folder) {
            let next = self.skills.len();
            self.ids.entry(id).or_insert_with(|| {
                self.skills.push(KnownSkill {
                    name: name.to_owned(),
                    folder: folder.to_owned(),
                    source,
                    locked,
                });
                next
            });
        }
    }

    /// Finds the skill to which a word leads, as a path from `base`: by the path as it is written,
    /// and by the one without links.
    pub(super) fn locate(&self, base: &Path, word: &str) -> Option<Place<'_>> {
        if word.is_empty() || word.contains('\0') {
            return None;
        }
        let spelled = base.join(word);
        let real = canonical(&spelled);
        real.iter().chain([&spelled]).find_map(|path| {
            path.ancestors().find_map(|folder| {
                let skill = &self.skills[*self.ids.get(&folder_id(folder)?)?];
                let rest = path.strip_prefix(folder).unwrap_or(Path::new("")).to_owned();
                Some(Place { skill, rest })
            })
        })
    }

    /// Finds a skill that the text of a command mentions. Looks up everything in it that may be a
    /// path; if the text is a program of a shell (`textual`), also compares names, because variables
    /// and patterns may complete a path.
    pub(super) fn mention(&self, base: &Path, text: &str, textual: bool) -> Option<Place<'_>> {
        if self.skills.is_empty() {
            return None;
        }
        // Quotes may stand anywhere in a path.
        let text: String = text.replace("\\\n", "").replace(['\'', '"', '\\'], "");
        let words: BTreeSet<&str> =
            text.split(|c: char| c.is_whitespace() || ";&|<>(){}$`=,:!".contains(c)).collect();
        let named = textual.then(|| self.named_in(base, &text)).flatten();
        named.or_else(|| self.located_among(base, &words))
    }

    /// Finds a skill to which one of the words leads, from `base` or from a folder that another word
    /// names, as after `cd`.
    fn located_among(&self, base: &Path, words: &BTreeSet<&str>) -> Option<Place<'_>> {
        let names: BTreeSet<&str> = self.skills.iter().map(|skill| skill.name.as_str()).collect();
        let folders = words.iter().map(|word| base.join(word));
        // Other words do not count, or a long command could hide the one that matters.
        let folders = folders.filter(|folder| folder != base && folder.is_dir()).take(MAX_FOLDERS);
        for folder in [base.to_owned()].into_iter().chain(folders) {
            // Most words of a long text start with the name of no file.
            let mut exists: HashMap<Component<'_>, bool> = HashMap::new();
            let found = words.iter().find_map(|word| {
                let mut parts = Path::new(word).components();
                let first = parts.next()?;
                let first = if first == Component::RootDir { parts.next()? } else { first };
                let start = if word.starts_with('/') { Path::new("/") } else { folder.as_path() };
                let is_path = word.contains('/') || names.contains(word);
                let is_there = is_path
                    && *exists
                        .entry(first)
                        .or_insert_with(|| start.join(first).symlink_metadata().is_ok());
                if is_there { self.locate(&folder, word) } else { None }
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Finds a skill whose files a text names by the end of their paths: `skills/NAME`, a folder of
    /// skills, or `NAME/` and the name of a file in it.
    fn named_in(&self, base: &Path, text: &str) -> Option<Place<'_>> {
        let is_inside = self.locate(base, ".");
        let named =
            self.skills.iter().find(|skill| text.contains(&skill.name) && names_file(text, skill));
        let found = named.or_else(|| {
            self.skills.iter().find(|skill| {
                let source = parent(&skill.folder);
                names_tail(text, parent(source), &file_name(source))
                    // The variable that instructions use for the skill's folder.
                    || text.contains("CLAUDE_SKILL_DIR")
            })
        });
        is_inside.or_else(|| found.map(|skill| Place { skill, rest: PathBuf::new() }))
    }
}

/// Whether a text has the name of a skill after that of its parent, or before that of one of its
/// files.
fn names_file(text: &str, skill: &KnownSkill) -> bool {
    if names_tail(text, parent(&skill.folder), &skill.name) {
        return true;
    }
    #[expect(clippy::disallowed_methods, reason = "a folder of the catalog or of the client")]
    let entries = std::fs::read_dir(&skill.folder);
    let mut names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.any(|name| names_tail(text, &skill.folder, &name.to_string_lossy()))
}

/// Whether a text has the name of a folder and of something in it.
fn names_tail(text: &str, folder: &Path, name: &str) -> bool {
    has_path(text, &format!("{}/{name}", file_name(folder)))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn file_name(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// Whether a text contains a path, not as a part of longer names.
fn has_path(text: &str, path: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    text.match_indices(path).any(|(at, _)| {
        !text[..at].ends_with(is_name) && !text[at + path.len()..].starts_with(is_name)
    })
}

fn folder_id(folder: &Path) -> Option<FolderId> {
    let found = rustix::fs::stat(folder).ok()?;
    let is_folder = rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir();
    is_folder.then_some((found.st_dev, found.st_ino))
}

/// Follows the links of a path whose last parts may not exist.
fn canonical(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|existing| {
        let rest = path.strip_prefix(existing).ok()?;
        Some(existing.canonicalize().ok()?.join(rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_between_names_only() {
        for (text, expected) in [
            ("a skills/x b", true),
            ("$HOME/.claude/skills/x/scripts", true),
            ("skills/x", true),
            ("skills/xy", false),
            ("my-skills/x", false),
            ("skills/x.bak", false),
            ("skills /x", false),
        ] {
            assert_eq!(has_path(text, "skills/x"), expected, "{text}");
        }
    }
}
