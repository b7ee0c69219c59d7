//! TLS of the server: its certificates, their replacement, and certificates of clients.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::replace;
use crate::mcp::Place;

/// Writes a new authority, and a certificate for `localhost`, which a server or a client may use.
fn certificate(folder: &Path, name: &str) -> [PathBuf; 3] {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap().pem();
    let own_key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .signed_by(&own_key, &Issuer::new(params, key))
        .unwrap()
        .pem();
    let files = ["ca.pem", "pem", "key"].map(|end| folder.join(format!("{name}.{end}")));
    for (file, text) in files.iter().zip([authority, own, own_key.serialize_pem()]) {
        replace(file, &text);
    }
    files
}

/// A server with TLS, which is ended with this value.
struct Secure(Child, String);

impl Drop for Secure {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start(place: &Place, args: &[&str]) -> Secure {
    use std::io::BufRead as _;
    let all = [&["--listen", "127.0.0.1:0", "--no-token"], args].concat();
    let mut child =
        place.server("serve", &all).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address =
        line.trim().strip_prefix("https://127.0.0.1:").unwrap().strip_suffix("/mcp").unwrap();
    Secure(child, format!("https://localhost:{address}"))
}

fn status(place: &Place, url: &str, args: &[&str]) -> (Option<i32>, String) {
    let run = place.user.skillhost(&[&["status", "--server", url], args].concat());
    (run.status.code(), crate::support::text(&run.stderr))
}

#[test]
fn certificates_are_replaced_without_a_restart() {
    let place = Place::new();
    let work = place.user.work();
    let [ca, pem, key] = certificate(&work, "server").map(|path| path.to_str().unwrap().to_owned());
    let server = start(&place, &["--tls-cert", &pem, "--tls-key", &key]);
    assert_eq!(status(&place, &server.1, &["--ca", &ca]).0, Some(0));
    // Neither in the clear nor with another authority.
    let clear = server.1.replace("https", "http").replace("localhost", "127.0.0.1");
    assert_eq!(status(&place, &clear, &[]).0, Some(74));
    assert_eq!(status(&place, &server.1, &[]).0, Some(74));
    let [next, next_pem, next_key] = certificate(&work, "next");
    assert_eq!(status(&place, &server.1, &["--ca", next.to_str().unwrap()]).0, Some(74));
    std::fs::rename(next_key, &key).unwrap();
    std::fs::rename(next_pem, &pem).unwrap();
    let began = Instant::now();
    while status(&place, &server.1, &["--ca", next.to_str().unwrap()]).0 != Some(0) {
        assert!(began.elapsed() < Duration::from_secs(20), "the certificate is not read again");
        std::thread::sleep(Duration::from_millis(200));
    }
    // What is broken changes nothing.
    replace(Path::new(&pem), "no certificate");
    std::thread::sleep(Duration::from_millis(1500));
    for _ in 0..2 {
        assert_eq!(status(&place, &server.1, &["--ca", next.to_str().unwrap()]).0, Some(0));
    }
}

#[test]
fn clients_without_a_certificate_are_refused_if_one_is_needed() {
    let place = Place::new();
    let work = place.user.work();
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    let [ca, pem, key] = certificate(&work, "server").map(text);
    let [clients, client, client_key] = certificate(&work, "client").map(text);
    let [_, other, other_key] = certificate(&work, "other").map(text);
    let server =
        start(&place, &["--tls-cert", &pem, "--tls-key", &key, "--tls-client-ca", &clients]);
    let with = |cert: &str, key: &str| {
        status(&place, &server.1, &["--ca", &ca, "--client-cert", cert, "--client-key", key]).0
    };
    assert_eq!(status(&place, &server.1, &["--ca", &ca]).0, Some(74));
    assert_eq!(with(&client, &client_key), Some(0));
    assert_eq!(with(&other, &other_key), Some(74), "of another authority");
}

#[test]
fn the_sandboxd_protocol_has_the_tls_of_the_server_and_speaks_http2_over_it() {
    use std::io::{BufRead as _, Read as _, Write as _};
    let place = Place::new();
    let [ca, pem, key] = certificate(&place.user.work(), "server");
    let args = ["--listen", "127.0.0.1:0", "--no-token", "--sandboxd", "0", "--tls-cert"];
    let mut command = place.server("serve", &args);
    command.arg(&pem).arg("--tls-key").arg(&key);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).nth(1).unwrap();
    let address = line.strip_prefix("sandboxd: https://").unwrap().to_owned();
    let _server = Secure(child, String::new());
    let mut roots = rustls::RootCertStore::empty();
    let authority =
        <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_file(
            ca,
        );
    roots.add(authority.unwrap()).unwrap();
    for (protocol, speaks) in [("h2", true), ("http/1.1", true), ("none", false)] {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.into()];
        let name = "localhost".try_into().unwrap();
        let client = rustls::ClientConnection::new(config.into(), name).unwrap();
        let socket = std::net::TcpStream::connect(&address).unwrap();
        let mut stream = rustls::StreamOwned::new(client, socket);
        let request =
            "GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".as_bytes();
        assert_eq!(stream.write_all(request).and_then(|()| stream.flush()).is_ok(), speaks);
        if protocol == "http/1.1" {
            let mut start = [0; 12];
            stream.read_exact(&mut start).unwrap();
            assert_eq!(&start, b"HTTP/1.1 200");
        }
        if speaks {
            assert_eq!(stream.conn.alpn_protocol(), Some(protocol.as_bytes()));
        }
    }
}
