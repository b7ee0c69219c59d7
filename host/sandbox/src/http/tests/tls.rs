//! HTTPS: trusted authorities, and HTTP/2.

use std::time::Duration;

use http::HeaderValue;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::servers::Server;
use super::*;

/// Creates an authority, and an acceptor with its certificate for a name.
fn authority(name: &str, protocols: &[&str]) -> (CertificateDer<'static>, TlsAcceptor) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = params.self_signed(&key).unwrap().der().clone();
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()])
        .unwrap()
        .signed_by(&leaf_key, &Issuer::new(params, key))
        .unwrap();
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(
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
    config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    (root, TlsAcceptor::from(Arc::new(config)))
}

/// Creates a server for `name`, and a sender that resolves `secure.test` to loopback and trusts the
/// server's authority or not.
async fn secure(
    name: &str,
    trusted: bool,
    protocols: &[&str],
    limits: impl Fn(&mut Limits),
) -> (Server, Arc<Sender>) {
    let (root, acceptor) = authority(name, protocols);
    let server = Server::secure(acceptor).await;
    let mut capabilities = granted(vec![
        entry("secure.test", Some(server.port), true),
        entry("127.0.0.1", Some(server.port), true),
    ]);
    limits(&mut capabilities.limits);
    let roots = Roots { extra: if trusted { vec![root] } else { Vec::new() } };
    let names = resolver(&[("secure.test", &["127.0.0.1"])]);
    let sender = sender_of(&capabilities, roots, names);
    (server, sender)
}

fn url(server: &Server, path: &str) -> String {
    format!("https://secure.test:{}{path}", server.port)
}

#[tokio::test]
async fn http2_is_used_if_the_server_offers_it() {
    for (protocols, version) in
        [(&["h2", "http/1.1"][..], "HTTP/2.0"), (&["http/1.1"], "HTTP/1.1"), (&[], "HTTP/1.1")]
    {
        let (server, sender) = secure("secure.test", true, protocols, |_| ()).await;
        let mut request = request("GET", &url(&server, "/head"), full(""));
        request.headers_mut().insert("host", HeaderValue::from_static("evil.test"));
        request.headers_mut().insert("connection", HeaderValue::from_static("close"));
        let (_, head) = exchange(&sender, request).await.unwrap();
        assert!(head.lines().next().unwrap().ends_with(version), "{head}");
        assert!(
            !head.contains("evil")
                && !head.contains("connection")
                && head.contains(&format!("secure.test:{}", server.port)),
            "{head}"
        );
    }
}

#[tokio::test]
async fn certificates_must_match_the_name_and_a_trusted_root() {
    let (server, sender) = secure("127.0.0.1", true, &[], |_| ()).await;
    assert!(get(&sender, &format!("https://127.0.0.1:{}/bytes?1", server.port)).await.is_ok());
    assert!(matches!(get(&sender, &url(&server, "/")).await, Err(SendError::Certificate(_))));
    let (server, sender) = secure("secure.test", false, &[], |_| ()).await;
    assert!(matches!(get(&sender, &url(&server, "/")).await, Err(SendError::Certificate(_))));
    let (server, sender) = secure("other.test", true, &[], |_| ()).await;
    assert!(matches!(get(&sender, &url(&server, "/")).await, Err(SendError::Certificate(_))));
    let plain = Server::tcp(|mut stream| async move {
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        futures::future::pending().await
    })
    .await;
    let sender = super::sender(&loopback(plain.port));
    assert!(matches!(
        get(&sender, &format!("https://127.0.0.1:{}/", plain.port)).await,
        Err(SendError::Tls(_))
    ));
}

#[test]
fn invalid_extra_roots_are_errors() {
    assert!(Tls::new(Roots { extra: vec![CertificateDer::from(b"no".to_vec())] }).is_err());
}

#[tokio::test]
async fn http2_bodies_have_the_same_limits() {
    let limits = |l: &mut Limits| {
        l.http_request_body = 200_000;
        l.http_response_body = 200_000;
    };
    let chunks = |n: usize| {
        let pieces = (0..n).map(|_| Ok(http_body::Frame::data(Bytes::from("x".repeat(1000)))));
        http_body_util::StreamBody::new(futures::stream::iter(pieces)).boxed_unsync()
    };
    let (server, sender) = secure("secure.test", true, &["h2"], limits).await;
    assert_eq!(
        exchange(&sender, request("POST", &url(&server, "/echo"), chunks(200))).await,
        Ok((200, "x".repeat(200_000)))
    );
    assert_eq!(sender.hit(), None);
    assert_eq!(
        hit(exchange(&sender, request("POST", &url(&server, "/echo"), chunks(201))).await),
        Limit::HttpRequestBody
    );
    for path in ["/bytes?200001", "/chunks?200001"] {
        assert_eq!(hit(get(&sender, &url(&server, path)).await), Limit::HttpResponseBody, "{path}");
    }
    assert!(get(&sender, &url(&server, "/fields?1000")).await.is_ok());
    assert!(get(&sender, &url(&server, "/fields?70000")).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_has_the_same_timeouts() {
    let (server, sender) = secure("secure.test", true, &["h2"], |l| l.http_total_ms = 400).await;
    assert_eq!(hit(get(&sender, &url(&server, "/drip")).await), Limit::HttpTotal);
    let (server, sender) =
        secure("secure.test", true, &["h2"], |l| l.http_first_byte_ms = 200).await;
    assert_eq!(hit(get(&sender, &url(&server, "/slow?9999")).await), Limit::HttpFirstByte);
    // A slot is released when the connection ends, not later.
    let (server, sender) = secure("secure.test", true, &["h2"], |l| l.http_concurrent = 1).await;
    let dropped = sender
        .send(request("GET", &url(&server, "/drip"), full("")), Timeouts::default())
        .await
        .unwrap();
    drop(dropped);
    for _ in 0..3 {
        let answer =
            tokio::time::timeout(Duration::from_secs(20), get(&sender, &url(&server, "/bytes?1")))
                .await
                .unwrap();
        assert_eq!(answer, Ok((200, "x".into())));
    }
}

#[tokio::test]
async fn stalled_uploads_end_when_the_waiter_is_dropped() {
    for protocol in ["http/1.1", "h2"] {
        let (root, acceptor) = authority("127.0.0.1", &[protocol]);
        let server = Server::tcp(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let _unread = acceptor.accept(stream).await;
                futures::future::pending().await
            }
        })
        .await;
        let mut capabilities = loopback(server.port);
        capabilities.limits.http_request_body = u64::MAX;
        capabilities.limits.http_concurrent = 1;
        let roots = Roots { extra: vec![root] };
        let sender = sender_of(&capabilities, roots, Resolver::System);
        let chunk = Bytes::from(vec![b'x'; 1 << 16]);
        let endless =
            futures::stream::repeat_with(move || Ok(http_body::Frame::data(chunk.clone())));
        let upload = request(
            "POST",
            &format!("https://127.0.0.1:{}/", server.port),
            http_body_util::StreamBody::new(endless).boxed_unsync(),
        );
        assert!(
            tokio::time::timeout(Duration::from_millis(700), exchange(&sender, upload))
                .await
                .is_err()
        );
        assert!(sender.usage().0 > 0);
        // Its slot is released at once, not at its timeout.
        drop(
            tokio::time::timeout(Duration::from_secs(5), sender.slots.acquire())
                .await
                .expect(protocol),
        );
    }
}
