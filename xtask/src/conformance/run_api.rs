//! `cargo xtask conformance run-api`: generates a client of the run API from the server's description,
//! with a generator of others, and submits runs with it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use skillhost_toolchain::{Error, Progress, files};

use crate::{clients, print_line, workspace};

/// The generated package.
const PACKAGE: &str = "skillhost_client";

/// Generates the client, and runs tests/clients/run-api/client.py with it.
pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    super::build_host(progress)?;
    clients::python("run-api", progress)?;
    let root = workspace::root();
    let folder = clients::folder("run-api");
    let python = folder.join("bin/python");
    let package = folder.join(PACKAGE);
    workspace::remove(&package)?;
    let (mut server, address) = serve(&root, &folder)?;
    let tried = progress.step("generate a client, and submit runs with it", |step| {
        let mut generate = Command::new(folder.join("bin/openapi-python-client"));
        generate.args(["generate", "--meta", "none", "--output-path"]).arg(&package);
        generate.args(["--url", &format!("{address}/v1/openapi.json")]);
        // The generator formats what it writes with `ruff`, which it looks up in PATH.
        let path = std::env::var("PATH").unwrap_or_default();
        step.run(generate.env("PATH", format!("{}:{path}", folder.join("bin").display())))?;
        let script = root.join("tests/clients/run-api/client.py");
        step.run(Command::new(&python).env("PYTHONPATH", &folder).arg(script).arg(&address))
    });
    drop(server.kill());
    drop(server.wait());
    print_line(String::from_utf8_lossy(&tried?).trim_end());
    Ok(())
}

/// Starts a server that runs the skills of this repository without asking. Returns its address.
fn serve(root: &Path, folder: &Path) -> Result<(Child, String), Error> {
    let policy = folder.join("policy.yaml");
    let text = format!(
        "skill-folders: [{:?}]\ndefault: {{ allow: [Read, Write, Bash] }}\n",
        root.join("skills")
    );
    files::write_if_changed(&policy, text.as_bytes())?;
    let home = folder.join("home");
    workspace::remove(&home)?;
    std::fs::create_dir_all(&home).map_err(Error::context(home.display()))?;
    let mut command = Command::new(super::host());
    command.args(["serve", "--listen", "127.0.0.1:0", "--no-token", "--policy"]).arg(&policy);
    // Runs and keys of an earlier server would count.
    command.env("XDG_STATE_HOME", &home).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server =
        command.spawn().map_err(Error::context(super::host().display().to_string()))?;
    let mut line = String::new();
    let stdout = server.stdout.take().ok_or_else(|| Error::new("the server has no stdout"))?;
    BufReader::new(stdout).read_line(&mut line).map_err(Error::context("the server's address"))?;
    Ok((server, line.trim().trim_end_matches("/mcp").to_owned()))
}
