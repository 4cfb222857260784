//! Spans of informers. All names are in this file.
//!
//! No content of an object is in a field, and no text of an error. A span that no subscriber wants
//! is [`Span::none`]: it costs a look at a flag, and what its fields would be is not
//! worked out.

use tracing::{Span, field::Empty, info_span, level_filters::LevelFilter};

use crate::{Event, ObjectKey, Stored, watch::NextRequest};

/// The life of one informer.
pub(crate) fn informer(resource: &str) -> Span {
    info_span!("informer", kind = resource)
}

/// One request, from when it is sent until its answer has been used up. The root of a trace:
/// an informer lives for as long as its process, and no trace should.
pub(crate) fn request(resource: &str, request: &NextRequest) -> Span {
    match request {
        NextRequest::List { token, .. } => list(resource, token.is_some()),
        NextRequest::Version => list(resource, false),
        NextRequest::StreamedList => watch(resource, true, None),
        NextRequest::Watch { after } => watch(resource, false, Some(after)),
    }
}

fn list(resource: &str, continued: bool) -> Span {
    info_span!(
        parent: None,
        "informer-list",
        kind = resource,
        verb = "list",
        continued,
        outcome = Empty,
    )
}

fn watch(resource: &str, streamed_list: bool, resource_version: Option<&str>) -> Span {
    info_span!(
        parent: None,
        "informer-watch",
        kind = resource,
        verb = "watch",
        streamed_list,
        resource_version,
        outcome = Empty,
    )
}

/// Notes in the span of a request how it went.
pub(crate) fn ended(request: &Span, outcome: &str) {
    request.record("outcome", outcome);
}

/// One event being told to all subscribers: the root of the trace of whatever comes of it.
pub(crate) fn event<K: Stored>(resource: &str, event: &Event<K>) -> Span {
    let Some(object) = event.object().filter(|_| !is_unseen()) else {
        return Span::none();
    };
    // Called by a span that is enabled: to look into the object is what costs.
    let (uid, version) = (|| object.uid(), || object.resource_version());
    match event {
        Event::Added(_) => info_span!(
            parent: None,
            "informer-event-add",
            kind = resource,
            object = %ObjectKey::of(&**object),
            uid = uid(),
            resource_version = version(),
            outcome = Empty,
        ),
        Event::Updated { .. } => info_span!(
            parent: None,
            "informer-event-update",
            kind = resource,
            object = %ObjectKey::of(&**object),
            uid = uid(),
            resource_version = version(),
            outcome = Empty,
        ),
        Event::Deleted { .. } => info_span!(
            parent: None,
            "informer-event-delete",
            kind = resource,
            object = %ObjectKey::of(&**object),
            uid = uid(),
            resource_version = version(),
            outcome = Empty,
        ),
        Event::Resynced(_) => info_span!(
            parent: None,
            "informer-event-resync",
            kind = resource,
            object = %ObjectKey::of(&**object),
            uid = uid(),
            resource_version = version(),
            outcome = Empty,
        ),
        Event::Synced => Span::none(),
    }
}

/// Whether no subscriber wants spans. Not left to `tracing`: where no subscriber is set and its
/// feature `log` is, which kube sets, it works out all fields, and tells `log` of each poll.
fn is_unseen() -> bool {
    LevelFilter::current() < LevelFilter::INFO
}
