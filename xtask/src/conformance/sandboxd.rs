//! `cargo xtask conformance sandboxd`: performs the tests of the reference implementation of the sandboxd
//! protocol against `skillhost serve --sandboxd`, drives it with the Python SDK, and runs the SDK's own
//! tests of the protocol.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sha2::{Digest as _, Sha256};
use skillhost_toolchain::{Error, Progress, files};

use crate::{clients, print_line, workspace};

/// The commit of the contract, and its files with their SHA-256 digests.
const COMMIT: &str = "2fd412d55ecae90861a101a5424a75473de97c36";
const CONTRACT: [(&str, &str); 2] = [
    (
        "packages/sandboxd/spec/process/v1/process.proto",
        "d233a27fe9f63945984a52b74d47c6ffdf2f81ebbe61f954413bb933299cbfda",
    ),
    (
        "packages/sandboxd/spec/filesystem/v1/filesystem.yaml",
        "78832a420f03b14d101a02a63235272a560a0f5cdd971b80534c84affebf184a",
    ),
];
const SUITE: &str = "git clone https://github.com/kubernetes-sigs/agent-sandbox";

/// Runs the tests, and prints each by its name.
pub(crate) fn run(suite: Option<&Path>, progress: &Progress) -> Result<(), Error> {
    let suite = suite.ok_or_else(|| {
        Error::new("the suite is not part of this repository: name a checkout with --suite DIR")
            .help(SUITE)
    })?;
    let suite = suite.canonicalize().map_err(Error::context(suite.display()))?;
    for (file, expected) in CONTRACT {
        let bytes = fs::read(suite.join(file)).map_err(Error::context(file))?;
        let digest = Sha256::digest(&bytes);
        let found: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        if found != expected {
            let message = format!("{file} is not that of the commit {COMMIT}");
            return Err(Error::new(message).help(format!("git checkout {COMMIT}")));
        }
    }
    super::build_host(progress)?;
    clients::python("sandboxd", progress)?;
    let root = workspace::root();
    let folder = clients::folder("sandboxd");
    let python = folder.join("bin/python");
    let (mut server, api, sandboxd) = serve(&root, &folder)?;
    let performed = Command::new(&python)
        .arg(root.join("tests/clients/sandboxd/contract.py"))
        .args([&api, &sandboxd])
        .arg(&suite)
        .status();
    drop(server.kill());
    drop(server.wait());
    let performed = performed.map_err(Error::context(python.display()))?;
    print_line("the SDK's own tests of the protocol:");
    let sdk = suite.join("clients/python/agentic-sandbox-client");
    let own = Command::new(&python)
        .args(["-m", "unittest", "-v", "k8s_agent_sandbox.test.unit.test_sandboxd"])
        .current_dir(&sdk)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .status()
        .map_err(Error::context(python.display()))?;
    match performed.success() && own.success() {
        true => Ok(()),
        false => Err(Error::new("tests of the sandboxd protocol failed")),
    }
}

/// Starts a server without tokens of its own. Returns its address, and that of the protocol.
fn serve(root: &Path, folder: &Path) -> Result<(Child, String, String), Error> {
    let home = folder.join("home");
    workspace::remove(&home)?;
    let skill = home.join("skills/place/SKILL.md");
    let text = "---\nname: place\ndescription: A place to work in. Use to test.\nallowed-tools: Read Write Bash\n---\nUse the sandbox.\n";
    fs::create_dir_all(home.join("skills/place")).map_err(Error::context(skill.display()))?;
    files::write_if_changed(&skill, text.as_bytes())?;
    let policy = home.join("policy.yaml");
    let text = format!(
        "skill-folders: [{:?}]\ndefault: {{ allow: [Read, Write, Bash] }}\n",
        home.join("skills")
    );
    files::write_if_changed(&policy, text.as_bytes())?;
    let mut command = Command::new(super::host());
    command.args(["serve", "--listen", "127.0.0.1:0", "--no-token", "--sandboxd", "0", "--policy"]);
    command.arg(&policy).arg("--programs").arg(root.join("target/components"));
    // Nothing of the server's own variables may be in the metadata of a sandbox.
    command.env("SANDBOX_API_TOKEN", "x").env("SANDBOX_ID", "of-the-server");
    command.env("XDG_STATE_HOME", &home).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server =
        command.spawn().map_err(Error::context(super::host().display().to_string()))?;
    let stdout = server.stdout.take().ok_or_else(|| Error::new("the server has no stdout"))?;
    let mut lines = BufReader::new(stdout).lines();
    let mut line = || {
        let line = lines.next().ok_or_else(|| Error::new("the server did not start"))?;
        line.map_err(Error::context("the server's address"))
    };
    let api = line()?.trim_end_matches("/mcp").to_owned();
    let sandboxd = line()?.trim_start_matches("sandboxd: http://").to_owned();
    Ok((server, api, sandboxd))
}
