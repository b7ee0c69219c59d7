//! The transfers of one command. The store is not locked while they run, so that other commands do not
//! wait for a server; before anything is written down, the files must be as they were.

use std::rc::Rc;

use super::{Project, WantedSkill};
use crate::error::SourceError;
use crate::fetch::{self, Fetched, Locked, Selection, Surroundings};
use crate::journal;
use crate::network::Network;
use crate::source::Place;
use crate::store::{StoreLock, StoreUse};

/// The most transfers whose files are kept for other skills of the same source.
const KEPT: usize = 16;

/// Fetches the sources of several skills, each source once.
pub(super) struct Transfers<'a> {
    project: &'a Project,
    network: &'a dyn Network,
    kept: Vec<(Key, Rc<Fetched>)>,
    /// The sources file and the lock file when the command started.
    before: [String; 2],
    /// Keeps what is imported until it is locked.
    _use: StoreUse,
}

/// What a transfer depends on.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    source: String,
    /// The skill, for sources that transfer only what is selected.
    selected: Option<String>,
    locked: Option<(bool, String)>,
    submodules: bool,
}

impl<'a> Transfers<'a> {
    /// Finishes a change that was interrupted, and remembers the files.
    pub(super) fn start(
        project: &'a Project,
        network: &'a dyn Network,
    ) -> Result<Transfers<'a>, SourceError> {
        let _use = project.store.keep_all()?;
        let change = project.begin()?;
        // Files that are fetched as locked change no lock file, and must be kept for it, too.
        project.store.remember(&project.file)?;
        drop(change);
        let before = files(project)?;
        Ok(Transfers { project, network, kept: Vec::new(), before, _use })
    }

    /// Locks the store, for writing down what was fetched.
    pub(super) fn finish(&self) -> Result<StoreLock, SourceError> {
        let change = self.project.begin()?;
        match files(self.project)? == self.before {
            true => Ok(change),
            false => {
                let why = format!(
                    "{} or its lock file was changed while skills were fetched",
                    self.project.file.display()
                );
                Err(SourceError::request(why, "run the command again"))
            }
        }
    }

    /// Fetches the source of a skill, or returns what was fetched for another skill.
    pub(super) fn fetch(
        &mut self,
        wanted: &WantedSkill,
        selection: Selection<'_>,
        locked: Locked<'_>,
    ) -> Result<Rc<Fetched>, SourceError> {
        let place = self.project.place_of(&wanted.source);
        let is_selective = matches!(place.place, Place::WellKnown(_) | Place::Mcp(_));
        let key = Key {
            source: place.to_string(),
            selected: is_selective.then(|| format!("{selection:?}")),
            locked: match locked {
                Locked::Not => None,
                Locked::At(revision) => Some((true, revision.to_owned())),
                Locked::From(revision) => Some((false, revision.to_owned())),
            },
            submodules: wanted.submodules,
        };
        if let Some((_, fetched)) = self.kept.iter().find(|(known, _)| *known == key) {
            return Ok(fetched.clone());
        }
        let temporary = self.project.temporary();
        let around = self.project.around(&temporary);
        let around = Surroundings { submodules: wanted.submodules, ..around };
        let fetched = Rc::new(fetch::fetch(&place, selection, locked, around, self.network)?);
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push((key, fetched.clone()));
        Ok(fetched)
    }
}

fn files(project: &Project) -> Result<[String; 2], SourceError> {
    Ok([journal::read(&project.file)?, journal::read(&project.lock_file)?])
}
