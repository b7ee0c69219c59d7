//! `skillhost mcp`: serve skills to one agent, on stdin and stdout.

use std::time::Duration;

use crate::args::permissions::Permissions;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::event_loop;
use crate::server::traces::Traces;
use crate::server::{ServerArgs, log};

/// Serve skills to an agent over the Model Context Protocol
///
/// The agent's client starts this command and communicates over stdin and stdout. The agent finds
/// skills with `discover_skills`, loads one with `activate_skill`, and runs its programs with
/// `run_skill` and its typed tools, under the policy and with an audit record, as `run` does.
/// Without --workspace, each session works in its own temporary folder. If
/// OTEL_EXPORTER_OTLP_ENDPOINT names an OpenTelemetry collector, the server sends calls there as
/// spans.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost mcp
  skillhost mcp --skills ./skills --workspace .:overlay
  skillhost mcp --policy policy.yaml --log info 2> mcp.log

As an entry of `mcpServers`:
  { \"skillhost\": { \"command\": \"skillhost\", \"args\": [\"mcp\"] } }")]
pub(crate) struct Args {
    /// Give the agent tools for sessions, in which it runs programs on the same files, with the
    /// permissions of skills that it has activated
    #[arg(long)]
    session_tools: bool,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    permissions: Permissions,
}

/// How long runs may take to end after the client is gone.
const ENDING: Duration = Duration::from_secs(5);

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let context = Context::with_permissions(&args.permissions)?;
    let traces = args.server.log.start(log::secrets(&context.policy))?;
    tracing::info!(
        "the client runs as this user, and can change the policy and the approvals: docs/guide/approvals.md#who-the-operator-is"
    );
    let server = args.server.server(context)?;
    let event_loop = event_loop::many_threads()?;
    let served = event_loop.block_on(async {
        let interrupt = event_loop::interrupt()?;
        let _watch = server.watch();
        let places = args.session_tools.then(|| server.agent_places()).transpose()?;
        let (input, output) = rmcp::transport::io::stdio_pipes();
        let served = tokio::select! {
            served = server.mcp.serve(input, output) => match served {
                Ok(()) => Ok(Exit::Ok),
                Err(error) => {
                    let message = format!("the client does not speak the protocol: {error}");
                    Err(CliError::usage(message))
                }
            },
            () = interrupt => Ok(Exit::Interrupted),
        };
        // The client is gone, so its runs are ended and recorded.
        if let Some(places) = &places
            && tokio::time::timeout(ENDING, places.close()).await.is_err()
        {
            tracing::warn!("interrupting the remaining programs of sessions");
        }
        if tokio::time::timeout(ENDING, server.service.close()).await.is_err() {
            tracing::warn!("interrupting the remaining runs");
        }
        served
    });
    // A thread may be blocked in a read of stdin.
    event_loop.shutdown_timeout(ENDING);
    server.mcp.close();
    server.service.runner().settle();
    traces.into_iter().for_each(Traces::end);
    served
}
