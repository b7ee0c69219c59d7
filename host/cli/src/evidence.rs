//! Collects what a policy demands of skills: their signatures, their source, and scans.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use skillhost::invoke::SkillVerifier;
use skillhost_policy::require::Evidence;
use skillhost_skill::Skill;
use skillhost_sources::digest::{Digest, Listing};
use skillhost_sources::signature::SignedFiles;
use skillhost_sources::{scan, store};

use crate::commands::key;
use crate::context::Places;

/// Verifies with the operator's trusted keys. They are read when a policy demands something.
pub(crate) struct Verifier(Places);

impl Verifier {
    pub(crate) fn new(places: &Places) -> Verifier {
        Verifier(places.clone())
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl SkillVerifier for Verifier {
    fn evidence(&self, skill: &Skill, reports: &[PathBuf]) -> Evidence {
        let source = skill.locked.as_ref().map(|locked| locked.source.clone());
        let files = match listing(skill) {
            Ok(files) => files,
            Err(why) => {
                let (refused, unusable) = (vec![why.clone()], vec![why]);
                return Evidence { source, refused, unusable, ..Evidence::default() };
            }
        };
        let mut evidence =
            Evidence { source, digest: files.digest().to_string(), ..Evidence::default() };
        match key::skill_trust(&self.0) {
            Ok(trust) => {
                let remembered =
                    skill.locked.as_ref().and_then(|locked| locked.evidence.as_deref());
                let objects = remembered.and_then(store::read_objects);
                let found = SignedFiles {
                    read: &|path| skill.read(path).ok(),
                    files: &files,
                    left_out: &skill.left_out,
                    objects: objects.as_ref(),
                }
                .verify(&trust);
                (evidence.signers, evidence.refused) = (found.signers, found.refused);
            }
            Err(error) => evidence.refused.push(error.message),
        }
        for report in reports {
            let shown = report.display().to_string();
            match read_report(report, skill).and_then(|text| scan::worst(&text, &files)) {
                Ok(level) => evidence.scans.push((shown, level)),
                Err(why) => evidence.unusable.push(format!("{shown} does not count: {why}")),
            }
        }
        evidence
    }
}

/// Digests every file of a skill.
pub(crate) fn listing(skill: &Skill) -> Result<Listing, String> {
    let mut files = Listing::default();
    for file in &skill.files {
        let content = skill
            .read(&file.path)
            .map_err(|error| format!("cannot read `{}`: {error}", file.path))?;
        files.0.insert(file.path.clone(), Digest::of(&content));
    }
    Ok(files)
}

/// Reads a report, which must not be in the skill's folder.
fn read_report(path: &Path, skill: &Skill) -> Result<Vec<u8>, String> {
    let fail = |error: std::io::Error| format!("cannot read it: {error}");
    let real = path.canonicalize().map_err(fail)?;
    if skill.root.canonicalize().is_ok_and(|root| real.starts_with(root)) {
        return Err("it is in the skill, whose author wrote it".to_owned());
    }
    #[expect(clippy::disallowed_methods, reason = "a file that the operator names")]
    let file = std::fs::File::open(real).map_err(fail)?;
    let mut text = Vec::new();
    file.take(scan::MAX_BYTES + 1).read_to_end(&mut text).map_err(fail)?;
    match text.len() as u64 <= scan::MAX_BYTES {
        true => Ok(text),
        false => Err("it is larger than 32 MiB".to_owned()),
    }
}
