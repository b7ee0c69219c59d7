//! Signs the files of a skill as OpenSSF Model Signing does, with a P-256 key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use sigstore_verify::types::DerCertificate;

use super::{covered, oms};
use crate::digest::{Digest, Listing};

/// The type of a bundle.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The start of a P-256 key in SPKI form; its point follows.
const SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A private P-256 key, and the certificates for it. `Debug` does not show the key.
pub struct SkillKey {
    key: EcdsaKeyPair,
    pem: String,
    /// The certificate of the key and those of the authorities between it and the root.
    chain: Vec<CertificateDer<'static>>,
}

impl std::fmt::Debug for SkillKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SkillKey({})", self.id())
    }
}

impl SkillKey {
    /// Creates a new key.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn generate() -> Result<SkillKey, String> {
        let der =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new())
                .map_err(|_| "cannot create a key".to_owned())?;
        SkillKey::from_pem(&pem("PRIVATE KEY", der.as_ref()))
    }

    /// Reads a PEM text, `-----BEGIN PRIVATE KEY-----`.
    ///
    /// # Errors
    /// The text is not a private P-256 key. The error does not repeat it.
    pub fn from_pem(text: &str) -> Result<SkillKey, String> {
        let fail =
            || "not a P-256 private key in PKCS#8 PEM (`-----BEGIN PRIVATE KEY-----`)".to_owned();
        let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|_| fail())?;
        let key = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_ASN1_SIGNING,
            der.secret_pkcs8_der(),
            &SystemRandom::new(),
        )
        .map_err(|_| fail())?;
        Ok(SkillKey { key, pem: text.to_owned(), chain: Vec::new() })
    }

    /// Adds the certificate of the key, and those of authorities between it and the root, in PEM.
    ///
    /// # Errors
    /// The text has no certificate, or the first certificate is for another key.
    pub fn with_chain(self, text: &str) -> Result<SkillKey, String> {
        let chain = CertificateDer::pem_slice_iter(text.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("not certificates in PEM: {error}"))?;
        let leaf = chain.first().ok_or("there is no certificate in PEM")?;
        let info =
            sigstore_verify::crypto::parse_certificate_info(&DerCertificate::from(leaf.as_ref()))
                .map_err(|error| format!("the certificate is invalid: {error}"))?;
        match info.public_key.as_bytes() == self.spki() {
            true => Ok(SkillKey { chain, ..self }),
            false => Err("the first certificate is for another key".to_owned()),
        }
    }

    /// Returns the private key as PEM.
    pub fn private_pem(&self) -> &str {
        &self.pem
    }

    /// Returns the public key as PEM.
    pub fn public_pem(&self) -> String {
        pem("PUBLIC KEY", &self.spki())
    }

    /// Returns the key's id: the digest of its SPKI form.
    pub fn id(&self) -> String {
        format!("sha256:{}", Digest::of(&self.spki()))
    }

    /// Signs the files of a skill. `ignored`: files and folders beside them that do not belong to
    /// the skill.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn sign(&self, name: &str, files: &Listing, ignored: &[String]) -> Result<String, String> {
        let payload = statement(name, files, ignored).to_string();
        let authenticated =
            format!("DSSEv1 {} {} {} {payload}", oms::PAYLOAD.len(), oms::PAYLOAD, payload.len());
        let signature = self
            .key
            .sign(&SystemRandom::new(), authenticated.as_bytes())
            .map_err(|_| "cannot sign".to_owned())?;
        let certificates: Vec<Value> =
            self.chain.iter().map(|one| json!({ "rawBytes": BASE64.encode(one) })).collect();
        // Verifiers find the key by the digest of its PEM text.
        let hint = Digest::of(self.public_pem().as_bytes());
        let material = match certificates.is_empty() {
            true => json!({ "publicKey": { "hint": hint }, "tlogEntries": [] }),
            false => json!({
                "x509CertificateChain": { "certificates": certificates },
                "tlogEntries": [],
            }),
        };
        let bundle = json!({
            "mediaType": BUNDLE,
            "verificationMaterial": material,
            "dsseEnvelope": {
                "payload": BASE64.encode(&payload),
                "payloadType": oms::PAYLOAD,
                "signatures": [{ "sig": BASE64.encode(signature.as_ref()), "keyid": "" }],
            },
        });
        Ok(bundle.to_string() + "\n")
    }

    fn spki(&self) -> Vec<u8> {
        [SPKI.as_slice(), self.key.public_key().as_ref()].concat()
    }
}

fn statement(name: &str, files: &Listing, ignored: &[String]) -> Value {
    let mut root = Sha256::new();
    let mut resources = Vec::new();
    for (path, digest) in covered(files) {
        root.update(digest.bytes());
        resources.push(json!({ "name": path, "digest": digest, "algorithm": "sha256" }));
    }
    let signatures = super::UNCOVERED.iter().map(|file| (*file).to_owned());
    let mut ignored: Vec<String> = ignored.iter().cloned().chain(signatures).collect();
    ignored.sort_unstable();
    json!({
        "_type": oms::STATEMENT,
        "subject": [{ "name": name, "digest": { "sha256": Digest::from(root) } }],
        "predicateType": oms::PREDICATE,
        "predicate": {
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": false,
                "ignore_paths": ignored,
            },
            "resources": resources,
        },
    })
}

pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
