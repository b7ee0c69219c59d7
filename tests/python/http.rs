//! Requests that Python sends in one host call are subject to the same limits as all others, and
//! are never sent twice.

use std::io::Write as _;
use std::process::Output;

use super::Place;
use crate::cli::text;
use crate::servers::{Server, respond};

/// Sends a body of the given size, the given number of times.
const SCRIPT: &str = "import sys, urllib.request
url, length, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for _ in range(times):
    print(len(urllib.request.urlopen(url, data=b'x' * length).read()))";

fn ask(server: &Server, limits: &str, length: u32, times: u32) -> Output {
    let place = Place::new(SCRIPT);
    place.write(
        "SKILL.md",
        "---\nname: py\ndescription: Asks. Use to test.\nallowed-tools: WebFetch\n---\n",
    );
    place.write(
        "policy.yaml",
        &format!("limits: {{ {limits} }}\ndefault: {{ allow: ['WebFetch({})'] }}\n", server.url()),
    );
    place.run(&[
        "main",
        "--policy",
        "py/policy.yaml",
        "--",
        &server.url(),
        &length.to_string(),
        &times.to_string(),
    ])
}

fn succeeds(run: Output, prints: &str) {
    assert_eq!(
        (run.status.code(), text(&run.stdout).as_str(), text(&run.stderr).as_str()),
        (Some(0), prints, "")
    );
}

fn assert_hit(run: Output, limit: &str) {
    let stderr = text(&run.stderr);
    assert!(
        !run.status.success() && stderr.contains(&format!("error: the limit `{limit}` of ")),
        "{stderr}"
    );
}

#[test]
fn the_number_of_requests_is_limited() {
    let server = Server::of_size(10);
    succeeds(ask(&server, "http-requests: 2", 1, 2), "10\n10\n");
    assert_hit(ask(&server, "http-requests: 2", 1, 3), "http-requests");
    assert_eq!(server.connections(), 4);
}

#[test]
fn the_request_body_size_is_limited() {
    let server = Server::start(|_, stream| respond(stream, "200 OK", "", b"x"));
    succeeds(ask(&server, "http-request-body: 1000", 1000, 1), "1\n");
    assert_hit(ask(&server, "http-request-body: 1000", 1001, 1), "http-request-body");
    assert_eq!(server.connections(), 1);
}

#[test]
fn response_size_counts_body_bytes_within_and_after_the_head() {
    let server = Server::of_size(1000);
    succeeds(ask(&server, "http-response-body: 1000", 1, 1), "1000\n");
    assert_hit(ask(&server, "http-response-body: 999", 1, 1), "http-response-body");
    let endless = Server::start(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok();
        while stream.write_all(&[b'x'; 1000]).is_ok() {}
    });
    assert_hit(ask(&endless, "http-response-body: 300000", 1, 1), "http-response-body");
}

#[test]
fn first_byte_and_total_times_are_limited() {
    let server = Server::silent();
    assert_hit(ask(&server, "http-first-byte: 100ms", 1, 1), "http-first-byte");
    assert_hit(ask(&server, "http-total: 100ms", 1, 1), "http-total");
    assert_hit(ask(&Server::dripping(), "http-total: 300ms", 1, 1), "http-total");
    assert_eq!(server.connections(), 2);
}
