//! The installed skills: found in folders, known by name and description, and ranked for a query.
//!
//! This crate reads manifests without loading skills, and keeps what it read in a cache. It must
//! not know how a skill runs.
//!
//! Start reading at [`Catalog`], a handle on an immutable snapshot, which [`Catalog::refresh`]
//! replaces. `tier1` reads the name and description of a skill, `cache` stores them in one file,
//! `update` reads changed skills again, `search` ranks, `prompt` writes the block for agents, and
//! `watch` follows changes. A skill's body and files are not kept:
//! [`Skill::load`](skillhost_skill::Skill::load) reads them from [`CatalogEntry::folder`].

mod cache;
mod prompt;
mod search;
mod tier1;
mod update;
mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde::Serialize;

use cache::{Cache, CacheError};
use skillhost_skill::{SkillFolder, is_protected, scan};
use update::CachedSource;

pub use cache::{FILES as CACHE_FILES, clear as clear_cache};
pub use prompt::{Prompt, estimate_tokens, summary};
pub use search::{Hit, Query};
pub use skillhost_skill::{LockedOrigin, SourceKind};
pub use tier1::{SkillRuntime, SkillRuntimes};
pub use watch::{Changes, Watch};

/// A folder of skills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Source {
    /// The folder; a missing folder has no skills.
    pub folder: PathBuf,
    /// Who chose the folder.
    pub kind: SourceKind,
    /// What the lock file says about each skill, by name. A source of fetched skills has no others.
    #[serde(skip)]
    pub locked: Arc<BTreeMap<String, LockedOrigin>>,
}

impl Source {
    /// Names a folder whose skills were not fetched.
    pub fn new(folder: PathBuf, kind: SourceKind) -> Source {
        Source { folder, kind, locked: Arc::default() }
    }
}

/// A source that is being searched.
struct SearchedSource {
    kind: SourceKind,
    /// The position in the search order, from 1.
    position: usize,
    trusted: bool,
}

/// What the catalogue knows about a skill. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct CatalogEntry {
    /// The name of its folder, which policies and the operator use.
    pub name: Arc<str>,
    /// The description in its SKILL.md.
    pub description: Arc<str>,
    /// The digest of its SKILL.md, as `sha256:` and hex digits.
    /// [`Skill::digest`](skillhost_skill::Skill::digest) covers the whole skill.
    pub digest: Arc<str>,
    /// The skill's folder. For a skill that is a single file, that file.
    pub folder: Arc<Path>,
    /// The file name of its SKILL.md, or of its only file.
    pub skill_file: Arc<str>,
    /// Who chose its source.
    pub source: SourceKind,
    /// What the lock file says about it, if it was fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked: Option<Arc<LockedOrigin>>,
    /// The position of its source in the search order, from 1.
    pub position: usize,
    /// Whether its source is trusted, and no other user can write to the source's folder.
    pub trusted: bool,
    /// `metadata.tags` and `metadata.category`, in lower case.
    pub tags: Arc<[Box<str>]>,
    /// The runtimes of its programs.
    #[schemars(with = "Vec<SkillRuntime>")]
    pub runtimes: SkillRuntimes,
    /// Whether its `allowed-tools` ask for network access.
    pub network: bool,
    /// Whether its frontmatter is missing, broken or misspells a permission key, or the skill is a
    /// single file. Such a skill is granted nothing.
    pub recovered: bool,
    /// Whether only the client's user may start it: `disable-model-invocation`.
    pub user_only: bool,
    /// Whether only agents may start it: `user-invocable: false`.
    pub agent_only: bool,
    /// The description of its prompt's argument: `argument-hint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<Arc<str>>,
}

impl CatalogEntry {
    /// Returns the path of the file with the instructions.
    pub fn instructions(&self) -> PathBuf {
        let is_file = self.folder.file_name() == Some(OsStr::new(&*self.skill_file));
        if is_file { self.folder.to_path_buf() } else { self.folder.join(&*self.skill_file) }
    }
}

impl<'a> From<&'a CatalogEntry> for SkillFolder<'a> {
    fn from(entry: &'a CatalogEntry) -> SkillFolder<'a> {
        let locked = entry.locked.as_deref();
        SkillFolder { path: &entry.folder, source: entry.source, locked }
    }
}

/// A skill that is hidden by an earlier one of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ShadowedSkill {
    /// The name of both skills.
    pub name: Arc<str>,
    /// The folder of the hidden skill, or its only file.
    pub folder: Arc<Path>,
    /// Who chose its source.
    pub source: SourceKind,
    /// The position of its source in the search order, from 1.
    pub position: usize,
    /// The folder of the other skill, or its only file.
    pub by: Arc<Path>,
}

/// A skill that cannot be read, or a folder that was not searched completely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ScanProblem {
    /// The folder.
    pub folder: PathBuf,
    /// The reason.
    pub why: String,
}

/// Why there is no catalogue.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A folder from the command line cannot be read.
    #[error("cannot read the skills folder {}: {error}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The index cannot be used.
    #[error("cannot use the catalogue's index: {0}")]
    Index(String),
}

/// A handle on the installed skills. Clones share it.
#[derive(Clone)]
pub struct Catalog {
    shared: Arc<Shared>,
}

struct Shared {
    sources: Vec<Source>,
    /// Skills without one of these tags do not exist. Without tags, all do.
    tags: Vec<Box<str>>,
    snapshot: RwLock<Arc<Snapshot>>,
    cache: Mutex<Option<Cache>>,
    enabled: RwLock<Arc<Check>>,
    hidden: RwLock<Arc<Check>>,
}

/// Checks something about a skill.
type Check = dyn Fn(&CatalogEntry) -> bool + Send + Sync;

/// The skills at one moment.
#[derive(Default)]
struct Snapshot {
    entries: Arc<[CatalogEntry]>,
    /// Index into `entries`, by name.
    names: HashMap<Arc<str>, u32>,
    /// Rows of the cache and indices into `entries`, sorted by row.
    rows: Vec<(i64, u32)>,
    /// The cached version of each source.
    generations: Vec<Option<(i64, i64)>>,
    shadowed: Arc<[ShadowedSkill]>,
    broken: Arc<[ScanProblem]>,
}

impl Catalog {
    /// Finds the skills of these sources, in order of precedence. `cache` is a folder, created if
    /// it is missing: skills that have not changed since the last time are not read again.
    ///
    /// # Errors
    /// A folder from the command line cannot be read.
    pub fn open(sources: Vec<Source>, cache: Option<&Path>) -> Result<Catalog, CatalogError> {
        Catalog::open_tagged(sources, cache, &[])
    }

    /// Finds the skills of these sources that have one of the tags, ignoring case; without tags, all.
    /// The name of a skill that has none of them means no other skill.
    ///
    /// # Errors
    /// As [`Catalog::open`].
    pub fn open_tagged(
        sources: Vec<Source>,
        cache: Option<&Path>,
        tags: &[String],
    ) -> Result<Catalog, CatalogError> {
        let tags: Vec<Box<str>> = tags.iter().map(|tag| tag.to_lowercase().into()).collect();
        let mut cache = Cache::open(cache)?;
        let snapshot = loop {
            match Snapshot::take(&mut cache, &sources, &tags) {
                Err(error @ (CacheError::Index(_) | CacheError::Value(_)))
                    if cache.is_on_disk() =>
                {
                    cache = cache.after(&error)?
                }
                result => break result?,
            }
        };
        let (snapshot, cache) = (RwLock::new(Arc::new(snapshot)), Mutex::new(Some(cache)));
        Ok(Catalog {
            shared: Arc::new(Shared {
                sources,
                tags,
                snapshot,
                cache,
                enabled: RwLock::new(Arc::new(|_| true)),
                hidden: RwLock::new(Arc::new(|_| false)),
            }),
        })
    }

    /// Returns the sources, in order of precedence.
    pub fn sources(&self) -> &[Source] {
        &self.shared.sources
    }

    /// Returns the skills, by source, and by path within a source.
    pub fn entries(&self) -> Arc<[CatalogEntry]> {
        self.snapshot().entries.clone()
    }

    /// Returns the skill of a name.
    pub fn get(&self, name: &str) -> Option<CatalogEntry> {
        let snapshot = self.snapshot();
        snapshot.names.get(name).map(|at| snapshot.entries[*at as usize].clone())
    }

    /// Returns the skills that are hidden by earlier ones of the same names.
    pub fn shadowed(&self) -> Arc<[ShadowedSkill]> {
        self.snapshot().shadowed.clone()
    }

    /// Returns the skills that cannot be read, and the limits that ended a search.
    pub fn problems(&self) -> Arc<[ScanProblem]> {
        self.snapshot().broken.clone()
    }

    /// Sets the function that checks whether a skill is enabled. By default all skills are.
    pub fn set_enabled(&self, enabled: impl Fn(&CatalogEntry) -> bool + Send + Sync + 'static) {
        *self.shared.enabled.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(enabled);
    }

    /// Checks whether a skill is enabled.
    pub fn is_enabled(&self, entry: &CatalogEntry) -> bool {
        let enabled = self.shared.enabled.read().unwrap_or_else(PoisonError::into_inner).clone();
        enabled(entry)
    }

    /// Sets the function that checks whether a skill is hidden from agents. By default none is.
    pub fn set_hidden(&self, hidden: impl Fn(&CatalogEntry) -> bool + Send + Sync + 'static) {
        *self.shared.hidden.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(hidden);
    }

    /// Checks whether agents may find a skill: it is enabled, and neither hidden nor for users only.
    pub fn is_for_agents(&self, entry: &CatalogEntry) -> bool {
        !entry.user_only && self.is_served(entry)
    }

    /// Checks whether users may start a skill, as a prompt: it is enabled, and neither hidden nor for
    /// agents only.
    pub fn is_for_users(&self, entry: &CatalogEntry) -> bool {
        !entry.agent_only && self.is_served(entry)
    }

    fn is_served(&self, entry: &CatalogEntry) -> bool {
        let hidden = self.shared.hidden.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.is_enabled(entry) && !hidden(entry)
    }

    /// Reads changed sources again, and returns the names of the skills that were added, removed or
    /// changed.
    ///
    /// # Errors
    /// As [`Catalog::open`]; the catalogue stays unchanged.
    pub fn refresh(&self) -> Result<Vec<String>, CatalogError> {
        let sources = &self.shared.sources;
        let before = self.snapshot();
        let new = self.with_cache(|cache| {
            for (source, generation) in sources.iter().zip(&before.generations) {
                if !update::is_current(&cache.db, source, *generation)? {
                    return Snapshot::take(cache, sources, &self.shared.tags).map(Some);
                }
            }
            Ok(None)
        })?;
        let Some(new) = new.map(Arc::new) else { return Ok(Vec::new()) };
        let changed = new.changes(&before);
        *self.shared.snapshot.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(changed)
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `work` on the cache. If the cache turns out to be broken, replaces it and the snapshot.
    fn with_cache<T>(
        &self,
        work: impl Fn(&mut Cache) -> Result<T, CacheError>,
    ) -> Result<T, CatalogError> {
        let mut held = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cache = match held.take() {
            Some(cache) => cache,
            None => Cache::open(None)?,
        };
        let result = loop {
            match work(&mut cache) {
                Err(error @ (CacheError::Index(_) | CacheError::Value(_)))
                    if cache.is_on_disk() =>
                {
                    cache = cache.after(&error)?;
                    let Shared { sources, tags, .. } = &*self.shared;
                    let snapshot = Arc::new(Snapshot::take(&mut cache, sources, tags)?);
                    *self.shared.snapshot.write().unwrap_or_else(PoisonError::into_inner) =
                        snapshot;
                }
                result => break result,
            }
        };
        *held = Some(cache);
        Ok(result?)
    }
}

impl Snapshot {
    fn take(
        cache: &mut Cache,
        sources: &[Source],
        tags: &[Box<str>],
    ) -> Result<Snapshot, CacheError> {
        let (mut entries, mut shadowed, mut broken) =
            (Vec::<CatalogEntry>::new(), Vec::new(), Vec::new());
        let (mut names, mut rows, mut generations) =
            (HashMap::<Arc<str>, u32>::new(), Vec::new(), Vec::new());
        let mut without_tag = HashSet::new();
        for (position, source) in (1..).zip(sources) {
            let trusted = source.kind.is_trusted() && is_protected(&source.folder);
            let from = SearchedSource { kind: source.kind, position, trusted };
            let CachedSource { generation, skills, left_out } =
                update::source(&mut cache.db, source)?;
            generations.push(generation);
            broken.extend(
                left_out.into_iter().map(|why| ScanProblem { folder: source.folder.clone(), why }),
            );
            for update::Row { id, path, facts } in skills {
                let folder = scan::join(&source.folder, &path);
                let mut entry = match facts {
                    Ok(facts) => facts.entry(folder, &from),
                    Err(why) => {
                        broken.push(ScanProblem { folder, why });
                        continue;
                    }
                };
                entry.locked = source.locked.get(&*entry.name).cloned().map(Arc::new);
                if source.kind == SourceKind::Fetched && entry.locked.is_none() {
                    continue;
                }
                if without_tag.contains(&entry.name) {
                    continue;
                }
                if let Some(first) = names.get(&entry.name) {
                    let by = entries[*first as usize].folder.clone();
                    // The same folder may be named twice.
                    if by != entry.folder {
                        shadowed.push(ShadowedSkill {
                            name: entry.name,
                            folder: entry.folder,
                            source: source.kind,
                            position,
                            by,
                        });
                    }
                    continue;
                }
                if !tags.is_empty() && !tags.iter().any(|tag| entry.tags.contains(tag)) {
                    without_tag.insert(entry.name);
                    continue;
                }
                // A source has at most 20,000 skills.
                let at = entries.len() as u32;
                names.insert(entry.name.clone(), at);
                rows.push((id, at));
                entries.push(entry);
            }
        }
        rows.sort_unstable();
        Ok(Snapshot {
            entries: entries.into(),
            names,
            rows,
            generations,
            shadowed: shadowed.into(),
            broken: broken.into(),
        })
    }

    /// Returns the index in `entries` of a row of the cache; `None` if the row belongs to another
    /// source or a hidden skill.
    fn of_row(&self, row: i64) -> Option<u32> {
        let at = self.rows.binary_search_by_key(&row, |(id, _)| *id).ok()?;
        Some(self.rows[at].1)
    }

    /// Returns the names of the skills that were added, removed or changed.
    fn changes(&self, before: &Snapshot) -> Vec<String> {
        let at = |snapshot: &Snapshot, name: &str| {
            snapshot.names.get(name).map(|at| snapshot.entries[*at as usize].clone())
        };
        let names: BTreeSet<&Arc<str>> = self.names.keys().chain(before.names.keys()).collect();
        names
            .into_iter()
            .filter(|name| at(self, name) != at(before, name))
            .map(|name| name.to_string())
            .collect()
    }
}
