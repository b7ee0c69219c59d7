//! Attempts to escape over the network.

use std::net::{IpAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::http::Resolver;

use super::{denied, report};
use crate::hostile_host::{Fixture, hostile};
use crate::servers::{Server, respond};

#[test]
pub fn sockets_are_unavailable() {
    let fixture = Fixture::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let datagrams = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    denied(&fixture, fixture.run(&["sockets", &port.to_string()]).allow("WebFetch"));
    listener.set_nonblocking(true).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "a connection arrived");
    assert!(datagrams.recv(&mut [0; 16]).is_err(), "a datagram arrived");
}

#[test]
pub fn host_names_are_not_resolved() {
    let fixture = Fixture::new();
    denied(&fixture, fixture.run(&["dns"]).allow("WebFetch"));
}

#[test]
pub fn private_addresses_are_not_contacted() {
    let fixture = Fixture::new();
    let server = Server::of_size(10);
    let local = format!("http://localhost:{}/", server.port);
    // With no grant, a grant for all hosts, one for other hosts, and one that a denial overrides.
    let url = server.url();
    let run = || fixture.run(&["http-private", &url, &local]);
    denied(&fixture, run());
    denied(&fixture, run().allow("WebFetch"));
    denied(
        &fixture,
        run().allow("WebFetch(domain:*.internal)").allow("WebFetch(domain:allowed.test)"),
    );
    let denying = format!("WebFetch({url})");
    denied(&fixture, fixture.run(&["http-private", &url]).allow(&denying).deny(&denying));
    assert_eq!(server.connections(), 0);
}

#[test]
pub fn a_private_address_is_contacted_if_the_operator_names_it() {
    let fixture = Fixture::new();
    let server = Server::of_size(10);
    let outcome = fixture
        .run(&["fetch", &server.url(), "1"])
        .allow(&format!("WebFetch({})", server.url()))
        .succeeds();
    assert_eq!(report(&outcome)["detail"]["answers"]["200 10 bytes"], 1);
    assert_eq!(server.connections(), 1);
}

#[test]
pub fn no_spelling_of_loopback_gets_through() {
    let fixture = Fixture::new();
    let server = Server::of_size(10);
    let port = server.port.to_string();
    denied(
        &fixture,
        fixture
            .run(&["http-spellings", &port])
            .allow("WebFetch")
            .allow("WebFetch(domain:allowed.test)"),
    );
    assert_eq!(server.connections(), 0);
}

#[test]
pub fn a_redirect_is_checked_like_a_request() {
    let fixture = Fixture::new();
    let inner = Server::of_size(10);
    let targets = [
        inner.url(),
        format!("http://localhost:{}/", inner.port),
        format!("http://[::ffff:127.0.0.1]:{}/", inner.port),
    ];
    for target in
        targets.into_iter().chain(["file:///etc/passwd".into(), "gopher://127.0.0.1:1/".into()])
    {
        let outer = Server::redirecting(target);
        let outcome = denied(
            &fixture,
            fixture
                .run(&["http-redirect", &outer.url()])
                .allow(&format!("WebFetch({})", outer.url())),
        );
        assert_eq!(
            outcome.requests.iter().filter(|request| request.status == Some(302)).count(),
            2,
            "{:?}",
            outcome.requests
        );
        assert_eq!(outer.connections(), 2);
    }
    assert_eq!(inner.connections(), 0);
}

#[test]
pub fn an_allowed_name_with_a_private_address_is_refused() {
    let server = Server::of_size(10);
    let addresses = [
        ("loopback.test", "127.0.0.1"),
        ("loopback6.test", "::1"),
        ("mapped.test", "::ffff:127.0.0.1"),
        ("metadata.test", "169.254.169.254"),
        ("lan.test", "10.0.0.1"),
        ("nowhere.test", "0.0.0.0"),
        ("translated.test", "64:ff9b::7f00:1"),
    ];
    let names = addresses
        .iter()
        .map(|(name, address)| ((*name).to_owned(), vec![address.parse::<IpAddr>().unwrap()]))
        .collect();
    let fixture = Fixture::with(&hostile(), Resolver::Static(names));
    let urls: Vec<String> =
        addresses.iter().map(|(name, _)| format!("http://{name}:{}", server.port)).collect();
    let mut args = vec!["http-rebinding"];
    args.extend(urls.iter().map(String::as_str));
    let run = urls
        .iter()
        .fold(fixture.run(&args), |run, url| run.allow(&format!("WebFetch({url})")))
        .limit(Limit::HttpRequests, 10_000);
    let outcome = denied(&fixture, run);
    assert!(
        outcome.denials.iter().any(|denial| denial.what.contains("loopback.test")),
        "{:?}",
        outcome.denials
    );
    assert_eq!(server.connections(), 0);
}

#[test]
pub fn one_request_stays_one_request() {
    let fixture = Fixture::new();
    let server = Server::echo();
    let run = fixture
        .run(&["http-smuggling", &server.url()])
        .allow(&format!("WebFetch({})", server.url()))
        .limit(Limit::HttpRequests, 10_000);
    denied(&fixture, run.limit(Limit::HttpTotal, 5_000));
    assert!(server.connections() > 0, "no request arrived, so nothing was tested");
}

#[test]
pub fn control_characters_of_servers_reach_no_terminal_or_log() {
    let fixture = Fixture::new();
    let server = Server::start(|_, stream| {
        respond(stream, "200 \x1b[2J", "x-evil: \x1b]0;a title\x07\r\n", b"\x1b[2J")
    });
    let outcome = fixture
        .run(&["fetch", &server.url(), "1"])
        .allow(&format!("WebFetch({})", server.url()))
        .go();
    assert!(
        !format!("{:?}{:?}", outcome.requests, outcome.denials).contains('\x1b'),
        "{outcome:?}"
    );
    fixture.assert_alive();
}

#[test]
pub fn a_misbehaving_server_is_abandoned() {
    use std::io::Write as _;
    type Misbehaviour = fn(&mut std::net::TcpStream);
    let servers: [(&str, Misbehaviour); 8] = [
        ("no answer", |_| ()),
        ("no HTTP", |stream| drop(stream.write_all(&[0xff; 100_000]))),
        ("a head without end", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").ok();
            while stream
                .write_all(b"x-more: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n")
                .is_ok()
            {}
        }),
        ("a header without end", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nx-more: ").ok();
            while stream.write_all(&[b'x'; 1000]).is_ok() {}
        }),
        ("continuing without end", |stream| {
            while stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_ok() {}
        }),
        ("a head that drips", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nx-more: ").ok();
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }),
        ("two lengths", |stream| {
            drop(
                stream.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 100\r\n\r\nx",
                ),
            )
        }),
        ("a chunk beyond numbers", |stream| {
            drop(stream.write_all(
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nx",
            ));
        }),
    ];
    let fixture = Fixture::new();
    for (name, misbehaviour) in servers {
        let server = Server::start(move |_, stream| misbehaviour(stream));
        for version in ["0.3", "0.2"] {
            let started = Instant::now();
            let run = fixture
                .run(&["fetch", &server.url(), "1", version])
                .allow(&format!("WebFetch({})", server.url()));
            let outcome = run
                .limit(Limit::HttpFirstByte, 500)
                .limit(Limit::HttpTotal, 2_000)
                .limit(Limit::Timeout, 20_000)
                .go();
            let ended = matches!(&outcome.status, Status::Exited { code: 1 } | Status::LimitHit(_));
            assert!(
                ended && !outcome.limits_hit.iter().any(|hit| hit.limit == Limit::Timeout),
                "{name} {version}: {outcome:?}"
            );
            // Far above the limits, so that only a request without end fails on a busy machine.
            assert!(
                started.elapsed() < Duration::from_secs(15),
                "{name} {version}: {:?}",
                started.elapsed()
            );
            assert!(outcome.usage.memory_peak < 64 << 20);
        }
        fixture.assert_alive();
    }
}
