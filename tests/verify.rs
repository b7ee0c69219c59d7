//! `skillhost verify` confirms a genuine receipt, and reports each kind of tampering with its name
//! and exit code.
//!
//! The attacker can even sign: most receipts are changed and then signed with a trusted key, so
//! that only the digests and the repeated run reveal the change.

use std::process::Output;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use skillhost_ledger::receipt::canonical;
use skillhost_ledger::receipt::key::SigningKey;

use crate::audit::digest;
use crate::cli::text;
use crate::receipt::{Place, parsed};

/// A receipt, and everything needed to repeat its run.
struct Genuine {
    place: Place,
    key: SigningKey,
    receipt: Value,
}

static GENUINE: LazyLock<Genuine> = LazyLock::new(|| {
    let (place, key) = (Place::new(), SigningKey::generate());
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(place.path("w"))
        .arg(place.path("before"))
        .status()
        .unwrap();
    assert!(copied.success());
    std::fs::write(place.path("key.pem"), key.public().pem()).unwrap();
    let receipt = parsed(&place.receipt(&["--deterministic"]));
    Genuine { place, key, receipt }
});

const SIGNATURE: i32 = 80;
const SKILL: i32 = 81;
const RESULT: i32 = 82;
const NOT_REPEATABLE: i32 = 83;

/// Wraps a payload in an envelope as DSSE specifies.
fn enveloped(payload: &[u8], key: &SigningKey) -> Value {
    let kind = "application/vnd.in-toto+json";
    let signed =
        [format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).as_bytes(), payload].concat();
    let signature = json!({ "keyid": key.public().id(), "sig": BASE64.encode(key.sign(&signed)) });
    json!({ "payload": BASE64.encode(payload), "payloadType": kind, "signatures": [signature] })
}

fn statement(receipt: &Value) -> Value {
    let hex = |digest: &Value| json!({ "sha256": digest.as_str().unwrap().trim_start_matches("sha256:") });
    let mut subject: Vec<Value> = ["stdout", "stderr"]
        .iter()
        .map(|name| json!({ "name": name, "digest": hex(&receipt["result"][name]["digest"]) }))
        .collect();
    for (path, now) in receipt["result"]["files"]["changed"].as_object().unwrap() {
        subject.extend((!now.is_null()).then(|| json!({ "name": path, "digest": hex(now) })));
    }
    json!({
        "_type": "https://in-toto.io/Statement/v1", "subject": subject,
        "predicateType": "urn:skillhost:receipt:v1", "predicate": receipt,
    })
}

fn signed(receipt: &Value, key: &SigningKey) -> Vec<u8> {
    canonical::text(&enveloped(&canonical::text(&statement(receipt)), key))
}

/// Verifies a document with additional flags against the genuine run's skill and inputs.
fn verify(document: &[u8], flags: &[&str], stdin: &str) -> Output {
    let place = &GENUINE.place;
    let file = tempfile::NamedTempFile::new_in(place.user.work()).unwrap();
    std::fs::write(file.path(), document).unwrap();
    let base = [
        "verify",
        file.path().to_str().unwrap(),
        "--skill",
        "./sk",
        "--inputs",
        "before",
        "--key",
        "key.pem",
    ];
    let environment = if flags.contains(&"--env") { &[][..] } else { &["--env", "TOKEN=hunter2"] };
    place.skillhost(&[&base[..], environment, flags].concat(), stdin)
}

/// Asserts that a document is refused with this exit code, and that the message names the cause.
fn refused(document: &[u8], code: i32, named: &str) {
    let run = verify(document, &[], "input\n");
    assert_eq!(run.status.code(), Some(code), "{run:?}");
    assert!(text(&run.stderr).contains(named), "{named}: {}", text(&run.stderr));
}

/// Asserts that a receipt is refused after this change, although it is signed with a trusted key.
fn tampered(code: i32, named: &str, tamper: impl FnOnce(&mut Value)) {
    let mut receipt = GENUINE.receipt.clone();
    tamper(&mut receipt);
    assert_ne!(receipt, GENUINE.receipt, "nothing was changed");
    refused(&signed(&receipt, &GENUINE.key), code, named);
}

fn other_digest() -> Value {
    digest(b"something else").into()
}

#[test]
fn a_genuine_receipt_is_confirmed() {
    let run = verify(&signed(&GENUINE.receipt, &GENUINE.key), &[], "input\n");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(text(&run.stdout).contains(&GENUINE.key.public().id()), "{run:?}");
    let run = verify(&signed(&GENUINE.receipt, &GENUINE.key), &["--json"], "input\n");
    let verdict = parsed(&run.stdout);
    assert_eq!(
        (&verdict["verdict"], &verdict["repeated"], &verdict["differences"]),
        (&"same".into(), &true.into(), &json!([]))
    );
    assert!(!GENUINE.place.path("before/out.txt").exists(), "the inputs are unchanged");
    let unsigned = verify(&canonical::text(&GENUINE.receipt), &["--unsigned"], "input\n");
    assert_eq!(unsigned.status.code(), Some(0), "{unsigned:?}");
}

#[test]
fn a_verification_leaves_nothing_behind() {
    let own = tempfile::tempdir().unwrap();
    let (receipt, scratch) = (own.path().join("receipt.json"), own.path().join("scratch"));
    std::fs::write(&receipt, canonical::text(&GENUINE.receipt)).unwrap();
    std::fs::create_dir(&scratch).unwrap();
    let args = ["--unsigned", "--skill", "./sk", "--inputs", "before", "--env", "TOKEN=hunter2"];
    for (input, code) in [("input\n", 0), ("other\n", 83)] {
        let mut command =
            GENUINE.place.command(&[&["verify", receipt.to_str().unwrap()], &args[..]].concat());
        command.env("TMPDIR", &scratch);
        let run = GENUINE.place.finish(command, input);
        assert_eq!(run.status.code(), Some(code), "{run:?}");
        assert!(std::fs::read_dir(&scratch).unwrap().next().is_none());
    }
}

#[test]
fn own_and_trusted_keys_are_accepted() {
    let place = &Place::new();
    place.skillhost(&["key", "new"], "");
    let run = place
        .skillhost(&["run", "./hello", "--deterministic", "--receipt", "own.json", "--sign"], "");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert_eq!(
        place.skillhost(&["verify", "own.json", "--skill", "./hello"], "").status.code(),
        Some(0)
    );
    let other = Place::new();
    std::fs::copy(place.path("own.json"), other.path("own.json")).unwrap();
    assert_eq!(
        other.skillhost(&["verify", "own.json", "--skill", "./hello"], "").status.code(),
        Some(SIGNATURE)
    );
    std::fs::write(other.path("key.pem"), place.skillhost(&["key", "show"], "").stdout).unwrap();
    assert_eq!(
        other.skillhost(&["key", "trust", "key.pem"], "").status.code(),
        Some(77),
        "no operator can confirm"
    );
    let mut trust = other.command(&["key", "trust", "key.pem"]);
    trust.env("SKILLHOST_OPERATOR_TOKEN", other.user.operator_token());
    assert_eq!(other.finish(trust, "").status.code(), Some(0));
    let run = other.skillhost(&["verify", "own.json", "--skill", "./hello"], "");
    assert_eq!(run.status.code(), Some(0), "another user, in another folder: {run:?}");
}

#[test]
fn tampering_01_payload_changed_after_signing() {
    let mut receipt = GENUINE.receipt.clone();
    receipt["result"]["status"]["code"] = 1.into();
    let mut envelope = enveloped(&canonical::text(&statement(&GENUINE.receipt)), &GENUINE.key);
    envelope["payload"] = BASE64.encode(canonical::text(&statement(&receipt))).into();
    refused(&canonical::text(&envelope), SIGNATURE, "does not match the receipt");
}

#[test]
fn tampering_02_signature_changed() {
    let mut envelope = parsed(&signed(&GENUINE.receipt, &GENUINE.key));
    envelope["signatures"][0]["sig"] = BASE64.encode([7; 64]).into();
    refused(&canonical::text(&envelope), SIGNATURE, "does not match the receipt");
}

#[test]
fn tampering_03_signature_of_an_untrusted_key() {
    refused(&signed(&GENUINE.receipt, &SigningKey::generate()), SIGNATURE, "not a trusted key");
}

#[test]
fn tampering_04_untrusted_signature_with_a_trusted_key_id() {
    let mut envelope = parsed(&signed(&GENUINE.receipt, &SigningKey::generate()));
    envelope["signatures"][0]["keyid"] = GENUINE.key.public().id().into();
    refused(&canonical::text(&envelope), SIGNATURE, "does not match the receipt");
}

#[test]
fn tampering_05_signature_removed() {
    refused(&canonical::text(&GENUINE.receipt), SIGNATURE, "not signed");
    let mut envelope = parsed(&signed(&GENUINE.receipt, &GENUINE.key));
    envelope["signatures"] = json!([]);
    refused(&canonical::text(&envelope), SIGNATURE, "not signed");
}

#[test]
fn tampering_06_statement_about_other_outputs() {
    let mut statement = statement(&GENUINE.receipt);
    statement["subject"][0]["digest"]["sha256"] = "0".repeat(64).into();
    refused(
        &canonical::text(&enveloped(&canonical::text(&statement), &GENUINE.key)),
        65,
        "the statement in its envelope does not match the receipt",
    );
}

#[test]
fn tampering_07_text_that_parsers_read_differently() {
    let text = String::from_utf8(canonical::text(&statement(&GENUINE.receipt))).unwrap();
    let twice = text.replacen("{\"_type\"", "{\"_type\":\"other\",\"_type\"", 1);
    refused(&canonical::text(&enveloped(twice.as_bytes(), &GENUINE.key)), 65, "canonical");
}

#[test]
fn tampering_08_skill_digest() {
    tampered(SKILL, "skill.digest", |receipt| receipt["skill"]["digest"] = other_digest());
}

#[test]
fn tampering_09_skill_name() {
    tampered(SKILL, "skill.name", |receipt| receipt["skill"]["name"] = "another".into());
}

#[test]
fn tampering_10_component() {
    tampered(SKILL, "program.component", |receipt| {
        receipt["program"]["component"] = other_digest()
    });
}

#[test]
fn tampering_11_script() {
    tampered(SKILL, "program.script.digest", |receipt| {
        receipt["program"]["script"]["digest"] = other_digest()
    });
}

#[test]
fn tampering_12_engine() {
    tampered(NOT_REPEATABLE, "runtime.fingerprint", |receipt| {
        receipt["runtime"]["fingerprint"] = other_digest()
    });
}

#[test]
fn tampering_13_runtimes() {
    tampered(NOT_REPEATABLE, "runtime.programs.shell", |receipt| {
        receipt["runtime"]["programs"]["shell"] = other_digest()
    });
}

#[test]
fn tampering_14_policy() {
    tampered(NOT_REPEATABLE, "grant.policy", |receipt| receipt["grant"]["policy"] = other_digest());
}

#[test]
fn tampering_15_capabilities() {
    tampered(NOT_REPEATABLE, "grant.capabilities.limits.memory", |receipt| {
        receipt["grant"]["capabilities"]["limits"]["memory"] = 7.into()
    });
}

#[test]
fn tampering_16_seed() {
    // The capabilities' digest is adjusted, so only repeating the run reveals the change.
    tampered(RESULT, "result.stderr", |receipt| {
        receipt["grant"]["capabilities"]["determinism"]["seed"] = 7.into();
        receipt["grant"]["digest"] = canonical::digest(&receipt["grant"]["capabilities"]).into();
    });
}

#[test]
fn tampering_17_start_time() {
    tampered(RESULT, "result.stdout.head", |receipt| {
        receipt["grant"]["capabilities"]["determinism"]["start_time"] =
            "2027-01-01T00:00:00Z".into();
        receipt["grant"]["digest"] = canonical::digest(&receipt["grant"]["capabilities"]).into();
    });
}

#[test]
fn tampering_18_arguments() {
    tampered(NOT_REPEATABLE, "program.arguments", |receipt| {
        receipt["input"]["arguments"][0] = "other".into()
    });
}

#[test]
fn tampering_19_stdin() {
    tampered(NOT_REPEATABLE, "input.stdin.digest", |receipt| {
        receipt["input"]["stdin"]["digest"] = other_digest()
    });
}

#[test]
fn tampering_20_environment() {
    tampered(NOT_REPEATABLE, "input.environment.TOKEN", |receipt| {
        receipt["input"]["environment"]["TOKEN"] = other_digest()
    });
}

#[test]
fn tampering_21_input_file() {
    tampered(NOT_REPEATABLE, "/workspace/data/a.txt", |receipt| {
        receipt["input"]["files"]["table"]["/workspace/data/a.txt"] = other_digest()
    });
}

#[test]
fn tampering_22_exit_code() {
    tampered(RESULT, "result.status.code (receipt: 1, here: 0)", |receipt| {
        receipt["result"]["status"]["code"] = 1.into()
    });
}

#[test]
fn tampering_23_output_with_the_first_different_bytes() {
    tampered(RESULT, "receipt  inXput", |receipt| {
        let head = receipt["result"]["stdout"]["head"].as_str().unwrap().replace("input", "inXput");
        receipt["result"]["stdout"] =
            json!({ "bytes": head.len(), "digest": digest(head.as_bytes()), "head": head });
    });
}

#[test]
fn tampering_24_output_digest() {
    tampered(RESULT, "result.stderr.digest", |receipt| {
        receipt["result"]["stderr"]["digest"] = other_digest()
    });
}

#[test]
fn tampering_25_written_file() {
    tampered(RESULT, "/workspace/out.txt", |receipt| {
        receipt["result"]["files"]["changed"]["/workspace/out.txt"] = other_digest()
    });
}

#[test]
fn tampering_26_removed_file() {
    tampered(RESULT, "/workspace/data/old.txt", |receipt| {
        receipt["result"]["files"]["changed"]
            .as_object_mut()
            .unwrap()
            .remove("/workspace/data/old.txt");
    });
}

#[test]
fn tampering_27_fuel() {
    tampered(RESULT, "result.cost.fuel", |receipt| receipt["result"]["cost"]["fuel"] = 1.into());
}

#[test]
fn tampering_28_memory() {
    tampered(RESULT, "result.cost.memory_peak", |receipt| {
        receipt["result"]["cost"]["memory_peak"] = 1.into()
    });
}

#[test]
fn tampering_29_started_program() {
    assert!(!GENUINE.receipt["result"]["processes"].as_array().unwrap().is_empty());
    tampered(RESULT, "result.processes[0]", |receipt| receipt["result"]["processes"] = json!([]));
}

#[test]
fn tampering_30_request_never_sent() {
    let request = json!({ "method": "GET", "url": "https://example.com/", "status": 200, "sent": 0, "received": 0 });
    tampered(RESULT, "result.requests[0]", |receipt| {
        receipt["result"]["requests"] = json!([request])
    });
}

#[test]
fn a_different_skill_is_not_run() {
    let place = Place::new();
    std::fs::write(place.path("r.json"), signed(&GENUINE.receipt, &GENUINE.key)).unwrap();
    std::fs::write(place.path("key.pem"), GENUINE.key.public().pem()).unwrap();
    std::fs::write(place.path("sk/scripts/other.sh"), "#!/bin/bash\necho OTHER\n").unwrap();
    let before = place.user.records().len();
    let run = place.skillhost(
        &["verify", "r.json", "--skill", "./sk", "--inputs", "w", "--key", "key.pem"],
        "input\n",
    );
    assert_eq!((run.status.code(), place.user.records().len()), (Some(SKILL), before), "{run:?}");
}

#[test]
fn a_run_that_cannot_be_repeated_names_what_is_missing() {
    let document = signed(&GENUINE.receipt, &GENUINE.key);
    let cases: [(&[&str], &str, &str); 4] = [
        (&[], "other input\n", "input.stdin"),
        (&["--env", "TOKEN=other"], "input\n", "input.environment.TOKEN"),
        (&["--timeout", "1m"], "input\n", ""),
        (&["--memory", "65MiB"], "input\n", "grant.capabilities.limits.memory"),
    ];
    for (flags, stdin, named) in cases {
        let run = verify(&document, flags, stdin);
        let code = if named.is_empty() { 0 } else { NOT_REPEATABLE };
        assert_eq!(run.status.code(), Some(code), "{flags:?}: {run:?}");
        assert!(text(&run.stderr).contains(named), "{named}: {run:?}");
    }
    let place = &GENUINE.place;
    std::fs::write(place.path("signed.json"), &document).unwrap();
    let run =
        place.skillhost(&["verify", "signed.json", "--skill", "./sk", "--key", "key.pem"], "");
    assert_eq!(run.status.code(), Some(NOT_REPEATABLE));
    assert!(text(&run.stderr).contains("--inputs DIR"), "{run:?}");
}

#[test]
fn files_that_are_not_receipts_are_reported() {
    for (document, named) in [
        ("", "not valid JSON"),
        ("{}", "`version` is missing"),
        ("{\"version\":2}", "its version is 2"),
        ("{ \"version\": 1 }", "canonical"),
        ("{\"payload\":\"\"}", "not a DSSE envelope"),
    ] {
        refused(document.as_bytes(), 65, named);
    }
}
