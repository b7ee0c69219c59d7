//! Asks the client's user, and reads the answer.
//!
//! Up to revision 2025-11-25, a question is a request to the client. Since 2026-07-28, it is a
//! result that asks for input, and the client repeats its call with the answer. Such an answer
//! counts once, for the question that it belongs to. Unsolicited answers are ignored.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationSchema, InputRequest, InputRequests, InputRequiredResult, InputResponses,
};
use serde_json::json;

use super::run::Caller;
use super::run_results;

/// How long a person may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// The answer that a client sends with a repeated call.
pub(super) struct Answer {
    /// The id of the question.
    pub(super) state: String,
    responses: InputResponses,
}

/// Questions that were sent as results, by their unguessable ids; the oldest are forgotten.
pub(super) struct Questions<T> {
    asked: Mutex<VecDeque<(String, T)>>,
    most: usize,
}

impl Answer {
    /// Returns the answer in a request, if there is one.
    pub(super) fn of(params: &CallToolRequestParams) -> Option<Answer> {
        Some(Answer {
            state: params.request_state.clone()?,
            responses: params.input_responses.clone()?,
        })
    }

    /// Returns the answer to a question of this kind.
    pub(super) fn to(&self, kind: &str) -> Option<ElicitResult> {
        serde_json::from_value(self.responses.get(kind)?.clone()).ok()
    }
}

impl<T> Questions<T> {
    /// Creates an empty list of at most `most` questions.
    pub(super) fn new(most: usize) -> Questions<T> {
        Questions { asked: Mutex::default(), most }
    }

    /// Remembers a question, and returns its id.
    pub(super) fn put(&self, what: T) -> String {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= self.most {
            asked.pop_front();
        }
        let state = run_results::id();
        asked.push_back((state.clone(), what));
        state
    }

    /// Removes and returns the question with this id, if it is the expected one.
    pub(super) fn take(&self, state: &str, is_meant: impl Fn(&T) -> bool) -> Option<T> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let at = asked.iter().position(|(known, what)| known == state && is_meant(what))?;
        asked.remove(at).map(|(_, what)| what)
    }
}

/// Checks whether the client can show its user a form. A client that names no mode means forms.
pub(super) fn asks(caller: Caller<'_>) -> bool {
    let elicitation =
        caller.context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
    elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// Asks with a request. `None`: there was no answer.
pub(super) async fn elicit(caller: Caller<'_>, form: ElicitRequestParams) -> Option<ElicitResult> {
    let asked = caller.context.peer.create_elicitation_with_timeout(form, Some(ANSWER_TIMEOUT));
    tokio::select! {
        result = asked => result.inspect_err(|error| tracing::warn!(%error, "the client's user was not asked")).ok(),
        () = caller.context.ct.cancelled() => None,
    }
}

/// Asks with a result.
pub(super) fn wanted(kind: &str, form: ElicitRequestParams, state: String) -> CallToolResponse {
    let asks = InputRequests::from([(
        kind.to_owned(),
        InputRequest::Elicitation(ElicitRequest::new(form)),
    )]);
    InputRequiredResult::new(Some(asks), Some(state)).into()
}

/// Creates a form with a text and one choice.
pub(super) fn form(text: &str, name: &str, title: &str, words: &[&str]) -> ElicitRequestParams {
    let mut properties = serde_json::Map::new();
    properties.insert(name.to_owned(), json!({ "type": "string", "title": title, "enum": words }));
    let schema = json!({ "type": "object", "properties": properties, "required": [name] });
    // The schema is a constant, and a test parses it.
    let requested_schema = serde_json::from_value(schema)
        .unwrap_or_else(|_| ElicitationSchema::new(Default::default()));
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: text.to_owned(),
        requested_schema,
    }
}

/// Returns the name of the person who answers, for records.
pub(super) fn user_of(caller: Caller<'_>) -> String {
    let client =
        caller.context.client_info().map_or_else(|| "a client".to_owned(), |client| client.name);
    format!("the user of {client}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_its_choices() {
        let ElicitRequestParams::FormElicitationParams { requested_schema, message, .. } =
            form("x", "allow", "Allow it", &["once", "no"])
        else {
            panic!("no form")
        };
        let schema = serde_json::to_value(requested_schema).unwrap();
        assert_eq!(
            (&schema["properties"]["allow"]["enum"], &schema["required"]),
            (&json!(["once", "no"]), &json!(["allow"]))
        );
        assert_eq!(message, "x");
    }

    #[test]
    fn each_answer_applies_once_to_its_own_question() {
        let questions = Questions::new(2);
        let state = questions.put(7);
        assert_eq!(questions.take("other", |_| true), None);
        assert_eq!(questions.take(&state, |what| *what == 8), None);
        assert_eq!(questions.take(&state, |what| *what == 7), Some(7));
        assert_eq!(questions.take(&state, |_| true), None);
    }

    #[test]
    fn the_oldest_questions_are_forgotten() {
        let questions = Questions::new(2);
        let states = [1, 2, 3].map(|what| questions.put(what));
        assert_eq!(states.map(|state| questions.take(&state, |_| true)), [None, Some(2), Some(3)]);
    }
}
