//! Reaches the servers from which skills are fetched, with the sender that guests' requests use.
//!
//! Public servers are reached over HTTPS and SSH only. A private address is reached only if the
//! operator wrote it as part of a source. What `default` of the policy denies is denied here, too.
//! Proxies, credentials and the S3 store are those of the operator's environment, which is read here.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt as _, Empty, Full};
use skillhost_policy::Policy;
use skillhost_policy::capabilities::{NetworkRules, Scope};
use skillhost_policy::entry::Permission;
use skillhost_policy::limits::Limits;
use skillhost_policy::pattern::{Destination, HostName, HostPattern};
use skillhost_sandbox::http::{
    Body, Proxy, Resolver, Roots, SendError, Sender, Timeouts, Tls, target,
};
use skillhost_sources::credentials::{self, Credential, Login};
use skillhost_sources::error::SourceError;
use skillhost_sources::limits::TransferLimits;
use skillhost_sources::network::{Connection, Network, Request, Response};
use skillhost_sources::programs::{self, Programs};
use skillhost_sources::project::Project;
use skillhost_sources::s3;
use skillhost_sources::source::{Place, SshPlace};

use tokio::runtime::Runtime;

use crate::context::Places;
use crate::error::CliError;
use crate::event_loop;

/// How long one request may take, in milliseconds.
const TOTAL: u64 = 10 * 60 * 1000;
/// How long a server may prepare its response: a repository computes the pack.
const FIRST_BYTE: u64 = 2 * 60 * 1000;

/// What denies access, and how to allow it.
const FIX: &str =
    "name the server itself as the source, and check `deny` of `default` in the policy";

/// The network, within the operator's rules.
pub(crate) struct HostNetwork {
    runtime: Arc<Runtime>,
    denied: Vec<HostPattern>,
    authorities: Vec<skillhost_policy::capabilities::Authority>,
    tls: Arc<Tls>,
    environment: Environment,
    /// The places that the operator wrote in a source.
    named: Mutex<BTreeSet<(bool, String, u16)>>,
    /// The most bytes of a request or a response.
    max: u64,
}

impl HostNetwork {
    pub(crate) fn new(
        policy: &Policy,
        places: &Places,
        limits: &TransferLimits,
    ) -> Result<HostNetwork, CliError> {
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
            environment: Environment::read(places),
            named: Mutex::default(),
            max: limits.bytes.saturating_add(1 << 20),
        })
    }

    /// Allows the place that the operator wrote in a source, also if it is private.
    pub(crate) fn allow(&self, place: &Place) {
        let server = match place {
            Place::S3(_) => s3::endpoint(&self.environment.store).map(str::to_owned),
            place => place.server(),
        };
        let parsed = server.and_then(|url| target::parse(&url.parse().ok()?).ok());
        if let Some(to) = parsed {
            let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
            named.insert((to.https, to.host, to.port));
        }
    }

    /// Allows the places that the sources of a project's file are fetched from.
    pub(crate) fn allow_all(&self, project: &Project) -> Result<(), CliError> {
        for skill in project.wanted()?.skills.values() {
            self.allow(&project.place_of(&skill.source).place);
        }
        Ok(())
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
            methods: ["GET", "HEAD", "POST", "PUT"].map(str::to_owned).into(),
            authorities: self.authorities.clone(),
        }
    }
}

impl Network for HostNetwork {
    fn send(&self, request: &Request) -> Result<Response, SourceError> {
        let problem = |why: String, fix: Option<String>| SourceError::Network {
            // The query may carry a signature.
            url: request.url.split('?').next().unwrap_or_default().to_owned(),
            why,
            fix,
        };
        let max = self.max;
        let limits = Limits {
            http_request_body: max,
            http_response_body: max,
            http_total_ms: TOTAL,
            http_first_byte_ms: FIRST_BYTE,
            ..Limits::default()
        };
        let to = request.url.parse().ok().and_then(|uri| target::parse(&uri).ok());
        let proxy = match to {
            Some(to) => self.environment.proxy(&to)?,
            None => None,
        };
        let sender =
            Sender::through(self.rules(), limits, self.tls.clone(), Resolver::System, proxy);
        let body: Body = match &request.body {
            Some(body) => Full::new(body.clone().into()).map_err(|e| match e {}).boxed_unsync(),
            None => Empty::new().map_err(|e| match e {}).boxed_unsync(),
        };
        let mut builder = http::Request::builder().method(request.method.name()).uri(&request.url);
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
                problem(denial.rule.clone(), Some(FIX.to_owned()))
            }
            _ => problem(error.to_string(), None),
        })?;
        let (parts, body) = response.into_parts();
        let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        let headers = parts.headers.iter().filter_map(text).collect();
        let body = Blocking {
            runtime: self.runtime.clone(),
            body,
            part: bytes::Bytes::new(),
            _sender: sender,
        };
        Ok(Response { status: parts.status.as_u16(), headers, body: Box::new(body) })
    }

    fn credential(&self, login: &Login<'_>) -> Result<Option<Credential>, SourceError> {
        let Environment { programs, docker, git, .. } = &self.environment;
        match login {
            Login::Registry(host) => credentials::docker(docker, host, programs),
            Login::Git(url) => {
                let files: Vec<&Path> = git.iter().map(PathBuf::as_path).collect();
                credentials::git(&files, url, programs)
            }
        }
    }

    fn ssh(&self, place: &SshPlace, command: &str) -> Result<Box<dyn Connection>, SourceError> {
        let to = Destination {
            https: true,
            host: place.host.trim_end_matches('.').to_owned(),
            port: place.port.unwrap_or(22),
        };
        if self.denied.iter().any(|pattern| pattern.matches(&to)) {
            return Err(SourceError::Network {
                url: place.to_string(),
                why: format!("network access to {} is blocked by an entry of `deny`", to.host),
                fix: Some(FIX.to_owned()),
            });
        }
        let config = self.environment.ssh.as_deref();
        Ok(Box::new(self.environment.programs.ssh(place, command, config)?))
    }

    fn object(&self, bucket: &str, key: &str) -> Result<String, SourceError> {
        s3::signed_url(&self.environment.store, bucket, key)
    }
}

/// What the operator's environment says about servers.
struct Environment {
    programs: Programs,
    /// Docker's configuration file.
    docker: PathBuf,
    /// Git's configuration files, the most general first.
    git: Vec<PathBuf>,
    /// The configuration of `ssh`, if it does not find it itself.
    ssh: Option<PathBuf>,
    /// The variables that configure an S3 store.
    store: Vec<(String, String)>,
    /// The proxy for HTTPS, and the hosts that are reached without it. If it is invalid, the name
    /// of its variable: commands that need no network ignore it.
    proxy: Result<Option<Proxy>, &'static str>,
    direct: Vec<String>,
}

impl Environment {
    fn read(places: &Places) -> Environment {
        let home = &places.home;
        let some = |names: &[&str]| -> Vec<(String, String)> {
            names.iter().filter_map(|name| Some(((*name).to_owned(), variable(name)?))).collect()
        };
        let docker = variable("DOCKER_CONFIG").map_or_else(|| home.join(".docker"), PathBuf::from);
        let xdg = variable("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
        let proxy = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
            .into_iter()
            .find_map(|name| Some((name, variable(name)?)));
        let proxy = proxy.map(|(name, value)| parse_proxy(&value).ok_or(name)).transpose();
        let direct = variable("no_proxy").or_else(|| variable("NO_PROXY")).unwrap_or_default();
        // `ssh` looks into the home folder of the user database, whatever $HOME says.
        let uid = nix::unistd::Uid::current();
        let real = nix::unistd::User::from_uid(uid).ok().flatten().map(|user| user.dir);
        let ssh = home.join(".ssh/config");
        Environment {
            programs: Programs::new(&home.to_string_lossy(), some(&programs::VARIABLES)),
            docker: docker.join("config.json"),
            git: vec!["/etc/gitconfig".into(), xdg.join("git/config"), home.join(".gitconfig")],
            ssh: (real.as_ref() != Some(home) && ssh.exists()).then_some(ssh),
            store: some(&s3::VARIABLES),
            proxy,
            direct: direct.split([',', ' ']).map(str::to_ascii_lowercase).collect(),
        }
    }

    /// Returns the proxy for a server. This machine is reached without one.
    fn proxy(&self, to: &Destination) -> Result<Option<Proxy>, SourceError> {
        let is_loopback = to.host == "localhost"
            || to.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        let is_direct = is_loopback || self.direct.iter().any(|entry| is_direct(entry, to));
        match &self.proxy {
            _ if is_direct => Ok(None),
            Ok(proxy) => Ok(proxy.clone()),
            Err(name) => Err(SourceError::request(
                format!("${name} is not the URL of a proxy"),
                format!("export {name}=http://HOST:PORT"),
            )),
        }
    }
}

/// Checks whether an entry of `no_proxy` names a server: `*`, a name with all below it, or an address.
fn is_direct(entry: &str, to: &Destination) -> bool {
    let (name, port) = match entry.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') => (name, port.parse::<u16>().ok()),
        _ => (entry, None),
    };
    let name = name.trim_start_matches("*.").trim_start_matches('.');
    let is_name = name == "*"
        || !name.is_empty()
            && to
                .host
                .strip_suffix(name)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    is_name && port.is_none_or(|port| port == to.port)
}

/// Parses `http://[USER:PASSWORD@]HOST[:PORT]`. User and password are percent-encoded.
fn parse_proxy(text: &str) -> Option<Proxy> {
    let rest =
        text.strip_prefix("http://").or_else(|| Some(text).filter(|t| !t.contains("://")))?;
    let rest = rest.trim_end_matches('/');
    let (login, authority) = match rest.rsplit_once('@') {
        Some((login, authority)) => (Some(login), authority),
        None => (None, rest),
    };
    let to = target::parse(&format!("http://{authority}/").parse().ok()?).ok()?;
    let authorization =
        login.map(|login| format!("Basic {}", BASE64_STANDARD.encode(percent_decoded(login))));
    Some(Proxy { host: to.host, port: to.port, authorization })
}

/// Decodes the characters of a URL that are percent-encoded. Another `%` stands for itself.
fn percent_decoded(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((byte, more)) = rest.split_first() {
        let digit = |at: usize| char::from(*more.get(at)?).to_digit(16);
        let decoded = match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        bytes.push(decoded.unwrap_or(*byte));
        rest = if decoded.is_some() { &more[2..] } else { more };
    }
    bytes
}

/// Reads a variable that is set to something.
fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    std::env::var(name).ok().filter(|value| !value.is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn to(host: &str, port: u16) -> Destination {
        Destination { https: true, host: host.to_owned(), port }
    }

    #[test]
    fn proxies_are_parsed() {
        let parse = |text: &str| {
            let Proxy { host, port, authorization } = parse_proxy(text)?;
            Some((host, port, authorization))
        };
        let plain = |host: &str, port| Some((host.to_owned(), port, None));
        assert_eq!(parse("http://proxy.example:3128/"), plain("proxy.example", 3128));
        assert_eq!(parse("proxy.example:3128"), plain("proxy.example", 3128));
        assert_eq!(parse("http://10.0.0.1"), plain("10.0.0.1", 80));
        let login = Some("Basic dTpw".to_owned());
        assert_eq!(parse("http://u:p@proxy:1"), Some(("proxy".to_owned(), 1, login)));
        let login = format!("Basic {}", BASE64_STANDARD.encode("u:p@/%"));
        let expected = Some(("proxy".to_owned(), 1, Some(login)));
        assert_eq!(parse("http://u:p%40%2f%@proxy:1"), expected);
        for text in ["https://proxy", "socks5://proxy:1", "http://", "http://a:x"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn invalid_proxy_is_reported_where_it_is_needed() {
        let environment = Environment {
            programs: Programs::new("/", Vec::new()),
            docker: PathBuf::new(),
            git: Vec::new(),
            ssh: None,
            store: Vec::new(),
            proxy: Err("ALL_PROXY"),
            direct: vec!["b.example".to_owned()],
        };
        for host in ["b.example", "127.0.0.1"] {
            assert!(environment.proxy(&to(host, 443)).unwrap().is_none(), "{host}");
        }
        let error = environment.proxy(&to("a.example", 443)).unwrap_err();
        assert!(error.to_string().contains("$ALL_PROXY"), "{error}");
    }

    #[test]
    fn hosts_of_no_proxy_are_reached_directly() {
        for (entry, host, expected) in [
            ("*", "a.example", true),
            ("example", "a.example", true),
            (".a.example", "a.example", true),
            ("*.example", "a.example", true),
            ("a.example:443", "a.example", true),
            ("a.example:80", "a.example", false),
            ("xample", "a.example", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("", "a.example", false),
        ] {
            assert_eq!(is_direct(entry, &to(host, 443)), expected, "{entry} {host}");
        }
    }
}
