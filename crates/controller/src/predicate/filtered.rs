//! `Filtered`: a handler or mapper with a predicate.

use super::Predicate;

/// A watcher, a reconciler or a mapper that only receives events that pass a predicate. The method
/// `filter` of these traits creates it.
///
/// The `filter` of a wrapper with a finalizer
/// ([`OpinionatedReconciler::filter`](crate::OpinionatedReconciler::filter)) returns no `Filtered`:
/// it adds the predicate to the inner handler, and the wrapper still receives all events. A
/// `Filtered` around such a wrapper also passes the events that the finalizer needs: those of an
/// object that has to be cleaned up, and those in which the finalizer has changed.
///
/// # Example
///
/// ```
/// use std::convert::Infallible;
///
/// use k8s_openapi::api::core::v1::Service;
/// use windlass_controller::{
///     FinalizerName, Finalizers, GenerationChanged, InformerController, OpinionatedReconciler,
///     Outcome, Reconciler, Request,
/// };
///
/// # fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let publish = |request: Request<Service>| async move {
///     println!("{:?} {}", request.action(), request.key());
///     Ok::<_, Infallible>(Outcome::done())
/// };
/// let finalizers = Finalizers::new(client, FinalizerName::new("example.io/publisher")?)?;
/// let publish = OpinionatedReconciler::new(finalizers, publish.filter(GenerationChanged));
/// InformerController::new().add_reconciler("services", publish)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a handler does nothing until it is added to a controller"]
pub struct Filtered<H, P> {
    pub(crate) handler: H,
    pub(crate) predicate: P,
}

// === impl Filtered ===

impl<H, P> Filtered<H, P> {
    pub(crate) const fn new(handler: H, predicate: P) -> Self {
        Self { handler, predicate }
    }

    /// Adds the predicate to the `inner` ones of the handler. The one that was added last is called
    /// first.
    pub(crate) fn all<'p, K>(
        &'p self,
        mut inner: Vec<&'p dyn Predicate<K>>,
    ) -> Vec<&'p dyn Predicate<K>>
    where
        P: Predicate<K>,
    {
        inner.insert(0, &self.predicate);
        inner
    }
}

/// The methods that watchers and reconcilers have in common.
macro_rules! filtered_hooks {
    () => {
        fn predicates(&self) -> Vec<&dyn Predicate<K>> {
            self.all(self.handler.predicates())
        }

        fn finalizer(&self) -> Option<&str> {
            self.handler.finalizer()
        }

        fn receives(&self, event: &Event<K>) -> bool
        where
            K: 'static,
        {
            (self.predicate.passes(event) || self.handler.needs(event))
                && self.handler.receives(event)
        }

        fn needs(&self, event: &Event<K>) -> bool {
            self.handler.needs(event)
        }

        fn history_went_back(&self, uid: &str) {
            self.handler.history_went_back(uid);
        }
    };
}

pub(crate) use filtered_hooks;
