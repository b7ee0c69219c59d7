//! A small HTTP API on loopback for scripts: users, orders, redirects, errors, and an echo of the
//! request.

use std::io::Read as _;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::servers::{Server, respond};

/// Starts a server with separate orders.
pub struct Api {
    server: Server,
}

/// A client's request.
struct ApiRequest<'a> {
    method: &'a str,
    path: &'a str,
    query: &'a str,
    headers: Vec<(String, &'a str)>,
    body: Vec<u8>,
}

impl Api {
    pub fn start() -> Api {
        let orders = Arc::new(Mutex::new(Vec::new()));
        let server = Server::start(move |sent, stream| {
            let head = String::from_utf8_lossy(sent).into_owned();
            let Some(asked) = ApiRequest::read(&head, sent, stream) else { return };
            let (status, headers, body) = answer(&asked, &mut orders.lock().unwrap());
            let body = if asked.method == "HEAD" { String::new() } else { body };
            respond(stream, status, &headers, body.as_bytes());
        });
        Api { server }
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    pub fn port(&self) -> u16 {
        self.server.port
    }
}

impl<'a> ApiRequest<'a> {
    fn read(head: &'a str, sent: &[u8], stream: &mut TcpStream) -> Option<ApiRequest<'a>> {
        let (head, _) = head.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let mut words = lines.next()?.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers: Vec<(String, &str)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
            .collect();
        let mut asked =
            ApiRequest { method, path, query, headers, body: sent[head.len() + 4..].to_vec() };
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        if asked.header("transfer-encoding").contains("chunked") {
            asked.body = chunks(std::mem::take(&mut asked.body), stream)?;
        }
        let length: usize = asked.header("content-length").parse().unwrap_or(asked.body.len());
        let mut rest = vec![0; length.saturating_sub(asked.body.len())];
        stream.read_exact(&mut rest).ok()?;
        asked.body.extend(rest);
        Some(asked)
    }

    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }

    /// Returns a parameter of the query.
    fn value(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(n, _)| *n == name)
            .map(|(_, value)| value)
    }
}

/// Decodes a chunked request body, which may still be incomplete.
fn chunks(mut raw: Vec<u8>, stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut buffer = [0; 4096];
    while !raw.ends_with(b"0\r\n\r\n") {
        match stream.read(&mut buffer).ok()? {
            0 => return None,
            n => raw.extend_from_slice(&buffer[..n]),
        }
    }
    let mut body = Vec::new();
    let mut rest = raw.as_slice();
    loop {
        let line = rest.windows(2).position(|end| end == b"\r\n")?;
        let size =
            usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 4 + size..];
    }
}

const USERS: [(u32, &str, &str); 5] = [
    (1, "Ada", "London"),
    (2, "Grace", "New York"),
    (3, "Søren", "København"),
    (4, "李雷", "北京"),
    (5, "Zoë", "Zürich"),
];

fn answer(asked: &ApiRequest, orders: &mut Vec<Value>) -> (&'static str, String, String) {
    let user = |(id, name, city): &(u32, &str, &str)| json!({"id": id, "name": name, "city": city});
    let found = |value: Value| {
        (
            "200 OK",
            "content-type: application/json; charset=utf-8\r\nx-served-by: test\r\n".to_owned(),
            value.to_string(),
        )
    };
    let wrong = |status: &'static str, text: &str| {
        (
            status,
            "content-type: application/json\r\n".to_owned(),
            json!({"error": text}).to_string(),
        )
    };
    match (asked.method, asked.path) {
        ("GET" | "HEAD", "/health") => found(json!({"status": "ok", "version": "1.4.2"})),
        ("GET", "/users") => {
            let page: usize = asked.value("page").and_then(|p| p.parse().ok()).unwrap_or(1);
            let items: Vec<Value> =
                USERS.iter().skip((page.max(1) - 1) * 2).take(2).map(user).collect();
            found(json!({"items": items, "page": page, "next": (page < 3).then_some(page + 1)}))
        }
        ("GET", path) if path.starts_with("/users/") => {
            match USERS.iter().find(|u| path == format!("/users/{}", u.0)) {
                Some(one) => found(user(one)),
                None => wrong("404 Not Found", "no such user"),
            }
        }
        ("POST", "/orders") => match serde_json::from_slice::<Value>(&asked.body) {
            Ok(order) if order["quantity"].as_u64().is_some_and(|n| n > 0) => {
                orders.push(order);
                let id = orders.len();
                (
                    "201 Created",
                    format!("content-type: application/json\r\nlocation: /orders/{id}\r\n"),
                    json!({"id": id}).to_string(),
                )
            }
            Ok(_) => wrong("422 Unprocessable Entity", "quantity must be at least 1"),
            Err(_) => wrong("400 Bad Request", "no JSON"),
        },
        ("GET", "/orders") => found(json!(orders)),
        ("GET", "/private") => match asked.header("authorization") {
            "Bearer s3cret" => found(json!({"secret": "tea"})),
            _ => ("401 Unauthorized", "www-authenticate: Bearer\r\n".to_owned(), String::new()),
        },
        ("GET", "/old") => ("302 Found", "location: /users/1\r\n".to_owned(), String::new()),
        ("GET", "/broken") => wrong("500 Internal Server Error", "out of tea"),
        ("GET", "/page.html") => {
            ("200 OK", "content-type: text/html; charset=utf-8\r\n".to_owned(), PAGE.to_owned())
        }
        ("GET", "/data.csv") => (
            "200 OK",
            "content-type: text/csv\r\n".to_owned(),
            "city,people\nKöln,1084831\nZürich,447082\n".to_owned(),
        ),
        (method, "/echo") => found(json!({
            "method": method,
            "query": asked.query,
            "type": asked.header("content-type"),
            "agent": asked.header("x-agent"),
            "body": String::from_utf8_lossy(&asked.body),
        })),
        _ => wrong("404 Not Found", "nothing here"),
    }
}

const PAGE: &str = "<!doctype html><html lang=\"de\"><head><title>Tee &amp; Kuchen</title></head><body><h1>Grüner Tee</h1>\
<p>Zwei Minuten, <a href=\"/milk.html\">keine Milch</a>.</p><ul><li>Sencha</li><li>Gyokuro</li></ul></body></html>";
