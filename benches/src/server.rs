//! A server for cases that make HTTP requests.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};

use skillhost_toolchain::Error;

/// Starts a server on loopback that answers every connection with a short body until this process
/// ends. Returns the port.
///
/// # Errors
/// Returns an error if no port can be opened.
pub fn serve() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listener = listener.map_err(Error::context("a server on loopback"))?;
    let port = listener.local_addr().map_err(Error::context("a server on loopback"))?.port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // On loopback, a request without a body arrives in one packet. A client that has
            // disconnected is ignored.
            if stream.read(&mut [0; 4096]).is_ok() {
                drop(stream.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nhi\n",
                ));
            }
        }
    });
    Ok(port)
}
