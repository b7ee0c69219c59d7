//! Connects to one of the checked addresses, and to no other.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::address::{AddressClass, Resolver, classify};
use super::error::SendError;
use super::lookup::Lookups;
use super::target::origin;
use super::tls::Tls;
use skillhost_policy::capabilities::MissingEntry;
use skillhost_policy::outcome::{Denial, DenialKind};
use skillhost_policy::pattern::Destination;

/// The most addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;

/// How long one attempt runs before the next one starts (RFC 8305, section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Resolves the name once, drops the addresses that are not allowed, and connects to one of the
/// rest.
///
/// `private`: whether both sides allow private addresses for this target.
pub(super) async fn connect(
    to: &Destination,
    resolver: &Resolver,
    lookups: &Lookups,
    private: bool,
) -> Result<TcpStream, SendError> {
    let found = resolver.resolve(&to.host, lookups).await.map_err(SendError::Dns)?;
    if found.is_empty() {
        return Err(SendError::Dns("the name has no address".to_owned()));
    }
    let is_allowed = |address: &IpAddr| match classify(*address) {
        AddressClass::Public => true,
        AddressClass::Private => private,
        AddressClass::Special => false,
    };
    let allowed: Vec<IpAddr> =
        found.iter().copied().filter(is_allowed).take(MAX_ADDRESSES).collect();
    if allowed.is_empty() {
        return Err(SendError::Prohibited(prohibited_denial(to, found[0])));
    }
    race(interleave(allowed).into_iter().map(|ip| SocketAddr::new(ip, to.port)).collect())
        .await
        .map_err(|e| SendError::Connect(e.kind()))
}

/// Performs the TLS handshake. The certificate must match the target's name.
pub(super) async fn handshake(
    to: &Destination,
    tcp: TcpStream,
    tls: &Tls,
) -> Result<TlsStream<TcpStream>, SendError> {
    let config = tls.config().map_err(|e| SendError::Tls(e.to_string()))?;
    let name = match to.host.parse::<IpAddr>() {
        Ok(address) => ServerName::from(address),
        Err(_) => {
            ServerName::try_from(to.host.clone()).map_err(|e| SendError::Tls(e.to_string()))?
        }
    };
    tokio_rustls::TlsConnector::from(config).connect(name, tcp).await.map_err(|e| {
        let certificate = e
            .get_ref()
            .and_then(|e| e.downcast_ref())
            .is_some_and(|e| matches!(e, rustls::Error::InvalidCertificate(_)));
        if certificate {
            SendError::Certificate(e.to_string())
        } else {
            SendError::Tls(e.to_string())
        }
    })
}

/// Connects to the first address that answers. The next attempt starts when one has failed or has
/// taken [`STAGGER`].
async fn race(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    loop {
        attempts.extend(waiting.next().map(TcpStream::connect));
        tokio::select! {
            ended = attempts.next() => match ended {
                Some(Ok(stream)) => {
                    // Otherwise the kernel holds a request's body back until the server
                    // acknowledges its head.
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Some(Err(error)) => last = error,
                None => return Err(last),
            },
            () = tokio::time::sleep(STAGGER), if waiting.len() > 0 => {}
        }
    }
}

/// Alternates between the two address families, and keeps the resolver's order within each (RFC
/// 8305, section 4).
fn interleave(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let first_is_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    let (mut first, mut second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|a| a.is_ipv6() == first_is_v6);
    let mut out = Vec::new();
    first.reverse();
    second.reverse();
    while !first.is_empty() || !second.is_empty() {
        out.extend(first.pop());
        out.extend(second.pop());
    }
    out
}

fn prohibited_denial(to: &Destination, address: IpAddr) -> Denial {
    let named = to.host == "localhost" || to.host.parse::<IpAddr>().is_ok();
    let (kind, fix) = match classify(address) {
        AddressClass::Special => ("special-purpose", None),
        _ if named => ("private", Some(MissingEntry::Operator.fix(&super::rules::entry_for(to)))),
        _ => ("private", None),
    };
    let place = if to.host == address.to_string() {
        format!("{address} is")
    } else {
        format!("{} resolves to {address},", to.host)
    };
    let rule = match kind {
        "private" => format!("{place} a private address; only an operator entry can allow it"),
        _ => format!("{place} a special-purpose address, which is never allowed"),
    };
    Denial { what: origin(to), rule, fix, kind: DenialKind::Host(to.host.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn request_bodies_are_sent_immediately() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = race(vec![listener.local_addr().unwrap()]).await.unwrap();
        assert!(stream.nodelay().unwrap());
    }

    #[test]
    fn address_families_alternate() {
        let parse =
            |text: &str| text.split(' ').map(|a| a.parse().unwrap()).collect::<Vec<IpAddr>>();
        assert_eq!(
            interleave(parse("2a00::1 2a00::2 1.1.1.1 2a00::3 1.1.1.2")),
            parse("2a00::1 1.1.1.1 2a00::2 1.1.1.2 2a00::3")
        );
        assert_eq!(interleave(parse("1.1.1.1 1.1.1.2 2a00::1")), parse("1.1.1.1 2a00::1 1.1.1.2"));
        assert!(interleave(Vec::new()).is_empty());
    }
}
