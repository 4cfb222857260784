//! `FinalizerHook`: the finalizer of a handler, as the controller uses it.

use std::fmt;

use windlass_informer::{Event, Uid};

use super::{FinalizerIdentity, FinalizerName};
use crate::Predicate;

/// The finalizer of a wrapper such as [`OpinionatedReconciler`](crate::OpinionatedReconciler), as
/// [`Reconciler::finalizer`](crate::Reconciler::finalizer) returns it.
///
/// The controller compares its name with those of other handlers, and shows the wrapper each event
/// before a call. So a handler around a wrapper returns the finalizer of the wrapper as its own. If it
/// does not, each call of the wrapper fails permanently before it writes a finalizer, and the error
/// says why.
///
/// # Example
///
/// ```
/// use windlass_controller::{FinalizerHook, Outcome, Predicate, Reconciler, Request};
///
/// /// Prints the key of each object before the call.
/// struct Printed<R>(R);
///
/// impl<K: Send + Sync + 'static, R: Reconciler<K>> Reconciler<K> for Printed<R> {
///     type Error = R::Error;
///
///     async fn reconcile(&self, request: Request<K>) -> Result<Outcome, R::Error> {
///         println!("{}", request.key());
///         self.0.reconcile(request).await
///     }
///
///     fn predicates(&self) -> Vec<&dyn Predicate<K>> {
///         self.0.predicates()
///     }
///
///     fn finalizer(&self) -> Option<FinalizerHook<'_, K>> {
///         self.0.finalizer()
///     }
/// }
/// ```
pub struct FinalizerHook<'a, K> {
    identity: &'a FinalizerIdentity,
    wrapper: &'a dyn OnEvent<K>,
}

/// Whether a wrapper with a finalizer is called for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// No: the inner handler has received what the event shows.
    No,
    /// Yes, if the predicates around the wrapper accept the event.
    Yes,
    /// Yes, whatever the predicates around the wrapper say: the object has to be cleaned up, or its
    /// finalizer has changed.
    Needed,
}

/// Receives each event before the calls for it.
pub(crate) trait OnEvent<K>: Send + Sync {
    /// Notes what the event shows, and returns whether the wrapper is called for it.
    fn on_event(&self, event: &Event<K>) -> Interest;

    /// Like `on_event`, for the repetition of a call that has not succeeded: no, also if the predicates
    /// of the inner handler reject the event.
    fn on_repetition(&self, event: &Event<K>) -> Interest;

    /// Whether the wrapper waits for events of the object with this uid.
    fn awaits(&self, uid: Option<&Uid>) -> bool;
}

/// Whether a handler with these `predicates` is called for `event`. `interest` is that of its wrapper, if
/// it has one.
pub(crate) fn is_called_for<K: 'static>(
    predicates: &[&dyn Predicate<K>],
    interest: Option<Interest>,
    event: &Event<K>,
) -> bool {
    match interest {
        Some(Interest::No) => false,
        Some(Interest::Yes) | None => predicates.iter().all(|it| it.passes(event)),
        Some(Interest::Needed) => true,
    }
}

// === impl FinalizerHook ===

impl<'a, K> FinalizerHook<'a, K> {
    pub(crate) const fn new(identity: &'a FinalizerIdentity, wrapper: &'a dyn OnEvent<K>) -> Self {
        Self { identity, wrapper }
    }

    /// The name of the finalizer.
    #[must_use]
    pub const fn name(&self) -> &'a FinalizerName {
        self.identity.name()
    }

    pub(crate) const fn identity(&self) -> &'a FinalizerIdentity {
        self.identity
    }

    /// Shows `event` to the wrapper. Returns whether it is called for it.
    ///
    /// The controller does this for each event of the kind, in the order of the events of an object.
    #[must_use]
    pub fn on_event(&self, event: &Event<K>) -> Interest {
        self.wrapper.on_event(event)
    }

    /// Like [`on_event`](Self::on_event), for the repetition of a call that has not succeeded.
    pub(crate) fn on_repetition(&self, event: &Event<K>) -> Interest {
        self.wrapper.on_repetition(event)
    }

    /// Whether the wrapper waits for events of the object with this uid.
    pub(crate) fn awaits(&self, uid: Option<&Uid>) -> bool {
        self.wrapper.awaits(uid)
    }
}

impl<K> fmt::Debug for FinalizerHook<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FinalizerHook").field(self.name()).finish()
    }
}
