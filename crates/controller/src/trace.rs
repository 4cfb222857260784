//! Spans of controllers. All names are in this file.
//!
//! No field has content of an object or the text of an error. The name, the uid and the version of an
//! object are chosen by a server, so each is cut to one line of bounded length.

#[cfg(not(feature = "opentelemetry"))]
mod untraced;

use tracing::{field::Empty, info_span};
use windlass_informer::{GuardedSpan, ObjectIdentity, ObjectKey, is_unseen, one_line};

#[cfg(not(feature = "opentelemetry"))]
pub(crate) use self::untraced::TraceParent;
#[cfg(feature = "opentelemetry")]
pub(crate) use crate::tracer::TraceParent;
use crate::{Action, HandlerError, HandlerId, Outcome, Role, event::AnyEvent};

/// The dispatch of one event to all its handlers. Continues the trace of the informer's event.
pub(crate) fn event(
    controller: &str,
    kind: &str,
    key: &ObjectKey,
    action: Action,
    event: &AnyEvent,
    from: &TraceParent,
) -> GuardedSpan {
    if is_unseen() {
        return GuardedSpan::none();
    }
    let object = event.object();
    // Closures, because only an enabled span needs to read the object.
    let uid = || object.and_then(|object| ObjectIdentity::uid(&**object).map(one_line));
    let version = || object.and_then(|object| object.resource_version().map(one_line));
    // A macro, because the name of a span is a constant.
    macro_rules! span {
        ($name:literal) => {
            info_span!(
                $name,
                controller,
                kind,
                object = %key,
                uid = uid().as_deref(),
                resource_version = version().as_deref(),
            )
        };
    }
    let span = GuardedSpan::new(|| match action {
        Action::Created => span!("controller-event-add"),
        Action::Updated => span!("controller-event-update"),
        Action::Deleted => span!("controller-event-delete"),
        Action::Resynced => span!("controller-event-resync"),
    });
    from.set_as_parent_of(&span);
    span
}

/// A repeated call, a retry or a requeue.
pub(crate) fn retry(
    controller: &str,
    kind: &str,
    key: &ObjectKey,
    uid: Option<&str>,
    action: Action,
    attempt: u32,
) -> GuardedSpan {
    if is_unseen() {
        return GuardedSpan::none();
    }
    GuardedSpan::new(|| {
        info_span!(
            "controller-retry",
            controller,
            kind,
            object = %key,
            uid = uid.map(one_line).as_deref(),
            action = action.as_str(),
            attempt,
        )
    })
}

/// A call of one handler or mapper.
pub(crate) fn handler(role: Role, id: HandlerId, action: Action, attempt: u32) -> GuardedSpan {
    if is_unseen() {
        return GuardedSpan::none();
    }
    let action = action.as_str();
    // A macro, because the name of a span is a constant.
    macro_rules! span {
        ($name:literal) => {
            info_span!(
                $name,
                handler = %id,
                action,
                attempt,
                outcome = Empty,
                otel.status_code = Empty,
            )
        };
    }
    GuardedSpan::new(|| match role {
        Role::Watcher => span!("watcher"),
        Role::Reconciler => span!("reconciler"),
        Role::Mapper => span!("mapper"),
    })
}

/// Records the outcome of a call.
pub(crate) fn called(call: &GuardedSpan, result: Result<&Outcome, &HandlerError>) {
    if call.is_none() {
        return;
    }
    let outcome = match result {
        Ok(outcome) if outcome.delay().is_some() => "requeued",
        Ok(_) => "done",
        Err(error) => error.reason(),
    };
    call.record("outcome", outcome);
    if result.is_err() {
        // OpenTelemetry shows this as an error.
        call.record("otel.status_code", "ERROR");
    }
}

/// Records the outcome of a mapper.
pub(crate) fn mapped(call: &GuardedSpan, failed: Option<&HandlerError>) {
    call.record("outcome", failed.map_or("done", HandlerError::reason));
    if failed.is_some() {
        call.record("otel.status_code", "ERROR");
    }
}

/// Records in the span of an informer's event that the event was coalesced into another one.
pub(crate) fn coalesced(span: &GuardedSpan) {
    span.record("outcome", "coalesced");
}
