//! A `tracing` subscriber that searches log lines and spans for secrets.

use std::{
    fmt::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// A `tracing` subscriber that searches all log lines and spans of a thread, of every level, for
/// secrets.
#[derive(Clone)]
pub(crate) struct Secrets(Arc<Search>);

struct Search {
    secrets: Vec<String>,
    spans: AtomicU64,
    /// The place of the first secret that was found.
    found: Mutex<Option<String>>,
}

/// A visitor that searches the fields of one log line or span for secrets.
struct Fields<'a> {
    search: &'a Search,
    target: &'static str,
}

// === impl Secrets ===

impl Secrets {
    pub(crate) fn new(secrets: &[String]) -> Self {
        Self(Arc::new(Search {
            secrets: secrets.to_vec(),
            spans: AtomicU64::new(0),
            found: Mutex::default(),
        }))
    }

    /// The place of the first secret that was found, if any.
    pub(crate) fn found(&self) -> Option<String> {
        self.0.found.lock().clone()
    }

    fn fields(&self, metadata: &'static Metadata<'static>) -> Fields<'_> {
        Fields {
            search: &self.0,
            target: metadata.target(),
        }
    }
}

impl Subscriber for Secrets {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.fields(span.metadata()));
        // An id is not 0.
        Id::from_u64(self.0.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Fields {
            search: &self.0,
            target: "a span",
        });
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.fields(event.metadata()));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

// === impl Fields ===

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, text: &str) {
        // `Debug` escapes special characters of a text.
        let is_in = |secret: &String| {
            text.contains(secret.as_str()) || text.contains(&secret.escape_debug().to_string())
        };
        if self.search.secrets.iter().any(is_in) {
            let place = format!("the field {field} of {} contains a secret", self.target);
            self.search.found.lock().get_or_insert(place);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        _ = write!(text, "{value:?}");
        self.record_str(field, &text);
    }
}
