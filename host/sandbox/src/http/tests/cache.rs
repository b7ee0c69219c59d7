//! What the HTTP cache stores, and to whom it returns it. Each rule is tried against a server that
//! counts the requests it receives.

use std::sync::Mutex;

use super::servers::{Server, read_head};
use super::*;
use skillhost_policy::outcome::CacheUse;
use tokio::io::AsyncWriteExt as _;

const MIB: u64 = 1 << 20;

/// A server whose response depends on the head of the request, and the heads that it received.
struct Origin {
    server: Server,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    /// `answer` returns the fields and the body of a 200, or a whole response that starts with
    /// `HTTP/1.1`.
    async fn new(answer: impl Fn(&str, usize) -> String + Send + Sync + 'static) -> Origin {
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, answer) = (heads.clone(), Arc::new(answer));
        let server = Server::tcp(move |mut stream| {
            let (seen, answer) = (seen.clone(), answer.clone());
            async move {
                let head = read_head(&mut stream).await.to_ascii_lowercase();
                let number = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(head.clone());
                    seen.len()
                };
                let _ = stream.write_all(response(&answer(&head, number)).as_bytes()).await;
                let _ = stream.shutdown().await;
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            }
        })
        .await;
        Origin { server, heads }
    }

    /// Answers every request with these fields, and its number as the body.
    async fn with(fields: &'static str) -> Origin {
        Origin::new(move |_, number| format!("{fields}\n\n{number}")).await
    }

    fn requests(&self) -> usize {
        self.heads.lock().unwrap().len()
    }

    fn last(&self) -> String {
        self.heads.lock().unwrap().last().unwrap().clone()
    }
}

fn response(text: &str) -> String {
    if text.starts_with("HTTP/1.1") {
        return text.to_owned();
    }
    let (fields, body) = text.split_once("\n\n").unwrap();
    let fields: String = fields.lines().map(|line| format!("{line}\r\n")).collect();
    format!("HTTP/1.1 200 OK\r\n{fields}content-length: {}\r\n\r\n{body}", body.len())
}

fn cache() -> Arc<ResponseCache> {
    ResponseCache::new(MIB, b"skill and workspace")
}

fn caching(capabilities: &Capabilities, cache: &Arc<ResponseCache>) -> Arc<Sender> {
    caching_names(capabilities, cache, &[])
}

fn caching_names(
    capabilities: &Capabilities,
    cache: &Arc<ResponseCache>,
    names: &[(&str, &[&str])],
) -> Arc<Sender> {
    Sender::of_run(
        capabilities.network_rules(),
        capabilities.limits.clone(),
        RunNetwork::Live,
        Arc::new(Tls::new(Roots::default()).unwrap()),
        resolver(names),
        false,
        Some(cache.clone()),
    )
}

fn sender_to(origin: &Origin) -> Arc<Sender> {
    caching(&loopback(origin.server.port), &cache())
}

async fn with_fields(
    sender: &Sender,
    origin: &Origin,
    fields: &[(&str, &str)],
) -> Result<(u16, String), SendError> {
    let mut request = request("GET", &origin.server.url("/"), full(""));
    for (name, value) in fields {
        request.headers_mut().append(
            http::HeaderName::try_from(*name).unwrap(),
            http::HeaderValue::try_from(*value).unwrap(),
        );
    }
    exchange(sender, request).await
}

/// Requests the page twice, and returns both bodies.
async fn twice(origin: &Origin, fields: &[(&str, &str)]) -> (String, String) {
    let sender = sender_to(origin);
    let first = with_fields(&sender, origin, fields).await.unwrap().1;
    (first, with_fields(&sender, origin, fields).await.unwrap().1)
}

#[tokio::test]
async fn fresh_responses_are_reused_and_recorded_as_cached() {
    let origin = Origin::with("cache-control: max-age=60\nx-kept: yes").await;
    let sender = sender_to(&origin);
    let url = origin.server.url("/page?q=1");
    assert_eq!(get(&sender, &url).await, Ok((200, "1".into())));
    let response = sender.send(request("GET", &url, full("")), Timeouts::default()).await.unwrap();
    assert_eq!(response.headers()["x-kept"], "yes");
    let age: u64 = response.headers()["age"].to_str().unwrap().parse().unwrap();
    assert!(age < 60);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "1");
    assert_eq!(origin.requests(), 1);
    // Another URL is another response.
    assert_eq!(get(&sender, &origin.server.url("/page?q=2")).await, Ok((200, "2".into())));
    let log = sender.requests();
    let cached: Vec<_> = log.iter().map(|request| (request.status, request.cached)).collect();
    let sent = (Some(200), None);
    assert_eq!(cached, [sent, (Some(200), Some(CacheUse::Fresh)), sent]);
    assert_eq!((log[1].received, log[1].error.clone()), (1, None));
    // Of two responses, one byte each, that were received.
    assert_eq!(sender.usage(), (0, 2));
    // A reused response is a use of the grant.
    assert_eq!(sender.uses().len(), 1);
}

#[tokio::test]
async fn bodies_that_guests_open_and_leave_empty_are_empty() {
    let origin = Origin::with("cache-control: max-age=60").await;
    let sender = sender_to(&origin);
    let url = origin.server.url("/");
    for _ in 0..2 {
        assert_eq!(
            exchange(&sender, request("GET", &url, frames([]))).await,
            Ok((200, "1".into()))
        );
    }
    // A body with content is sent, and its response is no answer to others.
    let content = || frames([Ok(http_body::Frame::data(Bytes::from_static(b"x")))]);
    for expected in ["2", "3"] {
        let answer = exchange(&sender, request("GET", &url, content())).await;
        assert_eq!(answer, Ok((200, expected.into())));
    }
    assert_eq!(sender.requests()[2].sent, 1);
}

#[tokio::test]
async fn nothing_is_reused_without_a_cache_or_in_a_deterministic_run() {
    let origin = Origin::with("cache-control: max-age=60").await;
    let plain = sender(&loopback(origin.server.port));
    for expected in ["1", "2"] {
        assert_eq!(get(&plain, &origin.server.url("/")).await.unwrap().1, expected);
    }
    let capabilities = loopback(origin.server.port);
    let deterministic = Sender::of_run(
        capabilities.network_rules(),
        capabilities.limits.clone(),
        RunNetwork::Off,
        Arc::new(Tls::new(Roots::default()).unwrap()),
        Resolver::System,
        false,
        Some(cache()),
    );
    assert!(deterministic.cache.is_none());
    assert!(get(&deterministic, &origin.server.url("/")).await.is_err());
}

#[tokio::test]
async fn nothing_with_credentials_or_cookies_is_stored_or_reused() {
    for fields in [[("authorization", "Bearer x")], [("cookie", "session=x")]] {
        let origin = Origin::with("cache-control: public, max-age=60").await;
        assert_eq!(twice(&origin, &fields).await, ("1".into(), "2".into()), "{fields:?}");
        // Nor does such a request get what was stored without them.
        let sender = sender_to(&origin);
        assert_eq!(with_fields(&sender, &origin, &[]).await.unwrap().1, "3");
        assert_eq!(with_fields(&sender, &origin, &fields).await.unwrap().1, "4");
    }
    let setting = Origin::with("cache-control: public, max-age=60\nset-cookie: session=x").await;
    assert_eq!(twice(&setting, &[]).await, ("1".into(), "2".into()));
    // A confirmation that sets one ends the storage.
    let later = Origin::new(|head, number| {
        if head.contains("if-none-match") {
            "HTTP/1.1 304 Not Modified\r\ncache-control: max-age=60\r\nset-cookie: s=x\r\n\r\n"
                .into()
        } else {
            format!("etag: \"1\"\n\n{number}")
        }
    })
    .await;
    let sender = sender_to(&later);
    for expected in ["1", "1", "3"] {
        assert_eq!(with_fields(&sender, &later, &[]).await.unwrap().1, expected);
    }
}

#[tokio::test]
async fn responses_without_permission_to_store_are_not_stored() {
    for fields in [
        "cache-control: no-store, max-age=60",
        "cache-control: NO-STORE\nexpires: Fri, 31 Dec 2100 00:00:00 GMT",
        "cache-control: max-age=60\nvary: *",
        // No heuristics.
        "x: y",
        "cache-control: public",
        "cache-control: max-age=60\nage: 60",
        "expires: 0\ncache-control: private",
        "expires: Fri, 31 Dec 1999 00:00:00 GMT",
    ] {
        let origin = Origin::with(fields).await;
        assert_eq!(twice(&origin, &[]).await, ("1".into(), "2".into()), "{fields}");
        let log = origin.last();
        assert!(!log.contains("if-"), "{fields}: {log}");
    }
    for status in ["206 Partial Content", "500 Internal Server Error", "303 See Other"] {
        let origin = Origin::new(move |_, number| {
            format!(
                "HTTP/1.1 {status}\r\ncache-control: max-age=60\r\ncontent-length: 1\r\n\r\n{number}"
            )
        })
        .await;
        assert_eq!(twice(&origin, &[]).await, ("1".into(), "2".into()), "{status}");
    }
}

#[tokio::test]
async fn expires_is_a_lifetime_and_other_statuses_are_reused() {
    let expiring = Origin::with("expires: Fri, 31 Dec 2100 00:00:00 GMT").await;
    assert_eq!(twice(&expiring, &[]).await, ("1".into(), "1".into()));
    let gone = Origin::new(|_, _| {
        "HTTP/1.1 404 Not Found\r\ncache-control: max-age=60\r\ncontent-length: 0\r\n\r\n".into()
    })
    .await;
    let sender = sender_to(&gone);
    for _ in 0..2 {
        assert_eq!(with_fields(&sender, &gone, &[]).await, Ok((404, String::new())));
    }
    assert_eq!(gone.requests(), 1);
}

#[tokio::test]
async fn requests_can_refuse_stored_responses() {
    let origin = Origin::with("cache-control: max-age=60\nage: 10").await;
    let sender = sender_to(&origin);
    let ask = async |field: (&'static str, &'static str)| {
        with_fields(&sender, &origin, &[field]).await.unwrap().1
    };
    assert_eq!(ask(("accept", "*/*")).await, "1");
    assert_eq!(ask(("cache-control", "max-age=20")).await, "1");
    assert_eq!(ask(("cache-control", "max-age=5")).await, "2");
    assert_eq!(ask(("cache-control", "min-fresh=55")).await, "3");
    assert_eq!(ask(("cache-control", "no-cache")).await, "4");
    assert_eq!(ask(("pragma", "no-cache")).await, "5");
    // Neither stored nor answered from what is stored.
    assert_eq!(ask(("cache-control", "no-store")).await, "6");
    assert_eq!(ask(("accept", "*/*")).await, "5");
    // A part, or a condition of the guest's own, concerns the guest and the server.
    assert_eq!(ask(("range", "bytes=0-0")).await, "7");
    assert_eq!(ask(("if-none-match", "\"x\"")).await, "8");
    assert_eq!(ask(("accept", "*/*")).await, "5");
}

#[tokio::test]
async fn requests_for_stored_responses_only_send_nothing() {
    let origin = Origin::with("cache-control: max-age=60").await;
    let sender = sender_to(&origin);
    let only = [("cache-control", "only-if-cached")];
    assert_eq!(with_fields(&sender, &origin, &only).await, Ok((504, String::new())));
    assert_eq!(origin.requests(), 0);
    with_fields(&sender, &origin, &[]).await.unwrap();
    assert_eq!(with_fields(&sender, &origin, &only).await, Ok((200, "1".into())));
    assert_eq!(origin.requests(), 1);
}

#[tokio::test]
async fn responses_that_vary_are_kept_apart() {
    let origin = Origin::with("cache-control: max-age=60\nvary: Accept-Language, x-plan").await;
    let sender = sender_to(&origin);
    let ask = async |language, plan| {
        let fields = [("accept-language", language), ("x-plan", plan)];
        with_fields(&sender, &origin, &fields).await.unwrap().1
    };
    assert_eq!(ask("de", "a").await, "1");
    assert_eq!(ask("en", "a").await, "2");
    assert_eq!(ask("de", "b").await, "3");
    assert_eq!(with_fields(&sender, &origin, &[]).await.unwrap().1, "4");
    assert_eq!(ask("de", "a").await, "1");
    assert_eq!(ask("en", "a").await, "2");
    assert_eq!(with_fields(&sender, &origin, &[("accept", "x")]).await.unwrap().1, "4");
    assert_eq!(origin.requests(), 4);
}

#[tokio::test]
async fn a_confirmation_decides_which_requests_get_the_response() {
    for (vary, expected) in [("x-key", ["1", "1", "3"]), ("*", ["1", "1", "3"])] {
        let origin = Origin::new(move |head, number| match head.contains("if-none-match") {
            true => format!(
                "HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\ncache-control: max-age=60\r\nvary: {vary}\r\n\r\n"
            ),
            false => format!("etag: \"1\"\n\n{number}"),
        })
        .await;
        let sender = sender_to(&origin);
        let mut bodies = Vec::new();
        for key in ["a", "a", "b"] {
            bodies.push(with_fields(&sender, &origin, &[("x-key", key)]).await.unwrap().1);
        }
        assert_eq!(bodies, expected, "vary: {vary}");
    }
}

#[tokio::test]
async fn a_response_that_is_read_while_its_url_changes_is_not_stored() {
    let origin = Origin::with("cache-control: max-age=60").await;
    let sender = sender_to(&origin);
    let url = origin.server.url("/");
    let before = sender.send(request("GET", &url, full("")), Timeouts::default()).await.unwrap();
    exchange(&sender, request("POST", &url, full("x"))).await.unwrap();
    assert_eq!(before.into_body().collect().await.unwrap().to_bytes(), "1");
    assert_eq!(get(&sender, &url).await, Ok((200, "3".into())));
    assert_eq!(get(&sender, &url).await, Ok((200, "3".into())));
}

#[tokio::test]
async fn stale_responses_are_used_only_after_their_server_confirmed_them() {
    const CONFIRMED: &str = "HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\nx-now: 2\r\n\r\n";
    for (fields, condition) in [
        ("etag: \"1\"", "if-none-match: \"1\""),
        ("etag: \"1\"\ncache-control: no-cache, max-age=60", "if-none-match: \"1\""),
        (
            "last-modified: Fri, 31 Dec 1999 00:00:00 GMT",
            "if-modified-since: fri, 31 dec 1999 00:00:00 gmt",
        ),
    ] {
        let origin = Origin::new(move |head, number| {
            if head.contains("if-") && number < 4 {
                if fields.starts_with("etag") {
                    CONFIRMED.into()
                } else {
                    CONFIRMED.replace("etag: \"1\"\r\n", "")
                }
            } else {
                format!("{fields}\n\n{number}")
            }
        })
        .await;
        let sender = sender_to(&origin);
        assert_eq!(with_fields(&sender, &origin, &[]).await.unwrap().1, "1");
        for _ in 0..2 {
            let request = request("GET", &origin.server.url("/"), full(""));
            let response = sender.send(request, Timeouts::default()).await.unwrap();
            assert_eq!(
                (response.status().as_u16(), &response.headers()["x-now"]),
                (200, &"2".parse().unwrap())
            );
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "1", "{fields}");
            assert!(origin.last().contains(condition), "{fields}: {}", origin.last());
        }
        // The server has another response now.
        assert_eq!(with_fields(&sender, &origin, &[]).await.unwrap().1, "4", "{fields}");
        let cached: Vec<_> = sender.requests().iter().map(|request| request.cached).collect();
        let confirmed = Some(CacheUse::Confirmed);
        assert_eq!(cached, [None, confirmed, confirmed, None], "{fields}");
    }
}

#[tokio::test]
async fn confirmations_of_another_response_are_not_believed() {
    let origin = Origin::new(|head, number| {
        if head.contains("if-none-match") {
            "HTTP/1.1 304 Not Modified\r\netag: \"other\"\r\n\r\n".into()
        } else {
            format!("etag: \"1\"\n\n{number}")
        }
    })
    .await;
    let sender = sender_to(&origin);
    assert_eq!(with_fields(&sender, &origin, &[]).await, Ok((200, "1".into())));
    assert_eq!(with_fields(&sender, &origin, &[]).await, Ok((200, "3".into())));
}

#[tokio::test]
async fn confirmations_renew_the_lifetime() {
    let origin = Origin::new(|head, number| {
        if head.contains("if-none-match") {
            "HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\ncache-control: max-age=60\r\n\r\n".into()
        } else {
            format!("etag: \"1\"\ncache-control: max-age=5\nage: 9\n\n{number}")
        }
    })
    .await;
    let sender = sender_to(&origin);
    for _ in 0..4 {
        assert_eq!(with_fields(&sender, &origin, &[]).await, Ok((200, "1".into())));
    }
    assert_eq!(origin.requests(), 2);
}

#[tokio::test]
async fn changes_to_a_url_end_the_storage_of_its_responses() {
    for (method, status, expected) in [
        ("POST", "200 OK", "3"),
        ("POST", "302 Found", "3"),
        ("POST", "409 Conflict", "1"),
        ("HEAD", "200 OK", "1"),
    ] {
        let origin = Origin::new(move |head, number| {
            if head.starts_with("get") {
                format!("cache-control: max-age=60\n\n{number}")
            } else {
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")
            }
        })
        .await;
        let sender = sender_to(&origin);
        with_fields(&sender, &origin, &[]).await.unwrap();
        exchange(&sender, request(method, &origin.server.url("/"), full(""))).await.unwrap();
        let again = with_fields(&sender, &origin, &[]).await.unwrap().1;
        assert_eq!(again, expected, "{method} {status}");
    }
}

#[tokio::test]
async fn permission_is_checked_before_every_use() {
    let origin = Origin::with("cache-control: max-age=60").await;
    let (cache, port) = (cache(), origin.server.port);
    let url = origin.server.url("/");
    get(&caching(&loopback(port), &cache), &url).await.unwrap();
    let mut denied = loopback(port);
    denied.fetch.none_of = vec![entry("127.0.0.1", Some(port), true)];
    let mut other_method = loopback(port);
    other_method.methods = vec!["POST".into()];
    for capabilities in [
        Capabilities { methods: vec!["GET".into()], ..Capabilities::default() },
        denied,
        other_method,
    ] {
        let sender = caching(&capabilities, &cache);
        let result = get(&sender, &url).await;
        assert!(matches!(result, Err(SendError::Denied(_))), "{result:?}");
        assert_eq!(sender.requests()[0].cached, None);
    }
    // A use counts as a request.
    let mut none_left = loopback(port);
    none_left.limits.http_requests = 0;
    assert_eq!(hit(get(&caching(&none_left, &cache), &url).await), Limit::HttpRequests);
    let mut small = loopback(port);
    small.limits.http_response_body = 0;
    assert_eq!(hit(get(&caching(&small, &cache), &url).await), Limit::HttpResponseBody);
    assert_eq!(get(&caching(&loopback(port), &cache), &url).await, Ok((200, "1".into())));
    assert_eq!(origin.requests(), 1);
}

#[tokio::test]
async fn responses_of_private_addresses_need_the_permission_to_reach_one() {
    let origin = Origin::with("cache-control: max-age=60").await;
    let (cache, port) = (cache(), origin.server.port);
    let url = format!("http://a.test:{port}/");
    let names: [(&str, &[&str]); 1] = [("a.test", &["127.0.0.1"])];
    let ask = async |private| {
        let capabilities = granted(vec![entry("a.test", Some(port), private)]);
        get(&caching_names(&capabilities, &cache, &names), &url).await
    };
    assert_eq!(ask(true).await, Ok((200, "1".into())));
    assert!(matches!(ask(false).await, Err(SendError::Prohibited(_))));
    assert_eq!(ask(true).await, Ok((200, "1".into())));
    assert_eq!(origin.requests(), 1);
}

#[tokio::test]
async fn responses_are_found_only_in_their_own_scope() {
    let origin = Origin::with("cache-control: max-age=60").await;
    let (cache, capabilities) = (cache(), loopback(origin.server.port));
    let url = origin.server.url("/");
    get(&caching(&capabilities, &cache), &url).await.unwrap();
    let saved = cache.save(MIB).unwrap();
    let other = ResponseCache::restore(MIB, b"another workspace", 60, &saved);
    assert_eq!(get(&caching(&capabilities, &other), &url).await, Ok((200, "2".into())));
    let own = ResponseCache::restore(MIB, b"skill and workspace", 60, &saved);
    assert_eq!(get(&caching(&capabilities, &own), &url).await, Ok((200, "1".into())));
    assert_eq!(origin.requests(), 2);
}

#[tokio::test]
async fn incomplete_responses_are_not_stored() {
    let origin = Origin::new(|_, number| {
        let body = if number == 1 { "cut" } else { "whole" };
        format!("HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 5\r\n\r\n{body}")
    })
    .await;
    let sender = sender_to(&origin);
    assert!(with_fields(&sender, &origin, &[]).await.is_err());
    // One that the guest does not read to its end is not either.
    let request = request("GET", &origin.server.url("/"), full(""));
    drop(sender.send(request, Timeouts::default()).await.unwrap());
    assert_eq!(with_fields(&sender, &origin, &[]).await, Ok((200, "whole".into())));
    assert_eq!(with_fields(&sender, &origin, &[]).await, Ok((200, "whole".into())));
    assert_eq!(origin.requests(), 3);
    assert_eq!(sender.cache.as_ref().unwrap().save(MIB).map(|saved| saved.len() > 5), Some(true));
}

#[tokio::test]
async fn bytes_and_entries_are_bounded() {
    let origin = Origin::new(|head, number| {
        let size = if head.contains("/large") { 30_000 } else { 1 };
        format!("cache-control: max-age=60\n\n{}", number.to_string().repeat(size))
    })
    .await;
    let cache = ResponseCache::new(100_000, b"");
    let mut capabilities = loopback(origin.server.port);
    capabilities.limits.http_requests = 10_000;
    let sender = caching(&capabilities, &cache);
    for page in 0..6 {
        get(&sender, &origin.server.url(&format!("/large?{page}"))).await.unwrap();
    }
    let saved = cache.save(MIB).unwrap().len();
    assert!((60_000..100_000).contains(&saved), "{saved}");
    // The pages that were used last are still there.
    get(&sender, &origin.server.url("/large?5")).await.unwrap();
    assert_eq!(origin.requests(), 6);
    get(&sender, &origin.server.url("/large?0")).await.unwrap();
    assert_eq!(origin.requests(), 7);
    // A response of more than half of the cache is not stored.
    let small = ResponseCache::new(50_000, b"");
    let sender = caching(&capabilities, &small);
    get(&sender, &origin.server.url("/large")).await.unwrap();
    assert_eq!(small.save(MIB), None);

    let many = ResponseCache::new(100 * MIB, b"");
    let sender = caching(&capabilities, &many);
    for page in 0..1_030 {
        get(&sender, &origin.server.url(&format!("/small?{page}"))).await.unwrap();
    }
    let before = origin.requests();
    get(&sender, &origin.server.url("/small?1029")).await.unwrap();
    assert_eq!(origin.requests(), before);
    get(&sender, &origin.server.url("/small?0")).await.unwrap();
    assert_eq!(origin.requests(), before + 1);
    // At most 16 responses of one URL differ by `Vary`.
    let varying = Origin::with("cache-control: max-age=60\nvary: x-plan").await;
    let sender = sender_to(&varying);
    for plan in 0..17 {
        let plan = plan.to_string();
        with_fields(&sender, &varying, &[("x-plan", plan.as_str())]).await.unwrap();
    }
    for (plan, expected) in [("16", "17"), ("1", "2"), ("0", "18")] {
        let answer = with_fields(&sender, &varying, &[("x-plan", plan)]).await.unwrap();
        assert_eq!(answer.1, expected);
    }
}

#[tokio::test]
async fn stored_responses_wait_for_no_turn() {
    let origin = Origin::with("cache-control: max-age=60").await;
    let mut capabilities = loopback(origin.server.port);
    capabilities.limits.set(Limit::HttpRate, 1);
    let sender = caching(&capabilities, &cache());
    for _ in 0..3 {
        assert_eq!(get(&sender, &origin.server.url("/")).await, Ok((200, "1".into())));
    }
    assert_eq!(sender.hit(), None);
}

#[tokio::test]
async fn saved_caches_have_neither_urls_nor_fields_of_requests() {
    let origin = Origin::with("cache-control: max-age=60\nvary: x-key").await;
    let (cache, capabilities) = (cache(), loopback(origin.server.port));
    let sender = caching(&capabilities, &cache);
    let mut asked = request("GET", &origin.server.url("/?token=secret-1"), full(""));
    asked.headers_mut().insert("x-key", "secret-2".parse().unwrap());
    exchange(&sender, asked).await.unwrap();
    let saved = String::from_utf8_lossy(&cache.save(MIB).unwrap()).into_owned();
    assert!(saved.contains("x-key") && !saved.contains("secret"), "{saved}");
}

#[tokio::test]
async fn saved_caches_keep_their_bounds_and_times() {
    let origin = Origin::with("cache-control: max-age=600\nage: 1").await;
    let (cache, capabilities) = (cache(), loopback(origin.server.port));
    let sender = caching(&capabilities, &cache);
    for page in 0..3 {
        get(&sender, &origin.server.url(&format!("/?{page}"))).await.unwrap();
    }
    let saved = cache.save(MIB).unwrap();
    let less = saved.len() as u64 - 1;
    let cut = cache.save(less).unwrap();
    assert!(cut.len() as u64 <= less);
    let restored = ResponseCache::restore(MIB, b"skill and workspace", 60, &cut);
    let sender = caching(&capabilities, &restored);
    // The response that was unused for the longest time is the one that is missing.
    for (page, expected) in [(2, "3"), (1, "2"), (0, "4")] {
        let url = origin.server.url(&format!("/?{page}"));
        assert_eq!(get(&sender, &url).await.unwrap().1, expected);
    }
    assert_eq!(cache.save(10), None);
    // What was received too long ago, or is damaged, is dropped.
    let late = ResponseCache::restore(MIB, b"skill and workspace", 0, &saved);
    assert_eq!(late.save(MIB), None);
    for damaged in [&b""[..], b"{}", &saved[..saved.len() / 2], b"\n\n\xff"] {
        let restored = ResponseCache::restore(MIB, b"skill and workspace", 60, damaged);
        assert_eq!(restored.save(MIB), None, "{damaged:?}");
    }
}
