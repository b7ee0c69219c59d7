//! Connects to one of the checked addresses, and to no other.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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

/// A proxy that the operator's environment names. It resolves the names of servers, so the host
/// cannot check the addresses behind them; requests to addresses are checked all the same.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// The host of the proxy.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The value of `Proxy-Authorization`, if it requires credentials.
    pub authorization: Option<String>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("host", &self.host).field("port", &self.port).finish()
    }
}

/// The most bytes of a proxy's answer.
const MAX_ANSWER: usize = 8 << 10;

/// Connects to a server through a proxy.
///
/// `private`: whether both sides allow private addresses for this target.
pub(super) async fn tunnel(
    proxy: &Proxy,
    to: &Destination,
    resolver: &Resolver,
    lookups: &Lookups,
    private: bool,
) -> Result<TcpStream, SendError> {
    let class = match to.host.parse::<IpAddr>() {
        Ok(address) => classify(address),
        Err(_) if to.host == "localhost" || to.host.ends_with(".localhost") => {
            AddressClass::Private
        }
        Err(_) => AddressClass::Public,
    };
    if class == AddressClass::Special || class == AddressClass::Private && !private {
        let address = to.host.parse().unwrap_or(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
        return Err(SendError::Prohibited(prohibited_denial(to, address)));
    }
    let found = resolver.resolve(&proxy.host, lookups).await.map_err(SendError::Dns)?;
    let found = found.into_iter().take(MAX_ADDRESSES).collect();
    let addresses = interleave(found).into_iter().map(|ip| SocketAddr::new(ip, proxy.port));
    let mut stream =
        race(addresses.collect()).await.map_err(|error| SendError::Connect(error.kind()))?;
    let host = if to.host.contains(':') { format!("[{}]", to.host) } else { to.host.clone() };
    let authority = format!("{host}:{}", to.port);
    let authorization = proxy.authorization.as_ref();
    let authorization =
        authorization.map(|value| format!("Proxy-Authorization: {value}\r\n")).unwrap_or_default();
    let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{authorization}\r\n");
    let failed = |error: io::Error| SendError::Protocol(format!("the proxy: {error}"));
    stream.write_all(head.as_bytes()).await.map_err(failed)?;
    // Byte by byte: what follows the head belongs to the server.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() == MAX_ANSWER {
            return Err(SendError::ResponseHead);
        }
        answer.push(stream.read_u8().await.map_err(failed)?);
    }
    let line = String::from_utf8_lossy(&answer);
    let line = line.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some("200") => Ok(stream),
        _ => {
            let status: String = line.chars().filter(|char| !char.is_control()).take(100).collect();
            Err(SendError::Protocol(format!("the proxy refuses: {status}")))
        }
    }
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
