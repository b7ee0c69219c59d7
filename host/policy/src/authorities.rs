//! Reads the operator's certificate authorities from PEM files.

use std::io::{self, Read as _};
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use sha2::{Digest as _, Sha256};

use super::capabilities::Authority;

/// The built-in authorities take a quarter of this as PEM.
const MAX_BYTES: u64 = 1 << 20;

/// Reads the certificates of a PEM file, at least one. Ignores keys and other sections.
///
/// # Errors
/// Describes what is wrong with the file: it is unreadable, too large, holds no certificate or an
/// invalid one.
pub(super) fn read(path: &Path) -> Result<Vec<Authority>, String> {
    let file = path.display();
    let bytes = bytes(path).map_err(|error| format!("cannot read {file}: {error}"))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("{file} is larger than {MAX_BYTES} bytes"));
    }
    let mut authorities = Vec::new();
    for (n, found) in CertificateDer::pem_slice_iter(&bytes).enumerate() {
        let certificate =
            found.map_err(|error| format!("{file} is not a valid PEM file: {}", reason(&error)))?;
        // The same library validates the certificate here and uses it for connections.
        RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|error| format!("certificate {} in {file} is not valid: {error}", n + 1))?;
        authorities.push(Authority {
            file: path.to_owned(),
            digest: digest(&certificate),
            certificate,
        });
    }
    if authorities.is_empty() {
        Err(format!("{file} contains no certificate"))
    } else {
        Ok(authorities)
    }
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    #[expect(clippy::disallowed_methods, reason = "the operator's policy names the file")]
    let file = std::fs::File::open(path)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Describes a parse error. The parser's own messages show lines as lists of byte values.
fn reason(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "missing `-----END` line".into(),
        pem::Error::IllegalSectionStart { .. } => "malformed `-----BEGIN` line".into(),
        pem::Error::Base64Decode(_) => "invalid base64".into(),
        error => error.to_string(),
    }
}

/// Returns what `openssl x509 -fingerprint -sha256` prints, in lower case and without colons.
fn digest(certificate: &[u8]) -> String {
    Sha256::digest(certificate)
        .iter()
        .fold("sha256:".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
}
