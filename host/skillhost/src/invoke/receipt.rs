//! An invocation with a receipt.

use std::collections::BTreeMap;

use super::kept::SkillState;
use super::{Invocation, LoadedSkill, RunError, Runner, Target};
use skillhost_ledger::receipt::{ContentDigest, Receipt, ReceiptParts, policy_digest};
use skillhost_policy::Policy;
use skillhost_sandbox::{Finished, Io, Outside, Stdin};
use skillhost_skill::runtime::{Program, Programs};

/// One invocation of a skill that is loaded: what was digested and approved is what runs.
pub struct LoadedRequest<'a> {
    /// The skill.
    pub loaded: &'a LoadedSkill,
    /// The policy that it was loaded under.
    pub policy: &'a Policy,
    /// What of the skill is to run.
    pub target: &'a Target,
    /// The arguments.
    pub args: Vec<String>,
    /// The streams.
    pub io: Io,
}

/// What a receipt tells that an invocation does not know otherwise.
pub(super) struct ReceiptContext {
    pub(super) policy: String,
    pub(super) stdin: ContentDigest,
    pub(super) outside: Outside,
    /// What the skill keeps, where that is not this host's.
    pub(super) state: Option<SkillState>,
}

impl Runner {
    /// Runs a skill that is loaded, records it, and makes a receipt of it. Every file that it may
    /// read is digested before and after; its outputs are told in full only where they are
    /// captured, and stdin is given as bytes.
    ///
    /// # Errors
    /// As [`Runner::invoke`]; or stdin is a descriptor.
    pub async fn invoke_with_receipt(
        &self,
        call: LoadedRequest<'_>,
    ) -> Result<Invocation, RunError> {
        self.invoke_outside(call, Outside::default()).await
    }

    /// The same, with something between a deterministic run and what is outside: the network of a
    /// recording, say.
    ///
    /// # Errors
    /// As [`Runner::invoke_with_receipt`].
    pub async fn invoke_outside(
        &self,
        call: LoadedRequest<'_>,
        outside: Outside,
    ) -> Result<Invocation, RunError> {
        let ask = ReceiptContext::of(call.policy, &call.io.stdin)?.with(outside);
        self.invoke_asked(call.loaded, call.target, &call.args, call.io, Some(ask)).await
    }
}

impl ReceiptContext {
    pub(super) fn of(policy: &Policy, stdin: &Stdin) -> Result<ReceiptContext, RunError> {
        ReceiptContext::under(policy_digest(policy), stdin)
    }

    /// With what stands between the run and what is outside.
    pub(super) fn with(self, outside: Outside) -> ReceiptContext {
        ReceiptContext { outside, ..self }
    }

    /// Under a policy of that digest.
    pub(super) fn under(policy: String, stdin: &Stdin) -> Result<ReceiptContext, RunError> {
        let stdin = match stdin {
            Stdin::Empty => ContentDigest::of(b""),
            Stdin::Bytes(bytes) => ContentDigest::of(bytes),
            Stdin::Descriptor(_) => return Err(RunError::Stdin),
        };
        Ok(ReceiptContext { policy, stdin, outside: Outside::default(), state: None })
    }

    pub(super) fn receipt(
        self,
        loaded: &LoadedSkill,
        program: &Program,
        programs: &Programs,
        target: &Target,
        arguments: &[String],
        finished: &Finished,
    ) -> Option<Receipt> {
        let capabilities = &loaded.capabilities;
        let reaches = program.component.built_in().is_some() || !capabilities.spawn.is_empty();
        let programs = if reaches { built_in_digests(programs) } else { BTreeMap::new() };
        let parts = ReceiptParts {
            skill: &loaded.id,
            program,
            arguments,
            command: if let Target::Shell(text) = target { Some(text) } else { None },
            capabilities,
            policy: &self.policy,
            programs,
            stdin: self.stdin,
            evidence: finished.evidence.as_ref()?,
        };
        Receipt::of(parts, &finished.outcome)
    }
}

/// The built-in programs: name and digest.
pub(super) fn built_in_digests(programs: &Programs) -> BTreeMap<String, String> {
    let built_in = programs.built_ins().unwrap_or_default();
    built_in
        .iter()
        .map(|one| (one.description.name.clone(), one.description.digest.clone()))
        .collect()
}
