//! The persistent state of a skill, for one run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cap_std::fs::Dir;

use super::Runner;
use super::receipt::ReceiptContext;
use skillhost_ledger::state::{StateLock, StateStore};
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::Io;
use skillhost_sandbox::files::{HostDir, OpenMount};
use skillhost_sandbox::http::ResponseCache;
use skillhost_skill::Skill;

/// The pauses between two attempts to lock the state: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Where a run's state comes from.
pub(super) enum SkillState {
    /// The run has no state.
    None,
    /// The state on this host, locked for this run.
    Held(Arc<StateLock>),
    /// The state in a recording, restored to a new folder, with its bytes and its number of files.
    Recorded(Arc<Dir>, u64, u64),
}

impl SkillState {
    /// Returns the mount through which guests see the state.
    pub(super) fn mount(&self) -> Option<OpenMount> {
        match self {
            SkillState::None => None,
            SkillState::Held(held) => {
                Some(OpenMount::state(HostDir::shared(held.clone()), held.bytes, held.count))
            }
            SkillState::Recorded(folder, bytes, files) => {
                Some(OpenMount::state(HostDir::shared(folder.clone()), *bytes, *files))
            }
        }
    }

    /// Takes the HTTP cache out of the state, for one run.
    ///
    /// A cache that cannot be read is lost, which costs requests and nothing else.
    /// All sessions have the same folder in place of a workspace, so they use none.
    pub(super) fn take_cache(&self, capabilities: &Capabilities, in_session: bool) -> KeptCache {
        let SkillState::Held(held) = self else { return KeptCache::None };
        let Capabilities { limits, determinism, .. } = capabilities;
        let saved = held.take_cache(limits.state).ok().flatten();
        if limits.http_cache == 0 || limits.http_cache_keep_ms == 0 {
            return KeptCache::None;
        }
        if determinism.is_some() || in_session {
            return saved.map_or(KeptCache::None, KeptCache::Unused);
        }
        let keep = limits.http_cache_keep_ms / 1_000;
        let saved = saved.unwrap_or_default();
        let scope = cache_scope(capabilities);
        KeptCache::Used(ResponseCache::restore(limits.http_cache, &scope, keep, &saved))
    }

    /// Puts the HTTP cache back, as far as the run's files leave room for it.
    pub(super) fn put_cache(&self, cache: KeptCache, limits: &Limits) {
        let SkillState::Held(held) = self else { return };
        let room = limits.state.saturating_sub(held.file_bytes().unwrap_or(limits.state));
        let saved = match cache {
            KeptCache::None => None,
            KeptCache::Unused(saved) => Some(saved).filter(|saved| saved.len() as u64 <= room),
            KeptCache::Used(cache) => cache.save(room),
        };
        // As when it cannot be read.
        saved.map(|saved| held.put_cache(&saved).ok());
    }

    /// Unlocks the state for other runs. The guest has ended, and the caller may hold the outcome
    /// for a long time.
    pub(super) fn release(&self) {
        if let SkillState::Held(held) = self {
            held.release();
        }
    }
}

/// The HTTP cache of a state, while a run holds it.
pub(super) enum KeptCache {
    /// There is none.
    None,
    /// The run is deterministic or in a session, and uses none.
    Unused(Vec<u8>),
    /// The run uses it.
    Used(Arc<ResponseCache>),
}

impl KeptCache {
    /// Returns the cache that the run uses.
    pub(super) fn used(&self) -> Option<Arc<ResponseCache>> {
        match self {
            KeptCache::Used(cache) => Some(cache.clone()),
            KeptCache::None | KeptCache::Unused(_) => None,
        }
    }
}

/// Says whose responses a kept cache holds: those of a workspace, by its folder and not only its
/// path, under these certificate authorities. The state itself belongs to one skill of one user or
/// tenant.
fn cache_scope(capabilities: &Capabilities) -> Vec<u8> {
    let workspace = capabilities.mounts.iter().find(|mount| mount.guest == "/workspace");
    let folder = workspace.map(|mount| {
        let place =
            mount.resolved.as_ref().map(|folder| (folder.device, folder.inode, folder.born));
        (&mount.host, place)
    });
    let authorities: Vec<&str> =
        capabilities.authorities.iter().map(|authority| authority.digest.as_str()).collect();
    // Quoted by `Debug`, so that no path looks like something else.
    format!("{folder:?} {authorities:?}").into_bytes()
}

impl Runner {
    /// Returns the state for a run. A replay gets the recorded state, and must not see the state on
    /// this host.
    pub(super) async fn state(
        &self,
        skill: &Skill,
        limits: &Limits,
        io: &mut Io,
        ask: Option<&ReceiptContext>,
    ) -> Result<SkillState, Status> {
        match ask.and_then(|ask| ask.state.as_ref()) {
            Some(SkillState::Recorded(folder, bytes, files)) => {
                Ok(SkillState::Recorded(folder.clone(), *bytes, *files))
            }
            Some(SkillState::None | SkillState::Held(_)) => Ok(SkillState::None),
            None => Ok(self
                .take_state(skill, limits, io)
                .await?
                .map_or(SkillState::None, |held| SkillState::Held(Arc::new(held)))),
        }
    }

    /// Returns the state store of this host.
    pub fn states(&self) -> StateStore {
        StateStore::new(self.options.state.clone())
    }

    /// Locks the state of a skill, if the skill is granted one. Runs of one skill take turns: this
    /// waits for the others, at most for the time that a run may take.
    async fn take_state(
        &self,
        skill: &Skill,
        limits: &Limits,
        io: &mut Io,
    ) -> Result<Option<StateLock>, Status> {
        if limits.state == 0 {
            return Ok(None);
        }
        let (states, until, mut pause) =
            (self.states(), Instant::now() + limits.timeout(), PAUSES.0);
        loop {
            match states.take(&skill.name, &skill.root) {
                Ok(Some(held)) => return Ok(Some(held)),
                Ok(None) if Instant::now() < until => {}
                Ok(None) => {
                    let message =
                        "another run of this skill holds its state and did not end in time"
                            .to_owned();
                    return Err(Status::Failed {
                        message,
                        fix: Some("try again when that run has ended".into()),
                    });
                }
                Err(error) => {
                    return Err(Status::Failed {
                        message: format!("cannot use the skill's state: {error}"),
                        fix: None,
                    });
                }
            }
            let interrupted = async {
                match &mut io.interrupt {
                    Some(interrupt) => interrupt.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = interrupted => return Err(Status::Interrupted),
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSES.1),
            }
        }
    }
}
