//! Runs of a fleet: any server answers for a run, and it ends as on one machine.

use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use serde_json::{Value, json};
use skillhost_skill::runtime::digest;

use super::{Fleet, shell, until};
use crate::run_api::tenants_file;

#[test]
fn any_server_answers_for_a_run_and_it_ends_as_on_one_machine() {
    let fleet = Fleet::of_two();
    fleet.place.write(
        "writer/scripts/edit.sh",
        "#!/bin/bash\ncat /workspace/in.txt\necho new > /workspace/out.txt\nfor ((i = 0; i < 4000; i++)); do echo \"line $i\"; done\n",
    );
    let (first, mut second) = (fleet.api(&[]), fleet.api(&[]));
    second.token.clone_from(&second.server.token);
    let _workers = [fleet.worker("one", &[]), fleet.worker("two", &[])];
    // The files of a run are blobs, which are uploaded to one server and used by the other.
    let text = b"uploaded\n";
    let run = json!({
        "skill": "writer",
        "target": { "script": "edit.sh" },
        "files": { "in.txt": { "digest": digest(text) } },
    });
    assert_eq!(first.call("POST", "/v1/runs", &run).code(), "blobs-missing");
    second.put_blob(text);
    let id = first.submit(&run);
    let result = second.result(&id);
    assert_eq!(result["run"]["status"], "succeeded", "{result}");
    let stdout = result["outcome"]["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("uploaded\nline 0\n") && stdout.ends_with("line 3999\n"));
    let whole = first.get(&format!("/v1/runs/{id}/stdout")).text();
    assert_eq!(whole, stdout, "output that is longer than a record is a blob");
    let written = &result["changes"][0]["after"]["digest"];
    assert_eq!(*written, json!(digest(b"new\n")), "{result}");
    let blob = first.get(&format!("/v1/blobs/{}", written.as_str().unwrap()));
    assert_eq!(blob.text(), "new\n");
    // So is a tree, which names its files.
    let entries = json!({
        "in.txt": { "kind": "file", "digest": digest(b"of a tree\n") },
        "link": { "kind": "link", "target": "in.txt" },
    });
    let tree = json!({ "entries": entries }).to_string();
    let run = json!({ "skill": "writer", "target": { "command": "cat link" }, "tree": digest(tree.as_bytes()) });
    for blob in [tree.as_bytes(), b"of a tree\n"] {
        let refused = first.call("POST", "/v1/runs", &run);
        assert_eq!(refused.json()["missing"], json!([digest(blob)]), "{}", refused.text());
        second.put_blob(blob);
    }
    let read = second.result(&first.submit(&run));
    assert_eq!(read["outcome"]["stdout"], "of a tree\n", "{read}");
    let logs = second.get(&format!("/v1/runs/{id}/logs")).text();
    assert!(logs.contains("uploaded") && logs.contains("line 3999") && logs.contains("event: end"));
    // The same key is the same run at both servers, and another request with it is refused.
    let key = [("Idempotency-Key", "monday")];
    let post = |server: &crate::run_api::ApiServer, run: &Value| {
        let body = run.to_string();
        server.call_as(&server.token, "POST", "/v1/runs", &key, body.as_bytes())
    };
    let accepted = post(&first, &shell("echo once"));
    let again = post(&second, &shell("echo once"));
    assert_eq!((accepted.status, again.status), (202, 200));
    assert_eq!(accepted.json()["id"], again.json()["id"]);
    assert_eq!(post(&second, &shell("echo twice")).code(), "key-conflict");
    let once = accepted.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(second.result(&once)["outcome"]["stdout"], "once\n");
    // The list has both, the latest first, and continues.
    let page = |query: &str| first.get(&format!("/v1/runs?{query}")).json();
    let list = page("limit=1");
    assert_eq!(list["runs"][0]["id"], json!(once));
    let next = list["next"].as_str().unwrap();
    assert_eq!(page(&format!("limit=5&cursor={next}"))["runs"][1]["id"], json!(id));
    assert_eq!(page("status=failed")["runs"], json!([]));
    let missing = "0".repeat(32);
    assert_eq!(first.get(&format!("/v1/runs/{missing}")).code(), "not-found");
}

#[test]
fn requests_under_a_key_at_once_are_one_run() {
    let fleet = Fleet::of_two();
    let (first, second) = (fleet.api(&[]), fleet.api(&[]));
    let _worker = fleet.worker("one", &[]);
    for round in 0..4 {
        let key = format!("round-{round}");
        let post = &|number: usize| {
            let server = [&first, &second][number % 2];
            let headers = [("Idempotency-Key", &*key)];
            let body = shell(&format!("echo {}", number / 4)).to_string();
            let answer =
                server.call_as(&server.token, "POST", "/v1/runs", &headers, body.as_bytes());
            (answer.status, answer.json())
        };
        let answers: Vec<(u16, Value)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || post(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let of = |status: u16| answers.iter().filter(move |answer| answer.0 == status);
        assert_eq!((of(202).count(), of(200).count(), of(409).count()), (1, 3, 4), "{answers:?}");
        assert!(of(409).all(|(_, problem)| problem["code"] == "key-conflict"), "{answers:?}");
        let id = &of(202).next().unwrap().1["id"];
        assert!(of(200).all(|(_, run)| run["id"] == *id), "{answers:?}");
        let result = first.result(id.as_str().unwrap());
        assert_eq!(result["run"]["status"], "succeeded", "{result}");
    }
    until("the ends are recorded", || fleet.stored("skillhost-audit-default", ">").len() == 4);
    assert_eq!(first.get("/v1/runs").json()["runs"].as_array().unwrap().len(), 4);
}

#[test]
fn the_record_of_a_run_says_who_executed_it() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let _worker = fleet.worker("one", &[]);
    let id = server.submit(&json!({
        "skill": "scribe", "target": { "script": "note.sh" }, "receipt": true, "deterministic": {},
    }));
    let result = server.result(&id);
    assert!(result["receipt"]["runtime"]["engine"].is_string(), "{result}");
    until("the record of the end is written", || {
        fleet.stored("skillhost-audit-default", ">").len() == 1
    });
    let end = &fleet.stored("skillhost-audit-default", ">")[0];
    let end: Value = serde_json::from_str(end["payload"].as_str().unwrap()).unwrap();
    assert_eq!((&end["worker"], &end["attempt"]), (&json!("one"), &json!(1)));
    assert!(end["host"].as_str().unwrap().starts_with("skillhost "), "{end}");
    assert!(end["engine"].as_str().unwrap().starts_with("wasmtime"), "{end}");
    let verified = fleet.command(&["audit"]);
    assert_eq!(serde_json::from_str::<Value>(verified.trim()).unwrap(), end);
    // The worker has the record of the run too, with the run's id.
    let log = fleet.place.user.home().join(".local/state/skillhost/workers/one/default");
    let log = std::fs::read_to_string(log.join("audit.jsonl")).unwrap();
    assert!(log.contains(&id), "{log}");
}

#[test]
fn output_streams_and_a_cancellation_arrives_while_a_worker_runs() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let _worker = fleet.worker("one", &[]);
    let id = server.submit(&shell("echo first; sleep 2; echo second"));
    server.until(&id, "running");
    until("the output arrives before the end", || {
        server.get(&format!("/v1/runs/{id}/stdout")).text() == "first\n"
    });
    assert_eq!(server.get(&format!("/v1/runs/{id}")).json()["status"], "running");
    let logs = server.get(&format!("/v1/runs/{id}/logs")).text();
    assert!(logs.contains("data: \"first\\n\"") && logs.contains("data: \"second\\n\""), "{logs}");
    for command in ["while :; do :; done", "sleep 3000"] {
        let id = server.submit(&shell(&format!("echo started; {command}")));
        until("the guest runs", || {
            server.get(&format!("/v1/runs/{id}/stdout")).text() == "started\n"
        });
        let began = Instant::now();
        let answer = server.call("POST", &format!("/v1/runs/{id}/cancel"), &Value::Null);
        assert_eq!(answer.json()["status"], "cancelled", "{command}");
        assert!(began.elapsed() < Duration::from_secs(1), "{command}: {:?}", began.elapsed());
        assert_eq!(server.result(&id)["run"]["outcome"], "interrupted");
    }
}

#[test]
fn a_run_that_waits_is_cancelled_and_a_full_queue_refuses_more() {
    let fleet = Fleet::new(&["--tenant", "a", "--worker", "one"]);
    let (token, sha256) = skillhost_server::api::tenants::new_token();
    let quotas = "quotas: { running: 1, queued: 2 }";
    let file = tenants_file(&fleet.place, &[("a", &sha256, quotas)]);
    let mut server = fleet.api(&["--tenants", file.to_str().unwrap()]);
    server.token = token;
    // Nobody takes them. The queue has room for those in progress too.
    let ids: Vec<String> = (0..5).map(|_| server.submit(&shell("echo x"))).collect();
    let refused = server.call("POST", "/v1/runs", &shell("echo x"));
    assert_eq!((refused.status, refused.code()), (429, "queue-full".into()));
    let cancel = format!("/v1/runs/{}/cancel", ids[0]);
    assert_eq!(server.call("POST", &cancel, &Value::Null).json()["status"], "cancelled");
    let _worker = fleet.worker("one", &["--tenants", file.to_str().unwrap()]);
    for id in &ids[1..] {
        assert_eq!(server.result(id)["run"]["status"], "succeeded");
    }
    assert_eq!(server.result(&ids[0])["run"]["status"], "cancelled");
}

#[test]
fn an_accepted_run_finds_its_files_after_uploads_have_expired() {
    let fleet = Fleet::new(&["--tenant", "a", "--worker", "one"]);
    let (server, tenants) = fleet.api_for("a", "retention: { uploads: 2s }");
    let file = json!({ "kind": "file", "digest": server.put_blob(b"kept\n") });
    let tree = json!({ "entries": { "in.txt": file } }).to_string();
    let tree = server.put_blob(tree.as_bytes());
    let command = json!({ "command": "cat in.txt" });
    let in_tree = json!({ "skill": "writer", "target": command, "tree": tree });
    let files = json!({ "in.txt": { "digest": digest(b"kept\n") } });
    let of_files = json!({ "skill": "writer", "target": command, "files": files });
    let ids = [&in_tree, &of_files].map(|run| server.submit(run));
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(server.call("POST", "/v1/runs", &in_tree).code(), "blobs-missing");
    let _worker = fleet.worker("one", &tenants.each_ref().map(String::as_str));
    for id in ids {
        assert_eq!(server.result(&id)["outcome"]["stdout"], "kept\n");
    }
}

#[test]
fn an_uploaded_skill_runs_on_a_worker_that_has_never_seen_it() {
    let fleet = Fleet::new(&["--tenant", "a", "--worker", "one"]);
    let (token, sha256) = skillhost_server::api::tenants::new_token();
    let file = tenants_file(&fleet.place, &[("a", &sha256, "trust-uploads: true")]);
    let tenants = ["--tenants", file.to_str().unwrap()];
    let (mut first, mut second) = (fleet.api(&tenants), fleet.api(&tenants));
    first.token.clone_from(&token);
    second.token = token;
    let _worker = fleet.worker("one", &tenants);
    let text = "---\nname: fresh\ndescription: An upload of the tests.\nallowed-tools: Bash\n---\nRun it.\n";
    let files = json!({
        "SKILL.md": { "digest": first.put_blob(text.as_bytes()) },
        "scripts/go.sh": { "digest": first.put_blob(b"#!/bin/bash\necho fresh\n") },
    });
    // Uploaded as blobs to one server, stored as a skill by the other.
    let stored = second.call("POST", "/v1/skills", &json!({ "name": "fresh", "files": files }));
    assert_eq!(stored.status, 201, "{}", stored.text());
    let digest = stored.json()["digest"].as_str().unwrap().to_owned();
    for named in ["fresh", &*digest] {
        let id = first.submit(&json!({ "skill": named, "target": { "script": "go.sh" } }));
        assert_eq!(first.result(&id)["outcome"]["stdout"], "fresh\n", "{named}");
    }
    let refused = first.call("POST", "/v1/runs", &json!({ "skill": "stale" }));
    assert_eq!(refused.code(), "no-skill");
}

#[test]
fn metrics_show_the_queue_and_the_workers() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    server.submit(&shell("echo x"));
    let metrics = || server.server.get("/metrics", &[]).body;
    let waits = "skillhost_fleet_queued{tenant=\"default\",class=\"small\"} 1";
    until("a run waits", || metrics().contains(waits));
    assert!(metrics().contains("skillhost_fleet_oldest_run_seconds{tenant=\"default\"} "));
    let _worker = fleet.worker("one", &[]);
    until("the worker reports, and has ended the run", || {
        let text = metrics();
        let slots = |line: &str| {
            line.starts_with("skillhost_fleet_worker_slots{worker=\"one\",")
                && line.ends_with("} 4")
        };
        text.lines().any(slots)
            && text.contains("skillhost_fleet_queued{tenant=\"default\",class=\"small\"} 0")
    });
}

#[test]
fn deleting_a_tenant_of_a_fleet_deletes_its_streams_and_says_if_there_are_none() {
    let mut fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    server.submit(&shell("echo x"));
    drop(server);
    let streams = || {
        super::block_on(async {
            let context = async_nats::jetstream::new(fleet.connect("api").await);
            context.stream_names().try_collect::<Vec<String>>().await.unwrap()
        })
    };
    assert!(streams().contains(&"skillhost-keys-default".into()));
    assert_eq!(fleet.command(&["delete", "default"]), "deleted everything of default\n");
    assert_eq!(streams(), [] as [String; 0]);
    let (url, identity) = (fleet.url(), fleet.identity("api"));
    let delete = |fleet: &Fleet| {
        let mut command = fleet.place.user.command(env!("CARGO_BIN_EXE_skillhost"));
        command.args(["fleet", "delete", "default", "--nats", &url, "--nats-identity", &identity]);
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let missing = "the fleet has no tenant `default`";
    assert!(delete(&fleet).contains(missing));
    // Brokers that do not answer have said nothing about the tenant.
    fleet.stop_broker(0);
    assert!(!delete(&fleet).contains(missing));
}

#[test]
fn what_a_fleet_cannot_keep_is_refused() {
    let fleet = Fleet::of_two();
    // State of a skill would be on another worker in the next run.
    let policy = fleet.place.user.work().join("state.yaml");
    std::fs::write(
        &policy,
        format!(
            "default: {{ allow: [Bash] }}\nskills: {{ scribe: {{ limits: {{ state: 1MiB }} }} }}\n{}",
            crate::mcp::TRUSTED
        ),
    )
    .unwrap();
    let policy = ["--policy", policy.to_str().unwrap()];
    let server = fleet.api(&policy);
    let _worker = fleet.worker("one", &policy);
    let result = server.result(&server.submit(&shell("echo x")));
    assert_eq!(result["run"]["outcome"], "denied", "{result}");
    assert!(result.to_string().contains("keeps state between runs"), "{result}");
}

#[test]
fn bytes_that_grow_in_a_record_do_no_harm() {
    use base64::Engine as _;
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let _worker = fleet.worker("one", &[]);
    // As JSON, each of these has six bytes.
    let id = server.submit(&shell("printf '\\1%.0s' {1..16000}; printf '\\1%.0s' {1..16000} >&2"));
    let result = server.result(&id);
    assert_eq!(result["run"]["status"], "succeeded", "{}", result["run"]);
    let whole = server.get(&format!("/v1/runs/{id}/stdout"));
    assert!(whole.body.len() == 16_000 && whole.body.iter().all(|byte| *byte == 1));
    // What a worker could not read is not accepted.
    let stdin = base64::engine::general_purpose::STANDARD.encode(vec![0; 2 << 20]);
    let mut run = shell("cat");
    run["stdin"] = json!({ "base64": stdin });
    let refused = server.call("POST", "/v1/runs", &run);
    assert_eq!((refused.status, refused.code()), (413, "body-too-large".into()));
}

#[test]
fn requests_count_as_stored() {
    let fleet = Fleet::new(&["--tenant", "a", "--worker", "one"]);
    let (token, sha256) = skillhost_server::api::tenants::new_token();
    let file = tenants_file(&fleet.place, &[("a", &sha256, "quotas: { storage: 256KiB }")]);
    let mut server = fleet.api(&["--tenants", file.to_str().unwrap()]);
    server.token = token;
    let mut run = shell("cat");
    run["stdin"] = json!("x".repeat(12 << 10));
    let mut accepted = 0;
    let refused = loop {
        let answer = server.call("POST", "/v1/runs", &run);
        if answer.status != 202 {
            break answer;
        }
        accepted += 1;
        assert!(accepted < 60, "the quota is not enforced");
    };
    assert_eq!((refused.status, refused.code()), (507, "storage-quota".into()));
    assert!(accepted > 5, "{accepted}");
}

#[test]
fn quotas_of_an_hour_hold_over_all_workers_and_servers() {
    let args = ["--tenant", "a", "--tenant", "b", "--worker", "one", "--worker", "two"];
    let fleet = Fleet::new(&args);
    let tokens = [0, 1].map(|_| skillhost_server::api::tenants::new_token());
    // Two runs print more than one of them may, and each on another worker.
    let quotas = "quotas: { bytes-per-hour: 100KiB }";
    let file = tenants_file(&fleet.place, &[("a", &tokens[0].1, quotas), ("b", &tokens[1].1, "")]);
    let tenants = ["--tenants", file.to_str().unwrap()];
    let (mut first, mut second) = (fleet.api(&tenants), fleet.api(&tenants));
    first.token.clone_from(&tokens[0].0);
    second.token.clone_from(&tokens[0].0);
    let loud = shell("for ((i = 0; i < 7000; i++)); do echo \"line $i\"; done");
    let mut one = fleet.worker("one", &tenants);
    assert_eq!(first.result(&first.submit(&loud))["run"]["status"], "succeeded");
    // What the first worker counted is not forgotten with it.
    one.kill();
    let _two = fleet.worker("two", &tenants);
    assert_eq!(second.result(&second.submit(&loud))["run"]["status"], "succeeded");
    for server in [&first, &second] {
        let refused = server.call("POST", "/v1/runs", &shell("echo x"));
        assert_eq!((refused.status, refused.code()), (429, "bytes-quota".into()));
        let again: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!(again > 60 && again <= 3_601, "{again}");
        let put =
            server.call_as(&server.token, "PUT", &format!("/v1/blobs/{}", digest(b"x")), &[], b"x");
        assert_eq!(put.code(), "bytes-quota");
    }
    let used = &fleet.stored("skillhost-runs-a", "skillhost.usage.a")[0]["minutes"];
    let sum = |field: &str| -> u64 {
        used.as_object().unwrap().values().map(|minute| minute[field].as_u64().unwrap()).sum()
    };
    assert!(sum("bytes") > 100 << 10 && sum("cpu_ms") > 0, "{used}");
    // The other tenant has quotas of its own, and none is counted.
    first.token.clone_from(&tokens[1].0);
    assert_eq!(first.result(&first.submit(&loud))["run"]["status"], "succeeded");
    assert_eq!(fleet.stored("skillhost-runs-b", "skillhost.usage.b").len(), 0);
}

#[test]
fn processor_time_counts_over_all_workers() {
    let fleet = Fleet::new(&["--tenant", "a", "--worker", "one"]);
    let (token, sha256) = skillhost_server::api::tenants::new_token();
    let of_servers = "quotas: { cpu-seconds-per-hour: 1, bytes-per-hour: 1GiB }";
    let file = tenants_file(&fleet.place, &[("a", &sha256, of_servers)]);
    let mut server = fleet.api(&["--tenants", file.to_str().unwrap()]);
    server.token = token;
    // A worker counts although its own file has no quota.
    let own = fleet.place.user.work().join("own.yaml");
    std::fs::write(&own, "tenants: { a: {} }\n").unwrap();
    let _worker = fleet.worker("one", &["--tenants", own.to_str().unwrap()]);
    let mut runs = 0;
    let refused = loop {
        let answer =
            server.call("POST", "/v1/runs", &shell("for ((i = 0; i < 200000; i++)); do :; done"));
        if answer.status != 202 {
            break answer;
        }
        server.result(answer.json()["id"].as_str().unwrap());
        runs += 1;
        assert!(runs < 200, "the quota is not enforced");
    };
    assert_eq!((refused.status, refused.code()), (429, "cpu-quota".into()));
    assert!(runs > 0);
}
