//! Workers and brokers that fail: each run ends once, or ends as `unknown`.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::disks::Disks;
use super::{Fleet, shell, until};
use crate::cli::skipped;
use crate::mcp::TRUSTED;
use crate::run_api::ApiServer;

/// The signed ends of all runs.
fn ends(fleet: &Fleet) -> Vec<Value> {
    let ends = fleet.stored("skillhost-audit-default", ">");
    ends.iter().map(|end| serde_json::from_str(end["payload"].as_str().unwrap()).unwrap()).collect()
}

/// Waits until a run prints this.
fn prints(server: &ApiServer, id: &str, text: &str) {
    until(text, || server.get(&format!("/v1/runs/{id}/stdout")).text().contains(text));
}

#[test]
fn the_run_of_a_killed_worker_continues_on_another_and_ends_once() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let mut one = fleet.worker("one", &[]);
    let id = server.submit(&shell("echo started; sleep 2; echo done"));
    prints(&server, &id, "started");
    let _two = fleet.worker("two", &[]);
    one.kill();
    let result = server.result(&id);
    assert_eq!(result["outcome"]["stdout"], "started\ndone\n", "{result}");
    until("the record of the end is written", || ends(&fleet).len() == 1);
    let end = &ends(&fleet)[0];
    assert_eq!((&end["worker"], &end["attempt"]), (&json!("two"), &json!(2)), "{end}");
}

#[test]
fn a_worker_that_was_stopped_does_not_overwrite_the_end() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let one = fleet.worker("one", &[]);
    let id = server.submit(&shell("echo started; sleep 1; echo $RANDOM"));
    prints(&server, &id, "started");
    one.signal(Signal::STOP);
    let _two = fleet.worker("two", &[]);
    let result = server.result(&id);
    one.signal(Signal::CONT);
    until("the first worker finds that the run is not its own", || {
        one.log().contains("its end is not stored twice")
    });
    assert_eq!(server.result(&id), result);
    let ends = ends(&fleet);
    assert!(ends.len() == 1 && ends[0]["worker"] == "two", "{ends:?}");
}

#[test]
fn a_worker_whose_disk_is_full_leaves_its_runs_to_others() {
    let mut fleet = Fleet::prepared(1, &["--worker", "one", "--worker", "two"]);
    let disk = fleet.place.user.home().join(".local/state/skillhost/workers/one");
    let Some(disks) = Disks::new(&[(disk, 16)]) else {
        return skipped("the kernel refuses mounts");
    };
    fleet.disks = Some(disks);
    fleet.start_broker(0);
    let server = fleet.api(&[]);
    let (url, identity) = (fleet.url(), fleet.identity("one"));
    let command = fleet.place.server("worker", &["--nats", &url, "--nats-identity", &identity]);
    let _one = fleet.started("one", &mut fleet.seeing_disks(command));
    let output = "for ((i = 0; i < 4000; i++)); do echo line; done";
    let file = "head -c 100000 /dev/zero > file; true";
    let submit = |then: &str| {
        let command = format!("echo started; sleep 3; {then}");
        server.submit(&json!({ "skill": "writer", "target": { "command": command } }))
    };
    let ids = [output, file].map(submit);
    ids.iter().for_each(|id| prints(&server, id, "started"));
    fleet.disks.as_ref().unwrap().fill(0);
    let _two = fleet.worker("two", &[]);
    for id in &ids {
        let result = server.result(id);
        assert_eq!(result["run"]["status"], "succeeded", "{result}");
    }
    until("the records of the ends are written", || ends(&fleet).len() == 2);
    assert!(ends(&fleet).iter().all(|end| end["worker"] == "two"), "{:?}", ends(&fleet));
}

#[test]
fn a_broker_accepts_tenants_whose_quotas_exceed_its_disk_and_keeps_their_files_when_it_restarts() {
    let mut fleet = Fleet::prepared(1, &["--worker", "one"]);
    let store = fleet.folder().join("broker/store-1");
    let Some(disks) = Disks::new(&[(store, 64)]) else {
        return skipped("the kernel refuses mounts");
    };
    fleet.disks = Some(disks);
    fleet.start_broker(0);
    // The default quota is 1 GiB.
    let server = fleet.api(&[]);
    let _one = fleet.worker("one", &[]);
    let run = |command: &str| server.submit(&shell(command));
    let id = run("for ((i = 0; i < 4000; i++)); do echo line; done");
    let result = server.result(&id);
    assert_eq!(result["run"]["status"], "succeeded", "{result}");
    fleet.stop_broker(0);
    fleet.start_broker(0);
    until("the server has reached the broker again", || {
        server.get(&format!("/v1/runs/{id}/result")).status == 200
    });
    assert_eq!(server.result(&id), result);
}

#[test]
fn a_run_that_may_have_written_to_the_network_is_not_run_again() {
    let fleet = Fleet::of_two();
    let place = &fleet.place;
    let network = "allowed-tools: Bash WebFetch";
    place.skill("poster", network, "Run it.");
    place.skill("putter", &format!("{network}\nmetadata:\n  idempotent: \"true\""), "Run it.");
    for skill in ["poster", "putter"] {
        let script = "#!/bin/bash\necho started\nsleep 2\necho done\n";
        place.write(&format!("{skill}/scripts/go.sh"), script);
    }
    let policy = place.user.work().join("network.yaml");
    // Without a level, a skill with a network is disabled.
    let allow =
        "default: { allow: [Bash, \"WebFetch(domain:example.com)\"], approval: auto-approved }";
    std::fs::write(&policy, format!("{allow}\n{TRUSTED}")).unwrap();
    let policy = ["--policy", policy.to_str().unwrap()];
    let server = fleet.api(&policy);
    let mut one = fleet.worker("one", &policy);
    let ids: Vec<String> = ["poster", "putter"]
        .map(|skill| server.submit(&json!({ "skill": skill, "target": { "script": "go.sh" } })))
        .to_vec();
    ids.iter().for_each(|id| prints(&server, id, "started"));
    let _two = fleet.worker("two", &policy);
    one.kill();
    let unknown = server.result(&ids[0]);
    assert_eq!(unknown["run"]["status"], "unknown", "{unknown}");
    let again = server.result(&ids[1]);
    assert_eq!(again["outcome"]["stdout"], "started\ndone\n", "{again}");
}

#[test]
fn a_run_that_no_worker_can_end_is_given_up_and_can_be_queued_again() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&["--nats-attempts", "1"]);
    let mut one = fleet.worker("one", &[]);
    let id = server.submit(&shell("echo started; sleep 2"));
    prints(&server, &id, "started");
    one.kill();
    let _two = fleet.worker("two", &[]);
    assert_eq!(server.result(&id)["run"]["status"], "lost");
    let list = fleet.command(&["dead", "list"]);
    assert_eq!(list, format!("{id} scribe: 1 attempt, last by one\n"));
    // As if an earlier call had ended before the run was in the queue.
    let subject = format!("skillhost.run.default.{id}");
    let mut record = fleet.stored("skillhost-runs-default", &subject)[0].clone();
    record["state"] = json!("queued");
    super::block_on(async {
        let context = async_nats::jetstream::new(fleet.connect("api").await);
        let sent = context.publish(subject, record.to_string().into()).await.unwrap();
        sent.await.unwrap();
    });
    fleet.command(&["dead", "requeue", &id]);
    let result = server.result(&id);
    assert_eq!(result["run"]["status"], "succeeded", "{result}");
    assert_eq!(fleet.command(&["dead", "list"]), "");
}

#[test]
fn a_worker_that_is_asked_to_stop_ends_its_runs_first_or_gives_them_back() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let mut one = fleet.worker("one", &[]);
    let id = server.submit(&shell("echo started; sleep 1; echo done"));
    prints(&server, &id, "started");
    one.signal(Signal::TERM);
    let next = server.submit(&shell("echo next"));
    assert_eq!(server.result(&id)["outcome"]["stdout"], "started\ndone\n");
    assert!(one.child.wait().unwrap().success());
    assert_eq!(server.get(&format!("/v1/runs/{next}")).json()["status"], "queued");
    // What takes longer than it may is another worker's.
    let mut two = fleet.worker("two", &["--drain", "100ms"]);
    assert_eq!(server.result(&next)["outcome"]["stdout"], "next\n");
    let long = server.submit(&shell("echo started; sleep 2; echo done"));
    prints(&server, &long, "started");
    two.signal(Signal::TERM);
    let began = Instant::now();
    assert!(two.child.wait().unwrap().success());
    assert!(began.elapsed() < Duration::from_secs(2), "{}", two.log());
    let _one = fleet.worker("one", &[]);
    assert_eq!(server.result(&long)["outcome"]["stdout"], "started\ndone\n");
    until("all records are written", || ends(&fleet).len() == 3);
    let given_back = ends(&fleet).into_iter().find(|end| end["run"] == json!(long)).unwrap();
    assert_eq!(given_back["attempt"], 1, "it was no attempt");
}

#[test]
fn runs_survive_the_broker_and_the_servers() {
    let mut fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let _worker = fleet.worker("one", &[]);
    let id = server.submit(&shell("echo started; sleep 2; echo done"));
    prints(&server, &id, "started");
    fleet.stop_broker(0);
    let refused = server.get(&format!("/v1/runs/{id}"));
    assert_eq!((refused.status, refused.code()), (503, "fleet-unavailable".into()));
    drop(server);
    std::thread::sleep(Duration::from_secs(2));
    fleet.start_broker(0);
    let server = fleet.api(&[]);
    let result = server.result(&id);
    assert_eq!(result["outcome"]["stdout"], "started\ndone\n", "{result}");
    assert_eq!(server.result(&server.submit(&shell("echo x")))["run"]["status"], "succeeded");
}

/// The broker of Debian 12 forgets a request for a message that expires just when a message arrives.
#[test]
fn a_worker_asks_again_for_what_the_broker_has_forgotten() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let _worker = fleet.worker("one", &[]);
    server.result(&server.submit(&shell("true")));
    // A request waits for 50 ms from the time at which the run before was taken.
    let gaps = (0..200).map(|n| Duration::from_micros(48_000 + 40 * n));
    let ids: Vec<String> = gaps
        .map(|gap| {
            let next = Instant::now() + gap;
            let id = server.submit(&shell("true"));
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            id
        })
        .collect();
    for id in ids {
        let run = server.result(&id)["run"].clone();
        let at = |key: &str| run[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let time = at("started").duration_since(at("submitted"));
        assert!(time.as_secs() < 2, "{run}");
    }
}

#[test]
fn what_a_killed_server_left_of_a_submission_is_completed_by_the_next_request() {
    use sha2::{Digest as _, Sha256};
    use skillhost_skill::runtime::hex;
    let fleet = Fleet::of_two();
    let (server, tenants) = fleet.api_for("default", "quotas: { running: 1, queued: 1 }");
    let tenants = tenants.each_ref().map(String::as_str);
    let run = shell("echo completed");
    let typed: skillhost_server::api::types::RunSubmission =
        serde_json::from_value(run.clone()).unwrap();
    let digest = hex(&Sha256::digest(serde_json::to_string(&typed).unwrap()));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let take_key = |key: &str, id: &str| {
        let record = json!({
            "version": 1, "digest": digest, "run": id, "created": now.as_millis() as u64,
        });
        let key = hex(&Sha256::digest(key));
        fleet.write(&format!("skillhost.key.default.{key}"), &record);
    };
    let post = |key: &str| {
        let headers = [("Idempotency-Key", key)];
        let body = run.to_string();
        server.call_as(&server.token, "POST", "/v1/runs", &headers, body.as_bytes())
    };
    // Killed after it took the key.
    let (first, second) = ("1".repeat(32), "2".repeat(32));
    take_key("first", &first);
    assert_eq!(post("first").json()["id"], json!(first));
    // Killed after it stored the run, before the run was in the queue.
    let mut record = fleet
        .stored("skillhost-runs-default", &format!("skillhost.run.default.{first}"))[0]
        .clone();
    record["id"] = json!(second);
    take_key("second", &second);
    fleet.write(&format!("skillhost.run.default.{second}"), &record);
    assert_eq!(post("second").json()["id"], json!(second));
    // While the queue is full, no client is told that its run is queued.
    let more: Vec<String> = (0..2).map(|_| server.submit(&run)).collect();
    let third = "3".repeat(32);
    record["id"] = json!(third);
    take_key("third", &third);
    fleet.write(&format!("skillhost.run.default.{third}"), &record);
    let refused = post("third");
    assert_eq!((refused.status, refused.code()), (429, "queue-full".into()));
    let _worker = fleet.worker("one", &tenants);
    more.iter().for_each(|id| drop(server.result(id)));
    assert_eq!(post("third").json()["id"], json!(third));
    assert_eq!(server.result(&third)["outcome"]["stdout"], "completed\n");
    for id in [&first, &second] {
        assert_eq!(server.result(id)["outcome"]["stdout"], "completed\n");
    }
    assert_eq!(post("first").json()["id"], json!(first), "and is not submitted again");
}

#[test]
fn an_end_that_the_brokers_lose_is_restored_when_the_run_is_submitted_again() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let _worker = fleet.worker("one", &[]);
    let claim = json!({
        "worker": "one", "token": "0".repeat(32), "message": 1, "delivery": 1, "started": 0,
        "is_final": false, "is_cancelled": false,
    });
    let long = "for ((i = 0; i < 4000; i++)); do echo \"line $RANDOM\"; done";
    let short = "echo $RANDOM";
    for (key, state, command) in [
        ("first", Some(json!("queued")), short),
        ("second", Some(json!({ "running": claim })), long),
        ("third", None, short),
    ] {
        let run = shell(command);
        let post = || {
            let headers = [("Idempotency-Key", key)];
            let body = run.to_string();
            server.call_as(&server.token, "POST", "/v1/runs", &headers, body.as_bytes())
        };
        let id = post().json()["id"].as_str().unwrap().to_owned();
        let before = server.result(&id);
        let is_recorded = || fleet.subjects("skillhost-audit-default", ">");
        until("the end is recorded", || {
            is_recorded().contains(&format!("skillhost.audit.default.{id}"))
        });
        // What a broker has lost is as if it had never been written.
        let subject = format!("skillhost.run.default.{id}");
        match state {
            Some(state) => {
                let mut record = fleet.stored("skillhost-runs-default", &subject)[0].clone();
                record["state"] = state;
                fleet.write(&subject, &record);
            }
            None => {
                fleet.forget("skillhost-runs-default", &subject);
                assert_eq!(server.get(&format!("/v1/runs/{id}")).status, 404);
            }
        }
        assert_eq!(post().json()["id"], json!(id));
        let after = server.result(&id);
        assert_eq!(after["run"], before["run"], "it has the end that it had");
        // The record of the end has no output. A blob is still there.
        assert_eq!(after["outcome"], Value::Null);
        let whole = server.get(&format!("/v1/runs/{id}/stdout")).text();
        let stdout = &before["outcome"]["stdout"];
        assert_eq!(json!(whole), if command == long { stdout.clone() } else { json!("") });
    }
    let attempts: Vec<_> = ends(&fleet).iter().map(|end| end["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 1, 1], "none is executed again");
}

#[test]
fn no_run_starts_again_if_the_brokers_lose_all_that_they_replace() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let _worker = fleet.worker("one", &[]);
    let run = shell("echo $RANDOM");
    let id = submit_under_a_key(&server, &run);
    let before = server.result(&id)["run"].clone();
    until("the end is recorded", || ends(&fleet).len() == 1);
    // Keys are in a stream of their own, in which nothing is replaced.
    fleet.forget("skillhost-runs-default", "skillhost.>");
    fleet.forget("skillhost-queue-default", "skillhost.>");
    assert_eq!(submit_under_a_key(&server, &run), id);
    let after = server.result(&id)["run"].clone();
    for same in ["status", "outcome", "exit_code", "ended"] {
        assert_eq!(after[same], before[same], "{same}");
    }
    assert_eq!(ends(&fleet).len(), 1);
}

#[test]
fn a_run_whose_worker_and_message_are_gone_is_executed_when_it_is_submitted_again() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let id = submit_under_a_key(&server, &shell("echo done"));
    let subject = format!("skillhost.run.default.{id}");
    let mut record = fleet.stored("skillhost-runs-default", &subject)[0].clone();
    record["attempts"] = json!(1);
    record["state"] = json!({ "running": {
        "worker": "two", "token": "0".repeat(32), "message": 1, "delivery": 1, "started": 0,
        "is_final": false, "is_cancelled": false,
    }});
    fleet.write(&subject, &record);
    super::block_on(async {
        let context = async_nats::jetstream::new(fleet.connect("api").await);
        context.get_stream("skillhost-queue-default").await.unwrap().purge().await.unwrap();
    });
    let _worker = fleet.worker("one", &[]);
    assert_eq!(submit_under_a_key(&server, &shell("echo done")), id);
    assert_eq!(server.result(&id)["outcome"]["stdout"], "done\n");
    until("the end is recorded", || ends(&fleet).len() == 1);
    assert_eq!(ends(&fleet)[0]["attempt"], 2);
}

#[test]
fn a_run_whose_record_alone_is_gone_is_executed_when_it_is_submitted_again() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let run = shell("echo done");
    let id = submit_under_a_key(&server, &run);
    fleet.forget("skillhost-runs-default", &format!("skillhost.run.default.{id}"));
    let worker = fleet.worker("one", &[]);
    until("the worker has the message", || worker.log().contains("do not know the run yet"));
    assert_eq!(submit_under_a_key(&server, &run), id);
    assert_eq!(server.result(&id)["outcome"]["stdout"], "done\n");
    until("the end is recorded", || ends(&fleet).len() == 1);
    assert_eq!(ends(&fleet)[0]["attempt"], 1);
}

#[test]
fn a_run_in_progress_is_not_executed_twice_whatever_is_in_the_queue() {
    let fleet = Fleet::new(&["--tenant", "a", "--worker", "one", "--worker", "two"]);
    let (server, tenants) = fleet.api_for("a", "quotas: { running: 2 }");
    let tenants = tenants.each_ref().map(String::as_str);
    let one = fleet.worker("one", &tenants);
    let run = shell("echo started; sleep 4");
    let id = submit_under_a_key(&server, &run);
    prints(&server, &id, "started");
    assert_eq!(submit_under_a_key(&server, &run), id, "its worker has it");
    let copies = |count: u64| {
        super::block_on(async {
            let context = async_nats::jetstream::new(fleet.connect_to("a", "api").await);
            let stream = context.get_stream("skillhost-queue-a").await.unwrap();
            for _ in 0..count {
                let job = json!({ "version": 1, "run": id }).to_string();
                let sent = context.publish("skillhost.queue.a.small", job.into()).await.unwrap();
                sent.await.unwrap();
            }
            stream.get_info().await.unwrap().state
        })
    };
    assert_eq!(copies(0).last_sequence, 1, "no copy was needed");
    // The worker that executes the run leaves the others' places alone, and so does another worker.
    copies(4);
    let began = Instant::now();
    let next = server.submit(&shell("echo next"));
    assert_eq!(server.result(&next)["outcome"]["stdout"], "next\n");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    let _two = fleet.worker("two", &tenants);
    copies(4);
    assert_eq!(server.result(&id)["run"]["status"], "succeeded", "{}", one.log());
    until("the queue is empty", || copies(0).messages == 0);
    until("the ends are recorded", || fleet.stored("skillhost-audit-a", ">").len() == 2);
    for end in fleet.stored("skillhost-audit-a", ">") {
        let end: Value = serde_json::from_str(end["payload"].as_str().unwrap()).unwrap();
        assert_eq!(end["attempt"], 1, "{end}");
    }
}

/// Submits a run under the same key as the last one, and returns its id.
fn submit_under_a_key(server: &ApiServer, run: &Value) -> String {
    let headers = [("Idempotency-Key", "key")];
    let answer =
        server.call_as(&server.token, "POST", "/v1/runs", &headers, run.to_string().as_bytes());
    answer.json()["id"].as_str().unwrap().to_owned()
}

#[test]
fn runs_that_wait_for_a_quota_are_not_delivered_to_abandoned_requests() {
    let fleet = Fleet::new(&["--tenant", "a", "--worker", "one", "--worker", "two"]);
    let (server, tenants) = fleet.api_for("a", "quotas: { running: 1 }");
    let tenants = tenants.each_ref().map(String::as_str);
    let _workers = [fleet.worker("one", &tenants), fleet.worker("two", &tenants)];
    let mut ids = vec![server.submit(&shell("echo started; sleep 3"))];
    prints(&server, &ids[0], "started");
    // Both workers ask many times for the one that has to wait.
    ids.push(server.submit(&shell("echo next")));
    assert_eq!(server.result(&ids[0])["run"]["status"], "succeeded");
    ids.extend((0..3).map(|_| server.submit(&shell("echo more"))));
    let began = Instant::now();
    for id in &ids {
        assert_eq!(server.result(id)["run"]["status"], "succeeded");
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    until("all ends are recorded", || fleet.stored("skillhost-audit-a", ">").len() == ids.len());
    for end in fleet.stored("skillhost-audit-a", ">") {
        let end: Value = serde_json::from_str(end["payload"].as_str().unwrap()).unwrap();
        assert_eq!(end["attempt"], 1, "{end}");
    }
}

#[test]
fn a_run_may_write_more_files_than_its_worker_may_open() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let (url, identity) = (fleet.url(), fleet.identity("one"));
    let own = fleet.place.server("worker", &["--nats", &url, "--nats-identity", &identity]);
    let mut command = std::process::Command::new("prlimit");
    command.arg("--nofile=400").arg(own.get_program()).args(own.get_args());
    command.current_dir(own.get_current_dir().unwrap());
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let _worker = fleet.started("one", &mut command);
    let write = "for ((i = 0; i < 600; i++)); do echo $i > /workspace/$i; done";
    let run = json!({ "skill": "writer", "target": { "command": write } });
    let result = server.result(&server.submit(&run));
    assert_eq!(result["run"]["status"], "succeeded", "{}", result["outcome"]["status"]);
    assert_eq!(result["changes"].as_array().unwrap().len(), 600);
    until("the end is recorded", || ends(&fleet).len() == 1);
    assert_eq!(ends(&fleet)[0]["attempt"], 1);
}

#[test]
fn a_run_whose_files_have_expired_ends_and_says_so() {
    let fleet = Fleet::of_two();
    let server = fleet.api(&[]);
    let digest = server.put_blob(b"gone soon\n");
    let mut run = json!({ "skill": "writer", "target": { "command": "cat in.txt" } });
    run["files"] = json!({ "in.txt": { "digest": digest } });
    let id = server.submit(&run);
    super::block_on(async {
        let context = async_nats::jetstream::new(fleet.connect("api").await);
        let stream = context.get_stream_no_info("skillhost-blobs-default").await.unwrap();
        stream.purge().await.unwrap();
    });
    let _worker = fleet.worker("one", &[]);
    let result = server.result(&id);
    assert_eq!(result["run"]["status"], "failed", "{result}");
    assert!(result["outcome"]["status"].to_string().contains("has expired"), "{result}");
}

#[test]
fn a_run_that_no_worker_can_execute_does_not_stop_the_others() {
    let fleet = Fleet::new(&["--tenant", "a", "--worker", "one"]);
    let (server, tenants) = fleet.api_for("a", "quotas: { running: 1 }");
    let tenants = tenants.each_ref().map(String::as_str);
    let id = server.submit(&json!({ "skill": "loud", "target": { "script": "shout.sh" } }));
    // Every worker has another version of the skill.
    fleet.place.write("loud/references/other.md", "other");
    let worker = fleet.worker("one", &tenants);
    let began = Instant::now();
    let next = server.submit(&shell("echo next"));
    assert_eq!(server.result(&next)["outcome"]["stdout"], "next\n", "{}", worker.log());
    while server.get(&format!("/v1/runs/{id}")).json()["status"] != "lost" {
        assert!(began.elapsed() < Duration::from_secs(180), "{}", worker.log());
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(began.elapsed() > Duration::from_secs(30), "others had time to take it");
    until("it is a dead letter", || {
        fleet.stored("skillhost-dead-a", ">").iter().any(|letter| letter["run"] == json!(id))
    });
}
