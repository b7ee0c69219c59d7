//! The Python runtime in a host that trusts a certificate authority of its own.
//! `components/python/tests` says the rest in scripts.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use skillhost::invoke::{Host, HostOptions, Request, Target};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Status;
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::files::Guarded;
use skillhost_sandbox::http::{Resolver, Roots, Tls};
use skillhost_sandbox::{Allocation, Io, Options};

/// What each client says of the server that the host trusts, then of one that it does not.
const SCRIPT: &str = r#"
import http.client, ssl, sys, urllib.error, urllib.request

trusted, other = sys.argv[1:]
with urllib.request.urlopen(f"https://localhost:{trusted}/x") as answer:
    print(answer.status, answer.read())
connection = http.client.HTTPSConnection("localhost", int(trusted))
connection.request("POST", "/y", body=b"z")
print(connection.getresponse().read())
for context in (None, ssl._create_unverified_context()):
    try:
        urllib.request.urlopen(f"https://localhost:{other}/", context=context)
    except urllib.error.URLError as error:
        print(type(error.reason).__name__, isinstance(error.reason, ssl.SSLError))
"#;

#[test]
fn scripts_reach_https_servers_that_the_host_trusts_and_no_others() {
    let (root, trusted) = secure("secure");
    let (_, other) = secure("not read");
    let dir = tempfile::tempdir().unwrap();
    let skill = dir.path().join("client");
    std::fs::create_dir_all(skill.join("scripts")).unwrap();
    std::fs::create_dir(dir.path().join("scratch")).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: client\ndescription: Asks servers.\nallowed-tools: Read WebFetch\n---\n",
    )
    .unwrap();
    std::fs::write(skill.join("scripts/ask.py"), SCRIPT).unwrap();
    let host = Host::new(HostOptions {
        sandbox: Options {
            compiler: env!("CARGO_BIN_EXE_skillhost").into(),
            cache: Path::new(env!("CARGO_TARGET_TMPDIR")).join("skillhost/components"),
            allocation: Allocation::OnDemand,
            tls: Tls::new(Roots { extra: vec![root] }).unwrap().into(),
            resolver: Resolver::System,
        },
        programs: vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/components")],
        scratch: dir.path().join("scratch"),
        guarded: Guarded::default(),
        state: dir.path().join("kept"),
        audit: dir.path().join("audit.jsonl"),
        caps: Default::default(),
    });
    let overrides = Overrides {
        allow: [trusted, other].map(|port| format!("WebFetch(domain:localhost:{port})")).to_vec(),
        // The runtime may have to be compiled first, by a loaded machine.
        limits: vec![(Limit::Timeout, 300_000)],
        ..Overrides::default()
    };
    let policy = Policy::builtin().with_command_line(overrides).unwrap();
    let args = vec![trusted.to_string(), other.to_string()];
    let request = Request {
        skill: (&skill).into(),
        policy: &policy,
        target: Target::Main,
        args,
        io: Io::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(host.invoke(request)).unwrap().finished.outcome;
    assert_eq!(outcome.status, Status::Exited { code: 0 }, "{outcome:?}");
    let said = "200 b'secure GET /x'\nb'secure POST /y'\nSSLCertVerificationError True\nSSLCertVerificationError True\n";
    assert_eq!(outcome.stdout.text(), said);
}

/// A new authority, and the port of a server with its certificate for `localhost`, which answers
/// each request with a word and its first line.
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
            // A client that does not trust it hangs up.
            drop(answer(stream, word));
        }
    });
    (root, port)
}

/// A new authority, and what a server with its certificate for `localhost` needs.
pub fn localhost() -> (CertificateDer<'static>, Arc<rustls::ServerConfig>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = params.self_signed(&key).unwrap().der().clone();
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_owned()])
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
