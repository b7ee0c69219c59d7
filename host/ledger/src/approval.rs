//! What runs by itself, what waits for a person's word, and who gave it for what.
//!
//! The policy is the upper bound. Below it holds what the operator set for a program or tool, else
//! for its skill, else what follows from the request: what asks for network is disabled; what may
//! write a folder of the host's, or comes from outside the user's own folders, asks; the rest runs.
//! A level that denies holds wherever it is set: the order is deny, ask, allow.
//!
//! An approval is for one digest of the skill and one set of permissions. A skill that changed, or
//! asks for more, asks again.

mod asked;
mod common;
mod input;
mod levels;
mod staged;
mod store;
mod what;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use asked::{PermissionSet, PreviousApproval, Reader};
use levels::Levels;
use skillhost_policy::Policy;
use skillhost_policy::capabilities::{Capabilities, Mount, MountMode};
use skillhost_policy::diagnostic::printable;
use skillhost_sandbox::Overlays;
use skillhost_sandbox::files::Staged;
use skillhost_skill::{Skill, SourceKind};
use store::{Answer, CHANGE, Store};

pub use input::{RunInput, StdinInput};
pub use skillhost_policy::approval::PermissionLevel;
pub use staged::StagedChange;
pub use store::{Approval, ApprovalError, LevelSetting, PendingId, PendingRequest, QueueLimit};
pub use what::SkillPart;

/// Bytes of the files of one run that are kept until someone has seen them.
const MAX_STAGED: u64 = 64 << 20;

/// A run that is about to be.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalRequest<'a> {
    /// The skill, loaded.
    pub skill: &'a Skill,
    /// The digest of all its files.
    pub digest: &'a str,
    /// The part of the skill to run.
    pub part: &'a SkillPart,
    /// What it would be granted.
    pub capabilities: &'a Capabilities,
    /// Whether the skill is trusted ([`Approvals::is_trusted`]).
    pub trusted: bool,
    /// A folder of the session's own, which is gone with it: what is written there harms nobody,
    /// and its place does not count.
    pub session_folder: Option<&'a Path>,
    /// Who asks: an approval for a session, or for one run, holds for the same text alone.
    pub session: &'a str,
    /// What the run is given: an approval for one run holds for the same alone.
    pub input: RunInput<'a>,
}

/// Whether it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunDecision {
    /// It runs, without the skill's own files of these paths: a level denies them.
    Allowed(BTreeSet<String>),
    /// A person has to say so: what to call it by, and what that person should know.
    ApprovalRequest(PendingId, Question),
    /// It does not run: why, and what would change that.
    Refused(Refusal),
}

/// Why a run is refused, and what would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub why: String,
    /// A command that the operator can run, or the rule to change.
    pub fix: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{}", self.why, self.fix)
    }
}

/// What the levels say of a run.
enum Step<'a> {
    Decided(RunDecision),
    /// An approval is needed.
    ApprovalRequest(Levels<'a>),
}

/// What a person should know before they say yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// For the operator, with the folders of the host.
    pub operator: String,
    /// For the user of a client: it names no folder of the host.
    pub client: String,
}

/// For how long a word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Term {
    /// One run.
    Once,
    /// Whoever asked, as long as they are the same.
    Session,
    /// Until it is revoked.
    Always,
}

/// Levels and approvals, in one file. Cheap to open where there is none; made at the first word.
#[derive(Debug)]
pub struct Approvals {
    store: Store,
}

impl Approvals {
    /// What is kept in a file, which need not be there yet.
    pub fn open(path: &Path) -> Approvals {
        Approvals { store: Store::at(path) }
    }

    /// Checks whether a loaded skill is trusted: the operator named its folder by its path, its
    /// source is trusted and nobody else can change it there, or it lies in a folder of the user's
    /// and someone approved this digest as a whole, for this session or until it is revoked. An
    /// approval of one of its programs is for that program.
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
            SourceKind::User => {
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

    /// Whether something runs. Where a person has to be asked, it is noted among what is pending;
    /// the same request is noted once.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn decide(
        &self,
        policy: &Policy,
        ask: &ApprovalRequest<'_>,
    ) -> Result<RunDecision, ApprovalError> {
        match self.level(policy, ask)? {
            Step::Decided(decision) => Ok(decision),
            Step::Ask(levels) => self.ask(ask, &levels),
        }
    }

    /// Says yes to the very run that asks. Nothing of it is left for another run, so it is bound to
    /// whoever calls this.
    ///
    /// # Errors
    /// As [`Approvals::approve`].
    pub fn approve_current(
        &self,
        policy: &Policy,
        ask: &ApprovalRequest<'_>,
        id: PendingId,
        who: &str,
    ) -> Result<RunDecision, ApprovalError> {
        match self.level(policy, ask)? {
            // A level was set meanwhile.
            Step::Decided(decision) => Ok(decision),
            Step::Ask(levels) => {
                self.store.answer(id, Answer::Used, who)?;
                Ok(RunDecision::Allowed(levels.denied_files()))
            }
        }
    }

    /// What the levels say.
    fn level<'a>(
        &self,
        policy: &Policy,
        ask: &ApprovalRequest<'a>,
    ) -> Result<Step<'a>, ApprovalError> {
        let name = ask.skill.name.as_str();
        let levels = Levels::new(ask.skill, self.levels_that_hold(ask.skill)?);
        let bound = policy.approval(name);
        let denial = [levels.denial(ask.part), bound].into_iter().flatten().min();
        if let Some(level @ (PermissionLevel::Blocked | PermissionLevel::Disabled)) = denial {
            let by_policy = bound.is_some_and(|bound| bound <= level);
            let whose = levels
                .set_at(level)
                .filter(|_| !by_policy)
                .map_or_else(|| name.to_owned(), |set| set.skill.clone());
            return Ok(Step::Decided(RunDecision::Refused(refusal(&whose, level, by_policy))));
        }
        let level = match levels.nearest(ask.part) {
            // What was said of one state of the skill does not hold for another.
            Some(set)
                if set.level == PermissionLevel::AutoApproved
                    && set.digest.as_deref() != Some(ask.digest) =>
            {
                PermissionLevel::Enabled
            }
            Some(set) => set.level,
            None => by_itself(ask, bound),
        };
        Ok(match bound.map_or(level, |bound| level.min(bound)) {
            PermissionLevel::AutoApproved => Step::Decided(RunDecision::Allowed(levels.denied_files())),
            PermissionLevel::Enabled => Step::Ask(levels),
            level => Step::Decided(RunDecision::Refused(refusal(&ask.skill.approval_key(), level, false))),
        })
    }

    /// The levels that hold for a skill. Those of a skill of the catalogue hold for any other
    /// folder of its name too, where they take away.
    fn levels_that_hold(&self, skill: &Skill) -> Result<Vec<LevelSetting>, ApprovalError> {
        let mut levels = self.store.levels_of(&skill.approval_key())?;
        if skill.origin == SourceKind::Path {
            levels.extend(
                self.store
                    .levels_of(&skill.name)?
                    .into_iter()
                    .filter(|set| set.level < PermissionLevel::AutoApproved),
            );
        }
        Ok(levels)
    }

    fn ask(
        &self,
        ask: &ApprovalRequest<'_>,
        levels: &Levels<'_>,
    ) -> Result<RunDecision, ApprovalError> {
        let asked = PermissionSet::of(ask.capabilities, ask.session_folder);
        let input = ask.input.digest();
        let approvals = self.store.approvals_of(&ask.skill.approval_key(), ask.part)?;
        for approval in approvals.iter().filter(|approval| {
            approval.digest == ask.digest && approval.holds_for(ask.session, &input)
        }) {
            if asked.is_within(&PermissionSet::from_lines(&approval.capabilities))
                && self.store.take(approval)?
            {
                return Ok(RunDecision::Allowed(levels.denied_files()));
            }
        }
        let files =
            asked::files(ask.skill).map_err(|error| ApprovalError::Skill(error.to_string()))?;
        let before = approvals.iter().find(|approval| !approval.is_for_changes()).map(|approval| {
            PreviousApproval { approval, asked: PermissionSet::from_lines(&approval.capabilities) }
        });
        let text = |reader| asked::text(ask, &asked, &files, before.as_ref(), reader);
        let question = Question { operator: text(Reader::Operator), client: text(Reader::Client) };
        let pending = PendingRequest {
            id: PendingId(0),
            skill: ask.skill.approval_key(),
            part: ask.part.clone(),
            digest: ask.digest.to_owned(),
            files,
            capabilities: asked.into_lines(),
            session: ask.session.to_owned(),
            input,
            time: String::new(),
            text: question.operator.clone(),
            diff: None,
        };
        Ok(RunDecision::NeedsApproval(self.store.note(pending, &[])?, question))
    }

    /// Notes changes that a run kept aside, until a person has seen them. The text is the
    /// operator's, and names the folders.
    ///
    /// # Errors
    /// The changes have too many bytes to be kept, or the file cannot be written.
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
        let folder = |staged: &Staged| {
            mounts.iter().find(|mount| mount.guest == staged.guest).map(|mount| mount.host.clone())
        };
        let changes = overlays.staged(MAX_STAGED).map_err(failed)?.into_iter();
        let absolute = |folder: PathBuf| folder.canonicalize().map_err(failed);
        let changes: Vec<StagedChange> = changes
            .filter_map(|staged| Some((folder(&staged)?, staged)))
            .map(|(folder, staged)| Ok(StagedChange { folder: absolute(folder)?, staged }))
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
                .map(|change| format!("{CHANGE}{}/{}", change.staged.guest, change.staged.path))
                .collect(),
            session: ask.session.to_owned(),
            input: ask.input.digest(),
            time: String::new(),
            text: format!(
                "{} has run, and would change {count} path{} in {folders}",
                ask.skill.name,
                if count == 1 { "" } else { "s" }
            ),
            diff: Some(overlays.diff()),
        };
        self.store.note(pending, &changes)
    }

    /// What waits for a person's word, the oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn pending(&self) -> Result<Vec<PendingRequest>, ApprovalError> {
        self.store.pending()
    }

    /// Says yes to what is pending. Changes that were kept aside are made; their term is once,
    /// whatever is said.
    ///
    /// # Errors
    /// Nothing of that number is pending, the file cannot be written, or a folder is no longer what
    /// it was: then it stays pending.
    pub fn approve(
        &self,
        id: PendingId,
        term: Term,
        who: &str,
    ) -> Result<PendingRequest, ApprovalError> {
        let changes = self.store.changes(id)?;
        if changes.is_empty() {
            return self.store.answer(id, Answer::Run(term), who);
        }
        staged::apply(&changes).map_err(|error| ApprovalError::Changes(error.to_string()))?;
        self.store.answer(id, Answer::Written, who)
    }

    /// Says no to what is pending: it is asked again the next time.
    ///
    /// # Errors
    /// As [`Approvals::approve`].
    pub fn deny(&self, id: PendingId, who: &str) -> Result<PendingRequest, ApprovalError> {
        self.store.answer(id, Answer::No, who)
    }

    /// Sets a level for a skill or a part of it; `None` leaves it to what follows from the request.
    /// For [`PermissionLevel::AutoApproved`] a digest says which state of the skill is meant: with another
    /// one it asks.
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
        self.store.set_level(skill, part, level, digest, who)
    }

    /// Takes back every approval of a skill, and tells how many there were.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn revoke(&self, skill: &str) -> Result<usize, ApprovalError> {
        self.store.revoke(skill)
    }

    /// Whether certainly no level is set, for any skill: told without opening the database. Only
    /// for a process that does nothing else with these approvals at that time.
    pub fn has_no_levels(&self) -> bool {
        self.store.has_no_levels()
    }

    /// The levels that were set for a skill and its parts.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn levels_of(&self, skill: &str) -> Result<Vec<LevelSetting>, ApprovalError> {
        self.store.levels_of(skill)
    }

    /// Every level that was set, by skill.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn levels(&self) -> Result<Vec<LevelSetting>, ApprovalError> {
        self.store.levels()
    }

    /// Every approval, also those that were used up or taken back, the newest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn approvals(&self) -> Result<Vec<Approval>, ApprovalError> {
        self.store.approvals()
    }

    /// What tells whether a skill is enabled, by its name and whether it asks for network: what is
    /// set now, and not what is set later.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn enabled_filter(
        &self,
        policy: &Policy,
    ) -> Result<impl Fn(&str, bool) -> bool + Send + Sync + use<>, ApprovalError> {
        let (set, policy) = (self.store.levels()?, policy.clone());
        Ok(move |name: &str, network: bool| {
            let own = set
                .iter()
                .find(|set| set.skill == name && set.part == SkillPart::Skill)
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

/// The level of what nobody set one for.
fn by_itself(ask: &ApprovalRequest<'_>, bound: Option<PermissionLevel>) -> PermissionLevel {
    let ApprovalRequest { capabilities, trusted, session_folder, .. } = ask;
    let harms =
        |mount: &Mount| mount.mode == MountMode::Write && *session_folder != Some(mount.spelling());
    let writes = !capabilities.write.is_empty() && capabilities.mounts.iter().any(harms);
    match bound {
        // The policy speaks of what the operator knows; what others put into a project is not that.
        Some(bound) => bound.min(if *trusted {
            PermissionLevel::AutoApproved
        } else {
            PermissionLevel::Enabled
        }),
        None if !capabilities.fetch.is_empty() => PermissionLevel::Disabled,
        None if writes || !trusted => PermissionLevel::Enabled,
        None => PermissionLevel::AutoApproved,
    }
}

fn refusal(name: &str, level: PermissionLevel, by_policy: bool) -> Refusal {
    let fix = match by_policy {
        true => format!("`approval` of {name} in the policy file says so"),
        false => format!("skillhost permissions set {name} enabled"),
    };
    let why = match level {
        PermissionLevel::Blocked => "blocked",
        _ => "disabled",
    };
    Refusal { why: format!("{name} is {why}"), fix }
}
