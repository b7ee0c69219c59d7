//! Whose signatures count: keys, certificate authorities, SSH keys, and the root of keyless signing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use sigstore_verify::crypto::VerificationKey;
use sigstore_verify::trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};
use sigstore_verify::types::DerPublicKey;

use super::{NoKeys, TrustedKeys, provider};
use crate::digest::Digest;

/// Whose signatures count.
#[derive(Debug)]
pub struct Trust {
    /// The keys of DSSE envelopes.
    pub(super) envelopes: Box<dyn TrustedKeys>,
    pub(super) keys: Vec<TrustedKey>,
    pub(super) authorities: Vec<Authority>,
    pub(super) ssh: Vec<ssh_key::PublicKey>,
    root: Option<String>,
    now: Option<SystemTime>,
}

/// A key whose signatures count.
#[derive(Debug, Clone)]
pub(super) struct TrustedKey {
    pub(super) id: String,
    pub(super) key: DerPublicKey,
}

impl TrustedKey {
    /// Returns the key as PEM.
    pub(super) fn pem(&self) -> String {
        super::signing::pem("PUBLIC KEY", self.key.as_bytes())
    }
}

/// A certificate authority.
#[derive(Debug, Clone)]
pub(super) struct Authority {
    /// The digest of its certificate.
    pub(super) id: String,
    pub(super) certificate: CertificateDer<'static>,
}

/// What a file of public key material contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Material {
    /// A public key, with its id: `sha256:` and the digest of its SPKI form.
    Key(String),
    /// A certificate of an authority, with its id: `sha256:` and the digest of the certificate.
    Authority(String),
    /// An SSH key, with its fingerprint.
    Ssh(String),
    /// The trusted root of an instance of sigstore.
    Root,
}

/// The clock of another machine may be off by this much.
const SKEW: Duration = Duration::from_secs(300);

impl Default for Trust {
    fn default() -> Trust {
        Trust::new(NoKeys)
    }
}

impl Trust {
    /// Trusts the keys of DSSE envelopes, and the public-good instance of sigstore as it was when
    /// this version was built. Keyless signers count only where a policy names them.
    pub fn new(envelopes: impl TrustedKeys + 'static) -> Trust {
        provider::install();
        Trust {
            envelopes: Box::new(envelopes),
            keys: Vec::new(),
            authorities: Vec::new(),
            ssh: Vec::new(),
            root: None,
            now: None,
        }
    }

    /// Verifies certificates as of a time, instead of now.
    #[must_use]
    pub fn at(self, now: SystemTime) -> Trust {
        Trust { now: Some(now), ..self }
    }

    /// Adds what a file contains: a public key or a certificate in PEM, an SSH key, or the trusted
    /// root of another instance of sigstore as JSON, which replaces the built-in one.
    ///
    /// # Errors
    /// The text has another format.
    pub fn add(&mut self, text: &str) -> Result<Material, String> {
        let text = text.trim();
        if text.starts_with('{') {
            TrustedRoot::from_json(text)
                .map_err(|error| format!("not a trusted root of sigstore: {error}"))?;
            self.root = Some(text.to_owned());
            return Ok(Material::Root);
        }
        if text.starts_with("-----BEGIN CERTIFICATE-----") {
            let certificates = CertificateDer::pem_slice_iter(text.as_bytes())
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| format!("not a certificate in PEM: {error}"))?;
            let Ok([certificate]) = <[CertificateDer<'_>; 1]>::try_from(certificates) else {
                return Err("the file has several certificates: trust each in its own file".into());
            };
            webpki::anchor_from_trusted_cert(&certificate)
                .map_err(|error| format!("the certificate cannot be an authority: {error}"))?;
            let id = format!("sha256:{}", Digest::of(&certificate));
            self.authorities.push(Authority { id: id.clone(), certificate });
            return Ok(Material::Authority(id));
        }
        if text.starts_with("-----BEGIN PUBLIC KEY-----") {
            let key = public_key(text)?;
            let id = key.id.clone();
            self.keys.push(key);
            return Ok(Material::Key(id));
        }
        let key = ssh_key::PublicKey::from_openssh(text).map_err(|_| {
            "neither a public key or certificate in PEM, nor an SSH key, nor a trusted root"
                .to_owned()
        })?;
        let id = key.fingerprint(ssh_key::HashAlg::Sha256).to_string();
        self.ssh.push(key);
        Ok(Material::Ssh(id))
    }

    /// Returns the root of keyless signing.
    pub(super) fn root(&self) -> Result<TrustedRoot, String> {
        let text = self.root.as_deref().unwrap_or(SIGSTORE_PRODUCTION_TRUSTED_ROOT);
        TrustedRoot::from_json(text).map_err(|error| format!("the trusted root is broken: {error}"))
    }

    /// Returns the time since 1970.
    pub(super) fn now(&self) -> Duration {
        let now = self.now.unwrap_or_else(SystemTime::now);
        now.duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// Checks whether a time, in seconds since 1970, is still to come.
    pub(super) fn is_future(&self, seconds: i64) -> bool {
        u64::try_from(seconds).is_ok_and(|seconds| seconds > (self.now() + SKEW).as_secs())
    }
}

/// Parses a public key in PEM.
pub(super) fn public_key(text: &str) -> Result<TrustedKey, String> {
    let der = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes())
        .map_err(|error| format!("not a public key in PEM: {error}"))?;
    let key = DerPublicKey::from(der.as_ref());
    VerificationKey::from_spki(&key)
        .map_err(|_| "the key is not an Ed25519, P-256, P-384 or RSA key".to_owned())?;
    Ok(TrustedKey { id: format!("sha256:{}", Digest::of(der.as_ref())), key })
}
