//! The trait of the crate `k8s_controller` that users implement.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use kube::Client;
use windlass_controller::{ExponentialBackoff, Outcome};

use super::{Action, Error};

/// Callbacks for the objects that a [`Controller`](super::Controller) watches. The signatures are
/// those of `k8s_controller`; [`ApplyCleanup`](windlass_controller::ApplyCleanup) has the contract.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::Client;
/// use windlass::k8s_controller::{Action, Context, Controller, watcher};
///
/// struct Pods;
///
/// #[async_trait::async_trait]
/// impl Context for Pods {
///     type Resource = Pod;
///     type Error = kube::Error;
///     const FINALIZER_NAME: &'static str = "example.com/pods";
///
///     async fn apply(&self, _: Client, pod: &Pod) -> Result<Option<Action>, kube::Error> {
///         println!("apply {:?}", pod.metadata.name);
///         Ok(None)
///     }
///
///     async fn cleanup(&self, _: Client, pod: &Pod) -> Result<Option<Action>, kube::Error> {
///         println!("clean up after {:?}", pod.metadata.name);
///         Ok(None)
///     }
/// }
///
/// fn pods(client: Client) -> Controller<Pods> {
///     Controller::namespaced_all(client, Pods, watcher::Config::default())
/// }
/// ```
///
/// A method for another kind does not compile:
///
/// ```compile_fail,E0053
/// # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// # use kube::Client;
/// # use windlass::k8s_controller::{Action, Context};
/// # struct Pods;
/// #[async_trait::async_trait]
/// impl Context for Pods {
///     type Resource = Pod;
/// #   type Error = kube::Error;
/// #   const FINALIZER_NAME: &'static str = "example.com/pods";
///     async fn apply(&self, _: Client, config: &ConfigMap) -> Result<Option<Action>, kube::Error> {
///         Ok(None)
///     }
/// #   async fn cleanup(&self, _: Client, pod: &Pod) -> Result<Option<Action>, kube::Error> {
/// #       Ok(None)
/// #   }
/// }
/// ```
///
/// Nor does a constructor of another scope, here for Pods, which have a namespace:
///
/// ```compile_fail,E0271
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube::Client;
/// # use windlass::k8s_controller::{Context, Controller, watcher};
/// fn pods<C>(client: Client, pods: C) -> Controller<C>
/// where
///     C: Context<Resource = Pod> + Send + Sync + 'static,
///     C::Error: Send + Sync + 'static,
/// {
///     Controller::cluster(client, pods, watcher::Config::default())
/// }
/// ```
///
/// and for Nodes, which have none:
///
/// ```compile_fail,E0271
/// # use k8s_openapi::api::core::v1::Node;
/// # use kube::Client;
/// # use windlass::k8s_controller::{Context, Controller, watcher};
/// fn nodes<C>(client: Client, nodes: C) -> Controller<C>
/// where
///     C: Context<Resource = Node> + Send + Sync + 'static,
///     C::Error: Send + Sync + 'static,
/// {
///     Controller::namespaced(client, nodes, "shop", watcher::Config::default())
/// }
/// ```
pub trait Context {
    /// The kind of the objects.
    type Resource: kube::Resource;

    /// The error of `apply` and `cleanup`.
    type Error: std::error::Error;

    /// The finalizer. It must be unique among the controllers of a kind.
    const FINALIZER_NAME: &'static str;

    /// Called when an object was created or changed.
    #[expect(
        clippy::type_complexity,
        reason = "the signature that `#[async_trait]` writes"
    )]
    fn apply<'life0, 'life1, 'async_trait>(
        &'life0 self,
        client: Client,
        resource: &'life1 Self::Resource,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Action>, Self::Error>> + Send + 'async_trait>>
    where
        Self: 'async_trait,
        'life0: 'async_trait,
        'life1: 'async_trait;

    /// Called when an object is marked for deletion. [`Action::requeue`] keeps the finalizer; `None`
    /// and [`Action::await_change`] remove it.
    #[expect(
        clippy::type_complexity,
        reason = "the signature that `#[async_trait]` writes"
    )]
    fn cleanup<'life0, 'life1, 'async_trait>(
        &'life0 self,
        client: Client,
        resource: &'life1 Self::Resource,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Action>, Self::Error>> + Send + 'async_trait>>
    where
        Self: 'async_trait,
        'life0: 'async_trait,
        'life1: 'async_trait;

    /// The action after a call that returned `None`. By default a requeue after a random delay from
    /// 40 to 60 minutes. After a clean-up it is not performed.
    fn success_action(&self, resource: &Self::Resource) -> Action {
        let _ = resource;
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Action(Outcome::requeue_between(minutes(40), minutes(60)))
    }

    /// The action after an error. By default a requeue with exponential backoff and jitter, at most
    /// after 256 seconds.
    fn error_action(
        self: Arc<Self>,
        resource: Arc<Self::Resource>,
        err: &Error<Self::Error>,
        consecutive_errors: u32,
    ) -> Action {
        let _ = (resource, err);
        let delay = ExponentialBackoff::K8S_CONTROLLER.random_delay_after(consecutive_errors);
        delay.map_or_else(Action::await_change, Action::requeue)
    }
}
