//! Signatures that a skill carries, and those of the commit that it was fetched from.
//!
//! - `skill.dsse.json`: a DSSE envelope with an in-toto statement about its files, by an Ed25519 key.
//! - `skill.oms.sig`: OpenSSF Model Signing, by a key, by a certificate, or keyless ([`oms`]).
//! - SSH signatures of Git's commits and tags ([`ssh`]).
//!
//! A signature counts only if it covers exactly the files of the skill with their digests, except
//! the signatures themselves. A file that was added later is therefore found, too.

pub mod oms;
mod provider;
mod signing;
pub mod ssh;
mod trust;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::require::Signer;

use crate::digest::{Digest, Listing};
use ssh::SignedObjects;

pub use signing::SkillKey;
pub use trust::{Material, Trust};

/// The file of the signature, in the skill's folder.
pub const FILE: &str = "skill.dsse.json";

/// Files that no signature covers: signatures.
const UNCOVERED: [&str; 2] = [FILE, oms::FILE];

/// The type of the statement's predicate.
pub const PREDICATE: &str = "urn:skillhost:skill:v1";

/// A statement whose signature was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedStatement {
    /// The id of the key that signed it.
    pub key: String,
    /// The type of its predicate.
    pub predicate_type: String,
    /// What it is about: SHA-256 digests in hex digits, by name.
    pub subjects: BTreeMap<String, String>,
}

/// The keys that the operator trusts.
pub trait TrustedKeys: fmt::Debug + Send + Sync {
    /// Reads an envelope, and verifies its signature with a trusted key.
    ///
    /// # Errors
    /// The envelope is invalid, or no trusted key signed it.
    fn verify(&self, envelope: &[u8]) -> Result<VerifiedStatement, String>;
}

/// No key is trusted.
#[derive(Debug, Clone, Copy)]
pub struct NoKeys;

impl TrustedKeys for NoKeys {
    fn verify(&self, _: &[u8]) -> Result<VerifiedStatement, String> {
        Err("no key is trusted".to_owned())
    }
}

/// Returns the statement about a skill's files, to be signed.
pub fn statement(name: &str, files: &Listing) -> Value {
    let subject: Vec<Value> = covered(files)
        .map(|(path, digest)| json!({ "name": path, "digest": { "sha256": digest } }))
        .collect();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subject,
        "predicateType": PREDICATE,
        "predicate": { "skill": name },
    })
}

/// The signatures of a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signatures {
    /// Who signed exactly its files, sorted.
    pub signers: Vec<Signer>,
    /// Why other signatures do not count.
    pub refused: Vec<String>,
}

/// The files of a skill, as they are compared with signatures.
pub struct SignedFiles<'a> {
    /// Reads a file; returns `None` if the skill has no such file.
    pub read: &'a dyn Fn(&str) -> Option<Vec<u8>>,
    /// The digest of each file.
    pub files: &'a Listing,
    /// Files and folders beside them that do not belong to the skill.
    pub left_out: &'a [String],
    /// The objects of the repository that the files were fetched from.
    pub objects: Option<&'a SignedObjects>,
}

impl SignedFiles<'_> {
    /// Verifies every signature.
    pub fn verify(&self, trust: &Trust) -> Signatures {
        let mut found = Signatures::default();
        if let Some(envelope) = (self.read)(FILE) {
            let signer = self.envelope(&envelope, trust).map(|key| vec![Signer::Key(key)]);
            found.add(FILE, signer);
        }
        if let Some(bundle) = (self.read)(oms::FILE) {
            let signers = oms::verify(&bundle, trust).and_then(|(signers, signed)| {
                self.compare(&signed)?;
                Ok(signers)
            });
            found.add(oms::FILE, signers);
        }
        if let Some(objects) = self.objects {
            let (signers, refused) = ssh::verify(objects, trust);
            found.signers.extend(signers);
            found.refused.extend(refused);
        }
        found.signers.sort();
        found.signers.dedup();
        found
    }

    fn envelope(&self, envelope: &[u8], trust: &Trust) -> Result<String, String> {
        let VerifiedStatement { key, predicate_type, subjects } =
            trust.envelopes.verify(envelope)?;
        if predicate_type != PREDICATE {
            return Err("the statement is not about a skill".to_owned());
        }
        let mut signed = BTreeMap::new();
        for (path, digest) in subjects {
            signed.insert(path, digest.parse::<Digest>().map_err(|error| error.to_string())?);
        }
        self.compare(&signed)?;
        Ok(key)
    }

    /// Checks that exactly the files of the skill are signed.
    fn compare(&self, signed: &BTreeMap<String, Digest>) -> Result<(), String> {
        let belongs = |path: &str| {
            let is_below = |folder: &String| {
                path.strip_prefix(folder.trim_end_matches('/'))
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            !UNCOVERED.contains(&path) && !self.left_out.iter().any(is_below)
        };
        // What a run mounts must be signed, even if `left_out` names it.
        let files = self.files.0.iter().filter(|(path, _)| !UNCOVERED.contains(&path.as_str()));
        for (path, digest) in files {
            match signed.get(path) {
                Some(signed) if signed == digest => {}
                Some(_) => return Err(format!("`{}` was modified", printable(path))),
                None => return Err(format!("`{}` is not signed", printable(path))),
            }
        }
        let missing = |path: &&String| belongs(path) && !self.files.0.contains_key(*path);
        match signed.keys().find(missing) {
            Some(path) => Err(format!("`{}` is missing", printable(path))),
            None => Ok(()),
        }
    }
}

impl Signatures {
    fn add(&mut self, file: &str, signers: Result<Vec<Signer>, String>) {
        match signers {
            Ok(signers) => self.signers.extend(signers),
            Err(why) => self.refused.push(format!("{file} does not count: {why}")),
        }
    }
}

/// Returns the files that a signature covers.
fn covered(files: &Listing) -> impl Iterator<Item = (&String, &Digest)> {
    files.0.iter().filter(|(path, _)| !UNCOVERED.contains(&path.as_str()))
}

#[cfg(test)]
mod tests;
