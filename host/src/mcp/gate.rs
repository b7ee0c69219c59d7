//! The one place where it is asked whether a call may run. What it may then do is the policy's, in the sandbox.
//!
//! Where a person has to say so, the client's user is asked by elicitation. A client that cannot ask is told what the operator would type.

use rmcp::model::{CallToolResponse, ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::Value;

use super::Shared;
use super::definitions::weight;
use super::hidden::Hidden;
use super::question::{asks, elicit, form, user_of, wanted};
use super::result::failed;
use super::run::Caller;
use super::session::is_new;
use super::workspace::Workspace;
use crate::approval::{Ask, Decision, Term, What};
use crate::audit::AuditError;
use crate::catalog::Entry;
use crate::invoke::{Loaded, Target};
use crate::outcome::{Denial, DenialKind};
use crate::usage::Event;

/// What is about to run.
pub(super) struct Call<'a> {
    pub(super) entry: &'a Entry,
    pub(super) loaded: &'a Loaded,
    pub(super) target: &'a Target,
    pub(super) args: &'a [String],
    pub(super) workspace: &'a Workspace,
    pub(super) hidden: &'a Hidden,
}

/// The kind of the question in a result.
const QUESTION: &str = "approval";

impl Shared {
    /// Whether a program or tool of a skill may be started for this client; else what the client is told, or asked.
    pub(super) async fn may_run(&self, call: &Call<'_>, caller: Caller<'_>) -> Result<(), Box<CallToolResponse>> {
        let told = |text: String| Box::new(CallToolResponse::from(failed(call.hidden.text(&text))));
        // What does not run is in the log too.
        let refused = |rule: &str, text: String| {
            self.tally(caller.session, caller.context).note(&call.entry.name, || weight(call.entry), Event::Refused);
            match self.record(call, rule) {
                Ok(()) => told(text),
                Err(error) => told(error.to_string()),
            }
        };
        let (id, text) = match self.decide(call, caller).map_err(told)? {
            Decision::Allowed => return Ok(()),
            Decision::Refused(why) => return Err(refused(&why, why.clone())),
            Decision::Ask(id, text) => (id, text),
        };
        let unanswered = || {
            let text = format!("{text}\n{} needs approval. The operator can give it: skillhost approve {id}", call.entry.name);
            refused("it needs approval", text)
        };
        if !asks(caller) {
            return Err(unanswered());
        }
        let is_alone = caller.session.is_alone(caller.context);
        let form = question(&text, is_alone);
        let result = if !is_new(caller.context) {
            elicit(caller, form).await.ok_or_else(unanswered)?
        } else {
            // Only what this very question was asked for.
            let said = caller.answer.and_then(|answer| Some((answer.to(QUESTION)?, self.questions.take(&answer.state, |of| *of == id)?)));
            match said {
                Some((result, _)) => result,
                None => return Err(Box::new(wanted(QUESTION, form, self.questions.put(id)))),
            }
        };
        let Some(term) = term(&result).filter(|term| *term == Term::Once || !is_alone) else {
            return Err(refused("the user did not allow it", format!("the user did not allow {} to run", call.entry.name)));
        };
        self.approvals.approve(id, term, &user_of(caller)).map_err(|error| told(error.to_string()))?;
        // A person takes a while: what was shown to them is what runs.
        if !call.loaded.is_current() {
            return Err(told(format!("{} changed while it was asked for; ask again", call.entry.name)));
        }
        match self.decide(call, caller).map_err(told)? {
            Decision::Allowed => Ok(()),
            Decision::Refused(why) => Err(refused(&why, why.clone())),
            Decision::Ask(..) => Err(unanswered()),
        }
    }

    fn record(&self, call: &Call<'_>, rule: &str) -> Result<(), AuditError> {
        let rule = rule.lines().next().unwrap_or_default().to_owned();
        let denial = Denial { what: format!("run {}", call.entry.name), rule, fix: None, kind: DenialKind::Run };
        self.service.host().refuse(call.loaded, call.target, call.args, denial)
    }

    pub(super) fn decide(&self, call: &Call<'_>, caller: Caller<'_>) -> Result<Decision, String> {
        let digest = call.loaded.id().digest.as_deref().ok_or("the skill's files cannot be digested")?;
        let what = What::of(call.target);
        self.approvals.decide(&self.policy, &call.ask(digest, &what, caller)).map_err(|error| error.to_string())
    }
}

impl<'a> Call<'a> {
    /// The same for the approvals.
    pub(super) fn ask(&'a self, digest: &'a str, what: &'a What, caller: Caller<'a>) -> Ask<'a> {
        Ask {
            skill: &self.loaded.skill,
            digest,
            what,
            capabilities: &self.loaded.grant.capabilities,
            trusted: self.entry.trusted,
            own: self.workspace.folder.as_ref().map(|folder| folder.path()),
            session: caller.session.id(caller.context),
        }
    }
}

/// A request that stands alone has no session that a word could hold for.
fn question(text: &str, is_alone: bool) -> ElicitRequestParams {
    let words = if is_alone { &["once", "no"][..] } else { &["once", "session", "no"] };
    form(text, "allow", "Allow it", words)
}

/// What a person said: never for longer than the session. `None`: no.
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
    fn only_a_clear_yes_is_one() {
        let said = |action, content: Value| term(&ElicitResult::new(action).with_content(content));
        assert_eq!(said(ElicitationAction::Accept, json!({ "allow": "once" })), Some(Term::Once));
        assert_eq!(said(ElicitationAction::Accept, json!({ "allow": "session" })), Some(Term::Session));
        for content in [json!({ "allow": "no" }), json!({ "allow": "always" }), json!({ "allow": true }), json!({}), json!(null)] {
            assert_eq!(said(ElicitationAction::Accept, content), None);
        }
        assert_eq!(said(ElicitationAction::Decline, json!({ "allow": "once" })), None);
        assert_eq!(term(&ElicitResult::new(ElicitationAction::Accept)), None);
    }
}
