//! How long the host's spans were open, by their names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tracing::Subscriber;
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// In nanoseconds. Clones share what they count.
#[derive(Clone, Default)]
pub(crate) struct Spans(Arc<Mutex<BTreeMap<&'static str, u64>>>);

/// When a span began.
struct Start(Instant);

impl Spans {
    /// How long all spans of a name were open.
    pub(crate) fn all(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap().clone()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) =
            context.span(id).filter(|span| span.metadata().target().starts_with("skillhost"))
        {
            span.extensions_mut().insert(Start(Instant::now()));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        if let Some(Start(at)) = span.extensions().get() {
            *self.0.lock().unwrap().entry(span.metadata().name()).or_default() +=
                skillhost_bench::nanoseconds(*at);
        }
    }
}
