//! Collects what a policy demands of skills: their signatures, their source, and scans.

use std::fmt;
use std::io::Read as _;
use std::path::Path;

use skillhost_ledger::receipt::envelope::SignedStatement;
use skillhost_ledger::receipt::key::PublicKey;
use skillhost_policy::require::{Evidence, Requirement};
use skillhost_skill::Skill;
use skillhost_sources::digest::{Digest, Listing};
use skillhost_sources::signature::{SignedFiles, Trust, TrustedKeys, VerifiedStatement};
use skillhost_sources::{scan, store};

use super::requirements::SkillVerifier;

/// Verifies with the keys that the operator trusts.
pub struct Verifier(Box<dyn Fn() -> Result<Trust, String> + Send + Sync>);

impl Verifier {
    /// Verifies with the keys that a function reads. It is called when a policy demands a signature.
    pub fn new(trust: impl Fn() -> Result<Trust, String> + Send + Sync + 'static) -> Verifier {
        Verifier(Box::new(trust))
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl SkillVerifier for Verifier {
    fn evidence(&self, skill: &Skill, requirements: &[&Requirement]) -> Evidence {
        let source = skill.locked.as_ref().map(|locked| locked.source.clone());
        let mut evidence = Evidence { source, ..Evidence::default() };
        let needs_signature = requirements.iter().any(|one| one.signed_by.is_some());
        let scans: Vec<_> = requirements.iter().filter_map(|one| one.scan.as_ref()).collect();
        if !needs_signature && scans.is_empty() {
            return evidence;
        }
        let files = match listing(skill) {
            Ok(files) => files,
            Err(why) => {
                (evidence.refused, evidence.unusable) = (vec![why.clone()], vec![why]);
                return evidence;
            }
        };
        evidence.digest = files.digest().to_string();
        if needs_signature {
            self.verify(skill, &files, &mut evidence);
        }
        for report in scans.iter().flat_map(|scan| &scan.reports) {
            let shown = report.display().to_string();
            match read_report(report, skill).and_then(|text| scan::worst(&text, &files)) {
                Ok(level) => evidence.scans.push((shown, level)),
                Err(why) => evidence.unusable.push(format!("{shown} does not count: {why}")),
            }
        }
        evidence
    }
}

impl Verifier {
    fn verify(&self, skill: &Skill, files: &Listing, evidence: &mut Evidence) {
        let trust = match (self.0)() {
            Ok(trust) => trust,
            Err(why) => return evidence.refused.push(why),
        };
        let remembered = skill.locked.as_ref().and_then(|locked| locked.evidence.as_deref());
        let objects = remembered.and_then(store::read_objects);
        let found = SignedFiles {
            read: &|path| skill.read(path).ok(),
            files,
            left_out: &skill.left_out,
            objects: objects.as_ref(),
        }
        .verify(&trust);
        (evidence.signers, evidence.refused) = (found.signers, found.refused);
    }
}

/// A text that cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidKey {
    /// Its position in the list.
    pub at: usize,
    /// The problem.
    pub why: String,
}

/// Trusts what texts contain: public keys and certificates of authorities in PEM, SSH keys, and the
/// trusted root of an instance of sigstore. Ed25519 keys sign DSSE envelopes, too.
///
/// # Errors
/// A text has another format.
pub fn trust<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Trust, InvalidKey> {
    let texts: Vec<&str> = texts.into_iter().collect();
    let keys = texts.iter().filter_map(|text| PublicKey::from_pem(text).ok()).collect();
    let mut trust = Trust::new(Keys(keys));
    for (at, text) in texts.into_iter().enumerate() {
        trust.add(text).map_err(|why| InvalidKey { at, why })?;
    }
    Ok(trust)
}

/// Digests every file of a skill.
///
/// # Errors
/// A file cannot be read.
pub fn listing(skill: &Skill) -> Result<Listing, String> {
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

/// The Ed25519 keys that the operator trusts.
#[derive(Debug)]
struct Keys(Vec<PublicKey>);

impl TrustedKeys for Keys {
    fn verify(&self, envelope: &[u8]) -> Result<VerifiedStatement, String> {
        let signed = SignedStatement::read(envelope)?;
        let key = signed.signer(&self.0).map_err(|error| error.to_string())?;
        let SignedStatement { predicate_type, subjects, .. } = signed;
        Ok(VerifiedStatement { key, predicate_type, subjects })
    }
}
