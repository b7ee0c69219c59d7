//! What an identity of a fleet cannot do, and what is not believed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream;
use async_nats::{Event, ServerError};
use serde_json::{Value, json};

use super::{Fleet, block_on, shell, until};
use crate::mcp::TRUSTED;

/// The tenants `a` and `b`, with one worker each.
pub fn two_tenants() -> Fleet {
    Fleet::new(&["--tenant", "a", "--tenant", "b", "--worker", "one=a", "--worker", "two=b"])
}

/// Publishes or subscribes as an identity in the account of `a`, and returns the subjects that the broker refuses.
fn refused(fleet: &Fleet, name: &str, publish: &[&str], subscribe: &[&str]) -> BTreeSet<String> {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = seen.clone();
    block_on(async {
        let options = fleet.options("a", name).event_callback(move |event| {
            let sink = sink.clone();
            async move {
                if let Event::ServerError(ServerError::Other(why)) = event {
                    sink.lock().unwrap().push(why);
                }
            }
        });
        let client = options.connect(fleet.url()).await.unwrap();
        for subject in publish {
            client.publish((*subject).to_owned(), "{}".into()).await.unwrap();
        }
        for subject in subscribe {
            std::mem::forget(client.subscribe((*subject).to_owned()).await.unwrap());
        }
        client.flush().await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
    });
    let seen = seen.lock().unwrap().join("\n").to_lowercase();
    let all = publish.iter().chain(subscribe);
    let is_refused = |subject: &&&str| seen.contains(&format!("\"{}\"", subject.to_lowercase()));
    all.filter(is_refused).map(|subject| (*subject).to_owned()).collect()
}

#[test]
fn a_worker_reaches_the_queues_of_its_tenants_only() {
    let fleet = two_tenants();
    let _server = fleet.api(&["--tenants", tenants(&fleet).to_str().unwrap()]);
    let publish = [
        // Another tenant's queue, runs, files, record and events.
        "$JS.API.CONSUMER.MSG.NEXT.skillhost-queue-b.small",
        "$JS.ACK.skillhost-queue-b.small.1.1.1.1.1",
        "$JS.API.STREAM.MSG.GET.skillhost-runs-b",
        "$JS.API.DIRECT.GET.skillhost-blobs-b",
        "skillhost.run.b.x",
        "skillhost.blob.b.x.0",
        "skillhost.audit.b.x",
        "skillhost.dead.b.x",
        "skillhost.event.b.x",
        "skillhost.session.b.x",
        "skillhost.sessions.b",
        "skillhost.place.b",
        // What only servers do for its own tenant.
        "skillhost.queue.a.small",
        "skillhost.key.a.x",
        "skillhost.skill.a.x",
        "skillhost.control.a.x",
        "skillhost.place.a",
        // A consumer delivers to any subject, and a stream takes from any.
        "$JS.API.CONSUMER.CREATE.skillhost-blobs-a.x",
        "$JS.API.CONSUMER.DURABLE.CREATE.skillhost-queue-a.x",
        "$JS.API.STREAM.CREATE.mine",
        "$JS.API.STREAM.UPDATE.skillhost-runs-a",
        "$JS.API.STREAM.DELETE.skillhost-audit-a",
        "$JS.API.STREAM.PURGE.skillhost-audit-a",
        "$JS.API.STREAM.MSG.DELETE.skillhost-audit-a",
        "$JS.API.STREAM.MSG.GET.skillhost-keys-a",
        "$JS.API.STREAM.MSG.DELETE.skillhost-keys-a",
        "$JS.API.STREAM.NAMES",
        "$SYS.REQ.SERVER.PING",
        // The name of another worker.
        "skillhost.worker.two.x",
        "_INBOX_api.x",
    ];
    let subscribe = [
        ">",
        "skillhost.>",
        "skillhost.queue.a.small",
        "skillhost.run.a.x",
        "skillhost.hint.b.small",
        "skillhost.control.b.x",
        "skillhost.place.b",
        "_INBOX_api.>",
        "_INBOX_two.>",
        "_INBOX.>",
    ];
    let expected: BTreeSet<String> =
        publish.iter().chain(&subscribe).map(|subject| (*subject).to_owned()).collect();
    let found = refused(&fleet, "one", &publish, &subscribe);
    let allowed: Vec<&String> = expected.difference(&found).collect();
    assert!(allowed.is_empty(), "the broker allows {allowed:?}");
    let own = ["$JS.API.CONSUMER.MSG.NEXT.skillhost-queue-a.small", "skillhost.event.a.x"];
    assert!(refused(&fleet, "one", &own, &["skillhost.control.a.x"]).is_empty());
}

#[test]
fn an_answer_that_a_worker_has_sent_elsewhere_reaches_no_other_tenant() {
    let fleet = two_tenants();
    let _server = fleet.api(&["--tenants", tenants(&fleet).to_str().unwrap()]);
    let messages = |stream: &str| {
        block_on(async {
            let context = jetstream::new(fleet.connect_to("b", "api").await);
            let mut stream = context.get_stream(stream).await.unwrap();
            stream.info().await.unwrap().state.messages
        })
    };
    until("the streams of b exist", || messages("skillhost-runs-b") == 0);
    block_on(async {
        // Permissions do not hold for the subject that a request names for its answer: the broker sends
        // it, with what the worker has stored.
        let client = fleet.connect_to("a", "one").await;
        let context = jetstream::new(client.clone());
        let blob = format!("skillhost.blob.a.{}.0", "0".repeat(64));
        let consumer = json!({ "stream_name": "skillhost-runs-b", "config": { "durable_name": "spy", "deliver_subject": "_INBOX_one.spy" } });
        context.publish(blob.clone(), consumer.to_string().into()).await.unwrap().await.unwrap();
        let get = json!({ "last_by_subj": blob }).to_string();
        for answer in [
            "skillhost.run.b.victim",
            "skillhost.queue.b.small",
            "skillhost.key.b.key",
            "skillhost.control.b.run",
            "$JS.API.STREAM.DELETE.skillhost-audit-b",
            "$JS.API.CONSUMER.DURABLE.CREATE.skillhost-runs-b.spy",
        ] {
            for api in
                ["$JS.API.DIRECT.GET.skillhost-blobs-a", "$JS.API.STREAM.MSG.GET.skillhost-blobs-a"]
            {
                let request = get.clone().into();
                client.publish_with_reply(api, answer, request).await.unwrap();
            }
        }
        client.flush().await.unwrap();
        // The last request was answered when this one is.
        client.request("$JS.API.STREAM.MSG.GET.skillhost-blobs-a", get.into()).await.unwrap();
    });
    for stream in ["skillhost-runs-b", "skillhost-queue-b", "skillhost-audit-b"] {
        assert_eq!(messages(stream), 0, "{stream}");
    }
    let spies = block_on(async {
        let context = jetstream::new(fleet.connect_to("b", "api").await);
        let stream = context.get_stream("skillhost-runs-b").await.unwrap();
        stream.get_info().await.unwrap().state.consumer_count
    });
    assert_eq!(spies, 0);
    // Nor has a key of one tenant a meaning in the account of another.
    assert!(!fleet.folder().join("one/nats-b.seed").exists());
}

#[test]
fn strangers_and_plain_text_are_refused() {
    let fleet = Fleet::of_two();
    block_on(async {
        let authority = fleet.folder().join("one/authority.pem");
        let with_tls = || {
            async_nats::ConnectOptions::new()
                .require_tls(true)
                .add_root_certificates(authority.clone())
        };
        assert!(with_tls().connect(fleet.url()).await.is_err(), "without a key");
        let strange = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU";
        assert!(with_tls().nkey(strange.into()).connect(fleet.url()).await.is_err());
        let plain = format!("nats://127.0.0.1:{}", fleet.port);
        assert!(async_nats::connect(plain).await.is_err(), "in the clear");
        // A broker with another authority is not believed.
        let other = Fleet::of_two();
        let options = fleet.options("default", "one").add_root_certificates(authority.clone());
        assert!(options.connect(other.url()).await.is_err(), "another broker");
    });
    // The program says what it needs.
    let (url, identity) = ("nats://127.0.0.1:1", fleet.folder().join("one"));
    let args = ["--nats", url, "--nats-identity", identity.to_str().unwrap()];
    let output = fleet.place.server("worker", &args).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("tls://"), "{output:?}");
}

#[test]
fn a_result_that_no_worker_of_the_tenant_signed_is_refused() {
    let fleet = Fleet::new(&["--worker", "one", "--worker", "two"]);
    let server = fleet.api(&[]);
    let _worker = fleet.worker("one", &[]);
    let id = server.submit(&shell("echo out"));
    server.result(&id);
    let record = fleet.stored("skillhost-runs-default", &format!("skillhost.run.default.{id}"));
    // With the key of a worker at the broker, which may write runs.
    let write = |record: &Value| {
        block_on(async {
            let context = jetstream::new(fleet.connect("one").await);
            let subject = format!("skillhost.run.default.{id}");
            let sent = context.publish(subject, record.to_string().into()).await.unwrap();
            sent.await.unwrap();
        });
    };
    let answer = || {
        let answer = server.get(&format!("/v1/runs/{id}/result"));
        (answer.status, if answer.status == 200 { String::new() } else { answer.code() })
    };
    let untrusted = (502, "result-untrusted".to_owned());
    let mut forged = record[0].clone();
    let payload = forged["state"]["ended"]["payload"].as_str().unwrap().to_owned();
    let changed = payload.replace("\"exit_code\":0", "\"exit_code\":1");
    assert_ne!(changed, payload);
    forged["state"]["ended"]["payload"] = json!(changed);
    write(&forged);
    assert_eq!(answer(), untrusted, "a changed payload");
    let mut forged = record[0].clone();
    let inline = forged["state"]["ended"]["inline"].as_object_mut().unwrap();
    let stdout = inline.values_mut().find(|bytes| **bytes == "out\n").unwrap();
    *stdout = json!("changed\n");
    write(&forged);
    assert_eq!(answer(), untrusted, "changed output");
    let key = skillhost_ledger::receipt::key::SigningKey::generate();
    let text = [b"skillhost run end v1\n", payload.as_bytes()].concat();
    use base64::Engine as _;
    let signature = base64::engine::general_purpose::STANDARD.encode(key.sign(&text));
    let mut forged = record[0].clone();
    forged["state"]["ended"]["key"] = json!(key.public().id());
    forged["state"]["ended"]["signature"] = json!(signature);
    write(&forged);
    assert_eq!(answer(), untrusted, "an unknown key");
    // The end of another run.
    let other = server.submit(&shell("echo other"));
    server.result(&other);
    let subject = format!("skillhost.run.default.{other}");
    let mut replayed = fleet.stored("skillhost-runs-default", &subject)[0].clone();
    replayed["id"] = json!(id);
    write(&replayed);
    assert_eq!(answer(), untrusted, "the end of another run");
    write(&record[0]);
    assert_eq!(answer().0, 200);
    // Nor does it get into the record of all runs.
    until("both ends are recorded", || fleet.stored("skillhost-audit-default", ">").len() == 2);
    fleet.command(&["audit"]);
    block_on(async {
        let context = jetstream::new(fleet.connect("one").await);
        let subject = format!("skillhost.audit.default.{}", "1".repeat(32));
        let text = record[0]["state"]["ended"].to_string();
        context.publish(subject, text.into()).await.unwrap().await.unwrap();
    });
    let (url, identity) = (fleet.url(), fleet.identity("api"));
    let mut audit = fleet.place.user.command(env!("CARGO_BIN_EXE_skillhost"));
    audit.args(["fleet", "audit", "--nats", &url, "--nats-identity", &identity]);
    let refused = audit.output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("record 3: "), "{why}");
}

#[test]
fn large_and_foreign_messages_do_no_harm() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let send = |name: &str, subject: &str, bytes: usize| -> bool {
        block_on(async {
            let context = jetstream::new(fleet.connect(name).await);
            let sent = context.publish(subject.to_owned(), "x".repeat(bytes).into()).await;
            match sent {
                Ok(sent) => sent.await.is_ok(),
                Err(_) => false,
            }
        })
    };
    let id = "0".repeat(32);
    for (name, subject, bytes) in [
        ("one", format!("skillhost.run.default.{id}"), 300 << 10),
        ("one", format!("skillhost.audit.default.{id}"), 300 << 10),
        ("one", format!("skillhost.dead.default.{id}"), 8 << 10),
        ("one", format!("skillhost.blob.default.{id}.0"), 600 << 10),
        ("api", "skillhost.queue.default.small".to_owned(), 8 << 10),
        // More than the broker takes from anyone.
        ("api", format!("skillhost.blob.default.{id}.0"), 2 << 20),
    ] {
        assert!(!send(name, &subject, bytes), "{subject} takes {bytes} bytes");
    }
    // What is no job is dropped. A job of another version, and one whose record cannot be read, are left
    // to other workers. Runs go on.
    assert!(send("api", "skillhost.queue.default.small", 10));
    assert!(send("one", &format!("skillhost.run.default.{id}"), 10));
    assert_eq!(server.get(&format!("/v1/runs/{id}")).code(), "result-untrusted");
    assert_eq!(server.get("/v1/runs").json()["runs"], json!([]), "it hides no other run");
    for job in [json!({ "version": 1, "run": id }), json!({ "version": 2, "runs": [id] })] {
        fleet.write("skillhost.queue.default.small", &job);
    }
    let worker = fleet.worker("one", &[]);
    let run = server.submit(&shell("echo on"));
    assert_eq!(server.result(&run)["outcome"]["stdout"], "on\n");
    for line in ["is no job", "left a job to other workers", "cannot drive a run"] {
        until(line, || worker.log().contains(line));
    }
    until("two jobs are left", || fleet.count("skillhost-queue-default") == 2);
}

#[test]
fn the_record_of_all_runs_has_no_output() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let _worker = fleet.worker("one", &[]);
    let id = server.submit(&shell("echo word-$((40 + 2)); echo word-$((40 + 2)) >&2"));
    let result = server.result(&id);
    for stream in ["stdout", "stderr"] {
        assert_eq!(result["outcome"][stream], "word-42\n", "{result}");
    }
    until("the record of the end is written", || fleet.count("skillhost-audit-default") == 1);
    let stored = fleet.stored("skillhost-audit-default", ">")[0].to_string();
    // Which also verifies it.
    for text in [stored, fleet.command(&["audit"])] {
        assert!(text.contains(&id) && !text.contains("word-"), "{text}");
    }
    assert_eq!(server.result(&id), result);
}

#[test]
fn a_head_shows_that_all_records_were_replaced() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let _worker = fleet.worker("one", &[]);
    let run = |count: usize| {
        server.result(&server.submit(&shell("echo x")));
        until("the record of the end is written", || {
            fleet.count("skillhost-audit-default") == count
        });
    };
    let audit = |head: &str| -> Result<String, String> {
        let (url, identity) = (fleet.url(), fleet.identity("api"));
        let mut audit = fleet.place.user.command(env!("CARGO_BIN_EXE_skillhost"));
        audit.args(["fleet", "audit", "--nats", &url, "--nats-identity", &identity]);
        if !head.is_empty() {
            audit.args(["--head", head]);
        }
        let output = audit.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(text);
        }
        Ok(text.trim().rsplit_once("head ").unwrap().1.to_owned())
    };
    run(1);
    let one = audit("").unwrap();
    run(2);
    let two = audit(&one).unwrap();
    assert!(one.starts_with("1:sha256:") && two.starts_with("2:sha256:"), "{one} {two}");
    assert_eq!(audit(&two).as_ref(), Ok(&two));
    // By someone who may change the streams.
    block_on(async {
        let context = jetstream::new(fleet.connect("api").await);
        context.delete_stream("skillhost-audit-default").await.unwrap();
    });
    let _other = fleet.api(&[]);
    run(1);
    assert!(audit("").is_ok(), "each record is signed");
    let none = one.replacen('1', "0", 1);
    for (head, why) in [
        (&two, "1 records, and the head is of 2"),
        (&one, "not those of the head"),
        (&none, "a digest of zeros"),
    ] {
        let refused = audit(head).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn a_worker_writes_the_record_of_a_cancelled_run_that_the_server_did_not_write() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let id = server.submit(&shell("echo x"));
    let cancelled = server.call("POST", &format!("/v1/runs/{id}/cancel"), &Value::Null);
    assert_eq!(cancelled.json()["status"], "cancelled");
    // As if the server had been killed before it wrote the record.
    block_on(async {
        let context = jetstream::new(fleet.connect("api").await);
        context.delete_stream("skillhost-audit-default").await.unwrap();
    });
    // A server that starts creates the stream again.
    let _other = fleet.api(&[]);
    let _worker = fleet.worker("one", &[]);
    until("the worker has written the record", || fleet.count("skillhost-audit-default") == 1);
    let record: Value = serde_json::from_str(fleet.command(&["audit"]).trim()).unwrap();
    assert_eq!((&record["run"], &record["worker"]), (&json!(id), &json!("api")));
}

#[test]
fn a_run_that_never_started_has_a_record_and_no_record_is_replaced() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    // Nobody takes it.
    let id = server.submit(&shell("echo x"));
    let cancelled = server.call("POST", &format!("/v1/runs/{id}/cancel"), &Value::Null);
    assert_eq!(cancelled.json()["status"], "cancelled");
    let records = fleet.stored("skillhost-audit-default", ">");
    assert_eq!(records.len(), 1);
    fleet.command(&["audit"]);
    let replaced = block_on(async {
        let context = jetstream::new(fleet.connect("one").await);
        let subject = format!("skillhost.audit.default.{id}");
        context.publish(subject, "{}".into()).await.unwrap().await
    });
    assert!(replaced.is_err(), "{replaced:?}");
    assert_eq!(fleet.stored("skillhost-audit-default", ">"), records);
    fleet.command(&["audit"]);
}

#[test]
fn no_secret_enters_the_broker() {
    let fleet = Fleet::of_two();
    let policy = fleet.place.user.work().join("secret.yaml");
    let text = "default: { allow: [Bash], env: [API_TOKEN] }\nsecrets: { env: [API_TOKEN] }";
    std::fs::write(&policy, format!("{text}\n{TRUSTED}")).unwrap();
    let policy = ["--policy", policy.to_str().unwrap()];
    let server = fleet.api(&policy);
    let secret = "hunter2-of-the-worker-only";
    let (url, identity) = (fleet.url(), fleet.folder().join("one").display().to_string());
    let args = [&["--nats", &url, "--nats-identity", &identity], &policy[..]].concat();
    let mut command = fleet.place.server("worker", &args);
    // The server does not know it: a worker reads it where it runs.
    let _worker = fleet.started("one", command.env("API_TOKEN", secret));
    let id = server.submit(&shell("echo ${#API_TOKEN}"));
    let result = server.result(&id);
    assert_eq!(result["outcome"]["stdout"], format!("{}\n", secret.len()), "{result}");
    until("the record of the end is written", || {
        fleet.stored("skillhost-audit-default", ">").len() == 1
    });
    let stored = everything(&fleet.folder().join("broker/store-1"));
    let has = |text: &str| stored.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has(&id) && !has(secret));
}

/// The bytes of all files below a folder.
fn everything(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in crate::support::files(folder) {
        match path.is_dir() {
            true => bytes.extend(everything(&path)),
            false => bytes.extend(std::fs::read(&path).unwrap_or_default()),
        }
    }
    bytes
}

/// A tenants file with `a` and `b`.
fn tenants(fleet: &Fleet) -> std::path::PathBuf {
    let digests = [0, 1].map(|_| skillhost_server::api::tenants::new_token().1);
    crate::run_api::tenants_file(&fleet.place, &[("a", &digests[0], ""), ("b", &digests[1], "")])
}
