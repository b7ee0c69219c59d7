//! Receipts: their content, their reproducibility and their signatures.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::Verifier as _;
use ed25519_dalek::pkcs8::DecodePublicKey as _;
use serde_json::{Value, json};

use crate::audit::digest;
use crate::cli::{User, guest, repository, text};

/// A user with a workspace, and a skill whose script uses everything that a receipt mentions.
pub struct Place {
    pub user: User,
}

const SCRIPT: &str = "\
#!/bin/bash
cat
cat data/a.txt > out.txt
rm data/old.txt
echo \"$1 ${#TOKEN} $(od -An -N4 -tx1 /dev/urandom)\" >&2
date +%s
ls data
tool
";

impl Place {
    pub fn new() -> Place {
        let place = Place { user: User::new() };
        let skill = place.skill();
        std::fs::create_dir_all(skill.join("scripts")).unwrap();
        let manifest = "---\nname: sk\ndescription: A test of receipts. Use to test.\nallowed-tools: Read Write Bash\n---\n";
        std::fs::write(skill.join("SKILL.md"), manifest).unwrap();
        std::fs::write(skill.join("scripts/run.sh"), SCRIPT).unwrap();
        std::fs::write(skill.join("scripts/other.sh"), "#!/bin/bash\necho other\n").unwrap();
        std::fs::write(skill.join("tool.wasm"), guest("hello")).unwrap();
        std::fs::create_dir_all(place.path("w/data")).unwrap();
        std::fs::write(place.path("w/data/a.txt"), "data\n").unwrap();
        std::fs::write(place.path("w/data/old.txt"), "old\n").unwrap();
        std::os::unix::fs::symlink("a.txt", place.path("w/data/link")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", place.path("w/data/out")).unwrap();
        place
    }

    pub fn path(&self, rel: &str) -> PathBuf {
        self.user.work().join(rel)
    }

    pub fn skill(&self) -> PathBuf {
        self.path("sk")
    }

    /// Compiled once for all tests.
    fn cache(&self) -> PathBuf {
        env!("CARGO_TARGET_TMPDIR").into()
    }

    /// Runs `skillhost` with the real shell, and with this stdin.
    pub fn skillhost(&self, args: &[&str], stdin: &str) -> Output {
        self.finish(self.command(args), stdin)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.user.command(env!("CARGO_BIN_EXE_skillhost"));
        command.env("XDG_CACHE_HOME", self.cache());
        command.env("SKILLHOST_PROGRAMS", repository("target/components")).args(args);
        command
    }

    pub fn finish(&self, mut command: Command, stdin: &str) -> Output {
        use std::io::Write as _;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that does not read it may have exited already.
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).ok();
        child.wait_with_output().unwrap()
    }

    /// Runs the script with a receipt, and returns it.
    pub fn receipt(&self, flags: &[&str]) -> Vec<u8> {
        let args = [
            &[
                "run",
                "./sk",
                "run.sh",
                "--workspace",
                "w",
                "--env",
                "TOKEN=hunter2",
                "--receipt",
                "r.json",
            ],
            flags,
            &["--", "arg"],
        ];
        let run = self.skillhost(&args.concat(), "input\n");
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        std::fs::read(self.path("r.json")).unwrap()
    }
}

pub fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn two_users_get_the_same_receipt() {
    let one = Place::new().receipt(&["--deterministic"]);
    for (zone, overlay) in [("Asia/Kathmandu", "home"), ("America/New_York", "other")] {
        let place = Place::new();
        let folder = place.path("deeper/and/deeper");
        std::fs::create_dir_all(&folder).unwrap();
        for what in ["sk", "w"] {
            std::fs::rename(place.path(what), folder.join(what)).unwrap();
        }
        let args = [
            "run",
            "./sk",
            "run.sh",
            "--workspace",
            "w",
            "--env",
            "TOKEN=hunter2",
            "--receipt",
            "r.json",
            "--deterministic",
            "--",
            "arg",
        ];
        let mut command = place.command(&args);
        command
            .current_dir(&folder)
            .env("TZ", zone)
            .env("USER", "somebody")
            .env("HOME", place.path(overlay))
            .env("LC_ALL", "C.UTF-8");
        let run = place.finish(command, "input\n");
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        let other = std::fs::read(folder.join("r.json")).unwrap();
        assert_eq!(text(&one), text(&other), "{zone}");
    }
}

#[test]
fn a_receipt_reveals_nothing_about_the_machine() {
    let place = Place::new();
    let bytes = place.receipt(&["--deterministic", "--seed", "18446744073709551615"]);
    let receipt = parsed(&bytes);
    let schema = parsed(&place.skillhost(&["schema", "receipt"], "").stdout);
    let problems: Vec<String> = jsonschema::validator_for(&schema)
        .unwrap()
        .iter_errors(&receipt)
        .map(|e| e.to_string())
        .collect();
    assert!(problems.is_empty(), "{problems:?}");
    let shown = text(&bytes);
    let root = place.user.work();
    for secret in [
        "hunter2",
        root.to_str().unwrap(),
        root.parent().unwrap().file_name().unwrap().to_str().unwrap(),
        "wall_ms",
        "/etc/hostname",
    ] {
        assert!(!shown.contains(secret), "{secret}");
    }
    assert_eq!(receipt["input"]["stdin"], json!({ "bytes": 6, "digest": digest(b"input\n") }));
    assert_eq!(receipt["input"]["environment"]["TOKEN"], digest(b"hunter2"));
    assert_eq!(receipt["input"]["arguments"], json!(["arg"]));
    let files = json!({
        "/workspace/data": "folder", "/workspace/data/a.txt": digest(b"data\n"), "/workspace/data/old.txt": digest(b"old\n"),
        "/workspace/data/link": "link a.txt", "/workspace/data/out": "link",
    });
    assert_eq!(receipt["input"]["files"]["table"], files);
    let changed =
        json!({ "/workspace/data/old.txt": null, "/workspace/out.txt": digest(b"data\n") });
    assert_eq!(receipt["result"]["files"]["changed"], changed);
    assert_eq!(receipt["result"]["status"], json!({ "kind": "exited", "code": 0 }));
    let stdout = receipt["result"]["stdout"]["head"].as_str().unwrap();
    assert_eq!(
        (&receipt["result"]["stdout"]["digest"], stdout.lines().next()),
        (&digest(stdout.as_bytes()).into(), Some("input"))
    );
    assert_eq!(receipt["runtime"]["mode"], "deterministic");
    assert!(receipt["result"]["cost"]["fuel"].as_u64().unwrap() > 0);
    // Larger than the integers that every reader of JSON keeps exactly.
    assert_eq!(receipt["grant"]["capabilities"]["determinism"]["seed"], "18446744073709551615");
    // A line with the canonical text, whose digest is in the audit log.
    let canonical = bytes.strip_suffix(b"\n").unwrap();
    let mut sorted = serde_json::from_slice::<Value>(canonical).unwrap();
    sorted.sort_all_objects();
    assert_eq!(serde_json::to_vec(&sorted).unwrap(), canonical);
    assert_eq!(place.user.records().last().unwrap()["receipt"], digest(canonical));
}

#[test]
fn a_receipt_includes_the_overlay() {
    let place = Place::new();
    let run = place.skillhost(
        &[
            "run",
            "./sk",
            "run.sh",
            "--workspace",
            "w:overlay",
            "--receipt",
            "r.json",
            "--deterministic",
        ],
        "",
    );
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(!place.path("w/out.txt").exists());
    let receipt = parsed(&std::fs::read(place.path("r.json")).unwrap());
    let changed =
        json!({ "/workspace/data/old.txt": null, "/workspace/out.txt": digest(b"data\n") });
    assert_eq!(receipt["result"]["files"]["changed"], changed);
}

#[test]
fn a_receipt_omits_what_the_rules_hide() {
    let place = Place::new();
    place.receipt(&["--deny", "Read(data/old.txt)", "--deny", "Read(data/l*)"]);
    let receipt = parsed(&std::fs::read(place.path("r.json")).unwrap());
    let files = receipt["input"]["files"]["table"].as_object().unwrap();
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["/workspace/data", "/workspace/data/a.txt", "/workspace/data/out"]);
}

#[test]
fn a_receipt_changes_neither_output_nor_exit_code() {
    let place = Place::new();
    let run = |args: &[&str]| {
        let run = place.skillhost(args, "");
        (run.status.code(), text(&run.stdout), text(&run.stderr))
    };
    for guest in ["./hello", "./code3", "./trap"] {
        assert_eq!(run(&["run", guest, "--receipt", "r.json"]), run(&["run", guest]), "{guest}");
        assert!(place.path("r.json").exists());
        std::fs::remove_file(place.path("r.json")).unwrap();
    }
    let (code, json, _) = run(&["run", "./hello", "--receipt", "r.json", "--json"]);
    assert_eq!(
        (code, parsed(json.as_bytes())["status"]["kind"].as_str()),
        (Some(0), Some("exited"))
    );
    let (_, value, _) =
        run(&["run", "./echo", "echo", "--input", "{\"text\": \"x\"}", "--receipt", "r.json"]);
    assert!(value.contains("\"x\""), "{value}");
    let receipt = parsed(&std::fs::read(place.path("r.json")).unwrap());
    assert_eq!(
        (&receipt["input"]["tool_input"], &receipt["result"]["value"]["text"]),
        (&"{\"text\": \"x\"}".into(), &"x".into())
    );
}

#[test]
fn runs_without_a_result_have_no_receipt() {
    let place = Place::new();
    std::os::unix::fs::symlink("hello", place.path("link")).unwrap();
    for (args, code) in
        [(&["run", "./hello", "--workspace", "link"][..], 77), (&["run", "./other"], 65)]
    {
        let run = place.skillhost(&[args, &["--receipt", "r.json"]].concat(), "");
        assert_eq!(run.status.code(), Some(code), "{run:?}");
        assert!(text(&run.stderr).contains("no receipt was written"), "{run:?}");
        assert!(!place.path("r.json").exists());
    }
    let run = place.skillhost(
        &["run", "./spin", "--fuel", "1000", "--deterministic", "--receipt", "r.json"],
        "",
    );
    assert_eq!(run.status.code(), Some(125), "out of fuel is a result: {run:?}");
    assert_eq!(
        parsed(&std::fs::read(place.path("r.json")).unwrap())["result"]["status"]["limit"],
        "fuel"
    );
    let run = place.skillhost(&["run", "./hello", "--receipt", "nowhere/r.json"], "");
    assert_eq!(run.status.code(), Some(74), "{run:?}");
}

#[test]
fn a_receipt_replaces_only_a_regular_file() {
    use std::os::unix::fs::FileTypeExt as _;
    let place = Place::new();
    std::fs::write(place.path("other.json"), "other").unwrap();
    std::fs::create_dir(place.path("folder")).unwrap();
    for (name, target) in [("link", "other.json"), ("dangling", "missing.json")] {
        std::os::unix::fs::symlink(target, place.path(name)).unwrap();
    }
    let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    for name in ["link", "dangling", "folder", "socket", "pipe", "./link", "folder/.."] {
        let run = place.skillhost(&["run", "./hello", "--receipt", name], "");
        assert_eq!(run.status.code(), Some(74), "{name}: {run:?}");
        let message = text(&run.stderr);
        assert!(message.contains(&format!("cannot write the receipt {name}: ")), "{message}");
        assert!(run.stdout.is_empty(), "nothing runs: {run:?}");
    }
    for name in ["link", "dangling"] {
        assert!(place.path(name).is_symlink(), "{name}");
    }
    assert_eq!(std::fs::read_to_string(place.path("other.json")).unwrap(), "other");
    assert!(!place.path("missing.json").exists());
    let kind = |name: &str| std::fs::symlink_metadata(place.path(name)).unwrap().file_type();
    assert!(kind("socket").is_socket() && kind("pipe").is_fifo());

    let run = place.skillhost(&["run", "./hello", "--receipt", "-"], "");
    assert_eq!(run.status.code(), Some(64), "{run:?}");
    assert!(text(&run.stderr).contains("name a file: --receipt receipt.json"), "{run:?}");
    assert!(run.stdout.is_empty() && !place.path("-").exists());

    let run = place.skillhost(&["run", "./hello", "--receipt", "other.json"], "");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    parsed(&std::fs::read(place.path("other.json")).unwrap());
    let names = std::fs::read_dir(place.user.work()).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.any(|name| name.starts_with(".receipt-")), "no temporary file is left");
}

#[test]
fn changed_packages_are_digested_again() {
    use std::os::unix::fs::MetadataExt as _;
    let place = Place::new();
    std::fs::create_dir(place.path("site")).unwrap();
    std::fs::write(place.path("site/own.py"), "1").unwrap();
    let packages = || {
        let run = place.skillhost(
            &[
                "run",
                "./hello",
                "--site-packages",
                "site",
                "--deterministic",
                "--receipt",
                "r.json",
            ],
            "",
        );
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        parsed(&std::fs::read(place.path("r.json")).unwrap())["runtime"]["packages"].clone()
    };
    let folder = std::fs::metadata(place.path("site")).unwrap();
    let cached = place.cache().join(format!(
        "skillhost/components/{:x}-{:x}.packages",
        folder.dev(),
        folder.ino()
    ));
    let first = packages();
    assert!(!cached.exists(), "recent files may change again within one timestamp");
    std::thread::sleep(Duration::from_millis(2_100));
    assert_eq!(packages(), first);
    assert!(cached.exists(), "{cached:?}");
    let real = first["/usr/local/lib/site-packages/1"].as_str().unwrap();
    let known = std::fs::read_to_string(&cached).unwrap();
    assert!(known.contains(real), "{known}");
    let other = digest(b"from the cache");
    std::fs::write(&cached, known.replace(real, &other)).unwrap();
    assert_eq!(packages()["/usr/local/lib/site-packages/1"], other, "no file is read");
    std::fs::write(place.path("site/own.py"), "2").unwrap();
    let changed = packages();
    assert!(changed != first && !changed.to_string().contains(&other), "{changed}");
    std::fs::write(place.path("site/own.py"), "1").unwrap();
    assert_eq!(packages(), first);
}

#[test]
fn too_many_files_are_refused_only_with_a_receipt() {
    let place = Place::new();
    std::fs::create_dir(place.path("large")).unwrap();
    for number in 0..10_001 {
        std::fs::write(place.path(&format!("large/{number}")), "").unwrap();
    }
    let args = ["run", "./hello", "--workspace", "large"];
    assert_eq!(place.skillhost(&args, "").status.code(), Some(0));
    let run = place.skillhost(&[&args[..], &["--receipt", "r.json"]].concat(), "");
    assert_eq!((run.status.code(), text(&run.stdout).as_str()), (Some(74), ""), "{run:?}");
    assert!(text(&run.stderr).contains("a receipt covers at most 10000 files"), "{run:?}");
    std::fs::remove_file(place.path("large/0")).unwrap();
    assert_eq!(
        place.skillhost(&[&args[..], &["--receipt", "r.json"]].concat(), "").status.code(),
        Some(0)
    );
}

#[test]
fn a_signed_receipt_is_an_envelope_others_can_verify() {
    let place = Place::new();
    assert_eq!(place.skillhost(&["key", "new"], "").status.code(), Some(0));
    let plain = parsed(&place.receipt(&["--deterministic"]));
    std::fs::remove_file(place.path("w/out.txt")).unwrap();
    std::fs::write(place.path("w/data/old.txt"), "old\n").unwrap();
    let envelope = parsed(&place.receipt(&["--deterministic", "--sign"]));
    let payload = BASE64.decode(envelope["payload"].as_str().unwrap()).unwrap();
    let statement = parsed(&payload);
    assert_eq!(
        (&statement["_type"], &statement["predicate"]),
        (&"https://in-toto.io/Statement/v1".into(), &plain)
    );
    let subject = |name: &str| {
        statement["subject"].as_array().unwrap().iter().find(|one| one["name"] == name).cloned()
    };
    let hex = |bytes: &[u8]| digest(bytes)["sha256:".len()..].to_owned();
    assert_eq!(
        subject("/workspace/out.txt").unwrap()["digest"],
        json!({ "sha256": hex(b"data\n") })
    );
    assert_eq!(statement["predicateType"], "urn:skillhost:receipt:v1");
    // The bytes that DSSE signs, assembled here independently.
    let kind = envelope["payloadType"].as_str().unwrap();
    assert_eq!(kind, "application/vnd.in-toto+json");
    let signed =
        [format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes(), payload].concat();
    let shown = parsed(&place.skillhost(&["key", "show", "--json"], "").stdout);
    let key =
        ed25519_dalek::VerifyingKey::from_public_key_pem(shown["key"]["pem"].as_str().unwrap())
            .unwrap();
    let signature = BASE64.decode(envelope["signatures"][0]["sig"].as_str().unwrap()).unwrap();
    key.verify(&signed, &ed25519_dalek::Signature::from_slice(&signature).unwrap()).unwrap();
    assert_eq!(envelope["signatures"][0]["keyid"], shown["key"]["id"]);
}

#[test]
fn a_signing_key_is_private_and_not_replaced() {
    let place = Place::new();
    let sign = || place.skillhost(&["run", "./hello", "--receipt", "r.json", "--sign"], "");
    let run = sign();
    assert_eq!(
        (run.status.code(), text(&run.stdout).as_str()),
        (Some(64), ""),
        "without a key, nothing runs: {run:?}"
    );
    assert_eq!(place.skillhost(&["key", "new"], "").status.code(), Some(0));
    let file = place.user.home().join(".config/skillhost/key.pem");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let before = std::fs::read(&file).unwrap();
    assert_eq!(place.skillhost(&["key", "new"], "").status.code(), Some(64));
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(sign().status.code(), Some(0));
    for mode in [0o640, 0o604, 0o620] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let run = sign();
        assert_eq!((run.status.code(), text(&run.stdout).as_str()), (Some(77), ""), "{run:?}");
        assert!(text(&run.stderr).contains("chmod 600"), "{run:?}");
    }
}

#[test]
fn a_key_in_a_variable_is_never_shown() {
    let place = Place::new();
    let pem = skillhost_ledger::receipt::key::SigningKey::generate().pem();
    let signing = |key: &str| {
        let mut command = place.command(&["run", "./hello", "--receipt", "r.json", "--sign"]);
        command.env("SKILLHOST_SIGNING_KEY", key);
        place.finish(command, "")
    };
    assert_eq!(signing(&pem).status.code(), Some(0));
    assert!(std::fs::read_to_string(place.path("r.json")).unwrap().contains("signatures"));
    let run = signing("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n");
    assert_eq!(run.status.code(), Some(64));
    assert!(!text(&run.stderr).contains("hunter2"), "{run:?}");
    assert!(
        !format!("{:?}", skillhost_ledger::receipt::key::SigningKey::from_pem(&pem))
            .contains(pem.lines().nth(1).unwrap())
    );
}

#[test]
fn a_signed_statement_is_verified_with_its_files() {
    let place = Place::new();
    assert_eq!(place.skillhost(&["key", "new"], "").status.code(), Some(0));
    std::fs::write(place.path("a.tar"), "archive").unwrap();
    let hex = digest(b"archive").replace("sha256:", "");
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "name": "a.tar", "digest": { "sha256": hex } }],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {},
    });
    std::fs::write(place.path("statement.json"), statement.to_string()).unwrap();
    let signed = place.skillhost(&["key", "sign", "statement.json"], "");
    assert_eq!(signed.status.code(), Some(0), "{signed:?}");
    std::fs::write(place.path("signed.json"), &signed.stdout).unwrap();
    let verify = |args: &[&str]| {
        let run = place.skillhost(&[&["key", "verify", "signed.json"], args].concat(), "");
        (run.status.code(), text(&run.stdout) + &text(&run.stderr))
    };
    let (code, said) = verify(&["a.tar"]);
    assert!(code == Some(0) && said.contains("OK") && said.contains("1 checked"), "{said}");
    std::fs::write(place.path("b.tar"), "archive").unwrap();
    let (code, said) = verify(&["b.tar"]);
    assert!(code == Some(1) && said.contains("does not name b.tar"), "{said}");
    std::fs::write(place.path("a.tar"), "another").unwrap();
    let (code, said) = verify(&["a.tar"]);
    assert!(code == Some(1) && said.contains("a.tar was altered"), "{said}");
    // A signature of another key, and one of a changed statement.
    let mut envelope: Value = serde_json::from_slice(&signed.stdout).unwrap();
    let original = envelope.clone();
    envelope["signatures"][0]["keyid"] = json!(digest(b"another key"));
    std::fs::write(place.path("signed.json"), envelope.to_string()).unwrap();
    let (code, said) = verify(&[]);
    assert!(code == Some(1) && said.contains("not a trusted key"), "{said}");
    let mut envelope = original;
    let changed = statement.to_string().replace("a.tar", "b.tar");
    envelope["payload"] = json!(BASE64.encode(skillhost_ledger::receipt::canonical::text(
        &serde_json::from_str::<Value>(&changed).unwrap()
    )));
    std::fs::write(place.path("signed.json"), envelope.to_string()).unwrap();
    let (code, said) = verify(&[]);
    assert!(code == Some(1) && said.contains("does not match"), "{said}");
    let other = place.skillhost(&["key", "sign", "a.tar"], "");
    assert_eq!(other.status.code(), Some(64), "only statements: {other:?}");
    let detached = place.skillhost(&["key", "sign", "--detached", "a.tar"], "");
    assert_eq!((detached.status.code(), detached.stdout.len()), (Some(0), 64));
}

/// A demo skill, its program, arguments and stdin.
const DEMOS: [(&str, &[&str], &str); 4] = [
    ("calculator", &["--", "5 km in miles"], ""),
    ("data-convert", &["--", "-c", "-f", ".a"], "{\"a\": [1, 2.5]}"),
    ("log-triage", &["scripts/triage.sh", "--", "--json", "/skill/samples/access.log"], ""),
    ("csv-report", &["scripts/csv_report.py", "--workspace", "w", "--", "data/weather.csv"], ""),
];

#[test]
fn two_users_confirm_each_others_receipts() {
    let (one, two) = (Place::new(), Place::new());
    let elsewhere = two.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    for place in [&one, &two] {
        std::fs::copy(
            repository("skills/csv-report/samples/weather.csv"),
            place.path("w/data/weather.csv"),
        )
        .unwrap();
    }
    let copied =
        Command::new("cp").arg("-a").arg(two.path("w")).arg(two.path("before")).status().unwrap();
    assert!(copied.success());
    for (skill, args, stdin) in DEMOS {
        let copied = Command::new("cp")
            .arg("-r")
            .arg(repository("skills").join(skill))
            .arg(&elsewhere)
            .status()
            .unwrap();
        assert!(copied.success());
        let run = |place: &Place, folder: PathBuf, user: Option<u32>| {
            let base = ["run", folder.to_str().unwrap(), "--deterministic", "--receipt", "r.json"];
            let mut command = place.command(&[&base[..], args].concat());
            if let Some(user) = user {
                std::os::unix::process::CommandExt::uid(&mut command, user);
                command.env("XDG_CACHE_HOME", place.path("cache"));
            }
            let run = place.finish(command, stdin);
            assert_eq!(run.status.code(), Some(0), "{skill}: {run:?}");
            std::fs::read_to_string(place.path("r.json")).unwrap()
        };
        let receipt = run(&one, repository("skills").join(skill), None);
        assert_eq!(receipt, run(&two, elsewhere.join(skill), None), "{skill}");
        // Components also run as another user if possible. Scripts would compile their programs
        // once more for that user.
        if rustix::process::geteuid().is_root()
            && !args[0].starts_with("scripts")
            && is_open_to(NOBODY_UID)
        {
            let other_user = Place::new();
            let chowned = Command::new("chown")
                .arg("-R")
                .arg(NOBODY_UID.to_string())
                .arg(other_user.user.root())
                .status()
                .unwrap();
            assert!(chowned.success());
            assert_eq!(
                receipt,
                run(&other_user, repository("skills").join(skill), Some(NOBODY_UID)),
                "{skill}"
            );
        }
        let folder = elsewhere.join(skill);
        let verify = [
            "verify",
            "r.json",
            "--unsigned",
            "--skill",
            folder.to_str().unwrap(),
            "--inputs",
            "before",
        ];
        std::fs::write(two.path("r.json"), &receipt).unwrap();
        let run = two.skillhost(&verify, stdin);
        assert_eq!(run.status.code(), Some(0), "{skill}: {run:?}");
    }
}

const NOBODY_UID: u32 = 65_534;

/// Checks whether another user can read what these tests use.
fn is_open_to(user: u32) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skillhost"));
    std::os::unix::process::CommandExt::uid(&mut command, user);
    command.arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}
