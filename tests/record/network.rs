//! The network of a run: recorded from real servers, and replayed without them.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;

use super::{elsewhere, recording, same};
use crate::audit::digest;
use crate::cli::{copy, repository, text};
use crate::receipt::{Place, parsed};

/// For the policy of recordings that another host can replay without further input.
pub const PLAIN: &str = "record: { plain: [NAME, TOKEN, authorization, cookie, set-cookie] }\n";

/// A server that stops listening when it is dropped.
pub struct StoppableServer {
    pub port: u16,
    stopped: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl StoppableServer {
    /// Answers each request with its path, its body and its number, and a header `x-number`.
    pub fn start() -> StoppableServer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (port, stopped, number) = (
            listener.local_addr().unwrap().port(),
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let is_stopped = stopped.clone();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if is_stopped.load(Ordering::SeqCst) {
                    return;
                }
                let number = number.clone();
                std::thread::spawn(move || answer(&mut stream.unwrap(), &number));
            }
        });
        StoppableServer { port, stopped, thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The policy that lets a guest reach it.
    pub fn policy(&self, place: &Place, more: &str) -> String {
        let text =
            format!("default:\n  allow: [Read, Write, Bash, 'WebFetch({})']\n{more}", self.url());
        std::fs::write(place.path("policy.yaml"), text).unwrap();
        "policy.yaml".into()
    }
}

impl Drop for StoppableServer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        // The thread owns the listener. Another test may get its port at once.
        self.thread.take().unwrap().join().unwrap();
    }
}

fn answer(stream: &mut TcpStream, number: &AtomicUsize) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 65_536]);
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => bytes.extend_from_slice(&buffer[..n]),
            _ => return,
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length: usize = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok())
        .unwrap_or(0);
    while bytes.len() < head + length {
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => bytes.extend_from_slice(&buffer[..n]),
            _ => return,
        }
    }
    let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
    let auth = text
        .lines()
        .find_map(|line| line.strip_prefix("authorization: "))
        .unwrap_or("nobody")
        .to_owned();
    let number = number.fetch_add(1, Ordering::SeqCst);
    let (status, kind, body) = match path.as_str() {
        "/page" => (
            "200 OK",
            "text/html",
            "<html><head><title>T</title></head><body><h1>Head</h1><p>Some <b>text</b>.</p></body></html>".to_owned(),
        ),
        "/large" => ("200 OK", "text/plain", "0123456789".repeat(50_000)),
        "/cut" => ("200 OK", "text/plain", "cut".to_owned()),
        "/missing" => ("404 Not Found", "application/json", "{}".to_owned()),
        "/silent" => return,
        "/trailers" => {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n4\r\nbody\r\n0\r\n";
            let trailers = "set-cookie: id=cookie-of-a-trailer; Path=/\r\nauthorization: Bearer token-of-a-trailer\r\n\r\n";
            stream.write_all([head, trailers].concat().as_bytes()).ok();
            return;
        }
        "/slow" => {
            std::thread::sleep(std::time::Duration::from_millis(300));
            ("200 OK", "text/plain", "slow".to_owned())
        }
        _ => {
            let body = String::from_utf8_lossy(&bytes[head..]).into_owned();
            ("200 OK", "application/json", serde_json::json!({ "path": path, "auth": auth, "body": body, "number": number }).to_string())
        }
    };
    let length = body.len() + if path == "/cut" { 100 } else { 0 };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nx-number: {number}\r\nset-cookie: id=cookie-of-the-session-{number}; Path=/\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).ok();
}

/// A skill of the repository, in a place.
fn skill(place: &Place, name: &str) {
    copy(&repository("skills").join(name), &place.path(name));
    assert!(
        name != "web-fetch" || place.path("web-fetch/web-fetch.wasm").is_file(),
        "run `cargo xtask components` first"
    );
}

#[test]
fn web_fetch_and_api_probe_replay_without_the_server() {
    let place = Place::new();
    let server = StoppableServer::start();
    let policy = server.policy(&place, PLAIN);
    skill(&place, "web-fetch");
    skill(&place, "api-probe");
    let page = format!("{}/page", server.url());
    let fetch = place.skillhost(
        &["run", "./web-fetch", "--policy", &policy, "--record", "fetched", "--", &page],
        "",
    );
    assert!(fetch.status.code() == Some(0) && text(&fetch.stdout).contains("Head"), "{fetch:?}");
    let input = serde_json::json!({ "url": page, "links": true }).to_string();
    let tool = place.skillhost(
        &[
            "run",
            "./web-fetch",
            "fetch",
            "--input",
            &input,
            "--policy",
            &policy,
            "--record",
            "tool",
        ],
        "",
    );
    assert_eq!(
        (tool.status.code(), parsed(&tool.stdout)["title"].as_str()),
        (Some(0), Some("T")),
        "{tool:?}"
    );
    let list = format!(
        "base: {}\nendpoints:\n- {{name: a, path: /a}}\n- {{name: page, path: /page}}\n- {{name: order, path: /o, method: POST, json: {{k: v}}}}\n\
         - {{name: none, path: /missing, expect: {{status: 404}}}}\n- {{name: slow, path: /slow}}\n",
        server.url()
    );
    std::fs::write(place.path("w/list.yaml"), list).unwrap();
    let args = [
        "run",
        "./api-probe",
        "probe.py",
        "--policy",
        &policy,
        "--workspace",
        "w",
        "--timeout",
        "5m",
        "--record",
        "probed",
        "--",
        "--json",
        "list.yaml",
    ];
    let probe = place.skillhost(&args, "");
    assert_eq!(probe.status.code(), Some(0), "{probe:?}");
    // The time of the network is included in the guest's own measurement.
    assert!(text(&probe.stdout).contains("slow"), "{probe:?}");
    drop(server);
    for (folder, run) in [("fetched", &fetch), ("tool", &tool), ("probed", &probe)] {
        let other = elsewhere(&place.path(folder));
        same(&other, "theirs/rec", &[], run);
    }
    let recorded = recording(&place.path("probed"));
    assert_eq!(recorded["exchanges"].as_array().unwrap().len(), 5);
    let slow = recorded["exchanges"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["request"]["url"].as_str().unwrap().ends_with("/slow"))
        .unwrap();
    assert!(slow["took"].as_u64().unwrap() >= 300_000_000, "{slow}");
    let requests = recorded["receipt"]["result"]["requests"].as_array().unwrap();
    for (request, exchange) in requests.iter().zip(recorded["exchanges"].as_array().unwrap()) {
        assert_eq!(request["sent_digest"], exchange["request"]["body"]["digest"]);
        assert_eq!(request["received_digest"], exchange["response"]["head"]["body"]["digest"]);
    }
}

/// Runs a script with the server's address, records it, and replays it without the server.
fn again(name: &str, script: &str, code: i32, expected: &[&str]) -> Value {
    again_under(PLAIN, name, script, code, expected)
}

/// As [`again`], under a policy with more keys.
fn again_under(more: &str, name: &str, script: &str, code: i32, expected: &[&str]) -> Value {
    let place = Place::new();
    let server = StoppableServer::start();
    let policy = server.policy(&place, more);
    std::fs::write(place.path("sk/scripts").join(name), script).unwrap();
    std::fs::write(
        place.path("sk/SKILL.md"),
        "---\nname: sk\ndescription: Asks. Use to test.\nallowed-tools: Read Write Bash WebFetch\n---\n",
    )
    .unwrap();
    let args = [
        "run",
        "./sk",
        name,
        "--policy",
        &policy,
        "--workspace",
        "w",
        "--timeout",
        "5m",
        "--record",
        "rec",
        "--",
        &server.url(),
    ];
    let run = place.skillhost(&args, "");
    assert_eq!(run.status.code(), Some(code), "{run:?}");
    for text_of in expected {
        assert!(text(&run.stdout).contains(text_of), "{text_of}: {run:?}");
    }
    drop(server);
    same(&elsewhere(&place.path("rec")), "theirs/rec", &[], &run);
    recording(&place.path("rec"))
}

#[test]
fn rates_hold_on_the_clock_of_the_run_and_in_its_replay() {
    let script = r#"#!/bin/bash
begin=$(date +%s%N)
for page in one two three; do curl -s "$1/$page" > /dev/null || echo "failed: $page"; done
took=$(( ($(date +%s%N) - begin) / 1000000 ))
[ $took -ge 1000 ] && echo "at least a second" || echo "only $took ms"
"#;
    let more = format!("{PLAIN}limits: {{ http-rate: 2/s }}\n");
    again_under(&more, "ask.sh", script, 0, &["at least a second\n"]);
    // A turn after the deadline is refused in both, and nothing is sent.
    let more = format!("{PLAIN}limits: {{ http-host-rate: 1/min, http-total: 5s }}\n");
    let expected = ["failed: two\nfailed: three\n", "only "];
    let recorded = again_under(&more, "ask.sh", script, 0, &expected);
    assert_eq!(recorded["exchanges"].as_array().unwrap().len(), 1);
}

#[test]
fn curl_is_replayed_with_errors_limits_and_sleeps() {
    let script = r#"#!/bin/bash
date +%s.%N
curl -s -D - "$1/one?secret=query" -H 'X-Own: 1'; echo
curl -s -d @/skill/SKILL.md "$1/two" | wc -c
curl -s "$1/large" | md5sum
curl -s "$1/cut"; echo " exit $?"
curl -s "$1/silent"; echo " exit $?"
curl -s http://127.0.0.1:1/; echo " exit $?"
(curl -s "$1/slow"; date +%N) & sleep 0.1; date +%N; wait
curl -s "$1/three" > three; date +%s.%N; exit 3
"#;
    let recorded = again("ask.sh", script, 3, &["x-number", "slow", "exit 52"]);
    assert_eq!(recorded["exchanges"].as_array().unwrap().len(), 7, "{recorded}");
    let cut = &recorded["exchanges"][3]["response"];
    assert!(cut["head"]["status"] == 200 && cut["error"].is_object(), "{cut}");
    assert_eq!(
        recorded["receipt"]["result"]["requests"].as_array().unwrap().len(),
        8,
        "one was refused, and is in the account alone"
    );
}

#[test]
fn python_requests_and_threads_are_replayed() {
    let script = r#"import sys, time, uuid, threading, requests
from concurrent.futures import ThreadPoolExecutor
base = sys.argv[1]
session = requests.Session()
print(session.get(base + "/a", params={"q": str(uuid.uuid4())}).json())
print(session.post(base + "/b", json={"k": [1, "ü"]}).json()["body"], session.cookies.get_dict())
print(session.post(base + "/f", files={"file": ("n", b"\x00\xff" * 1000)}).json()["number"])
with ThreadPoolExecutor(4) as pool:
    print(list(pool.map(lambda n: requests.get(f"{base}/t{n}").json()["number"], range(8))))
print(len(requests.get(base + "/large").content), time.time(), time.monotonic())
try:
    requests.get(base + "/cut").content
except requests.exceptions.RequestException as error:
    print(type(error).__name__)
"#;
    let recorded = again("ask.py", script, 0, &["'/a?q=", "cookie-of-the-session"]);
    assert_eq!(recorded["exchanges"].as_array().unwrap().len(), 13);
}

#[test]
fn concurrent_requests_are_replayed() {
    let script = "#!/bin/bash\nfor n in 1 2 3 4 5; do curl -s \"$1/p$n\" > out$n & done; wait; cat out*; python3 -c 'print(7)'\n";
    let recorded = again("many.sh", script, 0, &["/p5"]);
    assert_eq!(recorded["exchanges"].as_array().unwrap().len(), 5);
}

#[test]
fn the_policy_applies_to_recordings_and_replays() {
    let place = Place::new();
    let server = StoppableServer::start();
    let policy = server.policy(&place, PLAIN);
    let other = StoppableServer::start();
    skill(&place, "web-fetch");
    let denied = place.skillhost(
        &["run", "./web-fetch", "--policy", &policy, "--record", "rec", "--", &other.url()],
        "",
    );
    assert_ne!(denied.status.code(), Some(0), "{denied:?}");
    let recorded = recording(&place.path("rec"));
    assert_eq!(
        (
            recorded["exchanges"].as_array().unwrap().len(),
            recorded["receipt"]["result"]["denials"].as_array().unwrap().len()
        ),
        (0, 1)
    );
    same(&place, "rec", &[], &denied);
    // A recording whose capabilities were removed answers nothing.
    super::tampered::change(&place.path("rec"), |recorded| {
        recorded["capabilities"]["fetch"] = serde_json::json!({ "all_of": [], "none_of": [] })
    });
    assert_eq!(place.skillhost(&["replay", "rec"], "").status.code(), Some(83));
}

#[test]
fn a_run_can_use_the_network_of_a_recording() {
    let place = Place::new();
    let server = StoppableServer::start();
    let policy = server.policy(&place, PLAIN);
    std::fs::write(
        place.path("sk/SKILL.md"),
        "---\nname: sk\ndescription: Asks. Use to test.\nallowed-tools: Bash WebFetch\n---\n",
    )
    .unwrap();
    std::fs::write(
        place.path("sk/scripts/run.sh"),
        "#!/bin/bash\nfor path in \"${@:2}\"; do curl -s \"$1/$path\" || echo \"exit $?\"; echo; done\n",
    )
    .unwrap();
    let url = server.url();
    let run = |flags: &[&str], args: &[&str]| {
        place.skillhost(
            &[&["run", "./sk", "run.sh", "--policy", &policy], flags, &["--", &url], args].concat(),
            "",
        )
    };
    let recorded = run(&["--record", "rec"], &["a", "b", "a?x=1"]);
    assert_eq!(recorded.status.code(), Some(0), "{recorded:?}");
    drop(server);
    // In another order, and again.
    let other = run(&["--recorded", "rec"], &["a?x=1", "a", "a"]);
    let numbers: Vec<u64> = text(&other.stdout)
        .lines()
        .filter_map(|line| parsed(line.as_bytes())["number"].as_u64())
        .collect();
    assert_eq!((numbers, other.status.code()), (vec![2, 0, 0], Some(0)), "{other:?}");
    let missed = run(&["--recorded", "rec"], &["a?x=2"]);
    let stderr = text(&missed.stderr);
    assert!(text(&missed.stdout).contains("exit"), "{missed:?}");
    assert!(stderr.contains("the closest one differs in url"), "{stderr}");
    assert!(
        stderr.contains("-GET")
            && stderr.contains("/a?x=1\n")
            && stderr.contains("+GET")
            && stderr.contains("/a?x=2\n"),
        "{stderr}"
    );
    let report = parsed(&run(&["--recorded", "rec", "--json"], &["a?x=2"]).stdout);
    assert_eq!(report["unrecorded"][0]["differs"], serde_json::json!(["url"]));
    assert_eq!(report["denials"].as_array().unwrap().len(), 1);
    // The guest does not learn what was recorded.
    let shown = run(&["--recorded", "rec"], &["z\" -v \"z"]);
    assert!(!text(&shown.stdout).contains("x=1"), "{shown:?}");
    assert!(Path::new(&place.path("rec")).is_dir());
}

#[test]
fn a_receipt_has_digests_of_bodies() {
    let place = Place::new();
    let server = StoppableServer::start();
    let policy = server.policy(&place, PLAIN);
    std::fs::write(
        place.path("sk/SKILL.md"),
        "---\nname: sk\ndescription: Asks. Use to test.\nallowed-tools: Bash WebFetch\n---\n",
    )
    .unwrap();
    let command = format!("curl -s -d hello {0}/large; curl -s {0}/missing", server.url());
    let args = ["run", "./sk", "--policy", &policy, "--command", &command];
    let run = place.skillhost(&[&args[..], &["--receipt", "r.json"]].concat(), "");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    let receipt = parsed(&std::fs::read(place.path("r.json")).unwrap());
    let requests = &receipt["result"]["requests"];
    assert_eq!(requests[0]["sent_digest"], digest(b"hello"));
    assert_eq!(requests[0]["received_digest"], digest("0123456789".repeat(50_000).as_bytes()));
    assert_eq!(
        (&requests[1]["sent_digest"], &requests[1]["received_digest"]),
        (&digest(b"").into(), &digest(b"{}").into())
    );
    let without = parsed(&place.skillhost(&[&args[..], &["--json"]].concat(), "").stdout);
    assert!(
        without["requests"][0]["sent_digest"].is_null()
            && without["requests"][0]["received"] == 500_000,
        "{without}"
    );
}
