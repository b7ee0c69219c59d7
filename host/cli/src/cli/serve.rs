//! `skillhost serve`: skills for many agents, over HTTP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::RngExt as _;
use skillhost_policy::Approver;
use skillhost_server::http::{HttpOptions, serve};

use super::exit::Exit;
use super::log;
use super::mcp::{Served, runtime};
use super::permissions::Permissions;
use super::places::Places;
use super::run::interrupt;
use super::traces::Traces;
use super::{Failure, idle, show};

/// Serves skills to agents over the Model Context Protocol, by streamable HTTP
///
/// Clients connect to http://ADDRESS/mcp with the token that is printed at the start. /metrics is
/// for Prometheus, /healthz says whether the server lives. Only requests that name this machine as
/// their Host, and come from no web page elsewhere, are served. Where OTEL_EXPORTER_OTLP_ENDPOINT
/// names a collector of OpenTelemetry, calls are sent there as spans.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost serve
  skillhost serve --listen 127.0.0.1:9000 --token-file ~/.skillhost-token --workspace .:overlay
  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8765/metrics")]
pub(crate) struct Args {
    /// The address to listen at; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8765))]
    listen: SocketAddr,
    /// The file that holds the bearer token [default: a new one at each start]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Serve whoever asks, without a token; on loopback alone
    #[arg(long, conflicts_with = "token_file")]
    no_token: bool,
    /// A Host that requests may name beside those of loopback, as NAME or NAME:PORT (repeatable)
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// An Origin of web pages that may ask beside those of loopback (repeatable)
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Sessions at once
    #[arg(long, value_name = "NUMBER", default_value_t = HttpOptions::default().sessions)]
    sessions: usize,
    /// How long a session may be silent
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    idle: Duration,
    #[command(flatten)]
    served: Served,
    #[command(flatten)]
    permissions: Permissions,
}

/// How long what is interrupted may take to be recorded.
const ENDING: Duration = Duration::from_secs(2);
/// The shortest token of a file, in characters.
const SHORTEST: usize = 16;

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    let policy = args.permissions.policy(&places)?;
    if args.no_token && !args.listen.ip().is_loopback() {
        let message = format!(
            "{} is no address of loopback: whoever reaches it would run skills",
            args.listen
        );
        return Err(Failure::new(Exit::Usage, message)
            .fix("leave out --no-token, or --listen 127.0.0.1:8765"));
    }
    if args.no_token && policy.clients.http == Approver::Client {
        let message = "the policy lets HTTP clients approve their own runs, and without a token anyone is a client";
        return Err(Failure::new(Exit::Usage, message)
            .fix("leave out --no-token, or `clients: { http: { ask: operator } }` in the policy"));
    }
    let token = match &args.token_file {
        _ if args.no_token => None,
        Some(file) => Some(read_token(file)?),
        None => Some(format!(
            "{:032x}{:032x}",
            rand::rng().random::<u128>(),
            rand::rng().random::<u128>()
        )),
    };
    let traces =
        args.served.log.start(log::secrets(&policy).into_iter().chain(token.clone()).collect())?;
    let server = args.served.server(&places, policy)?;
    let options = HttpOptions {
        token: token.clone(),
        hosts: args.allow_host.clone(),
        origins: args.allow_origin.clone(),
        sessions: args.sessions,
        idle: args.idle,
        ..HttpOptions::default()
    };
    let runtime = runtime()?;
    runtime.block_on(async {
        let interrupt = interrupt()
            .map_err(|error| Failure::new(Exit::Io, format!("no signal handlers: {error}")))?;
        let listener = tokio::net::TcpListener::bind(args.listen).await;
        let listener = listener.map_err(|error| {
            Failure::new(Exit::Io, format!("{} cannot be listened at: {error}", args.listen))
        })?;
        let address = listener
            .local_addr()
            .map_err(|error| Failure::new(Exit::Io, format!("the address: {error}")))?;
        let _watch = server.watch();
        show::text(&format!("http://{address}/mcp"))?;
        if let Some(token) = token.filter(|_| args.token_file.is_none()) {
            show::text(&format!("token: {token}"))?;
        }
        idle::let_go();
        serve(server.mcp.clone(), listener, options, interrupt).await;
        Ok::<_, Failure>(())
    })?;
    // What still runs is interrupted, and recorded.
    runtime.shutdown_timeout(ENDING);
    server.mcp.close();
    server.service.runner().settle();
    traces.into_iter().for_each(Traces::end);
    Ok(Exit::Ok)
}

fn read_token(file: &Path) -> Result<String, Failure> {
    #[expect(clippy::disallowed_methods, reason = "the file is named by the operator")]
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(Exit::Usage, format!("the token {} cannot be read: {error}", file.display()))
    })?;
    let token = text.trim();
    if token.len() < SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!(
            "the token in {} is not {SHORTEST} or more visible ASCII characters",
            file.display()
        );
        return Err(Failure::new(Exit::Usage, message)
            .fix(format!("head -c 32 /dev/urandom | base64 > {}", file.display())));
    }
    Ok(token.to_owned())
}
