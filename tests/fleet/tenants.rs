//! Tenants that come and go while servers and workers run.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::{Fleet, free_ports, shell, until};
use crate::cli::repository;
use crate::run_api::{ApiServer, replace, tenants_file};

/// Writes a tenants file of a worker, which needs no tokens.
fn of_worker(file: &Path, tenants: &[&str]) {
    let lines: String = tenants.iter().map(|name| format!("  {name}: {{}}\n")).collect();
    replace(file, &format!("tenants:\n{lines}"));
}

fn own_file(fleet: &Fleet) -> PathBuf {
    fleet.place.user.work().join("own.yaml")
}

/// Submits a run, which must stay in the queue for a while.
fn stays_queued(server: &ApiServer) -> String {
    let id = server.submit(&shell("echo late"));
    // A worker that takes runs has it within a fraction of this time.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(server.get(&format!("/v1/runs/{id}")).json()["status"], "queued");
    id
}

#[test]
fn tenants_are_added_and_removed_while_servers_and_workers_run() {
    let fleet = Fleet::new(&["--tenant", "a", "--worker", "one", "--worker", "two"]);
    let tokens = ["a", "b"].map(|_| skillhost_server::api::tenants::new_token());
    let of = |name: &'static str, at: usize| (name, tokens[at].1.as_str(), "");
    let file = tenants_file(&fleet.place, &[of("a", 0)]);
    let tenants = ["--tenants", file.to_str().unwrap()];
    let mut server = fleet.api(&tenants);
    server.token.clone_from(&tokens[0].0);
    let one = fleet.worker("one", &tenants);
    assert_eq!(server.result(&server.submit(&shell("echo a")))["outcome"]["stdout"], "a\n");
    // A tenant is added.
    fleet.init(&["--tenant", "a", "--tenant", "b", "--worker", "one", "--worker", "two"]);
    fleet.reload_broker(0);
    tenants_file(&fleet.place, &[of("a", 0), of("b", 1)]);
    server.token.clone_from(&tokens[1].0);
    until("the server knows the tenant", || server.get("/v1/runs").status == 200);
    let mut id = String::new();
    until("the server has created its queues", || {
        let answer = server.call("POST", "/v1/runs", &shell("echo b"));
        id = answer.json()["id"].as_str().unwrap_or_default().to_owned();
        answer.status == 202
    });
    assert_eq!(server.result(&id)["outcome"]["stdout"], "b\n", "{}", one.log());
    // The first one is served as before.
    server.token.clone_from(&tokens[0].0);
    assert_eq!(server.result(&server.submit(&shell("echo a")))["outcome"]["stdout"], "a\n");
    // A worker that serves a tenant no more gives its run to another one.
    drop(one);
    let own = own_file(&fleet);
    of_worker(&own, &["a", "b"]);
    let one = fleet.worker("one", &["--tenants", own.to_str().unwrap()]);
    let id = server.submit(&shell("echo started; sleep 4; echo done"));
    until("it runs", || server.get(&format!("/v1/runs/{id}/stdout")).text().contains("started"));
    of_worker(&own, &["b"]);
    until("the worker gives it back", || one.log().contains("serving the tenant no more"));
    until("it waits again", || server.get(&format!("/v1/runs/{id}")).json()["status"] == "queued");
    let two = fleet.worker("two", &tenants);
    let result = server.result(&id);
    assert_eq!(result["outcome"]["stdout"], "started\ndone\n", "{result}");
    until("the record of the end is written", || {
        let ends = fleet.stored("skillhost-audit-a", ">");
        ends.iter().any(|end| {
            let end: serde_json::Value =
                serde_json::from_str(end["payload"].as_str().unwrap()).unwrap();
            end["run"] == json!(id) && end["worker"] == "two"
        })
    });
    // A tenant that comes back is served again.
    drop(two);
    of_worker(&own, &["a", "b"]);
    let back = server.result(&server.submit(&shell("echo back")));
    assert_eq!(back["outcome"]["stdout"], "back\n", "{}", one.log());
}

#[test]
fn a_run_that_has_ended_is_executed_by_another_worker_if_its_own_no_longer_has_the_tenant() {
    let args = ["--tenant", "a", "--tenant", "b", "--worker", "one", "--worker", "two"];
    let mut fleet = Fleet::new(&args);
    let (server, tenants) = fleet.api_for("a", "");
    let tenants = tenants.each_ref().map(String::as_str);
    let own = own_file(&fleet);
    of_worker(&own, &["a", "b"]);
    let one = fleet.worker("one", &["--tenants", own.to_str().unwrap()]);
    let command = "echo started; sleep 3; echo new > /workspace/out.txt";
    let id = server.submit(&json!({ "skill": "writer", "target": { "command": command } }));
    until("it runs", || server.get(&format!("/v1/runs/{id}/stdout")).text().contains("started"));
    // Its file cannot be stored before the tenant is gone.
    fleet.stop_broker(0);
    until("it has ended", || one.log().contains("cannot store the end of a run yet"));
    of_worker(&own, &["b"]);
    until("the worker gives it back", || one.log().contains("is no longer served"));
    fleet.start_broker(0);
    let _two = fleet.worker("two", &tenants);
    until("the server has reached the broker again", || {
        server.get(&format!("/v1/runs/{id}")).status == 200
    });
    let result = server.result(&id);
    assert_eq!(result["run"]["status"], "succeeded", "{result} {}", one.log());
    assert_eq!(result["changes"][0]["path"], "out.txt", "{result}");
    until("the end is recorded", || fleet.count("skillhost-audit-a") == 1);
    let end = fleet.stored("skillhost-audit-a", ">")[0]["payload"].as_str().unwrap().to_owned();
    let end: serde_json::Value = serde_json::from_str(&end).unwrap();
    assert_eq!((&end["status"], &end["worker"]), (&json!("succeeded"), &json!("two")));
}

#[test]
fn a_worker_takes_no_runs_while_it_cannot_read_whose() {
    let fleet = Fleet::new(&["--tenant", "a", "--worker", "one"]);
    let (token, sha256) = skillhost_server::api::tenants::new_token();
    let file = tenants_file(&fleet.place, &[("a", &sha256, "")]);
    let mut server = fleet.api(&["--tenants", file.to_str().unwrap()]);
    server.token = token;
    let own = own_file(&fleet);
    let policy = fleet.place.user.work().join("own-policy.yaml");
    let trusted = crate::mcp::TRUSTED;
    let allowed = format!("default: {{ allow: [Bash] }}\n{trusted}");
    std::fs::write(&policy, &allowed).unwrap();
    let text = format!("tenants:\n  a: {{ policy: {} }}\n", policy.display());
    replace(&own, &text);
    let worker = fleet.worker("one", &["--tenants", own.to_str().unwrap()]);
    let in_progress = server.submit(&shell("echo started; sleep 3; echo done"));
    until("it runs", || {
        server.get(&format!("/v1/runs/{in_progress}/stdout")).text().contains("started")
    });
    let identity = fleet.folder().join("one/identity.json");
    let whole = std::fs::read_to_string(&identity).unwrap();
    for (file, text, broken) in [
        (&own, &*text, "tenants: ["),
        (&policy, &*allowed, "default: ["),
        (&identity, &*whole, "{"),
    ] {
        let before = worker.log().matches("taking no more runs").count();
        std::fs::write(file, broken).unwrap();
        until("the worker finds it", || {
            worker.log().matches("taking no more runs").count() > before
        });
        let id = stays_queued(&server);
        std::fs::write(file, text).unwrap();
        assert_eq!(server.result(&id)["outcome"]["stdout"], "late\n", "{}", file.display());
    }
    // What was in progress went on.
    assert_eq!(server.result(&in_progress)["outcome"]["stdout"], "started\ndone\n");
    // A policy that changes holds for the next run.
    std::fs::write(&policy, format!("default: {{ allow: [Bash], deny: [Bash] }}\n{trusted}"))
        .unwrap();
    until("the policy holds", || {
        server.result(&server.submit(&shell("echo x")))["run"]["outcome"] == "denied"
    });
}

#[test]
fn the_scaler_of_kubernetes_finds_the_queue_of_the_tenant() {
    let mut fleet = Fleet::prepared(1, &["--worker", "one"]);
    let port = free_ports(1);
    let file = fleet.folder().join("broker/nats-server-1.conf");
    let mut text = std::fs::read_to_string(&file).unwrap();
    text += &format!("http: \"127.0.0.1:{port}\"\n");
    std::fs::write(&file, text).unwrap();
    fleet.start_broker(0);
    let server = fleet.api(&[]);
    let ids = [1, 2].map(|n| server.submit(&shell(&format!("echo {n}"))));
    let keda = std::fs::read_to_string(repository("deploy/kubernetes/keda.yaml")).unwrap();
    let of = |key: &str| {
        let line = keda.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap();
        line.trim_start_matches(':').trim().trim_matches('"').to_owned()
    };
    // What KEDA asks, and where it looks in the answer.
    let mut broker = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let path = format!("/jsz?acc={}&consumers=true&config=true", of("account"));
    write!(broker, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    broker.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let found: serde_json::Value = serde_json::from_str(body).unwrap();
    let named = |list: &serde_json::Value, name: String| {
        // What is missing has no number of messages either.
        let list = list.as_array().unwrap_or_else(|| panic!("{answer}"));
        list.iter().find(|one| one["name"] == *name).cloned().unwrap_or_default()
    };
    let account = named(&found["account_details"], of("account"));
    let stream = named(&account["stream_detail"], of("stream"));
    let consumer = named(&stream["consumer_detail"], of("consumer"));
    assert_eq!(consumer["num_pending"], 2, "{answer}");
    let _one = fleet.worker("one", &[]);
    ids.iter().for_each(|id| assert_eq!(server.result(id)["run"]["status"], "succeeded"));
}
