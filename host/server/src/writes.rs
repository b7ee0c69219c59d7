//! What a run kept aside: kept until the operator has seen it. No client answers for that, whatever
//! the policy says of its runs: what is written into the operator's folders outlives the session.

use rmcp::model::ContentBlock;

use super::gate::Call;
use super::hidden::Hidden;
use super::kept::{self, Kept};
use super::result::{cut, kind};
use super::run::Caller;
use super::{Shared, result};
use skillhost::invoke::Invocation;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::Finished;

/// What a run would change, as a text.
pub(super) struct Diff {
    /// Its start.
    pub(super) shown: String,
    /// The resource that has all of it, and its bytes; `None` where it is shown whole.
    pub(super) whole: Option<(String, usize)>,
}

impl Shared {
    /// What an overlay would change; a long text is kept as a resource.
    pub(super) fn diff(&self, invoked: &Invocation, hidden: &Hidden) -> Option<Diff> {
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

    /// Keeps what a run wrote, where the policy says that a person sees it first; returns what the
    /// client is told of it.
    pub(super) fn aside(
        &self,
        call: &Call<'_>,
        caller: Caller<'_>,
        invoked: &Invocation,
        diff: Option<&Diff>,
    ) -> Option<String> {
        let Finished { outcome, overlays, .. } = &invoked.finished;
        diff.filter(|_| self.policy.stages_writes(&call.entry.name))?;
        let digest = call.loaded.id().digest.as_deref()?;
        if outcome.status != (Status::Exited { code: 0 }) {
            return Some(format!("nothing of this is written: it {}", ended(&outcome.status)));
        }
        if call.workspace.folder.is_some() && call.loaded.grant.capabilities.mounts.len() == 1 {
            // The session's own folder is all that it wrote, and nobody's to ask for.
            let failed = overlays.apply().err()?;
            return Some(call.hidden.text(&format!("nothing of this was written: {failed}")));
        }
        let part = call.loaded.part_of(call.target);
        Some(match self.approvals.stage(&call.request(digest, &part, caller), overlays) {
            Ok(id) => format!(
                "nothing of this was written yet; the operator can write it: skillhost approve {id}"
            ),
            Err(error) => call
                .hidden
                .text(&format!("nothing of this was written, and it is not kept: {error}")),
        })
    }
}

/// What becomes of the changes, as a line of the answer.
pub(super) fn note(text: &str) -> ContentBlock {
    ContentBlock::text(format!("[{text}]"))
}

fn ended(status: &Status) -> String {
    match status {
        Status::Exited { code } => format!("exited with code {code}"),
        other => format!("ended as {}", kind(other)),
    }
}
