//! A measured `skillhost serve`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use skillhost_toolchain::Error;

use crate::measure;

/// How long the server may take to start.
const START: Duration = Duration::from_secs(60);

/// A server that listens, which is killed when this value is dropped.
pub(crate) struct Listening {
    child: Child,
    pub(crate) port: u16,
}

impl Listening {
    /// Starts a server, and waits until it prints its address.
    pub(crate) fn start(command: &mut Command) -> Result<Listening, Error> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(Error::context(measure::program(command)))?;
        let output = child.stdout.take();
        let mut server = Listening { child, port: 0 };
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

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Listening {
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
