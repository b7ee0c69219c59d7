//! The folders of one invocation: the granted ones, and a scratch folder that is gone with it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use cap_std::fs::Dir;
use tempfile::TempDir;

use super::files::{ApplyError, Chance, Guarded, OpenMount, Vfs};
use crate::outcome::{Change, Denial};
use crate::policy::capabilities::{Capabilities, MountMode};

/// What an invocation's guests see, and the scratch folder behind it, which is removed with the last that holds it.
#[derive(Debug)]
pub(super) struct Mounts {
    pub(super) vfs: Arc<Vfs>,
    /// Shared with every program that still runs: one that made a file while the folder is removed would keep it from going.
    pub(super) scratch: Arc<TempDir>,
}

/// What guests find beside the skill and what the capabilities name: read-only, and the host's own doing.
#[derive(Debug, Default)]
pub struct Beside {
    /// Packages of the programs, the skill under other names.
    pub mounts: Vec<OpenMount>,
    /// Commands that are shown in `/usr/bin`.
    pub commands: Vec<String>,
}

/// The writes that an invocation kept aside. They are gone with this value.
#[derive(Debug, Default)]
pub struct Overlays(Option<Mounts>);

/// Opens everything that the capabilities name, and puts it together with the skill's own folder and what is `beside`.
pub(super) fn open(
    capabilities: &Arc<Capabilities>,
    skill: Option<OwnedFd>,
    beside: Beside,
    guarded: &Guarded,
    scratch_root: &Path,
    chance: Chance,
) -> Result<Mounts, Denial> {
    let no_scratch = |error: io::Error| Denial {
        what: "make the scratch folder".into(),
        rule: format!("{}: {error}", scratch_root.display()),
        fix: Some("set TMPDIR to a folder that can be written".into()),
    };
    let scratch = tempfile::Builder::new().prefix("skillhost-").tempdir_in(scratch_root).map_err(no_scratch)?;
    let mut mounts = vec![OpenMount::scratch(folder(scratch.path(), "tmp").map_err(no_scratch)?)];
    mounts.extend(skill.map(OpenMount::skill));
    for (index, mount) in capabilities.mounts.iter().enumerate() {
        let opened = OpenMount::open(mount, guarded)?;
        mounts.push(match mount.mode {
            MountMode::Overlay => opened.over(folder(scratch.path(), &format!("upper{index}")).map_err(no_scratch)?),
            MountMode::Read | MountMode::Write => opened,
        });
    }
    for mount in &capabilities.packages {
        mounts.push(OpenMount::open(mount, guarded)?.as_packages());
    }
    mounts.extend(beside.mounts);
    let root = folder(scratch.path(), "root").and_then(|root| Ok(OpenMount::root(root, &mounts, &beside.commands, chance)?));
    mounts.push(root.map_err(no_scratch)?);
    Ok(Mounts { vfs: Vfs::new(mounts, capabilities.clone()), scratch: Arc::new(scratch) })
}

fn folder(scratch: &Path, name: &str) -> io::Result<OwnedFd> {
    let path = scratch.join(name);
    std::fs::create_dir(&path)?;
    #[expect(clippy::disallowed_methods, reason = "a scratch folder that was just made, by this process, for this invocation")]
    let dir = Dir::open_ambient_dir(&path, cap_std::ambient_authority())?;
    Ok(dir.into_std_file().into())
}

impl Overlays {
    pub(super) fn of(mounts: Mounts) -> Overlays {
        Overlays(Some(mounts))
    }

    /// What would change, by path.
    pub fn changes(&self) -> Vec<Change> {
        self.0.as_ref().map_or_else(Vec::new, |mounts| mounts.vfs.changes())
    }

    /// The same as a unified diff.
    pub fn diff(&self) -> String {
        self.0.as_ref().map_or_else(String::new, |mounts| mounts.vfs.diff())
    }

    /// Makes the changes in the folders themselves, each file at once.
    ///
    /// # Errors
    /// A folder changed meanwhile: then nothing was done; or a write failed.
    pub fn apply(&self) -> Result<(), ApplyError> {
        self.0.as_ref().map_or(Ok(()), |mounts| mounts.vfs.apply())
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
