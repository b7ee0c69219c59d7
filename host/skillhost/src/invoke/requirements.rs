//! Checks what `require` of a policy demands of a skill, before anything of it is used.

use std::fmt;
use std::path::PathBuf;

use skillhost_policy::Policy;
use skillhost_policy::diagnostic::{Diagnostic, Severity};
use skillhost_policy::manifest::rules;
use skillhost_policy::require::{Evidence, Requirement, Unmet};
use skillhost_skill::{Skill, SkillError};

use super::Runner;

/// Collects the evidence about a skill that a policy demands. It reads the files that the skill was
/// loaded from, so what is verified is what runs.
pub trait SkillVerifier: fmt::Debug + Send + Sync {
    /// Returns what is known about a skill: who signed it, where it is from, and what the scans in
    /// these SARIF files found.
    fn evidence(&self, skill: &Skill, reports: &[PathBuf]) -> Evidence;
}

impl Runner {
    /// Checks that a skill meets what the policy's sections for it require.
    ///
    /// # Errors
    /// What is missing, and how to provide it.
    pub fn require(&self, skill: &Skill, policy: &Policy) -> Result<(), SkillError> {
        let requirements: Vec<&Requirement> = policy.requirements_for(&skill.name).collect();
        if requirements.is_empty() {
            return Ok(());
        }
        let scans = requirements.iter().filter_map(|one| one.scan.as_ref());
        let reports: Vec<PathBuf> = scans.flat_map(|scan| scan.reports.clone()).collect();
        let unmet = match &self.options.verifier {
            // Nothing can be proven then.
            None => requirements.first().map(|requirement| Unmet {
                why: format!("{} cannot be checked: this host has no verifier", requirement.place),
                fix: "remove `require`, or use the command `skillhost`, which has one".into(),
            }),
            Some(verifier) => {
                let evidence = verifier.evidence(skill, &reports);
                requirements.iter().find_map(|requirement| requirement.check(&evidence).err())
            }
        };
        let unmet = unmet.or_else(|| {
            // What was verified must be what is used, also if it is read from the folder itself.
            (!skill.is_current()).then(|| Unmet {
                why: "its files changed while they were verified".into(),
                fix: "try again".into(),
            })
        });
        match unmet {
            None => Ok(()),
            Some(Unmet { why, fix }) => Err(SkillError {
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
            }),
        }
    }
}
