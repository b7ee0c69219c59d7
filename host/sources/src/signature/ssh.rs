//! SSH signatures of Git's commits and tags.
//!
//! A commit names its files by digests, so its signature covers them. The host compares them when it
//! fetches the commit, and keeps the signed object as evidence.

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};
use skillhost_policy::require::Signer;
use ssh_key::public::KeyData;
use ssh_key::{Algorithm, EcdsaCurve, HashAlg, LineEnding, SshSig};

use super::trust::Trust;

const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
/// The namespace of Git's signatures: one for another purpose does not count.
const NAMESPACE: &str = "git";

/// The objects that were fetched with the files of a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedObjects {
    /// The commit.
    pub commit: Vec<u8>,
    /// The annotated tag that led to it.
    #[serde(default)]
    pub tag: Option<Vec<u8>>,
}

/// Returns who signed the commit or its tag, and why other signatures do not count.
pub(super) fn verify(objects: &SignedObjects, trust: &Trust) -> (Vec<Signer>, Vec<String>) {
    let commit = of_commit(&objects.commit);
    let tag = objects.tag.as_deref().and_then(of_tag);
    let (mut signers, mut refused) = (Vec::new(), Vec::new());
    for (what, signed) in [("the commit", commit), ("the tag", tag)] {
        let Some(Signed { content, signature }) = signed else { continue };
        match signer(&content, &signature, trust) {
            Ok(signer) => signers.push(signer),
            Err(why) => refused.push(format!("{what}: {why}")),
        }
    }
    signers.dedup();
    (signers, refused)
}

struct Signed {
    content: Vec<u8>,
    /// In PEM.
    signature: String,
}

/// Separates the signature, a header field of a commit, from what it signs.
fn of_commit(object: &[u8]) -> Option<Signed> {
    let (mut content, mut signature) = (Vec::new(), String::new());
    let (mut is_header, mut is_signature, mut is_other) = (true, false, false);
    for line in object.split_inclusive(|byte| *byte == b'\n') {
        if !is_header {
            content.extend(line);
            continue;
        }
        match line.strip_prefix(b" ") {
            Some(rest) if is_signature => signature += str::from_utf8(rest).ok()?,
            Some(_) if is_other => {}
            Some(_) => content.extend(line),
            None => {
                (is_signature, is_other) = (false, line.starts_with(b"gpgsig-sha256 "));
                is_header = line != b"\n";
                match line.strip_prefix(b"gpgsig ") {
                    // The second of two would hide the first.
                    Some(_) if !signature.is_empty() => return None,
                    Some(first) => {
                        is_signature = true;
                        signature += str::from_utf8(first).ok()?;
                    }
                    None if is_other => {}
                    None => content.extend(line),
                }
            }
        }
    }
    signature.starts_with(BEGIN).then_some(Signed { content, signature })
}

/// Separates the signature, the end of a tag, from what it signs.
fn of_tag(object: &[u8]) -> Option<Signed> {
    let text = str::from_utf8(object).ok()?;
    let at = text.rfind(BEGIN).filter(|at| text[..*at].ends_with('\n'))?;
    Some(Signed { content: object[..at].to_vec(), signature: text[at..].to_owned() })
}

/// Returns the trusted key that signed some content.
fn signer(content: &[u8], pem: &str, trust: &Trust) -> Result<Signer, String> {
    let signature = SshSig::from_pem(pem.trim_end())
        .map_err(|error| format!("the signature is broken: {error}"))?;
    // The parser accepts other encodings of the same signature.
    let is_own_form = |again: String| characters(&again).eq(characters(pem));
    if !signature.to_pem(LineEnding::LF).is_ok_and(is_own_form) {
        return Err(
            "the signature is broken: it is encoded in another way than OpenSSH does".to_owned()
        );
    }
    if signature.namespace() != NAMESPACE || !signature.reserved().is_empty() {
        return Err("the signature is for another purpose".to_owned());
    }
    let id = signature.public_key().fingerprint(HashAlg::Sha256).to_string();
    let Some(key) = trust.ssh.iter().find(|key| key.key_data() == signature.public_key()) else {
        return Err(format!("it is signed by {id}, which is not a trusted key"));
    };
    let signed = SshSig::signed_data(NAMESPACE, signature.hash_alg(), content)
        .map_err(|error| error.to_string())?;
    match verifies(key.key_data(), &signed, &signature) {
        Some(true) => Ok(Signer::Key(id)),
        Some(false) => Err(format!("the signature by {id} does not match")),
        None => Err(format!("the kind of the key {id} is not supported")),
    }
}

/// Returns the characters of a text without white space.
fn characters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|char| !char.is_ascii_whitespace())
}

/// Verifies a signature; `None` if the kind of the key is not supported.
fn verifies(key: &KeyData, signed: &[u8], signature: &SshSig) -> Option<bool> {
    let (algorithm, bytes) = (signature.signature().algorithm(), signature.signature_bytes());
    Some(match (key, algorithm) {
        (KeyData::Ed25519(key), Algorithm::Ed25519) => {
            UnparsedPublicKey::new(&ED25519, &key.0).verify(signed, bytes).is_ok()
        }
        (KeyData::Ecdsa(key), Algorithm::Ecdsa { curve }) if key.curve() == curve => {
            let (algorithm, size) = match curve {
                EcdsaCurve::NistP256 => (&ECDSA_P256_SHA256_FIXED, 32),
                EcdsaCurve::NistP384 => (&ECDSA_P384_SHA384_FIXED, 48),
                EcdsaCurve::NistP521 => return None,
            };
            let key = UnparsedPublicKey::new(algorithm, key.as_sec1_bytes());
            fixed(bytes, size).is_some_and(|bytes| key.verify(signed, &bytes).is_ok())
        }
        (KeyData::Rsa(key), Algorithm::Rsa { hash: Some(hash) }) => {
            let algorithm = match hash {
                HashAlg::Sha256 => &RSA_PKCS1_2048_8192_SHA256,
                HashAlg::Sha512 => &RSA_PKCS1_2048_8192_SHA512,
                _ => return None,
            };
            let key = RsaPublicKeyComponents {
                n: key.n.as_positive_bytes()?,
                e: key.e.as_positive_bytes()?,
            };
            key.verify(algorithm, signed, bytes).is_ok()
        }
        _ => return None,
    })
}

/// Converts SSH's two integers of a signature to two numbers of fixed size.
fn fixed(bytes: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut rest = bytes;
    let mut out = Vec::new();
    for _ in 0..2 {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let number = after.get(..length)?;
        rest = &after[length..];
        let number = number.strip_prefix(&[0]).unwrap_or(number);
        out.extend(std::iter::repeat_n(0, size.checked_sub(number.len())?));
        out.extend(number);
    }
    rest.is_empty().then_some(out)
}
