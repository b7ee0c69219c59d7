//! Answers of a fleet that are results of earlier runs.

use async_nats::jetstream;
use serde_json::{Value, json};

use super::{Fleet, block_on, until};
use crate::run_api::{ApiServer, tenants_file};

const ON: &str = "cache-results: true";

/// A run whose output is longer than a record, so that it is a blob.
fn run(seed: u64) -> Value {
    let command = "echo new > /workspace/out.txt; for ((i = 0; i < 4000; i++)); do echo \"line $i\"; done; exit 3";
    json!({
        "skill": "writer", "target": { "command": command },
        "deterministic": { "seed": seed }, "receipt": true,
    })
}

/// The names of all known results of a tenant.
fn known(fleet: &Fleet, tenant: &str) -> usize {
    let stream = format!("skillhost-runs-{tenant}");
    fleet.stored(&stream, &format!("skillhost.result.{tenant}.*")).len()
}

#[test]
fn any_worker_answers_with_the_result_of_another_and_no_tenant_with_anothers() {
    let args = ["--tenant", "a", "--tenant", "b", "--worker", "one", "--worker", "two"];
    let fleet = Fleet::new(&args);
    let tokens = [0, 1].map(|_| skillhost_server::api::tenants::new_token());
    let file = tenants_file(&fleet.place, &[("a", &tokens[0].1, ON), ("b", &tokens[1].1, ON)]);
    let tenants = ["--tenants", file.to_str().unwrap()];
    let mut server: ApiServer = fleet.api(&tenants);
    server.token.clone_from(&tokens[0].0);
    let mut one = fleet.worker("one", &tenants);
    let first = server.result(&server.submit(&run(1)));
    assert_eq!((&first["run"]["exit_code"], &first["cached"]), (&json!(3), &Value::Null));
    until("the result is known", || known(&fleet, "a") == 1);
    one.kill();
    let _two = fleet.worker("two", &tenants);
    let again = server.result(&server.submit(&run(1)));
    assert_eq!(again["cached"], first["run"]["id"], "{again}");
    assert_eq!(again["receipt"]["cached"], first["run"]["id"]);
    for part in ["outcome", "changes", "diff"] {
        assert_eq!(again[part], first[part], "{part}");
    }
    let id = again["run"]["id"].as_str().unwrap();
    let whole = server.get(&format!("/v1/runs/{id}/stdout")).text();
    assert_eq!(json!(whole), first["outcome"]["stdout"]);
    // Each has a signed end, and a record of the worker.
    until("both ends are recorded", || fleet.stored("skillhost-audit-a", ">").len() == 2);
    let log = fleet.place.user.home().join(".local/state/skillhost/workers/two/a/audit.jsonl");
    let log = std::fs::read_to_string(log).unwrap();
    let record: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!((&record["cached"], &record["session"]["id"]), (&first["run"]["id"], &json!(id)));
    assert_eq!(log.lines().count(), 1, "no guest was started: {log}");
    server.token.clone_from(&tokens[1].0);
    let other = server.result(&server.submit(&run(1)));
    assert_eq!((&other["cached"], &other["run"]["exit_code"]), (&Value::Null, &json!(3)));
}

#[test]
fn a_result_that_is_named_for_another_run_is_no_answer() {
    let fleet = Fleet::new(&["--tenant", "a", "--worker", "one"]);
    let (server, tenants) = fleet.api_for("a", ON);
    let tenants = tenants.each_ref().map(String::as_str);
    let worker = fleet.worker("one", &tenants);
    let results: Vec<Value> = [1, 2].map(|seed| server.result(&server.submit(&run(seed)))).to_vec();
    until("the results are known", || known(&fleet, "a") == 2);
    // Each name leads to the other run, as a broker or a key at it might arrange.
    block_on(async {
        use futures::TryStreamExt as _;
        let context = jetstream::new(fleet.connect_to("a", "one").await);
        let api = jetstream::new(fleet.connect_to("a", "api").await);
        let stream = api.get_stream_no_info("skillhost-runs-a").await.unwrap();
        let subjects = stream.info_with_subjects("skillhost.result.a.*").await.unwrap();
        let subjects: Vec<(String, usize)> = subjects.try_collect().await.unwrap();
        for (subject, _) in subjects {
            let found = stream.get_last_raw_message_by_subject(&subject).await.unwrap();
            let mut named: Value = serde_json::from_slice(&found.payload).unwrap();
            let ids = [0, 1].map(|at: usize| results[at]["run"]["id"].clone());
            named["run"] = if named["run"] == ids[0] { ids[1].clone() } else { ids[0].clone() };
            let sent = context.publish(subject, named.to_string().into()).await.unwrap();
            sent.await.unwrap();
        }
    });
    for seed in [1, 2] {
        let again = server.result(&server.submit(&run(seed)));
        assert_eq!((&again["cached"], &again["run"]["exit_code"]), (&Value::Null, &json!(3)));
    }
    assert!(worker.log().contains("has another key"), "{}", worker.log());
}
