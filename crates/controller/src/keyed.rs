//! `KeyedResource`: keeps something else in step with a kind, by the keys of its objects.

use std::{fmt, future::Future, marker::PhantomData, sync::Arc};

use windlass_informer::{Informer, ObjectKey};

use crate::Failure;

mod background;
mod calls;
mod controller;
mod test_run;

pub use self::{
    background::Background,
    controller::ResourceController,
    test_run::{TestRun, test_controller_run},
};

/// What to do when an object exists, and when it does not exist any more.
///
/// For handlers that find their results by the key of the object, for example entries of a registry
/// that are called like the Service. A [`ResourceController`] calls it.
///
/// # Contract
///
/// *Guaranteed.*
/// - **Newest.** [`upsert`](Self::upsert) gets the object that the store has when the call begins,
///   also in a retry, and is not called for an object that was deleted.
/// - **By key.** [`delete`](Self::delete) is called when no object has the key. If an object is
///   deleted and created again before its delete was processed, only `upsert` is called.
/// - **Serialized per key.** No two calls for one key overlap, of `upsert` and `delete` together.
/// - **No delete is missed** while the controller runs: also a delete that only a relist shows.
///
/// *Required.* Calls are idempotent. After a restart `upsert` is called for each object.
///
/// *Not guaranteed.* A `delete` for an object that was deleted while no controller ran, or whose
/// `delete` failed six times; remove such leftovers in [`background`](Self::background), or use a
/// model with a finalizer. A call for an object that existed only for a moment. After a relist,
/// `delete` can be called twice for a key whose object was recreated and deleted.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::Service;
/// use windlass_controller::{Failure, KeyedResource};
/// use windlass_informer::{Informer, ObjectKey};
///
/// struct Services {
///     informer: Informer<Service>,
/// }
///
/// impl KeyedResource for Services {
///     type Object = Service;
///
///     fn informer(&self) -> Informer<Service> {
///         self.informer.clone()
///     }
///
///     async fn upsert(&self, key: &ObjectKey, service: Arc<Service>) -> Result<(), Failure> {
///         println!("register {key}: {:?}", service.spec.as_ref().map(|it| &it.cluster_ip));
///         Ok(())
///     }
///
///     async fn delete(&self, key: &ObjectKey, _last: Arc<Service>) -> Result<(), Failure> {
///         println!("deregister {key}");
///         Ok(())
///     }
/// }
/// ```
///
/// Source: consul-k8s, `helper/controller`, its `Resource`.
#[doc(alias = "Resource")]
#[doc(alias = "Backgrounder")]
pub trait KeyedResource: Send + Sync + 'static {
    /// The kind of the objects.
    type Object: kube::Resource + Send + Sync + 'static;

    /// The informer of the objects. It is called once for each run, and the controller runs the
    /// informer.
    fn informer(&self) -> Informer<Self::Object>;

    /// Brings what has this key in line with `object`. Called for each object at the start, after
    /// each change, and at each resync.
    ///
    /// # Errors
    ///
    /// The reason why that failed. The call is repeated with the newest object, as the retry policy
    /// of the controller decides.
    fn upsert(
        &self,
        key: &ObjectKey,
        object: Arc<Self::Object>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Removes what has this key. `last` is the last known state of the object, which may be
    /// outdated.
    ///
    /// # Errors
    ///
    /// The reason why that failed. The call is repeated with the same state, as the retry policy of
    /// the controller decides, until an object with this key is created.
    fn delete(
        &self,
        key: &ObjectKey,
        last: Arc<Self::Object>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Runs beside the controller: started before the first event, and awaited before
    /// [`ResourceController::run`] returns. By default it ends at once, which has no effect on the
    /// controller.
    ///
    /// It must end soon after [`Background::stop`] is cancelled: when the controller is stopped, and
    /// when it fails. If it panics, the run ends with
    /// [`RunError::Background`](crate::RunError::Background).
    fn background(&self, scope: Background) -> impl Future<Output = ()> + Send {
        let _ = scope;
        async {}
    }
}

/// A [`KeyedResource`] of two functions, created by [`new_resource`].
pub struct FnResource<K: kube::Resource + Send + Sync + 'static, U, D> {
    informer: Informer<K>,
    upsert: U,
    delete: D,
    of: PhantomData<fn(K)>,
}

/// Creates a resource from an informer and two functions of a key and an object.
///
/// # Example
///
/// ```
/// use std::{convert::Infallible, sync::Arc};
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::{ResourceController, new_resource};
/// use windlass_informer::{Informer, ObjectKey, Scripted};
///
/// let configs = Informer::new(Scripted::<ConfigMap>::new().1);
/// let upsert = |key: ObjectKey, config: Arc<ConfigMap>| async move {
///     println!("{key}: {:?}", config.data);
///     Ok::<_, Infallible>(())
/// };
/// let delete = |key: ObjectKey, _last| async move {
///     println!("{key} was deleted");
///     Ok::<_, Infallible>(())
/// };
/// let controller = ResourceController::new(new_resource(configs, upsert, delete));
/// assert!(!controller.has_synced(), "it does not run");
/// ```
#[doc(alias = "NewResource")]
pub fn new_resource<K, U, UF, UE, D, DF, DE>(
    informer: Informer<K>,
    upsert: U,
    delete: D,
) -> FnResource<K, U, D>
where
    K: kube::Resource + Send + Sync + 'static,
    U: Fn(ObjectKey, Arc<K>) -> UF + Send + Sync + 'static,
    UF: Future<Output = Result<(), UE>> + Send,
    UE: Into<Failure>,
    D: Fn(ObjectKey, Arc<K>) -> DF + Send + Sync + 'static,
    DF: Future<Output = Result<(), DE>> + Send,
    DE: Into<Failure>,
{
    FnResource {
        informer,
        upsert,
        delete,
        of: PhantomData,
    }
}

// === impl FnResource ===

impl<K, U, UF, UE, D, DF, DE> KeyedResource for FnResource<K, U, D>
where
    K: kube::Resource + Send + Sync + 'static,
    U: Fn(ObjectKey, Arc<K>) -> UF + Send + Sync + 'static,
    UF: Future<Output = Result<(), UE>> + Send,
    UE: Into<Failure>,
    D: Fn(ObjectKey, Arc<K>) -> DF + Send + Sync + 'static,
    DF: Future<Output = Result<(), DE>> + Send,
    DE: Into<Failure>,
{
    type Object = K;

    fn informer(&self) -> Informer<K> {
        self.informer.clone()
    }

    async fn upsert(&self, key: &ObjectKey, object: Arc<K>) -> Result<(), Failure> {
        (self.upsert)(key.clone(), object).await.map_err(Into::into)
    }

    async fn delete(&self, key: &ObjectKey, last: Arc<K>) -> Result<(), Failure> {
        (self.delete)(key.clone(), last).await.map_err(Into::into)
    }
}

impl<K: kube::Resource + Send + Sync + 'static, U, D> fmt::Debug for FnResource<K, U, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnResource")
            .field("informer", &self.informer)
            .finish_non_exhaustive()
    }
}
