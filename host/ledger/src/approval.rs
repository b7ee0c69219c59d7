//! Which runs start automatically, which need approval, and what an approval covers.
//!
//! The policy is the upper bound. Within it, the level that the operator set for a program or tool
//! applies, then the level of its skill. Without a level the request decides: a request for network
//! access is disabled; a request that may write to a host folder, or that comes from outside the
//! user's own folders, needs approval; everything else runs. A level that denies applies wherever
//! it is set: deny comes before ask, and ask before allow.
//!
//! An approval covers one digest of the skill and one set of permissions. A skill that has changed,
//! or that asks for more, needs a new one.

mod decide;
mod input;
mod intersection;
mod levels;
mod part;
mod permissions;
mod settings;
mod staged;
mod store;
mod workspace;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use skillhost_policy::Policy;
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::diagnostic::{printable, quoted};
use skillhost_sandbox::Overlays;
use skillhost_sandbox::files::StagedChange;
use skillhost_skill::{Skill, SourceKind};
use store::{Answer, Store};

pub use input::{RunInput, StdinInput};
pub use levels::names_program;
pub use part::SkillPart;
pub use permissions::PermissionSet;
pub use settings::SettingValue;
pub use skillhost_policy::level::PermissionLevel;
pub use staged::{PendingChange, apply as apply_changes};
pub use store::{Approval, ApprovalError, LevelSetting, PendingId, PendingRequest, QueueLimit};
pub use workspace::{LevelScope, Workspace};

/// How the session of a tenant's runs begins, before the name of the tenant. Their requests count apart.
pub const TENANT_SESSION: &str = "tenant ";

/// The most bytes of staged files that one run may leave for the operator.
const MAX_STAGED: u64 = 64 << 20;

/// A run that needs a decision.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalRequest<'a> {
    /// The loaded skill.
    pub skill: &'a Skill,
    /// The digest of all files of the skill.
    pub digest: &'a str,
    /// The part of the skill to run.
    pub part: &'a SkillPart,
    /// What the run would be granted.
    pub capabilities: &'a Capabilities,
    /// Whether the run needs approval whatever its level: see [`Grant::needs_approval`].
    ///
    /// [`Grant::needs_approval`]: skillhost_policy::Grant::needs_approval
    pub needs_approval: bool,
    /// Whether the skill is trusted: see [`Approvals::is_trusted`].
    pub trusted: bool,
    /// The session's own temporary folder. Writes there are harmless, and its path is not part of
    /// the permissions.
    pub session_folder: Option<&'a Path>,
    /// The session that asks. An approval for a session, or for one run, applies to the same
    /// session only.
    pub session: &'a str,
    /// The input of the run. An approval for one run applies to the same input only.
    pub input: RunInput<'a>,
}

/// Whether a run starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunDecision {
    /// The run starts, without these files of the skill, which a level denies.
    Allowed(BTreeSet<String>),
    /// The operator has to approve the run. Has the request's number and the question.
    NeedsApproval(PendingId, Question),
    /// The run does not start.
    Refused(RunRefusal),
}

/// Whether a later run will start: see [`Approvals::forecast`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forecast {
    /// It will start without a question.
    Starts,
    /// The operator will have to approve it.
    Asks,
    /// It will not start.
    Refused(RunRefusal),
}

/// Why a run is refused, and what would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRefusal {
    /// The reason.
    pub why: String,
    /// The command that allows it, or the rule that refuses it.
    pub fix: String,
    /// Whether the policy refuses it, and not a level that was set.
    pub by_policy: bool,
    /// The workspace that the level is limited to. A client must not learn its path.
    pub workspace: Option<String>,
}

impl RunRefusal {
    /// Returns the reason for the operator, who may know the folders of the host.
    pub fn operator_why(&self) -> String {
        match &self.workspace {
            Some(folder) => format!("{} in {folder}", self.why),
            None => self.why.clone(),
        }
    }

    /// Returns the fix for the operator: the whole command.
    pub fn operator_fix(&self) -> String {
        match &self.workspace {
            Some(folder) => format!("{} --workspace {}", self.fix, quoted(folder)),
            None => self.fix.clone(),
        }
    }
}

/// For a client: names no folder of the host.
impl std::fmt::Display for RunRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RunRefusal { why, fix, workspace, .. } = self;
        match workspace {
            Some(_) => write!(f, "{why} in this workspace\n{fix} --workspace DIR"),
            None => write!(f, "{why}\n{fix}"),
        }
    }
}

/// What a person should know before approving a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// For the operator; names folders of the host.
    pub operator: String,
    /// For the user of a client; names no folder of the host.
    pub client: String,
}

/// How long an approval lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Term {
    /// For one run.
    Once,
    /// For the session that asked.
    Session,
    /// Until it is revoked.
    Always,
}

/// Levels and approvals, in one file, which is created when it is first written.
#[derive(Debug)]
pub struct Approvals {
    store: Store,
}

impl Approvals {
    /// Opens the approvals in a file, which may be missing.
    pub fn open(path: &Path) -> Approvals {
        Approvals { store: Store::at(path) }
    }

    /// Checks whether a loaded skill is trusted. It is if the operator named its folder by path; if
    /// its source is trusted and no other user can write to it there; or if it lies in one of the
    /// user's folders and someone approved this digest of the whole skill, for this session or
    /// until revoked. An approval of one program does not make the skill trusted.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn is_trusted(
        &self,
        skill: &Skill,
        digest: &str,
        session: &str,
    ) -> Result<bool, ApprovalError> {
        match skill.origin {
            SourceKind::Path => Ok(true),
            SourceKind::Policy | SourceKind::BuiltIn => Ok(skill.is_protected()),
            SourceKind::User | SourceKind::Fetched => {
                let counts = |approval: &Approval| {
                    approval.part == SkillPart::Skill
                        && approval.term != Term::Once
                        && !approval.is_for_changes()
                        && approval.holds_for(session, "")
                };
                Ok(self
                    .store
                    .approvals_of_digest(&skill.approval_key(), digest)?
                    .iter()
                    .any(counts))
            }
            SourceKind::Project | SourceKind::Flag => Ok(false),
        }
    }

    /// Stores the staged writes of a run until the operator decides. The text is for the operator
    /// and names folders of the host.
    ///
    /// # Errors
    /// The writes are too large to store, or the file cannot be written.
    pub fn stage(
        &self,
        ask: &ApprovalRequest<'_>,
        overlays: &Overlays,
    ) -> Result<PendingId, ApprovalError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::FileTooLarge => ApprovalError::TooLarge,
            _ => ApprovalError::Changes(error.to_string()),
        };
        let mounts = &ask.capabilities.mounts;
        let folder = |staged: &StagedChange| {
            mounts.iter().find(|mount| mount.guest == staged.guest).map(|mount| mount.host.clone())
        };
        let changes = overlays.staged(MAX_STAGED).map_err(failed)?.into_iter();
        let absolute = |folder: PathBuf| folder.canonicalize().map_err(failed);
        let changes: Vec<PendingChange> = changes
            .filter_map(|staged| Some((folder(&staged)?, staged)))
            .map(|(folder, staged)| Ok(PendingChange { folder: absolute(folder)?, staged }))
            .collect::<Result<_, ApprovalError>>()?;
        let count = changes.len();
        let folders: BTreeSet<String> =
            changes.iter().map(|change| printable(&change.folder.display().to_string())).collect();
        let folders = folders.into_iter().collect::<Vec<_>>().join(", ");
        let pending = PendingRequest {
            id: PendingId(0),
            skill: ask.skill.approval_key(),
            part: ask.part.clone(),
            digest: ask.digest.to_owned(),
            files: Default::default(),
            capabilities: changes
                .iter()
                .map(|change| format!("change {}/{}", change.staged.guest, change.staged.path))
                .collect(),
            permissions: None,
            session: ask.session.to_owned(),
            input: ask.input.digest(),
            time: String::new(),
            text: format!(
                "{} ran and wants to change {count} path{} in {folders}",
                ask.skill.name,
                if count == 1 { "" } else { "s" }
            ),
            diff: Some(overlays.diff()),
        };
        self.store.note(pending, &changes)
    }

    /// Lists the pending requests, oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn pending(&self) -> Result<Vec<PendingRequest>, ApprovalError> {
        self.store.pending()
    }

    /// Approves a pending request. Staged writes are applied, and their approval is for one run,
    /// whatever the term.
    ///
    /// # Errors
    /// No request of that number is pending, the file cannot be written, or a folder has changed
    /// since. In these cases the request stays pending.
    pub fn approve(
        &self,
        id: PendingId,
        term: Term,
        who: &str,
    ) -> Result<PendingRequest, ApprovalError> {
        self.approve_until(id, term, None, who)
    }

    /// Approves a pending request, as [`Approvals::approve`] does, but at most until `end`.
    ///
    /// # Errors
    /// As [`Approvals::approve`].
    pub fn approve_until(
        &self,
        id: PendingId,
        term: Term,
        end: Option<jiff::Timestamp>,
        who: &str,
    ) -> Result<PendingRequest, ApprovalError> {
        let changes = self.store.changes(id)?;
        if changes.is_empty() {
            return self.store.answer(id, Answer::Run(term, end), who);
        }
        staged::apply(&changes).map_err(|error| ApprovalError::Changes(error.to_string()))?;
        self.store.answer(id, Answer::Written, who)
    }

    /// Rejects a pending request. The next such run asks again.
    ///
    /// # Errors
    /// As [`Approvals::approve`].
    pub fn deny(&self, id: PendingId, who: &str) -> Result<PendingRequest, ApprovalError> {
        self.store.answer(id, Answer::No, who)
    }

    /// Sets a level for a skill or a part of it; `None` removes the level. [`PermissionLevel::AutoApproved`]
    /// applies to one digest of the skill; other versions need approval.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_level(
        &self,
        skill: &str,
        part: &SkillPart,
        level: Option<PermissionLevel>,
        digest: Option<&str>,
        who: &str,
    ) -> Result<(), ApprovalError> {
        self.set_level_in(skill, part, level, digest, who, &LevelScope::default())
    }

    /// Sets or removes a level, as [`Approvals::set_level`] does, for one workspace or a limited
    /// time.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_level_in(
        &self,
        skill: &str,
        part: &SkillPart,
        level: Option<PermissionLevel>,
        digest: Option<&str>,
        who: &str,
        scope: &LevelScope,
    ) -> Result<(), ApprovalError> {
        self.store.set_level(skill, part, level, digest, who, scope)
    }

    /// Revokes every approval of a skill, and returns how many there were.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn revoke(&self, skill: &str) -> Result<usize, ApprovalError> {
        self.store.revoke(skill)
    }

    /// Checks, without opening the database, whether no level is set for any skill. `false` if that
    /// is not certain. Call it only if no other thread uses these approvals.
    pub fn has_no_levels(&self) -> bool {
        self.store.has_no_levels()
    }

    /// Returns the levels that are set for a skill and its parts.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn levels_of(&self, skill: &str) -> Result<Vec<LevelSetting>, ApprovalError> {
        self.store.levels_of(skill)
    }

    /// Returns every level, by skill.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn levels(&self) -> Result<Vec<LevelSetting>, ApprovalError> {
        self.store.levels()
    }

    /// Returns every approval, newest first, including those that were used or revoked.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn approvals(&self) -> Result<Vec<Approval>, ApprovalError> {
        self.store.approvals()
    }

    /// Returns a function that checks whether a skill is enabled, by name and by whether it asks
    /// for network access. It uses the levels as they are now.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn enabled_filter(
        &self,
        policy: &Policy,
    ) -> Result<impl Fn(&str, bool) -> bool + Send + Sync + use<>, ApprovalError> {
        let workspaces = Workspace::all_of_policy(policy);
        let mut set = self.store.levels()?;
        set.retain(|set| {
            set.part == SkillPart::Skill && set.is_for(workspaces.last(), &workspaces)
        });
        let policy = policy.clone();
        Ok(move |name: &str, network: bool| {
            let own = set
                .iter()
                .filter(|set| set.skill == name)
                .min_by_key(|set| (set.level > PermissionLevel::Disabled, set.workspace.is_none()))
                .map(|set| set.level);
            let bound = policy.approval(name);
            let level = own.or(bound).unwrap_or(if network {
                PermissionLevel::Disabled
            } else {
                PermissionLevel::Enabled
            });
            bound.map_or(level, |bound| level.min(bound)) > PermissionLevel::Disabled
        })
    }
}
