//! Sends spans to an OpenTelemetry collector, if the environment names one.

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

/// The collection of spans.
pub(crate) struct Traces(SdkTracerProvider);

/// How long to wait until the collector has the last spans.
const ENDING: Duration = Duration::from_secs(2);

impl Traces {
    /// Starts collecting, if the environment names a collector.
    ///
    /// # Errors
    /// Why no spans can be sent to it. The server serves all the same.
    pub(crate) fn from_environment() -> Result<Option<Traces>, String> {
        let Some(endpoint) = variable("ENDPOINT") else { return Ok(None) };
        if value("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || value("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none")
        {
            return Ok(None);
        }
        if let Some(protocol) = variable("PROTOCOL").filter(|protocol| protocol != "http/protobuf")
        {
            return Err(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL={protocol} is not supported; use http/protobuf"
            ));
        }
        let collector = Collector::new(&endpoint, variable("CERTIFICATE").as_deref(), timeout()?)?;
        // The exporter reads endpoint and headers from the environment, as OpenTelemetry specifies.
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

    /// The layer that collects the spans of this program, but not those of libraries, and no log
    /// lines.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
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

    /// Sends the last spans, and waits a bounded time for that.
    pub(crate) fn end(self) {
        if let Err(error) = self.0.shutdown_with_timeout(ENDING) {
            tracing::debug!(%error, "cannot send the last spans");
        }
    }
}

/// The values of the headers that the environment sets: they are secrets.
pub(crate) fn secrets() -> Vec<String> {
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

/// The value of a variable. An empty one counts as not set.
fn value(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let value = std::env::var(name);
    value.ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// How long sending a batch may take: 10 seconds, unless the environment says otherwise.
fn timeout() -> Result<Duration, String> {
    let Some(text) = variable("TIMEOUT") else { return Ok(Duration::from_secs(10)) };
    let ms = text.parse().map_err(|_| {
        format!("OTEL_EXPORTER_OTLP_TIMEOUT={text} is not a number of milliseconds")
    })?;
    Ok(Duration::from_millis(ms))
}

/// The resource of the spans: this program. Nothing about the machine is sent, unless
/// OTEL_RESOURCE_ATTRIBUTES has it.
fn resource() -> Resource {
    let named = Resource::builder().build();
    let is_named = named
        .get(&Key::new("service.name"))
        .is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    if is_named { resource.build() } else { resource.with_service_name("skillhost").build() }
}
