//! Sessions of a fleet: each is on one worker, and any server reaches it.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use skillhost_server::api::tenants::new_token;

use super::security::two_tenants;
use super::{Fleet, Worker, block_on, free_ports, until};
use crate::run_api::sessions::{Events, Session, until as until_program};
use crate::run_api::{ApiServer, tenants_file};

/// Takes sessions on a free port.
const SESSIONS: [&str; 2] = ["--sessions", "127.0.0.1:0"];
/// The records of the sessions of the tenant `default`.
const RECORDS: &str = "skillhost.session.default.*";
const RUNS: &str = "skillhost-runs-default";

/// The same session at another server.
fn at<'a>(server: &'a ApiServer, session: &Session<'_>) -> Session<'a> {
    Session { server, id: session.id.clone() }
}

/// Returns the answer of a server to a question about a session: its status, and the code of a problem.
fn asked(session: &Session<'_>) -> (u16, String) {
    let answer = session.get("files?path=.");
    (answer.status, if answer.status == 200 { String::new() } else { answer.code() })
}

fn status(server: &ApiServer, id: &str) -> Value {
    server.get(&format!("/v1/sessions/{id}")).json()["status"].clone()
}

/// The sessions that count towards the quota of the tenant `default`.
fn held(fleet: &Fleet) -> usize {
    let held = fleet.stored(RUNS, "skillhost.sessions.default");
    held.first().map_or(0, |held| held["held"].as_object().unwrap().len())
}

/// The worker that has a session of the tenant `default`.
fn worker_of(fleet: &Fleet, session: &Session<'_>) -> String {
    let record = fleet.stored(RUNS, &format!("skillhost.session.default.{}", session.id));
    record[0]["session"]["place"]["worker"].as_str().unwrap().to_owned()
}

/// Creates two sessions on different workers. A worker that is late with its offer gets none.
fn on_two<'a>(fleet: &Fleet, server: &'a ApiServer) -> [Session<'a>; 2] {
    let request = json!({ "skills": ["writer"] });
    let first = Session::create(server, &request);
    loop {
        let second = Session::create(server, &request);
        if worker_of(fleet, &first) != worker_of(fleet, &second) {
            return [first, second];
        }
        server.call("DELETE", &format!("/v1/sessions/{}", second.id), &Value::Null);
    }
}

#[test]
fn any_server_reaches_a_session_and_its_programs() {
    let fleet = Fleet::of_two();
    let (a, b) = (fleet.api(&[]), fleet.api(&[]));
    let _workers = [fleet.worker("one", &SESSIONS), fleet.worker("two", &SESSIONS)];
    // A file that one server got, and whose content the worker has not seen.
    let blob = a.put_blob(b"from a blob\n");
    let files = json!({ "in.txt": { "content": "one\n" }, "blob.txt": { "digest": blob } });
    let first = Session::create(&a, &json!({ "skills": ["writer", "scribe"], "files": files }));
    let same = at(&b, &first);
    assert_eq!(same.sh("cat in.txt blob.txt; echo two > out"), "one\nfrom a blob\n");
    assert_eq!(
        (first.read("out"), same.put("big", &[b'x'; 300_000]).status),
        ("two\n".into(), 200)
    );
    assert_eq!(first.read("big").len(), 300_000);
    // Output is streamed while a program waits for input, which goes to the other server.
    let program = same.start(&json!({
        "target": { "command": "read -r line; echo \"got $line\"; cat > rest; echo done" },
        "stream_stdin": true,
    }));
    until_program(&a, &program, "running");
    let mut events = Events::follow(&b, &format!("{program}/logs"));
    let send = |text: &str, end: bool| {
        let path = format!("{program}/stdin?end={end}");
        assert_eq!(a.call_as(&a.token, "POST", &path, &[], text.as_bytes()).status, 200);
    };
    send("hello\n", false);
    assert_eq!(events.until("stdout"), json!("got hello\n"));
    send("rest", true);
    assert_eq!(events.until("stdout"), json!("done\n"));
    assert_eq!(events.until("end")["status"], "succeeded");
    assert_eq!(first.read("rest"), "rest");
    // A fork is where its parent is, and has a record of its own.
    let forked = same.post("fork", &Value::Null);
    assert_eq!(forked.status, 201, "{}", forked.text());
    let fork = Session { server: &a, id: forked.json()["id"].as_str().unwrap().to_owned() };
    assert_eq!(fork.sh("cat out; rm out"), "two\n");
    assert_eq!(same.read("out"), "two\n");
    let places: BTreeSet<String> = fleet
        .stored(RUNS, RECORDS)
        .iter()
        .map(|record| record["session"]["place"]["process"].to_string())
        .collect();
    assert_eq!(places.len(), 1);
    let list = b.get("/v1/sessions").json();
    let ids: Vec<&Value> =
        list["sessions"].as_array().unwrap().iter().map(|session| &session["id"]).collect();
    assert_eq!(ids, [&json!(fork.id), &json!(first.id)]);
    let disk = list["sessions"][1]["disk"].as_u64();
    assert!(disk.is_some_and(|bytes| bytes >= 300_000), "what its worker says: {list}");
    // What a session stores is there for all: also for a session on another worker.
    let diff = b.get(&first.path("diff")).json();
    let changes = diff["changes"].as_array().unwrap();
    let out = changes.iter().find(|change| change["path"] == "out").unwrap();
    let digest = out["after"]["digest"].as_str().unwrap();
    assert_eq!(a.get(&format!("/v1/blobs/{digest}")).text(), "two\n");
    let tree = first.post("snapshot", &Value::Null).json()["tree"].clone();
    for server in [&a, &b, &a, &b] {
        let copy = Session::create(server, &json!({ "skills": ["writer"], "tree": tree }));
        assert_eq!(copy.sh("cat out in.txt; echo changed > in.txt"), "two\none\n");
        let restored = at(&b, &copy).post("restore", &json!({ "tree": tree }));
        assert_eq!(restored.status, 200, "{}", restored.text());
        assert_eq!(copy.read("in.txt"), "one\n");
    }
    let places: BTreeSet<String> = fleet
        .stored(RUNS, RECORDS)
        .iter()
        .map(|record| record["session"]["place"]["worker"].to_string())
        .collect();
    assert_eq!(places.len(), 2, "the worker with the fewest sessions gets the next one");
    let token = first.post("token", &Value::Null);
    assert_eq!(token.code(), "invalid-request", "{}", token.text());
    let ended = b.call("DELETE", &format!("/v1/sessions/{}", first.id), &Value::Null);
    assert_eq!((ended.status, &ended.json()["status"]), (200, &json!("ended")));
    assert_eq!(
        (status(&a, &first.id), asked(&first)),
        (json!("ended"), (410, "session-ended".into()))
    );
    assert_eq!((status(&a, &fork.id), held(&fleet)), (json!("active"), 5));
    assert_eq!(a.get(&format!("/v1/sessions/{}", "0".repeat(32))).code(), "not-found");
}

#[test]
fn programs_of_sessions_are_in_the_record_of_all_runs() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let _workers = [fleet.worker("one", &SESSIONS), fleet.worker("two", &SESSIONS)];
    let sessions = on_two(&fleet, &server);
    let mut programs = Vec::new();
    for session in &sessions {
        let result = session.run(json!({ "target": { "command": "echo x; exit 3" } }));
        programs.push(result["run"]["id"].as_str().unwrap().to_owned());
    }
    // As soon as a client knows that they have ended, one log has them all, from both workers.
    let audit = fleet.command(&["audit"]);
    let records: Vec<Value> =
        audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 4, "{audit}");
    let workers: BTreeSet<String> =
        records.iter().map(|record| record["worker"].to_string()).collect();
    assert_eq!(workers.len(), 2);
    for (session, program) in sessions.iter().zip(&programs) {
        let mut of = records.iter().filter(|record| record["run"] == **program);
        let (begun, end) = (of.next().unwrap(), of.next().unwrap());
        assert_eq!((&begun["status"], &begun["session"]), (&json!("running"), &json!(session.id)));
        assert_eq!((&end["status"], &end["exit_code"]), (&json!("failed"), &json!(3)));
        assert!(end["skill"].as_str().unwrap().starts_with("writer@sha256:"), "{end}");
        assert_eq!(begun["request"], end["request"]);
    }
    // None is replaced, also not by a worker of the tenant.
    for suffix in ["-begun", ""] {
        let replaced = block_on(async {
            let context = async_nats::jetstream::new(fleet.connect("one").await);
            let subject = format!("skillhost.audit.default.{}{suffix}", programs[0]);
            context.publish(subject, "{}".into()).await.unwrap().await
        });
        assert!(replaced.is_err(), "{replaced:?}");
    }
}

#[test]
fn the_sessions_of_a_killed_worker_are_lost_and_every_server_says_so() {
    let fleet = Fleet::of_two();
    let (a, b) = (fleet.api(&[]), fleet.api(&[]));
    let mut one = fleet.worker("one", &SESSIONS);
    let (session, other) = (Session::new(&a), Session::new(&a));
    session.sh("echo x > file");
    // Servers that have just started do not know yet whether a worker is silent.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(asked(&at(&b, &session)), (200, String::new()));
    one.kill();
    let killed = Instant::now();
    let first = at(&b, &session).get("files?path=.");
    assert_eq!((first.status, first.code()), (503, "session-unavailable".into()));
    assert!(first.header("retry-after").is_some(), "{}", first.head);
    until("the session is lost", || match asked(&at(&b, &session)) {
        (503, code) => {
            assert_eq!(code, "session-unavailable");
            false
        }
        other => {
            assert_eq!(other, (410, "session-ended".into()));
            true
        }
    });
    // A worker reports every two seconds, and is silent after five.
    assert!(killed.elapsed() < Duration::from_secs(15), "{:?}", killed.elapsed());
    assert_eq!(asked(&session), (410, "session-ended".into()));
    assert!(session.get("diff").text().contains("lost"));
    assert_eq!((status(&a, &session.id), status(&b, &session.id)), (json!("lost"), json!("lost")));
    // A session that no client asks for is lost too, and no longer counts.
    until("no session counts", || held(&fleet) == 0);
    let list = a.get("/v1/sessions").json();
    let listed = list["sessions"].as_array().unwrap();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|session| session["status"] == "lost"), "{list} {}", other.id);
    let answer = a.call("POST", "/v1/sessions", &json!({ "skills": ["writer"] }));
    assert_eq!((answer.status, answer.code()), (503, "session-unavailable".into()));
    assert!(answer.text().contains("--sessions"), "{}", answer.text());
}

#[test]
fn a_worker_that_stops_or_starts_again_loses_its_sessions_at_once() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let port = free_ports(1);
    let at_port = ["--sessions", &format!("127.0.0.1:{port}")];
    let mut one = fleet.worker("one", &at_port);
    let session = Session::new(&server);
    session.sh("echo x > file");
    one.kill();
    // Another process answers at its address.
    let mut one = fleet.worker("one", &at_port);
    assert_eq!(asked(&session), (410, "session-ended".into()));
    assert_eq!((status(&server, &session.id), held(&fleet)), (json!("lost"), 0));
    // Elsewhere: it knows which sessions the process before had.
    let session = Session::new(&server);
    one.kill();
    let mut one = fleet.worker("one", &SESSIONS);
    let began = Instant::now();
    until("the session is lost", || asked(&session) == (410, "session-ended".into()));
    assert!(began.elapsed() < Duration::from_secs(4), "before it is silent");
    // A worker that stops says so itself, after the programs that are in progress.
    let session = Session::new(&server);
    let program = session.start(&json!({ "target": { "command": "sleep 1; echo late" } }));
    until_program(&server, &program, "running");
    one.signal(Signal::TERM);
    until("it has stopped", || one.child.try_wait().unwrap().is_some());
    assert_eq!(asked(&session), (410, "session-ended".into()));
    assert_eq!((status(&server, &session.id), held(&fleet)), (json!("lost"), 0));
    let audit = fleet.command(&["audit"]);
    assert!(audit.lines().last().unwrap().contains("\"succeeded\""), "{audit}");
}

#[test]
fn the_quota_of_sessions_holds_over_all_workers() {
    let fleet = Fleet::of_two();
    let (token, sha256) = new_token();
    let file = tenants_file(&fleet.place, &[("default", &sha256, "quotas: { sessions: 2 }")]);
    let tenants = ["--tenants", file.to_str().unwrap()];
    let mut server = fleet.api(&tenants);
    server.token = token;
    let with_sessions = [&SESSIONS[..], &tenants].concat();
    let workers = ["one", "two"].map(|name| fleet.worker(name, &with_sessions));
    let request = json!({ "skills": ["writer"] });
    // Each worker has one, and room for another.
    let [first, second] = on_two(&fleet, &server);
    let refused = || server.call("POST", "/v1/sessions", &request).code();
    assert_eq!(
        (refused(), second.post("fork", &Value::Null).code()),
        ("session-quota".into(), "session-quota".into())
    );
    server.call("DELETE", &format!("/v1/sessions/{}", first.id), &Value::Null);
    let idle = Session::create(&server, &json!({ "skills": ["writer"], "idle": 1 }));
    assert_eq!(refused(), "session-quota");
    // The worker ends it, and it no longer counts.
    until("it expires", || status(&server, &idle.id) == "expired");
    let all: Vec<(u16, String)> = std::thread::scope(|scope| {
        let asked: Vec<_> =
            (0..6).map(|_| scope.spawn(|| server.call("POST", "/v1/sessions", &request))).collect();
        asked
            .into_iter()
            .map(|asked| asked.join().unwrap())
            .map(|answer| (answer.status, answer.text()))
            .collect()
    });
    let created = all.iter().filter(|(status, _)| *status == 201).count();
    assert_eq!(created, 1, "of several at once, the quota admits one: {all:?}");
    assert_eq!(held(&fleet), 2);
    // What cannot be created does not count.
    server.call("DELETE", &format!("/v1/sessions/{}", second.id), &Value::Null);
    let answer = server.call("POST", "/v1/sessions", &json!({ "skills": ["none"] }));
    assert_eq!((answer.code(), held(&fleet)), ("no-skill".into(), 1));
    drop(workers);
}

#[test]
fn a_session_is_offered_by_workers_of_its_tenant_only() {
    let fleet = two_tenants();
    let tokens = ["a", "b"].map(|_| new_token());
    let file = tenants_file(&fleet.place, &[("a", &tokens[0].1, ""), ("b", &tokens[1].1, "")]);
    let tenants = ["--tenants", file.to_str().unwrap()];
    let mut server = fleet.api(&tenants);
    server.token.clone_from(&tokens[0].0);
    let with_sessions = [&SESSIONS[..], &tenants].concat();
    let (mut one, two) = (fleet.worker("one", &with_sessions), fleet.worker("two", &with_sessions));
    let request = json!({ "skills": ["writer"] }).to_string();
    // A client may name any tenant and process in headers: they stay here.
    let named = [("Skillhost-Tenant", "b"), ("Skillhost-Process", "x")];
    for _ in 0..3 {
        let answer =
            server.call_as(&tokens[0].0, "POST", "/v1/sessions", &named, request.as_bytes());
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let of = |tenant: &str| {
        fleet.stored(&format!("skillhost-runs-{tenant}"), &format!("skillhost.session.{tenant}.*"))
    };
    let records = of("a");
    assert!(records.len() == 3 && of("b").is_empty());
    assert!(records.iter().all(|record| record["session"]["place"]["worker"] == "one"));
    // The other tenant does not see them.
    let id = records[0]["session"]["id"].as_str().unwrap();
    let path = format!("/v1/sessions/{id}");
    assert_eq!(server.call_as(&tokens[1].0, "GET", &path, &named, b"").code(), "not-found");
    let listed = server.call_as(&tokens[1].0, "GET", "/v1/sessions", &[], b"");
    assert_eq!(listed.json()["sessions"], json!([]));
    one.kill();
    let answer = server.call_as(&tokens[0].0, "POST", "/v1/sessions", &[], request.as_bytes());
    assert_eq!((answer.status, answer.code()), (503, "session-unavailable".into()));
    let own = server.call_as(&tokens[1].0, "POST", "/v1/sessions", &[], request.as_bytes());
    assert_eq!(own.status, 201, "{} {}", own.text(), two.log());
}

/// What a client shows to a worker: the certificate and the key of an identity.
fn shown(folder: &Path) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from_pem_file(folder.join("tls.pem")).unwrap();
    (vec![certificate], PrivateKeyDer::from_pem_file(folder.join("tls.key")).unwrap())
}

/// Accepts any worker: what is tested is whom a worker accepts.
#[derive(Debug)]
struct Anyone(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Asks a worker for its sessions as a server does. Returns its answer, or the error if it refuses the
/// connection.
fn ask_worker(
    worker: &Worker,
    shown: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    headers: &str,
) -> std::io::Result<String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)));
    let config = match shown {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
        None => config.with_no_client_auth(),
    };
    let name = ServerName::try_from("worker").unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(worker.sessions_at()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut tls = rustls::Stream::new(&mut client, &mut stream);
    let head =
        format!("GET /v1/sessions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    tls.write_all(head.as_bytes())?;
    let mut answer = String::new();
    tls.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn only_servers_of_the_tenant_reach_the_sessions_of_a_worker() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let (one, _two) = (fleet.worker("one", &SESSIONS), fleet.worker("two", &[]));
    let session = Session::new(&server);
    let place = fleet.stored(RUNS, RECORDS)[0]["session"]["place"].clone();
    let process = place["process"].as_str().unwrap();
    let headers = |tenant: &str, process: &str| {
        format!("Skillhost-Tenant: {tenant}\r\nSkillhost-Process: {process}\r\n")
    };
    let own = headers("default", process);
    let api = || Some(shown(&fleet.folder().join("api")));
    let answer = ask_worker(&one, api(), &own).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(&session.id), "{answer}");
    // Of another tenant, of none, and for another process: nothing of a session is answered.
    for (headers, status) in
        [(headers("other", process), 401), (String::new(), 401), (headers("default", "x"), 421)]
    {
        let answer = ask_worker(&one, api(), &headers).unwrap();
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected) && !answer.contains(&session.id), "{answer}");
    }
    // A stranger, another worker, and one that calls itself as the server does.
    let names = ["localhost".to_owned()];
    let mut forged = rcgen::CertificateParams::new(names).unwrap();
    forged.distinguished_name.push(rcgen::DnType::CommonName, "api of a skillhost fleet");
    let key = rcgen::KeyPair::generate().unwrap();
    let forged = forged.self_signed(&key).unwrap().der().clone();
    let forged = (vec![forged], PrivateKeyDer::try_from(key.serialize_der()).unwrap());
    for shown in [None, Some(shown(&fleet.folder().join("two"))), Some(forged)] {
        let refused = ask_worker(&one, shown, &own);
        assert!(refused.is_err(), "{refused:?}");
    }
    // In the clear.
    let mut stream = TcpStream::connect(one.sessions_at()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
        .write_all(format!("GET /v1/sessions HTTP/1.1\r\nHost: x\r\n{own}\r\n").as_bytes())
        .unwrap();
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{answer:?}");
    // A tenant that is taken from the server: the same connection is refused.
    let signers = fleet.folder().join("one/signers.json");
    let mut changed: Value =
        serde_json::from_str(&std::fs::read_to_string(&signers).unwrap()).unwrap();
    for signer in changed.as_array_mut().unwrap() {
        if signer["profile"]["role"] == "api" {
            signer["profile"]["tenants"] = json!([]);
        }
    }
    std::fs::write(&signers, changed.to_string()).unwrap();
    until("the worker refuses the server", || {
        ask_worker(&one, api(), &own).is_ok_and(|answer| answer.starts_with("HTTP/1.1 401"))
    });
    assert_eq!(asked(&session).1, "session-unavailable");
}

#[test]
fn a_server_sends_nothing_to_a_worker_with_another_certificate() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let one = fleet.worker("one", &SESSIONS);
    let session = Session::new(&server);
    let record = fleet.stored(RUNS, RECORDS)[0].clone();
    // With the key of a worker at the brokers, which may write the records of the tenant.
    let write = |change: &dyn Fn(&mut Value)| {
        let mut changed = record.clone();
        change(&mut changed["session"]["place"]);
        block_on(async {
            let context = async_nats::jetstream::new(fleet.connect("two").await);
            let subject = format!("skillhost.session.default.{}", session.id);
            let sent = context.publish(subject, changed.to_string().into()).await.unwrap();
            sent.await.unwrap();
        });
    };
    // The address is that of another worker than the named one.
    write(&|place| place["worker"] = json!("two"));
    // Such a worker has never reported: after a while, the session is lost.
    let answer = asked(&session);
    assert!(matches!(answer.0, 503 | 410), "{answer:?}");
    // Neither a server nor a stranger is a worker.
    for worker in ["api", "mallory", "a\r\nb"] {
        write(&|place| place["worker"] = json!(worker));
        assert_eq!(asked(&session), (502, "result-untrusted".into()), "{worker:?}");
    }
    write(&|_| {});
    assert_eq!(asked(&session), (200, String::new()));
    // An offer in the name of another worker is not believed either.
    drop(one);
    let answer = block_on(async {
        let client = fleet.connect("two").await;
        let mut asked = client.subscribe("skillhost.place.default").await.unwrap();
        client.flush().await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let place = json!({ "worker": "one", "process": "0", "address": address });
        let offer = json!({ "version": 1, "place": place, "sessions": 0 }).to_string();
        let offering = async {
            while let Some(message) = asked.next().await {
                client.publish(message.reply.unwrap(), offer.clone().into()).await.unwrap();
            }
        };
        // The process that listens there has the certificate of another worker.
        let (chain, key) = shown(&fleet.folder().join("two"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let accepting = async {
            let (stream, _) = listener.accept().await.unwrap();
            let refused = acceptor.accept(stream).await.is_err();
            assert!(refused, "the server believes it");
            std::future::pending::<()>().await;
        };
        let creating = async {
            let (address, token) = (server.server.address.clone(), server.token.clone());
            tokio::task::spawn_blocking(move || {
                let body = json!({ "skills": ["writer"] }).to_string();
                let mut stream = TcpStream::connect(&address).unwrap();
                let head = format!(
                    "POST /v1/sessions HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(head.as_bytes()).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer
            })
            .await
            .unwrap()
        };
        tokio::select! {
            answer = creating => answer,
            () = offering => unreachable!(),
            () = accepting => unreachable!(),
        }
    });
    assert!(answer.contains("session-unavailable"), "{answer}");
}
