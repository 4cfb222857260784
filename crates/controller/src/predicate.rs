//! Predicates: which events a handler receives.

use windlass_informer::Event;

mod changed;
mod filtered;

pub use self::{
    changed::{AnnotationsChanged, GenerationChanged, LabelsChanged, ResourceVersionChanged},
    filtered::Filtered,
};

/// Decides which events a handler or mapper receives.
///
/// Every `Fn(&Event<K>) -> bool` is a predicate. It is added with `filter` to a
/// [`Reconciler`](crate::Reconciler::filter), a [`Watcher`](crate::Watcher::filter), or a
/// [`Mapper`](crate::Mapper::filter).
///
/// # Contract
///
/// *Guaranteed.* A predicate is called when an event is about to be dispatched, without a lock,
/// with the old and the new object of an update. Of coalesced updates
/// ([`Coalescing`](crate::Coalescing)) these are the oldest and the newest state. A rejected event
/// does not affect the pending calls and dead letters of the handler, except that pending calls get
/// the newest object, and a `Deleted` cancels them. Other handlers are called. If a resync was
/// coalesced into a rejected update, the predicate is called again, with the resync. If a predicate
/// panics, the event passes, and the panic is logged.
///
/// A predicate around a wrapper with a finalizer does not reject events that the finalizer needs
/// ([`Filtered`]).
///
/// *Required.* It only uses the event, and returns immediately.
///
/// *Not guaranteed.* Calls for retries and requeues: their events have passed before.
///
/// # Example
///
/// ```
/// use std::{convert::Infallible, sync::Arc};
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::{
///     GenerationChanged, InformerController, LabelsChanged, Outcome, Predicate, Reconciler, Request,
/// };
/// use windlass_informer::Event;
///
/// let publish = |request: Request<ConfigMap>| async move {
///     println!("{}", request.key());
///     Ok::<_, Infallible>(Outcome::done())
/// };
/// let controller = InformerController::new();
/// let configs = controller.kind::<ConfigMap>("configs")?;
/// controller.add_reconciler(&configs, publish.filter(GenerationChanged.or(LabelsChanged)))?;
///
/// let published = |event: &Event<ConfigMap>| {
///     event.object().is_some_and(|object| object.data.is_some())
/// };
/// assert!(!published.passes(&Event::Added(Arc::default())));
/// controller.add_reconciler(&configs, publish.filter(published))?;
/// # Ok::<(), windlass_controller::AddError>(())
/// ```
pub trait Predicate<K>: Send + Sync + 'static {
    /// Whether `event` passes.
    fn passes(&self, event: &Event<K>) -> bool;

    /// Passes events that pass both `self` and `other`.
    #[must_use]
    fn and<P: Predicate<K>>(self, other: P) -> impl Predicate<K>
    where
        K: 'static,
        Self: Sized,
    {
        move |event: &Event<K>| self.passes(event) && other.passes(event)
    }

    /// Passes events that pass `self` or `other`.
    #[must_use]
    fn or<P: Predicate<K>>(self, other: P) -> impl Predicate<K>
    where
        K: 'static,
        Self: Sized,
    {
        move |event: &Event<K>| self.passes(event) || other.passes(event)
    }

    /// Passes events that do not pass `self`. Predicates about updates, like `GenerationChanged`,
    /// pass all other events, so their negation passes only updates.
    #[must_use]
    fn not(self) -> impl Predicate<K>
    where
        K: 'static,
        Self: Sized,
    {
        move |event: &Event<K>| !self.passes(event)
    }
}

// === impl Predicate ===

impl<K, F> Predicate<K> for F
where
    F: Fn(&Event<K>) -> bool + Send + Sync + 'static,
{
    fn passes(&self, event: &Event<K>) -> bool {
        self(event)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn predicates_are_combined_by_and_or_and_not() {
        let yes = |_: &Event<u8>| true;
        let no = |_: &Event<u8>| false;
        for (result, passes) in [
            (ask(&yes.and(yes)), true),
            (ask(&yes.and(no)), false),
            (ask(&no.and(yes)), false),
            (ask(&no.or(yes)), true),
            (ask(&yes.or(no)), true),
            (ask(&no.or(no)), false),
            (ask(&yes.not()), false),
            (ask(&no.not()), true),
            (ask(&no.or(yes).and(yes.not()).not()), true),
        ] {
            assert_eq!(result, passes);
        }
    }

    fn ask(predicate: &impl Predicate<u8>) -> bool {
        predicate.passes(&Event::Added(Arc::new(7)))
    }
}
