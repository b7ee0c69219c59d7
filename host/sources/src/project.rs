//! The skills of one sources file: adding, removing, synchronising, updating and verifying them.
//!
//! The lock file decides what runs. Every change first puts the files into the store, and then
//! replaces the sources file and the lock file together.

mod transfers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use skillhost_policy::diagnostic::printable;
use skillhost_policy::manifest::{self, Manifest};
use skillhost_policy::source::SourceKind;
use skillhost_skill::{SizeLimits, Skill, SkillError, SkillFolder};

use crate::digest::{Digest, Listing};
use crate::document::name_problem;
use crate::error::SourceError;
use crate::fetch::{self, Fetched, Locked, Offer, Selection, Surroundings, offered};
use crate::import;
use crate::journal;
use crate::limits::TransferLimits;
use crate::lock::{self, Lock, LockedSkill};
use crate::network::Network;
use crate::requires;
use crate::signature::{SignedFiles, Trust, TrustedKeys};
use crate::skills::{self, FoundSkill};
use crate::source::Source;
use crate::store::{Collected, Store, StoreLock, StoreUse};
use crate::wanted::{SourcesFile, WantedSkill};
use transfers::Transfers;

/// What a skill without `allowed-tools` requests: everything that the policy allows every skill.
pub const EVERYTHING: &str = "*";

/// A sources file, its lock file, and the store.
#[derive(Debug)]
pub struct Project {
    file: PathBuf,
    lock_file: PathBuf,
    home: PathBuf,
    store: Store,
    limits: TransferLimits,
    trust: Trust,
    /// The digest that the sources file must have.
    confirmed: Option<Digest>,
    /// Whether the sources file is the user's own.
    own: bool,
    /// The places that others are fetched from, by the place that they replace.
    replace: BTreeMap<String, Source>,
    env: fn(&str) -> Option<String>,
}

/// What to add.
#[derive(Debug, Clone)]
pub struct AddRequest {
    /// Where it comes from.
    pub source: Source,
    /// The name; without one, that of the skill's folder.
    pub name: Option<String>,
    /// The folder of the skill in the source, or the name of one of its skills.
    pub path: Option<String>,
    /// Whether all skills of the source are added.
    pub all: bool,
    /// Whether the submodules of a repository are fetched, too.
    pub submodules: bool,
}

/// Skills that were fetched and not yet added.
#[derive(Debug)]
pub struct Addition {
    source: Source,
    fetched: Fetched,
    /// The skills, by the names that they will have.
    pub skills: BTreeMap<String, FoundSkill>,
    /// Whether a path has to be stored, because the source has several skills.
    several: bool,
    submodules: bool,
    /// Keeps what is imported until it is locked.
    _use: StoreUse,
}

impl Addition {
    /// Checks whether the skills come from the same place as others.
    pub fn is_from(&self, source: &Source) -> bool {
        self.source.place == source.place
    }

    /// Returns what the source led to, as the lock file writes it.
    pub fn revision(&self) -> &str {
        &self.fetched.revision
    }

    /// Checks whether the files of the only skill have this digest, as `npx skills` computes it.
    ///
    /// # Errors
    /// A staged file was modified.
    pub fn has_hash(&self, hash: &str) -> Result<bool, SourceError> {
        let mut skills = self.skills.values();
        let (Some(skill), None) = (skills.next(), skills.next()) else { return Ok(true) };
        let mut files = Vec::new();
        for (path, file) in &skill.files {
            files.push((path.as_str(), self.fetched.staged.read(&file.staged)?));
        }
        Ok(import::npx_hash(files.into_iter()) == hash)
    }
}

/// The skills of a lock file that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// A folder with these skills, by their names.
    pub view: PathBuf,
    /// The skills.
    pub skills: BTreeMap<String, LockedSkill>,
    /// Skills that are not fetched as locked.
    pub missing: Vec<String>,
    /// What this host remembers of where each skill is from; see
    /// [`read_objects`](crate::store::read_objects).
    pub origins: BTreeMap<String, PathBuf>,
}

/// What changed for a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Change {
    /// The skill.
    pub name: String,
    /// What happened.
    pub kind: ChangeKind,
    /// The revision before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The revision now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The files that differ.
    pub files: Vec<FileChange>,
    /// Permissions that it requests now and did not before.
    pub more_permissions: Vec<String>,
    /// Permissions that it requested before.
    pub fewer_permissions: Vec<String>,
    /// Whether it has another component.
    pub component_changed: bool,
    /// The keys that had signed it and have not signed what it is now.
    pub signatures_lost: Vec<String>,
}

/// What happened to a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// It was locked for the first time.
    Added,
    /// Its lock was replaced.
    Updated,
    /// Its lock was removed.
    Removed,
    /// Its files were fetched again, as locked.
    Fetched,
    /// Nothing.
    Unchanged,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct FileChange {
    /// The path.
    pub path: String,
    /// The digest before; absent if the file is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Digest>,
    /// The digest now; absent if the file is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Digest>,
}

impl Change {
    fn new(
        name: &str,
        kind: ChangeKind,
        before: Option<&LockedSkill>,
        after: Option<&LockedSkill>,
    ) -> Change {
        let empty = Listing::default();
        let files = |skill: Option<&LockedSkill>| {
            skill.map_or_else(|| empty.clone(), |skill| skill.files.clone())
        };
        let permissions = |skill: Option<&LockedSkill>| {
            skill.map(|skill| skill.permissions.clone()).unwrap_or_default()
        };
        let without = |all: &[String], other: &[String]| -> Vec<String> {
            all.iter().filter(|item| !other.contains(item)).cloned().collect()
        };
        let (old, new) = (permissions(before), permissions(after));
        let component = |skill: &LockedSkill| {
            skill.component.as_ref().map(|path| (path.clone(), skill.files.0.get(path).copied()))
        };
        let both = before.zip(after);
        Change {
            name: name.to_owned(),
            kind,
            from: before.map(|skill| skill.revision.clone()),
            to: after.map(|skill| skill.revision.clone()),
            files: file_changes(&files(before), &files(after)),
            more_permissions: without(&new, &old),
            fewer_permissions: without(&old, &new),
            component_changed: both
                .is_some_and(|(before, after)| component(before) != component(after)),
            signatures_lost: both
                .map(|(before, after)| without(&before.signatures, &after.signatures))
                .unwrap_or_default(),
        }
    }

    /// Says why an updated skill needs approval again although its old version had it. Every changed
    /// skill needs approval; these reasons deserve a look.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.kind != ChangeKind::Updated {
            return reasons;
        }
        if !self.more_permissions.is_empty() {
            reasons.push(format!("it requests more: {}", self.more_permissions.join(", ")));
        }
        if self.component_changed {
            reasons.push("its component changed".to_owned());
        }
        for key in &self.signatures_lost {
            reasons.push(format!("it is no longer signed by {key}"));
        }
        reasons
    }
}

fn file_changes(before: &Listing, after: &Listing) -> Vec<FileChange> {
    let mut paths: Vec<&String> = before.0.keys().chain(after.0.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    let change = |path: &String| FileChange {
        path: path.clone(),
        before: before.0.get(path).copied(),
        after: after.0.get(path).copied(),
    };
    paths.into_iter().map(change).filter(|change| change.before != change.after).collect()
}

/// Why a skill of the lock file cannot be used as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Mismatch {
    /// The skill.
    pub name: String,
    /// The difference.
    pub why: String,
}

/// The result of [`Project::ci`].
#[derive(Debug, Default)]
pub struct Verification {
    /// What was done with each skill.
    pub changes: Vec<Change>,
    /// The differences to the lock file.
    pub mismatches: Vec<Mismatch>,
    /// How many files were read.
    pub files: usize,
}

/// The most threads that read stored skills. More would wait for the disk or for memory.
const MAX_THREADS: usize = 8;

/// A locked skill that was compared with the store.
struct Checked {
    /// Whether the store has its files, and they were fetched from its source.
    is_stored: bool,
    /// The differences.
    problems: Vec<String>,
}

impl Checked {
    fn mismatches(self, name: &str) -> impl Iterator<Item = Mismatch> {
        self.problems.into_iter().map(move |why| Mismatch { name: name.to_owned(), why })
    }
}

impl Project {
    /// Opens the project of a sources file, which may be missing, with the store in the host's state
    /// folder. Finishes a change that was interrupted.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn open(file: &Path, state: &Path, home: &Path) -> Result<Project, SourceError> {
        let fail = |error| SourceError::io(format!("find {}", file.display()), error);
        let file = std::path::absolute(file).map_err(fail)?;
        let lock_file = file.with_file_name(lock::FILE);
        let store = Store::open(state)?;
        if journal::is_interrupted(&store, &file) {
            let _lock = store.lock()?;
            journal::recover(&store, &file)?;
        }
        let (home, limits) = (home.to_owned(), TransferLimits::default());
        Ok(Project {
            file,
            lock_file,
            home,
            store,
            limits,
            trust: Trust::default(),
            confirmed: None,
            own: false,
            replace: BTreeMap::new(),
            env: |_| None,
        })
    }

    /// Uses the sources file only while it has this digest: what a person confirmed is what is used,
    /// even if the file changes meanwhile.
    #[must_use]
    pub fn confirmed(self, digest: Digest) -> Project {
        Project { confirmed: Some(digest), ..self }
    }

    /// Looks up variables for overrides with this function.
    #[must_use]
    pub fn with_env(self, env: fn(&str) -> Option<String>) -> Project {
        Project { env, ..self }
    }

    /// Treats the sources file as the user's own, which may replace places.
    ///
    /// # Errors
    /// The file is invalid.
    pub fn of_user(self) -> Result<Project, SourceError> {
        let own = Project { own: true, ..self };
        // Other files are in other folders, so relative paths become absolute.
        let base = own.file.parent().unwrap_or(Path::new("/"));
        let absolute = |source: Source| source.rebased(base, Path::new("/dev/null"));
        let SourcesFile { replace, limits, .. } = own.wanted()?;
        let replace = replace.into_iter().map(|(from, to)| (from, absolute(to))).collect();
        Ok(Project { replace, limits, ..own })
    }

    /// Fetches from other places where the user's file replaces them.
    #[must_use]
    pub fn with_replacements(self, replace: BTreeMap<String, Source>) -> Project {
        Project { replace, ..self }
    }

    /// Limits transfers as the user's file says.
    #[must_use]
    pub fn with_limits(self, limits: TransferLimits) -> Project {
        Project { limits, ..self }
    }

    /// Returns the limits of transfers.
    pub fn limits(&self) -> &TransferLimits {
        &self.limits
    }

    /// Returns the places that others are fetched from, by the place that they replace.
    pub fn replacements(&self) -> &BTreeMap<String, Source> {
        &self.replace
    }

    /// Returns where a source is fetched from.
    pub fn place_of(&self, source: &Source) -> Source {
        let place = Source { reference: None, ..source.clone() }.to_string();
        match self.replace.get(&place) {
            Some(other) => Source { reference: source.reference.clone(), ..other.clone() },
            None => source.clone(),
        }
    }

    /// Uses the sources file as this host has changed it, if only a confirmed one is used.
    #[must_use]
    pub fn changed(self, digest: Digest) -> Project {
        let confirmed = self.confirmed.map(|_| digest);
        Project { confirmed, ..self }
    }

    /// Verifies signatures with these keys.
    #[must_use]
    pub fn with_keys(self, keys: impl TrustedKeys + 'static) -> Project {
        self.with_trust(Trust::new(keys))
    }

    /// Verifies signatures of these signers.
    #[must_use]
    pub fn with_trust(self, trust: Trust) -> Project {
        Project { trust, ..self }
    }

    /// Returns the path of the sources file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the path of the lock file.
    pub fn lock_file(&self) -> &Path {
        &self.lock_file
    }

    /// Reads the sources file.
    ///
    /// # Errors
    /// The file is invalid.
    pub fn wanted(&self) -> Result<SourcesFile, SourceError> {
        self.parse(&self.text()?)
    }

    fn parse(&self, text: &str) -> Result<SourcesFile, SourceError> {
        let file = SourcesFile::parse(&self.file.display().to_string(), text)?;
        let widens = [
            (!file.replace.is_empty(), "replaces places", "replace"),
            (file.limits != TransferLimits::default(), "sets limits", "limits"),
            (
                file.skills.values().any(|skill| skill.section.is_some()),
                "chooses sections of the policy",
                "policy",
            ),
        ];
        let widens = widens.into_iter().find(|(holds, ..)| *holds && !self.own);
        let Some((_, does, key)) = widens else { return Ok(file) };
        let why = format!("{} {does}, which only your own file may", self.file.display());
        let fix = format!("move `{key}` to skills.yaml in your configuration folder");
        Err(SourceError::request(why, fix))
    }

    /// Reads the text of the sources file, which must be the confirmed one.
    fn text(&self) -> Result<String, SourceError> {
        let text = journal::read(&self.file)?;
        match self.confirmed {
            Some(confirmed) if Digest::of(text.as_bytes()) != confirmed => {
                let why = format!("{} was changed after it was confirmed", self.file.display());
                Err(SourceError::request(why, "read it, and try again"))
            }
            _ => Ok(text),
        }
    }

    /// Reads the lock file. One that does not exist locks nothing.
    ///
    /// # Errors
    /// The file is invalid.
    pub fn locked(&self) -> Result<Lock, SourceError> {
        let text = journal::read(&self.lock_file)?;
        match text.is_empty() {
            true => Ok(Lock::default()),
            false => Lock::parse(&self.lock_file.display().to_string(), &text),
        }
    }

    /// Returns the digest of the sources file, by which a person confirms it, and what it names.
    ///
    /// # Errors
    /// The file cannot be read, or is invalid.
    pub fn to_confirm(&self) -> Result<(Digest, SourcesFile), SourceError> {
        let text = self.text()?;
        Ok((Digest::of(text.as_bytes()), self.parse(&text)?))
    }

    /// Returns the digest of the sources file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn digest(&self) -> Result<Digest, SourceError> {
        Ok(Digest::of(self.text()?.as_bytes()))
    }

    /// Returns the enabled skills of the lock file that are locked from the source that the sources
    /// file names, and were fetched from there by this host.
    ///
    /// # Errors
    /// A file is invalid, or the view cannot be created.
    pub fn installed(&self) -> Result<Installed, SourceError> {
        let (wanted, lock) = (self.wanted()?, self.locked()?);
        let enabled =
            |name: &String| wanted.skills.get(name).filter(|wanted| wanted.enabled).cloned();
        let is_disabled = |name: &str, locked: &LockedSkill| {
            let tags = || self.tags(locked);
            wanted.overrides.iter().any(|one| one.disables(name, tags, self.env))
        };
        let (mut skills, mut missing) = (BTreeMap::new(), Vec::new());
        let mut origins = BTreeMap::new();
        for (name, locked) in lock.skills {
            let Some(wanted) = enabled(&name) else { continue };
            if is_disabled(&name, &locked) {
                continue;
            }
            let origin = self.origin(&wanted, &locked);
            let is_here = agrees(&wanted, &locked)
                && self.store.has(&locked.digest)
                && self.store.has_origin(&origin);
            match is_here {
                true => {
                    origins.insert(name.clone(), self.store.origin_path(&origin));
                    skills.insert(name, locked);
                }
                false => missing.push(name),
            }
        }
        let digests = skills.iter().map(|(name, skill)| (name.clone(), skill.digest)).collect();
        Ok(Installed { view: self.store.view(&digests)?, skills, missing, origins })
    }

    /// Returns the tags of a stored skill.
    fn tags(&self, locked: &LockedSkill) -> Vec<String> {
        let is_skill_md = |path: &&String| path.eq_ignore_ascii_case("SKILL.md");
        let Some(file) = locked.files.0.keys().find(is_skill_md) else { return Vec::new() };
        let text = self.store.read_top(&locked.digest, file, self.limits.skill.skill_md);
        let manifest = text.ok().and_then(|text| manifest::parse(&text, "", file).manifest);
        manifest.iter().flat_map(Manifest::tags).collect()
    }

    /// Fetches what is to be added, and changes nothing else.
    ///
    /// # Errors
    /// The source cannot be fetched, has no such skill, or has several, or what a skill requires
    /// cannot be read.
    pub fn fetch(
        &self,
        request: &AddRequest,
        network: &dyn Network,
    ) -> Result<Addition, SourceError> {
        let selection = match &request.path {
            Some(path) => Selection::Named(path),
            None if request.all => Selection::All,
            None => Selection::Only,
        };
        let (kept, temporary) = (self.store.keep_all()?, self.temporary());
        let around = Surroundings { submodules: request.submodules, ..self.around(&temporary) };
        let fetched =
            fetch::fetch(&self.place_of(&request.source), selection, Locked::Not, around, network)?;
        let all = skills::find(&fetched.staged, "");
        let chosen = choose(&all, request)?;
        let mut found = BTreeMap::new();
        for path in &chosen {
            let skill = skills::read(&fetched.staged, path, &self.limits)?;
            let name = request.name.clone().unwrap_or_else(|| skill.name.clone());
            if let Some((why, fix)) = name_problem(&name) {
                return Err(SourceError::request(why, format!("choose a name: --as NAME ({fix})")));
            }
            if let Some(other) = found.insert(name.clone(), skill) {
                let why = format!(
                    "two skills of the source are named `{name}`: one is in `{}`",
                    printable(&other.path)
                );
                return Err(SourceError::request(
                    why,
                    "add them one by one: --path FOLDER --as NAME",
                ));
            }
        }
        self.add_required(&fetched, &all, &mut found)?;
        let source = request.source.clone();
        let several = all.len() > 1 || fetched.is_partial;
        let submodules = request.submodules;
        Ok(Addition { source, fetched, skills: found, several, submodules, _use: kept })
    }

    /// Returns the skills that a source offers, and changes nothing.
    ///
    /// # Errors
    /// The source cannot be fetched.
    pub fn offers(
        &self,
        source: &Source,
        network: &dyn Network,
    ) -> Result<Vec<Offer>, SourceError> {
        fetch::offers(&self.place_of(source), self.around(&self.temporary()), network)
    }

    /// Adds the skills of the same source that others of it require, unless the name is used already.
    fn add_required(
        &self,
        fetched: &Fetched,
        all: &[String],
        found: &mut BTreeMap<String, FoundSkill>,
    ) -> Result<(), SourceError> {
        let wanted = self.wanted()?;
        let mut paths: BTreeMap<&str, &String> = BTreeMap::new();
        for path in all {
            paths.entry(path.rsplit('/').next().unwrap_or_default()).or_insert(path);
        }
        let required = |skill: &FoundSkill| -> Vec<String> {
            skill.manifest.required_skills().map(|(name, _)| name.to_owned()).collect()
        };
        // The source has chosen how many there are, so nothing is searched for again and again.
        let mut waiting: Vec<String> = found.values().flat_map(required).collect();
        while let Some(name) = waiting.pop() {
            if found.contains_key(&name) || wanted.skills.contains_key(&name) {
                continue;
            }
            let Some(path) = paths.get(name.as_str()) else { continue };
            let skill = skills::read(&fetched.staged, path, &self.limits)?;
            waiting.extend(required(&skill));
            found.insert(name, skill);
        }
        Ok(())
    }

    /// Adds what was fetched. A skill that has the name already is replaced: the caller has asked.
    /// Returns the digest of the new sources file, too.
    ///
    /// # Errors
    /// A skill is invalid, or a file cannot be written. Nothing is added then.
    pub fn add(&self, addition: Addition) -> Result<(Vec<Change>, Digest), SourceError> {
        let Addition { source, fetched, skills, several, submodules, _use } = addition;
        let change = self.begin()?;
        let (text, mut lock) = (self.text()?, self.locked()?);
        let known = self.parse(&text)?;
        let (mut wanted, mut changes) = (BTreeMap::new(), Vec::new());
        for (name, skill) in &skills {
            let path = Some(skill.path.clone()).filter(|path| several && !path.is_empty());
            let want = WantedSkill {
                source: source.clone(),
                path,
                enabled: true,
                submodules,
                // A section restricts, too, so a skill must not lose it by being added again.
                section: known.skills.get(name).and_then(|old| old.section.clone()),
            };
            let new = self.import(&fetched, &want, skill)?;
            let old = lock.skills.insert(name.clone(), new.clone());
            changes.push(Change::new(name, ChangeKind::Added, old.as_ref(), Some(&new)));
            wanted.insert(name.clone(), want);
        }
        let text = SourcesFile::with(&text, &wanted)?;
        self.commit(&change, Some(&text), &lock)?;
        Ok((changes, Digest::of(text.as_bytes())))
    }

    /// Removes a skill from both files. Returns the digest of the new sources file, too.
    ///
    /// # Errors
    /// There is no such skill, or a file cannot be written.
    pub fn remove(&self, name: &str) -> Result<(Change, Digest), SourceError> {
        let change = self.begin()?;
        let (text, mut lock) = (self.text()?, self.locked()?);
        let wanted = self.parse(&text)?;
        let old = lock.skills.remove(name);
        if old.is_none() && !wanted.skills.contains_key(name) {
            let why = format!("{} names no skill `{}`", self.file.display(), printable(name));
            return Err(SourceError::request(why, "skillhost list"));
        }
        let text = SourcesFile::without(&text, name)?;
        self.commit(&change, Some(&text), &lock)?;
        let change = Change::new(name, ChangeKind::Removed, old.as_ref(), None);
        Ok((change, Digest::of(text.as_bytes())))
    }

    /// Removes the stored files that no lock file of this host names. `None` if another command
    /// fetches at the moment, whose files are not locked yet.
    ///
    /// # Errors
    /// A lock file is invalid, or the file system fails. Nothing is removed then.
    pub fn collect(state: &Path) -> Result<Option<Collected>, SourceError> {
        let store = Store::open(state)?;
        let Some(guard) = store.stop_uses()? else { return Ok(None) };
        let _lock = store.lock()?;
        let mut named = std::collections::BTreeSet::new();
        for file in store.projects()? {
            journal::recover(&store, &file)?;
            let lock_file = file.with_file_name(lock::FILE);
            let text = journal::read(&lock_file)?;
            if !text.is_empty() {
                let lock = Lock::parse(&lock_file.display().to_string(), &text)?;
                named.extend(lock.skills.values().map(|skill| skill.digest));
            }
        }
        store.collect(&guard, &named).map(Some)
    }

    /// Makes the lock file and the store what the sources file says: fetches what is missing, locks
    /// what is new, and removes the locks of skills that are no longer wanted. With `frozen`, the
    /// lock file must be complete already and stays as it is.
    ///
    /// # Errors
    /// A source cannot be fetched or is not what the lock file says.
    pub fn sync(&self, frozen: bool, network: &dyn Network) -> Result<Vec<Change>, SourceError> {
        let mut transfers = Transfers::start(self, network)?;
        let (wanted, mut lock) = (self.wanted()?, self.locked()?);
        if frozen {
            self.check_locked(&wanted, &lock)?;
        }
        let mut changes = Vec::new();
        for (name, wanted) in &wanted.skills {
            match lock.skills.get(name).filter(|locked| agrees(wanted, locked)) {
                Some(locked) => {
                    let is_from_there = self.store.has_origin(&self.origin(wanted, locked));
                    let kind = match self.store.verify(&locked.digest, &locked.files) {
                        Ok(()) if is_from_there => ChangeKind::Unchanged,
                        _ => {
                            self.restore(name, wanted, locked, &mut transfers)?;
                            ChangeKind::Fetched
                        }
                    };
                    changes.push(Change::new(name, kind, Some(locked), Some(locked)));
                }
                None => {
                    let new = self.resolve(name, wanted, Locked::Not, &mut transfers)?;
                    let old = lock.skills.insert(name.clone(), new.clone());
                    let kind = if old.is_some() { ChangeKind::Updated } else { ChangeKind::Added };
                    changes.push(Change::new(name, kind, old.as_ref(), Some(&new)));
                }
            }
        }
        let unwanted: Vec<String> =
            lock.skills.keys().filter(|name| !wanted.skills.contains_key(*name)).cloned().collect();
        for name in unwanted {
            let old = lock.skills.remove(&name);
            changes.push(Change::new(&name, ChangeKind::Removed, old.as_ref(), None));
        }
        let is_changed =
            |change: &Change| !matches!(change.kind, ChangeKind::Unchanged | ChangeKind::Fetched);
        if changes.iter().any(is_changed) {
            self.commit(&transfers.finish()?, None, &lock)?;
        }
        Ok(changes)
    }

    /// Fetches the newest revisions of some skills, or of all. With `dry_run`, only reports what
    /// would change.
    ///
    /// # Errors
    /// A source cannot be fetched, a tag has moved, or there is no such skill.
    pub fn update(
        &self,
        names: &[String],
        dry_run: bool,
        network: &dyn Network,
    ) -> Result<Vec<Change>, SourceError> {
        let mut transfers = Transfers::start(self, network)?;
        let (wanted, mut lock) = (self.wanted()?, self.locked()?);
        if let Some(unknown) = names.iter().find(|name| !wanted.skills.contains_key(*name)) {
            let why = format!("{} names no skill `{}`", self.file.display(), printable(unknown));
            return Err(SourceError::request(why, "skillhost list"));
        }
        let mut changes = Vec::new();
        for (name, wanted) in &wanted.skills {
            if !names.is_empty() && !names.contains(name) {
                continue;
            }
            let old = lock.skills.get(name).cloned();
            let from = old.as_ref().filter(|old| old.source == wanted.source.to_string());
            let from = from.map_or(Locked::Not, |old| Locked::From(&old.revision));
            let new = self.resolve(name, wanted, from, &mut transfers)?;
            let kind = match &old {
                None => ChangeKind::Added,
                Some(old) if *old == new => ChangeKind::Unchanged,
                Some(_) => ChangeKind::Updated,
            };
            changes.push(Change::new(name, kind, old.as_ref(), Some(&new)));
            lock.skills.insert(name.clone(), new);
        }
        if !dry_run && changes.iter().any(|change| change.kind != ChangeKind::Unchanged) {
            self.commit(&transfers.finish()?, None, &lock)?;
        }
        Ok(changes)
    }

    /// Reads every byte of every locked skill again, and compares everything that the lock file says
    /// about it.
    ///
    /// # Errors
    /// A file is invalid.
    pub fn verify(&self) -> Result<Vec<Mismatch>, SourceError> {
        let (wanted, lock) = (self.wanted()?, self.locked()?);
        let skills: Vec<_> =
            lock.skills.iter().map(|(name, locked)| (wanted.skills.get(name), locked)).collect();
        let checked = self.examine_all(&skills);
        let mut found: Vec<Mismatch> =
            lock.skills.keys().zip(checked).flat_map(|(name, one)| one.mismatches(name)).collect();
        for name in wanted.skills.keys().filter(|name| !lock.skills.contains_key(*name)) {
            found.push(Mismatch { name: name.clone(), why: "it is not locked".to_owned() });
        }
        Ok(found)
    }

    /// Does the same as [`Project::sync`] with `frozen` and then [`Project::verify`], and reads each
    /// file once.
    ///
    /// # Errors
    /// As [`Project::sync`].
    pub fn ci(&self, network: &dyn Network) -> Result<Verification, SourceError> {
        let mut transfers = Transfers::start(self, network)?;
        let (wanted, lock) = (self.wanted()?, self.locked()?);
        self.check_locked(&wanted, &lock)?;
        let skills: Vec<_> =
            lock.skills.iter().map(|(name, locked)| (wanted.skills.get(name), locked)).collect();
        let mut verification = Verification::default();
        let checked = self.examine_all(&skills);
        for ((name, (want, locked)), mut checked) in lock.skills.keys().zip(skills).zip(checked) {
            let mut kind = ChangeKind::Unchanged;
            if let Some(want) = want.filter(|_| !checked.is_stored) {
                self.restore(name, want, locked, &mut transfers)?;
                checked = self.examine(Some(want), locked);
                kind = ChangeKind::Fetched;
            }
            verification.changes.push(Change::new(name, kind, Some(locked), Some(locked)));
            verification.mismatches.extend(checked.mismatches(name));
            verification.files += locked.files.0.len();
        }
        Ok(verification)
    }

    /// Reads every byte of a locked skill again, and compares everything that its lock says. Returns
    /// the differences.
    pub fn check(&self, wanted: Option<&WantedSkill>, locked: &LockedSkill) -> Vec<String> {
        self.examine(wanted, locked).problems
    }

    /// Checks skills as [`Project::check`] does, on all processors.
    fn examine_all(&self, skills: &[(Option<&WantedSkill>, &LockedSkill)]) -> Vec<Checked> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((wanted, locked)) = skills.get(at) else { return found };
                found.push((at, self.examine(*wanted, locked)));
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        // A thread takes longer to start than a few skills to check.
        let others = threads.min(MAX_THREADS).min(skills.len() / 8).saturating_sub(1);
        let mut all = std::thread::scope(|scope| {
            let others: Vec<_> = (0..others).map(|_| scope.spawn(work)).collect();
            let mut all = work();
            for other in others {
                all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            all
        });
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, checked)| checked).collect()
    }

    fn examine(&self, wanted: Option<&WantedSkill>, locked: &LockedSkill) -> Checked {
        let mut found = Vec::new();
        let mut is_stored = true;
        match wanted {
            Some(wanted) if !agrees(wanted, locked) => {
                found.push(format!("{} names another source", self.file.display()));
            }
            Some(wanted) if !self.store.has_origin(&self.origin(wanted, locked)) => {
                found.push("this host did not fetch it from its source".to_owned());
                is_stored = false;
            }
            Some(_) => {}
            None => found.push(format!("{} does not name it", self.file.display())),
        }
        let contents = self.store.read(&locked.digest, &locked.files, self.limits.skill.total);
        let contents = match contents {
            Ok(contents) => contents,
            Err(why) => {
                found.push(why);
                return Checked { is_stored: false, problems: found };
            }
        };
        let origin = wanted.map(|wanted| self.origin(wanted, locked));
        let origin = origin.unwrap_or_else(|| Digest::of(b""));
        let described = self.describe(locked.clone(), &origin, &contents);
        match described.map(|found| describes(locked, found)) {
            Ok(true) => {}
            Ok(false) => found.push(
                "the lock file describes other permissions, another component, another content or other signatures".into(),
            ),
            Err(error) => found.push(error.to_string()),
        }
        Checked { is_stored, problems: found }
    }

    /// Checks that the lock file locks exactly what the sources file names.
    ///
    /// # Errors
    /// A skill is not locked, is locked from another source, or is not wanted.
    pub fn require_locked(&self) -> Result<(), SourceError> {
        self.check_locked(&self.wanted()?, &self.locked()?)
    }

    fn check_locked(&self, wanted: &SourcesFile, lock: &Lock) -> Result<(), SourceError> {
        for (name, wanted) in &wanted.skills {
            if lock.skills.get(name).is_none_or(|locked| !agrees(wanted, locked)) {
                return Err(self.not_frozen(name, lock.skills.get(name)));
            }
        }
        match lock.skills.keys().find(|name| !wanted.skills.contains_key(*name)) {
            Some(name) => Err(self.not_wanted(name)),
            None => Ok(()),
        }
    }

    /// Starts a change: no other process changes the store or the files until it is dropped.
    fn begin(&self) -> Result<StoreLock, SourceError> {
        let lock = self.store.lock()?;
        journal::recover(&self.store, &self.file)?;
        Ok(lock)
    }

    /// Replaces both files, or only the lock file.
    fn commit(&self, _: &StoreLock, text: Option<&str>, lock: &Lock) -> Result<(), SourceError> {
        self.store.remember(&self.file)?;
        requires::check(&lock.skills)?;
        let lock = lock.to_string();
        let mut files: Vec<(&Path, &str)> = vec![(&self.lock_file, &lock)];
        files.extend(text.map(|text| (self.file.as_path(), text)));
        journal::replace(&self.store, &self.file, &files)
    }

    fn temporary(&self) -> PathBuf {
        self.store.temporary()
    }

    fn around<'a>(&'a self, within: &'a Path) -> Surroundings<'a> {
        let base = self.file.parent().unwrap_or(Path::new("/"));
        Surroundings { base, home: &self.home, within, limits: &self.limits, submodules: false }
    }

    /// Fetches a wanted skill and puts its files into the store.
    fn resolve(
        &self,
        name: &str,
        wanted: &WantedSkill,
        locked: Locked<'_>,
        transfers: &mut Transfers<'_>,
    ) -> Result<LockedSkill, SourceError> {
        let selection = wanted.path.as_deref().map_or(Selection::Only, Selection::Named);
        let fetched = transfers.fetch(wanted, selection, locked)?;
        let path = match &wanted.path {
            Some(path) => path.clone(),
            None => only(&skills::find(&fetched.staged, ""), name)?,
        };
        let skill = skills::read(&fetched.staged, &path, &self.limits)?;
        self.import(&fetched, wanted, &skill)
    }

    /// Fetches the files of a locked skill again. They must be the same.
    fn restore(
        &self,
        name: &str,
        wanted: &WantedSkill,
        locked: &LockedSkill,
        transfers: &mut Transfers<'_>,
    ) -> Result<(), SourceError> {
        let revision = Locked::At(&locked.revision);
        let selection = match locked.path.as_str() {
            "" => Selection::Only,
            path => Selection::Named(path),
        };
        let fetched = transfers.fetch(wanted, selection, revision)?;
        let skill = skills::read(&fetched.staged, &locked.path, &self.limits)?;
        match locked.files.difference(&skill.listing()) {
            None => {
                self.store.import(&fetched.staged, &skill)?;
                self.store.add_origin(&self.origin(wanted, locked), fetched.objects.as_ref())
            }
            Some(why) => Err(SourceError::Moved(format!(
                "{} is not what {} names for `{name}`: {why}",
                wanted.source,
                self.lock_file.display()
            ))),
        }
    }

    fn import(
        &self,
        fetched: &Fetched,
        wanted: &WantedSkill,
        skill: &FoundSkill,
    ) -> Result<LockedSkill, SourceError> {
        let contents = self.store.import(&fetched.staged, skill)?;
        let files = skill.listing();
        let locked = LockedSkill {
            source: wanted.source.to_string(),
            path: skill.path.clone(),
            submodules: wanted.submodules,
            revision: fetched.revision.clone(),
            digest: files.digest(),
            content: String::new(),
            version: None,
            component: None,
            permissions: Vec::new(),
            requires: Vec::new(),
            signatures: Vec::new(),
            files,
        };
        let origin = self.origin(wanted, &locked);
        self.store.add_origin(&origin, fetched.objects.as_ref())?;
        self.describe(locked, &origin, &contents)
    }

    /// Identifies what a lock says about where its files are from. Others may have written the lock
    /// file, so it alone does not prove that.
    fn origin(&self, wanted: &WantedSkill, locked: &LockedSkill) -> Digest {
        let base = self.file.parent().unwrap_or(Path::new("/"));
        let identity = self.place_of(&wanted.source).identity(base, &self.home);
        let reference = wanted.source.reference.as_deref().unwrap_or_default();
        let LockedSkill { path, revision, digest, .. } = locked;
        // None of the texts contains a line break.
        Digest::of(format!("{identity}\n{reference}\n{path}\n{revision}\n{digest}").as_bytes())
    }

    /// Loads a stored skill as a run would, and fills in what follows from its files. `contents`: the
    /// files, as they were read and compared with the lock.
    fn describe(
        &self,
        locked: LockedSkill,
        origin: &Digest,
        contents: &BTreeMap<String, Vec<u8>>,
    ) -> Result<LockedSkill, SourceError> {
        let path = self.store.path(&locked.digest);
        let folder = SkillFolder::new(&path, SourceKind::Fetched);
        let skill = Skill::load_from(folder, &SizeLimits::default())
            .map_err(|error: SkillError| SourceError::Skill(Box::new(error)))?;
        let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let content = skill
            .digest_of(|file| contents.get(&file.path).ok_or_else(missing))
            .map_err(|error| SourceError::io("digest the stored skill", error))?;
        let permissions = match &skill.manifest.allowed_tools {
            None => vec![EVERYTHING.to_owned()],
            Some(entries) => entries.iter().map(|entry| entry.text.clone()).collect(),
        };
        let objects = self.store.objects(origin);
        let found = SignedFiles {
            read: &|path| contents.get(path).cloned(),
            files: &locked.files,
            left_out: &skill.left_out,
            objects: objects.as_ref(),
        }
        .verify(&self.trust);
        found.refused.iter().for_each(|why| tracing::info!(why, "a signature does not count"));
        let signatures = found.signers.iter().map(ToString::to_string).collect();
        let component = skill.manifest.component.clone();
        let version = skill.manifest.version().map(|version| version.to_string());
        let requires = skill.manifest.requires.iter().map(ToString::to_string).collect();
        Ok(LockedSkill { content, version, component, permissions, requires, signatures, ..locked })
    }

    fn not_wanted(&self, name: &str) -> SourceError {
        let (lock, file) = (self.lock_file.display(), self.file.display());
        let why = format!("{lock} locks `{name}`, which {file} does not name");
        SourceError::request(why, "skillhost sync")
    }

    fn not_frozen(&self, name: &str, locked: Option<&LockedSkill>) -> SourceError {
        let file = self.lock_file.display();
        let why = match locked {
            None => format!("{file} does not lock `{name}`"),
            Some(_) => format!("{file} locks `{name}` from another source"),
        };
        SourceError::request(why, "skillhost sync")
    }
}

/// Checks whether a lock is for what is wanted.
fn agrees(wanted: &WantedSkill, locked: &LockedSkill) -> bool {
    locked.source == wanted.source.to_string()
        && locked.submodules == wanted.submodules
        && wanted.path.as_ref().is_none_or(|path| *path == locked.path)
}

/// Checks whether a lock says what follows from the files. Keys that became trusted since may have
/// signed them, too.
fn describes(locked: &LockedSkill, found: LockedSkill) -> bool {
    locked.signatures.iter().all(|key| found.signatures.contains(key))
        && LockedSkill { signatures: locked.signatures.clone(), ..found } == *locked
}

/// Returns the folders of the skills that a request means.
fn choose(all: &[String], request: &AddRequest) -> Result<Vec<String>, SourceError> {
    let name = |path: &String| path.rsplit('/').next().unwrap_or_default().to_owned();
    match &request.path {
        Some(path) => {
            let path = crate::names::parse(path.as_bytes())?;
            let is_named =
                |found: &&String| **found == path || !path.contains('/') && name(found) == path;
            let mut below: Vec<String> = all.iter().filter(is_named).cloned().collect();
            if below.is_empty() {
                // An archive may have a folder of its own.
                let folder = format!("{path}/");
                below = all.iter().filter(|found| found.starts_with(&folder)).cloned().collect();
            }
            match below.as_slice() {
                [] => Err(SourceError::request(
                    format!("the source has no skill `{}`", printable(&path)),
                    offered(all),
                )),
                [_] => Ok(below),
                _ => Err(SourceError::request(
                    format!("the source has several skills `{}`", printable(&path)),
                    offered(&below),
                )),
            }
        }
        None if request.all && request.name.is_none() && !all.is_empty() => Ok(all.to_vec()),
        None if request.all && !all.is_empty() => Err(SourceError::request(
            "--as names one skill, and --all means several",
            "omit one of them",
        )),
        None => Ok(vec![only(all, "")?]),
    }
}

/// Returns the folder of the only skill.
fn only(all: &[String], name: &str) -> Result<String, SourceError> {
    match all {
        [] => Err(SourceError::request(
            "the source has no skill: no folder with a SKILL.md",
            "name a folder, an archive or a repository with a SKILL.md",
        )),
        [one] => Ok(one.clone()),
        _ if name.is_empty() => Err(SourceError::request(
            format!("the source has {} skills", all.len()),
            format!("{}; or --all", offered(all)),
        )),
        _ => Err(SourceError::request(
            format!("the source of `{name}` has {} skills", all.len()),
            "name its folder in skills.yaml: path: FOLDER",
        )),
    }
}

#[cfg(test)]
mod tests;
