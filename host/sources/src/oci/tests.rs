//! A registry in memory: the shapes of skills, authentication, and hostile answers. The tests of the
//! command use a real registry.
#![expect(clippy::disallowed_methods, reason = "tests set up real folders")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Cursor;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::manifest::{COMPONENT, CONTENT, MANIFESTS, SKILL, TITLE, UNPACK};
use super::*;
use crate::credentials::{Credential, Login};
use crate::error::RefusalRule;
use crate::network::{Method, Request, Response};
use crate::skills;

const PLACE: &str = "oci://host/team/one";
const BASE: &str = "https://host/v2/team/one";
const SKILL_MD: &[u8] = b"---\nname: one\ndescription: Tests.\n---\n";
const IMAGE_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// What a registry has, by URL, and the requests that it got.
#[derive(Default)]
struct Server {
    content: RefCell<BTreeMap<String, Vec<u8>>>,
    requests: RefCell<Vec<String>>,
    /// Whether it issues tokens, and accepts nothing without one.
    has_tokens: bool,
    /// Whether blobs are elsewhere.
    redirects: bool,
}

fn named(bytes: &[u8]) -> String {
    format!("sha256:{}", Digest::of(bytes))
}

fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Response {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Response { status, headers: headers.collect(), body: Box::new(Cursor::new(body.to_vec())) }
}

impl Network for Server {
    fn send(&self, request: &Request) -> Result<Response, SourceError> {
        let header = |name: &str| {
            request.headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
        };
        let url = request.url.as_str();
        self.requests.borrow_mut().push(format!("{} {url}", request.method.name()));
        if let Some(blob) = url.strip_prefix("https://cdn/") {
            assert_eq!(header("authorization"), None, "credentials are for the registry");
            let content = self.content.borrow();
            return Ok(answer(200, &[], &content[&format!("{BASE}/blobs/{blob}")]));
        }
        if let Some(query) = url.strip_prefix("https://auth/token?") {
            let is_known = header("authorization") == Some("Basic dTpw");
            assert!(query.starts_with("service=registry&scope=repository%3Ateam%2Fone%3Apull"));
            let token = if is_known { "good" } else { "bad" };
            return Ok(answer(200, &[], json!({ "token": token }).to_string().as_bytes()));
        }
        if self.has_tokens && header("authorization") != Some("Bearer good") {
            let challenge = "Bearer realm=\"https://auth/token\",service=\"registry\"";
            return Ok(answer(401, &[("www-authenticate", challenge)], b""));
        }
        let path = url.strip_prefix(BASE).expect("a request to another repository");
        let mut content = self.content.borrow_mut();
        match (request.method, path.split('?').next().unwrap_or_default()) {
            (Method::Post, "/blobs/uploads/") => {
                Ok(answer(202, &[("location", "/v2/team/one/blobs/uploads/7?state=x")], b""))
            }
            (Method::Put, "/blobs/uploads/7") => {
                let body = request.body.as_ref().unwrap();
                assert!(path.ends_with(&format!("?state=x&digest={}", named(body))), "{path}");
                content.insert(format!("{BASE}/blobs/{}", named(body)), body.clone());
                Ok(answer(201, &[], b""))
            }
            (Method::Put, manifest) => {
                let body = request.body.as_ref().unwrap();
                content.insert(format!("{BASE}{manifest}"), body.clone());
                content.insert(format!("{BASE}/manifests/{}", named(body)), body.clone());
                Ok(answer(201, &[], b""))
            }
            (Method::Get | Method::Head, blob)
                if self.redirects && blob.starts_with("/blobs/") && content.contains_key(url) =>
            {
                let location = format!("https://cdn/{}", &blob["/blobs/".len()..]);
                Ok(answer(307, &[("location", &location)], b""))
            }
            (_, _) => match content.get(url) {
                Some(found) => Ok(answer(200, &[], found)),
                None => Ok(answer(404, &[], b"")),
            },
        }
    }

    fn credential(&self, login: &Login<'_>) -> Result<Option<Credential>, SourceError> {
        assert_eq!(*login, Login::Registry("host"));
        Ok(Some(Credential { user: "u".into(), secret: "p".into() }))
    }
}

/// A layer: its type, its annotations and its content.
type Layer<'a> = (&'a str, Value, Vec<u8>);

impl Server {
    /// Stores a manifest with these layers under a tag. Returns its digest.
    fn store(&self, tag: &str, layers: &[Layer<'_>]) -> String {
        let mut descriptors = Vec::new();
        for (media_type, annotations, content) in layers {
            descriptors.push(json!({
                "mediaType": media_type, "digest": named(content), "size": content.len(), "annotations": annotations,
            }));
            let url = format!("{BASE}/blobs/{}", named(content));
            self.content.borrow_mut().insert(url, content.clone());
        }
        self.store_text(tag, &json!({ "schemaVersion": 2, "layers": descriptors }))
    }

    fn store_text(&self, tag: &str, manifest: &Value) -> String {
        let text = manifest.to_string().into_bytes();
        let digest = named(&text);
        for name in [tag, &digest] {
            self.content.borrow_mut().insert(format!("{BASE}/manifests/{name}"), text.clone());
        }
        digest
    }

    fn fetch(&self, reference: Option<&str>, locked: Locked<'_>) -> Result<Fetched, SourceError> {
        let within = tempfile::tempdir().unwrap();
        let limits = TransferLimits { bytes: 1 << 20, ..TransferLimits::default() };
        let around = Surroundings {
            base: within.path(),
            home: within.path(),
            within: within.path(),
            limits: &limits,
            submodules: false,
        };
        fetch(PLACE, reference, locked, around, self)
    }

    fn paths(&self, reference: &str) -> Vec<String> {
        let fetched = self.fetch(Some(reference), Locked::Not).unwrap();
        fetched.staged.entries.into_keys().collect()
    }

    fn rule(&self, reference: &str) -> RefusalRule {
        match self.fetch(Some(reference), Locked::Not) {
            Err(SourceError::Refused(refusal)) => refusal.rule,
            other => panic!("{other:?}"),
        }
    }
}

fn tar(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = ::tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, content) in entries {
        let mut header = ::tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, *content).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn archive() -> Vec<u8> {
    tar(&[("one/SKILL.md", SKILL_MD), ("one/a.py", b"print()")])
}

fn publication(archive: &[u8]) -> Publication<'_> {
    Publication { name: "one", description: "Tests.", version: Some("1.2.0"), archive }
}

#[test]
fn published_skill_is_fetched_again() {
    for (has_tokens, redirects) in [(false, false), (true, false), (true, true)] {
        let server = Server { has_tokens, redirects, ..Server::default() };
        let archive = archive();
        let digest = publish(PLACE, Some("v1"), &publication(&archive), &server).unwrap();
        assert_eq!(digest, Published::new(&publication(&archive)).digest, "it is known before");
        let fetched = server.fetch(Some("v1"), Locked::Not).unwrap();
        assert_eq!(fetched.revision, format!("sha256:{digest}"));
        assert_eq!(skills::find(&fetched.staged, ""), ["one"]);
        let by_digest = server.fetch(Some(&fetched.revision), Locked::Not).unwrap();
        assert_eq!(by_digest.revision, fetched.revision);
        // The same once more, and then something else.
        publish(PLACE, Some("v1"), &publication(&archive), &server).unwrap();
        let other = tar(&[("one/SKILL.md", b"other")]);
        let error = publish(PLACE, Some("v1"), &publication(&other), &server).unwrap_err();
        assert!(error.to_string().contains("exists already"), "{error}");
        publish(PLACE, None, &publication(&archive), &server).unwrap();
        publish(PLACE, None, &publication(&other), &server).unwrap();
    }
}

#[test]
fn published_manifest_has_the_types_of_skills() {
    let server = Server::default();
    let archive = archive();
    publish(PLACE, Some("v1"), &publication(&archive), &server).unwrap();
    let content = server.content.borrow();
    let manifest: Value =
        serde_json::from_slice(&content[&format!("{BASE}/manifests/v1")]).unwrap();
    assert_eq!(manifest["mediaType"], MANIFESTS[0]);
    assert_eq!(
        (&manifest["artifactType"], &manifest["config"]["mediaType"]),
        (&json!(SKILL), &json!(SKILL))
    );
    assert_eq!(manifest["layers"][0]["mediaType"], CONTENT);
    assert_eq!(manifest["layers"][0]["annotations"][TITLE], "one.tar.gz");
    assert_eq!(manifest["annotations"]["org.opencontainers.image.version"], "1.2.0");
}

#[test]
fn every_shape_of_a_skill_is_read() {
    let server = Server::default();
    let title = |title: &str| json!({ TITLE: title });
    server.store("archive", &[(CONTENT, json!({}), archive())]);
    assert_eq!(server.paths("archive"), ["one", "one/SKILL.md", "one/a.py"]);
    server.store(
        "with-card",
        &[
            ("application/vnd.example.card.v1+yaml", json!({}), b"x".to_vec()),
            ("application/vnd.agentskills.skill.content.v1.tar+gzip", json!({}), archive()),
        ],
    );
    assert_eq!(server.paths("with-card"), ["one", "one/SKILL.md", "one/a.py"]);
    server.store(
        "files",
        &[
            ("text/markdown", title("SKILL.md"), SKILL_MD.to_vec()),
            ("text/x-python", title("scripts/a.py"), b"print()".to_vec()),
            (IMAGE_LAYER, json!({ TITLE: "data", UNPACK: "true" }), tar(&[("data/x", b"1")])),
        ],
    );
    assert_eq!(server.paths("files"), ["SKILL.md", "data", "data/x", "scripts", "scripts/a.py"]);
    server.store("component", &[(COMPONENT, json!({}), b"\0asm".to_vec())]);
    assert_eq!(server.paths("component"), ["SKILL.md", "one.wasm"]);
    server.store("image", &[(IMAGE_LAYER, json!(null), archive())]);
    assert_eq!(server.paths("image"), ["one", "one/SKILL.md", "one/a.py"]);
}

#[test]
fn layers_of_an_image_hide_what_is_below() {
    let server = Server::default();
    let below = tar(&[
        ("one/SKILL.md", b"old"),
        ("one/gone.py", b"x"),
        ("one/kept.py", b"x"),
        ("one/old/x", b"x"),
    ]);
    let above = tar(&[
        ("one/SKILL.md", SKILL_MD),
        ("one/.wh.gone.py", b""),
        ("one/old/.wh..wh..opq", b""),
        ("one/old/y", b"x"),
    ]);
    server.store("image", &[(IMAGE_LAYER, json!({}), below), (IMAGE_LAYER, json!({}), above)]);
    let fetched = server.fetch(Some("image"), Locked::Not).unwrap();
    let paths: Vec<&String> = fetched.staged.entries.keys().collect();
    assert_eq!(paths, ["one", "one/SKILL.md", "one/kept.py", "one/old", "one/old/y"]);
    let crate::staging::StagedEntry::File { digest, .. } = fetched.staged.entries["one/SKILL.md"]
    else {
        panic!()
    };
    assert_eq!(digest, Digest::of(SKILL_MD));
}

#[test]
fn index_leads_to_its_first_platform() {
    let server = Server::default();
    let digest = server.store("inner", &[(CONTENT, json!({}), archive())]);
    let entry = |digest: &str, os: &str| json!({ "mediaType": MANIFESTS[0], "digest": digest, "size": 1, "platform": { "os": os, "architecture": os } });
    let attestation = entry(&named(b"x"), "unknown");
    let index = json!({ "manifests": [attestation.clone(), entry(&digest, "linux")] });
    let outer = server.store_text("index", &index);
    let fetched = server.fetch(Some("index"), Locked::Not).unwrap();
    assert_eq!(fetched.revision, outer, "the lock has what the tag leads to");
    assert_eq!(skills::find(&fetched.staged, ""), ["one"]);
    server.store_text("unusable", &json!({ "manifests": [attestation] }));
    assert_eq!(server.rule("unusable"), RefusalRule::Unsupported);
}

#[test]
fn tags_must_not_move_and_latest_follows() {
    let server = Server::default();
    let first = server.store("v1", &[(CONTENT, json!({}), archive())]);
    server.store("latest", &[(CONTENT, json!({}), archive())]);
    for locked in [Locked::At(&first), Locked::From(&first)] {
        server.fetch(Some("v1"), locked).unwrap();
        server.fetch(None, locked).unwrap();
    }
    let second = server.store("v1", &[(CONTENT, json!({}), tar(&[("one/SKILL.md", SKILL_MD)]))]);
    server.store("latest", &[(CONTENT, json!({}), tar(&[("one/SKILL.md", SKILL_MD)]))]);
    for locked in [Locked::At(&first), Locked::From(&first)] {
        assert!(matches!(server.fetch(Some("v1"), locked), Err(SourceError::Moved(_))));
    }
    assert_eq!(server.fetch(None, Locked::At(&first)).unwrap().revision, first);
    assert_eq!(server.fetch(None, Locked::From(&first)).unwrap().revision, second);
    assert!(matches!(server.fetch(Some(&second), Locked::At(&first)), Err(SourceError::Moved(_))));
}

#[test]
fn hostile_registries_are_refused() {
    use RefusalRule::*;
    let with = |change: &dyn Fn(&mut Value)| {
        let server = Server::default();
        server.store("v1", &[(CONTENT, json!({}), archive())]);
        let mut manifest: Value =
            serde_json::from_slice(&server.content.borrow()[&format!("{BASE}/manifests/v1")])
                .unwrap();
        change(&mut manifest["layers"][0]);
        server.store_text("v1", &manifest);
        server
    };
    let other = named(b"other");
    type Change<'a> = &'a dyn Fn(&mut Value);
    let cases: [(Change<'_>, RefusalRule); 7] = [
        (&|layer| layer["size"] = json!(1), TransferSize),
        (&|layer| layer["size"] = json!(100_000), Truncated),
        (&|layer| layer["size"] = json!(2 << 20), TransferSize),
        (&|layer| layer["size"] = json!(-1), Corrupt),
        (&|layer| layer["digest"] = json!("md5:00"), Corrupt),
        (&|layer| layer["mediaType"] = json!("text/plain"), Unsupported),
        (
            &|layer| {
                layer["annotations"] = json!({ TITLE: "../x" });
                layer["mediaType"] = json!("text/plain");
            },
            PathTraversal,
        ),
    ];
    for (change, rule) in cases {
        assert_eq!(with(change).rule("v1"), rule);
    }
    let server = with(&|layer| layer["digest"] = json!(other));
    server.content.borrow_mut().insert(format!("{BASE}/blobs/{other}"), archive());
    assert_eq!(server.rule("v1"), Corrupt, "another blob");
    let server = with(&|_| {});
    let digest = named(b"x");
    server.content.borrow_mut().insert(format!("{BASE}/manifests/{digest}"), b"{}".to_vec());
    assert_eq!(server.rule(&digest), Corrupt, "another manifest");
    server.content.borrow_mut().insert(format!("{BASE}/manifests/v2"), b"[".to_vec());
    assert_eq!(server.rule("v2"), Corrupt, "no manifest");
    let empty = Server::default();
    empty.store("v1", &[]);
    assert_eq!(empty.rule("v1"), Unsupported);
    let image = Server::default();
    image.store("full", &vec![(IMAGE_LAYER, json!({}), archive()); 128]);
    assert_eq!(image.paths("full"), ["one", "one/SKILL.md", "one/a.py"]);
    image.store("many", &vec![(IMAGE_LAYER, json!({}), archive()); 129]);
    assert_eq!(image.rule("many"), EntryCount);
}

#[test]
fn wrong_credentials_are_named() {
    let server = Server { has_tokens: true, ..Server::default() };
    let refused = Refusing(server);
    let within = tempfile::tempdir().unwrap();
    let limits = TransferLimits::default();
    let around = Surroundings {
        base: within.path(),
        home: within.path(),
        within: within.path(),
        limits: &limits,
        submodules: false,
    };
    let error = fetch(PLACE, None, Locked::Not, around, &refused).unwrap_err();
    assert_eq!(error.fix(), Some("docker login host"), "{error}");
}

/// A registry whose blobs are at a server that asks for credentials.
struct Luring(Server);

impl Network for Luring {
    fn send(&self, request: &Request) -> Result<Response, SourceError> {
        assert!(!request.url.starts_with("https://evil/"), "a request for a token");
        match request.url.starts_with("https://cdn/") {
            true => {
                let challenge = "Bearer realm=\"https://evil/token\",service=\"registry\"";
                Ok(answer(401, &[("www-authenticate", challenge)], b""))
            }
            false => self.0.send(request),
        }
    }

    fn credential(&self, _: &Login<'_>) -> Result<Option<Credential>, SourceError> {
        panic!("the registry itself requires no credentials")
    }
}

#[test]
fn credentials_are_not_sent_where_a_redirect_asks_for_them() {
    let server = Server { redirects: true, ..Server::default() };
    server.store("v1", &[(CONTENT, json!({}), archive())]);
    let within = tempfile::tempdir().unwrap();
    let limits = TransferLimits::default();
    let around = Surroundings {
        base: within.path(),
        home: within.path(),
        within: within.path(),
        limits: &limits,
        submodules: false,
    };
    let error = fetch(PLACE, Some("v1"), Locked::Not, around, &Luring(server)).unwrap_err();
    assert!(error.to_string().contains("status 401"), "{error}");
}

/// A registry for which there are no credentials.
struct Refusing(Server);

impl Network for Refusing {
    fn send(&self, request: &Request) -> Result<Response, SourceError> {
        self.0.send(request)
    }
}
