//! The one way out: every HTTP request of an invocation, whichever interface it came by, is
//! checked, sent, bounded and recorded here.
//!
//! Redirects are not followed: the guest sees the 3xx, and the request that it makes next is
//! checked as any other. Proxies are not used, and the environment is not asked about any. A
//! response is handed over as it came, never decompressed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, Uri, request};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::sync::Semaphore;

use self::body::{Download, Upload};
use self::exchange::{Exchange, after};
use self::ledger::{Ledger, brief};
use self::lookup::Lookups;
use self::tasks::Tasks;
use skillhost_policy::capabilities::NetworkRules;
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::uses::RequestUse;
use skillhost_policy::outcome::{Denial, DenialKind, HttpRequest, LimitHit};
use skillhost_policy::pattern::{Destination, Mismatch};

pub mod address;
mod body;
mod connect;
mod error;
mod exchange;
mod headers;
mod held;
pub mod hooks;
mod ledger;
mod lookup;
pub mod target;
mod tasks;
mod tls;
mod wire;

#[cfg(test)]
mod tests;

pub use self::address::Resolver;
pub use self::body::Body;
pub(super) use self::body::frames;
pub use self::error::SendError;
pub use self::exchange::Sent;
pub use self::headers::is_forbidden;
pub(super) use self::headers::map;
pub(super) use self::held::Held;
pub use self::tls::{Roots, Tls};

/// Bytes of a head (request line or status line, and fields) or of trailers, either way.
pub const MAX_HEAD: usize = 64 << 10;

/// Sends the requests of one invocation. Shared by all its programs.
#[derive(Debug)]
pub struct Sender {
    rules: NetworkRules,
    limits: Limits,
    network: Network,
    /// Whether bodies are told by digest, for a receipt.
    digests: bool,
    tls: Arc<Tls>,
    resolver: Resolver,
    lookups: Lookups,
    turns: Arc<Semaphore>,
    ledger: Arc<Ledger>,
}

/// Where requests go.
#[derive(Debug)]
enum Network {
    /// Out.
    Live,
    /// Nowhere: what comes back would not be the same on every machine.
    Off,
    /// Out and into a recording, or to a recording alone, while the run waits.
    Held(Held, Arc<Sender>),
}

/// Where the requests of a run go.
pub(super) enum RunNetwork {
    /// Out.
    Live,
    /// Nowhere: it is deterministic.
    Off,
    /// Out and into a recording, or to a recording alone, while the run waits.
    Held(Held),
}

/// The guest's own times. They shorten the limits, never lengthen them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Waits {
    /// To connect.
    pub connect: Option<Duration>,
    /// From the request sent to the response's head.
    pub first_byte: Option<Duration>,
    /// Between two pieces of the response's body.
    pub between_bytes: Option<Duration>,
}

impl Sender {
    /// A sender that allows what the rules allow.
    pub fn new(
        rules: NetworkRules,
        limits: Limits,
        tls: Arc<Tls>,
        resolver: Resolver,
    ) -> Arc<Sender> {
        Sender::made(rules, limits, Network::Live, tls, resolver, false)
    }

    /// The sender of a run. `digests`: bodies are recorded by digest, for a receipt.
    pub(super) fn of_run(
        mut rules: NetworkRules,
        limits: Limits,
        network: RunNetwork,
        tls: Arc<Tls>,
        resolver: Resolver,
        digests: bool,
    ) -> Arc<Sender> {
        let network = match network {
            RunNetwork::Live => Network::Live,
            RunNetwork::Off => Network::Off,
            RunNetwork::Held(held) => {
                // Of a recording that is replayed, authorities are known by digest alone; and
                // nothing is sent.
                let (live_rules, live_limits) = if held.tape.is_recording() {
                    (rules.clone(), limits.clone())
                } else {
                    Default::default()
                };
                let live = Sender::new(live_rules, live_limits, tls.clone(), resolver.clone());
                rules.authorities = Vec::new();
                Network::Held(held, live)
            }
        };
        Sender::made(rules, limits, network, tls, resolver, digests)
    }

    fn made(
        rules: NetworkRules,
        limits: Limits,
        network: Network,
        tls: Arc<Tls>,
        resolver: Resolver,
        digests: bool,
    ) -> Arc<Sender> {
        let concurrent = usize::try_from(limits.http_concurrent)
            .unwrap_or(usize::MAX)
            .min(Semaphore::MAX_PERMITS);
        Arc::new(Sender {
            tls: tls.trusting(&rules.authorities),
            rules,
            limits,
            network,
            digests,
            resolver,
            lookups: Lookups::new(),
            turns: Arc::new(Semaphore::new(concurrent)),
            ledger: Arc::default(),
        })
    }

    /// Sends one request. Its time runs until the last byte of the response's body; dropping that
    /// body ends the connection.
    ///
    /// # Errors
    /// See [`SendError`]. An error after the response's head comes out of the body.
    pub async fn send(
        &self,
        request: Request<Body>,
        waits: Waits,
    ) -> Result<Response<Body>, SendError> {
        let deadline = after(Duration::from_millis(self.limits.http_total_ms));
        let (mut parts, body) = request.into_parts();
        let url = shown(&parts.uri);
        let (to, declared) = match self.admit(&mut parts, &body) {
            Ok(admitted) => admitted,
            Err(why) => {
                self.ledger.refuse(&parts.method, url, &why);
                return Err(why);
            }
        };
        let record = self.ledger.open(&parts.method, url);
        let exchange = Exchange::new(
            self.ledger.clone(),
            record,
            self.limits.clone(),
            waits,
            deadline,
            self.digests,
        );
        if let Network::Held(held, live) = &self.network {
            return held
                .send(live, &to, parts, Upload::new(body, declared, exchange.clone()), &exchange)
                .await;
        }
        let request = Request::from_parts(parts, Upload::new(body, declared, exchange.clone()));
        // What failed first explains what failed next: a body over its cap also breaks the
        // connection.
        self.exchange(&to, request, &exchange).await.map_err(|e| exchange.fail(e))
    }

    /// Every request so far, in order; refused ones too, of those the first 100.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.ledger.book().requests.clone()
    }

    /// Where the requests that were let through went, once each.
    pub fn uses(&self) -> BTreeSet<RequestUse> {
        let used = self.ledger.admitted().into_iter().filter_map(|made| {
            let Destination { https, host, port } = target::target(&made.url.parse().ok()?).ok()?;
            Some(RequestUse { https, host, port, method: made.method })
        });
        used.collect()
    }

    /// What was refused and why, once each, at most 100.
    pub fn denials(&self) -> Vec<Denial> {
        self.ledger.book().denials.clone()
    }

    /// Bytes sent and received in bodies.
    pub fn usage(&self) -> (u64, u64) {
        self.ledger
            .book()
            .requests
            .iter()
            .fold((0, 0), |(sent, received), r| (sent + r.sent, received + r.received))
    }

    /// The first limit that a request hit.
    pub fn hit(&self) -> Option<Limit> {
        self.ledger.book().hit
    }

    /// Checks a request and makes it the one that is sent. Returns where it goes, and the length of
    /// its body where that is known.
    fn admit(
        &self,
        parts: &mut request::Parts,
        body: &Body,
    ) -> Result<(Destination, Option<u64>), SendError> {
        let deny = |what: String, rule: String, fix, kind| {
            Err(SendError::Denied(Denial { what, rule, fix, kind }))
        };
        let to = match target::target(&parts.uri) {
            Ok(to) => to,
            Err(rule) => return deny(shown(&parts.uri), brief(&rule), None, DenialKind::Url),
        };
        let host = || DenialKind::Host(to.host.clone());
        if let Network::Off = self.network {
            let rule = "the network is off in a deterministic run".to_owned();
            return deny(
                target::origin(&to),
                rule,
                Some("record it: `--record DIR`, or run it without `--deterministic`".into()),
                host(),
            );
        }
        if !self.rules.fetch.allows(|p| p.matches(&to)) {
            let denied = self.rules.fetch.none_of.iter().any(|p| p.matches(&to));
            let rule = if denied {
                "an entry of `deny` matches it".to_owned()
            } else {
                self.unmatched(&to)
            };
            return deny(target::origin(&to), rule, (!denied).then(|| allow_flag(&to)), host());
        }
        // CONNECT would open a tunnel, TRACE echoes what the host added.
        let never = [Method::CONNECT, Method::TRACE].contains(&parts.method);
        if never || !self.rules.methods.iter().any(|m| m == parts.method.as_str()) {
            let method = brief(parts.method.as_str());
            let rule = if never {
                format!("{method} is never sent")
            } else {
                format!("`methods` does not hold {method}")
            };
            let fix = (!never).then(|| format!("`methods: [{method}]` in the policy"));
            return deny(
                format!("{method} {}", target::origin(&to)),
                rule,
                fix,
                DenialKind::Method(to.host),
            );
        }
        headers::strip(&mut parts.headers);
        let declared = headers::declared_length(&parts.headers, body.size_hint().exact())?;
        let line = parts.uri.path_and_query().map_or(1, |p| p.as_str().len())
            + parts.method.as_str().len();
        if !headers::fit(&parts.headers, line + to.host.len() + 64) {
            return Err(SendError::RequestHead);
        }
        if declared.is_some_and(|n| n > self.limits.http_request_body) {
            return Err(self.over(Limit::HttpRequestBody));
        }
        parts.uri =
            target::absolute(&to, &parts.uri).map_err(|e| SendError::Malformed(e.to_string()))?;
        parts.extensions.clear();
        if self.limits.http_concurrent == 0 {
            return Err(self.over(Limit::HttpConcurrent));
        }
        if !self.ledger.admit(self.limits.http_requests) {
            return Err(self.over(Limit::HttpRequests));
        }
        Ok((to, declared))
    }

    /// Why no entry lets a request through: what the nearest one of the first side without a match
    /// has otherwise.
    fn unmatched(&self, to: &Destination) -> String {
        let side = self.rules.fetch.all_of.iter().find(|side| !side.iter().any(|p| p.matches(to)));
        let nearest = side
            .into_iter()
            .flatten()
            .filter_map(|p| p.mismatch(to))
            .max()
            .unwrap_or(Mismatch::Host);
        let (host, port) = (&to.host, to.port);
        match nearest {
            Mismatch::Host => format!(
                "no `WebFetch` entry, of those asked for and granted, is for the host `{host}`"
            ),
            Mismatch::Scheme => {
                format!("the `WebFetch` entry for `{host}` is for https, and this is http")
            }
            Mismatch::Port => format!("the `WebFetch` entry for `{host}` is not for port {port}"),
        }
    }

    async fn exchange(
        &self,
        to: &Destination,
        request: Request<Upload>,
        exchange: &Arc<Exchange>,
    ) -> Result<Response<Body>, SendError> {
        let Ok(turn) =
            tokio::time::timeout_at(exchange.deadline, self.turns.clone().acquire_owned()).await
        else {
            return Err(exchange.over(Limit::HttpConcurrent));
        };
        let turn = turn.map_err(|e| SendError::Protocol(e.to_string()))?;
        let private = self.rules.fetch.allows(|p| p.private && p.matches(to));
        let tcp = exchange
            .within(
                Limit::HttpConnect,
                connect::connect(to, &self.resolver, &self.lookups, private),
            )
            .await?;
        let (tasks, spawner) = Tasks::new(exchange.clone(), turn);
        let response = if to.https {
            let tls =
                exchange.within(Limit::HttpTls, connect::handshake(to, tcp, &self.tls)).await?;
            let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
            exchange
                .within(
                    Limit::HttpTotal,
                    wire::converse(tls, http2, to, request, exchange, spawner),
                )
                .await?
        } else {
            exchange
                .within(
                    Limit::HttpTotal,
                    wire::converse(tcp, false, to, request, exchange, spawner),
                )
                .await?
        };
        let (mut parts, incoming) = response.into_parts();
        exchange.record(|r| r.status = Some(parts.status.as_u16()));
        if incoming.size_hint().lower() > self.limits.http_response_body {
            return Err(exchange.over(Limit::HttpResponseBody));
        }
        if !headers::fit(&parts.headers, 64) {
            return Err(SendError::ResponseHead);
        }
        headers::strip(&mut parts.headers);
        parts.extensions.insert(Sent(exchange.clone()));
        exchange.record(|r| (r.error, r.failure) = (None, None));
        Ok(Response::from_parts(
            parts,
            Download::new(incoming, exchange.clone(), tasks).boxed_unsync(),
        ))
    }

    fn over(&self, limit: Limit) -> SendError {
        SendError::Limit(LimitHit { limit, value: self.limits.get(limit).unwrap_or(0) })
    }
}

/// The flag that allows a target.
fn allow_flag(to: &Destination) -> String {
    let entry = if to.https { "domain:" } else { "http://" };
    format!("--allow 'WebFetch({entry}{})'", target::authority(to))
}

/// A URL for the record: without user information and query, which may carry secrets, and of
/// bounded length.
fn shown(uri: &Uri) -> String {
    let place = match target::target(uri) {
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
    brief(&(place + uri.path()))
}
