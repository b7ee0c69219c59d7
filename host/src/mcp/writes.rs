//! What a run kept aside: shown to the client's user as a diff, and written when that person says so.
//!
//! Where the client cannot ask its user, or the user gives no answer, it waits for the operator. What the run came to is the answer of the call
//! in any case: the run is not repeated.

use std::sync::Arc;

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::json;

use super::gate::Call;
use super::hidden::Hidden;
use super::kept::{self, Kept};
use super::question::{asks, elicit, form, user_of, wanted};
use super::result::{cut, kind};
use super::run::Caller;
use super::session::is_new;
use super::{Shared, result};
use crate::approval::{ApprovalError, PendingId, Term, What};
use crate::diagnostic::printable;
use crate::invoke::Invoked;
use crate::outcome::{Change, Status};
use crate::policy::protected::{self, RUNS_LATER};
use crate::sandbox::Finished;

/// The kind of the question in a result.
const QUESTION: &str = "writes";
/// Paths that a question names, and bytes of one.
const NAMED: usize = 20;
const PATH: usize = 300;

/// What a run would change, as a text.
pub(super) struct Diff {
    /// Its start.
    pub(super) shown: String,
    /// The resource that has all of it, and its bytes; `None` where it is shown whole.
    pub(super) whole: Option<(String, usize)>,
}

/// What becomes of the changes that a run kept aside.
pub(super) enum Aside {
    /// It is decided: what the client is told.
    Told(String),
    /// Someone has to say so: what they are shown.
    Waits(PendingId, String),
}

/// A run that was, whose changes wait for a person's word.
pub(super) struct Writes {
    skill: Arc<str>,
    id: PendingId,
    result: CallToolResult,
    hidden: Hidden,
}

/// What a person says of changes.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    Write,
    Drop,
    /// Nothing: it is not decided.
    Later,
}

impl Shared {
    /// What an overlay would change; a long text is kept as a resource.
    pub(super) fn diff(&self, invoked: &Invoked, hidden: &Hidden) -> Option<Diff> {
        let Finished { outcome, overlays, .. } = &invoked.finished;
        if outcome.changes.is_empty() {
            return None;
        }
        let text = hidden.text(&overlays.diff());
        let (shown, is_cut) = cut(text.as_bytes(), result::SHOWN);
        let whole = is_cut.then(|| {
            let (id, size) = (kept::id(), text.len());
            let uri = format!("run://{id}/diff");
            self.runs.keep(id, Kept { diff: text.into_bytes(), ..Kept::default() });
            (uri, size)
        });
        Some(Diff { shown, whole })
    }

    /// Notes what a run kept aside, where the policy says that a person sees it first.
    pub(super) fn aside(&self, call: &Call<'_>, caller: Caller<'_>, invoked: &Invoked, diff: Option<&Diff>) -> Option<Aside> {
        let Finished { outcome, overlays, .. } = &invoked.finished;
        let diff = diff.filter(|_| self.policy.stages(&call.entry.name))?;
        let digest = call.loaded.id().digest.as_deref()?;
        if outcome.status != (Status::Exited { code: 0 }) {
            return Some(Aside::Told(format!("nothing of this is written: it {}", ended(&outcome.status))));
        }
        if call.workspace.folder.is_some() && call.loaded.grant.capabilities.mounts.len() == 1 {
            // The session's own folder is all that it wrote, and nobody's to ask for.
            let failed = overlays.apply().err()?;
            return Some(Aside::Told(call.hidden.text(&format!("nothing of this was written: {failed}"))));
        }
        let what = What::of(call.target);
        Some(match self.approvals.stage(&call.ask(digest, &what, caller), overlays) {
            Ok(id) => Aside::Waits(id, shown(&call.entry.name, &outcome.changes, diff)),
            Err(error) => Aside::Told(call.hidden.text(&format!("nothing of this was written, and it is not kept: {error}"))),
        })
    }

    /// The answer of a run, with what becomes of the changes that it kept aside: written, dropped or waiting.
    pub(super) async fn with_writes(
        &self,
        mut result: CallToolResult,
        aside: Option<Aside>,
        (skill, hidden): (&Arc<str>, &Hidden),
        caller: Caller<'_>,
    ) -> CallToolResponse {
        let (id, text) = match aside {
            None => return result.into(),
            Some(Aside::Told(text)) => {
                result.content.push(note(&text));
                return result.into();
            }
            Some(Aside::Waits(id, text)) => (id, text),
        };
        let writes = Writes { skill: skill.clone(), id, result, hidden: hidden.clone() };
        match (asks(caller), is_new(caller.context)) {
            (false, _) => self.settle(writes, &Word::Later, caller).into(),
            (true, true) => wanted(QUESTION, question(&text), self.writes.put(writes)),
            (true, false) => {
                let word = elicit(caller, question(&text)).await.map_or(Word::Later, |said| word(&said));
                self.settle(writes, &word, caller).into()
            }
        }
    }

    /// The answer of a run that has been, where this call brings what a person said of its changes.
    pub(super) fn answered(&self, skill: &str, caller: Caller<'_>) -> Option<CallToolResponse> {
        let answer = caller.answer?;
        let said = answer.to(QUESTION)?;
        let writes = self.writes.take(&answer.state, |writes| *writes.skill == *skill)?;
        Some(self.settle(writes, &word(&said), caller).into())
    }

    fn settle(&self, writes: Writes, word: &Word, caller: Caller<'_>) -> CallToolResult {
        let Writes { skill, id, mut result, hidden } = writes;
        let later = format!("the operator can write it: skillhost approve {id}");
        let text = match word {
            Word::Write => match self.approvals.approve(id, Term::Once, &user_of(caller)) {
                Ok(_) => "the user allowed it: this is written".to_owned(),
                Err(ApprovalError::NotPending(_)) => "the operator has answered already".to_owned(),
                Err(error) => hidden.text(&format!("nothing of this was written: {error}; once that is mended, {later}")),
            },
            Word::Drop => match self.approvals.deny(id, &user_of(caller)) {
                Ok(_) => "the user did not allow it: nothing of this is written".to_owned(),
                Err(ApprovalError::NotPending(_)) => "the operator has answered already".to_owned(),
                Err(error) => hidden.text(&format!("nothing of this was written: {error}")),
            },
            Word::Later => format!("nothing of this was written yet; {later}"),
        };
        tracing::info!(skill = &*skill, pending = id.0, ?word, "changes of a run");
        result.content.push(note(&text));
        result
    }
}

fn note(text: &str) -> ContentBlock {
    ContentBlock::text(format!("[{text}]"))
}

fn ended(status: &Status) -> String {
    match status {
        Status::Exited { code } => format!("exited with code {code}"),
        other => format!("ended as {}", kind(other)),
    }
}

/// What a person reads before they say a word. Texts of the guest are data: each of their lines stays one, and none moves the cursor.
fn shown(skill: &str, changes: &[Change], diff: &Diff) -> String {
    let (count, paths) = (changes.len(), if changes.len() == 1 { "path" } else { "paths" });
    let mut text = format!("{skill} has run, and would change {count} {paths}:");
    for change in changes.iter().take(NAMED) {
        text += &format!("\n  {} {}", json!(change.kind).as_str().unwrap_or_default(), printable(&cut(change.path.as_bytes(), PATH).0));
        if protected::runs_later(&change.path) {
            text += &format!(" {RUNS_LATER}");
        }
    }
    if count > NAMED {
        text += &format!("\n  and {} more", count - NAMED);
    }
    if let Some((uri, bytes)) = &diff.whole {
        text += &format!("\nthe diff has {bytes} bytes, and only its start is here; all of it is the resource {uri}");
    }
    text += "\n\n";
    text + &diff.shown.lines().map(|line| line.split('\t').map(printable).collect::<Vec<_>>().join("\t")).collect::<Vec<_>>().join("\n")
}

fn question(text: &str) -> ElicitRequestParams {
    form(text, "write", "Write these changes", &["yes", "no"])
}

fn word(said: &ElicitResult) -> Word {
    let is_yes = said.content.as_ref().is_some_and(|content| content["write"] == "yes");
    match said.action {
        ElicitationAction::Accept if is_yes => Word::Write,
        ElicitationAction::Cancel => Word::Later,
        _ => Word::Drop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::ChangeKind;

    #[test]
    fn only_a_clear_yes_writes() {
        let said = |action, content: serde_json::Value| word(&ElicitResult::new(action).with_content(content));
        assert_eq!(said(ElicitationAction::Accept, json!({ "write": "yes" })), Word::Write);
        for content in [json!({ "write": "no" }), json!({ "write": true }), json!({ "allow": "once" }), json!({}), json!(null)] {
            assert_eq!(said(ElicitationAction::Accept, content), Word::Drop);
        }
        assert_eq!(said(ElicitationAction::Decline, json!({ "write": "yes" })), Word::Drop);
        assert_eq!(said(ElicitationAction::Cancel, json!({ "write": "yes" })), Word::Later);
        assert_eq!(word(&ElicitResult::new(ElicitationAction::Accept)), Word::Drop);
    }

    #[test]
    fn a_person_reads_paths_and_lines_and_that_it_is_cut() {
        let change = |number| Change { path: format!("{number}\r{}", "x".repeat(4_000)), kind: ChangeKind::Added };
        let diff = Diff { shown: "+a\tb\u{1b}[2J\n+c".into(), whole: Some(("run://1/diff".into(), 70_000)) };
        let text = shown("report", &(0..22).map(change).collect::<Vec<_>>(), &diff);
        assert!(text.starts_with("report has run, and would change 22 paths:\n  added 0\\rxxx") && text.len() < 10_000, "{text}");
        assert!(text.contains("\n  and 2 more\nthe diff has 70000 bytes") && text.contains("run://1/diff\n\n"), "{text}");
        assert!(text.ends_with("+a\tb\\u{1b}[2J\n+c"), "{text}");
    }
}
