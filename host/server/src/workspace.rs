//! Picks the folder at /workspace for a session's runs: the operator's, a client's root inside it,
//! or one of the session's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rmcp::service::{RequestContext, RoleServer};

use super::Shared;
use super::folders::Folder;
use super::session::{Session, is_new};
use super::skills::decoded;
use skillhost::invoke::{LoadedSkill, RunError, Runner};
use skillhost_catalog::CatalogEntry;
use skillhost_policy::capabilities::{Capabilities, MountMode};
use skillhost_policy::{Overrides, Policy, WORKSPACE};
use skillhost_sandbox::files::may_narrow_to;

/// The most bytes of files that one call may add.
const FILES: usize = 16 << 20;

/// The policy with the session's workspace, and the folder if it is the session's own.
pub(super) struct Workspace {
    pub(super) policy: Arc<Policy>,
    pub(super) folder: Option<Arc<Folder>>,
}

impl Shared {
    /// Returns the workspace for a run of a skill. A session's own folder is private and initially
    /// empty: it grants nothing of the operator's.
    pub(super) async fn workspace(
        &self,
        session: &Session,
        entry: &CatalogEntry,
        context: &RequestContext<RoleServer>,
    ) -> Result<Workspace, String> {
        let policy = self.policy.for_source(entry.source, entry.locked.as_deref());
        let mounts =
            policy.layers_for(&entry.name).flat_map(|layer| &layer.mounts).map(|rule| &rule.mount);
        let inside = |guest: &str| {
            guest
                .strip_prefix(WORKSPACE)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mounts: Vec<_> = mounts.filter(|mount| inside(&mount.guest)).cloned().collect();
        if let Some(mount) = mounts.iter().rev().find(|mount| mount.guest == WORKSPACE) {
            let policy = match self.root(session, &mount.host, context).await {
                Some((root, below)) => {
                    let policy = Policy::clone(&self.policy);
                    Arc::new(policy.with_narrower_workspace(root, mount.mode, below))
                }
                None => self.policy.clone(),
            };
            return Ok(Workspace { policy, folder: None });
        }
        if !mounts.is_empty() {
            return Ok(Workspace { policy: self.policy.clone(), folder: None });
        }
        let folder = self.folder(session, entry, session.is_alone(context))?;
        let policy =
            folder.policy(|path| self.with_workspace(path.to_owned(), MountMode::Write))?;
        Ok(Workspace { policy, folder: Some(folder) })
    }

    fn with_workspace(&self, folder: PathBuf, mode: MountMode) -> Result<Policy, String> {
        let overrides = Overrides { workspace: Some((folder, mode)), ..Overrides::default() };
        Policy::clone(&self.policy).with_command_line(overrides).map_err(|findings| {
            let first = findings.first().map(|finding| self.hidden.text(&finding.message));
            format!("cannot mount a workspace: {}", first.unwrap_or_default())
        })
    }

    fn folder(
        &self,
        session: &Session,
        entry: &CatalogEntry,
        is_alone: bool,
    ) -> Result<Arc<Folder>, String> {
        if let Some(folder) = &session.state().folder {
            return Ok(folder.clone());
        }
        let made = if is_alone { self.folders.take(entry.into()) } else { self.folders.create() };
        let made =
            made.map_err(|error| format!("cannot create the session's folder: {}", error.kind()))?;
        Ok(session.state().folder.get_or_insert_with(|| Arc::new(made)).clone())
    }

    /// Loads a skill with a runner for a run in a workspace. The skill that was last loaded for a session's folder
    /// is used again if nothing about it has changed.
    pub(super) fn load_in(
        &self,
        entry: &CatalogEntry,
        workspace: &Workspace,
        runner: &Runner,
    ) -> Result<LoadedSkill, RunError> {
        let Workspace { policy, folder } = workspace;
        let Some(folder) = folder else { return runner.load_for_run(entry, policy) };
        if let Some(loaded) = folder.loaded(entry.into()) {
            return Ok(runner.reuse(&loaded));
        }
        let began = SystemTime::now();
        let loaded = runner.load_for_run(entry, policy)?;
        // The operator may replace other folders, and a grant names the folder that it found.
        let Capabilities { mounts, packages, .. } = &loaded.grant.capabilities;
        // The values of settings may change at any time too.
        if packages.is_empty()
            && loaded.skill.manifest.settings.is_empty()
            && mounts.iter().all(|mount| mount.spelling() == folder.path())
            && loaded.is_reusable(began)
        {
            folder.keep_loaded(runner.reuse(&loaded));
        }
        Ok(loaded)
    }

    /// Returns the first root of the client that is inside the operator's workspace, and its path
    /// there. A root can only narrow the workspace: it cannot name anything that the policy does
    /// not mount, nor another mount.
    async fn root(
        &self,
        session: &Session,
        workspace: &Path,
        context: &RequestContext<RoleServer>,
    ) -> Option<(PathBuf, String)> {
        let known = session.state().root.clone();
        let root = match known {
            Some(root) => root,
            None => {
                let root = first_root(context).await;
                session.state().root = Some(root.clone());
                root
            }
        }?;
        let (root, workspace) = (root.canonicalize().ok()?, workspace.canonicalize().ok()?);
        // Rules are text, so none could name a path that is not UTF-8.
        let below = root.strip_prefix(&workspace).ok()?.to_str()?.to_owned();
        (!below.is_empty() && may_narrow_to(&workspace, &below)).then_some((root, below))
    }
}

/// Asks the client for its roots. Clients without roots are not asked, and since revision
/// 2026-07-28 no client is.
#[expect(deprecated, reason = "clients of revisions before 2026-07-28 still have roots")]
async fn first_root(context: &RequestContext<RoleServer>) -> Option<PathBuf> {
    if is_new(context) || context.client_capabilities()?.roots.is_none() {
        return None;
    }
    let asked = tokio::time::timeout(std::time::Duration::from_secs(10), context.peer.list_roots())
        .await
        .ok()?;
    let roots = asked
        .inspect_err(|error| tracing::debug!(%error, "the client did not return its roots"))
        .ok()?;
    roots.roots.iter().find_map(|root| file_path(&root.uri))
}

/// Parses the path of a `file://` URI.
fn file_path(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    decoded(path).filter(|path| path.starts_with('/')).map(PathBuf::from)
}

impl Workspace {
    /// Writes the files of a call to the workspace.
    pub(super) fn put<'a>(
        &self,
        files: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Result<(), String> {
        if files.clone().next().is_none() {
            return Ok(());
        }
        let Some(folder) = &self.folder else {
            return Err(
                "/workspace is the operator's folder, so `files` cannot be used: write them there yourself, or use `stdin`".into(),
            );
        };
        if files.clone().map(|(_, text)| text.len()).sum::<usize>() > FILES {
            return Err("`files` are larger than 16 MiB in total".into());
        }
        for (path, text) in files {
            folder
                .put(path, text)
                .map_err(|error| format!("cannot write `{path}` to /workspace: {error}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_uris_are_parsed() {
        let path = |uri| file_path(uri).map(|path| path.display().to_string());
        assert_eq!(path("file:///a/b").as_deref(), Some("/a/b"));
        assert_eq!(path("file://localhost/a%20b%2Fc").as_deref(), Some("/a b/c"));
        for other in
            ["https://x/a", "file://host/a", "file://a", "file:///%f", "file:///%zz", "file:///%ff"]
        {
            assert_eq!(path(other), None, "{other}");
        }
    }
}
