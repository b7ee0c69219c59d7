//! Sends the requests that fetch skills, with the sender that guests' requests use.
//!
//! Public servers are reached over HTTPS only. A private address is reached only if the operator
//! wrote it as part of a source. What `default` of the policy denies is denied here, too.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt as _, Empty, Full};
use skillhost_policy::Policy;
use skillhost_policy::capabilities::{NetworkRules, Scope};
use skillhost_policy::entry::Permission;
use skillhost_policy::limits::Limits;
use skillhost_policy::pattern::{HostName, HostPattern};
use skillhost_sandbox::http::{Body, Resolver, Roots, SendError, Sender, Timeouts, Tls, target};
use skillhost_sources::error::SourceError;
use skillhost_sources::limits::TransferLimits;
use skillhost_sources::network::{Network, Request, Response};
use skillhost_sources::source::Place;
use skillhost_sources::wanted::SourcesFile;
use tokio::runtime::Runtime;

use crate::error::CliError;
use crate::event_loop;

/// How long one transfer may take, in milliseconds.
const TOTAL: u64 = 10 * 60 * 1000;
/// How long a server may prepare its response: a repository computes the pack.
const FIRST_BYTE: u64 = 2 * 60 * 1000;

/// The network, within the operator's rules.
pub(crate) struct HostNetwork {
    runtime: Arc<Runtime>,
    denied: Vec<HostPattern>,
    authorities: Vec<skillhost_policy::capabilities::Authority>,
    tls: Arc<Tls>,
    /// The places that the operator wrote in a source.
    named: Mutex<BTreeSet<(bool, String, u16)>>,
}

impl HostNetwork {
    pub(crate) fn new(policy: &Policy) -> Result<HostNetwork, CliError> {
        let general = policy.layers.iter().filter(|layer| layer.applies_to.is_none());
        let denied = general
            .flat_map(|layer| &layer.deny)
            .filter_map(|rule| match &rule.permission {
                Permission::WebFetch(pattern) => Some(pattern.clone()),
                _ => None,
            })
            .collect();
        let tls = Tls::new(Roots::default())
            .map_err(|error| CliError::io("load the certificate authorities", error))?;
        Ok(HostNetwork {
            runtime: Arc::new(event_loop::one_thread()?),
            denied,
            authorities: policy.authorities.clone(),
            tls: tls.into(),
            named: Mutex::default(),
        })
    }

    /// Allows the place that the operator wrote in a source, also if it is private.
    pub(crate) fn allow(&self, url: &str) {
        let parsed = url.parse().ok().and_then(|uri| target::parse(&uri).ok());
        if let Some(to) = parsed {
            let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
            named.insert((to.https, to.host, to.port));
        }
    }

    /// Allows the places of all sources of a file.
    pub(crate) fn allow_all(&self, wanted: &SourcesFile) {
        for skill in wanted.skills.values() {
            if let Place::Git(url) | Place::Archive(url) = &skill.source.place {
                self.allow(url);
            }
        }
    }

    fn rules(&self) -> NetworkRules {
        let public = HostPattern { host: HostName::Any, port: None, plain: false, private: false };
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let named = named.iter().map(|(https, host, port)| HostPattern {
            host: HostName::Exact(host.clone()),
            port: Some(*port),
            plain: !https,
            private: true,
        });
        let allowed = named.chain([public]).collect();
        NetworkRules {
            fetch: Scope { all_of: vec![allowed], none_of: self.denied.clone(), ..Scope::empty() },
            methods: ["GET", "POST"].map(str::to_owned).into(),
            authorities: self.authorities.clone(),
        }
    }
}

impl Network for HostNetwork {
    fn send(&self, request: &Request) -> Result<Response, SourceError> {
        let limits = Limits {
            http_response_body: TransferLimits::default().bytes + (1 << 20),
            http_total_ms: TOTAL,
            http_first_byte_ms: FIRST_BYTE,
            ..Limits::default()
        };
        let sender = Sender::new(self.rules(), limits, self.tls.clone(), Resolver::System);
        let problem = |why: String, fix: Option<String>| SourceError::Network {
            url: request.url.clone(),
            why,
            fix,
        };
        let (method, body): (_, Body) = match &request.body {
            Some(body) => {
                ("POST", Full::new(body.clone().into()).map_err(|e| match e {}).boxed_unsync())
            }
            None => ("GET", Empty::new().map_err(|e| match e {}).boxed_unsync()),
        };
        let mut builder = http::Request::builder().method(method).uri(&request.url);
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        // Some servers answer only programs that say who they are.
        let builder =
            builder.header("user-agent", concat!("skillhost/", env!("CARGO_PKG_VERSION")));
        let sent = builder.body(body).map_err(|error| problem(error.to_string(), None))?;
        let response = self.runtime.block_on(sender.send(sent, Timeouts::default()));
        let response = response.map_err(|error| match &error {
            SendError::Denied(denial) | SendError::Prohibited(denial) => {
                let fix = "name the server itself as the source, and check `deny` of `default` in the policy";
                problem(denial.rule.clone(), Some(fix.to_owned()))
            }
            _ => problem(error.to_string(), None),
        })?;
        let (parts, body) = response.into_parts();
        let field = |name: &str| {
            parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let body = Blocking {
            runtime: self.runtime.clone(),
            body,
            part: bytes::Bytes::new(),
            _sender: sender,
        };
        Ok(Response {
            status: parts.status.as_u16(),
            content_type: field("content-type"),
            location: field("location"),
            body: Box::new(body),
        })
    }
}

/// A body that is read while the reader waits.
struct Blocking {
    runtime: Arc<Runtime>,
    body: Body,
    part: bytes::Bytes,
    _sender: Arc<Sender>,
}

impl Read for Blocking {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() {
            match self.runtime.block_on(self.body.frame()) {
                None => return Ok(0),
                Some(Ok(frame)) => self.part = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Err(io::Error::other(error)),
            }
        }
        let read = self.part.len().min(buffer.len());
        buffer[..read].copy_from_slice(&self.part.split_to(read));
        Ok(read)
    }
}
