//! The identity of a skill: source, name in the catalogue and digest, never the name it declares or
//! where its folder happens to be.

use serde_json::Value;

use crate::cli::{User, skill_of};

const POLICY: &str = "\
default:
  allow: [Read]
skills:
  shared:
    allow: [\"WebFetch(domain:api.example.com)\"]
    deny: [Read(secrets/**)]
    env: [TOKEN=hunter2]
    mounts: [{ host: ., guest: /data }]
    limits: { timeout: 5m }
";

/// `shared` in the user's folder and, from a stranger, in the working directory; `posing` declares
/// that name too.
fn user() -> User {
    let user = User::new();
    skill_of("code3", &user.home().join(".agents/skills/shared"));
    skill_of("hello", &user.work().join("shared"));
    skill_of("code3", &user.home().join(".agents/skills/posing"));
    let posing = user.home().join(".agents/skills/posing/SKILL.md");
    let text = std::fs::read_to_string(&posing).unwrap().replace("name: posing", "name: shared");
    std::fs::write(&posing, text).unwrap();
    std::fs::write(user.work().join("policy.yaml"), POLICY).unwrap();
    user
}

fn explained(user: &User, skill: &str) -> (Value, String) {
    let output = user.skillhost(&["run", skill, "--policy", "policy.yaml", "--explain", "--json"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}")),
        stderr,
    )
}

#[test]
fn a_folder_by_path_gets_no_policy_section() {
    let user = user();
    let (known, _) = explained(&user, "shared");
    let granted = &known["capabilities"];
    assert!(
        granted.to_string().contains("api.example.com")
            && granted["mounts"].to_string().contains("/data"),
        "{granted}"
    );
    assert_eq!(granted["limits"]["timeout_ms"], 300_000);
    let (stranger, stderr) = explained(&user, "./shared");
    let granted = &stranger["capabilities"];
    assert!(
        !granted.to_string().contains("api.example.com") && !granted.to_string().contains("TOKEN"),
        "{granted}"
    );
    assert!(!granted["mounts"].to_string().contains("/data"), "{granted}");
    assert_eq!(granted["limits"]["timeout_ms"], 60_000);
    assert!(
        granted["read"]["none_of"].to_string().contains("secrets"),
        "denials of the section still apply: {granted}"
    );
    assert!(stderr.contains("the policy's section for shared grants nothing"), "{stderr}");
}

#[test]
fn a_declared_name_gets_no_policy_section() {
    let user = user();
    let (posing, _) = explained(&user, "posing");
    assert!(!posing["capabilities"].to_string().contains("api.example.com"), "{posing}");
}

#[test]
fn records_and_receipts_have_source_name_and_digest() {
    let user = user();
    for skill in ["posing", "./shared"] {
        user.skillhost(&["run", skill, "--receipt", "r.json"]);
    }
    let records = user.records();
    let of = |name: &str| {
        &records.iter().rfind(|record| record["skill"]["name"] == name).unwrap()["skill"]
    };
    assert_eq!(
        (&of("posing")["source"], &of("posing")["declared"]),
        (&"user".into(), &"shared".into())
    );
    assert_eq!((&of("shared")["source"], of("shared").get("declared")), (&"path".into(), None));
    assert!(of("posing")["digest"].as_str().unwrap().starts_with("sha256:"));
    let receipt: Value =
        serde_json::from_slice(&std::fs::read(user.work().join("r.json")).unwrap()).unwrap();
    assert!(
        receipt.to_string().contains("\"name\":\"shared\"") || receipt["skill"]["name"] == "shared",
        "{receipt}"
    );
}

#[test]
fn approving_a_folder_does_not_approve_the_catalogue() {
    let user = User::new();
    skill_of("hello", &user.work().join("shared"));
    skill_of("hello", &user.work().join(".agents/skills/shared"));
    std::fs::write(
        user.work().join("policy.yaml"),
        "default: { allow: [Read], approval: enabled }\n",
    )
    .unwrap();
    let run =
        |skill: &str| user.skillhost(&["run", skill, "--policy", "policy.yaml"]).status.code();
    assert_eq!(run("./shared"), Some(77));
    let pending: Value =
        serde_json::from_slice(&user.skillhost(&["pending", "--json"]).stdout).unwrap();
    let folder = user.work().join("shared").canonicalize().unwrap();
    assert_eq!(pending[0]["skill"], folder.to_str().unwrap(), "{pending}");
    assert!(user.skillhost(&["approve", "1", "--always"]).status.success());
    assert_eq!(run("./shared"), Some(0));
    assert_eq!(run("shared"), Some(77), "same files, but the catalogued skill is not approved");
}
