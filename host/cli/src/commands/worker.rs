//! `skillhost worker`: execute the runs of a fleet.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use skillhost::service::Capacity;
use skillhost_fleet::front::Front;
use skillhost_fleet::worker::{SessionListener, WorkerOptions, work};
use skillhost_fleet::{FleetSettings, broker::Brokers};
use skillhost_server::api::fleet::RunClass;

use super::fleet::{connect, no_broker};
use super::serve::{address, address_of, listen};
use crate::args::permissions::Permissions;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::server::traces::Traces;
use crate::server::{ServerArgs, log};
use crate::{event_loop, output};

/// Execute the runs of a fleet
///
/// A worker takes runs from the queues of its tenants, executes them under its policy as `skillhost
/// serve` does, and signs their results. If it ends, another worker takes its runs. At SIGTERM it takes
/// no more runs and waits for those in progress; what takes longer than --drain goes to other workers.
/// With --sessions it also hosts sessions of the run API, for which API servers forward requests.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost worker --nats tls://127.0.0.1:4222 --nats-identity fleet/worker-1
  skillhost worker --nats tls://a:4222,tls://b:4222 --nats-identity fleet/one --tenants t.yaml
  skillhost worker --nats tls://127.0.0.1:4222 --nats-identity fleet/large --class large-memory
  skillhost worker --nats tls://127.0.0.1:4222 --nats-identity fleet/one --sessions 127.0.0.1:8766")]
pub(crate) struct Args {
    /// Connect to these brokers, tls://HOST:PORT, with commas between several
    #[arg(long, value_name = "URL")]
    nats: String,
    /// The identity of this worker: a folder that `skillhost fleet init` has created
    #[arg(long, value_name = "FOLDER")]
    nats_identity: PathBuf,
    /// Read the tenants, their policies and their quotas from this file: the one of `skillhost serve`
    #[arg(long, value_name = "FILE")]
    tenants: Option<PathBuf>,
    /// Take only runs of this class: small, large-memory (above 1 GiB) or long (above 5 minutes)
    /// (repeatable) [default: all]
    #[arg(long, value_name = "CLASS", value_parser = class)]
    class: Vec<RunClass>,
    /// The maximum number of runs at once [default: the number of processors]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    slots: Option<u16>,
    /// Host sessions, and accept API servers of the fleet on this ADDRESS:PORT; port 0 chooses a free
    /// port [default: host none]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    sessions: Option<SocketAddr>,
    /// Tell API servers to connect to this host and port instead. It must reach this process and no
    /// other [default: the address of --sessions; if that is all addresses, the name of this machine]
    #[arg(long, value_name = "HOST:PORT", requires = "sessions", value_parser = host_and_port)]
    sessions_at: Option<String>,
    /// Wait for runs in progress for this time when the worker stops
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    drain: Duration,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    permissions: Permissions,
}

/// How long interrupted runs may take to be recorded.
const ENDING: Duration = Duration::from_secs(2);

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let context = Context::with_permissions(&args.permissions)?;
    let traces = args.server.log.start(log::secrets(&context.policy))?;
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let slots = args.slots.map_or(processors, usize::from);
    let capacity = Capacity { running: slots, running_per_skill: slots, ..Capacity::default() };
    let server = args.server.server_of(context, capacity)?;
    let event_loop = event_loop::many_threads()?;
    event_loop.block_on(async {
        let (stop, stop_now) = event_loop::interrupts()?;
        let brokers: Brokers = connect(&args.nats, &args.nats_identity).await?;
        let name = brokers.name().to_owned();
        let front = Arc::new(Front::new(brokers.clone(), FleetSettings::default()));
        let state = server.places.state.join("workers").join(&name);
        let api = server.fleet_api(state, args.tenants.clone(), None, front)?;
        api.start();
        let _watch = server.watch();
        let classes = match args.class.is_empty() {
            true => RunClass::ALL.to_vec(),
            false => args.class.clone(),
        };
        // What a worker stores for others counts as the settings of its tenants say.
        api.open_fleet().await.map_err(no_broker)?;
        let sessions = args.session_listener().await?;
        if let Some(sessions) = &sessions {
            output::text(&format!("sessions: {}", sessions.address))?;
        }
        output::text(&format!("worker {name}: {slots} at once"))?;
        let options = WorkerOptions { classes, slots, drain: args.drain };
        work(api.worker(), brokers, options, sessions, stop, stop_now).await.map_err(no_broker)
    })?;
    event_loop.shutdown_timeout(ENDING);
    server.mcp.close();
    server.service.runner().settle();
    traces.into_iter().for_each(Traces::end);
    Ok(Exit::Ok)
}

impl Args {
    /// Listens for API servers, if the worker takes sessions.
    async fn session_listener(&self) -> Result<Option<SessionListener>, CliError> {
        let Some(at) = self.sessions else { return Ok(None) };
        let listener = listen(at).await?;
        let own = address_of(&listener)?;
        let address = match &self.sessions_at {
            Some(address) => address.clone(),
            None if own.ip().is_unspecified() => {
                let machine = nix::sys::utsname::uname()
                    .map_err(|error| CliError::io("look up the name of this machine", error))?;
                format!("{}:{}", machine.nodename().to_string_lossy(), own.port())
            }
            None => own.to_string(),
        };
        Ok(Some(SessionListener { listener, address }))
    }
}

fn host_and_port(text: &str) -> Result<String, String> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    let parts = text.rsplit_once(':').filter(|(host, port)| {
        (1..=255).contains(&host.len())
            && host.bytes().all(valid)
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    parts.map(|_| text.to_owned()).ok_or_else(|| "expected HOST:PORT, such as worker-1:8766".into())
}

fn class(text: &str) -> Result<RunClass, String> {
    RunClass::of_name(text).ok_or_else(|| "expected small, large-memory or long".into())
}
