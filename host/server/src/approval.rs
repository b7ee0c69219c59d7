//! The only place that decides whether a call may run. What the run may touch is decided by the
//! policy, in the sandbox.
//!
//! If a run needs approval, the client gets the command with which the operator can approve it.
//! If the policy lets the client's own user answer, the client asks its user by elicitation.

use std::collections::BTreeSet;

use rmcp::model::{CallToolResponse, ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::Value;

use super::Shared;
use super::definitions::weight;
use super::hidden::HostPaths;
use super::question::{asks, elicit, form, user_of, wanted};
use super::result::failed;
use super::run::Caller;
use super::session::{Transport, is_new};
use super::workspace::Workspace;
use skillhost::invoke::{LoadedSkill, Target};
use skillhost_catalog::CatalogEntry;
use skillhost_ledger::approval::{
    ApprovalRequest, PendingId, RunDecision, RunInput, SkillPart, StdinInput, Term,
};
use skillhost_ledger::audit::AuditError;
use skillhost_ledger::usage::UsageEvent;
use skillhost_policy::Approver;
use skillhost_policy::outcome::{Denial, DenialKind};

/// A call that is about to run.
pub(super) struct Call<'a> {
    pub(super) entry: &'a CatalogEntry,
    pub(super) loaded: &'a LoadedSkill,
    pub(super) target: &'a Target,
    pub(super) args: &'a [String],
    pub(super) stdin: &'a [u8],
    pub(super) files: &'a [(&'a str, &'a str)],
    pub(super) workspace: &'a Workspace,
    pub(super) hidden: &'a HostPaths,
}

/// The key of the question in a result.
const QUESTION: &str = "approval";

impl Shared {
    /// Decides whether a client may start a program or tool. Returns the files of the skill that
    /// the run must not start, or the answer or question for the client.
    pub(super) async fn may_run(
        &self,
        call: &Call<'_>,
        caller: Caller<'_>,
    ) -> Result<BTreeSet<String>, Box<CallToolResponse>> {
        let failure =
            |text: String| Box::new(CallToolResponse::from(failed(call.hidden.text(&text))));
        // Refused runs are recorded too.
        let refused = |rule: &str, text: String| {
            self.tally(caller.session, caller.context).count(
                &call.entry.name,
                || weight(call.entry),
                UsageEvent::Refused,
            );
            match self.record(call, rule) {
                Ok(()) => failure(text),
                Err(error) => failure(error.to_string()),
            }
        };
        let (id, text) = match self.decide(call, caller).map_err(failure)? {
            RunDecision::Allowed(denied) => return Ok(denied),
            RunDecision::Refused(refusal) => {
                return Err(refused(&refusal.why, refusal.to_string()));
            }
            RunDecision::NeedsApproval(id, question) => (id, question.client),
        };
        let unanswered = || {
            let text = format!(
                "{text}\n{} needs approval. The operator can approve it: skillhost approve {id}",
                call.entry.name
            );
            refused("it needs approval", text)
        };
        let approver = match caller.session.transport() {
            Transport::Stream => self.policy.clients.stdio,
            Transport::Http => self.policy.clients.http,
        };
        // A client that can ask its user does not thereby become the one who answers.
        if approver == Approver::Operator || !asks(caller) {
            return Err(unanswered());
        }
        let is_alone = caller.session.is_alone(caller.context);
        let form = question(&text, is_alone);
        let result = if !is_new(caller.context) {
            elicit(caller, form).await.ok_or_else(unanswered)?
        } else {
            // Only an answer to this very question counts.
            let said = caller.answer.and_then(|answer| {
                Some((answer.to(QUESTION)?, self.questions.take(&answer.state, |of| *of == id)?))
            });
            match said {
                Some((result, _)) => result,
                None => return Err(Box::new(wanted(QUESTION, form, self.questions.put(id)))),
            }
        };
        let term = term(&result).filter(|term| *term == Term::Once || !is_alone);
        self.metrics.answered(&call.entry.name, term.is_some());
        let Some(term) = term else {
            return Err(refused(
                "the user did not allow it",
                format!("the user did not allow {} to run", call.entry.name),
            ));
        };
        // People take their time to answer. What runs must still be what they were shown.
        if !call.loaded.is_current() {
            return Err(failure(format!(
                "{} changed while it awaited approval; try again",
                call.entry.name
            )));
        }
        match self.approve(call, caller, id, term).map_err(failure)? {
            RunDecision::Allowed(denied) => Ok(denied),
            RunDecision::Refused(refusal) => Err(refused(&refusal.why, refusal.to_string())),
            RunDecision::NeedsApproval(..) => Err(unanswered()),
        }
    }

    fn record(&self, call: &Call<'_>, rule: &str) -> Result<(), AuditError> {
        let denial = Denial {
            what: format!("run {}", call.entry.name),
            rule: rule.to_owned(),
            fix: None,
            kind: DenialKind::Run,
        };
        self.service.runner().record_refusal(call.loaded, call.target, call.args, denial)
    }

    pub(super) fn decide(
        &self,
        call: &Call<'_>,
        caller: Caller<'_>,
    ) -> Result<RunDecision, String> {
        let (digest, part) = (call.digest()?, call.loaded.part_of(call.target));
        let trusted = self.approvals.is_trusted(
            &call.loaded.skill,
            digest,
            caller.session.id(caller.context),
        );
        let trusted = trusted.map_err(|error| error.to_string())?;
        self.approvals
            .decide(
                &self.policy,
                &ApprovalRequest { trusted, ..call.request(digest, &part, caller) },
            )
            .map_err(|error| error.to_string())
    }

    /// Applies the approval of the client's user: to this call only, or to the session.
    fn approve(
        &self,
        call: &Call<'_>,
        caller: Caller<'_>,
        id: PendingId,
        term: Term,
    ) -> Result<RunDecision, String> {
        let (digest, part) = (call.digest()?, call.loaded.part_of(call.target));
        let (ask, who) = (call.request(digest, &part, caller), user_of(caller));
        let decision = match term {
            Term::Once => self.approvals.approve_current(&self.policy, &ask, id, &who),
            term => self
                .approvals
                .approve(id, term, &who)
                .and_then(|_| self.approvals.decide(&self.policy, &ask)),
        };
        decision.map_err(|error| error.to_string())
    }
}

impl<'a> Call<'a> {
    /// Creates a call of a target, with its arguments, stdin and files.
    pub(super) fn new(
        entry: &'a CatalogEntry,
        loaded: &'a LoadedSkill,
        (target, args): (&'a Target, &'a [String]),
        (stdin, files): (&'a [u8], &'a [(&'a str, &'a str)]),
        workspace: &'a Workspace,
        hidden: &'a HostPaths,
    ) -> Call<'a> {
        Call { entry, loaded, target, args, stdin, files, workspace, hidden }
    }

    fn digest(&self) -> Result<&'a str, String> {
        self.loaded
            .id()
            .digest
            .as_deref()
            .ok_or_else(|| "cannot digest the skill's files".to_owned())
    }

    /// Returns the call as an approval request of an untrusted skill.
    pub(super) fn request(
        &'a self,
        digest: &'a str,
        part: &'a SkillPart,
        caller: Caller<'a>,
    ) -> ApprovalRequest<'a> {
        ApprovalRequest {
            skill: &self.loaded.skill,
            digest,
            part,
            capabilities: &self.loaded.grant.capabilities,
            needs_approval: self.loaded.grant.needs_approval,
            trusted: false,
            session_folder: self.workspace.folder.as_ref().map(|folder| folder.path()),
            session: caller.session.id(caller.context),
            input: RunInput {
                stdin: StdinInput::Whole(self.stdin),
                files: self.files,
                ..self.target.input(self.args)
            },
        }
    }
}

/// Creates the question. A request without a session cannot be approved for a session.
fn question(text: &str, is_alone: bool) -> ElicitRequestParams {
    let words = if is_alone { &["once", "no"][..] } else { &["once", "session", "no"] };
    form(text, "allow", "Allow it", words)
}

/// Reads the answer of a person, which never reaches beyond the session. `None`: rejected.
fn term(result: &ElicitResult) -> Option<Term> {
    if result.action != ElicitationAction::Accept {
        return None;
    }
    match result.content.as_ref().map(|content| &content["allow"]) {
        Some(Value::String(word)) if word == "once" => Some(Term::Once),
        Some(Value::String(word)) if word == "session" => Some(Term::Session),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_valid_answer_approves() {
        let said = |action, content: Value| term(&ElicitResult::new(action).with_content(content));
        assert_eq!(said(ElicitationAction::Accept, json!({ "allow": "once" })), Some(Term::Once));
        assert_eq!(
            said(ElicitationAction::Accept, json!({ "allow": "session" })),
            Some(Term::Session)
        );
        for content in [
            json!({ "allow": "no" }),
            json!({ "allow": "always" }),
            json!({ "allow": true }),
            json!({}),
            json!(null),
        ] {
            assert_eq!(said(ElicitationAction::Accept, content), None);
        }
        assert_eq!(said(ElicitationAction::Decline, json!({ "allow": "once" })), None);
        assert_eq!(term(&ElicitResult::new(ElicitationAction::Accept)), None);
    }
}
