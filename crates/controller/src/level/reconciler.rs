//! `ObjectReconciler`: the code that a `Controller` calls for an object.

use std::future::{self, Future};

use super::Context;
use crate::{Failure, HandlerError, Outcome, Retry};

/// Brings the actual state in line with the desired state of one object.
///
/// # Contract
///
/// [`Controller`](super::Controller) says when calls begin, and with which object. With a finalizer,
/// [`cleanup`](Self::cleanup) succeeds before the object disappears, unless the object [leaves the
/// selector](super::ControllerBuilder::on_selector_exit). If another writer removes the finalizer, it is
/// called with the last state.
///
/// *Required.* Each call is idempotent: it can be repeated, for example after a restart, and can be
/// dropped at any `await`, when the process stops immediately or the call exceeds its time limit.
///
/// *Not guaranteed.* A call for the deletion of an object without a finalizer: use a
/// [`Watcher`](crate::Watcher) for that. An object that is marked for deletion is passed to `cleanup`
/// and never to `reconcile`.
///
/// Every `Fn(Context<K>) -> impl Future<Output = Result<Outcome, E>>` is an `ObjectReconciler`
/// without a clean-up.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::{Context, Failure, ObjectReconciler, Outcome};
///
/// struct Publish;
///
/// impl ObjectReconciler<ConfigMap> for Publish {
///     type Error = Failure;
///
///     async fn reconcile(&self, cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
///         println!("publish {}", cx.key());
///         Ok(Outcome::done())
///     }
///
///     async fn cleanup(&self, cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
///         println!("remove {}", cx.key());
///         Ok(Outcome::done())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not reconcile objects of kind `{K}`",
    label = "neither implements `ObjectReconciler<{K}>` nor is a function of a `Context<{K}>`",
    note = "a closure has this form: `|cx: Context<{K}>| async move {{ Ok::<_, Failure>(Outcome::done()) }}`",
    note = "the error is any error, `anyhow::Error`, `Box<dyn Error + Send + Sync>` or `Failure`; the future must be `Send`"
)]
pub trait ObjectReconciler<K: super::Watchable>: Send + Sync + 'static {
    /// The error type: any error, or a [`Failure`], which can carry more information.
    type Error: Into<Failure> + Send;

    /// Reconciles the object of `cx`. Returns when to reconcile it again.
    ///
    /// # Errors
    ///
    /// The reason why the desired state was not reached. The call is repeated as
    /// [`failed`](Self::failed) decides.
    fn reconcile(
        &self,
        cx: Context<K>,
    ) -> impl Future<Output = Result<Outcome, Self::Error>> + Send;

    /// Removes what an object that is marked for deletion has outside of its owned objects. Only
    /// called with a [`finalizer`](super::ControllerBuilder::finalizer).
    ///
    /// The finalizer is removed after it has returned [`Outcome::done`]. With
    /// [`Outcome::requeue_after`] or [`Outcome::unfinished`] it has not finished and is called again.
    ///
    /// # Errors
    ///
    /// The reason why it has not finished. The call is repeated as [`failed`](Self::failed) decides.
    fn cleanup(&self, cx: Context<K>) -> impl Future<Output = Result<Outcome, Self::Error>> + Send {
        _ = cx;
        future::ready(Ok(Outcome::done()))
    }

    /// Called after a call failed, panicked or exceeded its time limit, for example to write the
    /// error into the status. Returns when to repeat the call; by default the retry policy decides.
    ///
    /// The error of [`reconcile`](Self::reconcile) is the source of `error`:
    /// [`ErrorChain`](windlass_informer::ErrorChain) shows both.
    ///
    /// It has the same time limit as a call. A panic of it is logged, and the retry policy decides.
    fn failed(&self, cx: &Context<K>, error: &HandlerError) -> impl Future<Output = Retry> + Send {
        _ = (cx, error);
        future::ready(Retry::Policy)
    }

    /// Whether `object` needs the finalizer: whether there can be something to clean up. By default
    /// true. The finalizer is removed from an object that does not need it any more.
    fn needs_finalizer(&self, object: &K) -> bool {
        _ = object;
        true
    }
}

// === impl ObjectReconciler ===

impl<K, F, Fut, E> ObjectReconciler<K> for F
where
    K: super::Watchable,
    F: Fn(Context<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, E>> + Send,
    E: Into<Failure> + Send,
{
    type Error = E;

    fn reconcile(&self, cx: Context<K>) -> impl Future<Output = Result<Outcome, E>> + Send {
        self(cx)
    }
}
