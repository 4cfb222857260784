//! Reconcilers: one method for every action.

use std::future::Future;

use crate::{Filtered, FinalizerHook, Predicate};

mod failure;
mod outcome;
mod request;
mod state;
mod typed;

pub(crate) use self::{
    failure::Instructions,
    request::{Attempt, Call, of_kind, of_kind_uncached},
};
pub use self::{
    failure::{Failure, Retry},
    outcome::Outcome,
    request::Request,
    state::State,
    typed::{CannotCastError, TypedReconciler},
};

/// Brings the actual state in line with the desired state of one object.
///
/// # Contract
///
/// *Guaranteed.* It is called for each [`Action`](crate::Action) on each object of its kind, in
/// order, and never concurrently for one object. A failed call is repeated as the retry policy
/// decides, with the [`State`] that it left. A call that requests a requeue is repeated later.
///
/// *Required.* Calls are idempotent: a call may be repeated, for example after a restart. A call
/// may be dropped at any `await`, when the process stops immediately or the call exceeds its time
/// limit; then it is repeated.
///
/// *Not guaranteed.* That the object is the newest: the store can be ahead of the event. If that
/// matters, read it from the API server, and write with its `resourceVersion`.
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
    note = "a predicate that is a closure names the type of its argument: `|event: &Event<{K}>| true`",
    note = "`E` is any error, `anyhow::Error`, `Box<dyn Error + Send + Sync>` or `Failure`"
)]
pub trait Reconciler<K>: Send + Sync + 'static {
    /// The error type: any error, or a [`Failure`], which can carry more information.
    type Error: Into<Failure> + Send;

    /// Reconciles the object of `request`. Returns whether to requeue.
    ///
    /// # Errors
    ///
    /// The reason why the desired state was not reached. The call is repeated as the controller's
    /// retry policy decides.
    fn reconcile(
        &self,
        request: Request<K>,
    ) -> impl Future<Output = Result<Outcome, Self::Error>> + Send;

    /// The predicates that an event must pass. By default none; each [`filter`](Self::filter) adds
    /// one.
    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        vec![]
    }

    /// The finalizer of this reconciler, if it is a wrapper with a finalizer or contains one. By default
    /// none.
    ///
    /// A reconciler around a wrapper returns the finalizer of the wrapper ([`FinalizerHook`]). If it does
    /// not, each call of the wrapper fails.
    fn finalizer(&self) -> Option<FinalizerHook<'_, K>> {
        None
    }

    /// Calls this reconciler only for events that pass `predicate`.
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
