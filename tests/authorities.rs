//! Servers of a certificate authority that only the operator's policy names: scripts reach them,
//! and otherwise fail with the same messages as natively.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::tls::secure;

const PYTHON: &str = r#"
import sys, urllib.error, urllib.request
import requests

url = f"https://localhost:{sys.argv[1]}/x"
try:
    print(urllib.request.urlopen(url).read().decode())
except urllib.error.URLError as error:
    print(type(error.reason).__name__)
try:
    print(requests.get(url).text)
except requests.ConnectionError as error:
    print(type(error).__name__)
"#;

const SHELL: &str = "curl -sS \"https://localhost:$1/y\"\necho \" $?\"\n";

/// An operator's folder: a skill, a certificate authority, a server with its certificate, and a
/// policy that allows the skill to contact the server.
struct Place {
    root: TempDir,
    port: u16,
    digest: String,
}

impl Place {
    fn new() -> Place {
        let (certificate, port) = secure("secure");
        let root = tempfile::tempdir().unwrap();
        let scripts = root.path().join("client/scripts");
        std::fs::create_dir_all(&scripts).unwrap();
        std::fs::write(
            root.path().join("client/SKILL.md"),
            "---\nname: client\ndescription: Asks a server.\n---\n",
        )
        .unwrap();
        std::fs::write(scripts.join("ask.py"), PYTHON).unwrap();
        std::fs::write(scripts.join("ask.sh"), SHELL).unwrap();
        let text = base64::engine::general_purpose::STANDARD.encode(&certificate);
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let pem = format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            lines.join("\n")
        );
        std::fs::write(root.path().join("corp-ca.pem"), pem).unwrap();
        let hex: String =
            Sha256::digest(&certificate).iter().map(|byte| format!("{byte:02x}")).collect();
        let place = Place { root, port, digest: format!("sha256:{hex}") };
        // Compiling the runtimes on a loaded machine takes long.
        let rest = format!(
            "limits: {{ timeout: 5m }}\ndefault:\n  allow: [Read, Write, Bash, \"WebFetch(domain:localhost:{port})\"]\n"
        );
        std::fs::write(place.path("without.yaml"), &rest).unwrap();
        std::fs::write(place.path("with.yaml"), format!("authorities: [corp-ca.pem]\n{rest}"))
            .unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn run(&self, script: &str, policy: &str, flags: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skillhost"));
        command
            .arg("run")
            .args([self.path("client"), script.into()])
            .arg("--policy")
            .arg(self.path(policy));
        command
            .arg("--audit")
            .arg(self.path("audit.jsonl"))
            .arg("--workspace")
            .arg(self.root.path())
            .args(flags);
        command.arg("--").arg(self.port.to_string()).stdin(Stdio::null());
        // Kept between runs, so that the runtimes are compiled once.
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command.output().unwrap()
    }

    fn output(&self, script: &str, policy: &str) -> (String, String) {
        let output = self.run(script, policy, &[]);
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(output.status.success(), "{stdout}{stderr}");
        (stdout, stderr)
    }
}

#[test]
fn python_trusts_only_the_policys_authority() {
    let place = Place::new();
    assert_eq!(place.output("scripts/ask.py", "with.yaml").0, "secure GET /x\nsecure GET /x\n");
    assert_eq!(
        place.output("scripts/ask.py", "without.yaml").0,
        "SSLCertVerificationError\nSSLError\n"
    );
    let records = std::fs::read_to_string(place.path("audit.jsonl")).unwrap();
    let records = crate::cli::ends(&records);
    assert_eq!(records[0]["capabilities"]["authorities"][0]["digest"], *place.digest);
    assert_eq!(records[1]["capabilities"]["authorities"], serde_json::json!([]));
}

#[test]
fn curl_trusts_only_the_policys_authority() {
    let place = Place::new();
    assert_eq!(place.output("scripts/ask.sh", "with.yaml").0, "secure GET /y 0\n");
    let (stdout, stderr) = place.output("scripts/ask.sh", "without.yaml");
    assert_eq!(stdout, " 60\n", "{stderr}");
    assert!(stderr.contains("curl: (60)") && stderr.contains("certificate"), "{stderr}");
}

#[test]
fn authorities_are_explained_and_their_files_hidden() {
    let place = Place::new();
    let text =
        String::from_utf8(place.run("scripts/ask.py", "with.yaml", &["--explain"]).stdout).unwrap();
    assert!(text.contains("trusted authorities") && text.contains("corp-ca.pem"), "{text}");
    let json = place.run("scripts/ask.py", "with.yaml", &["--explain", "--json"]).stdout;
    let capabilities = &serde_json::from_slice::<serde_json::Value>(&json).unwrap()["capabilities"];
    assert_eq!(capabilities["authorities"][0]["digest"], *place.digest);
    for scope in ["read", "write"] {
        let denied = capabilities[scope]["none_of"].to_string();
        assert!(denied.contains("/workspace/corp-ca.pem"), "{denied}");
    }
    let text =
        String::from_utf8(place.run("scripts/ask.py", "without.yaml", &["--explain"]).stdout)
            .unwrap();
    assert!(!text.contains("trusted authorities"), "{text}");
}

#[test]
fn an_unreadable_authority_stops_the_run_and_is_named() {
    let place = Place::new();
    std::fs::write(place.path("corp-ca.pem"), "").unwrap();
    let output = place.run("scripts/ask.sh", "with.yaml", &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{stderr}");
    assert!(
        stderr.contains("with.yaml:1:15") && stderr.contains("corp-ca.pem contains no certificate"),
        "{stderr}"
    );
}
