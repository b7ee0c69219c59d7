//! What each fuzz target does with its input. `cargo test` runs them too, over the cases of
//! tests/cases and what is made of those.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use http_body_util::{BodyExt as _, Empty};
use skillhost::invoke::{Runner, RunnerOptions};
use skillhost::service::{Capacity, Service};
use skillhost_catalog::{Catalog, Query, Source, SourceKind};
use skillhost_compat::check;
use skillhost_ledger::approval::Approvals;
use skillhost_ledger::receipt::compare::differences;
use skillhost_ledger::receipt::envelope::Document;
use skillhost_ledger::receipt::key::SigningKey;
use skillhost_ledger::usage::UsageRecorder;
use skillhost_policy::capabilities::{Capabilities, Scope};
use skillhost_policy::case::{self, Case, Observed};
use skillhost_policy::diagnostic::{Span, render};
use skillhost_policy::entry::{self, EntryList};
use skillhost_policy::limits::Limits;
use skillhost_policy::manifest::{Manifest, ToolEntry, parse};
use skillhost_policy::pattern::{HostName, HostPattern};
use skillhost_policy::{Overrides, Policy, explain, grant, load};
use skillhost_sandbox::files::GuardedPaths;
use skillhost_sandbox::http::target;
use skillhost_sandbox::http::{Resolver, Roots, Sender, Timeouts, Tls};
use skillhost_sandbox::recording::folder;
use skillhost_sandbox::{self as sandbox, Allocation};
use skillhost_server::{Mcp, Options};
use skillhost_skill::{SizeLimits, Skill};
use skillhost_sources::archive::unpack;
use skillhost_sources::limits::TransferLimits;
use skillhost_sources::staging::StagedEntry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

/// SKILL.md from any bytes.
pub fn skill_md(bytes: &[u8]) {
    let parsed = parse(bytes, "folder", "SKILL.md");
    assert!(parsed.source.is_char_boundary(parsed.body_offset));
    for span in parsed.diagnostics.iter().filter_map(|d| d.span) {
        assert!(parsed.source.get(span.offset..span.offset + span.length).is_some());
        assert_eq!(span, Span::at(&parsed.source, span.offset, span.length));
    }
    if let Some(manifest) = parsed.manifest.filter(|m| m.recovered) {
        assert_eq!(manifest.allowed_tools, Some(vec![]));
        assert!(
            manifest.component.is_none()
                && manifest.metadata.is_empty()
                && manifest.limits.is_empty()
        );
    }
    render(&parsed.diagnostics, &parsed.source);
}

/// policy.yaml and entries of allowed-tools from any text, then the grant of both. A grant has no
/// more folders or variables than the policy allows, and its explanation has no control characters.
pub fn policy(text: &str) {
    for list in [EntryList::AllowedTools, EntryList::Allow, EntryList::Deny] {
        for line in text.lines() {
            entry::parse(line, list);
        }
    }
    let policy = match load(Path::new("policy.yaml"), text, None) {
        Ok(policy) => policy,
        Err(error) => {
            assert!(!error.diagnostics.is_empty(), "a rejected policy has diagnostics");
            render(&error.diagnostics, &error.source_text);
            Policy::builtin()
        }
    };
    let lines = || text.lines().map(str::to_owned);
    let valid = |flag: fn(String) -> Overrides| {
        lines().map(flag).filter(|o| policy.clone().with_command_line(o.clone()).is_ok())
    };
    let allow = valid(|entry| Overrides { allow: vec![entry], ..Overrides::default() })
        .flat_map(|o| o.allow)
        .collect();
    let deny = valid(|entry| Overrides { deny: vec![entry], ..Overrides::default() })
        .flat_map(|o| o.deny)
        .take(2)
        .collect();
    let Ok(policy) =
        policy.clone().with_command_line(Overrides { allow, deny, ..Overrides::default() })
    else {
        return;
    };
    let entries = lines().map(|text| ToolEntry { text, span: None }).collect();
    let manifest = Manifest {
        name: lines().next().unwrap_or_default(),
        allowed_tools: Some(entries),
        ..Manifest::default()
    };
    let limited = grant(&manifest, &policy);
    let full = grant(&Manifest { allowed_tools: None, ..manifest.clone() }, &policy);
    assert!(limited.capabilities.mounts.len() <= full.capabilities.mounts.len());
    assert_eq!(limited.capabilities.env, full.capabilities.env);
    let explanation = explain(&limited, 80);
    assert!(!explanation.contains(|c: char| c.is_control() && c != '\n'), "{explanation:?}");
}

/// case.yaml from any text. A case that is accepted stays what it is when its expectations are
/// rewritten, and a run meets the expectations that were written for it.
pub fn case(text: &str) {
    let parsed = match case::parse(text, "case.yaml") {
        Ok(case) => case,
        Err(error) => {
            assert!(!error.diagnostics.is_empty(), "a rejected case has diagnostics");
            render(&error.diagnostics, &error.source_text);
            return;
        }
    };
    for path in parsed.workspace.keys().chain(parsed.expect.files.keys()) {
        assert!(!path.starts_with('/') && !path.split('/').any(|name| name == ".."), "{path:?}");
    }
    let stdout = text.as_bytes().to_vec();
    let found = Observed { exit: 1, stdout, denials: vec![text.to_owned()], ..Observed::default() };
    let expect = parsed.expect.updated(&found);
    assert_eq!(expect.differences(&found), []);
    if let Ok(blessed) = case::bless(text, &expect) {
        let blessed = case::parse(&blessed, "case.yaml").expect("a rewritten case is valid");
        assert_eq!(blessed, Case { expect, ..parsed });
    }
}

/// A guest's URL from any text: whatever is let through says one host, in one spelling.
pub fn address(text: &str) {
    let Ok(uri) = text.parse::<http::Uri>() else { return };
    if let Ok(to) = target::parse(&uri) {
        assert!(
            !to.host.is_empty()
                && !to.host.contains(['@', '%', '/', '[', ']'])
                && !to.host.ends_with('.')
        );
        assert_eq!(to.host, to.host.to_ascii_lowercase());
    }
}

/// A skill whose files all contain the same text: SKILL.md, scripts in Python, JavaScript and shell,
/// and declared dependencies. Every need has its place in the file that it names.
pub fn compat(text: &str) {
    static FOLDER: LazyLock<Mutex<tempfile::TempDir>> =
        LazyLock::new(|| Mutex::new(tempfile::tempdir().expect("a scratch folder")));
    let scratch = FOLDER.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = scratch.path().join("case");
    std::fs::create_dir_all(folder.join("scripts")).expect("a folder for the skill");
    let instructions = format!("---\nname: case\ndescription: Fuzzes.\n---\n{text}");
    for (file, text) in [
        ("SKILL.md", instructions.as_str()),
        ("x.py", text),
        ("scripts/a.sh", text),
        ("scripts/b.ts", text),
        ("package.json", text),
        ("requirements.txt", text),
        ("pyproject.toml", text),
    ] {
        std::fs::write(folder.join(file), text).expect("a file of the skill");
    }
    let skill = Skill::load(&folder, &SizeLimits::default()).expect("valid frontmatter");
    let report = check(&skill, &Capabilities::default());
    let needs = report.scripts.iter().flat_map(|script| &script.needs).chain(&report.needs);
    for place in needs.map(|need| &need.place) {
        let text = if place.file == "SKILL.md" { &instructions } else { text };
        let line = text.split('\n').nth(place.line - 1).expect("the line exists");
        assert!((1..=line.chars().count() + 1).contains(&place.column), "{place:?}");
    }
}

/// A component's listing of its tools from any bytes, as a component and as the section of one; as
/// a schema and a value that it judges too.
pub fn listing(bytes: &[u8]) {
    skillhost_sandbox::fuzz_listing(bytes);
}

/// A receipt from any bytes: nobody is taken for its signer, and it differs from nothing but
/// others.
pub fn receipt(bytes: &[u8]) {
    let Ok(document) = Document::read(bytes) else { return };
    assert!(document.signer(&[SigningKey::generate().public()]).is_err());
    assert!(differences(&document.receipt, &document.receipt).is_empty());
    for difference in differences(
        &document.receipt,
        &serde_json::json!({ "version": 1, "result": { "stdout": { "head": "x" } } }),
    ) {
        difference.kind();
    }
}

/// A recording's text from any bytes, and the same with a digest that fits: whatever is taken for
/// one names nothing outside of it.
pub fn recording(bytes: &[u8]) {
    let Ok(mut value) = serde_json::from_slice::<serde_json::Value>(bytes) else { return };
    if let Some(fields) = value.as_object_mut() {
        fields.remove("digest");
        let digest = folder::digest(&value);
        value["digest"] = digest.into();
    }
    for text in [bytes.to_vec(), folder::text(&value).unwrap_or_default()] {
        let Ok(recording) = folder::parse(&text) else { continue };
        let plain = |path: &str| {
            path.split('/')
                .all(|name| !name.is_empty() && name != "." && name != ".." && !name.contains('\0'))
        };
        assert!(plain(&recording.skill) && !recording.skill.contains('/'));
        assert!(
            recording
                .folders
                .iter()
                .flat_map(|folder| &folder.entries)
                .all(|entry| plain(&entry.path))
        );
    }
}

/// What skills are searched for, from any text, among those of this repository: it is answered,
/// with no more than was asked for.
pub fn search(text: &str) {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
        // Of the fuzz workspace as of the tests: `skills` lies in one of the folders above.
        let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let folder = above
            .map(|folder| folder.join("skills"))
            .find(|folder| folder.is_dir())
            .expect("the skills of this repository");
        Catalog::open(vec![Source::new(folder, SourceKind::User)], None)
            .expect("the skills of this repository")
    });
    for limit in [0, 3, 100] {
        let hits = CATALOG.search(&Query { text: text.into(), limit, ..Query::default() });
        let hits = hits.unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert!(hits.len() <= limit && hits.iter().all(|hit| hit.score.is_finite()));
        assert!(
            hits.windows(2)
                .all(|two| two[0].score >= two[1].score && two[0].entry.name != two[1].entry.name)
        );
    }
}

/// What a client sends to the server for agents, a message a line, behind a proper start of the
/// session: every answer is a JSON-RPC message, and none names a folder of this machine.
pub fn mcp(bytes: &[u8]) {
    static SERVER: LazyLock<Agents> = LazyLock::new(Agents::new);
    for start in ["", INITIALIZE] {
        let answers = SERVER.answers(&[start.as_bytes(), bytes, b"\n"].concat());
        let answers = String::from_utf8(answers).expect("answers are UTF-8");
        for line in answers.lines() {
            let answer: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert_eq!(answer["jsonrpc"], "2.0", "{line}");
            assert!(
                !line.contains(SERVER.folder.path().to_str().expect("a path of UTF-8")),
                "{line}"
            );
        }
    }
}

const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"start","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"fuzz","version":"0"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n",
);

/// A server with one skill, of instructions only: nothing runs.
struct Agents {
    runtime: Runtime,
    server: Mcp,
    folder: tempfile::TempDir,
}

impl Agents {
    fn new() -> Agents {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = |name: &str| folder.path().join(name);
        let skill = path("skills/advice");
        std::fs::create_dir_all(&skill).expect("a folder for the skill");
        std::fs::write(
            skill.join("SKILL.md"),
            "---\nname: advice\ndescription: Gives advice. Use when asked.\n---\n# Advice\n",
        )
        .expect("the skill");
        let catalog = Catalog::open(vec![Source::new(path("skills"), SourceKind::User)], None)
            .expect("a catalogue");
        let host = Runner::new(RunnerOptions {
            sandbox: sandbox::Options {
                compiler: path("none"),
                cache: path("cache"),
                allocation: Allocation::OnDemand,
                tls: Tls::new(Roots::default()).expect("the built-in authorities").into(),
                resolver: Resolver::Static(BTreeMap::new()),
            },
            programs: Vec::new(),
            scratch: path("scratch"),
            guarded: GuardedPaths::default(),
            state: path("kept"),
            settings: None,
            audit: path("audit.jsonl"),
            verifier: None,
        });
        let server = Mcp::new(Options {
            catalog,
            service: Service::new(host, Capacity::default()),
            policy: Policy::builtin(),
            approvals: Approvals::open(&path("approvals.db")),
            scratch: path("scratch"),
            hidden: vec![(folder.path().to_owned(), "the server".into())],
            usage: UsageRecorder::disabled(),
        });
        Agents { runtime: runtime(), server, folder }
    }

    fn answers(&self, input: &[u8]) -> Vec<u8> {
        self.runtime.block_on(async {
            let (mut client, server) = tokio::io::duplex(1 << 20);
            let (read, write) = tokio::io::split(server);
            let serving = self.server.clone();
            let serving = tokio::spawn(async move { serving.serve(read, write).await.ok() });
            let mut answers = Vec::new();
            let (mut reading, mut writing) = tokio::io::split(&mut client);
            let talk = async {
                writing.write_all(input).await.ok();
                writing.shutdown().await.ok();
            };
            tokio::join!(talk, reading.read_to_end(&mut answers)).1.ok();
            serving.await.expect("the server does not panic");
            answers
        })
    }
}

/// What a web server answers, bytes for bytes: the sender takes no more than its limits, and hands
/// on no field that is the connection's.
pub fn http_response(bytes: &[u8]) {
    static ANSWERING: LazyLock<Answering> = LazyLock::new(Answering::new);
    for method in ["GET", "HEAD"] {
        let Ok((parts, body)) = ANSWERING.ask(method, bytes) else { continue };
        assert!(parts.status.as_u16() >= 200, "an interim answer is no answer");
        for name in
            ["connection", "keep-alive", "transfer-encoding", "upgrade", "proxy-authenticate"]
        {
            assert!(!parts.headers.contains_key(name), "{name}");
        }
        assert!(body.is_none_or(|body| body.len() as u64 <= MOST_BODY));
    }
}

const MOST_BODY: u64 = 4_096;

/// A sender, and a server that answers whatever it is told.
struct Answering {
    runtime: Runtime,
    capabilities: Capabilities,
    tls: Arc<Tls>,
    url: String,
    answer: Arc<Mutex<Vec<u8>>>,
}

impl Answering {
    fn new() -> Answering {
        let runtime = runtime();
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .expect("a port on loopback");
        let port = listener.local_addr().expect("its address").port();
        let answer = Arc::new(Mutex::new(Vec::new()));
        let told = answer.clone();
        runtime.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let answer = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = stream.read_u8().await else { return };
                        head.push(byte);
                    }
                    stream.write_all(&answer).await.ok();
                    stream.shutdown().await.ok();
                    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.ok();
                });
            }
        });
        let host = HostPattern {
            host: HostName::Exact("127.0.0.1".into()),
            port: Some(port),
            plain: true,
            private: true,
        };
        let capabilities = Capabilities {
            fetch: Scope { all_of: vec![vec![host]], none_of: Vec::new(), ..Scope::empty() },
            methods: vec!["GET".into(), "HEAD".into()],
            limits: Limits { http_response_body: MOST_BODY, ..Limits::default() },
            ..Capabilities::default()
        };
        let tls = Arc::new(Tls::new(Roots::default()).expect("the built-in authorities"));
        Answering { runtime, capabilities, tls, url: format!("http://127.0.0.1:{port}/"), answer }
    }

    /// The answer's head, and its body where that came whole.
    fn ask(
        &self,
        method: &str,
        answer: &[u8],
    ) -> Result<(http::response::Parts, Option<bytes::Bytes>), ()> {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer.to_vec();
        self.runtime.block_on(async {
            let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
            let request = http::Request::builder()
                .method(method)
                .uri(&self.url)
                .body(body)
                .expect("a request");
            let (rules, limits) =
                (self.capabilities.network_rules(), self.capabilities.limits.clone());
            let sender = Sender::new(rules, limits, self.tls.clone(), Resolver::System);
            let (parts, body) =
                sender.send(request, Timeouts::default()).await.map_err(drop)?.into_parts();
            Ok((parts, body.collect().await.ok().map(http_body_util::Collected::to_bytes)))
        })
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Archives from any bytes, and tar streams that are compressed afterwards, so that mutations reach
/// their entries. Nothing is written outside the private folder, and nothing in it remains.
pub fn archive(bytes: &[u8]) {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    let outer = tempfile::tempdir().unwrap();
    let within = outer.path().join("within");
    std::fs::create_dir(&within).unwrap();
    let count = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    for archive in [bytes, &encoder.finish().unwrap()] {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(archive).unwrap();
        let limits = TransferLimits { bytes: 1 << 20, entries: 1000, ..Default::default() };
        if let Ok(staged) = unpack(&file, archive.len() as u64, &within, &limits) {
            for (path, entry) in &staged.entries {
                assert!(!path.split('/').any(|name| matches!(name, "" | "." | "..")), "{path}");
                if let StagedEntry::File { size, .. } = entry {
                    assert_eq!(staged.read(path).unwrap().len() as u64, *size);
                }
            }
            assert_eq!(count(outer.path()), 1);
        }
        assert_eq!((count(outer.path()), count(&within)), (1, 0));
    }
}
