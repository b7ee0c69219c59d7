//! Which requests are allowed.

use std::sync::Mutex;

use super::servers::{Server, read_head};
use super::*;
use http::{HeaderName, HeaderValue};
use tokio::io::AsyncWriteExt as _;

fn denial(result: Result<impl std::fmt::Debug, SendError>) -> Denial {
    match result {
        Err(SendError::Denied(denial) | SendError::Prohibited(denial)) => denial,
        other => panic!("not denied: {other:?}"),
    }
}

#[tokio::test]
async fn requests_to_granted_hosts_are_recorded_without_query() {
    let server = Server::web().await;
    let sender = sender(&loopback(server.port));
    let answer =
        exchange(&sender, request("POST", &server.url("/echo?token=secret"), full("hello"))).await;
    assert_eq!(answer, Ok((200, "hello".to_owned())));
    let made = HttpRequest::new("POST".into(), server.url("/echo"), "", "");
    let expected =
        HttpRequest { status: Some(200), error: None, failure: None, sent: 5, received: 5, ..made };
    assert_eq!(sender.requests(), [expected]);
    assert_eq!((sender.usage(), sender.hit(), sender.denials().len()), ((5, 5), None, 0));
}

#[tokio::test]
async fn nothing_is_sent_without_a_grant() {
    let server = Server::web().await;
    let sender = sender(&Capabilities { methods: vec!["GET".into()], ..Capabilities::default() });
    assert_eq!(
        denial(get(&sender, &server.url("/head?secret")).await),
        Denial {
            what: server.url(""),
            rule: "network access to 127.0.0.1 is not granted".into(),
            fix: Some(format!("--allow 'WebFetch(http://127.0.0.1:{})'", server.port)),
            kind: skillhost_policy::outcome::DenialKind::Host("127.0.0.1".into()),
        }
    );
    assert_eq!(server.connections(), 0);
    let made = sender.requests().remove(0);
    assert_eq!((made.url, made.status, made.error.is_some()), (server.url("/head"), None, true));
}

#[tokio::test]
async fn other_hosts_ports_schemes_or_sides_are_denied() {
    let server = Server::web().await;
    let other = Server::web().await;
    let https_only = HostPattern { plain: false, ..entry("127.0.0.1", Some(server.port), true) };
    let mut one_side = loopback(server.port);
    one_side.fetch.all_of[0].clear();
    let mut forbidden = loopback(server.port);
    forbidden.fetch.none_of =
        vec![HostPattern { host: HostName::Any, port: None, plain: true, private: true }];
    for (capabilities, url) in [
        (loopback(server.port), other.url("/")),
        (loopback(server.port), format!("http://127.0.0.2:{}/", server.port)),
        (loopback(server.port), format!("http://localhost:{}/", server.port)),
        (granted(vec![https_only]), server.url("/")),
        (one_side, server.url("/")),
        (forbidden, server.url("/")),
    ] {
        denial(get(&sender(&capabilities), &url).await);
    }
    assert_eq!((server.connections(), other.connections()), (0, 0));
}

#[tokio::test]
async fn wildcards_match_subdomains_only() {
    let server = Server::web().await;
    let names: [(&str, &[&str]); 3] =
        [("a.test", &["127.0.0.1"]), ("x.a.test", &["127.0.0.1"]), ("xa.test", &["127.0.0.1"])];
    let sender =
        sender_with_names(&granted(vec![entry("*.a.test", Some(server.port), true)]), &names);
    let url = |host: &str| format!("http://{host}:{}/bytes?1", server.port);
    assert_eq!(get(&sender, &url("x.a.test")).await, Ok((200, "x".into())));
    assert_eq!(get(&sender, &url("X.A.Test.")).await, Ok((200, "x".into())));
    denial(get(&sender, &url("a.test")).await);
    denial(get(&sender, &url("xa.test")).await);
    denial(get(&sender, &url("a.test.evil.test")).await);
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn only_granted_methods_are_sent_and_never_connect() {
    let server = Server::web().await;
    let mut capabilities = loopback(server.port);
    capabilities.methods.extend(["CONNECT".into(), "TRACE".into()]);
    let sender = sender(&capabilities);
    assert!(exchange(&sender, request("HEAD", &server.url("/bytes?9"), full(""))).await.is_ok());
    for (method, fix) in [
        ("DELETE", Some("`methods: [DELETE]` in the policy".to_owned())),
        ("get", Some("`methods: [get]` in the policy".into())),
        ("CONNECT", None),
        ("TRACE", None),
    ] {
        assert_eq!(
            denial(exchange(&sender, request(method, &server.url("/"), full(""))).await).fix,
            fix,
            "{method}"
        );
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn user_info_and_odd_addresses_are_denied_and_unrecorded() {
    let server = Server::web().await;
    let everywhere = HostPattern { host: HostName::Any, port: None, plain: true, private: true };
    let sender = sender(&granted(vec![everywhere]));
    for host in
        ["user:secret@127.0.0.1", "0x7f.1", "2130706433", "0177.0.0.1", "127.1", "127.0.0.1%2e"]
    {
        let Ok(uri) = format!("http://{host}:{}/", server.port).parse::<Uri>() else { continue };
        let mut request = request("GET", "http://x/", full(""));
        *request.uri_mut() = uri;
        denial(exchange(&sender, request).await);
    }
    let mut ftp = request("GET", "http://x/", full(""));
    *ftp.uri_mut() = format!("ftp://127.0.0.1:{}/", server.port).parse().unwrap();
    denial(exchange(&sender, ftp).await);
    assert!(!format!("{:?} {:?}", sender.requests(), sender.denials()).contains("secret"));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn names_that_resolve_to_private_addresses_are_denied() {
    let server = Server::web().await;
    let names: [(&str, &[&str]); 5] = [
        ("one.test", &["127.0.0.1"]),
        ("many.test", &["10.0.0.1", "127.0.0.1", "::1", "169.254.169.254"]),
        ("mapped.test", &["::ffff:127.0.0.1"]),
        ("carried.test", &["64:ff9b::7f00:1", "2002:7f00:1::"]),
        ("zero.test", &["0.0.0.0", "::"]),
    ];
    let sender =
        sender_with_names(&granted(vec![entry("*.test", Some(server.port), false)]), &names);
    for (name, _) in names {
        let denial = denial(get(&sender, &format!("http://{name}:{}/", server.port)).await);
        assert_eq!(
            (denial.what, denial.fix),
            (format!("http://{name}:{}", server.port), None),
            "{name}"
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn private_addresses_need_both_sides_special_ones_never_work() {
    let server = Server::web().await;
    let (open, closed) =
        (entry("127.0.0.1", Some(server.port), true), entry("127.0.0.1", Some(server.port), false));
    let mut capabilities = granted(vec![open]);
    assert!(get(&sender(&capabilities), &server.url("/bytes?1")).await.is_ok());
    capabilities.fetch.all_of[1] = vec![closed];
    let denial = denial(get(&sender(&capabilities), &server.url("/bytes?1")).await);
    assert_eq!(denial.fix, Some(format!("--allow 'WebFetch(http://127.0.0.1:{})'", server.port)));
    let names: [(&str, &[&str]); 1] = [("x.test", &["0.0.0.0", "::127.0.0.1", "2002:7f00:1::"])];
    let sender =
        sender_with_names(&granted(vec![entry("x.test", Some(server.port), true)]), &names);
    assert!(matches!(
        get(&sender, &format!("http://x.test:{}/", server.port)).await,
        Err(SendError::Prohibited(_))
    ));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn localhost_resolves_and_is_private() {
    let server = Server::web().await;
    let url = format!("http://LocalHost:{}/bytes?1", server.port);
    let open = sender(&granted(vec![entry("localhost", Some(server.port), true)]));
    assert_eq!(get(&open, &url).await, Ok((200, "x".into())));
    let closed = sender(&granted(vec![entry("localhost", Some(server.port), false)]));
    assert_eq!(
        denial(get(&closed, &url).await).fix,
        Some(format!("--allow 'WebFetch(http://localhost:{})'", server.port))
    );
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn permitted_addresses_are_tried_until_one_answers() {
    let server = Server::web().await;
    let names: [(&str, &[&str]); 1] =
        [("x.test", &["255.255.255.255", "224.0.0.1", "::1", "127.0.0.2", "127.0.0.1"])];
    let sender =
        sender_with_names(&granted(vec![entry("x.test", Some(server.port), true)]), &names);
    assert_eq!(
        get(&sender, &format!("http://x.test:{}/bytes?1", server.port)).await,
        Ok((200, "x".into()))
    );
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn unknown_names_and_closed_ports_have_distinct_errors() {
    let closed = Server::web().await.port;
    let names: [(&str, &[&str]); 2] = [("empty.test", &[]), ("closed.test", &["127.0.0.1"])];
    let sender = sender_with_names(&granted(vec![entry("*.test", Some(closed), true)]), &names);
    tokio::task::yield_now().await;
    for name in ["unknown", "empty"] {
        assert!(matches!(
            get(&sender, &format!("http://{name}.test:{closed}/")).await,
            Err(SendError::Dns(_))
        ));
    }
    let refused = get(&sender, &format!("http://closed.test:{closed}/")).await;
    assert_eq!(refused, Err(SendError::Connect(std::io::ErrorKind::ConnectionRefused)));
    assert!(sender.requests().iter().all(|r| r.error.is_some() && r.status.is_none()));
}

#[tokio::test]
async fn redirects_are_returned_and_their_targets_checked() {
    let (server, inner) = (Server::web().await, Server::web().await);
    let patterns =
        vec![entry("127.0.0.1", Some(server.port), true), entry("*.test", Some(inner.port), false)];
    let sender = sender_with_names(&granted(patterns), &[("inner.test", &["127.0.0.1"])]);
    for hop in [
        format!("http://127.0.0.1:{}/bytes?1", inner.port),
        format!("http://inner.test:{}/bytes?1", inner.port),
    ] {
        let first = sender
            .send(request("GET", &server.url(&format!("/to?{hop}")), full("")), Timeouts::default())
            .await
            .unwrap();
        assert_eq!(
            (first.status().as_u16(), first.headers()["location"].to_str().unwrap()),
            (302, hop.as_str())
        );
        denial(get(&sender, &hop).await);
    }
    assert_eq!(inner.connections(), 0);
}

#[tokio::test]
async fn framing_and_routing_headers_are_never_sent() {
    let seen = Arc::new(Mutex::new(String::new()));
    let keep = seen.clone();
    let server = Server::tcp(move |mut stream| {
        let keep = keep.clone();
        async move {
            *keep.lock().unwrap() = read_head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\nkeep-alive: 5\r\nx: y\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        }
    })
    .await;
    let sender = sender(&loopback(server.port));
    let mut smuggling = request("POST", &server.url("/a%0d%0ab?c"), full("hello"));
    for (name, value) in [
        ("host", "evil.test"),
        ("transfer-encoding", "chunked"),
        ("content-length", "5"),
        ("connection", "x-hop, content-length"),
        ("x-hop", "1"),
        ("keep-alive", "1"),
        ("proxy-authorization", "p"),
        ("te", "trailers"),
        ("trailer", "x"),
        ("upgrade", "h2c"),
        ("http2-settings", "x"),
        ("expect", "100-continue"),
        ("x-mine", "2"),
    ] {
        smuggling
            .headers_mut()
            .append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let response = sender.send(smuggling, Timeouts::default()).await.unwrap();
    let mut lines: Vec<String> =
        seen.lock().unwrap().trim_end().split("\r\n").map(str::to_owned).collect();
    lines[1..].sort();
    assert_eq!(
        lines,
        [
            "POST /a%0d%0ab?c HTTP/1.1",
            "content-length: 5",
            &format!("host: 127.0.0.1:{}", server.port),
            "x-mine: 2"
        ]
    );
    let mut names: Vec<&str> = response.headers().keys().map(HeaderName::as_str).collect();
    names.sort();
    assert_eq!(names, ["content-length", "x"]);
}

#[test]
fn line_breaks_cannot_be_injected_into_headers() {
    assert!(
        HeaderValue::from_bytes(b"a\r\nx: y").is_err() && HeaderValue::from_bytes(b"a\nb").is_err()
    );
    assert!(
        HeaderName::from_bytes(b"a\r\nb").is_err()
            && http::Method::from_bytes(b"GET /\r\n").is_err()
    );
    assert!("http://a/b\r\nc".parse::<Uri>().is_err() && "http://a/b c".parse::<Uri>().is_err());
}

#[tokio::test]
async fn recorded_refusals_are_short() {
    let sender = sender(&granted(Vec::new()));
    let long = "x".repeat(60_000);
    for (method, url) in [
        ("GET", format!("http://{long}/")),
        ("GET", format!("http://a.test/{long}")),
        (&long, "http://a.test/".into()),
    ] {
        let uri: Uri = url.parse().unwrap();
        denial(
            exchange(&sender, Request::builder().method(method).uri(uri).body(full("")).unwrap())
                .await,
        );
    }
    assert!(format!("{:?} {:?}", sender.requests(), sender.denials()).len() < 20_000);
}

#[tokio::test]
async fn refusals_are_distinct_and_at_most_a_hundred() {
    let sender = sender(&granted(Vec::new()));
    for i in 0..300 {
        denial(get(&sender, "https://same.test/").await);
        denial(get(&sender, &format!("https://h{i}.test/")).await);
    }
    let denials = sender.denials();
    assert_eq!((denials.len(), sender.requests().len()), (100, 100));
    assert_eq!(denials.iter().filter(|d| d.what == "https://same.test").count(), 1);
    let fix = "--allow 'WebFetch(domain:same.test)', and `WebFetch(domain:same.test)` in \
               allowed-tools of SKILL.md";
    assert_eq!(denials[0].fix.as_deref(), Some(fix));
}

#[tokio::test]
async fn requests_stop_at_the_limit() {
    let server = Server::web().await;
    let mut capabilities = loopback(server.port);
    capabilities.limits.http_requests = 2;
    let sender = sender(&capabilities);
    denial(get(&sender, "http://other.test/").await);
    for _ in 0..2 {
        assert!(get(&sender, &server.url("/bytes?1")).await.is_ok());
    }
    assert_eq!(sender.hit(), None);
    assert_eq!(hit(get(&sender, &server.url("/bytes?1")).await), Limit::HttpRequests);
    assert_eq!((server.connections(), sender.hit()), (2, Some(Limit::HttpRequests)));
}
