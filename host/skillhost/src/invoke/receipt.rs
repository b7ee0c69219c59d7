//! Runs with a receipt.

use std::collections::BTreeMap;

use super::state::SkillState;
use super::{Invocation, LoadedSkill, RunError, Runner, Target};
use skillhost_ledger::receipt::{ContentDigest, Receipt, ReceiptParts, policy_digest};
use skillhost_policy::Policy;
use skillhost_sandbox::{FinishedRun, Io, RecordingIo, Stdin};
use skillhost_skill::runtime::{Program, Programs};

/// One run of a loaded skill. The files that were digested and approved are the files that run.
pub struct LoadedRequest<'a> {
    /// The skill.
    pub loaded: &'a LoadedSkill,
    /// The policy under which the skill was loaded.
    pub policy: &'a Policy,
    /// The part of the skill to run.
    pub target: &'a Target,
    /// The program's arguments.
    pub args: Vec<String>,
    /// Standard input, output and error.
    pub io: Io,
}

/// What a receipt needs that a run does not know otherwise.
pub(super) struct ReceiptContext {
    pub(super) policy: String,
    pub(super) stdin: ContentDigest,
    pub(super) outside: RecordingIo,
    /// The recorded state in a replay; otherwise the state on this host is used.
    pub(super) state: Option<SkillState>,
}

impl Runner {
    /// Runs a loaded skill, records the run, and makes a receipt. Digests every readable file
    /// before and after the run. Outputs are complete in the receipt only if they are captured, and
    /// stdin must be in memory.
    ///
    /// # Errors
    /// As [`Runner::invoke`]; or stdin is a descriptor.
    pub async fn invoke_with_receipt(
        &self,
        call: LoadedRequest<'_>,
    ) -> Result<Invocation, RunError> {
        self.invoke_outside(call, RecordingIo::default()).await
    }

    /// Like [`Runner::invoke_with_receipt`], with a layer between a deterministic run and the
    /// outside world, such as the network of a recording.
    ///
    /// # Errors
    /// As [`Runner::invoke_with_receipt`].
    pub async fn invoke_outside(
        &self,
        call: LoadedRequest<'_>,
        outside: RecordingIo,
    ) -> Result<Invocation, RunError> {
        let ask = ReceiptContext::of(call.policy, &call.io.stdin)?.with(outside);
        self.invoke_asked(call.loaded, call.target, &call.args, call.io, Some(ask)).await
    }
}

impl ReceiptContext {
    pub(super) fn of(policy: &Policy, stdin: &Stdin) -> Result<ReceiptContext, RunError> {
        ReceiptContext::under(policy_digest(policy), stdin)
    }

    /// Sets the layer between the run and the outside world.
    pub(super) fn with(self, outside: RecordingIo) -> ReceiptContext {
        ReceiptContext { outside, ..self }
    }

    /// Creates a context for a policy with this digest.
    pub(super) fn under(policy: String, stdin: &Stdin) -> Result<ReceiptContext, RunError> {
        let stdin = match stdin {
            Stdin::Empty => ContentDigest::of(b""),
            Stdin::Bytes(bytes) => ContentDigest::of(bytes),
            Stdin::Descriptor(_) => return Err(RunError::Stdin),
        };
        Ok(ReceiptContext { policy, stdin, outside: RecordingIo::default(), state: None })
    }

    pub(super) fn receipt(
        self,
        loaded: &LoadedSkill,
        program: &Program,
        programs: &Programs,
        target: &Target,
        arguments: &[String],
        finished: &FinishedRun,
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

/// Returns the digests of the built-in programs, by name.
pub(super) fn built_in_digests(programs: &Programs) -> BTreeMap<String, String> {
    let built_in = programs.built_ins().unwrap_or_default();
    built_in
        .iter()
        .map(|one| (one.description.name.clone(), one.description.digest.clone()))
        .collect()
}
