//! OpenSSF Model Signing: a sigstore bundle whose statement names every file and its digest.
//!
//! The bundle is signed by a key, by a certificate of an authority, or keyless: by a certificate of
//! sigstore that names an identity, with an entry in a public log that proves when it was used.
//!
//! The format lets a signer leave files out (`ignore_paths`). Such a signature does not count: what
//! is not signed could be anything.

use std::collections::BTreeMap;
use std::time::Duration;

use rustls_pki_types::{CertificateDer, UnixTime};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use sigstore_verify::crypto::{VerificationKey, parse_certificate_info};
use sigstore_verify::types::bundle::VerificationMaterialContent;
use sigstore_verify::types::{Bundle, DerCertificate, Sha256Hash, SignatureContent};
use sigstore_verify::{VerificationPolicy, Verifier};
use skillhost_policy::require::Signer;
use webpki::{EndEntityCert, KeyUsage};

use super::trust::Trust;
use crate::digest::Digest;
use crate::names;

/// The file of the signature, in the skill's folder.
pub const FILE: &str = "skill.oms.sig";

/// The type of the statement's predicate.
pub const PREDICATE: &str = "https://model_signing/signature/v1.0";

pub(super) const STATEMENT: &str = "https://in-toto.io/Statement/v1";
pub(super) const PAYLOAD: &str = "application/vnd.in-toto+json";

/// The purpose that a certificate must have: code signing, 1.3.6.1.5.5.7.3.3.
const CODE_SIGNING: &[u8] = &[43, 6, 1, 5, 5, 7, 3, 3];
/// The most certificates in a chain.
const MAX_CHAIN: usize = 8;

/// Returns who signed a bundle, and the files that it names.
///
/// # Errors
/// The bundle is broken, or no trusted signer signed it.
pub(super) fn verify(
    bytes: &[u8],
    trust: &Trust,
) -> Result<(Vec<Signer>, BTreeMap<String, Digest>), String> {
    let text = str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let bundle =
        Bundle::from_json(text).map_err(|error| format!("not a sigstore bundle: {error}"))?;
    let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
        return Err("the bundle has no envelope with a statement".to_owned());
    };
    let is_by_key =
        matches!(bundle.verification_material.content, VerificationMaterialContent::PublicKey(_));
    if !is_by_key && !envelope.signature.keyid.as_str().is_empty() {
        return Err("the bundle names a key and a certificate".to_owned());
    }
    if envelope.payload_type != PAYLOAD {
        return Err("the envelope has no in-toto statement".to_owned());
    }
    let statement = Statement::parse(envelope.payload.as_bytes())?;
    let material = &bundle.verification_material;
    let signers = match &material.content {
        VerificationMaterialContent::PublicKey(_) => by_key(&bundle, trust)?,
        VerificationMaterialContent::X509CertificateChain { certificates }
            if material.tlog_entries.is_empty() =>
        {
            let chain: Vec<&DerCertificate> =
                certificates.iter().map(|certificate| &certificate.raw_bytes).collect();
            by_certificate(&bundle, &chain, trust)?
        }
        _ => keyless(&bundle, statement.root, trust)?,
    };
    Ok((signers, statement.files))
}

fn by_key(bundle: &Bundle, trust: &Trust) -> Result<Vec<Signer>, String> {
    let SignatureContent::DsseEnvelope(envelope) = &bundle.content else { return Ok(Vec::new()) };
    let verifies = |key: &&super::trust::TrustedKey| {
        VerificationKey::from_spki(&key.key)
            .is_ok_and(|key| key.verify(envelope.pae(), &envelope.signature.sig).is_ok())
    };
    let Some(key) = trust.keys.iter().find(verifies) else {
        return Err("no trusted key signed it".to_owned());
    };
    // What is not signed must not say anything else.
    let keyid = envelope.signature.keyid.as_str();
    let hint = match &bundle.verification_material.content {
        VerificationMaterialContent::PublicKey(named) => named.hint.as_str(),
        _ => "",
    };
    let digest = Digest::of(key.pem().as_bytes()).to_string();
    match (keyid.is_empty() || keyid == key.id) && (hint.is_empty() || hint == digest) {
        true => Ok(vec![Signer::Key(key.id.clone())]),
        false => Err("the bundle names another key than the one that signed it".to_owned()),
    }
}

/// Verifies a chain up to an authority that the operator trusts, as of now: nothing proves when the
/// signature was made.
fn by_certificate(
    bundle: &Bundle,
    chain: &[&DerCertificate],
    trust: &Trust,
) -> Result<Vec<Signer>, String> {
    let SignatureContent::DsseEnvelope(envelope) = &bundle.content else { return Ok(Vec::new()) };
    let [leaf, rest @ ..] = chain else { return Err("the chain is empty".to_owned()) };
    if chain.len() > MAX_CHAIN {
        return Err(format!("the chain has more than {MAX_CHAIN} certificates"));
    }
    if trust.authorities.is_empty() {
        return Err("it is signed with a certificate, and no authority is trusted".to_owned());
    }
    let der = CertificateDer::from(leaf.as_bytes());
    let certificate =
        EndEntityCert::try_from(&der).map_err(|error| format!("invalid certificate: {error}"))?;
    let others: Vec<CertificateDer<'_>> =
        rest.iter().map(|one| CertificateDer::from(one.as_bytes())).collect();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(trust.now().as_secs()));
    let mut why = String::new();
    for authority in &trust.authorities {
        let Ok(anchor) = webpki::anchor_from_trusted_cert(&authority.certificate) else { continue };
        let anchors = [anchor];
        let verified = certificate.verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &anchors,
            &others,
            now,
            KeyUsage::required(CODE_SIGNING),
            None,
            None,
        );
        if let Err(error) = verified {
            why = format!("the certificate is not valid: {error}");
            continue;
        }
        let info = parse_certificate_info(leaf).map_err(|error| error.to_string())?;
        let key =
            VerificationKey::from_spki(&info.public_key).map_err(|error| error.to_string())?;
        key.verify(envelope.pae(), &envelope.signature.sig)
            .map_err(|_| "the signature does not match".to_owned())?;
        let id = format!("sha256:{}", Digest::of(info.public_key.as_bytes()));
        let identity = info.identity.map(|identity| Signer::Identity {
            issuer: authority.id.clone(),
            identity: identity.as_str().to_owned(),
        });
        return Ok([Some(Signer::Key(id)), identity].into_iter().flatten().collect());
    }
    Err(why)
}

/// Verifies a certificate of sigstore, which was valid for minutes, by the log that it was used in.
fn keyless(bundle: &Bundle, root: Digest, trust: &Trust) -> Result<Vec<Signer>, String> {
    let verifier = Verifier::new(&trust.root()?)
        .map_err(|error| format!("the trusted root is broken: {error}"))?;
    let artifact = Sha256Hash::new(root.bytes());
    let verified = verifier
        .verify(artifact, bundle, &VerificationPolicy::any_identity())
        .map_err(|error| error.to_string())?;
    let complete = verified.certificate_verified()
        && verified.sct_verified()
        && verified.tlog_verified()
        && !verified.verified_timestamps().is_empty();
    if !complete {
        return Err("the log does not prove when it was signed".to_owned());
    }
    if verified.verified_timestamps().iter().any(|time| trust.is_future(time.as_second())) {
        return Err("it was signed in the future".to_owned());
    }
    match (verified.issuer(), verified.identity()) {
        (Some(issuer), Some(identity)) => Ok(vec![Signer::Identity {
            issuer: issuer.to_owned(),
            identity: identity.as_str().to_owned(),
        }]),
        _ => Err("the certificate names no issuer or no identity".to_owned()),
    }
}

/// The parts of a statement that are used. A field that occurs twice is an error.
#[derive(Deserialize)]
struct StatementJson {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: Predicate,
}

#[derive(Deserialize)]
struct Subject {
    digest: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Predicate {
    serialization: Serialization,
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Serialization {
    method: String,
    hash_type: String,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    algorithm: String,
    digest: String,
}

/// A statement about files.
struct Statement {
    /// The digest of the files' digests, in the order of the statement.
    root: Digest,
    files: BTreeMap<String, Digest>,
}

impl Statement {
    fn parse(payload: &[u8]) -> Result<Statement, String> {
        let statement: StatementJson = serde_json::from_slice(payload)
            .map_err(|error| format!("not a statement about files: {error}"))?;
        let StatementJson { kind, subject, predicate_type, predicate } = statement;
        if kind != STATEMENT || predicate_type != PREDICATE {
            return Err("the statement is not one of OpenSSF Model Signing 1.0".to_owned());
        }
        let Serialization { method, hash_type } = predicate.serialization;
        if method != "files" || hash_type != "sha256" {
            return Err("the statement does not name SHA-256 digests of whole files".to_owned());
        }
        let (mut files, mut hash) = (BTreeMap::new(), Sha256::new());
        for Resource { name, algorithm, digest } in predicate.resources {
            let parsed = names::parse(name.as_bytes()).map_err(|refusal| refusal.to_string())?;
            let digest: Digest = digest.parse().map_err(|error| format!("{error}"))?;
            if algorithm != "sha256" || parsed != name || name.is_empty() {
                return Err(format!("the statement names `{parsed}` in an unknown way"));
            }
            hash.update(digest.bytes());
            if files.insert(name, digest).is_some() {
                return Err(format!("the statement names `{parsed}` twice"));
            }
        }
        let root = Digest::from(hash);
        match subject.as_slice() {
            [subject] if subject.digest.get("sha256") == Some(&root.to_string()) => {
                Ok(Statement { root, files })
            }
            _ => Err("the statement's subject is not the digest of its files".to_owned()),
        }
    }
}
