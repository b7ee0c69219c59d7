//! The folders of one invocation: the granted ones, and a scratch folder that is gone with it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::scratch::Scratch;
use crate::files::{ApplyError, Chance, Guarded, HostDir, OpenMount, Skeleton, Staged, Times, Vfs};
use crate::recording::keep::Contents;
use skillhost_policy::capabilities::{FileRules, MountMode};
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::{Change, Denial};
use skillhost_skill::runtime::built_in::BuiltIn;

/// What an invocation's guests see, and the scratch folder behind it, which is removed with the
/// last that holds it.
#[derive(Debug)]
pub(super) struct Mounts {
    pub(super) files: Arc<Vfs>,
    /// Shared with every program that still runs: one that made a file while the folder is removed
    /// would keep it from going.
    pub(super) scratch: Arc<Scratch>,
}

/// Mounts that the host adds to those of the skill and the capabilities.
#[derive(Debug, Default)]
pub struct ExtraMounts {
    /// Packages of the programs, the skill under other names, `/state`.
    pub mounts: Vec<OpenMount>,
    /// Those whose commands are shown in `/usr/bin`.
    pub built_in: Vec<Arc<BuiltIn>>,
}

/// The writes that an invocation kept aside. They are gone with this value.
#[derive(Debug, Default)]
pub struct Overlays(Option<Mounts>);

/// The folders of a run besides those of its capabilities.
pub(super) struct Folders<'a> {
    pub(super) skill: Option<OpenMount>,
    pub(super) extra: ExtraMounts,
    pub(super) guarded: &'a Guarded,
    /// The folder in which scratch folders are made.
    pub(super) scratch: &'a Path,
    pub(super) cache: &'a Path,
}

/// What files and their contents come from, if it is not the host.
pub(super) struct FileSources {
    /// Fills reads of `/dev/random`.
    pub(super) randomness: Chance,
    pub(super) times: Option<Times>,
    pub(super) contents: Option<Arc<Contents>>,
}

/// Opens everything that the capabilities name, and puts it together with the skill's own folder
/// and the extra mounts.
pub(super) fn open(
    rules: FileRules,
    limits: &Limits,
    folders: Folders<'_>,
    sources: FileSources,
) -> Result<Mounts, Denial> {
    let Folders { skill, extra, guarded, scratch, cache } = folders;
    let scratch = Arc::new(Scratch::new(scratch)?);
    let later = |name: String| {
        let scratch = scratch.clone();
        HostDir::later(move || scratch.folder(&name))
    };
    let mut mounts = vec![OpenMount::scratch(later("tmp".into()))];
    mounts.extend(skill);
    for (index, mount) in rules.mounts.iter().enumerate() {
        let opened = OpenMount::open(mount, guarded)?;
        mounts.push(match mount.mode {
            MountMode::Overlay => opened.over(later(format!("upper{index}"))),
            MountMode::Read | MountMode::Write => opened,
        });
    }
    for mount in &rules.packages {
        mounts.push(OpenMount::open(mount, guarded)?.as_packages());
    }
    mounts.extend(extra.mounts);
    let guests: Vec<String> = mounts.iter().map(|mount| mount.guest().to_owned()).collect();
    let (built_in, cache) = (extra.built_in, cache.to_owned());
    let root = move || {
        // There are some two hundred commands, which most guests never look for.
        let commands =
            built_in.iter().flat_map(|one| &one.description.programs).map(String::as_str);
        Skeleton::of(guests.iter().map(String::as_str), commands).open(&cache)
    };
    mounts.push(OpenMount::root(HostDir::later(root), sources.randomness));
    let FileSources { times, contents, .. } = sources;
    Ok(Mounts { files: Vfs::new(mounts, rules.paths, limits, guarded, times, contents), scratch })
}

impl Overlays {
    pub(super) fn of(mounts: Mounts) -> Overlays {
        Overlays(Some(mounts))
    }

    /// What would change, by path.
    pub fn changes(&self) -> Vec<Change> {
        self.0.as_ref().map_or_else(Vec::new, |mounts| mounts.files.changes())
    }

    /// The same as a unified diff.
    pub fn diff(&self) -> String {
        self.0.as_ref().map_or_else(String::new, |mounts| mounts.files.diff())
    }

    /// The changes with their bytes, which have at most `cap` together, to be made later.
    ///
    /// # Errors
    /// They have more, as `FileTooLarge`, or cannot be read.
    pub fn staged(&self, cap: u64) -> io::Result<Vec<Staged>> {
        self.0.as_ref().map_or_else(|| Ok(Vec::new()), |mounts| mounts.files.staged(cap))
    }

    /// Makes the changes in the folders themselves, each file at once.
    ///
    /// # Errors
    /// A folder changed meanwhile: then nothing was done; or a write failed.
    pub fn apply(&self) -> Result<(), ApplyError> {
        self.0.as_ref().map_or(Ok(()), |mounts| mounts.files.apply())
    }

    /// Removes the scratch folder now, rather than when this value is dropped.
    ///
    /// # Errors
    /// It could not be removed whole.
    pub fn close(self) -> io::Result<()> {
        match self.0.and_then(|mounts| Arc::into_inner(mounts.scratch)) {
            Some(scratch) => scratch.close(),
            None => Ok(()),
        }
    }
}
