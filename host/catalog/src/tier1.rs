//! Reads what the catalogue knows about a skill: its SKILL.md, and the names of the files next to
//! it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use serde::{Serialize, Serializer};

use super::{CatalogEntry, SearchedSource};
use skillhost_policy::diagnostic::Severity;
use skillhost_policy::entry::{self, EntryList, Permission};
use skillhost_policy::manifest::{self, Manifest};
use skillhost_policy::program_name::script_interpreter;
use skillhost_skill::SizeLimits;
use skillhost_skill::runtime;
use skillhost_skill::scan::{self, FoundSkill};

/// The most names in `scripts/` to look at: enough to recognise the languages.
const MAX_SCRIPTS: usize = 200;
/// The most bytes of the instructions to index: more than the recommended 500 lines.
const MAX_BODY: usize = 64 << 10;

/// The runtime of a skill's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SkillRuntime {
    /// The skill's own WASI component.
    Component,
    /// Python scripts.
    Python,
    /// JavaScript or TypeScript scripts.
    #[serde(rename = "javascript")]
    JavaScript,
    /// Shell scripts.
    Shell,
    /// Nothing runs: the skill is a text for agents.
    Instructions,
}

impl SkillRuntime {
    /// All values.
    pub const ALL: [SkillRuntime; 5] = [
        SkillRuntime::Component,
        SkillRuntime::Python,
        SkillRuntime::JavaScript,
        SkillRuntime::Shell,
        SkillRuntime::Instructions,
    ];
}

/// A set of [`SkillRuntime`]s. The empty set means [`SkillRuntime::Instructions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkillRuntimes(u16);

impl SkillRuntimes {
    /// Checks whether the set contains a runtime.
    pub fn contains(self, runtime: SkillRuntime) -> bool {
        match runtime {
            SkillRuntime::Instructions => self.0 == 0,
            other => self.0 & (1 << other as u8) != 0,
        }
    }

    /// Iterates over the set.
    pub fn iter(self) -> impl Iterator<Item = SkillRuntime> {
        SkillRuntime::ALL.into_iter().filter(move |runtime| self.contains(*runtime))
    }
}

impl FromIterator<SkillRuntime> for SkillRuntimes {
    fn from_iter<I: IntoIterator<Item = SkillRuntime>>(all: I) -> SkillRuntimes {
        SkillRuntimes(
            all.into_iter()
                .filter(|one| *one != SkillRuntime::Instructions)
                .fold(0, |set, one| set | 1 << one as u8),
        )
    }
}

impl Serialize for SkillRuntimes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// The facts from a SKILL.md, as the cache stores them.
pub(super) struct Facts {
    pub(super) skill_file: Box<str>,
    pub(super) flags: u16,
    pub(super) digest: Box<str>,
    pub(super) tags: Vec<Box<str>>,
    pub(super) description: Box<str>,
    /// Empty if the skill has no `argument-hint`.
    pub(super) argument_hint: Box<str>,
}

/// Texts that are indexed and not stored.
pub(super) struct Text {
    pub(super) name: String,
    pub(super) keywords: String,
    pub(super) body: String,
}

const RUNTIMES: u16 = 0b1111;
const NETWORK: u16 = 1 << 4;
const RECOVERED: u16 = 1 << 5;
const SCRIPTS: u16 = 1 << 6;
const USER_ONLY: u16 = 1 << 7;
const AGENT_ONLY: u16 = 1 << 8;
const SINGLE_FILE: u16 = 1 << 9;

/// Checks whether the skill has a folder of scripts, whose stamp counts too.
pub(super) fn has_scripts(flags: u16) -> bool {
    flags & SCRIPTS != 0
}

/// Checks the same for a skill that has not been read yet.
pub(super) fn holds_scripts(found: &FoundSkill) -> bool {
    found.names.iter().any(|name| name == "scripts")
}

/// Returns the flags of a skill that cannot be read.
pub(super) fn flags_of_broken(found: &FoundSkill) -> u16 {
    (if holds_scripts(found) { SCRIPTS } else { 0 }) | if found.is_file { SINGLE_FILE } else { 0 }
}

impl Facts {
    /// Creates the entry of a skill in this folder, or of the skill that is this file.
    pub(super) fn entry(self, folder: PathBuf, from: &SearchedSource) -> CatalogEntry {
        // Almost all skills use this name.
        static SKILL_MD: LazyLock<Arc<str>> = LazyLock::new(|| "SKILL.md".into());
        static NONE: LazyLock<Arc<[Box<str>]>> = LazyLock::new(|| [].into());
        CatalogEntry {
            name: name(&folder, self.flags & SINGLE_FILE != 0).into(),
            description: self.description.into(),
            digest: self.digest.into(),
            folder: folder.into(),
            skill_file: if *self.skill_file == **SKILL_MD {
                SKILL_MD.clone()
            } else {
                self.skill_file.into()
            },
            source: from.kind,
            locked: None,
            position: from.position,
            trusted: from.trusted,
            tags: if self.tags.is_empty() { NONE.clone() } else { self.tags.into() },
            runtimes: SkillRuntimes(self.flags & RUNTIMES),
            network: self.flags & NETWORK != 0,
            recovered: self.flags & RECOVERED != 0,
            user_only: self.flags & USER_ONLY != 0,
            agent_only: self.flags & AGENT_ONLY != 0,
            argument_hint: Some(self.argument_hint.into())
                .filter(|hint: &Arc<str>| !hint.is_empty()),
        }
    }
}

/// Reads a skill's SKILL.md, or explains why it is invalid.
pub(super) fn read(found: &FoundSkill, source: &Path) -> Result<(Facts, Text), String> {
    let name = name(&scan::join(source, &found.path), found.is_file);
    let bytes = found
        .read(SizeLimits::default().skill_md)
        .map_err(|error| format!("cannot read {}: {error}", found.skill_file))?;
    let parsed = manifest::parse(&bytes, &name, &found.skill_file);
    let only =
        |manifest: Manifest| if found.is_file { manifest.instructions_only() } else { manifest };
    let manifest = parsed.manifest.map(only);
    // Without a description, no one could tell what the skill does.
    let Some(manifest) = manifest.filter(|manifest| !manifest.description.is_empty()) else {
        let worst = parsed.diagnostics.iter().find(|d| d.severity == Severity::Error);
        return Err(worst.map_or_else(
            || "it cannot be loaded".to_owned(),
            |d| format!("{} ({})", d.message, d.rule),
        ));
    };
    let mut flags = runtimes(found, &manifest).0 | flags_of_broken(found);
    flags |= if network(&manifest) { NETWORK } else { 0 };
    flags |= if manifest.is_granted_nothing() { RECOVERED } else { 0 };
    flags |= if manifest.user_only { USER_ONLY } else { 0 };
    flags |= if manifest.agent_only { AGENT_ONLY } else { 0 };
    let mut body = parsed.source;
    body.truncate(body.floor_char_boundary(parsed.body_offset + MAX_BODY));
    body.drain(..parsed.body_offset);
    let keywords =
        ["keywords", "tags", "category"].iter().filter_map(|key| manifest.metadata.get(*key));
    let keywords = keywords.map(String::as_str).collect::<Vec<_>>().join(" ");
    let tags = manifest.tags().map(String::into_boxed_str).collect();
    let (skill_file, digest) = (found.skill_file.as_str().into(), runtime::digest(&bytes).into());
    let argument_hint = manifest.argument_hint.unwrap_or_default().into();
    let description = manifest.description.into();
    let facts = Facts { skill_file, flags, digest, tags, description, argument_hint };
    Ok((facts, Text { name, keywords, body }))
}

/// Returns the name of a skill's folder, or of its only file without the extension.
fn name(folder: &Path, is_file: bool) -> String {
    if let Some(name) = folder.file_stem().filter(|_| is_file) {
        return name.to_string_lossy().into_owned();
    }
    let canonical =
        || folder.canonicalize().ok().and_then(|path| path.file_name().map(ToOwned::to_owned));
    folder
        .file_name()
        .map(ToOwned::to_owned)
        .or_else(canonical)
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn network(manifest: &Manifest) -> bool {
    let asked = manifest.allowed_tools.iter().flatten();
    asked.into_iter().any(|tool| {
        let permission = entry::parse_client_name(&tool.text)
            .unwrap_or_else(|| entry::parse(&tool.text, EntryList::AllowedTools));
        matches!(permission, Permission::WebFetch(_))
    })
}

fn runtimes(found: &FoundSkill, manifest: &Manifest) -> SkillRuntimes {
    // Nothing of such a skill runs.
    if manifest.recovered {
        return SkillRuntimes(0);
    }
    let scripts =
        if holds_scripts(found) { found.names_in("scripts", MAX_SCRIPTS) } else { Vec::new() };
    let languages =
        found.names.iter().chain(&scripts).filter_map(|name| match script_interpreter(name)? {
            "python3" => Some(SkillRuntime::Python),
            "node" => Some(SkillRuntime::JavaScript),
            _ => Some(SkillRuntime::Shell),
        });
    manifest.component.iter().map(|_| SkillRuntime::Component).chain(languages).collect()
}
