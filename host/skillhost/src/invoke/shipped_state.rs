//! Lets the skills that ship with the host keep state without a policy file.

use skillhost_policy::limits::Limit;
use skillhost_policy::{EntryDecision, Grant, Origin, Policy, Verdict};
use skillhost_skill::runtime::built_in::BuiltIns;

/// Grants a skill the state that the host's own folders list for its digest. Only the built-in
/// policy does this: an operator who writes a policy decides about every skill. A changed skill has
/// another digest, and a skill that merely has the same name gets nothing.
pub(super) fn grant(grant: &mut Grant, policy: &Policy, built_ins: &BuiltIns, digest: &str) {
    let is_built_in = policy.layers.iter().any(|layer| layer.origin == Origin::BuiltIn);
    let limits = &mut grant.capabilities.limits;
    if !is_built_in || limits.state != 0 {
        return;
    }
    let Some(size) = built_ins.state_of(digest) else { return };
    limits.state = size;
    grant.decisions.push(EntryDecision {
        entry: "state".into(),
        place: None,
        verdict: Verdict::Granted,
        meaning: format!("keep up to {} between runs", Limit::State.show(size)),
        rule: "the built-in policy, for skills that ship with skillhost".into(),
        fix: None,
    });
}
