//! What guests see, through the hooks that both versions of `wasi:http` call.

use http::{HeaderName, Uri};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks as _};

use super::servers::Server;
use super::*;
use crate::http::hooks::Hooks;

async fn ask(sender: &Arc<Sender>, method: &str, uri: &str, body: &str) -> Result<Bytes, Error> {
    let body: WasiBody =
        Full::new(Bytes::from(body.to_owned())).map_err(|e| match e {}).boxed_unsync();
    let request =
        Request::builder().method(method).uri(uri.parse::<Uri>().unwrap()).body(body).unwrap();
    let options = RequestOptions {
        first_byte_timeout: Some(Duration::from_secs(9)),
        ..RequestOptions::default()
    };
    let mut hooks = Hooks(sender.clone());
    let sent = hooks.send_request(request, Some(options), Box::new(async { Ok(()) }));
    let (response, io) = Box::into_pin(sent).await?;
    Box::into_pin(io).await?;
    Ok(response.into_body().collect().await?.to_bytes())
}

#[tokio::test]
async fn guests_receive_responses_and_error_codes() {
    let server = Server::web().await;
    let mut capabilities = loopback(server.port);
    capabilities.limits.http_request_body = 10;
    capabilities.limits.http_response_body = 10;
    capabilities.limits.http_requests = 3;
    let sender = sender(&capabilities);
    assert_eq!(ask(&sender, "POST", &server.url("/echo"), "hello").await.unwrap(), "hello");
    assert!(matches!(
        ask(&sender, "POST", &server.url("/echo"), "hello, world").await,
        Err(Error::HttpRequestBodySize(Some(10)))
    ));
    assert!(matches!(
        ask(&sender, "GET", &server.url("/bytes?11"), "").await,
        Err(Error::HttpResponseBodySize(Some(10)))
    ));
    assert!(matches!(
        ask(&sender, "GET", &server.url("/chunks?11"), "").await,
        Err(Error::HttpResponseBodySize(Some(10)))
    ));
    assert!(matches!(
        ask(&sender, "GET", &server.url("/bytes?1"), "").await,
        Err(Error::ConnectionLimitReached)
    ));
}

#[tokio::test]
async fn denials_carry_the_rule_and_the_fix() {
    let server = Server::web().await;
    let mut capabilities = loopback(server.port);
    let https = HostPattern { plain: false, ..entry("https.test", None, false) };
    capabilities
        .fetch
        .all_of
        .iter_mut()
        .for_each(|side| side.extend([entry("x.test", None, false), https.clone()]));
    capabilities.fetch.none_of = vec![entry("never.test", None, true)];
    let sender = sender_with_names(&capabilities, &[("x.test", &["127.0.0.1"])]);
    let port = server.port;
    for (method, url, expected) in [
        (
            "GET",
            "https://other.test/".to_owned(),
            "denied: network access to other.test is not granted; \
             to allow it: --allow 'WebFetch(domain:other.test)', \
             and `WebFetch(domain:other.test)` in allowed-tools of SKILL.md"
                .to_owned(),
        ),
        (
            "GET",
            "https://x.test:8443/".to_owned(),
            "denied: network access to x.test is not granted for port 8443; \
             to allow it: --allow 'WebFetch(domain:x.test:8443)', \
             and `WebFetch(domain:x.test:8443)` in allowed-tools of SKILL.md"
                .to_owned(),
        ),
        (
            "GET",
            "http://https.test/".to_owned(),
            "denied: network access to https.test is granted for https only; \
             to allow it: --allow 'WebFetch(http://https.test)', \
             and `WebFetch(http://https.test)` in allowed-tools of SKILL.md"
                .to_owned(),
        ),
        ("GET", "https://never.test/".to_owned(), "denied: network access to never.test is blocked by an entry of `deny`".to_owned()),
        (
            "DELETE",
            server.url("/"),
            "denied: `methods` does not include DELETE; to allow it: `methods: [DELETE]` in the policy".to_owned(),
        ),
        ("TRACE", server.url("/"), "denied: the method TRACE is not supported".to_owned()),
        ("GET", format!("ftp://127.0.0.1:{port}/"), "denied: the scheme `ftp` is neither https nor http".to_owned()),
        (
            "GET",
            "http://x.test/".to_owned(),
            "denied: the host has a private or special-purpose address; only an operator entry can allow a private one".to_owned(),
        ),
    ] {
        match ask(&sender, method, &url, "").await {
            Err(Error::InternalError(Some(text))) => assert_eq!(text, expected, "{method} {url}"),
            other => panic!("{method} {url}: {other:?}"),
        }
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn guests_cannot_set_framing_headers() {
    let mut hooks = Hooks(sender(&Capabilities::default()));
    let filter = hooks.forbidden_header_filter();
    for name in [
        "host",
        "connection",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
    ] {
        assert!(
            filter(&HeaderName::from_static(name))
                && hooks.is_forbidden_header(&HeaderName::from_static(name)),
            "{name}"
        );
    }
    assert!(
        !filter(&HeaderName::from_static("authorization"))
            && !filter(&HeaderName::from_static("content-length"))
    );
}
