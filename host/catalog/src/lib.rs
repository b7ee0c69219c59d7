//! The skills that are installed: found in folders, known by name and description, and ranked for a
//! query.
//!
//! This crate reads manifests without loading skills, and keeps what it read in a cache. It must
//! not know how a skill runs.
//!
//! Start reading at [`Catalog`], a handle on a snapshot that never changes; [`Catalog::refresh`]
//! replaces the snapshot. `tier1` reads name and description, `cache` keeps them in one file,
//! `update` reads again what changed, `search` ranks, `prompt` writes the block that agents are
//! given, and `watch` follows changes. A skill's body and files are not held:
//! [`Skill::load`](skillhost_skill::Skill::load) reads them from [`CatalogEntry::folder`].

mod cache;
mod prompt;
mod search;
mod tier1;
mod update;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde::Serialize;

use cache::{Cache, CacheError};
use skillhost_skill::{SkillFolder, is_protected, scan};
use update::Known;

pub use prompt::{Prompt, estimate_tokens};
pub use search::{Hit, Query};
pub use skillhost_skill::SourceKind;
pub use tier1::{SkillRuntime, SkillRuntimes};
pub use watch::{Changes, Watch};

/// Where skills are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The folder; one that is not there holds no skills.
    pub folder: PathBuf,
    /// Who put it there.
    pub kind: SourceKind,
}

/// What is known of a skill that is not loaded. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct CatalogEntry {
    /// The name of its folder: what policies and the operator call it.
    pub name: Arc<str>,
    /// What it is for, by itself.
    pub description: Arc<str>,
    /// The digest of its SKILL.md, as `sha256:` and hex digits. That of the whole skill is
    /// [`Skill::digest`](skillhost_skill::Skill::digest).
    pub digest: Arc<str>,
    /// The skill's folder.
    pub folder: Arc<Path>,
    /// The name of its SKILL.md.
    pub skill_file: Arc<str>,
    /// Who put it there.
    pub source: SourceKind,
    /// Whether its source is trusted, and nobody else can write to that source's folder.
    pub trusted: bool,
    /// `metadata.tags` and `metadata.category`, in lower case.
    pub tags: Arc<[Box<str>]>,
    /// What its programs run in.
    #[schemars(with = "Vec<Runtime>")]
    pub runtimes: SkillRuntimes,
    /// Whether its `allowed-tools` ask for network.
    pub network: bool,
    /// Whether its frontmatter is broken or misspells a permission key: it is granted nothing.
    pub recovered: bool,
}

impl<'a> From<&'a CatalogEntry> for SkillFolder<'a> {
    fn from(entry: &'a CatalogEntry) -> SkillFolder<'a> {
        SkillFolder { path: &entry.folder, source: entry.source }
    }
}

/// A skill that does not count, since another of its name comes before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ShadowedSkill {
    /// The name of both.
    pub name: Arc<str>,
    /// The folder of the one that does not count.
    pub folder: Arc<Path>,
    /// The folder of the one that does.
    pub by: Arc<Path>,
}

/// A skill that cannot be read, or a folder that was not searched to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ScanProblem {
    /// The folder.
    pub folder: PathBuf,
    /// What is wrong.
    pub why: String,
}

/// Why there is no catalogue.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A folder of the command line cannot be read.
    #[error("the folder of skills {} cannot be read: {error}", .folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The index of a catalogue cannot be used.
    #[error("the catalogue's index: {0}")]
    Index(String),
}

/// A handle on the skills that are there; clones share it.
#[derive(Clone)]
pub struct Catalog {
    shared: Arc<Shared>,
}

struct Shared {
    sources: Vec<Source>,
    snapshot: RwLock<Arc<Snapshot>>,
    cache: Mutex<Option<Cache>>,
    enabled: RwLock<Arc<Enabled>>,
}

/// Tells whether a skill is enabled.
type Enabled = dyn Fn(&CatalogEntry) -> bool + Send + Sync;

/// What was there at one time.
#[derive(Default)]
struct Snapshot {
    entries: Arc<[CatalogEntry]>,
    /// Where in `entries` each name is.
    names: HashMap<Arc<str>, u32>,
    /// Where in `entries` each row of the cache is; by row.
    rows: Vec<(i64, u32)>,
    /// What each source's part of the cache was.
    generations: Vec<Option<(i64, i64)>>,
    shadowed: Arc<[ShadowedSkill]>,
    broken: Arc<[ScanProblem]>,
}

impl Catalog {
    /// Finds the skills of these sources, in the order of precedence. `cache` is a folder, which is
    /// made where it is missing: what did not change since the last time is not read again.
    ///
    /// # Errors
    /// A folder of the command line that cannot be read.
    pub fn open(sources: Vec<Source>, cache: Option<&Path>) -> Result<Catalog, CatalogError> {
        let mut cache = Cache::open(cache)?;
        let snapshot = loop {
            match Snapshot::take(&mut cache, &sources) {
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
                snapshot,
                cache,
                enabled: RwLock::new(Arc::new(|_| true)),
            }),
        })
    }

    /// The skills, in the order of their sources, and of their paths in one.
    pub fn entries(&self) -> Arc<[CatalogEntry]> {
        self.snapshot().entries.clone()
    }

    /// The skill of a name.
    pub fn get(&self, name: &str) -> Option<CatalogEntry> {
        let snapshot = self.snapshot();
        snapshot.names.get(name).map(|at| snapshot.entries[*at as usize].clone())
    }

    /// The skills that do not count, since others of their names come before them.
    pub fn shadowed(&self) -> Arc<[ShadowedSkill]> {
        self.snapshot().shadowed.clone()
    }

    /// The skills that cannot be read, and what a bound left out.
    pub fn problems(&self) -> Arc<[ScanProblem]> {
        self.snapshot().broken.clone()
    }

    /// Sets what tells whether a skill is enabled; without it each is.
    pub fn set_enabled(&self, enabled: impl Fn(&CatalogEntry) -> bool + Send + Sync + 'static) {
        *self.shared.enabled.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(enabled);
    }

    /// Whether a skill is enabled.
    pub fn is_enabled(&self, entry: &CatalogEntry) -> bool {
        let enabled = self.shared.enabled.read().unwrap_or_else(PoisonError::into_inner).clone();
        enabled(entry)
    }

    /// Looks at the sources again, and tells the names of the skills that came, went or differ.
    ///
    /// # Errors
    /// As [`Catalog::open`]; the catalogue stays as it was.
    pub fn refresh(&self) -> Result<Vec<String>, CatalogError> {
        let sources = &self.shared.sources;
        let before = self.snapshot();
        let new = self.with_cache(|cache| {
            for (source, generation) in sources.iter().zip(&before.generations) {
                if !update::is_current(&cache.db, source, *generation)? {
                    return Snapshot::take(cache, sources).map(Some);
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

    /// Does something with the cache. One that turns out to be broken is made anew, and the
    /// snapshot with it.
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
                    let snapshot = Arc::new(Snapshot::take(&mut cache, &self.shared.sources)?);
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
    fn take(cache: &mut Cache, sources: &[Source]) -> Result<Snapshot, CacheError> {
        let (mut entries, mut shadowed, mut broken) =
            (Vec::<CatalogEntry>::new(), Vec::new(), Vec::new());
        let (mut names, mut rows, mut generations) =
            (HashMap::<Arc<str>, u32>::new(), Vec::new(), Vec::new());
        for source in sources {
            let trusted = source.kind.is_trusted() && is_protected(&source.folder);
            let Known { generation, skills, left_out } = update::source(&mut cache.db, source)?;
            generations.push(generation);
            broken.extend(
                left_out.into_iter().map(|why| ScanProblem { folder: source.folder.clone(), why }),
            );
            for update::Row { id, path, facts } in skills {
                let folder = scan::join(&source.folder, &path);
                let entry = match facts {
                    Ok(facts) => facts.entry(folder, source.kind, trusted),
                    Err(why) => {
                        broken.push(ScanProblem { folder, why });
                        continue;
                    }
                };
                if let Some(first) = names.get(&entry.name) {
                    let by = entries[*first as usize].folder.clone();
                    // The same folder may be named twice.
                    if by != entry.folder {
                        shadowed.push(ShadowedSkill { name: entry.name, folder: entry.folder, by });
                    }
                    continue;
                }
                // No source has more than some ten thousand.
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

    /// Where in `entries` the skill is that a row of the cache is about; `None` for one of other
    /// sources, or one that does not count.
    fn of_row(&self, row: i64) -> Option<u32> {
        let at = self.rows.binary_search_by_key(&row, |(id, _)| *id).ok()?;
        Some(self.rows[at].1)
    }

    /// The names of the skills that came, went or differ.
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
