//! Runs that are answered with the result of an earlier one: which, and that all else is as if they
//! were executed.

use serde_json::{Value, json};
use skillhost_server::api::tenants::new_token;
use skillhost_skill::runtime::digest;

use super::{ApiServer, tenants_file};
use crate::mcp::{Place, TRUSTED};

const ON: &str = "cache-results: true";

/// A server with the tenants `one` and `two`, and their tokens.
fn two_tenants(place: &Place, more: [&str; 2], args: &[&str]) -> (ApiServer, [String; 2]) {
    let ((one, one_digest), (two, two_digest)) = (new_token(), new_token());
    let file = tenants_file(place, &[("one", &one_digest, more[0]), ("two", &two_digest, more[1])]);
    let args = [&["--tenants", file.to_str().unwrap()], args].concat();
    let mut server = ApiServer::new(place, &args);
    server.token.clone_from(&one);
    (server, [one, two])
}

/// A deterministic run that reads and writes files, prints to both streams, and fails.
fn run() -> Value {
    json!({
        "skill": "writer",
        "target": { "command": "cat /workspace/in.txt; echo $RANDOM; echo told >&2; echo new > /workspace/out.txt; exit 3" },
        "files": { "in.txt": { "content": "in\n" } },
        "deterministic": {},
        "receipt": true,
    })
}

fn result(server: &ApiServer, run: &Value) -> Value {
    server.result(&server.submit(run))
}

/// The lines of the audit log of a tenant.
fn records(place: &Place, tenant: &str) -> Vec<Value> {
    let tenants = place.user.home().join(".local/state/skillhost/tenants");
    let log = std::fs::read_to_string(tenants.join(tenant).join("audit.jsonl")).unwrap();
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_deterministic_run_is_answered_with_an_earlier_result_of_the_same_tenant() {
    let place = Place::new();
    let (mut server, [_, two]) = two_tenants(&place, [ON, ON], &[]);
    let first = result(&server, &run());
    assert_eq!((&first["run"]["exit_code"], &first["cached"]), (&json!(3), &Value::Null));
    let executed = records(&place, "one").len();
    let again = result(&server, &run());
    let (id, original) = (&again["run"]["id"], &first["run"]["id"]);
    assert_ne!(id, original);
    assert_eq!(again["cached"], *original, "{again}");
    for part in ["outcome", "changes", "diff"] {
        assert_eq!(again[part], first[part], "{part}");
    }
    for part in ["status", "outcome", "exit_code"] {
        assert_eq!(again["run"][part], first["run"][part], "{part}");
    }
    // The receipt is that of the first run, and says so.
    let mut receipt = first["receipt"].clone();
    assert_eq!(receipt.get("cached"), None);
    receipt["cached"] = original.clone();
    assert_eq!(again["receipt"], receipt);
    // Output and files are the run's own.
    let stream = |name: &str| server.get(&format!("/v1/runs/{}/{name}", id.as_str().unwrap()));
    assert_eq!(json!(stream("stdout").text()), first["outcome"]["stdout"]);
    assert_eq!(stream("stderr").text(), "told\n");
    assert!(stream("logs").text().contains("event: end"));
    assert_eq!(server.get(&format!("/v1/blobs/{}", digest(b"new\n"))).text(), "new\n");
    // One record more, of the run, which started no guest, with the digests of what it answered.
    let records_of_one = records(&place, "one");
    assert_eq!(records_of_one.len(), executed + 1);
    let [.., before, record] = records_of_one.as_slice() else { panic!("{records_of_one:?}") };
    assert_eq!(record["session"]["id"], *id);
    assert_eq!((&record["cached"], &record["run"]), (original, &Value::Null), "{record}");
    assert_eq!(record["status"], json!({ "kind": "exited", "code": 3 }));
    assert_eq!(record["streams"]["stdout"], before["streams"]["stdout"]);
    let log = place.user.home().join(".local/state/skillhost/tenants/one/audit.jsonl");
    let verified = place.user.skillhost(&["audit", "verify", "--audit", log.to_str().unwrap()]);
    assert!(verified.status.success(), "{verified:?}");
    // The same run of another tenant is executed: it learns nothing from the answer or its time.
    server.token = two;
    let other = result(&server, &run());
    assert_eq!(
        (&other["cached"], &other["outcome"]["stdout"]),
        (&Value::Null, &first["outcome"]["stdout"])
    );
    let started = |record: &Value| record["status"]["kind"] == "started";
    assert_eq!(records(&place, "two").iter().filter(|record| started(record)).count(), 1);
}

#[test]
fn a_run_with_anything_else_is_executed() {
    let place = Place::new();
    // Policies with a network and with a state.
    let policy = place.user.work().join("wide.yaml");
    std::fs::write(
        &policy,
        format!(
            "default: {{ allow: [Read, Write, Bash, \"WebFetch(domain:example.com)\"], approval: auto-approved }}\nskills:\n  stateful: {{ limits: {{ state: 1MiB }} }}\n  settled: {{ env: [A=b] }}\n{TRUSTED}"
        ),
    )
    .unwrap();
    for (name, tools) in [
        ("fetcher", "allowed-tools: Bash WebFetch"),
        ("stateful", "allowed-tools: Bash"),
        ("settled", "allowed-tools: Bash"),
        ("plain", "allowed-tools: Bash"),
    ] {
        place.skill(name, tools, "Run it.");
    }
    let on = format!("{ON}\npolicy: {}", policy.display());
    let (mut server, [one, two]) = two_tenants(&place, [&on, ""], &[]);
    let cached = |server: &ApiServer, run: &Value| {
        let result = result(server, run);
        assert_eq!(result["run"]["outcome"], "exited", "{result}");
        !result["cached"].is_null()
    };
    assert!(!cached(&server, &run()) && cached(&server, &run()));
    let changes: [(&str, Value); 8] = [
        ("/target/command", json!("echo other")),
        ("/stdin", json!("x")),
        ("/files/in.txt/content", json!("other\n")),
        ("/files/in.txt/executable", json!(true)),
        ("/limits", json!({ "memory": 200 << 20 })),
        ("/deterministic/seed", json!(1)),
        ("/deterministic/start_time", json!(1)),
        ("/receipt", json!(false)),
    ];
    for (path, value) in changes {
        let mut other = run();
        let (parent, key) = path.rsplit_once('/').unwrap();
        other.pointer_mut(parent).unwrap()[key] = value;
        assert!(!cached(&server, &other), "{path}");
        assert!(cached(&server, &other), "{path}: the other run has a result of its own");
    }
    let in_tree = |target: &str| {
        let file = json!({ "kind": "file", "digest": server.put_blob(b"in\n") });
        let tree = json!({ "in.txt": file, "link": { "kind": "link", "target": target } });
        let tree = server.put_blob(json!({ "entries": tree }).to_string().as_bytes());
        let mut run = run();
        run.as_object_mut().unwrap().remove("files");
        run["tree"] = json!(tree);
        run
    };
    assert!(!cached(&server, &in_tree("a")) && cached(&server, &in_tree("a")));
    assert!(!cached(&server, &in_tree("b")), "the link leads elsewhere");
    let mut live = run();
    live.as_object_mut().unwrap().remove("deterministic");
    live.as_object_mut().unwrap().remove("receipt");
    let of = |skill: &str| {
        let command = json!({ "command": "echo x" });
        json!({ "skill": skill, "target": command, "deterministic": {} })
    };
    assert!(!cached(&server, &of("plain")) && cached(&server, &of("plain")));
    for never in [live, of("fetcher"), of("stateful"), of("settled")] {
        assert!(!cached(&server, &never) && !cached(&server, &never), "{never}");
    }
    // A changed skill has another digest.
    place.write("plain/references/more.md", "more");
    drop(server);
    server = ApiServer::new(
        &place,
        &["--tenants", place.user.work().join("tenants.yaml").to_str().unwrap()],
    );
    server.token = one;
    assert!(!cached(&server, &of("plain")) && cached(&server, &run()), "also after a restart");
    // Off unless the operator turns it on.
    server.token = two;
    assert!(!cached(&server, &run()) && !cached(&server, &run()));
}

#[test]
fn a_skill_that_is_revoked_is_refused_though_its_result_is_known() {
    let place = Place::new();
    let (server, _) = two_tenants(&place, [ON, ""], &[]);
    let text = "---\nname: theirs\ndescription: An upload of the tests.\nallowed-tools: Bash\n---\nRun it.\n";
    let files = json!({
        "SKILL.md": { "digest": server.put_blob(text.as_bytes()) },
        "scripts/go.sh": { "digest": server.put_blob(b"#!/bin/bash\necho uploaded\n") },
    });
    let stored = server.call("POST", "/v1/skills", &json!({ "name": "theirs", "files": files }));
    let run = json!({
        "skill": stored.json()["digest"], "target": { "script": "go.sh" }, "deterministic": {},
    });
    let denied = result(&server, &run);
    assert_eq!(denied["run"]["outcome"], "denied", "{denied}");
    let fix = denied["outcome"]["status"]["fix"].as_str().unwrap();
    let number = fix.split_once("skillhost approve ").unwrap().1.split('`').next().unwrap();
    let succeeds = |args: &[&str]| {
        let output = place.user.skillhost(args);
        assert!(output.status.success(), "{output:?}");
    };
    succeeds(&["approve", number, "--always"]);
    let first = result(&server, &run);
    assert_eq!(first["outcome"]["stdout"], "uploaded\n", "{first}");
    assert_eq!(result(&server, &run)["cached"], first["run"]["id"]);
    let listed = place.user.skillhost(&["permissions", "--json"]).stdout;
    let listed = String::from_utf8(listed).unwrap();
    let skill = listed.split('"').find(|part| part.ends_with("theirs")).unwrap_or("theirs");
    succeeds(&["permissions", "revoke", skill]);
    let refused = result(&server, &run);
    assert_eq!((&refused["run"]["outcome"], &refused["cached"]), (&json!("denied"), &Value::Null));
}
