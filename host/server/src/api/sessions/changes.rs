//! What a session has changed: looked at, applied, dropped, forked, stored and restored.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use super::super::executor::{DIFF, WRITTEN, stored};
use super::super::logs::too_many;
use super::super::problem::{Problem, ProblemCode};
use super::super::quotas::storage_quota;
use super::super::submit::closing;
use super::super::tenant::{OpenStream, Tenant};
use super::super::uploads::blocking;
use super::super::workspace::{Contents, digests};
use super::super::{Answered, ApiShared};
use super::files::{ENTRIES, View};
use super::trees::{self, whole};
use super::types::{SessionChanges, SessionInfo, SnapshotInfo};
use super::{Base, NewSession, Session, milliseconds};
use crate::result::cut;
use skillhost_sandbox::files::{SharedFiles, StagedChange};

impl ApiShared {
    /// Returns the changes so far. Programs may go on meanwhile.
    pub(super) async fn session_diff(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
    ) -> Answered<SessionChanges> {
        let heavy = heavy(tenant).await?;
        let guard = session.enter().await?;
        let (api, tenant, session) = (self.clone(), tenant.clone(), session.clone());
        blocking(move || {
            let (_heavy, _guard) = (heavy, guard);
            let (changes, _) = changes(&tenant, &Arc::new(session.files().frozen()))?;
            api.share_changes(&tenant, &changes.changes)?;
            Ok(changes)
        })
        .await
    }

    /// Returns the changes, from which the session starts anew: the next ones are relative to them.
    pub(super) async fn apply_session(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
    ) -> Answered<SessionChanges> {
        let heavy = heavy(tenant).await?;
        let alone = session.alone().await?;
        let (api, tenant, session) = (self.clone(), tenant.clone(), session.clone());
        blocking(move || {
            let (_heavy, _alone) = (heavy, alone);
            tenant.require_quotas_blocking()?;
            let (changes, staged) = changes(&tenant, &session.files())?;
            // Before they are applied: a client that gets none of them may ask again.
            api.share_changes(&tenant, &changes.changes)?;
            let base = session.state().base.clone();
            let base = Arc::new(trees::rebase(&tenant, &base, &staged)?);
            session.start_over(base)?;
            Ok(changes)
        })
        .await
    }

    /// Drops the changes.
    pub(super) async fn drop_changes(&self, session: &Arc<Session>) -> Answered<SessionInfo> {
        let alone = session.alone().await?;
        let session = session.clone();
        blocking(move || {
            let _alone = alone;
            let base = session.state().base.clone();
            session.start_over(base)?;
            Ok(session.info())
        })
        .await
    }

    /// Creates another session with the same files.
    pub(super) async fn fork_session(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
    ) -> Answered<SessionInfo> {
        if self.closing.is_cancelled() {
            return Err(closing());
        }
        let (api, owner, session) = (self.clone(), tenant.clone(), session.clone());
        let create = move |id| async move { api.fork_here(&owner, &session, id).await };
        self.new_session(tenant, create).await
    }

    async fn fork_here(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
        id: String,
    ) -> Answered<SessionInfo> {
        let heavy = heavy(tenant).await?;
        let alone = session.alone().await?;
        let (api, tenant, session) = (self.clone(), tenant.clone(), session.clone());
        blocking(move || {
            let (_heavy, _alone) = (heavy, alone);
            let settings = tenant.settings();
            let quotas = &settings.quotas;
            tenant.require_quotas_blocking()?;
            let _creating = tenant.sessions.begin(quotas.sessions)?;
            // The policy may have changed since the session was created.
            let (granted, mut limits) =
                api.grant_skills(&tenant, &session.skills, &session.restrictions)?;
            limits.disk = session.limits.disk.min(limits.disk);
            let reserved = tenant.sessions.reserve(limits.disk, quotas.session_disk.0)?;
            let life = session.expires.saturating_sub(session.created);
            let new = NewSession {
                id,
                skills: session.skills.clone(),
                parent: Some(session.id.clone()),
                rules: granted,
                limits,
                restrictions: session.restrictions.clone(),
                ttl: life.min(milliseconds(quotas.session_ttl.0)),
                idle: session.idle.min(milliseconds(quotas.session_idle.0)),
                base: session.state().base.clone(),
                reserved,
            };
            Ok(new.open(&tenant, Some(&session.files()))?.info())
        })
        .await
    }

    /// Stores the files of `/workspace` as a tree.
    pub(super) async fn snapshot_session(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
    ) -> Answered<SnapshotInfo> {
        let heavy = heavy(tenant).await?;
        let alone = session.alone().await?;
        let (api, tenant, session) = (self.clone(), tenant.clone(), session.clone());
        blocking(move || {
            let (_heavy, _alone) = (heavy, alone);
            tenant.require_quotas_blocking()?;
            let view = View::of(session.files().open(session.rules.clone()))?;
            let (info, tree) = trees::snapshot(&tenant, &view, ENTRIES)?;
            let contents = Contents::from(&tree);
            // The tree comes last: one that is there has all its files.
            api.share_blobs(&tenant, digests(&contents.files))?;
            api.share_blobs(&tenant, [&*info.tree].into())?;
            Ok(info)
        })
        .await
    }

    /// Gives `/workspace` the files of a tree. What is wrong changes nothing.
    pub(super) async fn restore_session(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
        digest: String,
    ) -> Answered<SessionInfo> {
        let heavy = heavy(tenant).await?;
        let alone = session.alone().await?;
        let (api, tenant, session) = (self.clone(), tenant.clone(), session.clone());
        blocking(move || {
            let (_heavy, _alone) = (heavy, alone);
            let tree = api.read_tree(&tenant, &digest)?;
            let base = session.state().base.clone();
            let candidate = session.clean(&base)?;
            let restored = View::of(candidate.open(session.rules.clone()))
                .and_then(|view| trees::restore(&tenant, &view, &tree, ENTRIES));
            match restored {
                Ok(()) => session.replace(candidate, base),
                Err(problem) => {
                    remove(&candidate.folders().upper);
                    return Err(problem);
                }
            }
            Ok(session.info())
        })
        .await
    }
}

/// Held by what reads or writes all files of a session: one request of each tenant at a time, since it
/// may need as much memory as a session has files. Those that wait count as open streams.
struct Heavy {
    _open: OpenStream,
    _turn: OwnedMutexGuard<()>,
}

async fn heavy(tenant: &Arc<Tenant>) -> Answered<Heavy> {
    let open = tenant.open_stream().ok_or_else(too_many)?;
    Ok(Heavy { _open: open, _turn: tenant.sessions.heavy.clone().lock_owned().await })
}

impl Session {
    /// Returns files of this session in which nothing is changed.
    fn clean(&self, base: &Base) -> Answered<Arc<SharedFiles>> {
        let upper = self.new_folder("upper").map_err(|error| Problem::internal(&error))?;
        Ok(Arc::new(self.files().without_changes(upper, base.path.clone())))
    }

    fn start_over(&self, base: Arc<Base>) -> Answered<()> {
        let clean = self.clean(&base)?;
        self.replace(clean, base);
        Ok(())
    }

    fn replace(&self, files: Arc<SharedFiles>, base: Arc<Base>) {
        let old = {
            let mut state = self.state();
            let old_base = std::mem::replace(&mut state.base, base);
            (std::mem::replace(&mut state.files, files), old_base)
        };
        remove(&old.0.folders().upper);
    }
}

/// Removes a folder that is not used any more.
fn remove(folder: &Path) {
    let (Some(parent), Some(name)) =
        (folder.parent(), folder.file_name().and_then(|name| name.to_str()))
    else {
        return;
    };
    let removed = skillhost_skill::private::open_or_create(parent)
        .and_then(|dir| skillhost_skill::private::remove(&dir, name));
    if let Err(error) = removed {
        tracing::warn!(%error, "cannot remove the changes of a session");
    }
}

/// Returns changes as clients get them, and with their content.
fn changes(
    tenant: &Tenant,
    files: &Arc<SharedFiles>,
) -> Answered<(SessionChanges, Vec<StagedChange>)> {
    let vfs = whole(files);
    let staged = vfs.staged(WRITTEN).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => {
            let detail = format!("the changed files have more than {WRITTEN} bytes");
            Problem::new(ProblemCode::FileConflict, detail)
        }
        // A symlink that the policy does not allow.
        std::io::ErrorKind::Other => Problem::new(ProblemCode::FileConflict, error.to_string()),
        _ => Problem::internal(&error),
    })?;
    let (diff, _) = cut(vfs.diff().as_bytes(), DIFF);
    let changes = stored(tenant, &staged).map_err(|error| Problem::internal(&error))?;
    let storage = tenant.settings().quotas.storage.0;
    let changes = changes.ok_or_else(|| storage_quota(storage))?;
    Ok((SessionChanges { changes, diff }, staged))
}
