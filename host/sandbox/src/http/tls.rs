//! Whom HTTPS trusts: Mozilla's roots, what the embedder adds, and what the capabilities add; never
//! the machine's certificate store.

use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use skillhost_policy::capabilities::Authority;

/// Certificate authorities beside the built-in ones.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    /// Trusted as well, DER-encoded.
    pub extra: Vec<CertificateDer<'static>>,
}

/// The TLS settings of a host, shared by its invocations; built when first needed.
#[derive(Debug)]
pub struct Tls {
    extra: Vec<CertificateDer<'static>>,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Tls {
    /// Settings that trust the built-in roots and the given ones.
    ///
    /// # Errors
    /// Where an extra root is no certificate.
    pub fn new(roots: Roots) -> Result<Tls, rustls::Error> {
        store(&roots.extra)?;
        Ok(Tls { extra: roots.extra, config: OnceLock::new() })
    }

    /// Settings that trust these as well. One that is no certificate fails every handshake.
    pub(super) fn trusting(self: Arc<Tls>, authorities: &[Authority]) -> Arc<Tls> {
        if authorities.is_empty() {
            return self;
        }
        let more = authorities.iter().map(|authority| &authority.certificate);
        Arc::new(Tls {
            extra: self.extra.iter().chain(more).cloned().collect(),
            config: OnceLock::new(),
        })
    }

    /// The settings, HTTP/2 offered before HTTP/1.1.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let mut roots = store(&self.extra)?;
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        let mut config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // A resumed session would let a server link one invocation, or one skill, with another.
        config.resumption = Resumption::disabled();
        Ok(self.config.get_or_init(|| Arc::new(config)).clone())
    }
}

fn store(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, rustls::Error> {
    let mut store = RootCertStore::empty();
    certificates.iter().try_for_each(|certificate| store.add(certificate.clone()))?;
    Ok(store)
}
