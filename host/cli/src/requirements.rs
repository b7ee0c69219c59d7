//! Checks what the policy requires of skills, for the commands that run nothing.

use skillhost::invoke::{evidence, require_all};
use skillhost_catalog::CatalogEntry;
use skillhost_policy::diagnostic::{Diagnostic, printable};
use skillhost_policy::require::Requirement;
use skillhost_skill::{SizeLimits, Skill, SkillError, SkillFolder};

use crate::commands::key;
use crate::context::{Context, Places};
use crate::output;

/// Verifies with the operator's trusted keys. They are read when a policy demands a signature.
pub(crate) fn verifier(places: &Places) -> evidence::Verifier {
    let places = places.clone();
    evidence::Verifier::new(move || key::skill_trust(&places).map_err(|error| error.message))
}

/// Why a skill does not load: it lacks what the policy requires. `None` if it has that. What nothing
/// is required of is not read: there may be many skills.
pub(crate) fn unmet(entry: &CatalogEntry, context: &Context) -> Option<SkillError> {
    let requirements: Vec<&Requirement> = context.policy.requirements_for(&entry.name).collect();
    if requirements.is_empty() {
        return None;
    }
    check(entry.into(), &requirements, context).err()
}

/// Checks that a skill has what the policy requires of its name, and of another name that it gets,
/// and that what was fetched is what the lock file names. Returns the digest of the files that were
/// verified; `None` if they were not fetched and nothing is required of them.
pub(crate) fn verify(
    folder: SkillFolder<'_>,
    name: &str,
    renamed: Option<&str>,
    context: &Context,
) -> Result<Option<String>, SkillError> {
    let policy = &context.policy;
    let renamed = renamed.filter(|renamed| *renamed != name);
    let requirements: Vec<&Requirement> = policy
        .requirements_for(name)
        .chain(renamed.into_iter().flat_map(|renamed| policy.requirements_for(renamed)))
        .collect();
    if requirements.is_empty() && folder.locked.is_none() {
        return Ok(None);
    }
    check(folder, &requirements, context)
}

fn check(
    folder: SkillFolder<'_>,
    requirements: &[&Requirement],
    context: &Context,
) -> Result<Option<String>, SkillError> {
    let skill = Skill::load_from(folder, &SizeLimits::of(&context.policy))?;
    require_all(&skill, requirements, &verifier(&context.places))
}

/// Warns of a skill that does not load.
pub(crate) fn warn(name: &str, error: &SkillError) {
    let fix = error.diagnostics.first().and_then(|found| found.fix.as_deref()).map(printable);
    output::warning(&format!("{}: {}", printable(name), why(error)), fix.as_deref());
}

/// The reason, in one line.
pub(crate) fn why(error: &SkillError) -> String {
    let message = |found: &Diagnostic| printable(&found.message);
    error.diagnostics.first().map_or_else(|| printable(&error.to_string()), message)
}
