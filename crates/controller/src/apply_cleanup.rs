//! `ApplyCleanup`: one method for objects that exist, and one for those that are being deleted.

use std::{fmt::Debug, future::Future, sync::Arc, time::Duration};

use kube::{Client, Resource};
use serde::{Serialize, de::DeserializeOwned};

use crate::{ExponentialBackoff, Outcome};

mod calls;
mod controller;
mod error;

pub use self::{controller::ApplyCleanupController, error::ApplyCleanupError};

/// Applies each object of a kind, and cleans up after it before it is deleted.
///
/// For one kind with effects outside of the cluster, whose clean-up must not be lost. An
/// [`ApplyCleanupController`] calls it.
///
/// # Contract
///
/// *Guaranteed.*
/// - An object has the finalizer [`FINALIZER_NAME`](Self::FINALIZER_NAME), and no other form of that
///   name, before [`apply`](Self::apply) is called. `apply` gets the object with the finalizer.
/// - [`cleanup`](Self::cleanup) is called for an object that is marked for deletion and has the
///   finalizer, and `apply` is not. The finalizer is removed after `cleanup` has succeeded, and not
///   before, except for that of an object that leaves the selector
///   ([`ApplyCleanupController::on_selector_exit`]). An object that is marked for deletion without the
///   finalizer gets no call.
/// - At the start `apply` is called for each object, without a patch if it has the finalizer.
/// - No two calls for one object overlap. A call gets the newest dispatched state.
///
/// *Required.* Calls are idempotent: a call may be repeated. A call may be dropped at any `await`.
///
/// *Not guaranteed.* That `apply` was called or succeeded before `cleanup`.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::Client;
/// use windlass_controller::{ApplyCleanup, Outcome};
///
/// struct Publish;
///
/// impl ApplyCleanup for Publish {
///     type Resource = ConfigMap;
///     type Error = kube::Error;
///     const FINALIZER_NAME: &'static str = "example.com/publish";
///
///     async fn apply(
///         &self,
///         _client: Client,
///         config: &ConfigMap,
///     ) -> Result<Option<Outcome>, kube::Error> {
///         println!("publish {:?}", config.metadata.name);
///         Ok(None)
///     }
///
///     async fn cleanup(
///         &self,
///         _client: Client,
///         config: &ConfigMap,
///     ) -> Result<Option<Outcome>, kube::Error> {
///         println!("withdraw {:?}", config.metadata.name);
///         Ok(None)
///     }
/// }
/// ```
///
/// Source: `k8s_controller`, its trait `Context`.
#[doc(alias = "Context")]
pub trait ApplyCleanup: Send + Sync + 'static {
    /// The kind of the objects.
    type Resource: Resource<DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static;

    /// The error of [`apply`](Self::apply) and [`cleanup`](Self::cleanup).
    type Error: std::error::Error + Send + Sync + 'static;

    /// The finalizer. No other controller of the kind may have it.
    const FINALIZER_NAME: &'static str;

    /// Called when an object was created or changed, and at a requeue. `None` means
    /// [`success_outcome`](Self::success_outcome).
    ///
    /// `client` is that of the controller. It sends no write after the lease of the operator has
    /// ended.
    ///
    /// # Errors
    ///
    /// The reason why the desired state was not reached. [`error_outcome`](Self::error_outcome)
    /// decides about the retry.
    fn apply(
        &self,
        client: Client,
        object: &Self::Resource,
    ) -> impl Future<Output = Result<Option<Outcome>, Self::Error>> + Send;

    /// Called when an object is marked for deletion. `None` and [`Outcome::done`] mean that the
    /// clean-up has finished: the finalizer is removed. [`Outcome::requeue_after`] means that it has
    /// not: the finalizer stays, and the call is repeated. For `None`
    /// [`success_outcome`](Self::success_outcome) is called too, and its result is not used.
    ///
    /// # Errors
    ///
    /// The reason why the clean-up failed. The finalizer stays.
    /// [`error_outcome`](Self::error_outcome) decides about the retry.
    fn cleanup(
        &self,
        client: Client,
        object: &Self::Resource,
    ) -> impl Future<Output = Result<Option<Outcome>, Self::Error>> + Send;

    /// The outcome of a call that returned `None`. By default a requeue after a random delay from
    /// 40 to 60 minutes.
    #[doc(alias = "success_action")]
    fn success_outcome(&self, object: &Self::Resource) -> Outcome {
        let _ = object;
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Outcome::requeue_between(minutes(40), minutes(60))
    }

    /// What follows from an error of a call, or of a write of the finalizer: a retry after the delay
    /// of the outcome, or for [`Outcome::done`] no call before the next event.
    ///
    /// `consecutive_errors` is the number of earlier errors for this object (its uid) since its last
    /// success or the start of the process. Not called for panics and time-outs, which the retry
    /// policy of the controller decides, and not for writes that a lease refused. By default an
    /// exponential backoff: 1 to 2 seconds, doubled for each error, at most 256 seconds.
    #[doc(alias = "error_action")]
    fn error_outcome(
        self: Arc<Self>,
        object: Arc<Self::Resource>,
        error: &ApplyCleanupError<Self::Error>,
        consecutive_errors: u32,
    ) -> Outcome {
        let _ = (object, error);
        let delay = ExponentialBackoff::K8S_CONTROLLER.random_delay_after(consecutive_errors);
        delay.map_or_else(Outcome::done, Outcome::requeue_after)
    }
}
