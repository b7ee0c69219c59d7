//! Who a process of the fleet is: a private folder with its key at the broker, its key for signatures,
//! the broker's authority, and whose signatures count.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};

use crate::types::{Bounded as _, RunEnd, SignedEnd, take_inline};
use skillhost_ledger::receipt::key::{PublicKey, SigningKey};
use skillhost_ledger::runs::RunStatus;
use skillhost_server::api::fleet::FleetError;

/// The files of an identity.
pub(crate) const IDENTITY: &str = "identity.json";
pub(crate) const SIGNING_KEY: &str = "signing-key.pem";
pub(crate) const AUTHORITY: &str = "authority.pem";
pub(crate) const SIGNERS: &str = "signers.json";
pub(crate) const TLS_CERTIFICATE: &str = "tls.pem";
pub(crate) const TLS_KEY: &str = "tls.key";

/// The file with the key of an identity in the account of a tenant.
pub(crate) fn seed_file(tenant: &str) -> String {
    format!("nats-{tenant}.seed")
}

/// The most bytes of a file of an identity.
const MOST: u64 = 1 << 20;
/// Separates these signatures from others by the same key.
const PURPOSE: &[u8] = b"skillhost run end v1\n";

/// What a process may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// An API server: accepts runs of all tenants.
    Api,
    /// A worker: executes runs of its tenants.
    Worker,
}

/// What the file of an identity says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The tenants that it serves.
    pub tenants: Vec<String>,
}

/// Whose signatures count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signer {
    /// Who signs.
    pub profile: Profile,
    /// The public key, in PEM.
    pub key: String,
    /// The certificate of connections between servers and workers, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
}

/// An identity that was read.
pub struct Identity {
    /// Who it is.
    pub(crate) name: String,
    /// What it may do.
    pub(crate) role: Role,
    folder: PathBuf,
    /// The key that signs.
    pub(crate) signing: SigningKey,
    /// The file with the broker's authority.
    pub(crate) authority: PathBuf,
    /// What `fleet init` changes when it adds tenants and workers; the error says why it cannot be
    /// read.
    trust: RwLock<Result<Arc<Trust>, String>>,
}

/// The part of an identity that changes while its process runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trust {
    /// The tenants that the identity serves.
    pub(crate) tenants: Vec<String>,
    signers: Vec<KnownSigner>,
}

/// Whose signatures and connections count.
#[derive(Debug, PartialEq, Eq)]
struct KnownSigner {
    profile: Profile,
    key: PublicKey,
    /// Missing in a fleet whose identities are of an earlier version.
    certificate: Option<CertificateDer<'static>>,
}

impl Identity {
    /// Reads the folder of an identity.
    ///
    /// # Errors
    /// What is missing or wrong. A folder that others can read is refused.
    pub fn read(folder: &Path) -> Result<Identity, String> {
        let profile: Profile = parsed(&folder.join(IDENTITY))?;
        let trust = Trust::read(folder, &profile.name, profile.role)?;
        let signing = SigningKey::from_pem(&private(&folder.join(SIGNING_KEY))?)
            .map_err(|error| format!("{}: {error}", folder.join(SIGNING_KEY).display()))?;
        Ok(Identity {
            name: profile.name,
            role: profile.role,
            folder: folder.to_owned(),
            signing,
            authority: folder.join(AUTHORITY),
            trust: RwLock::new(Ok(Arc::new(trust))),
        })
    }

    /// Reads again which tenants it serves and whose signatures count. As long as that fails, it
    /// serves none, and no signature counts: what was taken away must not stay because a file is
    /// broken.
    pub(crate) fn refresh(&self) {
        let read = Trust::read(&self.folder, &self.name, self.role).map(Arc::new);
        let mut trust = self.trust.write().unwrap_or_else(PoisonError::into_inner);
        if *trust == read {
            return;
        }
        match &read {
            Ok(trust) => tracing::info!(tenants = ?trust.tenants, "read the identity again"),
            Err(error) => tracing::error!(error, "the identity cannot be used"),
        }
        *trust = read;
    }

    /// Returns whom it serves and believes now.
    pub(crate) fn trust(&self) -> Result<Arc<Trust>, FleetError> {
        let trust = self.trust.read().unwrap_or_else(PoisonError::into_inner).clone();
        trust.map_err(|why| FleetError::Unavailable(format!("the identity cannot be used: {why}")))
    }

    /// Returns the key at the broker for the account of a tenant that the identity serves.
    pub(crate) fn seed(&self, tenant: &str) -> Result<String, FleetError> {
        let trust = self.trust()?;
        if !trust.tenants.iter().any(|served| served == tenant) {
            let why = format!(
                "the identity `{}` does not serve the tenant `{tenant}`: call `skillhost fleet init` with it",
                self.name
            );
            return Err(FleetError::Unavailable(why));
        }
        let seed = private(&self.folder.join(seed_file(tenant)));
        Ok(seed.map_err(FleetError::Unavailable)?.trim().to_owned())
    }

    /// Returns its own certificate, and the key of it.
    pub(crate) fn tls(&self) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), String> {
        let (certificate, key) = (self.folder.join(TLS_CERTIFICATE), self.folder.join(TLS_KEY));
        let wrong = |path: &Path, error: &dyn std::fmt::Display| {
            let path = path.display();
            format!("{path}: {error}; `skillhost fleet init` creates it when it is called again")
        };
        let text = private(&certificate).map_err(|error| wrong(&certificate, &error))?;
        let own = CertificateDer::from_pem_slice(text.as_bytes())
            .map_err(|error| wrong(&certificate, &error))?;
        let text = private(&key).map_err(|error| wrong(&key, &error))?;
        let key =
            PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| wrong(&key, &error))?;
        Ok((own, key))
    }

    /// Signs the end of a run. The signed text contains the digests of what the run left. The bytes
    /// are stored with the text, but are not part of it.
    pub(crate) fn sign(&self, end: &RunEnd) -> Result<SignedEnd, String> {
        let mut named = end.clone();
        let inline = take_inline(&mut named.left);
        let payload = String::from_utf8(named.write()?).map_err(|error| error.to_string())?;
        let signature = BASE64.encode(self.signing.sign(&signed(&payload)));
        Ok(SignedEnd { payload, key: self.signing.public().id(), signature, inline })
    }

    /// Returns the end of a run if someone has signed it who may: a worker of the tenant, or a server
    /// for a run that never started. Adds the bytes that are stored with the text, unless they are lost.
    pub(crate) fn verify(
        &self,
        end: &SignedEnd,
        tenant: &str,
        run: &str,
    ) -> Result<RunEnd, FleetError> {
        let wrong = |why: &str| FleetError::Untrusted(format!("the end of the run {run}: {why}"));
        let mut trust = self.trust()?;
        if trust.signer(&end.key, tenant).is_none() {
            // It may have been added a moment ago.
            self.refresh();
            trust = self.trust()?;
        }
        let KnownSigner { profile, key, .. } =
            trust.key(&end.key).ok_or_else(|| wrong("an unknown key has signed it"))?;
        let signature = BASE64.decode(&end.signature).unwrap_or_default();
        if !key.verifies(&signed(&end.payload), &signature) {
            return Err(wrong("the signature does not match"));
        }
        let mut read = RunEnd::read(end.payload.as_bytes()).map_err(|error| wrong(&error))?;
        if read.tenant != tenant || read.run != run || read.worker != *profile.name {
            return Err(wrong("it is of another run"));
        }
        let never_started = read.attempt == 0 && read.status == RunStatus::Cancelled;
        let may_sign = match profile.role {
            Role::Worker => profile.serves(tenant),
            Role::Api => never_started,
        };
        if !may_sign {
            return Err(wrong(&format!("`{}` may not end it", profile.name)));
        }
        end.put_inline(&mut read.left).map_err(|error| wrong(&error))?;
        Ok(read)
    }
}

impl Profile {
    fn serves(&self, tenant: &str) -> bool {
        self.tenants.iter().any(|served| served == tenant)
    }
}

impl Trust {
    /// Reads the files of an identity that change, which must stay the same identity.
    fn read(folder: &Path, name: &str, role: Role) -> Result<Trust, String> {
        let profile: Profile = parsed(&folder.join(IDENTITY))?;
        let signers: Vec<Signer> = parsed(&folder.join(SIGNERS))?;
        if profile.name != name || profile.role != role {
            return Err(format!("{}: it is now `{}`", folder.display(), profile.name));
        }
        let known = |signer: Signer| {
            let Signer { profile, key, certificate } = signer;
            let key =
                PublicKey::from_pem(&key).map_err(|error| format!("{}: {error}", profile.name))?;
            let certificate = certificate
                .map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()))
                .transpose()
                .map_err(|error| format!("{}: {error}", profile.name))?;
            Ok::<_, String>(KnownSigner { profile, key, certificate })
        };
        let signers = signers.into_iter().map(known).collect::<Result<_, _>>()?;
        Ok(Trust { tenants: profile.tenants, signers })
    }

    /// Returns who has a key, and the key.
    fn key(&self, id: &str) -> Option<&KnownSigner> {
        self.signers.iter().find(|signer| signer.key.id() == id)
    }

    /// Returns who has a key, if that is a server or serves the tenant.
    fn signer(&self, id: &str, tenant: &str) -> Option<&Profile> {
        let profile = &self.key(id)?.profile;
        Some(profile).filter(|profile| profile.role == Role::Api || profile.serves(tenant))
    }

    /// Returns the certificate of a worker that serves a tenant.
    pub(crate) fn worker(&self, name: &str, tenant: &str) -> Option<&CertificateDer<'static>> {
        let is_meant = |signer: &&KnownSigner| {
            let profile = &signer.profile;
            profile.role == Role::Worker && profile.name == name && profile.serves(tenant)
        };
        self.signers.iter().find(is_meant)?.certificate.as_ref()
    }

    /// Returns the certificates of the servers that serve a tenant; of all servers if none is named.
    pub(crate) fn servers(
        &self,
        tenant: Option<&str>,
    ) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.signers.iter().filter_map(move |signer| {
            let profile = &signer.profile;
            let serves = tenant.is_none_or(|tenant| profile.serves(tenant));
            signer.certificate.as_ref().filter(|_| profile.role == Role::Api && serves)
        })
    }
}

fn signed(payload: &str) -> Vec<u8> {
    [PURPOSE, payload.as_bytes()].concat()
}

fn parsed<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, String> {
    serde_json::from_str(&private(path)?).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads a file that only its owner may read or write. The administrator may let a group read a file of
/// its own, as Kubernetes mounts secrets.
fn private(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    #[expect(clippy::disallowed_methods, reason = "the operator named the folder")]
    let file = std::fs::File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    let by_root = found.uid() == 0 && !rustix::process::geteuid().is_root();
    let others = if by_root { 0o037 } else { 0o077 };
    if found.mode() & others != 0 {
        let path = path.display();
        return Err(format!("others may read {path}: run `chmod 600 {path}`"));
    }
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}
