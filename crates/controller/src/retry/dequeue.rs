//! Dequeue policies: whether a new event drops a pending call of its object.

use std::{fmt, sync::Arc};

use windlass_informer::ObjectKey;

use crate::{Action, ErasedObject, HandlerError, HandlerId};

/// Says of each pending call whether a new event makes it needless.
///
/// Every `Fn(&NewEvent<'_>, &PendingRetry<'_>) -> bool` is one.
///
/// # Contract
///
/// *Guaranteed.*
/// - It is asked before a new event is dispatched, outside of any lock, once for each pending call
///   of the same uid: a failed call, or one that the handler asked for. It is not asked about a
///   pending delete, and not at a delete, which cancels all other calls of its uid.
/// - A call of a handler whose [`Predicate`](crate::Predicate) does not let the event pass is kept,
///   and the policy is not asked.
/// - A call that is kept is made at its time, at most one for each handler and action. It has the
///   newest object, also if the call for the event had that already, and the attempt and state of
///   its own request. The call for the event has the count of failures, and no state.
/// - A policy that panics is taken to have said yes, as the default does.
///
/// *Required.* It answers at once.
pub trait RetryDequeuePolicy: Send + Sync + 'static {
    /// Whether `pending` is to be dropped, now that `arrival` is there.
    fn dequeue(&self, arrival: &NewEvent<'_>, pending: &PendingRetry<'_>) -> bool;
}

/// What happened, and to which object.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct NewEvent<'a> {
    /// The name of the kind.
    pub kind: &'a str,
    /// The object's namespace and name.
    pub key: &'a ObjectKey,
    /// What happened.
    pub action: Action,
    /// The object, in its newest state.
    pub object: &'a Arc<dyn ErasedObject>,
}

/// A call that is to be made again.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct PendingRetry<'a> {
    /// The handler to call.
    pub handler: HandlerId,
    /// What the call is for.
    pub action: Action,
    /// The object with which it was called.
    pub object: &'a Arc<dyn ErasedObject>,
    /// Why it failed; none if it went well and asked to be made again.
    pub error: Option<&'a HandlerError>,
    /// How many calls of this request have failed so far.
    pub attempt: u32,
}

/// Drops every pending call: whatever comes of the new event replaces it. The default.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysDequeue;

/// Keeps every pending call.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverDequeue;

/// What suits handlers that look at nothing but the spec.
///
/// 1. A delete drops the pending call.
/// 2. Another action keeps it: an update does not tell what a create that failed was to tell.
/// 3. The same generation keeps it: the new event is no news for the handler.
/// 4. Anything else drops it.
///
/// Source: grafana-app-sdk, `operator.OpinionatedRetryDequeuePolicy`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpinionatedRetryDequeuePolicy;

// === impl RetryDequeuePolicy ===

impl<F> RetryDequeuePolicy for F
where
    F: Fn(&NewEvent<'_>, &PendingRetry<'_>) -> bool + Send + Sync + 'static,
{
    fn dequeue(&self, arrival: &NewEvent<'_>, pending: &PendingRetry<'_>) -> bool {
        self(arrival, pending)
    }
}

impl RetryDequeuePolicy for AlwaysDequeue {
    fn dequeue(&self, _: &NewEvent<'_>, _: &PendingRetry<'_>) -> bool {
        true
    }
}

impl RetryDequeuePolicy for NeverDequeue {
    fn dequeue(&self, _: &NewEvent<'_>, _: &PendingRetry<'_>) -> bool {
        false
    }
}

impl RetryDequeuePolicy for OpinionatedRetryDequeuePolicy {
    fn dequeue(&self, arrival: &NewEvent<'_>, pending: &PendingRetry<'_>) -> bool {
        if arrival.action == Action::Deleted {
            return true;
        }
        arrival.action == pending.action
            && arrival.object.generation() != pending.object.generation()
    }
}

// === impl NewEvent ===

impl fmt::Debug for NewEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.action.as_str(), self.kind, self.key)
    }
}

// === impl PendingRetry ===

impl fmt::Debug for PendingRetry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRetry")
            .field("handler", &self.handler)
            .field("action", &self.action)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;

    use super::*;

    /// Rows: GA-07, GA-08, GA-09, GA-10
    #[test]
    fn the_opinionated_policy_has_four_rules() {
        for (new, pending, dropped) in [
            // A delete drops whatever is pending.
            ("delete 2", "create 1", true),
            ("delete 1", "update 1", true),
            ("delete 1", "delete 1", true),
            // Another action keeps it.
            ("update 2", "create 1", false),
            ("create 2", "update 1", false),
            ("resync 2", "update 1", false),
            // The same generation keeps it.
            ("update 1", "update 1", false),
            ("create 1", "create 1", false),
            // Anything else drops it.
            ("update 2", "update 1", true),
            ("create 2", "create 1", true),
        ] {
            let said = ask(&OpinionatedRetryDequeuePolicy, new, pending);
            assert_eq!(said, dropped, "{new} while {pending} is pending");
        }
    }

    #[test]
    fn always_and_never_mean_it() {
        assert!(ask(&AlwaysDequeue, "update 1", "update 1"));
        assert!(!ask(&NeverDequeue, "delete 2", "update 1"));
    }

    /// What `policy` says when `new` (an action and a generation) finds `pending`.
    fn ask(policy: &impl RetryDequeuePolicy, new: &str, pending: &str) -> bool {
        let (action, object) = parse(new);
        let (pending_action, pending_object) = parse(pending);
        policy.dequeue(
            &NewEvent {
                kind: "deployments",
                key: &ObjectKey::new("web"),
                action,
                object: &object,
            },
            &PendingRetry {
                handler: HandlerId(0),
                action: pending_action,
                object: &pending_object,
                error: None,
                attempt: 0,
            },
        )
    }

    fn parse(text: &str) -> (Action, Arc<dyn ErasedObject>) {
        let (action, generation) = text.split_once(' ').expect("an action and a generation");
        let action = match action {
            "create" => Action::Created,
            "update" => Action::Updated,
            "delete" => Action::Deleted,
            _ => Action::Resynced,
        };
        let mut object = Deployment::default();
        object.metadata.generation = generation.parse().ok();
        (action, Arc::new(object))
    }
}
