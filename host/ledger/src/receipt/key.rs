//! Keys that sign receipts: Ed25519, as PKCS#8 and SPKI in PEM, which `openssl pkey` can read.

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _,
    KeypairBytes,
};
use ed25519_dalek::{Signature, Signer as _};

use skillhost_skill::runtime;

/// A private key. `Debug` does not show it.
pub struct SigningKey(ed25519_dalek::SigningKey);

/// A public key, which verifies signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(ed25519_dalek::VerifyingKey);

impl SigningKey {
    /// Creates a new key, from the system's randomness.
    pub fn generate() -> SigningKey {
        SigningKey(ed25519_dalek::SigningKey::from_bytes(&rand::random()))
    }

    /// Reads a PEM text, `-----BEGIN PRIVATE KEY-----`.
    ///
    /// # Errors
    /// The text is not a private Ed25519 key. The error does not repeat it.
    pub fn from_pem(text: &str) -> Result<SigningKey, String> {
        let key = ed25519_dalek::SigningKey::from_pkcs8_pem(text.trim());
        key.map(SigningKey)
            .map_err(|_| "not an Ed25519 private key in PEM (`-----BEGIN PRIVATE KEY-----`)".into())
    }

    /// Returns the key as PEM.
    pub fn pem(&self) -> String {
        // Without the public key, since every tool can read that version of PKCS#8.
        let bytes = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        bytes.to_pkcs8_pem(LineEnding::LF).map(|text| text.to_string()).unwrap_or_default()
    }

    /// Returns the matching public key.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs some bytes.
    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.0.sign(bytes).to_bytes()
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.public().id())
    }
}

impl PublicKey {
    /// Reads a PEM text, `-----BEGIN PUBLIC KEY-----`.
    ///
    /// # Errors
    /// The text is not a public Ed25519 key.
    pub fn from_pem(text: &str) -> Result<PublicKey, String> {
        let key = ed25519_dalek::VerifyingKey::from_public_key_pem(text.trim());
        key.map(PublicKey)
            .map_err(|_| "not an Ed25519 public key in PEM (`-----BEGIN PUBLIC KEY-----`)".into())
    }

    /// Returns the key as PEM.
    pub fn pem(&self) -> String {
        self.0.to_public_key_pem(LineEnding::LF).unwrap_or_default()
    }

    /// Returns the key's id: the SHA-256 of its SPKI form (`openssl pkey -pubin -outform DER |
    /// sha256sum`).
    pub fn id(&self) -> String {
        self.0.to_public_key_der().map(|der| runtime::digest(der.as_bytes())).unwrap_or_default()
    }

    /// Verifies a signature. Strict: refuses keys and signatures of small order.
    pub fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature)
            .is_ok_and(|signature| self.0.verify_strict(bytes, &signature).is_ok())
    }
}
