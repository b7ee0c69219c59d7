//! Loads the skills that a skill requires. Guests see them at `/skills/NAME`, read-only, with the
//! permissions of the skill that runs: a required skill adds none.
//!
//! Those of a fetched skill are the ones that its lock file names. Any other skill finds them beside
//! its own folder. Their digests are part of the digest by which a run is approved and recorded.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use skillhost_policy::Policy;
use skillhost_policy::diagnostic::{Diagnostic, Severity};
use skillhost_policy::manifest::rules;
use skillhost_policy::source::LockedOrigin;
use skillhost_sandbox::files::{HostDir, OpenMount};
use skillhost_skill::files::Content;
use skillhost_skill::runtime::digest;
use skillhost_skill::{SizeLimits, Skill, SkillError, SkillFolder, SkillListing, SourceKind};

use super::Runner;

/// The most skills that a skill may require, directly or through others.
const MAX: usize = 32;

/// A skill that another one requires.
#[derive(Debug, Clone)]
pub(super) struct RequiredSkill {
    name: String,
    skill: Arc<Skill>,
    content: Arc<Content>,
    digest: String,
}

impl RequiredSkill {
    pub(super) fn mount(&self) -> OpenMount {
        let guest = format!("/skills/{}", self.name);
        OpenMount::skill_at(guest, HostDir::shared(self.content.clone()))
    }

    pub(super) fn is_current(&self) -> bool {
        self.skill.is_current()
    }

    pub(super) fn is_in_place(&self) -> bool {
        self.skill.is_in_place()
    }

    pub(super) fn shows_changes(&self, began: SystemTime) -> bool {
        self.skill.shows_changes(began)
    }
}

/// Returns the digest of a skill together with those of the skills that it requires.
pub(super) fn digest_with(own: String, required: &[RequiredSkill]) -> String {
    if required.is_empty() {
        return own;
    }
    let lines: String =
        required.iter().map(|one| format!("\n{} {}", one.name, one.digest)).collect();
    digest(format!("{own}{lines}").as_bytes())
}

/// Where a required skill is, and what the lock file says about it.
struct Place {
    folder: PathBuf,
    locked: Option<LockedOrigin>,
}

impl Runner {
    /// Loads the skills that a skill requires, sorted by name.
    ///
    /// # Errors
    /// One is missing, has another version or other content, or does not meet the policy.
    pub(super) fn required(
        &self,
        skill: &Skill,
        policy: &Policy,
    ) -> Result<Vec<RequiredSkill>, SkillError> {
        let mut found: BTreeMap<String, RequiredSkill> = BTreeMap::new();
        let direct = skill.manifest.required_skills();
        let mut waiting: VecDeque<(String, semver::VersionReq, String)> = direct
            .map(|(name, version)| (name.to_owned(), version.clone(), skill.name.clone()))
            .collect();
        while let Some((name, version, chain)) = waiting.pop_front() {
            let refuse = |why: String, fix: String| unmet(skill, why, fix);
            if name == skill.name {
                let why = format!("skills require each other: {chain} -> {name}");
                return Err(refuse(why, "remove the line from `metadata.requires`".into()));
            }
            if !found.contains_key(&name) {
                if found.len() == MAX {
                    let why = format!("it requires more than {MAX} skills");
                    return Err(refuse(why, "shorten `metadata.requires`".into()));
                }
                let place = place(skill, &name).ok_or_else(|| missing(skill, &name, &chain))?;
                let sizes = SizeLimits::of(policy);
                let loaded = self.load_required(skill, name.clone(), place, &chain, &sizes)?;
                self.require(&loaded.skill, policy)?;
                let more = loaded.skill.manifest.required_skills();
                waiting.extend(more.map(|(next, version)| {
                    (next.to_owned(), version.clone(), format!("{chain} -> {name}"))
                }));
                found.insert(name.clone(), loaded);
            }
            let is_any = version == semver::VersionReq::STAR;
            let has = found.get(&name).and_then(|loaded| loaded.skill.manifest.version());
            if !is_any && !has.as_ref().is_some_and(|has| version.matches(has)) {
                let has = has.map_or("has no version".to_owned(), |has| format!("is {has}"));
                let why =
                    format!("it requires `{name}` {version}, which {has} ({chain} -> {name})");
                return Err(refuse(why, format!("skillhost update {name}")));
            }
        }
        Ok(found.into_values().collect())
    }

    fn load_required(
        &self,
        skill: &Skill,
        name: String,
        place: Place,
        chain: &str,
        sizes: &SizeLimits,
    ) -> Result<RequiredSkill, SkillError> {
        let locked = place.locked.as_ref();
        let folder = SkillFolder { path: &place.folder, source: skill.origin, locked };
        let listed = match SkillListing::of(folder, sizes) {
            Err(_) if !place.folder.exists() => return Err(missing(skill, &name, chain)),
            listed => listed?,
        };
        let copied = self.copy(&listed).map_err(|error| {
            unmet(skill, format!("cannot read `{name}`, which it requires: {error}"), String::new())
        })?;
        if copied.is_new {
            self.sandbox.note_growth();
        }
        let digest = copied.digests.skill.clone();
        listed.check_lock(&digest)?;
        let content = Arc::new(copied.content);
        let loaded = Arc::new(listed.read_from(content.clone())?);
        // Such a skill runs without a question only while no other user can change its code, of
        // which this is a part.
        let needs_protection = matches!(skill.origin, SourceKind::Policy | SourceKind::BuiltIn);
        if needs_protection && skill.is_protected() && !loaded.is_protected() {
            let why = format!("other users can write to `{name}`, which it requires");
            let fix = format!("chmod -R go-w {}", place.folder.display());
            return Err(unmet(skill, why, fix));
        }
        Ok(RequiredSkill { name, skill: loaded, content, digest })
    }
}

/// Where a required skill is looked for.
fn place(skill: &Skill, name: &str) -> Option<Place> {
    match (skill.origin, &skill.locked) {
        (SourceKind::Fetched, Some(locked)) => {
            let found = locked.requires.iter().find(|one| one.name == name)?;
            Some(Place { folder: found.folder.clone(), locked: Some(found.locked.clone()) })
        }
        (SourceKind::Fetched, None) => None,
        // A name has no `/` and no `..`.
        _ => Some(Place { folder: skill.root.parent()?.join(name), locked: None }),
    }
}

fn missing(skill: &Skill, name: &str, chain: &str) -> SkillError {
    let (where_, fix) = match skill.origin {
        SourceKind::Fetched => ("is not locked", format!("skillhost add SOURCE --as {name}")),
        _ => ("is not beside its folder", format!("put the skill `{name}` there")),
    };
    unmet(skill, format!("it requires `{name}`, which {where_} ({chain} -> {name})"), fix)
}

fn unmet(skill: &Skill, message: String, fix: String) -> SkillError {
    SkillError {
        root: skill.root.clone(),
        diagnostics: vec![Diagnostic {
            severity: Severity::Error,
            rule: rules::REQUIRED_SKILL.name,
            message,
            file: skill.root.display().to_string(),
            span: None,
            fix: Some(fix).filter(|fix| !fix.is_empty()),
        }],
        text: String::new(),
    }
}
