//! Decides whether a run starts: by the policy, the levels, and the approvals that cover it.

use super::levels::Levels;
use super::permissions::{self, PermissionSet, PreviousApproval, Reader};
use super::store::Answer;
use super::{
    Approval, ApprovalError, ApprovalRequest, Approvals, Forecast, LevelSetting, PendingId,
    PendingRequest, PermissionLevel, Question, RunDecision, RunRefusal, SkillPart, Term, Workspace,
};
use skillhost_policy::Policy;
use skillhost_policy::capabilities::{Capabilities, Mount, MountMode};
use skillhost_policy::diagnostic::quoted;
use skillhost_skill::{Skill, SourceKind};

/// The result of applying the levels.
enum Step<'a> {
    Decided(RunDecision),
    /// The run needs approval.
    Ask(Levels<'a>),
}

impl Approvals {
    /// Decides whether a run starts. If it needs approval, adds it to the pending requests, once.
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

    /// Returns what [`Approvals::decide`] would decide for a run that starts later, in any session,
    /// and changes nothing. Approvals for one run or for a session do not count.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn forecast(
        &self,
        policy: &Policy,
        ask: &ApprovalRequest<'_>,
    ) -> Result<Forecast, ApprovalError> {
        Ok(match self.level(policy, ask)? {
            Step::Decided(RunDecision::Allowed(_)) => Forecast::Starts,
            Step::Decided(RunDecision::Refused(refusal)) => Forecast::Refused(refusal),
            Step::Decided(RunDecision::NeedsApproval(..)) => Forecast::Asks,
            Step::Ask(_) => {
                let permissions = PermissionSet::of(ask.capabilities, ask.session_folder);
                let input = ask.input.digest();
                let approvals = self.store.approvals_of(&ask.skill.approval_key(), ask.part)?;
                let is_lasting = |approval: &Approval| {
                    approval.term == Term::Always && covers(approval, ask, &permissions, &input)
                };
                if approvals.iter().any(is_lasting) { Forecast::Starts } else { Forecast::Asks }
            }
        })
    }

    /// Approves the run that is asking, and nothing else: the approval is used up at once, so no
    /// other run can use it.
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
            // A level was set in the meantime.
            Step::Decided(decision) => Ok(decision),
            Step::Ask(levels) => {
                self.store.answer(id, Answer::Used, who)?;
                Ok(RunDecision::Allowed(levels.denied_files()))
            }
        }
    }

    /// Applies the policy and the levels.
    fn level<'a>(
        &self,
        policy: &Policy,
        ask: &ApprovalRequest<'a>,
    ) -> Result<Step<'a>, ApprovalError> {
        let name = ask.skill.name.as_str();
        let levels =
            Levels::new(ask.skill, self.levels_that_hold(policy, ask.skill, ask.capabilities)?);
        let bound = policy.approval(name);
        let granted = policy.granted_approval(name, ask.skill.origin, ask.skill.locked.as_ref());
        let denial = levels.denial(ask.part);
        let strictest = [denial.map(|set| set.level), bound].into_iter().flatten().min();
        if let Some(level @ (PermissionLevel::Blocked | PermissionLevel::Disabled)) = strictest {
            return Ok(Step::Decided(RunDecision::Refused(match denial {
                Some(set) if bound.is_none_or(|bound| bound > level) => refusal_by(set),
                _ => refusal_by_policy(name, level),
            })));
        }
        let level = match levels.nearest(ask.part) {
            // A level for one digest of the skill does not apply to another.
            Some(set)
                if set.level == PermissionLevel::AutoApproved
                    && set.digest.as_deref() != Some(ask.digest) =>
            {
                PermissionLevel::Enabled
            }
            Some(set) => set.level,
            None => by_itself(ask, granted),
        };
        // No level was set with the names of other clients in mind.
        let level = if ask.needs_approval { level.min(PermissionLevel::Enabled) } else { level };
        Ok(match bound.map_or(level, |bound| level.min(bound)) {
            PermissionLevel::AutoApproved => {
                Step::Decided(RunDecision::Allowed(levels.denied_files()))
            }
            PermissionLevel::Enabled => Step::Ask(levels),
            level => {
                let key = ask.skill.approval_key();
                Step::Decided(RunDecision::Refused(RunRefusal {
                    why: format!("{key} is {}", word(level)),
                    fix: enable(&key, &SkillPart::Skill),
                    by_policy: false,
                    workspace: None,
                }))
            }
        })
    }

    /// Returns the levels that apply to a skill. A level for a skill of the catalogue, if it
    /// restricts, also applies to any other folder of the same name.
    fn levels_that_hold(
        &self,
        policy: &Policy,
        skill: &Skill,
        capabilities: &Capabilities,
    ) -> Result<Vec<LevelSetting>, ApprovalError> {
        let mut levels = self.store.levels_of(&skill.approval_key())?;
        if skill.origin == SourceKind::Path {
            levels.extend(
                self.store
                    .levels_of(&skill.name)?
                    .into_iter()
                    .filter(|set| set.level < PermissionLevel::AutoApproved),
            );
        }
        if levels.iter().any(|set| set.workspace.is_some()) {
            let workspace = Workspace::of_run(capabilities);
            let mounted = Workspace::all_of_policy(policy);
            levels.retain(|set| set.is_for(workspace.as_ref(), &mounted));
        }
        Ok(levels)
    }

    fn ask(
        &self,
        ask: &ApprovalRequest<'_>,
        levels: &Levels<'_>,
    ) -> Result<RunDecision, ApprovalError> {
        let permissions = PermissionSet::of(ask.capabilities, ask.session_folder);
        let input = ask.input.digest();
        let approvals = self.store.approvals_of(&ask.skill.approval_key(), ask.part)?;
        for approval in &approvals {
            if covers(approval, ask, &permissions, &input) && self.store.take(approval)? {
                return Ok(RunDecision::Allowed(levels.denied_files()));
            }
        }
        let files = permissions::files(ask.skill)
            .map_err(|error| ApprovalError::Skill(error.to_string()))?;
        let previous = approvals.iter().filter(|answer| !answer.rejected).find_map(|approval| {
            let permissions = approval.permissions.as_ref()?;
            Some(PreviousApproval { approval, permissions })
        });
        let text =
            |reader| permissions::question(ask, &permissions, &files, previous.as_ref(), reader);
        let question = Question { operator: text(Reader::Operator), client: text(Reader::Client) };
        let pending = PendingRequest {
            id: PendingId(0),
            skill: ask.skill.approval_key(),
            part: ask.part.clone(),
            digest: ask.digest.to_owned(),
            files,
            capabilities: permissions.full_lines(),
            permissions: Some(permissions),
            session: ask.session.to_owned(),
            input,
            time: String::new(),
            text: question.operator.clone(),
            diff: None,
        };
        Ok(RunDecision::NeedsApproval(self.store.note(pending, &[])?, question))
    }
}

/// Checks whether an approval covers a run with these permissions and this input.
fn covers(
    approval: &Approval,
    ask: &ApprovalRequest<'_>,
    permissions: &PermissionSet,
    input: &str,
) -> bool {
    approval.digest == ask.digest
        && approval.holds_for(ask.session, input)
        && approval.permissions.as_ref().is_some_and(|known| permissions.is_within(known))
}

/// Returns the level of a run for which no level is set. `granted` is the level of the sections that
/// may grant something to the skill.
fn by_itself(ask: &ApprovalRequest<'_>, granted: Option<PermissionLevel>) -> PermissionLevel {
    let ApprovalRequest { capabilities, trusted, session_folder, .. } = ask;
    let harms =
        |mount: &Mount| mount.mode == MountMode::Write && *session_folder != Some(mount.spelling());
    let writes = !capabilities.write.is_empty() && capabilities.mounts.iter().any(harms);
    match granted {
        // The policy speaks about skills that the operator knows, not about what others put into a
        // project.
        Some(granted) => granted.min(if *trusted {
            PermissionLevel::AutoApproved
        } else {
            PermissionLevel::Enabled
        }),
        None if !capabilities.fetch.is_empty() => PermissionLevel::Disabled,
        None if writes || !trusted => PermissionLevel::Enabled,
        None => PermissionLevel::AutoApproved,
    }
}

fn refusal_by_policy(name: &str, level: PermissionLevel) -> RunRefusal {
    RunRefusal {
        why: format!("{name} is {}", word(level)),
        fix: format!("change `approval: {}` in the policy file", level.name()),
        by_policy: true,
        workspace: None,
    }
}

/// Returns the refusal by a level that was set, with the command that replaces this very level.
fn refusal_by(set: &LevelSetting) -> RunRefusal {
    let LevelSetting { skill, part, level, workspace, .. } = set;
    let what = match part {
        SkillPart::Skill => format!("{skill} is"),
        SkillPart::Program(name) => format!("{name} is"),
        SkillPart::Tool(name) => format!("the tool {name} is"),
        SkillPart::Command => format!("shell commands of {skill} are"),
    };
    RunRefusal {
        why: format!("{what} {}", word(*level)),
        fix: enable(skill, part),
        by_policy: false,
        workspace: workspace.as_ref().map(|own| own.path.clone()),
    }
}

fn word(level: PermissionLevel) -> &'static str {
    match level {
        PermissionLevel::Blocked => "blocked",
        _ => "disabled",
    }
}

/// Returns the command that enables a part of a skill.
fn enable(skill: &str, part: &SkillPart) -> String {
    let part = match part {
        SkillPart::Skill => String::new(),
        SkillPart::Program(name) => format!(" --program {}", quoted(name)),
        SkillPart::Tool(name) => format!(" --tool {}", quoted(name)),
        SkillPart::Command => " --command".into(),
    };
    format!("skillhost permissions set {} enabled{part}", quoted(skill))
}
