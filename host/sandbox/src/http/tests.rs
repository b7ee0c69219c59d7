//! Tests of the sender against real servers on loopback.

mod bodies;
mod cache;
mod hooks;
mod rates;
mod rules;
mod servers;
mod times;
mod tls;

use std::net::IpAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};

use super::*;
use skillhost_policy::capabilities::{Capabilities, Scope};
use skillhost_policy::pattern::{HostName, HostPattern};

/// Returns an entry for one host over HTTP or HTTPS, at a port or the default one.
fn entry(host: &str, port: Option<u16>, private: bool) -> HostPattern {
    let host = match host.strip_prefix("*.") {
        Some(parent) => HostName::Below(parent.to_owned()),
        None => HostName::Exact(host.to_owned()),
    };
    HostPattern { host, port, plain: true, private }
}

/// Returns capabilities in which both sides have these entries, with GET, HEAD and POST.
fn granted(entries: Vec<HostPattern>) -> Capabilities {
    let fetch =
        Scope { all_of: vec![entries.clone(), entries], none_of: Vec::new(), ..Scope::empty() };
    Capabilities {
        fetch,
        methods: ["GET", "HEAD", "POST"].map(str::to_owned).into(),
        ..Capabilities::default()
    }
}

/// Returns capabilities that grant only a server on loopback.
fn loopback(port: u16) -> Capabilities {
    granted(vec![entry("127.0.0.1", Some(port), true)])
}

fn sender(capabilities: &Capabilities) -> Arc<Sender> {
    sender_of(capabilities, Roots::default(), Resolver::System)
}

/// Creates a sender whose resolver knows only these names.
fn sender_with_names(capabilities: &Capabilities, names: &[(&str, &[&str])]) -> Arc<Sender> {
    sender_of(capabilities, Roots::default(), resolver(names))
}

fn sender_of(capabilities: &Capabilities, roots: Roots, resolver: Resolver) -> Arc<Sender> {
    let (rules, limits) = (capabilities.network_rules(), capabilities.limits.clone());
    Sender::new(rules, limits, Arc::new(Tls::new(roots).unwrap()), resolver)
}

fn resolver(names: &[(&str, &[&str])]) -> Resolver {
    let addresses = |list: &[&str]| list.iter().map(|a| a.parse::<IpAddr>().unwrap()).collect();
    Resolver::Static(
        names.iter().map(|(name, list)| ((*name).to_owned(), addresses(list))).collect(),
    )
}

fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).map_err(|e| match e {}).boxed_unsync()
}

fn request(method: &str, url: &str, body: Body) -> Request<Body> {
    Request::builder().method(method).uri(url).body(body).unwrap()
}

/// Sends a request, and returns the status and the whole body.
async fn exchange(sender: &Sender, request: Request<Body>) -> Result<(u16, String), SendError> {
    let response = sender.send(request, Timeouts::default()).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

async fn get(sender: &Sender, url: &str) -> Result<(u16, String), SendError> {
    exchange(sender, request("GET", url, full(""))).await
}

fn hit(result: Result<impl std::fmt::Debug, SendError>) -> Limit {
    result.unwrap_err().limit().expect("a limit was hit")
}
