//! A connection to one of the addresses that were checked, and to no other.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::address::{Reach, Resolver, reach};
use super::error::SendError;
use super::lookup::Lookups;
use super::target::origin;
use super::tls::Tls;
use skillhost_policy::outcome::{Denial, DenialKind};
use skillhost_policy::pattern::Destination;

/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;

/// How long one attempt goes on alone (RFC 8305, 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Resolves once, drops the addresses that may not be asked, and connects to one that is left.
///
/// `private`: whether both sides agree to private addresses for this target.
pub(super) async fn connect(
    to: &Destination,
    resolver: &Resolver,
    lookups: &Lookups,
    private: bool,
) -> Result<TcpStream, SendError> {
    let found = resolver.resolve(&to.host, lookups).await.map_err(SendError::Dns)?;
    if found.is_empty() {
        return Err(SendError::Dns("no address".to_owned()));
    }
    let may = |address: &IpAddr| match reach(*address) {
        Reach::Public => true,
        Reach::Private => private,
        Reach::Never => false,
    };
    let left: Vec<IpAddr> = found.iter().copied().filter(may).take(MAX_ADDRESSES).collect();
    if left.is_empty() {
        return Err(SendError::Prohibited(prohibited(to, found[0])));
    }
    race(alternate(left).into_iter().map(|ip| SocketAddr::new(ip, to.port)).collect())
        .await
        .map_err(|e| SendError::Connect(e.kind()))
}

/// The TLS handshake. The certificate must be for the target's name.
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

/// The first address that answers. The next attempt starts when one has failed or has taken
/// [`STAGGER`].
async fn race(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    loop {
        attempts.extend(waiting.next().map(TcpStream::connect));
        tokio::select! {
            ended = attempts.next() => match ended {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => last = error,
                None => return Err(last),
            },
            () = tokio::time::sleep(STAGGER), if waiting.len() > 0 => {}
        }
    }
}

/// The two families in turn, the resolver's order kept within each (RFC 8305, 4).
fn alternate(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
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

fn prohibited(to: &Destination, address: IpAddr) -> Denial {
    let named = to.host == "localhost" || to.host.parse::<IpAddr>().is_ok();
    let (kind, fix) = match reach(address) {
        Reach::Never => ("special-purpose", None),
        _ if named => ("private", Some(super::allow_flag(to))),
        _ => ("private", None),
    };
    let place = if to.host == address.to_string() {
        "it is".to_owned()
    } else {
        format!("`{}` resolves to {address},", to.host)
    };
    let unless = if kind == "private" { " unless an operator's entry names it" } else { "" };
    let rule = format!("{place} a {kind} address, which is never asked{unless}");
    Denial { what: origin(to), rule, fix, kind: DenialKind::Host(to.host.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let parse =
            |text: &str| text.split(' ').map(|a| a.parse().unwrap()).collect::<Vec<IpAddr>>();
        assert_eq!(
            alternate(parse("2a00::1 2a00::2 1.1.1.1 2a00::3 1.1.1.2")),
            parse("2a00::1 1.1.1.1 2a00::2 1.1.1.2 2a00::3")
        );
        assert_eq!(alternate(parse("1.1.1.1 1.1.1.2 2a00::1")), parse("1.1.1.1 2a00::1 1.1.1.2"));
        assert!(alternate(Vec::new()).is_empty());
    }
}
