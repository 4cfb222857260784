//! Dequeue policies: whether a new event drops a pending call of its object.

use std::{fmt, sync::Arc};

use windlass_informer::ObjectKey;

use crate::{Action, ErasedObject, HandlerError, HandlerId};

/// Decides for each pending call whether a new event drops it.
///
/// Every `Fn(&NewEvent<'_>, &PendingCall<'_>) -> bool` is a dequeue policy. Without one, a new
/// event drops each pending call: the call for the event replaces it.
///
/// # Contract
///
/// *Guaranteed.*
/// - It is called before a new event is dispatched, without a lock, once for each pending call of
///   the same uid: a failed call or a requeue. It is not called for a pending delete, and not for a
///   new delete, which cancels all other calls of its uid.
/// - A failed call whose backoff runs stays pending if the event has the same generation, whatever
///   the policy returns, and gets the newest object. (With [`RetryObject::AsReceived`](crate::RetryObject)
///   the policy decides: if it drops the call, a call for the event replaces it at the same time; if not,
///   the event is dispatched at once.) Otherwise a handler that writes a status and
///   then fails would be retried without backoff. A resync that a mapper requested causes an early call:
///   its failure changes neither the time of the retry nor the attempt.
/// - A call of a handler whose [`Predicate`](crate::Predicate) rejects the event is kept without
///   calling the policy.
/// - A kept call is made when it is due, in addition to the call for the new event: at most one for
///   each handler and action. It gets the newest object, even if the call for the event had that
///   object already, and keeps its own attempt number and state. The call for the event continues the
///   attempt number, and gets no state.
/// - If the policy panics, the pending call is dropped, as by default.
///
/// *Required.* It returns immediately.
pub trait RetryDequeuePolicy: Send + Sync + 'static {
    /// Whether to drop `pending` for `new_event`.
    fn dequeue(&self, new_event: &NewEvent<'_>, pending: &PendingCall<'_>) -> bool;
}

/// A new event of an object with pending calls.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct NewEvent<'a> {
    /// The name of the kind.
    pub kind: &'a str,
    /// The object's namespace and name.
    pub key: &'a ObjectKey,
    /// The action.
    pub action: Action,
    /// The object in its newest state.
    pub object: &'a Arc<dyn ErasedObject>,
}

/// A pending call.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct PendingCall<'a> {
    /// The handler to call.
    pub handler: HandlerId,
    /// The action of the call.
    pub action: Action,
    /// The object of the last call.
    pub object: &'a Arc<dyn ErasedObject>,
    /// The error of the last call. `None` for a requeue.
    pub error: Option<&'a HandlerError>,
    /// The number of failed calls of this request.
    pub attempt: u32,
}

/// Keeps every pending call that it is called for.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverDequeue;

/// The policy of grafana-app-sdk, for handlers that only use the spec.
///
/// The first rule that applies decides:
///
/// 1. A delete drops the pending call.
/// 2. Another action keeps it: a call for an update does not replace a failed create.
/// 3. The same generation keeps it: the handler does not need the new event.
/// 4. Anything else drops it.
///
/// Source: grafana-app-sdk, `operator.OpinionatedRetryDequeuePolicy`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpinionatedRetryDequeuePolicy;

// === impl RetryDequeuePolicy ===

impl<F> RetryDequeuePolicy for F
where
    F: Fn(&NewEvent<'_>, &PendingCall<'_>) -> bool + Send + Sync + 'static,
{
    fn dequeue(&self, new_event: &NewEvent<'_>, pending: &PendingCall<'_>) -> bool {
        self(new_event, pending)
    }
}

impl RetryDequeuePolicy for NeverDequeue {
    fn dequeue(&self, _: &NewEvent<'_>, _: &PendingCall<'_>) -> bool {
        false
    }
}

impl RetryDequeuePolicy for OpinionatedRetryDequeuePolicy {
    fn dequeue(&self, new_event: &NewEvent<'_>, pending: &PendingCall<'_>) -> bool {
        if new_event.action == Action::Deleted {
            return true;
        }
        new_event.action == pending.action
            && new_event.object.generation() != pending.object.generation()
    }
}

// === impl NewEvent ===

impl fmt::Debug for NewEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.action.as_str(), self.kind, self.key)
    }
}

// === impl PendingCall ===

impl fmt::Debug for PendingCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall")
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
            let result = ask(&OpinionatedRetryDequeuePolicy, new, pending);
            assert_eq!(result, dropped, "{new} while {pending} is pending");
        }
    }

    #[test]
    fn the_never_policy_keeps() {
        assert!(!ask(&NeverDequeue, "delete 2", "update 1"));
    }

    /// The decision of `policy` about `pending` when the event `new` (an action and a generation)
    /// arrives.
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
            &PendingCall {
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
