//! Checks what `require` of a policy demands of a skill, before anything of it is used.

use std::fmt;

use skillhost_policy::Policy;
use skillhost_policy::diagnostic::{Diagnostic, Severity};
use skillhost_policy::manifest::rules;
use skillhost_policy::require::{Evidence, Requirement, Unmet};
use skillhost_skill::{Skill, SkillError};

use super::Runner;

/// Collects the evidence about a skill that a policy demands. It reads the files that the skill was
/// loaded from, so what is verified is what runs.
pub trait SkillVerifier: fmt::Debug + Send + Sync {
    /// Returns what is known about a skill, as far as the requirements need it: who signed it, where
    /// it is from, and what the scans in SARIF files found.
    fn evidence(&self, skill: &Skill, requirements: &[&Requirement]) -> Evidence;
}

impl Runner {
    /// Checks that a skill meets what the policy's sections for it require.
    ///
    /// # Errors
    /// What is missing, and how to provide it.
    pub fn require(&self, skill: &Skill, policy: &Policy) -> Result<(), SkillError> {
        require(skill, policy, self.options.verifier.as_deref())
    }
}

/// Checks that a skill meets what the policy's sections for it require. Without a verifier, nothing
/// can be proven.
///
/// # Errors
/// What is missing, and how to provide it.
fn require(
    skill: &Skill,
    policy: &Policy,
    verifier: Option<&dyn SkillVerifier>,
) -> Result<(), SkillError> {
    let requirements: Vec<&Requirement> = policy.requirements_for(&skill.name).collect();
    let Some(first) = requirements.first() else { return Ok(()) };
    match verifier {
        Some(verifier) => require_all(skill, &requirements, verifier).map(drop),
        None => refuse(
            skill,
            Unmet {
                why: format!("{} cannot be checked: this host has no verifier", first.place),
                fix: "remove `require`, or use the command `skillhost`, which has one".into(),
            },
        ),
    }
}

/// Checks that a skill meets requirements. Returns the digest of the files that were verified, as
/// the lock file has it; `None` if no requirement is about files.
///
/// # Errors
/// What is missing, and how to provide it.
pub fn require_all(
    skill: &Skill,
    requirements: &[&Requirement],
    verifier: &dyn SkillVerifier,
) -> Result<Option<String>, SkillError> {
    let evidence = verifier.evidence(skill, requirements);
    let unmet = requirements.iter().find_map(|requirement| requirement.check(&evidence).err());
    let unmet = unmet.or_else(|| {
        // What was verified must be what is used, also if it is read from the folder itself.
        (!skill.is_current()).then(|| Unmet {
            why: "its files changed while they were verified".into(),
            fix: "try again".into(),
        })
    });
    match unmet {
        Some(unmet) => refuse(skill, unmet),
        None => Ok(Some(evidence.digest).filter(|digest| !digest.is_empty())),
    }
}

fn refuse<T>(skill: &Skill, Unmet { why, fix }: Unmet) -> Result<T, SkillError> {
    Err(SkillError {
        root: skill.root.clone(),
        diagnostics: vec![Diagnostic {
            severity: Severity::Error,
            rule: rules::POLICY_REQUIRE.name,
            message: why,
            file: skill.root.display().to_string(),
            span: None,
            fix: Some(fix),
        }],
        text: String::new(),
    })
}
