//! The workspace that a permission level is limited to.

use std::io;
use std::path::Path;

use serde::Serialize;

use super::PermissionLevel;
use skillhost_policy::capabilities::{Capabilities, Mount};
use skillhost_policy::{Policy, WORKSPACE};

/// A folder that runs have as their workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Workspace {
    /// Its real path.
    pub path: String,
    /// Its device and inode.
    #[serde(skip)]
    pub(super) identity: (u64, u64),
}

impl Workspace {
    /// Identifies a folder.
    ///
    /// # Errors
    /// The folder cannot be found.
    pub fn of(folder: &Path) -> io::Result<Workspace> {
        let real = folder.canonicalize()?;
        let found = rustix::fs::stat(&real)?;
        Ok(Workspace { path: real.display().to_string(), identity: (found.st_dev, found.st_ino) })
    }

    /// Returns the workspace of a run with these capabilities.
    pub(super) fn of_run(capabilities: &Capabilities) -> Option<Workspace> {
        capabilities.mounts.iter().find_map(Workspace::of_mount)
    }

    /// Returns the workspaces that a policy mounts: the operator's, and one inside it that a client
    /// chose.
    pub(super) fn all_of_policy(policy: &Policy) -> Vec<Workspace> {
        let mounts = policy.layers.iter().flat_map(|layer| &layer.mounts);
        mounts.filter_map(|rule| Workspace::of_mount(&rule.mount)).collect()
    }

    fn of_mount(mount: &Mount) -> Option<Workspace> {
        (mount.guest == WORKSPACE).then(|| Workspace::of(&mount.host).ok()).flatten()
    }

    /// Checks whether a level for this workspace applies to a run. A level that restricts also
    /// applies to a folder that was moved, that replaced this one or that lies in it; a level that
    /// allows does not. `run` is the workspace of the run, and `policy` has those that the policy
    /// mounts, which a run without access to files lacks.
    pub(super) fn covers(
        &self,
        run: Option<&Workspace>,
        policy: &[Workspace],
        level: PermissionLevel,
    ) -> bool {
        let is_same = |other: &Workspace| {
            self.path == other.path
                || self.identity == other.identity
                || Path::new(&other.path).starts_with(&self.path)
        };
        match level {
            PermissionLevel::AutoApproved => run == Some(self),
            _ => run.is_some_and(is_same) || policy.iter().any(is_same),
        }
    }
}

/// What a level is limited to.
#[derive(Debug, Clone, Default)]
pub struct LevelScope {
    /// The only workspace that it applies to.
    pub workspace: Option<Workspace>,
    /// When it ends.
    pub until: Option<jiff::Timestamp>,
}
