//! Hides skills that lack what the policy requires: agents must not even read their descriptions.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use skillhost::invoke::Runner;
use skillhost_catalog::CatalogEntry;
use skillhost_policy::Policy;
use skillhost_policy::diagnostic::printable;
use skillhost_skill::{SizeLimits, Skill};

/// The skills that were verified, so that a search does not verify them again.
#[derive(Debug, Default)]
pub(super) struct Verified(Mutex<HashMap<Key, bool>>);

/// The content of a skill as far as the catalogue knows it. A run verifies all of it.
type Key = (PathBuf, String, Option<String>);

/// The most skills to remember.
const MAX: usize = 10_000;

impl Verified {
    /// Checks whether a skill lacks what the policy requires of it. Logs the reason once, and remembers
    /// the answer until the server restarts.
    pub(super) fn lacks(&self, entry: &CatalogEntry, policy: &Policy, runner: &Runner) -> bool {
        if policy.requirements_for(&entry.name).next().is_none() {
            return false;
        }
        let digest = entry.locked.as_ref().map(|locked| locked.digest.clone());
        let key = (entry.folder.to_path_buf(), entry.digest.to_string(), digest);
        let known = |verified: &Verified| {
            verified.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied()
        };
        if let Some(lacks) = known(self) {
            return lacks;
        }
        let skill = Skill::load_from(entry.into(), &SizeLimits::of(policy));
        let lacks = match skill.and_then(|skill| runner.require(&skill, policy)) {
            Ok(()) => false,
            Err(error) => {
                let fix = error.diagnostics.iter().find_map(|found| found.fix.clone());
                let why = printable(&error.to_string());
                tracing::warn!(fix = fix.as_deref().map(printable), "{why}");
                true
            }
        };
        let mut verified = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.len() == MAX {
            verified.clear();
        }
        verified.insert(key, lacks);
        lacks
    }
}
