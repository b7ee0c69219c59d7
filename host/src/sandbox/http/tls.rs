//! Whom HTTPS trusts: Mozilla's roots and what the embedder adds; never the machine's certificate store.

use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// Certificate authorities beside the built-in ones.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    /// Trusted as well, DER-encoded.
    pub extra: Vec<CertificateDer<'static>>,
}

/// The TLS settings of a host, shared by its invocations; built when first needed.
#[derive(Debug)]
pub struct Tls {
    extra: RootCertStore,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Tls {
    /// Settings that trust the built-in roots and the given ones.
    ///
    /// # Errors
    /// Where an extra root is no certificate.
    pub fn new(roots: Roots) -> Result<Tls, rustls::Error> {
        let mut extra = RootCertStore::empty();
        for root in roots.extra {
            extra.add(root)?;
        }
        Ok(Tls { extra, config: OnceLock::new() })
    }

    /// The settings, HTTP/2 offered before HTTP/1.1.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let mut roots = self.extra.clone();
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // A resumed session would let a server link one invocation, or one skill, with another.
        config.resumption = Resumption::disabled();
        Ok(self.config.get_or_init(|| Arc::new(config)).clone())
    }
}
