//! The skills that are there: found in folders, known by name and description, ranked for a question.
//!
//! In reading order: `tier1` reads what is known of a skill without loading it, `search` ranks, `prompt` writes the block that agents are
//! given. A [`Catalog`] is a handle on a snapshot that never changes; [`Catalog::refresh`] puts a new one in its place.
//!
//! The skill's body and its files are not held: [`Skill::load`](crate::skill::Skill::load) reads them from [`Entry::folder`].

mod prompt;
mod search;
mod tier1;
mod watch;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use serde::Serialize;

use crate::skill::scan::{self, Bounds, Links};

pub use prompt::{Prompt, tokens};
pub use search::{Hit, Query};
pub use tier1::{Runtime, Runtimes};
pub use watch::Watch;

/// Where skills are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The folder; one that is not there holds no skills.
    pub folder: PathBuf,
    /// Who put it there.
    pub kind: SourceKind,
}

/// Who put skills where they are. In the order of precedence: of skills of one name, the first counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// The command line.
    Flag,
    /// The project that is worked in.
    Project,
    /// The user.
    User,
    /// The operator, in the policy.
    Policy,
    /// Those who made this program.
    BuiltIn,
}

impl SourceKind {
    /// Whether what lies there is the user's or the operator's own. A project is what someone else may have written, and a folder of the
    /// command line may be anything.
    pub fn is_trusted(self) -> bool {
        matches!(self, SourceKind::User | SourceKind::Policy | SourceKind::BuiltIn)
    }
}

/// What is known of a skill that is not loaded. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The name of its folder: what policies and the operator call it.
    pub name: Arc<str>,
    /// What it is for, by itself.
    pub description: Arc<str>,
    /// The digest of its SKILL.md, as `sha256:` and hex digits. That of the whole skill is [`Skill::digest`](crate::skill::Skill::digest).
    pub digest: Arc<str>,
    /// The skill's folder.
    pub folder: Arc<Path>,
    /// The name of its SKILL.md.
    pub skill_file: Arc<str>,
    /// Who put it there.
    pub source: SourceKind,
    /// Whether it is the user's or the operator's own.
    pub trusted: bool,
    /// `metadata.tags` and `metadata.category`, in lower case.
    pub tags: Arc<[Box<str>]>,
    /// What its programs run in.
    pub runtimes: Runtimes,
    /// Whether its `allowed-tools` ask for network.
    pub network: bool,
    /// Whether its frontmatter is broken: it is granted nothing.
    pub recovered: bool,
}

/// A skill that does not count, since another of its name comes before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shadowed {
    /// The name of both.
    pub name: Arc<str>,
    /// The folder of the one that does not count.
    pub folder: Arc<Path>,
    /// The folder of the one that does.
    pub by: Arc<Path>,
}

/// A skill that cannot be read, or a folder that was not searched to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Broken {
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
    enabled: RwLock<Arc<dyn Fn(&Entry) -> bool + Send + Sync>>,
}

/// What was there at one time.
struct Snapshot {
    entries: Arc<[Entry]>,
    names: HashMap<Arc<str>, usize>,
    shadowed: Arc<[Shadowed]>,
    broken: Arc<[Broken]>,
}

/// A source's bounds: a tree that is no collection of skills ends the search soon, and no collection is that large.
const BOUNDS: Bounds = Bounds { depth: 6, folders: 2_000, skills: 20_000, entries: 1_000_000, links: Links::All };

impl Catalog {
    /// Finds the skills of these sources, in the order of precedence.
    ///
    /// # Errors
    /// A folder of the command line that cannot be read.
    pub fn open(sources: Vec<Source>, _cache: Option<&Path>) -> Result<Catalog, CatalogError> {
        let snapshot = RwLock::new(Arc::new(Snapshot::take(&sources)?));
        Ok(Catalog { shared: Arc::new(Shared { sources, snapshot, enabled: RwLock::new(Arc::new(|_| true)) }) })
    }

    /// The skills, in the order of their sources, and of their paths in one.
    pub fn entries(&self) -> Arc<[Entry]> {
        self.snapshot().entries.clone()
    }

    /// The skill of a name.
    pub fn get(&self, name: &str) -> Option<Entry> {
        let snapshot = self.snapshot();
        snapshot.names.get(name).map(|at| snapshot.entries[*at].clone())
    }

    /// The skills that do not count, since others of their names come before them.
    pub fn shadowed(&self) -> Arc<[Shadowed]> {
        self.snapshot().shadowed.clone()
    }

    /// The skills that cannot be read, and what a bound left out.
    pub fn broken(&self) -> Arc<[Broken]> {
        self.snapshot().broken.clone()
    }

    /// Sets what tells whether a skill is enabled; without it each is.
    pub fn set_enabled(&self, enabled: impl Fn(&Entry) -> bool + Send + Sync + 'static) {
        *self.shared.enabled.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(enabled);
    }

    /// Whether a skill is enabled.
    pub fn is_enabled(&self, entry: &Entry) -> bool {
        let enabled = self.shared.enabled.read().unwrap_or_else(PoisonError::into_inner).clone();
        enabled(entry)
    }

    /// Looks at the sources again.
    ///
    /// # Errors
    /// As [`Catalog::open`]; the catalogue stays as it was.
    pub fn refresh(&self) -> Result<Vec<String>, CatalogError> {
        let new = Arc::new(Snapshot::take(&self.shared.sources)?);
        let mut current = self.shared.snapshot.write().unwrap_or_else(PoisonError::into_inner);
        let changed = new.changes(&current);
        *current = new;
        Ok(changed)
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Snapshot {
    fn take(sources: &[Source]) -> Result<Snapshot, CatalogError> {
        let (mut entries, mut shadowed, mut broken) = (Vec::<Entry>::new(), Vec::new(), Vec::new());
        let mut names: HashMap<Arc<str>, usize> = HashMap::new();
        for Source { folder, kind } in sources {
            let found = match scan::scan(folder, &BOUNDS) {
                Ok(found) => found,
                Err(error) if *kind == SourceKind::Flag => return Err(CatalogError::Folder { folder: folder.clone(), error }),
                Err(_) => continue,
            };
            broken.extend(found.left_out.into_iter().map(|why| Broken { folder: folder.clone(), why }));
            for found in &found.skills {
                match tier1::read(found, folder, *kind) {
                    Err(why) => broken.push(Broken { folder: scan::at(folder, &found.path), why }),
                    Ok(entry) => match names.get(&entry.name) {
                        Some(first) => {
                            let (name, folder) = (entry.name, entry.folder);
                            shadowed.push(Shadowed { name, folder, by: entries[*first].folder.clone() });
                        }
                        None => {
                            names.insert(entry.name.clone(), entries.len());
                            entries.push(entry);
                        }
                    },
                }
            }
        }
        Ok(Snapshot { entries: entries.into(), names, shadowed: shadowed.into(), broken: broken.into() })
    }

    /// The names of the skills that came, went or differ.
    fn changes(&self, before: &Snapshot) -> Vec<String> {
        let at = |snapshot: &Snapshot, name: &str| snapshot.names.get(name).map(|at| snapshot.entries[*at].clone());
        let names: HashSet<&Arc<str>> = self.names.keys().chain(before.names.keys()).collect();
        let mut changed: Vec<String> =
            names.into_iter().filter(|name| at(self, name) != at(before, name)).map(|name| name.to_string()).collect();
        changed.sort();
        changed
    }
}
