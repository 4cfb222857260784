//! Predicates: which events a handler receives.

use windlass_informer::Event;

mod changed;
mod combined;
mod filtered;

pub use self::{
    changed::{AnnotationsChanged, GenerationChanged, LabelsChanged, ResourceVersionChanged},
    combined::{And, Not, Or},
    filtered::Filtered,
};

/// Says of each event whether it is to be told.
///
/// Every `Fn(&Event<K>) -> bool` is a predicate. It is given to a handler or a mapper with
/// `filter`: of [`Reconciler`](crate::Reconciler::filter), of
/// [`Watcher`](crate::Watcher::filter), of [`Mapper`](crate::Mapper::filter).
///
/// # Contract
///
/// *Guaranteed.* It is asked when an event is about to be dispatched, outside of any lock, with
/// the old and the new object of an update; of several updates that were folded
/// ([`Coalescing`](crate::Coalescing)) with the oldest and the newest. For its handler, an event
/// that it does not let pass has not happened: pending calls stay, with the newest object, and so
/// do dead letters. Only a `Deleted` cancels them. The other handlers are called. Where a resync
/// was folded into an update that does not pass, it is asked about the resync. A predicate that
/// panics has let the event pass, and the panic is logged.
///
/// Around a wrapper that writes a finalizer, a predicate does not keep the events from the wrapper
/// that its finalizer needs ([`Filtered`]).
///
/// *Required.* That it looks at nothing but the event, and answers at once.
///
/// *Not guaranteed.* That it is asked about calls that are made again: those are about an event
/// that has passed.
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
/// controller.add_reconciler("configs", publish.filter(GenerationChanged.or(LabelsChanged)))?;
///
/// let published = |event: &Event<ConfigMap>| {
///     event.object().is_some_and(|object| object.data.is_some())
/// };
/// assert!(!published.passes(&Event::Added(Arc::default())));
/// controller.add_reconciler("configs", publish.filter(published))?;
/// # Ok::<(), windlass_controller::AddError>(())
/// ```
pub trait Predicate<K>: Send + Sync + 'static {
    /// Whether `event` is to be told.
    fn passes(&self, event: &Event<K>) -> bool;

    /// What passes this and `other`.
    #[must_use]
    fn and<P: Predicate<K>>(self, other: P) -> And<K, Self, P>
    where
        Self: Sized,
    {
        And::new(self, other)
    }

    /// What passes this or `other`.
    #[must_use]
    fn or<P: Predicate<K>>(self, other: P) -> Or<K, Self, P>
    where
        Self: Sized,
    {
        Or::new(self, other)
    }

    /// What does not pass this: of a predicate about updates, no other event either.
    #[must_use]
    fn not(self) -> Not<K, Self>
    where
        Self: Sized,
    {
        Not::new(self)
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
