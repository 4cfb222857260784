//! `Filtered`: a handler or mapper with a predicate.

use std::{future::Future, sync::Arc};

use windlass_informer::{DecodeError, LazyObject, ObjectKey};

use super::Predicate;
use crate::{FinalizerHook, Mapper, Outcome, Reconciler, Request, Watcher};

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
/// let controller = InformerController::new();
/// let services = controller.kind::<Service>("services")?;
/// controller.add_reconciler(&services, publish)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a handler does nothing until it is added to a controller"]
pub struct Filtered<H, P> {
    handler: H,
    predicate: P,
}

// === impl Filtered ===

impl<H, P> Filtered<H, P> {
    pub(crate) const fn new(handler: H, predicate: P) -> Self {
        Self { handler, predicate }
    }

    /// Adds the predicate to the `inner` ones of the handler. The one that was added last is called
    /// first.
    fn all<'p, K>(&'p self, mut inner: Vec<&'p dyn Predicate<K>>) -> Vec<&'p dyn Predicate<K>>
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

        fn finalizer(&self) -> Option<FinalizerHook<'_, K>> {
            self.handler.finalizer()
        }
    };
}

impl<K, W, P> Watcher<K> for Filtered<W, P>
where
    K: Send + Sync + 'static,
    W: Watcher<K>,
    P: Predicate<K>,
{
    type Error = W::Error;

    fn add(&self, object: Arc<K>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.handler.add(object)
    }

    fn update(
        &self,
        old: Arc<K>,
        new: Arc<K>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.handler.update(old, new)
    }

    fn delete(&self, last: Arc<K>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.handler.delete(last)
    }

    fn resync(&self, object: Arc<K>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.handler.resync(object)
    }

    filtered_hooks!();
}

impl<K, R: Reconciler<K>, P: Predicate<K>> Reconciler<K> for Filtered<R, P> {
    type Error = R::Error;

    fn reconcile(
        &self,
        request: Request<K>,
    ) -> impl Future<Output = Result<Outcome, Self::Error>> + Send {
        self.handler.reconcile(request)
    }

    filtered_hooks!();
}

impl<K, M: Mapper<K>, P: Predicate<K>> Mapper<K> for Filtered<M, P> {
    fn keys(&self, object: &K) -> impl IntoIterator<Item = ObjectKey> {
        self.handler.keys(object)
    }

    fn keys_before(&self, old: &LazyObject<K>) -> Result<Vec<ObjectKey>, DecodeError>
    where
        K: Send + Sync + 'static,
    {
        self.handler.keys_before(old)
    }

    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        self.all(self.handler.predicates())
    }
}
