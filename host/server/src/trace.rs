//! Writes a span for each tool call, with the attributes of OpenTelemetry's conventions for MCP and
//! generative AI. If no collector is set, nothing is computed.
//!
//! No attribute contains arguments, results, error messages or paths, since spans may leave this
//! machine.

use std::str::FromStr as _;

use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::{RequestContext, RoleServer};
use tracing::field::Empty;
use tracing::{Span, debug_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::session::{Session, Transport};
use skillhost::invoke::LoadedSkill;
use skillhost_catalog::CatalogEntry;
use skillhost_policy::outcome::{Outcome, Status};

/// The most characters of text that a client chooses.
const LONGEST: usize = 128;
/// The longest `tracestate` to pass on, in bytes: as much as every party must support (W3C Trace
/// Context, 3.3.1.5).
const TRACE_STATE: usize = 512;

/// Creates the span of a call, as a child of the client's span if there is one.
pub(super) fn call(
    params: &CallToolRequestParams,
    session: &Session,
    context: &RequestContext<RoleServer>,
) -> Span {
    let span = debug_span!(
        "tools/call",
        otel.name = format!("tools/call {}", short(&params.name)),
        otel.kind = "server",
        otel.status_code = Empty,
        "error.type" = Empty,
        rpc.response.status_code = Empty,
        mcp.method.name = "tools/call",
        mcp.protocol.version = context.protocol_version().map(|version| version.to_string()),
        mcp.session.id = Some(session.id(context)).filter(|_| !session.is_alone(context)),
        jsonrpc.request.id = short(&context.id.to_string()),
        network.transport = if session.transport() == Transport::Http { "tcp" } else { "pipe" },
        network.protocol.name = Some("http").filter(|_| session.transport() == Transport::Http),
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = short(&params.name),
        "gen_ai.tool.type" = "function",
        skillhost.skill.name = Empty,
        skillhost.skill.digest = Empty,
        skillhost.status = Empty,
        skillhost.exit_code = Empty,
        skillhost.limit = Empty,
        skillhost.denials = Empty,
        skillhost.fuel = Empty,
        skillhost.epochs = Empty,
        skillhost.memory_peak = Empty,
        skillhost.processes = Empty,
    );
    if !span.is_disabled()
        && let Some(parent) = parent(context)
    {
        // Fails if nothing collects for OpenTelemetry, and then there is no parent to set.
        drop(span.set_parent(Context::new().with_remote_span_context(parent)));
    }
    span
}

/// Records the skill of a call.
pub(super) fn about(entry: &CatalogEntry) {
    Span::current().record("skillhost.skill.name", &*entry.name);
}

/// Records the skill that is about to run.
pub(super) fn loaded(loaded: &LoadedSkill) {
    if let Some(digest) = loaded.id().digest.as_deref() {
        Span::current().record("skillhost.skill.digest", digest);
    }
}

/// Records how a run ended, with its outcome if there is one.
pub(super) fn ran(status: &str, outcome: Option<&Outcome>) {
    let span = Span::current();
    span.record("skillhost.status", status);
    let Some(outcome) = outcome else { return };
    match &outcome.status {
        Status::Exited { code } => {
            span.record("skillhost.exit_code", i64::from(*code));
        }
        Status::LimitHit(hit) => {
            span.record("skillhost.limit", hit.limit.to_string());
        }
        _ => {}
    }
    let usage = &outcome.usage;
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    span.record("skillhost.denials", number(outcome.denials.len() as u64));
    span.record("skillhost.fuel", usage.fuel.map(number));
    span.record("skillhost.epochs", usage.epochs.map(number));
    span.record("skillhost.memory_peak", number(usage.memory_peak));
    span.record("skillhost.processes", number(usage.processes));
}

/// Records the answer of a call.
pub(super) fn answered(span: &Span, answer: &Result<CallToolResponse, ErrorData>) {
    match answer {
        Err(error) => {
            let code = error.code.0.to_string();
            span.record("error.type", &*code)
                .record("rpc.response.status_code", &*code)
                .record("otel.status_code", "ERROR");
        }
        Ok(CallToolResponse::Complete(result)) if result.is_error == Some(true) => {
            span.record("error.type", "tool_error").record("otel.status_code", "ERROR");
        }
        Ok(_) => {}
    }
}

/// Returns the parent span that a request names (W3C Trace Context), from its `_meta` or else from
/// its HTTP headers.
fn parent(context: &RequestContext<RoleServer>) -> Option<SpanContext> {
    let meta = |name: &str| context.meta.0.0.get(name).and_then(|value| value.as_str());
    let head = context.extensions.get::<http::request::Parts>().map(|parts| &parts.headers);
    let head = |name: &str| {
        head.and_then(|headers| headers.get(name)).and_then(|value| value.to_str().ok())
    };
    match meta("traceparent") {
        Some(text) => parse(text, meta("tracestate")),
        None => parse(head("traceparent")?, head("tracestate")),
    }
}

/// Parses `VERSION-TRACE-PARENT-FLAGS`; later versions may have more fields.
fn parse(text: &str, state: Option<&str>) -> Option<SpanContext> {
    let mut parts = text.trim().split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_whole = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
    if !is_whole || version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let state = state
        .filter(|state| state.len() <= TRACE_STATE)
        .and_then(|state| TraceState::from_str(state).ok());
    let parent = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        flags,
        true,
        state.unwrap_or_default(),
    );
    parent.is_valid().then_some(parent)
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn traceparent_is_parsed_as_specified() {
        let parent = parse(PARENT, Some("vendor=1")).unwrap();
        assert_eq!(parent.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(parent.span_id().to_string(), "b7ad6b7169203331");
        assert!(parent.is_sampled() && parent.is_remote());
        assert_eq!(parent.trace_state().get("vendor"), Some("1"));
        assert!(!parse(&PARENT.replace("-01", "-00"), None).unwrap().is_sampled());
        // A later version may add fields; version 00 may not.
        assert!(parse(&format!("cc{}-what", &PARENT[2..]), None).is_some());
        for wrong in [
            format!("{PARENT}-what"),
            format!("ff{}", &PARENT[2..]),
            PARENT.to_uppercase(),
            PARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            PARENT.replace("b7ad6b7169203331", &"0".repeat(16)),
            PARENT[..50].to_owned(),
            String::new(),
        ] {
            assert_eq!(parse(&wrong, None), None, "{wrong}");
        }
        // A long `tracestate` is dropped; the parent is not.
        let long = format!("vendor={}", "x".repeat(TRACE_STATE));
        assert_eq!(parse(PARENT, Some(&long)).unwrap().trace_state(), &TraceState::default());
    }

    proptest! {
        #[test]
        fn any_traceparent_is_parsed_or_ignored(text in ".*", state in ".*") {
            parse(&text, Some(&state));
        }
    }
}
