//! Spans of controllers. All names are in this file.
//!
//! No content of an object is in a field, and no text of an error.

#[cfg(not(feature = "opentelemetry"))]
mod untraced;

use std::pin::Pin;

use tracing::{Instrument as _, Span, field::Empty, info_span, level_filters::LevelFilter};
use windlass_informer::{ObjectIdentity, ObjectKey};

#[cfg(not(feature = "opentelemetry"))]
pub(crate) use self::untraced::TraceParent;
#[cfg(feature = "opentelemetry")]
pub(crate) use crate::tracer::TraceParent;
use crate::{
    Action, HandlerError, HandlerId, Outcome,
    controller::PendingCall,
    event::AnyEvent,
    route::Role,
    schedule::{Pending, Reason, ScheduleItem as _},
    work::CallFailure,
};

/// One event being told to all its handlers: goes on in the trace in which the informer told
/// of it.
pub(crate) fn event(
    kind: &str,
    key: &ObjectKey,
    action: Action,
    event: &AnyEvent,
    from: &TraceParent,
) -> Span {
    if is_unseen() {
        return Span::none();
    }
    let object = event.object();
    // Called by a span that is enabled: to look into the object is what costs.
    let uid = || object.and_then(|object| ObjectIdentity::uid(&**object));
    let version = || object.and_then(|object| object.resource_version());
    let span = match action {
        Action::Created => info_span!(
            "controller-event-add",
            kind,
            object = %key,
            uid = uid(),
            resource_version = version(),
        ),
        Action::Updated => info_span!(
            "controller-event-update",
            kind,
            object = %key,
            uid = uid(),
            resource_version = version(),
        ),
        Action::Deleted => info_span!(
            "controller-event-delete",
            kind,
            object = %key,
            uid = uid(),
            resource_version = version(),
        ),
        Action::Resynced => info_span!(
            "controller-event-resync",
            kind,
            object = %key,
            uid = uid(),
            resource_version = version(),
        ),
    };
    from.set_as_parent_of(&span);
    span
}

/// One call being made again: of one that failed, in the trace of its event; of one that asked
/// for it, in a trace of its own.
pub(crate) fn retry(kind: &str, key: &ObjectKey, pending: &Pending<PendingCall>) -> Span {
    if is_unseen() {
        return Span::none();
    }
    let span = info_span!(
        "controller-retry",
        kind,
        object = %key,
        uid = pending.call.uid(),
        action = pending.action.as_str(),
        attempt = pending.call.attempt,
    );
    match pending.reason {
        Reason::Failed => pending.call.origin.set_as_parent_of(&span),
        Reason::Requeued => pending.call.origin.link_from(&span),
    }
    span
}

/// One handler or mapper being called.
pub(crate) fn handler(role: Role, id: HandlerId, action: Action, attempt: u32) -> Span {
    if is_unseen() {
        return Span::none();
    }
    let action = action.as_str();
    match role {
        Role::Watcher => info_span!(
            "watcher",
            handler = %id,
            action,
            attempt,
            outcome = Empty,
            otel.status_code = Empty,
        ),
        Role::Reconciler => info_span!(
            "reconciler",
            handler = %id,
            action,
            attempt,
            outcome = Empty,
            otel.status_code = Empty,
        ),
        Role::Mapper => info_span!(
            "mapper",
            handler = %id,
            action,
            attempt,
            outcome = Empty,
            otel.status_code = Empty,
        ),
    }
}

/// What comes of `future`, which runs in `span`. Where there is none it runs as it is: to enter
/// and to leave what is not there would cost as much as many a call.
pub(crate) async fn within<F: Future>(span: &Span, future: Pin<&mut F>) -> F::Output {
    if span.is_none() {
        future.await
    } else {
        future.instrument(span.clone()).await
    }
}

/// Notes in the span of a call how it went.
pub(crate) fn called(call: &Span, ended: &Result<Outcome, CallFailure>) {
    if call.is_none() {
        return;
    }
    let outcome = match ended {
        Ok(outcome) if outcome.delay().is_some() => "requeued",
        Ok(_) => "done",
        Err(failed) => failed.error.reason(),
    };
    call.record("outcome", outcome);
    if ended.is_err() {
        // What OpenTelemetry shows as an error.
        call.record("otel.status_code", "ERROR");
    }
}

/// Notes in the span of a mapper how it went.
pub(crate) fn mapped(call: &Span, failed: Option<&HandlerError>) {
    call.record("outcome", failed.map_or("done", HandlerError::reason));
    if failed.is_some() {
        call.record("otel.status_code", "ERROR");
    }
}

/// Notes in the span in which an informer told of an event that another one, which waits to be
/// told, stands for it.
pub(crate) fn folded(span: &Span) {
    span.record("outcome", "folded");
}

/// Whether no subscriber wants spans. Not left to `tracing`: where no subscriber is set and its
/// feature `log` is, which kube sets, it works out all fields, and tells `log` of each poll.
fn is_unseen() -> bool {
    LevelFilter::current() < LevelFilter::INFO
}
