//! Checks what `require` of a policy demands of a skill, before anything of it is used.

use std::{fmt, io};

use skillhost_policy::Policy;
use skillhost_policy::diagnostic::{Diagnostic, Severity};
use skillhost_policy::manifest::rules;
use skillhost_policy::require::{Evidence, Requirement, Unmet};
use skillhost_skill::{Skill, SkillError};
use skillhost_sources::digest::{Digest, Listing};

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
        Some(verifier) => check(skill, &requirements, verifier).map(drop),
        None => refuse(
            skill,
            Unmet {
                why: format!("{} cannot be checked: this host has no verifier", first.place),
                fix: "remove `require`, or use the command `skillhost`, which has one".into(),
            },
        ),
    }
}

/// Checks that a skill meets requirements, and that what was fetched is what the lock file names.
/// For skills that are read from their folders: what runs is a copy, whose digest is known. Returns
/// the digest of the files that were verified, as the lock file has it; `None` if they were not
/// fetched and no requirement is about files.
///
/// # Errors
/// What is missing, and how to provide it; or what the lock file names.
pub fn require_all(
    skill: &Skill,
    requirements: &[&Requirement],
    verifier: &dyn SkillVerifier,
) -> Result<Option<String>, SkillError> {
    let locked = locked_files(skill)?;
    let verified = check(skill, requirements, verifier)?;
    match (locked, verified) {
        (Some(locked), Some(verified)) if locked != verified => refuse(skill, changed()),
        (locked, verified) => Ok(locked.or(verified)),
    }
}

/// Checks that a skill meets requirements. Returns the digest of the files that were verified; `None`
/// if no requirement is about files.
fn check(
    skill: &Skill,
    requirements: &[&Requirement],
    verifier: &dyn SkillVerifier,
) -> Result<Option<String>, SkillError> {
    let evidence = verifier.evidence(skill, requirements);
    let unmet = requirements.iter().find_map(|requirement| requirement.check(&evidence).err());
    // What was verified must be what is used, also if it is read from the folder itself.
    let unmet = unmet.or_else(|| (!skill.is_current()).then(changed));
    match unmet {
        Some(unmet) => refuse(skill, unmet),
        None => Ok(Some(evidence.digest).filter(|digest| !digest.is_empty())),
    }
}

/// Reads the files of a skill that was fetched, each once, and compares them with the lock file.
/// Returns their digest.
fn locked_files(skill: &Skill) -> Result<Option<String>, SkillError> {
    if skill.locked.is_none() {
        return Ok(None);
    }
    let mut files = Listing::default();
    let content = skill.digest_of(|file| {
        let content = skill.read(&file.path)?;
        files.0.insert(file.path.clone(), Digest::of(&content));
        Ok(content)
    });
    // The digest of the content has only the target of a symlink.
    let links = skill.files.iter().filter(|file| file.link.is_some());
    let links = links.map(|link| Ok((link.path.clone(), Digest::of(&skill.read(&link.path)?))));
    let read = content.and_then(|content| Ok((content, links.collect::<io::Result<Vec<_>>>()?)));
    let (content, links) = match read {
        Ok(read) => read,
        Err(error) => {
            let why = format!("its files cannot be compared with the lock file: {error}");
            return refuse(skill, Unmet { why, fix: "fetch them again: skillhost sync".into() });
        }
    };
    skill.check_lock(&content)?;
    files.0.extend(links);
    Ok(Some(files.digest().to_string()))
}

fn changed() -> Unmet {
    Unmet { why: "its files changed while they were verified".into(), fix: "try again".into() }
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
