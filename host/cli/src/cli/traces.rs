//! What servers do as spans, to a collector of OpenTelemetry: where the environment names one, else
//! nothing.

mod collector;

use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use collector::Collector;

/// What is collected, until it ends.
pub(super) struct Traces(SdkTracerProvider);

/// How long the end waits for the last spans to be taken.
const ENDING: Duration = Duration::from_secs(2);

impl Traces {
    /// Starts, if the environment names a collector.
    ///
    /// # Errors
    /// It does, and spans cannot be sent there: why. That keeps no server from serving.
    pub(super) fn of_environment() -> Result<Option<Traces>, String> {
        let Some(endpoint) = variable("ENDPOINT") else { return Ok(None) };
        if value("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || value("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none")
        {
            return Ok(None);
        }
        if let Some(protocol) = variable("PROTOCOL").filter(|protocol| protocol != "http/protobuf")
        {
            return Err(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL={protocol}: spans are sent by http/protobuf alone"
            ));
        }
        let collector = Collector::new(&endpoint, variable("CERTIFICATE").as_deref(), timeout()?)?;
        // It reads the endpoint and the headers from the environment itself, as the standard says.
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Some(Traces(
            SdkTracerProvider::builder()
                .with_batch_exporter(exporter)
                .with_resource(resource())
                .build(),
        )))
    }

    /// What makes them of the spans of this program: of nobody else's, and of no line of the log.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        let spans: OpenTelemetryLayer<S, SdkTracer> = tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("skillhost"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false);
        let own =
            filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("skillhost"));
        spans.with_filter(own.with_max_level_hint(LevelFilter::DEBUG))
    }

    /// Sends what is left, and waits for that a bounded time.
    pub(super) fn end(self) {
        if let Err(error) = self.0.shutdown_with_timeout(ENDING) {
            tracing::debug!(%error, "the last spans are lost");
        }
    }
}

/// The values of the headers that the environment names, which are secrets.
pub(super) fn secrets() -> Vec<String> {
    let headers = variable("HEADERS").unwrap_or_default();
    headers
        .split(',')
        .filter_map(|header| header.split_once('='))
        .map(|(_, value)| value.trim().to_owned())
        .collect()
}

/// `OTEL_EXPORTER_OTLP_TRACES_*`, else `OTEL_EXPORTER_OTLP_*`.
fn variable(name: &str) -> Option<String> {
    ["OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"]
        .iter()
        .find_map(|start| value(&format!("{start}{name}")))
}

/// A variable that is empty is as if it were not set.
fn value(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let value = std::env::var(name);
    value.ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// How long a batch may take: 10 seconds, unless the environment says otherwise.
fn timeout() -> Result<Duration, String> {
    let Some(text) = variable("TIMEOUT") else { return Ok(Duration::from_secs(10)) };
    let ms = text.parse().map_err(|_| {
        format!("OTEL_EXPORTER_OTLP_TIMEOUT={text}: it is a number of milliseconds")
    })?;
    Ok(Duration::from_millis(ms))
}

/// What the spans are of: this program. Nothing is told of the machine, unless the environment does
/// in OTEL_RESOURCE_ATTRIBUTES.
fn resource() -> Resource {
    let named = Resource::builder().build();
    let is_named = named
        .get(&Key::new("service.name"))
        .is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    if is_named { resource.build() } else { resource.with_service_name("skillhost").build() }
}
