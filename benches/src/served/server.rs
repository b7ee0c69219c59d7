//! The measured server.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use skillhost_toolchain::{Error, files};

use crate::measure;
use crate::place::Place;

/// How long the server may take to start.
const START: Duration = Duration::from_secs(60);

/// A running server, which is killed when this value is dropped.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
}

impl Server {
    /// Starts a server that runs the skills of the benchmark without asking anyone.
    pub(super) fn start(place: &Place) -> Result<Server, Error> {
        let policy = place.folder.join("serve.yaml");
        let folders = serde_json::json!([place.folder.join("skills")]);
        let text = format!(
            "skill-folders: {folders}\ndefault: {{ allow: [Read, Write, Bash], approval: auto-approved }}\n"
        );
        files::write_if_changed(&policy, text.as_bytes())?;
        let mut command = place.command(&place.skillhost);
        command.env("SKILLHOST_PROGRAMS", &place.programs).arg("serve").arg("--policy").arg(policy);
        command.args(["--listen", "127.0.0.1:0", "--sessions", "256", "--no-token"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(Error::context(measure::program(&command)))?;
        let output = child.stdout.take();
        let mut server = Server { child, port: 0 };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            drop(output.map(|output| BufReader::new(output).read_line(&mut line)));
            // The receiver is gone if the server took too long to start.
            drop(sender.send(line));
        });
        let line = receiver.recv_timeout(START).unwrap_or_default();
        server.port =
            port(&line).ok_or_else(|| Error::new("the server did not print its address"))?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the port in an address such as `http://127.0.0.1:8765/mcp`.
fn port(line: &str) -> Option<u16> {
    line.trim().strip_suffix("/mcp")?.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn port_of_the_printed_address_is_found() {
        assert_eq!(super::port("http://127.0.0.1:8765/mcp\n"), Some(8765));
        assert_eq!(super::port(""), None);
    }
}
