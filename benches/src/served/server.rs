//! The measured server.

use skillhost_toolchain::{Error, files};

use crate::listening::Listening;
use crate::place::Place;

/// Starts a server that runs the skills of the benchmark without asking anyone.
pub(super) fn start(place: &Place) -> Result<Listening, Error> {
    let policy = place.folder.join("serve.yaml");
    let folders = serde_json::json!([place.folder.join("skills")]);
    let text = format!(
        "skill-folders: {folders}\ndefault: {{ allow: [Read, Write, Bash], approval: auto-approved }}\n"
    );
    files::write_if_changed(&policy, text.as_bytes())?;
    let mut command = place.command(&place.skillhost);
    command.env("SKILLHOST_PROGRAMS", &place.programs).arg("serve").arg("--policy").arg(policy);
    command.args(["--listen", "127.0.0.1:0", "--sessions", "256", "--no-token"]);
    Listening::start(&mut command)
}
