//! Finds the user of a client on this machine, in the kernel's table of connections.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The most connections to check: the table may be long, and one warning is enough.
const LOOKED_AT: usize = 16;

/// Warns once if a client runs as the server's own user, who can change the policy and the
/// approvals.
#[derive(Default)]
pub(super) struct SharedUser {
    looked_at: AtomicUsize,
}

impl SharedUser {
    /// Checks a new connection from `peer` to `own`.
    pub(super) fn check(&self, peer: SocketAddr, own: SocketAddr) {
        if !peer.ip().is_loopback() || self.looked_at.fetch_add(1, Relaxed) >= LOOKED_AT {
            return;
        }
        let user = rustix::process::geteuid().as_raw();
        if user_of(peer, own) == Some(user) && self.looked_at.swap(LOOKED_AT, Relaxed) < LOOKED_AT {
            tracing::warn!(
                uid = user,
                "a client runs as the same user as this server, and can change its policy and approvals: run `skillhost serve` as a separate user"
            );
        }
    }
}

/// Returns the user whose socket is bound to `peer` and connected to `own`.
fn user_of(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let table = if peer.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    #[expect(clippy::disallowed_methods, reason = "a table of the kernel's")]
    let text = std::fs::read_to_string(table).ok()?;
    user_in(&text, peer, own)
}

/// Finds the user in the text of the table: `sl local_address rem_address st queues timer
/// retransmits uid ...` (proc(5)).
fn user_in(table: &str, peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let (peer, own) = (address(peer), address(own));
    table.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_it = fields.next()? == peer && fields.next()? == own;
        is_it.then(|| fields.nth(4)?.parse().ok()).flatten()
    })
}

/// Formats an address as the table does: each 32 bits in the machine's byte order.
fn address(address: SocketAddr) -> String {
    let words = |octets: &[u8]| {
        let words = octets
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        words.map(|word| format!("{word:08X}")).collect::<String>()
    };
    let ip = match address.ip() {
        IpAddr::V4(ip) => words(&ip.octets()),
        IpAddr::V6(ip) => words(&ip.octets()),
    };
    format!("{ip}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_user_of_a_connection_is_found() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (_server, peer) = listener.accept().unwrap();
            let own = listener.local_addr().unwrap();
            assert_eq!(user_of(peer, own), Some(rustix::process::geteuid().as_raw()), "{at}");
            drop(client);
            assert_eq!(user_of(own, own), None, "{at}");
        }
    }
}
