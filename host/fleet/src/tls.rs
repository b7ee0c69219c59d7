//! TLS between API servers and workers. Each identity has a certificate that no authority has signed:
//! each side believes exactly the certificates that its identity lists, and for nothing else.

use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, version};
use sha2::{Digest as _, Sha256};

use crate::broker::unavailable;
use crate::identity::{Identity, Trust};
use skillhost_server::api::fleet::FleetError;
use skillhost_skill::runtime::hex;

/// Creates a certificate for an identity, and its key, in PEM.
pub(crate) fn certificate(identity: &str) -> Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::new(vec![host_name(identity)])?;
    params.distinguished_name.push(DnType::CommonName, format!("{identity} of a skillhost fleet"));
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// The name in the certificate of an identity. Whatever the identity is called, this is a valid name.
fn host_name(identity: &str) -> String {
    format!("{}.skillhost.internal", hex(&Sha256::digest(identity.as_bytes())[..16]))
}

/// Returns how a server connects to a worker, and the name that the worker must have.
pub(crate) fn connector(
    identity: &Identity,
    worker: &str,
    certificate: &CertificateDer<'static>,
) -> Result<(Arc<ClientConfig>, ServerName<'static>), FleetError> {
    let (own, key) = identity.tls().map_err(FleetError::Unavailable)?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| unavailable(&error))?
        .with_root_certificates(only([certificate])?)
        .with_client_auth_cert(vec![own], key)
        .map_err(|error| unavailable(&error))?;
    let name = ServerName::try_from(host_name(worker)).map_err(|error| unavailable(&error))?;
    Ok((Arc::new(config), name))
}

/// Returns how a worker accepts servers. Which tenants a server may ask for is checked with each
/// request.
pub(crate) fn acceptor(
    identity: &Identity,
    trust: &Trust,
) -> Result<Arc<ServerConfig>, FleetError> {
    let (own, key) = identity.tls().map_err(FleetError::Unavailable)?;
    let roots = Arc::new(only(trust.servers(None))?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|error| unavailable(&error))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| unavailable(&error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![own], key)
        .map_err(|error| unavailable(&error))?;
    // A connection that continues an earlier one would not be verified again.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn only<'a>(
    certificates: impl IntoIterator<Item = &'a CertificateDer<'static>>,
) -> Result<RootCertStore, FleetError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.clone()).map_err(|error| unavailable(&error))?;
    }
    Ok(roots)
}
