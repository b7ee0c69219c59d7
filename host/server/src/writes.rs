//! Keeps staged writes until the operator decides. A client cannot answer for them, whatever the
//! policy says about its runs, because writes to the operator's folders outlive the session.

use rmcp::model::ContentBlock;

use super::approval::Call;
use super::hidden::HostPaths;
use super::result::{cut, kind};
use super::run::Caller;
use super::run_results::{self, RunResults};
use super::{Shared, result};
use skillhost::invoke::Invocation;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::FinishedRun;

/// The diff of staged writes.
pub(super) struct Diff {
    /// The start of the diff.
    pub(super) shown: String,
    /// The resource with the complete diff, and its size; `None` if all of it is shown.
    pub(super) whole: Option<(String, usize)>,
}

impl Shared {
    /// Returns the diff of staged writes. A long diff is kept as a resource.
    pub(super) fn diff(&self, invoked: &Invocation, hidden: &HostPaths) -> Option<Diff> {
        let FinishedRun { outcome, overlays, .. } = &invoked.finished;
        if outcome.changes.is_empty() {
            return None;
        }
        let text = hidden.text(&overlays.diff());
        let (shown, is_cut) = cut(text.as_bytes(), result::SHOWN);
        let whole = is_cut.then(|| {
            let (id, size) = (run_results::id(), text.len());
            let uri = format!("run://{id}/diff");
            self.runs.keep(id, RunResults { diff: text.into_bytes(), ..RunResults::default() });
            (uri, size)
        });
        Some(Diff { shown, whole })
    }

    /// Stores the staged writes of a run if the policy requires approval. Returns the note for the
    /// client.
    pub(super) fn aside(
        &self,
        call: &Call<'_>,
        caller: Caller<'_>,
        invoked: &Invocation,
        diff: Option<&Diff>,
    ) -> Option<String> {
        let FinishedRun { outcome, overlays, .. } = &invoked.finished;
        diff.filter(|_| self.policy.stages_writes(&call.entry.name))?;
        let digest = call.loaded.id().digest.as_deref()?;
        if outcome.status != (Status::Exited { code: 0 }) {
            return Some(format!("no changes were written: the run {}", ended(&outcome.status)));
        }
        if call.workspace.folder.is_some() && call.loaded.grant.capabilities.mounts.len() == 1 {
            // The run wrote only to the session's own folder, so no approval is needed.
            let failed = overlays.apply().err()?;
            return Some(call.hidden.text(&format!("no changes were written: {failed}")));
        }
        let part = call.loaded.part_of(call.target);
        // An approval writes to the folder, which must not be another run's by then.
        call.workspace.folder.iter().for_each(|folder| folder.discard());
        Some(match self.approvals.stage(&call.request(digest, &part, caller), overlays) {
            Ok(id) => format!(
                "the changes await approval; the operator can apply them: skillhost approve {id}"
            ),
            Err(error) => {
                call.hidden.text(&format!("the changes were neither written nor stored: {error}"))
            }
        })
    }
}

/// Formats a note about staged writes as a line of the answer.
pub(super) fn note(text: &str) -> ContentBlock {
    ContentBlock::text(format!("[{text}]"))
}

fn ended(status: &Status) -> String {
    match status {
        Status::Exited { code } => format!("exited with code {code}"),
        other => format!("ended as {}", kind(other)),
    }
}
