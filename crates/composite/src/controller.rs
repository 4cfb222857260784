//! `CompositeController`: watches parents and children, and calls a handler.

mod builder;

use std::{fmt, sync::Arc};

use kube::Client;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    Controller, Fence, InformerController, Informers, RunError, Runnable, Watch, Watchable,
};

pub use self::builder::CompositeBuilder;
use crate::threads::Threads;

/// Calls a [`CompositeHandler`](crate::CompositeHandler) for each parent of kind `P`, and writes what
/// it returns.
///
/// # Contract
///
/// *Guaranteed.* What [`CompositeHandler`](crate::CompositeHandler) and [`Controller`] say, and:
/// - **Order.** All children of a response are checked before anything is written. Then they are
///   applied in order; an error of one does not prevent the others. If all were applied, children that
///   are not in the response are deleted. Then the status is applied.
/// - **Identity.** A child is an object whose controller is the parent, by uid. Other objects of its
///   name are neither changed nor deleted.
/// - **Fields.** Children and status are written by server-side apply: fields of other writers stay,
///   and fields that a later response does not have are removed. A child that is as desired causes no
///   request, except once after a start.
/// - **Tear-down.** A parent disappears after its children in other namespaces have disappeared. The
///   children of a parent that is deleted with `foregroundDeletion` or `orphan` are left to the
///   garbage collector.
///
/// - **Events.** Children that were not written or deleted are shown in an Event about the parent, with
///   the reason `NotWritten`, and those that another writer reverts in one with the reason
///   `ChildContended`.
///
/// *Required.* It is run once. No two controllers of a cluster have one name. The permissions to
/// list, watch, get, create, patch and delete children, to list, watch, get and patch parents, to patch
/// their status, and to get, create and patch Events of `events.k8s.io`.
///
/// # Example
///
/// ```no_run
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
/// use windlass_composite::{ChildConfig, CompositeController, SyncRequest, SyncResponse};
/// use windlass_controller::{Failure, Watch};
///
/// fn sync(request: &SyncRequest<ConfigMap>) -> Result<SyncResponse, Failure> {
///     println!("{} has {} children", request.key(), request.children().count());
///     Ok(SyncResponse::without_status())
/// }
///
/// # fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let controller = CompositeController::builder(client, "sites", Watch::all())
///     .finalizer("example.io/sites")
///     .child::<Deployment>(ChildConfig::apply())
///     .build(sync)?;
/// # drop(controller);
/// # Ok(())
/// # }
/// ```
#[must_use = "a controller does nothing until it is run"]
pub struct CompositeController<P: Watchable> {
    controller: Controller<P>,
    threads: Arc<Threads>,
}

// === impl CompositeController ===

impl<P: Watchable + Serialize> CompositeController<P> {
    /// Returns a builder of a controller for the objects of `parents`. `name` is the field manager of
    /// all writes, the label `app.kubernetes.io/managed-by` of the children, and the label `controller`
    /// of the metrics.
    ///
    /// The children are watched by that label. A program with another name, or another field manager,
    /// does not see the existing children before it has applied them: those that no response has any
    /// more stay, and no fields of them are removed. To rename a metric only, set the name in
    /// [`with_controller`](CompositeBuilder::with_controller), and the field manager to the earlier name.
    pub fn builder(
        client: Client,
        name: impl Into<String>,
        parents: Watch<P>,
    ) -> CompositeBuilder<P> {
        CompositeBuilder::new(client, name.into(), parents)
    }
}

impl<P: Watchable> CompositeController<P> {
    pub(crate) const fn new(controller: Controller<P>, threads: Arc<Threads>) -> Self {
        Self {
            controller,
            threads,
        }
    }

    /// The name of the controller.
    #[must_use]
    pub fn name(&self) -> &str {
        self.controller.name()
    }

    /// The informers of the parents.
    #[must_use]
    pub const fn informers(&self) -> &Informers<P> {
        self.controller.informers()
    }

    /// Runs until `stop` is cancelled, like [`Controller::run`], and then until the last call of the
    /// handler has returned, also one that had exceeded its time limit.
    ///
    /// # Errors
    ///
    /// [`RunError`] like [`Controller::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all writes in progress. Calls on threads run to their end.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), RunError> {
        let ended = self.controller.run(stop).await;
        self.threads.idle().await;
        ended
    }
}

impl<P: Watchable> Runnable for CompositeController<P> {
    type Error = RunError;

    fn name(&self) -> &str {
        self.name()
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), RunError> {
        self.run(stop).await
    }

    fn set_fence(&self, fence: &Fence) {
        self.controller.set_fence(fence);
    }

    fn informer_controller(&self) -> Option<InformerController> {
        self.controller.informer_controller()
    }
}

impl<P: Watchable> fmt::Debug for CompositeController<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompositeController")
            .field("controller", &self.controller)
            .finish_non_exhaustive()
    }
}
