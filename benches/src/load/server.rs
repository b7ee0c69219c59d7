//! The measured server, with its tenants.

use std::fmt::Write as _;

use skillhost_toolchain::{Error, files};

use super::{CLIENTS, TENANTS};
use crate::listening::Listening;
use crate::measure;
use crate::place::Place;

/// A running server.
pub(super) struct Server {
    listening: Listening,
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
        let listening = Listening::start(&mut command)?;
        Ok(Server { port: listening.port, listening, tenants })
    }

    pub(super) fn pid(&self) -> u32 {
        self.listening.pid()
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
