//! Spans of informers. All names are in this file.
//!
//! No field has content of an object or the text of an error. The name, the uid and the version of an
//! object are chosen by a server, so each is cut to one line of bounded length. A span that no
//! `tracing` subscriber enables is [`GuardedSpan::none`]: it costs one check of the level, and its fields
//! are not computed.

use tracing::{Span, field::Empty, info_span, level_filters::LevelFilter};

use crate::{Event, GuardedSpan, ObjectKey, Stored, message::one_line, watch::NextRequest};

/// A run of an informer, of the objects of some namespaces or of all.
pub(crate) fn informer(resource: &str, namespaces: Option<&[String]>) -> GuardedSpan {
    let namespace = || namespaces.map(|it| it.join(","));
    GuardedSpan::new(|| info_span!("informer", resource, namespace = namespace().as_deref()))
}

/// One request, until its response is processed. A root span: an informer runs as long as its
/// process, and a trace should not.
pub(crate) fn request(resource: &str, request: &NextRequest) -> GuardedSpan {
    match request {
        NextRequest::List { token, .. } => list(resource, token.is_some()),
        NextRequest::Version => list(resource, false),
        NextRequest::StreamedList => watch(resource, true, None),
        NextRequest::Watch { after } => watch(resource, false, Some(after)),
    }
}

fn list(resource: &str, continued: bool) -> GuardedSpan {
    GuardedSpan::new(|| {
        info_span!(
            parent: None,
            "informer-list",
            resource,
            verb = "list",
            continued,
            outcome = Empty,
        )
    })
}

fn watch(resource: &str, streamed_list: bool, resource_version: Option<&str>) -> GuardedSpan {
    GuardedSpan::new(|| {
        info_span!(
            parent: None,
            "informer-watch",
            resource,
            verb = "watch",
            streamed_list,
            resource_version,
            outcome = Empty,
        )
    })
}

/// Records the outcome of a request.
pub(crate) fn ended(request: &GuardedSpan, outcome: &str) {
    request.record("outcome", outcome);
}

/// The delivery of one event to all subscribers: the root of the event's trace.
pub(crate) fn event<K: Stored>(resource: &str, event: &Event<K>) -> GuardedSpan {
    let Some(object) = event.object().filter(|_| !is_unseen()) else {
        return GuardedSpan::none();
    };
    // Closures, because only an enabled span needs to read the object.
    let uid = || object.uid().map(one_line);
    let version = || object.resource_version().map(one_line);
    // A macro, because the name of a span is a constant.
    macro_rules! span {
        ($name:literal) => {
            info_span!(
                parent: None,
                $name,
                resource,
                object = %ObjectKey::of(&**object),
                uid = uid().as_deref(),
                resource_version = version().as_deref(),
                outcome = Empty,
            )
        };
    }
    GuardedSpan::new(|| match event {
        Event::Added(_) => span!("informer-event-add"),
        Event::Updated { .. } => span!("informer-event-update"),
        Event::Deleted { .. } => span!("informer-event-delete"),
        Event::Resynced(_) => span!("informer-event-resync"),
        Event::Synced => Span::none(),
    })
}

/// Whether no subscriber enables spans. `tracing` alone is not enough: if no subscriber is set and
/// its feature `log` is enabled, as kube does, it computes all fields and logs each poll.
#[doc(hidden)]
#[must_use]
pub fn is_unseen() -> bool {
    LevelFilter::current() < LevelFilter::INFO
}
