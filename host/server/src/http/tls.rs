//! TLS of the server, with certificates that are read again when their files change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::Door;

/// How often the files are looked at, at most.
const RELOAD: Duration = Duration::from_secs(1);

/// The files of a server's TLS, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, and the chain to its authority.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The authorities whose certificates clients must present; `None` if they need none.
    pub client_authorities: Option<PathBuf>,
}

/// The TLS of a server.
pub struct Tls {
    files: TlsFiles,
    current: Mutex<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    /// The same, for connections that may speak HTTP/2.
    http2: Arc<ServerConfig>,
    read: Vec<Stamp>,
    looked: Instant,
}

/// Identifies the content of a file.
type Stamp = Option<(Option<SystemTime>, u64, u64)>;

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// What is wrong with which of them.
    pub fn new(files: TlsFiles) -> Result<Tls, String> {
        let read = files.stamps();
        let (config, http2) = files.configs()?;
        let current = Mutex::new(Current { config, http2, read, looked: Instant::now() });
        Ok(Tls { files, current })
    }

    /// Returns what accepts the next connection. If the files have changed and are valid, it uses the
    /// new ones; otherwise the previous ones.
    pub(super) fn acceptor(&self, door: Door) -> TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= RELOAD {
            current.looked = Instant::now();
            let found = self.files.stamps();
            if found != current.read {
                current.read = found;
                match self.files.configs() {
                    Ok((config, http2)) => {
                        tracing::info!("read the certificates again");
                        (current.config, current.http2) = (config, http2);
                    }
                    Err(error) => {
                        tracing::error!(%error, "the new certificates are not valid: the previous ones stay");
                    }
                }
            }
        }
        match door {
            Door::Main => current.config.clone().into(),
            Door::Sandboxd => current.http2.clone().into(),
        }
    }
}

impl TlsFiles {
    fn stamps(&self) -> Vec<Stamp> {
        use std::os::unix::fs::MetadataExt as _;
        let stamp = |path: &PathBuf| -> Stamp {
            let found = std::fs::metadata(path).ok()?;
            Some((found.modified().ok(), found.size(), found.ino()))
        };
        [Some(&self.certificate), Some(&self.key), self.client_authorities.as_ref()]
            .into_iter()
            .flatten()
            .map(stamp)
            .collect()
    }

    /// Returns the settings of connections over HTTP/1, and of those that may speak HTTP/2.
    fn configs(&self) -> Result<(Arc<ServerConfig>, Arc<ServerConfig>), String> {
        let config = self.config()?;
        let mut http2 = config.clone();
        http2.alpn_protocols.insert(0, b"h2".to_vec());
        Ok((Arc::new(config), Arc::new(http2)))
    }

    fn config(&self) -> Result<ServerConfig, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(file)? {
                    roots.add(certificate).map_err(|error| wrong(file, &error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|error| wrong(file, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = certificates(&self.certificate)?;
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|error| wrong(&self.key, &error))?;
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| wrong(&self.certificate, &error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = || -> Result<Vec<_>, rustls::pki_types::pem::Error> {
        CertificateDer::pem_file_iter(file)?.collect()
    };
    let found = read().map_err(|error| wrong(file, &error))?;
    match found.is_empty() {
        true => Err(wrong(file, &io::Error::other("no certificate in PEM"))),
        false => Ok(found),
    }
}

fn wrong(file: &Path, error: &dyn std::fmt::Display) -> String {
    format!("cannot use {}: {error}", file.display())
}
