//! The certificate authorities that an operator trusts beside the built-in ones, read from PEM
//! files.

use std::io::{self, Read as _};
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use sha2::{Digest as _, Sha256};

use super::capabilities::Authority;

/// The built-in authorities as PEM are a quarter of it.
const MAX_BYTES: u64 = 1 << 20;

/// The certificates of a PEM file, in its order: at least one. What else it holds is left alone.
///
/// # Errors
/// Why it holds none, or one that is broken.
pub(super) fn read(path: &Path) -> Result<Vec<Authority>, String> {
    let file = path.display();
    let bytes = bytes(path).map_err(|error| format!("{file} cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("{file} is larger than {MAX_BYTES} bytes"));
    }
    let mut authorities = Vec::new();
    for (n, found) in CertificateDer::pem_slice_iter(&bytes).enumerate() {
        let certificate =
            found.map_err(|error| format!("{file} is no PEM file: {}", reason(&error)))?;
        // What it is checked by is what it is used by.
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
        Err(format!("{file} holds no certificate"))
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

/// The parser's own messages show lines as lists of numbers.
fn reason(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "an `-----END` line is missing".into(),
        pem::Error::IllegalSectionStart { .. } => "a `-----BEGIN` line is broken".into(),
        pem::Error::Base64Decode(_) => "a part of it is not base64".into(),
        error => error.to_string(),
    }
}

/// As `openssl x509 -fingerprint -sha256` has it, in lower case and without colons.
fn digest(certificate: &[u8]) -> String {
    Sha256::digest(certificate)
        .iter()
        .fold("sha256:".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
}
