//! The one place where it is asked whether a call may run. What it may then do is the policy's, in the sandbox.
//!
//! Where a person has to say so, the client's user is asked by elicitation: by a request of ours up to revision 2025-11-25, by a result that
//! wants input from 2026-07-28 on. A client that cannot ask is told what the operator would type. An answer counts once, for the request that
//! it was asked for: an answer that nobody asked for is none.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequests, InputRequiredResult,
};
use serde_json::{Value, json};

use super::definitions::weight;
use super::hidden::Hidden;
use super::result::failed;
use super::run::Caller;
use super::session::is_new;
use super::workspace::Workspace;
use super::{Shared, kept};
use crate::approval::{Ask, Decision, PendingId, Term, What};
use crate::audit::AuditError;
use crate::catalog::Entry;
use crate::invoke::{Invoked, Loaded, Target};
use crate::outcome::{Denial, Status};
use crate::sandbox::Finished;
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

/// What a client sends with a request that it was asked something for.
pub(super) struct Answer {
    state: String,
    result: ElicitResult,
}

/// Questions that were put in results, by their unguessable names; the oldest are forgotten.
#[derive(Default)]
pub(super) struct Questions(Mutex<VecDeque<(String, PendingId)>>);

/// Questions that are remembered.
const QUESTIONS: usize = 500;
/// The name of the question in a result.
const QUESTION: &str = "approval";
/// How long a person may think.
const PATIENCE: Duration = Duration::from_secs(600);

impl Answer {
    /// That of a request, if it has one.
    pub(super) fn of(params: &CallToolRequestParams) -> Option<Answer> {
        let result = params.input_responses.as_ref()?.get(QUESTION)?;
        Some(Answer { state: params.request_state.clone()?, result: serde_json::from_value(result.clone()).ok()? })
    }
}

impl Questions {
    fn put(&self, id: PendingId) -> String {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if questions.len() >= QUESTIONS {
            questions.pop_front();
        }
        let state = kept::id();
        questions.push_back((state.clone(), id));
        state
    }

    /// What was asked under that name: once.
    fn take(&self, state: &str) -> Option<PendingId> {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = questions.iter().position(|(known, _)| known == state)?;
        questions.remove(at).map(|(_, id)| id)
    }
}

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
        let result = match (is_new(caller.context), caller.answer) {
            (false, _) => match caller.context.peer.create_elicitation_with_timeout(question(&text, is_alone), Some(PATIENCE)).await {
                Ok(result) => result,
                Err(error) => {
                    tracing::warn!(%error, "the client did not ask its user");
                    return Err(unanswered());
                }
            },
            // Only what this very question was asked for.
            (true, Some(answer)) if self.questions.take(&answer.state) == Some(id) => answer.result.clone(),
            (true, _) => {
                let ask = InputRequest::Elicitation(ElicitRequest::new(question(&text, is_alone)));
                let asks = InputRequests::from([(QUESTION.to_owned(), ask)]);
                return Err(Box::new(InputRequiredResult::new(Some(asks), Some(self.questions.put(id))).into()));
            }
        };
        let Some(term) = term(&result).filter(|term| *term == Term::Once || !is_alone) else {
            return Err(refused("the user did not allow it", format!("the user did not allow {} to run", call.entry.name)));
        };
        let client = caller.context.client_info().map_or_else(|| "a client".to_owned(), |client| client.name);
        self.approvals.approve(id, term, &format!("the user of {client}")).map_err(|error| told(error.to_string()))?;
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
        let denial = Denial { what: format!("run {}", call.entry.name), rule, fix: None };
        self.service.host().refuse(call.loaded, call.target, call.args, denial)
    }

    fn decide(&self, call: &Call<'_>, caller: Caller<'_>) -> Result<Decision, String> {
        let digest = call.loaded.id().digest.as_deref().ok_or("the skill's files cannot be digested")?;
        let what = What::of(call.target);
        self.approvals.decide(&self.policy, &call.ask(digest, &what, caller)).map_err(|error| error.to_string())
    }

    /// Notes what a run kept aside, where the policy says that a person sees it first: what the client is told of that.
    pub(super) fn stage(&self, call: &Call<'_>, caller: Caller<'_>, invoked: &Invoked) -> Option<String> {
        let Finished { outcome, overlays, .. } = &invoked.finished;
        let is_done = outcome.status == Status::Exited { code: 0 } && !outcome.changes.is_empty();
        let digest = call.loaded.id().digest.as_deref().filter(|_| is_done && self.policy.stages(&call.entry.name))?;
        let what = What::of(call.target);
        if call.workspace.folder.is_some() && call.loaded.grant.capabilities.mounts.len() == 1 {
            // The session's own folder is all that it wrote, and nobody's to ask for.
            return overlays.apply().err().map(|error| call.hidden.text(&format!("nothing of this was written: {error}")));
        }
        Some(match self.approvals.stage(&call.ask(digest, &what, caller), overlays) {
            Ok(id) => format!("nothing of this was written yet; the operator can write it: skillhost approve {id}"),
            Err(error) => call.hidden.text(&format!("nothing of this was written, and it is not kept: {error}")),
        })
    }
}

impl<'a> Call<'a> {
    fn ask(&'a self, digest: &'a str, what: &'a What, caller: Caller<'a>) -> Ask<'a> {
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

/// Whether the client can ask its user by a form. A client that names no mode means forms.
fn asks(caller: Caller<'_>) -> bool {
    let elicitation = caller.context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
    elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// A request that stands alone has no session that a word could hold for.
fn question(text: &str, is_alone: bool) -> ElicitRequestParams {
    let words = if is_alone { json!(["once", "no"]) } else { json!(["once", "session", "no"]) };
    let allow = json!({ "type": "string", "title": "Allow it", "enum": words });
    let schema = json!({ "type": "object", "properties": { "allow": allow }, "required": ["allow"] });
    // The schema is a constant that a test puts through.
    let requested_schema = serde_json::from_value(schema).unwrap_or_else(|_| ElicitationSchema::new(Default::default()));
    ElicitRequestParams::FormElicitationParams { meta: None, message: text.to_owned(), requested_schema }
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

    #[test]
    fn the_question_has_its_words() {
        for (is_alone, words) in [(false, json!(["once", "session", "no"])), (true, json!(["once", "no"]))] {
            let ElicitRequestParams::FormElicitationParams { requested_schema, .. } = question("x", is_alone) else { panic!("no form") };
            assert_eq!(serde_json::to_value(requested_schema).unwrap()["properties"]["allow"]["enum"], words);
        }
    }

    #[test]
    fn a_question_is_answered_once() {
        let questions = Questions::default();
        let state = questions.put(PendingId(7));
        assert_eq!(questions.take("other"), None);
        assert_eq!(questions.take(&state), Some(PendingId(7)));
        assert_eq!(questions.take(&state), None);
    }
}
