//! What guests are told, by the hooks that both versions of `wasi:http` call.

use http::{HeaderName, Uri};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks as _};

use super::servers::Server;
use super::*;
use crate::sandbox::http::hooks::Hooks;

async fn ask(sender: &Arc<Sender>, method: &str, uri: &str, body: &str) -> Result<Bytes, Error> {
    let body: WasiBody = Full::new(Bytes::from(body.to_owned())).map_err(|e| match e {}).boxed_unsync();
    let request = Request::builder().method(method).uri(uri.parse::<Uri>().unwrap()).body(body).unwrap();
    let options = RequestOptions { first_byte_timeout: Some(Duration::from_secs(9)), ..RequestOptions::default() };
    let mut hooks = Hooks(sender.clone());
    let sent = hooks.send_request(request, Some(options), Box::new(async { Ok(()) }));
    let (response, io) = Box::into_pin(sent).await?;
    Box::into_pin(io).await?;
    Ok(response.into_body().collect().await?.to_bytes())
}

#[tokio::test]
async fn guests_get_answers_and_codes() {
    let server = Server::web().await;
    let mut capabilities = loopback(server.port);
    capabilities.fetch.all_of.iter_mut().for_each(|side| side.push(entry("x.test", None, false)));
    capabilities.limits.http_request_body = 10;
    capabilities.limits.http_response_body = 10;
    capabilities.limits.http_requests = 4;
    let sender = sender_with_names(&capabilities, &[("x.test", &["127.0.0.1"])]);
    assert_eq!(ask(&sender, "POST", &server.url("/echo"), "hello").await.unwrap(), "hello");
    assert!(matches!(ask(&sender, "GET", "https://other.test/", "").await, Err(Error::HttpRequestDenied)));
    assert!(matches!(ask(&sender, "DELETE", &server.url("/"), "").await, Err(Error::HttpRequestDenied)));
    assert!(matches!(ask(&sender, "GET", "ftp://127.0.0.1/", "").await, Err(Error::HttpRequestDenied)));
    assert!(matches!(ask(&sender, "GET", "http://x.test/", "").await, Err(Error::DestinationIpProhibited)));
    assert!(matches!(ask(&sender, "POST", &server.url("/echo"), "hello, world").await, Err(Error::HttpRequestBodySize(Some(10)))));
    assert!(matches!(ask(&sender, "GET", &server.url("/bytes?11"), "").await, Err(Error::HttpResponseBodySize(Some(10)))));
    assert!(matches!(ask(&sender, "GET", &server.url("/chunks?11"), "").await, Err(Error::HttpResponseBodySize(Some(10)))));
    assert!(matches!(ask(&sender, "GET", &server.url("/bytes?1"), "").await, Err(Error::ConnectionLimitReached)));
}

#[test]
fn guests_cannot_set_what_frames_a_message() {
    let mut hooks = Hooks(sender(&Capabilities::default()));
    let filter = hooks.forbidden_header_filter();
    for name in ["host", "connection", "keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "expect"] {
        assert!(filter(&HeaderName::from_static(name)) && hooks.is_forbidden_header(&HeaderName::from_static(name)), "{name}");
    }
    assert!(!filter(&HeaderName::from_static("authorization")) && !filter(&HeaderName::from_static("content-length")));
}
