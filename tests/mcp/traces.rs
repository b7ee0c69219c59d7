//! What servers send to an OpenTelemetry collector, decoded as a real collector would.

use std::io::{Read, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;
use rustls::{ServerConnection, StreamOwned};
use serde_json::{Value, json};

use super::http::Server as Http;
use super::{Agent, NEW, OLD, Place, TRUSTED, becomes, request};
use crate::servers::{Server, respond};
use crate::tls::localhost;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Heads and bodies.
type Requests = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A collector that keeps what it receives.
pub struct Collector {
    server: Server,
    requests: Requests,
}

impl Collector {
    pub fn new() -> Collector {
        let requests = Requests::default();
        let kept = requests.clone();
        let server = Server::start(move |start, stream| {
            kept.lock().unwrap().push(read_request(start, stream));
            respond(stream, "200 OK", "content-type: application/x-protobuf\r\n", b"");
        });
        Collector { server, requests }
    }

    /// Makes a server send its spans here, without delay.
    pub fn of<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", self.server.url())
            .env("OTEL_BSP_SCHEDULE_DELAY", "50")
    }

    /// Listens with TLS too: returns the URL, and the authority's certificate as PEM.
    fn secure(&self) -> (String, String) {
        let (root, config) = localhost();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let kept = self.requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = StreamOwned::new(
                    ServerConnection::new(config.clone()).unwrap(),
                    stream.unwrap(),
                );
                let (mut start, mut byte) = (Vec::new(), [0]);
                // A client that does not trust it disconnects.
                while !start.ends_with(b"\r\n\r\n")
                    && stream.read(&mut byte).is_ok_and(|count| count == 1)
                {
                    start.push(byte[0]);
                }
                if start.ends_with(b"\r\n\r\n") {
                    kept.lock().unwrap().push(read_request(&start, &mut stream));
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
                }
            }
        });
        let base64 = base64::engine::general_purpose::STANDARD.encode(root);
        (
            format!("https://localhost:{port}"),
            format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n"),
        )
    }

    fn heads(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|(head, _)| head.clone()).collect()
    }

    fn spans(&self) -> Vec<(Resource, Span)> {
        let mut spans = Vec::new();
        for (_, body) in &*self.requests.lock().unwrap() {
            for of in ExportTraceServiceRequest::decode(&body[..]).unwrap().resource_spans {
                let resource = of.resource.unwrap();
                spans.extend(
                    of.scope_spans
                        .into_iter()
                        .flat_map(|scope| scope.spans)
                        .map(|span| (resource.clone(), span)),
                );
            }
        }
        spans
    }

    /// Returns the spans of calls, ordered by start.
    pub fn calls(&self) -> Vec<Span> {
        let mut calls: Vec<Span> = self
            .spans()
            .into_iter()
            .map(|(_, span)| span)
            .filter(|span| span.name.starts_with("tools/call"))
            .collect();
        calls.sort_by_key(|span| span.start_time_unix_nano);
        calls
    }

    /// Returns the names of all spans of a trace, ordered by start, and checks that each descends
    /// from a call.
    fn below(&self, call: &Span) -> Vec<String> {
        let mut spans: Vec<Span> = self
            .spans()
            .into_iter()
            .map(|(_, span)| span)
            .filter(|span| span.trace_id == call.trace_id)
            .collect();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        for span in &spans {
            let mut at = span;
            while at.span_id != call.span_id {
                at = spans
                    .iter()
                    .find(|above| above.span_id == at.parent_span_id)
                    .unwrap_or_else(|| panic!("{at:?} is below nothing"));
            }
        }
        spans.into_iter().map(|span| span.name).filter(|name| *name != call.name).collect()
    }

    /// Checks whether a text occurs in anything that was sent.
    pub fn has(&self, text: &str) -> bool {
        self.requests
            .lock()
            .unwrap()
            .iter()
            .any(|(_, body)| body.windows(text.len()).any(|part| part == text.as_bytes()))
    }
}

/// Reads the head of a request, and its complete body.
fn read_request(start: &[u8], stream: &mut impl Read) -> (String, Vec<u8>) {
    let end = start.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&start[..end]).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap()
        .parse()
        .unwrap();
    let mut body = start[end..].to_vec();
    let read = body.len();
    body.resize(length, 0);
    stream.read_exact(&mut body[read..]).unwrap();
    (head, body)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns an attribute as JSON.
fn attribute(span: &Span, key: &str) -> Value {
    let value = span
        .attributes
        .iter()
        .find(|attribute| attribute.key == key)
        .and_then(|found| found.value.clone()?.value);
    match value {
        None => Value::Null,
        Some(Any::StringValue(text)) => json!(text),
        Some(Any::IntValue(number)) => json!(number),
        Some(other) => panic!("{key} is {other:?}"),
    }
}

#[test]
fn a_call_is_a_child_span_with_its_phases() {
    let place = Place::new();
    let collector = Collector::new();
    let mut agent = Agent::new(collector.of(&mut place.server("mcp", &[])), OLD, &json!({}));
    agent.call("activate_skill", json!({ "name": "scribe" }));
    let parent =
        json!({ "traceparent": format!("00-{TRACE}-{PARENT}-01"), "tracestate": "vendor=1" });
    let arguments = json!({ "name": "scribe", "program": "scripts/note.sh", "args": ["an argument"], "stdin": "an input" });
    agent.ok("tools/call", json!({ "name": "run_skill", "arguments": arguments, "_meta": parent }));
    let started = "import subprocess; subprocess.run(['jq', '--version'])";
    agent.call(
        "run_skill",
        json!({ "name": "scribe", "program": "python3", "args": ["-c", started] }),
    );
    agent.close();

    let calls = collector.calls();
    assert_eq!(
        calls.iter().map(|span| &*span.name).collect::<Vec<_>>(),
        ["tools/call activate_skill", "tools/call run_skill", "tools/call run_skill"]
    );
    let [_, call, second] = &calls[..] else { unreachable!() };
    assert_eq!((hex(&call.trace_id), hex(&call.parent_span_id)), (TRACE.into(), PARENT.into()));
    assert_eq!((call.kind(), &*call.trace_state), (SpanKind::Server, "vendor=1"));
    assert!(second.parent_span_id.is_empty() && second.trace_id != call.trace_id);
    for (key, value) in [
        ("mcp.method.name", json!("tools/call")),
        ("mcp.protocol.version", json!(OLD)),
        ("gen_ai.operation.name", json!("execute_tool")),
        ("gen_ai.tool.name", json!("run_skill")),
        ("gen_ai.tool.type", json!("function")),
        ("jsonrpc.request.id", json!("3")),
        ("network.transport", json!("pipe")),
        ("network.protocol.name", Value::Null),
        ("skillhost.skill.name", json!("scribe")),
        ("skillhost.status", json!("exited")),
        ("skillhost.exit_code", json!(0)),
        ("skillhost.denials", json!(0)),
        ("error.type", Value::Null),
    ] {
        assert_eq!(attribute(call, key), value, "{key}: {call:#?}");
    }
    assert_eq!(attribute(call, "mcp.session.id"), attribute(second, "mcp.session.id"));
    assert!(attribute(call, "mcp.session.id").as_str().unwrap().starts_with("agent "));
    let record = place.user.records().remove(0);
    assert_eq!(attribute(call, "skillhost.skill.digest"), record["skill"]["digest"]);
    assert_eq!(attribute(call, "skillhost.memory_peak"), record["usage"]["memory_peak"]);

    let names = collector.below(call);
    for phase in [
        "skill",
        "copy",
        "grant",
        "approval",
        "queue",
        "log",
        "mounts",
        "load",
        "instantiate",
        "guest",
        "drop",
        "record",
    ] {
        assert_eq!(
            names.iter().filter(|name| *name == phase).count(),
            if phase == "log" { 2 } else { 1 },
            "{phase}: {names:?}"
        );
    }
    // A program is a child of the guest that started it: the shell starts Python, and Python starts
    // jq.
    let names = collector.below(second);
    assert_eq!(names.iter().filter(|name| *name == "process").count(), 2, "{names:?}");
    assert_eq!(names.iter().filter(|name| *name == "guest").count(), 3, "{names:?}");
}

#[test]
fn phases_on_other_threads_belong_to_the_call() {
    let place = Place::new();
    let collector = Collector::new();
    let policy = place.user.work().join("policy.yaml");
    std::fs::write(
        &policy,
        format!("{TRUSTED}deterministic: true\ndefault:\n  allow: [Read, Bash]\n"),
    )
    .unwrap();
    let mut agent = Agent::new(
        collector.of(&mut place.server("mcp", &["--policy", policy.to_str().unwrap()])),
        OLD,
        &json!({}),
    );
    agent.call("activate_skill", json!({ "name": "scribe" }));
    agent.call("run_skill", json!({ "name": "scribe", "program": "scripts/note.sh" }));
    agent.close();
    let call = &collector.calls()[1];
    assert!(attribute(call, "skillhost.fuel").as_i64().unwrap() > 0, "{call:#?}");
    let names = collector.below(call);
    for phase in ["queue", "instantiate", "guest", "drop", "record"] {
        assert_eq!(names.iter().filter(|name| *name == phase).count(), 1, "{phase}: {names:?}");
    }
}

#[test]
fn http_requests_have_parents_and_error_spans() {
    let place = Place::new();
    let collector = Collector::new();
    let mut command = place.server("serve", &["--listen", "127.0.0.1:0"]);
    collector
        .of(&mut command)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=of%20mine")
        .env("OTEL_SERVICE_NAME", "skills-of-mine");
    let server = Http::of(&mut command);
    let call = |id, name: &str, arguments: Value, meta: Value| {
        let mut message = request(
            NEW,
            id,
            "tools/call",
            json!({ "name": name, "arguments": arguments, "_meta": meta }),
        );
        message["id"] = json!(id);
        let other = format!("00-{TRACE}-{}-01", "1".repeat(16));
        let head = [
            ("MCP-Protocol-Version", NEW),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", name),
            ("traceparent", &other),
        ];
        server.post(&message, &head);
    };
    call(1, "discover_skills", json!({ "query": "units" }), json!({}));
    call(
        2,
        "run_skill",
        json!({ "name": "scribe", "program": "scripts/write.sh" }),
        json!({ "traceparent": format!("00-{TRACE}-{PARENT}-01") }),
    );
    call(3, "no_such_tool", json!({}), json!({}));
    becomes("three calls are reported", || collector.calls().len() == 3);
    let calls = collector.calls();
    let [found, refused, unknown] = &calls[..] else { unreachable!() };
    // The parent in a message takes precedence over that of its request.
    assert_eq!(
        [found, refused, unknown].map(|span| hex(&span.parent_span_id)),
        ["1".repeat(16), PARENT.into(), "1".repeat(16)]
    );
    assert_eq!(
        [found, refused, unknown].map(|span| attribute(span, "error.type")),
        [Value::Null, json!("tool_error"), json!("-32602")]
    );
    let status =
        |span: &Span| span.status.as_ref().map_or(StatusCode::Unset, |status| status.code());
    assert_eq!(
        [found, refused, unknown].map(status),
        [StatusCode::Unset, StatusCode::Error, StatusCode::Error]
    );
    assert_eq!(attribute(unknown, "rpc.response.status_code"), json!("-32602"));
    assert_eq!(attribute(refused, "skillhost.denials"), json!(1));
    for span in &calls {
        assert_eq!(
            (attribute(span, "network.transport"), attribute(span, "network.protocol.name")),
            (json!("tcp"), json!("http"))
        );
        assert_eq!(
            (attribute(span, "mcp.protocol.version"), attribute(span, "mcp.session.id")),
            (json!(NEW), Value::Null)
        );
    }
    let (resource, _) = collector.spans().remove(0);
    let of = Span { attributes: resource.attributes, ..Span::default() };
    assert_eq!(attribute(&of, "service.name"), json!("skills-of-mine"));
    assert_eq!(attribute(&of, "service.version"), json!(env!("CARGO_PKG_VERSION")));
    for head in collector.heads() {
        assert!(
            head.starts_with("post /v1/traces http/1.1\r\n")
                && head.contains("\r\nx-key: of mine\r\n"),
            "{head}"
        );
        assert!(head.contains("\r\ncontent-type: application/x-protobuf\r\n"), "{head}");
    }
}

#[test]
fn the_last_spans_are_sent_at_exit() {
    let place = Place::new();
    let collector = Collector::new();
    let mut command = place.server("mcp", &[]);
    // It appears after an hour only, under its own name.
    collector.of(&mut command).env("OTEL_BSP_SCHEDULE_DELAY", "3600000");
    let mut agent = Agent::new(&mut command, OLD, &json!({}));
    agent.call("discover_skills", json!({ "query": "units" }));
    assert_eq!(collector.spans().len(), 0);
    agent.close();
    assert_eq!(collector.calls().len(), 1);
    assert!(
        collector.has("service.name")
            && collector.has("skillhost")
            && !collector.has("unknown_service")
    );
}

#[test]
fn a_missing_collector_fails_no_call_and_warns_once() {
    let place = Place::new();
    let silent = Server::silent();
    let unused = format!(
        "http://127.0.0.1:{}",
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    );
    for url in [silent.url(), unused] {
        let mut command = place.server("mcp", &[]);
        command
            .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &url)
            .env("OTEL_BSP_SCHEDULE_DELAY", "10")
            .env("OTEL_EXPORTER_OTLP_TIMEOUT", "100");
        // Not everything fits; the rest is dropped.
        command.env("OTEL_BSP_MAX_QUEUE_SIZE", "4").env("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2");
        let mut agent = Agent::new(&mut command, OLD, &json!({}));
        agent.call("activate_skill", json!({ "name": "calculator" }));
        for number in 0..20 {
            let sum = agent
                .call("calculator.calculate", json!({ "expression": format!("{number} + 1") }));
            assert_eq!(sum["structuredContent"]["result"], (number + 1).to_string(), "{sum}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let log = agent.close();
        assert_eq!(log.matches("cannot reach the collector").count(), 1, "{log}");
        assert_eq!(log.lines().count(), 1, "{log}");
    }
    assert!(silent.connections() > 0);
}

#[test]
fn a_refusing_collector_is_reported_each_time() {
    let place = Place::new();
    let refuses = std::sync::atomic::AtomicBool::new(true);
    let server = Server::start(move |start, stream| {
        read_request(start, stream);
        let first = refuses.swap(false, std::sync::atomic::Ordering::SeqCst);
        respond(
            stream,
            if first { "401 Unauthorized" } else { "200 OK" },
            "",
            b"its response is not logged",
        );
    });
    let mut command = place.server("mcp", &[]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", server.url()).env("OTEL_BSP_SCHEDULE_DELAY", "10");
    let mut agent = Agent::new(&mut command, OLD, &json!({}));
    for batches in 1..=3 {
        agent.call("discover_skills", json!({ "query": "units" }));
        becomes("the batch is sent", || server.connections() >= batches);
    }
    let log = agent.close();
    let lines: Vec<&str> = log.lines().collect();
    assert!(
        lines.len() == 2
            && lines[0].contains("401 Unauthorized")
            && lines[1].contains("the collector responds again"),
        "{log}"
    );
}

#[test]
fn a_collector_with_tls_is_verified() {
    let place = Place::new();
    let collector = Collector::new();
    let (url, pem) = collector.secure();
    let file = place.user.work().join("authority.pem");
    std::fs::write(&file, pem).unwrap();
    for (authority, calls, expected_log) in
        [("", 0, "invalid peer certificate"), (file.to_str().unwrap(), 1, "")]
    {
        let mut command = place.server("mcp", &[]);
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &url)
            .env("OTEL_EXPORTER_OTLP_CERTIFICATE", authority);
        let mut agent = Agent::new(&mut command, OLD, &json!({}));
        agent.call("discover_skills", json!({ "query": "units" }));
        let log = agent.close();
        assert!(log.contains(expected_log) && log.is_empty() == expected_log.is_empty(), "{log}");
        assert_eq!(collector.calls().len(), calls);
    }
    assert!(collector.heads()[0].contains("\r\nhost: localhost:"), "{:?}", collector.heads());
}

#[test]
fn nothing_is_collected_unless_configured() {
    let place = Place::new();
    let collector = Collector::new();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.server.url());
    let set = |name, value: &str| (name, value.to_owned());
    for (variables, threads, expected_log) in [
        (vec![], 0, ""),
        (vec![set("OTEL_EXPORTER_OTLP_ENDPOINT", "")], 0, ""),
        (vec![endpoint.clone(), set("OTEL_SDK_DISABLED", "TRUE")], 0, ""),
        (vec![endpoint.clone(), set("OTEL_TRACES_EXPORTER", "none")], 0, ""),
        (
            vec![endpoint.clone(), set("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            0,
            "use http/protobuf",
        ),
        (
            vec![endpoint.clone(), set("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")],
            0,
            "a number of milliseconds",
        ),
        (
            vec![set("OTEL_EXPORTER_OTLP_ENDPOINT", "unix:/run/x")],
            0,
            "must start with http:// or https://",
        ),
        (vec![endpoint], 1, ""),
    ] {
        let mut command = place.server("mcp", &[]);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let mut agent = Agent::new(&mut command, OLD, &json!({}));
        agent.call("discover_skills", json!({ "query": "units" }));
        let tasks = std::fs::read_dir(format!("/proc/{}/task", agent.child.id())).unwrap();
        let names = tasks
            .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
        assert_eq!(
            names.filter(|name| name.starts_with("OpenTelemetry")).count(),
            threads,
            "{variables:?}"
        );
        if threads == 0 {
            let log = agent.close();
            assert!(
                log.contains(expected_log) && log.is_empty() == expected_log.is_empty(),
                "{variables:?}: {log}"
            );
            assert_eq!(collector.server.connections(), 0, "{variables:?}");
        }
    }
}
