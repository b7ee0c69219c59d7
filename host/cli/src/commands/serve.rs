//! `skillhost serve`: serve skills to many agents, over HTTP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use skillhost::service::Capacity;
use skillhost_fleet::FleetSettings;
use skillhost_fleet::front::Front;
use skillhost_policy::diagnostic::quoted;
use skillhost_policy::{Approver, Policy};
use skillhost_server::api::Api;
use skillhost_server::http::{HttpOptions, Listeners, Tls, TlsFiles, serve};
use skillhost_skill::private::{Purpose, TempFolder};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::fleet::{connect, no_broker};
use crate::args::permissions::Permissions;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::server::traces::Traces;
use crate::server::{Server, ServerArgs, log};
use crate::{event_loop, output};

/// Serve skills to agents over MCP, and runs to services over the run API
///
/// Clients connect to http://ADDRESS/mcp with the token that the server prints when it starts.
/// /v1 is the run API, with the same token or, with --tenants, with tokens of tenants.
/// /metrics serves Prometheus metrics, and /healthz reports whether the server is alive. Requests
/// are refused unless their Host is this machine and their Origin, if any, is local. If
/// OTEL_EXPORTER_OTLP_ENDPOINT names an OpenTelemetry collector, the server sends calls there as
/// spans.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost serve
  skillhost serve --listen 127.0.0.1:9000 --token-file ~/.skillhost-token --workspace .:overlay
  skillhost serve --tenants tenants.yaml
  skillhost serve --tls-cert server.pem --tls-key server.key --tls-client-ca clients.pem
  skillhost serve --sandboxd 8080
  skillhost serve --nats tls://127.0.0.1:4222 --nats-identity fleet/api
  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8765/metrics")]
pub(crate) struct Args {
    /// Listen on this address; port 0 chooses a free port
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value_t = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8765))]
    listen: SocketAddr,
    /// Read the bearer token from this file [default: a new token at each start]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Serve without a token; allowed on loopback addresses only
    #[arg(long, conflicts_with = "token_file")]
    no_token: bool,
    /// Read who may use the run API from this file (`skillhost schema tenants`). It is read again
    /// when it changes
    #[arg(long, value_name = "FILE")]
    tenants: Option<PathBuf>,
    /// Serve over TLS with the certificate in this file, in PEM, with its chain. It is read again when
    /// it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate of these authorities, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Also serve the sandboxd protocol of kubernetes-sigs/agent-sandbox, on this port of the same
    /// address: a sandbox is a session of the run API that has a token (`skillhost session token`).
    /// Port 0 chooses a free port
    #[arg(long, value_name = "PORT", conflicts_with = "nats")]
    sandboxd: Option<u16>,
    /// The maximum number of connections
    #[arg(long, value_name = "NUMBER", default_value_t = HttpOptions::default().connections)]
    connections: usize,
    /// Also accept requests with this Host, as NAME or NAME:PORT (repeatable)
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// Also accept requests from web pages with this Origin (repeatable)
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// The maximum number of concurrent sessions
    #[arg(long, value_name = "NUMBER", default_value_t = HttpOptions::default().sessions)]
    sessions: usize,
    /// End a session after this time without requests
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    idle: Duration,
    /// Let the workers of a fleet execute the runs: connect to these brokers, tls://HOST:PORT, with
    /// commas between several
    #[arg(long, value_name = "URL", requires = "nats_identity")]
    nats: Option<String>,
    /// The identity of this server: a folder that `skillhost fleet init` has created
    #[arg(long, value_name = "FOLDER", requires = "nats")]
    nats_identity: Option<PathBuf>,
    /// The number of brokers that store each run
    #[arg(long, value_name = "NUMBER", default_value_t = FleetSettings::default().replicas, requires = "nats")]
    nats_replicas: usize,
    /// Give a run to another worker if its worker is silent for this time
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration, requires = "nats")]
    nats_redeliver: Duration,
    /// Give a run up after this number of attempts
    #[arg(long, value_name = "NUMBER", default_value_t = FleetSettings::default().attempts, requires = "nats", value_parser = clap::value_parser!(u32).range(1..))]
    nats_attempts: u32,
    /// Give agents tools for sessions, in which they run programs on the same files, with the
    /// permissions of skills that they have activated
    #[arg(long)]
    session_tools: bool,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    permissions: Permissions,
}

/// How long interrupted runs may take to be recorded.
const ENDING: Duration = Duration::from_secs(2);
/// How long brokers may take to find a leader.
const BROKERS_START: Duration = Duration::from_secs(30);
/// The fewest characters of a token in a file.
const TOKEN_MIN: usize = 16;

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let context = Context::with_permissions(&args.permissions)?;
    let token = args.token(&context.policy)?;
    let secrets = log::secrets(&context.policy).into_iter().chain(token.clone()).collect();
    let traces = args.server.log.start(secrets)?;
    let mut server = args.server.server_of(context, args.capacity())?;
    server.sandboxd = args.sandboxd.is_some();
    let options = HttpOptions {
        token: token.clone(),
        hosts: args.allow_host.clone(),
        origins: args.allow_origin.clone(),
        sessions: args.sessions,
        idle: args.idle,
        connections: args.connections,
        tls: args.tls()?,
        ..HttpOptions::default()
    };
    let event_loop = event_loop::many_threads()?;
    let (api, cache) = args.api(&server, token.clone(), &event_loop)?;
    event_loop.block_on(async {
        let (stop, stop_now) = event_loop::interrupts()?;
        let main = listen(args.listen).await?;
        let sandboxd = match args.sandboxd {
            Some(port) => Some(listen(SocketAddr::new(args.listen.ip(), port)).await?),
            None => None,
        };
        let address = address_of(&main)?;
        let _watch = server.watch();
        let _places = args.session_tools.then(|| server.agent_places()).transpose()?;
        output::text(&format!("{}://{address}/mcp", args.scheme()))?;
        if let Some(token) = token.as_ref().filter(|_| args.token_file.is_none()) {
            output::text(&format!("token: {token}"))?;
        }
        if let Some(listener) = &sandboxd {
            output::text(&format!("sandboxd: {}://{}", args.scheme(), address_of(listener)?))?;
        }
        if output::is_watched() {
            args.explain(address, token.is_some());
        }
        let listeners = Listeners { main, sandboxd };
        serve(server.mcp.clone(), api, listeners, options, stop, stop_now).await;
        Ok::<_, CliError>(())
    })?;
    // Runs that have not ended are interrupted and recorded.
    event_loop.shutdown_timeout(ENDING);
    server.mcp.close();
    server.service.runner().settle();
    drop(cache);
    traces.into_iter().for_each(Traces::end);
    Ok(Exit::Ok)
}

impl Args {
    fn scheme(&self) -> &'static str {
        if self.tls_cert.is_some() { "https" } else { "http" }
    }

    fn capacity(&self) -> Capacity {
        let capacity = Capacity::default();
        match self.tenants {
            // Quotas bound each tenant. A skill's share would let one keep others from a skill.
            Some(_) => Capacity {
                running_per_skill: capacity.running,
                waiting_per_skill: capacity.waiting,
                ..capacity
            },
            None => capacity,
        }
    }

    fn tls(&self) -> Result<Option<Arc<Tls>>, CliError> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let files = TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_authorities: self.tls_client_ca.clone(),
        };
        let tls = Tls::new(files).map_err(|error| CliError::usage(format!("TLS: {error}")))?;
        Ok(Some(Arc::new(tls)))
    }

    /// Opens the run API. With a fleet, what it has on this disk is a cache, which the second value
    /// removes.
    fn api(
        &self,
        server: &Server,
        token: Option<String>,
        event_loop: &Runtime,
    ) -> Result<(Option<Api>, Option<TempFolder>), CliError> {
        let (Some(urls), Some(identity)) = (&self.nats, &self.nats_identity) else {
            return Ok((server.api(self.tenants.clone(), token)?, None));
        };
        let settings = FleetSettings {
            replicas: self.nats_replicas,
            redeliver_after: self.nats_redeliver,
            attempts: self.nats_attempts,
        };
        let cache = TempFolder::new_in(&server.places.scratch, Purpose::Session)
            .map_err(|error| CliError::io("create the cache of the server", error))?;
        let front = event_loop.block_on(async {
            let front = Front::new(connect(urls, identity).await?, settings);
            front.watch_identity();
            Ok::<_, CliError>(Arc::new(front))
        })?;
        let state = cache.path().to_owned();
        let api = server.fleet_api(state, self.tenants.clone(), token, front)?;
        event_loop.block_on(async {
            let started = Instant::now();
            // Brokers that have just started have no leader yet.
            while let Err(error) = api.open_fleet().await {
                if started.elapsed() > BROKERS_START {
                    return Err(no_broker(error));
                }
                tracing::warn!(%error, "the brokers are not ready");
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Ok(())
        })?;
        Ok((Some(api), Some(cache)))
    }

    /// Says on the terminal how to connect a client, how runs are approved, and how to stop.
    fn explain(&self, address: SocketAddr, has_token: bool) {
        let header = match (has_token, &self.token_file) {
            (false, _) => String::new(),
            (true, Some(file)) => {
                format!(" --header \"Authorization: Bearer $(cat {})\"", file.display())
            }
            (true, None) => " --header \"Authorization: Bearer TOKEN\"".to_owned(),
        };
        output::note(&format!(
            "connect, for example: claude mcp add --transport http skillhost {}://{address}/mcp{header}",
            self.scheme()
        ));
        output::note(
            "skills from --skills need an approval for each run (`skillhost pending`); a folder listed in `skill-folders` of the policy is trusted",
        );
        output::note("press Ctrl-C to stop; press it again to interrupt runs");
    }

    /// The bearer token that clients need. `None` if they need none, which is refused where anyone
    /// could use it.
    fn token(&self, policy: &Policy) -> Result<Option<String>, CliError> {
        if !self.no_token {
            return Ok(Some(match &self.token_file {
                Some(file) => read_token(file)?,
                None => {
                    let mut random = rand::rng();
                    format!("{:032x}{:032x}", random.random::<u128>(), random.random::<u128>())
                }
            }));
        }
        if !self.listen.ip().is_loopback() {
            let message = "--no-token is allowed on loopback addresses only";
            return Err(CliError::usage(message)
                .fix("leave out --no-token, or use --listen 127.0.0.1:8765"));
        }
        if policy.clients.http == Approver::Client {
            let message =
                "--no-token is not allowed while the policy lets HTTP clients approve their runs";
            return Err(CliError::usage(message).fix(
                "leave out --no-token, or set `clients: { http: { ask: operator } }` in the policy",
            ));
        }
        Ok(None)
    }
}

pub(super) async fn listen(at: SocketAddr) -> Result<TcpListener, CliError> {
    TcpListener::bind(at).await.map_err(|error| {
        let error = match error.kind() {
            io::ErrorKind::AddrInUse => "address in use".to_owned(),
            _ => error.to_string(),
        };
        CliError::io(format_args!("listen on {at}"), error)
            .fix("choose another port, or a free one: `--listen 127.0.0.1:0`")
    })
}

pub(super) fn address_of(listener: &TcpListener) -> Result<SocketAddr, CliError> {
    listener.local_addr().map_err(|error| CliError::io("look up the own address", error))
}

/// Parses an address. `localhost` means 127.0.0.1.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| "expected an IP address and a port, such as 127.0.0.1:8765".into())
}

fn read_token(file: &Path) -> Result<String, CliError> {
    #[expect(clippy::disallowed_methods, reason = "the file is named by the operator")]
    let text = std::fs::read_to_string(file).map_err(|error| {
        CliError::usage(format!("cannot read the token {}: {error}", file.display()))
    })?;
    let token = text.trim();
    if token.len() < TOKEN_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!(
            "the token in {} must have at least {TOKEN_MIN} visible ASCII characters",
            file.display()
        );
        return Err(CliError::usage(message).fix(format!(
            "head -c 32 /dev/urandom | base64 > {}",
            quoted(&file.to_string_lossy())
        )));
    }
    Ok(token.to_owned())
}
