//! The only way out to the network: every HTTP request of an invocation, from any interface, is
//! checked, sent, bounded and recorded here.
//!
//! Redirects are not followed: the guest receives the 3xx, and its next request is checked like any
//! other. Guests' requests use no proxy, and the environment is not searched for one. Responses are
//! never decompressed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, Uri};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::sync::Semaphore;

use self::address::{AddressClass, classify};
use self::body::{Download, Upload};
use self::exchange::{Exchange, after};
use self::lookup::Lookups;
use self::rate::Rates;
use self::request_log::{RequestLog, truncated};
use self::tasks::Tasks;
use skillhost_policy::capabilities::NetworkRules;
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::uses::RequestUse;
use skillhost_policy::outcome::{Denial, HttpRequest, LimitHit};
use skillhost_policy::pattern::Destination;

pub mod address;
mod body;
mod cache;
mod cached;
mod connect;
mod error;
mod exchange;
mod headers;
pub mod hooks;
mod lookup;
mod rate;
mod recorded;
mod request_log;
mod rules;
pub mod target;
mod tasks;
mod tls;
mod wire;

#[cfg(test)]
mod tests;

pub use self::address::Resolver;
pub use self::body::Body;
pub(super) use self::body::frames;
pub use self::cache::ResponseCache;
pub use self::connect::Proxy;
pub use self::error::SendError;
pub use self::exchange::UploadStatus;
pub use self::headers::is_forbidden;
pub(super) use self::headers::map;
pub(super) use self::recorded::NetworkGate;
pub use self::tls::{Roots, Tls};

/// Bytes of a head (request or status line, and fields) or of trailers, in either direction.
pub const MAX_HEAD: usize = 64 << 10;

/// Sends the requests of one invocation. Shared by all its programs.
#[derive(Debug)]
pub struct Sender {
    rules: NetworkRules,
    limits: Limits,
    network: Network,
    /// Whether bodies are digested, for a receipt.
    digests: bool,
    tls: Arc<Tls>,
    resolver: Resolver,
    /// Through which HTTPS requests are sent.
    proxy: Option<Proxy>,
    lookups: Lookups,
    slots: Arc<Semaphore>,
    rates: Rates,
    /// The responses that may be reused.
    cache: Option<Arc<ResponseCache>>,
    log: Arc<RequestLog>,
}

/// Stored in a response's extensions: whether the server has a private address.
#[derive(Debug, Clone, Copy)]
struct FromPrivateAddress(bool);

/// How requests reach the network.
#[derive(Debug)]
enum Network {
    /// Directly.
    Live,
    /// Not at all: responses would differ between machines.
    Off,
    /// Through a recording, which is written or replayed while the run waits.
    Recorded(NetworkGate, Arc<Sender>),
}

/// How the requests of a run reach the network.
pub(super) enum RunNetwork {
    /// Directly.
    Live,
    /// Not at all: the run is deterministic.
    Off,
    /// Through a recording, which is written or replayed while the run waits.
    Recorded(NetworkGate),
}

/// The guest's own timeouts. They can shorten the limits but never extend them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timeouts {
    /// For connecting.
    pub connect: Option<Duration>,
    /// From the end of the request to the head of the response.
    pub first_byte: Option<Duration>,
    /// Between two chunks of the response body.
    pub between_bytes: Option<Duration>,
}

impl Sender {
    /// Creates a sender that allows what the rules allow.
    pub fn new(
        rules: NetworkRules,
        limits: Limits,
        tls: Arc<Tls>,
        resolver: Resolver,
    ) -> Arc<Sender> {
        Sender::through(rules, limits, tls, resolver, None)
    }

    /// Creates a sender that sends HTTPS requests through a proxy.
    pub fn through(
        rules: NetworkRules,
        limits: Limits,
        tls: Arc<Tls>,
        resolver: Resolver,
        proxy: Option<Proxy>,
    ) -> Arc<Sender> {
        Arc::new(Sender::with_network(rules, limits, Network::Live, tls, (resolver, proxy), false))
    }

    /// Creates the sender of a run. `digests`: bodies are recorded by digest, for a receipt.
    /// `cache`: the responses that it may reuse, unless it is deterministic.
    pub(super) fn of_run(
        mut rules: NetworkRules,
        limits: Limits,
        network: RunNetwork,
        tls: Arc<Tls>,
        resolver: Resolver,
        digests: bool,
        cache: Option<Arc<ResponseCache>>,
    ) -> Arc<Sender> {
        let cache = cache.filter(|_| matches!(network, RunNetwork::Live));
        let network = match network {
            RunNetwork::Live => Network::Live,
            RunNetwork::Off => Network::Off,
            RunNetwork::Recorded(gate) => {
                // A replayed recording holds only the digests of authorities, and sends nothing.
                let (live_rules, live_limits) = if gate.network.is_recording() {
                    (rules.clone(), limits.clone())
                } else {
                    Default::default()
                };
                let live = Sender::new(live_rules, live_limits, tls.clone(), resolver.clone());
                rules.authorities = Vec::new();
                Network::Recorded(gate, live)
            }
        };
        let sender = Sender::with_network(rules, limits, network, tls, (resolver, None), digests);
        Arc::new(Sender { cache, ..sender })
    }

    fn with_network(
        rules: NetworkRules,
        limits: Limits,
        network: Network,
        tls: Arc<Tls>,
        (resolver, proxy): (Resolver, Option<Proxy>),
        digests: bool,
    ) -> Sender {
        let concurrent = usize::try_from(limits.http_concurrent)
            .unwrap_or(usize::MAX)
            .min(Semaphore::MAX_PERMITS);
        Sender {
            tls: tls.trusting(&rules.authorities),
            rules,
            rates: Rates::new(&limits),
            cache: None,
            limits,
            network,
            digests,
            resolver,
            proxy,
            lookups: Lookups::new(),
            slots: Arc::new(Semaphore::new(concurrent)),
            log: Arc::default(),
        }
    }

    /// Sends one request. Its total time ends with the last byte of the response body; dropping
    /// that body ends the connection.
    ///
    /// # Errors
    /// See [`SendError`]. Errors after the response's head come out of the body.
    pub async fn send(
        &self,
        request: Request<Body>,
        timeouts: Timeouts,
    ) -> Result<Response<Body>, SendError> {
        let deadline = after(Duration::from_millis(self.limits.http_total_ms));
        let (mut parts, body) = request.into_parts();
        let url = redacted(&parts.uri);
        let (to, declared) = match self.admit(&mut parts, &body) {
            Ok(admitted) => admitted,
            Err(why) => {
                self.log.refuse(&parts.method, url, &why);
                return Err(why);
            }
        };
        let record = self.log.open(&parts.method, url);
        let exchange = Exchange::new(
            self.log.clone(),
            record,
            self.limits.clone(),
            timeouts,
            deadline,
            self.digests,
        );
        if let Network::Recorded(gate, live) = &self.network {
            return gate
                .send(
                    self,
                    live,
                    &to,
                    parts,
                    Upload::new(body, declared, exchange.clone()),
                    &exchange,
                )
                .await;
        }
        let request = Request::from_parts(parts, Upload::new(body, declared, exchange.clone()));
        let response = match &self.cache {
            Some(cache) => self.exchange_cached(cache, &to, request, &exchange).await,
            None => self.exchange(&to, request, &exchange).await,
        };
        // The first failure explains later ones: a body over its limit also breaks the connection.
        response.map_err(|e| exchange.fail(e))
    }

    /// Returns the requests so far, in order, including the first 100 refused ones.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.log.entries().requests.clone()
    }

    /// Returns the distinct targets of the requests that were allowed.
    pub fn uses(&self) -> BTreeSet<RequestUse> {
        let used = self.log.admitted().into_iter().filter_map(|made| {
            let Destination { https, host, port } = target::parse(&made.url.parse().ok()?).ok()?;
            Some(RequestUse { https, host, port, method: made.method })
        });
        used.collect()
    }

    /// Returns the distinct denials, at most 100.
    pub fn denials(&self) -> Vec<Denial> {
        self.log.entries().denials.clone()
    }

    /// Returns the bytes sent and received in bodies. What the cache answered was not received.
    pub fn usage(&self) -> (u64, u64) {
        let log = self.log.entries();
        log.requests.iter().fold((0, 0), |(sent, received), request| {
            let from_network = if request.cached.is_some() { 0 } else { request.received };
            (sent + request.sent, received + from_network)
        })
    }

    /// Returns the first limit that a request hit.
    pub fn hit(&self) -> Option<Limit> {
        self.log.entries().hit
    }

    async fn exchange(
        &self,
        to: &Destination,
        request: Request<Upload>,
        exchange: &Arc<Exchange>,
    ) -> Result<Response<Body>, SendError> {
        let slot = self.rates.turn(&to.host, exchange, &self.slots).await?;
        let private = self.allows_private(to);
        let (resolver, lookups) = (&self.resolver, &self.lookups);
        let tcp = match &self.proxy {
            Some(proxy) if to.https => {
                let connecting = connect::tunnel(proxy, to, resolver, lookups, private);
                exchange.within(Limit::HttpConnect, connecting).await?
            }
            _ => {
                let connecting = connect::connect(to, resolver, lookups, private);
                exchange.within(Limit::HttpConnect, connecting).await?
            }
        };
        let from_private =
            tcp.peer_addr().map_or(true, |peer| classify(peer.ip()) != AddressClass::Public);
        let (tasks, spawner) = Tasks::new(exchange.clone(), slot);
        let response = if to.https {
            let tls =
                exchange.within(Limit::HttpTls, connect::handshake(to, tcp, &self.tls)).await?;
            let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
            exchange
                .within(
                    Limit::HttpTotal,
                    wire::send_request(tls, http2, to, request, exchange, spawner),
                )
                .await?
        } else {
            exchange
                .within(
                    Limit::HttpTotal,
                    wire::send_request(tcp, false, to, request, exchange, spawner),
                )
                .await?
        };
        let (mut parts, incoming) = response.into_parts();
        exchange.record(|r| r.status = Some(parts.status.as_u16()));
        if incoming.size_hint().lower() > self.limits.http_response_body {
            return Err(exchange.limit_error(Limit::HttpResponseBody));
        }
        if !headers::fit(&parts.headers, 64) {
            return Err(SendError::ResponseHead);
        }
        headers::strip(&mut parts.headers);
        parts.extensions.insert(UploadStatus(exchange.clone()));
        parts.extensions.insert(FromPrivateAddress(from_private));
        exchange.record(|r| (r.error, r.failure) = (None, None));
        Ok(Response::from_parts(
            parts,
            Download::new(incoming, exchange.clone(), tasks).boxed_unsync(),
        ))
    }

    /// Checks whether a private address of a target may be reached.
    fn allows_private(&self, to: &Destination) -> bool {
        self.rules.fetch.allows(|p| p.private && p.matches(to))
    }

    fn limit_error(&self, limit: Limit) -> SendError {
        SendError::Limit(LimitHit { limit, value: self.limits.get(limit).unwrap_or(0) })
    }
}

/// Returns a URL for the log, of bounded length and without user information and query, which may
/// carry secrets.
fn redacted(uri: &Uri) -> String {
    let place = match target::parse(uri) {
        Ok(to) => target::origin(&to),
        Err(_) => {
            let authority = uri.authority().map_or("", |a| a.as_str());
            format!(
                "{}://{}",
                uri.scheme_str().unwrap_or(""),
                authority.rsplit('@').next().unwrap_or("")
            )
        }
    };
    truncated(&(place + uri.path()))
}
