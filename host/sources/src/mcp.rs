//! Skills that an MCP server has as resources, by the skills extension of MCP (SEP-2640): a list of
//! skills, each with the URI and the digest of every file.
//!
//! Servers of revision 2026-07-28 answer each request alone; older ones need a session.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::show_size;

use crate::digest::Digest;
use crate::document::is_name;
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::fetch::{Fetched, Offer, Selection, Surroundings};
use crate::limits::TransferLimits;
use crate::network::{self, Method, Network, Request, Response};
use crate::staging::Unpacker;
use crate::well_known::MAX_INDEX;

const NEW: &str = "2026-07-28";
const OLD: &str = "2025-11-25";
const EXTENSION: &str = "io.modelcontextprotocol/skills";

/// The most pages of a list.
const MAX_PAGES: usize = 1000;
/// Bytes of a response besides a file, whose text may be escaped.
const HEAD: u64 = 1 << 20;

/// A skill of a server.
#[derive(Debug, Deserialize)]
struct Entry {
    /// The URI of its SKILL.md.
    uri: String,
    #[serde(default)]
    frontmatter: Frontmatter,
    resources: Vec<Resource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Frontmatter {
    name: String,
    description: String,
}

/// A file of a skill.
#[derive(Debug, Deserialize)]
struct Resource {
    uri: String,
    digest: String,
}

impl Entry {
    /// The start of the URIs of its files.
    fn root(&self) -> &str {
        self.uri.strip_suffix("SKILL.md").unwrap_or(&self.uri)
    }

    /// The bytes of its texts.
    fn size(&self) -> usize {
        let Frontmatter { name, description } = &self.frontmatter;
        let files = self.resources.iter().map(|file| file.uri.len() + file.digest.len());
        self.uri.len() + name.len() + description.len() + files.sum::<usize>()
    }
}

/// Returns the skills that a server offers.
pub(crate) fn offers(
    place: &str,
    limits: &TransferLimits,
    network: &dyn Network,
) -> Result<Vec<Offer>, SourceError> {
    let entries = Client::connect(place, limits, network)?.list()?;
    let offer = |entry: Entry| {
        let Frontmatter { name, description } = entry.frontmatter;
        Offer { path: name, description }
    };
    Ok(entries.into_iter().map(offer).collect())
}

/// Fetches the selected skills, each into a folder of its name.
pub(crate) fn fetch(
    place: &str,
    selection: Selection<'_>,
    around: Surroundings<'_>,
    network: &dyn Network,
) -> Result<Fetched, SourceError> {
    let Surroundings { within, limits, .. } = around;
    let client = Client::connect(place, limits, network)?;
    let entries = client.list()?;
    let names: Vec<&str> = entries.iter().map(|entry| entry.frontmatter.name.as_str()).collect();
    let chosen = selection.choose(&names)?;
    let mut to = Unpacker::new(within, limits, limits.bytes)?;
    for entry in chosen.iter().map(|at| &entries[*at]) {
        to.enter(&entry.frontmatter.name)?;
        for resource in &entry.resources {
            let refuse =
                |why: &str| Refusal::at(RefusalRule::Corrupt, resource.uri.as_bytes(), why);
            let path = resource.uri.strip_prefix(entry.root()).and_then(decoded);
            let path = path.ok_or_else(|| refuse("the URI is not below that of the skill"))?;
            let expected = resource.digest.strip_prefix("sha256:").and_then(|hex| hex.parse().ok());
            let content = client.read(&resource.uri)?;
            if expected != Some(Digest::of(&content)) {
                return Err(refuse("the file does not have the digest that the list names").into());
            }
            to.file(path.as_bytes(), &mut content.as_slice())?;
        }
    }
    Ok(Fetched {
        staged: to.finish(),
        revision: "index".to_owned(),
        is_partial: chosen.len() < entries.len(),
        objects: None,
    })
}

/// A server.
struct Client<'a> {
    network: &'a dyn Network,
    url: String,
    limits: &'a TransferLimits,
    /// The session of a server of an older revision.
    session: Option<Session>,
}

struct Session {
    /// Some servers have sessions without an id.
    id: Option<String>,
    /// The revision that was agreed on.
    revision: String,
}

impl<'a> Client<'a> {
    /// Finds out which revision a server speaks, and that it has skills.
    fn connect(
        place: &str,
        limits: &'a TransferLimits,
        network: &'a dyn Network,
    ) -> Result<Client<'a>, SourceError> {
        let url = place.strip_prefix("mcp+").unwrap_or(place).to_owned();
        let mut client = Client { network, url, limits, session: None };
        if let Ok(found) = client.request("server/discover", json!({}))? {
            return client.checked(&found["capabilities"]);
        }
        let params = json!({
            "protocolVersion": OLD,
            "capabilities": { "extensions": { EXTENSION: {} } },
            "clientInfo": client_info(),
        });
        client.session = Some(Session { id: None, revision: OLD.to_owned() });
        let message =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let response = client.post("initialize", None, &message)?;
        if response.status != 200 {
            return Err(network::failed(&client.url, response.status));
        }
        let id = response.header("mcp-session-id").map(str::to_owned);
        let found = client.result(response, 0)?.map_err(|why| client.refused(&why))?;
        let revision = found["protocolVersion"].as_str().unwrap_or(OLD).to_owned();
        client.session = Some(Session { id, revision });
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        client.post("notifications/initialized", None, &ready)?;
        client.checked(&found["capabilities"])
    }

    fn checked(self, capabilities: &Value) -> Result<Client<'a>, SourceError> {
        match capabilities["extensions"].get(EXTENSION) {
            Some(_) => Ok(self),
            None => Err(network::problem(
                &self.url,
                "the MCP server has no skills: it does not declare the skills extension",
            )),
        }
    }

    /// Returns all skills. Their names are unique, and can be names of folders.
    fn list(&self) -> Result<Vec<Entry>, SourceError> {
        let (mut entries, mut cursor): (Vec<Entry>, Option<String>) = (Vec::new(), None);
        let mut size = 0;
        for _ in 0..MAX_PAGES {
            let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let mut page =
                self.request("skills/list", params)?.map_err(|why| self.refused(&why))?;
            let skills = page.get_mut("skills").map(Value::take).unwrap_or_default();
            let skills: Vec<Entry> = serde_json::from_value(skills)
                .map_err(|error| self.refused(&format!("the list of skills: {error}")))?;
            // The number of pages and entries does not bound the length of their texts.
            size += skills.iter().map(Entry::size).sum::<usize>();
            if size as u64 > MAX_INDEX {
                let why = format!("the list of skills is larger than {}", show_size(MAX_INDEX));
                return Err(Refusal::fixed(RefusalRule::TransferSize, why).into());
            }
            entries.extend(skills);
            let files: usize = entries.iter().map(|entry| 1 + entry.resources.len()).sum();
            if files as u64 > self.limits.entries {
                let why = format!("more than {} files", self.limits.entries);
                return Err(Refusal::new(RefusalRule::EntryCount, why).into());
            }
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return self.named(entries);
            }
        }
        Err(self.refused("the list of skills does not end"))
    }

    /// Checks the names of skills.
    fn named(&self, entries: Vec<Entry>) -> Result<Vec<Entry>, SourceError> {
        let mut names = std::collections::BTreeSet::new();
        for entry in &entries {
            let name = &entry.frontmatter.name;
            if !is_name(name) || !names.insert(name.to_ascii_lowercase()) {
                let why =
                    format!("the skill name `{}` is invalid or occurs twice", printable(name));
                return Err(self.refused(&why));
            }
            if !entry.uri.ends_with("/SKILL.md") {
                return Err(self.refused(&format!("`{}` is not a SKILL.md", printable(&entry.uri))));
            }
        }
        Ok(entries)
    }

    /// Reads a resource.
    fn read(&self, uri: &str) -> Result<Vec<u8>, SourceError> {
        let result = self.request("resources/read", json!({ "uri": uri }))?;
        let result = result.map_err(|why| self.refused(&why))?;
        let content = &result["contents"][0];
        if let Some(text) = content["text"].as_str() {
            return Ok(text.as_bytes().to_vec());
        }
        let decoded = content["blob"].as_str().and_then(|blob| BASE64_STANDARD.decode(blob).ok());
        decoded.ok_or_else(|| self.refused(&format!("`{}` has no content", printable(uri))))
    }

    /// Sends a request. Returns its result, or the message of an error of the protocol.
    fn request(
        &self,
        method: &str,
        mut params: Value,
    ) -> Result<Result<Value, String>, SourceError> {
        let name = params["uri"].as_str().map(str::to_owned);
        if self.session.is_none() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": NEW,
                "io.modelcontextprotocol/clientInfo": client_info(),
                "io.modelcontextprotocol/clientCapabilities": { "extensions": { EXTENSION: {} } },
            });
        }
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let response = self.post(method, name.as_deref(), &message)?;
        match response.status {
            200 => self.result(response, 1),
            // What servers of older revisions answer to a request without a session.
            status @ (400 | 404 | 405 | 406 | 422) if self.session.is_none() => {
                Ok(Err(format!("status {status}")))
            }
            status => Err(network::failed(&self.url, status)),
        }
    }

    fn post(
        &self,
        method: &str,
        name: Option<&str>,
        message: &Value,
    ) -> Result<Response, SourceError> {
        let revision = self.session.as_ref().map_or(NEW, |session| session.revision.as_str());
        let mut request = Request::new(Method::Post, &self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", revision)
            .body(message.to_string().into_bytes());
        match &self.session {
            None => {
                request = request.header("mcp-method", method);
                if let Some(name) = name {
                    request = request.header("mcp-name", name);
                }
            }
            Some(Session { id: Some(id), .. }) => request = request.header("mcp-session-id", id),
            Some(_) => {}
        }
        self.network.send(&request)
    }

    /// Reads the answer to a request, which is JSON or a stream of events.
    fn result(
        &self,
        mut response: Response,
        id: u64,
    ) -> Result<Result<Value, String>, SourceError> {
        // Each byte of a file takes up to six in JSON.
        let max = self.limits.skill.total.saturating_mul(6).saturating_add(HEAD);
        let kind = response.header("content-type").unwrap_or_default().to_owned();
        let text = response.bytes(&self.url, max.min(self.limits.bytes))?;
        let text = String::from_utf8(text).map_err(|_| self.refused("the answer is not UTF-8"))?;
        let answer = match kind.starts_with("text/event-stream") {
            true => events(&text).find_map(|event| {
                let message: Value = serde_json::from_str(&event).ok()?;
                (message["id"] == json!(id)).then_some(message)
            }),
            false => serde_json::from_str(&text).ok(),
        };
        let Some(mut answer) = answer else {
            return Err(self.refused(&format!("no answer in {}", show_size(text.len() as u64))));
        };
        match answer["error"]["message"].as_str() {
            Some(why) => Ok(Err(printable(&why.chars().take(300).collect::<String>()))),
            None => Ok(Ok(answer.get_mut("result").map(Value::take).unwrap_or_default())),
        }
    }

    fn refused(&self, why: &str) -> SourceError {
        network::problem(&self.url, format!("the MCP server: {why}"))
    }
}

fn client_info() -> Value {
    json!({ "name": "skillhost", "version": env!("CARGO_PKG_VERSION") })
}

/// Returns the data of the events of a stream.
fn events(text: &str) -> impl Iterator<Item = String> {
    let events = text.split("\n\n").flat_map(|part| part.split("\r\n\r\n"));
    events.map(|event| {
        let data = event.lines().filter_map(|line| line.strip_prefix("data:"));
        let lines: Vec<&str> = data.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        lines.join("\n")
    })
}

/// Decodes a path of a URI. `None` if it is empty, or not UTF-8.
fn decoded(path: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
    while let Some((byte, more)) = rest.split_first() {
        (rest, bytes) = match (byte, more) {
            (b'%', [high, low, more @ ..]) => {
                let digits = [*high, *low];
                let digits = str::from_utf8(&digits).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                (more, bytes)
            }
            (b'%' | b'?' | b'#', _) => return None,
            (byte, more) => {
                bytes.push(*byte);
                (more, bytes)
            }
        };
    }
    String::from_utf8(bytes).ok().filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real folders")]

    use std::cell::RefCell;
    use std::io::Cursor;

    use super::*;
    use crate::skills;
    use crate::staging::StagedEntry;

    const SKILL_MD: &[u8] = b"---\nname: one\ndescription: Tests.\n---\n";

    /// A server with skills, whose answers a test can change.
    struct Server {
        skills: Vec<Value>,
        files: Vec<(String, Value)>,
        /// Whether it needs a session.
        is_old: bool,
        /// What it answers instead of a list of skills.
        list: Option<Value>,
        calls: RefCell<Vec<String>>,
    }

    fn file(uri: &str, content: &[u8]) -> Value {
        json!({ "uri": uri, "digest": format!("sha256:{}", Digest::of(content)), "size": content.len() })
    }

    fn server() -> Server {
        let root = "skill://a/one";
        let binary = b"\x00\xff";
        let resources = [
            file(&format!("{root}/SKILL.md"), SKILL_MD),
            file(&format!("{root}/a%20b.bin"), binary),
        ];
        let skill = |name: &str, uri: &str, resources: Value| json!({ "uri": uri, "frontmatter": { "name": name, "description": "d" }, "resources": resources });
        let text = String::from_utf8(SKILL_MD.to_vec()).unwrap();
        Server {
            skills: vec![
                skill("one", &format!("{root}/SKILL.md"), json!(resources)),
                skill(
                    "two",
                    "skill://two/SKILL.md",
                    json!([file("skill://two/SKILL.md", SKILL_MD)]),
                ),
            ],
            files: vec![
                (format!("{root}/SKILL.md"), json!({ "text": text })),
                (format!("{root}/a%20b.bin"), json!({ "blob": BASE64_STANDARD.encode(binary) })),
                ("skill://two/SKILL.md".to_owned(), json!({ "text": text })),
            ],
            is_old: false,
            list: None,
            calls: RefCell::default(),
        }
    }

    impl Network for Server {
        fn send(&self, request: &Request) -> Result<Response, SourceError> {
            let message: Value = serde_json::from_slice(request.body.as_ref().unwrap()).unwrap();
            let method = message["method"].as_str().unwrap();
            self.calls.borrow_mut().push(method.to_owned());
            let capabilities = json!({ "extensions": { EXTENSION: {} } });
            let has_session = request.headers.contains(&("mcp-session-id", "s1".to_owned()));
            let mut head = vec![("content-type".to_owned(), "application/json".to_owned())];
            let result = match method {
                "server/discover" if !self.is_old => json!({ "capabilities": capabilities }),
                "initialize" if self.is_old => {
                    head.push(("mcp-session-id".to_owned(), "s1".to_owned()));
                    json!({ "capabilities": capabilities, "protocolVersion": OLD })
                }
                _ if self.is_old && !has_session => {
                    return Ok(Response { status: 400, headers: head, body: Box::new(&b""[..]) });
                }
                "skills/list" => match message["params"]["cursor"].as_str() {
                    None => json!({ "skills": self.skills[..1], "nextCursor": "1" }),
                    Some(_) => json!({ "skills": self.skills[1..] }),
                },
                "resources/read" => {
                    let uri = message["params"]["uri"].as_str().unwrap();
                    let found = self.files.iter().find(|(name, _)| name == uri);
                    json!({ "contents": [found.map(|(_, content)| content)] })
                }
                _ => Value::Null,
            };
            let answer = match &self.list {
                Some(list) if method == "skills/list" => list.clone(),
                _ => json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }),
            };
            let body = match self.is_old {
                true => format!("event: message\ndata: {answer}\n\n"),
                false => answer.to_string(),
            };
            if self.is_old {
                head[0].1 = "text/event-stream".to_owned();
            }
            Ok(Response {
                status: 200,
                headers: head,
                body: Box::new(Cursor::new(body.into_bytes())),
            })
        }
    }

    fn fetched(server: &Server, selection: Selection<'_>) -> Result<Fetched, SourceError> {
        let within = tempfile::tempdir().unwrap();
        let limits = TransferLimits::default();
        let around = Surroundings {
            base: within.path(),
            home: within.path(),
            within: within.path(),
            limits: &limits,
            submodules: false,
        };
        fetch("mcp+https://host/mcp", selection, around, server)
    }

    #[test]
    fn skills_are_fetched_from_servers_of_both_kinds() {
        for is_old in [false, true] {
            let server = Server { is_old, ..server() };
            let all = fetched(&server, Selection::All).unwrap();
            assert_eq!(skills::find(&all.staged, ""), ["one", "two"]);
            let StagedEntry::File { digest, .. } = all.staged.entries["one/a b.bin"] else {
                panic!()
            };
            assert_eq!(digest, Digest::of(b"\x00\xff"));
            let one = fetched(&server, Selection::Named("two")).unwrap();
            assert!(one.is_partial && skills::find(&one.staged, "") == ["two"]);
            let read =
                server.calls.borrow().iter().filter(|call| *call == "resources/read").count();
            assert_eq!(read, 4, "only the files of selected skills are read");
        }
    }

    #[test]
    fn hostile_servers_are_refused() {
        type Change = fn(&mut Server);
        let cases: [(&str, Change); 12] = [
            ("another content", |server| server.files[0].1 = json!({ "text": "other" })),
            ("no content", |server| server.files[0].1 = json!({})),
            ("no digest", |server| server.skills[0]["resources"][0]["digest"] = json!("")),
            ("a file elsewhere", |server| {
                server.skills[0]["resources"][0] = file("skill://two/SKILL.md", SKILL_MD);
            }),
            ("a path that leads out", |server| {
                server.skills[0]["resources"][1] = file("skill://a/one/%2e%2e/x", b"\x00\xff");
                server.files[1].0 = "skill://a/one/%2e%2e/x".to_owned();
            }),
            ("a name that is a path", |server| {
                server.skills[0]["frontmatter"]["name"] = json!("../x");
            }),
            ("a name that occurs twice", |server| {
                server.skills[0]["frontmatter"]["name"] = json!("Two");
            }),
            ("an array as the answer", |server| server.list = Some(json!([]))),
            ("a text as the answer", |server| server.list = Some(json!("x"))),
            ("a number as the answer", |server| server.list = Some(json!(5))),
            ("an array as the result", |server| server.list = Some(json!({ "result": [] }))),
            ("a text as the result", |server| server.list = Some(json!({ "result": "x" }))),
        ];
        for (what, change) in cases {
            let mut server = server();
            change(&mut server);
            assert!(fetched(&server, Selection::All).is_err(), "{what}");
        }
    }

    #[test]
    fn texts_of_a_list_are_limited() {
        let mut server = server();
        let long = json!("x".repeat(5 << 20));
        server.skills[0]["frontmatter"]["description"] = long.clone();
        fetched(&server, Selection::All).unwrap();
        server.skills[1]["frontmatter"]["description"] = long;
        match fetched(&server, Selection::All) {
            Err(error @ SourceError::Refused(_)) => {
                assert_eq!(error.fix(), None, "no setting raises this limit");
                let SourceError::Refused(refusal) = error else { unreachable!() };
                assert_eq!(refusal.rule, RefusalRule::TransferSize);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn events_and_paths_are_parsed() {
        let found: Vec<String> = events(": x\n\nevent: a\ndata: 1\ndata: 2\n\ndata:3").collect();
        assert_eq!(found, ["", "1\n2", "3"]);
        let cases = [
            ("a/b", Some("a/b")),
            ("%C3%BC", Some("ü")),
            ("%c3", None),
            ("%", None),
            ("", None),
            ("a?b", None),
        ];
        for (path, expected) in cases {
            assert_eq!(decoded(path).as_deref(), expected, "{path}");
        }
    }
}
