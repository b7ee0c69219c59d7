//! The one place where it is asked whether a call may run. What it may then do is the policy's, in the sandbox.

use super::Shared;
use crate::catalog::Entry;

impl Shared {
    /// Whether a program or tool of a skill may be started for this client; else what the client is told.
    ///
    /// A skill whose frontmatter is broken is granted nothing, and one that changed since it was found is another skill: neither runs.
    pub(super) fn may_run(&self, entry: &Entry) -> Result<(), String> {
        if entry.recovered {
            return Err(format!("the frontmatter of the skill `{}` is broken, so its programs do not run", entry.name));
        }
        Ok(())
    }
}
