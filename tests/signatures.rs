//! Signatures of skills, with model-signing (PyPI), Git and OpenSSH as the other parties, and what a
//! policy requires of skills.

use std::path::Path;
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde_json::{Value, json};

use crate::cli::{User, run, skipped, succeeds, text};

const BUNDLE: &str = "reporter/skill.oms.sig";

/// A user with the skill `./reporter`.
fn user() -> User {
    let user = User::new();
    let skill = user.work().join("reporter");
    std::fs::create_dir_all(skill.join("scripts")).unwrap();
    let skill_md = "---\nname: reporter\ndescription: Runs a script. Use to test.\nallowed-tools: Read Bash\n---\nRun it.\n";
    std::fs::write(skill.join("SKILL.md"), skill_md).unwrap();
    std::fs::write(skill.join("scripts/report.sh"), "echo report\n").unwrap();
    user
}

/// Runs model-signing. Returns whether it succeeded, and what it printed.
fn model_signing(user: &User, args: &[&str]) -> (bool, String) {
    // Its real path would be that of a Python without the package.
    let python = Path::new(crate::ROOT).join("target/clients/model-signing/bin/python");
    let output = user
        .command(python.to_str().unwrap())
        .args(["-m", "model_signing"])
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("{error}: cargo xtask clients"));
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

fn accepts(user: &User, args: &[&str]) {
    let (success, output) = model_signing(user, args);
    assert!(success, "{args:?}: {output}");
}

fn write(user: &User, path: &str, content: &str) {
    std::fs::write(user.work().join(path), content).unwrap();
}

/// Sets what the user's policy says about the skill `reporter`.
fn require(user: &User, require: &str) {
    let folder = user.home().join(".config/skillhost");
    std::fs::create_dir_all(&folder).unwrap();
    let policy = format!(
        "default: {{ allow: [Read, Bash] }}\nskills:\n  reporter:\n    require: {require}\n"
    );
    std::fs::write(folder.join("policy.yaml"), policy).unwrap();
}

/// Checks the skill. Returns what the policy misses.
fn unmet(user: &User, skill: &str, more: &[&str]) -> Option<String> {
    let (_, stdout, stderr) = run(user, &[&["check", skill, "--json"], more].concat());
    let report: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
    let findings = report["skills"][0]["diagnostics"].as_array().unwrap();
    let found = findings.iter().find(|found| found["rule"] == "policy-require")?;
    Some(found["message"].as_str().unwrap().to_owned())
}

/// The id of a key, from what `sign` or `key new` prints.
fn id(output: &str) -> String {
    let start = output.rfind("sha256:").unwrap();
    output[start..start + 71].to_owned()
}

#[test]
fn model_signing_verifies_our_signature_and_finds_changes() {
    let user = user();
    write(&user, "reporter/.skillignore", "/notes\n");
    std::fs::create_dir(user.work().join("reporter/notes")).unwrap();
    write(&user, "reporter/notes/a.txt", "mine");
    succeeds(&user, &["key", "new"]);
    succeeds(&user, &["key", "new", "--p256"]);
    write(&user, "key.pem", &succeeds(&user, &["key", "show", "--p256"]));
    succeeds(&user, &["sign", "./reporter"]);
    let verify = ["verify", "key", "--signature", BUNDLE, "--public_key", "key.pem", "reporter"];
    accepts(&user, &verify);
    write(&user, "reporter/more.txt", "more");
    let (success, output) = model_signing(&user, &verify);
    assert!(!success && output.contains("more.txt"), "{output}");
    std::fs::remove_file(user.work().join("reporter/more.txt")).unwrap();
    write(&user, "reporter/scripts/report.sh", "echo other\n");
    assert!(!model_signing(&user, &verify).0);
}

/// The files of an authority and of a certificate for signing: `ca.pem`, `key.pem`, `cert.pem`.
fn certify(user: &User) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    // Both certificates have the same name otherwise, as one that signed itself.
    params.distinguished_name.push(DnType::CommonName, "authority");
    let root = KeyPair::generate().unwrap();
    write(user, "ca.pem", &params.self_signed(&root).unwrap().pem());
    let issuer = Issuer::new(params, root);
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = vec![SanType::Rfc822Name("me@example.com".try_into().unwrap())];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let own = KeyPair::generate().unwrap();
    write(user, "cert.pem", &params.signed_by(&own, &issuer).unwrap().pem());
    write(user, "key.pem", &own.serialize_pem());
    write(user, "public.pem", &own.public_key_pem());
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(user.work().join("key.pem"), mode).unwrap();
}

#[test]
fn model_signing_verifies_our_signature_by_a_certificate() {
    let user = user();
    certify(&user);
    succeeds(&user, &["sign", "./reporter", "--key", "key.pem", "--certificate", "cert.pem"]);
    assert!(!user.work().join("reporter/skill.dsse.json").exists());
    let verify = [
        "verify",
        "certificate",
        "--signature",
        BUNDLE,
        "--certificate_chain",
        "ca.pem",
        "reporter",
    ];
    accepts(&user, &verify);
}

#[test]
fn signature_of_model_signing_by_a_key_counts() {
    let user = user();
    certify(&user);
    let sign = ["sign", "key", "--signature", BUNDLE, "--private_key", "key.pem", "reporter"];
    accepts(&user, &sign);
    let key = id(&succeeds(&user, &["key", "trust", "public.pem"]));
    require(&user, &format!("{{ signed-by: ['{key}'] }}"));
    assert_eq!(unmet(&user, "./reporter", &[]), None);
    write(&user, "reporter/more.txt", "more");
    let why = unmet(&user, "./reporter", &[]).unwrap();
    assert!(why.contains("`more.txt` is not signed"), "{why}");
    std::fs::remove_file(user.work().join("reporter/more.txt")).unwrap();
    // What model-signing leaves out without being asked is not signed, so it must not be there.
    write(&user, "reporter/.gitattributes", "* text\n");
    assert!(unmet(&user, "./reporter", &[]).unwrap().contains("`.gitattributes` is not signed"));
    accepts(&user, &[&sign[..2], &["--no-ignore-git-paths"], &sign[2..]].concat());
    assert_eq!(unmet(&user, "./reporter", &[]), None);
}

#[test]
fn signature_of_model_signing_by_a_certificate_counts() {
    let user = user();
    certify(&user);
    let sign = [
        "sign",
        "certificate",
        "--signature",
        BUNDLE,
        "--private_key",
        "key.pem",
        "--signing_certificate",
        "cert.pem",
        "--certificate_chain",
        "ca.pem",
        "reporter",
    ];
    let (success, output) = model_signing(&user, &sign);
    assert!(success, "{output}");
    let authority = id(&succeeds(&user, &["key", "trust", "ca.pem"]));
    let by = |identity: &str| {
        format!("{{ signed-by: [{{ issuer: '{authority}', identity: {identity} }}] }}")
    };
    require(&user, &by("me@example.com"));
    assert_eq!(unmet(&user, "./reporter", &[]), None);
    require(&user, &by("you@example.com"));
    let why = unmet(&user, "./reporter", &[]).unwrap();
    assert!(why.contains("it is signed by") && why.contains("me@example.com"), "{why}");
}

#[test]
fn skill_that_lacks_a_required_signature_does_not_load() {
    let user = user();
    let key = id(&succeeds(&user, &["key", "new"]));
    succeeds(&user, &["add", "./reporter"]);
    require(&user, &format!("{{ signed-by: ['{key}'] }}"));
    let (code, stdout, stderr) = run(&user, &["run", "reporter", "report.sh"]);
    assert_eq!((code, stdout.as_str()), (Some(65), ""), "{stderr}");
    assert!(stderr.contains("policy.yaml:4:14 requires a signature by"), "{stderr}");
    assert!(stderr.contains("it has no signature"), "{stderr}");
    assert_ne!(run(&user, &["trust", "reporter"]).1, "reporter: approved");
    // Signed and added again, it is another skill, which loads.
    succeeds(&user, &["sign", "./reporter"]);
    succeeds(&user, &["update"]);
    succeeds(&user, &["trust", "reporter"]);
    assert_eq!(succeeds(&user, &["run", "reporter", "report.sh"]), "report\n");
    assert_eq!(succeeds(&user, &["run", "./reporter", "report.sh"]), "report\n");
    // A changed skill of the user does not load, wherever it is.
    write(&user, "reporter/scripts/report.sh", "echo other\n");
    let (code, _, stderr) = run(&user, &["run", "./reporter", "report.sh"]);
    assert!(code == Some(65) && stderr.contains("`scripts/report.sh` was modified"), "{stderr}");
}

#[test]
fn skill_must_be_from_a_required_source() {
    let user = user();
    succeeds(&user, &["add", "./reporter"]);
    let folder = user.work().canonicalize().unwrap().join("reporter");
    require(&user, &format!("{{ source: ['{}'] }}", folder.display()));
    assert_eq!(unmet(&user, "reporter", &[]), None);
    assert!(unmet(&user, "./reporter", &[]).unwrap().contains("it was not fetched"));
    require(&user, "{ source: [acme/skills] }");
    let why = unmet(&user, "reporter", &[]).unwrap();
    assert!(why.contains("requires the source https://github.com/acme/skills"), "{why}");
}

#[test]
fn scan_counts_only_for_the_digest_that_it_names() {
    let user = user();
    require(&user, "{ scan: { max-severity: note } }");
    assert!(unmet(&user, "./reporter", &[]).unwrap().contains("there is no report about it"));
    // The report of `check` names the digest of the one skill that it is about.
    write(&user, "empty.yaml", "{}\n");
    let report = ["check", "./reporter", "--format", "sarif", "--policy", "empty.yaml"];
    let report = succeeds(&user, &report);
    // Under the policy that requires it, the missing report is no finding of the report.
    assert_eq!(run(&user, &["check", "./reporter", "--format", "sarif"]).1, report);
    write(&user, "report.sarif", &report);
    assert_eq!(unmet(&user, "./reporter", &["--scan", "report.sarif"]), None);
    let mut worse: Value = serde_json::from_str(&report).unwrap();
    worse["runs"][0]["results"] = json!([{ "level": "warning", "message": { "text": "x" } }]);
    write(&user, "worse.sarif", &worse.to_string());
    let both = ["--scan", "report.sarif", "--scan", "worse.sarif"];
    let why = unmet(&user, "./reporter", &both).unwrap();
    assert!(why.contains("worse.sarif has one of level `warning`"), "{why}");
    // A report in the skill is that of its author.
    write(&user, "reporter/report.sarif", &report);
    let why = unmet(&user, "./reporter", &["--scan", "reporter/report.sarif"]).unwrap();
    assert!(why.contains("it is in the skill, whose author wrote it"), "{why}");
    // And with that file, the skill is another.
    let why = unmet(&user, "./reporter", &["--scan", "report.sarif"]).unwrap();
    assert!(why.contains("none of its runs names the digest"), "{why}");
}

fn git(user: &User, args: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "gpg.format=ssh"])
        .args(["-c", &format!("user.signingkey={}", user.work().join("ssh.pub").display())])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .current_dir(user.work().join("repo"))
        .status();
    assert!(status.unwrap().success(), "{args:?}");
}

fn locked_signatures(user: &User) -> Value {
    let why: Value = serde_json::from_str(&succeeds(user, &["why", "reporter", "--json"])).unwrap();
    assert_eq!(why["mismatches"], json!([]));
    why["locked"]["signatures"].clone()
}

#[test]
fn ssh_signatures_of_commits_and_tags_count() {
    let user = user();
    let mut keygen = user.command("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", "ssh"]);
    let Ok(made) = keygen.status() else {
        return skipped("there is no ssh-keygen; recorded signatures are verified elsewhere");
    };
    assert!(made.success());
    std::fs::create_dir(user.work().join("repo")).unwrap();
    std::fs::rename(user.work().join("reporter"), user.work().join("repo/reporter")).unwrap();
    git(&user, &["init", "-q", "-b", "main"]);
    git(&user, &["add", "-A"]);
    git(&user, &["commit", "-q", "-m", "unsigned"]);
    git(&user, &["tag", "-s", "-m", "version 1", "v1"]);
    let url = format!("file://{}", user.work().join("repo").canonicalize().unwrap().display());
    let trusted = succeeds(&user, &["key", "trust", "ssh.pub"]);
    let key = trusted.split(' ').find(|word| word.starts_with("SHA256:")).unwrap().to_owned();
    // By the tag.
    succeeds(&user, &["add", &format!("{url}@v1")]);
    assert_eq!(locked_signatures(&user), json!([key]));
    require(&user, &format!("{{ signed-by: ['{key}'] }}"));
    assert_eq!(unmet(&user, "reporter", &[]), None);
    assert!(unmet(&user, "./repo/reporter", &[]).is_some(), "a folder has no commit");
    succeeds(&user, &["ci"]);
    // The branch leads to the same commit, which is not signed.
    succeeds(&user, &["add", &format!("{url}@main")]);
    assert_eq!(locked_signatures(&user), json!([]));
    assert!(unmet(&user, "reporter", &[]).unwrap().contains("it has no signature"));
    git(&user, &["commit", "-q", "-S", "--allow-empty", "-m", "signed"]);
    succeeds(&user, &["update"]);
    assert_eq!(locked_signatures(&user), json!([key]));
    assert_eq!(unmet(&user, "reporter", &[]), None);
    succeeds(&user, &["trust", "reporter"]);
    assert_eq!(succeeds(&user, &["run", "reporter", "report.sh"]), "report\n");
    // The same files without a signature need approval again.
    git(&user, &["commit", "-q", "--allow-empty", "-m", "unsigned again"]);
    let update = succeeds(&user, &["update"]);
    assert!(update.contains("it is no longer signed by SHA256:"), "{update}");
    require(&user, "{ source: [REPOSITORY] }".replace("REPOSITORY", &url).as_str());
    assert_eq!(run(&user, &["run", "reporter", "report.sh"]).0, Some(77));
    // A tag of another name that somebody moved there does not make an old version a new one.
    git(&user, &["update-ref", "refs/tags/v2", "refs/tags/v1"]);
    succeeds(&user, &["add", &format!("{url}@v2")]);
    assert_eq!(locked_signatures(&user), json!([]));
}

#[test]
fn loss_of_a_signature_of_any_kind_is_reported() {
    let user = user();
    succeeds(&user, &["key", "new"]);
    succeeds(&user, &["key", "new", "--p256"]);
    succeeds(&user, &["sign", "./reporter"]);
    succeeds(&user, &["add", "./reporter"]);
    assert_eq!(locked_signatures(&user).as_array().unwrap().len(), 2);
    std::fs::remove_file(user.work().join(BUNDLE)).unwrap();
    let update = succeeds(&user, &["update"]);
    assert!(update.contains("needs approval again: it is no longer signed by sha256:"), "{update}");
    assert_eq!(locked_signatures(&user).as_array().unwrap().len(), 1);
}

#[test]
fn agents_do_not_see_a_skill_that_lacks_a_signature() {
    let user = user();
    let key = id(&succeeds(&user, &["key", "new"]));
    succeeds(&user, &["add", "./reporter"]);
    let listed = |user: &User| {
        let mut mcp = user.command(env!("CARGO_BIN_EXE_skillhost"));
        mcp.arg("mcp").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = mcp.stderr(std::process::Stdio::null()).spawn().unwrap();
        let messages = [
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" } } }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "prompts/list" }),
        ];
        use std::io::{BufRead as _, Write as _};
        let mut input = child.stdin.take().unwrap();
        messages.iter().for_each(|message| writeln!(input, "{message}").unwrap());
        let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        let answer = lines
            .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
            .find(|message| message["id"] == 2)
            .unwrap();
        drop(input);
        child.wait().unwrap();
        answer["result"]["prompts"].to_string().contains("reporter")
    };
    assert!(listed(&user));
    require(&user, &format!("{{ signed-by: ['{key}'] }}"));
    assert!(!listed(&user));
    succeeds(&user, &["sign", "./reporter"]);
    succeeds(&user, &["update"]);
    assert!(listed(&user));
}

#[test]
fn skill_that_lacks_a_signature_is_not_mounted_and_is_marked() {
    let user = user();
    let key = id(&succeeds(&user, &["key", "new"]));
    succeeds(&user, &["add", "./reporter"]);
    require(&user, &format!("{{ signed-by: ['{key}'] }}"));
    let mount = ["mount", "--into", "agent/skills"];
    for (skill, more) in
        [("./reporter", &[] as &[&str]), ("reporter", &[]), ("./reporter", &["--as", "x"])]
    {
        let (code, _, stderr) = run(&user, &[&mount as &[&str], &[skill], more].concat());
        assert!(code == Some(65) && stderr.contains("it has no signature"), "{skill}: {stderr}");
    }
    // Not under another name, either, if that one is what the policy is about.
    let other = user.work().join("other");
    assert!(user.command("cp").args(["-r", "reporter", "other"]).status().unwrap().success());
    let skill_md = std::fs::read_to_string(other.join("SKILL.md")).unwrap();
    std::fs::write(other.join("SKILL.md"), skill_md.replace("name: reporter", "name: other"))
        .unwrap();
    succeeds(&user, &[&mount, &["./other"] as &[&str]].concat());
    let (code, _, stderr) =
        run(&user, &[&mount, &["./other", "--as", "reporter"] as &[&str]].concat());
    assert!(code == Some(65) && stderr.contains("it has no signature"), "{stderr}");
    assert!(!user.work().join("agent/skills/reporter").exists());

    let (_, stdout, stderr) = run(&user, &["list"]);
    assert!(stdout.contains("reporter (shell, untrusted, refused): "), "{stdout}");
    assert!(stderr.contains("reporter: ") && stderr.contains("it has no signature"), "{stderr}");
    let (_, stdout, stderr) = run(&user, &["show", "reporter"]);
    assert!(stdout.contains("refused by the policy") && stderr.contains("it has no signature"));
    let json: Value = serde_json::from_str(&succeeds(&user, &["list", "--json"])).unwrap();
    assert!(json["skills"][0]["refused"].as_str().unwrap().contains("it has no signature"));
    assert!(succeeds(&user, &["list", "--all"]).contains("refused: "));

    succeeds(&user, &["sign", "./reporter"]);
    succeeds(&user, &["update"]);
    succeeds(&user, &[&mount, &["./reporter"] as &[&str]].concat());
    succeeds(&user, &[&mount, &["reporter", "--as", "second"] as &[&str]].concat());
    assert!(!succeeds(&user, &["list"]).contains("refused"));
    assert!(succeeds(&user, &["show", "reporter"]).contains("; enabled, untrusted"));
}
