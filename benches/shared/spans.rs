//! Measures how long the host's spans are open, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tracing::Subscriber;
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// The times of spans, in nanoseconds. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Spans(Arc<Mutex<BTreeMap<&'static str, u64>>>);

/// The start of a span.
struct Start(Instant);

impl Spans {
    /// Returns how long all spans of each name were open.
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
