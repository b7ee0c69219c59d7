//! `skillhost serve` over real sockets: access, limits, metrics and shutdown.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use skillhost::service::{Capacity, Service};
use skillhost_catalog::Catalog;
use skillhost_ledger::approval::Approvals;
use skillhost_ledger::usage::UsageRecorder;
use skillhost_policy::Policy;
use skillhost_server::http::{HttpOptions, serve};
use skillhost_server::{Mcp, Options};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{NEW, OLD, Place, answer_text, becomes, request};
use crate::hostile_host::{Fixture, HANG_TIMEOUT};

/// A server on a port of its own.
pub struct Server {
    pub child: Child,
    pub address: String,
    pub token: String,
    /// What else it prints.
    lines: Mutex<Option<Lines<BufReader<ChildStdout>>>>,
}

/// An answer: status, head and body.
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Server {
    pub fn new(place: &Place, args: &[&str]) -> Server {
        let args = [&["--listen", "127.0.0.1:0"], args].concat();
        Server::of(&mut place.server("serve", &args))
    }

    /// Starts a server from a command that prints its address.
    pub fn of(command: &mut Command) -> Server {
        let has_token = command.get_args().all(|arg| arg != "--no-token" && arg != "--token-file");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut stderr = child.stderr.take().unwrap();
        let mut line = || {
            lines.next().map(Result::unwrap).unwrap_or_else(|| {
                let mut said = String::new();
                stderr.read_to_string(&mut said).unwrap();
                panic!("the server has ended: {said}")
            })
        };
        let address =
            line().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
        let token = if has_token {
            line().strip_prefix("token: ").unwrap().to_owned()
        } else {
            String::new()
        };
        child.stderr = Some(stderr);
        Server { child, address, token, lines: Mutex::new(Some(lines)) }
    }

    /// The next line that it prints.
    pub fn line(&self) -> String {
        self.lines.lock().unwrap().as_mut().unwrap().next().unwrap().unwrap()
    }

    /// Sends a request as written, and reads the complete answer.
    fn send(&self, text: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        // A server that refuses may close before it has read everything.
        drop(stream.write_all(body.as_bytes()));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("no answer: {answer}"));
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(
            &format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{}\r\n", self.headers(headers)),
            "",
        )
    }

    /// A message of the protocol, with the headers that every client sends unless the test says
    /// otherwise.
    pub fn post(&self, message: &Value, headers: &[(&str, &str)]) -> Answer {
        let body = message.to_string();
        let mut all = vec![
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        all.extend(headers);
        let head = format!(
            "POST /mcp HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n{}\r\n",
            body.len(),
            self.headers(&all)
        );
        self.send(&head, &body)
    }

    fn headers(&self, given: &[(&str, &str)]) -> String {
        let mut text: String = given
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        for (name, value) in
            [("Host", self.address.clone()), ("Authorization", format!("Bearer {}", self.token))]
        {
            if given.iter().all(|(known, _)| *known != name) {
                text += &format!("{name}: {value}\r\n");
            }
        }
        text
    }

    /// Opens a session, and returns its id.
    pub fn session(&self) -> String {
        let params = json!({ "protocolVersion": OLD, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
        let answer = self.post(&request(OLD, 1, "initialize", params), &[]);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let id = answer
            .head
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "))
            .unwrap()
            .to_owned();
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(&initialized, &[("Mcp-Session-Id", &id)]).status, 202);
        id
    }

    /// Returns the result of a request in a session.
    pub fn ask(&self, session: &str, method: &str, params: Value) -> Value {
        let answer = self.post(
            &request(OLD, 7, method, params),
            &[("Mcp-Session-Id", session), ("MCP-Protocol-Version", OLD)],
        );
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.message()["result"].clone()
    }

    pub fn stop(&self) {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        )
        .unwrap();
    }
}

impl Answer {
    /// Returns the message with a result or an error, from an event stream or alone.
    fn message(&self) -> Value {
        let text = self.body.lines().filter_map(|line| {
            line.strip_prefix("data: ").or_else(|| line.starts_with('{').then_some(line))
        });
        let mut messages = text.filter_map(|text| serde_json::from_str::<Value>(text).ok());
        messages
            .find(|message| message.get("id").is_some())
            .unwrap_or_else(|| panic!("no message in {}", self.body))
    }
}

impl Server {
    /// Stops the server, and returns what it wrote to stderr.
    pub fn stderr_after_the_end(mut self) -> String {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn a_client_of_the_servers_user_causes_one_warning() {
    const WARNING: &str = "a client runs as the same user as this server";
    let mut server = Server::new(&Place::new(), &[]);
    let mut stderr = BufReader::new(server.child.stderr.take().unwrap()).lines();
    // The connection must still be in the kernel's table when the server looks it up.
    let open = TcpStream::connect(&server.address).unwrap();
    assert!(stderr.by_ref().any(|line| line.unwrap().contains(WARNING)));
    for _ in 0..3 {
        assert_eq!(server.get("/healthz", &[]).status, 200);
    }
    drop(open);
    server.stop();
    let rest: Vec<String> = stderr.map(|line| line.unwrap()).collect();
    assert!(!rest.iter().any(|line| line.contains(WARNING)), "{rest:?}");
}

#[test]
fn a_missing_or_wrong_token_is_refused() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    assert_eq!(server.token.len(), 64);
    let list = request(NEW, 1, "tools/list", json!({}));
    let wrong = format!("Bearer {}x", &server.token[..63]);
    for authorization in ["", "Bearer", "Bearer ", "Basic dGVzdA==", &wrong, &server.token] {
        for answer in [
            server.post(&list, &[("Authorization", authorization)]),
            server.get("/metrics", &[("Authorization", authorization)]),
        ] {
            assert_eq!(answer.status, 401, "{authorization}: {}", answer.body);
            assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
        }
    }
    assert_eq!(
        server.get("/metrics", &[("Authorization", &format!("bearer {}", server.token))]).status,
        200
    );
    assert_eq!(server.get("/healthz", &[("Authorization", "")]).body, "ok\n");
    // A token from a file is not printed.
    let file = place.user.work().join("token");
    std::fs::write(&file, "not a valid token").unwrap();
    let run = place
        .server("serve", &["--listen", "127.0.0.1:0", "--token-file", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(64), "{run:?}");
    let run = place.server("serve", &["--listen", "0.0.0.0:0", "--no-token"]).output().unwrap();
    assert!(
        run.status.code() == Some(64)
            && String::from_utf8_lossy(&run.stderr).contains("allowed on loopback addresses only"),
        "{run:?}"
    );
}

#[test]
fn clients_without_a_token_never_approve_their_own_runs() {
    let place = Place::new();
    let policy = place.user.work().join("asking.yaml");
    std::fs::write(&policy, "clients: { http: { ask: client } }\n").unwrap();
    let args = ["--listen", "127.0.0.1:0", "--no-token", "--policy", policy.to_str().unwrap()];
    let mut child =
        place.server("serve", &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A server that starts prints its address; one that refuses prints nothing to stdout, and
    // exits.
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    drop(child.kill());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        first.is_empty() && stderr.contains("lets HTTP clients approve their runs"),
        "{first}: {output:?}"
    );
    // With a token, the operator may choose any address.
    drop(Server::of(
        &mut place
            .server("serve", &["--listen", "127.0.0.1:0", "--policy", policy.to_str().unwrap()]),
    ));
}

#[test]
fn dns_rebinding_reaches_nothing() {
    let place = Place::new();
    let server = Server::new(
        &place,
        &["--no-token", "--allow-host", "skills.example", "--allow-origin", "https://app.example"],
    );
    let list = request(NEW, 1, "tools/list", json!({}));
    let head = [("MCP-Protocol-Version", NEW), ("Mcp-Method", "tools/list")];
    let port = server.address.rsplit_once(':').unwrap().1;
    for (host, status) in [
        (server.address.clone(), 200),
        (format!("localhost:{port}"), 200),
        ("skills.example".into(), 200),
        ("evil.example".into(), 403),
        (format!("evil.example:{port}"), 403),
        (format!("127.0.0.1.evil.example:{port}"), 403),
        ("localhost.evil.example".into(), 403),
        (format!("10.0.0.1:{port}"), 403),
    ] {
        let answer = server.post(&list, &[&head[..], &[("Host", &host)]].concat());
        assert_eq!(answer.status, status, "{host}: {}", answer.body);
        assert_eq!(server.get("/metrics", &[("Host", &host)]).status, status, "{host}");
    }
    for (origin, status) in [
        ("http://localhost:6274", 200),
        ("https://app.example", 200),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://localhost.evil.example", 403),
    ] {
        let answer = server.post(&list, &[&head[..], &[("Origin", origin)]].concat());
        assert_eq!(answer.status, status, "{origin}: {}", answer.body);
    }
    let two = server.send(
        &format!(
            "GET /metrics HTTP/1.1\r\nConnection: close\r\nHost: {}\r\nHost: evil.example\r\n\r\n",
            server.address
        ),
        "",
    );
    assert!(two.status == 403 || two.status == 400, "{}", two.status);
}

#[test]
fn sessions_are_separate_limited_and_time_out() {
    let place = Place::new();
    let server = Server::new(&place, &["--sessions", "2", "--idle", "2s"]);
    let (one, other) = (server.session(), server.session());
    assert_ne!(one, other);
    let params = json!({ "protocolVersion": OLD, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    let third = server.post(&request(OLD, 1, "initialize", params), &[]);
    assert_eq!(third.status, 503, "{}", third.body);
    // A request without a session needs none.
    let alone = server.post(
        &request(NEW, 1, "tools/list", json!({})),
        &[("MCP-Protocol-Version", NEW), ("Mcp-Method", "tools/list")],
    );
    assert_eq!(alone.status, 200, "{}", alone.body);
    server.ask(
        &one,
        "tools/call",
        json!({ "name": "activate_skill", "arguments": { "name": "scribe" } }),
    );
    let tools =
        |session| server.ask(session, "tools/list", json!({}))["tools"].as_array().unwrap().len();
    assert_eq!((tools(&one), tools(&other)), (5, 3));
    becomes("the session ends", || {
        std::thread::sleep(std::time::Duration::from_secs(3));
        server.post(&request(OLD, 2, "tools/list", json!({})), &[("Mcp-Session-Id", &one)]).status
            == 404
    });
    assert_eq!(
        server
            .post(&request(OLD, 2, "tools/list", json!({})), &[("Mcp-Session-Id", "none")])
            .status,
        404
    );
    server.session();
}

#[test]
fn bodies_and_heads_are_limited() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    let large = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "x".repeat(5 << 20) } });
    assert_eq!(server.post(&large, &[]).status, 413);
    let long = "x".repeat(1 << 20);
    assert!(server.get("/healthz", &[("X-Long", &long)]).status >= 400);
    assert_eq!(server.post(&json!("no message"), &[]).status / 100, 4);
    assert_eq!(server.get("/nothing", &[]).status, 404);
    assert_eq!(server.get("/healthz", &[]).status, 200, "it still serves");
}

#[test]
fn requests_without_a_session_run_and_are_counted() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    let call = |tool: &str, arguments: Value| {
        let message =
            request(NEW, 3, "tools/call", json!({ "name": tool, "arguments": arguments }));
        let answer = server.post(
            &message,
            &[("MCP-Protocol-Version", NEW), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)],
        );
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.message()["result"].clone()
    };
    let activated = answer_text(&call("activate_skill", json!({ "name": "calculator" })));
    assert!(
        activated.contains("calculator.calculate: ") && activated.contains("\"expression\""),
        "the answer contains the schema: {activated}"
    );
    assert_eq!(
        call("calculator.calculate", json!({ "expression": "6 * 7" }))["structuredContent"]["result"],
        "42"
    );
    let run =
        call("run_skill", json!({ "name": "scribe", "program": "note.sh", "args": ["alone"] }));
    assert_eq!(run["structuredContent"]["stdout"], "note: alone\n", "{run}");
    call("run_skill", json!({ "name": "scribe", "program": "write.sh" }));
    let metrics = server.get("/metrics", &[]);
    assert!(metrics.head.contains("text/plain; version=0.0.4"), "{}", metrics.head);
    for line in [
        "skillhost_invocations_total{skill=\"calculator\",status=\"exited\"} 1",
        "skillhost_invocations_total{skill=\"scribe\",status=\"exited\"} 2",
        "skillhost_invocation_seconds_count{skill=\"scribe\"} 2",
        "skillhost_denials_total{skill=\"scribe\",kind=\"path\"} 1",
        "skillhost_activations_total{skill=\"calculator\",disclosure=\"deferred\"} 1",
        "skillhost_queue_running 0",
        "skillhost_queue_waiting 0",
        "skillhost_queue_memory_bytes 0",
    ] {
        assert!(
            metrics.body.lines().any(|found| found == line),
            "{line} is not in\n{}",
            metrics.body
        );
    }
    let documented =
        std::fs::read_to_string(crate::cli::repository("docs/guide/observability.md")).unwrap();
    let names: Vec<&str> =
        documented.split('`').filter(|word| word.starts_with("skillhost_")).collect();
    // No user of a client was asked here, and a metric without series is not sent.
    let names = names.into_iter().filter(|name| *name != "skillhost_approval_answers_total");
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 9, "{names:?}");
    for name in names {
        assert!(
            metrics.body.contains(&format!("# TYPE {name} ")),
            "{name} is not in\n{}",
            metrics.body
        );
    }
}

#[test]
fn requests_without_a_session_share_nothing_and_see_changes() {
    let place = Place::new();
    let script = |text: &str| format!("#!/bin/bash\necho {text}\nls /workspace\n");
    place.write("writer/scripts/list.sh", script("one"));
    place.write(
        "writer/scripts/fail.sh",
        "#!/bin/bash\ntouch /workspace/x; rm /workspace/x; exit 1\n",
    );
    // Skills that have just changed are loaded for each run.
    std::thread::sleep(Duration::from_millis(2_500));
    let server = Server::new(&place, &[]);
    let run_as = |client: &str, program: &str| {
        let arguments = json!({ "name": "writer", "program": program, "stdin": "secret" });
        let params = json!({ "name": "run_skill", "arguments": arguments });
        let mut message = request(NEW, 3, "tools/call", params);
        message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] = client.into();
        let answer = server.post(
            &message,
            &[
                ("MCP-Protocol-Version", NEW),
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", "run_skill"),
            ],
        );
        answer.message()["result"]["structuredContent"]["stdout"].as_str().unwrap().to_owned()
    };
    let run = |program: &str| run_as("test", program);
    let folders = || {
        let entries = std::fs::read_dir(place.user.root().join("tmp")).unwrap();
        let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        found.retain(|path| path.to_string_lossy().contains("skillhost-session-"));
        found
    };
    // A folder returns shortly after the answer, so several runs may be needed.
    let reuses = |client: &str| {
        let before = folders();
        assert_eq!(run_as(client, "list.sh"), "one\n");
        !before.is_empty() && folders() == before
    };
    becomes("a folder is used again", || reuses("test"));
    becomes("a folder is used again for another client", || reuses("other"));
    let records = place.user.records();
    let client = &records.last().unwrap()["session"]["client"];
    assert_eq!(client, "other", "the record names the client of its run");
    becomes("folders that were changed are removed", || {
        run("fail.sh");
        folders().is_empty()
    });
    assert_eq!(run("list.sh"), "one\n");
    run("write.sh");
    assert_eq!(run("list.sh"), "one\n", "the client can read the written file, and no other run");
    // Twice: the second run is one of a loaded skill.
    let change = |text: &str| {
        place.write("writer/scripts/list.sh", script(text));
        assert_eq!([run("list.sh"), run("list.sh")], [format!("{text}\n"), format!("{text}\n")]);
    };
    change("two");
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!([run("list.sh"), run("list.sh")], ["two\n", "two\n"]);
    change("ten");
    // Another folder at the same path, whose files settled long ago.
    let (skill, other) = (place.skills().join("writer"), place.user.work().join("other"));
    std::fs::create_dir_all(other.join("scripts")).unwrap();
    std::fs::copy(skill.join("SKILL.md"), other.join("SKILL.md")).unwrap();
    std::fs::write(other.join("scripts/list.sh"), script("moved")).unwrap();
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!([run("list.sh"), run("list.sh")], ["ten\n", "ten\n"]);
    std::fs::rename(&skill, place.user.work().join("before")).unwrap();
    std::fs::rename(&other, &skill).unwrap();
    assert_eq!([run("list.sh"), run("list.sh")], ["moved\n", "moved\n"]);
    server.stop();
    becomes("no folder is left", || folders().is_empty());
}

#[test]
fn without_a_session_no_session_approval_is_offered() {
    let place = Place::new();
    let workspace = place.user.work().join("shared");
    std::fs::create_dir(&workspace).unwrap();
    let server = Server::new(
        &place,
        &["--workspace", workspace.to_str().unwrap(), "--policy", &place.asking_clients()],
    );
    let arguments = json!({ "name": "writer", "program": "write.sh", "stdin": "x" });
    let head =
        [("MCP-Protocol-Version", NEW), ("Mcp-Method", "tools/call"), ("Mcp-Name", "run_skill")];
    let ask = |more: &Value| {
        let mut message =
            request(NEW, 3, "tools/call", json!({ "name": "run_skill", "arguments": arguments }));
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({ "elicitation": {} });
        more.as_object()
            .unwrap()
            .iter()
            .for_each(|(key, value)| message["params"][key] = value.clone());
        server.post(&message, &head).message()["result"].clone()
    };
    let asked = ask(&json!({}));
    let form = &asked["inputRequests"]["approval"]["params"]["requestedSchema"];
    assert_eq!(form["properties"]["allow"]["enum"], json!(["once", "no"]), "{asked}");
    let answer = |word: &str| {
        let state = ask(&json!({}))["requestState"].clone();
        let response = json!({ "approval": { "action": "accept", "content": { "allow": word } } });
        ask(&json!({ "requestState": state, "inputResponses": response }))
    };
    let session = answer("session");
    assert!(
        session["isError"] == true && answer_text(&session).contains("did not allow"),
        "{session}"
    );
    assert_eq!(answer("once")["isError"], false);
    assert_eq!(ask(&json!({}))["resultType"], "input_required", "it was for one run");
}

/// Starts a server with full logging, and returns its address, and its log once it has output.
fn logging(
    place: &Place,
    token: &str,
) -> (Server, BufReader<std::process::ChildStdout>, std::thread::JoinHandle<std::io::Result<String>>)
{
    let file = place.user.work().join("token");
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let args =
        ["--listen", "127.0.0.1:0", "--log", "trace", "--token-file", file.to_str().unwrap()];
    let mut child =
        place.server("serve", &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let log = std::thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).map(|_| log)
    });
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let address =
        line.trim().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
    (Server { child, address, token: token.into(), lines: Mutex::new(None) }, stdout, log)
}

#[test]
fn tokens_from_files_are_not_printed_or_logged() {
    let place = Place::new();
    let token = "0123456789abcdef-of-a-file";
    let (mut server, mut stdout, log) = logging(&place, token);
    server.session();
    assert_eq!(
        server
            .post(
                &request(NEW, 1, "tools/list", json!({})),
                &[("Authorization", "Bearer wrong-wrong-wrong")]
            )
            .status,
        401
    );
    server.stop();
    assert!(server.child.wait().unwrap().success());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "the address is all that is printed");
    let log = log.join().unwrap().unwrap();
    assert!(
        log.contains("TRACE") && !log.contains(token),
        "{}",
        log.lines().find(|line| line.contains(token)).unwrap_or("no log")
    );
}

#[test]
fn the_log_contains_no_session_id() {
    let place = Place::new();
    let (mut server, _stdout, log) = logging(&place, "0123456789abcdef-of-a-file");
    let session = server.session();
    server.ask(&session, "tools/list", json!({}));
    server.stop();
    assert!(server.child.wait().unwrap().success());
    let log = log.join().unwrap().unwrap();
    assert!(log.contains("create new session"), "the protocol's library logs the session: {log}");
    assert!(
        !log.contains(&session),
        "{}",
        log.lines().find(|line| line.contains(&session)).unwrap_or_default()
    );
}

/// A server in this process, and what stops it.
async fn listening(
    options: HttpOptions,
) -> (Fixture, std::net::SocketAddr, tokio::sync::oneshot::Sender<()>, tokio::task::JoinHandle<()>)
{
    let fixture = Fixture::new();
    let mcp = Mcp::new(Options {
        catalog: Catalog::open(Vec::new(), None).unwrap(),
        service: Service::new(fixture.host.clone(), Capacity::default()),
        policy: Policy::builtin(),
        approvals: Approvals::open(&fixture.path("approvals.db")),
        scratch: fixture.path(""),
        hidden: Vec::new(),
        usage: UsageRecorder::disabled(),
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(serve(
        mcp,
        None,
        listener,
        options,
        async { drop(stopped.await) },
        std::future::pending(),
    ));
    (fixture, address, stop, server)
}

/// Opens a connection and writes to it.
async fn sent(address: std::net::SocketAddr, text: &str) -> tokio::net::TcpStream {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn connections_wait_while_all_are_busy() {
    assert_eq!(HttpOptions::default().connections, 256);
    let (_arena, address, stop, server) =
        listening(HttpOptions { connections: 1, ..HttpOptions::default() }).await;
    let alive = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let answer = async |stream: &mut tokio::net::TcpStream| stream.read(&mut [0; 8]).await.unwrap();
    // A body that is on its way. The server asks for it, so the request has begun.
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    );
    let mut busy = sent(address, &head).await;
    assert_eq!(answer(&mut busy).await, 8);
    let mut late = sent(address, &alive).await;
    let early = tokio::time::timeout(Duration::from_millis(200), answer(&mut late)).await;
    assert!(early.is_err(), "the server accepts no more connections");
    // The body arrives, and the connection becomes idle.
    busy.write_all(b"{}").await.unwrap();
    assert_eq!(tokio::time::timeout(HANG_TIMEOUT, answer(&mut late)).await.unwrap(), 8, "there is");
    drop((late, busy, stop));
    tokio::time::timeout(HANG_TIMEOUT, server).await.unwrap().unwrap();
}

#[tokio::test]
async fn idle_connections_do_not_block_others() {
    let (_arena, address, stop, server) =
        listening(HttpOptions { connections: 4, ..HttpOptions::default() }).await;
    let alive = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n");
    // Each is accepted before the next: nothing, part of a head, and an answered request.
    let mut idle = Vec::new();
    for text in ["", "GET /healthz HTTP/1.1\r\n", &alive, ""] {
        idle.push(sent(address, text).await);
    }
    for _ in 0..8 {
        let mut next = sent(address, &alive).await;
        let read = tokio::time::timeout(Duration::from_secs(5), next.read(&mut [0; 8])).await;
        assert_eq!(read.expect("less than a client may take for a head").unwrap(), 8);
        idle.push(next);
    }
    // The oldest was closed first.
    assert_eq!(
        tokio::time::timeout(HANG_TIMEOUT, idle[0].read(&mut [0; 8])).await.unwrap().unwrap_or(0),
        0
    );
    drop((idle, stop));
    tokio::time::timeout(HANG_TIMEOUT, server).await.unwrap().unwrap();
}

#[tokio::test]
async fn heads_and_bodies_must_arrive_in_time() {
    let within = Duration::from_millis(50);
    let (_arena, address, stop, server) = listening(HttpOptions {
        head_within: within,
        body_within: within,
        ..HttpOptions::default()
    })
    .await;
    let body = format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Length: 9\r\n\r\n{{");
    for (text, answer) in [("GET /healthz HTTP/1.1\r\n", ""), (&body, "HTTP/1.1 408 ")] {
        let mut slow = sent(address, text).await;
        let mut read = vec![0; answer.len().max(1)];
        let count = tokio::time::timeout(Duration::from_secs(5), slow.read(&mut read))
            .await
            .expect("less than the default")
            .unwrap_or(0);
        assert_eq!(String::from_utf8_lossy(&read[..count]), answer, "{text}");
    }
    drop(stop);
    tokio::time::timeout(HANG_TIMEOUT, server).await.unwrap().unwrap();
}

#[tokio::test]
async fn requests_without_a_session_are_limited() {
    let (_arena, address, stop, server) =
        listening(HttpOptions { sessions: 1, ..HttpOptions::default() }).await;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    );
    let answer = async |stream: &mut tokio::net::TcpStream| {
        let mut read = [0; 12];
        let count =
            tokio::time::timeout(HANG_TIMEOUT, stream.read(&mut read)).await.unwrap().unwrap();
        String::from_utf8_lossy(&read[..count]).into_owned()
    };
    // The server asks for the body: the request has begun, and does not end.
    let mut first = sent(address, &head).await;
    assert_eq!(answer(&mut first).await, "HTTP/1.1 100");
    let mut second = sent(address, &head).await;
    assert_eq!(answer(&mut second).await, "HTTP/1.1 503");
    drop((first, second, stop));
    tokio::time::timeout(HANG_TIMEOUT, server).await.unwrap().unwrap();
}

#[test]
fn the_session_limit_holds_in_every_revision() {
    let place = Place::new();
    let server = Server::new(&place, &["--sessions", "2"]);
    let open = |revision: &str| {
        let params = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
        server.post(&request(OLD, 1, "initialize", params), &[("MCP-Protocol-Version", revision)])
    };
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let asks: Vec<_> = (0..12)
            .map(|n| scope.spawn(move || open(if n % 2 == 0 { NEW } else { OLD }).status))
            .collect();
        asks.into_iter().map(|ask| ask.join().unwrap()).collect()
    });
    let made = answers.iter().filter(|status| **status == 200).count();
    assert!(made <= 2 && answers.iter().all(|status| [200, 503].contains(status)), "{answers:?}");
    for revision in [OLD, NEW, OLD, NEW] {
        open(revision);
    }
    for revision in [OLD, NEW] {
        assert_eq!(open(revision).status, 503, "{revision}");
    }
    let sessions = server.get("/metrics", &[]).body;
    assert!(sessions.lines().any(|line| line == "skillhost_sessions 2"), "{sessions}");
}

#[test]
fn runs_at_shutdown_are_interrupted_and_recorded() {
    stops_during_a_run(1);
}

#[test]
fn a_second_signal_interrupts_runs_at_once() {
    // A single signal leaves the run 10 s.
    assert!(stops_during_a_run(2) < Duration::from_secs(10));
}

/// Sends a server these signals while it waits for a run that does not end by itself, and returns
/// how long it takes to end.
fn stops_during_a_run(signals: u32) -> Duration {
    let place = Place::new();
    let mut server = Server::new(&place, &[]);
    let session = server.session();
    server.ask(
        &session,
        "tools/call",
        json!({ "name": "activate_skill", "arguments": { "name": "scribe" } }),
    );
    let start = std::thread::scope(|scope| {
        let message = request(
            OLD,
            8,
            "tools/call",
            json!({ "name": "run_skill", "arguments": { "name": "scribe", "program": "wait.sh" } }),
        );
        let (server, session) = (&server, &session);
        scope.spawn(move || {
            // Its connection is closed before it has an answer.
            let body = message.to_string();
            let head = server.headers(&[("Mcp-Session-Id", session), ("Accept", "application/json, text/event-stream")]);
            let head = format!("POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{head}\r\n", body.len());
            let mut stream = TcpStream::connect(&server.address).unwrap();
            stream.write_all((head + &body).as_bytes()).unwrap();
            drop(stream.read_to_end(&mut Vec::new()));
        });
        becomes("it runs", || {
            server.get("/metrics", &[]).body.contains("\nskillhost_queue_running 1\n")
        });
        let start = std::time::Instant::now();
        for _ in 0..signals {
            server.stop();
            // Signals of one kind that arrive together are one.
            std::thread::sleep(Duration::from_millis(300));
        }
        start
    });
    assert!(server.child.wait().unwrap().success());
    let took = start.elapsed();
    assert_eq!(place.user.records().last().unwrap()["status"]["kind"], "interrupted");
    assert_eq!(place.user.scratch(), Vec::<std::path::PathBuf>::new());
    took
}

#[test]
fn a_body_that_is_not_json_is_a_bad_request() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    let headers = server.headers(&[("Content-Type", "application/json"), ("Content-Length", "4")]);
    let head = format!("POST /mcp HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    let answer = server.send(&head, "{bad");
    assert_eq!(answer.status, 400);
    assert!(answer.body.starts_with("the body is not valid JSON: "), "{}", answer.body);
}

#[test]
fn signals_stop_the_server_and_clean_up() {
    let place = Place::new();
    let mut server = Server::new(&place, &[]);
    let session = server.session();
    server.ask(
        &session,
        "tools/call",
        json!({ "name": "activate_skill", "arguments": { "name": "writer" } }),
    );
    let run = json!({ "name": "run_skill", "arguments": { "name": "writer", "program": "write.sh", "stdin": "x" } });
    assert_eq!(server.ask(&session, "tools/call", run)["isError"], false);
    server.stop();
    assert!(server.child.wait().unwrap().success());
    assert!(TcpStream::connect(&server.address).is_err());
    assert_eq!(place.user.scratch(), Vec::<std::path::PathBuf>::new());
}
