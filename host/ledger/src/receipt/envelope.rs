//! Receipts on disk: the canonical text or, if signed, a DSSE envelope around an in-toto statement
//! about the outputs of the run. Other statements, such as the provenance of a release, have the
//! same envelope ([`sign_statement`], [`SignedStatement`]).
//!
//! DSSE 1.0: <https://github.com/secure-systems-lab/dsse>. Statement v1:
//! <https://in-toto.io/Statement/v1>.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::key::{PublicKey, SigningKey};
use super::{Receipt, VERSION, canonical};

/// The predicate type of a statement: a receipt of this version.
pub const PREDICATE: &str = "urn:skillhost:receipt:v1";

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PAYLOAD: &str = "application/vnd.in-toto+json";

/// A receipt that was read, and its signatures.
#[derive(Debug, Clone)]
pub struct Document {
    /// The receipt.
    pub receipt: Value,
    signed: Option<Envelope>,
}

/// The field names are DSSE's.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvelopeSignature {
    keyid: String,
    sig: String,
}

/// Why a receipt is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// It has no signature.
    #[error("the receipt is not signed")]
    Unsigned,
    /// It has been changed, or that key did not sign it.
    #[error("the signature by {0} does not match the receipt")]
    Mismatch(String),
    /// The key that signed it is not trusted.
    #[error("the receipt is signed by {0}, which is not a trusted key")]
    Untrusted(String),
}

/// Encodes a receipt as canonical text.
pub fn encode(receipt: &Receipt) -> Vec<u8> {
    canonical::text(receipt)
}

/// Encodes a receipt as a signed statement.
pub fn encode_signed(receipt: &Receipt, key: &SigningKey) -> Vec<u8> {
    envelope(canonical::text(&statement(&canonical::value(receipt))), key)
}

/// Signs an in-toto statement.
///
/// # Errors
/// The text is not a statement of version 1.
pub fn sign_statement(text: &[u8], key: &SigningKey) -> Result<Vec<u8>, String> {
    let value: Value =
        serde_json::from_slice(text).map_err(|error| format!("not valid JSON: {error}"))?;
    subjects(&value)?;
    Ok(envelope(canonical::text(&value), key))
}

fn envelope(payload: Vec<u8>, key: &SigningKey) -> Vec<u8> {
    let sig = BASE64.encode(key.sign(&authenticated(PAYLOAD, &payload)));
    let signatures = vec![EnvelopeSignature { keyid: key.public().id(), sig }];
    canonical::text(&Envelope {
        payload: BASE64.encode(payload),
        payload_type: PAYLOAD.into(),
        signatures,
    })
}

/// Returns what a statement is about: the SHA-256 digests of its subjects in hex digits, by name.
fn subjects(statement: &Value) -> Result<BTreeMap<String, String>, String> {
    if statement["_type"] != STATEMENT || !statement["predicateType"].is_string() {
        return Err(format!("not an in-toto statement: `_type` must be {STATEMENT}"));
    }
    let subjects = statement["subject"].as_array().ok_or("`subject` must be a list")?;
    let mut found = BTreeMap::new();
    for subject in subjects {
        let (name, digest) = (subject["name"].as_str(), subject["digest"]["sha256"].as_str());
        let (Some(name), Some(digest)) = (name, digest) else {
            return Err("each subject needs `name` and `digest.sha256`".into());
        };
        if found.insert(name.to_owned(), digest.to_owned()).is_some() {
            return Err(format!("two subjects are named {name}"));
        }
    }
    Ok(found)
}

/// Creates a statement about the outputs of the run and the files that it changed.
fn statement(receipt: &Value) -> Value {
    let hex = |digest: &Value| {
        digest
            .as_str()
            .and_then(|digest| digest.strip_prefix("sha256:"))
            .map(|hex| json!({ "sha256": hex }))
    };
    let result = &receipt["result"];
    let outputs = ["stdout", "stderr"].map(|name| (name.to_owned(), &result[name]["digest"]));
    let files = result["files"]["changed"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(path, digest)| (path.clone(), digest));
    let subject = outputs
        .into_iter()
        .chain(files)
        .filter_map(|(name, digest)| Some(json!({ "name": name, "digest": hex(digest)? })));
    json!({ "_type": STATEMENT, "subject": subject.collect::<Vec<_>>(), "predicateType": PREDICATE, "predicate": receipt })
}

/// Encodes what DSSE signs (the "pre-authentication encoding"): an unambiguous combination of type
/// and payload.
fn authenticated(kind: &str, payload: &[u8]) -> Vec<u8> {
    [format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).as_bytes(), payload].concat()
}

/// A signed statement that was read.
#[derive(Debug, Clone)]
pub struct SignedStatement {
    /// What the predicate is, such as `https://slsa.dev/provenance/v1`.
    pub predicate_type: String,
    /// What it is about: SHA-256 digests in hex digits, by name.
    pub subjects: BTreeMap<String, String>,
    signed: Envelope,
}

impl SignedStatement {
    /// Reads an envelope. Use [`signer`](Self::signer) to check its signature.
    ///
    /// # Errors
    /// The text is not an envelope with a statement.
    pub fn read(bytes: &[u8]) -> Result<SignedStatement, String> {
        let signed: Envelope = serde_json::from_slice(bytes)
            .map_err(|error| format!("not a DSSE envelope: {error}"))?;
        let statement = signed.statement()?;
        let predicate_type = statement["predicateType"].as_str().unwrap_or_default().to_owned();
        Ok(SignedStatement { predicate_type, subjects: subjects(&statement)?, signed })
    }

    /// Returns which trusted key has signed the statement.
    ///
    /// # Errors
    /// None has.
    pub fn signer(&self, trusted: &[PublicKey]) -> Result<String, SignatureError> {
        self.signed.signer(trusted)
    }
}

impl Envelope {
    /// Decodes the payload.
    fn statement(&self) -> Result<Value, String> {
        let payload = BASE64
            .decode(&self.payload)
            .map_err(|error| format!("the payload of its envelope is not valid base64: {error}"))?;
        let found: Value = serde_json::from_slice(&payload)
            .map_err(|error| format!("the payload of its envelope is not valid JSON: {error}"))?;
        only_canonical(&payload, &found)?;
        match self.payload_type == PAYLOAD {
            true => Ok(found),
            false => Err(format!("the type of its payload is {}", self.payload_type)),
        }
    }

    fn signer(&self, trusted: &[PublicKey]) -> Result<String, SignatureError> {
        let Envelope { payload, signatures, .. } = self;
        let text = authenticated(PAYLOAD, &BASE64.decode(payload).unwrap_or_default());
        let mut stranger = None;
        for EnvelopeSignature { keyid, sig } in signatures {
            match trusted.iter().find(|key| key.id() == *keyid) {
                None => stranger = Some(keyid.clone()),
                Some(key) if key.verifies(&text, &BASE64.decode(sig).unwrap_or_default()) => {
                    return Ok(keyid.clone());
                }
                Some(_) => return Err(SignatureError::Mismatch(keyid.clone())),
            }
        }
        Err(stranger.map_or(SignatureError::Unsigned, SignatureError::Untrusted))
    }
}

impl Document {
    /// Reads a receipt, signed or not. Use [`Document::signer`] to check its signature.
    ///
    /// # Errors
    /// The text is not a receipt, or not in canonical form.
    pub fn read(bytes: &[u8]) -> Result<Document, String> {
        let value: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("not valid JSON: {error}"))?;
        if value.get("payload").is_none() {
            only_canonical(bytes, &value)?;
            return Ok(Document { receipt: known(value)?, signed: None });
        }
        let envelope: Envelope = serde_json::from_value(value)
            .map_err(|error| format!("not a DSSE envelope: {error}"))?;
        let found = envelope.statement()?;
        let receipt = known(found["predicate"].clone())?;
        if statement(&receipt) != found {
            return Err("the statement in its envelope does not match the receipt".into());
        }
        Ok(Document { receipt, signed: Some(envelope) })
    }

    /// Returns which trusted key has signed the receipt.
    ///
    /// # Errors
    /// None has.
    pub fn signer(&self, trusted: &[PublicKey]) -> Result<String, SignatureError> {
        self.signed.as_ref().map_or(Err(SignatureError::Unsigned), |signed| signed.signer(trusted))
    }
}

/// If one value had two texts, for instance with a duplicate key, two readers could read different
/// receipts.
fn only_canonical(bytes: &[u8], value: &Value) -> Result<(), String> {
    let same = canonical::text(value) == bytes.trim_ascii_end();
    if same {
        Ok(())
    } else {
        Err("not in canonical form (RFC 8785): it was edited or reformatted".into())
    }
}

fn known(receipt: Value) -> Result<Value, String> {
    match receipt["version"].as_u64() {
        Some(version) if version == u64::from(VERSION) => Ok(receipt),
        Some(version) => Err(format!(
            "its version is {version}, and this version of skillhost supports version {VERSION}"
        )),
        None => Err("`version` is missing".into()),
    }
}
