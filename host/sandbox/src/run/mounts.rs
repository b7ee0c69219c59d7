//! The folders of one run: the granted ones, and a scratch folder that is removed after it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::scratch::Scratch;
use crate::files::{
    ApplyError, GuardedPaths, HostDir, OpenMount, RandomSource, SharedFiles, Skeleton,
    StagedChange, Times, Vfs,
};
use crate::recording::blobs::Contents;
use skillhost_policy::capabilities::{FileRules, MountMode};
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::{Change, Denial};
use skillhost_skill::runtime::built_in::BuiltIn;

/// The files that a run's guests see, and the scratch folder behind them.
#[derive(Debug)]
pub(super) struct Mounts {
    pub(super) files: Arc<Vfs>,
    /// Shared with every program that still runs: a file that is created while the folder is being
    /// removed would make that fail.
    pub(super) scratch: Arc<Scratch>,
    /// Holds `/tmp`, if that is in memory.
    pub(super) memory: Option<Arc<Scratch>>,
}

/// Mounts that the host adds to those of the skill and the capabilities.
#[derive(Debug, Default)]
pub struct ExtraMounts {
    /// Packages of the programs, the skill under its other paths, `/state`.
    pub mounts: Vec<OpenMount>,
    /// Built-in programs whose commands are listed in `/usr/bin`.
    pub built_in: Vec<Arc<BuiltIn>>,
    /// The files of the session that the run belongs to. Its workspace takes the place of the overlay
    /// at `/workspace`.
    pub shared: Option<Arc<SharedFiles>>,
}

/// The writes that a run kept aside. They are removed with this value.
#[derive(Debug, Default)]
pub struct Overlays(Option<Mounts>);

/// The folders of a run besides those of its capabilities.
pub(super) struct Folders<'a> {
    pub(super) skill: Option<OpenMount>,
    pub(super) extra: ExtraMounts,
    pub(super) guarded: &'a GuardedPaths,
    /// More commands that are listed in `/usr/bin`.
    pub(super) commands: Vec<&'static str>,
    /// The folder in which scratch folders are made.
    pub(super) scratch: &'a Path,
    pub(super) cache: &'a Path,
}

/// Replacements for what the host provides.
pub(super) struct FileSources {
    /// Fills reads of `/dev/random`.
    pub(super) randomness: RandomSource,
    pub(super) times: Option<Times>,
    pub(super) contents: Option<Arc<Contents>>,
}

/// Opens the folders of a run.
pub(super) type OpenFolders =
    fn(FileRules, &Limits, Folders<'_>, FileSources) -> Result<Mounts, Denial>;

/// Opens everything that the capabilities name, and puts it together with the skill's own folder
/// and the extra mounts.
pub(super) fn open(
    rules: FileRules,
    limits: &Limits,
    folders: Folders<'_>,
    sources: FileSources,
) -> Result<Mounts, Denial> {
    let Folders { skill, extra, guarded, commands, scratch, cache } = folders;
    let scratch = Arc::new(Scratch::new(scratch)?);
    let in_memory = limits.tmp.filter(|_| extra.shared.is_none());
    let memory = in_memory.map(|_| Scratch::in_memory().map(Arc::new)).transpose()?;
    let later_in = |scratch: &Arc<Scratch>, name: String| {
        let scratch = scratch.clone();
        HostDir::lazy(move || scratch.folder(&name))
    };
    let later = |name: String| later_in(&scratch, name);
    let tmp = later_in(memory.as_ref().unwrap_or(&scratch), "tmp".into());
    let mut mounts = vec![OpenMount::scratch(tmp)];
    mounts.extend(skill);
    for (index, mount) in rules.mounts.iter().enumerate() {
        let opened = OpenMount::open(mount, guarded)?;
        mounts.push(match mount.mode {
            MountMode::Overlay => opened.with_upper(later(format!("upper{index}"))),
            MountMode::Read | MountMode::Write => opened,
        });
    }
    for mount in &rules.packages {
        mounts.push(OpenMount::open(mount, guarded)?.into_packages());
    }
    mounts.extend(extra.mounts);
    let guests: Vec<String> = mounts.iter().map(|mount| mount.guest().to_owned()).collect();
    let (built_in, cache) = (extra.built_in, cache.to_owned());
    let root = move || {
        // There are about two hundred commands, and most guests never list them.
        let built_in = built_in.iter().flat_map(|one| &one.description.programs);
        let commands = built_in.map(String::as_str).chain(commands.iter().copied());
        Skeleton::of(guests.iter().map(String::as_str), commands).open(&cache)
    };
    mounts.push(OpenMount::root(HostDir::lazy(root), sources.randomness));
    let FileSources { times, contents, .. } = sources;
    let files = match extra.shared {
        Some(shared) => shared.of_run(mounts, rules.paths, limits, guarded, (times, contents)),
        None => Vfs::new(mounts, rules.paths, limits, guarded, times, contents),
    };
    Ok(Mounts { files, scratch, memory })
}

impl Overlays {
    pub(super) fn of(mounts: Mounts) -> Overlays {
        Overlays(Some(mounts))
    }

    /// Returns the changes, by path.
    pub fn changes(&self) -> Vec<Change> {
        self.0.as_ref().map_or_else(Vec::new, |mounts| mounts.files.changes())
    }

    /// Returns the changes as a unified diff.
    pub fn diff(&self) -> String {
        self.0.as_ref().map_or_else(String::new, |mounts| mounts.files.diff())
    }

    /// Returns the changes with their content, to be applied later. The content may have `cap`
    /// bytes in all.
    ///
    /// # Errors
    /// The content is larger (`FileTooLarge`) or cannot be read.
    pub fn staged(&self, cap: u64) -> io::Result<Vec<StagedChange>> {
        self.0.as_ref().map_or_else(|| Ok(Vec::new()), |mounts| mounts.files.staged(cap))
    }

    /// Returns the changes of the overlay at one guest path, as [`Overlays::staged`] does.
    ///
    /// # Errors
    /// As [`Overlays::staged`].
    pub fn staged_at(&self, guest: &str, cap: u64) -> io::Result<Vec<StagedChange>> {
        self.0.as_ref().map_or_else(|| Ok(Vec::new()), |mounts| mounts.files.staged_at(guest, cap))
    }

    /// Applies the changes to the folders; each file is replaced atomically.
    ///
    /// # Errors
    /// A folder has changed since the run, and nothing was done; or a write failed.
    pub fn apply(&self) -> Result<(), ApplyError> {
        self.0.as_ref().map_or(Ok(()), |mounts| mounts.files.apply())
    }

    /// Removes the scratch folder now, instead of when this value is dropped.
    ///
    /// # Errors
    /// It could not be removed completely.
    pub fn close(self) -> io::Result<()> {
        let Some(Mounts { scratch, memory, .. }) = self.0 else { return Ok(()) };
        let folders = [memory, Some(scratch)].into_iter().flatten().filter_map(Arc::into_inner);
        folders.map(Scratch::close).fold(Ok(()), Result::and)
    }
}
