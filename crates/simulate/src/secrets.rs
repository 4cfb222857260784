//! A `tracing` subscriber that searches log lines and spans for secrets.

use std::{
    fmt::{self, Write as _},
    sync::Arc,
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
    /// The descriptions of all spans, by their ids.
    spans: Mutex<Vec<&'static Metadata<'static>>>,
    /// The place of the first secret that was found.
    found: Mutex<Option<String>>,
}

/// A visitor that searches the fields of one log line or span for secrets.
struct Fields<'a> {
    search: &'a Search,
    /// The names of the fields with a secret.
    found: Vec<&'static str>,
    /// The message of the log line, without secrets.
    message: Option<String>,
}

// === impl Secrets ===

impl Secrets {
    pub(crate) fn new(secrets: &[String]) -> Self {
        Self(Arc::new(Search {
            secrets: secrets.to_vec(),
            spans: Mutex::default(),
            found: Mutex::default(),
        }))
    }

    /// The place of the first secret that was found, if any.
    pub(crate) fn found(&self) -> Option<String> {
        self.0.found.lock().clone()
    }

    /// Searches what `record` passes to a visitor. `what` is the log line or the span.
    fn search(
        &self,
        what: &str,
        metadata: Option<&'static Metadata<'static>>,
        record: impl FnOnce(&mut Fields<'_>),
    ) {
        let mut fields = Fields {
            search: &self.0,
            found: Vec::new(),
            message: None,
        };
        record(&mut fields);
        let Some(field) = fields.found.first() else {
            return;
        };
        let mut place = match (*field, &fields.message) {
            ("message", Some(message)) => format!("the message {message:?} of {what}"),
            (field, Some(message)) => {
                format!("the field {field:?} of {what} with the message {message:?}")
            }
            (field, None) => format!("the field {field:?} of {what}"),
        };
        if let Some(metadata) = metadata {
            _ = write!(place, " of {}", metadata.target());
            if let (Some(file), Some(line)) = (metadata.file(), metadata.line()) {
                _ = write!(place, " ({file}:{line})");
            }
        }
        let place = format!("{place} contains a secret");
        self.0.found.lock().get_or_insert(place);
    }
}

impl Subscriber for Secrets {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let metadata = span.metadata();
        let what = format!("the span {:?}", metadata.name());
        self.search(&what, Some(metadata), |fields| span.record(fields));
        let mut spans = self.0.spans.lock();
        spans.push(metadata);
        // An id is not 0.
        Id::from_u64(u64::try_from(spans.len()).unwrap_or(u64::MAX))
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let index = usize::try_from(id.into_u64())
            .ok()
            .and_then(|id| id.checked_sub(1));
        let metadata = index.and_then(|index| self.0.spans.lock().get(index).copied());
        let name = metadata.map_or("of unknown name", |it| it.name());
        let what = format!("the span {name:?}");
        self.search(&what, metadata, |fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.search("a log line", Some(event.metadata()), |fields| {
            event.record(fields);
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

// === impl Fields ===

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, text: &str) {
        let mut shown = text.to_owned();
        for secret in &self.search.secrets {
            // `Debug` escapes special characters of a text.
            for form in [secret.clone(), secret.escape_debug().to_string()] {
                if shown.contains(&form) {
                    self.found.push(field.name());
                    shown = shown.replace(&form, "<secret>");
                }
            }
        }
        if field.name() == "message" {
            self.message = Some(shown);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        _ = write!(text, "{value:?}");
        self.record_str(field, &text);
    }
}
