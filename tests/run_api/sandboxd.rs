//! The `sandboxd` protocol of kubernetes-sigs/agent-sandbox, over real sockets: programs over gRPC, and
//! files over REST.

mod grpc;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use prost::Message as _;
use serde_json::{Value, json};

use super::commands::Client;
use super::{Answer, ApiServer, parsed, tenants_file};
use crate::hostile_host::HANG_TIMEOUT;
use crate::mcp::Place;
use grpc::{Caller, Config, Execute, Executed, Exit, Started, Stdin, code};

/// A server that speaks the protocol.
struct SandboxServer {
    api: ApiServer,
    address: String,
}

/// A sandbox of it: a session and its token.
struct Sandbox<'a> {
    server: &'a SandboxServer,
    session: String,
    token: String,
}

impl SandboxServer {
    fn new(place: &Place, args: &[&str]) -> SandboxServer {
        let args = [&["--sandboxd", "0"], args].concat();
        let api = ApiServer::new(place, &args);
        let line = api.server.line();
        let address = line.strip_prefix("sandboxd: http://").unwrap().to_owned();
        SandboxServer { api, address }
    }

    fn sandbox(&self, skill: &str) -> Sandbox<'_> {
        let request = json!({ "skills": [skill] });
        let created = self.api.call("POST", "/v1/sessions", &request);
        assert_eq!(created.status, 201, "{}", created.text());
        let session = created.json()["id"].as_str().unwrap().to_owned();
        let token = self.token(&session);
        Sandbox { server: self, session, token }
    }

    fn token(&self, session: &str) -> String {
        let path = format!("/v1/sessions/{session}/token");
        let issued = self.api.call("POST", &path, &Value::Null);
        assert_eq!(issued.status, 200, "{}", issued.text());
        issued.json()["token"].as_str().unwrap().to_owned()
    }

    /// Sends a request of the REST part.
    fn rest(&self, token: &str, method: &str, path: &str, body: &[u8]) -> Answer {
        self.rest_with(token, method, path, &[], body)
    }

    fn rest_with(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n",
            self.address,
            body.len()
        );
        if !token.is_empty() {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        drop(stream.write_all(body));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        parsed(&answer)
    }
}

impl Sandbox<'_> {
    fn get(&self, path: &str) -> Answer {
        self.server.rest(&self.token, "GET", &format!("/v1/files/{path}"), b"")
    }

    fn put(&self, path: &str, body: &[u8]) -> Answer {
        self.server.rest(&self.token, "PUT", &format!("/v1/files/{path}"), body)
    }

    fn delete(&self, path: &str) -> Answer {
        self.server.rest(&self.token, "DELETE", &format!("/v1/files/{path}"), b"")
    }

    fn caller(&self) -> Caller {
        Caller::new(&self.server.address, &self.token)
    }

    fn sh(&self, text: &str) -> Executed {
        self.caller().execute(&["/bin/sh", "-c", text]).unwrap()
    }
}

/// The code of an error of the REST part.
fn refused(answer: &Answer) -> (u16, String) {
    let error = answer.json();
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
    (answer.status, error["code"].as_str().unwrap().to_owned())
}

#[test]
fn programs_and_files_of_a_sandbox_are_one_workspace() {
    let place = Place::new();
    let server = SandboxServer::new(&place, &[]);
    let sandbox = server.sandbox("writer");
    let health = server.rest("", "GET", "/v1/health", b"");
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("ok")));
    let metadata = server.rest(&sandbox.token, "GET", "/v1/metadata", b"").json();
    let env = json!({ "SANDBOX_ID": sandbox.session, "SANDBOX_WORKSPACE": "/workspace" });
    assert_eq!(metadata, json!({ "env": env }));
    assert_eq!(sandbox.put("notes/hello.txt", b"hello from REST").status, 204);
    let cat = sandbox.caller().execute(&["cat", "notes/hello.txt"]).unwrap();
    assert_eq!((cat.exit_code, &*cat.stdout), (0, &b"hello from REST"[..]));
    let ran = sandbox.sh("echo out; echo err >&2; echo made > notes/by-program; exit 3");
    assert_eq!((ran.exit_code, &*ran.stdout, &*ran.stderr), (3, &b"out\n"[..], &b"err\n"[..]));
    let listing = sandbox.get("notes").json();
    assert_eq!(listing["path"], "/notes");
    let names: Vec<&str> = listing["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["by-program", "hello.txt"]);
    let entry = &listing["entries"][1];
    assert_eq!(
        (&entry["type"], &entry["size"], &entry["mode"]),
        (&json!("file"), &json!(15), &json!("0644"))
    );
    assert!(entry["modified_at"].as_str().unwrap().ends_with('Z'));
    // The arguments are no commands of a shell, and the variables and the folder are the program's.
    let hostile = sandbox.caller().execute(&["echo", "$(touch stolen); `id`"]).unwrap();
    assert_eq!(&*hostile.stdout, b"$(touch stolen); `id`\n");
    let config = Config {
        command: ["sh", "-c", "echo $A; pwd"].map(str::to_owned).into(),
        env_vars: [("A".to_owned(), "a b".to_owned())].into(),
        cwd: Some("notes".into()),
    };
    let with: Executed =
        sandbox.caller().unary("Execute", &Execute { config: Some(config) }).unwrap();
    assert_eq!(&*with.stdout, b"a b\n/workspace/notes\n");
    // The run API sees the same session.
    let path = format!("/v1/sessions/{}/file?path=notes/by-program", sandbox.session);
    assert_eq!(server.api.get(&path).text(), "made\n");
}

#[test]
fn output_is_streamed_input_is_passed_on_and_signals_end_a_program() {
    let place = Place::new();
    let server = SandboxServer::new(&place, &[]);
    let sandbox = server.sandbox("writer");
    let mut started = sandbox.caller().start(&["sh", "-c", "echo out; echo err >&2; exit 7"]);
    let (_, stdout, stderr, exit) = started.finish().unwrap();
    assert_eq!((&*stdout, &*stderr, exit), (&b"out\n"[..], &b"err\n"[..], 7));

    let echo = "while read -r line; do echo \"got $line\"; done; echo end";
    let mut started = sandbox.caller().start(&["sh", "-c", echo]);
    let number = started.init();
    let caller = sandbox.caller();
    caller.stdin(number, Some(b"one\n")).unwrap();
    assert_eq!(started.next().unwrap(), Some(Started::Stdout(b"got one\n".to_vec())));
    caller.stdin(number, Some(b"two\n")).unwrap();
    caller.stdin(number, None).unwrap();
    let (_, stdout, _, exit) = started.finish().unwrap();
    assert_eq!((&*stdout, exit), (&b"got two\nend\n"[..], 0));
    assert_eq!(caller.stdin(number, Some(b"x")).unwrap_err().0, code::NOT_FOUND);

    // One that computes, and one that waits for input.
    for command in [&["sh", "-c", "while :; do :; done"][..], &["cat"]] {
        let mut started = sandbox.caller().start(command);
        let number = started.init();
        assert_eq!(caller.signal(number, 0).unwrap_err().0, code::INVALID_ARGUMENT);
        assert_eq!(caller.resize(number).unwrap_err().0, code::FAILED_PRECONDITION);
        let began = Instant::now();
        caller.signal(number, 15).unwrap();
        assert_ne!(started.finish().unwrap().3, 0);
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert_eq!(caller.signal(number, 9).unwrap_err().0, code::NOT_FOUND);
    }
    // A client that goes away ends its program, and so does one that gives up on `Execute`.
    let running = || {
        let path = format!("/v1/sessions/{}", sandbox.session);
        server.api.get(&path).json()["running"].as_u64().unwrap()
    };
    let mut started = sandbox.caller().start(&["sh", "-c", "while :; do :; done"]);
    started.init();
    assert_eq!(running(), 1);
    drop(started);
    let began = Instant::now();
    while running() > 0 {
        assert!(began.elapsed() < HANG_TIMEOUT, "the program runs on without its client");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_wrong_with_a_call_is_said_by_its_status() {
    let place = Place::new();
    let server = SandboxServer::new(&place, &[]);
    let sandbox = server.sandbox("writer");
    let caller = sandbox.caller();
    let execute = |command: &[&str], cwd: Option<&str>| {
        let command = command.iter().map(|part| (*part).to_owned()).collect();
        let config = Config { command, cwd: cwd.map(str::to_owned), ..Config::default() };
        caller.unary::<_, Executed>("Execute", &Execute { config: Some(config) })
    };
    assert_eq!(execute(&[], None).unwrap_err().0, code::INVALID_ARGUMENT);
    assert_eq!(execute(&[""], None).unwrap_err().0, code::INVALID_ARGUMENT);
    assert_eq!(execute(&["pwd"], Some("../..")).unwrap_err().0, code::PERMISSION_DENIED);
    assert_eq!(execute(&["pwd"], Some("none")).unwrap_err().0, code::NOT_FOUND);
    assert_eq!(
        caller.unary::<_, Executed>("Other", &Execute::default()).unwrap_err().0,
        code::UNIMPLEMENTED
    );
    let pty = grpc::Start { config: Some(Config::of(&["cat"])), pty: Some(grpc::Pty::default()) };
    assert_eq!(caller.stream(&pty).finish().unwrap_err().0, code::UNIMPLEMENTED);
    // More than one answer holds is for `Start`.
    let much = execute(&["head", "-c", "5000000", "/dev/zero"], None).unwrap_err();
    assert_eq!(much.0, code::RESOURCE_EXHAUSTED, "{much:?}");
    let mut started = caller.start(&["head", "-c", "5000000", "/dev/zero"]);
    assert_eq!(started.finish().unwrap().1.len(), 5_000_000);
    // A rule that denies is seen by the program.
    let reads = server.sandbox("scribe");
    assert_eq!((reads.sh("echo x > new || exit 9").exit_code, reads.get("new").status), (9, 404));
}

#[test]
fn a_program_that_a_limit_ends_or_that_needs_an_approval_says_so() {
    let place = Place::new();
    place.skill("short", "allowed-tools: Bash\nmetadata:\n  timeout: 300ms", "Loop.");
    let server = SandboxServer::new(&place, &[]);
    let sandbox = server.sandbox("short");
    let ended = sandbox.sh("while :; do :; done");
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.exit_code == 124 && stderr.contains("timeout"), "{ended:?}");
    let mut started = sandbox.caller().start(&["sh", "-c", "while :; do :; done"]);
    let (_, _, stderr, exit) = started.finish().unwrap();
    assert!(exit == 124 && String::from_utf8_lossy(&stderr).contains("timeout"));
    // An upload is not trusted.
    crate::cli::script_skill(
        &place.user.work().join("mine"),
        &[("go.sh", "#!/bin/bash\necho mine\n")],
    );
    let client = Client::of(&place, &server.api);
    let session = client.succeeds(&["session", "create", "./mine"]).trim().to_owned();
    let token = client.succeeds(&["session", "token", &session]).trim().to_owned();
    let sandbox = Sandbox { server: &server, session, token };
    let (code, text) = sandbox.caller().execute(&["echo", "x"]).unwrap_err();
    assert_eq!(code, code::PERMISSION_DENIED);
    assert!(text.contains("skillhost approve"), "{text}");
    let mut started = sandbox.caller().start(&["echo", "x"]);
    assert_eq!(started.finish().unwrap_err().0, code::PERMISSION_DENIED);
}

#[test]
fn a_token_opens_its_sandbox_and_nothing_else() {
    let place = Place::new();
    let ((one, one_digest), (two, two_digest)) =
        (skillhost_server::api::tenants::new_token(), skillhost_server::api::tenants::new_token());
    let file = tenants_file(&place, &[("one", &one_digest, ""), ("two", &two_digest, "")]);
    let mut server = SandboxServer::new(&place, &["--tenants", file.to_str().unwrap()]);
    server.api.token.clone_from(&one);
    let first = server.sandbox("writer");
    let second = server.sandbox("writer");
    assert_eq!(first.put("secret", b"first").status, 204);
    assert_eq!(second.get("secret").status, 404, "another sandbox of the tenant");
    let mut running = first.caller().start(&["cat"]);
    let number = running.init();
    assert_eq!(second.caller().signal(number, 9).unwrap_err().0, code::NOT_FOUND);
    assert_eq!(second.caller().stdin(number, Some(b"x")).unwrap_err().0, code::NOT_FOUND);
    // Tokens of tenants, of other sandboxes with this one's id, old ones, and none.
    let swapped = format!("shs_{}{}", first.session, &second.token[36..]);
    let old = first.token.clone();
    let renewed = server.token(&first.session);
    assert_ne!(renewed, old);
    for token in
        [&*one, &two, &swapped, &old, "", "shs_", &format!("shs_{}", first.session), &old[..99]]
    {
        let answer = server.rest(token, "GET", "/v1/files/secret", b"");
        assert_eq!(refused(&answer), (401, "UNAUTHENTICATED".into()), "{token}");
        let answer = server.rest(token, "PUT", "/v1/files/secret", b"stolen");
        assert_eq!(answer.status, 401, "{token}");
        assert_eq!(server.rest(token, "GET", "/v1/metadata", b"").status, 401);
        let called = Caller::new(&server.address, token).execute(&["cat", "secret"]);
        assert_eq!(called.unwrap_err().0, code::UNAUTHENTICATED, "{token}");
    }
    assert_eq!(server.rest(&renewed, "GET", "/v1/files/secret", b"").text(), "first");
    // It is no token of the run API, and a token of the run API cannot be had with it.
    let api = server.api.call_as(&renewed, "GET", "/v1/sessions", &[], b"");
    assert_eq!(api.code(), "unauthorized");
    // Nothing on this disk has it.
    let state = place.user.home().join(".local/state/skillhost");
    let found = std::process::Command::new("grep").args(["-rlaF", &renewed]).arg(state).output();
    assert_eq!(String::from_utf8_lossy(&found.unwrap().stdout), "");
    // A session of another tenant cannot be given a token, and a session that has ended has none.
    server.api.call("DELETE", &format!("/v1/sessions/{}", first.session), &Value::Null);
    assert_eq!(server.rest(&renewed, "GET", "/v1/files/secret", b"").status, 401);
    let session = second.session.clone();
    drop(running);
    server.api.token.clone_from(&two);
    let path = format!("/v1/sessions/{session}/token");
    assert_eq!(server.api.call("POST", &path, &Value::Null).code(), "not-found");
}

#[test]
fn a_server_without_the_protocol_gives_no_tokens_and_listens_nowhere_else() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let created = server.call("POST", "/v1/sessions", &json!({ "skills": ["writer"] })).json();
    let path = format!("/v1/sessions/{}/token", created["id"].as_str().unwrap());
    assert_eq!(server.call("POST", &path, &Value::Null).code(), "invalid-request");
    let listening = || {
        let all = std::fs::read_to_string(format!("/proc/{}/net/tcp", server.server.child.id()));
        let own: std::collections::BTreeSet<String> =
            std::fs::read_dir(format!("/proc/{}/fd", server.server.child.id()))
                .unwrap()
                .filter_map(|fd| {
                    let link = std::fs::read_link(fd.unwrap().path()).ok()?;
                    let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
                    Some(inode.to_owned())
                })
                .collect();
        all.unwrap()
            .lines()
            .filter(|line| {
                let parts: Vec<&str> = line.split_whitespace().collect();
                parts.get(3) == Some(&"0A")
                    && parts.get(9).is_some_and(|inode| own.contains(*inode))
            })
            .count()
    };
    assert_eq!(listening(), 1);
}

#[test]
fn paths_stay_in_the_workspace() {
    let place = Place::new();
    let server = SandboxServer::new(&place, &[]);
    let sandbox = server.sandbox("writer");
    sandbox.sh("ln -s /etc out; ln -s ../../../etc up; echo x > /tmp/other");
    for method in ["GET", "PUT", "DELETE"] {
        for path in ["%2E%2E/%2E%2E/etc/passwd", "..%2Fx", "a/../../x", "/../x"] {
            let path = format!("/v1/files/{path}");
            let answer = server.rest(&sandbox.token, method, &path, b"x");
            assert_eq!(refused(&answer), (403, "PERMISSION_DENIED".into()), "{method} {path}");
        }
        for path in ["out/passwd", "up/passwd", "out/hosts", "%2Fetc%2Fpasswd/x"] {
            let path = format!("/v1/files/{path}");
            let answer = server.rest(&sandbox.token, method, &path, b"x");
            // An absolute path is one of the workspace: the first of them creates it.
            let is_own = method != "GET" && path.contains("%2Fetc");
            assert!(
                answer.status / 100 == 4 || is_own && answer.status == 204,
                "{method} {path}: {}",
                answer.status
            );
        }
    }
    for method in ["GET", "DELETE"] {
        for path in ["out/passwd", "up/none"] {
            let path = format!("/v1/files/{path}");
            let answer = server.rest(&sandbox.token, method, &path, b"");
            assert_eq!(refused(&answer), (403, "PERMISSION_DENIED".into()), "{method} {path}");
        }
    }
    for path in ["a%00b", "a%0", "%ff"] {
        assert_eq!(sandbox.put(path, b"x").status, 400, "{path}");
    }
    // The rules of the first skill hold here too.
    let hook = sandbox.put(".git/hooks/post-checkout", b"#!/bin/sh\n");
    assert_eq!(refused(&hook), (403, "PERMISSION_DENIED".into()));
    let reads = server.sandbox("scribe");
    assert_eq!(refused(&reads.put("a", b"a")), (403, "PERMISSION_DENIED".into()));
    // An absolute path is one of the workspace.
    assert_eq!(sandbox.put("%2Fworkspace%2Fabsolute", b"a").status, 204);
    assert_eq!(sandbox.get("absolute").text(), "a");
    // A link that leads nowhere is not in the listing.
    let listing = sandbox.get("").json();
    let names: Vec<&str> = listing["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"absolute") && !names.contains(&"up"), "{names:?}");
}

#[test]
fn files_are_written_listed_and_removed_as_the_contract_says() {
    let place = Place::new();
    let server = SandboxServer::new(&place, &[]);
    let sandbox = server.sandbox("writer");
    assert_eq!(sandbox.get("").json(), json!({ "path": "/", "entries": [] }));
    assert_eq!(sandbox.put("run.sh?mode=0755", b"#!/bin/sh\necho ran\n").status, 204);
    assert_eq!(sandbox.get("").json()["entries"][0]["mode"], "0755");
    for mode in ["0999", "777", "abcd", "01777"] {
        let answer = sandbox.put(&format!("f.txt?mode={mode}"), b"x");
        assert_eq!(refused(&answer), (400, "INVALID_ARGUMENT".into()), "{mode}");
    }
    assert_eq!(sandbox.put("dir%2Fsub%2Ffile.txt", b"12345").status, 204);
    assert_eq!(refused(&sandbox.put("dir", b"x")), (400, "INVALID_ARGUMENT".into()));
    let head = server.rest(&sandbox.token, "HEAD", "/v1/files/dir/sub/file.txt", b"");
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("5"), 0));
    let head = server.rest(&sandbox.token, "HEAD", "/v1/files/absent", b"");
    assert_eq!((head.status, head.body.len()), (404, 0));
    let form = |name: &str| {
        format!(
            "--B\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nno\r\n--B\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"f\"\r\n\r\nin a form\r\n--B--\r\n"
        )
    };
    let kind = [("Content-Type", "multipart/form-data; boundary=B")];
    let put = |kind: &[(&str, &str)], body: &str| {
        server.rest_with(&sandbox.token, "PUT", "/v1/files/form", kind, body.as_bytes())
    };
    assert_eq!(put(&kind, &form("file")).status, 204);
    assert_eq!(sandbox.get("form").text(), "in a form");
    assert_eq!(refused(&put(&kind, &form("nofile"))).1, "INVALID_ARGUMENT");
    assert_eq!(
        refused(&put(&[("Content-Type", "multipart/form-data")], "x")).1,
        "INVALID_ARGUMENT"
    );
    // A part without an end, and one whose head has none.
    let endless = "--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n".to_owned();
    assert_eq!(put(&kind, &(endless + &"x".repeat(1 << 20))).status, 400);
    assert_eq!(put(&kind, &format!("--B\r\nX: {}", "x".repeat(1 << 20))).status, 400);
    assert_eq!(sandbox.get("form").text(), "in a form", "nothing of them was written");

    assert_eq!(refused(&sandbox.delete("dir")), (409, "CONFLICT".into()));
    assert_eq!(refused(&sandbox.delete("dir?recursive=banana")).0, 400);
    assert_eq!(sandbox.delete("dir?recursive=true").status, 204);
    assert_eq!(refused(&sandbox.delete("dir")), (404, "NOT_FOUND".into()));
    assert_eq!(refused(&sandbox.delete("")), (409, "CONFLICT".into()));
    assert_eq!(sandbox.delete("?recursive=true").status, 204);
    assert_eq!(sandbox.get("").json()["entries"], json!([]));
    let other = server.rest(&sandbox.token, "POST", "/v1/files/a", b"");
    assert_eq!(other.status, 405);
    assert_eq!(server.rest(&sandbox.token, "GET", "/v1/other", b"").status, 404);
}

#[test]
fn messages_streams_and_durations_are_bounded() {
    let place = Place::new();
    let (token, digest) = skillhost_server::api::tenants::new_token();
    let file = tenants_file(&place, &[("one", &digest, "quotas: { streams: 4, running: 2 }")]);
    let mut server = SandboxServer::new(&place, &["--tenants", file.to_str().unwrap()]);
    server.api.token.clone_from(&token);
    let sandbox = server.sandbox("writer");
    let caller = sandbox.caller();
    // A message that says that it is too large, and one that is.
    for length in [(4 << 20) + 1_u32, u32::MAX] {
        let mut frame = vec![0];
        frame.extend(length.to_be_bytes());
        assert_eq!(caller.raw("Execute", frame).unwrap_err().0, code::OUT_OF_RANGE, "{length}");
    }
    let large = Stdin::of(1, &vec![0; (4 << 20) + 100]);
    assert_eq!(
        caller.unary::<_, grpc::Nothing>("WriteStdin", &large).unwrap_err().0,
        code::RESOURCE_EXHAUSTED
    );
    // What is no message, and a compressed one.
    let garbage = [&[0, 0, 0, 0, 4][..], b"\xff\xff\xff\xff"].concat();
    assert_eq!(caller.raw("Execute", garbage).unwrap_err().0, code::INTERNAL);
    let compressed = [&[1, 0, 0, 0, 1][..], b"x"].concat();
    assert!(matches!(
        caller.raw("Execute", compressed).unwrap_err().0,
        code::INTERNAL | code::UNIMPLEMENTED
    ));
    // A file that is too large, before it is sent.
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    let head = format!(
        "PUT /v1/files/a HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: 67108865\r\n\r\n",
        server.address, sandbox.token
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
    drop(stream);
    // A flood of streams: the quota of the tenant bounds them, and the server serves on.
    let mut open = Vec::new();
    let refused = loop {
        let mut started = sandbox.caller().start(&["sleep", "3000"]);
        match started.next() {
            Ok(Some(_)) => open.push(started),
            Ok(None) => panic!("a stream ended"),
            Err(status) => break status,
        }
        assert!(open.len() <= 4, "the quota does not hold");
    };
    assert_eq!((refused.0, open.len()), (code::RESOURCE_EXHAUSTED, 4));
    assert_eq!(server.rest("", "GET", "/v1/health", b"").status, 200);
    drop(open);
    let began = Instant::now();
    while sandbox.put("after", b"x").status != 204 {
        assert!(began.elapsed() < HANG_TIMEOUT, "the streams are not given back");
        std::thread::sleep(Duration::from_millis(20));
    }
    // A head of any length, and what is neither of the two protocols.
    let long = "x".repeat(1 << 20);
    let answer = server.rest_with(&sandbox.token, "GET", "/v1/health", &[("X-Long", &long)], b"");
    assert!(answer.status >= 400);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    stream.write_all(&[0xff; 1000]).unwrap();
    drop(stream.read_to_end(&mut Vec::new()));
    assert_eq!(sandbox.sh("echo fine").stdout, b"fine\n");
    // Requests that a web page could send.
    let other = server.rest_with(
        &sandbox.token,
        "GET",
        "/v1/files/",
        &[("Origin", "https://example.com")],
        b"",
    );
    assert_eq!(other.status, 403);
}

#[test]
fn the_end_of_an_exit_event_is_the_end_of_the_stream() {
    let place = Place::new();
    let server = SandboxServer::new(&place, &[]);
    let sandbox = server.sandbox("writer");
    let mut started = sandbox.caller().start(&["true"]);
    let mut last = None;
    while let Some(event) = started.next().unwrap() {
        last = Some(event);
    }
    assert_eq!(last, Some(Started::Exit(Exit { exit_code: 0 })));
    assert_eq!(Exit { exit_code: 5 }.encode_to_vec(), [0x08, 5]);
}
