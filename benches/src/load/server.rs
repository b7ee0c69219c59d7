//! The measured server, with its tenants.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use skillhost_toolchain::{Error, files};

use super::{CLIENTS, TENANTS};
use crate::measure;
use crate::place::Place;

/// How long the server may take to start.
const START: Duration = Duration::from_secs(60);

/// A running server, which is killed when this value is dropped.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
    pub(super) tenants: Vec<Tenant>,
}

/// A tenant of the server.
pub(super) struct Tenant {
    pub(super) token: String,
}

impl Server {
    /// Starts a server that runs the skills of the benchmark without asking anyone.
    pub(super) fn start(place: &Place) -> Result<Server, Error> {
        let policy = place.folder.join("load.yaml");
        let folders = serde_json::json!([place.folder.join("skills")]);
        let text = format!(
            "skill-folders: {folders}\ndefault: {{ allow: [Read, Write, Bash], approval: auto-approved }}\n"
        );
        files::write_if_changed(&policy, text.as_bytes())?;
        let mut file = String::from("tenants:\n");
        let mut tenants = Vec::new();
        for index in 0..TENANTS {
            let (token, digest) = token(place)?;
            // Queue and streams have room for all clients of the tenant, and the running quota is
            // the same for all.
            _ = write!(
                file,
                "  load-{index}:\n    tokens:\n      - sha256: {digest}\n        scopes: [run, read]\n    \
                 policy: load.yaml\n    quotas: {{ running: 4, queued: 1000, memory: 16GiB, streams: 400, storage: 16GiB }}\n    \
                 retention: {{ results: 1m }}\n"
            );
            tenants.push(Tenant { token });
        }
        let tenants_file = place.folder.join("load-tenants.yaml");
        files::write_if_changed(&tenants_file, file.as_bytes())?;
        let mut command = place.command(&place.skillhost);
        command.env("SKILLHOST_PROGRAMS", &place.programs).arg("serve").arg("--policy").arg(policy);
        command.arg("--tenants").arg(tenants_file);
        command.args(["--listen", "127.0.0.1:0", "--no-token", "--connections"]);
        command.arg((2 * CLIENTS).to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(Error::context(measure::program(&command)))?;
        let output = child.stdout.take();
        let mut server = Server { child, port: 0, tenants };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            drop(output.map(|output| BufReader::new(output).read_line(&mut line)));
            // The receiver is gone if the server took too long to start.
            drop(sender.send(line));
        });
        let line = receiver.recv_timeout(START).unwrap_or_default();
        let port = line.trim().trim_end_matches("/mcp").rsplit_once(':');
        let port = port.and_then(|(_, port)| port.trim_end_matches('/').parse().ok());
        server.port = port.ok_or_else(|| {
            Error::new(format!("the server did not print its address, but `{}`", line.trim()))
        })?;
        Ok(server)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Makes a token, and returns it with the digest for the tenants file.
fn token(place: &Place) -> Result<(String, String), Error> {
    let mut command = place.command(&place.skillhost);
    let printed = measure::output(command.args(["tenants", "token", "load", "--json"]))?;
    let printed: serde_json::Value =
        serde_json::from_str(&printed).map_err(Error::context("tenants token"))?;
    let field = |name: &str| printed[name].as_str().map(str::to_owned);
    field("token")
        .zip(field("sha256"))
        .ok_or_else(|| Error::new("`tenants token` printed no token"))
}
