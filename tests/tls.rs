//! HTTPS servers on loopback, with their own certificate authority.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Returns a new authority, and the port of a server with its certificate for `localhost`, which
/// answers each request with a word and the request line.
pub fn secure(word: &'static str) -> (CertificateDer<'static>, u16) {
    let (root, config) = localhost();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = rustls::StreamOwned::new(
                rustls::ServerConnection::new(config.clone()).unwrap(),
                stream.unwrap(),
            );
            // A client that does not trust the certificate disconnects.
            drop(answer(stream, word));
        }
    });
    (root, port)
}

/// Returns a new authority, and the configuration of a server with its certificate for `localhost`.
pub fn localhost() -> (CertificateDer<'static>, Arc<rustls::ServerConfig>) {
    named("localhost")
}

/// Returns a new authority, and the configuration of a server with its certificate for a name.
pub fn named(name: &str) -> (CertificateDer<'static>, Arc<rustls::ServerConfig>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = params.self_signed(&key).unwrap().der().clone();
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()])
        .unwrap()
        .signed_by(&leaf_key, &Issuer::new(params, key))
        .unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(
        vec![leaf.der().clone()],
        PrivateKeyDer::Pkcs8(leaf_key.serialize_der().into()),
    )
    .unwrap();
    (root, Arc::new(config))
}

fn answer(
    mut stream: rustls::StreamOwned<rustls::ServerConnection, std::net::TcpStream>,
    word: &str,
) -> std::io::Result<()> {
    let mut request = vec![0; 4096];
    let count = stream.read(&mut request)?;
    let line = String::from_utf8_lossy(&request[..count])
        .lines()
        .next()
        .unwrap_or_default()
        .replace(" HTTP/1.1", "");
    let body = format!("{word} {line}");
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.conn.send_close_notify();
    stream.flush()
}
