//! Reconcilers: one method for every action.

use std::future::Future;

use crate::{Filtered, Predicate};

mod failure;
mod outcome;
mod request;
mod state;
mod typed;

pub use self::{
    failure::Failure,
    outcome::Outcome,
    request::Request,
    state::State,
    typed::{CannotCastError, TypedReconciler},
};
pub(crate) use self::{
    failure::Retry,
    request::{Call, cast, of_kind},
};

/// Makes the world look as one object says it should.
///
/// # Contract
///
/// *Guaranteed.* It is called for each [`Action`](crate::Action) on each object of its kind, in
/// order, and never twice at once for one object. A call that failed is made again as the
/// retry policy says, with the [`State`] that the failed call left; a call that asks for it is
/// made again later.
///
/// *Required.* A call for a state that the world has already should change nothing: it may be
/// made again after a restart. A call may be dropped at any `await`, when the process stops
/// at once or the call takes too long; it is made again.
///
/// *Not guaranteed.* That the object is the newest: ask the API server where that matters, and
/// write with its `resourceVersion`.
///
/// Every `Fn(Request<K>) -> impl Future<Output = Result<Outcome, E>>` is a reconciler.
///
/// # Example
///
/// ```
/// use std::convert::Infallible;
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::{Outcome, Reconciler, Request};
///
/// struct Publish;
///
/// impl Reconciler<ConfigMap> for Publish {
///     type Error = Infallible;
///
///     async fn reconcile(&self, request: Request<ConfigMap>) -> Result<Outcome, Infallible> {
///         println!("{:?} {}", request.action(), request.key());
///         Ok(Outcome::done())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reconciler of `{K}`",
    label = "neither implements `Reconciler<{K}>` nor is a function of a `Request<{K}>`",
    note = "a closure is one in this form: `|request: Request<{K}>| async move {{ Ok::<_, E>(Outcome::done()) }}`",
    note = "`E` is any error, `anyhow::Error`, `Box<dyn Error + Send + Sync>` or `Failure`"
)]
pub trait Reconciler<K>: Send + Sync + 'static {
    /// What can go wrong: any error, or a [`Failure`] where a failed call has more to say.
    type Error: Into<Failure> + Send;

    /// Reconciles the object of `request`, and says when to look again.
    ///
    /// # Errors
    ///
    /// Whatever kept the world from its wanted state. The call is made again as the
    /// controller's retry policy says.
    fn reconcile(
        &self,
        request: Request<K>,
    ) -> impl Future<Output = Result<Outcome, Self::Error>> + Send;

    /// What an event must pass for it to be told: by default nothing, and more with each
    /// [`filter`](Self::filter).
    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        Vec::new()
    }

    /// The finalizer that it writes, if it is a wrapper that writes one.
    #[doc(hidden)]
    fn finalizer(&self) -> Option<&str> {
        None
    }

    /// Whether `event` passes its predicates.
    #[doc(hidden)]
    fn receives(&self, event: &windlass_informer::Event<K>) -> bool
    where
        K: 'static,
    {
        self.predicates().iter().all(|it| it.passes(event))
    }

    /// Whether the finalizer that it writes needs `event`, also if a predicate around it refuses
    /// that: the object is to be cleaned up, or its finalizer has changed. For wrappers that write
    /// a finalizer.
    #[doc(hidden)]
    fn needs(&self, event: &windlass_informer::Event<K>) -> bool {
        let _ = event;
        false
    }

    /// The next event of the object with `uid` is from a history before what this handler may
    /// remember of it: the API server was restored from a backup. For wrappers that remember
    /// versions.
    #[doc(hidden)]
    fn history_went_back(&self, uid: &str) {
        let _ = uid;
    }

    /// This reconciler, told of nothing but what passes `predicate`.
    fn filter<P: Predicate<K>>(self, predicate: P) -> Filtered<Self, P>
    where
        Self: Sized,
    {
        Filtered::new(self, predicate)
    }
}

// === impl Reconciler ===

impl<K, F, Fut, E> Reconciler<K> for F
where
    F: Fn(Request<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, E>> + Send,
    E: Into<Failure> + Send,
{
    type Error = E;

    fn reconcile(
        &self,
        request: Request<K>,
    ) -> impl Future<Output = Result<Outcome, Self::Error>> + Send {
        self(request)
    }
}
