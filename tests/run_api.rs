//! The run API of `skillhost serve`, over real sockets: the real binary, real runs, and the schema of
//! every answer.

mod bounds;
mod cached;
mod commands;
mod disk;
mod identities;
mod runs;
mod sandboxd;
mod session_commands;
pub mod sessions;
mod tenants;
mod tls;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skillhost_skill::runtime::digest;

use crate::cli::{pinned, repository};
use crate::hostile_host::HANG_TIMEOUT;
use crate::mcp::Place;
use crate::mcp::http::Server;

/// A server of the run API.
pub struct ApiServer {
    pub server: Server,
    pub token: String,
}

/// An answer of the API.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The code of a problem.
    pub fn code(&self) -> String {
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        problem["code"].as_str().unwrap().to_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl ApiServer {
    /// Starts a server with one tenant, `default`.
    pub fn new(place: &Place, args: &[&str]) -> ApiServer {
        let server = Server::new(place, args);
        let token = server.token.clone();
        ApiServer { server, token }
    }

    /// The same server for another bearer.
    pub fn call_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
            self.server.address
        );
        if !headers.iter().any(|(name, _)| *name == "Content-Length") {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        if !token.is_empty() {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(&self.server.address).unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        // A server that refuses may close before it has read everything.
        drop(stream.write_all(body));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        let answer = parsed(&answer);
        if method != "HEAD" {
            check_schema(method, path, &answer);
        }
        answer
    }

    pub fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let headers = [("Content-Type", "application/json")];
        self.call_as(&self.token, method, path, &headers, &bytes)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.call("GET", path, &Value::Null)
    }

    /// Submits a run, and returns its id.
    pub fn submit(&self, run: &Value) -> String {
        let answer = self.call("POST", "/v1/runs", run);
        assert_eq!(answer.status, 202, "{}", answer.text());
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(answer.header("location"), Some(&*format!("/v1/runs/{id}")));
        id
    }

    /// Waits for the end of a run, and returns its result.
    pub fn result(&self, id: &str) -> Value {
        let started = Instant::now();
        loop {
            let run = self.get(&format!("/v1/runs/{id}/wait?timeout=30")).json();
            if run["ended"].is_string() {
                break;
            }
            assert!(started.elapsed() < HANG_TIMEOUT, "the run does not end: {run}");
        }
        let answer = self.get(&format!("/v1/runs/{id}/result"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    pub fn put_blob(&self, bytes: &[u8]) -> String {
        let name = digest(bytes);
        let answer = self.call_as(&self.token, "PUT", &format!("/v1/blobs/{name}"), &[], bytes);
        assert_eq!(answer.status, 200, "{}", answer.text());
        name
    }

    /// Waits until a run has this status.
    pub fn until(&self, id: &str, status: &str) {
        let started = Instant::now();
        loop {
            let run = self.get(&format!("/v1/runs/{id}")).json();
            if run["status"] == status {
                return;
            }
            assert!(started.elapsed() < HANG_TIMEOUT, "{run}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Parses an answer, whose body may be chunked.
fn parsed(answer: &[u8]) -> Answer {
    let end = answer.windows(4).position(|end| end == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(answer)));
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    let mut body = answer[end + 4..].to_vec();
    if head.contains("transfer-encoding: chunked") {
        body = unchunked(&body);
    }
    Answer { status, head, body }
}

fn unchunked(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = chunks.windows(2).position(|end| end == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
        let start = end + 2;
        if size == 0 {
            break;
        }
        if chunks.len() < start + size {
            body.extend_from_slice(chunks.get(start..).unwrap_or_default());
            break;
        }
        body.extend_from_slice(&chunks[start..start + size]);
        chunks = chunks.get(start + size + 2..).unwrap_or_default();
    }
    body
}

/// The description of the API, as the server publishes it.
static DOCUMENT: LazyLock<Value> = LazyLock::new(skillhost_server::api::openapi::document);

/// Checks an answer against the published description: its status, its type and its schema.
fn check_schema(method: &str, path: &str, answer: &Answer) {
    let path = path.split('?').next().unwrap();
    let parts: Vec<&str> = path.split('/').collect();
    let is_same = |template: &str| {
        let of: Vec<&str> = template.split('/').collect();
        of.len() == parts.len()
            && of.iter().zip(&parts).all(|(of, part)| of.starts_with('{') || of == part)
    };
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let found = paths.iter().find(|(template, _)| is_same(template));
    let operation = found.map(|(_, item)| &item[method.to_lowercase()]);
    let kind = answer.header("content-type").unwrap_or_default();
    let schema = match operation.filter(|operation| operation.is_object()) {
        Some(operation) => {
            let response = &operation["responses"][answer.status.to_string()];
            assert!(response.is_object(), "{method} {path}: {} is not described", answer.status);
            let content = &response["content"][kind];
            assert!(
                content.is_object(),
                "{method} {path} {}: {kind} is not described",
                answer.status
            );
            content["schema"].clone()
        }
        // A path or a method that does not exist is a problem like any other.
        None => {
            assert_eq!(kind, "application/problem+json", "{method} {path}");
            json!({ "$ref": "#/components/schemas/Problem" })
        }
    };
    if kind.ends_with("json") {
        let mut root = schema;
        root["components"] = DOCUMENT["components"].clone();
        let validator = jsonschema::options().build(&root).unwrap();
        let value = answer.json();
        let wrong: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{method} {path} {}: {wrong:?}\n{value}", answer.status);
    }
}

/// Writes a tenants file. Each tenant is a name, its token's digest and further lines of YAML.
pub fn tenants_file(place: &Place, tenants: &[(&str, &str, &str)]) -> PathBuf {
    let mut text = "tenants:\n".to_owned();
    for (name, sha256, more) in tenants {
        text +=
            &format!("  {name}:\n    tokens:\n      - {{ sha256: {sha256}, scopes: [admin] }}\n");
        for line in more.lines() {
            text += &format!("    {line}\n");
        }
    }
    let file = place.user.work().join("tenants.yaml");
    replace(&file, &text);
    file
}

/// Replaces a file as editors do.
pub fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

#[test]
fn published_schemas_match_the_types() {
    for (file, value) in [
        ("schemas/run-api.openapi.json", DOCUMENT.clone()),
        ("schemas/tenants.schema.json", skillhost_server::api::tenants::schema()),
    ] {
        let text = serde_json::to_string_pretty(&value).unwrap() + "\n";
        let path = repository("schemas").join(file.strip_prefix("schemas/").unwrap());
        pinned(&path, &text).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn the_description_is_served_without_a_token_and_names_every_code() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let answer = server.call_as("", "GET", "/v1/openapi.json", &[], b"");
    assert_eq!((answer.status, &answer.json()), (200, &*DOCUMENT));
    let text = DOCUMENT.to_string();
    let page = std::fs::read_to_string(repository("docs/guide/run-api.md")).unwrap();
    for code in skillhost_server::api::problem::ProblemCode::ALL {
        let name = format!("`{}`", code.name());
        assert!(text.contains(&name), "no operation has {name}");
        let row = format!("| {name} | {} | {} |", code.status().as_u16(), code.title());
        assert!(page.contains(&row), "docs/guide/run-api.md lacks: {row}");
    }
}
