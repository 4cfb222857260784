//! `CompositeHandler` and its asynchronous form: the code that computes children and status.

use std::future::{self, Future};

use kube::api::DynamicObject;
use serde_json::Value;
use windlass_controller::{Failure, HandlerError};

use crate::{FinalizeResponse, SyncRequest, SyncResponse};

/// Computes the children and the status of an object of kind `P`.
///
/// # Contract
///
/// *Guaranteed.*
/// - [`sync`](Self::sync) is called after each change of the parent's specification, labels or
///   annotations and after each change of a child, also those that the controller makes itself, until
///   nothing changes any more. A request has the newest objects of the stores, and does not change
///   during the call.
/// - No two calls for one parent overlap, also after one of them has exceeded the time limit. Calls
///   for different parents run concurrently. Each call runs on a thread on which it may block.
/// - The parent has the finalizer of the controller before the first call. When it is deleted,
///   [`finalize`](Self::finalize) is called instead of `sync` until it has finished, also if the
///   parent was deleted while no controller ran.
/// - An error changes no child.
///
/// *Required.* Calls are idempotent: a call is repeated after a crash, with the same state. Names of
/// children follow from the parent. The status is computed from the children in the request, not from
/// those in the response.
///
/// *Not guaranteed.* That a request has the results of the last response already. Another call
/// follows when it has.
///
/// Every `Fn(&SyncRequest<P>) -> Result<SyncResponse, E>` is a handler without a clean-up.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// use serde_json::json;
/// use windlass_composite::{CompositeHandler, SyncRequest, SyncResponse};
/// use windlass_controller::Failure;
///
/// struct Sites;
///
/// impl CompositeHandler<ConfigMap> for Sites {
///     fn sync(&self, request: &SyncRequest<ConfigMap>) -> Result<SyncResponse, Failure> {
///         let ready = request.children().of::<Pod>().exists("web");
///         let mut response = SyncResponse::new(json!({ "ready": ready }));
///         response.add_child(json!({
///             "apiVersion": "v1",
///             "kind": "Pod",
///             "metadata": { "name": "web" },
///             "spec": { "containers": [{ "name": "server", "image": "nginx:1" }] },
///         }))?;
///         Ok(response)
///     }
/// }
/// ```
///
/// Source: roperator, its trait `Handler`; metacontroller, its `CompositeController`.
#[doc(alias = "Handler")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` computes no children of objects of kind `{P}`",
    note = "a closure has this form: `|request: &SyncRequest<{P}>| Ok::<_, Failure>(SyncResponse::without_status())`"
)]
pub trait CompositeHandler<P = DynamicObject>: Send + Sync + 'static {
    /// Returns all children that the parent should have, and its status. Children that exist and are
    /// not in the response are deleted.
    ///
    /// # Errors
    ///
    /// The reason why the children are not known. Children and status stay as they are, except for
    /// what [`error_status`](Self::error_status) returns, and the call is repeated.
    fn sync(&self, request: &SyncRequest<P>) -> Result<SyncResponse, Failure>;

    /// Called for a parent that is marked for deletion. By default it finishes at once.
    ///
    /// If the parent disappeared although it had the finalizer, it is called with the last state, and
    /// its response is not written.
    ///
    /// # Errors
    ///
    /// The reason why the clean-up failed. The finalizer stays, and the call is repeated.
    fn finalize(&self, request: &SyncRequest<P>) -> Result<FinalizeResponse, Failure> {
        let _ = request;
        Ok(FinalizeResponse::finished())
    }

    /// The status after a call failed, panicked or exceeded its time limit. Children stay as they
    /// are. By default `None`: nothing is written. It is called while a call that has exceeded its limit
    /// still runs.
    ///
    /// It is not called for children that the API server refuses: an Event about the parent shows these.
    fn error_status(&self, request: &SyncRequest<P>, error: &HandlerError) -> Option<Value> {
        let _ = (request, error);
        None
    }
}

/// A [`CompositeHandler`] whose methods are asynchronous, for example because they ask another
/// system. Its contract is the same, except that calls must not block their thread, and that a call
/// that exceeds its time limit is dropped.
#[doc(alias = "AsyncHandler")]
pub trait AsyncCompositeHandler<P = DynamicObject>: Send + Sync + 'static {
    /// Like [`CompositeHandler::sync`].
    ///
    /// # Errors
    ///
    /// Like [`CompositeHandler::sync`].
    fn sync(
        &self,
        request: SyncRequest<P>,
    ) -> impl Future<Output = Result<SyncResponse, Failure>> + Send;

    /// Like [`CompositeHandler::finalize`].
    ///
    /// # Errors
    ///
    /// Like [`CompositeHandler::finalize`].
    fn finalize(
        &self,
        request: SyncRequest<P>,
    ) -> impl Future<Output = Result<FinalizeResponse, Failure>> + Send {
        let _ = request;
        future::ready(Ok(FinalizeResponse::finished()))
    }

    /// Like [`CompositeHandler::error_status`].
    fn error_status(
        &self,
        request: SyncRequest<P>,
        error: &HandlerError,
    ) -> impl Future<Output = Option<Value>> + Send {
        let _ = (request, error);
        future::ready(None)
    }
}

// === impl CompositeHandler ===

impl<P, F, E> CompositeHandler<P> for F
where
    F: Fn(&SyncRequest<P>) -> Result<SyncResponse, E> + Send + Sync + 'static,
    E: Into<Failure>,
{
    fn sync(&self, request: &SyncRequest<P>) -> Result<SyncResponse, Failure> {
        self(request).map_err(Into::into)
    }
}
