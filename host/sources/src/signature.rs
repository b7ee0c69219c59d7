//! Signatures that a skill carries: DSSE envelopes with an in-toto statement about its files.
//!
//! A signature counts only if its statement names exactly the files of the skill with their digests,
//! except the signatures themselves. A file that was added later is therefore found, too.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::digest::Listing;

/// The file of the signature, in the skill's folder.
pub const FILE: &str = "skill.dsse.json";

/// Files that no signature covers: signatures.
const UNCOVERED: [&str; 2] = [FILE, "skill.oms.sig"];

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
pub trait TrustedKeys: fmt::Debug {
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
        .into_iter()
        .map(|(path, digest)| json!({ "name": path, "digest": { "sha256": digest } }))
        .collect();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subject,
        "predicateType": PREDICATE,
        "predicate": { "skill": name },
    })
}

/// Returns the key that signed exactly these files.
///
/// # Errors
/// The envelope is invalid, no trusted key signed it, or it is about other files.
pub fn signer(envelope: &[u8], files: &Listing, keys: &dyn TrustedKeys) -> Result<String, String> {
    let VerifiedStatement { key, predicate_type, subjects } = keys.verify(envelope)?;
    if predicate_type != PREDICATE {
        return Err("the statement is not about a skill".to_owned());
    }
    match subjects == covered(files) {
        true => Ok(key),
        false => Err("the statement is about other files".to_owned()),
    }
}

fn covered(files: &Listing) -> BTreeMap<String, String> {
    let is_covered = |path: &str| !UNCOVERED.contains(&path);
    let files = files.0.iter().filter(|(path, _)| is_covered(path));
    files.map(|(path, digest)| (path.clone(), digest.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;

    /// Keys that verify everything, so that only the comparison of the files is tested.
    #[derive(Debug)]
    struct Any;

    impl TrustedKeys for Any {
        fn verify(&self, envelope: &[u8]) -> Result<VerifiedStatement, String> {
            let value: Value =
                serde_json::from_slice(envelope).map_err(|error| error.to_string())?;
            let subjects = value["subject"].as_array().unwrap().iter().map(|subject| {
                let digest = subject["digest"]["sha256"].as_str().unwrap().to_owned();
                (subject["name"].as_str().unwrap().to_owned(), digest)
            });
            Ok(VerifiedStatement {
                key: "sha256:1".into(),
                predicate_type: value["predicateType"].as_str().unwrap().to_owned(),
                subjects: subjects.collect(),
            })
        }
    }

    #[test]
    fn signature_covers_every_file_except_signatures() {
        let digest = Digest::of(b"x");
        let files = |paths: &[&str]| {
            Listing(paths.iter().map(|path| ((*path).to_owned(), digest)).collect())
        };
        let signed = files(&["SKILL.md", "a", FILE]);
        let envelope = statement("one", &signed).to_string();
        let signer = |files: &Listing| signer(envelope.as_bytes(), files, &Any).ok();
        assert!(signer(&signed).is_some());
        assert!(signer(&files(&["SKILL.md", "a", FILE, "skill.oms.sig"])).is_some());
        assert_eq!(signer(&files(&["SKILL.md", "a", "more", FILE])), None);
        assert_eq!(signer(&files(&["SKILL.md", FILE])), None);
        assert_eq!(signer(&files(&["SKILL.md", "a", "sub/skill.dsse.json", FILE])), None);
        let mut changed = signed.clone();
        changed.0.insert("a".into(), Digest::of(b"y"));
        assert_eq!(signer(&changed), None);
        assert_eq!(
            super::signer(envelope.as_bytes(), &signed, &NoKeys),
            Err("no key is trusted".into())
        );
    }
}
