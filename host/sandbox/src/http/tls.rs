//! The certificate authorities that HTTPS trusts: Mozilla's roots, those of the embedder and those
//! of the capabilities; never the machine's certificate store.

use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use skillhost_policy::capabilities::Authority;

/// Certificate authorities in addition to the built-in ones.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    /// Certificates, DER-encoded.
    pub extra: Vec<CertificateDer<'static>>,
}

/// The TLS settings of a host, shared by its invocations; built on first use.
#[derive(Debug)]
pub struct Tls {
    extra: Vec<CertificateDer<'static>>,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Tls {
    /// Creates settings that trust the built-in roots and these.
    ///
    /// # Errors
    /// An extra root is not a certificate.
    pub fn new(roots: Roots) -> Result<Tls, rustls::Error> {
        store(&roots.extra)?;
        Ok(Tls { extra: roots.extra, config: OnceLock::new() })
    }

    /// Returns settings that also trust these authorities. One that is not a certificate fails
    /// every handshake.
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

    /// Returns the settings, which prefer HTTP/2 to HTTP/1.1.
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
        // Session resumption would let a server link one invocation, or one skill, with another.
        config.resumption = Resumption::disabled();
        Ok(self.config.get_or_init(|| Arc::new(config)).clone())
    }
}

fn store(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, rustls::Error> {
    let mut store = RootCertStore::empty();
    certificates.iter().try_for_each(|certificate| store.add(certificate.clone()))?;
    Ok(store)
}
