//! `skillhost diff`: the first difference between two runs.

use serde_json::Value;

use super::network::{PLAIN, StoppableServer};
use crate::cli::text;
use crate::receipt::{Place, parsed};

const SCRIPT: &str =
    "#!/bin/bash\ncat data/a.txt; echo $1; test -z \"$2\" || curl -s -d \"$3\" $2/x\n";

fn place() -> Place {
    let place = Place::new();
    std::fs::write(
        place.path("sk/SKILL.md"),
        "---\nname: sk\ndescription: Asks. Use to test.\nallowed-tools: Read Write Bash WebFetch\n---\n",
    )
    .unwrap();
    std::fs::write(place.path("sk/scripts/run.sh"), SCRIPT).unwrap();
    place
}

/// Returns the part and the field of the first difference.
fn first(place: &Place, a: &str, b: &str) -> (String, String) {
    let run = place.skillhost(&["diff", a, b, "--json"], "");
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    let report = parsed(&run.stdout);
    let of = |key: &str| report["first"][key].as_str().unwrap().to_owned();
    (of("part"), of("field"))
}

#[test]
fn the_first_difference_causes_the_others() {
    let place = place();
    let server = StoppableServer::start();
    let policy = server.policy(&place, PLAIN);
    let url = server.url();
    let record = |folder: &str, flags: &[&str], args: &[&str]| {
        let base = [
            "run",
            "./sk",
            "run.sh",
            "--policy",
            &policy,
            "--workspace",
            "w",
            "--record",
            folder,
            "--receipt",
            &format!("{folder}.json"),
        ];
        let run = place.skillhost(&[&base[..], flags, &["--"], args].concat(), "");
        assert_eq!(run.status.code(), Some(0), "{run:?}");
    };
    let seed = ["--seed", "1", "--start-time", "2026-01-01T00:00:00Z"];
    record("base", &seed, &["x", &url, "body"]);
    let same = place.skillhost(&["diff", "base", "base.json"], "");
    assert_eq!((same.status.code(), text(&same.stdout).as_str()), (Some(0), "no difference\n"));
    record("arguments", &seed, &["y", &url, "body"]);
    record("capability", &[&seed[..], &["--deny", "Write(x)"]].concat(), &["x", &url, "body"]);
    record("start", &["--seed", "2", "--start-time", "2026-01-01T00:00:00Z"], &["x", &url, "body"]);
    // The server counts.
    record("response", &seed, &["x", &url, "body"]);
    std::fs::write(place.path("w/data/a.txt"), "other\n").unwrap();
    record("file", &seed, &["x", &url, "body"]);
    for (folder, part, field) in [
        ("arguments", "input", "input.arguments[0]"),
        ("file", "input", "input.files.table[\"/workspace/data/a.txt\"]"),
        ("capability", "capability", "grant.capabilities.write.none_of[0]"),
        ("start", "start", "grant.capabilities.determinism.seed"),
        ("response", "host-call", "exchanges[0].response.head"),
    ] {
        let (found, at) = first(&place, "base", folder);
        assert!(found == part && at.starts_with(field), "{folder}: {found} {at}");
    }
    let report_text = text(&place.skillhost(&["diff", "base", "response"], "").stdout);
    assert!(report_text.starts_with("first difference: host calls\n"), "{report_text}");
    // Receipts have digests of requests.
    let (part, field) = first(&place, "base.json", "response.json");
    assert!(part == "host-call" && field == "result.requests[0].received_digest", "{field}");
}

#[test]
fn diff_shows_outputs_and_hides_secrets() {
    let place = place();
    let record = |folder: &str, command: &str| {
        let base = [
            "run",
            "./sk",
            "--record",
            folder,
            "--seed",
            "1",
            "--start-time",
            "2026-01-01T00:00:00Z",
            "--policy",
            "p.yaml",
            "--env",
            "TOKEN=sesame-open",
        ];
        let run = place.skillhost(&[&base[..], &["--command", command]].concat(), "");
        assert!(run.status.code().is_some(), "{run:?}");
    };
    std::fs::write(
        place.path("p.yaml"),
        "default: { allow: [Read, Bash] }\nsecrets: { env: [TOKEN] }\n",
    )
    .unwrap();
    record("a", "echo $TOKEN; python3 -c 'print(1)'");
    record("b", "echo $TOKEN; python3 -c 'print(1)'");
    assert_eq!(place.skillhost(&["diff", "a", "b"], "").status.code(), Some(0));
    super::tampered::change(&place.path("b"), |recorded| {
        recorded["receipt"]["result"]["processes"] = Value::Array(Vec::new())
    });
    assert_eq!(first(&place, "a", "b").0, "host-call");
    super::tampered::change(&place.path("a"), |recorded| {
        recorded["receipt"]["result"]["processes"] = Value::Array(Vec::new());
        recorded["receipt"]["result"]["stdout"]["digest"] = "sha256:other".into();
    });
    assert_eq!(first(&place, "a", "b"), ("output".into(), "result.stdout.digest".into()));
}

#[test]
fn diff_rejects_other_files() {
    let place = place();
    std::fs::write(place.path("no.json"), "{}").unwrap();
    for (path, code) in [("no.json", 65), ("nowhere", 74), ("w", 74)] {
        let run = place.skillhost(&["diff", path, path], "");
        assert_eq!(run.status.code(), Some(code), "{run:?}");
    }
}
